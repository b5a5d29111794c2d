#include "golden/golden.hpp"

#include "eventgen/support.hpp"

namespace golden {
namespace {

using ::eventgen_test::Video;
using reference::Events;
using Options = cusEventGeneratorOptions;

// Frames up to 3 ms apart in which a quarter of the pixels change, a third of them a little.
Video videoOf(int rows, int cols, int frames, uint32_t seed) {
    Numbers next(seed);
    Video video = {rows, cols, {}, {}};
    std::vector<uint8_t> frame(video.pixels());
    int64_t time = next.below(1000);
    for (int f = 0; f < frames; ++f) {
        for (uint8_t &v : frame)
            if (f == 0 || next.below(4) == 0) {
                const bool jumps = next.below(3) > 0;
                v = static_cast<uint8_t>(jumps ? next.below(256) : v + next.below(9));
            }
        video.values.insert(video.values.end(), frame.begin(), frame.end());
        video.times.push_back(time);
        time += 1 + next.below(3000);
    }
    return video;
}

Data dataOf(const Events &events) {
    Data data = bytesOf(events.t);
    append(data, events.x);
    append(data, events.y);
    append(data, events.p);
    return data;
}

Row rowOf(const Video &video, const Options &options, const std::string &text, uint32_t seed, int batch) {
    return {"cusEventGeneratorRun",
            text,
            seed,
            sizeName(video.rows, video.cols),
            "8UC1",
            [=] { return dataOf(reference::eventsOf(video.values, video.rows, video.cols, video.times, options)); },
            [=](cusSpace space, Layout layout) {
                return dataOf(::eventgen_test::generate(video, options, space, batch, layout));
            }};
}

} // namespace

Row anyEventgen(Choices &choices) {
    const int h = choices.between(1, 8), w = choices.between(1, 12), frames = choices.between(1, 8);
    Options options = cusEventGeneratorDefaults();
    options.positive = choices.between(1, 100) / 100.0;
    options.negative = choices.between(1, 100) / 100.0;
    options.threshold_spread = choices.below(20) / 100.0;
    options.refractory_us = choices.below(3000);
    options.leak_rate = choices.below(101);
    options.leak_jitter = choices.below(21) / 100.0;
    options.shot_rate = choices.below(1001);
    options.seed = choices.seed();
    const int batch = choices.between(1, frames);
    return rowOf(videoOf(h, w, frames, choices.seed()), options, "", 0, batch);
}

std::vector<Row> eventgenRows() {
    std::vector<Row> rows;
    const uint32_t seed = 70;
    const auto add = [&](const char *text, auto change) {
        Options options = cusEventGeneratorDefaults();
        options.seed = 0x123456789abcdef;
        change(options);
        for (const auto &[h, w] : {std::pair(1, 1), std::pair(7, 11), std::pair(20, 31)})
            rows.push_back(rowOf(videoOf(h, w, 12, seed), options, text, seed, 5));
    };
    add("", [](Options &) {});
    add("positive=0.3 negative=0.05", [](Options &o) { o.positive = 0.3, o.negative = 0.05; });
    add("threshold_spread=0.05", [](Options &o) { o.threshold_spread = 0.05; });
    add("refractory_us=1500", [](Options &o) { o.refractory_us = 1500; });
    add("leak_rate=100 leak_jitter=0.1", [](Options &o) { o.leak_rate = 100, o.leak_jitter = 0.1; });
    add("shot_rate=500", [](Options &o) { o.shot_rate = 500; });
    add("threshold_spread=0.03 refractory_us=500 leak_rate=50 leak_jitter=0.2 shot_rate=200", [](Options &o) {
        o.threshold_spread = 0.03, o.refractory_us = 500;
        o.leak_rate = 50, o.leak_jitter = 0.2, o.shot_rate = 200;
    });
    return rows;
}

} // namespace golden
