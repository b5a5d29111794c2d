// Frigate's motion detector as a peer, from its public description: the luma is made smaller, its contrast stretched between two
// percentiles, blurred, compared with a running average, thresholded, dilated, and its contours are found.
#pragma once

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#if __has_include(<opencv2/geometry.hpp>) // OpenCV 5: boundingRect(), contourArea()
#include <opencv2/geometry.hpp>
#endif

#include <algorithm>
#include <vector>

namespace peers {

class FrigateMotion {
  public:
    // rows_used: height of the picture that is looked at; Frigate's default is 100.
    FrigateMotion(int rows, int cols, int rows_used)
        : size_(std::max(1, cols * rows_used / rows), rows_used), scale_(static_cast<double>(rows) / rows_used),
          average_(size_, CV_32F, cv::Scalar(0)) {}

    // Boxes in pixels of the frame. contour_area: the least, in pixels of the small picture.
    std::vector<cv::Rect> step(const cv::Mat &gray, double alpha = 0.01, double threshold = 30, double contour_area = 10) {
        cv::resize(gray, small_, size_, 0, 0, cv::INTER_LINEAR);
        stretch(small_);
        cv::GaussianBlur(small_, small_, cv::Size(3, 3), 1);
        std::vector<cv::Rect> boxes;
        if (frames_++ == 0) {
            small_.convertTo(average_, CV_32F);
            return boxes;
        }
        cv::convertScaleAbs(average_, average8_);
        cv::absdiff(small_, average8_, delta_);
        cv::threshold(delta_, mask_, threshold, 255, cv::THRESH_BINARY);
        cv::dilate(mask_, mask_, cv::Mat(), cv::Point(-1, -1), 1);
        std::vector<std::vector<cv::Point>> contours;
        cv::findContours(mask_, contours, cv::RETR_EXTERNAL, cv::CHAIN_APPROX_SIMPLE);
        for (const auto &contour : contours)
            if (cv::contourArea(contour) > contour_area) {
                const cv::Rect r = cv::boundingRect(contour);
                boxes.emplace_back(static_cast<int>(r.x * scale_), static_cast<int>(r.y * scale_),
                                   static_cast<int>(r.width * scale_), static_cast<int>(r.height * scale_));
            }
        cv::accumulateWeighted(small_, average_, alpha);
        return boxes;
    }

  private:
    // The 4th percentile becomes 0 and the 96th 255.
    static void stretch(cv::Mat &image) {
        int histogram[256] = {};
        for (int y = 0; y < image.rows; ++y)
            for (int x = 0; x < image.cols; ++x)
                ++histogram[image.at<uint8_t>(y, x)];
        const auto percentile = [&](double share) {
            double left = share * static_cast<double>(image.total());
            int v = 0;
            while (v < 255 && (left -= histogram[v]) > 0)
                ++v;
            return v;
        };
        const int low = percentile(0.04), high = percentile(0.96);
        if (high > low)
            image.convertTo(image, CV_8U, 255.0 / (high - low), -255.0 * low / (high - low));
    }

    cv::Size size_;
    double scale_;
    int frames_ = 0;
    cv::Mat small_, average_, average8_, delta_, mask_;
};

} // namespace peers
