// The recording as each rank reads it: from any event on.
#pragma once

#include "events-mpi/options.hpp"
#include "events-mpi/team.hpp"

#include "cusight/eventio.h"

#include <cstdint>
#include <string>
#include <vector>

namespace events_mpi {

// Throws sample::Stop with the message of the call that failed.
void check(cusStatus status);

class Recording {
  public:
    static constexpr int PIECE = 800000; // events; whole chunks of M3ED and DSEC
    static constexpr int PIECE_BYTES = 32 << 20;

    // Throws Stop(INPUT). `pinned`: events are read into page-locked memory.
    Recording(const Options &options, bool pinned);
    ~Recording();
    Recording(const Recording &) = delete;
    Recording &operator=(const Recording &) = delete;

    // All ranks together: finds marks throughout the recording, so that each rank can start anywhere. Also finds the
    // sensor's size unless the recording gives it.
    void index(Team &team);

    cusEventInfo info = {};
    Size sensor, grid; // grid: of the frames

    // Whether events have numbers, which marks count. They have none if bad events are skipped: then all ranks read from
    // the start.
    bool indexed() const { return indexed_; }
    uint64_t events() const { return marks_.back().index; }
    const std::vector<cusEventMark> &marks() const { return marks_; }
    size_t markBefore(uint64_t event) const; // the last one at or before it
    // The last mark before which all events are earlier than `time`.
    size_t markBeforeTime(int64_t time);
    // Time of the first event at or after the mark; INT64_MAX if there is none that can be read.
    int64_t timeAt(size_t mark);

    void rewind();
    void seek(uint64_t event);
    void seekMark(size_t mark);
    // Gets up to `most` of the next events, on the grid of the frames, valid until the next call. Returns false at the end.
    // A damaged recording ends there, and problem() says why.
    bool next(size_t most, cusEventArrays &events);

    // Bytes instead of events, for a decoder with these options that starts from the state: from the last mark sought, or from the
    // start after rewind(). Returns false if the recording has none, or its events go to another grid.
    bool decoder(cusEventDecoderOptions &options, cusEventDecoderState &state);
    // Gets the next ones, up to `end`, about: what the offsets of marks count, bytes of the file or, in HDF5, events; or some more if
    // it has been reached. Returns false at the end.
    bool nextBytes(uint64_t end, const void *&bytes, size_t &size);
    uint64_t nextByte() const { return next_byte_; }
    // What the decoder said of them.
    void damaged() { note(CUS_ERROR_FORMAT); }

    uint64_t position() const { return position_; } // the number of the next event
    const std::string &problem() const { return problem_; }

  private:
    void measureSensor(Team &team);
    bool note(cusStatus status);

    cusEventReader *reader_ = nullptr;
    const std::string path_;
    const bool indexed_;
    std::vector<cusEventMark> marks_;
    std::vector<int64_t> times_; // at marks, as far as requested; -1: not yet
    cusMat column_[4] = {};
    cusMat bytes_ = {};      // of a recording that a decoder elsewhere decodes
    uint64_t next_byte_ = 0; // of the file; HDF5: the next event, about
    uint64_t bytes_per_unit_ = 1;
    const bool pinned_;
    std::vector<uint16_t> to_column_, to_row_; // from the sensor's to the grid's coordinates; empty: the same
    uint64_t position_ = 0;
    std::string problem_;
};

} // namespace events_mpi
