/* The arithmetic of scores is the same on both backends, bit for bit. */
#ifndef CUSI_MATCH_SCORES_H
#define CUSI_MATCH_SCORES_H

#include "match/model.h"

#include <math.h>

#ifdef __CUDACC__
#define MATCH_FN __host__ __device__ static inline
#else
#define MATCH_FN static inline
#endif

MATCH_FN int match_smallestIsBest(cusMatchMethod method) {
    return method == CUS_MATCH_SQDIFF || method == CUS_MATCH_SQDIFF_NORMED;
}

MATCH_FN double match_clamp(double v, double low, double high) {
    return v < low ? low : v > high ? high : v;
}

/* A number of 106 bits is the sum of two doubles: its rounded value, and the rest. */
typedef struct MatchPair {
    double high, low;
} MatchPair;

/* Returns n a - sum over channels of b c. All are integers: n below 2^32, the others below 2^50. */
MATCH_FN MatchPair match_centeredInteger(double n, double a, const double *b, const double *c, int channels) {
    __int128 sum = (__int128)(int64_t)n * (int64_t)a;
    for (int k = 0; k < channels; ++k)
        sum -= (__int128)(int64_t)b[k] * (int64_t)c[k];
    const double upper = (double)(int64_t)(sum >> 32) * 4294967296.0, lower = (double)(uint32_t)sum;
    MatchPair pair;
    pair.high = upper + lower;
    pair.low = lower - (pair.high - upper); /* exact, since upper is 0 or the larger one */
    return pair;
}

/* Returns n times the sum of (a - mean of a) (b - mean of b), in doubles; exact if the pixels and ab are integers. */
MATCH_FN double match_centeredRounded(const MatchModel *m, double ab, const double *a, const double *b) {
    double sum = m->n * ab;
    for (int k = 0; k < m->channels; ++k)
        sum -= a[k] * b[k];
    return sum;
}
MATCH_FN MatchPair match_centered(const MatchModel *m, double ab, const double *a, const double *b) {
    if (m->integer && m->n * m->n * m->channels > 0x1p36) /* otherwise doubles hold all sums: 2^36 255^2 < 2^52 */
        return match_centeredInteger(m->n, ab, a, b, m->channels);
    const MatchPair sum = {match_centeredRounded(m, ab, a, b), 0};
    return sum;
}

/* Returns a / sqrt(b c), rounded once. Before it is rounded, the quotient has a relative error of 2^-100, which matters
 * only that close to the middle between two doubles. */
MATCH_FN double match_ratio(MatchPair a, MatchPair b, MatchPair c) {
    const double square = b.high * c.high;
    const double rest = fma(b.high, c.low, fma(b.low, c.high, fma(b.high, c.high, -square)));
    const double root = sqrt(square), root_rest = (fma(-root, root, square) + rest) / (2 * root);
    const double quotient = a.high / root;
    return quotient + (fma(-quotient, root, a.high) + fma(-quotient, root_rest, a.low)) / root;
}

/* Returns the shift of values with this mean. Integers stay integers. */
MATCH_FN double match_shiftOf(double mean, int integers) {
    return (float)(integers ? rint(mean) : mean);
}

/* Returns the sum of products of unshifted values, from the sum `ab` of products of values shifted by p and by q, and
 * from their sums a and b. */
MATCH_FN double match_unshift(const MatchModel *m, double ab, const double *a, const double *b, const double *p,
                              const double *q) {
    double sum = ab;
    for (int k = 0; k < m->channels; ++k)
        sum += q[k] * a[k] + p[k] * b[k] + m->n * p[k] * q[k];
    return sum;
}

/* Returns the score from the window's exact sums: c = sum I' T', s1 = sum I' of each channel, s2 = sum I'^2, ssd = sum
 * (I - T)^2. p: the pixels' shift. Sums that the method does not need are ignored. */
