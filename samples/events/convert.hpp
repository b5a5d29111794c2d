// `cusight-events convert`: writes the events of any source as a recording of another format.
#pragma once

#include "events/settings.hpp"

#include <string>

namespace events {

struct ConvertSettings {
    std::string output, format, compression = "own";
};

// Throws sample::Stop.
void convert(const Settings &settings, const ConvertSettings &how);

} // namespace events
