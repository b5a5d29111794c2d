#include "integral/support.hpp"

#include "integral/backend.h"
#include "reference/integral.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <thread>

// Weak: a library without OpenMP lacks them.
extern "C" __attribute__((weak)) void omp_set_num_threads(int);
extern "C" __attribute__((weak)) int omp_get_max_threads();

namespace {

using support::Layout;
using support::TestMat;

struct Source {
    std::vector<uint8_t> bytes;
    std::vector<float> floats;
    const void *data() const { return bytes.empty() ? static_cast<const void *>(floats.data()) : bytes.data(); }
};

Source randomSource(int type, size_t n, std::mt19937_64 &random) {
    Source s;
    if (type == CUS_8UC1)
        s.bytes = support::randomBytes(n, random);
    else
        s.floats = randomFloats(n, random);
    return s;
}

class Integral : public support::SpaceTest {};
CUS_BOTH_SPACES(Integral);

TEST_P(Integral, WorkedExample) {
    const uint8_t src[6] = {1, 2, 3, 4, 5, 6};
    TestMat in(2, 3, CUS_8UC1, space(), {}, src);
    TestMat sum(3, 4, CUS_32SC1, space()), sqsum(3, 4, CUS_64FC1, space());
    CUS_ASSERT_OK(cusIntegral(&in.mat, &sum.mat, &sqsum.mat, nullptr, nullptr));
    EXPECT_EQ(sum.get<int32_t>(), (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 3, 6, 0, 5, 12, 21}));
    EXPECT_EQ(sqsum.get<double>(), (std::vector<double>{0, 0, 0, 0, 0, 1, 5, 14, 0, 17, 46, 91}));
}

TEST_P(Integral, ABatchEqualsOneByOne) {
    auto random = support::generator();
    // Workspaces that hold one image at a time, some of them, and all.
    for (const int columns : {1, 3, 140})
        for (const int count : {1, 2, 7, 64, 65, 130})
            for (const int type : {CUS_8UC1, CUS_8UC3, CUS_32FC1}) {
                const int rows = 1 + static_cast<int>(random() % 140), cols = 1 + static_cast<int>(random() % 140);
                support::Owned<cusIntegratorDestroy> integrator;
                CUS_ASSERT_OK(cusIntegratorCreate(&integrator, rows, columns * cols * CUS_CHANNELS(type), space()));
                const auto layouts = support::layouts(type);
                std::deque<TestMat> mats;
                std::vector<cusMat> src, sum(static_cast<size_t>(count), cusMat(CUS_MAT_INIT)), squares = sum;
                for (int i = 0; i < count; ++i) {
                    const auto bytes = support::randomBytes(static_cast<size_t>(rows * cols) * cusTypeSize(type), random);
                    mats.emplace_back(rows, cols, type, space(), layouts[random() % layouts.size()], bytes.data());
                    src.push_back(mats.back().mat);
                }
                const bool both = random() % 3 == 0;
                cusMat *const second = both ? squares.data() : nullptr;
                CUS_ASSERT_OK(cusIntegratorRunBatch(integrator, count, src.data(), sum.data(), second, nullptr, nullptr));
                for (size_t i = 0; i < sum.size(); ++i) {
                    support::Mat want, want_squares;
                    CUS_ASSERT_OK(cusIntegral(&src[i], &want, both ? &want_squares : nullptr, nullptr, nullptr));
                    EXPECT_EQ(support::elements(sum[i]), support::elements(want)) << "image " << i << " of " << count;
                    if (both)
                        EXPECT_EQ(support::elements(squares[i]), support::elements(want_squares)) << "image " << i;
                    cusMatRelease(&sum[i]);
                    cusMatRelease(&squares[i]);
                }
            }
}

