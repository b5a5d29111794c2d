// Contents and windows that are hard for the device: long windows, which it makes in parts; events on one pixel, one row or
// one tile; windows that overlap a hundredfold or are empty; times out of order.
#include "events_support.hpp"

#include <deque>

namespace {

using namespace events;

class EventsWorst : public support::SpaceTest {};
CUS_BOTH_SPACES(EventsWorst);

enum class Content { UNIFORM, ONE_PIXEL, HALF_ON_ONE_PIXEL, TWO_PIXELS, ONE_ROW, ONE_COLUMN, ONE_TILE };
constexpr Content CONTENTS[] = {Content::UNIFORM, Content::ONE_PIXEL,  Content::HALF_ON_ONE_PIXEL, Content::TWO_PIXELS,
                                Content::ONE_ROW, Content::ONE_COLUMN, Content::ONE_TILE};

Events eventsOf(Content content, size_t n, int rows, int cols, std::mt19937_64 &random) {
    Events events;
    int64_t t = 1000;
    for (size_t i = 0; i < n; ++i) {
        int x = static_cast<int>(random() % static_cast<uint64_t>(cols + 1)), // a few outside
            y = static_cast<int>(random() % static_cast<uint64_t>(rows));
        if (content == Content::ONE_PIXEL || (content == Content::HALF_ON_ONE_PIXEL && random() & 1))
            x = cols / 3, y = rows - 1;
        else if (content == Content::TWO_PIXELS)
            x = i % 2 ? cols / 3 : cols - 1, y = i % 2 ? rows - 1 : 0;
        else if (content == Content::ONE_ROW)
            y = rows / 2;
        else if (content == Content::ONE_COLUMN)
            x = cols / 2;
        else if (content == Content::ONE_TILE)
            x %= std::min(cols, 64), y %= std::min(rows, 16);
        events.add(t += static_cast<int64_t>(random() & 1), x, y, random() % 8 ? 1 : 0);
    }
    return events;
}

// Each kind alone, since a window is long by the kinds that are made of it.
TEST_P(EventsWorst, LongWindowsOfOneTile) {
    std::mt19937_64 random = support::generator();
    const size_t n = space() == CUS_DEVICE ? 420000 : 60000;
    for (Content content : CONTENTS) {
        const Events events = eventsOf(content, n, 24, 40, random);
        for (const cusRepresentation &r : allKinds())
            check(events, {{0, n}}, 24, 40, {r}, space());
        for (const cusRepresentation &r : otherOptions(random))
            check(events, {{5, n - 3}}, 24, 40, {r}, space(), 1 + random() % 9);
        if (HasFailure())
            return;
    }
}

// Long windows among short and empty ones, in one call.
TEST_P(EventsWorst, LongShortAndEmptyWindows) {
    std::mt19937_64 random = support::generator();
    const size_t n = space() == CUS_DEVICE ? 800000 : 50000;
    const Events events = eventsOf(Content::HALF_ON_ONE_PIXEL, n, 33, 130, random);
    const std::vector<cusEventWindow> windows = {{3, 900}, {0, 0}, {7, n - 1}, {n, n}, {1, n}, {n / 2, n / 2 + 300},
                                                 {9, 9}};
    for (const cusRepresentation &r : allKinds())
        check(events, windows, 33, 130, {r}, space());
    check(events, windows, 33, 130, allKinds(), space());
}

TEST_P(EventsWorst, WindowsThatOverlapAHundredfold) {
    std::mt19937_64 random = support::generator();
    const Events events = eventsOf(Content::UNIFORM, 30000, 50, 140, random);
    std::vector<cusEventWindow> windows;
    for (uint64_t w = 0; w < 150; ++w)
        windows.push_back({w * 100, w * 100 + (w % 10 ? 10000 : 0)});
    check(events, windows, 50, 140, {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_VOXEL_GRID), repr(CUS_REPR_EVENT_DIFF)},
          space());
}

