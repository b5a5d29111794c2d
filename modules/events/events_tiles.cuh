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

// As many blocks of 256 threads as a multiprocessor can have: of compute capability 7.5, four.
constexpr int blocksOf256(int blocks) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return blocks < 4 ? blocks : 4;
#else
    return blocks;
#endif
}

// Rows of neighboring pixels whose addresses differ by multiples of 32 bytes, for some neighboring lanes of a warp.
struct Rows {
    unsigned char *out; // of the first row
    size_t step;        // bytes from row to row
    unsigned count;
    unsigned all;         // bytes of a row
    unsigned first, next; // of the tile's bytes: the first row's first, and how far it is to the next row's
    unsigned lane, lanes;
};

// The vectors of rows: number i of a row, which begins `before` bytes past the row, is made of values i and i + 1, or of value i
// alone, from bit 32 WORDS + `bits` on.
template<unsigned WORDS, class Value>
__device__ __forceinline__ void storeShifted(Rows rows, unsigned before, unsigned vectors, Value value) {
    const unsigned bits = before % 4 * 8, more = before % 16 ? 1 : 0;
    rows.out += before;
    for (unsigned first = (rows.first + before) / 16; rows.count > 0;
         --rows.count, rows.out += rows.step, first += rows.next / 16)
#pragma unroll 1
        for (unsigned i = rows.lane; i < vectors; i += rows.lanes) {
            const uint4 low = value(first + i), high = value(first + i + more);
            const uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            const auto shifted = [&](unsigned k) { return __funnelshift_r(w[WORDS + k], w[WORDS + k + 1], bits); };
            __stcs(reinterpret_cast<uint4 *>(rows.out) + i, make_uint4(shifted(0), shifted(1), shifted(2), shifted(3)));
        }
}

// Writes rows that start at any address: value(i) gives bytes 16 i .. 16 i + 15 of the tile, byte(i) one. Whole sectors are written
// in vectors, and the bytes before the first sector and after the last one by a lane each.
template<class Value, class Byte>
__device__ __forceinline__ void storeAnywhere(const Rows &rows, Value value, Byte byte) {
    const unsigned before = min(-static_cast<unsigned>(reinterpret_cast<uintptr_t>(rows.out)) % 32, rows.all),
                   vectors = (rows.all - before) / 32 * 2;
    switch (before / 4 % 4) { // which words of the values: without a choice for each vector
    case 0:
        storeShifted<0>(rows, before, vectors, value);
        break;
    case 1:
        storeShifted<1>(rows, before, vectors, value);
        break;
    case 2:
        storeShifted<2>(rows, before, vectors, value);
        break;
    default:
        storeShifted<3>(rows, before, vectors, value);
    }
#pragma unroll 1
    for (unsigned i = rows.lane; i < rows.all - 16 * vectors; i += rows.lanes) {
        const unsigned at = i < before ? i : i + 16 * vectors;
        unsigned char *out = rows.out + at;
#pragma unroll 2
        for (unsigned y = 0, from = rows.first + at; y < rows.count; ++y, out += rows.step, from += rows.next)
            *out = static_cast<unsigned char>(byte(from));
    }
}

