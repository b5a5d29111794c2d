// Serves packed frames to the viewers that connect.
#pragma once

#include "diffstream/net/pending_connections.hpp"
#include "diffstream/web/session_file.hpp"
#include "diffstream/log.hpp"
#include "diffstream/queues.hpp"
#include "diffstream/sender.hpp"
#include "diffstream/side_file.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace diffstream {

inline double secondsSince(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sums over all frames so far.
struct SenderStats {
    std::atomic<long long> frames{0}, bytes{0}, changed{0};
    std::atomic<double> capture{0}, encode{0}, pack{0}, send{0}; // seconds; each is written by one thread
    std::atomic<int> viewers{0};
    static void add(std::atomic<double> &sum, double value) { sum.store(sum.load() + value); }
};

// One admitted viewer. The peer has all memory that depends on the frame size.
struct Client {
    std::shared_ptr<Connection> connection;
    cusPeer *peer = nullptr;
    Clock::time_point connected, progress = Clock::now();
    bool waiting = false;  // output waits until the connection accepts more
    bool writing = false;  // some of it is being written
    bool watching = false; // has completed the handshake
    bool ended = false;    // all output has left, and the viewer is to close the connection
    bool over = false;
    std::array<uint8_t, 4096> in;
    std::vector<uint8_t> out;
    Client(std::shared_ptr<Connection> c, Clock::time_point since) : connection(std::move(c)), connected(since) {}
    ~Client() { cusPeerDestroy(peer); }
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;
};

// Serves all viewers on threads of its own, one step at a time, and never blocks on a viewer or the log. A viewer that fails is dropped and logged.
class Broadcaster {
  public:
    Broadcaster(const SendSettings &settings, cv::Size size, double rate, PackedQueue &packed, cusSender *sender,
                SenderStats &stats, const Announce &listening);

    ~Broadcaster();
    Broadcaster(const Broadcaster &) = delete;
    Broadcaster &operator=(const Broadcaster &) = delete;

    // Returns when the last frame is out, or after an error, which ends all connections.
    void join();
    // The same, and throws that error, or that of --save-wire.
    void finish();
    // What all threads share.
    Log &log() { return log_; }

    // Viewers that have completed the handshake.
    int connected() const { return stats_.viewers.load(); }
    // Whether a viewer has been waiting for a key frame since the last call.
    bool takeKeyFrameRequest() { return key_frame_requested_.exchange(false); }

  private:
    using Shared = std::shared_ptr<Client>;

    void open();
    void start();
    void sendFrames();
    void tick();
    void sayBye();
    void stop();
    void admit(const PendingConnections::Admitted &viewer);
    void receive(const Shared &client);
    void transmit(const Shared &client);
    void look(Client &client);
    void watches(Client &client, bool now);
    template<class F>
    void step(F &&work);
    template<class F>
    void forEachClient(F &&work);
    template<class F>
    void guarded(Client &client, F &&work);
    template<class F>
    Handler on(const Shared &client, F work);

    const SendSettings &settings_;
    const cv::Size size_;
    const uint32_t rate_millihertz_;
    PackedQueue &packed_;
    cusSender *sender_;
    SenderStats &stats_;
    Log log_;
    std::unique_ptr<Tls> tls_, web_tls_;
    std::unique_ptr<WebRules> web_rules_;
    SideFile<SessionFile> session_{"--save-wire"};
    asio::io_context io_;
    const Strand strand_{asio::make_strand(asio::any_io_executor(io_.get_executor()))}; // of all that follows
    asio::steady_timer tick_{strand_};
    std::unique_ptr<PendingConnections> pending_;
    std::list<Shared> clients_;
    std::optional<sample::Finishing> finishing_;
    Clock::time_point end_;
    std::exception_ptr error_;
    std::atomic<bool> key_frame_requested_{false};
    std::array<std::thread, 2> threads_;
};

} // namespace diffstream
