// Steps of random scenes against reference::Motion: every size, layout, option, number of cameras.
#include "motion/support.hpp"

using namespace motion_test;

namespace {

class MotionSteps : public support::SpaceTest {};
CUS_BOTH_SPACES(MotionSteps);

// Each option is usual or extreme.
Options randomOptions(std::mt19937_64 &random, bool by_time) {
    const auto one = [&](std::vector<int> values) { return values[random() % values.size()]; };
    Options o = cusMotionDefaults();
    o.shift = one({0, 1, 3, 5, 8});
    o.learn_us = by_time ? one({1, 1000, 100000, 1000000000}) : 0;
    o.threshold = one({1, 10, 20, 100, 128, 255});
    o.noise_factor = one({0, 0, 3, 255});
    o.erode = one({0, 0, 1, 2, 8});
    o.dilate = one({0, 1, 4, 8});
    o.min_area = one({1, 1, 5, 30});
    o.max_boxes = one({1, 2, 5, 64, 256});
    o.merge = one({0, 1});
    o.sudden_percent = one({1, 40, 60, 100});
    o.warmup = one({0, 0, 1, 3});
    o.track_gap = one({0, 1, 5});
    o.shadows = one({0, 0, 1, 50, 80, 100});
    o.ghosts = one({0, 1});
    o.tight = one({0, 1});
    o.split = one({0, 0, 1, 30, 50, 80, 100});
    return o;
}

// Returns how many boxes there were.
size_t compare(int rows, int cols, int cameras, int steps, cusSpace space, std::mt19937_64 &random) {
    size_t boxes = 0;
    const int channels = random() % 3 ? 1 : 3;
    const bool with_times = random() & 1;
    const Options options = randomOptions(random, with_times && random() & 1);
    Detector detector(cameras, rows, cols, channels, options, space);
    std::vector<Scene> scenes;
    std::vector<reference::Motion> references;
    std::vector<int64_t> times(static_cast<size_t>(cameras)), counts(static_cast<size_t>(cameras));
    std::vector<Result> expected(static_cast<size_t>(cameras));
    for (int c = 0; c < cameras; ++c) {
        scenes.emplace_back(rows, cols, channels, random);
        references.emplace_back(rows, cols, channels, options);
        expected[static_cast<size_t>(c)].status.noise = -1;
        expected[static_cast<size_t>(c)].mask.assign(static_cast<size_t>(rows) * static_cast<size_t>(cols), 0);
    }
    for (int step = 0; step < steps; ++step) {
        const support::Layout layout = support::layouts(CUS_8UC1)[random() % 4];
        std::vector<Frame> frames;
        if (random() % 4 == 0) {
            Bytes mask = support::randomBytes(static_cast<size_t>(rows) * static_cast<size_t>(cols), random);
            const size_t camera = random() % static_cast<size_t>(cameras);
            CUS_EXPECT_OK(detector.watch(static_cast<int>(camera), mask));
            references[camera].watch(mask);
        }
        for (size_t c = 0; c < static_cast<size_t>(cameras); ++c) {
            frames.push_back(scenes[c].next());
            if (random() % 6 == 0) {
                frames.back().bytes.clear();
                continue;
            }
            times[c] += static_cast<int64_t>(random() % 200000);
            expected[c] = references[c].step(frames.back().bytes, with_times ? times[c] : counts[c]);
            ++counts[c];
        }
        CUS_EXPECT_OK(detector.run(frames, with_times ? times.data() : nullptr, layout));
        EXPECT_TRUE(detector.intact());
        for (int c = 0; c < cameras; ++c) {
            const testing::AssertionResult equal = same(detector.result(c), expected[static_cast<size_t>(c)]);
            EXPECT_TRUE(equal) << rows << " x " << cols << ", camera " << c << " of " << cameras << ", step " << step;
            if (!equal)
                return boxes;
            boxes += expected[static_cast<size_t>(c)].boxes.size();
        }
    }
    return boxes;
}

TEST_P(MotionSteps, AreTheReference) {
    auto random = support::generator();
    size_t boxes = 0;
    for (int round = 0; round < 40 || boxes <= 50; ++round) // until there was something to compare
        boxes += compare(1 + static_cast<int>(random() % 40), 1 + static_cast<int>(random() % 100),
                         1 + static_cast<int>(random() % 3), 12, space(), random);
}

TEST_P(MotionSteps, AreTheReferenceForAllSizes) {
    auto random = support::generator();
    for (const auto &[rows, cols] : support::sizes())
        compare(rows, cols, 1, rows * cols > 50000 ? 3 : 6, space(), random);
}

// More cameras than a launch takes.
TEST_P(MotionSteps, AreTheReferenceForManyCameras) {
    auto random = support::generator();
    compare(9, 33, 300, 6, space(), random);
}

// Things of a few pixels that touch, or nearly, where the GPU's tiles of 256 x 32 pixels and the words of masks meet.
TEST_P(MotionSteps, TouchesAtBordersOfTiles) {
    auto random = support::generator();
    Options options = plainOptions();
    options.sudden_percent = 100;
    options.max_boxes = 256;
    const int rows = 97, cols = 290;
    for (int round = 0; round < 40; ++round) {
        options.dilate = round % 4 == 3;
        Detector detector(1, rows, cols, 1, options, space());
        reference::Motion reference(rows, cols, 1, options);
        (void)detector.step(plain(rows, cols, 60));
        (void)reference.step(plain(rows, cols, 60).bytes, 0);
        Frame frame = plain(rows, cols, 60);
        const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
        for (int i = 0; i < 40; ++i) {
            const int x = std::vector<int>{32, 64, 256, 256, 256}[random() % 5] + below(5) - 3,
                      y = 32 * (1 + below(2)) + below(5) - 3;
            for (int k = -1; k <= 1; ++k)
                fill(frame, x + below(3) - 1, y + k, 1, 1, 250);
        }
        ASSERT_TRUE(same(detector.step(frame), reference.step(frame.bytes, 1))) << "round " << round;
        EXPECT_GT(detector.result().boxes.size(), 3u);
    }
}

// Spirals, snakes, combs, chessboards, dots and noise, one after the other: components that join late, or hardly, in many tiles.
TEST_P(MotionSteps, HardShapes) {
    auto random = support::generator();
    Options options = plainOptions();
    options.sudden_percent = 100;
    options.max_boxes = 256;
    const int rows = 133, cols = 801;
    std::vector<Frame> shapes(9, plain(rows, cols, 0));
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x) {
            const auto set = [&](size_t shape, bool is_set) {
                shapes[shape].bytes[static_cast<size_t>(y * cols + x)] = is_set ? 255 : 0;
            };
            const int ring = std::min({x, y, cols - 1 - x, rows - 1 - y});
            set(0, ring % 2 == 0 && !(y == ring && x == ring + 1)); // rings with a gap
            set(1, x % 2 == 0 || y == rows - 1);                    // a comb, joined at the bottom
            set(2, (x + y) % 2);                                    // joined by corners
            set(3, x % 2 == 0 && y % 2 == 0);                       // not joined
            set(4, true);
            set(5, x % 2 == 0 || y == (x % 4 == 1 ? rows - 1 : 0)); // a snake, up and down
            set(6, y % 2 == 0 || x == (y % 4 == 1 ? cols - 1 : 0)); // a snake, left and right
            set(7, random() % 2);                                   // noise
            set(8, x % 2 == 0);                                     // stripes through all tiles
        }
    Detector detector(1, rows, cols, 1, options, space());
    reference::Motion reference(rows, cols, 1, options);
    for (size_t step = 0; step < 2 * shapes.size(); ++step) {
        const Frame frame = step % 2 ? shapes[step / 2] : plain(rows, cols, 0);
        const Result expected = reference.step(frame.bytes, static_cast<int64_t>(step));
        ASSERT_TRUE(same(detector.step(frame), expected)) << "step " << step;
        if (step % 2) {
            EXPECT_GT(expected.status.components, 0u);
        }
    }
}

} // namespace
