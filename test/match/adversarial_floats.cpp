// match on 32F pictures with very many equal or nearly equal scores: with fractions, and with integers of any size. Scores are
// compared with brute force in long double.
#include "match/support.hpp"

#include <functional>
#include <numeric>

namespace {

using namespace match_test;

class MatchWorstFloats : public support::SpaceTest {};
CUS_BOTH_SPACES(MatchWorstFloats);

Image<float> made(int rows, int cols, const std::function<double(int, int)> &value) {
    Image<float> image{rows, cols, 1, {}};
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            image.data.push_back(static_cast<float>(value(y, x)));
    return image;
}

double uniform(std::mt19937_64 &random) {
    return static_cast<double>(random() % 1000003) / 1000003;
}

enum Content { BLACK, ONE_VALUE, HALF, TOP_HALF, STRIPES, ROWS, BLOCKS, DIAGONAL, DARK_NOISE, CONTENTS };

Image<float> content(int which, int rows, int cols, std::mt19937_64 &random) {
    return made(rows, cols, [&](int y, int x) {
        const double noise = 0.3 + 0.2 * std::sin(0.2 * x + 0.13 * y) + 0.1 * uniform(random);
        switch (which) {
        case BLACK:
            return 0.0;
        case ONE_VALUE:
            return 0.3;
        case HALF:
            return x < cols / 2 ? 0.1 : noise;
        case TOP_HALF:
            return y < rows / 2 ? 0.7 : noise;
        case STRIPES:
            return x % 16 / 15.1;
        case ROWS:
            return y % 7 < 3 ? 0.1 : 0.9;
        case BLOCKS:
            return x % 6 * 0.11 + y % 5 * 0.07;
        case DIAGONAL:
            return (x + y) % 8 * 0.11;
        default:
            return 1e-3 * uniform(random);
        }
    });
}

void check(const Image<float> &image, const Image<float> &templ, cusSpace space, const cusMatcherOptions &options,
           const uint8_t *mask = nullptr) {
    const auto norm = [](const Image<float> &of) {
        return std::sqrt(std::inner_product(of.data.begin(), of.data.end(), of.data.begin(), 0.0));
    };
    const double rounding = options.method & 1 ? 0 : 1e-12 * norm(image) * norm(templ); // of transforms in double
    expectGreedy(image, templ, reference::scoreMap(image, templ, mask, options.method), options,
                 run(image, templ, space, options, mask).matches, rounding);
}

std::vector<uint8_t> someMask(int n, std::mt19937_64 &random) {
    std::vector<uint8_t> mask;
    for (int i = 0; i < n; ++i)
        mask.push_back(random() % 4 ? 255 : 0);
    return mask;
}

TEST_P(MatchWorstFloats, Fractions) {
    auto random = support::generator();
    const auto mask = someMask(13 * 17, random);
    for (int which = 0; which < CONTENTS; ++which) {
        const auto image = content(which, 52, 75, random);
        const Image<float> templates[] = {content(HALF, 13, 17, random), flat<float>(13, 17, 1, 0.25f),
                                          cut(image, 9, 20, 13, 17)};
        for (size_t t = 0; t < 3; ++t)
            for (auto method : METHODS)
                for (auto algorithm : ALGORITHMS) {
                    // Windows of one value have no direction: what is left of it is rounding.
                    if (method >= CUS_MATCH_CCOEFF && (which <= TOP_HALF || t > 0))
                        continue;
                    SCOPED_TRACE(testing::Message() << "content " << which << " template " << t << " method " << method
                                                    << " algorithm " << algorithm);
                    check(image, templates[t], space(), with(method, algorithm, 1 + which % 3, 3));
                    if (t == 0)
                        check(image, templates[t], space(), with(method, algorithm, 2, 4), mask.data());
                }
    }
}

// Integers: the largest whose sums are exact, and larger ones.
TEST_P(MatchWorstFloats, LargeIntegers) {
    auto random = support::generator();
    for (const double scale : {1e3, 1e6, 1.6e7})
        for (auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCORR, CUS_MATCH_SQDIFF_NORMED})
            for (auto algorithm : ALGORITHMS) {
                SCOPED_TRACE(testing::Message() << "scale " << scale << " method " << method << " algorithm " << algorithm);
                const auto integers = [&](const Image<float> &image) {
                    return made(image.rows, image.cols,
                                [&](int y, int x) { return std::floor(image.at(y, x, 0) * scale); });
                };
                const auto templ = integers(content(DARK_NOISE, 12, 15, random));
                check(integers(content(HALF, 45, 70, random)), templ, space(), with(method, algorithm, 3, 2));
                check(integers(content(STRIPES, 45, 70, random)), templ, space(), with(method, algorithm, 3, 2));
            }
}

