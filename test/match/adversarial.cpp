// match on contents with very many equal or nearly equal scores, against brute force: every such picture, method, type, mask and
// number of matches gives what it must, whichever way the library takes.
#include "match/support.hpp"

#include <array>
#include <functional>

namespace {

using namespace match_test;

class MatchWorst : public support::SpaceTest {};
CUS_BOTH_SPACES(MatchWorst);

template<class T>
Image<T> made(int rows, int cols, int channels, const std::function<int(int, int, int)> &value) {
    Image<T> image{rows, cols, channels, {}};
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            for (int c = 0; c < channels; ++c)
                image.data.push_back(static_cast<T>(value(y, x, c)));
    return image;
}

enum Content { BLACK, WHITE, ONE_COLOR, HALF_BLACK, STRIPES, ROWS, CHECKERBOARD, GRADIENT, SATURATED, NOISE, CONTENTS };

template<class T>
Image<T> content(int which, int rows, int cols, int channels, std::mt19937_64 &random) {
    const auto natural = picture<T>(rows, cols, channels, random);
    return made<T>(rows, cols, channels, [&](int y, int x, int c) {
        switch (which) {
        case BLACK:
            return 0;
        case WHITE:
            return 255;
        case ONE_COLOR:
            return 77 + 20 * c;
        case HALF_BLACK:
            return x < cols / 2 ? 0 : static_cast<int>(natural.at(y, x, c));
        case STRIPES:
            return (x % 16) * 15 + c;
        case ROWS:
            return y % 16 < 8 ? 10 : 240;
        case CHECKERBOARD:
            return (x + y) % 2 * 255;
        case GRADIENT:
            return std::min(255, (x + 2 * y) / 2 + c);
        case SATURATED:
            return natural.at(y, x, c) > 60 ? 255 : static_cast<int>(natural.at(y, x, c));
        default:
            return static_cast<int>(random() % 256);
        }
    });
}

std::vector<uint8_t> ellipse(int rows, int cols) {
    std::vector<uint8_t> mask;
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            mask.push_back(std::hypot((2.0 * y + 1) / rows - 1, (2.0 * x + 1) / cols - 1) < 1 ? 1 : 0);
    return mask;
}

// With both algorithms.
template<class T>
void check(const Image<T> &image, const Image<T> &templ, cusSpace space, cusMatchMethod method, int matches, int distance,
           const uint8_t *mask = nullptr) {
    const auto map = reference::scoreMap(image, templ, mask, method);
    for (auto algorithm : ALGORITHMS) {
        SCOPED_TRACE(testing::Message() << "algorithm " << algorithm);
        const auto options = with(method, algorithm, matches, distance);
        // Of sums, and of transforms in double.
        const double rounding = std::is_same_v<T, uint8_t> ? 0 : 1e-6 * (method & 1 ? 1 : 255);
        expectGreedy(image, templ, map, options, run(image, templ, space, options, mask).matches, rounding);
    }
}

void checkContents(cusSpace space, int channels, int rows, int cols, int h, int w, int matches, int distance) {
    auto random = support::generator();
    for (int which = 0; which < CONTENTS; ++which) {
        const auto image = content<uint8_t>(which, rows, cols, channels, random);
        const Image<uint8_t> templates[] = {picture<uint8_t>(h, w, channels, random), flat<uint8_t>(h, w, channels, 20),
                                            cut(image, 5, 3, h, w)};
        for (size_t t = 0; t < 3; ++t)
            for (auto method : METHODS) {
                SCOPED_TRACE(testing::Message() << "content " << which << " template " << t << " method " << method
                                                << " channels " << channels);
                check(image, templates[t], space, method, matches, distance);
            }
    }
}

TEST_P(MatchWorst, Gray) {
    checkContents(space(), 1, 70, 120, 23, 31, 1, 1);
}

TEST_P(MatchWorst, Color) {
    checkContents(space(), 3, 50, 85, 17, 19, 2, 3);
}

TEST_P(MatchWorst, Masks) {
    auto random = support::generator();
    const auto mask = ellipse(24, 30);
    for (int which = 0; which < CONTENTS; ++which)
        for (auto method : METHODS) {
            SCOPED_TRACE(testing::Message() << "content " << which << " method " << method);
            for (int channels : {1, 3}) {
                const auto image = content<uint8_t>(which, 70, 100, channels, random);
                const auto templ = picture<uint8_t>(24, 30, channels, random);
                check(image, templ, space(), method, 2, 4, mask.data());
            }
            if (method & 1) // windows of one value have no direction: what is left of it is rounding
                continue;
            const auto image = content<float>(which, 70, 100, 1, random);
            check(image, picture<float>(24, 30, 1, random), space(), method, 2, 4, mask.data());
        }
}

TEST_P(MatchWorst, ManyMatches) {
    for (const auto &[matches, distance] :
         std::vector<std::pair<int, int>>{{7, 1}, {100, 1}, {100, 9}, {1024, 1}, {1024, 2}})
        for (auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCORR, CUS_MATCH_CCOEFF_NORMED})
            for (int which : {BLACK, HALF_BLACK, STRIPES, SATURATED, NOISE}) {
                SCOPED_TRACE(testing::Message()
                             << matches << " matches " << distance << " apart, content " << which << " method " << method);
                auto random = support::generator();
                const auto image = content<uint8_t>(which, 45, 150, 1, random);
                check(image, picture<uint8_t>(12, 17, 1, random), space(), method, matches, distance);
                if (matches == 100)
                    check(content<float>(which, 45, 100, 1, random), picture<float>(12, 17, 1, random), space(), method,
                          matches, distance);
            }
}

