#include "cusight/match.h"
#include "reference/hsv.hpp"
#include "reference/match.hpp"
#include "support.hpp"

#include <limits>
#include <thread>

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#if __has_include(<opencv2/imgcodecs.hpp>)
#include <opencv2/imgcodecs.hpp>
#endif
#endif

namespace {

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

struct Matcher {
    cusMatcher *object = nullptr;
    ~Matcher() { cusMatcherDestroy(object); }
};

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
    EXPECT_EQ(cusMatcherCreate(&matcher.object, &pattern.mat, 1, image.rows, image.cols, &options, nullptr), CUS_OK)
        << cusLastError();
    if (!matcher.object)
        return outcome;
    EXPECT_EQ(cusMatcherRun(matcher.object, &frame.mat, &scores.mat, nullptr), CUS_OK) << cusLastError();
    outcome.matches.resize(static_cast<size_t>(options.max_matches));
    int found = 0;
    EXPECT_EQ(cusMatcherGet(matcher.object, 0, outcome.matches.data(), options.max_matches, &found, nullptr), CUS_OK)
        << cusLastError();
    outcome.matches.resize(static_cast<size_t>(found));
    outcome.map = scores.get<float>();
    EXPECT_TRUE(scores.intact());
    EXPECT_TRUE(frame.intact());
    return outcome;
}

