// Stages of stereo: each equals its reference, and laws and cases worked by hand.
#include "stereo/support.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace {

using namespace stereo_test;

class Stereo : public support::SpaceTest {};
CUS_BOTH_SPACES(Stereo);

// ---- Edges and census

template<class T>
void featuresEqualTheReference(cusSpace space, const char *name) {
    auto random = support::generator(name);
    for (const auto &[rows, cols] : support::sizes())
        for (const Layout &layout : support::layouts(typeOf<T>()))
            for (const auto border : {CUS_STEREO_WRAP, CUS_STEREO_ZERO}) {
                if (rows * cols > 10000 && random() % 4)
                    continue;
                cusStereoOptions o = cusStereoClassic();
                o.border = border;
                o.threshold = static_cast<float>(random() % 200) / 200.0f;
                const auto image = randomImage<T>(rows, cols, random);
                Placed<T> in(image, space, layout);
                TestMat edges(rows, cols, CUS_8UC1, space, layout), census(rows, cols, CUS_8UC1, space, layout);
                CUS_ASSERT_OK(cusStereoEdges(&in.mat, &edges.mat, &o, nullptr));
                CUS_ASSERT_OK(cusStereoCensus(&in.mat, &census.mat, &o, nullptr));
                ASSERT_TRUE(same(edges.mat, ref::edges(image, o))) << describe(o);
                ASSERT_TRUE(same(census.mat, ref::census(image, o))) << describe(o);
                ASSERT_TRUE(edges.intact());
                ASSERT_TRUE(census.intact());
            }
}

TEST_P(Stereo, FeaturesOfBytesEqualTheReference) {
    featuresEqualTheReference<uint8_t>(space(), "bytes");
}

TEST_P(Stereo, FeaturesOfFloatsEqualTheReference) {
    featuresEqualTheReference<float>(space(), "floats");
}

// A vertical step from 100 to 200: sums 300 and 600 (or partly), means differ by up to 100 of 150.
TEST_P(Stereo, EdgesOfAStepWorkedByHand) {
    ref::Bytes image(3, 6);
    for (int y = 0; y < 3; ++y)
        for (int x = 0; x < 6; ++x)
            image(y, x) = x < 3 ? 100 : 200;
    Placed<uint8_t> in(image, space());
    cusStereoOptions o = cusStereoClassic();
    support::Mat edges;
    // Columns 2, 3 see the step, and on a torus 5 and 0 see the step back. 2 |600 - 300| = 600 > threshold * 900.
    o.threshold = 0.66f;
    CUS_ASSERT_OK(cusStereoEdges(&in.mat, &edges, &o, nullptr));
    auto row = support::elements(edges);
    for (int y = 0; y < 3; ++y)
        EXPECT_EQ(std::vector<uint8_t>(row.begin() + 6 * y, row.begin() + 6 * y + 6),
                  (std::vector<uint8_t>{255, 0, 255, 255, 0, 255}));
    o.threshold = 0.67f;
    CUS_ASSERT_OK(cusStereoEdges(&in.mat, &edges, &o, nullptr));
    for (const uint8_t e : support::elements(edges))
        EXPECT_EQ(e, 0);
}

TEST_P(Stereo, NoneOfTheFlatImageIsAnEdge) {
    Placed<float> in(ref::Smooth(33, 65), space());
    support::Mat edges;
    cusStereoOptions o = cusStereoClassic();
    o.threshold = 0;
    CUS_ASSERT_OK(cusStereoEdges(&in.mat, &edges, &o, nullptr));
    for (const uint8_t e : support::elements(edges))
        ASSERT_EQ(e, 0);
}

