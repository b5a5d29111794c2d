/* match on the CPU: exact scores of whole blocks of the score map, where more positions may be the best than one would compute
 * window by window. Of integer pixels (8-bit ones, or floats that are integers) correlations are integers, and a transform in
 * double is off by far less than 0.5, so rounding makes them exact; the direct algorithm's are exact as they are. Other 32F images:
 * ranges become narrow. */
#include "check.h"
#include "host.h"
#include "match_host.h"

#include <string.h>

/* Measured: docs/internals/match-host.md. Nanoseconds of one point and level of a transform, of what threads lose that share one, of
 * scoring one position, and of one pixel and one row of a window that is computed alone. */
#define TUNING_FFT64_NS  0.16
#define TUNING_SHARED    1.1
#define TUNING_STAGE_NS  1e4
#define TUNING_SCORE_NS  12
#define TUNING_SQUARE_NS 0.1
#define TUNING_BYTE_NS   0.3
#define TUNING_FLOAT_NS  1.6
#define TUNING_ROW_NS    8
/* Of the plans that cost at most so many times as much as the best, the one with the smallest transforms: less memory. */
#define TUNING_SMALLEST 1.15
enum { TUNING_MAX_SPLIT = 16 };

/* ---- Choice of blocks --------------------------------------------------------------------------------------------------- */

/* Of 8-bit correlations, at most. */
static double largestError(const MatchModel *m, const MatchTemplate *sums, double units, double pixels) {
    double most = 0;
    for (int k = 0; k < m->count; ++k) {
        double error = 0;
        for (int p = 0; p < m->planes; ++p)
            error += units * sqrt(pixels) * (p < m->channels ? 255 : 3 * 65025.0) * sums[k].norm[p];
        most = error > most ? error : most;
    }
    return most;
}

static double windowCost(const MatchModel *m) {
    const double pixel = !m->integer                                  ? TUNING_FLOAT_NS
                         : m->masked || m->method == CUS_MATCH_SQDIFF ? TUNING_SQUARE_NS
                                                                      : TUNING_BYTE_NS;
    return m->h * TUNING_ROW_NS + pixel * m->n * m->channels;
}

static ExactPlan planDirect(const MatchModel *m, int rows, double direct_ns) {
    ExactPlan plan = {.block_rows = rows, .block_cols = m->ocols, .block_ns = INFINITY};
    if (!m->masked)
        plan.block_ns = (double)rows * m->ocols * (direct_ns * m->n * m->channels + TUNING_SCORE_NS);
    return plan;
}

/* Cuts the score map into ny x nx blocks; *total_ns: of all of them. 0 if their transforms are too large or not exact. */
static int planBlocks(const MatchModel *m, const MatchTemplate *sums, int ny, int nx, ExactPlan *plan, double *total_ns) {
    *plan = (ExactPlan){.block_rows = (m->orows + ny - 1) / ny, .block_cols = (m->ocols + nx - 1) / nx};
    if (nx > 1)
        plan->block_cols = (plan->block_cols + MATCH_TILE - 1) / MATCH_TILE * MATCH_TILE;
    const double rows = (double)plan->block_rows + m->h - 1, cols = (double)plan->block_cols + m->w - 1;
    if (rows * cols > 1 << 27)
        return 0;
    plan->fft_rows = match_fft_goodSize((int)rows), plan->fft_cols = match_fft_goodSize((int)cols);
    const double points = (double)plan->fft_rows * plan->fft_cols, threads = cusi_maxThreads();
    plan->units = match_fft64_correlationUnits(points) * 0x1p-53;
    if (m->integer && !(largestError(m, sums, plan->units, rows * cols) < 0.25))
        return 0;
    const double transforms = TUNING_FFT64_NS * (m->planes + 1) * points * log2(points);
    const double score = TUNING_SCORE_NS * (double)plan->block_rows * plan->block_cols;
    plan->block_ns = TUNING_SHARED * (transforms + score) + threads * TUNING_STAGE_NS * (3 * m->planes + 4);
    *total_ns = (double)ny * nx * plan->block_ns;
    return 1;
}

static ExactPlan planFft(const MatchModel *m, const MatchTemplate *sums) {
    ExactPlan best = {.block_rows = m->orows, .block_cols = m->ocols, .block_ns = INFINITY};
    double limit = INFINITY, smallest = INFINITY;
    /* First finds the least cost, then the smallest transforms that cost little more. */
    for (int round = 0; round < 2; ++round, limit *= TUNING_SMALLEST)
        for (int ny = 1; ny <= TUNING_MAX_SPLIT && ny <= m->orows; ++ny)
            for (int nx = 1; nx <= TUNING_MAX_SPLIT && (nx == 1 || nx * MATCH_TILE <= m->ocols); ++nx) {
                ExactPlan plan;
                double total_ns;
                if (!planBlocks(m, sums, ny, nx, &plan, &total_ns))
                    continue;
                const double points = (double)plan.fft_rows * plan.fft_cols;
                if (round == 0) {
                    limit = total_ns < limit ? total_ns : limit;
                } else if (total_ns <= limit && points < smallest) {
                    smallest = points;
                    best = plan;
                }
            }
    return best;
}

