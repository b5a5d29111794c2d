#include "events/support.hpp"

#include <cstdio>
#include <cstring>
#include <tuple>

namespace {

using namespace events;

class EventPipeline : public support::SpaceTest {
  protected:
    cusEventPipelineOptions options(const cusWindowing &w) const {
        cusEventPipelineOptions o = cusEventPipelineDefaults();
        o.compute = space();
        o.windowing = w;
        return o;
    }
};
CUS_BOTH_SPACES(EventPipeline);

void pushInPieces(cusEventPipeline *pipeline, const Events &events, size_t max_piece, std::mt19937_64 &random) {
    for (size_t at = 0; at < events.size();) {
        const size_t n = std::min(events.size() - at, static_cast<size_t>(random() % (max_piece + 1)));
        const cusEventArrays piece = slice(events, at, n);
        CUS_ASSERT_OK(cusEventPipelinePush(pipeline, &piece));
        at += n;
    }
    CUS_ASSERT_OK(cusEventPipelineFlush(pipeline));
}

TEST_P(EventPipeline, PiecesEqualTheWhole) {
    std::mt19937_64 random = support::generator();
    const int rows = 12, cols = 17;
    for (int round = 0; round < 120 / support::fewer(); ++round) {
        const Events events = randomEvents(random() % 3000, rows, cols, 10, random, round % 2 ? 3 : 40);
        const cusWindowing w = randomWindowing(random);
        cusEventPipelineOptions o = options(w);
        o.max_events = w.unit == CUS_WINDOW_COUNT ? w.length + random() % 300 : 3000;
        o.batch_windows = 1 + random() % 9;
        if (space() == CUS_DEVICE && random() % 3 == 0)
            o.deliver = CUS_DEVICE;
        const std::vector<cusEventWindow> expected = reference::windows(events, w);
        if (random() % 3 == 0) {
            o.first_window = random() % (expected.size() + 2);
            o.end_window = o.first_window + 1 + random() % 5;
        }
        const uint64_t begin = std::min<uint64_t>(o.first_window, expected.size()),
                       end = o.end_window ? std::min<uint64_t>(o.end_window, expected.size()) : expected.size();
        const std::vector<cusRepresentation> r = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_TENCODE), repr(CUS_REPR_MDES)};
        Collected got;
        const Pipeline pipeline(rows, cols, r, o, &got);
        for (int again = 0; again < 2; ++again) { // a second recording starts over
            got = Collected();
            pushInPieces(pipeline.object, events, again ? events.size() : 1 + random() % 700, random);
            ASSERT_EQ(got.windows.size(), end - begin)
                << "length " << w.length << ", stride " << w.stride << ", unit " << w.unit;
            EXPECT_TRUE(begin == end || got.first == begin);
            for (uint64_t k = begin; k < end; ++k) {
                ASSERT_EQ(got.windows[k - begin].first, expected[k].first) << "window " << k;
                ASSERT_EQ(got.windows[k - begin].last, expected[k].last) << "window " << k;
                for (size_t i = 0; i < r.size(); ++i) {
                    const std::vector<double> frame = reference::frame(events, expected[k], rows, cols, r[i]);
                    const auto at = got.values[i].begin() + static_cast<std::ptrdiff_t>((k - begin) * frame.size());
                    ASSERT_TRUE(std::equal(frame.begin(), frame.end(), at)) << "window " << k << ", representation " << i;
                }
            }
        }
        cusEventPipelineCounts counts = {};
        CUS_EXPECT_OK(cusEventPipelineQuery(pipeline.object, &counts));
        EXPECT_EQ(counts.events, 2 * events.size());
        EXPECT_EQ(counts.windows, 2 * (end - begin));
        uint64_t skipped = 0;
        for (uint64_t k = begin; k < end; ++k)
            skipped += reference::skipped(events, expected[k], rows, cols);
        EXPECT_EQ(counts.skipped, 2 * skipped);
    }
}

