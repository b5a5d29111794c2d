// What the tests of progress and cancelling share: how each long call is walked.
//
// Callbacks count instead of measuring time: with an interval of 0, a call on one thread asks at every step, so that the work between
// two questions is the same on a machine that is busy.
#pragma once

#include "../support.hpp"

#include "progress.h"

#include <functional>
#include <numeric>

namespace progress_test {

// A call, on objects and matrices of its own, which may be made again. `result` is what it made; also of several calls that went on
// where the one before was cancelled.
struct Work {
    std::function<cusStatus()> call;
    std::function<std::vector<uint8_t>()> result;
};

enum class After {
    SAME,  // the object is as before: the same call gives what it would have given
    GO_ON, // the next call goes on
    ENDED  // the object cannot be used any more
};

// What a callback saw, and when it is to cancel.
struct Watch {
    int calls = 0, cancel_at = 0; // 0: never
    double done = 0, left = 0;
    bool is_monotone = true;

    void set() { EXPECT_EQ(cusi_setProgress(&Watch::callback, this, 0), CUS_OK); }
    static int callback(void *user, double done, double left) {
        Watch &w = *static_cast<Watch *>(user);
        w.is_monotone &= done >= w.done && done <= 1;
        w.done = done, w.left = left;
        return ++w.calls == w.cancel_at;
    }
};

// No callback at the end of a test.
struct Unset {
    ~Unset() { cusSetProgress(nullptr, nullptr); }
};

template<class T>
void append(std::vector<uint8_t> &to, const std::vector<T> &values) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(values.data());
    to.insert(to.end(), bytes, bytes + values.size() * sizeof(T));
}

// Walks a call. name: of the function. least: how often it asks at the least.
void walk(const std::string &name, int least, After after, const std::function<Work()> &make);

} // namespace progress_test
