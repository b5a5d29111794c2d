// Integral images of thin sources: few columns and many rows, or the reverse. The device has a kernel for them, from 4096 rows
// of up to 64 columns and 4096 columns of up to 32 rows on; the host a loop for few columns, which test_integral.cpp checks too.
#include "test_integral.hpp"

#include "reference/integral.hpp"

#include <cmath>
#include <limits>

namespace {

using support::Layout;
using support::TestMat;

struct Shape {
    int rows, cols;
};

class IntegralThin : public support::SpaceTest {
  protected:
    // Random bytes, as bytes or as floats, whose sums are then exact in any order; every set of tables. Layouts in elements.
    void check(Shape size, int type, Layout source, Layout tables) {
        const auto bytes = support::randomBytes(static_cast<size_t>(size.rows) * static_cast<size_t>(size.cols), random_);
        const std::vector<float> floats(type == CUS_32FC1 ? bytes.begin() : bytes.end(), bytes.end());
        const size_t pixel = cusTypeSize(type);
        TestMat in(size.rows, size.cols, type, space(), {source.padding * pixel, source.offset * pixel},
                   floats.empty() ? static_cast<const void *>(bytes.data()) : floats.data());
        SCOPED_TRACE(testing::Message() << "source at " << source.offset << " + " << source.padding);
        checkTables(in, bytes, tables);
    }
    void checkBoth(Shape size, Layout source = {}, Layout tables = {}) {
        check(size, CUS_8UC1, source, tables);
        if (!HasFatalFailure())
            check(size, CUS_32FC1, source, tables);
    }

    std::mt19937_64 random_ = support::generator();
};
CUS_BOTH_SPACES(IntegralThin);

// Each way to deal out the lanes, and the sizes on both sides of those that select the kernel.
TEST_P(IntegralThin, SizesAroundEveryLimit) {
    for (const int cols : {1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65})
        for (const int rows : {4095, 4096, 4097}) {
            checkBoth({rows, cols});
            if (HasFatalFailure())
                return;
        }
    for (const int rows : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65})
        for (const int cols : {4095, 4096, 4097}) {
            checkBoth({rows, cols});
            if (HasFatalFailure())
                return;
        }
}

TEST_P(IntegralThin, EveryLayout) {
    for (const Shape &size :
         {Shape{4099, 1}, {4099, 3}, {4099, 18}, {4099, 45}, {4099, 64}, {1, 4099}, {6, 4099}, {23, 4099}, {50, 4099}})
        for (size_t offset = 0; offset < 4; ++offset)
            for (size_t padding = 0; padding < 4; ++padding) {
                checkBoth(size, {padding, offset}, {offset, padding});
                if (HasFatalFailure())
                    return;
            }
}

// Whole groups of 32 tiles, groups of groups, and slabs: one entry less than fills them, exactly as many, and one more. A tile
// of bytes is 4096 entries, divided by the lanes and registers that go across (1, 2, 4 and so on); one of floats half of that.
TEST_P(IntegralThin, LengthsAroundGroupsOfTiles) {
    if (space() == CUS_HOST)
        return; // nothing special there
    for (const int length : {1024 * 32, 1024 * 64})
        for (const int more : {-2, -1, 0})
            checkBoth({length + more, 40});
    for (const int more : {-2, -1, 0}) {
        checkBoth({32 * 2048 + more, 1});
        checkBoth({3 * 32 * 1024 + more, 1});
        checkBoth({2 * 32 * 128 + more, 20});
        checkBoth({20, 1024 * 128 + more});
        checkBoth({1, 32 * 4096 + more});
        if (HasFatalFailure())
            return;
    }
}

TEST_P(IntegralThin, LargeWithManyGroups) {
    if (space() == CUS_HOST)
        return;
    checkBoth({4300001, 1}, {0, 1}, {1, 1});
    checkBoth({1, 4300001}, {0, 1}, {1, 1});
    checkBoth({300001, 29}, {1, 0}, {0, 1});
    checkBoth({29, 300001}, {1, 0}, {0, 1});
    checkBoth({50, 100001}, {1, 0}, {0, 1});
}

// 8192 tiles make a slab: of floats 262144 rows, of bytes twice as many.
TEST_P(IntegralThin, LargeInSlabs) {
    if (space() == CUS_HOST)
        return;
    for (const int rows : {262143, 262144, 530000})
        checkBoth({rows, 33});
}

std::vector<float> randomFloats(size_t n, std::mt19937_64 &random) {
    std::vector<float> v(n);
    for (auto &f : v)
        f = std::ldexp(static_cast<float>(static_cast<int64_t>(random() >> 40) - (1 << 23)),
                       static_cast<int>(random() % 24) - 24);
    return v;
}

