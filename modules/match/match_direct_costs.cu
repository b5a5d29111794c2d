// Further matches of small templates where very many positions may be the best: the exact costs of all positions by direct
// correlation, once, and all matches from them.
#include "match_candidates.cuh"
#include "match_costs.cuh"
#include "match_direct.cuh"

namespace match {

namespace {

constexpr int ROWS_OF_TILE = TILE_ROWS / COST_TILE_ROWS;
static_assert(TILE_COLS / COST_TILE_COLS * ROWS_OF_TILE == WARPS, "a warp updates one tile of costs");

// The costs of a tile of 64 x 32 positions.
template<class T, int CN, bool DOT_PRODUCTS>
__device__ __forceinline__ void storeCosts(const MatchModel &m, const Frame &frame, const Templates &templates,
                                           const Windows &windows, int k, int y0, int x0, double *costs) {
    if constexpr (DOT_PRODUCTS) {
        ThreadSums sums;
        DotProducts<CN>::correlate(m, frame, templates, k, y0, x0, sums);
        const int x = x0 + static_cast<int>(threadIdx.x) % 16 * 4, y = y0 + static_cast<int>(threadIdx.x) / 16 * 2;
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (y + i / 4 < m.orows && x + i % 4 < m.ocols)
                costs[static_cast<size_t>(y + i / 4) * m.ocols + x + i % 4] =
                    costOf<T>(m, templates.sums[k], windows, y + i / 4, x + i % 4, sums[i / 4][i % 4]);
    } else {
        for (int i = threadIdx.x; i < TILE_ROWS * TILE_COLS; i += THREADS) {
            const int y = y0 + i / TILE_COLS, x = x0 + i % TILE_COLS;
            if (y < m.orows && x < m.ocols)
                costs[static_cast<size_t>(y) * m.ocols + x] = exactCost<T>(
                    m, templates, windows, k, y, x, sumWindowPart<T>(m, frame, templates, {k, y, x, 0, m.h, 0, 1}));
        }
    }
}

// blockIdx.y: the template. Finds nothing to do unless a list of candidates has overflowed.
template<class T, int CN, bool DOT_PRODUCTS>
__global__ void __launch_bounds__(THREADS)
    directCostsKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                      const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                      const __grid_constant__ Scores scores, const __grid_constant__ Refinement refinement,
                      const __grid_constant__ ExactCosts exact) {
    cusi::startInOrder();
    const int k = blockIdx.y, warp = static_cast<int>(threadIdx.x) / 32;
    const unsigned overflow = refinement.overflows[k];
    if (!overflow)
        return;
    const CostMap<THREADS> map(m, scores, exact, k);
    double *costs = exact.positions + static_cast<size_t>(k) * m.orows * m.ocols;
    for (int tile = blockIdx.x; tile < scores.tiles_across * scores.tiles_down; tile += gridDim.x) {
        const int ty = tile / scores.tiles_across, tx = tile % scores.tiles_across;
        storeCosts<T, CN, DOT_PRODUCTS>(m, frame, templates, windows, k, ty * TILE_ROWS, tx * TILE_COLS, costs);
        __syncthreads();
        const int y = ty * ROWS_OF_TILE + warp % ROWS_OF_TILE, x = tx * (TILE_COLS / COST_TILE_COLS) + warp / ROWS_OF_TILE;
        if (y < map.down && x < map.across)
            map.updateTile(y, x, [](int, int) { return false; });
    }
    if (!isLastBlock(&refinement.tickets[k]))
        return;
    map.findMatches(static_cast<int>(overflow) - 1, refinement.results + static_cast<size_t>(k) * m.max_matches);
    if (threadIdx.x == 0)
        refinement.overflows[k] = refinement.tickets[k] = 0;
}

template<class T, int CN, bool DOT_PRODUCTS>
cusStatus launchTyped(const Stages &stages, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    return cusi::launchOverlapped("cusMatcherRun", directCostsKernel<T, CN, DOT_PRODUCTS>,
                                  dim3(stages.dense.blocks, m.count), THREADS, 0, stream, m, stages.frame, stages.templates,
                                  stages.windows, stages.scores, stages.refinement, stages.dense.exact);
}

} // namespace

cusStatus chooseDirectCosts(MatchCuda *cuda, cudaStream_t stream) {
    constexpr int BLOCKS = 4; // on a multiprocessor
    Stages &stages = cuda->stages;
    if (stages.model.max_matches == 1) // refineKernel sums up the windows
        return CUS_OK;
    stages.dense.blocks = std::max(1, BLOCKS * cuda->multiprocessors / stages.model.count);
    CUS_TRY(allocate(cuda, &stages.refinement.overflows, stages.model.count, stream));
    CUS_TRY(allocateCosts(cuda, stream));
    return stages.model.integer ? chooseSelect(cuda, stream) : CUS_OK;
}

cusStatus launchDirectCosts(const Stages &stages, Correlation source, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    if (!m.integer)
        return launchTyped<float, 1, false>(stages, stream);
    if (source == Correlation::PLAIN)
        return launchTyped<uint8_t, 1, false>(stages, stream);
    return m.channels == 1 ? launchTyped<uint8_t, 1, true>(stages, stream) : launchTyped<uint8_t, 3, true>(stages, stream);
}

} // namespace match
