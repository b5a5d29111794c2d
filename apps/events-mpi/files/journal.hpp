// The state of a run that --resume needs, in the folder OUTPUT.resume:
//   run              what determines the output: version, input, options. Another run may continue only if all are the same
//   frames           the frames, at their places (not compressed)
//   frames.N.R       frames of rank R in run number N, as they came (compressed)
//   done.N.R         one record for each complete frame, written once the frame is on the disk
// Without --resume nothing is kept, and all functions do nothing.
#pragma once

#include "events-mpi/team.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace events_mpi {

struct Done {
    uint64_t window;
    uint64_t offset; // in its file
    uint32_t bytes;
    uint32_t run, rank; // frames.RUN.RANK
    uint32_t check;
};

class Journal {
  public:
    // All ranks together. `fingerprint`: the contents of the file `run`. Unless --overwrite is given, throws Stop(INPUT) if an
    // earlier run had another one, and Stop(OUTPUT) if the folder is somebody else's.
    Journal(Team &team, bool active, const std::string &output, const std::string &fingerprint);
    ~Journal();
    Journal(const Journal &) = delete;
    Journal &operator=(const Journal &) = delete;

    bool active() const { return active_; }
    const std::string &folder() const { return folder_; }
    uint32_t run() const { return run_; }
    // Frames of earlier runs, in order of windows, each once.
    const std::vector<Done> &earlier() const { return earlier_; }
    std::string framesFile(uint32_t run, uint32_t rank) const;

    // The frame has been written; it counts once it is on the disk.
    void add(uint64_t window, uint64_t offset, uint32_t bytes);
    // Frames added from now on do not count.
    void end() { ended_ = true; }
    // Whether it is time to store the added records: call commit() once the frames are on the disk.
    bool due() const;
    void commit();
    // Called by one rank once the output is complete. Removes nothing else from the folder.
    void remove();

  private:
    [[noreturn]] void refuse(const std::string &fingerprint) const;
    void load();

    const bool active_;
    std::string output_, folder_;
    uint32_t run_ = 0, rank_ = 0;
    std::vector<Done> earlier_, pending_;
    int file_ = -1;
    bool ended_ = false;
    std::chrono::steady_clock::time_point last_;
};

// Identifies the content of a recording: its size, its time of change, and a CRC-32C of samples from all of it.
std::string fingerprintOf(const std::string &path);

} // namespace events_mpi
