#include "heatmap/pictures/watch.hpp"

#include <cmath>

namespace heatmap {

using cusight::check;

struct Watch::State {
    State(const MotionSettings &s, const sample::Input &input, const sample::Common &common, const sample::Device &device,
          const sample::Source &source)
        : settings(s), space(device.space), found(s, input, common),
          detector(1, source.size().height, source.size().width, CUS_8UC3, optionsOf(s, device)), collector(s.least_frames),
          boxes(static_cast<size_t>(s.options.max_boxes)) {
        watched().size = source.size();
        watched().fps = source.fps();
        limit(detector, s, source.size(), space);
    }
    ~State() { cusMatRelease(&uploaded); }
    State(const State &) = delete;
    State &operator=(const State &) = delete;

    Watched &watched() { return found.inputs.front(); }

    const MotionSettings &settings;
    const cusSpace space;
    Findings found;
    cusight::MotionDetector detector;
    Collector collector;
    std::vector<cusMotionBox> boxes;
    cusMat uploaded = CUS_MAT_INIT;
};

Watch::Watch(const MotionSettings &settings, const sample::Input &input, const sample::Common &common,
             const sample::Device &device, const sample::Source &source)
    : state_(std::make_unique<State>(settings, input, common, device, source)) {}

Watch::~Watch() = default;

void Watch::add(const cv::Mat &frame, double seconds) {
    State &s = *state_;
    cusMat mat = CUS_MAT_INIT;
    cusMotionStatus status = {};
    check(cusMatWrap(&mat, frame.rows, frame.cols, CUS_8UC3, CUS_HOST, frame.data, frame.step));
    if (s.space == CUS_DEVICE)
        check(cusMatUpload(&mat, &s.uploaded, nullptr));
    s.detector.runAll({s.space == CUS_DEVICE ? s.uploaded : mat}, {std::llround(seconds * 1e6)});
    check(cusMotionDetectorGet(s.detector.get(), 0, 1, &status, s.boxes.data(), nullptr, nullptr));
    s.collector.add(seconds, {s.boxes.begin(), s.boxes.begin() + status.boxes});
    if (status.state == CUS_MOTION_SUDDEN)
        s.watched().sudden.push_back(seconds);
    ++s.watched().frames;
}

void Watch::finish(const std::exception_ptr &error) {
    State &s = *state_;
    keep(s.watched(), error);
    s.watched().things = s.collector.things();
    s.found.write();
    s.found.summarize();
}

} // namespace heatmap
