// How long each stage of a run takes.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace sample {

// Adds up the time that a stage works, not its waits for neighbors:  watch([&] { return source.read(frame); })
class Stopwatch {
  public:
    template<class F>
    auto operator()(F &&work) {
        struct Add {
            double &seconds;
            const Clock::time_point start = Clock::now();
            ~Add() { seconds += std::chrono::duration<double>(Clock::now() - start).count(); }
        } add{seconds};
        return work();
    }
    double seconds = 0;

  private:
    using Clock = std::chrono::steady_clock;
};

// A stage's time in the whole run.
struct Stage {
    const char *name;
    double seconds;
};

// Prints the means over `frames` as "stages: decode 1.16 ms, write 48.86 ms; 49.22 ms per frame overall", or with --json as
// the object "stages_ms". Stages may overlap; one that has not run is left out. `overall` is the time of the whole run,
// including work outside all stages; 0 leaves it out. `whose` tells a second set apart: "viewer" prints "viewer stages" and
// "viewer_stages_ms". Prints nothing without frames.
void figureStages(const std::vector<Stage> &stages, double overall, double frames, const std::string &whose = "");

} // namespace sample
