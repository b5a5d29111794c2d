// cusight-heatmap: shows where a video changes, as a heatmap, as noise or side by side with the input, and how much changes; or what
// moves in it (heatmap/motion.cpp).
//
// The stages run concurrently: one thread decodes into a ring of frames, one computes, and the main thread encodes or shows.
// On the GPU the ring is in pinned memory, and upload, kernels and download have a stream each, ordered by events: three
// frames are in flight on the GPU while a fourth is decoded and a fifth encoded. Frames that the GPU decodes stay there.
//
// Several devices each have a band of rows of every frame. A pixel depends only on itself in earlier frames, so the
// previous frame and the encoder's reference stay on their device, and no row is uploaded twice. With the noise filter a
// pixel depends also on its neighbors in all earlier frames; the first device then gets whole frames and counts alone.
#include "common/app.hpp"
#include "common/channel.hpp"
#include "common/terminal/files.hpp"
#include "common/video/legend.hpp"
#include "common/many_devices.hpp"
#include "common/terminal/options.hpp"
#include "common/terminal/progress.hpp"
#include "common/video/sink.hpp"
#include "common/video/source.hpp"
#include "common/stages.hpp"
#include "heatmap/colors.hpp"
#include "heatmap/motion.hpp"
#include "heatmap/pictures/watch.hpp"

#include "cusight/framediff.h"
#include "cusight/opencv.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace {

using cusight::check;

struct Settings {
    sample::Common common;
    sample::Input input;
    std::string view = "heatmap", palette = "classic";
    int full_scale = 0;            // 0 until chosen
    std::vector<cv::Vec3b> colors; // of all differences
    size_t previewed = 0;          // frames that full_scale was chosen from
    int noise_threshold = 30;
    cusDiffOptions diff = cusDiffDefaults();
    int frames = 0;
    heatmap::MotionSettings motion;
    bool findsMotion() const { return view == "motion" || !motion.report.empty() || !motion.clips.empty(); }
};

// Rows first .. end - 1.
struct Rows {
    int first, end;
    int count() const { return end - first; }
    // These rows of a matrix that starts at row `top` of the frame.
    cusMat of(const cusMat &mat, int top = 0) const {
        cusMat region = CUS_MAT_INIT;
        check(cusMatRegion(&mat, 0, first - top, mat.cols, count(), &region));
        return region;
    }
};

// The work of one device on every frame.
struct Share {
    Rows picture, input; // rows to make; rows to read, which contain them
    bool counts;         // also the changed bytes of `input`
};

// The shares of at most `devices` devices, none of them without rows.
std::vector<Share> divide(int rows, int devices, bool filtered) {
    std::vector<Share> shares;
    const int n = std::min(rows, devices);
    for (int i = 0; i < n; ++i) {
        const Rows band = {static_cast<int>(static_cast<long long>(rows) * i / n),
                           static_cast<int>(static_cast<long long>(rows) * (i + 1) / n)};
        shares.push_back({band, filtered && i == 0 ? Rows{0, rows} : band, !filtered || i == 0});
    }
    return shares;
}

// A device's part of a slot.
struct Part {
    cusMat frame = CUS_MAT_INIT, picture = CUS_MAT_INIT; // device; unused on the CPU
    cusMat changed = CUS_MAT_INIT;                       // 1 x 1, 32SC1: number of bytes the sparse difference sends
    cusStreamEvent uploaded = nullptr, computed = nullptr, downloaded = nullptr;

    Part() = default;
    Part(const Part &) = delete;
    Part &operator=(const Part &) = delete;
    ~Part() {
        for (cusMat *m : {&frame, &picture, &changed})
            cusMatRelease(m);
        for (cusStreamEvent e : {uploaded, computed, downloaded})
            cusStreamEventDestroy(e);
    }
};

// One slot of the ring.
struct Slot {
    cusMat input = CUS_MAT_INIT, output = CUS_MAT_INIT; // host; pinned if GPUs compute. input: unused if the GPU decodes
    std::vector<Part> parts;                            // one a device
    double seconds = 0;                                 // the time of the frame

    Slot() = default;
    Slot(const Slot &) = delete;
    Slot &operator=(const Slot &) = delete;
    ~Slot() {
        cusMatRelease(&input);
        cusMatRelease(&output);
    }
};

