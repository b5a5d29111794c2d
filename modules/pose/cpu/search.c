/* The search for the best position of all poses: a first guess, then branch and bound. */
#include "check.h"
#include "pose/cpu/state.h"
#include "progress.h"

#include <math.h>
#include <stdlib.h>

enum { TRIALS = 16 }; /* guesses that are computed */

typedef struct Search {
    const cusPoseMatcher *m;
    PoseHost *host;
    double limit_cost;
    PosePicks picks;
    CusiProgress *progress;
    int version; /* counts changes of best */
    PoseBest best;
} Search;

/* A thread's work on a pose. */
typedef struct Worker {
    Search *search;
    PoseScratch *scratch;
    PoseTest *tests;
    int pose, version;
    PoseBest best; /* as of version */
} Worker;

/* ---- Candidates ---------------------------------------------------------------------------------------------------------- */

static void refresh(Worker *w) {
    Search *const s = w->search;
    int version;
#pragma omp atomic read
    version = s->version;
    if (version == w->version)
        return;
#pragma omp critical(cusi_pose_best)
    {
        w->best = s->best;
        w->version = s->version;
    }
    for (int l = 0; l < s->m->levels; ++l)
        pose_tests(s->m, w->pose, l, &w->best, s->limit_cost, w->tests + (size_t)l * s->host->chunks);
}

static void offer(Search *s, const PoseBest *value) {
    const cusMatchMethod method = s->m->options.method;
    const double score = pose_score(method, value);
    if ((pose_wantsSmallest(method) ? score : -score) > s->limit_cost)
        return;
#pragma omp critical(cusi_pose_best)
    if (pose_isBetter(value, &s->best)) {
        s->best = *value;
#pragma omp atomic write
        s->version = s->version + 1;
    }
}

static void tryPosition(Worker *w, int row, int col) {
    Search *const s = w->search;
    const PoseBest here = {w->best.ssd, w->best.n, w->best.cost, w->pose, row, col};
    if (pose_isPerfect(s->m->options.method, &w->best) && !pose_isBetter(&here, &w->best))
        return; /* at best a later tie */
    if (pose_isSuppressed(&s->picks, w->pose, row, col) || cusi_step(s->progress, 0))
        return;
    if (w->scratch->pose != w->pose)
        pose_load(s->m, w->scratch, w->pose);
    PoseBest value;
    if (pose_exact(s->m, w->scratch, row, col, &w->best, &value)) {
        offer(s, &value);
        refresh(w);
    }
}

/* What the finer levels leave of neighboring cells, those that are alive: their cells at the next level, in groups. */
static void searchCells(Worker *w, int level, int row, int col, int lanes, const uint8_t *alive) {
    const cusPoseMatcher *const m = w->search->m;
    const int next = level + 1;
    if (next >= m->levels || next >= POSE_LEVELS) { /* cells are positions */
        for (int i = 0; i < lanes; ++i)
            if (alive[i])
                tryPosition(w, row, col + i);
        return;
    }
    const Pose *const p = &m->poses[w->pose];
    const int cell = m->level[next].cell, ratio = m->level[level].cell / cell;
    const int rows = (pose_positionRows(m, p) + cell - 1) / cell, cols = (pose_positionCols(m, p) + cell - 1) / cell;
    const int bottom = (row + 1) * ratio < rows ? (row + 1) * ratio : rows;
    const int right = (col + lanes) * ratio < cols ? (col + lanes) * ratio : cols;
    for (int y = row * ratio; y < bottom; ++y)
        for (int x = col * ratio; x < right; x += POSE_GROUP) {
            const int n = right - x < POSE_GROUP ? right - x : POSE_GROUP;
            uint8_t inside[POSE_GROUP];
            int any = 0;
            for (int i = 0; i < n; ++i)
                any |= inside[i] = alive[(x + i) / ratio - col];
            if (any && pose_bound(m, w->pose, next, w->tests + (size_t)next * w->search->host->chunks, y, x, n, inside) > 0)
                searchCells(w, next, y, x, n, inside);
        }
}

static Worker workerOf(Search *s, int pose) {
    const int thread = cusi_threadNumber();
    Worker w = {.search = s,
                .scratch = &s->host->scratch[thread],
                .tests = s->host->tests + (size_t)thread * (size_t)s->m->levels * s->host->chunks,
                .pose = pose,
                .version = -1};
    refresh(&w);
    return w;
}

