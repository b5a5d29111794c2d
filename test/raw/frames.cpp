// Frames of chunks, ECF's and columns compressed by LZF, cut anywhere, against the reference; what is malformed in them; and files of
// Metavision's own encoder. Only the device decodes them.
#include "raw/support.hpp"

#include "cusight/eventio.h"

using namespace raw_test;
using reference::Events;

namespace {

cusEventDecoderOptions frameOptions(cusEventFormat format, cusBadEvents bad = CUS_BAD_EVENTS_STOP, int width = 1280,
                                    int height = 720) {
    return optionsOf({format, 0, cusEventFormatName(format)}, CUS_DEVICE, bad, width, height);
}

const char *const CHECK = "cusEventDecoderCheck";

// A chunk of e in the format's simplest form.
Bytes chunkOf(cusEventFormat format, const Events &e, std::mt19937_64 &random) {
    return format == CUS_EVENTS_HDF5 ? reference::encodeColumns(e, {}, random)
                                     : reference::encodeEcf(e, reference::Packing::ALL, random, false);
}

// Ten events of the times 0 to 9.
Events tenEvents() {
    Events e;
    for (unsigned i = 0; i < 10; ++i)
        e.add(i, i, 3, 1);
    return e;
}

class RawFrames : public testing::TestWithParam<cusEventFormat> {
  protected:
    void SetUp() override { CUS_NEEDS(CUS_DEVICE); }
    cusEventFormat format() const { return GetParam(); }
    bool lzf() const { return format() == CUS_EVENTS_HDF5; }
    cusEventDecoderOptions options(cusBadEvents bad = CUS_BAD_EVENTS_STOP, int width = 1280, int height = 720) const {
        return frameOptions(format(), bad, width, height);
    }
    Bytes frames(size_t n, const Damage &damage, std::mt19937_64 &random) const {
        return randomFrames(n, damage, random, 1280, 720, format());
    }

    void check(Bench &bench, cusEventDecoder *decoder, const cusEventDecoderOptions &options, const Bytes &stream,
               std::mt19937_64 &random, size_t most_bytes, size_t least, size_t most_events) {
        reference::Frames expected(options);
        expected.run(stream);
        const Result got = bench.decode(decoder, stream, random, most_bytes, least, most_events);
        ASSERT_NO_FATAL_FAILURE(checkEquals(got, expected, CHECK));
        const cusStatus finished = cusEventDecoderFinish(decoder, nullptr);
        ASSERT_EQ(finished, expected.status == CUS_ERROR_TRUNCATED ? CUS_ERROR_TRUNCATED : CUS_OK) << cusLastError();
        if (finished != CUS_OK)
            ASSERT_EQ(std::string("cusEventDecoderFinish: the recording ends at byte ") + std::to_string(stream.size()) +
                          ", within a frame of " + cusEventFormatName(format()) + " that starts at byte " +
                          std::to_string(expected.at),
                      cusLastError());
    }
};
INSTANTIATE_TEST_SUITE_P(, RawFrames, testing::Values(CUS_EVENTS_METAVISION, CUS_EVENTS_HDF5), [](const auto &test) {
    return std::string("cuda_") + (test.param == CUS_EVENTS_HDF5 ? "LZF" : "ECF");
});

// What only columns have, and what only Metavision's files have.
class RawColumns : public support::SpaceTest {};
INSTANTIATE_TEST_SUITE_P(, RawColumns, testing::Values(CUS_DEVICE), support::spaceName);
class RawFramesOfFiles : public support::SpaceTest {};
INSTANTIATE_TEST_SUITE_P(, RawFramesOfFiles, testing::Values(CUS_DEVICE), support::spaceName);

const Damage DAMAGES[] = {{}, {0, 3, 0, 3, 0}, {0, 0, 100, 0, 0}, {0, 0, 0, 0, 30}, {0, 20, 100, 20, 10}};

} // namespace

TEST_P(RawFrames, InPiecesEqualTheReference) {
    auto random = support::generator();
    Bench bench(CUS_DEVICE, 1 << 21, 1 << 18);
    size_t bad_chunks = 0, bad_events = 0;
    const size_t enough = 5 / size_t(support::fewer()); // of each kind of damage, found by the reference
    for (int round = 0; round < 400 / support::fewer() || bad_chunks <= enough || bad_events <= enough; ++round) {
        const auto bad = cusBadEvents(round % 2);
        const Damage &damage = DAMAGES[size_t(round / 2) % std::size(DAMAGES)];
        const size_t n = random() % (round % 20 == 0 ? 100000 : 5000);
        const bool of_known_size = random() % 3;
        const auto options = this->options(bad, of_known_size ? 1280 : 0, of_known_size ? 720 : 0);
        const Bytes stream = frames(n, damage, random);
        if (stream.size() > 1 << 21)
            continue;
        reference::Frames expected(options);
        expected.run(stream);
        bad_chunks += expected.message.find("byte") == 0;
        bad_events +=
            expected.message.find("event") == 0 || expected.counts.bad_coordinates || expected.counts.bad_polarity;
        SCOPED_TRACE("round " + std::to_string(round));
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 1 << 21, 1 << 18, 1 << 18)); // whole
        ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 9000, 0, 3000));
        ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 1 + random() % 100000, 0, 70000));
    }
}

