// One file that all ranks write, each in its own places.
#pragma once

#include "events-mpi/files/journal.hpp"
#include "events-mpi/team.hpp"

#include "common/output.hpp"

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace events_mpi {

// A file until it is complete: beside the output under an unpredictable name, or in the folder of --resume.
class Target {
  public:
    // All ranks together. `name`: of the file in the folder of --resume.
    Target(Team &team, const std::string &path, const Journal &journal, const std::string &name);
    ~Target();
    Target(const Target &) = delete;
    Target &operator=(const Target &) = delete;

    const std::string &path() const { return path_; }
    const std::string &temporary() const { return temporary_; }

    // Called by the first rank.
    void resize(uint64_t bytes) const;
    // Allocates the space, if the file system can, so that a full disk is noticed at the start.
    void reserve(uint64_t bytes) const;
    void commit();

  private:
    std::string path_, temporary_;
    std::unique_ptr<sample::OutputFile> file_; // on the first rank, without --resume
};

// Written through MPI-IO by this rank alone. All functions throw Stop(OUTPUT).
class ParallelFile {
  public:
    ParallelFile() = default;
    ~ParallelFile();
    ParallelFile(const ParallelFile &) = delete;
    ParallelFile &operator=(const ParallelFile &) = delete;

    // `output`: the name in messages.
    void open(const std::string &path, const std::string &output);
    void write(uint64_t offset, const void *data, size_t bytes);
    void sync();
    void close();

  private:
    void require(int code) const;

    std::string path_, output_;
    MPI_File file_ = MPI_FILE_NULL;
};

// Before a signal ends this process, it removes unfinished files. All ranks know their names, since the first may be gone.
enum Removed { UNFINISHED, LOCK };
void removeOnSignal(Removed which, const std::string &path);
void endOnSignals();

} // namespace events_mpi