MATCH_FN double match_score(const MatchModel *m, const MatchTemplate *t, const double *p, double c, const double *s1,
                            double s2, double ssd) {
    switch (m->method) {
    case CUS_MATCH_SQDIFF:
        return ssd;
    case CUS_MATCH_CCORR:
        return match_unshift(m, c, s1, t->t1, p, t->shift);
    case CUS_MATCH_CCOEFF: {
        const MatchPair n = {m->n, 0};
        return match_ratio(match_centered(m, c, s1, t->t1), n, n);
    }
    case CUS_MATCH_CCOEFF_NORMED: {
        const MatchPair flat = match_centered(m, t->t2, t->t1, t->t1), window = match_centered(m, s2, s1, s1);
        /* Rounding of floats of about p is below 2^-100 p^2 n^2; a pixel that differs does so by at least 2^-24 of
         * itself. */
        double least = 0;
        for (int k = 0; k < m->channels && !m->integer; ++k)
            least += 0x1p-60 * p[k] * p[k] * m->n;
        if (!(t->variation > 0))
            return 1;
        return window.high > least ? match_clamp(match_ratio(match_centered(m, c, s1, t->t1), window, flat), -1, 1) : 0;
    }
    default: {
        const int squares = m->method == CUS_MATCH_SQDIFF_NORMED;
        const MatchPair window = {match_unshift(m, s2, s1, s1, p, p), 0}, templ = {t->raw_t2, 0};
        const MatchPair value = {squares ? ssd : match_unshift(m, c, s1, t->t1, p, t->shift), 0};
        if (!(window.high > 0 && templ.high > 0))
            return squares;
        return match_clamp(match_ratio(value, window, templ), squares ? 0 : -1, 1);
    }
    }
}

/* Returns a window's sum of squares; for CCOEFF_NORMED, of differences from the mean. */
MATCH_FN double match_windowEnergy(const MatchModel *m, const double *p, const double *s1, double s2) {
    return m->method == CUS_MATCH_CCOEFF_NORMED ? match_centeredRounded(m, s2, s1, s1) / m->n
                                                : match_unshift(m, s2, s1, s1, p, p);
}

/* A window whose energy is below this many times its error bound counts as having none: its score may be anything. The
 * bound is the worst case; rounding is about a thousand times smaller. */
#define MATCH_MIN_ENERGY 16

/* Does match_score() for sums of squares with the error bound `uncertain`. With normed methods, a window without energy
 * scores like one of zeros, or of one color. */
MATCH_FN double match_scoreOf(const MatchModel *m, const MatchTemplate *t, const double *p, double c, const double *s1,
                              double s2, double ssd, double uncertain) {
    if (uncertain > 0 && (m->method & 1) && !(match_windowEnergy(m, p, s1, s2) > MATCH_MIN_ENERGY * uncertain)) {
        if (m->method == CUS_MATCH_CCOEFF_NORMED)
            return t->variation > 0 ? 0 : 1;
        return m->method == CUS_MATCH_SQDIFF_NORMED ? 1 : 0;
    }
    return match_score(m, t, p, c, s1, s2, ssd);
}

/* ---- The sums over a window of floats, in one order ------------------------------------------------------------------ */

/* A window's rows are cut into slices; all but the last are equally high. Pixel i of a slice, counted row by row, is added
 * to lane i % MATCH_LANES, channel after channel. Each 32 lanes are added by halving, and these sums from first to last.
 * The sum of slice s is added to lane s % 32 of the window, and these 32 are added by halving. */
enum { MATCH_LANES = 384, MATCH_MAX_SLICES = 64 };

MATCH_FN int match_slices(const MatchModel *m) {
    const double busy = (double)m->w * m->h * m->channels / (8 * MATCH_LANES);
    const int most = m->h < MATCH_MAX_SLICES ? m->h : MATCH_MAX_SLICES;
    return busy < 1 ? 1 : busy < most ? (int)busy : most;
}

/* A window's pixels are centered by the mean of a sample of n of them, made an integer if sum and first pixel are integers.
 * Samples lie evenly among the pixels, so if the mean is off by d, the window's variance is at least d^2 n / m->n. */
MATCH_FN double match_center(double sum, double n, double first) {
    const double mean = sum / n;
    return sum == rint(sum) && first == rint(first) ? rint(mean) : mean;
}

/* Returns the rank by which positions are compared. For bytes it is the score. Scores of floats are rounded to steps
 * larger than the difference that transforms or another order of sums makes: then they tie, and both backends take the
 * first position. A step is 2^-34 with normed methods, otherwise 2^-36 of the template's sum of squares or of the
 * score. Integers below 2^53, which are exact sums of integer pixels, are not rounded. */
