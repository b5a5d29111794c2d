// Sources of 2 to 4 interleaved channels: each channel as the only channel of its own source.
#include "integral/support.hpp"

#include "reference/integral.hpp"

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#endif

#include <cmath>
#include <limits>

// Weak: a library without OpenMP lacks them.
extern "C" __attribute__((weak)) void omp_set_num_threads(int);
extern "C" __attribute__((weak)) int omp_get_max_threads();

namespace {

using support::Layout;
using support::TestMat;

int withChannels(int type, int channels) {
    return CUS_MAKETYPE(CUS_DEPTH(type), channels);
}

// A layout that counts values.
Layout layoutOf(int type, Layout values) {
    const size_t value = cusTypeSize(type) / static_cast<size_t>(CUS_CHANNELS(type));
    return {values.padding * value, values.offset * value};
}

template<class T>
std::vector<T> channelOf(const std::vector<T> &all, size_t channels, size_t channel) {
    std::vector<T> one;
    for (size_t i = channel; i < all.size(); i += channels)
        one.push_back(all[i]);
    return one;
}

class IntegralChannels : public support::SpaceTest {
  protected:
    // Every set of tables of one source; bytes, or the same values as floats, whose sums are exact in any order.
    void check(int rows, int cols, int type, int channels, Layout source, Layout tables) {
        const size_t values = static_cast<size_t>(rows) * static_cast<size_t>(cols) * static_cast<size_t>(channels);
        checkValues(rows, cols, type, channels, source, tables, support::randomBytes(values, random_));
    }
    void checkValues(int rows, int cols, int type, int channels, Layout source, Layout tables,
                     const std::vector<uint8_t> &bytes) {
        const size_t h = static_cast<size_t>(rows), w = static_cast<size_t>(cols), n = static_cast<size_t>(channels);
        const std::vector<float> floats(bytes.begin(), bytes.end());
        const int src_type = withChannels(type, channels), wide = withChannels(CUS_64FC1, channels);
        TestMat in(rows, cols, src_type, space(), layoutOf(src_type, source),
                   type == CUS_8UC1 ? static_cast<const void *>(bytes.data()) : floats.data());
        const auto narrow = reference::integral<uint32_t>(bytes, h, w, false, n);
        const auto sums = reference::integral<double>(bytes, h, w, false, n),
                   squares = reference::integral<double>(bytes, h, w, true, n);
        for (const Case &c : CASES) {
            if (c.type != type)
                continue;
            SCOPED_TRACE(testing::Message()
                         << rows << " x " << cols << " of type " << src_type << ", depth " << c.sum_depth << ", tables "
                         << c.sum << c.sqsum << ", source at " << source.offset << " + " << source.padding);
            const int sum_type = withChannels(sumType(c), channels);
            TestMat sum(rows + 1, cols + 1, sum_type, space(), layoutOf(sum_type, tables)),
                sqsum(rows + 1, cols + 1, wide, space(), layoutOf(wide, tables));
            const cusIntegralOptions options = depthOf(c.sum_depth);
            CUS_ASSERT_OK(
                cusIntegral(&in.mat, c.sum ? &sum.mat : nullptr, c.sqsum ? &sqsum.mat : nullptr, &options, nullptr));
            ASSERT_TRUE(!c.sum ||
                        (CUS_DEPTH(sum_type) == CUS_32S ? sum.get<uint32_t>() == narrow : sum.get<double>() == sums));
            ASSERT_TRUE(!c.sqsum || sqsum.get<double>() == squares);
            ASSERT_TRUE(in.intact() && sum.intact() && sqsum.intact());
        }
    }

    std::mt19937_64 random_ = support::generator();
};
CUS_BOTH_SPACES(IntegralChannels);

TEST_P(IntegralChannels, WorkedExample) {
    const uint8_t src[12] = {1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60};
    TestMat in(2, 3, CUS_8UC2, space(), {}, src);
    support::Mat sum, sqsum;
    CUS_ASSERT_OK(cusIntegral(&in.mat, &sum, &sqsum, nullptr, nullptr));
    EXPECT_EQ(sum.type, CUS_32SC2);
    EXPECT_EQ(sqsum.type, CUS_64FC2);
    EXPECT_EQ(support::elements<int32_t>(sum),
              (std::vector<int32_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 10, 3, 30, 6, 60, 0, 0, 5, 50, 12, 120, 21, 210}));
    const auto squares = support::elements<double>(sqsum);
    EXPECT_EQ(squares[22], 91);
    EXPECT_EQ(squares[23], 9100);
}