// Bytes of streams changed anywhere: no access outside, and the reference's errors.
TEST_P(RawFrames, DamagedAnywhere) {
    auto random = support::generator();
    Bench bench(CUS_DEVICE, 1 << 18, 1 << 17);
    for (int round = 0; round < 2000 / support::fewer(); ++round) {
        const auto options = this->options(cusBadEvents(round % 2));
        Bytes stream = frames(1 + random() % 300, {0, 5, 20, 5, 100}, random);
        for (size_t k = random() % 4; k--;)
            stream[random() % stream.size()] ^= uint8_t(1 << random() % 8);
        if (stream.size() > 1 << 18)
            continue;
        SCOPED_TRACE("round " + std::to_string(round));
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 1 + random() % 5000, 0, 400));
    }
}

// The largest chunk, in every form; and one with runs as long as they can be.
TEST_P(RawFrames, LargeChunks) {
    auto random = support::generator();
    Bench bench(CUS_DEVICE, 1 << 21, 1 << 18);
    const auto options = this->options();
    for (int kind = 0; kind < 7; ++kind) {
        const size_t n = kind < 3 ? 65535 : 65533;
        Events e = kind == 6 ? Events() : lzf() ? columnsEvents(n, random, 1280, 720, 0) : reference::ecfEvents(n, random);
        while (e.size() < 65535)
            e.add(e.size() ? e.t.back() : 77, 5, 6, 1);
        reference::Columns how;
        how.loose = kind / 3 == 1;
        how.plain = kind % 3 == 1 ? 15 : 0;
        how.short_t = kind % 3 == 2 && e.t.back() >> 32 == 0;
        const Bytes chunk = lzf() ? reference::encodeColumns(e, how, random)
                                  : reference::encodeEcf(e, reference::Packing(kind % 3), random, kind / 3 == 1);
        ASSERT_LE(chunk.size(), 1u << 20);
        Bytes stream;
        reference::appendFrame(stream, {chunk, chunk}, {uint32_t(e.size()), 0}, format());
        SCOPED_TRACE("kind " + std::to_string(kind));
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 1 << 21, 1 << 18, 1 << 18));
        ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 1 << 17, 1, 70000));
    }
}

// Chunks fill the arrays with their first events, and go on from there.
TEST_P(RawFrames, FullArrays) {
    auto random = support::generator();
    Events e;
    for (unsigned i = 0; i < 100; ++i)
        e.add(1000 + i / 7, i, 3, i & 1);
    const Bytes a = chunkOf(format(), e.part(0, 60), random), b = chunkOf(format(), e.part(60, 40), random);
    Bytes stream;
    reference::appendFrame(stream, {a}, {60}, format());
    const size_t second = stream.size();
    stream.clear();
    reference::appendFrame(stream, {a, b}, {60, 40}, format());
    Bench bench(CUS_DEVICE, 4096, 256);
    ASSERT_LE(stream.size(), 4096u);
    const auto options = this->options();
    support::Owned<cusEventDecoderDestroy> decoder;
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    Result result;
    bench.run(decoder, stream.data(), stream.size(), 70, 0, result);
    EXPECT_EQ(result.status, CUS_ERROR_CAPACITY);
    EXPECT_EQ(result.message, std::string(CHECK) + ": arrays with a capacity of 70 are full after " +
                                  std::to_string(second) + " bytes of the piece; pass the rest again");
    EXPECT_EQ(result.last.count, 70u);
    EXPECT_EQ(result.last.index, 70u);
    cusEventDecoderState state = {};
    CUS_ASSERT_OK(cusEventDecoderGetState(decoder, &state));
    EXPECT_EQ(state.offset, 0u);
    EXPECT_EQ(state.line, 1u);
    EXPECT_EQ(state.vector, 10u);
    EXPECT_EQ(state.carried, second);
    bench.run(decoder, stream.data() + second, stream.size() - second, 0, 0, result);
    EXPECT_EQ(result.status, CUS_ERROR_CAPACITY);
    EXPECT_EQ(result.last.used, 0u);
    bench.run(decoder, stream.data() + second, stream.size() - second, 30, 0, result);
    EXPECT_EQ(result.status, CUS_OK) << result.message;
    EXPECT_TRUE(result.events == e);
    CUS_EXPECT_OK(cusEventDecoderFinish(decoder, nullptr));
}