TEST_P(Integral, BadBatchesAreRejectedWithAClearMessage) {
    TestMat a(3, 4, CUS_8UC1, space()), wide(3, 5, CUS_8UC1, space()), real(3, 4, CUS_32FC1, space());
    TestMat huge(20, 20, CUS_8UC1, space());
    cusMat src[2] = {a.mat, a.mat}, sum[2] = {CUS_MAT_INIT, CUS_MAT_INIT}, squares[2] = {CUS_MAT_INIT, CUS_MAT_INIT};
    support::Owned<cusIntegratorDestroy> integrator;
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, 10, 10, space()));
    const auto call = [&](int count) {
        return cusIntegratorRunBatch(integrator, count, src, sum, squares, nullptr, nullptr);
    };
    CUS_REJECTS(call(0), VALUE, "cusIntegratorRunBatch: count is 0, expected 1..1024");
    CUS_REJECTS(call(1025), VALUE, "cusIntegratorRunBatch: count is 1025, expected 1..1024");
    CUS_REJECTS(cusIntegratorRunBatch(nullptr, 2, src, sum, nullptr, nullptr, nullptr), NULL, "integrator");
    CUS_REJECTS(cusIntegratorRunBatch(integrator, 2, nullptr, sum, nullptr, nullptr, nullptr), NULL, "src");
    CUS_REJECTS(cusIntegratorRunBatch(integrator, 2, src, nullptr, nullptr, nullptr, nullptr), NULL, "both NULL");
    src[1] = wide.mat;
    CUS_REJECTS(call(2), SIZE, "src[1]");
    src[1] = real.mat;
    CUS_REJECTS(call(2), TYPE, "src[1] has type 32FC1, expected 8UC1 like src[0]");
    src[1] = huge.mat;
    CUS_REJECTS(call(2), SIZE, "src[1] is 20 x 20 (rows x cols), expected up to 10 x 10");
    src[1] = a.mat;
    squares[1] = wide.mat;
    CUS_REJECTS(call(2), SIZE, "sqsum[1]");
    EXPECT_EQ(sum[0].data, nullptr); // a rejected call has changed nothing
}

// Every implementation of the host backend, in the first layouts, without writing outside the tables.
void checkHost(int rows, int cols, std::mt19937_64 &random, size_t layouts = 4) {
    const Source bytes = randomSource(CUS_8UC1, static_cast<size_t>(rows) * cols, random),
                 floats = randomSource(CUS_32FC1, static_cast<size_t>(rows) * cols, random);
    const auto narrow = reference::integral<uint32_t>(bytes.bytes, rows, cols);
    const std::vector<double> tables[2][2] = {
        {reference::integral<double>(bytes.bytes, rows, cols), reference::integral<double>(bytes.bytes, rows, cols, true)},
        {reference::integral<double>(floats.floats, rows, cols),
         reference::integral<double>(floats.floats, rows, cols, true)}};
    for (size_t l = 0; l < layouts; ++l)
        for (const IntegralHostPath path : {INTEGRAL_GENERIC, INTEGRAL_AVX2, INTEGRAL_AVX512})
            for (const Case &c : CASES) {
                if (!integral_host_supports(path))
                    continue;
                const bool is_float = c.type == CUS_32FC1, is64 = sumType(c) == CUS_64FC1;
                const auto layout = support::layouts(CUS_64FC1)[l];
                TestMat src(rows, cols, c.type, CUS_HOST, support::layouts(c.type)[l], (is_float ? floats : bytes).data());
                TestMat s(rows + 1, cols + 1, sumType(c), CUS_HOST, is64 ? layout : support::layouts(CUS_32SC1)[l]);
                TestMat q(rows + 1, cols + 1, CUS_64FC1, CUS_HOST, layout);
                size_t size = 0;
                CUS_ASSERT_OK(integral_host_workspace("test", rows, cols, 1, &size));
                std::vector<double> workspace(size / sizeof(double) + 1);
                const IntegralArgs args = {1,
                                           &src.mat,
                                           c.sum ? &s.mat : nullptr,
                                           c.sqsum ? &q.mat : nullptr,
                                           workspace.data(),
                                           size,
                                           false,
                                           path,
                                           false,
                                           0};
                CUS_ASSERT_OK(integral_host_run("test", &args));
                SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols) + " of type " + std::to_string(c.type) +
                             ", path " + std::to_string(path));
                ASSERT_TRUE(!c.sum || (is64 ? s.get<double>() == tables[is_float][0] : s.get<uint32_t>() == narrow));
                ASSERT_TRUE(!c.sqsum || q.get<double>() == tables[is_float][1]);
                ASSERT_TRUE(s.intact() && q.intact() && src.intact());
            }
}

