// The sender: threads for capture -> difference -> send, and the main thread, which shows the progress.
#include "diffstream/sender.hpp"

#include "common/output.hpp"
#include "common/terminal/progress.hpp"
#include "common/video/sink.hpp"
#include "common/video/source.hpp"
#include "common/stages.hpp"
#include "diffstream/broadcaster.hpp"
#include "diffstream/log.hpp"
#include "diffstream/queues.hpp"
#include "diffstream/signals.hpp"

#include "cusight/opencv.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <thread>

namespace diffstream {

using cusight::check;
using sample::Stop;

namespace {

constexpr int KEY_FRAME_INTERVAL = 10; // minimum distance in frames, so that no viewer can slow down the others
constexpr auto MAX_CATCH_UP = std::chrono::milliseconds(250); // a longer delay would reach the viewers as a burst

struct DestroySender {
    void operator()(cusSender *sender) const { cusSenderDestroy(sender); }
};

class Transmission {
  public:
    Transmission(const SendSettings &settings, const Announce &listening, const std::function<bool()> &stop)
        : settings_(settings), stop_(stop), device_(sample::chooseDevice(settings.device)), input_(settings.input),
          source_(openSource()), size_(source_->size()), name_(source_->name()), rate_(settings.rate > 0   ? settings.rate
                                                                                       : source_->steady() ? source_->fps()
                                                                                                           : 0),
          drop_oldest_(settings.drop == "latest" || (settings.drop == "auto" && source_->live())), sender_(createSender()),
          captured_(settings.options.max_in_flight + 2, size_.height, size_.width, onGpu()),
          packed_(settings.options.max_in_flight),
          broadcaster_(settings, size_, rate_, packed_, sender_.get(), stats_, listening) {
        if (!settings.digests.empty())
            digests_.open(std::make_unique<sample::OutputFile>(settings.digests));
    }

    void run() {
        const long long total = totalFrames(); // before another thread uses the source
        std::exception_ptr capture_error, difference_error, send_error;
        auto blocked = std::make_unique<SignalsBlocked>(); // while threads start
        std::thread capturing([&] {
            guarded(capture_error, [&] { capture(); });
            captured_.close();
        });
        std::thread differencing([&] {
            guarded(difference_error, [&] { difference(); });
            captured_.close();
            packed_.close();
        });
        sample::Progress progress("frames", total);
        blocked.reset();
        while (!packed_.ended()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            showProgress(progress);
        }
        const auto end = Clock::now();
        capturing.join();
        differencing.join();
        guarded(send_error, [&] { broadcaster_.finish(); });
        if (settings_.progress && stderrAccepts())
            progress.finish();
        digests_.finish([&](sample::OutputFile &file) {
            if (stats_.frames)
                file.commit();
        });
        report(std::chrono::duration<double>(end - first_frame_).count());
        for (const std::exception_ptr &error : {send_error, difference_error, digests_.error(), capture_error})
            if (error)
                std::rethrow_exception(error);
    }

  private:
    template<class F>
    static void guarded(std::exception_ptr &error, F &&work) {
        try {
            work();
        } catch (...) {
            error = std::current_exception();
        }
    }

    std::unique_ptr<sample::Source> openSource() {
        sample::chooseDecoder(input_, device_);
        auto source = sample::openSource(input_);
        if (settings_.times)
            settings_.times->recording = sample::playbackOf(*source).recording;
        return source;
    }

    bool onGpu() const { return device_.space == CUS_DEVICE; }
    bool stopped() { return sample::interrupted() || stop_() || packed_.closed(); }
    double frameBytes() const { return 3.0 * size_.area(); }
    double frameCount() const { return static_cast<double>(std::max<long long>(stats_.frames, 1)); }

    cusSender *createSender() const {
        cusSender *sender = nullptr;
        check(cusSenderCreate(&sender, size_.height, size_.width, CUS_8UC3, device_.space, &settings_.options));
        return sender;
    }

