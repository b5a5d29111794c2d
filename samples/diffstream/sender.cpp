// Three threads: capture -> difference -> send. Frames travel through two rings of places allocated at the start; the
// sending thread never blocks on a viewer, so each thread waits for another only while a ring is full or empty.
#include "sender.hpp"

#include "common/progress.hpp"
#include "common/source.hpp"

#include "cusight/opencv.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace diffstream {

using cusight::check;
using sample::Stop;
using Clock = std::chrono::steady_clock;

namespace {

double secondsSince(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Frames between capture and difference.
class CaptureRing {
  public:
    CaptureRing(int places, int rows, int cols, bool pinned) : places_(static_cast<size_t>(places), cusMat(CUS_MAT_INIT)) {
        for (cusMat &m : places_) {
            check(pinned ? cusMatCreatePinned(&m, rows, cols, CUS_8UC3) : cusMatCreate(&m, rows, cols, CUS_8UC3, CUS_HOST));
            empty_.push_back(&m);
        }
    }
    ~CaptureRing() {
        for (cusMat &m : places_)
            cusMatRelease(&m);
    }
    CaptureRing(const CaptureRing &) = delete;
    CaptureRing &operator=(const CaptureRing &) = delete;

    // A place to fill; nullptr once closed. latest: rather than wait, the oldest frame that nobody has begun on is given up.
    cusMat *claim(bool latest) {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return closed_ || !empty_.empty() || (latest && !filled_.empty()); });
        if (closed_)
            return nullptr;
        std::deque<cusMat *> &from = empty_.empty() ? filled_ : empty_;
        dropped_ += empty_.empty();
        cusMat *const place = from.front();
        from.pop_front();
        return place;
    }
    void fill(cusMat *place) {
        std::lock_guard<std::mutex> lock(mutex_);
        filled_.push_back(place);
        changed_.notify_all();
    }
    // The next frame; nullptr when there is none: with `wait`, only after the end.
    cusMat *take(bool wait) {
        std::unique_lock<std::mutex> lock(mutex_);
        if (wait)
            changed_.wait(lock, [&] { return closed_ || !filled_.empty(); });
        if (filled_.empty())
            return nullptr;
        cusMat *const place = filled_.front();
        filled_.pop_front();
        return place;
    }
    void giveBack(cusMat *place) {
        std::lock_guard<std::mutex> lock(mutex_);
        empty_.push_back(place);
        changed_.notify_all();
    }
    void close() {
        std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }
    long long dropped() {
        std::lock_guard<std::mutex> lock(mutex_);
        return dropped_;
    }

  private:
    std::vector<cusMat> places_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<cusMat *> empty_, filled_;
    long long dropped_ = 0;
    bool closed_ = false;
};

// Packed frames between difference and send; a pipe wakes the sending thread, which otherwise waits for sockets.
class PackedRing {
  public:
    explicit PackedRing(int places) : places_(places) {
        if (::pipe2(pipe_, O_NONBLOCK | O_CLOEXEC) != 0)
            throw Stop(sample::FAILED, "no pipe could be made");
    }
    ~PackedRing() {
        ::close(pipe_[0]);
        ::close(pipe_[1]);
    }
    PackedRing(const PackedRing &) = delete;
    PackedRing &operator=(const PackedRing &) = delete;

    // Waits until the sender object has a place for one more frame. False once closed.
    bool waitForRoom() {
        std::unique_lock<std::mutex> lock(mutex_);
        room_.wait(lock, [&] { return closed_ || used_ < places_; });
        used_ += !closed_;
        return !closed_;
    }
    void push(const cusSentFrame &frame) {
        std::lock_guard<std::mutex> lock(mutex_);
        frames_.push_back(frame);
        wake();
    }
    bool pop(cusSentFrame &frame) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (frames_.empty())
            return false;
        frame = frames_.front();
        frames_.pop_front();
        return true;
    }
    void released() {
        std::lock_guard<std::mutex> lock(mutex_);
        --used_;
        room_.notify_all();
    }
    // No more frames come (from the one side), or none are wanted (from the other).
    void close() {
        std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
        room_.notify_all();
        wake();
    }
    bool ended() {
        std::lock_guard<std::mutex> lock(mutex_);
        return closed_ && frames_.empty();
    }
    int wakeup() const { return pipe_[0]; }
    void drain() {
        char buffer[64];
        while (::read(pipe_[0], buffer, sizeof buffer) > 0) {
        }
    }

  private:
    void wake() {
        if (::write(pipe_[1], "", 1) < 0) {
            // full: it is awake already
        }
    }
    const int places_;
    int pipe_[2];
    std::mutex mutex_;
    std::condition_variable room_;
    std::deque<cusSentFrame> frames_;
    int used_ = 0;
    bool closed_ = false;
};

