// The stereo mapper: all stages in one call, real and synthetic pairs, and the errors of every function.
#include "stereo/support.hpp"

#include <cmath>
#include <thread>
#include <tuple>

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#endif

namespace {

using namespace stereo_test;

class StereoMapper : public support::SpaceTest {};
CUS_BOTH_SPACES(StereoMapper);

template<class T>
void mapperEqualsTheReference(cusSpace space, int rows, int cols, const cusStereoOptions &o, const Layout &layout,
                              std::mt19937_64 &random, cusStream stream = nullptr) {
    const auto left = randomImage<T>(rows, cols, random);
    ref::Image<T> right(rows, cols);
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            right(y, x) = left.value(y, x - o.direction * ((x / 24 + y / 24) % o.shifts), CUS_STEREO_WRAP);
    const auto holes = holesOf(left, right, o);
    Placed<T> l(left, space, layout), r(right, space, layout);
    TestMat contours(rows, cols, CUS_8UC1, space, layout);
    TestMat e(rows, cols, o.fill == CUS_FILL_RELAX ? CUS_32FC1 : CUS_16UC1, space, {4 * layout.padding, 4 * layout.offset});
    TestMat confidence(rows, cols, CUS_8UC1, space, layout);
    support::Owned<cusContourMapperDestroy> mapper;
    CUS_ASSERT_OK(cusContourMapperCreate(&mapper, rows, cols, typeOf<T>(), space, &o));
    for (int run = 0; run < 2; ++run) { // the second runs on what the first left in the scratch
        if (o.subpixel_bits || o.min_confidence) {
            CUS_ASSERT_OK(cusContourMapConfidence(mapper, &l.mat, &r.mat, &e.mat, &contours.mat, &confidence.mat, stream));
        } else {
            CUS_ASSERT_OK(cusContourMap(mapper, &l.mat, &r.mat, &e.mat, &contours.mat, stream));
        }
    }
    if (space == CUS_DEVICE)
        CUS_ASSERT_OK(cusStreamSynchronize(stream));
    if (o.subpixel_bits || o.min_confidence) {
        ASSERT_TRUE(same(confidence.mat, matchOfPair(left, right, o).confidence)) << describe(o);
    }
    withFilled(holes, o, [&](auto want) {
        if (o.median)
            want = ref::median(want, o.median);
        ASSERT_TRUE(same(e.mat, want)) << describe(o);
        ASSERT_TRUE(same(contours.mat, ref::contours(want, o))) << describe(o);
    });
    ASSERT_TRUE(e.intact());
    ASSERT_TRUE(contours.intact());
}

TEST_P(StereoMapper, ClassicEqualsTheReferenceAtAllSizes) {
    auto random = support::generator("classic");
    for (const auto &[rows, cols] : support::sizes()) {
        cusStereoOptions o = cusStereoClassic();
        o.shifts = std::min(o.shifts, cols);
        if (rows * cols > 10000) { // the whole of it at one large size, below
            o.window = 5;
            o.shifts = std::min(o.shifts, 12);
        }
        const auto layouts = support::layouts(CUS_8UC1);
        mapperEqualsTheReference<uint8_t>(space(), rows, cols, o, layouts[random() % 4], random);
    }
    mapperEqualsTheReference<uint8_t>(space(), 120, 333, cusStereoClassic(), {}, random);
}

TEST_P(StereoMapper, EqualsTheReferenceForAllOptions) {
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
                    mapperEqualsTheReference<float>(space(), rows, cols, o, {}, random);
                } else
                    mapperEqualsTheReference<uint8_t>(space(), rows, cols, o, {}, random);
            }
    const int part = space() == CUS_HOST && support::fewer() > 1 ? 2 : 1; // under sanitizers
    mapperEqualsTheReference<uint8_t>(space(), 241 / part, 643 / part, cusStereoDefaults(), {}, random);
}

TEST_P(StereoMapper, WorksInAnotherStream) {
    if (space() == CUS_HOST)
        GTEST_SKIP() << "the host has no streams";
    auto random = support::generator("stream");
    support::Owned<cusStreamDestroy> stream;
    CUS_ASSERT_OK(cusStreamCreate(&stream));
    mapperEqualsTheReference<uint8_t>(space(), 61, 200, cusStereoClassic(), {}, random, stream);
}

