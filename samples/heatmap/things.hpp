// Moving things of a video: the boxes of each track, and what is reported of them. Needs no OpenCV.
#pragma once

#include "cusight/motion.h"

#include "common/output.hpp"
#include "heatmap/feeds.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace heatmap {

// A box of a thing and the time of its frame, in seconds.
struct Seen {
    double seconds;
    cusMotionBox box;
};

// A thing: one track.
struct Thing {
    uint32_t id;
    std::vector<Seen> seen;
};

// One input, once it has been looked at.
struct Watched {
    std::string name, error; // error: "" if the input was read to its end
    sample::FrameSize size;
    double fps = 0;
    long long frames = 0, damaged = 0; // damaged: parts that could not be decoded
    std::vector<Gap> gaps;
    std::vector<double> sudden; // when the light changed, in seconds
    std::vector<Thing> things;
    sample::NumberedName clip; // the names of its clips
    std::vector<std::string> clips;
};

// Collects the boxes of an input, frame by frame.
class Collector {
  public:
    void add(double seconds, const std::vector<cusMotionBox> &boxes);
    // The things with at least that many boxes, by their start.
    std::vector<Thing> things(int least_frames) const;
    // The boxes so far, by track.
    const std::map<uint32_t, std::vector<Seen>> &tracks() const { return tracks_; }
    uint32_t lastId() const { return tracks_.empty() ? 0 : tracks_.rbegin()->first; }

  private:
    std::map<uint32_t, std::vector<Seen>> tracks_;
};

// Periods in which something moves, with `margin` seconds around them, joined where they meet.
std::vector<std::pair<double, double>> periods(const std::vector<Thing> &things, double margin);

// The report: JSON if the path ends in .json, otherwise CSV with a row for each box.
void writeReport(sample::OutputFile &file, const std::vector<Watched> &inputs);

} // namespace heatmap