// Advancing between pushes changes no frame; windows that end by that time are there at once, also those without events.
TEST_P(EventPipeline, AdvanceMakesWindowsThatHaveEnded) {
    std::mt19937_64 random = support::generator();
    const int rows = 12, cols = 17;
    const std::vector<cusRepresentation> r = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_MDES)};
    for (int round = 0; round < 60 / support::fewer(); ++round) {
        const Events events = randomEvents(1 + random() % 500, rows, cols, 10, random, round % 2 ? 3 : 100);
        cusWindowing w = cusWindowingDefaults();
        w.unit = CUS_WINDOW_DURATION;
        w.length = 50 + random() % 700;
        w.stride = random() % 3 ? 0 : 50 + random() % (2 * w.length);
        cusEventPipelineOptions o = options(w);
        o.batch_windows = 1 + random() % 5;
        const uint64_t stride = w.stride ? w.stride : w.length;
        Collected got;
        const Pipeline pipeline(rows, cols, r, o, &got);
        CUS_ASSERT_OK(cusEventPipelineAdvance(pipeline.object, 1 << 30)); // there is no first event yet
        for (size_t at = 0; at < events.size();) {
            const size_t n = std::min<size_t>(events.size() - at, 1 + random() % 60);
            const cusEventArrays piece = slice(events, at, n);
            CUS_ASSERT_OK(cusEventPipelinePush(pipeline.object, &piece));
            at += n;
            const int64_t last = events.t[at - 1], next = at < events.size() ? events.t[at] : last + 2000;
            const int64_t time = last + static_cast<int64_t>(random() % static_cast<uint64_t>(next - last + 1));
            CUS_ASSERT_OK(cusEventPipelineAdvance(pipeline.object, time));
            const auto extent = static_cast<uint64_t>(time - events.t[0]);
            const uint64_t ended = extent >= w.length ? (extent - w.length) / stride + 1 : 0;
            ASSERT_EQ(got.windows.size(), ended) << "at " << time;
            CUS_ASSERT_OK(cusEventPipelineAdvance(pipeline.object, time - 5)); // nothing new
        }
        const int64_t end = events.t.back() + 2000;
        CUS_ASSERT_OK(cusEventPipelineAdvance(pipeline.object, end));
        CUS_ASSERT_OK(cusEventPipelineFlush(pipeline.object));
        for (size_t k = 0; k < got.windows.size(); ++k)
            for (size_t i = 0; i < r.size(); ++i) {
                const auto begin = events.t[0] + static_cast<int64_t>(k * stride);
                cusEventWindow expected = {};
                expected.first =
                    static_cast<uint64_t>(std::lower_bound(events.t.begin(), events.t.end(), begin) - events.t.begin());
                expected.last = static_cast<uint64_t>(
                    std::lower_bound(events.t.begin(), events.t.end(), begin + static_cast<int64_t>(w.length)) -
                    events.t.begin());
                ASSERT_EQ(got.windows[k].first, expected.first) << "window " << k;
                ASSERT_EQ(got.windows[k].last, expected.last) << "window " << k;
                const std::vector<double> frame = reference::frame(events, expected, rows, cols, r[i]);
                ASSERT_TRUE(std::equal(frame.begin(), frame.end(),
                                       got.values[i].begin() + static_cast<std::ptrdiff_t>(k * frame.size())));
            }
        EXPECT_GE(got.windows.size(), (2000 - std::min<uint64_t>(2000, w.length)) / stride);
    }
    // An earlier event is an error, and so is a step of too many windows.
    cusEventPipelineOptions o = options(cusWindowingDefaults());
    o.windowing.unit = CUS_WINDOW_DURATION;
    o.windowing.length = 100;
    Events events;
    events.add(5, 1, 1, 1);
    const cusEventArrays one = slice(events, 0, 1);
    Collected got;
    const Pipeline late(rows, cols, r, o, &got), far(rows, cols, r, o, &got);
    CUS_ASSERT_OK(cusEventPipelinePush(late.object, &one));
    CUS_ASSERT_OK(cusEventPipelineAdvance(late.object, 1000));
    CUS_REJECTS(cusEventPipelinePush(late.object, &one), VALUE, "times decrease from 1000 to 5");
    CUS_ASSERT_OK(cusEventPipelinePush(far.object, &one));
    CUS_REJECTS(cusEventPipelineAdvance(far.object, int64_t{1} << 40), CAPACITY, "cusEventPipelineAdvance: ");
    CUS_REJECTS(cusEventPipelineAdvance(nullptr, 0), NULL, "pipeline is NULL");
}

