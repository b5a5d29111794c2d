// dx and dy come from exact scores: the reference's bits, on both backends, by each algorithm. scales.cpp: on any number of threads.
#include "match/support.hpp"
#include "reference/match_floats.hpp"

namespace {

using namespace match_test;

class MatchFractions : public support::SpaceTest {};
CUS_BOTH_SPACES(MatchFractions);

double scoreOf(const Image<uint8_t> &image, const Image<uint8_t> &templ, const uint8_t *mask, cusMatchMethod method, int y,
               int x) {
    return reference::score(image, templ, mask, method, y, x);
}
double scoreOf(const Image<float> &image, const Image<float> &templ, const uint8_t *mask, cusMatchMethod method, int y,
               int x) {
    return reference::floatScore(image, templ, mask, method, y, x);
}

// Positions, scores, and fractions of the reference, to the last bit.
template<class T>
void expectReference(const Image<T> &image, const Image<T> &templ, cusSpace space, cusMatcherOptions options,
                     const uint8_t *mask = nullptr) {
    SCOPED_TRACE(testing::Message() << (sizeof(T) > 1 ? "floats " : "bytes ") << image.channels << " channels, template "
                                    << templ.cols << "x" << templ.rows << " method " << options.method << " algorithm "
                                    << options.algorithm << " matches " << options.max_matches << (mask ? " masked" : ""));
    options.subpixel = 1;
    const int cols = image.cols - templ.cols + 1, rows = image.rows - templ.rows + 1;
    const auto matches = run(image, templ, space, options, mask).matches;
    std::vector<reference::Found> found;                                               // positions are tested elsewhere
    std::vector<double> scores(static_cast<size_t>(rows) * static_cast<size_t>(cols)); // at these and beside them
    for (const cusMatch &match : matches) {
        found.push_back({match.x, match.y, match.score});
        for (const auto &[dy, dx] : {std::pair{0, 0}, {0, -1}, {0, 1}, {-1, 0}, {1, 0}}) {
            const int y = match.y + dy, x = match.x + dx;
            if (y >= 0 && y < rows && x >= 0 && x < cols)
                scores[static_cast<size_t>(y * cols + x)] = scoreOf(image, templ, mask, options.method, y, x);
        }
    }
    ASSERT_FALSE(matches.empty());
    for (size_t i = 0; i < matches.size(); ++i) {
        const auto want = reference::fractionsOf(scores, cols, options.method, options.min_distance, found, i);
        EXPECT_EQ(matches[i].score, scores[static_cast<size_t>(matches[i].y * cols + matches[i].x)]);
        EXPECT_EQ(std::memcmp(&matches[i].dx, &want.dx, sizeof want.dx), 0)
            << i << ": " << matches[i].dx << ", not " << want.dx;
        EXPECT_EQ(std::memcmp(&matches[i].dy, &want.dy, sizeof want.dy), 0)
            << i << ": " << matches[i].dy << ", not " << want.dy;
    }
}

TEST_P(MatchFractions, AreTheReference) {
    auto random = support::generator();
    for (const int channels : {1, 3}) {
        const auto bytes = picture<uint8_t>(47, 61, channels, random);
        auto floats = picture<float>(47, 61, channels, random);
        for (float &v : floats.data)
            v = v * 0.013f - 1;
        std::vector<uint8_t> mask;
        for (int i = 0; i < 9 * 13; ++i)
            mask.push_back(random() % 4 ? 255 : 0);
        for (const auto method : METHODS)
            for (const int matches : {1, 7})
                for (const uint8_t *inside : std::initializer_list<const uint8_t *>{nullptr, mask.data()}) {
                    for (const auto algorithm : ALGORITHMS)
                        expectReference(bytes, cut(bytes, 20, 31, 9, 13), space(), with(method, algorithm, matches, 3),
                                        inside);
                    expectReference(floats, cut(floats, 20, 31, 9, 13), space(), with(method, CUS_MATCH_FFT, matches, 3),
                                    inside);
                }
    }
}

// Best positions in corners and at borders have neighbors on some sides only.
TEST_P(MatchFractions, AtBorders) {
    auto random = support::generator();
    const auto bytes = picture<uint8_t>(30, 40, 1, random);
    const auto floats = picture<float>(30, 40, 1, random);
    for (const auto &[y, x] : {std::pair{0, 0}, {0, 31}, {23, 0}, {23, 31}, {0, 12}, {11, 0}, {23, 12}, {11, 31}})
        for (const auto algorithm : ALGORITHMS) {
            expectReference(bytes, cut(bytes, y, x, 7, 9), space(), with(CUS_MATCH_CCOEFF_NORMED, algorithm));
            expectReference(floats, cut(floats, y, x, 7, 9), space(), with(CUS_MATCH_SQDIFF, algorithm));
        }
}

// So many positions are equal, or nearly so, that lists overflow: transforms in double find the place, pixels give the fractions.
TEST_P(MatchFractions, WhereManyPositionsAreEqual) {
    auto random = support::generator();
    auto bytes = flat<uint8_t>(120, 140, 1, 0);
    auto floats = flat<float>(120, 140, 1, 0.3f);
    for (size_t i = 0; i < bytes.data.size() / 8; ++i) {
        bytes.data[i] = static_cast<uint8_t>(random() % 256);
        floats.data[i] = static_cast<float>(static_cast<double>(random() % 100003) / 100003);
    }
    auto stripes = flat<float>(120, 140, 1, 0);
    for (size_t i = 0; i < stripes.data.size(); ++i)
        stripes.data[i] = static_cast<float>(i % 140 % 10) * 0.3f;
    for (const auto method : METHODS)
        for (const int matches : {1, 5})
            for (const auto algorithm : ALGORITHMS) {
                const auto options = with(method, algorithm, matches, 4);
                expectReference(bytes, flat<uint8_t>(9, 9, 1, 20), space(), options);
                expectReference(floats, cut(floats, 3, 40, 9, 9), space(), options);
                expectReference(stripes, cut(stripes, 3, 40, 9, 9), space(), options);
            }
}

// Windows of several slices, and of more candidates than have room beside their neighbors.
TEST_P(MatchFractions, LargeTemplates) {
    auto random = support::generator();
    const auto bytes = picture<uint8_t>(90, 110, 1, random);
    auto floats = picture<float>(90, 110, 1, random);
    for (float &v : floats.data)
        v *= 0.01f;
    auto steps = flat<float>(90, 110, 1, 1);
    for (size_t i = 0; i < steps.data.size(); ++i)
        steps.data[i] += static_cast<float>(i % 110 % 12 + i / 110 % 9) * 1e-3f + static_cast<float>(random() % 7) * 1e-7f;
    for (const auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCORR, CUS_MATCH_CCOEFF_NORMED}) {
        expectReference(bytes, cut(bytes, 10, 20, 70, 80), space(), with(method, CUS_MATCH_FFT));
        expectReference(floats, cut(floats, 10, 20, 70, 80), space(), with(method, CUS_MATCH_FFT));
        expectReference(steps, cut(steps, 10, 20, 70, 80), space(), with(method, CUS_MATCH_FFT));
    }
}

} // namespace
