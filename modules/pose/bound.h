/* What block means must reach to rule out a position, on every backend. docs/internals/pose.md has the proof. */
#ifndef CUSI_POSE_BOUND_H
#define CUSI_POSE_BOUND_H

#include "pose/order.h"

enum {
    POSE_LEVELS = 3,
    POSE_CHUNK = 16,  /* blocks between two tests */
    POSE_GUIDES = 64, /* blocks that the first guess uses */
    POSE_CLIMBS = 3,  /* steps from the best guess, of up to POSE_CLIMB pixels */
    POSE_CLIMB = 3,
    POSE_CLIMB_PLACES = (2 * POSE_CLIMB + 1) * (2 * POSE_CLIMB + 1),
    POSE_BESIDE = 5, /* a pose and its neighbors in angle and scale */
    POSE_UNIT = 8    /* means of blocks are in units of 1/8 */
};

/* Blocks of `block` x `block` pixels, for cells of `cell` x `cell` positions. In a backend's plane, [row][col] of
 * cells, rows are `step` entries apart. */
typedef struct PoseLevel {
    int block, cell, rows, cols;
    size_t step;
} PoseLevel;

/* A block of a pose. offset: its mean's entry in the plane, from the window's. */
typedef struct PoseBlock {
    int32_t offset;
    int16_t mean;  /* in units of 1/8, rounded down */
    int16_t value; /* in units of 1/16, about the mean of the pose for CCOEFF_NORMED */
} PoseBlock;

typedef struct PoseBlocks {
    PoseBlock *at;
    int count;
} PoseBlocks;

/* What the sums over a chunk and those before it must reach to rule out a position. */
typedef struct PoseTest {
    int count;                               /* blocks so far */
    double t1, norm, sine, cosine, rounding; /* normed methods; cosine < 0: these blocks rule out nothing */
    double most;                             /* SQDIFF: largest sum of squares that is not ruled out */
} PoseTest;

/* What a window must reach to improve on the best value and the limit: a score for normed methods, or a squared
 * difference. */
typedef struct PoseGoal {
    double score, ssd, n; /* squared difference: ssd / n */
} PoseGoal;

POSE_FN PoseGoal pose_goal(cusMatchMethod method, const PoseBest *best, double limit_cost) {
    const int has_best = best->pose >= 0;
    /* a little less strict, since exact scores are rounded */
    const double cost = has_best && best->cost < limit_cost ? best->cost : limit_cost;
    PoseGoal goal = {(method == CUS_MATCH_SQDIFF_NORMED ? (cost < 1 ? 1 - cost / 2 : 0) : 0 - cost) - 0x1p-40, limit_cost,
                     1};
    if (has_best && (double)best->ssd < limit_cost * (double)best->n) {
        goal.ssd = (double)best->ssd;
        goal.n = (double)best->n;
    }
    return goal;
}

/* Finds the cone about the template that holds every window whose score is goal->score or better. t1, t2: sums of the
 * values of t->count blocks, and of their squares. */
POSE_FN void pose_cone(cusMatchMethod method, const Pose *p, int block, const PoseGoal *goal, double t1, double t2,
                       PoseTest *t) {
    const int centered = method == CUS_MATCH_CCOEFF_NORMED;
    const double n = t->count, square = centered ? t2 - t1 * t1 / n : t2, error = 0.5 * sqrt(n), score = goal->score;
    const double energy = (double)p->t2 - (centered ? (double)p->t1 * (double)p->t1 / (double)p->n : 0);
    t->t1 = centered ? t1 / n : 0;
    t->norm = sqrt(square > 0 ? square : 0);
    t->cosine = -1;
    const double least = (t->norm - error) / 16;
    if (!(least > 0) || !(energy > 0) || !(score > 0))
        return;
    /* the share of the template's energy in block means, rounded down */
    const double part = block * block * least * least / energy * (1 - 0x1p-30);
    const double q2 = 1 - (1 - score * score) / part;
    if (!(part > 0) || !(q2 > 0))
        return;
    const double angle = acos(sqrt(q2 < 1 ? q2 : 1)) + asin(error / t->norm) + 0x1p-24;
    if (angle >= 1.57)
        return;
    t->cosine = cos(angle) * (1 - 0x1p-30);
    t->sine = sin(angle);
    t->rounding = 0x1p-40 * (sqrt(t2) / t->norm + 1);
}

/* Fills the test after t->count blocks. */
POSE_FN void pose_test(cusMatchMethod method, const Pose *p, int block, const PoseGoal *goal, double t1, double t2,
                       PoseTest *t) {
    if (method == CUS_MATCH_SQDIFF)
        t->most = (goal->ssd * (double)p->n / goal->n * (1 + 0x1p-40) + 1) * (POSE_UNIT * POSE_UNIT) / (block * block);
    else
        pose_cone(method, p, block, goal, t1, t2, t);
}

#endif
