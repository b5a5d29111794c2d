// What the corners of a stereo pair tell: whether it is rectified (each point lies on the same row of both images), and how far points
// shift.
#pragma once

#include <opencv2/core.hpp>

#include <vector>

namespace sample {

struct Rows {
    int corners = 0;         // of the left image
    int matches = 0;         // those found again in the right one
    double median = 0;       // rows between them, right minus left
    double off_share = 0;    // the share of matches that lie more than a row apart
    std::vector<int> shifts; // of the matches, in `direction`

    // True unless enough matches disagree.
    bool rectified() const { return matches < 20 || off_share < 0.5; }
};

// left, right: 8UC1 of equal size. Looks for up to 200 corners at up to `shifts` columns in `direction` (as cusStereoOptions) and up
// to a twentieth of the height above and below.
Rows compareRows(const cv::Mat &left, const cv::Mat &right, int shifts, int direction);

// The number of shifts to try, at least 16, if points shift by up to `high` pixels.
int withReserve(double high);

// The number of shifts, at least 16, that covers the pair; more than the library tries if the nearest points shift further. 0 if too few
// corners of the left image are in the right one, as in images that are no pair.
int findShifts(const cv::Mat &left, const cv::Mat &right, int direction);

} // namespace sample
