// Frames of recordings by cusEventFrames: those that a pipeline makes of the same events.
#include "eventframes/support.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include <sys/wait.h>

namespace {

using namespace eventframes_test;
using events::Pipeline;
using events::slice;

constexpr cusEventFormat FORMATS[] = {CUS_EVENTS_EVT2, CUS_EVENTS_EVT3, CUS_EVENTS_DAT,
                                      CUS_EVENTS_M3ED, CUS_EVENTS_TEXT, CUS_EVENTS_METAVISION};

class EventFrames : public FramesTest {
  protected:
    Folder at;
};
CUS_BOTH_SPACES(EventFrames);

std::string write(const std::string &path, cusEventFormat format, const Events &events) {
    cusEventWriterOptions options = cusEventWriterDefaults();
    options.width = WIDTH;
    options.height = HEIGHT;
    options.format = format;
    cusEventWriter *writer = nullptr;
    CUS_EXPECT_OK(cusEventWriterCreate(&writer, path.c_str(), &options));
    CUS_EXPECT_OK(
        cusEventWriterWrite(writer, events.size(), events.x.data(), events.y.data(), events.p.data(), events.t.data()));
    CUS_EXPECT_OK(cusEventWriterFinish(writer));
    return path;
}

// What a pipeline on the host makes of the same events.
void expectFramesOf(const Events &events, const std::vector<cusRepresentation> &r, const cusEventFramesOptions &o,
                    const Collected &got) {
    cusEventPipelineOptions plain = cusEventPipelineDefaults();
    plain.windowing = o.windowing;
    plain.first_window = o.first_window;
    plain.end_window = o.end_window;
    Collected expected;
    const Pipeline pipeline(o.rows, o.cols, r, plain, &expected);
    const cusEventArrays all = slice(events, 0, events.size());
    CUS_ASSERT_OK(cusEventPipelinePush(pipeline.object, &all));
    CUS_ASSERT_OK(cusEventPipelineFlush(pipeline.object));
    ASSERT_EQ(got.windows.size(), expected.windows.size());
    for (size_t k = 0; k < expected.windows.size(); ++k) {
        ASSERT_EQ(got.windows[k].first, expected.windows[k].first) << "window " << k;
        ASSERT_EQ(got.windows[k].last, expected.windows[k].last) << "window " << k;
    }
    if (expected.windows.empty())
        return;
    EXPECT_EQ(got.first, expected.first);
    for (size_t i = 0; i < r.size(); ++i)
        ASSERT_TRUE(got.values[i] == expected.values[i]) << cusRepresentationName(r[i].kind);
}

TEST_P(EventFrames, OfEveryFormat) {
    std::mt19937_64 random = support::generator();
    const std::vector<cusRepresentation> r = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_TENCODE)};
    for (const cusEventFormat format : FORMATS)
        for (int round = 0; round < 6; ++round) {
            const Events events = some(1000 + random() % 20000, random);
            const bool by_count = round % 2 == 0;
            cusEventFramesOptions o = options(by_count ? CUS_WINDOW_COUNT : CUS_WINDOW_DURATION, by_count ? 700 : 5000);
            o.windowing.stride = round < 4 ? 0 : o.windowing.length / 3;
            o.batch_windows = 1 + random() % 7;
            o.deliver = round % 3 == 2 ? space() : CUS_HOST;
            if (round >= 3) {
                o.first_window = random() % 6;
                o.end_window = o.first_window + 1 + random() % 9;
            }
            const std::string path = write(at / "r", format, events);
            Frames frames;
            CUS_ASSERT_OK(cusEventFramesOpen(&frames, path.c_str(), nullptr, r.data(), 2, &o));
            Collected got;
            SCOPED_TRACE(std::string(cusEventFormatName(format)) + ", round " + std::to_string(round));
            CUS_ASSERT_OK(collect(frames, got, o.batch_windows));
            expectFramesOf(events, r, o, got);
            cusEventFramesCounts counts;
            CUS_ASSERT_OK(cusEventFramesQuery(frames, &counts));
            EXPECT_EQ(counts.windows, got.windows.size());
            if (!o.end_window) {
                EXPECT_EQ(counts.events, events.size());
                EXPECT_EQ(counts.read.events, events.size());
                if (format != CUS_EVENTS_M3ED && format != CUS_EVENTS_METAVISION) // whose chunks are not all of the file
                    EXPECT_EQ(counts.bytes, counts.size);
            }
            cusEventInfo info;
            CUS_ASSERT_OK(cusEventFramesInfo(frames, &info));
            EXPECT_EQ(info.format, format);
        }
}

