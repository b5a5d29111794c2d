// The connections of cusight-diffstream: admission, keys in files, the log, the queues between its threads.
#include "cusight/live.h"

#include "../support.hpp"

#ifdef CUSIGHT_HAVE_DIFFSTREAM

#include "common/app.hpp"
#include "diffstream/net/pending_connections.hpp"
#include "diffstream/log.hpp"
#include "diffstream/queues.hpp"
#include "diffstream/side_file.hpp"
#include "diffstream/times.hpp"

#include <boost/asio/thread_pool.hpp>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <regex>
#include <sstream>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

using namespace diffstream;
using Bytes = std::vector<uint8_t>;

double seconds(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

template<class F>
bool within(double limit, F &&holds) {
    for (const auto start = Clock::now(); seconds(start) < limit;) {
        if (holds())
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return holds();
}

// ---- Queues ------------------------------------------------------------------------------------------------------------

TEST(LiveQueues, NobodyWaitsForAThreadThatHasEnded) {
    PackedQueue packed(2);
    CaptureQueue captured(1, 2, 2, false);
    FrameTimes times;
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(packed.waitForRoom());
        packed.push({});
    }
    ASSERT_NE(captured.acquire(false), nullptr);
    for (uint64_t i = 1; i < 4; ++i)
        ASSERT_TRUE(times.sent(i, 0));
    std::atomic<int> released{0};
    std::vector<std::thread> waiting;
    waiting.emplace_back([&] { released += !packed.waitForRoom(); });
    waiting.emplace_back([&] { released += !captured.acquire(false); });
    waiting.emplace_back([&] { released += !times.sent(4, 0); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(released, 0);
    EXPECT_FALSE(packed.ended());
    packed.abandon();
    captured.close();
    times.close();
    for (std::thread &thread : waiting)
        thread.join();
    EXPECT_EQ(released, 3);
    EXPECT_TRUE(packed.ended()) << "frames that nobody takes";
    packed.push({}); // by a producer that had room before
    EXPECT_TRUE(packed.ended());
}

TEST(LiveQueues, AFileBesideTheStreamIsGivenUpOnce) {
    Log log(STDERR_FILENO);
    SideFile<int> file("--save-wire");
    int calls = 0;
    const auto fails = [&](int &) {
        ++calls;
        throw sample::Stop(sample::OUTPUT, "full");
    };
    file.write(log, fails);
    EXPECT_EQ(calls, 0) << "there is no file";
    file.open(std::make_unique<int>(1));
    file.write(log, [](int &value) { ++value; });
    EXPECT_TRUE(file);
    EXPECT_FALSE(file.error());
    file.write(log, fails);
    file.write(log, fails);
    file.finish(fails);
    EXPECT_EQ(calls, 1);
    EXPECT_FALSE(file);
    EXPECT_TRUE(file.error());
}

// ---- The log -----------------------------------------------------------------------------------------------------------

struct Pipe {
    Pipe() { EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0); }
    ~Pipe() {
        ::close(ends[0]);
        closeWriter();
    }
    Pipe(const Pipe &) = delete;
    Pipe &operator=(const Pipe &) = delete;
    void closeWriter() {
        if (ends[1] >= 0)
            ::close(ends[1]);
        ends[1] = -1;
    }
    std::string read() {
        closeWriter();
        std::string out;
        char buffer[4096];
        for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
            out.append(buffer, static_cast<size_t>(n));
        return out;
    }
    int ends[2] = {-1, -1};
};

int count(const std::string &text, const std::string &what) {
    int n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
        ++n;
    return n;
}

TEST(LiveLog, WritesTenLinesOfAKindThenTheirNumber) {
    Pipe pipe;
    {
        Log log(pipe.ends[1]);
        for (int i = 0; i < 1000; ++i)
            log.line("viewer 127.0.0.1:" + std::to_string(i), "frame " + std::to_string(i) + " follows frame 1");
        log.line("viewer 127.0.0.1:5", "said goodbye");
    }
    const std::string text = pipe.read();
    EXPECT_EQ(count(text, "follows frame 1\n"), 11) << text; // with the summary
    EXPECT_NE(text.find("viewer 127.0.0.1:0: frame 0 follows frame 1\n"), std::string::npos) << text;
    EXPECT_NE(text.find("990 more like this: frame 999 follows frame 1\n"), std::string::npos) << text;
    EXPECT_EQ(count(text, "said goodbye\n"), 1) << text;
}

TEST(LiveLog, SaysTheNumberWithinASecondAndStartsAgain) {
    Pipe pipe;
    {
        Log log(pipe.ends[1]);
        for (int second = 0; second < 2; ++second) {
            for (int i = 0; i < 25; ++i)
                log.line("viewer", "again");
            std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        }
        ::fcntl(pipe.ends[0], F_SETFL, O_NONBLOCK);
        char buffer[8192];
        const ssize_t n = ::read(pipe.ends[0], buffer, sizeof buffer);
        ASSERT_GT(n, 0);
        const std::string text(buffer, static_cast<size_t>(n));
        EXPECT_EQ(count(text, "viewer: again\n"), 20) << text;
        EXPECT_EQ(count(text, "15 more like this: again\n"), 2) << text;
    }
}

TEST(LiveLog, AnUnreadLogBlocksNothing) {
    Pipe pipe;
    ::fcntl(pipe.ends[1], F_SETPIPE_SZ, 4096);
    const std::string filler(4096, '.');
    ::fcntl(pipe.ends[1], F_SETFL, O_NONBLOCK);
    while (::write(pipe.ends[1], filler.data(), filler.size()) > 0) {
    }
    ::fcntl(pipe.ends[1], F_SETFL, 0);
    const auto start = Clock::now();
    {
        Log log(pipe.ends[1]);
        for (int i = 0; i < 20000; ++i)
            log.line("viewer", std::string(static_cast<size_t>(1 + i % 100), 'x')); // a hundred kinds
        EXPECT_LT(seconds(start), 2);
    }
    EXPECT_LT(seconds(start), 4); // nor does the end of the program wait
    // A late reader learns that lines are missing.
    ::fcntl(pipe.ends[0], F_SETFL, O_NONBLOCK);
    std::string text;
    within(5, [&] {
        char buffer[4096];
        for (ssize_t n; (n = ::read(pipe.ends[0], buffer, sizeof buffer)) > 0;)
            text.append(buffer, static_cast<size_t>(n));
        return text.find("lines were lost") != std::string::npos;
    });
    EXPECT_NE(text.find("lines were lost: the log was not read"), std::string::npos);
}

// ---- Pending connections -----------------------------------------------------------------------------------------------

class LivePendingConnections : public testing::Test {
  protected:
    void SetUp() override { folder = ::testing::TempDir(); }
    void TearDown() override {
        close();
        for (const int s : sockets)
            ::close(s);
        for (const std::string &file : files)
            ::unlink(file.c_str());
    }
    void open(int max_pending, const Tls *tls = nullptr) {
        io = std::make_unique<asio::thread_pool>(1);
        pending = std::make_unique<PendingConnections>(io->get_executor(), std::vector<Endpoint>{{{"127.0.0.1", "0"}, tls}},
                                                       max_pending, log, [this](PendingConnections::Admitted viewer) {
                                                           std::lock_guard<std::mutex> lock(mutex);
                                                           admitted.push_back(std::move(viewer));
                                                       });
    }
    void close() {
        if (!io)
            return;
        io->stop();
        io->join();
        pending.reset();
        admitted.clear();
        io.reset();
    }
    // Those admitted since the last call.
    std::vector<PendingConnections::Admitted> take() {
        std::lock_guard<std::mutex> lock(mutex);
        return std::exchange(admitted, {});
    }
    // Connects from 127.0.0.N and sends the first bytes of a viewer.
    int connect(int n, const Bytes &first = {'C'}) {
        const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(0x7f000000u + static_cast<uint32_t>(n));
        EXPECT_EQ(::bind(s, reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<uint16_t>(pending->port(0)));
        EXPECT_EQ(::connect(s, reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
        if (!first.empty())
            EXPECT_EQ(::send(s, first.data(), first.size(), 0), static_cast<ssize_t>(first.size()));
        sockets.push_back(s);
        std::this_thread::sleep_for(std::chrono::milliseconds(20)); // so that the thread sees them in this order
        return s;
    }
    static bool isClosed(int s) {
        char byte = 0;
        const ssize_t n = ::recv(s, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
        return n == 0 || (n < 0 && errno != EAGAIN);
    }
    static int closed(const std::vector<int> &of) {
        return static_cast<int>(std::count_if(of.begin(), of.end(), isClosed));
    }
    std::string writeFile(const std::string &name, const std::string &text, int mode) {
        const std::string file = folder + name + std::to_string(::getpid());
        std::ofstream(file) << text;
        ::chmod(file.c_str(), static_cast<mode_t>(mode));
        files.push_back(file);
        return file;
    }
    static Bytes hello() {
        cusWireHeader header = {};
        header.type = CUS_WIRE_HELLO;
        Bytes out(CUS_WIRE_HEADER_BYTES);
        CUS_EXPECT_OK(cusWirePack(&header, nullptr, out.data()));
        return out;
    }
    std::string folder;
    std::vector<std::string> files;
    std::vector<int> sockets;
    Pipe unread;
    Log log{unread.ends[1]};
    std::unique_ptr<asio::thread_pool> io;
    std::unique_ptr<PendingConnections> pending;
    std::mutex mutex;
    std::vector<PendingConnections::Admitted> admitted;
};

TEST_F(LivePendingConnections, OneAddressHasFourPendingConnections) {
    open(16);
    std::vector<int> mine, others;
    for (int i = 0; i < 3; ++i)
        others.push_back(connect(9));
    for (int i = 0; i < 7; ++i)
        mine.push_back(connect(5));
    EXPECT_TRUE(within(2, [&] { return closed(mine) == 3; })) << closed(mine);
    EXPECT_EQ(closed({mine.begin(), mine.begin() + 3}), 3); // the oldest
    EXPECT_EQ(closed(others), 0);
}

TEST_F(LivePendingConnections, AllTogetherHaveMaxPending) {
    open(16);
    std::vector<std::vector<int>> of(6);
    for (int address = 0; address < 6; ++address)
        for (int i = 0; i < (address == 0 ? 1 : 4); ++i)
            of[static_cast<size_t>(address)].push_back(connect(10 + address));
    const auto total = [&] {
        int n = 0;
        for (const auto &sockets_of_one : of)
            n += closed(sockets_of_one);
        return n;
    };
    EXPECT_TRUE(within(2, [&] { return total() == 5; })) << total();
    EXPECT_EQ(closed(of[0]), 0); // the oldest of all, but the only one of its address: those with most pay
}

TEST_F(LivePendingConnections, SilentConnectionsGoFirst) {
    open(4);
    const int silent = connect(5, {});
    std::this_thread::sleep_for(std::chrono::milliseconds(1300)); // the kernel holds it back for a second
    std::vector<int> talking;
    for (int i = 0; i < 3; ++i)
        talking.push_back(connect(5));
    const int late = connect(5, {});
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    talking.push_back(connect(5));
    EXPECT_TRUE(within(2, [&] { return isClosed(silent) && isClosed(late); }));
    EXPECT_EQ(closed(talking), 0);
}

TEST_F(LivePendingConnections, AHelloIsAdmittedWhoeverWaits) {
    open(4);
    for (int i = 0; i < 8; ++i)
        connect(5);
    const int viewer = connect(5, hello());
    std::vector<PendingConnections::Admitted> in;
    ASSERT_TRUE(within(2, [&] {
        for (PendingConnections::Admitted &a : take())
            in.push_back(std::move(a));
        return !in.empty();
    }));
    EXPECT_EQ(in.size(), 1u);
    EXPECT_EQ(in[0].said, hello());
    EXPECT_FALSE(isClosed(viewer));
    // In two pieces.
    const Bytes whole = hello();
    const int slow = connect(5, Bytes(whole.begin(), whole.begin() + 10));
    ASSERT_EQ(::send(slow, whole.data() + 10, whole.size() - 10, 0), static_cast<ssize_t>(whole.size()) - 10);
    EXPECT_TRUE(within(2, [&] { return take().size() == 1; }));
    // Anything else is not let in.
    const int stranger = connect(5, Bytes(48, 'G'));
    EXPECT_TRUE(within(2, [&] { return isClosed(stranger); }));
    EXPECT_TRUE(take().empty());
}

TEST_F(LivePendingConnections, ConnectionsWithoutHelloTimeOut) {
    open(16);
    const auto start = Clock::now();
    const int s = connect(5);
    EXPECT_TRUE(within(8, [&] { return isClosed(s); }));
    EXPECT_GT(seconds(start), 4.5);
}

// ---- Keys --------------------------------------------------------------------------------------------------------------

std::string digits(int seed) {
    std::string text;
    for (int i = 0; i < 32; ++i)
        text += sample::text("%02x", (i * 37 + seed) & 255);
    return text;
}

// A viewer's end of a connection to `port`.
struct ViewersEnd {
    ViewersEnd(int port, const Tls &tls)
        : connection(std::make_shared<Connection>(
              connectTo(io, {"127.0.0.1", std::to_string(port)}, true, std::chrono::seconds(5)), "sender", &tls,
              io.get_executor())) {
        connection->handshake([this](const ErrorCode &error) {
            connection->check(error);
            connection->read(asio::buffer(bytes), [this](const ErrorCode &failed, size_t) { connection->check(failed); });
        });
    }
    asio::io_context io;
    std::shared_ptr<Connection> connection;
    char bytes[16];
};

TEST_F(LivePendingConnections, TheRightKeyIsAdmitted) {
    TlsFiles right;
    right.key = writeFile("right", digits(1), 0600);
    const Tls server(right, true, ""), client(right, false, "127.0.0.1");
    open(16, &server);
    ViewersEnd viewer(pending->port(0), client);
    std::vector<PendingConnections::Admitted> in;
    EXPECT_TRUE(within(5, [&] {
        viewer.io.poll();
        for (PendingConnections::Admitted &a : take())
            in.push_back(std::move(a));
        return !in.empty();
    }));
    ASSERT_EQ(in.size(), 1u);
    EXPECT_TRUE(in[0].said.empty());
}

TEST_F(LivePendingConnections, TheWrongKeyIsARefusalAndABrokenHandshakeIsNot) {
    TlsFiles right, wrong;
    right.key = writeFile("right", digits(1), 0600);
    wrong.key = writeFile("wrong", digits(2), 0600);
    const Tls server(right, true, ""), client(wrong, false, "127.0.0.1");
    open(16, &server);
    ViewersEnd refused(pending->port(0), client);
    EXPECT_THROW(refused.io.run_for(std::chrono::seconds(5)), NotAuthenticated);
    EXPECT_TRUE(take().empty());

    // A sender that drops the connection, for a newer one or because it ends, has refused nothing: the viewer tries again.
    asio::io_context other;
    tcp::acceptor broken = listenOn(other.get_executor(), {"127.0.0.1", "0"}, true);
    broken.non_blocking(true);
    ViewersEnd dropped(broken.local_endpoint().port(), client);
    tcp::socket accepted(other);
    ErrorCode error;
    ASSERT_TRUE(within(2, [&] {
        dropped.io.poll();
        return !broken.accept(accepted, error);
    }));
    char buffer[4096];
    within(1, [&] { return accepted.read_some(asio::buffer(buffer), error) > 0; });
    accepted.close();
    try {
        dropped.io.run_for(std::chrono::seconds(5));
        ADD_FAILURE() << "no error";
    } catch (const NotAuthenticated &refusal) {
        ADD_FAILURE() << refusal.what();
    } catch (const NetError &) {
    }
}

TEST_F(LivePendingConnections, KeysThatOthersCanReadAreRejected) {
    TlsFiles key;
    for (const int mode : {0644, 0640, 0604, 0620, 0602}) {
        key.key = writeFile("open", digits(1), mode);
        try {
            const Tls tls(key, true, "");
            ADD_FAILURE() << "mode " << mode;
        } catch (const sample::Stop &stop) {
            EXPECT_EQ(stop.code(), sample::USAGE);
            EXPECT_NE(
                std::string(stop.what()).find(sample::text("is open to others (mode %04o), expected mode 0600", mode)),
                std::string::npos)
                << stop.what();
        }
    }
    for (const int mode : {0600, 0400}) {
        key.key = writeFile("closed", digits(1) + "\n", mode);
        EXPECT_NO_THROW(Tls(key, true, ""));
    }
    key.key = writeFile("long", std::string(1000, 'a'), 0600);
    EXPECT_THROW(Tls(key, true, ""), sample::Stop);
    key.key = writeFile("odd", digits(1).substr(1), 0600);
    EXPECT_THROW(Tls(key, true, ""), sample::Stop);
    key.key = writeFile("other", digits(1).substr(1) + "g", 0600);
    EXPECT_THROW(Tls(key, true, ""), sample::Stop);
    // The key of a certificate, checked before it is parsed.
    TlsFiles certificates;
    certificates.certificate = certificates.authority = certificates.private_key = "x";
    EXPECT_THROW(Tls(certificates, true, ""), sample::Stop);
}

#ifndef CUSI_SANITIZE

// How often the key, or its hexadecimal digits, are in the memory of this process.
int copiesOfKey(int seed) {
    const auto key = [&](size_t i) { return static_cast<uint8_t>(i * 37 + static_cast<size_t>(seed)); };
    const auto digit = [&](size_t i) {
        const int value = i % 2 ? key(i / 2) & 15 : key(i / 2) >> 4;
        return static_cast<uint8_t>(value < 10 ? '0' + value : 'a' + value - 10);
    };
    // How often the pattern starts in the first `starts` bytes of `in`, of which n are valid.
    const auto search = [](const Bytes &in, size_t n, size_t starts, size_t length, const auto &pattern) {
        int found = 0;
        const uint8_t *const end = in.data() + std::min(starts, n);
        for (const uint8_t *at = in.data(); at < end; ++at) {
            at = static_cast<const uint8_t *>(std::memchr(at, pattern(0), static_cast<size_t>(end - at)));
            if (!at)
                break;
            size_t same = 1;
            while (same < length && static_cast<size_t>(at - in.data()) + same < n && at[same] == pattern(same))
                ++same;
            found += same == length;
        }
        return found;
    };
    const int memory = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    std::ifstream maps("/proc/self/maps");
    std::vector<std::pair<unsigned long, unsigned long>> ranges;
    for (std::string line; std::getline(maps, line);) {
        unsigned long from = 0, to = 0;
        char mode[5] = "";
        if (std::sscanf(line.c_str(), "%lx-%lx %4s", &from, &to, mode) == 3 && mode[1] == 'w' &&
            (line.find("[heap]") != std::string::npos || line.find('/') == std::string::npos))
            ranges.emplace_back(from, to);
    }
    int found = 0;
    constexpr size_t piece = 1 << 26, overlap = 63;
    Bytes copy(piece); // so large that it is mapped by itself, after the ranges were listed
    for (const auto &range : ranges)
        for (unsigned long from = range.first; from < range.second; from += piece - overlap) {
            const size_t wanted = std::min<size_t>(piece, range.second - from);
            const ssize_t got = ::pread(memory, copy.data(), wanted, static_cast<off_t>(from));
            const size_t n = got > 0 ? static_cast<size_t>(got) : 0,
                         starts = from + wanted < range.second ? piece - overlap : n;
            found += search(copy, n, starts, 32, key) + search(copy, n, starts, 64, digit);
            if (from + wanted == range.second)
                break;
        }
    ::close(memory);
    return found;
}

TEST_F(LivePendingConnections, KeysAreWipedAfterUse) {
    constexpr int seed = 77;
    // A heap that is larger than what is searched at a time, as after other tests of the same process.
    std::vector<std::unique_ptr<char[]>> ballast(1200);
    for (auto &block : ballast)
        block = std::make_unique<char[]>(1 << 16);
    TlsFiles key;
    key.key = writeFile("wiped", "", 0600);
    for (int i = 0; i < 64; ++i) { // digit by digit, so that this test leaves no copy
        const int byte = (i / 2 * 37 + seed) & 255, value = i % 2 ? byte & 15 : byte >> 4;
        const char c = static_cast<char>(value < 10 ? '0' + value : 'a' + value - 10);
        const int file = ::open(key.key.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
        ASSERT_EQ(::write(file, &c, 1), 1);
        ::close(file);
    }
    ASSERT_EQ(copiesOfKey(seed), 0);
    {
        const Tls server(key, true, ""), client(key, false, "127.0.0.1");
        EXPECT_EQ(copiesOfKey(seed), 2); // one each, and none of the digits
        open(16, &server);
        ViewersEnd viewer(pending->port(0), client);
        EXPECT_TRUE(within(5, [&] {
            viewer.io.poll();
            return !take().empty();
        }));
        close();
    }
    EXPECT_EQ(copiesOfKey(seed), 0);
}

#endif

} // namespace

#endif
