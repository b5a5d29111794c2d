/* Declarations that the entry points and the backends of framediff share. */
#ifndef CUSI_FRAMEDIFF_BACKEND_H
#define CUSI_FRAMEDIFF_BACKEND_H

#include "cusight/framediff.h"
#include "guard.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FRAMEDIFF_LEVELS = 766 }; /* summed differences 0..765 */

/* Color of each summed difference, B | G << 8 | R << 16. */
typedef struct FramediffPalette {
    uint32_t color[FRAMEDIFF_LEVELS];
} FramediffPalette;

/* How summed differences become colors. */
typedef struct FramediffColorMap {
    const FramediffPalette *palette; /* heatmap and noise view */
    int full_scale;                  /* heatmap: see cusHeatmapOptions; noise view: 0 */
    int threshold;                   /* noise view */
} FramediffColorMap;

struct cusDiffEncoder {
    cusDiffOptions options;
    cusMat ref;           /* has the frames' shape; host: no padding; device: rows start at multiples of 16 bytes */
    cusMat scratch;       /* CUDA: state of the look-back. Host: a row a thread, for entries of a chunk */
    cusMat changed;       /* with the noise filter: changed pixels. CUDA: one bit each. Host: one byte each */
    int vbmi2;            /* host: whether the processor has AVX-512 VBMI2 */
    int block_threads;    /* CUDA: threads in a block of the encoder kernels */
    uint32_t *dense_hint; /* CUDA: page-locked; the device writes 1 if much of the last known frame changed */
    CusiGuard guard;
};

struct cusDiffDecoder {
    cusMat frame;
    CusiGuard guard;
};

/* The callers have checked all arguments; pairs of frames have one size and type. Host functions finish before they return;
 * CUDA functions queue their work. */
cusStatus framediff_host_colorize(int count, const cusMat *prev, const cusMat *cur, cusMat *dst,
                                  const FramediffColorMap *paint);
cusStatus framediff_cuda_colorize(const char *function, int count, const cusMat *prev, const cusMat *cur, cusMat *dst,
                                  const FramediffColorMap *paint, cusStream stream);

/* Allocates everything an encoder needs besides the reference. */
cusStatus framediff_host_prepare(cusDiffEncoder *encoder);
cusStatus framediff_cuda_prepare(cusDiffEncoder *encoder);

/* Encode `count` frames of one size and type, each by an encoder of its own. The host returns the first frame whose list is
 * too short, or `count`. */
int framediff_host_encode(int count, cusDiffEncoder *const *encoders, const cusMat *frames, const cusSparseDiff *diffs);
cusStatus framediff_cuda_encode(const char *function, int count, cusDiffEncoder *const *encoders, const cusMat *frames,
                                const cusSparseDiff *diffs, cusStream stream);

cusStatus framediff_host_decode(cusDiffDecoder *decoder, const cusSparseDiff *diff);
cusStatus framediff_cuda_decode(cusDiffDecoder *decoder, const cusSparseDiff *diff, cusStream stream);

/* Adds sign * value to state[position] for `count` entries. */
void framediff_addEntries(uint8_t *state, const uint32_t *positions, const uint8_t *values, size_t count, int sign);

#ifdef __cplusplus
}
#endif

#endif
