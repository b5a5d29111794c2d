// Events, windows and representations as the event functions share them.
#pragma once

#include "arrays.hpp"

#include <vector>

namespace cuspy {

// Four parallel arrays and the library's view of them.
struct EventsIn {
    Array x, y, p, t;
    cusEventArrays events;
};
// x, y: uint16; p: uint8 or bool; t: int64, or None.
EventsIn eventsIn(Call &call, nb::handle x, nb::handle y, nb::handle p, nb::handle t);

// (unit, length, stride, keep_incomplete)
cusWindowing windowingOf(const nb::tuple &numbers);
// [(kind, channels, depth, swap_channels, cutoff, normalize, tau), ...]
std::vector<cusRepresentation> representationsOf(const nb::list &list);
int typeOf(const cusRepresentation &representation);

} // namespace cuspy
