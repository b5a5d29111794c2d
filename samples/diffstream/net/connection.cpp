#include "diffstream/net/connection.hpp"

#include "common/app.hpp"

#include <algorithm>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace diffstream {

using sample::Stop;

// ---- Connections -------------------------------------------------------------------------------------------------------

Connection::Connection(tcp::socket socket, std::string name, const Tls *tls, executor_type executor)
    : socket_(std::move(socket)), server_(tls && tls->server()), name_(std::move(name)), executor_(std::move(executor)),
      ready_(!tls) {
    if (!tls)
        return;
    tls_.emplace(socket_, tls->context());
    tls->prepare(tls_->native_handle());
}

void Connection::handshake(std::function<void(const ErrorCode &)> handler) {
    auto done = asio::bind_executor(executor_, [this, handler = std::move(handler)](const ErrorCode &error) {
        ready_ = !error;
        handler(error);
    });
    if (tls_)
        tls_->async_handshake(server_ ? asio::ssl::stream_base::server : asio::ssl::stream_base::client, std::move(done));
    else
        asio::post(executor_, [done] { done.get()(ErrorCode()); });
}

void Connection::finish() {
    ErrorCode ignored; // the other end has gone
    if (tls_ && ready_)
        tls_->async_shutdown(asio::bind_executor(executor_, [self = shared_from_this()](const ErrorCode &) {}));
    else
        socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

void Connection::close() {
    ErrorCode ignored;
    socket_.close(ignored);
}

void Connection::check(const ErrorCode &error) {
    if (!error)
        return;
    if (error == asio::error::eof)
        throw NetError("the other end closed the connection");
    const bool of_tls = error.category() == asio::error::get_ssl_category();
    if (of_tls && !heard_ && isRefusal(static_cast<unsigned>(error.value()), ready_))
        throw NotAuthenticated((ready_ ? "not authenticated, refused by the other end: " : "not authenticated: ") +
                               error.message());
    if (!ready_)
        throw NetError("the TLS handshake was aborted");
    if (error == asio::ssl::error::stream_truncated)
        throw NetError("unexpected eof while reading"); // as OpenSSL says
    throw NetError(tls_ && !of_tls ? "the connection broke" : error.message());
}

// ---- Addresses ---------------------------------------------------------------------------------------------------------

namespace {

tcp::resolver::results_type resolve(const asio::any_io_executor &io, const Address &address, bool passive) {
    ErrorCode error;
    const auto flags = passive ? tcp::resolver::passive : tcp::resolver::flags();
    auto found = tcp::resolver(io).resolve(address.host, address.port, flags, error);
    if (error)
        throw Stop(sample::USAGE,
                   address.text() + ": " +
                       (error == asio::error::host_not_found ? ::gai_strerror(EAI_NONAME) : error.message()));
    return found;
}

void requireSafe(const tcp::endpoint &found, const Address &address, bool with_tls) {
    if (!with_tls && !found.address().is_loopback())
        throw Stop(sample::USAGE, address.text() +
                                      " is beyond loopback: that needs TLS, with --key FILE (a shared key) or with "
                                      "--cert, --cert-key and --ca; for browsers with --web-cert and --web-cert-key");
}

} // namespace

void prepare(tcp::socket &socket) {
    // Data that the kernel buffers for a slow connection adds delay that cannot be recovered, so the buffers are small.
    constexpr int BYTES = 256 * 1024; // Linux doubles it
    ErrorCode ignored;                // best effort
    socket.set_option(asio::socket_base::send_buffer_size(BYTES), ignored);
    socket.set_option(asio::socket_base::receive_buffer_size(BYTES), ignored);
    socket.set_option(tcp::no_delay(true), ignored);
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
}

tcp::acceptor listenOn(const asio::any_io_executor &io, const Address &address, bool with_tls) {
    constexpr int BACKLOG = 1024; // connections that wait for accept() or for their first bytes
    const tcp::endpoint endpoint = resolve(io, address, true).begin()->endpoint();
    requireSafe(endpoint, address, with_tls);
    try {
        tcp::acceptor acceptor(io, endpoint.protocol());
        ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
        acceptor.set_option(tcp::acceptor::reuse_address(true));
        acceptor.bind(endpoint);
        acceptor.listen(BACKLOG);
        // A viewer speaks first, so accept() can leave silent connections to the kernel for a second. Best effort.
        const int second = 1;
        ::setsockopt(acceptor.native_handle(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &second, sizeof second);
        return acceptor;
    } catch (const boost::system::system_error &error) {
        throw Stop(sample::FAILED, address.text() + ": " + error.code().message());
    }
}

std::string nameOf(const tcp::endpoint &endpoint) {
    return Address{endpoint.address().to_string(), std::to_string(endpoint.port())}.text();
}

std::string networkOf(const asio::ip::address &address) {
    if (address.is_v4() || address.to_v6().is_v4_mapped())
        return address.to_string();
    auto bytes = address.to_v6().to_bytes();
    std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
    return asio::ip::address_v6(bytes).to_string();
}

tcp::socket connectTo(asio::io_context &io, const Address &address, bool with_tls, std::chrono::milliseconds timeout) {
    std::string why = "no address";
    for (const auto &found : resolve(io.get_executor(), address, false)) {
        requireSafe(found.endpoint(), address, with_tls);
        tcp::socket socket(io);
        ErrorCode error;
        socket.open(found.endpoint().protocol(), error);
        if (!error) {
            prepare(socket);
            error = asio::error::would_block;
            socket.async_connect(found.endpoint(), [&error](const ErrorCode &result) { error = result; });
        }
        const auto end = std::chrono::steady_clock::now() + timeout;
        while (error == asio::error::would_block && !sample::interrupted() && std::chrono::steady_clock::now() < end)
            io.run_one_for(std::chrono::milliseconds(50));
        io.restart();
        if (!error)
            return socket;
        why = (error == asio::error::would_block ? ErrorCode(asio::error::timed_out) : error).message();
        socket.close(error);
        io.poll(); // the handler, which refers to `error`
        io.restart();
    }
    throw NetError(address.text() + ": " + why);
}

} // namespace diffstream
