/* Finds the best positions of a score map. For each tile, the search keeps the least ends of ranges and the best exact
 * cost. An exact cost is computed once, however many matches are wanted. If the candidates cost more one by one than all
 * positions together, all are computed at once. */
#include "match/cpu/state.h"

#include <string.h>

typedef struct Search {
    const MatchModel *m;
    MatchHost *host;
    const cusMat *frame;
    int k;
    size_t cols, tiles_across, tiles;
    Tile *list; /* the tiles */
    MatchRange *map;
    double sign, perfect; /* no cost is below `perfect` */
    double range;         /* MatchError::range */
    double windows;       /* windows computed singly so far */
    int passed;           /* whether all costs are known */
} Search;

static int isBetter(double cost, size_t position, Best best) {
    return cost < best.cost || (cost == best.cost && position < best.position);
}

/* ---- Tiles ----------------------------------------------------------------------------------------------------------- */

static size_t tileStart(const Search *s, size_t tile) {
    return tile / s->tiles_across * s->cols + tile % s->tiles_across * MATCH_TILE;
}

static size_t tileLength(const Search *s, size_t tile) {
    const size_t rest = s->cols - tile % s->tiles_across * MATCH_TILE;
    return rest < MATCH_TILE ? rest : MATCH_TILE;
}

/* Eight minima are side by side. */
CUSI_MULTIVERSION
void match_leastEnds(const MatchRange *ranges, size_t n, float *lower, float *upper) {
    enum { SIDE = 8 };
    typedef float Ends __attribute__((vector_size(SIDE * sizeof(MatchRange)), aligned(4), may_alias));
    typedef int32_t Choice __attribute__((vector_size(SIDE * sizeof(MatchRange))));
    Ends ends = (Ends){0} + INFINITY;
    size_t x = 0;
    for (; x + SIDE <= n; x += SIDE) {
        const Ends values = *(const Ends *)(ranges + x);
        const Choice less = values < ends;
        ends = (Ends)(((Choice)values & less) | ((Choice)ends & ~less));
    }
    for (; x < n; ++x) {
        ends[0] = ranges[x].lower < ends[0] ? ranges[x].lower : ends[0];
        ends[1] = ranges[x].upper < ends[1] ? ranges[x].upper : ends[1];
    }
    float each[2 * SIDE];
    memcpy(each, &ends, sizeof each);
    for (size_t half = SIDE; half > 1; half /= 2) /* an even number of floats */
        for (size_t i = 0; i < half; ++i)
            each[i] = each[i + half] < each[i] ? each[i + half] : each[i];
    *lower = each[0];
    *upper = each[1];
}

static int isKnown(const Search *s, const Tile *tile, size_t position) {
    return tile->known && !isnan(s->host->costs[position]);
}

/* Must be called after the ranges or exact costs of a tile have changed. */
static void refreshTile(const Search *s, size_t i) {
    Tile *tile = &s->list[i];
    const size_t start = tileStart(s, i), n = tileLength(s, i);
    match_leastEnds(s->map + start, n, &tile->lower, &tile->upper);
    tile->best = MATCH_NOTHING;
    if (!tile->known)
        return;
    tile->lower = INFINITY;
    for (size_t position = start; position < start + n; ++position) {
        const float lower = s->map[position].lower;
        if (!(lower < INFINITY)) /* an earlier match has removed it */
            continue;
        if (isnan(s->host->costs[position]))
            tile->lower = lower < tile->lower ? lower : tile->lower;
        else if (isBetter(s->host->costs[position], position, tile->best))
            tile->best = (Best){s->host->costs[position], position};
    }
}

static void refreshTiles(const Search *s) {
#pragma omp parallel for schedule(static) num_threads(match_threadsFor(s->host, (double)s->tiles *MATCH_TILE))
    for (size_t i = 0; i < s->tiles; ++i) {
        s->list[i].known = 1;
        refreshTile(s, i);
    }
}

