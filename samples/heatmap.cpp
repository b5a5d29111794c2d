// cusight-heatmap: shows where a video changes, as a heatmap, as noise or side by side with the input, and how much changes.
//
// The stages run concurrently: one thread decodes into a ring of frames, one computes, and the main thread encodes or shows.
// On the GPU the ring is in pinned memory, and upload, kernels and download have a stream each, ordered by events: three
// frames are in flight on the GPU while a fourth is decoded and a fifth encoded.
#include "common/app.hpp"
#include "common/channel.hpp"
#include "common/files.hpp"
#include "common/legend.hpp"
#include "common/options.hpp"
#include "common/progress.hpp"
#include "common/sink.hpp"
#include "common/source.hpp"

#include "cusight/framediff.h"
#include "cusight/opencv.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using cusight::check;

struct Settings {
    sample::Common common;
    std::string input, view = "heatmap";
    int full_scale = cusHeatmapDefaults().full_scale;
    int noise_threshold = 30;
    cusDiffOptions diff = cusDiffDefaults();
    int frames = 0;
};

// One slot of the ring.
struct Slot {
    cusMat input = CUS_MAT_INIT, output = CUS_MAT_INIT;  // host; pinned if the GPU computes
    cusMat frame = CUS_MAT_INIT, picture = CUS_MAT_INIT; // device; unused on the CPU
    cusMat map = CUS_MAT_INIT;                           // the part of the output above the legend
    cusMat changed = CUS_MAT_INIT;                       // 1 x 1, 32SC1: number of bytes the sparse difference sends
    cusStreamEvent uploaded = nullptr, computed = nullptr, downloaded = nullptr;

    Slot() = default;
    Slot(const Slot &) = delete;
    Slot &operator=(const Slot &) = delete;
    ~Slot() {
        for (cusMat *m : {&input, &output, &frame, &picture, &changed})
            cusMatRelease(m);
        for (cusStreamEvent e : {uploaded, computed, downloaded})
            cusStreamEventDestroy(e);
    }
};

// Computes the picture and the number of changed bytes, slot by slot.
class Engine {
  public:
    Engine(const Settings &settings, const sample::Device &device, cv::Size size)
        : settings_(settings), device_(device), size_(size), width_(settings.view == "side" ? 2 * size.width : size.width),
          legend_(settings.common.legend ? sample::legendHeight(width_) : 0) {
        cuda_ = device.space == CUS_DEVICE;
        if (cuda_)
            for (cusStream *stream : {&up_, &run_, &down_})
                check(cusStreamCreate(stream));
        check(cusDiffEncoderCreate(&encoder_, size.height, size.width, CUS_8UC3, device.space, &settings.diff));
        check(cusSparseDiffCreate(&diff_, size.height, size.width, CUS_8UC3, 0, 0, device.space));
    }
    ~Engine() {
        for (cusStream stream : {up_, run_, down_})
            if (stream)
                cusStreamSynchronize(stream);
        cusDiffEncoderDestroy(encoder_);
        cusSparseDiffRelease(&diff_);
        for (cusStream stream : {up_, run_, down_})
            cusStreamDestroy(stream);
    }
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    cv::Size pictureSize() const { return {width_, size_.height + legend_}; }

    void prepare(Slot &slot) const {
        if (!cuda_) {
            check(cusMatCreate(&slot.input, size_.height, size_.width, CUS_8UC3, CUS_HOST));
            check(cusMatCreate(&slot.output, size_.height + legend_, width_, CUS_8UC3, CUS_HOST));
            prepareLegend(slot);
            check(cusMatCreate(&slot.changed, 1, 1, CUS_32SC1, CUS_HOST));
            return;
        }
        check(cusMatCreatePinned(&slot.input, size_.height, size_.width, CUS_8UC3));
        check(cusMatCreatePinned(&slot.output, size_.height + legend_, width_, CUS_8UC3));
        prepareLegend(slot);
        check(cusMatCreatePinned(&slot.changed, 1, 1, CUS_32SC1));
        check(cusMatCreate(&slot.frame, size_.height, size_.width, CUS_8UC3, CUS_DEVICE));
        check(cusMatCreate(&slot.picture, size_.height, width_, CUS_8UC3, CUS_DEVICE));
        for (cusStreamEvent *event : {&slot.uploaded, &slot.computed, &slot.downloaded})
            check(cusStreamEventCreate(event));
    }