ExactPlan match_planExact(const MatchModel *m, int fft, const MatchTemplate *sums, int direct_rows, double direct_ns) {
    ExactPlan plan = fft ? planFft(m, sums) : planDirect(m, direct_rows, direct_ns);
    plan.down = (m->orows + plan.block_rows - 1) / plan.block_rows;
    plan.across = (m->ocols + plan.block_cols - 1) / plan.block_cols;
    plan.window_ns = windowCost(m);
    return plan;
}

/* ---- Transforms --------------------------------------------------------------------------------------------------------- */

static size_t spectrumSize(const MatchHost *host) {
    return match_fft64_panels(host->fft64) * match_fft64_panelSize(host->fft64);
}

void match_loadExact(const MatchModel *m, MatchHost *host, int k) {
    if (!host->fft64 || host->loaded64 == k)
        return;
    const size_t w = (size_t)m->w, h = (size_t)m->h, step = (size_t)host->exact.fft_cols;
    const size_t spectrum = spectrumSize(host);
    const char *pixels = host->templates + (size_t)k * host->template_bytes;
    const double scale = 1 / ((double)host->exact.fft_rows * host->exact.fft_cols);
    for (int p = 0; p < m->planes; ++p) {
        memset(host->plane64, 0, (size_t)host->fft64->filled * step * sizeof(double));
        for (size_t y = 0; y < h; ++y)
            for (size_t x = 0; x < w; ++x)
                host->plane64[y * step + x] = match_templatePlane(m, host, pixels, p, y * w + x);
        double *out = host->spectra64 + (size_t)p * spectrum;
        match_fft64_forward(host->fft64, host->plane64, out);
        for (size_t i = 0; i < spectrum; ++i)
            out[i] *= scale;
    }
    host->loaded64 = k;
}

CUSI_MULTIVERSION
static void shiftBytes(const uint8_t *row, size_t n, size_t stride, double shift, double *out) {
    for (size_t x = 0; x < n; ++x)
        out[x] = row[x * stride] - shift;
}

/* Row y of plane p of the frame under the block, shifted and padded with zeros. */
static void loadRow(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block, int p, size_t y,
                    double *out) {
    const size_t cols = y < block->rows + (size_t)m->h - 1 ? block->cols + (size_t)m->w - 1 : 0;
    memset(out + cols, 0, ((size_t)host->exact.fft_cols - cols) * sizeof *out);
    if (cols == 0)
        return;
    const char *row = match_row(frame, block->y + y) + block->x * cusTypeSize(frame->type);
    if (p == m->channels)
        for (size_t x = 0; x < cols; ++x)
            out[x] = match_squarePlane(m, row, x);
    else if (m->integer)
        shiftBytes((const uint8_t *)row + p, cols, (size_t)m->channels, m->shift[p], out);
    else
        for (size_t x = 0; x < cols; ++x)
            out[x] = ((const float *)row)[x] - m->shift[p];
}

/* host->plane64 becomes the block's correlation with the loaded template. */
static void correlateBlock(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block) {
    const int team = host->exact_worker.team;
    (void)team; /* without OpenMP */
    for (int p = 0; p < m->planes; ++p) {
#pragma omp parallel for schedule(static) num_threads(team) if (team > 1)
        for (int y = 0; y < host->fft64->filled; ++y)
            loadRow(m, host, frame, block, p, (size_t)y, host->plane64 + (size_t)y * (size_t)host->exact.fft_cols);
        match_fft64_forward(host->fft64, host->plane64, host->planes64 + (size_t)p * spectrumSize(host));
    }
    match_fft64_correlateAll(host->fft64, host->planes64, host->spectra64, m->planes, host->planes64, host->plane64);
}

/* ---- Scores ------------------------------------------------------------------------------------------------------------- */

/* The window sums of one position of the block. */
static void sumsAt(const MatchModel *m, const Worker *worker, const Block *block, size_t y, size_t x, double *s1,
                   double *s2) {
    for (size_t c = 0; c < 3; ++c)
        s1[c] = m->needs_s1 && c < (size_t)m->channels ? worker->s1[(c * block->rows + y) * block->cols + x] : 0;
    *s2 = m->needs_s2 ? worker->s2[y * block->cols + x] : 0;
}

/* The costs of row y of a block from exact correlations. */
static void storeCosts(const MatchModel *m, const MatchHost *host, const Block *block, int k, size_t y,
                       const Worker *worker) {
    const MatchTemplate *t = &host->sums[k];
    const double sign = match_smallestIsBest(m->method) ? 1 : -1;
    double *out = host->costs + (block->y + y) * (size_t)m->ocols + block->x;
    for (size_t x = 0; x < block->cols; ++x) {
        const double c = worker->correlation[x];
        double s1[3], s2;
        sumsAt(m, worker, block, y, x, s1, &s2);
        out[x] = sign * match_score(m, t, c, s1, s2, m->masked ? c + t->t2 : s2 - 2 * c + t->t2);
    }
}