// Many pieces, windows that span them, and every batch but the last whole.
TEST_P(EventFrames, LongRecording) {
    std::mt19937_64 random = support::generator();
    const Events events = some(1500000, random);
    for (const cusEventFormat format : {CUS_EVENTS_EVT3, CUS_EVENTS_M3ED}) {
        const std::string path = write(at / "long", format, events);
        cusEventFramesOptions o = options(CUS_WINDOW_COUNT, 100000, 30000);
        o.batch_windows = 4;
        const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
        Frames frames;
        CUS_ASSERT_OK(cusEventFramesOpen(&frames, path.c_str(), nullptr, &r, 1, &o));
        Collected got;
        CUS_ASSERT_OK(collect(frames, got, 4));
        expectFramesOf(events, {r}, o, got);
    }
}

TEST_P(EventFrames, RangeAndFilter) {
    std::mt19937_64 random = support::generator();
    const Events events = some(30000, random);
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    for (const cusEventFormat format : FORMATS) {
        const std::string path = write(at / "r", format, events);
        cusEventFramesOptions o = options(CUS_WINDOW_COUNT, 900);
        o.from = events.t[events.size() / 4];
        o.to = events.t[events.size() / 2];
        cusEventFilterOptions filter = cusEventFilterDefaults();
        filter.width = WIDTH;
        filter.height = HEIGHT;
        filter.flip_x = 1;
        o.filter = &filter;
        Events expected;
        for (size_t i = 0; i < events.size(); ++i)
            if (events.t[i] >= o.from && events.t[i] < o.to)
                expected.add(events.t[i], WIDTH - 1 - events.x[i], events.y[i], events.p[i]);
        Frames frames;
        CUS_ASSERT_OK(cusEventFramesOpen(&frames, path.c_str(), nullptr, &r, 1, &o));
        filter.flip_x = 0; // it has been read
        Collected got;
        CUS_ASSERT_OK(collect(frames, got));
        expectFramesOf(expected, {r}, o, got);
        cusEventFramesCounts counts;
        CUS_ASSERT_OK(cusEventFramesQuery(frames, &counts));
        EXPECT_EQ(counts.events, expected.size());
    }
}

// From the place of an open reader on: after reading some events, and at a mark.
TEST_P(EventFrames, OfAnOpenReader) {
    std::mt19937_64 random = support::generator();
    const Events events = some(20000, random);
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    for (const cusEventFormat format : FORMATS) {
        const std::string path = write(at / "r", format, events);
        const cusEventFramesOptions o = options(CUS_WINDOW_COUNT, 900);
        Reader reader(path);
        constexpr uint64_t PARTS = 5;
        cusEventPart parts[PARTS];
        cusEventMark marks[PARTS + 1];
        for (uint64_t k = 0; k < PARTS; ++k)
            CUS_ASSERT_OK(cusEventReaderScan(reader.reader, k, PARTS, &parts[k]));
        CUS_ASSERT_OK(cusEventReaderMarks(reader.reader, parts, PARTS, marks));
        for (int how = 0; how < 3; ++how) {
            size_t from = 777;
            CUS_ASSERT_OK(cusEventReaderSeekIndex(reader.reader, 0));
            if (how == 0) {
                reader.read(from);
            } else {
                CUS_ASSERT_OK(cusEventReaderSeekMark(reader.reader, &marks[2]));
                from = marks[2].index;
            }
            if (how == 2)
                reader.read(5), from += 5; // no longer at the mark
            Events rest;
            for (size_t i = from; i < events.size(); ++i)
                rest.add(events.t[i], events.x[i], events.y[i], events.p[i]);
            Frames frames;
            CUS_ASSERT_OK(cusEventFramesOpenReader(&frames, reader.reader, &r, 1, &o));
            Collected got;
            SCOPED_TRACE(std::string(cusEventFormatName(format)) + ", way " + std::to_string(how));
            CUS_ASSERT_OK(collect(frames, got));
            expectFramesOf(rest, {r}, o, got);
        }
    }
}

