// Rows of event frames: 1280 x 720, stacks of 200,000 events; uniform and clustered; from 1 event to 600 million; streamed.
#include "harness.hpp"

#include "cusight/events.h"
#include "peers/events.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace {

using perf::check;

constexpr int ROWS = 720, COLS = 1280;
constexpr size_t STACK = 200000, FRAME = size_t{2} * ROWS * COLS;

enum class Spread { UNIFORM, EDGES, HOT_PIXEL, ONE_PIXEL, SORTED };

uint64_t mixed(uint64_t i) {
    i = (i + 1) * 0x9E3779B97F4A7C15u;
    i = (i ^ i >> 29) * 0xBF58476D1CE4E5B9u;
    return i ^ i >> 32;
}

// Events in either space, ten a microsecond.
class Input {
  public:
    Input(size_t n, Spread spread, cusSpace space, bool pinned = false) {
        std::vector<uint16_t> x(n), y(n);
        std::vector<uint8_t> p(n);
        std::vector<int64_t> t(n);
        for (size_t i = 0; i < n; ++i) {
            const uint64_t r = mixed(i);
            uint64_t pixel = (r & 0xffffffff) * (ROWS * COLS) >> 32;
            if (spread == Spread::EDGES && (r >> 32 & 3)) // three quarters on four moving lines, 24 pixels wide
                pixel = pixel / COLS * COLS + (i / 40000 * 3 + (r >> 34 & 3) * 300 + (r >> 36) % 24) % COLS;
            if (spread == Spread::ONE_PIXEL || (spread == Spread::HOT_PIXEL && (r >> 32 & 63) == 0))
                pixel = 222 * COLS + 333;
            x[i] = static_cast<uint16_t>(pixel % COLS);
            y[i] = static_cast<uint16_t>(pixel / COLS);
            p[i] = r >> 63;
            t[i] = static_cast<int64_t>(i / 10);
        }
        if (spread == Spread::SORTED)
            for (size_t at = 0; at < n; at += STACK) {
                std::vector<uint32_t> keys(std::min(STACK, n - at));
                for (size_t i = 0; i < keys.size(); ++i)
                    keys[i] = (y[at + i] * static_cast<uint32_t>(COLS) + x[at + i]) * 2 + p[at + i];
                std::sort(keys.begin(), keys.end());
                for (size_t i = 0; i < keys.size(); ++i) {
                    x[at + i] = static_cast<uint16_t>(keys[i] / 2 % COLS);
                    y[at + i] = static_cast<uint16_t>(keys[i] / 2 / COLS);
                    p[at + i] = keys[i] & 1;
                }
            }
        view.x = put(0, x, space, pinned);
        view.y = put(1, y, space, pinned);
        view.p = put(2, p, space, pinned);
        view.t = n <= 60000000 ? put(3, t, space, pinned) : nullptr;
        view.count = n;
        view.space = space;
        for (size_t first = 0; first < n; first += STACK)
            windows.push_back({first, std::min(first + STACK, n)});
    }
    ~Input() {
        for (cusMat &m : memory_)
            cusMatRelease(&m);
    }
    Input(const Input &) = delete;
    Input &operator=(const Input &) = delete;

    cusEventArrays view = {};
    std::vector<cusEventWindow> windows;

  private:
    template<class T>
    const T *put(int k, const std::vector<T> &values, cusSpace space, bool pinned) {
        constexpr int type = sizeof(T) == 1 ? CUS_8UC1 : sizeof(T) == 2 ? CUS_16UC1 : CUS_64FC1; // 8 bytes, only moved
        const int n = static_cast<int>(values.size());
        cusMat from = CUS_MAT_INIT;
        check(cusMatWrap(&from, 1, n, type, CUS_HOST, const_cast<T *>(values.data()), 0));
        check(pinned ? cusMatCreatePinned(&memory_[k], 1, n, type) : cusMatCreate(&memory_[k], 1, n, type, space));
        check(space == CUS_DEVICE ? cusMatUpload(&from, &memory_[k], nullptr) : cusMatCopy(&from, &memory_[k], nullptr));
        if (space == CUS_DEVICE)
            check(cusStreamSynchronize(nullptr));
        return static_cast<const T *>(memory_[k].data);
    }
    cusMat memory_[4] = {CUS_MAT_INIT, CUS_MAT_INIT, CUS_MAT_INIT, CUS_MAT_INIT};
};

