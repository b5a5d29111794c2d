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
/* Subtracts a channel's term of match_centeredRounded(), of a template or of the window itself. */
static inline void center(const double *a, double b, size_t n, double *restrict out) {
    for (size_t x = 0; x < n; ++x)
        out[x] -= a[x] * b;
}
static inline void centerSquare(const double *a, size_t n, double *restrict out) {
    for (size_t x = 0; x < n; ++x)
        out[x] -= a[x] * a[x];
}
/* Adds a channel's term of match_unshift(), likewise. */
static inline void unshift(const double *a, double b, double p, double q, double pixels, size_t n, double *restrict out) {
    for (size_t x = 0; x < n; ++x)
        out[x] += q * a[x] + p * b + pixels * p * q;
}
static inline void unshiftSquare(const double *a, double p, double pixels, size_t n, double *restrict out) {
    for (size_t x = 0; x < n; ++x)
        out[x] += p * a[x] + p * a[x] + pixels * p * p;
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
            centerSquare(s1 + k * plane, n, energies);
        else
            unshiftSquare(s1 + k * plane, shift[k], m->n, n, energies);
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

/* Finds ranges of normed scores of bytes by estimates in float, whose roots and quotients take a fifth of the time. Six
 * roundings of an estimate and two of a range's end add up to less than 2^-20 of it, four of the error to less than 2^-20
 * of that. Sums are integers below 2^84, so no value comes near the ends of float. */
static inline void estimateRanges(const MatchModel *m, double templ, double error, double sign,
                                  const double *restrict energies, size_t n, const double *restrict values,
                                  MatchRange *restrict ranges) {
    const float scale = (float)(1 / sqrt(templ > 0 ? templ : 1)), without = m->method == CUS_MATCH_SQDIFF_NORMED ? 1 : 0;
    const float bound = (float)(error * (1 + 0x1p-20)), direction = (float)sign;
    for (size_t x = 0; x < n; ++x) {
        const int has_norm = energies[x] > 0 && templ > 0;
        const float inverse = scale / sqrtf(has_norm ? (float)energies[x] : 1), raw = (float)values[x] * inverse;
        const float high = raw > 1 ? 1 : raw, quotient = has_norm ? (high < -1 ? -1 : high) : without;
        const float cost = direction * quotient, magnitude = quotient < 0 ? -quotient : quotient;
        const float uncertain = (has_norm ? bound * inverse : 0) + 1e-12F, margin = uncertain + magnitude * 0x1p-20F;
        ranges[x] = (MatchRange){cost - margin, cost + margin};
    }
}

/* Each step is taken for all positions before the next, so that it vectorizes. */
CUSI_MULTIVERSION
void match_findRanges(const MatchModel *m, const MatchTemplate *t, const double *shift, MatchError error,
                      const double *correlation, const double *s1, size_t plane, const double *s2, size_t n, float *score,
                      MatchRange *ranges) {
    const int smallest = match_smallestIsBest(m->method);
    const int means = m->method == CUS_MATCH_CCOEFF || m->method == CUS_MATCH_CCOEFF_NORMED;
    const int flat = m->method == CUS_MATCH_CCOEFF_NORMED && !(m->n * t->variation > 0);
    const double bound = (smallest ? 2 : 1) * error.correlation + error.score;
    const int estimated = m->integer && (m->method & 1) && !flat; /* ranges; scores never are */
    const double sign = smallest ? 1 : -1;
    double values[MATCH_TILE], energies[MATCH_TILE], errors[MATCH_TILE];
    if (!smallest)
        multiply(correlation, error.unit * (means ? m->n : 1), n, values); /* the unit is a power of two */
    for (size_t x = 0; smallest && x < n; ++x) {
        const double squares = s2[x] - 2 * (correlation[x] * error.unit) + t->t2;
        values[x] = squares > 0 ? squares : 0;
    }
    for (size_t k = 0; s1 && !smallest && k < (size_t)m->channels; ++k) {
        if (means)
            center(s1 + k * plane, t->t1[k], n, values);
        else
            unshift(s1 + k * plane, t->t1[k], shift[k], t->shift[k], m->n, n, values);
    }
    if (m->method == CUS_MATCH_CCOEFF)
        for (size_t x = 0; x < n; ++x)
            values[x] /= m->n;
    if (flat) {
        fill(1, n, values);
        fill(m->integer ? 1e-12 : 3e-10, n, errors);
    } else if (m->method & 1) {
        findEnergies(m, shift, s1, plane, s2, n, energies);
        const double templ = means ? m->n * t->variation : t->raw_t2, uncertain = means ? bound * m->n : bound;
        if (estimated)
            estimateRanges(m, templ, uncertain, sign, energies, n, values, ranges);
        if (estimated && !score)
            return;
        divide(m, templ, uncertain, error.energy, energies, n, values, errors);
    } else {
        const double relative = !m->integer ? 1e-10 : means ? 1e-12 : 0, step = m->integer ? 0 : t->step * 0x1p36;
        for (size_t x = 0; x < n; ++x)
            errors[x] = bound + relative * (fabs(values[x]) + step);
    }
    for (size_t x = 0; score && x < n; ++x)
        score[x] = (float)(values[x] * m->unit);
    for (size_t x = 0; !estimated && x < n; ++x) {
        const double cost = sign * values[x], margin = errors[x] + fabs(values[x]) * 0x1p-22;
        ranges[x] = (MatchRange){(float)((cost - margin) * error.range), (float)((cost + margin) * error.range)};
    }
}

/* Computes row y of the block in the score map of template k. */
static void scoreRow(const MatchModel *m, const MatchHost *host, cusMat *scores, MatchError error, const Block *block,
                     int k, size_t y) {
    const size_t cols = block->cols, map = (size_t)k * (size_t)m->orows + block->y + y,
                 sums = match_sumsRow(m, host, y) * cols;
    MatchRange *ranges = host->ranges + map * (size_t)m->ocols + block->x;
    Tile *tiles = host->tiles + map * match_tilesAcross(m) + block->x / MATCH_TILE;
    float *score = scores ? (float *)((char *)scores[k].data + (block->y + y) * scores[k].step) + block->x : NULL;
    double *row = host->correlation + match_thisThread() * (size_t)host->block_cols;
    if (host->fft)
        widen(host->plane + y * (size_t)host->fft_cols, cols, row);
    else
        match_dotRow(m, host, block, k, y, row);
    const double *s1 = m->needs_s1 ? host->s1 + sums : NULL, *s2 = m->needs_s2 ? host->s2 + sums : row;
    for (size_t x = 0; x < cols; x += MATCH_TILE) {
        const size_t n = cols - x < MATCH_TILE ? cols - x : MATCH_TILE;
        match_findRanges(m, &host->sums[k], host->shift, error, row + x, s1 ? s1 + x : NULL, host->sums_rows * cols, s2 + x,
                         n, score ? score + x : NULL, ranges + x);
        match_leastEnds(ranges + x, n, &tiles[x / MATCH_TILE].lower, &tiles[x / MATCH_TILE].upper);
        tiles[x / MATCH_TILE].known = 0;
        tiles[x / MATCH_TILE].best = MATCH_NOTHING;
    }
}

/* Computes the score maps of templates first .. end - 1 in a block. Each thread has a strip of rows, whose window sums
 * stay in its cache. */
static void scoreTemplates(const MatchModel *m, const MatchHost *host, const cusMat *frame, cusMat *scores,
                           const MatchError *errors, const Block *block, int first, int end) {
    const size_t together = match_rowsAtOnce(host);
#pragma omp parallel for schedule(static) num_threads(host->threads) if (host->threads > 1)
    for (size_t strip = 0; strip < (size_t)host->threads; ++strip) {
        const size_t start = match_stripStart(host, block, strip), stop = match_stripStart(host, block, strip + 1);
        for (size_t y0 = start; y0 < stop; y0 += together) {
            const size_t y1 = stop - y0 < together ? stop : y0 + together;
            for (size_t y = y0; y < y1; ++y)
                match_rowSums(m, host, frame, block, start, y);
            for (int k = first; k < end; ++k)
                for (size_t y = y0; y < y1 && !cusi_step(host->progress, 0); ++y)
                    scoreRow(m, host, scores, errors[k], block, k, y);
        }
    }
    cusi_step(host->progress, end - first);
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
    match_maskedSums(m, host, frame, block);
    if (!host->fft)
        scoreTemplates(m, host, frame, scores, errors, block, 0, m->count);
    for (int k = 0; host->fft && k < m->count && !cusi_step(host->progress, 0); ++k) {
        match_fft_correlateAll(host->fft, host->spectra,
                               host->template_spectra + (size_t)(k * m->channels) * match_fft_spectrumSize(host->fft),
                               m->channels, host->product, host->plane);
        scoreTemplates(m, host, frame, scores, errors, block, k, k + 1);
    }
    cusi_step(host->progress, 1);
}
