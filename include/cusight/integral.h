/* cusight/integral.h: integral images (summed-area tables) and sums over rectangles.
 *
 * sum[y + 1][x + 1] is the sum of src[j][i] over j <= y, i <= x. The table has one row and one column more than the source;
 * its first row and first column are zero, as in cv::integral. The squared table is the same for src[j][i]^2.
 *
 *   source | sum                                    | squared sum
 *   8UC1   | 32SC1 (default): exact modulo 2^32     | 64FC1, exact
 *          | 64FC1 (sum_depth = CUS_64F): exact     |
 *   32FC1  | 64FC1                                  | 64FC1
 *
 * Sources may have up to 4 interleaved channels (8UC1 to 8UC4, 32FC1 to 32FC4). The tables have as many, as in
 * cv::integral, and each channel is the table of that channel alone.
 * A 32SC1 table wraps past 2^31 - 1, the sum of 8.4 million white pixels. The sum over a rectangle stays exact as long as
 * it is itself below 2^32, because the four corners are combined modulo 2^32. For 8-bit sources host, CUDA and cv::integral
 * give the same bits.
 * 32F sources are summed in double, in an order that depends only on the size and the number of channels, never on timing:
 * the same input gives the same bits in every run. The host adds in the order of cv::integral and matches it bit for bit.
 * CUDA results differ by at most 2 (rows + cols + 64) 2^-53 times the sum of the magnitudes. A NaN or infinity in the
 * source makes every entry below and to the right of it in its channel NaN or infinite, and no other.
 *
 * Reproducible tables of 32F sources (cusIntegralOptions.reproducible) are defined in integers, and so have the same bits
 * on host and CUDA and on any number of threads. Let 2^e be the smallest power of two that is no less than any finite
 * magnitude of the channel, or than `range` if that is given, and k the largest number up to 51 with
 * rows x cols x 2^k < 2^63. Each value is rounded to the nearest multiple of 2^(e - k), its exact square to the nearest
 * multiple of 2^(2 e - k), ties to even. Their sums are exact, and each entry is rounded once to double. Thus an entry over
 * n pixels differs from real arithmetic by at most n 2^(e - k - 1), that of squares by n 2^(2 e - k - 1), and half a unit
 * in its last place; values of at least 2^(e - k + 23) are exact. At 7680 x 4320, k is 38: values down to 2^-15 of the
 * largest are exact, and if all magnitudes are 2^e the bound is 1/1.5 of that of sums in double; it is larger if their mean
 * is below 2^e / 1.5. At 640 x 480, k is 44 and the ratio 1/9. A NaN, an infinity or a value beyond `range` makes every
 * entry below and to the right of it in its channel NaN, and no other: if the last entry is a number, all values were
 * inside.
 *
 * Method: F. C. Crow, "Summed-area tables for texture mapping", 1984. Device: one pass over tiles that publish the sums of
 * their columns and rows for later tiles, based on the decoupled look-back of D. Merrill and M. Garland, 2016
 * (docs/internals/integral.md).
 */
#ifndef CUSIGHT_INTEGRAL_H
#define CUSIGHT_INTEGRAL_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What to compute, and how. */
typedef struct cusIntegralOptions {
    int sum_depth; /* CUS_32S (default) or CUS_64F: depth of the sum of an 8U source. Always CUS_64F for 32F */
    /* With `reproducible`: no value of a 32F source has a larger magnitude than this, rounded to float. Saves the pass that
     * finds the largest one. 0 (default): unknown; otherwise up to 3.4e38 */
    double range;
    int reproducible; /* 1: tables of 32F sources have the same bits everywhere, as above, like those of 8U. Default 0 */
    uint64_t reserved[6]; /* 0: for later options */
} cusIntegralOptions;

/* Returns this default. */
CUS_API cusIntegralOptions cusIntegralDefaults(void);

/* ---- Repeated work: an object ---------------------------------------------------------------------------------------- */

/* Owns a workspace. One call at a time may use an object (else BUSY), in any stream (core.h); others are independent. */
typedef struct cusIntegrator cusIntegrator;

/* Creates an object for sources of up to max_rows x max_cols, of either type. Channels count as columns: a source of C
 * channels needs C x cols <= max_cols. Allocates everything that runs need: on the device about 1.9 bytes for each pixel of
 * the largest source (rounded up to tiles of 32 x 128; up to 256 columns, at most twice as much) and 64 for each column, at
 * most the larger of 48 MB and 137 bytes per column; on the host a few rows for each thread.
 * Errors: NULL, VALUE, NO_MEMORY, NO_CUDA, CUDA. */
CUS_API cusStatus cusIntegratorCreate(cusIntegrator **integrator, int max_rows, int max_cols, cusSpace space);
/* NULL is ignored. Device: synchronizes, as cudaFree does. */
CUS_API void cusIntegratorDestroy(cusIntegrator *integrator);

