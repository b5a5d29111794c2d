// Finds the matches of each template or frame from its costs at all positions: the best of all tiles, then the best outside
// its neighborhood, and so on.
#include "match/cuda/direct.cuh"

namespace cusi::match {

namespace {

constexpr int MATCH_THREADS = 1024;
__global__ void __launch_bounds__(MATCH_THREADS)
    directMatchesKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Direct direct,
                        const __grid_constant__ Refinement refinement, int tile_rows, int tiles) {
    __shared__ cusMatch found;
    cusi::startInOrder();
    const int k = blockIdx.x;
    double *costs = direct.costs + static_cast<size_t>(k) * m.orows * m.ocols;
    Candidate *bests = direct.bests + static_cast<size_t>(k) * tiles;
    cusMatch *results = refinement.results + static_cast<size_t>(k) * m.max_matches;
    int round = 0;
    for (; round < m.max_matches; ++round) {
        Candidate best = noCandidate();
        for (int i = threadIdx.x; i < tiles; i += MATCH_THREADS)
            if (isBetter(bests[i], best))
                best = bests[i];
        best = blockBestToFirst<MATCH_THREADS / 32>(best);
        if (threadIdx.x == 0) {
            double around[4]; // infinite where earlier matches have removed positions
            for (int i = 0; i < 4 && m.subpixel; ++i) {
                const uint64_t at = match_neighbor(&m, best.position, i);
                around[i] = best.position != ~0ull && at != UINT64_MAX ? costs[at] : NAN;
            }
            results[round] = found = matchOf(m, best, m.subpixel ? around : nullptr);
        }
        __syncthreads();
        if (found.x < 0)
            break;
        const long long d = m.min_distance;
        const int left = static_cast<int>(max(found.x - d + 1, 0ll)) / TILE_COLS,
                  top = static_cast<int>(max(found.y - d + 1, 0ll)) / tile_rows;
        const int right = static_cast<int>(min(found.x + d, static_cast<long long>(m.ocols)) - 1) / TILE_COLS;
        const int bottom = static_cast<int>(min(found.y + d, static_cast<long long>(m.orows)) - 1) / tile_rows;
        for (int tile_y = top; tile_y <= bottom; ++tile_y)
            for (int tile_x = left; tile_x <= right; ++tile_x) {
                best = noCandidate();
                for (int j = threadIdx.x; j < TILE_COLS * tile_rows; j += MATCH_THREADS) {
                    const int x = tile_x * TILE_COLS + j % TILE_COLS, y = tile_y * tile_rows + j / TILE_COLS;
                    if (x >= m.ocols || y >= m.orows)
                        continue;
                    const size_t position = static_cast<size_t>(y) * m.ocols + x;
                    if (abs(x - found.x) < d && abs(y - found.y) < d)
                        costs[position] = INFINITY;
                    else if (costs[position] < best.cost)
                        best = {costs[position], position};
                }
                best = blockBestToFirst<MATCH_THREADS / 32>(best);
                if (threadIdx.x == 0)
                    bests[tile_y * direct.tiles_across + tile_x] = best;
            }
        __syncthreads();
    }
    const cusMatch none = {-1, -1, NAN, 0, 0, 0, -1};
    for (int i = round + threadIdx.x; i < m.max_matches; i += MATCH_THREADS)
        results[i] = none;
}

} // namespace

cusStatus launchMatches(const Stages &stages, int results, int tile_rows, cudaStream_t stream) {
    return cusi::launchOverlapped("cusMatcherRun", directMatchesKernel, results, MATCH_THREADS, 0, stream, stages.model,
                                  stages.direct, stages.refinement, tile_rows, static_cast<int>(stages.direct.tiles));
}

} // namespace cusi::match
