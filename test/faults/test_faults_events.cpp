// Stacked frames and live video under faults.
#include "faults.hpp"

#include "eventio/support.hpp"

#include "cusight/cusight.h"
#include "reference/frames.hpp"

using namespace faults;

namespace {

class FaultsWith : public FaultTest {};
FAULTS_IN_ALL_PLACES(FaultsWith);

// Events in either space.
struct Recording {
    std::vector<uint16_t> x, y;
    std::vector<uint8_t> p;
    std::vector<int64_t> t;
    std::vector<Mat> device;
    cusEventArrays host, arrays;

    explicit Recording(cusSpace space, int count = 3000) {
        std::mt19937 random(1);
        for (int i = 0; i < count; ++i) {
            x.push_back(static_cast<uint16_t>(random() % 64));
            y.push_back(static_cast<uint16_t>(random() % 48));
            p.push_back(static_cast<uint8_t>(random() & 1));
            t.push_back(10 * i);
        }
        arrays = host = {x.data(), y.data(), p.data(), t.data(), static_cast<size_t>(count), CUS_HOST};
        if (space == CUS_HOST)
            return;
        arrays.x = static_cast<const uint16_t *>(upload(x));
        arrays.y = static_cast<const uint16_t *>(upload(y));
        arrays.p = static_cast<const uint8_t *>(upload(p));
        arrays.t = static_cast<const int64_t *>(upload(t));
        arrays.space = CUS_DEVICE;
    }
    template<class T>
    const void *upload(const std::vector<T> &values) {
        const auto *bytes = reinterpret_cast<const uint8_t *>(values.data());
        const size_t n = values.size() * sizeof(T);
        device.emplace_back(1, static_cast<int>(n), CUS_8UC1, CUS_DEVICE, std::vector<uint8_t>(bytes, bytes + n));
        return device.back().mat.data;
    }
};

TEST_P(FaultsWith, Windows) {
    const Recording recording(space());
    for (const cusWindowUnit unit : {CUS_WINDOW_COUNT, CUS_WINDOW_DURATION}) {
        cusWindowing windowing = cusWindowingDefaults();
        windowing.unit = unit;
        windowing.length = 1000;
        check(unit == CUS_WINDOW_COUNT ? "cusEventWindows" : "cusEventWindows, by time", [&](Trial &t) {
            cusEventWindow windows[40] = {};
            size_t count = 0;
            t.call([&] { return cusEventWindows(&recording.arrays, &windowing, windows, 40, &count, nullptr); });
            t.value(count);
            t.value(windows);
        });
    }
}

// Raw bytes of EVT2 in pieces, and the state between two of them.
TEST_P(FaultsWith, Decoder) {
    std::vector<uint8_t> words = {100, 0, 0, 0x80}; // a time, then events within 64 us
    for (unsigned i = 0; i < 500; ++i)
        for (const unsigned byte : {i % 48, i % 8 << 3, 0u, 0x10u})
            words.push_back(static_cast<uint8_t>(byte));
    const Mat bytes(1, static_cast<int>(words.size()), CUS_8UC1, space(), words);
    Mat times(1, 500, CUS_64FC1 /* as wide */, space(), std::vector<uint8_t>(4000, 0));
    cusEventDecoderOptions options = cusEventDecoderDefaults();
    options.format = CUS_EVENTS_EVT2;
    options.space = space();
    checkCreate<cusEventDecoderDestroy>("cusEventDecoderCreate",
                                        [&](auto *d) { return cusEventDecoderCreate(d, &options); });
    cusEventBuffers events = {};
    events.t = static_cast<int64_t *>(times.mat.data);
    events.capacity = 500;
    check("cusEventDecoderRun", [&](Trial &t) {
        support::Owned<cusEventDecoderDestroy> d;
        CUS_ASSERT_OK(cusEventDecoderCreate(&d, &options));
        cusEventDecoded done = {};
        t.attempt([&] {
            cusEventDecoderState state = {};
            CUS_TRY(cusEventDecoderRun(d, bytes.mat.data, 1002, &events, nullptr, nullptr));
            CUS_TRY(cusEventDecoderCheck(d, nullptr, nullptr));
            CUS_TRY(cusEventDecoderGetState(d, &state));
            CUS_TRY(cusEventDecoderSetState(d, &state));
            CUS_TRY(cusEventDecoderRun(d, static_cast<uint8_t *>(bytes.mat.data) + 1002, words.size() - 1002, &events,
                                       nullptr, nullptr));
            CUS_TRY(cusEventDecoderCheck(d, &done, nullptr));
            return cusEventDecoderFinish(d, nullptr);
        });
        if (!t.failed)
            EXPECT_EQ(done.index, simulatingCuda() ? done.index : 500u);
    });
}

// Frames of chunks, cut within the second chunk.
TEST_P(FaultsWith, FrameDecoder) {
    if (space() == CUS_HOST)
        GTEST_SKIP() << "the host decodes no chunks";
    for (const auto format : {CUS_EVENTS_METAVISION, CUS_EVENTS_HDF5}) {
        const std::string name = std::string(", frames of ") + cusEventFormatName(format),
                          create = "cusEventDecoderCreate" + name, run = "cusEventDecoderRun" + name;
        std::mt19937_64 random(1);
        std::vector<uint8_t> stream;
        const reference::Events e = reference::ecfEvents(250, random, 64, 48, 0);
        reference::Columns how;
        how.short_t = true; // in memory of its own
        const std::vector<uint8_t> chunk = format == CUS_EVENTS_HDF5
                                               ? reference::encodeColumns(e, how, random)
                                               : reference::encodeEcf(e, reference::Packing::XP, random, false);
        reference::appendFrame(stream, {chunk, chunk}, {250, 250}, format);
        const size_t cut = stream.size() - 300;
        const Mat bytes(1, static_cast<int>(stream.size()), CUS_8UC1, space(), stream);
        Mat times(1, 500, CUS_64FC1 /* as wide */, space(), std::vector<uint8_t>(4000, 0));
        cusEventDecoderOptions options = cusEventDecoderDefaults();
        options.format = format;
        options.bad_events = CUS_BAD_EVENTS_SKIP; // the second chunk is earlier than the first one's end
        options.space = space();
        checkCreate<cusEventDecoderDestroy>(create.c_str(), [&](auto *d) { return cusEventDecoderCreate(d, &options); });
        cusEventBuffers events = {};
        events.t = static_cast<int64_t *>(times.mat.data);
        events.capacity = 500;
        check(run.c_str(), [&](Trial &t) {
            support::Owned<cusEventDecoderDestroy> d;
            CUS_ASSERT_OK(cusEventDecoderCreate(&d, &options));
            cusEventDecoded done = {};
            t.attempt([&] {
                cusEventDecoderState state = {};
                CUS_TRY(cusEventDecoderGetState(d, &state));
                CUS_TRY(cusEventDecoderSetState(d, &state));
                CUS_TRY(cusEventDecoderRun(d, bytes.mat.data, cut, &events, nullptr, nullptr));
                CUS_TRY(cusEventDecoderCheck(d, nullptr, nullptr));
                CUS_TRY(cusEventDecoderRun(d, static_cast<uint8_t *>(bytes.mat.data) + cut, stream.size() - cut, &events,
                                           nullptr, nullptr));
                CUS_TRY(cusEventDecoderCheck(d, &done, nullptr));
                return cusEventDecoderFinish(d, nullptr);
            });
            if (!t.failed)
                EXPECT_EQ(done.index, simulatingCuda() ? done.index : 500u);
        });
    }
}

TEST_P(FaultsWith, Stacker) {
    const Recording recording(space());
    const cusEventWindow windows[3] = {{0, 1000}, {900, 2500}, {2500, 3000}};
    for (int kind = 0; cusRepresentationName(cusRepresentationKind(kind)); ++kind) {
        cusRepresentation r = cusRepresentationDefaults(cusRepresentationKind(kind));
        r.normalize = CUS_NORMALIZE_POPULATION;
        r.depth = r.depth == CUS_32F ? CUS_16F : r.depth; // which needs more memory on the host
        const std::string name = cusRepresentationName(r.kind);
        const auto create = [&](cusEventStacker **s) { return cusEventStackerCreate(s, 48, 64, space(), &r, 1); };
        checkCreate<cusEventStackerDestroy>("cusEventStackerCreate, " + name, [&](auto *s) { return create(s); });
        check("cusEventStack, " + name, [&](Trial &t) {
            support::Owned<cusEventStackerDestroy> s;
            CUS_ASSERT_OK(create(&s));
            Mat frames;
            t.call([&] { return cusEventStack(s, &recording.arrays, windows, 3, &frames, nullptr); });
            t.result(frames.bytes());
        });
    }
    cusRepresentation cube = cusRepresentationDefaults(CUS_REPR_EVENT_CUBE);
    cube.window_times = 1;
    const cusEventSpan spans[3] = {{0, 9000}, {5000, 20000}, {20000, 30000}};
    check("cusEventStackSpans", [&](Trial &t) {
        support::Owned<cusEventStackerDestroy> s;
        CUS_ASSERT_OK(cusEventStackerCreate(&s, 48, 64, space(), &cube, 1));
        Mat frames;
        t.call([&] { return cusEventStackSpans(s, &recording.arrays, windows, spans, 3, &frames, nullptr); });
        t.result(frames.bytes());
    });
    // One long window, which the device handles in parts.
    const int count = 400000;
    const Recording many(space(), count);
    const cusEventWindow window = {0, static_cast<uint64_t>(count)};
    for (const cusRepresentationKind kind :
         {CUS_REPR_HISTOGRAM, CUS_REPR_STACKED_HISTOGRAM, CUS_REPR_VOXEL_GRID, CUS_REPR_MDES}) {
        cusRepresentation long_r = cusRepresentationDefaults(kind);
        long_r.normalize = CUS_NORMALIZE_SAMPLE;
        check(std::string("cusEventStack, ") + cusRepresentationName(kind) + ", long window", [&](Trial &t) {
            support::Owned<cusEventStackerDestroy> stacker;
            CUS_ASSERT_OK(cusEventStackerCreate(&stacker, 48, 64, space(), &long_r, 1));
            Mat frame;
            t.call([&] { return cusEventStack(stacker, &many.arrays, &window, 1, &frame, nullptr); });
            t.result(frame.bytes());
        });
    }
    support::Owned<cusEventStackerDestroy> s;
    const cusRepresentation r = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
    CUS_ASSERT_OK(cusEventStackerCreate(&s, 48, 64, space(), &r, 1));
    check("cusEventStackerSkipped", [&](Trial &t) {
        uint64_t skipped = 1;
        t.call([&] { return cusEventStackerSkipped(s, &skipped, nullptr); });
        t.value(skipped);
    });
}

TEST_P(FaultsWith, Generator) {
    if (space() == CUS_DEVICE)
        GTEST_SKIP() << "CUB's sort calls CUDA by itself and reports what fails there as it likes";
    std::vector<uint8_t> values = faults::noise(4 * 20 * 30, 1);
    const Mat frames(4 * 20, 30, CUS_8UC1, space(), values);
    const int64_t times[4] = {0, 1000, 2500, 2600};
    cusEventGeneratorOptions options = cusEventGeneratorDefaults();
    options.shot_rate = 100;
    options.space = space();
    options.max_events = 50000;
    const auto create = [&](cusEventGenerator **g) { return cusEventGeneratorCreate(g, 20, 30, &options); };
    checkCreate<cusEventGeneratorDestroy>("cusEventGeneratorCreate", [&](auto *g) { return create(g); });
    for (const bool waits : {false, true})
        check(waits ? "cusEventGeneratorCheck" : "cusEventGeneratorRun", [&](Trial &t) {
            support::Owned<cusEventGeneratorDestroy> g;
            CUS_ASSERT_OK(create(&g));
            const Mat out(1, 8 * 50000, CUS_8UC1, space(), std::vector<uint8_t>(8 * 50000));
            cusEventBuffers events = {};
            events.t = static_cast<int64_t *>(out.mat.data);
            events.capacity = 50000;
            const auto run = [&] { return cusEventGeneratorRun(g, &frames.mat, times, 4, &events, nullptr, nullptr); };
            cusEventsGenerated generated = {};
            const auto wait = [&] { return cusEventGeneratorCheck(g, &generated, nullptr); };
            if (waits) {
                CUS_ASSERT_OK(run());
                t.call(wait);
                t.value(generated.count);
            } else {
                // The work may have been queued when the call failed, and the generator's time has passed.
                t.call(run, [&] {
                    cusEventGeneratorDestroy(g);
                    *&g = nullptr;
                    CUS_TRY(create(&g));
                    return run();
                });
                t.result(out.bytes());
            }
        });
}

TEST(FaultsOfGenerator, Push) {
    const Mat dark(20, 30, CUS_8UC1, CUS_HOST, std::vector<uint8_t>(600, 30)), random(20, 30, CUS_8UC1, CUS_HOST, 1);
    walkCreate<cusEventGeneratorDestroy>("cusEventGeneratorCreate",
                                         [&](auto *g) { return cusEventGeneratorCreate(g, 20, 30, nullptr); });
    walk("cusEventGeneratorPush", [&](Trial &t) {
        support::Owned<cusEventGeneratorDestroy> g;
        CUS_ASSERT_OK(cusEventGeneratorCreate(&g, 20, 30, nullptr));
        cusEventArrays events = {};
        CUS_ASSERT_OK(cusEventGeneratorPush(g, &dark.mat, 0, &events));
        t.call([&] { return cusEventGeneratorPush(g, &random.mat, 1000, &events); });
        t.value(events.count);
        for (size_t i = 0; i < events.count; ++i)
            t.value(events.t[i]);
    });
}

// The frames that a pipeline delivers.
struct Sink {
    std::vector<uint8_t> bytes;
    static cusStatus take(void *user, const cusFrameBatch *batch) {
        auto &out = static_cast<Sink *>(user)->bytes;
        if (batch->frames[0].space == CUS_DEVICE)
            return CUS_OK;
        const std::vector<uint8_t> frame = Mat::bytesOf(batch->frames[0]);
        out.insert(out.end(), frame.begin(), frame.end());
        return CUS_OK;
    }
};

TEST_P(FaultsWith, Pipeline) {
    const Recording recording(CUS_HOST);
    const cusRepresentation r = cusRepresentationDefaults(CUS_REPR_MDES);
    for (const bool to_device : {false, true}) {
        if (to_device && GetParam() == HOST)
            continue;
        cusEventPipelineOptions options = cusEventPipelineDefaults();
        options.windowing.length = 400;
        options.max_events = 1000;
        options.batch_windows = 2;
        options.compute = space();
        options.deliver = to_device ? CUS_DEVICE : CUS_HOST;
        const std::string where = to_device ? ", device frames" : "";
        const auto create = [&](cusEventPipeline **p, Sink *sink) {
            return cusEventPipelineCreate(p, 48, 64, &r, 1, &options, Sink::take, sink);
        };
        checkCreate<cusEventPipelineDestroy>("cusEventPipelineCreate" + where, [&](auto *p) { return create(p, nullptr); });
        for (const bool flush : {false, true})
            check((flush ? "cusEventPipelineAdvance, Query, Flush" : "cusEventPipelinePush") + where, [&](Trial &t) {
                cusEventPipeline *p = nullptr;
                Sink sink;
                CUS_ASSERT_OK(create(&p, &sink));
                cusEventPipelineCounts counts = {};
                if (flush)
                    CUS_ASSERT_OK(cusEventPipelinePush(p, &recording.host));
                t.attempt([&] {
                    if (!flush)
                        return cusEventPipelinePush(p, &recording.host);
                    CUS_TRY(cusEventPipelineAdvance(p, 0));
                    CUS_TRY(cusEventPipelineQuery(p, &counts));
                    EXPECT_EQ(counts.windows, 7u); // of 400 events each, although the batch of the last is not full
                    return cusEventPipelineFlush(p);
                });
                cusEventPipelineDestroy(p); // after a failure the pipeline can only be destroyed
                if (t.failed) {
                    sink.bytes.clear();
                    CUS_ASSERT_OK(create(&p, &sink));
                    CUS_EXPECT_OK(cusEventPipelinePush(p, &recording.host));
                    if (flush)
                        CUS_EXPECT_OK(cusEventPipelineFlush(p));
                    cusEventPipelineDestroy(p);
                }
                t.result(sink.bytes);
            });
    }
}

// The same for a recording of raw bytes.
TEST_P(FaultsWith, PipelineOfBytes) {
    std::vector<uint32_t> words;
    for (uint32_t i = 0; i < 3000; ++i)
        words.push_back(i % 10 == 0 ? 8u << 28 | i : (i & 1) << 28 | (i % 10) << 22 | (i * 7 % 64) << 11 | i % 48);
    const size_t size = words.size() * sizeof words[0];
    cusEventDecoderOptions decoder = cusEventDecoderDefaults();
    decoder.format = CUS_EVENTS_EVT2;
    cusEventPipelineOptions options = cusEventPipelineDefaults();
    options.windowing.unit = CUS_WINDOW_DURATION;
    options.windowing.length = 6400;
    options.max_events = 10000;
    options.compute = space();
    options.decoder = &decoder;
    const cusRepresentation r = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
    const auto create = [&](cusEventPipeline **p, Sink *sink) {
        return cusEventPipelineCreate(p, 48, 64, &r, 1, &options, Sink::take, sink);
    };
    for (options.low_latency = 0; options.low_latency < 2; ++options.low_latency) {
        const std::string where = options.low_latency ? ", low latency" : "";
        checkCreate<cusEventPipelineDestroy>("cusEventPipelineCreate, bytes" + where,
                                             [&](auto *p) { return create(p, nullptr); });
        check("cusEventPipelinePushBytes" + where, [&](Trial &t) {
            cusEventPipeline *p = nullptr;
            Sink sink;
            CUS_ASSERT_OK(create(&p, &sink));
            t.attempt([&] {
                CUS_TRY(cusEventPipelinePushBytes(p, words.data(), size));
                CUS_TRY(cusEventPipelineAdvance(p, 64 * 3000 + 20000));
                return cusEventPipelineFlush(p);
            });
            EXPECT_NE(cusEventPipelineDecoder(p), nullptr);
            cusEventPipelineDestroy(p); // after a failure the pipeline can only be destroyed
            if (t.failed) {
                sink.bytes.clear();
                CUS_ASSERT_OK(create(&p, &sink));
                CUS_EXPECT_OK(cusEventPipelinePushBytes(p, words.data(), size));
                CUS_EXPECT_OK(cusEventPipelineAdvance(p, 64 * 3000 + 20000));
                CUS_EXPECT_OK(cusEventPipelineFlush(p));
                cusEventPipelineDestroy(p);
            }
            t.result(sink.bytes);
        });
    }
}

// A file that is pinned for a GPU.
TEST_P(FaultsWith, PinnedFile) {
    if (space() == CUS_HOST)
        GTEST_SKIP() << "pinned for a GPU";
    const eventio_test::Folder folder;
    const std::string path = folder / "r.raw";
    std::string bytes = "% evt 2.0\n% geometry 64x48\n% end\n";
    for (uint32_t i = 0; i < 3000; ++i) {
        const uint32_t word = i % 10 == 0 ? 8u << 28 | i : (i & 1) << 28 | (i % 10) << 22 | (i * 7 % 64) << 11 | i % 48;
        bytes.append(reinterpret_cast<const char *>(&word), sizeof word);
    }
    eventio_test::save(path, eventio_test::Bytes(bytes.begin(), bytes.end()));
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.pin_file = 1;
    checkCreate<cusEventReaderClose>("cusEventReaderOpen, pinned",
                                     [&](auto *reader) { return cusEventReaderOpen(reader, path.c_str(), &options); });
}

// ---- Live video

TEST_P(FaultsWith, Sender) {
    cusViewer *probe = nullptr;
    if (cusViewerCreate(&probe, nullptr) == CUS_ERROR_UNSUPPORTED)
        GTEST_SKIP() << "built without libzstd";
    cusViewerDestroy(probe);
    const Mat first(100, 300, CUS_8UC3, CUS_HOST, 1), second(100, 300, CUS_8UC3, CUS_HOST, 2);
    const auto create = [&](cusSender **s) { return cusSenderCreate(s, 100, 300, CUS_8UC3, space(), nullptr); };
    checkCreate<cusSenderDestroy>("cusSenderCreate", [&](auto *s) { return create(s); });
    const auto send = [](cusSender *s, const cusMat *frame, Trial *t) {
        CUS_TRY(cusSenderSubmit(s, frame, 1, nullptr));
        cusSentFrame sent = {};
        CUS_TRY(cusSenderFinish(s, &sent));
        if (t) // the message itself is stored plain if it cannot be compressed
            t->result(std::vector<uint8_t>(sent.values, sent.values + sent.count));
        return cusSenderRelease(s);
    };
    check("cusSenderSubmit, Finish, Release", [&](Trial &t) {
        cusSender *s = nullptr;
        CUS_ASSERT_OK(create(&s));
        CUS_ASSERT_OK(send(s, &first.mat, nullptr));
        t.attempt([&] { return send(s, &second.mat, &t); });
        if (t.failed) { // a sender that failed in the middle of a frame is replaced
            t.results.clear();
            cusSenderDestroy(s);
            CUS_ASSERT_OK(create(&s));
            CUS_ASSERT_OK(send(s, &first.mat, nullptr));
            CUS_EXPECT_OK(send(s, &second.mat, &t));
        }
        cusSenderDestroy(s);
    });
}

TEST(FaultsOfLive, PeerAndViewer) {
    support::Owned<cusSenderDestroy> sender;
    if (cusSenderCreate(&sender, 100, 300, CUS_8UC3, CUS_HOST, nullptr) == CUS_ERROR_UNSUPPORTED)
        GTEST_SKIP() << "built without libzstd";
    const Mat image(100, 300, CUS_8UC3, CUS_HOST, std::vector<uint8_t>(90000, 7));
    cusSentFrame frame = {};
    CUS_ASSERT_OK(cusSenderSubmit(sender, &image.mat, 1, nullptr));
    CUS_ASSERT_OK(cusSenderFinish(sender, &frame));
    walkCreate<cusPeerDestroy>("cusPeerCreate", [&](auto *peer) { return cusPeerCreate(peer, 100, 300, CUS_8UC3, 25000); });
    walkCreate<cusViewerDestroy>("cusViewerCreate", [&](auto *viewer) { return cusViewerCreate(viewer, nullptr); });
    // A whole connection: the hello, the handshake, a key frame.
    const auto connection = [&](cusViewer *viewer, Trial *t) {
        cusPeer *peer = nullptr;
        CUS_TRY(cusPeerCreate(&peer, 100, 300, CUS_8UC3, 25000));
        const auto run = [&]() -> cusStatus {
            const uint8_t *data = nullptr;
            size_t bytes = 0, used = 0;
            CUS_TRY(cusViewerOutput(viewer, &data, &bytes));
            CUS_TRY(cusPeerInput(peer, data, bytes));
            CUS_TRY(cusViewerSent(viewer, bytes));
            CUS_TRY(cusPeerOffer(peer, &frame));
            CUS_TRY(cusPeerOutput(peer, &data, &bytes));
            CUS_TRY(cusPeerSent(peer, bytes));
            cusViewerUpdate update = CUS_VIEWER_NOTHING;
            for (; bytes; data += used, bytes -= used)
                CUS_TRY(cusViewerInput(viewer, data, bytes, &used, &update));
            EXPECT_EQ(update, CUS_VIEWER_FRAME);
            CUS_TRY(cusViewerFinish(viewer));
            return cusPeerFinish(peer);
        };
        const cusStatus status = run();
        cusPeerDestroy(peer);
        if (status == CUS_OK && t) {
            cusMat view = CUS_MAT_INIT;
            CUS_TRY(cusViewerFrame(viewer, &view));
            t->result(Mat::bytesOf(view));
        }
        return status;
    };
    walk("cusPeer... and cusViewer..., a connection", [&](Trial &t) {
        support::Owned<cusViewerDestroy> viewer;
        CUS_ASSERT_OK(cusViewerCreate(&viewer, nullptr));
        t.call([&] { return connection(viewer, &t); },
               [&] {
                   CUS_TRY(cusViewerReconnect(viewer));
                   return connection(viewer, &t);
               });
    });
    CUS_EXPECT_OK(cusSenderRelease(sender));
}

} // namespace
