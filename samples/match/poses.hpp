// Matches of cusight-match, and its search under rotation and scale.
#pragma once

#include "common/app.hpp"
#include "common/video/image.hpp"
#include "match/method.hpp"

#include "cusight/match.h"
#include "cusight/pose.h"

#include <opencv2/core.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace match {

// Where the center of a template is, and how it is turned and scaled.
struct Pose {
    double x, y, angle, scale;
};

// The score has the units of the method. With a pose, x and y are the first pixel of its window.
struct Hit : cusMatch {
    std::optional<Pose> pose;
};

// The matches of a template in a frame.
struct Found {
    std::vector<Hit> matches;
    std::optional<Hit> best; // if no match is within the limit
};

// Thrown by Finder::find() if the program is interrupted in a search that has something to show.
class Interrupted : public sample::Stop {
  public:
    Interrupted(size_t template_index, const Hit &hit) : Stop(sample::INTERRUPTED, ""), index(template_index), best(hit) {}
    const size_t index; // of the template
    const Hit best;     // so far
};

// Finds all templates in one frame at a time.
class Finder {
  public:
    Finder() = default;
    virtual ~Finder() = default;
    Finder(const Finder &) = delete;
    Finder &operator=(const Finder &) = delete;
    virtual std::vector<Found> find(const cv::Mat &frame) = 0;
};

// Which poses, and what to report.
struct PoseSettings {
    std::optional<cusPoseRange> angles, scales; // not given: 0 degrees, scale 1
    const Method *method = nullptr;
    int top_k = 1, min_distance = 0;
    std::optional<double> limit; // in the units of the method
    bool refine = false;
    bool names_best = false; // the best is wanted even if it is beyond the limit

    bool any() const { return angles || scales; }
};

// "FIRST:LAST:STEP", or one number; false unless it is within low..high.
bool parseRange(const std::string &text, double low, double high, cusPoseRange &range);
// How many values a range has.
int countOf(const cusPoseRange &range);

// Whether scores of the method compare poses.
bool comparesPoses(const Method &method);

// Creates a matcher for each template; templates and frames are in color and matched in gray. Throws Stop(USAGE) for templates that
// cannot be found.
std::unique_ptr<Finder> poseFinder(const PoseSettings &settings, const sample::Device &device,
                                   const std::vector<sample::Masked> &templates, cv::Size frame);

// The corners of a template in its pose, clockwise from the first.
std::vector<cv::Point> cornersOf(const Pose &pose, cv::Size size);

// Rejects a template, of `values`, that CCOEFF_NORMED finds everywhere or nowhere.
void rejectOneColor(const Method &method, size_t index, const cv::Mat &values, const cv::Mat &mask);

} // namespace match
