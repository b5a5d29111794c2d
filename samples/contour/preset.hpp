// The presets of the stereo options: classic, smooth, best, and auto, which starts as best.
#pragma once

#include "cusight/stereo.h"

#include <string>

namespace contour {

// The options that a preset starts with. speckle_size -1: as many pixels as the window has.
inline cusStereoOptions optionsOf(const std::string &preset) {
    const bool best = preset == "best" || preset == "auto";
    cusStereoOptions o = preset == "classic" ? cusStereoClassic() : best ? cusStereoBest() : cusStereoDefaults();
    o.speckle_size = preset == "classic" ? 0 : best ? o.speckle_size : -1;
    o.p2_slope = best ? 1 : 0; // a mapper has the images
    return o;
}

// Makes smooth of auto, where windows serve better than paths. window: the one that is asked for, or 0. Returns the preset.
inline std::string takeSmooth(cusStereoOptions &o, int window) {
    const cusStereoOptions smooth = optionsOf("smooth");
    o.aggregation = smooth.aggregation;
    o.window = window ? window : smooth.window;
    o.speckle_size = o.speckle_size == cusStereoBest().speckle_size ? smooth.speckle_size : o.speckle_size;
    return "smooth";
}

} // namespace contour
