// Integral images of awkward layouts and shapes: sources and tables at any byte with any step, narrow and flat images.
#include "integral/support.hpp"

#include "reference/integral.hpp"

#include <cmath>
#include <limits>

namespace {

using support::Layout;
using support::TestMat;

struct Shape {
    int rows, cols;
};

class IntegralAdversarial : public support::SpaceTest {
  protected:
    // One source of bytes in one layout, every set of tables. Entries are counted in tables' layouts, bytes in the source's.
    void check(int rows, int cols, Layout source, Layout tables) {
        const auto bytes = support::randomBytes(static_cast<size_t>(rows) * cols, random_);
        TestMat in(rows, cols, CUS_8UC1, space(), source, bytes.data());
        SCOPED_TRACE(testing::Message() << "source at " << source.offset << " + " << source.padding);
        checkTables(in, bytes, tables);
    }

    std::mt19937_64 random_ = support::generator();
};
CUS_BOTH_SPACES(IntegralAdversarial);

TEST_P(IntegralAdversarial, SourcesAtEveryByteWithEveryStep) {
    for (size_t offset = 0; offset < 16; ++offset)
        for (size_t padding = 0; padding < 16; ++padding) {
            check(67, 131, {padding, offset}, {0, 0});
            if (HasFatalFailure())
                return;
        }
}

TEST_P(IntegralAdversarial, TablesAtEveryEntryWithEveryStep) {
    for (size_t offset = 0; offset < 4; ++offset)
        for (size_t padding = 0; padding < 4; ++padding) {
            check(70, 390, {0, offset}, {padding, offset});
            if (HasFatalFailure())
                return;
        }
}

// Rows that all start at the same entry of a 128-byte line: 384 entries are whole lines.
TEST_P(IntegralAdversarial, TablesAtEveryEntryOfALine) {
    for (size_t offset = 0; offset < 32; ++offset) {
        check(70, 383, {0, 0}, {0, offset});
        if (HasFatalFailure())
            return;
    }
}

// Floats that are integers have exact sums in any order.
TEST_P(IntegralAdversarial, TablesOfFloatsAtEveryEntry) {
    const int rows = 45, cols = 390;
    const auto bytes = support::randomBytes(static_cast<size_t>(rows) * cols, random_);
    const std::vector<float> floats(bytes.begin(), bytes.end());
    const auto sums = reference::integral<double>(bytes, rows, cols),
               squares = reference::integral<double>(bytes, rows, cols, true);
    for (size_t offset = 0; offset < 16; ++offset)
        for (size_t padding = 0; padding < 3; ++padding) {
            SCOPED_TRACE(testing::Message() << "tables at " << offset << " + " << padding);
            const Layout layout = {8 * padding, 8 * offset};
            TestMat in(rows, cols, CUS_32FC1, space(), {4 * padding, 4 * offset}, floats.data()),
                sum(rows + 1, cols + 1, CUS_64FC1, space(), layout), sqsum(rows + 1, cols + 1, CUS_64FC1, space(), layout);
            CUS_ASSERT_OK(cusIntegral(&in.mat, &sum.mat, &sqsum.mat, nullptr, nullptr));
            ASSERT_TRUE(sum.get<double>() == sums && sqsum.get<double>() == squares);
            ASSERT_TRUE(in.intact() && sum.intact() && sqsum.intact());
        }
}

// Around warps of 128 columns and the words of four pixels that hold them; fewer columns than a word reaches past a row.
TEST_P(IntegralAdversarial, WidthsAroundWarpsAndWords) {
    for (const int cols : {1, 2, 3, 4, 5, 7, 8, 9, 124, 125, 127, 128, 129, 131, 132, 133, 255, 257, 511, 513})
        for (const int rows : {1, 2, 3, 4, 7, 33})
            for (size_t offset = 0; offset < 4; ++offset) {
                check(rows, cols, {offset ^ 1, offset}, {offset, 3 - offset});
                if (HasFatalFailure())
                    return;
            }
}

// Chains of many tiles, in several groups, and heights and widths at which other tiles are chosen.
TEST_P(IntegralAdversarial, NarrowAndFlatImages) {
    const bool is_device = space() == CUS_DEVICE;
    for (const int side : {1, 3, 64, 100, 129, 300})
        for (const int length : {4097, 20011, side <= 3 && is_device ? 700001 : 40000}) {
            if (static_cast<int64_t>(side) * length > 8000000 && side > 129)
                continue;
            for (const bool tall : {false, true})
                check(tall ? length : side, tall ? side : length, {0, 1}, {1, 1});
            if (HasFatalFailure())
                return;
        }
    if (is_device) { // several hundred tiles side by side and below each other, with groups that end and begin
        check(300, 40001, {3, 2}, {0, 0});
        check(40001, 300, {3, 2}, {0, 0});
    }
}

// Floats that are integers have exact sums in any order.
TEST_P(IntegralAdversarial, NarrowAndFlatImagesOfFloats) {
    for (const auto &[rows, cols] : {std::pair<int, int>{40001, 1}, {20011, 300}, {131, 20011}, {3, 65537}}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << cols);
        const auto bytes = support::randomBytes(static_cast<size_t>(rows) * cols, random_);
        const std::vector<float> floats(bytes.begin(), bytes.end());
        TestMat in(rows, cols, CUS_32FC1, space(), {4, 4}, floats.data()), sum(rows + 1, cols + 1, CUS_64FC1, space()),
            sqsum(rows + 1, cols + 1, CUS_64FC1, space());
        CUS_ASSERT_OK(cusIntegral(&in.mat, &sum.mat, &sqsum.mat, nullptr, nullptr));
        ASSERT_TRUE(sum.get<double>() == reference::integral<double>(bytes, rows, cols));
        ASSERT_TRUE(sqsum.get<double>() == reference::integral<double>(bytes, rows, cols, true));
        CUS_ASSERT_OK(cusIntegral(&in.mat, &sum.mat, nullptr, nullptr, nullptr));
        ASSERT_TRUE(sum.get<double>() == reference::integral<double>(bytes, rows, cols));
        ASSERT_TRUE(in.intact() && sum.intact() && sqsum.intact());
    }
}

