// Rows of live video: a frame in host memory to a packed message in host memory, and a message to a frame.
#include "harness/harness.hpp"

#include "cusight/live.h"

#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

using perf::check;

constexpr int COLS = 1920, ROWS = 1080;
constexpr size_t FRAME_BYTES = size_t{3} * COLS * ROWS;

enum class Spread { RANDOM, BLOBS };

const char *nameOf(Spread spread) {
    return spread == Spread::RANDOM ? "random" : "3pct";
}

// Two frames that differ in 3 % of their bytes, at random positions or in discs.
struct Frames {
    Frames(Spread spread, bool pinned) {
        for (cusMat &m : frames)
            check(pinned ? cusMatCreatePinned(&m, ROWS, COLS, CUS_8UC3) : cusMatCreate(&m, ROWS, COLS, CUS_8UC3, CUS_HOST));
        std::mt19937 random(3);
        auto *a = static_cast<uint8_t *>(frames[0].data), *b = static_cast<uint8_t *>(frames[1].data);
        for (size_t i = 0; i < FRAME_BYTES; ++i)
            a[i] = static_cast<uint8_t>(i / 3 % COLS / 8 + (random() & 7));
        std::memcpy(b, a, FRAME_BYTES);
        size_t count = 0;
        const auto change = [&](size_t i) {
            if (b[i] == a[i]) {
                b[i] = static_cast<uint8_t>(a[i] + 40 + random() % 100);
                ++count;
            }
        };
        const int radius = COLS / 40;
        while (count < FRAME_BYTES * 3 / 100) {
            if (spread == Spread::RANDOM) {
                change(random() % FRAME_BYTES);
                continue;
            }
            const int cx = radius + static_cast<int>(random() % (COLS - 2 * radius));
            const int cy = radius + static_cast<int>(random() % (ROWS - 2 * radius));
            for (int y = -radius; y <= radius; ++y)
                for (int x = -radius; x <= radius; ++x)
                    if (x * x + y * y <= radius * radius)
                        for (size_t c = 0; c < 3; ++c)
                            change((static_cast<size_t>(cy + y) * COLS + static_cast<size_t>(cx + x)) * 3 + c);
        }
    }
    ~Frames() {
        for (cusMat &m : frames)
            cusMatRelease(&m);
    }
    Frames(const Frames &) = delete;
    Frames &operator=(const Frames &) = delete;
    cusMat frames[2] = {CUS_MAT_INIT, CUS_MAT_INIT};
};

struct Sender {
    explicit Sender(cusSpace space) { check(cusSenderCreate(&sender, ROWS, COLS, CUS_8UC3, space, nullptr)); }
    ~Sender() { cusSenderDestroy(sender); }
    Sender(const Sender &) = delete;
    Sender &operator=(const Sender &) = delete;
    cusSender *sender = nullptr;
};

// One frame at a time: the latency from a frame to its message.
void frameToMessage(Spread spread) {
    perf::bothSpaces([&](cusSpace space) {
        Frames frames(spread, space == CUS_DEVICE);
        Sender s(space);
        double encode = 0, pack = 0, bytes = 0;
        int n = 0;
        perf::Row row(std::string("live/message/1920x1080/") + nameOf(spread), space, 0);
        row.wallClock();
        row.measure([&](cusStream stream, int i) {
            cusSentFrame f;
            check(cusSenderSubmit(s.sender, &frames.frames[i % 2], 0, stream));
            check(cusSenderFinish(s.sender, &f));
            check(cusSenderRelease(s.sender));
            if (f.sequence < 3)
                return;
            encode += static_cast<double>(f.encode_ms);
            pack += static_cast<double>(f.pack_ms);
            bytes += static_cast<double>(f.message_bytes);
            ++n;
        });
        row.note("3 % of the bytes change");
        row.report();
        if (row.measured())
            std::printf(
                "  of which host frame to difference in host memory %.3f ms, compression and checksum %.3f ms, %.0f kB "
                "a message\n",
                encode / n, pack / n, 1e-3 * bytes / n);
    });
}

// The next frame is in flight while one is packed, as in the sender program.
void throughput(Spread spread) {
    if (!perf::wants(CUS_DEVICE))
        return;
    Frames frames(spread, true);
    Sender s(CUS_DEVICE);
    int next = 0;
    perf::Row row(std::string("live/throughput/1920x1080/") + nameOf(spread), CUS_DEVICE, 0);
    row.wallClock();
    row.note("two frames in flight");
    row.measure([&](cusStream stream, int) {
        if (next == 0)
            check(cusSenderSubmit(s.sender, &frames.frames[next++ % 2], 0, stream));
        check(cusSenderSubmit(s.sender, &frames.frames[next++ % 2], 0, stream));
        cusSentFrame f;
        check(cusSenderFinish(s.sender, &f));
        check(cusSenderRelease(s.sender));
    });
    row.report();
}

// The viewer: from a message to a frame.
void messageToFrame(Spread spread) {
    if (!perf::wants(CUS_HOST))
        return;
    Frames frames(spread, false);
    Sender s(CUS_HOST);
    cusPeer *peer = nullptr;
    cusViewer *viewer = nullptr;
    check(cusPeerCreate(&peer, ROWS, COLS, CUS_8UC3, 60000));
    check(cusViewerCreate(&viewer, nullptr));
    const uint8_t *data = nullptr;
    size_t bytes = 0;
    check(cusViewerOutput(viewer, &data, &bytes));
    check(cusPeerInput(peer, data, bytes));
    // Each message applies to the frame before it, so all are recorded first and replayed in order. Only the viewer is
    // timed.
    std::vector<std::vector<uint8_t>> messages;
    for (int k = 0; k < 400; ++k) {
        cusSentFrame f;
        check(cusSenderSubmit(s.sender, &frames.frames[k % 2], 0, nullptr));
        check(cusSenderFinish(s.sender, &f));
        check(cusPeerOffer(peer, &f));
        check(cusSenderRelease(s.sender));
        check(cusPeerOutput(peer, &data, &bytes));
        messages.emplace_back(data, data + bytes);
        check(cusPeerSent(peer, bytes));
    }
    perf::Row row(std::string("live/frame/1920x1080/") + nameOf(spread), CUS_HOST, 0);
    row.measure([&](cusStream, int i) {
        const size_t k = static_cast<size_t>(i) % messages.size();
        if (k == 0)
            check(cusViewerReconnect(viewer));
        for (size_t at = 0; at < messages[k].size();) {
            size_t used = 0;
            cusViewerUpdate update;
            check(cusViewerInput(viewer, messages[k].data() + at, messages[k].size() - at, &used, &update));
            at += used;
        }
    });
    row.report();
    cusPeerDestroy(peer);
    cusViewerDestroy(viewer);
}

} // namespace

TEST(Live, FrameToMessage) {
    for (Spread spread : {Spread::BLOBS, Spread::RANDOM})
        frameToMessage(spread);
}
TEST(Live, Throughput) {
    for (Spread spread : {Spread::BLOBS, Spread::RANDOM})
        throughput(spread);
}
TEST(Live, MessageToFrame) {
    for (Spread spread : {Spread::BLOBS, Spread::RANDOM})
        messageToFrame(spread);
}
