// Floats: image and template in any units, low contrast, templates and windows of one value.
#include "match/support.hpp"

namespace {

using namespace match_test;

class MatchFloats : public support::SpaceTest {};
CUS_BOTH_SPACES(MatchFloats);

Image<float> scaled(Image<float> image, double scale, double offset = 0) {
    for (float &v : image.data)
        v = static_cast<float>(v * scale + offset);
    return image;
}

double normOf(const Image<float> &image) {
    double sum = 0;
    for (const float v : image.data)
        sum += static_cast<double>(v) * v;
    return std::sqrt(sum);
}

// The best match, within 1e-9 of brute force: of 1 for normed scores, of |window| |template| for others.
void expectBest(const Image<float> &image, const Image<float> &templ, cusSpace space, const cusMatcherOptions &options) {
    const auto map = reference::scoreMap(image, templ, nullptr, options.method);
    const auto best = reference::best(map, image.cols - templ.cols + 1, options.method, 1, 1)[0];
    const auto matches = run(image, templ, space, options).matches;
    ASSERT_EQ(matches.size(), 1u);
    const int x = matches[0].x, y = matches[0].y;
    const double norm = normOf(cut(image, y, x, templ.rows, templ.cols)) * normOf(templ);
    const double tolerance = 1e-9 * (options.method & 1 ? 1 : norm);
    const size_t at = static_cast<size_t>(y) * static_cast<size_t>(image.cols - templ.cols + 1) + static_cast<size_t>(x);
    EXPECT_NEAR(matches[0].score, map[at], tolerance) << x << ", " << y;
    EXPECT_NEAR(map[at], best.score, tolerance) << x << ", " << y << " instead of " << best.x << ", " << best.y;
}

TEST_P(MatchFloats, UnitsOfImageAndTemplate) {
    auto random = support::generator();
    const auto image = scaled(picture<float>(60, 80, 1, random), 1 / 255.0);
    const auto templ = cut(image, 31, 53, 12, 14);
    for (const double scale : {1e-6, 1e-3, 1.0, 255.0, 65535.0, 1e7, 1e9})
        for (auto method : {CUS_MATCH_CCORR, CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF, CUS_MATCH_CCOEFF_NORMED}) {
            SCOPED_TRACE(testing::Message() << "scale " << scale << " method " << method);
            for (const double offset : {0.0, 100 * scale}) {
                expectBest(image, scaled(templ, scale, offset), space(), with(method, CUS_MATCH_AUTO));
                expectBest(scaled(image, scale, offset), templ, space(), with(method, CUS_MATCH_AUTO));
            }
            if (method & 1) {
                const auto matches = run(image, scaled(templ, scale), space(), with(method, CUS_MATCH_AUTO)).matches;
                ASSERT_EQ(matches.size(), 1u);
                EXPECT_EQ(matches[0].x, 53);
                EXPECT_EQ(matches[0].y, 31);
                EXPECT_NEAR(matches[0].score, 1, 1e-9);
            }
        }
}

TEST_P(MatchFloats, MapsInOtherUnits) {
    auto random = support::generator();
    const auto image = scaled(picture<float>(70, 90, 1, random), 1 / 255.0);
    for (const double scale : {1e-3, 65535.0, 1e7})
        for (auto method : {CUS_MATCH_CCORR, CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF, CUS_MATCH_CCOEFF_NORMED})
            compare(image, scaled(cut(image, 40, 50, 15, 17), scale), space(), with(method, CUS_MATCH_AUTO));
}

// Pictures far from zero whose windows differ little, as of thermal cameras in kelvin or of heights in meters.
TEST_P(MatchFloats, LowContrast) {
    auto random = support::generator();
    const auto image = scaled(picture<float>(80, 100, 1, random), 0.001, 300);
    for (auto method : METHODS)
        expectBest(image, cut(image, 31, 47, 16, 18), space(), with(method, CUS_MATCH_AUTO));
}

TEST_P(MatchFloats, OneValue) {
    auto random = support::generator();
    const auto image = scaled(picture<float>(50, 60, 1, random), 1 / 255.0);
    auto half = image;
    for (int y = 0; y < 50; ++y)
        for (int x = 0; x < 30; ++x)
            half.data[static_cast<size_t>(y * 60 + x)] = 0.3f;
    const auto options = with(CUS_MATCH_CCOEFF_NORMED, CUS_MATCH_AUTO);
    const auto first = run(image, flat<float>(9, 11, 1, 0.1f), space(), options).matches;
    ASSERT_EQ(first.size(), 1u);
    EXPECT_EQ(first[0].x, 0);
    EXPECT_EQ(first[0].y, 0);
    EXPECT_EQ(first[0].score, 1);
    expectBest(half, cut(image, 20, 40, 9, 11), space(), options);
    const auto none = run(flat<float>(50, 60, 1, 0.3f), cut(image, 20, 40, 9, 11), space(), options).matches;
    ASSERT_EQ(none.size(), 1u);
    EXPECT_EQ(none[0].score, 0);
}

// Bright noise above, dark noise below: the windows of the dark part have a millionth of the frame's energy, and are found.
TEST_P(MatchFloats, DarkPartsOfBrightPictures) {
    auto random = support::generator();
    auto image = flat<float>(120, 160, 1, 0);
    for (size_t i = 0; i < image.data.size(); ++i)
        image.data[i] =
            static_cast<float>(static_cast<double>(random() % 100003) / 100003 * (i < image.data.size() / 3 ? 1000 : 0.1));
    for (float &v : image.data)
        v = v < 1 ? v + 0.3f : v;
    for (auto method : {CUS_MATCH_SQDIFF_NORMED, CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF_NORMED})
        expectBest(image, cut(image, 90, 120, 10, 10), space(), with(method, CUS_MATCH_AUTO));
}

// Templates of one matcher do not disturb each other, whatever their units.
TEST_P(MatchFloats, TemplatesOfSeveralScales) {
    auto random = support::generator();
    const auto image = scaled(picture<float>(60, 70, 1, random), 1 / 255.0), first = cut(image, 23, 41, 12, 14);
    for (const double scale : {1e5, 1e9})
        for (auto method : {CUS_MATCH_CCORR, CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF, CUS_MATCH_CCOEFF_NORMED}) {
            const auto options = with(method, CUS_MATCH_AUTO);
            const auto alone = run(image, first, space(), options).matches;
            Pixels<float> frame(image, space()), a(first, space()),
                b(scaled(picture<float>(12, 14, 1, random), scale), space());
            const cusMat both[] = {a.mat, b.mat};
            Matcher matcher;
            CUS_ASSERT_OK(cusMatcherCreate(&matcher, both, 2, 60, 70, &options, nullptr));
            CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, nullptr, nullptr));
            const auto together = matchesOf(matcher, 0, 1);
            ASSERT_EQ(together.size(), 1u);
            EXPECT_EQ(together[0].x, alone[0].x) << scale << " method " << method;
            EXPECT_EQ(together[0].y, alone[0].y) << scale << " method " << method;
            EXPECT_NEAR(together[0].score, alone[0].score, 1e-9 * (1 + std::fabs(alone[0].score)));
        }
}

