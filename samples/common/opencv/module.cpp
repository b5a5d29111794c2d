#include "common/opencv/opencv.hpp"

#include <opencv2/imgcodecs.hpp>

extern "C" __attribute__((visibility("default"))) const sample::OpenCv cusight_opencv;

const sample::OpenCv cusight_opencv = {
    CUSIGHT_SAMPLES_VERSION,
    [](const cv::Mat &bytes, int mode) { return cv::imdecode(bytes, mode); },
    [](const std::string &ending, const cv::Mat &picture, std::vector<uchar> &bytes) {
        return cv::imencode(ending, picture, bytes);
    },
    [] { return std::make_shared<cv::VideoCapture>(); },
    [](const std::string &title, int flags) { cv::namedWindow(title, flags); },
    [](const std::string &title, const cv::Size &size) { cv::resizeWindow(title, size); },
    [](const std::string &title, const std::string &words) { cv::setWindowTitle(title, words); },
    [](const std::string &title, int property, double value) { cv::setWindowProperty(title, property, value); },
    [](const std::string &title, int property) { return cv::getWindowProperty(title, property); },
    [](const std::string &title) { return cv::getWindowImageRect(title); },
    [](const std::string &title, const cv::Mat &picture) { cv::imshow(title, picture); },
    [](int milliseconds) { return cv::waitKey(milliseconds); },
    [](const std::string &title, cv::MouseCallback function, void *user) { cv::setMouseCallback(title, function, user); },
    [](const std::string &name, const std::string &title, int *value, int most) {
        cv::createTrackbar(name, title, value, most);
    },
    [] { cv::destroyAllWindows(); },
};
