// What the tests of the host's FFT share: the transform by its definition, signals, guarded buffers.
#pragma once

#include "match/fft/fft.h"
#include "host.h"
#include "../support.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <memory>

namespace match_fft_test {

using Complex = std::complex<long double>;
using Signal = std::vector<Complex>;

inline const long double PI = std::acos(-1.0L);

inline Complex root(int64_t i, int64_t n) {
    return std::polar(1.0L, -2 * PI * static_cast<long double>(i % n) / static_cast<long double>(n));
}

inline Signal transformByDefinition(const Signal &x) {
    const size_t n = x.size();
    std::vector<Complex> roots;
    for (size_t i = 0; i < n; ++i)
        roots.push_back(root(static_cast<int64_t>(i), static_cast<int64_t>(n)));
    Signal y;
    for (size_t k = 0; k < n; ++k) {
        long double re = 0, im = 0; // std::complex looks for infinities in every product
        for (size_t i = 0, at = 0; i < n; ++i, at = at + k < n ? at + k : at + k - n) {
            re += x[i].real() * roots[at].real() - x[i].imag() * roots[at].imag();
            im += x[i].real() * roots[at].imag() + x[i].imag() * roots[at].real();
        }
        y.emplace_back(re, im);
    }
    return y;
}

inline long double norm(const Signal &x) {
    long double sum = 0;
    for (const Complex &v : x)
        sum += std::norm(v);
    return std::sqrt(sum);
}

inline long double sumOfMagnitudes(const Signal &x) {
    long double sum = 0;
    for (const Complex &v : x)
        sum += std::abs(v);
    return sum;
}

// What is to stay inside a bound: noise, one point, a constant, a wave, signs that alternate.
constexpr size_t KINDS = 5;
inline double sample(size_t kind, size_t i, size_t n, std::mt19937_64 &random) {
    switch (kind) {
    case 0:
        return static_cast<double>(random() % 511) - 255;
    case 1:
        return i == n / 3 ? 255 : 0;
    case 2:
        return -255;
    case 3:
        return std::floor(200 * std::sin(0.7 * static_cast<double>(i)));
    default:
        return i % 2 ? 255 : -255;
    }
}

// Aligned, with a guard behind that must stay as it is.
template<class T>
class Buffer {
  public:
    explicit Buffer(size_t n) : n_(n), data_(static_cast<T *>(cusi_hostAllocate((n + GUARD) * sizeof(T))), std::free) {
        std::fill(data(), data() + n + GUARD, std::numeric_limits<T>::quiet_NaN());
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() {
        for (size_t i = n_; i < n_ + GUARD; ++i)
            EXPECT_TRUE(std::isnan(data()[i])) << "written past the end";
    }
    T *data() const { return data_.get(); }
    T &operator[](size_t i) const { return data()[i]; }
    size_t size() const { return n_; }

  private:
    static constexpr size_t GUARD = 16;
    size_t n_;
    std::unique_ptr<T, void (*)(void *)> data_;
};

// A plan for elements of type T.
template<class T>
struct Fft {
    Fft(const MatchFftKernels *kernels, int rows, int cols, int filled, int wanted, int threads = 1)
        : fft(match_fft_createFor(kernels, rows, cols, filled, wanted, threads)) {
        if (!fft)
            throw std::bad_alloc();
    }
    Fft(int rows, int cols, int filled, int wanted) : Fft(match_fft_kernels(sizeof(T), 0), rows, cols, filled, wanted) {}
    Fft(const Fft &) = delete;
    Fft &operator=(const Fft &) = delete;
    ~Fft() { match_fft_destroy(fft); }
    size_t elements() const { return match_fft_spectrumSize(fft); }
    MatchFft *fft;
};

// `scale` times the spectrum of a plane whose rows from `filled` on are zero, computed in double, then rounded.
inline void forwardRounded(const MatchFft *fft, const float *plane, size_t filled, double scale, float *spectrum) {
    const Fft<double> wide(fft->rows, fft->cols, static_cast<int>(filled), 1);
    const Buffer<double> input(filled * static_cast<size_t>(fft->cols)), output(wide.elements());
    std::copy_n(plane, input.size(), input.data());
    match_fft_forward(wide.fft, input.data(), output.data());
    match_fft_roundSpectrum(wide.fft, output.data(), scale, fft, spectrum);
}

struct Line : MatchFftLine {
    Line(int size, size_t element) { made = match_fft_createLine(this, size, element) != 0; }
    Line(const Line &) = delete;
    Line &operator=(const Line &) = delete;
    ~Line() { match_fft_releaseLine(this); }
    bool made;
};

} // namespace match_fft_test