    // Starts a slot whose input is filled. `previous` is the slot before it, or the same slot for the first frame; it must
    // not change until wait(slot) has returned.
    void submit(Slot &previous, Slot &slot) {
        if (!cuda_) {
            compute(previous.input, slot.input, slot.map, &previous == &slot);
            check(cusMatCopy(&diff_.count, &slot.changed, nullptr));
            return;
        }
        check(cusMatUpload(&slot.input, &slot.frame, up_));
        check(cusStreamEventRecord(slot.uploaded, up_));
        check(cusStreamWaitEvent(run_, slot.uploaded));
        compute(previous.frame, slot.frame, slot.picture, &previous == &slot);
        check(cusMatDownload(&diff_.count, &slot.changed, run_)); // 4 bytes, before the next frame overwrites them
        check(cusStreamEventRecord(slot.computed, run_));
        check(cusStreamWaitEvent(down_, slot.computed));
        check(cusMatDownload(&slot.picture, &slot.map, down_));
        check(cusStreamEventRecord(slot.downloaded, down_));
    }

    void wait(Slot &slot) const {
        if (cuda_)
            check(cusStreamEventSynchronize(slot.downloaded));
    }

  private:
    // The map is the upper part of the output; the strip below it never changes.
    void prepareLegend(Slot &slot) const {
        check(cusMatRegion(&slot.output, 0, 0, width_, size_.height, &slot.map));
        cv::Mat strip = cusight::toMat(slot.output).rowRange(size_.height, size_.height + legend_);
        if (legend_)
            sample::drawLegend(strip, {scaleOfMap()});
    }

    sample::Scale scaleOfMap() const {
        if (settings_.view == "noise")
            return {"changed by more than " + std::to_string(settings_.noise_threshold) + " (sum of B, G, R)",
                    {{0, 0, 0}, {0, 0, 255}},
                    {{0.25, "no"}, {0.75, "yes"}}};
        sample::Scale scale = {"change (sum of B, G, R)", {}, {}};
        constexpr int COLORS = 256;
        const double pi = std::acos(-1);
        const auto channel = [](double value) { return static_cast<uchar>(255 * std::max(0.0, value)); };
        for (int i = 0; i < COLORS; ++i) { // the formula of cusHeatmap
            const double n = static_cast<double>(i) / (COLORS - 1);
            scale.colors.push_back({channel(std::cos(pi * n)), channel(std::sin(pi * n)), channel(-std::cos(pi * n))});
        }
        scale.ticks = sample::roundTicks(0, settings_.full_scale);
        return scale;
    }

    void compute(const cusMat &previous, const cusMat &current, cusMat &picture, bool first) {
        if (first)
            check(cusDiffEncoderReset(encoder_, &current, run_));
        cusMat view = CUS_MAT_INIT;
        check(cusMatRegion(&picture, 0, 0, picture.cols, picture.rows, &view));
        if (settings_.view == "side") {
            check(cusMatRegion(&picture, 0, 0, size_.width, size_.height, &view));
            check(cusMatCopy(&current, &view, run_));
            check(cusMatRegion(&picture, size_.width, 0, size_.width, size_.height, &view));
        }
        if (settings_.view == "noise") {
            check(cusNoiseView(&previous, &current, &view, settings_.noise_threshold, run_));
        } else {
            cusHeatmapOptions options = cusHeatmapDefaults();
            options.full_scale = settings_.full_scale;
            check(cusHeatmap(&previous, &current, &view, &options, run_));
        }
        check(cusDiffEncode(encoder_, &current, &diff_, run_));
    }

    const Settings &settings_;
    const sample::Device &device_;
    const cv::Size size_;
    const int width_, legend_;
    bool cuda_ = false;
    cusStream up_ = nullptr, run_ = nullptr, down_ = nullptr;
    cusDiffEncoder *encoder_ = nullptr;
    cusSparseDiff diff_ = CUS_SPARSE_DIFF_INIT;
};

