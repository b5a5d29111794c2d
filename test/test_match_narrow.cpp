// Bounds of float costs from correlations and window sums in double: match_narrow() of modules/match/match_backend.h, which the
// device uses, against scores in long double.
#include "match_support.hpp"

#include "../modules/match/match_backend.h"

namespace {

using namespace match_test;

// The model and the sums of a template, as match.c makes them.
struct Case {
    MatchModel model = {};
    MatchTemplate templ = {};
    std::vector<uint8_t> mask;
    double constant = 0; // of a mask
};

Case caseOf(const Image<float> &image, const Image<float> &templ, cusMatchMethod method, const std::vector<uint8_t> &mask) {
    Case made;
    MatchModel &m = made.model;
    m.method = method;
    m.masked = mask.empty() ? 0 : 1;
    m.channels = 1;
    m.planes = 1 + (m.masked && method == CUS_MATCH_SQDIFF ? 1 : 0);
    m.w = templ.cols, m.h = templ.rows, m.cols = image.cols, m.rows = image.rows;
    m.ocols = m.cols - m.w + 1, m.orows = m.rows - m.h + 1;
    m.count = 1;
    m.n = static_cast<double>(m.w) * m.h;
    double sum = 0, plane = 0, kept = 0;
    for (const float v : templ.data)
        sum += v;
    m.shift[0] = std::rint(sum / m.n);
    MatchTemplate &t = made.templ;
    for (size_t i = 0; i < templ.data.size(); ++i) {
        if (m.masked && !mask[i])
            continue;
        const double raw = templ.data[i], v = raw - m.shift[0];
        t.raw_t1[0] += raw, t.t1[0] += v, t.t2 += v * v;
        plane += m.masked && method == CUS_MATCH_CCORR ? raw * raw : v * v;
        ++kept;
    }
    t.norm[0] = std::sqrt(plane) * (m.planes > 1 ? 2 : 1);
    t.norm[1] = std::sqrt(kept);
    m.square_shift = m.planes > 1 ? std::rint(t.t2 / m.n) : 0;
    made.mask = mask;
    if (m.masked)
        made.constant = method == CUS_MATCH_CCORR ? m.shift[0] * t.raw_t1[0] : kept * m.square_shift;
    return made;
}

std::vector<double> energyOf(const Case &c, const Image<float> &image) {
    std::vector<double> energy(2);
    for (const float pixel : image.data) {
        const float v = pixel - static_cast<float>(c.model.shift[0]),
                    square = v * v - static_cast<float>(c.model.square_shift);
        energy[0] += static_cast<double>(v) * v;
        energy[1] += static_cast<double>(square) * square;
    }
    return energy;
}

// Sums at (y, x) in long double: the correlation as match_narrow() takes it, and the window's sums.
struct Sums {
    long double c = 0, s1 = 0, s2 = 0;
};
Sums sumsAt(const Case &c, const Image<float> &image, const Image<float> &templ, int y, int x) {
    const MatchModel &m = c.model;
    Sums sums;
    for (int j = 0; j < m.h; ++j)
        for (int i = 0; i < m.w; ++i) {
            if (m.masked && !c.mask[static_cast<size_t>(j * m.w + i)])
                continue;
            const long double raw = image.at(y + j, x + i, 0), b = templ.at(j, i, 0), shift = m.shift[0];
            const long double a = raw - shift;
            sums.s1 += a, sums.s2 += a * a;
            sums.c += !m.masked ? a * (b - shift) : m.method == CUS_MATCH_CCORR ? raw * b : a * a - 2 * a * (b - shift);
        }
    return sums;
}

// With every error as large as it may be, in each direction, the interval must hold the true cost.
void checkMap(const Image<float> &image, const Image<float> &templ, cusMatchMethod method, const std::vector<uint8_t> &mask,
              std::mt19937_64 &random, double &widest) {
    const Case c = caseOf(image, templ, method, mask);
    const MatchModel &m = c.model;
    const double units = 200 * 0x1p-53;
    const auto energy = energyOf(c, image);
    const MatchDoubt doubt = match_doubt(&m, &c.templ, energy.data(), units, c.constant);
    const double sign = match_smallestIsBest(method) ? 1 : -1;
    for (int y = 0; y < m.orows; ++y)
        for (int x = 0; x < m.ocols; ++x) {
            const Sums sums = sumsAt(c, image, templ, y, x);
            const double score = reference::score(image, templ, mask.empty() ? nullptr : mask.data(), method, y, x);
            const auto off = [&](double bound) { return (static_cast<double>(random() % 3) - 1) * bound * 0.99; };
            const MatchInterval interval =
                match_narrow(&m, &c.templ, static_cast<double>(sums.c) + off(doubt.correlation), doubt,
                             static_cast<double>(sums.s1) + off(doubt.s1), static_cast<double>(sums.s2) + off(doubt.s2));
            // The constants of the template, and the score itself, are rounded.
            const double slack = 1e-12 * (std::fabs(score) + (method & 1 ? 1 : c.templ.t2 + m.n * m.shift[0] * m.shift[0]));
            ASSERT_LE(interval.lower, sign * score + slack) << x << " " << y;
            ASSERT_GE(interval.upper, sign * score - slack) << x << " " << y;
            widest = std::max(widest, interval.upper - interval.lower);
        }
}

Image<float> noise(int rows, int cols, double mean, double spread, std::mt19937_64 &random) {
    Image<float> image{rows, cols, 1, {}};
    for (int i = 0; i < rows * cols; ++i)
        image.data.push_back(static_cast<float>(mean + spread * (static_cast<double>(random() % 100003) / 50001.5 - 1)));
    return image;
}

TEST(MatchNarrow, HoldsTheTrueCost) {
    auto random = support::generator();
    std::vector<uint8_t> mask;
    for (int i = 0; i < 9 * 13; ++i)
        mask.push_back(random() % 3 ? 255 : 0);
    for (const auto &[mean, spread] : std::vector<std::pair<double, double>>{
             {0.5, 0.5}, {0, 1e-3}, {0, 0}, {100.3, 90}, {-4e4, 1e-2}, {1e-20, 1e-20}, {3e7, 3e7}})
        for (auto method : METHODS)
            for (bool masked : {false, true}) {
                if (masked && method != CUS_MATCH_SQDIFF && method != CUS_MATCH_CCORR)
                    continue;
                SCOPED_TRACE(testing::Message()
                             << "mean " << mean << " spread " << spread << " method " << method << " masked " << masked);
                double widest = 0;
                const auto image = noise(30, 41, mean, spread, random);
                for (const auto &templ : {noise(9, 13, mean, spread, random), noise(9, 13, mean / 3 + 0.1, 0.2, random),
                                          cut(image, 7, 11, 9, 13)})
                    ASSERT_NO_FATAL_FAILURE(
                        checkMap(image, templ, method, masked ? mask : std::vector<uint8_t>(), random, widest));
                if (mean == 0.5) {
                    EXPECT_LT(widest, 1e-8); // scores are up to 117
                }
            }
}

TEST(MatchNarrow, FlatTemplatesScoreOne) {
    auto random = support::generator();
    const auto image = noise(20, 20, 0.5, 0.5, random);
    const Case c = caseOf(image, flat<float>(5, 5, 1, 3), CUS_MATCH_CCOEFF_NORMED, {});
    const MatchInterval interval = match_narrow(&c.model, &c.templ, 0.3, {1, 1, 1}, 0.2, 0.1);
    EXPECT_EQ(interval.lower, -1);
    EXPECT_EQ(interval.upper, -1);
}

// The least magnitude at which a sum may no longer be exact.
TEST(MatchNarrow, SumsAreIntegers) {
    MatchModel model = {};
    model.n = 1024;
    EXPECT_TRUE(match_sumsAreIntegers(&model, 0));
    EXPECT_TRUE(match_sumsAreIntegers(&model, 0x1p20 - 1));
    EXPECT_FALSE(match_sumsAreIntegers(&model, 0x1p20));
    EXPECT_FALSE(match_sumsAreIntegers(&model, INFINITY));
}

} // namespace
