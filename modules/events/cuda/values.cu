// Makes tiles of MDES_COUNT, STACKED_HISTOGRAM, VOXEL_GRID, TIME_SURFACE, EVENT_DIFF and their variants (EVENT_CUBE,
// OTHER_SURFACE, MDES_DIFF) from accumulators in shared memory, and sums the moments of normalized voxel grids.
#include "events/cuda/tiles.cuh"
#include "events/cuda/values.cuh"

#include <algorithm>
#include <climits>

namespace cusi::events {

namespace tuning {
constexpr size_t VALUES_SHARED_BYTES = 40 << 10;
// Percent of the L1 cache used as shared memory, where kernels gather times through the rest.
constexpr int VOXEL_CARVEOUT = 72, SURFACE_CARVEOUT = 44;
} // namespace tuning

namespace {

constexpr uint32_t VALUE_MARK = 1u << 31; // sign bit: floats here are never negative, and no index is so large

__host__ __device__ constexpr bool countsInBytes(Kind kind) {
    return kind == MDES_COUNT || kind == STACKED_HISTOGRAM;
}

// Accumulators of a pixel in shared memory: 8 bits for counts, 32 for the others, unless they overflow.
__host__ __device__ constexpr unsigned sharedBytesPerPixel(Kind kind, unsigned channels) {
    return accumulatorsPerPixel(kind, channels) * (countsInBytes(kind) ? 1 : 4);
}

// Visits the events of a part as forRecords() does, with pixels counted from the part's first.
template<class Visit>
__device__ inline void forRecords(const TileParams &params, const TilePart &part, Visit visit) {
    forRecords(params, part.w, part.tile, [&](uint32_t(&pixel)[4], uint32_t(&key)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            pixel[i] -= part.from;
            key[i] = pixel[i] < part.pixels ? key[i] : 0;
        }
        visit(pixel, key);
    });
}

// Writes the part from words: word(i) gives bytes 4 i .. 4 i + 3.
template<bool ALIGNED, class Word>
__device__ inline void writeWords(const TileParams &params, const TilePart &part, unsigned bytes, Word word) {
    writePart<ALIGNED>(
        params, part, bytes,
        [&](unsigned i) { return make_uint4(word(4 * i), word(4 * i + 1), word(4 * i + 2), word(4 * i + 3)); },
        [&](unsigned i) { return word(i / 4) >> i % 4 * 8; });
}

// Turns four accumulators of 8 bits into a word of the frame.
template<Kind KIND>
__device__ __forceinline__ uint32_t finalWord(const Representation &repr, uint32_t cell) {
    return KIND == STACKED_HISTOGRAM ? __vminu4(cell, repr.cutoff * 0x01010101u) : cell;
}

// Turns an accumulator of 32 bits into a value of the frame.
template<Kind KIND>
__device__ __forceinline__ float finalValue(const ValueOptions &options, uint32_t cell) {
    const int sum = static_cast<int>(cell);
    return KIND == VOXEL_GRID   ? voxelValue(sum)
           : KIND == EVENT_CUBE ? eventsCubeValue(sum, options.unit, options.clip)
                                : __uint_as_float(cell & ~VALUE_MARK);
}

// Writes a part with sums of 64 bits: value(i) gives value i. bytes: of a pixel in 32F.
template<bool ALIGNED, bool HALVES, class Value>
__device__ __forceinline__ void writeValues64(const TileParams &params, const TilePart &part, unsigned bytes, Value value) {
    if constexpr (HALVES)
        writeWords<ALIGNED>(params, part, bytes / 2, [&](unsigned i) { return halvesOf(value(2 * i), value(2 * i + 1)); });
    else
        writeWords<ALIGNED>(params, part, bytes, [&](unsigned i) { return __float_as_uint(value(i)); });
}

// ---- MDES_COUNT and STACKED_HISTOGRAM ----------------------------------------------------------------------------------

// Adds 1 to n 8-bit counters from number `at` on. Returns false if one of them was 255 and has carried.
__device__ inline bool addBytes(uint32_t *cells, unsigned at, unsigned n) {
    bool good = true;
    for (const unsigned end = at + n; at < end; at = at / 4 * 4 + 4) {
        const unsigned here = min(end - at, 4 - at % 4);
        const uint32_t ones = 0x01010101u >> (32 - 8 * here) << (at % 4 * 8), old = atomicAdd(cells + at / 4, ones);
        good = good && (__vcmpeq4(old, ~0u) & ones) == 0;
    }
    return good;
}

// Counts the part with 8-bit counters. Sets `carried` if one has carried; they are then useless.
template<Kind KIND>
__device__ void countPart(const TileParams &params, const TilePart &part, const EventsLevels &levels, uint32_t *cells,
                          int *carried) {
    const Representation &repr = params.repr;
    const unsigned channels = repr.channels;
    forRecords(params, part, [&](const uint32_t(&pixel)[4], const uint32_t(&key)[4]) {
        if (*static_cast<volatile int *>(carried))
            return;
        bool good = true;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (key[i] == 0)
                continue;
            const unsigned level = levelOf(levels, key[i] / 2 - 1), polarity = (key[i] & 1) == repr.swap ? 1 : 0;
            const unsigned at = KIND == MDES_COUNT ? pixel[i] * channels : (pixel[i] * 2 + polarity) * channels + level;
            if (KIND == STACKED_HISTOGRAM)
                good = (~atomicAdd(cells + at / 4, 1u << (at % 4 * 8)) & 255u << (at % 4 * 8)) != 0 && good;
            else
                good = addBytes(cells, at, level + 1) && good;
        }
        if (!good)
            atomicExch(carried, 1);
    });
}

