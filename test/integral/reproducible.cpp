// Reproducible tables of floats: the reference's bits on both backends, on any number of threads, with every instruction set.
#include "integral/support.hpp"

#include "integral/backend.h"

#include <limits>
#include <thread>

// Weak: a library without OpenMP lacks them.
extern "C" __attribute__((weak)) void omp_set_num_threads(int);
extern "C" __attribute__((weak)) int omp_get_max_threads();

namespace {

using support::Layout;
using support::TestMat;

cusIntegralOptions reproducible(double range = 0) {
    cusIntegralOptions options = cusIntegralDefaults();
    options.reproducible = 1;
    options.range = range;
    return options;
}

std::vector<uint64_t> bitsOf(const std::vector<double> &values) {
    std::vector<uint64_t> bits(values.size());
    std::memcpy(bits.data(), values.data(), values.size() * sizeof(double));
    return bits;
}

// Fractions of both signs, whose sums in double depend on the order.
std::vector<float> fractions(size_t n, std::mt19937_64 &random) {
    std::vector<float> v(n);
    for (float &f : v)
        f = static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 9973.0f;
    return v;
}

class IntegralReproducible : public support::SpaceTest {
  protected:
    // Every set of tables of one source, without and with a range. Layouts count values.
    void check(int rows, int cols, int channels, const std::vector<float> &src, float range, Layout source = {},
               Layout tables = {}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << cols << " of " << channels << " channels, range " << range
                                        << ", source at " << source.offset << " + " << source.padding);
        const size_t h = static_cast<size_t>(rows), w = static_cast<size_t>(cols), n = static_cast<size_t>(channels);
        const int type = CUS_MAKETYPE(CUS_32F, channels), wide = CUS_MAKETYPE(CUS_64F, channels);
        TestMat in(rows, cols, type, space(), {4 * source.padding, 4 * source.offset}, src.data());
        const auto sums = bitsOf(reference::reproducible(src, h, w, false, range, n)),
                   squares = bitsOf(reference::reproducible(src, h, w, true, range, n));
        const cusIntegralOptions options = reproducible(static_cast<double>(range));
        for (const auto &[wants_sum, wants_squares] :
             {std::pair(true, false), std::pair(false, true), std::pair(true, true)}) {
            TestMat sum(rows + 1, cols + 1, wide, space(), {8 * tables.padding, 8 * tables.offset}),
                sqsum(rows + 1, cols + 1, wide, space(), {8 * tables.padding, 8 * tables.offset});
            CUS_ASSERT_OK(cusIntegral(&in.mat, wants_sum ? &sum.mat : nullptr, wants_squares ? &sqsum.mat : nullptr,
                                      &options, nullptr));
            ASSERT_TRUE(!wants_sum || sum.get<uint64_t>() == sums) << wants_squares;
            ASSERT_TRUE(!wants_squares || sqsum.get<uint64_t>() == squares) << wants_sum;
            ASSERT_TRUE(in.intact() && sum.intact() && sqsum.intact());
        }
    }

    std::mt19937_64 random_ = support::generator();
};
CUS_BOTH_SPACES(IntegralReproducible);

// Of 2 x 2 values up to 1, e is 0 and k is 51: halves of the unit 2^-51 go to the even multiple.
TEST_P(IntegralReproducible, WorkedExample) {
    const float src[4] = {1, 0x1p-52f, 0x1.8p-51f, -0x1.8p-51f};
    TestMat in(2, 2, CUS_32FC1, space(), {}, src);
    support::Mat sum, sqsum;
    const cusIntegralOptions options = reproducible(), wider = reproducible(2);
    CUS_ASSERT_OK(cusIntegral(&in.mat, &sum, &sqsum, &options, nullptr));
    EXPECT_EQ(support::elements<double>(sum), (std::vector<double>{0, 0, 0, 0, 1, 1, 0, 1 + 0x1p-50, 1}));
    EXPECT_EQ(support::elements<double>(sqsum), (std::vector<double>{0, 0, 0, 0, 1, 1, 0, 1, 1}));
    CUS_ASSERT_OK(cusIntegral(&in.mat, &sum, nullptr, &wider, nullptr)); // the unit is 2^-50
    EXPECT_EQ(support::elements<double>(sum), (std::vector<double>{0, 0, 0, 0, 1, 1, 0, 1 + 0x1p-50, 1}));
}