// What a score may be off by: the documented bound for the correlation (twice that for a squared difference), through the
// normalization where there is one, and float's rounding.
template<class T>
std::vector<double> bounds(const Image<T> &image, const Image<T> &templ, cusMatchMethod method, bool masked,
                           const std::vector<double> &map) {
    double shift[3] = {0, 0, 0}, a = 0, b = 0;
    const size_t cn = static_cast<size_t>(image.channels);
    const double n = static_cast<double>(templ.rows) * templ.cols;
    for (size_t i = 0; i < templ.data.size(); ++i)
        shift[i % cn] += templ.data[i] / n;
    for (double &s : shift)
        s = std::rint(s);
    for (size_t i = 0; i < image.data.size(); ++i)
        a += std::pow(image.data[i] - shift[i % cn], 2);
    for (size_t i = 0; i < templ.data.size(); ++i)
        b += std::pow(templ.data[i] - (masked && method == CUS_MATCH_CCORR ? 0 : shift[i % cn]), 2);
    /* Transforms of twice the frame in each direction at most. */
    const double points = 4.0 * image.rows * image.cols + 64;
    double error = 12 * std::log2(points) * 0x1p-24 * std::sqrt(a) * std::sqrt(b);
    if (method == CUS_MATCH_SQDIFF || method == CUS_MATCH_SQDIFF_NORMED)
        error *= 2;
    if (masked) /* the squares' plane */
        error += 12 * std::log2(points) * 0x1p-24 * 65025 * std::sqrt(static_cast<double>(image.data.size()) * n);
    std::vector<double> result;
    for (int y = 0, i = 0; y + templ.rows <= image.rows; ++y)
        for (int x = 0; x + templ.cols <= image.cols; ++x, ++i) {
            double norm = 1;
            if (method & 1) {
                double s2 = 0, t2 = 0, s1[3] = {0, 0, 0}, t1[3] = {0, 0, 0};
                for (int j = 0; j < templ.rows; ++j)
                    for (int k = 0; k < templ.cols; ++k)
                        for (int c = 0; c < image.channels; ++c) {
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
    if (space == CUS_HOST && options.algorithm == CUS_MATCH_FFT && std::string(cusMatcherHostFft()) == "none")
        return;
    const auto map = reference::scoreMap(image, templ, mask, options.method);
    const auto expected =
        reference::best(map, image.cols - templ.cols + 1, options.method, options.max_matches, options.min_distance);
    const Outcome outcome = run(image, templ, space, options, mask, layout);
    ASSERT_EQ(outcome.map.size(), map.size());
    const auto bound = bounds(image, templ, options.method, mask != nullptr, map);
    size_t worst = 0;
    for (size_t i = 0; i < map.size(); ++i)
        if (!(std::fabs(outcome.map[i] - map[i]) - bound[i] <= std::fabs(outcome.map[worst] - map[worst]) - bound[worst]))
            worst = i;
    EXPECT_LE(std::fabs(outcome.map[worst] - map[worst]), bound[worst]) << "at " << worst << ", true score " << map[worst];
    ASSERT_EQ(outcome.matches.size(), expected.size());
    const bool exact =
        std::is_same_v<T, uint8_t> && (options.method == CUS_MATCH_SQDIFF || options.method == CUS_MATCH_CCORR);
    for (size_t i = 0; i < expected.size(); ++i) {
        /* Normalized scores are rounded from the same integers; long double and double may differ in the last bits, and
         * so may decide between two equal scores. */
        if (exact) {
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

cusMatcherOptions with(cusMatchMethod method, cusMatchAlgorithm algorithm, int matches = 1, int distance = 1) {
    cusMatcherOptions options = cusMatcherDefaults();
    options.method = method;
    options.algorithm = algorithm;
    options.max_matches = matches;
    options.min_distance = distance;
    return options;
}

const cusMatchAlgorithm PATHS[] = {CUS_MATCH_DIRECT, CUS_MATCH_FFT};

class Match : public support::SpaceTest {};
CUS_BOTH_SPACES(Match);

TEST_P(Match, SpecificationExample) {
    const Image<uint8_t> image{5, 5, 1, {1, 2, 3, 2, 1, 4, 5, 6, 5, 4, 7, 8, 9, 8, 7, 4, 3, 2, 3, 4, 1, 0, 1, 2, 3}};
    const Image<uint8_t> templ{2, 2, 1, {6, 5, 3, 2}};
    for (auto algorithm : PATHS) {
        if (space() == CUS_HOST && algorithm == CUS_MATCH_FFT && std::string(cusMatcherHostFft()) == "none")
            continue;
        const Outcome outcome = run(image, templ, space(), with(CUS_MATCH_SQDIFF, algorithm));
        EXPECT_NEAR(outcome.map[1 * 4 + 2], 72, 0.01);
        compare(image, templ, space(), with(CUS_MATCH_SQDIFF, algorithm));
    }
}

TEST_P(Match, EveryMethodTypeAndPath) {
    auto random = support::generator();
    for (auto method : METHODS)
        for (auto algorithm : PATHS) {
            for (int channels : {1, 3}) {
                const auto image = picture<uint8_t>(61, 83, channels, random);
                compare(image, picture<uint8_t>(13, 9, channels, random), space(), with(method, algorithm));
                compare(image, cut(image, 20, 31, 17, 22), space(), with(method, algorithm));
            }
            const auto image = picture<float>(47, 70, 1, random);
            compare(image, picture<float>(8, 11, 1, random), space(), with(method, algorithm));
            compare(image, cut(image, 3, 40, 21, 5), space(), with(method, algorithm));
        }
}

TEST_P(Match, RandomSizesAndLayouts) {
    auto random = support::generator();
    for (int round = 0; round < 40; ++round) {
        const int rows = 1 + static_cast<int>(random() % 70), cols = 1 + static_cast<int>(random() % 90);
        const int h = 1 + static_cast<int>(random() % static_cast<unsigned>(rows));
        const int w = 1 + static_cast<int>(random() % static_cast<unsigned>(cols)), channels = random() & 1 ? 1 : 3;
        Image<uint8_t> image{rows, cols, channels, {}}, templ{h, w, channels, {}};
        image.data = support::randomBytes(static_cast<size_t>(rows * cols * channels), random);
        templ.data = support::randomBytes(static_cast<size_t>(h * w * channels), random);
        const auto layouts = support::layouts(typeOf<uint8_t>(channels));
        compare(image, templ, space(), with(METHODS[random() % 6], PATHS[random() % 2]), nullptr,
                layouts[static_cast<size_t>(round) % layouts.size()]);
    }
}

TEST_P(Match, ExtremeShapes) {
    auto random = support::generator();
    struct Shape {
        int rows, cols, h, w;
    };
    for (const Shape &s : {Shape{1, 1, 1, 1}, Shape{1, 300, 1, 7}, Shape{300, 1, 7, 1}, Shape{40, 40, 40, 40},
                           Shape{33, 65, 1, 1}, Shape{129, 67, 64, 67}, Shape{31, 257, 31, 3}, Shape{2, 2, 1, 2}})
        for (auto method : METHODS)
            for (auto algorithm : PATHS)
                compare(picture<uint8_t>(s.rows, s.cols, 1, random), picture<uint8_t>(s.h, s.w, 1, random), space(),
                        with(method, algorithm));
}

// Transforms of all lengths; above 3840 points cuFFT's, above 5760 columns row sums in the device's memory.
TEST_P(Match, Lengths) {
    auto random = support::generator();
    for (int length = 150; length < 6500; length += length / 12) {
        compare(picture<uint8_t>(6, length, 1, random), picture<uint8_t>(3, 40, 1, random), space(),
                with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT));
        compare(picture<uint8_t>(length, 7, 1, random), picture<uint8_t>(100, 3, 1, random), space(),
                with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT));
    }
    for (auto algorithm : PATHS) {
        compare(picture<uint8_t>(5, 6200, 1, random), picture<uint8_t>(2, 90, 1, random), space(),
                with(CUS_MATCH_SQDIFF, algorithm, 3, 50));
        compare(picture<uint8_t>(9, 2100, 3, random), picture<uint8_t>(5, 30, 3, random), space(),
                with(CUS_MATCH_CCOEFF_NORMED, algorithm));
        compare(picture<float>(2500, 9, 1, random), picture<float>(60, 4, 1, random), space(),
                with(CUS_MATCH_SQDIFF, algorithm));
    }
}

// Windows so high that a column's squares add up to more than 32 bits hold.
TEST_P(Match, HighWindows) {
    auto image = flat<uint8_t>(66104, 9, 1, 255);
    image.data[66100 * 9 + 4] = 254;
    const auto templ = flat<uint8_t>(66100, 2, 1, 0);
    for (auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCOEFF_NORMED})
        compare(image, templ, space(), with(method, CUS_MATCH_DIRECT));
}

// An exact copy scores exactly 0 (the FFT alone misses that by up to hundreds), ties go to the first.
TEST_P(Match, ExactCopiesAndTies) {
    auto random = support::generator();
    auto image = picture<uint8_t>(150, 200, 1, random);
    const auto templ = cut(image, 11, 101, 40, 60);
    for (int y = 0; y < 40; ++y) // a second copy, later in row-major order
        for (int x = 0; x < 60; ++x)
            image.data[static_cast<size_t>((y + 90) * 200 + x + 20)] = templ.at(y, x, 0);
    for (auto algorithm : PATHS) {
        if (space() == CUS_HOST && algorithm == CUS_MATCH_FFT && std::string(cusMatcherHostFft()) == "none")
            continue;
        const Outcome outcome = run(image, templ, space(), with(CUS_MATCH_SQDIFF, algorithm, 2, 10));
        ASSERT_EQ(outcome.matches.size(), 2u);
        EXPECT_EQ(outcome.matches[0].x, 101);
        EXPECT_EQ(outcome.matches[0].y, 11);
        EXPECT_EQ(outcome.matches[0].score, 0);
        EXPECT_EQ(outcome.matches[1].x, 20);
        EXPECT_EQ(outcome.matches[1].y, 90);
        EXPECT_EQ(outcome.matches[1].score, 0);
    }
}

TEST_P(Match, FlatImages) {
    auto random = support::generator();
    for (auto method : METHODS)
        for (auto algorithm : PATHS) {
            compare(flat<uint8_t>(60, 60, 1, 255), flat<uint8_t>(25, 25, 1, 255), space(), with(method, algorithm));
            compare(flat<uint8_t>(60, 60, 1, 0), flat<uint8_t>(25, 25, 1, 255), space(), with(method, algorithm));
            compare(flat<uint8_t>(50, 90, 3, 77), picture<uint8_t>(11, 19, 3, random), space(), with(method, algorithm));
            compare(picture<uint8_t>(40, 50, 1, random), flat<uint8_t>(9, 9, 1, 100), space(), with(method, algorithm));
            compare(flat<uint8_t>(40, 50, 1, 0), flat<uint8_t>(9, 9, 1, 0), space(), with(method, algorithm));
        }
}

// Every period scores the same, and thousands of positions are within the FFT's error of the best.
TEST_P(Match, PeriodicImages) {
    for (int period : {2, 7}) {
        Image<uint8_t> image{150, 170, 1, {}}, templ{40, 50, 1, {}};
        for (int y = 0; y < image.rows; ++y)
            for (int x = 0; x < image.cols; ++x)
                image.data.push_back(static_cast<uint8_t>((x % period + y % period) * 20));
        templ = cut(image, 0, 0, 40, 50);
        compare(image, templ, space(), with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT));
        for (auto &v : templ.data) // now nothing scores 0
            v = static_cast<uint8_t>(v + 3);
        templ.data[5] = 200;
        for (auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCORR, CUS_MATCH_CCOEFF_NORMED})
            compare(image, templ, space(), with(method, CUS_MATCH_FFT, 3, 2));
    }
}

TEST_P(Match, Masks) {
    auto random = support::generator();
    for (int channels : {1, 3})
        for (auto algorithm : PATHS)
            for (auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCORR}) {
                const auto image = picture<uint8_t>(50, 66, channels, random);
                auto templ = cut(image, 10, 20, 14, 19);
                std::vector<uint8_t> mask;
                for (int i = 0; i < 14 * 19; ++i)
                    mask.push_back(random() % 3 ? static_cast<uint8_t>(1 + random() % 255) : 0);
                for (size_t i = 0; i < mask.size(); ++i) // what the mask drops must not matter
                    if (!mask[i])
                        for (int c = 0; c < channels; ++c)
                            templ.data[i * static_cast<size_t>(channels) + static_cast<size_t>(c)] =
                                static_cast<uint8_t>(random());
                compare(image, templ, space(), with(method, algorithm), mask.data());
                if (channels == 1) {
                    const auto floats = picture<float>(50, 66, 1, random);
                    compare(floats, cut(floats, 10, 20, 14, 19), space(), with(method, algorithm), mask.data());
                }
            }
}