// Computes a device's share of the picture and of the number of changed bytes, slot by slot.
class Engine {
  public:
    // top: rows of the output above the picture. decoded: frames are on the device when they are submitted.
    Engine(const Settings &settings, const sample::Device &device, size_t index, const Share &share, int cols, int top,
           bool decoded)
        : settings_(settings), index_(index), share_(share), cols_(cols), top_(top), cuda_(device.space == CUS_DEVICE),
          decoded_(decoded) {
        if (cuda_)
            for (cusStream *stream : {&up_, &run_, &down_})
                check(cusStreamCreate(stream));
        if (!share.counts)
            return;
        const int rows = share.input.count();
        check(cusDiffEncoderCreate(&encoder_, rows, cols, CUS_8UC3, device.space, &settings.diff));
        check(cusSparseDiffCreate(&diff_, rows, cols, CUS_8UC3, 0, 0, device.space));
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

    // Allocates this device's part of a slot.
    void prepare(Slot &slot) const {
        Part &part = slot.parts[index_];
        if (!cuda_) {
            check(cusMatCreate(&part.changed, 1, 1, CUS_32SC1, CUS_HOST));
            check(cusMatSetZero(&part.changed, nullptr));
            return;
        }
        check(cusMatCreatePinned(&part.changed, 1, 1, CUS_32SC1));
        check(cusMatSetZero(&part.changed, nullptr));
        check(cusMatCreate(&part.frame, share_.input.count(), cols_, CUS_8UC3, CUS_DEVICE));
        check(cusMatCreate(&part.picture, share_.picture.count(), slot.output.cols, CUS_8UC3, CUS_DEVICE));
        for (cusStreamEvent *event : {&part.uploaded, &part.computed, &part.downloaded})
            check(cusStreamEventCreate(event));
    }

    // Starts this device's share of a slot whose input is filled. `previous` is the slot before it, or the same slot for the
    // first frame; it must not change until wait() has returned.
    void submit(const Slot &previous, Slot &slot) {
        Part &part = slot.parts[index_];
        const bool first = &previous == &slot;
        if (!cuda_) {
            cusMat picture = share_.picture.of(slot.output, -top_);
            compute(share_.input.of(previous.input), share_.input.of(slot.input), picture, first);
            if (share_.counts)
                check(cusMatCopy(&diff_.count, &part.changed, nullptr));
            return;
        }
        if (!decoded_) {
            const cusMat input = share_.input.of(slot.input);
            check(cusMatUpload(&input, &part.frame, up_));
            check(cusStreamEventRecord(part.uploaded, up_));
        }
        check(cusStreamWaitEvent(run_, part.uploaded));
        compute(previous.parts[index_].frame, part.frame, part.picture, first);
        if (share_.counts)
            check(cusMatDownload(&diff_.count, &part.changed, run_)); // 4 bytes, before the next frame overwrites them
        check(cusStreamEventRecord(part.computed, run_));
        check(cusStreamWaitEvent(down_, part.computed));
        cusMat output = share_.picture.of(slot.output, -top_);
        check(cusMatDownload(&part.picture, &output, down_));
        check(cusStreamEventRecord(part.downloaded, down_));
    }

    static void wait(const Part &part) {
        if (part.downloaded)
            check(cusStreamEventSynchronize(part.downloaded));
    }

  private:
    // previous, current: the input rows; picture: the picture's rows.
    void compute(const cusMat &previous, const cusMat &current, cusMat &picture, bool first) {
        const int top = share_.input.first;
        const cusMat before = share_.picture.of(previous, top), now = share_.picture.of(current, top);
        cusMat view = CUS_MAT_INIT;
        check(cusMatRegion(&picture, 0, 0, picture.cols, picture.rows, &view));
        if (settings_.view == "side") {
            check(cusMatRegion(&picture, 0, 0, cols_, picture.rows, &view));
            check(cusMatCopy(&now, &view, run_));
            check(cusMatRegion(&picture, cols_, 0, cols_, picture.rows, &view));
        }
        if (settings_.view == "noise") {
            check(cusNoiseView(&before, &now, &view, settings_.noise_threshold, run_));
        } else {
            cusHeatmapOptions options = cusHeatmapDefaults();
            options.colors = settings_.colors.front().val;
            check(cusHeatmap(&before, &now, &view, &options, run_));
        }
        if (!share_.counts)
            return;
        if (first)
            check(cusDiffEncoderReset(encoder_, &current, run_));
        check(cusDiffEncode(encoder_, &current, &diff_, run_));
    }

    const Settings &settings_;
    const size_t index_;
    const Share share_;
    const int cols_, top_;
    const bool cuda_, decoded_;
    cusStream up_ = nullptr, run_ = nullptr, down_ = nullptr;
    cusDiffEncoder *encoder_ = nullptr;
    cusSparseDiff diff_ = CUS_SPARSE_DIFF_INIT;
};

constexpr int LARGEST_CHANGE = 765;

sample::Scale scaleOfMap(const Settings &settings) {
    if (settings.view == "noise")
        return {"changed by more than " + std::to_string(settings.noise_threshold) + " (sum of B, G, R)",
                {{0, 0, 0}, {0, 0, 255}},
                {{0.25, "no"}, {0.75, "yes"}}};
    sample::Scale scale = {"change (sum of B, G, R)", {}, {}};
    scale.colors = heatmap::paletteColors(settings.palette, 256, 255);
    scale.ticks = sample::roundTicks(0, settings.full_scale);
    if (settings.full_scale < LARGEST_CHANGE && scale.ticks.back().at == 1)
        scale.ticks.back().label += " or more";
    return scale;
}

// The three stages and the channels between them.
class Pipeline {
  public:
    // watch: null, or gets all frames.
    Pipeline(const Settings &settings, std::vector<sample::Device> devices, sample::Source &source, heatmap::Watch *watch)
        : settings_(settings), devices_(std::move(devices)), source_(source), watch_(watch),
          shares_(divide(source.size().height, static_cast<int>(devices_.size()), settings.diff.min_neighbors > 0)),
          on_gpu_(settings.input.gpu >= 0 && source.isVideo() && shares_.size() == 1 &&
                  devices_.front().space == CUS_DEVICE && !watch),
          computing_(shares_.size()), ring_(RING), empty_(RING) {
        devices_.resize(shares_.size());
        const cv::Size size = source.size();
        const int width = settings.view == "side" ? 2 * size.width : size.width;
        legend_ = settings.common.legend ? sample::legendHeight(width) : 0;
        const cv::Size picture(width, size.height + legend_);
        const bool cuda = devices_.front().space == CUS_DEVICE;
        const auto create = [cuda](cusMat &mat, cv::Size to) {
            check(cuda ? cusMatCreatePinned(&mat, to.height, to.width, CUS_8UC3)
                       : cusMatCreate(&mat, to.height, to.width, CUS_8UC3, CUS_HOST));
        };
        for (Slot &slot : ring_) {
            if (!on_gpu_)
                create(slot.input, size);
            create(slot.output, picture);
            if (legend_) { // the strip above the map never changes
                cv::Mat strip = cusight::toMat(slot.output).rowRange(0, legend_);
                sample::drawLegend(strip, {scaleOfMap(settings)});
            }
            slot.parts = std::vector<Part>(shares_.size());
        }
        sink_ = sample::openSink(settings.common, "cusight-heatmap", source.isPicture() ? "heatmap.png" : "heatmap.mp4",
                                 picture, sample::playbackOf(source));
        dealer_ = std::make_unique<sample::Dealer<Job>>(devices_, RING, [this](size_t w) { return worker(w); });
    }

