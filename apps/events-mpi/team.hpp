// The processes that work together: who they are, how they agree, and how one failure ends all.
#pragma once

#include "common/app.hpp"

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace events_mpi {

// Ends the program quietly: thrown in every rank but the first, which prints what happened.
struct Quiet {
    int code;
};

class Team {
  public:
    Team(int *argc, char ***argv);
    ~Team(); // MPI_Finalize
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    int rank = 0, size = 1;
    int local_rank = 0, local_size = 1; // among the ranks of this host
    std::string host;

    bool first() const { return rank == 0; }
    // "rank 3 on node7: ", or "" if there is only one rank.
    std::string name() const;

    // Runs `step` on all ranks. If it throws anywhere, all ranks leave: the first throws Stop with the first failure's message,
    // the others Quiet.
    void together(const std::function<void()> &step);
    // The same on the first rank only.
    void onFirst(const std::function<void()> &step);

    // Gives the first rank's value to all.
    void share(std::string &text);
    template<class T>
    void share(T &value) {
        MPI_Bcast(&value, static_cast<int>(sizeof value), MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    template<class T>
    void share(std::vector<T> &values) {
        uint64_t count = values.size();
        share(count);
        values.resize(count);
        shareBytes(values.data(), count * sizeof(T));
    }
    // Gives every rank all ranks' values.
    template<class T>
    std::vector<T> all(const T &value) {
        std::vector<T> values(static_cast<size_t>(size));
        MPI_Allgather(&value, static_cast<int>(sizeof(T)), MPI_BYTE, values.data(), static_cast<int>(sizeof(T)), MPI_BYTE,
                      MPI_COMM_WORLD);
        return values;
    }
    // All ranks' values in order, on the first rank.
    template<class T>
    std::vector<T> gather(const std::vector<T> &values) {
        std::vector<uint64_t> counts = all<uint64_t>(values.size());
        std::vector<T> everything;
        if (!first()) {
            sendBytes(values.data(), values.size() * sizeof(T));
            return everything;
        }
        for (int r = 0; r < size; ++r) {
            const size_t at = everything.size();
            everything.resize(at + counts[static_cast<size_t>(r)]);
            if (r == 0)
                std::copy(values.begin(), values.end(), everything.begin());
            else
                receiveBytes(r, everything.data() + at, counts[static_cast<size_t>(r)] * sizeof(T));
        }
        return everything;
    }

  private:
    void agree(int code, const std::string &message);
    static void shareBytes(void *data, size_t bytes);
    static void sendBytes(const void *data, size_t bytes);
    static void receiveBytes(int from, void *data, size_t bytes);
};

// For ranks that work at their own pace: the first learns how far the others are, and all learn when one has failed.
class Watch {
  public:
    explicit Watch(Team &team);

    struct Totals {
        uint64_t events = 0, frames = 0;
    };

    // Reports how far this rank is. Cheap: sends at most ten times a second.
    void report(uint64_t events, uint64_t frames);
    // Whether a rank has failed; leave the work then.
    bool stopped();
    // On the first rank: the sum over all ranks.
    Totals totals() const;

    // Called once by each rank when it is done or has failed (code not 0). The first rank calls `idle` while it waits for
    // the others. Afterwards all ranks know the outcome; throws like Team::together.
    void finish(int code, const std::string &message, const std::function<void()> &idle);

  private:
    struct Message {
        int32_t done, code;
        uint64_t events, frames;
        char text[488];
    };

    void collect();
    void take(int from, const Message &message);
    void tellAll();

    Team &team_;
    Message own_ = {};
    MPI_Request sending_ = MPI_REQUEST_NULL;
    Message sent_ = {};
    std::chrono::steady_clock::time_point last_;
    bool stopped_ = false;
    // Used by the first rank.
    std::vector<Message> known_;
    int failed_ = -1; // the rank that failed first
};

} // namespace events_mpi
