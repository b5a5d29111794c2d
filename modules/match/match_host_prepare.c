/* match on the CPU: choice of block and FFT sizes, allocation, template spectra. */
#include "check.h"
#include "host.h"
#include "match_fft_lines.inc"
#include "match_host.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds of one multiplication of the direct algorithm, and of one point and level (points * log2 points of them) of one
 * transform; what threads lose that share a transform: a tenth of the time, and the beginning and end of each stage.
 * docs/internals/match-host.md. */
#define TUNING_DIRECT_NS 0.05
#define TUNING_FFT_NS    0.08
#define TUNING_SHARED    1.1
#define TUNING_STAGE_NS  1e4
enum { TUNING_MAX_SPLIT = 64, TUNING_STRIP_ROWS = 16 };

/* ---- Block size: the least work for the busiest thread ------------------------------------------------------------------ */

typedef struct Plan {
    int block_rows, block_cols, fft_rows, fft_cols;
    int team; /* threads that share a block's transforms: 1 or all */
    double ns;
} Plan;

static double fftCost(const MatchModel *m, double points) {
    return TUNING_FFT_NS * (m->planes + m->count) * points * log2(points + 1);
}

/* Rows or columns of the transforms if the score map is cut into 1, 2, ... parts. */
static void fftSizes(int positions, int templ, int *sizes) {
    for (int n = 1; n <= TUNING_MAX_SPLIT && n <= positions; ++n)
        sizes[n] = match_fft_goodSize((positions + n - 1) / n + templ - 1);
}

static Plan chooseBlocks(const MatchModel *m) {
    const int threads = cusi_maxThreads();
    int fft_rows[TUNING_MAX_SPLIT + 1], fft_cols[TUNING_MAX_SPLIT + 1];
    fftSizes(m->orows, m->h, fft_rows);
    fftSizes(m->ocols, m->w, fft_cols);
    Plan best = {.ns = INFINITY};
    for (int ny = 1; ny <= TUNING_MAX_SPLIT && ny <= m->orows; ++ny)
        for (int nx = 1; nx <= TUNING_MAX_SPLIT && nx <= m->ocols; ++nx) {
            Plan plan = {.block_rows = (m->orows + ny - 1) / ny,
                         .block_cols = (m->ocols + nx - 1) / nx,
                         .fft_rows = fft_rows[ny],
                         .fft_cols = fft_cols[nx]};
            const int64_t blocks = (int64_t)ny * nx, rounds = (blocks + threads - 1) / threads;
            if (plan.fft_rows > (1 << 30) / plan.fft_cols && blocks < (int64_t)TUNING_MAX_SPLIT * TUNING_MAX_SPLIT)
                continue; /* planes of more than 4 GB only if nothing else fits */
            const double block_ns = fftCost(m, (double)plan.fft_rows * plan.fft_cols);
            const double alone = (double)rounds * block_ns;
            const double stages = TUNING_STAGE_NS * (3 * m->planes + 3 * m->count + 1);
            const double shared = (double)blocks * (TUNING_SHARED * block_ns / threads + stages);
            plan.team = shared < alone ? threads : 1;
            plan.ns = shared < alone ? shared : alone;
            if (plan.ns < best.ns)
                best = plan;
        }
    return best;
}

cusMatchAlgorithm match_host_algorithm(const MatchModel *m) {
    const double products = (double)m->orows * m->ocols * m->n * m->channels * m->count;
    return TUNING_DIRECT_NS * products / cusi_maxThreads() <= chooseBlocks(m).ns ? CUS_MATCH_DIRECT : CUS_MATCH_FFT;
}

/* ---- Preparation -------------------------------------------------------------------------------------------------------- */

