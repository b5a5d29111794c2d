/* Searches all poses for the best position: a first guess, then branch and bound. */
#include "check.h"
#include "pose/cpu/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    GUIDES = 32, /* blocks of the first guess; 64 take more time than they save */
    TRIALS = 16, /* guesses whose exact values are computed */
    PROBES = 16, /* one in this many poses */
    BOUND_STEPS = 1,
    TRANSFORM_STEPS = 4 /* progress steps of a row of cells */
};

typedef struct Search {
    const cusPoseMatcher *m;
    PoseHost *host;
    double limit_cost;
    PosePicks picks;
    CusiProgress *progress;
    int version; /* counts changes of best */
    PoseBest best;
    double work; /* estimated time */
    int transformed;
    double credit; /* estimated time that bounds have saved, less what they wasted on poses that were transformed */
} Search;

/* A thread's work on a pose. */
typedef struct Worker {
    Search *search;
    PoseScratch *scratch;
    PoseTest *tests;
    int useful[POSE_LEVELS]; /* whether the tests of a level can rule out anything */
    int pose, version;
    double spent, most; /* estimated times that bounds have taken and may take */
    PoseBest best;      /* the best at `version` */
} Worker;

/* Returns the number of rows of the largest cells. */
static int cellRows(const cusPoseMatcher *m, int pose) {
    const int cell = m->level[0].cell;
    return (pose_positionRows(m, &m->poses[pose]) + cell - 1) / cell;
}

/* ---- Candidates -------------------------------------------------------------------------------------------------- */

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
        w->useful[l] = pose_tests(s->m, w->pose, l, &w->best, s->limit_cost, w->tests + (size_t)l * s->host->chunks);
}

static void offer(Search *s, const PoseBest *value) {
#pragma omp critical(cusi_pose_best)
    if (pose_isBetter(value, &s->best)) {
        s->best = *value;
#pragma omp atomic write
        s->version = s->version + 1;
    }
}

static void addWork(Search *s, double spent) {
    if (isfinite(spent)) {
#pragma omp atomic
        s->work += spent;
    }
}

static double exactCost(const Pose *p) {
    return POSE_PIXEL_COST * (double)p->n + POSE_ROW_COST * p->rows;
}

static void tryPosition(Worker *w, int row, int col) {
    Search *const s = w->search;
    const PoseBest here = {w->best.ssd, w->best.n, w->best.cost, w->pose, row, col};
    if (pose_isPerfect(s->m->options.method, &w->best) && !pose_isBetter(&here, &w->best))
        return; /* could only tie with the best, later */
    if (pose_isSuppressed(&s->picks, w->pose, row, col) || cusi_step(s->progress, 0))
        return;
    if (w->scratch->pose != w->pose)
        pose_load(s->m, w->scratch, w->pose);
    w->spent += exactCost(&s->m->poses[w->pose]);
    PoseBest value;
    if (pose_exact(s->m, w->scratch, row, col, &w->best, &value)) {
        offer(s, &value);
        refresh(w);
    }
}

/* Clears what the level's tests rule out. Returns whether anything is left. */
static int isLeft(Worker *w, int level, int row, int col, int lanes, uint8_t *alive) {
    const PoseTest *const tests = w->tests + (size_t)level * w->search->host->chunks;
    return !w->useful[level] || pose_bound(w->search->m, w->pose, level, tests, row, col, lanes, alive, &w->spent) > 0;
}