/* Rows of cells first..last - 1 of a pose. */
static void searchRows(Search *s, int pose, int first, int last) {
    const int cell = s->m->level[0].cell;
    const int cells = (pose_positionCols(s->m, &s->m->poses[pose]) + cell - 1) / cell;
    Worker w = workerOf(s, pose);
    for (int y = first; y < last; ++y, cusi_step(s->progress, 1))
        for (int x = 0; x < cells; x += POSE_STRIP) {
            const int lanes = cells - x < POSE_STRIP ? cells - x : POSE_STRIP;
            uint8_t alive[POSE_STRIP];
            for (int i = 0; i < lanes; ++i)
                alive[i] = 1;
            refresh(&w);
            if ((pose_isPerfect(s->m->options.method, &w.best) && w.best.pose < pose) || cusi_step(s->progress, 0))
                return;
            if (pose_bound(s->m, pose, 0, w.tests, y, x, lanes, alive) > 0)
                searchCells(&w, 0, y, x, lanes, alive);
        }
}

/* ---- Guesses ------------------------------------------------------------------------------------------------------------- */

typedef struct About {
    const Search *search;
    int pose, cell;
} About;

static int skips(const void *about, int row, int col) {
    const About *const a = about;
    return pose_isSuppressed(&a->search->picks, a->pose, row * a->cell, col * a->cell);
}

static int byCost(const void *a, const void *b) {
    const PoseGuess *const x = a, *const y = b;
    if (x->cost < y->cost || x->cost > y->cost)
        return x->cost < y->cost ? -1 : 1;
    return (x->pose > y->pose) - (x->pose < y->pose);
}

/* Where each pose fits best by its first blocks, the best pose first. */
static void guessAll(const Search *s) {
    PoseHost *const host = s->host;
    const int cell = s->m->level[0].cell;
    cusi_part(s->progress, 0.2, pose_count(s->m));
#pragma omp parallel for schedule(dynamic, 1) num_threads(host->threads)
    for (int i = 0; i < pose_count(s->m); ++i) {
        host->guesses[i] = (PoseGuess){.row = -1};
        if (cusi_step(s->progress, 1))
            continue;
        const Pose *const p = &s->m->poses[i];
        const About about = {s, i, cell};
        host->guesses[i] = pose_guess(s->m, i, 0, 0, (pose_positionRows(s->m, p) + cell - 1) / cell, 0,
                                      (pose_positionCols(s->m, p) + cell - 1) / cell, skips, &about);
    }
    qsort(host->guesses, (size_t)pose_count(s->m), sizeof *host->guesses, byCost);
}

/* Computes the best position near a guess. */
static void tryGuess(Search *s, const PoseGuess *guess) {
    const Pose *const p = &s->m->poses[guess->pose];
    const int cell = s->m->level[0].cell, rows = pose_positionRows(s->m, p), cols = pose_positionCols(s->m, p);
    const int row0 = guess->row * cell - cell, col0 = guess->col * cell - cell;
    const int row1 = row0 + 3 * cell, col1 = col0 + 3 * cell;
    const About about = {s, guess->pose, 1};
    const PoseGuess fine =
        s->m->levels > 1 ? pose_guess(s->m, guess->pose, s->m->levels - 1, row0 > 0 ? row0 : 0, row1 < rows ? row1 : rows,
                                      col0 > 0 ? col0 : 0, col1 < cols ? col1 : cols, skips, &about)
                         : *guess;
    if (fine.row < 0)
        return;
    Worker w = workerOf(s, guess->pose);
    tryPosition(&w, fine.row, fine.col);
}

/* Moves from the best guess to the best position and pose around it, so that less is left to search. */
static void climb(Search *s) {
    for (int step = 0, version = -1; step < POSE_CLIMBS && s->best.pose >= 0 && s->version != version; ++step) {
        version = s->version;
        const PoseBest at = s->best;
        const int scales = s->m->scale_count, angle = at.pose / scales, scale = at.pose % scales;
#pragma omp parallel for schedule(dynamic, 1) num_threads(s->host->threads)
        for (int i = 0; i < POSE_BESIDE; ++i) {
            const int a = angle + (i == 1) - (i == 2), b = scale + (i == 3) - (i == 4), side = 2 * POSE_CLIMB + 1;
            if (a < 0 || b < 0 || a >= s->m->angle_count || b >= scales)
                continue;
            Worker w = workerOf(s, a * scales + b);
            const Pose *const p = &s->m->poses[w.pose];
            int32_t row, col;
            pose_sameCenter(s->m->poses, &at, w.pose, &row, &col);
            for (int k = 0; k < POSE_CLIMB_PLACES; ++k) {
                const int y = row + k / side - POSE_CLIMB, x = col + k % side - POSE_CLIMB;
                if (y >= 0 && x >= 0 && y < pose_positionRows(s->m, p) && x < pose_positionCols(s->m, p))
                    tryPosition(&w, y, x);
            }
        }
    }
}

/* ---- Matches ------------------------------------------------------------------------------------------------------------- */

/* Rows of cells of a pose. */
static int rowsOf(const cusPoseMatcher *m, int pose) {
    return (pose_positionRows(m, &m->poses[pose]) + m->level[0].cell - 1) / m->level[0].cell;
}

