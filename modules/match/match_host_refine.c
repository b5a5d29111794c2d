/* match on the CPU: exact scores from the pixels. */
#include "check.h"
#include "host.h"
#include "match_host.h"

#include <string.h>

/* ---- One window, exactly ------------------------------------------------------------------------------------------------ */

CUSI_MULTIVERSION
static uint32_t squaredDifferences(const uint8_t *a, const uint8_t *b, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i) {
        const int d = a[i] - b[i];
        sum += (uint32_t)(d * d);
    }
    return sum;
}

CUSI_MULTIVERSION
static uint32_t squaredDifferencesMasked(const uint8_t *a, const uint8_t *b, const uint8_t *mask, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i) {
        const int d = (a[i] & mask[i]) - b[i];
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

static double exactBytes(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x) {
    const MatchTemplate *t = &host->sums[k];
    const size_t channels = (size_t)m->channels, n = (size_t)m->w * channels;
    const uint8_t *pixels = (const uint8_t *)host->templates + (size_t)k * host->template_bytes;
    uint64_t ssd = 0, c = 0, s1[3] = {0, 0, 0}, s2 = 0;
    for (size_t j = 0; j < (size_t)m->h; ++j) {
        const uint8_t *row = (const uint8_t *)match_row(frame, y + j) + x * channels;
        if (m->method == CUS_MATCH_SQDIFF) {
            ssd += host->mask ? squaredDifferencesMasked(row, pixels + j * n, host->mask + j * n, n)
                              : squaredDifferences(row, pixels + j * n, n);
            continue;
        }
        c += products(row, pixels + j * n, n);
        if (!m->masked)
            for (size_t k1 = 0; k1 < channels; ++k1)
                match_sumBytes(row + k1, (size_t)m->w, channels, &s1[k1], &s2);
    }
    if (m->masked || m->method == CUS_MATCH_SQDIFF)
        return match_score(m, t, (double)c, (const double[3]){0, 0, 0}, 0, (double)ssd);
    /* All integers below 2^53, so applying the shift is exact. */
    double shifted = (double)c, shifted1[3] = {0, 0, 0}, shifted2 = (double)s2;
    for (size_t k1 = 0; k1 < channels; ++k1) {
        const double shift = m->shift[k1], sum = (double)s1[k1];
        shifted += m->n * shift * shift - shift * (sum + t->raw_t1[k1]);
        shifted1[k1] = sum - m->n * shift;
        shifted2 += m->n * shift * shift - 2 * shift * sum;
    }
    return match_score(m, t, shifted, shifted1, shifted2, shifted2 - 2 * shifted + t->t2);
}

static double exactFloats(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x) {
    const MatchTemplate *t = &host->sums[k];
    const size_t w = (size_t)m->w;
    const float *pixels = (const float *)(host->templates + (size_t)k * host->template_bytes);
    const double shift = m->shift[0];
    double ssd = 0, c = 0, s1 = 0, s2 = 0;
    for (size_t j = 0; j < (size_t)m->h; ++j) {
        const float *row = (const float *)match_row(frame, y + j) + x;
        for (size_t i = 0; i < w; ++i) {
            if (host->mask && !host->mask[j * w + i])
                continue;
            const double a = row[i], b = pixels[j * w + i];
            const double sa = a - shift, sb = b - shift;
            ssd += (a - b) * (a - b);
            c += m->masked ? a * b : sa * sb;
            s1 += sa;
            s2 += sa * sa;
        }
    }
    return match_score(m, t, c, &s1, s2, ssd);
}

/* Sums of MATCH_AT_ONCE neighboring windows, each in the order of exactFloats(), so the same bit for bit. */
typedef struct Neighbors {
    double ssd[MATCH_AT_ONCE], c[MATCH_AT_ONCE], s1[MATCH_AT_ONCE], s2[MATCH_AT_ONCE];
} Neighbors;

CUSI_MULTIVERSION
static void neighborDifferences(const float *row, const float *t, size_t w, const uint8_t *mask, Neighbors *sums) {
    double ssd[MATCH_AT_ONCE];
    memcpy(ssd, sums->ssd, sizeof ssd);
    for (size_t i = 0; i < w; ++i) {
        if (mask && !mask[i])
            continue;
        const double b = t[i];
        for (size_t l = 0; l < MATCH_AT_ONCE; ++l) {
            const double d = (double)row[i + l] - b;
            ssd[l] += d * d;
        }
    }
    memcpy(sums->ssd, ssd, sizeof ssd);
}

CUSI_MULTIVERSION
static void neighborProducts(const float *row, const float *t, size_t w, const uint8_t *mask, double shift, int raw,
                             Neighbors *sums) {
    Neighbors s = *sums;
    for (size_t i = 0; i < w; ++i) {
        if (mask && !mask[i])
            continue;
        const double b = t[i], sb = b - shift;
        for (size_t l = 0; l < MATCH_AT_ONCE; ++l) {
            const double a = row[i + l], sa = a - shift;
            s.c[l] += raw ? a * b : sa * sb;
            s.s1[l] += sa;
            s.s2[l] += sa * sa;
        }
    }
    *sums = s;
}

void match_exactNeighbors(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x,
                          double *scores) {
    const size_t w = (size_t)m->w;
    const float *pixels = (const float *)(host->templates + (size_t)k * host->template_bytes);
    const int squares = m->method == CUS_MATCH_SQDIFF || m->method == CUS_MATCH_SQDIFF_NORMED;
    Neighbors sums = {.ssd = {0}};
    for (size_t j = 0; j < (size_t)m->h; ++j) {
        const float *row = (const float *)match_row(frame, y + j) + x, *t = pixels + j * w;
        const uint8_t *mask = host->mask ? host->mask + j * w : NULL;
        if (squares)
            neighborDifferences(row, t, w, mask, &sums);
        if (m->method != CUS_MATCH_SQDIFF)
            neighborProducts(row, t, w, mask, m->shift[0], m->masked, &sums);
    }
    for (size_t l = 0; l < MATCH_AT_ONCE; ++l)
        scores[l] = match_score(m, &host->sums[k], sums.c[l], &sums.s1[l], sums.s2[l], sums.ssd[l]);
}

double match_exactScore(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x) {
    return m->integer ? exactBytes(m, host, frame, k, y, x) : exactFloats(m, host, frame, k, y, x);
}
