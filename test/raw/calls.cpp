// The decoder's calls: errors with their messages, full arrays, arrays that are not needed, states.
#include "raw/support.hpp"

#include <thread>

using namespace raw_test;

namespace {

class RawCalls : public support::SpaceTest {
  protected:
    // A run and its status; on the device Check has it.
    cusStatus run(cusEventDecoder *decoder, Array<uint8_t> &bytes, size_t size, const cusEventBuffers &buffers,
                  cusEventDecoded *done = nullptr) {
        CUS_TRY(cusEventDecoderRun(decoder, bytes.data(), size, &buffers, nullptr, nullptr));
        return cusEventDecoderCheck(decoder, done, nullptr);
    }
    std::string name() const { return space() == CUS_HOST ? "cusEventDecoderRun: " : "cusEventDecoderCheck: "; }
};
CUS_BOTH_SPACES(RawCalls);

} // namespace

TEST(Raw, Defaults) {
    const cusEventDecoderOptions options = cusEventDecoderDefaults();
    EXPECT_EQ(options.format, CUS_EVENTS_ANY);
    EXPECT_EQ(options.legacy, 0);
    EXPECT_EQ(options.width, 0);
    EXPECT_EQ(options.height, 0);
    EXPECT_EQ(options.bad_events, CUS_BAD_EVENTS_STOP);
    EXPECT_EQ(options.unchecked, 0);
    EXPECT_EQ(options.space, CUS_HOST);
    EXPECT_EQ(options.max_bytes, size_t(64) << 20);
}

TEST(Raw, EveryBadOptionIsRejected) {
    support::Owned<cusEventDecoderDestroy> decoder;
    const auto good = optionsOf(KINDS[0]);
    CUS_REJECTS(cusEventDecoderCreate(nullptr, &good), NULL, "cusEventDecoderCreate: decoder is NULL");
    CUS_REJECTS(cusEventDecoderCreate(&decoder, nullptr), NULL, "cusEventDecoderCreate: options is NULL");
    const auto rejects = [&](auto change, const char *text) {
        auto bad = good;
        change(bad);
        CUS_REJECTS(cusEventDecoderCreate(&decoder, &bad), VALUE, text);
    };
    using O = cusEventDecoderOptions;
    for (const auto &[format, shown] :
         {std::pair{CUS_EVENTS_ANY, "0 (any)"}, {CUS_EVENTS_TEXT, "6 (text)"}, {CUS_EVENTS_M3ED, "1 (M3ED)"}})
        rejects([format = format](O &o) { o.format = format; },
                (std::string("cusEventDecoderCreate: format is ") + shown +
                 ", expected EVT2, EVT2.1, EVT3, EVT4, DAT, Metavision or HDF5")
                    .c_str());
    rejects([](O &o) { o.format = cusEventFormat(77); }, "format is 77 (unknown)");
    rejects([](O &o) { o.legacy = 1; }, "cusEventDecoderCreate: legacy is 1, expected 0, or 1 with EVT2.1");
    rejects([](O &o) { o.width = 0; },
            "cusEventDecoderCreate: sensor is 0 x 720 (width x height), expected 0 x 0 or 1..65536 each");
    rejects([](O &o) { o.height = 65537; }, "sensor is 1280 x 65537");
    rejects([](O &o) { o.width = -1; }, "sensor is -1 x 720");
    rejects([](O &o) { o.bad_events = cusBadEvents(2); },
            "cusEventDecoderCreate: bad_events is 2, expected a cusBadEvents");
    rejects([](O &o) { o.space = cusSpace(9); }, "cusEventDecoderCreate: space is 9");
    rejects([](O &o) { o.unchecked = 2; }, "cusEventDecoderCreate: unchecked is 2, expected 0, or 1 on the host");
    rejects([](O &o) { o.unchecked = 1, o.space = CUS_DEVICE; }, "unchecked is 1, expected 0, or 1 on the host");
    rejects([](O &o) { o.space = CUS_DEVICE, o.max_bytes = (size_t(1) << 29) + 1; },
            "cusEventDecoderCreate: max_bytes is 536870913, expected 0..536870912");
    EXPECT_EQ(decoder, nullptr);
    cusEventDecoderDestroy(nullptr);
}

