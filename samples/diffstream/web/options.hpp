// The options of programs that serve a page.
#pragma once

#include "common/terminal/options.hpp"
#include "diffstream/net/address.hpp"

#include <string>

namespace diffstream {

// The settings of --web, and what its requests must have.
struct WebSettings {
    Address address{"127.0.0.1", ""};     // no port: no browsers
    std::string certificate, private_key; // --web-cert, --web-cert-key: PEM; both empty: no TLS
    std::string token_file;               // --web-token-file
    const char *source = "video";         // what the page says has ended: "recording"
    bool wait = true;                     // for the first viewer; --no-wait
    bool any() const { return !address.port.empty(); }
    bool tls() const { return !certificate.empty() || !private_key.empty(); }
};

// --web, --web-token-file, --web-cert and --web-cert-key.
void addWeb(CLI::App &app, WebSettings &web);

} // namespace diffstream
