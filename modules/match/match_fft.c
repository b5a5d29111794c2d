/* The host's FFT of planes: rows, then columns, shared by a team of threads. How: match_fft_lines.inc. */
#include "host.h"
#include "match_fft_lines.inc"

#include <stdlib.h>
#include <string.h>

const MatchFftKernels *match_fft_kernels(int i) {
    const MatchFftKernels *available[4] = {NULL};
    int n = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        available[n++] = &match_fft_avx512;
    if (__builtin_cpu_supports("avx2"))
        available[n++] = &match_fft_avx2;
#endif
    available[n++] = &match_fft_base;
    return i < n ? available[i] : NULL;
}

const char *match_fft_name(void) {
    return match_fft_kernels(0)->name;
}

/* ---- Plans -------------------------------------------------------------------------------------------------------------- */

static size_t panels(int cols, const MatchFftKernels *kernels) {
    return ((size_t)cols / 2 + kernels->lanes - 1) / kernels->lanes;
}

MatchFft *match_fft_createFor(const MatchFftKernels *kernels, int rows, int cols, int filled, int wanted, int threads) {
    if (cols % 2)
        return NULL;
    MatchFft *fft = calloc(1, sizeof *fft);
    if (!fft)
        return NULL;
    fft->kernels = kernels;
    fft->rows = rows, fft->cols = cols, fft->filled = filled, fft->wanted = wanted;
    fft->threads = threads;
    const size_t lanes = kernels->lanes;
    fft->work_floats = 2 * lanes * ((size_t)cols / 2 + lanes);
    if (match_fft_createLine(&fft->half, cols / 2, sizeof(float)) &&
        match_fft_createLine(&fft->column, rows, sizeof(float))) {
        fft->split = match_fft_createSplit(cols / 2, sizeof(float));
        fft->work = cusi_hostAllocate(fft->work_floats * (size_t)threads * sizeof(float));
        fft->edge = malloc(2 * (size_t)rows * sizeof(float));
    }
    if (fft->split && fft->work && fft->edge)
        return fft;
    match_fft_destroy(fft);
    return NULL;
}