TEST(Raw, WithoutAGpu) {
    if (support::haveGpu())
        GTEST_SKIP() << "there is a GPU";
    support::Owned<cusEventDecoderDestroy> decoder;
    const auto options = optionsOf(KINDS[0], CUS_DEVICE);
    CUS_REJECTS(cusEventDecoderCreate(&decoder, &options), NO_CUDA, "cusEventDecoderCreate: ");
}

TEST_P(RawCalls, RejectedCallsChangeNothing) {
    auto options = optionsOf(KINDS[3], space());
    options.max_bytes = 100;
    support::Owned<cusEventDecoderDestroy> decoder;
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    Array<uint8_t> bytes(space(), 200);
    Array<int64_t> t(space(), 100);
    const cusEventBuffers buffers = {nullptr, nullptr, nullptr, t.data(), 90, nullptr, 0};
    CUS_REJECTS(cusEventDecoderRun(nullptr, bytes.data(), 2, &buffers, nullptr, nullptr), NULL,
                "cusEventDecoderRun: decoder is NULL");
    CUS_REJECTS(cusEventDecoderRun(decoder, nullptr, 2, &buffers, nullptr, nullptr), NULL,
                "cusEventDecoderRun: bytes is NULL and size 2");
    CUS_REJECTS(cusEventDecoderRun(decoder, bytes.data(), 2, nullptr, nullptr, nullptr), NULL,
                "cusEventDecoderRun: events is NULL");
    if (space() == CUS_DEVICE)
        CUS_REJECTS(cusEventDecoderRun(decoder, bytes.data(), 101, &buffers, nullptr, nullptr), VALUE,
                    "cusEventDecoderRun: size is 101, expected up to 100, the decoder's max_bytes");
    const auto moved = [&](auto member) {
        cusEventBuffers b = buffers;
        b.*member = reinterpret_cast<std::remove_reference_t<decltype(b.*member)>>(reinterpret_cast<char *>(t.data()) + 1);
        return b;
    };
    for (const auto &[bad, text] : {std::pair{moved(&cusEventBuffers::x), "events' x is at"},
                                    {moved(&cusEventBuffers::y), "events' y is at"},
                                    {moved(&cusEventBuffers::t), "events' t is at"},
                                    {moved(&cusEventBuffers::triggers), "events' triggers is at"}})
        CUS_REJECTS(cusEventDecoderRun(decoder, bytes.data(), 2, &bad, nullptr, nullptr), VALUE, text);
    CUS_REJECTS(cusEventDecoderCheck(nullptr, nullptr, nullptr), NULL, "cusEventDecoderCheck: decoder is NULL");
    CUS_REJECTS(cusEventDecoderFinish(nullptr, nullptr), NULL, "cusEventDecoderFinish: decoder is NULL");
    cusEventDecoded done = {};
    CUS_ASSERT_OK(cusEventDecoderCheck(decoder, &done, nullptr));
    EXPECT_EQ(done.count + done.used + done.index + done.counts.events, 0u);
    EXPECT_EQ(done.first_time, -1);
    CUS_EXPECT_OK(cusEventDecoderRun(decoder, nullptr, 0, &buffers, nullptr, nullptr));
    CUS_EXPECT_OK(cusEventDecoderFinish(decoder, nullptr));
}

