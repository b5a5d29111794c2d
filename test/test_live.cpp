// The stream module: wire format, sender, peer, viewer. No sockets here; test_diffstream.sh has those.
#include "cusight/live.h"

#include "../fuzz/live_targets.hpp"
#include "reference/framediff.hpp"
#include "reference/live.hpp"
#include "support.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#if __has_include(<opencv2/videoio.hpp>)
#include <opencv2/videoio.hpp>
#define HAVE_VIDEOIO 1
#endif
#endif

namespace {

using Bytes = std::vector<uint8_t>;

int typeOf(int channels) {
    return CUS_MAKETYPE(CUS_8U, channels);
}

// A build without libzstd has the module, but none of its objects can be made.
bool haveZstd() {
    cusViewer *viewer = nullptr;
    const cusStatus status = cusViewerCreate(&viewer, nullptr);
    cusViewerDestroy(viewer);
    return status != CUS_ERROR_UNSUPPORTED;
}
#define NEEDS_ZSTD()                                 \
    do {                                             \
        if (!haveZstd())                             \
            GTEST_SKIP() << "built without libzstd"; \
    } while (0)

// A packed frame, kept past its release.
struct Packed {
    uint64_t sequence = 0;
    Bytes message, key, mask, values;
    cusSentFrame frame() const {
        cusSentFrame f = {};
        f.sequence = sequence;
        f.message = message.data();
        f.message_bytes = message.size();
        f.key_frame = key.empty() ? nullptr : key.data();
        f.key_frame_bytes = key.size();
        f.mask = mask.data();
        f.values = values.data();
        f.count = static_cast<uint32_t>(values.size());
        return f;
    }
};

Packed copyOf(const cusSentFrame &f, reference::Shape s) {
    const size_t mask_bytes = (static_cast<size_t>(s.cols) * s.channels + 7) / 8 * s.rows;
    Packed p;
    p.sequence = f.sequence;
    p.message.assign(f.message, f.message + f.message_bytes);
    if (f.key_frame)
        p.key.assign(f.key_frame, f.key_frame + f.key_frame_bytes);
    p.mask.assign(f.mask, f.mask + mask_bytes);
    p.values.assign(f.values, f.values + f.count);
    return p;
}

struct Sender {
    Sender(reference::Shape shape, cusSpace space, int threshold = 20, int depth = 4) : s(shape) {
        cusSenderOptions options = cusSenderDefaults();
        options.diff.threshold = threshold;
        options.max_in_flight = depth;
        CUS_EXPECT_OK(cusSenderCreate(&sender, s.rows, s.cols, typeOf(s.channels), space, &options));
    }
    ~Sender() { cusSenderDestroy(sender); }
    Sender(const Sender &) = delete;
    Sender &operator=(const Sender &) = delete;

    Packed send(const Bytes &tight, bool with_key_frame = false) {
        cusMat frame = CUS_MAT_INIT;
        CUS_EXPECT_OK(
            cusMatWrap(&frame, s.rows, s.cols, typeOf(s.channels), CUS_HOST, const_cast<uint8_t *>(tight.data()), 0));
        CUS_EXPECT_OK(cusSenderSubmit(sender, &frame, with_key_frame, nullptr));
        cusSentFrame f = {};
        CUS_EXPECT_OK(cusSenderFinish(sender, &f));
        const Packed p = copyOf(f, s);
        CUS_EXPECT_OK(cusSenderRelease(sender));
        return p;
    }
    Bytes reference() const {
        cusMat view = CUS_MAT_INIT;
        CUS_EXPECT_OK(cusSenderReference(sender, &view));
        return support::elements(view);
    }
    reference::Shape s;
    cusSender *sender = nullptr;
};

struct Peer {
    explicit Peer(reference::Shape s, uint32_t rate = 25000) {
        CUS_EXPECT_OK(cusPeerCreate(&peer, s.rows, s.cols, typeOf(s.channels), rate));
    }
    ~Peer() { cusPeerDestroy(peer); }
    Peer(const Peer &) = delete;
    Peer &operator=(const Peer &) = delete;
    void offer(const Packed &p) {
        const cusSentFrame f = p.frame();
        CUS_EXPECT_OK(cusPeerOffer(peer, &f));
    }
    // Up to `most` bytes of the output, taken.
    Bytes take(size_t most = SIZE_MAX) {
        const uint8_t *data = nullptr;
        size_t bytes = 0;
        CUS_EXPECT_OK(cusPeerOutput(peer, &data, &bytes));
        const size_t n = std::min(bytes, most);
        const Bytes out(data, data + n);
        CUS_EXPECT_OK(cusPeerSent(peer, n));
        return out;
    }
    cusPeerInfo info() const {
        cusPeerInfo i = {};
        CUS_EXPECT_OK(cusPeerQuery(peer, &i));
        return i;
    }
    cusPeer *peer = nullptr;
};

struct Viewer {
    explicit Viewer(size_t max_frame_bytes = size_t{1} << 28) {
        cusViewerOptions options = cusViewerDefaults();
        options.max_frame_bytes = max_frame_bytes;
        CUS_EXPECT_OK(cusViewerCreate(&viewer, &options));
    }
    ~Viewer() { cusViewerDestroy(viewer); }
    Viewer(const Viewer &) = delete;
    Viewer &operator=(const Viewer &) = delete;
    // Feeds all of it in pieces; onEvent runs after each event.
    template<class F>
    cusStatus feed(const Bytes &data, F &&onEvent, size_t piece = SIZE_MAX) {
        for (size_t at = 0; at < data.size();) {
            const size_t n = std::min(piece, data.size() - at);
            const Bytes part(data.begin() + static_cast<long>(at), data.begin() + static_cast<long>(at + n));
            size_t used = 0;
            cusViewerUpdate event = CUS_VIEWER_NOTHING;
            const cusStatus status = cusViewerInput(viewer, part.data(), n, &used, &event);
            if (status != CUS_OK)
                return status;
            at += used;
            if (event != CUS_VIEWER_NOTHING)
                onEvent(event);
        }
        return CUS_OK;
    }
    cusStatus feed(const Bytes &data) {
        return feed(data, [](cusViewerUpdate) {});
    }
    Bytes take() {
        const uint8_t *data = nullptr;
        size_t bytes = 0;
        CUS_EXPECT_OK(cusViewerOutput(viewer, &data, &bytes));
        const Bytes out(data, data + bytes);
        CUS_EXPECT_OK(cusViewerSent(viewer, bytes));
        return out;
    }
    Bytes picture() const {
        cusMat view = CUS_MAT_INIT;
        CUS_EXPECT_OK(cusViewerPicture(viewer, &view));
        return support::elements(view);
    }
    cusViewerInfo info() const {
        cusViewerInfo i = {};
        CUS_EXPECT_OK(cusViewerQuery(viewer, &i));
        return i;
    }
    cusViewer *viewer = nullptr;
};

// Both ends have said hello.
void connect(Peer &peer, Viewer &viewer) {
    const Bytes hello = viewer.take();
    CUS_ASSERT_OK(cusPeerInput(peer.peer, hello.data(), hello.size()));
    CUS_ASSERT_OK(viewer.feed(peer.take()));
}

// The next frame of a made-up video: a share of the bytes takes a new value, all others wobble within the threshold.
void advance(Bytes &frame, double share, std::mt19937_64 &random) {
    for (auto &b : frame) {
        const uint64_t r = random();
        if (static_cast<double>(r >> 40) < share * (1 << 24))
            b = static_cast<uint8_t>(r);
        else if ((r & 7) == 0)
            b = static_cast<uint8_t>(std::clamp(b + static_cast<int>(r >> 3 & 7) - 3, 0, 255));
    }
}

Bytes simple(cusWireType type, uint64_t sequence = 0) {
    cusWireHeader header = {};
    header.type = type;
    header.sequence = sequence;
    Bytes out(CUS_WIRE_HEADER_BYTES);
    CUS_EXPECT_OK(cusWirePack(&header, nullptr, out.data()));
    return out;
}

Bytes message(const cusWireHeader &header, const Bytes &payload) {
    Bytes out(CUS_WIRE_HEADER_BYTES);
    CUS_EXPECT_OK(cusWirePack(&header, payload.data(), out.data()));
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
}

Bytes join(std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const auto &p : parts)
        all.insert(all.end(), p.begin(), p.end());
    return all;
}