namespace {

// A decoder that skips bad events is stopped by a chunk, and every further run says the same. `used`: of the stream; `events`: what comes
// before.
void expectStops(const cusEventDecoderOptions &options, const Bytes &stream, const std::string &message, size_t used,
                 size_t events) {
    const std::string name = std::string(CHECK) + ": ";
    Bench bench(CUS_DEVICE, stream.size(), 256);
    support::Owned<cusEventDecoderDestroy> decoder;
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    Result result;
    bench.run(decoder, stream.data(), stream.size(), 256, 0, result);
    EXPECT_EQ(result.status, CUS_ERROR_FORMAT);
    EXPECT_EQ(result.message, name + message);
    EXPECT_EQ(result.last.used, used);
    EXPECT_EQ(result.last.count, events);
    EXPECT_EQ(result.last.index, events);
    bench.run(decoder, stream.data(), stream.size(), 256, 0, result);
    EXPECT_EQ(result.message, name + message);
    EXPECT_EQ(result.last.count + result.last.used, 0u);
    cusEventDecoderState state = {};
    CUS_REJECTS(cusEventDecoderGetState(decoder, &state), FORMAT, "cusEventDecoderGetState: " + message);
    CUS_EXPECT_OK(cusEventDecoderFinish(decoder, nullptr));
}

const char *badChunk(cusEventFormat format) {
    return format == CUS_EVENTS_HDF5
               ? "chunk whose columns are not what LZF defines, or have fewer events than its frame says"
               : "chunk that is not what ECF defines, or has fewer events than its frame says";
}

} // namespace

TEST_P(RawFrames, MalformedChunksStop) {
    auto random = support::generator();
    const Bytes good = chunkOf(format(), tenEvents(), random), cut(good.begin(), good.end() - 1);
    ASSERT_LE(good.size(), 256u);
    const std::string what = badChunk(format()), header = "no header of a frame";
    const auto stops = [&](const std::vector<Bytes> &chunks, const std::vector<uint32_t> &taken, size_t change,
                           const std::string &message, size_t used, size_t events) {
        Bytes stream;
        reference::appendFrame(stream, chunks, taken, format());
        if (change != SIZE_MAX)
            stream[change] ^= 1;
        expectStops(options(CUS_BAD_EVENTS_SKIP), stream, message, used, events);
    };
    stops({good, cut}, {10, 10}, SIZE_MAX, "byte 512: " + what, 512, 10);
    stops({good, good}, {10, 11}, SIZE_MAX, "byte 512: " + what, 512, 10); // more than it has
    stops({good}, {10}, 0, "byte 0: " + header, 0, 0);
    stops({good}, {10}, 4, "byte 0: " + header, 0, 0); // no chunk
    const size_t shortest = lzf() ? 32 : 12;
    const uint32_t most = uint32_t(lzf() ? 10 * 32 : 3 * 12); // events that so many bytes may be said to have
    stops({Bytes(shortest - 1)}, {0}, SIZE_MAX, "byte 0: " + header, 0, 0);
    stops({good}, {65536}, SIZE_MAX, "byte 0: " + header, 0, 0);
    stops({Bytes(shortest)}, {most + 1}, SIZE_MAX, "byte 0: " + header, 0, 0);
    stops({Bytes(shortest)}, {most}, SIZE_MAX, "byte 256: " + what, 256, 0);
    stops({Bytes((1 << 20) + 1)}, {0}, SIZE_MAX, "byte 0: " + header, 0, 0);
    Events far;
    far.add((int64_t(1) << 62) - 1, 1, 1, 1);
    far.add(int64_t(1) << 62, 1, 1, 1);
    stops({chunkOf(format(), far, random)}, {2}, SIZE_MAX, "byte 256: " + what, 256, 0);
    if (!lzf()) // all events of ECF, not only those that are taken
        stops({chunkOf(format(), far, random)}, {1}, SIZE_MAX, "byte 256: " + what, 256, 0);
    // Frames of the other codec.
    Bytes stream;
    const auto other = lzf() ? CUS_EVENTS_METAVISION : CUS_EVENTS_HDF5;
    reference::appendFrame(stream, {chunkOf(other, tenEvents(), random)}, {10}, other);
    expectStops(options(CUS_BAD_EVENTS_SKIP), stream, "byte 0: " + header, 0, 0);
}