    // Processes all frames. Everything complete before an input error is written and reported before the error is thrown;
    // after any other error only what was watched is.
    void run() {
        const double opening = source_.decodingSeconds(); // before the clock starts
        sample::Progress progress("frames", total());
        std::thread decoder([this] {
            capture(decode_error_, [this] { decode(); });
            dealer_->finish();
        });
        capture(write_error_, [&] { write(progress); });
        empty_.close();
        dealer_->stop();
        decoder.join();
        dealer_->join();
        if (write_error_) {
            if (watch_)
                watch_->finish(write_error_);
            std::rethrow_exception(write_error_);
        }
        writing_([this] { sink_->finish(); });
        seconds_ = progress.seconds();
        overall_ = opening + seconds_;
        progress.finish();
        report();
        if (watch_)
            watch_->finish(decode_error_);
        if (decode_error_)
            std::rethrow_exception(decode_error_);
        sink_->hold();
    }

  private:
    static constexpr size_t RING = 8;
    struct Job {
        Slot *previous = nullptr, *slot = nullptr;
    };

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
        if (on_gpu_)
            sample::enterDevice(devices_.front(), 1);
        Slot *slot = nullptr, *previous = nullptr;
        for (long long i = 0; (!settings_.frames || i < settings_.frames) && !sample::interrupted() && empty_.pop(slot);
             ++i) {
            if (!readInto(*slot))
                break;
            slot->seconds = source_.seconds();
            for (size_t w = 0; w < shares_.size(); ++w)
                if (!dealer_->deal({previous ? previous : slot, slot}))
                    return;
            previous = slot;
        }
    }