// ---- Wire --------------------------------------------------------------------------------------------------------------

TEST(LiveWire, ChecksumIsCrc32c) {
    EXPECT_EQ(cusCrc32c(0, "123456789", 9), 0xE3069283u); // the check value of the polynomial's catalogs
    EXPECT_EQ(cusCrc32c(0, nullptr, 0), 0u);
    auto random = support::generator();
    for (size_t n : {1, 7, 8, 9, 63, 1000, 4099}) {
        const Bytes data = support::randomBytes(n, random);
        const uint32_t whole = cusCrc32c(0, data.data(), n);
        EXPECT_EQ(whole, reference::crc32c(data.data(), n));
        const size_t cut = random() % (n + 1);
        EXPECT_EQ(cusCrc32c(cusCrc32c(0, data.data(), cut), data.data() + cut, n - cut), whole);
    }
}

TEST(LiveWire, HeaderIsAsDocumented) {
    cusWireHeader header = {};
    header.type = CUS_WIRE_DIFFERENCE;
    header.encoding = CUS_WIRE_RAW;
    header.payload_bytes = header.raw_bytes = 5;
    header.sequence = 0x0102030405060708;
    header.base = 7;
    header.width = 8;
    header.height = 2;
    header.channels = 1;
    const Bytes payload = {1, 2, 9, 9, 9};
    const Bytes out = message(header, payload);
    const Bytes expected = {'C', 'U', 'S', 'D', 1, 0, 3, 0, 5, 0, 0, 0, 5, 0, 0, 0, 8, 7, 6, 5, 4, 3,
                            2,   1,   7,   0,   0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0};
    EXPECT_EQ(Bytes(out.begin(), out.begin() + 44), expected);
    Bytes covered = expected;
    covered.insert(covered.end(), payload.begin(), payload.end());
    const uint32_t crc = reference::crc32c(covered.data(), covered.size());
    cusWireHeader parsed = {};
    CUS_ASSERT_OK(cusWireParse(out.data(), &parsed));
    EXPECT_EQ(parsed.crc, crc);
    EXPECT_EQ(parsed.type, header.type);
    EXPECT_EQ(parsed.payload_bytes, 5u);
    EXPECT_EQ(parsed.raw_bytes, 5u);
    EXPECT_EQ(parsed.sequence, header.sequence);
    EXPECT_EQ(parsed.base, 7u);
    EXPECT_EQ(parsed.width, 8u);
    EXPECT_EQ(parsed.height, 2u);
    EXPECT_EQ(parsed.channels, 1);
}

TEST(LiveWire, BadHeadersAreNamed) {
    cusWireHeader good = {};
    good.type = CUS_WIRE_KEY_FRAME;
    good.payload_bytes = good.raw_bytes = 24;
    good.sequence = 1;
    good.width = 4;
    good.height = 2;
    good.channels = 3;
    const Bytes payload(24);
    const Bytes bytes = message(good, payload);
    cusWireHeader out = {};
    CUS_ASSERT_OK(cusWireParse(bytes.data(), &out));

    const auto rejects = [&](size_t at, std::initializer_list<int> values, cusStatus status, const char *text) {
        Bytes bad = bytes;
        for (int v : values)
            bad[at++] = static_cast<uint8_t>(v);
        CUS_EXPECT_ERROR(cusWireParse(bad.data(), &out), status, text);
    };
    rejects(0, {'H', 'T', 'T', 'P'}, CUS_ERROR_FORMAT, "another protocol");
    rejects(4, {2, 0}, CUS_ERROR_UNSUPPORTED, "the peer speaks version 2 of the format, this program version 1");
    rejects(6, {0}, CUS_ERROR_FORMAT, "unknown type 0");
    rejects(6, {6}, CUS_ERROR_FORMAT, "unknown type 6");
    rejects(7, {2}, CUS_ERROR_FORMAT, "unknown encoding 2");
    rejects(41, {1}, CUS_ERROR_FORMAT, "reserved");
    rejects(43, {1}, CUS_ERROR_FORMAT, "reserved");
    rejects(40, {2}, CUS_ERROR_FORMAT, "with 2 channels");
    rejects(32, {0, 0, 0, 0}, CUS_ERROR_FORMAT, "outside the format's limits");
    rejects(32, {1, 0x80, 0, 0}, CUS_ERROR_FORMAT, "picture of 32769 x 2");
    rejects(36, {0xff, 0xff, 0xff, 0xff}, CUS_ERROR_FORMAT, "outside the format's limits");
    // Each side within its limit, the product not.
    rejects(32, {0, 0x80, 0, 0, 0, 0x80, 0, 0}, CUS_ERROR_FORMAT, "outside the format's limits");
    // Lengths that wrap when one, or the header's size, is added.
    rejects(8, {0xff, 0xff, 0xff, 0xff}, CUS_ERROR_FORMAT, "payload of 4294967295 bytes");
    rejects(8, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, CUS_ERROR_FORMAT, "key frame of 4294967295 bytes");
    rejects(8, {0xd0, 0xff, 0xff, 0xff, 0xd0, 0xff, 0xff, 0xff}, CUS_ERROR_FORMAT, "key frame of");
    rejects(8, {25, 0, 0, 0}, CUS_ERROR_FORMAT, "payload of 25 bytes cannot stand for 24");
    rejects(8, {23, 0, 0, 0}, CUS_ERROR_FORMAT, "payload of 23 bytes cannot stand for 24");
    rejects(7, {1, 24, 0, 0, 0}, CUS_ERROR_FORMAT,
            "payload of 24 bytes cannot stand for 24"); // compressed to the same size
    rejects(7, {1, 0, 0, 0, 0}, CUS_ERROR_FORMAT, "payload of 0 bytes");
    rejects(16, {0}, CUS_ERROR_FORMAT, "sequence number 0");
    rejects(24, {1}, CUS_ERROR_FORMAT, "base 1");
    // The same area, another rectangle, is for the viewer to reject; here the byte count must fit the rectangle.
    rejects(32, {5}, CUS_ERROR_FORMAT, "key frame of 24 bytes, takes 30");
    // As a difference: 4 mask bytes and at most 24 values; base before sequence.
    rejects(6, {3}, CUS_ERROR_FORMAT, "sequence number 1 and base 0");
    rejects(6, {3, 0, 3, 0, 0, 0, 3, 0, 0, 0}, CUS_ERROR_FORMAT, "difference of 3 bytes, takes 4 to 28");
    rejects(6, {3, 0, 29, 0, 0, 0, 29, 0, 0, 0}, CUS_ERROR_FORMAT, "difference of 29 bytes, takes 4 to 28");
    rejects(6, {3, 0, 24, 0, 0, 0, 24, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5}, CUS_ERROR_FORMAT,
            "sequence number 5 and base 5");
    rejects(6, {4}, CUS_ERROR_FORMAT, "type 4 with 24 bytes");
    rejects(6, {5}, CUS_ERROR_FORMAT, "type 5 with 24 bytes");
    rejects(6, {1}, CUS_ERROR_FORMAT, "hello of 24 bytes");
}