// Values are unspecified, memory is not: frames keep their padding, counts do not depend on times, and a call with good
// times is not affected.
TEST_P(EventsWorst, TimesOutOfOrder) {
    std::mt19937_64 random = support::generator();
    const size_t n = space() == CUS_DEVICE ? 900000 : 20000;
    const Events good = eventsOf(Content::UNIFORM, n, 40, 60, random);
    Events events = good;
    for (size_t i = 0; i < n; ++i) // extremes now and then
        events.t[i] = i % 1000 == 0 ? INT64_MIN / 8 + static_cast<int64_t>(i)
                                    : static_cast<int64_t>(random() >> (5 + random() % 58)) * (random() & 1 ? 1 : -1);
    const SpaceEvents input(events, space());
    const cusEventWindow windows[] = {{1, n}, {0, n / 2}};
    for (const cusRepresentation &r : allKinds()) {
        if (r.kind == CUS_REPR_HISTOGRAM || r.kind == CUS_REPR_EVENT_DIFF || r.kind == CUS_REPR_MDES) {
            check(events, {windows[0], windows[1]}, 40, 60, {r}, space());
            continue;
        }
        int type = 0;
        CUS_ASSERT_OK(cusRepresentationType(&r, &type));
        const Stacker stacker(40, 60, space(), {r});
        for (const support::Layout &layout : support::layouts(type)) {
            support::TestMat out(80, 60, type, space(), layout);
            CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, windows, 2, &out.mat, nullptr));
            if (space() == CUS_DEVICE) {
                CUS_ASSERT_OK(cusStreamSynchronize(nullptr));
            }
            EXPECT_TRUE(out.intact());
        }
        check(good, {{1, n}}, 40, 60, {r}, space());
    }
}

// Frames whose rows start `offset` channels past a multiple of 16 bytes, and every `16 - offset` channels more; the arrays of the
// events too.
void checkPlaced(const Events &events, const std::vector<cusEventWindow> &windows, int rows, int cols,
                 const cusRepresentation &r, cusSpace space, size_t offset) {
    int type = 0;
    CUS_ASSERT_OK(cusRepresentationType(&r, &type));
    const size_t unit = cusTypeSize(CUS_DEPTH(type));
    const Stacker stacker(rows, cols, space, {r});
    const SpaceEvents input(events, space, offset);
    support::TestMat out(rows * static_cast<int>(windows.size()), cols, type, space, {(16 - offset) * unit, offset * unit});
    CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, windows.data(), windows.size(), &out.mat, nullptr));
    expectFrames(out.mat, events, windows, rows, cols, r);
    EXPECT_TRUE(out.intact());
}

// Windows that are made whole and in parts.
TEST_P(EventsWorst, FramesAtAnyAddress) {
    std::mt19937_64 random = support::generator();
    const size_t n = space() == CUS_DEVICE ? 420000 : 20000;
    const Events events = eventsOf(Content::HALF_ON_ONE_PIXEL, n, 21, 75, random);
    for (const cusRepresentation &r : allKinds())
        for (const size_t offset : {1, 2, 3, 7}) {
            checkPlaced(events, {{3, 900}, {0, n}, {17, 17}}, 21, 75, r, space(), offset);
            if (HasFailure())
                return;
        }
}

// Rows of many pixels, of several tiles, of a multiple of 32 bytes with their padding, and of less than 16 bytes.
TEST_P(EventsWorst, FramesOfAnyWidthAtAnyAddress) {
    std::mt19937_64 random = support::generator();
    for (const auto &[rows, cols] :
         {std::pair{5, 300}, {3, 520}, {40, 391}, {70, 368}, {40, 376}, {4, 1}, {4, 2}, {4, 3}, {4, 5}}) {
        const Events events = eventsOf(Content::HALF_ON_ONE_PIXEL, 3000, rows, cols, random);
        std::vector<cusRepresentation> all = allKinds();
        for (int channels = 1; channels <= 2; ++channels)
            for (cusRepresentation r : allKinds())
                if (r.kind != CUS_REPR_HISTOGRAM && r.kind != CUS_REPR_TENCODE && r.kind != CUS_REPR_TIME_SURFACE &&
                    r.kind != CUS_REPR_EVENT_DIFF) {
                    r.channels = channels;
                    r.normalize = r.kind == CUS_REPR_VOXEL_GRID;
                    all.push_back(r);
                }
        for (const cusRepresentation &r : otherOptions(random))
            all.push_back(r);
        for (const cusRepresentation &r : all) {
            checkPlaced(events, {{3, 900}, {0, 3000}, {17, 17}}, rows, cols, r, space(), 1 + random() % 15);
            if (HasFailure())
                return;
        }
    }
}

// On a GPU, tiles that are left to helpers.
TEST_P(EventsWorst, CrowdedFramesAtAnyAddress) {
    std::mt19937_64 random = support::generator();
    const uint64_t n = space() == CUS_DEVICE ? 100000 : 5000;
    for (Content content : CONTENTS) {
        const Events events = eventsOf(content, n, 300, 201, random);
        std::vector<cusEventWindow> windows = {{n / 2, n / 2 + 500}};
        for (uint64_t first = 0; first < 11; ++first)
            windows.push_back({first, first + n - 100});
        for (const cusRepresentation &r : allKinds()) {
            checkPlaced(events, windows, 300, 201, r, space(), 1 + random() % 15);
            if (HasFailure())
                return;
        }
    }
}