TEST_P(Stereo, ANanIsRejectedOnTheHostAndNoEdgeOnTheDevice) {
    ref::Smooth image(5, 5);
    image(2, 2) = std::nanf("");
    Placed<float> in(image, space());
    cusMat edges = CUS_MAT_INIT;
    if (space() == CUS_HOST) {
        CUS_REJECTS(cusStereoEdges(&in.mat, &edges, nullptr, nullptr), VALUE, "cusStereoEdges: image contains NaN");
        EXPECT_EQ(edges.data, nullptr);
    } else {
        CUS_ASSERT_OK(cusStereoEdges(&in.mat, &edges, nullptr, nullptr));
        for (const uint8_t e : support::elements(edges))
            EXPECT_EQ(e, 0);
        cusMatRelease(&edges);
    }
}

// ---- Elevation

void elevationEqualsTheReference(cusSpace space, int rows, int cols, const cusStereoOptions &o, const Layout &layout,
                                 std::mt19937_64 &random) {
    auto left = randomImage<uint8_t>(rows, cols, random);
    if (o.agreement != CUS_STEREO_CENSUS)
        for (auto &v : left.data)
            v = random() % 3 ? 0 : static_cast<uint8_t>(1 + random() % 255);
    const auto right = matchOf(left, o.direction, o.shifts, random);
    Placed<uint8_t> l(left, space, layout), r(right, space, layout);
    TestMat e(rows, cols, CUS_16UC1, space, {layout.padding * 2, layout.offset * 2});
    TestMat confidence(rows, cols, CUS_8UC1, space, layout);
    const ref::Matched want = ref::match(left, right, o);
    if (o.subpixel_bits || random() & 1) {
        CUS_ASSERT_OK(cusStereoElevationConfidence(&l.mat, &r.mat, &e.mat, &confidence.mat, &o, nullptr));
        ASSERT_TRUE(same(confidence.mat, want.confidence)) << describe(o);
        ASSERT_TRUE(confidence.intact());
    } else {
        CUS_ASSERT_OK(cusStereoElevation(&l.mat, &r.mat, &e.mat, &o, nullptr));
    }
    ASSERT_TRUE(same(e.mat, want.elevation)) << describe(o);
    ASSERT_TRUE(e.intact());
    ASSERT_TRUE(l.intact() && r.intact());
}

TEST_P(Stereo, ElevationEqualsTheReference) {
    auto random = support::generator("elevation");
    for (const auto &[rows, cols] : support::sizes()) {
        if (rows * cols > 70000)
            continue; // the reference is slow; the mapper tests cover large sizes
        for (const Layout &layout : support::layouts(CUS_8UC1)) {
            cusStereoOptions o = randomOptions(cols, random);
            if (rows * cols > 10000) {
                o.window = std::min(o.window, 9);
                o.shifts = std::min(o.shifts, 12);
            }
            elevationEqualsTheReference(space(), rows, cols, o, layout, random);
        }
    }
}

// Up to 1,024 shifts, and peaks that cross the borders of sets of 16 and groups of 32 shifts.
TEST_P(Stereo, ElevationEqualsTheReferenceForManyShifts) {
    auto random = support::generator("many shifts");
    for (const auto agreement : {CUS_STEREO_EDGE, CUS_STEREO_CENSUS})
        for (const auto &[window, shifts, rows, cols] : std::vector<std::array<int, 4>>{{1, 1024, 3, 1030},
                                                                                        {3, 257, 5, 300},
                                                                                        {5, 511, 5, 520},
                                                                                        {9, 47, 17, 130},
                                                                                        {3, 33, 18, 230},
                                                                                        {17, 300, 4, 310}})
            for (const int bits : {0, 5}) {
                cusStereoOptions o = randomOptions(cols, random);
                o.agreement = agreement;
                o.window = window;
                o.shifts = shifts;
                o.subpixel_bits = bits;
                elevationEqualsTheReference(space(), rows, cols, o, {}, random);
            }
}