// ---- Sessions ----------------------------------------------------------------------------------------------------------

class Live : public support::SpaceTest {};
CUS_BOTH_SPACES(Live);

TEST_P(Live, ViewerEqualsTheReferenceAfterEveryFrame) {
    NEEDS_ZSTD();
    auto random = support::generator();
    for (const auto &[rows, cols] : support::sizes())
        for (int channels : {1, 3, 4}) {
            const reference::Shape s{rows, cols, channels};
            const int threshold = static_cast<int>(random() % 3) * 20;
            const double share = (random() % 2) ? 0.03 : 0.6;
            Sender sender(s, space(), threshold);
            Peer peer(s, 29970);
            Viewer viewer;
            connect(peer, viewer);
            EXPECT_EQ(viewer.info().rows, rows);
            EXPECT_EQ(viewer.info().cols, cols);
            EXPECT_EQ(viewer.info().type, typeOf(channels));
            EXPECT_EQ(viewer.info().rate_mhz, 29970u);

            Bytes frame = support::randomBytes(s.bytes(), random), model = frame;
            for (int k = 1; k <= 4; ++k) {
                const Packed packed = sender.send(frame);
                const reference::Entries entries = reference::encode(model, frame, s, threshold, 0);
                ASSERT_EQ(packed.mask, reference::mask(entries, s));
                ASSERT_EQ(packed.values, entries.values);
                ASSERT_EQ(sender.reference(), model);
                ASSERT_LE(packed.message.size(), CUS_WIRE_HEADER_BYTES + s.bytes() + packed.mask.size());
                peer.offer(packed);
                int frames = 0;
                CUS_ASSERT_OK(viewer.feed(
                    peer.take(), [&](cusViewerUpdate e) { frames += e == CUS_VIEWER_FRAME; }, 1 + random() % 5000));
                ASSERT_EQ(frames, 1);
                ASSERT_EQ(viewer.info().sequence, static_cast<uint64_t>(k));
                ASSERT_EQ(viewer.info().message_bytes, packed.message.size());
                ASSERT_EQ(viewer.picture(), model) << rows << " x " << cols << " x " << channels << ", frame " << k;
                advance(frame, share, random);
            }
        }
}

TEST_P(Live, PaddedFramesAndDeviceFrames) {
    NEEDS_ZSTD();
    auto random = support::generator();
    const reference::Shape s{37, 53, 3};
    const Bytes tight = support::randomBytes(s.bytes(), random);
    for (const auto &layout : support::layouts(CUS_8UC3))
        for (cusSpace from : {CUS_HOST, CUS_DEVICE}) {
            if (from == CUS_DEVICE && space() == CUS_HOST)
                continue;
            Sender sender(s, space());
            support::TestMat frame(s.rows, s.cols, CUS_8UC3, from, layout, tight.data());
            CUS_ASSERT_OK(cusSenderSubmit(sender.sender, &frame.mat, 0, nullptr));
            cusSentFrame f = {};
            CUS_ASSERT_OK(cusSenderFinish(sender.sender, &f));
            EXPECT_EQ(sender.reference(), tight);
            EXPECT_EQ(f.count, 0u);
            EXPECT_TRUE(f.key_frame == f.message);
            EXPECT_TRUE(frame.intact());
        }
}

// Frames under way while others are packed, and on another thread given back: the order and the bytes stay.
TEST_P(Live, RingAcrossThreads) {
    NEEDS_ZSTD();
    auto random = support::generator();
    const reference::Shape s{120, 160, 3};
    std::vector<Bytes> frames(24);
    Bytes frame = support::randomBytes(s.bytes(), random);
    for (auto &f : frames) {
        f = frame;
        advance(frame, 0.05, random);
    }
    std::vector<Packed> expected;
    {
        Sender one(s, space());
        for (size_t i = 0; i < frames.size(); ++i)
            expected.push_back(one.send(frames[i], i % 5 == 2));
    }
    Sender ring(s, space(), 20, 3);
    std::atomic<int> finished{0}, released{0};
    std::thread releaser([&] {
        while (released < static_cast<int>(frames.size()))
            if (finished > released) {
                CUS_EXPECT_OK(cusSenderRelease(ring.sender));
                ++released;
            } else {
                std::this_thread::yield();
            }
    });
    size_t next = 0;
    for (size_t i = 0; i < frames.size();) {
        if (next < frames.size()) {
            cusMat mat = CUS_MAT_INIT;
            CUS_EXPECT_OK(cusMatWrap(&mat, s.rows, s.cols, CUS_8UC3, CUS_HOST, frames[next].data(), 0));
            const cusStatus status = cusSenderSubmit(ring.sender, &mat, next % 5 == 2, nullptr);
            if (status == CUS_OK) {
                ++next;
                if (next - i < 2)
                    continue; // always one under way
            } else {
                EXPECT_EQ(status, CUS_ERROR_CAPACITY) << cusLastError();
                std::this_thread::yield();
            }
        }
        if (next > i) {
            cusSentFrame f = {};
            CUS_EXPECT_OK(cusSenderFinish(ring.sender, &f));
            const Packed p = copyOf(f, s);
            EXPECT_EQ(p.sequence, expected[i].sequence);
            EXPECT_EQ(p.message, expected[i].message) << "frame " << i;
            EXPECT_EQ(p.key, expected[i].key) << "frame " << i;
            EXPECT_EQ(p.values, expected[i].values);
            ++i;
            ++finished;
        }
    }
    releaser.join();
}

