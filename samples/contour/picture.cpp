#include "contour/picture.hpp"

#include "common/app.hpp"

#include "cusight/opencv.hpp"
#include "cusight/stereo.h"

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace contour {

namespace {

// Labels the long outlines of one level, at most three.
void labelLevel(cv::Mat &picture, const cv::Mat &elevation, double value, sample::Labels &labels) {
    std::vector<std::vector<cv::Point>> outlines;
    cv::findContours(elevation >= value, outlines, cv::RETR_LIST, cv::CHAIN_APPROX_NONE);
    std::sort(outlines.begin(), outlines.end(), [](const auto &a, const auto &b) { return a.size() > b.size(); });
    const std::string text = sample::text("%.0f", value - 1);
    const double scale = sample::Labels::scaleFor(picture.size());
    const cv::Size size = sample::Labels::sizeOf(text, scale);
    int written = 0;
    for (const auto &outline : outlines) {
        if (written == 3 || static_cast<int>(outline.size()) < picture.cols / 4)
            break;
        for (size_t i = outline.size() / 3; i < outline.size(); i += 7) {
            const cv::Point at(outline[i].x - size.width / 2, outline[i].y - size.height / 2);
            if (!labels.isFree({at.x - 6, at.y - 6, size.width + 12, size.height + 12}))
                continue;
            labels.draw(picture, text, at, scale, {0, 0, 0}, {255, 255, 255});
            ++written;
            break;
        }
    }
}

} // namespace

Range rangeOf(const cv::Mat &elevation) {
    Range range;
    cv::minMaxLoc(elevation, &range.low, &range.high);
    return range;
}

void label(cv::Mat &picture, const cv::Mat &elevation, int levels) {
    const Range range = rangeOf(elevation);
    sample::Labels labels(picture.size());
    for (int k = 1; k < levels && range.high > range.low; ++k)
        labelLevel(picture, elevation, range.low + k * (range.high - range.low) / levels, labels);
}

sample::Scale scaleOf(const cv::Mat &elevation) {
    constexpr int COLORS = 256;
    double low = 0, high = 0;
    cv::minMaxLoc(elevation, &low, &high, nullptr, nullptr, elevation > 0); // without holes
    cv::Mat ramp(1, COLORS, CV_32F), colors(1, COLORS, CV_8UC3);
    const double span = high - low;
    for (int i = 0; i < COLORS; ++i)
        ramp.at<float>(i) = static_cast<float>(low + span * i / (COLORS - 1));
    const cusMat from = cusight::view(ramp);
    cusMat to = cusight::view(colors);
    cusight::check(cusStereoPicture(&from, nullptr, &to, nullptr));
    sample::Scale scale = {"shift, pixels (black: none)", {colors.begin<cv::Vec3b>(), colors.end<cv::Vec3b>()}, {}};
    scale.ticks = sample::roundTicks(low - 1, high - 1);
    return scale;
}

} // namespace contour
