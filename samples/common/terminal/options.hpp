// Command lines of the sample programs: one style of help, defaults and errors.
//
//   sample::Common common;
//   sample::Input input;
//   int threshold = 20;
//   const auto app = sample::makeApp("cusight-heatmap", "Shows where a video changes.", "cusight-heatmap video.mp4\n");
//   sample::addInput(*app, input);
//   sample::addNumber(*app, "--threshold", threshold, 0, 255, "ignore changes up to N");
//   sample::addCommon(*app, common, "heatmap.mp4");
//   if (!sample::parse(*app, argc, argv)) // --help or --version was given and printed
//       return sample::OK;
//
// Variables hold their defaults when they are declared, and --help shows them. Both "--threshold 5" and "--threshold=5" are
// accepted; if an option is repeated, the last one wins. Manual pages and shell completion are made from the same
// declarations (manual.hpp). Needs no OpenCV; what is of pictures and videos is defined in video/options.cpp, which does.
#pragma once

#include "common/app.hpp"
#include "common/terminal/files.hpp"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI { // parser.hpp
struct App;
struct Option;
} // namespace CLI

namespace sample {

// How a video file is encoded.
struct Encoding {
    std::string codec = "auto", preset; // empty: the encoder's default
    std::optional<double> crf;
    double fps = 0; // a constant frame rate; 0: each picture at its own time
};

// What openSource opens, and which part of it.
struct Input {
    std::vector<std::string> names; // as SOURCE_HELP describes; several are read one after the other
    double start = 0, duration = 0; // seconds; 0: to the end
    std::array<int, 4> crop = {};   // x, y, width and height; all 0: whole frames
    double fps = 0;                 // of images, which have no times; 0: 25
    bool any_size = false;          // the pictures of a folder or a list need not have one size
    std::string decoder = "auto";   // auto, cpu or cuda
    int gpu = -1, threads = 0;      // as av::Decoding
};

// Options that most programs accept.
struct Common {
    std::string device = "auto"; // for chooseDevice or chooseDevices
    std::string output;          // empty: not given
    bool headless = false;
    bool legend = true; // a strip above maps that explains their colors
    double speed = 1;   // playback in a window; 0: as fast as possible
    Encoding video;     // of a video file
};

// A program with --help, --version, --quiet, --json and --json-frames. `examples` are whole lines at the end of --help,
// above the exit codes.
std::shared_ptr<CLI::App> makeApp(const std::string &name, const std::string &summary, const std::string &examples);

// A subcommand of `app` with its own examples; it also accepts the options of `app`.
CLI::App *addCommand(CLI::App &app, const std::string &name, const std::string &summary, const std::string &examples);
// One of the subcommands must be given.
void requireCommand(CLI::App &app);
// Whether this subcommand was given.
bool isParsed(const CLI::App &command);

// Why this build has no pictures, videos, cameras and windows, for messages; "" if it has.
std::string withoutPictures();

// Returns false if --help or --version was printed and there is nothing to do. Throws Stop(USAGE) with a message such as
// "--threshold is '300', expected an integer from 0 to 255", and for any value that is empty. Declares the files that options name to
// currentFiles(), which may throw too.
bool parse(CLI::App &app, int argc, char **argv);

// The text of --help.
std::string helpText(const CLI::App &app);

// ---- Options with the same name, meaning and help in all programs ------------------------------------------------------

// The positional INPUT, at least one, described by SOURCE_HELP, with --start, --duration, --crop and --decoder.
void addInput(CLI::App &app, Input &input);
// --start, --duration, and --decoder, for chooseDecoder.
void addExcerpt(CLI::App &app, Input &input);
// --device, for chooseDevice; for chooseDevices if `several`.
CLI::Option *addDevice(CLI::App &app, std::string &device, bool several = false);
// `help` describes the output, mostly by SINK_HELP.
CLI::Option *addOutput(CLI::App &app, std::string &output, const std::string &help, Names what = Names::PICTURES);
// --overwrite, for programs that make up names of files.
CLI::Option *addOverwrite(CLI::App &app);
CLI::Option *addHeadless(CLI::App &app, bool &headless);
// --frames: 0 means all.
CLI::Option *addFrames(CLI::App &app, int &frames);
CLI::Option *addSpeed(CLI::App &app, double &speed);
// --no-legend.
CLI::Option *addLegend(CLI::App &app, bool &legend);
// --codec, --crf and --preset, and --fps if `rate`.
void addEncoding(CLI::App &app, Encoding &encoding, bool rate);
// --device, --output, --headless, --speed and those of addEncoding. `default_file` is written if there is neither a window nor --output.
void addCommon(CLI::App &app, Common &common, const std::string &default_file, bool several_devices = false);

// ---- Kinds of options --------------------------------------------------------------------------------------------------

// A positional word, such as INPUT.
CLI::Option *addPositional(CLI::App &app, const std::string &name, std::string &value, const std::string &help,
                           bool required);
// At least one positional word.
CLI::Option *addPositionals(CLI::App &app, const std::string &name, std::vector<std::string> &values,
                            const std::string &help);
CLI::Option *addFlag(CLI::App &app, const std::string &name, bool &value, const std::string &help);
// Sets `value` to false.
CLI::Option *addNegativeFlag(CLI::App &app, const std::string &name, bool &value, const std::string &help);

// A number from low to high.
CLI::Option *addNumber(CLI::App &app, const std::string &name, int &value, double low, double high,
                       const std::string &help);
CLI::Option *addNumber(CLI::App &app, const std::string &name, float &value, double low, double high,
                       const std::string &help);
CLI::Option *addNumber(CLI::App &app, const std::string &name, double &value, double low, double high,
                       const std::string &help);
CLI::Option *addNumber(CLI::App &app, const std::string &name, std::optional<double> &value, double low, double high,
                       const std::string &help);

// A time from low to high, as a number of seconds (of microseconds, if `value` is an integer), or as "10ms" or "1:05".
CLI::Option *addDuration(CLI::App &app, const std::string &name, double &value, double low, double high,
                         const std::string &help);
CLI::Option *addDuration(CLI::App &app, const std::string &name, int &value, double low, double high,
                         const std::string &help);

// A string.
CLI::Option *addText(CLI::App &app, const std::string &name, std::string &value, const std::string &metavar,
                     const std::string &help);

// The name of a file or folder, as `what` says.
CLI::Option *addFile(CLI::App &app, const std::string &name, Names what, std::string &value, const std::string &metavar,
                     const std::string &help);

// A value that set() stores. If set() returns false, the error is "OPTION is 'VALUE', expected EXPECTED". set() may be
// called several times for one value.
using Setter = std::function<bool(const std::string &)>;
CLI::Option *addValue(CLI::App &app, const std::string &name, const Setter &set, const std::string &metavar,
                      const std::string &expected, const std::string &help);

// May be repeated; all values are kept. A value is accepted if `valid` is empty or accepts it.
CLI::Option *addList(CLI::App &app, const std::string &name, std::vector<std::string> &values, const std::string &metavar,
                     const std::string &help, const Setter &valid = nullptr, const std::string &expected = "");

// One of several words, in any case and with hyphens or underscores: set() stores one as it is listed, current() returns the current one.
CLI::Option *addWords(CLI::App &app, const std::string &name, const std::vector<std::string> &words,
                      const std::function<void(const std::string &)> &set, const std::function<std::string()> &current,
                      const std::string &help);

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
    const auto set = [&value, choices](const std::string &word) {
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
    return addWords(app, name, words, set, current, help);
}

// ---- Details -----------------------------------------------------------------------------------------------------------

// Says what the values of an option or positional name; each that does is marked so, for parse() and --generate-files.
CLI::Option *names(CLI::Option *option, Names what);
// The values that the shell offers after the option.
CLI::Option *offer(CLI::Option *option, const std::vector<std::string> &words);

// Sets the heading in --help above the option.
CLI::Option *group(CLI::Option *option, const std::string &heading);
// Adds a condition on the value; the error for a value it rejects is "OPTION is 'VALUE', expected EXPECTED".
CLI::Option *require(CLI::Option *option, const Setter &valid, const std::string &expected);
bool isGiven(const CLI::Option *option);
// Rereads the defaults shown by --help from the variables.
void refreshDefaults(CLI::App &app);

} // namespace sample
