// What the tests of motion share: scenes, a detector of several cameras in either space, and a step against the reference.
#pragma once

#include "../support.hpp"

#include "reference/motion.hpp"

#include <memory>

namespace motion_test {

using Bytes = std::vector<uint8_t>;
using Options = cusMotionOptions;
using Result = reference::MotionStepResult;

struct Frame {
    int rows, cols, channels;
    Bytes bytes; // empty: the camera has none
};

// A still background, noise, and rectangles and shadows that move over it.
class Scene {
  public:
    Scene(int rows, int cols, int channels, std::mt19937_64 &random)
        : rows_(rows), cols_(cols), channels_(channels), random_(random),
          still_(size_t(rows) * size_t(cols) * size_t(channels)) {
        noise_ = below(3) * 4;
        for (uint8_t &v : still_)
            v = uint8_t(100 + below(20));
        for (int i = 1 + below(6); i > 0; --i)
            things_.push_back({below(cols), below(rows), 1 + below(1 + cols / 3), 1 + below(1 + rows / 3), below(7) - 3,
                               below(7) - 3, below(256), below(2) == 0});
    }
    Frame next() {
        Frame frame = {rows_, cols_, channels_, still_};
        if (below(15) == 0) // the light changes
            for (uint8_t &v : still_)
                v = uint8_t(v + 60);
        for (Thing &t : things_) {
            for (int y = std::max(0, t.y); y < std::min(rows_, t.y + t.height); ++y)
                for (int x = std::max(0, t.x); x < std::min(cols_, t.x + t.width); ++x)
                    for (int c = 0; c < channels_; ++c) {
                        uint8_t &v = frame.bytes[(size_t(y) * size_t(cols_) + size_t(x)) * size_t(channels_) + size_t(c)];
                        v = uint8_t(t.shades ? v * t.value / 256 : t.value);
                    }
            t.x += t.dx;
            t.y += t.dy;
        }
        const bool rain = below(12) == 0;
        for (uint8_t &v : frame.bytes) {
            if (noise_)
                v = uint8_t(v + below(noise_));
            if (rain && below(8) == 0)
                v = uint8_t(below(256));
        }
        return frame;
    }

  private:
    struct Thing {
        int x, y, width, height, dx, dy, value;
        bool shades; // rather than covers
    };
    int below(int n) { return int(random_() % uint64_t(n)); }

    int rows_, cols_, channels_, noise_;
    std::mt19937_64 &random_;
    Bytes still_;
    std::vector<Thing> things_;
};

// A frame of one value.
inline Frame plain(int rows, int cols, int value) {
    return {rows, cols, 1, Bytes(size_t(rows) * size_t(cols), uint8_t(value))};
}
inline void fill(Frame &frame, int x, int y, int width, int height, int value) {
    for (int v = y; v < y + height; ++v)
        for (int u = x; u < x + width; ++u)
            frame.bytes[size_t(v) * size_t(frame.cols) + size_t(u)] = uint8_t(value);
}

// Options with which a change shows at once and as it is.
inline Options plainOptions() {
    Options o = cusMotionDefaults();
    o.shift = 5;
    o.threshold = 20;
    o.erode = o.dilate = o.warmup = 0;
    o.min_area = 1;
    return o;
}

class Detector {
  public:
    Detector(int cameras, int rows, int cols, int channels, Options options, cusSpace space)
        : rows_(rows), cols_(cols), type_(CUS_MAKETYPE(CUS_8U, channels)), space_(space), max_boxes_(options.max_boxes) {
        options.space = space;
        CUS_EXPECT_OK(cusMotionDetectorCreate(&detector_, cameras, rows, cols, type_, &options));
    }
    operator cusMotionDetector *() { return detector_; }

