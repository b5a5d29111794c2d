// Several devices, or threads of the host, in one cusEventFrames: what one makes.
#include "eventframes/support.hpp"

extern "C" {
#include "eventframes/eventframes.h"
}

#include <thread>

namespace {

using namespace eventframes_test;

// Small pieces, parts and jobs, as long as the object lives.
class Sizes {
  public:
    explicit Sizes(EventFramesSizes sizes) { eventframes_sizes = sizes; }
    ~Sizes() { eventframes_sizes = before_; }
    Sizes(const Sizes &) = delete;
    Sizes &operator=(const Sizes &) = delete;

  private:
    const EventFramesSizes before_ = eventframes_sizes;
};

// What one run gives.
struct Result {
    Collected frames;
    cusStatus status = CUS_OK;
    std::string message;
    cusEventFramesCounts counts = {};
};

class EventFramesLanes : public FramesTest {
  protected:
    static constexpr int SAME[] = {0, 0, 0, 0, 0, 0, 0, 0};

    static cusEventFramesOptions onLanes(cusEventFramesOptions o, int lanes) {
        o.device_count = lanes;
        o.devices = lanes && o.compute == CUS_DEVICE ? SAME : nullptr;
        return o;
    }

    static void finish(cusEventFrames *frames, size_t batch, Result &to) {
        to.status = collect(frames, to.frames, batch);
        to.message = to.status == CUS_OK ? "" : cusLastError();
        CUS_EXPECT_OK(cusEventFramesQuery(frames, &to.counts));
    }

    static Result run(const Bytes &bytes, const cusEventFramesOptions &o, int lanes,
                      cusEventReaderOptions reading = cusEventReaderDefaults(),
                      const std::vector<cusRepresentation> &r = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_TENCODE)}) {
        reading.width = WIDTH, reading.height = HEIGHT;
        const int count = static_cast<int>(r.size());
        Result result;
        Reader reader(bytes, reading);
        Frames frames;
        const cusEventFramesOptions chosen = onLanes(o, lanes);
        const cusStatus opened = cusEventFramesOpenReader(&frames, reader.reader, r.data(), count, &chosen);
        EXPECT_EQ(opened, CUS_OK) << cusLastError();
        if (opened == CUS_OK)
            finish(frames, o.batch_windows, result);
        return result;
    }

    static void expectEqual(const Result &got, const Result &one) {
        ASSERT_EQ(got.status, one.status) << got.message << "; one lane: " << one.message;
        ASSERT_EQ(got.frames.windows.size(), one.frames.windows.size()) << got.message << "; one lane: " << one.message;
        for (size_t k = 0; k < one.frames.windows.size(); ++k) {
            ASSERT_EQ(got.frames.windows[k].first, one.frames.windows[k].first) << "window " << k;
            ASSERT_EQ(got.frames.windows[k].last, one.frames.windows[k].last) << "window " << k;
        }
        if (!one.frames.windows.empty())
            ASSERT_EQ(got.frames.first, one.frames.first);
        ASSERT_TRUE(got.frames.values == one.frames.values);
        EXPECT_EQ(got.counts.windows, one.counts.windows);
        EXPECT_EQ(got.counts.skipped, one.counts.skipped);
        if (one.counts.end_window) // how far beyond is read, is not the same
            return;
        EXPECT_EQ(got.counts.events, one.counts.events);
        EXPECT_EQ(got.counts.last_time, one.counts.last_time);
        EXPECT_EQ(got.counts.size, one.counts.size);
        if (one.status == CUS_OK)
            EXPECT_EQ(got.counts.bytes, one.counts.bytes);
        if (one.status != CUS_ERROR_CAPACITY) // which ends the reading of one lane at a piece
            EXPECT_EQ(0, std::memcmp(&got.counts.read, &one.counts.read, sizeof got.counts.read));
    }

    static void expectSame(const Bytes &bytes, const cusEventFramesOptions &o, const std::string &name,
                           cusEventReaderOptions reading = cusEventReaderDefaults()) {
        if (isLeftOut(o))
            return;
        const Result one = run(bytes, o, 0, reading);
        for (const int lanes : {1, 2, 3, 4}) {
            if (support::fewer() > 1 && lanes != 3)
                continue;
            SCOPED_TRACE(name + ", " + std::to_string(lanes) + " lanes, windows of " + std::to_string(o.windowing.length) +
                         " every " + std::to_string(o.windowing.stride));
            expectEqual(run(bytes, o, lanes, reading), one);
            if (HasFatalFailure())
                return;
        }
    }

    // Disjoint, overlapping, with gaps, longer than a job, and more windows than events.
    std::vector<cusEventFramesOptions> windowings() const {
        std::vector<cusEventFramesOptions> all = byNumberAndTime({{150, 0}, {300, 110}, {40, 130}, {2500, 700}, {5, 0}});
        for (size_t k = 0; k < all.size(); ++k) {
            all[k].windowing.keep_incomplete = k % 3 != 0;
            all[k].max_events = 16384;    // little memory, since it is reserved thousands of times
            all[k].batch_windows = k % 5; // 0: as many as there are
            all[k].deliver = k % 2 ? space() : CUS_HOST;
        }
        return all;
    }
    std::mt19937_64 random = support::generator();
    const Sizes small{{.piece = 700, .part = 300, .job = 2000, .more = 300}};
};
CUS_BOTH_SPACES(EventFramesLanes);

