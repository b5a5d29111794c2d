// Moving things of a video: the boxes of each track, and what is reported of them. Needs no OpenCV.
#pragma once

#include "cusight/motion.h"

#include "common/app.hpp"
#include "common/output.hpp"
#include "heatmap/feeds.hpp"

#include <exception>
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

// A thing: one track. It counts once it has been seen in as many frames as the program asks for, and away from its first place.
struct Thing {
    std::vector<Seen> seen;
    bool left = false; // whether one of its boxes shares no pixel with the first
    uint32_t id = 0;   // 1, 2, ... in the order in which things begin to count; 0: it does not count yet
};

// One input, once it has been looked at.
struct Watched {
    std::string name, error;               // error: "" if the input was read to its end
    sample::ExitCode code = sample::INPUT; // of the program, if this is the first error
    sample::FrameSize size;
    double fps = 0;
    long long frames = 0, damaged = 0; // damaged: parts that could not be decoded
    std::vector<Gap> gaps;
    std::vector<double> sudden; // when the light changed, in seconds
    std::vector<Thing> things;
    sample::NumberedName clip; // the names of its clips
    std::vector<std::string> clips;
};

// Keeps the first error of an input: also one of its decoder, of the GPU or of memory, since others may go on. Throws what
// ends the program: a wrong option, an output that cannot be written.
void keep(Watched &watched, const std::exception_ptr &error);

// Collects the boxes of an input, frame by frame.
class Collector {
  public:
    explicit Collector(int least_frames) : least_frames_(static_cast<size_t>(least_frames)) {}

    void add(double seconds, const std::vector<cusMotionBox> &boxes);
    // Those that count, by id.
    std::vector<Thing> things() const;
    // Those that count and have a box in the last frame.
    const std::vector<const Thing *> &current() const { return current_; }
    uint32_t lastTrack() const { return tracks_.empty() ? 0 : tracks_.rbegin()->first; }

  private:
    const size_t least_frames_;
    std::map<uint32_t, Thing> tracks_;
    std::vector<const Thing *> current_;
    uint32_t counted_ = 0;
};

// Periods in which something moves, with `margin` seconds around them, joined where they meet.
std::vector<std::pair<double, double>> periods(const std::vector<Thing> &things, double margin);

// The report: JSON if the path ends in .json, otherwise CSV with a row for each box.
void writeReport(sample::OutputFile &file, const std::vector<Watched> &inputs);

} // namespace heatmap
