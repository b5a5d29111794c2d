#include "diffstream/net/pending_connections.hpp"

#include "common/app.hpp"

#include "cusight/live.h"
#include "cusight/opencv.hpp"

#include <boost/asio/read.hpp>

#include <algorithm>
#include <iterator>
#include <map>

namespace diffstream {

namespace {

constexpr auto SWEEP = std::chrono::milliseconds(100); // between looks at deadlines; without descriptors, before accept()
constexpr auto TO_READ_WHY = std::chrono::seconds(2);  // for a rejected viewer, or one whose answer is complete
// Those that have said everything are served before a new connection takes a place.
constexpr auto BEFORE_EVICTION = std::chrono::milliseconds(1);

} // namespace

PendingConnections::PendingConnections(const asio::any_io_executor &io, const std::vector<Endpoint> &endpoints,
                                       int max_pending, Log &log, std::function<void(Admitted)> admit)
    : max_pending_(static_cast<size_t>(max_pending)), log_(log), admit_(std::move(admit)), strand_(asio::make_strand(io)),
      sweep_(strand_), room_(strand_) {
    for (const Endpoint &endpoint : endpoints)
        listening_.push_back({endpoint, listenOn(io, endpoint.address, endpoint.tls != nullptr), {}});
    asio::post(strand_, [this] { sweep(); });
}

int PendingConnections::port(size_t endpoint) const {
    return std::next(listening_.begin(), static_cast<ptrdiff_t>(endpoint))->acceptor.local_endpoint().port();
}

void PendingConnections::close() {
    asio::post(strand_, [this] {
        listening_.clear();
        while (!pending_.empty())
            end(pending_.front());
    });
}

// Accepts again where that was not possible, and drops those that had time enough.
void PendingConnections::sweep() {
    for (ListeningEndpoint &at : listening_)
        if (!std::exchange(at.accepting, true))
            accept(at);
    const auto all = pending_;
    for (const Shared &p : all)
        if (Clock::now() >= p->deadline)
            drop(p, sample::text(p->exchange ? "sent no request, or did not read its answer, within %.0f s"
                                             : "did not say hello within %.0f s",
                                 HELLO_SECONDS));
    sweep_.expires_after(SWEEP);
    sweep_.async_wait([this](const ErrorCode & /*error*/) { sweep(); });
}

// ---- Pending connections -----------------------------------------------------------------------------------------------

// A handler of the connection's operations. If the work fails, the connection is dropped.
template<class Work>
auto PendingConnections::on(const Shared &p, Work work) {
    return asio::bind_executor(strand_, [this, p, work](const ErrorCode &error, size_t /*n*/ = 0) {
        try {
            if (!p->over)
                work(error);
        } catch (const NotAuthenticated &refused) {
            // Do not close it yet: closing a connection with unread input discards the alert that is on its way and says why.
            log_.line("viewer " + p->connection->name(), refused.what());
            awaitReader(p);
        } catch (const cusight::Error &failed) {
            drop(p, failed.message());
        } catch (const std::exception &failed) {
            drop(p, failed.what());
        }
    });
}

void PendingConnections::prove(const Shared &p) {
    p->heard = true;
    p->connection->handshake(on(p, [this, p](const ErrorCode &error) {
        p->connection->check(error);
        p->exchange ? ask(p) : p->tls ? admit(p) : hello(p);
    }));
}

void PendingConnections::hello(const Shared &p) {
    p->said.resize(CUS_WIRE_HEADER_BYTES);
    asio::async_read(*p->connection, asio::buffer(p->said), on(p, [this, p](const ErrorCode &error) {
        p->connection->check(error);
        cusWireHeader header;
        cusight::check(cusWireParse(p->said.data(), &header));
        if (header.type != CUS_WIRE_HELLO || header.payload_bytes > 0)
            throw NetError("live: expected a viewer's hello as the first message");
        admit(p);
    }));
}

// A browser's request.
void PendingConnections::ask(const Shared &p) {
    p->exchange->read(*p->connection, on(p, [this, p](const ErrorCode &error) {
        if (p->exchange->answer(*p->connection, error))
            return admit(p);
        if (!p->exchange->refusal().empty())
            log_.line("viewer " + p->connection->name(), "refused, " + p->exchange->refusal());
        p->exchange->write(*p->connection, on(p, [this, p](const ErrorCode &failed) {
            p->connection->check(failed);
            awaitReader(p);
        }));
    }));
}

void PendingConnections::admit(const Shared &p) {
    p->over = true;
    pending_.remove(p);
    admit_({p->connection, std::move(p->said), p->exchange, p->since});
}

void PendingConnections::awaitReader(const Shared &p) {
    p->connection->finish();
    p->answered = true;
    p->deadline = Clock::now() + TO_READ_WHY;
    discard(p);
}

// Reads until the other end closes the connection.
void PendingConnections::discard(const Shared &p) {
    p->connection->socket().async_read_some(asio::buffer(p->ignored),
                                            on(p, [this, p](const ErrorCode &error) { error ? end(p) : discard(p); }));
}

void PendingConnections::drop(const Shared &p, const std::string &why) {
    if (!p->answered) // those are already in the log
        log_.line("viewer " + p->connection->name(), why);
    end(p);
}

void PendingConnections::end(const Shared &p) {
    p->over = true;
    p->connection->close();
    pending_.remove(Shared(p)); // p may be in the list
}

// ---- New connections ---------------------------------------------------------------------------------------------------

void PendingConnections::accept(ListeningEndpoint &at) {
    const auto accepted = [this, &at](const ErrorCode &error, tcp::socket socket) {
        if (listening_.empty()) // `at` is no more
            return;
        if (!error) {
            begin(at, std::move(socket));
        } else if (!dropSilent()) { // without descriptors; the connection waits, and would be reported again at once
            log_.line("connections", "cannot be accepted at present: " + error.message());
            at.accepting = false;
            return;
        }
        accept(at);
    };
    at.acceptor.async_accept(at.from, asio::bind_executor(strand_, accepted));
}

void PendingConnections::begin(const ListeningEndpoint &at, tcp::socket socket) {
    const std::string name = nameOf(at.from);
    try {
        prepare(socket);
        const auto p = std::make_shared<Pending>();
        if (at.endpoint.web)
            p->connection =
                std::make_shared<WebSocket>(std::move(socket), name, at.endpoint.tls, strand_, at.endpoint.source);
        else
            p->connection = std::make_shared<Connection>(std::move(socket), name, at.endpoint.tls, strand_);
        p->tls = at.endpoint.tls != nullptr;
        p->address = networkOf(at.from.address());
        if (at.endpoint.web)
            p->exchange = std::make_shared<HttpExchange>(*at.endpoint.web, &guesses_, p->address);
        p->deadline = p->since + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(HELLO_SECONDS));
        pending_.push_back(p);
        p->connection->socket().async_wait(tcp::socket::wait_read, on(p, [this, p](const ErrorCode &error) {
                                               p->connection->check(error);
                                               prove(p);
                                           }));
    } catch (const std::exception &error) { // for example, out of memory
        log_.line("viewer " + name, error.what());
    }
    if (std::exchange(making_room_, true))
        return;
    room_.expires_after(BEFORE_EVICTION);
    room_.async_wait([this](const ErrorCode & /*error*/) { makeRooms(); });
}

