#include "common/events/dealer.hpp"

#include "cusight/cusight.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

namespace sample {

namespace {

using cusight::check;

const int ARRAY_TYPES[] = {CUS_16UC1, CUS_16UC1, CUS_8UC1, CUS_64FC1}; // t is int64_t, as wide as 64F
const size_t ARRAY_BYTES[] = {2, 2, 1, 8};

constexpr size_t JOB_EVENTS = size_t{1} << 20;      // minimum number of events in a job, if its windows allow it
constexpr size_t JOB_FRAME_BYTES = size_t{8} << 20; // maximum size of its frames, unless one is larger
constexpr size_t STEP = size_t{1} << 18;            // events examined between two jobs
constexpr size_t DEPTH = 3;                         // jobs per device: one each to upload, to compute and to download

cusMat part(const cusMat &mat, int cols, int rows) {
    cusMat region = CUS_MAT_INIT;
    check(cusMatRegion(&mat, 0, 0, cols, rows, &region));
    return region;
}

bool usesTimes(const cusRepresentation &r) {
    return r.kind == CUS_REPR_TENCODE || r.kind == CUS_REPR_STACKED_HISTOGRAM || r.kind == CUS_REPR_VOXEL_GRID ||
           r.kind == CUS_REPR_TIME_SURFACE || r.kind == CUS_REPR_EVENT_CUBE || r.kind == CUS_REPR_MDES_DIFF;
}

} // namespace

// ---- Job: what the host fills and a device works on ----------------------------------------------------------------------

struct EventDealer::Job {
    // Host; pinned if a GPU computes.
    cusMat events[ARRAYS] = {};
    cusMat frames = CUS_MAT_INIT;
    // Device; unused on the CPU.
    cusMat device_events[ARRAYS] = {};
    cusMat device_frames = CUS_MAT_INIT;
    cusStreamEvent uploaded = nullptr, computed = nullptr, downloaded = nullptr;

    uint64_t start = 0;                  // number of the first event in the recording
    size_t count = 0;                    // events
    uint64_t first = 0;                  // number of the first window
    std::vector<cusEventWindow> windows; // events counted from `start`

    Job() = default;
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;
    ~Job() {
        for (int k = 0; k < ARRAYS; ++k) {
            cusMatRelease(&events[k]);
            cusMatRelease(&device_events[k]);
        }
        cusMatRelease(&frames);
        cusMatRelease(&device_frames);
        for (cusStreamEvent e : {uploaded, computed, downloaded})
            cusStreamEventDestroy(e);
    }
};

// ---- Stacker: one device, on its thread ------------------------------------------------------------------------------------

class EventDealer::Stacker {
  public:
    Stacker(const EventDealer &dealer, const Device &device, uint64_t &skipped)
        : dealer_(dealer), cuda_(device.space == CUS_DEVICE), skipped_(skipped) {
        if (cuda_)
            for (cusStream *stream : {&up_, &run_, &down_})
                check(cusStreamCreate(stream));
        check(cusEventStackerCreate(&stacker_, dealer.rows_, dealer.cols_, device.space, &dealer.representation_, 1));
    }
    ~Stacker() {
        for (cusStream stream : {up_, run_, down_})
            if (stream)
                cusStreamSynchronize(stream);
        if (stacker_)
            cusEventStackerSkipped(stacker_, &skipped_, run_);
        cusEventStackerDestroy(stacker_);
        for (cusStream stream : {up_, run_, down_})
            cusStreamDestroy(stream);
    }
    Stacker(const Stacker &) = delete;
    Stacker &operator=(const Stacker &) = delete;

