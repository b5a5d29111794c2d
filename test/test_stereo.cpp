#include "cusight/stereo.h"
#include "reference/stereo.hpp"
#include "support.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <thread>
#include <tuple>

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#endif

namespace {

namespace ref = reference::stereo;
using support::Layout;
using support::TestMat;

template<class T>
int typeOf() {
    return std::is_same_v<T, float> ? CUS_32FC1 : std::is_same_v<T, uint16_t> ? CUS_16UC1 : CUS_8UC1;
}

template<class T>
testing::AssertionResult same(const cusMat &got, const ref::Image<T> &want) {
    if (got.type != typeOf<T>() || got.rows != want.rows || got.cols != want.cols)
        return testing::AssertionFailure() << "other type or size";
    const auto data = support::elements<T>(got);
    for (size_t i = 0; i < data.size(); ++i)
        if (std::memcmp(&data[i], &want.data[i], sizeof(T)) != 0)
            return testing::AssertionFailure()
                   << "at (y, x) = (" << i / want.cols << ", " << i % want.cols << ") of " << want.rows << " x "
                   << want.cols << ": " << +data[i] << ", the reference has " << +want.data[i];
    return testing::AssertionSuccess();
}

template<class T>
struct Placed : TestMat {
    Placed(const ref::Image<T> &image, cusSpace space, Layout layout = {})
        : TestMat(image.rows, image.cols, typeOf<T>(), space, layout, image.data.data()) {}
};

template<class T>
ref::Image<T> randomImage(int rows, int cols, std::mt19937_64 &random) {
    ref::Image<T> image(rows, cols);
    const bool coarse = random() & 1; // few levels: flat areas and ties
    for (auto &v : image.data) {
        const auto byte = static_cast<uint8_t>(coarse ? (random() & 3) * 85 : random());
        v = std::is_same_v<T, float> ? static_cast<T>(byte / 255.0f) : static_cast<T>(byte);
    }
    return image;
}

// A right image that is the left one moved by a shift that varies, plus noise: agreements with structure.
ref::Bytes partnerOf(const ref::Bytes &left, int direction, int shifts, std::mt19937_64 &random) {
    ref::Bytes right(left.rows, left.cols);
    for (int y = 0; y < left.rows; ++y)
        for (int x = 0; x < left.cols; ++x) {
            const int s = (x / 16 + y / 16) % shifts;
            right(y, x) =
                random() % 16 ? left.value(y, x - direction * s, CUS_STEREO_WRAP) : static_cast<uint8_t>(random());
        }
    return right;
}

ref::Elevation randomHoles(int rows, int cols, std::mt19937_64 &random) {
    ref::Elevation e(rows, cols);
    const uint64_t known = 1 + random() % 8, top = random() & 1 ? 6 : random() & 1 ? 31 : 65535;
    for (auto &v : e.data)
        v = static_cast<uint16_t>(random() % 8 < known ? 0 : 1 + random() % top);
    return e;
}

cusStereoOptions randomOptions(int cols, std::mt19937_64 &random) {
    cusStereoOptions o = cusStereoClassic();
    o.border = static_cast<cusStereoBorder>(random() % 2);
    o.agreement = static_cast<cusStereoAgreement>(random() % 3);
    o.threshold = static_cast<float>(random() % 100) / 250.0f;
    o.shifts = 1 + static_cast<int>(random() % static_cast<uint64_t>(std::min(cols, 40)));
    o.direction = random() & 1 ? 1 : -1;
    o.window = 1 + 2 * static_cast<int>(random() % 12);
    o.prefer_smaller = static_cast<int>(random() % 2);
    o.left_right_check = static_cast<int>(random() % 4) - 1;
    return o;
}

std::string describe(const cusStereoOptions &o) {
    return "border " + std::to_string(o.border) + ", agreement " + std::to_string(o.agreement) + ", threshold " +
           std::to_string(o.threshold) + ", shifts " + std::to_string(o.shifts) + ", direction " +
           std::to_string(o.direction) + ", window " + std::to_string(o.window) + ", prefer_smaller " +
           std::to_string(o.prefer_smaller) + ", check " + std::to_string(o.left_right_check) + ", fill " +
           std::to_string(o.fill) + ", iterations " + std::to_string(o.iterations) + ", lines " + std::to_string(o.lines) +
           ", levels " + std::to_string(o.levels);
}

class Stereo : public support::SpaceTest {};
CUS_BOTH_SPACES(Stereo);

// ---- Edges and signs

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
                TestMat edges(rows, cols, CUS_8UC1, space, layout), signs(rows, cols, CUS_8UC1, space, layout);
                CUS_ASSERT_OK(cusStereoEdges(&in.mat, &edges.mat, &o, nullptr));
                CUS_ASSERT_OK(cusStereoCensus(&in.mat, &signs.mat, &o, nullptr));
                ASSERT_TRUE(same(edges.mat, ref::edges(image, o))) << describe(o);
                ASSERT_TRUE(same(signs.mat, ref::signs(image, o))) << describe(o);
                ASSERT_TRUE(edges.intact());
                ASSERT_TRUE(signs.intact());
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
    cusMat edges = CUS_MAT_INIT;
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
    cusMatRelease(&edges);
}