TEST(LiveSender, CpuAndGpuSendTheSameBytes) {
    NEEDS_ZSTD();
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    const reference::Shape s{241, 643, 3};
    Sender host(s, CUS_HOST), device(s, CUS_DEVICE);
    Bytes frame = support::randomBytes(s.bytes(), random);
    for (int k = 0; k < 8; ++k) {
        const Packed a = host.send(frame, k == 3), b = device.send(frame, k == 3);
        ASSERT_EQ(a.message, b.message) << "frame " << k;
        ASSERT_EQ(a.key, b.key) << "frame " << k;
        ASSERT_EQ(a.mask, b.mask);
        ASSERT_EQ(a.values, b.values);
        advance(frame, k == 5 ? 0.9 : 0.04, random); // a cut among small changes
    }
}

// Noise cannot be compressed: then the raw picture goes out, never more.
TEST(LiveSender, FallsBackWhereThatIsSmaller) {
    NEEDS_ZSTD();
    std::mt19937_64 random(7);
    const reference::Shape s{100, 100, 3};
    Sender sender(s, CUS_HOST, 0);
    Bytes frame(s.bytes());
    const auto noise = [&] { std::generate(frame.begin(), frame.end(), [&] { return static_cast<uint8_t>(random()); }); };
    const auto parse = [](const Packed &p) {
        cusWireHeader h = {};
        CUS_EXPECT_OK(cusWireParse(p.message.data(), &h));
        return h;
    };
    noise();
    const Packed first = sender.send(frame);
    EXPECT_EQ(parse(first).type, CUS_WIRE_KEY_FRAME);
    EXPECT_EQ(parse(first).encoding, CUS_WIRE_RAW);
    noise();
    const Packed all = sender.send(frame);
    EXPECT_EQ(parse(all).type, CUS_WIRE_KEY_FRAME);
    EXPECT_EQ(all.message.size(), CUS_WIRE_HEADER_BYTES + s.bytes());
    EXPECT_GT(all.values.size(), s.bytes() * 9 / 10);
    const Packed same = sender.send(frame);
    EXPECT_EQ(parse(same).type, CUS_WIRE_DIFFERENCE);
    EXPECT_EQ(parse(same).encoding, CUS_WIRE_ZSTD);
    EXPECT_TRUE(same.values.empty());
    EXPECT_LT(same.message.size(), CUS_WIRE_HEADER_BYTES + 64u);
    std::fill(frame.begin(), frame.end(), static_cast<uint8_t>(3)); // to one color: the picture says it shorter
    EXPECT_EQ(parse(sender.send(frame)).type, CUS_WIRE_KEY_FRAME);

    // A mask and values that Zstandard cannot shorten go as they are.
    Sender tiny({1, 8, 1}, CUS_HOST, 0);
    tiny.send(Bytes(8, 0));
    const Packed one = tiny.send({0, 0, 0, 9, 0, 0, 0, 0});
    EXPECT_EQ(parse(one).encoding, CUS_WIRE_RAW);
    EXPECT_EQ(Bytes(one.message.begin() + CUS_WIRE_HEADER_BYTES, one.message.end()), (Bytes{8, 9}));
}

TEST(LiveSender, NoiseFilterHoldsBackSinglePixels) {
    NEEDS_ZSTD();
    cusSenderOptions options = cusSenderDefaults();
    options.diff.min_neighbors = 2;
    cusSender *sender = nullptr;
    CUS_ASSERT_OK(cusSenderCreate(&sender, 20, 20, CUS_8UC1, CUS_HOST, &options));
    Bytes frame(400, 10);
    cusMat mat = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatWrap(&mat, 20, 20, CUS_8UC1, CUS_HOST, frame.data(), 0));
    const auto changes = [&] {
        cusSentFrame f = {};
        CUS_EXPECT_OK(cusSenderSubmit(sender, &mat, 0, nullptr));
        CUS_EXPECT_OK(cusSenderFinish(sender, &f));
        CUS_EXPECT_OK(cusSenderRelease(sender));
        return f.count;
    };
    EXPECT_EQ(changes(), 0u);
    frame[5 * 20 + 5] = 200;
    EXPECT_EQ(changes(), 0u);
    frame[5 * 20 + 6] = frame[6 * 20 + 5] = 200;
    EXPECT_EQ(changes(), 3u);
    cusSenderDestroy(sender);
}

// ---- Viewers of all kinds ----------------------------------------------------------------------------------------------

TEST(LivePeer, LateJoinerStartsFromTheReference) {
    NEEDS_ZSTD();
    auto random = support::generator();
    const reference::Shape s{48, 64, 3};
    Sender sender(s, CUS_HOST);
    Bytes frame = support::randomBytes(s.bytes(), random);
    for (int k = 0; k < 10; ++k, advance(frame, 0.02, random))
        sender.send(frame);
    Peer peer(s);
    Viewer viewer;
    connect(peer, viewer);
    EXPECT_TRUE(peer.info().wants_key_frame);
    peer.offer(sender.send(frame)); // without a key frame: nothing to send yet
    EXPECT_TRUE(peer.take().empty());
    advance(frame, 0.02, random);
    const Packed keyed = sender.send(frame, true);
    EXPECT_NE(sender.reference(), frame); // or the test would not tell the reference from the camera's frame
    peer.offer(keyed);
    EXPECT_FALSE(peer.info().wants_key_frame);
    CUS_ASSERT_OK(viewer.feed(peer.take()));
    EXPECT_TRUE(viewer.info().is_key_frame);
    EXPECT_EQ(viewer.info().sequence, 12u);
    EXPECT_EQ(viewer.picture(), sender.reference());
    advance(frame, 0.02, random);
    peer.offer(sender.send(frame));
    CUS_ASSERT_OK(viewer.feed(peer.take()));
    EXPECT_FALSE(viewer.info().is_key_frame);
    EXPECT_EQ(viewer.picture(), sender.reference());
}

