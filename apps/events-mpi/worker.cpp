#include "events-mpi/worker.hpp"

#include "cusight/live.h"

#include <algorithm>
#include <cstring>

namespace events_mpi {

Worker::Worker(const Options &options, Recording &recording, const Plan &plan, const FrameShape &shape, cusSpace compute,
               Store *store)
    : options_(options), recording_(recording), plan_(plan), shape_(shape), compute_(compute), store_(store),
      representation_(events::representation(options)) {
    result_.end = UINT64_MAX;
}

Worker::~Worker() {
    cusEventPipelineDestroy(pipeline_);
}

// ---- Frames ------------------------------------------------------------------------------------------------------------

cusStatus Worker::receive(void *user, const cusFrameBatch *batch) {
    auto *self = static_cast<Worker *>(user);
    try {
        self->take(*batch);
        return CUS_OK;
    } catch (...) {
        self->error_ = std::current_exception();
        return CUS_ERROR_IO;
    }
}

void Worker::take(const cusFrameBatch &batch) {
    const cusMat &m = batch.frames[0];
    const size_t row = static_cast<size_t>(m.cols) * cusTypeSize(m.type), rows = static_cast<size_t>(m.rows);
    const char *data = static_cast<const char *>(m.data);
    if (m.step != row) {
        frames_.resize(rows * row);
        for (size_t y = 0; y < rows; ++y)
            std::memcpy(&frames_[y * row], data + y * m.step, row);
        data = frames_.data();
    }
    if (options_.checksum) {
        result_.checksum = cusCrc32c(result_.checksum, data, rows * row);
        result_.checksum_bytes += rows * row;
    }
    if (store_)
        store_->put(base_ + batch.first, data, batch.count);
    delivered_ += batch.count;
    result_.frames += batch.count;
}

// ---- Events ------------------------------------------------------------------------------------------------------------

void Worker::open(const Interval &interval) {
    cusEventPipelineOptions options = cusEventPipelineDefaults();
    options.windowing = plan_.windowing;
    options.compute = compute_;
    options.max_gap = static_cast<uint64_t>(options_.max_gap);
    // Windows by count are numbered from this rank's start, if it can start there.
    base_ = plan_.byCount() && recording_.indexed() ? interval.first : 0;
    options.first_window = interval.first - base_;
    options.end_window = interval.end - base_;
    cusEventPipelineDestroy(pipeline_);
    pipeline_ = nullptr;
    check(cusEventPipelineCreate(&pipeline_, shape_.rows, shape_.cols, &representation_, 1, &options, receive, this));
    delivered_ = pushed_ = 0;
}

// Moves to the interval's first event, or before it.
void Worker::start(const Interval &interval) {
    if (!recording_.indexed()) {
        recording_.rewind();
    } else if (plan_.byCount()) {
        recording_.seek(plan_.first_event + interval.first * plan_.windowing.stride);
    } else if (interval.first == 0) {
        recording_.seek(plan_.first_event);
    } else {
        // An event at the origin, outside all windows that are made, tells the pipeline where time starts.
        const uint16_t zero = 0;
        const uint8_t none = 0;
        const cusEventArrays origin = {&zero, &zero, &none, &plan_.origin, 1, CUS_HOST};
        check(cusEventPipelinePush(pipeline_, &origin));
        recording_.seekMark(
            recording_.markBeforeTime(plan_.origin + static_cast<int64_t>(interval.first * plan_.windowing.stride)));
        if (recording_.position() < plan_.first_event)
            recording_.seek(plan_.first_event);
    }
}

// The events within --range, if events have no numbers.
cusEventArrays Worker::selected(const cusEventArrays &e) const {
    if (recording_.indexed())
        return e;
    const auto low = static_cast<size_t>(std::lower_bound(e.t, e.t + e.count, plan_.from_time) - e.t);
    const auto high = std::max(low, static_cast<size_t>(std::lower_bound(e.t, e.t + e.count, plan_.to_time) - e.t));
    return {e.x + low, e.y + low, e.p + low, e.t + low, high - low, CUS_HOST};
}

void Worker::push(const cusEventArrays &events) {
    const cusStatus status = cusEventPipelinePush(pipeline_, &events);
    if (error_)
        std::rethrow_exception(error_);
    check(status);
    pushed_ += events.count;
}

// Whether the interval needs no later events. Each rank reads on to the first event of the next rank's first window, so
// that together they check every event.
bool Worker::isPast(const Interval &interval, const cusEventArrays &e) const {
    if (interval.end == plan_.windows)
        return !recording_.indexed() && e.count && e.t[e.count - 1] >= plan_.to_time;
    const cusWindowing &w = plan_.windowing;
    const uint64_t end = std::max((interval.end - 1) * w.stride + w.length, interval.end * w.stride + 1);
    if (!plan_.byCount())
        return e.count && e.t[e.count - 1] >= plan_.origin + static_cast<int64_t>(end);
    return (recording_.indexed() ? recording_.position() - plan_.first_event : pushed_) >= end;
}

// Returns false if the recording is damaged or another rank has failed.
bool Worker::make(const Interval &interval, Watch &watch, sample::Progress *progress) {
    open(interval);
    start(interval);
    uint64_t last = UINT64_MAX; // the number of the event after those that may be read
    bool past = false;          // the windows are complete; later events are other ranks' business
    if (recording_.indexed()) {
        const cusWindowing &w = plan_.windowing;
        // One more than there are, to see whether the recording ends with a whole event.
        last = plan_.end_event + (plan_.end_event == recording_.events() && interval.end == plan_.windows);
        if (plan_.byCount() && interval.end < plan_.windows)
            last = std::min(last, plan_.first_event +
                                      std::max((interval.end - 1) * w.stride + w.length, interval.end * w.stride + 1));
    }
    cusEventArrays e;
    while (recording_.position() < last) {
        const uint64_t most = std::min<uint64_t>(Recording::PIECE, last - recording_.position());
        if (!recording_.next(static_cast<size_t>(most), e))
            break;
        read_ += e.count;
        push(selected(e));
        watch.report(read_, result_.frames);
        if (progress) {
            const Watch::Totals sum = watch.totals();
            progress->update(static_cast<long long>(std::min(sum.events, plan_.events)),
                             sample::text("%llu frames", static_cast<unsigned long long>(sum.frames)));
        }
        if (watch.stopped())
            return false;
        past = isPast(interval, e);
        if (past)
            break;
    }
    const bool damaged = !past && !recording_.problem().empty();
    if (damaged && store_)
        store_->endJournal();
    const cusStatus status = cusEventPipelineFlush(pipeline_);
    if (error_)
        std::rethrow_exception(error_);
    check(status);
    cusEventPipelineCounts counts = {};
    check(cusEventPipelineQuery(pipeline_, &counts));
    result_.outside += counts.skipped;
    if (!damaged)
        return true;
    problem_ = recording_.problem();
    result_.end = interval.first + delivered_;
    return false;
}

void Worker::run(const std::vector<Interval> &intervals, Watch &watch, sample::Progress *progress) {
    result_.first = intervals.empty() ? plan_.windows : intervals.front().first;
    for (const Interval &interval : intervals)
        if (!make(interval, watch, progress))
            break;
    watch.report(read_, result_.frames);
    if (store_ && !watch.stopped())
        store_->flush();
}

// ---- Checksums ---------------------------------------------------------------------------------------------------------

namespace {

// A 32 x 32 matrix over GF(2), by columns.
struct Matrix {
    uint32_t column[32];
    uint32_t times(uint32_t vector) const {
        uint32_t sum = 0;
        for (int k = 0; vector; vector >>= 1, ++k)
            sum ^= vector & 1 ? column[k] : 0;
        return sum;
    }
};

Matrix squared(const Matrix &m) {
    Matrix out;
    for (int k = 0; k < 32; ++k)
        out.column[k] = m.times(m.column[k]);
    return out;
}

} // namespace

// Carries the first CRC over as many zero bytes as the second has: a linear map, by repeated squaring.
uint32_t joinChecksums(uint32_t first, uint32_t second, uint64_t second_bytes) {
    Matrix step; // one zero bit
    step.column[0] = 0x82F63B78;
    for (int k = 1; k < 32; ++k)
        step.column[k] = 1u << (k - 1);
    for (int k = 0; k < 3; ++k)
        step = squared(step);
    for (; second_bytes; second_bytes >>= 1) {
        if (second_bytes & 1)
            first = step.times(first);
        step = squared(step);
    }
    return first ^ second;
}

} // namespace events_mpi
