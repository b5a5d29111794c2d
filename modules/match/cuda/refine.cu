// refineKernel finds one match; removeNeighborhoodKernel suppresses positions near it before the next one is sought.
#include "match/cuda/refine.cuh"

namespace cusi::match {

namespace {

// If the list overflows, exactCorrelationKernel takes over. Without an exact pass, the blocks search the tiles instead.
template<class T>
__global__ void __launch_bounds__(REFINE_THREADS)
    refineKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                 const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                 const __grid_constant__ Scores scores, const __grid_constant__ Refinement refinement) {
    cusi::startInOrder();
    const int k = blockIdx.y, blocks = gridDim.x;
    if (refinement.round && refinement.overflows && refinement.overflows[k]) // it overflowed in an earlier round
        return;
    const Map map = mapOf(m, scores, k);
    float threshold;
    if (refine<T>(m, frame, templates, windows, scores, refinement, map, k, threshold))
        return;
    if (refinement.overflows) {
        if (blockIdx.x == 0 && threadIdx.x == 0)
            refinement.overflows[k] = static_cast<unsigned>(refinement.round) + 1;
        return;
    }
    Candidate *bests = reinterpret_cast<Candidate *>(partialsOf<T>(refinement, k)); // one for each block
    Candidate best =
        blockBestToFirst<REFINE_WARPS>(searchTiles<T>(m, frame, templates, windows, scores, k, map, threshold));
    if (threadIdx.x == 0)
        bests[blockIdx.x] = best;
    if (!isLastBlock(&refinement.tickets[k]))
        return;
    best = noCandidate();
    for (int i = threadIdx.x; i < blocks; i += REFINE_THREADS)
        if (isBetter(bests[i], best))
            best = bests[i];
    const cusMatch match =
        matchByBlock<T>(m, frame, templates, windows, refinement, map.ranges, k, blockBestToFirst<REFINE_WARPS>(best));
    if (threadIdx.x == 0)
        storeMatch(m, refinement, k, match);
}

constexpr int AT_ONCE = 4; // positions that a thread loads at a time; a tile has 32 times as many or more

// Removes the neighborhood of the previous round's match from the map. A block handles the tiles of one of block_uppers.
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
        for (int i = threadIdx.x % 32; i < 1 << (scores.tile_cols_log2 + scores.tile_rows_log2); i += 32 * AT_ONCE) {
            MatchRange *at[AT_ONCE], ranges[AT_ONCE];
            bool near[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j) {
                int y, x;
                const bool inside = tilePosition(m, scores, tile, i + 32 * j, y, x);
                at[j] = scores.ranges + (static_cast<size_t>(k) * m.orows + y) * m.ocols + x;
                near[j] = inside && abs(x - match.x) < d && abs(y - match.y) < d;
                ranges[j] = inside && !near[j] ? *at[j] : MatchRange{INFINITY, INFINITY};
            }
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j) {
                if (near[j])
                    *at[j] = ranges[j];
                lower = fminf(lower, ranges[j].lower);
                upper = fminf(upper, ranges[j].upper);
            }
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

// Returns the bytes for the partial sums of all slices, or a Candidate of each block.
size_t refinementBytes(const Stages &stages) {
    const MatchModel &m = stages.model;
    const int blocks = stages.refinement.blocks;
    static_assert(sizeof(Candidate) <= sizeof(PartialSums<float>) && sizeof(Candidate) <= 2 * sizeof(PartialSums<uint8_t>));
    return m.count * (m.integer ? 2 * sizeof(PartialSums<uint8_t>) * partialSums<uint8_t>(blocks)
                                : sizeof(PartialSums<float>) * partialSums<float>(blocks));
}

cusStatus launchRefine(const Stages &stages, cudaStream_t stream) {
    if (stages.exact.in_refine)
        return launchExact(stages, stream);
    const MatchModel &m = stages.model;
    return cusi::launchOverlapped("cusMatcherRun", m.integer ? refineKernel<uint8_t> : refineKernel<float>,
                                  dim3(stages.refinement.blocks, m.count), REFINE_THREADS, 0, stream, m, stages.frame,
                                  stages.templates, stages.windows, stages.scores, stages.refinement);
}

cusStatus launchRemoveNeighborhood(const Stages &stages, cudaStream_t stream) {
    const Scores &scores = stages.scores;
    return cusi::launchOverlapped("cusMatcherRun", removeNeighborhoodKernel, dim3(scores.upper_count, stages.model.count),
                                  THREADS, 0, stream, stages.model, scores, stages.refinement);
}

} // namespace cusi::match