// Frames without events so large that the CPU writes them past its caches, 40 MB in all, and with padded rows.
TEST_P(EventsWorst, ManyEmptyWindows) {
    constexpr int ROWS = 121, COLS = 151, WINDOWS = 31;
    std::mt19937_64 random = support::generator();
    const Events events = eventsOf(Content::HALF_ON_ONE_PIXEL, 3000, ROWS, COLS, random);
    std::vector<cusEventWindow> windows(WINDOWS, {17, 17});
    windows[20] = {3, 3000};
    std::vector<cusRepresentation> kinds = allKinds();
    kinds[CUS_REPR_VOXEL_GRID].normalize = 1;
    const Stacker stacker(ROWS, COLS, space(), kinds);
    const SpaceEvents input(events, space());
    for (const size_t offset : {0, 1, 7}) {
        std::deque<support::TestMat> outputs;
        std::vector<cusMat> frames;
        for (const cusRepresentation &r : kinds) {
            int type = 0;
            CUS_ASSERT_OK(cusRepresentationType(&r, &type));
            const size_t unit = cusTypeSize(CUS_DEPTH(type));
            frames.push_back(
                outputs.emplace_back(WINDOWS * ROWS, COLS, type, space(), support::Layout{offset * unit, offset * unit})
                    .mat);
        }
        CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, windows.data(), windows.size(), frames.data(), nullptr));
        for (size_t k = 0; k < kinds.size(); ++k) {
            expectFrames(frames[k], events, windows, ROWS, COLS, kinds[k]);
            EXPECT_TRUE(outputs[k].intact());
        }
        if (HasFailure())
            return;
    }
}

// Frames of many tiles; some tiles are read by several blocks, and some parts of the window have no event in a tile.
TEST(EventsWorstCuda, LongWindowsAsOnTheHost) {
    CUS_NEEDS(CUS_DEVICE);
    std::mt19937_64 random = support::generator();
    for (const auto &[rows, cols, n] : {std::tuple{300, 401, size_t{4500000}}, std::tuple{720, 1280, size_t{6000001}}})
        for (Content content : CONTENTS) {
            const Events events = eventsOf(content, n, rows, cols, random);
            for (const cusRepresentation &r : allKinds())
                expectSameAsOnHost(events, {{3, n}}, rows, cols, {r});
            if (HasFailure())
                return;
        }
}

// Eleven short windows of ten tiles, whose crowded ones are left to helpers from 2^20 events on, that is 95,326 a window.
TEST_P(EventsWorst, CrowdedShortWindows) {
    std::mt19937_64 random = support::generator();
    const uint64_t n = space() == CUS_DEVICE ? 100000 : 20000;
    for (Content content : CONTENTS) {
        const Events events = eventsOf(content, n, 300, 200, random);
        for (uint64_t length : {n * 95325 / 100000, n * 95326 / 100000, n - 100}) {
            std::vector<cusEventWindow> windows = {{n, n}, {n / 2, n / 2 + 5000}}; // not all need help
            for (uint64_t first = 0; first < 9; ++first)
                windows.push_back({first, first + length});
            for (const cusRepresentation &r : allKinds())
                check(events, windows, 300, 200, {r}, space());
            if (length < n - 100)
                continue;
            for (const cusRepresentation &r : otherOptions(random))
                check(events, windows, 300, 200, {r}, space(), 1 + random() % 9);
            check(events, windows, 300, 200, allKinds(), space()); // one stacker: each kind finds the slots cleared
        }
        if (HasFailure())
            return;
    }
}

// The same with more tiles, so more helpers of a window; with tiles of several parts and frames of several bands; and with
// windows of more runs than are sampled.
TEST(EventsWorstCuda, CrowdedShortWindowsAsOnTheHost) {
    CUS_NEEDS(CUS_DEVICE);
    std::mt19937_64 random = support::generator();
    for (const auto &[rows, cols, n] : {std::tuple{720, 1280, size_t{200001}}, std::tuple{2000, 2112, size_t{300000}},
                                        std::tuple{480, 640, size_t{1500000}}})
        for (Content content : {Content::ONE_PIXEL, Content::TWO_PIXELS, Content::ONE_COLUMN, Content::ONE_TILE}) {
            if (rows == 2000 && content != Content::TWO_PIXELS) // large frames take the host long
                continue;
            const Events events = eventsOf(content, n, rows, cols, random);
            for (const cusRepresentation &r : allKinds()) {
                expectSameAsOnHost(events, {{3, n}, {n / 2, n}, {0, n / 3}, {n, n}, {5, n}, {0, 9}}, rows, cols, {r});
                using Windows = std::vector<cusEventWindow>;
                for (const Windows &few : {Windows{{5, n}}, Windows{{0, n / 2}, {n / 3, n}}}) // more blocks each
                    expectSameAsOnHost(events, few, rows, cols, {r});
            }
            if (HasFailure())
                return;
        }
}

