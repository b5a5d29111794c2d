// Outputs for pictures: a window, a video file, numbered images, or one image.
#pragma once

#include "common/app.hpp"
#include "common/terminal/options.hpp"

#include <opencv2/core.hpp>

#include <memory>
#include <string>
#include <vector>

namespace sample {

// The outputs that openFile accepts, for the help of --output.
extern const char *const SINK_HELP;

// Accepts 8UC3 (BGR) or 8UC1 pictures, for a video of one size. Use it on the main thread, since windows require that.
class Sink {
  public:
    virtual ~Sink() = default;

    // Returns false if the user closed the window or pressed Esc or q: stop then. Throws Stop(OUTPUT).
    virtual bool write(const cv::Mat &picture) = 0;

    // The same for pictures that have times: this one is shown `seconds` after time 0, in a video as many seconds after the first.
    virtual bool writeAt(const cv::Mat &picture, double /*seconds*/) { return write(picture); }

    // Whether the last picture replaces all before it, which then need not be written.
    virtual bool onlyLast() const { return false; }

    // Completes the output, checks that it can be read back, and gives it its name. Throws Stop(OUTPUT). Without it nothing
    // is written and a previous file stays, so call it at the end of every loop, even an interrupted one.
    virtual void finish() = 0;

    // After finish() and the report: keeps a window with a still picture open until a key is pressed.
    virtual void hold() {}

    // "heatmap.mp4" or "a window", for the report.
    virtual std::string name() const = 0;
};

// What pictures are, and when they are shown.
struct Playback {
    double fps = 25;                // the mean rate, and that of write()
    double grid = 0;                // a constant rate that leaves out no picture; 0: fps
    bool timed = false;             // each has a time of its own, for writeAt(); otherwise a video has the rate `fps`
    bool steady = true;             // their times are those of a constant rate
    int tick_num = 0, tick_den = 0; // the unit of the times as a fraction of a second; 0/0: unknown
    bool live = false;              // a window shows each picture as it comes, otherwise at its time
    bool controls = false;          // a live window with trackbars, where pictures keep coming
    bool single = false;            // there is only one
    bool recording = false;         // they cannot be had again: what is written stays when the program is killed
    double speed = 1;               // for a window, from --speed; 0: as fast as possible
    std::string sound;              // the input, if it has sound, which is not written
    std::vector<std::string> names; // of the pictures of a folder, one after the other; empty: numbers
};

// The name decides: *.mp4 *.mkv *.webm *.avi *.mov *.y4m is a video; a name with %d or %04d, numbered images; a name that
// ends in /, a folder of numbered images; *.png *.jpg and so on, one image, the last picture written; "-", stdout
// (playback.single: one PNG; otherwise Y4M). A video is encoded on a thread of its own, and errors may come with later pictures.
// Throws Stop(OUTPUT), or Stop(USAGE) for any other name, and for an encoding that there is not.
std::unique_ptr<Sink> openFile(const std::string &path, cv::Size size, const Playback &playback,
                               const Encoding &encoding = {});

// Writes an image whose ending is one of imageEndings(), or a PNG to stdout ("-"). Throws Stop(OUTPUT).
void writeImage(const std::string &path, const cv::Mat &picture);
const std::vector<std::string> &imageEndings();
bool isImageName(const std::string &path);

// The names of the PNGs that belong to pictures: "a.png" for "in/a.jpg"; "a.jpg.png" where there is another a. Throws Stop(USAGE) if two
// pictures in different folders have one name.
std::vector<std::string> namesLike(const std::vector<std::string> &pictures);

// Whether openFile knows the kind of file, and what it expects: "a name that ends in .mp4 ...".
bool isOutputName(const std::string &path);
std::string expectedOutputs();
// " .png .jpg"
std::string joined(const std::vector<std::string> &endings);

// A window if there is a display and no --headless; the file of --output if given; if neither, `default_file`, with a line
// on stderr that says why; if there is such a file, the next free name. Call it before the program starts threads: a child process tries to open a window, since some
// toolkits abort if they cannot.
std::unique_ptr<Sink> openSink(const Common &common, const std::string &title, const std::string &default_file,
                               cv::Size size, const Playback &playback);

// Why no window can be opened; "" if one can. Tried once.
const std::string &displayProblem();

} // namespace sample
