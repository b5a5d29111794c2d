// Depth of a map: as an image in meters, and as a cloud of points.
#pragma once

#include <opencv2/core.hpp>

#include <string>

namespace contour {

// Shifts in pixels, 32FC1; -1 at a hole. `elevation`: of cusContourMap, in 1 / `scale` pixel.
cv::Mat shiftsOf(const cv::Mat &elevation, double scale);

// The matrix Q of OpenCV's stereoRectify for an ideal pair.
cv::Mat idealQ(cv::Size size, double focal, double baseline, int direction);

// Distance from the cameras' plane: .png in millimeters with 16 bits, 0 at holes and beyond 65 m; .tif in meters with 32.
// shifts: as from shiftsOf. `direction`: of cusStereoOptions.
void writeDepth(const std::string &path, const cv::Mat &shifts, const cv::Mat &q, int direction);

// Binary PLY: a colored point for each pixel with a shift above 0, x right, y down, z forward. Returns the number of points.
size_t writeCloud(const std::string &path, const cv::Mat &shifts, const cv::Mat &color, const cv::Mat &q, int direction);

} // namespace contour
