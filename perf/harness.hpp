// The performance suite's harness: gtest tests whose bodies measure, print one row each and collect them for --json.
//
//   TEST(Framediff, heatmap_3840x2160) {
//       perf::bothSpaces([&](cusSpace space) {
//           perf::Row row("framediff/heatmap/3840x2160", space, bytes_that_must_move);
//           row.measure([&](cusStream stream, int i) {
//               return cusHeatmap(&prev[i % n], &cur[i % n], &dst[i % n], nullptr, stream);
//           });
//           row.peer("opencv", [&](cusStream, int i) { ... }); // as many as are present
//           row.report();
//       });
//   }
//
// The callable makes one call of the work; i counts up so that it can rotate over buffers. One that returns cusStatus is
// checked. measure and peer only keep it: report() measures the function and its peers in turn (A B A B), so that ratios
// come from one run; what the callables refer to must live until then.
//
// A sample is a batch of calls that lasts a few milliseconds, divided by their number: of device work between two events
// in a stream of its own, of host work by the steady clock. One untimed call goes before each batch, so that neither the
// first launch nor the threads of what ran before count. Rows named sweep/MODULE/SERIES/QUANTITY=NUMBER become plots and
// take the least number of samples; .../COLSxROWS/.../latency become the table of latencies. Options: --perf_min_samples=N,
// --perf_space=host|cuda|both, --perf_rows=ID,ID, --json FILE (one JSON object per line: the machine, then each row; appended), --list-rows, --perf_once (each row's own work once, marked for a profiler), and gtest's own.
#pragma once

#include "arithmetic.hpp"
#include "cusight/core.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace perf {

// Throws the library's message, which fails the test.
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

// One piece of work alone, for sweeps.
Timing time(cusSpace space, const Work &work);

bool haveGpu();
// Whether rows of this space are asked for (--perf_space) and can be measured here.
bool wants(cusSpace space);
// True under --list-rows: report() prints the id and measures nothing, so a body need not fill its buffers.
bool listing();

// Copy within the memory of one space, bytes read + written per second, measured once on buffers larger than the caches;
// by as many threads as there are processors on the host.
double copyGbps(cusSpace space);
// Copies between pinned host memory and the device: one way, the other, and the sum of both ways at once.
const BusGbps &busGbps();
// How many buffer sets of this many bytes each to rotate over so that the L2 cache (device) or last-level cache (host)
// holds none of the next one.
int rotation(cusSpace space, size_t bytes_a_set);

class Row {
  public:
    // bytes: what must move through memory, read + written, once. 0: not bound by memory, no fraction is shown.
    Row(std::string id, cusSpace space, double bytes);
    void measure(Work work);
    void peer(const std::string &name, Work work);
    // Remarks that go into the row: "L2-resident", "3 % of bytes at random places".
    void note(const std::string &text);
    // Times each call by the steady clock, the wait for the stream included: for work that waits itself, and for the
    // latency of a frame. A call that does several frames says how many; times are per frame.
    void wallClock(int frames_a_call = 1);
    // wallClock for work from and to pinned host memory: the fraction shown is that of the bus limit for these bytes a
    // frame, up and down at the same time.
    void hostToHost(double up_bytes, double down_bytes, int frames_a_call = 1);
    // Once, after everything else.
    void report();
    // Whether report() ran the work and its peers, so that what they left can be checked.
    bool measured() const { return measured_; }

  private:
    std::string id_, note_;
    cusSpace space_;
    double bytes_, up_bytes_ = 0, down_bytes_ = 0;
    bool wall_ = false, measured_ = false;
    int frames_ = 1;
    std::vector<std::pair<std::string, Work>> work_; // "" is the function, others peers
};

// Runs the body for the host and, where there is one, for the GPU. --perf_space=host|cuda narrows it.
void bothSpaces(const std::function<void(cusSpace)> &body);

} // namespace perf
