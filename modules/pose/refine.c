/* Refines matches between the positions and poses of the grid. The backend computes the values. */
#include "pose/backend.h"

#include <math.h>
#include <string.h>

enum { CENTER = 4, MOVES = 8, STEPS = 4 };

/* A pose beside that of a match: its best position near the center of the match, and the costs of the 3 x 3 positions
 * around it. */
typedef struct Neighbor {
    int pose; /* -1: none */
    int row, col, moving;
    double costs[POSE_NEAR]; /* NaN outside the frame */
    double x, y, cost;       /* the vertex; NaN without one */
} Neighbor;

typedef struct Vertex {
    double x, y, cost;
} Vertex;

/* Returns the minimum of the quadratic surface through costs at -1..1 in x (fast) and y, if it is at most 1 away;
 * otherwise that along each axis that has one. */
static Vertex vertexOf(const double *f) {
    const double gx = (f[5] - f[3]) / 2, hx = f[5] - 2 * f[CENTER] + f[3];
    const double gy = (f[7] - f[1]) / 2, hy = f[7] - 2 * f[CENTER] + f[1];
    const double cross = (f[8] - f[6] - f[2] + f[0]) / 4, determinant = hx * hy - cross * cross;
    Vertex v = {(cross * gy - hy * gx) / determinant, (cross * gx - hx * gy) / determinant, f[CENTER]};
    /* also for NaN */
    if (!(hx > 0 && determinant > 0 && fabs(v.x) <= 1 && fabs(v.y) <= 1)) {
        v.x = hx > 0 && fabs(gx) <= hx ? -gx / hx : 0;
        v.y = hy > 0 && fabs(gy) <= hy ? -gy / hy : 0;
    }
    v.cost += ((v.x < 0 || v.x > 0 ? gx * v.x : 0) + (v.y < 0 || v.y > 0 ? gy * v.y : 0)) / 2;
    return v;
}

/* ---- The grid ---------------------------------------------------------------------------------------------------- */

/* A value's neighbors: indices, -1 without two neighbors, and distances. */
typedef struct Beside {
    int index[3]; /* below, the value, above */
    double below, above;
} Beside;

static Beside besideOf(const double *values, int count, int i, double period) {
    Beside b = {{-1, i, -1}, INFINITY, INFINITY};
    for (int j = 0; j < count; ++j) {
        double up = values[j] - values[i], down = values[i] - values[j];
        if (period > 0) {
            up = fmod(up, period);
            down = fmod(down, period);
            up += up < 0 ? period : 0;
            down += down < 0 ? period : 0;
        }
        if (up > 1e-6 && up < b.above) { /* a smaller step is the same value, rounded */
            b.above = up;
            b.index[2] = j;
        }
        if (down > 1e-6 && down < b.below) {
            b.below = down;
            b.index[0] = j;
        }
    }
    if (!(b.above <= 2 * b.below && b.below <= 2 * b.above))
        b.index[0] = b.index[2] = -1;
    return b;
}

/* Interpolates from a value towards its neighbors, at -1 and 1. */
static double between(double value, const Beside *b, double t) {
    return t < 0 || t > 0 ? value + t * (b->above + b->below) / 2 + t * t * (b->above - b->below) / 2 : value;
}

/* ---- Neighbors --------------------------------------------------------------------------------------------------- */

/* Returns a pose at the match's center, or half a pixel before. The match's own pose keeps its position; the others
 * climb. */
static Neighbor startOf(const cusPoseMatcher *m, const cusPoseMatch *match, int angle, int scale) {
    if (angle < 0 || scale < 0)
        return (Neighbor){.pose = -1};
    const int pose = angle * m->scale_count + scale;
    const PoseBest at = {
        .pose = match->angle_index * m->scale_count + match->scale_index, .row = match->row, .col = match->col};
    Neighbor n = {.pose = pose, .moving = 1};
    pose_sameCenter(m->poses, &at, pose, &n.row, &n.col);
    return n;
}

static int isPosition(const cusPoseMatcher *m, int pose, int row, int col) {
    const Pose *const p = &m->poses[pose];
    return row >= 0 && col >= 0 && row < pose_positionRows(m, p) && col < pose_positionCols(m, p);
}

/* Computes the costs around the neighbors that moved. */
static cusStatus fillCosts(cusPoseMatcher *m, const cusMat *frame, Neighbor *all, cusStream stream) {
    PoseBest values[POSE_MAX_VALUES];
    double *to[POSE_MAX_VALUES];
    int count = 0;
    for (int i = 0; i < POSE_NEAR; ++i)
        for (int k = 0; all[i].pose >= 0 && all[i].moving && k < POSE_NEAR; ++k) {
            const int row = all[i].row + k / 3 - 1, col = all[i].col + k % 3 - 1;
            all[i].costs[k] = NAN;
            if (!isPosition(m, all[i].pose, row, col))
                continue;
            to[count] = &all[i].costs[k];
            values[count++] = (PoseBest){.n = 1, .pose = all[i].pose, .row = row, .col = col};
        }
    if (count > 0)
        CUS_TRY(pose_values(m, frame, values, count, stream));
    for (int i = 0; i < count; ++i) {
        const double score = pose_score(m->options.method, &values[i]);
        *to[i] = pose_wantsSmallest(m->options.method) ? score : -score;
    }
    return CUS_OK;
}

