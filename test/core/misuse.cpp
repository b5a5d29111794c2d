// Misuse is an error: two calls on one object at a time, bad steps and addresses, matrices and objects of another device.
// And what is not misuse: an object that moves to another stream while the first one still works.
#include "guard.h"
#include "core/stream_calls.hpp"

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#ifdef CUSIGHT_HAVE_CUDA
#include <cuda_runtime.h>
#endif

namespace {

using stream_calls::Call;
using stream_calls::Calls;
using stream_calls::Capture;

class Misuse : public support::SpaceTest {};
CUS_BOTH_SPACES(Misuse);

// ---- Two threads -------------------------------------------------------------------------------------------------------

// Two threads make the same call until both outcomes were seen: it works, or it says that the object is in use.
void expectOneAtATime(const std::string &object, const std::function<cusStatus()> &call) {
    std::atomic<int> worked{0}, refused{0}, other{0};
    std::string message, unexpected;
    const auto work = [&](std::string *text) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while ((worked < 2 || refused < 2) && other == 0 && std::chrono::steady_clock::now() < end) {
            const cusStatus status = call();
            ++(status == CUS_OK ? worked : status == CUS_ERROR_BUSY ? refused : other);
            if (status != CUS_OK)
                *text = cusLastError();
        }
    };
    std::string texts[2];
    std::thread second([&] { work(&texts[1]); });
    work(&texts[0]);
    second.join();
    EXPECT_EQ(other, 0) << texts[0] << texts[1];
    EXPECT_GE(worked, 2);
    EXPECT_GE(refused, 2);
    EXPECT_NE((texts[0] + texts[1]).find(object + " is in use by another call, expected one call at a time"),
              std::string::npos)
        << texts[0] << texts[1];
    EXPECT_EQ(call(), CUS_OK) << "the object did not become free again: " << cusLastError();
}

TEST_P(Misuse, TwoThreads) {
    Calls calls(space());
    calls.run(); // fills the outputs, which the threads do not create anew
    for (const Call &call : calls.list())
        if (call.object && call.run) {
            SCOPED_TRACE(call.function);
            expectOneAtATime(call.object, [&] { return call.run(nullptr); });
        }
    calls.synchronize();
}

TEST(MisuseGenerator, TwoThreads) {
    support::Owned<cusEventGeneratorDestroy> generator;
    CUS_ASSERT_OK(cusEventGeneratorCreate(&generator, 200, 300, nullptr));
    support::TestMat frame(200, 300, CUS_8UC1, CUS_HOST);
    std::atomic<int64_t> time{0};
    expectOneAtATime("generator", [&] {
        cusEventArrays events = {};
        const cusStatus status = cusEventGeneratorPush(generator, &frame.mat, time += 1000, &events);
        return status == CUS_ERROR_VALUE ? CUS_OK : status; // the other thread's time was later
    });
}

// A sink runs within a call on its pipeline.
TEST(MisusePipeline, SinkThatCallsItsPipeline) {
    struct Seen {
        cusEventPipeline *pipeline = nullptr;
        std::vector<cusStatus> status;
        std::string message;
    } seen;
    const auto sink = [](void *user, const cusFrameBatch *) {
        Seen &s = *static_cast<Seen *>(user);
        cusEventPipelineCounts counts;
        cusEventArrays none = {};
        s.status = {cusEventPipelinePush(s.pipeline, &none), cusEventPipelineFlush(s.pipeline),
                    cusEventPipelineQuery(s.pipeline, &counts)};
        s.message = cusLastError();
        return CUS_OK;
    };
    cusEventPipelineOptions options = cusEventPipelineDefaults();
    options.windowing.length = 10;
    const cusRepresentation kind = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
    CUS_ASSERT_OK(cusEventPipelineCreate(&seen.pipeline, 4, 4, &kind, 1, &options, sink, &seen));
    const std::vector<uint16_t> x(25, 1);
    const std::vector<uint8_t> p(25, 1);
    const cusEventArrays events = {x.data(), x.data(), p.data(), nullptr, 25, CUS_HOST};
    CUS_EXPECT_OK(cusEventPipelinePush(seen.pipeline, &events));
    CUS_EXPECT_OK(cusEventPipelineFlush(seen.pipeline));
    EXPECT_EQ(seen.status, std::vector<cusStatus>(3, CUS_ERROR_BUSY));
    EXPECT_EQ(seen.message, "cusEventPipelineQuery: pipeline is in use by another call, expected one call at a time");
    cusEventPipelineDestroy(seen.pipeline);
}

// ---- Steps and addresses -----------------------------------------------------------------------------------------------

