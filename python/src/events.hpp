// Events, windows and representations as the event functions share them.
#pragma once

#include "handle.hpp"

#include <vector>

namespace cuspy {

// What times count. By type: integers microseconds, floats seconds.
enum class TimeUnit { ByType, Microseconds, Milliseconds, Seconds, Nanoseconds };

// Four parallel arrays and the library's view of them.
struct EventsIn {
    Array x, y, p, t;
    Array converted[4]; // empty where the array itself has the library's type
    cusEventArrays events;
};
// Any integers or floats, with or without gaps, on the host; on the device only the library's types. t may be None. columns.cpp
EventsIn eventsIn(Call &call, nb::handle x, nb::handle y, nb::handle p, nb::handle t, TimeUnit unit);

// The same for times alone.
struct TimesIn {
    Array array;
    Array converted;
    const int64_t *data;
    size_t count;
};
TimesIn timesIn(Call &call, nb::handle t, const char *argument, TimeUnit unit);

// [(cusRepresentation, map or None), ...]
struct Representations {
    struct Map {
        Array array;
        cusMat mat;
    };
    std::vector<cusRepresentation> list;
    std::vector<std::unique_ptr<Map>> maps; // must outlive what the representations are for
    const cusRepresentation *data() const { return list.data(); }
    int count() const { return static_cast<int>(list.size()); }
};
// Maps must be on the call's device.
Representations representationsOf(Call &call, const nb::list &list);
int typeOf(const cusRepresentation &representation);

struct Reader {
    Array memory; // of a recording in memory
    Handle<cusEventReader> handle;
};
// Numbers as Python's ReaderCounts has them.
nb::tuple countsOf(const cusEventCounts &counts);

// Ctrl-C.
inline void checkSignals() {
    if (PyErr_CheckSignals() != 0)
        throw nb::python_error();
}

} // namespace cuspy
