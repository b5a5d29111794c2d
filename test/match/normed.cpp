// Normed scores of bytes: the best position in exact arithmetic, the first of equals, and scores rounded once.
#include "match/support.hpp"

namespace {

using namespace match_test;

class MatchNormed : public support::SpaceTest {};
CUS_BOTH_SPACES(MatchNormed);

// sqrt(S2) sqrt(T2) rounds twice: the window 3 T then scores less than others.
TEST_P(MatchNormed, MultiplesOfTheTemplateScoreOne) {
    const Image<uint8_t> image{1, 9, 1, {6, 141, 72, 47, 175, 2, 47, 36, 209}}, templ{1, 2, 1, {2, 47}};
    for (auto algorithm : ALGORITHMS) {
        const auto matches = run(image, templ, space(), with(CUS_MATCH_CCORR_NORMED, algorithm)).matches;
        ASSERT_EQ(matches.size(), 1u);
        EXPECT_EQ(matches[0].x, 0);
        EXPECT_EQ(matches[0].score, 1);
    }
}

struct Sizes {
    int w, h;
};
Sizes randomSizes(std::mt19937_64 &random) {
    return {2 + static_cast<int>(random() % 7), 1 + static_cast<int>(random() % 5)};
}
template<class Pixel>
Image<uint8_t> randomImage(int rows, int cols, int channels, const Pixel &pixel) {
    Image<uint8_t> image = flat<uint8_t>(rows, cols, channels, 0);
    for (auto &value : image.data)
        value = static_cast<uint8_t>(pixel());
    return image;
}
void paste(Image<uint8_t> &image, int y0, int x0, const Image<uint8_t> &part, int factor, int offset) {
    const size_t row = static_cast<size_t>(part.cols * part.channels);
    for (size_t i = 0; i < part.data.size(); ++i)
        image.data[(static_cast<size_t>(y0) + i / row) * static_cast<size_t>(image.cols * image.channels) +
                   static_cast<size_t>(x0 * image.channels) + i % row] =
            static_cast<uint8_t>(part.data[i] * factor + offset);
}

TEST_P(MatchNormed, CopiesScoreOne) {
    auto random = support::generator();
    const int rounds = space() == CUS_HOST ? 5000 : 300;
    for (int round = 0; round < rounds; ++round)
        for (auto method : {CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF_NORMED}) {
            const Sizes size = randomSizes(random);
            const int channels = 1 + static_cast<int>(random() % 4);
            auto image = randomImage(11, 15, channels, [&] { return random() % 256; });
            const int y = static_cast<int>(random() % static_cast<unsigned>(12 - size.h)),
                      x = static_cast<int>(random() % static_cast<unsigned>(16 - size.w));
            const auto templ = cut(image, y, x, size.h, size.w);
            auto options = with(method, ALGORITHMS[round % 2]);
            options.score_limit = 1;
            const auto matches = run(image, templ, space(), options).matches;
            ASSERT_EQ(matches.size(), 1u) << "round " << round;
            ASSERT_EQ(matches[0].score, 1) << "round " << round;
            bool one_color = true; // then the score is 1 everywhere
            for (size_t i = 0; i < templ.data.size(); ++i)
                one_color &= templ.data[i] == templ.data[i % static_cast<size_t>(channels)];
            if (method == CUS_MATCH_CCOEFF_NORMED && !one_color) { // the negative of the copy, in a frame of nothing else
                const auto negative = cut(randomImage(size.h, size.w, channels, [] { return 0; }), 0, 0, size.h, size.w);
                auto inverted = negative;
                for (size_t i = 0; i < inverted.data.size(); ++i)
                    inverted.data[i] = static_cast<uint8_t>(255 - templ.data[i]);
                options.score_limit = NAN;
                const auto worst = run(inverted, templ, space(), options).matches;
                ASSERT_EQ(worst.size(), 1u);
                ASSERT_EQ(worst[0].score, -1) << "round " << round;
            }
        }
}

// Two windows of the same score, the best of the frame: a near copy and its multiple (CCORR_NORMED), with an offset
// (CCOEFF_NORMED), or with its pixels in another order where the template is of one color (SQDIFF_NORMED).
TEST_P(MatchNormed, TiesGoToTheFirst) {
    auto random = support::generator();
    const int rounds = space() == CUS_HOST ? 3400 : 200;
    for (int round = 0; round < rounds; ++round)
        for (auto method : {CUS_MATCH_SQDIFF_NORMED, CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF_NORMED}) {
            const Sizes size = randomSizes(random);
            const bool squared = method == CUS_MATCH_SQDIFF_NORMED;
            auto templ = randomImage(size.h, size.w, 1, [&] { return squared ? 100 : 1 + random() % 60; });
            if (squared)
                std::fill(templ.data.begin(), templ.data.end(), templ.data[0]);
            auto near = templ, other = templ;
            for (auto &value : near.data)
                value = static_cast<uint8_t>(value + random() % 3);
            int factor = 1 + static_cast<int>(random() % 4), offset = 0;
            other = near;
            if (squared)
                std::shuffle(other.data.begin(), other.data.end(), random), factor = 1;
            if (method == CUS_MATCH_CCOEFF_NORMED)
                offset = static_cast<int>(random() % 3);
            Image<uint8_t> image = flat<uint8_t>(2 * size.h + 1, 2 * size.w + 1, 1, 0);
            for (auto &value : image.data)
                value = random() % 2 ? 255 : 0;
            const bool swapped = random() % 2;
            paste(image, 0, 0, swapped ? other : near, swapped ? factor : 1, swapped ? offset : 0);
            paste(image, size.h + 1, size.w + 1, swapped ? near : other, swapped ? 1 : factor, swapped ? 0 : offset);
            compare(image, templ, space(), with(method, ALGORITHMS[round % 2], 2, 1));
            if (HasFatalFailure() || HasNonfatalFailure())
                return;
        }
}

// Sums of large windows, whose products have more than 64 bits.
TEST_P(MatchNormed, LargeWindows) {
    auto random = support::generator();
    for (auto method : {CUS_MATCH_SQDIFF_NORMED, CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF, CUS_MATCH_CCOEFF_NORMED}) {
        const auto image = randomImage(403, 505, 1, [&] { return 250 + random() % 6; });
        for (auto algorithm : ALGORITHMS)
            compare(image, cut(image, 1, 2, 400, 500), space(), with(method, algorithm, 5, 1));
    }
}

} // namespace
