#include "common/terminal/manual.hpp"

#include "common/app.hpp"
#include "common/libav/writer.hpp"
#include "common/terminal/options.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <initializer_list>
#include <vector>

namespace sample {

namespace {

using CLI::detail::join;
using Options = std::vector<const CLI::Option *>;
using Commands = std::vector<const CLI::App *>;

Options optionsOf(const CLI::App &app) {
    return app.get_options([](const CLI::Option *o) { return !o->get_group().empty(); });
}

Commands commandsOf(const CLI::App &app) {
    return app.get_subcommands([](const CLI::App *) { return true; });
}

bool takesValue(const CLI::Option &option) {
    return !option.get_positional() && option.get_items_expected_max() != 0;
}

// "-q", "--quiet"; none for a positional.
std::vector<std::string> namesOf(const CLI::Option &option) {
    if (option.get_positional())
        return {};
    return CLI::detail::split(option.get_name(false, true), ',');
}

// Values that the shell offers after an option: words to choose from, files or folders.
struct Values {
    std::vector<std::string> words;
    bool files = false, folders = false;
};

bool isOneOf(const std::string &word, std::initializer_list<const char *> names) {
    return std::any_of(names.begin(), names.end(), [&](const char *name) { return word == name; });
}

Values valuesOf(const CLI::Option &option) {
    Values values;
    const std::string type = option.get_type_name(), name = option.get_name();
    if (name == "--device") {
        values.words = {"auto", "cpu", "cuda", "cuda:0"};
        if (type.find("all") != std::string::npos)
            values.words.insert(values.words.end(), {"cuda:all", "cpu:2", "cpu:4"});
    } else if (name == "--codec") {
        values.words = CLI::detail::split(av::codecNames(), ',');
        for (std::string &word : values.words)
            CLI::detail::trim(word);
        values.words.insert(values.words.begin(), "auto");
    } else if (isOneOf(name, {"--preset", "--encoder-preset"}) && type == "NAME") {
        values.words = {"ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"};
    } else if (type.find('|') != std::string::npos && type.find_first_of("[<") == std::string::npos) {
        values.words = CLI::detail::split(type, '|');
        values.words.erase(std::remove_if(values.words.begin(), values.words.end(),
                                          [](const std::string &word) { return word == "N" || word == "TIME"; }),
                           values.words.end());
    } else {
        const Names *const named = namedBy(&option);
        values.folders = named && *named == Names::FOLDER;
        values.files = (named && !values.folders) || type.compare(0, 4, "FILE") == 0;
    }
    return values;
}

const char *const RESULTS =
    "Results are printed as \"name: value\", one a line, or with --json as one object. Progress and errors go to stderr. "
    "\"stages\" (in the object: stages_ms) is the time of each stage in milliseconds per frame, the mean over the run. "
    "decode: reading and decoding the input, and waiting for a camera; "
    "compute: the algorithm, with copies to a GPU and back; "
    "queue: instead of compute where a GPU works in the background, the time to give it its work and to wait for room or "
    "results, not its own; "
    "draw: boxes, labels, colors; "
    "write: handing pictures to the encoder, which works beside the program, and waiting for it; storing images; showing "
    "in a "
    "window once it is due; "
    "capture, difference, pack and send: those of a sender of live video; "
    "overall: the time of the run, with set-up and waiting. "
    "Stages run concurrently where they can, so overall may be less than their sum.";

// ---- The manual page ---------------------------------------------------------------------------------------------------

// Escapes text so that troff shows it as it is.
std::string troff(const std::string &text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if ((c == '.' || c == '\'') && (i == 0 || text[i - 1] == '\n'))
            out += "\\&";
        out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
    }
    return out;
}

std::string upper(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
    return text;
}

std::string entry(const std::string &head, const std::string &help) {
    return ".TP\n" + head + "\n" + troff(help) + "\n";
}

std::string described(const CLI::Option &option) {
    const std::string value = option.get_default_str();
    return option.get_description() + (value.empty() || value == "[]" ? "" : " (default " + value + ")");
}

std::string optionEntries(const CLI::App &app) {
    std::string out, heading;
    std::vector<std::string> headings;
    for (const CLI::Option *option : optionsOf(app)) {
        if (option->get_positional()) {
            out += entry("\\fI" + troff(option->get_name()) + "\\fR", described(*option));
        } else if (std::find(headings.begin(), headings.end(), option->get_group()) == headings.end()) {
            headings.push_back(option->get_group());
        }
    }
    for (const std::string &name : headings) {
        out += ".SS \"" + name + "\"\n";
        for (const CLI::Option *option : optionsOf(app)) {
            if (option->get_positional() || option->get_group() != name)
                continue;
            const std::string value = takesValue(*option) ? " \\fI" + troff(option->get_type_name()) + "\\fR" : "";
            out += entry("\\fB" + troff(join(namesOf(*option), ", ")) + "\\fR" + value, described(*option));
        }
    }
    return out;
}

std::string synopsis(const CLI::App &app, const std::string &name) {
    std::string out = ".B " + troff(name) + "\n";
    for (const CLI::Option *option : optionsOf(app))
        if (option->get_positional())
            out += option->get_required()
                       ? ".I " + troff(option->get_name()) + (option->get_items_expected_max() > 1 ? "\\&..." : "") + "\n"
                       : ".RI [ " + troff(option->get_name()) + " ]\n";
    return out + ".RI [ options ]\n";
}

// Lines shown as they are.
std::string verbatim(const std::string &lines) {
    return ".nf\n" + troff(lines) + (lines.empty() || lines.back() != '\n' ? "\n" : "") + ".fi\n";
}

std::string manual(const CLI::App &app) {
    const std::string &name = app.get_name();
    const Commands commands = commandsOf(app);
    std::string out = ".TH " + upper(troff(name)) + " 1 \"\" \"cusight " CUSIGHT_SAMPLES_VERSION "\" \"User Commands\"\n";
    const std::string summary = app.get_description();
    std::string first = summary.substr(0, summary.find_first_of(".:"));
    if (!first.empty())
        first[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(first[0])));
    out += ".SH NAME\n" + troff(name) + " \\- " + troff(first) + "\n.SH SYNOPSIS\n";
    const bool needs_command = app.get_require_subcommand_min() > 0;
    if (!needs_command)
        out += synopsis(app, name);
    for (const CLI::App *command : commands)
        out += (needs_command && command == commands.front() ? "" : ".br\n") +
               synopsis(*command, name + " " + command->get_name());
    out += ".SH DESCRIPTION\n" + troff(summary) + "\n.SH OPTIONS\n" + optionEntries(app);
    for (const CLI::App *command : commands)
        out += ".SH \"" + upper(troff(name + " " + command->get_name())) + "\"\n" + troff(command->get_description()) +
               "\n" + optionEntries(*command);
    out += ".SH KEYS\nIn a window: space pauses, s shows one picture further, f is full screen, h lists the keys, q and "
           "Esc quit.\n";
    out += std::string(".SH RESULTS\n") + troff(RESULTS) + "\n";
    std::string examples = app.get_footer();
    for (const CLI::App *command : commands)
        examples += command->get_footer();
    out += ".SH \"EXIT STATUS\"\n" + troff(std::string(EXIT_CODES).substr(std::string("Exit codes: ").size())) + "\n";
    return examples.empty() ? out : out + ".SH EXAMPLES\n" + verbatim(examples);
}

