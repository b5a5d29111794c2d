// The times of the frames that a sender has sent, for a viewer in the same program that records all of them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace diffstream {

class FrameTimes {
  public:
    // Whether the frames cannot be had again. Set before the viewer connects.
    bool recording = false;

    // The sender is about to send this frame. Waits while the viewer is behind, so that no frame is merged with the next. Returns
    // false once closed.
    bool sent(uint64_t sequence, double seconds) {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return closed_ || seconds_.size() < BEHIND; });
        seconds_[sequence] = seconds;
        return !closed_;
    }
    // The time of a frame that the viewer has got.
    double received(uint64_t sequence) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto after = seconds_.upper_bound(sequence);
        if (after == seconds_.begin())
            return last_;
        last_ = std::prev(after)->second;
        seconds_.erase(seconds_.begin(), after);
        changed_.notify_all();
        return last_;
    }
    // The viewer has ended.
    void close() {
        const std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }

  private:
    static constexpr size_t BEHIND = 3; // frames

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<uint64_t, double> seconds_; // of the frames on their way
    double last_ = 0;
    bool closed_ = false;
};

} // namespace diffstream
