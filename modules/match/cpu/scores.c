/* Computes the scores of one block and their ranges from correlations, by FFT or direct (dots.c). */
#include "match/cpu/state.h"

CUSI_MULTIVERSION
static void widen(const float *in, size_t n, double *restrict out) {
    for (size_t x = 0; x < n; ++x)
        out[x] = in[x];
}

/* Handles SQDIFF apart from match_range(), with the same results for bytes, so that it vectorizes. */
static inline void assemble(const double *c, const double *s2, size_t n, double t2, MatchError error, double range,
                            double unit, float *score, MatchRange *ranges) {
    const double twice = 2 * error.unit, bound = 2 * error.correlation + error.score;
    for (size_t x = 0; x < n; ++x) {
        double value = s2[x] - twice * c[x] + t2;
        value = value > 0 ? value : 0;
        const double margin = bound + value * 0x1p-22;
        ranges[x] = (MatchRange){(float)((value - margin) * range), (float)((value + margin) * range)};
        score[x] = (float)(value * unit);
    }
}

CUSI_MULTIVERSION
static void assembleSquares(const double *c, const double *s2, size_t n, double t2, MatchError error, double unit,
                            float *score, MatchRange *ranges) {
    if (error.range == 1 && unit == 1) /* spares bytes multiplications by 1 */
        assemble(c, s2, n, t2, error, 1, 1, score, ranges);
    else
        assemble(c, s2, n, t2, error, error.range, unit, score, ranges);
}

/* Computes scores and ranges of row y of the block from its correlations. */
static void assembleRow(const MatchModel *m, const MatchTemplate *t, MatchError error, const Block *block, size_t y,
                        const MatchHost *host, const double *correlation, float *score, MatchRange *ranges) {
    const size_t row = y * block->cols;
    if (m->method == CUS_MATCH_SQDIFF) {
        assembleSquares(correlation, host->s2 + row, block->cols, t->t2, error, m->unit, score, ranges);
        return;
    }
    for (size_t x = 0; x < block->cols; ++x) {
        double s1[MATCH_MAX_CHANNELS] = {0};
        for (size_t c = 0; m->needs_s1 && c < (size_t)m->channels; ++c)
            s1[c] = host->s1[c * block->rows * block->cols + row + x];
        ranges[x] =
            match_range(m, t, host->shift, correlation[x], error, s1, m->needs_s2 ? host->s2[row + x] : 0, &score[x]);
    }
}

/* Computes row y of the block in the score map of template k. */
static void scoreRow(const MatchModel *m, const MatchHost *host, cusMat *scores, MatchError error, const Block *block,
                     int k, size_t y) {
    const size_t thread = match_thisThread() * (size_t)host->block_cols;
    MatchRange *ranges = host->ranges + ((size_t)k * (size_t)m->orows + block->y + y) * (size_t)m->ocols + block->x;
    float *score =
        scores ? (float *)((char *)scores[k].data + (block->y + y) * scores[k].step) + block->x : host->score_row + thread;
    double *row = host->correlation + thread;
    if (host->fft)
        widen(host->plane + y * (size_t)host->fft_cols, block->cols, row);
    assembleRow(m, &host->sums[k], error, block, y, host, host->fft ? row : match_dotRow(m, host, block, k, y), score,
                ranges);
}

void match_scoreBlock(cusMatcher *matcher, const cusMat *frame, cusMat *scores, const MatchError *errors,
                      const Block *block) {
    const MatchModel *m = &matcher->model;
    const MatchHost *host = matcher->backend;
    if (host->fft)
        match_transformBlock(m, host, host->fft, frame, block, host->plane, host->spectra);
    else
        match_packBlock(m, host, frame, block);
    cusi_step(host->progress, 0);
    match_windowSums(m, host, frame, block);
    for (int k = 0; k < m->count && !cusi_step(host->progress, 1); ++k) {
        if (host->fft)
            match_fft_correlateAll(host->fft, host->spectra,
                                   host->template_spectra + (size_t)(k * m->channels) * match_fft_spectrumSize(host->fft),
                                   m->channels, host->product, host->plane);
#pragma omp parallel for schedule(static, MATCH_DOTS_ROWS) num_threads(host->threads) if (host->threads > 1)
        for (size_t y = 0; y < block->rows; ++y)
            if (!cusi_step(host->progress, 0))
                scoreRow(m, host, scores, errors[k], block, k, y);
    }
    cusi_step(host->progress, 1);
}
