// A bounded queue between two threads of a pipeline.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>

namespace sample {

template<class T>
class Channel {
  public:
    explicit Channel(size_t capacity) : capacity_(capacity) {}

    // Waits while the queue is full. Returns false once it is closed: the item was not added, and the producer should stop.
    bool push(T item) {
        std::unique_lock<std::mutex> lock(mutex_);
        room_.wait(lock, [&] { return closed_ || items_.size() < capacity_; });
        if (closed_)
            return false;
        items_.push_back(std::move(item));
        filled_.notify_one();
        return true;
    }

    // Waits while the queue is empty. Returns false once it is closed and drained.
    bool pop(T &item) {
        std::unique_lock<std::mutex> lock(mutex_);
        filled_.wait(lock, [&] { return closed_ || !items_.empty(); });
        if (items_.empty())
            return false;
        item = std::move(items_.front());
        items_.pop_front();
        room_.notify_one();
        return true;
    }

    // Whether pop() would wait or return false. For the thread that calls pop().
    bool empty() {
        std::lock_guard<std::mutex> lock(mutex_);
        return items_.empty();
    }

    // Called by either side: no more items will be pushed, or none are wanted.
    void close() {
        std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
        filled_.notify_all();
        room_.notify_all();
    }

  private:
    const size_t capacity_;
    std::mutex mutex_;
    std::condition_variable room_, filled_;
    std::deque<T> items_;
    bool closed_ = false;
};

} // namespace sample
