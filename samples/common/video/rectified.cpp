#include "common/video/rectified.hpp"

#include <opencv2/imgproc.hpp>
#if __has_include(<opencv2/features.hpp>) // OpenCV 5: goodFeaturesToTrack()
#include <opencv2/features.hpp>
#endif

#include <algorithm>
#include <cmath>
#include <vector>

namespace sample {

namespace {

constexpr int CORNERS = 200, RADIUS = 7;       // the patch around a corner
constexpr float GOOD = 0.85f, DISTINCT = 0.1f; // correlation; margin over the best one elsewhere

// Where the corner is in the right image, relative to its place in the left one. Returns false if it is nowhere, or at several places.
bool findCorner(const cv::Mat &left, const cv::Mat &right, cv::Point corner, const cv::Rect &search, cv::Point &moved) {
    const cv::Rect patch(corner.x - RADIUS, corner.y - RADIUS, 2 * RADIUS + 1, 2 * RADIUS + 1);
    cv::Mat scores;
    cv::matchTemplate(right(search), left(patch), scores, cv::TM_CCOEFF_NORMED);
    double best = 0, second = 0;
    cv::Point at;
    cv::minMaxLoc(scores, nullptr, &best, nullptr, &at);
    moved = search.tl() + at - patch.tl();
    cv::rectangle(scores, {at.x - 3, at.y - 3}, {at.x + 3, at.y + 3}, -1, cv::FILLED);
    cv::minMaxLoc(scores, nullptr, &second);
    return best > GOOD && best - second > DISTINCT;
}

} // namespace

Rows compareRows(const cv::Mat &left, const cv::Mat &right, int shifts, int direction) {
    Rows result;
    const int reach = std::min(40, std::max(3, left.rows / 20));
    const cv::Rect all({0, 0}, left.size());
    std::vector<cv::Point> corners;
    cv::goodFeaturesToTrack(left, corners, CORNERS, 0.02, 2 * RADIUS);
    std::vector<double> found;
    for (const cv::Point &corner : corners) {
        const cv::Rect patch(corner.x - RADIUS, corner.y - RADIUS, 2 * RADIUS + 1, 2 * RADIUS + 1);
        cv::Rect search(patch.x - (direction < 0 ? shifts : 2), patch.y - reach, patch.width + shifts + 2,
                        patch.height + 2 * reach);
        search &= all;
        cv::Point moved;
        if ((patch & all) == patch && search.width > patch.width && search.height > patch.height &&
            findCorner(left, right, corner, search, moved)) {
            found.push_back(moved.y);
            result.shifts.push_back(direction * moved.x);
        }
    }
    result.corners = static_cast<int>(corners.size());
    result.matches = static_cast<int>(found.size());
    if (found.empty())
        return result;
    const auto middle = found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2);
    std::nth_element(found.begin(), middle, found.end());
    result.median = *middle;
    result.off_share =
        static_cast<double>(std::count_if(found.begin(), found.end(), [](double r) { return std::abs(r) > 1; })) /
        static_cast<double>(found.size());
    return result;
}

int withReserve(double high) {
    return std::max(16, (static_cast<int>(1.15 * high) + 8 + 7) / 8 * 8);
}

int findShifts(const cv::Mat &left, const cv::Mat &right, int direction) {
    constexpr double WIDTH = 480; // the search takes a quarter of a second at this width
    const double scale = std::max(1.0, left.cols / WIDTH);
    const cv::Size size(std::max(1, cvRound(left.cols / scale)), std::max(1, cvRound(left.rows / scale)));
    cv::Mat small_left, small_right;
    cv::resize(left, small_left, size, 0, 0, cv::INTER_AREA);
    cv::resize(right, small_right, size, 0, 0, cv::INTER_AREA);
    Rows rows = compareRows(small_left, small_right, size.width / 2, direction);
    if (rows.matches < std::max(8, rows.corners / 10))
        return 0;
    std::sort(rows.shifts.begin(), rows.shifts.end());
    return withReserve(scale * rows.shifts[rows.shifts.size() * 97 / 100]); // few matches are wrong
}

} // namespace sample
