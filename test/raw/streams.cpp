// Random streams of every format, whole and cut anywhere, against the reference.
#include "raw/support.hpp"

using namespace raw_test;

namespace {

class RawStreams : public support::SpaceTest {
  protected:
    // The function whose name a run's error has.
    const char *function() const { return space() == CUS_HOST ? "cusEventDecoderRun" : "cusEventDecoderCheck"; }
    // A vector goes in one piece on the device.
    size_t least() const { return space() == CUS_HOST ? 0 : 32; }

    // Decodes the stream in pieces; the result, and what Finish says, are the reference's.
    void check(Bench &bench, cusEventDecoder *decoder, const cusEventDecoderOptions &options, const Bytes &stream,
               std::mt19937_64 &random, size_t most_bytes, size_t most_events) {
        reference::Raw expected(options);
        expected.run(stream);
        const Result got = bench.decode(decoder, stream, random, most_bytes, least(), most_events);
        checkEquals(got, expected, function());
        const cusStatus finished = cusEventDecoderFinish(decoder, nullptr);
        ASSERT_EQ(finished, expected.status == CUS_ERROR_TRUNCATED ? CUS_ERROR_TRUNCATED : CUS_OK) << cusLastError();
        if (finished != CUS_OK) {
            const std::string end = "the recording ends at byte " + std::to_string(stream.size()) + ", within a word of " +
                                    cusEventFormatName(options.format) + " that starts at byte " +
                                    std::to_string(expected.at);
            ASSERT_EQ(std::string("cusEventDecoderFinish: ") + end, cusLastError());
        }
    }
};
CUS_BOTH_SPACES(RawStreams);

const Damage DAMAGES[] = {{}, {0, 3, 0, 0, 0}, {2, 0, 0, 0, 0}, {0, 0, 3, 1, 0}, {20, 40, 60, 20, 10}, {0, 0, 0, 0, 900}};

} // namespace

TEST_P(RawStreams, InPiecesEqualTheReference) {
    auto random = support::generator();
    Bench bench(space(), 1 << 20, 1 << 18), small(space(), 4096, 4096, 4096, true);
    for (const Kind &kind : KINDS)
        for (const cusBadEvents bad : {CUS_BAD_EVENTS_STOP, CUS_BAD_EVENTS_SKIP})
            for (const Damage &damage : DAMAGES)
                for (const size_t words : {300, 20000 / support::fewer()}) {
                    const int sensor = int(random() % 3);
                    const auto options = optionsOf(kind, space(), bad, sensor ? 1280 : 0, sensor ? 720 : 0);
                    const Bytes stream = randomStream(kind, words, damage, random);
                    SCOPED_TRACE(std::string(kind.name) + ", " + (bad == CUS_BAD_EVENTS_STOP ? "stop" : "skip") +
                                 ", damage " + std::to_string(&damage - DAMAGES) + ", words " + std::to_string(words));
                    support::Owned<cusEventDecoderDestroy> decoder;
                    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
                    ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 1 << 20, 1 << 18)); // whole
                    ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 5000, 3000));
                    if (words < 1000)
                        ASSERT_NO_FATAL_FAILURE(check(small, decoder, options, stream, random, 11, 40));
                }
}

TEST_P(RawStreams, TenThousandStreamsCutAnywhere) {
    auto random = support::generator();
    Bench bench(space(), 4096, 4096, 4096, true);
    for (int round = 0; round < 10000 / support::fewer(); ++round) {
        const Kind &kind = KINDS[random() % std::size(KINDS)];
        const auto bad = cusBadEvents(random() % 2);
        const Damage &damage = DAMAGES[random() % std::size(DAMAGES)];
        const auto options = optionsOf(kind, space(), bad, 1280, 720);
        const Bytes stream = randomStream(kind, random() % 60, damage, random);
        SCOPED_TRACE(std::string(kind.name) + ", round " + std::to_string(round));
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 1 + random() % 100, 33 + random() % 60));
    }
}

// Bytes without any order, in every sensor size.
TEST_P(RawStreams, AnyBytes) {
    auto random = support::generator();
    Bench bench(space(), 1 << 16, 1 << 18);
    for (const Kind &kind : KINDS)
        for (int round = 0; round < 40; ++round) {
            const int width = round % 4 == 0 ? 0 : 1 + int(random() % 2048), height = width ? 1 + int(random() % 2048) : 0;
            const auto options = optionsOf(kind, space(), cusBadEvents(round % 2), width, height);
            const Bytes stream = support::randomBytes(random() % 4000, random);
            SCOPED_TRACE(std::string(kind.name) + ", round " + std::to_string(round));
            support::Owned<cusEventDecoderDestroy> decoder;
            CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
            ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, stream, random, 1 + random() % 3000, 1 + 32 * 500));
        }
}

// Vectors of EVT3 can run on past any column; those past 16 bits are outside every sensor.
TEST_P(RawStreams, Evt3VectorsRunOn) {
    auto random = support::generator();
    Bench bench(space(), 1 << 16, 1 << 18);
    Stream s(CUS_EVENTS_EVT3);
    s.time(5000);
    s.word(0x3000u | 2000);
    for (int i = 0; i < 25000; ++i)
        s.word(i % 3 ? 0x5081u : 0x4801u);
    s.word(0x3000u | 7);
    s.word(0x4001u);
    for (const cusBadEvents bad : {CUS_BAD_EVENTS_STOP, CUS_BAD_EVENTS_SKIP}) {
        const auto options = optionsOf(KINDS[3], space(), bad, 0, 0);
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        ASSERT_NO_FATAL_FAILURE(check(bench, decoder, options, s.bytes, random, 30001, 20000));
    }
}

// Every counter wraps and goes on.
TEST_P(RawStreams, CountersWrap) {
    auto random = support::generator();
    Bench bench(space(), 1 << 16, 1 << 16);
    for (const Kind &kind : KINDS) {
        const int64_t period = kind.format == CUS_EVENTS_DAT    ? int64_t(1) << 32
                               : kind.format == CUS_EVENTS_EVT3 ? int64_t(1) << 24
                                                                : int64_t(1) << 34;
        Stream s(kind);
        for (int i = 0; i < 40; ++i) {
            s.time(i * period / 8 + i);
            s.event(i * period / 8 + i, 1, 2, 1);
            if (kind.format != CUS_EVENTS_DAT)
                s.trigger(i * period / 8 + i, 3, 1);
        }
        SCOPED_TRACE(kind.name);
        const auto options = optionsOf(kind, space());
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        const Result got = bench.decode(decoder, s.bytes, random, 50, 32, 64);
        ASSERT_EQ(got.status, CUS_OK) << got.message;
        ASSERT_EQ(got.events.size(), 40u);
        for (int i = 0; i < 40; ++i)
            ASSERT_EQ(got.events.t[size_t(i)], i * period / 8 + i);
        if (kind.format != CUS_EVENTS_DAT)
            ASSERT_EQ(got.triggers.back().t, got.events.t.back());
    }
}
