/* match on the CPU: the best positions of a score map. The search keeps, for each run of MATCH_TILE positions, the least ends of
 * the ranges and the best exact cost. An exact cost is computed once, however many matches are wanted. */
#include "check.h"
#include "host.h"
#include "match_host.h"

/* Windows are shared if those that differ cost at most this part of the exact pass of a block. */
#define SHARING_WORTH 0.25

typedef struct Search {
    const MatchModel *m;
    MatchHost *host;
    const cusMat *frame;
    int k;
    size_t cols, tiles_across, tiles;
    MatchRange *map;
    double sign, perfect; /* no cost is below `perfect` */
    int *equal_found;     /* MatchHost.first is valid */
} Search;

static const Best NOTHING = {INFINITY, SIZE_MAX};

static int isBetter(double cost, size_t position, Best best) {
    return cost < best.cost || (cost == best.cost && position < best.position);
}

/* ---- Tiles -------------------------------------------------------------------------------------------------------------- */

static size_t tileStart(const Search *s, size_t tile) {
    return tile / s->tiles_across * s->cols + tile % s->tiles_across * MATCH_TILE;
}

static size_t tileLength(const Search *s, size_t tile) {
    const size_t rest = s->cols - tile % s->tiles_across * MATCH_TILE;
    return rest < MATCH_TILE ? rest : MATCH_TILE;
}

static BlockState *blockOf(const Search *s, size_t tile) {
    const ExactPlan *plan = &s->host->exact;
    const size_t y = tile / s->tiles_across, x = tile % s->tiles_across * MATCH_TILE;
    return &s->host->blocks[y / (size_t)plan->block_rows * (size_t)plan->across + x / (size_t)plan->block_cols];
}

/* Eight minima side by side, so that the loop vectorizes. */
CUSI_MULTIVERSION
static void leastEnds(const MatchRange *ranges, size_t n, float *lower, float *upper) {
    enum { SIDE = 8 };
    float ends[2 * SIDE];
    for (size_t i = 0; i < 2 * SIDE; ++i)
        ends[i] = INFINITY;
    const float *values = &ranges->lower;
    size_t x = 0;
    for (; x + SIDE <= n; x += SIDE)
        for (size_t i = 0; i < 2 * SIDE; ++i)
            ends[i] = values[2 * x + i] < ends[i] ? values[2 * x + i] : ends[i];
    for (; x < n; ++x) {
        ends[0] = ranges[x].lower < ends[0] ? ranges[x].lower : ends[0];
        ends[1] = ranges[x].upper < ends[1] ? ranges[x].upper : ends[1];
    }
    *lower = *upper = INFINITY;
    for (size_t i = 0; i < SIDE; ++i) {
        *lower = ends[2 * i] < *lower ? ends[2 * i] : *lower;
        *upper = ends[2 * i + 1] < *upper ? ends[2 * i + 1] : *upper;
    }
}

static int isKnown(const Search *s, const Tile *tile, size_t position) {
    return tile->known && !isnan(s->host->costs[position]);
}

/* After the ranges or exact costs of a tile have changed. */
static void refreshTile(const Search *s, size_t i) {
    Tile *tile = &s->host->tiles[i];
    const size_t start = tileStart(s, i), n = tileLength(s, i);
    int *const stale = &s->host->lines[i / s->tiles_across].stale;
#pragma omp atomic write
    *stale = 1;
    leastEnds(s->map + start, n, &tile->lower, &tile->upper);
    tile->best = NOTHING;
    if (!tile->known)
        return;
    tile->lower = INFINITY;
    for (size_t position = start; position < start + n; ++position) {
        const float lower = s->map[position].lower;
        if (!(lower < INFINITY)) /* suppressed */
            continue;
        if (isnan(s->host->costs[position]))
            tile->lower = lower < tile->lower ? lower : tile->lower;
        else if (isBetter(s->host->costs[position], position, tile->best))
            tile->best = (Best){s->host->costs[position], position};
    }
}

