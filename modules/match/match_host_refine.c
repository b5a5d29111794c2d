/* match on the CPU: exact scores from the pixels, and the best positions of a score map. */
#include "check.h"
#include "host.h"
#include "match_host.h"

/* ---- One window, exactly ------------------------------------------------------------------------------------------------ */

CUSI_MULTIVERSION
static uint32_t squaredDifferences(const uint8_t *a, const uint8_t *b, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i) {
        const int d = a[i] - b[i];
        sum += (uint32_t)(d * d);
    }
    return sum;
}

CUSI_MULTIVERSION
static uint32_t squaredDifferencesMasked(const uint8_t *a, const uint8_t *b, const uint8_t *mask, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i) {
        const int d = (a[i] & mask[i]) - b[i];
        sum += (uint32_t)(d * d);
    }
    return sum;
}

CUSI_MULTIVERSION
static uint32_t products(const uint8_t *a, const uint8_t *b, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i)
        sum += (uint32_t)(a[i] * b[i]);
    return sum;
}

static double exactBytes(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x) {
    const MatchTemplate *t = &host->sums[k];
    const size_t channels = (size_t)m->channels, n = (size_t)m->w * channels;
    const uint8_t *pixels = (const uint8_t *)host->templates + (size_t)k * host->template_bytes;
    uint64_t ssd = 0, c = 0, s1[3] = {0, 0, 0}, s2 = 0;
    for (size_t j = 0; j < (size_t)m->h; ++j) {
        const uint8_t *row = (const uint8_t *)match_row(frame, y + j) + x * channels;
        if (m->method == CUS_MATCH_SQDIFF) {
            ssd += host->mask ? squaredDifferencesMasked(row, pixels + j * n, host->mask + j * n, n)
                              : squaredDifferences(row, pixels + j * n, n);
            continue;
        }
        c += products(row, pixels + j * n, n);
        if (!m->masked)
            for (size_t k1 = 0; k1 < channels; ++k1)
                match_sumBytes(row + k1, (size_t)m->w, channels, &s1[k1], &s2);
    }
    if (m->masked || m->method == CUS_MATCH_SQDIFF)
        return match_score(m, t, (double)c, (const double[3]){0, 0, 0}, 0, (double)ssd);
    /* All integers below 2^53, so applying the shift is exact. */
    double shifted = (double)c, shifted1[3] = {0, 0, 0}, shifted2 = (double)s2;
    for (size_t k1 = 0; k1 < channels; ++k1) {
        const double shift = m->shift[k1], sum = (double)s1[k1];
        shifted += m->n * shift * shift - shift * (sum + t->raw_t1[k1]);
        shifted1[k1] = sum - m->n * shift;
        shifted2 += m->n * shift * shift - 2 * shift * sum;
    }
    return match_score(m, t, shifted, shifted1, shifted2, shifted2 - 2 * shifted + t->t2);
}

static double exactFloats(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x) {
    const MatchTemplate *t = &host->sums[k];
    const size_t w = (size_t)m->w;
    const float *pixels = (const float *)(host->templates + (size_t)k * host->template_bytes);
    const double shift = m->shift[0];
    double ssd = 0, c = 0, s1 = 0, s2 = 0;
    for (size_t j = 0; j < (size_t)m->h; ++j) {
        const float *row = (const float *)match_row(frame, y + j) + x;
        for (size_t i = 0; i < w; ++i) {
            if (host->mask && !host->mask[j * w + i])
                continue;
            const double a = row[i], b = pixels[j * w + i];
            const double sa = a - shift, sb = b - shift;
            ssd += (a - b) * (a - b);
            c += m->masked ? a * b : sa * sb;
            s1 += sa;
            s2 += sa * sa;
        }
    }
    return match_score(m, t, c, &s1, s2, ssd);
}

double match_exactScore(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x) {
    return m->integer ? exactBytes(m, host, frame, k, y, x) : exactFloats(m, host, frame, k, y, x);
}

/* ---- The best of a score map -------------------------------------------------------------------------------------------- */

CUSI_MULTIVERSION
static float minUpper(const MatchRange *ranges, size_t n) {
    float min = INFINITY;
    for (size_t i = 0; i < n; ++i)
        min = ranges[i].upper < min ? ranges[i].upper : min;
    return min;
}

static int isBetter(double cost, size_t position, Best best) {
    return cost < best.cost || (cost == best.cost && position < best.position);
}

/* The smallest upper end of all ranges: only a position whose range begins at or below it can be the best. */
static float candidateThreshold(const MatchModel *m, const MatchHost *host, const MatchRange *map) {
    const size_t rows = (size_t)m->orows, cols = (size_t)m->ocols;
    float threshold = INFINITY;
    (void)host; /* without OpenMP */
#pragma omp parallel for schedule(static) num_threads(match_threadsFor(host, (double)rows *(double)cols)) \
    reduction(min                                                                                         \
              : threshold)
    for (size_t y = 0; y < rows; ++y) {
        const float row = minUpper(map + y * cols, cols);
        threshold = row < threshold ? row : threshold;
    }
    return threshold;
}