struct Totals {
    std::atomic<long long> frames{0}, bytes{0}, changed{0};
    std::atomic<double> capture{0}, encode{0}, pack{0}, send{0}; // seconds; each written by one thread
    std::atomic<int> viewers{0};
    static void add(std::atomic<double> &sum, double value) { sum.store(sum.load() + value); }
};

// One connected viewer. The peer, and with it all memory that depends on the frame, exists once the viewer is authenticated.
struct Client {
    std::unique_ptr<Connection> connection;
    cusPeer *peer = nullptr;
    Clock::time_point connected = Clock::now(), progress = Clock::now();
    bool waiting = false; // something is to be written
    explicit Client(std::unique_ptr<Connection> c) : connection(std::move(c)) {}
    ~Client() { cusPeerDestroy(peer); }
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;
};

class Broadcaster {
  public:
    Broadcaster(const SendSettings &s, const sample::Source &source, double rate, PackedRing &packed, cusSender *sender,
                Totals &totals, const std::function<void(int)> &listening)
        : s_(s), size_(source.size()), rate_mhz_(static_cast<uint32_t>(std::lround(rate * 1000))), packed_(packed),
          sender_(sender), totals_(totals) {
        if (s.tls.any())
            tls_ = std::make_unique<Tls>(s.tls, true, "");
        listener_ = std::make_unique<Listener>(s.address, tls_ != nullptr);
        listening(listener_->port());
    }

    // Until the last frame is out.
    void run() {
        while (!packed_.ended()) {
            wait(100);
            serve();
        }
        for (Client &c : clients_)
            if (c.peer)
                cusPeerFinish(c.peer);
        // Whoever still reads gets what is left of it.
        const auto end = Clock::now();
        while (!clients_.empty() && secondsSince(end) < 10) {
            listener_.reset();
            serve();
            clients_.remove_if([](Client &c) {
                if (c.peer && c.waiting)
                    return false;
                c.connection->shutdown();
                return true;
            });
            if (!clients_.empty())
                wait(100);
        }
    }

    int greeted() const { return greeted_.load(); }
    bool takeKeyRequest() { return key_wanted_.exchange(false); }

  private:
    void wait(int milliseconds) {
        std::vector<pollfd> fds = {{packed_.wakeup(), POLLIN, 0}};
        if (listener_)
            fds.push_back({listener_->socket(), POLLIN, 0});
        for (const Client &c : clients_)
            fds.push_back({c.connection->socket(), c.connection->events(c.waiting), 0});
        ::poll(fds.data(), fds.size(), milliseconds);
        packed_.drain();
    }

    void serve() {
        const auto start = Clock::now();
        acceptAll();
        for (auto c = clients_.begin(); c != clients_.end();)
            c = guarded(*c, [&](Client &client) { receive(client); }) ? std::next(c) : clients_.erase(c);
        cusSentFrame frame;
        while (packed_.pop(frame)) {
            for (auto c = clients_.begin(); c != clients_.end();)
                c = guarded(*c,
                            [&](Client &client) {
                                if (client.peer)
                                    check(cusPeerOffer(client.peer, &frame));
                                transmit(client);
                            })
                        ? std::next(c)
                        : clients_.erase(c);
            check(cusSenderRelease(sender_));
            packed_.released();
        }
        int greeted = 0;
        for (auto c = clients_.begin(); c != clients_.end();) {
            const bool alive = guarded(*c, [&](Client &client) {
                transmit(client);
                cusPeerInfo info = {};
                if (client.peer)
                    check(cusPeerQuery(client.peer, &info));
                greeted += info.greeted && !info.left;
                if (info.wants_key_frame)
                    key_wanted_ = true;
                if (info.left)
                    throw NetError("said goodbye");
                if (!info.greeted && secondsSince(client.connected) > 5)
                    throw NetError("did not say hello within 5 s");
                if (client.waiting && secondsSince(client.progress) > s_.timeout)
                    throw NetError(sample::text("took nothing for %.0f s", s_.timeout));
            });
            c = alive ? std::next(c) : clients_.erase(c);
        }
        greeted_ = greeted;
        totals_.viewers = greeted;
        Totals::add(totals_.send, secondsSince(start));
    }

    // False: the connection is over, and the log says why. Nobody else notices.
    template<class F>
    bool guarded(Client &client, F &&work) {
        try {
            work(client);
            return true;
        } catch (const NetError &error) {
            log(client.connection->name(), error.what());
        } catch (const cusight::Error &error) {
            log(client.connection->name(), cusLastError());
        }
        return false;
    }
    static void log(const std::string &who, const char *what) {
        std::fprintf(stderr, "viewer %s: %s\n", who.c_str(), what);
    }