// Everything that a chunk of columns may not be, behind a good one of ten events.
TEST_P(RawColumns, MalformedChunksStop) {
    using reference::StoredColumns;
    auto random = support::generator();
    const Bytes good = chunkOf(CUS_EVENTS_HDF5, tenEvents(), random);
    const auto stream = [&](const Bytes &chunk, uint32_t taken) {
        Bytes bytes;
        reference::appendFrame(bytes, {good, chunk}, {10, taken}, CUS_EVENTS_HDF5);
        return bytes;
    };
    auto options = frameOptions(CUS_EVENTS_HDF5, CUS_BAD_EVENTS_SKIP);
    options.max_bytes = 1 << 16; // many decoders
    const auto accepts = [&](const Bytes &chunk, uint32_t taken) {
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        const Bytes bytes = stream(chunk, taken);
        Bench bench(CUS_DEVICE, bytes.size(), 256);
        Result result;
        bench.run(decoder, bytes.data(), bytes.size(), 256, 0, result);
        EXPECT_EQ(result.status, CUS_OK) << result.message;
        EXPECT_EQ(result.last.count, 10 + taken);
    };
    const auto rejects = [&](const Bytes &chunk, uint32_t taken) {
        expectStops(options, stream(chunk, taken), std::string("byte 512: ") + badChunk(CUS_EVENTS_HDF5), 512, 10);
    };
    const auto of = [&](size_t rows, bool short_t = false) {
        Events e;
        while (e.size() < rows)
            e.add(100, 7, 3, 1);
        reference::Columns how;
        how.short_t = short_t;
        return reference::storedColumns(e, how, random);
    };
    // Columns of ten rows that compress to literals and a match each, changed.
    const StoredColumns ten[] = {of(10), of(10, true)};
    for (const StoredColumns &columns : ten) {
        accepts(columns.chunk(), 10);
        for (const Bytes &column : columns.columns)
            ASSERT_LT(column.size(), 12u);
    }
    const auto stops = [&](const char *why, const std::function<void(StoredColumns &)> &change, uint32_t taken = 10) {
        SCOPED_TRACE(why);
        for (StoredColumns columns : ten) {
            change(columns);
            rejects(columns.chunk(), taken);
        }
    };
    const auto bytesOf = [](const StoredColumns &c, size_t k) {
        return c.rows * (k < 2 ? 2 : k == 2 ? 1 : c.flags & 1 ? 4 : 8);
    };
    const auto literals = [](size_t n) {
        Bytes tokens;
        for (; n > 0; n -= std::min<size_t>(n, 32)) {
            tokens.push_back(uint8_t(std::min<size_t>(n, 32) - 1));
            tokens.resize(tokens.size() + std::min<size_t>(n, 32));
        }
        return tokens;
    };
    const auto with = [](Bytes tokens, const Bytes &more) {
        tokens.insert(tokens.end(), more.begin(), more.end());
        return tokens;
    };
    for (size_t k = 0; k < 4; ++k) {
        SCOPED_TRACE("column " + std::to_string(k));
        const auto storing = [&](const char *why, const std::function<Bytes(size_t, const Bytes &)> &tokens) {
            stops(why, [&](StoredColumns &c) { c.store(k, tokens(bytesOf(c, k), c.columns[k])); });
        };
        storing("a literal too many", [&](size_t, const Bytes &b) { return with(b, {0, 9}); });
        storing("a literal too few", [&](size_t n, const Bytes &) { return literals(n - 1); });
        storing("nothing", [&](size_t, const Bytes &) { return Bytes(); });
        storing("a run of literals across the end", [&](size_t n, const Bytes &) {
            return with(literals(n - 1), {1, 9, 9});
        });
        storing("a match across the end", [&](size_t n, const Bytes &) { return with(literals(n - 2), {1 << 5, 0}); });
        storing("a match behind the end", [&](size_t n, const Bytes &) { return with(literals(n), {1 << 5, 0}); });
        storing("the longest match", [&](size_t, const Bytes &) { return Bytes{0, 9, 7 << 5, 255, 0}; });
        storing("a match first", [&](size_t n, const Bytes &) { return with({1 << 5, 0}, literals(n - 3)); });
        storing("a match from before the start", [&](size_t n, const Bytes &) {
            return with(literals(n - 3), {1 << 5, uint8_t(n - 3)});
        });
        storing("the farthest match", [&](size_t n, const Bytes &) { return with(literals(n - 3), {1 << 5 | 31, 255}); });
        storing("literals cut", [&](size_t n, const Bytes &) {
            Bytes b = literals(n);
            b.pop_back();
            return b;
        });
        storing("a run of literals without one", [&](size_t n, const Bytes &) { return with(literals(n - 1), {0}); });
        storing("a match without a distance", [&](size_t n, const Bytes &) { return with(literals(n - 3), {1 << 5}); });
        storing("a long match without a length", [&](size_t n, const Bytes &) { return with(literals(n - 9), {7 << 5}); });
        storing("a long match without a distance", [&](size_t n, const Bytes &) {
            return with(literals(n - 9), {7 << 5, 0});
        });
        storing("a control byte behind the end", [&](size_t n, const Bytes &) { return with(literals(n), {0}); });
        stops("plain, a byte less", [&](StoredColumns &c) { c.store(k, Bytes(bytesOf(c, k) - 1), true); });
        stops("plain, a byte more", [&](StoredColumns &c) { c.store(k, Bytes(bytesOf(c, k) + 1), true); });
        stops("plain, although it is not", [&](StoredColumns &c) { c.sizes[k] |= uint64_t(1) << 31; });
        stops("the largest size", [&](StoredColumns &c) { c.sizes[k] = 0x7fffffff; });
        stops("the largest plain size", [&](StoredColumns &c) { c.sizes[k] = 0xffffffff; });
        stops("a size less", [&](StoredColumns &c) { --c.sizes[k]; });
        stops("a size more", [&](StoredColumns &c) { ++c.sizes[k]; });
    }
    stops("no token at all, of sizes that have them", [&](StoredColumns &c) {
        for (Bytes &column : c.columns)
            column.clear();
    });
    stops("sizes whose sum wraps", [&](StoredColumns &c) {
        c.sizes[0] += 0x40000000;
        c.sizes[1] += 0x40000000;
        c.sizes[2] += 0x40000000;
        c.sizes[3] += 0x40000000;
    });
    stops("bytes that no column has", [&](StoredColumns &c) { c.columns[3].push_back(0); });
    for (const unsigned bit : {3u, 4u, 8u, 16u, 31u})
        stops("an unknown flag", [&](StoredColumns &c) { c.flags |= uint64_t(1) << bit; });
    stops(
        "rows fewer than the columns have", [&](StoredColumns &c) { --c.rows; }, 9);
    stops("rows more than the columns have", [&](StoredColumns &c) { ++c.rows; });
    stops("an enormous number of rows", [&](StoredColumns &c) { c.rows = 0xffffffff; });
    stops("rows whose bytes wrap", [&](StoredColumns &c) { c.rows += 0x80000000; });
    stops(
        "rows fewer than are taken", [&](StoredColumns &) {}, 11);
    rejects(of(65536).chunk(), 10);
    rejects(of(65536).chunk(), 0);
    // The most rows, and none.
    accepts(of(65535).chunk(), 10);
    accepts(of(65535).chunk(), 0);
    accepts(of(0).chunk(), 0);
    accepts(Bytes(32), 0);
}