static void findBest(Search *s) {
    PoseHost *const host = s->host;
    const int poses = pose_count(s->m);
    const int parts = 4 * host->threads / poses + 1;
    s->best = (PoseBest){.n = 1, .pose = -1};
    s->version = 0;
    guessAll(s);
#pragma omp parallel for schedule(dynamic, 1) num_threads(host->threads)
    for (int i = 0; i < (poses < TRIALS ? poses : TRIALS); ++i)
        if (host->guesses[i].row >= 0)
            tryGuess(s, &host->guesses[i]);
    climb(s);
    int64_t rows_of_all = 0;
    for (int i = 0; i < poses; ++i)
        rows_of_all += rowsOf(s->m, i);
    cusi_part(s->progress, 1, rows_of_all);
#pragma omp parallel for schedule(dynamic, 1) num_threads(host->threads)
    for (int i = 0; i < poses * parts; ++i) {
        const int pose = host->guesses[i / parts].pose, part = i % parts;
        const int rows = rowsOf(s->m, pose);
        if (rows > 0)
            searchRows(s, pose, (int)((int64_t)rows * part / parts), (int)((int64_t)rows * (part + 1) / parts));
    }
}

cusStatus pose_host_search(cusPoseMatcher *m, const cusMat *frame, const PoseBest *picks, int count, PoseBest *best) {
    PoseHost *const host = m->state;
    host->frame = frame;
    for (int l = 0; l < m->levels && count == 0; ++l)
        if (m->level[l].rows > 0 && m->level[l].cols > 0)
            pose_fillPlane(&m->level[l], &host->planes[l], frame, host->sums, host->threads);
    Search s = {.m = m,
                .host = host,
                .limit_cost = pose_limitCost(m),
                .picks = pose_picks(m, picks, count),
                .progress = cusi_progress()};
    findBest(&s);
    *best = s.best; /* of a cancelled search, the best so far */
    return cusi_proceed(s.progress);
}

cusStatus pose_host_values(cusPoseMatcher *m, const cusMat *frame, PoseBest *values, int count) {
    PoseHost *const host = m->state;
    host->frame = frame;
    const PoseBest none = {.n = 1, .pose = -1};
#pragma omp parallel for schedule(dynamic, POSE_NEAR) num_threads(host->threads)
    for (int i = 0; i < count; ++i) {
        PoseScratch *const scratch = &host->scratch[cusi_threadNumber()];
        PoseBest *const v = &values[i];
        if (scratch->pose != v->pose)
            pose_load(m, scratch, v->pose);
        pose_exact(m, scratch, v->row, v->col, &none, v);
    }
    return CUS_OK;
}

/* ---- Memory -------------------------------------------------------------------------------------------------------------- */

static int allocatePlanes(const cusPoseMatcher *m, PoseHost *host) {
    int ok = 1;
    for (int l = 0; l < m->levels; ++l) {
        const size_t room = (size_t)m->level[l].rows * m->level[l].step + POSE_PADDING;
        PosePlane *const p = &host->planes[l];
        p->low = calloc(room, sizeof *p->low);
        p->high = m->level[l].cell > 1 ? calloc(room, sizeof *p->high) : NULL;
        ok &= p->low && (p->high || m->level[l].cell == 1);
    }
    return ok;
}

/* The most tests that a pose needs, for each thread. */
static int allocateTests(const cusPoseMatcher *m, PoseHost *host) {
    host->chunks = 1;
    for (int i = 0; i < pose_count(m) * m->levels; ++i) {
        const size_t chunks = (size_t)m->blocks[i].count / POSE_CHUNK + 1;
        host->chunks = chunks > host->chunks ? chunks : host->chunks;
    }
    host->tests = malloc((size_t)host->threads * (size_t)m->levels * host->chunks * sizeof *host->tests);
    return host->tests != NULL;
}

cusStatus pose_host_create(const char *function, cusPoseMatcher *m) {
    PoseHost *const host = calloc(1, sizeof *host);
    CUSI_REQUIRE(host, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    m->state = host;
    CUS_TRY(pose_prepare(function, m, 0));
    host->threads = cusi_maxThreads();
    host->guesses = malloc((size_t)pose_count(m) * sizeof *host->guesses);
    host->sums = malloc((size_t)host->threads * (size_t)m->cols * sizeof *host->sums);
    host->scratch = pose_createScratch(m, host->threads);
    const int ok = host->guesses && host->sums && host->scratch && allocatePlanes(m, host) && allocateTests(m, host);
    CUSI_REQUIRE(ok, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    return CUS_OK;
}

void pose_host_destroy(cusPoseMatcher *m) {
    PoseHost *const host = m->state;
    if (!host)
        return;
    for (int l = 0; l < m->levels; ++l) {
        free(host->planes[l].low);
        free(host->planes[l].high);
    }
    pose_destroyScratch(host->scratch, host->threads);
    free(host->guesses);
    free(host->sums);
    free(host->tests);
    free(host);
}
