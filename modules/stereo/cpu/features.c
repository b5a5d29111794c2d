/* Computes the features of an image on the host, edges or census codes, a row at a time. */
#include "stereo/cpu/rows.h"

#include <math.h>
#include <stdlib.h>

/* u, m, d are the rows above, at and below n pixels; pixel x has index x + 1. An edge sets all bits of a lane, since
 * compilers do not vectorize conditions joined by || or by | of their values. */
CUSI_MULTIVERSION
static void edges8(const uint8_t *restrict u, const uint8_t *restrict m, const uint8_t *restrict d, int n, float threshold,
                   uint8_t *restrict out) {
    for (int x = 0; x < n; ++x) {
        const int16_t u0 = u[x], u1 = u[x + 1], u2 = u[x + 2], m0 = m[x], m2 = m[x + 2], d0 = d[x], d1 = d[x + 1],
                      d2 = d[x + 2];
#define EDGE(a0, a1, a2, b0, b1, b2) \
    ((float)abs(2 * ((a0 + a1 + a2) - (b0 + b1 + b2))) > threshold * (float)(a0 + a1 + a2 + b0 + b1 + b2) ? -1 : 0)
        out[x] = (uint8_t)(EDGE(u0, m0, d0, u2, m2, d2) | EDGE(u0, u1, u2, d0, d1, d2) | EDGE(u0, u1, m0, d2, d1, m2) |
                           EDGE(d0, d1, m0, u2, u1, m2));
#undef EDGE
    }
}

CUSI_MULTIVERSION
static void edges32(const float *restrict u, const float *restrict m, const float *restrict d, int n, float threshold,
                    uint8_t *restrict out) {
    for (int x = 0; x < n; ++x) {
        const float a0 = (u[x] + m[x]) + d[x], b0 = (u[x + 2] + m[x + 2]) + d[x + 2];
        const float a1 = (u[x] + u[x + 1]) + u[x + 2], b1 = (d[x] + d[x + 1]) + d[x + 2];
        const float a2 = (u[x] + u[x + 1]) + m[x], b2 = (d[x + 2] + d[x + 1]) + m[x + 2];
        const float a3 = (d[x] + d[x + 1]) + m[x], b3 = (u[x + 2] + u[x + 1]) + m[x + 2];
#define LIMIT(a, b) (threshold * (((a) + (b)) * 0.5f))
#define EDGE(a, b)  (fabsf((a) - (b)) > (LIMIT(a, b) < 3.0f ? LIMIT(a, b) : 3.0f) ? -1 : 0)
        out[x] = (uint8_t)(EDGE(a0, b0) | EDGE(a1, b1) | EDGE(a2, b2) | EDGE(a3, b3));
#undef EDGE
#undef LIMIT
    }
}

#define CENSUS(name, type)                                                                                         \
    CUSI_MULTIVERSION                                                                                              \
    static void name(const type *restrict u, const type *restrict m, const type *restrict d, int n,                \
                     uint8_t *restrict out) {                                                                      \
        for (int x = 0; x < n; ++x) {                                                                              \
            const type c = m[x + 1];                                                                               \
            out[x] = (uint8_t)((u[x] > c) | (u[x + 1] > c) << 1 | (u[x + 2] > c) << 2 | (m[x] > c) << 3 |          \
                               (m[x + 2] > c) << 4 | (d[x] > c) << 5 | (d[x + 1] > c) << 6 | (d[x + 2] > c) << 7); \
        }                                                                                                          \
    }
CENSUS(census8, uint8_t)
CENSUS(census32, float)

static void featuresOf(const cusMat *image, cusMat *features, int census, const cusStereoOptions *options) {
#pragma omp parallel for schedule(static) num_threads(stereo_host_threads(image))
    for (int y = 0; y < image->rows; ++y) {
        float padded[3][PIXELS_AT_ONCE + 2]; /* bytes or floats */
        for (int x = 0; x < image->cols; x += PIXELS_AT_ONCE) {
            const int n = image->cols - x < PIXELS_AT_ONCE ? image->cols - x : PIXELS_AT_ONCE;
            for (int i = 0; i < 3; ++i)
                stereo_host_load(image, (int64_t)y + i - 1, (int64_t)x - 1, n + 2, options->border, padded[i]);
            uint8_t *const out = stereo_host_rowMutable(features, y) + x;
            const uint8_t *const b[3] = {(uint8_t *)padded[0], (uint8_t *)padded[1], (uint8_t *)padded[2]};
            if (image->type == CUS_8UC1 && census)
                census8(b[0], b[1], b[2], n, out);
            else if (image->type == CUS_8UC1)
                edges8(b[0], b[1], b[2], n, options->threshold, out);
            else if (census)
                census32(padded[0], padded[1], padded[2], n, out);
            else
                edges32(padded[0], padded[1], padded[2], n, options->threshold, out);
        }
    }
}

cusStatus stereo_host_features(const cusMat *const *images, cusMat *const *features, int count, int census,
                               const cusStereoOptions *options, StereoScratch *scratch) {
    (void)scratch;
    for (int i = 0; i < count; ++i)
        featuresOf(images[i], features[i], census, options);
    return CUS_OK;
}

int stereo_host_hasNan(const cusMat *image) {
    int found = 0;
#pragma omp parallel for schedule(static) num_threads(stereo_host_threads(image)) reduction(| : found)
    for (int y = 0; y < image->rows; ++y) {
        const float *row = (const float *)(const void *)stereo_host_row(image, y);
        for (int x = 0; x < image->cols; ++x)
            found |= row[x] != row[x];
    }
    return found;
}
