// The event generator on the GPU. A thread walks a pixel through all frames of a run with its state in registers, twice: to count
// its events, and, after a scan of the counts, to write them at its place. They are then in the order of pixels, so that a stable sort by
// time gives the order that is asked for. Sorted are as many records as there is room for, since the host does not know their number.
#include "cuda.cuh"
#include "device.h"
#include "eventgen/backend.h"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include <algorithm>
#include <new>

namespace cusi::eventgen {
namespace {

constexpr unsigned THREADS = 256;
constexpr int AHEAD = 8;          // frames whose values are loaded before they are needed
constexpr int LAUNCH_TIMES = 256; // 2 KiB of parameters
constexpr int WRITE_BLOCKS = 16;  // for each multiprocessor

// What the runs so far have come to.
struct Control {
    int64_t time; // of the last frame; -1 before the first
    uint64_t failed;
    cusEventsGenerated last; // if failed: of the first run that did
};

struct State {
    EventgenPixel *pixels;
    uint8_t *values; // of the last frame
    EventgenTables *tables;
    int64_t *times;
    uint64_t *starts;               // by pixel: its events' number, then its first; at the end their sum
    uint32_t *keys[2], *records[2]; // microseconds since the origin; pixel << 1 | polarity
    void *temporary;                // CUB's
    size_t temporary_bytes;
    Control *control;
    int multiprocessors;
};

// The parameters of a run's kernels.
struct Run {
    EventgenModel model;
    const uint8_t *frames;
    size_t step;
    int rows, cols, count;
    int64_t before, origin; // before: -1: the first frame sets the references
    uint64_t capacity;
    const int64_t *times;
    const EventgenTables *tables;
    EventgenPixel *pixels;
    uint8_t *values;
    uint64_t *starts;
    uint32_t *keys, *records;
    Control *control;

