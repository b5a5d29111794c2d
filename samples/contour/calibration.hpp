// Calibrations of a pair of cameras. Their files are not trusted.
#pragma once

#include <opencv2/core.hpp>

#include <string>

namespace contour {

struct Camera {
    cv::Mat matrix, distortion; // 3 x 3; what OpenCV's model takes
    bool fisheye = false;       // equidistant
};

struct Calibration {
    Camera left, right;
    cv::Mat rotation, translation; // of a point, from the left camera to the right one
    cv::Size size;                 // of the images that it was made from; empty if the file does not say
};

// Reads OpenCV's YAML, XML or JSON (M1 D1 M2 D2 R T, or K1 K2, or camera_matrix_left and so on), or Kalibr's YAML (cam0,
// cam1). `extrinsics`: a second file with R and T, or "".
// Throws Stop(INPUT) unless all numbers are finite, the camera matrices invertible, R is a rotation and T is not 0.
Calibration readCalibration(const std::string &file, const std::string &extrinsics);

} // namespace contour
