// The CUDA backend of integral: large images, every tile shape, slabs, streams.
#include "integral/support.hpp"

#include "reference/integral.hpp"

#include <cmath>

namespace {

using support::TestMat;

// Against the host backend, for machines that have a GPU but no OpenCV: wide and tall images, squares in several slabs.
TEST(IntegralCuda, LargeEqualsHost) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    for (const auto &[rows, cols] : {std::pair<int, int>{16384, 16384}, {5001, 20003}, {300, 40000}, {60001, 1500}}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << cols);
        cusMat host = CUS_MAT_INIT, device = CUS_MAT_INIT, host_sum = CUS_MAT_INIT, sum = CUS_MAT_INIT;
        cusMat host_sqsum = CUS_MAT_INIT, sqsum = CUS_MAT_INIT;
        const auto bytes = support::randomBytes(static_cast<size_t>(rows) * cols, random);
        CUS_ASSERT_OK(cusMatWrap(&host, rows, cols, CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(bytes.data()), 0));
        CUS_ASSERT_OK(cusMatUpload(&host, &device, nullptr));
        CUS_ASSERT_OK(cusIntegral(&host, &host_sum, &host_sqsum, nullptr, nullptr));
        CUS_ASSERT_OK(cusIntegral(&device, &sum, &sqsum, nullptr, nullptr));
        EXPECT_TRUE(support::elements(sum) == support::elements(host_sum));
        EXPECT_TRUE(support::elements(sqsum) == support::elements(host_sqsum));
        // Sums alone use other tiles.
        CUS_ASSERT_OK(cusMatSetZero(&sum, nullptr));
        CUS_ASSERT_OK(cusIntegral(&device, &sum, nullptr, nullptr, nullptr));
        EXPECT_TRUE(support::elements(sum) == support::elements(host_sum));
        for (cusMat *m : {&device, &host_sum, &sum, &host_sqsum, &sqsum})
            cusMatRelease(m);
    }
}

// One object alternates between images with more tiles than fit on the GPU at once, whose writes are throttled by a counter
// that continues from run to run, and small ones, which do not count.
TEST(IntegralCuda, ThrottledAndUnthrottledRunsAlternate) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    const int rows = 4300, cols = 4250;
    const auto bytes = support::randomBytes(static_cast<size_t>(rows) * cols, random);
    cusMat host = CUS_MAT_INIT, device = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatWrap(&host, rows, cols, CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(bytes.data()), 0));
    CUS_ASSERT_OK(cusMatUpload(&host, &device, nullptr));
    cusIntegrator *integrator = nullptr;
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, rows, cols, CUS_DEVICE));
    struct Run {
        int rows, cols;
        bool squares;
    };
    for (const Run &run : {Run{2600, 2700, true},
                           {90, 70, false},
                           {rows, cols, false},
                           {3000, cols, false},
                           {2600, 2700, true},
                           {33, 500, true}}) {
        SCOPED_TRACE(testing::Message() << run.rows << " x " << run.cols << (run.squares ? " with squares" : ""));
        cusMat of_host = CUS_MAT_INIT, of_device = CUS_MAT_INIT, sums[2] = {CUS_MAT_INIT, CUS_MAT_INIT},
               squares[2] = {CUS_MAT_INIT, CUS_MAT_INIT};
        CUS_ASSERT_OK(cusMatRegion(&host, 0, 0, run.cols, run.rows, &of_host));
        CUS_ASSERT_OK(cusMatRegion(&device, 0, 0, run.cols, run.rows, &of_device));
        CUS_ASSERT_OK(cusIntegral(&of_host, &sums[0], run.squares ? &squares[0] : nullptr, nullptr, nullptr));
        for (int again = 0; again < 2; ++again)
            CUS_ASSERT_OK(
                cusIntegratorRun(integrator, &of_device, &sums[1], run.squares ? &squares[1] : nullptr, nullptr, nullptr));
        EXPECT_TRUE(support::elements(sums[1]) == support::elements(sums[0]));
        EXPECT_TRUE(!run.squares || support::elements(squares[1]) == support::elements(squares[0]));
        for (int k = 0; k < 2; ++k) {
            cusMatRelease(&sums[k]);
            cusMatRelease(&squares[k]);
        }
    }
    cusIntegratorDestroy(integrator);
    cusMatRelease(&device);
}

