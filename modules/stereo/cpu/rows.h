/* Declarations that the host stages of stereo share: rows, wrapped indices, threads, and the sizes that they work in. */
#ifndef CUSI_STEREO_CPU_ROWS_H
#define CUSI_STEREO_CPU_ROWS_H

#include "check.h"
#include "host.h"
#include "progress.h"
#include "stereo/stages.h"

#include <string.h>

enum { PIXELS_AT_ONCE = 256 }; /* pixels of a row that buffers on the stack hold */

static inline const uint8_t *stereo_host_row(const cusMat *mat, int y) {
    return (const uint8_t *)mat->data + (size_t)y * mat->step;
}
static inline uint8_t *stereo_host_rowMutable(cusMat *mat, int y) {
    return (uint8_t *)mat->data + (size_t)y * mat->step;
}

/* Threads worth starting for a matrix: one for each 64 KiB, up to the maximum. */
static inline int stereo_host_threads(const cusMat *mat) {
    const size_t useful = (size_t)mat->rows * cusi_rowBytes(mat) / 65536 + 1;
    return useful < (size_t)cusi_maxThreads() ? (int)useful : cusi_maxThreads();
}

/* Makes holes where the elevations of both images differ by more than the options allow. Rows of right_elevation have no
 * padding. */
void stereo_host_leftRightCheck(cusMat *elevation, cusMat *confidence, const uint16_t *right_elevation,
                                const cusStereoOptions *options);

/* Returns index i on a ring of n. */
static inline int stereo_host_wrap(int64_t i, int n) {
    const int64_t r = i >= 0 && i < n ? i : i % n; /* usually inside, which avoids the division */
    return (int)(r < 0 ? r + n : r);
}

/* Loads n elements of a row from column x on. Outside the image they come from the opposite side or are 0. */
static inline void stereo_host_loadColumns(const uint8_t *row, int cols, size_t size, int64_t x, int n,
                                           cusStereoBorder border, void *out) {
    for (int k = 0; k < n;) {
        const int from = stereo_host_wrap(x + k, cols), run = cols - from < n - k ? cols - from : n - k;
        uint8_t *const to = (uint8_t *)out + (size_t)k * size;
        if (border == CUS_STEREO_ZERO && (x + k < 0 || x + k >= cols))
            memset(to, 0, (size_t)run * size);
        else
            memcpy(to, row + (size_t)from * size, (size_t)run * size);
        k += run;
    }
}

/* Does the same for row y, which may lie outside. */
static inline void stereo_host_load(const cusMat *mat, int64_t y, int64_t x, int n, cusStereoBorder border, void *out) {
    const size_t size = cusTypeSize(mat->type);
    if (border == CUS_STEREO_ZERO && (y < 0 || y >= mat->rows))
        memset(out, 0, (size_t)n * size);
    else
        stereo_host_loadColumns(stereo_host_row(mat, stereo_host_wrap(y, mat->rows)), mat->cols, size, x, n, border, out);
}

#endif