// A stacker with the frames it makes.
class Job {
  public:
    Job(cusSpace space, std::vector<cusRepresentationKind> kinds) : frames(kinds.size()) {
        std::vector<cusRepresentation> r;
        for (cusRepresentationKind kind : kinds)
            r.push_back(cusRepresentationDefaults(kind));
        check(cusEventStackerCreate(&stacker, ROWS, COLS, space, r.data(), static_cast<int>(r.size())));
    }
    ~Job() {
        for (cusMat &m : frames)
            cusMatRelease(&m);
        cusEventStackerDestroy(stacker);
    }
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;
    cusStatus operator()(const Input &input, cusStream stream) {
        return cusEventStack(stacker, &input.view, input.windows.data(), input.windows.size(), frames.data(), stream);
    }
    cusEventStacker *stacker = nullptr;
    std::vector<cusMat> frames;
};

void histogram(const std::string &name, size_t n, Spread spread, const std::string &note, bool with_peers) {
    perf::bothSpaces([&](cusSpace space) {
        if (space == CUS_HOST && n > 60000000)
            return;
        const Input input(n, spread, space);
        Job job(space, {CUS_REPR_HISTOGRAM});
        const size_t stacks = input.windows.size();
        perf::Row row("events/histogram/" + name, space,
                      5.0 * static_cast<double>(n) + static_cast<double>(stacks * FRAME));
        row.note(note);
        row.measure([&](cusStream stream, int) { return job(input, stream); });
        // What the peers work on lives until the report.
        std::vector<uint8_t> serial_frames(with_peers && space == CUS_HOST ? stacks * FRAME : 0);
        if (with_peers && space == CUS_HOST)
            row.peer("published", [&](cusStream, int) {
                peers::serialHistogram(input.view.x, input.view.y, input.view.p, stacks, STACK, ROWS, COLS,
                                       serial_frames.data());
            });
#ifdef CUSIGHT_HAVE_CUDA
        cusMat counters = CUS_MAT_INIT, frames = CUS_MAT_INIT, keys = CUS_MAT_INIT, sorted = CUS_MAT_INIT,
               workspace = CUS_MAT_INIT;
        size_t bytes = 0;
        const auto sort = [&](void *memory, cusStream stream) {
            peers::radixSort(static_cast<const uint32_t *>(keys.data), static_cast<uint32_t *>(sorted.data), n, 30, memory,
                             &bytes, stream);
        };
        if (with_peers && space == CUS_DEVICE) {
            check(cusMatCreate(&counters, 1, static_cast<int>(FRAME), CUS_32SC1, CUS_DEVICE));
            check(cusMatCreate(&frames, 1, static_cast<int>(stacks * FRAME), CUS_8UC1, CUS_DEVICE));
            row.peer("published", [&](cusStream stream, int) {
                peers::atomicHistogram(input.view.x, input.view.y, input.view.p, stacks, STACK, ROWS, COLS,
                                       static_cast<uint32_t *>(counters.data), static_cast<uint8_t *>(frames.data), stream);
            });
            // Sorting all stacks at once by stack and pixel, 30 bits: what would come before a count over sorted events.
            std::vector<int32_t> host(n);
            for (size_t i = 0; i < n; ++i)
                host[i] = static_cast<int32_t>(i / STACK * FRAME + mixed(i) % FRAME);
            cusMat from = CUS_MAT_INIT;
            check(cusMatWrap(&from, 1, static_cast<int>(n), CUS_32SC1, CUS_HOST, host.data(), 0));
            check(cusMatUpload(&from, &keys, nullptr));
            check(cusStreamSynchronize(nullptr));
            check(cusMatCreate(&sorted, 1, static_cast<int>(n), CUS_32SC1, CUS_DEVICE));
            sort(nullptr, nullptr);
            check(cusMatCreate(&workspace, 1, static_cast<int>(bytes), CUS_8UC1, CUS_DEVICE));
            row.peer("cub sort alone", [&](cusStream stream, int) { sort(workspace.data, stream); });
        }
#endif
        row.report();
#ifdef CUSIGHT_HAVE_CUDA
        for (cusMat *m : {&counters, &frames, &keys, &sorted, &workspace})
            cusMatRelease(m);
#endif
    });
}

