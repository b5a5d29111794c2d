/* Finds the median of 3x3 or 5x5 pixels on the host. The columns of a window are sorted once for all windows that share
 * them, then its rows. After that, 13 of 25 values can still be the median. A search found the exchanges that select it,
 * verified on all columns of zeros and ones. Floats, none below zero, compare like the integers of their bits. */
#include "stereo/cpu/rows.h"

#include <assert.h>

/* Puts the smaller of two variables first. They must not be array elements, which compilers keep in memory. */
#define SORT(a, b)                                \
    do {                                          \
        const __typeof__(a) low_ = a < b ? a : b; \
        b = a < b ? b : a;                        \
        a = low_;                                 \
    } while (0)
#define SORT3(a, b, c) \
    SORT(a, b);        \
    SORT(b, c);        \
    SORT(a, b)
#define SORT5(a, b, c, d, e) \
    SORT(a, b);              \
    SORT(d, e);              \
    SORT(c, e);              \
    SORT(c, d);              \
    SORT(a, d);              \
    SORT(a, c);              \
    SORT(b, e);              \
    SORT(b, d);              \
    SORT(b, c)

/* Loads five neighbors of one of the sorted rows and sorts them. */
#define LOAD5(k, a, b, c, d, e)                                                                                  \
    __typeof__(sorted[0][0]) a = sorted[k][x], b = sorted[k][x + 1], c = sorted[k][x + 2], d = sorted[k][x + 3], \
                             e = sorted[k][x + 4];                                                               \
    SORT5(a, b, c, d, e)

/* Finds the medians around n pixels. The rows start half a window before the first pixel. */
#define MEDIANS(type, name3, name5)                                                                                     \
    CUSI_MULTIVERSION                                                                                                   \
    static void name3(const type *const *rows, int n, type *restrict out) {                                             \
        assert(n > 0 && n <= PIXELS_AT_ONCE);                                                                           \
        type low[PIXELS_AT_ONCE + 4], middle[PIXELS_AT_ONCE + 4], high[PIXELS_AT_ONCE + 4];                             \
        const type *const restrict r0 = rows[0], *const restrict r1 = rows[1], *const restrict r2 = rows[2];            \
        for (int x = 0; x < n + 2; ++x) {                                                                               \
            type a = r0[x], b = r1[x], c = r2[x];                                                                       \
            SORT3(a, b, c);                                                                                             \
            low[x] = a, middle[x] = b, high[x] = c;                                                                     \
        }                                                                                                               \
        for (int x = 0; x < n; ++x) {                                                                                   \
            type v0 = low[x], v1 = low[x + 1], v2 = low[x + 2], v3 = middle[x], v4 = middle[x + 1], v5 = middle[x + 2], \
                 v6 = high[x], v7 = high[x + 1], v8 = high[x + 2];                                                      \
            SORT3(v0, v1, v2);                                                                                          \
            SORT3(v3, v4, v5);                                                                                          \
            SORT3(v6, v7, v8);                                                                                          \
            SORT3(v2, v4, v6);                                                                                          \
            out[x] = v4;                                                                                                \
        }                                                                                                               \
    }                                                                                                                   \
    CUSI_MULTIVERSION                                                                                                   \
    static void name5(const type *const *rows, int n, type *restrict out) {                                             \
        assert(n > 0 && n <= PIXELS_AT_ONCE);                                                                           \
        type sorted[5][PIXELS_AT_ONCE + 4];                                                                             \
        const type *const restrict r0 = rows[0], *const restrict r1 = rows[1], *const restrict r2 = rows[2],            \
                                   *const restrict r3 = rows[3], *const restrict r4 = rows[4];                          \
        for (int x = 0; x < n + 4; ++x) {                                                                               \
            type a = r0[x], b = r1[x], c = r2[x], d = r3[x], e = r4[x];                                                 \
            SORT5(a, b, c, d, e);                                                                                       \
            sorted[0][x] = a, sorted[1][x] = b, sorted[2][x] = c, sorted[3][x] = d, sorted[4][x] = e;                   \
        }                                                                                                               \
        for (int x = 0; x < n; ++x) {                                                                                   \
            LOAD5(0, v0, v1, v2, v3, v4);                                                                               \
            LOAD5(1, v5, v6, v7, v8, v9);                                                                               \
            LOAD5(2, v10, v11, v12, v13, v14);                                                                          \
            LOAD5(3, v15, v16, v17, v18, v19);                                                                          \
            LOAD5(4, v20, v21, v22, v23, v24);                                                                          \
            SORT(v8, v15);                                                                                              \
            SORT(v11, v8);                                                                                              \
            SORT(v11, v7);                                                                                              \
            SORT(v21, v17);                                                                                             \
            SORT(v15, v17);                                                                                             \
            SORT(v16, v12);                                                                                             \
            SORT(v8, v7);                                                                                               \
            SORT(v21, v13);                                                                                             \
            SORT(v7, v9);                                                                                               \
            SORT(v16, v15);                                                                                             \
            SORT(v21, v12);                                                                                             \
            SORT(v7, v16);                                                                                              \
            SORT(v12, v9);                                                                                              \
            SORT(v16, v3);                                                                                              \
            SORT(v21, v15);                                                                                             \
            SORT(v16, v21);                                                                                             \
            SORT(v12, v3);                                                                                              \
            SORT(v15, v3);                                                                                              \
            SORT(v21, v4);                                                                                              \
            SORT(v21, v12);                                                                                             \
            SORT(v15, v4);                                                                                              \
            SORT(v12, v20);                                                                                             \
            SORT(v15, v20);                                                                                             \
            out[x] = v15;                                                                                               \
        }                                                                                                               \
    }
