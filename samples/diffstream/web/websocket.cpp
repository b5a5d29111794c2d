#include "diffstream/web/websocket.hpp"

#include <boost/beast/websocket.hpp>

#include <algorithm>
#include <cstdlib>

namespace diffstream {

namespace websocket = boost::beast::websocket;

namespace {

const ErrorCode FLOOD = asio::error::message_size; // as Connection says where sees() does not allow it
const ErrorCode WRONG_COUNT = asio::error::invalid_argument;

} // namespace

size_t FrameCounter::count(const uint8_t *bytes, size_t n) {
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

WebSocket::WebSocket(tcp::socket socket, std::string name, const Tls *tls, executor_type executor, const char *source)
    : Connection(std::move(socket), std::move(name), tls, std::move(executor)), socket_(*this), source_(source) {
    socket_.binary(true);
    socket_.auto_fragment(false);
    socket_.read_message_max(MESSAGE);
}

bool WebSocket::sees(const uint8_t *bytes, size_t n) {
    const size_t begun = accepted_ ? counter_.count(bytes, n) : 0;
    const bool allowed = begun <= allowed_;
    allowed_ -= allowed ? begun : 0;
    return allowed;
}

void WebSocket::accept(const HttpExchange::Parser::value_type &request, Handler handler) {
    socket_.async_accept(request, [this, handler = std::move(handler)](const ErrorCode &error) {
        accepted_ = !error;
        handler(error, 0);
    });
}

// What the page sends: binary messages for the sender, text messages with numbers of bytes.
void WebSocket::read(asio::mutable_buffer buffer, Handler handler) {
    socket_.async_read_some(buffer, [this, buffer, handler = std::move(handler)](const ErrorCode &error, size_t n) {
        if (error || socket_.got_binary())
            handler(error, n);
        else
            handler(takeText(static_cast<const char *>(buffer.data()), n), 0);
    });
}

ErrorCode WebSocket::takeText(const char *bytes, size_t n) {
    constexpr size_t MAX_DIGITS = 19;
    text_.append(bytes, n);
    const bool digits = text_.size() <= MAX_DIGITS && text_.find_first_not_of("0123456789") == std::string::npos;
    if (digits && !socket_.is_message_done())
        return {};
    const uint64_t count = digits && !text_.empty() ? std::strtoull(text_.c_str(), nullptr, 10) : UINT64_MAX;
    if (count < decoded_ || count > sent_)
        return WRONG_COUNT;
    decoded_ = count;
    text_.clear();
    return {};
}

size_t WebSocket::room() const {
    return accepted_ ? std::min<uint64_t>(MESSAGE, WINDOW - (sent_ - decoded_)) : 0;
}

void WebSocket::write(asio::const_buffer buffer, Handler handler) {
    sent_ += buffer.size();
    // The page will say that it has decoded these.
    unsaid_ += buffer.size();
    allowed_ = std::min(allowed_ + unsaid_ / ACKNOWLEDGE, MAX_ALLOWED);
    unsaid_ %= ACKNOWLEDGE;
    socket_.async_write(buffer, std::move(handler));
}

void WebSocket::nextFrame() {
    allowed_ = std::max(allowed_, MESSAGES);
}

void WebSocket::finish() {
    if (!accepted_)
        return Connection::finish();
    socket_.async_close({websocket::close_code::normal, source_},
                        [this, self = shared_from_this()](const ErrorCode & /*error*/) { Connection::finish(); });
}

void WebSocket::check(const ErrorCode &error) {
    if (error == websocket::error::closed)
        throw NetError("the other end closed the connection");
    if (error == FLOOD)
        throw NetError("WebSocket: the page floods the sender with messages");
    if (error == WRONG_COUNT)
        throw NetError("WebSocket: the page says how many bytes it has decoded, but that cannot be");
    if (error && error.category() == ErrorCode(websocket::error::closed).category())
        throw NetError("WebSocket: " + error.message());
    Connection::check(error);
}

} // namespace diffstream
