// cusight-heatmap --report, --clips and --view motion: what moves in each input, from when to when. Needs no OpenCV.
#pragma once

#include "common/app.hpp"
#include "common/terminal/options.hpp"
#include "common/video/source.hpp"
#include "heatmap/drawn_options.hpp"
#include "heatmap/things.hpp"

#include "cusight/algorithms.hpp"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace heatmap {

// What --view motion adds to the program's options.
struct MotionSettings {
    std::string report, clips, ignore;
    std::array<int, 4> region = {}; // x, y, width, height; all 0: everywhere
    int least_frames = 8;           // of a thing that is reported
    double reconnect = 0;           // seconds, to a camera that is lost
    cusMotionOptions options = drawnOptions();
};

void addMotionOptions(CLI::App &app, MotionSettings &settings);

// Throws Stop(USAGE) for options that do not suit each other.
void checkMotion(const MotionSettings &settings, const sample::Input &input, const sample::Common &common);

// Looks at the inputs, a camera each, together: those of one frame size share a detector, and each step has a frame of each that
// has one. An input that stalls or fails, also on the GPU, is reported and does not stop the others. Returns OK, or throws
// Stop(INPUT) or Stop(FAILED) with the first input's error once everything is written. Throws Stop(OUTPUT).
int findMotion(const MotionSettings &settings, const sample::Input &input, const sample::Common &common,
               const sample::Device &device, int frames);

// The inputs of a run, with what has been found in them, and where that is written.
class Findings {
  public:
    Findings(const MotionSettings &s, const sample::Input &input, const sample::Common &common);

    // Cuts the clips, and writes and prints what has been found.
    void write();
    // Throws the first input's error.
    void summarize() const;

  private:
    const MotionSettings &settings_;
    const sample::Input &input_;
    const sample::Common &common_;
    std::unique_ptr<sample::OutputFile> report_;

  public:
    std::vector<Watched> inputs;
};

cusMotionOptions optionsOf(const MotionSettings &settings, const sample::Device &device);
// Lets a detector watch only what the settings say. Throws Stop for what does not suit the frames.
void limit(cusight::MotionDetector &detector, const MotionSettings &settings, sample::FrameSize size, cusSpace space);

} // namespace heatmap