// Shifts 1, 2 and 3 score 2, 3 and 0 at column 6, and shift 4 scores 1: a third of a pixel towards 1.
TEST_P(Stereo, FractionAndConfidenceWorkedByHand) {
    ref::Bytes left(1, 12), right(1, 12);
    for (const int x : {4, 5, 6, 7})
        left(0, x) = 255;
    for (const int x : {2, 4, 5})
        right(0, x) = 255;
    cusStereoOptions o = cusStereoDefaults();
    o.agreement = CUS_STEREO_EDGE;
    o.window = 5;
    o.shifts = 6;
    o.left_right_check = -1;
    o.subpixel_bits = 8;
    Placed<uint8_t> l(left, space()), r(right, space());
    support::Mat e, confidence;
    CUS_ASSERT_OK(cusStereoElevationConfidence(&l.mat, &r.mat, &e, &confidence, &o, nullptr));
    EXPECT_EQ(support::elements<uint16_t>(e)[6], 3 * 256 - 85);
    EXPECT_EQ(support::elements(confidence)[6], 255 * (3 - 1) / 3);
    o.subpixel_bits = 0;
    o.min_confidence = 170;
    CUS_ASSERT_OK(cusStereoElevation(&l.mat, &r.mat, &e, &o, nullptr));
    EXPECT_EQ(support::elements<uint16_t>(e)[6], 3);
    o.min_confidence = 171;
    CUS_ASSERT_OK(cusStereoElevation(&l.mat, &r.mat, &e, &o, nullptr));
    EXPECT_EQ(support::elements<uint16_t>(e)[6], 0);
}

// Noise that shifts by 20 pixels, and by 75 in the middle.
TEST_P(Stereo, FindsTheRangeOfShifts) {
    auto random = support::generator("range");
    ref::Bytes left(120, 400), right(120, 400);
    for (auto &v : left.data)
        v = static_cast<uint8_t>(random());
    for (int y = 0; y < left.rows; ++y)
        for (int x = 0; x < left.cols; ++x)
            right(y, x) = left.value(y, x + (x >= 60 && x < 240 ? 75 : 20), CUS_STEREO_WRAP);
    cusStereoOptions o = cusStereoDefaults();
    o.shifts = CUS_STEREO_AUTO;
    Placed<uint8_t> l(left, space()), r(right, space());
    support::Mat codes[2], found, given;
    CUS_ASSERT_OK(cusStereoCensus(&l.mat, &codes[0], &o, nullptr));
    CUS_ASSERT_OK(cusStereoCensus(&r.mat, &codes[1], &o, nullptr));
    int shifts = 0;
    CUS_ASSERT_OK(cusStereoFindShifts(&codes[0], &codes[1], &shifts, &o, nullptr));
    EXPECT_EQ(shifts, 96); // 76, a margin of 9 + 8, and up to a multiple of 8
    CUS_ASSERT_OK(cusStereoElevation(&codes[0], &codes[1], &found, &o, nullptr));
    o.shifts = shifts;
    CUS_ASSERT_OK(cusStereoElevation(&codes[0], &codes[1], &given, &o, nullptr));
    EXPECT_EQ(support::elements<uint16_t>(found), support::elements<uint16_t>(given));
    o.shifts = CUS_STEREO_AUTO;
    support::Owned<cusContourMapperDestroy> automatic, explicit_one;
    CUS_ASSERT_OK(cusContourMapperCreate(&automatic, left.rows, left.cols, CUS_8UC1, space(), &o));
    o.shifts = shifts;
    CUS_ASSERT_OK(cusContourMapperCreate(&explicit_one, left.rows, left.cols, CUS_8UC1, space(), &o));
    CUS_ASSERT_OK(cusContourMap(automatic, &l.mat, &r.mat, &found, nullptr, nullptr));
    CUS_ASSERT_OK(cusContourMap(explicit_one, &l.mat, &r.mat, &given, nullptr, nullptr));
    EXPECT_EQ(support::elements<uint16_t>(found), support::elements<uint16_t>(given));
    // Images that share nothing: the default.
    for (auto &v : right.data)
        v = static_cast<uint8_t>(random());
    r.set(right.data.data());
    CUS_ASSERT_OK(cusStereoCensus(&r.mat, &codes[1], &o, nullptr));
    CUS_ASSERT_OK(cusStereoFindShifts(&codes[0], &codes[1], &shifts, nullptr, nullptr));
    EXPECT_EQ(shifts, 30);
}

