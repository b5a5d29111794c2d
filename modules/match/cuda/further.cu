// Further matches: non-maximum suppression between the matches of a frame.
#include "match/cuda/stages.cuh"

namespace match {

namespace {

// Removes the neighborhood of the previous round's match from the map. A block handles the tiles of one of block_uppers, a
// warp one tile at a time.
__global__ void __launch_bounds__(THREADS)
    removeNeighborhoodKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Scores scores,
                             const __grid_constant__ Refinement refinement) {
    cusi::startInOrder();
    const int k = blockIdx.y;
    if (refinement.overflows && refinement.overflows[k]) // exactCorrelationKernel finds the match of the previous round
        return;
    const int tiles = scores.tiles_across * scores.tiles_down / scores.upper_count;
    const int first = blockIdx.x * tiles;
    const cusMatch match = refinement.results[static_cast<size_t>(k) * m.max_matches + refinement.round - 1];
    const long long d = m.min_distance, y0 = static_cast<long long>(first / scores.tiles_across) << scores.tile_rows_log2;
    if (match.x < 0 || y0 >= match.y + d || y0 + (1 << scores.tile_rows_log2) <= match.y - d + 1)
        return;
    float upper = INFINITY;
    for (int tile = first + threadIdx.x / 32; tile < first + tiles; tile += WARPS) {
        float lower = INFINITY;
        for (int i = threadIdx.x % 32; i < 1 << (scores.tile_cols_log2 + scores.tile_rows_log2); i += 32) {
            int y, x;
            if (!tilePosition(m, scores, tile, i, y, x))
                continue;
            MatchRange &range = scores.ranges[(static_cast<size_t>(k) * m.orows + y) * m.ocols + x];
            if (abs(x - match.x) < d && abs(y - match.y) < d)
                range = {INFINITY, INFINITY};
            lower = fminf(lower, range.lower);
            upper = fminf(upper, range.upper);
        }
        lower = cusi::warpMin(lower);
        if (threadIdx.x % 32 == 0)
            scores.tile_lowers[static_cast<size_t>(k) * scores.tiles_across * scores.tiles_down + tile] = lower;
    }
    upper = cusi::blockMin(upper);
    if (threadIdx.x == 0)
        scores.block_uppers[static_cast<size_t>(k) * scores.upper_count + blockIdx.x] = upper;
}

} // namespace

cusStatus launchRemoveNeighborhood(const Stages &stages, cudaStream_t stream) {
    const Scores &scores = stages.scores;
    return cusi::launchOverlapped("cusMatcherRun", removeNeighborhoodKernel, dim3(scores.upper_count, stages.model.count),
                                  THREADS, 0, stream, stages.model, scores, stages.refinement);
}

} // namespace match
