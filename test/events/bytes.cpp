// A pipeline whose recording comes as raw bytes makes the frames of the same events.
#include "events/support.hpp"
#include "raw/support.hpp"

#include <cstring>

namespace {

using namespace events;
using raw_test::Bytes;
using raw_test::Damage;
using raw_test::Kind;
using raw_test::KINDS;

constexpr int ROWS = 48, COLS = 64;

// Both backends, without and with low_latency.
class EventBytes : public testing::TestWithParam<std::tuple<cusSpace, int>> {
  protected:
    void SetUp() override { CUS_NEEDS(space()); }
    cusSpace space() const { return std::get<0>(GetParam()); }
    cusEventPipelineOptions options(const cusWindowing &w, const cusEventDecoderOptions *decoder) const {
        cusEventPipelineOptions o = cusEventPipelineDefaults();
        o.compute = space();
        o.windowing = w;
        o.decoder = decoder;
        o.low_latency = std::get<1>(GetParam());
        return o;
    }
};
std::string nameOf(const testing::TestParamInfo<EventBytes::ParamType> &of) {
    return std::string(std::get<0>(of.param) == CUS_DEVICE ? "cuda" : "host") +
           (std::get<1>(of.param) ? "_low_latency" : "");
}
INSTANTIATE_TEST_SUITE_P(, EventBytes, testing::Combine(testing::Values(CUS_HOST, CUS_DEVICE), testing::Values(0, 1)),
                         nameOf);

cusStatus pushBytes(cusEventPipeline *pipeline, const Bytes &bytes, size_t most, std::mt19937_64 &random) {
    for (size_t at = 0; at < bytes.size();) {
        const size_t n = std::min<size_t>(bytes.size() - at, random() % (most + 1));
        const std::vector<uint8_t> piece(bytes.begin() + ptrdiff_t(at),
                                         bytes.begin() + ptrdiff_t(at + n)); // its end is seen
        const cusStatus status = cusEventPipelinePushBytes(pipeline, piece.data(), n);
        if (status != CUS_OK)
            return status;
        at += n;
    }
    return CUS_OK;
}

// What a pipeline on the host makes of the reference's events.
Collected expectedOf(const Events &events, cusEventPipelineOptions o, const std::vector<cusRepresentation> &r, int rows,
                     int cols, cusStatus *status = nullptr) {
    o.compute = o.deliver = CUS_HOST;
    o.decoder = nullptr;
    Collected expected;
    const Pipeline pipeline(rows, cols, r, o, &expected);
    const cusEventArrays all = slice(events, 0, events.size());
    const cusStatus pushed = cusEventPipelinePush(pipeline.object, &all);
    if (status)
        *status = pushed;
    else
        CUS_EXPECT_OK(cusEventPipelineFlush(pipeline.object));
    return expected;
}

void expectSame(const Collected &got, const Collected &expected) {
    ASSERT_EQ(got.windows.size(), expected.windows.size());
    ASSERT_TRUE(got.windows.empty() || got.first == expected.first);
    for (size_t k = 0; k < got.windows.size(); ++k) {
        ASSERT_EQ(got.windows[k].first, expected.windows[k].first) << "window " << k;
        ASSERT_EQ(got.windows[k].last, expected.windows[k].last) << "window " << k;
    }
    ASSERT_TRUE(got.values == expected.values);
}

// Ends a recording; status: that of the reference.
void flush(cusEventPipeline *pipeline, cusStatus status) {
    const cusStatus ended = cusEventPipelineFlush(pipeline);
    if (status == CUS_ERROR_TRUNCATED)
        CUS_REJECTS(ended, TRUNCATED, "cusEventPipelineFlush: the recording ends at byte ");
    else
        CUS_ASSERT_OK(ended);
}

} // namespace

