// cusight/recordings.hpp: the objects of events.h, eventio.h and eventframes.h as C++ classes; see algorithms.hpp for what
// they share.
#ifndef CUSIGHT_RECORDINGS_HPP
#define CUSIGHT_RECORDINGS_HPP

#include "eventframes.h"
#include "eventio.h"
#include "events.h"
#include "matrix.hpp"

#include <exception>
#include <string>
#include <functional>
#include <vector>

namespace cusight {

// Events in host memory.
struct Events {
    std::vector<uint16_t> x, y; // column and row
    std::vector<uint8_t> p;     // polarity: 0 darker, 1 brighter
    std::vector<int64_t> t;     // microseconds

    // Returns the number of events.
    size_t size() const noexcept { return x.size(); }
    // New events are zero.
    void resize(size_t count) {
        x.resize(count);
        y.resize(count);
        p.resize(count);
        t.resize(count);
    }
    // Returns a view, valid until the vectors change. All four must have the same length.
    cusEventArrays view() const noexcept { return {x.data(), y.data(), p.data(), t.data(), x.size(), CUS_HOST}; }
};

// Lists the windows of `events`: see cusEventWindows.
inline std::vector<cusEventWindow>
eventWindows(const cusEventArrays &events, const cusWindowing &windowing = cusWindowingDefaults(), StreamRef stream = {}) {
    size_t count = 0;
    const cusStatus status = cusEventWindows(&events, &windowing, nullptr, 0, &count, stream);
    if (status != CUS_ERROR_CAPACITY)
        check(status);
    std::vector<cusEventWindow> windows(count);
    if (count > 0)
        check(cusEventWindows(&events, &windowing, windows.data(), count, &count, stream));
    return windows;
}

// See cusEventStacker: frames from events in memory.
class EventStacker {
  public:
    // See cusEventStackerCreate.
    EventStacker(int rows, int cols, cusSpace space, const std::vector<cusRepresentation> &representations)
        : count_(representations.size()) {
        cusEventStacker *made = nullptr;
        check(cusEventStackerCreate(&made, rows, cols, space, representations.data(), static_cast<int>(count_)));
        handle_.reset(made);
    }
    // frames: one matrix for each representation; resized and created as needed.
    void stack(const cusEventArrays &events, const std::vector<cusEventWindow> &windows, std::vector<Matrix> &frames,
               StreamRef stream = {}) {
        frames.resize(count_);
        std::vector<cusMat> mats;
        mats.reserve(count_);
        for (Matrix &frame : frames)
            mats.push_back(frame.get());
        const cusStatus status = cusEventStack(get(), &events, windows.data(), windows.size(), mats.data(), stream);
        for (size_t k = 0; k < count_; ++k) // also after an error, so that what was allocated has an owner
            frames[k].get() = mats[k];
        check(status);
    }
    // Counts events outside the frame so far; waits for the stream.
    uint64_t skipped(StreamRef stream = {}) {
        uint64_t n = 0;
        check(cusEventStackerSkipped(get(), &n, stream));
        return n;
    }
    // Returns the C object.
    cusEventStacker *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusEventStacker, &cusEventStackerDestroy> handle_;
    size_t count_;
};

// See cusEventPipeline: frames from a recording that is pushed piece by piece.
class EventPipeline {
  public:
    // Called with each batch of frames, on the thread of push and flush. An exception stops the pipeline and is thrown by
    // that call.
    using Sink = std::function<void(const cusFrameBatch &)>;

    // See cusEventPipelineCreate.
    EventPipeline(int rows, int cols, const std::vector<cusRepresentation> &representations, Sink sink,
                  const cusEventPipelineOptions &options = cusEventPipelineDefaults())
        : delivery_(std::make_unique<Delivery>()) {
        delivery_->sink = std::move(sink);
        cusEventPipeline *made = nullptr;
        check(cusEventPipelineCreate(&made, rows, cols, representations.data(), static_cast<int>(representations.size()),
                                     &options, deliver, delivery_.get()));
        handle_.reset(made);
    }
    // Adds the next events, in host memory.
    void push(const cusEventArrays &events) { checkDelivery(cusEventPipelinePush(get(), &events)); }
    // Adds the next bytes, in host memory, if the options have a decoder.
    void pushBytes(const void *bytes, size_t size) { checkDelivery(cusEventPipelinePushBytes(get(), bytes, size)); }
    // Continues from a state, before the first bytes.
    void start(const cusEventDecoderState &state) {
        check(cusEventDecoderSetState(cusEventPipelineDecoder(get()), &state));
    }
    // Says that no event before `time` will come.
    void advance(int64_t time) { checkDelivery(cusEventPipelineAdvance(get(), time)); }
    // Makes the last windows and delivers all frames.
    void flush() { checkDelivery(cusEventPipelineFlush(get())); }
    // Counts since creation.
    cusEventPipelineCounts counts() const {
        cusEventPipelineCounts counts = {};
        check(cusEventPipelineQuery(get(), &counts));
        return counts;
    }
    // Returns the C object.
    cusEventPipeline *get() const noexcept { return handle_.get(); }

