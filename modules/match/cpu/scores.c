/* Computes the scores of one block and their ranges from correlations, by FFT or direct (dots.c). */
#include "match/cpu/state.h"

CUSI_MULTIVERSION
static void widen(const float *in, size_t n, double *restrict out) {
    for (size_t x = 0; x < n; ++x)
        out[x] = in[x];
}

static inline void fill(double v, size_t n, double *restrict out) {
    for (size_t x = 0; x < n; ++x)
        out[x] = v;
}
static inline void multiply(const double *a, double factor, size_t n, double *out) {
    for (size_t x = 0; x < n; ++x)
        out[x] = factor * a[x];
}
/* Subtracts a channel's term of match_centeredRounded(). */
static inline void center(const double *a, const double *b, size_t n, double *restrict out) {
    for (size_t x = 0; x < n; ++x)
        out[x] -= a[x] * b[x];
}
/* Adds a channel's term of match_unshift(). */
static inline void unshift(const double *a, const double *b, double p, double q, double pixels, size_t n,
                           double *restrict out) {
    for (size_t x = 0; x < n; ++x)
        out[x] += q * a[x] + p * b[x] + pixels * p * q;
}

/* Finds the windows' sums of squares, or of squared differences from the mean times the number of pixels. For bytes these
 * are integers, and doubles hold them up to 2^53. */
static inline void findEnergies(const MatchModel *m, const double *shift, const double *s1, size_t plane, const double *s2,
                                size_t n, double *restrict energies) {
    const int centered = m->method == CUS_MATCH_CCOEFF_NORMED;
    const size_t channels = s1 ? (size_t)m->channels : 0;
    multiply(s2, centered ? m->n : 1, n, energies);
    for (size_t k = 0; k < channels; ++k)
        if (centered)
            center(s1 + k * plane, s1 + k * plane, n, energies);
        else
            unshift(s1 + k * plane, s1 + k * plane, shift[k], shift[k], m->n, n, energies);
    if (centered && m->integer && !(m->n * m->n * m->channels * 65025 < 0x1p53))
        for (size_t x = 0; x < n; ++x) {
            double sums[MATCH_MAX_CHANNELS];
            for (size_t k = 0; k < channels; ++k)
                sums[k] = s1[k * plane + x];
            energies[x] = match_centered(m, s2[x], sums, sums).high;
        }
}

/* Divides values by their norms, and sets the errors of the quotients. */
static inline void divide(const MatchModel *m, double templ, double error, double uncertain,
                          const double *restrict energies, size_t n, double *restrict values, double *restrict errors) {
    const double root = sqrt(templ > 0 ? templ : 0), without = m->method == CUS_MATCH_SQDIFF_NORMED ? 1 : 0;
    const double pixels = m->method == CUS_MATCH_CCOEFF_NORMED ? m->n : 1, rounding = m->integer ? 1e-12 : 3e-10;
    for (size_t x = 0; x < n; ++x) {
        const double norm = sqrt(energies[x] > 0 ? energies[x] : 0) * root;
        const double quotient = match_clamp(values[x] / norm, -1, 1), of_quotient = error / norm;
        values[x] = norm > 0 ? quotient : without;
        errors[x] = norm > 0 ? of_quotient : 0;
    }
    if (uncertain > 0)
        for (size_t x = 0; x < n; ++x) {
            const double energy = energies[x] / pixels, relative = uncertain / energy;
            const double both = (errors[x] + relative) * (1 + relative);
            errors[x] = energy > MATCH_MIN_ENERGY * uncertain ? both : 2;
        }
    for (size_t x = 0; x < n; ++x)
        errors[x] = errors[x] < 2 ? errors[x] + rounding : 2;
}

/* Each step is taken for all positions before the next, so that it vectorizes. */
CUSI_MULTIVERSION
void match_findRanges(const MatchModel *m, const MatchTemplate *t, const double *shift, MatchError error,
                      const double *correlation, const double *s1, size_t plane, const double *s2, size_t n, float *score,
                      MatchRange *ranges) {
    const int smallest = match_smallestIsBest(m->method);
    const int means = m->method == CUS_MATCH_CCOEFF || m->method == CUS_MATCH_CCOEFF_NORMED;
    const double bound = (smallest ? 2 : 1) * error.correlation + error.score;
    double values[MATCH_PART], energies[MATCH_PART], errors[MATCH_PART], same[MATCH_PART];
    multiply(correlation, error.unit, n, values);
    if (means)
        multiply(values, m->n, n, values);
    for (size_t x = 0; smallest && x < n; ++x) {
        const double squares = s2[x] - 2 * values[x] + t->t2;
        values[x] = squares > 0 ? squares : 0;
    }
    for (size_t k = 0; s1 && !smallest && k < (size_t)m->channels; ++k) {
        fill(t->t1[k], n, same);
        if (means)
            center(s1 + k * plane, same, n, values);
        else
            unshift(s1 + k * plane, same, shift[k], t->shift[k], m->n, n, values);
    }
    if (m->method == CUS_MATCH_CCOEFF)
        for (size_t x = 0; x < n; ++x)
            values[x] /= m->n;
    if (m->method == CUS_MATCH_CCOEFF_NORMED && !(m->n * t->variation > 0)) {
        fill(1, n, values);
        fill(m->integer ? 1e-12 : 3e-10, n, errors);
    } else if (m->method & 1) {
        findEnergies(m, shift, s1, plane, s2, n, energies);
        divide(m, means ? m->n * t->variation : t->raw_t2, means ? bound * m->n : bound, error.energy, energies, n, values,
               errors);
    } else {
        const double relative = !m->integer ? 1e-10 : means ? 1e-12 : 0, step = m->integer ? 0 : t->step * 0x1p36;
        for (size_t x = 0; x < n; ++x)
            errors[x] = bound + relative * (fabs(values[x]) + step);
    }
    const double sign = smallest ? 1 : -1;
    for (size_t x = 0; x < n; ++x) {
        const double cost = sign * values[x], margin = errors[x] + fabs(values[x]) * 0x1p-22;
        ranges[x] = (MatchRange){(float)((cost - margin) * error.range), (float)((cost + margin) * error.range)};
        score[x] = (float)(values[x] * m->unit);
    }
}

/* Computes scores and ranges of row y of the block from its correlations. */
static void assembleRow(const MatchModel *m, const MatchTemplate *t, MatchError error, const Block *block, size_t y,
                        const MatchHost *host, const double *correlation, float *score, MatchRange *ranges) {
    const size_t row = y * block->cols;
    const double *s1 = m->needs_s1 ? host->s1 + row : NULL, *s2 = m->needs_s2 ? host->s2 + row : correlation;
    for (size_t x = 0; x < block->cols; x += MATCH_PART) {
        const size_t n = block->cols - x < MATCH_PART ? block->cols - x : MATCH_PART;
        match_findRanges(m, t, host->shift, error, correlation + x, s1 ? s1 + x : NULL, block->rows * block->cols, s2 + x,
                         n, score + x, ranges + x);
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
    else
        match_dotRow(m, host, block, k, y, row);
    assembleRow(m, &host->sums[k], error, block, y, host, row, score, ranges);
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
#pragma omp parallel for schedule(static, match_rowsAtOnce(host)) num_threads(host->threads) if (host->threads > 1)
        for (size_t y = 0; y < block->rows; ++y)
            if (!cusi_step(host->progress, 0))
                scoreRow(m, host, scores, errors[k], block, k, y);
    }
    cusi_step(host->progress, 1);
}