TEST_P(IntegralReproducible, SizesChannelsAndLayouts) {
    auto sizes = support::sizes();
    for (const auto &size :
         {std::pair<int, int>{32, 128}, {33, 127}, {31, 129}, {64, 256}, {97, 383}, {3, 5000}, {5000, 3}})
        sizes.push_back(size);
    for (const auto &[rows, cols] : sizes)
        for (int channels = 1; channels <= 4; channels += support::fewer())
            for (const Layout &layout : {Layout{}, Layout{3, 1}})
                check(rows, cols, channels, fractions(static_cast<size_t>(rows * cols * channels), random_),
                      channels % 2 ? 0 : 1.5f, layout, layout);
}

TEST_P(IntegralReproducible, EveryMagnitude) {
    for (int exponent = -149; exponent < 128; ++exponent) {
        std::vector<float> src = randomFloats(45 * 67, random_);
        for (float &v : src)
            v = std::ldexp(v / 8388608, exponent);
        check(45, 67, 1, src, 0);
        check(45, 67, 1, src, std::ldexp(1.0f, std::min(exponent + 1, 127)) * (exponent == 127 ? 1.99f : 1.0f));
    }
    check(7, 9, 1, std::vector<float>(63, 0.0f), 0);
    check(7, 9, 1, std::vector<float>(63, -0.0f), 1);
    check(7, 9, 1, std::vector<float>(63, std::numeric_limits<float>::max()), std::numeric_limits<float>::max());
    check(7, 9, 1, std::vector<float>(63, std::numeric_limits<float>::denorm_min()), 0);
}

// Sums of values that are all the largest, of one sign: nearly 2^63 units.
TEST_P(IntegralReproducible, LargestSums) {
    for (const float v : {1.0f, -1.0f, 0x1.fffffep-1f})
        for (const auto &[rows, cols] : {std::pair(256, 256), std::pair(255, 257), std::pair(1, 65535), std::pair(700, 3)})
            check(rows, cols, 1, std::vector<float>(static_cast<size_t>(rows * cols), v), 0);
}

// What is not finite or beyond the range makes entries below and to the right NaN, of its channel alone.
TEST_P(IntegralReproducible, OutsideGivesNan) {
    const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const auto &[rows, cols] : {std::pair(70, 300), std::pair(9001, 3), std::pair(3, 9000), std::pair(1, 1)})
        for (int channels = 1; channels <= 4; channels += support::fewer())
            for (const float bad : {nan, -nan, infinity, -infinity, 1.0000001f, -3e38f}) {
                auto src = fractions(static_cast<size_t>(rows * cols * channels), random_);
                for (float &v : src)
                    v = std::fmod(v, 1.0f);
                for (int i = 0; i < 3; ++i)
                    src[random_() % src.size()] = bad;
                check(rows, cols, channels, src, 1);
                check(rows, cols, channels, src, 0);
            }
    check(5, 6, 1, std::vector<float>(30, nan), 0);
    check(5, 6, 1, std::vector<float>(30, infinity), 2);
}

// Chains of many tiles.
TEST_P(IntegralReproducible, NarrowAndFlatImages) {
    for (const auto &[rows, cols] :
         {std::pair(1, 20011), std::pair(100, 4097), std::pair(4097, 100), std::pair(20001, 1)}) {
        const size_t pixels = static_cast<size_t>(rows) * static_cast<size_t>(cols);
        auto src = fractions(pixels, random_);
        check(rows, cols, 1, src, 0, {1, 1}, {1, 1});
        src[pixels / 3 * 2] = std::numeric_limits<float>::quiet_NaN();
        check(rows, cols, 1, src, 2);
        check(rows, cols, 3, fractions(3 * pixels, random_), 2);
    }
}

