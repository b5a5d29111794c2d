// How cusight-heatmap finds what moves; tests measure it on real people.
#pragma once

#include "cusight/motion.h"

namespace heatmap {

// The options with which boxes are most as a person would draw them (docs/motion.md).
inline cusMotionOptions drawnOptions() {
    cusMotionOptions options = cusMotionDefaults();
    options.dilate = 3;
    options.min_area = 300;
    options.shadows = 60;
    options.ghosts = options.tight = 1;
    options.split = 53;
    options.noise_factor = 6; // leaves in the wind are noise
    return options;
}

} // namespace heatmap