/* ---- Exact costs of candidates --------------------------------------------------------------------------------------- */

/* Finds a bound that the best cost does not exceed: only positions whose range begins at or below it can be the best.
 * lower: the least lower end among positions without an exact cost. */
static double findBound(const Search *s, Best *best, float *lower) {
    float upper = INFINITY;
    *best = MATCH_NOTHING;
    *lower = INFINITY;
    for (size_t i = 0; i < s->tiles; ++i) {
        const Tile *tile = &s->list[i];
        upper = tile->upper < upper ? tile->upper : upper;
        *lower = tile->lower < *lower ? tile->lower : *lower;
        if (isBetter(tile->best.cost, tile->best.position, *best))
            *best = tile->best;
    }
    return best->cost < upper ? best->cost : upper;
}

/* Lists the tiles with candidates, and counts these. */
static size_t listTiles(const Search *s, double bound, int64_t *wanted) {
    size_t listed = 0;
    *wanted = 0;
    for (size_t i = 0; i < s->tiles; ++i) {
        const Tile *tile = &s->list[i];
        if (!(tile->lower <= bound))
            continue;
        s->host->listed_tiles[listed++] = i;
        const size_t start = tileStart(s, i), end = start + tileLength(s, i);
        for (size_t position = start; position < end; ++position)
            *wanted += s->map[position].lower <= bound && !isKnown(s, tile, position);
    }
    return listed;
}

static void makeKnown(const Search *s, size_t i) {
    Tile *tile = &s->list[i];
    const size_t start = tileStart(s, i), end = start + tileLength(s, i);
    for (size_t position = start; position < end && !tile->known; ++position)
        s->host->costs[position] = NAN;
    tile->known = 1;
}

/* Computes the exact cost of every candidate of a tile that can still win: its range begins at or below the best so far,
 * and the best is not perfect or comes later. */
static void refineTile(const Search *s, size_t i, double *bound) {
    const MatchHost *host = s->host;
    const Tile *tile = &s->list[i];
    Best *const own = &host->bests[match_thisThread()];
    const size_t start = tileStart(s, i), end = start + tileLength(s, i);
    makeKnown(s, i);
    for (size_t position = start; position < end; ++position) {
        double known;
#pragma omp atomic read
        known = *bound;
        if (!(s->map[position].lower <= known) || isKnown(s, tile, position) ||
            (own->cost <= s->perfect && own->position < position) || cusi_step(host->progress, 0))
            continue;
        const double score = match_exactScore(s->m, host, s->frame, s->k, position / s->cols, position % s->cols);
        const double cost = s->sign * match_rank(s->m, &host->sums[s->k], score) * s->range;
        host->costs[position] = cost;
        if (isBetter(cost, position, *own))
            *own = (Best){cost, position};
        known = cost < known ? cost : known;
#pragma omp atomic write
        *bound = known;
    }
    refreshTile(s, i);
}

static void refineTiles(const Search *s, size_t n, double bound, Best best, int64_t wanted) {
    const MatchHost *host = s->host;
    for (int t = 0; t < host->threads; ++t)
        host->bests[t] = best;
    const int threads = match_threadsFor(host, (double)wanted * s->m->n * s->m->channels);
    (void)threads;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (size_t i = 0; i < n; ++i)
        refineTile(s, host->listed_tiles[i], &bound);
}

/* Finds the best position left in the map. */
static Best findBest(Search *s) {
    Best best;
    float lower;
    const double bound = findBound(s, &best, &lower);
    if (bound == INFINITY || lower > bound)
        return best;
    int64_t wanted;
    const size_t tiles = listTiles(s, bound, &wanted);
    s->windows += (double)wanted;
    if (!s->passed && s->windows * match_windowNs(s->m) > s->host->pass_ns) {
        match_exactPass(s->m, s->host, s->frame, s->k);
        s->passed = 1;
        refreshTiles(s);
    } else {
        refineTiles(s, tiles, bound, best, wanted);
    }
    findBound(s, &best, &lower);
    return best;
}

