#include "cusight/cusight.h"
#include "support.hpp"

#include <array>
#include <thread>

#ifdef CUSIGHT_HAVE_OPENCV
#include "cusight/opencv.hpp"
#endif

using support::TestMat;
using Bytes = std::vector<uint8_t>;

TEST(Core, TypesAreOpenCVs) {
    EXPECT_EQ(CUS_8UC1, 0);
    EXPECT_EQ(CUS_8UC3, 16);
    EXPECT_EQ(CUS_8UC4, 24);
    EXPECT_EQ(CUS_32FC1, 5);
    EXPECT_EQ(cusTypeSize(CUS_8UC3), 3u);
    EXPECT_EQ(cusTypeSize(CUS_64FC1), 8u);
    EXPECT_EQ(cusTypeSize(CUS_MAKETYPE(CUS_16U, 5)), 10u);
    EXPECT_EQ(CUS_16F, 7);
    EXPECT_EQ(cusTypeSize(CUS_MAKETYPE(CUS_16F, 5)), 10u);
    EXPECT_EQ(cusTypeSize(CUS_MAKETYPE(CUS_16F, 512)), 1024u);
    EXPECT_EQ(cusTypeSize(CUS_MAKETYPE(CUS_16F, 512) + 1), 0u);
    EXPECT_EQ(cusTypeSize(-1), 0u);
    EXPECT_EQ(cusTypeSize(1 << 20), 0u);
}

TEST(Core, NamesAndVersion) {
    EXPECT_STREQ(cusVersion(), "0.3.0");
    EXPECT_STREQ(cusStatusName(CUS_OK), "CUS_OK");
    EXPECT_STREQ(cusStatusName(CUS_ERROR_TRUNCATED), "CUS_ERROR_TRUNCATED");
    EXPECT_STREQ(cusStatusName(static_cast<cusStatus>(99)), "unknown status");
}

TEST(Core, BuildInformation) {
    const std::string text = cusBuildInformation();
    EXPECT_EQ(text.rfind(std::string("cusight ") + cusVersion() + "\n", 0), 0u) << text;
    for (const char *name : {"Blosc", "zstd", "CUDA", "OpenMP", "Compiler", "Processor", "Build type"})
        EXPECT_NE(text.find(std::string("\n  ") + name + ":"), std::string::npos) << name << " is missing in\n" << text;
    EXPECT_EQ(text.find(":\n"), std::string::npos) << "every line has a value:\n" << text;
    EXPECT_EQ(text.back(), '\n');
    EXPECT_EQ(text.find('@'), std::string::npos) << text;
    int gpus = 0;
    CUS_ASSERT_OK(cusDeviceCount(&gpus));
    EXPECT_TRUE(gpus == 0 || text.find("CUDA:           no") == std::string::npos) << text;
}

TEST(Core, MessagesArePerThread) {
    CUS_REJECTS(cusMatCreate(nullptr, 1, 1, 0, CUS_HOST), NULL, "cusMatCreate: mat is NULL");
    std::thread([] {
        EXPECT_STREQ(cusLastError(), "");
        CUS_REJECTS(cusMatSetZero(nullptr, nullptr), NULL, "cusMatSetZero: mat is NULL");
    }).join();
    EXPECT_NE(std::string(cusLastError()).find("cusMatCreate"), std::string::npos);
}

class Mat : public support::SpaceTest {};
CUS_BOTH_SPACES(Mat);

TEST_P(Mat, CreateReusesWhatFits) {
    support::Mat m;
    CUS_ASSERT_OK(cusMatCreate(&m, 48, 64, CUS_8UC3, space()));
    EXPECT_EQ(m.space, space());
    EXPECT_GE(m.step, 64u * 3);
    void *data = m.data;
    CUS_ASSERT_OK(cusMatCreate(&m, 48, 64, CUS_8UC3, space()));
    EXPECT_EQ(m.data, data);
    CUS_ASSERT_OK(cusMatCreate(&m, 480, 640, CUS_32FC1, space()));
    EXPECT_EQ(m.rows, 480);
    EXPECT_EQ(m.type, CUS_32FC1);
    cusMatRelease(&m);
    cusMatRelease(&m);
    EXPECT_EQ(m.data, nullptr);
    cusMatRelease(nullptr);
}

