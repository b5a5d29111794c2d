/* The host's FFT in double: for correlations that are exact once rounded, and for the templates' spectra in float, which then add
 * only their rounding to the error. */
#include "host.h"
#include "match_fft_lines.inc"

#include <stdlib.h>
#include <string.h>

const MatchFftKernels64 *match_fft64_kernels(int i) {
    const MatchFftKernels64 *available[4] = {NULL};
    int n = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        available[n++] = &match_fft64_avx512;
    if (__builtin_cpu_supports("avx2"))
        available[n++] = &match_fft64_avx2;
#endif
    available[n++] = &match_fft64_base;
    return i < n ? available[i] : NULL;
}

#define MATCH_FFT_REAL       double
#define MATCH_FFT_TYPE(name) name##64
#define MATCH_FFT_NAME(name) match_fft64_##name
#include "match_fft_planes.inc"

/* ---- Spectra in float --------------------------------------------------------------------------------------------------- */

/* Rounds a spectrum, whose panels may be wider or narrower than those in float. */
static void roundSpectrum(const MatchFft64 *wide, const double *from, double scale, const MatchFft *fft, float *to) {
    const size_t from_lanes = wide->kernels->lanes, to_lanes = fft->kernels->lanes;
    memset(to, 0, match_fft_panels(fft) * match_fft_panelSize(fft) * sizeof *to);
    for (size_t x = 0; x < (size_t)fft->cols / 2; ++x) {
        const double *in = from + x / from_lanes * match_fft64_panelSize(wide) + x % from_lanes;
        float *out = to + x / to_lanes * match_fft_panelSize(fft) + x % to_lanes;
        for (size_t y = 0; y < (size_t)fft->rows; ++y, in += 2 * from_lanes, out += 2 * to_lanes) {
            out[0] = (float)(in[0] * scale);
            out[to_lanes] = (float)(in[from_lanes] * scale);
        }
    }
}

int match_fft_forwardRounded(const MatchFft *fft, const float *plane, size_t filled, double scale, float *spectrum) {
    MatchFft64 *wide = match_fft64_createFor(match_fft64_kernels(0), fft->rows, fft->cols, (int)filled, 1, fft->threads);
    if (!wide)
        return 0;
    const size_t pixels = filled * (size_t)fft->cols, elements = match_fft64_panels(wide) * match_fft64_panelSize(wide);
    double *const input = cusi_hostAllocate(pixels * sizeof *input);
    double *const output = cusi_hostAllocate(elements * sizeof *output);
    if (input && output) {
        for (size_t i = 0; i < pixels; ++i)
            input[i] = plane[i];
        match_fft64_forward(wide, input, output);
        roundSpectrum(wide, output, scale, fft, spectrum);
    }
    const int made = input && output;
    free(input);
    free(output);
    match_fft64_destroy(wide);
    return made;
}