TEST_P(EventFramesLanes, MakeTheSameInEveryFormat) {
    const Events events = some(3000 / support::fewer(), random);
    for (const auto &[name, bytes] : files(events))
        for (const cusEventFramesOptions &o : windowings())
            expectSame(bytes, o, name);
}

// The counts of triggers, of events before the first time and of those outside the frame are those of one lane.
TEST_P(EventFramesLanes, CountTheSame) {
    const Events events = some(5000, random);
    Bytes words = reference::evt3(events, EVT3);
    const size_t header = words.size();
    for (size_t k = 0; k < 40; ++k) { // triggers, rising and falling, between words
        const size_t at = header - 2 * (1 + random() % 4000);
        const uint16_t word = uint16_t(0xA000 | (random() & 0x0f01));
        words.insert(words.begin() + std::ptrdiff_t(at), {uint8_t(word), uint8_t(word >> 8)});
    }
    for (cusEventFramesOptions o : windowings()) {
        o.rows = HEIGHT / 2;
        expectSame(words, o, "evt3");
    }
    cusEventFramesOptions o = options(CUS_WINDOW_COUNT, 100);
    o.rows = HEIGHT / 2, o.batch_windows = 2;
    const Result result = run(words, o, 3);
    EXPECT_EQ(result.counts.read.triggers_rising + result.counts.read.triggers_falling, 40u);
    EXPECT_GT(result.counts.skipped, 0u);
}

// A range, a filter, bad events that are skipped, first and last windows, and a shard.
TEST_P(EventFramesLanes, Selections) {
    const Events events = some(3000, random);
    cusEventFilterOptions filter = cusEventFilterDefaults();
    filter.width = WIDTH, filter.height = HEIGHT;
    filter.activity = 3000; // which remembers
    for (const auto &[name, bytes] : files(events))
        for (cusEventFramesOptions o : windowings()) {
            if (o.windowing.length > 1000 || o.windowing.length < 100)
                continue;
            cusEventFramesOptions part = o;
            part.first_window = random() % 6;
            part.end_window = part.first_window + random() % 12;
            expectSame(bytes, part,
                       name + ", windows " + std::to_string(part.first_window) + " to " + std::to_string(part.end_window));
            part = o;
            part.shards = 3, part.shard = random() % 3;
            expectSame(bytes, part, name + ", shard " + std::to_string(part.shard));
            cusEventReaderOptions skipping = cusEventReaderDefaults();
            skipping.bad_events = CUS_BAD_EVENTS_SKIP;
            expectSame(bytes, o, name + ", skipping", skipping);
            o.filter = &filter;
            o.from = events.t[500], o.to = events.t[2500];
            expectSame(bytes, o, name + ", range and filter");
        }
}

