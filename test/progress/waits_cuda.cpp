// Cancelling in calls that wait for a device: the wait ends, the work goes on.
#include "progress/support.hpp"

#ifdef CUSIGHT_HAVE_CUDA

#include "cusight/eventgen.h"
#include "cusight/framediff.h"
#include "cusight/match.h"
#include "cusight/motion.h"
#include "cusight/pose.h"
#include "cusight/raw.h"

#include <atomic>
#include <chrono>
#include <cuda_runtime_api.h>
#include <thread>

using namespace progress_test;

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A stream whose work does not go on before the gate is opened.
class CancellingCuda : public testing::Test {
  protected:
    void SetUp() override {
        CUS_NEEDS(CUS_DEVICE);
        CUS_ASSERT_OK(cusStreamCreate(&stream));
    }
    void TearDown() override {
        cusSetProgress(nullptr, nullptr);
        is_open = true;
        if (stream)
            CUS_EXPECT_OK(cusStreamSynchronize(stream));
        cusStreamDestroy(stream);
    }
    static void CUDART_CB waitForTheGate(void *test) {
        const auto begin = Clock::now();
        while (!static_cast<CancellingCuda *>(test)->is_open &&
               secondsSince(begin) < 20) // a call that waits fails the test
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    // Makes the call behind the gate; it is cancelled, and once the gate is open it gives what it would have given.
    void walkWait(const char *name, const std::function<cusStatus()> &call) {
        CUS_ASSERT_OK(call()); // loading a kernel for its first launch would wait for the gate
        is_open = false;
        ASSERT_EQ(cudaLaunchHostFunc(stream, waitForTheGate, this), cudaSuccess);
        Watch watch;
        watch.cancel_at = 3;
        watch.set();
        CUS_EXPECT_ERROR(call(), CUS_ERROR_CANCELLED, std::string(name) + ": cancelled at ");
        EXPECT_EQ(watch.calls, 3);
        EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady) << "the call has waited for the work";
        cusSetProgress(nullptr, nullptr);
        is_open = true;
        CUS_EXPECT_OK(call());
    }
    cusStream stream = nullptr;
    std::atomic<bool> is_open{false};
};

TEST_F(CancellingCuda, StreamSynchronize) {
    walkWait("cusStreamSynchronize", [&] { return cusStreamSynchronize(stream); });
}

TEST_F(CancellingCuda, StreamEventSynchronizeAndElapsed) {
    cusStreamEvent event = nullptr;
    CUS_ASSERT_OK(cusStreamEventCreate(&event));
    walkWait("cusStreamEventSynchronize", [&] {
        CUS_TRY(cusStreamEventRecord(event, stream));
        return cusStreamEventSynchronize(event);
    });
    float milliseconds = 0;
    walkWait("cusStreamEventElapsed", [&] {
        CUS_TRY(cusStreamEventRecord(event, stream));
        return cusStreamEventElapsed(event, event, &milliseconds);
    });
    cusStreamEventDestroy(event);
}

TEST_F(CancellingCuda, MatDownload) {
    support::Mat there, host;
    CUS_ASSERT_OK(cusMatCreate(&there, 100, 100, CUS_8UC1, CUS_DEVICE));
    CUS_ASSERT_OK(cusMatSetZero(&there, nullptr));
    walkWait("cusMatDownload", [&] { return cusMatDownload(&there, &host, stream); });
}

TEST_F(CancellingCuda, MatcherGet) {
    support::Mat frame, templ;
    support::Owned<cusMatcherDestroy> matcher;
    CUS_ASSERT_OK(cusMatCreate(&frame, 100, 100, CUS_8UC1, CUS_DEVICE));
    CUS_ASSERT_OK(cusMatSetZero(&frame, stream));
    CUS_ASSERT_OK(cusMatRegion(&frame, 10, 10, 16, 16, &templ));
    cusMatcherOptions matching = cusMatcherDefaults();
    matching.method = CUS_MATCH_SQDIFF, matching.algorithm = CUS_MATCH_DIRECT;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, &templ, 1, 100, 100, &matching, stream));
    walkWait("cusMatcherGet", [&] {
        CUS_TRY(cusMatcherRun(matcher, &frame, nullptr, stream));
        cusMatch match;
        int found = 0;
        return cusMatcherGet(matcher, 0, &match, 1, &found, stream);
    });
}

TEST_F(CancellingCuda, EventGeneratorCheck) {
    support::Mat frame;
    support::Owned<cusEventGeneratorDestroy> generator;
    CUS_ASSERT_OK(cusMatCreate(&frame, 100, 100, CUS_8UC1, CUS_DEVICE));
    CUS_ASSERT_OK(cusMatSetZero(&frame, stream));
    cusEventGeneratorOptions generating = cusEventGeneratorDefaults();
    generating.space = CUS_DEVICE, generating.max_events = 1000;
    CUS_ASSERT_OK(cusEventGeneratorCreate(&generator, 100, 100, &generating));
    int64_t time = 0;
    walkWait("cusEventGeneratorCheck", [&] {
        time += 1000;
        const cusEventBuffers none = {};
        CUS_TRY(cusEventGeneratorRun(generator, &frame, &time, 1, &none, nullptr, stream));
        return cusEventGeneratorCheck(generator, nullptr, stream);
    });
}

