// Long windows: those that the workspace cannot hold, or that would leave most of the device idle with a block per tile. Sums
// are integers, so the order of the atomics does not matter.
#include "events/cuda/values.cuh"

#include <algorithm>

namespace cusi::events {

namespace tuning {
constexpr int LONG_THREADS = 256;
constexpr unsigned LONG_BLOCKS = 8; // per multiprocessor
// A window is long from this many events per tile on, which take a tile's block 50 to 200 us. At most MANY_TILES tiles
// count, since one of them may have most of the events.
constexpr unsigned LONG_EVENTS = 65536, MANY_TILES = 64;
} // namespace tuning

namespace {

constexpr int THREADS = tuning::LONG_THREADS;

struct LongParams {
    Window window;
    unsigned rows, cols;
    void *sums; // a pixel's sums are adjacent: 64 bits each for VOXEL_GRID, otherwise 32
    Representation repr;
    unsigned long long *skipped; // NULL: another kernel counts them
    EventsMoments *moments;      // VOXEL_GRID with `normalize`; or NULL
    const EventsScaling *scaling;
};

// ---- Events to accumulators --------------------------------------------------------------------------------------------

template<Kind KIND>
__device__ __forceinline__ void addTo(void *sums, size_t cell, int value) {
    if constexpr (KIND == VOXEL_GRID)
        atomicAdd(static_cast<unsigned long long *>(sums) + cell,
                  static_cast<unsigned long long>(static_cast<long long>(value)));
    else
        atomicAdd(static_cast<uint32_t *>(sums) + cell, static_cast<uint32_t>(value));
}

// Adds the lanes' values, of at most 2^24, to their cells. Atomics on one address wait for each other, so the lanes on one
// crowded pixel add together first, for up to two of its cells (both polarities, say). Called by whole warps.
template<Kind KIND>
__device__ __forceinline__ void addInWarp(void *sums, bool mine, size_t cell, int value, unsigned crowd) {
    const unsigned lane = threadIdx.x & 31;
    for (int k = 0; k < 2 && (crowd & (crowd - 1)) != 0; ++k) {
        const int leader = __ffs(static_cast<int>(crowd)) - 1;
        const size_t shared_cell = __shfl_sync(FULL_WARP, cell, leader);
        const bool same = mine && (crowd >> lane & 1) && cell == shared_cell;
        const uint32_t sum = warpSum(same ? static_cast<uint32_t>(value) : 0u);
        if (static_cast<int>(lane) == leader && same)
            addTo<KIND>(sums, cell, static_cast<int>(sum));
        mine = mine && !same;
        crowd &= ~__ballot_sync(FULL_WARP, same) & ~(1u << leader);
    }
    if (mine)
        addTo<KIND>(sums, cell, value);
}

// An event of the window.
struct Event {
    bool inside, positive;
    unsigned index;
    size_t pixel;
};

template<Kind KIND>
__device__ __forceinline__ void accumulate(const LongParams &params, const EventsLevels &levels, const VoxelTimes &times,
                                           const Event &event, unsigned crowd) {
    const Representation &repr = params.repr;
    const unsigned channel = event.positive ? repr.swap : 1 - repr.swap;
    if constexpr (KIND == LAST_EVENT || KIND == TIME_SURFACE) {
        // Newest first, so most events find a newer one and need no atomic.
        uint32_t *cell =
            static_cast<uint32_t *>(params.sums) + (KIND == TIME_SURFACE ? event.pixel * 2 + channel : event.pixel);
        const uint32_t key = KIND == TIME_SURFACE ? event.index + 1 : 2 * (event.index + 1) + event.positive;
        if (event.inside && __ldcg(cell) < key)
            atomicMax(cell, key);
    } else if constexpr (KIND == HISTOGRAM) {
        addInWarp<KIND>(params.sums, event.inside, event.pixel * 2 + channel, 1, crowd);
    } else if constexpr (KIND == EVENT_DIFF) {
        addInWarp<KIND>(params.sums, event.inside, event.pixel, event.positive ? 1 : -1, crowd);
    } else if constexpr (KIND == VOXEL_GRID) {
        const int64_t t = repr.t[params.window.first + (event.inside ? event.index : 0)];
        const VoxelWeights weights = times(t, event.positive);
        const size_t cell = event.pixel * repr.channels + weights.bin;
        addInWarp<KIND>(params.sums, event.inside, cell, static_cast<int>(weights.here), crowd);
        addInWarp<KIND>(params.sums, event.inside && weights.bin + 1 < repr.channels, cell + 1,
                        static_cast<int>(weights.next), crowd);
    } else {
        const size_t row = KIND == MDES_COUNT ? event.pixel : event.pixel * 2 + channel;
        addInWarp<KIND>(params.sums, event.inside, row * repr.channels + levelOf(levels, event.index), 1, crowd);
    }
}

// Treats a pixel that two neighboring lanes share as crowded, until another is found.
__device__ __forceinline__ void findCrowded(uint32_t pixel, uint32_t &crowded) {
    const bool shared = pixel == __shfl_down_sync(FULL_WARP, pixel, 1) && (threadIdx.x & 31) != 31;
    if (const unsigned lanes = __ballot_sync(FULL_WARP, shared))
        crowded = __shfl_sync(FULL_WARP, pixel, __ffs(static_cast<int>(lanes)) - 1);
}

template<Kind KIND>
__global__ void __launch_bounds__(THREADS) accumulateKernel(const Source source, const LongParams params) {
    startInOrder();
    __shared__ EventsLevels levels;
    const Window window = params.window;
    prepareLevels<KIND>(params.repr, 0, window, &levels);
    __syncthreads();
    const VoxelTimes times(KIND == VOXEL_GRID ? params.repr.t[window.first] : 0,
                           KIND == VOXEL_GRID ? params.repr.t[window.last - 1] : 0, params.repr.channels);
    const unsigned long long end = divUp(window.last, 1ull * CHUNK), chunks = end - window.first / CHUNK;
    const unsigned lane = threadIdx.x & 31;
    unsigned outside = 0;
    uint32_t crowded = ~0u;
    for (unsigned long long next = 1ull * blockIdx.x * THREADS + threadIdx.x - lane; next < chunks; // uniform in a warp
         next += 1ull * gridDim.x * THREADS) {
        const unsigned long long c = end - 1 - next - lane;
        Chunk chunk = {};
        if (next + lane < chunks)
            load<false>(source, window, c, chunk);
        findCrowded(chunk.row(0) << 16 | chunk.col(0), crowded);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            const unsigned row = chunk.row(i), col = chunk.col(i);
            const bool inside = chunk.has(i) && row < params.rows && col < params.cols;
            outside += chunk.has(i) && !inside;
            const Event event = {inside, chunk.positive(i), static_cast<unsigned>(c * CHUNK + i - window.first),
                                 static_cast<size_t>(row) * params.cols + col};
            const unsigned crowd = __ballot_sync(FULL_WARP, inside && (row << 16 | col) == crowded);
            accumulate<KIND>(params, levels, times, event, crowd);
        }
    }
    countSkipped(outside, params.skipped);
}

// ---- Accumulators to values --------------------------------------------------------------------------------------------

// The value of cell `at` of a row, as a byte or as the bits of a float.
template<Kind KIND>
__device__ __forceinline__ uint32_t valueOf(const LongParams &params, size_t row_cells, unsigned at) {
    const Representation &repr = params.repr;
    const uint32_t *cells = static_cast<const uint32_t *>(params.sums) + row_cells + at;
    if constexpr (KIND == VOXEL_GRID) {
        return __float_as_uint(voxelValue64(static_cast<const int64_t *>(params.sums)[row_cells + at]));
    } else if constexpr (KIND == TIME_SURFACE) {
        const int64_t *t = repr.t + params.window.first, newest = repr.t[params.window.last - 1];
        return *cells ? __float_as_uint(surfaceValue(repr, t[*cells - 1], newest)) : 0;
    } else if constexpr (KIND == EVENT_DIFF) {
        return clipped(*cells);
    } else {
        uint32_t count = *cells;
        if (KIND == MDES_COUNT) // a channel includes the events of all later ones
            for (unsigned k = 1; k < repr.channels - at % repr.channels; ++k)
                count += cells[k];
        return min(count, repr.cutoff);
    }
}

template<Kind KIND, bool NORMALIZED>
__global__ void __launch_bounds__(THREADS) resolveKernel(const LongParams params) {
    startInOrder();
    using Value = std::conditional_t<KIND == TIME_SURFACE || KIND == VOXEL_GRID, uint32_t, uint8_t>;
    const unsigned values = params.cols * accumulatorsPerPixel(KIND, params.repr.channels);
    const unsigned at = blockIdx.x * THREADS + threadIdx.x;
    for (unsigned row = blockIdx.y; at < values && row < params.rows; row += gridDim.y) {
        uint32_t value = valueOf<KIND>(params, static_cast<size_t>(row) * values, at);
        if (NORMALIZED)
            value = __float_as_uint(eventsNormalized(voxelUnits(__uint_as_float(value)), *params.scaling));
        rowOf(static_cast<Value *>(params.repr.frames), params.repr.step, row)[at] = static_cast<Value>(value);
    }
}

__global__ void __launch_bounds__(THREADS) sumMomentsKernel(const LongParams params) {
    startInOrder();
    const size_t cells = static_cast<size_t>(params.rows) * params.cols * params.repr.channels;
    EventsMoments moments = {};
    for (size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x; i < cells; i += size_t{gridDim.x} * THREADS)
        if (const int64_t sum = static_cast<const int64_t *>(params.sums)[i])
            eventsAddValue(&moments, voxelValue64(sum));
    addMoments<THREADS>(moments, params.moments);
}

// ---- The host's side ---------------------------------------------------------------------------------------------------

LongParams paramsOf(const Batch &batch, const Representation &repr, bool count_skipped) {
    return {{batch.windows.first, batch.windows.first + batch.windows.length},
            static_cast<unsigned>(batch.stacker->rows),
            static_cast<unsigned>(batch.stacker->cols),
            batch.state->accumulators,
            repr,
            count_skipped ? batch.state->skipped : nullptr,
            nullptr,
            nullptr};
}

template<Kind KIND>
cusStatus addEvents(const Batch &batch, const LongParams &params) {
    const size_t bytes = accumulatorBytes(batch.stacker, KIND, params.repr.channels);
    CUSI_CUDA(STACK, cudaMemsetAsync(params.sums, 0, bytes, batch.stream));
    const uint64_t blocks = std::min<uint64_t>(divUp<uint64_t>(batch.max_events / CHUNK + 2, THREADS),
                                               tuning::LONG_BLOCKS * static_cast<uint64_t>(batch.state->multiprocessors));
    return launchOverlapped(STACK, accumulateKernel<KIND>, static_cast<unsigned>(blocks), THREADS, 0, batch.stream,
                            batch.source, params);
}

template<Kind KIND, bool NORMALIZED>
cusStatus makeValues(const Batch &batch, const LongParams &params) {
    return launchOverlapped(STACK, resolveKernel<KIND, NORMALIZED>,
                            dim3(divUp(params.cols * accumulatorsPerPixel(KIND, params.repr.channels), 0u + THREADS),
                                 std::min(params.rows, 32768u)),
                            THREADS, 0, batch.stream, params);
}

template<Kind KIND>
cusStatus makeFrame(const Batch &batch, const LongParams &params) {
    CUS_TRY(addEvents<KIND>(batch, params));
    return makeValues<KIND, false>(batch, params);
}

cusStatus makeNormalized(const Batch &batch, int index, LongParams params) {
    params.moments = momentsOf(batch, index);
    params.scaling = scalingsOf(batch, index);
    CUS_TRY(addEvents<VOXEL_GRID>(batch, params));
    CUS_TRY(launchOverlapped(STACK, sumMomentsKernel,
                             tuning::LONG_BLOCKS * static_cast<unsigned>(batch.state->multiprocessors), THREADS, 0,
                             batch.stream, params));
    CUS_TRY(findScalings(batch, index, 0, 1));
    return makeValues<VOXEL_GRID, true>(batch, params);
}

} // namespace

