// The CUDA backend of integral: large images, every tile shape, slabs, streams.
#include "integral/support.hpp"

#include "reference/integral.hpp"

#include <cmath>

namespace {

using support::TestMat;

// A random image on the host and on the device.
struct Image {
    std::vector<uint8_t> bytes;
    support::Mat host, device;
    Image(int rows, int cols, std::mt19937_64 &random)
        : bytes(support::randomBytes(static_cast<size_t>(rows) * cols, random)) {
        CUS_EXPECT_OK(cusMatWrap(&host, rows, cols, CUS_8UC1, CUS_HOST, bytes.data(), 0));
        CUS_EXPECT_OK(cusMatUpload(&host, &device, nullptr));
    }
};

// The device's tables of a rectangle of the image equal the host's; `shift`: the tables' layout, in entries.
void expectAsOnHost(const Image &image, int x, int y, int rows, int cols, const Case &c, size_t shift,
                    cusIntegrator *integrator) {
    SCOPED_TRACE(testing::Message() << rows << " x " << cols << " at " << x << ", depth " << c.sum_depth << ", tables "
                                    << c.sum << c.sqsum);
    support::Mat of_host, of_device, sum, sqsum;
    CUS_ASSERT_OK(cusMatRegion(&image.host, x, y, cols, rows, &of_host));
    CUS_ASSERT_OK(cusMatRegion(&image.device, x, y, cols, rows, &of_device));
    const cusIntegralOptions options = depthOf(c.sum_depth);
    CUS_ASSERT_OK(cusIntegral(&of_host, c.sum ? &sum : nullptr, c.sqsum ? &sqsum : nullptr, &options, nullptr));
    const size_t entry = sumType(c) == CUS_32SC1 ? 4 : 8;
    TestMat got(rows + 1, cols + 1, sumType(c), CUS_DEVICE, {entry * shift, entry * shift}),
        got_squares(rows + 1, cols + 1, CUS_64FC1, CUS_DEVICE, {8 * shift, 8 * shift});
    cusMat *const s = c.sum ? &got.mat : nullptr, *const q = c.sqsum ? &got_squares.mat : nullptr;
    for (int run = 0; run < 2; ++run)
        CUS_ASSERT_OK(integrator ? cusIntegratorRun(integrator, &of_device, s, q, &options, nullptr)
                                 : cusIntegral(&of_device, s, q, &options, nullptr));
    EXPECT_TRUE(!c.sum || got.get() == support::elements(sum));
    EXPECT_TRUE(!c.sqsum || got_squares.get() == support::elements(sqsum));
    EXPECT_TRUE(got.intact() && got_squares.intact());
}

// For machines that have a GPU but no OpenCV: wide and tall images, squares in several slabs.
TEST(IntegralCuda, LargeEqualsHost) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    for (const auto &[rows, cols] : {std::pair<int, int>{16384, 16384}, {5001, 20003}, {300, 40000}, {60001, 1500}}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << cols);
        const Image image(rows, cols, random);
        support::Mat host_sum, host_sqsum, sum, sqsum;
        CUS_ASSERT_OK(cusIntegral(&image.host, &host_sum, &host_sqsum, nullptr, nullptr));
        CUS_ASSERT_OK(cusIntegral(&image.device, &sum, &sqsum, nullptr, nullptr));
        EXPECT_TRUE(support::elements(sum) == support::elements(host_sum));
        EXPECT_TRUE(support::elements(sqsum) == support::elements(host_sqsum));
        // Sums alone use other tiles.
        CUS_ASSERT_OK(cusMatSetZero(&sum, nullptr));
        CUS_ASSERT_OK(cusIntegral(&image.device, &sum, nullptr, nullptr, nullptr));
        EXPECT_TRUE(support::elements(sum) == support::elements(host_sum));
    }
}

// One object alternates between images with more tiles than fit on the GPU at once, whose writes are throttled by a counter
// that continues from run to run, and small ones, which do not count.
TEST(IntegralCuda, ThrottledAndUnthrottledRunsAlternate) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    const int rows = 4300, cols = 4250;
    const Image image(rows, cols, random);
    support::Owned<cusIntegratorDestroy> integrator;
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, rows, cols, CUS_DEVICE));
    const Case sums = {CUS_8UC1, CUS_32S, true, false}, both = {CUS_8UC1, CUS_32S, true, true};
    expectAsOnHost(image, 0, 0, 2600, 2700, both, 0, integrator);
    expectAsOnHost(image, 0, 0, 90, 70, sums, 0, integrator);
    expectAsOnHost(image, 0, 0, rows, cols, sums, 0, integrator);
    expectAsOnHost(image, 0, 0, 3000, cols, sums, 0, integrator);
    expectAsOnHost(image, 0, 0, 2600, 2700, both, 0, integrator);
    expectAsOnHost(image, 0, 0, 33, 500, both, 0, integrator);
}

// Sizes for which a GPU with 132 multiprocessors chooses each tile shape (the last: the largest, not all tiles at once);
// aligned, and regions with odd offsets to tables with tight rows, where neither side can be moved 16 bytes at a time.
TEST(IntegralCuda, LargeWithTilesOfEverySize) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    for (const auto &[rows, cols] :
         {std::pair<int, int>{705, 1003}, {1401, 2503}, {2001, 3003}, {3001, 4251}, {4501, 4099}}) {
        const Image image(rows + 3, cols + 5, random);
        for (const Case &c : CASES)
            for (const int odd : {0, 1})
                if (c.type == CUS_8UC1)
                    expectAsOnHost(image, 5 * odd, 3 * odd, rows, cols, c, static_cast<size_t>(odd), nullptr);
    }
}

// More than 2^31 bytes of table.
TEST(IntegralCuda, LargePastTwoToTheThirtyOneBytes) {
    CUS_NEEDS(CUS_DEVICE);
    const int n = 32768;
    support::Mat row, device, sum;
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
}

// Runs in stream order: sees the work queued before it in the stream.
TEST(IntegralCuda, RunsInTheGivenStream) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    const int rows = 700, cols = 1300;
    support::Owned<cusStreamDestroy> stream;
    CUS_ASSERT_OK(cusStreamCreate(&stream));
    support::Owned<cusIntegratorDestroy> integrator;
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, rows, cols, CUS_DEVICE));
    support::Mat pinned, src, sum, sqsum, out;
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
}

} // namespace
