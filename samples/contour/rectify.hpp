// Rectification of a pair: from a calibration, or from points that both images show.
#pragma once

#include "common/app.hpp"
#include "contour/calibration.hpp"

#include "cusight/remap.h"

#include <opencv2/core.hpp>

#include <string>

namespace contour {

// How both images are rectified.
struct Rectification {
    cv::Mat left, right;      // maps, 32FC2
    cv::Mat q;                // 4 x 4, (x, y, disparity, 1) to a place; empty without a calibration
    int direction = -1;       // of cusStereoOptions
    double highest_shift = 0; // of the points that it was made from
    std::string summary;      // for the user
    double focal() const { return q.empty() ? 0 : q.at<double>(2, 3); }
};

// `size`: of the images that are mapped, which may be smaller than the calibrated ones. `unit`: meters per unit of the
// calibration's translation. Throws Stop(INPUT) if the cameras are not side by side.
Rectification rectifyCalibrated(const Calibration &calibration, cv::Size size, double unit);

// left, right: 8UC1. Throws Stop(INPUT) if too few points match.
Rectification rectifyFromPoints(const cv::Mat &left, const cv::Mat &right);

// Applies a map on a device.
class Remapper {
  public:
    Remapper(cusSpace space, const cv::Mat &map);
    ~Remapper();
    Remapper(const Remapper &) = delete;
    Remapper &operator=(const Remapper &) = delete;
    cv::Mat run(const cv::Mat &image);

  private:
    cusSpace space_;
    cusMat map_ = CUS_MAT_INIT, src_ = CUS_MAT_INIT, dst_ = CUS_MAT_INIT;
};

} // namespace contour
