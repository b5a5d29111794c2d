#include "contour/rectify.hpp"

#include "cusight/opencv.hpp"

#ifdef CUSIGHT_HAVE_OPENCV_CALIB3D
#include <opencv2/calib3d.hpp>
#include <opencv2/features2d.hpp>
#endif
#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace contour {

using cusight::check;
using sample::Stop;
using sample::text;

// ---- Maps --------------------------------------------------------------------------------------------------------------

#ifdef CUSIGHT_HAVE_OPENCV_CALIB3D

namespace {

// The camera matrix for images of another size. Pixel centers are whole numbers.
cv::Mat scaled(const cv::Mat &matrix, double x, double y) {
    cv::Mat m = matrix.clone();
    m.at<double>(0, 0) *= x;
    m.at<double>(0, 1) *= x;
    m.at<double>(0, 2) = (m.at<double>(0, 2) + 0.5) * x - 0.5;
    m.at<double>(1, 1) *= y;
    m.at<double>(1, 2) = (m.at<double>(1, 2) + 0.5) * y - 0.5;
    return m;
}

cv::Mat mapOf(const Camera &camera, const cv::Mat &matrix, const cv::Mat &turn, const cv::Mat &projection, cv::Size size) {
    cv::Mat map, second;
    if (camera.fisheye) { // it has no 32FC2
        cv::Mat parts[2];
        cv::fisheye::initUndistortRectifyMap(matrix, camera.distortion, turn, projection, size, CV_32FC1, parts[0],
                                             parts[1]);
        cv::merge(parts, 2, map);
    } else {
        cv::initUndistortRectifyMap(matrix, camera.distortion, turn, projection, size, CV_32FC2, map, second);
    }
    return map;
}

} // namespace

Rectification rectifyCalibrated(const Calibration &c, cv::Size size, double unit) {
    const cv::Size from = c.size.empty() ? size : c.size;
    const double x = static_cast<double>(size.width) / from.width, y = static_cast<double>(size.height) / from.height;
    if (std::abs(x / y - 1) > 0.01)
        throw Stop(sample::INPUT,
                   text("the calibration is for images of %d x %d, which these of %d x %d are no reduction of", from.width,
                        from.height, size.width, size.height));
    const cv::Mat left = scaled(c.left.matrix, x, y), right = scaled(c.right.matrix, x, y), t = unit * c.translation;
    cv::Mat turn[2], projection[2];
    Rectification r;
    if (c.left.fisheye)
        cv::fisheye::stereoRectify(left, c.left.distortion, right, c.right.distortion, size, c.rotation, t, turn[0],
                                   turn[1], projection[0], projection[1], r.q, cv::CALIB_ZERO_DISPARITY, size, 0);
    else
        cv::stereoRectify(left, c.left.distortion, right, c.right.distortion, size, c.rotation, t, turn[0], turn[1],
                          projection[0], projection[1], r.q, cv::CALIB_ZERO_DISPARITY, 0, size);
    const double across = projection[1].at<double>(0, 3), down = projection[1].at<double>(1, 3);
    if (std::abs(down) > std::abs(across))
        throw Stop(sample::INPUT, "the cameras of the calibration are above each other, expected side by side");
    r.direction = across < 0 ? -1 : 1;
    r.left = mapOf(c.left, left, turn[0], projection[0], size);
    r.right = mapOf(c.right, right, turn[1], projection[1], size);
    if (!cv::checkRange(r.left.reshape(1)) || !cv::checkRange(r.right.reshape(1)) || !cv::checkRange(r.q))
        throw Stop(sample::INPUT, "the calibration gives no finite places of pixels");
    r.summary = text("cameras %.4g m apart, focal length %.1f pixels", cv::norm(t), r.focal());
    return r;
}