TEST_P(EventFramesLanes, FewEvents) {
    for (const size_t n : {0, 1, 2, 5, 100}) {
        const Events events = some(n, random);
        for (const auto &[name, bytes] : files(events)) {
            cusEventReader *reader = nullptr;
            if (cusEventReaderOpenMemory(&reader, bytes.data(), bytes.size(), nullptr) != CUS_OK)
                continue;
            cusEventReaderClose(reader);
            expectSame(bytes, options(CUS_WINDOW_COUNT, 2), name);
            expectSame(bytes, options(CUS_WINDOW_DURATION, 1000), name);
        }
    }
}

TEST_P(EventFramesLanes, EqualTimes) {
    const Events events = ofEqualTimes(random);
    for (const auto &[name, bytes] : files(events))
        for (const auto &[length, stride] : {std::pair<uint64_t, uint64_t>{1, 30}, {400, 0}, {20000, 500}}) {
            cusEventFramesOptions o = options(CUS_WINDOW_DURATION, length, stride);
            o.batch_windows = 3;
            expectSame(bytes, o, name);
        }
}

// Gaps, some of them too long.
TEST_P(EventFramesLanes, Gaps) {
    for (int round = 0; round < 12 / support::fewer(); ++round) {
        Events events;
        int64_t t = 1000;
        for (int k = 0; k < 3000; ++k) {
            t += random() % 400 ? int64_t(random() % 3) : int64_t(random() % 30000);
            events.add(t, k % WIDTH, k % HEIGHT, k % 2);
        }
        cusEventFramesOptions o = options(CUS_WINDOW_DURATION, 50 + random() % 200, random() % 300);
        o.max_gap = 50 + random() % 300;
        o.batch_windows = 1 + random() % 3;
        o.max_events = 8192;
        const std::map<std::string, Bytes> all = {{"evt2", reference::evt2(events, EVT2)},
                                                  {"evt3", reference::evt3(events, EVT3)},
                                                  {"dat", reference::dat(events, DAT)}};
        for (const auto &[name, bytes] : all)
            expectSame(bytes, o, name + ", round " + std::to_string(round));
    }
}

// What comes before the damage, and its status.
TEST_P(EventFramesLanes, Damage) {
    const Events events = some(4000, random);
    const std::vector<cusEventFramesOptions> all = windowings();
    for (const auto &[name, good] : files(events))
        for (int round = 0; round < 12 / support::fewer(); ++round) {
            Bytes bytes = good;
            const size_t at = bytes.size() / 16 + random() % (bytes.size() * 15 / 16);
            if (round % 3 == 0)
                bytes.resize(at);
            else if (round % 3 == 1)
                std::fill(bytes.begin() + std::ptrdiff_t(at),
                          bytes.begin() + std::ptrdiff_t(std::min(at + 40, bytes.size())),
                          uint8_t(round % 2 ? 0xff : random()));
            else
                bytes[at] ^= uint8_t(1 << random() % 8);
            cusEventReader *reader = nullptr;
            cusEventReaderOptions sized = cusEventReaderDefaults();
            sized.width = WIDTH, sized.height = HEIGHT;
            const bool opens = cusEventReaderOpenMemory(&reader, bytes.data(), bytes.size(), &sized) == CUS_OK;
            cusEventReaderClose(reader);
            if (!opens)
                continue;
            expectSame(bytes, all[size_t(round) % all.size()], name + ", round " + std::to_string(round));
            if (HasFatalFailure())
                return;
        }
}

