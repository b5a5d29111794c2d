/* Declarations that the stages of the CPU backend share. docs/internals/pose.md has the bounds and their proof. */
#ifndef CUSI_POSE_CPU_STATE_H
#define CUSI_POSE_CPU_STATE_H

#include "host.h"
#include "match/fft/fft.h"
#include "pose/backend.h"
#include "progress.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    POSE_STRIP = POSE_PADDING / 2, /* cells that are bounded together */
    POSE_GROUP = 16                /* lanes of a vector loop */
};

/* Block means of the frame at a level: the least and the greatest in each cell of positions. Rows are padded for
 * reading beyond the end. If cells are single positions, high is low + 1 and not stored. */
typedef struct PosePlane {
    int16_t *low, *high;
} PosePlane;

/* The cell where a pose seems to fit best. */
typedef struct PoseGuess {
    double cost;
    int pose, row, col; /* cell */
} PoseGuess;

/* transforms.c */
typedef struct PoseTransforms PoseTransforms;

typedef struct PoseHost {
    int threads;
    PosePlane planes[POSE_LEVELS];
    PoseScratch *scratch;
    uint32_t *sums; /* sums of columns, for each thread */
    PoseGuess *guesses;
    size_t chunks;   /* most tests of a pose and level */
    PoseTest *tests; /* [thread][level][chunk] */
    const cusMat *frame;
    PoseTransforms *transforms; /* NULL: there are none */
    PoseBest *known;            /* best position of each pose transformed in this frame; n is 0 for other poses */
    uint8_t *left;              /* poses that bounds did not finish */
    double work;                /* estimated time of the last run, for tests */
} PoseHost;

/* Estimated times on one core, in ns: for the bound of POSE_GROUP cells by a block; for a guess of POSE_STRIP cells by
 * a block; for a pixel and a row of an exact value; for a point of a transform, times log2 of their number; for a
 * score. Only the ratios matter, and results do not depend on them. */
#define POSE_BOUND_COST     5.0
#define POSE_GUESS_COST     13.0
#define POSE_PIXEL_COST     0.08
#define POSE_ROW_COST       10.0
#define POSE_TRANSFORM_COST 0.07
#define POSE_SCORE_COST     2.0
/* Share of a pose's transform time that bounds may take. */
#define POSE_BOUND_SHARE 0.2

/* planes.c */
void pose_fillPlane(const PoseLevel *level, const PosePlane *plane, const cusMat *frame, uint32_t *sums, int threads);

/* exact.c: computes the exact value of a position of the pose in s. Returns 0 early if the value is worse than `best`. */
int pose_exact(const cusPoseMatcher *m, const PoseScratch *s, int row, int col, const PoseBest *best, PoseBest *value);

/* bounds.c: writes a test for each chunk of blocks. Returns whether any can rule out a position. */
int pose_tests(const cusPoseMatcher *m, int pose, int level, const PoseBest *best, double limit_cost, PoseTest *tests);
/* Clears alive[i], i < lanes <= POSE_STRIP, of lanes that are ruled out. Returns how many are left, and adds the
 * estimated time. */
int pose_bound(const cusPoseMatcher *m, int pose, int level, const PoseTest *tests, int row, int col, int lanes,
               uint8_t *alive, double *spent);
/* Every `step`th row of cells in row .. bottom - 1, columns col .. right - 1. */
typedef struct PoseArea {
    int row, bottom, step, col, right;
} PoseArea;
/* Returns the cell of a pose that fits best by its first `most` blocks. skip: whether to leave out a cell. */
PoseGuess pose_guess(const cusPoseMatcher *m, int pose, int level, PoseArea area, int most,
                     int (*skip)(const void *about, int row, int col), const void *about);

/* transforms.c: computes all positions of a pose at once. Returns NULL if rounding could reach one half or memory runs
 * out. */
PoseTransforms *pose_createTransforms(const cusPoseMatcher *m, int threads);
void pose_destroyTransforms(PoseTransforms *transforms);
/* Forgets the frame and frees the memory taken for it. */
void pose_endFrame(PoseTransforms *transforms);
/* Returns whether all threads share a pose; then pose_bestByTransforms() is called outside teams. Also true without
 * transforms. */
int pose_sharesTransforms(const PoseTransforms *transforms);
/* Returns the estimated time of a pose; infinite without transforms. */
double pose_transformCost(const cusPoseMatcher *m, int pose);
/* Sets `best` to the best position that is not near a pick; its pose is -1 if there is none or the search is cancelled.
 * Returns 0, with best->n 0, without transforms or memory for them. */
int pose_bestByTransforms(const cusPoseMatcher *m, PoseScratch *s, int pose, const PosePicks *picks, CusiProgress *progress,
                          PoseBest *best);

#ifdef __cplusplus
}
#endif

#endif
