/* Computes the exact score of one window from its pixels. Sums of bytes are integers. Floats are added in the order of
 * scores.h, as on the device, so both give the same bits. */
#include "match/cpu/state.h"

#include <string.h>

/* ---- Bytes ----------------------------------------------------------------------------------------------------------- */

/* mask: NULL if all pixels count. */
CUSI_MULTIVERSION
static uint32_t squaredDifferences(const uint8_t *a, const uint8_t *b, const uint8_t *mask, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i) {
        const int d = (mask ? a[i] & mask[i] : a[i]) - b[i];
        sum += (uint32_t)(d * d);
    }
    return sum;
}

CUSI_MULTIVERSION
static uint32_t products(const uint8_t *a, const uint8_t *b, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i)
        sum += (uint32_t)(a[i] * b[i]);
    return sum;
}

static void sumInsideMask(const uint8_t *row, const uint8_t *mask, size_t n, size_t stride, uint64_t *sum,
                          uint64_t *square) {
    for (size_t i = 0; i < n * stride; i += stride) {
        const uint64_t v = row[i] & mask[i];
        *sum += v;
        *square += v * v;
    }
}

static double exactBytes(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x) {
    const MatchTemplate *t = &host->sums[k];
    const size_t channels = (size_t)m->channels, n = (size_t)m->w * channels;
    const uint8_t *pixels = (const uint8_t *)host->templates + (size_t)k * host->template_bytes;
    uint64_t ssd = 0, c = 0, s1[MATCH_MAX_CHANNELS] = {0}, s2 = 0;
    for (size_t j = 0; j < (size_t)m->h; ++j) {
        const uint8_t *row = (const uint8_t *)match_row(frame, y + j) + x * channels;
        if (m->method == CUS_MATCH_SQDIFF) {
            ssd += squaredDifferences(row, pixels + j * n, host->mask.inside ? host->mask.inside + j * n : NULL, n);
            continue;
        }
        c += products(row, pixels + j * n, n);
        for (size_t k1 = 0; k1 < channels; ++k1)
            if (host->mask.inside)
                sumInsideMask(row + k1, host->mask.inside + j * n, (size_t)m->w, channels, &s1[k1], &s2);
            else
                match_sumBytes(row + k1, (size_t)m->w, channels, &s1[k1], &s2);
    }
    if (m->method == CUS_MATCH_SQDIFF)
        return match_score(m, t, m->shift, (double)c, (const double[MATCH_MAX_CHANNELS]){0}, 0, (double)ssd);
    /* All sums are integers below 2^53, so applying the shift is exact. */
    double shifted = (double)c, shifted1[MATCH_MAX_CHANNELS] = {0}, shifted2 = (double)s2;
    for (size_t k1 = 0; k1 < channels; ++k1) {
        const double shift = m->shift[k1], sum = (double)s1[k1];
        shifted += m->n * shift * shift - shift * (sum + t->raw_t1[k1]);
        shifted1[k1] = sum - m->n * shift;
        shifted2 += m->n * shift * shift - 2 * shift * sum;
    }
    return match_score(m, t, m->shift, shifted, shifted1, shifted2, shifted2 - 2 * shifted + t->t2);
}

/* ---- Floats ---------------------------------------------------------------------------------------------------------- */

/* Sums of each lane over a slice (scores.h), or over a whole window. */
typedef struct LaneSums {
    double ssd[MATCH_LANES], c[MATCH_LANES], s2[MATCH_LANES], s1[MATCH_MAX_CHANNELS][MATCH_LANES];
} LaneSums;
typedef struct WindowSums {
    double ssd, c, s2, s1[MATCH_MAX_CHANNELS];
} WindowSums;

/* Adds up the first `used` lanes (all others are 0): a tree over each 32 lanes, then these sums one after the other. */
static double addLanes(double *lane, size_t used) {
    for (size_t start = 0; start < used; start += 32)
        for (size_t d = 16; d; d /= 2)
            for (size_t l = 0; l < d && start + l + d < used; ++l)
                lane[start + l] += lane[start + l + d];
    double sum = lane[0];
    for (size_t start = 32; start < used; start += 32)
        sum += lane[start];
    return sum;
}

/* Adds n neighboring pixels of one channel to the lanes. */
CUSI_MULTIVERSION
static void addPixels(const float *a, const float *b, size_t n, double center, double shift, double *restrict ssd,
                      double *restrict c, double *restrict s1, double *restrict s2) {
    for (size_t i = 0; i < n; ++i) {
        const double pixel = a[i], templ = b[i], centered = pixel - center;
        ssd[i] += (pixel - templ) * (pixel - templ);
        c[i] += centered * (templ - shift);
        s1[i] += centered;
        s2[i] += centered * centered;
    }
}

