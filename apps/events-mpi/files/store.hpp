// Stores the frames: each rank writes its own, and the file gets its name once all are written.
#pragma once

#include "events-mpi/files/journal.hpp"
#include "events-mpi/options.hpp"
#include "events-mpi/plan.hpp"
#include "events-mpi/team.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace events_mpi {

struct FrameShape {
    int rows, cols, type;
    size_t bytes; // a frame
};

class Store {
  public:
    virtual ~Store() = default;
    // Takes frames of consecutive windows. Throws Stop(OUTPUT).
    virtual void put(uint64_t first, const char *frames, size_t count) = 0;
    // This rank has stored its last frame.
    virtual void flush() = 0;
    // The recording is damaged: later frames may be incomplete and are not kept for --resume.
    virtual void endJournal() = 0;
    // All ranks together: completes the file, which has frames 0 .. frames - 1.
    virtual void finish(Team &team, uint64_t frames) = 0;
};

// All ranks together. Only one run at a time may write `output`; throws Stop(OUTPUT) if another one does.
class OutputLock {
  public:
    OutputLock(Team &team, const std::string &output);
    ~OutputLock();
    OutputLock(const OutputLock &) = delete;
    OutputLock &operator=(const OutputLock &) = delete;

  private:
    void take();

    std::string output_, name_;
    int file_ = -1;
};

// All ranks together.
std::unique_ptr<Store> makeStore(Team &team, const Options &options, const FrameShape &shape, const Plan &plan,
                                 Journal &journal);

} // namespace events_mpi
