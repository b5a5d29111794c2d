/* Bounds of cells and positions by means of blocks. */
#include "pose/cpu/state.h"

#include <math.h>
#include <string.h>

/* ---- Sums over a chunk of blocks --------------------------------------------------------------------------------- */

/* Lanes come in groups, so some lie beyond the last cell: in the padding, where low is 0 or 2040 and high 0, or in
 * cells where the window does not fit. Their sums are ignored, and no lane overflows: means are 0..2041 (255 in units
 * of 1/8, and 1), so differences and radii are at most 2041, a center is at most 4081, and a template's value at most
 * 4080. A product is below 2^24. The largest sum, of the POSE_GUIDES products of a guess, is at most 64 * 4081^2 <
 * 2^30. */

/* Adds the squared distances from the template's means to the ranges of the frame's means. */
CUSI_MULTIVERSION
static void addDistances(const int16_t *low, const int16_t *high, const PoseBlock *blocks, int count, int lanes,
                         int32_t *restrict sums) {
    for (int k = 0; k < count; ++k) {
        const int16_t *const l = low + blocks[k].offset, *const h = high ? high + blocks[k].offset : NULL;
        const int16_t t = blocks[k].mean, above = (int16_t)(t + 1);
        for (int x = 0; x < lanes; x += POSE_GROUP)
            for (int i = x; i < x + POSE_GROUP; ++i) {
                const int16_t under = (int16_t)(l[i] - above), over = (int16_t)(t - (h ? h[i] : (int16_t)(l[i] + 1)));
                const int16_t more = under > over ? under : over, d = more > 0 ? more : 0;
                sums[i] += (int32_t)d * d;
            }
    }
}

/* Sums over blocks of c, c^2, c t and r^2 in each lane: the frame's mean lies within r of c. */
typedef struct Moments {
    int32_t s1[POSE_STRIP], s2[POSE_STRIP], st[POSE_STRIP], sr[POSE_STRIP];
} Moments;

