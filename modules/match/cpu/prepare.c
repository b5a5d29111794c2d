/* Choice of block and FFT sizes, allocation, template spectra. */
#include "check.h"
#include "match/cpu/state.h"

#include <stdlib.h>
#include <string.h>

/* Nanoseconds per point and level of one transform (points * log2 points of them), and lost by threads that share a
 * transform: a tenth of the time, and the beginning and end of each stage. docs/internals/match.md. */
#define TUNING_FFT_NS     0.08
#define TUNING_SHARED     1.1
#define TUNING_STAGE_NS   1e4
#define TUNING_MAX_POINTS (1 << 26) /* in a transform, if possible: planes of 256 MB */
enum { TUNING_MAX_SPLIT = 64 };

/* Cuts the score map into the blocks that cost least; returns the nanoseconds of a frame's transforms. */
static double chooseBlocks(const MatchModel *m, MatchHost *host) {
    const double stages = TUNING_STAGE_NS * (3 * m->planes + 3 * m->count + 1);
    double best = INFINITY;
    host->block_rows = m->orows, host->block_cols = m->ocols; /* the first case below gives the same */
    for (int ny = 1; ny <= TUNING_MAX_SPLIT && ny <= m->orows; ++ny) {
        const int block_rows = (m->orows + ny - 1) / ny, rows = match_fft_goodSize(block_rows + m->h - 1);
        for (int nx = 1; nx <= TUNING_MAX_SPLIT && nx <= m->ocols; ++nx) {
            const int block_cols = (m->ocols + nx - 1) / nx, cols = match_fft_goodSize(block_cols + m->w - 1);
            const double points = (double)rows * cols, levels = points * log2(points + 1);
            const double ns =
                ny * nx * (TUNING_SHARED * TUNING_FFT_NS * (m->planes + m->count) * levels / host->threads + stages);
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

/* ---- Buffers ------------------------------------------------------------------------------------------------------------ */

/* Their sizes have 64 bits and do not overflow: a frame has less than 2^32 pixels. */
enum { BUFFERS = 17 };
typedef struct Buffer {
    void *at; /* the pointer to set */
    size_t bytes;
} Buffer;

static void listBuffers(const MatchModel *m, MatchHost *host, int fft, Buffer buffers[BUFFERS]) {
    const size_t elements = (size_t)m->w * (size_t)m->h * (size_t)m->channels, count = (size_t)m->count;
    const size_t map = (size_t)m->orows * (size_t)m->ocols, planes = (size_t)m->planes, channels = (size_t)m->channels;
    const size_t tiles = ((size_t)m->ocols + MATCH_TILE - 1) / MATCH_TILE * (size_t)m->orows;
    const size_t rows = (size_t)host->block_rows, cols = (size_t)host->block_cols, threads = (size_t)host->threads;
    const size_t in_cols = threads * (cols + (size_t)m->w - 1) * sizeof(double);
    const size_t points = fft ? (size_t)host->fft_rows * (size_t)host->fft_cols * sizeof(float) : 0;
    const size_t spectrum = fft ? match_fft_spectrumFloats(host->fft_rows, host->fft_cols) * sizeof(float) : 0;
    const Buffer all[BUFFERS] = {
        {&host->sums, count * sizeof *host->sums},
        {&host->templates, count * host->template_bytes},
        {&host->mask, m->masked ? elements : 0},
        {&host->plane, points},
        {&host->spectra, planes * spectrum},
        {&host->product, spectrum},
        {&host->template_spectra, count * planes * spectrum},
        {&host->s1, m->needs_s1 ? rows * cols * channels * sizeof(double) : 0},
        {&host->s2, m->needs_s2 ? rows * cols * sizeof(double) : 0},
        {&host->column1, in_cols * channels},
        {&host->column2, in_cols},
        {&host->correlation, MATCH_DOTS_ROWS * threads * cols * sizeof(double)},
        {&host->score_row, threads * cols * sizeof(float)},
        {&host->ranges, count * map * sizeof *host->ranges},
        {&host->costs, map * sizeof *host->costs},
        {&host->tiles, tiles * sizeof *host->tiles},
        {&host->listed_tiles, tiles * sizeof *host->listed_tiles},
    };
    memcpy(buffers, all, sizeof all);
}

static cusStatus allocate(const MatchModel *m, MatchHost *host, int fft) {
    Buffer buffers[BUFFERS];
    listBuffers(m, host, fft, buffers);
    for (size_t i = 0; i < BUFFERS; ++i) {
        void *const memory = buffers[i].bytes ? cusi_hostAllocate(buffers[i].bytes) : NULL;
        CUSI_REQUIRE(memory || !buffers[i].bytes, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory for %zu bytes",
                     buffers[i].bytes);
        memcpy(buffers[i].at, &memory, sizeof memory);
    }
    host->bests = calloc((size_t)host->threads, sizeof *host->bests);
    CUSI_REQUIRE(host->bests, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory");
    return CUS_OK;
}

void match_host_release(cusMatcher *matcher) {
    MatchHost *host = matcher->backend;
    if (!host)
        return;
    Buffer buffers[BUFFERS];
    listBuffers(&matcher->model, host, 0, buffers);
    for (size_t i = 0; i < BUFFERS; ++i) {
        void *memory;
        memcpy(&memory, buffers[i].at, sizeof memory);
        free(memory);
    }
    free(host->bests);
    match_fft_destroy(host->fft);
    match_fft64_destroy(host->fft64);
    free(host->taps);
    free(host->packed);
    free(host->plane64);
    free(host->planes64);
    free(host->spectra64);
    free(host);
}

/* ---- Preparation -------------------------------------------------------------------------------------------------------- */

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

/* Prepares the float transform, its error bound, and the templates' spectra. */
static cusStatus prepareFft(MatchModel *m, MatchHost *host) {
    host->fft = match_fft_createFor(match_fft_kernels(0), host->fft_rows, host->fft_cols, host->block_rows + m->h - 1,
                                    host->block_rows, host->threads);
    CUSI_REQUIRE(host->fft, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory for an FFT of %d x %d",
                 host->fft_rows, host->fft_cols);
    m->error = match_fft_correlationUnits(host->fft, m->planes) * 0x1p-24;
    const size_t spectrum = match_fft_spectrumFloats(host->fft_rows, host->fft_cols);
    const double scale = 1.0 / ((double)host->fft_rows * (double)host->fft_cols);
    for (int k = 0; k < m->count; ++k)
        for (int p = 0; p < m->planes; ++p) {
            match_transformTemplate(m, host, k, p, host->planes64);
            match_fft_roundSpectrum(host->fft64, host->planes64, scale, host->fft,
                                    host->template_spectra + ((size_t)k * (size_t)m->planes + (size_t)p) * spectrum);
        }
    return CUS_OK;
}

cusStatus match_host_prepare(cusMatcher *matcher, const void *templates, const uint8_t *mask, const MatchTemplate *sums) {
    MatchModel *m = &matcher->model;
    const int fft = matcher->algorithm == CUS_MATCH_FFT;
    MatchHost *host = calloc(1, sizeof *host);
    CUSI_REQUIRE(host, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory");
    matcher->backend = host;
    host->template_bytes = (size_t)m->w * (size_t)m->h * (size_t)m->channels * (m->integer ? 1 : sizeof(float));
    host->threads = cusi_maxThreads();
    if (fft)
        chooseBlocks(m, host);
    else
        CUS_TRY(match_prepareDots(m, host, templates));
    CUS_TRY(allocate(m, host, fft));
    copyTemplates(m, host, templates, mask, sums);
    if (fft) {
        CUS_TRY(match_prepareExact(m, host, templates, sums));
        CUS_TRY(prepareFft(m, host));
    }
    CUS_TRY(cusMatCreate(&matcher->results, m->count, m->max_matches * (int)sizeof(cusMatch), CUS_8UC1, CUS_HOST));
    for (int k = 0; k < m->count; ++k)
        match_clearMatches(matcher, k);
    return CUS_OK;
}