/* Searches the cells at finer levels within those neighboring cells that are alive. */
static void searchCells(Worker *w, int level, int row, int col, int lanes, const uint8_t *alive) {
    const cusPoseMatcher *const m = w->search->m;
    const int next = level + 1;
    if (next >= m->levels || next >= POSE_LEVELS) { /* cells are positions */
        for (int i = 0; i < lanes && w->spent <= w->most; ++i)
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
        for (int x = col * ratio; x < right && w->spent <= w->most; x += POSE_GROUP) {
            const int n = right - x < POSE_GROUP ? right - x : POSE_GROUP;
            uint8_t inside[POSE_GROUP];
            int any = 0;
            for (int i = 0; i < n; ++i)
                any |= inside[i] = alive[(x + i) / ratio - col];
            if (any && isLeft(w, next, y, x, n, inside))
                searchCells(w, next, y, x, n, inside);
        }
}

static Worker workerOf(Search *s, int pose) {
    const int thread = cusi_threadNumber();
    Worker w = {.search = s,
                .scratch = &s->host->scratch[thread],
                .tests = s->host->tests + (size_t)thread * (size_t)s->m->levels * s->host->chunks,
                .pose = pose,
                .version = -1,
                .most = INFINITY};
    refresh(&w);
    return w;
}

/* Searches rows first .. last - 1 of cells of a pose, and gives up after `most`. Returns the time taken, or infinity if
 * it gives up at once; all times are estimates. */
static double searchRows(Search *s, int pose, int first, int last, double most) {
    const cusPoseMatcher *const m = s->m;
    const int cell = m->level[0].cell;
    const int cells = (pose_positionCols(m, &m->poses[pose]) + cell - 1) / cell;
    Worker w = workerOf(s, pose);
    w.most = most;
    int useful = 0;
    for (int l = 0; l < m->levels; ++l)
        useful |= w.useful[l];
    if (!useful && exactCost(&m->poses[pose]) * (last - first) * cells * cell * cell > most)
        return INFINITY;
    for (int y = first; y < last; ++y)
        for (int x = 0; x < cells; x += POSE_STRIP) {
            const int lanes = cells - x < POSE_STRIP ? cells - x : POSE_STRIP;
            uint8_t alive[POSE_STRIP];
            for (int i = 0; i < lanes; ++i)
                alive[i] = 1;
            refresh(&w);
            if ((pose_isPerfect(m->options.method, &w.best) && w.best.pose < pose) || cusi_step(s->progress, 0))
                return w.spent;
            if (isLeft(&w, 0, y, x, lanes, alive))
                searchCells(&w, 0, y, x, lanes, alive);
            if (w.spent > w.most)
                return w.spent;
        }
    return w.spent;
}

/* ---- Guesses ----------------------------------------------------------------------------------------------------- */

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

/* Returns the step between rows that guesses use. If cells are single positions, all rows would take as long as
 * transforms. */
static int rowStep(const cusPoseMatcher *m) {
    return m->levels > 1 ? 1 : 3;
}

/* Guesses the best cell of each pose by its first blocks, and sorts the guesses. */
static void guessAll(Search *s) {
    PoseHost *const host = s->host;
    const int cell = s->m->level[0].cell, step = rowStep(s->m);
    cusi_part(s->progress, 0.1, pose_count(s->m));
#pragma omp parallel for schedule(dynamic, 1) num_threads(host->threads)
    for (int i = 0; i < pose_count(s->m); ++i) {
        host->guesses[i] = (PoseGuess){.pose = i, .row = -1};
        if (cusi_step(s->progress, 1))
            continue;
        const Pose *const p = &s->m->poses[i];
        const About about = {s, i, cell};
        const int cols = (pose_positionCols(s->m, p) + cell - 1) / cell;
        const PoseArea all = {0, cellRows(s->m, i), step, 0, cols};
        const int64_t strips = (int64_t)(all.bottom / step) * ((cols + POSE_STRIP - 1) / POSE_STRIP);
        addWork(s, POSE_GUESS_COST * GUIDES * (double)strips);
        host->guesses[i] = pose_guess(s->m, i, 0, all, GUIDES, skips, &about);
    }
    qsort(host->guesses, (size_t)pose_count(s->m), sizeof *host->guesses, byCost);
}

/* Computes the exact value of the best position near a guess. */
static void tryGuess(Search *s, const PoseGuess *guess) {
    const Pose *const p = &s->m->poses[guess->pose];
    const int cell = s->m->level[0].cell, rows = pose_positionRows(s->m, p), cols = pose_positionCols(s->m, p);
    const int reach = cell * rowStep(s->m), row = guess->row * cell, col = guess->col * cell;
    const PoseArea near = {row > reach ? row - reach : 0, row + cell + reach < rows ? row + cell + reach : rows, 1,
                           col > reach ? col - reach : 0, col + cell + reach < cols ? col + cell + reach : cols};
    const About about = {s, guess->pose, 1};
    const PoseGuess fine = pose_guess(s->m, guess->pose, s->m->levels - 1, near, POSE_GUIDES, skips, &about);
    if (fine.row < 0)
        return;
    Worker w = workerOf(s, guess->pose);
    tryPosition(&w, fine.row, fine.col);
    addWork(s, w.spent);
}

/* Moves from the best guess to the best position and pose around it, which leaves less to search. */
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
            addWork(s, w.spent);
        }
    }
}

/* ---- Matches ----------------------------------------------------------------------------------------------------- */

/* Returns whether the best position of a pose is known, and offers it. */
static int isKnown(Search *s, int pose) {
    const PoseBest *const known = &s->host->known[pose];
    if (known->n == 0 || (known->pose >= 0 && pose_isSuppressed(&s->picks, pose, known->row, known->col)))
        return 0;
    if (known->pose >= 0)
        offer(s, known);
    return 1;
}

/* Transforms a pose, or searches it completely if there is no memory for that. */
static void transform(Search *s, int pose) {
    PoseHost *const host = s->host;
    PoseBest *const known = &host->known[pose];
    addWork(s, pose_transformCost(s->m, pose));
    if (!pose_bestByTransforms(s->m, &host->scratch[cusi_threadNumber()], pose, &s->picks, s->progress, known))
        searchRows(s, pose, 0, cellRows(s->m, pose), INFINITY);
    else if (known->pose >= 0)
        offer(s, known);
    if (known->n > 0) {
#pragma omp atomic
        s->transformed += 1;
    }
}

