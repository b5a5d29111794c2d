// Values of options, read alike by all programs. Needs no CLI11.
#pragma once

#include <string>

namespace sample {

constexpr double MICROSECONDS = 1, SECONDS = 1e6;

// A number of units of `unit` microseconds, or a duration such as "500us", "10ms", "1.5s". `value` is in these units. False: neither.
bool parseDuration(const std::string &text, double unit, double &value);

// Whether `text` has a unit of its own: "10ms".
bool hasUnit(const std::string &text);

// Whether two names are the same but for case, and for hyphens and underscores: "ccoeff-normed", "CCOEFF_NORMED".
bool sameName(const std::string &a, const std::string &b);

} // namespace sample
