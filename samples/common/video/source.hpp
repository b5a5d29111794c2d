// Sources of frames: a video file, a camera, a URL, stdin, images, or a generated clip. Without OpenCV, videos and URLs only.
#pragma once

#include "common/app.hpp"
#include "common/stages.hpp"
#include "common/terminal/options.hpp"
#include "common/values.hpp"

#include "cusight/matrix.hpp"

#ifdef CUSIGHT_SAMPLES_OPENCV
#include <opencv2/core.hpp>
#endif

#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace sample {

// The inputs that openSource accepts, for --help.
extern const char *const SOURCE_HELP;

#ifdef CUSIGHT_SAMPLES_OPENCV
using FrameSize = cv::Size;
#else
using FrameSize = Size;
#endif
struct Playback; // sink.hpp

// Frames are 8UC3, BGR, all of the same size, unless Input says otherwise. Used by one thread at a time.
class Source {
  public:
    virtual ~Source() = default;

    // Reads the next frame into host memory, or into that of the calling thread's device, in the order of the default stream;
    // returns false at the end. A matrix that already has the size and type is written in place, so frames can be decoded
    // straight into pinned memory. Throws Stop(INPUT) if the input ends early or a frame has another size; earlier frames stay
    // valid.
    bool read(cusMat &frame, cusSpace space);
    // When the frame of the last read() is shown: seconds after the first frame of the input, later than the frame before.
    double seconds() const { return seconds_; }

    const std::string &name() const { return name_; }
    FrameSize size() const { return size_; }       // of the frames that read() returns
    double fps() const { return fps_; }            // on average; 25 if unknown
    bool live() const { return live_; }            // a camera or a URL, whose frames come at their own times
    bool steady() const { return steady_; }        // frames come at a constant rate
    bool isPicture() const { return is_picture_; } // a single one
    bool isVideo() const { return is_video_; }     // what FFmpeg's libraries decode, so perhaps on the GPU
    long long damaged() const { return damaged_; } // parts that could not be decoded, once they have been said
    // The files of a folder or a list of pictures, in the order of the frames; empty for anything else.
    const std::vector<std::string> &pictures() const { return pictures_; }
    long long frames() const { return total_; } // that read() will return; 0: unknown
    long long delivered() const { return delivered_; }
    // Spent decoding, including the waits for a camera. The first frame is decoded ahead, like a preview.
    double decodingSeconds() const { return decoding_.seconds; }

  protected:
    // Goes to the next frame, and sets its time after the first one, which is that of a constant rate when it is called.
    // Returns false at the end. Throws Stop(INPUT).
    virtual bool next(double &seconds) = 0;
    // That frame, created as needed; its size.
    virtual void get(cusMat &frame, cusSpace space) = 0;
    virtual FrameSize sizeNow() const = 0;
    // The next frame is at `seconds` or earlier; false, and nothing changes, if that is not possible.
    virtual bool seek(double) { return false; }

    std::string name_;
    std::vector<std::string> pictures_;
    double fps_ = 25, grid_ = 0;                        // grid_: a constant rate that leaves out no frame; 0: fps_
    bool live_ = false, timed_ = false, steady_ = true; // timed_: frames have times of their own
    bool once_ = false;                                 // a pipe, whose frames cannot be had again
    int tick_num_ = 0, tick_den_ = 0;                   // the unit of their times; 0/0: unknown
    bool sound_ = false, is_video_ = false;
    long long total_ = 0, damaged_ = 0;

    friend std::unique_ptr<Source> openSource(const Input &);
    friend Playback playbackOf(const Source &);
    friend class Several;

  private:
    // Called once after opening: reads the first frame of the part that is wanted, which determines the size.
    void start(const Input &input);
    bool advance(double &seconds);
    bool step();
    void fetch(cusMat &frame, cusSpace space);
    FrameSize fetchedSize() const;

    struct Ahead {
        cusight::Matrix frame;
        double seconds;
    };
    std::vector<Ahead> ahead_; // decoded and not read, from taken_ on; the last one read is the one before
    size_t taken_ = 0;
    bool waiting_ = false;       // the decoder's frame is the next one, at last_,
    bool ended_ = false;         // or there is none,
    std::exception_ptr problem_; // or this instead
    FrameSize size_;
    std::array<int, 4> crop_ = {}; // as Input
    cusight::Matrix whole_;
    double from_ = 0, to_ = 0, last_ = 0, seconds_ = 0; // to_: 0 if there is no end; last_: the time of the newest frame
    bool is_picture_ = false, any_size_ = false, from_ahead_ = false;
    long long decoded_ = 0, delivered_ = 0;
    Stopwatch decoding_;

#ifdef CUSIGHT_SAMPLES_OPENCV
  public:
    bool read(cv::Mat &frame);
    // The first frames of `seconds` (of one second of a live source) that fit into `bytes`, at least two if there are. read()
    // still returns them, and any error in its place; until then they are valid.
    std::vector<cv::Mat> preview(double seconds, double bytes);
#endif
};

// How a window or file shows the pictures made of the frames.
Playback playbackOf(const Source &source);
// Prints "input: NAME, W x H".
void figureInput(const Source &source);

// Lets videos be decoded on the GPU, as --decoder says, which `device` decides for auto.
void chooseDecoder(Input &input, const Device &device);

// Opens what SOURCE_HELP describes. Throws Stop(INPUT), also if it contains no frame; Stop(USAGE) for an empty part of it.
std::unique_ptr<Source> openSource(const Input &input);
std::unique_ptr<Source> openSource(const std::string &name); // all of it

} // namespace sample