TEST_P(EventFramesLanes, EveryRepresentation) {
    const Bytes bytes = reference::evt3(some(30000, random), EVT3);
    const std::vector<cusRepresentation> all = events::allKinds();
    for (size_t begin = 0; begin < all.size(); begin += 5)
        for (const cusEventFramesOptions &o : byNumberAndTime({{700, 0}, {700, 300}})) {
            const std::vector<cusRepresentation> some(all.begin() + std::ptrdiff_t(begin),
                                                      all.begin() + std::ptrdiff_t(std::min(begin + 5, all.size())));
            const Result one = run(bytes, o, 0, cusEventReaderDefaults(), some);
            ASSERT_EQ(one.frames.values.size(), some.size());
            for (const int lanes : {2, 4})
                expectEqual(run(bytes, o, lanes, cusEventReaderDefaults(), some), one);
        }
}

// At least ten pieces of 64 KiB for each lane, windows over three of them, and damage in every piece, in some of them by time.
TEST_P(EventFramesLanes, ManyPieces) {
    const Sizes pieces{{.piece = 64 << 10, .part = 16 << 10, .job = 64 << 10, .more = 16 << 10}};
    const Events events = some(1200000 / support::fewer(), random);
    const std::map<std::string, Bytes> all = {{"evt2", reference::evt2(events, EVT2)},
                                              {"evt3", reference::evt3(events, EVT3)}};
    for (const auto &[name, good] : all) {
        ASSERT_GT(good.size(), size_t(40 / support::fewer()) << 16);
        for (const uint64_t length : {5000, 60000}) // of four and of two bytes
            for (const cusWindowUnit unit : {CUS_WINDOW_COUNT, CUS_WINDOW_DURATION}) {
                cusEventFramesOptions o = options(unit, unit == CUS_WINDOW_COUNT ? length : 4 * length);
                o.batch_windows = 2, o.max_events = 1 << 18;
                expectSame(good, o, name);
                const size_t some = support::fewer() > 1 ? good.size() / 3 : good.size() / 8;
                const size_t step = (support::fewer() == 1 && unit == CUS_WINDOW_COUNT ? size_t{64} << 10 : some) | 1;
                for (size_t at = 70000; at < good.size(); at += length == 5000 ? step : good.size()) {
                    Bytes bytes = good;
                    std::fill_n(bytes.begin() + std::ptrdiff_t(at), 8, uint8_t(0xff));
                    const Result one = run(bytes, o, 0);
                    SCOPED_TRACE(name + ", damage at " + std::to_string(at));
                    expectEqual(run(bytes, o, 4), one);
                }
            }
    }
}

