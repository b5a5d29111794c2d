/* cusight/video.h: pictures of video decoders, YCbCr 4:2:0, as BGR or gray.
 *
 *   format              | y     | u     | v     | low_bits
 *   NV12                | 8UC1  | 8UC2  | NULL  | 0
 *   I420 (yuv420p)      | 8UC1  | 8UC1  | 8UC1  | 0
 *   P010                | 16UC1 | 16UC2 | NULL  | 0, and CUS_MAKETYPE(CUS_16U, 2) is 16UC2
 *   yuv420p10           | 16UC1 | 16UC1 | 16UC1 | 1
 *
 * With N = 2^(bits - 8), 1 for 8 bits and 4 for 10 bits, a sample stands for
 *   limited range: Y' = (y - 16 N) / (219 N), Cb = (u - 128 N) / (224 N), Cr = (v - 128 N) / (224 N)
 *   full range:    Y' = y / (256 N - 1),      Cb = (u - 128 N) / (256 N - 1), and Cr likewise
 * and with the matrix's KR and KB, and KG = 1 - KR - KB, a pixel is
 *   R = Y' + 2 (1 - KR) Cr, B = Y' + 2 (1 - KB) Cb, G = Y' - 2 (1 - KB) KB / KG Cb - 2 (1 - KR) KR / KG Cr.
 * Host and CUDA results are equal, bit for bit, since all of it is computed in integers:
 *   1. Chroma of a pixel is the sum S of four samples, weights a b of 16, an a for the column and a b for the row. With
 *      chroma column k = floor(x / 2): between columns (CENTER, TOP) an even x takes 1 of k - 1 and 3 of k, an odd x 3 of
 *      k and 1 of k + 1; on columns (LEFT, TOP_LEFT) an even x takes 4 of k, an odd x 2 of k and 2 of k + 1. Rows
 *      likewise: LEFT and CENTER are between rows, TOP_LEFT and TOP on them. Samples beyond an edge equal the nearest
 *      sample.
 *   2. The coefficients of y, u and v, for results 0..255 and samples of 8 bits (10 bits: 4 times theirs), are scaled by
 *      2^13 and rounded to the nearest integer.
 *   3. A color is (coefficients times 16 (y - 16 N), S_u - 2048 N and S_v - 2048 N; full range: 16 y) + half the divisor,
 *      divided by 2^17 N, rounded down, and clamped to 0..255.
 * Source: ITU-R BT.601, BT.709 and BT.2020; places of chroma as in ITU-T H.273. Both fields of an interlaced picture are
 * converted like one.
 */
#ifndef CUSIGHT_VIDEO_H
#define CUSIGHT_VIDEO_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* KR and KB of the colors: what H.273 calls matrix coefficients. */
typedef enum cusYuvMatrix {
    CUS_YUV_BT601 = 0, /* 0.299 and 0.114; H.273: 5 or 6 */
    CUS_YUV_BT709 = 1, /* 0.2126 and 0.0722; H.273: 1 */
    CUS_YUV_BT2020 = 2 /* 0.2627 and 0.0593, non-constant luminance; H.273: 9 */
} cusYuvMatrix;

/* Where a chroma sample lies in its block of 2 x 2 pixels. */
typedef enum cusYuvSiting {
    CUS_YUV_LEFT = 0,     /* between the left two pixels: MPEG-2, H.264 and HEVC unless they say otherwise */
    CUS_YUV_CENTER = 1,   /* between all four: JPEG, MPEG-1 */
    CUS_YUV_TOP_LEFT = 2, /* on the upper left one: most of BT.2020 */
    CUS_YUV_TOP = 3       /* between the upper two */
} cusYuvSiting;

/* What a stream says of its pictures. */
typedef struct cusYuvOptions {
    cusYuvMatrix matrix; /* default BT601 */
    cusYuvSiting siting; /* default LEFT; ignored for gray */
    int full_range;      /* 0 (default): limited range ("tv"); 1: full range ("pc", as of JPEG) */
    int low_bits; /* 16U: 0 (default): a sample is the upper 10 bits; 1: the lower 10 bits. 8U: 0. Other bits are ignored */
    uint64_t reserved[8]; /* 0: for later options */
} cusYuvOptions;

/* Returns the defaults above. */
CUS_API cusYuvOptions cusYuvDefaults(void);

/* Converts a picture to BGR.
 * y: one of the types above, 1x1 or larger, at most 2^30 rows and columns; any row step.
 * u, v: half of y's rows and columns, rounded up; any row step. v is NULL if u has both, U first. The planes may be
 * regions of larger ones: that of y begins at an even row and column, and samples outside a region are not read.
 * options: NULL for the defaults.
 * bgr: 8UC3 of y's size, created as needed; must not overlap y, u or v.
 * Ready: host at return; device in stream order.
 * Cost: one read of the planes, one write of bgr.
 * Errors: NULL, VALUE, TYPE, SIZE, SPACE, ALIAS, NO_MEMORY, NO_CUDA, CUDA. */
CUS_API cusStatus cusYuvToBgr(const cusMat *y, const cusMat *u, const cusMat *v, const cusYuvOptions *options, cusMat *bgr,
                              cusStream stream);

/* Converts luma to gray: the value that cusYuvToBgr gives all three colors where chroma is neutral, so limited range is
 * stretched to 0..255. In full range with 8 bits that is y itself: use y as the gray picture, without this call.
 * gray: 8UC1 of y's size, created as needed; must not overlap y.
 * Everything else is as for cusYuvToBgr. Cost: one read of y, one write of gray. */
CUS_API cusStatus cusYuvToGray(const cusMat *y, const cusYuvOptions *options, cusMat *gray, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_VIDEO_H */
