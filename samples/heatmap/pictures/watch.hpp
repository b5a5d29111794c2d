// What moves, beside another view of the same input.
#pragma once

#include "heatmap/motion.hpp"

#include <opencv2/core.hpp>

#include <exception>
#include <memory>

namespace heatmap {

// What moves in the frames of another view, while that is made.
class Watch {
  public:
    // Like findMotion.
    Watch(const MotionSettings &settings, const sample::Input &input, const sample::Common &common,
          const sample::Device &device, const sample::Source &source);
    ~Watch();
    Watch(const Watch &) = delete;
    Watch &operator=(const Watch &) = delete;

    void add(const cv::Mat &frame, double seconds);
    // Writes everything. `error`: what ended the input early; it is thrown then.
    void finish(const std::exception_ptr &error);

  private:
    struct State;
    const std::unique_ptr<State> state_;
};

} // namespace heatmap
