// One rank's work: decodes its part of the recording, makes the frames, and stores them.
#pragma once

#include "events-mpi/plan.hpp"
#include "events-mpi/files/recording.hpp"
#include "events-mpi/files/store.hpp"
#include "events-mpi/team.hpp"

#include "common/terminal/progress.hpp"

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace events_mpi {

// The work of a rank. Plain data.
struct Result {
    uint64_t frames, outside; // frames stored; events outside them
    uint64_t first, end;      // damaged recording: the windows before `end` are complete; otherwise end is UINT64_MAX
    uint64_t checksum_bytes;
    uint32_t checksum; // over the frames put, in order
};

class Worker {
  public:
    // `store`: may be null.
    Worker(const Options &options, Recording &recording, const Plan &plan, const FrameShape &shape, cusSpace compute,
           Store *store);
    ~Worker();
    Worker(const Worker &) = delete;
    Worker &operator=(const Worker &) = delete;

    // Throws sample::Stop. Returns early if another rank has failed.
    void run(const std::vector<Interval> &intervals, Watch &watch, sample::Progress *progress);

    const Result &result() const { return result_; }
    // Why the recording ends early, or "".
    const std::string &problem() const { return problem_; }

  private:
    static cusStatus receive(void *user, const cusFrameBatch *batch);
    void take(const cusFrameBatch &batch);
    bool make(const Interval &interval, Watch &watch, sample::Progress *progress);
    bool makeOfBytes(const Interval &interval, uint64_t end, Watch &watch, sample::Progress *progress);
    bool finish(const Interval &interval, bool damaged, bool past);
    void report(Watch &watch, sample::Progress *progress);
    void open(const Interval &interval, uint64_t first_event, const cusEventDecoderOptions *decoder);
    void start(const Interval &interval);
    bool startBytes(const Interval &interval, uint64_t *end);
    uint64_t endOf(const Interval &interval) const;
    void push(const cusEventArrays &events);
    bool isPast(const Interval &interval, const cusEventArrays &events) const;
    cusEventArrays selected(const cusEventArrays &events) const;

    const Options &options_;
    Recording &recording_;
    const Plan &plan_;
    const FrameShape shape_;
    const cusSpace compute_;
    Store *const store_;
    const cusRepresentation representation_;
    cusEventPipeline *pipeline_ = nullptr;
    uint64_t start_ = 0;     // bytes: the number of the first event decoded
    uint64_t delivered_ = 0; // windows of this interval
    uint64_t pushed_ = 0, read_ = 0;
    std::vector<char> frames_; // a packed batch, if its rows have gaps
    std::exception_ptr error_;
    Result result_ = {};
    std::string problem_;
};

// The CRC-32C of two concatenated strings of bytes, from their CRCs and the length of the second.
uint32_t joinChecksums(uint32_t first, uint32_t second, uint64_t second_bytes);

} // namespace events_mpi
