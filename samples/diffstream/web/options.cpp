#include "diffstream/web/options.hpp"

namespace diffstream {

void addWeb(CLI::App &app, WebSettings &web) {
    const auto group = [](CLI::Option *option) { sample::group(option, "Browsers"); };
    const auto port = [&web](const std::string &text) {
        const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
        web.address = parseAddress(digits ? ":" + text : text, "127.0.0.1", "8080");
        return true;
    };
    group(sample::addValue(app, "--web", port, "[HOST:]PORT", "a port, or HOST:PORT",
                           "serve a page that shows the pictures in a browser; beyond loopback with --web-cert and "
                           "--web-cert-key; port 0: any free port"));
    group(sample::addFile(
        app, "--web-token-file", sample::Names::INPUT, web.token_file, "FILE",
        "only who opens the page with the token in FILE may watch; FILE is made, with a token, if it does not "
        "exist. By default there is none, with --web-cert a new one, which is printed on a terminal only"));
    group(sample::addFile(app, "--web-cert", sample::Names::INPUT, web.certificate, "FILE",
                          "certificate for the page's address, PEM"));
    group(sample::addFile(app, "--web-cert-key", sample::Names::INPUT, web.private_key, "FILE", "its private key, PEM"));
}

} // namespace diffstream
