// Live video: checksums of whole pictures, which show that a viewer's picture is the sender's.
#include "live/support.hpp"

#include "reference/live.hpp"

using namespace live_test;

namespace {

const reference::Shape SHAPE{33, 29, 3};

// A sender and a viewer that asks for checksums.
struct Checked {
    explicit Checked(int threshold = 20) : sender(SHAPE, CUS_HOST, threshold), peer(SHAPE), viewer(size_t{1} << 28, 1) {
        frame = support::randomBytes(SHAPE.bytes(), random);
        connect(peer, viewer);
        const Bytes request = viewer.take();
        EXPECT_EQ(request, simple(CUS_WIRE_REQUEST_CHECKSUMS));
        CUS_EXPECT_OK(cusPeerInput(peer.peer, request.data(), request.size()));
    }
    Packed next(bool with_key_frame = false) {
        advance(frame, 0.02, random);
        return sender.send(frame, with_key_frame);
    }
    // Numbers of the frames that were compared.
    std::vector<uint64_t> show(const Bytes &bytes) {
        std::vector<uint64_t> checked;
        CUS_EXPECT_OK(viewer.feed(bytes, [&](cusViewerUpdate update) {
            if (update == CUS_VIEWER_CHECKED)
                checked.push_back(viewer.info().checked);
        }));
        return checked;
    }
    std::mt19937_64 random = support::generator();
    Bytes frame;
    Sender sender;
    Peer peer;
    Viewer viewer;
};

using Numbers = std::vector<uint64_t>;

TEST(LiveChecksums, KeyFramesAndEveryHundredthDifference) {
    NEEDS_ZSTD();
    Checked c(7);
    Numbers checked;
    for (uint64_t k = 1; k <= 205; ++k) {
        const Packed packed = c.next(k == 50);
        const bool expected = k == 1 || k == 50 || k % 100 == 0;
        ASSERT_EQ(packed.has_checksum, expected) << k;
        if (expected) {
            const Bytes reference = c.sender.reference();
            EXPECT_EQ(packed.checksum, reference::crc32c(reference.data(), reference.size()));
            EXPECT_EQ(packed.error_bound, 7);
        }
        c.peer.offer(packed);
        for (const uint64_t number : c.show(c.peer.take())) {
            checked.push_back(number);
            EXPECT_EQ(number, k);
            EXPECT_TRUE(c.viewer.info().exact);
            EXPECT_EQ(c.viewer.info().error_bound, 7);
        }
    }
    EXPECT_EQ(checked, (Numbers{1, 50, 100, 200}));
}

TEST(LiveChecksums, OnlyOnRequest) {
    NEEDS_ZSTD();
    Checked c;
    Peer other(SHAPE);
    Viewer plain;
    connect(other, plain);
    EXPECT_TRUE(plain.take().empty());
    const Packed packed = c.next();
    other.offer(packed);
    EXPECT_EQ(other.take(), packed.key_frame); // nothing else
    c.peer.offer(packed);
    EXPECT_EQ(c.peer.take().size(), packed.key_frame.size() + CUS_WIRE_HEADER_BYTES + 8);
}

TEST(LiveChecksums, APictureThatDiffersIsFound) {
    NEEDS_ZSTD();
    Checked c;
    Packed packed = c.next();
    packed.checksum ^= 0x10;
    c.peer.offer(packed);
    EXPECT_EQ(c.show(c.peer.take()), Numbers{1});
    EXPECT_FALSE(c.viewer.info().exact);
    EXPECT_EQ(c.viewer.frame(), c.sender.reference()); // which is kept
    c.peer.offer(c.next(true));
    EXPECT_EQ(c.show(c.peer.take()), Numbers{2}); // a difference, in a frame that others get as a key frame
    EXPECT_TRUE(c.viewer.info().exact);
}

TEST(LiveChecksums, ThatOfACoalescedDifferenceIsOfItsLastFrame) {
    NEEDS_ZSTD();
    Checked c;
    c.peer.offer(c.next());
    Bytes waiting = c.peer.take();
    c.show(waiting);
    while (!c.peer.info().behind) // 16 frames wait, then the backlog begins
        c.peer.offer(c.next());
    uint64_t last = c.peer.info().sequence;
    for (last = last + 1; last < 100; ++last)
        c.peer.offer(c.next());
    c.show(c.peer.take()); // what waits
    const Numbers checked = c.show(c.peer.take());
    EXPECT_EQ(checked, Numbers{100});
    EXPECT_EQ(c.viewer.info().sequence, 100u);
    EXPECT_TRUE(c.viewer.info().exact);
    EXPECT_GT(c.peer.info().coalesced, 10u);
}

TEST(LiveChecksums, BadMessagesAreNamed) {
    NEEDS_ZSTD();
    Checked c;
    cusWireHeader header = {};
    header.type = CUS_WIRE_CHECKSUM;
    header.sequence = 1;
    header.payload_bytes = header.raw_bytes = 4;
    CUS_EXPECT_ERROR(c.viewer.feed(message(header, Bytes(4))), CUS_ERROR_FORMAT, "a checksum of 4 bytes for frame 1");
    Viewer early;
    header.payload_bytes = header.raw_bytes = 8;
    CUS_EXPECT_ERROR(early.feed(message(header, Bytes(8))), CUS_ERROR_FORMAT, "did not say hello first");
    // Of a frame that the viewer does not have: ignored.
    Checked other;
    header.sequence = 77;
    EXPECT_TRUE(other.show(message(header, Bytes(8))).empty());
    EXPECT_EQ(other.viewer.info().checked, 0u);
}

} // namespace
