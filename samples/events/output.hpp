// Where frames go: raw frames or HDF5, a checksum, pictures.
#pragma once

#include "events/pictures/pictures.hpp"
#include "events/settings.hpp"
#include "events/source.hpp"

#include "common/output.hpp"
#include "common/stages.hpp"

#include "cusight/eventio.h"
#include "cusight/events.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace events {

// When the events of a recording happened, for a window that plays it.
class PlaybackClock {
  public:
    // The events pushed next have the numbers `first` and following, and came at `arrival`, if that is known.
    void add(uint64_t first, const cusEventArrays &piece, const std::chrono::steady_clock::time_point *arrival);

    // When event number `event` happened, interpolated within its piece.
    int64_t timeOf(uint64_t event) const;

    // When its bytes came; null if that is not known.
    const std::chrono::steady_clock::time_point *arrivalOf(uint64_t event) const;

  private:
    struct Piece {
        uint64_t first, last; // events
        int64_t from, to;     // their times
        std::optional<std::chrono::steady_clock::time_point> arrival;
    };
    std::deque<Piece> pieces_; // the latest
};

// How long frames take from the arrival of their last byte, in milliseconds. Keeps shares of 5 % steps, not every frame.
class Latency {
  public:
    void add(double milliseconds);
    void report() const; // nothing without frames

  private:
    // The upper end of the step within which the share `part` of all frames lies.
    double quantile(double part) const;

    std::map<int, uint64_t> steps_; // by the logarithm
    uint64_t count_ = 0;
    double largest_ = 0;
};

// Frames in HDF5, not compressed: one block after a header, which is written last.
class PlainFrames {
  public:
    PlainFrames(const std::string &path, sample::Size size, int type);
    void write(const void *data, size_t bytes) { file_.write(data, bytes); }
    void finish(uint64_t frames, const std::string &label);

  private:
    void layOut(uint64_t frames, uint64_t &offset);

    sample::OutputFile file_;
    const sample::Size size_;
    const int type_;
};

// Whether this is a name for the frames themselves: NAME.raw, NAME.h5.
bool storesFrames(const std::string &name);

// What all shards of a run have in common: the version, the options and the recording, by its size and 64 places.
std::string runOf(const Settings &settings);
// Whether --output is this shard already, which is then said.
bool isMadeAlready(const Settings &settings);

// Receives batches of frames from a pipeline.
class FrameOutput {
  public:
    // fps: of a video file.
    FrameOutput(const Settings &settings, const cusRepresentation &representation, sample::Size size, double fps);
    ~FrameOutput();
    FrameOutput(const FrameOutput &) = delete;
    FrameOutput &operator=(const FrameOutput &) = delete;

    // Whether pictures are made of the frames.
    static bool hasPictures(const Settings &settings);
    // Whether nothing else is made of them.
    static bool onlySeen(const Settings &settings);

    // The callback of cusEventPipelineCreate; `user` is the FrameOutput. No exception passes through it.
    static cusStatus receive(void *user, const cusFrameBatch *batch);

    // Throws what receive() has caught.
    void rethrow() const;

    void finish();
    void report() const;
    void hold() { // after the report
        if (pictures_)
            pictures_->hold();
    }

    bool paced() const { return paced_; } // frames are shown in a window at the recording's speed
    // Whether frames, not only events, are stored, shown or summed up.
    bool wanted() const { return raw_ || hdf5_ || plain_ || pictures_ || settings_.checksum; }
    bool onlyLast() const { return pictures_ && isOnePicture(settings_); } // only the last frame stays
    // Whether another part of the recording may continue the frames.
    bool plain() const { return !pictures_; }
    bool closed() const { return closed_; } // the window was closed or the program was interrupted
    uint64_t frames() const { return frames_; }
    const cusEventWindow &last() const { return last_; }           // of the frames so far
    uint64_t covered() const { return last_.last - first_event_; } // events, from the first frame to the last
    uint64_t events() const { return events_; }                    // in all frames, once in each
    double receivingSeconds() const { return receiving_.seconds; } // in receive()
    double drawingSeconds() const { return pictures_ ? pictures_->drawingSeconds() : 0; }
    double writingSeconds() const { return receiving_.seconds - drawingSeconds() + finishing_.seconds; }
    PlaybackClock clock;
    bool is_damaged = false; // the recording after the last frame
    bool still = false;      // windows end because of the time, not of an event: nothing arrives for them

  private:
    void open(double fps);
    std::string label() const;
    void finishFiles();
    void take(const cusFrameBatch &batch);
    size_t show(const cusFrameBatch &batch); // how many frames
    void addLatencies(const cusFrameBatch &batch);

    const Settings &settings_;
    const cusRepresentation representation_;
    const sample::Size size_;
    int type_ = 0;
    bool paced_ = false, closed_ = false, raw_output_ = false;
    std::unique_ptr<sample::OutputFile> raw_;
    cusFrameWriter *hdf5_ = nullptr;
    std::unique_ptr<PlainFrames> plain_;
    std::unique_ptr<Pictures> pictures_;
    Latency latency_;
    uint32_t crc_ = 0;
    uint64_t first_event_ = 0, frames_ = 0, events_ = 0;
    cusEventWindow last_ = {};
    sample::Stopwatch receiving_, finishing_;
    std::exception_ptr error_;
};

// The table of --triggers; does nothing without it.
class TriggerFile {
  public:
    explicit TriggerFile(const std::string &path);

    // Writes all triggers that the source gives now.
    void write(EventSource &source);
    void finish();
    void report() const;

  private:
    std::unique_ptr<sample::OutputFile> file_;
    std::string path_;
    uint64_t count_ = 0;
};

} // namespace events
