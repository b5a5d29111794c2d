// Values of options, read alike by all programs.
#pragma once

#include <string>
#include <vector>

namespace sample {

// The size of a sensor or a picture; 0 x 0 if it is not given.
struct Size {
    int width = 0, height = 0;
    bool operator==(const Size &other) const { return width == other.width && height == other.height; }
};

constexpr double MICROSECONDS = 1, SECONDS = 1e6;

// "1:05" (minutes and seconds), "1:02:03.5" (hours, minutes and seconds) as seconds; false for anything else.
bool parseClock(const std::string &text, double &seconds);

// A number of units of `unit` microseconds, a duration such as "500us", "10ms", "1.5s", or what parseClock takes. `value` is in these
// units. False: none of them.
bool parseDuration(const std::string &text, double unit, double &value);

// Whether `text` has a unit of its own: "10ms".
bool hasUnit(const std::string &text);

// Whether two names are the same but for case, and for hyphens and underscores: "ccoeff-normed", "CCOEFF_NORMED".
bool sameName(const std::string &a, const std::string &b);

// "a|b" from the words a and b, and back.
std::string join(const std::vector<std::string> &words, const std::string &separator);
std::vector<std::string> split(const std::string &text, char separator);

} // namespace sample