// A live view gets each window once it is complete, also where the pipeline waits for a batch of them: by count, and at the
// time of the last event.
TEST_P(EventPipeline, AdvanceDeliversWhatIsComplete) {
    std::mt19937_64 random = support::generator();
    const Events events = randomEvents(400, 12, 17, 10, random);
    const std::vector<cusRepresentation> r = {repr(CUS_REPR_HISTOGRAM)};
    for (const cusWindowUnit unit : {CUS_WINDOW_COUNT, CUS_WINDOW_DURATION}) {
        cusEventPipelineOptions o = options(cusWindowingDefaults());
        o.windowing.unit = unit;
        o.windowing.length = 90;
        Collected got;
        const Pipeline pipeline(12, 17, r, o, &got);
        for (size_t at = 0; at < events.size(); at += 20) {
            const cusEventArrays piece = slice(events, at, 20);
            CUS_ASSERT_OK(cusEventPipelinePush(pipeline.object, &piece));
            CUS_ASSERT_OK(cusEventPipelineAdvance(pipeline.object, events.t[at + 19]));
            const auto extent = static_cast<size_t>(events.t[at + 19] - events.t[0]);
            ASSERT_EQ(got.windows.size(), (unit == CUS_WINDOW_COUNT ? at + 20 : extent) / 90);
        }
    }
}

// Whole batches: the same frames, in batches of exactly as many windows.
TEST_P(EventPipeline, WholeBatches) {
    std::mt19937_64 random = support::generator();
    const int rows = 12, cols = 17;
    const std::vector<cusRepresentation> r = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_MDES)};
    for (int round = 0; round < 60 / support::fewer(); ++round) {
        const Events events = randomEvents(random() % 5000, rows, cols, 10, random, round % 2 ? 3 : 40);
        cusEventPipelineOptions o = options(randomWindowing(random));
        o.max_events = o.windowing.unit == CUS_WINDOW_COUNT ? o.windowing.length + random() % 300 : 5000;
        o.batch_windows = 1 + random() % 9;
        o.deliver = random() % 2 ? space() : CUS_HOST;
        Collected expected;
        const Pipeline plain(rows, cols, r, o, &expected);
        pushInPieces(plain.object, events, 700, random);
        o.whole_batches = 1;
        struct Sized {
            Collected got;
            std::vector<size_t> sizes;
            static cusStatus sink(void *user, const cusFrameBatch *batch) {
                Sized &s = *static_cast<Sized *>(user);
                s.sizes.push_back(batch->count);
                return Collected::sink(&s.got, batch);
            }
        } sized;
        support::Owned<cusEventPipelineDestroy> whole;
        CUS_ASSERT_OK(cusEventPipelineCreate(&whole, rows, cols, r.data(), 2, &o, Sized::sink, &sized));
        pushInPieces(whole, events, 700, random);
        EXPECT_TRUE(sized.got.values == expected.values);
        for (size_t k = 0; k + 1 < sized.sizes.size(); ++k)
            EXPECT_EQ(sized.sizes[k], o.batch_windows);
    }
}