TEST_P(Stereo, NoneOfTheFlatImageIsAnEdge) {
    Placed<float> in(ref::Smooth(33, 65), space());
    cusMat edges = CUS_MAT_INIT;
    cusStereoOptions o = cusStereoClassic();
    o.threshold = 0;
    CUS_ASSERT_OK(cusStereoEdges(&in.mat, &edges, &o, nullptr));
    for (const uint8_t e : support::elements(edges))
        ASSERT_EQ(e, 0);
    cusMatRelease(&edges);
}

TEST_P(Stereo, ANanIsRejectedOnTheHostAndNoEdgeOnTheDevice) {
    ref::Smooth image(5, 5);
    image(2, 2) = std::nanf("");
    Placed<float> in(image, space());
    cusMat edges = CUS_MAT_INIT;
    if (space() == CUS_HOST) {
        CUS_EXPECT_ERROR(cusStereoEdges(&in.mat, &edges, nullptr, nullptr), CUS_ERROR_VALUE,
                         "cusStereoEdges: image has a NaN");
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
    const auto right = partnerOf(left, o.direction, o.shifts, random);
    Placed<uint8_t> l(left, space, layout), r(right, space, layout);
    TestMat e(rows, cols, CUS_16UC1, space, {layout.padding * 2, layout.offset * 2});
    CUS_ASSERT_OK(cusStereoElevation(&l.mat, &r.mat, &e.mat, &o, nullptr));
    ASSERT_TRUE(same(e.mat, ref::elevation(left, right, o))) << describe(o);
    ASSERT_TRUE(e.intact());
    ASSERT_TRUE(l.intact() && r.intact());
}

TEST_P(Stereo, ElevationEqualsTheReference) {
    auto random = support::generator("elevation");
    for (const auto &[rows, cols] : support::sizes()) {
        if (rows * cols > 70000)
            continue; // the reference takes its time; the whole mapper is tried there
        for (const Layout &layout : support::layouts(CUS_8UC1)) {
            cusStereoOptions o = randomOptions(cols, random);
            if (rows * cols > 10000) {
                o.window = std::min(o.window, 9);
                o.shifts = std::min(o.shifts, 12);
            }
            ASSERT_NO_FATAL_FAILURE(elevationEqualsTheReference(space(), rows, cols, o, layout, random));
        }
    }
}

// Every way through the code: windows past what packed bytes and keys hold, more than one group of shifts.
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
            ASSERT_NO_FATAL_FAILURE(elevationEqualsTheReference(space(), rows, cols, o, {}, random));
        }
}

// All agree everywhere: the highest scores there are, and all of them equal.
TEST_P(Stereo, FullAgreementGivesTheExtremeShiftByTheTieRule) {
    for (const auto agreement : {CUS_STEREO_EQUAL, CUS_STEREO_EDGE, CUS_STEREO_CENSUS})
        for (const int window : {1, 21, 45, 63})
            for (const int smaller : {0, 1}) {
                ref::Bytes image(20, 260);
                for (auto &v : image.data)
                    v = 255;
                Placed<uint8_t> l(image, space()), r(image, space());
                cusStereoOptions o = cusStereoClassic();
                o.agreement = agreement;
                o.window = window;
                o.prefer_smaller = smaller;
                o.shifts = 256;
                cusMat e = CUS_MAT_INIT;
                CUS_ASSERT_OK(cusStereoElevation(&l.mat, &r.mat, &e, &o, nullptr));
                for (const uint16_t v : support::elements<uint16_t>(e))
                    ASSERT_EQ(v, smaller ? 1 : 256) << describe(o);
                cusMatRelease(&e);
            }
}

