// Device memory from the program's allocator: everything comes from there, goes back there, and may be missing.
#include "faults.hpp"

#include "cusight/cusight.h"

#include <map>
#include <mutex>

using namespace faults;

namespace {

// A pool of the program's. While a fault of class DEVICE_MEMORY is armed, its n-th block is missing.
class Pool {
  public:
    explicit Pool(size_t offset = 0) : offset_(offset) {}
    ~Pool() {
        CUS_EXPECT_OK(cusSetDeviceAllocator(nullptr));
        EXPECT_TRUE(blocks_.empty()) << blocks_.size() << " blocks were not given back";
        EXPECT_EQ(wrong_, 0) << "blocks given back with other bytes, device or address, or twice";
    }
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;
    cusDeviceAllocator allocator() { return {&Pool::allocate, &Pool::deallocate, this, {}}; }
    void use() {
        const cusDeviceAllocator a = allocator();
        CUS_EXPECT_OK(cusSetDeviceAllocator(&a));
    }
    size_t count() const { return blocks_.size(); }
    int taken = 0;              // blocks in all
    cusStream stream = nullptr; // of the last call
    size_t most_bytes = 0;

  private:
    struct Block {
        size_t bytes;
        int device;
    };
    static void *allocate(size_t bytes, int device, cusStream stream, void *user) {
        auto &pool = *static_cast<Pool *>(user);
        void *const data = strikes(DEVICE_MEMORY, "the program's allocator") ? nullptr : deviceBlock(bytes + 256);
        if (!data)
            return nullptr;
        const std::lock_guard<std::mutex> lock(pool.mutex_);
        void *const given = static_cast<char *>(data) + pool.offset_;
        pool.blocks_[given] = {bytes, device};
        pool.stream = stream;
        pool.most_bytes = std::max(pool.most_bytes, bytes);
        ++pool.taken;
        return given;
    }
    static void deallocate(void *data, size_t bytes, int device, cusStream stream, void *user) {
        auto &pool = *static_cast<Pool *>(user);
        const std::lock_guard<std::mutex> lock(pool.mutex_);
        const auto at = pool.blocks_.find(data);
        if (at == pool.blocks_.end() || at->second.bytes != bytes || at->second.device != device) {
            ++pool.wrong_;
            return;
        }
        pool.blocks_.erase(at);
        pool.stream = stream;
        freeDeviceBlock(static_cast<char *>(data) - pool.offset_);
    }