// Floats that are integers: every method's scores are those of the same bytes, to the last bit.
TEST_P(MatchWorst, IntegerFloatsEqualBytes) {
    const auto floats = [](const Image<uint8_t> &image) {
        return Image<float>{image.rows, image.cols, 1, {image.data.begin(), image.data.end()}};
    };
    auto random = support::generator();
    const auto mask = ellipse(19, 27);
    for (int which = 0; which < CONTENTS; ++which) {
        const auto image = content<uint8_t>(which, 60, 110, 1, random);
        const Image<uint8_t> templates[] = {picture<uint8_t>(19, 27, 1, random), flat<uint8_t>(19, 27, 1, 20)};
        for (const auto &templ : templates)
            for (auto method : METHODS)
                for (auto algorithm : ALGORITHMS)
                    for (bool masked : {false, true}) {
                        SCOPED_TRACE(testing::Message() << "content " << which << " method " << method << " algorithm "
                                                        << algorithm << " mask " << masked);
                        const auto options = with(method, algorithm, 3, 4);
                        const uint8_t *const kept = masked ? mask.data() : nullptr;
                        expectSame(run(floats(image), floats(templ), space(), options, kept).matches,
                                   run(image, templ, space(), options, kept).matches);
                    }
    }
}

// Blocks of all kinds: one column, one row, one position, more than a run of 64 positions, windows as large as the frame.
TEST_P(MatchWorst, Shapes) {
    auto random = support::generator();
    for (const auto &[rows, cols, h, w] : std::vector<std::array<int, 4>>{
             {300, 9, 40, 9}, {9, 500, 9, 40}, {40, 40, 40, 40}, {1, 700, 1, 30}, {700, 1, 30, 1}, {200, 210, 20, 20}})
        for (int which : {BLACK, HALF_BLACK, STRIPES, ROWS, NOISE})
            for (auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCORR_NORMED}) {
                SCOPED_TRACE(testing::Message() << cols << "x" << rows << " content " << which << " method " << method);
                check(content<uint8_t>(which, rows, cols, 1, random), picture<uint8_t>(h, w, 1, random), space(), method, 3,
                      2);
            }
}

// One matcher, two templates, frames that change: nothing of a slow frame stays for the next.
TEST_P(MatchWorst, ChangingFramesAndTwoTemplates) {
    auto random = support::generator();
    const Image<uint8_t> templates[] = {picture<uint8_t>(25, 31, 1, random), content<uint8_t>(STRIPES, 25, 31, 1, random)};
    Pixels<uint8_t> first(templates[0], space()), second(templates[1], space());
    const cusMat mats[] = {first.mat, second.mat};
    for (auto algorithm : ALGORITHMS) {
        const auto options = with(CUS_MATCH_SQDIFF, algorithm, 9, 3);
        Matcher matcher;
        CUS_ASSERT_OK(cusMatcherCreate(&matcher, mats, 2, 80, 130, &options, nullptr));
        for (int which : {NOISE, BLACK, HALF_BLACK, STRIPES, BLACK, NOISE, WHITE}) {
            const auto image = content<uint8_t>(which, 80, 130, 1, random);
            Pixels<uint8_t> frame(image, space());
            CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, nullptr, nullptr));
            for (int k = 0; k < 2; ++k) {
                const auto map = reference::scoreMap(image, templates[k], nullptr, CUS_MATCH_SQDIFF);
                SCOPED_TRACE(testing::Message() << "content " << which << " template " << k);
                expectSame(matchesOf(matcher, k, 9), reference::best(map, 100, CUS_MATCH_SQDIFF, 9, 3));
            }
        }
    }
}

} // namespace
