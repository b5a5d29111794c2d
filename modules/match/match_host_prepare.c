/* match on the CPU: choice of block and FFT sizes, allocation, template spectra. */
#include "check.h"
#include "host.h"
#include "match_host.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds of one multiplication of the direct algorithm, and of one point and level (points * log2 points of them) of one
 * transform: docs/internals/match-host.md. */
#define TUNING_DIRECT_NS 0.05
#define TUNING_FFT_NS    0.45
enum { TUNING_MAX_SPLIT = 64, TUNING_STRIP_ROWS = 16 };

/* ---- Block size: the least work for the busiest thread ------------------------------------------------------------------ */

typedef struct Plan {
    int block_rows, block_cols, fft_rows, fft_cols;
    double ns;
} Plan;

static double fftCost(const MatchModel *m, double points) {
    return TUNING_FFT_NS * (m->planes + m->count) * points * log2(points + 1);
}

static Plan chooseBlocks(const MatchModel *m) {
    const int threads = cusi_maxThreads();
    Plan best = {.ns = INFINITY};
    for (int ny = 1; ny <= TUNING_MAX_SPLIT && ny <= m->orows; ++ny)
        for (int nx = 1; nx <= TUNING_MAX_SPLIT && nx <= m->ocols; ++nx) {
            Plan plan = {.block_rows = (m->orows + ny - 1) / ny, .block_cols = (m->ocols + nx - 1) / nx};
            const int64_t blocks = (int64_t)ny * nx, rounds = (blocks + threads - 1) / threads;
            const int rows = plan.block_rows + m->h - 1, cols = plan.block_cols + m->w - 1;
            if (rows > (1 << 30) / cols && blocks < (int64_t)TUNING_MAX_SPLIT * TUNING_MAX_SPLIT)
                continue; /* planes of more than 4 GB only if nothing else fits */
            plan.ns = (double)rounds * fftCost(m, (double)rows * cols);
            if (plan.ns < best.ns)
                best = plan;
        }
    best.fft_rows = match_fft_goodSize(best.block_rows + m->h - 1);
    best.fft_cols = match_fft_goodSize(best.block_cols + m->w - 1);
    return best;
}

cusMatchAlgorithm match_host_algorithm(const MatchModel *m) {
    if (strcmp(match_fft_name(), "none") == 0)
        return CUS_MATCH_DIRECT;
    const double products = (double)m->orows * m->ocols * m->n * m->channels * m->count;
    return TUNING_DIRECT_NS * products / cusi_maxThreads() <= chooseBlocks(m).ns ? CUS_MATCH_DIRECT : CUS_MATCH_FFT;
}

/* ---- Preparation -------------------------------------------------------------------------------------------------------- */

static size_t align64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static cusStatus prepareWorker(const MatchModel *m, const MatchHost *host, int fft, Worker *worker) {
    const size_t points = (size_t)host->fft_rows * (size_t)host->fft_cols;
    const size_t spectrum = fft ? match_fft_spectrumFloats(host->fft_rows, host->fft_cols) : 0;
    const size_t rows = (size_t)host->block_rows, cols = (size_t)host->block_cols, channels = (size_t)m->channels;
    /* Window sums serve the blocks of both passes. */
    const size_t exact_rows = (size_t)host->exact.block_rows, exact_cols = (size_t)host->exact.block_cols;
    const size_t most = rows * cols > exact_rows * exact_cols ? rows * cols : exact_rows * exact_cols;
    const size_t sum_cols = (cols > exact_cols ? cols : exact_cols) + (size_t)m->w - 1;
    const size_t in_cols = cols + (size_t)m->w - 1, in_rows = rows + (size_t)m->h - 1;
    const size_t sizes[] = {
        fft ? points * sizeof(float) : 0,
        spectrum * (size_t)m->planes * sizeof(float),
        spectrum * sizeof(float),
        fft ? 0 : in_rows * in_cols * channels * (m->integer ? 1 : sizeof(float)),
        cols * sizeof(uint32_t),
        (cols > exact_cols ? cols : exact_cols) * sizeof(double),
        m->needs_s1 ? most * channels * sizeof(double) : 0,
        m->needs_s2 ? most * sizeof(double) : 0,
        sum_cols * channels * sizeof(double),
        sum_cols * sizeof(double),
        host->fft64 ? match_fft64_planeDoubles(host->fft64) * (size_t)m->planes * sizeof(double) : 0,
        host->fft64 ? match_fft64_workDoubles(host->fft64) * sizeof(double) : 0,
    };
    void **parts[] = {(void **)&worker->plane,   (void **)&worker->spectra,  (void **)&worker->product,
                      (void **)&worker->planar,  (void **)&worker->sum32,    (void **)&worker->correlation,
                      (void **)&worker->s1,      (void **)&worker->s2,       (void **)&worker->column1,
                      (void **)&worker->column2, (void **)&worker->planes64, (void **)&worker->work64};
    size_t total = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        total += align64(sizes[i]);
    worker->memory = cusi_hostAllocate(total);
    CUSI_REQUIRE(worker->memory, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory for %zu bytes", total);
    size_t at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        *parts[i] = worker->memory + at;
        at += align64(sizes[i]);
    }
    if (!fft)
        return CUS_OK;
    worker->fft = match_fft_create(host->fft_rows, host->fft_cols, (int)in_rows, host->block_rows);
    CUSI_REQUIRE(worker->fft, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory for an FFT of %d x %d",
                 host->fft_rows, host->fft_cols);
    return CUS_OK;
}

