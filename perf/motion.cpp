// Rows of motion: a street at 1080p, from frames in memory to boxes and tracks, for one camera and for forty. Peers on the CPU are
// OpenCV's MOG2, and the chain of calls that Frigate makes, once at full size with equal steps and once as Frigate runs it. On
// OpenCV's vtest.avi, also how many people each finds of those that were drawn by hand.
#include "harness/frames.hpp"

#include "cusight/motion.h"

#ifdef CUSIGHT_HAVE_OPENCV
#include "peers/motion.hpp"
#endif
#ifdef CUSIGHT_HAVE_OPENCV_VIDEO
#include <opencv2/video/background_segm.hpp>
#endif
#ifdef CUSIGHT_HAVE_OPENCV_VIDEOIO
#include "motion/people.hpp"
#include <opencv2/videoio.hpp>
#include <cstdlib>
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
    Cameras(int cameras, cusSpace space, bool shadows, int split) : count(cameras) {
        cusMotionOptions options = cusMotionDefaults();
        if (shadows) { // and ghosts and tight boxes
            options.shadows = 60;
            options.ghosts = options.tight = 1;
        }
        options.split = split;
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

void motion(const std::string &id, int cameras, bool shadows = false, int split = 0) {
    perf::bothSpaces([&](cusSpace space) {
        const Cameras all(cameras, space, shadows, split);
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
        if (space == CUS_HOST && cameras == 1 && !shadows) {
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
        if (space == CUS_DEVICE && cameras == 1 && !shadows)
            perf::latency("motion/" + FRAME.text(), step);
    });
}

TEST(Motion, motion_1080p) {
    motion("motion/1080p", 1);
}

TEST(Motion, motion_1080p_batch40) {
    motion("motion/1080p/batch40", 40);
}

TEST(Motion, motion_1080p_shadows) {
    motion("motion/1080p/shadows", 1, true);
}

TEST(Motion, motion_1080p_shadows_batch40) {
    motion("motion/1080p/shadows/batch40", 40, true);
}

TEST(Motion, motion_1080p_split) {
    motion("motion/1080p/split", 1, true, 53);
}

TEST(Motion, motion_1080p_split_batch40) {
    motion("motion/1080p/split/batch40", 40, true, 53);
}

#if defined(CUSIGHT_HAVE_OPENCV_VIDEO) && defined(CUSIGHT_HAVE_OPENCV_VIDEOIO)
using Boxes = std::vector<cv::Rect>;

// How the boxes of a detector meet the people.
struct Count {
    int people = 0, found = 0, covered = 0, overlapped = 0, empty = 0;

    void add(int frame, const Boxes &boxes) {
        std::vector<cv::Rect> bodies;
        for (const motion_test::Person &p : motion_test::PEOPLE)
            if (p.frame == frame)
                bodies.emplace_back(p.x, p.y, p.width, p.height);
        if (bodies.empty())
            return;
        const auto holds = [](const cv::Rect &box, const cv::Rect &body) {
            return box.contains({body.x + body.width / 2, body.y + body.height / 2});
        };
        for (const cv::Rect &body : bodies) {
            const auto any = [&](const auto &test) { return std::any_of(boxes.begin(), boxes.end(), test); };
            ++people;
            found += any([&](const cv::Rect &b) { return holds(b, body); });
            covered += any([&](const cv::Rect &b) { return 2 * (b & body).area() >= body.area(); });
            overlapped += any([&](const cv::Rect &b) { return 3 * (b & body).area() >= b.area() + body.area(); });
        }
        for (const cv::Rect &box : boxes)
            empty += std::none_of(bodies.begin(), bodies.end(), [&](const cv::Rect &body) { return holds(box, body); });
    }
    std::string text() const {
        return std::to_string(found) + " of " + std::to_string(people) + " people, " + std::to_string(covered) +
               " half covered, " + std::to_string(overlapped) + " with IoU 0.5, " + std::to_string(empty) + " empty boxes";
    }
};

class People {
  public:
    explicit People(cv::Size size) : frigate_(size.height, size.width, size.height), small_(size.height, size.width, 100) {
        check(cusMotionDetectorCreate(&detector_, 1, size.height, size.width, CUS_8UC3, nullptr));
    }
    ~People() { cusMotionDetectorDestroy(detector_); }
    People(const People &) = delete;
    People &operator=(const People &) = delete;

    void add(int i, cv::Mat &color) {
        cusMat frame = CUS_MAT_INIT;
        check(cusMatWrap(&frame, color.rows, color.cols, CUS_8UC3, CUS_HOST, color.data, color.step));
        check(cusMotionDetectorRun(detector_, &frame, nullptr, nullptr));
        cusMotionStatus status;
        std::vector<cusMotionBox> found(static_cast<size_t>(cusMotionDefaults().max_boxes));
        check(cusMotionDetectorGet(detector_, 0, 1, &status, found.data(), nullptr, nullptr));
        Boxes boxes;
        for (size_t b = 0; b < static_cast<size_t>(status.boxes); ++b)
            boxes.emplace_back(found[b].x, found[b].y, found[b].width, found[b].height);
        counts_[0].add(i, boxes);
        cv::cvtColor(color, gray_, cv::COLOR_BGR2GRAY);
        const double scale = color.rows / 100.0; // of the least area, so that both chains drop the same things
        counts_[1].add(i, frigate_.step(gray_, 0.01, 30, 10 * scale * scale));
        counts_[2].add(i, small_.step(gray_));
        mog_->apply(color, mask_);
        counts_[3].add(i, boxesOf(mask_ > 200)); // shadows are 127
    }
    std::string text() const {
        const char *const names[] = {"cusMotionDetector", "Frigate's chain", "at 100 rows", "MOG2"};
        std::string all;
        for (size_t i = 0; i < 4; ++i)
            all += (i ? "; " : "") + std::string(names[i]) + ": " + counts_[i].text();
        return all;
    }

  private:
    // The detector's shapes and least area, with OpenCV's functions.
    static Boxes boxesOf(cv::Mat mask) {
        const cusMotionOptions o = cusMotionDefaults();
        cv::Mat labels, stats, centers;
        cv::erode(mask, mask, cv::Mat::ones(2 * o.erode + 1, 2 * o.erode + 1, CV_8U));
        cv::dilate(mask, mask, cv::Mat::ones(2 * o.dilate + 1, 2 * o.dilate + 1, CV_8U));
        Boxes boxes;
        const int count = cv::connectedComponentsWithStats(mask, labels, stats, centers);
        for (int i = 1; i < count; ++i)
            if (stats.at<int>(i, cv::CC_STAT_AREA) >= o.min_area)
                boxes.emplace_back(stats.at<int>(i, 0), stats.at<int>(i, 1), stats.at<int>(i, 2), stats.at<int>(i, 3));
        return boxes;
    }

    cusMotionDetector *detector_ = nullptr;
    peers::FrigateMotion frigate_, small_;
    cv::Ptr<cv::BackgroundSubtractor> mog_ = cv::createBackgroundSubtractorMOG2();
    cv::Mat gray_, mask_;
    Count counts_[4];
};

// Times are those of frames with three to seven people, in gray levels.
TEST(Motion, motion_vtest) {
    const char *const folder = std::getenv("CUSIGHT_TEST_DATA");
    cv::VideoCapture video(folder ? std::string(folder) + "/vtest.avi" : "");
    cv::Mat color;
    if (!perf::wants(CUS_HOST) || !video.read(color))
        GTEST_SKIP() << "no vtest.avi in CUSIGHT_TEST_DATA";
    People people(color.size());
    std::vector<cv::Mat> grays(64);
    for (int i = 0; !perf::listing() && !color.empty(); ++i, video.read(color)) {
        people.add(i, color);
        if (static_cast<size_t>(i) < grays.size())
            cv::cvtColor(color, grays[static_cast<size_t>(i)], cv::COLOR_BGR2GRAY);
    }
    const auto gray = [&](int i) -> cv::Mat & { return grays[static_cast<size_t>(i) % grays.size()]; };
    cusMotionDetector *detector = nullptr;
    check(cusMotionDetectorCreate(&detector, 1, 576, 768, CUS_8UC1, nullptr));
    peers::FrigateMotion same(576, 768, 576), small(576, 768, 100);
    perf::Row row("motion/vtest", CUS_HOST, 5.25 * 576 * 768);
    row.note(people.text());
    row.measure([&](cusStream, int i) {
        cusMat frame = CUS_MAT_INIT;
        CUS_TRY(cusMatWrap(&frame, gray(i).rows, gray(i).cols, CUS_8UC1, CUS_HOST, gray(i).data, gray(i).step));
        return cusMotionDetectorRun(detector, &frame, nullptr, nullptr);
    });
    row.peer("Frigate's chain, full size", [&](cusStream, int i) { (void)same.step(gray(i), 0.01, 30, 331); });
    row.peer("Frigate's chain, 100 rows", [&](cusStream, int i) { (void)small.step(gray(i)); });
    row.peer("opencv MOG2", [&, mog = cv::createBackgroundSubtractorMOG2(), mask = cv::Mat()](cusStream, int i) mutable {
        mog->apply(gray(i), mask);
    });
    row.report();
    cusMotionDetectorDestroy(detector);
}
#endif

} // namespace
