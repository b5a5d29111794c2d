#include "common/terminal/progress.hpp"

#include "common/app.hpp"

#include <cmath>
#include <algorithm>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

namespace sample {

Progress::Progress(std::string unit, long long total, int lines_below)
    : unit_(std::move(unit)), total_(total), lines_below_(lines_below), terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()), last_(start_) {}

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
    out += text("  %.1f/s", rate());
    if (total_ > done_ && done_ > 0) {
        const long long left = std::llround(static_cast<double>(total_ - done_) / rate());
        out += text("  %lld:%02lld left", left / 60, left % 60);
    }
    return note_.empty() ? out : out + "  " + note_;
}

void Progress::update(long long done, const std::string &note) {
    done_ = done;
    note_ = note;
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
    if (finished_)
        return;
    finished_ = true;
    if (terminal_ && (drawn_ || lines_below_ > 0))
        draw("\n");
}

} // namespace sample
