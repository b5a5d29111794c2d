// The performance suite's harness: GoogleTest tests whose bodies measure and report rows.
//
//   TEST(Framediff, heatmap_3840x2160) {
//       perf::bothSpaces([&](cusSpace space) {
//           perf::Row row("framediff/heatmap/3840x2160", space, bytes_that_must_move);
//           row.measure([&](cusStream stream, int i) {
//               return cusHeatmap(&prev[i % n], &cur[i % n], &dst[i % n], nullptr, stream);
//           });
//           row.peer("opencv", [&](cusStream, int i) { ... }); // any number
//           row.report();
//       });
//   }
//
// The callable makes one call of the work; i counts calls, so it can rotate through buffers. A returned cusStatus is
// checked. measure and peer only store the callables: report() measures the function and its peers in turn (A B A B), so
// that ratios come from one run. Everything the callables refer to must live until then.
//
// A sample is the time of a batch of calls that lasts a few milliseconds, divided by their number: device work is timed
// between two events in the harness's own stream, host work by the steady clock. One untimed call precedes each batch, so
// that neither the first launch nor the threads of earlier work count. Rows named sweep/MODULE/SERIES/QUANTITY=NUMBER
// become plots and take the minimum number of samples; .../COLSxROWS/.../latency become the table of latencies. --help
// lists the options.
#pragma once

#include "harness/arithmetic.hpp"
#include "cusight/core.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace perf {

// Throws the library's error message, which fails the test.
void check(cusStatus status);

class Work {
  public:
    template<class F, class Result = std::invoke_result_t<F &, cusStream, int>>
    Work(F call) {
        if constexpr (std::is_same_v<Result, cusStatus>)
            call_ = [call = std::move(call)](cusStream stream, int i) mutable { check(call(stream, i)); };
        else
            call_ = std::move(call);
    }
    void operator()(cusStream stream, int i) const { call_(stream, i); }

  private:
    std::function<void(cusStream, int)> call_;
};

// Times work that has no row.
Timing time(cusSpace space, const Work &work);

bool haveGpu();
// Whether rows of this space are requested (--perf_space) and can be measured on this machine.
bool wants(cusSpace space);
// True with --list-rows: report() prints the id and measures nothing, so bodies need not fill their buffers.
bool listing();

// Bandwidth of a copy within one space, read + written, measured once with buffers larger than the caches; on the host with
// one thread per processor.
double copyGbps(cusSpace space);
// Bandwidth of copies between pinned host memory and the device: up, down, and the sum of both at once.
const BusGbps &busGbps();
// The number of buffer sets of this size to rotate through so that the L2 cache (device) or last-level cache (host) holds
// nothing of the next set.
int rotation(cusSpace space, size_t bytes_a_set);

class Row {
  public:
    // bytes: the minimum that must be read and written. 0: not bound by memory; no fraction is shown.
    Row(std::string id, cusSpace space, double bytes);
    void measure(Work work);
    void peer(const std::string &name, Work work);
    // A remark on the row: "L2-resident", "3 % of the bytes at random positions".
    void note(const std::string &text);
    // The times of many single calls in microseconds, by the steady clock: percentiles and a histogram are reported.
    void calls(std::vector<double> microseconds);
    // Times each call by the steady clock, including the wait for the stream: for work that synchronizes, and for the latency
    // of a frame. Times are per frame if a call processes several.
    void wallClock(int frames_a_call = 1);
    // wallClock for work from pinned host memory to pinned host memory: the fraction is that of the bus limit for these bytes
    // per frame, with up and down overlapping.
    void hostToHost(double up_bytes, double down_bytes, int frames_a_call = 1);
    // Call once, after everything else.
    void report();
    // Whether report() ran the work and its peers, so their results can be checked.
    bool measured() const { return measured_; }

  private:
    std::vector<Timing> timeAll() const;
    void addCalls(std::string &line, JsonObject &json) const;
    void addBandwidth(double median_ms, std::string &line, JsonObject &json) const;
    void write(const std::vector<Timing> &timings) const;

    std::string id_, note_;
    std::vector<double> calls_; // sorted
    cusSpace space_;
    double bytes_, up_bytes_ = 0, down_bytes_ = 0;
    bool wall_ = false, measured_ = false;
    int frames_ = 1;
    std::vector<std::pair<std::string, Work>> work_; // "": the function itself; others: peers
};

// Runs the body for the host and for the GPU if there is one. --perf_space restricts it.
void bothSpaces(const std::function<void(cusSpace)> &body);

} // namespace perf
