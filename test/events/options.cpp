// Windows with bounds of their own, rectification maps, and the options that make other libraries' representations.
#include "events/backend.h"
#include "events/support.hpp"
#include "host.h"

#include <limits>

#ifndef _WIN32
#include <sys/mman.h>
#endif

namespace {

using namespace events;

class EventOptions : public support::SpaceTest {};
CUS_BOTH_SPACES(EventOptions);

cusRepresentation surface(int values, double tau) {
    cusRepresentation r = repr(CUS_REPR_TIME_SURFACE);
    r.surface = values;
    r.tau = tau;
    r.window_times = 1;
    return r;
}

// Windows by duration and bounds that begin up to `before` earlier and end later.
std::vector<cusEventSpan> spansOf(const Events &events, const std::vector<cusEventWindow> &windows, int before,
                                  std::mt19937_64 &random) {
    std::vector<cusEventSpan> spans;
    for (const cusEventWindow &w : windows) {
        const int64_t first = events.t[w.first], last = events.t[std::max(w.last, w.first + 1) - 1];
        spans.push_back({first - static_cast<int64_t>(random() % static_cast<uint64_t>(before)),
                         last + static_cast<int64_t>(random() % 1000)});
    }
    return spans;
}

TEST_P(EventOptions, BoundsOfWindows) {
    std::mt19937_64 random = support::generator();
    for (int round = 0; round < 12; ++round) {
        const int rows = 1 + static_cast<int>(random() % 60), cols = 1 + static_cast<int>(random() % 90);
        const size_t n = 2 + random() % 5000;
        const Events events = randomEvents(n, rows, cols, static_cast<int>(random() % 3) * 40, random);
        const std::vector<cusEventWindow> windows = {{0, n}, {n / 3, n / 3}, {n / 2, n}, {n - 1, n}};
        const std::vector<cusEventSpan> spans = spansOf(events, windows, 1 + round * 300, random);
        std::vector<cusRepresentation> all = {surface(CUS_SURFACE_EXPONENTIAL, 700), surface(CUS_SURFACE_TIME, 1),
                                              surface(CUS_SURFACE_LINEAR, 1), repr(CUS_REPR_EVENT_CUBE)};
        all[3].window_times = 1;
        all[3].channels = 1 + static_cast<int>(random() % 16);
        all[3].scale = 1.0 / 3;
        all[3].swap_channels = static_cast<int>(random() & 1);
        all.push_back(repr(CUS_REPR_TIME_SURFACE)); // without, in the same call
        const SpaceEvents input(events, space());
        const Stacker stacker(rows, cols, space(), all);
        std::vector<support::Mat> frames(all.size());
        CUS_ASSERT_OK(cusEventStackSpans(stacker.object, &input.view, windows.data(), spans.data(), windows.size(),
                                         frames.data(), nullptr));
        for (size_t i = 0; i < all.size(); ++i)
            expectFrames(frames[i], events, windows, rows, cols, all[i], spans.data());
    }
}

// Against the exponential of long double: at most 0.51 units in the last place, subnormal values too; and the definition's bits.
TEST_P(EventOptions, ExponentialIsWithin51HundredthsOfAUnit) {
    std::mt19937_64 random = support::generator();
    const int rows = 300, cols = 500;
    const size_t pixels = static_cast<size_t>(rows) * cols;
    for (const double tau : {50000.0, 1.0, 0.37, 1e7 / 3, 1e12}) {
        std::vector<int64_t> times(pixels);
        for (int64_t &t : times) // down to where all values are 0
            t = static_cast<int64_t>(static_cast<double>(random() % 1000000007) / 1e9 * 105 * tau);
        std::sort(times.begin(), times.end());
        Events events;
        for (size_t i = 0; i < pixels; ++i)
            events.add(times[i], static_cast<unsigned>(i % cols), static_cast<unsigned>(i / cols), 1);
        cusRepresentation r = repr(CUS_REPR_TIME_SURFACE);
        r.tau = tau;
        const SpaceEvents input(events, space());
        const Stacker stacker(rows, cols, space(), {r});
        const std::vector<cusEventWindow> windows = {{0, pixels}};
        support::Mat frame;
        CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, windows.data(), 1, &frame, nullptr));
        const auto got = support::elements<float>(frame);
        double worst = 0;
        for (size_t i = 0; i < pixels; ++i) {
            const int64_t since = times[i] - times.back();
            ASSERT_EQ(got[2 * i], reference::exponential(static_cast<double>(since), tau)) << since << " / " << tau;
            const long double exact = std::exp(static_cast<long double>(since) / static_cast<long double>(tau));
            const int exponent = std::max(exact > 0 ? std::ilogb(exact) : -126, -126);
            const long double error = std::fabs(static_cast<long double>(got[2 * i]) - exact);
            worst = std::max(worst, static_cast<double>(std::ldexp(error, 23 - exponent)));
        }
        EXPECT_LE(worst, 0.51) << tau;
        EXPECT_GE(worst, 0.4) << tau;
    }
}

