// The event generator on the GPU. A thread walks a pixel through all frames of a run with its state in registers; its warp
// collects the events and appends them to one list, which is then sorted by a key of time and pixel. The host does not know
// their number, so the sort covers the whole capacity.
#include "arena.cuh"
#include "eventgen/backend.h"

#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <new>

namespace cusi::eventgen {
namespace {

constexpr unsigned THREADS = 256;
constexpr unsigned BLOCKS =
    3;                   // blocks of generateKernel() per multiprocessor; at 75 registers a thread, a fourth would spill
constexpr int AHEAD = 8; // frames whose values are loaded ahead
constexpr unsigned STAGED = 96;   // events of a warp in shared memory: 64 and one from each lane
constexpr int LAUNCH_TIMES = 256; // times per launch, 2 KiB of parameters
constexpr int WRITE_BLOCKS = 16;  // blocks per multiprocessor

// The state of the runs so far, in device memory.
struct Control {
    unsigned long long count; // events of the current run
    uint64_t failed;
    uint64_t current;        // index of the valid copy of the pixels
    int64_t time;            // time of the last frame; -1 before the first
    cusEventsGenerated last; // what the last run did, or the first that failed
};

struct State {
    EventgenPixel *pixels[2];
    uint8_t *values[2]; // values in the last frame
    EventgenTables *tables;
    int64_t *times;
    uint64_t *keys[2];
    char *temporary; // temporary storage of CUB
    size_t temporary_bytes;
    Control *control;
    int multiprocessors;
};

struct Owner {
    State state = {};
    Arena memory;
};

const State *stateOf(const cusEventGenerator *generator) {
    return &static_cast<const Owner *>(generator->state)->state;
}

// The parameters of a run's kernels.
struct Run {
    EventgenModel model;
    const uint8_t *frames;
    size_t step;
    int rows, cols, count;
    int pixel_bits; // a key is time since origin << pixel_bits + 1 | pixel << 1 | polarity
    int64_t before; // -1: the first frame sets the references
    int64_t origin;
    uint64_t capacity;
    State state;

    __device__ unsigned pixelCount() const { return static_cast<unsigned>(rows) * static_cast<unsigned>(cols); }
    // Returns whether no earlier run has failed and this run's events, which are counted, fit.
    __device__ bool works() const { return !state.control->failed && state.control->count <= capacity; }
};

struct Times {
    int64_t t[LAUNCH_TIMES];
};

// Stores times that are passed as parameters, since a copy from the caller's memory would have to wait.
__global__ void __launch_bounds__(LAUNCH_TIMES) setTimesKernel(const Times times, int64_t *to, int count) {
    if (static_cast<int>(threadIdx.x) < count)
        to[threadIdx.x] = times.t[threadIdx.x];
}

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

// Appends a warp's events to the run's list in the order in which they are made, so those of a pixel stay in order. All
// lanes call its functions.
class WarpList {
  public:
    __device__ __forceinline__ WarpList(const Run &run, uint64_t *staged)
        : run_(run), staged_(staged), lane_(threadIdx.x % 32) {}

    // Adds the keys of the lanes that have one. Returns whether any has.
    __device__ __forceinline__ bool add(bool has, uint64_t key) {
        const unsigned lanes = __ballot_sync(FULL_WARP, has);
        if (has)
            staged_[count_ + __popc(lanes & ((1u << lane_) - 1))] = key;
        count_ += __popc(lanes);
        if (count_ > STAGED - 32)
            flush();
        return lanes != 0;
    }

    // Appends the staged events. Those beyond the capacity are only counted.
    __device__ __forceinline__ void flush() {
        __syncwarp();
        unsigned long long first = 0;
        if (lane_ == 0 && count_ > 0)
            first = atomicAdd(&run_.state.control->count, static_cast<unsigned long long>(count_));
        first = __shfl_sync(FULL_WARP, first, 0);
        for (unsigned i = lane_; i < count_; i += 32)
            if (first + i < run_.capacity)
                run_.state.keys[0][first + i] = staged_[i];
        __syncwarp();
        count_ = 0;
    }