// The windows before the new end, then TRUNCATED; read from the file, and by a GPU also from where it is pinned.
TEST_P(EventFramesLanes, FilesThatBecomeShorter) {
    const Sizes pieces{{.piece = 16 << 10, .part = 4 << 10, .job = 16 << 10, .more = 4 << 10}};
    const Events events = some(100000, random);
    const Folder at;
    const std::string path = at / "recording";
    const cusRepresentation r[] = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_TENCODE)};
    for (const auto &[name, whole] : std::map<std::string, Bytes>{{"evt2", reference::evt2(events, EVT2)},
                                                                  {"evt3", reference::evt3(events, EVT3)},
                                                                  {"text", reference::csv(events)}})
        for (const int lanes : {0, 3})
            for (const int pin : {0, int(space() == CUS_DEVICE && name != "text")}) {
                SCOPED_TRACE(name + ", lanes " + std::to_string(lanes) + (pin ? ", pinned" : ""));
                save(path, whole);
                cusEventReaderOptions reading = cusEventReaderDefaults();
                reading.width = WIDTH, reading.height = HEIGHT, reading.pin_file = pin;
                Reader reader(path, reading);
                ASSERT_EQ(reader.opened, CUS_OK) << cusLastError();
                cusEventFramesOptions o = options(CUS_WINDOW_COUNT, 500);
                o.batch_windows = 2;
                const cusEventFramesOptions chosen = onLanes(o, lanes);
                Frames frames;
                CUS_ASSERT_OK(cusEventFramesOpenReader(&frames, reader.reader, r, 2, &chosen));
                Result one, cut;
                finish(frames, 2, one);
                ASSERT_EQ(one.status, CUS_OK) << one.message;
                ASSERT_EQ(one.frames.windows.size(), events.size() / 500);
                const off_t size = off_t(whole.size() / 2 & ~size_t{7});
                ASSERT_EQ(truncate(path.c_str(), size), 0);
                CUS_ASSERT_OK(cusEventFramesRestart(frames));
                finish(frames, 2, cut);
                EXPECT_EQ(cut.status, CUS_ERROR_TRUNCATED) << cut.message;
                EXPECT_NE(cut.message.find("cusEventFramesNext: the file ends at byte " + std::to_string(size)),
                          std::string::npos)
                    << cut.message;
                const Bytes half(whole.begin(), whole.begin() + size);
                reading.pin_file = 0;
                Reader rest(half, reading);
                cusStatus ignored;                                           // the half may end within an event
                const size_t there = rest.all(70000, &ignored).size() / 500; // windows that are whole; then one that is not
                ASSERT_GT(there, 80u);
                ASSERT_GE(cut.frames.windows.size(), there);
                ASSERT_LE(cut.frames.windows.size(), there + 1);
                for (size_t k = 0; k < cut.frames.values.size(); ++k) {
                    const auto &all = one.frames.values[k];
                    const auto end = all.begin() + std::ptrdiff_t(all.size() / one.frames.windows.size() * there);
                    ASSERT_TRUE(std::equal(all.begin(), end, cut.frames.values[k].begin()));
                }
            }
}

// By a GPU, from where the file is pinned: the same frames of any windowing, again and again.
TEST_P(EventFramesLanes, PinnedFile) {
    if (space() == CUS_HOST)
        GTEST_SKIP() << "pinned for a GPU";
    const Sizes pieces{{.piece = 64 << 10, .part = 16 << 10, .job = 64 << 10, .more = 16 << 10}};
    const Events events = some(400000, random);
    const Folder at;
    const std::string path = at / "recording";
    const Bytes whole = reference::evt3(events, EVT3);
    save(path, whole);
    cusEventReaderOptions reading = cusEventReaderDefaults();
    reading.width = WIDTH, reading.height = HEIGHT, reading.pin_file = 1;
    Reader reader(path, reading);
    ASSERT_EQ(reader.opened, CUS_OK) << cusLastError();
    const cusRepresentation r[] = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_TENCODE)};
    for (const cusWindowUnit unit : {CUS_WINDOW_COUNT, CUS_WINDOW_DURATION})
        for (const int lanes : {0, 3}) {
            const cusEventFramesOptions o = options(unit, 20000);
            const Result one = run(whole, o, 0);
            CUS_ASSERT_OK(cusEventReaderSeekIndex(reader.reader, 0));
            const cusEventFramesOptions chosen = onLanes(o, lanes);
            Frames frames;
            CUS_ASSERT_OK(cusEventFramesOpenReader(&frames, reader.reader, r, 2, &chosen));
            for (int pass = 0; pass < 2; ++pass) {
                if (pass)
                    CUS_ASSERT_OK(cusEventFramesRestart(frames));
                Result again;
                finish(frames, 0, again);
                expectEqual(again, one);
            }
        }
}