// Page-locked pieces large enough for direct upload, with overlapping windows that span them.
TEST_P(EventPipeline, LargePieces) {
    std::mt19937_64 random = support::generator();
    const int rows = 60, cols = 80;
    const size_t n = 1500000;
    Events events = randomEvents(n, rows, cols, 5, random, 2);
    support::Mat memory[4];
    const void *source[4] = {events.x.data(), events.y.data(), events.p.data(), events.t.data()};
    const size_t unit[4] = {2, 2, 1, 8};
    for (int k = 0; k < 4; ++k) {
        const int bytes = static_cast<int>(n * unit[k]);
        CUS_ASSERT_OK(space() == CUS_DEVICE ? cusMatCreatePinned(&memory[k], 1, bytes, CUS_8UC1)
                                            : cusMatCreate(&memory[k], 1, bytes, CUS_8UC1, CUS_HOST));
        std::memcpy(memory[k].data, source[k], n * unit[k]);
    }
    for (const auto &[unit_of, length, stride] :
         {std::tuple{CUS_WINDOW_COUNT, 100000, 60000}, std::tuple{CUS_WINDOW_COUNT, 300000, 0},
          std::tuple{CUS_WINDOW_DURATION, 70000, 50000}}) {
        cusWindowing w = cusWindowingDefaults();
        w.unit = unit_of;
        w.length = static_cast<uint64_t>(length);
        w.stride = static_cast<uint64_t>(stride);
        cusEventPipelineOptions o = options(w);
        o.max_events = 400000;
        o.batch_windows = 3;
        const cusEventArrays whole = slice(events, 0, n);
        size_t count = 0;
        std::vector<cusEventWindow> expected(1000);
        CUS_ASSERT_OK(cusEventWindows(&whole, &w, expected.data(), expected.size(), &count, nullptr));
        Collected got;
        const Pipeline pipeline(rows, cols, {repr(CUS_REPR_HISTOGRAM)}, o, &got);
        for (size_t from : {size_t{0}, size_t{710001}}) {
            cusEventArrays piece = {};
            piece.x = static_cast<const uint16_t *>(memory[0].data) + from;
            piece.y = static_cast<const uint16_t *>(memory[1].data) + from;
            piece.p = static_cast<const uint8_t *>(memory[2].data) + from;
            piece.t = static_cast<const int64_t *>(memory[3].data) + from;
            piece.count = from ? n - from : 710001;
            CUS_ASSERT_OK(cusEventPipelinePush(pipeline.object, &piece));
        }
        CUS_ASSERT_OK(cusEventPipelineFlush(pipeline.object));
        ASSERT_EQ(got.windows.size(), count);
        for (size_t k = 0; k < count; ++k) {
            ASSERT_EQ(got.windows[k].first, expected[k].first) << "window " << k;
            ASSERT_EQ(got.windows[k].last, expected[k].last) << "window " << k;
            const std::vector<double> frame = reference::frame(events, expected[k], rows, cols, repr(CUS_REPR_HISTOGRAM));
            ASSERT_TRUE(std::equal(frame.begin(), frame.end(),
                                   got.values[0].begin() + static_cast<std::ptrdiff_t>(k * frame.size())))
                << "window " << k;
        }
    }
}

// 600 million events: the same million repeated, so every frame is known.
struct Repeated {
    const std::vector<uint8_t> *expected; // frames of one round
    size_t frame, seen, wrong;
    static cusStatus sink(void *user, const cusFrameBatch *batch) {
        Repeated &r = *static_cast<Repeated *>(user);
        for (size_t k = 0; k < batch->count; ++k, ++r.seen)
            r.wrong += std::memcmp(static_cast<const uint8_t *>(batch->frames[0].data) + k * r.frame,
                                   r.expected->data() + r.seen * r.frame % r.expected->size(), r.frame) != 0;
        return CUS_OK;
    }
};

TEST_P(EventPipeline, LargeRecordingInFixedMemory) {
    std::mt19937_64 random = support::generator();
    const int rows = 180, cols = 240;
    const size_t round = 1000000, window = 200000, frame = static_cast<size_t>(rows) * static_cast<size_t>(cols) * 2;
    const Events events = randomEvents(round, rows, cols, 0, random);
    std::vector<uint8_t> expected;
    for (size_t w = 0; w < round / window; ++w)
        for (double v : reference::frame(events, {w * window, (w + 1) * window}, rows, cols, repr(CUS_REPR_HISTOGRAM)))
            expected.push_back(static_cast<uint8_t>(v));
    Repeated seen = {&expected, frame, 0, 0};
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    cusEventPipelineOptions o = options(cusWindowingDefaults());
    o.windowing.keep_incomplete = 0;
    o.max_events = 1500000;
    o.batch_windows = 5;
    support::Owned<cusEventPipelineDestroy> pipeline;
    CUS_ASSERT_OK(cusEventPipelineCreate(&pipeline, rows, cols, &r, 1, &o, Repeated::sink, &seen));
    const cusEventArrays piece = slice(events, 0, round);
    size_t early = 0;
    cusDeviceInfo before = {}, after = {};
    const int rounds = 600 / support::fewer();
    for (int k = 0; k < rounds; ++k) {
        CUS_ASSERT_OK(cusEventPipelinePush(pipeline, &piece));
        if (k == 20) {
            early = support::residentBytes();
            if (space() == CUS_DEVICE)
                CUS_ASSERT_OK(cusDeviceQuery(0, &before));
        }
    }
    CUS_ASSERT_OK(cusEventPipelineFlush(pipeline));
    EXPECT_LE(support::residentBytes(), early + (size_t{32} << 20));
    if (space() == CUS_DEVICE) {
        CUS_ASSERT_OK(cusDeviceQuery(0, &after));
        EXPECT_EQ(after.memory_free, before.memory_free);
    }
    EXPECT_EQ(seen.seen, size_t(rounds) * (round / window));
    EXPECT_EQ(seen.wrong, 0u);
}