// Several slabs, whose sums continue exactly where entries are rounded. The host has the reference's bits (above).
TEST(IntegralReproducibleCuda, LargeEqualsHost) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    for (const auto &[rows, cols, channels] :
         {std::tuple(700001, 1, 1), std::tuple(300001, 33, 1), std::tuple(300001, 11, 3), std::tuple(5001, 5632, 1),
          std::tuple(5001, 5203, 1)}) {
        auto src = fractions(static_cast<size_t>(rows) * static_cast<size_t>(cols * channels), random);
        for (const bool has_nan : {false, true}) {
            SCOPED_TRACE(testing::Message() << rows << " x " << cols << " of " << channels << ", NaN " << has_nan);
            if (has_nan)
                src[src.size() / 3 * 2] = std::numeric_limits<float>::quiet_NaN();
            support::Mat host, device, sums[2], squares[2];
            CUS_ASSERT_OK(cusMatWrap(&host, rows, cols, CUS_MAKETYPE(CUS_32F, channels), CUS_HOST, src.data(), 0));
            CUS_ASSERT_OK(cusMatUpload(&host, &device, nullptr));
            const cusIntegralOptions options = reproducible(has_nan ? 2 : 0);
            CUS_ASSERT_OK(cusIntegral(&host, &sums[0], &squares[0], &options, nullptr));
            CUS_ASSERT_OK(cusIntegral(&device, &sums[1], &squares[1], &options, nullptr));
            EXPECT_TRUE(support::elements(sums[1]) == support::elements(sums[0]));
            EXPECT_TRUE(support::elements(squares[1]) == support::elements(squares[0]));
            CUS_ASSERT_OK(cusIntegral(&device, &sums[1], nullptr, &options, nullptr)); // other slabs
            EXPECT_TRUE(support::elements(sums[1]) == support::elements(sums[0]));
        }
    }
}

// A region has the bits of the same pixels in an image of its own; box sums are those of the table, which is the same.
TEST_P(IntegralReproducible, BoxSumsAreTheSame) {
    const int rows = 57, cols = 203;
    const auto src = fractions(rows * cols, random_);
    TestMat in(rows, cols, CUS_32FC1, space(), {12, 4}, src.data()), boxes(500, 4, CUS_32SC1, CUS_HOST);
    std::vector<int32_t> list;
    for (int k = 0; k < 500; ++k) {
        const int x = static_cast<int>(random_() % (cols + 1)), y = static_cast<int>(random_() % (rows + 1));
        for (const int v :
             {x, y, static_cast<int>(random_() % (cols - x + 1)), static_cast<int>(random_() % (rows - y + 1))})
            list.push_back(v);
    }
    TestMat rectangles(500, 4, CUS_32SC1, space(), {}, list.data());
    support::Mat table, sums;
    const cusIntegralOptions options = reproducible(1.5);
    CUS_ASSERT_OK(cusIntegral(&in.mat, &table, nullptr, &options, nullptr));
    CUS_ASSERT_OK(cusBoxSums(&table, &rectangles.mat, &sums, nullptr));
    const auto expected = reference::reproducible(src, rows, cols, false, 1.5f);
    const auto got = support::elements<double>(sums);
    for (size_t k = 0; k < 500; ++k)
        ASSERT_EQ(got[k], cusBoxSum64F(expected.data(), (cols + 1) * sizeof(double), list[4 * k], list[4 * k + 1],
                                       list[4 * k + 2], list[4 * k + 3]));
}

// One object: plain and reproducible runs leave each other nothing, whatever their sizes.
TEST_P(IntegralReproducible, RunsOfOneObjectAreIndependent) {
    support::Owned<cusIntegratorDestroy> integrator;
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, 700, 1300, space()));
    for (int i = 0; i < 40; ++i) {
        const int rows = 1 + static_cast<int>(random_() % 700), channels = 1 + i % 4,
                  cols = 1 + static_cast<int>(random_() % (1300 / channels));
        SCOPED_TRACE(testing::Message() << rows << " x " << cols << " of " << channels);
        const size_t values = static_cast<size_t>(rows * cols * channels);
        auto src = fractions(values, random_);
        for (float &v : src)
            v *= i % 3 ? 1.0f : 100.0f;
        if (i % 5 == 0)
            src[values / 2] = std::numeric_limits<float>::infinity();
        TestMat in(rows, cols, CUS_MAKETYPE(CUS_32F, channels), space(), {}, src.data());
        support::Mat sum, sqsum, plain, plain_alone;
        const cusIntegralOptions options = reproducible(i % 2 ? 0.0 : 128.0);
        CUS_ASSERT_OK(cusIntegratorRun(integrator, &in.mat, &sum, &sqsum, &options, nullptr));
        CUS_ASSERT_OK(cusIntegratorRun(integrator, &in.mat, &plain, nullptr, nullptr, nullptr));
        CUS_ASSERT_OK(cusIntegral(&in.mat, &plain_alone, nullptr, nullptr, nullptr));
        const size_t h = static_cast<size_t>(rows), w = static_cast<size_t>(cols), n = static_cast<size_t>(channels);
        const float range = i % 2 ? 0.0f : 128.0f;
        ASSERT_TRUE(support::elements<uint64_t>(sum) == bitsOf(reference::reproducible(src, h, w, false, range, n)));
        ASSERT_TRUE(support::elements<uint64_t>(sqsum) == bitsOf(reference::reproducible(src, h, w, true, range, n)));
        ASSERT_TRUE(support::elements(plain) == support::elements(plain_alone));
    }
}

