// The program as a whole: --help, --version, --json, --quiet, and errors in the style of the library's messages.
#include "common/terminal/manual.hpp"
#include "common/terminal/options.hpp"
#include "common/terminal/parser.hpp"
#include "common/terminal/report.hpp"
#include "common/values.hpp"

#include "cusight/core.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace sample {

namespace {

using CLI::reject;

const char *const EXIT_CODES =
    "0 success, 1 failure (out of memory, CUDA error), 2 invalid command line, 3 the input\n"
    "cannot be opened or ends early, 4 the output cannot be written, 5 no such device, 130 interrupted\n"
    "(the output is complete up to there).";

constexpr size_t HELP_COLUMN = 28, HELP_WIDTH = 100;

const char *const KEYS = "\n*Keys*\n\nIn a window: space pauses, s shows one picture further, f is full screen, h lists "
                         "the keys, q and Esc quit.\n";
const char *const RESULTS =
    "Results are printed as \"name: value\", one a line, or with --json as one object. Progress and errors go to stderr. "
    "\"stages\" (in the object: stages_ms) is the time of each stage in milliseconds per frame, the mean over the run. "
    "decode: reading and decoding the input, and waiting for a camera; "
    "compute: the algorithm, with copies to a GPU and back; "
    "queue: instead of compute where a GPU works in the background, the time to give it its work and to wait for room or "
    "results, not its own; "
    "draw: boxes, labels, colors; "
    "write: handing pictures to the encoder, which works beside the program, and waiting for it; storing images; showing "
    "in a window once it is due; "
    "capture, difference, pack and send: those of a sender of live video; "
    "overall: the time of the run, with set-up and waiting. "
    "Stages run concurrently where they can, so overall may be less than their sum.";

// Options of every program; --help of a command shows them too.
const char *const REPORT = "Report";
const char *const HELP = "print this help";

// Wraps the words of `text` into lines that start at column `indent`.
std::string wrap(const std::string &text, size_t indent) {
    std::istringstream words(text);
    std::string out, word;
    size_t column = indent;
    while (words >> word) {
        if (column + word.size() + 1 > HELP_WIDTH && column > indent) {
            out += '\n' + std::string(indent, ' ');
            column = indent;
        }
        if (column > indent) {
            out += ' ';
            ++column;
        }
        out += word;
        column += word.size();
    }
    return out;
}

std::string entry(const std::string &name, const std::string &help) {
    std::string out = "  " + name;
    if (out.size() + 1 >= HELP_COLUMN)
        out += '\n' + std::string(HELP_COLUMN, ' ');
    else
        out.resize(HELP_COLUMN, ' ');
    return out + wrap(help, HELP_COLUMN) + '\n';
}

// "[INPUT...]"
std::string usage(const CLI::Option &positional) {
    const std::string name = positional.name() + (positional.many ? "..." : "");
    return positional.required ? name : "[" + name + "]";
}

// What an option does, with its default.
std::string described(const CLI::Option &option) {
    return option.help + (option.shown.empty() ? "" : " (default " + option.shown + ")");
}

// "cusight-diffstream send [options] INPUT..."
std::string usage(const CLI::App &app) {
    std::string out = (app.parent ? app.parent->name + " " : "") + app.name + " [options]";
    for (const CLI::Option &option : app.options)
        out += option.isPositional() ? " " + usage(option) : "";
    return out + (app.commands.empty() ? "" : app.needs_command ? " COMMAND" : " [COMMAND]");
}

// The options under a heading, or the positionals.
std::string section(const CLI::App &app, const std::string &heading, bool positionals = false) {
    std::string out;
    for (const CLI::Option &option : app.options)
        if (positionals ? option.isPositional() : !option.isPositional() && option.group == heading)
            out += entry(join(option.names, ", ") + (option.takesValue() ? " " + option.type : ""), described(option));
    return out.empty() ? out : "\n" + heading + ":\n" + out;
}

std::string sections(const CLI::App &app) {
    std::string out = section(app, "Arguments", true);
    std::vector<std::string> headings;
    for (const CLI::Option &option : app.options)
        if (std::find(headings.begin(), headings.end(), option.group) == headings.end())
            headings.push_back(option.group);
    for (const std::string &heading : headings)
        out += section(app, heading);
    return out;
}

std::string version(const std::string &program) {
    return program + " " CUSIGHT_SAMPLES_VERSION " (cusight " + cusVersion() + ", CUDA " CUSIGHT_SAMPLES_CUDA ")";
}

// "send, view or demo"
std::string commandNames(const CLI::App &app) {
    std::string names;
    for (size_t i = 0; i < app.commands.size(); ++i)
        names += (i == 0 ? "" : i + 1 < app.commands.size() ? ", " : " or ") + app.commands[i]->name;
    return names;
}

// What options of earlier versions are called now.
const std::pair<const char *, const char *> RENAMED[] = {{"--encoder-preset", "--preset"}};

// Rejects a word that belongs to no option.
[[noreturn]] void rejectWord(const CLI::App &app, const std::string &word) {
    for (const auto &[before, now] : RENAMED)
        if (word.substr(0, word.find('=')) == before)
            reject(std::string("unknown option ") + before + ": it is " + now + " now");
    const std::string without = withoutPictures();
    if (word.size() > 1 && word[0] == '-')
        reject("unknown option " + word.substr(0, word.find('=')) + (without.empty() ? "" : "; " + without));
    const bool needs_command = app.needs_command && !app.command;
    reject("unexpected argument '" + word + "'" + (needs_command ? ", expected " + commandNames(app) : ""));
}

// The options of the program, and of the command that is given.
std::vector<const CLI::Option *> optionsOf(const CLI::App &app) {
    std::vector<const CLI::Option *> options;
    for (const CLI::App *const part : {&app, static_cast<const CLI::App *>(app.command)})
        if (part)
            for (const CLI::Option &option : part->options)
                options.push_back(&option);
    return options;
}

// Refuses empty values, and declares the files that the others name.
void checkValues(const CLI::App &app) {
    const std::vector<const CLI::Option *> options = optionsOf(app);
    for (const CLI::Option *option : options)
        for (const std::string &value : option->values())
            if (value.empty() && (option->isPositional() || option->takesValue()))
                reject(option->name() + " is '', expected " + (option->isPositional() ? "a name" : option->type));
    currentFiles().begin();
    for (const bool inputs : {true, false})
        for (const CLI::Option *option : options)
            if (option->files && (*option->files == Names::INPUT) == inputs)
                for (const std::string &value : option->values())
                    currentFiles().declare(option->name(), value, *option->files);
}

} // namespace

