/* Transforms planes, rows first, then columns; threads share the work. fft.h explains the layout. */
#include "host.h"
#include "match/fft/fft.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

const MatchFftKernels *match_fft_kernels(size_t element, int i) {
    const int wide = element == sizeof(double);
    const MatchFftKernels *available[4] = {NULL};
    int n = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        available[n++] = wide ? &match_fft64_avx512 : &match_fft_avx512;
    if (__builtin_cpu_supports("avx2"))
        available[n++] = wide ? &match_fft64_avx2 : &match_fft_avx2;
#endif
    available[n++] = wide ? &match_fft64_base : &match_fft_base;
    return i < n ? available[i] : NULL;
}

/* ---- Plans ----------------------------------------------------------------------------------------------------------- */

MatchFft *match_fft_createFor(const MatchFftKernels *kernels, int rows, int cols, int filled, int wanted, int threads) {
    if (cols % 2)
        return NULL;
    MatchFft *fft = calloc(1, sizeof *fft);
    if (!fft)
        return NULL;
    *fft =
        (MatchFft){.kernels = kernels, .rows = rows, .cols = cols, .filled = filled, .wanted = wanted, .threads = threads};
    const size_t lanes = kernels->lanes, element = kernels->element;
    fft->work_bytes = 2 * lanes * ((size_t)cols / 2 + lanes) * element;
    if (match_fft_createLine(&fft->half, cols / 2, element) && match_fft_createLine(&fft->column, rows, element)) {
        fft->split = match_fft_createSplit(cols / 2, element);
        fft->work = cusi_hostAllocate(fft->work_bytes * (size_t)threads);
        fft->edge = malloc(2 * (size_t)rows * element);
    }
    if (fft->split && fft->work && fft->edge)
        return fft;
    match_fft_destroy(fft);
    return NULL;
}

void match_fft_destroy(MatchFft *fft) {
    if (!fft)
        return;
    match_fft_releaseLine(&fft->half);
    match_fft_releaseLine(&fft->column);
    free(fft->split);
    free(fft->work);
    free(fft->edge);
    free(fft);
}

static size_t panelsOf(const MatchFft *fft) {
    return ((size_t)fft->cols / 2 + fft->kernels->lanes - 1) / fft->kernels->lanes;
}

size_t match_fft_panelSize(const MatchFft *fft) {
    return 2 * fft->kernels->lanes * (size_t)fft->rows;
}

size_t match_fft_spectrumSize(const MatchFft *fft) {
    return panelsOf(fft) * match_fft_panelSize(fft);
}

/* Panels in double may be wider or narrower than those in float. */
void match_fft_roundSpectrum(const MatchFft *wide, const double *from, double scale, const MatchFft *fft, float *to) {
    const size_t from_lanes = wide->kernels->lanes, to_lanes = fft->kernels->lanes;
    memset(to, 0, match_fft_spectrumSize(fft) * sizeof *to);
    for (size_t x = 0; x < (size_t)fft->cols / 2; ++x) {
        const double *in = from + x / from_lanes * match_fft_panelSize(wide) + x % from_lanes;
        float *out = to + x / to_lanes * match_fft_panelSize(fft) + x % to_lanes;
        for (size_t y = 0; y < (size_t)fft->rows; ++y, in += 2 * from_lanes, out += 2 * to_lanes) {
            out[0] = (float)(in[0] * scale);
            out[to_lanes] = (float)(in[from_lanes] * scale);
        }
    }
}

/* ---- Transforms ------------------------------------------------------------------------------------------------------ */

/* Returns the address of element i of a plane or spectrum. */
static void *at(const MatchFft *fft, const void *elements, size_t i) {
    return (char *)elements + i * fft->kernels->element;
}

static char *threadWork(const MatchFft *fft) {
    return fft->work + (fft->threads > 1 ? (size_t)cusi_threadNumber() : 0) * fft->work_bytes;
}

/* Returns how many rows are transformed together from row y on: as many as a vector has lanes, or the rest. */
static size_t groupRows(const MatchFft *fft, size_t y, size_t end) {
    return end - y < fft->kernels->lanes ? end - y : fft->kernels->lanes;
}

void match_fft_forward(const MatchFft *fft, void *plane, void *spectrum) {
    const MatchFftKernels *kernels = fft->kernels;
    const size_t filled = (size_t)fft->filled, panels = panelsOf(fft), panel = match_fft_panelSize(fft);
    CusiProgress *const progress = cusi_progress(); /* after a cancel, results are unspecified */
#pragma omp parallel for schedule(static) num_threads(fft->threads) if (fft->threads > 1)
    for (size_t y = 0; y < filled; y += kernels->lanes)
        if (!cusi_step(progress, 0))
            kernels->forwardRows(&fft->half, fft->split, at(fft, plane, y * (size_t)fft->cols), groupRows(fft, y, filled),
                                 (size_t)fft->rows, at(fft, spectrum, y * 2 * kernels->lanes), threadWork(fft));
#pragma omp parallel for schedule(static) num_threads(fft->threads) if (fft->threads > 1)
    for (size_t i = 0; i < panels; ++i)
        if (!cusi_step(progress, 0))
            kernels->forwardColumns(&fft->column, filled, at(fft, spectrum, i * panel));
}

void match_fft_correlateAll(const MatchFft *fft, const void *a, const void *b, int planes, void *product, void *plane) {
    const MatchFftKernels *kernels = fft->kernels;
    const size_t wanted = (size_t)fft->wanted, panels = panelsOf(fft), panel = match_fft_panelSize(fft);
    CusiProgress *const progress = cusi_progress();
#pragma omp parallel for schedule(static) num_threads(fft->threads) if (fft->threads > 1)
    for (size_t i = 0; i < panels; ++i) {
        if (cusi_step(progress, 0))
            continue;
        void *const sum = at(fft, product, i * panel);
        for (size_t p = 0; p < (size_t)planes; ++p) {
            const size_t from = (p * panels + i) * panel;
            kernels->correlate(&fft->column, at(fft, a, from), at(fft, b, from), sum, p > 0, i ? NULL : fft->edge);
        }
        kernels->inverseColumns(&fft->column, sum);
    }
#pragma omp parallel for schedule(static) num_threads(fft->threads) if (fft->threads > 1)
    for (size_t y = 0; y < wanted; y += kernels->lanes)
        if (!cusi_step(progress, 0))
            kernels->inverseRows(&fft->half, fft->split, at(fft, product, y * 2 * kernels->lanes),
                                 groupRows(fft, y, wanted), (size_t)fft->rows, at(fft, plane, y * (size_t)fft->cols),
                                 threadWork(fft));
}

/* ---- Double kernels with vectors of 16 bytes (SSE2, NEON), which every processor has */

#define MATCH_FFT_DOUBLE
#define MATCH_FFT_LANES 2
#define MATCH_FFT_TABLE match_fft64_base
#define MATCH_FFT_LABEL "16-byte vectors"
#include "match/fft/kernels.h"
