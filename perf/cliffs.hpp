// The search for cliffs (--search-cliffs): random contents, alignments and shapes of each function with random options, each
// timed beside the typical case in one run. The law: the worst content costs at most 4 times the typical one, the worst
// alignment at most 1.25 times the best, and any shape of a million pixels or more at most 4 times the square of as many.
#pragma once

#include "frames.hpp"

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace perf::cliffs {

using Random = std::mt19937_64;

inline int drawn(Random &random, int first, int last) {
    return std::uniform_int_distribution<int>(first, last)(random);
}

template<class T>
const T &drawn(Random &random, const std::vector<T> &choices) {
    return choices[static_cast<size_t>(drawn(random, 0, static_cast<int>(choices.size()) - 1))];
}

// What a piece of work is made for. Inputs begin `offset` bytes past an aligned address (rounded down to whole elements),
// outputs `out_offset`.
struct Scene {
    Size size = {0, 0};
    size_t content = 0; // number in Subject::contents
    int offset = 0, out_offset = 0;
    unsigned seed = 1; // of contents with random parts
};

using Maker = std::function<Work(const Scene &)>; // the work owns its buffers

struct Subject {
    std::string name;
    std::vector<std::string> contents; // the first is the typical one
    bool alignments, shapes;
    int smallest_side; // of a shape
    // Draws options, describes them, and returns what makes work with them. size: that of the typical scene.
    std::function<Maker(Random &, cusSpace, Size size, std::string &options)> draw;
};

// The modules' subjects: cliffs_images.cpp, cliffs_match.cpp, cliffs_events.cpp.
void addImages(std::vector<Subject> &subjects);
void addMatch(std::vector<Subject> &subjects);
void addEvents(std::vector<Subject> &subjects);

// ---- For the subjects: frames of a content at an alignment

// Names of the contents of makeFrame(), the typical one first.
const std::vector<std::string> &frameContents();

// A matrix within a larger one, whose rows begin `offset` bytes past an aligned address.
class Placed {
  public:
    Placed(int rows, int cols, int type, cusSpace space, int offset);
    Placed(const Placed &) = delete;
    Placed &operator=(const Placed &) = delete;
    ~Placed() { cusMatRelease(&view); }
    void fill(const std::vector<uint8_t> &tight);
    cusMat view = CUS_MAT_INIT;

  private:
    Mat memory_;
};

// 8-bit contents; 1 or 3 channels.
std::vector<uint8_t> makeFrame(Size size, int channels, size_t content, unsigned seed);

} // namespace perf::cliffs
