// The performance suite's harness: gtest tests whose bodies measure, print one row each and collect them for --json.
//
//   TEST(Framediff, heatmap_3840x2160) {
//       perf::bothSpaces([&](cusSpace space) {
//           perf::Row row("framediff/heatmap/3840x2160", space, bytes_that_must_move);
//           row.measure([&](cusStream stream, int i) { cusHeatmap(&prev[i % n], &cur[i % n], &dst[i % n], nullptr, stream);
//           }); row.peer("cv", [&](cusStream, int i) { ... });   // as many as are present, measured in turn with the
//           function row.report();
//       });
//   }
//
// The callable makes one call of the work; i counts up so that it can rotate over buffers. Device work is timed with events
// around batches of calls after warming up, host work with the steady clock; both give the median, minimum and maximum of
// at least --perf_min_samples samples. A callable that returns cusStatus is checked.
#pragma once

#include "cusight/core.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace perf {

struct Timing {
    double median_ms = 0, min_ms = 0, max_ms = 0;
    int samples = 0;
};

using Work = std::function<void(cusStream stream, int i)>;

// One sample of host work is one call; of device work a batch of calls between two events, divided by their number.
Timing time(cusSpace space, const Work &work);

bool haveGpu();
// Device-to-device copy, bytes read + written, measured once on buffers larger than the L2 cache; memcpy on the host.
double copyGbps(cusSpace space);
// How many buffer sets of this many bytes each to rotate over so that the L2 cache (device) or last-level cache (host)
// holds none of the next one.
int rotation(cusSpace space, size_t bytes_a_set);

class Row {
  public:
    // bytes: what must move through memory, read + written, once. 0: not bound by memory, no fraction is shown.
    Row(std::string id, cusSpace space, double bytes);
    void measure(const Work &work);
    void peer(const std::string &name, const Work &work);
    // Remarks that go into the row: "L2-resident", "3 % of bytes at random places".
    void note(const std::string &text);
    void report();

  private:
    std::string id_, note_;
    cusSpace space_;
    double bytes_;
    Timing own_;
    std::vector<std::pair<std::string, Timing>> peers_;
};

// Runs the body for the host and, where there is one, for the GPU. --perf_space=host|cuda narrows it.
void bothSpaces(const std::function<void(cusSpace)> &body);

// Fails the test with the library's message; for use inside Work.
void check(cusStatus status);

} // namespace perf
