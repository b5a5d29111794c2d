#include "events/pictures/pictures.hpp"

#include "events/output.hpp"

#include "common/events/view.hpp"
#include "common/output.hpp"
#include "common/stages.hpp"
#include "common/video/sink.hpp"
#include "common/video/source.hpp"
#include "diffstream/web/options.hpp"
#include "diffstream/web/sink.hpp"

#include "cusight/opencv.hpp"

#include <vector>

namespace events {

using sample::Stop;

namespace {

class Shown final : public Pictures {
  public:
    Shown(const Settings &s, const cusRepresentation &representation, sample::Size size, double fps)
        : representation_(representation), legend_(s.common.legend ? sample::legendHeight(size.width) : 0) {
        sample::Common common = s.common;
        if (storesFrames(s.common.output))
            common.output.clear();
        const cv::Size whole(size.width, size.height + legend_);
        sample::Playback playback;
        playback.fps = fps;
        if (s.web.any()) {
            if (!common.output.empty())
                throw Stop(sample::USAGE,
                           "--output is '" + common.output + "', expected frames (NAME.raw, NAME.h5) beside --web");
            playback.timed = true;
            playback.speed = common.speed;
            playback.live = sample::isStandard(s.input);
            sink_ = diffstream::openWebSink(s.web, whole, playback);
        } else {
            sink_ = sample::openSink(common, "cusight-events: " + s.input, "events.mp4", whole, playback);
        }
    }
    bool show(const cusMat &frame, double seconds) override {
        std::vector<sample::Scale> scales;
        const cv::Mat picture = drawing_([&] {
            const cv::Mat plain = sample::eventPicture(representation_, cusight::toMat(frame), &scales);
            return legend_ ? sample::withLegend(plain, scales) : plain;
        });
        return sink_->writeAt(picture, seconds);
    }
    void finish() override { sink_->finish(); }
    void hold() override { sink_->hold(); }
    std::string name() const override { return sink_->name(); }
    double drawingSeconds() const override { return drawing_.seconds; }

  private:
    const cusRepresentation representation_;
    const int legend_; // rows of the strip above the pictures
    std::unique_ptr<sample::Sink> sink_;
    sample::Stopwatch drawing_;
};

} // namespace

// ---- Options -----------------------------------------------------------------------------------------------------------

std::string videoInputs() {
    return std::string("; or a source of frames to generate events from: ") + sample::SOURCE_HELP;
}

std::string pictureOutputs() {
    return std::string(", or ") + sample::SINK_HELP +
           "; without a window, without this option, --checksum, --save-events and --triggers: events.mp4";
}

void addVideoOptions(CLI::App &app, Settings &s) {
    const auto group = [](CLI::Option *option) { return sample::group(option, "Events from video"); };
    group(sample::addNumber(app, "--threshold,--contrast-threshold", s.contrast_threshold, 0.01, 10,
                            "the change of log intensity that triggers an event"));
    group(sample::addNumber(app, "--threshold-spread", s.threshold_spread, 0, 1,
                            "standard deviation of the pixels' thresholds"));
    group(sample::addDuration(app, "--refractory", s.refractory, 0, 1000000, "rest after an event"));
    group(sample::addNumber(app, "--leak-rate", s.leak_rate, 0, 100, "leak events of a pixel per second"));
    group(sample::addNumber(app, "--leak-jitter", s.leak_jitter, 0, 0.2,
                            "standard deviation of the time between leak events, as a part of it"));
    group(sample::addNumber(app, "--shot-rate", s.shot_rate, 0, 1000,
                            "random events of a dark pixel per second; a bright one has a quarter of them"));
    group(sample::addNumber(app, "--seed", s.seed, 0, 2147483647, "of the noise"));
}

CLI::Option *addPictureOptions(CLI::App &app, Settings &s) {
    const auto group = [](CLI::Option *option) { return sample::group(option, "Output"); };
    CLI::Option *const speed = group(sample::addNumber(app, "--speed", s.common.speed, 0, 1000,
                                                       "speed of a window, and of a video of frames of equal time; 1: that "
                                                       "of the recording, unless it is so short that it is "
                                                       "slowed down to last 5 s; 0: a window as fast as possible"));
    group(sample::addNumber(app, "--fps", s.fps, 1, 240,
                            "frames per second of a video, unless --us-per-frame gives their length"));
    group(sample::addLegend(app, s.common.legend));
    sample::addEncoding(app, s.common.video, false);
    diffstream::addWeb(app, s.web);
    sample::group(
        sample::addNegativeFlag(app, "--no-wait", s.web.wait, "start before a browser has opened the page of --web"),
        "Browsers");
    return speed;
}

// ---- Pictures ----------------------------------------------------------------------------------------------------------

bool isPaced(const Settings &s) {
    return s.web.any() || (!s.common.headless && sample::displayProblem().empty());
}

bool isOnePicture(const Settings &s) {
    return sample::isImageName(s.common.output) && s.common.output.find('%') == std::string::npos;
}

void requirePictures(const Settings &s) {
    if (!s.common.output.empty() && !storesFrames(s.common.output) && !sample::isOutputName(s.common.output))
        throw Stop(sample::USAGE, "--output is '" + s.common.output +
                                      "', expected NAME.raw or NAME.h5 for the frames themselves, or " +
                                      sample::expectedOutputs());
}

std::unique_ptr<Pictures> openPictures(const Settings &settings, const cusRepresentation &representation, sample::Size size,
                                       double fps) {
    return std::make_unique<Shown>(settings, representation, size, fps);
}

} // namespace events