TEST_P(EventBytes, GiveTheFramesOfTheirEvents) {
    auto random = support::generator();
    const Damage damages[] = {{}, {20, 40, 60, 20, 10}};
    std::vector<cusRepresentation> kinds = {repr(CUS_REPR_HISTOGRAM),    repr(CUS_REPR_TENCODE),
                                            repr(CUS_REPR_MDES),         repr(CUS_REPR_EVENT_DIFF),
                                            repr(CUS_REPR_TIME_SURFACE), repr(CUS_REPR_TIME_SURFACE)};
    kinds.back().depth = CUS_16F;
    for (int round = 0; round < 90 / support::fewer(); ++round) {
        const Kind &kind = KINDS[size_t(round) % std::size(KINDS)];
        const auto decoder = raw_test::optionsOf(kind, CUS_HOST, CUS_BAD_EVENTS_SKIP, COLS, ROWS);
        const Bytes bytes = raw_test::randomStream(kind, 1 + random() % 2000, damages[random() % 2], random, COLS, ROWS);
        reference::Raw stream(decoder);
        stream.run(bytes);
        const cusWindowing w = randomWindowing(random);
        cusEventPipelineOptions o = options(w, &decoder);
        o.max_gap = UINT64_MAX;
        o.max_events = w.unit == CUS_WINDOW_COUNT ? w.length + random() % 300 : stream.events.size() + 1;
        o.batch_windows = 1 + random() % 9;
        if (random() % 3 == 0) {
            o.first_window = random() % 4;
            o.end_window = random() % 2 ? 0 : o.first_window + 1 + random() % 5;
        }
        if (space() == CUS_DEVICE && random() % 3 == 0)
            o.deliver = CUS_DEVICE;
        SCOPED_TRACE(std::string(kind.name) + ", round " + std::to_string(round));
        // A time that jumps far gives as many frames: only counted windows then.
        const auto &t = stream.events.t;
        if (w.unit == CUS_WINDOW_DURATION && !t.empty() &&
            uint64_t(t.back() - t[0]) / (w.stride ? w.stride : w.length) > 300)
            continue;
        const std::vector<cusRepresentation> r = {kinds[random() % kinds.size()]};
        const Collected expected = expectedOf(stream.events, o, r, ROWS, COLS);
        Collected got;
        const Pipeline pipeline(ROWS, COLS, r, o, &got);
        for (int again = 0; again < 2; ++again) { // a second recording starts over
            got = Collected();
            CUS_ASSERT_OK(pushBytes(pipeline.object, bytes, again ? bytes.size() : 1 + random() % 700, random));
            ASSERT_NO_FATAL_FAILURE(flush(pipeline.object, stream.status));
            ASSERT_NO_FATAL_FAILURE(expectSame(got, expected));
        }
        cusEventPipelineCounts counts = {};
        CUS_EXPECT_OK(cusEventPipelineQuery(pipeline.object, &counts));
        EXPECT_EQ(counts.events, 2 * stream.events.size());
        EXPECT_TRUE(raw_test::sameCounts(counts.decoded, stream.counts)) << raw_test::text(counts.decoded);
    }
}

