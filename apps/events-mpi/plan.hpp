// Which windows there are, and which rank makes them.
#pragma once

#include "events-mpi/options.hpp"
#include "events-mpi/files/recording.hpp"
#include "events-mpi/team.hpp"

#include "cusight/events.h"

#include <cstdint>
#include <vector>

namespace events_mpi {

// The same on all ranks. Plain data.
struct Plan {
    cusWindowing windowing;
    uint64_t windows;                // in all
    uint64_t first_event, end_event; // the selection; if the recording is not indexed: unknown
    int64_t from_time, to_time;      // the same in times; to_time: INT64_MAX if there is no end
    int64_t origin;                  // time of the first event, from which windows by duration are counted
    uint64_t events;                 // in the selection

    bool byCount() const { return windowing.unit == CUS_WINDOW_COUNT; }
};

// Windows first .. end - 1.
struct Interval {
    uint64_t first, end;
};

// All ranks together. Throws Stop(INPUT) if there are no events or no windows.
Plan makePlan(Team &team, Recording &recording, const Options &options);

// The windows of this rank: a part of the recording that takes as long to decode as any other rank's. `done`: windows that
// an earlier run has made, in order; the others are then shared by number.
std::vector<Interval> shareOf(Team &team, Recording &recording, const Plan &plan, const std::vector<uint64_t> &done);

} // namespace events_mpi