    void acceptAll() {
        std::string name;
        for (int socket; listener_ && (socket = listener_->accept(name)) >= 0;) {
            if (clients_.size() >= static_cast<size_t>(s_.max_viewers)) {
                log(name, "refused, there are as many viewers as --max-viewers allows");
                ::close(socket);
                continue;
            }
            try {
                clients_.emplace_back(std::make_unique<Connection>(socket, name, tls_.get()));
            } catch (const NetError &error) {
                log(name, error.what());
            }
        }
    }

    void receive(Client &client) {
        if (!client.connection->handshake())
            return;
        if (!client.peer)
            check(cusPeerCreate(&client.peer, size_.height, size_.width, CUS_8UC3, rate_mhz_));
        uint8_t buffer[4096]; // a viewer has little to say; more than this waits its turn
        const size_t n = client.connection->read(buffer, sizeof buffer);
        check(cusPeerInput(client.peer, buffer, n));
    }

    void transmit(Client &client) {
        client.waiting = false;
        while (client.peer) {
            const uint8_t *data = nullptr;
            size_t bytes = 0;
            check(cusPeerOutput(client.peer, &data, &bytes));
            if (bytes == 0) {
                client.progress = Clock::now();
                return;
            }
            const size_t n = client.connection->write(data, bytes);
            if (n == 0) {
                client.waiting = true;
                return;
            }
            client.progress = Clock::now();
            check(cusPeerSent(client.peer, n));
        }
    }

    const SendSettings &s_;
    const cv::Size size_;
    const uint32_t rate_mhz_;
    PackedRing &packed_;
    cusSender *sender_;
    Totals &totals_;
    std::unique_ptr<Tls> tls_;
    std::unique_ptr<Listener> listener_;
    std::list<Client> clients_;
    std::atomic<int> greeted_{0};
    std::atomic<bool> key_wanted_{false};
};

struct SenderOwner {
    cusSender *sender = nullptr;
    ~SenderOwner() { cusSenderDestroy(sender); }
};

} // namespace