/* Computes the exact score of every candidate, skipping those that can no longer win: their range begins above the best so far,
 * or the best so far is perfect and comes first. */
static Best findBest(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k) {
    const size_t rows = (size_t)m->orows, cols = (size_t)m->ocols;
    const MatchRange *map = host->ranges + (size_t)k * rows * cols;
    const double sign = match_smallestIsBest(m->method) ? 1 : -1;
    const double perfect = match_smallestIsBest(m->method) ? 0 : (m->method & 1) ? -1 : -INFINITY;
    const float threshold = candidateThreshold(m, host, map);
    const double positions = (double)rows * (double)cols;
    (void)positions; /* without OpenMP */
    Best best = {INFINITY, SIZE_MAX};
    if (threshold == INFINITY)
        return best;
    for (int t = 0; t < host->threads; ++t)
        host->workers[t].best = best;
    double bound = INFINITY; /* the cost of some position, seen by all threads */
#pragma omp parallel for schedule(dynamic, 1) num_threads(match_threadsFor(host, positions * m->n * m->channels))
    for (size_t y = 0; y < rows; ++y) {
        Best *const own = &match_thisWorker(host)->best;
        for (size_t position = y * cols; position < (y + 1) * cols; ++position) {
            if (!(map[position].lower <= threshold))
                continue;
            double known;
#pragma omp atomic read
            known = bound;
            if (map[position].lower > known || (own->cost <= perfect && own->position < position))
                continue;
            const double cost = sign * match_exactScore(m, host, frame, k, y, position - y * cols);
            if (isBetter(cost, position, *own))
                *own = (Best){cost, position};
            if (cost < known) {
#pragma omp atomic write
                bound = cost;
            }
        }
    }
    for (int t = 0; t < host->threads; ++t)
        if (isBetter(host->workers[t].best.cost, host->workers[t].best.position, best))
            best = host->workers[t].best;
    return best;
}

/* dx, dy: the vertex of a parabola through the neighboring scores. */
static void subpixel(const MatchModel *m, const MatchRange *map, cusMatch *match) {
    const MatchRange *at_best = map + (size_t)match->y * (size_t)m->ocols + (size_t)match->x;
    const float middle = match_middle(*at_best);
    if (match->x > 0 && match->x + 1 < m->ocols)
        match->dx = match_vertex(match_middle(at_best[-1]), middle, match_middle(at_best[1]));
    if (match->y > 0 && match->y + 1 < m->orows)
        match->dy = match_vertex(match_middle(at_best[-m->ocols]), middle, match_middle(at_best[m->ocols]));
}

/* Removes the neighborhood of a match from the map. */
static void suppress(const MatchModel *m, MatchRange *map, const cusMatch *match) {
    const int64_t d = m->min_distance - 1;
    const int64_t y0 = match->y - d > 0 ? match->y - d : 0, x0 = match->x - d > 0 ? match->x - d : 0;
    const int64_t y1 = match->y + d < m->orows - 1 ? match->y + d : m->orows - 1;
    const int64_t x1 = match->x + d < m->ocols - 1 ? match->x + d : m->ocols - 1;
    for (int64_t y = y0; y <= y1; ++y)
        for (int64_t x = x0; x <= x1; ++x)
            map[y * m->ocols + x] = (MatchRange){INFINITY, INFINITY};
}

static const cusMatch NO_MATCH = {.x = -1, .y = -1, .score = NAN, .filled = -1};

void match_clearMatches(const cusMatcher *matcher, int k) {
    cusMatch *out = (cusMatch *)((char *)matcher->results.data + (size_t)k * matcher->results.step);
    for (int i = 0; i < matcher->model.max_matches; ++i)
        out[i] = NO_MATCH;
}

void match_findMatches(const cusMatcher *matcher, const cusMat *frame, int k) {
    const MatchModel *m = &matcher->model;
    const MatchHost *host = matcher->backend;
    MatchRange *map = host->ranges + (size_t)k * (size_t)m->orows * (size_t)m->ocols;
    cusMatch *out = (cusMatch *)((char *)matcher->results.data + (size_t)k * matcher->results.step);
    match_clearMatches(matcher, k);
    for (int i = 0; i < m->max_matches; ++i) {
        const Best best = findBest(m, host, frame, k);
        if (best.position == SIZE_MAX || best.cost > m->limit_cost)
            return;
        out[i].x = (int32_t)(best.position % (size_t)m->ocols);
        out[i].y = (int32_t)(best.position / (size_t)m->ocols);
        out[i].score = match_smallestIsBest(m->method) ? best.cost : 0 - best.cost;
        if (m->subpixel)
            subpixel(m, map, &out[i]);
        if (m->max_matches > 1)
            suppress(m, map, &out[i]);
    }
}
