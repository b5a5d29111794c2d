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
};

inline Events some(size_t n, std::mt19937_64 &random) {
    return randomEvents(n, random, 1000, 2000, WIDTH, HEIGHT);
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
