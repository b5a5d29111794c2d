// Live video over real sockets with hostile other ends: strangers against a running sender, senders against a running viewer.
// CUSIGHT_FUZZ_SECONDS: how long each test runs, by default 3 s. The printed seed repeats the choices, not the timing.
#include "../support.hpp"

#ifdef CUSIGHT_HAVE_DIFFSTREAM

#include "../../fuzz/live_targets.hpp"
#include "cusight/opencv.hpp"
#include "live/support.hpp"

#include "common/app.hpp"
#include "diffstream/net/connection.hpp"
#include "diffstream/sender.hpp"
#include "diffstream/viewer.hpp"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace live_test;
namespace asio = boost::asio;

namespace {

using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;

double fuzzSeconds() {
    const char *text = std::getenv("CUSIGHT_FUZZ_SECONDS");
    return text ? std::atof(text) : 3;
}

double secondsSince(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Discards what the programs print while this exists.
class Quiet {
  public:
    Quiet() : out_(::dup(1)), err_(::dup(2)) {
        std::fflush(nullptr);
        const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
        ::dup2(null, 1);
        ::dup2(null, 2);
        ::close(null);
    }
    ~Quiet() {
        std::fflush(nullptr);
        ::dup2(out_, 1);
        ::dup2(err_, 2);
        ::close(out_);
        ::close(err_);
    }
    Quiet(const Quiet &) = delete;
    Quiet &operator=(const Quiet &) = delete;

  private:
    const int out_, err_;
};

size_t openFiles() {
    size_t n = 0;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd"))
        n += !entry.path().empty();
    return n;
}

// ---- Mutations ---------------------------------------------------------------------------------------------------------

uint32_t extreme(Random &random) {
    static const uint32_t values[] = {0, 1, 47, 48, 0x7f, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
    return values[random() % std::size(values)];
}

// Changes a few things; half of the time the headers are then made valid again.
Bytes mutated(Bytes bytes, Random &random) {
    for (uint64_t changes = random() % 5; changes > 0 && !bytes.empty(); --changes) {
        const size_t at = random() % bytes.size(), n = std::min<size_t>(1 + random() % 64, bytes.size() - at);
        const auto here = bytes.begin() + static_cast<long>(at);
        switch (random() % 7) {
        case 0:
            bytes[at] ^= static_cast<uint8_t>(1u << random() % 8);
            break;
        case 1:
            bytes[at] = static_cast<uint8_t>(random());
            break;
        case 2: {
            const uint32_t value = extreme(random);
            std::memcpy(&bytes[at], &value, std::min<size_t>(4, bytes.size() - at));
            break;
        }
        case 3:
            bytes.erase(here, here + static_cast<long>(n));
            break;
        case 4: {
            const Bytes piece(here, here + static_cast<long>(n));
            bytes.insert(bytes.begin() + static_cast<long>(random() % (bytes.size() + 1)), piece.begin(), piece.end());
            break;
        }
        case 5:
            bytes.resize(at);
            break;
        default:
            std::generate_n(here, n, [&] { return static_cast<uint8_t>(random()); });
        }
    }
    if (random() % 2)
        fuzz::repairHeaders(bytes);
    return bytes;
}

// Sends the bytes in pieces, reading now and then. False once the other end has closed the connection.
bool sendInPieces(int s, const Bytes &bytes, Random &random) {
    char buffer[65536];
    const size_t most = std::max<size_t>(bytes.size() / 100, size_t{1} << random() % 17);
    for (size_t at = 0; at < bytes.size();) {
        const size_t n = std::min(1 + random() % most, bytes.size() - at);
        const ssize_t sent = ::send(s, &bytes[at], n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN)
            return false;
        at += sent > 0 ? static_cast<size_t>(sent) : 0;
        if (sent < 0 || random() % 8 == 0) {
            pollfd wait = {s, static_cast<short>(POLLIN | (sent < 0 ? POLLOUT : 0)), 0};
            if (::poll(&wait, 1, sent < 0 ? 1000 : 0) == 0 && sent < 0)
                return false;
            if ((wait.revents & POLLIN) && ::recv(s, buffer, sizeof buffer, MSG_DONTWAIT) == 0)
                return false;
        }
        if (random() % 200 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
    }
    return true;
}

void closeSomehow(int s, Random &random) {
    if (random() % 3 == 0) { // with a reset
        const linger now = {1, 0};
        ::setsockopt(s, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    } else if (random() % 2) {
        ::shutdown(s, SHUT_WR);
        pollfd wait = {s, POLLIN, 0};
        ::poll(&wait, 1, static_cast<int>(random() % 5));
    }
    ::close(s);
}

// ---- Strangers against a sender ----------------------------------------------------------------------------------------

// A sender that runs in this process until stop().
class RunningSender {
  public:
    explicit RunningSender(diffstream::SendSettings settings) : settings_(std::move(settings)) {
        std::promise<int> listening;
        auto port_known = listening.get_future();
        thread_ = std::thread([this, &listening] {
            bool listens = false;
            try {
                diffstream::send(
                    settings_, [&](int p, const std::string &) { listens = true, listening.set_value(p); },
                    [this] { return stop_.load(); });
            } catch (const std::exception &error) {
                problem_ = error.what();
                if (!listens)
                    listening.set_value(0);
            }
        });
        port_ = port_known.get();
    }
    ~RunningSender() { stop(); }
    RunningSender(const RunningSender &) = delete;
    RunningSender &operator=(const RunningSender &) = delete;
    // Returns why it ended early, if it did.
    std::string stop() {
        stop_ = true;
        if (thread_.joinable())
            thread_.join();
        return problem_;
    }
    int port() const { return port_; }

  private:
    const diffstream::SendSettings settings_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
    std::string problem_;
    int port_ = 0;
};

// The messages of a viewer's session, in some order.
Bytes strangersSession(Random &random) {
    Bytes all;
    if (random() % 8)
        all = simple(CUS_WIRE_HELLO);
    for (uint64_t n = random() % 6; n > 0; --n) {
        static const cusWireType types[] = {CUS_WIRE_REQUEST_KEY_FRAME, CUS_WIRE_REQUEST_KEY_FRAME, CUS_WIRE_BYE,
                                            CUS_WIRE_HELLO};
        all = join({all, simple(types[random() % 4], random() % 3)});
    }
    if (random() % 40 == 0)
        for (int i = 0; i < 100; ++i)
            all = join({all, simple(CUS_WIRE_REQUEST_KEY_FRAME)});
    return all;
}

int rawConnection(int port) {
    const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (::connect(s, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0)
        return s;
    ::close(s);
    return -1;
}

// The first bytes of a viewer with this key.
Bytes firstFlight(const diffstream::Tls &tls) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    asio::io_context io;
    diffstream::tcp::socket socket(io);
    socket.assign(diffstream::tcp::v4(), ends[0]);
    const auto viewer = std::make_shared<diffstream::Connection>(std::move(socket), "", &tls, io.get_executor());
    viewer->handshake([](const diffstream::ErrorCode &) {});
    io.poll();
    Bytes flight(65536);
    const ssize_t n = ::recv(ends[1], flight.data(), flight.size(), 0);
    flight.resize(n > 0 ? static_cast<size_t>(n) : 0);
    ::close(ends[1]);
    return flight;
}

// A stranger with the key sends a valid handshake, then anything.
void insideTls(const diffstream::Tls &tls, int port, Random &random) {
    asio::io_context io;
    const Bytes session = mutated(strangersSession(random), random);
    Bytes buffer(4096);
    size_t at = 0;
    std::shared_ptr<diffstream::Connection> connection;
    std::function<void()> read = [&] {
        connection->read(asio::buffer(buffer), [&](const diffstream::ErrorCode &error, size_t) {
            connection->check(error);
            read();
        });
    };
    std::function<void()> write = [&] {
        if (at == session.size())
            return io.stop();
        connection->write(asio::buffer(&session[at], std::min(1 + random() % 200, session.size() - at)),
                          [&](const diffstream::ErrorCode &error, size_t n) {
                              connection->check(error);
                              at += n;
                              write();
                          });
    };
    try {
        connection = std::make_shared<diffstream::Connection>(
            diffstream::connectTo(io, {"127.0.0.1", std::to_string(port)}, true, std::chrono::seconds(1)), "", &tls,
            io.get_executor());
        connection->handshake([&](const diffstream::ErrorCode &error) {
            connection->check(error);
            read();
            write();
        });
        io.run_for(std::chrono::seconds(1));
        io.restart();
        if (random() % 2)
            connection->finish();
        io.poll();
    } catch (const diffstream::NetError &) {
        // the sender has had enough, or a newer connection took its place
    }
}

struct GoodViewer {
    std::vector<std::pair<uint64_t, uint32_t>> seen; // number and checksum of each picture
    uint64_t base_missing = 0;
    bool ended = false;
    std::string problem;
};

// Watches until the sender's bye and never tries again.
GoodViewer watch(int port, const diffstream::Tls *tls) {
    GoodViewer good;
    Viewer viewer;
    asio::io_context io;
    Bytes buffer(65536);
    std::shared_ptr<diffstream::Connection> connection;
    const auto send = [&] {
        const uint8_t *out = nullptr;
        size_t waiting = 0;
        cusViewerOutput(viewer.viewer, &out, &waiting);
        if (waiting > 0) // the hello
            connection->write(asio::buffer(out, waiting), [&](const diffstream::ErrorCode &failed, size_t n) {
                connection->check(failed);
                cusViewerSent(viewer.viewer, n);
            });
    };
    std::function<void()> read = [&] {
        buffer.resize(65536);
        connection->read(asio::buffer(buffer), [&](const diffstream::ErrorCode &failed, size_t n) {
            connection->check(failed);
            buffer.resize(n);
            const cusStatus status = viewer.feed(buffer, [&](cusViewerUpdate update) {
                good.ended |= update == CUS_VIEWER_ENDED;
                good.base_missing += update == CUS_VIEWER_BASE_MISSING;
                if (update == CUS_VIEWER_FRAME) {
                    const Bytes frame = viewer.frame();
                    good.seen.emplace_back(viewer.info().sequence, cusCrc32c(0, frame.data(), frame.size()));
                }
            });
            if (status != CUS_OK)
                good.problem = cusLastError();
            if (!good.ended && status == CUS_OK)
                read();
        });
    };
    try {
        connection = std::make_shared<diffstream::Connection>(
            diffstream::connectTo(io, {"127.0.0.1", std::to_string(port)}, tls != nullptr, std::chrono::seconds(5)), "",
            tls, io.get_executor());
        connection->handshake([&](const diffstream::ErrorCode &failed) {
            connection->check(failed);
            send();
            read();
        });
        io.run();
    } catch (const std::exception &error) {
        good.problem = error.what();
    }
    return good;
}

class LiveSockets : public testing::Test {
  protected:
    void SetUp() override {
        NEEDS_ZSTD();
        folder = ::testing::TempDir() + "live_sockets" + std::to_string(::getpid());
        std::filesystem::create_directory(folder);
    }
    void TearDown() override { std::filesystem::remove_all(folder); }
    std::string secretFile(const std::string &name, const std::string &text) const {
        const std::string file = folder + "/" + name;
        std::ofstream(file) << text;
        ::chmod(file.c_str(), 0600);
        return file;
    }
    std::map<uint64_t, uint32_t> truth() const {
        std::map<uint64_t, uint32_t> out;
        std::ifstream in(folder + "/truth");
        for (uint64_t number = 0; in >> number;)
            in >> std::hex >> out[number] >> std::dec;
        return out;
    }
    void attackSender(const diffstream::TlsFiles &files);
    std::string folder;
};

// Two strangers attack a sender for a while. Its one good viewer gets every frame, and nothing is left behind.
void LiveSockets::attackSender(const diffstream::TlsFiles &files) {
    std::unique_ptr<diffstream::Tls> tls;
    if (files.any())
        tls = std::make_unique<diffstream::Tls>(files, false, "127.0.0.1");
    diffstream::SendSettings settings;
    settings.input.names = {"synthetic:64x48@1000000"};
    settings.device = "cpu";
    settings.address.port = "0";
    settings.tls = files;
    settings.rate = 20;
    settings.wait = 1;
    settings.digests = folder + "/truth";
    settings.progress = false;

    std::atomic<uint64_t> sessions{0}, bytes{0};
    size_t files_before = 0, files_after = 0, memory_before = 0, memory_after = 0;
    GoodViewer good;
    std::string problem;
    auto seeds = support::generator();
    {
        const Quiet quiet;
        RunningSender sender(settings);
        if (!sender.port())
            throw std::runtime_error(sender.stop());
        std::thread watching([&] { good = watch(sender.port(), tls.get()); });
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        files_before = openFiles();
        std::atomic<bool> stop{false};
        const auto attack = [&](uint64_t seed) {
            Random random(seed);
            const Bytes flight = tls ? firstFlight(*tls) : Bytes();
            while (!stop) {
                ++sessions;
                if (tls && random() % 4 == 0) {
                    insideTls(*tls, sender.port(), random);
                    continue;
                }
                const int s = rawConnection(sender.port());
                if (s < 0)
                    continue;
                Bytes session = mutated(tls ? flight : strangersSession(random), random);
                if (random() % 16)
                    sendInPieces(s, session, random);
                bytes += session.size();
                closeSomehow(s, random);
            }
        };
        std::thread first(attack, seeds()), second(attack, seeds());
        const auto start = Clock::now();
        const double length = fuzzSeconds();
        while (secondsSince(start) < length || sessions <= 10) {
            if (!memory_before && secondsSince(start) > length / 4)
                memory_before = support::residentBytes();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        memory_after = support::residentBytes();
        stop = true;
        first.join();
        second.join();
        for (const auto end = Clock::now(); (files_after = openFiles()) > files_before && secondsSince(end) < 8;)
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        problem = sender.stop();
        watching.join();
    }
    EXPECT_EQ(problem, "");
    EXPECT_EQ(good.problem, "");
    EXPECT_TRUE(good.ended);
    EXPECT_LE(files_after, files_before);
#ifndef CUSI_SANITIZE
    EXPECT_LT(memory_after, memory_before + (32u << 20));
#endif
    const auto sent = truth();
    ASSERT_GT(good.seen.size(), 5u);
    EXPECT_EQ(good.seen.size(), sent.size() - (good.seen[0].first - 1)); // none missed
    EXPECT_EQ(good.base_missing, 0u);
    for (const auto &frame : good.seen) {
        ASSERT_EQ(sent.count(frame.first), 1u);
        ASSERT_EQ(sent.at(frame.first), frame.second) << "frame " << frame.first;
    }
    std::printf("%llu sessions, %llu bytes, %zu of %zu frames seen, resident memory %.1f MB, then %.1f MB\n",
                static_cast<unsigned long long>(sessions), static_cast<unsigned long long>(bytes), good.seen.size(),
                sent.size(), 1e-6 * static_cast<double>(memory_before), 1e-6 * static_cast<double>(memory_after));
}

TEST_F(LiveSockets, StrangersDoNotDisturbASender) {
    attackSender({});
}

TEST_F(LiveSockets, StrangersDoNotDisturbASenderWithTls) {
    diffstream::TlsFiles files;
    files.key = secretFile("key", std::string(64, '7'));
    attackSender(files);
}

// ---- A hostile sender against a viewer ---------------------------------------------------------------------------------

TEST_F(LiveSockets, AHostileSenderOnlyEndsTheConnection) {
    auto random = support::generator();
    // A valid session to mutate.
    const reference::Shape s{48, 64, 3};
    Sender sender(s, CUS_HOST, 3);
    Peer peer(s);
    const Bytes greeting = simple(CUS_WIRE_HELLO);
    CUS_ASSERT_OK(cusPeerInput(peer.peer, greeting.data(), greeting.size()));
    Bytes frame = support::randomBytes(s.bytes(), random), session = peer.take();
    for (int k = 0; k < 8; ++k) {
        peer.offer(sender.send(frame, k == 4));
        session = join({session, peer.take()});
        advance(frame, 0.05, random);
    }
    CUS_ASSERT_OK(cusPeerFinish(peer.peer));
    session = join({session, peer.take()});

    std::map<std::string, int> endings;
    size_t files_before = 0, memory_before = 0;
    int sessions = 0;
    {
        const Quiet quiet;
        asio::io_context io;
        auto listener = diffstream::listenOn(io.get_executor(), {"127.0.0.1", "0"}, false);
        std::atomic<bool> stop{false};
        std::thread hostile([&, seed = random()] {
            Random choices(seed);
            while (!stop) {
                pollfd wait = {listener.native_handle(), POLLIN, 0};
                if (::poll(&wait, 1, 50) <= 0)
                    continue;
                diffstream::ErrorCode error;
                diffstream::tcp::socket accepted = listener.accept(error);
                if (error)
                    continue;
                const int other = accepted.release();
                sendInPieces(other, mutated(session, choices), choices);
                closeSomehow(other, choices);
            }
        });
        diffstream::ViewSettings settings;
        settings.address.port = std::to_string(listener.local_endpoint().port());
        settings.headless = true;
        settings.progress = false;
        settings.reconnect = 0;
        const auto start = Clock::now();
        for (const double length = fuzzSeconds(); secondsSince(start) < length || sessions <= 20; ++sessions) {
            const auto begin = Clock::now();
            std::string ending = "said bye";
            try {
                diffstream::view(settings);
            } catch (const sample::Stop &stopped) {
                ending = "exit code " + std::to_string(stopped.code());
            } catch (const cusight::Error &error) {
                ending = std::string("status ") + std::to_string(error.status());
            }
            ++endings[ending];
            if (secondsSince(begin) > 5)
                ++endings["slower than 5 s"];
            if (!files_before && secondsSince(start) > length / 4) {
                files_before = openFiles();
                memory_before = support::residentBytes();
            }
        }
        stop = true;
        hostile.join();
        EXPECT_LE(openFiles(), files_before);
    }
    std::printf("%d sessions", sessions);
    for (const auto &ending : endings)
        std::printf(", %s %d", ending.first.c_str(), ending.second);
    std::printf("; resident memory %.1f MB, then %.1f MB\n", 1e-6 * static_cast<double>(memory_before),
                1e-6 * static_cast<double>(support::residentBytes()));
    EXPECT_EQ(endings["slower than 5 s"], 0);
    for (const auto &ending : endings) // bye, bad data, another version, too large
        EXPECT_TRUE(ending.second == 0 || ending.first == "said bye" || ending.first == "exit code 3" ||
                    ending.first == "status " + std::to_string(CUS_ERROR_UNSUPPORTED) ||
                    ending.first == "status " + std::to_string(CUS_ERROR_SIZE))
            << ending.first;
#ifndef CUSI_SANITIZE
    EXPECT_LT(support::residentBytes(), memory_before + (64u << 20));
#endif
}

} // namespace

#endif
