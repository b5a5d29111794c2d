// The colors of cusight-heatmap: palettes, and the scale that suits a video.
#pragma once

#include <opencv2/core.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace heatmap {

const std::vector<std::string> &paletteNames();

// The colors of changes from 0 to `n` - 1; `full_scale` and larger ones have the last color of the palette.
std::vector<cv::Vec3b> paletteColors(const std::string &palette, int n, int full_scale);

// The change that should have the last color, from 150 to 765, so that what moves in these successive frames (8UC3) has all colors, a quarter of it the last,
// and their noise has the first ones.
int suitableFullScale(const std::vector<cv::Mat> &frames);

} // namespace heatmap
