// Rows of event frames: stacks of 200,000 events, mostly of 1280 x 720 pixels, uniform, clustered, with a hot pixel or a
// lamp; all events in one window; 1000 to 600 million events; in memory and through the pipeline.
#include "harness/frames.hpp"

#include "cusight/events.h"
#include "peers/events.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using perf::check;

constexpr int ROWS = 720, COLS = 1280;
constexpr perf::Size SENSOR = {COLS, ROWS};
constexpr size_t STACK = 200000, FRAME = size_t{2} * ROWS * COLS;
constexpr size_t TIMED = 60000000; // larger inputs have no times, and use representations without them

// HOT_PIXEL: a fifth of all events on one pixel. LAMP: three in ten in one tile of 16 x 16.
enum class Spread { UNIFORM, EDGES, HOT_PIXEL, LAMP, ONE_PIXEL, SORTED };

uint64_t mixed(uint64_t i) {
    i = (i + 1) * 0x9E3779B97F4A7C15u;
    i = (i ^ i >> 29) * 0xBF58476D1CE4E5B9u;
    return i ^ i >> 32;
}

// Windows over the first n events.
std::vector<cusEventWindow> stacksOf(size_t n) {
    std::vector<cusEventWindow> windows;
    for (size_t first = 0; first < n; first += STACK)
        windows.push_back({first, std::min(first + STACK, n)});
    return windows;
}

// Calls work(first, last) for parts of 0..n on all processors.
template<class F>
void inParallel(size_t n, const F &work) {
    const size_t threads = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> workers;
    for (size_t k = 0; k < threads; ++k)
        workers.emplace_back([&, k] { work(n * k / threads, n * (k + 1) / threads); });
    for (auto &thread : workers)
        thread.join();
}

