// Long windows, whose events a GPU adds up in device memory one by one: alone, among short and empty ones, with crowded contents,
// and with times of many magnitudes.
#include "events/support.hpp"

#ifdef CUSIGHT_HAVE_CUDA
#include <cuda_runtime.h>
#endif

namespace {

using namespace events;

class EventsLong : public support::SpaceTest {};
CUS_BOTH_SPACES(EventsLong);

// Each kind alone, since a window is long by the kinds that are made of it.
TEST_P(EventsLong, OneTile) {
    std::mt19937_64 random = support::generator();
    const size_t n = space() == CUS_DEVICE ? 420000 : 60000;
    for (Content content : CONTENTS) {
        const Events events = eventsOf(content, n, 24, 40, random);
        for (const cusRepresentation &r : allKinds())
            check(events, {{0, n}}, 24, 40, {r}, space());
        for (const cusRepresentation &r : otherOptions(random))
            check(events, {{5, n - 3}}, 24, 40, {r}, space(), 1 + random() % 9);
    }
}

// Long windows among short and empty ones, in one call.
TEST_P(EventsLong, AmongShortAndEmptyWindows) {
    std::mt19937_64 random = support::generator();
    const size_t n = space() == CUS_DEVICE ? 800000 : 50000;
    const Events events = eventsOf(Content::HALF_ON_ONE_PIXEL, n, 33, 130, random);
    const std::vector<cusEventWindow> windows = {{3, 900}, {0, 0}, {7, n - 1}, {n, n}, {1, n}, {n / 2, n / 2 + 300},
                                                 {9, 9}};
    for (const cusRepresentation &r : allKinds())
        check(events, windows, 33, 130, {r}, space());
    check(events, windows, 33, 130, allKinds(), space());
    for (const int normalize : {CUS_NORMALIZE_POPULATION, CUS_NORMALIZE_SAMPLE}) {
        cusRepresentation r = repr(CUS_REPR_VOXEL_GRID);
        r.normalize = normalize;
        check(events, windows, 33, 130, {r}, space());
    }
}

enum class Times { EQUAL, STEADY, BURSTS, ONE_GAP, RARE, LAST_ALONE, MIXED };
constexpr Times ALL_TIMES[] = {Times::EQUAL, Times::STEADY,     Times::BURSTS, Times::ONE_GAP,
                               Times::RARE,  Times::LAST_ALONE, Times::MIXED};

// From event i - 1 to event i of n.
int64_t stepOf(Times times, size_t i, size_t n, std::mt19937_64 &random) {
    switch (times) {
    case Times::EQUAL:
        return 0;
    case Times::STEADY:
        return i % 3 == 0;
    case Times::BURSTS: // minutes of silence
        return i % (n / 20 + 1) == 0 ? int64_t{1} << 32 : static_cast<int64_t>(random() & 1);
    case Times::ONE_GAP:
        return i == n / 2 ? int64_t{1} << 61 : 1;
    case Times::RARE: // an hour or so between two events
        return static_cast<int64_t>(random() >> 31);
    case Times::LAST_ALONE: // all others are in the first bin, or on the edge of one
        return i + 1 == n ? int64_t{1} << 40 : static_cast<int64_t>(random() & 1);
    case Times::MIXED:
        break;
    }
    return stepOf(ALL_TIMES[i / 40000 % 3], i, n, random);
}

// A third of the events are on one pixel.
Events timedEvents(Times times, size_t n, int rows, int cols, std::mt19937_64 &random) {
    Events events;
    int64_t t = times == Times::ONE_GAP ? -(int64_t{1} << 60) : -12345;
    for (size_t i = 0; i < n; ++i) {
        const bool crowd = random() % 3 == 0;
        events.add(t += stepOf(times, i, n, random), crowd ? 1 : static_cast<int>(random() % static_cast<uint64_t>(cols)),
                   crowd ? 2 : static_cast<int>(random() % static_cast<uint64_t>(rows)), random() & 1 ? 1 : 0);
    }
    return events;
}

TEST_P(EventsLong, UnevenTimes) {
    std::mt19937_64 random = support::generator();
    const size_t n = space() == CUS_DEVICE ? 425000 : 3000;
    for (const Times times : ALL_TIMES) {
        const Events events = timedEvents(times, n, 21, 37, random);
        for (cusRepresentation r : {repr(CUS_REPR_VOXEL_GRID), repr(CUS_REPR_TIME_SURFACE), repr(CUS_REPR_TENCODE),
                                    repr(CUS_REPR_STACKED_HISTOGRAM)}) {
            if (r.kind == CUS_REPR_TENCODE && times == Times::ONE_GAP)
                continue;                                                                    // spans less than 2^56 us
            r.channels = times == Times::ONE_GAP ? 16 : 1 + static_cast<int>(random() % 16); // 16 * 2^61 exceeds 64 bits
            check(events, {{3, n - 2}, {10, 13}, {700, 2500}, {1000, 1001}}, 21, 37, {r}, space(), random() % 10);
        }
    }
}

// Frames of many tiles.
TEST(EventsLongCuda, AsOnTheHost) {
    CUS_NEEDS(CUS_DEVICE);
    std::mt19937_64 random = support::generator();
    for (const auto &[rows, cols, n] : {std::tuple{300, 401, size_t{4500000}}, std::tuple{720, 1280, size_t{6000001}}})
        for (Content content : CONTENTS) {
            if (rows == 720 && content != Content::UNIFORM && support::fewer() > 1) // the host takes long
                continue;
            const Events events = eventsOf(content, n, rows, cols, random);
            for (const cusRepresentation &r : allKinds())
                expectSameAsOnHost(events, {{3, n}}, rows, cols, {r});
        }
}

// Sums past 32 bits that return: 60,000 positive events and then as many negative ones on one pixel.
TEST(EventsLongCuda, VoxelSumsPast32Bits) {
    CUS_NEEDS(CUS_DEVICE);
    cusRepresentation r = repr(CUS_REPR_VOXEL_GRID);
    Events events;
    for (int i = 0; i < 500000; ++i)
        events.add(i, 7, 3, i / 60000 % 2 == 0);
    for (int channels : {1, 2, 5, 16}) {
        r.channels = channels;
        for (r.normalize = CUS_NORMALIZE_NONE; r.normalize <= CUS_NORMALIZE_SAMPLE; ++r.normalize) {
            expectSameAsOnHost(events, {{0, events.size()}}, 20, 30, {r});
            expectSameAsOnHost(events, {{0, 120000}, {60000, 500000}, {9, 440009}}, 300, 200, {r}); // tile by tile
        }
    }
}

// More events than the workspace holds, all on one pixel.
TEST(EventsLongCuda, HugeWindowOnOnePixel) {
    CUS_NEEDS(CUS_DEVICE);
    std::mt19937_64 random = support::generator();
    const Events events = eventsOf(Content::ONE_PIXEL, 70000000, 100, 100, random);
    for (cusRepresentationKind kind : {CUS_REPR_HISTOGRAM, CUS_REPR_VOXEL_GRID, CUS_REPR_TENCODE})
        expectSameAsOnHost(events, {{1, events.size()}}, 100, 100, {repr(kind)});
}

#ifdef CUSIGHT_HAVE_CUDA

// A graph of a call with a long window reads events, and times, as they are when it runs. So does one with short windows whose
// frames are normalized, by moments that are cleared in each run.
TEST(EventsLongCuda, InAGraph) {
    CUS_NEEDS(CUS_DEVICE);
    std::mt19937_64 random = support::generator();
    const size_t n = 420000;
    const int rows = 24, cols = 40;
    const Events contents[] = {timedEvents(Times::STEADY, n, rows, cols, random),
                               timedEvents(Times::MIXED, n, rows, cols, random),
                               timedEvents(Times::RARE, n, rows, cols, random)};
    std::vector<std::pair<cusRepresentation, std::vector<cusEventWindow>>> calls;
    for (const cusRepresentation &r : allKinds())
        calls.push_back({r, {{1, n}}});
    cusRepresentation normalized = repr(CUS_REPR_VOXEL_GRID);
    normalized.normalize = CUS_NORMALIZE_SAMPLE;
    calls.push_back({normalized, {{1, n}}});
    calls.push_back({normalized, {{1, 3000}, {7, 7}, {900, 4000}}});
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (const auto &[r, windows] : calls) {
        const SpaceEvents input(contents[0], CUS_DEVICE);
        const Stacker stacker(rows, cols, CUS_DEVICE, {r});
        support::Mat frames;
        const auto stack = [&, &windows = windows] {
            return cusEventStack(stacker.object, &input.view, windows.data(), windows.size(), &frames, stream);
        };
        CUS_EXPECT_OK(stack()); // creates the frames
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t ready = nullptr;
        ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
        CUS_EXPECT_OK(stack());
        ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
        ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
        for (const size_t k : {1, 2, 0, 1}) {
            copyOnDevice(SpaceEvents(contents[k], CUS_DEVICE), input);
            ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
            ASSERT_EQ(cudaGraphLaunch(ready, stream), cudaSuccess);
            ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
            expectFrames(frames, contents[k], windows, rows, cols, r);
        }
        EXPECT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);
        EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

#endif

} // namespace
