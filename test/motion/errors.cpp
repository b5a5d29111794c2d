// Every documented error of motion, with its message; a rejected call changes nothing.
#include "motion/support.hpp"

using namespace motion_test;

namespace {

class MotionErrors : public support::SpaceTest {};
CUS_BOTH_SPACES(MotionErrors);

TEST_P(MotionErrors, Create) {
    const auto rejects = [&](auto change, const char *text) {
        Options o = cusMotionDefaults();
        o.space = space();
        change(o);
        cusMotionDetector *detector = nullptr;
        CUS_REJECTS(cusMotionDetectorCreate(&detector, 1, 10, 10, CUS_8UC1, &o), VALUE, text);
        EXPECT_EQ(detector, nullptr);
    };
    rejects([](Options &o) { o.shift = 9; }, "cusMotionDetectorCreate: shift is 9, expected 0..8");
    rejects([](Options &o) { o.learn_us = -1; }, "learn_us is -1, expected 0..4294967296");
    rejects([](Options &o) { o.threshold = 0; }, "threshold is 0, expected 1..255");
    rejects([](Options &o) { o.noise_factor = 256; }, "noise_factor is 256, expected 0..255");
    rejects([](Options &o) { o.erode = 9; }, "erode is 9, expected 0..8");
    rejects([](Options &o) { o.dilate = -1; }, "dilate is -1, expected 0..8");
    rejects([](Options &o) { o.min_area = 0; }, "min_area is 0, expected 1..2147483647");
    rejects([](Options &o) { o.max_boxes = 257; }, "max_boxes is 257, expected 1..256");
    rejects([](Options &o) { o.merge = 2; }, "merge is 2, expected 0..1");
    rejects([](Options &o) { o.sudden_percent = 101; }, "sudden_percent is 101, expected 1..100");
    rejects([](Options &o) { o.warmup = 65536; }, "warmup is 65536, expected 0..65535");
    rejects([](Options &o) { o.track_gap = -1; }, "track_gap is -1, expected 0..65535");
    rejects([](Options &o) { o.shadows = 101; }, "shadows is 101, expected 0..100");
    rejects([](Options &o) { o.ghosts = 2; }, "ghosts is 2, expected 0..1");
    rejects([](Options &o) { o.tight = -1; }, "tight is -1, expected 0..1");
    rejects([](Options &o) { o.split = 101; }, "split is 101, expected 0..100");
    rejects([](Options &o) { o.space = static_cast<cusSpace>(7); }, "space is 7");
    cusMotionDetector *detector = nullptr;
    CUS_REJECTS(cusMotionDetectorCreate(nullptr, 1, 10, 10, CUS_8UC1, nullptr), NULL, "detector is NULL");
    CUS_REJECTS(cusMotionDetectorCreate(&detector, 0, 10, 10, CUS_8UC1, nullptr), VALUE, "cameras is 0, expected 1..1024");
    CUS_REJECTS(cusMotionDetectorCreate(&detector, 1, 0, 10, CUS_8UC1, nullptr), VALUE, "rows is 0, expected 1..65536");
    CUS_REJECTS(cusMotionDetectorCreate(&detector, 1, 10, 65537, CUS_8UC1, nullptr), VALUE, "cols is 65537");
    CUS_REJECTS(cusMotionDetectorCreate(&detector, 1, 65536, 65536, CUS_8UC1, nullptr), VALUE, "fewer than 2^31 pixels");
    CUS_REJECTS(cusMotionDetectorCreate(&detector, 1, 10, 10, CUS_8UC4, nullptr), TYPE, "8UC4, expected 8UC1 or 8UC3");
    cusMotionDetectorDestroy(nullptr);
}

TEST_P(MotionErrors, Calls) {
    Options o = plainOptions();
    Detector detector(2, 10, 20, 1, o, space());
    const Frame frame = plain(10, 20, 7);
    CUS_ASSERT_OK(detector.run({frame, frame}));
    support::TestMat good(10, 20, CUS_8UC1, space()), small(9, 20, CUS_8UC1, space()), color(10, 20, CUS_8UC3, space());
    const auto run = [&](const cusMat &second, const int64_t *times = nullptr) {
        const cusMat frames[] = {good.mat, second};
        return cusMotionDetectorRun(detector, frames, times, nullptr);
    };
    CUS_REJECTS(cusMotionDetectorRun(nullptr, &good.mat, nullptr, nullptr), NULL, "detector is NULL");
    CUS_REJECTS(cusMotionDetectorRun(detector, nullptr, nullptr, nullptr), NULL, "frames is NULL");
    CUS_REJECTS(run(small.mat), SIZE, "cusMotionDetectorRun: frames[1] is 9 x 20 (rows x cols), expected 10 x 20");
    CUS_REJECTS(run(color.mat), TYPE, "frames[1] has type 8UC3, expected 8UC1");
    if (space() == CUS_DEVICE) {
        support::TestMat host(10, 20, CUS_8UC1, CUS_HOST);
        CUS_REJECTS(run(host.mat), SPACE, "frames[1] is in host memory, expected device memory");
    }
    const int64_t later[] = {5, 5}, earlier[] = {5, 4};
    CUS_ASSERT_OK(run(good.mat, later));
    CUS_REJECTS(run(good.mat, earlier), VALUE, "times[1] is 4, expected at least 5");
    CUS_REJECTS(cusMotionDetectorWatch(detector, 2, nullptr, nullptr), VALUE, "camera is 2, expected -1..1");
    CUS_REJECTS(cusMotionDetectorWatch(detector, 0, &small.mat, nullptr), SIZE, "mask is 9 x 20");
    CUS_REJECTS(cusMotionDetectorWatch(detector, 0, &color.mat, nullptr), TYPE, "mask has type 8UC3, expected 8UC1");
    cusMat mask = CUS_MAT_INIT;
    CUS_REJECTS(cusMotionDetectorMask(detector, -1, &mask, nullptr), VALUE, "camera is -1, expected 0..1");
    CUS_REJECTS(cusMotionDetectorMask(detector, 0, &small.mat, nullptr), SIZE, "mask");
    cusMotionStatus status;
    CUS_REJECTS(cusMotionDetectorGet(detector, 2, 1, &status, nullptr, nullptr, nullptr), VALUE,
                "camera is 2, expected 0..1");
    CUS_REJECTS(cusMotionDetectorGet(detector, 1, 2, &status, nullptr, nullptr, nullptr), VALUE,
                "count is 2, expected 1..1");
    CUS_REJECTS(cusMotionDetectorResults(detector, nullptr), NULL, "results is NULL");
    CUS_REJECTS(cusMotionDetectorResults(nullptr, nullptr), NULL, "detector is NULL");
    EXPECT_EQ(detector.result(0).status.steps, 2u);
    EXPECT_EQ(detector.result(1).status.steps, 2u);
    o.learn_us = 1000;
    Detector timed(1, 10, 20, 1, o, space());
    CUS_REJECTS(timed.run({frame}), VALUE, "times is NULL, expected an array, since learn_us is 1000");
}

} // namespace
