#include "events-mpi/team.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

#include <unistd.h>

namespace events_mpi {

using sample::Stop;
using Clock = std::chrono::steady_clock;

namespace {

enum Tag { TAG_BYTES = 1, TAG_REPORT, TAG_STOP };

constexpr size_t PART = size_t{1} << 30; // MPI counts are int
constexpr auto REPORT_EVERY = std::chrono::milliseconds(100);
constexpr auto PATIENCE = std::chrono::seconds(10); // for ranks to stop work after a failure

// Runs the step; returns 0, or the exit code with a message.
int guard(const std::function<void()> &step, std::string &message) {
    try {
        step();
        return 0;
    } catch (const Stop &stop) {
        message = stop.what();
        return stop.code();
    } catch (const std::bad_alloc &) {
        message = "out of memory";
    } catch (const std::exception &error) {
        message = error.what();
    }
    return sample::FAILED;
}

} // namespace

// ---- Team --------------------------------------------------------------------------------------------------------------

Team::Team(int *argc, char ***argv) {
    int level = 0;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm neighbors;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &neighbors);
    MPI_Comm_rank(neighbors, &local_rank);
    MPI_Comm_size(neighbors, &local_size);
    MPI_Comm_free(&neighbors);
    char text[256] = "";
    ::gethostname(text, sizeof text - 1);
    host = text;
}

Team::~Team() {
    MPI_Finalize();
}

std::string Team::name() const {
    return size == 1 ? "" : "rank " + std::to_string(rank) + " on " + host + ": ";
}

void Team::agree(int code, const std::string &message) {
    const std::vector<int> codes = all(code);
    const auto bad = std::find_if(codes.begin(), codes.end(), [](int c) { return c != 0; });
    if (bad == codes.end())
        return;
    const int culprit = static_cast<int>(bad - codes.begin());
    // A failure that is the same everywhere, such as a missing file, needs no name.
    const bool everywhere = std::all_of(codes.begin(), codes.end(), [&](int c) { return c == *bad; });
    std::string text = (everywhere ? "" : name()) + message;
    uint64_t length = text.size();
    MPI_Bcast(&length, sizeof length, MPI_BYTE, culprit, MPI_COMM_WORLD);
    text.resize(length);
    MPI_Bcast(&text[0], static_cast<int>(length), MPI_BYTE, culprit, MPI_COMM_WORLD);
    if (first())
        throw Stop(static_cast<sample::ExitCode>(*bad), text);
    throw Quiet{*bad};
}

void Team::together(const std::function<void()> &step) {
    std::string message;
    const int code = guard(step, message);
    agree(code, message);
}

void Team::onFirst(const std::function<void()> &step) {
    std::string message;
    int code = first() ? guard(step, message) : 0;
    share(code);
    if (code && first())
        throw Stop(static_cast<sample::ExitCode>(code), message);
    if (code)
        throw Quiet{code};
}

void Team::share(std::string &text) {
    std::vector<char> bytes(text.begin(), text.end());
    share(bytes);
    text.assign(bytes.begin(), bytes.end());
}

void Team::shareBytes(void *data, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PART)
        MPI_Bcast(static_cast<char *>(data) + at, static_cast<int>(std::min(PART, bytes - at)), MPI_BYTE, 0,
                  MPI_COMM_WORLD);
}

void Team::sendBytes(const void *data, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PART)
        MPI_Send(static_cast<const char *>(data) + at, static_cast<int>(std::min(PART, bytes - at)), MPI_BYTE, 0, TAG_BYTES,
                 MPI_COMM_WORLD);
}