// Around the tiles of 128 columns and 32 or 64 rows, the steps of the host's vectors and the stripes of its threads.
TEST_P(IntegralChannels, SizesTypesAndLayouts) {
    auto sizes = support::sizes();
    for (const auto &size :
         {std::pair<int, int>{32, 128}, {33, 127}, {31, 129}, {64, 256}, {65, 257}, {97, 383}, {3, 5000}})
        sizes.push_back(size);
    for (const auto &[rows, cols] : sizes)
        for (const int type : {CUS_8UC1, CUS_32FC1})
            for (int channels = 2; channels <= 4; ++channels)
                for (const Layout &layout : {Layout{0, 0}, Layout{13, 3}})
                    check(rows, cols, type, channels, layout, layout);
}

TEST_P(IntegralChannels, AllSmallSizes) {
    for (int size = 1; size <= 200; ++size) {
        const int other = 1 + static_cast<int>(random_() % 200), channels = 2 + size % 3;
        const Layout source = {random_() % 8, random_() % 8}, tables = {random_() % 8, random_() % 8};
        check(size, other, size % 2 ? CUS_8UC1 : CUS_32FC1, channels, source, tables);
        check(other, size, size % 2 ? CUS_32FC1 : CUS_8UC1, channels, source, tables);
    }
}

TEST_P(IntegralChannels, SourcesAndTablesAtEveryByte) {
    for (size_t offset = 0; offset < 8; ++offset)
        for (size_t padding = 0; padding < 4; ++padding)
            for (int channels = 2; channels <= 4; ++channels)
                check(67, 131, CUS_8UC1, channels, {padding, offset}, {padding, offset});
}

// Chains of many tiles in several groups; on a device also in several slabs.
TEST_P(IntegralChannels, NarrowAndFlatImages) {
    std::vector<std::pair<int, int>> shapes = {{1, 20011}, {3, 9001}, {70, 4097}, {9001, 3}};
    if (space() == CUS_DEVICE)
        shapes.insert(shapes.end(), {{1, 300001}, {129, 40000}, {40000, 129}, {700001, 1}, {3001, 4007}});
    for (const auto &[rows, cols] : shapes)
        for (const int type : {CUS_8UC1, CUS_32FC1})
            check(rows, cols, type, 2 + (rows + cols) % 3, {1, 1}, {1, 1});
}

TEST(IntegralChannelsHost, StripesOfFourThreads) {
    auto random = support::generator();
    const int threads = omp_get_max_threads ? omp_get_max_threads() : 1;
    if (omp_set_num_threads)
        omp_set_num_threads(4);
    for (const auto &[rows, cols] : {std::pair<int, int>{301, 1023}, {90001, 1}, {45001, 3}, {3, 65541}}) {
        const size_t values = static_cast<size_t>(rows) * static_cast<size_t>(cols) * 3;
        const auto floats = randomFloats(values, random);
        const auto bytes = support::randomBytes(values, random);
        TestMat in(rows, cols, CUS_32FC3, CUS_HOST, {}, floats.data()),
            small(rows, cols, CUS_8UC3, CUS_HOST, {}, bytes.data());
        support::Mat sum, sqsum, narrow;
        CUS_ASSERT_OK(cusIntegral(&in.mat, &sum, &sqsum, nullptr, nullptr));
        CUS_ASSERT_OK(cusIntegral(&small.mat, &narrow, nullptr, nullptr, nullptr));
        EXPECT_TRUE(support::elements<double>(sum) == reference::integral<double>(floats, rows, cols, false, 3));
        EXPECT_TRUE(support::elements<double>(sqsum) == reference::integral<double>(floats, rows, cols, true, 3));
        EXPECT_TRUE(support::elements<uint32_t>(narrow) == reference::integral<uint32_t>(bytes, rows, cols, false, 3));
    }
    if (omp_set_num_threads)
        omp_set_num_threads(threads);
}