  private:
    struct Delivery { // keeps its address when the pipeline is moved
        Sink sink;
        std::exception_ptr thrown;
    };
    static cusStatus deliver(void *user, const cusFrameBatch *batch) {
        Delivery &delivery = *static_cast<Delivery *>(user);
        try {
            delivery.sink(*batch);
            return CUS_OK;
        } catch (...) { // must not pass through C code
            delivery.thrown = std::current_exception();
            return CUS_ERROR_IO;
        }
    }
    void checkDelivery(cusStatus status) {
        if (status != CUS_OK && delivery_->thrown)
            std::rethrow_exception(std::exchange(delivery_->thrown, nullptr));
        check(status);
    }

    std::unique_ptr<Delivery> delivery_; // outlives the handle
    detail::Handle<cusEventPipeline, &cusEventPipelineDestroy> handle_;
};

// ---- Recordings --------------------------------------------------------------------------------------------------------

// See cusEventReader: reads a recording of any format.
class EventReader {
  public:
    // Opens a file.
    explicit EventReader(const std::string &path, const cusEventReaderOptions &options = cusEventReaderDefaults()) {
        cusEventReader *made = nullptr;
        check(cusEventReaderOpen(&made, path.c_str(), &options));
        handle_.reset(made);
    }
    // Opens a whole file in memory, which must stay valid.
    EventReader(const void *data, size_t size, const cusEventReaderOptions &options = cusEventReaderDefaults()) {
        cusEventReader *made = nullptr;
        check(cusEventReaderOpenMemory(&made, data, size, &options));
        handle_.reset(made);
    }
    // Returns the file's own information.
    cusEventInfo info() const {
        cusEventInfo info = {};
        check(cusEventReaderInfo(get(), &info));
        return info;
    }
    // Returns what has been read.
    cusEventCounts counts() const {
        cusEventCounts counts = {};
        check(cusEventReaderCounts(get(), &counts));
        return counts;
    }
    // Reads the next events, at most `capacity`; returns false at the end. If it throws, `events` has those before the
    // damage.
    bool read(Events &events, size_t capacity) {
        size_t count = 0;
        events.resize(capacity);
        const cusStatus status =
            cusEventReaderRead(get(), capacity, events.x.data(), events.y.data(), events.p.data(), events.t.data(), &count);
        events.resize(status == CUS_ERROR_NULL || status == CUS_ERROR_VALUE ? 0 : count);
        check(status);
        return count > 0;
    }
    // Returns how a decoder decodes the recording, and from where on; readBytes starts there.
    std::pair<cusEventDecoderOptions, cusEventDecoderState> decoder() {
        std::pair<cusEventDecoderOptions, cusEventDecoderState> how = {};
        check(cusEventReaderDecoder(get(), &how.first, &how.second));
        return how;
    }
    // Reads the next bytes, at most `capacity`, and returns their number; 0 at the end. If it throws, the bytes before the
    // damage are lost, which cusEventReaderReadBytes would give.
    size_t readBytes(void *bytes, size_t capacity) {
        size_t count = 0;
        check(cusEventReaderReadBytes(get(), capacity, bytes, &count));
        return count;
    }
    // Reads the next external triggers, at most `capacity`; returns false at the end. If it throws, `triggers` has those
    // before the damage.
    bool readTriggers(std::vector<cusEventTrigger> &triggers, size_t capacity) {
        size_t count = 0;
        triggers.resize(capacity);
        const cusStatus status = cusEventReaderReadTriggers(get(), capacity, triggers.data(), &count);
        triggers.resize(status == CUS_ERROR_NULL ? 0 : count);
        check(status);
        return count > 0;
    }
    // The next trigger read will be the first.
    void rewindTriggers() { check(cusEventReaderRewindTriggers(get())); }
    // The next event read will be number `index` of the file.
    void seekIndex(int64_t index) { check(cusEventReaderSeekIndex(get(), index)); }
    // The next event read will be the first at or after `time`; returns its number.
    int64_t seekTime(int64_t time) {
        int64_t index = 0;
        check(cusEventReaderSeekTime(get(), time, &index));
        return index;
    }
    // Returns the C object.
    cusEventReader *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusEventReader, &cusEventReaderClose> handle_;
};

// See cusEventFrames: frames of a whole recording.
//
//   cusight::EventFrames frames("run.raw", {cusRepresentationDefaults(CUS_REPR_HISTOGRAM)});
//   while (const cusFrameBatch *batch = frames.next())
//       use(*batch);
class EventFrames {
  public:
    // Makes frames of the file at `path`.
    EventFrames(const std::string &path, const std::vector<cusRepresentation> &representations,
                const cusEventFramesOptions &options = cusEventFramesDefaults(),
                const cusEventReaderOptions &reader = cusEventReaderDefaults()) {
        cusEventFrames *made = nullptr;
        check(cusEventFramesOpen(&made, path.c_str(), &reader, representations.data(),
                                 static_cast<int>(representations.size()), &options));
        handle_.reset(made);
    }
    // Makes frames of an open reader, from its place on. The reader must outlive the object, and nothing else may use it
    // meanwhile.
    EventFrames(const EventReader &reader, const std::vector<cusRepresentation> &representations,
                const cusEventFramesOptions &options = cusEventFramesDefaults()) {
        cusEventFrames *made = nullptr;
        check(cusEventFramesOpenReader(&made, reader.get(), representations.data(),
                                       static_cast<int>(representations.size()), &options));
        handle_.reset(made);
    }
    // Returns the next batch, valid until the next call and while the object is not moved; null at the end. Throws at
    // damage, after the frames before it.
    const cusFrameBatch *next() {
        check(cusEventFramesNext(get(), &batch_));
        return batch_.count > 0 ? &batch_ : nullptr;
    }
    // The next batch will be the first again.
    void restart() { check(cusEventFramesRestart(get())); }
    // Ends a next() that waits in another thread.
    void cancel() const noexcept { cusEventFramesCancel(get()); }
    // Returns what the recording says.
    cusEventInfo info() const {
        cusEventInfo info = {};
        check(cusEventFramesInfo(get(), &info));
        return info;
    }
    // Returns what has passed.
    cusEventFramesCounts counts() const {
        cusEventFramesCounts counts = {};
        check(cusEventFramesQuery(get(), &counts));
        return counts;
    }
    // Returns the C object.
    cusEventFrames *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusEventFrames, &cusEventFramesClose> handle_;
    cusFrameBatch batch_ = {};
};

// See cusEventWriter: writes a recording. Without finish(), the unfinished file is removed.
class EventWriter {
  public:
    // `options` must set the sensor's size.
    EventWriter(const std::string &path, const cusEventWriterOptions &options) {
        cusEventWriter *made = nullptr;
        check(cusEventWriterCreate(&made, path.c_str(), &options));
        handle_.reset(made);
    }
    // Appends events.
    void write(const cusEventArrays &events) {
        if (events.space != CUS_HOST)
            throw Error(CUS_ERROR_SPACE, "EventWriter::write: events are in device memory, expected host memory");
        check(cusEventWriterWrite(get(), events.count, events.x, events.y, events.p, events.t));
    }
    // The writer is empty afterwards, whatever happens.
    void finish() { check(cusEventWriterFinish(handle_.release())); }
    // Returns the C object.
    cusEventWriter *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusEventWriter, &cusEventWriterDiscard> handle_;
};

// See cusFrameWriter: writes frames to HDF5. Without finish(), the unfinished file is removed.
class FrameWriter {
  public:
    // For frames of rows x cols of `type`.
    FrameWriter(const std::string &path, int rows, int cols, int type) {
        cusFrameWriter *made = nullptr;
        check(cusFrameWriterCreate(&made, path.c_str(), rows, cols, type));
        handle_.reset(made);
    }
    // Appends frames, given as one matrix of n * rows rows.
    void write(const Input &frames) { check(cusFrameWriterWrite(get(), frames.get())); }
    // Completes the file; the writer is empty afterwards.
    void finish() { check(cusFrameWriterFinish(handle_.release())); }
    // Returns the C object.
    cusFrameWriter *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusFrameWriter, &cusFrameWriterDiscard> handle_;
};

// See cusEventGenerator: makes events from video.
class EventGenerator {
  public:
    // For frames of rows x cols.
    EventGenerator(int rows, int cols, const cusEventGeneratorOptions &options = cusEventGeneratorDefaults()) {
        cusEventGenerator *made = nullptr;
        check(cusEventGeneratorCreate(&made, rows, cols, &options));
        handle_.reset(made);
    }
    // Returns the events, valid until the next push.
    cusEventArrays push(const Input &frame, int64_t time) {
        cusEventArrays events = {};
        check(cusEventGeneratorPush(get(), frame.get(), time, &events));
        return events;
    }
    // Passes in many frames, one below the other, in the space of the options; `events` are arrays there.
    void run(const Input &frames, const std::vector<int64_t> &times, const cusEventBuffers &events,
             cusEventsGenerated *generated = nullptr, StreamRef stream = {}) {
        check(cusEventGeneratorRun(get(), frames.get(), times.data(), static_cast<int>(times.size()), &events, generated,
                                   stream));
    }
    // Returns what the last run did; waits for the stream.
    cusEventsGenerated generated(StreamRef stream = {}) {
        cusEventsGenerated done = {};
        check(cusEventGeneratorCheck(get(), &done, stream));
        return done;
    }
    // Returns the C object.
    cusEventGenerator *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusEventGenerator, &cusEventGeneratorDestroy> handle_;
};

} // namespace cusight

#endif // CUSIGHT_RECORDINGS_HPP