TEST(IntegralHost, EveryPathGivesTheSame) {
    auto random = support::generator();
    for (const int cols : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 41, 47, 48, 49, 63, 64, 125, 333})
        checkHost(1 + static_cast<int>(random() % 20), cols, random);
    checkHost(1103, 125, random);
}

// Bands and stripes of narrow and flat images, on more threads than there are rows or columns.
TEST(IntegralHost, NarrowAndFlatImagesOnFourThreads) {
    auto random = support::generator();
    const int threads = omp_get_max_threads ? omp_get_max_threads() : 1;
    if (omp_set_num_threads)
        omp_set_num_threads(4);
    for (const auto &[rows, cols] : {std::pair<int, int>{66667, 3}, {6451, 31}, {3, 65541}})
        checkHost(rows, cols, random, 1);
    if (omp_set_num_threads)
        omp_set_num_threads(threads);
}

// Whole warps of columns and rows in tiles that are not: the last tile's warps have nothing to write, and no memory for it.
TEST_P(Integral, LastTileWithWarpsBelowTheImage) {
    auto random = support::generator();
    for (const int rows : {4, 36, 228, 1080})
        for (const Case &c : CASES) {
            Source src = {support::randomBytes(static_cast<size_t>(rows) * 384, random), {}};
            if (c.type == CUS_32FC1) // the sums of which are exact in any order
                src.floats.assign(src.bytes.begin(), src.bytes.end()), src.bytes.clear();
            TestMat in(rows, 384, c.type, space(), {}, src.data()), host(rows, 384, c.type, CUS_HOST, {}, src.data());
            support::Mat sum, sqsum, host_sum, host_sqsum; // their rows begin at multiples of 16 bytes
            const cusIntegralOptions options = depthOf(c.sum_depth);
            CUS_ASSERT_OK(cusIntegral(&in.mat, c.sum ? &sum : nullptr, c.sqsum ? &sqsum : nullptr, &options, nullptr));
            CUS_ASSERT_OK(
                cusIntegral(&host.mat, c.sum ? &host_sum : nullptr, c.sqsum ? &host_sqsum : nullptr, &options, nullptr));
            SCOPED_TRACE(testing::Message() << rows << " rows of type " << c.type);
            if (c.sum)
                ASSERT_EQ(support::elements(sum), support::elements(host_sum));
            if (c.sqsum)
                ASSERT_EQ(support::elements(sqsum), support::elements(host_sqsum));
        }
}

// One object for many sizes gives what cusIntegral gives, and keeps outputs that fit.
TEST_P(Integral, IntegratorAcceptsEverySizeUpToItsMaximum) {
    auto random = support::generator();
    support::Owned<cusIntegratorDestroy> integrator;
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, 9000, 5000, space()));
    support::Mat sum, sqsum;
    const std::pair<int, int> shapes[] = {{9000, 1}, {300, 700}, {5000, 64}, {32, 5000}, {9000, 65}, {3, 5000}};
    for (int i = 0; i < 48; ++i) {
        const Case &c = CASES[random() % 8];
        const int rows = i % 2 ? shapes[i / 2 % 6].first : 1 + static_cast<int>(random() % 300),
                  cols = i % 2 ? shapes[i / 2 % 6].second : 1 + static_cast<int>(random() % 700);
        SCOPED_TRACE(testing::Message() << rows << " x " << cols << ", type " << c.type);
        const Source src = randomSource(c.type, static_cast<size_t>(rows) * cols, random);
        TestMat in(rows, cols, c.type, space(), {}, src.data());
        TestMat expected_sum(rows + 1, cols + 1, sumType(c), space()),
            expected_sqsum(rows + 1, cols + 1, CUS_64FC1, space());
        const cusIntegralOptions options = depthOf(c.sum_depth);
        CUS_ASSERT_OK(cusIntegratorRun(integrator, &in.mat, &sum, c.sqsum ? &sqsum : nullptr, &options, nullptr));
        const void *data = sum.data;
        CUS_ASSERT_OK(cusIntegratorRun(integrator, &in.mat, &sum, &sqsum, &options, nullptr));
        EXPECT_EQ(sum.data, data);
        CUS_ASSERT_OK(cusIntegral(&in.mat, &expected_sum.mat, &expected_sqsum.mat, &options, nullptr));
        ASSERT_EQ(sum.type, sumType(c));
        ASSERT_EQ(support::elements(sum), expected_sum.get()); // floats too: the order depends on the size alone
        ASSERT_EQ(support::elements(sqsum), expected_sqsum.get());
    }
}

