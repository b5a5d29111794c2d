// Sources of frames: a video file, a camera, a URL, stdin, images, or a generated clip.
#pragma once

#include "common/app.hpp"
#include "common/video/sink.hpp"
#include "common/stages.hpp"

#include <opencv2/core.hpp>

#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace sample {

// The inputs that openSource accepts, for --help.
extern const char *const SOURCE_HELP;

// Frames are 8UC3, BGR, all of the same size. Used by one thread at a time.
class Source {
  public:
    virtual ~Source() = default;

    // Reads the next frame; returns false at the end. A matrix that already has the size and type is written in place, so
    // frames can be decoded straight into pinned memory. Throws Stop(INPUT) if the input ends early or a frame has another
    // size; earlier frames stay valid.
    bool read(cv::Mat &frame);

    // The first frames of `seconds` (of one second of a live source) that fit into `bytes`, at least two if there are. read()
    // still returns them, and any error in its place.
    const std::vector<cv::Mat> &preview(double seconds, double bytes);

    const std::string &name() const { return name_; }
    cv::Size size() const { return size_; }     // the first frame's
    double fps() const { return fps_; }         // 25 if unknown
    bool live() const { return live_; }         // a camera or a URL, whose frames come at their own times
    long long frames() const { return total_; } // 0: unknown
    long long delivered() const { return delivered_; }
    // Spent decoding, including the waits for a camera. The first frame, and a preview, are decoded ahead.
    double decodingSeconds() const { return first_decoding_.seconds + decoding_.seconds; }
    double openingSeconds() const { return first_decoding_.seconds; }

  protected:
    // Reads into `frame`; false at the end. Throws Stop(INPUT).
    virtual bool next(cv::Mat &frame) = 0;

    // Called once after opening: reads the first frame, which determines the size.
    void start();

    std::string name_;
    double fps_ = 25;
    bool live_ = false;
    long long total_ = 0;

    friend std::unique_ptr<Source> openSource(const std::string &);

  private:
    std::vector<cv::Mat> ahead_; // decoded and not read, from taken_ on
    size_t taken_ = 0;
    bool ended_ = false;         // after them,
    std::exception_ptr problem_; // or with this
    cv::Size size_;
    long long delivered_ = 0;
    Stopwatch first_decoding_, decoding_;
};

// How a window or file shows the pictures made of the frames.
Playback playbackOf(const Source &source);
// Prints "input: NAME, W x H".
void figureInput(const Source &source);

// Opens what SOURCE_HELP describes. Throws Stop(INPUT), also if it contains no frame.
std::unique_ptr<Source> openSource(const std::string &spec);

} // namespace sample
