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
    // One source in one layout, every set of tables. Layouts count pixels and entries. Floats are integers, whose sums are exact in any
    // order.
    void check(int rows, int cols, Layout source, Layout tables, int type = CUS_8UC1) {
        const auto bytes = support::randomBytes(static_cast<size_t>(rows) * cols, random_);
        const std::vector<float> floats(bytes.begin(), bytes.end());
        const size_t pixel = cusTypeSize(type);
        TestMat in(rows, cols, type, space(), {source.padding * pixel, source.offset * pixel},
                   type == CUS_8UC1 ? static_cast<const void *>(bytes.data()) : floats.data());
        SCOPED_TRACE(testing::Message() << "source at " << source.offset << " + " << source.padding);
        checkTables(in, bytes, tables);
    }

    std::mt19937_64 random_ = support::generator();
};
CUS_BOTH_SPACES(IntegralAdversarial);

// Around the kernel's warps of 128 columns and tiles of 32 and 64 rows; many tiles in a row or column.
TEST_P(IntegralAdversarial, SizesTypesAndLayouts) {
    auto sizes = support::sizes();
    for (const auto &size :
         {std::pair<int, int>{32, 128}, {33, 127}, {31, 129}, {64, 256}, {97, 383}, {3, 5000}, {5000, 3}})
        sizes.push_back(size);
    for (const auto &[rows, cols] : sizes)
        for (const int type : {CUS_8UC1, CUS_32FC1})
            for (const Layout &layout : support::layouts(CUS_8UC1))
                check(rows, cols, layout, layout, type);
}

TEST_P(IntegralAdversarial, SourcesAtEveryByteWithEveryStep) {
    for (size_t offset = 0; offset < 16; ++offset)
        for (size_t padding = 0; padding < 16; ++padding)
            check(67, 131, {padding, offset}, {0, 0});
}

TEST_P(IntegralAdversarial, TablesAtEveryEntryWithEveryStep) {
    for (size_t offset = 0; offset < 4; ++offset)
        for (size_t padding = 0; padding < 4; ++padding)
            check(70, 390, {0, offset}, {padding, offset});
}

// Rows that all start at the same entry of a 128-byte line: 384 entries are whole lines.
TEST_P(IntegralAdversarial, TablesAtEveryEntryOfALine) {
    for (size_t offset = 0; offset < 32; ++offset)
        check(70, 383, {0, 0}, {0, offset});
}

TEST_P(IntegralAdversarial, TablesOfFloatsAtEveryEntry) {
    for (size_t offset = 0; offset < 16; ++offset)
        for (size_t padding = 0; padding < 3; ++padding)
            check(45, 390, {padding, offset}, {padding, offset}, CUS_32FC1);
}

// Around warps of 128 columns and the words of four pixels that hold them; fewer columns than a word reaches past a row.
TEST_P(IntegralAdversarial, WidthsAroundWarpsAndWords) {
    for (const int cols : {1, 2, 3, 4, 5, 7, 8, 9, 124, 125, 127, 128, 129, 131, 132, 133, 255, 257, 511, 513})
        for (const int rows : {1, 2, 3, 4, 7, 33})
            for (size_t offset = 0; offset < 4; ++offset)
                check(rows, cols, {offset ^ 1, offset}, {offset, 3 - offset});
}

// Chains of many tiles, in several groups: on a device several hundred side by side and below each other.
TEST_P(IntegralAdversarial, NarrowAndFlatImages) {
    std::vector<Shape> shapes = {{1, 20011}, {3, 65537}, {100, 4097}, {300, 4099}};
    if (space() == CUS_DEVICE)
        shapes.insert(shapes.end(), {{1, 700001}, {64, 40000}, {129, 40000}, {300, 20011}, {300, 40001}});
    for (const Shape &s : shapes)
        for (const int type : {CUS_8UC1, CUS_32FC1}) {
            check(s.rows, s.cols, {0, 1}, {1, 1}, type);
            check(s.cols, s.rows, {3, 2}, {0, 0}, type);
        }
}