static size_t align64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* The buffers of a team for blocks of rows x cols, and of so many floats and bytes for the planes of the first pass. */
static cusStatus allocateWorker(const MatchModel *m, int block_rows, int block_cols, int team, size_t plane,
                                size_t spectrum, size_t planar, Worker *worker) {
    const size_t rows = (size_t)block_rows, cols = (size_t)block_cols, channels = (size_t)m->channels;
    const size_t in_cols = cols + (size_t)m->w - 1, threads = (size_t)team;
    const size_t sizes[] = {
        plane * sizeof(float),
        spectrum * (size_t)m->planes * sizeof(float),
        spectrum * sizeof(float),
        planar,
        threads * cols * sizeof(uint32_t),
        threads * cols * sizeof(double),
        m->needs_s1 ? rows * cols * channels * sizeof(double) : 0,
        m->needs_s2 ? rows * cols * sizeof(double) : 0,
        threads * in_cols * channels * sizeof(double),
        threads * in_cols * sizeof(double),
    };
    void **parts[] = {(void **)&worker->plane,  (void **)&worker->spectra, (void **)&worker->product,
                      (void **)&worker->planar, (void **)&worker->sum32,   (void **)&worker->correlation,
                      (void **)&worker->s1,     (void **)&worker->s2,      (void **)&worker->column1,
                      (void **)&worker->column2};
    size_t total = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        total += align64(sizes[i]);
    worker->team = team;
    worker->memory = cusi_hostAllocate(total);
    CUSI_REQUIRE(worker->memory, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory for %zu bytes", total);
    size_t at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        *parts[i] = worker->memory + at;
        at += align64(sizes[i]);
    }
    return CUS_OK;
}

