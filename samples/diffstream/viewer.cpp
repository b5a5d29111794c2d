#include "diffstream/viewer.hpp"

#include "common/output.hpp"
#include "common/terminal/progress.hpp"
#include "common/video/sink.hpp"
#include "common/stages.hpp"
#include "diffstream/log.hpp"
#include "diffstream/net/connection.hpp"

#include "cusight/opencv.hpp"
#include "cusight/live.h"

#include <nlohmann/json.hpp>
#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>

namespace diffstream {

using cusight::check;
using sample::Stop;
using Clock = std::chrono::steady_clock;

namespace {

class Session {
  public:
    explicit Session(const ViewSettings &s) : s_(s), progress_("frames", s.max_frames) {
        // First, because it forks and no threads may exist yet.
        windowed_ = !s.headless && sample::displayProblem().empty();
        if (!s.headless && !windowed_)
            sample::note("no window: %s", sample::displayProblem().c_str());
        if (s.tls.any())
            tls_ = std::make_unique<Tls>(s.tls, false, s.address.host);
        if (!s.digests.empty())
            digests_ = std::make_unique<sample::OutputFile>(s.digests);
        check(cusViewerCreate(&viewer_, nullptr));
    }
    ~Session() { cusViewerDestroy(viewer_); }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    void run() {
        try {
            while (!over() && !runConnection()) {
                // Viewers that lost the same sender must not all return at the same moment.
                const auto next = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                     pause_ * std::uniform_real_distribution<double>(0.5, 1)(random_));
                while (!sample::interrupted() && Clock::now() < next)
                    std::this_thread::sleep_for(std::chrono::milliseconds(20));
                pause_ = std::min(2 * pause_, std::chrono::milliseconds(2000));
            }
        } catch (...) {
            try {
                finish();
            } catch (const Stop &second) {
                std::fprintf(stderr, "%s\n", sample::printable(second.what()).c_str());
            }
            throw;
        }
        finish();
    }

  private:
    bool over() const { return ended_ || closed_ || sample::interrupted() || (s_.max_frames && frames_ >= s_.max_frames); }

    // Connects and watches. Returns false if the connection failed or broke and it is worth trying again.
    bool runConnection() {
        const auto before = frames_;
        try {
            check(cusViewerReconnect(viewer_));
            asio::io_context io;
            auto socket = connectTo(io, s_.address, tls_ != nullptr, std::chrono::seconds(5));
            watch(io, std::make_shared<Connection>(std::move(socket), s_.address.text(), tls_.get(), io.get_executor()));
            return true;
        } catch (const NotAuthenticated &error) {
            throw Stop(sample::FAILED, error.what());
        } catch (const NetError &error) {
            noteFailure(error.what(), before);
        } catch (const cusight::Error &error) {
            if (error.status() == CUS_ERROR_UNSUPPORTED || error.status() == CUS_ERROR_SIZE)
                throw; // another version, or frames that are too large: retrying does not help
            noteFailure(cusLastError(), before);
        }
        return false;
    }

    // Throws once --reconnect seconds have passed without a frame.
    void noteFailure(const char *why, long long frames_before) {
        if (frames_ > frames_before) { // the connection worked, so the time restarts
            lost_ = Clock::now();
            pause_ = std::chrono::milliseconds(100);
        }
        if (std::chrono::duration<double>(Clock::now() - lost_).count() > s_.reconnect)
            throw Stop(sample::INPUT, why);
        if (last_error_ != why && stderrAccepts())
            sample::note("%s; trying again", why);
        last_error_ = why;
    }

    // Serves one connection until the end. Throws if it breaks.
    void watch(asio::io_context &io, const std::shared_ptr<Connection> &connection) {
        heard_ = Clock::now();
        sending_ = false;
        connection->handshake([&](const ErrorCode &error) {
            connection->check(error);
            flush(connection);
            read(connection);
        });
        while (!over()) {
            const bool any = io.run_one_for(std::chrono::milliseconds(100)) > 0;
            if (Clock::now() - heard_ > std::chrono::seconds(connected_ ? 60 : 10))
                throw NetError("the sender sent nothing for too long");
            if (!any && windowed_ && s_.record.empty() && sink_ && !sink_->write(displayed()))
                closed_ = true; // keeps the window responsive
        }
        if (!ended_) {
            check(cusViewerFinish(viewer_));
            flush(connection);
            io.poll();
        }
        connection->finish();
        io.poll();
    }

    void read(const std::shared_ptr<Connection> &connection) {
        connection->read(asio::buffer(buffer_), [this, connection](const ErrorCode &error, size_t n) {
            if (over())
                return;
            connection->check(error);
            heard_ = Clock::now();
            receive(n);
            flush(connection);
            read(connection);
        });
    }