// Every code path: windows beyond what packed bytes and keys hold, more than one group of shifts.
TEST_P(Stereo, ElevationEqualsTheReferenceForAllWindowsAndShifts) {
    auto random = support::generator("windows");
    for (const auto agreement : {CUS_STEREO_EQUAL, CUS_STEREO_EDGE, CUS_STEREO_CENSUS})
        for (const auto &[window, shifts, rows, cols] : std::vector<std::array<int, 4>>{{1, 1, 9, 9},
                                                                                        {3, 33, 19, 40},
                                                                                        {7, 256, 9, 300},
                                                                                        {15, 31, 20, 70},
                                                                                        {17, 64, 20, 97},
                                                                                        {29, 32, 17, 61},
                                                                                        {31, 40, 18, 50},
                                                                                        {33, 65, 11, 80},
                                                                                        {45, 30, 21, 45},
                                                                                        {47, 34, 18, 40},
                                                                                        {63, 36, 9, 66},
                                                                                        {63, 9, 40, 21}}) {
            cusStereoOptions o = randomOptions(cols, random);
            o.agreement = agreement;
            o.window = window;
            o.shifts = shifts;
            o.subpixel_bits = shifts < 256 ? o.subpixel_bits : 0;
            elevationEqualsTheReference(space(), rows, cols, o, {}, random);
        }
}

// Everything agrees: the highest possible scores, all equal.
TEST_P(Stereo, FullAgreementGivesTheExtremeShiftByTheTieRule) {
    for (const auto agreement : {CUS_STEREO_EQUAL, CUS_STEREO_EDGE, CUS_STEREO_CENSUS})
        for (const int window : {1, 21, 45, 63})
            for (const int prefer_smaller : {0, 1}) {
                ref::Bytes image(20, 260);
                for (auto &v : image.data)
                    v = 255;
                Placed<uint8_t> l(image, space()), r(image, space());
                cusStereoOptions o = cusStereoClassic();
                o.agreement = agreement;
                o.window = window;
                o.prefer_smaller = prefer_smaller;
                o.shifts = 256;
                support::Mat e;
                CUS_ASSERT_OK(cusStereoElevation(&l.mat, &r.mat, &e, &o, nullptr));
                for (const uint16_t v : support::elements<uint16_t>(e))
                    ASSERT_EQ(v, prefer_smaller ? 1 : 256) << describe(o);
            }
}

// No edges on one side and only edges on the other: nothing agrees.
TEST_P(Stereo, NoAgreementIsAHole) {
    ref::Bytes none(9, 50), all(9, 50);
    for (auto &v : all.data)
        v = 1;
    Placed<uint8_t> l(none, space()), r(all, space());
    const cusStereoOptions o = cusStereoClassic();
    support::Mat e;
    CUS_ASSERT_OK(cusStereoElevation(&l.mat, &r.mat, &e, &o, nullptr));
    for (const uint16_t v : support::elements<uint16_t>(e))
        ASSERT_EQ(v, 0);
}

// ---- Fill

TEST_P(Stereo, FillsEqualTheReference) {
    auto random = support::generator("fill");
    for (const auto &[rows, cols] : support::sizes())
        for (const auto rule : {CUS_FILL_NONE, CUS_FILL_ONCE, CUS_FILL_RELAX, CUS_FILL_LOWER})
            for (const auto border : {CUS_STEREO_WRAP, CUS_STEREO_ZERO}) {
                cusStereoOptions o = cusStereoClassic();
                o.border = border;
                o.fill = rule;
                static const int counts[] = {0, 1, 7, 16, 17, 32, 33, 50, 100};
                o.iterations = counts[random() % 9];
                if (rule == CUS_FILL_RELAX && rows * cols > 70000)
                    o.iterations = std::min(o.iterations, 33);
                o.tolerance = random() & 1 ? 0.0f : 0.05f;
                const auto layouts = support::layouts(CUS_16UC1);
                const Layout layout = layouts[random() % layouts.size()];
                const auto holes = randomHoles(rows, cols, random);
                Placed<uint16_t> in(holes, space(), layout);
                const int type = rule == CUS_FILL_RELAX ? CUS_32FC1 : CUS_16UC1;
                TestMat out(rows, cols, type, space(), {layout.padding * 2, layout.offset * 2});
                CUS_ASSERT_OK(cusStereoFill(&in.mat, &out.mat, &o, nullptr));
                withFilled(holes, o, [&](const auto &want) { ASSERT_TRUE(same(out.mat, want)) << describe(o); });
                ASSERT_TRUE(out.intact());
            }
}