/* Transforms the pose if bounds did not finish it. */
static void finish(Search *s, int pose) {
    if (s->host->left[pose] && !cusi_step(s->progress, 0))
        transform(s, pose);
    cusi_step(s->progress, TRANSFORM_STEPS * cellRows(s->m, pose));
}

/* Returns the share of a pose's transform time that bounds may take. It is smaller if bounds have not paid, except for
 * some probes, which may show that they pay again. */
static double shareOf(Search *s, int nth) {
    double credit;
#pragma omp atomic read
    credit = s->credit;
    return credit > 0 || nth % PROBES == 0 ? POSE_BOUND_SHARE : POSE_BOUND_SHARE / 8;
}

/* Searches part `part` of `parts` of pose `nth`, in the order of guesses. */
static void searchPart(Search *s, int nth, int part, int parts) {
    PoseHost *const host = s->host;
    const int pose = host->guesses[nth].pose, rows = cellRows(s->m, pose);
    const int first = (int)((int64_t)rows * part / parts), last = (int)((int64_t)rows * (part + 1) / parts);
    if (rows > 0 && !isKnown(s, pose)) {
        const double cost = pose_transformCost(s->m, pose) / parts, most = shareOf(s, nth) * cost;
        const double spent = searchRows(s, pose, first, last, most);
        addWork(s, spent);
        if (spent > most) {
#pragma omp atomic write
            host->left[pose] = 1;
        }
        if (isfinite(cost) && isfinite(spent)) {
#pragma omp atomic
            s->credit += spent > most ? 0 - spent : cost - spent;
        }
    }
    cusi_step(s->progress, BOUND_STEPS * (last - first));
    if (parts == 1 && !pose_sharesTransforms(host->transforms))
        finish(s, pose);
}

static void findBest(Search *s, PoseBest *seen) {
    PoseHost *const host = s->host;
    const int poses = pose_count(s->m), shared = pose_sharesTransforms(host->transforms);
    s->best = (PoseBest){.n = 1, .pose = -1};
    s->version = 0;
    s->credit = poses > 0 ? TRIALS * POSE_BOUND_SHARE * pose_transformCost(s->m, 0) : 0;
    guessAll(s);
#pragma omp parallel for schedule(dynamic, 1) num_threads(host->threads)
    for (int i = 0; i < (poses < TRIALS ? poses : TRIALS); ++i)
        if (host->guesses[i].row >= 0)
            tryGuess(s, &host->guesses[i]);
    climb(s);
    *seen = s->best;
    memset(host->left, 0, (size_t)poses);
    int64_t rows = 0;
    for (int i = 0; i < poses; ++i)
        rows += cellRows(s->m, i);
    cusi_part(s->progress, 1, rows * (BOUND_STEPS + TRANSFORM_STEPS));
    /* batches grow, so that transformed poses help to rule out later ones */
    for (int first = 0, count = shared ? host->threads : poses; first < poses; first += count, count *= 2) {
        count = count < poses - first ? count : poses - first;
        const int parts = shared ? 4 * host->threads / count + 1 : 1;
#pragma omp parallel for schedule(dynamic, 1) num_threads(host->threads)
        for (int i = 0; i < count * parts; ++i)
            searchPart(s, first + i / parts, i % parts, parts);
        for (int i = first; shared && i < first + count; ++i)
            finish(s, host->guesses[i].pose);
    }
}

cusStatus pose_host_search(cusPoseMatcher *m, const cusMat *frame, const PoseBest *picks, int count, PoseBest *best) {
    PoseHost *const host = m->state;
    host->frame = frame;
    for (int l = 0; l < m->levels && count == 0; ++l)
        if (m->level[l].rows > 0 && m->level[l].cols > 0)
            pose_fillPlane(&m->level[l], &host->planes[l], frame, host->sums, host->threads);
    if (count == 0) {
        host->work = 0;
        m->transformed = 0;
        memset(host->known, 0, (size_t)pose_count(m) * sizeof *host->known);
    }
    Search s = {.m = m,
                .host = host,
                .limit_cost = pose_limitCost(m),
                .picks = pose_picks(m, picks, count),
                .progress = cusi_progress()};
    PoseBest seen;
    findBest(&s, &seen);
    if (count == 0)
        m->seen = seen;
    host->work += s.work;
    m->transformed += s.transformed;
    *best = s.best; /* after a cancel, the best so far */
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

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

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

/* Allocates for each thread as many tests as a pose can need. */
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
    host->known = malloc((size_t)pose_count(m) * sizeof *host->known);
    host->left = malloc((size_t)pose_count(m));
    host->transforms = pose_createTransforms(m, host->threads);
    const int ok = host->guesses && host->sums && host->scratch && host->known && host->left && allocatePlanes(m, host) &&
                   allocateTests(m, host);
    CUSI_REQUIRE(ok, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    return CUS_OK;
}

void pose_host_end(cusPoseMatcher *m) {
    pose_endFrame(((PoseHost *)m->state)->transforms);
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
    free(host->known);
    free(host->left);
    pose_destroyTransforms(host->transforms);
    free(host);
}
