#include "diffstream/web/visit.hpp"

#include "common/app.hpp"
#include "common/output.hpp"
#include "diffstream/net/secret.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include <algorithm>
#include <cerrno>
#include <cctype>
#include <cstring>
#include <sstream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/random.h>
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
    in_addr four = {};
    in6_addr six = {};
    return host == "localhost" || (::inet_pton(AF_INET, host.c_str(), &four) == 1 && ntohl(four.s_addr) >> 24 == 127) ||
           (::inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six));
}

// Takes the same time wherever the texts differ.
bool sameSecret(std::string_view a, std::string_view b) {
    unsigned difference = a.size() != b.size();
    for (size_t i = 0; i < a.size() && i < b.size(); ++i)
        difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
    return difference == 0;
}

std::string randomToken() {
    unsigned char bytes[16];
    if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
        throw sample::Stop(sample::FAILED, "no random bytes for a token");
    std::string token;
    for (const unsigned char byte : bytes)
        token += sample::text("%02x", byte);
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

std::string webProblem() {
    return "";
}

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

// Whether the header has ended; limits its size.
bool Visit::complete() {
    if (received_.find("\r\n\r\n") != std::string::npos)
        return true;
    if (received_.size() >= MAX_REQUEST)
        throw NetError("a request of more than 8192 bytes");
    return false;
}

Visit::State Visit::advance(Transport &connection) {
    if (answer_.empty()) {
        char buffer[MAX_REQUEST];
        const size_t n = connection.read(buffer, std::min(sizeof buffer, MAX_REQUEST - received_.size()));
        received_.append(buffer, n);
        if (!complete())
            return State::PENDING;
        http::request_parser<http::empty_body> parser;
        parser.header_limit(MAX_REQUEST);
        boost::system::error_code error;
        parser.eager(true);
        parser.put(boost::asio::buffer(received_), error);
        const auto &request = parser.get();
        const std::string_view target = view(request.target()), path = target.substr(0, target.find('?'));
        const bool head = request.method() == http::verb::head;
        if (error || !parser.is_done() || request.version() != 11 || request.count(http::field::host) != 1) {
            refusal_ = "a request that is no HTTP/1.1";
            answer(400, "text/plain", "Bad request.\n", false);
        } else if (request.method() != http::verb::get && !head) {
            answer(405, "text/plain", "Only GET and HEAD.\n", false);
        } else if (path == STREAM && boost::beast::websocket::is_upgrade(request)) {
            const bool one = request.count(http::field::origin) == 1;
            const std::string_view origin = one ? view(request[http::field::origin]) : "";
            if (!mayAsk(target)) {
                refusal_ = "not authenticated: too many wrong tokens from its address";
                answer(429, "text/plain", "Refused: too many wrong tokens from this address.\n", head);
            } else {
                refusal_ = rules_.refusal(target, view(request[http::field::host]), origin);
                if (refusal_.empty())
                    return State::WATCHING;
                noteGuess(target);
                answer(403, "text/plain", "Refused: wrong token or origin.\n", head);
            }
        } else {
            const auto &files = webFiles();
            const auto file = std::find_if(files.begin(), files.end(), [&](const WebFile &f) {
                return path.substr(0, 1) == "/" && (path == "/" ? "index.html" : path.substr(1)) == f.name;
            });
            if (file != files.end())
                answer(200, file->type, file->content, head);
            else
                answer(404, "text/plain", "Not found.\n", head);
        }
    }
    while (sent_ < answer_.size()) {
        const size_t n = connection.write(answer_.data() + sent_, answer_.size() - sent_);
        if (n == 0)
            return State::PENDING;
        sent_ += n;
    }
    return State::ANSWERED;
}

// Whether its token is looked at.
bool Visit::mayAsk(std::string_view target) const {
    return !guesses_ || rules_.tokenOf(target).empty() || guesses_->allowed(address_, Guesses::Clock::now());
}

// A page without a token guesses nothing.
void Visit::noteGuess(std::string_view target) {
    if (guesses_ && refusal_ == WRONG_TOKEN && !rules_.tokenOf(target).empty())
        guesses_->failed(address_, Guesses::Clock::now());
}

void Visit::answer(unsigned status, std::string_view type, std::string_view body, bool head) {
    http::response<http::empty_body> response{http::int_to_status(status), 11};
    response.set(http::field::content_type, boost::beast::string_view(type.data(), type.size()));
    response.content_length(body.size());
    response.set(http::field::connection, "close");
    response.set(http::field::cache_control, "no-store");
    response.set("Content-Security-Policy", POLICY);
    response.set("X-Content-Type-Options", "nosniff");
    response.set("Referrer-Policy", "no-referrer");
    response.set("Cross-Origin-Opener-Policy", "same-origin");
    response.set("Cross-Origin-Resource-Policy", "same-origin");
    std::ostringstream text;
    text << response.base();
    answer_ = text.str();
    if (!head)
        answer_.append(body);
}

} // namespace diffstream
