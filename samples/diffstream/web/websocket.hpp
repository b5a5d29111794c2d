// A browser's viewer: live video in a WebSocket.
#pragma once

#include "diffstream/net/transport.hpp"

#include <memory>
#include <string>

namespace diffstream {

// What the WebSockets of one thread share.
struct WebContext;
// `source`: what has ended when a socket is closed, which the page says.
std::shared_ptr<WebContext> makeWebContext(const char *source = "video");

// Carries the stream's bytes in binary messages of any size. The page says in text messages how many bytes it has decoded, each
// time that it has decoded ACKNOWLEDGE more, and at most WINDOW are on their way: a browser reads a WebSocket without end, whether or
// not its page keeps up. Of WebSocket frames of any kind, pings and empty ones too, a page may send MESSAGES between two frames of the
// video, besides those texts.
class WebSocket : public Transport {
  public:
    static constexpr size_t WINDOW = 1 << 20, MESSAGE = 1 << 16, ACKNOWLEDGE = 1 << 15;
    static constexpr size_t MESSAGES = 64; // as of a native viewer

    // Accepts the request (its bytes) that came through `connection`.
    WebSocket(std::shared_ptr<WebContext> context, std::unique_ptr<Transport> connection, const std::string &request);
    ~WebSocket() override;

    size_t read(void *data, size_t bytes) override;
    size_t write(const void *data, size_t bytes) override;
    bool flushed() const override;
    void nextFrame() override;
    void shutdown() override;
    int socket() const override;
    short events(bool writing) const override;
    const std::string &name() const override;

  private:
    struct State;
    std::shared_ptr<State> state_; // Beast's handlers may outlive the object, and have weak pointers to it
};

} // namespace diffstream