// A run must not mistake an earlier run's words in the workspace for its own, whatever either stores there: first sums of
// bytes, then runs that leave these words alone, then floats.
TEST_P(Integral, StaleWorkspaceIsIgnored) {
    auto random = support::generator();
    const int rows = 600, cols = 700;
    const Source bytes = randomSource(CUS_8UC1, static_cast<size_t>(rows) * cols, random),
                 floats = randomSource(CUS_32FC1, static_cast<size_t>(rows) * cols, random);
    TestMat in(rows, cols, CUS_8UC1, space(), {}, bytes.data()), then(rows, cols, CUS_32FC1, space(), {}, floats.data()),
        one(1, 1, CUS_8UC1, space(), {}, bytes.data());
    TestMat expected(rows + 1, cols + 1, CUS_64FC1, space());
    CUS_ASSERT_OK(cusIntegral(&then.mat, &expected.mat, nullptr, nullptr, nullptr));
    support::Mat sum;
    for (int between = 0; between < 10; ++between) {
        SCOPED_TRACE(testing::Message() << between << " runs between");
        support::Owned<cusIntegratorDestroy> integrator;
        CUS_ASSERT_OK(cusIntegratorCreate(&integrator, rows, cols, space()));
        CUS_ASSERT_OK(cusIntegratorRun(integrator, &in.mat, &sum, nullptr, nullptr, nullptr));
        for (int i = 0; i < between; ++i)
            CUS_ASSERT_OK(cusIntegratorRun(integrator, &one.mat, &sum, nullptr, nullptr, nullptr));
        CUS_ASSERT_OK(cusIntegratorRun(integrator, &then.mat, &sum, nullptr, nullptr, nullptr));
        EXPECT_TRUE(support::elements(sum) == expected.get());
    }
}

// 3000 x 3000 white pixels sum to 2.3e9: the 32-bit table wraps past 2^31, rectangles and 64-bit tables stay exact.
TEST_P(Integral, WhitePastTwoToTheThirtyOne) {
    const int n = 3000;
    std::vector<uint8_t> white(static_cast<size_t>(n) * n, 255);
    TestMat in(n, n, CUS_8UC1, space(), {}, white.data());
    TestMat sum(n + 1, n + 1, CUS_32SC1, space()), wide(n + 1, n + 1, CUS_64FC1, space());
    TestMat sqsum(n + 1, n + 1, CUS_64FC1, space());
    const cusIntegralOptions options = depthOf(CUS_64F);
    CUS_ASSERT_OK(cusIntegral(&in.mat, &sum.mat, &sqsum.mat, nullptr, nullptr));
    CUS_ASSERT_OK(cusIntegral(&in.mat, &wide.mat, nullptr, &options, nullptr));
    const auto s = sum.get<int32_t>();
    const auto w = wide.get<double>(), q = sqsum.get<double>();
    for (const auto &[y, x] : {std::pair<int, int>{n, n}, {n, 2811}, {1, n}, {2999, 2998}}) {
        const size_t i = static_cast<size_t>(y) * (n + 1) + x;
        const uint64_t exact = 255ull * y * x;
        EXPECT_EQ(static_cast<uint32_t>(s[i]), static_cast<uint32_t>(exact));
        EXPECT_EQ(w[i], static_cast<double>(exact));
        EXPECT_EQ(q[i], static_cast<double>(255 * exact));
    }
    EXPECT_LT(s.back(), 0);
    EXPECT_EQ(cusBoxSum32S(s.data(), (n + 1) * 4, 1, 2, n - 1, n - 2), 255u * (n - 1) * (n - 2));
}

