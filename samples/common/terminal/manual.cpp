#include "common/terminal/manual.hpp"

#include "common/app.hpp"
#include "common/terminal/options.hpp"
#include "common/terminal/parser.hpp"
#include "common/values.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <vector>

namespace sample {

namespace {

using Options = std::vector<const CLI::Option *>;
using Commands = std::vector<const CLI::App *>;

Options describedOptions(const CLI::App &app) {
    Options all;
    for (const CLI::Option &option : app.options)
        all.push_back(&option);
    return all;
}

Commands commandsOf(const CLI::App &app) {
    Commands all;
    for (const auto &command : app.commands)
        all.push_back(command.get());
    return all;
}

// "-q", "--quiet"; none for a positional.
std::vector<std::string> namesOf(const CLI::Option &option) {
    return option.isPositional() ? std::vector<std::string>() : option.names;
}

// Whether the shell offers files, or folders, after an option.
bool namesFile(const CLI::Option &option) {
    return option.files ? *option.files != Names::FOLDER : option.type.compare(0, 4, "FILE") == 0;
}
bool namesFolder(const CLI::Option &option) {
    return option.files && *option.files == Names::FOLDER;
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
        if (!option->takesValue())
            continue;
        const std::string reply =
            !option->words.empty() ? "COMPREPLY=($(compgen -W '" + join(option->words, " ") + "' -- \"$cur\"))"
            : namesFile(*option)   ? "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))"
            : namesFolder(*option) ? "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$cur\"))"
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
    const std::string function = "_" + identifier(app.name);
    const Commands commands = commandsOf(app);
    const Options common = describedOptions(app);
    std::vector<std::string> names;
    for (const CLI::App *command : commands)
        names.push_back(command->name);
    std::string out = "# bash completion for " + app.name + ", made from its options\n" + function + "() {\n" +
                      "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words= command= word\n"
                      "    COMPREPLY=()\n";
    if (!names.empty())
        out += "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n        case \"$word\" in " + join(names, " | ") +
               ") command=$word; break ;; esac\n    done\n";
    out += "    case \"$command\" in\n";
    for (const CLI::App *command : commands) {
        Options options = describedOptions(*command);
        options.insert(options.end(), common.begin(), common.end());
        out += "    " + command->name + ")\n" + bashCommand(options, "") + "        ;;\n";
    }
    out += "    *)\n" + bashCommand(common, names.empty() ? "" : " " + join(names, " ")) + "        ;;\n    esac\n";
    out += "    if [[ $cur == -* ]]; then\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n    else\n"
           "        compopt -o filenames 2>/dev/null\n        COMPREPLY=($(compgen -f -- \"$cur\"))\n";
    if (!names.empty())
        out += "        [[ $command ]] || COMPREPLY+=($(compgen -W '" + join(names, " ") + "' -- \"$cur\"))\n";
    return out + "    fi\n}\ncomplete -F " + function + " " + app.name + "\n";
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
        positional = positional || option->isPositional();
        for (const std::string &name : namesOf(*option)) {
            out += " \\\n" + indent + "'" + name + "[" + zshText(option->help) + "]";
            if (option->takesValue()) {
                out += ":" + zshText(option->words.empty() ? option->type : "value") + ":" +
                       (!option->words.empty() ? "(" + zshText(join(option->words, " ")) + ")"
                        : namesFile(*option)   ? "_files"
                        : namesFolder(*option) ? "_files -/"
                                               : " ");
            }
            out += "'";
        }
    }
    return out + (positional ? " \\\n" + indent + "'*:file:_files'" : "");
}

std::string zshCompletion(const CLI::App &app) {
    const Commands commands = commandsOf(app);
    const Options common = describedOptions(app);
    std::string out = "#compdef " + app.name + "\n# zsh completion for " + app.name + ", made from its options\n";
    if (commands.empty())
        return out + zshArguments(common, "    ") + "\n";
    out += "local command=${words[(r)";
    std::string names, described;
    for (const CLI::App *command : commands) {
        names += (names.empty() ? "" : "|") + command->name;
        described += " '" + command->name + ":" + zshText(command->summary) + "'";
    }
    out += "(" + names + ")]}\ncase $command in\n";
    for (const CLI::App *command : commands) {
        Options options = describedOptions(*command);
        options.insert(options.end(), common.begin(), common.end());
        out += command->name + ")\n    " + zshArguments(options, "        ") + "\n    ;;\n";
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
        for (const CLI::Option *option : describedOptions(*part))
            if (option->files)
                out += (part == &app ? "-" : part->name) + " " + option->name() + " " + nameOf(*option->files) + "\n";
    return out;
}

bool printGenerated(const CLI::App &app, const std::string &what) {
    const std::string text = what == "help"      ? manualText(app)
                             : what == "include" ? manualInclude(app)
                             : what == "bash"    ? bashCompletion(app)
                             : what == "zsh"     ? zshCompletion(app)
                             : what == "files"   ? filesTable(app)
                                                 : std::string();
    std::fputs(text.c_str(), stdout);
    flushStdout();
    return !text.empty();
}

} // namespace sample