/* ---- Matches --------------------------------------------------------------------------------------------------------- */

/* Sets dx and dy from the exact scores beside the match. Positions that an earlier match has removed do not count. */
static void setFractions(const Search *s, cusMatch *match, double cost) {
    double around[4];
    for (int i = 0; i < 4; ++i) {
        const uint64_t at = match_neighbor(s->m, (uint64_t)match->y * s->cols + (uint64_t)match->x, i);
        around[i] = at < UINT64_MAX && s->map[at].lower < INFINITY
                        ? s->sign * match_exactScore(s->m, s->host, s->frame, s->k, at / s->cols, at % s->cols)
                        : NAN;
    }
    match_setFractions(match, cost, around);
}

/* Removes the neighborhood of a match from the map. */
static void suppress(const Search *s, const cusMatch *match) {
    const MatchModel *m = s->m;
    const int64_t d = m->min_distance - 1;
    const int64_t y0 = match->y - d > 0 ? match->y - d : 0, x0 = match->x - d > 0 ? match->x - d : 0;
    const int64_t y1 = match->y + d < m->orows - 1 ? match->y + d : m->orows - 1;
    const int64_t x1 = match->x + d < m->ocols - 1 ? match->x + d : m->ocols - 1;
    for (int64_t y = y0; y <= y1; ++y) {
        for (int64_t x = x0; x <= x1; ++x)
            s->map[y * m->ocols + x] = (MatchRange){INFINITY, INFINITY};
        for (int64_t t = x0 / MATCH_TILE; t <= x1 / MATCH_TILE; ++t)
            refreshTile(s, (size_t)y * s->tiles_across + (size_t)t);
    }
}

static const cusMatch NO_MATCH = {.x = -1, .y = -1, .score = NAN, .filled = -1};

void match_clearMatches(const cusMatcher *matcher, int k) {
    cusMatch *out = (cusMatch *)((char *)matcher->results.data + (size_t)k * matcher->results.step);
    for (int i = 0; i < matcher->model.max_matches; ++i)
        out[i] = NO_MATCH;
}

void match_findMatches(const cusMatcher *matcher, const cusMat *frame, int k, MatchError error) {
    const MatchModel *m = &matcher->model;
    MatchHost *host = matcher->backend;
    const int smallest = match_smallestIsBest(m->method);
    const size_t across = match_tilesAcross(m), tiles = across * (size_t)m->orows;
    Search s = {.m = m,
                .host = host,
                .frame = frame,
                .k = k,
                .cols = (size_t)m->ocols,
                .tiles_across = across,
                .tiles = tiles,
                .list = host->tiles + (size_t)k * tiles,
                .map = host->ranges + (size_t)k * (size_t)m->orows * (size_t)m->ocols,
                .sign = smallest ? 1 : -1,
                .range = error.range,
                .perfect = smallest          ? 0
                           : (m->method & 1) ? -1
                                             : -INFINITY};
    cusMatch *out = (cusMatch *)((char *)matcher->results.data + (size_t)k * matcher->results.step);
    match_clearMatches(matcher, k);
    for (int i = 0; i < m->max_matches; ++i) {
        const Best best = findBest(&s);
        if (best.position == SIZE_MAX || cusi_step(host->progress, 0))
            return;
        const size_t y = best.position / s.cols, x = best.position % s.cols;
        double cost = best.cost;
        if (!m->integer) /* so far it is a scaled rank */
            cost = s.sign * match_exactScore(m, host, frame, k, y, x);
        if (cost * m->unit > m->limit_cost)
            return;
        out[i].x = (int32_t)x;
        out[i].y = (int32_t)y;
        out[i].score = (smallest ? cost : 0 - cost) * m->unit;
        if (m->subpixel)
            setFractions(&s, &out[i], cost);
        if (m->max_matches > 1)
            suppress(&s, &out[i]);
    }
}