static const Line *freshLine(const Search *s, size_t y) {
    Line *line = &s->host->lines[y];
    if (!line->stale)
        return line;
    *line = (Line){INFINITY, INFINITY, 0, NOTHING};
    for (size_t i = y * s->tiles_across; i < (y + 1) * s->tiles_across; ++i) {
        const Tile *tile = &s->host->tiles[i];
        line->lower = tile->lower < line->lower ? tile->lower : line->lower;
        line->upper = tile->upper < line->upper ? tile->upper : line->upper;
        if (isBetter(tile->best.cost, tile->best.position, line->best))
            line->best = tile->best;
    }
    return line;
}

static void resetTiles(const Search *s) {
#pragma omp parallel for schedule(static) num_threads(match_threadsFor(s->host, (double)s->tiles *MATCH_TILE))
    for (size_t i = 0; i < s->tiles; ++i) {
        s->host->tiles[i].known = 0;
        refreshTile(s, i);
    }
    for (int64_t b = 0; b < s->host->exact.down * s->host->exact.across; ++b)
        s->host->blocks[b] = (BlockState){.done = 0};
}

/* ---- Exact costs of candidates ------------------------------------------------------------------------------------------ */

/* Some position's cost is at most this, so only positions whose range begins at or below it can be the best. */
static double findBound(const Search *s, Best *best, float *lower) {
    double bound = INFINITY;
    *best = NOTHING;
    *lower = INFINITY;
    for (size_t y = 0; y < (size_t)s->m->orows; ++y) {
        const Line *line = freshLine(s, y);
        bound = line->upper < bound ? line->upper : bound;
        *lower = line->lower < *lower ? line->lower : *lower;
        if (isBetter(line->best.cost, line->best.position, *best))
            *best = line->best;
    }
    return best->cost < bound ? best->cost : bound;
}

static int64_t countCandidates(const Search *s, size_t i, double bound) {
    int64_t wanted = 0;
    const size_t start = tileStart(s, i), end = start + tileLength(s, i);
    for (size_t position = start; position < end; ++position)
        wanted += s->map[position].lower <= bound && !isKnown(s, &s->host->tiles[i], position);
    return wanted;
}

/* Lists the tiles with candidates, and counts candidates block by block. */
static size_t listCandidates(const Search *s, double bound) {
    const MatchHost *host = s->host;
    size_t listed = 0;
    for (int64_t b = 0; b < host->exact.down * host->exact.across; ++b)
        host->blocks[b].wanted = 0;
    for (size_t y = 0; y < (size_t)s->m->orows; ++y) {
        if (!(host->lines[y].lower <= bound))
            continue;
        for (size_t i = y * s->tiles_across; i < (y + 1) * s->tiles_across; ++i)
            if (host->tiles[i].lower <= bound) {
                blockOf(s, i)->wanted += countCandidates(s, i, bound);
                host->listed_tiles[listed++] = i;
            }
    }
    return listed;
}

/* Lists the blocks whose candidates cost more one by one than all positions together. */
static int64_t listBlocks(const Search *s) {
    const MatchHost *host = s->host;
    int64_t listed = 0;
    for (int64_t b = 0; b < host->exact.down * host->exact.across; ++b) {
        const BlockState *block = &host->blocks[b];
        const double windows = block->windows + (double)block->wanted;
        if (!block->done && block->wanted > 0 && windows * host->exact.window_ns > host->exact.block_ns)
            host->listed_blocks[listed++] = b;
    }
    return listed;
}

static void computeBlocks(const Search *s, int64_t n) {
    MatchHost *host = s->host;
    const int costs = match_givesCosts(s->m, host, s->frame);
    match_exactBlocks(s->m, host, s->frame, s->k, host->listed_blocks, n);
    for (int64_t b = 0; b < n; ++b)
        host->blocks[host->listed_blocks[b]].done = 1;
#pragma omp parallel for schedule(static) num_threads(match_threadsFor(host, (double)s->tiles *MATCH_TILE))
    for (size_t i = 0; i < s->tiles; ++i)
        if (blockOf(s, i)->done) {
            if (costs)
                host->tiles[i].known = 1;
            refreshTile(s, i);
        }
}