    void flush(const std::shared_ptr<Connection> &connection) {
        const uint8_t *data = nullptr;
        size_t bytes = 0;
        check(cusViewerOutput(viewer_, &data, &bytes));
        if (bytes == 0 || std::exchange(sending_, true))
            return;
        out_.assign(data, data + bytes);
        connection->write(asio::buffer(out_), [this, connection](const ErrorCode &error, size_t n) {
            sending_ = false;
            if (error && over())
                return;
            connection->check(error);
            check(cusViewerSent(viewer_, n));
            flush(connection);
        });
    }

    void receive(size_t bytes) {
        received_ += static_cast<long long>(bytes);
        for (size_t at = 0; at < bytes && !over();) {
            size_t used = 0;
            cusViewerUpdate update = CUS_VIEWER_NOTHING;
            decoding_([&] { check(cusViewerInput(viewer_, buffer_.data() + at, bytes - at, &used, &update)); });
            at += used;
            if (update == CUS_VIEWER_CONNECTED)
                onConnected();
            else if (update == CUS_VIEWER_FRAME)
                onFrame();
            else if (update == CUS_VIEWER_BASE_MISSING)
                ++base_missing_;
            else if (update == CUS_VIEWER_ENDED)
                ended_ = true;
        }
    }

    void onConnected() {
        cusViewerInfo info;
        check(cusViewerQuery(viewer_, &info));
        const cv::Size size(info.cols, info.rows);
        last_error_.clear();
        ++connections_;
        connected_ = true;
        if (sink_ && (size != size_ || info.type != type_))
            throw Stop(sample::INPUT, sample::text("the sender's frame size has changed from %d x %d to %d x %d",
                                                   size_.width, size_.height, size.width, size.height));
        size_ = size;
        type_ = info.type;
        sample::Playback playback;
        rate_ = 1e-3 * info.rate_millihertz;
        playback.fps = rate_ > 0 ? rate_ : 25;
        playback.live = playback.timed = true;
        playback.recording = !s_.times || s_.times->recording;
        playback.steady = rate_ > 0;
        if (rate_ > 0 && !s_.times) {
            playback.tick_num = 1000;
            playback.tick_den = static_cast<int>(info.rate_millihertz);
        }
        sample::Common common;
        common.headless = !windowed_;
        common.output = s_.record;
        common.video = s_.encoding;
        if (!sink_ && (windowed_ || !s_.record.empty()))
            sink_ = sample::openSink(common, "cusight-diffstream " + s_.address.text(), s_.record, size, playback);
    }

    cv::Mat currentFrame() {
        cusMat view = CUS_MAT_INIT;
        check(cusViewerFrame(viewer_, &view));
        return cusight::toMat(view);
    }

    // Returns the frame for display: three channels, with --overlay rate and size.
    cv::Mat displayed() {
        cv::Mat out = currentFrame();
        if (out.channels() == 4)
            cv::cvtColor(out, converted_, cv::COLOR_BGRA2BGR), out = converted_;
        if (!s_.overlay)
            return out;
        cusViewerInfo info;
        check(cusViewerQuery(viewer_, &info));
        out.copyTo(painted_);
        const std::string line =
            sample::text("frame %llu  %.1f fps  %.1f kB  %.2f %%", static_cast<unsigned long long>(info.sequence),
                         progress_.rate(), 1e-3 * static_cast<double>(info.message_bytes), share(info));
        cv::putText(painted_, line, {8, 20}, cv::FONT_HERSHEY_SIMPLEX, 0.5, {0, 0, 0}, 3, cv::LINE_AA);
        cv::putText(painted_, line, {8, 20}, cv::FONT_HERSHEY_SIMPLEX, 0.5, {255, 255, 255}, 1, cv::LINE_AA);
        return painted_;
    }

    static double share(const cusViewerInfo &info) {
        return 100.0 * info.changed / (static_cast<double>(info.rows) * info.cols * CUS_CHANNELS(info.type));
    }

    // When this frame is shown: as the sender in this program says; by its number and the sender's rate; or, if there is none, when it
    // has come.
    double timeOf(uint64_t sequence) {
        if (s_.times)
            return s_.times->received(sequence);
        if (rate_ <= 0)
            return std::chrono::duration<double>(Clock::now() - started_).count();
        if (sequence <= sequence_) // another sender
            begin_ = seconds_ + 1 / rate_;
        if (sequence <= sequence_ || !sequence_)
            first_sequence_ = sequence;
        return begin_ + static_cast<double>(sequence - first_sequence_) / rate_;
    }

