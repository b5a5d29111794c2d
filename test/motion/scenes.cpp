// What a detector does in scenes with a known answer: things that walk, cross and vanish; light, noise, still hours; regions.
#include "motion/support.hpp"

#include <thread>

using namespace motion_test;

namespace {

class MotionScenes : public support::SpaceTest {};
CUS_BOTH_SPACES(MotionScenes);

constexpr int ROWS = 120, COLS = 160;

Options quick() {
    Options o = plainOptions();
    o.min_area = 20;
    return o;
}

TEST_P(MotionScenes, WorkedExample) {
    Detector detector(1, 4, 8, 1, plainOptions(), space());
    Frame frame = plain(4, 8, 100);
    EXPECT_EQ(detector.step(frame).status.state, CUS_MOTION_LEARNING);
    fill(frame, 2, 1, 3, 2, 150);
    const Result r = detector.step(frame);
    EXPECT_EQ(r.status.state, CUS_MOTION_WATCHING);
    EXPECT_EQ(r.status.moving, 6u);
    EXPECT_EQ(r.status.threshold, 20 * 256);
    ASSERT_EQ(r.boxes.size(), 1u);
    const cusMotionBox &b = r.boxes[0];
    EXPECT_EQ((std::vector<int>{b.x, b.y, b.width, b.height}), (std::vector<int>{2, 1, 3, 2}));
    EXPECT_EQ(b.area, 6u);
    EXPECT_EQ(b.center_x, 3 * 256);
    EXPECT_EQ(b.center_y, 256 + 128);
    EXPECT_EQ(b.strength, 50u * 256);
    EXPECT_EQ(b.track, 1u);
    ASSERT_EQ(r.tracks.size(), 1u);
    EXPECT_EQ(r.tracks[0].first, 1);
    // The second frame has half of the weight, so the background there is 125: 140 is near it, but not near 100.
    EXPECT_EQ(detector.step(plain(4, 8, 140)).status.moving, 26u);
}

// Boxes follow a thing that walks; its track keeps its id through `track_gap` frames behind a wall.
TEST_P(MotionScenes, TracksSurviveAGap) {
    Options o = quick();
    o.track_gap = 3;
    o.shift = 8;
    Detector detector(1, ROWS, COLS, 1, o, space());
    for (int t = 0; t < 250; ++t) // afterwards a passing thing changes the background little
        (void)detector.step(plain(ROWS, COLS, 100), 40000 * t);
    std::vector<uint32_t> ids;
    for (int t = 0; t < 20; ++t) {
        Frame frame = plain(ROWS, COLS, 100);
        const bool hidden = (t >= 5 && t < 8) || (t >= 11 && t < 15); // three frames, then four
        if (!hidden)
            fill(frame, 10 + t, 30, 24, 40, 200);
        const Result r = detector.step(frame, 40000 * (250 + t));
        ids.push_back(0);
        for (const cusMotionBox &b : r.boxes)
            if (b.strength > 50 * 256 && b.width >= 20)
                ids.back() = b.track;
    }
    EXPECT_EQ(ids[0], 1u);
    EXPECT_EQ(ids[4], 1u);
    EXPECT_EQ(ids[9], 1u);
    EXPECT_GT(ids[16], 1u);
}

TEST_P(MotionScenes, MergesWhatOverlaps) {
    Options o = plainOptions();
    Frame frame = plain(ROWS, COLS, 0);
    fill(frame, 10, 10, 30, 2, 255); // an L and a dot within its box; far away another dot
    fill(frame, 10, 10, 2, 30, 255);
    fill(frame, 30, 30, 4, 4, 255);
    fill(frame, 100, 100, 4, 4, 255);
    for (const int merge : {0, 1}) {
        o.merge = merge;
        Detector detector(1, ROWS, COLS, 1, o, space());
        (void)detector.step(plain(ROWS, COLS, 0));
        const Result r = detector.step(frame);
        EXPECT_EQ(r.status.components, 3u);
        ASSERT_EQ(r.boxes.size(), merge ? 2u : 3u);
        EXPECT_EQ(r.boxes[0].area, merge ? 116u + 16 : 116u);
    }
}

TEST_P(MotionScenes, KeepsTheLargest) {
    Options o = plainOptions();
    o.max_boxes = 2;
    Detector detector(1, ROWS, COLS, 1, o, space());
    (void)detector.step(plain(ROWS, COLS, 0));
    Frame frame = plain(ROWS, COLS, 0);
    for (int i = 0; i < 5; ++i)
        fill(frame, 10 + 20 * i, 10, 2 + i, 3, 255);
    const Result r = detector.step(frame);
    EXPECT_EQ(r.status.components, 5u);
    ASSERT_EQ(r.boxes.size(), 2u);
    EXPECT_EQ(r.boxes[0].area, 18u);
    EXPECT_EQ(r.boxes[1].area, 15u);
}

// The light goes on: reported once, and two frames later the detector watches again without a false box.
TEST_P(MotionScenes, SuddenChange) {
    Detector detector(1, ROWS, COLS, 1, quick(), space());
    for (int t = 0; t < 5; ++t)
        EXPECT_EQ(detector.step(plain(ROWS, COLS, 60)).boxes.size(), 0u);
    const Result change = detector.step(plain(ROWS, COLS, 140));
    EXPECT_EQ(change.status.state, CUS_MOTION_SUDDEN);
    EXPECT_EQ(change.status.moving, static_cast<uint32_t>(ROWS * COLS));
    EXPECT_EQ(detector.step(plain(ROWS, COLS, 140)).status.state, CUS_MOTION_LEARNING);
    Frame frame = plain(ROWS, COLS, 140);
    EXPECT_EQ(detector.step(frame).status.moving, 0u);
    fill(frame, 20, 20, 20, 30, 20);
    const Result after = detector.step(frame);
    EXPECT_EQ(after.status.state, CUS_MOTION_WATCHING);
    EXPECT_EQ(after.boxes.size(), 1u);
}

// A slow dawn is learned: never a box.
TEST_P(MotionScenes, DawnIsLearned) {
    Detector detector(1, ROWS, COLS, 1, quick(), space());
    for (int t = 0; t < 400; ++t) {
        const Result r = detector.step(plain(ROWS, COLS, 40 + t / 4));
        ASSERT_EQ(r.boxes.size(), 0u) << t;
        ASSERT_NE(r.status.state, CUS_MOTION_SUDDEN) << t;
    }
}

// Rain: single pixels flash at random. Erosion and the least area keep them out, a thing that walks through stays in; without
// both there are more components than can be listed.
TEST_P(MotionScenes, RainOfNoise) {
    auto random = support::generator();
    const int rows = 400, cols = 600;
    for (const bool filters : {true, false}) {
        Options o = filters ? cusMotionDefaults() : plainOptions();
        o.warmup = 8;
        o.sudden_percent = 100;
        Detector detector(1, rows, cols, 1, o, space());
        for (int t = 0; t < 14; ++t) {
            Frame frame = plain(rows, cols, 90);
            for (uint8_t &v : frame.bytes)
                if (random() % 40 == 0)
                    v = 250;
            if (t == 13)
                fill(frame, 100, 100, 30, 80, 10);
            const Result r = detector.step(frame);
            if (t <= 8) {
                EXPECT_EQ(r.status.state, CUS_MOTION_LEARNING);
            } else if (!filters) {
                EXPECT_EQ(r.status.state, CUS_MOTION_CROWDED);
                EXPECT_GT(r.status.components, static_cast<uint32_t>(CUS_MOTION_MAX_COMPONENTS));
                EXPECT_EQ(r.boxes.size(), 0u);
            } else {
                EXPECT_EQ(r.boxes.size(), t == 13 ? 1u : 0u) << t;
            }
        }
    }
}

// Hours of a still, noisy scene: no box, the noise is known, and a threshold from it is above the noise's peaks.
TEST_P(MotionScenes, StillHours) {
    auto random = support::generator();
    Options o = cusMotionDefaults();
    o.threshold = 2;
    o.noise_factor = 6;
    o.erode = 0;
    o.min_area = 4;
    o.dilate = 0;
    Detector detector(1, 48, 64, 1, o, space());
    Frame frame = plain(48, 64, 0);
    Result r;
    for (int t = 0; t < 2000; ++t) {
        for (uint8_t &v : frame.bytes) {
            const uint64_t bits = random();
            v = static_cast<uint8_t>(100 + __builtin_popcountll(bits & 0xffff)); // sigma 2
        }
        r = detector.step(frame, int64_t(2000000) * t); // more than an hour
        ASSERT_EQ(r.boxes.size(), 0u) << t;
    }
    EXPECT_NEAR(r.status.noise, 1.6 * 256, 0.15 * 256); // sigma sqrt(2 / pi)
    EXPECT_EQ(detector.step(frame, 4000000000).status.threshold, 6 * r.status.noise);
    fill(frame, 10, 10, 10, 10, 140);
    EXPECT_EQ(detector.step(frame, 4000040000).boxes.size(), 1u);
}

// What is not watched neither moves nor counts as a sudden change.
TEST_P(MotionScenes, Regions) {
    Detector detector(2, ROWS, COLS, 1, quick(), space());
    Bytes mask(static_cast<size_t>(ROWS * COLS), 0);
    for (int y = 0; y < 60; ++y)
        std::fill_n(&mask[static_cast<size_t>(y * COLS)], 80, uint8_t(1)); // the upper left quarter
    CUS_ASSERT_OK(detector.watch(0, mask));
    Frame frame = plain(ROWS, COLS, 50);
    CUS_ASSERT_OK(detector.run({frame, frame}));
    fill(frame, 70, 50, 20, 20, 200);
    CUS_ASSERT_OK(detector.run({frame, frame}));
    const Result left = detector.result(0), whole = detector.result(1);
    ASSERT_EQ(left.boxes.size(), 1u);
    ASSERT_EQ(whole.boxes.size(), 1u);
    EXPECT_EQ(left.boxes[0].area, 100u);
    EXPECT_EQ(whole.boxes[0].area, 400u);
    CUS_ASSERT_OK(cusMotionDetectorWatch(detector, -1, nullptr, nullptr));
    CUS_ASSERT_OK(detector.run({frame, frame}));
    EXPECT_EQ(detector.result(0).status.moving, 400u);
    frame = plain(ROWS, COLS, 0);
    CUS_ASSERT_OK(detector.watch(0, Bytes(mask.size(), 0))); // nothing
    CUS_ASSERT_OK(detector.run({frame, frame}));
    EXPECT_EQ(detector.result(0).status.state, CUS_MOTION_WATCHING);
    EXPECT_EQ(detector.result(1).status.state, CUS_MOTION_SUDDEN);
}

// By time: with a constant of 1 s a step of 1 s forgets everything, one of 10 ms next to nothing.
TEST_P(MotionScenes, LearnsByTime) {
    Options o = plainOptions();
    o.learn_us = 1000000;
    o.sudden_percent = 100;
    Detector detector(1, 8, 8, 1, o, space());
    int64_t time = 0;
    for (int t = 0; t < 200; ++t)
        (void)detector.step(plain(8, 8, 100), time += 10000);
    (void)detector.step(plain(8, 8, 200), time += 10000);
    EXPECT_EQ(detector.step(plain(8, 8, 200), time += 10000).status.moving, 64u);
    (void)detector.step(plain(8, 8, 200), time += 1000000);
    EXPECT_EQ(detector.step(plain(8, 8, 200), time += 10000).status.moving, 0u);
}

// A camera without a new frame keeps its results; the others go on.
TEST_P(MotionScenes, CamerasOfDifferentRates) {
    Detector detector(2, 16, 16, 1, plainOptions(), space());
    Frame none = {16, 16, 1, {}};
    CUS_ASSERT_OK(detector.run({plain(16, 16, 0), plain(16, 16, 0)}));
    Frame frame = plain(16, 16, 0);
    fill(frame, 3, 3, 4, 4, 255);
    CUS_ASSERT_OK(detector.run({frame, none}));
    CUS_ASSERT_OK(detector.run({none, frame}));
    CUS_ASSERT_OK(detector.run({none, none}));
    for (const int c : {0, 1}) {
        const Result r = detector.result(c);
        EXPECT_EQ(r.status.steps, 2u);
        EXPECT_EQ(r.boxes.size(), 1u);
    }
}

TEST_P(MotionScenes, ResultsInPlace) {
    Options o = plainOptions();
    Detector detector(2, 16, 16, 1, o, space());
    cusMotionResults results = {};
    CUS_ASSERT_OK(cusMotionDetectorResults(detector, &results));
    EXPECT_EQ(results.cameras, 2);
    EXPECT_EQ(results.max_boxes, 64);
    EXPECT_EQ(results.space, space());
    CUS_ASSERT_OK(detector.run({plain(16, 16, 0), plain(16, 16, 0)}));
    CUS_ASSERT_OK(detector.run({plain(16, 16, 9), plain(16, 16, 200)}));
    cusMat view = CUS_MAT_INIT;
    CUS_ASSERT_OK(
        cusMatWrap(&view, 2, sizeof(cusMotionStatus), CUS_8UC1, space(), const_cast<cusMotionStatus *>(results.status), 0));
    const auto bytes = support::elements(view);
    cusMotionStatus status[2];
    ASSERT_EQ(bytes.size(), sizeof status);
    std::memcpy(status, bytes.data(), sizeof status);
    EXPECT_EQ(status[0].state, CUS_MOTION_WATCHING);
    EXPECT_EQ(status[1].state, CUS_MOTION_SUDDEN);
    cusMotionStatus both[2];
    CUS_ASSERT_OK(cusMotionDetectorGet(detector, 0, 2, both, nullptr, nullptr, nullptr));
    EXPECT_EQ(std::memcmp(both, status, sizeof both), 0);
}

TEST_P(MotionScenes, TwoThreadsAndTheirStreams) {
    auto random = support::generator();
    std::vector<Frame> frames;
    Scene scene(60, 90, 3, random);
    for (int t = 0; t < 20; ++t)
        frames.push_back(scene.next());
    Result results[2];
    const auto work = [&](int number) {
        cusStream stream = nullptr;
        if (space() == CUS_DEVICE)
            CUS_ASSERT_OK(cusStreamCreate(&stream));
        Detector detector(1, 60, 90, 3, plainOptions(), space());
        for (const Frame &frame : frames) {
            CUS_ASSERT_OK(detector.run({frame}, nullptr, {}, stream));
            results[number] = detector.result();
        }
        cusStreamDestroy(stream);
    };
    std::thread first(work, 0), second(work, 1);
    first.join();
    second.join();
    EXPECT_TRUE(same(results[0], results[1]));
    EXPECT_EQ(results[0].status.steps, 20u);
}

} // namespace