// A row of threes over a row of holes: each hole needs the one before it (3 + 1 = 4), so the fill walks along one pixel an
// iteration and every iteration counts.
TEST_P(Stereo, FillOnceWalksAsManyPixelsAsIterations) {
    for (const int iterations : {1, 15, 16, 17, 50, 63, 64, 65, 200, 299, 400}) {
        ref::Elevation holes(2, 300);
        for (int x = 0; x < 300; ++x)
            holes(0, x) = 3;
        holes(1, 0) = 7; // 3 + 7 = 10, over 4 is 2; then 3 + 2, over 4 is 1; and so on
        cusStereoOptions o = cusStereoClassic();
        o.border = CUS_STEREO_ZERO;
        o.iterations = iterations;
        Placed<uint16_t> in(holes, space());
        support::Mat out;
        CUS_ASSERT_OK(cusStereoFill(&in.mat, &out, &o, nullptr));
        const auto filled = support::elements<uint16_t>(out);
        EXPECT_EQ(filled[301], 2);
        for (int x = 2; x < 300; ++x)
            ASSERT_EQ(filled[300 + static_cast<size_t>(x)], x <= iterations ? 1 : 0) << x << " after " << iterations;
        ASSERT_TRUE(same(out, ref::fillOnce(holes, o)));
    }
}

// Law: relaxed holes lie between the smallest and largest known value, and known pixels stay.
TEST_P(Stereo, RelaxedHolesKeepTheBoundsAndTheKnown) {
    auto random = support::generator();
    auto holes = randomHoles(70, 90, random);
    for (int y = 0; y < holes.rows; ++y)
        holes(y, y) = 5; // a row of holes would start at 0
    Placed<uint16_t> in(holes, space());
    cusStereoOptions o = cusStereoDefaults();
    o.fill = CUS_FILL_RELAX;
    support::Mat out;
    CUS_ASSERT_OK(cusStereoFill(&in.mat, &out, &o, nullptr));
    const auto smooth = support::elements<float>(out);
    float low = 1e9f, high = 0;
    for (const uint16_t e : holes.data)
        if (e) {
            low = std::min<float>(low, e);
            high = std::max<float>(high, e);
        }
    for (size_t i = 0; i < smooth.size(); ++i) {
        if (holes.data[i]) {
            ASSERT_EQ(smooth[i], holes.data[i]);
        } else {
            ASSERT_GE(smooth[i], low);
            ASSERT_LE(smooth[i], high);
        }
    }
}

// ---- Speckles, median, contours, picture

// Slopes, steps, noise and holes in any mixture: regions of all sizes, through tiles and bands.
ref::Elevation patches(int rows, int cols, int bits, std::mt19937_64 &random) {
    ref::Elevation map(rows, cols);
    const int noise = static_cast<int>(random() % 8), wide = 1 + static_cast<int>(random() % 60),
              high = 1 + static_cast<int>(random() % 40);
    const uint64_t part = random() % 16;
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x) {
            const int patch = (x / wide + y / high) % 3, slope = random() % 4 ? 0 : (x + y) % 5;
            map(y, x) = static_cast<uint16_t>(random() % 16 < part ? random() % 4 : 1 + ((20 * patch + slope) << bits));
            if (noise == 0)
                map(y, x) = static_cast<uint16_t>(map(y, x) + random() % (2u << bits));
        }
    return map;
}

