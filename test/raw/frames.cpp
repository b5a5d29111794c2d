// Frames of ECF chunks, cut anywhere, against the reference and against the files of Metavision's own encoder.
#include "raw/support.hpp"

#include "cusight/eventio.h"

using namespace raw_test;
using reference::Events;

namespace {

cusEventDecoderOptions frameOptions(cusSpace space, cusBadEvents bad = CUS_BAD_EVENTS_STOP, int width = 1280,
                                    int height = 720) {
    return optionsOf({CUS_EVENTS_METAVISION, 0, "Metavision"}, space, bad, width, height);
}

class RawFrames : public support::SpaceTest {
  protected:
    const char *function() const { return space() == CUS_HOST ? "cusEventDecoderRun" : "cusEventDecoderCheck"; }
    std::string name() const { return std::string(function()) + ": "; }

    void check(Bench &bench, cusEventDecoder *decoder, const cusEventDecoderOptions &options, const Bytes &stream,
               std::mt19937_64 &random, size_t most_bytes, size_t least, size_t most_events) {
        reference::Frames expected(options);
        expected.run(stream);
        const Result got = bench.decode(decoder, stream, random, most_bytes, least, most_events);
        ASSERT_NO_FATAL_FAILURE(checkEquals(got, expected, function()));
        const cusStatus finished = cusEventDecoderFinish(decoder, nullptr);
        ASSERT_EQ(finished, expected.status == CUS_ERROR_TRUNCATED ? CUS_ERROR_TRUNCATED : CUS_OK) << cusLastError();
        if (finished != CUS_OK)
            ASSERT_EQ(std::string("cusEventDecoderFinish: the recording ends at byte ") + std::to_string(stream.size()) +
                          ", within a frame of Metavision that starts at byte " + std::to_string(expected.at),
                      cusLastError());
    }
};
CUS_BOTH_SPACES(RawFrames);

const Damage DAMAGES[] = {{}, {0, 3, 0, 0, 0}, {0, 0, 100, 0, 0}, {0, 0, 0, 0, 30}, {0, 20, 100, 0, 10}};

} // namespace

TEST_P(RawFrames, InPiecesEqualTheReference) {
    auto random = support::generator();
    Bench bench(space(), 1 << 21, 1 << 18);
    size_t bad_chunks = 0, bad_events = 0;
    for (int round = 0; round < 400 / support::SLOWER; ++round) {
        const auto bad = cusBadEvents(round % 2);
        const Damage &damage = DAMAGES[size_t(round / 2) % std::size(DAMAGES)];
        const size_t n = random() % (round % 20 == 0 ? 100000 : 5000);
        const bool of_known_size = random() % 3;
        const auto options = frameOptions(space(), bad, of_known_size ? 1280 : 0, of_known_size ? 720 : 0);
        const Bytes stream = randomFrames(n, damage, random);
        if (stream.size() > 1 << 21)
            continue;
        reference::Frames expected(options);
        expected.run(stream);
        bad_chunks += expected.message.find("byte") == 0;
        bad_events += expected.message.find("event") == 0 || expected.counts.bad_coordinates;
        SCOPED_TRACE("round " + std::to_string(round));
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 1 << 21, 1 << 18, 1 << 18)); // whole
        ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 9000, 0, 3000));
        ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 1 + random() % 100000, 0, 70000));
    }
    EXPECT_GT(bad_chunks, 30u / support::SLOWER);
    EXPECT_GT(bad_events, 60u / support::SLOWER);
}

