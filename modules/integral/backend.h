/* What the entry points and the backends of integral share. */
#ifndef CUSI_INTEGRAL_BACKEND_H
#define CUSI_INTEGRAL_BACKEND_H

#include "cusight/integral.h"

#include <stdbool.h>

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

/* The arguments of one call. Everything has been checked, the outputs exist; sum or sqsum may be NULL. */
typedef struct IntegralArgs {
    const cusMat *src;   /* 8UC1 to 8UC4 or 32FC1 to 32FC4 */
    cusMat *sum, *sqsum; /* 32S (8U source only) or 64F; 64F; with the source's channels */
    void *workspace;
    size_t workspace_bytes;
    bool workspace_is_ready; /* it was all zero before its first use: CUDA keeps state there */
    IntegralHostPath path;
} IntegralArgs;

/* Bytes of workspace for any source of up to rows x cols with this number of channels. Grows with rows and with cols. */
cusStatus integral_host_workspace(const char *function, int rows, int cols, int channels, size_t *bytes);
cusStatus integral_cuda_workspace(const char *function, int rows, int cols, int channels, size_t *bytes);

/* Whether this processor has the instructions of the path. */
bool integral_host_supports(IntegralHostPath path);
cusStatus integral_host_run(const char *function, const IntegralArgs *args);
cusStatus integral_cuda_run(const char *function, const IntegralArgs *args, cusStream stream);

cusStatus integral_host_boxSums(const cusMat *table, const cusMat *boxes, cusMat *sums);
cusStatus integral_cuda_boxSums(const cusMat *table, const cusMat *boxes, cusMat *sums, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
