// What shadows, ghosts, tight boxes and splitting do in scenes with true boxes.
#include "motion/support.hpp"

#include <array>

using namespace motion_test;

namespace {

class MotionGround : public support::SpaceTest {};
CUS_BOTH_SPACES(MotionGround);

constexpr int ROWS = 120, COLS = 200;

// Paving: stones of different gray, with a little noise, in one or three channels of different gain.
class Paving {
  public:
    Paving(int channels, std::mt19937_64 &random) : channels_(channels), random_(random) {}
    Frame next() {
        Frame f = {ROWS, COLS, channels_, Bytes(static_cast<size_t>(ROWS * COLS * channels_))};
        for (int y = 0; y < ROWS; ++y)
            for (int x = 0; x < COLS; ++x)
                for (int c = 0; c < channels_; ++c)
                    at(f, y, x, c) = static_cast<uint8_t>((120 + (x / 16 + y / 12) % 3 * 20) * (8 + c) / 8 + random_() % 3);
        return f;
    }
    // Light falls to `percent` in a rectangle; soft: over fifteen pixels on each side.
    void shade(Frame &f, int x0, int y0, int width, int height, int percent, bool soft) const {
        for (int y = y0; y < y0 + height; ++y)
            for (int x = x0; x < x0 + width; ++x) {
                const int inside = std::min({x - x0 + 1, x0 + width - x, y - y0 + 1, y0 + height - y});
                const int here = soft ? 100 - (100 - percent) * std::min(inside, 15) / 15 : percent;
                for (int c = 0; c < channels_; ++c)
                    at(f, y, x, c) = static_cast<uint8_t>(at(f, y, x, c) * here / 100);
            }
    }
    // A coat with folds.
    void stand(Frame &f, int x0, int y0, int width, int height) const {
        for (int y = y0; y < y0 + height; ++y)
            for (int x = x0; x < x0 + width; ++x)
                for (int c = 0; c < channels_; ++c)
                    at(f, y, x, c) = static_cast<uint8_t>(20 + (x - x0) / 4 % 2 * 15);
    }

  private:
    uint8_t &at(Frame &f, int y, int x, int c) const {
        return f.bytes[static_cast<size_t>((y * COLS + x) * channels_ + c)];
    }

