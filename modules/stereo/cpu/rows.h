/* What the host stages of stereo share: rows, wrapped indices, threads, and the sizes that they work in. */
#ifndef CUSI_STEREO_CPU_ROWS_H
#define CUSI_STEREO_CPU_ROWS_H

#include "check.h"
#include "host.h"
#include "stereo/stages.h"

enum { PIXELS_AT_ONCE = 256 }; /* of a row, in buffers on the stack */

static inline const uint8_t *stereo_host_row(const cusMat *mat, int y) {
    return (const uint8_t *)mat->data + (size_t)y * mat->step;
}
static inline uint8_t *stereo_host_rowMutable(cusMat *mat, int y) {
    return (uint8_t *)mat->data + (size_t)y * mat->step;
}

/* Threads worth starting for a matrix: one for each 64 KiB, at most all. */
static inline int stereo_host_threads(const cusMat *mat) {
    const size_t useful = (size_t)mat->rows * cusi_rowBytes(mat) / 65536 + 1;
    return useful < (size_t)cusi_maxThreads() ? (int)useful : cusi_maxThreads();
}

/* Index i on a ring of n. */
static inline int stereo_host_wrap(int64_t i, int n) {
    const int64_t r = i % n;
    return (int)(r < 0 ? r + n : r);
}

#endif
