// Events generated from a video, a camera or images.
#pragma once

#include "events/source.hpp"

#include "cusight/eventgen.h"

namespace events {

// The generator's options are those of the settings. On a GPU several frames are passed at once. `memory` outlives the source.
std::unique_ptr<EventSource> openVideo(const std::string &spec, const cusEventGeneratorOptions &options, Memory &memory);

} // namespace events
