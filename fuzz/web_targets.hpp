// A browser's requests and WebSocket frames on arbitrary bytes, for the libFuzzer program and for the tests.
//
// First byte of an input: bit 0: a WebSocket whose frames are the rest, otherwise an HTTP request; bits 1..3, n: the input
// arrives in reads of at most 4^n bytes; bit 4: the other end accepts 100 bytes at a time.
#pragma once

#include "diffstream/web/http_exchange.hpp"
#include "diffstream/web/websocket.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <regex>
#include <string>

#include <sys/socket.h>
#include <unistd.h>

namespace fuzz {

using diffstream::Connection;
using diffstream::ErrorCode;
using diffstream::HttpExchange;
using diffstream::WebSocket;

// A page, and the connection that it has with the sender: two ends of a pair of sockets, which step() lets go on.
class Page {
  public:
    std::string input, output; // what the page is still to send, what it has received
    size_t most_in = SIZE_MAX, most_out = SIZE_MAX;
    bool ends = false; // after the input

    Page() {
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_) != 0)
            std::abort();
    }
    ~Page() { ::close(ends_[1]); }
    Page(const Page &) = delete;
    Page &operator=(const Page &) = delete;

    // The sender's end, once.
    template<class End, class... More>
    std::shared_ptr<End> open(More... more) {
        diffstream::tcp::socket socket(io_);
        socket.assign(diffstream::tcp::v4(), ends_[0]);
        return std::make_shared<End>(std::move(socket), "memory", nullptr, io_.get_executor(), more...);
    }

    // Sends, works and receives as much as is possible now. Returns false if that is nothing. Throws what handlers throw.
    bool step() {
        const ssize_t sent = ::send(ends_[1], input.data(), std::min(input.size(), most_in), MSG_NOSIGNAL);
        input.erase(0, sent > 0 ? static_cast<size_t>(sent) : 0);
        const bool end = ends && input.empty();
        if (end)
            ::shutdown(ends_[1], SHUT_WR);
        ends = ends && !end;
        io_.restart();
        const bool worked = io_.poll() > 0;
        char buffer[65536];
        const ssize_t n = ::recv(ends_[1], buffer, std::min(sizeof buffer, most_out), 0);
        output.append(buffer, n > 0 ? static_cast<size_t>(n) : 0);
        return worked || sent > 0 || n > 0 || end;
    }
    void settle() {
        while (step()) {
        }
    }

  private:
    int ends_[2];
    boost::asio::io_context io_;
};

inline const std::string UPGRADE =
    "GET /live HTTP/1.1\r\nHost: localhost:1\r\nOrigin: http://localhost:1\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Version: 13\r\n\r\n";

// Whether the request is of a page at a loopback address, by another way than that of HttpExchange.
inline bool isOfLoopback(const std::string &request) {
    static const std::regex form(
        R"(\r\nhost:[ \t]*(?:localhost|127(?:\.[0-9]{1,3}){3}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?[ \t]*\r\n)",
        std::regex::icase);
    return std::regex_search(request, form);
}

// What the page's request leads to: "watching", its answer, or "nothing".
inline std::string ask(HttpExchange &exchange, Page &page) {
    const auto connection = page.open<Connection>();
    bool watching = false, answered = false;
    exchange.read(*connection, [&](const ErrorCode &error, size_t) {
        watching = exchange.answer(*connection, error);
        if (!watching)
            exchange.write(*connection, [&](const ErrorCode &failed, size_t) {
                connection->check(failed);
                answered = true;
            });
    });
    page.settle();
    return watching ? "watching" : answered ? page.output : "nothing";
}

// Requires an answer, the stream or an error for whatever is asked, and the stream only for what the rules allow.
inline void visit(Page &page) {
    static const diffstream::WebRules rules{diffstream::WebSettings{}};
    HttpExchange exchange(rules);
    const std::string request = page.input, said = ask(exchange, page);
    if (said == "nothing" || (said == "watching" && !isOfLoopback(request)))
        std::abort();
}

// The viewer of a page that has sent UPGRADE.
inline std::shared_ptr<WebSocket> webSocketOf(Page &page) {
    HttpExchange::Parser parser;
    ErrorCode error;
    parser.eager(true);
    parser.put(boost::asio::buffer(UPGRADE), error);
    auto socket = page.open<WebSocket>("video");
    socket->accept(parser.get(), [socket](const ErrorCode &failed, size_t) { socket->check(failed); });
    return socket;
}

// Requires bounded memory of a page that sends anything while it is sent a stream.
inline void webSocket(Page &page) {
    const auto socket = webSocketOf(page);
    const std::string stream(5000, 'x');
    char buffer[4096];
    bool reading = false, writing = false;
    size_t sent = 0, answers = 0;
    for (int i = 0; i < 20000 && (!page.input.empty() || i < 10); ++i) {
        page.step();
        if (socket->room() > 0 && !std::exchange(reading, true))
            socket->read(boost::asio::buffer(buffer), [&](const ErrorCode &error, size_t n) {
                socket->check(error);
                reading = n > sizeof buffer;
                if (reading)
                    std::abort();
            });
        const size_t n = std::min(stream.size(), socket->room());
        if (n > 0 && !std::exchange(writing, true)) {
            sent += n;
            socket->write(boost::asio::buffer(stream.data(), n), [&](const ErrorCode &error, size_t) {
                socket->check(error);
                writing = false;
            });
        }
        answers += WebSocket::MESSAGES * 127; // pongs
        if (page.output.size() > 2 * sent + 2000 + answers)
            std::abort();
        socket->nextFrame();
        page.output.erase(0, page.output.size() / 2);
    }
    socket->finish();
    page.settle();
}

inline void web(const uint8_t *data, size_t size) {
    if (size == 0)
        return;
    Page page;
    page.input.assign(reinterpret_cast<const char *>(data) + 1, size - 1);
    page.most_in = size_t{1} << (2 * (data[0] >> 1 & 7));
    page.ends = true;
    if (data[0] & 16)
        page.most_out = 100;
    try {
        if (data[0] & 1)
            webSocket(page);
        else
            visit(page);
    } catch (const diffstream::NetError &) {
        // which ends the connection
    }
}

} // namespace fuzz
