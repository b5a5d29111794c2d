/* match on the CPU: exact scores of whole blocks of the score map, where more positions may be the best than one would compute
 * window by window. 8-bit images: correlations are integers, and a transform in double is off by far less than 0.5, so
 * rounding makes them exact; the direct algorithm's are exact as they are. 32F images: ranges become narrow. */
#include "check.h"
#include "host.h"
#include "match_host.h"

#include <string.h>

/* Measured: docs/internals/match-host.md. Nanoseconds of one point and level of a transform (two blocks), of scoring one
 * position, and of one pixel and one row of a window that is computed alone. */
#define TUNING_FFT64_NS  0.45
#define TUNING_SCORE_NS  12
#define TUNING_SQUARE_NS 0.1
#define TUNING_BYTE_NS   0.3
#define TUNING_FLOAT_NS  0.4
#define TUNING_ROW_NS    8
enum { TUNING_MAX_SPLIT = 16 };
/* Rounding errors a level of two transforms and the template's, in units of 2^-53: twice those of MATCH_FFT_UNITS, which
 * covers butterflies of radix 3 and 5. */
#define UNITS (2 * MATCH_FFT_UNITS)

/* ---- Choice of blocks --------------------------------------------------------------------------------------------------- */

/* Of 8-bit correlations, at most: two blocks share a transform, so their energies add up. */
static double largestError(const MatchModel *m, const MatchTemplate *sums, double units, double pixels) {
    double most = 0;
    for (int k = 0; k < m->count; ++k) {
        double error = 0;
        for (int p = 0; p < m->planes; ++p)
            error += units * sqrt(2 * pixels) * (p < m->channels ? 255 : 3 * 65025.0) * sums[k].norm[p];
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
    if (m->integer && !m->masked)
        plan.block_ns = (double)rows * m->ocols * (direct_ns * m->n * m->channels + TUNING_SCORE_NS);
    return plan;
}

static ExactPlan planFft(const MatchModel *m, const MatchTemplate *sums) {
    const int threads = cusi_maxThreads();
    ExactPlan best = {.block_rows = m->orows, .block_cols = m->ocols, .block_ns = INFINITY};
    double least = INFINITY;
    for (int ny = 1; ny <= TUNING_MAX_SPLIT && ny <= m->orows; ++ny)
        for (int nx = 1; nx <= TUNING_MAX_SPLIT && (nx == 1 || nx * MATCH_TILE <= m->ocols); ++nx) {
            ExactPlan plan = {.block_rows = (m->orows + ny - 1) / ny, .block_cols = (m->ocols + nx - 1) / nx};
            if (nx > 1)
                plan.block_cols = (plan.block_cols + MATCH_TILE - 1) / MATCH_TILE * MATCH_TILE;
            const double rows = plan.block_rows + m->h - 1, cols = plan.block_cols + m->w - 1;
            if (rows * cols > 1 << 27)
                continue;
            plan.fft_rows = match_fft64_goodSize((int)rows), plan.fft_cols = match_fft64_goodSize((int)cols);
            const double points = (double)plan.fft_rows * plan.fft_cols;
            plan.units = UNITS * log2(points) * 0x1p-53;
            if (m->integer && !(largestError(m, sums, plan.units, rows * cols) < 0.25))
                continue;
            const int64_t blocks = (int64_t)ny * nx, pairs = (blocks + 1) / 2, rounds = (pairs + threads - 1) / threads;
            const double pair = TUNING_FFT64_NS * (m->planes + 1) * points * log2(points);
            plan.block_ns = pair / 2 + TUNING_SCORE_NS * (double)plan.block_rows * plan.block_cols;
            if ((double)rounds * pair < least) {
                least = (double)rounds * pair;
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

void match_loadExact(const MatchModel *m, MatchHost *host, int k) {
    if (!host->fft64 || host->loaded64 == k)
        return;
    const size_t w = (size_t)m->w, h = (size_t)m->h, bands = (h + MATCH_FFT64_LANES - 1) / MATCH_FFT64_LANES;
    const size_t doubles = match_fft64_planeDoubles(host->fft64),
                 band_bytes = doubles / (size_t)host->exact.fft_rows * MATCH_FFT64_LANES * sizeof(double);
    const char *pixels = host->templates + (size_t)k * host->template_bytes;
    const int threads = match_threadsFor(host, (double)doubles * 20);
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int p = 0; p < m->planes; ++p) {
        Worker *worker = match_thisWorker(host);
        for (size_t i = 0; i < bands; ++i) {
            double *band = match_fft64_band(host->fft64, worker->planes64, i);
            memset(band, 0, band_bytes);
            for (size_t l = 0; l < MATCH_FFT64_LANES && i * MATCH_FFT64_LANES + l < h; ++l)
                for (size_t x = 0; x < w; ++x)
                    band[2 * MATCH_FFT64_LANES * x + l] =
                        match_templatePlane(m, host, pixels, p, (i * MATCH_FFT64_LANES + l) * w + x);
            match_fft64_transformBand(host->fft64, band, worker->work64);
        }
        match_fft64_spectrum(host->fft64, worker->planes64, bands, host->spectra64 + (size_t)p * doubles, worker->work64);
    }
    host->loaded64 = k;
}

CUSI_MULTIVERSION
static void spreadBytes(const uint8_t *row, size_t n, size_t stride, double shift, double *band) {
    for (size_t x = 0; x < n; ++x)
        band[2 * MATCH_FFT64_LANES * x] = row[x * stride] - shift;
}

/* Row y of plane p of the frame under the block, shifted, into one lane of a band. */
static void spreadRow(const MatchModel *m, const cusMat *frame, const Block *block, int p, size_t y, double *band) {
    const size_t cols = block->cols + (size_t)m->w - 1;
    const char *row = match_row(frame, block->y + y) + block->x * cusTypeSize(frame->type);
    if (p == m->channels)
        for (size_t x = 0; x < cols; ++x)
            band[2 * MATCH_FFT64_LANES * x] = match_squarePlane(m, row, x);
    else if (m->integer)
        spreadBytes((const uint8_t *)row + p, cols, (size_t)m->channels, m->shift[p], band);
    else
        for (size_t x = 0; x < cols; ++x)
            band[2 * MATCH_FFT64_LANES * x] = ((const float *)row)[x] - m->shift[p];
}

/* worker->planes64 becomes the correlations of up to two blocks: the first one's in the second half of each point. */
static void correlateBlocks(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *blocks, int count,
                            Worker *worker) {
    const size_t doubles = match_fft64_planeDoubles(host->fft64);
    const size_t band_bytes = doubles / (size_t)host->exact.fft_rows * MATCH_FFT64_LANES * sizeof(double);
    const size_t most = count > 1 && blocks[1].rows > blocks[0].rows ? blocks[1].rows : blocks[0].rows;
    const size_t bands = (most + (size_t)m->h - 1 + MATCH_FFT64_LANES - 1) / MATCH_FFT64_LANES;
    const size_t wanted = (most + MATCH_FFT64_LANES - 1) / MATCH_FFT64_LANES;
    for (int p = 0; p < m->planes; ++p)
        for (size_t i = 0; i < bands; ++i) {
            double *band = match_fft64_band(host->fft64, worker->planes64 + (size_t)p * doubles, i);
            memset(band, 0, band_bytes);
            for (int b = 0; b < count; ++b) {
                const size_t rows = blocks[b].rows + (size_t)m->h - 1, first = i * MATCH_FFT64_LANES;
                for (size_t l = 0; l < MATCH_FFT64_LANES && first + l < rows; ++l)
                    spreadRow(m, frame, &blocks[b], p, first + l, band + b * MATCH_FFT64_LANES + l);
            }
            match_fft64_transformBand(host->fft64, band, worker->work64);
        }
    match_fft64_correlate(host->fft64, worker->planes64, host->spectra64, m->planes, bands, wanted, worker->work64);
    for (size_t i = 0; i < wanted; ++i)
        match_fft64_transformBand(host->fft64, match_fft64_band(host->fft64, worker->planes64, i), worker->work64);
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
        error.correlation += host->exact.units * sqrt(2 * host->energy[p]) * t->norm[p];
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

static void scoreBlock(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block, int k,
                       int second, Worker *worker) {
    const double constant = m->masked ? match_maskedConstant(m, &host->sums[k], host) : 0;
    match_windowSums(m, frame, block, worker);
    if (!host->fft64)
        match_loadPlanar(m, frame, block, worker->planar);
    for (size_t y = 0; y < block->rows; ++y) {
        if (host->fft64) {
            const double *band = match_fft64_band(host->fft64, worker->planes64, y / MATCH_FFT64_LANES) +
                                 (second ? 0 : MATCH_FFT64_LANES) + y % MATCH_FFT64_LANES;
            for (size_t x = 0; x < block->cols; ++x) {
                const double c = band[2 * MATCH_FFT64_LANES * x];
                worker->correlation[x] = (m->integer ? rint(c) : c) + constant;
            }
        } else {
            match_correlateDirect(m, host, block, k, y, worker);
        }
        if (m->integer)
            storeCosts(m, host, block, k, y, worker);
        else
            narrowRanges(m, host, block, k, y, worker);
    }
}

void match_exactBlocks(const MatchModel *m, MatchHost *host, const cusMat *frame, int k, const int64_t *blocks, int64_t n) {
    match_loadExact(m, host, k);
    const int at_once = host->fft64 ? 2 : 1;
    const int threads = match_threadsFor(host, (double)n * host->exact.block_ns);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t i = 0; i < n; i += at_once) {
        Worker *worker = match_thisWorker(host);
        const int count = i + 1 < n ? at_once : 1;
        Block pair[2];
        for (int b = 0; b < count; ++b)
            pair[b] = match_exactBlock(m, &host->exact, blocks[i + b]);
        if (host->fft64)
            correlateBlocks(m, host, frame, pair, count, worker);
        for (int b = 0; b < count; ++b)
            scoreBlock(m, host, frame, &pair[b], k, b, worker);
    }
}