// No edges on one side and only edges on the other: nothing agrees.
TEST_P(Stereo, NoAgreementIsAHole) {
    ref::Bytes none(9, 50), all(9, 50);
    for (auto &v : all.data)
        v = 1;
    Placed<uint8_t> l(none, space()), r(all, space());
    const cusStereoOptions o = cusStereoClassic();
    cusMat e = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusStereoElevation(&l.mat, &r.mat, &e, &o, nullptr));
    for (const uint16_t v : support::elements<uint16_t>(e))
        ASSERT_EQ(v, 0);
    cusMatRelease(&e);
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
                if (rule == CUS_FILL_RELAX) {
                    ASSERT_TRUE(same(out.mat, ref::fillRelax(holes, o))) << describe(o);
                } else {
                    const auto want = rule == CUS_FILL_ONCE    ? ref::fillOnce(holes, o)
                                      : rule == CUS_FILL_LOWER ? ref::fillLower(holes)
                                                               : holes;
                    ASSERT_TRUE(same(out.mat, want)) << describe(o);
                }
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
        cusMat out = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusStereoFill(&in.mat, &out, &o, nullptr));
        const auto filled = support::elements<uint16_t>(out);
        EXPECT_EQ(filled[301], 2);
        for (int x = 2; x < 300; ++x)
            ASSERT_EQ(filled[300 + static_cast<size_t>(x)], x <= iterations ? 1 : 0) << x << " after " << iterations;
        ASSERT_TRUE(same(out, ref::fillOnce(holes, o)));
        cusMatRelease(&out);
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
    cusMat out = CUS_MAT_INIT;
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
    cusMatRelease(&out);
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

// Flat maps, and ranges smaller than the number of levels: nothing is divided by zero.
TEST_P(Stereo, ContoursOfFlatMapsAndSmallRanges) {
    ref::Elevation flat(4, 5), steps(1, 4);
    for (auto &v : flat.data)
        v = 7;
    steps.data = {4, 5, 6, 6};
    cusStereoOptions o = cusStereoClassic();
    cusMat out = CUS_MAT_INIT;
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
    cusMatRelease(&out);
}

TEST_P(Stereo, PicturesOfAllElevationsWorkedByHand) {
    ref::Elevation e(1, 6);
    e.data = {1, 86, 171, 256, 0, 100};
    ref::Bytes lines(1, 6);
    lines(0, 5) = 255;
    Placed<uint16_t> in(e, space());
    Placed<uint8_t> on(lines, space());
    cusMat picture = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusStereoPicture(&in.mat, &on.mat, &picture, nullptr));
    // index = (e - 0) * 255 / 256: 0, 85, 170, 255
    EXPECT_EQ(support::elements(picture),
              (std::vector<uint8_t>{255, 0, 0, 0, 255, 0, 0, 255, 255, 0, 0, 255, 0, 0, 0, 0, 0, 0}));
    cusMatRelease(&picture);
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

// Values that no fill makes, but a caller may have: nothing is read beyond the colors, and NaN spoils no range.
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
        cusMat picture = CUS_MAT_INIT, lines = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusStereoPicture(&in.mat, nullptr, &picture, nullptr));
        EXPECT_EQ(support::elements(picture), ref::picture(e, nullptr)) << ::testing::PrintToString(values);
        CUS_ASSERT_OK(cusStereoContours(&in.mat, &lines, &o, nullptr));
        EXPECT_TRUE(same(lines, ref::contours(e, o))) << ::testing::PrintToString(values);
        cusMatRelease(&picture);
        cusMatRelease(&lines);
    }
}

// ---- The mapper

