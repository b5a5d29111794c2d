// Runs of the event generator: capacity, checks of arguments, streams.
#include "eventgen/support.hpp"

#include <cmath>

using namespace eventgen_test;

namespace {

class EventGeneratorRuns : public support::SpaceTest {
  protected:
    // A video of 6 frames with many events.
    void SetUp() override {
        support::SpaceTest::SetUp();
        if (IsSkipped())
            return;
        auto random = support::generator();
        video_ = randomVideo(20, 30, 6, 1000, random);
        options_ = cusEventGeneratorDefaults();
        options_.leak_rate = 50;
        options_.shot_rate = 500;
        options_.space = space();
        expected_ = reference::eventsOf(video_.values, 20, 30, video_.times, options_);
        CUS_ASSERT_OK(cusEventGeneratorCreate(&generator_, 20, 30, &options_));
    }
    Events eventsOf(Arrays &arrays, size_t count) {
        Events events;
        arrays.appendTo(events, count);
        return events;
    }
    Video video_ = {};
    Options options_ = {};
    Events expected_;
    support::Owned<cusEventGeneratorDestroy> generator_;
};
CUS_BOTH_SPACES(EventGeneratorRuns);

TEST_P(EventGeneratorRuns, CapacityLosesNothing) {
    Frames frames(video_, 0, 6, space());
    Arrays few(expected_.size() - 1, space()), enough(expected_.size(), space());
    cusEventsGenerated generated = {};
    const cusStatus status = frames.run(generator_, few.view);
    EXPECT_EQ(status, space() == CUS_HOST ? CUS_ERROR_CAPACITY : CUS_OK);
    CUS_REJECTS(cusEventGeneratorCheck(generator_, &generated, nullptr), CAPACITY,
                std::to_string(expected_.size()) + " events");
    EXPECT_EQ(generated.count, expected_.size());
    EXPECT_EQ(generated.frames, 0u);
    EXPECT_EQ(generated.status, CUS_ERROR_CAPACITY);
    eventsOf(few, expected_.size() - 1); // nothing around the arrays was written
    CUS_ASSERT_OK(frames.run(generator_, enough.view));
    CUS_ASSERT_OK(cusEventGeneratorCheck(generator_, &generated, nullptr));
    EXPECT_EQ(generated.count, expected_.size());
    EXPECT_TRUE(eventsOf(enough, expected_.size()) == expected_);
}

TEST_P(EventGeneratorRuns, RunsAfterAFailureDoNothing) {
    Frames first(video_, 0, 3, space()), second(video_, 3, 6, space());
    Arrays few(1, space()), enough(expected_.size(), space());
    support::TestMat record(1, sizeof(cusEventsGenerated), CUS_8UC1, space());
    const cusStatus status = first.run(generator_, few.view);
    if (space() == CUS_HOST) {
        EXPECT_EQ(status, CUS_ERROR_CAPACITY);
    } else {
        CUS_ASSERT_OK(status);
        CUS_ASSERT_OK(second.run(generator_, enough.view, static_cast<cusEventsGenerated *>(record.mat.data)));
        const auto skipped = record.get<cusEventsGenerated>()[0];
        EXPECT_EQ(skipped.count, 0u);
        EXPECT_EQ(skipped.frames, 0u);
        EXPECT_EQ(skipped.status, CUS_ERROR_CAPACITY);
    }
    cusEventsGenerated generated = {};
    CUS_REJECTS(cusEventGeneratorCheck(generator_, &generated, nullptr), CAPACITY, "events");
    EXPECT_GT(generated.count, 1u);
    Events events;
    for (Frames *frames : {&first, &second}) {
        CUS_ASSERT_OK(frames->run(generator_, enough.view, static_cast<cusEventsGenerated *>(record.mat.data)));
        const auto done = record.get<cusEventsGenerated>()[0];
        EXPECT_EQ(done.status, CUS_OK);
        EXPECT_EQ(done.frames, 3u);
        enough.appendTo(events, done.count);
    }
    EXPECT_TRUE(events == expected_);
    CUS_EXPECT_OK(cusEventGeneratorCheck(generator_, nullptr, nullptr));
}

TEST_P(EventGeneratorRuns, ArraysMayBeMissing) {
    Frames frames(video_, 0, 6, space());
    Arrays arrays(expected_.size(), space());
    cusEventBuffers out = arrays.view;
    out.x = nullptr;
    out.p = nullptr;
    CUS_ASSERT_OK(frames.run(generator_, out));
    CUS_ASSERT_OK(cusEventGeneratorCheck(generator_, nullptr, nullptr));
    const Events got = eventsOf(arrays, expected_.size());
    EXPECT_EQ(got.y, expected_.y);
    EXPECT_EQ(got.t, expected_.t);
}

TEST_P(EventGeneratorRuns, Rejects) {
    Frames frames(video_, 0, 2, space());
    Arrays arrays(4, space());
    const auto run = [&](const cusMat *mat, std::vector<int64_t> times, const cusEventBuffers &out) {
        return cusEventGeneratorRun(generator_, mat, times.data(), static_cast<int>(times.size()), &out, nullptr, nullptr);
    };
    const cusMat &mat = frames.mat();
    const int64_t time = 5;
    CUS_REJECTS(cusEventGeneratorRun(nullptr, &mat, &time, 1, &arrays.view, nullptr, nullptr), NULL, "generator is NULL");
    CUS_REJECTS(cusEventGeneratorRun(generator_, nullptr, &time, 1, &arrays.view, nullptr, nullptr), NULL,
                "frames is NULL");
    CUS_REJECTS(cusEventGeneratorRun(generator_, &mat, nullptr, 1, &arrays.view, nullptr, nullptr), NULL, "times is NULL");
    CUS_REJECTS(cusEventGeneratorRun(generator_, &mat, &time, 1, nullptr, nullptr, nullptr), NULL, "events is NULL");
    CUS_REJECTS(cusEventGeneratorCheck(nullptr, nullptr, nullptr), NULL, "generator is NULL");
    CUS_REJECTS(cusEventGeneratorRun(generator_, &mat, &time, 0, &arrays.view, nullptr, nullptr), VALUE,
                "count is 0, expected 1..4096");
    CUS_REJECTS(run(&mat, std::vector<int64_t>(4097), arrays.view), VALUE, "count is 4097, expected 1..4096");
    CUS_REJECTS(run(&mat, {1, 2, 3}, arrays.view), SIZE, "frames are 40 x 30 (rows x cols), expected 60 x 30: 3 frames");
    CUS_REJECTS(run(&mat, {-1, 2}, arrays.view), VALUE, "time is -1 us, expected 0 or more");
    CUS_REJECTS(run(&mat, {7, 7}, arrays.view), VALUE,
                "time is 7 us, expected a time after that of the frame before, 7 us, by less than 2^24 us");
    CUS_REJECTS(run(&mat, {7, 7 + (1 << 24)}, arrays.view), VALUE, "time is 16777223 us");
    support::TestMat color(40, 30, CUS_8UC3, space());
    CUS_REJECTS(run(&color.mat, {1, 2}, arrays.view), TYPE, "frames has type 8UC3, expected 8UC1");
    cusEventBuffers odd = arrays.view;
    odd.t = reinterpret_cast<int64_t *>(reinterpret_cast<char *>(odd.t) + 4);
    CUS_REJECTS(run(&mat, {1, 2}, odd), VALUE, "t does not start at a multiple of 8 bytes");
    if (space() == CUS_DEVICE) {
        support::TestMat host(40, 30, CUS_8UC1, CUS_HOST);
        CUS_REJECTS(run(&host.mat, {1, 2}, arrays.view), SPACE, "frames are in host memory, expected device memory");
        support::TestMat one(20, 30, CUS_8UC1, CUS_HOST);
        cusEventArrays events = {};
        CUS_REJECTS(cusEventGeneratorPush(generator_, &one.mat, 1, &events), SPACE, "use cusEventGeneratorRun");
    }
    // Nothing has changed.
    CUS_EXPECT_OK(cusEventGeneratorCheck(generator_, nullptr, nullptr));
    EXPECT_TRUE(generate(video_, options_, space(), 6) == expected_);
}

// The device takes up to 2^32 us in a run, and only the default is checked against 2^42.
TEST_P(EventGeneratorRuns, LongIntervals) {
    Video video = constantVideo(1, 2, 30, 2, (int64_t(1) << 32) - 1);
    video.values[2] = 90;
    Options options = cusEventGeneratorDefaults();
    const Events events = generate(video, options, space(), 2);
    ASSERT_EQ(events.size(), 5u); // ln 3 is 1.0986
    EXPECT_EQ(events.x, std::vector<uint16_t>(5, 0));
    EXPECT_NEAR(static_cast<double>(events.t[4]), 4294967295.0 / std::log(3.0), 4294967295.0 * 1e-4); // at 1.0
    video.times[1] += 1;
    options.space = space();
    support::Owned<cusEventGeneratorDestroy> generator;
    CUS_ASSERT_OK(cusEventGeneratorCreate(&generator, 1, 2, &options));
    Frames frames(video, 0, 2, space());
    Arrays arrays(9, space());
    if (space() == CUS_DEVICE)
        CUS_REJECTS(frames.run(generator, arrays.view), VALUE, "span 4294967296 us, expected less than 2^32");
    else
        CUS_EXPECT_OK(frames.run(generator, arrays.view));
}

TEST(EventGeneratorCreate, Rejects) {
    const auto rejects = [](auto change, const char *text) {
        Options options = cusEventGeneratorDefaults();
        change(options);
        cusEventGenerator *generator = nullptr;
        CUS_REJECTS(cusEventGeneratorCreate(&generator, 4, 4, &options), VALUE, text);
        EXPECT_EQ(generator, nullptr);
    };
    rejects([](Options &o) { o.negative = 11; }, "negative is 11, expected 0.01..10");
    rejects([](Options &o) { o.positive = NAN; }, "positive is nan");
    rejects([](Options &o) { o.threshold_spread = 1.5; }, "threshold_spread is 1.5, expected 0..1");
    rejects([](Options &o) { o.refractory_us = -1; }, "refractory_us is -1, expected 0..1000000");
    rejects([](Options &o) { o.refractory_us = 1000001; }, "refractory_us is 1000001");
    rejects([](Options &o) { o.leak_rate = 101; }, "leak_rate is 101, expected 0..100");
    rejects([](Options &o) { o.leak_jitter = 0.3; }, "leak_jitter is 0.3, expected 0..0.2");
    rejects([](Options &o) { o.shot_rate = NAN; }, "shot_rate is nan, expected 0..1000");
    rejects([](Options &o) { o.space = static_cast<cusSpace>(7); }, "space is 7");
    Options options = cusEventGeneratorDefaults();
    options.space = CUS_DEVICE;
    cusEventGenerator *generator = nullptr;
    CUS_REJECTS(cusEventGeneratorCreate(&generator, 65536, 65536, &options), VALUE, "fewer than 2^31 - 1 pixels");
    options.max_events = size_t(1) << 31;
    CUS_REJECTS(cusEventGeneratorCreate(&generator, 4, 4, &options), VALUE, "max_events is 2147483648");
}

} // namespace
