// Labels and the scale of the colors of a contour map.
#pragma once

#include "common/video/legend.hpp"

#include <opencv2/core.hpp>

namespace contour {

struct Range {
    double low = 0, high = 0; // elevation: 1 + shift, 0 for a hole
};
Range rangeOf(const cv::Mat &elevation);

// Writes the shift of each contour line beside it.
void label(cv::Mat &picture, const cv::Mat &elevation, int levels);

// The colors of cusStereoPicture from the lowest to the highest elevation of a picture.
sample::Scale scaleOf(const cv::Mat &elevation);

} // namespace contour
