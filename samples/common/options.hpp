// Command lines of the sample programs: CLI11 with one style of help, defaults and errors.
//
//   sample::Common common;
//   std::string input;
//   int threshold = 20;
//   const auto app = sample::makeApp("cusight-heatmap", "Shows where a video changes.", "cusight-heatmap video.mp4\n");
//   sample::addInput(*app, input);
//   sample::addNumber(*app, "--threshold", threshold, 0, 255, "ignore changes up to N");
//   sample::addCommon(*app, common, "heatmap.mp4");
//   if (!sample::parse(*app, argc, argv)) // --help or --version was given and printed
//       return sample::OK;
//
// Variables hold their defaults when they are declared, and --help shows them. Both "--threshold 5" and "--threshold=5" are
// accepted; if an option is given twice, the last one wins.
#pragma once

#include "app.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sample {

// What most programs accept.
struct Common {
    std::string device = "auto"; // for chooseDevice or chooseDevices
    std::string output;          // empty: not given
    bool headless = false;
};

// A program with --help and --version. `examples` are whole lines, shown at the end of --help above the exit codes.
std::unique_ptr<CLI::App> makeApp(const std::string &name, const std::string &summary, const std::string &examples);

// A subcommand of `app` with examples of its own.
CLI::App *addCommand(CLI::App &app, const std::string &name, const std::string &summary, const std::string &examples);

// False: --help or --version was printed and there is nothing to do. Throws Stop(USAGE) with a message such as
// "--threshold is '300', expected an integer from 0 to 255".
bool parse(CLI::App &app, int argc, char **argv);

// ---- Options with the same name, meaning and help in all programs ------------------------------------------------------

// The positional INPUT, described by SOURCE_HELP.
CLI::Option *addInput(CLI::App &app, std::string &input);
// --device, for chooseDevice; for chooseDevices if `several`.
CLI::Option *addDevice(CLI::App &app, std::string &device, bool several = false);
// `help` describes the output; SINK_HELP is most of it.
CLI::Option *addOutput(CLI::App &app, std::string &output, const std::string &help);
CLI::Option *addHeadless(CLI::App &app, bool &headless);
// --frames: 0 is all of them.
CLI::Option *addFrames(CLI::App &app, int &frames);
// --device, --output and --headless. `default_file` is written if there is neither a window nor --output.
void addCommon(CLI::App &app, Common &common, const std::string &default_file, bool several_devices = false);

// ---- Kinds of options --------------------------------------------------------------------------------------------------

// Accepts a value if `valid` says so; otherwise the error is "OPTION is 'VALUE', expected EXPECTED".
CLI::Validator expect(std::function<bool(const std::string &)> valid, const std::string &expected);
CLI::Validator inRange(long long low, long long high);
CLI::Validator inRange(double low, double high);
CLI::Validator oneOf(const std::vector<std::string> &words);

// A number from low to high.
template<class T>
CLI::Option *addNumber(CLI::App &app, const std::string &name, T &value, double low, double high, const std::string &help) {
    CLI::Option *option = app.add_option(name, value, help)->type_name("N");
    if (std::is_integral<T>::value)
        return option->check(inRange(static_cast<long long>(low), static_cast<long long>(high)));
    return option->check(inRange(low, high));
}

// A string that is not empty, such as a file name.
CLI::Option *addText(CLI::App &app, const std::string &name, std::string &value, const std::string &placeholder,
                     const std::string &help);

// One of several words.
CLI::Option *addChoice(CLI::App &app, const std::string &name, std::string &value, const std::vector<std::string> &choices,
                       const std::string &help);

// One of several words, each of which stands for a value.
template<class T>
CLI::Option *addChoice(CLI::App &app, const std::string &name, T &value,
                       const std::vector<std::pair<std::string, T>> &choices, const std::string &help) {
    std::vector<std::string> words;
    words.reserve(choices.size());
    for (const auto &choice : choices)
        words.push_back(choice.first);
    const auto assign = [&value, choices](const std::string &word) {
        for (const auto &choice : choices)
            if (choice.first == word)
                value = choice.second;
    };
    const auto current = [&value, choices] {
        for (const auto &choice : choices)
            if (choice.second == value)
                return choice.first;
        return std::string();
    };
    return app.add_option_function<std::string>(name, assign, help)
        ->check(oneOf(words))
        ->type_name(CLI::detail::join(words, "|"))
        ->default_function(current)
        ->capture_default_str();
}

} // namespace sample
