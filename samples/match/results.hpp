// What cusight-match draws and lists of its matches.
#pragma once

#include "common/output.hpp"
#include "match/poses.hpp"

#include <opencv2/core.hpp>

#include <memory>
#include <string>
#include <vector>

namespace match {

// A match to be drawn.
struct Drawn {
    cv::Rect box;                 // the label stays outside
    std::vector<cv::Point> shape; // its corners, from the first of the template; empty: the box itself
    std::string label;
    cv::Scalar box_color, label_color;
};
const cv::Scalar GREEN(0, 220, 0), RED(0, 0, 230), ORANGE(0, 150, 255); // found or filled; empty; beyond the limit

// Draws boxes, and beside them labels that cover neither each other nor another box. A label without such a place is left
// out.
void draw(cv::Mat &picture, const std::vector<Drawn> &all);

// The file of --save-matches, if `name` is not empty.
class MatchFile {
  public:
    MatchFile(const std::string &name, bool poses);
    // The first line. `pictures`: each line names its picture.
    void begin(bool pictures);
    // `picture`: "" outside a folder.
    void write(long long frame, size_t index, size_t rank, const Hit &m, const std::string &picture);
    void finish();

  private:
    std::unique_ptr<sample::OutputFile> file_;
    std::string header_;
};

} // namespace match
