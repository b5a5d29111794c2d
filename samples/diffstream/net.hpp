// Sockets and TLS of cusight-diffstream. Everything is non-blocking; the caller polls.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace diffstream {

// The connection is over; the message says why.
class NetError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// One end could not authenticate the other. Trying again does not help.
class NotAuthenticated : public NetError {
  public:
    using NetError::NetError;
};

// TLS 1.3 with a shared key, or with certificates on both ends. Always files, so no secret is on a command line.
struct TlsFiles {
    std::string key;         // --key: 32 bytes as 64 hexadecimal digits
    std::string certificate; // --cert: PEM
    std::string private_key; // --cert-key: PEM
    std::string authority;   // --ca: PEM, the authority that must have signed the other end's certificate
    bool any() const { return !key.empty() || !certificate.empty() || !private_key.empty() || !authority.empty(); }
};

class Tls {
  public:
    // Throws sample::Stop if a file is missing or invalid, and in a build without OpenSSL. host: the name or address that
    // the sender's certificate must have; for a viewer.
    Tls(const TlsFiles &files, bool server, const std::string &host);
    ~Tls();
    Tls(const Tls &) = delete;
    Tls &operator=(const Tls &) = delete;

    struct Context;
    Context &context() const { return *context_; }

  private:
    std::unique_ptr<Context> context_;
};

// One end of a connection. Reading and writing also drive the TLS handshake; no data passes before it is complete.
class Connection {
  public:
    Connection(int socket, std::string name, const Tls *tls);
    ~Connection();
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    // Return the number of bytes transferred; 0: none at present. Throw NetError, also at the end of the connection.
    size_t read(void *data, size_t bytes);
    size_t write(const void *data, size_t bytes);

    // Continues the TLS handshake. True once the other end is authenticated; always true without TLS.
    bool handshake();

    // Announces the end of the data, if that is possible without waiting.
    void shutdown();

    int socket() const { return socket_; }
    // The events to poll() for. writing: there is data to write.
    short events(bool writing) const;
    const std::string &name() const { return name_; }

  private:
    struct Session;
    size_t result(int done, size_t moved);

    int socket_;
    std::string name_;
    std::unique_ptr<Session> session_; // nullptr without TLS
    bool wants_write_ = false;         // TLS must write before it can continue
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
    // Throws sample::Stop if the port is in use or the address is not local, and for an address other than loopback unless
    // `with_tls`.
    Listener(const Address &address, bool with_tls);
    ~Listener();
    Listener(const Listener &) = delete;
    Listener &operator=(const Listener &) = delete;

    // The next connection, as a non-blocking socket and the name of its other end; -1: none is waiting.
    int accept(std::string &name);
    int socket() const { return socket_; }
    int port() const;

  private:
    int socket_ = -1;
};

// Connects and returns a non-blocking socket. Throws NetError, and sample::Stop(USAGE) for an address other than loopback
// unless `with_tls`.
int connectTo(const Address &address, bool with_tls, std::chrono::milliseconds timeout);

} // namespace diffstream