  private:
    const Run &run_;
    uint64_t *staged_;
    unsigned lane_, count_ = 0;
};

__device__ __forceinline__ void loadTables(const Run &run, EventgenTables &tables) {
    for (unsigned i = threadIdx.x; i < 256; i += THREADS) {
        tables.log_intensity[i] = run.state.tables->log_intensity[i];
        tables.shot_rate[i] = run.state.tables->shot_rate[i];
    }
    __syncthreads();
}

// Makes the events, and stores the pixels after the run in the copy that is not current.
__global__ void __launch_bounds__(THREADS, BLOCKS) generateKernel(const Run run) {
    __shared__ EventgenTables tables;
    __shared__ uint64_t staged[THREADS / 32][STAGED];
    loadTables(run, tables);
    if (run.state.control->failed)
        return;
    const unsigned thread = blockIdx.x * THREADS + threadIdx.x, index = min(thread, run.pixelCount() - 1);
    const bool exists = thread == index; // the other lanes of the last warp make no events
    const unsigned cols = static_cast<unsigned>(run.cols), current = static_cast<unsigned>(run.state.control->current);
    const size_t frame_bytes = static_cast<size_t>(run.rows) * run.step;
    const uint8_t *pixel = run.frames + index / cols * run.step + index % cols;
    EventgenWalk walk;
    unsigned last;
    int64_t time = run.before;
    int begin = 0;
    if (run.before < 0) {
        last = *pixel;
        time = run.state.times[0];
        eventgenStart(&run.model, index, tables.log_intensity[last], time, &walk);
        begin = 1;
    } else {
        last = run.state.values[current][index];
        eventgenResume(&run.model, index, &run.state.pixels[current][index], &walk);
    }
    WarpList list(run, staged[threadIdx.x / 32]);
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
            const EventgenInterval interval = {time, run.state.times[frame], tables.log_intensity[last],
                                               tables.log_intensity[value], tables.shot_rate[value]};
            EventgenEvent event = {};
            bool more = exists;
            uint64_t key = 0;
            do {
                more = more && eventgenNext(&run.model, index, &interval, &walk, &event);
                key = static_cast<uint64_t>(event.t - run.origin) << (run.pixel_bits + 1) |
                      static_cast<uint64_t>(index) << 1 | static_cast<unsigned>(event.positive);
            } while (list.add(more, key));
            last = value;
            time = interval.end;
        }
    }
    list.flush();
    if (exists) {
        run.state.pixels[1 - current][index] = walk.pixel;
        run.state.values[1 - current][index] = static_cast<uint8_t>(last);
    }
}

__global__ void __launch_bounds__(THREADS) writeKernel(const Run run, const uint64_t *sorted, const cusEventBuffers out) {
    if (!run.works())
        return;
    const uint64_t count = run.state.control->count;
    const unsigned cols = static_cast<unsigned>(run.cols);
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x; i < count;
         i += static_cast<uint64_t>(gridDim.x) * THREADS) {
        const uint64_t key = sorted[i], time = key >> (run.pixel_bits + 1);
        const unsigned index = static_cast<unsigned>((key ^ time << (run.pixel_bits + 1)) >> 1);
        if (out.x)
            out.x[i] = static_cast<uint16_t>(index % cols);
        if (out.y)
            out.y[i] = static_cast<uint16_t>(index / cols);
        if (out.p)
            out.p[i] = static_cast<uint8_t>(key & 1);
        if (out.t)
            out.t[i] = run.origin + static_cast<int64_t>(time);
    }
}

// Ends a run: one thread decides whether its pixels become current, and reports what it did.
__global__ void finishKernel(const Run run, cusEventsGenerated *generated) {
    Control *control = run.state.control;
    const bool works = run.works();
    const cusEventsGenerated done = {control->count, works ? static_cast<uint64_t>(run.count) : 0,
                                     works ? CUS_OK : CUS_ERROR_CAPACITY};
    if (!control->failed)
        control->last = done;
    if (works) {
        control->current = 1 - control->current;
        control->time = run.state.times[run.count - 1];
    }
    control->failed = !works;
    if (generated)
        *generated = done;
}

// Maps CUB's "invalid device", which it also reports if there is none.
cusStatus cubStatus(cudaError_t error, const char *function) {
    return cudaStatus(error == cudaErrorInvalidDevice ? cudaErrorNoDevice : error, function,
                      "cub::DeviceRadixSort::SortKeys");
}

cusStatus allocateTemporary(const char *function, Arena &memory, State *state, int max_events) {
    cub::DoubleBuffer<uint64_t> keys(state->keys[0], state->keys[1]);
    CUS_TRY(cubStatus(cub::DeviceRadixSort::SortKeys(nullptr, state->temporary_bytes, keys, max_events), function));
    state->temporary_bytes = std::max<size_t>(state->temporary_bytes, 1);
    return memory.allocate(function, state->temporary_bytes, &state->temporary);
}

