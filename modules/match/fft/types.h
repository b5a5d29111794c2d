/* Kernels and plans for one element type: fft.h includes this twice, with MATCH_FFT_REAL, MATCH_FFT_TYPE and
 * MATCH_FFT_NAME defined. */

/* One vector length: kernels.h, compiled for it. Spectra and work are aligned to a vector. */
typedef struct MATCH_FFT_TYPE(MatchFftKernels) {
    const char *name;
    size_t lanes;
    /* Transforms the first `count` <= lanes rows of a plane (`half` is cols / 2 points) into rows of a spectrum of
     * `rows` rows. work: half->n + lanes points. */
    void (*forwardRows)(const MatchFftLine *half, const MATCH_FFT_REAL *split, const MATCH_FFT_REAL *plane, size_t count,
                        size_t rows, MATCH_FFT_REAL *spectrum, MATCH_FFT_REAL *work);
    /* Transforms one panel, whose rows from `filled` on are zero. */
    void (*forwardColumns)(const MatchFftLine *column, size_t filled, MATCH_FFT_REAL *panel);
    /* n elements of a panel: sum = a conj(b), or sum += a conj(b). */
    void (*correlate)(const MATCH_FFT_REAL *a, const MATCH_FFT_REAL *b, MATCH_FFT_REAL *sum, size_t n, int add);
    void (*inverseColumns)(const MatchFftLine *column, MATCH_FFT_REAL *panel);
    void (*inverseRows)(const MatchFftLine *half, const MATCH_FFT_REAL *split, const MATCH_FFT_REAL *spectrum, size_t count,
                        size_t rows, MATCH_FFT_REAL *plane, MATCH_FFT_REAL *work);
} MATCH_FFT_TYPE(MatchFftKernels);

struct MATCH_FFT_TYPE(MatchFft) {
    const MATCH_FFT_TYPE(MatchFftKernels) * kernels;
    int rows, cols, filled, wanted;
    int threads;
    MatchFftLine half, column;
    MATCH_FFT_REAL *split; /* (re, im) of e^(-pi i k / half.n) for k <= half.n / 2 */
    MATCH_FFT_REAL *work;  /* work_size elements for each thread */
    size_t work_size;
    MATCH_FFT_REAL *edge; /* products of column 0: (re, im) for each row */
};

/* The i-th table that this processor can run, best first, or NULL. */
const MATCH_FFT_TYPE(MatchFftKernels) * MATCH_FFT_NAME(kernels)(int i);

/* For sizes that createLine() accepts, cols even; the first `filled` rows of an input are nonzero, the first `wanted`
 * rows of a result are needed. NULL for other sizes or when out of memory. A team of threads shares each transform. */
MATCH_FFT_TYPE(MatchFft) * MATCH_FFT_NAME(createFor)(const MATCH_FFT_TYPE(MatchFftKernels) * kernels, int rows, int cols,
                                                     int filled, int wanted, int threads);
void MATCH_FFT_NAME(destroy)(MATCH_FFT_TYPE(MatchFft) * fft);

/* Panels of a spectrum, and elements in each. */
size_t MATCH_FFT_NAME(panels)(const MATCH_FFT_TYPE(MatchFft) * fft);
size_t MATCH_FFT_NAME(panelSize)(const MATCH_FFT_TYPE(MatchFft) * fft);

/* Unscaled. May overwrite the plane. */
void MATCH_FFT_NAME(forward)(MATCH_FFT_TYPE(MatchFft) * fft, MATCH_FFT_REAL *plane, MATCH_FFT_REAL *spectrum);

/* plane = the inverse transform, unscaled, of the sum of a conj(b) over all planes of two images, whose spectra follow each other. */
void MATCH_FFT_NAME(correlateAll)(MATCH_FFT_TYPE(MatchFft) * fft, const MATCH_FFT_REAL *a, const MATCH_FFT_REAL *b,
                                  int planes, MATCH_FFT_REAL *product, MATCH_FFT_REAL *plane);