// Floats of any value: on the host the reference's bits; on a device those of the channel alone, in every layout and run, and
// within the bound.
TEST_P(IntegralChannels, FloatsHaveTheBitsOfTheirChannel) {
    for (const auto &[rows, cols] : {std::pair<int, int>{37, 53}, {300, 700}, {5000, 3}, {3, 5000}, {1080, 641}})
        for (int channels = 2; channels <= 4; ++channels) {
            SCOPED_TRACE(testing::Message() << rows << " x " << cols << " of " << channels);
            const size_t h = static_cast<size_t>(rows), w = static_cast<size_t>(cols), n = static_cast<size_t>(channels);
            const auto floats = randomFloats(h * w * n, random_);
            const int type = withChannels(CUS_32FC1, channels), wide = withChannels(CUS_64FC1, channels);
            TestMat in(rows, cols, type, space(), {4, 4}, floats.data());
            TestMat sum(rows + 1, cols + 1, wide, space()), sqsum(rows + 1, cols + 1, wide, space(), {8, 8}),
                alone(rows + 1, cols + 1, wide, space());
            CUS_ASSERT_OK(cusIntegral(&in.mat, &sum.mat, &sqsum.mat, nullptr, nullptr));
            CUS_ASSERT_OK(cusIntegral(&in.mat, &alone.mat, nullptr, nullptr, nullptr));
            EXPECT_TRUE(alone.get() == sum.get());
            for (size_t c = 0; c < n; ++c) {
                const auto own = channelOf(floats, n, c);
                TestMat source(rows, cols, CUS_32FC1, space(), {}, own.data());
                support::Mat own_sum, own_squares;
                CUS_ASSERT_OK(cusIntegral(&source.mat, &own_sum, &own_squares, nullptr, nullptr));
                EXPECT_TRUE(channelOf(sum.get<double>(), n, c) == support::elements<double>(own_sum));
                EXPECT_TRUE(channelOf(sqsum.get<double>(), n, c) == support::elements<double>(own_squares));
                expectWithinBound(channelOf(sum.get<double>(), n, c), own, rows, cols, false);
                expectWithinBound(channelOf(sqsum.get<double>(), n, c), own, rows, cols, true);
            }
            if (space() == CUS_HOST) {
                EXPECT_TRUE(sum.get<double>() == reference::integral<double>(floats, h, w, false, n));
                EXPECT_TRUE(sqsum.get<double>() == reference::integral<double>(floats, h, w, true, n));
            }
        }
}

TEST_P(IntegralChannels, NanOfOneChannelLeavesTheOthers) {
    const int rows = 70, cols = 300, y0 = 33, x0 = 140;
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
        for (size_t channels = 2; channels <= 4; ++channels)
            for (size_t channel = 0; channel < channels; ++channel) {
                std::vector<float> src(static_cast<size_t>(rows * cols) * channels, 1.5f);
                src[static_cast<size_t>(y0 * cols + x0) * channels + channel] = bad;
                const int n = static_cast<int>(channels);
                TestMat in(rows, cols, withChannels(CUS_32FC1, n), space(), {}, src.data());
                support::Mat sum, sqsum;
                CUS_ASSERT_OK(cusIntegral(&in.mat, &sum, &sqsum, nullptr, nullptr));
                const auto s = support::elements<double>(sum), q = support::elements<double>(sqsum);
                size_t i = 0;
                for (int y = 0; y <= rows; ++y)
                    for (int x = 0; x <= cols; ++x)
                        for (size_t c = 0; c < channels; ++c, ++i)
                            if (c == channel && y > y0 && x > x0) {
                                ASSERT_FALSE(std::isfinite(s[i]) || std::isfinite(q[i])) << y << ", " << x;
                            } else {
                                ASSERT_EQ(s[i], 1.5 * x * y);
                                ASSERT_EQ(q[i], 2.25 * x * y);
                            }
            }
}

