// Where the capacity may be too small, which only the encoder's last tile can tell, blocks whose entries fitted have updated the
// reference already. Blocks after those of the tiles take that back if not all fitted, so that nothing is lost.
//
// They learn the number of all entries by look-back, as soon as every tile has counted, and normally leave while the tiles still
// write. Only an overflow lets them wait for the tiles to finish. They wait for earlier blocks only, as look-back does, so no
// block needs another that may not have started.
#ifndef CUSI_FRAMEDIFF_UNDO_CUH
#define CUSI_FRAMEDIFF_UNDO_CUH

#include "framediff_cuda.cuh"
#include "framediff_lookback.cuh"

namespace framediff {

// Ends the work of a tile's block; `frame`: the frame's number in bits 34..63; `entries`: of this tile and all before it.
__device__ __forceinline__ void finishTile(const EncodeParams &params, unsigned tile, unsigned long long frame,
                                           unsigned entries) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence(); // what the block has written precedes what an undo block reads
        cusi::storeRelaxed(params.tile_status + tile, frame | TILE_DONE | entries);
    }
}

// Subtracts what has been added to the reference. The list was written by other blocks of this kernel: past the L1 cache.
template<int THREADS>
__device__ __forceinline__ void undoEntries(const EncodeParams &params, size_t first, size_t stride, size_t count) {
    constexpr int BATCH = 4; // loads in flight
    for (size_t i = first; i < count; i += BATCH * stride) {
        unsigned char *byte[BATCH];
        unsigned char after[BATCH], value[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; ++k) {
            byte[k] = nullptr;
            if (i + k * stride < count) {
                const unsigned p = __ldcg(params.positions + i + k * stride), y = p / params.row_bytes;
                byte[k] = params.ref + static_cast<size_t>(y) * params.ref_step + (p - y * params.row_bytes);
                value[k] = __ldcg(params.values + i + k * stride);
            }
        }
#pragma unroll
        for (int k = 0; k < BATCH; ++k)
            if (byte[k])
                after[k] = __ldcg(byte[k]);
#pragma unroll
        for (int k = 0; k < BATCH; ++k)
            if (byte[k])
                *byte[k] = static_cast<unsigned char>(after[k] - value[k]);
    }
}

// The work of one of the params.undo_blocks blocks from blockIdx.x == params.tiles on. The last of them to know the frame's number
// advances it: by then all tiles have published with it.
template<int THREADS>
__device__ __forceinline__ void undoIfTooShort(const EncodeParams &params, unsigned long long frame) {
    const unsigned total = lookBack<THREADS, true>(params.tile_status, params.tiles, frame);
    if (threadIdx.x == 0 && atomicAdd(&params.state->undo_started, 1u) == params.undo_blocks - 1) {
        params.state->undo_started = 0;
        params.state->frame = (frame >> 34) + 1;
    }
    if (total <= params.capacity)
        return;
    for (unsigned tile = threadIdx.x; tile < params.tiles; tile += THREADS)
        while (cusi::loadRelaxed(params.tile_status + tile) >> 32 != (frame | TILE_DONE) >> 32)
            ;
    __threadfence();
    __syncthreads();
    const size_t thread = static_cast<size_t>(blockIdx.x - params.tiles) * THREADS + threadIdx.x;
    undoEntries<THREADS>(params, thread, static_cast<size_t>(params.undo_blocks) * THREADS,
                         cusi::loadRelaxed(&params.state->undelivered_from));
}

} // namespace framediff

#endif
