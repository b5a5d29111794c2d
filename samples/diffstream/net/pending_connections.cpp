#include "diffstream/net/pending_connections.hpp"

#include "common/app.hpp"
#include "diffstream/signals.hpp"

#include "cusight/live.h"
#include "cusight/opencv.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace diffstream {

namespace {

constexpr int ACCEPTED_AT_ONCE = 64;                                 // before waiting connections are served again
constexpr auto WITHOUT_DESCRIPTORS = std::chrono::milliseconds(200); // before the next accept()
constexpr auto TO_READ_WHY = std::chrono::seconds(2); // for a rejected viewer, or one whose answer is complete

// Whether there are bytes to read.
bool hasInput(int socket) {
    int bytes = 0;
    return ::ioctl(socket, FIONREAD, &bytes) == 0 && bytes > 0;
}

// Reads and discards. Returns false at the end of the connection.
bool discard(int socket) {
    char buffer[4096];
    const ssize_t n = ::recv(socket, buffer, sizeof buffer, 0);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

} // namespace

// ---- Events ------------------------------------------------------------------------------------------------------------

PendingConnections::Event::Event() : file_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (file_ < 0)
        throw sample::Stop(sample::FAILED, std::string("cannot create an event: ") + std::strerror(errno));
}

PendingConnections::Event::~Event() {
    ::close(file_);
}

void PendingConnections::Event::set() const {
    const uint64_t one = 1;
    if (::write(file_, &one, sizeof one) < 0) {
        // already set
    }
}

void PendingConnections::Event::clear() const {
    uint64_t count = 0;
    if (::read(file_, &count, sizeof count) < 0) {
        // was not set
    }
}

// ---- The thread --------------------------------------------------------------------------------------------------------

PendingConnections::PendingConnections(const std::vector<Door> &doors, int max_pending, Log &log)
    : max_pending_(static_cast<size_t>(max_pending)), log_(log) {
    for (const Door &door : doors)
        entrances_.push_back(std::make_unique<Entrance>(door));
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
}

PendingConnections::~PendingConnections() {
    stopped_ = true;
    stop_event_.set();
    thread_.join();
}

std::vector<PendingConnections::Admitted> PendingConnections::take() {
    admitted_event_.clear();
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Admitted> out;
    out.swap(admitted_);
    return out;
}

void PendingConnections::run() {
    while (!stopped_) {
        try {
            turn();
        } catch (const std::exception &error) { // for example, out of memory
            log_.line("connections", error.what());
            std::this_thread::sleep_for(WITHOUT_DESCRIPTORS);
        }
    }
}

void PendingConnections::turn() {
    wait();
    servePending(); // first, so that nobody whose answer has arrived is dropped
    acceptAll();
}

void PendingConnections::wait() {
    std::vector<pollfd> files = {{stop_event_.file(), POLLIN, 0}};
    for (const auto &entrance : entrances_)
        if (Clock::now() >= accept_again_)
            files.push_back({entrance->listener.socket(), POLLIN, 0});
    for (const Pending &p : pending_)
        files.push_back(
            {p.connection->socket(), p.answered ? short{POLLIN} : p.connection->events(p.visit && p.visit->writing()), 0});
    ::poll(files.data(), files.size(), 100);
}

void PendingConnections::servePending() {
    const auto now = Clock::now();
    for (auto p = pending_.begin(); p != pending_.end();) {
        const State state = serve(*p);
        if (state == State::PENDING && now >= p->deadline && !p->answered)
            log_.line("viewer " + p->connection->name(),
                      sample::text(p->visit ? "sent no request, or did not read its answer, within %.0f s"
                                            : "did not say hello within %.0f s",
                                   HELLO_SECONDS));
        if (state == State::PENDING && now < p->deadline)
            ++p;
        else
            p = pending_.erase(p);
    }
}

// Does what can be done without waiting.
PendingConnections::State PendingConnections::serve(Pending &pending) {
    if (pending.answered)
        return discard(pending.connection->socket()) ? State::PENDING : State::OVER;
    pending.heard = pending.heard || hasInput(pending.connection->socket());
    try {
        const State state = pending.visit ? visit(pending) : advance(pending, pending.tls);
        if (state == State::ADMITTED)
            admit(pending);
        return state;
    } catch (const NotAuthenticated &error) {
        // Do not close it yet: closing a connection with unread input discards the alert that is on its way and says why.
        log_.line("viewer " + pending.connection->name(), error.what());
        return awaitReader(pending);
    } catch (const NetError &error) {
        log_.line("viewer " + pending.connection->name(), error.what());
    } catch (const cusight::Error &) {
        log_.line("viewer " + pending.connection->name(), cusLastError());
    }
    return State::OVER;
}

PendingConnections::State PendingConnections::awaitReader(Pending &pending) {
    pending.connection->shutdown();
    pending.answered = true;
    pending.deadline = Clock::now() + TO_READ_WHY;
    return State::PENDING;
}