// Events in either space, ten per microsecond.
class Input {
  public:
    Input(size_t n, Spread spread, cusSpace space, bool pinned = false, perf::Size sensor = SENSOR) {
        std::vector<uint16_t> x(n), y(n);
        std::vector<uint8_t> p(n);
        std::vector<int64_t> t(n <= TIMED ? n : 0);
        const size_t cols = static_cast<size_t>(sensor.cols);
        inParallel(n, [&](size_t first, size_t last) {
            for (size_t i = first; i < last; ++i) {
                const uint64_t r = mixed(i);
                uint64_t pixel = (r & 0xffffffff) * sensor.pixels() >> 32;
                if (spread == Spread::EDGES && (r >> 32 & 3)) // three quarters on four moving lines, 24 pixels wide
                    pixel = pixel / cols * cols + (i / 40000 * 3 + (r >> 34 & 3) * 300 + (r >> 36) % 24) % cols;
                const uint64_t percent = (r >> 32 & 0xffffff) * 100 >> 24;
                if (spread == Spread::ONE_PIXEL || (spread == Spread::HOT_PIXEL && percent < 20))
                    pixel = 222 * cols + 333;
                if (spread == Spread::LAMP && percent < 30)
                    pixel = (208 + (r & 15)) * cols + 320 + (r >> 4 & 15);
                x[i] = static_cast<uint16_t>(pixel % cols);
                y[i] = static_cast<uint16_t>(pixel / cols);
                p[i] = r >> 63;
                if (n <= TIMED)
                    t[i] = static_cast<int64_t>(i / 10);
            }
        });
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
        view.t = n <= TIMED ? put(3, t, space, pinned) : nullptr;
        view.count = n;
        view.space = space;
        windows = stacksOf(n);
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

std::vector<cusRepresentation> defaults(const std::vector<cusRepresentationKind> &kinds) {
    std::vector<cusRepresentation> r;
    for (cusRepresentationKind kind : kinds)
        r.push_back(cusRepresentationDefaults(kind));
    return r;
}

// A stacker and the frames that it makes.
class StackerWithFrames {
  public:
    StackerWithFrames(cusSpace space, const std::vector<cusRepresentation> &r, perf::Size sensor = SENSOR)
        : frames(r.size()) {
        check(cusEventStackerCreate(&stacker, sensor.rows, sensor.cols, space, r.data(), static_cast<int>(r.size())));
    }
    ~StackerWithFrames() {
        for (cusMat &m : frames)
            cusMatRelease(&m);
        cusEventStackerDestroy(stacker);
    }
    StackerWithFrames(const StackerWithFrames &) = delete;
    StackerWithFrames &operator=(const StackerWithFrames &) = delete;
    cusStatus operator()(const Input &input, const std::vector<cusEventWindow> &windows, cusStream stream) {
        return cusEventStack(stacker, &input.view, windows.data(), windows.size(), frames.data(), stream);
    }
    cusStatus operator()(const Input &input, cusStream stream) { return (*this)(input, input.windows, stream); }
    cusEventStacker *stacker = nullptr;
    std::vector<cusMat> frames;
};

double histogramBytes(size_t n) {
    return 5.0 * static_cast<double>(n) + static_cast<double>((n + STACK - 1) / STACK * FRAME);
}

// Ten channels and three of Tencode.
double mdesTencodeBytes(size_t n) {
    return 13.0 * static_cast<double>(n) + static_cast<double>((n + STACK - 1) / STACK * FRAME / 2 * 13);
}

constexpr char HOT_PIXEL_NOTE[] = "20 % on one pixel", LAMP_NOTE[] = "30 % in one tile of 16 x 16";

void histogram(const std::string &name, size_t n, Spread spread, const std::string &note, bool with_peers) {
    perf::bothSpaces([&](cusSpace space) {
        perf::Row row("events/histogram/" + name, space, histogramBytes(n));
        if (perf::listing())
            return row.report();
        const Input input(n, spread, space);
        StackerWithFrames stack(space, defaults({CUS_REPR_HISTOGRAM}));
        const size_t stacks = input.windows.size();
        row.note(note);
        row.measure([&](cusStream stream, int) { return stack(input, stream); });
        // The peers' memory lives until the report.
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
            check(cusMatCreate(&counters, 1, static_cast<int>(stacks * FRAME), CUS_32SC1, CUS_DEVICE));
            check(cusMatCreate(&frames, 1, static_cast<int>(stacks * FRAME), CUS_8UC1, CUS_DEVICE));
            row.peer("published", [&](cusStream stream, int) {
                peers::atomicHistogram(input.view.x, input.view.y, input.view.p, stacks, STACK, ROWS, COLS,
                                       static_cast<uint32_t *>(counters.data), static_cast<uint8_t *>(frames.data), stream);
            });
            // Sorts all stacks at once by stack and pixel, 30 bits: the first step of counting sorted events.
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
        if (row.measured() && frames.data) // the frames of the first stack and the last
            for (const size_t k : {size_t(0), stacks - 1}) {
                cusMat ours = CUS_MAT_INIT, theirs = CUS_MAT_INIT;
                check(cusMatRegion(&stack.frames[0], 0, static_cast<int>(k) * ROWS, COLS, ROWS, &ours));
                check(
                    cusMatWrap(&theirs, ROWS, COLS, CUS_8UC2, CUS_DEVICE, static_cast<char *>(frames.data) + k * FRAME, 0));
                EXPECT_EQ(perf::bytesOf(ours), perf::bytesOf(theirs)) << "the published method gives a different frame";
            }
        for (cusMat *m : {&counters, &frames, &keys, &sorted, &workspace})
            cusMatRelease(m);
#endif
    });
}

TEST(Events, Histogram60M) {
    histogram("60M", 60000000, Spread::UNIFORM, "uniform", true);
}
TEST(Events, Histogram60MEdges) {
    histogram("60M/edges", 60000000, Spread::EDGES, "three quarters on moving edges", false);
}
TEST(Events, Histogram60MHotPixel) {
    histogram("60M-hot-pixel", 60000000, Spread::HOT_PIXEL, HOT_PIXEL_NOTE, false);
}
TEST(Events, Histogram60MLamp) {
    histogram("60M-lamp", 60000000, Spread::LAMP, LAMP_NOTE, false);
}
TEST(Events, Histogram60MOnePixel) {
    histogram("60M/one-pixel", 60000000, Spread::ONE_PIXEL, "all on one pixel", false);
}
TEST(Events, Histogram60MSorted) {
    histogram("60M/sorted", 60000000, Spread::SORTED, "each stack kept sorted by pixel", false);
}

TEST(Events, Mdes10Tencode60M) {
    perf::bothSpaces([&](cusSpace space) {
        perf::Row row("events/mdes10+tencode/60M", space, mdesTencodeBytes(60000000));
        if (perf::listing())
            return row.report();
        const Input input(60000000, Spread::UNIFORM, space);
        StackerWithFrames stack(space, defaults({CUS_REPR_MDES, CUS_REPR_TENCODE}));
        row.note("uniform");
        row.measure([&](cusStream stream, int) { return stack(input, stream); });
        row.report();
    });
}

// The other representations, one at a time. Bytes that must move: each event once, its time if it is used, and the frames
// once.
TEST(Events, Representations60M) {
    if (!perf::wants(CUS_DEVICE))
        return;
    std::unique_ptr<Input> input;
    const auto measure = [&](const cusRepresentation &r, const std::string &name, const std::string &note) {
        int type = 0;
        check(cusRepresentationType(&r, &type));
        const bool timed = r.kind == CUS_REPR_VOXEL_GRID || r.kind == CUS_REPR_TIME_SURFACE;
        perf::Row row("events/" + name, CUS_DEVICE,
                      (timed ? 13.0 : 5.0) * 60000000 + 300.0 * ROWS * COLS * static_cast<double>(cusTypeSize(type)));
        row.note(note);
        if (perf::listing())
            return row.report();
        if (!input)
            input = std::make_unique<Input>(60000000, Spread::UNIFORM, CUS_DEVICE);
        StackerWithFrames stack(CUS_DEVICE, {r});
        row.measure([&](cusStream stream, int) { return stack(*input, stream); });
        row.report();
    };
    for (cusRepresentationKind kind : {CUS_REPR_MDES, CUS_REPR_MDES_COUNT, CUS_REPR_TENCODE, CUS_REPR_STACKED_HISTOGRAM,
                                       CUS_REPR_VOXEL_GRID, CUS_REPR_TIME_SURFACE, CUS_REPR_EVENT_DIFF})
        measure(cusRepresentationDefaults(kind), cusRepresentationName(kind) + std::string("/60M"), "uniform, defaults");
    cusRepresentation normalized = cusRepresentationDefaults(CUS_REPR_VOXEL_GRID);
    normalized.normalize = CUS_NORMALIZE_POPULATION;
    measure(normalized, "voxel_grid/60M/normalized", "uniform; tiles made twice, for the moments and for the values");
    cusRepresentation half = cusRepresentationDefaults(CUS_REPR_VOXEL_GRID);
    half.depth = normalized.depth = CUS_16F;
    measure(half, "voxel_grid/60M/16f", "uniform; half precision");
    measure(normalized, "voxel_grid/60M/normalized/16f", "uniform; half precision");
}

// Other events, sensors and windows, on the device.
void otherInput(const std::string &name, const std::vector<cusRepresentationKind> &kinds, Spread spread,
                const std::string &note, perf::Size sensor = SENSOR, bool one_window = false) {
    if (!perf::wants(CUS_DEVICE))
        return;
    std::unique_ptr<Input> input;
    for (const cusRepresentationKind kind : kinds) {
        perf::Row row(std::string("events/") + cusRepresentationName(kind) + "/" + name, CUS_DEVICE, 0);
        row.note(note);
        if (perf::listing()) {
            row.report();
            continue;
        }
        if (!input)
            input = std::make_unique<Input>(60000000, spread, CUS_DEVICE, false, sensor);
        StackerWithFrames stack(CUS_DEVICE, defaults({kind}), sensor);
        const std::vector<cusEventWindow> windows =
            one_window ? std::vector<cusEventWindow>{{0, 60000000}} : input->windows;
        row.measure([&](cusStream stream, int) { return stack(*input, windows, stream); });
        row.report();
    }
}

TEST(Events, VoxelGrid60MCrowded) {
    otherInput("60M-hot-pixel", {CUS_REPR_VOXEL_GRID}, Spread::HOT_PIXEL, HOT_PIXEL_NOTE);
    otherInput("60M-lamp", {CUS_REPR_VOXEL_GRID}, Spread::LAMP, LAMP_NOTE);
}

// Rows of pixels that are not a whole number of vectors.
TEST(Events, OddWidth60M) {
    otherInput("60M-346x260", {CUS_REPR_HISTOGRAM, CUS_REPR_MDES, CUS_REPR_VOXEL_GRID}, Spread::UNIFORM, "uniform",
               {346, 260});
    otherInput("60M-352x260", {CUS_REPR_HISTOGRAM, CUS_REPR_MDES, CUS_REPR_VOXEL_GRID}, Spread::UNIFORM,
               "uniform, rows of whole vectors", {352, 260});
}

TEST(Events, OneWindow60M) {
    otherInput("60M-one-window", {CUS_REPR_HISTOGRAM, CUS_REPR_MDES, CUS_REPR_VOXEL_GRID}, Spread::UNIFORM, "uniform",
               SENSOR, true);
    otherInput("60M-one-window/hot-pixel", {CUS_REPR_HISTOGRAM, CUS_REPR_VOXEL_GRID}, Spread::HOT_PIXEL, HOT_PIXEL_NOTE,
               SENSOR, true);
}

// One stack, as for a live camera.
TEST(Events, Latency) {
    if (!perf::wants(CUS_DEVICE))
        return;
    for (const perf::Size size : perf::FRAME_SIZES) {
        const Input input(STACK, Spread::UNIFORM, CUS_DEVICE, false, size);
        StackerWithFrames histogram(CUS_DEVICE, defaults({CUS_REPR_HISTOGRAM}), size),
            both(CUS_DEVICE, defaults({CUS_REPR_MDES, CUS_REPR_TENCODE}), size);
        perf::latency("events/histogram/" + size.text() + "/200k events",
                      [&](cusStream stream, int) { return histogram(input, stream); });
        perf::latency("events/mdes10+tencode/" + size.text() + "/200k events",
                      [&](cusStream stream, int) { return both(input, stream); });
    }
}

TEST(EventsSweep, Events) {
    perf::bothSpaces([&](cusSpace space) {
        std::vector<size_t> counts = {1000, STACK, 1000000, 10000000, 60000000};
        if (space == CUS_DEVICE)
            counts.insert(counts.end(), {200000000, 600000000});
        std::unique_ptr<Input> input;
        for (const size_t n : counts) {
            if (!perf::listing() && (!input || n > input->view.count)) // smaller inputs are prefixes of larger ones
                input = std::make_unique<Input>(n <= TIMED ? TIMED : counts.back(), Spread::UNIFORM, space);
            const auto row = [&](const std::string &name, double bytes, const std::vector<cusRepresentationKind> &kinds) {
                StackerWithFrames stack(space, defaults(kinds));
                const std::vector<cusEventWindow> windows = stacksOf(n);
                perf::Row r("sweep/events/" + name + "/events=" + std::to_string(n), space, bytes);
                r.measure([&](cusStream stream, int) { return stack(*input, windows, stream); });
                r.report();
            };
            row("histogram", histogramBytes(n), {CUS_REPR_HISTOGRAM});
            if (n <= TIMED)
                row("mdes10+tencode", mdesTencodeBytes(n), {CUS_REPR_MDES, CUS_REPR_TENCODE});
        }
    });
}

// From page-locked memory to page-locked memory. up, down: bytes per stack.
void pipeline(const std::string &name, const std::vector<cusRepresentationKind> &kinds, double up, double down) {
    if (!perf::wants(CUS_DEVICE))
        return;
    perf::Row row("events/pipeline-" + name + "/60M", CUS_DEVICE, 0);
    if (perf::listing())
        return row.report();
    const Input input(60000000, Spread::UNIFORM, CUS_HOST, true);
    cusEventPipelineOptions options = cusEventPipelineDefaults();
    options.compute = CUS_DEVICE;
    options.windowing.keep_incomplete = 0;
    const std::vector<cusRepresentation> representations = defaults(kinds);
    cusEventPipeline *events = nullptr;
    check(cusEventPipelineCreate(
        &events, ROWS, COLS, representations.data(), static_cast<int>(kinds.size()), &options,
        [](void *, const cusFrameBatch *) { return CUS_OK; }, nullptr));
    row.hostToHost(up, down, 300);
    row.note("pinned events up, frames down");
    row.measure([&](cusStream, int) {
        check(cusEventPipelinePush(events, &input.view));
        return cusEventPipelineFlush(events);
    });
    row.report();
    cusEventPipelineDestroy(events);
}

TEST(Events, Pipeline60M) {
    pipeline("histogram", {CUS_REPR_HISTOGRAM}, 5.0 * STACK, FRAME);
    pipeline("mdes10+tencode", {CUS_REPR_MDES, CUS_REPR_TENCODE}, 13.0 * STACK, 13.0 * ROWS * COLS);
}

} // namespace