// Times after the end give more than 1, up to infinity; a tau below all others makes the newest event's value alone 1.
TEST_P(EventOptions, ExponentialOfTheLimits) {
    Events events;
    const std::vector<int64_t> times = {-1000000, -150, -88, 0, 1, 88, 89, 1000000};
    for (size_t i = 0; i < times.size(); ++i)
        events.add(times[i], static_cast<unsigned>(i), 0, 1);
    const SpaceEvents input(events, space());
    const cusEventWindow window = {0, times.size()};
    const cusEventSpan span = {0, 0};
    const auto values = [&](double tau) {
        const Stacker stacker(1, 8, space(), {surface(CUS_SURFACE_EXPONENTIAL, tau)});
        support::Mat frame;
        CUS_EXPECT_OK(cusEventStackSpans(stacker.object, &input.view, &window, &span, 1, &frame, nullptr));
        std::vector<float> first;
        for (size_t i = 0; i < times.size(); ++i)
            first.push_back(support::elements<float>(frame)[2 * i]);
        return first;
    };
    const float infinity = std::numeric_limits<float>::infinity();
    const auto natural = [](double v) { return static_cast<float>(std::exp(v)); };
    EXPECT_EQ(values(1), (std::vector<float>{0, 0, natural(-88), 1, natural(1), natural(88), infinity, infinity}));
    EXPECT_EQ(values(std::numeric_limits<double>::denorm_min()),
              (std::vector<float>{0, 0, 0, 1, infinity, infinity, infinity, infinity}));
    EXPECT_EQ(values(std::numeric_limits<double>::max()), std::vector<float>(8, 1.0f));
}

// All kinds that have floats, each in 32F and 16F.
std::vector<cusRepresentation> floatsAndHalves(std::mt19937_64 &random) {
    std::vector<cusRepresentation> all = {repr(CUS_REPR_VOXEL_GRID), repr(CUS_REPR_EVENT_CUBE),
                                          surface(CUS_SURFACE_TIME, 1), repr(CUS_REPR_TIME_SURFACE)};
    all[0].normalize = static_cast<int>(random() % 3);
    all[0].channels = 1 + static_cast<int>(random() % 16);
    all[1].channels = 1 + static_cast<int>(random() % 16);
    all[1].scale = random() & 1 ? 1.0 / 3 : 3e4;
    all[3].tau = 1 + static_cast<double>(random() % 3000);
    for (size_t i = 0; i < 4; ++i) {
        all.push_back(all[i]);
        all.back().depth = CUS_16F;
    }
    return all;
}

void expectHalves(const cusMat &floats, const cusMat &halves) {
    ASSERT_EQ(halves.type, floats.type - CUS_32F + CUS_16F);
    const auto values = support::elements<float>(floats);
    const auto bits = support::elements<uint16_t>(halves);
    for (size_t i = 0; i < bits.size(); ++i)
        ASSERT_EQ(bits[i], reference::halfBits(values[i])) << "value " << i << ", " << values[i];
}

