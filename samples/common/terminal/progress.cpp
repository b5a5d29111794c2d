#include "common/terminal/progress.hpp"

#include "common/app.hpp"

#include <cmath>
#include <algorithm>
#include <cstdio>
#include <mutex>
#include <sys/ioctl.h>
#include <unistd.h>

namespace sample {

namespace {

std::mutex drawing;        // threads draw in turn
Progress *shown = nullptr; // the first one that there is

std::string timeOf(double seconds) {
    const long long whole = std::llround(seconds);
    return text("%lld:%02lld left", whole / 60, whole % 60);
}

} // namespace

Progress::Progress(std::string unit, long long total, int lines_below)
    : unit_(std::move(unit)), total_(total), lines_below_(lines_below), terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()), last_(start_) {
    const std::lock_guard<std::mutex> lock(drawing);
    shown = shown ? shown : this;
}

Progress::~Progress() {
    finish();
}

double Progress::seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
}

double Progress::rate() const {
    const double elapsed = seconds();
    return elapsed > 0 ? static_cast<double>(done_) / elapsed : 0;
}

std::string Progress::line() const {
    constexpr int width = 28;
    std::string out;
    if (total_ > 0) {
        const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
        const int full = static_cast<int>(share * width);
        out = "[" + std::string(static_cast<size_t>(full), '#') + std::string(static_cast<size_t>(width - full), '.') +
              text("] %3d %%  ", static_cast<int>(share * 100));
    }
    out += std::to_string(done_) + (total_ > 0 ? "/" + std::to_string(total_) : "") + " " + unit_;
    if (done_ > 0)
        out += text("  %.1f/s", rate());
    if (total_ > done_ && done_ > 0)
        out += "  " + timeOf(static_cast<double>(total_ - done_) / rate());
    out += note_.empty() ? "" : "  " + note_;
    return within_.empty() ? out : out + "  " + within_;
}

void Progress::update(long long done, const std::string &note) {
    const std::lock_guard<std::mutex> lock(drawing);
    done_ = done;
    note_ = note;
    within_.clear();
    drawIfDue();
}

void Progress::within(double done, double seconds_left) {
    const std::lock_guard<std::mutex> lock(drawing);
    if (!shown || shown->finished_)
        return;
    shown->within_ = text("this one %d %%", static_cast<int>(100 * done));
    if (seconds_left >= 0)
        shown->within_ += ", " + timeOf(seconds_left);
    shown->drawIfDue();
}

void Progress::drawIfDue() {
    const auto now = Clock::now();
    if (now - last_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000)))
        return;
    last_ = now;
    if (currentReporting().quiet)
        return;
    drawn_ = true;
    draw("");
}

bool Progress::makeRoom(size_t lines) {
    winsize size = {};
    if (lines < 2 || currentReporting().quiet || ::isatty(STDERR_FILENO) != 1 ||
        ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || lines >= size.ws_row)
        return false;
    std::fputs(std::string(lines, '\n').c_str(), stderr);
    return true;
}

// One among several lines must not wrap, since the cursor moves by lines.
void Progress::draw(const char *end) const {
    const std::string words = printable(line());
    if (!terminal_)
        std::fprintf(stderr, "%s\n", words.c_str());
    else if (lines_below_ > 0)
        std::fprintf(stderr, "\033[%dA\r\033[?7l%s\033[K\033[?7h\033[%dB\r", lines_below_, words.c_str(), lines_below_);
    else
        std::fprintf(stderr, "\r%s\033[K%s", words.c_str(), end);
    std::fflush(stderr);
}

void Progress::finish() {
    const std::lock_guard<std::mutex> lock(drawing);
    shown = shown == this ? nullptr : shown;
    within_.clear();
    if (finished_)
        return;
    finished_ = true;
    if (terminal_ && (drawn_ || lines_below_ > 0))
        draw("\n");
}

LongCalls::LongCalls() {
    cusSetProgress(
        [](void *, double done, double seconds_left) {
            Progress::within(done, seconds_left);
            return static_cast<int>(interrupted());
        },
        nullptr);
}

LongCalls::~LongCalls() {
    cusSetProgress(nullptr, nullptr);
}

void LongCalls::check(cusStatus status) {
    if (status == CUS_ERROR_CANCELLED && interrupted())
        throw Stop(INTERRUPTED, "");
}

} // namespace sample
