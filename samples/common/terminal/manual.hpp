// Manual pages and shell completion, made from the declarations of a program's options.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace sample {

// How --help ends.
extern const char *const EXIT_CODES;

// Prints what `--generate-WHAT` asks for: "man", "bash" or "zsh". False: there is no such thing.
bool printGenerated(const CLI::App &app, const std::string &what);

} // namespace sample