// By default nothing is lost: the last window is made although it is not full, also if it is the only one.
TEST_P(EventPipeline, WindowsThatAreNotFullAreMadeByDefault) {
    std::mt19937_64 random = support::generator();
    const Events events = randomEvents(100, 12, 17, 0, random);
    const std::vector<cusRepresentation> r = {repr(CUS_REPR_HISTOGRAM)};
    const SpaceEvents input(events, space());
    for (const auto &[unit, length] :
         {std::pair{CUS_WINDOW_COUNT, uint64_t{101}}, {CUS_WINDOW_COUNT, 30}, {CUS_WINDOW_DURATION, uint64_t{1} << 40}}) {
        cusWindowing w = cusWindowingDefaults();
        w.unit = unit, w.length = length;
        const size_t full = length > 100 ? 0 : 100 / length;
        for (const bool kept : {true, false}) {
            w.keep_incomplete = kept ? w.keep_incomplete : 0;
            size_t count = 0;
            CUS_ASSERT_OK(cusEventWindows(&input.view, &w, nullptr, 0, &count, nullptr));
            EXPECT_EQ(count, full + kept);
            Collected got;
            const Pipeline pipeline(12, 17, r, options(w), &got);
            pushInPieces(pipeline.object, events, 40, random);
            ASSERT_EQ(got.windows.size(), full + kept);
            if (kept)
                EXPECT_EQ(got.windows.back().last, 100u);
        }
    }
    size_t count = 0;
    CUS_ASSERT_OK(cusEventWindows(&input.view, nullptr, nullptr, 0, &count, nullptr));
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(cusEventPipelineDefaults().windowing.keep_incomplete, 1);
}

TEST_P(EventPipeline, ErrorsStopIt) {
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    Events events;
    for (int i = 0; i < 100; ++i)
        events.add(i < 50 ? i : i - 20, 0, 0, 1);
    const cusEventArrays all = slice(events, 0, 100);
    cusWindowing w = cusWindowingDefaults();
    w.unit = CUS_WINDOW_DURATION;
    w.length = 10;
    {
        Collected got;
        const Pipeline pipeline(2, 2, {r}, options(w), &got);
        CUS_REJECTS(cusEventPipelinePush(pipeline.object, &all), VALUE,
                    "cusEventPipelinePush: times decrease from 49 to 30 at event 50");
        CUS_REJECTS(cusEventPipelinePush(pipeline.object, &all), VALUE, "times decrease");
        CUS_REJECTS(cusEventPipelineFlush(pipeline.object), VALUE, "times decrease");
    }
    {
        Collected got;
        cusEventPipelineOptions o = options(w);
        o.max_events = 9;
        const Pipeline pipeline(2, 2, {r}, o, &got);
        const cusEventArrays few = slice(events, 0, 50);
        const cusStatus status = cusEventPipelinePush(pipeline.object, &few);
        if (space() == CUS_DEVICE) { // the host does not buffer events, so any number fits
            CUS_REJECTS(status, CAPACITY, "window 0 has more than max_events = 9 events");
        }
    }
    {
        Collected got;
        got.stop_at = 2;
        w.unit = CUS_WINDOW_COUNT;
        cusEventPipelineOptions o = options(w);
        o.batch_windows = 1;
        const Pipeline pipeline(2, 2, {r}, o, &got);
        cusStatus status = cusEventPipelinePush(pipeline.object, &all);
        if (status == CUS_OK)
            status = cusEventPipelineFlush(pipeline.object);
        CUS_REJECTS(status, IO, "the sink stopped at window 2");
        CUS_REJECTS(cusEventPipelineFlush(pipeline.object), IO, "the sink stopped");
    }
    Collected got;
    const Pipeline pipeline(2, 2, {r}, options(w), &got);
    cusEventArrays bad = all;
    bad.space = CUS_DEVICE;
    CUS_REJECTS(cusEventPipelinePush(pipeline.object, &bad), SPACE, "events are in device memory, expected host memory");
    bad = all;
    bad.p = nullptr;
    CUS_REJECTS(cusEventPipelinePush(pipeline.object, &bad), NULL, "events' p is NULL");
    bad = all;
    bad.x = reinterpret_cast<const uint16_t *>(reinterpret_cast<const char *>(all.x) + 1);
    CUS_REJECTS(cusEventPipelinePush(pipeline.object, &bad), VALUE, "expected a multiple of 2 bytes");
    CUS_REJECTS(cusEventPipelinePush(pipeline.object, nullptr), NULL, "events is NULL");
    CUS_REJECTS(cusEventPipelinePush(nullptr, &all), NULL, "pipeline is NULL");
    CUS_EXPECT_OK(cusEventPipelinePush(pipeline.object, &all));
}