// Within the bound of the header; the same in every run, in every layout and whichever tables are requested.
TEST_P(IntegralThin, FloatsOfManyMagnitudes) {
    for (const Shape &size :
         {Shape{100003, 1}, {50001, 18}, {300001, 33}, {20001, 64}, {1, 100003}, {18, 50001}, {32, 20001}}) {
        SCOPED_TRACE(testing::Message() << size.rows << " x " << size.cols);
        const size_t rows = static_cast<size_t>(size.rows), cols = static_cast<size_t>(size.cols);
        const auto floats = randomFloats(rows * cols, random_);
        std::vector<float> magnitudes(floats);
        for (auto &m : magnitudes)
            m = std::fabs(m);
        TestMat in(size.rows, size.cols, CUS_32FC1, space(), {}, floats.data()),
            shifted(size.rows, size.cols, CUS_32FC1, space(), {4, 4}, floats.data()),
            sum(size.rows + 1, size.cols + 1, CUS_64FC1, space()), sqsum(size.rows + 1, size.cols + 1, CUS_64FC1, space()),
            again(size.rows + 1, size.cols + 1, CUS_64FC1, space(), {8, 8});
        CUS_ASSERT_OK(cusIntegral(&in.mat, &sum.mat, &sqsum.mat, nullptr, nullptr));
        for (const bool squares : {false, true}) {
            const auto got = (squares ? sqsum : sum).get<double>();
            const auto expected = reference::integral<double>(floats, rows, cols, squares),
                       bound = reference::integral<double>(magnitudes, rows, cols, squares);
            for (size_t i = 0; i < got.size(); ++i)
                ASSERT_LE(std::fabs(got[i] - expected[i]), 2.0 * (size.rows + size.cols + 64) * EPSILON * bound[i])
                    << "entry " << i;
            for (int run = 0; run < 5; ++run) {
                CUS_ASSERT_OK(cusIntegral(&shifted.mat, squares ? nullptr : &again.mat, squares ? &again.mat : nullptr,
                                          nullptr, nullptr));
                ASSERT_TRUE(again.get<double>() == got);
            }
        }
    }
}

TEST_P(IntegralThin, NanAndInfinityPropagateDownAndRight) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
        for (const Shape &size : {Shape{40001, 1}, {9000, 5}, {9000, 40}, {9000, 64}, {3, 9000}, {17, 9000}, {40, 9000}}) {
            const bool tall = size.rows > size.cols;
            const int y0 = tall ? 4444 : size.rows / 2, x0 = tall ? size.cols / 2 : 4444;
            const size_t pixels = static_cast<size_t>(size.rows) * static_cast<size_t>(size.cols);
            std::vector<float> src(pixels, 1.5f);
            src[static_cast<size_t>(y0) * static_cast<size_t>(size.cols) + static_cast<size_t>(x0)] = bad;
            TestMat in(size.rows, size.cols, CUS_32FC1, space(), {}, src.data());
            checkSpread(in.mat, y0, x0);
        }
}

// One object for thin and other images, bytes and floats: no run mistakes words of an earlier one for its own.
TEST_P(IntegralThin, OtherImagesInTurnInOneObject) {
    cusIntegrator *integrator = nullptr;
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, 66000, 5000, space()));
    cusMat sums[2] = {CUS_MAT_INIT, CUS_MAT_INIT}, squares[2] = {CUS_MAT_INIT, CUS_MAT_INIT};
    const Shape shapes[] = {{66000, 1},  {300, 500},  {5000, 64}, {32, 5000},
                            {66000, 40}, {66000, 65}, {3, 5000},  {5000, 65}};
    for (int i = 0; i < 24; ++i) {
        const Shape size = shapes[i % 8];
        const Case &c = CASES[random_() % 8];
        SCOPED_TRACE(testing::Message() << size.rows << " x " << size.cols << ", type " << c.type);
        const size_t pixels = static_cast<size_t>(size.rows) * static_cast<size_t>(size.cols);
        const auto bytes = support::randomBytes(pixels, random_);
        const std::vector<float> floats(bytes.begin(), bytes.end());
        TestMat in(size.rows, size.cols, c.type, space(), {},
                   c.type == CUS_8UC1 ? static_cast<const void *>(bytes.data()) : floats.data());
        const cusIntegralOptions options = {c.sum_depth};
        CUS_ASSERT_OK(cusIntegratorRun(integrator, &in.mat, &sums[0], c.sqsum ? &squares[0] : nullptr, &options, nullptr));
        CUS_ASSERT_OK(cusIntegral(&in.mat, &sums[1], c.sqsum ? &squares[1] : nullptr, &options, nullptr));
        ASSERT_TRUE(support::elements(sums[0]) == support::elements(sums[1]));
        ASSERT_TRUE(!c.sqsum || support::elements(squares[0]) == support::elements(squares[1]));
    }
    for (int k = 0; k < 2; ++k) {
        cusMatRelease(&sums[k]);
        cusMatRelease(&squares[k]);
    }
    cusIntegratorDestroy(integrator);
}

} // namespace
