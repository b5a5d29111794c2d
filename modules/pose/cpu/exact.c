/* Exact values of positions, and their order. */
#include "pose/cpu/state.h"

#include <math.h>

/* At most 2^15 pixels, so that sums of squares fit 32 bits. */
CUSI_MULTIVERSION
static uint32_t squares(const uint8_t *image, const uint8_t *templ, const uint8_t *mask, int n) {
    int32_t sum = 0;
    for (int x = 0; x < n; ++x) {
        const int16_t d = (int16_t)((image[x] & mask[x]) - templ[x]);
        sum += d * d;
    }
    return (uint32_t)sum;
}

CUSI_MULTIVERSION
static void moments(const uint8_t *image, const uint8_t *templ, const uint8_t *mask, int n, int64_t *out) {
    int32_t s1 = 0, s2 = 0, c = 0;
    for (int x = 0; x < n; ++x) {
        const int16_t v = (int16_t)(image[x] & mask[x]), t = templ[x];
        s1 += v;
        s2 += v * v;
        c += v * t;
    }
    out[0] += s1;
    out[1] += s2;
    out[2] += c;
}

int pose_isBetter(const PoseBest *a, const PoseBest *b) {
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

int pose_isPerfect(const cusPoseMatcher *m, const PoseBest *b) {
    if (b->pose < 0)
        return 0;
    switch (m->options.method) {
    case CUS_MATCH_SQDIFF:
        return b->ssd == 0;
    case CUS_MATCH_SQDIFF_NORMED:
        return b->cost <= 0;
    default:
        return b->cost <= -1;
    }
}

/* The cost from the sums s1, s2, c of a window. */
static double normed(const cusPoseMatcher *m, const Pose *p, const int64_t *sums) {
    if (m->options.method == CUS_MATCH_CCOEFF_NORMED) {
        /* n is at most 2^24 + 2^12: products fit unsigned 64 bits, their difference, the covariance, signed ones */
        const uint64_t flat = (uint64_t)p->n * (uint64_t)p->t2 - (uint64_t)p->t1 * (uint64_t)p->t1;
        const uint64_t energy = (uint64_t)p->n * (uint64_t)sums[1] - (uint64_t)sums[0] * (uint64_t)sums[0];
        if (flat == 0)
            return -1;
        if (energy == 0)
            return 0;
        const uint64_t covariance = (uint64_t)p->n * (uint64_t)sums[2] - (uint64_t)sums[0] * (uint64_t)p->t1;
        const double score = (double)(int64_t)covariance / sqrt((double)energy * (double)flat);
        return score > 1 ? -1 : score < -1 ? 1 : 0 - score;
    }
    const int differs = m->options.method == CUS_MATCH_SQDIFF_NORMED;
    if (p->t2 == 0 || sums[1] == 0)
        return differs;
    const int64_t value = differs ? sums[1] - 2 * sums[2] + p->t2 : sums[2];
    const double score = (double)value / sqrt((double)sums[1] * (double)p->t2), clamped = score > 1 ? 1 : score;
    return differs ? clamped : 0 - clamped;
}

int pose_exact(const cusPoseMatcher *m, const PoseScratch *s, int row, int col, const PoseBest *best, PoseBest *value) {
    const Pose *const p = &m->poses[s->pose];
    const cusMat *const frame = ((const PoseHost *)m->state)->frame;
    const int differs = m->options.method == CUS_MATCH_SQDIFF;
    int64_t sums[3] = {0};
    uint64_t ssd = 0;
    for (int y = 0; y < p->rows; ++y) {
        const size_t from = (size_t)y * (size_t)p->cols + (size_t)s->first[y];
        const uint8_t *const image = (const uint8_t *)frame->data + (size_t)(row + y) * frame->step + col + s->first[y];
        const int n = s->last[y] - s->first[y];
        if (!differs)
            moments(image, s->pixels + from, s->mask + from, n, sums);
        else
            ssd += squares(image, s->pixels + from, s->mask + from, n);
        if (differs && best->pose >= 0 && ssd * best->n > best->ssd * (uint64_t)p->n)
            return 0;
    }
    *value = (PoseBest){ssd, (uint64_t)p->n, differs ? 0 : normed(m, p, sums), s->pose, row, col};
    if (!differs)
        value->n = 1;
    return 1;
}

double pose_score(const cusPoseMatcher *m, const PoseBest *v) {
    switch (m->options.method) {
    case CUS_MATCH_SQDIFF:
        return (double)v->ssd / (double)v->n;
    case CUS_MATCH_SQDIFF_NORMED:
        return v->cost;
    default:
        return 0 - v->cost;
    }
}