// Counts half a part in 16-bit counters, by the events' last channels. Counters stay as they are once they have reached
// 255; at most 4 adds per thread are still in flight then, and 16 bits have room for these.
static_assert(255 + 4 * THREADS < 65536, "saturating counters must not carry");
template<Kind KIND>
__device__ __forceinline__ void countHalf16(const TileParams &params, const TilePart &half, const EventsLevels &levels,
                                            uint32_t *cells) {
    const Representation &repr = params.repr;
    forRecords(params, half, [&](const uint32_t(&pixel)[4], const uint32_t(&key)[4]) {
        unsigned at[4];
        uint32_t now[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const unsigned level = levelOf(levels, key[i] / 2 - 1), polarity = (key[i] & 1) == repr.swap ? 1 : 0,
                           row = KIND == MDES_COUNT ? pixel[i] : pixel[i] * 2 + polarity;
            at[i] = key[i] ? row * repr.channels + level : 0;
            now[i] = static_cast<volatile uint32_t *>(cells)[at[i] / 2] >> at[i] % 2 * 16;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (key[i] && (now[i] & 0xffff) < 255)
                atomicAdd(cells + at[i] / 2, 1u << at[i] % 2 * 16);
    });
    __syncthreads();
}

// Writes the 16-bit counts. A channel of MDES_COUNT includes the events of all later channels.
template<Kind KIND, bool ALIGNED>
__device__ __forceinline__ void writeHalf16(const TileParams &params, const TilePart &half, unsigned bytes,
                                            uint32_t *cells) {
    const unsigned channels = params.repr.channels;
    if (KIND == MDES_COUNT) {
        for (unsigned i = threadIdx.x; i < half.pixels; i += THREADS) {
            uint16_t *counts = reinterpret_cast<uint16_t *>(cells) + i * channels;
            unsigned sum = 0;
            for (unsigned k = channels; k-- > 0;)
                counts[k] = static_cast<uint16_t>(sum = min(sum + counts[k], 255u));
        }
        __syncthreads();
    }
    const auto word = [&](uint32_t cell) { return finalWord<KIND>(params.repr, cell); };
    writePart<ALIGNED>(
        params, half, bytes,
        [&](unsigned i) {
            const uint4 *quads = reinterpret_cast<const uint4 *>(cells),
                        four = saturatedBytes(quads[2 * i], quads[2 * i + 1]);
            return make_uint4(word(four.x), word(four.y), word(four.z), word(four.w));
        },
        [&](unsigned i) { return word(min(reinterpret_cast<const uint16_t *>(cells)[i], uint16_t{255})); });
    __syncthreads();
}

// ---- VOXEL_GRID and EVENT_CUBE -----------------------------------------------------------------------------------------

template<Kind KIND>
__device__ __forceinline__ auto timesOf(const TileParams &params, unsigned w, const Window &window) {
    const Representation &repr = params.repr;
    if constexpr (KIND == EVENT_CUBE)
        return CubeTimes(params.options.spans[w], repr.channels);
    else
        return VoxelTimes(repr.t[window.first], repr.t[window.last - 1], repr.channels);
}

struct NoChanges {
    __device__ bool add(int, int) { return true; }
    __device__ void endOfFour() {}
};

// Sums the part's weights. If `high` is NULL, sums have 32 bits: calls changes.add(sum before, sum after) for each weight
// and endOfFour() after at most four events, and sets `carried` if a sum overflows or add() returns false. Otherwise `high`
// receives the upper 32 bits.
template<Kind KIND, class Changes>
__device__ void sumVoxels(const TileParams &params, const TilePart &part, uint32_t *cells, uint32_t *high, int *carried,
                          Changes &&changes) {
    const Representation &repr = params.repr;
    const Window window = params.windows[part.w];
    if (window.first == window.last)
        return;
    const auto times = timesOf<KIND>(params, part.w, window);
    forRecords(params, part, [&](const uint32_t(&pixel)[4], const uint32_t(&key)[4]) {
        if (!high && *static_cast<volatile int *>(carried))
            return;
        int64_t t[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            t[i] = repr.t[window.first + (key[i] ? key[i] / 2 - 1 : 0)];
        bool good = true;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (key[i] == 0)
                continue;
            const VoxelWeights weights = times(t[i], key[i] & 1);
            for (unsigned k = 0; k < 2 && (KIND == EVENT_CUBE || weights.bin + k < repr.channels); ++k) {
                unsigned at = pixel[i] * repr.channels + weights.bin + k;
                if constexpr (KIND == EVENT_CUBE) {
                    const unsigned bin = weights.bin + k - 1; // wraps to a large value before the first bin
                    if (bin >= repr.channels)
                        continue;
                    at = (pixel[i] * repr.channels + bin) * 2 + ((key[i] & 1) == repr.swap ? 1 : 0);
                }
                const long long weight = k ? weights.next : weights.here;
                const uint32_t added = static_cast<uint32_t>(weight), old = atomicAdd(cells + at, added), sum = old + added;
                if (!high) { // overflow: the sum's sign differs from both of its terms'
                    good = good && static_cast<int>((old ^ sum) & (added ^ sum)) >= 0;
                    good = changes.add(static_cast<int>(old), static_cast<int>(sum)) && good;
                } else {
                    const uint32_t upper = static_cast<uint32_t>(weight >> 32) + (sum < old);
                    if (upper) // rarely
                        atomicAdd(high + at, upper);
                }
            }
        }
        changes.endOfFour();
        if (!good)
            atomicExch(carried, 1);
    });
}

// Sums with 64 bits, half a part at a time, and calls use(half, value(i)).
template<Kind KIND, class Use>
__device__ __forceinline__ void forVoxels64(const TileParams &params, const TilePart &part, unsigned words, uint32_t *cells,
                                            int *carried, Use use) {
    for (unsigned i = 0; i < 2; ++i) {
        const uint32_t *high = cells + words / 2;
        clearShared(cells, words);
        sumVoxels<KIND>(params, part.halfPart(i), cells, cells + words / 2, carried, NoChanges());
        __syncthreads();
        use(part.halfPart(i), [&](unsigned at) {
            const uint64_t sum = static_cast<uint64_t>(high[at]) << 32 | cells[at];
            if constexpr (KIND == EVENT_CUBE)
                return eventsCubeValue(static_cast<int64_t>(sum), params.options.unit, params.options.clip);
            else
                return voxelValue64(static_cast<int64_t>(sum));
        });
        __syncthreads();
    }
}

// ---- TIME_SURFACE ------------------------------------------------------------------------------------------------------

// Finds the index + 1 of each pixel's last event by polarity. These events then replace it by valueOf(t) and VALUE_MARK.
template<class Value>
__device__ void surfaceOfPart(const TileParams &params, const TilePart &part, uint32_t *cells, Value valueOf) {
    const Representation &repr = params.repr;
    const Window window = params.windows[part.w];
    const volatile uint32_t *now = cells;
    const auto cellOf = [&](uint32_t pixel, uint32_t key) { return pixel * 2 + ((key & 1) == repr.swap ? 1 : 0); };
    forRecords(params, part, [&](const uint32_t(&pixel)[4], const uint32_t(&key)[4]) {
        uint32_t found[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            found[i] = key[i] ? now[cellOf(pixel[i], key[i])] : ~0u;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (found[i] < key[i] / 2)
                atomicMax(cells + cellOf(pixel[i], key[i]), key[i] / 2);
    });
    __syncthreads();
    const auto value = valueOf(window);
    forRecords(params, part, [&](const uint32_t(&pixel)[4], const uint32_t(&key)[4]) {
        bool last[4];
        int64_t t[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            last[i] = key[i] && now[cellOf(pixel[i], key[i])] == key[i] / 2;
            t[i] = repr.t[window.first + (last[i] ? key[i] / 2 - 1 : 0)];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (last[i])
                atomicExch(cells + cellOf(pixel[i], key[i]), VALUE_MARK | __float_as_uint(value(t[i])));
    });
}

template<Kind KIND>
__device__ __forceinline__ void makeSurface(const TileParams &params, const TilePart &part, uint32_t *cells) {
    const Representation &repr = params.repr;
    surfaceOfPart(params, part, cells, [&](const Window &window) {
        if constexpr (KIND == TIME_SURFACE) {
            const int64_t newest = window.first == window.last ? 0 : repr.t[window.last - 1];
            return [&repr, newest](int64_t t) { return eventsExponential(t, newest, repr.decay); };
        } else {
            const cusEventSpan span = params.options.spans[part.w];
            return [&params, span](int64_t t) { return otherSurfaceValue(params.repr, params.options, t, span); };
        }
    });
}

// ---- EVENT_DIFF and MDES_DIFF ------------------------------------------------------------------------------------------

// Adds up the levels of each pixel and clips the sums. The caller synchronizes the block before and after.
__device__ void addLevels(const TileParams &params, const TilePart &part, uint32_t *cells) {
    const unsigned channels = params.repr.channels;
    for (unsigned i = threadIdx.x; i < part.pixels; i += THREADS) {
        uint32_t sum = 0;
        for (unsigned k = 0; k < channels; ++k) {
            sum += cells[i * channels + k];
            cells[i * channels + k] = static_cast<uint32_t>(limited(static_cast<int>(sum), params.options));
        }
    }
}

// Clips 16 sums to bytes. Lanes read them in an order that avoids bank conflicts.
__device__ __forceinline__ uint4 clipped16(const uint4 *quads, unsigned i) {
    const unsigned turn = threadIdx.x / 2 % 4;
    uint32_t four[4];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
        four[k] = clippedBytes(quads[i * 4 + (k ^ turn)]);
    const bool swap_neighbors = turn & 1, swap_pairs = turn & 2;
    const uint32_t a = swap_neighbors ? four[1] : four[0], b = swap_neighbors ? four[0] : four[1],
                   c = swap_neighbors ? four[3] : four[2], d = swap_neighbors ? four[2] : four[3];
    return swap_pairs ? make_uint4(c, d, a, b) : make_uint4(a, b, c, d);
}

// ---- Accumulators to the frame -----------------------------------------------------------------------------------------

// Writes the part from accumulators: word(accumulator) gives a word of the frame.
template<bool ALIGNED, class Word>
__device__ __forceinline__ void writeQuads(const TileParams &params, const TilePart &part, unsigned bytes,
                                           const uint4 *quads, Word word) {
    writePart<ALIGNED>(
        params, part, bytes,
        [&](unsigned i) { return make_uint4(word(quads[i].x), word(quads[i].y), word(quads[i].z), word(quads[i].w)); },
        [&](unsigned i) { return word(reinterpret_cast<const uint32_t *>(quads)[i / 4]) >> i % 4 * 8; });
}

// Makes eight halves of two quads of accumulators. Lanes read these in an order that avoids bank conflicts.
template<class Value>
__device__ __forceinline__ uint4 eightHalves(const uint4 *quads, unsigned i, Value value) {
    const auto four = [&](const uint4 &quad) {
        return make_uint2(halvesOf(value(quad.x), value(quad.y)), halvesOf(value(quad.z), value(quad.w)));
    };
    const unsigned turn = threadIdx.x / 4 % 2;
    const uint2 a = four(quads[2 * i + turn]), b = four(quads[2 * i + 1 - turn]);
    return turn ? make_uint4(b.x, b.y, a.x, a.y) : make_uint4(a.x, a.y, b.x, b.y);
}

// Writes the part: value(accumulator) gives a value. bytes: of a pixel in 32F.
template<bool ALIGNED, bool HALVES, class Value>
__device__ __forceinline__ void writeValues(const TileParams &params, const TilePart &part, unsigned bytes,
                                            const uint4 *quads, Value value) {
    if constexpr (HALVES)
        writePart<ALIGNED>(
            params, part, bytes / 2, [&](unsigned i) { return eightHalves(quads, i, value); },
            [&](unsigned i) { return halvesOf(value(reinterpret_cast<const uint32_t *>(quads)[i / 2]), 0) >> i % 2 * 8; });
    else
        writeQuads<ALIGNED>(params, part, bytes, quads, [&](uint32_t cell) { return __float_as_uint(value(cell)); });
}

template<Kind KIND, bool ALIGNED, bool HALVES>
__device__ __forceinline__ void writeAccumulators(const TileParams &params, const TilePart &part, unsigned bytes,
                                                  const uint4 *quads) {
    if constexpr (KIND == EVENT_DIFF || KIND == MDES_DIFF)
        writePart<ALIGNED>(
            params, part, KIND == EVENT_DIFF ? 1 : params.repr.channels, [&](unsigned i) { return clipped16(quads, i); },
            [&](unsigned i) { return clipped(reinterpret_cast<const uint32_t *>(quads)[i]); });
    else if constexpr (countsInBytes(KIND))
        writeQuads<ALIGNED>(params, part, bytes, quads, [&](uint32_t cell) { return finalWord<KIND>(params.repr, cell); });
    else
        writeValues<ALIGNED, HALVES>(params, part, bytes, quads,
                                     [&](uint32_t cell) { return finalValue<KIND>(params.options, cell); });
}

// ---- The kernel --------------------------------------------------------------------------------------------------------

template<Kind KIND, bool ALIGNED, bool HALVES>
__global__ void __launch_bounds__(THREADS) tileValuesKernel(const TileParams params) {
    startInOrder();
    extern __shared__ uint4 dynamic[];
    __shared__ EventsLevels levels;
    __shared__ int carried;
    uint32_t *cells = reinterpret_cast<uint32_t *>(dynamic);
    const Representation &repr = params.repr;
    const TilePart part(params);
    const unsigned bytes = sharedBytesPerPixel(KIND, repr.channels), words = part.pixels * bytes / 4;
    if (part.row0 + (part.from >> params.tiling.col_bits) >= params.tiling.bottom)
        return;
    if (threadIdx.x == 0)
        carried = 0;
    prepareLevels<KIND>(repr, part.w, params.windows[part.w], &levels);
    clearShared(cells, words);

    if constexpr (countsInBytes(KIND)) {
        countPart<KIND>(params, part, levels, cells, &carried);
        __syncthreads();
        if (carried) {
            for (unsigned i = 0; i < 2; ++i) {
                clearShared(cells, words);
                countHalf16<KIND>(params, part.halfPart(i), levels, cells);
                writeHalf16<KIND, ALIGNED>(params, part.halfPart(i), bytes, cells);
            }
            return;
        }
    } else if constexpr (KIND == VOXEL_GRID || KIND == EVENT_CUBE) {
        sumVoxels<KIND>(params, part, cells, nullptr, &carried, NoChanges());
        __syncthreads();
        if (carried)
            return forVoxels64<KIND>(params, part, words, cells, &carried, [&](const TilePart &half, auto value) {
                writeValues64<ALIGNED, HALVES>(params, half, bytes, value);
            });
    } else if constexpr (KIND == TIME_SURFACE || KIND == OTHER_SURFACE) {
        makeSurface<KIND>(params, part, cells);
    } else if constexpr (KIND == MDES_DIFF) {
        forRecords(params, part, [&](const uint32_t(&pixel)[4], const uint32_t(&key)[4]) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (key[i])
                    atomicAdd(cells + pixel[i] * repr.channels + levelOf(levels, key[i] / 2 - 1), key[i] & 1 ? 1u : ~0u);
        });
        __syncthreads();
        addLevels(params, part, cells);
    } else {
        static_assert(KIND == EVENT_DIFF, "");
        forRecords(params, part, [&](const uint32_t(&pixel)[4], const uint32_t(&key)[4]) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (key[i])
                    atomicAdd(cells + pixel[i], key[i] & 1 ? 1u : ~0u);
        });
    }
    __syncthreads();
    writeAccumulators<KIND, ALIGNED, HALVES>(params, part, bytes, reinterpret_cast<const uint4 *>(cells));
}

// ---- VOXEL_GRID with `normalize` ---------------------------------------------------------------------------------------
//
// Tiles are made twice: for the frame's moments, then for its values, which are written once. That takes less than reading
// and rewriting frames, since most of their values are 0.

// Moments that are updated with each weight, so that accumulators need not be read again.
struct MomentChanges {
    EventsMoments moments = {};
    int count = 0; // the following: for at most four events, whose squares fit 64 bits
    uint32_t sum = 0;
    uint64_t squares = 0;
    // Returns false for values that do not fit 32 bits when they are rounded to float.
    __device__ bool add(int sum_before, int sum_after) {
        const int before = __float2int_rn(static_cast<float>(sum_before)),
                  after = __float2int_rn(static_cast<float>(sum_after));
        count += (after != 0) - (before != 0);
        sum += static_cast<uint32_t>(after) - static_cast<uint32_t>(before);
        squares += static_cast<uint64_t>(int64_t{after} * after) - static_cast<uint64_t>(int64_t{before} * before);
        return after != INT_MAX;
    }
    __device__ void endOfFour() {
        const int64_t change = static_cast<int64_t>(squares);
        moments.count += static_cast<uint64_t>(static_cast<int64_t>(count));
        moments.sum += static_cast<int>(sum);
        moments.squares[0] += static_cast<uint32_t>(change);
        moments.squares[1] += static_cast<uint64_t>(change >> 32);
        count = 0;
        sum = 0;
        squares = 0;
    }
};

__global__ void __launch_bounds__(THREADS) momentsKernel(const TileParams params) {
    startInOrder();
    extern __shared__ uint4 dynamic[];
    __shared__ int carried;
    uint32_t *cells = reinterpret_cast<uint32_t *>(dynamic);
    const TilePart part(params);
    const Window window = params.windows[part.w];
    const unsigned words = part.pixels * params.repr.channels;
    if (part.row0 + (part.from >> params.tiling.col_bits) >= params.tiling.bottom || window.first == window.last)
        return;
    if (threadIdx.x == 0)
        carried = 0;
    clearShared(cells, words);
    MomentChanges changes;
    sumVoxels<VOXEL_GRID>(params, part, cells, nullptr, &carried, changes);
    EventsMoments moments = changes.moments;
    __syncthreads();
    if (carried) {
        moments = {};
        forVoxels64<VOXEL_GRID>(params, part, words, cells, &carried, [&](const TilePart &, auto value) {
            for (unsigned i = threadIdx.x; i < words / 2; i += THREADS)
                eventsAddValue(&moments, value(i));
        });
    }
    addMoments<THREADS>(moments, params.moments + part.w);
}

template<bool ALIGNED, bool HALVES>
__global__ void __launch_bounds__(THREADS) normalizedKernel(const TileParams params) {
    startInOrder();
    extern __shared__ uint4 dynamic[];
    __shared__ int carried;
    uint32_t *cells = reinterpret_cast<uint32_t *>(dynamic);
    const TilePart part(params);
    const unsigned bytes = params.repr.channels * 4, words = part.pixels * params.repr.channels;
    if (part.row0 + (part.from >> params.tiling.col_bits) >= params.tiling.bottom)
        return;
    if (threadIdx.x == 0)
        carried = 0;
    clearShared(cells, words);
    const EventsScaling scaling = params.scalings[part.w];
    sumVoxels<VOXEL_GRID>(params, part, cells, nullptr, &carried, NoChanges());
    __syncthreads();
    if (carried)
        return forVoxels64<VOXEL_GRID>(params, part, words, cells, &carried, [&](const TilePart &half, auto value) {
            writeValues64<ALIGNED, HALVES>(params, half, bytes,
                                           [&](unsigned i) { return eventsNormalized(voxelUnits(value(i)), scaling); });
        });
    writeValues<ALIGNED, HALVES>(params, part, bytes, dynamic, [&](uint32_t cell) {
        return eventsNormalized(static_cast<float>(static_cast<int>(cell)), scaling);
    });
}

template<bool ALIGNED, bool HALVES>
TileKernel tileValuesKernelFor(Kind kind) {
    constexpr TileKernel KERNELS[] = {nullptr,
                                      tileValuesKernel<TIME_SURFACE, ALIGNED, HALVES>,
                                      nullptr,
                                      tileValuesKernel<MDES_COUNT, ALIGNED, false>,
                                      tileValuesKernel<STACKED_HISTOGRAM, ALIGNED, false>,
                                      tileValuesKernel<EVENT_DIFF, ALIGNED, false>,
                                      tileValuesKernel<VOXEL_GRID, ALIGNED, HALVES>,
                                      tileValuesKernel<EVENT_CUBE, ALIGNED, HALVES>,
                                      tileValuesKernel<MDES_DIFF, ALIGNED, false>,
                                      tileValuesKernel<OTHER_SURFACE, ALIGNED, HALVES>};
    if (kind == ORDERED_DIFF)
        return orderedKernelFor(ALIGNED);
    return KERNELS[kind];
}

TileKernel valuesKernelFor(Kind kind, bool aligned, bool halves) {
    const auto kernelFor = halves    ? aligned ? tileValuesKernelFor<true, true> : tileValuesKernelFor<false, true>
                              : aligned ? tileValuesKernelFor<true, false>
                                     : tileValuesKernelFor<false, false>;
    return kernelFor(kind);
}

TileKernel normalizedKernelFor(bool aligned, bool halves) {
    return halves    ? aligned ? normalizedKernel<true, true> : normalizedKernel<false, true>
              : aligned ? normalizedKernel<true, false>
                     : normalizedKernel<false, false>;
}

// Two strips of the largest pixels, which are EVENT_CUBE's.
constexpr size_t MIN_CUBE_BYTES = size_t{2 * STRIP} * 2 * EVENTS_MAX_CHANNELS * 4;

} // namespace

