// Windows too long for the workspace: events are scattered to accumulators in device memory, with atomics that return
// nothing and whose result does not depend on their order; a second kernel turns these into values and leaves zeros
// behind. A group of windows is small enough for its accumulators to stay in the L2 cache.
#include "events_values.cuh"

#include <algorithm>

namespace cusi::events {

namespace tuning {
constexpr int SCATTER_THREADS = 256;
constexpr unsigned SCATTER_CHUNKS = 1; // per thread
} // namespace tuning

namespace {

struct ScatterParams {
    Windows windows;
    unsigned count;             // windows
    unsigned blocks_per_window; // blocks = count * blocks_per_window
    unsigned rows, cols;
    unsigned pitch; // pixels from one row of accumulators to the next, a multiple of 4
    void *accumulators;
    Representation repr;
    unsigned long long *skipped; // NULL: counted elsewhere
};

// Adds an event to its pixel's 32-bit accumulators.
template<Kind KIND>
__device__ inline void accumulate(const Representation &repr, const EventsLevels &levels, uint32_t *pixel, unsigned index,
                                  bool positive) {
    const unsigned channel = positive ? repr.swap : 1 - repr.swap;
    if (KIND == LAST_EVENT) {
        atomicMax(pixel, 2 * (index + 1) + positive);
    } else if (KIND == TIME_SURFACE) {
        atomicMax(pixel + channel, index + 1);
    } else if (KIND == HISTOGRAM) {
        atomicAdd(pixel + channel, 1u);
    } else if (KIND == MDES_COUNT) {
        for (unsigned k = 0; k < repr.channels && levels.begin[k] <= index; ++k) // two on average
            atomicAdd(pixel + k, 1u);
    } else if (KIND == STACKED_HISTOGRAM) {
        atomicAdd(pixel + channel * repr.channels + levelOf(levels, index), 1u);
    } else if (KIND == EVENT_DIFF) {
        atomicAdd(pixel, positive ? 1u : ~0u);
    }
}

// Adds an event to its pixel's 64-bit sums.
__device__ __forceinline__ void accumulateVoxel(const Representation &repr, const Window &window, unsigned long long *pixel,
                                                int64_t t, bool positive) {
    const VoxelTimes times(repr, window);
    const VoxelWeights weights = times(t, positive);
    unsigned long long *sums = pixel + weights.bin;
    atomicAdd(sums, static_cast<unsigned long long>(weights.here));
    if (weights.bin + 1 < repr.channels)
        atomicAdd(sums + 1, static_cast<unsigned long long>(weights.next));
}

template<Kind KIND>
__global__ void __launch_bounds__(tuning::SCATTER_THREADS) scatterKernel(const Source source, const ScatterParams params) {
    startInOrder();
    __shared__ EventsLevels levels;
    const unsigned w = blockIdx.x / params.blocks_per_window, part = blockIdx.x % params.blocks_per_window;
    const Window window = params.windows[w];
    const Representation &repr = params.repr;
    const unsigned long long c0 = window.first / CHUNK, end = divUp(window.last, static_cast<unsigned long long>(CHUNK));
    if (window.first == window.last)
        return;
    prepareLevels<KIND>(repr, w, window, &levels);
    __syncthreads();
    const size_t frame = static_cast<size_t>(w) * params.rows * params.pitch;
    unsigned outside = 0;
    for (unsigned long long c = c0 + part * blockDim.x + threadIdx.x; c < end;
         c += static_cast<unsigned long long>(params.blocks_per_window) * blockDim.x) {
        Chunk chunk;
        load(source, window, c, chunk);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            if (!chunk.has(i))
                continue;
            const unsigned row = chunk.row(i), col = chunk.col(i);
            if (row >= params.rows || col >= params.cols) {
                ++outside;
                continue;
            }
            const bool positive = chunk.positive(i);
            const size_t pixel =
                (frame + static_cast<size_t>(row) * params.pitch + col) * accumulatorsPerPixel(KIND, repr.channels);
            if constexpr (KIND == VOXEL_GRID)
                accumulateVoxel(repr, window, static_cast<unsigned long long *>(params.accumulators) + pixel,
                                source.t[c * CHUNK + i], positive);
            else
                accumulate<KIND>(repr, levels, static_cast<uint32_t *>(params.accumulators) + pixel,
                                 static_cast<unsigned>(c * CHUNK + i - window.first), positive);
        }
    }
    if (params.skipped) {
        outside = warpSum(outside);
        if ((threadIdx.x & 31) == 0 && outside)
            atomicAdd(params.skipped, static_cast<unsigned long long>(outside));
    }
}

struct ResolveParams {
    Windows windows;
    unsigned count; // windows
    unsigned rows, cols, pitch;
    unsigned blocks;
    void *accumulators;
    Representation repr;
};

// Four bytes to any address, of which `n` exist.
__device__ inline void storeBytes(uint8_t *out, uint32_t four, unsigned n) {
    if (n == 4 && reinterpret_cast<uintptr_t>(out) % 4 == 0) {
        __stcs(reinterpret_cast<uint32_t *>(out), four);
        return;
    }
    for (unsigned i = 0; i < n; ++i)
        out[i] = static_cast<uint8_t>(four >> (8 * i));
}

// Four accumulators to values `at` .. of row y, of which `n` exist.
template<Kind KIND>
__device__ inline void writeValues(const Representation &repr, const Window &window, const uint4 &four, size_t y,
                                   unsigned at, unsigned n) {
    const uint32_t sums[4] = {four.x, four.y, four.z, four.w};
    if (KIND == TIME_SURFACE) {
        float *out = rowOf(static_cast<float *>(repr.frames), repr.step, y) + at;
        const int64_t *t = repr.t + window.first, *newest = repr.t + window.last - 1;
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            if (i < n)
                out[i] = sums[i] ? surfaceValue(repr, t[sums[i] - 1], *newest) : 0.0f;
        return;
    }
    uint32_t bytes = clippedBytes(four);
    if (KIND != EVENT_DIFF) {
        const auto count = [&](int i) { return min(sums[i], repr.cutoff) << (8 * i); };
        bytes = count(0) | count(1) | count(2) | count(3);
    }
    storeBytes(rowOf(static_cast<uint8_t *>(repr.frames), repr.step, y) + at, bytes, n);
}

// Four sums of 64 bits to values.
__device__ __forceinline__ void resolveVoxels(const Representation &repr, longlong2 *stored, size_t y, unsigned at,
                                              unsigned n) {
    const longlong2 a = stored[0], b = stored[1];
    stored[0] = stored[1] = make_longlong2(0, 0);
    const long long sums[4] = {a.x, a.y, b.x, b.y};
    float *out = rowOf(static_cast<float *>(repr.frames), repr.step, y) + at;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
        if (i < n)
            out[i] = voxelValue64(sums[i]);
}

// Accumulators to values, four at a time; zeros stay behind.
template<Kind KIND>
__global__ void __launch_bounds__(tuning::SCATTER_THREADS) resolveKernel(const ResolveParams params) {
    startInOrder();
    const unsigned blocks_per_window = params.blocks / params.count, w = blockIdx.x / blocks_per_window,
                   part = blockIdx.x % blocks_per_window;
    const Window window = params.windows[w];
    const unsigned unit = accumulatorsPerPixel(KIND, params.repr.channels), values = params.cols * unit,
                   quads = divUp(values, 4u);
    const size_t row_words = static_cast<size_t>(params.pitch) * unit; // a multiple of 4
    const unsigned long long all = 1ull * quads * params.rows;
    for (unsigned long long q = part * blockDim.x + threadIdx.x; q < all; q += blocks_per_window * blockDim.x) {
        const unsigned row = static_cast<unsigned>(q / quads), at = static_cast<unsigned>(q % quads) * 4,
                       n = min(4u, values - at);
        const size_t y = static_cast<size_t>(w) * params.rows + row;
        if constexpr (KIND == VOXEL_GRID) {
            resolveVoxels(params.repr,
                          reinterpret_cast<longlong2 *>(static_cast<long long *>(params.accumulators) + y * row_words + at),
                          y, at, n);
        } else {
            uint4 *stored = reinterpret_cast<uint4 *>(static_cast<uint32_t *>(params.accumulators) + y * row_words + at);
            const uint4 four = *stored;
            *stored = make_uint4(0, 0, 0, 0);
            writeValues<KIND>(params.repr, window, four, y, at, n);
        }
    }
}

// ---- The host's side ---------------------------------------------------------------------------------------------------

template<Kind KIND>
cusStatus scatterGroup(const Batch &batch, const ScatterPlan &plan, Representation repr, unsigned first, unsigned count) {
    repr.levels += repr.levels ? first : 0;
    const ScatterParams params = {batch.windows.from(first),
                                  count,
                                  plan.blocks_per_window,
                                  static_cast<unsigned>(batch.stacker->rows),
                                  static_cast<unsigned>(batch.stacker->cols),
                                  plan.pitch,
                                  batch.state->accumulators,
                                  repr,
                                  plan.count_skipped ? batch.state->skipped : nullptr};
    return launch(STACK, scatterKernel<KIND>, count * plan.blocks_per_window, tuning::SCATTER_THREADS, 0, batch.stream,
                  batch.source, params);
}

template<Kind KIND>
cusStatus scatterKind(const Batch &batch, int index, bool count_skipped) {
    const size_t bytes_per_pixel = accumulatorBytesPerPixel(batch.stacker->representations[index]);
    const ScatterPlan plan = planScatter(batch, bytes_per_pixel, count_skipped);
    const Representation repr = representationOf(batch, index);
    const unsigned rows = static_cast<unsigned>(batch.stacker->rows), cols = static_cast<unsigned>(batch.stacker->cols);
    const size_t frame_words = static_cast<size_t>(plan.pitch) * rows * bytes_per_pixel / sizeof(uint32_t),
                 blocks = frame_words / (4 * tuning::SCATTER_THREADS * 2); // four values per thread, twice
    for (unsigned first = 0; first < batch.count; first += plan.group) {
        const unsigned count = std::min(plan.group, batch.count - first);
        ResolveParams params = {batch.windows.from(first),
                                count,
                                rows,
                                cols,
                                plan.pitch,
                                count * static_cast<unsigned>(std::max<size_t>(1, std::min<size_t>(blocks, 8192))),
                                batch.state->accumulators,
                                repr};
        params.repr.frames = rowOf(static_cast<char *>(repr.frames), repr.step, static_cast<size_t>(first) * rows);
        CUS_TRY(scatterGroup<KIND>(batch, plan, repr, first, count));
        CUS_TRY(launch(STACK, resolveKernel<KIND>, params.blocks, tuning::SCATTER_THREADS, 0, batch.stream, params));
    }
    return CUS_OK;
}

} // namespace

