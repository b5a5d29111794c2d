#include "diffstream/web/visit.hpp"

#include "common/app.hpp"
#include "diffstream/net/secret.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include <algorithm>
#include <sstream>

#include <sys/random.h>

namespace diffstream {

namespace http = boost::beast::http;

namespace {

constexpr const char *STREAM = "/live"; // what a WebSocket asks for

// Everything that a page may do, in one place: its own files and the stream, no script in the page itself.
constexpr const char *POLICY =
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; worker-src 'self'; media-src blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

std::string_view view(boost::beast::string_view text) {
    return {text.data(), text.size()};
}

// The host of "host", "host:port" or "[::1]:port".
std::string_view hostOf(std::string_view authority) {
    if (!authority.empty() && authority[0] == '[')
        return authority.substr(0, authority.find(']') + 1);
    return authority.substr(0, authority.find(':'));
}

bool isLoopbackName(std::string_view host) {
    const bool digits = host.find_first_not_of("0123456789.") == std::string_view::npos;
    return host == "localhost" || host == "[::1]" || (digits && host.substr(0, 4) == "127.");
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

std::string readToken(const std::string &file) {
    constexpr size_t LEAST = 16, MOST = 128;
    const Secret secret("--web-token", file, MOST + 2);
    std::string token(secret.begin(), secret.end());
    while (!token.empty() && (token.back() == '\n' || token.back() == '\r'))
        token.pop_back();
    const bool plain =
        std::all_of(token.begin(), token.end(), [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
    if (!plain || token.size() < LEAST || token.size() > MOST)
        throw sample::Stop(sample::USAGE, "--web-token " + file +
                                              sample::text(": expected %zu to %zu letters, digits, - or _, as written by "
                                                           "`openssl rand -hex 32`",
                                                           LEAST, MOST));
    return token;
}

} // namespace

std::string webProblem() {
    return "";
}

// ---- Who may watch -----------------------------------------------------------------------------------------------------

WebRules::WebRules(const WebSettings &settings) : tls_(settings.tls()) {
    if (!settings.token_file.empty())
        token_ = readToken(settings.token_file);
    else if (tls_)
        token_ = randomToken();
}

std::string WebRules::address(const Address &listening) const {
    return (tls_ ? "https://" : "http://") + listening.text() + "/" + (token_.empty() ? "" : "#token=" + token_);
}

std::string WebRules::refusal(std::string_view target, std::string_view host, std::string_view origin) const {
    const std::string own = (tls_ ? "https://" : "http://") + std::string(host);
    if (host.empty() || origin != own)
        return "the page's origin is '" + std::string(origin) + "', expected '" + own + "'";
    if (token_.empty())
        return isLoopbackName(hostOf(host))
                   ? ""
                   : "without a token, the page's host must be a loopback name, not '" + std::string(host) + "'";
    const std::string_view key = "?token=";
    const size_t at = target.find(key);
    return sameSecret(at == std::string_view::npos ? "" : target.substr(at + key.size()), token_)
               ? ""
               : "not authenticated: wrong token";
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
        if (error || !parser.is_done() || request.version() != 11) {
            refusal_ = "a request that is no HTTP/1.1";
            answer(400, "text/plain", "Bad request.\n", false);
        } else if (request.method() != http::verb::get && !head) {
            answer(405, "text/plain", "Only GET and HEAD.\n", false);
        } else if (path == STREAM && boost::beast::websocket::is_upgrade(request)) {
            refusal_ = rules_.refusal(target, view(request[http::field::host]), view(request[http::field::origin]));
            if (refusal_.empty())
                return State::WATCHING;
            answer(403, "text/plain", "Refused: wrong token or origin.\n", head);
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