// Within the bound of the header; the same in every run, in every layout and whichever tables are requested.
TEST_P(IntegralAdversarial, FloatsOfManyMagnitudes) {
    for (const Shape &size : {Shape{100003, 1}, {50001, 18}, {300001, 33}, {1, 100003}, {32, 20001}}) {
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

TEST_P(IntegralAdversarial, NanAndInfinityPropagateDownAndRight) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
        for (const Shape &size : {Shape{40001, 1}, {9000, 40}, {3, 9000}, {40, 9000}}) {
            const bool tall = size.rows > size.cols;
            const int y0 = tall ? 4444 : size.rows / 2, x0 = tall ? size.cols / 2 : 4444;
            const size_t pixels = static_cast<size_t>(size.rows) * static_cast<size_t>(size.cols);
            std::vector<float> src(pixels, 1.5f);
            src[static_cast<size_t>(y0) * static_cast<size_t>(size.cols) + static_cast<size_t>(x0)] = bad;
            TestMat in(size.rows, size.cols, CUS_32FC1, space(), {}, src.data());
            checkSpread(in.mat, y0, x0);
        }
}

// One object for images with different tiles, bytes and floats: no run mistakes words of an earlier one for its own.
TEST_P(IntegralAdversarial, OtherImagesInTurnInOneObject) {
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

// Bytes between the rows are not read, which compute-sanitizer's initcheck shows: nobody has written them.
TEST_P(IntegralAdversarial, SourceRowsBetweenUnwrittenBytes) {
    for (const int cols : {1, 2, 3, 5, 66, 127, 128, 130, 131, 133, 259})
        for (int offset = 0; offset < 4; ++offset) {
            SCOPED_TRACE(testing::Message() << cols << " columns, offset " << offset);
            const int rows = 39;
            const auto bytes = support::randomBytes(static_cast<size_t>(rows) * cols, random_);
            cusMat host = CUS_MAT_INIT, memory = CUS_MAT_INIT, src = CUS_MAT_INIT, sum = CUS_MAT_INIT;
            CUS_ASSERT_OK(cusMatWrap(&host, rows, cols, CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(bytes.data()), 0));
            // Every row starts at another byte of its word.
            const size_t step = static_cast<size_t>(cols) + 7 + (cols % 2);
            CUS_ASSERT_OK(cusMatCreate(&memory, 1, static_cast<int>(step) * rows + 4, CUS_8UC1, space()));
            CUS_ASSERT_OK(cusMatWrap(&src, rows, cols, CUS_8UC1, space(), static_cast<char *>(memory.data) + offset, step));
            CUS_ASSERT_OK(space() == CUS_DEVICE ? cusMatUpload(&host, &src, nullptr) : cusMatCopy(&host, &src, nullptr));
            CUS_ASSERT_OK(cusIntegral(&src, &sum, nullptr, nullptr, nullptr));
            EXPECT_TRUE(support::elements<uint32_t>(sum) == reference::integral<uint32_t>(bytes, rows, cols));
            cusMatRelease(&memory);
            cusMatRelease(&sum);
        }
}

// A region is read no further than its last pixel: what follows is not the library's memory. Rows around it are poisoned by
// TestMat; here the source also ends where its allocation does.
TEST_P(IntegralAdversarial, SourceUpToTheEndOfItsMemory) {
    for (int cols = 1; cols <= 140; cols += cols < 9 ? 1 : 131) {
        const int rows = 37;
        const auto bytes = support::randomBytes(static_cast<size_t>(rows) * cols, random_);
        cusMat host = CUS_MAT_INIT, memory = CUS_MAT_INIT, src = CUS_MAT_INIT, sum = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusMatWrap(&host, 1, rows * cols, CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(bytes.data()), 0));
        if (space() == CUS_DEVICE)
            CUS_ASSERT_OK(cusMatUpload(&host, &memory, nullptr));
        else
            CUS_ASSERT_OK(cusMatCopy(&host, &memory, nullptr));
        CUS_ASSERT_OK(cusMatWrap(&src, rows, cols, CUS_8UC1, space(), memory.data, 0));
        CUS_ASSERT_OK(cusIntegral(&src, &sum, nullptr, nullptr, nullptr));
        EXPECT_TRUE(support::elements<uint32_t>(sum) == reference::integral<uint32_t>(bytes, rows, cols)) << cols;
        cusMatRelease(&memory);
        cusMatRelease(&sum);
    }
}

} // namespace
