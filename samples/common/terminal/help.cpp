// The program as a whole: --help, --version, --json, --quiet, and errors in the style of the library's messages.
#include "common/terminal/manual.hpp"
#include "common/terminal/options.hpp"
#include "common/terminal/report.hpp"

#include "cusight/core.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstring>
#include <sstream>

namespace sample {

const char *const EXIT_CODES =
    "Exit codes: 0 success, 1 failure (out of memory, CUDA error), 2 invalid command line, 3 the input\n"
    "cannot be opened or ends early, 4 the output cannot be written, 5 no such device, 130 interrupted\n"
    "(the output is complete up to there).";

namespace {

constexpr size_t HELP_COLUMN = 28, HELP_WIDTH = 100;

// Options of every program; --help of a command shows them too.
const char *const REPORT = "Report";

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

// CLI11's help, with wrapped descriptions and "(default ...)" at their ends.
class HelpFormatter : public CLI::Formatter {
  public:
    std::string make_help(const CLI::App *app, std::string name, CLI::AppFormatMode mode) const override {
        return CLI::detail::find_and_replace(CLI::Formatter::make_help(app, std::move(name), mode), "\n\n\n", "\n\n");
    }

    std::string make_description(const CLI::App *app) const override { return wrap(app->get_description(), 0) + "\n\n"; }

    // CLI11 2.6 omits "Usage:" if there is a name.
    std::string make_usage(const CLI::App *app, std::string name) const override {
        std::string line = "Usage:" + (name.empty() ? "" : " " + name) + " [options]";
        for (const CLI::Option *option : app->get_options([](const CLI::Option *o) { return o->get_positional(); }))
            line += " " + make_option_usage(option);
        if (!app->get_subcommands([](const CLI::App *) { return true; }).empty())
            line += app->get_require_subcommand_min() > 0 ? " COMMAND" : " [COMMAND]";
        return line + "\n";
    }

    std::string make_option(const CLI::Option *option, bool positional) const override {
        std::string name = CLI::detail::find_and_replace(make_option_name(option, positional), ",", ", ");
        std::string help = option->get_description();
        if (!positional && option->get_items_expected_max() != 0)
            name += " " + option->get_type_name();
        if (const std::string &value = option->get_default_str(); !value.empty() && value != "[]")
            help += " (default " + value + ")";
        return entry(name, help);
    }

    std::string make_subcommand(const CLI::App *command) const override {
        return entry(command->get_name(), command->get_description());
    }

    std::string make_footer(const CLI::App *app) const override {
        std::string out;
        if (const CLI::App *parent = app->get_parent())
            out = make_group(REPORT, false,
                             parent->get_options([](const CLI::Option *o) { return o->get_group() == REPORT; })) +
                  "\n";
        return out + (app->get_footer().empty() ? "" : "Examples:\n" + app->get_footer() + "\n") + EXIT_CODES + "\n";
    }

