// Whether the two images of a pair are rectified: each point lies on the same row of both.
#pragma once

#include <opencv2/core.hpp>

namespace sample {

struct Rows {
    int matches = 0;      // corners of the left image found again in the right one
    double median = 0;    // rows between them, right minus left
    double off_share = 0; // the share of matches that lie more than a row apart

    // True unless enough matches disagree.
    bool rectified() const { return matches < 20 || off_share < 0.5; }
};

// left, right: 8UC1 of equal size. Looks for up to 200 corners at up to `shifts` columns in `direction` (as cusStereoOptions) and up
// to a twentieth of the height above and below.
Rows compareRows(const cv::Mat &left, const cv::Mat &right, int shifts, int direction);

} // namespace sample
