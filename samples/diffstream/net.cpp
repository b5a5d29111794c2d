#include "net.hpp"

#include "common/app.hpp"

#include <arpa/inet.h>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#ifdef CUSIGHT_HAVE_OPENSSL
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#endif

namespace diffstream {

using sample::Stop;

// ---- TLS ---------------------------------------------------------------------------------------------------------------

#ifdef CUSIGHT_HAVE_OPENSSL

struct Tls::Context {
    SSL_CTX *ssl = nullptr;
    bool server = false;
    std::string host;
    std::vector<unsigned char> key;
    ~Context() { SSL_CTX_free(ssl); }
};

namespace {

constexpr const char *IDENTITY = "cusight-diffstream";

std::string reason() {
    const unsigned long code = ERR_get_error();
    ERR_clear_error();
    const char *text = code ? ERR_reason_error_string(code) : nullptr;
    return text ? text : "the connection broke";
}

std::vector<unsigned char> readKey(const std::string &file) {
    std::ifstream in(file);
    if (!in)
        throw Stop(sample::USAGE, "--key " + file + ": " + std::strerror(errno));
    std::string digits;
    for (char c; in.get(c) && digits.size() <= 128;)
        if (!std::isspace(static_cast<unsigned char>(c)))
            digits += c;
    if (digits.size() != 64 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
        throw Stop(sample::USAGE,
                   "--key " + file + ": expected 64 hexadecimal digits, as written by `openssl rand -hex 32`");
    std::vector<unsigned char> key;
    for (size_t i = 0; i < digits.size(); i += 2)
        key.push_back(static_cast<unsigned char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    return key;
}

// The shared key as a TLS 1.3 session (RFC 8446, section 2.2).
SSL_SESSION *makeSession(SSL *ssl) {
    const auto *context = static_cast<Tls::Context *>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
    static const unsigned char aes128gcm_sha256[2] = {0x13, 0x01};
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes128gcm_sha256);
    SSL_SESSION *session = SSL_SESSION_new();
    if (session && cipher && SSL_SESSION_set1_master_key(session, context->key.data(), context->key.size()) &&
        SSL_SESSION_set1_id_context(session, reinterpret_cast<const unsigned char *>(IDENTITY),
                                    static_cast<unsigned>(std::strlen(IDENTITY))) &&
        SSL_SESSION_set_cipher(session, cipher) && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return nullptr;
}

int useKey(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *length, SSL_SESSION **session) {
    *session = nullptr;
    if (digest && EVP_MD_get_type(digest) != NID_sha256)
        return 1; // the key is for SHA-256: continue without it, which the other end refuses
    *session = makeSession(ssl);
    *id = reinterpret_cast<const unsigned char *>(IDENTITY);
    *length = std::strlen(IDENTITY);
    return *session != nullptr;
}

int findKey(SSL *ssl, const unsigned char *identity, size_t length, SSL_SESSION **session) {
    *session = nullptr;
    if (length != std::strlen(IDENTITY) || std::memcmp(identity, IDENTITY, length) != 0)
        return 1; // unknown identity: no key, so the handshake fails
    *session = makeSession(ssl);
    return *session != nullptr;
}

} // namespace

// What both kinds of authentication share: TLS 1.3 only, both ends verified, no resumption.
static SSL_CTX *createContext() {
    SSL_CTX *ssl = SSL_CTX_new(TLS_method());
    if (!ssl || !SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION)) {
        const std::string why = reason();
        SSL_CTX_free(ssl);
        throw Stop(sample::FAILED, "TLS 1.3 is not available: " + why);
    }
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_num_tickets(ssl, 0); // no resumption: every connection is authenticated
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    // OpenSSL treats a shared key as a session, and a verifying server requires a context id for sessions.
    SSL_CTX_set_session_id_context(ssl, reinterpret_cast<const unsigned char *>(IDENTITY),
                                   static_cast<unsigned>(std::strlen(IDENTITY)));
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    // With a shared key there are no certificates, so a client that does not use the key fails this check.
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    return ssl;
}

static void loadCertificates(SSL_CTX *ssl, const TlsFiles &files) {
    if (SSL_CTX_use_certificate_chain_file(ssl, files.certificate.c_str()) != 1)
        throw Stop(sample::USAGE, "--cert " + files.certificate + ": " + reason());
    if (SSL_CTX_use_PrivateKey_file(ssl, files.private_key.c_str(), SSL_FILETYPE_PEM) != 1)
        throw Stop(sample::USAGE, "--cert-key " + files.private_key + ": " + reason());
    if (SSL_CTX_load_verify_locations(ssl, files.authority.c_str(), nullptr) != 1)
        throw Stop(sample::USAGE, "--ca " + files.authority + ": " + reason());
}

Tls::Tls(const TlsFiles &files, bool server, const std::string &host) : context_(std::make_unique<Context>()) {
    const bool certificates = !files.certificate.empty() && !files.private_key.empty() && !files.authority.empty();
    if (files.key.empty() != certificates || (certificates && !files.key.empty()))
        throw Stop(sample::USAGE, "TLS needs either --key, or --cert, --cert-key and --ca together");
    Context &c = *context_;
    c.server = server;
    c.host = host;
    if (!files.key.empty())
        c.key = readKey(files.key);
    c.ssl = createContext();
    SSL_CTX_set_app_data(c.ssl, &c);
    if (c.key.empty()) {
        loadCertificates(c.ssl, files);
        return;
    }
    SSL_CTX_set_ciphersuites(c.ssl, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_psk_use_session_callback(c.ssl, useKey);
    SSL_CTX_set_psk_find_session_callback(c.ssl, findKey);
}

struct Connection::Session {
    SSL *ssl = nullptr;
    ~Session() { SSL_free(ssl); }
};

#else

struct Tls::Context {};
Tls::Tls(const TlsFiles &, bool, const std::string &) {
    throw Stop(sample::USAGE, "this build has no OpenSSL: without TLS only loopback addresses are allowed");
}
struct Connection::Session {};

#endif

Tls::~Tls() = default;

// ---- Connections -------------------------------------------------------------------------------------------------------

Connection::Connection(int socket, std::string name, const Tls *tls) : socket_(socket), name_(std::move(name)) {
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!tls) {
        ready_ = true;
        return;
    }
#ifdef CUSIGHT_HAVE_OPENSSL
    const Tls::Context &context = tls->context();
    session_ = std::make_unique<Session>();
    SSL *ssl = session_->ssl = SSL_new(context.ssl);
    if (!ssl || !SSL_set_fd(ssl, socket_)) {
        ::close(socket_);
        throw NetError("TLS: " + reason());
    }
    if (context.server) {
        SSL_set_accept_state(ssl);
    } else {
        SSL_set_connect_state(ssl);
        if (context.key.empty() && !X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), context.host.c_str()))
            SSL_set1_host(ssl, context.host.c_str());
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
    const unsigned long code = ERR_peek_error();
    if (!ready_ && code)
        throw NotAuthenticated("not authenticated: " + reason());
    throw NetError(ready_ ? reason() : "the TLS handshake was aborted");
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

// From the result of recv or send.
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
        return result(done, moved);
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
                                      "--cert, --cert-key and --ca");
}