    int channels_;
    std::mt19937_64 &random_;
};

Options watchful() {
    Options o = cusMotionDefaults();
    o.dilate = 3;
    o.min_area = 300;
    o.shadows = 50;
    o.ghosts = o.tight = 1;
    return o;
}

using Rect = std::array<int, 4>; // x, y, width, height

// The boxes from left to right.
std::vector<Rect> fromLeft(const std::vector<cusMotionBox> &boxes) {
    std::vector<Rect> rects;
    for (const cusMotionBox &b : boxes)
        rects.push_back({b.x, b.y, b.width, b.height});
    std::sort(rects.begin(), rects.end());
    return rects;
}

// Within four pixels of what was drawn, as far as edges of shadow reach that touch it.
testing::AssertionResult isAt(const std::vector<cusMotionBox> &boxes, int x, int y, int width, int height) {
    testing::AssertionResult no = testing::AssertionFailure() << boxes.size() << " boxes";
    for (const cusMotionBox &b : boxes)
        no << "; " << b.x << ", " << b.y << ", " << b.width << " x " << b.height;
    const auto near = [](int a, int b) { return std::abs(a - b) <= 4; };
    if (boxes.size() != 1 || !near(boxes[0].x, x) || !near(boxes[0].y, y) ||
        !near(boxes[0].x + boxes[0].width, x + width) || !near(boxes[0].y + boxes[0].height, y + height))
        return no;
    return testing::AssertionSuccess();
}

// A person and the shadow before them: the box is the person's, in gray and in color, for hard and for soft shadows.
TEST_P(MotionGround, ShadowIsNotMotion) {
    auto random = support::generator();
    for (const int channels : {1, 3})
        for (const bool soft : {false, true}) {
            const Paving paving(channels, random);
            Paving frames(channels, random);
            Options o = watchful();
            Detector with(1, ROWS, COLS, channels, o, space());
            o.shadows = 0;
            Detector without(1, ROWS, COLS, channels, o, space());
            for (int t = 0; t < 14; ++t) {
                Frame frame = frames.next();
                if (t >= 10) {
                    paving.shade(frame, 40 + 6 * t, 70, 80, 30, 60, soft);
                    paving.stand(frame, 30 + 6 * t, 30, 24, 70);
                }
                const Result r = with.step(frame), all = without.step(frame);
                if (t < 10)
                    continue;
                EXPECT_TRUE(isAt(r.boxes, 30 + 6 * t, 30, 24, 70))
                    << channels << " channels, soft " << soft << ", step " << t;
                ASSERT_EQ(all.boxes.size(), 1u);
                EXPECT_GE(all.boxes[0].width, 70);
            }
        }
}

// Who stood in the first frame leaves: the place is a box for one step and ground from the next on; who comes is a box while they
// stand there.
TEST_P(MotionGround, GhostsAreLearnedAtOnce) {
    auto random = support::generator();
    for (const int channels : {1, 3}) {
        Paving paving(channels, random);
        Options o = watchful();
        o.track_gap = 0;
        Detector with(1, ROWS, COLS, channels, o, space());
        o.ghosts = 0;
        Detector without(1, ROWS, COLS, channels, o, space());
        for (int t = 0; t < 40; ++t) {
            Frame frame = paving.next();
            if (t < 12)
                paving.stand(frame, 40, 30, 24, 70);
            if (t >= 14)
                paving.stand(frame, 140, 30, 24, 70);
            const Result r = with.step(frame), all = without.step(frame);
            if (t == 12) {
                EXPECT_EQ(r.boxes.size(), 1u);
            } else if (t == 13) {
                EXPECT_EQ(r.boxes.size(), 0u);
            } else if (t >= 14) {
                EXPECT_TRUE(isAt(r.boxes, 140, 30, 24, 70)) << "step " << t;
            }
            EXPECT_EQ(all.boxes.size(), t < 12 ? 0u : t < 14 ? 1u : 2u) << "step " << t;
        }
    }
}

// A chessboard fades in one half of the frame while another appears in the other half, which has a row more or less: a box with more
// edges, in more words, than the GPU takes at once. It is a ghost where more fades.
TEST_P(MotionGround, GhostsOfManyEdges) {
    const int rows = 133, cols = 801;
    Options o = plainOptions();
    o.ghosts = 1;
    o.sudden_percent = 100;
    for (const bool fades_above : {false, true})
        for (const int above : {66, 67}) {
            Frame before = plain(rows, cols, 100), after = before;
            for (int y = 0; y < rows; ++y)
                for (int x = (y + 1) % 2; x < cols; x += 2)
                    ((y < above) == fades_above ? before : after).bytes[static_cast<size_t>(y * cols + x)] = 200;
            Detector detector(1, rows, cols, 1, o, space());
            reference::Motion reference(rows, cols, 1, o);
            for (int step = 0; step < 3; ++step) {
                const Frame &frame = step ? after : before;
                ASSERT_TRUE(same(detector.step(frame), reference.step(frame.bytes, step))) << above << ", step " << step;
                const bool is_ghost = (above > rows / 2) == fades_above;
                EXPECT_EQ(detector.result().boxes.size(), step == 0 || (step == 2 && is_ghost) ? 0u : 1u) << above;
            }
        }
}

// Who walks by changes the background by at most the threshold's share, so no trace stays.
TEST_P(MotionGround, WhoWalksLeavesNoTrace) {
    auto random = support::generator();
    Paving paving(1, random);
    Options o = watchful();
    o.shift = 3;
    Detector with(1, ROWS, COLS, 1, o, space());
    o.ghosts = 0;
    Detector without(1, ROWS, COLS, 1, o, space());
    size_t traces = 0;
    for (int t = 0; t < 30; ++t) {
        Frame frame = paving.next();
        if (t >= 10)
            paving.stand(frame, 10 + 8 * (t - 10), 20, 24, 90);
        const Result r = with.step(frame);
        const size_t all = without.step(frame).boxes.size();
        if (t < 10)
            continue;
        EXPECT_TRUE(isAt(r.boxes, 10 + 8 * (t - 10), 20, std::min(24, COLS - 10 - 8 * (t - 10)), 90)) << "step " << t;
        traces += all != 1 || without.result().boxes[0].width > 32;
    }
    EXPECT_GT(traces, 10u);
}

// A tight box is what was drawn, though the mask is wider by three pixels on each side.
TEST_P(MotionGround, TightBoxesHug) {
    Options o = plainOptions();
    o.dilate = 3;
    for (const int tight : {0, 1}) {
        o.tight = tight;
        Detector detector(1, 100, 300, 1, o, space());
        Frame frame = plain(100, 300, 90);
        (void)detector.step(frame);
        fill(frame, 250, 20, 30, 50, 200); // over the border of two tiles
        const Result r = detector.step(frame);
        const int more = tight ? 0 : 3;
        ASSERT_EQ(r.boxes.size(), 1u);
        const cusMotionBox &b = r.boxes[0];
        EXPECT_EQ((std::vector<int>{b.x, b.y, b.width, b.height}),
                  (std::vector<int>{250 - more, 20 - more, 30 + 2 * more, 50 + 2 * more}));
        EXPECT_EQ(b.first, static_cast<uint32_t>(250 - more));
        EXPECT_EQ(b.area, 36u * 56);
    }
}

// People side by side, whose masks touch, have a box each; so do two who hold hands. What is as high everywhere, stands behind the
// other or is too narrow is not cut.
TEST_P(MotionGround, SplitsSideBySide) {
    const struct {
        std::vector<Rect> things, boxes;
    } groups[] = {
        {{{20, 20, 20, 60}, {44, 24, 22, 60}}, {{20, 20, 20, 60}, {44, 24, 22, 60}}},
        {{{240, 20, 20, 60}, {264, 20, 20, 60}, {288, 30, 20, 60}}, // over the border of two tiles
         {{240, 20, 20, 60}, {264, 20, 20, 60}, {288, 30, 20, 60}}},
        {{{20, 20, 20, 60}, {50, 20, 20, 60}, {40, 50, 10, 4}}, {{20, 20, 25, 60}, {45, 20, 25, 60}}}, // a hand of each
        {{{20, 20, 90, 40}}, {{20, 20, 90, 40}}},
        {{{20, 10, 20, 50}, {26, 55, 20, 60}}, {{20, 10, 26, 105}}},
        {{{20, 20, 20, 60}, {42, 20, 4, 60}}, {{20, 20, 26, 60}}},
    };
    for (const auto &group : groups)
        for (const int channels : {1, 3}) {
            Options o = watchful();
            o.split = 50;
            o.shadows = o.ghosts = o.warmup = 0;
            Detector detector(1, 130, 330, channels, o, space());
            o.split = 0;
            Detector whole(1, 130, 330, channels, o, space());
            Frame frame = {130, 330, channels, Bytes(static_cast<size_t>(130 * 330 * channels), 90)};
            (void)detector.step(frame);
            (void)whole.step(frame);
            for (const Rect &r : group.things)
                for (int y = r[1]; y < r[1] + r[3]; ++y)
                    std::fill_n(&frame.bytes[static_cast<size_t>((y * 330 + r[0]) * channels)], r[2] * channels, 20);
            EXPECT_EQ(fromLeft(detector.step(frame).boxes), group.boxes) << group.things.size() << " things";
            EXPECT_EQ(whole.step(frame).boxes.size(), 1u);
        }
}

// A slice has the area, the middle and the strength of its own pixels, and slices beyond max_boxes are left out.
TEST_P(MotionGround, SlicesAreBoxesOfTheirPixels) {
    Options o = plainOptions();
    o.split = 50;
    o.dilate = 2;
    o.tight = 1;
    o.sudden_percent = 100;
    for (const int most : {64, 2}) {
        o.max_boxes = most;
        Detector detector(1, 60, 100, 1, o, space());
        Frame frame = plain(60, 100, 100);
        (void)detector.step(frame);
        fill(frame, 10, 10, 6, 20, 130);
        fill(frame, 20, 12, 4, 20, 150);
        fill(frame, 28, 10, 6, 22, 140);
        const Result r = detector.step(frame);
        EXPECT_EQ(r.status.components, 1u);
        ASSERT_EQ(r.boxes.size(), most == 2 ? 2u : 3u);
        const cusMotionBox &b = r.boxes[1];
        EXPECT_EQ((Rect{b.x, b.y, b.width, b.height}), (Rect{20, 12, 4, 20}));
        EXPECT_EQ(b.area, 8u * 22); // of the rows of the whole box
        EXPECT_EQ(b.center_x, 256 * 43 / 2);
        EXPECT_EQ(b.center_y, 256 * 41 / 2);
        EXPECT_EQ(b.strength, 50u * 256);
        EXPECT_EQ(b.first, 20u);
        EXPECT_EQ(r.boxes[0].strength, 30u * 256);
    }
}

} // namespace