// The frames before the damage, then the error, again and again.
TEST_P(EventFrames, DamageComesLast) {
    std::mt19937_64 random = support::generator();
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    for (const cusEventFormat format : FORMATS) {
        const Events events = some(30000, random);
        const std::string path = write(at / "r", format, events);
        Bytes bytes = load(path);
        const bool words = format == CUS_EVENTS_EVT2 || format == CUS_EVENTS_EVT3 || format == CUS_EVENTS_DAT;
        if (words)
            bytes.resize(bytes.size() - 1);
        else if (format == CUS_EVENTS_TEXT)
            bytes[bytes.size() - 20] = '?';
        else
            std::fill(bytes.begin() + std::ptrdiff_t(bytes.size() / 2),
                      bytes.begin() + std::ptrdiff_t(bytes.size() / 2) + 64, 0xff);
        save(path, bytes);
        cusStatus damage = CUS_OK;
        Reader reader(path);
        if (reader.opened != CUS_OK) // it hit what Open reads
            continue;
        const Events before = reader.all(70000, &damage);
        if (damage == CUS_OK) // it hit what nobody reads
            continue;
        for (const size_t windows : {1, 5}) {
            cusEventFramesOptions o = options(CUS_WINDOW_DURATION, 3000);
            o.batch_windows = windows;
            Frames frames;
            CUS_ASSERT_OK(cusEventFramesOpen(&frames, path.c_str(), nullptr, &r, 1, &o));
            Collected got;
            EXPECT_EQ(collect(frames, got, windows), damage) << cusLastError();
            expectFramesOf(before, {r}, o, got);
            const std::string message = cusLastError();
            cusFrameBatch batch;
            EXPECT_EQ(cusEventFramesNext(frames, &batch), damage);
            EXPECT_EQ(batch.count, 0u);
        }
    }
}

// A gap that is too long is an error after the frames before it.
TEST_P(EventFrames, GapComesLast) {
    Events events;
    for (int k = 0; k < 5000; ++k)
        events.add(k, k % WIDTH, k % HEIGHT, k % 2);
    events.add(int64_t(1) << 30, 0, 0, 1);
    const std::string path = write(at / "r", CUS_EVENTS_DAT, events);
    cusEventFramesOptions o = options(CUS_WINDOW_DURATION, 100);
    o.batch_windows = 3; // the last batch before the gap is not whole
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    Frames frames;
    CUS_ASSERT_OK(cusEventFramesOpen(&frames, path.c_str(), nullptr, &r, 1, &o));
    Collected got;
    CUS_REJECTS(collect(frames, got), CAPACITY, "cusEventFramesNext: ");
    EXPECT_EQ(got.windows.size(), 49u);
}

TEST_P(EventFrames, Cancel) {
    std::mt19937_64 random = support::generator();
    const Events events = some(200000, random);
    const std::string path = write(at / "r", CUS_EVENTS_EVT3, events);
    cusEventFramesOptions o = options(CUS_WINDOW_COUNT, 1000);
    o.batch_windows = 2;
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    Frames frames;
    CUS_ASSERT_OK(cusEventFramesOpen(&frames, path.c_str(), nullptr, &r, 1, &o));
    cusFrameBatch batch;
    CUS_ASSERT_OK(cusEventFramesNext(frames, &batch));
    std::thread([&] { cusEventFramesCancel(frames); }).join();
    CUS_REJECTS(cusEventFramesNext(frames, &batch), CANCELLED, "cusEventFramesNext: cancelled");
    CUS_REJECTS(cusEventFramesNext(frames, &batch), CANCELLED, "cusEventFramesNext: cancelled");
    for (int batches = 0; batches < 3; ++batches) { // closed at any time
        Frames other;
        CUS_ASSERT_OK(cusEventFramesOpen(&other, path.c_str(), nullptr, &r, 1, &o));
        for (int k = 0; k < batches; ++k)
            CUS_ASSERT_OK(cusEventFramesNext(other, &batch));
    }
}

