// A window that plays pictures: at their own speed, with pause, single steps and full screen.
#pragma once

#include "common/video/sink.hpp"

#include <chrono>
#include <string>

namespace sample {

// The largest size, in the shape of the picture and with `below` rows beneath it, that fits the screen; small pictures are enlarged.
cv::Size windowSize(cv::Size picture, int below = 0);
// Opens a window of that size for pictures, which it shows scaled. Throws cv::Exception.
void openWindow(const std::string &title, cv::Size picture);
bool isWindowOpen(const std::string &title);

class Window : public Sink {
  public:
    Window(const std::string &title, cv::Size size, const Playback &playback);

    bool write(const cv::Mat &picture) override;
    bool writeAt(const cv::Mat &picture, double seconds) override;
    void finish() override {}
    void hold() override;
    std::string name() const override { return "a window"; }

  private:
    using Clock = std::chrono::steady_clock;

    void show(const cv::Mat &picture);
    // Draws the current picture, with the list of keys if the user wants it.
    void draw() const;
    // Waits up to `milliseconds` for a key and obeys it. Returns false if the window is closed or should be.
    bool poll(int milliseconds);
    bool obey(int key);
    void setPaused(bool paused);
    // Waits until the next picture is due. Returns false if the user wants to stop.
    bool waitFor(Clock::time_point due);

    const std::string title_;
    const Playback playback_;
    cv::Mat picture_;
    long long shown_ = 0;
    bool paused_ = false, step_ = false, help_ = false, full_screen_ = false, closed_ = false, any_key_ = false;
    Clock::time_point origin_; // when the picture of time 0 was due
};

} // namespace sample