// Columns of 700000 white pixels, whose squares sum to more than 2^35.
TEST_P(Integral, LargeColumnsPastTwoToTheThirtyFive) {
    const int rows = 700000, cols = 3;
    std::vector<uint8_t> white(static_cast<size_t>(rows) * cols, 255);
    TestMat in(rows, cols, CUS_8UC1, space(), {}, white.data());
    TestMat sum(rows + 1, cols + 1, CUS_64FC1, space()), sqsum(rows + 1, cols + 1, CUS_64FC1, space());
    const cusIntegralOptions options = depthOf(CUS_64F);
    CUS_ASSERT_OK(cusIntegral(&in.mat, &sum.mat, &sqsum.mat, &options, nullptr));
    const auto s = sum.get<double>(), q = sqsum.get<double>();
    for (int y = 0; y <= rows; ++y)
        for (int x = 0; x <= cols; ++x) {
            const size_t i = static_cast<size_t>(y) * (cols + 1) + static_cast<size_t>(x);
            ASSERT_EQ(s[i], 255.0 * y * x) << y << ", " << x;
            ASSERT_EQ(q[i], 65025.0 * y * x) << y << ", " << x;
        }
}

TEST_P(Integral, TwoThreadsWithTheirOwnObjects) {
    const auto work = [this](unsigned number) {
        std::mt19937_64 random(support::seed() + number);
        const int rows = 123 + static_cast<int>(number), cols = 457;
        support::Owned<cusStreamDestroy> stream;
        if (space() == CUS_DEVICE)
            CUS_ASSERT_OK(cusStreamCreate(&stream));
        support::Owned<cusIntegratorDestroy> integrator;
        CUS_ASSERT_OK(cusIntegratorCreate(&integrator, rows, cols, space()));
        const auto bytes = support::randomBytes(static_cast<size_t>(rows) * cols, random);
        TestMat in(rows, cols, CUS_8UC1, space(), {}, bytes.data());
        TestMat sum(rows + 1, cols + 1, CUS_32SC1, space());
        const auto expected = reference::integral<uint32_t>(bytes, rows, cols);
        for (int i = 0; i < 50; ++i) {
            CUS_ASSERT_OK(cusIntegratorRun(integrator, &in.mat, &sum.mat, nullptr, nullptr, stream));
            if (space() == CUS_DEVICE)
                CUS_ASSERT_OK(cusStreamSynchronize(stream));
            ASSERT_EQ(sum.get<uint32_t>(), expected);
        }
    };
    std::thread a(work, 0), b(work, 1);
    a.join();
    b.join();
}

TEST_P(Integral, BoxSums) {
    auto random = support::generator();
    const int rows = 57, cols = 203, n = 10000; // enough for several host threads
    for (const int depth : {CUS_32S, CUS_64F}) {
        const auto bytes = support::randomBytes(rows * cols, random);
        TestMat in(rows, cols, CUS_8UC1, space(), {}, bytes.data());
        TestMat table(rows + 1, cols + 1, CUS_MAKETYPE(depth, 1), space(), {depth == CUS_32S ? 20u : 24u, 8});
        const cusIntegralOptions options = depthOf(depth);
        CUS_ASSERT_OK(cusIntegral(&in.mat, &table.mat, nullptr, &options, nullptr));
        std::vector<int32_t> boxes(4 * n);
        std::vector<double> expected(n);
        for (int k = 0; k < n; ++k) {
            const int x = static_cast<int>(random() % (cols + 1)), y = static_cast<int>(random() % (rows + 1));
            const int w = static_cast<int>(random() % (cols - x + 1)), h = static_cast<int>(random() % (rows - y + 1));
            const int32_t box[4] = {x, y, w, h};
            std::copy_n(box, 4, &boxes[4 * k]);
            expected[k] = reference::boxSum<double>(bytes, cols, x, y, w, h);
        }
        TestMat rectangles(n, 4, CUS_32SC1, space(), {12, 4}, boxes.data());
        TestMat sums(n, 1, CUS_64FC1, space(), {16, 8});
        CUS_ASSERT_OK(cusBoxSums(&table.mat, &rectangles.mat, &sums.mat, nullptr));
        EXPECT_EQ(sums.get<double>(), expected);
        EXPECT_TRUE(sums.intact());
    }
}

