// The options of programs that serve a page.
#pragma once

#include "common/terminal/options.hpp"
#include "diffstream/web/visit.hpp"

namespace diffstream {

// --web, --web-token-file, --web-cert and --web-cert-key.
void addWeb(CLI::App &app, WebSettings &web);

} // namespace diffstream
