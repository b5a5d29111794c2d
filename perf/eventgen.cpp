// Rows of the event generator: a video of a moving texture, with the noise of v2e's noisy sensor, to events.
#include "harness/frames.hpp"

#include "cusight/eventgen.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace {

using perf::check;
using perf::Mat;
using perf::Size;

constexpr int64_t FRAME_US = 33333;

// Waves that pass over the middle half of the columns by a pixel a frame, forth and back; the rest stands still.
std::vector<uint8_t> movingTexture(Size size, int frames) {
    std::vector<double> wave(256);
    for (size_t i = 0; i < wave.size(); ++i)
        wave[i] = std::sin(static_cast<double>(i) * 2 * 3.14159265358979 / 256);
    std::vector<uint8_t> video(size.pixels() * static_cast<size_t>(frames));
    size_t at = 0;
    for (int f = 0; f < frames; ++f)
        for (int y = 0; y < size.rows; ++y)
            for (int x = 0; x < size.cols; ++x) {
                const auto moved =
                    static_cast<size_t>(x > size.cols / 4 && x < size.cols * 3 / 4 ? x + std::min(f, frames - f) : x);
                const double v = wave[5 * moved % 256] + wave[(3 * static_cast<size_t>(y) + 2 * moved) % 256];
                video[at++] = static_cast<uint8_t>(120 + 45 * v);
            }
    return video;
}

cusEventGeneratorOptions noisy(cusSpace space, size_t max_events) {
    cusEventGeneratorOptions options = cusEventGeneratorDefaults();
    options.threshold_spread = 0.05;
    options.refractory_us = 500;
    options.leak_rate = 0.1;
    options.leak_jitter = 0.1;
    options.shot_rate = 5;
    options.space = space;
    options.max_events = max_events;
    return options;
}

class Generator {
  public:
    Generator(Size size, const cusEventGeneratorOptions &options) {
        check(cusEventGeneratorCreate(&object_, size.rows, size.cols, &options));
    }
    ~Generator() { cusEventGeneratorDestroy(object_); }
    Generator(const Generator &) = delete;
    Generator &operator=(const Generator &) = delete;
    operator cusEventGenerator *() const { return object_; }

  private:
    cusEventGenerator *object_ = nullptr;
};

// The number of events of the video.
size_t countEvents(Size size, const Mat &video, const std::vector<int64_t> &times, cusSpace space) {
    Generator generator(size, noisy(space, 1));
    cusEventsGenerated made = {};
    const cusEventBuffers nowhere = {};
    (void)cusEventGeneratorRun(generator, &video.mat, times.data(), static_cast<int>(times.size()), &nowhere, nullptr,
                               nullptr);
    (void)cusEventGeneratorCheck(generator, &made, nullptr); // CAPACITY
    return made.count;
}

// Each call goes on with the same frames at later times.
void generate(Size size, int frames, cusSpace space) {
    const size_t frame_bytes = size.pixels() * static_cast<size_t>(frames);
    const int rows = size.rows * frames;
    std::vector<int64_t> times(static_cast<size_t>(frames));
    for (size_t i = 0; i < times.size(); ++i)
        times[i] = static_cast<int64_t>(i) * FRAME_US;
    size_t count = 1;
    Mat video;
    if (!perf::listing()) {
        const std::vector<uint8_t> values = movingTexture(size, frames);
        cusMat from = CUS_MAT_INIT;
        check(cusMatWrap(&from, rows, size.cols, CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(values.data()), 0));
        check(space == CUS_DEVICE ? cusMatUpload(&from, &video.mat, nullptr) : cusMatCopy(&from, &video.mat, nullptr));
        if (space == CUS_DEVICE)
            check(cusStreamSynchronize(nullptr));
        count = countEvents(size, video, times, space);
    }
    const size_t capacity = count + count / 16; // later rounds differ a little
    const auto elements = static_cast<int>(capacity);
    const Mat x(1, elements, CUS_16UC1, space), y(1, elements, CUS_16UC1, space), p(1, elements, CUS_8UC1, space),
        t(1, elements, CUS_64FC1, space); // as wide as int64_t
    const cusEventBuffers out = {
        x.as<uint16_t>(), y.as<uint16_t>(), p.as<uint8_t>(), t.as<int64_t>(), capacity, nullptr, 0};
    const Generator generator(size, noisy(space, capacity));
    perf::Row row("eventgen/" + size.text() + "/" + std::to_string(frames) + "-frames", space,
                  static_cast<double>(frame_bytes + 13 * count));
    row.note(std::to_string(count / 1000000) + " million events, noise on");
    row.note("bytes: frames read, events written once");
    row.measure([&](cusStream stream, int) {
        const cusStatus status = cusEventGeneratorRun(generator, &video.mat, times.data(), frames, &out, nullptr, stream);
        for (int64_t &time : times)
            time += frames * FRAME_US;
        return status;
    });
    row.report();
    if (row.measured())
        check(cusEventGeneratorCheck(generator, nullptr, nullptr)); // all runs had room
}

TEST(Eventgen, Frames) {
    perf::bothSpaces([](cusSpace space) { generate({800, 600}, 60, space); });
}

TEST(Eventgen, Video) { // the host is measured by the shorter one
    if (perf::wants(CUS_DEVICE))
        generate({800, 600}, 600, CUS_DEVICE);
}

} // namespace
