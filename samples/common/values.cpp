#include "common/values.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <sstream>

namespace sample {

namespace {

const struct {
    const char *name;
    double microseconds;
} UNITS[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}};

} // namespace

bool parseClock(const std::string &text, double &seconds) {
    constexpr size_t LEFT = 7; // digits of the first number
    const size_t colon = text.find(':');
    if (colon == 0 || colon > LEFT || text.find_first_not_of("0123456789:.") != std::string::npos)
        return false;
    double whole = std::atof(text.substr(0, colon).c_str());
    size_t at = colon;
    for (int parts = 0; at < text.size() && text[at] == ':'; ++parts, at += 3) { // two digits each
        const std::string part = text.substr(at + 1, 2);
        if (parts == 2 || part.size() < 2 || part.find_first_not_of("0123456789") != std::string::npos || part[0] > '5')
            return false;
        whole = 60 * whole + std::atoi(part.c_str());
    }
    const std::string rest = text.substr(at), digits = rest.empty() ? "0" : rest.substr(1);
    if ((!rest.empty() && rest[0] != '.') || digits.empty() ||
        digits.find_first_not_of("0123456789") != std::string::npos || text.find('.') < colon)
        return false;
    seconds = whole + std::atof(("0." + digits).c_str());
    return true;
}

bool parseDuration(const std::string &text, double unit, double &value) {
    double seconds = 0;
    if (parseClock(text, seconds)) {
        value = seconds * SECONDS / unit;
        return true;
    }
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

std::string join(const std::vector<std::string> &words, const std::string &separator) {
    std::string all;
    for (const std::string &word : words)
        all += (all.empty() ? "" : separator) + word;
    return all;
}

std::vector<std::string> split(const std::string &text, char separator) {
    std::vector<std::string> words;
    std::istringstream rest(text);
    for (std::string word; std::getline(rest, word, separator);)
        words.push_back(word);
    return words;
}

} // namespace sample
