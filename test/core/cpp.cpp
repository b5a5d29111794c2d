// The C++ classes without OpenCV: each does what the C interface does, moves, cleans up, and throws with the message.
#include "cusight/cusight.hpp"
#include "support.hpp"

#include <cmath>
#include <cstdio>
#include <type_traits>

namespace {

using cusight::Matrix;

class Cpp : public support::SpaceTest {
  protected:
    Matrix random(int rows, int cols, int type) {
        const auto bytes =
            support::randomBytes(static_cast<size_t>(rows) * static_cast<size_t>(cols) * cusTypeSize(type), generator_);
        const Matrix host = Matrix::wrap(rows, cols, type, CUS_HOST, const_cast<uint8_t *>(bytes.data()));
        Matrix made;
        cusight::copy(host, made, space());
        if (space() == CUS_DEVICE)
            cusight::check(cusStreamSynchronize(nullptr));
        return made;
    }
    std::mt19937_64 generator_ = support::generator();
};
CUS_BOTH_SPACES(Cpp);

template<class T>
constexpr bool movesOnly() {
    return std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
           !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
}

TEST(CppClasses, CanBeMovedNotCopied) {
    using namespace cusight;
    static_assert(movesOnly<Matrix>() && movesOnly<Stream>() && movesOnly<StreamEvent>());
    static_assert(movesOnly<Integrator>() && movesOnly<Matcher>() && movesOnly<Heatmap>() && movesOnly<SparseDiff>());
    static_assert(movesOnly<PoseMatcher>() && movesOnly<MotionDetector>());
    static_assert(movesOnly<DiffEncoder>() && movesOnly<DiffDecoder>() && movesOnly<ContourMapper>());
    static_assert(movesOnly<EventStacker>() && movesOnly<EventPipeline>() && movesOnly<EventReader>());
    static_assert(movesOnly<EventFrames>());
    static_assert(movesOnly<EventWriter>() && movesOnly<FrameWriter>() && movesOnly<EventGenerator>());
    static_assert(movesOnly<Sender>() && movesOnly<Peer>() && movesOnly<Viewer>());
}

TEST(CppClasses, ErrorsHaveStatusAndMessage) {
    try {
        Matrix(0, 4, CUS_8UC1);
        FAIL() << "no exception";
    } catch (const cusight::Error &e) {
        EXPECT_EQ(e.status(), CUS_ERROR_VALUE);
        EXPECT_EQ(std::string(e.what()), "CUS_ERROR_VALUE: " + e.message());
        EXPECT_EQ(e.message().find("cusMatCreate: "), 0u) << e.message();
    }
    EXPECT_THROW(cusight::Integrator(0, 1, CUS_HOST), cusight::Error);
    EXPECT_THROW(cusight::EventReader("/nowhere/at-all"), cusight::Error);
    EXPECT_THROW(cusight::Matcher(std::vector<cusMat>{}, 4, 4), cusight::Error);
}

TEST_P(Cpp, MatricesMoveWithTheirMemory) {
    Matrix a(3, 4, CUS_8UC3, space());
    void *data = a.get().data;
    Matrix b = std::move(a);
    EXPECT_EQ(b.get().data, data);
    EXPECT_TRUE(a.empty()); // NOLINT(bugprone-use-after-move): empty is what it is
    a = std::move(b);
    EXPECT_EQ(a.get().data, data);
    a.create(3, 4, CUS_8UC3, space());
    EXPECT_EQ(a.get().data, data);
    const cusMat region = a.region(1, 1, 2, 2);
    EXPECT_EQ(region.data, static_cast<char *>(data) + a.get().step + 3);
    EXPECT_THROW(a.region(3, 0, 2, 2), cusight::Error);
    a.release();
    EXPECT_TRUE(a.empty());
    EXPECT_EQ(a.rows(), 0);
}

TEST_P(Cpp, IntegratorAndMatcher) {
    const Matrix image = random(60, 70, CUS_8UC1);
    Matrix sum, sqsum, one, other;
    cusight::Integrator integrator(60, 70, space());
    integrator.both(image, sum, sqsum);
    cusight::Integrator moved = std::move(integrator);
    moved.sum(image, one);
    moved.squares(image, other);
    EXPECT_EQ(support::elements(sum.get()), support::elements(one.get()));
    EXPECT_EQ(support::elements(sqsum.get()), support::elements(other.get()));
    cusIntegralOptions wide = cusIntegralDefaults();
    wide.sum_depth = CUS_64F;
    Matrix doubles;
    moved.sum(image, doubles, nullptr, wide);
    EXPECT_EQ(doubles.type(), CUS_64FC1);
    EXPECT_EQ(support::elements<double>(doubles.get()).back(), support::elements<int>(sum.get()).back());
    cusight::Integrator in_color(60, 3 * 70, space()); // channels count as columns
    in_color.both(random(60, 70, CUS_8UC3), sum, sqsum);
    EXPECT_EQ(sum.type(), CUS_32SC3);
    EXPECT_EQ(sqsum.type(), CUS_64FC3);

    const cusMat templ = image.region(20, 30, 12, 14);
    cusight::Matcher matcher(templ, 60, 70);
    Matrix scores;
    matcher.run(image, scores);
    EXPECT_EQ(scores.rows(), 60 - 14 + 1);
    cusMatch best = matcher.best();
    EXPECT_EQ(best.x, 20);
    EXPECT_EQ(best.y, 30);
    EXPECT_EQ(best.score, 1); // of a copy, by the default method
    EXPECT_NE(matcher.results().data, nullptr);
    cusMatcherOptions options = cusMatcherDefaults();
    options.score_limit = 2; // nothing correlates so well
    cusight::Matcher strict({templ, image.region(0, 0, 12, 14)}, 60, 70, options);
    strict.run(image);
    best = strict.best();
    EXPECT_EQ(best.x, -1);
    EXPECT_TRUE(std::isnan(best.score));
    EXPECT_TRUE(strict.matches(nullptr, 1).empty());
    EXPECT_THROW(strict.run(image, scores), cusight::Error); // two maps
}

TEST_P(Cpp, PoseMatcher) {
    Matrix host_templ(24, 16, CUS_8UC1), host_frame(60, 70, CUS_8UC1), host_mask(24, 16, CUS_8UC1);
    for (int y = 0; y < 24; ++y)
        for (int x = 0; x < 16; ++x) {
            host_templ.at<uint8_t>(y, x) = static_cast<uint8_t>(9 * y + 5 * x);
            host_mask.at<uint8_t>(y, x) = y > 0;
        }
    const auto there = [&](const Matrix &from) { // a copy in the space of the test
        Matrix to(from.rows(), from.cols(), CUS_8UC1, space());
        if (space() == CUS_DEVICE) {
            cusight::check(cusMatUpload(&from.get(), &to.get(), nullptr));
            cusight::check(cusStreamSynchronize(nullptr));
        } else {
            cusight::check(cusMatCopy(&from.get(), &to.get(), nullptr));
        }
        return to;
    };
    const Matrix templ = there(host_templ), mask = there(host_mask);
    cusPoseOptions options = cusPoseDefaults();
    options.method = CUS_MATCH_SQDIFF;
    options.angles = {-90, 90, 45, nullptr, 0};
    options.scales = {0.5, 1, 0.5, nullptr, 0};
    options.mask = &mask.get();
    options.score_limit = 10;
    cusight::PoseMatcher made(templ, 60, 70, options), matcher = std::move(made);
    EXPECT_EQ(matcher.angles(), 5);
    EXPECT_EQ(matcher.scales(), 2);
    host_frame.setZero();
    matcher.run(there(host_frame));
    EXPECT_TRUE(matcher.matches().empty());
    cusPoseMatch best = matcher.best();
    EXPECT_TRUE(best.col == -1 && best.angle_index == -1 && std::isnan(best.score) && std::isnan(best.x));
    const auto window = matcher.window(3, 1); // 45 degrees
    ASSERT_TRUE(window.mask.rows() == window.templ.rows() && window.templ.rows() > 24 && window.templ.rows() + 8 < 60);
    cusMat to = host_frame.region(9, 8, window.templ.cols(), window.templ.rows());
    cusight::check(cusMatCopy(&window.templ.get(), &to, nullptr));
    matcher.run(there(host_frame));
    best = matcher.best();
    EXPECT_TRUE(best.score == 0 && best.angle == 45 && best.scale == 1 && best.col == 9 && best.row == 8);
    EXPECT_EQ(matcher.matches().size(), 1u);
    EXPECT_THROW(matcher.window(5, 0), cusight::Error);
    EXPECT_THROW(matcher.run(templ), cusight::Error);
    EXPECT_THROW(cusight::PoseMatcher(Matrix(4, 4, CUS_8UC3), 60, 70), cusight::Error);
}

TEST_P(Cpp, FrameDifferencesAndStereo) {
    const Matrix first = random(20, 30, CUS_8UC3), second = random(20, 30, CUS_8UC3);
    cusight::Heatmap heatmap;
    Matrix map, want;
    heatmap.apply(first, map);
    heatmap.apply(second, map);
    cusight::check(cusHeatmap(&first.get(), &second.get(), &want.get(), nullptr, nullptr));
    EXPECT_EQ(support::elements(map.get()), support::elements(want.get()));
    heatmap.reset();
    heatmap.apply(second, map);
    EXPECT_EQ(support::elements(map.get())[0], 255); // no change: blue

    cusight::DiffEncoder encoder(20, 30, CUS_8UC3, space());
    cusight::DiffDecoder decoder(20, 30, CUS_8UC3, space());
    cusight::SparseDiff diff(20, 30, CUS_8UC3, space());
    for (const Matrix *frame : {&first, &second}) {
        encoder.encode(*frame, diff);
        decoder.decode(diff);
        EXPECT_GT(diff.count(), 0u);
        EXPECT_EQ(support::elements(decoder.frame()), support::elements(encoder.reference()));
    }
    encoder.reset(first);
    decoder.reset(first);
    EXPECT_EQ(support::elements(decoder.frame()), support::elements(first.get()));
    encoder.resetToBlack();
    decoder.resetToBlack();
    EXPECT_EQ(support::elements(decoder.frame()), std::vector<uint8_t>(20 * 30 * 3));

    std::vector<cusight::DiffEncoder> encoders;
    std::vector<cusight::SparseDiff> diffs;
    for (int i = 0; i < 2; ++i) {
        encoders.emplace_back(20, 30, CUS_8UC3, space());
        diffs.emplace_back(20, 30, CUS_8UC3, space());
    }
    cusight::DiffEncoder::encodeAll(encoders, {first, second}, diffs);
    encoder.encode(second, diff);
    EXPECT_EQ(diffs[1].count(), diff.count());
    EXPECT_EQ(support::elements(encoders[1].reference()), support::elements(encoder.reference()));
    EXPECT_THROW(cusight::DiffEncoder::encodeAll(encoders, first, diffs), cusight::Error);

    const Matrix left = random(40, 50, CUS_8UC1), right = random(40, 50, CUS_8UC1);
    cusight::ContourMapper mapper(40, 50, CUS_8UC1, space());
    Matrix elevation, contours, again;
    mapper.map(left, right, elevation, contours);
    mapper.map(left, right, again);
    EXPECT_EQ(support::elements(elevation.get()), support::elements(again.get()));
    EXPECT_EQ(contours.type(), CUS_8UC1);
}

TEST_P(Cpp, StreamsAndTheirEvents) {
    if (space() == CUS_HOST) {
        if (!support::haveGpu()) {
            EXPECT_THROW(cusight::Stream(), cusight::Error);
            EXPECT_THROW(cusight::StreamEvent(), cusight::Error);
        }
        return;
    }
    cusight::Stream stream, other;
    cusight::StreamEvent start, stop;
    const Matrix image = random(300, 400, CUS_8UC1);
    Matrix sum, copied;
    cusight::Integrator integrator(300, 400, CUS_DEVICE);
    start.record(stream);
    integrator.sum(image, sum, stream);
    stop.record(stream);
    other.wait(stop);
    cusight::copy(sum, copied, CUS_HOST, other);
    other.synchronize();
    EXPECT_GT(stop.since(start), 0);
    EXPECT_EQ(support::elements(copied.get()), support::elements(sum.get()));
}

// A run of many frames gives the events of one push after the other.
TEST_P(Cpp, EventsOfManyFrames) {
    const int frames = 5;
    Matrix stack(16 * frames, 24, CUS_8UC1);
    for (int y = 0; y < 16 * frames; ++y)
        for (int x = 0; x < 24; ++x)
            stack.at<uint8_t>(y, x) = static_cast<uint8_t>((x * 10 + y * 7) % 256);
    cusEventGeneratorOptions options = cusEventGeneratorDefaults();
    options.shot_rate = 100;
    cusight::EventGenerator pusher(16, 24, options);
    std::vector<int64_t> times, expected;
    for (int k = 0; k < frames; ++k) {
        times.push_back(1000 * k);
        const cusEventArrays some = pusher.push(stack.region(0, 16 * k, 24, 16), times.back());
        expected.insert(expected.end(), some.t, some.t + some.count);
    }
    options.space = space();
    cusight::EventGenerator generator(16, 24, options);
    Matrix there, t(1, 60000, CUS_64FC1, space()), back;
    cusight::copy(stack, there, space());
    cusEventBuffers out = {};
    out.t = static_cast<int64_t *>(t.get().data);
    out.capacity = 60000;
    generator.run(there, times, out);
    ASSERT_EQ(generator.generated().count, expected.size());
    const cusMat made = t.region(0, 0, static_cast<int>(expected.size()), 1);
    EXPECT_EQ(support::elements<int64_t>(made), expected);
}

// Events of a video, stacked at once and piece by piece.
TEST_P(Cpp, EventsThereAndBack) {
    cusight::EventGenerator generator(16, 24);
    cusight::Events events;
    Matrix frame(16, 24, CUS_8UC1);
    for (int k = 0; k < 6; ++k) {
        for (int y = 0; y < 16; ++y)
            for (int x = 0; x < 24; ++x)
                frame.at<uint8_t>(y, x) = static_cast<uint8_t>((x * 10 + y * 7 + k * 40) % 256);
        const cusEventArrays some = generator.push(frame, 1000 * k);
        events.x.insert(events.x.end(), some.x, some.x + some.count);
        events.y.insert(events.y.end(), some.y, some.y + some.count);
        events.p.insert(events.p.end(), some.p, some.p + some.count);
        events.t.insert(events.t.end(), some.t, some.t + some.count);
    }
    ASSERT_GT(events.size(), 500u);
    cusWindowing windowing = cusWindowingDefaults();
    windowing.length = 200;
    const auto windows = cusight::eventWindows(events.view(), windowing);
    ASSERT_EQ(windows.size(), (events.size() + 199) / 200); // the last one may not be full
    const std::vector<cusRepresentation> kinds = {cusRepresentationDefaults(CUS_REPR_HISTOGRAM),
                                                  cusRepresentationDefaults(CUS_REPR_EVENT_DIFF)};
    cusight::EventStacker stacker(16, 24, CUS_HOST, kinds);
    std::vector<Matrix> frames;
    stacker.stack(events.view(), windows, frames);
    ASSERT_EQ(frames.size(), 2u);
    EXPECT_EQ(stacker.skipped(), 0u);

    std::vector<uint8_t> delivered;
    cusEventPipelineOptions options = cusEventPipelineDefaults();
    options.windowing = windowing;
    options.compute = space();
    cusight::EventPipeline pipeline(
        16, 24, kinds,
        [&](const cusFrameBatch &batch) {
            const auto bytes = support::elements(batch.frames[0]);
            delivered.insert(delivered.end(), bytes.begin(), bytes.end());
        },
        options);
    cusight::EventPipeline moved = std::move(pipeline);
    moved.push(events.view());
    moved.flush();
    EXPECT_EQ(delivered, support::elements(frames[0].get()));
    EXPECT_EQ(moved.counts().events, events.size());

    // The same events as bytes: EVT2 with a time word before each.
    std::string text = "% evt 2.0\n% geometry 24x16\n% end\n";
    for (size_t i = 0; i < events.size(); ++i) {
        const auto t = static_cast<uint32_t>(events.t[i]);
        for (const uint32_t word : {8u << 28 | t >> 6, uint32_t(events.p[i] != 0) << 28 | (t & 63) << 22 |
                                                           uint32_t(events.x[i]) << 11 | events.y[i]})
            for (int k = 0; k < 4; ++k)
                text.push_back(static_cast<char>(word >> 8 * k));
    }
    cusight::EventReader reader(text.data(), text.size());
    const auto [how, start] = reader.decoder();
    options.decoder = &how;
    delivered.clear();
    cusight::EventPipeline of_bytes(
        16, 24, kinds,
        [&](const cusFrameBatch &batch) {
            const auto bytes = support::elements(batch.frames[0]);
            delivered.insert(delivered.end(), bytes.begin(), bytes.end());
        },
        options);
    of_bytes.start(start);
    std::vector<uint8_t> piece(100);
    while (const size_t n = reader.readBytes(piece.data(), piece.size()))
        of_bytes.pushBytes(piece.data(), n);
    of_bytes.flush();
    EXPECT_EQ(delivered, support::elements(frames[0].get()));
    EXPECT_EQ(of_bytes.counts().decoded.events, events.size());
    options.decoder = nullptr;

    cusEventFramesOptions of_recording = cusEventFramesDefaults();
    of_recording.windowing = windowing;
    of_recording.compute = space();
    cusight::EventFrames all(reader, kinds, of_recording);
    for (int round = 0; round < 2; ++round) {
        delivered.clear();
        while (const cusFrameBatch *batch = all.next()) {
            const auto bytes = support::elements(batch->frames[0]);
            delivered.insert(delivered.end(), bytes.begin(), bytes.end());
        }
        EXPECT_EQ(delivered, support::elements(frames[0].get()));
        EXPECT_EQ(all.counts().events, events.size());
        all.restart();
    }
    EXPECT_EQ(all.info().width, 24);
    all.cancel();
    EXPECT_THROW(all.next(), cusight::Error);
    EXPECT_THROW(cusight::EventFrames("/nowhere/at-all", kinds), cusight::Error);

    cusight::EventPipeline failing(
        16, 24, kinds, [](const cusFrameBatch &) { throw std::out_of_range("the sink's own"); }, options);
    try {
        failing.push(events.view());
        failing.flush();
        FAIL() << "the sink's exception was lost";
    } catch (const std::out_of_range &e) {
        EXPECT_STREQ(e.what(), "the sink's own");
    }
}

TEST(CppClasses, RecordingsInMemory) {
    const std::string text = "8 4\n10 1 2 1\n20 7 3 0\n30 0 0 1\n30 9 0 1\n";
    cusight::EventReader reader(text.data(), text.size());
    EXPECT_EQ(reader.info().width, 8);
    cusight::Events events;
    ASSERT_TRUE(reader.read(events, 2));
    EXPECT_EQ(events.size(), 2u);
    EXPECT_EQ(events.t[1], 20);
    try {
        reader.read(events, 10);
        FAIL() << "an event outside the sensor";
    } catch (const cusight::Error &e) {
        EXPECT_EQ(e.status(), CUS_ERROR_FORMAT);
        ASSERT_EQ(events.size(), 1u); // the one before the damage
        EXPECT_EQ(events.t[0], 30);
    }
    cusight::EventReader again = cusight::EventReader(text.data(), text.size());
    EXPECT_EQ(again.seekTime(15), 1);
    again.seekIndex(2);
    ASSERT_TRUE(again.read(events, 1));
    EXPECT_EQ(events.x[0], 0);
    EXPECT_EQ(again.counts().events, 1u);
    std::vector<cusEventTrigger> triggers;
    EXPECT_FALSE(again.readTriggers(triggers, 3));
    EXPECT_TRUE(triggers.empty());

    const std::string evt2("% evt 2.0\n% end\n\x01\0\0\x80\x01\x02\x40\xa0", 24); // a time word and a trigger
    cusight::EventReader raw(evt2.data(), evt2.size());
    for (int round = 0; round < 2; ++round) {
        ASSERT_TRUE(raw.readTriggers(triggers, 3));
        ASSERT_EQ(triggers.size(), 1u);
        EXPECT_EQ(triggers[0].t, 65);
        EXPECT_EQ(triggers[0].id, 2);
        EXPECT_EQ(triggers[0].value, 1);
        EXPECT_FALSE(raw.readTriggers(triggers, 3));
        raw.rewindTriggers();
    }
}

TEST(CppClasses, WritersRemoveWhatIsNotFinished) {
    const std::string path = testing::TempDir() + "cusight_cpp_events.h5",
                      frames = testing::TempDir() + "cusight_cpp_frames.h5";
    cusEventWriterOptions options = cusEventWriterDefaults();
    options.width = 8;
    options.height = 4;
    cusight::Events events;
    events.resize(3);
    events.t = {1, 2, 3};
    events.x = {5, 6, 7};
    {
        cusight::EventWriter abandoned(path, options);
        abandoned.write(events.view());
    }
    EXPECT_EQ(std::fopen(path.c_str(), "rb"), nullptr);
    EXPECT_EQ(std::fopen((path + ".part").c_str(), "rb"), nullptr);
    cusight::EventWriter writer(path, options);
    writer.write(events.view());
    writer.finish();
    EXPECT_EQ(writer.get(), nullptr);
    {
        cusight::EventReader reader(path);
        cusight::Events got;
        ASSERT_TRUE(reader.read(got, 10));
        EXPECT_EQ(got.x, events.x);
        EXPECT_FALSE(reader.read(got, 10));
    }
    cusight::FrameWriter frame_writer(frames, 2, 3, CUS_8UC1);
    Matrix frame(2, 3, CUS_8UC1);
    frame.setZero();
    frame_writer.write(frame);
    frame_writer.finish();
    EXPECT_EQ(std::remove(path.c_str()), 0);
    EXPECT_EQ(std::remove(frames.c_str()), 0);
}

// Work that takes some tenths of a second, also under a sanitizer, so that the library asks.
class AskedWork {
  public:
    AskedWork() {
        const int side = support::fewer() > 1 ? 400 : 2000;
        cusight::check(cusMatCreate(&holes_, side, side, CUS_16UC1, CUS_HOST));
        cusight::check(cusMatSetZero(&holes_, nullptr));
        *static_cast<uint16_t *>(holes_.data) = 60000;
        options_.fill = CUS_FILL_RELAX, options_.iterations = 3000, options_.tolerance = 0;
    }
    void run() { cusight::check(cusStereoFill(&holes_, &filled_, &options_, nullptr)); }

