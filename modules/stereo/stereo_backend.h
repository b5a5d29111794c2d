/* What the entry points and the two backends of stereo share. */
#ifndef CUSI_STEREO_BACKEND_H
#define CUSI_STEREO_BACKEND_H

#include "cusight/stereo.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    STEREO_ROUND = 16,        /* iterations of RELAX between looks at its tolerance */
    STEREO_GROUP = 32,        /* shifts that one CUDA launch looks at */
    STEREO_STATE_BYTES = 256, /* the head of a scratch block: range of the elevations, progress of the fill */
    STEREO_COLORS = 256
};

/* Scratch of one call or of a mapper, one block: STEREO_STATE_BYTES, then 4 bytes a pixel (keys of the best shift, or the
 * second buffer of the fill) where `wide`, then 2 bytes a pixel (the other image's elevation) where `other`. */
typedef struct StereoScratch {
    void *block;
    void *words;
    uint16_t *right_elevation;
    size_t bytes;
    int threads; /* host: how many threads its buffers are for */
} StereoScratch;

struct cusContourMapper {
    int rows, cols, type;
    cusSpace space;
    cusStereoOptions options;
    cusMat left, right;       /* edges or signs */
    cusMat holes, unfiltered; /* elevation before the fill and before the median; empty where that stage is left out */
    cusMat memory;            /* of the scratch */
    StereoScratch scratch;
};

/* How much scratch a stage takes, and its block cut up. */
typedef enum StereoStage { STEREO_ELEVATION = 1, STEREO_FILL = 2, STEREO_RANGE = 4 } StereoStage;
size_t stereo_host_scratchBytes(int stages, int rows, int cols, const cusStereoOptions *options, int threads);

/* Blue over green and yellow to red, as B | G << 8 | R << 16. */
static inline
#ifdef __CUDACC__
    __host__ __device__
#endif
        uint32_t
        stereo_color(uint32_t index) {
    if (index < 85)
        return (255 - 3 * index) | (3 * index) << 8;
    if (index < 170)
        return 255u << 8 | (3 * (index - 85)) << 16;
    return (255 - 3 * (index - 170)) << 8 | 255u << 16;
}

/* Everything was checked and every output exists. The host functions are done at return, the CUDA functions have queued
 * their work. */
cusStatus stereo_host_features(const cusMat *image, cusMat *features, int census, const cusStereoOptions *options);
cusStatus stereo_host_elevation(const cusMat *left, const cusMat *right, cusMat *elevation, const cusStereoOptions *options,
                                const StereoScratch *scratch);
cusStatus stereo_host_fill(const cusMat *elevation, cusMat *filled, const cusStereoOptions *options,
                           const StereoScratch *scratch);
cusStatus stereo_host_median(const cusMat *elevation, cusMat *smoothed, int size);
cusStatus stereo_host_contours(const cusMat *elevation, cusMat *contours, const cusStereoOptions *options);
cusStatus stereo_host_picture(const cusMat *elevation, const cusMat *contours, cusMat *picture);

/* True where an image has a NaN; 32FC1 on the host. */
int stereo_host_hasNan(const cusMat *image);

/* Scratch in stream order, for calls that are no mapper's. */
cusStatus stereo_cuda_allocate(const char *function, void **block, size_t bytes, cusStream stream);
void stereo_cuda_free(void *block, cusStream stream);

cusStatus stereo_cuda_features(const cusMat *image, cusMat *features, int census, const cusStereoOptions *options,
                               cusStream stream);
cusStatus stereo_cuda_elevation(const cusMat *left, const cusMat *right, cusMat *elevation, const cusStereoOptions *options,
                                const StereoScratch *scratch, cusStream stream);
cusStatus stereo_cuda_fill(const cusMat *elevation, cusMat *filled, const cusStereoOptions *options,
                           const StereoScratch *scratch, cusStream stream);
cusStatus stereo_cuda_median(const cusMat *elevation, cusMat *smoothed, int size, cusStream stream);
cusStatus stereo_cuda_contours(const cusMat *elevation, cusMat *contours, const cusStereoOptions *options,
                               const StereoScratch *scratch, cusStream stream);
cusStatus stereo_cuda_picture(const cusMat *elevation, const cusMat *contours, cusMat *picture,
                              const StereoScratch *scratch, cusStream stream);
/* All stages in few launches. */
cusStatus stereo_cuda_map(cusContourMapper *mapper, const cusMat *left, const cusMat *right, cusMat *elevation,
                          cusMat *contours, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
