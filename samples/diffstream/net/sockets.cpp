#include "diffstream/net/tls_session.hpp"

#include "common/app.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace diffstream {

using sample::Stop;

// ---- Connections -------------------------------------------------------------------------------------------------------

Connection::Connection(int socket, std::string name, const Tls *tls) : socket_(socket), name_(std::move(name)) {
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!tls) {
        ready_ = true;
        return;
    }
#ifdef CUSIGHT_HAVE_OPENSSL
    try {
        session_ = std::make_unique<TlsSession>(*tls, socket_);
    } catch (...) {
        ::close(socket_);
        throw;
    }
#endif
}

Connection::~Connection() {
    session_.reset();
    ::close(socket_);
}

#ifdef CUSIGHT_HAVE_OPENSSL
size_t Connection::result(int done, size_t moved) {
    wants_write_ = false;
    if (done == 1)
        return moved;
    const int why = SSL_get_error(session_->ssl, done);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        wants_write_ = why == SSL_ERROR_WANT_WRITE;
        return 0;
    }
    if (why == SSL_ERROR_ZERO_RETURN)
        throw NetError("the other end closed the connection");
    const unsigned long code = why == SSL_ERROR_SSL ? ERR_peek_error() : 0;
    if (!heard_ && isRefusal(code, ready_))
        throw NotAuthenticated((ready_ ? "not authenticated, refused by the other end: " : "not authenticated: ") +
                               tlsReason());
    throw NetError(ready_ ? tlsReason() : "the TLS handshake was aborted");
}
#endif

bool Connection::handshake() {
#ifdef CUSIGHT_HAVE_OPENSSL
    if (!ready_) {
        ERR_clear_error();
        const int done = SSL_do_handshake(session_->ssl);
        result(done, 0);
        ready_ = done == 1;
    }
#endif
    return ready_;
}

// Interprets the result of recv or send.
static size_t transferred(ssize_t n) {
    if (n >= 0)
        return static_cast<size_t>(n);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    throw NetError(std::strerror(errno));
}

size_t Connection::read(void *data, size_t bytes) {
    if (!handshake())
        return 0;
#ifdef CUSIGHT_HAVE_OPENSSL
    if (session_) {
        size_t moved = 0;
        ERR_clear_error();
        const int done = SSL_read_ex(session_->ssl, data, bytes, &moved);
        const size_t n = result(done, moved);
        heard_ = heard_ || n > 0;
        return n;
    }
#endif
    const ssize_t n = ::recv(socket_, data, bytes, 0);
    if (n == 0)
        throw NetError("the other end closed the connection");
    return transferred(n);
}

size_t Connection::write(const void *data, size_t bytes) {
    if (!handshake())
        return 0;
#ifdef CUSIGHT_HAVE_OPENSSL
    if (session_) {
        size_t moved = 0;
        ERR_clear_error();
        const int done = SSL_write_ex(session_->ssl, data, bytes, &moved);
        return result(done, moved);
    }
#endif
    return transferred(::send(socket_, data, bytes, MSG_NOSIGNAL));
}

void Connection::shutdown() {
#ifdef CUSIGHT_HAVE_OPENSSL
    if (session_ && ready_)
        SSL_shutdown(session_->ssl);
#endif
    ::shutdown(socket_, SHUT_WR);
}

short Connection::events(bool writing) const {
    return static_cast<short>(POLLIN | ((ready_ && writing) || wants_write_ ? POLLOUT : 0));
}

// ---- Addresses ---------------------------------------------------------------------------------------------------------

Address parseAddress(const std::string &text, const std::string &default_host, const std::string &default_port) {
    Address out{default_host, default_port};
    std::string rest = text;
    if (!rest.empty() && rest[0] == '[') {
        const size_t end = rest.find(']');
        if (end == std::string::npos)
            throw Stop(sample::USAGE, "'" + text + "' is not an address, expected HOST, HOST:PORT or [IPV6]:PORT");
        out.host = rest.substr(1, end - 1);
        rest.erase(0, end + 1);
    } else {
        const size_t colon = rest.find(':');
        if (colon != 0 && !rest.empty())
            out.host = rest.substr(0, colon);
        rest.erase(0, colon == std::string::npos ? rest.size() : colon);
    }
    if (!rest.empty())
        out.port = rest.substr(1);
    const bool digits = !out.port.empty() && out.port.size() <= 5 &&
                        out.port.find_first_not_of("0123456789") == std::string::npos && std::stoi(out.port) <= 65535;
    if ((!rest.empty() && rest[0] != ':') || !digits)
        throw Stop(sample::USAGE, "'" + text + "' is not an address, expected HOST, HOST:PORT or [IPV6]:PORT");
    return out;
}

namespace {

bool isLoopback(const sockaddr *address) {
    if (address->sa_family == AF_INET)
        return (ntohl(reinterpret_cast<const sockaddr_in *>(address)->sin_addr.s_addr) >> 24) == 127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr);
}

