// Planes: the host's FFT of real images and their correlation, against the definition and against transforms in double.
#include "match/fft_support.hpp"
#include "match/support.hpp"

namespace match_fft_test {

namespace {

struct PlaneSize {
    int rows, cols, filled, wanted;
};

// 1 x 2 is the smallest; groups of rows and panels that are not full; zeros below; fewer rows wanted than there are.
const PlaneSize PLANES[] = {{1, 2, 1, 1},     {2, 2, 2, 1},     {2, 4, 1, 2},     {4, 2, 3, 3},       {3, 6, 3, 3},
                            {7, 10, 5, 7},    {5, 14, 5, 5},    {16, 32, 16, 16}, {18, 30, 17, 1},    {30, 42, 30, 29},
                            {48, 36, 33, 32}, {42, 70, 41, 15}, {10, 294, 9, 8},  {250, 12, 199, 101}};

// A plane of whole numbers; the rows that need not be zero are poison.
Buffer<float> *newPlane(const PlaneSize &size, size_t kind, std::mt19937_64 &random) {
    const auto filled = static_cast<size_t>(size.filled * size.cols), points = static_cast<size_t>(size.rows * size.cols);
    auto *plane = new Buffer<float>(points);
    for (size_t i = 0; i < filled; ++i)
        (*plane)[i] = static_cast<float>(sample(kind, i, points, random));
    return plane;
}

// sum of a(y + j, x + i) b(j, i) over all planes, in circles; exact.
std::vector<double> correlationByDefinition(const PlaneSize &size, const std::vector<std::unique_ptr<Buffer<float>>> &a,
                                            const std::vector<std::unique_ptr<Buffer<float>>> &b) {
    std::vector<double> sums;
    const auto at = [&](int y, int x) { return static_cast<size_t>(y % size.rows * size.cols + x % size.cols); };
    for (int y = 0; y < size.wanted; ++y)
        for (int x = 0; x < size.cols; ++x) {
            double sum = 0;
            for (size_t p = 0; p < a.size(); ++p)
                for (int j = 0; j < size.filled; ++j)
                    for (int i = 0; i < size.cols; ++i)
                        sum += (y + j) % size.rows < size.filled
                                   ? static_cast<double>((*a[p])[at(y + j, x + i)]) * (*b[p])[at(j, i)]
                                   : 0;
            sums.push_back(sum);
        }
    return sums;
}

TEST(MatchFft, correlations) {
    std::mt19937_64 random = support::generator();
    for (const PlaneSize &size : PLANES)
        for (size_t kind = 0; kind < KINDS; ++kind) {
            const int planes = kind % 2 ? 3 : 1;
            std::vector<std::unique_ptr<Buffer<float>>> a, b;
            long double norms = 0;
            for (int p = 0; p < planes; ++p) {
                a.emplace_back(newPlane(size, p == 0 ? 0 : random() % KINDS, random));
                b.emplace_back(newPlane(size, p == 0 ? kind : random() % KINDS, random));
                long double of_a = 0, of_b = 0;
                for (size_t i = 0; i < static_cast<size_t>(size.filled * size.cols); ++i) {
                    of_a += (*a.back())[i] * (*a.back())[i];
                    of_b += (*b.back())[i] * (*b.back())[i];
                }
                norms += std::sqrt(of_a * of_b);
            }
            const auto expected = correlationByDefinition(size, a, b);
            const double points = static_cast<double>(size.rows) * size.cols;
            for (int i = 0; const MatchFftKernels *kernels = match_fft_kernels(sizeof(float), i); ++i) {
                SCOPED_TRACE(std::string(kernels->name) + " " + std::to_string(size.rows) + " x " +
                             std::to_string(size.cols));
                const Fft<float> fft(kernels, size.rows, size.cols, size.filled, size.wanted);
                const Buffer<float> sa(fft.elements() * static_cast<size_t>(planes)),
                    sb(fft.elements() * static_cast<size_t>(planes));
                const Buffer<float> product(fft.elements()), result(a[0]->size());
                for (size_t p = 0; p < static_cast<size_t>(planes); ++p) {
                    match_fft_forward(fft.fft, a[p]->data(), sa.data() + p * fft.elements());
                    forwardRounded(fft.fft, b[p]->data(), static_cast<size_t>(size.filled), 1 / points,
                                   sb.data() + p * fft.elements());
                }
                match_fft_correlateAll(fft.fft, sa.data(), sb.data(), planes, product.data(), result.data());
                const double bound = match_fft_correlationUnits(fft.fft, planes) * 0x1p-24 * static_cast<double>(norms);
                for (size_t at = 0; at < expected.size(); ++at)
                    ASSERT_NEAR(result[at], expected[at], bound) << at;
                for (size_t at = expected.size(); at < static_cast<size_t>(points); ++at)
                    ASSERT_TRUE(std::isnan(result[at])) << "row that is not wanted";
            }
        }
}

// Neither the vector length nor the number of threads changes a bit.
TEST(MatchFft, sameBitsEverywhere) {
    std::mt19937_64 random = support::generator();
    for (const PlaneSize &size : {PlaneSize{30, 42, 30, 29}, PlaneSize{250, 294, 199, 101}, PlaneSize{96, 128, 96, 96}}) {
        const std::unique_ptr<Buffer<float>> plane(newPlane(size, 0, random));
        std::vector<float> first;
        for (int i = 0; const MatchFftKernels *kernels = match_fft_kernels(sizeof(float), i); ++i)
            for (const int threads : {1, 3}) {
                SCOPED_TRACE(std::string(kernels->name) + ", " + std::to_string(threads) + " threads");
                const Fft<float> fft(kernels, size.rows, size.cols, size.filled, size.wanted, threads);
                const Buffer<float> spectrum(fft.elements()), product(fft.elements()), result(plane->size());
                match_fft_forward(fft.fft, plane->data(), spectrum.data());
                match_fft_correlateAll(fft.fft, spectrum.data(), spectrum.data(), 1, product.data(), result.data());
                const std::vector<float> values(result.data(), result.data() + size.wanted * size.cols);
                if (first.empty())
                    first = values;
                ASSERT_EQ(std::memcmp(values.data(), first.data(), values.size() * sizeof(float)), 0);
            }
    }
}

// What match.h promises of score maps.
TEST(MatchFft, boundIsThePublishedOne) {
    for (int rows = 2; rows <= 4096; rows = match_fft_goodSize(rows + 1))
        for (int cols = 2; cols <= 4096; cols = match_fft_goodSize(cols + 1)) {
            if (rows > 64 && cols > 64 && (rows + cols) % 7)
                continue;
            const Line half(cols / 2, sizeof(float)), column(rows, sizeof(float));
            MatchFft fft{};
            fft.half = half;
            fft.column = column;
            ASSERT_LE(match_fft_correlationUnits(&fft, 4), 12 * std::log2(static_cast<double>(rows) * cols) + 16)
                << rows << " x " << cols;
        }
}

// The bound holds at the sizes of real frames, for noise, impulses, flat images and waves; the reference is the FFT in double,
// which fft_double.cpp tests.
TEST(MatchFft, boundOnLargePlanes) {
    std::mt19937_64 random = support::generator();
    const PlaneSize size = {700, 750, 640, 512};
    const size_t points = static_cast<size_t>(size.rows * size.cols), filled = static_cast<size_t>(size.filled * size.cols);
    const Fft<float> fft(size.rows, size.cols, size.filled, size.wanted);
    const Fft<double> fft64(size.rows, size.cols, size.filled, size.wanted);
    const Buffer<double> wide(points), spectrum64(fft64.elements()), product64(fft64.elements());
    const Buffer<float> spectrum(fft.elements()), other(fft.elements()), product(fft.elements()), result(points);
    const double scale = 1 / static_cast<double>(points);
    for (size_t kind = 0; kind < KINDS; ++kind) {
        const std::unique_ptr<Buffer<float>> plane(newPlane(size, kind, random));
        double energy = 0;
        for (size_t i = 0; i < filled; ++i) {
            wide[i] = (*plane)[i];
            energy += wide[i] * wide[i];
        }
        match_fft_forward(fft64.fft, wide.data(), spectrum64.data());
        match_fft_correlateAll(fft64.fft, spectrum64.data(), spectrum64.data(), 1, product64.data(), wide.data());
        match_fft_forward(fft.fft, plane->data(), spectrum.data());
        forwardRounded(fft.fft, plane->data(), static_cast<size_t>(size.filled), scale, other.data());
        match_fft_correlateAll(fft.fft, spectrum.data(), other.data(), 1, product.data(), result.data());
        double worst = 0;
        for (size_t i = 0; i < static_cast<size_t>(size.wanted * size.cols); ++i)
            worst = std::max(worst, std::abs(result[i] - wide[i] * scale));
        const double units = worst / (0x1p-24 * energy);
        EXPECT_LE(units, match_fft_correlationUnits(fft.fft, 1)) << "kind " << kind;
        RecordProperty("units_" + std::to_string(kind), std::to_string(units));
    }
}

// Large templates: all threads share one transform, and strips of window sums.
TEST(MatchFft, threadsShareATransform) {
    std::mt19937_64 random = support::generator();
    const auto image = match_test::picture<uint8_t>(430, 517, 3, random);
    const int y0 = 121, x0 = 67;
    const auto templ = match_test::cut(image, y0, x0, 260, 301);
    long double of_image = 0, of_templ = 0;
    for (const uint8_t v : image.data)
        of_image += v * v;
    for (const uint8_t v : templ.data)
        of_templ += v * v;
    const double units = 12 * std::log2(4.0 * image.rows * image.cols) + 16;
    for (const auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCOEFF_NORMED}) {
        cusMatcherOptions options = cusMatcherDefaults();
        options.method = method;
        options.algorithm = CUS_MATCH_FFT;
        const auto outcome = match_test::run(image, templ, CUS_HOST, options);
        ASSERT_EQ(outcome.matches.size(), 1u);
        EXPECT_EQ(outcome.matches[0].y, y0);
        EXPECT_EQ(outcome.matches[0].x, x0);
        const double bound =
            method == CUS_MATCH_SQDIFF ? 2 * units * 0x1p-24 * static_cast<double>(std::sqrt(of_image * of_templ)) : 0.005;
        const int rows = image.rows - templ.rows + 1, cols = image.cols - templ.cols + 1;
        for (int i = 0; i < 40; ++i) { // the corners, both sides of the strips' border, anywhere
            const int y = i < 2   ? i * (rows - 1)
                          : i < 5 ? rows / 2 + i - 3
                                  : static_cast<int>(random() % static_cast<unsigned>(rows));
            const int x = i < 2 ? i * (cols - 1) : static_cast<int>(random() % static_cast<unsigned>(cols));
            const double expected = reference::score(image, templ, nullptr, method, y, x);
            EXPECT_NEAR(outcome.map[static_cast<size_t>(y * cols + x)], expected, bound + std::abs(expected) * 0x1p-22)
                << y << ", " << x;
        }
    }
}

} // namespace

} // namespace match_fft_test