TEST_P(Match, SeveralMatchesKeepTheirDistance) {
    auto random = support::generator();
    const auto image = picture<uint8_t>(70, 90, 1, random);
    for (auto method : METHODS)
        for (auto algorithm : PATHS)
            for (int distance : {1, 6, 40})
                compare(image, cut(image, 30, 50, 10, 10), space(), with(method, algorithm, 12, distance));
    // More than the map has room for.
    compare(picture<uint8_t>(5, 6, 1, random), picture<uint8_t>(4, 4, 1, random), space(),
            with(CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT, 20, 1));
}

TEST_P(Match, Limit) {
    auto random = support::generator();
    const auto image = picture<uint8_t>(60, 80, 1, random);
    const auto templ = cut(image, 30, 50, 16, 16);
    auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 5, 8);
    options.score_limit = 0;
    const auto one = run(image, templ, space(), options);
    ASSERT_EQ(one.matches.size(), 1u);
    EXPECT_EQ(one.matches[0].x, 50);
    options = with(CUS_MATCH_CCOEFF_NORMED, CUS_MATCH_AUTO, 5, 8);
    options.score_limit = 1.5; // never reached
    EXPECT_EQ(run(image, templ, space(), options).matches.size(), 0u);
}

// A blurred spot moved by a fraction of a pixel.
TEST_P(Match, Subpixel) {
    const auto spot = [](int rows, int cols, double y0, double x0) {
        Image<float> image{rows, cols, 1, {}};
        for (int y = 0; y < rows; ++y)
            for (int x = 0; x < cols; ++x)
                image.data.push_back(static_cast<float>(200 * std::exp(-((x - x0) * (x - x0) + (y - y0) * (y - y0)) / 60)));
        return image;
    };
    for (auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCOEFF})
        for (auto algorithm : PATHS) {
            if (space() == CUS_HOST && algorithm == CUS_MATCH_FFT && std::string(cusMatcherHostFft()) == "none")
                continue;
            auto options = with(method, algorithm);
            options.subpixel = 1;
            const auto outcome = run(spot(80, 90, 40.3, 50.8), spot(41, 41, 20, 20), space(), options);
            ASSERT_EQ(outcome.matches.size(), 1u);
            EXPECT_NEAR(outcome.matches[0].x + outcome.matches[0].dx, 30.8, 0.03);
            EXPECT_NEAR(outcome.matches[0].y + outcome.matches[0].dy, 20.3, 0.03);
        }
}

