// What programs use of OpenCV's imgcodecs, videoio and highgui. These bring a hundred libraries, which take 0.1 to 0.2 s to load, so
// they are in a module that is loaded when the first of these functions is needed.
#pragma once

#include <opencv2/core.hpp>
#include <opencv2/highgui.hpp>
#include <opencv2/videoio.hpp>

#include <memory>
#include <string>
#include <vector>

namespace sample {

// The functions do what those of OpenCV with these names do.
struct OpenCv {
    const char *version; // of the programs that the module belongs to
    cv::Mat (*imdecode)(const cv::Mat &bytes, int mode);
    bool (*imencode)(const std::string &ending, const cv::Mat &picture, std::vector<uchar> &bytes);
    std::shared_ptr<cv::VideoCapture> (*videoCapture)();
    void (*namedWindow)(const std::string &title, int flags);
    void (*resizeWindow)(const std::string &title, const cv::Size &size);
    void (*setWindowTitle)(const std::string &title, const std::string &words);
    void (*setWindowProperty)(const std::string &title, int property, double value);
    double (*getWindowProperty)(const std::string &title, int property);
    cv::Rect (*getWindowImageRect)(const std::string &title);
    void (*imshow)(const std::string &title, const cv::Mat &picture);
    int (*waitKey)(int milliseconds);
    void (*setMouseCallback)(const std::string &title, cv::MouseCallback function, void *user);
    void (*createTrackbar)(const std::string &name, const std::string &title, int *value, int most);
    void (*destroyAllWindows)();
};

// Throws Stop(FAILED) if the module or one of its libraries cannot be loaded.
const OpenCv &openCv();

} // namespace sample