TEST_P(Mat, CreateRejectsAndKeepsWhatWas) {
    support::Mat m;
    CUS_ASSERT_OK(cusMatCreate(&m, 4, 4, CUS_8UC1, space()));
    void *data = m.data;
    CUS_REJECTS(cusMatCreate(&m, 0, 4, CUS_8UC1, space()), VALUE, "size is 0 x 4 (rows x cols), expected at least 1 x 1");
    CUS_REJECTS(cusMatCreate(&m, 4, -1, CUS_8UC1, space()), VALUE, "size is 4 x -1");
    CUS_REJECTS(cusMatCreate(&m, 4, 4, 4096, space()), TYPE, "type is 4096 (invalid)");
    CUS_REJECTS(cusMatCreate(&m, 4, 4, 0, static_cast<cusSpace>(5)), VALUE, "space is 5");
    CUS_REJECTS(cusMatCreate(&m, INT32_MAX, INT32_MAX, CUS_64FC1, space()), NO_MEMORY, "cusMatCreate");
    EXPECT_EQ(m.data, data);
    EXPECT_EQ(m.rows, 4);
}

TEST_P(Mat, WrappedAndRegionOwnNothing) {
    const Bytes bytes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    TestMat whole(3, 4, CUS_8UC1, space(), {5, 3}, bytes.data());
    support::Mat region;
    CUS_ASSERT_OK(cusMatRegion(&whole.mat, 1, 1, 2, 2, &region));
    EXPECT_EQ(support::elements(region), (Bytes{5, 6, 9, 10}));
    EXPECT_EQ(region.step, whole.mat.step);
    CUS_REJECTS(cusMatCreate(&region, 5, 5, CUS_8UC1, space()), SIZE, "mat does not own its memory and is 2 x 2");
    CUS_ASSERT_OK(cusMatCreate(&region, 2, 2, CUS_8UC1, space()));
    CUS_ASSERT_OK(cusMatSetZero(&region, nullptr));
    EXPECT_EQ(whole.get(), (Bytes{0, 1, 2, 3, 4, 0, 0, 7, 8, 0, 0, 11}));
    EXPECT_TRUE(whole.intact());
    CUS_ASSERT_OK(cusMatRegion(&region, 0, 1, 2, 1, &region)) << "a region of itself, as it owns nothing";
    cusMatRelease(&region);
    EXPECT_TRUE(whole.intact());
    for (auto [x, y, w, h] : {std::array<int, 4>{-1, 0, 1, 1},
                              {0, -1, 1, 1},
                              {3, 0, 2, 1},
                              {0, 2, 1, 2},
                              {0, 0, 0, 1},
                              {0, 0, 1, 0},
                              {INT32_MAX, 0, INT32_MAX, 1}})
        CUS_REJECTS(cusMatRegion(&whole.mat, x, y, w, h, &region), VALUE, "expected a rectangle inside 3 x 4");
    EXPECT_EQ(region.data, nullptr);
    support::Mat owner;
    CUS_ASSERT_OK(cusMatCreate(&owner, 4, 4, CUS_8UC1, space()));
    CUS_REJECTS(cusMatRegion(&owner, 0, 0, 2, 2, &owner), ALIAS, "region is mat and mat owns its memory");
    CUS_REJECTS(cusMatWrap(&owner, 1, 1, CUS_8UC1, space(), owner.data, 0), ALIAS, "data points to memory that mat owns");
}