void send(const SendSettings &s, const std::function<void(int)> &listening, const std::function<bool()> &stop) {
    const sample::Device device = sample::chooseDevice(s.device);
    const bool cuda = device.space == CUS_DEVICE;
    std::unique_ptr<sample::Source> source = sample::openSource(s.input);
    const cv::Size size = source->size();
    const std::string name = source->name();
    const double rate = s.rate > 0 ? s.rate : source->fps();
    const bool latest = s.drop == "latest" || (s.drop == "auto" && source->frames() == 0);

    SenderOwner owner;
    check(cusSenderCreate(&owner.sender, size.height, size.width, CUS_8UC3, device.space, &s.options));
    cusSender *const sender = owner.sender;
    CaptureRing captured(s.options.max_in_flight + 2, size.height, size.width, cuda);
    PackedRing packed(s.options.max_in_flight);
    Totals totals;
    Broadcaster broadcaster(s, *source, rate, packed, sender, totals, listening);
    std::FILE *digests = s.digests.empty() ? nullptr : std::fopen(s.digests.c_str(), "w");
    if (!s.digests.empty() && !digests)
        throw Stop(sample::OUTPUT, s.digests + " cannot be written");

    long long total = s.loop ? 0 : source->frames();
    if (s.max_frames)
        total = total ? std::min<long long>(total, s.max_frames) : s.max_frames;
    const auto stopped = [&] { return sample::interrupted() || stop(); };
    std::exception_ptr capture_error, difference_error, send_error;

    Clock::time_point first_frame = Clock::now(); // written before and by the capturing thread
    std::thread capture([&] {
        try {
            while (!stopped() && broadcaster.greeted() < s.wait)
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            const auto period = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / rate));
            auto due = first_frame = Clock::now();
            for (long long k = 0; (!s.max_frames || k < s.max_frames) && !stopped(); ++k) {
                cusMat *const place = captured.claim(latest);
                if (!place)
                    break;
                const auto begin = Clock::now();
                cv::Mat frame = cusight::toMat(*place);
                bool more = source->read(frame);
                if (!more && s.loop) {
                    source = sample::openSource(s.input);
                    if (source->size() != size)
                        throw Stop(sample::INPUT, name + " has changed its size");
                    more = source->read(frame);
                }
                Totals::add(totals.capture, secondsSince(begin));
                if (!more)
                    break;
                if (!s.unpaced) {
                    // A short delay is caught up with, a long one is not: viewers would see it as a burst.
                    due = std::max(due, Clock::now() - std::chrono::milliseconds(250));
                    std::this_thread::sleep_until(due);
                    due += period;
                }
                captured.fill(place);
            }
        } catch (...) {
            capture_error = std::current_exception();
        }
        captured.close();
    });
    std::thread difference([&] {
        try {
            if (cuda)
                check(cusDeviceSet(device.index));
            // On the GPU the next frame is under way while one is packed, unless there is none or each is to be looked at.
            const size_t ahead = cuda && !digests ? 2 : 1;
            std::deque<cusMat *> pending;
            long long submitted = 0, key_sent = -1000;
            for (;;) {
                cusMat *const place = captured.take(pending.empty());
                if (!place && pending.empty())
                    break;
                if (place) {
                    if (!packed.waitForRoom())
                        break;
                    // A key frame is for whoever came in the meantime; no viewer can make the others pay for more than
                    // every tenth.
                    const bool key = submitted - key_sent >= 10 && broadcaster.takeKeyRequest();
                    if (key)
                        key_sent = submitted;
                    ++submitted;
                    check(cusSenderSubmit(sender, place, key, nullptr));
                    pending.push_back(place);
                    if (pending.size() < ahead)
                        continue;
                }
                cusSentFrame frame;
                check(cusSenderFinish(sender, &frame));
                captured.giveBack(pending.front());
                pending.pop_front();
                ++totals.frames;
                totals.bytes += static_cast<long long>(frame.message_bytes);
                totals.changed += frame.count;
                Totals::add(totals.encode, 1e-3 * static_cast<double>(frame.encode_ms));
                Totals::add(totals.pack, 1e-3 * static_cast<double>(frame.pack_ms));
                if (digests) {
                    cusMat view = CUS_MAT_INIT;
                    check(cusSenderReference(sender, &view));
                    cusMat host = CUS_MAT_INIT;
                    if (cuda) {
                        check(cusMatDownload(&view, &host, nullptr));
                        check(cusStreamSynchronize(nullptr));
                    } else {
                        check(cusMatRegion(&view, 0, 0, view.cols, view.rows, &host));
                    }
                    uint32_t crc = 0;
                    for (int y = 0; y < host.rows; ++y)
                        crc = cusCrc32c(crc, static_cast<const char *>(host.data) + static_cast<size_t>(y) * host.step,
                                        static_cast<size_t>(host.cols) * 3);
                    cusMatRelease(&host);
                    std::fprintf(digests, "%llu %08x\n", static_cast<unsigned long long>(frame.sequence), crc);
                    std::fflush(digests);
                }
                packed.push(frame);
            }
        } catch (...) {
            difference_error = std::current_exception();
        }
        captured.close();
        packed.close();
    });
    sample::Progress progress("frames", total);
    std::thread sending([&] {
        try {
            broadcaster.run();
        } catch (...) {
            send_error = std::current_exception();
        }
        packed.close();
        captured.close();
    });

    // The main thread has nothing to do but say how it goes.
    const double frame_bytes = 3.0 * size.area();
    while (!packed.ended()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        const double n = static_cast<double>(std::max<long long>(totals.frames, 1));
        if (s.progress)
            progress.update(totals.frames, sample::text("%d viewers, %.2f %% changed, %.2f Mbit/s", totals.viewers.load(),
                                                        100 * static_cast<double>(totals.changed) / n / frame_bytes,
                                                        8e-6 * static_cast<double>(totals.bytes) / progress.seconds()));
    }
    const auto end = Clock::now();
    capture.join();
    difference.join();
    sending.join();
    const double seconds = std::chrono::duration<double>(end - first_frame).count();
    if (s.progress)
        progress.finish();
    if (digests)
        std::fclose(digests);

    const double n = static_cast<double>(std::max<long long>(totals.frames, 1));
    sample::figure("source", "%s, %d x %d, %.3f frames/s", name.c_str(), size.width, size.height, rate);
    sample::figure("device", "%s", device.name.c_str());
    sample::figure("frames sent", "%lld, %.1f a second, %lld dropped", totals.frames.load(), n / seconds,
                   captured.dropped());
    sample::figure("bytes a frame", "%.0f of %.0f, %.3f %% of the bytes changed", static_cast<double>(totals.bytes) / n,
                   frame_bytes, 100 * static_cast<double>(totals.changed) / n / frame_bytes);
    sample::figure("stages", "capture %.2f ms, difference %.2f ms, pack %.2f ms, send %.2f ms", 1e3 * totals.capture / n,
                   1e3 * totals.encode / n, 1e3 * totals.pack / n, 1e3 * totals.send / n);
    for (const std::exception_ptr &error : {send_error, difference_error, capture_error})
        if (error)
            std::rethrow_exception(error);
}

} // namespace diffstream
