#include "frames.hpp"

#include "cusight/cusight.hpp"
#include "cusight/eventframes.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace scale {

namespace {

using cusight::check;

struct Pass {
    double seconds = 0;
    uint64_t windows = 0, events = 0;
};

using Clock = std::chrono::steady_clock;

// Takes all batches; the caller's next one would wait for work on the frames, of which there is none.
Pass pass(cusEventFrames *frames, Clock::time_point start) {
    cusFrameBatch batch = {};
    do
        check(cusEventFramesNext(frames, &batch));
    while (batch.count);
    const std::chrono::duration<double> took = Clock::now() - start;
    cusEventFramesCounts counts = {};
    check(cusEventFramesQuery(frames, &counts));
    return {took.count(), counts.windows, counts.events};
}

void measure(const FrameOptions &o, int devices, bool is_first) {
    cusEventFramesOptions options = cusEventFramesDefaults();
    options.windowing.length = o.length;
    options.compute = options.deliver = o.cpu ? CUS_HOST : CUS_DEVICE;
    options.shard = o.shard, options.shards = o.shards;
    std::vector<int> list(static_cast<size_t>(devices * o.lanes));
    for (size_t k = 0; k < list.size(); ++k)
        list[k] = static_cast<int>(k) % devices;
    options.devices = o.cpu ? nullptr : list.data();
    options.device_count = devices * o.lanes;
    const cusRepresentation histogram = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
    cusEventReaderOptions reading = cusEventReaderDefaults();
    reading.pin_file = o.pin;
    reading.max_memory = SIZE_MAX;
    cusEventFrames *frames = nullptr;
    const auto start = Clock::now();
    check(cusEventFramesOpen(&frames, o.path.c_str(), &reading, &histogram, 1, &options));
    const double opened = std::chrono::duration<double>(Clock::now() - start).count();
    const Pass first = pass(frames, start);
    std::vector<double> seconds;
    Pass last;
    for (int k = 0; k < o.passes; ++k) {
        const auto begun = Clock::now();
        check(cusEventFramesRestart(frames));
        last = pass(frames, begun);
        seconds.push_back(last.seconds);
    }
    cusEventFramesClose(frames);
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    std::printf("%s\n  {\"devices\": %d, \"lanes\": %d, \"windows\": %llu, \"events\": %llu, \"median_s\": %.6f, "
                "\"least_s\": %.6f, \"open_s\": %.6f, \"first_s\": %.6f, \"events_per_s\": %.4g}",
                is_first ? "" : ",", devices, devices * o.lanes, static_cast<unsigned long long>(last.windows),
                static_cast<unsigned long long>(last.events), median, seconds.front(), opened, first.seconds,
                static_cast<double>(last.events) / median);
    std::fflush(stdout);
}

} // namespace

void measureFrames(const FrameOptions &o) {
    int devices = o.devices;
    if (!devices)
        check(cusDeviceCount(&devices));
    std::printf("{\"length\": %llu, \"shard\": %llu, \"shards\": %llu, \"rows\": [",
                static_cast<unsigned long long>(o.length), static_cast<unsigned long long>(o.shard),
                static_cast<unsigned long long>(o.shards));
    for (int k = 1; k <= std::max(1, devices); k *= 2)
        measure(o, k, k == 1);
    std::puts("\n]}");
}

} // namespace scale