// Which times, polarities and flags a chunk may have, by numbers that are written here.
TEST_P(RawColumns, TimesAndPolarities) {
    struct Case {
        uint64_t flags, offset;
        std::vector<uint64_t> stored; // times
        std::vector<uint8_t> p;
        uint32_t taken;
        std::vector<int64_t> t; // those delivered
        const char *message;    // "": none
    };
    constexpr uint64_t LIMIT = uint64_t(1) << 62, MINUS = ~uint64_t(0);
    constexpr int64_t MAX_TIME = int64_t(LIMIT - 1);
    const char *const chunk = "bad";
    const Case cases[] = {
        {0, 0, {0, LIMIT - 1}, {0, 1}, 2, {0, MAX_TIME}, ""},
        {0, 0, {5, LIMIT}, {0, 1}, 2, {}, chunk},
        {0, 0, {5, LIMIT}, {0, 1}, 1, {5}, ""}, // a row behind
        {0, 0, {5, MINUS}, {0, 1}, 2, {}, chunk},
        {0, MINUS, {5, 6}, {0, 1}, 2, {4, 5}, ""},
        {0, MINUS, {0, 6}, {0, 1}, 2, {}, chunk},
        {0, MINUS, {5, LIMIT}, {0, 1}, 2, {}, chunk}, // stored below the limit, not only in the end
        {0, MINUS - 1, {LIMIT - 1}, {1}, 1, {MAX_TIME - 2}, ""},
        {0, 1, {LIMIT - 1}, {1}, 1, {}, chunk},
        {0, LIMIT - 1, {0}, {1}, 1, {MAX_TIME}, ""},
        {0, LIMIT - 1, {1}, {1}, 1, {}, chunk},
        {0, uint64_t(1) << 63, {1}, {1}, 1, {}, chunk},
        {2, 5, {MINUS, 0}, {0, 1}, 2, {4, 5}, ""},
        {2, 5, {MINUS - 5, 0}, {0, 1}, 2, {}, chunk},
        {2, uint64_t(1) << 63, {uint64_t(1) << 63, (uint64_t(1) << 63) + 9}, {0, 1}, 2, {0, 9}, ""},
        {2, MINUS, {LIMIT}, {1}, 1, {MAX_TIME}, ""},
        {2, 0, {LIMIT}, {1}, 1, {}, chunk},
        {1, 0, {0, 0xffffffff}, {0, 1}, 2, {0, 0xffffffff}, ""},
        {1, 7, {0, 0xffffffff}, {0, 1}, 2, {7, 0x100000006}, ""},
        {1, MINUS, {1, 0x80000000}, {0, 1}, 2, {0, 0x7fffffff}, ""},
        {1, MINUS, {0}, {1}, 1, {}, chunk},
        {1, MINUS, {4, 0}, {1, 1}, 1, {3}, ""},
        {1, LIMIT - 1, {0, 1}, {1, 1}, 2, {}, chunk},
        {3, 5, {0xffffffff, 0}, {0, 1}, 2, {4, 5}, ""},
        {3, uint64_t(1) << 31, {0x80000000, 0x7fffffff}, {0, 1}, 2, {0, 0xffffffff}, ""},
        {3, 5, {0xfffffffa, 0}, {0, 1}, 2, {}, chunk},
        {4, 0, {1, 2, 3}, {255, 0, 1}, 3, {1, 2, 3}, ""},
        {0, 0, {1, 2, 3}, {0, 255, 1}, 3, {1}, "event 1 has a polarity other than 0 and 1"},
        {4, 0, {1, 2, 3}, {0, 254, 1}, 3, {1}, "event 1 has a polarity other than 0 and 1"},
        {4, 0, {1, 2, 3}, {0, 2, 1}, 3, {1}, "event 1 has a polarity other than 0 and 1"},
        {7, 0, {1, 2, 3}, {128, 2, 1}, 3, {}, "event 0 has a polarity other than 0 and 1"},
        {0, 0, {1, 0}, {1, 2}, 2, {1}, "event 1 has a polarity other than 0 and 1"}, // and is earlier
        {0, 0, {1, 0}, {1, 1}, 2, {1}, "event 1 at 0 us is earlier than the one before at 1 us"},
        {0, 0, {1, 0}, {1, 2}, 1, {1}, ""},
    };
    for (const Case &c : cases) {
        SCOPED_TRACE("case " + std::to_string(&c - cases));
        reference::StoredColumns columns;
        columns.rows = c.stored.size();
        columns.flags = c.flags;
        columns.offset = c.offset;
        Bytes places(2 * c.stored.size()), t;
        for (const uint64_t time : c.stored)
            reference::appendNumber(t, time, c.flags & 1 ? 4 : 8);
        columns.store(0, places, true);
        columns.store(1, places, true);
        columns.store(2, c.p, true);
        columns.store(3, t, true);
        Bytes stream;
        reference::appendFrame(stream, {columns.chunk()}, {c.taken}, CUS_EVENTS_HDF5);
        const auto options = frameOptions(CUS_EVENTS_HDF5);
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        Bench bench(CUS_DEVICE, stream.size(), 16);
        Result result;
        bench.run(decoder, stream.data(), stream.size(), 16, 0, result);
        EXPECT_EQ(result.events.t, c.t);
        const std::string message = c.message == chunk ? std::string("byte 256: ") + badChunk(CUS_EVENTS_HDF5) : c.message;
        EXPECT_EQ(result.message, message.empty() ? "" : std::string(CHECK) + ": " + message);
        for (size_t i = 0; i < result.events.size(); ++i)
            EXPECT_EQ(result.events.p[i], c.p[i] == 1 ? 1 : 0);
    }
}