TEST_P(Match, BatchEqualsOneByOne) {
    auto random = support::generator();
    const auto image = picture<uint8_t>(120, 140, 3, random);
    Pixels<uint8_t> frame(image, space());
    std::vector<Image<uint8_t>> templates;
    std::vector<std::unique_ptr<Pixels<uint8_t>>> pixels;
    std::vector<cusMat> mats;
    for (int k = 0; k < 5; ++k) {
        templates.push_back(cut(image, 7 * k, 11 * k, 30, 25));
        pixels.push_back(std::make_unique<Pixels<uint8_t>>(templates.back(), space()));
        mats.push_back(pixels.back()->mat);
    }
    for (auto algorithm : PATHS) {
        if (space() == CUS_HOST && algorithm == CUS_MATCH_FFT && std::string(cusMatcherHostFft()) == "none")
            continue;
        const auto options = with(CUS_MATCH_CCOEFF_NORMED, algorithm, 2, 5);
        Matcher matcher;
        CUS_ASSERT_OK(cusMatcherCreate(&matcher.object, mats.data(), 5, 120, 140, &options, nullptr));
        EXPECT_EQ(cusMatcherAlgorithm(matcher.object), algorithm);
        std::vector<cusMat> maps(5, cusMat CUS_MAT_INIT);
        for (int again = 0; again < 2; ++again)
            CUS_ASSERT_OK(cusMatcherRun(matcher.object, &frame.mat, maps.data(), nullptr));
        for (int k = 0; k < 5; ++k) {
            const auto alone = run(image, templates[static_cast<size_t>(k)], space(), options);
            cusMatch matches[2];
            int found = 0;
            CUS_ASSERT_OK(cusMatcherGet(matcher.object, k, matches, 2, &found, nullptr));
            ASSERT_EQ(found, 2);
            for (int i = 0; i < 2; ++i) {
                EXPECT_EQ(matches[i].x, alone.matches[static_cast<size_t>(i)].x);
                EXPECT_EQ(matches[i].y, alone.matches[static_cast<size_t>(i)].y);
                EXPECT_EQ(matches[i].score, alone.matches[static_cast<size_t>(i)].score);
            }
            EXPECT_EQ(matches[0].x, 11 * k);
            EXPECT_EQ(matches[0].y, 7 * k);
            const auto map = support::elements<float>(maps[static_cast<size_t>(k)]);
            for (size_t i = 0; i < map.size(); ++i)
                ASSERT_NEAR(map[i], alone.map[i], 2e-3) << i;
        }
        for (auto &map : maps)
            cusMatRelease(&map);
    }
}

