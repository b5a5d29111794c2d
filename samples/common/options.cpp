#include "options.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace sample {

namespace {

std::string compact(double value) {
    return sample::text("%g", value);
}

// Words of `text` in lines that start at `indent` and end before column 100.
std::string wrapped(const std::string &text, size_t indent) {
    std::istringstream words(text);
    std::string out, word;
    size_t column = indent;
    while (words >> word) {
        if (column + word.size() + 1 > 100) {
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

std::string line(const std::string &head, const std::string &help) {
    constexpr size_t indent = 26;
    std::string out = "  " + head;
    if (out.size() + 1 >= indent)
        out += '\n' + std::string(indent, ' ');
    else
        out.resize(indent, ' ');
    return out + wrapped(help, indent) + '\n';
}

bool isDevice(const std::string &text) {
    if (text == "auto" || text == "cpu" || text == "cuda")
        return true;
    const bool numbered = text.compare(0, 5, "cuda:") == 0 && text.size() > 5 && text.size() < 9;
    return numbered && text.find_first_not_of("0123456789", 5) == std::string::npos;
}

} // namespace

Options::Options(std::string program, std::string summary) : program_(std::move(program)), summary_(std::move(summary)) {}

void Options::argument(std::string &value, const std::string &name, const std::string &help, bool required) {
    const auto set = [&value](const std::string &given) {
        value = given;
        return std::string();
    };
    arguments_.push_back({name, "", help, set, required});
}

void Options::flag(bool &value, const std::string &name, const std::string &help) {
    const auto set = [&value](const std::string &) {
        value = true;
        return std::string();
    };
    options_.push_back({name, "", help, set, false});
}

void Options::custom(const std::string &name, const std::string &meta, const std::string &help,
                     std::function<std::string(const std::string &)> check) {
    options_.push_back({name, meta, help, std::move(check), false});
}

void Options::text(std::string &value, const std::string &name, const std::string &meta, const std::string &help) {
    custom(name, meta, help, [&value](const std::string &given) {
        if (given.empty())
            return std::string("a text that is not empty");
        value = given;
        return std::string();
    });
}

void Options::number(int &value, const std::string &name, const std::string &meta, const std::string &help, int low,
                     int high) {
    custom(name, meta, help + " (default " + std::to_string(value) + ")", [&value, low, high](const std::string &given) {
        char *end = nullptr;
        errno = 0;
        const long number = std::strtol(given.c_str(), &end, 10);
        if (given.empty() || *end || errno || number < low || number > high)
            return "an integer " + std::to_string(low) + ".." + std::to_string(high);
        value = static_cast<int>(number);
        return std::string();
    });
}

void Options::number(double &value, const std::string &name, const std::string &meta, const std::string &help, double low,
                     double high) {
    custom(name, meta, help + " (default " + compact(value) + ")", [&value, low, high](const std::string &given) {
        char *end = nullptr;
        const double number = std::strtod(given.c_str(), &end);
        if (given.empty() || *end || !std::isfinite(number) || number < low || number > high)
            return "a number " + compact(low) + ".." + compact(high);
        value = number;
        return std::string();
    });
}

void Options::choice(std::string &value, const std::string &name, const std::vector<std::string> &choices,
                     const std::string &help) {
    std::string list;
    for (const auto &choice : choices)
        list += (list.empty() ? "" : "|") + choice;
    custom(name, list, help + " (default " + value + ")", [&value, choices, list](const std::string &given) {
        if (std::find(choices.begin(), choices.end(), given) == choices.end())
            return list;
        value = given;
        return std::string();
    });
}

void Options::common(Common &common, const std::string &output_help) {
    custom("--device", "auto|cpu|cuda[:n]", "where to compute; auto takes the first GPU, or the CPU (default auto)",
           [&common](const std::string &given) {
               if (!isDevice(given))
                   return std::string("auto, cpu, cuda or cuda:n");
               common.device = given;
               return std::string();
           });
    text(common.output, "--output", "FILE", output_help);
    flag(common.headless, "--headless", "no window, even where there is a display");
}

bool Options::parse(int argc, char **argv) {
    const auto reject = [](const std::string &message) { throw Stop(USAGE, message + " (--help lists what is taken)"); };
    for (int i = 1; i < argc; ++i)
        if (std::string(argv[i]) == "--help" || std::string(argv[i]) == "-h") {
            std::fputs(help().c_str(), stdout);
            return false;
        }
    size_t arguments = 0;
    bool only_arguments = false;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (!only_arguments && word == "--") {
            only_arguments = true;
        } else if (!only_arguments && word.size() > 1 && word[0] == '-') {
            const size_t equals = word.find('=');
            const std::string name = word.substr(0, equals);
            const auto option =
                std::find_if(options_.begin(), options_.end(), [&](const Option &o) { return o.name == name; });
            if (option == options_.end()) {
                reject("unknown option " + name);
            } else if (option->meta.empty()) {
                if (equals != std::string::npos)
                    reject(name + " takes no value");
                option->set("");
            } else {
                if (equals == std::string::npos && i + 1 >= argc)
                    reject(name + " needs a value: " + option->meta);
                const std::string value = equals == std::string::npos ? argv[++i] : word.substr(equals + 1);
                const std::string taken = option->set(value);
                if (!taken.empty())
                    reject(name + " is '" + value + "', takes " + taken);
            }
        } else if (arguments < arguments_.size()) {
            arguments_[arguments++].set(word);
        } else {
            reject("'" + word + "' is one argument too many");
        }
    }
    if (arguments < arguments_.size() && arguments_[arguments].required)
        reject(arguments_[arguments].name + " is missing");
    return true;
}

std::string Options::help() const {
    std::string out = "Usage: " + program_ + " [options]";
    for (const auto &a : arguments_)
        out += a.required ? " " + a.name : " [" + a.name + "]";
    out += "\n\n" + wrapped(summary_, 0) + "\n\n";
    for (const auto &a : arguments_)
        out += line(a.name, a.help);
    out += "\nOptions:\n";
    for (const auto &o : options_)
        out += line(o.meta.empty() ? o.name : o.name + " " + o.meta, o.help);
    out += line("--help", "this text");
    out += "\nExit codes: 0 done, 1 failed (memory, CUDA), 2 wrong command line, 3 input cannot be opened or breaks off,\n"
           "4 output cannot be written, 5 no such device, 130 interrupted (the output is complete up to there).\n";
    return out;
}

} // namespace sample