MATCH_FN double match_rank(const MatchModel *m, const MatchTemplate *t, double score) {
    if (m->integer || (score == rint(score) && fabs(score) < 0x1p53))
        return score;
    if (m->method & 1)
        return rint(score * 0x1p34) * 0x1p-34;
    if (m->method == CUS_MATCH_SQDIFF)
        return t->step > 0 ? rint(score / t->step) * t->step : score;
    const double scaled = score * 131073; /* 2^17 + 1: Veltkamp's split leaves the upper 36 bits */
    return scaled - (scaled - score);
}

/* Bounds of the cost times MatchError::range. The cost is the score if the smallest is best, otherwise the negated
 * score. */
typedef struct MatchRange {
    float lower, upper;
} MatchRange;

/* Error bounds in a frame: of a correlation, of what window sums add to a score before it is normed, and of a window's
 * energy (the last two are 0 for integers). Two powers of two keep floats from overflow and underflow, whatever the values
 * of frame and template: correlations by transforms in float are multiplied by `unit`, and costs by `range`. */
typedef struct MatchError {
    double correlation, score, energy, unit, range;
} MatchError;

/* Returns the largest power of two that is not above the root of a sum of squares; 1 for the sum 0. */
MATCH_FN double match_unitOf(double squares) {
    return squares > 0 ? ldexp(1.0, ilogb(sqrt(squares))) : 1;
}

/* unit: what the frame's shifted pixels were divided by before their transforms in float. */
MATCH_FN MatchError match_error(const MatchModel *m, const MatchTemplate *t, const double *p, const double *channel_energy,
                                double unit) {
    MatchError e = {0, 0, 0, 1, 1};
    double energy = 0, norm2 = 0, offset = 0;
    for (int c = 0; c < m->channels; ++c) {
        e.correlation += m->error * sqrt(channel_energy[c]) * t->norm[c];
        energy += channel_energy[c];
        norm2 += t->norm[c] * t->norm[c];
        offset += fabs(p[c]);
    }
    if (m->integer)
        return e;
    e.unit = unit * t->unit;
    /* Bounds underflow: at most 2^-108 in transforms of 2^32 values whose norm is at least 2^-60, the template's 1. */
    e.correlation += 0x1p-48 * sqrt(energy) * sqrt(norm2);
    if (!(m->method & 1)) { /* scales costs to about 1 at most, and bounds their rounding to float */
        const double largest =
            m->method == CUS_MATCH_SQDIFF ? energy + t->t2 : (sqrt(energy) + sqrt(m->n) * offset) * sqrt(t->raw_t2);
        e.range = largest > 0 ? ldexp(1.0, -ilogb(largest)) : 1;
        e.correlation += 0x1p-149 / e.range;
    }
    const double s2 = m->window_error * energy;
    e.score = match_smallestIsBest(m->method) ? s2 : 0;
    e.energy = s2;
    for (int c = 0; c < m->channels && !m->weighted; ++c) {
        const double of_channel = channel_energy[c];
        const double s1 = m->window_error * sqrt(m->masked ? of_channel : (double)m->rows * m->cols * of_channel);
        e.score += s1 * (fabs(t->shift[c]) + fabs(t->t1[c]) / m->n);
        e.energy += 2 * s1 * (fabs(p[c]) + sqrt(of_channel / m->n));
    }
    return e;
}

