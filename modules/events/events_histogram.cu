// Tiles to pixels: HISTOGRAM.
#include "events_tiles.cuh"

namespace cusi::events {

namespace tuning {
constexpr int HISTOGRAM_THREADS = 256;
// As many blocks of a multiprocessor as shared memory has room for: registers must suffice, for rows at any address, too.
constexpr int ANYWHERE_BLOCKS = 6;
} // namespace tuning

namespace {

constexpr unsigned PIXELS = 1u << tuning::HISTOGRAM_TILE;
constexpr int THREADS = tuning::HISTOGRAM_THREADS;

// Pixels from .. from + pixels - 1 of the tile to the frame: value(i) gives the 16 bytes of pixels from + 8 i .. from + 8 i + 7,
// byte(i) one of their bytes.
template<bool ALIGNED, class Value, class Byte>
__device__ inline void writeCounts(const TileParams &params, unsigned w, unsigned tile, unsigned from, unsigned pixels,
                                   Value value, Byte byte) {
    const Tiling &tiling = params.tiling;
    const unsigned row0 = tiling.firstRow(tile), col0 = tiling.firstCol(tile);
    if constexpr (!ALIGNED) {
        storePixels<THREADS, true>(params, w, row0, col0, from, pixels, 2, value, byte);
    } else {
        for (unsigned i = threadIdx.x; i < pixels / 8; i += THREADS) {
            const unsigned pixel = from + 8 * i, row = row0 + (pixel >> tiling.col_bits),
                           col = col0 + (pixel & ((1u << tiling.col_bits) - 1));
            if (row < tiling.bottom && col < tiling.cols)
                __stcs(reinterpret_cast<uint4 *>(rowOf(static_cast<unsigned char *>(params.repr.frames), params.repr.step,
                                                       static_cast<size_t>(w) * tiling.rows + row) +
                                                 col * 2),
                       value(i));
        }
    }
}

// Counts the tile in counters of 8 bits, the two of a pixel side by side. The add that carries out of a counter sees 255 in
// it, because nothing has carried before, and sets `carried`: the counters are then useless.
__device__ __forceinline__ void count8(const TileParams &params, unsigned w, unsigned runs, unsigned tile, uint32_t flip,
                                       uint32_t *cells, int &carried) {
    forSegments<uint16_t, THREADS>(
        params.sorted, params.tiling, w, runs, tile, [&](const uint4 &eight, unsigned left, unsigned) {
            if (*static_cast<volatile int *>(&carried))
                return;
            const uint32_t records[4] = {eight.x ^ flip, eight.y ^ flip, eight.z ^ flip, eight.w ^ flip};
            uint32_t old[8];
            bool carry = false;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const uint32_t counter = element16(records, i);
                old[i] = i < left ? atomicAdd(cells + counter / 4, 1u << (counter * 8 & 31)) : 0;
            }
#pragma unroll
            for (int i = 0; i < 8; ++i)
                carry |= (~old[i] & 255u << (element16(records, i) * 8 & 31)) == 0;
            if (carry)
                atomicExch(&carried, 1);
        });
}

// Counts half a tile, from pixel `from` on, in counters of 16 bits, which are left alone once they have reached 255. At
// most 8 adds per thread are in flight past that, for which 16 bits have room.
static_assert(255 + 8 * THREADS < 65536, "saturating counters must not carry");
__device__ __forceinline__ void countHalf16(const TileParams &params, unsigned w, unsigned runs, unsigned tile,
                                            uint32_t flip, unsigned from, uint32_t *cells) {
    forSegments<uint16_t, THREADS>(
        params.sorted, params.tiling, w, runs, tile, [&](const uint4 &eight, unsigned left, unsigned) {
            const uint32_t records[4] = {eight.x ^ flip, eight.y ^ flip, eight.z ^ flip, eight.w ^ flip};
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const uint32_t counter = element16(records, i), cell = counter / 2 - from, shift = (counter & 1) * 16;
                if (i < left && cell < PIXELS / 2 &&
                    (static_cast<volatile uint32_t *>(cells)[cell] >> shift & 0xffff) < 255)
                    atomicAdd(cells + cell, 1u << shift);
            }
        });
}

// Counts with 8 bits; a tile where a counter carries is counted again with 16 bits, half a tile at a time.
template<bool ALIGNED>
__global__ void __launch_bounds__(THREADS, ALIGNED ? 0 : blocksOf256(tuning::ANYWHERE_BLOCKS))
    histogramKernel(const TileParams params) {
    startInOrder();
    extern __shared__ uint4 dynamic[];
    __shared__ int carried;
    uint32_t *cells = reinterpret_cast<uint32_t *>(dynamic);
    const unsigned w = blockIdx.y, tile = blockIdx.x;
    const unsigned runs = SortedRuns::runs(params.windows[w]);
    const uint32_t flip = params.repr.swap ? 0 : 0x00010001; // positive comes first
    if (threadIdx.x == 0)
        carried = 0;
    clearShared(cells, PIXELS / 2);
    count8(params, w, runs, tile, flip, cells, carried);
    __syncthreads();
    if (!carried) {
        writeCounts<ALIGNED>(
            params, w, tile, 0, PIXELS, [&](unsigned i) { return reinterpret_cast<uint4 *>(cells)[i]; },
            [&](unsigned i) { return reinterpret_cast<const uint8_t *>(cells)[i]; });
        return;
    }
    for (unsigned from = 0; from < PIXELS; from += PIXELS / 2) {
        __syncthreads();
        clearShared(cells, PIXELS / 2);
        countHalf16(params, w, runs, tile, flip, from, cells);
        __syncthreads();
        writeCounts<ALIGNED>(
            params, w, tile, from, PIXELS / 2,
            [&](unsigned i) {
                return saturatedBytes(reinterpret_cast<uint4 *>(cells)[2 * i], reinterpret_cast<uint4 *>(cells)[2 * i + 1]);
            },
            [&](unsigned i) { return min(reinterpret_cast<const uint16_t *>(cells)[i], uint16_t{255}); });
    }
}

} // namespace

TilePass histogramPass(const Batch &batch, int index) {
    const bool aligned = rowsAligned(batch.frames[index]);
    TilePass pass = {aligned ? histogramKernel<true> : histogramKernel<false>,
                     THREADS,
                     PIXELS * 2,
                     tuning::HISTOGRAM_TILE,
                     tuning::HISTOGRAM_TILE,
                     {}};
    pass.params.repr = representationOf(batch, index);
    return pass;
}

} // namespace cusi::events
