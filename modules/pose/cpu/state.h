/* What the stages of the CPU backend share. docs/internals/pose.md has the bounds and their proof. */
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

/* Block means of the frame at a level: for each cell of positions their least and greatest, with rows padded for reading beyond
 * the end. high is low + 1 and not stored if cells are single positions. */
typedef struct PosePlane {
    int16_t *low, *high;
} PosePlane;

/* Where a pose seems to fit best. */
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
    uint32_t *sums; /* of columns, for each thread */
    PoseGuess *guesses;
    size_t chunks;   /* the most tests of a pose and level */
    PoseTest *tests; /* [thread][level][chunk] */
    const cusMat *frame;
    PoseTransforms *transforms; /* NULL: none */
    PoseBest *known;            /* of poses that were transformed in this frame, the best position; n is 0 for others */
    uint8_t *left;              /* poses that bounds did not finish */
    double work;                /* estimated time of the last run; tests read it */
} PoseHost;

/* Estimated times on one core, in ns: of a block's bound at POSE_GROUP cells, and in a guess at POSE_STRIP; of a pixel and a row of an exact value; of a point of
 * a transform, for each bit of their number, and of a score. Only their ratios matter, and no result depends on them. */
#define POSE_BOUND_COST     5.0
#define POSE_GUESS_COST     13.0
#define POSE_PIXEL_COST     0.08
#define POSE_ROW_COST       10.0
#define POSE_TRANSFORM_COST 0.07
#define POSE_SCORE_COST     2.0
/* Bounds may take this share of a pose's transforms before it is transformed. */
#define POSE_BOUND_SHARE 0.2

/* planes.c */
void pose_fillPlane(const PoseLevel *level, const PosePlane *plane, const cusMat *frame, uint32_t *sums, int threads);

/* exact.c: the exact value of a position. s holds the pose. Gives up and returns 0 if it is not below or equal to `best`. */
int pose_exact(const cusPoseMatcher *m, const PoseScratch *s, int row, int col, const PoseBest *best, PoseBest *value);

/* bounds.c: writes a test for each chunk of blocks. Returns whether one of them can rule anything out. */
int pose_tests(const cusPoseMatcher *m, int pose, int level, const PoseBest *best, double limit_cost, PoseTest *tests);
/* Clears alive[i] of lanes that are ruled out, i < lanes, at most POSE_STRIP. Returns how many are left; adds its estimated time. */
int pose_bound(const cusPoseMatcher *m, int pose, int level, const PoseTest *tests, int row, int col, int lanes,
               uint8_t *alive, double *spent);
/* Cells row..bottom - 1, of which every `step`th is looked at, and col..right - 1. */
typedef struct PoseArea {
    int row, bottom, step, col, right;
} PoseArea;
/* The cell of a pose that fits best by its first `most` blocks. skip: whether a cell may not be it. */
PoseGuess pose_guess(const cusPoseMatcher *m, int pose, int level, PoseArea area, int most,
                     int (*skip)(const void *about, int row, int col), const void *about);

/* transforms.c: all positions of a pose at once. NULL if rounding could reach one half, or out of memory. */
PoseTransforms *pose_createTransforms(const cusPoseMatcher *m, int threads);
void pose_destroyTransforms(PoseTransforms *transforms);
/* Forgets the frame, and frees the memory that it has taken. */
void pose_endFrame(PoseTransforms *transforms);
/* Whether all threads transform one pose, called from none of them, instead of each its own. Also without transforms. */
int pose_sharesTransforms(const PoseTransforms *transforms);
/* The estimated time of a pose; infinite without transforms. */
double pose_transformCost(const cusPoseMatcher *m, int pose);
/* Sets `best` to the best position that is not near a pick; its pose is -1 if there is none, or if the search is cancelled. Returns 0
 * without transforms or memory for them; then best->n is 0. */
int pose_bestByTransforms(const cusPoseMatcher *m, PoseScratch *s, int pose, const PosePicks *picks, CusiProgress *progress,
                          PoseBest *best);

#ifdef __cplusplus
}
#endif

#endif
