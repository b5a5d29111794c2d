// The scores and matches of match against brute force. objects.cpp: threads, errors, inspection, real pictures.
#include "match/support.hpp"

namespace {

using namespace match_test;

class Match : public support::SpaceTest {};
CUS_BOTH_SPACES(Match);

TEST_P(Match, SpecificationExample) {
    const Image<uint8_t> image{5, 5, 1, {1, 2, 3, 2, 1, 4, 5, 6, 5, 4, 7, 8, 9, 8, 7, 4, 3, 2, 3, 4, 1, 0, 1, 2, 3}};
    const Image<uint8_t> templ{2, 2, 1, {6, 5, 3, 2}};
    for (auto algorithm : ALGORITHMS) {
        const Outcome outcome = run(image, templ, space(), with(CUS_MATCH_SQDIFF, algorithm));
        EXPECT_NEAR(outcome.map[1 * 4 + 2], 72, 0.01);
        compare(image, templ, space(), with(CUS_MATCH_SQDIFF, algorithm));
    }
}

TEST_P(Match, EveryMethodTypeAndAlgorithm) {
    auto random = support::generator();
    for (auto method : METHODS)
        for (auto algorithm : ALGORITHMS) {
            for (int channels : {1, 2, 3, 4}) {
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
        const int w = 1 + static_cast<int>(random() % static_cast<unsigned>(cols)),
                  channels = 1 + static_cast<int>(random() % 4);
        Image<uint8_t> image{rows, cols, channels, {}}, templ{h, w, channels, {}};
        image.data = support::randomBytes(static_cast<size_t>(rows * cols * channels), random);
        templ.data = support::randomBytes(static_cast<size_t>(h * w * channels), random);
        const auto layouts = support::layouts(typeOf<uint8_t>(channels));
        compare(image, templ, space(), with(METHODS[random() % 6], ALGORITHMS[random() % 2]), nullptr,
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
            for (auto algorithm : ALGORITHMS)
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
    for (auto algorithm : ALGORITHMS) {
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
    for (auto algorithm : ALGORITHMS) {
        const Outcome outcome = run(image, templ, space(), with(CUS_MATCH_SQDIFF, algorithm, 2, 10));
        ASSERT_EQ(outcome.matches.size(), 2u);
        expectCopyAt(outcome.matches[0], 101, 11);
        expectCopyAt(outcome.matches[1], 20, 90);
    }
}

TEST_P(Match, FlatImages) {
    auto random = support::generator();
    for (auto method : METHODS)
        for (auto algorithm : ALGORITHMS) {
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

// Sums inside the mask; one pixel; the documented bound of maps, also of black images.
TEST_P(Match, Masks) {
    auto random = support::generator();
    std::vector<uint8_t> some, one(9 * 13);
    for (int i = 0; i < 9 * 13; ++i)
        some.push_back(random() % 3 ? 200 : 0);
    one[40] = 1;
    for (const auto &mask : {some, one})
        for (auto method : METHODS)
            for (auto algorithm : ALGORITHMS) {
                for (int channels : {1, 2, 3, 4}) {
                    const auto image = picture<uint8_t>(41, 53, channels, random);
                    compare(image, cut(image, 20, 31, 9, 13), space(), with(method, algorithm, 3, 2), mask.data());
                }
                compare(flat<uint8_t>(41, 53, 1, 0), picture<uint8_t>(9, 13, 1, random), space(), with(method, algorithm),
                        mask.data());
                compare(picture<uint8_t>(41, 53, 1, random), flat<uint8_t>(9, 13, 1, 200), space(), with(method, algorithm),
                        mask.data());
                const auto image = picture<float>(37, 50, 1, random);
                compare(image, picture<float>(9, 13, 1, random), space(), with(method, algorithm), mask.data());
            }
}

TEST_P(Match, PixelsOutsideTheMaskDoNotMatter) {
    auto random = support::generator();
    for (int channels : {1, 3})
        for (auto algorithm : ALGORITHMS)
            for (auto method : METHODS) {
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
        for (auto algorithm : ALGORITHMS)
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
        for (auto algorithm : ALGORITHMS) {
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
    for (auto algorithm : ALGORITHMS) {
        const auto options = with(CUS_MATCH_CCOEFF_NORMED, algorithm, 2, 5);
        Matcher matcher;
        CUS_ASSERT_OK(cusMatcherCreate(&matcher, mats.data(), 5, 120, 140, &options, nullptr));
        EXPECT_EQ(cusMatcherAlgorithm(matcher), algorithm);
        std::vector<support::Mat> maps(5);
        for (int again = 0; again < 2; ++again)
            CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, maps.data(), nullptr));
        for (int k = 0; k < 5; ++k) {
            const auto alone = run(image, templates[static_cast<size_t>(k)], space(), options);
            const auto matches = matchesOf(matcher, k, 2);
            ASSERT_EQ(matches.size(), 2u);
            expectSame(matches, alone.matches);
            EXPECT_EQ(matches[0].x, 11 * k);
            EXPECT_EQ(matches[0].y, 7 * k);
            const auto map = support::elements<float>(maps[static_cast<size_t>(k)]);
            for (size_t i = 0; i < map.size(); ++i)
                ASSERT_NEAR(map[i], alone.map[i], 2e-3) << i;
        }
    }
}

TEST_P(Match, UnusableFloatsGiveNoMatch) {
    auto random = support::generator();
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})
        for (auto algorithm : ALGORITHMS) {
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
            CUS_REJECTS(cusMatcherCreate(&matcher, &pattern.mat, 1, 30, 40, nullptr, nullptr), VALUE,
                        "cusMatcherCreate: templates[0] holds NaN or infinity, expected finite values");
        }
}

TEST_P(Match, ResultsWithoutAMapAndBeforeARun) {
    auto random = support::generator();
    const auto image = picture<uint8_t>(70, 64, 1, random);
    Pixels<uint8_t> frame(image, space()), pattern(cut(image, 33, 21, 20, 20), space());
    Matcher matcher;
    const auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_AUTO);
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, &pattern.mat, 1, 70, 64, &options, nullptr));
    cusMatch match;
    int found = -1;
    CUS_ASSERT_OK(cusMatcherGet(matcher, 0, &match, 1, &found, nullptr));
    EXPECT_EQ(found, 0);
    CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, nullptr, nullptr));
    CUS_REJECTS(cusMatcherGet(matcher, 0, &match, 0, &found, nullptr), CAPACITY,
                "cusMatcherGet: 1 matches, matches has capacity 0");
    CUS_ASSERT_OK(cusMatcherGet(matcher, 0, &match, 1, &found, nullptr));
    EXPECT_EQ(found, 1);
    expectCopyAt(match, 21, 33);
    cusMat view = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatcherResults(matcher, &view));
    EXPECT_EQ(view.space, space());
    const auto bytes = support::elements(view);
    ASSERT_EQ(bytes.size(), sizeof match);
    EXPECT_EQ(std::memcmp(bytes.data(), &match, sizeof match), 0);
}

} // namespace