TEST_P(Match, UnusableFloatsGiveNoMatch) {
    auto random = support::generator();
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e20f})
        for (auto algorithm : PATHS) {
            if (space() == CUS_HOST && algorithm == CUS_MATCH_FFT && std::string(cusMatcherHostFft()) == "none")
                continue;
            auto image = picture<float>(30, 40, 1, random);
            const auto templ = cut(image, 4, 5, 6, 7);
            image.data[777] = bad;
            const auto outcome = run(image, templ, space(), with(CUS_MATCH_SQDIFF, algorithm, 2));
            EXPECT_EQ(outcome.matches.size(), 0u);
            for (float v : outcome.map)
                ASSERT_TRUE(std::isnan(v));
            auto broken = templ;
            broken.data[3] = bad;
            Pixels<float> pattern(broken, space());
            Matcher matcher;
            CUS_EXPECT_ERROR(cusMatcherCreate(&matcher.object, &pattern.mat, 1, 30, 40, nullptr, nullptr), CUS_ERROR_VALUE,
                             "cusMatcherCreate: templates[0] holds NaN, infinity, or values whose squares");
        }
}

TEST_P(Match, ResultsWithoutAMapAndBeforeARun) {
    auto random = support::generator();
    const auto image = picture<uint8_t>(70, 64, 1, random);
    Pixels<uint8_t> frame(image, space()), pattern(cut(image, 33, 21, 20, 20), space());
    Matcher matcher;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher.object, &pattern.mat, 1, 70, 64, nullptr, nullptr));
    cusMatch match;
    int found = -1;
    CUS_ASSERT_OK(cusMatcherGet(matcher.object, 0, &match, 1, &found, nullptr));
    EXPECT_EQ(found, 0);
    CUS_ASSERT_OK(cusMatcherRun(matcher.object, &frame.mat, nullptr, nullptr));
    CUS_EXPECT_ERROR(cusMatcherGet(matcher.object, 0, &match, 0, &found, nullptr), CUS_ERROR_CAPACITY,
                     "cusMatcherGet: 1 matches, matches has capacity 0");
    CUS_ASSERT_OK(cusMatcherGet(matcher.object, 0, &match, 1, &found, nullptr));
    EXPECT_EQ(found, 1);
    EXPECT_EQ(match.x, 21);
    EXPECT_EQ(match.y, 33);
    EXPECT_EQ(match.score, 0);
    cusMat view = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatcherResults(matcher.object, &view));
    EXPECT_EQ(view.space, space());
    const auto bytes = support::elements(view);
    ASSERT_EQ(bytes.size(), sizeof match);
    EXPECT_EQ(std::memcmp(bytes.data(), &match, sizeof match), 0);
}

TEST_P(Match, TwoThreadsTwoStreams) {
    auto random = support::generator();
    const auto image = picture<uint8_t>(200, 220, 1, random);
    const auto work = [&](int y, int x, int *wrong) {
        cusStream stream = nullptr;
        if (space() == CUS_DEVICE && cusStreamCreate(&stream) != CUS_OK) {
            ++*wrong;
            return;
        }
        Pixels<uint8_t> frame(image, space()), pattern(cut(image, y, x, 50, 40), space());
        Matcher matcher;
        *wrong += cusMatcherCreate(&matcher.object, &pattern.mat, 1, 200, 220, nullptr, stream) != CUS_OK;
        for (int i = 0; i < 20 && !*wrong; ++i) {
            cusMatch match = {};
            int found = 0;
            *wrong += cusMatcherRun(matcher.object, &frame.mat, nullptr, stream) != CUS_OK;
            *wrong += cusMatcherGet(matcher.object, 0, &match, 1, &found, stream) != CUS_OK;
            *wrong += found != 1 || match.x != x || match.y != y || match.score != 0;
        }
        cusStreamDestroy(stream);
    };
    int wrong[2] = {0, 0};
    std::thread one(work, 13, 57, &wrong[0]), two(work, 101, 150, &wrong[1]);
    one.join();
    two.join();
    EXPECT_EQ(wrong[0], 0);
    EXPECT_EQ(wrong[1], 0);
}

