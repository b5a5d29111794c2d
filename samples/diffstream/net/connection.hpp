// Connections of cusight-diffstream on Boost.Asio.
#pragma once

#include "diffstream/net/tls.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace diffstream {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using Handler = std::function<void(const ErrorCode &, size_t)>;

// A viewer's connection: a socket, with TLS or without, also as a stream of Asio and Beast. Nothing waits; handlers keep the object alive.
// No data passes before the handshake is complete.
class Connection : public std::enable_shared_from_this<Connection> {
  public:
    using executor_type = asio::any_io_executor;
    // Handlers run in `executor`. Throws NotAuthenticated.
    Connection(tcp::socket socket, std::string name, const Tls *tls, executor_type executor);
    virtual ~Connection() = default;
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    // Runs the handlers of later operations elsewhere.
    void moveTo(executor_type executor) { executor_ = std::move(executor); }
    executor_type get_executor() const noexcept { return executor_; }
    tcp::socket &socket() { return socket_; }
    const std::string &name() const { return name_; }

    // Runs the TLS handshake, if there is one. Afterwards the other end is authenticated.
    void handshake(std::function<void(const ErrorCode &)> handler);

    template<class Buffers, class Done>
    void async_read_some(Buffers buffers, Done done) {
        start([&](auto &stream, auto handler) { stream.async_read_some(buffers, std::move(handler)); },
              [this, buffers, done = std::move(done)](ErrorCode error, size_t n) mutable {
                  received(buffers, n, error);
                  done(error, n);
              });
    }
    template<class Buffers, class Done>
    void async_write_some(Buffers buffers, Done done) {
        start([&](auto &stream, auto handler) { stream.async_write_some(buffers, std::move(handler)); }, std::move(done));
    }

    // Read or write some bytes, at least one unless there is an error; a read may bring none. One of each at a time.
    virtual void read(asio::mutable_buffer buffer, Handler handler) { async_read_some(buffer, std::move(handler)); }
    virtual void write(asio::const_buffer buffer, Handler handler) { async_write_some(buffer, std::move(handler)); }
    // The most bytes that write() may be given now.
    virtual size_t room() const { return SIZE_MAX; }
    // The next frame of the video is offered to the viewer, who may send messages again.
    virtual void nextFrame() {}
    // Announces the end of the data, after the last write. The other end is to close the connection.
    virtual void finish();
    void close();
    // Throws NetError that says what this error of an operation means, if it is one.
    virtual void check(const ErrorCode &error);

  private:
    // Sees all data that is read; false: the other end must not send it.
    virtual bool sees(const uint8_t * /*bytes*/, size_t /*n*/) { return true; }
    template<class Operation, class Done>
    void start(const Operation &operation, Done done) {
        auto handler = asio::bind_executor(executor_, std::move(done));
        if (tls_)
            operation(*tls_, std::move(handler));
        else
            operation(socket_, std::move(handler));
    }
    template<class Buffers>
    void received(const Buffers &buffers, size_t n, ErrorCode &error) {
        heard_ = heard_ || n > 0;
        for (auto b = asio::buffer_sequence_begin(buffers); n > 0; ++b) {
            const asio::const_buffer piece = asio::buffer(asio::const_buffer(*b), n);
            if (!sees(static_cast<const uint8_t *>(piece.data()), piece.size()))
                error = asio::error::message_size;
            n -= piece.size();
        }
    }

    tcp::socket socket_;
    std::optional<asio::ssl::stream<tcp::socket &>> tls_;
    const bool server_; // of TLS
    const std::string name_;
    executor_type executor_;
    bool ready_;         // the handshake is complete
    bool heard_ = false; // data has been read from the other end
};

// Listens. Throws sample::Stop if the port is in use or the address is not local, and for an address other than loopback unless
// `with_tls`.
tcp::acceptor listenOn(const asio::any_io_executor &io, const Address &address, bool with_tls);

// Sets what all sockets of connections have.
void prepare(tcp::socket &socket);

// "127.0.0.1:80"
std::string nameOf(const tcp::endpoint &endpoint);

// An address without the port; for IPv6 the 64-bit network, all of which one host may use.
std::string networkOf(const asio::ip::address &address);

// Connects, and runs `io` meanwhile. Throws NetError, and sample::Stop(USAGE) for an address other than loopback unless `with_tls`.
tcp::socket connectTo(asio::io_context &io, const Address &address, bool with_tls, std::chrono::milliseconds timeout);

} // namespace diffstream
