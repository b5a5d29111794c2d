// The two queues of the sender: capture -> difference -> send. Their threads wait for each other only when a queue is full or
// empty.
#pragma once

#include "common/app.hpp"

#include "cusight/live.h"
#include "cusight/opencv.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace diffstream {

struct Captured {
    cusMat frame = CUS_MAT_INIT;
    double seconds = 0; // its time
};

// Frames between capture and difference, in buffers allocated at the start.
class CaptureQueue {
  public:
    CaptureQueue(int capacity, int rows, int cols, bool pinned) : frames_(static_cast<size_t>(capacity)) {
        for (Captured &c : frames_) {
            cusight::check(pinned ? cusMatCreatePinned(&c.frame, rows, cols, CUS_8UC3)
                                  : cusMatCreate(&c.frame, rows, cols, CUS_8UC3, CUS_HOST));
            empty_.push_back(&c);
        }
    }
    ~CaptureQueue() {
        for (Captured &c : frames_)
            cusMatRelease(&c.frame);
    }
    CaptureQueue(const CaptureQueue &) = delete;
    CaptureQueue &operator=(const CaptureQueue &) = delete;

    // Returns a buffer to fill; nullptr once closed. drop_oldest: drops the oldest queued frame instead of waiting.
    Captured *acquire(bool drop_oldest) {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return closed_ || !empty_.empty() || (drop_oldest && !filled_.empty()); });
        if (closed_)
            return nullptr;
        std::deque<Captured *> &from = empty_.empty() ? filled_ : empty_;
        dropped_ += empty_.empty();
        Captured *const frame = from.front();
        from.pop_front();
        return frame;
    }
    void push(Captured *frame) {
        std::lock_guard<std::mutex> lock(mutex_);
        filled_.push_back(frame);
        changed_.notify_all();
    }
    // Returns the next frame; nullptr if there is none, with `wait` only at the end.
    Captured *pop(bool wait) {
        std::unique_lock<std::mutex> lock(mutex_);
        if (wait)
            changed_.wait(lock, [&] { return closed_ || !filled_.empty(); });
        if (filled_.empty())
            return nullptr;
        Captured *const frame = filled_.front();
        filled_.pop_front();
        return frame;
    }
    void release(Captured *frame) {
        std::lock_guard<std::mutex> lock(mutex_);
        empty_.push_back(frame);
        changed_.notify_all();
    }
    void close() {
        std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }
    long long dropped() {
        std::lock_guard<std::mutex> lock(mutex_);
        return dropped_;
    }

  private:
    std::vector<Captured> frames_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Captured *> empty_, filled_;
    long long dropped_ = 0;
    bool closed_ = false;
};

// Packed frames between difference and send.
class PackedQueue {
  public:
    explicit PackedQueue(int capacity) : capacity_(capacity) {}
    PackedQueue(const PackedQueue &) = delete;
    PackedQueue &operator=(const PackedQueue &) = delete;

    // Calls `changed` after each push() and close(), with the queue locked. Before the first of them.
    void onChange(std::function<void()> changed) { changed_ = std::move(changed); }
    // Waits until the cusSender can accept one more frame. Returns false once closed.
    bool waitForRoom() {
        std::unique_lock<std::mutex> lock(mutex_);
        room_.wait(lock, [&] { return closed_ || used_ < capacity_; });
        used_ += !closed_;
        return !closed_;
    }
    void push(const cusSentFrame &frame) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!closed_)
            frames_.push_back(frame);
        changed_();
    }
    bool pop(cusSentFrame &frame) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (frames_.empty())
            return false;
        frame = frames_.front();
        frames_.pop_front();
        return true;
    }
    void released() {
        std::lock_guard<std::mutex> lock(mutex_);
        --used_;
        room_.notify_all();
    }
    // No more frames will come.
    void close() {
        std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
        room_.notify_all();
        changed_();
    }
    // Nobody takes frames any more: those that wait are dropped, and nobody waits for room.
    void abandon() {
        close();
        std::lock_guard<std::mutex> lock(mutex_);
        frames_.clear();
    }
    bool closed() {
        std::lock_guard<std::mutex> lock(mutex_);
        return closed_;
    }
    // Closed, and all frames have been taken.
    bool ended() {
        std::lock_guard<std::mutex> lock(mutex_);
        return closed_ && frames_.empty();
    }

  private:
    const int capacity_;
    std::function<void()> changed_ = [] {};
    std::mutex mutex_;
    std::condition_variable room_;
    std::deque<cusSentFrame> frames_;
    int used_ = 0;
    bool closed_ = false;
};

} // namespace diffstream