// What cannot be pinned, and what may be too much.
TEST_P(EventFramesLanes, PinningIsRefused) {
    const Events events = some(3000, random);
    const Folder at;
    const std::string path = at / "recording";
    cusEventReaderOptions reading = cusEventReaderDefaults();
    reading.pin_file = 1;
    cusEventReader *reader = nullptr;
    const Bytes bytes = reference::evt2(events, EVT2);
    CUS_REJECTS(cusEventReaderOpenMemory(&reader, bytes.data(), bytes.size(), &reading), UNSUPPORTED,
                "cusEventReaderOpen: pin_file is 1, expected 0 for a recording in memory");
    save(path, reference::csv(events));
    CUS_REJECTS(cusEventReaderOpen(&reader, path.c_str(), &reading), UNSUPPORTED,
                "cusEventReaderOpen: pin_file is 1 and the file is text, expected EVT2, EVT2.1, EVT3, EVT4 or DAT");
    save(path, bytes);
    ASSERT_EQ(truncate(path.c_str(), off_t{1} << 27), 0); // words of zeros, which are events
    reading.max_memory = 1 << 26;
    CUS_REJECTS(cusEventReaderOpen(&reader, path.c_str(), &reading), CAPACITY,
                "pin_file is 1 and the file has 134217728 bytes, expected at most max_memory, 67108864");
    if (space() == CUS_DEVICE)
        return;
    save(path, bytes);
    if (cusEventReaderOpen(&reader, path.c_str(), &reading) == CUS_OK) // there is a GPU
        cusEventReaderClose(reader);
    else
        CUS_REJECTS(cusEventReaderOpen(&reader, path.c_str(), &reading), NO_CUDA, "cusEventReaderOpen: ");
}

// From the first window again, at any time.
TEST_P(EventFramesLanes, RestartAndClose) {
    const Events events = some(20000, random);
    const Bytes bytes = reference::evt3(events, EVT3);
    const cusRepresentation r[] = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_TENCODE)};
    for (const cusWindowUnit unit : {CUS_WINDOW_COUNT, CUS_WINDOW_DURATION}) {
        cusEventFramesOptions o = options(unit, 200);
        o.batch_windows = 2;
        const Result one = run(bytes, o, 0);
        for (const size_t before : {size_t{0}, size_t{1}, size_t{7}, SIZE_MAX}) {
            Reader reader(bytes);
            Frames frames;
            const cusEventFramesOptions chosen = onLanes(o, 3);
            CUS_ASSERT_OK(cusEventFramesOpenReader(&frames, reader.reader, r, 2, &chosen));
            cusFrameBatch batch;
            for (size_t k = 0; k < before; ++k)
                if (cusEventFramesNext(frames, &batch) != CUS_OK || batch.count == 0)
                    break;
            if (before == 7) { // it is closed in the middle
                std::thread([&] { cusEventFramesCancel(frames); }).join();
                CUS_REJECTS(cusEventFramesNext(frames, &batch), CANCELLED, "cusEventFramesNext: cancelled");
                continue;
            }
            CUS_ASSERT_OK(cusEventFramesRestart(frames));
            Result again;
            finish(frames, o.batch_windows, again);
            expectEqual(again, one);
        }
    }
}

