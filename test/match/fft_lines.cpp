// The lines of the host's FFT against the discrete Fourier transform by its definition, in long double, for each vector length that
// this processor has. fft_double.cpp tests the same source compiled for double.
#include "match/fft_support.hpp"

namespace match_fft_test {

namespace {

// Good sizes: every small one, and larger ones of each radix.
std::vector<int> lineSizes() {
    std::vector<int> sizes;
    for (int n = 1; n <= 128; ++n) {
        int rest = n;
        for (int factor : {2, 3, 5, 7})
            while (rest % factor == 0)
                rest /= factor;
        if (rest == 1)
            sizes.push_back(n);
    }
    for (int n : {210, 243, 343, 512, 625, 1024, 1050})
        sizes.push_back(n);
    return sizes;
}

// Lines of n points, one of each kind, and their transforms.
struct Lines {
    Lines(size_t n, std::mt19937_64 &random) {
        for (size_t kind = 0; kind < KINDS; ++kind) {
            in.emplace_back();
            for (size_t i = 0; i < n; ++i)
                in[kind].emplace_back(sample(kind, i, n, random), sample(kind % 3, i, n, random));
            out.push_back(transformByDefinition(in[kind]));
        }
    }
    std::vector<Signal> in, out;
};

// Forward against the definition, and back, with neighboring lanes of different kinds.
template<class T, class Forward, class Inverse>
void checkLine(const Line &line, size_t lanes, const Lines &lines, const Forward &forward, const Inverse &inverse) {
    const auto n = static_cast<size_t>(line.n);
    const long double unit = std::numeric_limits<T>::epsilon() / 2;
    const Buffer<T> x(2 * lanes * n);
    const auto put = [&](size_t i, size_t lane, Complex v) {
        x[2 * lanes * i + lane] = static_cast<T>(v.real());
        x[2 * lanes * i + lanes + lane] = static_cast<T>(v.imag());
    };
    const auto get = [&](size_t i, size_t lane) {
        return Complex(x[2 * lanes * i + lane], x[2 * lanes * i + lanes + lane]);
    };
    for (size_t i = 0; i < n; ++i)
        for (size_t lane = 0; lane < lanes; ++lane)
            put(i, lane, lines.in[lane % KINDS][i]);
    forward(x.data());
    for (size_t lane = 0; lane < lanes; ++lane) {
        const Signal &expected = lines.out[lane % KINDS];
        Signal error;
        for (size_t k = 0; k < n; ++k)
            error.push_back(get(static_cast<size_t>(line.position[k]), lane) - expected[k]);
        ASSERT_LE(norm(error), (match_fft_normUnits(&line) + 0.01L) * unit * norm(expected))
            << "n " << n << " lane " << lane;
    }
    for (size_t k = 0; k < n; ++k)
        for (size_t lane = 0; lane < lanes; ++lane)
            put(static_cast<size_t>(line.position[k]), lane, lines.out[lane % KINDS][k]);
    inverse(x.data());
    for (size_t lane = 0; lane < lanes; ++lane) {
        // One more unit: the spectrum was rounded.
        const long double bound = (match_fft_sumUnits(&line) + 1.01L) * unit * sumOfMagnitudes(lines.out[lane % KINDS]);
        for (size_t i = 0; i < n; ++i)
            ASSERT_LE(std::abs(get(i, lane) - lines.in[lane % KINDS][i] * static_cast<long double>(n)), bound)
                << "n " << n << " lane " << lane << " point " << i;
    }
}

TEST(MatchFft, linesOfFloats) {
    std::mt19937_64 random = support::generator();
    for (const int n : lineSizes()) {
        const Line line(n, sizeof(float));
        ASSERT_TRUE(line.made);
        const Lines lines(static_cast<size_t>(n), random);
        for (int i = 0; const MatchFftKernels *kernels = match_fft_kernels(sizeof(float), i); ++i) {
            SCOPED_TRACE(kernels->name);
            checkLine<float>(
                line, kernels->lanes, lines, [&](float *x) { kernels->forwardColumns(&line, static_cast<size_t>(n), x); },
                [&](float *x) { kernels->inverseColumns(&line, x); });
        }
    }
}

TEST(MatchFft, otherFactorsAreRefused) {
    for (const int n : {-4, 0, 11, 13, 22, 121, 1001, 2147483647}) {
        const Line line(n, sizeof(float));
        EXPECT_FALSE(line.made) << n;
        EXPECT_EQ(match_fft_createFor(match_fft_kernels(sizeof(float), 0), n, 8, 1, 1, 1), nullptr) << n;
        EXPECT_EQ(match_fft_createFor(match_fft_kernels(sizeof(float), 0), 8, n > 0 && n < 10000 ? 2 * n : n, 1, 1, 1),
                  nullptr)
            << n;
    }
    EXPECT_EQ(match_fft_createFor(match_fft_kernels(sizeof(float), 0), 8, 9, 8, 8, 1), nullptr);
}

TEST(MatchFft, goodSizes) {
    int last = 0;
    for (int n = 1; n <= 3000; ++n) {
        const int size = match_fft_goodSize(n);
        ASSERT_GE(size, n);
        ASSERT_GE(size, last);
        ASSERT_EQ(size % 2, 0);
        ASSERT_LE(size, n + n / 8 + 3) << n;
        ASSERT_EQ(match_fft_goodSize(size), size);
        const Line line(size / 2, sizeof(float));
        ASSERT_TRUE(line.made) << n;
        last = size;
    }
    EXPECT_GE(match_fft_goodSize(2000000001), 2000000001);
}

} // namespace

} // namespace match_fft_test