TEST_P(EventOptions, HalvesAreRoundedFloats) {
    std::mt19937_64 random = support::generator();
    for (const Content content : CONTENTS)
        for (int round = 0; round < 6; ++round) {
            const int rows = 1 + static_cast<int>(random() % 100), cols = 1 + static_cast<int>(random() % 300);
            const size_t n = 2 + random() % 9000;
            const Events events = eventsOf(content, n, rows, cols, random);
            std::vector<cusEventWindow> windows = {{0, n}, {n / 3, n / 3}};
            windows.resize(random() % 2 ? 1 : 2 + random() % 9, {n / 4, n});
            const std::vector<cusEventSpan> spans = spansOf(events, windows, 70000, random);
            const std::vector<cusRepresentation> all = floatsAndHalves(random);
            const SpaceEvents input(events, space());
            const Stacker stacker(rows, cols, space(), all);
            std::vector<support::Mat> frames(all.size());
            CUS_ASSERT_OK(cusEventStackSpans(stacker.object, &input.view, windows.data(), spans.data(), windows.size(),
                                             frames.data(), nullptr));
            for (size_t i = 0; i < 4; ++i)
                expectHalves(frames[i], frames[i + 4]);
        }
}

// Ties go to the even half; all halves and the floats next to the middle between two, up to infinity.
TEST(EventHalves, MiddlesRoundToEven) {
    for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
        const double low = reference::halfValue(static_cast<uint16_t>(bits)),
                     high = bits == 0x7bff ? 65536 : reference::halfValue(static_cast<uint16_t>(bits + 1));
        const float middle = static_cast<float>((low + high) / 2), infinity = std::numeric_limits<float>::infinity();
        const float values[] = {static_cast<float>(low), std::nextafter(middle, -infinity), middle,
                                std::nextafter(middle, infinity), -middle};
        const uint32_t even = bits + bits % 2, expected[] = {bits, bits, even, bits + 1, even | 0x8000};
        uint16_t got[5] = {};
        events_host_round(values, 5, got);
        for (size_t i = 0; i < 5; ++i) {
            ASSERT_EQ(got[i], expected[i]) << values[i];
            ASSERT_EQ(reference::halfBits(values[i]), expected[i]) << values[i];
        }
    }
    const float large[] = {65536, 1e30f, std::numeric_limits<float>::infinity(), -1e30f,
                           std::numeric_limits<float>::denorm_min()};
    uint16_t got[5] = {};
    events_host_round(large, 5, got);
    EXPECT_EQ(std::vector<uint16_t>(got, got + 5), (std::vector<uint16_t>{0x7c00, 0x7c00, 0x7c00, 0xfc00, 0}));
}

#ifndef _WIN32

// Rows so far apart that each window needs several bands: more windows than threads wait to be normalized.
TEST(EventHalves, MoreNormalizedWindowsThanThreads) {
    constexpr size_t STEP = size_t{1} << 29;
    constexpr int ROWS = 20, COLS = 8;
    const size_t threads = static_cast<size_t>(cusi_maxThreads()), count = 2 * threads + 1, bytes = count * ROWS * STEP;
    void *memory = bytes >> 45
                       ? MAP_FAILED
                       : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        GTEST_SKIP() << "no address space for " << bytes << " bytes";
    std::mt19937_64 random = support::generator();
    const Events events = randomEvents(3000, ROWS, COLS, 20, random);
    cusRepresentation r[2] = {repr(CUS_REPR_VOXEL_GRID), repr(CUS_REPR_VOXEL_GRID)};
    r[0].normalize = r[1].normalize = CUS_NORMALIZE_SAMPLE;
    r[1].depth = CUS_16F;
    std::vector<cusEventWindow> windows;
    for (size_t w = 0; w < count; ++w)
        windows.push_back({random() % 1000, 1000 + random() % 2000});
    const SpaceEvents input(events, CUS_HOST);
    const Stacker stacker(ROWS, COLS, CUS_HOST, {r[0], r[1]});
    support::Mat frames[2];
    CUS_ASSERT_OK(
        cusMatWrap(&frames[1], static_cast<int>(count) * ROWS, COLS, CUS_MAKETYPE(CUS_16F, 5), CUS_HOST, memory, STEP));
    CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, windows.data(), count, frames, nullptr));
    expectHalves(frames[0], frames[1]);
    munmap(memory, bytes);
}

