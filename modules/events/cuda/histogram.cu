// Makes tiles of HISTOGRAM.
#include "events/cuda/tiles.cuh"

namespace cusi::events {

namespace {

constexpr unsigned PIXELS = 1u << tuning::HISTOGRAM_TILE;

// Counts the tile in 8-bit counters, the two of a pixel side by side. The add that carries out of a counter reads 255 from
// it, since nothing has carried before, and sets `carried`. The counters are then useless.
__device__ __forceinline__ void count8(const TileParams &params, const TilePart &part, uint32_t flip, uint32_t *cells,
                                       int &carried) {
    forSegments<uint16_t>(params, part.w, part.tile, [&](const uint4 &eight, unsigned left, unsigned) {
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

// Counts half a tile in 16-bit counters, which stay as they are once they have reached 255. At most 8 adds per thread are
// still in flight then, and 16 bits have room for these.
static_assert(255 + 8 * THREADS < 65536, "saturating counters must not carry");
__device__ __forceinline__ void count16(const TileParams &params, const TilePart &half, uint32_t flip, uint32_t *cells) {
    forSegments<uint16_t>(params, half.w, half.tile, [&](const uint4 &eight, unsigned left, unsigned) {
        const uint32_t records[4] = {eight.x ^ flip, eight.y ^ flip, eight.z ^ flip, eight.w ^ flip};
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const uint32_t counter = element16(records, i), cell = counter / 2 - half.from, shift = (counter & 1) * 16;
            if (i < left && cell < half.pixels && (static_cast<volatile uint32_t *>(cells)[cell] >> shift & 0xffff) < 255)
                atomicAdd(cells + cell, 1u << shift);
        }
    });
}

// Counts with 8 bits; a tile where a counter carries is counted again with 16 bits, half a tile at a time.
template<bool ALIGNED>
__global__ void __launch_bounds__(THREADS) histogramKernel(const TileParams params) {
    startInOrder();
    extern __shared__ uint4 dynamic[];
    __shared__ int carried;
    uint32_t *cells = reinterpret_cast<uint32_t *>(dynamic);
    const TilePart part(params);
    const uint32_t flip = params.repr.swap ? 0 : 0x00010001; // positive comes first
    if (threadIdx.x == 0)
        carried = 0;
    clearShared(cells, PIXELS / 2);
    count8(params, part, flip, cells, carried);
    __syncthreads();
    if (!carried) {
        writePart<ALIGNED>(
            params, part, 2, [&](unsigned i) { return reinterpret_cast<uint4 *>(cells)[i]; },
            [&](unsigned i) { return reinterpret_cast<const uint8_t *>(cells)[i]; });
        return;
    }
    for (unsigned i = 0; i < 2; ++i) {
        const TilePart half = part.halfPart(i);
        __syncthreads();
        clearShared(cells, PIXELS / 2);
        count16(params, half, flip, cells);
        __syncthreads();
        writePart<ALIGNED>(
            params, half, 2,
            [&](unsigned i) {
                return saturatedBytes(reinterpret_cast<uint4 *>(cells)[2 * i], reinterpret_cast<uint4 *>(cells)[2 * i + 1]);
            },
            [&](unsigned i) { return min(reinterpret_cast<const uint16_t *>(cells)[i], uint16_t{255}); });
    }
}

} // namespace

TilePass histogramPass(const Batch &batch, int index) {
    const auto kernel = rowsAligned(batch.frames[index]) ? histogramKernel<true> : histogramKernel<false>;
    TilePass pass = {kernel, PIXELS * 2, tuning::HISTOGRAM_TILE, tuning::HISTOGRAM_TILE, {}};
    pass.params.repr = representationOf(batch, index);
    return pass;
}

} // namespace cusi::events
