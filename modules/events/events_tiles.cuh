// What tile kernels share: the part of a tile that a block makes, and how it reads its records.
#ifndef CUSI_EVENTS_TILES_CUH
#define CUSI_EVENTS_TILES_CUH

#include "events_cuda.cuh"

namespace cusi::events {

__device__ inline void clearShared(uint32_t *cells, unsigned words) {
    for (unsigned i = threadIdx.x; i < words / 4; i += blockDim.x)
        reinterpret_cast<uint4 *>(cells)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
}

// Runs first .. last - 1 of a window, or as many of them as there are, counted from the newest.
struct RunRange {
    unsigned first = 0, last = ~0u;
    unsigned too_many = ~0u;          // 16-byte pieces of records in the first 32 of them: the block leaves
    unsigned reader = 0, readers = 1; // of blocks that read them together
};

// A block makes a part of a tile, 2^part_bits pixels whose accumulators fit shared memory, from all of the tile's records.
struct TilePart {
    unsigned w, tile, from, pixels; // of the tile
    unsigned row0, col0;            // of the frame: the tile's first
    RunRange runs;                  // all, or a helper's share
    __device__ explicit TilePart(const TileParams &params) {
        const Tiling &tiling = params.tiling;
        const unsigned split_bits = tiling.row_bits + tiling.col_bits - params.part_bits; // log2 of a tile's parts
        w = blockIdx.y;
        tile = blockIdx.x >> split_bits;
        from = (blockIdx.x & ((1u << split_bits) - 1)) << params.part_bits;
        pixels = 1u << params.part_bits;
        moveTo(tiling, tile);
    }
    // The same part of another tile.
    __device__ void moveTo(const Tiling &tiling, unsigned other) {
        tile = other;
        const unsigned tile_row = tile / tiling.tiles_per_row;
        row0 = tiling.top + (tile_row << tiling.row_bits);
        col0 = (tile - tile_row * tiling.tiles_per_row) << tiling.col_bits;
    }
    // Its first or second half.
    __device__ TilePart halfPart(unsigned i) const {
        TilePart part = *this;
        part.pixels /= 2;
        part.from += i * part.pixels;
        return part;
    }
};

// The first of 32 segments that ends past this piece. upto: where the lane's segment ends, in pieces.
__device__ __forceinline__ unsigned segmentOf(unsigned piece, unsigned upto) {
    unsigned segment = 0;
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        segment += __shfl_sync(FULL_WARP, upto, segment + step - 1) <= piece ? step : 0;
    return segment;
}

// Calls visit(16 bytes of records, how many of them are valid, their run) for the tile's segments in window w, newest run
// first. A warp reads the bounds of 32 segments together and distributes their 16-byte pieces over the block's lanes.
// WHOLE_WARPS: lanes without a piece visit none together with the others, so that the warp may exchange values.
template<class Record, int THREADS, bool WHOLE_WARPS = false, class Visit>
__device__ inline void forSegments(const SortedRuns &sorted, const Tiling &tiling, unsigned w, unsigned runs,
                                   const RunRange &range, unsigned tile, Visit visit) {
    constexpr unsigned PAD = RECORDS_PER_16_BYTES<Record>;
    const unsigned lane = threadIdx.x & 31, last = min(range.last, runs);
    for (unsigned base = range.first; base < last; base += 32) {
        unsigned begin = 0, end = 0;
        if (base + lane < last) {
            const size_t run = static_cast<size_t>(w) * sorted.runs_per_window + (runs - 1 - (base + lane));
            const uint16_t *ends = sorted.ends + run * tiling.tiles;
            begin = tile > 0 ? divUp<unsigned>(ends[tile - 1], PAD) : 0;
            end = ends[tile];
        }
        const unsigned pieces = divUp(end, PAD) - begin;
        unsigned scanned[1] = {pieces};
        warpInclusiveScan(scanned, lane);
        const unsigned upto = scanned[0], shift = begin - (upto - pieces), all = __shfl_sync(FULL_WARP, upto, 31);
        if (range.too_many != ~0u && base == range.first && all >= range.too_many)
            asm volatile("exit;"); // all warps come to the same number
        for (unsigned first = range.reader * THREADS + (threadIdx.x & ~31u); first < all;
             first += range.readers * THREADS) {
            const unsigned piece = first + lane, segment = segmentOf(piece, upto);
            const unsigned at = __shfl_sync(FULL_WARP, shift, segment) + piece,
                           left = __shfl_sync(FULL_WARP, end, segment) - at * PAD, run = runs - 1 - (base + segment);
            if (piece < all) {
                const Record *records = static_cast<const Record *>(sorted.records) +
                                        (static_cast<size_t>(w) * sorted.runs_per_window + run) * sorted.pitch;
                visit(reinterpret_cast<const uint4 *>(records)[at], left, run);
            } else if (WHOLE_WARPS) {
                visit(make_uint4(0, 0, 0, 0), 0u, run);
            }
        }
    }
}

// Calls visit(pixels, keys) for four events of the tile at a time. Key: 2 * (index in the window + 1) + polarity, or 0 for
// no event.
template<int THREADS, bool WHOLE_WARPS = false, class Visit>
__device__ inline void forRecords(const TileParams &params, unsigned w, const RunRange &range, unsigned tile, Visit visit) {
    constexpr int SHIFT = 32 - tuning::INDEXED_TILE;
    const Window window = params.windows[w];
    const unsigned skew = static_cast<unsigned>(window.first % CHUNK); // runs begin at a multiple of CHUNK
    forSegments<uint32_t, THREADS, WHOLE_WARPS>(
        params.sorted, params.tiling, w, SortedRuns::runs(window), range, tile,
        [&](const uint4 &four, unsigned left, unsigned run) {
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

// 16 counters of 16 bits as saturated bytes.
__device__ __forceinline__ uint4 saturatedBytes(const uint4 &a, const uint4 &b) {
    const auto two = [](uint32_t a, uint32_t b) {
        return __byte_perm(__vminu2(a, 0x00ff00ff), __vminu2(b, 0x00ff00ff), 0x6420);
    };
    return make_uint4(two(a.x, a.y), two(a.z, a.w), two(b.x, b.y), two(b.z, b.w));
}

// ---- Crowded tiles, which are found in a sample of a window's runs ------------------------------------------------------

constexpr unsigned SAMPLED_RUNS = 32;

// How many of the helpers a tile with so many events in the sampled runs wants: its share of all events.
__device__ __forceinline__ unsigned helpersWanted(unsigned events, unsigned samples, unsigned helpers) {
    return min(helpers, helpers * events / max(samples * tuning::RUN, 1u));
}

} // namespace cusi::events

#endif
