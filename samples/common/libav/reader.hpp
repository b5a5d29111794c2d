// Decodes the pictures of a video, with their times. Needs no OpenCV.
#pragma once

#include "common/libav/libav.hpp"

#include "cusight/matrix.hpp"
#include "cusight/video.h"

#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>

namespace av {

// What cannot be opened: the message is the reason.
class OpenError : public std::runtime_error {
  public:
    explicit OpenError(const std::string &why, bool other = false) : std::runtime_error(why), another_way(other) {}
    const bool another_way; // the server has answered, so it may understand another request
};

// Where pictures are decoded.
struct Decoding {
    std::string name; // of the input, for messages
    int gpu = -1;     // on this one if it can, with one line that says why it cannot; -1: on the CPU
    int threads = 0;  // of the CPU's decoder; 0: as many as there are processors
};

// The first video stream of a file, of what a URL sends, or of a pipe. Sound and other streams are ignored.
class Reader {
  public:
    // Fills the buffer with up to `bytes` bytes; 0 at the end.
    using Read = std::function<size_t(char *buffer, size_t bytes)>;

    // A file. Throws OpenError, as do the others.
    static std::unique_ptr<Reader> file(const std::string &path, const Decoding &decoding);
    // Gives up once interrupted() returns true, or if nothing comes for half a minute. What a web server without ranges sends is
    // copied to a temporary file if it cannot be read from front to back.
    static std::unique_ptr<Reader> network(const std::string &url, const Decoding &decoding,
                                           const std::function<bool()> &interrupted);
    // What read() returns, from front to back. What it throws ends the video, and is thrown by next().
    static std::unique_ptr<Reader> pipe(Read read, const Decoding &decoding);
    ~Reader();
    Reader(const Reader &) = delete;
    Reader &operator=(const Reader &) = delete;

    // Decodes the next picture. `seconds`: its time, 0 for the first one of the stream; NaN if the stream tells none. Returns
    // false at the end.
    bool next(double &seconds);
    // Its size when it is upright.
    int rows() const { return rotation_ % 2 ? frame_->width : frame_->height; }
    int cols() const { return rotation_ % 2 ? frame_->height : frame_->width; }
    // That picture in BGR, 8UC3, upright, created as needed: in host memory, ready at return; or in that of the calling thread's
    // device, in the order of the default stream.
    void get(cusMat &bgr, cusSpace space);
    // The next picture is at `seconds`, or earlier. Returns false, with nothing changed, if the input cannot do that.
    bool seek(double seconds);

    double rate() const;      // frames a second on average; 0 if unknown
    double grid() const;      // the lowest rate at which each frame has a place of its own; 0 if unknown
    bool steady() const;      // whether they come at that rate
    AVRational tick() const;  // the unit of their times, in seconds
    long long frames() const; // as its header says; 0 if unknown
    bool hasSound() const;
    bool live() const;                             // comes from the network, and nothing tells when it ends
    long long damaged() const { return damaged_; } // packets and pictures that could not be decoded

  private:
    using Clock = std::chrono::steady_clock;

    using Temporary = std::unique_ptr<std::FILE, int (*)(std::FILE *)>;

    explicit Reader(Decoding decoding);
    std::unique_ptr<Reader> copy(const std::string &url, Options &options);
    void open(const std::string &url, Options &options);
    void openDecoder();
    int openCodec(const AVCodec *decoder, AVBufferRef *device);
    bool openOnGpu();
    bool fallBack(int error);
    void sayRefused();
    bool decode();
    void takeFrame();
    int wrap(cusMat (&planes)[3], cusYuvOptions &options) const;
    void scale(cusMat &to);
    static AVPixelFormat onFormat(AVCodecContext *codec, const AVPixelFormat *offered);
    static int onRead(void *self, uint8_t *buffer, int bytes);
    static int onWait(void *self);

    const Decoding decoding_;
    std::string refused_;                       // why the GPU does not decode this video, until that is said
    Temporary temporary_{nullptr, std::fclose}; // what is read of it lies there
    Read read_;
    std::exception_ptr read_error_;
    std::function<bool()> interrupted_;
    Clock::time_point deadline_ = Clock::time_point::max();
    Io io_;
    AVFormatContext *format_ = nullptr;
    AVStream *stream_ = nullptr;
    Codec codec_;
    Packet packet_;
    Frame frame_;
    Scaler scaler_;
    int scaled_[5] = {}; // width, height, format, color space and range that scaler_ is for
    cusight::Matrix padded_, staged_, turned_, uploaded_[3];
    int rotation_ = 0;                       // quarters of a turn, clockwise
    int64_t first_ = AV_NOPTS_VALUE;         // time of the first picture
    bool drained_ = false, waiting_ = false; // waiting_: frame_ is decoded and not taken
    long long damaged_ = 0;
};

} // namespace av
