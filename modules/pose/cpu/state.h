/* What the stages of the CPU backend share. docs/internals/pose.md has the bounds and their proof. */
#ifndef CUSI_POSE_CPU_STATE_H
#define CUSI_POSE_CPU_STATE_H

#include "host.h"
#include "pose/backend.h"

enum {
    POSE_LEVELS = 3,
    POSE_CHUNK = 16,  /* blocks between two tests */
    POSE_STRIP = 64,  /* cells that are bounded together */
    POSE_GROUP = 16,  /* lanes of a vector loop */
    POSE_GUIDES = 64, /* blocks that the first guess looks at */
    POSE_UNIT = 8     /* means of blocks are in units of 1/8 */
};

/* Block means of the frame: for each cell of `cell` x `cell` positions their least and greatest, with rows padded for reading
 * beyond the end. high is low + 1 and not stored if cell is 1. */
typedef struct PosePlane {
    int block, cell, rows, cols;
    size_t step;
    int16_t *low, *high;
} PosePlane;

/* A block of a pose: where its mean is in the plane from that of the window, and the mean of the template. */
typedef struct PoseBlock {
    int32_t offset;
    int16_t mean;  /* in units of 1/8, rounded down */
    int16_t value; /* in units of 1/16, about the mean of the pose for CCOEFF_NORMED */
} PoseBlock;

typedef struct PoseBlocks {
    PoseBlock *at;
    int count;
} PoseBlocks;

/* The better of two has the smaller ssd / n, or the smaller cost; then the first. */
typedef struct PoseBest {
    uint64_t ssd, n; /* SQDIFF */
    double cost;     /* score, negated where the largest is best */
    int pose;        /* -1: none */
    int row, col;
} PoseBest;

/* What a thread works with. */
typedef struct PoseScratch {
    int pose; /* that pixels and mask hold; -1: none */
    uint8_t *pixels, *mask;
    int32_t *first, *last; /* of each row, the columns that may count */
} PoseScratch;

/* Where a pose seems to fit best. */
typedef struct PoseGuess {
    double cost;
    int pose, row, col; /* cell */
} PoseGuess;

typedef struct PoseHost {
    int levels, threads;
    PosePlane planes[POSE_LEVELS];
    PoseBlocks *blocks; /* [pose][level] */
    PoseScratch *scratch;
    uint32_t *sums; /* of columns, for each thread */
    PoseGuess *guesses;
    size_t chunks;          /* the most tests of a pose and level */
    struct PoseTest *tests; /* [thread][level][chunk] */
    PoseBest *picks;        /* the matches so far */
    const cusMat *frame;
} PoseHost;

/* planes.c */
void pose_fillPlane(PosePlane *plane, const cusMat *frame, uint32_t *sums, int threads);

/* prepare.c */
void pose_load(const cusPoseMatcher *m, PoseScratch *s, int pose);

/* exact.c: the exact value of a position. s holds the pose. Gives up and returns 0 if it is not below or equal to `best`. */
int pose_exact(const cusPoseMatcher *m, const PoseScratch *s, int row, int col, const PoseBest *best, PoseBest *value);
double pose_score(const cusPoseMatcher *m, const PoseBest *value);
int pose_isBetter(const PoseBest *a, const PoseBest *b);
/* No value is better. */
int pose_isPerfect(const cusPoseMatcher *m, const PoseBest *b);

/* bounds.c: what a chunk of blocks must reach to rule a lane out. */
typedef struct PoseTest {
    int count;                               /* blocks up to here */
    double t1, norm, sine, cosine, rounding; /* normed: cosine < 0: this many blocks rule nothing out */
    double most;                             /* SQDIFF: the largest sum of squares that is not ruled out */
} PoseTest;
/* Writes a test for each chunk. Returns their number. */
int pose_tests(const cusPoseMatcher *m, int pose, int level, const PoseBest *best, double limit_cost, PoseTest *tests);
/* Clears alive[i] of lanes that are ruled out, i < lanes, at most POSE_STRIP. Returns how many are left. */
int pose_bound(const cusPoseMatcher *m, int pose, int level, const PoseTest *tests, int row, int col, int lanes,
               uint8_t *alive);
/* The cell of a pose that fits best by its first blocks. skip: whether a cell may not be it. */
PoseGuess pose_guess(const cusPoseMatcher *m, int pose, int level, int row0, int row1, int col0, int col1,
                     int (*skip)(const void *about, int row, int col), const void *about);

#endif
