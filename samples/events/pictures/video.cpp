#include "events/pictures/video.hpp"

#include "common/app.hpp"
#include "common/terminal/progress.hpp"
#include "common/video/source.hpp"

#include <opencv2/imgproc.hpp>

#include <cmath>
#include <exception>

namespace events {
namespace {

// Gray frames, one below the other, and their times.
class GrayFrames {
  public:
    // memory: counts the frames and the generator's pixels; null if they have been counted.
    GrayFrames(const std::string &spec, int most, Memory *memory)
        : source_(sample::openSource(spec)), most_(source_->live() ? 1 : most) {
        const cv::Size size = source_->size();
        if (memory)
            memory->take((40.0 + most_) * size.width * size.height,
                         sample::text("events from frames of %d x %d pixels", size.width, size.height));
        stack_.create(size.height * most_, size.width, CV_8UC1);
    }
    // Reads as many frames as there are and fit. What stops it after the first is thrown by the next call.
    void read() {
        times_.clear();
        if (problem_)
            std::rethrow_exception(problem_);
        try {
            while (count() < most_ && !sample::interrupted() && source_->read(frame_)) {
                const int row = count() * frame_.rows;
                cv::cvtColor(frame_, gray_, cv::COLOR_BGR2GRAY);
                gray_.copyTo(stack_.rowRange(row, row + frame_.rows));
                times_.push_back(std::llround(1e6 * source_->seconds()));
            }
        } catch (...) {
            if (times_.empty())
                throw;
            problem_ = std::current_exception();
        }
    }
    int count() const { return static_cast<int>(times_.size()); }
    const std::vector<int64_t> &times() const { return times_; }
    // All frames, also those that were not read.
    cusMat view() {
        cusMat mat = CUS_MAT_INIT;
        check(cusMatWrap(&mat, stack_.rows, stack_.cols, CUS_8UC1, CUS_HOST, stack_.data, stack_.step));
        return mat;
    }
    const sample::Source &source() const { return *source_; }

  private:
    std::unique_ptr<sample::Source> source_;
    int most_;
    cv::Mat frame_, gray_, stack_;
    std::vector<int64_t> times_;
    std::exception_ptr problem_;
};

class VideoSource : public EventSource {
  public:
    VideoSource(std::string spec, const cusEventGeneratorOptions &options, int most, Memory &memory)
        : options_(options), spec_(std::move(spec)), most_(most), memory_(memory) {}
    ~VideoSource() override { cusEventGeneratorDestroy(generator_); }

    void rewind() override {
        frames_ = std::make_unique<GrayFrames>(spec_, most_, frames_ ? nullptr : &memory_);
        const cv::Size size = frames_->source().size();
        sensor = {size.width, size.height};
        cusEventGeneratorDestroy(generator_);
        generator_ = nullptr;
        check(cusEventGeneratorCreate(&generator_, sensor.height, sensor.width, &options_));
    }
    bool live() const override { return frames_->source().live(); }
    std::string describe() const override { return frames_->source().name() + ", events generated from video"; }

  protected:
    // Frames first .. first + frames - 1 of `stack`.
    cusMat part(const cusMat &stack, int first, int frames) const {
        cusMat mat = CUS_MAT_INIT;
        check(cusMatRegion(&stack, 0, first * sensor.height, sensor.width, frames * sensor.height, &mat));
        return mat;
    }
    const cusEventGeneratorOptions options_;
    std::unique_ptr<GrayFrames> frames_;
    cusEventGenerator *generator_ = nullptr;

  private:
    std::string spec_;
    int most_;
    Memory &memory_;
};

class HostVideo final : public VideoSource {
  public:
    HostVideo(const std::string &spec, const cusEventGeneratorOptions &options, Memory &memory)
        : VideoSource(spec, options, 1, memory) {
        rewind();
    }
    bool next(cusEventArrays &events) override {
        do { // a picture that does not change makes no events
            frames_->read();
            if (frames_->count() == 0)
                return false;
            const cusMat frame = frames_->view();
            const sample::LongCalls calls;
            const cusStatus status = cusEventGeneratorPush(generator_, &frame, frames_->times().front(), &events);
            if (status == CUS_ERROR_CANCELLED) // interrupted: the video ends here
                return false;
            check(status);
        } while (events.count == 0);
        return true;
    }
};

// Makes the events of several frames at once on the GPU, and downloads them.
class DeviceVideo final : public VideoSource {
  public:
    static constexpr int FRAMES = 16, EVENTS = 1 << 23;

