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

// Subtracts COUNT entries, from the first on, from the reference. All loads of a kind are in flight together.
template<int COUNT>
__device__ __forceinline__ void undoEntries(const EncodeParams &params, const uint32_t (&position)[COUNT],
                                            const uint32_t (&value)[COUNT], const bool (&exists)[COUNT]) {
    unsigned char *byte[COUNT];
    unsigned after[COUNT];
#pragma unroll
    for (int k = 0; k < COUNT; ++k) {
        const unsigned y = position[k] / params.row_bytes;
        byte[k] = params.ref + static_cast<size_t>(y) * params.ref_step + (position[k] - y * params.row_bytes);
        after[k] = exists[k] ? __ldcg(byte[k]) : 0;
    }
#pragma unroll
    for (int k = 0; k < COUNT; ++k)
        if (exists[k])
            *byte[k] = static_cast<unsigned char>(after[k] - value[k]);
}

// Takes back the entries [0, count), `threads` threads together, of which this is number `thread`. The list was written by other
// blocks of this kernel: past the L1 cache.
__device__ __forceinline__ void undoList(const EncodeParams &params, unsigned thread, unsigned threads, size_t count) {
    constexpr int BATCH = 8;
    uint32_t position[BATCH], value[BATCH];
    bool exists[BATCH];
    if (params.list_vectors) {
        const uint4 *const positions = reinterpret_cast<const uint4 *>(params.positions);
        const unsigned *const values = reinterpret_cast<const unsigned *>(params.values);
        for (size_t i = thread; i < count / 4; i += size_t{threads} * (BATCH / 4)) {
#pragma unroll
            for (int k = 0; k < BATCH; k += 4) {
                const size_t at = i + size_t{threads} * (k / 4);
                const bool whole = at < count / 4;
                const uint4 p = whole ? __ldcg(positions + at) : make_uint4(0, 0, 0, 0);
                const unsigned v = whole ? __ldcg(values + at) : 0;
                const uint32_t four[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    position[k + j] = four[j];
                    value[k + j] = v >> 8 * j;
                    exists[k + j] = whole;
                }
            }
            undoEntries(params, position, value, exists);
        }
    }
    for (size_t i = (params.list_vectors ? count / 4 * 4 : 0) + thread; i < count; i += size_t{threads} * BATCH) {
#pragma unroll
        for (int k = 0; k < BATCH; ++k) {
            const size_t at = i + size_t{threads} * k;
            exists[k] = at < count;
            position[k] = exists[k] ? __ldcg(params.positions + at) : 0;
            value[k] = exists[k] ? __ldcg(params.values + at) : 0;
        }
        undoEntries(params, position, value, exists);
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
    undoList(params, (blockIdx.x - params.tiles) * THREADS + threadIdx.x, params.undo_blocks * THREADS,
             cusi::loadRelaxed(&params.state->undelivered_from));
}

} // namespace framediff

#endif
