/* The search for the best position of all poses: a first guess, then branch and bound. */
#include "pose/cpu/state.h"

#include <math.h>
#include <stdlib.h>

enum { TRIALS = 16 }; /* guesses that are computed */

typedef struct Search {
    const cusPoseMatcher *m;
    PoseHost *host;
    double limit_cost;
    int picked;
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

/* ---- Suppression --------------------------------------------------------------------------------------------------------- */

static int isSuppressed(const Search *s, int pose, int row, int col) {
    const cusPoseMatcher *const m = s->m;
    const Pose *const p = &m->poses[pose];
    const int64_t reach = 2 * (int64_t)m->options.min_distance;
    for (int i = 0; i < s->picked; ++i) {
        const PoseBest *const pick = &s->host->picks[i];
        const Pose *const q = &m->poses[pick->pose];
        const int64_t dx =
            pose_center(col, p->left, p->transform.cols) - pose_center(pick->col, q->left, q->transform.cols);
        const int64_t dy = pose_center(row, p->top, p->transform.rows) - pose_center(pick->row, q->top, q->transform.rows);
        if (dx < reach && -dx < reach && dy < reach && -dy < reach &&
            pose_angleBetween(m->angles[pose / m->scale_count], m->angles[pick->pose / m->scale_count]) <
                m->options.min_angle)
            return 1;
    }
    return 0;
}

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
    for (int l = 0; l < s->host->levels; ++l)
        pose_tests(s->m, w->pose, l, &w->best, s->limit_cost, w->tests + (size_t)l * s->host->chunks);
}

static void offer(Search *s, const PoseBest *value) {
    const double score = pose_score(s->m, value);
    const int smallest = s->m->options.method == CUS_MATCH_SQDIFF || s->m->options.method == CUS_MATCH_SQDIFF_NORMED;
    if ((smallest ? score : -score) > s->limit_cost)
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
    if (pose_isPerfect(s->m, &w->best) && !pose_isBetter(&here, &w->best))
        return; /* at best a later tie */
    if (isSuppressed(s, w->pose, row, col))
        return;
    if (w->scratch->pose != w->pose)
        pose_load(s->m, w->scratch, w->pose);
    PoseBest value;
    if (pose_exact(s->m, w->scratch, row, col, &w->best, &value)) {
        offer(s, &value);
        refresh(w);
    }
}

/* All positions of a cell that the finer levels leave. */
static void searchCell(Worker *w, int row, int col) {
    const Search *const s = w->search;
    const Pose *const p = &s->m->poses[w->pose];
    const int cell = s->host->planes[0].cell, rows = pose_positionRows(s->m, p), cols = pose_positionCols(s->m, p);
    const int lanes = cols - col * cell < cell ? cols - col * cell : cell;
    for (int y = row * cell; y < (row + 1) * cell && y < rows; ++y) {
        uint8_t alive[POSE_STRIP];
        int left = lanes;
        for (int i = 0; i < lanes; ++i)
            alive[i] = 1;
        for (int l = 1; l < s->host->levels && left > 0; ++l)
            left = pose_bound(s->m, w->pose, l, w->tests + (size_t)l * s->host->chunks, y, col * cell, lanes, alive);
        for (int i = 0; i < lanes && left > 0; ++i)
            if (alive[i])
                tryPosition(w, y, col * cell + i);
    }
}

static Worker workerOf(Search *s, int pose) {
    const int thread = cusi_threadNumber();
    Worker w = {.search = s,
                .scratch = &s->host->scratch[thread],
                .tests = s->host->tests + (size_t)thread * (size_t)s->host->levels * s->host->chunks,
                .pose = pose,
                .version = -1};
    refresh(&w);
    return w;
}

/* Rows of cells first..last - 1 of a pose. */
static void searchRows(Search *s, int pose, int first, int last) {
    const int cell = s->host->planes[0].cell;
    const int cells = (pose_positionCols(s->m, &s->m->poses[pose]) + cell - 1) / cell;
    Worker w = workerOf(s, pose);
    for (int y = first; y < last; ++y)
        for (int x = 0; x < cells; x += POSE_STRIP) {
            const int lanes = cells - x < POSE_STRIP ? cells - x : POSE_STRIP;
            uint8_t alive[POSE_STRIP];
            for (int i = 0; i < lanes; ++i)
                alive[i] = 1;
            refresh(&w);
            if (pose_isPerfect(s->m, &w.best) && w.best.pose < pose)
                return;
            if (pose_bound(s->m, pose, 0, w.tests, y, x, lanes, alive) > 0)
                for (int i = 0; i < lanes; ++i)
                    if (alive[i])
                        searchCell(&w, y, x + i);
        }
}

/* ---- Guesses ------------------------------------------------------------------------------------------------------------- */