// From the first window again: at once, in the middle, after the end; after damage too.
TEST_P(EventFrames, Restart) {
    std::mt19937_64 random = support::generator();
    const Events events = some(30000, random);
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    for (const cusEventFormat format : FORMATS) {
        std::string path = write(at / "r", format, events);
        for (const bool damaged : {false, true}) {
            if (damaged && format != CUS_EVENTS_EVT2 && format != CUS_EVENTS_TEXT)
                continue;
            if (damaged) {
                Bytes bytes = load(path);
                if (format == CUS_EVENTS_TEXT)
                    bytes[bytes.size() - 20] = '?';
                else
                    bytes.pop_back();
                save(path, bytes);
            }
            cusEventFramesOptions o = options(CUS_WINDOW_COUNT, 700);
            o.first_window = 3;
            o.batch_windows = 2;
            cusEventFilterOptions filter = cusEventFilterDefaults();
            filter.width = WIDTH;
            filter.height = HEIGHT;
            filter.activity = 500; // which remembers
            for (const bool filtered : {false, true}) {
                o.filter = filtered ? &filter : nullptr;
                Frames frames;
                CUS_ASSERT_OK(cusEventFramesOpen(&frames, path.c_str(), nullptr, &r, 1, &o));
                Collected whole;
                const cusStatus status = collect(frames, whole);
                EXPECT_EQ(status == CUS_OK, !damaged);
                EXPECT_GT(whole.windows.size(), 4u);
                for (const size_t before : {size_t{0}, size_t{1}, size_t{3}, SIZE_MAX}) {
                    cusFrameBatch batch;
                    CUS_ASSERT_OK(cusEventFramesRestart(frames));
                    for (size_t k = 0; k < before; ++k)
                        if (cusEventFramesNext(frames, &batch) != CUS_OK || batch.count == 0)
                            break;
                    CUS_ASSERT_OK(cusEventFramesRestart(frames));
                    Collected again;
                    EXPECT_EQ(collect(frames, again), status);
                    EXPECT_TRUE(again.values == whole.values);
                    cusEventFramesCounts counts;
                    CUS_ASSERT_OK(cusEventFramesQuery(frames, &counts));
                    EXPECT_EQ(counts.windows, whole.windows.size());
                }
            }
        }
    }
}

// Two of them, taken in turn.
TEST_P(EventFrames, TwoBesideEachOther) {
    std::mt19937_64 random = support::generator();
    const cusEventFramesOptions o = options(CUS_WINDOW_COUNT, 500);
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    Events events[2];
    Frames frames[2];
    Collected got[2];
    for (int k = 0; k < 2; ++k) {
        events[k] = some(30000, random);
        const std::string path = write(at / std::to_string(k), FORMATS[k], events[k]);
        CUS_ASSERT_OK(cusEventFramesOpen(&frames[k], path.c_str(), nullptr, &r, 1, &o));
    }
    for (bool more = true; more;) {
        more = false;
        for (int k = 0; k < 2; ++k) {
            cusFrameBatch batch;
            CUS_ASSERT_OK(cusEventFramesNext(frames[k], &batch));
            if (!batch.count)
                continue;
            more = true;
            CUS_ASSERT_OK(Collected::sink(&got[k], &batch));
        }
    }
    for (int k = 0; k < 2; ++k)
        expectFramesOf(events[k], {r}, o, got[k]);
}