// Two events far apart ask for any number of empty frames.
TEST_P(EventPipeline, BoundsEmptyWindowsInARow) {
    const uint16_t xy[] = {1, 1, 1};
    const uint8_t p[] = {1, 0, 1};
    size_t made = 0;
    const auto push = [&](cusEventPipelineOptions o, const std::vector<int64_t> &t) {
        Collected got;
        const Pipeline pipeline(2, 2, {repr(CUS_REPR_HISTOGRAM)}, o, &got);
        const cusEventArrays all = {xy, xy, p, t.data(), t.size(), CUS_HOST};
        const cusStatus status = cusEventPipelinePush(pipeline.object, &all);
        const cusStatus flushed = cusEventPipelineFlush(pipeline.object);
        EXPECT_EQ(flushed, status);
        made = got.windows.size();
        return status;
    };
    cusWindowing w = cusWindowingDefaults();
    w.unit = CUS_WINDOW_DURATION;
    w.length = 10;
    w.keep_incomplete = 0;
    cusEventPipelineOptions o = options(w);
    // Windows 1 to 1000 are empty, then one more.
    CUS_EXPECT_OK(push(o, {3, 10000 + 15}));
    EXPECT_EQ(made, 1001U);
    CUS_REJECTS(
        push(o, {3, 10010 + 13}), CAPACITY,
        "cusEventPipelinePush: 1001 windows in a row have no events, from 3 to 10023 us, expected at most max_gap = "
        "1000");
    EXPECT_LE(made, 1U);
    o.max_gap = 1001;
    CUS_EXPECT_OK(push(o, {3, 10010 + 13}));
    EXPECT_EQ(made, 1002U);
    // The largest step of all: past 2^63 us.
    CUS_REJECTS(push(o, {INT64_MIN, 0, INT64_MAX}), CAPACITY, "have no events, from -9223372036854775808 to 0 us");
    // A shard pays only for what it makes.
    o.max_gap = 5;
    o.first_window = 1;
    o.end_window = 3;
    CUS_REJECTS(push(o, {0, 1000}), CAPACITY, "99 windows in a row");
    o.first_window = 100;
    o.end_window = 101;
    CUS_EXPECT_OK(push(o, {0, 1000, 1020}));
    EXPECT_EQ(made, 1U);
    // Windows that overlap, or leave gaps of their own; UINT64_MAX and the longest windows: no limit, and no overflow.
    o = options(w);
    o.windowing.stride = 1;
    o.max_gap = 3;
    CUS_EXPECT_OK(push(o, {0, 13, 20}));
    CUS_REJECTS(push(o, {0, 14, 20}), CAPACITY, "4 windows in a row have no events, from 0 to 14 us");
    o.max_gap = UINT64_MAX;
    CUS_EXPECT_OK(push(o, {0, 15000}));
    o.windowing.length = o.windowing.stride = INT64_MAX;
    CUS_EXPECT_OK(push(o, {INT64_MIN, INT64_MAX}));
}