static void narrowRanges(const MatchModel *m, const MatchHost *host, const Block *block, int k, size_t y,
                         const Worker *worker) {
    const MatchTemplate *t = &host->sums[k];
    MatchError error = match_error(m, t, host->energy);
    error.correlation = 0;
    for (int p = 0; p < m->planes; ++p)
        error.correlation += host->exact.units * sqrt(host->energy[p]) * t->norm[p];
    MatchRange *out = host->ranges + ((size_t)k * (size_t)m->orows + block->y + y) * (size_t)m->ocols + block->x;
    for (size_t x = 0; x < block->cols; ++x) {
        double s1[3], s2;
        float score;
        sumsAt(m, worker, block, y, x, s1, &s2);
        const MatchRange range = match_range(m, t, worker->correlation[x], error, s1, s2, &score);
        if (out[x].lower < INFINITY && range.upper < out[x].upper) /* not suppressed */
            out[x] = range;
    }
}

/* Row y of a block whose correlation is in host->plane64, or is computed directly. */
static void scoreRow(const MatchModel *m, const MatchHost *host, const Block *block, int k, size_t y, double constant,
                     Worker *worker) {
    const int integers = m->integer || host->exact_floats == 1;
    if (host->fft64) {
        const double *row = host->plane64 + y * (size_t)host->exact.fft_cols;
        for (size_t x = 0; x < block->cols; ++x)
            worker->correlation[x] = (integers ? rint(row[x]) : row[x]) + constant;
    } else {
        match_correlateDirect(m, host, block, k, y, worker);
    }
    if (integers)
        storeCosts(m, host, block, k, y, worker);
    else
        narrowRanges(m, host, block, k, y, worker);
}

static void scoreBlock(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block, int k,
                       Worker *worker) {
    const double constant = m->masked ? match_maskedConstant(m, &host->sums[k], host) : 0;
    const int team = worker->team;
    match_windowSums(m, frame, block, worker);
    if (!host->fft64)
        match_loadPlanar(m, frame, block, worker->planar);
#pragma omp parallel for schedule(static) num_threads(team) if (team > 1)
    for (size_t y = 0; y < block->rows; ++y) {
        Worker own = *worker;
        own.correlation += match_threadOf(team) * (size_t)host->exact.block_cols;
        scoreRow(m, host, block, k, y, constant, &own);
    }
}

/* ---- Integer floats ----------------------------------------------------------------------------------------------------- */

CUSI_MULTIVERSION
static double largestInRow(const float *row, int n) {
    double largest = 0;
    for (int x = 0; x < n; ++x) {
        const double magnitude = row[x] == rintf(row[x]) ? fabs((double)row[x]) : INFINITY;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

/* The largest magnitude of the frame's pixels if they are integers, otherwise infinity. */
static double largestInteger(const MatchModel *m, const MatchHost *host, const cusMat *frame) {
    double largest = 0;
    (void)host; /* without OpenMP */
#pragma omp parallel for schedule(static) num_threads(match_threadsFor(host, (double)m->rows * m->cols)) \
    reduction(max                                                                                        \
              : largest)
    for (int y = 0; y < m->rows; ++y) {
        const double row = largestInRow((const float *)match_row(frame, (size_t)y), m->cols);
        largest = row > largest ? row : largest;
    }
    return largest;
}

int match_givesCosts(const MatchModel *m, MatchHost *host, const cusMat *frame) {
    if (m->integer || host->exact_floats >= 0)
        return m->integer || host->exact_floats;
    host->exact_floats = 0;
    if (!(host->largest < INFINITY))
        return 0;
    /* Every sum over a window, of squares of sums at most, must be an integer that double holds. */
    const double frame_largest = largestInteger(m, host, frame);
    const double largest = (frame_largest > host->largest ? frame_largest : host->largest) + fabs(m->shift[0]);
    double error = 0;
    for (int k = 0; k < m->count && host->fft64; ++k)
        for (int p = 0; p < m->planes; ++p)
            error = fmax(error, m->planes * host->exact.units * sqrt(host->energy[p]) * host->sums[k].norm[p]);
    host->exact_floats = match_sumsAreIntegers(m, largest) && error < 0.25;
    return host->exact_floats;
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------------- */

void match_exactBlocks(const MatchModel *m, MatchHost *host, const cusMat *frame, int k, const int64_t *blocks, int64_t n) {
    const int costs = match_givesCosts(m, host, frame);
    if (host->fft64) {
        match_loadExact(m, host, k);
        for (int64_t i = 0; i < n; ++i) {
            const Block block = match_exactBlock(m, &host->exact, blocks[i]);
            correlateBlock(m, host, frame, &block);
            scoreBlock(m, host, frame, &block, k, &host->exact_worker);
        }
    } else if (costs) {
        const int threads = match_threadsFor(host, (double)n * host->exact.block_ns);
        (void)threads; /* without OpenMP */
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (int64_t i = 0; i < n; ++i) {
            const Block block = match_exactBlock(m, &host->exact, blocks[i]);
            scoreBlock(m, host, frame, &block, k, match_thisWorker(host));
        }
    }
}