template<class T>
void mapperEqualsTheReference(cusSpace space, int rows, int cols, const cusStereoOptions &o, const Layout &layout,
                              std::mt19937_64 &random, cusStream stream = nullptr) {
    const auto left = randomImage<T>(rows, cols, random);
    ref::Image<T> right(rows, cols);
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            right(y, x) = left.value(y, x - o.direction * ((x / 24 + y / 24) % o.shifts), CUS_STEREO_WRAP);
    const bool signs = o.agreement == CUS_STEREO_CENSUS;
    const auto holes = ref::elevation(signs ? ref::signs(left, o) : ref::edges(left, o),
                                      signs ? ref::signs(right, o) : ref::edges(right, o), o);
    Placed<T> l(left, space, layout), r(right, space, layout);
    TestMat contours(rows, cols, CUS_8UC1, space, layout);
    TestMat e(rows, cols, o.fill == CUS_FILL_RELAX ? CUS_32FC1 : CUS_16UC1, space, {4 * layout.padding, 4 * layout.offset});
    cusContourMapper *mapper = nullptr;
    CUS_ASSERT_OK(cusContourMapperCreate(&mapper, rows, cols, typeOf<T>(), space, &o));
    for (int run = 0; run < 2; ++run) { // the second finds what the first left behind
        CUS_ASSERT_OK(cusContourMap(mapper, &l.mat, &r.mat, &e.mat, &contours.mat, stream));
    }
    if (space == CUS_DEVICE) {
        CUS_ASSERT_OK(cusStreamSynchronize(stream));
    }
    if (o.fill == CUS_FILL_RELAX) {
        auto want = ref::fillRelax(holes, o);
        if (o.median)
            want = ref::median(want, o.median);
        ASSERT_TRUE(same(e.mat, want)) << describe(o);
        ASSERT_TRUE(same(contours.mat, ref::contours(want, o))) << describe(o);
    } else {
        auto want = o.fill == CUS_FILL_ONCE    ? ref::fillOnce(holes, o)
                    : o.fill == CUS_FILL_LOWER ? ref::fillLower(holes)
                                               : holes;
        if (o.median)
            want = ref::median(want, o.median);
        ASSERT_TRUE(same(e.mat, want)) << describe(o);
        ASSERT_TRUE(same(contours.mat, ref::contours(want, o))) << describe(o);
    }
    ASSERT_TRUE(e.intact());
    ASSERT_TRUE(contours.intact());
    cusContourMapperDestroy(mapper);
}

TEST_P(Stereo, ClassicMapperEqualsTheReferenceAtAllSizes) {
    auto random = support::generator("classic");
    for (const auto &[rows, cols] : support::sizes()) {
        cusStereoOptions o = cusStereoClassic();
        o.shifts = std::min(o.shifts, cols);
        if (rows * cols > 10000) { // the whole of it at one large size, below
            o.window = 5;
            o.shifts = std::min(o.shifts, 12);
        }
        const auto layouts = support::layouts(CUS_8UC1);
        ASSERT_NO_FATAL_FAILURE(mapperEqualsTheReference<uint8_t>(space(), rows, cols, o, layouts[random() % 4], random));
    }
    ASSERT_NO_FATAL_FAILURE(mapperEqualsTheReference<uint8_t>(space(), 120, 333, cusStereoClassic(), {}, random));
}

TEST_P(Stereo, MapperEqualsTheReferenceForAllOptions) {
    auto random = support::generator("options");
    for (const auto fill : {CUS_FILL_NONE, CUS_FILL_ONCE, CUS_FILL_RELAX, CUS_FILL_LOWER})
        for (const int median : {0, 3, 5})
            for (const bool floats : {false, true}) {
                const int rows = 1 + static_cast<int>(random() % 70), cols = 1 + static_cast<int>(random() % 150);
                cusStereoOptions o = randomOptions(cols, random);
                o.fill = fill;
                o.median = median;
                o.lines = static_cast<cusStereoLines>(random() % 2);
                if (floats) {
                    ASSERT_NO_FATAL_FAILURE(mapperEqualsTheReference<float>(space(), rows, cols, o, {}, random));
                } else {
                    ASSERT_NO_FATAL_FAILURE(mapperEqualsTheReference<uint8_t>(space(), rows, cols, o, {}, random));
                }
            }
    ASSERT_NO_FATAL_FAILURE(mapperEqualsTheReference<uint8_t>(space(), 241, 643, cusStereoDefaults(), {}, random));
}

TEST_P(Stereo, MapperWorksInAnotherStream) {
    if (space() == CUS_HOST)
        GTEST_SKIP() << "the host has no streams";
    auto random = support::generator("stream");
    cusStream stream = nullptr;
    CUS_ASSERT_OK(cusStreamCreate(&stream));
    mapperEqualsTheReference<uint8_t>(space(), 61, 200, cusStereoClassic(), {}, random, stream);
    cusStreamDestroy(stream);
}

