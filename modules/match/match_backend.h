/* What the entry points and the two backends of template matching share. */
#ifndef CUSI_MATCH_BACKEND_H
#define CUSI_MATCH_BACKEND_H

#include "cusight/match.h"
#include "guard.h"

#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MATCH_MAX_PLANES = 4 };
#define MATCH_MAX_ENERGY 1e30
/* Rounding errors a level of cuFFT, in units of 2^-24: three transforms, in each a product with a twiddle factor, the
 * rounding of that factor, and a sum: sqrt(5) + 1 / sqrt(2) + 1 < 4. */
#define MATCH_FFT_UNITS 12

/* A matcher's constants. Before the FFT, images and templates are shifted by an integer m_c for each channel, the rounded
 * mean of the templates; primes below mean "of the shifted values". Planes are what is transformed: the channels and, for a
 * masked SQDIFF, the squares of the shifted pixels minus `square_shift`, which are correlated with the mask. */
typedef struct MatchModel {
    cusMatchMethod method;
    int integer; /* 8-bit images: all sums are exact integers */
    int masked;
    int channels, planes;
    int w, h;               /* template */
    int cols, rows;         /* frame */
    int ocols, orows;       /* score map */
    int count;              /* templates */
    int needs_s1, needs_s2; /* window sums that the method needs */
    int max_matches, min_distance, subpixel;
    double n;        /* w h */
    double shift[3]; /* m_c */
    double square_shift;
    double error;      /* of a correlation, at most: times the sum over planes of |plane| |template plane| */
    double limit_cost; /* maximum cost of a match; infinity without a limit */
} MatchModel;

/* Sums of one shifted template; with a mask, of the pixels inside it. */
typedef struct MatchTemplate {
    double t1[3], t2;
    double raw_t1[3];              /* not shifted */
    double norm[MATCH_MAX_PLANES]; /* Euclidean norm of the template plane that each plane is correlated with */
} MatchTemplate;

struct cusMatcher {
    MatchModel model;
    int type;
    cusSpace space;
    cusMatchAlgorithm algorithm;
    cusMat results; /* count rows of max_matches cusMatch */
    void *backend;
    CusiGuard guard;
};

/* Element i of pixel data in host memory, 8-bit or float. */
static inline double match_element(const void *data, int integer, size_t i) {
    return integer ? ((const uint8_t *)data)[i] : ((const float *)data)[i];
}

/* ---- Scores: the same arithmetic on both backends ---------------------------------------------------------------------
 */

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

/* n a - sum over channels of b c, rounded once. All values are integers below 2^53. */
MATCH_FN double match_centeredInteger(double n, double a, const double *b, const double *c, int channels) {
    __int128 sum = (__int128)(int64_t)n * (int64_t)a;
    for (int k = 0; k < channels; ++k)
        sum -= (__int128)(int64_t)b[k] * (int64_t)c[k];
    if (sum >= -((__int128)1 << 62) && sum <= (__int128)1 << 62)
        return (double)(int64_t)sum;
    return (double)(int64_t)(sum >> 32) * 4294967296.0 + (double)(uint32_t)sum;
}

/* n times the sum of (a - mean of a) (b - mean of b). */
MATCH_FN double match_centered(const MatchModel *m, double ab, const double *a, const double *b, int exact) {
    if (exact && m->integer)
        return match_centeredInteger(m->n, ab, a, b, m->channels);
    double sum = m->n * ab;
    for (int k = 0; k < m->channels; ++k)
        sum -= a[k] * b[k];
    return sum;
}

/* A sum of squares or products of the unshifted values, from that of the shifted ones. */
MATCH_FN double match_unshift(const MatchModel *m, double ab, const double *a, const double *b) {
    double sum = ab;
    for (int k = 0; k < m->channels; ++k)
        sum += m->shift[k] * (a[k] + b[k]) + m->n * m->shift[k] * m->shift[k];
    return sum;
}

/* The score from the window's exact sums: c = sum I' T', s1 = sum I' of each channel, s2 = sum I'^2, ssd = sum (I - T)^2.
 * Sums that the method does not need are ignored. A masked CCORR passes its score as c, a masked SQDIFF as ssd. */