TEST(MatHost, WrapChecksItsArguments) {
    cusMat m = CUS_MAT_INIT;
    alignas(8) char memory[64];
    CUS_REJECTS(cusMatWrap(nullptr, 1, 1, 0, CUS_HOST, memory, 0), NULL, "mat is NULL");
    CUS_REJECTS(cusMatWrap(&m, 1, 1, 0, CUS_HOST, nullptr, 0), NULL, "data is NULL");
    CUS_REJECTS(cusMatWrap(&m, 0, 1, 0, CUS_HOST, memory, 0), VALUE, "0 x 1");
    CUS_REJECTS(cusMatWrap(&m, 2, 8, CUS_8UC1, CUS_HOST, memory, 7), VALUE, "step is 7 bytes, expected 0 or at least");
    CUS_REJECTS(cusMatWrap(&m, 2, 1, CUS_32SC1, CUS_HOST, memory, 6), VALUE, "multiples of 4 bytes");
    CUS_REJECTS(cusMatWrap(&m, 1, 1, CUS_32SC1, CUS_HOST, memory + 1, 0), VALUE, "multiples of 4 bytes");
    CUS_REJECTS(cusMatWrap(&m, 1, 1, -1, CUS_HOST, memory, 0), TYPE, "type is -1 (invalid)");
    EXPECT_EQ(m.data, nullptr);
}

TEST_P(Mat, CopyHonoursStepsAndSpaces) {
    auto random = support::generator();
    const Bytes bytes = support::randomBytes(7 * 13 * 3, random);
    for (auto from : support::layouts(CUS_8UC3))
        for (auto to : support::layouts(CUS_8UC3)) {
            TestMat src(7, 13, CUS_8UC3, space(), from, bytes.data()), dst(7, 13, CUS_8UC3, space(), to);
            CUS_ASSERT_OK(cusMatCopy(&src.mat, &dst.mat, nullptr));
            EXPECT_EQ(dst.get(), bytes);
            EXPECT_TRUE(dst.intact());
        }
    TestMat a(4, 4, CUS_8UC1, space()), b(4, 5, CUS_8UC1, space());
    CUS_REJECTS(cusMatCopy(&a.mat, &b.mat, nullptr), SIZE, "cusMatCopy: dst does not own its memory and is 4 x 5");
    CUS_REJECTS(cusMatCopy(&a.mat, &a.mat, nullptr), ALIAS, "cusMatCopy: dst overlaps src");
    CUS_REJECTS(cusMatCopy(nullptr, &a.mat, nullptr), NULL, "src is NULL");
    // Two halves of one image interleave in memory but share nothing.
    cusMat left = CUS_MAT_INIT, right = CUS_MAT_INIT, middle = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatRegion(&a.mat, 0, 0, 2, 4, &left));
    CUS_ASSERT_OK(cusMatRegion(&a.mat, 2, 0, 2, 4, &right));
    CUS_ASSERT_OK(cusMatRegion(&a.mat, 1, 0, 2, 4, &middle));
    CUS_EXPECT_OK(cusMatCopy(&left, &right, nullptr));
    CUS_EXPECT_OK(cusMatCopy(&right, &left, nullptr));
    CUS_REJECTS(cusMatCopy(&left, &middle, nullptr), ALIAS, "overlaps");
    CUS_REJECTS(cusMatCopy(&middle, &left, nullptr), ALIAS, "overlaps");
}