// Full arrays deliver what fits, and nothing is lost.
TEST_P(RawCalls, FullArrays) {
    Stream s(CUS_EVENTS_EVT2);
    s.time(640);
    for (unsigned i = 0; i < 10; ++i)
        s.event(640 + i, i, 3, 1);
    s.time(704); // no event: fits into full arrays
    Bench bench(space(), 1024, 64);
    support::Owned<cusEventDecoderDestroy> decoder;
    const auto options = optionsOf(KINDS[0], space());
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    Result result;
    bench.run(decoder, s.bytes.data(), s.bytes.size(), 4, 1, result);
    EXPECT_EQ(result.status, CUS_ERROR_CAPACITY);
    EXPECT_EQ(result.message,
              name() + "arrays with a capacity of 4 are full after 20 bytes of the piece; pass the rest again");
    EXPECT_EQ(result.last.count, 4u);
    EXPECT_EQ(result.last.used, 20u);
    EXPECT_EQ(result.last.index, 4u);
    bench.run(decoder, s.bytes.data() + 20, s.bytes.size() - 20, 0, 1, result);
    EXPECT_EQ(result.status, CUS_ERROR_CAPACITY);
    EXPECT_EQ(result.last.used, 0u);
    bench.run(decoder, s.bytes.data() + 20, s.bytes.size() - 20, 6, 1, result);
    EXPECT_EQ(result.status, CUS_OK) << result.message;
    EXPECT_EQ(result.last.used, s.bytes.size() - 20);
    ASSERT_EQ(result.events.size(), 10u);
    for (unsigned i = 0; i < 10; ++i)
        EXPECT_EQ(result.events.x[i], i);
}

TEST_P(RawCalls, FullTriggers) {
    for (const Kind &kind : KINDS) {
        if (kind.format == CUS_EVENTS_DAT)
            continue;
        SCOPED_TRACE(kind.name);
        Stream s(kind);
        s.trigger(0, 1, 1); // no time yet: only counted
        s.time(640);
        for (unsigned i = 0; i < 5; ++i) {
            s.event(640, i, 3, 1);
            s.trigger(640 + i, i, i & 1);
        }
        Bench bench(space(), 1024, 64);
        support::Owned<cusEventDecoderDestroy> decoder;
        const auto options = optionsOf(kind, space());
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        Result result;
        bench.run(decoder, s.bytes.data(), s.bytes.size(), 64, 2, result);
        EXPECT_EQ(result.status, CUS_ERROR_CAPACITY);
        const size_t used = result.last.used;
        EXPECT_EQ(result.message, name() + "triggers with a trigger_capacity of 2 are full after " + std::to_string(used) +
                                      " bytes of the piece; pass the rest again");
        EXPECT_EQ(result.last.count, 3u);
        EXPECT_EQ(result.last.triggers, 2u);
        EXPECT_EQ(result.last.counts.triggers_rising, 2u);
        EXPECT_EQ(result.last.counts.triggers_falling, 1u);
        bench.run(decoder, s.bytes.data() + used, s.bytes.size() - used, 64, 3, result);
        EXPECT_EQ(result.status, CUS_OK) << result.message;
        ASSERT_EQ(result.triggers.size(), 5u);
        ASSERT_EQ(result.events.size(), 5u);
        for (unsigned i = 0; i < 5; ++i) {
            EXPECT_EQ(result.triggers[i].t, kind.format == CUS_EVENTS_EVT3 ? 640 : 640 + i);
            EXPECT_EQ(result.triggers[i].id, int(i));
            EXPECT_EQ(result.triggers[i].value, i & 1);
        }
    }
}

