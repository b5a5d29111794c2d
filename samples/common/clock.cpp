#include "common/clock.hpp"

#include <cstdlib>

namespace sample {

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

} // namespace sample