struct Resolved {
    Resolved(const Address &address, bool passive) {
        addrinfo hints = {};
        hints.ai_family = AF_UNSPEC;
        hints.ai_socktype = SOCK_STREAM;
        hints.ai_flags = passive ? AI_PASSIVE : 0;
        const int error = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &first);
        if (error)
            throw Stop(sample::USAGE, address.text() + ": " + ::gai_strerror(error));
    }
    ~Resolved() { ::freeaddrinfo(first); }
    addrinfo *first = nullptr;
};

void requireSafe(const addrinfo &found, const Address &address, bool with_tls) {
    if (!with_tls && !isLoopback(found.ai_addr))
        throw Stop(sample::USAGE, address.text() +
                                      " is beyond loopback: that needs TLS, with --key FILE (a shared key) or with "
                                      "--cert, --cert-key and --ca; for browsers with --web-cert and --web-cert-key");
}

// Data that the kernel buffers for a slow connection adds delay that cannot be recovered, so the buffers are small.
void limitBuffers(int socket) {
    const int bytes = 256 * 1024; // Linux doubles it
    ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

void makeNonBlocking(int socket) {
    ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
    ::fcntl(socket, F_SETFD, FD_CLOEXEC);
}

} // namespace

static constexpr int BACKLOG = 1024; // connections that wait for accept() or for their first bytes

Listener::Listener(const Address &address, bool with_tls) {
    const Resolved resolved(address, true);
    requireSafe(*resolved.first, address, with_tls);
    const addrinfo &a = *resolved.first;
    socket_ = ::socket(a.ai_family, a.ai_socktype, a.ai_protocol);
    const int on = 1;
    if (socket_ >= 0)
        ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket_ < 0 || ::bind(socket_, a.ai_addr, a.ai_addrlen) != 0 || ::listen(socket_, BACKLOG) != 0) {
        const std::string why = std::strerror(errno);
        if (socket_ >= 0)
            ::close(socket_);
        throw Stop(sample::FAILED, address.text() + ": " + why);
    }
    makeNonBlocking(socket_);
    // A viewer speaks first, so accept() can leave silent connections to the kernel for a second. Best effort.
    const int second = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_DEFER_ACCEPT, &second, sizeof second);
}

Listener::~Listener() {
    ::close(socket_);
}

int Listener::port() const {
    sockaddr_storage address = {};
    socklen_t length = sizeof address;
    ::getsockname(socket_, reinterpret_cast<sockaddr *>(&address), &length);
    return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 &>(address).sin6_port
                                               : reinterpret_cast<sockaddr_in &>(address).sin_port);
}

// The part of an address that one host has to itself.
static std::string network(const sockaddr_storage &address, const std::string &host) {
    if (address.ss_family != AF_INET6)
        return host;
    in6_addr prefix = reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&prefix))
        return host;
    std::memset(prefix.s6_addr + 8, 0, 8);
    char text[INET6_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET6, &prefix, text, sizeof text);
    return text;
}

Listener::Result Listener::accept(Accepted &out) {
    sockaddr_storage address = {};
    socklen_t length = 0;
    do {
        length = sizeof address;
        out.socket = ::accept(socket_, reinterpret_cast<sockaddr *>(&address), &length);
    } while (out.socket < 0 && (errno == EINTR || errno == ECONNABORTED));
    out.error = out.socket < 0 ? errno : 0;
    if (out.error)
        return out.error == EAGAIN || out.error == EWOULDBLOCK ? Result::NONE : Result::EXHAUSTED;
    makeNonBlocking(out.socket);
    limitBuffers(out.socket);
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    ::getnameinfo(reinterpret_cast<sockaddr *>(&address), length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV);
    out.name = Address{host, port}.text();
    out.address = network(address, host);
    return Result::ONE;
}

// Waits for a pending connect(). Returns 0 or its error.
static int awaitConnection(int socket, std::chrono::milliseconds timeout) {
    pollfd wait = {socket, POLLOUT, 0};
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (::poll(&wait, 1, 50) <= 0)
        if (sample::interrupted() || std::chrono::steady_clock::now() > end)
            return ETIMEDOUT;
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
}

int connectTo(const Address &address, bool with_tls, std::chrono::milliseconds timeout) {
    const Resolved resolved(address, false);
    std::string why = "no address";
    for (const addrinfo *a = resolved.first; a; a = a->ai_next) {
        requireSafe(*a, address, with_tls);
        const int socket = ::socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (socket < 0) {
            why = std::strerror(errno);
            continue;
        }
        makeNonBlocking(socket);
        limitBuffers(socket);
        int error = ::connect(socket, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
        if (error == EINPROGRESS)
            error = awaitConnection(socket, timeout);
        if (error == 0)
            return socket;
        why = std::strerror(error);
        ::close(socket);
    }
    throw NetError(address.text() + ": " + why);
}

} // namespace diffstream
