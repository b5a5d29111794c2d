#include "diffstream/web/websocket.hpp"

#include "diffstream/net/tls.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/role.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace diffstream {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using ErrorCode = boost::system::error_code;

struct WebContext {
    asio::io_context io{1};
    const char *source = "";
};

std::shared_ptr<WebContext> makeWebContext(const char *source) {
    auto context = std::make_shared<WebContext>();
    context->source = source;
    return context;
}

namespace {

// An operation of Beast that waits until the connection has bytes or accepts some.
class Operation {
  public:
    Operation() = default;
    virtual ~Operation() = default;
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;
    // Returns false if it still waits. Throws NetError.
    virtual bool attempt(Transport &connection) = 0;
};

template<class Handler, class Buffers, class Move>
class Waiting : public Operation {
  public:
    Waiting(asio::io_context &io, Handler handler, const Buffers &buffers, Move move)
        : io_(io), handler_(std::move(handler)), buffers_(buffers), move_(move) {}
    bool attempt(Transport &connection) override {
        size_t moved = 0;
        for (auto b = asio::buffer_sequence_begin(buffers_); b != asio::buffer_sequence_end(buffers_) && moved == 0; ++b) {
            const auto buffer = *b;
            moved = buffer.size() > 0 ? move_(connection, buffer) : 0;
        }
        if (moved == 0 && asio::buffer_size(buffers_) > 0)
            return false;
        asio::post(io_, beast::bind_front_handler(std::move(handler_), ErrorCode(), moved));
        return true;
    }

  private:
    asio::io_context &io_;
    Handler handler_;
    Buffers buffers_;
    Move move_;
};

// Counts the WebSocket frames that begin in a stream of bytes, of every kind: Beast tells of no empty ones.
class FrameCounter {
  public:
    size_t count(const uint8_t *bytes, size_t n) {
        size_t begun = 0;
        for (size_t i = 0; i < n;) {
            if (payload_ > 0) {
                const auto skipped = static_cast<size_t>(std::min<uint64_t>(payload_, n - i));
                payload_ -= skipped;
                i += skipped;
                continue;
            }
            begun += fill_ == 0;
            header_[fill_++] = bytes[i++];
            const unsigned length = header_[1] & 127;
            const size_t extended = length == 127 ? 8 : length == 126 ? 2 : 0, mask = header_[1] & 128 ? 4 : 0;
            if (fill_ < 2 || fill_ < 2 + extended + mask)
                continue;
            payload_ = extended ? 0 : length;
            for (size_t k = 0; k < extended; ++k)
                payload_ = payload_ << 8 | header_[2 + k];
            fill_ = 0;
        }
        return begun;
    }

  private:
    std::array<uint8_t, 14> header_{};
    size_t fill_ = 0;
    uint64_t payload_ = 0; // what is left of it
};

// How many WebSocket frames a page may still send.
class Allowance {
  public:
    void received(const uint8_t *bytes, size_t n) {
        const size_t begun = counter_.count(bytes, n);
        if (begun > left_)
            throw NetError("WebSocket: the page floods the sender with messages");
        left_ -= begun;
    }
    // The page will say that it has decoded these.
    void sent(size_t bytes) {
        unsaid_ += bytes;
        left_ = std::min(left_ + unsaid_ / WebSocket::ACKNOWLEDGE, MAX_LEFT);
        unsaid_ %= WebSocket::ACKNOWLEDGE;
    }
    void nextFrame() { left_ = std::max(left_, WebSocket::MESSAGES); }

  private:
    static constexpr size_t MAX_LEFT = WebSocket::MESSAGES + WebSocket::WINDOW / WebSocket::ACKNOWLEDGE;
    FrameCounter counter_;
    size_t left_ = WebSocket::MESSAGES, unsaid_ = 0;
};

// A Transport as a stream that Beast reads from and writes to.
class Stream {
  public:
    using executor_type = asio::io_context::executor_type;
    Stream(asio::io_context &io, Transport &connection) : io_(io), connection_(connection) {}
    Allowance &allowance() { return allowance_; }
    executor_type get_executor() const noexcept { return io_.get_executor(); }