double match_templatePlane(const MatchModel *m, const MatchHost *host, const char *pixels, int p, size_t pixel) {
    const size_t channels = (size_t)m->channels, i = pixel * channels + (size_t)(p < m->channels ? p : 0);
    const int kept = !host->mask || host->mask[i];
    if (p == m->channels)
        return kept ? 1 : 0;
    if (!kept)
        return 0;
    const double raw = match_element(pixels, m->integer, i);
    if (m->masked)
        return m->method == CUS_MATCH_CCORR ? raw : -2 * (raw - m->shift[p]);
    return raw - m->shift[p];
}

static void prepareSpectra(const MatchModel *m, MatchHost *host) {
    Worker *worker = &host->workers[0];
    assert(worker->plane);
    const size_t spectrum = match_fft_spectrumFloats(host->fft_rows, host->fft_cols);
    const size_t points = (size_t)host->fft_rows * (size_t)host->fft_cols;
    const float scale = (float)(1.0 / (double)points);
    for (int k = 0; k < m->count; ++k)
        for (int p = 0; p < m->planes; ++p) {
            memset(worker->plane, 0, points * sizeof(float));
            for (size_t y = 0; y < (size_t)m->h; ++y)
                for (size_t x = 0; x < (size_t)m->w; ++x)
                    worker->plane[y * (size_t)host->fft_cols + x] = (float)match_templatePlane(
                        m, host, host->templates + (size_t)k * host->template_bytes, p, y * (size_t)m->w + x);
            float *out = host->spectra + ((size_t)k * (size_t)m->planes + (size_t)p) * spectrum;
            match_fft_forward(worker->fft, worker->plane, out);
            for (size_t i = 0; i < spectrum; ++i)
                out[i] *= scale;
        }
}

/* Block and FFT sizes, and the error bound that follows from them. */
static void planBlocks(MatchModel *m, MatchHost *host, int fft) {
    if (fft) {
        const Plan plan = chooseBlocks(m);
        host->block_rows = plan.block_rows, host->block_cols = plan.block_cols;
        host->fft_rows = plan.fft_rows, host->fft_cols = plan.fft_cols;
        m->error = MATCH_FFT_UNITS * log2((double)host->fft_rows * host->fft_cols) * 0x1p-24;
    } else {
        host->block_rows = TUNING_STRIP_ROWS < m->orows ? TUNING_STRIP_ROWS : m->orows;
        host->block_cols = m->ocols;
        m->error = m->integer ? 0 : 0x1p-52 * m->n;
    }
}

/* What the search and the exact pass need, for one score map at a time. */
static int allocateSearch(const MatchModel *m, MatchHost *host) {
    const ExactPlan *plan = &host->exact;
    const size_t map = (size_t)m->orows * (size_t)m->ocols, blocks = (size_t)(plan->down * plan->across);
    const size_t tiles = ((size_t)m->ocols + MATCH_TILE - 1) / MATCH_TILE * (size_t)m->orows;
    host->costs = cusi_hostAllocate(map * sizeof *host->costs);
    host->tiles = cusi_hostAllocate(tiles * sizeof *host->tiles);
    host->listed_tiles = cusi_hostAllocate(tiles * sizeof *host->listed_tiles);
    host->blocks = cusi_hostAllocate(blocks * sizeof *host->blocks);
    host->listed_blocks = cusi_hostAllocate(blocks * sizeof *host->listed_blocks);
    if (!host->costs || !host->tiles || !host->listed_tiles || !host->blocks || !host->listed_blocks)
        return 0;
    if (!plan->fft_rows)
        return 1;
    if (!m->integer) {
        host->first = cusi_hostAllocate(map * sizeof *host->first);
        host->counts = cusi_hostAllocate((size_t)m->cols * sizeof *host->counts);
        if (!host->first || !host->counts)
            return 0;
    }
    host->fft64 = match_fft64_create(plan->fft_rows, plan->fft_cols);
    if (host->fft64)
        host->spectra64 = cusi_hostAllocate(match_fft64_planeDoubles(host->fft64) * (size_t)m->planes * sizeof(double));
    return host->spectra64 != NULL;
}

