// Timing: batches of calls between events or clock readings, several Work objects in turn.
#include "harness/internal.hpp"

#ifdef CUSIGHT_HAVE_CUDA
#include <cuda_profiler_api.h>
#endif

#include <algorithm>
#include <chrono>
#include <utility>

namespace perf {
namespace {

using Clock = std::chrono::steady_clock;
double msSince(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// All device work uses one stream, so that peers can keep state for it. It lives as long as the program.
cusStream timingStream() {
    static const cusStream stream = [] {
        cusStream made = nullptr;
        check(cusStreamCreate(&made));
        return made;
    }();
    return stream;
}

// The stream and events that time device work; host work needs neither.
class Stopwatch {
  public:
    Stopwatch(cusSpace space, bool wall) : device_(space == CUS_DEVICE), events_(device_ && !wall) {
        if (device_)
            stream_ = timingStream();
        if (events_) {
            check(cusStreamEventCreate(&start_));
            check(cusStreamEventCreate(&stop_));
        }
    }
    ~Stopwatch() {
        cusStreamEventDestroy(start_);
        cusStreamEventDestroy(stop_);
    }
    Stopwatch(const Stopwatch &) = delete;
    Stopwatch &operator=(const Stopwatch &) = delete;

    double batchMs() const { return events_ ? tuning::DEVICE_BATCH_MS : tuning::HOST_BATCH_MS; }

    // Milliseconds that `calls` calls take. `i` counts over the life of the work.
    double run(const Work &work, int calls, bool untimed_first, int &i) {
        if (untimed_first)
            work(stream_, i++);
        if (events_) {
            check(cusStreamEventRecord(start_, stream_));
            for (int k = 0; k < calls; ++k)
                work(stream_, i++);
            check(cusStreamEventRecord(stop_, stream_));
            float ms = 0;
            check(cusStreamEventElapsed(start_, stop_, &ms));
            check(cusStreamSynchronize(stream_)); // reports errors of the queued work
            return ms;
        }
        if (device_)
            check(cusStreamSynchronize(stream_));
        const auto start = Clock::now();
        for (int k = 0; k < calls; ++k) {
            work(stream_, i++);
            if (device_)
                check(cusStreamSynchronize(stream_));
        }
        return msSince(start);
    }

  private:
    bool device_, events_;
    cusStream stream_ = nullptr;
    cusStreamEvent start_ = nullptr, stop_ = nullptr;
};

// Warms up and returns how many calls make a batch. The first `untimed` calls only touch their memory.
int warmUp(Stopwatch &watch, const Work &work, int &turns, int untimed) {
    if (untimed > 0)
        watch.run(work, untimed, false, turns);
    const auto start = Clock::now();
    int calls = 1;
    double ms = watch.run(work, 1, false, turns); // the first call says nothing about the next
    double spent = msSince(start);
    for (int n = 1; spent < tuning::WARM_UP_MS || (ms < watch.batchMs() && spent < 10 * tuning::WARM_UP_MS);
         spent = msSince(start)) {
        ms = watch.run(work, n, false, turns);
        calls = batchLength(watch.batchMs(), n, ms);
        n = std::min(calls, 2 * n);
    }
    return calls;
}

} // namespace

std::vector<Timing> timeInTurn(cusSpace space, bool wall, const std::vector<const Work *> &works, double enough_ms) {
    Stopwatch watch(space, wall);
    std::vector<int> calls(works.size(), 1), turns(works.size(), 0);
    if (space == CUS_DEVICE)
        check(cusStreamSynchronize(nullptr)); // test bodies queue their setup there
    const int sets = std::exchange(last_rotation, 0);
    for (size_t k = 0; k < works.size(); ++k)
        calls[k] = warmUp(watch, *works[k], turns[k], space == CUS_HOST ? sets : 0);
    std::vector<std::vector<double>> samples(works.size());
    const auto start = Clock::now();
    for (int round = 0; round < tuning::MAX_SAMPLES; ++round) {
        const double spent = msSince(start);
        if (round >= tuning::MIN_SAMPLES &&
            (spent > tuning::TOO_LONG_MS || (round >= options.min_samples && spent > enough_ms)))
            break;
        for (size_t k = 0; k < works.size(); ++k)
            samples[k].push_back(watch.run(*works[k], calls[k], calls[k] > 1, turns[k]) / calls[k]);
    }
    std::vector<Timing> timings;
    for (auto &s : samples)
        timings.push_back(summary(std::move(s)));
    return timings;
}

void profileOnce([[maybe_unused]] const Work &work) {
#ifdef CUSIGHT_HAVE_CUDA
    constexpr int before = 4;
    check(cusStreamSynchronize(nullptr)); // test bodies queue their setup there
    cusStream stream = nullptr;
    check(cusStreamCreate(&stream));
    for (int i = 0; i < before; ++i)
        work(stream, i);
    check(cusStreamSynchronize(stream));
    cudaProfilerStart();
    work(stream, before);
    check(cusStreamSynchronize(stream));
    cudaProfilerStop();
    cusStreamDestroy(stream);
#endif
}

Timing time(cusSpace space, const Work &work) {
    return options.list ? Timing() : timeInTurn(space, false, {&work})[0];
}

} // namespace perf
