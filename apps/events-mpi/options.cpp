#include "events-mpi/options.hpp"

#include "common/app.hpp"
#include "common/output.hpp"
#include "common/terminal/files.hpp"
#include "common/terminal/report.hpp"
#include "common/values.hpp"

#include "cusight/core.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace events_mpi {

using sample::Stop;

namespace {

// An option; a flag if it has no metavar. `set` returns whether the value is valid. All but --output name no files.
struct Entry {
    std::string name, metavar, help, expected;
    std::function<bool(const std::string &)> set;
};

bool parseNumber(const std::string &text, long long low, long long high, int &value) {
    char *end = nullptr;
    errno = 0;
    const long long number = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0' || errno != 0 || number < low || number > high)
        return false;
    value = static_cast<int>(number);
    return true;
}

Entry number(const std::string &name, int &value, int low, int high, const std::string &help) {
    return {name, "N", help + " (default " + std::to_string(value) + ")",
            "an integer from " + std::to_string(low) + " to " + std::to_string(high),
            [&value, low, high](const std::string &text) { return parseNumber(text, low, high, value); }};
}

Entry flag(const std::string &name, bool &value, const std::string &help) {
    return {name, "", help, "", [&value](const std::string &) { return value = true; }};
}

Entry word(const std::string &name, const std::string &metavar, std::string &value, const std::string &help) {
    return {name, metavar, help, metavar, [&value](const std::string &text) {
                value = text;
                return true;
            }};
}

Entry choice(const std::string &name, std::string &value, const std::vector<std::string> &words, const std::string &help) {
    std::string all;
    for (const std::string &each : words)
        all += (all.empty() ? "" : "|") + each;
    return {name, all.size() > 24 ? "NAME" : all, help + " (default " + value + ")", all,
            [&value, words](const std::string &text) {
                for (const std::string &each : words)
                    if (sample::sameName(text, each)) {
                        value = each;
                        return true;
                    }
                return false;
            }};
}

Entry size(const std::string &name, Size &value, const std::string &help) {
    return {name, "WxH", help, "WIDTHxHEIGHT, each from 1 to 65536",
            [&value](const std::string &text) { return events::parseSize(text, value.width, value.height); }};
}

std::vector<Entry> entriesOf(Options &o) {
    std::vector<std::string> names;
    std::string listed;
    for (int kind = 0; const char *name = cusRepresentationName(static_cast<cusRepresentationKind>(kind)); ++kind) {
        names.emplace_back(name);
        listed += (kind ? ", " : "") + names.back();
    }
    return {
        word("--output", "FILE", o.output, "where the frames go: NAME.h5 (/frames) or NAME.raw"),
        choice("--compression", o.compression, {"lzf", "none"}, "how frames are stored in NAME.h5"),
        flag("--checksum", o.checksum, "print the CRC-32C of all frames in order"),
        flag("--resume", o.resume,
             "keep finished frames in OUTPUT.resume/ if the run fails, and continue from those of an earlier run"),
        flag("--overwrite", sample::currentFiles().overwrite,
             "with --resume: start again if OUTPUT.resume/ is of another run"),
        choice("--device", o.device, {"auto", "cpu", "cuda"},
               "where to compute; cuda: the ranks of a host share its GPUs; auto: cuda if every host has a GPU, cpu if "
               "none has"),
        choice("--representation", o.representation, names, "how events become a frame: " + listed),
        number("--channels", o.channels, 0, 16,
               "mdes, mdes_count: channels; stacked_histogram, voxel_grid: time bins; 0: their default"),
        number("--events-per-frame", o.events_per_frame, 1, 2000000000, "frames of N events"),
        {"--us-per-frame", "TIME",
         "frames of so much time instead, in microseconds or as 10ms; 0: use --events-per-frame (default 0 us)",
         "an integer from 0 to 2000000000 (microseconds), or a duration such as 10ms",
         [&o](const std::string &text) {
             double time = 0;
             const bool valid = sample::parseDuration(text, sample::MICROSECONDS, time) && time >= 0 && time <= 2e9 &&
                                time == std::floor(time);
             o.us_per_frame = valid ? static_cast<int>(time) : 0;
             return valid;
         }},
        {"--stride", "N|TIME",
         "events, or time, from the start of one frame to that of the next; 0: the length of a frame (default 0)",
         "an integer from 0 to 2000000000, or a duration such as 10ms",
         [&o](const std::string &text) { return events::parseStride(text, o); }},
        number("--max-gap", o.max_gap, 1, 2000000000,
               "frames of equal time without events, in a row; a longer gap in the recording is an error"),
        flag("--keep-incomplete", o.keep_incomplete, "make the last frame although it is not full (default)"),
        {"--no-keep-incomplete", "", "leave out the last frame if it is not full", "",
         [&o](const std::string &) { return !(o.keep_incomplete = false); }},
        {"--range", "FROM:TO", "use only these events, in seconds from the first one; without TO, to the end",
         "FROM:TO or FROM: in seconds from the first event, or with units such as 10ms",
         [&o](const std::string &text) { return events::parseRange(text, o.from, o.to); }},
        size("--resize", o.resize, "map the events to a grid of this size"),
        size("--sensor-size", o.sensor, "size of the sensor, if the recording does not contain it"),
        word("--camera", "NAME", o.camera, "camera of an M3ED recording: left or right"),
        flag("--quiet", sample::currentReporting().quiet, "print errors only: no results, no progress, no notes"),
        flag("--json", sample::currentReporting().json, "print the results as one JSON object"),
        flag("--skip-bad", o.skip_bad, "skip invalid events instead of stopping at the first; every rank then decodes all"),
    };
}

// Wraps `text` into lines of at most 100 columns that start at column 28.
std::string wrapped(const std::string &text) {
    std::string out, line;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(' ', at), text.size());
        if (!line.empty() && line.size() + 1 + end - at > 72) {
            out += line + "\n" + std::string(28, ' ');
            line.clear();
        }
        line += (line.empty() ? "" : " ") + text.substr(at, end - at);
        at = end + 1;
    }
    return out + line + "\n";
}

