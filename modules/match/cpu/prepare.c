/* Prepares a matcher: chooses sizes of blocks and FFTs, allocates buffers, makes the templates' spectra. */
#include "check.h"
#include "match/cpu/state.h"

#include <stdlib.h>
#include <string.h>

/* Nanoseconds per point and level of a transform, which has log2(points) levels; see docs/internals/match.md. */
#define TUNING_FFT_NS     0.08
#define TUNING_MAX_POINTS (1 << 26) /* points of a transform, if possible: planes have 256 MB */
enum { TUNING_MAX_SPLIT = 64 };

/* Cuts the score map into the blocks that cost least; returns the nanoseconds of a frame's transforms. */
static double chooseBlocks(const MatchModel *m, MatchHost *host) {
    const double stages = TUNING_STAGE_NS * (3 * m->channels + 3 * m->count + 1);
    double best = INFINITY;
    host->block_rows = m->orows, host->block_cols = m->ocols;
    for (int ny = 1; ny <= TUNING_MAX_SPLIT && ny <= m->orows; ++ny) {
        const int block_rows = (m->orows + ny - 1) / ny, rows = match_fft_goodSize(block_rows + m->h - 1);
        for (int nx = 1; nx <= TUNING_MAX_SPLIT && nx <= m->ocols; ++nx) {
            const int whole = ((m->ocols + nx - 1) / nx + MATCH_TILE - 1) / MATCH_TILE * MATCH_TILE; /* tiles */
            const int block_cols = whole < m->ocols ? whole : m->ocols, cols = match_fft_goodSize(block_cols + m->w - 1);
            const double points = (double)rows * cols, levels = points * log2(points + 1);
            const double ns =
                ny * nx * (TUNING_SHARED * TUNING_FFT_NS * (m->channels + m->count) * levels / host->threads + stages);
            if (ns >= best || (points > TUNING_MAX_POINTS && ny * nx < TUNING_MAX_SPLIT * TUNING_MAX_SPLIT))
                continue;
            best = ns;
            host->block_rows = block_rows, host->block_cols = block_cols;
            host->fft_rows = rows, host->fft_cols = cols;
        }
    }
    host->down = (m->orows + host->block_rows - 1) / host->block_rows;
    host->across = (m->ocols + host->block_cols - 1) / host->block_cols;
    return best;
}

cusMatchAlgorithm match_host_algorithm(const MatchModel *m, cusMatchAlgorithm wanted) {
    if (!m->integer || m->masked || m->n * m->channels >= MATCH_DOTS_MAX) /* sums of the dot products have 32 bits */
        return CUS_MATCH_FFT;
    if (wanted != CUS_MATCH_AUTO)
        return wanted;
    MatchHost host = {.threads = cusi_maxThreads()};
    return match_dotsNs(m) / host.threads <= chooseBlocks(m, &host) ? CUS_MATCH_DIRECT : CUS_MATCH_FFT;
}

/* ---- Buffers --------------------------------------------------------------------------------------------------------- */

/* Allocates a buffer that is freed with the backend; NULL for 0 bytes. */
static void *take(MatchHost *host, size_t bytes) {
    void *const memory = bytes ? cusi_hostAllocate(bytes) : NULL;
    if (memory)
        host->memory[host->buffers++] = memory;
    else
        host->lacking = bytes ? bytes : host->lacking;
    return memory;
}