TEST_P(Stereo, MappersOnTwoThreadsDoNotDisturbEachOther) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
        threads.emplace_back([this, t] {
            auto random = support::generator("thread" + std::to_string(t));
            for (int i = 0; i < 4; ++i)
                mapperEqualsTheReference<uint8_t>(space(), 40 + 9 * t, 100 - 9 * t,
                                                  t ? cusStereoClassic() : cusStereoDefaults(), {}, random);
        });
    for (auto &thread : threads)
        thread.join();
}

// A smooth noise texture on a hill: the right image shows each point moved by its elevation. The map must give it back.
TEST_P(Stereo, ASyntheticHillComesBackWithinOneShift) {
    const int rows = 160, cols = 240, peak = 20;
    std::mt19937_64 random(1); // a statistical law: always the same picture
    ref::Bytes left(rows, cols), right(rows, cols);
    for (auto &v : left.data)
        v = static_cast<uint8_t>(random());
    auto hill = [&](int y, int x) {
        const double dy = (y - rows / 2) / 45.0, dx = (x - cols / 2) / 60.0;
        return 2 + (peak - 2) * std::exp(-(dx * dx + dy * dy));
    };
    for (auto &v : right.data)
        v = static_cast<uint8_t>(random());
    for (int y = 0; y < rows; ++y)
        for (int pass = 0; pass <= peak; ++pass) // nearer points hide farther ones
            for (int x = 0; x < cols; ++x) {
                const int s = static_cast<int>(std::lround(hill(y, x)));
                if (s == pass && x - s >= 0)
                    right(y, x - s) = left(y, x);
            }
    cusStereoOptions smooth = cusStereoDefaults(), classic = cusStereoClassic();
    classic.direction = -1;
    classic.threshold = 0.6f;
    classic.window = 11;
    for (const auto &[name, o, allowed] :
         {std::tuple{"defaults", smooth, 0.002}, std::tuple{"classic at threshold 0.6", classic, 0.10}}) {
        Placed<uint8_t> l(left, space()), r(right, space());
        cusContourMapper *mapper = nullptr;
        cusMat e = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusContourMapperCreate(&mapper, rows, cols, CUS_8UC1, space(), &o));
        CUS_ASSERT_OK(cusContourMap(mapper, &l.mat, &r.mat, &e, nullptr, nullptr));
        const auto got = support::elements<uint16_t>(e);
        int off = 0, looked = 0;
        for (int y = 12; y < rows - 12; ++y)
            for (int x = 40; x < cols - 12; ++x, ++looked)
                off += std::abs(got[static_cast<size_t>(y) * cols + x] - 1 - hill(y, x)) > 1.5;
        EXPECT_LE(off, allowed * looked) << name << ": " << off << " of " << looked;
        cusContourMapperDestroy(mapper);
        cusMatRelease(&e);
    }
}

#if defined(CUSIGHT_HAVE_OPENCV)
TEST_P(Stereo, RealPairEqualsTheReference) {
    const std::string folder = support::dataFolder();
    cv::Mat l = cv::imread(folder + "/aloeL.jpg", cv::IMREAD_GRAYSCALE),
            r = cv::imread(folder + "/aloeR.jpg", cv::IMREAD_GRAYSCALE);
    if (l.empty() || r.empty())
        GTEST_SKIP() << "aloeL.jpg and aloeR.jpg are not in CUSIGHT_TEST_DATA";
    cv::resize(l, l, {}, 1 / 6.0, 1 / 6.0, cv::INTER_AREA);
    cv::resize(r, r, l.size(), 0, 0, cv::INTER_AREA);
    ref::Bytes left(l.rows, l.cols), right(l.rows, l.cols);
    std::memcpy(left.data.data(), l.data, left.data.size());
    std::memcpy(right.data.data(), r.data, right.data.size());
    for (cusStereoOptions o : {cusStereoClassic(), cusStereoDefaults()}) {
        const bool signs = o.agreement == CUS_STEREO_CENSUS;
        auto want = ref::elevation(signs ? ref::signs(left, o) : ref::edges(left, o),
                                   signs ? ref::signs(right, o) : ref::edges(right, o), o);
        want = o.fill == CUS_FILL_ONCE ? ref::fillOnce(want, o) : ref::median(ref::fillLower(want), o.median);
        Placed<uint8_t> a(left, space()), b(right, space());
        cusContourMapper *mapper = nullptr;
        cusMat e = CUS_MAT_INIT, contours = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusContourMapperCreate(&mapper, l.rows, l.cols, CUS_8UC1, space(), &o));
        CUS_ASSERT_OK(cusContourMap(mapper, &a.mat, &b.mat, &e, &contours, nullptr));
        EXPECT_TRUE(same(e, want));
        EXPECT_TRUE(same(contours, ref::contours(want, o)));
        cusContourMapperDestroy(mapper);
        cusMatRelease(&e);
        cusMatRelease(&contours);
    }
}
#endif