    template<class Buffers, class Handler>
    auto async_read_some(const Buffers &buffers, Handler &&handler) {
        return start(reading_, buffers, handler, [this](Transport &t, const asio::mutable_buffer &b) {
            const size_t n = t.read(b.data(), b.size());
            allowance_.received(static_cast<const uint8_t *>(b.data()), n);
            return n;
        });
    }
    template<class Buffers, class Handler>
    auto async_write_some(const Buffers &buffers, Handler &&handler) {
        return start(writing_, buffers, handler,
                     [](Transport &t, const asio::const_buffer &b) { return t.write(b.data(), b.size()); });
    }

    // Tries the operations that wait. Returns whether one was completed. Throws NetError.
    bool resume() {
        bool completed = false;
        for (std::unique_ptr<Operation> *slot : {&reading_, &writing_})
            if (*slot && (*slot)->attempt(connection_)) {
                slot->reset();
                completed = true;
            }
        return completed;
    }
    bool writing() const { return writing_ != nullptr; }

  private:
    template<class Buffers, class Handler, class Move>
    auto start(std::unique_ptr<Operation> &slot, const Buffers &buffers, Handler &handler, Move move) {
        return asio::async_initiate<Handler, void(ErrorCode, size_t)>(
            [this, &slot, &buffers, move](auto &&completion) {
                using Completion = std::decay_t<decltype(completion)>;
                slot = std::make_unique<Waiting<Completion, Buffers, Move>>(
                    io_, std::forward<decltype(completion)>(completion), buffers, move);
            },
            handler);
    }

    asio::io_context &io_;
    Transport &connection_;
    Allowance allowance_;
    std::unique_ptr<Operation> reading_, writing_;
};

// Beast asks for these at the end of a stream. The socket is closed elsewhere.
[[maybe_unused]] void beast_close_socket(Stream & /*stream*/) {}
[[maybe_unused]] void teardown(beast::role_type /*role*/, Stream & /*stream*/, ErrorCode & /*error*/) {}
template<class Handler>
void async_teardown(beast::role_type /*role*/, Stream &stream, Handler &&handler) {
    asio::post(stream.get_executor(), beast::bind_front_handler(std::forward<Handler>(handler), ErrorCode()));
}

constexpr int STEPS = 32; // of Beast in one call, so that no page occupies the thread

} // namespace

struct WebSocket::State {
    State(std::shared_ptr<WebContext> c, std::unique_ptr<Transport> t)
        : context(std::move(c)), connection(std::move(t)), socket(context->io, *connection) {}

    std::shared_ptr<WebContext> context;
    std::unique_ptr<Transport> connection;
    websocket::stream<Stream, false> socket;
    std::array<uint8_t, 4096> piece{};
    std::vector<uint8_t> received, out;
    std::string text;               // of a text message that is not complete
    uint64_t sent = 0, decoded = 0; // bytes given to write(); bytes that the page has decoded
    bool accepted = false, reading = false, writing = false;
    std::string failure;

    void fail(const ErrorCode &error) {
        if (failure.empty())
            failure =
                error == websocket::error::closed ? "the other end closed the connection" : "WebSocket: " + error.message();
    }

    // Does what can be done without waiting. Throws NetError.
    void drive() {
        for (int i = 0; i < STEPS && failure.empty(); ++i) {
            const bool resumed = socket.next_layer().resume();
            context->io.restart();
            if (context->io.poll() == 0 && !resumed)
                break;
        }
        if (!failure.empty())
            throw NetError(failure);
    }