// Data that the kernel has buffered for a slow connection is delay that cannot be recovered, so the buffers are small.
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

Listener::Listener(const Address &address, bool with_tls) {
    const Resolved resolved(address, true);
    requireSafe(*resolved.first, address, with_tls);
    const addrinfo &a = *resolved.first;
    socket_ = ::socket(a.ai_family, a.ai_socktype, a.ai_protocol);
    const int on = 1;
    if (socket_ >= 0)
        ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket_ < 0 || ::bind(socket_, a.ai_addr, a.ai_addrlen) != 0 || ::listen(socket_, 64) != 0) {
        const std::string why = std::strerror(errno);
        if (socket_ >= 0)
            ::close(socket_);
        throw Stop(sample::FAILED, address.text() + ": " + why);
    }
    makeNonBlocking(socket_);
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

int Listener::accept(std::string &name) {
    sockaddr_storage address = {};
    socklen_t length = sizeof address;
    const int socket = ::accept(socket_, reinterpret_cast<sockaddr *>(&address), &length);
    if (socket < 0)
        return -1;
    makeNonBlocking(socket);
    limitBuffers(socket);
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    ::getnameinfo(reinterpret_cast<sockaddr *>(&address), length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV);
    name = Address{host, port}.text();
    return socket;
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
        if (socket < 0)
            continue;
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