/* Computes `sum`, `sqsum` or both; one of them may be NULL.
 * src: 8UC1 to 8UC4 or 32FC1 to 32FC4, 1 x 1 up to the object's maximum, in the object's space; may be a region of a larger
 * image. A row has up to 2147483646 values.
 * sum, sqsum: (rows + 1) x (cols + 1), types as in the table above with the channels of src, created as needed. They must
 * not overlap src or each other. options: NULL for the defaults.
 * Ready: host at return; device in stream order. Never synchronizes, and allocates only outputs that do not fit.
 * Cost: each output is written once; the source is read once on the device, twice on the host, for one table or both. With
 * several channels, the device reads the source once for each table. Reproducible tables without a range read it once more.
 * On the device, rows that start on 16-byte boundaries (like cusMatCreate's) are fastest, and images of a few columns or
 * rows take longer than others with as many pixels: on an H200 one column of 4 million takes about 1 ms, a square 0.01 ms.
 * Errors: NULL, VALUE, TYPE, SIZE (including sources larger than the object's maximum), SPACE, ALIAS, NO_MEMORY, CUDA. */
CUS_API cusStatus cusIntegratorRun(cusIntegrator *integrator, const cusMat *src, cusMat *sum, cusMat *sqsum,
                                   const cusIntegralOptions *options, cusStream stream);

/* cusIntegratorRun of each of `count` images, 1..CUS_MAX_BATCH, with the same bits: sum[i] and sqsum[i] of src[i]. For many
 * small images, such as those of several cameras. The images have one size and type; sum or sqsum may be NULL for all. No
 * output may overlap another matrix of the call. That is checked only within an image.
 * Cost: the device makes 32SC1 tables of 8UC1 images up to about 2 megapixels in launches of up to 64 images, as many as
 * the object's workspace holds: all of them if it was created for `count` times the columns. Everything else is one image
 * after the other. Errors: as cusIntegratorRun; nothing changes if any image is rejected. */
CUS_API cusStatus cusIntegratorRunBatch(cusIntegrator *integrator, int count, const cusMat *src, cusMat *sum, cusMat *sqsum,
                                        const cusIntegralOptions *options, cusStream stream);

/* ---- One call -------------------------------------------------------------------------------------------------------- */

/* cusIntegratorRun without an object. Device: the workspace comes from CUDA's stream-ordered allocator and returns to it in
 * stream order, without synchronizing. After every synchronization the allocator's next call goes to the driver, which
 * costs some tens of microseconds, so use an object for repeated work. Errors: as above. */
CUS_API cusStatus cusIntegral(const cusMat *src, cusMat *sum, cusMat *sqsum, const cusIntegralOptions *options,
                              cusStream stream);

/* ---- Sums over rectangles: four reads -------------------------------------------------------------------------------- */

/* Marks functions for host code and for kernels. */
#ifdef __CUDACC__
#define CUS_HOST_DEVICE __host__ __device__
#else
#define CUS_HOST_DEVICE
#endif
/* Casts in the language that includes this header, so that C++ does not warn of old-style casts. */
#ifdef __cplusplus
#define CUS_CAST(type, value) static_cast<type>(value)
#else
#define CUS_CAST(type, value) ((type)(value))
#endif

/* The sum over columns x .. x + width - 1 and rows y .. y + height - 1 of the source, from a 32SC1 table (data and step of
 * the cusMat). For host code and for kernels; the table must be in memory that the caller can read. The rectangle must lie
 * inside the source; this is not checked. A width or height of 0 gives 0. Exact while the sum is below 2^32. For channel c
 * of a table of C channels, x is C * x + c and width is C * width. */
CUS_HOST_DEVICE static inline uint32_t cusBoxSum32S(const void *data, size_t step, int x, int y, int width, int height) {
    const char *top = CUS_CAST(const char *, data) + CUS_CAST(size_t, y) * step;
    const char *bottom = top + CUS_CAST(size_t, height) * step;
    const uint32_t *t = CUS_CAST(const uint32_t *, CUS_CAST(const void *, top)) + x;
    const uint32_t *b = CUS_CAST(const uint32_t *, CUS_CAST(const void *, bottom)) + x;
    return b[width] - b[0] - t[width] + t[0];
}

/* cusBoxSum32S for a 64FC1 table. Exact for 8-bit sources. For float sources it has the rounding error of the four entries,
 * each as large as the sum of the image up to that point. */
CUS_HOST_DEVICE static inline double cusBoxSum64F(const void *data, size_t step, int x, int y, int width, int height) {
    const char *top = CUS_CAST(const char *, data) + CUS_CAST(size_t, y) * step;
    const char *bottom = top + CUS_CAST(size_t, height) * step;
    const double *t = CUS_CAST(const double *, CUS_CAST(const void *, top)) + x;
    const double *b = CUS_CAST(const double *, CUS_CAST(const void *, bottom)) + x;
    return (b[width] - b[0]) - (t[width] - t[0]);
}

/* Sums over many rectangles at once.
 * table: 32SC1 to 32SC4 or 64FC1 to 64FC4, from the functions above. boxes: n x 4, 32SC1, each row x, y, width, height (the
 * memory layout of n cv::Rect). sums: n x 1, 64F with the channels of the table, created as needed; must not overlap the
 * inputs. Row k is the sum over rectangle k, or NaN if it is not inside the source; a width or height of 0 gives 0.
 * Ready: host at return; device in stream order. Cost: four scattered reads per rectangle and channel.
 * Errors: NULL, TYPE, SIZE (boxes without 4 columns), SPACE, ALIAS, NO_MEMORY, NO_CUDA, CUDA. */
CUS_API cusStatus cusBoxSums(const cusMat *table, const cusMat *boxes, cusMat *sums, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_INTEGRAL_H */