// On the host a vector may be delivered in parts; on the device it comes as a whole.
TEST_P(RawCalls, FullWithinAVector) {
    for (const Kind &kind : KINDS) {
        Stream s(kind);
        if (!s.hasVectors())
            continue;
        SCOPED_TRACE(kind.name);
        s.time(640);
        s.event(640, 1, 1, 1);
        s.vector(640, 32, 3, 0, 0xfff);
        Bench bench(space(), 1024, 64);
        support::Owned<cusEventDecoderDestroy> decoder;
        const auto options = optionsOf(kind, space());
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        Result result;
        bench.run(decoder, s.bytes.data(), s.bytes.size(), 6, 0, result);
        EXPECT_EQ(result.status, CUS_ERROR_CAPACITY);
        const size_t word = kind.format == CUS_EVENTS_EVT3 ? 2 : 8;
        EXPECT_EQ(result.last.count, space() == CUS_HOST ? 6u : 1u);
        EXPECT_EQ(result.last.used, s.bytes.size() - (space() == CUS_HOST ? 0 : word));
        cusEventDecoderState state = {};
        CUS_ASSERT_OK(cusEventDecoderGetState(decoder, &state));
        EXPECT_EQ(state.vector, space() == CUS_HOST ? 0xfe0u : 0u);
        CUS_ASSERT_OK(cusEventDecoderSetState(decoder, &state));
        const size_t used = result.last.used;
        bench.run(decoder, s.bytes.data() + used, s.bytes.size() - used, 12, 0, result);
        EXPECT_EQ(result.status, CUS_OK) << result.message;
        ASSERT_EQ(result.events.size(), 13u);
        for (unsigned i = 0; i < 12; ++i)
            EXPECT_EQ(result.events.x[i + 1], 32 + i);
    }
}

// A failure stays until SetState or Finish, and is where `used` says.
TEST_P(RawCalls, FailuresStay) {
    for (const Kind &kind : KINDS) {
        SCOPED_TRACE(kind.name);
        Stream s(kind);
        s.time(640);
        s.event(640, 1, 1, 1);
        size_t bad = s.bytes.size() + (kind.format == CUS_EVENTS_EVT3 ? 2 : 0); // EVT3: behind the row's word
        s.event(640, 2, 2000, 1);
        s.event(640, 3, 1, 1);
        const auto options = optionsOf(kind, space());
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        cusEventDecoderState start = {}, state = {};
        CUS_ASSERT_OK(cusEventDecoderGetState(decoder, &start));
        Bench bench(space(), 1024, 64);
        Result result;
        bench.run(decoder, s.bytes.data(), s.bytes.size(), 64, 0, result);
        EXPECT_EQ(result.status, CUS_ERROR_FORMAT);
        EXPECT_EQ(result.last.used, bad);
        EXPECT_EQ(result.last.index, 1u);
        const std::string expected = "event 1 at x 2, y 2000 is outside the 1280 x 720 sensor";
        EXPECT_EQ(result.message, name() + expected);
        bench.run(decoder, s.bytes.data(), s.bytes.size(), 64, 0, result);
        EXPECT_EQ(result.message, name() + expected);
        EXPECT_EQ(result.last.used + result.last.count, 0u);
        EXPECT_EQ(result.last.index, 1u);
        EXPECT_EQ(result.last.counts.events, 1u);
        CUS_REJECTS(cusEventDecoderCheck(decoder, nullptr, nullptr), FORMAT, "cusEventDecoderCheck: " + expected);
        CUS_REJECTS(cusEventDecoderGetState(decoder, &state), FORMAT, "cusEventDecoderGetState: " + expected);
        CUS_EXPECT_OK(cusEventDecoderSetState(decoder, &start));
        bench.run(decoder, s.bytes.data(), bad, 64, 0, result);
        EXPECT_EQ(result.status, CUS_OK) << result.message;
        bench.run(decoder, s.bytes.data() + bad, s.bytes.size() - bad, 64, 0, result);
        EXPECT_EQ(result.message, name() + expected);
        CUS_EXPECT_OK(cusEventDecoderFinish(decoder, nullptr));
        bench.run(decoder, s.bytes.data(), bad, 64, 0, result);
        EXPECT_EQ(result.status, CUS_OK) << result.message;
        EXPECT_EQ(result.last.counts.events, 1u);
    }
}