    // Makes the job's frames, on a GPU in the background until job.downloaded.
    void run(Job &job) {
        cusMat frames = part(cuda_ ? prepared(job).device_frames : job.frames, dealer_.cols_,
                             static_cast<int>(job.windows.size()) * dealer_.rows_);
        if (cuda_)
            upload(job);
        const cusMat *const mats = cuda_ ? job.device_events : job.events;
        const cusEventArrays events = {static_cast<const uint16_t *>(mats[0].data),
                                       static_cast<const uint16_t *>(mats[1].data),
                                       static_cast<const uint8_t *>(mats[2].data),
                                       static_cast<const int64_t *>(mats[3].data),
                                       job.count,
                                       cuda_ ? CUS_DEVICE : CUS_HOST};
        check(cusEventStack(stacker_, &events, job.windows.data(), job.windows.size(), &frames, run_));
        if (!cuda_)
            return;
        check(cusStreamEventRecord(job.computed, run_));
        check(cusStreamWaitEvent(down_, job.computed));
        cusMat to = part(job.frames, dealer_.cols_, frames.rows);
        check(cusMatDownload(&frames, &to, down_));
        check(cusStreamEventRecord(job.downloaded, down_));
    }

  private:
    // Gives the job device memory for as many events and frames as it has on the host.
    Job &prepared(Job &job) const {
        for (cusStreamEvent *event : {&job.uploaded, &job.computed, &job.downloaded})
            if (!*event)
                check(cusStreamEventCreate(event));
        for (int k = 0; k < dealer_.arrays_; ++k)
            check(cusMatCreate(&job.device_events[k], 1, job.events[k].cols, ARRAY_TYPES[k], CUS_DEVICE));
        check(cusMatCreate(&job.device_frames, job.frames.rows, dealer_.cols_, dealer_.type_, CUS_DEVICE));
        return job;
    }

    void upload(Job &job) {
        for (int k = 0; k < dealer_.arrays_ && job.count > 0; ++k) {
            const cusMat from = part(job.events[k], static_cast<int>(job.count), 1);
            cusMat to = part(job.device_events[k], static_cast<int>(job.count), 1);
            check(cusMatUpload(&from, &to, up_));
        }
        check(cusStreamEventRecord(job.uploaded, up_));
        check(cusStreamWaitEvent(run_, job.uploaded));
    }

