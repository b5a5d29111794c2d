// Live video: the sender, whole sessions, arguments. test_diffstream.sh adds the sockets.
#include "live/support.hpp"

#include <atomic>
#include <thread>

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#if __has_include(<opencv2/videoio.hpp>)
#include <opencv2/videoio.hpp>
#define HAVE_VIDEOIO 1
#endif
#endif

using namespace live_test;

namespace {

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
            EXPECT_EQ(viewer.info().rate_millihertz, 29970u);

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
                ASSERT_EQ(viewer.frame(), model) << rows << " x " << cols << " x " << channels << ", frame " << k;
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

// Frames are in flight while others are packed, and are released on another thread: order and bytes do not change.
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
                    continue; // always one in flight
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
            EXPECT_EQ(p.key_frame, expected[i].key_frame) << "frame " << i;
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
        ASSERT_EQ(a.key_frame, b.key_frame) << "frame " << k;
        ASSERT_EQ(a.mask, b.mask);
        ASSERT_EQ(a.values, b.values);
        advance(frame, k == 5 ? 0.9 : 0.04, random); // a scene cut among small changes
    }
}

// Noise does not compress, so the frame is sent raw.
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
    std::fill(frame.begin(), frame.end(), static_cast<uint8_t>(3)); // one color: a key frame is shorter
    EXPECT_EQ(parse(sender.send(frame)).type, CUS_WIRE_KEY_FRAME);

    // A mask and values that Zstandard cannot shorten are sent raw.
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
    support::Owned<cusSenderDestroy> sender;
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
}

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
        const Bytes shown = viewer.frame();
        ASSERT_TRUE(shown == sender.reference()) << "frame " << frames;
        for (size_t i = 0; i < shown.size(); ++i)
            ASSERT_LE(std::abs(shown[i] - frame.data[i]), 20) << "frame " << frames << " byte " << i;
    } while (video.read(frame));
    EXPECT_EQ(frames, 795u);
    EXPECT_LE(bytes / frames, 30000u);
    RecordProperty("bytes_a_frame", static_cast<int>(bytes / frames));
    std::printf("%llu frames, %.1f kB a frame\n", static_cast<unsigned long long>(frames),
                1e-3 * static_cast<double>(bytes / frames));
}
#endif

// ---- Arguments ----------------------------------------------------------------------------------------------------------