TEST_P(Misuse, BadStepsAndAddresses) {
    Calls calls(space());
    calls.run();
    const auto before = calls.results();
    for (const Call &call : calls.list())
        for (cusMat *mat : call.mats) {
            if (!call.run || !mat || mat->rows < 2)
                continue;
            const cusMat good = *mat;
            const size_t row = static_cast<size_t>(good.cols) * cusTypeSize(good.type),
                         unit = cusTypeSize(CUS_DEPTH(good.type));
            for (const size_t step : {static_cast<size_t>(-static_cast<ptrdiff_t>(good.step)), row - unit, size_t{0}}) {
                mat->step = step;
                CUS_REJECTS(call.run(nullptr), SIZE, " has a step of ");
                *mat = good;
            }
            for (size_t k = 0; unit > 1 && k < 2; ++k) {
                mat->step += k;
                mat->data = static_cast<char *>(mat->data) + (1 - k);
                CUS_REJECTS(call.run(nullptr), VALUE, "expected multiples of ");
                *mat = good;
            }
            EXPECT_FALSE(HasFailure()) << call.function;
        }
    EXPECT_EQ(calls.results(), before) << "a rejected call wrote something";
}

// ---- Half precision ----------------------------------------------------------------------------------------------------

// All calls but copies refuse 16F in each of their matrices; outputs here do not own their memory.
TEST_P(Misuse, HalvesAreRefused) {
    static const std::set<std::string> COPIES = {"cusMatUpload", "cusMatDownload", "cusMatCopy", "cusMatSetZero"};
    Calls calls(space());
    calls.run();
    const auto before = calls.results();
    for (const Call &call : calls.list())
        for (cusMat *mat : call.mats) {
            if (!call.run || !mat || !mat->data || COPIES.count(call.function))
                continue;
            const cusMat good = *mat;
            support::Mat half;
            CUS_ASSERT_OK(
                cusMatCreate(&half, good.rows, good.cols, CUS_MAKETYPE(CUS_16F, CUS_CHANNELS(good.type)), good.space));
            *mat = half;
            mat->owned = nullptr;
            const cusStatus status = call.run(nullptr);
            const std::string said = cusLastError();
            *mat = good;
            EXPECT_TRUE(status == CUS_ERROR_TYPE || status == CUS_ERROR_SIZE) << call.function << ": " << said;
            EXPECT_EQ(said.rfind(call.function + std::string(": "), 0), 0u) << said;
        }
    EXPECT_EQ(calls.results(), before) << "a rejected call wrote something";
}

TEST_P(Misuse, EventsAtOddAddresses) {
    const cusRepresentation kind = cusRepresentationDefaults(CUS_REPR_VOXEL_GRID);
    support::Owned<cusEventStackerDestroy> stacker;
    CUS_ASSERT_OK(cusEventStackerCreate(&stacker, 8, 8, space(), &kind, 1));
    support::TestMat memory(1, 64, CUS_64FC1, space());
    char *const at = static_cast<char *>(memory.mat.data);
    const auto u16 = [&](size_t i) { return reinterpret_cast<const uint16_t *>(at + i); };
    const auto p = reinterpret_cast<const uint8_t *>(at + 64);
    const auto t = [&](size_t i) { return reinterpret_cast<const int64_t *>(at + 128 + i); };
    const cusEventWindow window = {0, 4};
    cusMat frame = CUS_MAT_INIT;
    const auto stack = [&](cusEventArrays events) { return cusEventStack(stacker, &events, &window, 1, &frame, nullptr); };
    CUS_REJECTS(stack({u16(1), u16(16), p, t(0), 4, space()}), VALUE, "events' x is ");
    CUS_REJECTS(stack({u16(0), u16(17), p, t(0), 4, space()}), VALUE, "events' y is ");
    CUS_REJECTS(stack({u16(0), u16(16), p, t(4), 4, space()}), VALUE, "expected a multiple of 8 bytes");
    EXPECT_EQ(frame.data, nullptr);
}

// ---- Cost --------------------------------------------------------------------------------------------------------------

TEST_P(Misuse, ChecksTakeLessThanAMicrosecond) {
    CusiGuard guard;
    CUS_ASSERT_OK(cusi_guardCreate("test", &guard, space()));
    constexpr int CALLS = 20000;
    support::TestMat mats[4] = {
        {4, 4, CUS_8UC1, space()}, {4, 4, CUS_8UC1, space()}, {4, 4, CUS_8UC1, space()}, {4, 4, CUS_8UC1, space()}};
    double best = 1e9;
    for (int repeat = 0; repeat < 10; ++repeat) { // the best of ten, as the machine may be busy
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < CALLS; ++i) {
            cusStatus status = cusi_enter("test", "object", &guard, nullptr);
            for (const auto &mat : mats)
                if (space() == CUS_DEVICE && status == CUS_OK)
                    status = cusi_checkDeviceMemory("test", "mat", mat.mat.data);
            CUS_ASSERT_OK(cusi_leave("test", &guard, nullptr, status));
        }
        const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
        best = std::min(best, taken.count() / CALLS);
    }
    std::printf("object and four matrices: %.0f ns a call\n", best);