    void onFrame() {
        cusViewerInfo info;
        check(cusViewerQuery(viewer_, &info));
        ++frames_;
        seconds_ = timeOf(info.sequence);
        skipped_ += sequence_ && info.sequence > sequence_ ? static_cast<long long>(info.sequence - sequence_) - 1 : 0;
        sequence_ = info.sequence;
        key_frames_ += info.is_key_frame;
        if (digests_) {
            const cv::Mat f = currentFrame(); // rows are not padded
            digests_->print("%llu %08x\n", static_cast<unsigned long long>(info.sequence),
                            cusCrc32c(0, f.data, f.total() * f.elemSize()));
            digests_->publish();
        }
        sample::reportFrame({{"sequence", info.sequence},
                             {"key_frame", info.is_key_frame != 0},
                             {"changed", 1e-2 * share(info)},
                             {"bytes", info.message_bytes}});
        if (sink_ && !writing_([this] { return sink_->writeAt(displayed(), seconds_); }))
            closed_ = true;
        if (s_.progress && stderrAccepts())
            progress_.update(frames_, sample::text("%.2f %% changed, %.2f Mbit/s", share(info),
                                                   8e-6 * static_cast<double>(received_) / progress_.seconds()));
    }

    void reportReceived(double seconds) const {
        const double bytes = static_cast<double>(received_) / static_cast<double>(std::max<long long>(frames_, 1));
        sample::figure("frames received",
                       {{"frames_received", frames_},
                        {"received_per_second", static_cast<double>(frames_) / seconds},
                        {"last_sequence", sequence_}},
                       "%lld, %.1f a second, the last is number %llu", frames_, static_cast<double>(frames_) / seconds,
                       static_cast<unsigned long long>(sequence_));
        sample::figure("left out",
                       {{"left_out", skipped_},
                        {"key_frames", key_frames_},
                        {"connections", connections_},
                        {"base_missing", base_missing_}},
                       "%lld coalesced or lost, %lld key frames, %lld connections, %lld without their base", skipped_,
                       key_frames_, connections_, base_missing_);
        sample::figure("bytes received", {{"bytes_received", received_}, {"received_bytes_per_frame", bytes}},
                       "%lld, %.0f a frame", received_, bytes);
    }

    void finish() {
        const double seconds = progress_.seconds();
        if (s_.progress && stderrAccepts())
            progress_.finish();
        if (connections_ || sample::currentReporting().any_json()) // otherwise an error says why nothing arrived
            reportReceived(seconds);
        if (digests_ && frames_)
            digests_->commit();
        digests_.reset();
        if (!s_.record.empty() && !sink_ && !sample::interrupted())
            throw Stop(sample::INPUT,
                       s_.record + " was not written: no frame arrived (--min-viewers 1 makes the sender wait)");
        if (sink_)
            writing_([this] { sink_->finish(); });
        sample::figureStages({{"decode", decoding_.seconds}, {"write", writing_.seconds}}, progress_.seconds(),
                             static_cast<double>(frames_), s_.beside_sender ? "viewer" : "");
        if (sink_) {
            sample::figureText("output", "%s", sink_->name().c_str());
            sink_->hold();
        }
    }

    const ViewSettings &s_;
    sample::Progress progress_;
    sample::Stopwatch decoding_, writing_;
    std::unique_ptr<Tls> tls_;
    std::unique_ptr<sample::Sink> sink_;
    cusViewer *viewer_ = nullptr;
    std::unique_ptr<sample::OutputFile> digests_; // other programs follow it while it grows
    std::vector<uint8_t> buffer_ = std::vector<uint8_t>(1 << 16), out_;
    bool sending_ = false;
    Clock::time_point heard_; // when the sender has sent something
    cv::Mat converted_, painted_;
    cv::Size size_;
    int type_ = 0;
    bool windowed_ = false, connected_ = false, ended_ = false, closed_ = false;
    long long frames_ = 0, skipped_ = 0, key_frames_ = 0, connections_ = 0, base_missing_ = 0, received_ = 0;
    uint64_t sequence_ = 0, first_sequence_ = 0;
    double rate_ = 0, seconds_ = 0, begin_ = 0; // the sender's rate; the times of the frame, and of the sender's first
    const Clock::time_point started_ = Clock::now();
    Clock::time_point lost_ = Clock::now(); // when there was last a connection
    std::chrono::milliseconds pause_{100};  // before the next attempt
    std::mt19937 random_{std::random_device{}()};
    std::string last_error_; // printed once while it repeats
};

} // namespace

void view(const ViewSettings &settings) {
    Session(settings).run();
}

} // namespace diffstream