cusStatus initialize(const char *function, const State *state, const EventgenTables *tables) {
    const Control control = {0, 0, 0, -1, {0, 0, CUS_OK}};
    CUSI_CUDA(function, cudaMemcpy(state->control, &control, sizeof control, cudaMemcpyHostToDevice));
    CUSI_CUDA(function, cudaMemcpy(state->tables, tables, sizeof *tables, cudaMemcpyHostToDevice));
    return cusi_deviceFinish(function, nullptr);
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

int bitsOf(int64_t value) {
    int bits = 0;
    while (value >> bits)
        ++bits;
    return bits;
}

// Sorts `capacity` keys by time and pixel. The sort is stable, so polarity keeps its order. Keys after the events have all
// bits set.
cusStatus sortAndWrite(const char *function, const Run &run, int time_bits, int capacity, const cusEventBuffers &out,
                       cudaStream_t stream) {
    const State &state = run.state;
    cub::DoubleBuffer<uint64_t> keys(state.keys[0], state.keys[1]);
    size_t bytes = state.temporary_bytes;
    CUS_TRY(cubStatus(
        cub::DeviceRadixSort::SortKeys(state.temporary, bytes, keys, capacity, 1, 1 + run.pixel_bits + time_bits, stream),
        function));
    const unsigned blocks = std::min(divUp(static_cast<unsigned>(capacity), THREADS),
                                     static_cast<unsigned>(WRITE_BLOCKS * state.multiprocessors));
    return launch(function, writeKernel, blocks, THREADS, 0, stream, run, keys.Current(), out);
}

} // namespace
} // namespace cusi::eventgen

using namespace cusi;
using namespace cusi::eventgen;

cusStatus eventgen_cuda_create(const char *function, cusEventGenerator *generator) {
    Owner *const owner = new (std::nothrow) Owner;
    generator->state = owner;
    CUSI_REQUIRE(owner, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    State *const state = &owner->state;
    Arena &memory = owner->memory;
    CUSI_CUDA(function, multiprocessors(&state->multiprocessors));
    const size_t pixels = static_cast<size_t>(generator->rows) * static_cast<size_t>(generator->cols);
    for (int k = 0; k < 2; ++k) {
        CUS_TRY(memory.allocate(function, pixels, &state->pixels[k]));
        CUS_TRY(memory.allocate(function, pixels, &state->values[k]));
        CUS_TRY(memory.allocate(function, generator->max_events, &state->keys[k]));
    }
    CUS_TRY(memory.allocate(function, 1, &state->tables));
    CUS_TRY(memory.allocate(function, 1, &state->control));
    CUS_TRY(memory.allocate(function, CUS_EVENT_GENERATOR_MAX_FRAMES, &state->times));
    CUS_TRY(allocateTemporary(function, memory, state, static_cast<int>(generator->max_events)));
    return initialize(function, state, &generator->tables);
}

void eventgen_cuda_destroy(cusEventGenerator *generator) {
    delete static_cast<Owner *>(generator->state);
}

cusStatus eventgen_cuda_run(const char *function, cusEventGenerator *generator, const EventgenBatch *batch,
                            const cusEventBuffers *events, cusEventsGenerated *generated, cusStream stream) {
    const State *const state = stateOf(generator);
    const cusMat &frames = *batch->frames;
    const int64_t origin = batch->before < 0 ? batch->times[0] : batch->before;
    const int capacity = static_cast<int>(std::min(events->capacity, generator->max_events)),
              pixels = generator->rows * generator->cols;
    const Run run = {generator->model,
                     static_cast<const uint8_t *>(frames.data),
                     frames.step,
                     generator->rows,
                     generator->cols,
                     batch->count,
                     bitsOf(pixels - 1),
                     batch->before,
                     origin,
                     static_cast<uint64_t>(capacity),
                     *state};
    CUS_TRY(setTimes(function, state, batch->times, batch->count, stream));
    CUSI_CUDA(function, cudaMemsetAsync(&state->control->count, 0, sizeof state->control->count, stream));
    if (capacity > 0)
        CUSI_CUDA(function,
                  cudaMemsetAsync(state->keys[0], 0xff, static_cast<size_t>(capacity) * sizeof(uint64_t), stream));
    CUS_TRY(launch(function, generateKernel, divUp(static_cast<unsigned>(pixels), THREADS), THREADS, 0, stream, run));
    if (capacity > 0) {
        const int time_bits = std::max(1, bitsOf(batch->times[batch->count - 1] - origin));
        CUS_TRY(sortAndWrite(function, run, time_bits, capacity, *events, stream));
    }
    return launch(function, finishKernel, 1, 1, 0, stream, run, generated);
}

cusStatus eventgen_cuda_check(const char *function, cusEventGenerator *generator, cusEventsGenerated *last,
                              cusStream stream) {
    const State *const state = stateOf(generator);
    Control control = {};
    CUS_TRY(cusi_deviceWaitToDownload(function, &control, stream));
    CUSI_CUDA(function, cudaMemcpyAsync(&control, state->control, sizeof control, cudaMemcpyDeviceToHost, stream));
    CUSI_CUDA(function, cudaStreamSynchronize(stream));
    CUSI_CUDA(function, cudaMemsetAsync(&state->control->failed, 0, sizeof control.failed, stream));
    generator->time = control.time;
    *last = control.last;
    return CUS_OK;
}