static int isComplete(const Neighbor *n) {
    int complete = n->pose >= 0;
    for (int k = 0; k < POSE_NEAR; ++k)
        complete = complete && !isnan(n->costs[k]);
    return complete;
}

/* Moves a neighbor by a pixel towards its best position. Drops a neighbor at the border or one that keeps moving.
 * Returns whether it has moved. */
static int climb(Neighbor *n, int last) {
    if (n->pose < 0 || !n->moving)
        return 0;
    int best = CENTER;
    for (int k = 0; k < POSE_NEAR; ++k)
        best = n->costs[k] < n->costs[best] ? k : best;
    n->moving = best != CENTER;
    if (!isComplete(n) || (n->moving && last))
        n->pose = -1;
    n->row += best / 3 - 1;
    n->col += best % 3 - 1;
    return n->pose >= 0 && n->moving;
}

static void settle(const cusPoseMatcher *m, Neighbor *n) {
    n->x = n->y = n->cost = NAN;
    if (n->pose < 0)
        return;
    const Pose *const p = &m->poses[n->pose];
    const Vertex v = vertexOf(n->costs);
    n->x = (double)pose_center(n->col, p->left, p->transform.cols) / 2 + v.x;
    n->y = (double)pose_center(n->row, p->top, p->transform.rows) / 2 + v.y;
    n->cost = v.cost;
}

/* Fills the neighbors that are not in `known`, the last nine. */
static cusStatus fillNeighbors(cusPoseMatcher *m, const cusMat *frame, int own, const Neighbor *known, Neighbor *all,
                               cusStream stream) {
    for (int i = 0; i < POSE_NEAR; ++i)
        for (int j = 0; j < POSE_NEAR && all[i].pose >= 0; ++j)
            if (known[j].pose == all[i].pose)
                all[i] = known[j];
    for (int move = 1, moved = 1; moved && move <= MOVES; ++move) {
        CUS_TRY(fillCosts(m, frame, all, stream));
        moved = 0;
        for (int i = 0; i < POSE_NEAR; ++i)
            if (all[i].pose == own)
                all[i].moving = 0;
            else
                moved |= climb(&all[i], move == MOVES);
    }
    for (int i = 0; i < POSE_NEAR; ++i)
        settle(m, &all[i]);
    return CUS_OK;
}

/* Returns the neighbor of least cost; the center if none is less. */
static int leastOf(const Neighbor *all) {
    int best = CENTER;
    for (int i = 0; i < POSE_NEAR; ++i)
        best = all[i].cost < all[best].cost ? i : best;
    return best;
}

/* ---- A match ----------------------------------------------------------------------------------------------------- */

static double along(double t, double before, double after) {
    return t < 0 || t > 0 ? t * (after - before) / 2 : 0;
}

cusStatus pose_refine(cusPoseMatcher *m, const cusMat *frame, cusPoseMatch *match, cusStream stream) {
    const int own = match->angle_index * m->scale_count + match->scale_index;
    int angle = match->angle_index, scale = match->scale_index, best = CENTER;
    Beside angles, scales;
    Neighbor all[POSE_NEAR], known[POSE_NEAR]; /* [scale][angle] */
    for (int i = 0; i < POSE_NEAR; ++i)
        all[i].pose = -1;
    for (int step = 0; step == 0 || (best != CENTER && step <= STEPS); ++step) {
        angles = besideOf(m->angles, m->angle_count, angle, 360);
        scales = besideOf(m->scales, m->scale_count, scale, 0);
        memcpy(known, all, sizeof known);
        for (int i = 0; i < POSE_NEAR; ++i)
            all[i] = startOf(m, match, angles.index[i % 3], scales.index[i / 3]);
        CUS_TRY(fillNeighbors(m, frame, own, known, all, stream));
        best = isComplete(&all[CENTER]) ? leastOf(all) : CENTER;
        if (step < STEPS) {
            angle = angles.index[best % 3];
            scale = scales.index[best / 3];
        }
    }
    double costs[POSE_NEAR];
    for (int i = 0; i < POSE_NEAR; ++i)
        costs[i] = isComplete(&all[CENTER]) || i == CENTER ? all[i].cost : NAN;
    const Vertex v = vertexOf(costs);
    match->x = all[CENTER].x + along(v.x, all[3].x, all[5].x) + along(v.y, all[1].x, all[7].x);
    match->y = all[CENTER].y + along(v.x, all[3].y, all[5].y) + along(v.y, all[1].y, all[7].y);
    match->angle = between(m->angles[angle], &angles, v.x);
    match->scale = between(m->scales[scale], &scales, v.y);
    return CUS_OK;
}
