// Live video: the wire format, messages from an untrusted other end, fuzz seeds.
#include "live/support.hpp"

#include "../../fuzz/live_targets.hpp"
#include "reference/live.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

using namespace live_test;

namespace {

TEST(LiveWire, ChecksumIsCrc32c) {
    EXPECT_EQ(cusCrc32c(0, "123456789", 9), 0xE3069283u); // the check value in CRC catalogs
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
    rejects(4, {2, 0}, CUS_ERROR_UNSUPPORTED, "the other end speaks version 2 of the format, this program version 1");
    rejects(6, {0}, CUS_ERROR_FORMAT, "unknown type 0");
    rejects(6, {8}, CUS_ERROR_FORMAT, "unknown type 8");
    rejects(7, {2}, CUS_ERROR_FORMAT, "unknown encoding 2");
    rejects(41, {1}, CUS_ERROR_FORMAT, "reserved");
    rejects(43, {1}, CUS_ERROR_FORMAT, "reserved");
    rejects(40, {2}, CUS_ERROR_FORMAT, "with 2 channels");
    rejects(32, {0, 0, 0, 0}, CUS_ERROR_FORMAT, "outside the format's limits");
    rejects(32, {1, 0x80, 0, 0}, CUS_ERROR_FORMAT, "frame of 32769 x 2");
    rejects(36, {0xff, 0xff, 0xff, 0xff}, CUS_ERROR_FORMAT, "outside the format's limits");
    // Each side is within its limit, but not the product.
    rejects(32, {0, 0x80, 0, 0, 0, 0x80, 0, 0}, CUS_ERROR_FORMAT, "outside the format's limits");
    // Lengths that wrap when 1, or the size of the header, is added.
    rejects(8, {0xff, 0xff, 0xff, 0xff}, CUS_ERROR_FORMAT, "payload of 4294967295 bytes");
    rejects(8, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, CUS_ERROR_FORMAT, "key frame of 4294967295 bytes");
    rejects(8, {0xd0, 0xff, 0xff, 0xff, 0xd0, 0xff, 0xff, 0xff}, CUS_ERROR_FORMAT, "key frame of");
    rejects(8, {25, 0, 0, 0}, CUS_ERROR_FORMAT, "payload of 25 bytes cannot decode to 24");
    rejects(8, {23, 0, 0, 0}, CUS_ERROR_FORMAT, "payload of 23 bytes cannot decode to 24");
    rejects(7, {1, 24, 0, 0, 0}, CUS_ERROR_FORMAT,
            "payload of 24 bytes cannot decode to 24"); // compressed, but not smaller
    rejects(7, {1, 0, 0, 0, 0}, CUS_ERROR_FORMAT, "payload of 0 bytes");
    rejects(16, {0}, CUS_ERROR_FORMAT, "sequence number 0");
    rejects(24, {1}, CUS_ERROR_FORMAT, "base 1");
    // Another rectangle of the same area is rejected by the viewer; here the byte count must match the rectangle.
    rejects(32, {5}, CUS_ERROR_FORMAT, "key frame of 24 bytes, expected 30");
    // As a difference: 4 mask bytes and at most 24 values; base before sequence.
    rejects(6, {3}, CUS_ERROR_FORMAT, "sequence number 1 and base 0");
    rejects(6, {3, 0, 3, 0, 0, 0, 3, 0, 0, 0}, CUS_ERROR_FORMAT, "difference of 3 bytes, expected 4 to 28");
    rejects(6, {3, 0, 29, 0, 0, 0, 29, 0, 0, 0}, CUS_ERROR_FORMAT, "difference of 29 bytes, expected 4 to 28");
    rejects(6, {3, 0, 24, 0, 0, 0, 24, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5}, CUS_ERROR_FORMAT,
            "sequence number 5 and base 5");
    rejects(6, {4}, CUS_ERROR_FORMAT, "type 4 with 24 bytes");
    rejects(6, {5}, CUS_ERROR_FORMAT, "type 5 with 24 bytes");
    rejects(6, {1}, CUS_ERROR_FORMAT, "hello of 24 bytes");
}

// ---- The other end is not trusted ---------------------------------------------------------------------------------------

TEST(LivePeer, BadMessagesEndTheConnection) {
    NEEDS_ZSTD();
    const auto rejects = [](const Bytes &bytes, cusStatus status, const char *text) {
        Peer peer({4, 4, 1});
        cusStatus got = CUS_OK;
        for (size_t i = 0; i < bytes.size() && got == CUS_OK; ++i) // byte by byte
            got = cusPeerInput(peer.peer, &bytes[i], 1);
        CUS_EXPECT_ERROR(got, status, text);
        const uint8_t *data;
        size_t n;
        CUS_EXPECT_ERROR(cusPeerInput(peer.peer, bytes.data(), 1), status, text); // from now on
        CUS_EXPECT_ERROR(cusPeerOutput(peer.peer, &data, &n), status, text);
    };
    const Bytes hello = simple(CUS_WIRE_HELLO), request = simple(CUS_WIRE_REQUEST_KEY_FRAME);
    rejects(Bytes(48, 'G'), CUS_ERROR_FORMAT, "another protocol");
    rejects(request, CUS_ERROR_FORMAT, "expected one hello");
    rejects(join({hello, hello}), CUS_ERROR_FORMAT, "expected one hello, as the viewer's first message");
    Bytes damaged = hello;
    damaged[45] ^= 1;
    rejects(damaged, CUS_ERROR_FORMAT, "damaged in transit");
    Bytes other = hello;
    other[4] = 9;
    rejects(other, CUS_ERROR_UNSUPPORTED, "version 9");
    // A sender connected to a sender: its hello has a size and a payload.
    cusWireHeader h = {};
    h.type = CUS_WIRE_HELLO;
    h.payload_bytes = h.raw_bytes = 8;
    h.width = h.height = 4;
    h.channels = 1;
    rejects(message(h, Bytes(8)), CUS_ERROR_FORMAT, "a viewer's message has a payload of 8 bytes");
    h.type = CUS_WIRE_KEY_FRAME;
    h.sequence = 1;
    h.payload_bytes = h.raw_bytes = 16;
    rejects(join({hello, message(h, Bytes(16))}), CUS_ERROR_FORMAT, "a viewer's message has a payload of 16 bytes");
    // Endless valid messages.
    Bytes flood = hello;
    for (int i = 0; i < 100; ++i)
        flood.insert(flood.end(), request.begin(), request.end());
    rejects(flood, CUS_ERROR_FORMAT, "floods");
}

class LiveAttack : public testing::Test {
  protected:
    static constexpr int ROWS = 6, COLS = 5; // 15-byte rows: one bit of each row's mask is unused
    void SetUp() override {
        NEEDS_ZSTD();
        cusWireHeader h = header(CUS_WIRE_HELLO, 8);
        hello = message(h, Bytes(8));
        h = header(CUS_WIRE_KEY_FRAME, ROWS * COLS * 3);
        h.sequence = 1;
        image.assign(static_cast<size_t>(ROWS) * COLS * 3, 50);
        Bytes payload(image.size(), 0); // each row minus the one above
        std::fill_n(payload.begin(), COLS * 3, static_cast<uint8_t>(50));
        key_frame = message(h, payload);
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
        CUS_ASSERT_OK(viewer.feed(join({hello, key_frame})));
        ASSERT_EQ(viewer.frame(), image);
        CUS_EXPECT_ERROR(viewer.feed(bad), status, text);
        EXPECT_EQ(viewer.frame(), image); // not even in part
        CUS_EXPECT_ERROR(viewer.feed(key_frame), status, text);
        CUS_ASSERT_OK(cusViewerReconnect(viewer.viewer));
        CUS_EXPECT_OK(viewer.feed(join({hello, key_frame})));
    }
    Bytes hello, key_frame, image;
};

TEST_F(LiveAttack, MasksThatDoNotFitTheirValues) {
    Bytes payload(12 + 2);
    payload[0] = 3;
    payload[12] = 7;
    Viewer viewer;
    CUS_ASSERT_OK(viewer.feed(join({hello, key_frame, message(difference(14), payload)})));
    EXPECT_EQ(viewer.frame()[0], 57);
    payload[0] = 1;
    rejects(message(difference(14), payload), CUS_ERROR_FORMAT, "mask of a difference does not match its 2 values");
    payload[0] = 7;
    rejects(message(difference(14), payload), CUS_ERROR_FORMAT, "mask of a difference does not match its 2 values");
    payload[0] = 1;
    payload[11] = 0x80; // the byte after the last row's end
    rejects(message(difference(14), payload), CUS_ERROR_FORMAT, "mask of a difference does not match");
    payload[11] = 0;
    payload[1] = 0x80; // past the end of the first row: a byte of the second row, if it were used
    rejects(message(difference(14), payload), CUS_ERROR_FORMAT, "mask of a difference does not match");
}

TEST_F(LiveAttack, SizesThatAreNotTheHandshakes) {
    cusWireHeader h = header(CUS_WIRE_KEY_FRAME, ROWS * COLS * 3);
    h.sequence = 2;
    h.width = ROWS; // the same area
    h.height = COLS;
    rejects(message(h, image), CUS_ERROR_FORMAT, "a frame of 6 x 5 with 3 channels, expected 5 x 6 with 3 as in the hello");
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
    rejects(message(h, Bytes(100)), CUS_ERROR_FORMAT, "a frame of 4000 x 3000"); // before any payload is read
    rejects(hello, CUS_ERROR_FORMAT, "said hello twice");
    rejects(key_frame, CUS_ERROR_FORMAT, "frame 1 follows frame 1");
    rejects(simple(CUS_WIRE_REQUEST_KEY_FRAME), CUS_ERROR_FORMAT, "a sender must not send messages of type 5");
}

TEST_F(LiveAttack, PayloadsThatDoNotDecompressToTheirSize) {
    // Valid data to make invalid messages from: 60 KB of zeros in a few bytes.
    Sender big({20, 1000, 3}, CUS_HOST);
    const Packed black = big.send(Bytes(60000));
    const Bytes bomb(black.message.begin() + CUS_WIRE_HEADER_BYTES, black.message.end());
    ASSERT_LT(bomb.size(), 80u);
    cusWireHeader h = header(CUS_WIRE_KEY_FRAME, ROWS * COLS * 3);
    h.sequence = 2;
    h.encoding = CUS_WIRE_ZSTD;
    h.payload_bytes = static_cast<uint32_t>(bomb.size());
    rejects(message(h, bomb), CUS_ERROR_FORMAT, "not Zstandard data of 90 bytes"); // the bomb
    Bytes junk(60, 0x5a);
    h.payload_bytes = 60;
    rejects(message(h, junk), CUS_ERROR_FORMAT, "not Zstandard data");
    // Truncated, and valid but too short.
    Sender small({ROWS, COLS, 3}, CUS_HOST);
    const Packed good = small.send(Bytes(90, 4));
    ASSERT_LT(good.message.size(), 48u + 90u);
    Bytes cut(good.message.begin() + CUS_WIRE_HEADER_BYTES, good.message.end() - 1);
    h.payload_bytes = static_cast<uint32_t>(cut.size());
    rejects(message(h, cut), CUS_ERROR_FORMAT, "not Zstandard data of 90 bytes");
    Sender smaller({ROWS, COLS - 1, 3}, CUS_HOST);
    const Packed shorter = smaller.send(Bytes(72, 4));
    Bytes less(shorter.message.begin() + CUS_WIRE_HEADER_BYTES, shorter.message.end());
    h.payload_bytes = static_cast<uint32_t>(less.size());
    rejects(message(h, less), CUS_ERROR_FORMAT, "not Zstandard data of 90 bytes");
}

// Zstandard's readers also accept frames of older versions and skip application data; a payload must have neither.
TEST_F(LiveAttack, OnlyCurrentZstandardFramesAreRead) {
    Sender small({ROWS, COLS, 3}, CUS_HOST);
    const Packed packed = small.send(Bytes(90, 4));
    const Bytes good(packed.message.begin() + CUS_WIRE_HEADER_BYTES, packed.message.end());
    cusWireHeader h = header(CUS_WIRE_KEY_FRAME, ROWS * COLS * 3);
    h.sequence = 2;
    h.encoding = CUS_WIRE_ZSTD;
    const auto sent = [&](const Bytes &payload) {
        EXPECT_LT(payload.size(), 90u);
        h.payload_bytes = static_cast<uint32_t>(payload.size());
        return message(h, payload);
    };
    Viewer viewer;
    CUS_ASSERT_OK(viewer.feed(join({hello, key_frame, sent(good)})));

    const Bytes skippable = {0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'};
    const Bytes last_skippable = {0x5f, 0x2a, 0x4d, 0x18, 0, 0, 0, 0};
    const Bytes version_07 = {0x27, 0xb5, 0x2f, 0xfd, 0x20, 90, 0x80, 0, 90, 4, 0xc0, 0, 0}; // 90 bytes of 4
    const char *const text = "not Zstandard data of 90 bytes";
    rejects(sent(join({skippable, good})), CUS_ERROR_FORMAT, text);
    rejects(sent(join({good, skippable})), CUS_ERROR_FORMAT, text);
    rejects(sent(join({good, last_skippable})), CUS_ERROR_FORMAT, text);
    rejects(sent(version_07), CUS_ERROR_FORMAT, text);
    rejects(sent(Bytes(good.begin(), good.begin() + 3)), CUS_ERROR_FORMAT, text);
    rejects(sent(join({good, Bytes{0x28, 0xb5}})), CUS_ERROR_FORMAT, text);
}

TEST_F(LiveAttack, MessagesBeforeTheHandshakeAreRejected) {
    for (const Bytes &first : {key_frame, simple(CUS_WIRE_BYE)}) {
        Viewer viewer;
        CUS_REJECTS(viewer.feed(first), FORMAT, "did not say hello first");
    }
    Viewer viewer;
    CUS_REJECTS(viewer.feed(simple(CUS_WIRE_HELLO)), FORMAT, "is not a sender");
    Viewer careful(89);
    CUS_REJECTS(careful.feed(hello), SIZE, "have 90 bytes, max_frame_bytes is 89");
    cusMat view = CUS_MAT_INIT;
    CUS_REJECTS(cusViewerFrame(careful.viewer, &view), VALUE, "not connected"); // nothing was allocated
}

// A session with one byte changed: every frame shown is one that was sent, with its own number.
TEST_F(LiveAttack, AChangedByteNeverShowsAWrongFrame) {
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
                    ASSERT_EQ(viewer.frame(), truth[n]) << "byte " << at << " changed by " << int{change};
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
        for (const auto &entry : std::filesystem::directory_iterator(support::sourceFile("fuzz/seeds/live_") + target)) {
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

} // namespace
