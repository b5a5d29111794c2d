// Inputs that are decoded side by side, each on a thread of its own and a frame ahead. Needs no OpenCV.
#pragma once

#include "common/app.hpp"
#include "common/video/source.hpp"

#include "cusight/matrix.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace heatmap {

// A time in which a camera was lost.
struct Gap {
    double seconds, lasted; // the time of the last frame before it; until the next one
    std::string why;
};

// What became of an input.
struct Outcome {
    std::vector<Gap> gaps;
    long long damaged = 0; // parts that could not be decoded
    double decoding = 0;   // seconds
    std::exception_ptr error;
};

class Feeds {
  public:
    struct Frame {
        cusight::Matrix picture; // 8UC3
        double seconds = 0;
    };
    struct Settings {
        sample::Device device;
        cusSpace space = CUS_HOST; // of the frames; on the device they are ready in the order of the default stream
        int frames = 0;            // of each input; 0: all
        double reconnect = 0;      // for so many seconds a network's camera that is lost is opened again
        // Called on the input's thread, before its first frame.
        std::function<void(size_t, const sample::Source &)> opened;
    };

    Feeds(const std::vector<sample::Input> &inputs, Settings settings);
    ~Feeds();
    Feeds(const Feeds &) = delete;
    Feeds &operator=(const Feeds &) = delete;

    // Waits until each input has a frame or has ended, but for a moment only once one has; an input that was late is not waited
    // for until it has a frame again. Returns false once all have ended, or the program is interrupted.
    bool wait();
    // The oldest frame that was not taken; null if there is none. It stays valid until pop().
    Frame *front(size_t input);
    void pop(size_t input);
    // No more of its frames are wanted.
    void drop(size_t input);
    // Null until the input has ended and all of its frames were taken.
    const Outcome *ended(size_t input);

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr size_t RING = 2; // the frame that is looked at, and the next one
    struct Feed {
        sample::Input input;
        std::array<Frame, RING> ring;
        size_t first = 0, count = 0; // of its frames
        bool ended = false, late = false, dropped = false;
        Outcome outcome;
        std::condition_variable freed; // room in the ring
        std::thread thread;
        // The following are used by the thread alone.
        long long frames = 0;
        double seconds = 0;            // of the newest frame
        Clock::time_point at, lost_at; // when that came; when the input was found to be lost
        std::string lost;              // why; "": it is not
    };

    void run(size_t index);
    void follow(size_t index);
    void readAll(Feed &feed, sample::Source &source);
    bool tryAgain(Feed &feed, const sample::Stop &stop);
    Frame *room(Feed &feed);

    const Settings settings_;
    std::mutex mutex_;                // of rings and states
    std::condition_variable arrived_; // a frame, or the end of an input
    std::vector<Feed> feeds_;
    std::chrono::milliseconds patience_{2000}; // at first, inputs are opened
    bool stopped_ = false;
};

} // namespace heatmap