static void makeKnown(const Search *s, size_t i) {
    Tile *tile = &s->host->tiles[i];
    const size_t start = tileStart(s, i), end = start + tileLength(s, i);
    for (size_t position = start; position < end && !tile->known; ++position)
        s->host->costs[position] = NAN;
    tile->known = 1;
}

static size_t tileOf(const Search *s, size_t position) {
    return position / s->cols * s->tiles_across + position % s->cols / MATCH_TILE;
}

/* Gives the exact cost of one window to all listed candidates that have the same pixels. */
static void shareCosts(const Search *s, size_t n, double bound) {
    MatchHost *host = s->host;
    for (size_t i = 0; i < n; ++i) {
        const size_t tile = host->listed_tiles[i], start = tileStart(s, tile), end = start + tileLength(s, tile);
        makeKnown(s, tile);
        for (size_t position = start; position < end; ++position) {
            const size_t first = host->first[position];
            if (first == position || !(s->map[position].lower <= bound) || !isnan(host->costs[position]))
                continue;
            makeKnown(s, tileOf(s, first));
            if (isnan(host->costs[first])) {
                host->costs[first] =
                    s->sign * match_exactScore(s->m, host, s->frame, s->k, first / s->cols, first % s->cols);
                refreshTile(s, tileOf(s, first));
            }
            host->costs[position] = host->costs[first];
        }
        refreshTile(s, tile);
    }
}

/* 32F with candidates enough for an exact pass: whether most of them have the same pixels as few others, so that sharing costs
 * less than the pass. */
static int fewDiffer(const Search *s, size_t n, double bound) {
    MatchHost *host = s->host;
    if (!*s->equal_found)
        match_findEqualWindows(s->m, host, s->frame);
    *s->equal_found = 1;
    size_t different = 0;
    for (size_t i = 0; i < n; ++i) {
        const size_t start = tileStart(s, host->listed_tiles[i]), end = start + tileLength(s, host->listed_tiles[i]);
        for (size_t position = start; position < end; ++position)
            different += s->map[position].lower <= bound && host->first[position] == position &&
                         !isKnown(s, &host->tiles[host->listed_tiles[i]], position);
    }
    return (double)different * host->exact.window_ns < SHARING_WORTH * host->exact.block_ns;
}

/* The exact costs of a candidate at `position` and, if worth it, of its neighbors; returns how many. */
static size_t computeCosts(const Search *s, const Tile *tile, size_t position, size_t end, float bound, double *costs) {
    const size_t y = position / s->cols, x = position % s->cols;
    size_t n = 1, wanted = 0;
    if (!s->m->integer && position + MATCH_AT_ONCE <= end) {
        for (size_t i = 0; i < MATCH_AT_ONCE; ++i)
            wanted += s->map[position + i].lower <= bound && !isKnown(s, tile, position + i);
        n = wanted > 2 ? MATCH_AT_ONCE : 1;
    }
    if (n > 1)
        match_exactNeighbors(s->m, s->host, s->frame, s->k, y, x, costs);
    else
        costs[0] = match_exactScore(s->m, s->host, s->frame, s->k, y, x);
    for (size_t i = 0; i < n; ++i)
        costs[i] *= s->sign;
    return n;
}

/* Computes the exact cost of every candidate of a tile, except those that can no longer win: their range begins above the best so
 * far, or the best so far is perfect and comes first. */
static void refineTile(const Search *s, size_t i, double *bound) {
    MatchHost *host = s->host;
    Tile *tile = &host->tiles[i];
    Best *const own = &match_thisWorker(host)->best;
    const size_t start = tileStart(s, i), end = start + tileLength(s, i);
    makeKnown(s, i);
    size_t computed = 0;
    for (size_t position = start; position < end; ++position) {
        double known, costs[MATCH_AT_ONCE];
#pragma omp atomic read
        known = *bound;
        if (!(s->map[position].lower <= known) || isKnown(s, tile, position) ||
            (own->cost <= s->perfect && own->position < position))
            continue;
        const size_t n = computeCosts(s, tile, position, end, (float)known, costs);
        for (size_t j = 0; j < n; ++j) {
            if (!(s->map[position + j].lower < INFINITY)) /* suppressed */
                continue;
            host->costs[position + j] = costs[j];
            if (isBetter(costs[j], position + j, *own))
                *own = (Best){costs[j], position + j};
            known = costs[j] < known ? costs[j] : known;
        }
#pragma omp atomic write
        *bound = known;
        position += n - 1;
        computed += n;
    }
    refreshTile(s, i);
#pragma omp atomic update
    blockOf(s, i)->windows += (double)computed;
}

