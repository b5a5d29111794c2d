/* remap on the host shares rows among threads. A vectorized loop rounds places; then each pixel gathers its neighbors. */
#include "remap/backend.h"
#include "check.h"
#include "host.h"

#include <math.h>

enum { PIXELS_PER_THREAD = 16384, PIXELS_AT_ONCE = 256 };

/* Rounds n coordinates to 1/256 pixel, ties to even. */
CUSI_MULTIVERSION
static void roundPlaces(const float *restrict map, int n, int32_t *restrict places) {
    const float farthest = REMAP_FARTHEST;
    for (int i = 0; i < n; ++i) {
        const float scaled = map[i] * REMAP_ONE;
        const float above = scaled > -farthest ? scaled : -farthest; /* also for NaN */
        places[i] = (int32_t)rintf(above < farthest ? above : farthest);
    }
}

/* Returns a pixel of an image, or zeros outside. */
static inline const void *pixelAt(const cusMat *src, int64_t y, int64_t x, size_t bytes, const void *zeros) {
    const int inside = y >= 0 && y < src->rows && x >= 0 && x < src->cols;
    return inside ? (const char *)src->data + (size_t)y * src->step + (size_t)x * bytes : zeros;
}

static inline void findNeighbors(const cusMat *src, const int32_t *place, size_t bytes, const void **p) {
    static const float zeros[4];
    const int64_t x = place[0] >> REMAP_BITS, y = place[1] >> REMAP_BITS;
    if (x >= 0 && y >= 0 && x + 1 < src->cols && y + 1 < src->rows) { /* nearly always */
        p[0] = (const char *)src->data + (size_t)y * src->step + (size_t)x * bytes;
        p[1] = (const char *)p[0] + bytes;
        p[2] = (const char *)p[0] + src->step;
        p[3] = (const char *)p[2] + bytes;
        return;
    }
    for (int k = 0; k < 4; ++k)
        p[k] = pixelAt(src, y + k / 2, x + k % 2, bytes, zeros);
}

static inline uint8_t blend8(const void *const *p, int c, uint32_t a, uint32_t b) {
    const uint32_t upper = (REMAP_ONE - a) * ((const uint8_t *)p[0])[c] + a * ((const uint8_t *)p[1])[c];
    const uint32_t lower = (REMAP_ONE - a) * ((const uint8_t *)p[2])[c] + a * ((const uint8_t *)p[3])[c];
    return (uint8_t)(((REMAP_ONE - b) * upper + b * lower + (1u << (2 * REMAP_BITS - 1))) >> (2 * REMAP_BITS));
}

static inline float blend32(const void *const *p, int c, uint32_t a, uint32_t b) {
    const float unit = 0x1p-16f; /* weights are exact */
    const float p00 = ((const float *)p[0])[c] * ((float)((REMAP_ONE - a) * (REMAP_ONE - b)) * unit);
    const float p10 = ((const float *)p[1])[c] * ((float)(a * (REMAP_ONE - b)) * unit);
    const float p01 = ((const float *)p[2])[c] * ((float)((REMAP_ONE - a) * b) * unit);
    const float p11 = ((const float *)p[3])[c] * ((float)(a * b) * unit);
    return (p00 + p10) + (p01 + p11);
}

/* Writes n pixels; the number of channels is a constant where this is inlined. */
#define BLEND_ROW(type, blend, channels)                                                                   \
    for (int i = 0; i < n; ++i) {                                                                          \
        const void *p[4];                                                                                  \
        findNeighbors(src, places + 2 * i, sizeof(type) * (channels), p);                                  \
        for (int c = 0; c < (channels); ++c)                                                               \
            ((type *)out)[(channels)*i + c] =                                                              \
                blend(p, c, (uint32_t)places[2 * i] % REMAP_ONE, (uint32_t)places[2 * i + 1] % REMAP_ONE); \
    }                                                                                                      \
    break

static void remapPart(const cusMat *src, const int32_t *places, int n, void *out) {
    switch (src->type) {
    case CUS_8UC1:
        BLEND_ROW(uint8_t, blend8, 1);
    case CUS_8UC2:
        BLEND_ROW(uint8_t, blend8, 2);
    case CUS_8UC3:
        BLEND_ROW(uint8_t, blend8, 3);
    case CUS_8UC4:
        BLEND_ROW(uint8_t, blend8, 4);
    case CUS_32FC1:
        BLEND_ROW(float, blend32, 1);
    case CUS_32FC2:
        BLEND_ROW(float, blend32, 2);
    case CUS_32FC3:
        BLEND_ROW(float, blend32, 3);
    default:
        BLEND_ROW(float, blend32, 4);
    }
}

static void remapRow(const cusMat *src, const cusMat *map, cusMat *dst, int y) {
    const size_t bytes = cusTypeSize(src->type);
    const float *const row = (const float *)(const void *)((const char *)map->data + (size_t)y * map->step);
    char *const out = (char *)dst->data + (size_t)y * dst->step;
    for (int x = 0; x < map->cols; x += PIXELS_AT_ONCE) {
        int32_t places[2 * PIXELS_AT_ONCE];
        const int n = map->cols - x < PIXELS_AT_ONCE ? map->cols - x : PIXELS_AT_ONCE;
        roundPlaces(row + 2 * (size_t)x, 2 * n, places);
        remapPart(src, places, n, out + (size_t)x * bytes);
    }
}

void remap_host_remap(int count, const cusMat *src, const cusMat *map, cusMat *dst) {
    const int64_t rows = map->rows;
    const int threads = cusi_threadsFor((size_t)count * (size_t)rows * (size_t)map->cols, PIXELS_PER_THREAD);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t k = 0; k < count * rows; ++k)
        remapRow(&src[k / rows], &map[k / rows], &dst[k / rows], (int)(k % rows));
    (void)threads;
}