typedef struct About {
    const Search *search;
    int pose, cell;
} About;

static int skips(const void *about, int row, int col) {
    const About *const a = about;
    return isSuppressed(a->search, a->pose, row * a->cell, col * a->cell);
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
    const int cell = host->planes[0].cell;
#pragma omp parallel for schedule(dynamic, 1) num_threads(host->threads)
    for (int i = 0; i < pose_count(s->m); ++i) {
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
    const int cell = s->host->planes[0].cell, rows = pose_positionRows(s->m, p), cols = pose_positionCols(s->m, p);
    const int row0 = guess->row * cell - cell, col0 = guess->col * cell - cell;
    const int row1 = row0 + 3 * cell, col1 = col0 + 3 * cell;
    const About about = {s, guess->pose, 1};
    const PoseGuess fine = s->host->levels > 1
                               ? pose_guess(s->m, guess->pose, 1, row0 > 0 ? row0 : 0, row1 < rows ? row1 : rows,
                                            col0 > 0 ? col0 : 0, col1 < cols ? col1 : cols, skips, &about)
                               : *guess;
    if (fine.row < 0)
        return;
    Worker w = workerOf(s, guess->pose);
    tryPosition(&w, fine.row, fine.col);
}

/* ---- Matches ------------------------------------------------------------------------------------------------------------- */

static void findBest(Search *s) {
    PoseHost *const host = s->host;
    const int poses = pose_count(s->m), cell = host->planes[0].cell;
    const int parts = 4 * host->threads / poses + 1;
    s->best = (PoseBest){.n = 1, .pose = -1};
    s->version = 0;
    guessAll(s);
#pragma omp parallel for schedule(dynamic, 1) num_threads(host->threads)
    for (int i = 0; i < (poses < TRIALS ? poses : TRIALS); ++i)
        if (host->guesses[i].row >= 0)
            tryGuess(s, &host->guesses[i]);
#pragma omp parallel for schedule(dynamic, 1) num_threads(host->threads)
    for (int i = 0; i < poses * parts; ++i) {
        const int pose = host->guesses[i / parts].pose, part = i % parts;
        const int rows = (pose_positionRows(s->m, &s->m->poses[pose]) + cell - 1) / cell;
        if (rows > 0)
            searchRows(s, pose, (int)((int64_t)rows * part / parts), (int)((int64_t)rows * (part + 1) / parts));
    }
}

static cusPoseMatch matchOf(const cusPoseMatcher *m, const PoseBest *b) {
    const Pose *const p = &m->poses[b->pose];
    const int angle = b->pose / m->scale_count, scale = b->pose % m->scale_count;
    return (cusPoseMatch){.x = (double)pose_center(b->col, p->left, p->transform.cols) / 2,
                          .y = (double)pose_center(b->row, p->top, p->transform.rows) / 2,
                          .angle = m->angles[angle],
                          .scale = m->scales[scale],
                          .score = pose_score(m, b),
                          .col = b->col,
                          .row = b->row,
                          .angle_index = angle,
                          .scale_index = scale,
                          .pixels = (int32_t)p->n};
}

void pose_host_run(cusPoseMatcher *m, const cusMat *frame) {
    PoseHost *const host = m->state;
    host->frame = frame;
    for (int l = 0; l < host->levels; ++l)
        if (host->planes[l].rows > 0 && host->planes[l].cols > 0)
            pose_fillPlane(&host->planes[l], frame, host->sums, host->threads);
    const int smallest = m->options.method == CUS_MATCH_SQDIFF || m->options.method == CUS_MATCH_SQDIFF_NORMED;
    const double limit = smallest ? m->options.score_limit : -m->options.score_limit;
    Search s = {.m = m, .host = host, .limit_cost = isnan(limit) ? INFINITY : limit};
    m->found = 0;
    while (m->found < m->options.max_matches) {
        findBest(&s);
        if (s.best.pose < 0)
            break;
        host->picks[s.picked++] = s.best;
        m->matches[m->found++] = matchOf(m, &s.best);
    }
}

cusStatus pose_host_scores(cusPoseMatcher *m, const PosePlace *places, int count, double *scores) {
    const PoseHost *const host = m->state;
    const PoseBest none = {.n = 1, .pose = -1};
#pragma omp parallel for schedule(dynamic, 9) num_threads(host->threads) /* refine.c asks for 9 positions of a pose */
    for (int i = 0; i < count; ++i) {
        PoseScratch *const s = &host->scratch[cusi_threadNumber()];
        if (s->pose != places[i].pose)
            pose_load(m, s, places[i].pose);
        PoseBest value;
        pose_exact(m, s, places[i].row, places[i].col, &none, &value);
        scores[i] = pose_score(m, &value);
    }
    return CUS_OK;
}