// Frames of chunks, of which many do not fit a pipeline's buffers as a whole.
TEST_P(EventBytes, GiveTheFramesOfTheirChunks) {
    auto random = support::generator();
    if (space() == CUS_HOST) { // decodes words alone
        auto decoder = raw_test::optionsOf({CUS_EVENTS_HDF5, 0, "HDF5"}, CUS_DEVICE, CUS_BAD_EVENTS_SKIP, COLS, ROWS);
        const cusEventPipelineOptions o = options(cusWindowingDefaults(), &decoder);
        const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
        const cusFrameSink sink = [](void *, const cusFrameBatch *) { return CUS_OK; };
        cusEventPipeline *pipeline = nullptr;
        CUS_REJECTS(cusEventPipelineCreate(&pipeline, ROWS, COLS, &r, 1, &o, sink, nullptr), UNSUPPORTED,
                    "cusEventPipelineCreate: chunks of HDF5 are decoded on the device alone");
        return;
    }
    const std::vector<cusRepresentation> kinds = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_TENCODE), repr(CUS_REPR_MDES)};
    int some = 0;
    for (int round = 0; round < 60 / support::fewer() || some <= 5 / support::fewer(); ++round) {
        const auto format = round % 4 < 2 ? CUS_EVENTS_METAVISION : CUS_EVENTS_HDF5;
        auto decoder =
            raw_test::optionsOf({format, 0, cusEventFormatName(format)}, CUS_HOST, CUS_BAD_EVENTS_SKIP, COLS, ROWS);
        Damage damage = {};
        damage.outside = round % 2 ? 20 : 0;
        damage.late = round % 3 ? 0 : 100;
        const Bytes bytes = raw_test::randomFrames(1 + random() % 4000, damage, random, COLS, ROWS, format);
        reference::Frames stream(decoder);
        stream.run(bytes);
        const cusWindowing w = randomWindowing(random);
        const auto &t = stream.events.t;
        if (w.unit == CUS_WINDOW_DURATION && !t.empty() &&
            uint64_t(t.back() - t[0]) / (w.stride ? w.stride : w.length) > 300)
            continue;
        cusEventPipelineOptions o = options(w, &decoder);
        o.max_gap = UINT64_MAX;
        o.max_events = w.unit == CUS_WINDOW_COUNT ? w.length + random() % 300 : stream.events.size() + 1;
        o.batch_windows = 1 + random() % 9;
        SCOPED_TRACE("round " + std::to_string(round));
        const std::vector<cusRepresentation> r = {kinds[random() % kinds.size()]};
        const Collected expected = expectedOf(stream.events, o, r, ROWS, COLS);
        Collected got;
        const Pipeline pipeline(ROWS, COLS, r, o, &got);
        CUS_ASSERT_OK(pushBytes(pipeline.object, bytes, 1 + random() % bytes.size(), random));
        ASSERT_NO_FATAL_FAILURE(flush(pipeline.object, stream.status));
        ASSERT_NO_FATAL_FAILURE(expectSame(got, expected));
        some += got.windows.size() > 1;
        cusEventPipelineCounts counts = {};
        CUS_EXPECT_OK(cusEventPipelineQuery(pipeline.object, &counts));
        EXPECT_TRUE(raw_test::sameCounts(counts.decoded, stream.counts)) << raw_test::text(counts.decoded);
    }
}

// A rank of many continues from the state that another decoder left, with the numbers of the whole recording.
TEST_P(EventBytes, FromAPlaceWithinARecording) {
    auto random = support::generator();
    int some = 0;
    for (int round = 0; round < 60 / support::fewer() || some <= 3 / support::fewer(); ++round) {
        const Kind &kind = KINDS[size_t(round) % std::size(KINDS)];
        const auto decoder = raw_test::optionsOf(kind, CUS_HOST, CUS_BAD_EVENTS_SKIP, COLS, ROWS);
        const Bytes bytes = raw_test::randomStream(kind, 1 + random() % 2000, {}, random, COLS, ROWS);
        reference::Raw stream(decoder);
        stream.run(bytes);
        const auto &t = stream.events.t;
        cusEventPipelineOptions o = options(randomWindowing(random), &decoder);
        const bool by_duration = o.windowing.unit == CUS_WINDOW_DURATION;
        const uint64_t stride = o.windowing.stride ? o.windowing.stride : o.windowing.length;
        if (t.empty() || (by_duration && uint64_t(t.back() - t[0]) / stride > 300))
            continue;
        o.max_gap = UINT64_MAX;
        o.max_events = by_duration ? t.size() + 1 : o.windowing.length;
        const size_t at = random() % (bytes.size() + 1);
        support::Owned<cusEventDecoderDestroy> before;
        CUS_ASSERT_OK(cusEventDecoderCreate(&before, &decoder));
        const cusEventBuffers counted = {nullptr, nullptr, nullptr, nullptr, t.size() + 1, nullptr, 0};
        cusEventDecoded done = {};
        CUS_ASSERT_OK(cusEventDecoderRun(before, bytes.data(), at, &counted, &done, nullptr));
        cusEventDecoderState state = {};
        CUS_ASSERT_OK(cusEventDecoderGetState(before, &state));
        const uint64_t n = done.count;
        o.first_window = random() % 3 + (n == 0        ? 0
                                         : by_duration ? uint64_t(t[n - 1] - t[0]) / stride + 1
                                                       : (n - 1) / stride + 1);
        const std::vector<cusRepresentation> r = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_TENCODE)};
        const Collected expected = expectedOf(stream.events, o, r, ROWS, COLS);
        o.first_event = n;
        o.origin = t[0];
        Collected got;
        const Pipeline pipeline(ROWS, COLS, r, o, &got);
        CUS_ASSERT_OK(cusEventDecoderSetState(cusEventPipelineDecoder(pipeline.object), &state));
        const Bytes rest(bytes.begin() + ptrdiff_t(at), bytes.end());
        CUS_ASSERT_OK(pushBytes(pipeline.object, rest, 1 + random() % 700, random));
        cusEventPipelineCounts counts = {};
        CUS_ASSERT_OK(cusEventPipelineQuery(pipeline.object, &counts));
        EXPECT_EQ(counts.events, t.size() - n);
        EXPECT_EQ(counts.last_time, by_duration && n < t.size() ? t.back() : -1);
        const cusStatus ended = cusEventPipelineFlush(pipeline.object);
        EXPECT_EQ(ended, stream.status == CUS_ERROR_TRUNCATED ? CUS_ERROR_TRUNCATED : CUS_OK);
        ASSERT_NO_FATAL_FAILURE(expectSame(got, expected)) << kind.name << ", round " << round;
        some += n > 0 && !got.windows.empty();
    }
}

