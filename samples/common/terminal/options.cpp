#include "common/terminal/options.hpp"

#include "common/libav/writer.hpp"
#include "common/many_devices.hpp"
#include "common/values.hpp"
#include "common/video/sink.hpp"
#include "common/video/source.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>

namespace sample {

namespace {

// Accepts the values that `valid` accepts; otherwise the error is "OPTION is 'VALUE', expected EXPECTED".
CLI::Validator expect(const Setter &valid, const std::string &expected) {
    return CLI::Validator(
        [valid, expected](const std::string &value) {
            return valid(value) ? std::string() : "is '" + value + "', expected " + expected;
        },
        "");
}

bool isInteger(const std::string &value, double low, double high) {
    char *end = nullptr;
    errno = 0;
    const long long number = std::strtoll(value.c_str(), &end, 10);
    return !value.empty() && *end == '\0' && errno == 0 && number >= static_cast<long long>(low) &&
           number <= static_cast<long long>(high);
}

bool isReal(const std::string &value, double low, double high) {
    char *end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    return !value.empty() && *end == '\0' && std::isfinite(number) && number >= low && number <= high;
}

template<class T>
CLI::Option *addReal(CLI::App &app, const std::string &name, T &value, double low, double high, const std::string &help) {
    return app.add_option(name, value, help)
        ->type_name("N")
        ->check(expect([low, high](const std::string &given) { return isReal(given, low, high); },
                       text("a number from %g to %g", low, high)));
}

// A time in units of `unit` microseconds; microseconds are whole.
CLI::Option *addTime(CLI::App &app, const std::string &name, double unit, double low, double high,
                     const std::function<void(double)> &set, const std::function<double()> &current,
                     const std::string &help) {
    const bool whole = unit == MICROSECONDS;
    const auto valid = [=](const std::string &given) {
        double time = 0;
        return parseDuration(given, unit, time) && time >= low && time <= high && (!whole || time == std::floor(time));
    };
    const auto store = [=](const std::string &given) {
        double time = 0;
        parseDuration(given, unit, time);
        set(time);
    };
    return app.add_option_function<std::string>(name, store, help)
        ->type_name("TIME")
        ->check(expect(valid, text(whole ? "an integer from %.0f to %.0f (microseconds), or a duration such as 10ms"
                                         : "a number from %g to %g (seconds), or a time such as 500ms or 1:05",
                                   low, high)))
        ->default_function([=] { return text("%.10g %s", current(), whole ? "us" : "s"); })
        ->capture_default_str();
}

// CLI11 2.4 and later throw at program start if a name has other characters; 2.1 accepts any.
const std::string &positionalName(const std::string &name) {
    if (name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != std::string::npos)
        throw std::logic_error("'" + name + "' is no name for a positional argument, expected capital letters");
    return name;
}

std::map<const CLI::Option *, Names> &marks() {
    static std::map<const CLI::Option *, Names> all;
    return all;
}

// The one of `words` that this is; NULL: none.
const std::string *listed(const std::vector<std::string> &words, const std::string &value) {
    const auto found =
        std::find_if(words.begin(), words.end(), [&value](const std::string &word) { return sameName(word, value); });
    return found == words.end() ? nullptr : &*found;
}

bool isDevice(const std::string &text) {
    return isDeviceList(text) && text != "cuda:all" && text.find(',') == std::string::npos &&
           text.compare(0, 4, "cpu:") != 0;
}

} // namespace

// ---- Options of all programs -------------------------------------------------------------------------------------------

void addInput(CLI::App &app, Input &input) {
    names(addPositionals(app, "INPUT", input.names,
                         std::string(SOURCE_HELP) + ". Several of them, of the same size, are read one after the other"),
          Names::INPUT);
    addExcerpt(app, input);
    const auto set = [&input](const std::string &text) {
        std::array<int, 4> &c = input.crop;
        char rest = 0;
        return std::sscanf(text.c_str(), "%d,%d,%d,%d%c", &c[0], &c[1], &c[2], &c[3], &rest) == 4 && c[0] >= 0 &&
               c[1] >= 0 && c[2] > 0 && c[3] > 0;
    };
    group(addValue(app, "--crop", set, "X,Y,W,H", "four integers X,Y,W,H, none below 0",
                   "use only this rectangle of the frames"),
          "Input");
}

void addExcerpt(CLI::App &app, Input &input) {
    group(addDuration(app, "--start", input.start, 0, 1e9, "begin this long after the first frame"), "Input");
    group(addDuration(app, "--duration", input.duration, 0, 1e9, "stop after so much of the input; 0: no limit"), "Input");
}

void addEncoding(CLI::App &app, Encoding &encoding, bool rate) {
    const auto of_video = [](CLI::Option *option) { return group(option, "Video file"); };
    of_video(addText(app, "--codec", encoding.codec, "NAME",
                     "auto: H.264, in .webm VP8, in .avi Motion JPEG; " + av::codecNames() +
                         " (H.264 by the GPU or processor, if it can), or any video encoder of libavcodec (hevc_nvenc)"));
    of_video(addNumber(
        app, "--crf", encoding.crf, 0, 255,
        "quality, lower is better and larger, on the encoder's scale: H.264 23, VP8 20, Motion JPEG 3 if not given"));
    of_video(addText(app, "--preset", encoding.preset, "NAME",
                     "how hard the encoder tries; H.264: ultrafast to veryslow, veryfast if not given"));
    if (rate)
        of_video(addNumber(
            app, "--fps", encoding.fps, 0, 10000,
            "constant frame rate: frames are repeated or left out; images follow each other at this rate; 0: each "
            "frame at its own time, images 25 a second"));
}

CLI::Option *addDevice(CLI::App &app, std::string &device, bool several) {
    const std::string help = "where to compute; auto: the first GPU, or the CPU if there is none";
    CLI::Option *const option =
        app.add_option("--device", device, help + (several ? "; cuda:all, cuda:0,2: several GPUs; cpu:N: N workers" : ""));
    if (several)
        return option->type_name("auto|cpu[:N]|cuda[:n,...|:all]")
            ->check(expect(isDeviceList, "auto, cpu, cpu:N, cuda, cuda:n, cuda:n,m or cuda:all, 64 workers at most"));
    return option->type_name("auto|cpu|cuda[:n]")->check(expect(isDevice, "auto, cpu, cuda or cuda:n"));
}

CLI::Option *addOutput(CLI::App &app, std::string &output, const std::string &help, Names what) {
    return addFile(app, "--output", what, output, "FILE", help);
}

CLI::Option *addOverwrite(CLI::App &app) {
    return addFlag(app, "--overwrite", currentFiles().overwrite,
                   "replace files whose names the program makes up (numbered pictures, clips, pages, the default file); a "
                   "file that you name is always replaced");
}

CLI::Option *addHeadless(CLI::App &app, bool &headless) {
    return addFlag(app, "--headless", headless, "open no window, even if there is a display");
}

CLI::Option *addFrames(CLI::App &app, int &frames) {
    return addNumber(app, "--frames", frames, 0, 1000000000, "stop after N frames; 0: no limit");
}

CLI::Option *addSpeed(CLI::App &app, double &speed) {
    return addNumber(app, "--speed", speed, 0, 1000, "speed of a window; 1: that of the recording; 0: as fast as possible");
}

CLI::Option *addLegend(CLI::App &app, bool &legend) {
    return addNegativeFlag(app, "--no-legend", legend, "leave out the strip above the pictures that explains their colors");
}

void addCommon(CLI::App &app, Common &common, const std::string &default_file, bool several_devices) {
    addDevice(app, common.device, several_devices);
    addOutput(app, common.output, std::string(SINK_HELP) + "; without a window and without this option: " + default_file);
    addOverwrite(app);
    addHeadless(app, common.headless);
    addSpeed(app, common.speed);
    addEncoding(app, common.video, true);
}

// ---- Kinds of options --------------------------------------------------------------------------------------------------

CLI::Option *addPositional(CLI::App &app, const std::string &name, std::string &value, const std::string &help,
                           bool required) {
    return app.add_option(positionalName(name), value, help)->required(required);
}

CLI::Option *addPositionals(CLI::App &app, const std::string &name, std::vector<std::string> &values,
                            const std::string &help) {
    return app.add_option(positionalName(name), values, help)->required();
}

CLI::Option *addFlag(CLI::App &app, const std::string &name, bool &value, const std::string &help) {
    return app.add_flag(name, value, help);
}

CLI::Option *addNegativeFlag(CLI::App &app, const std::string &name, bool &value, const std::string &help) {
    return app.add_flag_callback(
        name, [&value] { value = false; }, help);
}

CLI::Option *addNumber(CLI::App &app, const std::string &name, int &value, double low, double high,
                       const std::string &help) {
    return app.add_option(name, value, help)
        ->type_name("N")
        ->check(expect([low, high](const std::string &given) { return isInteger(given, low, high); },
                       text("an integer from %.0f to %.0f", low, high)));
}

CLI::Option *addNumber(CLI::App &app, const std::string &name, float &value, double low, double high,
                       const std::string &help) {
    return addReal(app, name, value, low, high, help);
}

CLI::Option *addNumber(CLI::App &app, const std::string &name, double &value, double low, double high,
                       const std::string &help) {
    return addReal(app, name, value, low, high, help);
}

CLI::Option *addNumber(CLI::App &app, const std::string &name, std::optional<double> &value, double low, double high,
                       const std::string &help) {
    return addReal(app, name, value, low, high, help);
}

CLI::Option *addDuration(CLI::App &app, const std::string &name, double &value, double low, double high,
                         const std::string &help) {
    return addTime(
        app, name, SECONDS, low, high, [&value](double time) { value = time; }, [&value] { return value; }, help);
}

CLI::Option *addDuration(CLI::App &app, const std::string &name, int &value, double low, double high,
                         const std::string &help) {
    return addTime(
        app, name, MICROSECONDS, low, high, [&value](double time) { value = static_cast<int>(time); },
        [&value] { return value; }, help);
}

CLI::Option *addText(CLI::App &app, const std::string &name, std::string &value, const std::string &metavar,
                     const std::string &help) {
    return app.add_option(name, value, help)->type_name(metavar);
}

CLI::Option *addFile(CLI::App &app, const std::string &name, Names what, std::string &value, const std::string &metavar,
                     const std::string &help) {
    return names(addText(app, name, value, metavar, help), what);
}

CLI::Option *addValue(CLI::App &app, const std::string &name, const Setter &set, const std::string &metavar,
                      const std::string &expected, const std::string &help) {
    return app
        .add_option_function<std::string>(
            name, [set](const std::string &value) { set(value); }, help)
        ->type_name(metavar)
        ->check(expect(set, expected));
}

CLI::Option *addList(CLI::App &app, const std::string &name, std::vector<std::string> &values, const std::string &metavar,
                     const std::string &help, const Setter &valid, const std::string &expected) {
    CLI::Option *option = app.add_option(name, values, help)->type_name(metavar)->expected(1)->take_all();
    return valid ? require(option, valid, expected) : option;
}

CLI::Option *addWords(CLI::App &app, const std::string &name, const std::vector<std::string> &words,
                      const std::function<void(const std::string &)> &set, const std::function<std::string()> &current,
                      const std::string &help) {
    const std::string all = CLI::detail::join(words, "|");
    const auto valid = [words](const std::string &value) { return listed(words, value) != nullptr; };
    return app
        .add_option_function<std::string>(
            name, [words, set](const std::string &value) { set(*listed(words, value)); }, help)
        ->check(expect(valid, all))
        ->type_name(all)
        ->default_function(current)
        ->capture_default_str();
}

CLI::Option *addChoice(CLI::App &app, const std::string &name, std::string &value, const std::vector<std::string> &choices,
                       const std::string &help) {
    std::vector<std::pair<std::string, std::string>> pairs;
    pairs.reserve(choices.size());
    for (const std::string &choice : choices)
        pairs.emplace_back(choice, choice);
    return addChoice(app, name, value, pairs, help);
}

// ---- Details -----------------------------------------------------------------------------------------------------------

CLI::Option *names(CLI::Option *option, Names what) {
    marks()[option] = what;
    return option;
}

const Names *namedBy(const CLI::Option *option) {
    const auto found = marks().find(option);
    return found == marks().end() ? nullptr : &found->second;
}

CLI::Option *group(CLI::Option *option, const std::string &heading) {
    return option->group(heading);
}

CLI::Option *require(CLI::Option *option, const Setter &valid, const std::string &expected) {
    return option->check(expect(valid, expected));
}

bool isGiven(const CLI::Option *option) {
    return !option->empty();
}

void refreshDefaults(CLI::App &app) {
    for (CLI::Option *option : app.get_options())
        option->capture_default_str();
}

void requireCommand(CLI::App &app) {
    app.require_subcommand(1);
}

bool isParsed(const CLI::App &command) {
    return command.parsed();
}

} // namespace sample