TEST(MatCuda, UploadAndDownloadThroughPinnedMemoryInAStream) {
    CUS_NEEDS(CUS_DEVICE);
    support::Owned<cusStreamDestroy> stream;
    CUS_ASSERT_OK(cusStreamCreate(&stream));
    auto random = support::generator();
    support::Mat pinned, back, device;
    CUS_ASSERT_OK(cusMatCreatePinned(&pinned, 37, 41, CUS_8UC3));
    CUS_ASSERT_OK(cusMatCreatePinned(&back, 37, 41, CUS_8UC3));
    const Bytes bytes = support::randomBytes(37 * 41 * 3, random);
    std::memcpy(pinned.data, bytes.data(), bytes.size());
    CUS_ASSERT_OK(cusMatUpload(&pinned, &device, stream));
    CUS_ASSERT_OK(cusMatDownload(&device, &back, stream));
    CUS_ASSERT_OK(cusStreamSynchronize(stream));
    EXPECT_EQ(support::elements(back), bytes);
    EXPECT_GT(device.step, 41u * 3) << "device rows have CUDA's pitch";
    CUS_ASSERT_OK(cusMatCreate(&back, 50, 50, CUS_8UC1, CUS_HOST));
    EXPECT_TRUE(back.pinned) << "a pinned matrix stays pinned";
    CUS_REJECTS(cusMatUpload(&device, &back, stream), SPACE, "cusMatUpload: src is in device memory, expected host");
    CUS_REJECTS(cusMatDownload(&pinned, &back, stream), SPACE, "cusMatDownload: src is in host memory");
    CUS_REJECTS(cusMatUpload(&pinned, &back, stream), SPACE, "dst is in CUS_HOST, expected CUS_DEVICE");
}

TEST(MatCuda, EventsOrderStreamsAndMeasure) {
    CUS_NEEDS(CUS_DEVICE);
    support::Owned<cusStreamDestroy> first, second;
    support::Owned<cusStreamEventDestroy> begin, end;
    CUS_ASSERT_OK(cusStreamCreate(&first));
    CUS_ASSERT_OK(cusStreamCreate(&second));
    CUS_ASSERT_OK(cusStreamEventCreate(&begin));
    CUS_ASSERT_OK(cusStreamEventCreate(&end));
    support::Mat big, copy;
    CUS_ASSERT_OK(cusMatCreate(&big, 4096, 4096, CUS_32SC1, CUS_DEVICE));
    CUS_ASSERT_OK(cusMatCreate(&copy, 4096, 4096, CUS_32SC1, CUS_DEVICE));
    CUS_ASSERT_OK(cusStreamEventRecord(begin, first));
    CUS_ASSERT_OK(cusMatSetZero(&big, first));
    CUS_ASSERT_OK(cusStreamEventRecord(end, first));
    CUS_ASSERT_OK(cusStreamWaitEvent(second, end));
    CUS_ASSERT_OK(cusMatCopy(&big, &copy, second));
    CUS_ASSERT_OK(cusStreamSynchronize(second));
    float milliseconds = -1;
    CUS_ASSERT_OK(cusStreamEventElapsed(begin, end, &milliseconds));
    EXPECT_GT(milliseconds, 0);
    cusMat row = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatRegion(&copy, 0, 4095, 4096, 1, &row));
    EXPECT_EQ(support::elements<int>(row), std::vector<int>(4096, 0));
}

TEST(MatCuda, OutOfMemoryLeavesTheMatrixAsItWas) {
    CUS_NEEDS(CUS_DEVICE);
    support::Mat m;
    CUS_ASSERT_OK(cusMatCreate(&m, 4, 4, CUS_8UC1, CUS_DEVICE));
    void *data = m.data;
    CUS_REJECTS(cusMatCreate(&m, 1 << 20, 1 << 20, CUS_8UC1, CUS_DEVICE), NO_MEMORY, "no device memory for");
    EXPECT_EQ(m.data, data);
    CUS_EXPECT_OK(cusMatSetZero(&m, nullptr));
}

