// Device memory from the program's own allocator: same results, and every block goes back. Failures: test/faults.
#include "support.hpp"

#include "cusight/cusight.hpp"

#include <new>
#include <set>

#ifdef CUSIGHT_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace {

void *never(size_t, int, cusStream, void *) {
    return nullptr;
}
void nothing(void *, size_t, int, cusStream, void *) {}

TEST(DeviceAllocator, ArgumentsAndBuildsWithoutCuda) {
    const cusDeviceAllocator no_allocate = {nullptr, &nothing, nullptr, {}}, no_deallocate = {&never, nullptr, nullptr, {}};
    CUS_REJECTS(cusSetDeviceAllocator(&no_allocate), NULL, "cusSetDeviceAllocator: allocator->allocate is NULL");
    CUS_REJECTS(cusSetDeviceAllocator(&no_deallocate), NULL, "cusSetDeviceAllocator: allocator->deallocate is NULL");
    const cusDeviceAllocator good = {&never, &nothing, nullptr, {}};
#ifdef CUSIGHT_HAVE_CUDA
    CUS_EXPECT_OK(cusSetDeviceAllocator(&good));
    CUS_EXPECT_OK(cusSetDeviceAllocator(nullptr));
#else
    CUS_REJECTS(cusSetDeviceAllocator(&good), NO_CUDA, "cusSetDeviceAllocator");
    CUS_REJECTS(cusSetDeviceAllocator(nullptr), NO_CUDA, "cusSetDeviceAllocator");
#endif
    cusMat m = CUS_MAT_INIT; // host memory is not affected
    CUS_EXPECT_OK(cusMatCreate(&m, 3, 5, CUS_8UC1, CUS_HOST));
    cusMatRelease(&m);
}

#ifdef CUSIGHT_HAVE_CUDA

struct Pool {
    std::set<void *> blocks;
    size_t bytes = 0, most = SIZE_MAX; // beyond `most`: bad_alloc
    int calls = 0;
    void *allocate(size_t n, int, cusStream stream) {
        ++calls;
        void *data = nullptr;
        if (bytes + n > most || cudaMallocAsync(&data, n, stream) != cudaSuccess)
            throw std::bad_alloc();
        bytes += n;
        EXPECT_TRUE(blocks.insert(data).second);
        return data;
    }
    void deallocate(void *data, size_t n, int, cusStream stream) {
        bytes -= n;
        EXPECT_EQ(blocks.erase(data), 1u);
        EXPECT_EQ(cudaFreeAsync(data, stream), cudaSuccess);
    }
    ~Pool() {
        cusight::resetDeviceAllocator();
        EXPECT_TRUE(blocks.empty());
        EXPECT_EQ(bytes, 0u);
    }
};

// Everything that allocates, once; the results.
std::vector<std::vector<uint8_t>> everything(const cusMat &image, cusStream stream) {
    std::vector<std::vector<uint8_t>> results;
    const auto keep = [&](const cusMat &device) {
        cusight::Matrix host;
        cusight::copy(device, host, CUS_HOST, stream);
        CUS_EXPECT_OK(cusStreamSynchronize(stream));
        const cusMat &m = host.get();
        const auto *p = static_cast<const uint8_t *>(m.data);
        results.emplace_back(p, p + static_cast<size_t>(m.rows) * m.step);
    };
    cusight::Matrix frame, sum, elevation;
    cusight::copy(image, frame, CUS_DEVICE, stream);
    CUS_EXPECT_OK(cusIntegral(&frame.get(), &sum.get(), nullptr, nullptr, stream));
    keep(sum.get());
    CUS_EXPECT_OK(cusStereoElevation(&frame.get(), &frame.get(), &elevation.get(), nullptr, stream));
    keep(elevation.get());
    cusMat templ = CUS_MAT_INIT;
    CUS_EXPECT_OK(cusMatRegion(&frame.get(), 7, 5, 12, 10, &templ));
    for (const auto &[rows, cols] : {std::pair{image.rows, image.cols}, std::pair{30, 20000}}) {
        cusMatcherOptions options = cusMatcherDefaults();
        options.method = CUS_MATCH_SQDIFF;
        options.algorithm = CUS_MATCH_FFT;
        support::Owned<cusMatcherDestroy> matcher;
        CUS_EXPECT_OK(cusMatcherCreate(&matcher, &templ, 1, rows, cols, &options, stream));
        if (rows == image.rows) {
            cusMat scores = CUS_MAT_INIT;
            CUS_EXPECT_OK(cusMatcherRun(matcher, &frame.get(), &scores, stream));
            keep(scores);
            cusMatRelease(&scores);
        }
    }
    return results;
}

TEST(DeviceAllocatorCuda, SameResultsAndEveryBlockGoesBack) {
    CUS_NEEDS(CUS_DEVICE);
    cusight::Matrix image(120, 200, CUS_8UC1);
    std::mt19937_64 random = support::generator();
    for (int y = 0; y < 120; ++y)
        for (int x = 0; x < 200; ++x)
            static_cast<uint8_t *>(image.get().data)[y * static_cast<int>(image.get().step) + x] =
                static_cast<uint8_t>(random());
    const cusight::Stream stream;
    const auto expected = everything(image.get(), stream);
    Pool pool;
    cusight::setDeviceAllocator(pool);
    EXPECT_EQ(everything(image.get(), stream), expected);
    EXPECT_GT(pool.calls, 30);
    EXPECT_TRUE(pool.blocks.empty());
    pool.most = 1000;
    cusMat m = CUS_MAT_INIT;
    CUS_REJECTS(cusMatCreate(&m, 100, 100, CUS_8UC1, CUS_DEVICE), NO_MEMORY, "cusMatCreate: no device memory");
    cusight::resetDeviceAllocator();
    CUS_EXPECT_OK(cusMatCreate(&m, 100, 100, CUS_8UC1, CUS_DEVICE));
    cusMatRelease(&m);
}

#endif

} // namespace
