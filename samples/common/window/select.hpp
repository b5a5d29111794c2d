// Rectangles of a picture, which the user draws with the mouse.
#pragma once

#include <opencv2/core.hpp>

#include <string>
#include <vector>

namespace sample {

// The mouse part of a manual page.
extern const char *const SELECTION_HELP;

// Shows the picture until the user accepts what is drawn, or cancels: then there is none. Needs a display.
std::vector<cv::Rect> selectRectangles(const std::string &title, const cv::Mat &picture);

} // namespace sample
