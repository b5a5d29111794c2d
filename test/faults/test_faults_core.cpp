// Matrices, streams and devices under faults. The first test of the program: nothing has opened cuFFT yet.
#include "faults.hpp"

#include "cusight/cusight.h"
#include "cusight/dlpack.h"

using namespace faults;

namespace {

class Faults : public FaultTest {};
FAULTS_IN_ALL_PLACES(Faults);

TEST_P(Faults, CufftThatCannotBeOpened) {
    if (GetParam() == HOST)
        GTEST_SKIP() << "cuFFT is used on the device only";
    const Mat templates(9, 9, CUS_8UC1, space(), 1);
    cusMatcherOptions options = cusMatcherDefaults();
    options.method = CUS_MATCH_SQDIFF;
    options.algorithm = CUS_MATCH_FFT;
    check("cusMatcherCreate, first FFT", [&](Trial &t) {
        support::Owned<cusMatcherDestroy> matcher;
        t.attempt([&] { return cusMatcherCreate(&matcher, &templates.mat, 1, 64, 80, &options, nullptr); });
        if (t.failed && std::string(lastVictim()).rfind("dl", 0) == 0)
            EXPECT_NE(std::string(cusLastError()).find("libcufft"), std::string::npos) << cusLastError();
    });
}

TEST_P(Faults, MatCreate) {
    check("cusMatCreate", [&](Trial &t) {
        Mat m(3, 5, CUS_8UC1, space(), 1);
        const cusMat before = m.mat;
        t.call([&] { return cusMatCreate(&m, 7, 6, CUS_32FC1, space()); },
               [&] {
                   EXPECT_EQ(std::memcmp(&before, &m.mat, sizeof before), 0) << "changed by a failed call";
                   return cusMatCreate(&m, 7, 6, CUS_32FC1, space());
               });
    });
    if (GetParam() == HOST)
        return;
    check("cusMatCreatePinned", [&](Trial &t) {
        Mat m;
        t.call([&] { return cusMatCreatePinned(&m, 7, 6, CUS_32FC1); });
    });
}

TEST_P(Faults, MatCopies) {
    check("cusMatCopy", [&](Trial &t) {
        const Mat src(5, 7, CUS_8UC3, space(), 1);
        Mat dst;
        t.call([&] { return cusMatCopy(&src.mat, &dst, nullptr); });
        t.result(dst.bytes());
    });
    check("cusMatSetZero", [&](Trial &t) {
        Mat m(5, 7, CUS_8UC3, space(), 1);
        t.call([&] { return cusMatSetZero(&m, nullptr); });
        t.result(m.bytes());
    });
    if (GetParam() == HOST)
        return;
    check("cusMatUpload", [&](Trial &t) {
        const Mat src(5, 7, CUS_8UC3, CUS_HOST, 1);
        Mat dst;
        t.call([&] { return cusMatUpload(&src.mat, &dst, nullptr); });
        t.result(dst.bytes());
    });
    check("cusMatDownload", [&](Trial &t) {
        const Mat src(5, 7, CUS_8UC3, space(), 1);
        Mat dst;
        t.call([&] { return cusMatDownload(&src.mat, &dst, nullptr); });
        CUS_EXPECT_OK(cusStreamSynchronize(nullptr));
        t.result(dst.bytes());
    });
}

// There and back; a matrix that could not become a tensor keeps what it owns.
TEST(FaultsOnTheHost, Dlpack) {
    walk("cusMatToDlpack, cusMatFromDlpack", [&](Trial &t) {
        Mat m(5, 7, CUS_8UC3, CUS_HOST, 1), back;
        const cusMat before = m.mat;
        DLManagedTensorVersioned *tensor = nullptr;
        const auto convert = [&] {
            CUS_TRY(cusMatToDlpack(&m, CUS_DLPACK_WRITE, nullptr, nullptr, &tensor));
            return cusMatFromDlpack(tensor, CUS_DLPACK_WRITE, &back);
        };
        t.call(convert, [&] {
            EXPECT_EQ(std::memcmp(&before, &m.mat, sizeof before), 0) << "changed by a failed call";
            EXPECT_EQ(tensor, nullptr);
            return convert();
        });
        t.result(back.bytes());
    });
}

TEST_P(Faults, Streams) {
    if (GetParam() == HOST)
        GTEST_SKIP() << "device only";
    checkCreate<cusStreamDestroy>("cusStreamCreate", [&](auto *stream) { return cusStreamCreate(stream); });
    check("cusStreamEvent...", [&](Trial &t) {
        support::Owned<cusStreamEventDestroy> a, b;
        float ms = 0;
        t.call([&] {
            if (!a)
                CUS_TRY(cusStreamEventCreate(&a));
            if (!b)
                CUS_TRY(cusStreamEventCreate(&b));
            CUS_TRY(cusStreamEventRecord(a, nullptr));
            CUS_TRY(cusStreamEventRecord(b, nullptr));
            CUS_TRY(cusStreamWaitEvent(nullptr, a));
            CUS_TRY(cusStreamEventSynchronize(b));
            CUS_TRY(cusStreamEventElapsed(a, b, &ms));
            return cusStreamSynchronize(nullptr);
        });
    });
    check("cusDeviceSet, cusDeviceGet", [&](Trial &t) {
        int device = -1;
        t.call([&] {
            CUS_TRY(cusDeviceSet(0));
            return cusDeviceGet(&device);
        });
    });
    check("cusDeviceQuery", [&](Trial &t) {
        cusDeviceInfo info;
        t.call([&] { return cusDeviceQuery(0, &info); });
    });
}

} // namespace