TEST_P(Match, Rejected) {
    const auto image = flat<uint8_t>(20, 30, 1, 5);
    Pixels<uint8_t> frame(image, space()), templ(cut(image, 0, 0, 6, 8), space());
    Pixels<uint8_t> other(cut(image, 0, 0, 5, 8), space()), color(flat<uint8_t>(6, 8, 3, 1), space());
    const auto create = [&](const cusMat *templates, int count, int rows, int cols, const cusMatcherOptions *options) {
        cusMatcher *matcher = nullptr;
        const cusStatus status = cusMatcherCreate(&matcher, templates, count, rows, cols, options, nullptr);
        EXPECT_EQ(matcher, nullptr);
        cusMatcherDestroy(matcher);
        return status;
    };
    CUS_EXPECT_ERROR(cusMatcherCreate(nullptr, &templ.mat, 1, 20, 30, nullptr, nullptr), CUS_ERROR_NULL, "matcher is NULL");
    CUS_EXPECT_ERROR(create(nullptr, 1, 20, 30, nullptr), CUS_ERROR_NULL, "templates is NULL");
    CUS_EXPECT_ERROR(create(&templ.mat, 0, 20, 30, nullptr), CUS_ERROR_VALUE, "count is 0, takes 1..1024");
    CUS_EXPECT_ERROR(create(&templ.mat, 1, 5, 30, nullptr), CUS_ERROR_SIZE,
                     "cusMatcherCreate: the template, 6 x 8 (rows x cols), does not fit into frames of 5 x 30");
    CUS_EXPECT_ERROR(create(&templ.mat, 1, 20, 7, nullptr), CUS_ERROR_SIZE, "does not fit into frames of 20 x 7");
    CUS_EXPECT_ERROR(create(&templ.mat, 1, 1 << 16, 1 << 16, nullptr), CUS_ERROR_SIZE, "takes up to 2^32 - 2 pixels");
    const cusMat empty = CUS_MAT_INIT;
    CUS_EXPECT_ERROR(create(&empty, 1, 20, 30, nullptr), CUS_ERROR_NULL, "templates[0]");
    const cusMat sizes[] = {templ.mat, other.mat}, types[] = {templ.mat, color.mat};
    CUS_EXPECT_ERROR(create(sizes, 2, 20, 30, nullptr), CUS_ERROR_SIZE, "templates[1]");
    CUS_EXPECT_ERROR(create(types, 2, 20, 30, nullptr), CUS_ERROR_TYPE, "templates[1]");
    support::TestMat wrong(6, 8, CUS_16UC1, space());
    CUS_EXPECT_ERROR(create(&wrong.mat, 1, 20, 30, nullptr), CUS_ERROR_TYPE,
                     "cusMatcherCreate: templates[0] has type 16UC1, takes 8UC1, 8UC3 or 32FC1");
    auto options = cusMatcherDefaults();
    options.method = static_cast<cusMatchMethod>(6);
    CUS_EXPECT_ERROR(create(&templ.mat, 1, 20, 30, &options), CUS_ERROR_VALUE, "method is 6");
    options = cusMatcherDefaults();
    options.algorithm = static_cast<cusMatchAlgorithm>(3);
    CUS_EXPECT_ERROR(create(&templ.mat, 1, 20, 30, &options), CUS_ERROR_VALUE, "algorithm is 3");
    options = cusMatcherDefaults();
    options.max_matches = 1025;
    CUS_EXPECT_ERROR(create(&templ.mat, 1, 20, 30, &options), CUS_ERROR_VALUE, "max_matches is 1025, takes 1..1024");
    options = cusMatcherDefaults();
    options.min_distance = 0;
    CUS_EXPECT_ERROR(create(&templ.mat, 1, 20, 30, &options), CUS_ERROR_VALUE, "min_distance is 0, takes 1 or more");
    // Masks
    options = cusMatcherDefaults();
    options.mask = &other.mat;
    CUS_EXPECT_ERROR(create(&templ.mat, 1, 20, 30, &options), CUS_ERROR_SIZE, "mask");
    options.mask = &color.mat;
    CUS_EXPECT_ERROR(create(&templ.mat, 1, 20, 30, &options), CUS_ERROR_TYPE, "mask has type 8UC3, takes 8UC1");
    Pixels<uint8_t> zero(flat<uint8_t>(6, 8, 1, 0), space());
    options.mask = &zero.mat;
    CUS_EXPECT_ERROR(create(&templ.mat, 1, 20, 30, &options), CUS_ERROR_VALUE, "mask is all zero");
    options.method = CUS_MATCH_CCOEFF;
    CUS_EXPECT_ERROR(create(&templ.mat, 1, 20, 30, &options), CUS_ERROR_VALUE,
                     "mask goes with CUS_MATCH_SQDIFF and CUS_MATCH_CCORR only, method is 4");
    // Running
    Matcher matcher;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher.object, &templ.mat, 1, 20, 30, nullptr, nullptr));
    CUS_EXPECT_ERROR(cusMatcherRun(nullptr, &frame.mat, nullptr, nullptr), CUS_ERROR_NULL, "matcher is NULL");
    CUS_EXPECT_ERROR(cusMatcherRun(matcher.object, nullptr, nullptr, nullptr), CUS_ERROR_NULL, "frame");
    CUS_EXPECT_ERROR(cusMatcherRun(matcher.object, &templ.mat, nullptr, nullptr), CUS_ERROR_SIZE,
                     "cusMatcherRun: frame is 6 x 8 (rows x cols), takes 20 x 30 as the matcher");
    support::TestMat floats(20, 30, CUS_32FC1, space()), small(3, 3, CUS_32FC1, space());
    CUS_EXPECT_ERROR(cusMatcherRun(matcher.object, &floats.mat, nullptr, nullptr), CUS_ERROR_TYPE,
                     "frame has type 32FC1, takes 8UC1");
    CUS_EXPECT_ERROR(cusMatcherRun(matcher.object, &frame.mat, &small.mat, nullptr), CUS_ERROR_SIZE, "scores[0]");
    cusMat elsewhere = frame.mat;
    elsewhere.space = space() == CUS_HOST ? CUS_DEVICE : CUS_HOST;
    CUS_EXPECT_ERROR(cusMatcherRun(matcher.object, &elsewhere, nullptr, nullptr), CUS_ERROR_SPACE, "as the matcher");
    int found = 0;
    cusMatch match;
    CUS_EXPECT_ERROR(cusMatcherGet(matcher.object, 1, &match, 1, &found, nullptr), CUS_ERROR_VALUE,
                     "index is 1, takes 0..0");
    CUS_EXPECT_ERROR(cusMatcherGet(matcher.object, 0, nullptr, 1, &found, nullptr), CUS_ERROR_NULL, "matches is NULL");
    CUS_EXPECT_ERROR(cusMatcherGet(matcher.object, 0, &match, 1, nullptr, nullptr), CUS_ERROR_NULL, "found is NULL");
    cusMat view = CUS_MAT_INIT;
    CUS_EXPECT_ERROR(cusMatcherResults(nullptr, &view), CUS_ERROR_NULL, "matcher is NULL");
    EXPECT_EQ(cusMatcherAlgorithm(nullptr), CUS_MATCH_AUTO);
    cusMatcherDestroy(nullptr);
}