TEST_P(EventFrames, Rejects) {
    const std::string path = at / "r"; // without the sensor's size
    save(path, reference::bytesOf("0.001 1 2 1\n0.002 3 4 0\n"));
    cusEventFramesOptions o = options(CUS_WINDOW_COUNT, 500);
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    cusEventFrames *frames = nullptr;
    const auto open = [&] { return cusEventFramesOpen(&frames, path.c_str(), nullptr, &r, 1, &o); };
    CUS_REJECTS(cusEventFramesOpen(nullptr, path.c_str(), nullptr, &r, 1, &o), NULL, "cusEventFramesOpen: frames is NULL");
    CUS_REJECTS(cusEventFramesOpen(&frames, nullptr, nullptr, &r, 1, &o), NULL, "path is NULL");
    CUS_REJECTS(cusEventFramesOpen(&frames, (at / "none").c_str(), nullptr, &r, 1, &o), IO, "cusEventFramesOpen: ");
    CUS_REJECTS(cusEventFramesOpenReader(&frames, nullptr, &r, 1, &o), NULL, "reader is NULL");
    CUS_REJECTS(cusEventFramesOpen(&frames, path.c_str(), nullptr, nullptr, 1, &o), NULL,
                "cusEventFramesOpen: representations");
    o.rows = o.cols = 0;
    CUS_REJECTS(open(), SIZE, "rows and cols are 0, expected the size of the frames");
    o = options(CUS_WINDOW_COUNT, 0);
    CUS_REJECTS(open(), VALUE, "cusEventFramesOpen: ");
    o = options(CUS_WINDOW_COUNT, 500);
    o.reserved[3] = 1;
    CUS_REJECTS(open(), VALUE, "options->reserved[3] is 1");
    EXPECT_EQ(frames, nullptr);
    o.reserved[3] = 0;
    Frames good;
    CUS_ASSERT_OK(cusEventFramesOpen(&good, path.c_str(), nullptr, &r, 1, &o));
    CUS_REJECTS(cusEventFramesNext(good, nullptr), NULL, "batch is NULL");
    CUS_REJECTS(cusEventFramesQuery(good, nullptr), NULL, "counts is NULL");
    CUS_REJECTS(cusEventFramesInfo(good, nullptr), NULL, "info is NULL");
    cusEventFramesCancel(nullptr);
    cusEventFramesClose(nullptr);
}

// A child of fork() has no threads of the object: it is told, and does not wait for ever.
TEST(EventFramesFork, ChildIsRefused) {
    std::mt19937_64 random = support::generator();
    const Folder at;
    const std::string path = write(at / "r", CUS_EVENTS_EVT3, some(1000, random));
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    Frames frames;
    CUS_ASSERT_OK(cusEventFramesOpen(&frames, path.c_str(), nullptr, &r, 1, nullptr));
    const pid_t child = fork();
    if (child == 0) {
        cusFrameBatch batch;
        const bool told = cusEventFramesNext(frames, &batch) == CUS_ERROR_VALUE &&
                          std::string(cusLastError()).find("which has opened it") != std::string::npos;
        cusEventFramesClose(frames);
        _exit(told ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    cusFrameBatch batch;
    CUS_EXPECT_OK(cusEventFramesNext(frames, &batch));
}

// The callback of cusSetProgress ends a wait, after which the next call goes on.
TEST(EventFramesProgress, CallbackEndsAWait) {
    std::mt19937_64 random = support::generator();
    const Folder at;
    const Events events = some(3000000, random);
    const std::string path = write(at / "r", CUS_EVENTS_TEXT, events); // which takes its time
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    cusEventFramesOptions o = cusEventFramesDefaults();
    o.windowing.length = events.size();
    o.rows = HEIGHT;
    o.cols = WIDTH;
    Frames frames;
    CUS_ASSERT_OK(cusEventFramesOpen(&frames, path.c_str(), nullptr, &r, 1, &o));
    int asked = 0;
    const auto callback = [](void *user, double, double) { return ++*static_cast<int *>(user) == 1 ? 1 : 0; };
    CUS_ASSERT_OK(cusSetProgress(callback, &asked));
    cusFrameBatch batch;
    const cusStatus first = cusEventFramesNext(frames, &batch);
    CUS_ASSERT_OK(cusSetProgress(nullptr, nullptr));
    if (first == CUS_OK) // a machine that reads 60 MB of text in a moment
        GTEST_SKIP() << "the first batch came before the first question";
    EXPECT_EQ(first, CUS_ERROR_CANCELLED);
    CUS_ASSERT_OK(cusEventFramesNext(frames, &batch));
    EXPECT_EQ(batch.count, 1u);
}

} // namespace