MATCH_FN double match_score(const MatchModel *m, const MatchTemplate *t, double c, const double *s1, double s2,
                            double ssd) {
    switch (m->method) {
    case CUS_MATCH_SQDIFF:
        return ssd;
    case CUS_MATCH_SQDIFF_NORMED: {
        const double norm = sqrt(match_unshift(m, s2, s1, s1)) * sqrt(match_unshift(m, t->t2, t->t1, t->t1));
        return norm > 0 ? match_clamp(ssd / norm, 0, 1) : 1;
    }
    case CUS_MATCH_CCORR:
        return m->masked ? c : match_unshift(m, c, s1, t->t1);
    case CUS_MATCH_CCORR_NORMED: {
        const double norm = sqrt(match_unshift(m, s2, s1, s1)) * sqrt(match_unshift(m, t->t2, t->t1, t->t1));
        return norm > 0 ? match_clamp(match_unshift(m, c, s1, t->t1) / norm, -1, 1) : 0;
    }
    case CUS_MATCH_CCOEFF:
        return match_centered(m, c, s1, t->t1, 1) / m->n;
    default: {
        const double flat = match_centered(m, t->t2, t->t1, t->t1, 1), window = match_centered(m, s2, s1, s1, 1);
        const double norm = sqrt(window > 0 ? window : 0) * sqrt(flat > 0 ? flat : 0);
        if (!(flat > 0))
            return 1;
        return norm > 0 ? match_clamp(match_centered(m, c, s1, t->t1, 1) / norm, -1, 1) : 0;
    }
    }
}

/* Bounds of the cost: the score if the smallest is best, otherwise the negated score. */
typedef struct MatchRange {
    float lower, upper;
} MatchRange;

/* Error bounds in a frame, of a correlation and of window sums (0 for integers). */
typedef struct MatchError {
    double correlation, window;
} MatchError;

MATCH_FN MatchError match_error(const MatchModel *m, const MatchTemplate *t, const double *plane_energy) {
    MatchError e = {0, 0};
    double energy = 0;
    for (int p = 0; p < m->planes; ++p) {
        e.correlation += m->error * sqrt(plane_energy[p]) * t->norm[p];
        energy += p < m->channels ? plane_energy[p] : 0;
    }
    /* Prefix and running sums of doubles: half a unit in the last place of the largest sum for each row and column. */
    if (!m->integer)
        e.window = (m->rows + m->cols) * 0x1p-52 * (energy + sqrt((double)m->rows * m->cols * energy * (t->t2 + 1)));
    return e;
}

/* The score from a correlation c, and the range of its cost. For a masked SQDIFF, c is the score without the template's sum
 * of squares. */
