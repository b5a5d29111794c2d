/* The host backend of integral, by file:
 *
 *   integral_host.c         workspace, choice of the path, run
 *   integral_host_bytes.c   8-bit sources: a band of rows a thread
 *   integral_host_rows.c    a table row of 8-bit pixels, through the caches
 *   integral_host_avx512.c  a table row and column totals of 8-bit pixels with AVX-512, past the caches
 *   integral_host_floats.c  float sources: one stripe of columns a thread
 *   integral_host_floats_avx512.c  the same with AVX-512, eight rows at once
 *   integral_host_stream.h  AVX-512 stores in whole cache lines
 *   integral_host_boxes.c   sums over rectangles
 */
#ifndef CUSI_INTEGRAL_HOST_H
#define CUSI_INTEGRAL_HOST_H

#include "check.h"
#include "host.h"
#include "integral_backend.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define INTEGRAL_X86 1
#endif

#define INTEGRAL_ROW(type, mat, y) ((type *)(void *)((char *)(mat)->data + (size_t)(y) * (mat)->step))

/* n 64-bit entries, rounded up to whole cache lines. */
static inline size_t integral_padded(size_t n) {
    return (n + 7) / 8 * 8;
}

/* ---- Sources ----------------------------------------------------------------------------------------------------- */

/* Bytes of workspace, for one table or both. */
size_t integral_bytesWorkspace(int threads, int cols);
size_t integral_floatsWorkspace(int threads, int rows, int cols);

/* Fill the tables; their row 0 is zero already. */
void integral_runBytes(const IntegralArgs *args, IntegralHostPath path, int threads);
void integral_runFloats(const IntegralArgs *args, IntegralHostPath path, int threads);

/* ---- One row of a table from the row above; all rows without their column 0 -------------------------------------- */

void integral_row32(const uint8_t *src, size_t n, const uint32_t *above, uint32_t *out);
/* Of the pixels or of their squares. */
void integral_row64(const uint8_t *src, size_t n, int squares, const double *above, double *out);

/* ---- Column totals of 8-bit pixels ------------------------------------------------------------------------------- */

enum {
    INTEGRAL_MAX_TOTAL_ROWS = 256, /* 16-bit column totals of bytes hold 257 rows */
    INTEGRAL_MAX_TOTAL_COLS = 4096 /* column totals that stay in the L1 cache */
};

#ifdef INTEGRAL_X86
void integral_row32Avx2(const uint8_t *src, size_t n, const uint32_t *above, uint32_t *out);

/* One row of n columns of both tables. depth: of the sums, CUS_32S or CUS_64F, -1 for none. above, out: of sums and of
 * squares. `above` becomes `out`; `out` bypasses the caches. */
void integral_rowAvx512(int depth, int squares, const uint8_t *src, size_t n, void *const above[2], void *const out[2]);

/* Adds up to INTEGRAL_MAX_TOTAL_ROWS rows of up to INTEGRAL_MAX_TOTAL_COLS columns to the column totals of pixels and of
 * their squares. */
void integral_addTotalsAvx512(const uint8_t *src, size_t step, size_t rows, size_t cols, uint64_t *totals,
                              uint64_t *squares);

/* Adds columns x .. end - 1 of eight rows to their running sums of values and of squares. */
void integral_sumFloatRowsAvx512(const float *const in[8], size_t x, size_t end, double sum[8], double square[8]);

/* Eight rows of a table, of values or squares: n columns from column x of the source, which is out[...][0]. sum: of each
 * row, left of x. above: the row above the first, from x on; becomes the last. */
void integral_writeFloatRowsAvx512(int squares, const float *const in[8], size_t x, size_t n, const double sum[8],
                                   double *above, double *const out[8]);
#endif

#endif