namespace {

// Points that both images show.
struct Matches {
    std::vector<cv::Point2f> left, right;
};

Matches matchPoints(const cv::Mat &left, const cv::Mat &right) {
    const auto sift = cv::SIFT::create(4000);
    std::vector<cv::KeyPoint> points[2];
    cv::Mat descriptors[2];
    sift->detectAndCompute(left, cv::noArray(), points[0], descriptors[0]);
    sift->detectAndCompute(right, cv::noArray(), points[1], descriptors[1]);
    Matches matches;
    if (points[0].size() < 2 || points[1].size() < 2)
        return matches;
    std::vector<std::vector<cv::DMatch>> nearest;
    cv::BFMatcher(cv::NORM_L2).knnMatch(descriptors[0], descriptors[1], nearest, 2);
    for (const auto &two : nearest)
        if (two.size() == 2 && two[0].distance < 0.75f * two[1].distance) {
            matches.left.push_back(points[0][static_cast<size_t>(two[0].queryIdx)].pt);
            matches.right.push_back(points[1][static_cast<size_t>(two[0].trainIdx)].pt);
        }
    return matches;
}

// The place in the original image of each pixel of the one that `warp` makes from it.
cv::Mat mapOfWarp(const cv::Mat &warp, cv::Size size) {
    const cv::Mat inverse = warp.inv();
    cv::Mat places(size, CV_32FC2);
    for (int y = 0; y < size.height; ++y)
        for (int x = 0; x < size.width; ++x)
            places.at<cv::Vec2f>(y, x) = {static_cast<float>(x), static_cast<float>(y)};
    cv::Mat map;
    cv::perspectiveTransform(places, map, inverse);
    return map;
}

double percentile(std::vector<double> values, double part) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

// Warps of both images to common rows, and how well points then lie on these.
struct Warps {
    cv::Mat left, right;
    int direction = -1;
    double rows = 1e9; // median of the differences
};

std::vector<double> rowDifferences(const Matches &points, const Warps &warps) {
    Matches moved;
    cv::perspectiveTransform(points.left, moved.left, warps.left);
    cv::perspectiveTransform(points.right, moved.right, warps.right);
    std::vector<double> rows;
    for (size_t i = 0; i < moved.left.size(); ++i)
        rows.push_back(std::abs(moved.left[i].y - moved.right[i].y));
    return rows;
}

// How far, on average, the corners of both images move.
double movement(const Warps &warps, cv::Size size) {
    const float right = static_cast<float>(size.width), bottom = static_cast<float>(size.height);
    const std::vector<cv::Point2f> corners = {{0, 0}, {right, 0}, {0, bottom}, {right, bottom}};
    double sum = 0;
    for (const cv::Mat &warp : {warps.left, warps.right}) {
        std::vector<cv::Point2f> moved;
        cv::perspectiveTransform(corners, moved, warp);
        for (size_t i = 0; i < corners.size(); ++i)
            sum += cv::norm(moved[i] - corners[i]);
    }
    return sum / 8;
}

// Two equal cameras without distortion, of a focal length that suits the points best: unlike the warps that a fundamental matrix alone
// gives, these keep far points at small shifts and straight scenes straight.
Warps warpsOfCameras(const Matches &points, const cv::Mat &f, cv::Size size) {
    constexpr double ROWS_A_PIXEL = 0.004; // where few points tell focal lengths apart, the images that move less are right
    Warps best;
    double least = 1e9;
    for (const double focal : {0.6, 0.75, 0.9, 1.1, 1.35, 1.7, 2.2}) {
        const double pixels = focal * size.width;
        const cv::Mat k =
            cv::Mat(cv::Matx33d(pixels, 0, 0.5 * (size.width - 1), 0, pixels, 0.5 * (size.height - 1), 0, 0, 1));
        cv::Mat r, t, turn[2], projection[2], q;
        cv::recoverPose(k.t() * f * k, points.left, points.right, k, r, t);
        cv::stereoRectify(k, cv::noArray(), k, cv::noArray(), size, r, t, turn[0], turn[1], projection[0], projection[1], q,
                          cv::CALIB_ZERO_DISPARITY, 0, size);
        if (std::abs(projection[1].at<double>(1, 3)) > std::abs(projection[1].at<double>(0, 3)))
            continue; // above each other
        Warps warps;
        warps.left = projection[0].colRange(0, 3) * turn[0] * k.inv();
        warps.right = projection[1].colRange(0, 3) * turn[1] * k.inv();
        warps.direction = projection[1].at<double>(0, 3) < 0 ? -1 : 1;
        warps.rows = percentile(rowDifferences(points, warps), 0.5);
        const double cost = warps.rows + ROWS_A_PIXEL * movement(warps, size);
        if (cost < least) {
            least = cost;
            best = warps;
        }
    }
    return best;
}

// Hartley's warps, which assume nothing of the cameras. They are only known up to a move along the rows: here all shifts of points are
// at least `margin`.
Warps warpsOfMatrix(const Matches &points, const cv::Mat &f, cv::Size size) {
    constexpr double margin = 8;
    Warps warps;
    if (!cv::stereoRectifyUncalibrated(points.left, points.right, f, size, warps.left, warps.right, 0))
        throw Stop(sample::INPUT, "--rectify: the matched points give no rectification; use --calibration");
    Matches moved;
    cv::perspectiveTransform(points.left, moved.left, warps.left);
    cv::perspectiveTransform(points.right, moved.right, warps.right);
    std::vector<double> shifts;
    for (size_t i = 0; i < moved.left.size(); ++i)
        shifts.push_back(moved.left[i].x - moved.right[i].x);
    const cv::Mat move(cv::Matx33d(1, 0, percentile(shifts, 0.01) - margin, 0, 1, 0, 0, 0, 1));
    warps.right = move * warps.right;
    warps.rows = percentile(rowDifferences(points, warps), 0.5);
    return warps;
}

// Moves both images alike, so that the left one is in the middle: where cameras turn towards each other, half of it would be cut off.
void center(Warps &warps, cv::Size size) {
    const cv::Point2f middle(0.5f * static_cast<float>(size.width - 1), 0.5f * static_cast<float>(size.height - 1));
    std::vector<cv::Point2f> moved;
    cv::perspectiveTransform(std::vector<cv::Point2f>{middle}, moved, warps.left);
    const cv::Mat move(cv::Matx33d(1, 0, middle.x - moved[0].x, 0, 1, middle.y - moved[0].y, 0, 0, 1));
    warps.left = move * warps.left;
    warps.right = move * warps.right;
}

} // namespace