TEST_F(CancellingCuda, EventDecoderCheck) {
    support::Owned<cusEventDecoderDestroy> decoder;
    cusEventDecoderOptions decoding = cusEventDecoderDefaults();
    decoding.format = CUS_EVENTS_EVT3, decoding.space = CUS_DEVICE, decoding.max_bytes = 4096;
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &decoding));
    walkWait("cusEventDecoderCheck", [&] {
        const cusEventBuffers none = {};
        CUS_TRY(cusEventDecoderRun(decoder, nullptr, 0, &none, nullptr, stream));
        return cusEventDecoderCheck(decoder, nullptr, stream);
    });
}

TEST_F(CancellingCuda, SparseDiffCount) {
    cusSparseDiff diff = {};
    CUS_ASSERT_OK(cusSparseDiffCreate(&diff, 10, 10, CUS_8UC1, 100, 0, CUS_DEVICE));
    uint32_t count = 1;
    walkWait("cusSparseDiffCount", [&] { return cusSparseDiffCount(&diff, &count, stream); });
    EXPECT_EQ(count, 0u);
    cusSparseDiffRelease(&diff);
}

TEST_F(CancellingCuda, MotionDetectorGet) {
    support::Owned<cusMotionDetectorDestroy> detector;
    support::Mat frame;
    CUS_ASSERT_OK(cusMatCreate(&frame, 100, 100, CUS_8UC1, CUS_DEVICE));
    CUS_ASSERT_OK(cusMatSetZero(&frame, stream));
    cusMotionOptions watching = cusMotionDefaults();
    watching.space = CUS_DEVICE;
    CUS_ASSERT_OK(cusMotionDetectorCreate(&detector, 1, 100, 100, CUS_8UC1, &watching));
    int64_t time = 0;
    walkWait("cusMotionDetectorGet", [&] {
        time += 40000;
        CUS_TRY(cusMotionDetectorRun(detector, &frame, &time, stream));
        cusMotionStatus status;
        return cusMotionDetectorGet(detector, 0, 1, &status, nullptr, nullptr, stream);
    });
}

// A search stops in the middle of a launch.
TEST_F(CancellingCuda, PoseMatcherRun) {
    std::mt19937_64 random(21);
    const int side = 700;
    support::TestMat frame(side, side, CUS_8UC1, CUS_DEVICE), templ(64, 64, CUS_8UC1, CUS_DEVICE);
    std::vector<uint8_t> pixels(static_cast<size_t>(side) * side);
    for (auto &p : pixels)
        p = static_cast<uint8_t>(random());
    frame.set(pixels.data());
    templ.set(pixels.data() + 1000);
    cusPoseOptions posing = cusPoseDefaults();
    posing.angles = {0, 359, 1, nullptr, 0};
    posing.scales = {0.8, 1.2, 0.1, nullptr, 0};
    support::Owned<cusPoseMatcherDestroy> matcher;
    CUS_ASSERT_OK(cusPoseMatcherCreate(&matcher, &templ.mat, side, side, &posing, stream));
    Watch watch;
    watch.set();
    Clock::time_point begin = Clock::now();
    CUS_ASSERT_OK(cusPoseMatcherRun(matcher, &frame.mat, stream));
    const double all = secondsSince(begin);
    EXPECT_TRUE(watch.is_monotone);
    EXPECT_EQ(watch.done, 1);
    cusPoseMatch expected = {}, match = {};
    int found = 0;
    CUS_ASSERT_OK(cusPoseMatcherGet(matcher, &expected, 1, &found));
    ASSERT_EQ(found, 1);
    std::printf("search: %.3f s, asked %d times\n", all, watch.calls);
    for (const int at : {1, watch.calls / 4}) {
        const int calls = watch.calls;
        watch = {};
        watch.cancel_at = at;
        watch.set();
        begin = Clock::now();
        CUS_EXPECT_ERROR(cusPoseMatcherRun(matcher, &frame.mat, stream), CUS_ERROR_CANCELLED,
                         "cusPoseMatcherRun: cancelled at ");
        const double cancelled = secondsSince(begin);
        std::printf("cancelled by call %d: %.3f s\n", at, cancelled);
        EXPECT_LT(cancelled, 0.6 * all + 0.02);
        watch.calls = calls;
    }
    cusSetProgress(nullptr, nullptr);
    CUS_ASSERT_OK(cusPoseMatcherRun(matcher, &frame.mat, stream));
    CUS_ASSERT_OK(cusPoseMatcherGet(matcher, &match, 1, &found));
    EXPECT_EQ(std::memcmp(&match, &expected, sizeof match), 0);
}

} // namespace

#endif
