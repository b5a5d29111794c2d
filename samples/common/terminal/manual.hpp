// Manual pages and shell completion, made from the declarations of a program's options.
#pragma once

#include <string>

namespace CLI {
struct App;
struct Option;
} // namespace CLI

namespace sample {

// The end of --help.
extern const char *const EXIT_CODES;

// What an option does, with its default.
std::string described(const CLI::Option &option);

// Prints what `--generate-WHAT` asks for: "man", "bash", "zsh", or "files", a table for tests. Returns false for anything else.
bool printGenerated(const CLI::App &app, const std::string &what);

} // namespace sample
