// The host's FFT in double: correlations of integers, against sums in integers, with every vector length.
#include "match/fft_support.hpp"

#include <array>

namespace match_fft_test {

namespace {

struct Case {
    int rows, cols, filled, wanted, h, w, planes;
};

// At (y, x): the sum over planes and over the template's h x w pixels of their products.
int64_t correlation(const Case &c, const std::vector<std::vector<int>> &a, const std::vector<std::vector<int>> &b, int y,
                    int x) {
    int64_t sum = 0;
    for (size_t p = 0; p < a.size(); ++p)
        for (int j = 0; j < c.h; ++j)
            for (int i = 0; i < c.w; ++i)
                sum += static_cast<int64_t>(a[p][static_cast<size_t>((y + j) * c.cols + x + i)]) *
                       b[p][static_cast<size_t>(j * c.cols + i)];
    return sum;
}

double norm(const std::vector<int> &plane) {
    double sum = 0;
    for (int v : plane)
        sum += static_cast<double>(v) * v;
    return std::sqrt(sum);
}

// What the kernels make of the planes; the first wanted rows.
std::vector<double> correlate(const MatchFftKernels *kernels, const Case &c, int threads,
                              const std::vector<std::vector<int>> &a, const std::vector<std::vector<int>> &b) {
    const Fft<double> fft(kernels, c.rows, c.cols, c.filled, c.wanted, threads);
    const size_t spectrum = fft.elements(), points = static_cast<size_t>(c.rows * c.cols);
    Buffer<double> plane(points), sa(spectrum * a.size()), sb(spectrum * a.size());
    for (size_t p = 0; p < a.size(); ++p)
        for (const auto &[from, to] : {std::pair(&a, &sa), std::pair(&b, &sb)}) {
            std::copy((*from)[p].begin(), (*from)[p].end(), plane.data());
            match_fft_forward(fft.fft, plane.data(), to->data() + p * spectrum);
        }
    for (size_t i = 0; i < sb.size(); ++i)
        sb[i] *= 1 / static_cast<double>(points);
    // As the matcher does: the products replace the first plane's spectrum.
    match_fft_correlateAll(fft.fft, sa.data(), sb.data(), c.planes, sa.data(), plane.data());
    return {plane.data(), plane.data() + c.wanted * c.cols};
}

TEST(MatchFft64, correlationsOfIntegersAreExactOnceRounded) {
    std::mt19937_64 random = support::generator();
    for (const Case &c : {Case{1, 2, 1, 1, 1, 1, 1}, Case{6, 10, 6, 4, 3, 4, 2}, Case{45, 42, 40, 31, 10, 7, 1},
                          Case{64, 70, 60, 49, 12, 20, 4}, Case{100, 96, 100, 60, 41, 33, 3}}) {
        std::vector<std::vector<int>> a, b;
        double norms = 0;
        for (int p = 0; p < c.planes; ++p) {
            a.emplace_back(static_cast<size_t>(c.rows * c.cols));
            b.emplace_back(static_cast<size_t>(c.rows * c.cols));
            for (int y = 0; y < c.filled; ++y)
                for (int x = 0; x < c.cols; ++x) {
                    a.back()[static_cast<size_t>(y * c.cols + x)] = static_cast<int>(random() % 511) - 255;
                    if (y < c.h && x < c.w)
                        b.back()[static_cast<size_t>(y * c.cols + x)] = static_cast<int>(random() % 511) - 255;
                }
            norms += norm(a.back()) * norm(b.back());
        }
        const double bound = match_fft64_correlationUnits(static_cast<double>(c.rows) * c.cols) * 0x1p-53 * norms;
        ASSERT_LT(bound, 0.25);
        const auto first = correlate(match_fft_kernels(sizeof(double), 0), c, 1, a, b);
        for (int i = 0; const MatchFftKernels *kernels = match_fft_kernels(sizeof(double), i); ++i)
            for (int threads : {1, 3})
                ASSERT_EQ(correlate(kernels, c, threads, a, b), first) << kernels->name << " " << threads << " threads";
        for (int y = 0; y < c.wanted && y + c.h <= c.filled; ++y)
            for (int x = 0; x + c.w <= c.cols; ++x)
                ASSERT_NEAR(first[static_cast<size_t>(y * c.cols + x)], static_cast<double>(correlation(c, a, b, y, x)),
                            bound)
                    << c.rows << " x " << c.cols << " at " << y << " " << x;
    }
}

// The bound that serves all sizes is above that of each: the one with a rounded spectrum and another forward transform.
TEST(MatchFft64, oneBoundForAllSizes) {
    for (int rows = 2; rows <= 1 << 14; rows = match_fft_goodSize(3 * rows))
        for (int cols = 2; cols <= 1 << 14; cols = match_fft_goodSize(3 * cols + 1)) {
            const Line half(cols / 2, sizeof(double)), column(rows, sizeof(double));
            MatchFft fft = {};
            fft.half = half, fft.column = column;
            const double forward = match_fft_normUnits(&half) + match_fft_normUnits(&column) + 5;
            ASSERT_LE(match_fft_correlationUnits(&fft, 4) + forward,
                      match_fft64_correlationUnits(static_cast<double>(rows) * cols))
                << rows << " x " << cols;
        }
}

} // namespace

} // namespace match_fft_test
