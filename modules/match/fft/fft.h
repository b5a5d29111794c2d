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

/* Returns the smallest size >= n that a transform accepts: even, and half of it a product of 2, 3, 5 and 7. */
int match_fft_goodSize(int n);

enum { MATCH_FFT_MAX_PASSES = 32, MATCH_FFT_MAX_LANES = 16, MATCH_FFT_MAX_RADIX = 8 };

typedef struct MatchFftLine {
    int n, passes;
    int radix[MATCH_FFT_MAX_PASSES];
    /* Twiddle factors in the element type. A pass over parts of r m points has, for each j < m, (re, im) of
     * e^(-2 pi i j q / (r m)) for q = 1 .. r - 1. */
    void *twiddles[MATCH_FFT_MAX_PASSES];
    int *position; /* where each frequency is stored */
} MatchFftLine;

/* Stores element i of a plane, a spectrum or a table of factors. */
static inline void match_fft_put(void *elements, size_t i, size_t element, double value) {
    if (element == sizeof(float))
        ((float *)elements)[i] = (float)value;
    else
        ((double *)elements)[i] = value;
}

/* Makes the passes of a line. element: sizeof(float) or sizeof(double). Returns 0 if n has a prime factor above 7, or if
 * out of memory; the line must be released either way. */
int match_fft_createLine(MatchFftLine *line, int n, size_t element);
void match_fft_releaseLine(MatchFftLine *line);

/* Makes the factors of the last step between a line of n points and the spectrum of 2 n real ones. */
void *match_fft_createSplit(int n, size_t element);

/* Return rounding errors of a transform in units of half an ulp (2^-24 for float), see docs/internals/match.md:
 * relative to the result's Euclidean norm; and of each result, relative to the sum of the magnitudes of all points. */
double match_fft_normUnits(const MatchFftLine *line);
double match_fft_sumUnits(const MatchFftLine *line);

/* The functions of kernels.h, compiled for one element type and vector length. Spectra and work are aligned to a vector. */
typedef struct MatchFftKernels {
    const char *name;      /* "AVX-512", "AVX2" or "16-byte vectors" */
    size_t lanes, element; /* element: sizeof(float) or sizeof(double) */
    /* Transforms the first `count` <= lanes rows of a plane (`half` is cols / 2 points) into rows of a spectrum of
     * `rows` rows. work: half->n + lanes points. */
    void (*forwardRows)(const MatchFftLine *half, const void *split, const void *plane, size_t count, size_t rows,
                        void *spectrum, void *work);
    /* Transforms one panel, whose rows from `filled` on are zero. */
    void (*forwardColumns)(const MatchFftLine *column, size_t filled, void *panel);
    /* Sets sum to a conj(b), or adds it, for one panel. edge: room for two elements a row for the first panel, otherwise
     * NULL. */
    void (*correlate)(const MatchFftLine *column, const void *a, const void *b, void *sum, int add, void *edge);
    void (*inverseColumns)(const MatchFftLine *column, void *panel);
    void (*inverseRows)(const MatchFftLine *half, const void *split, const void *spectrum, size_t count, size_t rows,
                        void *plane, void *work);
} MatchFftKernels;

/* Returns the i-th table for elements of that size that this processor can run, best first, or NULL. */
const MatchFftKernels *match_fft_kernels(size_t element, int i);
extern const MatchFftKernels match_fft_base, match_fft_avx2, match_fft_avx512;
extern const MatchFftKernels match_fft64_base, match_fft64_avx2, match_fft64_avx512;

/* A plan with its workspace. Planes and spectra have the kernels' element type. */
typedef struct MatchFft {
    const MatchFftKernels *kernels;
    int rows, cols, filled, wanted;
    int threads;
    MatchFftLine half, column;
    void *split; /* (re, im) of e^(-pi i k / half.n) for k <= half.n / 2 */
    char *work;  /* work_bytes for each thread */
    size_t work_bytes;
    void *edge; /* products of column 0: (re, im) for each row */
} MatchFft;

/* Makes a plan for sizes that createLine() accepts, with even cols; NULL for other sizes or if out of memory. Only the
 * first `filled` rows of inputs may be nonzero, and only the first `wanted` rows of results are computed. Threads share
 * each transform. */
MatchFft *match_fft_createFor(const MatchFftKernels *kernels, int rows, int cols, int filled, int wanted, int threads);
void match_fft_destroy(MatchFft *fft);

/* Return the numbers of elements of a panel and of a spectrum. */
size_t match_fft_panelSize(const MatchFft *fft);
size_t match_fft_spectrumSize(const MatchFft *fft);

/* Transforms a plane, which it may overwrite, without scaling. */
void match_fft_forward(const MatchFft *fft, void *plane, void *spectrum);

/* Sets `plane` to the unscaled inverse transform of the sum of a conj(b) over all planes of two images, whose spectra
 * follow each other. */
void match_fft_correlateAll(const MatchFft *fft, const void *a, const void *b, int planes, void *product, void *plane);

/* Rounds `scale` times a spectrum in double to float. */
void match_fft_roundSpectrum(const MatchFft *wide, const double *from, double scale, const MatchFft *fft, float *to);

/* Returns the rounding error of a correlation of planes, in the same units, relative to the product of their norms: of
 * match_fft_forward() of one, match_fft_roundSpectrum() of the other, and match_fft_correlateAll(). */
double match_fft_correlationUnits(const MatchFft *fft, int planes);

/* Returns an upper bound of that error in units of 2^-53 for transforms of `points` points in double:
 * match_fft_forward() of both planes, one spectrum scaled, and match_fft_correlateAll(). */
double match_fft64_correlationUnits(double points);

#ifdef __cplusplus
}
#endif

#endif
