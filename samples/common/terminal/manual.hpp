// Shell completion and the text of manual pages, made from the declarations of a program's options.
#pragma once

#include <string>

namespace CLI {
struct App;
} // namespace CLI

namespace sample {

// What help2man makes a program's manual page of: --help of the program and of its commands, keys and results; and its include file with
// the page's name and the examples, as troff.
std::string manualText(const CLI::App &app);
std::string manualInclude(const CLI::App &app);

// Prints what `--generate-WHAT` asks for: "help" and "include" of the manual page, "bash", "zsh", or "files", a table for tests. Returns false for
// anything else.
bool printGenerated(const CLI::App &app, const std::string &what);

} // namespace sample
