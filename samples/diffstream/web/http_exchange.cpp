#include "diffstream/web/http_exchange.hpp"

#include "common/app.hpp"
#include "common/output.hpp"
#include "diffstream/net/secret.hpp"
#include "diffstream/web/files.hpp"

#include <boost/algorithm/hex.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include <algorithm>
#include <cerrno>
#include <cctype>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <unistd.h>

namespace diffstream {

namespace http = boost::beast::http;

namespace {

constexpr const char *STREAM = "/live"; // what a WebSocket asks for
constexpr const char *WRONG_TOKEN = "not authenticated: wrong token";

// Everything that a page may do, in one place: its own files and the stream, no script in the page itself.
constexpr const char *POLICY =
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; worker-src 'self'; media-src blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

std::string_view view(boost::beast::string_view text) {
    return {text.data(), text.size()};
}

std::string lowered(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
    return out;
}

// Takes "host", "host:port" or "[ipv6]:port" apart, in lower case. Returns the host, an IPv6 address without its brackets; "" for
// anything else, and for a name that ends in a dot.
std::string hostOf(std::string_view authority) {
    const std::string text = lowered(authority);
    const bool bracket = text.substr(0, 1) == "[";
    const size_t end = std::min(text.size(), bracket ? text.find(']') : text.find(':'));
    const std::string host = text.substr(bracket, end - bracket), port = text.substr(std::min(text.size(), end + bracket));
    const bool digits = port.size() > 1 && port.size() <= 6 && port.find_first_not_of("0123456789", 1) == std::string::npos;
    if (!port.empty() && (port[0] != ':' || !digits || std::stoi(port.substr(1)) > 65535))
        return "";
    in6_addr six = {};
    if (bracket)
        return end < text.size() && ::inet_pton(AF_INET6, host.c_str(), &six) == 1 ? host : "";
    const bool name = !host.empty() && host.front() != '.' && host.back() != '.' &&
                      host.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") == std::string::npos;
    return name ? host : "";
}

bool isLoopbackName(const std::string &host) {
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(host, error);
    return host == "localhost" || (!error && address.is_loopback());
}

// Takes the same time wherever the texts differ.
bool sameSecret(std::string_view a, std::string_view b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string randomToken() {
    unsigned char bytes[16];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        throw sample::Stop(sample::FAILED, "no random bytes for a token");
    std::string token;
    boost::algorithm::hex_lower(std::begin(bytes), std::end(bytes), std::back_inserter(token));
    return token;
}

// Writes a token to the file, unless there is one of this name.
void makeToken(const std::string &file) {
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (descriptor < 0 && errno == EEXIST)
        return;
    if (descriptor < 0)
        sample::cannotWrite(file, std::strerror(errno));
    const std::string line = randomToken() + "\n";
    const bool written =
        ::write(descriptor, line.data(), line.size()) == static_cast<ssize_t>(line.size()) && ::fsync(descriptor) == 0;
    const int why = errno;
    ::close(descriptor);
    if (!written) {
        ::unlink(file.c_str());
        sample::cannotWrite(file, std::strerror(why));
    }
}

std::string readToken(const std::string &file) {
    constexpr size_t MIN_LENGTH = 16, MAX_LENGTH = 128;
    makeToken(file);
    const Secret secret("--web-token-file", file, MAX_LENGTH + 2);
    std::string token(secret.begin(), secret.end());
    while (!token.empty() && (token.back() == '\n' || token.back() == '\r'))
        token.pop_back();
    const bool plain =
        std::all_of(token.begin(), token.end(), [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
    if (!plain || token.size() < MIN_LENGTH || token.size() > MAX_LENGTH)
        throw sample::Stop(sample::USAGE, "--web-token-file " + file +
                                              sample::text(": expected %zu to %zu letters, digits, - or _, as written by "
                                                           "`openssl rand -hex 32`",
                                                           MIN_LENGTH, MAX_LENGTH));
    return token;
}

} // namespace

// ---- Who may watch -----------------------------------------------------------------------------------------------------

WebRules::WebRules(const WebSettings &settings) : tls_(settings.tls()), token_file_(settings.token_file) {
    if (!token_file_.empty())
        token_ = readToken(token_file_);
    else if (tls_)
        token_ = randomToken();
}

std::string WebRules::address(const Address &listening, bool with_token) const {
    return (tls_ ? "https://" : "http://") + listening.text() + "/" +
           (token_.empty() ? ""
            : with_token   ? "#token=" + token_
                           : "#token=... (the token is in " + token_file_ + ")");
}

std::string_view WebRules::tokenOf(std::string_view target) const {
    const std::string_view key = "?token=";
    const size_t at = token_.empty() ? std::string_view::npos : target.find(key);
    return at == std::string_view::npos ? "" : target.substr(at + key.size());
}

std::string WebRules::refusal(std::string_view target, std::string_view host, std::string_view origin) const {
    const std::string own = (tls_ ? "https://" : "http://") + lowered(host), name = hostOf(host);
    if (name.empty())
        return "the page's host is '" + std::string(host) + "', expected HOST, HOST:PORT or [IPV6]:PORT";
    if (lowered(origin) != own)
        return "the page's origin is '" + std::string(origin) + "', expected '" + own + "'";
    if (token_.empty())
        return isLoopbackName(name)
                   ? ""
                   : "without a token, the page's host must be a loopback name, not '" + std::string(host) + "'";
    return sameSecret(tokenOf(target), token_) ? "" : WRONG_TOKEN;
}

// ---- The request -------------------------------------------------------------------------------------------------------

void HttpExchange::read(Connection &connection, Handler done) {
    http::async_read_header(connection, buffer_, parser_, std::move(done));
}

void HttpExchange::write(Connection &connection, Handler done) {
    http::async_write(connection, response_, std::move(done));
}

bool HttpExchange::answer(Connection &connection, const ErrorCode &error) {
    if (error.category() != make_error_code(http::error{}).category())
        connection.check(error);
    if (error == http::error::end_of_stream || error == http::error::partial_message)
        throw NetError("the other end closed the connection");
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        throw NetError(sample::text("a request of more than %zu bytes", MAX_REQUEST));
    const auto &request = parser_.get();
    const std::string_view target = view(request.target()), path = target.substr(0, target.find('?'));
    const bool head = request.method() == http::verb::head;
    if (error || !parser_.is_done() || request.version() != 11 || request.count(http::field::host) != 1) {
        refusal_ = "a request that is no HTTP/1.1";
        return say(http::status::bad_request, "text/plain", "Bad request.\n", false);
    }
    if (request.method() != http::verb::get && !head)
        return say(http::status::method_not_allowed, "text/plain", "Only GET and HEAD.\n", false);
    if (path == STREAM && boost::beast::websocket::is_upgrade(request)) {
        const bool one = request.count(http::field::origin) == 1;
        const std::string_view origin = one ? view(request[http::field::origin]) : "";
        if (!mayAsk(target)) {
            refusal_ = "not authenticated: too many wrong tokens from its address";
            return say(http::status::too_many_requests, "text/plain", "Refused: too many wrong tokens from this address.\n",
                       head);
        }
        refusal_ = rules_.refusal(target, view(request[http::field::host]), origin);
        if (refusal_.empty())
            return true;
        noteGuess(target);
        return say(http::status::forbidden, "text/plain", "Refused: wrong token or origin.\n", head);
    }
    for (const WebFile &file : webFiles())
        if (path.substr(0, 1) == "/" && (path == "/" ? "index.html" : path.substr(1)) == file.name)
            return say(http::status::ok, file.type, file.content, head);
    return say(http::status::not_found, "text/plain", "Not found.\n", head);
}

// Whether its token is looked at.
bool HttpExchange::mayAsk(std::string_view target) const {
    return !guesses_ || rules_.tokenOf(target).empty() || guesses_->allowed(address_, Guesses::Clock::now());
}

// A page without a token guesses nothing.
void HttpExchange::noteGuess(std::string_view target) {
    if (guesses_ && refusal_ == WRONG_TOKEN && !rules_.tokenOf(target).empty())
        guesses_->failed(address_, Guesses::Clock::now());
}

bool HttpExchange::say(http::status status, std::string_view type, std::string_view body, bool head) {
    response_.result(status);
    response_.set(http::field::content_type, boost::beast::string_view(type.data(), type.size()));
    response_.content_length(body.size());
    response_.set(http::field::connection, "close");
    response_.set(http::field::cache_control, "no-store");
    response_.set("Content-Security-Policy", POLICY);
    response_.set("X-Content-Type-Options", "nosniff");
    response_.set("Referrer-Policy", "no-referrer");
    response_.set("Cross-Origin-Opener-Policy", "same-origin");
    response_.set("Cross-Origin-Resource-Policy", "same-origin");
    if (!head)
        response_.body() = body;
    return false;
}

} // namespace diffstream