// White sums to more than 2^31 in each channel; rectangles stay exact.
TEST_P(IntegralChannels, WhitePastTwoToTheThirtyOne) {
    const int n = 3000, channels = 3;
    const std::vector<uint8_t> white(static_cast<size_t>(n) * n * channels, 255);
    TestMat in(n, n, CUS_8UC3, space(), {}, white.data());
    support::Mat sum, wide, sums;
    const cusIntegralOptions options = depthOf(CUS_64F);
    CUS_ASSERT_OK(cusIntegral(&in.mat, &sum, nullptr, nullptr, nullptr));
    CUS_ASSERT_OK(cusIntegral(&in.mat, &wide, nullptr, &options, nullptr));
    const auto s = support::elements<int32_t>(sum);
    const auto w = support::elements<double>(wide);
    for (const auto &[y, x] : {std::pair<int, int>{n, n}, {n, 2811}, {1, n}, {2999, 2998}})
        for (int c = 0; c < channels; ++c) {
            const size_t i =
                (static_cast<size_t>(y) * (n + 1) + static_cast<size_t>(x)) * channels + static_cast<size_t>(c);
            EXPECT_EQ(static_cast<uint32_t>(s[i]), static_cast<uint32_t>(255ull * y * x));
            EXPECT_EQ(w[i], 255.0 * y * x);
        }
    EXPECT_LT(s.back(), 0);
    const int32_t box[4] = {1, 2, n - 1, n - 2};
    TestMat boxes(1, 4, CUS_32SC1, space(), {}, box);
    CUS_ASSERT_OK(cusBoxSums(&sum, &boxes.mat, &sums, nullptr));
    EXPECT_EQ(support::elements<double>(sums), std::vector<double>(3, 255.0 * (n - 1) * (n - 2)));
}

// One object for sources of any number of channels whose values fit in its columns.
TEST_P(IntegralChannels, IntegratorCountsChannelsAsColumns) {
    for (const auto &[max_rows, max_cols] : {std::pair<int, int>{300, 700}, {2000, 1}, {2000, 4}, {1, 4099}, {500, 129}}) {
        support::Owned<cusIntegratorDestroy> integrator;
        CUS_ASSERT_OK(cusIntegratorCreate(&integrator, max_rows, max_cols, space()));
        for (int i = 0; i < 16; ++i) {
            const int channels = 1 + i % 4, type = withChannels(i / 4 % 2 ? CUS_32FC1 : CUS_8UC1, channels);
            const int most = max_cols / channels, rows = i < 8 ? max_rows : 1 + static_cast<int>(random_() % max_rows),
                      cols = most > 0 && i >= 8 ? 1 + static_cast<int>(random_() % most) : most;
            SCOPED_TRACE(testing::Message()
                         << rows << " x " << cols << ", type " << type << " of " << max_rows << " x " << max_cols);
            support::Mat sum, sqsum, expected_sum, expected_sqsum;
            TestMat over(rows, most + 1, type, space());
            CUS_REJECTS(cusIntegratorRun(integrator, &over.mat, &sum, nullptr, nullptr, nullptr), SIZE,
                        "the maximum of the integrator");
            if (cols == 0)
                continue;
            const auto bytes = support::randomBytes(static_cast<size_t>(rows) * cols * 4 * channels, random_);
            std::vector<float> floats(bytes.begin(), bytes.end());
            TestMat in(rows, cols, type, space(), {}, i / 4 % 2 ? static_cast<const void *>(floats.data()) : bytes.data());
            CUS_ASSERT_OK(cusIntegratorRun(integrator, &in.mat, &sum, &sqsum, nullptr, nullptr));
            CUS_ASSERT_OK(cusIntegral(&in.mat, &expected_sum, &expected_sqsum, nullptr, nullptr));
            ASSERT_TRUE(support::elements(sum) == support::elements(expected_sum));
            ASSERT_TRUE(support::elements(sqsum) == support::elements(expected_sqsum));
        }
    }
}

// Runs of different numbers of channels share a workspace: none may mistake the words of another for its own.
TEST_P(IntegralChannels, StaleWorkspaceIsIgnored) {
    const int rows = 200, cols = 300;
    support::Owned<cusIntegratorDestroy> integrator;
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, rows, 4 * cols, space()));
    for (int i = 0; i < 60; ++i) {
        const int channels = 1 + static_cast<int>(random_() % 4), h = 1 + static_cast<int>(random_() % rows),
                  w = 1 + static_cast<int>(random_() % cols);
        const size_t n = static_cast<size_t>(channels), values = static_cast<size_t>(h) * static_cast<size_t>(w) * n;
        const auto bytes = support::randomBytes(values, random_);
        const std::vector<float> floats(bytes.begin(), bytes.end());
        const bool is_float = random_() & 1;
        TestMat in(h, w, withChannels(is_float ? CUS_32FC1 : CUS_8UC1, channels), space(), {},
                   is_float ? static_cast<const void *>(floats.data()) : bytes.data());
        support::Mat sum, sqsum;
        CUS_ASSERT_OK(cusIntegratorRun(integrator, &in.mat, &sum, &sqsum, nullptr, nullptr));
        SCOPED_TRACE(testing::Message() << "run " << i << ": " << h << " x " << w << ", type " << in.mat.type);
        ASSERT_TRUE(is_float ? support::elements<double>(sum) == reference::integral<double>(bytes, h, w, false, n)
                             : support::elements<uint32_t>(sum) == reference::integral<uint32_t>(bytes, h, w, false, n));
        ASSERT_TRUE(support::elements<double>(sqsum) == reference::integral<double>(bytes, h, w, true, n));
    }
}

