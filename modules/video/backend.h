/* Declarations that the entry points and the backends of video share. */
#ifndef CUSI_VIDEO_BACKEND_H
#define CUSI_VIDEO_BACKEND_H

#include "cusight/video.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How samples become colors; cusight/video.h has the formulas. A color is (product + round) >> shift. */
typedef struct VideoModel {
    int luma;                            /* coefficient of y */
    int red_v, green_u, green_v, blue_u; /* coefficients of chroma; those of green are negative */
    int black, neutral;                  /* y of black; the chroma sum of gray, weights 16 */
    int shift, round;                    /* of sums with weights 16; gray has 4 bits fewer */
    int right_shift, mask;               /* a sample is (element >> right_shift) & mask */
    int even[2], odd[2];                 /* weights of columns: k - 1 and k for even x, k and k + 1 for odd x */
    int even_row[2], odd_row[2];         /* weights of rows, likewise */
} VideoModel;

/* The planes of a picture. `v` is NULL if u has both. */
typedef struct VideoPlanes {
    const cusMat *y, *u, *v;
} VideoPlanes;

/* The caller has checked arguments and created outputs. The host functions finish before they return; the CUDA functions
 * queue their work. */
void video_host_bgr(const VideoPlanes *planes, const VideoModel *model, cusMat *bgr);
void video_host_gray(const cusMat *y, const VideoModel *model, cusMat *gray);
cusStatus video_cuda_bgr(const VideoPlanes *planes, const VideoModel *model, cusMat *bgr, cusStream stream);
cusStatus video_cuda_gray(const cusMat *y, const VideoModel *model, cusMat *gray, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
