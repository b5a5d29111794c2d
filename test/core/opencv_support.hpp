// Pictures for the tests of OpenCV's interface, and how far two are apart.
#pragma once

#include "cusight/opencv.hpp"
#include "support.hpp"

#include <opencv2/imgproc.hpp>

#include <cmath>

namespace opencv_test {

inline cv::Mat randomImage(int rows, int cols, int type, std::mt19937_64 &random) {
    cv::Mat image(rows, cols, type);
    cv::RNG(random()).fill(image, cv::RNG::UNIFORM, 0, CV_MAT_DEPTH(type) == CV_32F ? 1 : 256);
    return image;
}

// Blurred noise, whose neighboring scores resemble each other.
inline cv::Mat smoothImage(int rows, int cols, int type, std::mt19937_64 &random) {
    cv::Mat image = randomImage(rows, cols, type, random);
    cv::GaussianBlur(image, image, {5, 5}, 1.2);
    cv::normalize(image, image, 0, CV_MAT_DEPTH(type) == CV_32F ? 1 : 255, cv::NORM_MINMAX);
    return image;
}

inline double difference(const cv::Mat &a, const cv::Mat &b) {
    return a.size() == b.size() && a.type() == b.type() ? cv::norm(a, b, cv::NORM_INF) : INFINITY;
}

} // namespace opencv_test