const char *const EXAMPLES =
    "  mpirun -n 8 cusight-events-mpi recording.raw --output frames.h5\n"
    "  srun cusight-events-mpi recording.h5 --representation voxel_grid --output frames.h5 --compression none\n";
const char *const CODES =
    "0 success, 1 failure (out of memory, CUDA error), 2 invalid command line, 3 the input\n"
    "cannot be opened or ends early, 4 the output cannot be written, 5 no such device, 130 interrupted.\n";
const char *const INPUT_HELP = "a recording (M3ED, DSEC or Metavision HDF5, Prophesee RAW EVT2, EVT2.1, EVT3 or EVT4, DAT, "
                               "AEDAT4, ROS bag, MCAP, CSV, text)";

std::string help(const std::vector<Entry> &entries) {
    std::string out =
        "Turns one recording of an event camera into frames, with many processes (MPI). The output is byte for\n"
        "byte that of cusight-events, for any number of ranks.\n\n"
        "Usage: mpirun -n N cusight-events-mpi [options] INPUT\n\n"
        "Arguments:\n  INPUT                     " +
        wrapped(INPUT_HELP) + "\nOptions:\n";
    for (const Entry &e : entries) {
        std::string name = "  " + e.name + (e.metavar.empty() ? "" : " " + e.metavar);
        if (name.size() > 26)
            name += "\n" + std::string(28, ' ');
        else
            name.resize(28, ' ');
        out += name + wrapped(e.help);
    }
    return out +
           "  -h, --help                print this help\n"
           "  --version                 print the version\n\n"
           "Examples:\n" +
           EXAMPLES + "\nExit codes: " + CODES;
}

// The manual page, in troff.
std::string manual(const std::vector<Entry> &entries) {
    const auto escaped = [](const std::string &text) {
        std::string out;
        for (const char c : text)
            out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
        return out;
    };
    std::string out =
        ".TH CUSIGHT\\-EVENTS\\-MPI 1 \"\" \"cusight " CUSIGHT_SAMPLES_VERSION "\" \"User Commands\"\n"
        ".SH NAME\ncusight\\-events\\-mpi \\- turns a recording of an event camera into frames, with many processes\n"
        ".SH SYNOPSIS\n.B mpirun \\-n\n.I N\n.B cusight\\-events\\-mpi\n.RI [ options ]\n.I INPUT\n"
        ".SH DESCRIPTION\nThe output is byte for byte that of\n.BR cusight\\-events (1),\nfor any number of "
        "processes.\n.SH OPTIONS\n.TP\n\\fIINPUT\\fR\n" +
        escaped(INPUT_HELP) + "\n";
    for (const Entry &e : entries)
        out += ".TP\n\\fB" + escaped(e.name) + "\\fR" + (e.metavar.empty() ? "" : " \\fI" + escaped(e.metavar) + "\\fR") +
               "\n" + escaped(e.help) + "\n";
    return out + ".SH EXIT STATUS\n" + escaped(CODES) + ".SH EXAMPLES\n.nf\n" + escaped(EXAMPLES) +
           ".fi\n.SH SEE ALSO\n.BR cusight\\-events (1),\n.BR mpirun (1)\n";
}