TEST_P(EventBytes, DamageStopsThemAndWhatIsCompleteIsDelivered) {
    auto random = support::generator();
    for (int round = 0; round < 40 / support::fewer(); ++round) {
        const Kind &kind = KINDS[size_t(round) % std::size(KINDS)];
        const auto decoder = raw_test::optionsOf(kind, CUS_HOST, CUS_BAD_EVENTS_STOP, COLS, ROWS);
        const Bytes bytes = raw_test::randomStream(kind, 3000, {1, 1, 1, 1, 0}, random, COLS, ROWS);
        reference::Raw stream(decoder);
        stream.run(bytes);
        cusWindowing w = cusWindowingDefaults();
        w.length = 50;
        w.keep_incomplete = 1;
        const cusEventPipelineOptions o = options(w, &decoder);
        const std::vector<cusRepresentation> r = {repr(CUS_REPR_HISTOGRAM)};
        SCOPED_TRACE(std::string(kind.name) + ", round " + std::to_string(round));
        Collected got;
        const Pipeline pipeline(ROWS, COLS, r, o, &got);
        const cusStatus status = pushBytes(pipeline.object, bytes, 1000, random);
        if (stream.status == CUS_ERROR_FORMAT) {
            CUS_REJECTS(status, FORMAT, "cusEventPipelinePushBytes: " + stream.message);
            CUS_REJECTS(cusEventPipelinePushBytes(pipeline.object, bytes.data(), 1), FORMAT, stream.message);
        } else {
            CUS_ASSERT_OK(status);
        }
        (void)cusEventPipelineFlush(pipeline.object);
        ASSERT_NO_FATAL_FAILURE(expectSame(got, expectedOf(stream.events, o, r, ROWS, COLS)));
    }
}