    __device__ unsigned pixelCount() const { return static_cast<unsigned>(rows) * static_cast<unsigned>(cols); }
    // Whether this run writes events and pixels.
    __device__ bool works() const { return !control->failed && starts[pixelCount()] <= capacity; }
};

struct Times {
    int64_t t[LAUNCH_TIMES];
};

// Times travel as parameters: a copy from the caller's memory would have to wait for it.
__global__ void __launch_bounds__(LAUNCH_TIMES) setTimesKernel(const Times times, int64_t *to, int count) {
    if (static_cast<int>(threadIdx.x) < count)
        to[threadIdx.x] = times.t[threadIdx.x];
}

// A pixel's values of the next frames.
struct Ahead {
    unsigned value[AHEAD];
    __device__ __forceinline__ void load(const uint8_t *pixel, size_t frame_bytes, int frame, int count) {
#pragma unroll
        for (int k = 0; k < AHEAD; ++k)
            value[k] = frame + k < count ? pixel[static_cast<size_t>(frame + k) * frame_bytes] : 0;
    }
    __device__ __forceinline__ uint64_t packed() const {
        uint64_t all = 0;
#pragma unroll
        for (int k = 0; k < AHEAD; ++k)
            all |= static_cast<uint64_t>(value[k]) << (8 * k);
        return all;
    }
};

// Walks pixel `index` through the frames. Returns `at` plus the number of events. MAKE: writes them, the first at `at`, and the
// pixel's state.
template<bool MAKE>
__device__ __forceinline__ uint64_t walkPixel(const Run &run, const EventgenTables &tables, unsigned index, uint64_t at) {
    const size_t frame_bytes = static_cast<size_t>(run.rows) * run.step;
    const unsigned cols = static_cast<unsigned>(run.cols);
    const uint8_t *pixel = run.frames + index / cols * run.step + index % cols;
    EventgenWalk walk;
    unsigned last;
    int64_t time = run.before;
    int begin = 0;
    if (run.before < 0) {
        last = *pixel;
        time = run.times[0];
        eventgenStart(&run.model, index, tables.log_intensity[last], time, &walk);
        begin = 1;
    } else {
        last = run.values[index];
        eventgenResume(&run.model, index, &run.pixels[index], &walk);
    }
    Ahead ahead;
    ahead.load(pixel, frame_bytes, begin, run.count);
    for (; begin < run.count; begin += AHEAD) {
        uint64_t values = ahead.packed();
        ahead.load(pixel, frame_bytes, begin + AHEAD, run.count);
        const int end = min(begin + AHEAD, run.count);
#pragma unroll 1
        for (int frame = begin; frame < end; ++frame) {
            const unsigned value = values & 255;
            values >>= 8;
            const EventgenInterval interval = {time, run.times[frame], tables.log_intensity[last],
                                               tables.log_intensity[value], tables.shot_rate[value]};
            EventgenEvent event;
            while (eventgenNext(&run.model, index, &interval, &walk, &event)) {
                if (MAKE) {
                    run.keys[at] = static_cast<uint32_t>(event.t - run.origin);
                    run.records[at] = index << 1 | static_cast<uint32_t>(event.positive);
                }
                ++at;
            }
            last = value;
            time = interval.end;
        }
    }
    if (MAKE) {
        run.pixels[index] = walk.pixel;
        run.values[index] = static_cast<uint8_t>(last);
    }
    return at;
}

__device__ __forceinline__ void loadTables(const Run &run, EventgenTables &tables) {
    for (unsigned i = threadIdx.x; i < 256; i += THREADS) {
        tables.log_intensity[i] = run.tables->log_intensity[i];
        tables.shot_rate[i] = run.tables->shot_rate[i];
    }
    __syncthreads();
}

// starts[pixel] = its number of events, and 0 past the last pixel. After a failed run there are none.
__global__ void __launch_bounds__(THREADS) countKernel(const Run run) {
    __shared__ EventgenTables tables;
    loadTables(run, tables);
    const unsigned index = blockIdx.x * THREADS + threadIdx.x;
    if (index > run.pixelCount())
        return;
    const bool walks = index < run.pixelCount() && !run.control->failed;
    run.starts[index] = walks ? walkPixel<false>(run, tables, index, 0) : 0;
}

// Writes each pixel's records from starts[pixel] on, and past the last record those that sort after all others.
__global__ void __launch_bounds__(THREADS) makeKernel(const Run run) {
    __shared__ EventgenTables tables;
    loadTables(run, tables);
    if (!run.works())
        return;
    const unsigned index = blockIdx.x * THREADS + threadIdx.x;
    for (uint64_t i = run.starts[run.pixelCount()] + index; i < run.capacity;
         i += static_cast<uint64_t>(gridDim.x) * THREADS) {
        run.keys[i] = UINT32_MAX;
        run.records[i] = 0;
    }
    if (index < run.pixelCount())
        walkPixel<true>(run, tables, index, run.starts[index]);
}

// keys, records: sorted.
__global__ void __launch_bounds__(THREADS)
    writeKernel(const Run run, const uint32_t *keys, const uint32_t *records, const cusEventGeneratorOutput out) {
    if (!run.works())
        return;
    const uint64_t count = run.starts[run.pixelCount()];
    const unsigned cols = static_cast<unsigned>(run.cols);
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x; i < count;
         i += static_cast<uint64_t>(gridDim.x) * THREADS) {
        const uint32_t record = records[i], index = record >> 1;
        if (out.x)
            out.x[i] = static_cast<uint16_t>(index % cols);
        if (out.y)
            out.y[i] = static_cast<uint16_t>(index / cols);
        if (out.p)
            out.p[i] = static_cast<uint8_t>(record & 1);
        if (out.t)
            out.t[i] = run.origin + keys[i];
    }
}

// The last kernel of a run: one thread says what it has done.
__global__ void finishKernel(const Run run, cusEventsGenerated *generated) {
    Control *control = run.control;
    const bool works = run.works();
    const uint64_t count = run.starts[run.pixelCount()];
    const cusEventsGenerated done = {count, works ? static_cast<uint64_t>(run.count) : 0,
                                     works ? CUS_OK : CUS_ERROR_CAPACITY};
    if (!control->failed)
        control->last = done;
    if (works)
        control->time = run.times[run.count - 1];
    control->failed = !works;
    if (generated)
        *generated = done;
}

template<class T>
cusStatus allocate(const char *function, size_t count, T **data) {
    void *memory = nullptr;
    CUS_TRY(cusi_deviceAllocate(function, count * sizeof(T), &memory));
    *data = static_cast<T *>(memory);
    return CUS_OK;
}

// The keys or the records, and where they are sorted to.
cub::DoubleBuffer<uint32_t> bufferOf(uint32_t *const (&arrays)[2]) {
    return {arrays[0], arrays[1]};
}

cudaError_t scan(const State &state, void *temporary, size_t &bytes, int pixels, cudaStream_t stream) {
    return cub::DeviceScan::ExclusiveSum(temporary, bytes, state.starts, state.starts, pixels + 1, stream);
}

cusStatus allocateTemporary(const char *function, State *state, int pixels, int max_events) {
    size_t for_scan = 0, for_sort = 0;
    auto keys = bufferOf(state->keys), records = bufferOf(state->records);
    CUSI_CUDA(function, scan(*state, nullptr, for_scan, pixels, nullptr));
    CUSI_CUDA(function, cub::DeviceRadixSort::SortPairs(nullptr, for_sort, keys, records, max_events));
    state->temporary_bytes = std::max<size_t>({for_scan, for_sort, 1});
    return cusi_deviceAllocate(function, state->temporary_bytes, &state->temporary);
}

cusStatus initialize(const char *function, const State *state, const EventgenTables *tables) {
    const Control control = {-1, 0, {0, 0, CUS_OK}};
    CUSI_CUDA(function, cudaMemcpy(state->control, &control, sizeof control, cudaMemcpyHostToDevice));
    CUSI_CUDA(function, cudaMemcpy(state->tables, tables, sizeof *tables, cudaMemcpyHostToDevice));
    return cusStreamSynchronize(nullptr);
}

cusStatus setTimes(const char *function, const State *state, const int64_t *times, int count, cudaStream_t stream) {
    for (int first = 0; first < count; first += LAUNCH_TIMES) {
        const int some = std::min(LAUNCH_TIMES, count - first);
        Times part = {};
        std::copy_n(times + first, some, part.t);
        CUS_TRY(launch(function, setTimesKernel, 1, LAUNCH_TIMES, 0, stream, part, state->times + first, some));
    }
    return CUS_OK;
}

} // namespace
} // namespace cusi::eventgen

