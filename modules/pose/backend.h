/* Declarations that the entry points and the backends of pose share. */
#ifndef CUSI_POSE_BACKEND_H
#define CUSI_POSE_BACKEND_H

#include "guard.h"
#include "pose/bound.h"
#include "progress.h"

#include "cusight/pose.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cusPoseMatcher {
    cusPoseOptions options; /* without pointers to the caller's memory */
    double *angles, *scales;
    int angle_count, scale_count, rows, cols;
    cusSpace space;
    int templ_rows, templ_cols;
    uint8_t *templ, *mask; /* no padding; mask: NULL if there is none */
    Pose *poses;           /* [angle][scale] */
    int levels;
    PoseLevel level[POSE_LEVELS];
    PoseBlocks *blocks; /* [pose][level], highest contrast first */
    PoseBest *picks;    /* the matches of the last run */
    PoseBest seen;      /* the best guess of the last run, even beyond the limit */
    int transformed;    /* how often the last run transformed a pose; for tests */
    cusPoseMatch *matches;
    int found;
    void *state; /* owned by the backend */
    CusiGuard guard;
};

static inline int pose_count(const cusPoseMatcher *m) {
    return m->angle_count * m->scale_count;
}

/* Returns the rows of a pose's positions; 0 if its window does not fit or is empty. */
static inline int pose_positionRows(const cusPoseMatcher *m, const Pose *p) {
    return p->n > 0 && p->rows <= m->rows && p->cols <= m->cols ? m->rows - p->rows + 1 : 0;
}
static inline int pose_positionCols(const cusPoseMatcher *m, const Pose *p) {
    return pose_positionRows(m, p) > 0 ? m->cols - p->cols + 1 : 0;
}

/* Returns the score limit as a cost (smaller is better); infinite without a limit. */
static inline double pose_limitCost(const cusPoseMatcher *m) {
    const double limit = m->options.score_limit;
    return isnan(limit) ? INFINITY : pose_wantsSmallest(m->options.method) ? limit : -limit;
}
static inline PosePicks pose_picks(const cusPoseMatcher *m, const PoseBest *picks, int count) {
    const PosePicks all = {
        picks, count, m->poses, m->angles, m->scale_count, m->options.min_distance, m->options.min_angle};
    return all;
}

/* grid.c: returns the transform for an angle and a scale. */
PoseTransform pose_transform(int width, int height, double angle, double scale);

/* prepare.c: memory of a thread. */
typedef struct PoseScratch {
    int pose; /* the pose in pixels and mask; -1: none */
    uint8_t *pixels, *mask;
    int32_t *first, *last; /* columns [first, last) of each row that may count */
} PoseScratch;

/* Allocates scratch memory for each thread, for any pose that fits. */
PoseScratch *pose_createScratch(const cusPoseMatcher *m, int threads);
void pose_destroyScratch(PoseScratch *scratch, int threads);
void pose_load(const cusPoseMatcher *m, PoseScratch *s, int pose);
/* Writes the pixels and the mask of a pose's window, without padding. */
void pose_resample(const cusPoseMatcher *m, const Pose *pose, uint8_t *pixels, uint8_t *mask);

/* Padding of the planes' rows, since strips are read beyond the end. */
enum { POSE_PADDING = 128 };
/* Measures the poses, whose transforms are set, and lists their blocks. fine_step: row step of the plane of single
 * positions; 0: their width plus the padding. The matcher owns what is allocated, even after a failure. */
cusStatus pose_prepare(const char *function, cusPoseMatcher *m, size_t fine_step);

/* The backends prepare a matcher and create `state`. Destroy is safe after a failure. */
cusStatus pose_host_create(const char *function, cusPoseMatcher *matcher);
cusStatus pose_cuda_create(const char *function, cusPoseMatcher *matcher);
void pose_host_destroy(cusPoseMatcher *matcher);
void pose_cuda_destroy(cusPoseMatcher *matcher);
/* Sets `best` to the best value within the limit that is not near one of `count` picks; without one, to any value, or
 * its pose to -1. The first search in a frame has no picks and sets `seen`. */
cusStatus pose_host_search(cusPoseMatcher *matcher, const cusMat *frame, const PoseBest *picks, int count, PoseBest *best);
/* Follows the last search of a frame. */
void pose_host_end(cusPoseMatcher *matcher);
cusStatus pose_cuda_search(cusPoseMatcher *matcher, const cusMat *frame, const PoseBest *picks, int count, PoseBest *best,
                           cusStream stream);
/* Finds the best of all poses by transforms alone, for tests and measurements. */
cusStatus pose_cuda_bestByTransforms(cusPoseMatcher *matcher, const cusMat *frame, PoseBest *best, cusStream stream);
/* Computes the values of `count` positions, 1..POSE_MAX_VALUES, of the frame that was searched last. pose, row and col
 * are set; positions are grouped by pose. */
enum { POSE_NEAR = 9, POSE_MAX_VALUES = POSE_NEAR * POSE_NEAR };
cusStatus pose_host_values(cusPoseMatcher *matcher, const cusMat *frame, PoseBest *values, int count);
cusStatus pose_cuda_values(cusPoseMatcher *matcher, const cusMat *frame, PoseBest *values, int count, cusStream stream);
/* pose.c: calls the matcher's backend. */
cusStatus pose_values(cusPoseMatcher *matcher, const cusMat *frame, PoseBest *values, int count, cusStream stream);

/* refine.c: moves a match of the grid to the vertex of the costs around it. */
cusStatus pose_refine(cusPoseMatcher *matcher, const cusMat *frame, cusPoseMatch *match, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
