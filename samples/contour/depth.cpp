#include "contour/depth.hpp"

#include "common/output.hpp"
#include "common/video/sink.hpp"

#include <cmath>
#include <vector>

namespace contour {

namespace {

// The place of a pixel with a shift; infinitely far at 0.
cv::Vec3d placeOf(const cv::Mat &q, int x, int y, double shift, int direction) {
    const cv::Matx44d m(q.ptr<double>());
    const cv::Vec4d p = m * cv::Vec4d(x, y, -direction * shift, 1);
    return {p[0] / p[3], p[1] / p[3], p[2] / p[3]};
}

} // namespace

cv::Mat shiftsOf(const cv::Mat &elevation, double scale) {
    cv::Mat shifts;
    elevation.convertTo(shifts, CV_32F, 1 / scale, -1);
    return shifts;
}

cv::Mat idealQ(cv::Size size, double focal, double baseline, int direction) {
    return cv::Mat(cv::Matx44d(1, 0, 0, -0.5 * size.width, 0, 1, 0, -0.5 * size.height, 0, 0, 0, focal, 0, 0,
                               -direction / baseline, 0));
}

void writeDepth(const std::string &path, const cv::Mat &shifts, const cv::Mat &q, int direction) {
    cv::Mat depth = cv::Mat::zeros(shifts.size(), CV_32F);
    for (int y = 0; y < shifts.rows; ++y)
        for (int x = 0; x < shifts.cols; ++x)
            if (shifts.at<float>(y, x) > 0)
                depth.at<float>(y, x) = static_cast<float>(placeOf(q, x, y, shifts.at<float>(y, x), direction)[2]);
    if (path.size() > 4 && path.substr(path.size() - 4) == ".png") {
        depth.setTo(0, depth > 65.535f);
        depth.convertTo(depth, CV_16U, 1000);
    }
    sample::writeImage(path, depth);
}

size_t writeCloud(const std::string &path, const cv::Mat &shifts, const cv::Mat &color, const cv::Mat &q, int direction) {
    std::vector<char> points;
    for (int y = 0; y < shifts.rows; ++y)
        for (int x = 0; x < shifts.cols; ++x) {
            if (shifts.at<float>(y, x) <= 0)
                continue;
            const cv::Vec3f place = placeOf(q, x, y, shifts.at<float>(y, x), direction);
            const cv::Vec3b &c = color.at<cv::Vec3b>(y, x);
            const auto *const bytes = reinterpret_cast<const char *>(place.val);
            points.insert(points.end(), bytes, bytes + sizeof place.val);
            for (const int channel : {2, 1, 0})
                points.push_back(static_cast<char>(c[channel]));
        }
    constexpr size_t POINT = 3 * sizeof(float) + 3;
    sample::OutputFile file(path);
    file.print(
        "ply\nformat binary_little_endian 1.0\nelement vertex %zu\nproperty float x\nproperty float y\nproperty float z\n"
        "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n",
        points.size() / POINT);
    file.write(points.data(), points.size());
    file.commit();
    return points.size() / POINT;
}

} // namespace contour
