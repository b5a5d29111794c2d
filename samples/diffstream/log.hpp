// Log lines that never hold up the thread that writes them.
#pragma once

#include <memory>
#include <string>
#include <thread>

namespace diffstream {

// Whether stderr accepts a line without waiting. For lines that may be dropped, such as progress.
bool stderrAccepts();

// One thread writes the lines. If its file accepts nothing, lines are lost once QUEUE of them wait. Of lines that differ
// only in digits, at most PER_SECOND are written a second, then "N more like this".
class Log {
  public:
    static constexpr size_t QUEUE = 256, KINDS = 64;
    static constexpr int PER_SECOND = 10;

    explicit Log(int file = 2);
    // Waits for the queued lines, at most a second.
    ~Log();
    Log(const Log &) = delete;
    Log &operator=(const Log &) = delete;

    // Writes "who: what". Any thread; never blocks.
    void line(const std::string &who, const std::string &what);

  private:
    struct State;
    std::shared_ptr<State> state_; // the thread may outlive the object, if its file blocks
    std::thread thread_;
};

} // namespace diffstream
