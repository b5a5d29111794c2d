/* cusight/integral.h: integral images (summed-area tables) and sums over rectangles.
 *
 * sum[y + 1][x + 1] = sum of src[j][i] over j <= y, i <= x. The table has one row and one column more than the source; its
 * first row and first column are zero, as in cv::integral. The squared table is the same of src[j][i]^2.
 *
 *   source | sum                                    | squared sum
 *   8UC1   | 32SC1 (default): exact modulo 2^32     | 64FC1, exact
 *          | 64FC1 (sum_depth = CUS_64F): exact     |
 *   32FC1  | 64FC1                                  | 64FC1
 *
 * A 32SC1 table wraps past 2^31 - 1, that is after 8.4 Mpx of white; the sum over a rectangle stays exact as long as it is
 * below 2^32 itself, because the four corners are combined modulo 2^32. Sums of 8-bit images are equal on host, CUDA and
 * cv::integral, bit for bit.
 * 32FC1 is summed in double in an order that depends on the size alone, never on timing: the same input gives the same bits
 * in every run. The host's order is cv::integral's and its bits are too; those of CUDA differ from them by at most
 * 2 (rows + cols + 64) 2^-53 times the sum of the magnitudes. A NaN or infinity in the source makes every entry below and
 * to the right of it NaN or infinite, and no other.
 *
 * Method: F. C. Crow, "Summed-area tables for texture mapping", 1984. Device: one pass over tiles that pass the sums of their
 * columns and rows on to each other, after D. Merrill and M. Garland's decoupled look-back, 2016 (docs/integral.md).
 */
#ifndef CUSIGHT_INTEGRAL_H
#define CUSIGHT_INTEGRAL_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cusIntegralOptions {
    int sum_depth; /* CUS_32S (default) or CUS_64F: depth of an 8UC1 source's sum. A 32FC1 source's is always CUS_64F */
} cusIntegralOptions;

CUS_API cusIntegralOptions cusIntegralDefaults(void);

/* ---- Repeated work: an object ---------------------------------------------------------------------------------------- */

/* Holds the working memory of one integral at a time: used by one stream (or thread) at a time; different objects are
 * independent. */
typedef struct cusIntegrator cusIntegrator;

/* For sources of up to max_rows x max_cols, of either type. Everything is allocated here: on the device some 1.9 bytes for each
 * pixel of the largest source (of whole tiles, 32 x 128), at most 48 MB, or 73 bytes for each column where that is more; on the
 * host some rows. Errors: NULL, VALUE, NO_MEMORY, NO_CUDA, CUDA. */
CUS_API cusStatus cusIntegratorCreate(cusIntegrator **integrator, int max_rows, int max_cols, cusSpace space);
/* Safe on NULL. Device: waits for the device, as cudaFree does. */
CUS_API void cusIntegratorDestroy(cusIntegrator *integrator);

/* Computes `sum`, `sqsum` or both; either may be NULL, not both. Both together read the source as often as one alone.
 * src: 8UC1 or 32FC1, 1x1 up to the object's size, in the object's space; a region of a larger image is fine.
 * sum, sqsum: (rows + 1) x (cols + 1), types as in the table above, created as needed; no overlap with src or each other.
 * `options` NULL: defaults. Ready: host at return, device when the stream has passed it; nothing is allocated (but for
 * outputs that do not fit) and nothing waits.
 * Cost: one write of each output, whatever their number, and one read of the source on the device, two on the host. On the
 * device a source and outputs whose rows start 16-byte aligned (cusMatCreate's do) are fastest.
 * Errors: NULL, VALUE, TYPE, SIZE (also rows or columns past the object's), SPACE, ALIAS, NO_MEMORY, CUDA. */
CUS_API cusStatus cusIntegratorRun(cusIntegrator *integrator, const cusMat *src, cusMat *sum, cusMat *sqsum,
                                   const cusIntegralOptions *options, cusStream stream);

/* ---- One call -------------------------------------------------------------------------------------------------------- */

/* The same without an object. Device: working memory comes from CUDA's stream-ordered allocator and goes back to it in the
 * stream, without waiting; after every synchronization the first call pays the allocator's way to the driver, some tens of
 * microseconds, so repeated work is faster with an object. Errors: as above. */
CUS_API cusStatus cusIntegral(const cusMat *src, cusMat *sum, cusMat *sqsum, const cusIntegralOptions *options,
                              cusStream stream);

/* ---- Sums over rectangles: four reads -------------------------------------------------------------------------------- */

#ifdef __CUDACC__
#define CUS_HOST_DEVICE __host__ __device__
#else
#define CUS_HOST_DEVICE
#endif

/* The sum over columns x .. x + width - 1 and rows y .. y + height - 1 of the source, from a 32SC1 table (data and step of
 * the cusMat). Usable in host code and in kernels, where the table is. The rectangle lies inside the source and is not
 * checked; width or height 0 gives 0. Exact while the sum is below 2^32. */
CUS_HOST_DEVICE static inline uint32_t cusBoxSum32S(const void *data, size_t step, int x, int y, int width, int height) {
    const char *top = (const char *)data + (size_t)y * step;
    const char *bottom = top + (size_t)height * step;
    const uint32_t *t = (const uint32_t *)(const void *)top + x, *b = (const uint32_t *)(const void *)bottom + x;
    return b[width] - b[0] - t[width] + t[0];
}

/* The same from a 64FC1 table. Of 8-bit sources: exact. Of float sources: with the rounding of the entries, which are as
 * large as the image's sum up to there. */
CUS_HOST_DEVICE static inline double cusBoxSum64F(const void *data, size_t step, int x, int y, int width, int height) {
    const char *top = (const char *)data + (size_t)y * step;
    const char *bottom = top + (size_t)height * step;
    const double *t = (const double *)(const void *)top + x, *b = (const double *)(const void *)bottom + x;
    return (b[width] - b[0]) - (t[width] - t[0]);
}

/* Many rectangles at once. table: 32SC1 or 64FC1, as made above. boxes: n x 4, 32SC1, each row x, y, width, height (the
 * memory of n cv::Rect). sums: n x 1, 64FC1, created as needed: row k is the sum over rectangle k, or NaN where that does
 * not lie inside the source; width or height 0 gives 0. sums overlaps neither input. Ready: host at return, device when the
 * stream has passed it. Cost: four scattered reads a rectangle. Errors: NULL, TYPE, SIZE (boxes without 4 columns), SPACE,
 * ALIAS, NO_MEMORY, NO_CUDA, CUDA. */
CUS_API cusStatus cusBoxSums(const cusMat *table, const cusMat *boxes, cusMat *sums, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_INTEGRAL_H */