// Adds up the time a stage spends working, without the waits for its neighbors.
class Stopwatch {
  public:
    template<class F>
    auto operator()(F &&work) {
        struct Add {
            double &seconds;
            const Clock::time_point start = Clock::now();
            ~Add() { seconds += std::chrono::duration<double>(Clock::now() - start).count(); }
        } add{seconds};
        return work();
    }
    double seconds = 0;
};

// The three stages and the channels between them.
class Pipeline {
  public:
    Pipeline(const Settings &settings, const sample::Device &device, sample::Source &source)
        : settings_(settings), device_(device), source_(source), engine_(settings, device, source.size()), ring_(RING),
          empty_(RING), decoded_(RING), computed_(RING) {
        for (Slot &slot : ring_) {
            engine_.prepare(slot);
            empty_.push(&slot);
        }
        sink_ = sample::openSink(settings.common, "cusight-heatmap", source.frames() == 1 ? "heatmap.png" : "heatmap.mp4",
                                 engine_.pictureSize(), sample::playbackOf(source));
    }

    // Processes all frames. What was complete before an input error is written and reported before the error is thrown; after
    // any other error nothing is written.
    void run() {
        sample::Progress progress("frames", total());
        std::thread decoder([this] {
            capture(decode_error_, [this] { decode(); });
            decoded_.close();
        });
        std::thread worker([this] {
            capture(compute_error_, [this] { compute(); });
            if (compute_error_)
                decoded_.close();
            computed_.close();
        });
        capture(write_error_, [&] { write(progress); });
        empty_.close();
        decoded_.close();
        computed_.close();
        decoder.join();
        worker.join();
        for (const std::exception_ptr &error : {write_error_, compute_error_})
            if (error)
                std::rethrow_exception(error);
        writing_([this] { sink_->finish(); });
        seconds_ = progress.seconds();
        progress.finish();
        report();
        if (decode_error_)
            std::rethrow_exception(decode_error_);
        sink_->hold();
    }

  private:
    static constexpr size_t RING = 8;

    template<class F>
    static void capture(std::exception_ptr &error, F &&work) {
        try {
            work();
        } catch (...) {
            error = std::current_exception();
        }
    }

    long long total() const {
        const long long frames = source_.frames();
        if (!settings_.frames)
            return frames;
        return frames ? std::min<long long>(frames, settings_.frames) : settings_.frames;
    }

    void decode() {
        Slot *slot = nullptr;
        for (long long i = 0; (!settings_.frames || i < settings_.frames) && !sample::interrupted() && empty_.pop(slot);
             ++i) {
            cv::Mat frame = cusight::toMat(slot->input);
            if (!decoding_([&] { return source_.read(frame); }) || !decoded_.push(slot))
                break;
        }
    }

    void compute() {
        if (device_.space == CUS_DEVICE)
            check(cusDeviceSet(device_.index));
        else
            sample::leaveCoresToCodecs();
        Slot *slot = nullptr, *previous = nullptr;
        while (decoded_.pop(slot)) {
            computing_([&] { engine_.submit(previous ? *previous : *slot, *slot); });
            previous = slot;
            if (!computed_.push(slot))
                break;
        }
    }

    void write(sample::Progress &progress) {
        const double bytes = 3.0 * source_.size().area();
        Slot *slot = nullptr, *previous = nullptr;
        while (computed_.pop(slot)) {
            engine_.wait(*slot);
            // Only now is the previous slot free: the frame just finished was compared with it.
            if (previous)
                empty_.push(previous);
            previous = slot;
            const double share = *static_cast<const uint32_t *>(slot->changed.data) / bytes;
            share_sum_ += share;
            share_max_ = std::max(share_max_, share);
            sample::reportFrame(sample::Json().add("frame", frames_).add("changed", share));
            const bool more = writing_([&] { return sink_->write(cusight::toMat(slot->output)); });
            progress.update(++frames_, sample::text("%.2f %% changed", 100 * share));
            if (!more)
                break;
        }
    }