    const size_t offset_;
    std::map<void *, Block> blocks_;
    int wrong_ = 0;
    std::mutex mutex_;
};

class FaultsOfAllocator : public FaultTest {
  protected:
    // `body` with all device memory from a pool: none comes from CUDA, none is left.
    void check(const std::string &function, const Body &body) override {
        const std::string name = function + ", own allocator" + (GetParam() == GPU ? " (cuda)" : " (simulated)");
        Pool pool;
        pool.use();
        const int before = cudaAllocations();
        walk(name, body);
        EXPECT_EQ(cudaAllocations(), before) << name << ": memory from CUDA";
        EXPECT_GT(pool.taken, 0) << name;
        EXPECT_EQ(pool.count(), 0u) << name;
    }
};
INSTANTIATE_TEST_SUITE_P(, FaultsOfAllocator, testing::Values(GPU, SIMULATED), placeName);

TEST_P(FaultsOfAllocator, Images) {
    const Mat bytes(37, 65, CUS_8UC1, CUS_DEVICE, 1), second(37, 65, CUS_8UC1, CUS_DEVICE, 2);
    check("cusMatCreate", [&](Trial &t) {
        Mat m;
        t.call([&] { return cusMatCreate(&m, 7, 6, CUS_32FC1, CUS_DEVICE); });
    });
    check("cusIntegral", [&](Trial &t) {
        Mat sum, squares;
        t.call([&] { return cusIntegral(&bytes.mat, &sum, &squares, nullptr, nullptr); });
        t.result(sum.bytes());
        t.result(squares.bytes());
    });
    checkCreate<cusIntegratorDestroy>(
        "cusIntegratorCreate", [&](auto *integrator) { return cusIntegratorCreate(integrator, 64, 80, CUS_DEVICE); });
    checkCreate<cusDiffEncoderDestroy>("cusDiffEncoderCreate", [&](auto *encoder) {
        return cusDiffEncoderCreate(encoder, 37, 65, CUS_8UC3, CUS_DEVICE, nullptr);
    });
    checkCreate<cusContourMapperDestroy>("cusContourMapperCreate", [&](auto *mapper) {
        return cusContourMapperCreate(mapper, 40, 64, CUS_8UC1, CUS_DEVICE, nullptr);
    });
    cusStereoOptions options = cusStereoDefaults();
    options.shifts = 60;
    checkOutput("cusStereoElevation",
                [&](cusMat *out) { return cusStereoElevation(&bytes.mat, &second.mat, out, &options, nullptr); });
}

TEST_P(FaultsOfAllocator, Match) {
    const Mat templ(9, 11, CUS_8UC3, CUS_DEVICE, 2);
    cusMatcherOptions options = cusMatcherDefaults();
    options.method = CUS_MATCH_SQDIFF;
    options.algorithm = CUS_MATCH_FFT;
    for (const auto &[name, rows, cols] :
         {std::tuple{"cusMatcherCreate", 64, 80}, std::tuple{"cusMatcherCreate, cuFFT of timed sizes", 27, 20000}})
        check(name, [&, rows = rows, cols = cols](Trial &t) {
            support::Owned<cusMatcherDestroy> matcher;
            t.call([&] { return cusMatcherCreate(&matcher, &templ.mat, 1, rows, cols, &options, nullptr); });
        });
}

TEST_P(FaultsOfAllocator, EventsAndVideo) {
    const cusRepresentation r = cusRepresentationDefaults(CUS_REPR_MDES);
    checkCreate<cusEventStackerDestroy>("cusEventStackerCreate",
                                        [&](auto *s) { return cusEventStackerCreate(s, 48, 64, CUS_DEVICE, &r, 1); });
    std::vector<uint8_t> bytes(800);
    for (int64_t i = 0; i < 100; ++i)
        std::memcpy(&bytes[static_cast<size_t>(8 * i)], &i, sizeof i);
    const Mat times(1, 800, CUS_8UC1, CUS_DEVICE, bytes);
    cusEventArrays arrays = {};
    arrays.x = arrays.y = static_cast<const uint16_t *>(times.mat.data);
    arrays.p = static_cast<const uint8_t *>(times.mat.data);
    arrays.t = static_cast<const int64_t *>(times.mat.data);
    arrays.count = 100;
    arrays.space = CUS_DEVICE;
    cusWindowing windowing = cusWindowingDefaults();
    windowing.unit = CUS_WINDOW_DURATION;
    windowing.length = 30;
    check("cusEventWindows, by time", [&](Trial &t) {
        cusEventWindow windows[4] = {};
        size_t count = 0;
        t.call([&] { return cusEventWindows(&arrays, &windowing, windows, 4, &count, nullptr); });
        t.value(count);
    });
    cusEventPipelineOptions options = cusEventPipelineDefaults();
    options.windowing.length = 400;
    options.max_events = 1000;
    options.batch_windows = 2;
    options.compute = options.deliver = CUS_DEVICE;
    check("cusEventPipelineCreate", [&](Trial &t) {
        support::Owned<cusEventPipelineDestroy> p;
        const auto sink = [](void *, const cusFrameBatch *) { return CUS_OK; };
        t.call([&] { return cusEventPipelineCreate(&p, 48, 64, &r, 1, &options, sink, nullptr); });
    });
    cusSender *probe = nullptr;
    if (cusSenderCreate(&probe, 10, 30, CUS_8UC3, CUS_DEVICE, nullptr) == CUS_ERROR_UNSUPPORTED)
        return;
    cusSenderDestroy(probe);
    checkCreate<cusSenderDestroy>("cusSenderCreate",
                                  [&](auto *s) { return cusSenderCreate(s, 10, 30, CUS_8UC3, CUS_DEVICE, nullptr); });
}

// Whatever has been set since, each block goes back to where it came from.
TEST_P(FaultsOfAllocator, EachBlockGoesBackToItsOwn) {
    const Mat image(37, 65, CUS_8UC1, CUS_DEVICE, 1);
    Pool first, second;
    Mat a, b, c;
    cusIntegrator *integrator = nullptr;
    first.use();
    CUS_ASSERT_OK(cusMatCreate(&a, 3, 5, CUS_8UC1, CUS_DEVICE));
    EXPECT_EQ(a.mat.step, 512u);
    CUS_ASSERT_OK(cusIntegratorCreate(&integrator, 64, 80, CUS_DEVICE));
    EXPECT_EQ(first.count(), 2u);
    second.use();
    CUS_ASSERT_OK(cusMatCreate(&b, 3, 5, CUS_8UC1, CUS_DEVICE));
    EXPECT_EQ(second.count(), 1u);
    CUS_ASSERT_OK(cusSetDeviceAllocator(nullptr));
    CUS_ASSERT_OK(cusMatCreate(&c, 3, 5, CUS_8UC1, CUS_DEVICE));
    CUS_ASSERT_OK(cusMatCreate(&a, 30, 50, CUS_8UC1, CUS_DEVICE)); // another size: the old block goes back
    EXPECT_EQ(first.count(), 1u);
    Mat sum;
    CUS_ASSERT_OK(cusIntegratorRun(integrator, &image.mat, &sum, nullptr, nullptr, nullptr));
    cusIntegratorDestroy(integrator);
    EXPECT_EQ(first.count(), 0u);
    cusMatRelease(&b);
    EXPECT_EQ(second.count(), 0u);
    EXPECT_EQ(first.taken + second.taken, 3);
}

TEST_P(FaultsOfAllocator, StreamsAndBadBlocks) {
    const Mat image(37, 65, CUS_8UC1, CUS_DEVICE, 1);
    cusStream stream = nullptr;
    CUS_ASSERT_OK(cusStreamCreate(&stream));
    Mat sum;
    CUS_ASSERT_OK(cusMatCreate(&sum, 38, 66, CUS_32SC1, CUS_DEVICE));
    {
        Pool pool;
        pool.use();
        CUS_ASSERT_OK(cusIntegral(&image.mat, &sum, nullptr, nullptr, stream));
        EXPECT_EQ(pool.taken, 1);
        EXPECT_EQ(pool.stream, stream) << "the workspace of a call belongs to its stream";
        CUS_ASSERT_OK(cusStreamSynchronize(stream));
        Mat m;
        CUS_ASSERT_OK(cusMatCreate(&m, 3, 5, CUS_8UC1, CUS_DEVICE));
        EXPECT_EQ(pool.stream, nullptr);
    }
    cusStreamDestroy(stream);
    Pool shifted(16);
    shifted.use();
    Mat m;
    CUS_REJECTS(cusMatCreate(&m, 3, 5, CUS_8UC1, CUS_DEVICE), VALUE, "multiple of 256");
    EXPECT_EQ(m.mat.data, nullptr);
    EXPECT_EQ(shifted.count(), 0u);
}

} // namespace
