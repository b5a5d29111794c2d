// Finds the matches of each template or frame from its costs at all positions: the best of all tiles, then the best outside
// its neighborhood, and so on. Rounds follow one another, so what counts is the latency of one: a cluster of blocks shares
// the tiles, and tells each other its best in shared memory. One block does it where there are no clusters.
#include "match/cuda/direct.cuh"

namespace cusi::match {

namespace {

constexpr int THREADS_IN_CLUSTER = 512, THREADS_ALONE = 1024;
constexpr int IN_FLIGHT = 8; // costs that a thread loads at a time: in a cluster all of a tile at once

// Stores to where `place` is in the shared memory of another block.
__device__ __forceinline__ void storeInBlock(unsigned rank, Candidate *place, const Candidate &value) {
#if __CUDA_ARCH__ >= 900
    const unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(place));
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(rank));
    asm volatile("st.shared::cluster.v2.b64 [%0], {%1, %2};" ::"r"(there), "l"(__double_as_longlong(value.cost)),
                 "l"(value.position)
                 : "memory");
#else
    *place = value;
#endif
}

// ---- The best of warp and block, in all threads

__device__ __forceinline__ Candidate warpBest(Candidate best) {
#pragma unroll
    for (int d = 16; d; d /= 2) {
        const Candidate other = {__shfl_xor_sync(cusi::FULL_WARP, best.cost, d),
                                 __shfl_xor_sync(cusi::FULL_WARP, best.position, d)};
        if (isBetter(other, best))
            best = other;
    }
    return best;
}
__device__ __forceinline__ Candidate blockBest(Candidate best) {
    __shared__ Candidate warps[THREADS_ALONE / 32];
    best = warpBest(best);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = best;
    __syncthreads();
    return warpBest(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : noCandidate());
}

// ---- Tiles

// The tiles of one template or frame. Neighboring tiles belong to different blocks.
struct TileMap {
    const MatchModel &m;
    double *const costs;
    Candidate *const bests;
    const int across, down, tile_rows;
    const int rank, blocks;

    // Returns the block's first tile in a row of tiles from column x on; the next is `blocks` further.
    __device__ __forceinline__ int firstOwn(int x, int y) const { return x + ((rank - 3 * y - x) & (blocks - 1)); }

    // Returns the best of the block's tiles.
    __device__ __forceinline__ Candidate bestOwn() const {
        const int row = cusi::divUp(across, blocks);
        Candidate best = noCandidate();
        for (int i = threadIdx.x; i < row * down; i += blockDim.x) {
            const int y = i / row, x = firstOwn(0, y) + (i - y * row) * blocks;
            if (x >= across)
                continue;
            const Candidate here = bests[y * across + x];
            if (isBetter(here, best))
                best = here;
        }
        return blockBest(best);
    }

    // Removes the positions of a tile near a match, and returns the best that is left. Removed costs are infinite.
    __device__ __forceinline__ Candidate removeNear(int tile_x, int tile_y, const cusMatch &match) const {
        static_assert(THREADS_IN_CLUSTER % TILE_COLS == 0 && THREADS_ALONE % TILE_COLS == 0,
                      "a thread stays in its column");
        const int x = tile_x * TILE_COLS + static_cast<int>(threadIdx.x) % TILE_COLS, step = blockDim.x / TILE_COLS;
        const int end = x < m.ocols ? min((tile_y + 1) * tile_rows, m.orows) : 0;
        const bool near = abs(x - match.x) < m.min_distance;
        Candidate best = noCandidate();
        for (int y0 = tile_y * tile_rows + threadIdx.x / TILE_COLS; y0 < end; y0 += IN_FLIGHT * step) {
            double here[IN_FLIGHT];
#pragma unroll
            for (int i = 0; i < IN_FLIGHT; ++i)
                here[i] = y0 + i * step < end ? costs[positionOf(y0 + i * step, x)] : INFINITY;
#pragma unroll
            for (int i = 0; i < IN_FLIGHT; ++i) {
                const int y = y0 + i * step;
                if (near && y < end && abs(y - match.y) < m.min_distance)
                    costs[positionOf(y, x)] = INFINITY;
                else if (here[i] < best.cost)
                    best = {here[i], positionOf(y, x)};
            }
        }
        return blockBest(best);
    }
    __device__ __forceinline__ unsigned positionOf(int y, int x) const { // a map has less than 2^32 positions
        return static_cast<unsigned>(y) * m.ocols + x;
    }

