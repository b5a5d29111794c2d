#include "diffstream/net/address.hpp"

#include "common/app.hpp"

namespace diffstream {

using sample::Stop;

Address parseAddress(const std::string &text, const std::string &default_host, const std::string &default_port) {
    Address out{default_host, default_port};
    std::string rest = text;
    if (!rest.empty() && rest[0] == '[') {
        const size_t end = rest.find(']');
        if (end == std::string::npos)
            throw Stop(sample::USAGE, "'" + text + "' is not an address, expected HOST, HOST:PORT or [IPV6]:PORT");
        out.host = rest.substr(1, end - 1);
        rest.erase(0, end + 1);
    } else {
        const size_t colon = rest.find(':');
        if (colon != 0 && !rest.empty())
            out.host = rest.substr(0, colon);
        rest.erase(0, colon == std::string::npos ? rest.size() : colon);
    }
    if (!rest.empty())
        out.port = rest.substr(1);
    const bool digits = !out.port.empty() && out.port.size() <= 5 &&
                        out.port.find_first_not_of("0123456789") == std::string::npos && std::stoi(out.port) <= 65535;
    if ((!rest.empty() && rest[0] != ':') || !digits)
        throw Stop(sample::USAGE, "'" + text + "' is not an address, expected HOST, HOST:PORT or [IPV6]:PORT");
    return out;
}

} // namespace diffstream
