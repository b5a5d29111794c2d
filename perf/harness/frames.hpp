// What the rows share: sizes, RAII wrappers, and the pipeline from host memory to host memory.
#pragma once

#include "harness/harness.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace perf {

struct Size {
    int cols, rows;
    size_t pixels() const { return static_cast<size_t>(cols) * static_cast<size_t>(rows); }
    std::string text() const { return std::to_string(cols) + "x" + std::to_string(rows); }
};

// Latencies are reported for FRAME_SIZES; sweeps use SWEEP_SIZES, 0.3 to 268 Mpx.
constexpr Size FRAME_SIZES[] = {{640, 480}, {1920, 1080}, {3840, 2160}};
constexpr Size SWEEP_SIZES[] = {{640, 480}, {1280, 720}, {1920, 1080}, {3840, 2160}, {7680, 4320}, {16384, 16384}};

inline bool isFrameSize(Size size) {
    return std::any_of(std::begin(FRAME_SIZES), std::end(FRAME_SIZES),
                       [&](Size s) { return s.cols == size.cols && s.rows == size.rows; });
}

inline std::string pixelsOf(Size size) {
    return "/pixels=" + std::to_string(size.pixels());
}

class Mat {
  public:
    Mat() = default;
    Mat(int rows, int cols, int type, cusSpace space) { check(cusMatCreate(&mat, rows, cols, type, space)); }
    Mat(int rows, int cols, int type, cusSpace space, const std::vector<uint8_t> &tight) {
        cusMat from = CUS_MAT_INIT;
        check(cusMatWrap(&from, rows, cols, type, CUS_HOST, const_cast<uint8_t *>(tight.data()), 0));
        check(space == CUS_DEVICE ? cusMatUpload(&from, &mat, nullptr) : cusMatCopy(&from, &mat, nullptr));
        if (space == CUS_DEVICE)
            check(cusStreamSynchronize(nullptr));
    }
    ~Mat() { cusMatRelease(&mat); }
    Mat(const Mat &) = delete;
    Mat &operator=(const Mat &) = delete;

    template<class T>
    T *as() const {
        return static_cast<T *>(mat.data);
    }
    uint8_t *bytes() const { return as<uint8_t>(); }
    int step() const { return static_cast<int>(mat.step); }
    cusMat mat = CUS_MAT_INIT;
};

// The elements of a matrix, without padding; waits for the device.
inline std::vector<uint8_t> bytesOf(const cusMat &mat) {
    std::vector<uint8_t> tight(static_cast<size_t>(mat.rows) * static_cast<size_t>(mat.cols) * cusTypeSize(mat.type));
    cusMat host = CUS_MAT_INIT;
    check(cusMatWrap(&host, mat.rows, mat.cols, mat.type, CUS_HOST, tight.data(), 0));
    check(mat.space == CUS_DEVICE ? cusMatDownload(&mat, &host, nullptr) : cusMatCopy(&mat, &host, nullptr));
    if (mat.space == CUS_DEVICE)
        check(cusStreamSynchronize(nullptr));
    return tight;
}

// A matrix in page-locked host memory. like: the matrix whose size, type and contents are copied.
class Pinned : public Mat {
  public:
    Pinned(int rows, int cols, int type) { check(cusMatCreatePinned(&mat, rows, cols, type)); }
    explicit Pinned(const cusMat &like) : Pinned(like.rows, like.cols, like.type) {
        check(like.space == CUS_DEVICE ? cusMatDownload(&like, &mat, nullptr) : cusMatCopy(&like, &mat, nullptr));
        if (like.space == CUS_DEVICE)
            check(cusStreamSynchronize(nullptr));
    }
};

class Stream {
  public:
    Stream() { check(cusStreamCreate(&stream_)); }
    ~Stream() { cusStreamDestroy(stream_); }
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;
    operator cusStream() const { return stream_; }

  private:
    cusStream stream_ = nullptr;
};

class Event {
  public:
    Event() { check(cusStreamEventCreate(&event_)); }
    ~Event() { cusStreamEventDestroy(event_); }
    Event(const Event &) = delete;
    Event &operator=(const Event &) = delete;
    void record(cusStream stream) { check(cusStreamEventRecord(event_, stream)); }
    void before(cusStream stream) { check(cusStreamWaitEvent(stream, event_)); }
    void wait() { check(cusStreamEventSynchronize(event_)); }

  private:
    cusStreamEvent event_ = nullptr;
};

// Passes frames through a ring of slots: one frame is uploaded and the previous result downloaded while another is processed.
// A slot's work may read the upload of the preceding slot.
class Pipeline {
  public:
    static constexpr int SLOTS = 4;          // even, so that a slot always gets the same one of two frames
    static constexpr int FRAMES_A_CALL = 32; // the pipeline fills and drains once per call
    using Copies = std::vector<std::pair<const cusMat *, cusMat *>>; // from, to

    static std::string note() {
        return std::to_string(FRAMES_A_CALL) + " frames through a ring of " + std::to_string(SLOTS);
    }
    static double bytes(const Copies &copies) {
        double sum = 0;
        for (const auto &copy : copies)
            sum += static_cast<double>(copy.first->rows) * copy.first->cols *
                   static_cast<double>(cusTypeSize(copy.first->type));
        return sum;
    }

    // Adds a slot; call it SLOTS times.
    void add(Copies up, std::function<void(cusStream)> work, Copies down) {
        Slot &slot = slots_.emplace_back();
        slot.up = std::move(up);
        slot.work = std::move(work);
        slot.down = std::move(down);
    }

    void run(cusStream stream) {
        for (int k = 0; k < FRAMES_A_CALL; ++k, ++frame_) {
            Slot &slot = turn(frame_);
            turn(frame_ + 1).worked.before(up_); // the previous frame of this slot is last read there
            for (const auto &copy : slot.up)
                check(cusMatUpload(copy.first, copy.second, up_));
            slot.uploaded.record(up_);
            slot.uploaded.before(stream);
            slot.downloaded.before(stream);
            slot.work(stream);
            slot.worked.record(stream);
            slot.worked.before(down_);
            for (const auto &copy : slot.down)
                check(cusMatDownload(copy.first, copy.second, down_));
            slot.downloaded.record(down_);
        }
        turn(frame_ - 1).downloaded.before(stream);
    }

    // Reports the row ID/host-to-host.
    void report(const std::string &id, const std::string &remark) {
        Row row(id + "/host-to-host", CUS_DEVICE, 0);
        row.hostToHost(bytes(slots_[0].up), bytes(slots_[0].down), FRAMES_A_CALL);
        row.note(remark + ", " + note());
        row.measure([this](cusStream stream, int) { run(stream); });
        row.report();
    }

  private:
    struct Slot {
        Copies up, down;
        std::function<void(cusStream)> work;
        Event uploaded, worked, downloaded;
    };
    Slot &turn(int frame) { return slots_[static_cast<size_t>(frame % SLOTS)]; }

    std::deque<Slot> slots_;
    Stream up_, down_;
    int frame_ = SLOTS;
};

// Reports the row ID/latency: the time from a call to the end of its work, on frames in device memory.
inline void latency(const std::string &id, Work work) {
    Row row(id + "/latency", CUS_DEVICE, 0);
    row.wallClock();
    row.measure(std::move(work));
    row.report();
}

} // namespace perf