TEST_P(IntegralChannels, BoxSums) {
    const int rows = 57, cols = 203, n = 5000;
    for (int channels = 2; channels <= 4; ++channels)
        for (const int depth : {CUS_32S, CUS_64F}) {
            const size_t count = static_cast<size_t>(channels);
            const auto bytes = support::randomBytes(static_cast<size_t>(rows * cols) * count, random_);
            TestMat in(rows, cols, withChannels(CUS_8UC1, channels), space(), {}, bytes.data());
            support::Mat table;
            const cusIntegralOptions options = depthOf(depth);
            CUS_ASSERT_OK(cusIntegral(&in.mat, &table, nullptr, &options, nullptr));
            std::vector<int32_t> boxes;
            std::vector<double> expected;
            for (int k = 0; k < n; ++k) {
                const int x = static_cast<int>(random_() % (cols + 1)), y = static_cast<int>(random_() % (rows + 1));
                const int w = static_cast<int>(random_() % (cols - x + 1)), h = static_cast<int>(random_() % 9);
                boxes.insert(boxes.end(), {x, y, w, h});
                for (size_t c = 0; c < count; ++c)
                    expected.push_back(y + h > rows ? -1
                                                    : reference::boxSum<double>(bytes, cols, x, y, w, h, false, count, c));
            }
            TestMat rectangles(n, 4, CUS_32SC1, space(), {12, 4}, boxes.data());
            TestMat sums(n, 1, withChannels(CUS_64FC1, channels), space(), {16, 8});
            CUS_ASSERT_OK(cusBoxSums(&table, &rectangles.mat, &sums.mat, nullptr));
            auto got = sums.get<double>();
            for (double &v : got)
                v = std::isnan(v) ? -1 : v;
            EXPECT_EQ(got, expected);
            EXPECT_TRUE(sums.intact());
        }
}

TEST_P(IntegralChannels, Rejections) {
    TestMat in(4, 5, CUS_8UC3, space()), one(5, 6, CUS_32SC1, space()), sum(5, 6, CUS_32SC3, space()),
        sqsum(5, 6, CUS_64FC3, space()), five(4, 5, CUS_MAKETYPE(CUS_8U, 5), space());
    CUS_REJECTS(cusIntegral(&five.mat, &sum.mat, nullptr, nullptr, nullptr), TYPE,
                "src has type 8UC5, expected 8UC1, 8UC2, 8UC3, 8UC4, 32FC1, 32FC2, 32FC3 or 32FC4");
    CUS_REJECTS(cusIntegral(&in.mat, &one.mat, nullptr, nullptr, nullptr), SIZE, "expected 5 x 6 32SC3");
    CUS_REJECTS(cusIntegral(&in.mat, nullptr, &sum.mat, nullptr, nullptr), SIZE, "expected 5 x 6 64FC3");
    cusIntegrator *integrator = nullptr;
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, 4, 14, space()));
    CUS_REJECTS(
        cusIntegratorRun(integrator, &in.mat, &sum.mat, nullptr, nullptr, nullptr), SIZE,
        "cusIntegratorRun: src is 4 x 5 (rows x cols) of 3 channels, expected up to 4 rows and 14 columns times channels");
    cusIntegratorDestroy(integrator);
    CUS_ASSERT_OK(cusIntegral(&in.mat, &sum.mat, &sqsum.mat, nullptr, nullptr));
    TestMat boxes(2, 4, CUS_32SC1, space()), sums(2, 1, CUS_64FC1, space());
    CUS_REJECTS(cusBoxSums(&sum.mat, &boxes.mat, &sums.mat, nullptr), SIZE, "expected 2 x 1 64FC3");
    CUS_REJECTS(cusBoxSums(&in.mat, &boxes.mat, &sums.mat, nullptr), TYPE, "table has type 8UC3");
    // Never dereferenced: too many values in a row.
    cusMat wide = in.mat;
    wide.rows = 1;
    wide.cols = INT32_MAX / 3 + 1;
    wide.step = static_cast<size_t>(wide.cols) * 3;
    cusMat table = CUS_MAT_INIT;
    CUS_REJECTS(cusIntegral(&wide, &table, nullptr, nullptr, nullptr), SIZE, "expected up to 2147483646 values in a row");
}

