#include "common/video/image.hpp"

#include "common/app.hpp"
#include "common/opencv/opencv.hpp"
#include "common/output.hpp"
#include "common/terminal/files.hpp"
#include "common/standard_input.hpp"

#include <opencv2/imgcodecs.hpp>

#include <cstdint>
#include <vector>

namespace sample {

namespace {

cv::Mat decoded(const void *bytes, size_t count, int mode) {
    const cv::Mat all(1, static_cast<int>(count), CV_8UC1, const_cast<void *>(bytes));
    try {
        return count ? openCv().imdecode(all, mode) : cv::Mat();
    } catch (const cv::Exception &) {
        return {};
    }
}

// What a picture is that cannot be decoded with 8 bits.
std::string problemOf(const std::string &bytes) {
    constexpr size_t FLAGS = 20; // of an extended WebP
    if (bytes.size() > FLAGS && bytes.compare(0, 4, "RIFF") == 0 && bytes.compare(8, 8, "WEBPVP8X") == 0 &&
        (bytes[FLAGS] & 2) != 0)
        return "is an animated WebP, expected one picture: anim_dump, of Debian's package webp, writes its frames as "
               "pictures";
    const cv::Mat any = decoded(bytes.data(), bytes.size(), cv::IMREAD_UNCHANGED);
    if (!any.empty() && any.depth() != CV_8U && any.depth() != CV_16U)
        return text("has values of %s, expected integers of 8 or 16 bits: scale and convert them, in Python by "
                    "(255 * a).astype(\"uint8\") if they are from 0 to 1",
                    any.depth() == CV_32F   ? "float"
                    : any.depth() == CV_64F ? "double"
                                            : "another type");
    return "is not an image that can be decoded";
}

std::string contentOf(const std::string &path) {
    if (!isStandard(path))
        return readRegular(path, MAX_IMAGE_BYTES);
    const std::vector<unsigned char> all = StandardInput().readAll();
    return {all.begin(), all.end()};
}

cv::Mat decodeContent(const std::string &path, const std::string &content, int mode) {
    return decodeImage(isStandard(path) ? "stdin" : path, content.data(), content.size(), mode);
}

} // namespace

cv::Mat decodeImage(const std::string &name, const void *bytes, size_t count, int mode) {
    cv::Mat image = decoded(bytes, count, mode);
    if (image.empty())
        throw Stop(INPUT, name + " " + problemOf(std::string(static_cast<const char *>(bytes), count)));
    return image;
}

cv::Mat readImage(const std::string &path, int mode) {
    return decodeContent(path, contentOf(path), mode);
}

Masked readMasked(const std::string &path) {
    const std::string content = contentOf(path);
    Masked result = {decodeContent(path, content, cv::IMREAD_COLOR), {}};
    const cv::Mat all = decodeContent(path, content, cv::IMREAD_UNCHANGED);
    if (all.channels() != 4 || all.size() != result.picture.size())
        return result;
    cv::Mat alpha;
    cv::extractChannel(all, alpha, 3);
    const cv::Mat mask = alpha >= (all.depth() == CV_16U ? 32768 : 128);
    if (cv::countNonZero(mask) == 0)
        throw Stop(INPUT, path + " is transparent everywhere, so nothing of it can be found");
    if (cv::countNonZero(mask) < all.rows * all.cols)
        result.mask = mask;
    return result;
}

} // namespace sample
