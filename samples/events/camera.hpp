// The bytes of an event camera on stdin, decoded as they come.
#pragma once

#include "events/source.hpp"

#include "common/standard_input.hpp"

namespace events {

// A source of Prophesee RAW or DAT on stdin; null if stdin is something else, a regular file, or must be read more than once:
// for --shard, or since the sensor's size is not known. Throws sample::Stop if the header is damaged.
std::unique_ptr<EventSource> openCamera(sample::StandardInput &input, const Settings &settings,
                                        const cusEventReaderOptions &options, bool pinned);

} // namespace events