#ifndef CUSI_SANITIZE
    EXPECT_LT(best, 1000);
#endif
    cusi_guardRelease(&guard);
}

#ifdef CUSIGHT_HAVE_CUDA

// ---- Another device ----------------------------------------------------------------------------------------------------

// With two GPUs: every call in `stream` says that something is on another device, twice, as checks remember what has passed; then
// calls work as before. prepare() makes the mistake, restore() takes it back.
void expectAnotherDevice(Calls &calls, cusStream stream, const char *text, const std::function<void()> &prepare,
                         const std::function<void()> &restore) {
    calls.run();
    const auto before = calls.results();
    for (int repeat = 0; repeat < 2; ++repeat) {
        prepare();
        for (const Call &call : calls.list())
            if (call.run && std::string(call.function).rfind("cusStream", 0) != 0) {
                SCOPED_TRACE(call.function);
                CUS_REJECTS(call.run(stream), SPACE, text);
            }
        CUS_EXPECT_OK(cusStreamSynchronize(stream)); // neither context is lost
        restore();
        CUS_EXPECT_OK(cusStreamSynchronize(nullptr));
        calls.run();
        EXPECT_EQ(calls.results(), before);
    }
}

class MisuseTwoGpusCuda : public testing::Test {
  protected:
    void SetUp() override {
        CUS_NEEDS(CUS_DEVICE);
        int count = 0;
        CUS_ASSERT_OK(cusDeviceCount(&count));
        if (count < 2)
            GTEST_SKIP() << "one GPU on this machine";
        CUS_ASSERT_OK(cusDeviceSet(0));
    }
};

TEST_F(MisuseTwoGpusCuda, AnotherDevice) {
    Calls calls(CUS_DEVICE);
    expectAnotherDevice(
        calls, nullptr, "is on device 0, expected device 1, the current one", [] { CUS_ASSERT_OK(cusDeviceSet(1)); },
        [] { CUS_ASSERT_OK(cusDeviceSet(0)); });
}

TEST_F(MisuseTwoGpusCuda, StreamOfAnotherDevice) {
    support::Owned<cusStreamDestroy> there, here;
    CUS_ASSERT_OK(cusDeviceSet(1));
    CUS_ASSERT_OK(cusStreamCreate(&there));
    CUS_ASSERT_OK(cusDeviceSet(0));
    CUS_ASSERT_OK(cusStreamCreate(&here));
    Calls calls(CUS_DEVICE);
    expectAnotherDevice(
        calls, there, "stream is on device 1, expected device 0, the current one", [] {},
        [&] {
            for (const Call &call : calls.list()) // after a refusal, in a stream of the right device
                if (call.run && std::string(call.function).rfind("cusStream", 0) != 0)
                    CUS_EXPECT_OK(call.run(here));
            CUS_EXPECT_OK(cusStreamSynchronize(here));
        });
}

// ---- A second stream ---------------------------------------------------------------------------------------------------

// Holds up a stream until it is opened, for two seconds at most.
class Gate {
  public:
    explicit Gate(cudaStream_t stream) { EXPECT_EQ(cudaLaunchHostFunc(stream, wait, this), cudaSuccess); }
    ~Gate() { open(); }
    void open() { open_ = true; }

  private:
    static void wait(void *self) {
        for (int i = 0; i < 2000 && !static_cast<Gate *>(self)->open_; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::atomic<bool> open_{false};
};

cudaStream_t newStream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
}

// The first stream is held up after `calls` calls were queued in it. A call in a second stream must wait for them, even if
// the first stream has been destroyed.
void expectSecondStreamWaits(const Call &call, int calls, bool destroy) {
    SCOPED_TRACE(std::string(call.function) + ", calls " + std::to_string(calls) + (destroy ? ", destroyed" : ""));
    cudaStream_t first = newStream(), second = newStream();
    Gate gate(first);
    for (int i = 0; i < calls; ++i)
        CUS_ASSERT_OK(call.run(first));
    if (destroy)
        ASSERT_EQ(cudaStreamDestroy(first), cudaSuccess);
    const auto start = std::chrono::steady_clock::now();
    CUS_ASSERT_OK(call.run(second));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_LT(taken.count(), 1.5) << "the call waited on the host";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady) << "the second stream did not wait";
    (void)cudaGetLastError();
    gate.open();
    EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess); // before the gate goes
    if (!destroy)
        EXPECT_EQ(cudaStreamDestroy(first), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(second), cudaSuccess);
}

