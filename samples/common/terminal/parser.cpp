#include "common/terminal/parser.hpp"

#include "common/app.hpp"
#include "common/values.hpp"

#include <algorithm>
#include <cctype>

namespace CLI {

namespace {

// "-q" and "--quiet"; not "-" and "-.png", which are stdin and stdout, "-5", nor "--".
bool isOption(const std::string &word) {
    const size_t name = word.compare(0, 2, "--") == 0 ? 2 : 1;
    return word.size() > name && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[name]));
}

} // namespace

void reject(const std::string &message) {
    throw sample::Stop(sample::USAGE, message + " (see --help)");
}

const std::string &Option::name() const {
    const auto found = std::find_if(names.begin(), names.end(), [](const std::string &each) { return each[1] == '-'; });
    return found == names.end() ? names.front() : *found;
}

std::vector<std::string> Option::values() const {
    return many || given.empty() ? given : std::vector<std::string>{given.back()};
}

Option *App::add(const std::string &names, const std::string &help) {
    Option &option = options.emplace_back();
    option.names = sample::split(names, ',');
    option.help = help;
    option.group = "Options";
    return &option;
}

Option *App::find(const std::string &option_name) {
    for (App *const part : {command, this})
        if (part)
            for (Option &option : part->options)
                if (std::find(option.names.begin(), option.names.end(), option_name) != option.names.end())
                    return &option;
    return nullptr;
}

bool App::isGiven(const std::string &option_name) const {
    for (const App *const part : {static_cast<const App *>(command), this})
        if (part)
            for (const Option &option : part->options)
                if (option.name() == option_name && !option.given.empty())
                    return true;
    return false;
}

Option *App::nextPositional() {
    for (Option &option : (command ? command : this)->options)
        if (option.isPositional() && (option.many || option.given.empty()))
            return &option;
    return nullptr;
}

// Returns false if there is no such option. Moves `at` to the option's value.
bool App::takeOption(const std::vector<std::string> &words, size_t &at) {
    const std::string &word = words[at];
    if (word[1] != '-') { // flags have short names, which may follow one another: "-qh"
        for (const char letter : word.substr(1)) {
            Option *const flag = find({'-', letter});
            if (!flag)
                return false;
            flag->given.emplace_back();
        }
        return true;
    }
    const size_t equals = word.find('=');
    const std::string option_name = word.substr(0, equals);
    const bool has_value = equals != std::string::npos;
    Option *const option = find(option_name);
    if (!option)
        return false;
    if (!option->takesValue() && has_value)
        reject(option_name + " takes no value");
    if (option->takesValue() && (has_value ? equals + 1 == word.size() : at + 1 == words.size()))
        reject(option_name + " requires a value");
    option->given.push_back(!option->takesValue() ? "" : has_value ? word.substr(equals + 1) : words[++at]);
    return true;
}

const std::string *App::sort(const std::vector<std::string> &words) {
    const std::string *unknown = nullptr;
    bool has_ended = false; // after "--" there are no options
    for (size_t at = 0; at < words.size(); ++at) {
        const std::string &word = words[at];
        const auto named = [&word](const std::unique_ptr<App> &each) { return each->name == word; };
        const auto found = has_ended || command ? commands.end() : std::find_if(commands.begin(), commands.end(), named);
        Option *positional = nullptr;
        if (!has_ended && word == "--")
            has_ended = true;
        else if (!has_ended && isOption(word))
            unknown = takeOption(words, at) || unknown ? unknown : &word;
        else if (found != commands.end())
            command = found->get();
        else if ((positional = nextPositional()))
            positional->given.push_back(word);
        else
            unknown = unknown ? unknown : &word;
    }
    return unknown;
}

void App::store() {
    for (App *const part : {this, command})
        if (part)
            for (const Option &option : part->options) {
                for (const auto &[valid, expected] : option.checks)
                    for (const std::string &value : option.given)
                        if (!valid(value))
                            reject(option.name() + " is '" + value + "', expected " + expected);
                if (!option.given.empty() && option.store)
                    option.store(option.values());
            }
}

} // namespace CLI
