/* Exact values of positions. */
#include "pose/cpu/state.h"

/* Sums up to 2^15 squares, which fit 32 bits. */
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
    const double cost =
        differs ? 0 : pose_normed(m->options.method, p, (uint64_t)sums[0], (uint64_t)sums[1], (uint64_t)sums[2]);
    *value = (PoseBest){ssd, differs ? (uint64_t)p->n : 1, cost, s->pose, row, col};
    return 1;
}