    const EventDealer &dealer_;
    const bool cuda_;
    uint64_t &skipped_;
    cusEventStacker *stacker_ = nullptr;
    cusStream up_ = nullptr, run_ = nullptr, down_ = nullptr;
};

// ---- EventDealer -----------------------------------------------------------------------------------------------------------

EventDealer::EventDealer(const std::vector<Device> &devices, int rows, int cols, const cusRepresentation &representation,
                         const cusEventPipelineOptions &options, cusFrameSink sink, void *user)
    : devices_(devices), rows_(rows), cols_(cols), options_(options), sink_(sink), user_(user),
      representation_(representation), skipped_(devices.size()), computing_(devices.size()) {
    cusWindowing &w = options_.windowing;
    w.stride = w.stride ? w.stride : w.length;
    options_.max_gap = options_.max_gap ? options_.max_gap : 1000;
    check(cusRepresentationType(&representation, &type_));
    arrays_ = byDuration() || usesTimes(representation) ? ARRAYS : ARRAYS - 1;
    chooseBatch(static_cast<size_t>(rows) * static_cast<size_t>(cols) * cusTypeSize(type_));
    // By duration a window may have more, up to limit_; the job then grows.
    const uint64_t room = byDuration() ? JOB_EVENTS + STEP : (batch_ - 1) * w.stride + w.length;
    const bool pinned = devices.front().space == CUS_DEVICE;
    const int frame_rows = static_cast<int>(batch_) * rows;
    while (jobs_.size() < DEPTH * devices.size()) {
        Job &job = *jobs_.emplace_back(std::make_unique<Job>());
        reserve(job, static_cast<size_t>(std::min<uint64_t>(room, 4 * JOB_EVENTS)));
        check(pinned ? cusMatCreatePinned(&job.frames, frame_rows, cols, type_)
                     : cusMatCreate(&job.frames, frame_rows, cols, type_, CUS_HOST));
    }
    jobs_.front()->first = options.first_window;
    dealer_ = std::make_unique<Dealer<Job *>>(devices_, DEPTH, [this](size_t k) {
        const auto stacker = std::make_shared<Stacker>(*this, devices_[k], skipped_[k]);
        return [stacker, &watch = computing_[k]](Job *job) { watch([&] { stacker->run(*job); }); };
    });
}

EventDealer::~EventDealer() = default;

void EventDealer::chooseBatch(size_t frame_bytes) {
    const cusWindowing &w = options_.windowing;
    uint64_t batch = options_.batch_windows ? options_.batch_windows : JOB_FRAME_BYTES / frame_bytes;
    if (!byDuration()) // as many windows as begin within a job
        batch = std::min<uint64_t>(batch, JOB_EVENTS > w.length ? (JOB_EVENTS - w.length) / w.stride + 1 : 1);
    batch = std::min<uint64_t>(batch, static_cast<uint64_t>(INT32_MAX / rows_));
    batch_ = static_cast<size_t>(std::clamp<uint64_t>(batch, 1, 4096));
    limit_ = options_.max_events ? options_.max_events : size_t{4} << 20;
    if (!byDuration())
        limit_ = static_cast<size_t>(std::max<uint64_t>(limit_, w.length));
}

// Makes room for `events` and keeps what the job holds.
void EventDealer::reserve(Job &job, size_t events) const {
    const auto room = static_cast<size_t>(job.events[0].cols);
    if (events <= room)
        return;
    const int cols = static_cast<int>(std::min<size_t>(INT32_MAX - 1, std::max(events, 2 * room)));
    for (int k = 0; k < arrays_; ++k) {
        cusMat larger = CUS_MAT_INIT;
        check(devices_.front().space == CUS_DEVICE ? cusMatCreatePinned(&larger, 1, cols, ARRAY_TYPES[k])
                                                   : cusMatCreate(&larger, 1, cols, ARRAY_TYPES[k], CUS_HOST));
        if (job.count)
            std::memcpy(larger.data, job.events[k].data, job.count * ARRAY_BYTES[k]);
        std::swap(larger, job.events[k]);
        cusMatRelease(&larger);
    }
}

// ---- Windows ---------------------------------------------------------------------------------------------------------------

// Index in the view of the event that is `at` events or microseconds after the recording's first; view.count if it has not
// arrived.
size_t EventDealer::indexOf(const View &view, uint64_t at) const {
    if (byDuration()) {
        const auto *const t = static_cast<const int64_t *>(view.array[3]);
        const auto before = [this](int64_t time, uint64_t offset) {
            return static_cast<uint64_t>(time) - static_cast<uint64_t>(origin_) < offset;
        };
        return static_cast<size_t>(std::lower_bound(t, t + view.count, at, before) - t);
    }
    const uint64_t past = at > view.start ? at - view.start : 0;
    return static_cast<size_t>(std::min<uint64_t>(past, view.count));
}

// The number of the job's windows that are complete when the recording is known up to `extent` events or microseconds; at
// most a batch. `last`: it ends there.
size_t EventDealer::readyWindows(uint64_t extent, bool last) const {
    const cusWindowing &w = options_.windowing;
    uint64_t end = extent >= w.length ? (extent - w.length) / w.stride + 1 : 0;
    end += last && w.keep_incomplete && end * w.stride < extent;
    if (options_.end_window)
        end = std::min(end, options_.end_window);
    const uint64_t first = jobs_[dealt_ % jobs_.size()]->first;
    return static_cast<size_t>(std::min<uint64_t>(batch_, end > first ? end - first : 0));
}

EventDealer::View EventDealer::filled() const {
    const Job &job = *jobs_[dealt_ % jobs_.size()];
    return {{job.events[0].data, job.events[1].data, job.events[2].data, job.events[3].data}, job.start, job.count};
}

void EventDealer::append(const View &view, size_t count) {
    Job &job = *jobs_[dealt_ % jobs_.size()];
    reserve(job, job.count + count);
    for (int k = 0; k < arrays_ && count > 0; ++k)
        std::memcpy(static_cast<char *>(job.events[k].data) + job.count * ARRAY_BYTES[k], view.array[k],
                    count * ARRAY_BYTES[k]);
    job.count += count;
}

// Waits until the next job of the ring is free, and delivers the oldest one if necessary. Returns false if the sink has
// stopped.
bool EventDealer::freeJob() {
    return dealt_ + 1 - taken_ < jobs_.size() || deliver();
}

// Deals the current job with its first `count` windows; events of later windows move to the next job. Returns false if the
// sink has stopped.
bool EventDealer::dealWindows(size_t count) {
    if (!freeJob())
        return false;
    Job &job = *jobs_[dealt_ % jobs_.size()];
    const View view = filled();
    job.windows.clear();
    for (uint64_t w = job.first; w < job.first + count; ++w)
        job.windows.push_back({indexOf(view, startOf(w)), indexOf(view, startOf(w) + options_.windowing.length)});
    const uint64_t first = job.first + count;
    const size_t from = indexOf(view, startOf(first));
    job.count = static_cast<size_t>(job.windows.back().last);
    const bool dealt = dealer_->deal(&job); // the device only reads its events
    ++dealt_;
    Job &next = *jobs_[dealt_ % jobs_.size()];
    next.first = first;
    next.start = view.start + from;
    next.count = 0;
    View left = view;
    for (int k = 0; k < arrays_; ++k)
        left.array[k] = static_cast<const char *>(view.array[k]) + from * ARRAY_BYTES[k];
    append(left, view.count - from);
    while (!dealt) // its worker has failed
        if (!deliver())
            return false;
    return true;
}

// Gives the frames of the oldest job to the sink. Returns false if the sink has stopped.
bool EventDealer::deliver() {
    Job *job = nullptr;
    if (stopped_ != CUS_OK || !dealer_->next(job))
        return false;
    try {
        if (job->downloaded)
            check(cusStreamEventSynchronize(job->downloaded));
    } catch (...) {
        rethrow(std::current_exception(), devices_[taken_ % devices_.size()], devices_.size());
    }
    ++taken_;
    for (cusEventWindow &w : job->windows)
        w = {w.first + job->start, w.last + job->start};
    const cusMat frames = part(job->frames, cols_, static_cast<int>(job->windows.size()) * rows_);
    const cusFrameBatch batch = {&frames, 1, -1, job->first, job->windows.size(), job->windows.data(), nullptr};
    stopped_ = sink_(user_, &batch);
    if (stopped_ != CUS_OK)
        dealer_->stop();
    return stopped_ == CUS_OK;
}

// ---- Push and flush --------------------------------------------------------------------------------------------------------

// Adds as many of `rest`'s first events as the current job needs, and deals it when it is full. Returns how many.
size_t EventDealer::take(const View &rest) {
    const Job &job = *jobs_[dealt_ % jobs_.size()];
    if (options_.end_window && job.first >= options_.end_window)
        return rest.count;
    if (job.count == 0)
        if (const size_t passed_over = indexOf(rest, startOf(job.first))) {
            jobs_[dealt_ % jobs_.size()]->start = rest.start + passed_over;
            return passed_over;
        }
    uint64_t last = job.first + batch_ - 1;
    if (options_.end_window)
        last = std::min(last, options_.end_window - 1);
    const size_t count = indexOf(rest, startOf(last) + options_.windowing.length);
    if (job.count == 0)
        jobs_[dealt_ % jobs_.size()]->start = rest.start;
    append(rest, count);
    uint64_t extent = rest.start + count;
    if (byDuration()) { // up to the first event past all windows; another event with its time may follow
        const auto *const t = static_cast<const int64_t *>(rest.array[3]);
        extent = static_cast<uint64_t>(t[std::min(count, rest.count - 1)]) - static_cast<uint64_t>(origin_);
    }
    const size_t ready = readyWindows(extent, false);
    if (ready == 0 && job.count > limit_)
        throw Stop(FAILED, "cusEventPipelinePush: window " + std::to_string(job.first) +
                               " has more than max_events = " + std::to_string(limit_) + " events");
    if (ready > 0 && (job.first + ready > last || job.count >= JOB_EVENTS))
        dealWindows(ready);
    return count;
}

// How far the recording is known, in events or microseconds. `last`: it ends there.
uint64_t EventDealer::extent(bool last) const {
    if (pushed_ == 0 || !byDuration())
        return pushed_;
    return static_cast<uint64_t>(newest_) - static_cast<uint64_t>(origin_) + (last ? 1 : 0);
}

// Delivers finished frames. An idle CPU also gets what is ready, since a slow source should not have to fill whole batches.
// GPUs always get whole batches, as in a pipeline.
void EventDealer::deliverFinished() {
    while (taken_ < dealt_ && dealer_->ready() && deliver()) {
    }
    if (taken_ == dealt_ && stopped_ == CUS_OK)
        if (const size_t ready = readyWindows(extent(false), false))
            dealWindows(ready);
}

// Returns the number of events before a decrease or a gap that is not wanted: what follows is not used.
size_t EventDealer::inOrder(const cusEventArrays &events, std::string &problem) {
    const cusWindowing &w = options_.windowing;
    const uint64_t most = options_.max_gap;
    const uint64_t limit = most > (UINT64_MAX - w.length) / w.stride ? UINT64_MAX : most * w.stride + w.length;
    for (size_t i = 0; i < events.count; ++i) {
        const int64_t t = events.t[i];
        if (t < newest_) {
            problem = "times decrease from " + std::to_string(newest_) + " to " + std::to_string(t) + " at event " +
                      std::to_string(pushed_ + i);
            return i;
        }
        if (static_cast<uint64_t>(t) - static_cast<uint64_t>(newest_) > limit) {
            const uint64_t to = static_cast<uint64_t>(t) - static_cast<uint64_t>(origin_);
            const uint64_t first = (static_cast<uint64_t>(newest_) - static_cast<uint64_t>(origin_)) / w.stride + 1;
            const uint64_t end = to >= w.length ? (to - w.length) / w.stride + 1 : 0;
            const bool wanted = end > options_.first_window && (!options_.end_window || first < options_.end_window);
            if (end > first && end - first > most && wanted) {
                problem = std::to_string(end - first) + " windows in a row have no events, from " +
                          std::to_string(newest_) + " to " + std::to_string(t) + " us, expected at most --max-gap " +
                          std::to_string(most);
                return i;
            }
        }
        newest_ = t;
    }
    return events.count;
}

cusStatus EventDealer::push(const cusEventArrays &events) {
    size_t good = events.count;
    if (good && pushed_ == 0 && arrays_ == ARRAYS)
        origin_ = newest_ = events.t[0];
    std::string problem;
    if (byDuration())
        good = inOrder(events, problem);
    for (size_t at = 0; at < good && stopped_ == CUS_OK;) {
        const View rest = {{events.x + at, events.y + at, events.p + at, events.t ? events.t + at : nullptr},
                           pushed_,
                           std::min(good - at, STEP)};
        const size_t taken = take(rest);
        at += taken;
        pushed_ += taken;
    }
    if (stopped_ == CUS_OK && good < events.count)
        throw Stop(FAILED, "cusEventPipelinePush: " + problem);
    if (stopped_ == CUS_OK && devices_.front().space == CUS_HOST)
        deliverFinished();
    return stopped_;
}

cusStatus EventDealer::flush() {
    while (stopped_ == CUS_OK) {
        const size_t ready = readyWindows(extent(true), true);
        if (ready == 0)
            break;
        dealWindows(ready);
    }
    dealer_->finish();
    while (deliver()) {
    }
    return stopped_;
}

uint64_t EventDealer::skipped() {
    dealer_->stop();
    dealer_->join();
    uint64_t sum = 0;
    for (const uint64_t each : skipped_)
        sum += each;
    return sum;
}

double EventDealer::computingSeconds() const {
    return std::accumulate(computing_.begin(), computing_.end(), 0.0,
                           [](double sum, const Stopwatch &each) { return sum + each.seconds; });
}

} // namespace sample
