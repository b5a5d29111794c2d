// Progress on stderr: a bar with rate, time left and a note such as the changed share.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

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

  private:
    using Clock = std::chrono::steady_clock;
    void draw(const char *end) const;
    std::string unit_, note_;
    long long total_, done_ = 0;
    int lines_below_;
    bool terminal_, finished_ = false, drawn_ = false;
    Clock::time_point start_, last_;
};

} // namespace sample