TEST_P(Match, MoreThanAnyMemory) {
    Pixels<uint8_t> templ(flat<uint8_t>(6, 8, 1, 5), space());
    std::vector<cusMat> many(1024, templ.mat);
    cusMatcher *matcher = nullptr;
    auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT);
    const cusStatus status = cusMatcherCreate(&matcher, many.data(), 1024, 60000, 70000, &options, nullptr);
    if (status == CUS_OK) {
        cusMatcherDestroy(matcher);
        GTEST_SKIP() << "this machine promises 34 TB (overcommit)";
    }
    EXPECT_EQ(status, CUS_ERROR_NO_MEMORY);
    EXPECT_NE(std::string(cusLastError()).find("cusMatcherCreate"), std::string::npos) << cusLastError();
    EXPECT_EQ(matcher, nullptr);
}

// ---- Inspection

// Filled and empty capsules: found by their gray shape, told apart by the color inside.
TEST_P(Match, InspectionCountsTheColorInsideEachMatch) {
    auto random = support::generator();
    auto image = picture<uint8_t>(90, 160, 3, random);
    Image<uint8_t> gray{90, 160, 1, {}};
    const cusHsvRange blue = {{100, 150, 100}, {130, 255, 255}};
    for (int y = 30; y < 60; ++y)
        for (int x = 50; x < 90; ++x)
            for (int c = 0; c < 3; ++c)
                image.data[static_cast<size_t>((y * 160 + x) * 3 + c)] =
                    y < 45 ? static_cast<uint8_t>(c == 0 ? 250 : 10) : static_cast<uint8_t>(128);
    for (int i = 0; i < 90 * 160; ++i)
        gray.data.push_back(image.data[static_cast<size_t>(3 * i + 1)]);
    Pixels<uint8_t> frame(gray, space()), color(image, space()), templ(cut(gray, 30, 50, 30, 40), space());
    const auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 3, 30);
    Matcher matcher;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher.object, &templ.mat, 1, 90, 160, &options, nullptr));
    for (double fill : {0.5, 0.501}) {
        CUS_ASSERT_OK(cusMatcherRun(matcher.object, &frame.mat, nullptr, nullptr));
        CUS_ASSERT_OK(cusMatcherInspect(matcher.object, &color.mat, &blue, fill, nullptr));
        cusMatch matches[3];
        int found = 0;
        CUS_ASSERT_OK(cusMatcherGet(matcher.object, 0, matches, 3, &found, nullptr));
        ASSERT_GE(found, 1);
        EXPECT_EQ(matches[0].x, 50);
        EXPECT_EQ(matches[0].y, 30);
        for (int i = 0; i < found; ++i) {
            uint32_t expected = 0;
            for (int y = 0; y < 30; ++y)
                for (int x = 0; x < 40; ++x) {
                    const int b = image.at(matches[i].y + y, matches[i].x + x, 0);
                    const int g = image.at(matches[i].y + y, matches[i].x + x, 1);
                    expected +=
                        reference::inRange(reference::hsv(b, g, image.at(matches[i].y + y, matches[i].x + x, 2)), blue);
                }
            EXPECT_EQ(matches[i].pixels, expected);
            EXPECT_EQ(matches[i].filled, expected >= fill * 30 * 40 ? 1 : 0);
        }
        EXPECT_EQ(matches[0].pixels, 600u);
        EXPECT_EQ(matches[0].filled, fill <= 0.5 ? 1 : 0);
    }
    CUS_EXPECT_ERROR(cusMatcherInspect(matcher.object, &frame.mat, &blue, 0.5, nullptr), CUS_ERROR_TYPE, "takes 8UC3");
    CUS_EXPECT_ERROR(cusMatcherInspect(matcher.object, &color.mat, &blue, 1.5, nullptr), CUS_ERROR_VALUE,
                     "min_fill is 1.5, takes 0..1");
    CUS_EXPECT_ERROR(cusMatcherInspect(matcher.object, &templ.mat, &blue, 0.5, nullptr), CUS_ERROR_TYPE, "frame");
}

