// Live video: viewers that join late, read slowly, lose messages, leave.
#include "live/support.hpp"

#include <memory>

using namespace live_test;

namespace {

// A sender, and a viewer that has said hello.
struct Session {
    Session(const reference::Shape &s, int threshold = 20) : sender(s, CUS_HOST, threshold), peer(s) {
        frame = support::randomBytes(s.bytes(), random);
        connect(peer, viewer);
    }
    // The next frame of the camera, packed.
    Packed next(double share, bool with_key_frame = false) {
        advance(frame, share, random);
        return sender.send(frame, with_key_frame);
    }
    std::mt19937_64 random = support::generator();
    Bytes frame;
    Sender sender;
    Peer peer;
    Viewer viewer;
};

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
    EXPECT_NE(sender.reference(), frame); // so the test can tell the reference from the camera's frame
    peer.offer(keyed);
    EXPECT_FALSE(peer.info().wants_key_frame);
    CUS_ASSERT_OK(viewer.feed(peer.take()));
    EXPECT_TRUE(viewer.info().is_key_frame);
    EXPECT_EQ(viewer.info().sequence, 12u);
    EXPECT_EQ(viewer.frame(), sender.reference());
    advance(frame, 0.02, random);
    peer.offer(sender.send(frame));
    CUS_ASSERT_OK(viewer.feed(peer.take()));
    EXPECT_FALSE(viewer.info().is_key_frame);
    EXPECT_EQ(viewer.frame(), sender.reference());
}

TEST(LivePeer, SlowViewerGetsOneDifferenceForMany) {
    NEEDS_ZSTD();
    const reference::Shape s{61, 47, 3};
    Session session(s, 5);
    auto &[random, frame, sender, peer, viewer] = session;
    size_t most = 0;
    for (int k = 0; k < 200; ++k) { // not read
        peer.offer(session.next(0.02));
        const uint8_t *data;
        size_t bytes;
        CUS_ASSERT_OK(cusPeerOutput(peer.peer, &data, &bytes));
        most = std::max(most, bytes);
    }
    EXPECT_TRUE(peer.info().behind);
    EXPECT_EQ(peer.info().sequence, 16u);
    EXPECT_LE(most, 2 * (CUS_WIRE_HEADER_BYTES + s.bytes() * 9 / 8 + 64) + 200); // the promise: it never grows
    int frames = 0;
    const auto count = [&](cusViewerUpdate e) { frames += e == CUS_VIEWER_FRAME; };
    CUS_ASSERT_OK(viewer.feed(peer.take(), count, 777));
    EXPECT_EQ(frames, 16);
    EXPECT_EQ(viewer.info().sequence, 16u);
    CUS_ASSERT_OK(viewer.feed(peer.take(), count)); // the rest, as one difference
    EXPECT_EQ(frames, 17);
    EXPECT_EQ(viewer.info().sequence, 200u);
    EXPECT_EQ(viewer.frame(), sender.reference());
    EXPECT_FALSE(peer.info().behind);
    EXPECT_EQ(peer.info().coalesced, 184u);
    peer.offer(session.next(0.02)); // back to every frame
    CUS_ASSERT_OK(viewer.feed(peer.take(), count));
    EXPECT_EQ(viewer.info().sequence, 201u);
    EXPECT_EQ(viewer.frame(), sender.reference());
}

// Eight viewers that read at random rates, one that joins, one that leaves: each shows the reference of its frame.
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
            ASSERT_EQ(c.viewer.frame(), truth[c.viewer.info().sequence]);
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
            all[3] = std::make_unique<Connection>(s); // killed and replaced
        if (k == 80) {                                // its connection breaks, it reconnects
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
        EXPECT_EQ(c->viewer.frame(), truth[150]);
    }
    EXPECT_EQ(all[0]->frames, 149); // all of them from the key frame on: its hello came after the first frame
}

TEST(LiveViewer, MissingBaseAsksForAKeyFrame) {
    NEEDS_ZSTD();
    Session session({20, 30, 1});
    auto &[random, frame, sender, peer, viewer] = session;
    peer.offer(sender.send(frame));
    CUS_ASSERT_OK(viewer.feed(peer.take()));
    const Bytes before = viewer.frame();
    peer.offer(session.next(0.2));
    peer.take(); // lost
    std::vector<cusViewerUpdate> updates;
    for (int k = 0; k < 3; ++k) {
        peer.offer(session.next(0.2));
        CUS_ASSERT_OK(viewer.feed(peer.take(), [&](cusViewerUpdate e) { updates.push_back(e); }));
    }
    EXPECT_EQ(updates, (std::vector<cusViewerUpdate>(3, CUS_VIEWER_BASE_MISSING)));
    EXPECT_EQ(viewer.frame(), before);
    const Bytes request = viewer.take();
    EXPECT_EQ(request, simple(CUS_WIRE_REQUEST_KEY_FRAME, 1)); // once, not three times
    CUS_ASSERT_OK(cusPeerInput(peer.peer, request.data(), request.size()));
    EXPECT_TRUE(peer.info().wants_key_frame);
    peer.offer(session.next(0.2, true));
    CUS_ASSERT_OK(viewer.feed(peer.take()));
    EXPECT_EQ(viewer.frame(), sender.reference());
}

TEST(LivePeer, AGapInTheOfferedFramesNeedsAKeyFrame) {
    NEEDS_ZSTD();
    Session session({9, 9, 1}, 0);
    auto &[random, frame, sender, peer, viewer] = session;
    peer.offer(sender.send(frame));
    sender.send(frame); // not offered
    peer.offer(sender.send(frame));
    EXPECT_TRUE(peer.info().wants_key_frame);
    const Packed last = sender.send(frame, true);
    peer.offer(last);
    EXPECT_FALSE(peer.info().wants_key_frame);
    const cusSentFrame again = last.frame();
    CUS_REJECTS(cusPeerOffer(peer.peer, &again), VALUE, "frame has sequence number 4, expected more than 4");
}

TEST(LivePeer, ByeOnBothSides) {
    NEEDS_ZSTD();
    const reference::Shape s{4, 4, 1};
    Peer peer(s);
    Viewer viewer;
    connect(peer, viewer);
    CUS_ASSERT_OK(cusPeerFinish(peer.peer));
    std::vector<cusViewerUpdate> updates;
    CUS_ASSERT_OK(viewer.feed(peer.take(), [&](cusViewerUpdate e) { updates.push_back(e); }));
    EXPECT_EQ(updates, std::vector<cusViewerUpdate>{CUS_VIEWER_ENDED});
    EXPECT_TRUE(peer.take().empty());
    CUS_ASSERT_OK(viewer.feed(Bytes(100, 'x'))); // what follows is ignored
    CUS_ASSERT_OK(cusViewerFinish(viewer.viewer));
    const Bytes bye = viewer.take();
    CUS_ASSERT_OK(cusPeerInput(peer.peer, bye.data(), bye.size()));
    EXPECT_TRUE(peer.info().disconnected);
}

} // namespace