MEDIANS(uint16_t, median3x16, median5x16)
MEDIANS(uint32_t, median3x32, median5x32)

/* Loads columns x .. x + n - 1 of a row of elements of `bytes` bytes; past the ends, the end elements repeat. */
static void loadClamped(const uint8_t *row, int cols, int64_t x, int n, size_t bytes, uint8_t *out) {
    const int before = x < 0 ? (int)-x : 0;
    const int inside = cols - x < n ? (int)(cols - x) - before : n - before;
    memcpy(out + (size_t)before * bytes, row + (size_t)(x + before) * bytes, (size_t)inside * bytes);
    for (int k = 0; k < before; ++k)
        memcpy(out + (size_t)k * bytes, row, bytes);
    for (int k = before + inside; k < n; ++k)
        memcpy(out + (size_t)k * bytes, row + (size_t)(cols - 1) * bytes, bytes);
}

cusStatus stereo_host_median(const cusMat *elevation, cusMat *smoothed, int size) {
    const int radius = size / 2, rows = elevation->rows, cols = elevation->cols;
    const size_t bytes = cusTypeSize(elevation->type);
#pragma omp parallel for schedule(static) num_threads(stereo_host_threads(elevation))
    for (int y = 0; y < rows; ++y) {
        uint32_t padded[5][PIXELS_AT_ONCE + 4]; /* 16 or 32 bits an element */
        const uint16_t *const narrow[5] = {(uint16_t *)padded[0], (uint16_t *)padded[1], (uint16_t *)padded[2],
                                           (uint16_t *)padded[3], (uint16_t *)padded[4]};
        const uint32_t *const wide[5] = {padded[0], padded[1], padded[2], padded[3], padded[4]};
        for (int x = 0; x < cols; x += PIXELS_AT_ONCE) {
            const int n = cols - x < PIXELS_AT_ONCE ? cols - x : PIXELS_AT_ONCE;
            for (int i = 0; i < size; ++i) {
                const int64_t at = (int64_t)y + i - radius;
                const int inside = at < 0 ? 0 : at < rows ? (int)at : rows - 1;
                loadClamped(stereo_host_row(elevation, inside), cols, (int64_t)x - radius, n + 2 * radius, bytes,
                            (uint8_t *)padded[i]);
            }
            uint8_t *const out = stereo_host_rowMutable(smoothed, y) + (size_t)x * bytes;
            if (bytes == 2)
                (size == 3 ? median3x16 : median5x16)(narrow, n, (uint16_t *)(void *)out);
            else
                (size == 3 ? median3x32 : median5x32)(wide, n, (uint32_t *)(void *)out);
        }
    }
    return CUS_OK;
}