// Tokens written by hand as LibLZF documents them, and what they stand for.
TEST_P(RawColumns, TokensOfEveryKind) {
    reference::StoredColumns columns;
    columns.rows = 300;
    // x: 0x0201 and copies of it; y: 1, 2, 3 in turn, from six bytes back; p: 1, 0, 0, then three back; t: 4, then zeros and fours.
    columns.store(0, {1, 0x01, 0x02, 7 << 5, 255, 1, 7 << 5, 255, 1, 7 << 5, 61, 1});
    columns.store(1, {5, 1, 0, 2, 0, 3, 0, 7 << 5, 255, 5, 7 << 5, 255, 5, 7 << 5, 57, 5});
    columns.store(2, {2,      1, 0,      0, 1 << 5, 2, 7 << 5, 255, 2, 4 << 5, 2, 2 << 5, 2,
                      6 << 5, 2, 1 << 5, 2, 0,      1, 1,      0,   0, 1 << 5, 2, 1 << 5, 2});
    Bytes t = {1, 4, 0, 4 << 5, 0}; // 4 in 8 bytes: a zero is repeated
    for (size_t left = 299 * 8; left > 0;) {
        const size_t n = std::min<size_t>(left, 264);
        t.insert(t.end(), {7 << 5, uint8_t(n - 9), 7}); // eight back
        left -= n;
    }
    columns.store(3, t);
    Bytes stream;
    reference::appendFrame(stream, {columns.chunk()}, {300}, CUS_EVENTS_HDF5);
    const auto options = frameOptions(CUS_EVENTS_HDF5);
    support::Owned<cusEventDecoderDestroy> decoder;
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    Bench bench(CUS_DEVICE, stream.size(), 300);
    Result result;
    bench.run(decoder, stream.data(), stream.size(), 300, 0, result);
    ASSERT_EQ(result.status, CUS_OK) << result.message;
    ASSERT_EQ(result.events.size(), 300u);
    for (unsigned i = 0; i < 300; ++i) {
        EXPECT_EQ(result.events.x[i], 0x0201);
        EXPECT_EQ(result.events.y[i], 1 + i % 3);
        EXPECT_EQ(result.events.p[i], i % 3 == 0);
        EXPECT_EQ(result.events.t[i], 4);
    }
}