void Team::receiveBytes(int from, void *data, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PART)
        MPI_Recv(static_cast<char *>(data) + at, static_cast<int>(std::min(PART, bytes - at)), MPI_BYTE, from, TAG_BYTES,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// ---- Watch -------------------------------------------------------------------------------------------------------------

Watch::Watch(Team &team) : team_(team), last_(Clock::now()), known_(static_cast<size_t>(team.first() ? team.size : 0)) {}

void Watch::take(int from, const Message &message) {
    known_[static_cast<size_t>(from)] = message;
    if (message.code && failed_ < 0) {
        failed_ = from;
        tellAll();
    }
}

void Watch::tellAll() {
    stopped_ = true;
    const char nothing = 0;
    for (int r = 1; r < team_.size; ++r)
        MPI_Send(&nothing, 1, MPI_BYTE, r, TAG_STOP, MPI_COMM_WORLD);
}

// Collects the messages that have arrived at the first rank.
void Watch::collect() {
    for (;;) {
        int waiting = 0;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_REPORT, MPI_COMM_WORLD, &waiting, &status);
        if (!waiting)
            return;
        Message message;
        MPI_Recv(&message, static_cast<int>(sizeof message), MPI_BYTE, status.MPI_SOURCE, TAG_REPORT, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        take(status.MPI_SOURCE, message);
    }
}

void Watch::report(uint64_t events, uint64_t frames) {
    own_.events = events;
    own_.frames = frames;
    if (team_.first()) {
        known_[0] = own_;
        collect();
        return;
    }
    const auto now = Clock::now();
    int free_again = 1;
    if (now - last_ < REPORT_EVERY)
        return;
    MPI_Test(&sending_, &free_again, MPI_STATUS_IGNORE);
    if (!free_again)
        return;
    last_ = now;
    sent_ = own_;
    MPI_Isend(&sent_, static_cast<int>(sizeof sent_), MPI_BYTE, 0, TAG_REPORT, MPI_COMM_WORLD, &sending_);
}

bool Watch::stopped() {
    if (!team_.first() && !stopped_) {
        int waiting = 0;
        MPI_Iprobe(0, TAG_STOP, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE);
        stopped_ = waiting != 0;
    }
    return stopped_;
}

Watch::Totals Watch::totals() const {
    Totals sum;
    for (const Message &m : known_) {
        sum.events += m.events;
        sum.frames += m.frames;
    }
    return sum;
}

void Watch::finish(int code, const std::string &message, const std::function<void()> &idle) {
    own_.done = 1;
    own_.code = code;
    std::snprintf(own_.text, sizeof own_.text, "%s%s", code ? team_.name().c_str() : "", message.c_str());
    int outcome = 0;
    std::string text;
    if (team_.first()) {
        take(0, own_);
        auto stopped_at = Clock::now();
        for (;;) {
            collect();
            if (std::all_of(known_.begin(), known_.end(), [](const Message &m) { return m.done != 0; }))
                break;
            if (failed_ < 0)
                stopped_at = Clock::now();
            else if (Clock::now() - stopped_at > PATIENCE) { // a rank hangs; the message must come out
                std::fprintf(stderr, "cusight-events-mpi: %s\n",
                             sample::printable(known_[static_cast<size_t>(failed_)].text).c_str());
                std::fflush(stderr);
                MPI_Abort(MPI_COMM_WORLD, known_[static_cast<size_t>(failed_)].code);
            }
            idle();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        if (failed_ >= 0) {
            outcome = known_[static_cast<size_t>(failed_)].code;
            text = known_[static_cast<size_t>(failed_)].text;
        }
    } else {
        MPI_Wait(&sending_, MPI_STATUS_IGNORE); // NOLINT(clang-analyzer-optin.mpi.MPI-Checker): begun by report()
        MPI_Send(&own_, static_cast<int>(sizeof own_), MPI_BYTE, 0, TAG_REPORT, MPI_COMM_WORLD);
    }
    team_.share(outcome);
    for (int waiting = 1; waiting && !team_.first();) {
        char nothing;
        MPI_Iprobe(0, TAG_STOP, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE);
        if (waiting)
            MPI_Recv(&nothing, 1, MPI_BYTE, 0, TAG_STOP, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (outcome && team_.first())
        throw Stop(static_cast<sample::ExitCode>(outcome), text);
    if (outcome)
        throw Quiet{outcome};
}

} // namespace events_mpi
