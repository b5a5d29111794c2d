/* Exact values of positions, and their order on every backend. */
#ifndef CUSI_POSE_ORDER_H
#define CUSI_POSE_ORDER_H

#include "pose/sample.h"

#include "cusight/pose.h"

#include <math.h>

/* A pose: its window in the canvas, and the sums of the pixels that count. */
typedef struct Pose {
    PoseTransform transform;
    int32_t left, top, cols, rows;
    int64_t n, t1, t2;
} Pose;

/* A value. The better of two has the smaller ssd / n or cost; of equal ones, the first. */
typedef struct PoseBest {
    uint64_t ssd, n; /* SQDIFF; otherwise 0 and 1 */
    double cost;     /* the score, negated if the largest is best */
    int pose;        /* -1: none */
    int row, col;
} PoseBest;

POSE_FN int pose_isBetter(const PoseBest *a, const PoseBest *b) {
    if (b->pose < 0)
        return 1;
    const uint64_t left = a->ssd * b->n, right = b->ssd * a->n;
    if (left != right)
        return left < right;
    if (a->cost < b->cost || a->cost > b->cost)
        return a->cost < b->cost;
    if (a->pose != b->pose)
        return a->pose < b->pose;
    return a->row != b->row ? a->row < b->row : a->col < b->col;
}

/* Returns whether smaller scores are better. */
POSE_FN int pose_wantsSmallest(cusMatchMethod method) {
    return method == CUS_MATCH_SQDIFF || method == CUS_MATCH_SQDIFF_NORMED;
}

/* Returns whether no value is better. */
POSE_FN int pose_isPerfect(cusMatchMethod method, const PoseBest *b) {
    if (b->pose < 0)
        return 0;
    if (method == CUS_MATCH_SQDIFF)
        return b->ssd == 0;
    return b->cost <= (method == CUS_MATCH_SQDIFF_NORMED ? 0 : -1);
}

POSE_FN double pose_score(cusMatchMethod method, const PoseBest *v) {
    if (method == CUS_MATCH_SQDIFF)
        return (double)v->ssd / (double)v->n;
    return method == CUS_MATCH_SQDIFF_NORMED ? v->cost : 0 - v->cost;
}

/* Returns the score, negated if the largest is best. */
POSE_FN double pose_cost(cusMatchMethod method, const PoseBest *v) {
    return method == CUS_MATCH_SQDIFF ? (double)v->ssd / (double)v->n : v->cost;
}

/* Returns the cost for a normed method from a window's sums of I, I^2 and I T. */
POSE_FN double pose_normed(cusMatchMethod method, const Pose *p, uint64_t s1, uint64_t s2, uint64_t c) {
    if (method == CUS_MATCH_CCOEFF_NORMED) {
        /* n is at most 2^24 + 2^12: products fit 64 bits, and their difference, the covariance, fits signed ones */
        const uint64_t n = (uint64_t)p->n, flat = n * (uint64_t)p->t2 - (uint64_t)p->t1 * (uint64_t)p->t1;
        const uint64_t energy = n * s2 - s1 * s1;
        if (flat == 0)
            return -1;
        if (energy == 0)
            return 0;
        const double score = (double)(int64_t)(n * c - s1 * (uint64_t)p->t1) / sqrt((double)energy * (double)flat);
        return score > 1 ? -1 : score < -1 ? 1 : 0 - score;
    }
    const int differs = method == CUS_MATCH_SQDIFF_NORMED;
    if (p->t2 == 0 || s2 == 0)
        return differs;
    const int64_t value = differs ? (int64_t)(s2 - 2 * c + (uint64_t)p->t2) : (int64_t)c;
    const double score = (double)value / sqrt((double)s2 * (double)p->t2), clamped = score > 1 ? 1 : score;
    return differs ? clamped : 0 - clamped;
}

/* ---- Suppression ------------------------------------------------------------------------------------------------- */

/* Returns twice the center of a pose whose window begins at `at`; an integer. */
POSE_FN int64_t pose_center(int32_t at, int32_t trimmed, int32_t canvas) {
    return 2 * ((int64_t)at - trimmed) + canvas - 1;
}

/* Finds where another pose has the center of `at`, or one half a pixel before. */
POSE_FN void pose_sameCenter(const Pose *poses, const PoseBest *at, int pose, int32_t *row, int32_t *col) {
    const Pose *const from = &poses[at->pose], *const to = &poses[pose];
    *col =
        (int32_t)((pose_center(at->col, from->left, from->transform.cols) - pose_center(0, to->left, to->transform.cols)) >>
                  1);
    *row =
        (int32_t)((pose_center(at->row, from->top, from->transform.rows) - pose_center(0, to->top, to->transform.rows)) >>
                  1);
}

/* Returns the angle between two directions, 0..180. */
POSE_FN double pose_angleBetween(double a, double b) {
    const double d = fabs(fmod(a - b, 360.0));
    return d > 180 ? 360 - d : d;
}

/* The matches so far; no other may lie near them. */
typedef struct PosePicks {
    const PoseBest *at;
    int count;
    const Pose *poses;
    const double *angles;
    int scale_count, min_distance;
    double min_angle;
} PosePicks;

POSE_FN int pose_isSuppressed(const PosePicks *s, int pose, int row, int col) {
    const Pose *const p = &s->poses[pose];
    const int64_t reach = 2 * (int64_t)s->min_distance;
    for (int i = 0; i < s->count; ++i) {
        const PoseBest *const pick = &s->at[i];
        const Pose *const q = &s->poses[pick->pose];
        const int64_t dx =
            pose_center(col, p->left, p->transform.cols) - pose_center(pick->col, q->left, q->transform.cols);
        const int64_t dy = pose_center(row, p->top, p->transform.rows) - pose_center(pick->row, q->top, q->transform.rows);
        if (dx < reach && -dx < reach && dy < reach && -dy < reach &&
            pose_angleBetween(s->angles[pose / s->scale_count], s->angles[pick->pose / s->scale_count]) < s->min_angle)
            return 1;
    }
    return 0;
}

#endif
