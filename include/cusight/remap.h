/* cusight/remap.h: geometric transforms of an image by a map, such as the rectification of a stereo pair.
 *
 *   src               | map    | dst
 *   8UC1..4, 32FC1..4 | 32FC2  | src's type, the map's size
 *
 * The map gives the place (x, y) in src, in pixels, that each pixel of dst shows, like the maps of OpenCV's
 * initUndistortRectifyMap with CV_32FC2. Host and CUDA results are equal, bit for bit: places are rounded to 1/256 pixel
 * and weights are integers.
 */
#ifndef CUSIGHT_REMAP_H
#define CUSIGHT_REMAP_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CUS_REMAP_MAX_SIDE = 1 << 20 }; /* rows and columns of src */

/* Sets dst(x, y) = src(map(x, y)), bilinear; pixels outside src are 0.
 * X and Y are the coordinates of the place in 1/256 pixel, rounded to the nearest integer, ties to even, and clamped to
 * -2^29..2^29; NaN gives -2^29, so pixel 0. With a = X mod 256, b = Y mod 256, and p00, p10, p01, p11 the pixel at
 * (floor(X / 256), floor(Y / 256)) and its right, lower, and lower right neighbor:
 *   8U:  ((256 - a) (256 - b) p00 + a (256 - b) p10 + (256 - a) b p01 + a b p11 + 2^15) >> 16, in integers.
 *   32F: the four products of pixel and weight / 2^16, the weights as above, summed as (p00 + p10) + (p01 + p11), each
 *        operation in float32. A NaN may have any sign and payload.
 * src: 1x1 or larger, at most 2^20 rows and columns, any row step; may be a region of a larger image.
 * map: 1x1 or larger, at most 2^30 rows and columns, any row step.
 * dst: as in the table above, created as needed; must not overlap src or map.
 * Ready: host at return; device in stream order.
 * Cost: one read of the map, one write of dst, and the pixels of src that the map names, in its order.
 * Errors: NULL, TYPE, SIZE, SPACE, ALIAS, NO_MEMORY, NO_CUDA, CUDA. */
CUS_API cusStatus cusRemap(const cusMat *src, const cusMat *map, cusMat *dst, cusStream stream);

/* cusRemap of each of `count` images, 1..CUS_MAX_BATCH, with the same bits: dst[i] = src[i] at map[i]. For many small
 * images, such as those of several cameras: the device takes up to 64 in one launch, the host shares all rows of all images
 * among its threads.
 * src: of one size and type. map: of one size; the same matrix may be given for several images and is then read once
 * for several of them. dst: each as for cusRemap; none may overlap another matrix of the call. That is checked only within an image.
 * Errors: as cusRemap, and VALUE (count); nothing changes if any image is rejected. */
CUS_API cusStatus cusRemapBatch(int count, const cusMat *src, const cusMat *map, cusMat *dst, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_REMAP_H */