// As M3ED has them: chunks of 40000 rows, more than a frame of them in a piece. Most are taken in part, as at a window's ends.
TEST_P(RawColumns, FramesOfLongChunks) {
    auto random = support::generator();
    constexpr size_t ROWS = 40000;
    std::vector<Bytes> made;
    int64_t last = 0;
    for (int k = 0; k < 5; ++k) {
        Events e = k == 3 ? columnsEvents(ROWS, random, 1280, 720, 0) : Events();
        int64_t t = 0;
        while (e.size() < ROWS) {
            const uint64_t any = random();
            t += any % 8 == 0;
            e.add(t, unsigned(640 + (any >> 8) % 300 - (any >> 24) % 300), unsigned((any >> 40) % 720),
                  unsigned(any >> 50 & 1));
        }
        last = std::max(last, e.t.back());
        reference::Columns how;
        how.signed_p = k == 1;
        how.signed_t = k == 2;
        how.loose = k == 4;
        made.push_back(reference::encodeColumns(e, how, random));
    }
    Bytes stream;
    uint64_t offset = 0;
    for (const size_t n : {size_t(255), size_t(40)}) {
        std::vector<Bytes> chunks;
        std::vector<uint32_t> taken;
        for (size_t i = 0; i < n / support::fewer() + 1 && i < 255; ++i) {
            Bytes chunk = made[random() % made.size()], bytes;
            reference::appendNumber(bytes, offset, 8);
            std::copy(bytes.begin(), bytes.end(), chunk.begin() + 8);
            offset += uint64_t(last);
            chunks.push_back(chunk);
            taken.push_back(i % 50 == 0 ? uint32_t(ROWS) : uint32_t(random() % 1500));
        }
        reference::appendFrame(stream, chunks, taken, CUS_EVENTS_HDF5);
    }
    auto options = frameOptions(CUS_EVENTS_HDF5);
    options.max_bytes = stream.size();
    reference::Frames expected(options);
    expected.run(stream);
    ASSERT_EQ(expected.status, CUS_OK) << expected.message;
    support::Owned<cusEventDecoderDestroy> decoder;
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    Bench bench(CUS_DEVICE, stream.size(), 1 << 20);
    Result whole;
    bench.run(decoder, stream.data(), stream.size(), 1 << 20, 0, whole);
    ASSERT_NO_FATAL_FAILURE(checkEquals(whole, expected, CHECK));
    CUS_ASSERT_OK(cusEventDecoderFinish(decoder, nullptr));
    const Result pieces = bench.decode(decoder, stream, random, stream.size() / 3, 100000, 1 << 18);
    ASSERT_NO_FATAL_FAILURE(checkEquals(pieces, expected, CHECK));
    CUS_ASSERT_OK(cusEventDecoderFinish(decoder, nullptr));
}

// The encoder says what it was given, in every form, so that the other tests' streams have what they are meant to have.
TEST(Raw, ColumnsOfTheReference) {
    auto random = support::generator();
    size_t near = 0, far = 0, longest = 0, shortest = 0;
    const size_t few = 100 / size_t(support::fewer()), many = 10 * few;
    for (int round = 0; round < 300 / support::fewer() || near <= many || far <= few || longest <= many || shortest <= many;
         ++round) {
        const size_t taken = random() % 3000, behind = random() % 3 ? 0 : random() % 20;
        Events e = columnsEvents(taken, random, 1280, 720, int64_t(random() >> 3)), got;
        const Events first = e;
        reference::appendGarbage(e, behind, random);
        const auto how = reference::anyColumns(e, taken, random);
        const auto columns = reference::storedColumns(e, how, random);
        ASSERT_TRUE(reference::ColumnsChunk(columns.chunk()).run(taken, got)) << "round " << round;
        ASSERT_TRUE(got == first) << "round " << round;
        for (size_t k = 0; k < 4; ++k)
            for (size_t at = 0; !(columns.sizes[k] >> 31) && at < columns.columns[k].size();) {
                const Bytes &in = columns.columns[k];
                if (in[at] < 32) {
                    at += 2 + in[at];
                    continue;
                }
                const bool is_long = in[at] >> 5 == 7;
                const size_t length = 2u + (in[at] >> 5) + (is_long ? in[at + 1] : 0),
                             distance = (in[at] & 31) * 256u + in[at + 1 + is_long] + 1;
                near += distance < length;
                far += distance > 4096;
                longest += length == 264;
                shortest += length == 3;
                at += 2 + is_long;
            }
    }
}

// A state continues in another decoder from the frame on.
TEST_P(RawFrames, StatesContinueAnywhere) {
    auto random = support::generator();
    Bench bench(CUS_DEVICE, 1 << 20, 1 << 18);
    for (int round = 0; round < 60; ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        const Bytes stream = frames(1 + random() % 5000, {0, 10, 0, 0, 0}, random);
        if (stream.size() > 1 << 20)
            continue;
        const auto options = this->options(CUS_BAD_EVENTS_SKIP);
        reference::Frames expected(options);
        expected.run(stream);
        support::Owned<cusEventDecoderDestroy> a, b;
        CUS_ASSERT_OK(cusEventDecoderCreate(&a, &options));
        CUS_ASSERT_OK(cusEventDecoderCreate(&b, &options));
        Result result;
        size_t at = 0;
        for (int k = 0; k < 4; ++k) {
            const bool last = k == 3;
            const size_t size = last ? stream.size() - at : random() % (stream.size() - at + 1),
                         capacity = last           ? 1 << 18
                                    : random() % 2 ? random() % 500
                                                   : 1 << 18;
            bench.run(k % 2 ? b : a, stream.data() + at, size, capacity, 0, result);
            cusEventDecoderState state = {};
            CUS_ASSERT_OK(cusEventDecoderGetState(k % 2 ? b : a, &state));
            EXPECT_EQ(state.offset + state.carried, at + result.last.used);
            EXPECT_EQ(state.index, result.last.index);
            CUS_ASSERT_OK(cusEventDecoderSetState(k % 2 ? a : b, &state));
            at = last ? at : size_t(state.offset);
        }
        ASSERT_TRUE(result.events == expected.events);
        EXPECT_EQ(result.last.index, expected.index);
    }
}

