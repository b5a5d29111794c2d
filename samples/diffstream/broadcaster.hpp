// Serves packed frames to the viewers that connect.
#pragma once

#include "diffstream/net/pending_connections.hpp"
#include "diffstream/web/session_file.hpp"
#include "diffstream/web/websocket.hpp"
#include "diffstream/log.hpp"
#include "diffstream/queues.hpp"
#include "diffstream/sender.hpp"
#include "diffstream/side_file.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>

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
    std::unique_ptr<Transport> connection;
    cusPeer *peer = nullptr;
    Clock::time_point connected, progress = Clock::now();
    bool waiting = false; // output waits until the connection accepts more
    bool ended = false;   // all output has left, and the viewer is to close the connection
    Client(std::unique_ptr<Transport> c, Clock::time_point since) : connection(std::move(c)), connected(since) {}
    ~Client() { cusPeerDestroy(peer); }
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;
};

// One thread serves all viewers and never blocks on a viewer or the log. A viewer that fails is dropped and logged.
class Broadcaster {
  public:
    Broadcaster(const SendSettings &settings, cv::Size size, double rate, PackedQueue &packed, cusSender *sender,
                SenderStats &stats, const Announce &listening);

    ~Broadcaster();
    Broadcaster(const Broadcaster &) = delete;
    Broadcaster &operator=(const Broadcaster &) = delete;

    // Returns when the last frame is out. An error ends all connections; that of --save-wire is thrown at the end only.
    void run();
    // What all threads share.
    Log &log() { return log_; }

    // Viewers that have completed the handshake.
    int connected() const { return connected_.load(); }
    // Whether a viewer has been waiting for a key frame since the last call.
    bool takeKeyFrameRequest() { return key_frame_requested_.exchange(false); }

  private:
    void wait(int milliseconds);
    void serve();
    void sendAll();
    void finish();
    void open();
    void sendFrames();
    void checkClients();
    void admitAll();
    void admit(PendingConnections::Admitted &viewer);
    void receive(Client &client);
    void transmit(Client &client);
    template<class F>
    void forEachClient(F &&work);
    template<class F>
    bool guarded(Client &client, F &&work);

    const SendSettings &settings_;
    const cv::Size size_;
    const uint32_t rate_millihertz_;
    PackedQueue &packed_;
    cusSender *sender_;
    SenderStats &stats_;
    Log log_;
    std::unique_ptr<Tls> tls_, web_tls_;
    std::unique_ptr<WebRules> web_rules_;
    std::shared_ptr<WebContext> web_context_;
    SideFile<SessionFile> session_{"--save-wire"};
    std::unique_ptr<PendingConnections> pending_;
    std::list<Client> clients_;
    std::atomic<int> connected_{0};
    std::atomic<bool> key_frame_requested_{false};
};

} // namespace diffstream
