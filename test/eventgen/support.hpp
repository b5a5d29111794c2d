// What the tests of the event generator share: videos, and a generator's events from frames and arrays in either space.
#pragma once

#include "../support.hpp"

#include "reference/eventgen.hpp"

#include <memory>

namespace eventgen_test {

using reference::Events;
using Options = cusEventGeneratorOptions;

struct Video {
    int rows, cols;
    std::vector<uint8_t> values;
    std::vector<int64_t> times;

    size_t pixels() const { return static_cast<size_t>(rows) * static_cast<size_t>(cols); }
    int frames() const { return static_cast<int>(times.size()); }
};

// Pixels that keep their value, drift or jump, and frames from 1 to max_step microseconds apart.
inline Video randomVideo(int rows, int cols, int frames, int64_t max_step, std::mt19937_64 &random) {
    Video video = {rows, cols, {}, {}};
    std::vector<uint8_t> frame(video.pixels());
    int64_t time = static_cast<int64_t>(random() % 1000);
    for (int f = 0; f < frames; ++f) {
        for (uint8_t &v : frame)
            if (f == 0 || random() % 4 == 0)
                v = static_cast<uint8_t>(random() % 3 ? random() % 256 : v + random() % 9);
        video.values.insert(video.values.end(), frame.begin(), frame.end());
        video.times.push_back(time);
        time += 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(max_step));
    }
    return video;
}

inline Video constantVideo(int rows, int cols, int value, int frames, int64_t step) {
    Video video = {rows, cols, {}, {}};
    video.values.assign(video.pixels() * static_cast<size_t>(frames), static_cast<uint8_t>(value));
    for (int f = 0; f < frames; ++f)
        video.times.push_back(f * step);
    return video;
}

// Arrays for events in either space, each between poisoned bytes.
class Arrays {
  public:
    Arrays(size_t capacity, cusSpace space) : capacity_(std::max<size_t>(capacity, 1)) {
        for (size_t k = 0; k < 4; ++k)
            mats_[k] = std::make_unique<support::TestMat>(1, static_cast<int>(capacity_ * SIZES[k]), CUS_8UC1, space);
        view = {static_cast<uint16_t *>(mats_[0]->mat.data),
                static_cast<uint16_t *>(mats_[1]->mat.data),
                static_cast<uint8_t *>(mats_[2]->mat.data),
                static_cast<int64_t *>(mats_[3]->mat.data),
                capacity,
                nullptr,
                0};
    }
    void appendTo(Events &events, size_t count) {
        ASSERT_LE(count, capacity_);
        const auto x = mats_[0]->get<uint16_t>(), y = mats_[1]->get<uint16_t>();
        const auto p = mats_[2]->get<uint8_t>();
        const auto t = mats_[3]->get<int64_t>();
        for (size_t i = 0; i < count; ++i)
            events.add(t[i], x[i], y[i], p[i]);
        for (const auto &mat : mats_)
            EXPECT_TRUE(mat->intact());
    }
    cusEventBuffers view = {};

  private:
    static constexpr size_t SIZES[] = {2, 2, 1, 8};
    size_t capacity_;
    std::unique_ptr<support::TestMat> mats_[4];
};

// Frames first .. last - 1 of a video.
class Frames {
  public:
    Frames(const Video &video, int first, int last, cusSpace space, support::Layout layout = {})
        : mat_((last - first) * video.rows, video.cols, CUS_8UC1, space, layout,
               &video.values[static_cast<size_t>(first) * video.pixels()]),
          times_(&video.times[static_cast<size_t>(first)]), count_(last - first) {}
    cusStatus run(cusEventGenerator *generator, const cusEventBuffers &out, cusEventsGenerated *generated = nullptr,
                  cusStream stream = nullptr) {
        return cusEventGeneratorRun(generator, &mat_.mat, times_, count_, &out, generated, stream);
    }
    testing::AssertionResult intact() { return mat_.intact(); }
    cusMat &mat() { return mat_.mat; }

  private:
    support::TestMat mat_;
    const int64_t *times_;
    int count_;
};

// The video's events, from runs of at most `batch` frames.
inline Events generate(const Video &video, Options options, cusSpace space, int batch, support::Layout layout = {}) {
    Events events;
    options.space = space;
    support::Owned<cusEventGeneratorDestroy> generator;
    CUS_EXPECT_OK(cusEventGeneratorCreate(&generator, video.rows, video.cols, &options));
    for (int first = 0; generator && first < video.frames(); first += batch) {
        Frames frames(video, first, std::min(first + batch, video.frames()), space, layout);
        // The first try only counts.
        cusEventsGenerated generated = {};
        const cusStatus status = frames.run(generator, {});
        EXPECT_TRUE(status == CUS_OK || status == CUS_ERROR_CAPACITY) << cusLastError();
        (void)cusEventGeneratorCheck(generator, &generated, nullptr);
        if (generated.status == CUS_OK)
            continue; // no events
        Arrays arrays(generated.count, space);
        CUS_EXPECT_OK(frames.run(generator, arrays.view));
        CUS_EXPECT_OK(cusEventGeneratorCheck(generator, &generated, nullptr));
        EXPECT_EQ(generated.frames, static_cast<uint64_t>(std::min(batch, video.frames() - first)));
        EXPECT_TRUE(frames.intact());
        arrays.appendTo(events, generated.count);
    }
    return events;
}

} // namespace eventgen_test
