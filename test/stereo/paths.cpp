// Aggregation PATHS: equal to the reference for all options, and what it brings on scenes that a window cannot decide.
#include "stereo/scenes.hpp"
#include "stereo/support.hpp"

#include <array>

namespace {

using namespace stereo_test;

class StereoPaths : public support::SpaceTest {};
CUS_BOTH_SPACES(StereoPaths);

void equalsTheReference(cusSpace space, int rows, int cols, const cusStereoOptions &o, const Layout &layout,
                        std::mt19937_64 &random) {
    const auto left = randomImage<uint8_t>(rows, cols, random), right = matchOf(left, o.direction, o.shifts, random);
    Placed<uint8_t> l(left, space, layout), r(right, space, layout);
    TestMat e(rows, cols, CUS_16UC1, space, {layout.padding * 2, layout.offset * 2});
    TestMat confidence(rows, cols, CUS_8UC1, space, layout);
    const ref::Matched want = ref::match(left, right, o);
    if (random() & 1) {
        CUS_ASSERT_OK(cusStereoElevationConfidence(&l.mat, &r.mat, &e.mat, &confidence.mat, &o, nullptr));
        ASSERT_TRUE(same(confidence.mat, want.confidence)) << describe(o);
    } else {
        CUS_ASSERT_OK(cusStereoElevation(&l.mat, &r.mat, &e.mat, &o, nullptr));
    }
    ASSERT_TRUE(same(e.mat, want.elevation)) << describe(o);
    ASSERT_TRUE(e.intact() && confidence.intact() && l.intact() && r.intact());
}

TEST_P(StereoPaths, EqualTheReferenceAtAllSizes) {
    auto random = support::generator("paths");
    for (const auto &[rows, cols] : support::sizes()) {
        if (rows * cols > 70000)
            continue;
        for (const Layout &layout : support::layouts(CUS_8UC1)) {
            cusStereoOptions o = withPaths(randomOptions(cols, random), random);
            if (rows * cols > 10000) {
                o.window = std::min(o.window, 5);
                o.shifts = std::min(o.shifts, 12);
            }
            equalsTheReference(space(), rows, cols, o, layout, random);
        }
    }
}

TEST_P(StereoPaths, EqualTheReferenceForAllWindowsAndShifts) {
    auto random = support::generator("windows of paths");
    for (const auto &[window, shifts, rows, cols] : std::vector<std::array<int, 4>>{{1, 1, 1, 1},
                                                                                    {1, 1, 7, 9},
                                                                                    {3, 31, 19, 40},
                                                                                    {3, 32, 18, 130},
                                                                                    {5, 33, 35, 61},
                                                                                    {7, 64, 20, 97},
                                                                                    {9, 65, 11, 80},
                                                                                    {3, 90, 12, 129},
                                                                                    {3, 128, 9, 257},
                                                                                    {3, 190, 7, 200},
                                                                                    {3, 250, 6, 384},
                                                                                    {3, 300, 4, 310},
                                                                                    {15, 256, 9, 300},
                                                                                    {15, 20, 40, 21},
                                                                                    {5, 511, 5, 520},
                                                                                    {3, 1023, 3, 1023},
                                                                                    {1, 1024, 4, 1031}})
        for (const int bits : {0, 5}) {
            cusStereoOptions o = withPaths(randomOptions(cols, random), random);
            o.window = window;
            o.shifts = shifts;
            o.subpixel_bits = bits;
            if (window == 3 && bits) // sums of these penalties are bytes on a device
                o.p1 = o.p2 = 0;
            equalsTheReference(space(), rows, cols, o, {}, random);
        }
}

// The largest sums: nothing agrees, with the largest window and penalties. All scores are equal.
TEST_P(StereoPaths, TheLargestSumsFit16Bits) {
    ref::Bytes none(20, 40), all(20, 40);
    std::fill(all.data.begin(), all.data.end(), uint8_t{255});
    Placed<uint8_t> l(none, space()), r(all, space());
    cusStereoOptions o = cusStereoDefaults();
    o.aggregation = CUS_STEREO_PATHS;
    o.border = CUS_STEREO_WRAP;
    o.paths = 8;
    o.window = CUS_STEREO_MAX_PATH_WINDOW;
    o.p1 = o.p2 = CUS_STEREO_MAX_PENALTY;
    for (const int prefer_smaller : {0, 1}) {
        o.prefer_smaller = prefer_smaller;
        o.left_right_check = -1;
        support::Mat e;
        CUS_ASSERT_OK(cusStereoElevation(&l.mat, &r.mat, &e, &o, nullptr));
        for (const uint16_t v : support::elements<uint16_t>(e))
            ASSERT_EQ(v, prefer_smaller ? 1 : 30);
    }
}

template<class T>
void slopesEqualTheReference(cusSpace space, int rows, int cols, const cusStereoOptions &o, const Layout &layout,
                             std::mt19937_64 &random) {
    const auto left = randomImage<T>(rows, cols, random), right = randomImage<T>(rows, cols, random);
    Placed<T> l(left, space, layout), r(right, space, layout);
    support::Owned<cusContourMapperDestroy> mapper;
    CUS_ASSERT_OK(cusContourMapperCreate(&mapper, rows, cols, typeOf<T>(), space, &o));
    support::Mat e;
    CUS_ASSERT_OK(cusContourMap(mapper, &l.mat, &r.mat, &e, nullptr, nullptr));
    ASSERT_TRUE(same(e, holesOf(left, right, o))) << describe(o) << ", " << rows << " x " << cols;
}

// P2 falls with the gradient along each path, of bytes and of floats.
TEST_P(StereoPaths, SlopesOfP2EqualTheReference) {
    auto random = support::generator("slopes");
    for (const auto &[rows, cols] : {std::pair(1, 1), {1, 40}, {40, 1}, {17, 33}, {30, 64}, {23, 130}})
        for (const Layout &layout : support::layouts(CUS_8UC1))
            for (const int slope : {1, 3, 6000}) {
                cusStereoOptions o = withPaths(randomOptions(cols, random), random);
                o.p2_slope = slope;
                o.fill = CUS_FILL_NONE;
                o.median = 0;
                slopesEqualTheReference<uint8_t>(space(), rows, cols, o, layout, random);
                slopesEqualTheReference<float>(space(), rows, cols, o, {4 * layout.padding, 4 * layout.offset}, random);
            }
}

TEST_P(StereoPaths, CodesHaveNoSlope) {
    ref::Bytes codes(8, 12);
    Placed<uint8_t> l(codes, space()), r(codes, space());
    cusStereoOptions o = cusStereoBest();
    o.shifts = 5;
    o.p2_slope = 2;
    support::Mat e;
    CUS_EXPECT_ERROR(
        cusStereoElevation(&l.mat, &r.mat, &e, &o, nullptr), CUS_ERROR_VALUE,
        "p2_slope is 2, expected 0: census codes have no gradient, and only a cusContourMapper has the images");
    o.aggregation = CUS_STEREO_WINDOW; // which has no P2
    CUS_EXPECT_OK(cusStereoElevation(&l.mat, &r.mat, &e, &o, nullptr));
}

// A mapper, whose first pair decides on the shifts, equals the stages one by one.
TEST_P(StereoPaths, MapsEqualTheStages) {
    auto random = support::generator("mapper");
    const auto image = randomImage<uint8_t>(90, 200, random), moved = matchOf(image, -1, 40, random);
    Placed<uint8_t> l(image, space()), r(moved, space());
    cusStereoOptions o = cusStereoBest();
    o.subpixel_bits = 5;
    o.shifts = CUS_STEREO_AUTO;
    support::Owned<cusContourMapperDestroy> mapper;
    CUS_ASSERT_OK(cusContourMapperCreate(&mapper, image.rows, image.cols, CUS_8UC1, space(), &o));
    support::Mat codes[2], elevation, confidence;
    CUS_ASSERT_OK(cusStereoCensus(&l.mat, &codes[0], &o, nullptr));
    CUS_ASSERT_OK(cusStereoCensus(&r.mat, &codes[1], &o, nullptr));
    CUS_ASSERT_OK(cusStereoFindShifts(&codes[0], &codes[1], &o.shifts, &o, nullptr));
    const ref::Matched want = matchOfPair(image, moved, o);
    const auto filled = ref::median(ref::fillLower(ref::filterSpeckles(want.elevation, o)), o.median);
    for (int pair = 0; pair < 3; ++pair) {
        CUS_ASSERT_OK(cusContourMapConfidence(mapper, &l.mat, &r.mat, &elevation, nullptr, &confidence, nullptr));
        EXPECT_TRUE(same(elevation, filled)) << "pair " << pair;
        EXPECT_TRUE(same(confidence, want.confidence)) << "pair " << pair;
    }
}

// Of the scenes' pixels, percent that are off by more than 1: less than this, and a part of those with windows.
TEST_P(StereoPaths, DecideWhatWindowsCannot) {
    static const double allowed[] = {0.2, 0.2, 0.2, 12}, of_window[] = {0.5, 0.3, 0.02, 0.8};
    const auto list = scenes::all();
    for (size_t i = 0; i < list.size(); ++i) {
        const scenes::Scene &scene = list[i];
        TestMat l(scenes::ROWS, scenes::COLS, CUS_8UC1, space(), {}, scene.left.data()),
            r(scenes::ROWS, scenes::COLS, CUS_8UC1, space(), {}, scene.right.data());
        const auto bad = [&](cusStereoOptions o, int from = scenes::SHIFTS) {
            o.shifts = scenes::SHIFTS;
            o.subpixel_bits = 7;
            o.speckle_size = 49;
            support::Owned<cusContourMapperDestroy> mapper;
            support::Mat e;
            CUS_EXPECT_OK(cusContourMapperCreate(&mapper, scenes::ROWS, scenes::COLS, CUS_8UC1, space(), &o));
            CUS_EXPECT_OK(cusContourMap(mapper, &l.mat, &r.mat, &e, nullptr, nullptr));
            const auto got = support::elements<uint16_t>(e);
            const auto disparity = [&](int y, int x) {
                return got[static_cast<size_t>(y) * scenes::COLS + static_cast<size_t>(x)] / 128.0 - 1;
            };
            return scenes::bad1(scene, disparity, from);
        };
        const double window = bad(cusStereoDefaults()), paths = bad(cusStereoBest());
        EXPECT_LE(paths, allowed[i]) << scene.name;
        if (scene.name == "repetitive") // whose shifts hold at the left border, too, which the right image lacks
            EXPECT_LE(bad(cusStereoBest(), 0), allowed[i]) << "with the left border";
        EXPECT_LE(paths, of_window[i] * window) << scene.name << ", with windows " << window;
    }
}

TEST_P(StereoPaths, WhatDoesNotFitIsRefused) {
    const auto rejects = [&](auto change, const char *text) {
        cusStereoOptions o = cusStereoBest();
        o.shifts = 5;
        change(o);
        cusContourMapper *mapper = nullptr;
        CUS_EXPECT_ERROR(cusContourMapperCreate(&mapper, 8, 12, CUS_8UC1, space(), &o), CUS_ERROR_VALUE, text);
        EXPECT_EQ(mapper, nullptr);
    };
    rejects([](auto &o) { o.aggregation = static_cast<cusStereoAggregation>(2); }, "aggregation is 2, expected 0..1");
    rejects([](auto &o) { o.agreement = CUS_STEREO_EDGE; },
            "agreement is 1, expected CUS_STEREO_CENSUS (2) with aggregation CUS_STEREO_PATHS");
    rejects([](auto &o) { o.window = 17; }, "window is 17, expected at most 15 with aggregation CUS_STEREO_PATHS");
    rejects([](auto &o) { o.paths = 5; }, "paths is 5, expected 0, 4 or 8");
    rejects([](auto &o) { o.p1 = -1; }, "p1 is -1, expected 0..6000");
    rejects([](auto &o) { o.p2 = 6001; }, "p2 is 6001, expected 0..6000");
    rejects([](auto &o) { o.p2_slope = -1; }, "p2_slope is -1, expected 0..6000");
    rejects([](auto &o) { o.p1 = 30, o.p2 = 29; }, "p2 is 29, expected at least 30 like p1");
}

} // namespace