static cusStatus allocate(const MatchModel *m, MatchHost *host, int fft, int masked) {
    const size_t elements = (size_t)m->w * (size_t)m->h * (size_t)m->channels, count = (size_t)m->count;
    const size_t map = (size_t)m->orows * (size_t)m->ocols;
    host->sums = malloc(count * sizeof *host->sums);
    host->templates = cusi_hostAllocate(count * host->template_bytes);
    host->mask = masked ? cusi_hostAllocate(elements) : NULL;
    host->ranges =
        map <= SIZE_MAX / sizeof(MatchRange) / count ? cusi_hostAllocate(count * map * sizeof(MatchRange)) : NULL;
    host->workers = calloc((size_t)host->threads, sizeof *host->workers);
    if (fft)
        host->spectra = cusi_hostAllocate(count * (size_t)m->planes *
                                          match_fft_spectrumFloats(host->fft_rows, host->fft_cols) * sizeof(float));
    CUSI_REQUIRE(host->sums && host->templates && (host->mask || !masked) && host->ranges && host->workers &&
                     (host->spectra || !fft) && allocateSearch(m, host),
                 CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory for %d score maps of %zu positions", m->count,
                 map);
    return CUS_OK;
}

/* Copies the templates, with zeros where the mask is zero, and the mask. */
static void copyTemplates(const MatchModel *m, MatchHost *host, const void *templates, const uint8_t *mask,
                          const MatchTemplate *sums) {
    const size_t elements = (size_t)m->w * (size_t)m->h * (size_t)m->channels, count = (size_t)m->count;
    const size_t element = m->integer ? 1 : sizeof(float);
    memcpy(host->sums, sums, count * sizeof *sums);
    memcpy(host->templates, templates, count * host->template_bytes);
    if (!mask)
        return;
    memcpy(host->mask, mask, elements);
    for (size_t i = 0; i < elements * count; ++i)
        if (!mask[i % elements])
            memset(host->templates + i * element, 0, element);
}

cusStatus match_host_prepare(cusMatcher *matcher, const void *templates, const uint8_t *mask, const MatchTemplate *sums) {
    MatchModel *m = &matcher->model;
    const int fft = matcher->algorithm == CUS_MATCH_FFT;
    MatchHost *host = calloc(1, sizeof *host);
    CUSI_REQUIRE(host, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory");
    matcher->backend = host;
    host->template_bytes = (size_t)m->w * (size_t)m->h * (size_t)m->channels * (m->integer ? 1 : sizeof(float));
    host->threads = cusi_maxThreads();
    host->loaded64 = -1;
    planBlocks(m, host, fft);
    host->exact = match_planExact(m, fft, sums, host->block_rows, TUNING_DIRECT_NS);
    CUS_TRY(allocate(m, host, fft, mask != NULL));
    copyTemplates(m, host, templates, mask, sums);
    for (int i = 0; i < host->threads; ++i)
        CUS_TRY(prepareWorker(m, host, fft, &host->workers[i]));
    if (fft)
        prepareSpectra(m, host);
    match_loadExact(m, host, 0);
    CUS_TRY(cusMatCreate(&matcher->results, m->count, m->max_matches * (int)sizeof(cusMatch), CUS_8UC1, CUS_HOST));
    for (int k = 0; k < m->count; ++k)
        match_clearMatches(matcher, k);
    return CUS_OK;
}

void match_host_release(cusMatcher *matcher) {
    MatchHost *host = matcher->backend;
    if (!host)
        return;
    for (int i = 0; host->workers && i < host->threads; ++i) {
        match_fft_destroy(host->workers[i].fft);
        free(host->workers[i].memory);
    }
    free(host->workers);
    free(host->sums);
    free(host->templates);
    free(host->mask);
    free(host->ranges);
    free(host->spectra);
    match_fft64_destroy(host->fft64);
    free(host->spectra64);
    free(host->costs);
    free(host->tiles);
    free(host->listed_tiles);
    free(host->blocks);
    free(host->listed_blocks);
    free(host->first);
    free(host->counts);
    free(host);
}