    cusStatus run(const std::vector<Frame> &frames, const int64_t *times = nullptr, support::Layout layout = {},
                  cusStream stream = nullptr) {
        std::vector<cusMat> mats;
        frames_.clear();
        for (const Frame &f : frames) {
            mats.push_back(CUS_MAT_INIT);
            if (f.bytes.empty())
                continue;
            frames_.push_back(std::make_unique<support::TestMat>(rows_, cols_, type_, space_, layout, f.bytes.data()));
            mats.back() = frames_.back()->mat;
        }
        return cusMotionDetectorRun(detector_, mats.data(), times, stream);
    }
    bool intact() {
        bool all = true;
        for (auto &f : frames_)
            all = all && f->intact();
        return all;
    }
    Result result(int camera = 0) {
        Result r;
        r.boxes.resize(size_t(max_boxes_));
        r.tracks.resize(size_t(max_boxes_));
        CUS_EXPECT_OK(cusMotionDetectorGet(detector_, camera, 1, &r.status, r.boxes.data(), r.tracks.data(), nullptr));
        r.boxes.resize(size_t(r.status.boxes));
        r.tracks.resize(size_t(r.status.tracks));
        support::TestMat mask(rows_, cols_, CUS_8UC1, space_, {3, 1});
        CUS_EXPECT_OK(cusMotionDetectorMask(detector_, camera, &mask.mat, nullptr));
        r.mask = mask.get();
        EXPECT_TRUE(mask.intact());
        return r;
    }
    // One step of one camera.
    Result step(const Frame &frame, int64_t time = -1) {
        CUS_EXPECT_OK(run({frame}, time >= 0 ? &time : nullptr));
        return result();
    }
    cusStatus watch(int camera, const Bytes &mask) {
        support::TestMat mat(rows_, cols_, CUS_8UC1, space_, {5, 3}, mask.data());
        const cusStatus status = cusMotionDetectorWatch(detector_, camera, &mat.mat, nullptr);
        EXPECT_TRUE(mat.intact()); // waits
        return status;
    }

  private:
    int rows_, cols_, type_;
    cusSpace space_;
    int max_boxes_;
    support::Owned<cusMotionDetectorDestroy> detector_;
    std::vector<std::unique_ptr<support::TestMat>> frames_;
};

template<class T>
bool sameBytes(const std::vector<T> &a, const std::vector<T> &b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Names the first difference.
inline testing::AssertionResult same(const Result &got, const Result &expected) {
    const cusMotionStatus &a = got.status, &b = expected.status;
    if (std::memcmp(&a, &b, sizeof a) != 0)
        return testing::AssertionFailure()
               << "status, got and expected: time " << a.time << " " << b.time << ", steps " << a.steps << " " << b.steps
               << ", state " << a.state << " " << b.state << ", moving " << a.moving << " " << b.moving << ", components "
               << a.components << " " << b.components << ", threshold " << a.threshold << " " << b.threshold << ", noise "
               << a.noise << " " << b.noise << ", boxes " << a.boxes << " " << b.boxes << ", tracks " << a.tracks << " "
               << b.tracks;
    if (got.mask != expected.mask)
        return testing::AssertionFailure() << "mask";
    for (size_t i = 0; i < got.boxes.size(); ++i)
        if (std::memcmp(&got.boxes[i], &expected.boxes[i], sizeof(cusMotionBox)) != 0) {
            const cusMotionBox &g = got.boxes[i], &e = expected.boxes[i];
            return testing::AssertionFailure()
                   << "box " << i << " of " << got.boxes.size() << ", got and expected: x " << g.x << " " << e.x << ", y "
                   << g.y << " " << e.y << ", width " << g.width << " " << e.width << ", height " << g.height << " "
                   << e.height << ", area " << g.area << " " << e.area << ", center " << g.center_x << "," << g.center_y
                   << " " << e.center_x << "," << e.center_y << ", strength " << g.strength << " " << e.strength
                   << ", track " << g.track << " " << e.track << ", first " << g.first << " " << e.first;
        }
    if (!sameBytes(got.tracks, expected.tracks))
        return testing::AssertionFailure() << "tracks";
    return testing::AssertionSuccess();
}

} // namespace motion_test
