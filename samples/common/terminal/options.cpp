#include "common/terminal/options.hpp"

#include "common/many_devices.hpp"
#include "common/terminal/parser.hpp"
#include "common/values.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace sample {

namespace {

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

// An option with values, each of which replaces the one before.
CLI::Option *add(CLI::App &app, const std::string &name, const std::string &type, const std::string &help,
                 const std::function<void(const std::string &)> &store,
                 const std::function<std::string()> &current = nullptr) {
    CLI::Option *const option = app.add(name, help);
    option->type = type;
    option->store = [store](const std::vector<std::string> &values) { store(values.back()); };
    option->current = current;
    option->showDefault();
    return option;
}

CLI::Option *addReal(CLI::App &app, const std::string &name, double low, double high, const std::string &help,
                     const std::function<void(double)> &set, const std::function<std::string()> &current) {
    const auto store = [set](const std::string &given) { set(std::strtod(given.c_str(), nullptr)); };
    return require(
        add(app, name, "N", help, store, current),
        [low, high](const std::string &given) { return isReal(given, low, high); },
        text("a number from %g to %g", low, high));
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
    return require(add(app, name, "TIME", help, store, [=] { return text("%.10g %s", current(), whole ? "us" : "s"); }),
                   valid,
                   text(whole ? "an integer from %.0f to %.0f (microseconds), or a duration such as 10ms"
                              : "a number from %g to %g (seconds), or a time such as 500ms or 1:05",
                        low, high));
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

CLI::Option *addDevice(CLI::App &app, std::string &device, bool several) {
    const std::string help = "where to compute; auto: the first GPU, or the CPU if there is none";
    if (!several)
        return offer(
            require(addText(app, "--device", device, "auto|cpu|cuda[:n]", help), isDevice, "auto, cpu, cuda or cuda:n"),
            {"auto", "cpu", "cuda", "cuda:0"});
    return offer(require(addText(app, "--device", device, "auto|cpu[:N]|cuda[:n,...|:all]",
                                 help + "; cuda:all, cuda:0,2: several GPUs; cpu:N: N workers"),
                         isDeviceList, "auto, cpu, cpu:N, cuda, cuda:n, cuda:n,m or cuda:all, 64 workers at most"),
                 {"auto", "cpu", "cuda", "cuda:0", "cuda:all", "cpu:2", "cpu:4"});
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

// ---- Kinds of options --------------------------------------------------------------------------------------------------

CLI::Option *addPositional(CLI::App &app, const std::string &name, std::string &value, const std::string &help,
                           bool required) {
    CLI::Option *const option = addText(app, name, value, "", help);
    option->required = required;
    return option;
}

CLI::Option *addPositionals(CLI::App &app, const std::string &name, std::vector<std::string> &values,
                            const std::string &help) {
    CLI::Option *const option = addList(app, name, values, "", help);
    option->required = true;
    return option;
}

CLI::Option *addFlag(CLI::App &app, const std::string &name, bool &value, const std::string &help) {
    return add(app, name, "", help, [&value](const std::string &) { value = true; });
}

CLI::Option *addNegativeFlag(CLI::App &app, const std::string &name, bool &value, const std::string &help) {
    return add(app, name, "", help, [&value](const std::string &) { value = false; });
}

CLI::Option *addNumber(CLI::App &app, const std::string &name, int &value, double low, double high,
                       const std::string &help) {
    CLI::Option *const option = add(
        app, name, "N", help, [&value](const std::string &given) { value = std::atoi(given.c_str()); },
        [&value] { return std::to_string(value); });
    return require(
        option, [low, high](const std::string &given) { return isInteger(given, low, high); },
        text("an integer from %.0f to %.0f", low, high));
}

CLI::Option *addNumber(CLI::App &app, const std::string &name, float &value, double low, double high,
                       const std::string &help) {
    return addReal(
        app, name, low, high, help, [&value](double number) { value = static_cast<float>(number); },
        [&value] { return text("%g", value); });
}

CLI::Option *addNumber(CLI::App &app, const std::string &name, double &value, double low, double high,
                       const std::string &help) {
    return addReal(
        app, name, low, high, help, [&value](double number) { value = number; }, [&value] { return text("%g", value); });
}

CLI::Option *addNumber(CLI::App &app, const std::string &name, std::optional<double> &value, double low, double high,
                       const std::string &help) {
    return addReal(
        app, name, low, high, help, [&value](double number) { value = number; },
        [&value] { return value ? text("%g", *value) : std::string(); });
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
    return add(
        app, name, metavar, help, [&value](const std::string &given) { value = given; }, [&value] { return value; });
}

CLI::Option *addFile(CLI::App &app, const std::string &name, Names what, std::string &value, const std::string &metavar,
                     const std::string &help) {
    return names(addText(app, name, value, metavar, help), what);
}

CLI::Option *addValue(CLI::App &app, const std::string &name, const Setter &set, const std::string &metavar,
                      const std::string &expected, const std::string &help) {
    return require(add(app, name, metavar, help, set), set, expected);
}

CLI::Option *addList(CLI::App &app, const std::string &name, std::vector<std::string> &values, const std::string &metavar,
                     const std::string &help, const Setter &valid, const std::string &expected) {
    CLI::Option *const option = app.add(name, help);
    option->type = metavar;
    option->many = true;
    option->store = [&values](const std::vector<std::string> &given) { values = given; };
    return valid ? require(option, valid, expected) : option;
}

CLI::Option *addWords(CLI::App &app, const std::string &name, const std::vector<std::string> &words,
                      const std::function<void(const std::string &)> &set, const std::function<std::string()> &current,
                      const std::string &help) {
    const std::string all = join(words, "|");
    const auto valid = [words](const std::string &value) { return listed(words, value) != nullptr; };
    const auto store = [words, set](const std::string &value) { set(*listed(words, value)); };
    return offer(require(add(app, name, all, help, store, current), valid, all), words);
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
    option->files = what;
    return option;
}

CLI::Option *offer(CLI::Option *option, const std::vector<std::string> &words) {
    option->words = words;
    return option;
}

CLI::Option *group(CLI::Option *option, const std::string &heading) {
    option->group = heading;
    return option;
}

CLI::Option *require(CLI::Option *option, const Setter &valid, const std::string &expected) {
    option->checks.emplace_back(valid, expected);
    return option;
}

bool isGiven(const CLI::Option *option) {
    return !option->given.empty();
}

void refreshDefaults(CLI::App &app) {
    for (CLI::Option &option : app.options)
        option.showDefault();
}

void requireCommand(CLI::App &app) {
    app.needs_command = true;
}

bool isParsed(const CLI::App &command) {
    return command.parent->command == &command;
}

} // namespace sample