    bool readInto(Slot &slot) {
        if (!on_gpu_) {
            cv::Mat frame = cusight::toMat(slot.input);
            return source_.read(frame);
        }
        Part &part = slot.parts.front();
        if (!source_.read(part.frame, CUS_DEVICE))
            return false;
        check(cusStreamEventRecord(part.uploaded, nullptr));
        return true;
    }

    // The work of worker `w` on its share of each slot.
    sample::Dealer<Job>::Work worker(size_t w) {
        if (devices_[w].space == CUS_HOST)
            sample::leaveCoresToCodecs(shares_.size());
        const auto engine =
            std::make_shared<Engine>(settings_, devices_[w], w, shares_[w], source_.size().width, legend_, on_gpu_);
        for (Slot &slot : ring_)
            engine->prepare(slot);
        for (Slot &slot : ring_)
            if (w == 0) // only now can a frame be decoded into it
                empty_.push(&slot);
        return [this, w, engine](Job &job) { computing_[w]([&] { engine->submit(*job.previous, *job.slot); }); };
    }

    // The next slot, once all devices have computed their shares of it.
    bool nextSlot(Slot *&slot) {
        Job job;
        for (size_t w = 0; w < shares_.size(); ++w) {
            if (!dealer_->next(job))
                return false;
            try {
                Engine::wait(job.slot->parts[w]);
            } catch (...) {
                sample::rethrow(std::current_exception(), devices_[w], devices_.size());
            }
        }
        slot = job.slot;
        return true;
    }

    void write(sample::Progress &progress) {
        const double bytes = 3.0 * source_.size().area();
        Slot *slot = nullptr, *previous = nullptr;
        while (nextSlot(slot)) {
            // Only now is the previous slot free: the frame just finished was compared with it.
            if (previous)
                empty_.push(previous);
            previous = slot;
            uint64_t changed = 0;
            for (const Part &part : slot->parts)
                changed += *static_cast<const uint32_t *>(part.changed.data);
            const double share = static_cast<double>(changed) / bytes;
            share_sum_ += share;
            share_max_ = std::max(share_max_, share);
            if (watch_)
                watch_->add(cusight::toMat(slot->input), slot->seconds);
            sample::reportFrame({{"frame", frames_}, {"seconds", slot->seconds}, {"changed", share}});
            const bool more = sink_->onlyLast() || writeTo(*slot);
            progress.update(++frames_, sample::text("%.2f %% changed", 100 * share));
            if (!more)
                break;
        }
        if (previous && sink_->onlyLast()) // a copy of each would cost more than all else that the CPU does here
            writeTo(*previous);
    }

    bool writeTo(const Slot &slot) {
        return writing_([&] { return sink_->writeAt(cusight::toMat(slot.output), slot.seconds); });
    }

    void report() const {
        sample::figureInput(source_);
        sample::figureText("device", "%s", sample::deviceNames(devices_).c_str());
        sample::figureText("view", "%s", settings_.view.c_str());
        if (settings_.view != "noise")
            sample::figure(
                "full scale", {{"palette", settings_.palette}, {"full_scale", settings_.full_scale}}, "%d%s",
                settings_.full_scale,
                settings_.previewed ? sample::text(", chosen from the first %zu frames", settings_.previewed).c_str() : "");
        if (!frames_)
            return;
        if (frames_ == 1)
            sample::note("%s: one picture alone shows no change; expected a video, a folder or a sequence of pictures",
                         source_.name().c_str());
        const double n = static_cast<double>(frames_);
        double computing = 0; // of the slowest device
        for (const sample::Stopwatch &each : computing_)
            computing = std::max(computing, each.seconds);
        sample::figure("frames", {{"frames", frames_}}, "%lld", frames_);
        sample::figure("rate", {{"frames_per_second", n / seconds_}}, "%.1f frames/s", n / seconds_);
        sample::figureStages({{"decode", source_.decodingSeconds()},
                              {devices_.front().space == CUS_DEVICE ? "queue" : "compute", computing},
                              {"write", writing_.seconds}},
                             overall_, n);
        sample::figure("changed", {{"changed_mean", share_sum_ / n}, {"changed_max", share_max_}},
                       "%.3f %% of the bytes on average, %.3f %% at most", 100 * share_sum_ / n, 100 * share_max_);
        sample::figureText("output", "%s", sink_->name().c_str());
    }

