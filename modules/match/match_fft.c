/* The host's FFT in float: choice of the vector length, planes. */
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

#define MATCH_FFT_REAL       float
#define MATCH_FFT_TYPE(name) name
#define MATCH_FFT_NAME(name) match_fft_##name
#include "match_fft_planes.inc"

MatchFft *match_fft_create(int rows, int cols, int filled, int wanted) {
    return match_fft_createFor(match_fft_kernels(0), rows, cols, filled, wanted, 1);
}

size_t match_fft_spectrumFloats(int rows, int cols) {
    const MatchFftKernels *const kernels = match_fft_kernels(0);
    return panels(cols, kernels) * 2 * kernels->lanes * (size_t)rows;
}

size_t match_threadOf(int team) {
#ifdef _OPENMP
    return team > 1 ? (size_t)omp_get_thread_num() : 0;
#else
    (void)team;
    return 0;
#endif
}

void match_fft_correlate(MatchFft *fft, const float *a, const float *b, float *sum, int add) {
    const size_t panel = match_fft_panelSize(fft);
#pragma omp parallel for schedule(static) num_threads(fft->threads) if (fft->threads > 1)
    for (size_t i = 0; i < match_fft_panels(fft); ++i)
        correlatePanel(fft, i, a + i * panel, b + i * panel, sum + i * panel, add);
}

void match_fft_inverse(MatchFft *fft, float *spectrum, float *plane) {
    const size_t lanes = fft->kernels->lanes, wanted = (size_t)fft->wanted;
#pragma omp parallel num_threads(fft->threads) if (fft->threads > 1)
    {
#pragma omp for schedule(static)
        for (size_t i = 0; i < match_fft_panels(fft); ++i)
            fft->kernels->inverseColumns(&fft->column, spectrum + i * match_fft_panelSize(fft));
#pragma omp for schedule(static)
        for (size_t y = 0; y < wanted; y += lanes)
            inverseRows(fft, spectrum, plane, y);
    }
}
