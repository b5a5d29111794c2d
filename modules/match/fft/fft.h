/* The host's FFT: real 2-D transforms in float and double.
 *
 * Lines. A line is a complex signal of n = 2^a 3^b 5^c 7^d points. As many lines as a vector has lanes are transformed at
 * once; lane i of every point belongs to line i. Butterflies need no shuffles, so one source serves every vector length and
 * element type (kernels.h). Forward, decimation in frequency leaves frequency k at point position[k]; inverse, decimation
 * in time expects it there. Nothing is reordered in between.
 *
 * Planes. A real row of 2 m points becomes a line of m: even points are real, odd points imaginary parts. Spectra
 * consist of panels of `lanes` columns, `rows` points each, so that a panel is a line: column x is lane x % lanes of
 * panel x / lanes. Column 0 holds the two real columns of a row's spectrum, 0 and m, as real and imaginary part. */
#ifndef CUSI_MATCH_FFT_FFT_H
#define CUSI_MATCH_FFT_FFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The vectors that it uses on this processor: "AVX-512", "AVX2" or "16-byte vectors". */
const char *match_fft_name(void);

/* The smallest size >= n that it accepts: even, with half of it a product of 2, 3, 5 and 7. */
int match_fft_goodSize(int n);

enum { MATCH_FFT_MAX_PASSES = 32, MATCH_FFT_MAX_LANES = 16, MATCH_FFT_MAX_RADIX = 8 };

typedef struct MatchFftLine {
    int n, passes;
    int radix[MATCH_FFT_MAX_PASSES];
    /* In the element type. For each pass over parts of r m points, for each j < m: (re, im) of e^(-2 pi i j q / (r m)) for
     * q = 1 .. r - 1. */
    void *twiddles[MATCH_FFT_MAX_PASSES];
    int *position; /* where each frequency is stored */
} MatchFftLine;

/* n must have no prime factor above 7. element: sizeof(float) or sizeof(double). Returns 0 for other n, or if out of
 * memory; release the line either way. */
int match_fft_createLine(MatchFftLine *line, int n, size_t element);
void match_fft_releaseLine(MatchFftLine *line);

/* Rounding errors of a transform, in units of half an ulp (2^-24 for float), as in docs/internals/match.md: of the
 * result's Euclidean norm; and of each result, relative to the sum of the magnitudes of all points. */
double match_fft_normUnits(const MatchFftLine *line);
double match_fft_sumUnits(const MatchFftLine *line);

/* A plan with its workspace. */
typedef struct MatchFft MatchFft;
typedef struct MatchFft64 MatchFft64;

/* The same for a correlation of planes, relative to the product of their norms: match_fft_forward() of one,
 * match_fft_roundSpectrum() of the other, and match_fft_correlateAll(). */
double match_fft_correlationUnits(const MatchFft *fft, int planes);

/* An upper bound of the same, in units of 2^-53, for transforms of `points` points in double: match_fft64_forward() of
 * both planes, one spectrum scaled, and match_fft64_correlateAll(). */
double match_fft64_correlationUnits(double points);

/* Kernels, plans and planes for float, then for double: MatchFft64, match_fft64_*. */
#define MATCH_FFT_REAL       float
#define MATCH_FFT_TYPE(name) name
#define MATCH_FFT_NAME(name) match_fft_##name
#include "match/fft/types.h"
#undef MATCH_FFT_REAL
#undef MATCH_FFT_TYPE
#undef MATCH_FFT_NAME

#define MATCH_FFT_REAL       double
#define MATCH_FFT_TYPE(name) name##64
#define MATCH_FFT_NAME(name) match_fft64_##name
#include "match/fft/types.h"
#undef MATCH_FFT_REAL
#undef MATCH_FFT_TYPE
#undef MATCH_FFT_NAME

extern const MatchFftKernels match_fft_base, match_fft_avx2, match_fft_avx512;
extern const MatchFftKernels64 match_fft64_base, match_fft64_avx2, match_fft64_avx512;

/* The factors of the last step between a line of n points and the spectrum of 2 n real ones. */
void *match_fft_createSplit(int n, size_t element);

/* Floats of one spectrum. */
size_t match_fft_spectrumFloats(int rows, int cols);

/* Rounds `scale` times a spectrum in double to float. */
void match_fft_roundSpectrum(const MatchFft64 *wide, const double *from, double scale, const MatchFft *fft, float *to);

/* Number of the calling thread in a team; 0 if it is alone. */
size_t match_threadOf(int team);

#ifdef __cplusplus
}
#endif

#endif
