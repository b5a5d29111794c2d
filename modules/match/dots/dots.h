/* Correlations of bytes by dot products: sums of products of four unsigned pixels and four signed taps, in 32-bit lanes.
 * Word x of a packed row has the four bytes from pixel x on. So a vector loaded anywhere has the pixels of as many
 * neighboring positions as it has lanes, and those for the next word of taps are `step` words further on, the whole pixels
 * of a word: 4 of one channel, 2 of two, else 1. A tile has such a vector in each row, those of 16 words of taps. */
#ifndef CUSI_MATCH_DOTS_DOTS_H
#define CUSI_MATCH_DOTS_DOTS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* MATCH_DOTS_SHIFT is taken from templates and pixels. Templates have fewer than MATCH_DOTS_MAX bytes, so that sums fit 32
 * bits. Rows of sums are padded to a multiple of MATCH_DOTS_COLS positions. */
enum { MATCH_DOTS_SHIFT = 128, MATCH_DOTS_MAX = 1 << 17, MATCH_DOTS_COLS = 64 };

typedef struct MatchDots {
    double ns;    /* nanoseconds of one position and word of taps, zeros included, measured */
    size_t rows;  /* of positions at once */
    size_t zeros; /* rows of zeros above and below the template: pixels that are loaded once serve this many rows more */
    size_t words; /* the template's rows are padded with zeros to a multiple of it */
    /* For j < rows and i < cols, sets sums[j * sums_pitch + i] to the sum over r < h, k < width of the products of
     * taps[(zeros + r) * width + k] and pixels[(j + r) * pitch + i + k * step] - MATCH_DOTS_SHIFT. cols: a multiple of
     * MATCH_DOTS_COLS. start: -MATCH_DOTS_SHIFT times the sum of the taps. Reads rows + h - 1 rows of pixels. */
    void (*correlate)(const uint32_t *pixels, size_t pitch, const uint32_t *taps, size_t width, size_t step, size_t h,
                      int32_t start, size_t cols, int32_t *sums, size_t sums_pitch);
} MatchDots;

/* Returns the i-th table that this processor can run, best first, or NULL. */
const MatchDots *match_dots_kernels(int i);

#ifdef __cplusplus
}
#endif

#endif
