// Where pictures go: a window, a video file, numbered images, or one image.
#pragma once

#include "app.hpp"
#include "options.hpp"

#include <opencv2/core.hpp>

#include <memory>
#include <string>

namespace sample {

// For Options::common. The default file name follows.
extern const char *const SINK_HELP;

// Takes 8UC3 (BGR) or 8UC1 pictures of one size. Use it on the main thread: windows want that.
class Sink {
  public:
    virtual ~Sink() = default;

    // False: the user closed the window or pressed Esc or q, nothing more is wanted. Throws Stop(OUTPUT).
    virtual bool write(const cv::Mat &picture) = 0;

    // Completes the output and checks that it is whole. Throws Stop(OUTPUT). Without it a video file may be unreadable, so
    // call it on the way out of every loop, broken off or not.
    virtual void finish() = 0;

    // "heatmap.mp4" or "a window", for the report.
    virtual std::string name() const = 0;
};

// By its name: *.mp4 *.mkv *.webm *.avi *.mov a video; a name with %d or %04d numbered images; a name that ends in / a
// folder of numbered images; *.png *.jpg and so on one image, the last picture written. Throws Stop(OUTPUT), or Stop(USAGE)
// for a name that is none of these.
std::unique_ptr<Sink> openFile(const std::string &path, cv::Size size, double fps);

// A window, the file of --output, or both: with a display and without --headless a window; a file where --output names one;
// and where neither is so, `default_file`, with a line on stderr that says why. Call it before the program starts threads:
// whether a window can be opened is tried in a child process, since some toolkits abort where they cannot.
std::unique_ptr<Sink> openSink(const Common &common, const std::string &title, const std::string &default_file,
                               cv::Size size, double fps);

// Why no window can be opened, "" where one can. Asks once.
const std::string &displayProblem();

} // namespace sample
