#include "options.hpp"

#include "many_devices.hpp"
#include "sink.hpp"
#include "source.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace sample {

namespace {

constexpr size_t HELP_COLUMN = 28, HELP_WIDTH = 100;

const char *const EXIT_CODES =
    "Exit codes: 0 success, 1 failure (out of memory, CUDA error), 2 invalid command line, 3 the input\n"
    "cannot be opened or ends early, 4 the output cannot be written, 5 no such device, 130 interrupted\n"
    "(the output is complete up to there).";

// The words of `text` in lines that start at column `indent`.
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

    std::string make_option(const CLI::Option *option, bool positional) const override {
        std::string name = CLI::detail::find_and_replace(make_option_name(option, positional), ",", ", ");
        std::string help = option->get_description();
        if (!positional && option->get_type_size() != 0)
            name += " " + option->get_type_name();
        if (const std::string &value = option->get_default_str(); !value.empty() && value != "[]")
            help += " (default " + value + ")";
        return entry(name, help);
    }

    std::string make_subcommand(const CLI::App *command) const override {
        return entry(command->get_name(), command->get_description());
    }

    std::string make_footer(const CLI::App *app) const override {
        return (app->get_footer().empty() ? "" : "Examples:\n" + app->get_footer() + "\n") + EXIT_CODES + "\n";
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

// A word that belongs to no option.
[[noreturn]] void rejectWord(const CLI::App &app, const std::string &word) {
    if (word.size() > 1 && word[0] == '-')
        reject("unknown option " + word.substr(0, word.find('=')));
    const bool needs_command = app.get_require_subcommand_min() > 0 && app.get_subcommands().empty();
    reject("unexpected argument '" + word + "'" + (needs_command ? ", expected " + commandNames(app) : ""));
}

// Says CLI11's error in the style of the library's messages.
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

bool isDevice(const std::string &text) {
    return isDeviceList(text) && text != "cuda:all" && text.find(',') == std::string::npos &&
           text.compare(0, 4, "cpu:") != 0;
}

} // namespace

std::unique_ptr<CLI::App> makeApp(const std::string &name, const std::string &summary, const std::string &examples) {
    auto app = std::make_unique<CLI::App>(summary, name);
    app->formatter(std::make_shared<HelpFormatter>());
    app->option_defaults()->always_capture_default()->disable_flag_override()->multi_option_policy(
        CLI::MultiOptionPolicy::TakeLast);
    app->set_help_flag("-h,--help", "print this help");
    app->set_version_flag("--version", version(name), "print the version and whether this build has CUDA");
    app->get_formatter()->label("Positionals", "Arguments");
    app->get_formatter()->label("OPTIONS", "options");
    app->get_formatter()->label("SUBCOMMAND", "COMMAND");
    app->footer(examples);
    return app;
}

CLI::App *addCommand(CLI::App &app, const std::string &name, const std::string &summary, const std::string &examples) {
    CLI::App *command = app.add_subcommand(name, summary)->group("Commands");
    command->footer(examples);
    return command;
}

bool parse(CLI::App &app, int argc, char **argv) {
    try {
        app.parse(argc, argv);
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

CLI::Option *addInput(CLI::App &app, std::string &input) {
    return app.add_option("INPUT", input, SOURCE_HELP)->required();
}

CLI::Option *addDevice(CLI::App &app, std::string &device, bool several) {
    const std::string help = "where to compute; auto: the first GPU, or the CPU if there is none";
    CLI::Option *const option =
        app.add_option("--device", device, help + (several ? "; cuda:all, cuda:0,2: several GPUs; cpu:N: N workers" : ""));
    if (several)
        return option->type_name("auto|cpu[:N]|cuda[:n,...|:all]")
            ->check(expect(isDeviceList, "auto, cpu, cpu:N, cuda, cuda:n, cuda:n,m or cuda:all"));
    return option->type_name("auto|cpu|cuda[:n]")->check(expect(isDevice, "auto, cpu, cuda or cuda:n"));
}

CLI::Option *addOutput(CLI::App &app, std::string &output, const std::string &help) {
    return addText(app, "--output", output, "FILE", help);
}

CLI::Option *addHeadless(CLI::App &app, bool &headless) {
    return app.add_flag("--headless", headless, "open no window, even if there is a display");
}

CLI::Option *addFrames(CLI::App &app, int &frames) {
    return addNumber(app, "--frames", frames, 0, 1000000000, "stop after N frames; 0: no limit");
}

void addCommon(CLI::App &app, Common &common, const std::string &default_file, bool several_devices) {
    addDevice(app, common.device, several_devices);
    addOutput(app, common.output, std::string(SINK_HELP) + "; without a window and without this option: " + default_file);
    addHeadless(app, common.headless);
}

CLI::Validator expect(std::function<bool(const std::string &)> valid, const std::string &expected) {
    return CLI::Validator(
        [valid = std::move(valid), expected](const std::string &value) {
            return valid(value) ? std::string() : "is '" + value + "', expected " + expected;
        },
        "");
}

CLI::Validator inRange(long long low, long long high) {
    const auto valid = [low, high](const std::string &value) {
        char *end = nullptr;
        errno = 0;
        const long long number = std::strtoll(value.c_str(), &end, 10);
        return !value.empty() && *end == '\0' && errno == 0 && number >= low && number <= high;
    };
    return expect(valid, "an integer from " + std::to_string(low) + " to " + std::to_string(high));
}

CLI::Validator inRange(double low, double high) {
    const auto valid = [low, high](const std::string &value) {
        char *end = nullptr;
        const double number = std::strtod(value.c_str(), &end);
        return !value.empty() && *end == '\0' && std::isfinite(number) && number >= low && number <= high;
    };
    return expect(valid, text("a number from %g to %g", low, high));
}

CLI::Validator oneOf(const std::vector<std::string> &words) {
    const auto valid = [words](const std::string &value) {
        return std::find(words.begin(), words.end(), value) != words.end();
    };
    return expect(valid, CLI::detail::join(words, "|"));
}

CLI::Option *addText(CLI::App &app, const std::string &name, std::string &value, const std::string &placeholder,
                     const std::string &help) {
    return app.add_option(name, value, help)
        ->type_name(placeholder)
        ->check(expect([](const std::string &given) { return !given.empty(); }, placeholder));
}

CLI::Option *addChoice(CLI::App &app, const std::string &name, std::string &value, const std::vector<std::string> &choices,
                       const std::string &help) {
    std::vector<std::pair<std::string, std::string>> pairs;
    pairs.reserve(choices.size());
    for (const std::string &choice : choices)
        pairs.emplace_back(choice, choice);
    return addChoice(app, name, value, pairs, help);
}

} // namespace sample