// A browser's request.
PendingConnections::State PendingConnections::visit(Pending &pending) {
    const Visit::State state = pending.visit->advance(*pending.connection);
    if (state == Visit::State::PENDING)
        return State::PENDING;
    if (state == Visit::State::ANSWERED) {
        if (!pending.visit->refusal().empty())
            log_.line("viewer " + pending.connection->name(), "refused, " + pending.visit->refusal());
        return awaitReader(pending);
    }
    const std::string &request = pending.visit->request();
    pending.said.assign(request.begin(), request.end());
    return State::ADMITTED;
}

PendingConnections::State PendingConnections::advance(Pending &pending, bool tls) {
    if (tls)
        return pending.connection->handshake() ? State::ADMITTED : State::PENDING;
    uint8_t bytes[CUS_WIRE_HEADER_BYTES];
    const size_t n = pending.connection->read(bytes, sizeof bytes - pending.said.size());
    pending.said.insert(pending.said.end(), bytes, bytes + n);
    if (pending.said.size() < CUS_WIRE_HEADER_BYTES)
        return State::PENDING;
    cusWireHeader header;
    cusight::check(cusWireParse(pending.said.data(), &header));
    if (header.type != CUS_WIRE_HELLO || header.payload_bytes > 0)
        throw NetError("live: expected a viewer's hello as the first message");
    return State::ADMITTED;
}

void PendingConnections::admit(Pending &pending) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        admitted_.push_back(
            {std::move(pending.connection), std::move(pending.said), pending.visit != nullptr, pending.since});
    }
    admitted_event_.set();
}

// ---- New connections ---------------------------------------------------------------------------------------------------

void PendingConnections::acceptAll() {
    if (Clock::now() < accept_again_)
        return;
    for (const auto &entrance : entrances_)
        for (int i = 0; i < ACCEPTED_AT_ONCE && acceptOne(*entrance); ++i) {
        }
}

// Returns false if none waits, or none can be accepted.
bool PendingConnections::acceptOne(Entrance &entrance) {
    Listener::Accepted accepted;
    const Listener::Result result = entrance.listener.accept(accepted);
    if (result == Listener::Result::NONE)
        return false;
    if (result == Listener::Result::EXHAUSTED) {
        // poll() would report the connection again at once, so ignore it for a while.
        if (!dropSilent()) {
            log_.line("connections", std::string("cannot be accepted at present: ") + std::strerror(accepted.error));
            accept_again_ = Clock::now() + WITHOUT_DESCRIPTORS;
        }
        return false;
    }
    try {
        Pending pending;
        pending.tls = entrance.door.tls != nullptr;
        pending.connection = std::make_unique<Connection>(accepted.socket, accepted.name, entrance.door.tls);
        if (entrance.door.web)
            pending.visit = std::make_unique<Visit>(*entrance.door.web, &guesses_, accepted.address);
        pending.address = accepted.address;
        pending.deadline =
            pending.since + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(HELLO_SECONDS));
        if (serve(pending) == State::PENDING) {
            makeRoom(pending.address);
            pending_.push_back(std::move(pending));
        }
    } catch (const NetError &error) {
        log_.line("viewer " + accepted.name, error.what());
    }
    return true;
}

// Drops a pending connection if there is no room for one more of this address.
void PendingConnections::makeRoom(const std::string &address) {
    std::map<std::string, size_t> counts;
    for (const Pending &p : pending_)
        ++counts[p.address];
    const bool crowded = counts[address] >= PER_ADDRESS;
    if (!crowded && pending_.size() < max_pending_)
        return;
    // If all places are taken, the address with the most connections gives one up.
    size_t most = 0;
    for (const auto &count : counts)
        most = std::max(most, count.second);
    auto victim = pending_.end();
    const auto rank = [](const Pending &p) { return p.answered ? 0 : p.heard ? 2 : 1; };
    for (auto p = pending_.begin(); p != pending_.end(); ++p) {
        const bool candidate = crowded ? p->address == address : counts[p->address] == most;
        if (candidate && (victim == pending_.end() || rank(*p) < rank(*victim)))
            victim = p;
    }
    if (victim != pending_.end())
        drop(victim,
             crowded
                 ? sample::text("dropped before its hello, more than %d connections of its address wait", PER_ADDRESS)
                 : sample::text("dropped before its hello, more than %zu connections wait (--max-pending)", max_pending_));
}

void PendingConnections::drop(std::list<Pending>::iterator which, const std::string &why) {
    if (!which->answered) // those are already in the log
        log_.line("viewer " + which->connection->name(), why);
    pending_.erase(which);
}

// Frees a descriptor by dropping a connection that has said nothing. Returns false if there is none.
bool PendingConnections::dropSilent() {
    const auto silent =
        std::find_if(pending_.begin(), pending_.end(), [](const Pending &p) { return p.answered || !p.heard; });
    if (silent == pending_.end())
        return false;
    drop(silent, "dropped before its hello, no file descriptors are left");
    return true;
}

} // namespace diffstream
