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

/* Element i of a plane, a spectrum or a table of factors. */
static inline void match_fft_put(void *elements, size_t i, size_t element, double value) {
    if (element == sizeof(float))
        ((float *)elements)[i] = (float)value;
    else
        ((double *)elements)[i] = value;
}

/* n must have no prime factor above 7. element: sizeof(float) or sizeof(double). Returns 0 for other n, or if out of
 * memory; release the line either way. */
int match_fft_createLine(MatchFftLine *line, int n, size_t element);
void match_fft_releaseLine(MatchFftLine *line);

/* The factors of the last step between a line of n points and the spectrum of 2 n real ones. */
void *match_fft_createSplit(int n, size_t element);

/* Rounding errors of a transform, in units of half an ulp (2^-24 for float), as in docs/internals/match.md: of the
 * result's Euclidean norm; and of each result, relative to the sum of the magnitudes of all points. */
double match_fft_normUnits(const MatchFftLine *line);
double match_fft_sumUnits(const MatchFftLine *line);

/* One element type and vector length: kernels.h, compiled for it. Spectra and work are aligned to a vector. */
typedef struct MatchFftKernels {
    const char *name;      /* "AVX-512", "AVX2" or "16-byte vectors" */
    size_t lanes, element; /* element: sizeof(float) or sizeof(double) */
    /* Transforms the first `count` <= lanes rows of a plane (`half` is cols / 2 points) into rows of a spectrum of
     * `rows` rows. work: half->n + lanes points. */
    void (*forwardRows)(const MatchFftLine *half, const void *split, const void *plane, size_t count, size_t rows,
                        void *spectrum, void *work);
    /* Transforms one panel, whose rows from `filled` on are zero. */
    void (*forwardColumns)(const MatchFftLine *column, size_t filled, void *panel);
    /* sum = a conj(b), or sum += a conj(b), of one panel. edge: for the first panel, room for two elements a row; otherwise
     * NULL. */
    void (*correlate)(const MatchFftLine *column, const void *a, const void *b, void *sum, int add, void *edge);
    void (*inverseColumns)(const MatchFftLine *column, void *panel);
    void (*inverseRows)(const MatchFftLine *half, const void *split, const void *spectrum, size_t count, size_t rows,
                        void *plane, void *work);
} MatchFftKernels;

/* The i-th table for elements of that size that this processor can run, best first, or NULL. */
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

/* For sizes that createLine() accepts, cols even; the first `filled` rows of an input are nonzero, the first `wanted`
 * rows of a result are needed. NULL for other sizes or when out of memory. A team of threads shares each transform. */
MatchFft *match_fft_createFor(const MatchFftKernels *kernels, int rows, int cols, int filled, int wanted, int threads);
void match_fft_destroy(MatchFft *fft);

/* Elements of a panel, and of a spectrum. */
size_t match_fft_panelSize(const MatchFft *fft);
size_t match_fft_spectrumSize(const MatchFft *fft);

/* Unscaled. May overwrite the plane. */
void match_fft_forward(const MatchFft *fft, void *plane, void *spectrum);

/* plane = the inverse transform, unscaled, of the sum of a conj(b) over all planes of two images, whose spectra follow each
 * other. */
void match_fft_correlateAll(const MatchFft *fft, const void *a, const void *b, int planes, void *product, void *plane);

/* Rounds `scale` times a spectrum in double to float. */
void match_fft_roundSpectrum(const MatchFft *wide, const double *from, double scale, const MatchFft *fft, float *to);

/* Rounding error of a correlation of planes, in the same units, relative to the product of their norms:
 * match_fft_forward() of one, match_fft_roundSpectrum() of the other, and match_fft_correlateAll(). */
double match_fft_correlationUnits(const MatchFft *fft, int planes);

/* An upper bound of the same, in units of 2^-53, for transforms of `points` points in double: match_fft_forward() of
 * both planes, one spectrum scaled, and match_fft_correlateAll(). */
double match_fft64_correlationUnits(double points);

#ifdef __cplusplus
}
#endif

#endif