// Any subset of the arrays, and none.
TEST_P(RawCalls, ArraysThatAreNotNeeded) {
    auto random = support::generator();
    for (const Kind &kind : KINDS) {
        const Bytes stream = randomStream(kind, 60000, {3, 20, 20, 5, 0}, random);
        const auto options = optionsOf(kind, space(), CUS_BAD_EVENTS_SKIP);
        reference::Raw expected(options);
        expected.run(stream);
        SCOPED_TRACE(kind.name);
        for (const unsigned kept : {0u, 1u, 6u, 8u, 15u})
            checkArrays(kept, stream, expected, options);
    }
}

// A state continues in another decoder of the same space, and one of the host on the device and back.
TEST_P(RawCalls, StatesContinueAnywhere) {
    auto random = support::generator();
    Bench here(space(), 1 << 17, 1 << 19), host(CUS_HOST, 1 << 17, 1 << 19);
    for (const Kind &kind : KINDS)
        for (int round = 0; round < 20; ++round) {
            SCOPED_TRACE(std::string(kind.name) + ", round " + std::to_string(round));
            const Bytes stream = randomStream(kind, 2000, {}, random);
            const auto options = optionsOf(kind, space(), CUS_BAD_EVENTS_SKIP),
                       on_host = optionsOf(kind, CUS_HOST, CUS_BAD_EVENTS_SKIP);
            reference::Raw expected(options);
            expected.run(stream);
            support::Owned<cusEventDecoderDestroy> a, b;
            CUS_ASSERT_OK(cusEventDecoderCreate(&a, &options));
            CUS_ASSERT_OK(cusEventDecoderCreate(&b, &on_host));
            const size_t cut = random() % (stream.size() + 1), second = cut + random() % (stream.size() - cut + 1);
            Result result;
            cusEventDecoderState state = {};
            here.run(a, stream.data(), cut, 1 << 19, 4096, result);
            CUS_ASSERT_OK(cusEventDecoderGetState(a, &state));
            EXPECT_EQ(state.offset + state.carried, cut);
            EXPECT_EQ(state.index, result.last.index);
            CUS_ASSERT_OK(cusEventDecoderSetState(b, &state));
            host.run(b, stream.data() + cut, second - cut, 1 << 19, 4096, result);
            CUS_ASSERT_OK(cusEventDecoderGetState(b, &state));
            CUS_ASSERT_OK(cusEventDecoderSetState(a, &state));
            here.run(a, stream.data() + second, stream.size() - second, 1 << 19, 4096, result);
            ASSERT_TRUE(result.events == expected.events);
            EXPECT_EQ(result.last.index, expected.index);
            EXPECT_EQ(result.triggers.size(), expected.triggers.size());
        }
}