// Within the bound of the header; the same in every run, in every layout and whichever tables are requested.
TEST_P(IntegralAdversarial, FloatsOfManyMagnitudes) {
    std::vector<Shape> shapes = {{50001, 1}, {20001, 18}, {1, 50003}, {32, 20001}};
    if (space() == CUS_DEVICE) // the last in several slabs
        shapes.insert(shapes.end(), {{300001, 33}, {6001, 8007}});
    for (const Shape &size : shapes) {
        SCOPED_TRACE(testing::Message() << size.rows << " x " << size.cols);
        const size_t rows = static_cast<size_t>(size.rows), cols = static_cast<size_t>(size.cols);
        const auto floats = randomFloats(rows * cols, random_);
        TestMat in(size.rows, size.cols, CUS_32FC1, space(), {}, floats.data()),
            shifted(size.rows, size.cols, CUS_32FC1, space(), {4, 4}, floats.data()),
            sum(size.rows + 1, size.cols + 1, CUS_64FC1, space()), sqsum(size.rows + 1, size.cols + 1, CUS_64FC1, space()),
            again(size.rows + 1, size.cols + 1, CUS_64FC1, space(), {8, 8});
        CUS_ASSERT_OK(cusIntegral(&in.mat, &sum.mat, &sqsum.mat, nullptr, nullptr));
        for (const bool squares : {false, true}) {
            const auto got = (squares ? sqsum : sum).get<double>();
            expectWithinBound(got, floats, size.rows, size.cols, squares);
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
        for (const Shape &size : {Shape{70, 300}, {40001, 1}, {9000, 40}, {3, 9000}, {40, 9000}}) {
            const int y0 = std::min(size.rows / 2, 4444), x0 = std::min(size.cols / 2, 4444);
            const size_t pixels = static_cast<size_t>(size.rows) * static_cast<size_t>(size.cols);
            std::vector<float> src(pixels, 1.5f);
            src[static_cast<size_t>(y0) * static_cast<size_t>(size.cols) + static_cast<size_t>(x0)] = bad;
            TestMat in(size.rows, size.cols, CUS_32FC1, space(), {}, src.data());
            checkSpread(in.mat, y0, x0);
        }
}

// Nothing is read but the pixels, which compute-sanitizer shows: nobody has written the bytes between the rows, and the last pixel ends
// where its memory does. (Rows around a TestMat are poisoned.)
TEST_P(IntegralAdversarial, SourcesBetweenUnwrittenBytes) {
    const int rows = 39;
    for (const int cols : {1, 2, 3, 4, 5, 7, 8, 66, 127, 128, 130, 131, 133, 259})
        for (int offset = 0; offset < 4; ++offset) {
            SCOPED_TRACE(testing::Message() << cols << " columns, offset " << offset);
            const auto bytes = support::randomBytes(static_cast<size_t>(rows) * cols, random_);
            support::Mat host, memory, src, sum;
            CUS_ASSERT_OK(cusMatWrap(&host, rows, cols, CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(bytes.data()), 0));
            // Every row starts at another byte of its word.
            const int step = offset ? cols + 7 + cols % 2 : cols;
            CUS_ASSERT_OK(cusMatCreate(&memory, 1, offset + step * (rows - 1) + cols, CUS_8UC1, space()));
            char *const first = static_cast<char *>(memory.data) + offset;
            CUS_ASSERT_OK(cusMatWrap(&src, rows, cols, CUS_8UC1, space(), first, static_cast<size_t>(step)));
            CUS_ASSERT_OK(space() == CUS_DEVICE ? cusMatUpload(&host, &src, nullptr) : cusMatCopy(&host, &src, nullptr));
            CUS_ASSERT_OK(cusIntegral(&src, &sum, nullptr, nullptr, nullptr));
            EXPECT_TRUE(support::elements<uint32_t>(sum) == reference::integral<uint32_t>(bytes, rows, cols));
        }
}

} // namespace