cusStatus createValues(const cusEventStacker *stacker, State *state) {
    int device = 0, shared = 0;
    CUSI_CUDA(CREATE, cudaGetDevice(&device));
    CUSI_CUDA(CREATE, cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
    // Three blocks per multiprocessor fit beside the static shared memory. The minimum is two strips of the largest pixel,
    // since a part may be halved.
    state->values_shared_bytes = std::clamp(static_cast<size_t>(shared) / 3 - 1280,
                                            size_t{2 * STRIP} * EVENTS_MAX_CHANNELS * 4, tuning::VALUES_SHARED_BYTES);
    bool any_halves = false;
    for (int i = 0; i < stacker->count; ++i)
        any_halves = any_halves || CUS_DEPTH(stacker->types[i]) == CUS_16F;
    const auto prepare = [](TileKernel kernel, size_t bytes, int carveout) {
        CUSI_CUDA(CREATE,
                  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
        if (carveout)
            CUSI_CUDA(CREATE, cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, carveout));
        return CUS_OK;
    };
    const size_t bytes = state->values_shared_bytes;
    for (const bool halves : {false, true})
        for (const bool aligned : {false, true}) {
            if (halves && !any_halves)
                continue;
            for (Kind kind : {TIME_SURFACE, MDES_COUNT, STACKED_HISTOGRAM, EVENT_DIFF, VOXEL_GRID, EVENT_CUBE, MDES_DIFF,
                              OTHER_SURFACE, ORDERED_DIFF})
                CUS_TRY(prepare(valuesKernelFor(kind, aligned, halves), std::max(bytes, MIN_CUBE_BYTES),
                                kind == VOXEL_GRID     ? tuning::VOXEL_CARVEOUT
                                : kind == TIME_SURFACE ? tuning::SURFACE_CARVEOUT
                                                       : 0));
            CUS_TRY(prepare(normalizedKernelFor(aligned, halves), bytes, tuning::VOXEL_CARVEOUT));
        }
    return prepare(momentsKernel, bytes, tuning::VOXEL_CARVEOUT);
}

unsigned valuesPartBits(const Batch &batch, int index) {
    const cusRepresentation &r = batch.stacker->representations[index];
    const unsigned bytes = sharedBytesPerPixel(kindOf(r), channelsOf(r));
    unsigned bits = tuning::INDEXED_TILE;
    while (size_t{bytes} << bits > batch.state->values_shared_bytes && bits > STRIP_BITS + 1)
        --bits;
    return bits;
}

TilePass valuesPass(const Batch &batch, int index) {
    const Kind kind = kindOf(batch.stacker->representations[index]);
    const bool aligned = rowsAligned(batch.frames[index]);
    const Representation repr = representationOf(batch, index);
    TilePass pass = {
        valuesKernelFor(kind, aligned, repr.halves), 0, tuning::INDEXED_TILE, valuesPartBits(batch, index), {}};
    pass.params.repr = repr;
    pass.params.options = optionsOf(batch, index);
    if (eventsNormalize(&batch.stacker->representations[index])) {
        pass.kernel = normalizedKernelFor(aligned, repr.halves);
        pass.moments = momentsKernel;
        pass.index = index;
        pass.params.moments = momentsOf(batch, index);
        pass.params.scalings = scalingsOf(batch, index);
    }
    pass.shared = size_t{sharedBytesPerPixel(kind, pass.params.repr.channels)} << pass.part_bits;
    // Takes the smallest tiles that are few enough to sort by: the fewer parts a tile has, the less often its records are
    // read.
    SortedRuns sorted = {};
    for (unsigned bits = pass.part_bits; bits < pass.tile_bits; ++bits) {
        const Tiling tiling = tilingOf(batch.stacker, bits);
        if (tiling.tiles > 0 && tiling.tiles <= tuning::MAX_TILES && planSort(batch, tiling, 4, &sorted) > 0)
            pass.tile_bits = bits;
    }
    return pass;
}

} // namespace cusi::events
