#include "diffstream/log.hpp"

#include "diffstream/signals.hpp"

#include "common/app.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cctype>
#include <cerrno>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>

#include <poll.h>
#include <unistd.h>

namespace diffstream {

using Clock = std::chrono::steady_clock;

bool stderrAccepts() {
    pollfd log = {STDERR_FILENO, POLLOUT, 0};
    return ::poll(&log, 1, 0) > 0;
}

struct Log::State {
    struct Kind {
        Clock::time_point start; // when the current second began
        int lines = 0;           // written in this second
        long long more = 0;      // not written
        std::string text;        // the last of the lines not written
    };

    // The functions below need the lock.
    void add(const std::string &text) {
        if (queue.size() < QUEUE)
            queue.push_back(text + "\n");
        else
            ++lost;
    }
    void summarize(const Kind &kind) {
        if (kind.more > 0)
            add(std::to_string(kind.more) + " more like this: " + kind.text);
    }
    // Closes the seconds that are over, or all.
    void closeKinds(bool all) {
        const auto now = Clock::now();
        for (auto k = kinds.begin(); k != kinds.end();) {
            if (!all && now - k->second.start < std::chrono::seconds(1)) {
                ++k;
                continue;
            }
            summarize(k->second);
            k = kinds.erase(k);
        }
    }
    void noteLost() {
        if (lost > 0 && queue.size() < QUEUE / 2) {
            queue.push_back(std::to_string(lost) + " lines were lost: the log was not read\n");
            lost = 0;
        }
    }

    int file = 2;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> queue;
    std::map<std::string, Kind> kinds;
    long long lost = 0;
    bool closing = false, done = false;
};

namespace {

void writeAll(int file, const std::string &text) {
    for (size_t at = 0; at < text.size();) {
        const ssize_t n = ::write(file, text.data() + at, text.size() - at);
        if (n >= 0) {
            at += static_cast<size_t>(n);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            pollfd wait = {file, POLLOUT, 0};
            ::poll(&wait, 1, -1);
        } else if (errno != EINTR) {
            return; // closed; there is nowhere to report it
        }
    }
}

// Lines that differ only in numbers, of frames or versions for example, are of one kind.
std::string kindOf(const std::string &what) {
    std::string kind;
    kind.reserve(what.size());
    std::copy_if(what.begin(), what.end(), std::back_inserter(kind),
                 [](char c) { return !std::isdigit(static_cast<unsigned char>(c)); });
    return kind;
}

template<class State>
void writeLines(const std::shared_ptr<State> &state) {
    std::unique_lock<std::mutex> lock(state->mutex);
    for (;;) {
        state->changed.wait_for(lock, std::chrono::milliseconds(250),
                                [&] { return state->closing || !state->queue.empty(); });
        state->closeKinds(state->closing);
        state->noteLost();
        if (state->queue.empty() && state->closing)
            break;
        if (state->queue.empty())
            continue;
        const std::string text = std::move(state->queue.front());
        state->queue.pop_front();
        lock.unlock();
        writeAll(state->file, text);
        lock.lock();
    }
    state->done = true;
    state->changed.notify_all();
}

} // namespace

Log::Log(int file) : state_(std::make_shared<State>()) {
    state_->file = file;
    const SignalsBlocked blocked;
    thread_ = std::thread([state = state_] { writeLines(state); });
}

Log::~Log() {
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->closing = true;
    state_->changed.notify_all();
    const bool done = state_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return state_->done; });
    lock.unlock();
    if (done)
        thread_.join();
    else
        thread_.detach(); // it blocks in write(); it shares ownership of the state
}

void Log::line(const std::string &who, const std::string &what) {
    const std::string text = sample::printable(what);
    const auto now = Clock::now();
    std::lock_guard<std::mutex> lock(state_->mutex);
    const std::string name = kindOf(what);
    const bool known = state_->kinds.size() < KINDS || state_->kinds.count(name) > 0;
    State::Kind &kind = state_->kinds[known ? name : std::string()];
    if (kind.lines == 0 || now - kind.start >= std::chrono::seconds(1)) {
        state_->summarize(kind);
        kind = {};
        kind.start = now;
    }
    if (kind.lines >= PER_SECOND) {
        ++kind.more;
        kind.text = text;
        return;
    }
    ++kind.lines;
    state_->add(sample::printable(who) + ": " + text);
    state_->changed.notify_all();
}

} // namespace diffstream