// ---- Completion --------------------------------------------------------------------------------------------------------

// "cusight_heatmap"
std::string identifier(const std::string &name) {
    std::string out = name;
    std::replace_if(
        out.begin(), out.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
    return out;
}

// The cases of one command: what may follow an option.
std::string bashCases(const Options &options) {
    std::string out;
    for (const CLI::Option *option : options) {
        if (!takesValue(*option))
            continue;
        const Values values = valuesOf(*option);
        const std::string reply =
            !values.words.empty() ? "COMPREPLY=($(compgen -W '" + join(values.words, " ") + "' -- \"$cur\"))"
            : values.files        ? "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))"
            : values.folders      ? "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$cur\"))"
                                  : "COMPREPLY=()";
        out += "        " + join(namesOf(*option), " | ") + ") " + reply + "; return ;;\n";
    }
    return out;
}

std::string bashCommand(const Options &options, const std::string &more) {
    std::vector<std::string> words;
    for (const CLI::Option *option : options)
        for (const std::string &name : namesOf(*option))
            words.push_back(name);
    return "        case \"$prev\" in\n" + bashCases(options) + "        esac\n        words='" + join(words, " ") + more +
           "'\n";
}

std::string bashCompletion(const CLI::App &app) {
    const std::string function = "_" + identifier(app.get_name());
    const Commands commands = commandsOf(app);
    const Options common = optionsOf(app);
    std::vector<std::string> names;
    for (const CLI::App *command : commands)
        names.push_back(command->get_name());
    std::string out = "# bash completion for " + app.get_name() + ", made from its options\n" + function + "() {\n" +
                      "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words= command= word\n"
                      "    COMPREPLY=()\n";
    if (!names.empty())
        out += "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n        case \"$word\" in " + join(names, " | ") +
               ") command=$word; break ;; esac\n    done\n";
    out += "    case \"$command\" in\n";
    for (const CLI::App *command : commands) {
        Options options = optionsOf(*command);
        options.insert(options.end(), common.begin(), common.end());
        out += "    " + command->get_name() + ")\n" + bashCommand(options, "") + "        ;;\n";
    }
    out += "    *)\n" + bashCommand(common, names.empty() ? "" : " " + join(names, " ")) + "        ;;\n    esac\n";
    out += "    if [[ $cur == -* ]]; then\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n    else\n"
           "        compopt -o filenames 2>/dev/null\n        COMPREPLY=($(compgen -f -- \"$cur\"))\n";
    if (!names.empty())
        out += "        [[ $command ]] || COMPREPLY+=($(compgen -W '" + join(names, " ") + "' -- \"$cur\"))\n";
    return out + "    fi\n}\ncomplete -F " + function + " " + app.get_name() + "\n";
}

// Escapes a description for zsh's single quotes and brackets.
std::string zshText(const std::string &text) {
    std::string out;
    for (const char c : text)
        out += c == '\''                          ? std::string("'\\''")
               : c == '[' || c == ']' || c == ':' ? std::string("\\") + c
                                                  : std::string(1, c);
    return out;
}

std::string zshArguments(const Options &options, const std::string &indent) {
    std::string out = "_arguments -S";
    bool positional = false;
    for (const CLI::Option *option : options) {
        positional = positional || option->get_positional();
        for (const std::string &name : namesOf(*option)) {
            out += " \\\n" + indent + "'" + name + "[" + zshText(option->get_description()) + "]";
            if (takesValue(*option)) {
                const Values values = valuesOf(*option);
                out += ":" + zshText(values.words.empty() ? option->get_type_name() : "value") + ":" +
                       (!values.words.empty() ? "(" + zshText(join(values.words, " ")) + ")"
                        : values.files        ? "_files"
                        : values.folders      ? "_files -/"
                                              : " ");
            }
            out += "'";
        }
    }
    return out + (positional ? " \\\n" + indent + "'*:file:_files'" : "");
}

std::string zshCompletion(const CLI::App &app) {
    const Commands commands = commandsOf(app);
    const Options common = optionsOf(app);
    std::string out =
        "#compdef " + app.get_name() + "\n# zsh completion for " + app.get_name() + ", made from its options\n";
    if (commands.empty())
        return out + zshArguments(common, "    ") + "\n";
    out += "local command=${words[(r)";
    std::string names, described;
    for (const CLI::App *command : commands) {
        names += (names.empty() ? "" : "|") + command->get_name();
        described += " '" + command->get_name() + ":" + zshText(command->get_description()) + "'";
    }
    out += "(" + names + ")]}\ncase $command in\n";
    for (const CLI::App *command : commands) {
        Options options = optionsOf(*command);
        options.insert(options.end(), common.begin(), common.end());
        out += command->get_name() + ")\n    " + zshArguments(options, "        ") + "\n    ;;\n";
    }
    return out + "*)\n    local -a commands=(" + described + ")\n    _describe command commands\n    " +
           zshArguments(common, "        ") + "\n    ;;\nesac\n";
}

} // namespace

// One line each option or argument that names files: "COMMAND NAME output", COMMAND "-" for those of the program itself.
static std::string filesTable(const CLI::App &app) {
    Commands parts = commandsOf(app);
    parts.insert(parts.begin(), &app);
    std::string out = "# command, option or argument, what it names\n";
    for (const CLI::App *part : parts)
        for (const CLI::Option *option : optionsOf(*part))
            if (const Names *const what = namedBy(option))
                out += (part == &app ? "-" : part->get_name()) + " " + option->get_name() + " " + nameOf(*what) + "\n";
    return out;
}

bool printGenerated(const CLI::App &app, const std::string &what) {
    const std::string text = what == "man"     ? manual(app)
                             : what == "bash"  ? bashCompletion(app)
                             : what == "zsh"   ? zshCompletion(app)
                             : what == "files" ? filesTable(app)
                                               : std::string();
    std::fputs(text.c_str(), stdout);
    flushStdout();
    return !text.empty();
}

} // namespace sample