#endif

// A surface with memory, whose windows all begin with the recording, needs only events of the last 104 tau.
TEST_P(EventOptions, MemoryReaches104Tau) {
    std::mt19937_64 random = support::generator();
    const Events events = randomEvents(20000, 30, 40, 10, random);
    const double tau = 150;
    std::vector<cusEventWindow> whole, reach;
    std::vector<cusEventSpan> spans;
    for (int64_t end = events.t.front() + 5000; end < events.t.back(); end += 5000) {
        const auto at = [&](int64_t t) {
            return static_cast<uint64_t>(std::lower_bound(events.t.begin(), events.t.end(), t) - events.t.begin());
        };
        whole.push_back({0, at(end)});
        reach.push_back({at(end - static_cast<int64_t>(104 * tau)), at(end)});
        spans.push_back({end - 5000, end});
    }
    const SpaceEvents input(events, space());
    const Stacker stacker(30, 40, space(), {surface(CUS_SURFACE_EXPONENTIAL, tau)});
    support::Mat a, b;
    CUS_ASSERT_OK(cusEventStackSpans(stacker.object, &input.view, whole.data(), spans.data(), whole.size(), &a, nullptr));
    CUS_ASSERT_OK(cusEventStackSpans(stacker.object, &input.view, reach.data(), spans.data(), whole.size(), &b, nullptr));
    EXPECT_TRUE(support::elements(a) == support::elements(b));
    expectFrames(a, events, whole, 30, 40, surface(CUS_SURFACE_EXPONENTIAL, tau), spans.data());
}

// Each pixel's sum leaves the bounds and returns, so the order of its events matters; long windows are made in parts.
TEST_P(EventOptions, DifferencesClippedAtEachEvent) {
    std::mt19937_64 random = support::generator();
    cusRepresentation r = repr(CUS_REPR_EVENT_DIFF);
    r.clip_each_event = 1;
    for (const auto &[lower, upper] : {std::pair{-128, 127}, {-5, 5}, {-8, 7}, {0, 1}, {0, 0}}) {
        r.lower = lower, r.upper = upper;
        const Events events = eventsOf(Content::HALF_ON_ONE_PIXEL, 30000, 60, 200, random);
        check(events, {{0, 30000}, {5, 9}, {12, 12}, {8191, 29999}}, 60, 200, {r, repr(CUS_REPR_EVENT_DIFF)}, space());
    }
    if (space() == CUS_DEVICE)
        check(eventsOf(Content::LAMP, 9000000, 120, 160, random), {{3, 9000000}}, 120, 160, {r}, space());
}

struct Map {
    Map(int rows, int cols, cusSpace space, const std::vector<float> &values)
        : host(rows, cols, CUS_32FC2, CUS_HOST, {}, values.data()), there(rows, cols, CUS_32FC2, space, {}, values.data()) {
    }
    support::TestMat host, there;
};

std::vector<float> randomMap(int rows, int cols, float spread, std::mt19937_64 &random) {
    std::vector<float> map;
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            for (const int at : {x, y}) {
                const float offset = static_cast<float>(random() % 100000) / 50000 - 1;
                map.push_back(static_cast<float>(at) + spread * offset);
            }
    if (spread > 0) {
        map[0] = std::numeric_limits<float>::quiet_NaN();
        map[map.size() - 1] = std::numeric_limits<float>::infinity();
        map[map.size() / 2] = -1e30f;
    }
    return map;
}