// New connections that still wait take their places.
void PendingConnections::makeRooms() {
    making_room_ = false;
    const auto all = pending_;
    for (const Shared &p : all)
        if (!p->placed && !p->over) {
            makeRoom(p->address);
            p->placed = true;
        }
}

// Drops a connection that has a place if there is none for one more of this address.
void PendingConnections::makeRoom(const std::string &address) {
    std::map<std::string, size_t> counts;
    size_t places = 0;
    for (const Shared &p : pending_)
        if (p->placed)
            ++counts[p->address], ++places;
    const bool crowded = counts[address] >= PER_ADDRESS;
    if (!crowded && places < max_pending_)
        return;
    // If all places are taken, the address with the most connections gives one up.
    size_t most = 0;
    for (const auto &count : counts)
        most = std::max(most, count.second);
    Shared victim;
    const auto rank = [](const Pending &p) { return p.answered ? 0 : p.silent() ? 1 : 2; };
    for (const Shared &p : pending_)
        if (p->placed && (crowded ? p->address == address : counts[p->address] == most) &&
            (!victim || rank(*p) < rank(*victim)))
            victim = p;
    if (victim)
        drop(victim,
             crowded
                 ? sample::text("dropped before its hello, more than %d connections of its address wait", PER_ADDRESS)
                 : sample::text("dropped before its hello, more than %zu connections wait (--max-pending)", max_pending_));
}

// Frees a descriptor by dropping a connection that has said nothing. Returns false if there is none.
bool PendingConnections::dropSilent() {
    const auto silent =
        std::find_if(pending_.begin(), pending_.end(), [](const Shared &p) { return p->answered || p->silent(); });
    if (silent == pending_.end())
        return false;
    drop(*silent, "dropped before its hello, no file descriptors are left");
    return true;
}

} // namespace diffstream