// 8-bit sources are exact anyway: the option changes nothing.
TEST_P(IntegralReproducible, BytesAreAsEver) {
    const auto bytes = support::randomBytes(40 * 50, random_);
    TestMat in(40, 50, CUS_8UC1, space(), {}, bytes.data());
    support::Mat sum;
    const cusIntegralOptions options = reproducible(3);
    CUS_ASSERT_OK(cusIntegral(&in.mat, &sum, nullptr, &options, nullptr));
    EXPECT_TRUE(support::elements<uint32_t>(sum) == reference::integral<uint32_t>(bytes, 40, 50));
}

TEST_P(IntegralReproducible, Rejections) {
    TestMat in(4, 5, CUS_32FC1, space()), sum(5, 6, CUS_64FC1, space());
    const auto before = sum.get();
    const auto call = [&](cusIntegralOptions options) {
        return cusIntegral(&in.mat, &sum.mat, nullptr, &options, nullptr);
    };
    for (const double range :
         {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e39, 1e-60})
        CUS_REJECTS(call(reproducible(range)), VALUE, "cusIntegral: range is ");
    CUS_REJECTS(call(reproducible(1e39)), VALUE, "range is 1e+39, expected 0 or a float above 0");
    cusIntegralOptions options = reproducible(1);
    options.reproducible = 0;
    CUS_REJECTS(call(options), VALUE, "range is 1, expected 0 without reproducible");
    options.reproducible = 2;
    CUS_REJECTS(call(options), VALUE, "reproducible is 2, expected 0 or 1");
    EXPECT_EQ(sum.get(), before);
}

// ---- The error that the header states --------------------------------------------------------------------------------

TEST(IntegralReproducibleError, ExponentsOfTheHeader) {
    const auto bits = [](size_t rows, size_t cols) { return reference::Grid({}, rows, cols, 1, 1, 0).k; };
    EXPECT_EQ(bits(4320, 7680), 38);
    EXPECT_EQ(bits(480, 640), 44);
    EXPECT_EQ(bits(1, 1), 51);
    for (const auto &[rows, cols] :
         {std::pair(1, 1), std::pair(4320, 7680), std::pair(32, 128), std::pair(1 << 30, 2147483646)})
        EXPECT_EQ(integral_gridBits(rows, cols), bits(static_cast<size_t>(rows), static_cast<size_t>(cols)));
    // A reproducible entry is within n 2^(e - k - 1), one of doubles within 2 (rows + cols + 64) 2^-53 of the magnitudes' sum.
    const auto ratio = [&](size_t rows, size_t cols) { // where all magnitudes are 2^e
        return 2 * static_cast<double>(rows + cols + 64) * EPSILON * std::ldexp(1.0, bits(rows, cols) + 1);
    };
    EXPECT_NEAR(ratio(4320, 7680), 1.47, 0.01);
    EXPECT_NEAR(ratio(480, 640), 9.25, 0.01);
}