std::shared_ptr<CLI::App> makeApp(const std::string &name, const std::string &summary, const std::string &examples) {
    auto app = std::make_shared<CLI::App>();
    app->name = name;
    app->summary = summary;
    app->examples = examples;
    app->add("-h,--help", HELP);
    app->add("--version", "print the version and whether this build has CUDA");
    Reporting &reporting = currentReporting();
    const auto flag = [&](const char *option, bool &value, const char *help) {
        group(addFlag(*app, option, value, help), REPORT);
    };
    flag("-q,--quiet", reporting.quiet, "print errors only: no results, no progress, no notes");
    flag("--json", reporting.json, "print the results as one JSON object");
    flag("--json-frames", reporting.json_frames, "before that, print a JSON object for each frame, one a line");
    return app;
}

CLI::App *addCommand(CLI::App &app, const std::string &name, const std::string &summary, const std::string &examples) {
    CLI::App *const command = app.commands.emplace_back(std::make_unique<CLI::App>()).get();
    command->name = name;
    command->summary = summary;
    command->examples = examples;
    command->parent = &app;
    command->add("-h,--help", HELP);
    return command;
}

std::string withoutPictures() {
    const std::string missing = CUSIGHT_SAMPLES_WITHOUT;
    return missing.empty()
               ? ""
               : "windows, pictures, videos and cameras need " + missing + ", which this program was built without";
}

std::string helpText(const CLI::App &app) {
    if (app.command)
        return helpText(*app.command);
    std::string out = wrap(app.summary, 0) + "\n\nUsage: " + usage(app) + "\n" + sections(app);
    out += app.commands.empty() ? "" : "\nCommands:\n";
    for (const auto &command : app.commands)
        out += entry(command->name, command->summary);
    if (app.parent)
        out += section(*app.parent, REPORT);
    return out + (app.examples.empty() ? "" : "\nExamples:\n" + app.examples) + "\nExit codes: " + EXIT_CODES + "\n";
}

std::string manualText(const CLI::App &app) {
    std::string usages = usage(app), commands;
    for (const auto &command : app.commands) {
        const std::string options = sections(*command),
                          heading = "\nOptions:\n"; // which would begin the section OPTIONS again
        const size_t at = options.find(heading);
        usages += "\n  or:  " + usage(*command);
        commands += "\n*" + app.name + " " + command->name + "*\n\n" + command->summary + "\n" + options.substr(0, at) +
                    "\nOptions of " + command->name + ":\n" + options.substr(at + heading.size());
    }
    return app.summary + "\n\nUsage: " + usages + "\n" + sections(app) + commands +
           (withoutPictures().empty() ? KEYS : "") + "\n*Results*\n\n" + RESULTS + "\n\n*Exit status*\n\n" + EXIT_CODES +
           "\n";
}

std::string manualInclude(const CLI::App &app) {
    std::string first = app.summary.substr(0, app.summary.find_first_of(".:")), examples = app.examples;
    if (!first.empty())
        first[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(first[0])));
    for (const auto &command : app.commands)
        examples += command->examples;
    const auto troff = [](const std::string &text) {
        std::string out;
        for (char c : text)
            out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
        return out;
    };
    return "[NAME]\n" + app.name + " \\- " + troff(first) + "\n" +
           (examples.empty() ? "" : "[EXAMPLES]\n.nf\n" + troff(examples) + ".fi\n");
}

bool parse(CLI::App &app, int argc, char **argv) {
    if (argc == 2 && std::strncmp(argv[1], "--generate-", 11) == 0 && printGenerated(app, argv[1] + 11))
        return false;
    const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    const std::string *const unknown = app.sort(words);
    if (app.isGiven("--version")) {
        std::printf("%s\n", version(app.name).c_str());
        return false;
    }
    app.store();
    if (app.isGiven("--help")) {
        std::fputs(helpText(app).c_str(), stdout);
        return false;
    }
    if (unknown)
        rejectWord(app, *unknown);
    if (app.needs_command && !app.command)
        reject("expected a command: " + commandNames(app));
    for (const CLI::Option *option : optionsOf(app))
        if (option->required && option->given.empty())
            reject(option->name() + " is required");
    startReport(app.name);
    checkValues(app);
    return true;
}

} // namespace sample
