// Accepts connections and lets in those that prove who they are.
#pragma once

#include "diffstream/log.hpp"
#include "diffstream/net/sockets.hpp"
#include "diffstream/web/visit.hpp"

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace diffstream {

using Clock = std::chrono::steady_clock;

constexpr double HELLO_SECONDS = 5; // to say hello, before a viewer is dropped

// Where viewers come in. A browser's request takes the place of the hello.
struct Door {
    Address address;
    const Tls *tls = nullptr;      // nullptr without TLS
    const WebRules *web = nullptr; // nullptr: viewers of the library
};

// Serves each connection on a thread of its own until the TLS handshake or, without TLS, the hello is complete, so that
// frames and handshakes never delay each other. Pending connections of all doors share a quota, in total and for each address.
// A further connection evicts one that has said nothing yet or, if all have, the oldest.
class PendingConnections {
  public:
    static constexpr int PER_ADDRESS = 4;

    struct Admitted {
        std::unique_ptr<Connection> connection;
        std::vector<uint8_t> said; // without TLS: the hello; of a browser: its request
        bool web = false;          // a browser
        Clock::time_point since;   // when it connected
    };

    // Throws like Listener.
    PendingConnections(const std::vector<Door> &doors, int max_pending, Log &log);
    ~PendingConnections();
    PendingConnections(const PendingConnections &) = delete;
    PendingConnections &operator=(const PendingConnections &) = delete;

    // Of the door with this number.
    int port(size_t door) const { return entrances_[door]->listener.port(); }
    // Becomes readable when a viewer has been admitted.
    int wakeup() const { return admitted_event_.file(); }
    // Returns the viewers admitted since the last call.
    std::vector<Admitted> take();

  private:
    // A counter to poll for.
    class Event {
      public:
        Event();
        ~Event();
        Event(const Event &) = delete;
        Event &operator=(const Event &) = delete;
        int file() const { return file_; }
        void set() const;
        void clear() const;

      private:
        int file_;
    };
    struct Entrance {
        explicit Entrance(const Door &d) : door(d), listener(d.address, d.tls != nullptr) {}
        Door door;
        Listener listener;
    };
    struct Pending {
        std::unique_ptr<Connection> connection;
        std::unique_ptr<Visit> visit; // a browser's
        std::string address;          // without the port; the network for IPv6
        bool tls = false;
        Clock::time_point since = Clock::now(), deadline;
        bool heard = false;    // has sent something
        bool answered = false; // waits only for the other end to read the answer, or why it is refused
        std::vector<uint8_t> said;
    };
    enum class State { PENDING, ADMITTED, OVER };

    void run();
    void turn();
    void wait();
    void servePending();
    void acceptAll();
    bool acceptOne(Entrance &entrance);
    State visit(Pending &pending);
    static State awaitReader(Pending &pending);
    void makeRoom(const std::string &address);
    void drop(std::list<Pending>::iterator which, const std::string &why);
    bool dropSilent();
    State serve(Pending &pending);
    static State advance(Pending &pending, bool tls);
    void admit(Pending &pending);

    const size_t max_pending_;
    Log &log_;
    std::vector<std::unique_ptr<Entrance>> entrances_;
    Event admitted_event_, stop_event_;
    std::list<Pending> pending_; // oldest first
    Guesses guesses_;
    Clock::time_point accept_again_ = Clock::now();
    std::mutex mutex_;
    std::vector<Admitted> admitted_;
    std::atomic<bool> stopped_{false};
    std::thread thread_; // last: it uses the others
};

} // namespace diffstream