/* Returns the score from a correlation c by transforms in float, and the range of its cost. */
MATCH_FN MatchRange match_range(const MatchModel *m, const MatchTemplate *t, const double *p, double c,
                                MatchError uncertain, const double *s1, double s2, float *score) {
    double value = 0, norm = 1, error = uncertain.correlation;
    c *= uncertain.unit;
    switch (m->method) {
    case CUS_MATCH_SQDIFF:
    case CUS_MATCH_SQDIFF_NORMED:
        value = s2 - 2 * c + t->t2;
        error = 2 * error + uncertain.score;
        value = value > 0 ? value : 0;
        if (m->method == CUS_MATCH_SQDIFF_NORMED)
            norm = sqrt(match_unshift(m, s2, s1, s1, p, p)) * sqrt(t->raw_t2);
        break;
    case CUS_MATCH_CCORR:
        value = match_unshift(m, c, s1, t->t1, p, t->shift);
        error += uncertain.score;
        break;
    case CUS_MATCH_CCORR_NORMED:
        value = match_unshift(m, c, s1, t->t1, p, t->shift);
        error += uncertain.score;
        norm = sqrt(match_unshift(m, s2, s1, s1, p, p)) * sqrt(t->raw_t2);
        break;
    case CUS_MATCH_CCOEFF:
        value = match_centeredRounded(m, c, s1, t->t1) / m->n;
        error += uncertain.score;
        break;
    default: {
        const double window = match_centered(m, s2, s1, s1).high, flat = m->n * t->variation;
        value = match_centeredRounded(m, c, s1, t->t1);
        norm = sqrt(window > 0 ? window : 0) * sqrt(flat > 0 ? flat : 0);
        error = (error + uncertain.score) * m->n;
        if (!(flat > 0))
            value = norm = 1, error = uncertain.energy = 0;
        break;
    }
    }
    const int normed = m->method & 1;
    if (normed) {
        if (norm > 0) {
            value = match_clamp(value / norm, -1, 1);
            error /= norm;
        } else {
            value = m->method == CUS_MATCH_SQDIFF_NORMED ? 1 : 0;
            error = 0;
        }
        /* The norm of float images is uncertain too. If the window's energy is uncertain, any score is possible. */
        if (uncertain.energy > 0) {
            const double energy = match_windowEnergy(m, p, s1, s2), relative = uncertain.energy / energy;
            error = energy > MATCH_MIN_ENERGY * uncertain.energy ? (error + relative) * (1 + relative) : 2;
        }
        error =
            error < 2 ? error + (m->integer ? 1e-12 : 3e-10) : 2; /* rounding of the arithmetic above, and match_rank() */
    } else if (!m->integer || m->method == CUS_MATCH_CCOEFF) {
        error += m->integer ? 1e-12 * fabs(value) : 1e-10 * (fabs(value) + t->step * 0x1p36);
    }
    *score = (float)(value * m->unit);
    const double cost = match_smallestIsBest(m->method) ? value : -value;
    const double margin = error + fabs(value) * 0x1p-22; /* adds rounding to float */
    MatchRange range;
    range.lower = (float)((cost - margin) * uncertain.range);
    range.upper = (float)((cost + margin) * uncertain.range);
    return range;
}

/* Returns whether doubles hold every sum over a window exactly, as integers. largest: largest magnitude of the shifted
 * pixels of frame and templates if these are integers, otherwise infinity. */
MATCH_FN int match_sumsAreIntegers(const MatchModel *m, double largest) {
    return 4 * m->n * m->channels * largest * largest < 0x1p52;
}

/* ---- Fractions of a pixel -------------------------------------------------------------------------------------------- */

/* For i = 0..3, returns the position left of, right of, above or below one in the score map; UINT64_MAX if it is
 * outside. */
MATCH_FN uint64_t match_neighbor(const MatchModel *m, uint64_t position, int i) {
    const uint64_t cols = (uint64_t)m->ocols, x = position % cols;
    const int is_inside = i == 0   ? x > 0
                          : i == 1 ? x + 1 < cols
                          : i == 2 ? position >= cols
                                   : position + cols < cols * (uint64_t)m->orows;
    const uint64_t step = i < 2 ? 1 : cols;
    return !is_inside ? UINT64_MAX : i % 2 ? position + step : position - step;
}

/* Returns the vertex of the parabola through the costs a, b, c at -1, 0, 1; 0 if there is none within half a pixel. */
MATCH_FN float match_vertex(double a, double b, double c) {
    const double curvature = a - 2 * b + c, at = 0.5 * (a - c) / curvature;
    return at >= -0.5 && at <= 0.5 ? (float)at : 0; /* false for NaN */
}

/* Sets dx and dy from the exact costs of a match and of its neighbors, in the order of match_neighbor(). The cost of a
 * neighbor that does not exist is NaN. */
MATCH_FN void match_setFractions(cusMatch *match, double cost, const double *around) {
    match->dx = match_vertex(around[0], cost, around[1]);
    match->dy = match_vertex(around[2], cost, around[3]);
}

#endif