  private:
    static std::string entry(const std::string &name, const std::string &help) {
        std::string out = "  " + name;
        if (out.size() + 1 >= HELP_COLUMN)
            out += '\n' + std::string(HELP_COLUMN, ' ');
        else
            out.resize(HELP_COLUMN, ' ');
        return out + wrap(help, HELP_COLUMN) + '\n';
    }
};

std::string version(const std::string &program) {
    return program + " " CUSIGHT_SAMPLES_VERSION " (cusight " + cusVersion() + ", CUDA " CUSIGHT_SAMPLES_CUDA ")";
}

[[noreturn]] void reject(const std::string &message) {
    throw Stop(USAGE, message + " (see --help)");
}

// "send, view or demo"
std::string commandNames(const CLI::App &app) {
    std::string names;
    const auto commands = app.get_subcommands([](const CLI::App *) { return true; });
    for (size_t i = 0; i < commands.size(); ++i)
        names += (i == 0 ? "" : i + 1 < commands.size() ? ", " : " or ") + commands[i]->get_name();
    return names;
}

// What options of earlier versions are called now.
const std::pair<const char *, const char *> RENAMED[] = {{"--encoder-preset", "--preset"}};

// Rejects a word that belongs to no option.
[[noreturn]] void rejectWord(const CLI::App &app, const std::string &word) {
    for (const auto &[before, now] : RENAMED)
        if (word.substr(0, word.find('=')) == before)
            reject(std::string("unknown option ") + before + ": it is " + now + " now");
    if (word.size() > 1 && word[0] == '-')
        reject("unknown option " + word.substr(0, word.find('=')));
    const bool needs_command = app.get_require_subcommand_min() > 0 && app.get_subcommands().empty();
    reject("unexpected argument '" + word + "'" + (needs_command ? ", expected " + commandNames(app) : ""));
}

// Reports CLI11's error in the style of the library's messages.
[[noreturn]] void explain(const CLI::App &app, const CLI::ParseError &error) {
    const std::string message = error.what();
    const size_t colon = message.find(": ");
    if (dynamic_cast<const CLI::ValidationError *>(&error) &&
        colon != std::string::npos) // "--number: is '11', expected ..."
        reject(message.substr(0, colon) + message.substr(colon + 1));
    if (dynamic_cast<const CLI::ArgumentMismatch *>(&error)) { // "--number: 1 required N missing"
        const bool is_flag = message.find("flag override") != std::string::npos;
        const std::string name = message.substr(0, message.find_first_of(": "));
        reject(is_flag ? "--" + name + " takes no value" : name + " requires a value");
    }
    const std::vector<std::string> unknown = app.remaining(true);
    if (!unknown.empty())
        rejectWord(app, unknown.front());
    if (app.get_require_subcommand_min() > 0 && app.get_subcommands().empty())
        reject("expected a command: " + commandNames(app));
    reject(message);
}

// The values that count: if an option is repeated, the last one wins.
std::vector<std::string> valuesOf(const CLI::Option &option) {
    return option.empty() ? std::vector<std::string>() : option.reduced_results();
}

// Refuses empty values, and declares the files that the others name.
void checkValues(const CLI::App &app) {
    std::vector<const CLI::Option *> options = app.get_options();
    for (const CLI::App *command : app.get_subcommands()) { // that were given
        const auto more = command->get_options();
        options.insert(options.end(), more.begin(), more.end());
    }
    for (const CLI::Option *option : options)
        for (const std::string &value : valuesOf(*option))
            if (value.empty())
                reject(option->get_name() + " is '', expected " +
                       (option->get_positional() ? "a name" : option->get_type_name()));
    currentFiles().begin();
    for (const bool inputs : {true, false})
        for (const CLI::Option *option : options)
            if (const Names *const what = namedBy(option); what && (*what == Names::INPUT) == inputs)
                for (const std::string &value : valuesOf(*option))
                    currentFiles().declare(option->get_name(), value, *what);
}

} // namespace

std::shared_ptr<CLI::App> makeApp(const std::string &name, const std::string &summary, const std::string &examples) {
    auto app = std::make_shared<CLI::App>(summary, name);
    app->formatter(std::make_shared<HelpFormatter>());
    app->option_defaults()->always_capture_default()->disable_flag_override()->multi_option_policy(
        CLI::MultiOptionPolicy::TakeLast);
    app->set_help_flag("-h,--help", "print this help");
    app->set_version_flag("--version", version(name), "print the version and whether this build has CUDA");
    app->get_formatter()->label("Positionals", "Arguments");
    app->footer(examples);
    app->fallthrough(); // commands accept the options of the program
    Reporting &reporting = currentReporting();
    const auto flag = [&](const char *option, bool &value, const char *help) {
        app->add_flag(option, value, help)->group(REPORT);
    };
    flag("-q,--quiet", reporting.quiet, "print errors only: no results, no progress, no notes");
    flag("--json", reporting.json, "print the results as one JSON object");
    flag("--json-frames", reporting.json_frames, "before that, print a JSON object for each frame, one a line");
    return app;
}

CLI::App *addCommand(CLI::App &app, const std::string &name, const std::string &summary, const std::string &examples) {
    CLI::App *command = app.add_subcommand(name, summary)->group("Commands");
    command->footer(examples);
    return command;
}

std::string helpText(const CLI::App &app) {
    return app.help();
}

bool parse(CLI::App &app, int argc, char **argv) {
    if (argc == 2 && std::strncmp(argv[1], "--generate-", 11) == 0 && printGenerated(app, argv[1] + 11))
        return false;
    try {
        app.parse(argc, argv);
        startReport(app.get_name());
        checkValues(app);
        return true;
    } catch (const CLI::CallForVersion &call) {
        std::printf("%s\n", call.what());
        return false;
    } catch (const CLI::CallForHelp &) {
        std::fputs(app.help().c_str(), stdout);
        return false;
    } catch (const CLI::ParseError &error) {
        explain(app, error);
    }
}

} // namespace sample
