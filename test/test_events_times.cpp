// Times of long windows, which the device makes in parts: equal times, gaps, bursts, spans of more than 2^32 microseconds. A
// run of neighboring events whose times differ too much is handled apart from the others.
#include "events_support.hpp"

#ifdef CUSIGHT_HAVE_CUDA
#include <cuda_runtime.h>
#endif

namespace {

using namespace events;

class EventsTimes : public support::SpaceTest {};
CUS_BOTH_SPACES(EventsTimes);

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
Events eventsOf(Times times, size_t n, int rows, int cols, std::mt19937_64 &random) {
    Events events;
    int64_t t = times == Times::ONE_GAP ? -(int64_t{1} << 60) : -12345;
    for (size_t i = 0; i < n; ++i) {
        const bool crowd = random() % 3 == 0;
        events.add(t += stepOf(times, i, n, random), crowd ? 1 : static_cast<int>(random() % static_cast<uint64_t>(cols)),
                   crowd ? 2 : static_cast<int>(random() % static_cast<uint64_t>(rows)), random() & 1 ? 1 : 0);
    }
    return events;
}

cusRepresentation voxelGrid(int channels) {
    cusRepresentation r = repr(CUS_REPR_VOXEL_GRID);
    r.channels = channels;
    return r;
}

TEST_P(EventsTimes, VoxelGrid) {
    std::mt19937_64 random = support::generator();
    const size_t last = space() == CUS_DEVICE ? 52 * 8192 + 1 : 3001; // the last run has one event
    for (const Times times : ALL_TIMES) {
        const Events events = eventsOf(times, last + 2, 21, 37, random);
        for (const int channels : {1, 2, 5, 16})
            check(events, {{3, last}}, 21, 37, {voxelGrid(channels)}, space(), random() % 10);
        if (HasFailure())
            return;
    }
}

// Times follow each other more closely, so that most runs are not handled apart; frames of one tile and of several.
TEST(EventsTimesCuda, VoxelGridAsOnTheHost) {
    CUS_NEEDS(CUS_DEVICE);
    std::mt19937_64 random = support::generator();
    const size_t n = 2600000;
    for (const auto &[rows, cols] : {std::pair{30, 50}, std::pair{100, 300}})
        for (const Times times : ALL_TIMES) {
            const Events events = eventsOf(times, n, rows, cols, random);
            for (const int channels : {1, 2, 3, 5, 16})
                expectSameAsOnHost(events, {{random() % 9, n - random() % 9}}, rows, cols, {voxelGrid(channels)});
            if (HasFailure())
                return;
        }
}

#ifdef CUSIGHT_HAVE_CUDA

// Replaces the contents of arrays on the device.
void copyEvents(const SpaceEvents &from, const SpaceEvents &to) {
    const auto copy = [&](const auto *source, const auto *target) {
        ASSERT_EQ(cudaMemcpy(const_cast<std::remove_const_t<std::remove_pointer_t<decltype(target)>> *>(target), source,
                             from.view.count * sizeof *source, cudaMemcpyDeviceToDevice),
                  cudaSuccess);
    };
    ASSERT_EQ(from.view.count, to.view.count);
    copy(from.view.x, to.view.x);
    copy(from.view.y, to.view.y);
    copy(from.view.p, to.view.p);
    copy(from.view.t, to.view.t);
}

// A graph of a call with a long window reads events, and times, as they are when it runs.
TEST(EventsTimesCuda, LongWindowInAGraph) {
    CUS_NEEDS(CUS_DEVICE);
    std::mt19937_64 random = support::generator();
    const size_t n = 420000;
    const int rows = 24, cols = 40;
    const Events contents[] = {eventsOf(Times::STEADY, n, rows, cols, random),
                               eventsOf(Times::MIXED, n, rows, cols, random), eventsOf(Times::RARE, n, rows, cols, random)};
    const std::vector<cusEventWindow> windows = {{1, n}};
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (const cusRepresentation &r : allKinds()) {
        const SpaceEvents input(contents[0], CUS_DEVICE);
        const Stacker stacker(rows, cols, CUS_DEVICE, {r});
        cusMat frames = CUS_MAT_INIT;
        const auto stack = [&] {
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
            copyEvents(SpaceEvents(contents[k], CUS_DEVICE), input);
            ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
            ASSERT_EQ(cudaGraphLaunch(ready, stream), cudaSuccess);
            ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
            expectFrames(frames, contents[k], windows, rows, cols, r);
        }
        EXPECT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);
        EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
        cusMatRelease(&frames);
        if (HasFailure())
            break;
    }
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

#endif

} // namespace