    // What the page sends: binary messages for the sender, text messages with numbers of bytes.
    void take(size_t bytes) {
        if (socket.got_binary()) {
            received.insert(received.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(bytes));
            return;
        }
        constexpr size_t MAX_DIGITS = 19;
        text.append(reinterpret_cast<const char *>(piece.data()), bytes);
        const bool digits = text.size() <= MAX_DIGITS && text.find_first_not_of("0123456789") == std::string::npos;
        if (digits && !socket.is_message_done())
            return;
        const uint64_t count = digits && !text.empty() ? std::strtoull(text.c_str(), nullptr, 10) : UINT64_MAX;
        if (count < decoded || count > sent)
            failure = "WebSocket: the page says how many bytes it has decoded, but that cannot be";
        decoded = count;
        text.clear();
    }
};

WebSocket::WebSocket(std::shared_ptr<WebContext> context, std::unique_ptr<Transport> connection, const std::string &request)
    : state_(std::make_shared<State>(std::move(context), std::move(connection))) {
    State &s = *state_;
    http::request_parser<http::empty_body> parser;
    ErrorCode error;
    parser.eager(true);
    parser.put(asio::buffer(request), error);
    s.socket.binary(true);
    s.socket.auto_fragment(false);
    s.socket.read_message_max(MESSAGE);
    s.socket.async_accept(parser.get(), [weak = std::weak_ptr<State>(state_)](const ErrorCode &accept_error) {
        if (const auto state = weak.lock()) {
            state->accepted = !accept_error;
            if (accept_error)
                state->fail(accept_error);
        }
    });
}

WebSocket::~WebSocket() = default;

size_t WebSocket::read(void *data, size_t bytes) {
    State &s = *state_;
    const auto onPiece = [weak = std::weak_ptr<State>(state_)](const ErrorCode &error, size_t n) {
        if (const auto state = weak.lock()) {
            state->reading = false;
            if (error)
                state->fail(error);
            else
                state->take(n);
        }
    };
    // Text messages are used up here, so several may follow each other.
    for (int i = 0; i < STEPS && s.received.empty(); ++i) {
        if (s.accepted && !std::exchange(s.reading, true))
            s.socket.async_read_some(asio::buffer(s.piece), onPiece);
        s.drive();
        if (!s.accepted || s.reading)
            break;
    }
    const size_t n = std::min(bytes, s.received.size());
    std::copy_n(s.received.begin(), n, static_cast<uint8_t *>(data));
    s.received.erase(s.received.begin(), s.received.begin() + static_cast<ptrdiff_t>(n));
    return n;
}

size_t WebSocket::write(const void *data, size_t bytes) {
    State &s = *state_;
    s.drive();
    const uint64_t on_their_way = s.sent - s.decoded;
    if (!s.accepted || s.writing || on_their_way >= WINDOW)
        return 0;
    const size_t n = std::min({bytes, MESSAGE, static_cast<size_t>(WINDOW - on_their_way)});
    s.out.assign(static_cast<const uint8_t *>(data), static_cast<const uint8_t *>(data) + n);
    s.sent += n;
    s.socket.next_layer().allowance().sent(n);
    s.writing = true;
    s.socket.async_write(asio::buffer(s.out), [weak = std::weak_ptr<State>(state_)](const ErrorCode &error, size_t /*n*/) {
        if (const auto state = weak.lock()) {
            state->writing = false;
            if (error)
                state->fail(error);
        }
    });
    s.drive();
    return n;
}

bool WebSocket::flushed() const {
    return !state_->writing;
}

void WebSocket::nextFrame() {
    state_->socket.next_layer().allowance().nextFrame();
}

void WebSocket::shutdown() {
    State &s = *state_;
    try {
        s.socket.async_close({websocket::close_code::normal, s.context->source}, [](const ErrorCode & /*error*/) {});
        s.drive();
    } catch (const NetError &) {
        // the other end has gone
    }
    s.connection->shutdown();
}

int WebSocket::socket() const {
    return state_->connection->socket();
}

// Not for what the page must decode first: its answer is input.
short WebSocket::events(bool /*writing*/) const {
    return state_->connection->events(state_->socket.next_layer().writing());
}

const std::string &WebSocket::name() const {
    return state_->connection->name();
}

} // namespace diffstream