  private:
    support::Mat holes_, filled_;
    cusStereoOptions options_ = cusStereoDefaults();
};

TEST(CppClasses, ProgressIsAskedAndCancels) {
    AskedWork work;
    std::vector<double> seen;
    {
        const cusight::Progress progress([&](double done, double) {
            seen.push_back(done);
            return true;
        });
        work.run();
    }
    ASSERT_GE(seen.size(), 2u) << "too short to be asked about";
    EXPECT_EQ(seen.back(), 1);
    const size_t asked = seen.size();
    {
        const cusight::Progress outer([&](double, double) { return false; });
        {
            const cusight::Progress inner([](double, double) -> bool { throw std::out_of_range("the function's own"); });
            EXPECT_THROW(work.run(), std::out_of_range);
        }
        try {
            work.run();
            ADD_FAILURE() << "not cancelled";
        } catch (const cusight::Error &error) {
            EXPECT_EQ(error.status(), CUS_ERROR_CANCELLED);
            EXPECT_EQ(error.message().rfind("cusStereoFill: cancelled at ", 0), 0u) << error.message();
        }
    }
    work.run(); // nothing is asked any more
    EXPECT_EQ(seen.size(), asked);
}

// At the end, too, when the work is done.
TEST(CppClasses, WhatProgressThrowsIsNotLost) {
    AskedWork work;
    const cusight::Progress progress([&](double done, double) {
        if (done == 1)
            throw std::out_of_range("at the end");
        return true;
    });
    EXPECT_THROW(work.run(), std::out_of_range);
}

TEST_P(Cpp, LiveVideo) {
    try {
        cusight::Viewer();
    } catch (const cusight::Error &e) {
        ASSERT_EQ(e.status(), CUS_ERROR_UNSUPPORTED);
        GTEST_SKIP() << "no zstd in this build";
    }
    cusight::Sender sender(20, 30, CUS_8UC3, space());
    cusight::Peer peer(20, 30, CUS_8UC3, 25000);
    cusight::Viewer viewer;
    const auto exchange = [&] {
        int frames = 0;
        for (cusight::Bytes up = viewer.output(); up.size > 0; up = viewer.output()) {
            peer.input(up.data, up.size);
            viewer.sent(up.size);
        }
        for (cusight::Bytes waiting = peer.output(); waiting.size > 0; waiting = peer.output()) {
            for (cusight::Bytes rest = waiting; rest.size > 0;)
                frames += viewer.input(rest) == CUS_VIEWER_FRAME;
            peer.sent(waiting.size);
        }
        return frames;
    };
    exchange(); // the handshake
    int frames = 0;
    for (int k = 0; k < 3; ++k) {
        const Matrix frame = random(20, 30, CUS_8UC3);
        sender.submit(frame, peer.info().wants_key_frame != 0);
        peer.offer(sender.finish());
        sender.release();
        frames += exchange();
    }
    EXPECT_EQ(frames, 3);
    EXPECT_EQ(support::elements(viewer.frame()), support::elements(sender.reference()));
    EXPECT_EQ(viewer.info().rate_millihertz, 25000u);
    viewer.finish();
    exchange();
    EXPECT_TRUE(peer.info().disconnected);
    peer.finish();
    viewer.reconnect();
    EXPECT_THROW(sender.release(), cusight::Error);
}

} // namespace
