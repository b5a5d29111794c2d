// Code that tile kernels share: the part of a tile that a block makes, reading its records and writing its pixels.
#ifndef CUSI_EVENTS_CUDA_TILES_CUH
#define CUSI_EVENTS_CUDA_TILES_CUH

#include "events/cuda/stages.cuh"

#include <cub/warp/warp_scan.cuh>

namespace cusi::events {

constexpr int THREADS = tuning::TILE_THREADS;

__device__ inline void clearShared(uint32_t *cells, unsigned words) {
    for (unsigned i = threadIdx.x; i < words / 4; i += blockDim.x)
        reinterpret_cast<uint4 *>(cells)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
}

// A block makes a part of a tile, 2^part_bits pixels whose accumulators fit shared memory, from all of the tile's records.
struct TilePart {
    unsigned w, tile, from, pixels; // pixels from .. from + pixels - 1 of the tile
    unsigned row0, col0;            // where the tile begins in the frame
    __device__ explicit TilePart(const TileParams &params) {
        const Tiling &tiling = params.tiling;
        const unsigned split_bits = tiling.row_bits + tiling.col_bits - params.part_bits; // log2 of a tile's parts
        w = blockIdx.y;
        tile = blockIdx.x >> split_bits;
        from = (blockIdx.x & ((1u << split_bits) - 1)) << params.part_bits;
        pixels = 1u << params.part_bits;
        row0 = tiling.firstRow(tile);
        col0 = tiling.firstCol(tile);
    }
    // Returns its first or second half.
    __device__ TilePart halfPart(unsigned i) const {
        TilePart part = *this;
        part.pixels /= 2;
        part.from += i * part.pixels;
        return part;
    }
};

// ---- Records -----------------------------------------------------------------------------------------------------------

// Finds the first of 32 segments that ends past this vector. upto: where the lane's segment ends, in vectors of 16 bytes.
__device__ __forceinline__ unsigned segmentOf(unsigned vector, unsigned upto) {
    unsigned segment = 0;
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        segment += __shfl_sync(FULL_WARP, upto, segment + step - 1) <= vector ? step : 0;
    return segment;
}

// Calls visit(16 bytes of records, how many of them are valid, their run) for the segments of a tile in window w, newest
// run first. A warp reads the bounds of 32 segments together and distributes their vectors over its lanes.
template<class Record, class Visit>
__device__ inline void forSegments(const TileParams &params, unsigned w, unsigned tile, Visit visit) {
    constexpr unsigned PAD = RECORDS_PER_16_BYTES<Record>;
    using Scan = cub::WarpScan<unsigned>;
    __shared__ typename Scan::TempStorage scratch[THREADS / 32];
    const SortedRuns &sorted = params.sorted;
    const unsigned lane = threadIdx.x & 31, runs = SortedRuns::runs(params.windows[w]);
    for (unsigned base = 0; base < runs; base += 32) {
        unsigned begin = 0, end = 0, upto;
        if (base + lane < runs) {
            const size_t run = static_cast<size_t>(w) * sorted.runs_per_window + (runs - 1 - (base + lane));
            const uint16_t *ends = sorted.ends + run * params.tiling.tiles;
            begin = tile > 0 ? divUp<unsigned>(ends[tile - 1], PAD) : 0;
            end = ends[tile];
        }
        const unsigned vectors = divUp(end, PAD) - begin;
        Scan(scratch[threadIdx.x / 32]).InclusiveSum(vectors, upto);
        const unsigned shift = begin - (upto - vectors), all = __shfl_sync(FULL_WARP, upto, 31);
        for (unsigned first = threadIdx.x & ~31u; first < all; first += THREADS) {
            const unsigned vector = first + lane, segment = segmentOf(vector, upto);
            const unsigned at = __shfl_sync(FULL_WARP, shift, segment) + vector,
                           left = __shfl_sync(FULL_WARP, end, segment) - at * PAD, run = runs - 1 - (base + segment);
            if (vector < all) {
                const Record *records = static_cast<const Record *>(sorted.records) +
                                        (static_cast<size_t>(w) * sorted.runs_per_window + run) * sorted.pitch;
                visit(reinterpret_cast<const uint4 *>(records)[at], left, run);
            }
        }
    }
}

// Calls visit(pixels, keys) for four events of the tile at a time. Key: 2 * (index in the window + 1) + polarity, or 0 for
// no event.
template<class Visit>
__device__ inline void forRecords(const TileParams &params, unsigned w, unsigned tile, Visit visit) {
    constexpr int SHIFT = 32 - tuning::INDEXED_TILE;
    const unsigned skew = static_cast<unsigned>(params.windows[w].first % CHUNK); // runs begin at a multiple of CHUNK
    forSegments<uint32_t>(params, w, tile, [&](const uint4 &four, unsigned left, unsigned run) {
        const uint32_t records[4] = {four.x, four.y, four.z, four.w}, base = 2 * (run * tuning::RUN - skew + 1);
        uint32_t pixel[4], key[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            pixel[i] = records[i] >> SHIFT;
            key[i] = i < left ? base + (records[i] & (1u << SHIFT) - 1) : 0;
        }
        visit(pixel, key);
    });
}

// ---- Pixels ------------------------------------------------------------------------------------------------------------

// Saturates 16 counters of 16 bits to bytes.
__device__ __forceinline__ uint4 saturatedBytes(const uint4 &a, const uint4 &b) {
    const auto two = [](uint32_t a, uint32_t b) {
        return __byte_perm(__vminu2(a, 0x00ff00ff), __vminu2(b, 0x00ff00ff), 0x6420);
    };
    return make_uint4(two(a.x, a.y), two(a.z, a.w), two(b.x, b.y), two(b.z, b.w));
}

// Writes `all` bytes to any address with `lanes` lanes: value(i) gives bytes 16 i .. 16 i + 15, byte(i) one. Two
// neighboring values make each aligned vector; the bytes before the first vector and after the last are stored one by one.
template<class Value, class Byte>
__device__ __forceinline__ void storeUnaligned(unsigned char *out, unsigned all, unsigned lane, unsigned lanes, Value value,
                                               Byte byte) {
    const unsigned before = min(-static_cast<unsigned>(reinterpret_cast<uintptr_t>(out)) % 16, all),
                   vectors = (all - before) / 16, more = before > 0 ? 1 : 0;
    const auto storeVectors = [&](auto words) {
#pragma unroll 1
        for (unsigned i = lane; i < vectors; i += lanes) {
            const uint4 low = value(i), high = value(i + more);
            const uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            const auto shifted = [&](unsigned k) {
                return __funnelshift_r(w[words.value + k], w[words.value + k + 1], before % 4 * 8);
            };
            __stcs(reinterpret_cast<uint4 *>(out + before) + i, make_uint4(shifted(0), shifted(1), shifted(2), shifted(3)));
        }
    };
#pragma unroll 1
    for (unsigned i = lane; i < all - 16 * vectors; i += lanes) {
        const unsigned at = i < before ? i : i + 16 * vectors;
        out[at] = static_cast<unsigned char>(byte(at));
    }
    switch (before / 4) { // words to shift by; a switch here saves one for each vector
    case 0:
        return storeVectors(std::integral_constant<unsigned, 0>());
    case 1:
        return storeVectors(std::integral_constant<unsigned, 1>());
    case 2:
        return storeVectors(std::integral_constant<unsigned, 2>());
    default:
        return storeVectors(std::integral_constant<unsigned, 3>());
    }
}

// Writes the part to the frame, whose pixels have `bytes` bytes: value(i) gives bytes 16 i .. 16 i + 15, byte(i) one. A
// warp writes a strip at a time, or several if they are short, to keep all lanes busy.
template<bool ALIGNED, class Value, class Byte>
__device__ __forceinline__ void writePart(const TileParams &params, const TilePart &part, unsigned bytes, Value value,
                                          Byte byte) {
    const Tiling &tiling = params.tiling;
    const unsigned lane_bits = bytes == 1   ? 3
                               : bytes == 2 ? 4
                                            : 5,
                   lanes = 1u << lane_bits, lane = threadIdx.x & (lanes - 1);
    for (unsigned s = threadIdx.x >> lane_bits; s < part.pixels / STRIP; s += THREADS >> lane_bits) {
        const unsigned pixel = part.from + s * STRIP, row = part.row0 + (pixel >> tiling.col_bits),
                       col = part.col0 + (pixel & ((1u << tiling.col_bits) - 1));
        if (row >= tiling.bottom || col >= tiling.cols)
            continue;
        const unsigned all = min(static_cast<unsigned>(STRIP), tiling.cols - col) * bytes, first = s * STRIP * bytes;
        unsigned char *out = rowOf(static_cast<unsigned char *>(params.repr.frames), params.repr.step,
                                   static_cast<size_t>(part.w) * tiling.rows + row) +
                             static_cast<size_t>(col) * bytes;
        const auto stripValue = [&](unsigned i) { return value(first / 16 + i); };
        if constexpr (ALIGNED)
            for (unsigned i = lane; i * 16 < all; i += lanes)
                __stcs(reinterpret_cast<uint4 *>(out) + i, stripValue(i));
        else
            storeUnaligned(out, all, lane, lanes, stripValue, [&](unsigned i) { return byte(first + i); });
    }
}

} // namespace cusi::events

#endif