    const Settings &settings_;
    std::vector<sample::Device> devices_;
    sample::Source &source_;
    heatmap::Watch *const watch_;
    const std::vector<Share> shares_; // one a device
    const bool on_gpu_;               // whether frames are decoded into the only device's memory
    int legend_ = 0;                  // rows of the strip above the map
    sample::Stopwatch writing_;
    std::vector<sample::Stopwatch> computing_;
    std::vector<Slot> ring_;
    sample::Channel<Slot *> empty_;
    std::unique_ptr<sample::Sink> sink_;
    std::exception_ptr decode_error_, write_error_;
    long long frames_ = 0;
    double share_sum_ = 0, share_max_ = 0, seconds_ = 0, overall_ = 0;
    std::unique_ptr<sample::Dealer<Job>> dealer_; // last, since its threads use all of the above
};

// Returns false if --help or --version was printed.
bool parse(int argc, char **argv, Settings &s) {
    const auto app = sample::makeApp(
        "cusight-heatmap",
        "Shows where a video changes from frame to frame: unchanged pixels are blue, changes green, large ones red. "
        "Also counts the bytes that a sparse difference would send.",
        "  cusight-heatmap video.mp4 --view side              a window, or heatmap.mp4 if there is no display\n"
        "  cusight-heatmap 0 --device cuda                    a camera, on the GPU\n"
        "  cusight-heatmap video.mp4 --device cuda:all        on all GPUs\n"
        "  cusight-heatmap a.mp4 b.mp4 --report motion.json   what moves, from when to when, in two cameras\n"
        "  cusight-heatmap synthetic:1920x1080@500 --headless --output heatmap.avi\n");
    sample::addInput(*app, s.input);
    sample::addChoice(*app, "--view", s.view, {"heatmap", "noise", "side", "motion"},
                      "heatmap; noise: red where a pixel changed by more than --noise-threshold; side: input and heatmap "
                      "side by side; motion: boxes and paths of what moves, each INPUT by itself");
    sample::addChoice(*app, "--palette", s.palette, heatmap::paletteNames(),
                      "colors of the heatmap; classic: blue, green, red");
    sample::addNumber(
        *app, "--full-scale", s.full_scale, 0, 65535,
        "change, summed over the channels, from which on the heatmap has its last color; 0: what suits the first "
        "two seconds");
    sample::addNumber(*app, "--noise-threshold", s.noise_threshold, 0, 765,
                      "change, summed over the channels, above which the noise view marks a pixel");
    sample::addNumber(*app, "--threshold", s.diff.threshold, 0, 255,
                      "sparse difference: a byte that changed by N or less is not sent");
    sample::addNumber(*app, "--min-neighbors", s.diff.min_neighbors, 0, 8,
                      "sparse difference: a changed pixel with fewer changed neighbors counts as noise; 0: off");
    sample::addFrames(*app, s.frames);
    sample::addCommon(*app, s.common, "heatmap.mp4, or heatmap.png for one picture", true);
    sample::addLegend(*app, s.common.legend);
    heatmap::addMotionOptions(*app, s.motion);
    const bool run = sample::parse(*app, argc, argv);
    s.input.fps = s.common.video.fps;
    return run;
}

void chooseColors(Settings &s, sample::Source &source) {
    if (s.full_scale == 0 && s.view != "noise") {
        const std::vector<cv::Mat> frames = source.preview(2, 256e6);
        s.previewed = frames.size();
        s.full_scale = heatmap::suitableFullScale(frames);
    }
    s.colors = heatmap::paletteColors(s.palette, LARGEST_CHANGE + 1, std::max(1, s.full_scale));
}

int run(int argc, char **argv) {
    Settings s;
    if (!parse(argc, argv, s))
        return sample::OK;
    if (s.findsMotion())
        heatmap::checkMotion(s.motion, s.input, s.common);
    if (s.findsMotion() && (s.view == "motion" || s.common.output.empty())) {
        const sample::Device device = sample::chooseDevices(s.common.device).front();
        sample::chooseDecoder(s.input, device);
        return heatmap::findMotion(s.motion, s.input, s.common, device, s.frames);
    }
    // The display check forks, so it must come before any threads and CUDA.
    if (!s.common.headless)
        sample::displayProblem();
    const std::vector<sample::Device> devices = sample::chooseDevices(s.common.device);
    sample::chooseDecoder(s.input, devices.front());
    const std::unique_ptr<sample::Source> source = sample::openSource(s.input);
    chooseColors(s, *source);
    std::unique_ptr<heatmap::Watch> watch;
    if (s.findsMotion())
        watch = std::make_unique<heatmap::Watch>(s.motion, s.input, s.common, devices.front(), *source);
    Pipeline(s, devices, *source, watch.get()).run();
    return sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}