TEST_P(StereoMapper, TwoThreadsDoNotDisturbEachOther) {
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

// A noise texture on a smooth hill: the right image shows each point shifted by its elevation, which the map must recover.
TEST_P(StereoMapper, ASyntheticHillComesBackWithinOneShift) {
    const int rows = 160, cols = 240, peak = 20;
    std::mt19937_64 random(1); // a statistical law: always the same image
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
        support::Owned<cusContourMapperDestroy> mapper;
        support::Mat e;
        CUS_ASSERT_OK(cusContourMapperCreate(&mapper, rows, cols, CUS_8UC1, space(), &o));
        CUS_ASSERT_OK(cusContourMap(mapper, &l.mat, &r.mat, &e, nullptr, nullptr));
        const auto got = support::elements<uint16_t>(e);
        int off = 0, looked = 0;
        for (int y = 12; y < rows - 12; ++y)
            for (int x = 40; x < cols - 12; ++x, ++looked)
                off += std::abs(got[static_cast<size_t>(y) * cols + x] - 1 - hill(y, x)) > 1.5;
        EXPECT_LE(off, allowed * looked) << name << ": " << off << " of " << looked;
    }
}

#if defined(CUSIGHT_HAVE_OPENCV)
TEST_P(StereoMapper, RealPairEqualsTheReference) {
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
        auto want = holesOf(left, right, o);
        want = o.fill == CUS_FILL_ONCE ? ref::fillOnce(want, o) : ref::median(ref::fillLower(want), o.median);
        Placed<uint8_t> a(left, space()), b(right, space());
        support::Owned<cusContourMapperDestroy> mapper;
        support::Mat e, contours;
        CUS_ASSERT_OK(cusContourMapperCreate(&mapper, l.rows, l.cols, CUS_8UC1, space(), &o));
        CUS_ASSERT_OK(cusContourMap(mapper, &a.mat, &b.mat, &e, &contours, nullptr));
        EXPECT_TRUE(same(e, want));
        EXPECT_TRUE(same(contours, ref::contours(want, o)));
    }
}
#endif

// ---- Errors