void expectFiltered(const ref::Elevation &map, const cusStereoOptions &o, cusSpace space, const Layout &layout = {}) {
    Placed<uint16_t> in(map, space, layout);
    TestMat out(map.rows, map.cols, CUS_16UC1, space, layout);
    CUS_ASSERT_OK(cusStereoFilterSpeckles(&in.mat, &out.mat, &o, nullptr));
    ASSERT_TRUE(same(out.mat, ref::filterSpeckles(map, o))) << map.rows << " x " << map.cols << ", " << describe(o);
    ASSERT_TRUE(out.intact());
}

TEST_P(Stereo, SpecklesEqualTheReference) {
    auto random = support::generator("speckles");
    for (const auto &[rows, cols] : support::sizes())
        for (int run = 0; run < 3; ++run) {
            cusStereoOptions o = cusStereoDefaults();
            o.subpixel_bits = random() % 2 ? 0 : 2 + static_cast<int>(random() % 7);
            o.speckle_size = static_cast<int>(random() % (run ? 200 : 4));
            const auto layouts = support::layouts(CUS_16UC1);
            expectFiltered(patches(rows, cols, o.subpixel_bits, random), o, space(), layouts[random() % layouts.size()]);
        }
}

// A spiral of one pixel's width winds through all tiles: the whole is one region, and one pixel less makes it a speckle.
TEST_P(Stereo, SpecklesThatWindThroughTheMap) {
    const int side = 203;
    ref::Elevation map(side, side);
    const auto isFree = [&](int j, int k) {
        const uint16_t *const at = map.at(j, k, CUS_STEREO_ZERO);
        return !at || !*at;
    };
    int y = 0, x = 0, dy = 0, dx = 1;
    for (int turns = 0; turns < 2;) {
        map(y, x) = static_cast<uint16_t>(40000 + (y + x) % 2);
        // What is beyond the next pixel is free, too: a gap of one pixel stays between turns.
        if (map.at(y + dy, x + dx, CUS_STEREO_ZERO) && isFree(y + dy, x + dx) && isFree(y + 2 * dy, x + 2 * dx)) {
            y += dy, x += dx;
            turns = 0;
        } else {
            std::tie(dy, dx) = std::pair(dx, -dy);
            ++turns;
        }
    }
    const int count = side * side - static_cast<int>(std::count(map.data.begin(), map.data.end(), 0));
    ASSERT_GT(count, side * side / 2 - side);
    cusStereoOptions o = cusStereoDefaults();
    for (const int less : {1, 0}) {
        o.speckle_size = count - less;
        expectFiltered(map, o, space());
        ASSERT_EQ(ref::filterSpeckles(map, o).data == map.data, less == 1);
    }
}