using namespace cusi;
using namespace cusi::eventgen;

cusStatus eventgen_cuda_create(const char *function, cusEventGenerator *generator) {
    State *const state = new (std::nothrow) State();
    generator->state = state;
    CUSI_REQUIRE(state, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    CUSI_CUDA(function, multiprocessors(&state->multiprocessors));
    const int pixels = generator->rows * generator->cols;
    const size_t n = static_cast<size_t>(pixels);
    CUS_TRY(allocate(function, n, &state->pixels));
    CUS_TRY(allocate(function, n, &state->values));
    CUS_TRY(allocate(function, n + 1, &state->starts));
    CUS_TRY(allocate(function, 1, &state->tables));
    CUS_TRY(allocate(function, 1, &state->control));
    CUS_TRY(allocate(function, CUS_EVENT_GENERATOR_MAX_FRAMES, &state->times));
    for (int k = 0; k < 2; ++k) {
        CUS_TRY(allocate(function, generator->max_events, &state->keys[k]));
        CUS_TRY(allocate(function, generator->max_events, &state->records[k]));
    }
    CUS_TRY(allocateTemporary(function, state, pixels, static_cast<int>(generator->max_events)));
    return initialize(function, state, &generator->tables);
}

void eventgen_cuda_destroy(cusEventGenerator *generator) {
    State *const state = static_cast<State *>(generator->state);
    if (!state)
        return;
    void *const all[] = {state->pixels,     state->values,     state->starts,   state->tables,
                         state->control,    state->times,      state->keys[0],  state->keys[1],
                         state->records[0], state->records[1], state->temporary};
    for (void *memory : all)
        cusi_deviceFree(memory);
    delete state;
}

cusStatus eventgen_cuda_run(const char *function, cusEventGenerator *generator, const EventgenBatch *batch,
                            const cusEventGeneratorOutput *events, cusEventsGenerated *generated, cusStream stream) {
    const State *const state = static_cast<const State *>(generator->state);
    const cusMat &frames = *batch->frames;
    const int64_t origin = batch->before < 0 ? batch->times[0] : batch->before,
                  span = batch->times[batch->count - 1] - origin;
    const int capacity = static_cast<int>(std::min(events->capacity, generator->max_events)),
              pixels = generator->rows * generator->cols;
    const Run run = {generator->model,
                     static_cast<const uint8_t *>(frames.data),
                     frames.step,
                     generator->rows,
                     generator->cols,
                     batch->count,
                     batch->before,
                     origin,
                     static_cast<uint64_t>(capacity),
                     state->times,
                     state->tables,
                     state->pixels,
                     state->values,
                     state->starts,
                     state->keys[0],
                     state->records[0],
                     state->control};
    CUS_TRY(setTimes(function, state, batch->times, batch->count, stream));
    const unsigned blocks = divUp(static_cast<unsigned>(pixels) + 1, THREADS);
    CUS_TRY(launch(function, countKernel, blocks, THREADS, 0, stream, run));
    size_t bytes = state->temporary_bytes;
    CUSI_CUDA(function, scan(*state, state->temporary, bytes, pixels, stream));
    CUS_TRY(launch(function, makeKernel, blocks, THREADS, 0, stream, run));
    if (capacity > 0) {
        int bits = 1;
        while (span >> bits)
            ++bits;
        auto keys = bufferOf(state->keys), records = bufferOf(state->records);
        CUSI_CUDA(function,
                  cub::DeviceRadixSort::SortPairs(state->temporary, bytes, keys, records, capacity, 0, bits, stream));
        const unsigned write_blocks = std::min(divUp(static_cast<unsigned>(capacity), THREADS),
                                               static_cast<unsigned>(WRITE_BLOCKS * state->multiprocessors));
        CUS_TRY(launch(function, writeKernel, write_blocks, THREADS, 0, stream, run, keys.Current(), records.Current(),
                       *events));
    }
    return launch(function, finishKernel, 1, 1, 0, stream, run, generated);
}

cusStatus eventgen_cuda_check(const char *function, cusEventGenerator *generator, cusEventsGenerated *last,
                              cusStream stream) {
    const State *const state = static_cast<const State *>(generator->state);
    Control control = {};
    CUSI_CUDA(function, cudaMemcpyAsync(&control, state->control, sizeof control, cudaMemcpyDeviceToHost, stream));
    CUSI_CUDA(function, cudaStreamSynchronize(stream));
    CUSI_CUDA(function, cudaMemsetAsync(&state->control->failed, 0, sizeof control.failed, stream));
    generator->time = control.time;
    *last = control.last;
    return CUS_OK;
}
