// What the parts of the harness share.
#pragma once

#include "harness/harness.hpp"

#include <fstream>
#include <string>
#include <vector>

namespace perf {

namespace tuning {
constexpr double DEVICE_BATCH_MS = 2; // recording an event takes about 2 us: 0.1 %
constexpr double HOST_BATCH_MS = 5;   // longer than idle threads of OpenMP and OpenCV spin
constexpr double WARM_UP_MS = 30;     // for clocks, page tables, lazily loaded kernels
constexpr double ENOUGH_MS = 250;     // of samples per row, its peers included; sweeps stop at min_samples
constexpr double TOO_LONG_MS = 15000; // after this, MIN_SAMPLES suffice, whatever was requested
constexpr int MIN_SAMPLES = 3;
constexpr int MAX_SAMPLES = 200;
} // namespace tuning

struct Options {
    int min_samples = 20;
    bool host = true, cuda = true, list = false, once = false, help = false;
    std::vector<std::string> rows; // empty: all
    std::string json;
};
extern Options options;
// The number of buffer sets that rotation() returned for the next measurement, which first touches their memory; 0
// afterwards.
extern int last_rotation;
extern const char *const USAGE;
// Returns false if an argument is unknown or invalid. GoogleTest has already removed its own.
bool parseOptions(int argc, char **argv);

// Measures several Work objects in turn, one sample each per round, for `enough_ms`. wall: the steady clock times each call
// to the end of its work.
std::vector<Timing> timeInTurn(cusSpace space, bool wall, const std::vector<const Work *> &works,
                               double enough_ms = tuning::ENOUGH_MS);
// For a profiler: makes one call between cudaProfilerStart and cudaProfilerStop. Earlier calls have created outputs and
// loaded kernels; buffers are as cold as in a measurement.
void profileOnce(const Work &work);

const char *backendName(cusSpace space); // as in ids and result files
cusDeviceInfo deviceInfo();
std::string cpuName();
// The machine's facts as one JSON object, with the copy bandwidths of the spaces that are measured.
std::string machineFacts();

// The file of --json: one JSON object per line, flushed, so that a crash loses at most the row being measured. An existing
// file is appended to.
class JsonLines {
  public:
    void open(const std::string &path);
    void write(const std::string &line); // does nothing if no file is open

  private:
    void expectGood() const;
    std::string path_;
    std::ofstream out_;
};
extern JsonLines json_lines;

} // namespace perf