// The caller's batch stays as it is while the lanes go on.
TEST_P(EventFramesLanes, ABatchIsTheCallersUntilTheNext) {
    const Events events = some(20000, random);
    const Bytes bytes = reference::dat(events, DAT);
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    cusEventFramesOptions o = onLanes(options(CUS_WINDOW_COUNT, 100), 3);
    o.batch_windows = 2;
    o.deliver = space();
    Reader reader(bytes);
    Frames frames;
    CUS_ASSERT_OK(cusEventFramesOpenReader(&frames, reader.reader, &r, 1, &o));
    cusFrameBatch batch;
    for (int k = 0; k < 40; ++k) {
        CUS_ASSERT_OK(cusEventFramesNext(frames, &batch));
        ASSERT_GT(batch.count, 0u);
        EXPECT_EQ(batch.device, space() == CUS_DEVICE ? 0 : -1);
        const auto copy = [&] {
            if (batch.stream)
                CUS_EXPECT_OK(cusStreamSynchronize(batch.stream));
            return support::elements(batch.frames[0]);
        };
        const std::vector<uint8_t> at_once = copy();
        if (k % 8 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_TRUE(copy() == at_once) << "batch " << k;
    }
}

// All GPUs: frames in the host's memory, and in that of each.
TEST(MultiDeviceEventFrames, MakeTheFramesOfTheHost) {
    int gpus = 0;
    CUS_ASSERT_OK(cusDeviceCount(&gpus));
    if (gpus < 2)
        GTEST_SKIP() << gpus << " GPUs on this machine, and this test needs several";
    std::mt19937_64 random = support::generator();
    const Sizes pieces{{.piece = 64 << 10, .part = 16 << 10, .job = 64 << 10, .more = 16 << 10}};
    const Events events = some(3000000, random);
    const Bytes bytes = reference::evt3(events, EVT3);
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    for (const cusWindowUnit unit : {CUS_WINDOW_COUNT, CUS_WINDOW_DURATION})
        for (const cusSpace deliver : {CUS_HOST, CUS_DEVICE}) {
            cusEventFramesOptions o = cusEventFramesDefaults();
            o.windowing.unit = unit, o.windowing.length = 20000;
            o.rows = HEIGHT, o.cols = WIDTH, o.batch_windows = 2;
            Collected expected, got;
            Reader reader(bytes);
            Frames host, all;
            CUS_ASSERT_OK(cusEventFramesOpenReader(&host, reader.reader, &r, 1, &o));
            CUS_ASSERT_OK(collect(host, expected, 2));
            o.compute = CUS_DEVICE, o.deliver = deliver, o.device_count = CUS_ALL_DEVICES;
            Reader again(bytes);
            CUS_ASSERT_OK(cusEventFramesOpenReader(&all, again.reader, &r, 1, &o));
            std::vector<int> from(size_t(gpus), 0);
            for (;;) {
                cusFrameBatch batch;
                CUS_ASSERT_OK(cusEventFramesNext(all, &batch));
                if (!batch.count)
                    break;
                ASSERT_EQ(batch.device >= 0, deliver == CUS_DEVICE);
                if (batch.device >= 0) {
                    ++from[size_t(batch.device)];
                    CUS_ASSERT_OK(cusDeviceSet(batch.device));
                }
                ASSERT_EQ(Collected::sink(&got, &batch), CUS_OK);
            }
            CUS_ASSERT_OK(cusDeviceSet(0));
            ASSERT_EQ(got.windows.size(), expected.windows.size());
            EXPECT_TRUE(got.values == expected.values);
            for (int device = 0; device < gpus && deliver == CUS_DEVICE; ++device)
                EXPECT_GT(from[size_t(device)], 0) << "GPU " << device;
        }
}

TEST_P(EventFramesLanes, Rejects) {
    const Bytes bytes = reference::dat(some(100, random), DAT);
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    Reader reader(bytes);
    cusEventFrames *frames = nullptr;
    cusEventFramesOptions o = options(CUS_WINDOW_COUNT, 10);
    const auto open = [&] { return cusEventFramesOpenReader(&frames, reader.reader, &r, 1, &o); };
    o.device_count = 65;
    CUS_REJECTS(open(), VALUE, "cusEventFramesOpenReader: device_count is 65, expected CUS_ALL_DEVICES or 0 to 64");
    o.device_count = -2;
    CUS_REJECTS(open(), VALUE, "device_count is -2, expected CUS_ALL_DEVICES or 0 to 64");
    o.device_count = 0, o.devices = SAME;
    CUS_REJECTS(open(), VALUE,
                space() == CUS_DEVICE ? "device_count is 0, expected the number of devices" : "expected no device");
    if (space() == CUS_DEVICE) {
        const int devices[] = {0, 12345};
        o.devices = devices, o.device_count = 2;
        CUS_REJECTS(open(), VALUE, "cusEventFramesOpenReader: ");
    } else {
        o.devices = nullptr, o.device_count = CUS_ALL_DEVICES;
        CUS_REJECTS(open(), VALUE, "expected no device");
    }
    EXPECT_EQ(frames, nullptr);
}

} // namespace
