/* Resamples a pose in integers, the same on every backend. */
#ifndef CUSI_POSE_SAMPLE_H
#define CUSI_POSE_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define POSE_FN __host__ __device__ static inline
#else
#define POSE_FN static inline
#endif

/* Maps pixels of a canvas, which holds the whole pose, to those of the template. */
typedef struct PoseTransform {
    int64_t cosine, sine;  /* divided by the scale, in units of 2^-32 */
    int32_t width, height; /* size of the template */
    int32_t cols, rows;    /* size of the canvas */
} PoseTransform;

/* The sources of a pixel: (x, y) and the next column and row, with weights in units of 1/32. */
typedef struct PoseSource {
    int64_t x, y;
    int32_t fx, fy;
} PoseSource;

/* A canvas pixel's place in the template, in units of 2^-33. From column to column it moves by twice the cosine and
 * twice the sine. */
typedef struct PosePlace {
    int64_t u, v;
} PosePlace;

/* Rounds a coordinate in units of 2^-33 to 16.16, then to 1/32 pixel, each half up. */
POSE_FN int64_t pose_round(int64_t v) {
    const int64_t fixed = (v + (INT64_C(1) << 16)) >> 17;
    return (fixed + (INT64_C(1) << 10)) >> 11;
}

POSE_FN PosePlace pose_place(const PoseTransform *t, int32_t col, int32_t row) {
    const int64_t dx = 2 * (int64_t)col - (t->cols - 1), dy = 2 * (int64_t)row - (t->rows - 1);
    const PosePlace place = {t->cosine * dx - t->sine * dy + (int64_t)(t->width - 1) * (INT64_C(1) << 32),
                             t->sine * dx + t->cosine * dy + (int64_t)(t->height - 1) * (INT64_C(1) << 32)};
    return place;
}

/* Returns the place `columns` further along the row. */
POSE_FN PosePlace pose_placeAfter(const PoseTransform *t, PosePlace at, int columns) {
    const PosePlace place = {at.u + 2 * columns * t->cosine, at.v + 2 * columns * t->sine};
    return place;
}

POSE_FN PoseSource pose_sourceAt(PosePlace place) {
    const int64_t u = pose_round(place.u), v = pose_round(place.v);
    const PoseSource source = {u >> 5, v >> 5, (int32_t)(u & 31), (int32_t)(v & 31)};
    return source;
}

POSE_FN PoseSource pose_source(const PoseTransform *t, int32_t col, int32_t row) {
    return pose_sourceAt(pose_place(t, col, row));
}

/* Returns whether all sources of a pixel lie in the template. */
POSE_FN int pose_isInside(const PoseTransform *t, PoseSource s) {
    return s.x >= 0 && s.y >= 0 && s.x + (s.fx > 0) < t->width && s.y + (s.fy > 0) < t->height;
}

/* Resamples one pixel; templ and mask have no padding, and mask may be NULL. Returns -1 where the pixel does not count. */
POSE_FN int pose_sample(const PoseTransform *t, const uint8_t *templ, const uint8_t *mask, PoseSource s) {
    const int right = s.fx > 0, below = s.fy > 0;
    if (!pose_isInside(t, s))
        return -1;
    const size_t at = (size_t)s.y * (size_t)t->width + (size_t)s.x, next = (size_t)below * (size_t)t->width;
    if (mask && !(mask[at] && mask[at + (size_t)right] && mask[at + next] && mask[at + next + (size_t)right]))
        return -1;
    const int upper = (32 - s.fx) * templ[at] + s.fx * templ[at + (size_t)right];
    const int lower = (32 - s.fx) * templ[at + next] + s.fx * templ[at + next + (size_t)right];
    return ((32 - s.fy) * upper + s.fy * lower + 512) >> 10;
}

POSE_FN int pose_pixel(const PoseTransform *t, const uint8_t *templ, const uint8_t *mask, int32_t col, int32_t row) {
    return pose_sample(t, templ, mask, pose_source(t, col, row));
}

#endif