// ---- Against OpenCV, on real pictures

#ifdef CUSIGHT_HAVE_OPENCV
#ifdef OPENCV_IMGCODECS_HPP
Image<uint8_t> real(const std::string &name, int flags) {
    const cv::Mat mat = cv::imread(support::dataFolder() + "/" + name, flags);
    Image<uint8_t> image{mat.rows, mat.cols, mat.channels(), {}};
    for (int y = 0; y < mat.rows; ++y)
        image.data.insert(image.data.end(), mat.ptr(y), mat.ptr(y) + static_cast<size_t>(mat.cols) * mat.elemSize());
    return image;
}

TEST_P(Match, RealPicturesBesideOpencv) {
    struct Pair {
        const char *image, *templ;
    };
    if (support::dataFolder().empty() || real("box.png", cv::IMREAD_GRAYSCALE).rows == 0)
        GTEST_SKIP() << "set CUSIGHT_TEST_DATA to the folder of OpenCV's sample pictures";
    for (const Pair &pair : {Pair{"box_in_scene.png", "box.png"}, Pair{"pic1.png", "templ.png"}})
        for (int flags : {cv::IMREAD_GRAYSCALE, cv::IMREAD_COLOR}) {
            const auto image = real(pair.image, flags);
            auto templ = real(pair.templ, flags);
            if (image.rows == 0 || templ.rows == 0)
                continue;
            templ = cut(templ, 0, 0, std::min(templ.rows, image.rows), std::min(templ.cols, image.cols));
            for (auto method : METHODS)
                for (auto algorithm : {CUS_MATCH_FFT, CUS_MATCH_DIRECT}) {
                    if (space() == CUS_HOST && algorithm == CUS_MATCH_FFT && std::string(cusMatcherHostFft()) == "none")
                        continue;
                    if (space() == CUS_HOST && algorithm == CUS_MATCH_DIRECT && (flags == cv::IMREAD_COLOR || method))
                        continue; /* slow, and covered above */
                    SCOPED_TRACE(testing::Message() << pair.image << " flags " << flags << " method " << method);
                    const auto outcome = run(image, templ, space(), with(method, algorithm));
                    const cv::Mat a(image.rows, image.cols, CV_8UC(image.channels),
                                    const_cast<uint8_t *>(image.data.data()));
                    const cv::Mat b(templ.rows, templ.cols, CV_8UC(templ.channels),
                                    const_cast<uint8_t *>(templ.data.data()));
                    cv::Mat expected;
                    cv::matchTemplate(a, b, expected, static_cast<int>(method));
                    // OpenCV's own error: no mean is subtracted there, so norms of the whole pictures enter.
                    const double scale = (method & 1) ? 1 : cv::norm(a) * cv::norm(b);
                    const double bound = 2 * 21 * 22 * 0x1p-24 * scale;
                    double worst = 0;
                    for (int y = 0; y < expected.rows; ++y)
                        for (int x = 0; x < expected.cols; ++x)
                            worst =
                                std::max<double>(worst, std::fabs(expected.at<float>(y, x) -
                                                                  outcome.map[static_cast<size_t>(y * expected.cols + x)]));
                    EXPECT_LE(worst, bound);
                    // No position of OpenCV's map may be better than the exact best by more than its error.
                    ASSERT_EQ(outcome.matches.size(), 1u);
                    const auto &best = outcome.matches[0];
                    if (method == CUS_MATCH_SQDIFF || method == CUS_MATCH_CCORR || method == CUS_MATCH_CCOEFF_NORMED) {
                        EXPECT_NEAR(best.score, reference::score(image, templ, nullptr, method, best.y, best.x),
                                    method == CUS_MATCH_CCOEFF_NORMED ? 1e-9 : 0);
                    }
                    double low = 0, high = 0;
                    cv::minMaxLoc(expected, &low, &high);
                    EXPECT_LE(method < 2 ? best.score - low : high - best.score, bound);
                }
        }
}

TEST_P(Match, ExactCopyInARealPicture) {
    if (support::dataFolder().empty())
        GTEST_SKIP() << "set CUSIGHT_TEST_DATA to the folder of OpenCV's sample pictures";
    const auto image = real("fruits.jpg", cv::IMREAD_GRAYSCALE);
    if (image.rows < 300)
        GTEST_SKIP() << "fruits.jpg is not in CUSIGHT_TEST_DATA";
    const auto outcome = run(image, cut(image, 101, 203, 128, 128), space(), with(CUS_MATCH_SQDIFF, CUS_MATCH_AUTO));
    ASSERT_EQ(outcome.matches.size(), 1u);
    EXPECT_EQ(outcome.matches[0].x, 203);
    EXPECT_EQ(outcome.matches[0].y, 101);
    EXPECT_EQ(outcome.matches[0].score, 0);
}
#endif
#endif

} // namespace