Rectification rectifyFromPoints(const cv::Mat &left, const cv::Mat &right) {
    constexpr size_t MIN_PAIRS = 30;
    const Matches all = matchPoints(left, right);
    Matches good;
    cv::Mat inliers, f;
    if (all.left.size() >= MIN_PAIRS)
        f = cv::findFundamentalMat(all.left, all.right, cv::FM_RANSAC, 1.0, 0.999, inliers);
    for (size_t i = 0; !f.empty() && i < all.left.size(); ++i)
        if (inliers.at<uchar>(static_cast<int>(i))) {
            good.left.push_back(all.left[i]);
            good.right.push_back(all.right[i]);
        }
    if (good.left.size() < MIN_PAIRS)
        throw Stop(sample::INPUT,
                   text("--rectify: %zu points match in both images, expected at least %zu. Are they a pair?",
                        good.left.size(), MIN_PAIRS));
    f = cv::findFundamentalMat(good.left, good.right, cv::FM_8POINT);
    if (f.rows != 3)
        throw Stop(sample::INPUT, "--rectify: the matched points give no rectification; use --calibration");
    Warps warps = warpsOfCameras(good, f, left.size());
    if (warps.rows > 0.75) // no such cameras
        warps = warpsOfMatrix(good, f, left.size());
    center(warps, left.size());
    Matches moved;
    cv::perspectiveTransform(good.left, moved.left, warps.left);
    cv::perspectiveTransform(good.right, moved.right, warps.right);
    std::vector<double> shifts;
    for (size_t i = 0; i < moved.left.size(); ++i)
        shifts.push_back(warps.direction * (moved.right[i].x - moved.left[i].x));
    const auto rows = rowDifferences(good, warps);
    Rectification r;
    r.direction = warps.direction;
    r.left = mapOfWarp(warps.left, left.size());
    r.right = mapOfWarp(warps.right, left.size());
    r.highest_shift = std::max(1.0, percentile(shifts, 0.99));
    r.summary = text("from %zu points; half of them within %.2f rows, 95 %% within %.2f", rows.size(),
                     percentile(rows, 0.5), percentile(rows, 0.95));
    return r;
}

#else

Rectification rectifyCalibrated(const Calibration &, cv::Size, double) {
    throw Stop(sample::USAGE, "--calibration needs a build with OpenCV's calib3d");
}
Rectification rectifyFromPoints(const cv::Mat &, const cv::Mat &) {
    throw Stop(sample::USAGE, "--rectify needs a build with OpenCV's calib3d");
}

#endif

// ---- Images ------------------------------------------------------------------------------------------------------------

namespace {

void load(const cv::Mat &from, cusMat &to, cusSpace space) {
    const cusMat host = cusight::view(from);
    check(cusMatCreate(&to, from.rows, from.cols, cusight::fromCvType(from.type()), space));
    check(space == CUS_DEVICE ? cusMatUpload(&host, &to, nullptr) : cusMatCopy(&host, &to, nullptr));
}

} // namespace

Remapper::Remapper(cusSpace space, const cv::Mat &map) : space_(space) {
    load(map, map_, space);
}

Remapper::~Remapper() {
    for (cusMat *mat : {&map_, &src_, &dst_})
        cusMatRelease(mat);
}

cv::Mat Remapper::run(const cv::Mat &image) {
    load(image, src_, space_);
    check(cusRemap(&src_, &map_, &dst_, nullptr));
    cv::Mat result(dst_.rows, dst_.cols, image.type());
    cusMat host = cusight::view(result);
    check(space_ == CUS_DEVICE ? cusMatDownload(&dst_, &host, nullptr) : cusMatCopy(&dst_, &host, nullptr));
    if (space_ == CUS_DEVICE)
        check(cusStreamSynchronize(nullptr));
    return result;
}

} // namespace contour
