// cusight-heatmap --report, --clips and --view motion: what moves in each input, from when to when.
#pragma once

#include "common/app.hpp"
#include "common/terminal/options.hpp"

#include "cusight/motion.h"

#include <array>
#include <string>
#include <vector>

namespace heatmap {

// What --view motion adds to the program's options.
struct MotionSettings {
    std::string report, clips, ignore;
    std::array<int, 4> region = {}; // x, y, width, height; all 0: everywhere
    int least_frames = 8;           // of a thing that is reported
    cusMotionOptions options = cusMotionDefaults();
};

void addMotionOptions(CLI::App &app, MotionSettings &settings);

// Throws Stop(USAGE) for options that do not suit each other.
void checkMotion(const MotionSettings &settings, const sample::Input &input, const sample::Common &common);

// Looks at the inputs, a camera each, together: those of one frame size share a detector, and each step has a frame of each. An
// input that fails is reported and does not stop the others. Returns OK, or throws Stop(INPUT) with the first input's error once
// everything is written. Throws Stop(OUTPUT).
int findMotion(const MotionSettings &settings, const sample::Input &input, const sample::Common &common,
               const sample::Device &device, int frames);

} // namespace heatmap