// Against real arithmetic (128-bit integers in units of 2^-100).
TEST(IntegralReproducibleError, IsWithinTheBound) {
    __extension__ using Wide = __int128;
    auto random = support::generator();
    const int rows = 211, cols = 307;
    std::vector<float> src(static_cast<size_t>(rows * cols));
    for (float &v : src) // many magnitudes, up to 1
        v = std::ldexp(static_cast<float>(static_cast<int>(random() % (1 << 25)) - (1 << 24)),
                       -24 - static_cast<int>(random() % 40));
    const int k = integral_gridBits(rows, cols);
    for (const bool squares : {false, true}) {
        src[0] = std::ldexp(1.0f, squares ? -(k + 1) / 2 : -k - 1); // half a unit: the first entry has the largest error
        TestMat in(rows, cols, CUS_32FC1, CUS_HOST, {}, src.data());
        support::Mat table, plain;
        const cusIntegralOptions options = reproducible(1);
        CUS_ASSERT_OK(cusIntegral(&in.mat, squares ? nullptr : &table, squares ? &table : nullptr, &options, nullptr));
        const auto got = support::elements<double>(table);
        std::vector<Wide> above(cols, 0);
        double worst = 0;
        for (int y = 0; y < rows; ++y) {
            Wide row = 0;
            for (int x = 0; x < cols; ++x) {
                const double v = static_cast<double>(src[static_cast<size_t>(y * cols + x)]);
                row += static_cast<Wide>(std::ldexp(squares ? v * v : v, 100)); // squares below 2^-100 are cut off
                above[static_cast<size_t>(x)] += row;
                const double entry = got[static_cast<size_t>((y + 1) * (cols + 1) + x + 1)], n = (y + 1.0) * (x + 1.0),
                             error = std::fabs(std::ldexp(static_cast<double>(above[static_cast<size_t>(x)] -
                                                                              static_cast<Wide>(std::ldexp(entry, 100))),
                                                          -100)),
                             bound = n * std::ldexp(1.0, -k - 1) + std::fabs(entry) * EPSILON;
                ASSERT_LE(error, bound + n * 0x1p-100);
                worst = std::max(worst, error / bound);
            }
        }
        EXPECT_GT(worst, 0.99);
    }
}

// ---- The host's implementations ----------------------------------------------------------------------------------------

TEST(IntegralReproducibleHost, EveryPathAndNumberOfThreads) {
    auto random = support::generator();
    const int threads = omp_get_max_threads ? omp_get_max_threads() : 1;
    for (const auto &[rows, cols] : {std::pair(1, 1), std::pair(3, 65541), std::pair(66667, 3), std::pair(301, 1023),
                                     std::pair(2, 251), std::pair(600, 252), std::pair(260, 1265)}) {
        const auto src = fractions(static_cast<size_t>(rows * cols), random);
        const auto sums = bitsOf(reference::reproducible(src, static_cast<size_t>(rows), static_cast<size_t>(cols))),
                   squares =
                       bitsOf(reference::reproducible(src, static_cast<size_t>(rows), static_cast<size_t>(cols), true));
        for (const int count : {1, 2, 3, 5})
            for (const IntegralHostPath path : {INTEGRAL_GENERIC, INTEGRAL_AVX512}) {
                if (!integral_host_supports(path))
                    continue;
                SCOPED_TRACE(testing::Message() << rows << " x " << cols << ", " << count << " threads, path " << path);
                if (omp_set_num_threads)
                    omp_set_num_threads(count);
                TestMat in(rows, cols, CUS_32FC1, CUS_HOST, {4, 4}, src.data()),
                    sum(rows + 1, cols + 1, CUS_64FC1, CUS_HOST, {8, 8}),
                    sqsum(rows + 1, cols + 1, CUS_64FC1, CUS_HOST, {16, 24});
                size_t size = 0;
                CUS_ASSERT_OK(integral_host_workspace("test", rows, cols, 1, &size));
                std::vector<double> workspace(size / sizeof(double) + 1);
                IntegralArgs args = {};
                args.count = 1;
                args.src = &in.mat, args.sum = &sum.mat, args.sqsum = &sqsum.mat;
                args.workspace = workspace.data(), args.workspace_bytes = size;
                args.path = path, args.reproducible = true;
                CUS_ASSERT_OK(integral_host_run("test", &args));
                ASSERT_TRUE(sum.get<uint64_t>() == sums);
                ASSERT_TRUE(sqsum.get<uint64_t>() == squares);
                ASSERT_TRUE(in.intact() && sum.intact() && sqsum.intact());
            }
    }
    if (omp_set_num_threads)
        omp_set_num_threads(threads);
}

// The thread that made the first call has ended when the main thread makes its first (src/threads.c says what failed then).
TEST(IntegralReproducibleHost, FirstCallerMayEnd) {
    const std::vector<float> src(64, 1.5f);
    TestMat in(8, 8, CUS_32FC1, CUS_HOST, {}, src.data()), sum(9, 9, CUS_64FC1, CUS_HOST);
    const cusIntegralOptions options = reproducible();
    const auto run = [&] { CUS_EXPECT_OK(cusIntegral(&in.mat, &sum.mat, nullptr, &options, nullptr)); };
    std::thread(run).join();
    run();
    EXPECT_EQ(sum.get<double>().back(), 96);
}

} // namespace
