// Accepts connections and lets in those that prove who they are.
#pragma once

#include "diffstream/log.hpp"
#include "diffstream/net/connection.hpp"
#include "diffstream/web/websocket.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace diffstream {

using Clock = std::chrono::steady_clock;
using Strand = asio::strand<asio::any_io_executor>;

constexpr double HELLO_SECONDS = 5; // to say hello, before a viewer is dropped

// Where viewers come in. A browser's request takes the place of the hello.
struct Endpoint {
    Address address;
    const Tls *tls = nullptr;      // nullptr without TLS
    const WebRules *web = nullptr; // nullptr: viewers of the library
    const char *source = "video";  // as WebSocket says
};

// Serves connections one at a time until the TLS handshake or, without TLS, the hello is complete. Pending connections of all endpoints
// share a quota, in total and for each address. A further connection evicts one that has said nothing yet or, if all have, the oldest.
class PendingConnections {
  public:
    static constexpr int PER_ADDRESS = 4;

    struct Admitted {
        std::shared_ptr<Connection> connection;
        std::vector<uint8_t> said;                   // without TLS: the hello
        std::shared_ptr<const HttpExchange> request; // of a browser
        Clock::time_point since;                     // when it connected
    };

    // Works while `io` runs, and must exist as long. Throws like listenOn().
    PendingConnections(const asio::any_io_executor &io, const std::vector<Endpoint> &endpoints, int max_pending, Log &log,
                       std::function<void(Admitted)> admit);

    // The port of this endpoint, counted from 0.
    int port(size_t endpoint) const;
    // Stops listening and drops those that wait. Any thread.
    void close();

  private:
    struct ListeningEndpoint {
        Endpoint endpoint;
        tcp::acceptor acceptor;
        tcp::endpoint from; // of the next connection
        bool accepting = false;
    };
    struct Pending {
        std::shared_ptr<Connection> connection;
        std::shared_ptr<HttpExchange> exchange; // a browser's
        std::string address;                    // without the port; the network for IPv6
        Clock::time_point since = Clock::now(), deadline;
        bool tls = false;
        bool placed = false;   // has taken a place
        bool heard = false;    // a handler knows that it has sent something
        bool answered = false; // waits only for the other end to read the answer, or why it is refused
        bool over = false;
        std::vector<uint8_t> said;
        std::array<char, 4096> ignored;
        bool silent() const {
            ErrorCode error;
            return !heard && connection->socket().available(error) == 0;
        }
    };
    using Shared = std::shared_ptr<Pending>;

    void sweep();
    void accept(ListeningEndpoint &at);
    void begin(const ListeningEndpoint &at, tcp::socket socket);
    void prove(const Shared &p);
    void hello(const Shared &p);
    void ask(const Shared &p);
    void awaitReader(const Shared &p);
    void discard(const Shared &p);
    void admit(const Shared &p);
    void makeRooms();
    void makeRoom(const std::string &address);
    bool dropSilent();
    void drop(const Shared &p, const std::string &why);
    void end(const Shared &p);
    template<class Work>
    auto on(const Shared &p, Work work);

    const size_t max_pending_;
    Log &log_;
    const std::function<void(Admitted)> admit_;
    const Strand strand_;
    std::list<ListeningEndpoint> listening_;
    asio::steady_timer sweep_, room_;
    std::list<Shared> pending_; // oldest first
    bool making_room_ = false;
    Guesses guesses_;
};

} // namespace diffstream