TEST_P(RawCalls, StatesOfOtherFormatsAreRejected) {
    const auto rejects = [&](const Kind &kind, auto change) {
        support::Owned<cusEventDecoderDestroy> decoder;
        const auto options = optionsOf(kind, space());
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        cusEventDecoderState state = {};
        CUS_ASSERT_OK(cusEventDecoderGetState(decoder, &state));
        CUS_EXPECT_OK(cusEventDecoderSetState(decoder, &state));
        state.time_high = 5;
        change(state);
        CUS_REJECTS(cusEventDecoderSetState(decoder, &state), VALUE,
                    std::string("cusEventDecoderSetState: state is not one of ") + cusEventFormatName(kind.format));
    };
    using S = cusEventDecoderState;
    for (const Kind &kind : KINDS) {
        SCOPED_TRACE(kind.name);
        rejects(kind, [](S &s) { s.carried = 8; });
        rejects(kind, [](S &s) { s.time_high = -2; });
        rejects(kind, [](S &s) { s.time_high = int64_t(1) << 48; });
        rejects(kind, [](S &s) { s.last_time = -2; });
        rejects(kind, [](S &s) { s.y = 2048; });
        rejects(kind, [](S &s) { s.time_low = 4096; });
        rejects(kind, [](S &s) { s.vector_p = 2; });
        rejects(kind, [](S &s) { s.vector_size = 3; });
        rejects(kind, [](S &s) { s.vector = 1, s.time_high = -1; });
        rejects(kind, [](S &s) { s.vector = 1, s.carried = 1; });
        rejects(kind, [](S &s) { s.vector_x = 300000; });
    }
    rejects(KINDS[0], [](S &s) { s.carried = 4; });
    rejects(KINDS[3], [](S &s) { s.carried = 2; });
    rejects(KINDS[3], [](S &s) { s.vector = 256, s.vector_size = 8, s.vector_x = 8; });
    rejects(KINDS[3], [](S &s) { s.vector = 1, s.vector_size = 12, s.vector_x = 8; });
    rejects(KINDS[4], [](S &s) { s.carried = 5, s.carry[3] = 0xe0; }); // a whole word of EVT4, which no decoder carries
    support::Owned<cusEventDecoderDestroy> decoder;
    const auto options = optionsOf(KINDS[0], space());
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    CUS_REJECTS(cusEventDecoderGetState(decoder, nullptr), NULL, "cusEventDecoderGetState: state is NULL");
    CUS_REJECTS(cusEventDecoderSetState(decoder, nullptr), NULL, "cusEventDecoderSetState: state is NULL");
    cusEventDecoderState state = {};
    CUS_REJECTS(cusEventDecoderGetState(nullptr, &state), NULL, "cusEventDecoderGetState: decoder is NULL");
    CUS_REJECTS(cusEventDecoderSetState(nullptr, &state), NULL, "cusEventDecoderSetState: decoder is NULL");
}

// Unchecked, bad events come like good ones; undefined words are as the options say.
TEST(Raw, Unchecked) {
    Stream s(CUS_EVENTS_DAT);
    s.event(9, 2000, 2000, 7);
    s.event(3, 1, 1, 1);
    auto options = optionsOf(KINDS[5]);
    options.unchecked = 1;
    support::Owned<cusEventDecoderDestroy> decoder, evt2;
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    Bench bench(CUS_HOST, 1024, 64);
    Result result;
    bench.run(decoder, s.bytes.data(), s.bytes.size(), 64, 0, result);
    EXPECT_EQ(result.status, CUS_OK) << result.message;
    EXPECT_EQ(result.events.p, (std::vector<uint8_t>{7, 1}));
    EXPECT_EQ(result.events.t, (std::vector<int64_t>{9, 3}));
    Stream w(CUS_EVENTS_EVT2);
    w.undefined();
    options.format = CUS_EVENTS_EVT2;
    CUS_ASSERT_OK(cusEventDecoderCreate(&evt2, &options));
    bench.run(evt2, w.bytes.data(), w.bytes.size(), 64, 0, result);
    EXPECT_EQ(result.message, "cusEventDecoderRun: byte 0: word of type 5, which EVT2 does not define");
}

// Decoders are independent: two threads, each with its own.
TEST_P(RawCalls, TwoThreads) {
    const auto decode = [this](uint64_t seed, bool &equal) {
        std::mt19937_64 random(seed);
        Bench bench(space(), 1 << 16, 1 << 16);
        for (const Kind &kind : KINDS) {
            const Bytes stream = randomStream(kind, 3000, {0, 9, 9, 0, 0}, random);
            const auto options = optionsOf(kind, space(), CUS_BAD_EVENTS_SKIP);
            support::Owned<cusEventDecoderDestroy> decoder;
            EXPECT_EQ(cusEventDecoderCreate(&decoder, &options), CUS_OK);
            reference::Raw expected(options);
            expected.run(stream);
            equal = bench.decode(decoder, stream, random, 5000, 32, 6000).events == expected.events && equal;
        }
    };
    bool first = true, second = true;
    std::thread other(decode, support::seed() + 1, std::ref(first));
    decode(support::seed() + 2, second);
    other.join();
    EXPECT_TRUE(first && second);
}