TEST(LivePeer, SlowViewerGetsOneDifferenceForMany) {
    NEEDS_ZSTD();
    auto random = support::generator();
    const reference::Shape s{61, 47, 3};
    Sender sender(s, CUS_HOST, 5);
    Peer peer(s);
    Viewer viewer;
    connect(peer, viewer);
    Bytes frame = support::randomBytes(s.bytes(), random);
    Packed packed;
    size_t most = 0;
    for (int k = 0; k < 200; ++k) { // nobody reads
        packed = sender.send(frame);
        peer.offer(packed);
        const uint8_t *data;
        size_t bytes;
        CUS_ASSERT_OK(cusPeerOutput(peer.peer, &data, &bytes));
        most = std::max(most, bytes);
        advance(frame, 0.02, random);
    }
    EXPECT_TRUE(peer.info().behind);
    EXPECT_EQ(peer.info().sequence, 16u);
    EXPECT_LE(most, 2 * (CUS_WIRE_HEADER_BYTES + s.bytes() * 9 / 8 + 64) + 200); // what is promised: it never grows
    int frames = 0;
    const auto count = [&](cusViewerUpdate e) { frames += e == CUS_VIEWER_FRAME; };
    CUS_ASSERT_OK(viewer.feed(peer.take(), count, 777));
    EXPECT_EQ(frames, 16);
    EXPECT_EQ(viewer.info().sequence, 16u);
    CUS_ASSERT_OK(viewer.feed(peer.take(), count)); // and now the rest, at once
    EXPECT_EQ(frames, 17);
    EXPECT_EQ(viewer.info().sequence, 200u);
    EXPECT_EQ(viewer.picture(), sender.reference());
    EXPECT_FALSE(peer.info().behind);
    EXPECT_EQ(peer.info().coalesced, 184u);
    advance(frame, 0.02, random);
    peer.offer(sender.send(frame)); // back to every frame
    CUS_ASSERT_OK(viewer.feed(peer.take(), count));
    EXPECT_EQ(viewer.info().sequence, 201u);
    EXPECT_EQ(viewer.picture(), sender.reference());
}

// Eight viewers that read at random paces, one that joins, one that leaves: each shows the reference of the frame it has.
TEST(LivePeer, EightViewersAtRandomPaces) {
    NEEDS_ZSTD();
    auto random = support::generator();
    const reference::Shape s{40, 60, 4};
    Sender sender(s, CUS_HOST, 8);
    struct Connection {
        explicit Connection(reference::Shape shape) : peer(std::make_unique<Peer>(shape)) {}
        std::unique_ptr<Peer> peer;
        Viewer viewer;
        Bytes wire;
        int frames = 0;
    };
    std::vector<std::unique_ptr<Connection>> all;
    for (int i = 0; i < 8; ++i)
        all.push_back(std::make_unique<Connection>(s));
    std::vector<Bytes> truth(1); // truth[k] is the reference after frame k
    Bytes frame = support::randomBytes(s.bytes(), random);
    const auto pump = [&](Connection &c, size_t most) {
        const Bytes back = c.viewer.take();
        CUS_ASSERT_OK(cusPeerInput(c.peer->peer, back.data(), back.size()));
        const Bytes part = c.peer->take(most);
        CUS_ASSERT_OK(c.viewer.feed(part, [&](cusViewerUpdate e) {
            if (e != CUS_VIEWER_FRAME)
                return;
            ++c.frames;
            ASSERT_EQ(c.viewer.picture(), truth[c.viewer.info().sequence]);
        }));
    };
    for (int k = 1; k <= 150; ++k) {
        bool key = false;
        for (auto &c : all)
            key |= c->peer->info().wants_key_frame != 0;
        const Packed packed = sender.send(frame, key);
        truth.push_back(sender.reference());
        for (size_t i = 0; i < all.size(); ++i) {
            all[i]->peer->offer(packed);
            if (i == 7 && k < 90)
                continue; // has not connected yet
            pump(*all[i], i == 0 ? SIZE_MAX : random() % 3 ? random() % 300 : random() % 3000);
        }
        if (k == 60)
            all[3] = std::make_unique<Connection>(s); // killed, and another comes
        if (k == 80) {                                // its connection breaks, it comes again
            CUS_ASSERT_OK(cusViewerReconnect(all[5]->viewer.viewer));
            all[5]->peer = std::make_unique<Peer>(s);
        }
        advance(frame, 0.05, random);
    }
    for (auto &c : all) {
        CUS_ASSERT_OK(cusPeerFinish(c->peer->peer));
        for (int i = 0; i < 20; ++i)
            pump(*c, SIZE_MAX);
        EXPECT_EQ(c->viewer.info().sequence, 150u);
        EXPECT_EQ(c->viewer.picture(), truth[150]);
    }
    EXPECT_EQ(all[0]->frames, 149); // from the key frame on all of them: its hello came after the first
}

TEST(LiveViewer, MissingBaseAsksForAKeyFrame) {
    NEEDS_ZSTD();
    auto random = support::generator();
    const reference::Shape s{20, 30, 1};
    Sender sender(s, CUS_HOST);
    Peer peer(s);
    Viewer viewer;
    connect(peer, viewer);
    Bytes frame = support::randomBytes(s.bytes(), random);
    peer.offer(sender.send(frame));
    CUS_ASSERT_OK(viewer.feed(peer.take()));
    const Bytes before = viewer.picture();
    advance(frame, 0.2, random);
    peer.offer(sender.send(frame));
    peer.take(); // lost
    std::vector<cusViewerUpdate> events;
    for (int k = 0; k < 3; ++k) {
        advance(frame, 0.2, random);
        peer.offer(sender.send(frame));
        CUS_ASSERT_OK(viewer.feed(peer.take(), [&](cusViewerUpdate e) { events.push_back(e); }));
    }
    EXPECT_EQ(events, (std::vector<cusViewerUpdate>(3, CUS_VIEWER_MISSING)));
    EXPECT_EQ(viewer.picture(), before);
    const Bytes request = viewer.take();
    EXPECT_EQ(request, simple(CUS_WIRE_REQUEST_KEY_FRAME, 1)); // once, not three times
    CUS_ASSERT_OK(cusPeerInput(peer.peer, request.data(), request.size()));
    EXPECT_TRUE(peer.info().wants_key_frame);
    advance(frame, 0.2, random);
    peer.offer(sender.send(frame, true));
    CUS_ASSERT_OK(viewer.feed(peer.take()));
    EXPECT_EQ(viewer.picture(), sender.reference());
}

TEST(LivePeer, AGapInTheOfferedFramesNeedsAKeyFrame) {
    NEEDS_ZSTD();
    auto random = support::generator();
    const reference::Shape s{9, 9, 1};
    Sender sender(s, CUS_HOST, 0);
    Peer peer(s);
    Viewer viewer;
    connect(peer, viewer);
    Bytes frame = support::randomBytes(s.bytes(), random);
    peer.offer(sender.send(frame));
    sender.send(frame); // not offered
    peer.offer(sender.send(frame));
    EXPECT_TRUE(peer.info().wants_key_frame);
    const Packed last = sender.send(frame, true);
    peer.offer(last);
    EXPECT_FALSE(peer.info().wants_key_frame);
    const cusSentFrame again = last.frame();
    CUS_EXPECT_ERROR(cusPeerOffer(peer.peer, &again), CUS_ERROR_VALUE, "frame 4 comes after frame 4");
}

