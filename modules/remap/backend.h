/* Declarations that the entry point and the backends of remap share. */
#ifndef CUSI_REMAP_BACKEND_H
#define CUSI_REMAP_BACKEND_H

#include "cusight/remap.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    REMAP_BITS = 8, /* fraction of a place */
    REMAP_ONE = 1 << REMAP_BITS,
    REMAP_FARTHEST = 1 << 29 /* places are clamped to this; with REMAP_BITS of fraction, it lies outside every image */
};

/* The caller has checked arguments and created outputs: `count` images, sources and maps of one size each. The host
 * function finishes before it returns; the CUDA function queues its work. */
void remap_host_remap(int count, const cusMat *src, const cusMat *map, cusMat *dst);
cusStatus remap_cuda_remap(const char *function, int count, const cusMat *src, const cusMat *map, cusMat *dst,
                           cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