// Sizes for which a GPU with 132 multiprocessors chooses each tile shape (the last: the largest, not all tiles at once);
// aligned, and regions with odd offsets to tables with tight rows, where neither side can be moved 16 bytes at a time.
TEST(IntegralCuda, LargeWithTilesOfEverySize) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    for (const auto &[rows, cols] :
         {std::pair<int, int>{705, 1003}, {1401, 2503}, {2001, 3003}, {3001, 4251}, {4501, 4099}}) {
        const auto bytes = support::randomBytes(static_cast<size_t>(rows + 3) * (cols + 5), random);
        cusMat host = CUS_MAT_INIT, device = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusMatWrap(&host, rows + 3, cols + 5, CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(bytes.data()), 0));
        CUS_ASSERT_OK(cusMatUpload(&host, &device, nullptr));
        for (const Case &c : CASES)
            for (const bool odd : {false, true}) {
                if (c.type != CUS_8UC1)
                    continue;
                SCOPED_TRACE(testing::Message() << rows << " x " << cols << ", depth " << c.sum_depth << ", tables "
                                                << c.sum << c.sqsum << (odd ? ", odd" : ""));
                const cusIntegralOptions options = {c.sum_depth};
                cusMat region = CUS_MAT_INIT, of_device = CUS_MAT_INIT, sum = CUS_MAT_INIT, sqsum = CUS_MAT_INIT;
                CUS_ASSERT_OK(cusMatRegion(&host, 5 * odd, 3 * odd, cols, rows, &region));
                CUS_ASSERT_OK(cusMatRegion(&device, 5 * odd, 3 * odd, cols, rows, &of_device));
                CUS_ASSERT_OK(cusIntegral(&region, c.sum ? &sum : nullptr, c.sqsum ? &sqsum : nullptr, &options, nullptr));
                const size_t entry = sumType(c) == CUS_32SC1 ? 4 : 8, shift = odd;
                TestMat got(rows + 1, cols + 1, sumType(c), CUS_DEVICE, {entry * shift, entry * shift}),
                    got_squares(rows + 1, cols + 1, CUS_64FC1, CUS_DEVICE, {8 * shift, 8 * shift});
                CUS_ASSERT_OK(cusIntegral(&of_device, c.sum ? &got.mat : nullptr, c.sqsum ? &got_squares.mat : nullptr,
                                          &options, nullptr));
                EXPECT_TRUE(!c.sum || got.get() == support::elements(sum));
                EXPECT_TRUE(!c.sqsum || got_squares.get() == support::elements(sqsum));
                EXPECT_TRUE(got.intact() && got_squares.intact());
                cusMatRelease(&sum);
                cusMatRelease(&sqsum);
            }
        cusMatRelease(&device);
    }
}

// Floats in several slabs: within the bound of the header, and the same in every run.
TEST(IntegralCuda, LargeFloatsInSlabs) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    const int rows = 6001, cols = 8007;
    std::vector<float> values(static_cast<size_t>(rows) * cols); // none negative: the table is also the sum of magnitudes
    for (auto &v : values)
        v = static_cast<float>(random() >> 40) / 4096;
    cusMat host = CUS_MAT_INIT, device = CUS_MAT_INIT, tables[4] = {};
    CUS_ASSERT_OK(cusMatWrap(&host, rows, cols, CUS_32FC1, CUS_HOST, values.data(), 0));
    CUS_ASSERT_OK(cusMatUpload(&host, &device, nullptr));
    CUS_ASSERT_OK(cusIntegral(&host, &tables[0], &tables[1], nullptr, nullptr));
    CUS_ASSERT_OK(cusIntegral(&device, &tables[2], &tables[3], nullptr, nullptr));
    for (int k = 0; k < 2; ++k) {
        const auto expected = support::elements<double>(tables[k]), got = support::elements<double>(tables[2 + k]);
        for (size_t i = 0; i < got.size(); ++i)
            ASSERT_LE(std::fabs(got[i] - expected[i]), 2.0 * (rows + cols + 64) * EPSILON * expected[i]) << i;
        cusMat again = CUS_MAT_INIT, other = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusIntegral(&device, &again, &other, nullptr, nullptr));
        EXPECT_TRUE(support::elements<double>(k ? other : again) == got);
        cusMatRelease(&again);
        cusMatRelease(&other);
    }
    for (cusMat &m : tables)
        cusMatRelease(&m);
    cusMatRelease(&device);
}