// A matcher that meets integers, fractions and pictures that need neither, in turn, with templates of which some overflow.
TEST_P(MatchWorstFloats, ChangingFramesAndTwoTemplates) {
    auto random = support::generator();
    const auto natural = made(
        60, 80, [&](int y, int x) { return std::floor(100 + 90 * std::sin(0.2 * x + 0.3 * y) + 9 * uniform(random)); });
    const Image<float> templates[] = {cut(natural, 20, 31, 15, 18), flat<float>(15, 18, 1, 20)};
    Pixels<float> first(templates[0], space()), second(templates[1], space());
    const cusMat mats[] = {first.mat, second.mat};
    for (int count : {1, 4}) {
        const auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT, count, 5);
        Matcher matcher;
        CUS_ASSERT_OK(cusMatcherCreate(&matcher, mats, 2, 60, 80, &options, nullptr));
        for (int which : {-1, static_cast<int>(BLACK), -1, static_cast<int>(HALF), static_cast<int>(STRIPES), -1}) {
            const auto image = which < 0 ? natural : content(which, 60, 80, random);
            Pixels<float> frame(image, space());
            CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, nullptr, nullptr));
            for (int k = 0; k < 2; ++k) {
                const auto expected = run(image, templates[k], CUS_HOST, options).matches;
                const auto matches = matchesOf(matcher, k, 4);
                ASSERT_EQ(matches.size(), expected.size()) << which;
                for (size_t i = 0; i < expected.size(); ++i) {
                    if (which <= BLACK) { // integers
                        ASSERT_EQ(matches[i].x, expected[i].x) << which << " " << k << " " << i;
                        ASSERT_EQ(matches[i].y, expected[i].y) << which << " " << k << " " << i;
                    }
                    ASSERT_NEAR(matches[i].score, expected[i].score, 1e-9 * (1 + std::fabs(expected[i].score)));
                }
            }
        }
    }
}

// More different windows that score alike than a list holds: each pixel of the right half is one of two that the template's middle
// value is equally far from.
TEST_P(MatchWorstFloats, ManyDifferentWindowsOfOneScore) {
    auto random = support::generator();
    const auto image = made(70, 90, [&](int, int) { return random() % 2 ? 0.25 : 0.75; });
    for (auto algorithm : ALGORITHMS) {
        const auto options = with(CUS_MATCH_SQDIFF, algorithm, 2, 3);
        const auto matches = run(image, flat<float>(9, 11, 1, 0.5f), space(), options).matches;
        ASSERT_EQ(matches.size(), 2u);
        for (int i = 0; i < 2; ++i)
            EXPECT_NEAR(matches[static_cast<size_t>(i)].score, 9 * 11 * 0.0625, 1e-9);
    }
}

// Transforms of several items a block; windows as large as the frame; one row, one column.
TEST_P(MatchWorstFloats, Shapes) {
    auto random = support::generator();
    struct Shape {
        int rows, cols, h, w;
    };
    for (const Shape &s : {Shape{40, 40, 40, 40}, Shape{1, 300, 1, 70}, Shape{300, 1, 70, 1}, Shape{200, 33, 64, 32},
                           Shape{33, 200, 32, 65}, Shape{2, 100, 1, 33}})
        for (int which : {BLACK, HALF, STRIPES, ROWS})
            for (auto algorithm : ALGORITHMS) {
                SCOPED_TRACE(testing::Message()
                             << s.cols << "x" << s.rows << " content " << which << " algorithm " << algorithm);
                check(content(which, s.rows, s.cols, random), content(DARK_NOISE, s.h, s.w, random), space(),
                      with(CUS_MATCH_SQDIFF, algorithm, 3, 2));
            }
}

} // namespace