/* The buffers of a thread, or of a team of threads that share a block's transforms. */
static cusStatus prepareWorker(const MatchModel *m, const MatchHost *host, int fft, int team, Worker *worker) {
    const size_t in_rows = (size_t)(host->block_rows + m->h - 1), in_cols = (size_t)(host->block_cols + m->w - 1);
    if (!fft)
        return allocateWorker(m, host->block_rows, host->block_cols, team, 0, 0,
                              in_rows * in_cols * (size_t)m->channels * (m->integer ? 1 : sizeof(float)), worker);
    CUS_TRY(allocateWorker(m, host->block_rows, host->block_cols, team, (size_t)host->fft_rows * (size_t)host->fft_cols,
                           match_fft_spectrumFloats(host->fft_rows, host->fft_cols), 0, worker));
    worker->fft =
        match_fft_createFor(match_fft_kernels(0), host->fft_rows, host->fft_cols, (int)in_rows, host->block_rows, team);
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

static cusStatus prepareSpectra(const MatchModel *m, MatchHost *host) {
    Worker *worker = &host->workers[0];
    assert(worker->plane);
    const size_t spectrum = match_fft_spectrumFloats(host->fft_rows, host->fft_cols);
    const size_t w = (size_t)m->w, h = (size_t)m->h, cols = (size_t)host->fft_cols;
    const double scale = 1.0 / ((double)host->fft_rows * (double)host->fft_cols);
    for (int k = 0; k < m->count; ++k)
        for (int p = 0; p < m->planes; ++p) {
            const char *pixels = host->templates + (size_t)k * host->template_bytes;
            memset(worker->plane, 0, h * cols * sizeof(float));
            for (size_t y = 0; y < h; ++y)
                for (size_t x = 0; x < w; ++x)
                    worker->plane[y * cols + x] = (float)match_templatePlane(m, host, pixels, p, y * w + x);
            float *out = host->spectra + ((size_t)k * (size_t)m->planes + (size_t)p) * spectrum;
            CUSI_REQUIRE(match_fft_forwardRounded(worker->fft, worker->plane, h, scale, out), CUS_ERROR_NO_MEMORY,
                         "cusMatcherCreate: out of host memory for a template's spectrum of %d x %d", host->fft_rows,
                         host->fft_cols);
        }
    return CUS_OK;
}

/* Block and FFT sizes; the error bound of the direct algorithm. Threads of a team. */
static int planBlocks(MatchModel *m, MatchHost *host, int fft) {
    if (fft) {
        const Plan plan = chooseBlocks(m);
        host->block_rows = plan.block_rows, host->block_cols = plan.block_cols;
        host->fft_rows = plan.fft_rows, host->fft_cols = plan.fft_cols;
        return plan.team;
    }
    host->block_rows = TUNING_STRIP_ROWS < m->orows ? TUNING_STRIP_ROWS : m->orows;
    host->block_cols = m->ocols;
    m->error = m->integer ? 0 : 0x1p-52 * m->n;
    return 1;
}

/* What the search needs, for one score map at a time. */
static int allocateSearch(const MatchModel *m, MatchHost *host) {
    const ExactPlan *plan = &host->exact;
    const size_t map = (size_t)m->orows * (size_t)m->ocols, blocks = (size_t)(plan->down * plan->across);
    const size_t tiles = ((size_t)m->ocols + MATCH_TILE - 1) / MATCH_TILE * (size_t)m->orows;
    host->costs = cusi_hostAllocate(map * sizeof *host->costs);
    host->tiles = cusi_hostAllocate(tiles * sizeof *host->tiles);
    host->lines = cusi_hostAllocate((size_t)m->orows * sizeof *host->lines);
    host->listed_tiles = cusi_hostAllocate(tiles * sizeof *host->listed_tiles);
    host->blocks = cusi_hostAllocate(blocks * sizeof *host->blocks);
    host->listed_blocks = cusi_hostAllocate(blocks * sizeof *host->listed_blocks);
    if (!m->integer) {
        host->first = cusi_hostAllocate(map * sizeof *host->first);
        host->counts = cusi_hostAllocate((size_t)host->threads * (size_t)m->cols * sizeof *host->counts);
        if (!host->first || !host->counts)
            return 0;
    }
    return host->costs && host->tiles && host->lines && host->listed_tiles && host->blocks && host->listed_blocks;
}

/* What the exact pass needs if it uses the FFT. */
static cusStatus prepareExact(const MatchModel *m, MatchHost *host) {
    const ExactPlan *plan = &host->exact;
    if (!plan->fft_rows)
        return CUS_OK;
    const size_t points = (size_t)plan->fft_rows * (size_t)plan->fft_cols;
    const int team = match_threadsFor(host, 20 * (double)points);
    CUS_TRY(allocateWorker(m, plan->block_rows, plan->block_cols, team, 0, 0, 0, &host->exact_worker));
    host->fft64 = match_fft64_createFor(match_fft64_kernels(0), plan->fft_rows, plan->fft_cols, plan->block_rows + m->h - 1,
                                        plan->block_rows, team);
    if (host->fft64) {
        const size_t spectra =
            match_fft64_panels(host->fft64) * match_fft64_panelSize(host->fft64) * (size_t)m->planes * sizeof(double);
        host->plane64 = cusi_hostAllocate(points * sizeof(double));
        host->planes64 = cusi_hostAllocate(spectra);
        host->spectra64 = cusi_hostAllocate(spectra);
    }
    CUSI_REQUIRE(host->fft64 && host->plane64 && host->planes64 && host->spectra64, CUS_ERROR_NO_MEMORY,
                 "cusMatcherCreate: out of host memory for an FFT of %d x %d in double", plan->fft_rows, plan->fft_cols);
    match_loadExact(m, host, 0);
    return CUS_OK;
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

/* The largest magnitude of 32F templates if all their pixels are integers, otherwise infinity. */
static double largestInteger(const MatchModel *m, const void *templates) {
    double largest = 0;
    for (size_t i = 0; !m->integer && i < (size_t)m->n * (size_t)m->count; ++i) {
        const double value = ((const float *)templates)[i];
        const double magnitude = value == rint(value) ? fabs(value) : INFINITY;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
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
    const int team = planBlocks(m, host, fft);
    host->exact = match_planExact(m, fft, sums, host->block_rows, TUNING_DIRECT_NS);
    CUS_TRY(allocate(m, host, fft, mask != NULL));
    copyTemplates(m, host, templates, mask, sums);
    for (int i = 0; i < (team > 1 ? 1 : host->threads); ++i)
        CUS_TRY(prepareWorker(m, host, fft, team, &host->workers[i]));
    if (fft) {
        m->error = match_fft_correlationUnits(host->workers[0].fft, m->planes) * 0x1p-24;
        CUS_TRY(prepareSpectra(m, host));
    }
    host->largest = largestInteger(m, templates);
    CUS_TRY(prepareExact(m, host));
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
    free(host->exact_worker.memory);
    free(host->sums);
    free(host->templates);
    free(host->mask);
    free(host->ranges);
    free(host->spectra);
    match_fft64_destroy(host->fft64);
    free(host->plane64);
    free(host->planes64);
    free(host->spectra64);
    free(host->costs);
    free(host->tiles);
    free(host->lines);
    free(host->listed_tiles);
    free(host->blocks);
    free(host->listed_blocks);
    free(host->first);
    free(host->counts);
    free(host);
}