// Bytes of streams changed anywhere: no access outside, and the reference's errors.
TEST_P(RawFrames, DamagedAnywhere) {
    auto random = support::generator();
    Bench bench(space(), 1 << 18, 1 << 17);
    for (int round = 0; round < 2000 / support::SLOWER; ++round) {
        const auto options = frameOptions(space(), cusBadEvents(round % 2));
        Bytes stream = randomFrames(1 + random() % 300, {0, 5, 20, 0, 100}, random);
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

// The largest chunk, of every packing; and one with runs as long as they can be.
TEST_P(RawFrames, LargeChunks) {
    auto random = support::generator();
    Bench bench(space(), 1 << 21, 1 << 18);
    const auto options = frameOptions(space());
    for (int kind = 0; kind < 7; ++kind) {
        Events e = kind < 6 ? reference::ecfEvents(65535 - size_t(kind) / 3, random) : Events();
        while (e.size() < 65535)
            e.add(77, 5, 6, 1);
        Bytes stream;
        const Bytes chunk = reference::encodeEcf(e, reference::Packing(kind % 3), random, kind / 3 == 1);
        reference::appendFrame(stream, {chunk, chunk}, {uint32_t(e.size()), 0});
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
    Bytes stream;
    const Bytes a = reference::encodeEcf(e.part(0, 60), reference::Packing::NONE, random, false),
                b = reference::encodeEcf(e.part(60, 40), reference::Packing::XP, random, false);
    reference::appendFrame(stream, {a, b}, {60, 40});
    ASSERT_EQ(stream.size(), 768u);
    Bench bench(space(), 1024, 256);
    const auto options = frameOptions(space());
    support::Owned<cusEventDecoderDestroy> decoder;
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    Result result;
    bench.run(decoder, stream.data(), stream.size(), 70, 0, result);
    EXPECT_EQ(result.status, CUS_ERROR_CAPACITY);
    EXPECT_EQ(result.message,
              name() + "arrays with a capacity of 70 are full after 512 bytes of the piece; pass the rest again");
    EXPECT_EQ(result.last.count, 70u);
    EXPECT_EQ(result.last.index, 70u);
    cusEventDecoderState state = {};
    CUS_ASSERT_OK(cusEventDecoderGetState(decoder, &state));
    EXPECT_EQ(state.offset, 0u);
    EXPECT_EQ(state.line, 1u);
    EXPECT_EQ(state.vector, 10u);
    EXPECT_EQ(state.carried, 512u);
    bench.run(decoder, stream.data() + 512, 256, 0, 0, result);
    EXPECT_EQ(result.status, CUS_ERROR_CAPACITY);
    EXPECT_EQ(result.last.used, 0u);
    bench.run(decoder, stream.data() + 512, 256, 30, 0, result);
    EXPECT_EQ(result.status, CUS_OK) << result.message;
    EXPECT_TRUE(result.events == e);
    CUS_EXPECT_OK(cusEventDecoderFinish(decoder, nullptr));
}

// What is malformed stops a decoder that skips bad events too, and stays.
TEST_P(RawFrames, MalformedChunksStop) {
    auto random = support::generator();
    Events e;
    for (unsigned i = 0; i < 10; ++i)
        e.add(i, i, 3, 1);
    const Bytes good = reference::encodeEcf(e, reference::Packing::NONE, random, false);
    const std::string what = "chunk that is not what ECF defines, or has fewer events than its frame says",
                      header = "no header of a frame";
    const auto stops = [&](const std::vector<Bytes> &chunks, const std::vector<uint32_t> &taken, size_t change,
                           const std::string &message, size_t used, size_t events) {
        Bytes stream;
        reference::appendFrame(stream, chunks, taken);
        if (change != SIZE_MAX)
            stream[change] ^= 1;
        Bench bench(space(), 4096, 256);
        const auto options = frameOptions(space(), CUS_BAD_EVENTS_SKIP);
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        Result result;
        bench.run(decoder, stream.data(), stream.size(), 256, 0, result);
        EXPECT_EQ(result.status, CUS_ERROR_FORMAT);
        EXPECT_EQ(result.message, name() + message);
        EXPECT_EQ(result.last.used, used);
        EXPECT_EQ(result.last.count, events);
        EXPECT_EQ(result.last.index, events);
        bench.run(decoder, stream.data(), stream.size(), 256, 0, result);
        EXPECT_EQ(result.message, name() + message);
        EXPECT_EQ(result.last.count + result.last.used, 0u);
        cusEventDecoderState state = {};
        CUS_REJECTS(cusEventDecoderGetState(decoder, &state), FORMAT, "cusEventDecoderGetState: " + message);
        CUS_EXPECT_OK(cusEventDecoderFinish(decoder, nullptr));
    };
    const Bytes cut(good.begin(), good.end() - 1);
    stops({good, cut}, {10, 10}, SIZE_MAX, "byte 512: " + what, 512, 10);
    stops({good, good}, {10, 11}, SIZE_MAX, "byte 512: " + what, 512, 10); // more than it has
    stops({good}, {10}, 0, "byte 0: " + header, 0, 0);
    stops({good}, {10}, 4, "byte 0: " + header, 0, 0);            // no chunk
    stops({Bytes(11)}, {0}, SIZE_MAX, "byte 0: " + header, 0, 0); // shorter than a chunk's header
    stops({good}, {70000}, SIZE_MAX, "byte 0: " + header, 0, 0);
    stops({Bytes(12)}, {37}, SIZE_MAX, "byte 0: " + header, 0, 0); // more than three a byte
    Events far;
    far.add((int64_t(1) << 62) - 1, 1, 1, 1);
    far.add(int64_t(1) << 62, 1, 1, 1);
    stops({reference::encodeEcf(far, reference::Packing::ALL, random, false)}, {1}, SIZE_MAX, "byte 256: " + what, 256, 0);
}

// A state continues in another decoder, of the same space and of the host, from the frame on.
TEST_P(RawFrames, StatesContinueAnywhere) {
    auto random = support::generator();
    Bench here(space(), 1 << 20, 1 << 18), host(CUS_HOST, 1 << 20, 1 << 18);
    for (int round = 0; round < 60; ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        const Bytes stream = randomFrames(1 + random() % 5000, {0, 10, 0, 0, 0}, random);
        if (stream.size() > 1 << 20)
            continue;
        const auto options = frameOptions(space(), CUS_BAD_EVENTS_SKIP),
                   on_host = frameOptions(CUS_HOST, CUS_BAD_EVENTS_SKIP);
        reference::Frames expected(options);
        expected.run(stream);
        support::Owned<cusEventDecoderDestroy> a, b;
        CUS_ASSERT_OK(cusEventDecoderCreate(&a, &options));
        CUS_ASSERT_OK(cusEventDecoderCreate(&b, &on_host));
        Result result;
        size_t at = 0;
        for (int k = 0; k < 4; ++k) {
            const bool last = k == 3;
            const size_t size = last ? stream.size() - at : random() % (stream.size() - at + 1),
                         capacity = last           ? 1 << 18
                                    : random() % 2 ? random() % 500
                                                   : 1 << 18;
            (k % 2 ? host : here).run(k % 2 ? b : a, stream.data() + at, size, capacity, 0, result);
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
        const auto options = frameOptions(space());
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        cusEventDecoderState state = {};
        CUS_ASSERT_OK(cusEventDecoderGetState(decoder, &state));
        CUS_EXPECT_OK(cusEventDecoderSetState(decoder, &state));
        change(state);
        CUS_REJECTS(cusEventDecoderSetState(decoder, &state), VALUE,
                    "cusEventDecoderSetState: state is not one of Metavision");
    };
    using S = cusEventDecoderState;
    rejects([](S &s) { s.line = 255; });
    rejects([](S &s) { s.vector = 65536; });
    rejects([](S &s) { s.vector_x = 1; });
    rejects([](S &s) { s.last_time = -2; });
    // A chunk that the frame does not have.
    auto random = support::generator();
    Bytes stream;
    reference::appendFrame(stream, {reference::encodeEcf(Events(), reference::Packing::ALL, random, false)}, {0});
    support::Owned<cusEventDecoderDestroy> decoder;
    const auto options = frameOptions(space());
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    cusEventDecoderState state = {};
    CUS_ASSERT_OK(cusEventDecoderGetState(decoder, &state));
    state.line = 1;
    CUS_ASSERT_OK(cusEventDecoderSetState(decoder, &state));
    Bench bench(space(), 1024, 16);
    Result result;
    bench.run(decoder, stream.data(), stream.size(), 16, 0, result);
    EXPECT_EQ(result.message, name() + "byte 0: no header of a frame");
}

TEST_P(RawFrames, ArraysThatAreNotNeeded) {
    auto random = support::generator();
    const Bytes stream = randomFrames(60000, {0, 5, 100, 0, 0}, random);
    const auto options = frameOptions(space(), CUS_BAD_EVENTS_SKIP);
    reference::Frames expected(options);
    expected.run(stream);
    for (const unsigned kept : {0u, 1u, 6u, 8u})
        checkArrays(kept, stream, expected, options);
}

// Unchecked, events outside the sensor and out of order come like good ones.
TEST(Raw, UncheckedFrames) {
    auto random = support::generator();
    Events late, early;
    late.add(9, 2000, 2000, 1);
    early.add(3, 1, 1, 0);
    Bytes stream;
    reference::appendFrame(stream,
                           {reference::encodeEcf(late, reference::Packing::ALL, random, false),
                            reference::encodeEcf(early, reference::Packing::ALL, random, false)},
                           {1, 1});
    auto options = frameOptions(CUS_HOST);
    options.unchecked = 1;
    support::Owned<cusEventDecoderDestroy> decoder;
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    Bench bench(CUS_HOST, 1024, 64);
    Result result;
    bench.run(decoder, stream.data(), stream.size(), 64, 0, result);
    EXPECT_EQ(result.status, CUS_OK) << result.message;
    EXPECT_EQ(result.events.t, (std::vector<int64_t>{9, 3}));
    EXPECT_EQ(result.events.x, (std::vector<uint16_t>{2000, 1}));
}

// Files of Metavision's own encoder: the decoder gives the reader's events.
TEST_P(RawFrames, FilesOfTheVendor) {
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
        options.space = space();
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        CUS_ASSERT_OK(cusEventDecoderSetState(decoder, &state));
        Bench bench(space(), 1 << 20, 1 << 17);
        for (const size_t most : {size_t{1} << 20, size_t{30000}}) {
            const Result got = bench.decode(decoder, stream, random, most, 0, 1 << 17);
            EXPECT_EQ(got.status, CUS_OK) << got.message;
            EXPECT_TRUE(got.events == e) << file;
            CUS_ASSERT_OK(cusEventDecoderFinish(decoder, nullptr));
        }
    }
}