TEST_P(Integral, BoxesOutsideGiveNan) {
    const int32_t boxes[] = {-1, 0, 2, 2, 0, -1, 2,         2, 0, 0, -1, 2,         0, 0, 2, -1, 3, 0, 3, 1,
                             0,  2, 1, 2, 1, 1,  INT32_MAX, 1, 1, 1, 1,  INT32_MAX, 5, 3, 0, 0,  0, 0, 5, 3};
    const uint8_t src[15] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    TestMat in(3, 5, CUS_8UC1, space(), {}, src), rectangles(10, 4, CUS_32SC1, space(), {}, boxes);
    support::Mat table, sums;
    CUS_ASSERT_OK(cusIntegral(&in.mat, &table, nullptr, nullptr, nullptr));
    CUS_ASSERT_OK(cusBoxSums(&table, &rectangles.mat, &sums, nullptr));
    const auto got = support::elements<double>(sums);
    for (int k = 0; k < 8; ++k)
        EXPECT_TRUE(std::isnan(got[k])) << "rectangle " << k;
    EXPECT_EQ(got[8], 0);
    EXPECT_EQ(got[9], 15);
}

TEST_P(Integral, Rejections) {
    TestMat in(4, 5, CUS_8UC1, space()), sum(5, 6, CUS_32SC1, space()), sqsum(5, 6, CUS_64FC1, space());
    TestMat wrong_type(4, 5, CUS_16SC1, space()), three(4, 5, CUS_8UC3, space()), small(4, 5, CUS_32SC1, space());
    const auto before = sum.get();
    cusMat empty = CUS_MAT_INIT;
    const auto call = [&](const cusMat *src, cusMat *s, cusMat *q, const cusIntegralOptions *options = nullptr) {
        return cusIntegral(src, s, q, options, nullptr);
    };
    CUS_REJECTS(call(nullptr, &sum.mat, nullptr), NULL, "cusIntegral: src is NULL");
    CUS_REJECTS(call(&empty, &sum.mat, nullptr), NULL, "src is an empty matrix");
    CUS_REJECTS(call(&in.mat, nullptr, nullptr), NULL, "sum and sqsum are both NULL");
    CUS_REJECTS(call(&wrong_type.mat, &sum.mat, nullptr), TYPE, "src has type 16SC1, expected 8UC1, 8UC2");
    CUS_REJECTS(call(&three.mat, &sum.mat, nullptr), SIZE, "expected 5 x 6 32SC3");
    CUS_REJECTS(call(&in.mat, &small.mat, nullptr), SIZE, "sum does not own its memory and is 4 x 5");
    CUS_REJECTS(call(&in.mat, nullptr, &sum.mat), SIZE, "sqsum does not own its memory");
    CUS_REJECTS(call(&in.mat, &sum.mat, &sum.mat), SIZE, "sqsum does not own its memory");
    const cusIntegralOptions wide = depthOf(CUS_64F), wrong = depthOf(CUS_32F);
    CUS_REJECTS(call(&in.mat, &sum.mat, nullptr, &wide), SIZE, "expected 5 x 6 64FC1");
    CUS_REJECTS(call(&in.mat, &sqsum.mat, &sqsum.mat, &wide), ALIAS, "sum and sqsum are the same matrix");
    CUS_REJECTS(call(&in.mat, &sum.mat, nullptr, &wrong), VALUE, "sum_depth is 5, expected CUS_32S (4) or CUS_64F");
    // A source inside the table's memory.
    cusMat inside = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatWrap(&inside, 4, 5, CUS_8UC1, space(), sum.mat.data, 0));
    CUS_REJECTS(call(&inside, &sum.mat, nullptr), ALIAS, "sum overlaps src");
    CUS_ASSERT_OK(cusMatWrap(&inside, 4, 5, CUS_8UC1, space(), sqsum.mat.data, 0));
    CUS_REJECTS(call(&inside, nullptr, &sqsum.mat), ALIAS, "sqsum overlaps src");
    EXPECT_EQ(sum.get(), before);

    cusIntegrator *integrator = nullptr;
    CUS_REJECTS(cusIntegratorCreate(nullptr, 4, 4, space()), NULL, "integrator is NULL");
    CUS_REJECTS(cusIntegratorCreate(&integrator, 0, 4, space()), VALUE, "max_rows x max_cols is 0 x 4, expected");
    CUS_REJECTS(cusIntegratorCreate(&integrator, 4, INT32_MAX, space()), VALUE, "max_rows x max_cols is 4 x 2147483647");
    CUS_REJECTS(cusIntegratorCreate(&integrator, 4, 4, static_cast<cusSpace>(7)), VALUE, "space is 7");
    EXPECT_EQ(integrator, nullptr);
    CUS_REJECTS(cusIntegratorRun(nullptr, &in.mat, &sum.mat, nullptr, nullptr, nullptr), NULL,
                "cusIntegratorRun: integrator is NULL");
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, 4, 4, space()));
    CUS_REJECTS(cusIntegratorRun(integrator, &in.mat, &sum.mat, nullptr, nullptr, nullptr), SIZE,
                "src is 4 x 5 (rows x cols), expected up to 4 x 4");
    cusIntegratorDestroy(integrator);
    cusIntegratorDestroy(nullptr);

    TestMat boxes(2, 4, CUS_32SC1, space()), sums(2, 1, CUS_64FC1, space()), five(2, 5, CUS_32SC1, space());
    CUS_REJECTS(cusBoxSums(nullptr, &boxes.mat, &sums.mat, nullptr), NULL, "table is NULL");
    CUS_REJECTS(cusBoxSums(&in.mat, &boxes.mat, &sums.mat, nullptr), TYPE, "table has type 8UC1");
    CUS_REJECTS(cusBoxSums(&sum.mat, &sqsum.mat, &sums.mat, nullptr), TYPE, "boxes has type 64FC1");
    CUS_REJECTS(cusBoxSums(&sum.mat, &five.mat, &sums.mat, nullptr), SIZE, "boxes is 2 x 5");
    CUS_REJECTS(cusBoxSums(&sqsum.mat, &boxes.mat, &sqsum.mat, nullptr), SIZE, "sums does not own its memory");
}

TEST(IntegralSpaces, MixedAreRejected) {
    TestMat in(4, 5, CUS_8UC1, CUS_HOST), boxes(2, 4, CUS_32SC1, CUS_HOST), table(5, 6, CUS_32SC1, CUS_HOST);
    cusMat elsewhere = in.mat; // never dereferenced: the check comes first
    elsewhere.space = CUS_DEVICE;
    cusMat sum = CUS_MAT_INIT;
    cusIntegrator *integrator = nullptr;
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, 4, 5, CUS_HOST));
    CUS_REJECTS(cusIntegratorRun(integrator, &elsewhere, &sum, nullptr, nullptr, nullptr), SPACE,
                "src is in device memory, expected host like the integrator");
    cusIntegratorDestroy(integrator);
    cusMat there = table.mat;
    there.space = CUS_DEVICE;
    CUS_REJECTS(cusIntegral(&in.mat, &there, nullptr, nullptr, nullptr), SPACE, "sum is in CUS_DEVICE");
    CUS_REJECTS(cusBoxSums(&there, &boxes.mat, &sum, nullptr), SPACE, "boxes is in CUS_HOST");
}

} // namespace
