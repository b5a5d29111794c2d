// Sockets and TLS of cusight-diffstream. Everything is non-blocking; whoever uses it polls.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace diffstream {

// The connection is over; the sentence says why.
class NetError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The other end is there and is not who it should be, or the other way round: trying again is of no use.
class NotAuthenticated : public NetError {
  public:
    using NetError::NetError;
};

// TLS 1.3, with a key that both ends share or with certificates for both ends. Files only: nothing secret on a command line.
struct TlsFiles {
    std::string key;         // --key: 32 bytes as 64 hexadecimal digits
    std::string certificate; // --cert: PEM
    std::string private_key; // --cert-key: PEM
    std::string authority;   // --ca: PEM, what the other end's certificate must be signed with
    bool any() const { return !key.empty() || !certificate.empty() || !private_key.empty() || !authority.empty(); }
};

class Tls {
  public:
    // Throws sample::Stop for files that are missing or no use, and in a build without OpenSSL. host: whose certificate a
    // viewer expects.
    Tls(const TlsFiles &files, bool server, const std::string &host);
    ~Tls();
    Tls(const Tls &) = delete;
    Tls &operator=(const Tls &) = delete;

    struct Context;
    Context &context() const { return *context_; }

  private:
    std::unique_ptr<Context> context_;
};

// One end of a connection. Reading and writing drive the TLS handshake; not one byte passes before it is complete.
class Connection {
  public:
    Connection(int socket, std::string name, const Tls *tls);
    ~Connection();
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    // How many bytes were moved; 0: none can be at present. Throws NetError, also at the end of the connection.
    size_t read(void *data, size_t bytes);
    size_t write(const void *data, size_t bytes);

    // Completes what TLS has begun. True once the other end is authenticated; at once without TLS.
    bool handshake();

    // Says the end of the data, where that can be done without waiting.
    void shutdown();

    int socket() const { return socket_; }
    // For poll(): what to wait for, given that there is something to write or not.
    short events(bool writing) const;
    const std::string &name() const { return name_; }

  private:
    struct Session;
    size_t result(int done, size_t moved);

    int socket_;
    std::string name_;
    std::unique_ptr<Session> session_; // null without TLS
    bool wants_write_ = false;         // TLS has to write before it can go on
    bool ready_ = false;
};

struct Address {
    std::string host, port;
    std::string text() const { return host.find(':') == std::string::npos ? host + ":" + port : "[" + host + "]:" + port; }
};

// "host", "host:port", ":port", "[::1]:port". Throws sample::Stop(USAGE).
Address parseAddress(const std::string &text, const std::string &default_host, const std::string &default_port);

class Listener {
  public:
    // Throws sample::Stop: the port is taken, the address is not this machine's; and for an address other than loopback
    // unless `with_tls`.
    Listener(const Address &address, bool with_tls);
    ~Listener();
    Listener(const Listener &) = delete;
    Listener &operator=(const Listener &) = delete;

    // The next one who called, as a non-blocking socket and its name; -1 when there is none.
    int accept(std::string &name);
    int socket() const { return socket_; }
    int port() const;

  private:
    int socket_ = -1;
};

// A connected non-blocking socket. Waits up to `patience`. Throws NetError; sample::Stop(USAGE) for an address other than
// loopback unless `with_tls`.
int dial(const Address &address, bool with_tls, std::chrono::milliseconds patience);

} // namespace diffstream
