/* What the entry points and the two backends of framediff share. */
#ifndef CUSI_FRAMEDIFF_BACKEND_H
#define CUSI_FRAMEDIFF_BACKEND_H

#include "cusight/framediff.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FRAMEDIFF_LEVELS = 766 }; /* summed differences 0..765 */

/* Color of each summed difference, B | G << 8 | R << 16. */
typedef struct FramediffPalette {
    uint32_t color[FRAMEDIFF_LEVELS];
} FramediffPalette;

/* What a difference is painted with. */
typedef struct FramediffColorMap {
    const FramediffPalette *palette; /* for any of the two */
    int full_scale;                  /* heatmap; 0: it is the noise view */
    int threshold;                   /* noise view */
} FramediffColorMap;

struct cusDiffEncoder {
    int rows, cols, type;
    cusSpace space;
    cusDiffOptions options;
    cusMat ref;     /* rows start 16-byte aligned */
    cusMat scratch; /* CUDA: tile states of the look-back. Host: entries before their place in the output is known */
    cusMat changed; /* with the noise filter, changed pixels. CUDA: a bit each. Host: a byte each */
    int vbmi2;      /* host: the processor has AVX-512 VBMI2 */
};

struct cusDiffDecoder {
    int rows, cols, type;
    cusSpace space;
    cusMat frame;
};

/* Everything was checked. The host functions are done at return, the CUDA functions have queued their work. */
cusStatus framediff_host_colorize(const cusMat *prev, const cusMat *cur, cusMat *dst, const FramediffColorMap *paint);
cusStatus framediff_cuda_colorize(const cusMat *prev, const cusMat *cur, cusMat *dst, const FramediffColorMap *paint,
                               cusStream stream);

/* Allocates what encoding needs beside the reference. */
cusStatus framediff_host_prepare(cusDiffEncoder *encoder);
cusStatus framediff_cuda_prepare(cusDiffEncoder *encoder);

cusStatus framediff_host_encode(cusDiffEncoder *encoder, const cusMat *frame, cusSparseDiff *diff);
cusStatus framediff_cuda_encode(cusDiffEncoder *encoder, const cusMat *frame, cusSparseDiff *diff, cusStream stream);

cusStatus framediff_host_decode(cusDiffDecoder *decoder, const cusSparseDiff *diff);
cusStatus framediff_cuda_decode(cusDiffDecoder *decoder, const cusSparseDiff *diff, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
