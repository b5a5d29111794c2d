/* What the entry points and the backends of pose share. */
#ifndef CUSI_POSE_BACKEND_H
#define CUSI_POSE_BACKEND_H

#include "guard.h"
#include "pose/sample.h"

#include "cusight/pose.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pose: its window in the canvas, and the sums of the pixels that count. */
typedef struct Pose {
    PoseTransform transform;
    int32_t left, top, cols, rows;
    int64_t n, t1, t2;
} Pose;

struct cusPoseMatcher {
    cusPoseOptions options; /* without pointers to the caller's memory */
    double *angles, *scales;
    int angle_count, scale_count, rows, cols;
    uint8_t *templ, *mask; /* tight; mask NULL if there is none */
    Pose *poses;           /* [angle][scale] */
    cusPoseMatch *matches;
    int found;
    void *state; /* owned by the backend */
    CusiGuard guard;
};

static inline int pose_count(const cusPoseMatcher *m) {
    return m->angle_count * m->scale_count;
}

/* Positions of a pose; 0 where its window does not fit or is empty. */
static inline int pose_positionRows(const cusPoseMatcher *m, const Pose *p) {
    return p->n > 0 && p->rows <= m->rows && p->cols <= m->cols ? m->rows - p->rows + 1 : 0;
}
static inline int pose_positionCols(const cusPoseMatcher *m, const Pose *p) {
    return pose_positionRows(m, p) > 0 ? m->cols - p->cols + 1 : 0;
}

/* grid.c: the transform of an angle and a scale. */
PoseTransform pose_transform(int width, int height, double angle, double scale);
/* The shorter way around from one angle to another, 0..180. */
double pose_angleBetween(double a, double b);

/* Twice the center of a pose whose window begins at `col` or `row`, an integer. */
static inline int64_t pose_center(int32_t at, int32_t trimmed, int32_t canvas) {
    return 2 * ((int64_t)at - trimmed) + canvas - 1;
}

/* A position of a pose. */
typedef struct PosePlace {
    int pose, row, col;
} PosePlace;
/* A backend's exact scores of `count` places in the frame of the last run, grouped by pose, in the units of the method. */
typedef cusStatus (*PoseScores)(cusPoseMatcher *matcher, const PosePlace *places, int count, double *scores);

/* refine.c: moves `matches` to vertices between the positions and the poses of the grid. */
cusStatus pose_refine(cusPoseMatcher *matcher, PoseScores scores);

/* Prepares all poses: `poses` and `state`. Destroy is safe after a failure. */
cusStatus pose_host_create(const char *function, cusPoseMatcher *matcher);
void pose_host_destroy(cusPoseMatcher *matcher);
/* Sets `matches`, of the grid, and `found`. */
void pose_host_run(cusPoseMatcher *matcher, const cusMat *frame);
cusStatus pose_host_scores(cusPoseMatcher *matcher, const PosePlace *places, int count, double *scores);
/* The window of a pose, tight: pixels and mask. */
void pose_resample(const cusPoseMatcher *matcher, const Pose *pose, uint8_t *pixels, uint8_t *mask);

#ifdef __cplusplus
}
#endif

#endif