TEST_P(EventOptions, RectifiedVoxelGrids) {
    std::mt19937_64 random = support::generator();
    for (const auto &[rows, cols] : {std::pair{1, 1}, {2, 3}, {17, 23}, {9, 40}})
        for (const float spread : {0.4f, 3.0f}) {
            const size_t n = 2000;
            const Events events = randomEvents(n, rows, cols, 30, random);
            const Map map(rows, cols, space(), randomMap(rows, cols, spread, random));
            for (const int normalize : {CUS_NORMALIZE_NONE, CUS_NORMALIZE_SAMPLE}) {
                cusRepresentation r = repr(CUS_REPR_VOXEL_GRID);
                r.channels = 1 + static_cast<int>(random() % 6);
                r.normalize = normalize;
                r.map = &map.there.mat;
                const std::vector<cusEventWindow> windows = {{0, n / 2}, {n / 3, n / 3}, {n / 3, n}, {7, 8}};
                const SpaceEvents input(events, space());
                const Stacker stacker(rows, cols, space(), {r, repr(CUS_REPR_HISTOGRAM)});
                support::Mat frames[2];
                CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, windows.data(), windows.size(), frames, nullptr));
                r.map = &map.host.mat;
                expectFrames(frames[0], events, windows, rows, cols, r);
                expectFrames(frames[1], events, windows, rows, cols, repr(CUS_REPR_HISTOGRAM));
                uint64_t skipped = 0, expected = 0;
                CUS_EXPECT_OK(cusEventStackerSkipped(stacker.object, &skipped, nullptr));
                for (const cusEventWindow &w : windows)
                    expected += reference::skipped(events, w, rows, cols);
                EXPECT_EQ(skipped, expected);
            }
        }
}

// Positions that are pixels give the plain voxel grid.
TEST_P(EventOptions, IdentityMap) {
    std::mt19937_64 random = support::generator();
    const Events events = randomEvents(30000, 90, 120, 30, random);
    const Map map(90, 120, space(), randomMap(90, 120, 0, random));
    cusRepresentation r = repr(CUS_REPR_VOXEL_GRID), mapped = r;
    mapped.map = &map.there.mat;
    const SpaceEvents input(events, space());
    const Stacker stacker(90, 120, space(), {r, mapped});
    const cusEventWindow windows[] = {{0, 20000}, {20000, 30000}};
    support::Mat frames[2];
    CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, windows, 2, frames, nullptr));
    EXPECT_TRUE(support::elements(frames[0]) == support::elements(frames[1]));
}

TEST_P(EventOptions, PipelineKnowsTheBounds) {
    std::mt19937_64 random = support::generator();
    const Events events = randomEvents(5000, 20, 30, 10, random);
    cusRepresentation r = repr(CUS_REPR_EVENT_CUBE);
    r.window_times = 1;
    cusEventPipelineOptions options = cusEventPipelineDefaults();
    options.windowing = {CUS_WINDOW_DURATION, 4000, 1500, 1, {}};
    options.compute = space();
    const auto take = [](void *user, const cusFrameBatch *batch) {
        const std::vector<double> got = values(batch->frames[0]);
        auto &all = *static_cast<std::vector<double> *>(user);
        all.insert(all.end(), got.begin(), got.end());
        return CUS_OK;
    };
    std::vector<double> got, expected;
    support::Owned<cusEventPipelineDestroy> pipeline;
    CUS_ASSERT_OK(cusEventPipelineCreate(&pipeline, 20, 30, &r, 1, &options, take, &got));
    for (size_t from = 0; from < events.size(); from += 777) {
        const cusEventArrays piece = slice(events, from, std::min<size_t>(777, events.size() - from));
        CUS_ASSERT_OK(cusEventPipelinePush(pipeline, &piece));
    }
    CUS_ASSERT_OK(cusEventPipelineFlush(pipeline));
    const std::vector<cusEventWindow> windows = reference::windows(events, options.windowing);
    for (size_t w = 0; w < windows.size(); ++w) {
        const int64_t begin = events.t[0] + static_cast<int64_t>(w) * 1500;
        const cusEventSpan span = {begin, begin + 4000};
        const std::vector<double> one = reference::frame(events, windows[w], 20, 30, r, &span);
        expected.insert(expected.end(), one.begin(), one.end());
    }
    EXPECT_TRUE(got == expected);

    options.windowing = cusWindowingDefaults();
    cusEventPipeline *none = nullptr;
    CUS_REJECTS(cusEventPipelineCreate(&none, 20, 30, &r, 1, &options, take, &got), VALUE,
                "unit is CUS_WINDOW_COUNT, expected CUS_WINDOW_DURATION for a representation with window_times");
    EXPECT_EQ(none, nullptr);
}

