#include "diffstream/web/sink.hpp"

#include "common/app.hpp"
#include "diffstream/broadcaster.hpp"
#include "diffstream/queues.hpp"
#include "diffstream/sender.hpp"

#include "cusight/opencv.hpp"

#include <opencv2/imgproc.hpp>

#include <chrono>
#include <cstdio>
#include <thread>

namespace diffstream {

namespace {

using cusight::check;

// Differences on the thread of write().
class WebSink : public sample::Sink {
  public:
    WebSink(const WebSettings &web, cv::Size size, const sample::Playback &playback)
        : settings_(settingsFor(web)), playback_(playback), waits_(web.wait && !playback.live), sender_(createSender(size)),
          packed_(settings_.options.max_in_flight),
          broadcaster_(settings_, size, playback.timed ? 0 : playback.fps, packed_, sender_.get(), stats_,
                       [this](int /*port*/, const std::string &page) { page_ = page; }) {
        std::fprintf(stderr, "%s %s\n",
                     waits_ ? "waiting for a browser at" : "in a browser:", sample::printable(page_).c_str());
    }
    ~WebSink() override {
        packed_.close();
        broadcaster_.join();
    }

    bool write(const cv::Mat &picture) override { return writeAt(picture, static_cast<double>(shown_) / playback_.fps); }

    bool writeAt(const cv::Mat &picture, double seconds) override {
        if (!await(seconds) || !packed_.waitForRoom())
            return false;
        if (picture.channels() == 1)
            cv::cvtColor(picture, color_, cv::COLOR_GRAY2BGR);
        const cv::Mat &bgr = picture.channels() == 1 ? color_ : picture;
        cusMat frame = CUS_MAT_INIT;
        check(cusMatWrap(&frame, bgr.rows, bgr.cols, CUS_8UC3, CUS_HOST, bgr.data, bgr.step));
        check(cusSenderSubmit(sender_.get(), &frame, broadcaster_.takeKeyFrameRequest(), nullptr));
        cusSentFrame packed;
        check(cusSenderFinish(sender_.get(), &packed));
        packed_.push(packed);
        ++shown_;
        return true;
    }

    void finish() override {
        packed_.close();
        broadcaster_.finish();
    }

    std::string name() const override { return "a page"; }

  private:
    struct DestroySender {
        void operator()(cusSender *sender) const { cusSenderDestroy(sender); }
    };

    static SendSettings settingsFor(const WebSettings &web) {
        SendSettings settings;
        settings.address.port.clear();
        settings.web = web;
        settings.web.source = "recording";
        settings.options.diff.threshold = 0; // events are sparse, and exact
        return settings;
    }

    cusSender *createSender(cv::Size size) const {
        cusSender *sender = nullptr;
        check(cusSenderCreate(&sender, size.height, size.width, CUS_8UC3, CUS_HOST, &settings_.options));
        return sender;
    }

    bool over() { return sample::interrupted() || packed_.closed(); }

    // Waits for the first viewer, then for the time of the picture. Returns false after Ctrl-C, or if nothing is sent any more.
    bool await(double seconds) {
        constexpr auto STEP = std::chrono::milliseconds(5);
        while (shown_ == 0 && waits_ && broadcaster_.connected() == 0 && !over())
            std::this_thread::sleep_for(STEP);
        if (shown_ == 0)
            origin_ = Clock::now() - duration(seconds);
        while (playback_.speed > 0 && Clock::now() < origin_ + duration(seconds) && !over())
            std::this_thread::sleep_for(std::min<Clock::duration>(STEP, origin_ + duration(seconds) - Clock::now()));
        return !over();
    }

    Clock::duration duration(double seconds) const {
        const double speed = playback_.speed > 0 ? playback_.speed : 1;
        return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds / speed));
    }

    const SendSettings settings_;
    const sample::Playback playback_;
    const bool waits_;
    std::string page_;
    std::unique_ptr<cusSender, DestroySender> sender_;
    PackedQueue packed_;
    SenderStats stats_;
    Broadcaster broadcaster_;
    cv::Mat color_;
    Clock::time_point origin_;
    long long shown_ = 0;
};

} // namespace

std::unique_ptr<sample::Sink> openWebSink(const WebSettings &web, cv::Size size, const sample::Playback &playback) {
    return std::make_unique<WebSink>(web, size, playback);
}

} // namespace diffstream