static void refineTiles(const Search *s, size_t n, double bound, Best best) {
    MatchHost *host = s->host;
    double windows = 0;
    for (int64_t b = 0; b < host->exact.down * host->exact.across; ++b)
        windows += (double)host->blocks[b].wanted;
    (void)windows; /* without OpenMP */
    for (int t = 0; t < host->threads; ++t)
        host->workers[t].best = best;
#pragma omp parallel for schedule(dynamic, 1) num_threads(match_threadsFor(host, windows * s->m->n * s->m->channels))
    for (size_t i = 0; i < n; ++i)
        refineTile(s, host->listed_tiles[i], &bound);
}

/* The best of what is left of the map. */
static Best findBest(const Search *s) {
    for (;;) {
        Best best;
        float lower;
        const double bound = findBound(s, &best, &lower);
        if (bound == INFINITY || lower > bound)
            return best;
        const size_t tiles = listCandidates(s, bound);
        const int64_t blocks = listBlocks(s);
        const int share = blocks > 0 && !match_givesCosts(s->m, s->host, s->frame) && fewDiffer(s, tiles, bound);
        if (blocks > 0 && !share) {
            computeBlocks(s, blocks);
            continue;
        }
        if (*s->equal_found)
            shareCosts(s, tiles, bound);
        refineTiles(s, tiles, bound, best);
        findBound(s, &best, &lower);
        return best;
    }
}

/* ---- Matches ------------------------------------------------------------------------------------------------------------ */

/* dx, dy: the vertex of a parabola through the neighboring scores. */
static void subpixel(const MatchModel *m, const MatchRange *map, cusMatch *match) {
    const MatchRange *at_best = map + (size_t)match->y * (size_t)m->ocols + (size_t)match->x;
    const float middle = match_middle(*at_best);
    if (match->x > 0 && match->x + 1 < m->ocols)
        match->dx = match_vertex(match_middle(at_best[-1]), middle, match_middle(at_best[1]));
    if (match->y > 0 && match->y + 1 < m->orows)
        match->dy = match_vertex(match_middle(at_best[-m->ocols]), middle, match_middle(at_best[m->ocols]));
}

/* Takes the neighborhood of a match out of the map. */
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

void match_findMatches(const cusMatcher *matcher, const cusMat *frame, int k) {
    const MatchModel *m = &matcher->model;
    MatchHost *host = matcher->backend;
    const int smallest = match_smallestIsBest(m->method);
    const size_t across = ((size_t)m->ocols + MATCH_TILE - 1) / MATCH_TILE;
    int equal_found = 0;
    const Search s = {.equal_found = &equal_found,
                      .m = m,
                      .host = host,
                      .frame = frame,
                      .k = k,
                      .cols = (size_t)m->ocols,
                      .tiles_across = across,
                      .tiles = across * (size_t)m->orows,
                      .map = host->ranges + (size_t)k * (size_t)m->orows * (size_t)m->ocols,
                      .sign = smallest ? 1 : -1,
                      .perfect = smallest          ? 0
                                 : (m->method & 1) ? -1
                                                   : -INFINITY};
    cusMatch *out = (cusMatch *)((char *)matcher->results.data + (size_t)k * matcher->results.step);
    match_clearMatches(matcher, k);
    resetTiles(&s);
    for (int i = 0; i < m->max_matches; ++i) {
        const Best best = findBest(&s);
        if (best.position == SIZE_MAX || best.cost > m->limit_cost)
            return;
        out[i].x = (int32_t)(best.position % s.cols);
        out[i].y = (int32_t)(best.position / s.cols);
        out[i].score = smallest ? best.cost : 0 - best.cost;
        if (m->subpixel)
            subpixel(m, s.map, &out[i]);
        if (m->max_matches > 1)
            suppress(&s, &out[i]);
    }
}
