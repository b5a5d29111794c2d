/* What the stages of the CPU backend share. docs/internals/pose.md has the bounds and their proof. */
#ifndef CUSI_POSE_CPU_STATE_H
#define CUSI_POSE_CPU_STATE_H

#include "host.h"
#include "pose/backend.h"

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

typedef struct PoseHost {
    int threads;
    PosePlane planes[POSE_LEVELS];
    PoseScratch *scratch;
    uint32_t *sums; /* of columns, for each thread */
    PoseGuess *guesses;
    size_t chunks;   /* the most tests of a pose and level */
    PoseTest *tests; /* [thread][level][chunk] */
    const cusMat *frame;
} PoseHost;

/* planes.c */
void pose_fillPlane(const PoseLevel *level, const PosePlane *plane, const cusMat *frame, uint32_t *sums, int threads);

/* exact.c: the exact value of a position. s holds the pose. Gives up and returns 0 if it is not below or equal to `best`. */
int pose_exact(const cusPoseMatcher *m, const PoseScratch *s, int row, int col, const PoseBest *best, PoseBest *value);

/* bounds.c: writes a test for each chunk of blocks. */
void pose_tests(const cusPoseMatcher *m, int pose, int level, const PoseBest *best, double limit_cost, PoseTest *tests);
/* Clears alive[i] of lanes that are ruled out, i < lanes, at most POSE_STRIP. Returns how many are left. */
int pose_bound(const cusPoseMatcher *m, int pose, int level, const PoseTest *tests, int row, int col, int lanes,
               uint8_t *alive);
/* The cell of a pose that fits best by its first blocks. skip: whether a cell may not be it. */
PoseGuess pose_guess(const cusPoseMatcher *m, int pose, int level, int row0, int row1, int col0, int col1,
                     int (*skip)(const void *about, int row, int col), const void *about);

#endif
