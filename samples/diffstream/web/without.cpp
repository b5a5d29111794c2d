// A build without what web/ needs: --web is refused, so the rest is never called.
#include "diffstream/web/visit.hpp"
#include "diffstream/web/websocket.hpp"

namespace diffstream {

std::string webProblem() {
    return CUSIGHT_WITHOUT_WEB;
}

const std::vector<WebFile> &webFiles() {
    static const std::vector<WebFile> none;
    return none;
}

WebRules::WebRules(const WebSettings &settings) : tls_(settings.tls()) {}

std::string WebRules::address(const Address & /*listening*/, bool /*with_token*/) const {
    return token_;
}

Visit::State Visit::advance(Transport & /*connection*/) {
    throw NetError(webProblem());
}

struct WebSocket::State {
    std::unique_ptr<Transport> connection;
};

std::shared_ptr<WebContext> makeWebContext(const char * /*source*/) {
    return nullptr;
}

WebSocket::WebSocket(std::shared_ptr<WebContext> /*context*/, std::unique_ptr<Transport> connection,
                     const std::string & /*request*/)
    : state_(std::make_shared<State>(State{std::move(connection)})) {
    throw NetError(webProblem());
}

WebSocket::~WebSocket() = default;

size_t WebSocket::read(void *data, size_t bytes) {
    return state_->connection->read(data, bytes);
}

size_t WebSocket::write(const void *data, size_t bytes) {
    return state_->connection->write(data, bytes);
}

bool WebSocket::flushed() const {
    return state_->connection->flushed();
}

void WebSocket::nextFrame() {}

void WebSocket::shutdown() {
    state_->connection->shutdown();
}

int WebSocket::socket() const {
    return state_->connection->socket();
}

short WebSocket::events(bool writing) const {
    return state_->connection->events(writing);
}

const std::string &WebSocket::name() const {
    return state_->connection->name();
}

} // namespace diffstream
