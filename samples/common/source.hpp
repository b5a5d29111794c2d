// Where frames come from: a video file, a camera, a URL, images, or a generated clip.
#pragma once

#include "app.hpp"

#include <opencv2/core.hpp>

#include <memory>
#include <string>

namespace sample {

// For Options::argument.
extern const char *const SOURCE_HELP;

// Frames are 8UC3, BGR, all of one size. One thread at a time.
class Source {
  public:
    virtual ~Source() = default;

    // The next frame; false at the end. A matrix that already has the size and type is written in place, so a frame can be
    // decoded straight into pinned memory. Throws Stop(INPUT) where the input breaks off or a frame has another size:
    // everything delivered before is good.
    bool read(cv::Mat &frame);

    const std::string &name() const { return name_; }
    cv::Size size() const { return size_; }     // of the first frame
    double fps() const { return fps_; }         // 25 where the input does not say
    long long frames() const { return total_; } // 0: unknown
    long long delivered() const { return delivered_; }

  protected:
    // Reads into `frame`; false at the end. Throws Stop(INPUT).
    virtual bool next(cv::Mat &frame) = 0;

    // To be called once by whoever opens: reads the first frame and so learns the size.
    void start();

    std::string name_;
    double fps_ = 25;
    long long total_ = 0;

    friend std::unique_ptr<Source> openSource(const std::string &);

  private:
    cv::Mat first_;
    cv::Size size_;
    long long delivered_ = 0;
};

// What `spec` may be is said in SOURCE_HELP. Throws Stop(INPUT), also when there is not one frame in it.
std::unique_ptr<Source> openSource(const std::string &spec);

} // namespace sample
