// Filters of events from their definitions: each step looks at all events that the steps before it have kept.
#pragma once

#include "cusight/eventio.h"
#include "recording.hpp"

#include <algorithm>
#include <cstdlib>

namespace reference {

// The events for which keep(events, i) is true.
template<class Keep>
Events kept(const Events &events, Keep keep) {
    Events out;
    for (size_t i = 0; i < events.size(); ++i)
        if (keep(events, i))
            out.add(events.t[i], events.x[i], events.y[i], events.p[i]);
    return out;
}

inline Events filtered(const Events &all, const cusEventFilterOptions &o) {
    Events events = kept(all, [&o](const Events &e, size_t i) {
        return e.t[i] >= o.begin && e.t[i] < o.end && e.x[i] < o.width && e.y[i] < o.height;
    });
    if (o.hot_events)
        events = kept(events, [&o](const Events &e, size_t i) {
            const auto period = [&](size_t k) { return (e.t[k] - e.t[0]) / o.hot_period; };
            uint64_t before = 0;
            for (size_t k = i; k-- > 0 && period(k) == period(i);)
                before += e.x[k] == e.x[i] && e.y[k] == e.y[i];
            return before < o.hot_events;
        });
    if (o.activity)
        events = kept(events, [&o](const Events &e, size_t i) {
            for (size_t k = i; k-- > 0 && e.t[i] - e.t[k] <= o.activity;) {
                const int dx = std::abs(int(e.x[k]) - int(e.x[i])), dy = std::abs(int(e.y[k]) - int(e.y[i]));
                if (std::max(dx, dy) == 1)
                    return true;
            }
            return false;
        });
    const int width = o.region_width ? o.region_width : o.width, height = o.region_width ? o.region_height : o.height;
    const auto placed = [](int64_t x, int64_t from, int64_t to) { return static_cast<unsigned>(to ? x * to / from : x); };
    Events out;
    for (size_t i = 0; i < events.size(); ++i) {
        const int x = events.x[i] - o.x, y = events.y[i] - o.y;
        if (x >= 0 && y >= 0 && x < width && y < height)
            out.add(events.t[i], placed(o.flip_x ? width - 1 - x : x, width, o.grid_width),
                    placed(o.flip_y ? height - 1 - y : y, height, o.grid_height), events.p[i]);
    }
    return out;
}

} // namespace reference