// Pieces of more than a buffer, and windows that span them.
TEST_P(EventBytes, LargePieces) {
    auto random = support::generator();
    raw_test::Stream s(CUS_EVENTS_EVT2);
    Events events;
    for (int64_t t = 0; s.bytes.size() < size_t{17} << 20; ++t) {
        if (t % 64 == 0)
            s.time(t);
        const uint64_t any = random();
        for (int i = 0; i < 3; ++i) {
            const unsigned x = unsigned(any >> 16 * i & 63), y = unsigned(any >> (16 * i + 6)) % ROWS,
                           p = unsigned(any >> 63);
            s.event(t, x, y, p);
            events.add(t, int(x), int(y), int(p));
        }
    }
    const auto decoder = raw_test::optionsOf(KINDS[0], CUS_HOST, CUS_BAD_EVENTS_STOP, COLS, ROWS);
    support::Mat pinned;
    if (space() == CUS_DEVICE)
        CUS_ASSERT_OK(cusMatCreatePinned(&pinned, 1, int(s.bytes.size()), CUS_8UC1));
    else
        CUS_ASSERT_OK(cusMatCreate(&pinned, 1, int(s.bytes.size()), CUS_8UC1, CUS_HOST));
    std::memcpy(pinned.data, s.bytes.data(), s.bytes.size());
    const std::vector<cusRepresentation> r = {repr(CUS_REPR_HISTOGRAM)};
    for (const auto &[unit, length, stride] :
         {std::tuple{CUS_WINDOW_COUNT, 400000, 300000}, std::tuple{CUS_WINDOW_DURATION, 150000, 150000}}) {
        cusWindowing w = cusWindowingDefaults();
        w.unit = unit, w.length = uint64_t(length), w.stride = uint64_t(stride);
        cusEventPipelineOptions o = options(w, &decoder);
        o.max_events = 500000;
        const Collected expected = expectedOf(events, o, r, ROWS, COLS);
        for (const void *from : {static_cast<const void *>(s.bytes.data()), static_cast<const void *>(pinned.data)}) {
            Collected got;
            const Pipeline pipeline(ROWS, COLS, r, o, &got);
            CUS_ASSERT_OK(cusEventPipelinePushBytes(pipeline.object, from, s.bytes.size()));
            CUS_ASSERT_OK(cusEventPipelineFlush(pipeline.object));
            ASSERT_NO_FATAL_FAILURE(expectSame(got, expected));
        }
    }
}

namespace {

// A recording with a fifth of its events on one pixel and some outside the frame, and where its times are.
struct Live {
    raw_test::Stream stream;
    std::vector<std::pair<size_t, int64_t>> times; // no event from this byte on is earlier

    Live(const Kind &kind, size_t steps, std::mt19937_64 &random) : stream(kind) {
        int64_t t = (int64_t(1) << 24) - 3000; // the counter of EVT3 wraps soon
        for (size_t i = 0; i < steps; ++i) {
            t += int64_t(random() % 8);
            times.emplace_back(stream.bytes.size(), t);
            stream.time(t);
            for (uint64_t n = random() % 12; n > 0; --n) {
                const uint64_t any = random();
                if (any % 5 == 0)
                    stream.event(t, COLS / 3, ROWS - 1, any >> 8 & 7 ? 1 : 0);
                else if (stream.hasVectors() && any % 5 == 1)
                    stream.vector(t, uint32_t(any >> 16) % COLS, uint32_t(any >> 32) % ROWS, any >> 8 & 1,
                                  uint32_t(any >> 40));
                else
                    stream.event(t, uint32_t(any >> 16) % (COLS + 1), uint32_t(any >> 32) % ROWS, any >> 8 & 1);
            }
        }
    }
    int64_t timeAt(size_t byte) const {
        const auto after = std::upper_bound(times.begin(), times.end(), std::pair{byte, INT64_MAX});
        return after == times.begin() ? 0 : std::prev(after)->second;
    }
};

} // namespace