    DeviceVideo(const std::string &spec, const cusEventGeneratorOptions &options, Memory &memory)
        : VideoSource(spec, options, FRAMES, memory) {
        const int types[] = {CUS_16UC1, CUS_16UC1, CUS_8UC1, CUS_64FC1}; // x, y, p; t is int64_t, as large as 64F
        for (int k = 0; k < 4; ++k) {
            check(cusMatCreate(&made_[k], 1, EVENTS, types[k], CUS_DEVICE));
            check(cusMatCreatePinned(&column_[k], 1, EVENTS, types[k]));
        }
        rewind();
    }
    ~DeviceVideo() override {
        for (cusMat *mats : {made_, column_})
            for (int k = 0; k < 4; ++k)
                cusMatRelease(&mats[k]);
        cusMatRelease(&stack_);
    }
    void rewind() override {
        VideoSource::rewind();
        done_ = 0;
    }
    bool next(cusEventArrays &events) override {
        size_t n = 0;
        do {
            if (done_ == frames_->count()) {
                frames_->read();
                done_ = 0;
                if (frames_->count() == 0)
                    return false;
                const cusMat host = frames_->view(), part_of_it = part(host, 0, frames_->count());
                check(cusMatUpload(&part_of_it, &stack_, nullptr));
            }
            n = generate();
        } while (n == 0);
        for (int k = 0; k < 4; ++k) {
            cusMat from = CUS_MAT_INIT, to = CUS_MAT_INIT;
            check(cusMatRegion(&made_[k], 0, 0, static_cast<int>(n), 1, &from));
            check(cusMatRegion(&column_[k], 0, 0, static_cast<int>(n), 1, &to));
            check(cusMatDownload(&from, &to, nullptr));
        }
        check(cusStreamSynchronize(nullptr));
        events = {static_cast<uint16_t *>(column_[0].data),
                  static_cast<uint16_t *>(column_[1].data),
                  static_cast<uint8_t *>(column_[2].data),
                  static_cast<int64_t *>(column_[3].data),
                  n,
                  CUS_HOST};
        return true;
    }

  private:
    // The next frames of the stack: all that are left, or if their events are too many half of them, and so on.
    size_t generate() {
        const cusEventBuffers out = {static_cast<uint16_t *>(made_[0].data),
                                     static_cast<uint16_t *>(made_[1].data),
                                     static_cast<uint8_t *>(made_[2].data),
                                     static_cast<int64_t *>(made_[3].data),
                                     EVENTS,
                                     nullptr,
                                     0};
        for (int frames = frames_->count() - done_;; frames /= 2) {
            const cusMat some = part(stack_, done_, frames);
            check(cusEventGeneratorRun(generator_, &some, &frames_->times()[static_cast<size_t>(done_)], frames, &out,
                                       nullptr, nullptr));
            cusEventsGenerated made = {};
            const cusStatus status = cusEventGeneratorCheck(generator_, &made, nullptr);
            if (status == CUS_ERROR_CAPACITY && frames > 1)
                continue;
            check(status);
            done_ += frames;
            return made.count;
        }
    }
    cusMat stack_ = CUS_MAT_INIT, made_[4] = {}, column_[4] = {};
    int done_ = 0; // frames of the stack whose events have been made
};

} // namespace

std::unique_ptr<EventSource> openVideo(const std::string &spec, const cusEventGeneratorOptions &options, Memory &memory) {
    if (options.space == CUS_HOST)
        return std::make_unique<HostVideo>(spec, options, memory);
    cusEventGeneratorOptions on_device = options;
    on_device.max_events = DeviceVideo::EVENTS;
    return std::make_unique<DeviceVideo>(spec, on_device, memory);
}

} // namespace events
