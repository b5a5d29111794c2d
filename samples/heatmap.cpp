// cusight-heatmap: shows where a video changes, as heatmap, noise view or side by side, and how much of it does.
//
// Four stages work at once: a thread decodes into a ring of frames, a thread computes, the main thread encodes or shows.
// On the GPU the ring is pinned memory, and upload, kernels and download run on a stream each, ordered by events, so that
// three frames are in flight on the card while a fourth is decoded and a fifth encoded.
#include "common/app.hpp"
#include "common/channel.hpp"
#include "common/options.hpp"
#include "common/progress.hpp"
#include "common/sink.hpp"
#include "common/source.hpp"

#include "cusight/framediff.h"
#include "cusight/opencv.hpp"

#include <algorithm>
#include <chrono>
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
    int noise = 30;
    cusDiffOptions diff = cusDiffDefaults();
    int frames = 0;
};

// One place of the ring.
struct Slot {
    cusMat input = CUS_MAT_INIT, output = CUS_MAT_INIT;  // host; pinned where the GPU computes
    cusMat frame = CUS_MAT_INIT, picture = CUS_MAT_INIT; // device; unused on the CPU
    cusMat changed = CUS_MAT_INIT;                       // 1 x 1, 32SC1: bytes that the sparse difference sends
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

// Computes the picture and the changed bytes of one slot after another.
class Engine {
  public:
    Engine(const Settings &settings, const sample::Device &device, cv::Size size)
        : settings_(settings), device_(device), size_(size), width_(settings.view == "side" ? 2 * size.width : size.width) {
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

    cv::Size pictureSize() const { return {width_, size_.height}; }

    void prepare(Slot &slot) const {
        if (!cuda_) {
            check(cusMatCreate(&slot.input, size_.height, size_.width, CUS_8UC3, CUS_HOST));
            check(cusMatCreate(&slot.output, size_.height, width_, CUS_8UC3, CUS_HOST));
            check(cusMatCreate(&slot.changed, 1, 1, CUS_32SC1, CUS_HOST));
            return;
        }
        check(cusMatCreatePinned(&slot.input, size_.height, size_.width, CUS_8UC3));
        check(cusMatCreatePinned(&slot.output, size_.height, width_, CUS_8UC3));
        check(cusMatCreatePinned(&slot.changed, 1, 1, CUS_32SC1));
        check(cusMatCreate(&slot.frame, size_.height, size_.width, CUS_8UC3, CUS_DEVICE));
        check(cusMatCreate(&slot.picture, size_.height, width_, CUS_8UC3, CUS_DEVICE));
        for (cusStreamEvent *event : {&slot.uploaded, &slot.computed, &slot.downloaded})
            check(cusStreamEventCreate(event));
    }

    // Starts on a slot whose input is filled. `previous` is the slot before it, or the slot itself at the start, and must
    // stay as it is until `slot` has been waited for.
    void submit(Slot &previous, Slot &slot) {
        if (!cuda_) {
            compute(previous.input, slot.input, slot.output, &previous == &slot);
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
        check(cusMatDownload(&slot.picture, &slot.output, down_));
        check(cusStreamEventRecord(slot.downloaded, down_));
    }

    void wait(Slot &slot) const {
        if (cuda_)
            check(cusStreamEventSynchronize(slot.downloaded));
    }

  private:
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
            check(cusNoiseView(&previous, &current, &view, settings_.noise, run_));
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
    const int width_;
    bool cuda_ = false;
    cusStream up_ = nullptr, run_ = nullptr, down_ = nullptr;
    cusDiffEncoder *encoder_ = nullptr;
    cusSparseDiff diff_ = CUS_SPARSE_DIFF_INIT;
};

// Time that a stage spends working, waits for its neighbors left out.
class Busy {
  public:
    template<class F>
    auto operator()(F &&work) {
        const auto start = Clock::now();
        struct Add {
            double &seconds;
            Clock::time_point from;
            ~Add() { seconds += std::chrono::duration<double>(Clock::now() - from).count(); }
        } add{seconds, start};
        return work();
    }
    double seconds = 0;
};

int run(int argc, char **argv) {
    Settings s;
    sample::Options options(
        "cusight-heatmap",
        "Shows where a video changes from frame to frame: blue where nothing does, green, then red where "
        "it does most. Also counts the bytes that a sparse difference would send.");
    options.argument(s.input, "INPUT", sample::SOURCE_HELP);
    options.choice(s.view, "--view", {"heatmap", "noise", "side"},
                   "heatmap; red where a pixel changed past --noise; or input and heatmap side by side");
    options.number(s.full_scale, "--full-scale", "N", "summed change of the channels that is shown pure red", 1, 65535);
    options.number(s.noise, "--noise", "N", "summed change above which the noise view marks a pixel", 0, 765);
    options.number(s.diff.threshold, "--threshold", "N", "sparse difference: a byte changed by no more is not sent", 0,
                   255);
    options.number(s.diff.min_neighbors, "--min-neighbors", "N",
                   "sparse difference: a changed pixel with fewer changed neighbors is noise", 0, 8);
    options.number(s.frames, "--frames", "N", "stop after N frames; 0: never", 0, 1000000000);
    options.common(s.common, std::string(sample::SINK_HELP) + "heatmap.mp4");
    if (!options.parse(argc, argv))
        return sample::OK;

    // The display is asked first: that forks, and there must be no threads and no CUDA yet.
    if (!s.common.headless)
        sample::displayProblem();
    const sample::Device device = sample::chooseDevice(s.common.device);
    const std::unique_ptr<sample::Source> source = sample::openSource(s.input);
    Engine engine(s, device, source->size());
    constexpr size_t RING = 8;
    std::vector<Slot> ring(RING);
    sample::Channel<Slot *> empty(RING), decoded(RING), computed(RING);
    for (Slot &slot : ring) {
        engine.prepare(slot);
        empty.push(&slot);
    }
    const std::unique_ptr<sample::Sink> sink =
        sample::openSink(s.common, "cusight-heatmap", "heatmap.mp4", engine.pictureSize(), source->fps());

    long long total = source->frames();
    if (s.frames)
        total = total ? std::min<long long>(total, s.frames) : s.frames;
    sample::Progress progress("frames", total);
    std::exception_ptr reader_error, engine_error, writer_error;
    Busy decoding, computing, encoding;

    std::thread reader([&] {
        try {
            Slot *slot = nullptr;
            for (long long i = 0; (!s.frames || i < s.frames) && !sample::interrupted() && empty.pop(slot); ++i) {
                cv::Mat frame = cusight::toMat(slot->input);
                if (!decoding([&] { return source->read(frame); }) || !decoded.push(slot))
                    break;
            }
        } catch (...) {
            reader_error = std::current_exception();
        }
        decoded.close();
    });
    std::thread worker([&] {
        try {
            if (device.space == CUS_DEVICE)
                check(cusDeviceSet(device.index));
            else
                sample::leaveCoresToCodecs();
            Slot *slot = nullptr, *previous = nullptr;
            while (decoded.pop(slot)) {
                computing([&] { engine.submit(previous ? *previous : *slot, *slot); });
                previous = slot;
                if (!computed.push(slot))
                    break;
            }
        } catch (...) {
            engine_error = std::current_exception();
            decoded.close();
        }
        computed.close();
    });

    long long frames = 0;
    double share_sum = 0, share_max = 0;
    const double bytes = 3.0 * source->size().area();
    try {
        Slot *slot = nullptr, *previous = nullptr;
        while (computed.pop(slot)) {
            engine.wait(*slot);
            // The slot before is free only now: the frame just finished was compared with it.
            if (previous)
                empty.push(previous);
            previous = slot;
            const double share = *static_cast<const uint32_t *>(slot->changed.data) / bytes;
            share_sum += share;
            share_max = std::max(share_max, share);
            const bool more = encoding([&] { return sink->write(cusight::toMat(slot->output)); });
            progress.update(++frames, sample::text("%.2f %% changed", 100 * share));
            if (!more)
                break;
        }
    } catch (...) {
        writer_error = std::current_exception();
    }
    empty.close();
    decoded.close();
    computed.close();
    reader.join();
    worker.join();
    if (writer_error)
        std::rethrow_exception(writer_error);
    encoding([&] { sink->finish(); });
    const double seconds = progress.seconds();
    progress.finish();

    sample::figure("input", "%s, %d x %d", source->name().c_str(), source->size().width, source->size().height);
    sample::figure("device", "%s", device.name.c_str());
    sample::figure("view", "%s", s.view.c_str());
    if (frames) {
        const double n = static_cast<double>(frames);
        sample::figure("frames", "%lld", frames);
        sample::figure("rate", "%.1f frames/s", n / seconds);
        sample::figure("stages", "decode %.2f ms, %s %.2f ms, write %.2f ms; %.2f ms a frame in all",
                       1e3 * decoding.seconds / n, device.space == CUS_DEVICE ? "queue" : "compute",
                       1e3 * computing.seconds / n, 1e3 * encoding.seconds / n, 1e3 * seconds / n);
        sample::figure("changed", "%.3f %% of the bytes on average, %.3f %% at most", 100 * share_sum / n, 100 * share_max);
        sample::figure("output", "%s", sink->name().c_str());
    }
    for (const std::exception_ptr &error : {engine_error, reader_error})
        if (error)
            std::rethrow_exception(error);
    return sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}
