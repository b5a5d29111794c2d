// cusight/live.hpp: the objects of live.h as C++ classes; see algorithms.hpp for what they share.
#ifndef CUSIGHT_LIVE_HPP
#define CUSIGHT_LIVE_HPP

#include "live.h"
#include "matrix.hpp"

namespace cusight {

// Bytes that wait to be sent; valid until the object's next call.
struct Bytes {
    const uint8_t *data = nullptr; // the first byte
    size_t size = 0;               // how many
};

// See cusSender: frames in, messages out.
class Sender {
  public:
    // See cusSenderCreate.
    Sender(int rows, int cols, int type, cusSpace space, const cusSenderOptions &options = cusSenderDefaults()) {
        cusSender *made = nullptr;
        check(cusSenderCreate(&made, rows, cols, type, space, &options));
        handle_.reset(made);
    }
    // Starts on a frame.
    void submit(const Input &frame, bool with_key_frame = false, StreamRef stream = {}) {
        check(cusSenderSubmit(get(), frame.get(), with_key_frame, stream));
    }
    // Waits for the oldest submitted frame; valid until release().
    cusSentFrame finish() {
        cusSentFrame packed = {};
        check(cusSenderFinish(get(), &packed));
        return packed;
    }
    // Releases the oldest finished frame.
    void release() { check(cusSenderRelease(get())); }
    // Returns a view of what viewers have after the last submitted frame.
    cusMat reference() const {
        cusMat view = CUS_MAT_INIT;
        check(cusSenderReference(get(), &view));
        return view;
    }
    // Returns the C object.
    cusSender *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusSender, &cusSenderDestroy> handle_;
};

// See cusPeer: the sender's end of one connection.
class Peer {
  public:
    // rate_millihertz: 25000 for 25 frames per second; 0: unknown.
    Peer(int rows, int cols, int type, uint32_t rate_millihertz = 0) {
        cusPeer *made = nullptr;
        check(cusPeerCreate(&made, rows, cols, type, rate_millihertz));
        handle_.reset(made);
    }
    // Passes in bytes received from the viewer.
    void input(const void *data, size_t bytes) { check(cusPeerInput(get(), data, bytes)); }
    // Offers the next frame of the video.
    void offer(const cusSentFrame &frame) { check(cusPeerOffer(get(), &frame)); }
    // Returns the bytes that wait to be sent.
    Bytes output() {
        Bytes bytes;
        check(cusPeerOutput(get(), &bytes.data, &bytes.size));
        return bytes;
    }
    // Says how many of them have been sent.
    void sent(size_t bytes) { check(cusPeerSent(get(), bytes)); }
    // Ends the video.
    void finish() { check(cusPeerFinish(get())); }
    // Returns the state of the connection.
    cusPeerInfo info() const {
        cusPeerInfo info = {};
        check(cusPeerQuery(get(), &info));
        return info;
    }
    // Returns the C object.
    cusPeer *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusPeer, &cusPeerDestroy> handle_;
};

// See cusViewer: bytes in, frames out.
class Viewer {
  public:
    // See cusViewerCreate.
    explicit Viewer(const cusViewerOptions &options = cusViewerDefaults()) {
        cusViewer *made = nullptr;
        check(cusViewerCreate(&made, &options));
        handle_.reset(made);
    }
    // Prepares for a new connection.
    void reconnect() { check(cusViewerReconnect(get())); }
    // Takes bytes from `input` (and moves it past them) up to the next update.
    cusViewerUpdate input(Bytes &input) {
        size_t used = 0;
        cusViewerUpdate update = CUS_VIEWER_NOTHING;
        check(cusViewerInput(get(), input.data, input.size, &used, &update));
        input.data += used;
        input.size -= used;
        return update;
    }
    // Returns the bytes that wait to be sent.
    Bytes output() {
        Bytes bytes;
        check(cusViewerOutput(get(), &bytes.data, &bytes.size));
        return bytes;
    }
    // Says how many of them have been sent.
    void sent(size_t bytes) { check(cusViewerSent(get(), bytes)); }
    // Queues a bye.
    void finish() { check(cusViewerFinish(get())); }
    // Returns the frame, valid until the next input.
    cusMat frame() const {
        cusMat view = CUS_MAT_INIT;
        check(cusViewerFrame(get(), &view));
        return view;
    }
    // Returns the video's properties and the current frame's.
    cusViewerInfo info() const {
        cusViewerInfo info = {};
        check(cusViewerQuery(get(), &info));
        return info;
    }
    // Returns the C object.
    cusViewer *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusViewer, &cusViewerDestroy> handle_;
};

} // namespace cusight

#endif // CUSIGHT_LIVE_HPP
