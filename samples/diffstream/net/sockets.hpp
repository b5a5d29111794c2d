// Sockets and TLS of cusight-diffstream. Everything is non-blocking; the caller polls.
#pragma once

#include "diffstream/net/tls.hpp"
#include "diffstream/net/transport.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace diffstream {

// A socket, with TLS or without. Reading and writing also drive the TLS handshake; no data passes before it is complete.
class Connection : public Transport {
  public:
    Connection(int socket, std::string name, const Tls *tls);
    ~Connection() override;

    size_t read(void *data, size_t bytes) override;
    size_t write(const void *data, size_t bytes) override;

    // Continues the TLS handshake. True once the other end is authenticated; always true without TLS.
    bool handshake();

    void shutdown() override;
    int socket() const override { return socket_; }
    short events(bool writing) const override;
    const std::string &name() const override { return name_; }

  private:
    size_t result(int done, size_t moved);

    int socket_;
    std::string name_;
    std::unique_ptr<TlsSession> session_; // nullptr without TLS
    bool wants_write_ = false;            // TLS must write before it can continue
    bool ready_ = false;
    bool heard_ = false; // data has been read from the other end
};

struct Address {
    std::string host, port;
    std::string text() const { return host.find(':') == std::string::npos ? host + ":" + port : "[" + host + "]:" + port; }
};

// "host", "host:port", ":port", "[::1]:port". Throws sample::Stop(USAGE).
Address parseAddress(const std::string &text, const std::string &default_host, const std::string &default_port);

class Listener {
  public:
    // Throws sample::Stop if the port is in use or the address is not local, and for an address other than loopback unless
    // `with_tls`.
    Listener(const Address &address, bool with_tls);
    ~Listener();
    Listener(const Listener &) = delete;
    Listener &operator=(const Listener &) = delete;

    // A connection as a non-blocking socket.
    struct Accepted {
        int socket = -1;
        std::string name;    // the other end: address and port
        std::string address; // without the port; for IPv6 the 64-bit network, all of which one host may use
        int error = 0;       // EXHAUSTED: why
    };
    enum class Result { ONE, NONE, EXHAUSTED };
    // Returns the next connection. EXHAUSTED: the system lacks a descriptor or memory for it. It waits, so poll() keeps
    // reporting it.
    Result accept(Accepted &out);
    int socket() const { return socket_; }
    int port() const;

  private:
    int socket_ = -1;
};

// Connects and returns a non-blocking socket. Throws NetError, and sample::Stop(USAGE) for an address other than loopback
// unless `with_tls`.
int connectTo(const Address &address, bool with_tls, std::chrono::milliseconds timeout);

} // namespace diffstream
