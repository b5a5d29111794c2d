#include "heatmap/feeds.hpp"

#include "common/terminal/report.hpp"

#include <algorithm>
#include <utility>

namespace heatmap {

using cusight::check;
using sample::Stop;
using std::chrono::milliseconds;

constexpr milliseconds POLL(50);     // for interrupts
constexpr milliseconds PATIENCE(40); // with an input that has no frame while others have: one frame's time
constexpr milliseconds PAUSE(500);   // between attempts to open a camera

Feeds::Feeds(const std::vector<sample::Input> &inputs, Settings settings)
    : settings_(std::move(settings)), feeds_(inputs.size()) {
    for (size_t i = 0; i < inputs.size(); ++i)
        feeds_[i].input = inputs[i];
    for (size_t i = 0; i < inputs.size(); ++i)
        feeds_[i].thread = std::thread([this, i] { run(i); });
}

Feeds::~Feeds() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stopped_ = true;
    }
    for (Feed &feed : feeds_) {
        feed.freed.notify_one();
        feed.thread.join();
    }
}

// ---- The thread that takes frames --------------------------------------------------------------------------------------

bool Feeds::wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    auto until = Clock::time_point::max();
    for (;;) {
        bool any = false, all = true, over = true;
        for (Feed &feed : feeds_) {
            const bool has = feed.count > 0, awaited = !has && !feed.ended;
            feed.late &= awaited;
            any |= has;
            all &= !awaited || feed.late;
            over &= !has && feed.ended;
        }
        if (over || sample::interrupted())
            return false;
        if (any && until == Clock::time_point::max())
            until = Clock::now() + patience_;
        if (any && (all || Clock::now() >= until))
            break;
        arrived_.wait_until(lock, std::min(until, Clock::now() + POLL));
    }
    for (Feed &feed : feeds_)
        feed.late = feed.count == 0 && !feed.ended;
    patience_ = PATIENCE;
    return true;
}

Feeds::Frame *Feeds::front(size_t input) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Feed &feed = feeds_[input];
    return feed.count ? &feed.ring[feed.first] : nullptr;
}

void Feeds::pop(size_t input) {
    Feed &feed = feeds_[input];
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        feed.first = (feed.first + 1) % RING;
        --feed.count;
    }
    feed.freed.notify_one();
}

void Feeds::drop(size_t input) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        feeds_[input].dropped = true;
        feeds_[input].count = 0;
    }
    feeds_[input].freed.notify_one();
}

const Outcome *Feeds::ended(size_t input) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Feed &feed = feeds_[input];
    return feed.ended && feed.count == 0 ? &feed.outcome : nullptr;
}

// ---- The threads of the inputs -----------------------------------------------------------------------------------------

void Feeds::run(size_t index) {
    Feed &feed = feeds_[index];
    try {
        if (settings_.device.space == CUS_DEVICE)
            check(cusDeviceSet(settings_.device.index));
        sample::leaveCoresToCodecs(feeds_.size());
        follow(index);
    } catch (...) {
        feed.outcome.error = std::current_exception();
    }
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        feed.ended = true;
    }
    arrived_.notify_one();
}

// Reads an input to its end. Throws Stop if it fails.
void Feeds::follow(size_t index) {
    Feed &feed = feeds_[index];
    bool opened = false;
    for (;;) {
        std::unique_ptr<sample::Source> source;
        try {
            source = sample::openSource(feed.input);
            if (!std::exchange(opened, true) && settings_.opened)
                settings_.opened(index, *source);
            readAll(feed, *source);
            return;
        } catch (const Stop &stop) {
            const bool can_return = source ? source->live() : feed.input.names.front().find("://") != std::string::npos;
            if (stop.code() != sample::INPUT || !can_return || settings_.reconnect <= 0)
                throw;
            if (!tryAgain(feed, stop))
                throw Stop(sample::INPUT, feed.lost);
        }
    }
}

// Throws Stop if the source fails.
void Feeds::readAll(Feed &feed, sample::Source &source) {
    struct Account {
        Outcome &outcome;
        const sample::Source &source;
        ~Account() {
            outcome.damaged += source.damaged();
            outcome.decoding += source.decodingSeconds();
        }
    } account{feed.outcome, source};
    double base = 0; // of the source's times
    while (!settings_.frames || feed.frames < settings_.frames) {
        Frame *const into = room(feed);
        if (!into || !source.read(into->picture.get(), settings_.space))
            return;
        const Clock::time_point now = Clock::now();
        if (!feed.lost.empty()) {
            const double lasted = std::chrono::duration<double>(now - feed.at).count();
            base = feed.frames ? feed.seconds + lasted - source.seconds() : 0;
            if (feed.frames) {
                sample::note("%s: is back after %.1f s", source.name().c_str(), lasted);
                feed.outcome.gaps.push_back({feed.seconds, lasted, feed.lost});
            }
            feed.lost.clear();
        }
        feed.at = now;
        feed.seconds = into->seconds = base + source.seconds();
        ++feed.frames;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            feed.count += !feed.dropped;
        }
        arrived_.notify_one();
    }
}

// Returns whether to open the camera again, after a pause.
bool Feeds::tryAgain(Feed &feed, const Stop &stop) {
    if (feed.lost.empty()) {
        feed.lost = stop.what();
        feed.lost_at = Clock::now();
        sample::note("%s; trying again for %g s", stop.what(), settings_.reconnect);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    feed.freed.wait_for(lock, PAUSE, [&] { return stopped_ || sample::interrupted(); });
    return !stopped_ && !sample::interrupted() &&
           std::chrono::duration<double>(Clock::now() - feed.lost_at).count() < settings_.reconnect;
}

// The place of the next frame, once it is free; null if none is wanted any more.
Feeds::Frame *Feeds::room(Feed &feed) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (feed.count == RING && !stopped_ && !sample::interrupted())
        feed.freed.wait_for(lock, POLL);
    return stopped_ || feed.dropped || sample::interrupted() ? nullptr : &feed.ring[(feed.first + feed.count) % RING];
}

} // namespace heatmap