/* Chooses what each channel of a window is centered by, match_center(); 0 if the method does not subtract means. */
static void chooseCenters(const MatchModel *m, const MatchHost *host, const cusMat *frame, size_t y, size_t x,
                          double *center) {
    const size_t channels = (size_t)m->channels;
    for (size_t c = 0; c < channels; ++c) {
        double lane[MATCH_LANES];
        for (size_t i = 0; i < (size_t)m->samples; ++i) {
            const size_t at = host->samples[i];
            lane[i] = ((const float *)match_row(frame, y + at / (size_t)m->w))[(x + at % (size_t)m->w) * channels + c];
        }
        const double first = ((const float *)match_row(frame, y))[x * channels + c];
        center[c] = m->samples ? match_center(addLanes(lane, (size_t)m->samples), m->samples, first) : 0;
    }
}

static WindowSums sumSlice(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x,
                           size_t j0, size_t j1, const double *center) {
    const MatchTemplate *t = &host->sums[k];
    const size_t channels = (size_t)m->channels, w = (size_t)m->w;
    const size_t used = (j1 - j0) * w < MATCH_LANES ? (j1 - j0) * w : MATCH_LANES;
    LaneSums lanes;
    memset(lanes.ssd, 0, used * sizeof(double));
    memset(lanes.c, 0, used * sizeof(double));
    memset(lanes.s2, 0, used * sizeof(double));
    for (size_t i = 0; i < channels; ++i)
        memset(lanes.s1[i], 0, used * sizeof(double));
    for (size_t j = j0, lane = 0; j < j1; ++j) {
        const float *a = (const float *)match_row(frame, y + j) + x * channels;
        const size_t element = j * w * channels;
        const float *b = (const float *)(host->templates + (size_t)k * host->template_bytes) + element;
        if (channels == 1 && !m->masked) {
            for (size_t i = 0, n; i < w; i += n, lane = (lane + n) % MATCH_LANES) {
                n = w - i < MATCH_LANES - lane ? w - i : MATCH_LANES - lane;
                addPixels(a + i, b + i, n, center[0], t->shift[0], lanes.ssd + lane, lanes.c + lane, lanes.s1[0] + lane,
                          lanes.s2 + lane);
            }
            continue;
        }
        for (size_t i = 0; i < w * channels; ++i) {
            const size_t k1 = i % channels;
            const double weight = match_weight(host->mask, element + i), pixel = a[i], templ = b[i];
            const double centered = pixel - center[k1];
            if (weight != 0) {
                lanes.ssd[lane] += weight * ((pixel - templ) * (pixel - templ));
                lanes.c[lane] += weight * (centered * (templ - t->shift[k1]));
                lanes.s1[k1][lane] += centered;
                lanes.s2[lane] += weight * (centered * centered);
            }
            lane = k1 + 1 < channels ? lane : (lane + 1) % MATCH_LANES;
        }
    }
    WindowSums sums = {.ssd = addLanes(lanes.ssd, used), .c = addLanes(lanes.c, used), .s2 = addLanes(lanes.s2, used)};
    for (size_t i = 0; i < channels; ++i)
        sums.s1[i] = addLanes(lanes.s1[i], used);
    return sums;
}

/* Adds slice s to lane s % 32, and then the lanes as addLanes() does. */
static double exactFloats(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x) {
    const MatchTemplate *t = &host->sums[k];
    double center[MATCH_MAX_CHANNELS] = {0}, ssd[32] = {0}, c[32] = {0}, s2[32] = {0}, s1[MATCH_MAX_CHANNELS][32] = {{0}};
    chooseCenters(m, host, frame, y, x, center);
    const size_t slices = (size_t)match_slices(m), each = ((size_t)m->h + slices - 1) / slices;
    for (size_t s = 0; s < slices; ++s) {
        const size_t j0 = s * each < (size_t)m->h ? s * each : (size_t)m->h;
        const size_t j1 = j0 + each < (size_t)m->h ? j0 + each : (size_t)m->h;
        const WindowSums sums = sumSlice(m, host, frame, k, y, x, j0, j1, center);
        ssd[s % 32] += sums.ssd, c[s % 32] += sums.c, s2[s % 32] += sums.s2;
        for (size_t i = 0; i < (size_t)m->channels; ++i)
            s1[i][s % 32] += sums.s1[i];
    }
    double sum1[MATCH_MAX_CHANNELS] = {0}, scale[MATCH_MAX_CHANNELS] = {0};
    for (size_t i = 0; i < (size_t)m->channels; ++i) {
        sum1[i] = addLanes(s1[i], 32);
        scale[i] = fabs(center[i]);
    }
    return match_score(m, t, scale, addLanes(c, 32), sum1, addLanes(s2, 32), addLanes(ssd, 32));
}

double match_exactScore(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x) {
    return m->integer ? exactBytes(m, host, frame, k, y, x) : exactFloats(m, host, frame, k, y, x);
}
