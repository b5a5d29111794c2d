#include "events-mpi/worker.hpp"

#include "cusight/live.h"

#include <algorithm>
#include <chrono>
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
        store_->put(batch.first, data, batch.count);
    delivered_ += batch.count;
    result_.frames += batch.count;
}

// ---- Events ------------------------------------------------------------------------------------------------------------

// Creates the pipeline of an interval. `first_event`: the number of the event that is pushed first. decoder: null if events are pushed.
void Worker::open(const Interval &interval, uint64_t first_event, const cusEventDecoderOptions *decoder) {
    cusEventPipelineOptions options = cusEventPipelineDefaults();
    options.windowing = plan_.windowing;
    options.compute = compute_;
    options.max_gap = static_cast<uint64_t>(options_.max_gap);
    options.first_window = interval.first;
    options.end_window = interval.end;
    options.first_event = first_event;
    options.origin = plan_.origin;
    options.decoder = decoder;
    cusEventPipelineDestroy(pipeline_);
    pipeline_ = nullptr;
    check(cusEventPipelineCreate(&pipeline_, shape_.rows, shape_.cols, &representation_, 1, &options, receive, this));
    delivered_ = pushed_ = 0;
}

// Moves to the interval's first event, or before it.
void Worker::start(const Interval &interval) {
    const uint64_t first = interval.first * plan_.windowing.stride;
    if (!recording_.indexed()) {
        recording_.rewind();
    } else if (plan_.byCount()) {
        recording_.seek(plan_.first_event + first);
    } else if (interval.first == 0) {
        recording_.seek(plan_.first_event);
    } else {
        recording_.seekMark(recording_.markBeforeTime(plan_.origin + static_cast<int64_t>(first)));
        if (recording_.position() < plan_.first_event)
            recording_.seek(plan_.first_event);
    }
    open(interval, recording_.indexed() ? recording_.position() - plan_.first_event : 0, nullptr);
}

// The same for the recording's bytes, if nothing but the pipeline needs the events: it decodes them then, on a GPU many times faster.
// Returns false if it cannot. *end: the byte up to which the interval needs them, about.
bool Worker::startBytes(const Interval &interval, uint64_t *end) {
    if (options_.from > 0 || options_.to >= 0)
        return false;
    const auto markAt = [this](uint64_t at) { // in events or microseconds from the origin
        return plan_.byCount() ? recording_.markBefore(at)
                               : recording_.markBeforeTime(plan_.origin + static_cast<int64_t>(at));
    };
    *end = UINT64_MAX;
    if (recording_.indexed() && interval.end < plan_.windows)
        *end = recording_.marks()[std::min(markAt(endOf(interval)) + 1, recording_.marks().size() - 1)].offset;
    if (recording_.indexed() && interval.first > 0)
        recording_.seekMark(markAt(interval.first * plan_.windowing.stride));
    else
        recording_.rewind();
    cusEventDecoderOptions options = {};
    cusEventDecoderState state = {};
    if (!recording_.decoder(options, state))
        return false;
    open(interval, state.index, &options);
    check(cusEventDecoderSetState(cusEventPipelineDecoder(pipeline_), &state));
    start_ = state.index;
    return true;
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

// Where an interval's last window and the first event of the next rank's first window are over, in events or microseconds from the
// origin. Each rank reads that far, so that together they check every event.
uint64_t Worker::endOf(const Interval &interval) const {
    const cusWindowing &w = plan_.windowing;
    return std::max((interval.end - 1) * w.stride + w.length, interval.end * w.stride + 1);
}

// Whether the interval needs no later events.
bool Worker::isPast(const Interval &interval, const cusEventArrays &e) const {
    if (interval.end == plan_.windows)
        return !recording_.indexed() && e.count && e.t[e.count - 1] >= plan_.to_time;
    const uint64_t end = endOf(interval);
    if (!plan_.byCount())
        return e.count && e.t[e.count - 1] >= plan_.origin + static_cast<int64_t>(end);
    return (recording_.indexed() ? recording_.position() - plan_.first_event : pushed_) >= end;
}

void Worker::report(Watch &watch, sample::Progress *progress) {
    watch.report(read_, result_.frames);
    if (!progress)
        return;
    const Watch::Totals sum = watch.totals();
    progress->update(static_cast<long long>(std::min(sum.events, plan_.events)),
                     sample::text("%llu frames", static_cast<unsigned long long>(sum.frames)));
}

// Returns false if the recording is damaged or another rank has failed.
bool Worker::make(const Interval &interval, Watch &watch, sample::Progress *progress) {
    uint64_t end = 0;
    if (startBytes(interval, &end))
        return makeOfBytes(interval, end, watch, progress);
    start(interval);
    uint64_t last = UINT64_MAX; // the number of the event after those that may be read
    bool past = false;          // the windows are complete; later events are other ranks' business
    if (recording_.indexed()) {
        // One more than there are, to see whether the recording ends with a whole event.
        last = plan_.end_event + (plan_.end_event == recording_.events() && interval.end == plan_.windows);
        if (plan_.byCount() && interval.end < plan_.windows)
            last = std::min(last, plan_.first_event + endOf(interval));
    }
    cusEventArrays e;
    while (recording_.position() < last) {
        const uint64_t most = std::min<uint64_t>(Recording::PIECE, last - recording_.position());
        if (!recording_.next(static_cast<size_t>(most), e))
            break;
        read_ += e.count;
        push(selected(e));
        report(watch, progress);
        if (watch.stopped())
            return false;
        past = isPast(interval, e);
        if (past)
            break;
    }
    return finish(interval, !past && !recording_.problem().empty(), past);
}

// The same by bytes, up to number `end` of the file or further.
bool Worker::makeOfBytes(const Interval &interval, uint64_t end, Watch &watch, sample::Progress *progress) {
    const uint64_t before = read_;
    bool past = false;
    cusEventPipelineCounts counts = {};
    auto asked = std::chrono::steady_clock::now(); // the query waits for the device
    const void *bytes = nullptr;
    for (size_t size = 0; !past && recording_.nextBytes(end, bytes, size);) {
        const cusStatus status = cusEventPipelinePushBytes(pipeline_, bytes, size);
        if (status == CUS_ERROR_FORMAT)
            recording_.damaged();
        if (error_)
            std::rethrow_exception(error_);
        if (status != CUS_ERROR_FORMAT)
            check(status);
        const auto now = std::chrono::steady_clock::now();
        if (recording_.nextByte() < end && status == CUS_OK && now - asked < std::chrono::milliseconds(100))
            continue;
        asked = now;
        check(cusEventPipelineQuery(pipeline_, &counts));
        read_ = before + counts.events;
        report(watch, progress);
        if (watch.stopped())
            return false;
        if (interval.end < plan_.windows)
            past = plan_.byCount() ? start_ + counts.events >= endOf(interval)
                                   : counts.last_time >= plan_.origin + static_cast<int64_t>(endOf(interval));
    }
    cusEventDecoderState state = {};
    const bool cut = cusEventDecoderGetState(cusEventPipelineDecoder(pipeline_), &state) == CUS_OK && state.carried;
    return finish(interval, !past && (cut || !recording_.problem().empty()), past);
}

// Delivers the last windows. Returns false if the recording is damaged.
bool Worker::finish(const Interval &interval, bool damaged, bool past) {
    if (damaged && store_)
        store_->endJournal();
    const cusStatus status = cusEventPipelineFlush(pipeline_);
    if (error_)
        std::rethrow_exception(error_);
    if (status != CUS_ERROR_TRUNCATED)
        check(status);
    else if (!past)
        recording_.damaged();
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
