// Event recordings on several devices. Needs no OpenCV.
#pragma once

#include "common/many_devices.hpp"
#include "common/stages.hpp"

#include "cusight/events.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sample {

// A cusEventPipeline on several devices: makes the same frames from a recording of any length. Windows are dealt to the
// devices in turn, in batches of about a million events. These are copied once, into memory that is pinned once. The sink
// gets the batches in window order, in host memory, on the thread that pushes.
class EventDealer {
  public:
    // The options `compute` and `deliver` are ignored: the devices decide. push() and flush() throw errors of the devices.
    EventDealer(const std::vector<Device> &devices, int rows, int cols, const cusRepresentation &representation,
                const cusEventPipelineOptions &options, cusFrameSink sink, void *user);
    ~EventDealer();
    EventDealer(const EventDealer &) = delete;
    EventDealer &operator=(const EventDealer &) = delete;

    // As cusEventPipelinePush, for events in host memory. Returns the sink's status; if that is not CUS_OK, nothing more is
    // done. Throws Stop if times decrease, a window has too many events, too many have none, or a device fails.
    cusStatus push(const cusEventArrays &events);

    // Makes the last windows and delivers all frames. Nothing can be pushed after it.
    cusStatus flush();

    // Events outside the frame, as cusEventStackerSkipped. Ends the work, so call it last.
    uint64_t skipped();

    // How long the devices have worked in total; for GPUs, the time to queue their work. Call it after skipped().
    double computingSeconds() const;

  private:
    static constexpr int ARRAYS = 4; // x, y, p, t
    // Some windows and their events. The host fills it; it always goes to the same device.
    struct Job;
    class Stacker;
    // Events of the recording from number `start`; `t` may be NULL if times are not used.
    struct View {
        const void *array[ARRAYS];
        uint64_t start;
        size_t count;
    };

    bool byDuration() const { return options_.windowing.unit == CUS_WINDOW_DURATION; }
    uint64_t startOf(uint64_t window) const { return window * options_.windowing.stride; }
    size_t indexOf(const View &view, uint64_t at) const;
    size_t readyWindows(uint64_t extent, bool last) const;
    View filled() const;
    size_t take(const View &rest);
    void append(const View &view, size_t count);
    size_t inOrder(const cusEventArrays &events, std::string &problem);
    uint64_t extent(bool last) const;
    void deliverFinished();
    bool dealWindows(size_t count);
    bool freeJob();
    bool deliver();
    void chooseBatch(size_t frame_bytes);
    void reserve(Job &job, size_t events) const;

    const std::vector<Device> devices_;
    const int rows_, cols_;
    cusEventPipelineOptions options_;
    const cusFrameSink sink_;
    void *const user_;
    const cusRepresentation representation_;
    int arrays_ = ARRAYS; // 3 without times
    int type_ = 0;
    size_t batch_ = 1, limit_ = 0;           // windows of a job; events of a window
    std::vector<std::unique_ptr<Job>> jobs_; // a ring: job k is jobs_[k % size]
    std::vector<uint64_t> skipped_;          // by each device
    std::vector<Stopwatch> computing_;       // by each device
    size_t dealt_ = 0, taken_ = 0;
    uint64_t pushed_ = 0;
    int64_t origin_ = 0, newest_ = 0;
    cusStatus stopped_ = CUS_OK;
    std::unique_ptr<Dealer<Job *>> dealer_; // last, since its threads use all of the above
};

} // namespace sample
