// Command lines of the sample programs.
//
//   sample::Common common;
//   std::string input;
//   int threshold = 20;
//   sample::Options options("cusight-heatmap", "Shows where a video changes.");
//   options.argument(input, "INPUT", sample::SOURCE_HELP);
//   options.number(threshold, "--threshold", "N", "changes up to N are not shown", 0, 255);
//   options.common(common, "heatmap.mp4");
//   if (!options.parse(argc, argv)) // --help was asked for and printed
//       return sample::OK;
//
// Variables hold their defaults when they are declared here, and --help shows them. A wrong command line throws
// Stop(USAGE) that names the option, the value and what is taken. Both "--threshold 5" and "--threshold=5" are read.
#pragma once

#include "app.hpp"

#include <functional>
#include <string>
#include <vector>

namespace sample {

// What every sample takes.
struct Common {
    std::string device = "auto"; // for chooseDevice
    std::string output;          // empty: not given
    bool headless = false;
};

class Options {
  public:
    Options(std::string program, std::string summary);

    // A word without dashes, in the order declared. An optional one may be missing; those after it must be optional too.
    void argument(std::string &value, const std::string &name, const std::string &help, bool required = true);
    void flag(bool &value, const std::string &name, const std::string &help);
    void text(std::string &value, const std::string &name, const std::string &meta, const std::string &help);
    void number(int &value, const std::string &name, const std::string &meta, const std::string &help, int low, int high);
    void number(double &value, const std::string &name, const std::string &meta, const std::string &help, double low,
                double high);
    void choice(std::string &value, const std::string &name, const std::vector<std::string> &choices,
                const std::string &help);
    // The value is handed to `check`, which returns "" or what is taken, and keeps it if it likes it.
    void custom(const std::string &name, const std::string &meta, const std::string &help,
                std::function<std::string(const std::string &)> check);
    // --device, --output, --headless. `output_help` describes --output; its last words say the default.
    void common(Common &common, const std::string &output_help);

    // False: --help was printed, nothing else was looked at. Throws Stop(USAGE).
    bool parse(int argc, char **argv);

    std::string help() const;

  private:
    struct Option {
        std::string name, meta, help;
        std::function<std::string(const std::string &)> set; // "" or what is taken
        bool required;
    };
    std::string program_, summary_;
    std::vector<Option> options_, arguments_;
};

} // namespace sample
