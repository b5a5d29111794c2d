#include "common/terminal/report.hpp"

#include "common/app.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace sample {

namespace {

std::string quoted(const std::string &value) {
    std::string out = "\"";
    for (size_t at = 0; at < value.size();) {
        const size_t bytes = characterBytes(&value[at]);
        if (value[at] == '"' || value[at] == '\\')
            out += '\\';
        out += bytes ? value.substr(at, bytes) : text("\\u%04x", static_cast<unsigned char>(value[at]));
        at += std::max<size_t>(bytes, 1);
    }
    return out + '"';
}

std::mutex mutex; // guards the run and the streams: programs report from several threads

Json &run() {
    static Json object;
    return object;
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
        run().merge(members);
    else if (!how.quiet)
        line(printable(std::string(name) + ": " + value));
    printed += " " + value + " ";
}

} // namespace

// ---- Json --------------------------------------------------------------------------------------------------------------

Json &Json::raw(const char *key, const std::string &value) {
    members_ += (members_.empty() ? "" : ", ") + quoted(key) + ": " + value;
    array_.clear();
    return *this;
}

Json &Json::add(const char *key, const std::string &value) {
    return raw(key, quoted(value));
}

Json &Json::add(const char *key, bool value) {
    return raw(key, value ? "true" : "false");
}

Json &Json::add(const char *key, double value) {
    return raw(key, std::isfinite(value) ? sample::text("%.12g", value) : "null");
}

Json &Json::add(const char *key, long long value) {
    return raw(key, std::to_string(value));
}

Json &Json::add(const char *key, unsigned long long value) {
    return raw(key, std::to_string(value));
}

Json &Json::add(const char *key, const Json &value) {
    return raw(key, value.text());
}

Json &Json::append(const char *key, const Json &value) {
    if (array_ == key) {
        members_.pop_back();
        members_ += ", " + value.text() + "]";
    } else {
        raw(key, "[" + value.text() + "]");
        array_ = key;
    }
    return *this;
}

Json &Json::merge(const Json &other) {
    if (!other.members_.empty()) {
        members_ += (members_.empty() ? "" : ", ") + other.members_;
        array_.clear();
    }
    return *this;
}

// ---- The run -----------------------------------------------------------------------------------------------------------

Reporting &currentReporting() {
    static Reporting reporting;
    return reporting;
}

void startReport(const std::string &program) {
    started = true;
    run() = Json().add("program", program).add("version", CUSIGHT_SAMPLES_VERSION);
}

void figure(const char *name, const Json &members, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const std::string value = formatted(format, arguments);
    va_end(arguments);
    print(name, members, value);
}

void figure(const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const std::string value = formatted(format, arguments);
    va_end(arguments);
    std::string key = name;
    for (char &c : key)
        c = std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                                                        : '_';
    print(name, Json().add(key.c_str(), value), value);
}

void detail(const Json &members) {
    const std::lock_guard<std::mutex> lock(mutex);
    run().merge(members);
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
    line(frame.text());
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
    run().add("exit_code", exit_code);
    if (!error.empty())
        run().add("error", error);
    line(run().text());
}

void flushStdout() {
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
        std::clearerr(stdout);
        throw Stop(OUTPUT, std::string("stdout cannot be written: ") + std::strerror(errno ? errno : EIO));
    }
}

} // namespace sample
