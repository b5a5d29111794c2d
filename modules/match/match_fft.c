/* The host's FFT by KissFFT, or none. match_fft_opencv.cpp uses OpenCV's core instead; module.cmake chooses. */
#include "match_fft.h"

#ifdef CUSI_FFT_KISS

#include "host.h"

#include <kiss_fftr.h>
#include <stdlib.h>

/* Rows by real transforms, columns by complex ones. */
struct MatchFft {
    int rows, cols;
    kiss_fftr_cfg row, row_back;
    kiss_fft_cfg column, column_back;
    kiss_fft_cpx *transformed; /* one column */
};

const char *match_fft_name(void) {
    return "KissFFT";
}

int match_fft_goodSize(int n) {
    return kiss_fftr_next_fast_size_real(n);
}

MatchFft *match_fft_create(int rows, int cols, int filled, int wanted) {
    (void)filled, (void)wanted;
    MatchFft *fft = malloc(sizeof *fft);
    if (!fft)
        return NULL;
    *fft = (MatchFft){rows,
                      cols,
                      kiss_fftr_alloc(cols, 0, NULL, NULL),
                      kiss_fftr_alloc(cols, 1, NULL, NULL),
                      kiss_fft_alloc(rows, 0, NULL, NULL),
                      kiss_fft_alloc(rows, 1, NULL, NULL),
                      malloc((size_t)rows * sizeof(kiss_fft_cpx))};
    if (!fft->row || !fft->row_back || !fft->column || !fft->column_back || !fft->transformed) {
        match_fft_destroy(fft);
        return NULL;
    }
    return fft;
}

void match_fft_destroy(MatchFft *fft) {
    if (!fft)
        return;
    free(fft->row);
    free(fft->row_back);
    free(fft->column);
    free(fft->column_back);
    free(fft->transformed);
    free(fft);
}

static void transformColumns(MatchFft *fft, kiss_fft_cfg plan, kiss_fft_cpx *spectrum) {
    const int width = fft->cols / 2 + 1;
    for (int x = 0; x < width; ++x) {
        kiss_fft_stride(plan, spectrum + x, fft->transformed, width);
        for (size_t y = 0; y < (size_t)fft->rows; ++y)
            spectrum[y * (size_t)width + (size_t)x] = fft->transformed[y];
    }
}

size_t match_fft_spectrumFloats(int rows, int cols) {
    return 2 * (size_t)rows * (size_t)(cols / 2 + 1);
}

void match_fft_forward(MatchFft *fft, float *plane, float *spectrum) {
    for (size_t y = 0; y < (size_t)fft->rows; ++y)
        kiss_fftr(fft->row, plane + y * (size_t)fft->cols, (kiss_fft_cpx *)spectrum + y * (size_t)(fft->cols / 2 + 1));
    transformColumns(fft, fft->column, (kiss_fft_cpx *)spectrum);
}

CUSI_MULTIVERSION
static void correlate(const float *a, const float *b, float *sum, size_t n, float keep) {
    for (size_t i = 0; i < n; ++i) {
        const float ar = a[2 * i], ai = a[2 * i + 1], br = b[2 * i], bi = b[2 * i + 1];
        sum[2 * i] = keep * sum[2 * i] + (ar * br + ai * bi);
        sum[2 * i + 1] = keep * sum[2 * i + 1] + (ai * br - ar * bi);
    }
}

void match_fft_correlate(MatchFft *fft, const float *a, const float *b, float *sum, int add) {
    const size_t n = match_fft_spectrumFloats(fft->rows, fft->cols) / 2;
    if (!add)
        for (size_t i = 0; i < 2 * n; ++i)
            sum[i] = 0;
    correlate(a, b, sum, n, 1);
}

void match_fft_inverse(MatchFft *fft, float *spectrum, float *plane) {
    transformColumns(fft, fft->column_back, (kiss_fft_cpx *)spectrum);
    for (size_t y = 0; y < (size_t)fft->rows; ++y)
        kiss_fftri(fft->row_back, (kiss_fft_cpx *)spectrum + y * (size_t)(fft->cols / 2 + 1),
                   plane + y * (size_t)fft->cols);
}

#elif !defined CUSI_FFT_OPENCV

const char *match_fft_name(void) {
    return "none";
}

int match_fft_goodSize(int n) {
    return n;
}

MatchFft *match_fft_create(int rows, int cols, int filled, int wanted) {
    (void)rows, (void)cols, (void)filled, (void)wanted;
    return NULL;
}

void match_fft_destroy(MatchFft *fft) {
    (void)fft;
}

size_t match_fft_spectrumFloats(int rows, int cols) {
    (void)rows, (void)cols;
    return 0;
}

void match_fft_forward(MatchFft *fft, float *plane, float *spectrum) {
    (void)fft, (void)plane, (void)spectrum;
}

void match_fft_correlate(MatchFft *fft, const float *a, const float *b, float *sum, int add) {
    (void)fft, (void)a, (void)b, (void)sum, (void)add;
}

void match_fft_inverse(MatchFft *fft, float *spectrum, float *plane) {
    (void)fft, (void)spectrum, (void)plane;
}

#endif
