/* Heatmap and noise view on the CPU. */
#include "check.h"
#include "framediff/backend.h"
#include "host.h"

#include <stdbool.h>
#include <string.h>

enum { BLOCK_PIXELS = 512, PART_PIXELS = 8192, BYTES_PER_THREAD = 65536 };

/* Sets sum[i] to the differences of bytes i, i + 1 and i + 2 (one channel: three times that of byte i), for
 * n <= BLOCK_PIXELS pixels. Only the sums at the start of a pixel are used, but computing all of them vectorizes. */
CUSI_MULTIVERSION
static void summedDifferences(const uint8_t *restrict a, const uint8_t *restrict b, size_t n, int channels,
                              uint16_t *restrict sum) {
    uint8_t difference[4 * BLOCK_PIXELS + 2];
    const size_t bytes = n * (size_t)channels;
    for (size_t i = 0; i < bytes; ++i)
        difference[i] = (uint8_t)(a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]);
    difference[bytes] = difference[bytes + 1] = 0;
    if (channels == 1)
        for (size_t i = 0; i < bytes; ++i)
            sum[i] = (uint16_t)(3 * difference[i]);
    else
        for (size_t i = 0; i < bytes; ++i)
            sum[i] = (uint16_t)(difference[i] + difference[i + 1] + difference[i + 2]);
}

static void colorizeRow(const uint8_t *a, const uint8_t *b, uint8_t *dst, size_t cols, size_t channels,
                        const FramediffPalette *palette) {
    uint16_t sum[4 * BLOCK_PIXELS];
    for (size_t x = 0; x < cols; x += BLOCK_PIXELS) {
        const size_t n = cols - x < BLOCK_PIXELS ? cols - x : BLOCK_PIXELS;
        summedDifferences(a + x * channels, b + x * channels, n, (int)channels, sum);
        uint8_t *out = dst + 3 * x;
        /* Stores four bytes per pixel; the next pixel overwrites the last. The final pixel has only three. */
        for (size_t i = 0; i + 1 < n; ++i)
            memcpy(out + 3 * i, &palette->color[sum[i * channels]], 4);
        memcpy(out + 3 * (n - 1), &palette->color[sum[(n - 1) * channels]], 3);
    }
}

cusStatus framediff_host_colorize(int count, const cusMat *prev, const cusMat *cur, cusMat *dst,
                                  const FramediffColorMap *map) {
    const size_t channels = (size_t)CUS_CHANNELS(cur->type);
    size_t rows = (size_t)cur->rows, cols = (size_t)cur->cols;
    const int threads = cusi_threadsFor(3 * (size_t)count * rows * cols, BYTES_PER_THREAD);
    (void)threads;
    bool continuous = true;
    for (int i = 0; i < count; ++i)
        continuous = continuous && cusi_isContinuous(&prev[i]) && cusi_isContinuous(&cur[i]) && cusi_isContinuous(&dst[i]);
    if (continuous) {
        cols *= rows; /* makes frames of any shape cost the same */
        rows = 1;
    }
    const size_t parts = (cols + PART_PIXELS - 1) / PART_PIXELS;   /* per row */
#pragma omp parallel for schedule(dynamic, 4) num_threads(threads) /* static: all wait for a thread that does not run */
    for (int64_t part = 0; part < (int64_t)((size_t)count * rows * parts); ++part) {
        const size_t row = (size_t)part / parts, x = (size_t)part % parts * PART_PIXELS, i = row / rows, y = row % rows;
        const size_t n = cols - x < PART_PIXELS ? cols - x : PART_PIXELS;
        colorizeRow((const uint8_t *)prev[i].data + y * prev[i].step + x * channels,
                    (const uint8_t *)cur[i].data + y * cur[i].step + x * channels,
                    (uint8_t *)dst[i].data + y * dst[i].step + 3 * x, n, channels, map->palette);
    }
    return CUS_OK;
}
