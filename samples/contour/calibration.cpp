#include "contour/calibration.hpp"

#include "common/app.hpp"
#include "common/terminal/files.hpp"
#include "contour/tree.hpp"

#ifdef CUSIGHT_HAVE_OPENCV_CALIB3D
#include <opencv2/calib3d.hpp>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <vector>

namespace contour {

using sample::Stop;
using sample::text;

namespace {

constexpr size_t MAX_BYTES = size_t{1} << 20;

Node readTree(const std::string &path) {
    return parseTree(path, sample::readRegular(path, MAX_BYTES));
}

// The numbers of a part; empty if there is none. Throws unless all are finite and, if `count` is not 0, there are so many.
std::vector<double> numbersOf(const std::string &path, const std::string &owner, const Node &node, const char *name,
                              size_t count) {
    std::vector<double> numbers;
    const Node *const part = node.find(name);
    const bool valid = !part || part->numbers(numbers);
    if (!valid || !cv::checkRange(numbers))
        throw Stop(sample::INPUT,
                   text("%s: %s of %s has values that are no finite numbers", path.c_str(), name, owner.c_str()));
    if (count && numbers.size() != count)
        throw Stop(sample::INPUT, text("%s: %s of %s has %zu numbers, expected %zu", path.c_str(), name, owner.c_str(),
                                       numbers.size(), count));
    return numbers;
}

// A matrix under one of several names, as 64F; empty if the file has none.
cv::Mat matrixOf(const std::string &path, const Node &file, std::initializer_list<const char *> names) {
    constexpr int MAX_SIDE = 16; // rows and columns
    for (const char *name : names) {
        const Node *const node = file.find(name);
        if (!node || !node->find("data"))
            continue;
        const double rows = numbersOf(path, name, *node, "rows", 1)[0], cols = numbersOf(path, name, *node, "cols", 1)[0];
        for (const double side : {rows, cols})
            if (side < 1 || side > MAX_SIDE || side != std::floor(side))
                throw Stop(sample::INPUT, text("%s: %s is %g x %g, expected 1 to %d rows and columns", path.c_str(), name,
                                               rows, cols, MAX_SIDE));
        const auto data = numbersOf(path, name, *node, "data", static_cast<size_t>(rows * cols));
        return cv::Mat(data, true).reshape(1, static_cast<int>(rows));
    }
    return {};
}

std::string wordOf(const Node &node, const char *name) {
    const Node *const part = node.find(name);
    return part ? part->text : "";
}

// Camera 0 or 1.
Camera kalibrCamera(const std::string &path, const std::string &name, const Node &node) {
    const std::string model = wordOf(node, "camera_model"), distortion = wordOf(node, "distortion_model");
    if (model != "pinhole" || (distortion != "radtan" && distortion != "equidistant" && distortion != "none"))
        throw Stop(sample::INPUT, text("%s: %s is %s with %s, expected pinhole with radtan, equidistant or none",
                                       path.c_str(), name.c_str(), model.c_str(), distortion.c_str()));
    const auto i = numbersOf(path, name, node, "intrinsics", 4);
    Camera camera;
    camera.matrix = cv::Mat(cv::Matx33d(i[0], 0, i[2], 0, i[1], i[3], 0, 0, 1));
    camera.fisheye = distortion == "equidistant";
    camera.distortion = distortion == "none"
                            ? cv::Mat(cv::Mat::zeros(1, 4, CV_64F))
                            : cv::Mat(numbersOf(path, name, node, "distortion_coeffs", 4), true).reshape(1, 1);
    return camera;
}

Calibration kalibr(const std::string &path, const Node &file) {
    const Node *const cam0 = file.find("cam0"), *const cam1 = file.find("cam1");
    if (!cam1)
        throw Stop(sample::INPUT, path + " has one camera, cam0; expected cam0 (left) and cam1 (right)");
    Calibration c;
    c.left = kalibrCamera(path, "cam0", *cam0);
    c.right = kalibrCamera(path, "cam1", *cam1);
    if (c.left.fisheye != c.right.fisheye)
        throw Stop(sample::INPUT, path + ": one camera is equidistant and the other is not");
    const cv::Mat move = cv::Mat(numbersOf(path, "cam1", *cam1, "T_cn_cnm1", 16), true).reshape(1, 4);
    c.rotation = move(cv::Rect(0, 0, 3, 3)).clone();
    c.translation = move(cv::Rect(3, 0, 1, 3)).clone();
    const auto size = numbersOf(path, "cam0", *cam0, "resolution", 2);
    c.size = {cv::saturate_cast<int>(size[0]), cv::saturate_cast<int>(size[1])};
    return c;
}

void requireSize(const std::string &path, const char *name, const cv::Mat &matrix, int rows, int cols) {
    if (matrix.rows != rows || matrix.cols != cols)
        throw Stop(sample::INPUT,
                   text("%s: %s is %d x %d, expected %d x %d", path.c_str(), name, matrix.rows, matrix.cols, rows, cols));
}

void checkCamera(const std::string &path, const char *which, const Camera &camera) {
    const cv::Mat &m = camera.matrix;
    if (m.at<double>(0, 0) <= 0 || m.at<double>(1, 1) <= 0 || cv::norm(m.row(2), cv::Mat(cv::Matx13d(0, 0, 1))) > 0)
        throw Stop(
            sample::INPUT,
            text("%s: the matrix of the %s camera has the focal lengths %g and %g and the last row %g %g %g, expected "
                 "some above 0 and 0 0 1",
                 path.c_str(), which, m.at<double>(0, 0), m.at<double>(1, 1), m.at<double>(2, 0), m.at<double>(2, 1),
                 m.at<double>(2, 2)));
    const size_t count = camera.distortion.total();
    const std::array<size_t, 6> sizes = {0, 4, 5, 8, 12, 14};
    if (std::find(sizes.begin(), sizes.end(), count) == sizes.end() || (camera.fisheye && count != 4))
        throw Stop(sample::INPUT, text("%s: the %s camera has %zu numbers for its distortion, expected %s", path.c_str(),
                                       which, count, camera.fisheye ? "4" : "4, 5, 8, 12 or 14"));
}

// `path`: of the file with R and T.
Calibration checked(const std::string &file, const std::string &path, const Calibration &c) {
    constexpr double ROTATION = 1e-3;
    constexpr int LARGEST = 65536;
    checkCamera(file, "left", c.left);
    checkCamera(file, "right", c.right);
    const double off = cv::norm(c.rotation * c.rotation.t(), cv::Mat::eye(3, 3, CV_64F), cv::NORM_INF);
    if (!(off <= ROTATION) || cv::determinant(c.rotation) < 0)
        throw Stop(sample::INPUT, text("%s: R is no rotation: R times its transpose is %g off the identity, or it mirrors; "
                                       "expected at most %g",
                                       path.c_str(), off, ROTATION));
    const double baseline = cv::norm(c.translation);
    if (!(baseline > 0) || !std::isfinite(baseline))
        throw Stop(sample::INPUT,
                   text("%s: T has the length %g, expected the distance of the cameras, above 0", path.c_str(), baseline));
    if (c.size != cv::Size() &&
        (c.size.width < 1 || c.size.height < 1 || c.size.width > LARGEST || c.size.height > LARGEST))
        throw Stop(sample::INPUT, text("%s: the images are %d x %d, expected sides from 1 to %d", file.c_str(),
                                       c.size.width, c.size.height, LARGEST));
    return c;
}

Calibration readOpenCv(const std::string &file, const std::string &extrinsics, const Node &tree) {
    Calibration c;
    c.left.matrix = matrixOf(file, tree, {"M1", "K1", "camera_matrix_left", "cameraMatrix1", "left_camera_matrix"});
    c.right.matrix = matrixOf(file, tree, {"M2", "K2", "camera_matrix_right", "cameraMatrix2", "right_camera_matrix"});
    c.left.distortion = matrixOf(file, tree, {"D1", "distortion_left", "distCoeffs1", "left_distortion"});
    c.right.distortion = matrixOf(file, tree, {"D2", "distortion_right", "distCoeffs2", "right_distortion"});
    if (c.left.matrix.empty() || c.right.matrix.empty())
        throw Stop(sample::INPUT, file + " has no camera matrices of two cameras: M1 and M2 as OpenCV's stereo_calib "
                                         "writes them, or cam0 and cam1 as Kalibr does");
    const std::string second = extrinsics.empty() ? file : extrinsics;
    const Node other = extrinsics.empty() ? tree : readTree(second);
    c.rotation = matrixOf(second, other, {"R", "rotation"});
    c.translation = matrixOf(second, other, {"T", "translation"});
    if (c.rotation.empty() || c.translation.empty())
        throw Stop(sample::INPUT, second + " has no R and T, the place of the right camera. stereo_calib writes them to "
                                           "extrinsics.yml: name it with --extrinsics, or use --rectify instead");
    if (c.rotation.total() == 3) { // a rotation vector
#ifdef CUSIGHT_HAVE_OPENCV_CALIB3D
        cv::Rodrigues(c.rotation.clone(), c.rotation);
#endif
    }
    c.translation = c.translation.reshape(1, static_cast<int>(c.translation.total()));
    requireSize(file, "M1", c.left.matrix, 3, 3);
    requireSize(file, "M2", c.right.matrix, 3, 3);
    requireSize(second, "R", c.rotation, 3, 3);
    requireSize(second, "T", c.translation, 3, 1);
    const auto width = numbersOf(file, "the file", tree, "image_width", 0),
               height = numbersOf(file, "the file", tree, "image_height", 0);
    if (width.size() == 1 && height.size() == 1)
        c.size = {cv::saturate_cast<int>(width[0]), cv::saturate_cast<int>(height[0])};
    return checked(file, second, c);
}

} // namespace

Calibration readCalibration(const std::string &file, const std::string &extrinsics) {
    const Node tree = readTree(file);
    return tree.find("cam0") ? checked(file, file, kalibr(file, tree)) : readOpenCv(file, extrinsics, tree);
}

} // namespace contour