TEST(LivePeer, ByeOnBothSides) {
    NEEDS_ZSTD();
    const reference::Shape s{4, 4, 1};
    Peer peer(s);
    Viewer viewer;
    connect(peer, viewer);
    CUS_ASSERT_OK(cusPeerFinish(peer.peer));
    std::vector<cusViewerUpdate> events;
    CUS_ASSERT_OK(viewer.feed(peer.take(), [&](cusViewerUpdate e) { events.push_back(e); }));
    EXPECT_EQ(events, std::vector<cusViewerUpdate>{CUS_VIEWER_ENDED});
    EXPECT_TRUE(peer.take().empty());
    CUS_ASSERT_OK(viewer.feed(Bytes(100, 'x'))); // what follows is not looked at
    CUS_ASSERT_OK(cusViewerFinish(viewer.viewer));
    const Bytes bye = viewer.take();
    CUS_ASSERT_OK(cusPeerInput(peer.peer, bye.data(), bye.size()));
    EXPECT_TRUE(peer.info().left);
}

// ---- The other end is not trusted --------------------------------------------------------------------------------------

TEST(LivePeer, BadMessagesEndTheConnection) {
    NEEDS_ZSTD();
    const auto rejects = [](const Bytes &bytes, cusStatus status, const char *text) {
        Peer peer({4, 4, 1});
        cusStatus got = CUS_OK;
        for (size_t i = 0; i < bytes.size() && got == CUS_OK; ++i) // in the smallest pieces
            got = cusPeerInput(peer.peer, &bytes[i], 1);
        CUS_EXPECT_ERROR(got, status, text);
        const uint8_t *data;
        size_t n;
        CUS_EXPECT_ERROR(cusPeerInput(peer.peer, bytes.data(), 1), status, text); // for good
        CUS_EXPECT_ERROR(cusPeerOutput(peer.peer, &data, &n), status, text);
    };
    const Bytes hello = simple(CUS_WIRE_HELLO), request = simple(CUS_WIRE_REQUEST_KEY_FRAME);
    rejects(Bytes(48, 'G'), CUS_ERROR_FORMAT, "another protocol");
    rejects(request, CUS_ERROR_FORMAT, "hello first");
    rejects(join({hello, hello}), CUS_ERROR_FORMAT, "hello first, and once");
    Bytes damaged = hello;
    damaged[45] ^= 1;
    rejects(damaged, CUS_ERROR_FORMAT, "damaged on its way");
    Bytes other = hello;
    other[4] = 9;
    rejects(other, CUS_ERROR_UNSUPPORTED, "version 9");
    // A sender that calls a sender: its hello has a size and a payload.
    cusWireHeader h = {};
    h.type = CUS_WIRE_HELLO;
    h.payload_bytes = h.raw_bytes = 8;
    h.width = h.height = 4;
    h.channels = 1;
    rejects(message(h, Bytes(8)), CUS_ERROR_FORMAT, "a viewer's message of 8 bytes");
    h.type = CUS_WIRE_KEY_FRAME;
    h.sequence = 1;
    h.payload_bytes = h.raw_bytes = 16;
    rejects(join({hello, message(h, Bytes(16))}), CUS_ERROR_FORMAT, "a viewer's message of 16 bytes");
    // Endless messages: each good, all of them a flood.
    Bytes flood = hello;
    for (int i = 0; i < 100; ++i)
        flood.insert(flood.end(), request.begin(), request.end());
    rejects(flood, CUS_ERROR_FORMAT, "floods");
}

class LiveAttack : public testing::Test {
  protected:
    static constexpr int ROWS = 6, COLS = 5; // 15-byte rows: one bit of each row's mask is outside
    void SetUp() override {
        NEEDS_ZSTD();
        cusWireHeader h = header(CUS_WIRE_HELLO, 8);
        hello = message(h, Bytes(8));
        h = header(CUS_WIRE_KEY_FRAME, ROWS * COLS * 3);
        h.sequence = 1;
        picture.assign(static_cast<size_t>(ROWS) * COLS * 3, 50);
        Bytes payload(picture.size(), 0); // each row minus the one above
        std::fill_n(payload.begin(), COLS * 3, static_cast<uint8_t>(50));
        key = message(h, payload);
    }
    static cusWireHeader header(cusWireType type, uint32_t raw) {
        cusWireHeader h = {};
        h.type = type;
        h.payload_bytes = h.raw_bytes = raw;
        h.width = COLS;
        h.height = ROWS;
        h.channels = 3;
        return h;
    }
    static cusWireHeader difference(uint32_t raw) {
        cusWireHeader h = header(CUS_WIRE_DIFFERENCE, raw);
        h.sequence = 2;
        h.base = 1;
        return h;
    }
    void rejects(const Bytes &bad, cusStatus status, const char *text) {
        Viewer viewer;
        CUS_ASSERT_OK(viewer.feed(join({hello, key})));
        ASSERT_EQ(viewer.picture(), picture);
        CUS_EXPECT_ERROR(viewer.feed(bad), status, text);
        EXPECT_EQ(viewer.picture(), picture); // not even half of it
        CUS_EXPECT_ERROR(viewer.feed(key), status, text);
        CUS_ASSERT_OK(cusViewerReconnect(viewer.viewer));
        CUS_EXPECT_OK(viewer.feed(join({hello, key})));
    }
    Bytes hello, key, picture;
};

TEST_F(LiveAttack, MasksThatDoNotFitTheirValues) {
    Bytes payload(12 + 2);
    payload[0] = 3;
    payload[12] = 7;
    Viewer viewer;
    CUS_ASSERT_OK(viewer.feed(join({hello, key, message(difference(14), payload)})));
    EXPECT_EQ(viewer.picture()[0], 57);
    payload[0] = 1;
    rejects(message(difference(14), payload), CUS_ERROR_FORMAT, "mask does not go with its 2 values");
    payload[0] = 7;
    rejects(message(difference(14), payload), CUS_ERROR_FORMAT, "mask does not go with its 2 values");
    payload[0] = 1;
    payload[11] = 0x80; // the byte after the last row's end
    rejects(message(difference(14), payload), CUS_ERROR_FORMAT, "mask does not go with");
    payload[11] = 0;
    payload[1] = 0x80; // past the first row's end: a byte of the second row, were it believed
    rejects(message(difference(14), payload), CUS_ERROR_FORMAT, "mask does not go with");
}

