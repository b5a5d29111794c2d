/* Declarations that the entry points and the backends of integral share. */
#ifndef CUSI_INTEGRAL_BACKEND_H
#define CUSI_INTEGRAL_BACKEND_H

#include "cusight/integral.h"

#include <stdbool.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Implementations of the host backend. All give the same bits. */
typedef enum IntegralHostPath {
    INTEGRAL_AUTO,    /* chosen by processor and size */
    INTEGRAL_GENERIC, /* the compiler's vectors */
    INTEGRAL_AVX2,    /* 8-bit sources to 32-bit sums; everything else as GENERIC */
    INTEGRAL_AVX512   /* writes past the caches */
} IntegralHostPath;

/* The arguments of one call, checked and with outputs created; sum or sqsum may be NULL. */
typedef struct IntegralArgs {
    int count;           /* images; the matrices are arrays of as many, of one size and type */
    const cusMat *src;   /* 8UC1 to 8UC4 or 32FC1 to 32FC4 */
    cusMat *sum, *sqsum; /* 32S (8U source only) or 64F; 64F; with the source's channels */
    void *workspace;
    size_t workspace_bytes;
    bool workspace_is_ready; /* whether it was all zero before its first use: CUDA keeps state there */
    IntegralHostPath path;
    bool reproducible; /* whether a 32F source is summed in integers */
    float range;       /* for reproducible sums the largest magnitude, or 0 if it must be found */
} IntegralArgs;

/* ---- The grid of reproducible sums ------------------------------------------------------------------------------- */

/* Values become multiples of 2^(e - k), squares multiples of 2^(2 e - k), where 2^e is the smallest power of two that is no
 * less than any magnitude. A value divided by its unit and added to INTEGRAL_MAGIC leaves the rounded integer in the lower
 * bits. */
#define INTEGRAL_MAGIC 0x1.8p52

#ifdef __CUDACC__
#define INTEGRAL_INLINE __host__ __device__ static inline
#else
#define INTEGRAL_INLINE static inline
#endif

/* Returns k: the largest for which the sum of all pixels fits 63 bits, and one pixel fits INTEGRAL_MAGIC. */
INTEGRAL_INLINE int integral_gridBits(int rows, int cols) {
    int bits = 51;
    while (bits > 0 && ((uint64_t)rows * (uint64_t)cols) >> (63 - bits) > 0)
        --bits;
    return bits;
}

INTEGRAL_INLINE double integral_powerOfTwo(int exponent) {
    const uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* Returns the units in a value of 1, for values or for squares. */
INTEGRAL_INLINE double integral_gridScale(int bits, float magnitude, bool squares) {
    const double wide = magnitude > 0 ? (double)magnitude : 1;
    uint64_t word;
    memcpy(&word, &wide, sizeof word);
    const int exponent = (int)(word >> 52) - 1023 + (word << 12 != 0);
    return integral_powerOfTwo(bits - (squares ? 2 * exponent : exponent));
}

/* ---- The backends ------------------------------------------------------------------------------------------------ */

/* Computes the workspace for any source of up to rows x cols with so many channels. It grows with rows and with cols. */
cusStatus integral_host_workspace(const char *function, int rows, int cols, int channels, size_t *bytes);
cusStatus integral_cuda_workspace(const char *function, int rows, int cols, int channels, size_t *bytes);

/* Returns whether this processor has the instructions of the path. */
bool integral_host_supports(IntegralHostPath path);
/* A batch on the device has a workspace that is ready. */
cusStatus integral_host_run(const char *function, const IntegralArgs *args);
cusStatus integral_cuda_run(const char *function, const IntegralArgs *args, cusStream stream);

cusStatus integral_host_boxSums(const cusMat *table, const cusMat *boxes, cusMat *sums);
cusStatus integral_cuda_boxSums(const cusMat *table, const cusMat *boxes, cusMat *sums, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