ScatterPlan planScatter(const Batch &batch, size_t bytes_per_pixel, bool count_skipped) {
    ScatterPlan plan = {};
    plan.pitch = accumulatorPitch(batch.stacker);
    plan.count_skipped = count_skipped;
    const uint64_t chunks = batch.max_events / CHUNK + 2;
    plan.blocks_per_window = static_cast<unsigned>(
        std::min<uint64_t>(divUp(chunks, uint64_t{tuning::SCATTER_THREADS * tuning::SCATTER_CHUNKS}), 1u << 16));
    const size_t frame_bytes =
        static_cast<size_t>(plan.pitch) * static_cast<unsigned>(batch.stacker->rows) * bytes_per_pixel;
    plan.group = static_cast<unsigned>(
        std::max<size_t>(1, std::min<size_t>(batch.count, batch.state->accumulator_bytes / frame_bytes)));
    return plan;
}

cusStatus scatterLastEvents(const Batch &batch, const ScatterPlan &plan, unsigned first, unsigned count) {
    return scatterGroup<LAST_EVENT>(batch, plan, Representation{}, first, count);
}

cusStatus scatterValues(const Batch &batch, int index, bool count_skipped) {
    switch (kindOf(batch.stacker->representations[index].kind)) {
    case HISTOGRAM:
        return scatterKind<HISTOGRAM>(batch, index, count_skipped);
    case TIME_SURFACE:
        return scatterKind<TIME_SURFACE>(batch, index, count_skipped);
    case MDES_COUNT:
        return scatterKind<MDES_COUNT>(batch, index, count_skipped);
    case STACKED_HISTOGRAM:
        return scatterKind<STACKED_HISTOGRAM>(batch, index, count_skipped);
    case VOXEL_GRID:
        return scatterKind<VOXEL_GRID>(batch, index, count_skipped);
    default:
        return scatterKind<EVENT_DIFF>(batch, index, count_skipped);
    }
}

} // namespace cusi::events
