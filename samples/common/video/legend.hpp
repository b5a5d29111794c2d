// Makes pictures readable: a strip with the scale of their colors, and labels that do not cover each other.
#pragma once

#include <opencv2/core.hpp>

#include <string>
#include <vector>

namespace sample {

// One scale: a bar of colors with numbers below it.
struct Scale {
    struct Tick {
        double at; // 0 the left end, 1 the right end
        std::string label;
    };
    std::string title;             // with the unit
    std::vector<cv::Vec3b> colors; // from left to right, at least one
    std::vector<Tick> ticks;
};

// `n` colors of one of OpenCV's color maps, such as cv::COLORMAP_TURBO, from value `from` to value `to` (0..255).
std::vector<cv::Vec3b> colorMap(int map, int from = 0, int to = 255);
// Round numbers between low and high, about five.
std::vector<Scale::Tick> roundTicks(double low, double high);
// Colors from one to another.
std::vector<cv::Vec3b> gradient(const cv::Vec3b &from, const cv::Vec3b &to);

// Height of the strip above pictures of this width, an even number; 0 if they are too narrow for one.
int legendHeight(int picture_width);

// Fills `strip` (8UC3) with the scales, side by side.
void drawLegend(cv::Mat &strip, const std::vector<Scale> &scales);

// The picture (8UC3 or 8UC1) with the strip above it, where the controls of players do not cover it.
cv::Mat withLegend(const cv::Mat &picture, const std::vector<Scale> &scales);

// Text on pictures.
class Labels {
  public:
    explicit Labels(cv::Size picture) : picture_(picture) {}

    static double scaleFor(cv::Size picture); // the size of the letters
    static cv::Size sizeOf(const std::string &label, double scale);

    // Whether the box lies within the picture and touches no label placed before.
    bool isFree(const cv::Rect &box) const;
    // Keeps labels out of the box.
    void occupy(const cv::Rect &box) { occupied_.push_back(box); }
    // Draws the label with its upper left corner at `at`, with an outline, and occupies its box.
    void draw(cv::Mat &picture, const std::string &label, cv::Point at, double scale, const cv::Scalar &color,
              const cv::Scalar &outline);

  private:
    const cv::Size picture_;
    std::vector<cv::Rect> occupied_;
};

} // namespace sample
