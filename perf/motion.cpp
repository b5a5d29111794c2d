// Rows of motion: a street at 1080p, from frames in memory to boxes and tracks, for one camera and for forty. Peers on the CPU are
// OpenCV's MOG2, and the chain of calls that Frigate makes, once at full size with equal steps and once as Frigate runs it.
#include "harness/frames.hpp"

#include "cusight/motion.h"

#ifdef CUSIGHT_HAVE_OPENCV
#include "peers/motion.hpp"
#endif
#ifdef CUSIGHT_HAVE_OPENCV_VIDEO
#include <opencv2/video/background_segm.hpp>
#endif

#include <memory>
#include <string>
#include <vector>

namespace {

using perf::check;
using perf::Size;

constexpr Size FRAME = {1920, 1080};
constexpr int FRAMES = 4; // of each camera, in turn

// A textured street on which twelve people and two cars walk and drive.
std::vector<uint8_t> street(int camera, int frame) {
    std::vector<uint8_t> pixels(FRAME.pixels());
    uint32_t state = static_cast<uint32_t>(1 + camera);
    for (uint8_t &v : pixels) {
        state = state * 1664525 + 1013904223;
        v = static_cast<uint8_t>(90 + (state >> 28) + (state >> 31) * 40);
    }
    const auto box = [&](int x, int y, int width, int height, uint8_t value) {
        for (int v = y; v < y + height; ++v)
            std::fill_n(pixels.begin() + v * FRAME.cols + x, width, value);
    };
    for (int i = 0; i < 12; ++i)
        box(60 + 150 * i + 6 * frame + camera, 100 + 61 * i % 700, 40, 110, static_cast<uint8_t>(20 + 18 * i));
    for (int i = 0; i < 2; ++i)
        box(300 + 900 * i + 20 * frame, 880, 220, 120, 250);
    return pixels;
}

struct Cameras {
    Cameras(int cameras, cusSpace space) : count(cameras) {
        cusMotionOptions options = cusMotionDefaults();
        options.space = space;
        options.warmup = 0;
        check(cusMotionDetectorCreate(&detector, count, FRAME.rows, FRAME.cols, CUS_8UC1, &options));
        for (int f = 0; f < FRAMES; ++f)
            for (int c = 0; c < count; ++c) {
                mats.push_back(
                    std::make_unique<perf::Mat>(FRAME.rows, FRAME.cols, CUS_8UC1, space,
                                                perf::listing() ? std::vector<uint8_t>(FRAME.pixels()) : street(c, f)));
                frames.push_back(mats.back()->mat);
            }
    }
    ~Cameras() { cusMotionDetectorDestroy(detector); }
    Cameras(const Cameras &) = delete;
    Cameras &operator=(const Cameras &) = delete;

    cusStatus run(cusStream stream, int i) const {
        return cusMotionDetectorRun(detector, &frames[static_cast<size_t>(i % FRAMES * count)], nullptr, stream);
    }
    int boxes() const {
        std::vector<cusMotionStatus> status(static_cast<size_t>(count));
        check(cusMotionDetectorGet(detector, 0, count, status.data(), nullptr, nullptr, nullptr));
        int least = status[0].boxes;
        for (const cusMotionStatus &s : status)
            least = std::min(least, s.boxes);
        return least;
    }

    int count;
    cusMotionDetector *detector = nullptr;
    std::vector<std::unique_ptr<perf::Mat>> mats;
    std::vector<cusMat> frames;
};

// Read the frame, read and write 16 bits of background, read and write a bit of masks.
double bytesOf(int cameras) {
    return 5.25 * static_cast<double>(FRAME.pixels()) * cameras;
}

void motion(const std::string &id, int cameras) {
    perf::bothSpaces([&](cusSpace space) {
        const Cameras all(cameras, space);
        perf::Row row(id, space, bytesOf(cameras));
        row.note("12 people and 2 cars a frame");
        const auto step = [&](cusStream stream, int i) { return all.run(stream, i); };
        row.measure(step);
#ifdef CUSIGHT_HAVE_OPENCV
        const auto frame = [&](int i) {
            const cusMat &m = all.frames[static_cast<size_t>(i % FRAMES * cameras)];
            return cv::Mat(m.rows, m.cols, CV_8U, m.data, m.step);
        };
        peers::FrigateMotion same(FRAME.rows, FRAME.cols, FRAME.rows), small(FRAME.rows, FRAME.cols, 100);
        if (space == CUS_HOST && cameras == 1) {
            row.peer("Frigate's chain, full size", [&](cusStream, int i) { (void)same.step(frame(i)); });
            row.peer("Frigate's chain, 100 rows", [&](cusStream, int i) { (void)small.step(frame(i)); });
#ifdef CUSIGHT_HAVE_OPENCV_VIDEO
            row.peer("opencv MOG2", [&, mog = cv::createBackgroundSubtractorMOG2(),
                                     mask = cv::Mat()](cusStream, int i) mutable { mog->apply(frame(i), mask); });
#endif
        }
#endif
        row.report();
        if (row.measured()) {
            EXPECT_GE(all.boxes(), 2);
        }
        if (space == CUS_DEVICE && cameras == 1)
            perf::latency("motion/" + FRAME.text(), step);
    });
}

TEST(Motion, motion_1080p) {
    motion("motion/1080p", 1);
}

TEST(Motion, motion_1080p_batch40) {
    motion("motion/1080p/batch40", 40);
}

} // namespace