TEST(Device, QueryNamesWhatIsThere) {
    int count = -1;
    CUS_ASSERT_OK(cusDeviceCount(&count));
    EXPECT_GE(count, 0);
    cusDeviceInfo info;
    if (count == 0) {
        EXPECT_EQ(cusDeviceQuery(0, &info), CUS_ERROR_NO_CUDA);
        EXPECT_EQ(cusDeviceSet(0), CUS_ERROR_NO_CUDA);
        cusMat m = CUS_MAT_INIT;
        EXPECT_EQ(cusMatCreate(&m, 4, 4, CUS_8UC1, CUS_DEVICE), CUS_ERROR_NO_CUDA) << cusLastError();
        EXPECT_EQ(cusMatCreatePinned(&m, 4, 4, CUS_8UC1), CUS_ERROR_NO_CUDA) << cusLastError();
        EXPECT_EQ(m.data, nullptr);
        cusStream stream = nullptr;
        EXPECT_EQ(cusStreamCreate(&stream), CUS_ERROR_NO_CUDA) << cusLastError();
        cusDiffEncoder *encoder = nullptr;
        EXPECT_EQ(cusDiffEncoderCreate(&encoder, 4, 4, CUS_8UC1, CUS_DEVICE, nullptr), CUS_ERROR_NO_CUDA) << cusLastError();
        EXPECT_EQ(encoder, nullptr);
        return;
    }
    CUS_ASSERT_OK(cusDeviceQuery(0, &info));
    EXPECT_GT(std::strlen(info.name), 0u);
    EXPECT_GT(info.multiprocessors, 0);
    EXPECT_GT(info.memory_free, 0u);
    EXPECT_EQ(cusDeviceQuery(count, &info), CUS_ERROR_VALUE);
    CUS_REJECTS(cusDeviceSet(count), VALUE, "cusDeviceSet: device is");
    int current = -1;
    CUS_ASSERT_OK(cusDeviceSet(0));
    CUS_ASSERT_OK(cusDeviceGet(&current));
    EXPECT_EQ(current, 0);
}

TEST(Device, NullArguments) {
    EXPECT_EQ(cusDeviceCount(nullptr), CUS_ERROR_NULL);
    EXPECT_EQ(cusDeviceGet(nullptr), CUS_ERROR_NULL);
    EXPECT_EQ(cusDeviceQuery(0, nullptr), CUS_ERROR_NULL);
    EXPECT_EQ(cusStreamCreate(nullptr), CUS_ERROR_NULL);
    EXPECT_EQ(cusStreamEventCreate(nullptr), CUS_ERROR_NULL);
    cusStreamDestroy(nullptr);
    cusStreamEventDestroy(nullptr);
}

#ifdef CUSIGHT_HAVE_OPENCV
TEST(OpenCV, MatInAndOutWithoutCopying) {
    cv::Mat image(20, 30, CV_8UC3, cv::Scalar(1, 2, 3));
    const cv::Mat region = image(cv::Rect(5, 3, 10, 4));
    const cusMat m = cusight::view(region);
    EXPECT_EQ(m.data, region.data);
    EXPECT_EQ(m.step, image.step[0]);
    EXPECT_EQ(m.rows, 4);
    EXPECT_EQ(m.cols, 10);
    EXPECT_EQ(m.type, CUS_8UC3);
    const cv::Mat back = cusight::toMat(m);
    EXPECT_EQ(back.data, region.data);
    EXPECT_EQ(cv::norm(back, region, cv::NORM_INF), 0);
    cusMat empty = cusight::view(cv::Mat());
    EXPECT_EQ(empty.data, nullptr);
    EXPECT_TRUE(cusight::toMat(empty).empty());
}

TEST(OpenCV, GpuMatInAndOutWithoutCopying) {
    // Even without CUDA, OpenCV can wrap external memory in a GpuMat.
    uint8_t memory[4 * 32] = {};
    cv::cuda::GpuMat image(4, 10, CV_8UC3, memory, 32);
    const cv::cuda::GpuMat region = image(cv::Rect(2, 1, 5, 2));
    const cusMat m = cusight::view(region);
    EXPECT_EQ(m.space, CUS_DEVICE);
    EXPECT_EQ(m.data, memory + 32 + 6);
    EXPECT_EQ(m.step, 32u);
    const cv::cuda::GpuMat back = cusight::toGpuMat(m);
    EXPECT_EQ(back.data, region.data);
    EXPECT_EQ(back.cols, 5);
}
#endif