// A rank of many starts within the recording: windows, their numbers and those of events are the whole's.
TEST_P(EventPipeline, FromAPlaceWithinARecording) {
    std::mt19937_64 random = support::generator();
    const int rows = 12, cols = 17;
    const std::vector<cusRepresentation> r = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_TENCODE)};
    for (int round = 0; round < 60 / support::fewer(); ++round) {
        const Events events = randomEvents(1 + random() % 3000, rows, cols, 10, random, round % 2 ? 3 : 40);
        cusEventPipelineOptions o = options(randomWindowing(random));
        o.batch_windows = 1 + random() % 9;
        const std::vector<cusEventWindow> all = reference::windows(events, o.windowing);
        if (all.empty())
            continue;
        o.first_window = random() % all.size();
        o.end_window = o.first_window + 1 + random() % 9;
        Collected whole, part;
        const Pipeline from_start(rows, cols, r, o, &whole);
        pushInPieces(from_start.object, events, 700, random);
        o.first_event = random() % (all[o.first_window].first + 1);
        o.origin = events.t.front();
        const size_t left = events.size() - o.first_event;
        const Pipeline pipeline(rows, cols, r, o, &part);
        for (int again = 0; again < 2; ++again) {
            part = Collected();
            const cusEventArrays rest = slice(events, o.first_event, left);
            CUS_ASSERT_OK(cusEventPipelinePush(pipeline.object, &rest));
            cusEventPipelineCounts counts = {};
            CUS_ASSERT_OK(cusEventPipelineQuery(pipeline.object, &counts));
            EXPECT_EQ(counts.last_time, o.windowing.unit == CUS_WINDOW_DURATION && left ? events.t.back() : -1);
            CUS_ASSERT_OK(cusEventPipelineFlush(pipeline.object));
            CUS_ASSERT_OK(cusEventPipelineQuery(pipeline.object, &counts));
            EXPECT_EQ(counts.last_time, -1);
            EXPECT_EQ(counts.events, static_cast<size_t>(again + 1) * left);
            ASSERT_EQ(part.windows.size(), whole.windows.size());
            EXPECT_EQ(part.first, whole.first);
            for (size_t k = 0; k < whole.windows.size(); ++k) {
                EXPECT_EQ(part.windows[k].first, whole.windows[k].first) << "window " << k;
                EXPECT_EQ(part.windows[k].last, whole.windows[k].last) << "window " << k;
            }
            EXPECT_TRUE(part.values == whole.values);
        }
    }
}

TEST(EventPipelineCreate, Rejects) {
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    cusEventPipeline *pipeline = nullptr;
    cusEventPipelineOptions o = cusEventPipelineDefaults();
    const auto create = [&] { return cusEventPipelineCreate(&pipeline, 2, 2, &r, 1, &o, Collected::sink, nullptr); };
    CUS_REJECTS(cusEventPipelineCreate(&pipeline, 2, 2, &r, 1, &o, nullptr, nullptr), NULL, "sink is NULL");
    o.max_events = 100;
    CUS_REJECTS(create(), VALUE, "max_events is 100, expected 200000..2147483582");
    o = cusEventPipelineDefaults();
    o.deliver = CUS_DEVICE;
    CUS_REJECTS(create(), VALUE, "deliver is CUS_DEVICE, expected compute CUS_DEVICE too");
    o = cusEventPipelineDefaults();
    o.first_window = 5;
    o.end_window = 4;
    CUS_REJECTS(create(), VALUE, "end_window is 4");
    o = cusEventPipelineDefaults();
    o.windowing.stride = 100;
    o.first_event = 101;
    o.first_window = 1;
    CUS_REJECTS(create(), VALUE, "first_window is 1, expected at least 2, the first window after first_event = 101");
    EXPECT_EQ(pipeline, nullptr);
    cusEventPipelineDestroy(nullptr);
}

} // namespace