TEST_P(Stereo, SpecklesAreSmallRegionsOfTheUnit) {
    ref::Elevation map(3, 5);
    map.data = {10, 10, 0, 90, 91, /**/ 10, 0, 50, 0, 90, /**/ 0, 10, 0, 10, 12};
    cusStereoOptions o = cusStereoDefaults();
    const std::vector<std::vector<uint16_t>> wanted = {map.data,
                                                       {10, 10, 0, 90, 91, 10, 0, 0, 0, 90, 0, 0, 0, 0, 0},
                                                       {10, 10, 0, 90, 91, 10, 0, 0, 0, 90, 0, 0, 0, 0, 0},
                                                       {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
    for (int size = 0; size < 4; ++size) {
        o.speckle_size = size;
        ref::Elevation want(3, 5);
        want.data = wanted[static_cast<size_t>(size)];
        Placed<uint16_t> in(map, space());
        support::Mat out;
        CUS_ASSERT_OK(cusStereoFilterSpeckles(&in.mat, &out, &o, nullptr));
        ASSERT_TRUE(same(out, want)) << size;
    }
    o.subpixel_bits = 2; // 10 and 12 are neighbors now
    o.speckle_size = 1;
    expectFiltered(map, o, space());
    ASSERT_EQ(ref::filterSpeckles(map, o).data[14], 12);
}

// ---- Median, contours, picture

TEST_P(Stereo, MediansEqualTheReference) {
    auto random = support::generator("median");
    for (const auto &[rows, cols] : support::sizes())
        for (const int size : {3, 5}) {
            const auto layouts = support::layouts(CUS_32FC1);
            const Layout layout = layouts[random() % layouts.size()];
            const auto image = randomHoles(rows, cols, random);
            Placed<uint16_t> in(image, space(), layout);
            TestMat out(rows, cols, CUS_16UC1, space(), layout);
            CUS_ASSERT_OK(cusStereoMedian(&in.mat, &out.mat, size, nullptr));
            ASSERT_TRUE(same(out.mat, ref::median(image, size)));
            ASSERT_TRUE(out.intact());
            ref::Smooth smooth(rows, cols);
            for (size_t i = 0; i < smooth.data.size(); ++i)
                smooth.data[i] = static_cast<float>(image.data[i]) / 7.0f;
            Placed<float> in32(smooth, space(), layout);
            TestMat out32(rows, cols, CUS_32FC1, space(), layout);
            CUS_ASSERT_OK(cusStereoMedian(&in32.mat, &out32.mat, size, nullptr));
            ASSERT_TRUE(same(out32.mat, ref::median(smooth, size)));
            ASSERT_TRUE(out32.intact());
        }
}

TEST_P(Stereo, ContoursEqualTheReference) {
    auto random = support::generator("contours");
    for (const auto &[rows, cols] : support::sizes())
        for (const auto lines : {CUS_LINES_MODULO, CUS_LINES_CROSSING}) {
            cusStereoOptions o = cusStereoDefaults();
            o.lines = lines;
            static const int counts[] = {1, 2, 10, 37, 65535};
            o.levels = counts[random() % 5];
            const auto layouts = support::layouts(CUS_32FC1);
            const Layout layout = layouts[random() % layouts.size()];
            const auto image = randomHoles(rows, cols, random);
            Placed<uint16_t> in(image, space(), layout);
            TestMat out(rows, cols, CUS_8UC1, space(), layout);
            CUS_ASSERT_OK(cusStereoContours(&in.mat, &out.mat, &o, nullptr));
            ASSERT_TRUE(same(out.mat, ref::contours(image, o))) << describe(o);
            ASSERT_TRUE(out.intact());
            ref::Smooth smooth(rows, cols);
            for (size_t i = 0; i < smooth.data.size(); ++i)
                smooth.data[i] = static_cast<float>(image.data[i]) / 3.0f;
            Placed<float> in32(smooth, space(), layout);
            CUS_ASSERT_OK(cusStereoContours(&in32.mat, &out.mat, &o, nullptr));
            ASSERT_TRUE(same(out.mat, ref::contours(smooth, o))) << describe(o);
            ASSERT_TRUE(out.intact());
        }
}

// Flat maps, and ranges smaller than the number of levels: no division by zero.
TEST_P(Stereo, ContoursOfFlatMapsAndSmallRanges) {
    ref::Elevation flat(4, 5), steps(1, 4);
    for (auto &v : flat.data)
        v = 7;
    steps.data = {4, 5, 6, 6};
    cusStereoOptions o = cusStereoClassic();
    support::Mat out;
    Placed<uint16_t> in(flat, space()), in2(steps, space());
    CUS_ASSERT_OK(cusStereoContours(&in.mat, &out, &o, nullptr));
    for (const uint8_t v : support::elements(out))
        EXPECT_EQ(v, 255); // (7 - 7) mod 1 is 0
    CUS_ASSERT_OK(cusStereoContours(&in2.mat, &out, &o, nullptr));
    EXPECT_EQ(support::elements(out), std::vector<uint8_t>(4, 255)); // interval 2 / 10 is taken as 1
    o.lines = CUS_LINES_CROSSING;
    CUS_ASSERT_OK(cusStereoContours(&in.mat, &out, &o, nullptr));
    for (const uint8_t v : support::elements(out))
        EXPECT_EQ(v, 0);
    CUS_ASSERT_OK(cusStereoContours(&in2.mat, &out, &o, nullptr));
    EXPECT_EQ(support::elements(out), (std::vector<uint8_t>{255, 255, 0, 0}));
}

TEST_P(Stereo, PicturesOfAllElevationsWorkedByHand) {
    ref::Elevation e(1, 6);
    e.data = {1, 86, 171, 256, 0, 100};
    ref::Bytes lines(1, 6);
    lines(0, 5) = 255;
    Placed<uint16_t> in(e, space());
    Placed<uint8_t> on(lines, space());
    support::Mat picture;
    CUS_ASSERT_OK(cusStereoPicture(&in.mat, &on.mat, &picture, nullptr));
    // index = (e - 0) * 255 / 256: 0, 85, 170, 255
    EXPECT_EQ(support::elements(picture),
              (std::vector<uint8_t>{255, 0, 0, 0, 255, 0, 0, 255, 255, 0, 0, 255, 0, 0, 0, 0, 0, 0}));
}

TEST_P(Stereo, PicturesEqualTheReference) {
    std::mt19937_64 random(support::seed());
    for (const Layout &layout : {Layout{}, Layout{6, 2}}) {
        const int rows = 1 + static_cast<int>(random() % 50), cols = 1 + static_cast<int>(random() % 700);
        const auto image = randomHoles(rows, cols, random);
        ref::Smooth smooth(rows, cols);
        ref::Bytes lines(rows, cols);
        for (size_t i = 0; i < smooth.data.size(); ++i) {
            smooth.data[i] = static_cast<float>(image.data[i]) / 3.0f;
            lines.data[i] = random() % 8 == 0 ? static_cast<uint8_t>(1 + random() % 255) : 0;
        }
        Placed<uint16_t> in(image, space(), layout);
        Placed<float> in32(smooth, space(), {4 * layout.padding, 4 * layout.offset});
        Placed<uint8_t> on(lines, space(), layout);
        TestMat out(rows, cols, CUS_8UC3, space(), layout);
        CUS_ASSERT_OK(cusStereoPicture(&in.mat, &on.mat, &out.mat, nullptr));
        ASSERT_EQ(support::elements(out.mat), ref::picture(image, &lines)) << rows << " x " << cols;
        CUS_ASSERT_OK(cusStereoPicture(&in32.mat, nullptr, &out.mat, nullptr));
        ASSERT_EQ(support::elements(out.mat), ref::picture(smooth, nullptr)) << rows << " x " << cols;
        ASSERT_TRUE(out.intact());
    }
}

// Values that no fill makes but a caller may have: no color is read out of bounds, and NaN does not affect the range.
TEST_P(Stereo, FloatsOutOfTheOrdinary) {
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    cusStereoOptions o = cusStereoDefaults();
    o.lines = CUS_LINES_CROSSING;
    for (const std::vector<float> &values : std::vector<std::vector<float>>{{0, 1e-38f, 1e-38f},
                                                                            {0, nan, 2},
                                                                            {0, 1, infinity},
                                                                            {0, nan, nan},
                                                                            {nan},
                                                                            {-0.0f, -nan, 3, 1},
                                                                            {-0.0f},
                                                                            {-5, 2, -0.0f, -nan, 7},
                                                                            {-infinity, 3, infinity, nan}}) {
        ref::Smooth e(2, 96);
        for (size_t i = 0; i < e.data.size(); ++i)
            e.data[i] = values[i % values.size()];
        Placed<float> in(e, space());
        support::Mat picture, lines;
        CUS_ASSERT_OK(cusStereoPicture(&in.mat, nullptr, &picture, nullptr));
        EXPECT_EQ(support::elements(picture), ref::picture(e, nullptr)) << ::testing::PrintToString(values);
        CUS_ASSERT_OK(cusStereoContours(&in.mat, &lines, &o, nullptr));
        EXPECT_TRUE(same(lines, ref::contours(e, o))) << ::testing::PrintToString(values);
    }
}

} // namespace
