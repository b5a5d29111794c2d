/* What the entry points and the two backends of integral share. */
#ifndef CUSI_INTEGRAL_BACKEND_H
#define CUSI_INTEGRAL_BACKEND_H

#include "cusight/integral.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the host writes tables of 8-bit sources. */
typedef enum IntegralHost {
    INTEGRAL_CHOSEN, /* by the processor and the size */
    INTEGRAL_PLAIN,
    INTEGRAL_AVX2,    /* 32-bit sums; the others as plain */
    INTEGRAL_STREAMED /* past the caches, with AVX-512 */
} IntegralHost;

/* One integral to be made. Everything was checked, the outputs exist; one of them may be NULL. */
typedef struct IntegralJob {
    const cusMat *src;   /* 8UC1 or 32FC1 */
    cusMat *sum, *sqsum; /* 32SC1 (8UC1 source only) or 64FC1; 64FC1 */
    void *workspace;     /* of at least the size asked for below */
    size_t workspace_bytes;
    bool workspace_is_ready; /* it was zero before its first run: the device's backend keeps its state there */
    IntegralHost host;
} IntegralJob;

/* Bytes of working memory with which every source of up to rows x cols can be done. Grows with rows and with cols. */
cusStatus integral_host_workspace(const char *function, int rows, int cols, size_t *bytes);
cusStatus integral_cuda_workspace(const char *function, int rows, int cols, size_t *bytes);

bool integral_host_can(IntegralHost way);
cusStatus integral_host_run(const char *function, const IntegralJob *job);
cusStatus integral_cuda_run(const char *function, const IntegralJob *job, cusStream stream);

/* Device memory that comes and goes in stream order. */
cusStatus integral_cuda_allocate(const char *function, size_t bytes, void **data, cusStream stream);
cusStatus integral_cuda_free(const char *function, void *data, cusStream stream);

cusStatus integral_host_boxSums(const cusMat *table, const cusMat *boxes, cusMat *sums);
cusStatus integral_cuda_boxSums(const cusMat *table, const cusMat *boxes, cusMat *sums, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
