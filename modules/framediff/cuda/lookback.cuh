// Decoupled look-back (Merrill and Garland 2016): how blocks learn within one pass how many entries precede theirs.
//
// Every block publishes the number of its entries and adds up what the blocks before it have published. Like CUB's, this relies
// on blocks starting in the order of blockIdx. CUB's tile prefix would read 32 counts a round instead of those of a wave, and
// needs its words cleared before each frame: here they carry the frame's number.
#ifndef CUSI_FRAMEDIFF_LOOKBACK_CUH
#define CUSI_FRAMEDIFF_LOOKBACK_CUH

#include "cuda.cuh"

namespace framediff {

// A status word: bits 0..31 the number, 32..33 what it counts, 34..63 the frame. 30 bits of the frame's number are enough, as
// every frame overwrites the words.
enum : unsigned long long {
    TILE_COUNT = 1ull << 32,  // the entries of this tile
    TILE_PREFIX = 2ull << 32, // of this tile and all before it
    TILE_STATE = 3ull << 32
};

// The number of entries in the tiles before `tile`, for the whole block. Each thread waits for one of the THREADS preceding
// tiles, so a wave of blocks is added up in one round trip. `frame`: the frame's number in bits 34..63.
template<int THREADS>
__device__ inline unsigned lookBack(const unsigned long long *words, unsigned tile, unsigned long long frame) {
    constexpr unsigned WARPS = THREADS / 32;
    // For each warp's 32 tiles: their sum up to the nearest known prefix, and whether there is one.
    __shared__ unsigned sums[WARPS], ends[WARPS];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned before = 0;
    bool found = tile == 0;
    for (long long end = tile; !found; end -= THREADS) { // tiles [.., end) are still to be added
        const long long at = end - 1 - threadIdx.x;
        unsigned long long word = frame | TILE_PREFIX; // before the first tile there is nothing
        if (at >= 0)
            do
                word = cusi::loadRelaxed(words + at);
            while ((word & ~(TILE_STATE | 0xffffffffull)) != frame);
        const unsigned prefixes = __ballot_sync(cusi::FULL_WARP, (word & TILE_STATE) == TILE_PREFIX);
        const unsigned last = prefixes ? __ffs(static_cast<int>(prefixes)) - 1 : 31;
        const unsigned sum = cusi::warpSum(lane <= last ? static_cast<unsigned>(word) : 0u);
        if (end != tile)
            __syncthreads(); // the previous round has been read
        if (lane == 0) {
            sums[warp] = sum;
            ends[warp] = prefixes;
        }
        __syncthreads();
        const unsigned known = __ballot_sync(cusi::FULL_WARP, lane < WARPS && ends[lane % WARPS] != 0);
        const unsigned upto = known ? __ffs(static_cast<int>(known)) - 1 : 31;
        before += cusi::warpSum(lane < WARPS && lane <= upto ? sums[lane] : 0u);
        found = known != 0;
    }
    return before;
}

} // namespace framediff

#endif