TEST_F(LiveAttack, SizesThatAreNotTheHandshakes) {
    cusWireHeader h = header(CUS_WIRE_KEY_FRAME, ROWS * COLS * 3);
    h.sequence = 2;
    h.width = ROWS; // the same area
    h.height = COLS;
    rejects(message(h, picture), CUS_ERROR_FORMAT, "a frame of 6 x 5 with 3 channels, the handshake said 5 x 6 with 3");
    h = header(CUS_WIRE_KEY_FRAME, ROWS * COLS);
    h.sequence = 2;
    h.channels = 1;
    rejects(message(h, Bytes(30)), CUS_ERROR_FORMAT, "with 1 channels");
    h = header(CUS_WIRE_KEY_FRAME, 4000 * 3000 * 3);
    h.sequence = 2;
    h.width = 4000;
    h.height = 3000;
    h.encoding = CUS_WIRE_ZSTD;
    h.payload_bytes = 100;
    rejects(message(h, Bytes(100)), CUS_ERROR_FORMAT, "a frame of 4000 x 3000"); // before any of it is waited for
    rejects(hello, CUS_ERROR_FORMAT, "hello again");
    rejects(key, CUS_ERROR_FORMAT, "frame 1 comes after frame 1");
    rejects(simple(CUS_WIRE_REQUEST_KEY_FRAME), CUS_ERROR_FORMAT, "a sender sends no message of type 5");
}

TEST_F(LiveAttack, PayloadsThatDoNotDecompressToTheirSize) {
    // A real one, to make bad ones of: 60 KB of black in a few bytes.
    Sender big({20, 1000, 3}, CUS_HOST);
    const Packed black = big.send(Bytes(60000));
    const Bytes bomb(black.message.begin() + CUS_WIRE_HEADER_BYTES, black.message.end());
    ASSERT_LT(bomb.size(), 80u);
    cusWireHeader h = header(CUS_WIRE_KEY_FRAME, ROWS * COLS * 3);
    h.sequence = 2;
    h.encoding = CUS_WIRE_ZSTD;
    h.payload_bytes = static_cast<uint32_t>(bomb.size());
    rejects(message(h, bomb), CUS_ERROR_FORMAT, "no Zstandard data of 90 bytes"); // the bomb
    Bytes junk(60, 0x5a);
    h.payload_bytes = 60;
    rejects(message(h, junk), CUS_ERROR_FORMAT, "no Zstandard data");
    // Cut off, and too short when whole.
    Sender small({ROWS, COLS, 3}, CUS_HOST);
    const Packed good = small.send(Bytes(90, 4));
    ASSERT_LT(good.message.size(), 48u + 90u);
    Bytes cut(good.message.begin() + CUS_WIRE_HEADER_BYTES, good.message.end() - 1);
    h.payload_bytes = static_cast<uint32_t>(cut.size());
    rejects(message(h, cut), CUS_ERROR_FORMAT, "no Zstandard data of 90 bytes");
    Sender smaller({ROWS, COLS - 1, 3}, CUS_HOST);
    const Packed shorter = smaller.send(Bytes(72, 4));
    Bytes less(shorter.message.begin() + CUS_WIRE_HEADER_BYTES, shorter.message.end());
    h.payload_bytes = static_cast<uint32_t>(less.size());
    rejects(message(h, less), CUS_ERROR_FORMAT, "no Zstandard data of 90 bytes");
}

TEST_F(LiveAttack, BeforeTheHandshakeNothingElseIsTaken) {
    for (const Bytes &first : {key, simple(CUS_WIRE_BYE)}) {
        Viewer viewer;
        CUS_EXPECT_ERROR(viewer.feed(first), CUS_ERROR_FORMAT, "does not say hello first");
    }
    Viewer viewer;
    CUS_EXPECT_ERROR(viewer.feed(simple(CUS_WIRE_HELLO)), CUS_ERROR_FORMAT, "no sender");
    Viewer careful(89);
    CUS_EXPECT_ERROR(careful.feed(hello), CUS_ERROR_SIZE, "has 90 bytes, the limit is 89");
    cusMat view = CUS_MAT_INIT;
    CUS_EXPECT_ERROR(cusViewerPicture(careful.viewer, &view), CUS_ERROR_VALUE, "not connected"); // nothing was allocated
}

// A session in which one byte at a time is another: what is shown is always a picture that was sent, under its own number.
TEST_F(LiveAttack, AChangedByteNeverShowsAWrongPicture) {
    auto random = support::generator();
    const reference::Shape s{ROWS, COLS, 3};
    Sender sender(s, CUS_HOST, 3);
    Peer peer(s);
    Viewer first;
    const Bytes greeting = first.take();
    CUS_ASSERT_OK(cusPeerInput(peer.peer, greeting.data(), greeting.size()));
    Bytes frame = support::randomBytes(s.bytes(), random), wire;
    std::vector<Bytes> truth(1);
    for (int k = 0; k < 4; ++k) {
        peer.offer(sender.send(frame));
        truth.push_back(sender.reference());
        advance(frame, 0.2, random);
    }
    CUS_ASSERT_OK(cusPeerFinish(peer.peer));
    wire = peer.take();
    size_t unnoticed = 0;
    for (size_t at = 0; at < wire.size(); ++at)
        for (uint8_t change : {uint8_t{1}, uint8_t{0x80}, static_cast<uint8_t>(1 + random() % 255)}) {
            Bytes changed = wire;
            changed[at] ^= change;
            Viewer viewer;
            bool ended = false;
            const cusStatus status = viewer.feed(changed, [&](cusViewerUpdate e) {
                ended |= e == CUS_VIEWER_ENDED;
                if (e == CUS_VIEWER_FRAME) {
                    const uint64_t n = viewer.info().sequence;
                    ASSERT_LT(n, truth.size());
                    ASSERT_EQ(viewer.picture(), truth[n]) << "byte " << at << " changed by " << int{change};
                }
            });
            unnoticed += status == CUS_OK && ended;
        }
    EXPECT_EQ(unnoticed, 0u);
}

