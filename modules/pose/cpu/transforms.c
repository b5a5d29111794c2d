/* Computes all positions of a pose at once by Fourier transforms in double. Sums of pixels are integers, and transforms
 * round far less than one half (docs/internals/pose.md), so rounding to the nearest integer gives exact sums. */
#include "host.h"
#include "pose/cpu/state.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENT = sizeof(double), SUMS = 3 };
/* Most bytes for all threads, if each has poses of its own. */
#define MAX_BYTES ((size_t)1 << 30)
/* More points would take too much memory (64 bytes each), and too long between checks for a cancel. */
#define MAX_POINTS ((size_t)1 << 26)
/* Smaller transforms are not worth a team. */
#define MIN_POINTS ((size_t)1 << 16)

/* Memory for one pose. */
typedef struct Place {
    MatchFft *fft;
    double *templ;      /* spectra of the mask, then of the pixels */
    double *product;    /* one spectrum */
    double *costs;      /* costs of a row of positions, for each thread of the team; they follow product */
    double *sums[SUMS]; /* planes of sums over each window: I T (SQDIFF: I^2 - 2 I T), I^2 and I */
} Place;

struct PoseTransforms {
    const MatchFftKernels *kernels;
    int rows, cols; /* size of the transforms */
    int team;       /* threads that share a pose; 1: each thread has its own */
    int count;      /* number of places */
    int is_filled;  /* whether `frame` has the current frame's spectra */
    pthread_mutex_t filling;
    MatchFft *fft; /* transforms the frame */
    double *frame; /* scaled spectra of I^2, then of I (SQDIFF: -2 I) */
    size_t spectrum;
    Place *places; /* created when first needed */
};

static size_t points(const PoseTransforms *t) {
    return (size_t)t->rows * (size_t)t->cols;
}

/* ---- Costs ------------------------------------------------------------------------------------------------------- */

/* Returns the number of planes that are transformed back. */
static int planesOf(cusMatchMethod method) {
    return method == CUS_MATCH_SQDIFF ? 1 : method == CUS_MATCH_CCOEFF_NORMED ? 3 : 2;
}