TEST(LiveArguments, AreChecked) {
    if (!haveZstd()) {
        cusPeer *none = nullptr;
        CUS_REJECTS(cusPeerCreate(&none, 4, 4, CUS_8UC1, 0), UNSUPPORTED, "no libzstd");
        GTEST_SKIP() << "built without libzstd";
    }
    cusSender *sender = nullptr;
    CUS_REJECTS(cusSenderCreate(nullptr, 4, 4, CUS_8UC1, CUS_HOST, nullptr), NULL, "sender is NULL");
    CUS_REJECTS(cusSenderCreate(&sender, 0, 4, CUS_8UC1, CUS_HOST, nullptr), VALUE, "frame is 0 x 4");
    CUS_REJECTS(cusSenderCreate(&sender, 4, 4, CUS_16UC1, CUS_HOST, nullptr), TYPE, "16UC1, expected 8UC1");
    CUS_REJECTS(cusSenderCreate(&sender, 4, 32769, CUS_8UC1, CUS_HOST, nullptr), SIZE, "32768 a side");
    CUS_REJECTS(cusSenderCreate(&sender, 32768, 32768, CUS_8UC3, CUS_HOST, nullptr), SIZE, "1073741824 bytes");
    CUS_REJECTS(cusSenderCreate(&sender, 4, 4, CUS_8UC1, static_cast<cusSpace>(7), nullptr), VALUE, "space is 7");
    cusSenderOptions options = cusSenderDefaults();
    const auto changed = [&](const auto &change) {
        cusSenderOptions wrong = cusSenderDefaults();
        change(wrong);
        return cusSenderCreate(&sender, 4, 4, CUS_8UC1, CUS_HOST, &wrong);
    };
    CUS_REJECTS(changed([](auto &o) { o.compression_level = 20; }), VALUE, "compression_level is 20");
    CUS_REJECTS(changed([](auto &o) { o.max_in_flight = 1; }), VALUE, "max_in_flight is 1");
    CUS_REJECTS(changed([](auto &o) { o.diff.threshold = 256; }), VALUE, "threshold is 256");
    EXPECT_EQ(sender, nullptr);

    options.max_in_flight = 2;
    CUS_ASSERT_OK(cusSenderCreate(&sender, 4, 6, CUS_8UC3, CUS_HOST, &options));
    cusSentFrame packed = {};
    CUS_REJECTS(cusSenderFinish(sender, &packed), VALUE, "no submitted frame is left");
    CUS_REJECTS(cusSenderRelease(sender), VALUE, "no finished frame is left");
    support::TestMat right(4, 6, CUS_8UC3, CUS_HOST), narrow(4, 5, CUS_8UC3, CUS_HOST), gray(4, 6, CUS_8UC1, CUS_HOST);
    CUS_REJECTS(cusSenderSubmit(sender, &narrow.mat, 0, nullptr), SIZE, "4 x 5 (rows x cols), expected 4 x 6");
    CUS_REJECTS(cusSenderSubmit(sender, &gray.mat, 0, nullptr), TYPE, "8UC1, expected 8UC3");
    CUS_ASSERT_OK(cusSenderSubmit(sender, &right.mat, 0, nullptr));
    CUS_ASSERT_OK(cusSenderSubmit(sender, &right.mat, 0, nullptr));
    CUS_REJECTS(cusSenderSubmit(sender, &right.mat, 0, nullptr), CAPACITY, "2 frames are in flight");
    CUS_ASSERT_OK(cusSenderFinish(sender, &packed));
    CUS_REJECTS(cusSenderSubmit(sender, &right.mat, 0, nullptr), CAPACITY, "2 frames are in flight");
    CUS_ASSERT_OK(cusSenderRelease(sender));
    CUS_EXPECT_OK(cusSenderSubmit(sender, &right.mat, 0, nullptr));
    cusSenderDestroy(sender);
    if (!support::haveGpu()) {
        sender = nullptr;
        EXPECT_EQ(cusSenderCreate(&sender, 4, 4, CUS_8UC1, CUS_DEVICE, nullptr), CUS_ERROR_NO_CUDA);
        EXPECT_EQ(sender, nullptr);
    }

    cusPeer *peer = nullptr;
    CUS_REJECTS(cusPeerCreate(nullptr, 4, 4, CUS_8UC1, 0), NULL, "peer is NULL");
    CUS_REJECTS(cusPeerCreate(&peer, 4, 4, CUS_8SC1, 0), TYPE, "8SC1");
    CUS_ASSERT_OK(cusPeerCreate(&peer, 4, 4, CUS_8UC1, 0));
    CUS_REJECTS(cusPeerInput(peer, nullptr, 1), NULL, "data is NULL");
    CUS_REJECTS(cusPeerSent(peer, 1), VALUE, "bytes is 1, expected at most 0");
    const cusSentFrame empty = {};
    CUS_REJECTS(cusPeerOffer(peer, &empty), NULL, "frame is empty");
    cusPeerDestroy(peer);

    cusViewer *viewer = nullptr;
    cusViewerOptions viewer_options = cusViewerDefaults();
    viewer_options.max_frame_bytes = 0;
    CUS_REJECTS(cusViewerCreate(&viewer, &viewer_options), VALUE, "max_frame_bytes is 0");
    cusSenderDestroy(nullptr);
    cusPeerDestroy(nullptr);
    cusViewerDestroy(nullptr);
}

} // namespace
