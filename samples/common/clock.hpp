// Times as players show them.
#pragma once

#include <string>

namespace sample {

// "1:05" (minutes and seconds), "1:02:03.5" (hours, minutes and seconds) as seconds; false for anything else.
bool parseClock(const std::string &text, double &seconds);

} // namespace sample