TEST_P(EventOptions, Rejects) {
    cusEventStacker *stacker = nullptr;
    cusRepresentation r = repr(CUS_REPR_EVENT_DIFF);
    const auto rejects = [&](cusStatus status, const std::string &message) {
        EXPECT_EQ(cusEventStackerCreate(&stacker, 4, 5, space(), &r, 1), status);
        EXPECT_NE(std::string(cusLastError()).find(message), std::string::npos) << cusLastError();
        EXPECT_EQ(stacker, nullptr);
    };
    r.lower = 1;
    rejects(CUS_ERROR_VALUE, "event_diff's lower is 1, expected -128..0");
    r = repr(CUS_REPR_MDES_DIFF);
    r.upper = 128;
    rejects(CUS_ERROR_VALUE, "mdes_diff's upper is 128, expected 0..127");
    r = surface(3, 1);
    rejects(CUS_ERROR_VALUE, "time_surface's surface is 3");
    for (const auto kind : {CUS_REPR_VOXEL_GRID, CUS_REPR_TIME_SURFACE, CUS_REPR_EVENT_CUBE})
        for (const int depth : {CUS_8U, CUS_8S, CUS_16U, CUS_16S, CUS_32S, CUS_64F}) {
            r = repr(kind);
            r.depth = depth;
            rejects(CUS_ERROR_TYPE, cusRepresentationName(kind) + std::string("'s depth is ") + std::to_string(depth) +
                                        ", expected CUS_32F or CUS_16F");
        }
    r = repr(CUS_REPR_MDES);
    r.depth = CUS_16F;
    rejects(CUS_ERROR_TYPE, "mdes's depth is 7, expected CUS_8U, CUS_8S or CUS_32F");
    r = repr(CUS_REPR_EVENT_CUBE);
    r.scale = 0;
    rejects(CUS_ERROR_VALUE, "event_cube's scale is 0");
    r = repr(CUS_REPR_EVENT_CUBE);
    r.clip = std::numeric_limits<double>::quiet_NaN();
    rejects(CUS_ERROR_VALUE, "event_cube's clip is nan");
    r = repr(CUS_REPR_VOXEL_GRID);
    support::TestMat type(4, 5, CUS_32FC1, space()), size(4, 4, CUS_32FC2, space());
    r.map = &type.mat;
    rejects(CUS_ERROR_TYPE, "voxel_grid's map has type 32FC1, expected 32FC2");
    r.map = &size.mat;
    rejects(CUS_ERROR_SIZE, "voxel_grid's map is 4 x 4, expected 4 x 5 like the frame");

    Events events;
    events.add(0, 1, 1, 1);
    const SpaceEvents input(events, space());
    const Stacker good(4, 5, space(), {surface(CUS_SURFACE_TIME, 1)});
    const cusEventWindow window = {0, 1};
    support::Mat frame;
    CUS_REJECTS(cusEventStack(good.object, &input.view, &window, 1, &frame, nullptr), NULL,
                "cusEventStack: a representation has window_times, expected spans (cusEventStackSpans)");
    const cusEventSpan backwards = {2, 1};
    CUS_REJECTS(cusEventStackSpans(good.object, &input.view, &window, &backwards, 1, &frame, nullptr), VALUE,
                "cusEventStackSpans: spans[0] is 2..1, expected begin <= end");
    CUS_REJECTS(cusEventStackSpans(good.object, &input.view, &window, nullptr, 1, &frame, nullptr), NULL, "spans is NULL");
    EXPECT_EQ(frame.data, nullptr);
}

} // namespace