MatchFft *match_fft_create(int rows, int cols, int filled, int wanted) {
    return match_fft_createFor(match_fft_kernels(0), rows, cols, filled, wanted, 1);
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

size_t match_fft_panels(const MatchFft *fft) {
    return panels(fft->cols, fft->kernels);
}

size_t match_fft_panelFloats(const MatchFft *fft) {
    return 2 * fft->kernels->lanes * (size_t)fft->rows;
}

size_t match_fft_spectrumFloats(int rows, int cols) {
    const MatchFftKernels *const kernels = match_fft_kernels(0);
    return panels(cols, kernels) * 2 * kernels->lanes * (size_t)rows;
}

/* ---- Transforms --------------------------------------------------------------------------------------------------------- */

size_t match_threadOf(int team) {
#ifdef _OPENMP
    return team > 1 ? (size_t)omp_get_thread_num() : 0;
#else
    (void)team;
    return 0;
#endif
}

static float *threadWork(const MatchFft *fft) {
    return fft->work + match_threadOf(fft->threads) * fft->work_floats;
}

/* Of a group of rows, as many as a vector has lanes. */
static size_t groupRows(const MatchFft *fft, size_t y, size_t end) {
    return end - y < fft->kernels->lanes ? end - y : fft->kernels->lanes;
}

void match_fft_forward(MatchFft *fft, float *plane, float *spectrum) {
    const size_t lanes = fft->kernels->lanes, rows = (size_t)fft->rows, filled = (size_t)fft->filled;
#pragma omp parallel num_threads(fft->threads) if (fft->threads > 1)
    {
#pragma omp for schedule(static)
        for (size_t y = 0; y < filled; y += lanes)
            fft->kernels->forwardRows(&fft->half, fft->split, plane + y * (size_t)fft->cols, groupRows(fft, y, filled),
                                      rows, spectrum + y * 2 * lanes, threadWork(fft));
#pragma omp for schedule(static)
        for (size_t i = 0; i < match_fft_panels(fft); ++i)
            fft->kernels->forwardColumns(&fft->column, filled, spectrum + i * match_fft_panelFloats(fft));
    }
}

/* Column 0 of the first panel holds the spectra of two real columns, A + i B. The products of each go to fft->edge: `real` and
 * `imaginary` for each row. */
static void correlateRealColumns(const MatchFft *fft, const float *a, const float *b) {
    const size_t lanes = fft->kernels->lanes;
    const int n = fft->rows;
    for (int k = 0; 2 * k <= n; ++k) {
        const size_t row = (size_t)fft->column.position[k], mirrored_row = (size_t)fft->column.position[k ? n - k : 0];
        const size_t at = 2 * lanes * row, mirrored = 2 * lanes * mirrored_row;
        /* Twice A and B of the first plane, then of the second. */
        const float ar = a[at] + a[mirrored], ai = a[at + lanes] - a[mirrored + lanes];
        const float br = a[at + lanes] + a[mirrored + lanes], bi = a[mirrored] - a[at];
        const float cr = b[at] + b[mirrored], ci = b[at + lanes] - b[mirrored + lanes];
        const float dr = b[at + lanes] + b[mirrored + lanes], di = b[mirrored] - b[at];
        const float pr = 0.25f * (ar * cr + ai * ci), pi = 0.25f * (ai * cr - ar * ci);
        const float qr = 0.25f * (br * dr + bi * di), qi = 0.25f * (bi * dr - br * di);
        fft->edge[2 * row] = pr - qi;
        fft->edge[2 * row + 1] = pi + qr;
        fft->edge[2 * mirrored_row] = pr + qi;
        fft->edge[2 * mirrored_row + 1] = qr - pi;
    }
}

/* sum = a conj(b), or sum += a conj(b), of panel i; a, b, sum: the panel. */
static void correlatePanel(const MatchFft *fft, size_t i, const float *a, const float *b, float *sum, int add) {
    const size_t lanes = fft->kernels->lanes, rows = (size_t)fft->rows;
    if (i == 0) {
        correlateRealColumns(fft, a, b);
        for (size_t y = 0; add && y < rows; ++y) {
            fft->edge[2 * y] += sum[2 * lanes * y];
            fft->edge[2 * y + 1] += sum[2 * lanes * y + lanes];
        }
    }
    fft->kernels->correlate(a, b, sum, match_fft_panelFloats(fft), add);
    for (size_t y = 0; i == 0 && y < rows; ++y) {
        sum[2 * lanes * y] = fft->edge[2 * y];
        sum[2 * lanes * y + lanes] = fft->edge[2 * y + 1];
    }
}

void match_fft_correlate(MatchFft *fft, const float *a, const float *b, float *sum, int add) {
    const size_t panel = match_fft_panelFloats(fft);
#pragma omp parallel for schedule(static) num_threads(fft->threads) if (fft->threads > 1)
    for (size_t i = 0; i < match_fft_panels(fft); ++i)
        correlatePanel(fft, i, a + i * panel, b + i * panel, sum + i * panel, add);
}

static void inverseRows(MatchFft *fft, const float *spectrum, float *plane, size_t y) {
    const size_t lanes = fft->kernels->lanes, wanted = (size_t)fft->wanted;
    fft->kernels->inverseRows(&fft->half, fft->split, spectrum + y * 2 * lanes, groupRows(fft, y, wanted),
                              (size_t)fft->rows, plane + y * (size_t)fft->cols, threadWork(fft));
}

void match_fft_inverse(MatchFft *fft, float *spectrum, float *plane) {
    const size_t lanes = fft->kernels->lanes, wanted = (size_t)fft->wanted;
#pragma omp parallel num_threads(fft->threads) if (fft->threads > 1)
    {
#pragma omp for schedule(static)
        for (size_t i = 0; i < match_fft_panels(fft); ++i)
            fft->kernels->inverseColumns(&fft->column, spectrum + i * match_fft_panelFloats(fft));
#pragma omp for schedule(static)
        for (size_t y = 0; y < wanted; y += lanes)
            inverseRows(fft, spectrum, plane, y);
    }
}

void match_fft_correlateAll(MatchFft *fft, const float *a, const float *b, int planes, float *product, float *plane) {
    const size_t lanes = fft->kernels->lanes, wanted = (size_t)fft->wanted, panel = match_fft_panelFloats(fft);
    const size_t spectrum = panel * match_fft_panels(fft);
#pragma omp parallel num_threads(fft->threads) if (fft->threads > 1)
    {
#pragma omp for schedule(static)
        for (size_t i = 0; i < match_fft_panels(fft); ++i) {
            for (size_t p = 0; p < (size_t)planes; ++p)
                correlatePanel(fft, i, a + p * spectrum + i * panel, b + p * spectrum + i * panel, product + i * panel,
                               p > 0);
            fft->kernels->inverseColumns(&fft->column, product + i * panel);
        }
#pragma omp for schedule(static)
        for (size_t y = 0; y < wanted; y += lanes)
            inverseRows(fft, product, plane, y);
    }
}