    // Removes the match's neighborhood from the block's tiles. Returns whether there was any of it.
    __device__ __forceinline__ bool remove(const cusMatch &match) const {
        const long long d = m.min_distance;
        const int left = static_cast<int>(max(match.x - d + 1, 0ll)) / TILE_COLS;
        const int top = static_cast<int>(max(match.y - d + 1, 0ll)) / tile_rows;
        const int right = static_cast<int>(min(match.x + d, static_cast<long long>(m.ocols)) - 1) / TILE_COLS;
        const int bottom = static_cast<int>(min(match.y + d, static_cast<long long>(m.orows)) - 1) / tile_rows;
        bool any = false;
        for (int y = top; y <= bottom; ++y)
            for (int x = firstOwn(left, y); x <= right; x += blocks, any = true) {
                const Candidate best = removeNear(x, y, match);
                if (threadIdx.x == 0)
                    bests[y * across + x] = best;
            }
        return any;
    }

    // Sets the fractions of a match, before its neighborhood is removed. Other blocks have removed that of earlier ones.
    __device__ __forceinline__ void setFractions(const Candidate &best, cusMatch &match) const {
        double around[4];
        for (int i = 0; i < 4; ++i) {
            const uint64_t at = match_neighbor(&m, best.position, i);
            around[i] = at != UINT64_MAX ? __ldcg(costs + at) : NAN;
        }
        match_setFractions(&match, best.cost, around);
    }
};

__global__ void __launch_bounds__(THREADS_ALONE)
    matchesKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Direct direct,
                  const __grid_constant__ Refinement refinement, int tile_rows) {
    __shared__ Candidate
        bests_of_blocks[2][cusi::CLUSTER_BLOCKS]; // two, since the next round writes while this one still reads
    const unsigned rank = cusi::clusterRank(), blocks = cusi::clusterBlocks();
    const size_t result = blockIdx.x / blocks;
    cusi::letNextKernelStart();
    cusi::clusterBarrier(); // the shared memory of all blocks exists
    cusi::waitForEarlierWork();
    const int across = direct.tiles_across, down = static_cast<int>(direct.tiles) / across;
    const TileMap tiles = {m,
                           direct.costs + result * m.orows * m.ocols,
                           direct.bests + result * direct.tiles,
                           across,
                           down,
                           tile_rows,
                           static_cast<int>(rank),
                           static_cast<int>(blocks)};
    cusMatch *const results = refinement.results + result * m.max_matches;
    Candidate own = tiles.bestOwn();
    int round = 0;
    for (; round < m.max_matches; ++round) {
        Candidate *const turn = bests_of_blocks[round % 2];
        if (threadIdx.x < blocks)
            storeInBlock(threadIdx.x, turn + rank, own);
        cusi::clusterBarrier();
        Candidate best = turn[0];
        for (unsigned i = 1; i < blocks; ++i)
            if (isBetter(turn[i], best))
                best = turn[i];
        cusMatch match = matchOf(m, best, nullptr);
        if (match.x < 0) // in all blocks
            break;
        if (rank == 0 && threadIdx.x == 0) {
            if (m.subpixel)
                tiles.setFractions(best, match);
            results[round] = match;
        }
        if (round + 1 == m.max_matches)
            return;
        if (m.subpixel)
            cusi::clusterBarrier(); // the costs beside the match have been read
        if (tiles.remove(match)) {
            __syncthreads();
            own = tiles.bestOwn();
        }
    }
    const cusMatch none = {-1, -1, NAN, 0, 0, 0, -1};
    for (int i = round + threadIdx.x; rank == 0 && i < m.max_matches; i += blockDim.x)
        results[i] = none;
}

} // namespace

cusStatus prepareMatches(MatchCuda *cuda) {
    int most = 1;
    CUS_TRY(cusi::mostClusterBlocks("cusMatcherCreate", matchesKernel, THREADS_IN_CLUSTER, &most));
    // Clusters that do not run at once would take turns.
    const int results = cuda->stages.model.count * cuda->stages.direct.frames;
    int &blocks = cuda->stages.direct.match_blocks;
    for (blocks = cusi::CLUSTER_BLOCKS; blocks > 1 && (blocks > most || results * blocks > 2 * cuda->multiprocessors);)
        blocks /= 2;
    return CUS_OK;
}

cusStatus launchMatches(const Stages &stages, int results, int tile_rows, cudaStream_t stream) {
    const int blocks = stages.direct.match_blocks;
    return cusi::launchClusters("cusMatcherRun", blocks, matchesKernel, blocks * results,
                                blocks > 1 ? THREADS_IN_CLUSTER : THREADS_ALONE, 0, stream, stages.model, stages.direct,
                                stages.refinement, tile_rows);
}

} // namespace cusi::match