CUSI_MULTIVERSION
static void addMoments(const int16_t *low, const int16_t *high, const PoseBlock *blocks, int count, int lanes,
                       Moments *restrict sums) {
    for (int k = 0; k < count; ++k) {
        const int16_t *const l = low + blocks[k].offset, *const h = high ? high + blocks[k].offset : NULL;
        const int16_t t = blocks[k].value;
        for (int x = 0; x < lanes; x += POSE_GROUP)
            for (int i = x; i < x + POSE_GROUP; ++i) {
                const int16_t end = h ? h[i] : (int16_t)(l[i] + 1), c = (int16_t)(l[i] + end), r = (int16_t)(end - l[i]);
                sums->s1[i] += c;
                sums->s2[i] += (int32_t)c * c;
                sums->st[i] += (int32_t)c * t;
                sums->sr[i] += (int32_t)r * r;
            }
    }
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

int pose_tests(const cusPoseMatcher *m, int pose, int level, const PoseBest *best, double limit_cost, PoseTest *tests) {
    const PoseBlocks *const blocks = &m->blocks[pose * m->levels + level];
    const PoseGoal goal = pose_goal(m->options.method, best, limit_cost);
    const int differs = m->options.method == CUS_MATCH_SQDIFF;
    int any = 0;
    double t1 = 0, t2 = 0;
    for (int k = 0; k < blocks->count; ++tests) {
        const int end = k + POSE_CHUNK < blocks->count ? k + POSE_CHUNK : blocks->count;
        for (; k < end; ++k) {
            const double v = blocks->at[k].value;
            t1 += v;
            t2 += v * v;
        }
        *tests = (PoseTest){.count = end};
        pose_test(m->options.method, &m->poses[pose], m->level[level].block, &goal, t1, t2, tests);
        any |= differs ? isfinite(tests->most) : tests->cosine > 0;
    }
    return any;
}

/* Sums over all chunks so far. */
typedef struct Totals {
    double s1[POSE_STRIP], s2[POSE_STRIP], st[POSE_STRIP], sr[POSE_STRIP];
} Totals;

CUSI_MULTIVERSION
static void addTotals(Totals *restrict to, const Moments *restrict from) {
    for (int i = 0; i < POSE_STRIP; ++i) {
        to->s1[i] += from->s1[i];
        to->s2[i] += from->s2[i];
        to->st[i] += from->st[i];
        to->sr[i] += from->sr[i];
    }
}

/* Rules out lanes whose ball of windows does not meet the cone. */
CUSI_MULTIVERSION
static void testCone(const Totals *restrict sums, const PoseTest *t, int centered, int lanes, uint8_t *restrict alive) {
    for (int i = 0; i < lanes; ++i) {
        const double mean = centered ? sums->s1[i] / t->count : 0;
        const double along = (sums->st[i] - sums->s1[i] * t->t1) / t->norm;
        const double rest = sums->s2[i] - mean * sums->s1[i] - along * along - t->rounding * sums->s2[i];
        const double distance = t->cosine * sqrt(rest > 0 ? rest : 0) - t->sine * along;
        const double reach = sqrt(sums->sr[i]) + t->rounding * sqrt(sums->s2[i]);
        alive[i] = (uint8_t)(alive[i] & (distance <= reach));
    }
}

static int countAlive(const uint8_t *alive, int lanes) {
    int n = 0;
    for (int i = 0; i < lanes; ++i)
        n += alive[i];
    return n;
}

int pose_bound(const cusPoseMatcher *m, int pose, int level, const PoseTest *tests, int row, int col, int lanes,
               uint8_t *alive, double *spent) {
    const PoseHost *const host = m->state;
    const PoseBlocks *const blocks = &m->blocks[pose * m->levels + level];
    const PosePlane *const plane = &host->planes[level];
    const size_t at = (size_t)row * m->level[level].step + (size_t)col;
    const int16_t *const low = plane->low + at, *const high = plane->high ? plane->high + at : NULL;
    const int differs = m->options.method == CUS_MATCH_SQDIFF, centered = m->options.method == CUS_MATCH_CCOEFF_NORMED;
    Totals totals;
    memset(&totals, 0, sizeof totals);
    int left = countAlive(alive, lanes), k = 0;
    for (int chunk = 0; k < blocks->count && left > 0; ++chunk) {
        const int count = tests[chunk].count - k;
        if (differs) {
            int32_t sums[POSE_STRIP] = {0}; /* at most 2^26 */
            addDistances(low, high, blocks->at + k, count, lanes, sums);
            for (int i = 0; i < lanes; ++i) {
                totals.s1[i] += sums[i];
                alive[i] = (uint8_t)(alive[i] & (totals.s1[i] <= tests[chunk].most));
            }
        } else {
            Moments sums;
            memset(&sums, 0, sizeof sums);
            addMoments(low, high, blocks->at + k, count, lanes, &sums);
            addTotals(&totals, &sums);
            if (tests[chunk].cosine > 0)
                testCone(&totals, &tests[chunk], centered, lanes, alive);
        }
        left = countAlive(alive, lanes);
        k += count;
    }
    const int groups = (lanes + POSE_GROUP - 1) / POSE_GROUP;
    *spent += POSE_BOUND_COST * k * groups;
    return left;
}

/* ---- Guesses ----------------------------------------------------------------------------------------------------- */

/* Sums over blocks of c, c^2 and c t in each lane, rounded: enough for a guess. For SQDIFF only s2, of (c - t)^2. */
typedef struct Guides {
    float s1[POSE_STRIP], s2[POSE_STRIP], st[POSE_STRIP];
} Guides;

CUSI_MULTIVERSION
static void addGuideDistances(const int16_t *low, const int16_t *high, const PoseBlock *blocks, int count,
                              Guides *restrict sums) {
    memset(sums, 0, sizeof *sums);
    for (int k = 0; k < count; ++k) {
        const int16_t *const l = low + blocks[k].offset, *const h = high ? high + blocks[k].offset : l;
        const int16_t less = (int16_t)(blocks[k].value - (high ? 0 : 1));
        for (int x = 0; x < POSE_STRIP; x += POSE_GROUP)
            for (int i = x; i < x + POSE_GROUP; ++i) {
                const float d = (float)(l[i] + h[i] - less);
                sums->s2[i] += d * d;
            }
    }
}

CUSI_MULTIVERSION
static void addGuides(const int16_t *low, const int16_t *high, const PoseBlock *blocks, int count, Guides *restrict sums) {
    memset(sums, 0, sizeof *sums);
    for (int k = 0; k < count; ++k) {
        const int16_t *const l = low + blocks[k].offset, *const h = high ? high + blocks[k].offset : l;
        const int16_t t = blocks[k].value, more = high ? 0 : 1;
        for (int x = 0; x < POSE_STRIP; x += POSE_GROUP)
            for (int i = x; i < x + POSE_GROUP; ++i) {
                const float c = (float)(l[i] + h[i] + more), v = (float)t;
                sums->s1[i] += c;
                sums->s2[i] += c * c;
                sums->st[i] += c * v;
            }
    }
}

/* Sums over blocks of the template's values. */
typedef struct GuideTotals {
    float count, t1, t2;
} GuideTotals;

CUSI_MULTIVERSION
static void guideCosts(cusMatchMethod method, const Guides *restrict sums, GuideTotals t, float *restrict costs) {
    const float mean = method == CUS_MATCH_CCOEFF_NORMED ? 1 / t.count : 0;
    if (method == CUS_MATCH_SQDIFF)
        for (int i = 0; i < POSE_STRIP; ++i)
            costs[i] = sums->s2[i] / t.count;
    else
        for (int i = 0; i < POSE_STRIP; ++i) {
            const float energy = sums->s2[i] - sums->s1[i] * sums->s1[i] * mean,
                        product = sums->st[i] - sums->s1[i] * t.t1 * mean;
            costs[i] = energy > 0 ? 0 - product * fabsf(product) / energy : 0;
        }
}

PoseGuess pose_guess(const cusPoseMatcher *m, int pose, int level, PoseArea area, int most,
                     int (*skip)(const void *about, int row, int col), const void *about) {
    const PoseHost *const host = m->state;
    const PoseBlocks *const blocks = &m->blocks[pose * m->levels + level];
    const PosePlane *const plane = &host->planes[level];
    const int count = blocks->count < most ? blocks->count : most;
    const cusMatchMethod method = m->options.method;
    PoseGuess guess = {INFINITY, pose, -1, -1};
    GuideTotals t = {(float)count, 0, 0};
    for (int k = 0; k < count; ++k) {
        t.t1 += blocks->at[k].value;
        t.t2 += (float)blocks->at[k].value * blocks->at[k].value;
    }
    for (int y = area.row; y < area.bottom && count > 0; y += area.step)
        for (int x = area.col; x < area.right; x += POSE_STRIP) {
            const size_t at = (size_t)y * m->level[level].step + (size_t)x;
            Guides sums;
            float costs[POSE_STRIP];
            const int16_t *const low = plane->low + at, *const high = plane->high ? plane->high + at : NULL;
            if (method == CUS_MATCH_SQDIFF)
                addGuideDistances(low, high, blocks->at, count, &sums);
            else
                addGuides(low, high, blocks->at, count, &sums);
            guideCosts(method, &sums, t, costs);
            const int lanes = area.right - x < POSE_STRIP ? area.right - x : POSE_STRIP;
            for (int i = 0; i < lanes; ++i)
                if (costs[i] < guess.cost && !skip(about, y, x + i))
                    guess = (PoseGuess){costs[i], pose, y, x + i};
        }
    if (method != CUS_MATCH_SQDIFF && t.t2 > 0) /* makes poses comparable */
        guess.cost /= method == CUS_MATCH_CCOEFF_NORMED ? t.t2 - t.t1 * t.t1 / t.count + 1 : t.t2;
    return guess;
}
