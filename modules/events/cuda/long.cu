// Makes long windows: those that the workspace cannot hold, or that would leave most of the device idle with a block per
// tile. Sums are integers, so the order of the atomics does not matter.
#include "events/cuda/values.cuh"

#include <algorithm>

namespace cusi::events {

namespace tuning {
constexpr int LONG_THREADS = 256;
constexpr unsigned LONG_BLOCKS = 8; // blocks per multiprocessor
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
    ValueOptions options;
};

// ---- Events to accumulators --------------------------------------------------------------------------------------------

template<Kind KIND>
__device__ __forceinline__ void addTo(void *sums, size_t cell, int value) {
    if constexpr (sumsWeights(KIND))
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

struct Event {
    bool inside, positive;
    unsigned index;
    size_t pixel;
    unsigned row, col;
};

// Splits an event's weights between the four pixels around its rectified position. Called by whole warps.
__device__ __forceinline__ void accumulateRectified(const LongParams &params, const VoxelTimes &times, const Event &event,
                                                    unsigned crowd) {
    const Representation &repr = params.repr;
    const int rows = static_cast<int>(params.rows), cols = static_cast<int>(params.cols);
    int row = 0, col = 0;
    double down = 0, right = 0;
    bool touches = false;
    if (event.inside) {
        const char *map_row = params.options.map + event.row * params.options.map_step;
        const float *position = reinterpret_cast<const float *>(map_row) + 2 * event.col;
        const float xy[2] = {__ldg(position), __ldg(position + 1)};
        touches = eventsRectify(xy, rows, cols, &row, &col, &down, &right);
    }
    const VoxelWeights weights = times(repr.t[params.window.first + (event.inside ? event.index : 0)], event.positive);
#pragma unroll 1
    for (int corner = 0; corner < 4; ++corner) {
        const int y = row + corner / 2, x = col + corner % 2;
        const bool mine = touches && y >= 0 && y < rows && x >= 0 && x < cols;
        const size_t cell =
            (static_cast<size_t>(mine ? y : 0) * params.cols + static_cast<size_t>(mine ? x : 0)) * repr.channels +
            weights.bin;
        addInWarp<RECTIFIED_VOXELS>(params.sums, mine, cell,
                                    static_cast<int>(eventsCornerWeight(weights.here, corner, down, right)), crowd);
        addInWarp<RECTIFIED_VOXELS>(params.sums, mine && weights.bin + 1 < repr.channels, cell + 1,
                                    static_cast<int>(eventsCornerWeight(weights.next, corner, down, right)), crowd);
    }
}

__device__ __forceinline__ void accumulateCube(const LongParams &params, const CubeTimes &times, const Event &event,
                                               unsigned channel, unsigned crowd) {
    const Representation &repr = params.repr;
    const VoxelWeights weights = times(repr.t[params.window.first + (event.inside ? event.index : 0)], true);
#pragma unroll 1
    for (unsigned k = 0; k < 2; ++k) {
        const unsigned bin = weights.bin + k - 1; // wraps to a large value before the first bin
        addInWarp<EVENT_CUBE>(params.sums, event.inside && bin < repr.channels,
                              (event.pixel * repr.channels + bin) * 2 + channel,
                              static_cast<int>(k ? weights.next : weights.here), crowd);
    }
}

template<Kind KIND, class Times>
__device__ __forceinline__ void accumulate(const LongParams &params, const EventsLevels &levels, const Times &times,
                                           const Event &event, unsigned crowd) {
    const Representation &repr = params.repr;
    const unsigned channel = event.positive ? repr.swap : 1 - repr.swap;
    constexpr bool SURFACE = KIND == TIME_SURFACE || KIND == OTHER_SURFACE;
    if constexpr (KIND == LAST_EVENT || SURFACE) {
        // Newest first, so most events find a newer one and need no atomic.
        uint32_t *cell = static_cast<uint32_t *>(params.sums) + (SURFACE ? event.pixel * 2 + channel : event.pixel);
        const uint32_t key = SURFACE ? event.index + 1 : 2 * (event.index + 1) + event.positive;
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
    } else if constexpr (KIND == RECTIFIED_VOXELS) {
        accumulateRectified(params, times, event, crowd);
    } else if constexpr (KIND == EVENT_CUBE) {
        accumulateCube(params, times, event, channel, crowd);
    } else if constexpr (KIND == MDES_DIFF) {
        addInWarp<KIND>(params.sums, event.inside, event.pixel * repr.channels + levelOf(levels, event.index),
                        event.positive ? 1 : -1, crowd);
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

// Returns what computes the kind's weights from times, if it has any.
template<Kind KIND>
__device__ __forceinline__ auto timesOf(const LongParams &params) {
    constexpr bool VOXELS = KIND == VOXEL_GRID || KIND == RECTIFIED_VOXELS;
    if constexpr (KIND == EVENT_CUBE)
        return CubeTimes(*params.options.spans, params.repr.channels);
    else
        return VoxelTimes(VOXELS ? params.repr.t[params.window.first] : 0,
                          VOXELS ? params.repr.t[params.window.last - 1] : 0, params.repr.channels);
}

template<Kind KIND>
__global__ void __launch_bounds__(THREADS) accumulateKernel(const Source source, const LongParams params) {
    startInOrder();
    __shared__ EventsLevels levels;
    const Window window = params.window;
    prepareLevels<KIND>(params.repr, 0, window, &levels);
    __syncthreads();
    const auto times = timesOf<KIND>(params);
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
            const Event event = {inside,
                                 chunk.positive(i),
                                 static_cast<unsigned>(c * CHUNK + i - window.first),
                                 static_cast<size_t>(row) * params.cols + col,
                                 row,
                                 col};
            const unsigned crowd = __ballot_sync(FULL_WARP, inside && (row << 16 | col) == crowded);
            accumulate<KIND>(params, levels, times, event, crowd);
        }
    }
    countSkipped(outside, params.skipped);
}

// ---- Accumulators to values --------------------------------------------------------------------------------------------

// Returns the value of cell `at` of a row, as a byte or as the bits of a float.
template<Kind KIND>
__device__ __forceinline__ uint32_t valueOf(const LongParams &params, size_t row_cells, unsigned at) {
    const Representation &repr = params.repr;
    const uint32_t *cells = static_cast<const uint32_t *>(params.sums) + row_cells + at;
    if constexpr (KIND == VOXEL_GRID || KIND == RECTIFIED_VOXELS) {
        return __float_as_uint(voxelValue64(static_cast<const int64_t *>(params.sums)[row_cells + at]));
    } else if constexpr (KIND == EVENT_CUBE) {
        return __float_as_uint(eventsCubeValue(static_cast<const int64_t *>(params.sums)[row_cells + at],
                                               params.options.unit, params.options.clip));
    } else if constexpr (KIND == OTHER_SURFACE) {
        return *cells ? __float_as_uint(otherSurfaceValue(repr, params.options, repr.t[params.window.first + *cells - 1],
                                                          *params.options.spans))
                      : 0;
    } else if constexpr (KIND == MDES_DIFF) {
        uint32_t sum = *cells; // a channel includes all earlier ones
        for (unsigned k = at % repr.channels; k > 0; --k)
            sum += *(cells - k);
        return static_cast<uint32_t>(limited(static_cast<int>(sum), params.options)) & 255;
    } else if constexpr (KIND == TIME_SURFACE) {
        const int64_t *t = repr.t + params.window.first, newest = repr.t[params.window.last - 1];
        return *cells ? __float_as_uint(eventsExponential(t[*cells - 1], newest, repr.decay)) : 0;
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
    using Value = std::conditional_t<KIND == TIME_SURFACE || KIND == OTHER_SURFACE || sumsWeights(KIND), uint32_t, uint8_t>;
    const unsigned values = params.cols * accumulatorsPerPixel(KIND, params.repr.channels);
    const unsigned at = blockIdx.x * THREADS + threadIdx.x;
    for (unsigned row = blockIdx.y; at < values && row < params.rows; row += gridDim.y) {
        uint32_t value = valueOf<KIND>(params, static_cast<size_t>(row) * values, at);
        if (NORMALIZED)
            value = __float_as_uint(eventsNormalized(voxelUnits(__uint_as_float(value)), *params.scaling));
        if (sizeof(Value) == 4 && params.repr.halves)
            rowOf(static_cast<uint16_t *>(params.repr.frames), params.repr.step, row)[at] =
                static_cast<uint16_t>(halvesOf(__uint_as_float(value), 0));
        else
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
            nullptr,
            {}};
}

template<Kind KIND>
cusStatus addEvents(const Batch &batch, const LongParams &params) {
    const size_t bytes = accumulatorBytes(batch.stacker, KIND, params.repr.channels);
    CUSI_CUDA(STACK, cudaMemsetAsync(params.sums, 0, bytes, batch.stream));
    if (batch.max_events == 0)
        return CUS_OK;
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

template<Kind KIND>
cusStatus makeNormalized(const Batch &batch, int index, LongParams params) {
    params.moments = momentsOf(batch, index);
    params.scaling = scalingsOf(batch, index);
    CUS_TRY(clearMoments(batch, index));
    CUS_TRY(addEvents<KIND>(batch, params));
    CUS_TRY(launchOverlapped(STACK, sumMomentsKernel,
                             tuning::LONG_BLOCKS * static_cast<unsigned>(batch.state->multiprocessors), THREADS, 0,
                             batch.stream, params));
    CUS_TRY(findScalings(batch, index, 0, 1));
    return makeValues<KIND, true>(batch, params);
}

} // namespace

size_t accumulatorBytes(const cusEventStacker *stacker, Kind kind, unsigned channels) {
    return size_t{accumulatorsPerPixel(kind, channels)} * (sumsWeights(kind) ? 8 : 4) * static_cast<size_t>(stacker->rows) *
           static_cast<size_t>(stacker->cols);
}

bool isLong(const Batch &batch, double all_events) {
    const double events = static_cast<double>(batch.max_events), windows = all_events / events;
    bool idle = true;
    for (int i = 0; i < batch.stacker->count; ++i) {
        const Kind kind = kindOf(batch.stacker->representations[i]);
        if (kind == RECTIFIED_VOXELS) // runRectified() makes these
            continue;
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
                                                        makeFrame<VOXEL_GRID>,
                                                        makeFrame<EVENT_CUBE>,
                                                        makeFrame<MDES_DIFF>,
                                                        makeFrame<OTHER_SURFACE>,
                                                        nullptr,
                                                        makeFrame<RECTIFIED_VOXELS>};
    const cusRepresentation &r = batch.stacker->representations[index];
    LongParams params = paramsOf(batch, representationOf(batch, index), count_skipped);
    params.options = optionsOf(batch, index);
    if (eventsNormalize(&r))
        return (r.map ? makeNormalized<RECTIFIED_VOXELS> : makeNormalized<VOXEL_GRID>)(batch, index, params);
    return MAKE[kindOf(r)](batch, params);
}

} // namespace cusi::events
