#include "common/terminal/progress.hpp"

#include "common/app.hpp"

#include <cmath>
#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace sample {

Progress::Progress(std::string unit, long long total)
    : unit_(std::move(unit)), total_(total), terminal_(::isatty(STDERR_FILENO) == 1), start_(Clock::now()), last_(start_) {}

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
    std::fprintf(stderr, terminal_ ? "\r%s\033[K" : "%s\n", line().c_str());
    std::fflush(stderr);
}

void Progress::finish() {
    if (finished_)
        return;
    finished_ = true;
    if (terminal_ && drawn_)
        std::fprintf(stderr, "\r%s\033[K\n", line().c_str());
}

} // namespace sample