// Writes pixels from .. from + pixels - 1 of a tile, whole rows of it or a piece of one, to frame w, whose rows start anywhere.
// A pixel has `bytes` bytes; value(i) and byte(i) as above, counted from the first pixel on. TOGETHER: lanes write all their rows
// that differ by multiples of 32 bytes together, which is faster if rows are short.
template<int THREADS, bool TOGETHER, class Value, class Byte>
__device__ __forceinline__ void storePixels(const TileParams &params, unsigned w, unsigned row0, unsigned col0,
                                            unsigned from, unsigned pixels, unsigned bytes, Value value, Byte byte) {
    const Tiling &tiling = params.tiling;
    const unsigned row = row0 + (from >> tiling.col_bits), col = col0 + (from & ((1u << tiling.col_bits) - 1));
    if (row >= tiling.bottom || col >= tiling.cols)
        return;
    const auto bitsOf = [](unsigned power_of_two) {
        return 31 - static_cast<unsigned>(__clz(static_cast<int>(power_of_two)));
    };
    const size_t step = params.repr.step;
    // All are powers of two, of which these are the logarithms: divisions would take a block as long as some rows.
    const unsigned length = min(tiling.col_bits, bitsOf(pixels)), // pixels of a row
        lanes = bytes > 2 ? 5 : min(length + bytes - 5, 5u),      // that write a row, 16 bytes each
        together = bitsOf(THREADS) - lanes,                       // rows that are written at a time
        phases = 6 - __ffs(static_cast<int>(step | 32)),          // rows until an address differs by a multiple of 32
        apart = TOGETHER ? max(together, phases) : together;
    const unsigned height = min(pixels >> length, tiling.bottom - row), end = TOGETHER ? min(height, 1u << apart) : height;
    Rows rows = {};
    rows.step = step << apart, rows.next = bytes << length + apart;
    rows.all = min(1u << length, tiling.cols - col) * bytes;
    rows.lane = threadIdx.x & ((1u << lanes) - 1), rows.lanes = 1u << lanes;
    unsigned y = threadIdx.x >> lanes;
    rows.out =
        rowOf(static_cast<unsigned char *>(params.repr.frames), step, static_cast<size_t>(w) * tiling.rows + row + y) +
        static_cast<size_t>(col) * bytes;
    for (; y < end; y += 1u << together, rows.out += step << together) {
        rows.count = TOGETHER ? (height - y - 1 >> apart) + 1 : 1;
        rows.first = y * bytes << length;
        storeAnywhere(rows, value, byte);
    }
}

// A block makes a part of a tile, 2^part_bits pixels whose accumulators fit shared memory, from all of the tile's records.
struct TilePart {
    unsigned w, tile, from, pixels; // of the tile
    unsigned row0, col0;            // of the frame: the tile's first
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
template<class Record, int THREADS, class Visit>
__device__ inline void forSegments(const SortedRuns &sorted, const Tiling &tiling, unsigned w, unsigned runs, unsigned tile,
                                   Visit visit) {
    constexpr unsigned PAD = RECORDS_PER_16_BYTES<Record>;
    const unsigned lane = threadIdx.x & 31;
    for (unsigned base = 0; base < runs; base += 32) {
        unsigned begin = 0, end = 0;
        if (base + lane < runs) {
            const size_t run = static_cast<size_t>(w) * sorted.runs_per_window + (runs - 1 - (base + lane));
            const uint16_t *ends = sorted.ends + run * tiling.tiles;
            begin = tile > 0 ? divUp<unsigned>(ends[tile - 1], PAD) : 0;
            end = ends[tile];
        }
        const unsigned pieces = divUp(end, PAD) - begin;
        unsigned scanned[1] = {pieces};
        warpInclusiveScan(scanned, lane);
        const unsigned upto = scanned[0], shift = begin - (upto - pieces), all = __shfl_sync(FULL_WARP, upto, 31);
        for (unsigned first = threadIdx.x & ~31u; first < all; first += THREADS) {
            const unsigned piece = first + lane, segment = segmentOf(piece, upto);
            const unsigned at = __shfl_sync(FULL_WARP, shift, segment) + piece,
                           left = __shfl_sync(FULL_WARP, end, segment) - at * PAD, run = runs - 1 - (base + segment);
            if (piece < all) {
                const Record *records = static_cast<const Record *>(sorted.records) +
                                        (static_cast<size_t>(w) * sorted.runs_per_window + run) * sorted.pitch;
                visit(reinterpret_cast<const uint4 *>(records)[at], left, run);
            }
        }
    }
}

// Calls visit(pixels, keys) for four events of the tile at a time. Key: 2 * (index in the window + 1) + polarity, or 0 for
// no event.
template<int THREADS, class Visit>
__device__ inline void forRecords(const TileParams &params, unsigned w, unsigned tile, Visit visit) {
    constexpr int SHIFT = 32 - tuning::INDEXED_TILE;
    const Window window = params.windows[w];
    const unsigned skew = static_cast<unsigned>(window.first % CHUNK); // runs begin at a multiple of CHUNK
    forSegments<uint32_t, THREADS>(
        params.sorted, params.tiling, w, SortedRuns::runs(window), tile,
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

} // namespace cusi::events

#endif
