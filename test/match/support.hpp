// Pictures, matchers and the comparison with brute force that the tests of match share.
#pragma once

#include "cusight/match.h"
#include "reference/hsv.hpp"
#include "reference/match.hpp"
#include "../support.hpp"

#include <limits>
#include <thread>

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#endif

namespace match_test {

using reference::Image;

const cusMatchMethod METHODS[] = {CUS_MATCH_SQDIFF,       CUS_MATCH_SQDIFF_NORMED, CUS_MATCH_CCORR,
                                  CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF,        CUS_MATCH_CCOEFF_NORMED};

template<class T>
int typeOf(int channels) {
    const int depth = std::is_same_v<T, float> ? CUS_32F : CUS_8U;
    return CUS_MAKETYPE(depth, channels);
}

// Smooth structure with noise on top, so that neighboring scores are similar, as in pictures.
template<class T>
Image<T> picture(int rows, int cols, int channels, std::mt19937_64 &random) {
    Image<T> image{rows, cols, channels, {}};
    const double phase = static_cast<double>(random() % 1000);
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            for (int c = 0; c < channels; ++c) {
                const double wave =
                    127 + 90 * std::sin(0.11 * x + 0.07 * y + c + phase) + static_cast<double>(random() % 32);
                image.data.push_back(static_cast<T>(std::clamp(wave, 0.0, 255.0)));
            }
    return image;
}

template<class T>
Image<T> flat(int rows, int cols, int channels, T value) {
    const size_t elements = static_cast<size_t>(rows) * static_cast<size_t>(cols) * static_cast<size_t>(channels);
    return {rows, cols, channels, std::vector<T>(elements, value)};
}

template<class T>
Image<T> cut(const Image<T> &image, int y, int x, int rows, int cols) {
    Image<T> part{rows, cols, image.channels, {}};
    for (int j = 0; j < rows; ++j)
        for (int i = 0; i < cols; ++i)
            for (int c = 0; c < image.channels; ++c)
                part.data.push_back(image.at(y + j, x + i, c));
    return part;
}

// A matrix with the pixels of an image.
template<class T>
struct Pixels : support::TestMat {
    Pixels(const Image<T> &image, cusSpace space, support::Layout layout = {})
        : TestMat(image.rows, image.cols, typeOf<T>(image.channels), space, layout, image.data.data()) {}
};

using Matcher = support::Owned<cusMatcherDestroy>;

struct Outcome {
    std::vector<cusMatch> matches;
    std::vector<float> map;
};

// Creates, runs and reads everything back.
template<class T>
Outcome run(const Image<T> &image, const Image<T> &templ, cusSpace space, cusMatcherOptions options,
            const uint8_t *mask = nullptr, support::Layout layout = {}) {
    Pixels<T> frame(image, space, layout), pattern(templ, space, layout);
    support::TestMat kept(templ.rows, templ.cols, CUS_8UC1, space);
    if (mask) {
        kept.set(mask);
        options.mask = &kept.mat;
    }
    support::TestMat scores(image.rows - templ.rows + 1, image.cols - templ.cols + 1, CUS_32FC1, space,
                            {layout.padding / 4 * 4, layout.offset / 4 * 4});
    Matcher matcher;
    Outcome outcome;
    EXPECT_EQ(cusMatcherCreate(&matcher, &pattern.mat, 1, image.rows, image.cols, &options, nullptr), CUS_OK)
        << cusLastError();
    if (!matcher)
        return outcome;
    EXPECT_EQ(cusMatcherRun(matcher, &frame.mat, &scores.mat, nullptr), CUS_OK) << cusLastError();
    outcome.matches.resize(static_cast<size_t>(options.max_matches));
    int found = 0;
    EXPECT_EQ(cusMatcherGet(matcher, 0, outcome.matches.data(), options.max_matches, &found, nullptr), CUS_OK)
        << cusLastError();
    outcome.matches.resize(static_cast<size_t>(found));
    outcome.map = scores.get<float>();
    EXPECT_TRUE(scores.intact());
    EXPECT_TRUE(frame.intact());
    return outcome;
}

// The matches of template k, at most `most`.
inline std::vector<cusMatch> matchesOf(cusMatcher *matcher, int k, int most, cusStream stream = nullptr) {
    std::vector<cusMatch> matches(static_cast<size_t>(most));
    int found = 0;
    CUS_EXPECT_OK(cusMatcherGet(matcher, k, matches.data(), most, &found, stream));
    matches.resize(static_cast<size_t>(found));
    return matches;
}

// An exact copy of the template.
inline void expectCopyAt(const cusMatch &match, int x, int y) {
    EXPECT_EQ(match.x, x);
    EXPECT_EQ(match.y, y);
    EXPECT_EQ(match.score, 0);
}

// The same places and scores, to the last bit; `expected`: matches, or the reference's.
template<class Match>
void expectSame(const std::vector<cusMatch> &matches, const std::vector<Match> &expected) {
    ASSERT_EQ(matches.size(), expected.size());
    for (size_t i = 0; i < matches.size(); ++i) {
        ASSERT_EQ(matches[i].x, expected[i].x) << "match " << i;
        ASSERT_EQ(matches[i].y, expected[i].y) << "match " << i;
        ASSERT_EQ(matches[i].score, expected[i].score) << "match " << i;
    }
}

// Each match is as good as the best of what the ones before it have left, up to `rounding` of the score's sums; of bytes exactly the
// best, and the first of equals.
template<class T>
void expectGreedy(const Image<T> &image, const Image<T> &templ, const std::vector<double> &map,
                  const cusMatcherOptions &options, const std::vector<cusMatch> &matches, double rounding) {
    const int cols = image.cols - templ.cols + 1, d = options.min_distance;
    const double sign = options.method == CUS_MATCH_SQDIFF || options.method == CUS_MATCH_SQDIFF_NORMED ? 1 : -1;
    const bool exact = std::is_same_v<T, uint8_t>;
    std::vector<char> gone(map.size());
    size_t left = map.size(), i = 0;
    for (; i < static_cast<size_t>(options.max_matches) && left > 0; ++i) {
        ASSERT_LT(i, matches.size());
        size_t best = map.size();
        for (size_t at = 0; at < map.size(); ++at)
            if (!gone[at] && (best == map.size() || sign * map[at] < sign * map[best]))
                best = at;
        const auto &match = matches[i];
        ASSERT_TRUE(match.x >= 0 && match.x < cols && match.y >= 0 && match.y <= image.rows - templ.rows);
        const size_t at = static_cast<size_t>(match.y) * static_cast<size_t>(cols) + static_cast<size_t>(match.x);
        ASSERT_FALSE(gone[at]) << "match " << i;
        const double tolerance = exact ? 0 : 1e-9 * (1 + std::fabs(map[best])) + rounding;
        ASSERT_NEAR(match.score, map[at], tolerance) << "match " << i;
        ASSERT_NEAR(map[at], map[best], tolerance) << "match " << i;
        if (exact)
            ASSERT_EQ(at, best) << "match " << i;
        const int rows = image.rows - templ.rows + 1;
        for (int y = std::max(0, match.y - d + 1); y < std::min(rows, match.y + d); ++y)
            for (int x = std::max(0, match.x - d + 1); x < std::min(cols, match.x + d); ++x) {
                char &near = gone[static_cast<size_t>(y) * static_cast<size_t>(cols) + static_cast<size_t>(x)];
                left -= near ? 0 : 1;
                near = 1;
            }
    }
    ASSERT_EQ(matches.size(), i);
}

// What a score may be off by: the documented bound for the correlation (twice that for a squared difference), through the
// normalization where there is one, and float's rounding.
template<class T>
std::vector<double> bounds(const Image<T> &image, const Image<T> &templ, cusMatchMethod method, const uint8_t *mask,
                           const std::vector<double> &map) {
    double shift[4] = {}, a = 0, b = 0;
    const size_t cn = static_cast<size_t>(image.channels);
    const size_t pixels = templ.data.size() / cn;
    const double n = static_cast<double>(mask ? std::count_if(mask, mask + pixels, [](uint8_t v) { return v != 0; })
                                              : static_cast<ptrdiff_t>(pixels));
    for (size_t i = 0; i < templ.data.size(); ++i)
        shift[i % cn] += templ.data[i] / static_cast<double>(pixels);
    const bool floats = std::is_same_v<T, float>;
    for (double &s : shift)
        s = floats ? s : std::rint(s);
    double mean = 0; // of the image, whose own shift is that of a sample
    for (const T v : image.data)
        mean += static_cast<double>(v) / static_cast<double>(image.data.size());
    const bool own = floats && method != CUS_MATCH_SQDIFF && method != CUS_MATCH_SQDIFF_NORMED;
    for (size_t i = 0; i < image.data.size(); ++i)
        a += std::pow(image.data[i] - (own ? mean : shift[i % cn]), 2) * (own ? 1.05 : 1);
    for (size_t i = 0; i < templ.data.size(); ++i)
        b += std::pow(templ.data[i] - shift[i % cn], 2);
    /* Transforms of twice the frame in each direction at most. */
    const double points = 4.0 * image.rows * image.cols + 64;
    double error = (12 * std::log2(points) + 16) * 0x1p-24 * std::sqrt(a) * std::sqrt(b);
    if (method == CUS_MATCH_SQDIFF || method == CUS_MATCH_SQDIFF_NORMED)
        error *= 2;
    std::vector<double> result;
    for (int y = 0, i = 0; y + templ.rows <= image.rows; ++y)
        for (int x = 0; x + templ.cols <= image.cols; ++x, ++i) {
            double norm = 1;
            if (method & 1) {
                double s2 = 0, t2 = 0, s1[4] = {}, t1[4] = {};
                for (int j = 0; j < templ.rows; ++j)
                    for (int k = 0; k < templ.cols; ++k)
                        for (int c = 0; c < image.channels && (!mask || mask[j * templ.cols + k]); ++c) {
                            const double v = image.at(y + j, x + k, c), t = templ.at(j, k, c);
                            s1[c] += v, s2 += v * v, t1[c] += t, t2 += t * t;
                        }
                for (int c = 0; method == CUS_MATCH_CCOEFF_NORMED && c < image.channels; ++c)
                    s2 -= s1[c] * s1[c] / n, t2 -= t1[c] * t1[c] / n;
                norm = std::sqrt(std::max(s2, 0.0) * std::max(t2, 0.0));
            }
            const double here = norm > 1e-6 ? error / norm : (method & 1) ? 2 : error;
            result.push_back(here + 1e-9 + std::fabs(map[static_cast<size_t>(i)]) * 0x1p-22);
        }
    return result;
}

// Map within the bound, matches equal to brute force.
template<class T>
void compare(const Image<T> &image, const Image<T> &templ, cusSpace space, cusMatcherOptions options,
             const uint8_t *mask = nullptr, support::Layout layout = {}) {
    SCOPED_TRACE(testing::Message() << image.cols << "x" << image.rows << " channels " << image.channels << " template "
                                    << templ.cols << "x" << templ.rows << " method " << options.method << " algorithm "
                                    << options.algorithm << (mask ? " masked" : ""));
    const auto map = reference::scoreMap(image, templ, mask, options.method);
    const auto expected =
        reference::best(map, image.cols - templ.cols + 1, options.method, options.max_matches, options.min_distance);
    const Outcome outcome = run(image, templ, space, options, mask, layout);
    ASSERT_EQ(outcome.map.size(), map.size());
    const auto bound = bounds(image, templ, options.method, mask, map);
    size_t worst = 0;
    for (size_t i = 0; i < map.size(); ++i)
        if (!(std::fabs(outcome.map[i] - map[i]) - bound[i] <= std::fabs(outcome.map[worst] - map[worst]) - bound[worst]))
            worst = i;
    EXPECT_LE(std::fabs(outcome.map[worst] - map[worst]), bound[worst]) << "at " << worst << ", true score " << map[worst];
    ASSERT_EQ(outcome.matches.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
        if (std::is_same_v<T, uint8_t>) {
            EXPECT_EQ(outcome.matches[i].x, expected[i].x);
            EXPECT_EQ(outcome.matches[i].y, expected[i].y);
            EXPECT_EQ(outcome.matches[i].score, expected[i].score);
        } else {
            const size_t at = static_cast<size_t>(outcome.matches[i].y) * static_cast<size_t>(image.cols - templ.cols + 1) +
                              static_cast<size_t>(outcome.matches[i].x);
            const double tolerance = 1e-9 * (1 + std::fabs(expected[i].score));
            EXPECT_NEAR(outcome.matches[i].score, expected[i].score, tolerance);
            EXPECT_NEAR(map[at], expected[i].score, tolerance);
        }
        EXPECT_EQ(outcome.matches[i].filled, -1);
        EXPECT_EQ(outcome.matches[i].pixels, 0u);
    }
}

inline cusMatcherOptions with(cusMatchMethod method, cusMatchAlgorithm algorithm, int matches = 1, int distance = 1) {
    cusMatcherOptions options = cusMatcherDefaults();
    options.method = method;
    options.algorithm = algorithm;
    options.max_matches = matches;
    options.min_distance = distance;
    return options;
}

const cusMatchAlgorithm ALGORITHMS[] = {CUS_MATCH_DIRECT, CUS_MATCH_FFT};

} // namespace match_test