    void report() const {
        sample::figureInput(source_);
        sample::figure("device", "%s", device_.name.c_str());
        sample::figure("view", "%s", settings_.view.c_str());
        if (!frames_)
            return;
        const double n = static_cast<double>(frames_);
        sample::figure("frames", sample::Json().add("frames", frames_), "%lld", frames_);
        sample::figure("rate", sample::Json().add("frames_per_second", n / seconds_), "%.1f frames/s", n / seconds_);
        const char *const computing = device_.space == CUS_DEVICE ? "queue" : "compute";
        const sample::Json stages = sample::Json()
                                        .add("decode", 1e3 * decoding_.seconds / n)
                                        .add(computing, 1e3 * computing_.seconds / n)
                                        .add("write", 1e3 * writing_.seconds / n)
                                        .add("overall", 1e3 * seconds_ / n);
        sample::figure("stages", sample::Json().add("stages_ms", stages),
                       "decode %.2f ms, %s %.2f ms, write %.2f ms; %.2f ms per frame overall", 1e3 * decoding_.seconds / n,
                       computing, 1e3 * computing_.seconds / n, 1e3 * writing_.seconds / n, 1e3 * seconds_ / n);
        sample::figure("changed", sample::Json().add("changed_mean", share_sum_ / n).add("changed_max", share_max_),
                       "%.3f %% of the bytes on average, %.3f %% at most", 100 * share_sum_ / n, 100 * share_max_);
        sample::figure("output", "%s", sink_->name().c_str());
    }

    const Settings &settings_;
    const sample::Device &device_;
    sample::Source &source_;
    Engine engine_;
    std::vector<Slot> ring_;
    sample::Channel<Slot *> empty_, decoded_, computed_;
    std::unique_ptr<sample::Sink> sink_;
    std::exception_ptr decode_error_, compute_error_, write_error_;
    Stopwatch decoding_, computing_, writing_;
    long long frames_ = 0;
    double share_sum_ = 0, share_max_ = 0, seconds_ = 0;
};

// False: --help or --version was printed.
bool parse(int argc, char **argv, Settings &s) {
    const auto app = sample::makeApp(
        "cusight-heatmap",
        "Shows where a video changes from frame to frame: unchanged pixels are blue, small changes green, the largest red. "
        "Also counts the bytes that a sparse difference would send.",
        "  cusight-heatmap video.mp4 --view side              a window, or heatmap.mp4 if there is no display\n"
        "  cusight-heatmap 0 --device cuda                    a camera, on the GPU\n"
        "  cusight-heatmap synthetic:1920x1080@500 --headless --output heatmap.avi\n");
    sample::addInput(*app, s.input);
    sample::addChoice(*app, "--view", s.view, {"heatmap", "noise", "side"},
                      "heatmap; noise: red where a pixel changed by more than --noise-threshold; side: input and heatmap "
                      "side by side");
    sample::addNumber(*app, "--full-scale", s.full_scale, 1, 65535,
                      "change, summed over the channels, that the heatmap shows as pure red");
    sample::addNumber(*app, "--noise-threshold", s.noise_threshold, 0, 765,
                      "change, summed over the channels, above which the noise view marks a pixel");
    sample::addNumber(*app, "--threshold", s.diff.threshold, 0, 255,
                      "sparse difference: a byte that changed by N or less is not sent");
    sample::addNumber(*app, "--min-neighbors", s.diff.min_neighbors, 0, 8,
                      "sparse difference: a changed pixel with fewer changed neighbors counts as noise; 0: off");
    sample::addFrames(*app, s.frames);
    sample::addCommon(*app, s.common, "heatmap.mp4, or heatmap.png for one picture");
    sample::addLegend(*app, s.common.legend);
    return sample::parse(*app, argc, argv);
}

int run(int argc, char **argv) {
    Settings s;
    if (!parse(argc, argv, s))
        return sample::OK;
    sample::Files files;
    files.read("INPUT", s.input);
    files.write(s.common, "heatmap.mp4");
    if (s.common.output.empty())
        files.write(s.common, "heatmap.png");
    files.check();
    // The display check forks, so it must come before any threads and CUDA.
    if (!s.common.headless)
        sample::displayProblem();
    const sample::Device device = sample::chooseDevice(s.common.device);
    const std::unique_ptr<sample::Source> source = sample::openSource(s.input);
    Pipeline(s, device, *source).run();
    return sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}
