// Outputs for pictures: a window, a video file, numbered images, or one image.
#pragma once

#include "app.hpp"
#include "options.hpp"

#include <opencv2/core.hpp>

#include <memory>
#include <string>
#include <vector>

namespace sample {

// What openFile accepts, for the help of --output.
extern const char *const SINK_HELP;

// Accepts 8UC3 (BGR) or 8UC1 pictures of one size. Use it on the main thread, as windows require.
class Sink {
  public:
    virtual ~Sink() = default;

    // False: the user closed the window or pressed Esc or q, so stop. Throws Stop(OUTPUT).
    virtual bool write(const cv::Mat &picture) = 0;

    // Completes the output, checks that it can be read back and gives it its name. Throws Stop(OUTPUT). Without it nothing is
    // written, and what was there before stays; so call it at the end of every loop, even an interrupted one.
    virtual void finish() = 0;

    // "heatmap.mp4" or "a window", for the report.
    virtual std::string name() const = 0;
};

// The name decides: *.mp4 *.mkv *.webm *.avi *.mov is a video; a name with %d or %04d, numbered images; a name that ends in
// /, a folder of numbered images; *.png *.jpg and so on, one image, the last picture written. Throws Stop(OUTPUT), or
// Stop(USAGE) for any other name.
std::unique_ptr<Sink> openFile(const std::string &path, cv::Size size, double fps);

// Writes an image whose ending is one of imageEndings(). Throws Stop(OUTPUT).
void writeImage(const std::string &path, const cv::Mat &picture);
const std::vector<std::string> &imageEndings();

// A window if there is a display and no --headless; the file of --output if given; `default_file` if neither, with a line on
// stderr that says why. Call it before the program starts threads: a child process tries to open a window, since some
// toolkits abort if they cannot.
std::unique_ptr<Sink> openSink(const Common &common, const std::string &title, const std::string &default_file,
                               cv::Size size, double fps);

// Why no window can be opened; "" if one can. Tried once.
const std::string &displayProblem();

} // namespace sample
