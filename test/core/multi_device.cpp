// Several devices: the samples' EventDealer, and objects of several modules on all GPUs at once.
#include "events/support.hpp"
#include "support.hpp"

#include "common/events/dealer.hpp"
#include "common/many_devices.hpp"

#include "cusight/cusight.hpp"

#include <algorithm>

namespace {

using sample::Dealer;
using sample::Device;
using sample::Stop;

using Devices = std::vector<Device>; // CPUs, unless they are chosen
// ---- EventDealer: the frames of a pipeline -----------------------------------------------------------------------------

struct Frames {
    std::vector<uint8_t> bytes;
    std::vector<uint64_t> windows; // first, last of each
    uint64_t first = 0, count = 0, stop_at = UINT64_MAX;
    static cusStatus sink(void *user, const cusFrameBatch *batch) {
        Frames &f = *static_cast<Frames *>(user);
        if (f.count + batch->count > f.stop_at)
            return CUS_ERROR_IO;
        const std::vector<uint8_t> b = support::elements(batch->frames[0]);
        f.bytes.insert(f.bytes.end(), b.begin(), b.end());
        if (f.count == 0)
            f.first = batch->first;
        EXPECT_EQ(batch->first, f.first + f.count);
        for (size_t i = 0; i < batch->count; ++i) {
            f.windows.push_back(batch->windows[i].first);
            f.windows.push_back(batch->windows[i].last);
        }
        f.count += batch->count;
        return CUS_OK;
    }
};

// On the devices, as a pipeline on the CPU makes them.
void expectPipelinesFrames(const std::vector<Device> &devices, int rounds) {
    std::mt19937_64 random = support::generator();
    const int rows = 12, cols = 17;
    for (int round = 0; round < rounds; ++round) {
        const events::Events e = events::randomEvents(random() % 3000, rows, cols, 10, random, round % 2 ? 3 : 40);
        cusEventPipelineOptions o = cusEventPipelineDefaults();
        o.windowing = events::randomWindowing(random);
        o.batch_windows = random() % 3 ? 1 + random() % 9 : 0;
        if (random() % 3 == 0) {
            o.first_window = random() % 12;
            o.end_window = o.first_window + 1 + random() % 5;
        }
        // Not the time surface, whose last bit may differ between CPU and GPU.
        const auto kind = static_cast<cusRepresentationKind>(round % 6);
        const cusRepresentation r = cusRepresentationDefaults(kind);
        Frames expected, got;
        cusEventPipeline *pipeline = nullptr;
        CUS_ASSERT_OK(cusEventPipelineCreate(&pipeline, rows, cols, &r, 1, &o, Frames::sink, &expected));
        const cusEventArrays all = events::slice(e, 0, e.size());
        CUS_EXPECT_OK(cusEventPipelinePush(pipeline, &all));
        CUS_EXPECT_OK(cusEventPipelineFlush(pipeline));
        cusEventPipelineCounts counts = {};
        CUS_EXPECT_OK(cusEventPipelineQuery(pipeline, &counts));
        cusEventPipelineDestroy(pipeline);
        sample::EventDealer dealer(devices, rows, cols, r, o, Frames::sink, &got);
        for (size_t at = 0, n = 0; at < e.size(); at += n) {
            n = std::min<size_t>(e.size() - at, random() % 700);
            ASSERT_EQ(dealer.push(events::slice(e, at, n)), CUS_OK);
        }
        ASSERT_EQ(dealer.flush(), CUS_OK);
        ASSERT_EQ(got.windows, expected.windows) << "length " << o.windowing.length << ", stride " << o.windowing.stride
                                                 << ", unit " << o.windowing.unit << ", round " << round;
        ASSERT_TRUE(got.bytes == expected.bytes) << cusRepresentationName(kind) << ", round " << round;
        EXPECT_EQ(dealer.skipped(), counts.skipped);
    }
}

TEST(EventDealer, MakesTheFramesOfAPipeline) {
    expectPipelinesFrames(Devices(1), 30);
    expectPipelinesFrames(Devices(2), 60);
    expectPipelinesFrames(Devices(5), 30);
}

// Jobs are dealt when they have a million events, and grow when a window has more.
TEST(EventDealer, WindowsLargerThanAJob) {
    std::mt19937_64 random = support::generator();
    const events::Events e = events::randomEvents(3500000, 30, 40, 10, random, 1);
    const int64_t span = e.t.back() - e.t.front();
    for (const int64_t length : {span / 2, span / 9, span / 2000}) {
        cusEventPipelineOptions o = cusEventPipelineDefaults();
        o.windowing.unit = CUS_WINDOW_DURATION;
        o.windowing.length = static_cast<uint64_t>(length);
        const cusRepresentation r = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
        Frames expected, got;
        cusEventPipeline *pipeline = nullptr;
        CUS_ASSERT_OK(cusEventPipelineCreate(&pipeline, 30, 40, &r, 1, &o, Frames::sink, &expected));
        sample::EventDealer dealer(Devices(2), 30, 40, r, o, Frames::sink, &got);
        for (size_t at = 0; at < e.size(); at += 700000) {
            const cusEventArrays piece = events::slice(e, at, std::min<size_t>(700000, e.size() - at));
            CUS_EXPECT_OK(cusEventPipelinePush(pipeline, &piece));
            EXPECT_EQ(dealer.push(piece), CUS_OK);
        }
        CUS_EXPECT_OK(cusEventPipelineFlush(pipeline));
        EXPECT_EQ(dealer.flush(), CUS_OK);
        cusEventPipelineDestroy(pipeline);
        EXPECT_EQ(got.windows, expected.windows);
        EXPECT_TRUE(got.bytes == expected.bytes) << length;
        EXPECT_GE(got.count, 2u);
    }
}

TEST(EventDealer, ErrorsAndTheSinksStop) {
    std::mt19937_64 random = support::generator();
    const cusRepresentation r = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
    cusEventPipelineOptions o = cusEventPipelineDefaults();
    o.windowing.unit = CUS_WINDOW_DURATION;
    o.windowing.length = 1000;
    o.max_events = 50;
    const auto message = [&](const events::Events &e) {
        Frames got;
        try {
            sample::EventDealer dealer(Devices(2), 12, 17, r, o, Frames::sink, &got);
            dealer.push(events::slice(e, 0, e.size()));
            dealer.flush();
        } catch (const Stop &stop) {
            EXPECT_EQ(stop.code(), sample::FAILED);
            return std::string(stop.what());
        }
        return std::string();
    };
    events::Events e = events::randomEvents(200, 12, 17, 0, random, 3);
    EXPECT_NE(message(e).find("window 0 has more than max_events = 50 events"), std::string::npos) << message(e);
    o.max_events = 0;
    EXPECT_EQ(message(e), "");
    e.t[150] = e.t[0] - 1;
    EXPECT_NE(message(e).find("times decrease from"), std::string::npos) << message(e);
    EXPECT_NE(message(e).find("at event 150"), std::string::npos) << message(e);
    // A sink that stops is no error.
    o.windowing.unit = CUS_WINDOW_COUNT;
    o.windowing.length = 10;
    o.batch_windows = 1;
    Frames got;
    got.stop_at = 3;
    sample::EventDealer dealer(Devices(2), 12, 17, r, o, Frames::sink, &got);
    const cusStatus pushed = dealer.push(events::slice(e, 0, e.size()));
    EXPECT_EQ(pushed, CUS_ERROR_IO);
    EXPECT_EQ(dealer.push(events::slice(e, 0, e.size())), CUS_ERROR_IO);
    EXPECT_EQ(got.count, 3u);
    // A device that cannot work: more rows than a frame may have.
    EXPECT_THROW(
        {
            sample::EventDealer none(Devices(2), 70000, 1, r, o, Frames::sink, &got);
            none.push(events::slice(e, 0, e.size()));
            none.flush();
        },
        std::exception);
}

// ---- All GPUs ----------------------------------------------------------------------------------------------------------

class MultiDevice : public testing::Test {
  protected:
    void SetUp() override {
        int count = 0;
        CUS_ASSERT_OK(cusDeviceCount(&count));
        if (count < 2)
            GTEST_SKIP() << count << " GPUs on this machine, and this test needs several";
        devices = sample::chooseDevices("cuda:all");
    }
    std::vector<Device> devices;
};

// The results of several modules for one random scene, as bytes.
std::vector<uint8_t> scene(cusSpace space, uint64_t seed) {
    std::mt19937_64 random(seed);
    const int rows = 180, cols = 241;
    const size_t n = static_cast<size_t>(rows) * cols;
    std::vector<uint8_t> a = support::randomBytes(3 * n, random), b = support::randomBytes(3 * n, random);
    cusStream stream = nullptr;
    if (space == CUS_DEVICE)
        CUS_EXPECT_OK(cusStreamCreate(&stream));
    std::vector<uint8_t> result;
    const auto add = [&](const cusMat &mat) {
        if (stream)
            CUS_EXPECT_OK(cusStreamSynchronize(stream));
        const std::vector<uint8_t> bytes = support::elements(mat);
        result.insert(result.end(), bytes.begin(), bytes.end());
    };
    {
        support::TestMat first(rows, cols, CUS_8UC3, space, {}, a.data()),
            second(rows, cols, CUS_8UC3, space, {}, b.data());
        support::Mat heat;
        CUS_EXPECT_OK(cusHeatmap(&first.mat, &second.mat, &heat, nullptr, stream));
        add(heat);
    }
    {
        support::TestMat left(rows, cols, CUS_8UC1, space, {}, a.data()), right(rows, cols, CUS_8UC1, space, {}, b.data());
        support::Mat sum, elevation, lines;
        CUS_EXPECT_OK(cusIntegral(&left.mat, &sum, nullptr, nullptr, stream));
        add(sum);
        cusContourMapper *mapper = nullptr;
        const cusStereoOptions options = cusStereoClassic();
        CUS_EXPECT_OK(cusContourMapperCreate(&mapper, rows, cols, CUS_8UC1, space, &options));
        CUS_EXPECT_OK(cusContourMap(mapper, &left.mat, &right.mat, &elevation, &lines, stream));
        add(lines);
        cusContourMapperDestroy(mapper);
        support::TestMat templ(20, 23, CUS_8UC1, space, {}, a.data() + 777);
        support::Owned<cusMatcherDestroy> matcher;
        cusMatcherOptions options_of = cusMatcherDefaults();
        options_of.method = CUS_MATCH_SQDIFF;
        CUS_EXPECT_OK(cusMatcherCreate(&matcher, &templ.mat, 1, rows, cols, &options_of, stream));
        CUS_EXPECT_OK(cusMatcherRun(matcher, &left.mat, nullptr, stream));
        cusMatch match = {};
        int found = 0;
        CUS_EXPECT_OK(cusMatcherGet(matcher, 0, &match, 1, &found, stream));
        for (const int value : {found, match.x, match.y})
            for (int k = 0; k < 4; ++k)
                result.push_back(static_cast<uint8_t>(value >> (8 * k)));
    }
    cusStreamDestroy(stream);
    return result;
}

// Scenes dealt to the devices, whose objects their own threads use, are those of the CPU.
void expectScenesOfTheCpu(const std::vector<Device> &devices, size_t scenes_each) {
    struct Job {
        uint64_t seed = 0;
        std::vector<uint8_t> result;
    };
    std::vector<Job> jobs(scenes_each * devices.size());
    std::vector<std::vector<uint8_t>> expected;
    for (size_t i = 0; i < jobs.size(); ++i) {
        jobs[i].seed = support::seed() + i;
        expected.push_back(scene(CUS_HOST, jobs[i].seed));
    }
    Dealer<Job *> dealer(devices, scenes_each, [&](size_t w) {
        return [&, w](Job *job) {
            int current = devices[w].index;
            if (devices[w].space == CUS_DEVICE)
                CUS_EXPECT_OK(cusDeviceGet(&current));
            EXPECT_EQ(current, devices[w].index);
            job->result = scene(devices[w].space, job->seed);
        };
    });
    for (Job &job : jobs)
        ASSERT_TRUE(dealer.deal(&job));
    dealer.finish();
    Job *job = nullptr;
    for (size_t i = 0; i < jobs.size(); ++i) {
        ASSERT_TRUE(dealer.next(job));
        ASSERT_EQ(job, &jobs[i]);
        EXPECT_TRUE(job->result == expected[i]) << "scene " << i << " on device " << i % devices.size();
        EXPECT_TRUE(i == 0 || expected[i] != expected[i - 1]);
    }
    EXPECT_FALSE(dealer.next(job));
}

TEST(Dealer, ModulesOnThreadsOfTheCpu) {
    expectScenesOfTheCpu(Devices(3), 2);
}

TEST_F(MultiDevice, ModulesOnAllGpusFromTheirOwnThreadsEqualTheCpu) {
    expectScenesOfTheCpu(devices, 6);
}

TEST_F(MultiDevice, EventDealerMakesTheFramesOfAPipelineOnTheCpu) {
    expectPipelinesFrames(devices, 90);
}

// Two workers on each GPU: what a machine with one GPU can test too.
TEST(EventDealerCuda, TwoWorkersOnOneGpu) {
    CUS_NEEDS(CUS_DEVICE);
    expectPipelinesFrames(sample::chooseDevices("cuda:0,0"), 60);
}

} // namespace
