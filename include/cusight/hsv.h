/* cusight/hsv.h: counting the pixels whose HSV color lies in a range.
 *
 * BGR is converted to HSV exactly as OpenCV's 8-bit COLOR_BGR2HSV does, in integers: v = max(b, g, r),
 * s = 255 (v - min) / v, and h, half the angle on the color hexagon, 0..179, with OpenCV's rounding. Counts and masks are
 * equal on host and device, and equal to cvtColor + inRange + countNonZero, without writing the HSV image.
 *
 *   src  | count                   | mask (optional)
 *   8UC3 | 1 x 1 32SC1 (a uint32)  | 8UC1 of src's size, 255 in the range, 0 elsewhere
 *
 * Method: A. R. Smith, "Color gamut transform pairs", 1978, in OpenCV's fixed-point form.
 */
#ifndef CUSIGHT_HSV_H
#define CUSIGHT_HSV_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The colors (h, s, v) from lower to upper, both inclusive; h 0..179 (degrees / 2), s and v 0..255.
 * lower[0] > upper[0] selects the hues that wrap around through 0 (reds). */
typedef struct cusHsvRange {
    uint8_t lower[3], upper[3]; /* h, s, v */
} cusHsvRange;

/* Counts the pixels of `src` whose color lies in `range`.
 * src: 8UC3 in BGR order, 1x1 or larger, at most 2^32 - 1 pixels; may be a region of a larger image.
 * count, mask: as in the table above, created as needed; mask may be NULL. src, count and mask must not overlap.
 * Ready: host at return; device in stream order.
 * Cost: one read of src, one write of the mask.
 * Errors: NULL, VALUE (a hue above 179, or lower > upper for s or v), TYPE, SIZE, SPACE, ALIAS, NO_MEMORY, NO_CUDA,
 * CUDA. */
CUS_API cusStatus cusHsvCount(const cusMat *src, const cusHsvRange *range, cusMat *count, cusMat *mask, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_HSV_H */
