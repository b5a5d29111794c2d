// The host's FFT by OpenCV's core, with plans made once: cv::dft would plan and allocate in every call.
// Spectra are in OpenCV's packed form, rows x cols floats: columns 1.. hold pairs (re, im); the first and the last column are
// packed spectra themselves, running down: re 0, re 1, im 1, re 2, im 2, ..., re rows / 2.
#include "match_fft.h"
#include "host.h"

#include <opencv2/core.hpp>
#include <opencv2/core/hal/hal.hpp>
#include <opencv2/core/hal/interface.h>

#include <new>

struct MatchFft {
    int rows, cols;
    cv::Ptr<cv::hal::DFT2D> forward, inverse;
};

namespace {

CUSI_MULTIVERSION
void correlatePairs(const float *a, const float *b, float *sum, int pairs, bool add) {
    for (int i = 0; i < pairs; ++i) {
        const float ar = a[2 * i], ai = a[2 * i + 1], br = b[2 * i], bi = b[2 * i + 1];
        const float re = ar * br + ai * bi, im = ai * br - ar * bi;
        sum[2 * i] = add ? sum[2 * i] + re : re;
        sum[2 * i + 1] = add ? sum[2 * i + 1] + im : im;
    }
}

void correlateColumn(const float *a, const float *b, float *sum, int rows, size_t step, bool add) {
    const auto put = [&](size_t at, float value) { sum[at] = add ? sum[at] + value : value; };
    put(0, a[0] * b[0]);
    size_t at = step;
    for (int y = 1; y + 1 < rows; y += 2, at += 2 * step) {
        const float ar = a[at], ai = a[at + step], br = b[at], bi = b[at + step];
        put(at, ar * br + ai * bi);
        put(at + step, ai * br - ar * bi);
    }
    put(at, a[at] * b[at]);
}

} // namespace

const char *match_fft_name(void) {
    return "OpenCV";
}

int match_fft_goodSize(int n) {
    return 2 * cv::getOptimalDFTSize((n + 1) / 2);
}

MatchFft *match_fft_create(int rows, int cols, int filled, int wanted) {
    MatchFft *fft = new (std::nothrow) MatchFft{rows, cols, {}, {}};
    if (!fft)
        return nullptr;
    try {
        fft->forward = cv::hal::DFT2D::create(cols, rows, CV_32F, 1, 1, 0, filled < rows ? filled : 0);
        fft->inverse = cv::hal::DFT2D::create(cols, rows, CV_32F, 1, 1, CV_HAL_DFT_INVERSE, wanted < rows ? wanted : 0);
    } catch (const std::exception &) {
        delete fft;
        return nullptr;
    }
    return fft;
}

void match_fft_destroy(MatchFft *fft) {
    delete fft;
}

size_t match_fft_spectrumFloats(int rows, int cols) {
    return static_cast<size_t>(rows) * static_cast<size_t>(cols);
}

static uchar *bytes(float *p) {
    return reinterpret_cast<uchar *>(p);
}

void match_fft_forward(MatchFft *fft, float *plane, float *spectrum) {
    const size_t step = static_cast<size_t>(fft->cols) * sizeof(float);
    fft->forward->apply(bytes(plane), step, bytes(spectrum), step);
}

void match_fft_correlate(MatchFft *fft, const float *a, const float *b, float *sum, int add) {
    const size_t step = static_cast<size_t>(fft->cols);
    correlateColumn(a, b, sum, fft->rows, step, add);
    correlateColumn(a + step - 1, b + step - 1, sum + step - 1, fft->rows, step, add);
    for (size_t at = 1; at < step * static_cast<size_t>(fft->rows); at += step)
        correlatePairs(a + at, b + at, sum + at, fft->cols / 2 - 1, add);
}

void match_fft_inverse(MatchFft *fft, float *spectrum, float *plane) {
    const size_t step = static_cast<size_t>(fft->cols) * sizeof(float);
    fft->inverse->apply(bytes(spectrum), step, bytes(plane), step);
}