TEST(Events, histogram_60M) {
    histogram("60M", 60000000, Spread::UNIFORM, "uniform", true);
}
TEST(Events, histogram_60M_edges) {
    histogram("60M/edges", 60000000, Spread::EDGES, "three quarters on moving edges", false);
}
TEST(Events, histogram_60M_hot_pixel) {
    histogram("60M/hot-pixel", 60000000, Spread::HOT_PIXEL, "1.6 % on one pixel", false);
}
TEST(Events, histogram_60M_one_pixel) {
    histogram("60M/one-pixel", 60000000, Spread::ONE_PIXEL, "all on one pixel", false);
}
TEST(Events, histogram_60M_sorted) {
    histogram("60M/sorted", 60000000, Spread::SORTED, "each stack kept sorted by pixel", false);
}
TEST(Events, histogram_sweep) {
    for (size_t n :
         {size_t{1}, size_t{1000}, size_t{200000}, size_t{1000000}, size_t{10000000}, size_t{200000000}, size_t{600000000}})
        histogram(std::to_string(n), n, Spread::UNIFORM, "uniform", false);
}

TEST(Events, mdes10_tencode_60M) {
    perf::bothSpaces([&](cusSpace space) {
        const Input input(60000000, Spread::UNIFORM, space);
        Job job(space, {CUS_REPR_MDES, CUS_REPR_TENCODE});
        perf::Row row("events/mdes10+tencode/60M", space, 13.0 * 60000000 + 300.0 * ROWS * COLS * 13);
        row.note("uniform");
        row.measure([&](cusStream stream, int) { return job(input, stream); });
        row.report();
    });
}

// The other representations, each alone; one visit to an event and one write of the frame is what must move.
TEST(Events, representations_60M) {
    if (!perf::haveGpu())
        GTEST_SKIP() << "no GPU on this machine";
    const Input input(60000000, Spread::UNIFORM, CUS_DEVICE);
    for (cusRepresentationKind kind : {CUS_REPR_MDES, CUS_REPR_MDES_COUNT, CUS_REPR_TENCODE, CUS_REPR_STACKED_HISTOGRAM,
                                       CUS_REPR_VOXEL_GRID, CUS_REPR_TIME_SURFACE, CUS_REPR_EVENT_DIFF}) {
        const cusRepresentation r = cusRepresentationDefaults(kind);
        int type = 0;
        check(cusRepresentationType(&r, &type));
        Job job(CUS_DEVICE, {kind});
        perf::Row row(std::string("events/") + cusRepresentationName(kind) + "/60M", CUS_DEVICE,
                      5.0 * 60000000 + 300.0 * ROWS * COLS * static_cast<double>(cusTypeSize(type)));
        row.note("uniform, defaults");
        row.measure([&](cusStream stream, int) { return job(input, stream); });
        row.report();
    }
}

// From page-locked memory to page-locked memory; the bus carries 300 MB up and 553 MB down at once.
TEST(Events, stream_60M) {
    if (!perf::haveGpu())
        GTEST_SKIP() << "no GPU on this machine";
    const Input input(60000000, Spread::UNIFORM, CUS_HOST, true);
    cusEventStreamOptions options = cusEventStreamDefaults();
    options.compute = CUS_DEVICE;
    const cusRepresentation r = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
    cusEventStream *stream = nullptr;
    check(cusEventStreamCreate(
        &stream, ROWS, COLS, &r, 1, &options, [](void *, const cusFrameBatch *) { return CUS_OK; }, nullptr));
    perf::Row row("events/stream-histogram/60M", CUS_DEVICE, 0);
    row.hostToHost(5.0 * STACK, FRAME, 300); // per frame
    row.measure([&](cusStream, int) {
        check(cusEventStreamPush(stream, &input.view));
        return cusEventStreamFlush(stream);
    });
    row.report();
    cusEventStreamDestroy(stream);
}

} // namespace
