// Readers, writer and generator of event recordings against the plain decoders of reference/eventio.hpp.
#include "support.hpp"

#include "cusight/eventio.h"
#include "../io/eventio/eventio_backend.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include "reference/eventio.hpp"
#include "../fuzz/eventio_input.hpp"

#ifdef CUSIGHT_HAVE_HDF5
#include <hdf5.h>

// As in lsan.supp, for a start by hand. The sanitizer has to see it, so it must not be hidden.
extern "C" __attribute__((visibility("default"))) const char *__lsan_default_suppressions();
extern "C" const char *__lsan_default_suppressions() {
    return "leak:libhdf5";
}
#endif

using reference::Bytes;
using reference::Events;

namespace {

const std::string EVT2 = "% evt 2.0\n% geometry 640x480\n% end\n";
const std::string EVT3 = "% Date 2024-01-01 00:00:00\n% format EVT3;height=480;width=640\n% end\n";
const std::string DAT = "% Data file containing CD events.\n% Version 2\n% Height 480\n% Width 640\n";

// A folder of the test's own, gone afterwards.
class Folder {
  public:
    Folder() {
        char name[] = "/tmp/cusight-eventio-XXXXXX";
        path_ = mkdtemp(name);
    }
    ~Folder() { std::system(("rm -r '" + path_ + "'").c_str()); }
    std::string operator/(const std::string &name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

class Reader {
  public:
    explicit Reader(const std::string &path, cusEventReaderOptions options = cusEventReaderDefaults()) {
        opened = cusEventReaderOpen(&reader, path.c_str(), &options);
        about();
    }
    explicit Reader(Bytes bytes, cusEventReaderOptions options = cusEventReaderDefaults()) : memory(std::move(bytes)) {
        opened = cusEventReaderOpenMemory(&reader, memory.data(), memory.size(), &options);
        about();
    }
    ~Reader() { cusEventReaderClose(reader); }
    Reader(const Reader &) = delete;
    Reader &operator=(const Reader &) = delete;

    // The next events, up to n.
    Events read(size_t n, cusStatus *status = nullptr) {
        Events e;
        e.x.resize(n), e.y.resize(n), e.p.resize(n), e.t.resize(n);
        size_t count = 0;
        const cusStatus result = cusEventReaderRead(reader, n, e.x.data(), e.y.data(), e.p.data(), e.t.data(), &count);
        EXPECT_LE(count, n);
        if (status)
            *status = result;
        else
            EXPECT_EQ(result, CUS_OK) << cusLastError();
        e.x.resize(count), e.y.resize(count), e.p.resize(count), e.t.resize(count);
        return e;
    }
    // Everything that is left, in pieces of n.
    Events all(size_t n = 70000, cusStatus *status = nullptr) {
        Events e;
        for (;;) {
            cusStatus result = CUS_OK;
            const Events piece = read(n, &result);
            e.x.insert(e.x.end(), piece.x.begin(), piece.x.end());
            e.y.insert(e.y.end(), piece.y.begin(), piece.y.end());
            e.p.insert(e.p.end(), piece.p.begin(), piece.p.end());
            e.t.insert(e.t.end(), piece.t.begin(), piece.t.end());
            if (status)
                *status = result;
            else
                EXPECT_EQ(result, CUS_OK) << cusLastError();
            if (result != CUS_OK || piece.size() < n)
                return e;
        }
    }
    cusEventCounts counts() const {
        cusEventCounts c;
        EXPECT_EQ(cusEventReaderCounts(reader, &c), CUS_OK);
        return c;
    }

    cusEventReader *reader = nullptr;
    cusStatus opened;
    cusEventInfo info = {};

  private:
    Bytes memory; // that the reader reads
    void about() {
        if (opened == CUS_OK) {
            EXPECT_EQ(cusEventReaderInfo(reader, &info), CUS_OK);
        }
    }
};

Bytes load(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return Bytes(std::istreambuf_iterator<char>(file), {});
}
void save(const std::string &path, const Bytes &bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), std::streamsize(bytes.size()));
}

// Events that look like a camera's: bursts at one time, dense rows, pauses.
Events randomEvents(size_t n, std::mt19937_64 &random, int64_t start = 0, int64_t pause = 50000, int width = 640,
                    int height = 480) {
    Events e;
    int64_t t = start;
    unsigned y = 0, x = 0, p = 0;
    while (e.size() < n) {
        const uint64_t r = random();
        if (r % 4 == 0)
            t += int64_t(r >> 8) % 20;
        if (r % 997 == 0)
            t += int64_t(r >> 8) % pause;
        if (r % 5 == 0) {
            y = unsigned(random() % unsigned(height));
            x = unsigned(random() % unsigned(width));
            p = unsigned(random() & 1);
        } else {
            x = (x + unsigned(r >> 16) % 4) % unsigned(width);
        }
        e.add(t, x, y, p);
    }
    return e;
}

std::string fixture(const char *name) {
    return std::string(CUSIGHT_SOURCE_DIR) + "/test/data/" + name;
}

bool haveHdf5() {
#ifdef CUSIGHT_HAVE_HDF5
    return true;
#else
    return false;
#endif
}
#define NEEDS_HDF5() \
    if (!haveHdf5()) \
    GTEST_SKIP() << "built without HDF5"

cusStatus writeM3ed(const std::string &path, const Events &e, cusEventWriterOptions options, size_t piece) {
    cusEventWriter *writer = nullptr;
    CUS_TRY(cusEventWriterCreate(&writer, path.c_str(), &options));
    for (size_t i = 0; i < e.size(); i += piece) {
        const size_t n = std::min(piece, e.size() - i);
        EXPECT_EQ(cusEventWriterWrite(writer, n, &e.x[i], &e.y[i], &e.p[i], &e.t[i]), CUS_OK) << cusLastError();
    }
    return cusEventWriterFinish(writer);
}
cusEventWriterOptions sensor(int width = 640, int height = 480) {
    cusEventWriterOptions options = cusEventWriterDefaults();
    options.width = width;
    options.height = height;
    return options;
}

// A file with small chunks of 20,000 random events.
Bytes randomM3ed(std::mt19937_64 &random) {
    const Events events = randomEvents(20000, random);
    Folder at;
    cusEventWriterOptions options = sensor();
    options.chunk = 1024;
    EXPECT_EQ(writeM3ed(at / "w.h5", events, options, 20000), CUS_OK) << cusLastError();
    return load(at / "w.h5");
}

// Every place to start from and every size of piece give the same events.
void checkPiecesAndSeeks(Reader &r, const Events &all, std::mt19937_64 &random) {
    for (int round = 0; round < 25; ++round) {
        const size_t index = round == 0 ? 0 : round == 1 ? all.size() : random() % all.size();
        ASSERT_EQ(cusEventReaderSeekIndex(r.reader, int64_t(index)), CUS_OK) << cusLastError();
        const size_t n = std::min<size_t>(all.size() - index, random() % (round % 2 ? 100000 : 50));
        ASSERT_EQ(r.read(n), all.part(index, n)) << "from " << index << ", " << n;
    }
    for (int round = 0; round < 15; ++round) {
        const int64_t time = round == 0   ? all.t.back() + 1
                             : round == 1 ? 0
                                          : all.t[random() % all.size()] + int64_t(random() % 3) - 1;
        const int64_t expected = std::lower_bound(all.t.begin(), all.t.end(), time) - all.t.begin();
        int64_t index = -1;
        ASSERT_EQ(cusEventReaderSeekTime(r.reader, time, &index), CUS_OK) << cusLastError();
        ASSERT_EQ(index, expected) << "time " << time;
        const size_t n = std::min<size_t>(all.size() - size_t(index), 100);
        ASSERT_EQ(r.read(n), all.part(size_t(index), n));
    }
}

// ---- Real recordings ----

struct Recording {
    const char *file;
    cusEventFormat format;
    int width, height;
    size_t count;
    int64_t first, last;
    uint64_t positive;
    int rising, falling;
    uint64_t checksum; // Events::checksum of the output of an independent decoder
};

class RealRecording : public testing::TestWithParam<Recording> {};

TEST_P(RealRecording, IsReadExactly) {
    const char *folder = std::getenv("CUSIGHT_TEST_DATA_EVENTS");
    const std::string path = folder ? folder : support::dataFolder().empty() ? "" : support::dataFolder() + "/events";
    const Recording &known = GetParam();
    if (path.empty() || access((path + "/" + known.file).c_str(), R_OK) != 0)
        GTEST_SKIP() << "no " << known.file << " (set CUSIGHT_TEST_DATA_EVENTS to its folder)";
    Reader r(path + "/" + known.file);
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    EXPECT_EQ(r.info.format, known.format);
    EXPECT_EQ(r.info.width, known.width);
    EXPECT_EQ(r.info.height, known.height);
    EXPECT_EQ(r.info.first_time, known.first);
    const Events events = r.all();
    EXPECT_EQ(events.size(), known.count);
    EXPECT_EQ(r.counts().events, known.count);
    EXPECT_EQ(r.counts().triggers_rising, uint64_t(known.rising));
    EXPECT_EQ(r.counts().triggers_falling, uint64_t(known.falling));
    EXPECT_EQ(r.counts().untimed, 0u);
    EXPECT_EQ(events.t.front(), known.first);
    EXPECT_EQ(events.t.back(), known.last);
    EXPECT_EQ(uint64_t(std::count(events.p.begin(), events.p.end(), 1)), known.positive);
    EXPECT_EQ(events.checksum(), known.checksum);

    const Bytes file = load(path + "/" + known.file);
    const Bytes data = reference::afterHeader(file);
    EXPECT_TRUE(events == (known.format == CUS_EVENTS_EVT2 ? reference::decodeEvt2(data)
                           : known.format == CUS_EVENTS_EVT3
                               ? reference::decodeEvt3(data)
                               : reference::decodeText(std::string(file.begin(), file.end()))));
    auto random = support::generator();
    checkPiecesAndSeeks(r, events, random);

    // Converted and read again it is the same.
    if (haveHdf5()) {
        Folder at;
        const int width = known.width ? known.width : 240, height = known.height ? known.height : 180;
        CUS_ASSERT_OK(writeM3ed(at / "r.h5", events, sensor(width, height), 33333));
        Reader converted(at / "r.h5");
        ASSERT_EQ(converted.opened, CUS_OK) << cusLastError();
        EXPECT_EQ(converted.info.width, width);
        EXPECT_TRUE(converted.all() == events);
    }
}

INSTANTIATE_TEST_SUITE_P(, RealRecording,
                         testing::Values(Recording{"expelliarmus_evt3_1280x720.raw", CUS_EVENTS_EVT3, 1280, 720, 219596,
                                                   11718656, 11727457, 115532, 0, 0, 0x14e4f8e535e58962u},
                                         Recording{"faery_evt2_640x480.raw", CUS_EVENTS_EVT2, 640, 480, 521252, 913716224,
                                                   913812095, 185861, 0, 0, 0x26a90e67d08f262eu},
                                         Recording{"ros_event_camera_py_evt3_640x480.raw", CUS_EVENTS_EVT3, 640, 480,
                                                   343474, 7139845, 9218023, 125183, 2079, 2078, 0x29e1da3e9d84f83fu},
                                         Recording{"events_viz_slider_depth_240x180.txt", CUS_EVENTS_TEXT, 0, 0, 50000,
                                                   3811, 174156, 21147, 0, 0, 0xfa050b23233890c3u}),
                         [](const auto &test) {
                             std::string name = test.param.file;
                             std::replace_if(
                                 name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
                             return name;
                         });

// ---- Round trips ----

// A file of each format that holds these events.
std::map<std::string, Bytes> files(const Events &e) {
    std::map<std::string, Bytes> made = {{"evt2", reference::evt2(e, EVT2)},
                                         {"evt3", reference::evt3(e, EVT3)},
                                         {"dat", reference::dat(e, DAT)},
                                         {"text_us", reference::text(e, false)},
                                         {"text_seconds", reference::text(e, true)}};
    if (haveHdf5()) {
        Folder at;
        cusEventWriterOptions options = sensor();
        options.chunk = 1024;
        EXPECT_EQ(writeM3ed(at / "r.h5", e, options, 5000), CUS_OK) << cusLastError();
        made["m3ed"] = load(at / "r.h5");
        options.compress = 0;
        EXPECT_EQ(writeM3ed(at / "u.h5", e, options, 999), CUS_OK) << cusLastError();
        made["m3ed_plain"] = load(at / "u.h5");
    }
    return made;
}

TEST(EventFormats, EachGivesBackWhatWasWritten) {
    auto random = support::generator();
    const Events events = randomEvents(30000, random);
    for (const auto &[name, bytes] : files(events)) {
        SCOPED_TRACE(name);
        Reader r(bytes);
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        EXPECT_EQ(r.info.first_time, events.t[0]);
        const bool text = r.info.format == CUS_EVENTS_TEXT;
        EXPECT_EQ(r.info.width, text ? 0 : 640);
        EXPECT_EQ(r.info.height, text ? 0 : 480);
        const bool counted = r.info.format == CUS_EVENTS_M3ED || r.info.format == CUS_EVENTS_DAT;
        EXPECT_EQ(r.info.count, counted ? 30000 : -1);
        EXPECT_EQ(r.info.last_time, r.info.format == CUS_EVENTS_M3ED ? events.t.back() : -1);
        ASSERT_TRUE(r.all() == events);
        checkPiecesAndSeeks(r, events, random);
    }
}

TEST(EventFormats, ReferenceDecodersAgreeWithTheMakers) {
    auto random = support::generator();
    const Events events = randomEvents(20000, random, 123456789, 3000000);
    EXPECT_TRUE(reference::decodeEvt2(reference::afterHeader(reference::evt2(events, EVT2))) == events);
    EXPECT_TRUE(reference::decodeEvt3(reference::afterHeader(reference::evt3(events, EVT3))) == [&] {
        Events e = events; // the counter starts anew every 2^24 us
        const int64_t base = e.t[0] >> 24 << 24;
        for (auto &t : e.t)
            t -= base;
        return e;
    }());
}

TEST(EventFormats, TimeCountersThatWrapAreCarriedOn) {
    auto random = support::generator();
    // Pauses of up to a quarter of the counter's range, until it has wrapped several times.
    for (const auto &[bits, maker] :
         std::map<int, Bytes (*)(const Events &)>{{34, [](const Events &e) { return reference::evt2(e, EVT2); }},
                                                  {24, [](const Events &e) { return reference::evt3(e, EVT3); }},
                                                  {32, [](const Events &e) { return reference::dat(e, DAT); }}}) {
        SCOPED_TRACE(bits);
        Events events = randomEvents(40000, random, 0, int64_t(1) << (bits - 2));
        ASSERT_GT(events.t.back(), int64_t(1) << bits);
        Reader r(maker(events));
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        const Events got = r.all();
        ASSERT_TRUE(got == events);
        checkPiecesAndSeeks(r, events, random);
    }
}

TEST(EventFormats, SeekingUsesMarksInLongRecordings) {
    auto random = support::generator();
    const Events events = randomEvents(2300000, random);
    Reader r(reference::evt3(events, EVT3));
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    checkPiecesAndSeeks(r, events, random); // before and while the marks are made
    CUS_ASSERT_OK(cusEventReaderSeekIndex(r.reader, 0));
    ASSERT_TRUE(r.all(1 << 20) == events);
    checkPiecesAndSeeks(r, events, random);
}

TEST(EventFormats, UnwantedArraysMayBeNull) {
    auto random = support::generator();
    const Events events = randomEvents(150000, random);
    for (const auto &[name, bytes] : files(events)) {
        SCOPED_TRACE(name);
        Reader r(bytes);
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        std::vector<int64_t> t(events.size());
        size_t count = 0;
        CUS_ASSERT_OK(cusEventReaderRead(r.reader, t.size(), nullptr, nullptr, nullptr, t.data(), &count));
        EXPECT_EQ(count, events.size());
        EXPECT_EQ(t, events.t);
    }
}

TEST(EventFormats, Evt3VectorsSurviveAnySplit) {
    // One vector of 12, read one by one.
    Bytes file = reference::bytesOf(EVT3);
    for (uint32_t word : {0x8001u, 0x6002u, 0x0005u, 0x3000u | 0x800u | 100u, 0x4fffu, 0x50ffu, 0x4801u})
        reference::append(file, word, 2);
    Reader r(file);
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    for (unsigned i = 0; i < 22; ++i) {
        const Events one = r.read(1);
        ASSERT_EQ(one.size(), 1u);
        EXPECT_EQ(one.x[0], i < 20 ? 100 + i : i == 20 ? 120u : 131u);
        EXPECT_EQ(one.y[0], 5);
        EXPECT_EQ(one.p[0], 1);
        EXPECT_EQ(one.t[0], 4098);
    }
    EXPECT_EQ(r.read(1).size(), 0u);
}

TEST(EventFormats, EventsBeforeTheFirstTimeWordAreCounted) {
    Bytes file = reference::bytesOf(EVT2);
    for (uint32_t word : {0x10000801u, 0x00000802u, 0x80000001u, 0x10000803u, 0xa0000001u, 0xa0000000u, 0xe0000000u})
        reference::append(file, word, 4);
    Reader r(file);
    EXPECT_EQ(r.all().size(), 1u);
    EXPECT_EQ(r.counts().untimed, 2u);
    EXPECT_EQ(r.counts().triggers_rising, 1u);
    EXPECT_EQ(r.counts().triggers_falling, 1u);
}

TEST(EventFormats, TextInItsManyForms) {
    const auto read = [](const std::string &text) {
        Reader r(reference::bytesOf(text));
        EXPECT_EQ(r.opened, CUS_OK) << cusLastError() << " of " << text;
        return r.opened == CUS_OK ? r.all() : Events();
    };
    Events two;
    two.add(1500, 10, 20, 1);
    two.add(2000000, 11, 21, 0);
    EXPECT_TRUE(read("1500 10 20 1\n2000000 11 21 0\n") == two);
    EXPECT_TRUE(read("0.0015 10 20 1\n2.0 11 21 0") == two);
    EXPECT_TRUE(read("# t x y p\n\n0.00149999999 10 20 1\n2 11 21 -1\n") == two);
    EXPECT_TRUE(read("1.5e-3,10,20,1\r\n2.000000000000000000e+00,11,21,0\r\n") == two);
    EXPECT_TRUE(read("\t1500\t10  20 1 \n  2000000 11 21 0") == two);
    EXPECT_TRUE(read("\xef\xbb\xbf"
                     "1500 10 20 1\n2000000 11 21 0\n") == two);
    // 18 digits of a Unix time in seconds.
    EXPECT_EQ(read("1700000000.123456789 1 2 0\n").t.at(0), 1700000000123457);
    Reader sized(reference::bytesOf("240 180\n1500 10 20 1\n2000000 11 21 0\n"));
    EXPECT_EQ(sized.info.width, 240);
    EXPECT_EQ(sized.info.height, 180);
    EXPECT_TRUE(sized.all() == two);
}

TEST(EventFormats, SensorFromHeaderNameOrOption) {
    const auto size = [](const std::string &header, cusEventReaderOptions options = cusEventReaderDefaults()) {
        Events one;
        one.add(100, 1, 2, 1);
        Reader r(reference::evt2(one, header), options);
        EXPECT_EQ(r.opened, CUS_OK) << cusLastError();
        return std::make_pair(r.info.width, r.info.height);
    };
    EXPECT_EQ(size("% evt 2.0\n"), std::make_pair(0, 0));
    EXPECT_EQ(size("% evt 2.0\n% plugin_name hal_plugin_gen41_evk3\n"), std::make_pair(1280, 720));
    EXPECT_EQ(size("% evt 2.0\n% plugin_name hal_plugin_gen3_fx3\n"), std::make_pair(640, 480));
    EXPECT_EQ(size("% plugin_name hal_plugin_imx636\n% geometry 320x240\n% evt 2.0\n"), std::make_pair(320, 240));
    EXPECT_EQ(size("% evt 2.0\n% geometry 99999x1\n"), std::make_pair(0, 0));
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.width = 346;
    options.height = 260;
    EXPECT_EQ(size("% evt 2.0\n% geometry 320x240\n", options), std::make_pair(346, 260));
    // A RAW file that does not say which encoding it is, and the caller does.
    options.format = CUS_EVENTS_EVT2;
    EXPECT_EQ(size("% Date today\n", options), std::make_pair(346, 260));
    EXPECT_EQ(size("", options), std::make_pair(346, 260));
}

// ---- HDF5 files of other programs ----

Events fixtureEvents(size_t n, bool dsec) {
    Events e;
    for (size_t i = 0; i < n; ++i)
        e.add(int64_t(50 * i + i % 7) + (dsec ? 60000000000 : 0), unsigned(7 * i % 640), unsigned(11 * i % 480),
              unsigned(dsec ? i / 3 % 2 : i % 2));
    return e;
}

TEST(EventHdf5, FilesOfH5py) {
    NEEDS_HDF5();
    auto random = support::generator();
    for (const char *name : {"m3ed_lzf.h5", "m3ed_contiguous.h5", "m3ed_gzip.h5", "dsec_blosc.h5"}) {
        SCOPED_TRACE(name);
        const bool dsec = std::string(name) == "dsec_blosc.h5";
        const Events expected = fixtureEvents(5000, dsec);
        Reader r(fixture(name));
        if (dsec && r.opened == CUS_ERROR_UNSUPPORTED) {
            EXPECT_NE(std::string(cusLastError()).find("hdf5-filter-plugin-blosc-serial"), std::string::npos);
            continue; // built without libblosc, and no plugin
        }
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        EXPECT_EQ(r.info.format, dsec ? CUS_EVENTS_DSEC : CUS_EVENTS_M3ED);
        EXPECT_EQ(r.info.width, dsec ? 640 : 1280);
        EXPECT_EQ(r.info.count, 5000);
        EXPECT_EQ(r.info.last_time, expected.t.back());
        EXPECT_TRUE(r.all() == expected);
        checkPiecesAndSeeks(r, expected, random);
        Reader memory(load(fixture(name)));
        EXPECT_TRUE(memory.all() == expected);
    }
}

TEST(EventHdf5, TheOtherCamera) {
    NEEDS_HDF5();
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.camera = "right";
    Reader r(fixture("m3ed_lzf.h5"), options);
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    EXPECT_STREQ(r.info.camera, "right");
    EXPECT_EQ(r.info.width, 640);
    const Events expected = fixtureEvents(2000, false);
    EXPECT_TRUE(r.all() == expected);
    auto random = support::generator();
    checkPiecesAndSeeks(r, expected, random);
    Reader only(fixture("m3ed_contiguous.h5"));
    EXPECT_STREQ(only.info.camera, "right");
    options.camera = "middle";
    EXPECT_EQ(Reader(fixture("m3ed_lzf.h5"), options).opened, CUS_ERROR_FORMAT);
    EXPECT_NE(std::string(cusLastError()).find("no camera \"middle\""), std::string::npos) << cusLastError();
}

TEST(EventHdf5, FilterThatIsNotInstalledNamesItsPackage) {
    NEEDS_HDF5();
    Reader r(fixture("m3ed_bitshuffle.h5"));
    if (r.opened == CUS_OK)
        GTEST_SKIP() << "the Bitshuffle filter is installed here";
    EXPECT_EQ(r.opened, CUS_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(cusLastError()).find("filter 32008, which is not installed"), std::string::npos)
        << cusLastError();
    EXPECT_NE(std::string(cusLastError()).find("hdf5-filter-plugin"), std::string::npos) << cusLastError();
}

TEST(EventHdf5, NoRecording) {
    NEEDS_HDF5();
    EXPECT_EQ(Reader(fixture("other.h5")).opened, CUS_ERROR_FORMAT);
    EXPECT_NE(std::string(cusLastError()).find("neither /prophesee nor /events"), std::string::npos) << cusLastError();
}

// Cut anywhere, it gives a prefix of its events and says that it is cut, or where it is damaged.
TEST(EventHdf5, TruncatedAnywhere) {
    NEEDS_HDF5();
    auto random = support::generator();
    for (const Bytes &whole : {load(fixture("m3ed_lzf.h5")), randomM3ed(random), load(fixture("m3ed_contiguous.h5"))}) {
        const Events all = Reader(whole).all();
        size_t most = 0;
        for (int round = 0; round < 60; ++round) {
            const size_t size = round < 30 ? whole.size() * size_t(round) / 30 + 1 : random() % whole.size();
            const Bytes cut(whole.begin(), whole.begin() + long(size));
            Reader r(cut);
            if (r.opened != CUS_OK) {
                EXPECT_TRUE(r.opened == CUS_ERROR_TRUNCATED || r.opened == CUS_ERROR_FORMAT) << r.opened << cusLastError();
                continue;
            }
            cusStatus status = CUS_OK;
            const Events got = r.all(1500, &status);
            ASSERT_TRUE(got == all.part(0, got.size())) << "cut at " << size;
            if (got.size() < all.size()) {
                ASSERT_TRUE(status == CUS_ERROR_TRUNCATED || status == CUS_ERROR_FORMAT) << status;
                ASSERT_EQ(r.read(1, &status).size(), 0u); // and again
                ASSERT_NE(status, CUS_OK);
            }
            most = std::max(most, got.size());
        }
        EXPECT_GT(most, all.size() / 10); // what comes before the break does arrive
    }
}

#ifdef CUSIGHT_HAVE_HDF5
TEST(EventWriter, IndexAndLayoutAreThoseOfM3ed) {
    auto random = support::generator();
    Folder at;
    const Events events = randomEvents(100000, random, 2500);
    // Not compressed: libhdf5 itself is to read it, and has no LZF of its own.
    cusEventWriterOptions options = sensor(1280, 720);
    options.compress = 0;
    CUS_ASSERT_OK(writeM3ed(at / "r.h5", events, options, 7777));
    EXPECT_NE(access((at / "r.h5.part").c_str(), F_OK), 0);
    const hid_t file = H5Fopen((at / "r.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    ASSERT_GT(file, 0);
    const hid_t map = H5Dopen2(file, "/prophesee/left/ms_map_idx", H5P_DEFAULT);
    ASSERT_GT(map, 0);
    const hid_t space = H5Dget_space(map);
    std::vector<uint64_t> index(size_t(H5Sget_simple_extent_npoints(space)));
    ASSERT_GE(H5Dread(map, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, index.data()), 0);
    EXPECT_EQ(index.size(), size_t(events.t.back() / 1000 + 1));
    for (size_t ms = 0; ms < index.size(); ++ms)
        ASSERT_EQ(index[ms],
                  uint64_t(std::lower_bound(events.t.begin(), events.t.end(), int64_t(1000 * ms)) - events.t.begin()));
    const hid_t t = H5Dopen2(file, "/prophesee/left/t", H5P_DEFAULT), how = H5Dget_create_plist(t);
    hsize_t chunk = 0;
    EXPECT_EQ(H5Pget_chunk(how, 1, &chunk), 1);
    EXPECT_EQ(chunk, 40000u);
    std::vector<int64_t> times(events.size());
    ASSERT_GE(H5Dread(t, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, times.data()), 0);
    EXPECT_EQ(times, events.t);
    H5Pclose(how);
    H5Dclose(t);
    H5Sclose(space);
    H5Dclose(map);
    H5Fclose(file);
}

// A dataset that claims what is not in the file.
TEST(EventHdf5, EnormousClaims) {
    Folder at;
    for (const hsize_t claimed : {hsize_t(1) << 62, hsize_t(20000000)}) {
        const std::string path = at / "huge.h5";
        const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        const hid_t group = H5Gcreate2(file, "events", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        const hsize_t chunk = 1000;
        const hid_t space = H5Screate_simple(1, &claimed, nullptr), how = H5Pcreate(H5P_DATASET_CREATE);
        H5Pset_chunk(how, 1, &chunk);
        std::vector<uint8_t> data(8000);
        for (const char *name : {"x", "y", "p", "t"}) {
            const hid_t type = *name == 'p' ? H5T_STD_U8LE : *name == 't' ? H5T_STD_U64LE : H5T_STD_U16LE;
            const hid_t set = H5Dcreate2(group, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
            for (hsize_t first = 0; first < 30000; first += 1000) // 30 of the chunks are there
                H5Dwrite_chunk(set, H5P_DEFAULT, 0, &first, 1000 * H5Tget_size(type), data.data());
            H5Dclose(set);
        }
        H5Pclose(how);
        H5Sclose(space);
        H5Gclose(group);
        H5Fclose(file);
        Reader r(path);
        if (claimed > 1000000000) {
            EXPECT_EQ(r.opened, CUS_ERROR_FORMAT);
            EXPECT_NE(std::string(cusLastError()).find("claims"), std::string::npos) << cusLastError();
        } else {
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            cusStatus status = CUS_OK;
            EXPECT_EQ(r.all(50000, &status).size(), 30000u);
            EXPECT_EQ(status, CUS_ERROR_TRUNCATED);
            EXPECT_NE(std::string(cusLastError()).find("written up to event 30000"), std::string::npos) << cusLastError();
        }
    }
}
#endif

TEST(EventHdf5, DamagedChunkEndsTheRecordingThere) {
    NEEDS_HDF5();
    auto random = support::generator();
    const Bytes whole = randomM3ed(random);
    int damaged = 0;
    for (int round = 0; round < 150; ++round) {
        Bytes bytes = whole;
        for (int k = 0; k < 3; ++k)
            bytes[4000 + random() % (bytes.size() - 4000)] = uint8_t(random());
        Reader r(bytes);
        if (r.opened != CUS_OK || r.info.width == 0)
            continue;
        cusStatus status = CUS_OK;
        const Events got = r.all(3000, &status);
        for (size_t i = 0; i < got.size(); ++i) {
            ASSERT_LT(got.x[i], r.info.width); // the damage may have met the sensor's size, too
            ASSERT_LT(got.y[i], r.info.height);
            ASSERT_LE(got.p[i], 1);
        }
        ASSERT_TRUE(std::is_sorted(got.t.begin(), got.t.end()));
        damaged += status == CUS_ERROR_FORMAT;
    }
    EXPECT_GT(damaged, 20);
}

// ---- Broken and bad input ----

TEST(EventErrors, TruncatedStreams) {
    auto random = support::generator();
    const Events events = randomEvents(5000, random);
    for (const auto &[name, whole] : files(events)) {
        if (name.substr(0, 4) == "m3ed")
            continue;
        SCOPED_TRACE(name);
        const size_t record = name == "evt2" ? 4 : name == "evt3" ? 2 : name == "dat" ? 8 : 0;
        for (int round = 0; round < 100; ++round) {
            const size_t size = 200 + random() % (whole.size() - 200);
            const Bytes cut(whole.begin(), whole.begin() + long(size));
            Reader r(cut);
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            cusStatus status = CUS_OK;
            const Events got = r.all(997, &status);
            // Text can be cut within its last number and still be four numbers.
            const size_t sure = record || got.size() == 0 ? got.size() : got.size() - 1;
            ASSERT_TRUE(got.part(0, sure) == events.part(0, sure));
            const size_t header = whole.size() - reference::afterHeader(whole).size() + (name == "dat" ? 2 : 0);
            if (record) {
                ASSERT_EQ(status, (size - header) % record ? CUS_ERROR_TRUNCATED : CUS_OK) << size;
            }
            if (status != CUS_OK) {
                ASSERT_EQ(status, CUS_ERROR_TRUNCATED);
                ASSERT_NE(std::string(cusLastError()).find("the file ends"), std::string::npos) << cusLastError();
            }
        }
    }
}

TEST(EventErrors, BadEventsStopOrAreSkipped) {
    auto random = support::generator();
    Events events = randomEvents(3000, random, 1000, 5000);
    struct Case {
        const char *what;
        size_t at;
        void (*spoil)(Events &, size_t);
        const char *message;
        uint64_t cusEventCounts::*count;
    };
    for (const Case &c :
         {Case{"x", 1234, [](Events &e, size_t i) { e.x[i] = 640; }, "event 1234 at x 640",
               &cusEventCounts::bad_coordinates},
          Case{"y", 0, [](Events &e, size_t i) { e.y[i] = 480; }, "event 0 at x", &cusEventCounts::bad_coordinates},
          Case{"p", 2999, [](Events &e, size_t i) { e.p[i] = 2; }, "event 2999 has a polarity",
               &cusEventCounts::bad_polarity},
          Case{"t", 1500, [](Events &e, size_t i) { e.t[i] = e.t[i - 1] - 900; }, "event 1500 at",
               &cusEventCounts::bad_time}}) {
        Events bad = events, kept;
        c.spoil(bad, c.at);
        for (size_t i = 0; i < events.size(); ++i)
            if (i != c.at)
                kept.add(events.t[i], events.x[i], events.y[i], events.p[i]);
        for (const auto &[name, bytes] : std::map<std::string, Bytes>{{"evt2", reference::evt2(bad, EVT2)},
                                                                      {"dat", reference::dat(bad, DAT)},
                                                                      {"text", reference::text(bad, false)}}) {
            if (name == "evt2" && *c.what == 'p')
                continue; // one bit: there is no other
            SCOPED_TRACE(name + " " + c.what);
            cusEventReaderOptions options = cusEventReaderDefaults();
            options.width = 640;
            options.height = 480;
            Reader strict(bytes, options);
            ASSERT_EQ(strict.opened, CUS_OK) << cusLastError();
            cusStatus status = CUS_OK;
            const Events before = strict.all(700, &status);
            EXPECT_EQ(status, CUS_ERROR_FORMAT);
            EXPECT_NE(std::string(cusLastError()).find(c.message), std::string::npos) << cusLastError();
            EXPECT_TRUE(before == events.part(0, c.at));
            // Past it, reading goes on.
            CUS_ASSERT_OK(cusEventReaderSeekIndex(strict.reader, int64_t(c.at) + 1));
            EXPECT_TRUE(strict.all() == events.part(c.at + 1, events.size() - c.at - 1));

            options.bad_events = CUS_BAD_EVENTS_SKIP;
            Reader lenient(bytes, options);
            EXPECT_TRUE(lenient.all(700) == kept);
            EXPECT_EQ(lenient.counts().*c.count, 1u);
            EXPECT_EQ(lenient.counts().events, 2999u);
        }
    }
}

TEST(EventErrors, UndefinedWords) {
    auto random = support::generator();
    const Events events = randomEvents(100, random);
    Bytes two = reference::evt2(events, EVT2), three = reference::evt3(events, EVT3), text = reference::text(events, true);
    reference::append(two, 0x50000000u, 4);
    reference::append(three, 0x9000u, 2);
    for (const char c : std::string("garbage here\n"))
        text.push_back(uint8_t(c));
    for (const Bytes *bytes : {&two, &three, &text}) {
        Reader strict(*bytes);
        cusStatus status = CUS_OK;
        EXPECT_TRUE(strict.all(1000, &status) == events);
        EXPECT_EQ(status, CUS_ERROR_FORMAT);
        EXPECT_NE(std::string(cusLastError()).find("byte "), std::string::npos) << cusLastError();
        cusEventReaderOptions options = cusEventReaderDefaults();
        options.bad_events = CUS_BAD_EVENTS_SKIP;
        Reader lenient(*bytes, options);
        EXPECT_TRUE(lenient.all() == events);
        EXPECT_EQ(lenient.counts().bad_words, 1u);
    }
}

TEST(EventErrors, FilesThatAreNone) {
    Folder at;
    cusEventReader *reader = nullptr;
    const auto open = [&](const std::string &path) { return cusEventReaderOpen(&reader, path.c_str(), nullptr); };
    CUS_EXPECT_ERROR(open(at / "nothing"), CUS_ERROR_IO, "No such file");
    CUS_EXPECT_ERROR(open(at / ""), CUS_ERROR_IO, "is a directory, takes a regular file");
    ASSERT_EQ(mkfifo((at / "pipe").c_str(), 0600), 0);
    CUS_EXPECT_ERROR(open(at / "pipe"), CUS_ERROR_IO, "is a pipe, takes a regular file");
    CUS_EXPECT_ERROR(open("/dev/null"), CUS_ERROR_IO, "is a device, takes a regular file");
    const auto content = [&](const std::string &text) {
        save(at / "file", reference::bytesOf(text));
        return open(at / "file");
    };
    CUS_EXPECT_ERROR(content(""), CUS_ERROR_FORMAT, "the file is empty");
    CUS_EXPECT_ERROR(content("hello"), CUS_ERROR_FORMAT, "not an event recording");
    CUS_EXPECT_ERROR(content(std::string(5000, '\0')), CUS_ERROR_FORMAT, "not an event recording");
    CUS_EXPECT_ERROR(content("1 2 3 four\n"), CUS_OK, "");
    cusEventReaderClose(reader);
    reader = nullptr;
    CUS_EXPECT_ERROR(content("% evt 2.1\n% end\n1234"), CUS_ERROR_UNSUPPORTED, "encoding EVT 2.1, takes EVT 2.0 and 3.0");
    CUS_EXPECT_ERROR(content("% evt 4.0\n% end\n1234"), CUS_ERROR_UNSUPPORTED, "EVT 4.0");
    CUS_EXPECT_ERROR(content("% Version 1\n" + std::string("\0\x08", 2) + "12345678"), CUS_ERROR_UNSUPPORTED,
                     "DAT version 1");
    CUS_EXPECT_ERROR(content("% Version 2\n\x03\x09"
                             "12345678"),
                     CUS_ERROR_FORMAT, "names no EVT encoding");
    CUS_EXPECT_ERROR(content("% Data file containing X events\n\x03\x09"
                             "12345678"),
                     CUS_ERROR_FORMAT, "records of type 3 and 9");
    CUS_EXPECT_ERROR(content("% evt 3.0"), CUS_ERROR_TRUNCATED, "ends within its header, at byte 9");
    CUS_EXPECT_ERROR(content("% Version 2\n"), CUS_ERROR_TRUNCATED, "ends after its header");
    CUS_EXPECT_ERROR(content("% " + std::string(100000, 'x')), CUS_ERROR_FORMAT, "header is longer than 65536 bytes");
    CUS_EXPECT_ERROR(content("\x89HDF\r\n\x1a\n garbled"), haveHdf5() ? CUS_ERROR_FORMAT : CUS_ERROR_UNSUPPORTED, "HDF5");
    CUS_EXPECT_ERROR(content("\x89HDF\r\n\x1a\n" + std::string(4096, 'x')),
                     haveHdf5() ? CUS_ERROR_FORMAT : CUS_ERROR_UNSUPPORTED, "HDF5");
    EXPECT_EQ(reader, nullptr);
}

TEST(EventErrors, Arguments) {
    cusEventReader *reader = nullptr;
    size_t count = 0;
    cusEventInfo info;
    cusEventCounts counts;
    CUS_EXPECT_ERROR(cusEventReaderOpen(nullptr, "x", nullptr), CUS_ERROR_NULL, "cusEventReaderOpen: reader is NULL");
    CUS_EXPECT_ERROR(cusEventReaderOpen(&reader, nullptr, nullptr), CUS_ERROR_NULL, "path is NULL");
    CUS_EXPECT_ERROR(cusEventReaderOpenMemory(&reader, nullptr, 5, nullptr), CUS_ERROR_NULL, "data is NULL");
    CUS_EXPECT_ERROR(cusEventReaderRead(nullptr, 1, nullptr, nullptr, nullptr, nullptr, &count), CUS_ERROR_NULL, "reader");
    CUS_EXPECT_ERROR(cusEventReaderInfo(nullptr, &info), CUS_ERROR_NULL, "reader");
    CUS_EXPECT_ERROR(cusEventReaderCounts(nullptr, &counts), CUS_ERROR_NULL, "reader");
    CUS_EXPECT_ERROR(cusEventReaderSeekIndex(nullptr, 0), CUS_ERROR_NULL, "reader");
    CUS_EXPECT_ERROR(cusEventReaderSeekTime(nullptr, 0, nullptr), CUS_ERROR_NULL, "reader");
    cusEventReaderClose(nullptr);
    const auto rejected = [&](cusEventReaderOptions options) { return cusEventReaderOpen(&reader, "x", &options); };
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.width = 5;
    CUS_EXPECT_ERROR(rejected(options), CUS_ERROR_VALUE, "sensor 5 x 0");
    options = cusEventReaderDefaults();
    options.camera = "a/b";
    CUS_EXPECT_ERROR(rejected(options), CUS_ERROR_VALUE, "camera is \"a/b\"");
    options = cusEventReaderDefaults();
    options.format = cusEventFormat(9);
    CUS_EXPECT_ERROR(rejected(options), CUS_ERROR_VALUE, "format is 9");
    options = cusEventReaderDefaults();
    options.threads = -1;
    CUS_EXPECT_ERROR(rejected(options), CUS_ERROR_VALUE, "threads is -1");
    options = cusEventReaderDefaults();
    options.bad_events = cusBadEvents(2);
    CUS_EXPECT_ERROR(rejected(options), CUS_ERROR_VALUE, "bad_events is 2");
    options = cusEventReaderDefaults();
    options.format = CUS_EVENTS_DAT;
    const Bytes text = reference::bytesOf("1 2 3 1\n");
    CUS_EXPECT_ERROR(cusEventReaderOpenMemory(&reader, text.data(), text.size(), &options), CUS_ERROR_FORMAT,
                     "the file is text, asked for DAT");
    Reader r(text);
    CUS_EXPECT_ERROR(cusEventReaderSeekIndex(r.reader, -1), CUS_ERROR_VALUE, "index is -1");
    CUS_EXPECT_ERROR(cusEventReaderRead(r.reader, 1, nullptr, nullptr, nullptr, nullptr, nullptr), CUS_ERROR_NULL, "count");
    EXPECT_STREQ(cusEventFormatName(CUS_EVENTS_EVT3), "EVT3");
    EXPECT_STREQ(cusEventFormatName(cusEventFormat(77)), "unknown");
}

TEST(EventWriter, Errors) {
    NEEDS_HDF5();
    Folder at;
    cusEventWriter *writer = nullptr;
    cusEventWriterOptions options = sensor(100, 50);
    const std::string path = at / "w.h5";
    CUS_EXPECT_ERROR(cusEventWriterCreate(&writer, path.c_str(), nullptr), CUS_ERROR_NULL, "options is NULL");
    CUS_EXPECT_ERROR(cusEventWriterCreate(nullptr, path.c_str(), &options), CUS_ERROR_NULL, "writer is NULL");
    options.chunk = 10;
    CUS_EXPECT_ERROR(cusEventWriterCreate(&writer, path.c_str(), &options), CUS_ERROR_VALUE, "chunk is 10");
    options = sensor(0, 50);
    CUS_EXPECT_ERROR(cusEventWriterCreate(&writer, path.c_str(), &options), CUS_ERROR_VALUE, "sensor 0 x 50");
    options = sensor(100, 50);
    CUS_EXPECT_ERROR(cusEventWriterCreate(&writer, (at / "no/w.h5").c_str(), &options), CUS_ERROR_IO, "cannot be written");
    ASSERT_EQ(writer, nullptr);
    CUS_ASSERT_OK(cusEventWriterCreate(&writer, path.c_str(), &options));
    const auto write = [&](int64_t t, uint16_t x, uint16_t y, uint8_t p) {
        return cusEventWriterWrite(writer, 1, &x, &y, &p, &t);
    };
    CUS_ASSERT_OK(write(10, 99, 49, 1));
    CUS_EXPECT_ERROR(write(10, 100, 49, 1), CUS_ERROR_VALUE, "event 0 at x 100");
    CUS_EXPECT_ERROR(write(10, 99, 49, 2), CUS_ERROR_VALUE, "polarity 2");
    CUS_EXPECT_ERROR(write(9, 99, 49, 1), CUS_ERROR_VALUE, "time 9 us, takes 10..");
    CUS_EXPECT_ERROR(write(int64_t(1) << 41, 99, 49, 1), CUS_ERROR_VALUE, "takes 10..1099511627776");
    CUS_ASSERT_OK(write(10, 0, 0, 0));
    EXPECT_NE(access(path.c_str(), F_OK), 0); // not yet
    CUS_ASSERT_OK(cusEventWriterFinish(writer));
    Reader r(path);
    EXPECT_EQ(r.all().size(), 2u);

    CUS_ASSERT_OK(cusEventWriterCreate(&writer, (at / "d.h5").c_str(), &options));
    cusEventWriterDiscard(writer);
    EXPECT_NE(access((at / "d.h5.part").c_str(), F_OK), 0);
    cusEventWriterDiscard(nullptr);

    CUS_ASSERT_OK(cusEventWriterCreate(&writer, (at / "e.h5").c_str(), &options)); // nothing in it
    CUS_ASSERT_OK(cusEventWriterFinish(writer));
    Reader empty(at / "e.h5");
    EXPECT_EQ(empty.info.count, 0);
    EXPECT_EQ(empty.info.first_time, -1);
    EXPECT_EQ(empty.all().size(), 0u);
}

TEST(EventReader, TwoThreadsWithTwoReaders) {
    auto random = support::generator();
    const Events events = randomEvents(100000, random);
    for (const auto &[name, bytes] : files(events)) {
        SCOPED_TRACE(name);
        bool same[2] = {};
        std::thread other([&, &file = bytes] { same[0] = Reader(file).all(3333) == events; });
        same[1] = Reader(bytes).all(4444) == events;
        other.join();
        EXPECT_TRUE(same[0] && same[1]);
    }
}

// ---- Fuzzing ----

// The corpus, and some thousand inputs near it: whatever the bytes, the promises are kept.
TEST(EventFuzz, CorpusAndItsNeighbors) {
    auto random = support::generator();
    int files = 0;
    for (const auto &entry :
         std::filesystem::directory_iterator(std::string(CUSIGHT_SOURCE_DIR) + "/fuzz/corpus/eventio")) {
        const Bytes bytes = load(entry.path());
        ASSERT_FALSE(bytes.empty());
        ++files;
        fuzz::eventInput(bytes.data(), bytes.size());
        for (int round = 0; round < 100; ++round) {
            Bytes near = bytes;
            for (uint64_t k = random() % 8; k-- > 0;)
                near[random() % near.size()] = uint8_t(random());
            if (random() % 4 == 0)
                near.resize(1 + random() % near.size());
            fuzz::eventInput(near.data(), near.size());
        }
    }
    EXPECT_GE(files, 10);
}

// ---- Frames ----

#ifdef CUSIGHT_HAVE_HDF5
TEST(FrameWriter, StoresWhatItIsGiven) {
    auto random = support::generator();
    Folder at;
    for (const int type : {CUS_8UC2, CUS_8UC1, CUS_32FC1}) {
        const int rows = 37, cols = 53, frames = 9;
        const size_t bytes = cusTypeSize(type) * rows * cols;
        Bytes all(bytes * frames);
        for (size_t i = 0; i < all.size(); ++i)
            all[i] = i / bytes == 4 ? uint8_t(random()) : uint8_t(i / 100 % 3); // one frame does not compress
        cusFrameWriter *writer = nullptr;
        const std::string path = at / "f.h5";
        CUS_ASSERT_OK(cusFrameWriterCreate(&writer, path.c_str(), rows, cols, type));
        for (int first = 0; first < frames; first += 3) {
            support::TestMat mat(3 * rows, cols, type, CUS_HOST, support::layouts(type)[size_t(first / 3)],
                                 &all[size_t(first) * bytes]);
            CUS_ASSERT_OK(cusFrameWriterWrite(writer, &mat.mat));
        }
        cusMat wrong = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusMatCreate(&wrong, rows + 1, cols, type, CUS_HOST));
        CUS_EXPECT_ERROR(cusFrameWriterWrite(writer, &wrong), CUS_ERROR_SIZE, "frames is 38 x 53");
        CUS_ASSERT_OK(cusMatCreate(&wrong, rows, cols, CUS_16SC1, CUS_HOST));
        CUS_EXPECT_ERROR(cusFrameWriterWrite(writer, &wrong), CUS_ERROR_TYPE, "frames has type 16SC1");
        cusMatRelease(&wrong);
        CUS_EXPECT_ERROR(cusFrameWriterWrite(nullptr, &wrong), CUS_ERROR_NULL, "writer");
        CUS_ASSERT_OK(cusFrameWriterFinish(writer));

        const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, "frames", H5P_DEFAULT);
        const hid_t space = H5Dget_space(set);
        hsize_t shape[4] = {};
        ASSERT_EQ(H5Sget_simple_extent_dims(space, shape, nullptr), 4);
        EXPECT_EQ(shape[0], hsize_t(frames));
        EXPECT_EQ(shape[1] * shape[2] * shape[3], hsize_t(rows * cols * CUS_CHANNELS(type)));
        for (hsize_t f = 0; f < hsize_t(frames); ++f) {
            const hsize_t place[4] = {f, 0, 0, 0};
            hsize_t size = 0;
            uint32_t left_out = 0;
            ASSERT_GE(H5Dget_chunk_storage_size(set, place, &size), 0);
            Bytes stored(size), frame(bytes);
            ASSERT_GE(H5Dread_chunk(set, H5P_DEFAULT, place, &left_out, stored.data()), 0);
            EXPECT_EQ(left_out, f == 4 ? 1u : 0u);
            if (left_out) {
                frame = stored;
            } else {
                ASSERT_TRUE(reference::lzf(stored, bytes, frame));
            }
            ASSERT_TRUE(std::equal(frame.begin(), frame.end(), all.begin() + long(f * bytes)));
        }
        H5Sclose(space);
        H5Dclose(set);
        H5Fclose(file);
    }
    cusFrameWriter *writer = nullptr;
    CUS_EXPECT_ERROR(cusFrameWriterCreate(&writer, (at / "x/f.h5").c_str(), 1, 1, CUS_8UC1), CUS_ERROR_IO,
                     "cannot be written");
    CUS_EXPECT_ERROR(cusFrameWriterCreate(&writer, "f.h5", 0, 1, CUS_8UC1), CUS_ERROR_VALUE, "0 x 1");
    CUS_EXPECT_ERROR(cusFrameWriterCreate(&writer, "f.h5", 65536, 65536, CUS_8UC1), CUS_ERROR_SIZE, "2^32 bytes or more");
    CUS_EXPECT_ERROR(cusFrameWriterCreate(nullptr, "f.h5", 1, 1, CUS_8UC1), CUS_ERROR_NULL, "writer");
    CUS_ASSERT_OK(cusFrameWriterCreate(&writer, (at / "d.h5").c_str(), 1, 1, CUS_8UC1));
    cusFrameWriterDiscard(writer);
    EXPECT_NE(access((at / "d.h5.part").c_str(), F_OK), 0);
    cusFrameWriterDiscard(nullptr);
}
#endif

// ---- LZF ----

TEST(EventCodec, LzfThereAndBack) {
    auto random = support::generator();
    for (int round = 0; round < 300; ++round) {
        const size_t n = 1 + random() % (round < 200 ? 400 : 100000);
        Bytes in(n);
        const unsigned kind = unsigned(random() % 4), spread = 1 + unsigned(random() % 255);
        for (size_t i = 0; i < n; ++i)
            in[i] = kind == 0   ? uint8_t(random() % spread)
                    : kind == 1 ? uint8_t(i / 8)
                    : kind == 2 ? 7
                                : uint8_t(i % spread);
        Bytes packed(n);
        const size_t size = eventio_lzfEncode(in.data(), n, packed.data());
        ASSERT_LT(size, n);
        if (!size)
            continue;
        packed.resize(size);
        Bytes plain, fast(n, 0xee);
        ASSERT_TRUE(reference::lzf(packed, n, plain));
        ASSERT_EQ(plain, in);
        ASSERT_TRUE(eventio_lzfDecode(packed.data(), size, fast.data(), n));
        ASSERT_EQ(fast, in);
        ASSERT_FALSE(eventio_lzfDecode(packed.data(), size, fast.data(), n - 1));
        ASSERT_FALSE(eventio_lzfDecode(packed.data(), size - 1, fast.data(), n));
    }
}

TEST(EventCodec, LzfOfAnythingIsSafeAndAsTheReference) {
    auto random = support::generator();
    int good = 0;
    for (int round = 0; round < 3000; ++round) {
        // Mostly valid: short literals and near copies, then a few bytes changed.
        Bytes in;
        size_t made = 0;
        while (in.size() < 20 + random() % 300) {
            if (made < 2 || random() % 2) {
                const unsigned n = unsigned(random() % 32);
                in.push_back(uint8_t(n));
                for (unsigned k = 0; k <= n; ++k)
                    in.push_back(uint8_t(random()));
                made += n + 1;
            } else {
                const unsigned code = 1 + unsigned(random() % 7), more = unsigned(random() % 256);
                const size_t distance = random() % std::min<size_t>(made, 8192);
                in.push_back(uint8_t(code << 5 | distance >> 8));
                if (code == 7)
                    in.push_back(uint8_t(more));
                in.push_back(uint8_t(distance));
                made += code + 2 + (code == 7 ? more : 0);
            }
        }
        if (round % 2)
            in[random() % in.size()] ^= uint8_t(1 << random() % 8);
        Bytes plain, fast(made + 64, 0xee);
        const bool expected = reference::lzf(in, made, plain);
        ASSERT_EQ(eventio_lzfDecode(in.data(), in.size(), fast.data(), made) != 0, expected);
        for (size_t i = made; i < fast.size(); ++i)
            ASSERT_EQ(fast[i], 0xee); // not a byte past the end
        fast.resize(made);
        if (expected) {
            ASSERT_EQ(fast, plain);
        }
        good += expected;
    }
    EXPECT_GT(good, 1000);
}

// ---- Generator ----

TEST(EventGenerator, IsTheReference) {
    auto random = support::generator();
    for (const auto &[rows, cols] : support::sizes()) {
        cusEventGeneratorOptions options = cusEventGeneratorDefaults();
        options.positive = 0.05 + double(random() % 100) / 100;
        options.negative = 0.05 + double(random() % 100) / 100;
        cusEventGenerator *generator = nullptr;
        CUS_ASSERT_OK(cusEventGeneratorCreate(&generator, rows, cols, &options));
        const size_t pixels = size_t(rows) * size_t(cols);
        std::vector<int32_t> level(pixels);
        Bytes before(pixels), frame(pixels);
        int64_t last = -1, time = int64_t(random() % 1000);
        for (int k = 0; k < 4; ++k) {
            for (auto &v : frame)
                v = k && random() % 4 ? v : uint8_t(random() % (random() % 3 ? 256 : 25));
            support::TestMat mat(rows, cols, CUS_8UC1, CUS_HOST, support::layouts(CUS_8UC1)[size_t(k)], frame.data());
            cusEventArrays out = {};
            CUS_ASSERT_OK(cusEventGeneratorPush(generator, &mat.mat, time, &out));
            EXPECT_TRUE(mat.intact());
            if (k == 0) {
                EXPECT_EQ(out.count, 0u);
                for (size_t i = 0; i < pixels; ++i)
                    level[i] = reference::logLevel(frame[i]);
            } else {
                const Events expected =
                    reference::crossings(before, frame, cols, last, time, int32_t(std::lround(options.positive * 65536)),
                                         int32_t(std::lround(options.negative * 65536)), level);
                Events got;
                for (size_t i = 0; i < out.count; ++i)
                    got.add(out.t[i], out.x[i], out.y[i], out.p[i]);
                ASSERT_TRUE(got == expected) << rows << " x " << cols << ", frame " << k;
                for (const int64_t t : got.t)
                    ASSERT_TRUE(t > last && t <= time);
            }
            before = frame;
            last = time;
            time += 1 + int64_t(random() % (k == 1 ? 3 : 5000000));
        }
        cusEventGeneratorDestroy(generator);
    }
}

TEST(EventGenerator, WorkedExample) {
    // From 100 to 200 within 1000 us is ln 2 = 0.693 in log intensity: three crossings of 0.2, at 289, 578 and 866 us.
    cusEventGenerator *generator = nullptr;
    CUS_ASSERT_OK(cusEventGeneratorCreate(&generator, 1, 1, nullptr));
    uint8_t value = 100;
    cusMat frame = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatWrap(&frame, 1, 1, CUS_8UC1, CUS_HOST, &value, 0));
    cusEventArrays out = {};
    CUS_ASSERT_OK(cusEventGeneratorPush(generator, &frame, 0, &out));
    EXPECT_EQ(out.count, 0u);
    value = 200;
    CUS_ASSERT_OK(cusEventGeneratorPush(generator, &frame, 1000, &out));
    ASSERT_EQ(out.count, 3u);
    EXPECT_EQ(out.t[0], 289);
    EXPECT_EQ(out.t[1], 578);
    EXPECT_EQ(out.t[2], 866);
    EXPECT_EQ(out.p[0], 1);
    // Unchanged: nothing. Slightly back: less than a threshold below the last crossing, nothing.
    CUS_ASSERT_OK(cusEventGeneratorPush(generator, &frame, 2000, &out));
    EXPECT_EQ(out.count, 0u);
    value = 170;
    CUS_ASSERT_OK(cusEventGeneratorPush(generator, &frame, 3000, &out));
    EXPECT_EQ(out.count, 0u);
    CUS_EXPECT_ERROR(cusEventGeneratorPush(generator, &frame, 3000, &out), CUS_ERROR_VALUE, "time is 3000 us");
    cusMat wrong = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatCreate(&wrong, 2, 1, CUS_8UC1, CUS_HOST));
    CUS_EXPECT_ERROR(cusEventGeneratorPush(generator, &wrong, 4000, &out), CUS_ERROR_SIZE, "frame is 2 x 1");
    CUS_ASSERT_OK(cusMatCreate(&wrong, 1, 1, CUS_8UC3, CUS_HOST));
    CUS_EXPECT_ERROR(cusEventGeneratorPush(generator, &wrong, 4000, &out), CUS_ERROR_TYPE,
                     "frame has type 8UC3, expected 8UC1");
    cusMatRelease(&wrong);
    CUS_EXPECT_ERROR(cusEventGeneratorPush(generator, nullptr, 4000, &out), CUS_ERROR_NULL, "frame");
    CUS_EXPECT_ERROR(cusEventGeneratorPush(nullptr, &frame, 4000, &out), CUS_ERROR_NULL, "generator");
    CUS_EXPECT_ERROR(cusEventGeneratorPush(generator, &frame, 4000, nullptr), CUS_ERROR_NULL, "events");
    cusEventGeneratorDestroy(generator);
    cusEventGeneratorDestroy(nullptr);
    cusEventGeneratorOptions options = {0.001, 0.2};
    CUS_EXPECT_ERROR(cusEventGeneratorCreate(&generator, 1, 1, &options), CUS_ERROR_VALUE, "thresholds 0.001");
    CUS_EXPECT_ERROR(cusEventGeneratorCreate(&generator, 0, 1, nullptr), CUS_ERROR_VALUE, "0 x 1");
    CUS_EXPECT_ERROR(cusEventGeneratorCreate(nullptr, 1, 1, nullptr), CUS_ERROR_NULL, "generator");
}

} // namespace