// ---- What the suites of others check -----------------------------------------------------------------------------------

// As OpenCV's suites do: sizes from one pixel to full HD, 1 to 4 channels, every depth of the sums, whole images and parts of
// larger ones. Beside cv::integral, where OpenCV is.
TEST_P(IntegralChannels, SuitesOfOpencv) {
    struct Size {
        int rows, cols;
    };
    std::vector<Size> sizes = {{1, 1}, {128, 128}, {113, 113}, {127, 61}, {480, 641}};
    for (int i = 0; i < 6; ++i)
        sizes.push_back({1 + static_cast<int>(random_() % 300), 1 + static_cast<int>(random_() % 300)});
    for (const Size &size : sizes)
        for (const int depth : {CUS_8U, CUS_32F})
            for (int channels = 1; channels <= 4; ++channels)
                for (const bool part : {false, true})
                    for (const int sum_depth : {CUS_32S, CUS_64F}) {
                        if (depth == CUS_32F && sum_depth == CUS_32S)
                            continue;
                        SCOPED_TRACE(testing::Message()
                                     << size.rows << " x " << size.cols << ", depth " << depth << ", channels " << channels
                                     << ", part " << part << ", sums " << sum_depth);
                        const size_t h = static_cast<size_t>(size.rows), w = static_cast<size_t>(size.cols),
                                     n = static_cast<size_t>(channels);
                        // A part lies between other pixels: 7 columns more, the first 3 left of it.
                        const int type = CUS_MAKETYPE(depth, channels);
                        const size_t pixel = cusTypeSize(type);
                        const Layout layout = part ? Layout{7 * pixel, 3 * pixel} : Layout{};
                        const auto bytes = support::randomBytes(h * w * n, random_);
                        std::vector<float> floats; // -127.5 .. 127.5
                        for (const uint8_t b : bytes)
                            floats.push_back(b - 127.5f);
                        const bool is_float = depth == CUS_32F;
                        const void *data = is_float ? static_cast<const void *>(floats.data()) : bytes.data();
                        TestMat in(size.rows, size.cols, type, space(), layout, data);
                        support::Mat sum, sqsum;
                        const cusIntegralOptions options = depthOf(sum_depth);
                        CUS_ASSERT_OK(cusIntegral(&in.mat, &sum, &sqsum, &options, nullptr));
                        const auto got = support::elements(sum);
                        const auto squares = support::elements<double>(sqsum);
                        ASSERT_EQ(sum.type, CUS_MAKETYPE(sum_depth, channels));
                        if (sum_depth == CUS_32S)
                            ASSERT_TRUE(support::elements<uint32_t>(sum) ==
                                        reference::integral<uint32_t>(bytes, h, w, false, n));
                        ASSERT_TRUE(squares == (is_float ? reference::integral<double>(floats, h, w, true, n)
                                                         : reference::integral<double>(bytes, h, w, true, n)));
#ifdef CUSIGHT_HAVE_OPENCV
                        const cv::Mat theirs(size.rows, size.cols, CV_MAKETYPE(depth, channels), const_cast<void *>(data));
                        cv::Mat want, want_squares;
                        cv::integral(theirs, want, want_squares, sum_depth, CV_64F);
                        ASSERT_TRUE(want.isContinuous() && want_squares.isContinuous());
                        ASSERT_EQ(want.total() * want.elemSize(), got.size());
                        EXPECT_EQ(std::memcmp(want.data, got.data(), got.size()), 0);
                        EXPECT_EQ(std::memcmp(want_squares.data, squares.data(), squares.size() * sizeof(double)), 0);
#endif
                    }
}

} // namespace
