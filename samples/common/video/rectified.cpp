#include "common/video/rectified.hpp"

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace sample {

namespace {

constexpr int CORNERS = 200, RADIUS = 7;       // the patch around a corner
constexpr float GOOD = 0.85f, DISTINCT = 0.1f; // correlation; margin over the best one elsewhere

// Rows from the corner to its place in the right image. Returns false if it is nowhere, or at several places.
bool findRow(const cv::Mat &left, const cv::Mat &right, cv::Point corner, const cv::Rect &search, double &rows) {
    const cv::Rect patch(corner.x - RADIUS, corner.y - RADIUS, 2 * RADIUS + 1, 2 * RADIUS + 1);
    cv::Mat scores;
    cv::matchTemplate(right(search), left(patch), scores, cv::TM_CCOEFF_NORMED);
    double best = 0, second = 0;
    cv::Point at;
    cv::minMaxLoc(scores, nullptr, &best, nullptr, &at);
    const int dy = search.y + at.y - patch.y;
    cv::rectangle(scores, {at.x - 3, at.y - 3}, {at.x + 3, at.y + 3}, -1, cv::FILLED);
    cv::minMaxLoc(scores, nullptr, &second);
    rows = dy;
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
        double rows = 0;
        if ((patch & all) == patch && search.width > patch.width && search.height > patch.height &&
            findRow(left, right, corner, search, rows))
            found.push_back(rows);
    }
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

} // namespace sample