/* Sizes of 64 bits do not overflow, since a frame has less than 2^32 pixels. */
static cusStatus allocate(const MatchModel *m, MatchHost *host) {
    const size_t count = (size_t)m->templates, channels = (size_t)m->channels;
    const size_t map = (size_t)m->orows * (size_t)m->ocols;
    const size_t tiles = match_tilesAcross(m) * (size_t)m->orows;
    const size_t rows = (size_t)host->block_rows, cols = (size_t)host->block_cols, threads = (size_t)host->threads;
    const size_t in_cols = threads * (cols + (size_t)m->w - 1) * sizeof(double);
    host->sums = take(host, count * sizeof *host->sums);
    host->templates = take(host, count * host->template_bytes);
    host->mask.inside = take(host, m->masked ? (size_t)m->w * (size_t)m->h * channels : 0);
    host->mask.weights = take(host, m->weighted ? (size_t)m->w * (size_t)m->h * channels * sizeof(float) : 0);
    host->samples = take(host, (size_t)m->samples * sizeof *host->samples);
    host->sums_rows = m->masked ? rows : threads * match_rowsAtOnce(host);
    host->s1 = take(host, m->needs_s1 ? host->sums_rows * cols * channels * sizeof(double) : 0);
    host->s2 = take(host, m->needs_s2 ? host->sums_rows * cols * sizeof(double) : 0);
    host->column1 = take(host, in_cols * channels);
    host->column2 = take(host, in_cols);
    host->correlation = take(host, threads * cols * sizeof(double));
    host->ranges = take(host, (size_t)m->count * map * sizeof *host->ranges);
    host->costs = take(host, map * sizeof *host->costs);
    host->tiles = take(host, (size_t)m->count * tiles * sizeof *host->tiles);
    host->listed_tiles = take(host, tiles * sizeof *host->listed_tiles);
    host->bests = take(host, threads * sizeof *host->bests);
    if (host->dots) {
        host->taps = take(host, count * host->taps_size * sizeof *host->taps);
        host->packed = take(host, (rows + host->dots->rows + (size_t)m->h) * host->packed_cols * sizeof *host->packed);
        host->dot_sums = take(host, threads * host->dots->rows * host->sums_cols * sizeof *host->dot_sums);
    } else {
        const size_t points = (size_t)host->fft_rows * (size_t)host->fft_cols;
        const size_t spectrum = match_fft_spectrumSize(host->fft) * sizeof(float);
        const size_t spectrum64 = match_fft_spectrumSize(host->fft64) * sizeof(double);
        host->plane = take(host, points * sizeof(float));
        host->spectra = take(host, channels * spectrum);
        host->product = take(host, spectrum);
        host->template_spectra = take(host, count * channels * spectrum);
        host->plane64 = take(host, points * sizeof(double));
        host->planes64 = take(host, channels * spectrum64);
        host->spectra64 = take(host, channels * spectrum64);
        host->mask_spectra64 = take(host, m->weighted ? channels * spectrum64 : m->masked ? spectrum64 : 0);
    }
    CUSI_REQUIRE(!host->lacking, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory for %zu bytes", host->lacking);
    return CUS_OK;
}

void match_host_release(cusMatcher *matcher) {
    MatchHost *host = matcher->backend;
    if (!host)
        return;
    for (size_t i = 0; i < host->buffers; ++i)
        free(host->memory[i]);
    match_fft_destroy(host->fft);
    match_fft_destroy(host->fft64);
    free(host);
}

/* ---- Preparation ----------------------------------------------------------------------------------------------------- */

/* Copies the templates, with zeros where the mask is zero, and the mask. */
static void copyTemplates(const MatchModel *m, MatchHost *host, const void *templates, MatchMask mask,
                          const MatchTemplate *sums) {
    const size_t elements = (size_t)m->w * (size_t)m->h * (size_t)m->channels, count = (size_t)m->templates;
    const size_t element = m->integer ? 1 : sizeof(float);
    memcpy(host->sums, sums, count * sizeof *sums);
    memcpy(host->templates, templates, count * host->template_bytes);
    if (!mask.inside)
        return;
    memcpy(host->mask.inside, mask.inside, elements);
    if (mask.weights)
        memcpy(host->mask.weights, mask.weights, elements * sizeof(float));
    for (size_t i = 0; i < elements * count; ++i)
        if (!mask.inside[i % elements])
            memset(host->templates + i * element, 0, element);
}

static cusStatus createFft(const MatchModel *m, const MatchHost *host, size_t element, MatchFft **fft) {
    *fft = match_fft_createFor(match_fft_kernels(element, 0), host->fft_rows, host->fft_cols, host->block_rows + m->h - 1,
                               host->block_rows, host->threads);
    CUSI_REQUIRE(*fft, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory for an FFT of %d x %d%s", host->fft_rows,
                 host->fft_cols, element == sizeof(double) ? " in double" : "");
    return CUS_OK;
}

/* Spectra are computed in double, so that rounding is their only error. */
static void transformTemplates(const MatchModel *m, MatchHost *host) {
    const size_t spectrum = match_fft_spectrumSize(host->fft);
    const double scale = 1.0 / ((double)host->fft_rows * (double)host->fft_cols);
    for (int k = 0; k < m->templates; ++k)
        for (int p = 0; p < m->channels && !cusi_step(host->progress, 1); ++p) {
            match_transformTemplate(m, host, k, p, host->planes64);
            match_fft_roundSpectrum(host->fft64, host->planes64, scale / host->sums[k].unit, host->fft,
                                    host->template_spectra + ((size_t)k * (size_t)m->channels + (size_t)p) * spectrum);
        }
    if (!m->masked)
        return;
    for (int p = 0; p < (m->weighted ? m->channels : 1); ++p) {
        double *out = host->mask_spectra64 + (size_t)p * match_fft_spectrumSize(host->fft64);
        match_transformTemplate(m, host, 0, m->channels + p, out);
        for (size_t i = 0; i < match_fft_spectrumSize(host->fft64); ++i)
            out[i] *= scale;
    }
}

cusStatus match_host_prepare(cusMatcher *matcher, const void *templates, MatchMask mask, const MatchTemplate *sums) {
    MatchModel *m = &matcher->model;
    MatchHost *host = calloc(1, sizeof *host);
    CUSI_REQUIRE(host, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory");
    matcher->backend = host;
    host->template_bytes = (size_t)m->w * (size_t)m->h * (size_t)m->channels * (m->integer ? 1 : sizeof(float));
    host->threads = cusi_maxThreads();
    host->progress = cusi_progress();
    if (matcher->algorithm == CUS_MATCH_FFT) {
        chooseBlocks(m, host);
        CUS_TRY(createFft(m, host, sizeof(float), &host->fft));
        CUS_TRY(createFft(m, host, sizeof(double), &host->fft64));
    } else {
        match_planDots(m, host);
    }
    CUS_TRY(allocate(m, host));
    copyTemplates(m, host, templates, mask, sums);
    match_chooseSamples(m, mask, host->samples);
    if (host->dots) {
        match_packTemplates(m, host);
    } else {
        m->error = match_fft_correlationUnits(host->fft, m->channels) * 0x1p-24;
        match_prepareExact(m, host);
        CUSI_REQUIRE(!m->masked || host->pass_ns < INFINITY, CUS_ERROR_SIZE,
                     "cusMatcherCreate: mask has %.0f pixels inside, expected fewer in frames of %d x %d (rows x cols): "
                     "their sums would not be exact",
                     m->n, m->rows, m->cols);
        cusi_part(host->progress, 1, (int64_t)m->templates * m->channels);
        transformTemplates(m, host);
        CUS_TRY(cusi_proceed(host->progress));
    }
    const int rows = m->frames * m->count;
    CUS_TRY(cusMatCreate(&matcher->results, rows, m->max_matches * (int)sizeof(cusMatch), CUS_8UC1, CUS_HOST));
    for (int k = 0; k < rows; ++k)
        match_clearMatches(matcher, k);
    return CUS_OK;
}