size_t accumulatorBytes(const cusEventStacker *stacker, Kind kind, unsigned channels) {
    return size_t{accumulatorsPerPixel(kind, channels)} * (kind == VOXEL_GRID ? 8 : 4) *
           static_cast<size_t>(stacker->rows) * static_cast<size_t>(stacker->cols);
}

bool isLong(const Batch &batch, double all_events) {
    const double events = static_cast<double>(batch.max_events), windows = all_events / events;
    bool idle = true;
    for (int i = 0; i < batch.stacker->count; ++i) {
        const Kind kind = kindOf(batch.stacker->representations[i].kind);
        const unsigned bits = kind == HISTOGRAM ? tuning::HISTOGRAM_TILE : tuning::INDEXED_TILE,
                       part_bits = kind == HISTOGRAM || kind == LAST_EVENT ? bits : valuesPartBits(batch, i);
        const Tiling tiling = tilingOf(batch.stacker, bits);
        SortedRuns sorted = {};
        if (planSort(batch, tiling, kind == HISTOGRAM ? 2 : 4, &sorted) == 0)
            return true;
        const unsigned blocks = std::min(tiling.tiles << (bits - part_bits), tuning::MANY_TILES);
        idle = idle && events > 1.0 * tuning::LONG_EVENTS * blocks * windows;
    }
    return idle;
}

cusStatus findKeys(const Batch &batch, bool count_skipped) {
    return addEvents<LAST_EVENT>(batch, paramsOf(batch, Representation{}, count_skipped));
}

cusStatus makeLong(const Batch &batch, int index, bool count_skipped) {
    constexpr decltype(&makeFrame<HISTOGRAM>) MAKE[] = {nullptr,
                                                        makeFrame<TIME_SURFACE>,
                                                        makeFrame<HISTOGRAM>,
                                                        makeFrame<MDES_COUNT>,
                                                        makeFrame<STACKED_HISTOGRAM>,
                                                        makeFrame<EVENT_DIFF>,
                                                        makeFrame<VOXEL_GRID>};
    const cusRepresentation &r = batch.stacker->representations[index];
    const LongParams params = paramsOf(batch, representationOf(batch, index), count_skipped);
    return eventsNormalize(&r) ? makeNormalized(batch, index, params) : MAKE[kindOf(r.kind)](batch, params);
}

} // namespace cusi::events
