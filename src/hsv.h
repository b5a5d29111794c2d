/* OpenCV's 8-bit BGR to HSV conversion in fixed point, and the check of a range, for hsv and match. */
#ifndef CUSI_HSV_H
#define CUSI_HSV_H

#include "cusight/hsv.h"

#include <math.h>

#ifdef __CUDACC__
#define CUSI_HSV_INLINE __host__ __device__ static inline
#else
#define CUSI_HSV_INLINE static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { CUSI_HSV_FRACTION_BITS = 12 };

/* OpenCV's reciprocal tables: round(255 2^12 / i) and round(180 2^12 / (6 i)), half to even; 0 for i = 0. */
CUSI_HSV_INLINE int cusi_hsvSaturationScale(int i) {
    return i ? (int)rint((double)(255 << CUSI_HSV_FRACTION_BITS) / i) : 0;
}
CUSI_HSV_INLINE int cusi_hsvHueScale(int i) {
    return i ? (int)rint((double)(180 << CUSI_HSV_FRACTION_BITS) / (6.0 * i)) : 0;
}

/* Returns 1 if the color lies in the range, else 0. It has no branch, so that loops over it vectorize. */
CUSI_HSV_INLINE int cusi_hsvInRange(int b, int g, int r, const int *saturation_scale, const int *hue_scale,
                                    const cusHsvRange *range) {
    const int gb = g > b ? g : b, v = r > gb ? r : gb;
    const int low = g < b ? g : b, diff = v - (r < low ? r : low);
    const int half = 1 << (CUSI_HSV_FRACTION_BITS - 1);
    const int s = (diff * saturation_scale[v] + half) >> CUSI_HSV_FRACTION_BITS;
    const int sector = v == r ? g - b : v == g ? b - r + 2 * diff : r - g + 4 * diff;
    int h = (sector * hue_scale[diff] + half) >> CUSI_HSV_FRACTION_BITS;
    h += h < 0 ? 180 : 0;
    const int above = h >= range->lower[0], below = h <= range->upper[0];
    const int hue = range->lower[0] <= range->upper[0] ? above & below : above | below;
    return hue & (s >= range->lower[1]) & (s <= range->upper[1]) & (v >= range->lower[2]) & (v <= range->upper[2]);
}

/* Checks that the range is not NULL and its bounds are valid. */
cusStatus cusi_checkHsvRange(const char *function, const cusHsvRange *range);

/* The backends of cusHsvCount(), in modules/hsv. Arguments have been checked and outputs created. The host function
 * completes before it returns; the CUDA function queues its work. */
void hsv_host_count(const cusMat *src, const cusHsvRange *range, cusMat *count, cusMat *mask);
cusStatus hsv_cuda_count(const cusMat *src, const cusHsvRange *range, cusMat *count, cusMat *mask, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
