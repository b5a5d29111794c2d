#include "events-mpi/plan.hpp"

#include <algorithm>
#include <cmath>

namespace events_mpi {

using sample::Stop;

namespace {

int64_t microseconds(double seconds) {
    return static_cast<int64_t>(std::llround(1e6 * seconds));
}

// The number of the first event at or after `time`.
uint64_t findTime(Recording &recording, int64_t time) {
    if (time == INT64_MAX)
        return recording.events();
    recording.seekMark(recording.markBeforeTime(time));
    cusEventArrays e;
    for (uint64_t first = recording.position(); recording.next(65536, e); first = recording.position()) {
        const auto *at = std::lower_bound(e.t, e.t + e.count, time);
        if (at < e.t + e.count)
            return first + static_cast<uint64_t>(at - e.t);
    }
    return recording.position();
}

// The time of the last readable event before number `end`, or that of `first` if that is later.
int64_t lastTime(Recording &recording, const Plan &plan) {
    int64_t last = plan.origin;
    for (size_t mark = recording.markBefore(plan.end_event - 1);; --mark) {
        recording.seekMark(mark);
        cusEventArrays e;
        bool any = false;
        while (recording.position() < plan.end_event &&
               recording.next(static_cast<size_t>(std::min<uint64_t>(65536, plan.end_event - recording.position())), e)) {
            last = std::max(last, e.t[e.count - 1]);
            any = true;
        }
        if (any || mark == 0 || recording.marks()[mark].index <= plan.first_event)
            return last;
    }
}

// The selection and its extent, by the marks.
uint64_t measureIndexed(Recording &recording, const Options &o, Plan &plan) {
    plan.first_event = o.from > 0 ? findTime(recording, plan.from_time) : 0;
    plan.end_event = o.to < 0 ? recording.events() : findTime(recording, plan.to_time);
    plan.events = plan.end_event - std::min(plan.end_event, plan.first_event);
    if (plan.events == 0)
        return 0;
    cusEventArrays e;
    recording.seek(plan.first_event);
    if (!recording.next(1, e))
        return 0;
    plan.origin = e.t[0];
    return plan.byCount() ? plan.events : static_cast<uint64_t>(lastTime(recording, plan) - plan.origin) + 1;
}

// The same, by reading all of the selection.
uint64_t measureByReading(Recording &recording, Plan &plan) {
    cusEventArrays e;
    int64_t last = 0;
    plan.events = 0;
    recording.rewind();
    while (recording.next(Recording::PIECE, e)) {
        const int64_t *end = e.t + e.count;
        if (plan.from_time < 0) { // starts at the first event that is delivered
            plan.from_time = e.t[0];
            plan.to_time += plan.to_time == INT64_MAX ? 0 : e.t[0];
        }
        const int64_t *low = std::lower_bound(e.t, end, plan.from_time), *high = std::lower_bound(e.t, end, plan.to_time);
        if (low < high) {
            plan.origin = plan.events ? plan.origin : *low;
            last = high[-1];
            plan.events += static_cast<uint64_t>(high - low);
        }
        if (high < end)
            break;
    }
    return plan.events == 0 ? 0 : plan.byCount() ? plan.events : static_cast<uint64_t>(last - plan.origin) + 1;
}

void measure(Recording &recording, const Options &o, Plan &plan) {
    plan.from_time = recording.info.first_time + microseconds(o.from);
    plan.to_time = o.to < 0 ? INT64_MAX : recording.info.first_time + microseconds(o.to);
    if (!recording.indexed() && o.from <= 0) {
        plan.from_time = -1;
        plan.to_time = o.to < 0 ? INT64_MAX : microseconds(o.to);
    }
    const uint64_t extent = recording.indexed() ? measureIndexed(recording, o, plan) : measureByReading(recording, plan);
    plan.windows = events::windowCount(extent, plan.windowing);
    // With gaps that --max-gap allows, each event is followed by at most so many windows.
    const uint64_t most = static_cast<uint64_t>(o.max_gap) + plan.windowing.length / plan.windowing.stride + 2;
    if (!plan.byCount() && plan.events && plan.windows / plan.events > most)
        throw Stop(sample::FAILED, sample::text("%llu frames of %llu events: in some gap, more than --max-gap %d in a row "
                                                "have no events",
                                                static_cast<unsigned long long>(plan.windows),
                                                static_cast<unsigned long long>(plan.events), o.max_gap));
    if (plan.windows)
        return;
    if (!recording.problem().empty())
        throw Stop(sample::INPUT, recording.problem() + "; there is no frame before that");
    if (extent == 0)
        throw Stop(sample::INPUT, o.from > 0 || o.to >= 0 ? std::string("no frame: --range contains no events")
                                                          : "no frame: " + o.input + " contains no events");
    throw Stop(sample::INPUT,
               "no frame: " + events::lengthOption(o) +
                   sample::text(", more than there is in %llu events; make it smaller, or leave out --no-keep-incomplete",
                                static_cast<unsigned long long>(plan.events)));
}

// The first window that starts after everything before the mark.
uint64_t windowAt(Recording &recording, const Plan &plan, size_t mark) {
    const uint64_t stride = plan.windowing.stride;
    uint64_t window = 0;
    if (plan.byCount()) {
        const uint64_t event = recording.marks()[mark].index;
        window = event <= plan.first_event ? 0 : (event - plan.first_event + stride - 1) / stride;
    } else {
        const int64_t time = recording.timeAt(mark);
        if (time == INT64_MAX)
            return plan.windows;
        window = time <= plan.origin ? 0 : static_cast<uint64_t>(time - plan.origin) / stride + 1;
    }
    return std::min(window, plan.windows);
}

} // namespace

Plan makePlan(Team &team, Recording &recording, const Options &options) {
    Plan plan = {};
    plan.windowing = events::windowing(options);
    team.onFirst([&] { measure(recording, options, plan); });
    team.share(plan);
    return plan;
}

std::vector<Interval> shareOf(Team &team, Recording &recording, const Plan &plan, const std::vector<uint64_t> &done) {
    const auto ranks = static_cast<uint64_t>(team.size), rank = static_cast<uint64_t>(team.rank);
    if (!done.empty() || !recording.indexed()) { // by number
        const uint64_t left = plan.windows - done.size();
        uint64_t skip = left * rank / ranks, take = left * (rank + 1) / ranks - skip;
        std::vector<Interval> mine;
        uint64_t at = 0;
        for (size_t k = 0; k <= done.size() && take > 0; ++k) { // the gap before done[k]
            const uint64_t end = k < done.size() ? done[k] : plan.windows;
            const uint64_t passed = std::min(skip, end - at), count = std::min(take, end - at - passed);
            if (count)
                mine.push_back({at + passed, at + passed + count});
            skip -= passed;
            take -= count;
            at = end + 1;
        }
        return mine;
    }
    const uint64_t low = recording.markBefore(plan.first_event);
    const uint64_t high = std::max<uint64_t>(low, recording.markBefore(std::max<uint64_t>(plan.end_event, 1) - 1) + 1);
    const uint64_t start = rank == 0 ? 0 : windowAt(recording, plan, low + (high - low) * rank / ranks);
    std::vector<uint64_t> starts = team.all(start);
    for (size_t r = 1; r < starts.size(); ++r)
        starts[r] = std::max(starts[r], starts[r - 1]);
    starts.push_back(plan.windows);
    if (starts[rank] == starts[rank + 1])
        return {};
    return {{starts[rank], starts[rank + 1]}};
}

} // namespace events_mpi