[[noreturn]] void reject(const std::string &message) {
    throw Stop(sample::USAGE, message + " (see --help)");
}

void checkTogether(const Options &o) {
    if (o.input.empty())
        reject("INPUT is required");
    if (o.output.empty() && !o.checksum)
        reject("--output or --checksum is required");
    if (const std::string problem = events::strideProblem(o); !problem.empty())
        reject(problem);
    const std::string ending = sample::ending(o.output);
    if (!o.output.empty() && ending != ".raw" && ending != ".h5" && ending != ".hdf5")
        reject("--output is '" + o.output + "', expected a name that ends in .raw .h5 .hdf5");
    if (o.resume && o.output.empty())
        reject("--resume needs --output");
    if (o.resume && o.checksum)
        reject("--resume and --checksum cannot be combined");
}

} // namespace

bool Options::raw() const {
    return sample::ending(output) == ".raw";
}

bool parseOptions(int argc, char **argv, Options &o, std::string &text) {
    const std::vector<Entry> entries = entriesOf(o);
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (argument == "--help" || argument == "-h") {
            text = help(entries);
            return false;
        }
        if (argument == "--generate-man") {
            text = manual(entries);
            return false;
        }
        if (argument == "--generate-files") { // as of the other programs
            text = "# command, option or argument, what it names\n- INPUT input\n- --output output\n";
            return false;
        }
        if (argument == "--version") {
            text = std::string("cusight-events-mpi " CUSIGHT_SAMPLES_VERSION " (cusight ") + cusVersion() +
                   ", CUDA " CUSIGHT_SAMPLES_CUDA ")\n";
            return false;
        }
        if (argument.size() < 2 || argument[0] != '-') {
            if (argument.empty())
                reject("INPUT is '', expected a name");
            if (!o.input.empty())
                reject("unexpected argument '" + argument + "'");
            o.input = argument;
            continue;
        }
        if (argument == "-q") {
            sample::currentReporting().quiet = true;
            continue;
        }
        const size_t equals = argument.find('=');
        const std::string name = argument.substr(0, equals);
        const Entry *entry = nullptr;
        for (const Entry &each : entries)
            entry = each.name == name ? &each : entry;
        if (!entry)
            reject("unknown option " + name);
        const bool has_value = equals != std::string::npos;
        if (entry->metavar.empty() && has_value)
            reject(name + " takes no value");
        if (!entry->metavar.empty() && !has_value && i + 1 == argc)
            reject(name + " requires a value");
        const std::string value = entry->metavar.empty() ? "" : has_value ? argument.substr(equals + 1) : argv[++i];
        if ((value.empty() && !entry->metavar.empty()) || !entry->set(value))
            reject(name + " is '" + value + "', expected " + entry->expected);
    }
    checkTogether(o);
    sample::Files &files = sample::currentFiles();
    files.begin();
    files.declare("INPUT", o.input, sample::Names::INPUT);
    if (!o.output.empty())
        files.declare("--output", o.output, sample::Names::OUTPUT);
    return true;
}

std::string describeOptions(const Options &o) {
    return sample::text("representation %s %d\nwindows %d events or %d us, stride %d, incomplete %d\nrange %.9g:%.9g\n"
                        "sensor %d x %d, resize %d x %d, camera %s, skip bad %d\nfile %s, compression %s\n",
                        o.representation.c_str(), o.channels, o.events_per_frame, o.us_per_frame, o.stride,
                        o.keep_incomplete, o.from, o.to, o.sensor.width, o.sensor.height, o.resize.width, o.resize.height,
                        o.camera.c_str(), o.skip_bad, o.raw() ? "raw" : "HDF5", o.raw() ? "none" : o.compression.c_str());
}

} // namespace events_mpi
