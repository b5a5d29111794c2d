#include "common/terminal/report.hpp"

#include "common/app.hpp"

#include <nlohmann/json.hpp>

#include <cctype>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace sample {

namespace {

std::mutex mutex; // guards the run and the streams: programs report from several threads

Json &run() {
    static Json object;
    return object;
}
void addToRun(const Json &members) {
    if (!members.is_null())
        run().update(members);
}
bool started = false;
std::string printed; // the results so far, between spaces

std::FILE *stream() {
    return currentReporting().to_stderr ? stderr : stdout;
}

void line(const std::string &words) {
    std::fprintf(stream(), "%s\n", words.c_str());
    flushStdout();
}

void print(const char *name, const Json &members, const std::string &value) {
    const std::lock_guard<std::mutex> lock(mutex);
    const Reporting &how = currentReporting();
    if (how.any_json())
        addToRun(members);
    else if (!how.quiet)
        line(printable(std::string(name) + ": " + value));
    printed += " " + value + " ";
}

} // namespace

std::string dump(const Json &json) {
    return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// ---- The run -----------------------------------------------------------------------------------------------------------

Reporting &currentReporting() {
    static Reporting reporting;
    return reporting;
}

void startReport(const std::string &program) {
    started = true;
    run() = {{"program", program}, {"version", CUSIGHT_SAMPLES_VERSION}};
}

void figure(const char *name, const Json &members, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const std::string value = formatted(format, arguments);
    va_end(arguments);
    print(name, members, value);
}

void figureText(const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const std::string value = formatted(format, arguments);
    va_end(arguments);
    std::string key = name;
    for (char &c : key)
        c = std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                                                        : '_';
    print(name, {{key, value}}, value);
}

void detail(const Json &members) {
    const std::lock_guard<std::mutex> lock(mutex);
    addToRun(members);
}

bool wasNamed(const std::string &name) {
    for (size_t at = printed.find(name); at != std::string::npos; at = printed.find(name, at + 1))
        if (printed[at - 1] == ' ' && std::strchr(" ,;", printed[at + name.size()]))
            return true;
    return false;
}

void reportFrame(const Json &frame) {
    if (!currentReporting().json_frames)
        return;
    const std::lock_guard<std::mutex> lock(mutex);
    line(dump(frame));
}

void note(const char *format, ...) {
    if (currentReporting().quiet)
        return;
    va_list arguments;
    va_start(arguments, format);
    const std::string words = formatted(format, arguments);
    va_end(arguments);
    std::fprintf(stderr, "%s\n", printable(words).c_str());
}

void finishReport(int exit_code, const std::string &error) {
    if (!started || !currentReporting().any_json())
        return;
    started = false;
    run()["exit_code"] = exit_code;
    if (!error.empty())
        run()["error"] = error;
    line(dump(run()));
}

void flushStdout() {
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
        std::clearerr(stdout);
        throw Stop(OUTPUT, std::string("stdout cannot be written: ") + std::strerror(errno ? errno : EIO));
    }
}

} // namespace sample
