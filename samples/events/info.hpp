// cusight-events info: what is in a recording.
#pragma once

#include "events/settings.hpp"

namespace events {

void printInfo(const Settings &settings);

} // namespace events