// More than 2^31 bytes of table.
TEST(IntegralCuda, LargePastTwoToTheThirtyOneBytes) {
    CUS_NEEDS(CUS_DEVICE);
    const int n = 32768;
    cusMat row = CUS_MAT_INIT, device = CUS_MAT_INIT, sum = CUS_MAT_INIT;
    std::vector<uint8_t> bytes(static_cast<size_t>(n) * n);
    for (size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<uint8_t>(i % n % 3 + i / n % 5);
    CUS_ASSERT_OK(cusMatWrap(&row, n, n, CUS_8UC1, CUS_HOST, bytes.data(), 0));
    CUS_ASSERT_OK(cusMatUpload(&row, &device, nullptr));
    CUS_ASSERT_OK(cusIntegral(&device, &sum, nullptr, nullptr, nullptr));
    const auto table = support::elements<uint32_t>(sum);
    uint64_t xs = 0; // of i % 3 over i < x
    std::vector<uint64_t> columns(n + 1), rows(n + 1);
    for (int i = 0; i < n; ++i) {
        columns[i + 1] = xs += i % 3;
        rows[i + 1] = rows[i] + i % 5;
    }
    for (size_t y = 0; y <= static_cast<size_t>(n); y += 127)
        for (size_t x = 0; x <= static_cast<size_t>(n); ++x)
            ASSERT_EQ(table[y * (n + 1) + x], static_cast<uint32_t>(columns[x] * y + rows[y] * x)) << y << ", " << x;
    cusMatRelease(&device);
    cusMatRelease(&sum);
}

// Runs in stream order: sees the work queued before it in the stream.
TEST(IntegralCuda, RunsInTheGivenStream) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    const int rows = 700, cols = 1300;
    cusStream stream = nullptr;
    CUS_ASSERT_OK(cusStreamCreate(&stream));
    cusIntegrator *integrator = nullptr;
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, rows, cols, CUS_DEVICE));
    cusMat pinned = CUS_MAT_INIT, src = CUS_MAT_INIT, sum = CUS_MAT_INIT, sqsum = CUS_MAT_INIT, out = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatCreatePinned(&pinned, rows, cols, CUS_8UC1));
    CUS_ASSERT_OK(cusMatCreatePinned(&out, rows + 1, cols + 1, CUS_64FC1));
    for (int i = 0; i < 20; ++i) {
        const auto bytes = support::randomBytes(static_cast<size_t>(rows) * cols, random);
        std::memcpy(pinned.data, bytes.data(), bytes.size());
        CUS_ASSERT_OK(cusMatUpload(&pinned, &src, stream));
        CUS_ASSERT_OK(cusIntegratorRun(integrator, &src, &sum, &sqsum, nullptr, stream));
        CUS_ASSERT_OK(cusMatDownload(&sqsum, &out, stream));
        CUS_ASSERT_OK(cusStreamSynchronize(stream));
        ASSERT_EQ(support::elements<double>(out), reference::integral<double>(bytes, rows, cols, true));
    }
    for (cusMat *m : {&pinned, &src, &sum, &sqsum, &out})
        cusMatRelease(m);
    cusIntegratorDestroy(integrator);
    cusStreamDestroy(stream);
}

} // namespace