TEST(LiveFuzz, CorpusStillPasses) {
    NEEDS_ZSTD();
    int files = 0;
    for (const char *target : {"viewer", "peer"})
        for (const auto &entry :
             std::filesystem::directory_iterator(std::string(CUSIGHT_SOURCE_DIR "/fuzz/corpus/live_") + target)) {
            std::ifstream in(entry.path(), std::ios::binary);
            const Bytes data((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
            if (std::string(target) == "viewer")
                fuzz::viewer(data.data(), data.size());
            else
                fuzz::peer(data.data(), data.size());
            ++files;
        }
    EXPECT_GT(files, 10);
}

// ---- Arguments ---------------------------------------------------------------------------------------------------------

TEST(LiveArguments, AreChecked) {
    if (!haveZstd()) {
        cusPeer *none = nullptr;
        CUS_EXPECT_ERROR(cusPeerCreate(&none, 4, 4, CUS_8UC1, 0), CUS_ERROR_UNSUPPORTED, "no libzstd");
        GTEST_SKIP() << "built without libzstd";
    }
    cusSender *sender = nullptr;
    CUS_EXPECT_ERROR(cusSenderCreate(nullptr, 4, 4, CUS_8UC1, CUS_HOST, nullptr), CUS_ERROR_NULL, "sender is NULL");
    CUS_EXPECT_ERROR(cusSenderCreate(&sender, 0, 4, CUS_8UC1, CUS_HOST, nullptr), CUS_ERROR_VALUE, "frame is 0 x 4");
    CUS_EXPECT_ERROR(cusSenderCreate(&sender, 4, 4, CUS_16UC1, CUS_HOST, nullptr), CUS_ERROR_TYPE, "16UC1, takes 8UC1");
    CUS_EXPECT_ERROR(cusSenderCreate(&sender, 4, 32769, CUS_8UC1, CUS_HOST, nullptr), CUS_ERROR_SIZE, "32768 a side");
    CUS_EXPECT_ERROR(cusSenderCreate(&sender, 32768, 32768, CUS_8UC3, CUS_HOST, nullptr), CUS_ERROR_SIZE,
                     "1073741824 bytes");
    CUS_EXPECT_ERROR(cusSenderCreate(&sender, 4, 4, CUS_8UC1, static_cast<cusSpace>(7), nullptr), CUS_ERROR_VALUE,
                     "space is 7");
    cusSenderOptions options = cusSenderDefaults();
    options.compression_level = 20;
    CUS_EXPECT_ERROR(cusSenderCreate(&sender, 4, 4, CUS_8UC1, CUS_HOST, &options), CUS_ERROR_VALUE,
                     "compression_level is 20");
    options = cusSenderDefaults();
    options.max_in_flight = 1;
    CUS_EXPECT_ERROR(cusSenderCreate(&sender, 4, 4, CUS_8UC1, CUS_HOST, &options), CUS_ERROR_VALUE, "max_in_flight is 1");
    options = cusSenderDefaults();
    options.diff.threshold = 256;
    CUS_EXPECT_ERROR(cusSenderCreate(&sender, 4, 4, CUS_8UC1, CUS_HOST, &options), CUS_ERROR_VALUE, "threshold is 256");
    EXPECT_EQ(sender, nullptr);

    options = cusSenderDefaults();
    options.max_in_flight = 2;
    CUS_ASSERT_OK(cusSenderCreate(&sender, 4, 6, CUS_8UC3, CUS_HOST, &options));
    cusSentFrame packed = {};
    CUS_EXPECT_ERROR(cusSenderFinish(sender, &packed), CUS_ERROR_VALUE, "no frame was submitted");
    CUS_EXPECT_ERROR(cusSenderRelease(sender), CUS_ERROR_VALUE, "no frame to give back");
    support::TestMat right(4, 6, CUS_8UC3, CUS_HOST), narrow(4, 5, CUS_8UC3, CUS_HOST), gray(4, 6, CUS_8UC1, CUS_HOST);
    CUS_EXPECT_ERROR(cusSenderSubmit(sender, &narrow.mat, 0, nullptr), CUS_ERROR_SIZE, "4 x 5 (rows x cols), takes 4 x 6");
    CUS_EXPECT_ERROR(cusSenderSubmit(sender, &gray.mat, 0, nullptr), CUS_ERROR_TYPE, "8UC1, takes 8UC3");
    CUS_ASSERT_OK(cusSenderSubmit(sender, &right.mat, 0, nullptr));
    CUS_ASSERT_OK(cusSenderSubmit(sender, &right.mat, 0, nullptr));
    CUS_EXPECT_ERROR(cusSenderSubmit(sender, &right.mat, 0, nullptr), CUS_ERROR_CAPACITY, "2 frames are under way");
    CUS_ASSERT_OK(cusSenderFinish(sender, &packed));
    CUS_EXPECT_ERROR(cusSenderSubmit(sender, &right.mat, 0, nullptr), CUS_ERROR_CAPACITY, "2 frames are under way");
    CUS_ASSERT_OK(cusSenderRelease(sender));
    CUS_EXPECT_OK(cusSenderSubmit(sender, &right.mat, 0, nullptr));
    cusSenderDestroy(sender);
    if (!support::haveGpu()) {
        sender = nullptr;
        EXPECT_EQ(cusSenderCreate(&sender, 4, 4, CUS_8UC1, CUS_DEVICE, nullptr), CUS_ERROR_NO_CUDA);
        EXPECT_EQ(sender, nullptr);
    }

    cusPeer *peer = nullptr;
    CUS_EXPECT_ERROR(cusPeerCreate(nullptr, 4, 4, CUS_8UC1, 0), CUS_ERROR_NULL, "peer is NULL");
    CUS_EXPECT_ERROR(cusPeerCreate(&peer, 4, 4, CUS_8SC1, 0), CUS_ERROR_TYPE, "8SC1");
    CUS_ASSERT_OK(cusPeerCreate(&peer, 4, 4, CUS_8UC1, 0));
    CUS_EXPECT_ERROR(cusPeerInput(peer, nullptr, 1), CUS_ERROR_NULL, "data is NULL");
    CUS_EXPECT_ERROR(cusPeerSent(peer, 1), CUS_ERROR_VALUE, "1 bytes, there were 0");
    const cusSentFrame empty = {};
    CUS_EXPECT_ERROR(cusPeerOffer(peer, &empty), CUS_ERROR_NULL, "frame is empty");
    cusPeerDestroy(peer);

    cusViewer *viewer = nullptr;
    cusViewerOptions limits = cusViewerDefaults();
    limits.max_frame_bytes = 0;
    CUS_EXPECT_ERROR(cusViewerCreate(&viewer, &limits), CUS_ERROR_VALUE, "max_frame_bytes is 0");
    cusSenderDestroy(nullptr);
    cusPeerDestroy(nullptr);
    cusViewerDestroy(nullptr);
}

// ---- A real video ------------------------------------------------------------------------------------------------------

#ifdef HAVE_VIDEOIO
TEST_P(Live, VtestFitsThirtyKilobytesAFrame) {
    NEEDS_ZSTD();
    cv::VideoCapture video(support::dataFolder() + "/vtest.avi");
    cv::Mat frame;
    if (support::dataFolder().empty() || !video.read(frame))
        GTEST_SKIP() << "no vtest.avi in CUSIGHT_TEST_DATA ('" << support::dataFolder() << "')";
    const reference::Shape s{frame.rows, frame.cols, 3};
    Sender sender(s, space());
    Peer peer(s);
    Viewer viewer;
    connect(peer, viewer);
    uint64_t bytes = 0, frames = 0;
    do {
        const Packed packed = sender.send(Bytes(frame.datastart, frame.dataend));
        bytes += packed.message.size();
        ++frames;
        peer.offer(packed);
        CUS_ASSERT_OK(viewer.feed(peer.take()));
        ASSERT_EQ(viewer.info().sequence, frames);
        ASSERT_TRUE(viewer.picture() == sender.reference()) << "frame " << frames;
    } while (video.read(frame));
    EXPECT_EQ(frames, 795u);
    EXPECT_LE(bytes / frames, 30000u);
    RecordProperty("bytes_a_frame", static_cast<int>(bytes / frames));
    std::printf("%llu frames, %.1f kB a frame\n", static_cast<unsigned long long>(frames),
                1e-3 * static_cast<double>(bytes / frames));
}
#endif

} // namespace