TEST(MisuseCuda, SecondStreamWaits) {
    CUS_NEEDS(CUS_DEVICE);
    Calls calls(CUS_DEVICE);
    calls.run();
    const auto before = calls.results();
    for (const Call &call : calls.list())
        if (call.object && call.capture == Capture::YES)
            for (const int n : {1, 3, CUSI_SETTLED + 4})
                for (const bool destroy : {false, true})
                    expectSecondStreamWaits(call, n, destroy);
    calls.run(); // the stateful ones in order again
    EXPECT_EQ(calls.results(), before);
}

// Two streams in turn, as fast as they go: without the order between them the integrator's kernels would wait for each other
// forever, and the matcher would mix two frames.
TEST(MisuseCuda, TwoStreamsInTurn) {
    CUS_NEEDS(CUS_DEVICE);
    Calls calls(CUS_DEVICE);
    cudaStream_t streams[2] = {newStream(), newStream()};
    calls.run();
    const auto before = calls.results();
    for (const char *name : {"cusIntegratorRun", "cusMatcherRun", "cusContourMap", "cusEventStack"})
        for (int i = 0; i < 400; ++i)
            CUS_ASSERT_OK(calls.find(name).run(streams[i / (1 + i % 3) % 2])) << name;
    for (cudaStream_t stream : streams) {
        EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
        EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
    CUS_EXPECT_OK(calls.find("cusMatcherInspect").run(nullptr));
    EXPECT_EQ(calls.results(), before);
}

#endif

// ---- Sides -------------------------------------------------------------------------------------------------------------

// Matrices of one row or column with more than 2^30 pixels are refused before anything is read or allocated; the headers here lie.
TEST(Sides, BeyondTheLimitAreRefused) {
    alignas(64) static unsigned char byte[64];
    const cusStereoOptions stereo = cusStereoDefaults();
    for (const int side : {(1 << 30) + 1, INT32_MAX - 1, INT32_MAX})
        for (const bool wide : {true, false}) {
            const int rows = wide ? 1 : side, cols = wide ? side : 1;
            SCOPED_TRACE(testing::Message() << rows << " x " << cols);
            const auto image = [&](int type) {
                cusMat mat = CUS_MAT_INIT;
                mat.rows = rows, mat.cols = cols, mat.type = type, mat.data = byte;
                mat.step = static_cast<size_t>(cols) * cusTypeSize(type);
                return mat;
            };
            const cusMat gray = image(CUS_8UC1), map = image(CUS_16UC1);
            cusMat out = CUS_MAT_INIT;
            const char *const expected = "expected at most 1073741824 each";
            CUS_REJECTS(cusStereoEdges(&gray, &out, &stereo, nullptr), SIZE, expected);
            CUS_REJECTS(cusStereoCensus(&gray, &out, &stereo, nullptr), SIZE, expected);
            cusStereoOptions narrow = stereo;
            narrow.shifts = 1;
            CUS_REJECTS(cusStereoElevation(&gray, &gray, &out, &narrow, nullptr), SIZE, expected);
            CUS_REJECTS(cusStereoFilterSpeckles(&map, &out, &stereo, nullptr), SIZE, expected);
            CUS_REJECTS(cusStereoFill(&map, &out, &stereo, nullptr), SIZE, expected);
            CUS_REJECTS(cusStereoMedian(&map, &out, 3, nullptr), SIZE, expected);
            CUS_REJECTS(cusStereoContours(&map, &out, &stereo, nullptr), SIZE, expected);
            CUS_REJECTS(cusStereoPicture(&map, nullptr, &out, nullptr), SIZE, expected);
            cusContourMapper *mapper = nullptr;
            CUS_REJECTS(cusContourMapperCreate(&mapper, rows, cols, CUS_8UC1, CUS_HOST, &narrow), SIZE, expected);
            cusMat templ = CUS_MAT_INIT;
            CUS_ASSERT_OK(cusMatWrap(&templ, 1, 1, CUS_8UC1, CUS_HOST, byte, 0));
            cusMatcher *matcher = nullptr;
            CUS_REJECTS(cusMatcherCreate(&matcher, &templ, 1, rows, cols, nullptr, nullptr), SIZE, expected);
            if (side == INT32_MAX) {
                CUS_REJECTS(cusIntegral(&gray, &out, nullptr, nullptr, nullptr), SIZE, "expected up to 2147483646 each");
            }
            EXPECT_EQ(out.data, nullptr);
        }
}

} // namespace