// Pixels outside the mask are fractions, those inside integers, and most scores are equal.
TEST_P(MatchFloats, FractionsOutsideTheMask) {
    auto random = support::generator();
    auto image = flat<float>(150, 150, 1, 0);
    for (size_t i = 0; i < image.data.size() / 3; ++i)
        image.data[i] = static_cast<float>(random() % 256);
    image.data[100 * 150 + 120] = 1;
    auto templ = flat<float>(20, 20, 1, 0);
    std::vector<uint8_t> mask;
    for (int i = 0; i < 400; ++i) {
        mask.push_back(i % 20 < 10 ? 1 : 0);
        templ.data[static_cast<size_t>(i)] = i % 20 < 10 ? 0 : static_cast<float>(random() % 1000) / 999;
    }
    templ.data[0] = 1;
    const auto matches = run(image, templ, space(), with(CUS_MATCH_SQDIFF, CUS_MATCH_AUTO), mask.data()).matches;
    ASSERT_EQ(matches.size(), 1u);
    EXPECT_EQ(matches[0].x, 120);
    EXPECT_EQ(matches[0].y, 100);
    EXPECT_EQ(matches[0].score, 0);
}

// Fractions whose sum is an integer.
TEST_P(MatchFloats, IntegerSumsOfFractions) {
    auto image = flat<float>(16, 18, 1, 0);
    for (size_t i = 0; i < image.data.size(); ++i) {
        const float v = static_cast<float>(1 + (i * 7919) % 2039) * 0x1p-24f;
        image.data[i] = i % 18 < 9 ? 0.5f + v : 0.5f - v;
    }
    for (size_t i = 0; i < image.data.size(); ++i) // the right half takes from the left what makes the sum an integer
        if (i % 18 >= 9)
            image.data[i] = 1 - image.data[i - 9];
    auto templ = image;
    for (size_t i = 0; i < templ.data.size(); i += 3)
        templ.data[i] += 0x1p-15f;
    expectBest(image, templ, space(), with(CUS_MATCH_CCOEFF_NORMED, CUS_MATCH_AUTO));
}

// A limit is compared with the score that is reported.
TEST_P(MatchFloats, LimitIsTheReportedScore) {
    auto random = support::generator();
    for (int round = 0; round < 6; ++round) {
        auto image = flat<float>(60, 80, 1, 0.25f);
        for (size_t i = 0; i < image.data.size() / 8; ++i)
            image.data[i] = static_cast<float>(static_cast<double>(random() % 100003) / 100003);
        const auto templ = flat<float>(9, 9, 1, 0.3f);
        auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_AUTO);
        const auto free = run(image, templ, space(), options).matches;
        ASSERT_EQ(free.size(), 1u);
        options.score_limit = free[0].score;
        EXPECT_EQ(run(image, templ, space(), options).matches.size(), 1u);
        options.score_limit = std::nextafter(free[0].score, 0.0);
        EXPECT_EQ(run(image, templ, space(), options).matches.size(), 0u);
    }
}

} // namespace
