// Where events come from, a piece at a time: a recording, or a video from which they are generated.
#pragma once

#include "events/settings.hpp"

#include "cusight/eventframes.h"
#include "cusight/eventio.h"
#include "cusight/events.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace events {

// Throws sample::Stop with the message of the call that failed.
void check(cusStatus status);

// Warns if most events lie outside: rows and columns may be exchanged.
void warnOutside(uint64_t outside, uint64_t inside);

class EventSource {
  public:
    virtual ~EventSource() = default;

    // Gets the next events, valid until the next call; returns false at the end. A damaged recording ends there, and
    // problem() says why.
    virtual bool next(cusEventArrays &events) = 0;
    virtual void rewind() = 0;
    virtual bool live() const { return false; } // its events do not come again
    // When the bytes of the events that came last arrived, if the source waits for them: a camera on stdin.
    virtual const std::chrono::steady_clock::time_point *arrival() const { return nullptr; }
    // Called within next() by a source that waits, with a time before which no more events will come, while there are none. Returns false
    // if next() shall end.
    std::function<bool(int64_t)> quiet = [](int64_t) { return true; };

    // The reader of a recording, for cusEventFrames; null for others.
    virtual cusEventReader *reader() { return nullptr; }
    // What that said.
    void damaged(const std::string &problem) { problem_ = problem; }

    // Continues at the first event at or after `time`. Returns false, without moving, if this source cannot.
    virtual bool seekTime(int64_t) { return false; }

    // The next external triggers: of a recording, none after the last; of a camera, those that came with the events so far.
    virtual std::vector<cusEventTrigger> triggers() { return {}; }

    virtual std::string describe() const = 0;

    // The header of a recording and what was found in it; null for a video.
    virtual const cusEventInfo *info() const { return nullptr; }
    virtual cusEventCounts counts() const { return {}; }

    // Prints how many events --skip-bad has left out since they lie outside the sensor; `decoded`: by a pipeline.
    void reportOutside(const cusEventCounts &decoded) const;

    const std::string &problem() const { return problem_; }
    sample::Size sensor;                                 // 0 x 0: unknown
    int64_t count = -1, first_time = -1, last_time = -1; // -1: not known yet

  protected:
    std::string problem_;
};

// Arrays for a piece of events.
class EventColumns {
  public:
    EventColumns(size_t capacity, bool pinned);
    ~EventColumns();
    EventColumns(const EventColumns &) = delete;
    EventColumns &operator=(const EventColumns &) = delete;

    uint16_t *x() const { return static_cast<uint16_t *>(column_[0].data); }
    uint16_t *y() const { return static_cast<uint16_t *>(column_[1].data); }
    uint8_t *p() const { return static_cast<uint8_t *>(column_[2].data); }
    int64_t *t() const { return static_cast<int64_t *>(column_[3].data); }
    cusEventArrays view(size_t count) const { return {x(), y(), p(), t(), count, CUS_HOST}; }

  private:
    cusMat column_[4] = {};
};

// A recording if the content of the file is one, otherwise a video, camera or images. `pinned`: events are in pinned memory.
std::unique_ptr<EventSource> openEvents(const Settings &settings, bool pinned);

// The events of --range that the filters keep, on the grid of --resize.
class Selection {
  public:
    Selection(EventSource &source, const Settings &settings);

    void rewind();
    bool next(cusEventArrays &events); // as EventSource::next

    // The same for cusEventFrames: range and filter. The filter lives as long as this.
    void choose(cusEventFramesOptions &options);

    // Whether it is all events of the source, so that the source's count and times apply.
    bool whole() const { return !from_ && to_ < 0 && !filters_; }

    // Why there was no event; `read`: whether there was one within --range.
    std::string whyEmpty(bool read) const;

    sample::Size grid;

  private:
    void filter(cusEventArrays &events);

    struct Destroy {
        void operator()(cusEventFilter *filter) const { cusEventFilterDestroy(filter); }
    };

    EventSource &source_;
    const std::string input_;
    const int64_t from_, to_; // microseconds from the first event
    int64_t start_ = -1;      // time of the first event
    std::vector<uint16_t> x_, y_;
    cusEventFilterOptions filter_options_;
    bool filters_;
    bool is_filtered_ = false; // there were events for the filters
    std::string dropping_;     // the options by which they drop events
    std::unique_ptr<cusEventFilter, Destroy> filter_;
    std::vector<uint8_t> p_;
    std::vector<int64_t> t_;
};

} // namespace events
