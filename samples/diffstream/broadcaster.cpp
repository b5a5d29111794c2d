#include "diffstream/broadcaster.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <unistd.h>

namespace diffstream {

using cusight::check;

namespace {

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
}

Broadcaster::~Broadcaster() = default;

// Opens the native door, if it has a port, then that for browsers.
void Broadcaster::open() {
    std::vector<Door> doors;
    if (settings_.tls.any())
        tls_ = std::make_unique<Tls>(settings_.tls, true, "");
    if (!settings_.address.port.empty())
        doors.push_back({settings_.address, tls_.get(), nullptr});
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
        web_context_ = makeWebContext(web.source);
        doors.push_back({web.address, web_tls_.get(), web_rules_.get()});
    }
    pending_ = std::make_unique<PendingConnections>(doors, settings_.max_pending, log_);
}

void Broadcaster::run() {
    try {
        sendAll();
    } catch (...) {
        pending_.reset();
        clients_.clear(); // nobody shall wait for what does not come
        throw;
    }
    if (session_.error())
        std::rethrow_exception(session_.error());
}

void Broadcaster::sendAll() {
    while (!packed_.ended()) {
        wait(100);
        serve();
    }
    finish();
}

// Says bye to all viewers, and gives those that still read the rest of their output. A connection is closed by its viewer: closed
// from here, what the viewer writes meanwhile would be answered with a reset, which discards what it has not read.
void Broadcaster::finish() {
    pending_.reset();
    session_.finish([](SessionFile &file) { file.finish(); });
    for (Client &c : clients_)
        cusPeerFinish(c.peer);
    const sample::Finishing waits;
    const auto end = Clock::now();
    while (!clients_.empty() && secondsSince(end) < DRAIN_SECONDS) {
        serve();
        for (Client &c : clients_)
            if (!c.waiting && !std::exchange(c.ended, true))
                c.connection->shutdown();
        if (!clients_.empty())
            wait(100);
    }
}

void Broadcaster::wait(int milliseconds) {
    std::vector<pollfd> fds = {{packed_.wakeup(), POLLIN, 0}};
    if (pending_)
        fds.push_back({pending_->wakeup(), POLLIN, 0});
    for (const Client &c : clients_)
        fds.push_back({c.connection->socket(), c.connection->events(c.waiting), 0});
    ::poll(fds.data(), fds.size(), milliseconds);
    packed_.drain();
}

void Broadcaster::serve() {
    const auto start = Clock::now();
    admitAll();
    forEachClient([&](Client &client) { receive(client); });
    sendFrames();
    checkClients();
    SenderStats::add(stats_.send, secondsSince(start));
}

void Broadcaster::sendFrames() {
    cusSentFrame frame;
    while (packed_.pop(frame)) {
        forEachClient([&](Client &client) {
            check(cusPeerOffer(client.peer, &frame));
            client.connection->nextFrame();
            transmit(client);
        });
        session_.write(log_, [&](SessionFile &file) { file.write(frame); });
        check(cusSenderRelease(sender_));
        packed_.released();
    }
}

// Sends waiting output, drops viewers that left or are too slow, and counts the others.
void Broadcaster::checkClients() {
    int connected = 0;
    forEachClient([&](Client &client) {
        transmit(client);
        cusPeerInfo info = {};
        check(cusPeerQuery(client.peer, &info));
        connected += info.connected && !info.disconnected;
        if (info.wants_key_frame)
            key_frame_requested_ = true;
        if (info.disconnected)
            throw NetError("said goodbye");
        if (!info.connected && secondsSince(client.connected) > HELLO_SECONDS)
            throw NetError(sample::text("did not say hello within %.0f s", HELLO_SECONDS));
        if (client.waiting && secondsSince(client.progress) > settings_.timeout)
            throw NetError(sample::text("received nothing for %.0f s", settings_.timeout));
    });
    connected_ = connected;
    stats_.viewers = connected;
}

// Does the work for each client and removes those that fail.
template<class F>
void Broadcaster::forEachClient(F &&work) {
    for (auto c = clients_.begin(); c != clients_.end();)
        c = guarded(*c, work) ? std::next(c) : clients_.erase(c);
}

// Returns false when the connection is over; the log says why, unless the viewer has all it was to get.
template<class F>
bool Broadcaster::guarded(Client &client, F &&work) {
    try {
        work(client);
        return true;
    } catch (const NetError &error) {
        if (!client.ended)
            log_.line("viewer " + client.connection->name(), error.what());
    } catch (const cusight::Error &) {
        log_.line("viewer " + client.connection->name(), cusLastError());
    }
    return false;
}

void Broadcaster::admitAll() {
    if (!pending_)
        return;
    for (PendingConnections::Admitted &viewer : pending_->take()) {
        if (clients_.size() >= static_cast<size_t>(settings_.max_viewers))
            log_.line("viewer " + viewer.connection->name(), "refused, --max-viewers is reached");
        else
            admit(viewer);
    }
}

void Broadcaster::admit(PendingConnections::Admitted &viewer) {
    clients_.emplace_back(std::move(viewer.connection), viewer.since);
    const bool welcome = guarded(clients_.back(), [&](Client &client) {
        check(cusPeerCreate(&client.peer, size_.height, size_.width, CUS_8UC3, rate_millihertz_));
        if (viewer.web)
            client.connection = std::make_unique<WebSocket>(web_context_, std::move(client.connection),
                                                            std::string(viewer.said.begin(), viewer.said.end()));
        else
            check(cusPeerInput(client.peer, viewer.said.data(), viewer.said.size()));
    });
    if (!welcome)
        clients_.pop_back();
}

void Broadcaster::receive(Client &client) {
    uint8_t buffer[4096]; // more than a viewer normally sends; the rest waits for the next turn
    const size_t n = client.connection->read(buffer, sizeof buffer);
    check(cusPeerInput(client.peer, buffer, n));
}

void Broadcaster::transmit(Client &client) {
    client.waiting = false;
    for (;;) {
        const uint8_t *data = nullptr;
        size_t bytes = 0;
        check(cusPeerOutput(client.peer, &data, &bytes));
        if (bytes == 0) {
            client.waiting = !client.connection->flushed();
            if (!client.waiting)
                client.progress = Clock::now();
            return;
        }
        const size_t n = client.connection->write(data, bytes);
        if (n == 0) {
            client.waiting = true;
            return;
        }
        client.progress = Clock::now();
        check(cusPeerSent(client.peer, n));
    }
}

} // namespace diffstream