double pose_transformCost(const cusPoseMatcher *m, int pose) {
    const PoseTransforms *const t = ((const PoseHost *)m->state)->transforms;
    const Pose *const p = &m->poses[pose];
    if (!t)
        return INFINITY;
    const double each = POSE_TRANSFORM_COST * log2((double)points(t)) * (double)points(t);
    return each * (2 + planesOf(m->options.method)) +
           POSE_SCORE_COST * (double)pose_positionRows(m, p) * (double)pose_positionCols(m, p);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Returns whether rounding stays below one half. Sums are of products of numbers up to 255; SQDIFF adds I^2 and twice I
 * T. */
static int isExact(const cusPoseMatcher *m, double all) {
    double n = 0;
    for (int i = 0; i < pose_count(m); ++i)
        n = (double)m->poses[i].n > n ? (double)m->poses[i].n : n;
    const double norms = 255.0 * 255.0 * sqrt((double)m->rows * m->cols) * sqrt(n);
    return match_fft64_correlationUnits(all) * 0x1p-53 * 3 * norms < 0.25;
}

PoseTransforms *pose_createTransforms(const cusPoseMatcher *m, int threads) {
    const int rows = match_fft_goodSize(m->rows), cols = match_fft_goodSize(m->cols);
    const size_t all = (size_t)rows * (size_t)cols;
    PoseTransforms *const t = all <= MAX_POINTS && isExact(m, (double)all) ? calloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    const int few = pose_count(m) < 4 * threads && all >= MIN_POINTS;
    const int share = few || 6 * ELEMENT * all * (size_t)threads > MAX_BYTES;
    *t = (PoseTransforms){.kernels = match_fft_kernels(ELEMENT, 0),
                          .rows = rows,
                          .cols = cols,
                          .team = share ? threads : 1,
                          .count = share ? 1 : threads};
    pthread_mutex_init(&t->filling, NULL);
    return t;
}

int pose_sharesTransforms(const PoseTransforms *t) {
    return !t || t->count == 1;
}

static void releasePlace(Place *p) {
    match_fft_destroy(p->fft);
    free(p->templ);
    free(p->product);
    for (int i = 0; i < SUMS; ++i)
        free(p->sums[i]);
    memset(p, 0, sizeof *p);
}

void pose_destroyTransforms(PoseTransforms *t) {
    pose_endFrame(t);
    if (t)
        pthread_mutex_destroy(&t->filling);
    free(t);
}

static int makePlace(const PoseTransforms *t, int planes, Place *p) {
    if (p->fft)
        return 1;
    p->fft = match_fft_createFor(t->kernels, t->rows, t->cols, t->rows, t->rows, t->team);
    p->templ = cusi_hostAllocate(2 * t->spectrum * ELEMENT);
    p->product = cusi_hostAllocate((t->spectrum + (size_t)t->team * (size_t)t->cols) * ELEMENT);
    int ok = p->fft && p->templ && p->product;
    p->costs = ok ? p->product + t->spectrum : NULL;
    for (int i = 0; i < planes; ++i)
        ok &= (p->sums[i] = cusi_hostAllocate(points(t) * ELEMENT)) != NULL;
    if (!ok)
        releasePlace(p);
    return ok;
}

/* ---- The frame --------------------------------------------------------------------------------------------------- */

static int allocateFrame(const cusPoseMatcher *m, PoseTransforms *t) {
    if (!t->places)
        t->places = calloc((size_t)t->count, sizeof *t->places);
    if (!t->fft)
        t->fft = match_fft_createFor(t->kernels, t->rows, t->cols, m->rows, m->rows, t->team);
    if (t->fft && !t->frame) {
        t->spectrum = match_fft_spectrumSize(t->fft);
        t->frame = cusi_hostAllocate(2 * t->spectrum * ELEMENT);
    }
    return t->places && t->frame;
}

/* Computes the spectra of the frame. */
static int fillFrame(const cusPoseMatcher *m, PoseTransforms *t) {
    if (t->is_filled)
        return 1;
    double *const plane = allocateFrame(m, t) ? cusi_hostAllocate(points(t) * ELEMENT) : NULL;
    if (!plane)
        return 0;
    const cusMat *const frame = ((const PoseHost *)m->state)->frame;
    const double scale = 1 / (double)points(t);
    for (int k = 0; k < 2; ++k) {
        memset(plane, 0, points(t) * ELEMENT);
        for (int y = 0; y < m->rows; ++y) {
            const uint8_t *const from = (const uint8_t *)frame->data + (size_t)y * frame->step;
            double *const to = plane + (size_t)y * (size_t)t->cols;
            for (int x = 0; x < m->cols; ++x)
                to[x] = k == 0 ? from[x] * from[x] : from[x];
        }
        double *const spectrum = t->frame + (size_t)k * t->spectrum;
        const double factor = k == 1 && m->options.method == CUS_MATCH_SQDIFF ? -2 * scale : scale;
        match_fft_forward(t->fft, plane, spectrum);
        for (size_t i = 0; i < t->spectrum; ++i)
            spectrum[i] *= factor;
    }
    free(plane);
    return t->is_filled = 1;
}

void pose_endFrame(PoseTransforms *t) {
    for (int i = 0; t && t->places && i < t->count; ++i)
        releasePlace(&t->places[i]);
    if (!t)
        return;
    free(t->places);
    match_fft_destroy(t->fft);
    free(t->frame);
    t->places = NULL;
    t->fft = NULL;
    t->frame = NULL;
    t->is_filled = 0;
}

/* ---- Poses ------------------------------------------------------------------------------------------------------- */

/* Computes the spectrum of a pose's pixels, or of its mask of 0 and 255. */
static void transformWindow(const Pose *p, const Place *place, const uint8_t *from, double factor, double *spectrum) {
    const size_t cols = (size_t)place->fft->cols;
    double *const plane = place->sums[0];
    memset(plane, 0, (size_t)p->rows * cols * ELEMENT);
    for (int y = 0; y < p->rows; ++y)
        for (int x = 0; x < p->cols; ++x)
            plane[(size_t)y * cols + (size_t)x] = factor * from[(size_t)y * (size_t)p->cols + (size_t)x];
    match_fft_forward(place->fft, plane, spectrum);
}

/* Returns the nearest integer, 0 to 2^52. */
static inline uint64_t rounded(double v) {
    return (uint64_t)(int64_t)(v + 0.5);
}

/* Computes the costs of a row of positions; for SQDIFF, n times the score. at: index of the row in the planes of sums. */
CUSI_MULTIVERSION
static void rowCosts(cusMatchMethod method, const Pose *p, double *const *sums, size_t at, int cols,
                     double *restrict costs) {
    /* planes that the method lacks are not read */
    const double *const c = sums[0] + at, *const s2 = (sums[1] ? sums[1] : sums[0]) + at,
                        *const s1 = (sums[2] ? sums[2] : sums[0]) + at;
    const uint64_t n = (uint64_t)p->n, t1 = (uint64_t)p->t1, flat = n * (uint64_t)p->t2 - t1 * t1;
    if (method == CUS_MATCH_SQDIFF)
        for (int x = 0; x < cols; ++x)
            costs[x] = (double)rounded(c[x] + (double)p->t2);
    else if (method == CUS_MATCH_CCOEFF_NORMED && flat > 0)
        for (int x = 0; x < cols; ++x) { /* pose_normed() without branches: without energy a window has no covariance */
            const uint64_t i1 = rounded(s1[x]), energy = n * rounded(s2[x]) - i1 * i1;
            const double product = (double)energy * (double)flat;
            const double score = (double)(int64_t)(n * rounded(c[x]) - i1 * t1) / sqrt(product > 0 ? product : 1);
            costs[x] = score > 1 ? -1 : score < -1 ? 1 : 0 - score;
        }
    else
        for (int x = 0; x < cols; ++x)
            costs[x] = pose_normed(method, p, 0, rounded(s2[x]), rounded(c[x]));
}

CUSI_MULTIVERSION
static double least(const double *costs, int cols) {
    double low = INFINITY;
    for (int x = 0; x < cols; ++x)
        low = costs[x] < low ? costs[x] : low;
    return low;
}

/* Returns the first best position, in some rows, that is not near a match. */
static PoseBest bestOfRows(const cusPoseMatcher *m, const PosePicks *picks, int pose, const Place *place, int first,
                           int last, double *costs) {
    const Pose *const p = &m->poses[pose];
    const int cols = pose_positionCols(m, p), differs = m->options.method == CUS_MATCH_SQDIFF;
    PoseBest best = {.n = 1, .pose = -1};
    double low = INFINITY;
    for (int y = first; y < last; ++y) {
        rowCosts(m->options.method, p, place->sums, (size_t)y * (size_t)place->fft->cols, cols, costs);
        if (!(least(costs, cols) < low))
            continue;
        for (int x = 0; x < cols; ++x)
            if (costs[x] < low && !pose_isSuppressed(picks, pose, y, x)) {
                low = costs[x];
                best = (PoseBest){differs ? (uint64_t)low : 0, differs ? (uint64_t)p->n : 1, differs ? 0 : low, pose, y, x};
            }
    }
    return best;
}

static PoseBest bestPosition(const cusPoseMatcher *m, const PosePicks *picks, int pose, const Place *place, int team) {
    const int rows = pose_positionRows(m, &m->poses[pose]);
    PoseBest best = {.n = 1, .pose = -1};
#pragma omp parallel for schedule(static, 1) num_threads(team) if (team > 1)
    for (int i = 0; i < team; ++i) {
        const int first = (int)((int64_t)rows * i / team), last = (int)((int64_t)rows * (i + 1) / team);
        const PoseBest own =
            bestOfRows(m, picks, pose, place, first, last, place->costs + (size_t)i * (size_t)place->fft->cols);
#pragma omp critical(cusi_pose_rows)
        if (own.pose >= 0 && pose_isBetter(&own, &best))
            best = own;
    }
    return best;
}

int pose_bestByTransforms(const cusPoseMatcher *m, PoseScratch *s, int pose, const PosePicks *picks, CusiProgress *progress,
                          PoseBest *best) {
    PoseTransforms *const t = ((const PoseHost *)m->state)->transforms;
    const Pose *const p = &m->poses[pose];
    const cusMatchMethod method = m->options.method;
    *best = (PoseBest){.n = 1, .pose = -1};
    int ok = t != NULL;
    if (ok) { /* not `critical`: transforms call the callback, which may itself search */
        pthread_mutex_lock(&t->filling);
        ok = fillFrame(m, t);
        pthread_mutex_unlock(&t->filling);
    }
    Place *const place = ok ? &t->places[t->count > 1 ? cusi_threadNumber() : 0] : NULL;
    if (!ok || !makePlace(t, planesOf(method), place)) {
        best->n = 0;
        return 0;
    }
    if (s->pose != pose)
        pose_load(m, s, pose);
    place->fft->filled = p->rows;
    place->fft->wanted = pose_positionRows(m, p);
    double *const mask = place->templ, *const pixels = place->templ + t->spectrum;
    transformWindow(p, place, s->mask, 1 / 255.0, mask);
    transformWindow(p, place, s->pixels, 1, pixels);
    const double *const squares = t->frame, *const image = t->frame + t->spectrum;
    const double *const factors[SUMS][2] = {
        {method == CUS_MATCH_SQDIFF ? squares : image, method == CUS_MATCH_SQDIFF ? mask : pixels},
        {squares, mask},
        {image, mask}};
    for (int i = 0; i < planesOf(method) && !cusi_step(progress, 0); ++i)
        match_fft_correlateAll(place->fft, factors[i][0], factors[i][1], method == CUS_MATCH_SQDIFF ? 2 : 1, place->product,
                               place->sums[i]);
    if (!cusi_step(progress, 0))
        *best = bestPosition(m, picks, pose, place, t->team);
    return 1;
}