    // 0: unknown
    long long totalFrames() const {
        const long long total = settings_.loop ? 0 : source_->frames();
        if (!settings_.max_frames)
            return total;
        return total ? std::min<long long>(total, settings_.max_frames) : settings_.max_frames;
    }

    // ---- Capture ----

    void capture() {
        while (!stopped() && broadcaster_.connected() < settings_.wait)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        auto origin = first_frame_ = Clock::now();
        for (long long k = 0; (!settings_.max_frames || k < settings_.max_frames) && !stopped(); ++k) {
            Captured *const captured = captured_.acquire(drop_oldest_);
            if (!captured || !read(*captured))
                break;
            first_seconds_ = k ? first_seconds_ : captured->seconds;
            captured->seconds -= first_seconds_;
            if (settings_.rate > 0)
                captured->seconds = static_cast<double>(k) / settings_.rate;
            if (!settings_.unpaced && (settings_.rate > 0 || !source_->live()))
                pace(origin, captured->seconds);
            captured_.push(captured);
        }
    }

    // Reads the next frame; with --loop, restarts the source at its end. Returns false if there is none.
    bool read(Captured &into) {
        const auto begin = Clock::now();
        cv::Mat frame = cusight::toMat(into.frame);
        bool more = source_->read(frame);
        if (!more && settings_.loop) {
            earlier_ += source_->seconds() + 1 / source_->fps();
            source_ = sample::openSource(input_);
            if (source_->size() != size_)
                throw Stop(sample::INPUT, name_ + " has changed its size");
            more = source_->read(frame);
        }
        into.seconds = earlier_ + source_->seconds();
        SenderStats::add(stats_.capture, secondsSince(begin));
        return more;
    }

    // Waits until the frame is due, `seconds` after `origin`. Catches up with short delays only.
    void pace(Clock::time_point &origin, double seconds) {
        const auto at = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
        origin = std::max(origin, Clock::now() - MAX_CATCH_UP - at);
        for (auto now = Clock::now(); now < origin + at && !stopped(); now = Clock::now())
            std::this_thread::sleep_until(std::min(origin + at, now + std::chrono::milliseconds(50)));
    }

    // ---- Difference ----

    void difference() {
        if (onGpu())
            check(cusDeviceSet(device_.index));
        // The GPU works on the next frame while one is packed, unless the reference is read in between.
        const size_t in_flight = onGpu() && !digests_ ? 2 : 1;
        std::deque<Captured *> submitted;
        for (;;) {
            Captured *const frame = captured_.pop(submitted.empty());
            if (!frame && submitted.empty())
                return;
            if (frame) {
                if (!packed_.waitForRoom())
                    return;
                check(cusSenderSubmit(sender_.get(), &frame->frame, keyFrameDue(), nullptr));
                submitted.push_back(frame);
                if (submitted.size() < in_flight)
                    continue;
            }
            cusSentFrame packed;
            check(cusSenderFinish(sender_.get(), &packed));
            const double seconds = submitted.front()->seconds;
            captured_.release(submitted.front());
            submitted.pop_front();
            count(packed);
            if (digests_)
                writeDigest(packed.sequence);
            if (settings_.times && !settings_.times->sent(packed.sequence, seconds))
                return;
            packed_.push(packed);
        }
    }

    // Whether the next frame submitted gets a key frame, for viewers that wait for one.
    bool keyFrameDue() {
        const bool due = submitted_ - last_key_frame_ >= KEY_FRAME_INTERVAL && broadcaster_.takeKeyFrameRequest();
        if (due)
            last_key_frame_ = submitted_;
        ++submitted_;
        return due;
    }

    void count(const cusSentFrame &frame) {
        ++stats_.frames;
        stats_.bytes += static_cast<long long>(frame.message_bytes);
        stats_.changed += frame.count;
        SenderStats::add(stats_.encode, 1e-3 * static_cast<double>(frame.encode_ms));
        SenderStats::add(stats_.pack, 1e-3 * static_cast<double>(frame.pack_ms));
    }

