// What the tests of cusEventFrames share.
#pragma once

#include "eventio/support.hpp"
#include "events/support.hpp"

#include "cusight/eventframes.h"

namespace eventframes_test {

using namespace eventio_test;
using events::Collected;
using events::repr;
using reference::Events;

constexpr int WIDTH = 64, HEIGHT = 40;

using Frames = support::Owned<cusEventFramesClose>;

// On a GPU, where a run takes as long as a hundred on the host, tests of all formats and windowings make every seventh.
inline bool isLeftOut(const cusEventFramesOptions &o) {
    static int turn = 0;
    return o.compute == CUS_DEVICE && support::fewer() > 1 && turn++ % 7 != 0;
}

class FramesTest : public support::SpaceTest {
  protected:
    cusEventFramesOptions options(cusWindowUnit unit, uint64_t length, uint64_t stride = 0) const {
        cusEventFramesOptions o = cusEventFramesDefaults();
        o.compute = space();
        o.windowing.unit = unit;
        o.windowing.length = length;
        o.windowing.stride = stride;
        o.rows = HEIGHT;
        o.cols = WIDTH;
        return o;
    }
    // By number and by time, of events that are four microseconds apart.
    std::vector<cusEventFramesOptions>
    byNumberAndTime(std::initializer_list<std::pair<uint64_t, uint64_t>> lengths_and_strides) const {
        std::vector<cusEventFramesOptions> all;
        for (const auto &[length, stride] : lengths_and_strides) {
            all.push_back(options(CUS_WINDOW_COUNT, length, stride));
            all.push_back(options(CUS_WINDOW_DURATION, 4 * length, 4 * stride));
        }
        return all;
    }
};

inline Events some(size_t n, std::mt19937_64 &random) {
    return randomEvents(n, random, 1000, 2000, WIDTH, HEIGHT);
}

// A third of 3000 events at the first time, a third at the last, so that borders lie between equal times.
inline Events ofEqualTimes(std::mt19937_64 &random) {
    Events events = some(3000, random);
    for (size_t i = 0; i < events.size(); ++i)
        events.t[i] = i < 1000 ? events.t[0] : i < 2000 ? events.t[i] : events.t[2000];
    return events;
}

// All batches to the end, or to an error, which is returned. Each but the last has `batch` windows, if that is not 0.
inline cusStatus collect(cusEventFrames *frames, Collected &to, size_t batch = 0) {
    size_t last = batch;
    for (;;) {
        cusFrameBatch given;
        const cusStatus status = cusEventFramesNext(frames, &given);
        if (status != CUS_OK || given.count == 0)
            return status;
        if (batch) {
            EXPECT_EQ(last, batch) << "before window " << given.first;
            EXPECT_LE(given.count, batch);
        }
        last = given.count;
        EXPECT_EQ(Collected::sink(&to, &given), CUS_OK);
    }
}

} // namespace eventframes_test
