// Progress on stderr: a bar with rate, time left and a note such as the changed share.
#pragma once

#include "cusight/matrix.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <type_traits>

namespace sample {

class Progress {
  public:
    // total 0: unknown (a camera), so neither bar nor time left. On a terminal, one line is redrawn ten times a second.
    // Otherwise a line is printed every ten seconds, so that the log of a long run shows progress.
    // lines_below: of several lines that are redrawn at once, where this one is: so many above the cursor. See makeRoom.
    Progress(std::string unit, long long total, int lines_below = 0);
    ~Progress(); // ends the line

    // `done` units are finished. Cheap: redraws only when due.
    void update(long long done, const std::string &note = "");

    // Draws the final state and ends the line. Idempotent.
    void finish();

    // Moves the cursor below `lines` new lines, if they fit on the terminal and are more than one. Otherwise, lines_below is 0
    // for each.
    static bool makeRoom(size_t lines);

    double seconds() const; // since construction
    double rate() const;    // units per second since construction

    // The line, without cursor movement.
    std::string line() const;

    // A call of the library on any thread is so far, 0 to 1, with so many seconds left, below 0: unknown. Shown until the next update.
    static void within(double done, double seconds_left);

  private:
    using Clock = std::chrono::steady_clock;
    void draw(const char *end) const;
    void drawIfDue();
    std::string unit_, note_, within_;
    long long total_, done_ = 0;
    int lines_below_;
    bool terminal_, finished_ = false, drawn_ = false;
    Clock::time_point start_, last_;
};

// For longCalls().
class LongCalls {
  public:
    LongCalls();
    ~LongCalls();
    LongCalls(const LongCalls &) = delete;
    LongCalls &operator=(const LongCalls &) = delete;
    // Throws Stop(INTERRUPTED) if the call of this status ended for that.
    static void check(cusStatus status);
};

// Calls `work`, in which the library's long calls say how far they are, and end once the program is interrupted: by Stop(INTERRUPTED),
// which is no failure. Not for what writes a file, which would be lost.
template<class Work>
auto longCalls(Work &&work) {
    const LongCalls calls;
    try {
        if constexpr (std::is_same_v<decltype(work()), cusStatus>) {
            const cusStatus status = work();
            LongCalls::check(status);
            return status;
        } else {
            return work();
        }
    } catch (const cusight::Error &error) {
        LongCalls::check(error.status());
        throw;
    }
}

} // namespace sample