// 10,000 packets in all, in page-locked memory or not; in windows of about one or two packets, in the last rounds of up to 3 MB, which
// many blocks decode at once. Advancing changes no frame.
TEST_P(EventBytes, PacketsCutAnywhere) {
    auto random = support::generator();
    std::vector<cusRepresentation> kinds = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_EVENT_DIFF),
                                            repr(CUS_REPR_TIME_SURFACE)};
    kinds[0].swap_channels = 1;
    kinds[1].lower = -3, kinds[1].upper = 100;
    for (int round = 0; round < 16; ++round) {
        const bool large = round >= 12;
        const Kind &kind = KINDS[round % 2 ? 0 : 3]; // EVT2, EVT3
        const auto unit = round / 2 % 2 ? CUS_WINDOW_COUNT : CUS_WINDOW_DURATION;
        SCOPED_TRACE(std::string(kind.name) + ", round " + std::to_string(round));
        const Live live(kind, large ? 250000 : size_t(50000 / support::fewer()), random);
        const Bytes &bytes = live.stream.bytes;
        const auto decoder = raw_test::optionsOf(kind, CUS_HOST, CUS_BAD_EVENTS_SKIP, 0, 0);
        cusWindowing w = cusWindowingDefaults();
        w.unit = unit;
        w.length = large ? 100000 + random() % 200000 : 200 + random() % 600;
        cusEventPipelineOptions o = options(w, &decoder);
        o.deliver = round / 4 % 2 ? space() : CUS_HOST;
        const std::vector<cusRepresentation> r = {kinds[size_t(round) % kinds.size()]};
        cusEventPipelineOptions whole = o;
        whole.compute = whole.deliver = CUS_HOST;
        Collected expected, got;
        const Pipeline host(ROWS, COLS, r, whole, &expected), pipeline(ROWS, COLS, r, o, &got);
        CUS_ASSERT_OK(cusEventPipelinePushBytes(host.object, bytes.data(), bytes.size()));
        CUS_ASSERT_OK(cusEventPipelineFlush(host.object));
        support::Mat pinned;
        if (space() == CUS_DEVICE)
            CUS_ASSERT_OK(cusMatCreatePinned(&pinned, 1, int(bytes.size()), CUS_8UC1));
        else
            CUS_ASSERT_OK(cusMatCreate(&pinned, 1, int(bytes.size()), CUS_8UC1, CUS_HOST));
        std::memcpy(pinned.data, bytes.data(), bytes.size());
        const size_t most = large ? size_t{3} << 20 : 2 * bytes.size() / size_t(840 / support::fewer());
        for (size_t at = 0, n; at < bytes.size(); at += n) {
            n = std::min<size_t>(bytes.size() - at, 1 + random() % most);
            const uint8_t *from = random() % 4 ? static_cast<const uint8_t *>(pinned.data) : bytes.data();
            CUS_ASSERT_OK(cusEventPipelinePushBytes(pipeline.object, from + at, n));
            if (random() % 4 == 0)
                CUS_ASSERT_OK(cusEventPipelineAdvance(pipeline.object, live.timeAt(at + n)));
        }
        CUS_ASSERT_OK(cusEventPipelineFlush(pipeline.object));
        ASSERT_NO_FATAL_FAILURE(expectSame(got, expected));
        cusEventPipelineCounts counts[2] = {};
        CUS_ASSERT_OK(cusEventPipelineQuery(host.object, &counts[0]));
        CUS_ASSERT_OK(cusEventPipelineQuery(pipeline.object, &counts[1]));
        EXPECT_EQ(counts[1].skipped, counts[0].skipped);
        EXPECT_EQ(counts[1].windows, counts[0].windows);
    }
}

TEST_P(EventBytes, GapsAndFullWindowsAreErrors) {
    const auto decoder = raw_test::optionsOf(KINDS[0], CUS_HOST, CUS_BAD_EVENTS_STOP, COLS, ROWS);
    const std::vector<cusRepresentation> r = {repr(CUS_REPR_HISTOGRAM)};
    cusWindowing w = cusWindowingDefaults();
    w.unit = CUS_WINDOW_DURATION;
    w.length = 10;
    for (const int64_t jump : {int64_t(9000), int64_t(10020), int64_t(10050), int64_t(1) << 33})
        for (const uint64_t first : {0, 900, 100000}) {
            raw_test::Stream s(CUS_EVENTS_EVT2);
            Events events;
            for (const int64_t t : {int64_t(3), int64_t(17), 17 + jump, 29 + jump}) {
                s.time(t);
                s.event(t, 1, 2, 1);
                events.add(t, 1, 2, 1);
            }
            cusEventPipelineOptions o = options(w, &decoder);
            o.first_window = first;
            o.end_window = first ? first + 200 : 0;
            cusStatus expected = CUS_OK;
            (void)expectedOf(events, o, r, ROWS, COLS, &expected);
            const std::string message =
                expected == CUS_OK ? "" : std::string(cusLastError()).substr(strlen("cusEventPipelinePush"));
            Collected got;
            const Pipeline pipeline(ROWS, COLS, r, o, &got);
            const cusStatus status = cusEventPipelinePushBytes(pipeline.object, s.bytes.data(), s.bytes.size());
            EXPECT_EQ(status, expected) << jump << ", from " << first;
            if (status != CUS_OK) {
                EXPECT_EQ(cusLastError(), "cusEventPipelinePushBytes" + message);
                CUS_REJECTS(cusEventPipelineFlush(pipeline.object), CAPACITY, message);
            }
        }
    raw_test::Stream s(CUS_EVENTS_EVT2);
    s.time(64);
    for (int i = 0; i < 1000; ++i)
        s.event(64, unsigned(i % COLS), 2, 1);
    cusEventPipelineOptions o = options(w, &decoder);
    o.max_events = 100;
    Collected got;
    const Pipeline pipeline(ROWS, COLS, r, o, &got);
    const cusStatus status = cusEventPipelinePushBytes(pipeline.object, s.bytes.data(), s.bytes.size());
    CUS_REJECTS(status, CAPACITY, "cusEventPipelinePushBytes: window 0 has more than max_events = 100 events");
}

