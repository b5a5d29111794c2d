// The parser of command lines: what one may have, which options.hpp declares, and what one has.
#pragma once

#include "common/terminal/files.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {

// An option, a flag or a positional.
struct Option {
    std::vector<std::string> names; // "-q", "--quiet"; "INPUT"
    std::string help, group;        // group: the heading in --help
    std::string type;               // of its values, such as "N"; "": a flag or a positional
    bool required = false;
    bool many = false;                    // all values count, not only the last
    std::function<std::string()> current; // what its variable holds
    std::string shown;                    // the default in --help
    std::vector<std::pair<std::function<bool(const std::string &)>, std::string>> checks; // and what they expect
    std::function<void(const std::vector<std::string> &)> store;                          // the values that count
    std::optional<sample::Names> files;                                                   // what its values name
    std::vector<std::string> words;                                                       // values that the shell offers
    std::vector<std::string> given; // all values; of a flag, empty ones

    bool isPositional() const { return names.front()[0] != '-'; }
    bool takesValue() const { return !type.empty(); }
    const std::string &name() const;         // the first long one
    std::vector<std::string> values() const; // those that count
    void showDefault() { shown = current ? current() : ""; }
};

// A program or one of its commands.
struct App {
    std::string name, summary, examples;
    const App *parent = nullptr;
    std::deque<Option> options;
    std::vector<std::unique_ptr<App>> commands;
    bool needs_command = false;
    App *command = nullptr; // the one that is given

    // names: "-q,--quiet".
    Option *add(const std::string &names, const std::string &help);

    // Sorts the words into the options. Returns the first that belongs to none; null if there is none. Throws Stop(USAGE) for an option
    // without its value.
    const std::string *sort(const std::vector<std::string> &words);
    // Stores the values in the variables. Throws Stop(USAGE) for one that is not valid.
    void store();
    bool isGiven(const std::string &option) const; // to the program or its command

  private:
    Option *find(const std::string &option);
    Option *nextPositional();
    bool takeOption(const std::vector<std::string> &words, size_t &at);
};

// Throws Stop(USAGE).
[[noreturn]] void reject(const std::string &message);

} // namespace CLI
