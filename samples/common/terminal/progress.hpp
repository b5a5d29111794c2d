// Progress on stderr: a bar with rate, time left and a note such as the changed share.
#pragma once

#include <chrono>
#include <string>

namespace sample {

class Progress {
  public:
    // total 0: unknown (a camera), so neither bar nor time left. On a terminal, one line is redrawn ten times a second.
    // Otherwise a line is printed every ten seconds, so that the log of a long run shows progress.
    Progress(std::string unit, long long total);
    ~Progress(); // ends the line

    // `done` units are finished. Cheap: redraws only when due.
    void update(long long done, const std::string &note = "");

    // Draws the final state and ends the line. Idempotent.
    void finish();

    double seconds() const; // since construction
    double rate() const;    // units per second since construction

    // The line, without cursor movement.
    std::string line() const;

  private:
    using Clock = std::chrono::steady_clock;
    std::string unit_, note_;
    long long total_, done_ = 0;
    bool terminal_, finished_ = false, drawn_ = false;
    Clock::time_point start_, last_;
};

} // namespace sample