TEST_P(EventBytes, StartFromAStateAndRejects) {
    const auto decoder = raw_test::optionsOf(KINDS[0], CUS_HOST, CUS_BAD_EVENTS_STOP, COLS, ROWS);
    cusWindowing w = cusWindowingDefaults();
    w.length = 1;
    Collected got;
    const cusEventPipelineOptions o = options(w, &decoder);
    const Pipeline pipeline(ROWS, COLS, {repr(CUS_REPR_HISTOGRAM)}, o, &got);
    cusEventDecoder *const own = cusEventPipelineDecoder(pipeline.object);
    ASSERT_NE(own, nullptr);
    cusEventDecoderState state = {};
    CUS_ASSERT_OK(cusEventDecoderGetState(own, &state));
    state.time_high = 7; // as if a time word had come
    state.offset = 1000;
    CUS_ASSERT_OK(cusEventDecoderSetState(own, &state));
    raw_test::Stream s(CUS_EVENTS_EVT2);
    s.event(7 * 64, 5, 6, 1);
    s.undefined();
    CUS_REJECTS(cusEventPipelinePushBytes(pipeline.object, s.bytes.data(), s.bytes.size()), FORMAT,
                "cusEventPipelinePushBytes: byte 1004: word of type 5");
    CUS_EXPECT_OK(cusEventPipelineFlush(pipeline.object));
    EXPECT_EQ(got.windows.size(), 1u);

    const cusEventArrays none = {};
    CUS_REJECTS(cusEventPipelinePush(pipeline.object, &none), VALUE,
                "cusEventPipelinePush: the pipeline takes bytes, expected one without a decoder");
    CUS_REJECTS(cusEventPipelinePushBytes(pipeline.object, nullptr, 3), NULL, "bytes is NULL and size 3");
    CUS_REJECTS(cusEventPipelinePushBytes(nullptr, s.bytes.data(), 3), NULL, "pipeline is NULL");
    const Pipeline of_events(ROWS, COLS, {repr(CUS_REPR_HISTOGRAM)}, options(w, nullptr), &got);
    CUS_REJECTS(cusEventPipelinePushBytes(of_events.object, s.bytes.data(), 3), VALUE,
                "cusEventPipelinePushBytes: the pipeline takes events, expected one with a decoder");
    EXPECT_EQ(cusEventPipelineDecoder(of_events.object), nullptr);
    EXPECT_EQ(cusEventPipelineDecoder(nullptr), nullptr);
    cusEventDecoderOptions bad = decoder;
    bad.format = CUS_EVENTS_TEXT;
    const cusEventPipelineOptions wrong = options(w, &bad);
    cusEventPipelineOptions odd = o;
    odd.low_latency = 2;
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    support::Owned<cusEventPipelineDestroy> none_made;
    CUS_REJECTS(cusEventPipelineCreate(&none_made, ROWS, COLS, &r, 1, &odd, Collected::sink, &got), VALUE,
                "cusEventPipelineCreate: options->low_latency is 2, expected 0 or 1");
    CUS_REJECTS(cusEventPipelineCreate(&none_made, ROWS, COLS, &r, 1, &wrong, Collected::sink, &got), VALUE,
                "cusEventPipelineCreate: ");
}
