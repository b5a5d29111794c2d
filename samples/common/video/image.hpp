// Pictures that are read whole: inputs, templates and masks.
#pragma once

#include <opencv2/core.hpp>

#include <cstddef>
#include <string>

namespace sample {

// The largest file that is read as a picture.
constexpr size_t MAX_IMAGE_BYTES = size_t{1} << 30;

// Both decode as cv::imread with `mode`, and throw Stop(INPUT), which names the picture and, where OpenCV cannot read its kind, says
// what to do. A file, or stdin for "-".
cv::Mat decodeImage(const std::string &name, const void *bytes, size_t count, int mode);
cv::Mat readImage(const std::string &path, int mode);

// A picture in color, and which of its pixels count.
struct Masked {
    cv::Mat picture;
    cv::Mat mask; // 8UC1, 255 where an alpha channel is at least one half, otherwise 0; empty if there is none, or all are
};
Masked readMasked(const std::string &path);

} // namespace sample
