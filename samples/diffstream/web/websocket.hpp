// A browser's viewer: live video in a WebSocket.
#pragma once

#include "diffstream/net/connection.hpp"
#include "diffstream/web/http_exchange.hpp"

#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/role.hpp>
#include <boost/beast/websocket/stream.hpp>

#include <array>
#include <memory>
#include <string>

namespace diffstream {

// Counts the WebSocket frames that begin in a stream of bytes, of every kind: Beast tells of no empty ones.
class FrameCounter {
  public:
    size_t count(const uint8_t *bytes, size_t n);

  private:
    std::array<uint8_t, 14> header_{};
    size_t fill_ = 0;
    uint64_t payload_ = 0; // what is left of it
};

// Carries the stream's bytes in binary messages of any size. The page says in text messages how many bytes it has decoded, each
// time that it has decoded ACKNOWLEDGE more, and at most WINDOW are on their way: a browser reads a WebSocket without end, whether or
// not its page keeps up. Of WebSocket frames of any kind, pings and empty ones too, a page may send MESSAGES between two frames of the
// video, besides those texts.
class WebSocket : public Connection {
  public:
    static constexpr size_t WINDOW = 1 << 20, MESSAGE = 1 << 16, ACKNOWLEDGE = 1 << 15;
    static constexpr size_t MESSAGES = 64; // as of a native viewer

    // `source`: what has ended when the socket is closed, which the page says.
    WebSocket(tcp::socket socket, std::string name, const Tls *tls, executor_type executor, const char *source);

    // Accepts this request; read() and write() are for afterwards.
    void accept(const HttpExchange::Parser::value_type &request, Handler handler);
    void read(asio::mutable_buffer buffer, Handler handler) override;
    void write(asio::const_buffer buffer, Handler handler) override;
    size_t room() const override;
    void nextFrame() override;
    void finish() override;
    void check(const ErrorCode &error) override;

  private:
    static constexpr size_t MAX_ALLOWED = MESSAGES + WINDOW / ACKNOWLEDGE;

    bool sees(const uint8_t *bytes, size_t n) override;
    ErrorCode takeText(const char *bytes, size_t n);

    boost::beast::websocket::stream<Connection &> socket_;
    const char *const source_;
    bool accepted_ = false;
    std::string text_;                // of a text message that is not complete
    uint64_t sent_ = 0, decoded_ = 0; // bytes given to write(); bytes that the page has decoded
    FrameCounter counter_;
    size_t allowed_ = MESSAGES, unsaid_ = 0; // frames that the page may still send; bytes that it will say it has decoded
};

// Beast asks for these at the end of a stream. The socket is closed elsewhere.
inline void beast_close_socket(Connection & /*connection*/) {}
inline void teardown(boost::beast::role_type /*role*/, Connection & /*connection*/, ErrorCode & /*error*/) {}
template<class Done>
void async_teardown(boost::beast::role_type /*role*/, Connection &connection, Done &&done) {
    asio::post(connection.get_executor(), boost::beast::bind_front_handler(std::forward<Done>(done), ErrorCode()));
}

} // namespace diffstream