// Fewer than 2^20 events: after a call with a crowded tile the next ones have helpers, and frames are the same with them or
// without.
TEST(EventsWorstCuda, ShortCallsAfterCrowdedOnes) {
    CUS_NEEDS(CUS_DEVICE);
    std::mt19937_64 random = support::generator();
    const uint64_t n = 200000;
    const std::vector<cusEventWindow> windows = {{3, n}, {n / 2, n}, {n, n}, {1, n / 3}, {0, 9}};
    for (const cusRepresentation &r : allKinds()) {
        const Stacker on_host(480, 640, CUS_HOST, {r}), on_device(480, 640, CUS_DEVICE, {r});
        cusMat host = CUS_MAT_INIT, device = CUS_MAT_INIT;
        for (Content content : {Content::UNIFORM, Content::ONE_PIXEL, Content::ONE_PIXEL, Content::ONE_TILE,
                                Content::ONE_COLUMN, Content::UNIFORM, Content::HALF_ON_ONE_PIXEL}) {
            SCOPED_TRACE(testing::Message() << cusRepresentationName(r.kind) << ", content " << static_cast<int>(content));
            const Events events = eventsOf(content, n, 480, 640, random);
            const SpaceEvents host_events(events, CUS_HOST), device_events(events, CUS_DEVICE);
            for (const size_t count : {windows.size(), size_t{1}}) {
                CUS_ASSERT_OK(cusEventStack(on_host.object, &host_events.view, windows.data(), count, &host, nullptr));
                CUS_ASSERT_OK(
                    cusEventStack(on_device.object, &device_events.view, windows.data(), count, &device, nullptr));
                CUS_ASSERT_OK(cusStreamSynchronize(nullptr)); // the next call knows what this one has found
                expectSameFrames(host, device, r);
            }
        }
        cusMatRelease(&host);
        cusMatRelease(&device);
    }
}

// Few helpers, each with more events of one pixel than its sums have room for at once.
TEST(EventsWorstCuda, CrowdedVoxelsOfFewHelpers) {
    CUS_NEEDS(CUS_DEVICE);
    std::mt19937_64 random = support::generator();
    const size_t n = 3000000;
    const Events events = eventsOf(Content::ONE_PIXEL, n, 100, 130, random);
    expectSameAsOnHost(events, {{0, n}, {1, n}, {2, n}, {3, n}}, 100, 130, {repr(CUS_REPR_VOXEL_GRID)});
}

// Sums past 32 bits that return: 60,000 positive events and then as many negative ones on one pixel.
TEST(EventsWorstCuda, VoxelSumsPast32Bits) {
    CUS_NEEDS(CUS_DEVICE);
    cusRepresentation r = repr(CUS_REPR_VOXEL_GRID);
    Events events;
    for (int i = 0; i < 500000; ++i)
        events.add(i, 7, 3, i / 60000 % 2 == 0);
    for (int channels : {1, 2, 5, 16}) {
        r.channels = channels;
        expectSameAsOnHost(events, {{0, events.size()}}, 20, 30, {r});
        expectSameAsOnHost(events, {{0, 120000}, {60000, 500000}, {9, 440009}}, 300, 200, {r}); // helpers
    }
}

// More events than the workspace holds at once, all on one pixel: counts saturate over several groups of parts.
TEST(EventsWorstCuda, HugeWindowOnOnePixel) {
    CUS_NEEDS(CUS_DEVICE);
    std::mt19937_64 random = support::generator();
    const Events events = eventsOf(Content::ONE_PIXEL, 70000000, 100, 100, random);
    for (cusRepresentationKind kind : {CUS_REPR_HISTOGRAM, CUS_REPR_VOXEL_GRID, CUS_REPR_TENCODE})
        expectSameAsOnHost(events, {{1, events.size()}}, 100, 100, {repr(kind)});
}

} // namespace
