// A browser's requests and WebSocket frames on arbitrary bytes, for the libFuzzer program and for the tests.
//
// First byte of an input: bit 0: a WebSocket whose frames are the rest, otherwise an HTTP request; bits 1..3, n: the input
// arrives in reads of at most 4^n bytes; bit 4: the other end accepts 100 bytes at a time.
#pragma once

#include "diffstream/net/tls.hpp"
#include "diffstream/web/visit.hpp"
#include "diffstream/web/websocket.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <regex>
#include <string>

namespace fuzz {

// Both ends in memory.
class MemoryTransport : public diffstream::Transport {
  public:
    std::string input, output;
    size_t most_in = SIZE_MAX, most_out = SIZE_MAX;
    bool ends = false; // after the input

    size_t read(void *data, size_t bytes) override {
        const size_t n = std::min({bytes, most_in, input.size()});
        if (n == 0 && ends)
            throw diffstream::NetError("the other end closed the connection");
        std::memcpy(data, input.data(), n);
        input.erase(0, n);
        return n;
    }
    size_t write(const void *data, size_t bytes) override {
        const size_t n = std::min(bytes, most_out);
        output.append(static_cast<const char *>(data), n);
        return n;
    }
    void shutdown() override {}
    int socket() const override { return -1; }
    short events(bool /*writing*/) const override { return 0; }
    const std::string &name() const override { return name_; }

  private:
    std::string name_ = "memory";
};

inline const std::string UPGRADE =
    "GET /live HTTP/1.1\r\nHost: localhost:1\r\nOrigin: http://localhost:1\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Version: 13\r\n\r\n";

// Whether the request is of a page at a loopback address, by another way than Visit's.
inline bool isOfLoopback(const std::string &request) {
    static const std::regex form(
        R"(\r\nhost:[ \t]*(?:localhost|127(?:\.[0-9]{1,3}){3}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?[ \t]*\r\n)",
        std::regex::icase);
    return std::regex_search(request, form);
}

// Requires an answer, the stream or an error for whatever is asked, and the stream only for what the rules allow.
inline void visit(MemoryTransport &transport) {
    static const diffstream::WebRules rules{diffstream::WebSettings{}};
    diffstream::Visit visit(rules);
    diffstream::Visit::State state = diffstream::Visit::State::PENDING;
    for (int i = 0; i < 100000 && state == diffstream::Visit::State::PENDING; ++i)
        state = visit.advance(transport);
    if (state == diffstream::Visit::State::PENDING ||
        (state == diffstream::Visit::State::WATCHING && !isOfLoopback(visit.request())))
        std::abort();
}

// Requires bounded memory of a page that sends anything while it is sent a stream.
inline void webSocket(std::unique_ptr<MemoryTransport> owned) {
    MemoryTransport &transport = *owned;
    diffstream::WebSocket socket(diffstream::makeWebContext(), std::move(owned), UPGRADE);
    const std::string stream(5000, 'x');
    size_t sent = 0, answers = 0;
    for (int i = 0; i < 20000 && (!transport.input.empty() || i < 10); ++i) {
        char buffer[4096];
        if (socket.read(buffer, sizeof buffer) > sizeof buffer)
            std::abort();
        const size_t n = socket.write(stream.data(), stream.size());
        sent += n;
        answers += diffstream::WebSocket::MESSAGES * 127; // pongs
        if (n > stream.size() || transport.output.size() > 2 * sent + 2000 + answers)
            std::abort();
        socket.nextFrame();
        transport.output.erase(0, transport.output.size() / 2);
    }
    socket.shutdown();
}

inline void web(const uint8_t *data, size_t size) {
    if (size == 0)
        return;
    auto transport = std::make_unique<MemoryTransport>();
    transport->input.assign(reinterpret_cast<const char *>(data) + 1, size - 1);
    transport->most_in = size_t{1} << (2 * (data[0] >> 1 & 7));
    transport->ends = true;
    if (data[0] & 16)
        transport->most_out = 100;
    try {
        if (data[0] & 1)
            webSocket(std::move(transport));
        else
            visit(*transport);
    } catch (const diffstream::NetError &) {
        // which ends the connection
    }
}

} // namespace fuzz