TEST_P(RawFrames, StatesOfOtherFormatsAreRejected) {
    const auto rejects = [&](auto change) {
        support::Owned<cusEventDecoderDestroy> decoder;
        const auto options = this->options();
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        cusEventDecoderState state = {};
        CUS_ASSERT_OK(cusEventDecoderGetState(decoder, &state));
        CUS_EXPECT_OK(cusEventDecoderSetState(decoder, &state));
        change(state);
        CUS_REJECTS(cusEventDecoderSetState(decoder, &state), VALUE,
                    std::string("cusEventDecoderSetState: state is not one of ") + cusEventFormatName(format()));
    };
    using S = cusEventDecoderState;
    rejects([](S &s) { s.line = 255; });
    rejects([](S &s) { s.vector = 65536; });
    rejects([](S &s) { s.vector_x = 1; });
    rejects([](S &s) { s.last_time = -2; });
    // A chunk that the frame does not have.
    auto random = support::generator();
    Bytes stream;
    reference::appendFrame(stream, {chunkOf(format(), Events(), random)}, {0}, format());
    support::Owned<cusEventDecoderDestroy> decoder;
    const auto options = this->options();
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    cusEventDecoderState state = {};
    CUS_ASSERT_OK(cusEventDecoderGetState(decoder, &state));
    state.line = 1;
    CUS_ASSERT_OK(cusEventDecoderSetState(decoder, &state));
    Bench bench(CUS_DEVICE, 1024, 16);
    Result result;
    bench.run(decoder, stream.data(), stream.size(), 16, 0, result);
    EXPECT_EQ(result.message, std::string(CHECK) + ": byte 0: no header of a frame");
}

TEST_P(RawFrames, ArraysThatAreNotNeeded) {
    auto random = support::generator();
    const Bytes stream = frames(60000, {0, 5, 100, 5, 0}, random);
    const auto options = this->options(CUS_BAD_EVENTS_SKIP);
    reference::Frames expected(options);
    expected.run(stream);
    for (const unsigned kept : {0u, 1u, 6u, 8u})
        checkArrays(kept, stream, expected, options);
}

TEST(Raw, ChunksNeedTheDevice) {
    for (const auto format : {CUS_EVENTS_METAVISION, CUS_EVENTS_HDF5}) {
        auto options = frameOptions(format);
        options.space = CUS_HOST;
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_REJECTS(cusEventDecoderCreate(&decoder, &options), UNSUPPORTED,
                    std::string("cusEventDecoderCreate: chunks of ") + cusEventFormatName(format) +
                        " are decoded on the device alone, expected space CUS_DEVICE; cusEventReaderRead reads");
    }
}

// Files of Metavision's own encoder: the decoder gives the reader's events.
TEST_P(RawFramesOfFiles, OfTheVendor) {
    auto random = support::generator();
    for (const char *file : {"metavision_ecf_640x480.h5", "metavision_ecf_rows_1280x720.h5"}) {
        const std::string path = support::dataFile(std::string("ecf/") + file);
        if (path.empty())
            GTEST_SKIP() << "the files are not in the folder CUSIGHT_TEST_DATA";
        support::Owned<cusEventReaderClose> reader;
        CUS_ASSERT_OK(cusEventReaderOpen(&reader, path.c_str(), nullptr));
        cusEventInfo info = {};
        CUS_ASSERT_OK(cusEventReaderInfo(reader, &info));
        Events e;
        e.x.resize(size_t(info.count)), e.y = e.x, e.p.resize(e.x.size()), e.t.resize(e.x.size());
        size_t count = 0;
        CUS_ASSERT_OK(cusEventReaderRead(reader, e.size(), e.x.data(), e.y.data(), e.p.data(), e.t.data(), &count));
        ASSERT_EQ(count, e.size());
        cusEventDecoderOptions options;
        cusEventDecoderState state;
        CUS_ASSERT_OK(cusEventReaderDecoder(reader, &options, &state));
        Bytes stream(1 << 20);
        CUS_ASSERT_OK(cusEventReaderReadBytes(reader, stream.size(), stream.data(), &count));
        ASSERT_LT(count, stream.size());
        stream.resize(count);
        options.space = CUS_DEVICE;
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        CUS_ASSERT_OK(cusEventDecoderSetState(decoder, &state));
        Bench bench(CUS_DEVICE, 1 << 20, 1 << 17);
        for (const size_t most : {size_t{1} << 20, size_t{30000}}) {
            const Result got = bench.decode(decoder, stream, random, most, 0, 1 << 17);
            EXPECT_EQ(got.status, CUS_OK) << got.message;
            EXPECT_TRUE(got.events == e) << file;
            CUS_ASSERT_OK(cusEventDecoderFinish(decoder, nullptr));
        }
    }
}