// ---- What is rejected

TEST_P(Stereo, BadInputIsRejectedWithAClearMessage) {
    TestMat bytes(8, 12, CUS_8UC1, space()), other(8, 13, CUS_8UC1, space()), floats(8, 12, CUS_32FC1, space()),
        words(8, 12, CUS_16UC1, space()), color(8, 12, CUS_8UC3, space()), right(8, 12, CUS_8UC1, space());
    cusMat out = CUS_MAT_INIT;
    cusStereoOptions o = cusStereoClassic();
    o.shifts = 5;

    CUS_EXPECT_ERROR(cusStereoEdges(nullptr, &out, &o, nullptr), CUS_ERROR_NULL, "cusStereoEdges: image is NULL");
    CUS_EXPECT_ERROR(cusStereoEdges(&bytes.mat, nullptr, &o, nullptr), CUS_ERROR_NULL, "cusStereoEdges: edges is NULL");
    CUS_EXPECT_ERROR(cusStereoEdges(&color.mat, &out, &o, nullptr), CUS_ERROR_TYPE,
                     "cusStereoEdges: image has type 8UC3, expected 8UC1 or 32FC1");
    CUS_EXPECT_ERROR(cusStereoCensus(&bytes.mat, &bytes.mat, &o, nullptr), CUS_ERROR_ALIAS,
                     "cusStereoCensus: signs overlaps image");
    CUS_EXPECT_ERROR(cusStereoEdges(&bytes.mat, &other.mat, &o, nullptr), CUS_ERROR_SIZE, "edges does not own its memory");
    CUS_EXPECT_ERROR(cusStereoElevation(&bytes.mat, &other.mat, &out, &o, nullptr), CUS_ERROR_SIZE,
                     "cusStereoElevation: right is 8 x 13 (rows x cols), expected 8 x 12 like left");
    CUS_EXPECT_ERROR(cusStereoElevation(&bytes.mat, &floats.mat, &out, &o, nullptr), CUS_ERROR_TYPE,
                     "right has type 32FC1, expected 8UC1");
    CUS_EXPECT_ERROR(cusStereoFill(&bytes.mat, &out, &o, nullptr), CUS_ERROR_TYPE,
                     "elevation has type 8UC1, expected 16UC1");
    CUS_EXPECT_ERROR(cusStereoContours(&bytes.mat, &out, &o, nullptr), CUS_ERROR_TYPE, "expected 16UC1 or 32FC1");
    CUS_EXPECT_ERROR(cusStereoMedian(&words.mat, &out, 4, nullptr), CUS_ERROR_VALUE, "size is 4, takes 3 or 5");
    CUS_EXPECT_ERROR(cusStereoPicture(&words.mat, &other.mat, &out, nullptr), CUS_ERROR_SIZE, "contours is 8 x 13");

    auto rejects = [&](auto change, cusStatus status, const char *text) {
        cusStereoOptions wrong = o;
        change(wrong);
        cusContourMapper *mapper = nullptr;
        CUS_EXPECT_ERROR(cusContourMapperCreate(&mapper, 8, 12, CUS_8UC1, space(), &wrong), status, text);
        EXPECT_EQ(mapper, nullptr);
    };
    rejects([](auto &w) { w.window = 20; }, CUS_ERROR_VALUE, "window is 20, takes odd numbers");
    rejects([](auto &w) { w.window = 65; }, CUS_ERROR_VALUE, "window is 65, takes 1..63");
    rejects([](auto &w) { w.window = -1; }, CUS_ERROR_VALUE, "window is -1, takes 1..63");
    rejects([](auto &w) { w.shifts = 0; }, CUS_ERROR_VALUE, "shifts is 0, takes 1..256");
    rejects([](auto &w) { w.shifts = 257; }, CUS_ERROR_VALUE, "shifts is 257, takes 1..256");
    rejects([](auto &w) { w.shifts = 13; }, CUS_ERROR_SIZE, "shifts is 13, the images have only 12 columns");
    rejects([](auto &w) { w.direction = 0; }, CUS_ERROR_VALUE, "direction is 0, takes 1 or -1");
    rejects([](auto &w) { w.threshold = std::nanf(""); }, CUS_ERROR_VALUE, "threshold is nan, takes 0 or more");
    rejects([](auto &w) { w.threshold = -0.1f; }, CUS_ERROR_VALUE, "threshold is -0.1, takes 0 or more");
    rejects([](auto &w) { w.tolerance = std::nanf(""); }, CUS_ERROR_VALUE, "tolerance is nan, takes 0 or more");
    rejects([](auto &w) { w.border = static_cast<cusStereoBorder>(2); }, CUS_ERROR_VALUE, "border is 2, takes 0..1");
    rejects([](auto &w) { w.agreement = static_cast<cusStereoAgreement>(3); }, CUS_ERROR_VALUE, "agreement is 3");
    rejects([](auto &w) { w.fill = static_cast<cusStereoFillRule>(4); }, CUS_ERROR_VALUE, "fill is 4, takes 0..3");
    rejects([](auto &w) { w.lines = static_cast<cusStereoLines>(2); }, CUS_ERROR_VALUE, "lines is 2, takes 0..1");
    rejects([](auto &w) { w.levels = 0; }, CUS_ERROR_VALUE, "levels is 0, takes 1..65535");
    rejects([](auto &w) { w.iterations = -1; }, CUS_ERROR_VALUE, "iterations is -1, takes 0..1000000");
    rejects([](auto &w) { w.median = 7; }, CUS_ERROR_VALUE, "median is 7, takes 0, 3 or 5");
    rejects([](auto &w) { w.left_right_check = -2; }, CUS_ERROR_VALUE, "check is -2, takes -1..256");
    rejects([](auto &w) { w.prefer_smaller = 2; }, CUS_ERROR_VALUE, "prefer_smaller is 2, takes 0..1");

    cusContourMapper *mapper = nullptr;
    CUS_EXPECT_ERROR(cusContourMapperCreate(&mapper, 8, 12, CUS_16UC1, space(), &o), CUS_ERROR_TYPE, "takes 8UC1 or 32FC1");
    CUS_EXPECT_ERROR(cusContourMapperCreate(&mapper, 0, 12, CUS_8UC1, space(), &o), CUS_ERROR_VALUE, "images are 0 x 12");
    CUS_EXPECT_ERROR(cusContourMapperCreate(nullptr, 8, 12, CUS_8UC1, space(), &o), CUS_ERROR_NULL, "mapper is NULL");
    CUS_ASSERT_OK(cusContourMapperCreate(&mapper, 8, 12, CUS_8UC1, space(), &o));
    CUS_EXPECT_ERROR(cusContourMap(nullptr, &bytes.mat, &right.mat, &out, nullptr, nullptr), CUS_ERROR_NULL,
                     "mapper is NULL");
    CUS_EXPECT_ERROR(cusContourMap(mapper, &bytes.mat, &other.mat, &out, nullptr, nullptr), CUS_ERROR_SIZE,
                     "right is 8 x 13 (rows x cols), takes 8 x 12 as the mapper");
    CUS_EXPECT_ERROR(cusContourMap(mapper, &floats.mat, &right.mat, &out, nullptr, nullptr), CUS_ERROR_TYPE,
                     "left has type 32FC1, takes 8UC1 as the mapper");
    CUS_EXPECT_ERROR(cusContourMap(mapper, &bytes.mat, &right.mat, &out, &out, nullptr), CUS_ERROR_ALIAS,
                     "contours is elevation");
    CUS_EXPECT_ERROR(cusContourMap(mapper, &bytes.mat, &right.mat, &out, &right.mat, nullptr), CUS_ERROR_ALIAS,
                     "contours overlaps right");
    if (support::haveGpu()) {
        TestMat elsewhere(8, 12, CUS_8UC1, space() == CUS_HOST ? CUS_DEVICE : CUS_HOST);
        CUS_EXPECT_ERROR(cusStereoElevation(&bytes.mat, &elsewhere.mat, &out, &o, nullptr), CUS_ERROR_SPACE, "right is in");
        CUS_EXPECT_ERROR(cusContourMap(mapper, &elsewhere.mat, &right.mat, &out, nullptr, nullptr), CUS_ERROR_SPACE,
                         "left is in");
    }
    EXPECT_EQ(out.data, nullptr); // nothing was made
    cusContourMapperDestroy(mapper);
    cusContourMapperDestroy(nullptr);
}

} // namespace
