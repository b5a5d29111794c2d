// Scores from cuFFT's correlations.
#include "match/cuda/scores.cuh"

namespace cusi::match {

namespace {

constexpr int TILE_COLS = 64, TILE_ROWS = 32, ITEMS = 8; // scores of a thread
static_assert(ITEMS * THREADS == TILE_COLS * TILE_ROWS, "a block's threads cover its tile");

// One block a tile and template.
template<class T, int CN, bool SQUARED>
__global__ void __launch_bounds__(THREADS)
    scoresKernel(const __grid_constant__ MatchModel m, const __grid_constant__ CuFft fft,
                 const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                 const __grid_constant__ Energy energy, const __grid_constant__ Scores scores) {
    cusi::startInOrder();
    const int k = blockIdx.z, tile_x = blockIdx.x, tile_y = blockIdx.y;
    const int x0 = tile_x * TILE_COLS, y0 = tile_y * TILE_ROWS;
    const ScoreWriter<CN, SQUARED> writer = {m, scores,           templates.sums[k],
                                             k, energy.errors[k], m.integer || energy.planes[0] < MATCH_MAX_ENERGY};
    // Neighboring threads handle neighboring columns.
    const auto rowOfScore = [&](int i) { return y0 + i * 4 + static_cast<int>(threadIdx.x) / TILE_COLS; };
    const int x = x0 + static_cast<int>(threadIdx.x) % TILE_COLS, column = min(x, m.ocols - 1);
    const float *correlation = fft.correlations + static_cast<size_t>(k) * fft.rows * fft.cols;
    const double constant = m.masked ? maskedConstant(m, templates, k) : 0;
    // All loads come before the first store, so that they overlap.
    double c[ITEMS], s1[ITEMS][CN] = {}, s2[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int y = min(rowOfScore(i), m.orows - 1);
        c[i] = static_cast<double>(correlation[static_cast<size_t>(y) * fft.cols + column]) + constant;
        windowAt<T, SQUARED>(m, windows, y, column, s1[i], s2[i]);
    }
    MatchRange least = {INFINITY, INFINITY};
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int y = rowOfScore(i);
        if (y >= m.orows || x >= m.ocols)
            continue;
        const MatchRange range = writer.write(y, x, c[i], s1[i], s2[i]);
        least.lower = fminf(least.lower, range.lower);
        least.upper = fminf(least.upper, range.upper);
    }
    const size_t tile = (static_cast<size_t>(k) * scores.tiles_down + tile_y) * scores.tiles_across + tile_x;
    const float lower = cusi::blockMin(least.lower), upper = cusi::blockMin(least.upper);
    if (threadIdx.x == 0) {
        scores.tile_lowers[tile] = lower;
        scores.block_uppers[tile] = upper;
    }
}

template<class T, int CN>
cusStatus launchTyped(const Stages &stages, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    const bool squared = m.method == CUS_MATCH_SQDIFF && !m.masked;
    const auto kernel = squared ? scoresKernel<T, CN, true> : scoresKernel<T, CN, false>;
    const dim3 tiles(stages.scores.tiles_across, stages.scores.tiles_down, m.count);
    return cusi::launchOverlapped("cusMatcherRun", kernel, tiles, THREADS, 0, stream, m, stages.cufft, stages.templates,
                                  stages.windows, stages.energy, stages.scores);
}

} // namespace

cusStatus launchScores(const Stages &stages, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    return !m.integer        ? launchTyped<float, 1>(stages, stream)
           : m.channels == 1 ? launchTyped<uint8_t, 1>(stages, stream)
                             : launchTyped<uint8_t, 3>(stages, stream);
}

} // namespace cusi::match