TEST_P(StereoMapper, BadInputIsRejectedWithAClearMessage) {
    TestMat bytes(8, 12, CUS_8UC1, space()), other(8, 13, CUS_8UC1, space()), floats(8, 12, CUS_32FC1, space()),
        words(8, 12, CUS_16UC1, space()), color(8, 12, CUS_8UC3, space()), right(8, 12, CUS_8UC1, space());
    cusMat out = CUS_MAT_INIT;
    cusStereoOptions o = cusStereoClassic();
    o.shifts = 5;

    CUS_REJECTS(cusStereoEdges(nullptr, &out, &o, nullptr), NULL, "cusStereoEdges: image is NULL");
    CUS_REJECTS(cusStereoEdges(&bytes.mat, nullptr, &o, nullptr), NULL, "cusStereoEdges: edges is NULL");
    CUS_REJECTS(cusStereoEdges(&color.mat, &out, &o, nullptr), TYPE,
                "cusStereoEdges: image has type 8UC3, expected 8UC1 or 32FC1");
    CUS_REJECTS(cusStereoCensus(&bytes.mat, &bytes.mat, &o, nullptr), ALIAS, "cusStereoCensus: census overlaps image");
    CUS_REJECTS(cusStereoEdges(&bytes.mat, &other.mat, &o, nullptr), SIZE, "edges does not own its memory");
    CUS_REJECTS(cusStereoElevation(&bytes.mat, &other.mat, &out, &o, nullptr), SIZE,
                "cusStereoElevation: right is 8 x 13 (rows x cols), expected 8 x 12 like left");
    CUS_REJECTS(cusStereoElevation(&bytes.mat, &floats.mat, &out, &o, nullptr), TYPE,
                "right has type 32FC1, expected 8UC1");
    CUS_REJECTS(cusStereoFill(&bytes.mat, &out, &o, nullptr), TYPE, "elevation has type 8UC1, expected 16UC1");
    CUS_REJECTS(cusStereoContours(&bytes.mat, &out, &o, nullptr), TYPE, "expected 16UC1 or 32FC1");
    CUS_REJECTS(cusStereoFilterSpeckles(&bytes.mat, &out, &o, nullptr), TYPE, "elevation has type 8UC1, expected 16UC1");
    CUS_REJECTS(cusStereoFilterSpeckles(&words.mat, &words.mat, &o, nullptr), ALIAS, "filtered overlaps elevation");
    CUS_REJECTS(cusStereoMedian(&words.mat, &out, 4, nullptr), VALUE, "size is 4, expected 3 or 5");
    CUS_REJECTS(cusStereoPicture(&words.mat, &other.mat, &out, nullptr), SIZE, "contours is 8 x 13");

    auto rejects = [&](auto change, cusStatus status, const char *text) {
        cusStereoOptions wrong = o;
        change(wrong);
        cusContourMapper *mapper = nullptr;
        CUS_EXPECT_ERROR(cusContourMapperCreate(&mapper, 8, 12, CUS_8UC1, space(), &wrong), status, text);
        EXPECT_EQ(mapper, nullptr);
    };
    rejects([](auto &w) { w.window = 20; }, CUS_ERROR_VALUE, "window is 20, expected an odd number");
    rejects([](auto &w) { w.window = 65; }, CUS_ERROR_VALUE, "window is 65, expected 1..63");
    rejects([](auto &w) { w.window = -1; }, CUS_ERROR_VALUE, "window is -1, expected 1..63");
    rejects([](auto &w) { w.shifts = -1; }, CUS_ERROR_VALUE, "shifts is -1, expected 0..1024");
    rejects([](auto &w) { w.shifts = 1025; }, CUS_ERROR_VALUE, "shifts is 1025, expected 0..1024");
    rejects([](auto &w) { w.subpixel_bits = 1; }, CUS_ERROR_VALUE, "subpixel_bits is 1, expected 0 or 2..8");
    rejects([](auto &w) { w.subpixel_bits = 9; }, CUS_ERROR_VALUE, "subpixel_bits is 9, expected 0..8");
    rejects(
        [](auto &w) {
            w.shifts = 256;
            w.subpixel_bits = 8;
        },
        CUS_ERROR_VALUE, "subpixel_bits is 8, expected fewer: 256 shifts of so many bits exceed 65535");
    rejects([](auto &w) { w.min_confidence = 256; }, CUS_ERROR_VALUE, "min_confidence is 256, expected 0..255");
    rejects([](auto &w) { w.speckle_size = -1; }, CUS_ERROR_VALUE, "speckle_size is -1, expected 0..2147483647");
    rejects([](auto &w) { w.shifts = 13; }, CUS_ERROR_SIZE, "shifts is 13, expected at most 12 (the columns)");
    rejects([](auto &w) { w.direction = 0; }, CUS_ERROR_VALUE, "direction is 0, expected 1 or -1");
    rejects([](auto &w) { w.threshold = std::nanf(""); }, CUS_ERROR_VALUE,
            "threshold is nan, expected a number of at least 0");
    rejects([](auto &w) { w.threshold = -0.1f; }, CUS_ERROR_VALUE, "threshold is -0.1, expected a number of at least 0");
    rejects([](auto &w) { w.tolerance = std::nanf(""); }, CUS_ERROR_VALUE,
            "tolerance is nan, expected a number of at least 0");
    rejects([](auto &w) { w.border = static_cast<cusStereoBorder>(2); }, CUS_ERROR_VALUE, "border is 2, expected 0..1");
    rejects([](auto &w) { w.agreement = static_cast<cusStereoAgreement>(3); }, CUS_ERROR_VALUE, "agreement is 3");
    rejects([](auto &w) { w.fill = static_cast<cusStereoFillRule>(4); }, CUS_ERROR_VALUE, "fill is 4, expected 0..3");
    rejects([](auto &w) { w.lines = static_cast<cusStereoLines>(2); }, CUS_ERROR_VALUE, "lines is 2, expected 0..1");
    rejects([](auto &w) { w.levels = 0; }, CUS_ERROR_VALUE, "levels is 0, expected 1..65535");
    rejects([](auto &w) { w.iterations = -1; }, CUS_ERROR_VALUE, "iterations is -1, expected 0..1000000");
    rejects([](auto &w) { w.median = 7; }, CUS_ERROR_VALUE, "median is 7, expected 0, 3 or 5");
    rejects([](auto &w) { w.left_right_check = -2; }, CUS_ERROR_VALUE, "left_right_check is -2, expected -1..1024");
    rejects([](auto &w) { w.prefer_smaller = 2; }, CUS_ERROR_VALUE, "prefer_smaller is 2, expected 0..1");

    cusStereoOptions wide = o;
    wide.shifts = 13;
    CUS_REJECTS(cusStereoElevation(&bytes.mat, &bytes.mat, &out, &wide, nullptr), SIZE,
                "shifts is 13, expected at most 12 (the columns)");

    support::Owned<cusContourMapperDestroy> mapper;
    CUS_REJECTS(cusContourMapperCreate(&mapper, 8, 12, CUS_16UC1, space(), &o), TYPE, "expected 8UC1 or 32FC1");
    CUS_REJECTS(cusContourMapperCreate(&mapper, 0, 12, CUS_8UC1, space(), &o), VALUE, "images are 0 x 12");
    CUS_REJECTS(cusContourMapperCreate(nullptr, 8, 12, CUS_8UC1, space(), &o), NULL, "mapper is NULL");
    CUS_ASSERT_OK(cusContourMapperCreate(&mapper, 8, 12, CUS_8UC1, space(), &o));
    CUS_REJECTS(cusContourMap(nullptr, &bytes.mat, &right.mat, &out, nullptr, nullptr), NULL, "mapper is NULL");
    CUS_REJECTS(cusContourMap(mapper, &bytes.mat, &other.mat, &out, nullptr, nullptr), SIZE,
                "right is 8 x 13 (rows x cols), expected 8 x 12 like the mapper");
    CUS_REJECTS(cusContourMap(mapper, &floats.mat, &right.mat, &out, nullptr, nullptr), TYPE,
                "left has type 32FC1, expected 8UC1 like the mapper");
    CUS_REJECTS(cusContourMap(mapper, &bytes.mat, &right.mat, &out, &out, nullptr), ALIAS,
                "contours and elevation are the same matrix");
    CUS_REJECTS(cusContourMap(mapper, &bytes.mat, &right.mat, &out, &right.mat, nullptr), ALIAS, "contours overlaps right");
    CUS_REJECTS(cusStereoElevationConfidence(&bytes.mat, &right.mat, &out, &out, &o, nullptr), ALIAS,
                "confidence and elevation are the same matrix");
    CUS_REJECTS(cusStereoElevationConfidence(&bytes.mat, &right.mat, &out, &right.mat, &o, nullptr), ALIAS,
                "confidence overlaps right");
    CUS_REJECTS(cusStereoFindShifts(&bytes.mat, &right.mat, nullptr, &o, nullptr), NULL, "shifts is NULL");
    cusMat confidence = CUS_MAT_INIT;
    CUS_REJECTS(cusContourMapConfidence(mapper, &bytes.mat, &right.mat, &out, nullptr, &confidence, nullptr), VALUE,
                "confidence is wanted of a mapper with subpixel_bits 0 and min_confidence 0");
    if (support::haveGpu()) {
        TestMat elsewhere(8, 12, CUS_8UC1, space() == CUS_HOST ? CUS_DEVICE : CUS_HOST);
        CUS_REJECTS(cusStereoElevation(&bytes.mat, &elsewhere.mat, &out, &o, nullptr), SPACE, "right is in");
        CUS_REJECTS(cusContourMap(mapper, &elsewhere.mat, &right.mat, &out, nullptr, nullptr), SPACE, "left is in");
    }
    EXPECT_EQ(out.data, nullptr); // nothing was made
    cusContourMapperDestroy(nullptr);
}

} // namespace