MATCH_FN MatchRange match_range(const MatchModel *m, const MatchTemplate *t, double c, MatchError uncertain,
                                const double *s1, double s2, float *score) {
    double value = 0, norm = 1, error = uncertain.correlation;
    switch (m->method) {
    case CUS_MATCH_SQDIFF:
    case CUS_MATCH_SQDIFF_NORMED:
        if (m->masked) {
            value = c + t->t2;
        } else {
            value = s2 - 2 * c + t->t2;
            error *= 2;
        }
        error += uncertain.window;
        value = value > 0 ? value : 0;
        if (m->method == CUS_MATCH_SQDIFF_NORMED)
            norm = sqrt(match_unshift(m, s2, s1, s1)) * sqrt(match_unshift(m, t->t2, t->t1, t->t1));
        break;
    case CUS_MATCH_CCORR:
        value = m->masked ? c : match_unshift(m, c, s1, t->t1);
        error += uncertain.window;
        break;
    case CUS_MATCH_CCORR_NORMED:
        value = match_unshift(m, c, s1, t->t1);
        error += uncertain.window;
        norm = sqrt(match_unshift(m, s2, s1, s1)) * sqrt(match_unshift(m, t->t2, t->t1, t->t1));
        break;
    case CUS_MATCH_CCOEFF:
        value = match_centered(m, c, s1, t->t1, 0) / m->n;
        error += uncertain.window;
        break;
    default: {
        const double window = match_centered(m, s2, s1, s1, 1), flat = match_centered(m, t->t2, t->t1, t->t1, 1);
        value = match_centered(m, c, s1, t->t1, 0);
        norm = sqrt(window > 0 ? window : 0) * sqrt(flat > 0 ? flat : 0);
        error = (error + uncertain.window) * m->n;
        if (!(flat > 0))
            value = norm = 1, error = uncertain.window = 0;
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
        /* The norm of float images is uncertain, too: by less than 1e-4 of it if the window's sum is well above the error
         * bound. Otherwise any score is possible. */
        if (uncertain.window > 0) {
            const double sum = m->method == CUS_MATCH_CCOEFF_NORMED ? match_centered(m, s2, s1, s1, 0) / m->n
                                                                    : match_unshift(m, s2, s1, s1);
            error = sum > 1e4 * uncertain.window ? error * 1.0001 + 1e-4 : 2;
        }
        error = error < 2 ? error + 1e-12 : 2; /* 1e-12: rounding of the arithmetic above; scores lie in -1..1 */
    } else if (!m->integer || m->method == CUS_MATCH_CCOEFF) {
        error += 1e-12 * fabs(value);
    }
    *score = (float)value;
    const double cost = match_smallestIsBest(m->method) ? value : -value;
    const double margin = error + fabs(value) * 0x1p-22; /* and rounding to float */
    MatchRange range;
    range.lower = (float)(cost - margin);
    range.upper = (float)(cost + margin);
    return range;
}

/* ---- 32F pictures: bounds from correlations and window sums in double --------------------------------------------------- */

/* Whether every sum over a window, of squares of sums at most, is an integer that double holds. largest: magnitude of the shifted
 * pixels of frame and templates, which are integers; otherwise infinity. */
MATCH_FN int match_sumsAreIntegers(const MatchModel *m, double largest) {
    return 4 * m->n * largest * largest < 0x1p52;
}

/* Bound of a correlation's error by transforms in double; units: relative to the sum over planes of |plane| |template plane|. The
 * planes' energy is that of values in float. */
MATCH_FN double match_correlationError(const MatchModel *m, const MatchTemplate *t, const double *plane_energy,
                                       double units) {
    double error = 0;
    for (int p = 0; p < m->planes; ++p) {
        const double rounded = p < m->channels ? 0 : sqrt((double)m->rows * m->cols) * m->square_shift;
        error += (units * (1.0001 * sqrt(plane_energy[p]) + 0x1p-22 * rounded) + 0x1p-51 * rounded) * t->norm[p];
    }
    return error;
}

/* Error bounds of a correlation and of window sums of the shifted pixels and of their squares, all in double. */
typedef struct MatchDoubt {
    double correlation, s1, s2;
} MatchDoubt;

/* constant: of masks, what has been added to the correlation. Window sums: prefix and running sums round once for each row and
 * column, by half a unit of the sum of all magnitudes at most. */
MATCH_FN MatchDoubt match_doubt(const MatchModel *m, const MatchTemplate *t, const double *plane_energy, double units,
                                double constant) {
    const double window = ((double)m->rows + m->cols) * 0x1p-52, pixels = (double)m->rows * m->cols;
    MatchDoubt doubt;
    doubt.correlation = match_correlationError(m, t, plane_energy, units) + 0x1p-50 * fabs(constant);
    doubt.s1 = window * sqrt(pixels * plane_energy[0]);
    doubt.s2 = window * plane_energy[0];
    return doubt;
}

typedef struct MatchInterval {
    double lower, upper;
} MatchInterval;

/* Bounds of the cost of a 32F position; c as for match_range(), s1 and s2 of its window. Each of the few operations rounds by
 * ROUNDING of its operands at most. */
MATCH_FN MatchInterval match_narrow(const MatchModel *m, const MatchTemplate *t, double c, MatchDoubt doubt, double s1,
                                    double s2) {
    const double ROUNDING = 0x1p-49, shift = m->shift[0], t1 = t->t1[0];
    const int smallest = match_smallestIsBest(m->method), centered = m->method >= CUS_MATCH_CCOEFF;
    double value, error = doubt.correlation;
    if (smallest && m->masked) {
        value = c + t->t2;
        error += ROUNDING * (fabs(c) + t->t2);
    } else if (smallest) {
        value = s2 - 2 * c + t->t2;
        error = 2 * error + doubt.s2 + ROUNDING * (fabs(s2) + 2 * fabs(c) + t->t2);
    } else if (centered) {
        value = c - s1 * t1 / m->n;
        error += doubt.s1 * fabs(t1) / m->n + ROUNDING * (fabs(c) + fabs(s1 * t1) / m->n);
    } else if (m->masked) {
        value = c;
        error += ROUNDING * fabs(c);
    } else {
        value = match_unshift(m, c, &s1, t->t1);
        error += fabs(shift) * doubt.s1 + ROUNDING * (fabs(c) + fabs(shift) * (fabs(s1) + fabs(t1)) + m->n * shift * shift);
    }
    if (m->method & 1) {
        /* The window's sum of squares, and the template's, in the same units. */
        double sum, own, uncertain;
        if (centered) {
            const double flat = match_centered(m, t->t2, t->t1, t->t1, 1);
            if (!(flat > 0)) {
                const MatchInterval one = {-1, -1};
                return one;
            }
            own = flat / m->n;
            sum = s2 - s1 * s1 / m->n;
            uncertain = doubt.s2 + (2 * fabs(s1) + doubt.s1) * doubt.s1 / m->n + ROUNDING * (fabs(s2) + s1 * s1 / m->n);
        } else {
            own = match_unshift(m, t->t2, t->t1, t->t1);
            sum = match_unshift(m, s2, &s1, &s1);
            uncertain =
                doubt.s2 + 2 * fabs(shift) * doubt.s1 + ROUNDING * (fabs(s2) + 2 * fabs(shift * s1) + m->n * shift * shift);
        }
        const double norm = sum > 4 * uncertain && own > 0 ? sqrt(sum) * sqrt(own) : 0;
        if (!(norm > 0)) { /* any score is possible */
            const MatchInterval any = {smallest ? 0.0 : -1.0, 1};
            return any;
        }
        /* 1 / sqrt(1 - r) < 1 + r and 1 / sqrt(1 + r) > 1 - r below 1/4. */
        const double relative = uncertain / sum;
        value /= norm;
        error = error / norm * (1 + relative) + fabs(value) * (relative + ROUNDING) + ROUNDING;
        value = match_clamp(value, smallest ? 0 : -1, 1);
    }
    const double cost = smallest ? value : -value;
    const MatchInterval interval = {cost - error, cost + error};
    return interval;
}

/* Vertex of the parabola through a, b, c at -1, 0, 1; 0 if it has none within half a pixel. */
MATCH_FN float match_vertex(float a, float b, float c) {
    const float curvature = a - 2 * b + c;
    const float at = 0.5f * (a - c) / curvature;
    return at >= -0.5f && at <= 0.5f ? at : 0; /* false for NaN, too */
}

MATCH_FN float match_middle(MatchRange range) {
    return 0.5f * range.lower + 0.5f * range.upper;
}

/* ---- Backends. Arguments have been checked. The host functions finish before they return, the CUDA functions queue their
 * work (match_cuda_prepare() waits for it) ---- */

/* Allocates and prepares the backend from templates and mask (host memory without row padding; mask NULL if there is none),
 * their sums, and the model, whose `error` it sets. */
cusStatus match_host_prepare(cusMatcher *matcher, const void *templates, const uint8_t *mask, const MatchTemplate *sums);
cusStatus match_cuda_prepare(cusMatcher *matcher, const void *templates, const uint8_t *mask, const MatchTemplate *sums,
                             cusStream stream);
void match_host_release(cusMatcher *matcher);
void match_cuda_release(cusMatcher *matcher);

/* The algorithm that CUS_MATCH_AUTO chooses. */
cusMatchAlgorithm match_host_algorithm(const MatchModel *model);
cusMatchAlgorithm match_cuda_algorithm(const MatchModel *model);

cusStatus match_host_run(cusMatcher *matcher, const cusMat *frame, cusMat *scores);
cusStatus match_cuda_run(cusMatcher *matcher, const cusMat *frame, cusMat *scores, cusStream stream);

cusStatus match_host_inspect(cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill);
cusStatus match_cuda_inspect(cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill,
                             cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
