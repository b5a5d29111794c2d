#include "golden/golden.hpp"

#include "reference/motion.hpp"

namespace golden {
namespace {

using Options = cusMotionOptions;

struct Video {
    int rows, cols, channels;
    std::vector<Data> frames;
};

// Rectangles that move over a background with a little noise; one frame in nine is much brighter.
Video videoOf(int rows, int cols, int channels, int frames, uint32_t seed) {
    Numbers next(seed);
    struct Thing {
        int x, y, width, height, dx, dy, value;
    };
    std::vector<Thing> things;
    for (int i = 0; i < 5; ++i)
        things.push_back({next.below(cols), next.below(rows), 1 + next.below(1 + cols / 4), 1 + next.below(1 + rows / 4),
                          next.below(5) - 2, next.below(5) - 2, next.below(256)});
    Video video = {rows, cols, channels, {}};
    for (int f = 0; f < frames; ++f) {
        const int light = next.below(9) == 0 ? 90 : 0;
        Data frame(static_cast<size_t>(rows) * static_cast<size_t>(cols) * static_cast<size_t>(channels));
        for (uint8_t &v : frame)
            v = static_cast<uint8_t>(100 + light + next.below(6));
        for (Thing &t : things) {
            for (int y = std::max(0, t.y); y < std::min(rows, t.y + t.height); ++y)
                for (int x = std::max(0, t.x) * channels; x < std::min(cols, t.x + t.width) * channels; ++x)
                    frame[static_cast<size_t>(y) * static_cast<size_t>(cols * channels) + static_cast<size_t>(x)] =
                        static_cast<uint8_t>(t.value);
            t.x += t.dx;
            t.y += t.dy;
        }
        video.frames.push_back(frame);
    }
    return video;
}

int64_t timeOf(size_t frame) {
    return static_cast<int64_t>(40000 * frame + 977 * (frame % 3));
}

void appendStep(Data &data, const cusMotionStatus &status, std::vector<cusMotionBox> boxes,
                std::vector<cusMotionTrack> tracks) {
    append(data, std::vector<cusMotionStatus>{status});
    boxes.resize(static_cast<size_t>(status.boxes));
    tracks.resize(static_cast<size_t>(status.tracks));
    append(data, boxes);
    append(data, tracks);
}

Data expectedOf(const Video &video, const Options &options) {
    reference::Motion motion(video.rows, video.cols, video.channels, options);
    Data data;
    for (size_t f = 0; f < video.frames.size(); ++f) {
        const reference::MotionStepResult r = motion.step(video.frames[f], timeOf(f));
        appendStep(data, r.status, r.boxes, r.tracks);
        append(data, r.mask);
    }
    return data;
}

Data computedOf(const Video &video, Options options, cusSpace space, Layout layout) {
    options.space = space;
    const int type = CUS_MAKETYPE(CUS_8U, video.channels);
    support::Owned<cusMotionDetectorDestroy> detector;
    CUS_EXPECT_OK(cusMotionDetectorCreate(&detector, 1, video.rows, video.cols, type, &options));
    Data data;
    for (size_t f = 0; f < video.frames.size(); ++f) {
        TestMat frame(video.rows, video.cols, type, space, layout, video.frames[f].data());
        TestMat mask(video.rows, video.cols, CUS_8UC1, space, layout);
        const int64_t time = timeOf(f);
        CUS_EXPECT_OK(cusMotionDetectorRun(detector, &frame.mat, &time, nullptr));
        cusMotionStatus status = {};
        std::vector<cusMotionBox> boxes(static_cast<size_t>(options.max_boxes));
        std::vector<cusMotionTrack> tracks(boxes.size());
        CUS_EXPECT_OK(cusMotionDetectorGet(detector, 0, 1, &status, boxes.data(), tracks.data(), nullptr));
        CUS_EXPECT_OK(cusMotionDetectorMask(detector, 0, &mask.mat, nullptr));
        appendStep(data, status, boxes, tracks);
        append(data, mask.get());
        EXPECT_TRUE(frame.intact() && mask.intact());
    }
    return data;
}

Row rowOf(const Video &video, const Options &options, const std::string &text, uint32_t seed) {
    return {"cusMotionDetectorRun",
            text,
            seed,
            sizeName(video.rows, video.cols),
            typeName(CUS_MAKETYPE(CUS_8U, video.channels)),
            [=] { return expectedOf(video, options); },
            [=](cusSpace space, Layout layout) { return computedOf(video, options, space, layout); }};
}

} // namespace

Row anyMotion(Choices &choices) {
    Options o = cusMotionDefaults();
    o.shift = choices.below(9);
    o.learn_us = choices.yes() ? 1 + choices.below(60000) : 0;
    o.threshold = choices.between(1, 255);
    o.noise_factor = choices.below(20);
    o.erode = choices.below(9);
    o.dilate = choices.below(9);
    o.min_area = choices.between(1, 200);
    o.max_boxes = choices.between(1, 256);
    o.merge = choices.below(2);
    o.sudden_percent = choices.between(1, 100);
    o.warmup = choices.below(4);
    o.track_gap = choices.below(4);
    o.shadows = choices.yes() ? choices.between(1, 100) : 0;
    o.ghosts = choices.below(2);
    o.tight = choices.below(2);
    o.split = choices.yes() ? choices.between(1, 100) : 0;
    const int rows = choices.between(1, 40), cols = choices.between(1, 100), channels = choices.yes() ? 3 : 1;
    return rowOf(videoOf(rows, cols, channels, choices.between(1, 6), choices.seed()), o, "", 0);
}

std::vector<Row> motionRows() {
    std::vector<Row> rows;
    const uint32_t seed = 90;
    const auto add = [&](const char *text, auto change) {
        Options o = cusMotionDefaults();
        o.warmup = 1;
        o.min_area = 4;
        change(o);
        for (const auto &[h, w, c] : {std::tuple(1, 1, 1), {33, 70, 1}, {40, 97, 3}})
            rows.push_back(rowOf(videoOf(h, w, c, 14, seed), o, text, seed));
    };
    add("warmup=1 min_area=4", [](Options &) {});
    add("warmup=1 min_area=4 erode=0 dilate=0", [](Options &o) { o.erode = o.dilate = 0; });
    add("warmup=1 min_area=4 merge=1 max_boxes=3 track_gap=0",
        [](Options &o) { o.merge = 1, o.max_boxes = 3, o.track_gap = 0; });
    add("warmup=1 min_area=4 learn_us=100000 noise_factor=6 threshold=2",
        [](Options &o) { o.learn_us = 100000, o.noise_factor = 6, o.threshold = 2; });
    add("warmup=1 min_area=4 shift=0 sudden_percent=100", [](Options &o) { o.shift = 0, o.sudden_percent = 100; });
    add("warmup=1 min_area=4 shadows=50 ghosts=1 tight=1", [](Options &o) { o.shadows = 50, o.ghosts = o.tight = 1; });
    add("warmup=1 min_area=4 split=60 tight=1", [](Options &o) { o.split = 60, o.tight = 1; });
    return rows;
}

} // namespace golden
