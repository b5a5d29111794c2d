#include "diffstream/broadcaster.hpp"

#include "diffstream/signals.hpp"
#include "diffstream/web/files.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <unistd.h>

namespace diffstream {

using cusight::check;

namespace {

constexpr size_t PIECE = 1 << 16;    // of the output that is written at once
constexpr double DRAIN_SECONDS = 10; // after the last frame, for viewers that still read

// Whether what is printed is read by a person, not kept in a log, which must have no secrets.
bool onTerminal() {
    return ::isatty(STDERR_FILENO) == 1;
}

} // namespace

Broadcaster::Broadcaster(const SendSettings &settings, cv::Size size, double rate, PackedQueue &packed, cusSender *sender,
                         SenderStats &stats, const Announce &listening)
    : settings_(settings), size_(size), rate_millihertz_(static_cast<uint32_t>(std::lround(rate * 1000))), packed_(packed),
      sender_(sender), stats_(stats) {
    if (!settings.session.empty())
        session_.open(std::make_unique<SessionFile>(settings.session, size, rate_millihertz_));
    open();
    const WebSettings &web = settings.web;
    const bool native = !settings.address.port.empty();
    const std::string page =
        web.any() ? web_rules_->address({web.address.host, std::to_string(pending_->port(native ? 1 : 0))}, onTerminal())
                  : "";
    listening(native ? pending_->port(0) : 0, page);
    start();
}

// Opens the native endpoint, if it has a port, then that for browsers.
void Broadcaster::open() {
    std::vector<Endpoint> endpoints;
    if (settings_.tls.any())
        tls_ = std::make_unique<Tls>(settings_.tls, true, "");
    if (!settings_.address.port.empty())
        endpoints.push_back({settings_.address, tls_.get(), nullptr});
    const WebSettings &web = settings_.web;
    if (web.any()) {
        if (!webProblem().empty())
            throw sample::Stop(sample::USAGE, "--web is not available: " + webProblem());
        if (web.tls() && web.token_file.empty() && !onTerminal())
            throw sample::Stop(sample::USAGE,
                               "--web-cert: expected --web-token-file too, since stderr is no terminal: the page's token "
                               "would be in a log");
        if (web.tls())
            web_tls_ = std::make_unique<Tls>(TlsFiles{"", web.certificate, web.private_key, "", true}, true, "");
        web_rules_ = std::make_unique<WebRules>(web);
        endpoints.push_back({web.address, web_tls_.get(), web_rules_.get(), web.source});
    }
    pending_ = std::make_unique<PendingConnections>(
        io_.get_executor(), endpoints, settings_.max_pending, log_, [this](const PendingConnections::Admitted &viewer) {
            asio::post(strand_, [this, viewer] { step([&] { admit(viewer); }); });
        });
}

// Two threads, so that frames and handshakes never delay each other.
void Broadcaster::start() {
    packed_.onChange([this] { asio::post(strand_, [this] { step([this] { sendFrames(); }); }); });
    asio::post(strand_, [this] { tick(); });
    const SignalsBlocked blocked;
    for (std::thread &thread : threads_)
        thread = std::thread([this] { io_.run(); });
}

Broadcaster::~Broadcaster() {
    io_.stop();
    join();
}

void Broadcaster::join() {
    for (std::thread &thread : threads_)
        if (thread.joinable())
            thread.join();
}

void Broadcaster::finish() {
    join();
    for (const std::exception_ptr &error : {error_, session_.error()})
        if (error)
            std::rethrow_exception(error);
}

// Some work on the strand, which must not fail.
template<class F>
void Broadcaster::step(F &&work) {
    const auto start = Clock::now();
    try {
        if (!io_.stopped())
            work();
        clients_.remove_if([](const Shared &client) { return client->over; });
    } catch (...) {
        error_ = std::current_exception();
        stop();
    }
    if (finishing_ && (clients_.empty() || secondsSince(end_) >= DRAIN_SECONDS))
        stop();
    SenderStats::add(stats_.send, secondsSince(start));
}

void Broadcaster::tick() {
    step([this] {
        forEachClient([this](const Shared &client) { look(*client); });
        sendFrames(); // the queue may have ended before start()
    });
    tick_.expires_after(std::chrono::milliseconds(100));
    tick_.async_wait([this](const ErrorCode & /*error*/) { tick(); });
}

void Broadcaster::sendFrames() {
    cusSentFrame frame;
    while (packed_.pop(frame)) {
        forEachClient([&](const Shared &client) {
            check(cusPeerOffer(client->peer, &frame));
            client->connection->nextFrame();
            transmit(client);
            look(*client);
        });
        session_.write(log_, [&](SessionFile &file) { file.write(frame); });
        check(cusSenderRelease(sender_));
        packed_.released();
    }
    if (packed_.ended() && !finishing_)
        sayBye();
}

// Says bye to all viewers, and gives those that still read the rest of their output. A connection is closed by its viewer: closed
// from here, what the viewer writes meanwhile would be answered with a reset, which discards what it has not read.
void Broadcaster::sayBye() {
    pending_->close();
    session_.finish([](SessionFile &file) { file.finish(); });
    finishing_.emplace();
    end_ = Clock::now();
    forEachClient([this](const Shared &client) {
        cusPeerFinish(client->peer);
        transmit(client);
    });
}

// Closes all connections, and waits for no more frames: nobody shall wait for what does not come.
void Broadcaster::stop() {
    for (const Shared &client : clients_)
        client->connection->close();
    clients_.clear();
    io_.stop();
    packed_.abandon();
    if (settings_.times)
        settings_.times->close();
}

// Drops a viewer that has left or is too slow, and notes what it waits for.
void Broadcaster::look(Client &client) {
    cusPeerInfo info = {};
    check(cusPeerQuery(client.peer, &info));
    watches(client, info.connected && !info.disconnected);
    if (info.wants_key_frame)
        key_frame_requested_ = true;
    if (info.disconnected)
        throw NetError("said goodbye");
    if (!info.connected && secondsSince(client.connected) > HELLO_SECONDS)
        throw NetError(sample::text("did not say hello within %.0f s", HELLO_SECONDS));
    if (client.waiting && secondsSince(client.progress) > settings_.timeout)
        throw NetError(sample::text("received nothing for %.0f s", settings_.timeout));
}

void Broadcaster::watches(Client &client, bool now) {
    stats_.viewers += now - std::exchange(client.watching, now);
}

template<class F>
void Broadcaster::forEachClient(F &&work) {
    for (const Shared &client : clients_)
        guarded(*client, [&] { work(client); });
}

// Does the work unless the connection is over. It is, if the work fails; the log says why, unless the viewer has all it was to get.
template<class F>
void Broadcaster::guarded(Client &client, F &&work) {
    std::string why;
    try {
        if (!client.over)
            work();
        return;
    } catch (const NetError &error) {
        why = client.ended ? "" : error.what();
    } catch (const cusight::Error &error) {
        why = error.message();
    }
    if (!why.empty())
        log_.line("viewer " + client.connection->name(), why);
    client.over = true;
    client.connection->close();
    watches(client, false);
}

// A handler of the connection's operations.
template<class F>
Handler Broadcaster::on(const Shared &client, F work) {
    return [this, client, work](const ErrorCode &error, size_t n) {
        step([&] {
            guarded(*client, [&] {
                client->connection->check(error);
                work(n);
                look(*client);
            });
        });
    };
}

void Broadcaster::admit(const PendingConnections::Admitted &viewer) {
    if (finishing_)
        return;
    if (clients_.size() >= static_cast<size_t>(settings_.max_viewers)) {
        log_.line("viewer " + viewer.connection->name(), "refused, --max-viewers is reached");
        return;
    }
    viewer.connection->moveTo(strand_);
    const auto client = clients_.emplace_back(std::make_shared<Client>(viewer.connection, viewer.since));
    guarded(*client, [&] {
        check(cusPeerCreate(&client->peer, size_.height, size_.width, CUS_8UC3, rate_millihertz_));
        if (!viewer.request) {
            check(cusPeerInput(client->peer, viewer.said.data(), viewer.said.size()));
            look(*client);
            receive(client);
            return;
        }
        std::static_pointer_cast<WebSocket>(viewer.connection)
            ->accept(viewer.request->request(), on(client, [this, client](size_t /*n*/) { receive(client); }));
    });
}

void Broadcaster::receive(const Shared &client) {
    transmit(client);
    client->connection->read(asio::buffer(client->in), on(client, [this, client](size_t n) {
                                 check(cusPeerInput(client->peer, client->in.data(), n));
                                 receive(client);
                             }));
}

void Broadcaster::transmit(const Shared &client) {
    Client &c = *client;
    if (c.writing)
        return;
    const uint8_t *data = nullptr;
    size_t bytes = 0;
    check(cusPeerOutput(c.peer, &data, &bytes));
    if (!std::exchange(c.waiting, bytes > 0))
        c.progress = Clock::now();
    if (finishing_ && bytes == 0 && !std::exchange(c.ended, true))
        c.connection->finish();
    const size_t n = std::min({bytes, PIECE, c.connection->room()});
    if (n == 0)
        return;
    c.out.assign(data, data + n); // since the peer moves what it has
    c.writing = true;
    c.connection->write(asio::buffer(c.out), on(client, [this, client](size_t sent) {
                            client->writing = false;
                            client->progress = Clock::now();
                            check(cusPeerSent(client->peer, sent));
                            transmit(client);
                        }));
}

} // namespace diffstream
