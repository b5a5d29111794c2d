#include "common/values.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <iterator>

namespace sample {

namespace {

const struct {
    const char *name;
    double microseconds;
} UNITS[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}};

} // namespace

bool parseDuration(const std::string &text, double unit, double &value) {
    char *end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || !std::isfinite(number))
        return false;
    const bool plain = *end == '\0';
    while (*end == ' ')
        ++end;
    const auto *const own =
        std::find_if(std::begin(UNITS), std::end(UNITS), [end](const auto &u) { return u.name == std::string(end); });
    if (!plain && own == std::end(UNITS))
        return false;
    value = plain ? number : number * own->microseconds / unit;
    return true;
}

bool hasUnit(const std::string &text) {
    return text.find_first_not_of("0123456789.+-eE") != std::string::npos;
}

bool sameName(const std::string &a, const std::string &b) {
    const auto plain = [](char c) { return c == '_' ? '-' : std::tolower(static_cast<unsigned char>(c)); };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return plain(x) == plain(y); });
}

} // namespace sample