    // The checksum of what viewers must see after this frame.
    void writeDigest(uint64_t sequence) {
        cusMat reference = CUS_MAT_INIT, host = CUS_MAT_INIT;
        check(cusSenderReference(sender_.get(), &reference));
        if (onGpu()) {
            check(cusMatDownload(&reference, &host, nullptr));
            check(cusStreamSynchronize(nullptr));
        } else {
            check(cusMatRegion(&reference, 0, 0, reference.cols, reference.rows, &host));
        }
        uint32_t crc = 0;
        for (int y = 0; y < host.rows; ++y)
            crc = cusCrc32c(crc, static_cast<const char *>(host.data) + static_cast<size_t>(y) * host.step,
                            static_cast<size_t>(host.cols) * 3);
        cusMatRelease(&host);
        digests_.write(broadcaster_.log(), [&](sample::OutputFile &file) {
            file.print("%llu %08x\n", static_cast<unsigned long long>(sequence), crc);
            file.publish();
        });
    }

    // ---- Figures ----

    void showProgress(sample::Progress &progress) {
        if (!settings_.progress || !stderrAccepts())
            return;
        progress.update(stats_.frames, sample::text("%d viewers, %.2f %% changed, %.2f Mbit/s", stats_.viewers.load(),
                                                    100 * static_cast<double>(stats_.changed) / frameCount() / frameBytes(),
                                                    8e-6 * static_cast<double>(stats_.bytes) / progress.seconds()));
    }

    void report(double seconds) {
        const double n = frameCount();
        const double changed = static_cast<double>(stats_.changed) / n / frameBytes(),
                     bytes = static_cast<double>(stats_.bytes) / n;
        const double fps = rate_ > 0 ? rate_ : source_->fps();
        sample::figure("source", {{"source", name_}, {"width", size_.width}, {"height", size_.height}, {"fps", fps}},
                       "%s, %d x %d, %.3f frames/s", name_.c_str(), size_.width, size_.height, fps);
        sample::figureText("device", "%s", device_.name.c_str());
        sample::figure(
            "frames sent",
            {{"frames_sent", stats_.frames.load()}, {"sent_per_second", n / seconds}, {"dropped", captured_.dropped()}},
            "%lld, %.1f a second, %lld dropped", stats_.frames.load(), n / seconds, captured_.dropped());
        sample::figure("bytes a frame",
                       {{"sent_bytes_per_frame", bytes}, {"frame_bytes", frameBytes()}, {"changed", changed}},
                       "%.0f of %.0f, %.3f %% of the bytes changed", bytes, frameBytes(), 100 * changed);
        sample::figureStages(
            {{"capture", stats_.capture}, {"difference", stats_.encode}, {"pack", stats_.pack}, {"send", stats_.send}},
            seconds, n);
    }

    const SendSettings &settings_;
    const std::function<bool()> &stop_;
    const sample::Device device_;
    sample::Input input_;
    std::unique_ptr<sample::Source> source_;
    const cv::Size size_;
    const std::string name_;
    const double rate_; // that viewers are told; 0: none, frames have times of their own
    const bool drop_oldest_;
    std::unique_ptr<cusSender, DestroySender> sender_;
    CaptureQueue captured_;
    PackedQueue packed_;
    SenderStats stats_;
    Broadcaster broadcaster_;
    SideFile<sample::OutputFile> digests_{"--frame-checksums"}; // other programs follow it while it grows
    Clock::time_point first_frame_ = Clock::now();              // written by the capturing thread
    double first_seconds_ = 0, earlier_ = 0; // the time of the first frame; of all rounds of --loop before this one
    long long submitted_ = 0, last_key_frame_ = -1000;
};

} // namespace

void send(const SendSettings &settings, const Announce &listening, const std::function<bool()> &stop) {
    Transmission(settings, listening, stop).run();
}

} // namespace diffstream
