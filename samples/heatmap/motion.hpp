// cusight-heatmap --report, --clips and --view motion: what moves in each input, from when to when.
#pragma once

#include "common/app.hpp"
#include "common/terminal/options.hpp"
#include "common/video/source.hpp"

#include "cusight/motion.h"

#include <array>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace heatmap {

// The options with which boxes are most as a person would draw them (docs/motion.md).
inline cusMotionOptions drawnOptions() {
    cusMotionOptions options = cusMotionDefaults();
    options.dilate = 3;
    options.min_area = 300;
    options.shadows = 60;
    options.ghosts = options.tight = 1;
    return options;
}

// What --view motion adds to the program's options.
struct MotionSettings {
    std::string report, clips, ignore;
    std::array<int, 4> region = {}; // x, y, width, height; all 0: everywhere
    int least_frames = 8;           // of a thing that is reported
    cusMotionOptions options = drawnOptions();
};

void addMotionOptions(CLI::App &app, MotionSettings &settings);

// Throws Stop(USAGE) for options that do not suit each other.
void checkMotion(const MotionSettings &settings, const sample::Input &input, const sample::Common &common);

// Looks at the inputs, a camera each, together: those of one frame size share a detector, and each step has a frame of each. An
// input that fails is reported and does not stop the others. Returns OK, or throws Stop(INPUT) with the first input's error once
// everything is written. Throws Stop(OUTPUT).
int findMotion(const MotionSettings &settings, const sample::Input &input, const sample::Common &common,
               const sample::Device &device, int frames);

// What moves in the frames of another view, while that is made.
class Watch {
  public:
    // Like findMotion.
    Watch(const MotionSettings &settings, const sample::Input &input, const sample::Common &common,
          const sample::Device &device, const sample::Source &source);
    ~Watch();
    Watch(const Watch &) = delete;
    Watch &operator=(const Watch &) = delete;

    void add(const cv::Mat &frame, double seconds);
    // Writes everything. `error`: what ended the input early; it is thrown then.
    void finish(const std::exception_ptr &error);

  private:
    struct State;
    const std::unique_ptr<State> state_;
};

} // namespace heatmap
