// Readers of event recordings against the plain decoders of reference/eventio.hpp: real recordings, round trips, fuzz seeds.
#include "eventio/support.hpp"
#include "../../fuzz/eventio_input.hpp"

#include <filesystem>
#include <thread>

using namespace eventio_test;

namespace {

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

    // Conversion to M3ED keeps the events.
    Folder at;
    const int width = known.width ? known.width : 240, height = known.height ? known.height : 180;
    CUS_ASSERT_OK(writeM3ed(at / "r.h5", events, sensor(width, height), 33333));
    Reader converted(at / "r.h5");
    ASSERT_EQ(converted.opened, CUS_OK) << cusLastError();
    EXPECT_EQ(converted.info.width, width);
    EXPECT_TRUE(converted.all() == events);
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

// ---- Formats ----

TEST(EventFormats, EachRoundTrips) {
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
        const bool indexed = r.info.format == CUS_EVENTS_M3ED || r.info.format == CUS_EVENTS_AEDAT4;
        const bool counted = indexed || r.info.format == CUS_EVENTS_DAT;
        EXPECT_EQ(r.info.count, counted ? 30000 : -1);
        EXPECT_EQ(r.info.last_time, indexed ? events.t.back() : -1);
        ASSERT_TRUE(r.all() == events);
        checkPiecesAndSeeks(r, events, random);
    }
}

TEST(EventFormats, Evt21InBothWordOrders) {
    auto random = support::generator();
    const Events events = randomEvents(20000, random, 123456789, 3000000);
    for (const bool legacy : {false, true}) {
        SCOPED_TRACE(legacy);
        const Bytes bytes = reference::evt21(events, EVT21, legacy);
        EXPECT_TRUE(reference::decodeEvt21(reference::afterHeader(bytes), legacy) == events);
        // The header takes precedence over the look of the content.
        const std::string said =
            std::string("% format EVT21;height=480;endianness=") + (legacy ? "legacy" : "little") + ";width=640\n% end\n";
        for (const std::string &header : {EVT21, said}) {
            Reader r(reference::evt21(events, header, legacy));
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            EXPECT_EQ(r.info.format, CUS_EVENTS_EVT21);
            EXPECT_STREQ(cusEventFormatName(r.info.format), "EVT2.1");
            EXPECT_EQ(r.info.width, 640);
            EXPECT_TRUE(r.all() == events);
        }
        // A recording cut from the middle of another does not start with the time.
        Bytes cut = bytes;
        cut.erase(cut.begin() + std::ptrdiff_t(EVT21.size()), cut.begin() + std::ptrdiff_t(EVT21.size()) + 8);
        Reader r(cut);
        const Events later = r.all();
        const size_t lost = events.size() - later.size();
        ASSERT_LT(lost, 100u);
        EXPECT_EQ(r.counts().untimed, lost);
        EXPECT_TRUE(later == events.part(lost, later.size()));
    }
    Bytes other = reference::bytesOf("% evt 2.1\n% end\n"); // a trigger of each edge, and words without events
    for (const uint64_t word :
         {0x8000000100000000u, 0xa000000100000000u, 0xa000000000000000u, 0xe000000000000000u, 0xf000000000000000u})
        reference::append(other, word, 8);
    Reader r(other);
    EXPECT_EQ(r.all().size(), 0u);
    EXPECT_EQ(r.counts().triggers_rising, 1u);
    EXPECT_EQ(r.counts().triggers_falling, 1u);
}

// Random words, whatever they mean: events, counts and undefined words are those of the plain decoder.
TEST(EventFormats, Evt4AgainstThePlainDecoder) {
    auto random = support::generator();
    for (int round = 0; round < 300; ++round) {
        Bytes words;
        uint32_t high = 0, low = 0;
        size_t undefined = 0;
        const size_t n = random() % 400;
        const auto put = [&](uint64_t type, uint64_t rest) {
            reference::append(words, type << 28 | (rest & 0xfffffff), 4);
        };
        for (size_t i = 0; i < n; ++i) {
            const uint64_t r = random(), kind = (r >> 40) % 16;
            low = std::min(63u, low + uint32_t(r % 8 == 0));
            if (kind < 10) {
                put(10 + (r >> 8) % 4, low << 22 | (r >> 12) % 640 << 11 | (r >> 24) % 480);
                if (words.back() >> 5 == 6)
                    reference::append(words, random() & random() & 0xffffff, 4); // as many as fit the sensor, below
            } else if (kind < 12) {
                put(14, high += uint32_t(1 + r % 3)), low = 0;
            } else if (kind < 15) {
                const uint32_t types[] = {6, 7, 9, 15};
                put(types[r % 4], r >> 8);
            } else {
                const uint32_t types[] = {0, 1, 2, 3, 4, 5, 8};
                put(types[r % 7], r >> 8), ++undefined;
            }
        }
        reference::Triggers triggers;
        const Events expected = reference::decodeEvt4(words, &triggers);
        Bytes file = reference::bytesOf("% evt 4.0\n% geometry 1280x720\n% end\n");
        file.insert(file.end(), words.begin(), words.end());
        cusEventReaderOptions options = cusEventReaderDefaults();
        options.bad_events = CUS_BAD_EVENTS_SKIP;
        Reader r(file, options);
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        EXPECT_EQ(r.info.format, CUS_EVENTS_EVT4);
        ASSERT_EQ(r.all(1 + random() % 50), expected) << round;
        EXPECT_EQ(r.counts().bad_words, undefined);
        EXPECT_EQ(r.counts().triggers_rising, uint64_t(triggers.rising));
        EXPECT_EQ(r.counts().triggers_falling, uint64_t(triggers.falling));
    }
}

// A file that ends between a vector and its mask.
TEST(EventFormats, Evt4WithoutTheLastMask) {
    for (const bool timed : {false, true}) {
        Bytes file = reference::bytesOf(EVT4);
        if (timed)
            reference::append(file, 0xe0000001u, 4);
        reference::append(file, 0xc0000000u, 4);
        reference::append(file, 0x00000101u, 4);
        reference::append(file, 0xd0000000u, 4);
        Reader r(file);
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        cusStatus status = CUS_OK;
        EXPECT_EQ(r.all(10, &status).size(), timed ? 2u : 0u);
        CUS_REJECTS(status, TRUNCATED, "within an event of EVT4");
        EXPECT_EQ(r.counts().untimed, timed ? 0u : 2u);
    }
}

// Vectors, read one event at a time.
TEST(EventFormats, VectorsSurviveAnySplit) {
    Bytes evt21 = reference::bytesOf(EVT21), evt3 = reference::bytesOf(EVT3), evt4 = reference::bytesOf(EVT4);
    for (const uint32_t word : {0xe0000001u, 0xd0000000u | 2u << 22 | 96u << 11 | 5u, 0xffffffffu})
        reference::append(evt4, word, 4);
    for (const uint64_t word :
         {uint64_t(0x80000001) << 32, uint64_t(0x10000000u | 2u << 22 | 96u << 11 | 5u) << 32 | 0xffffffffu})
        reference::append(evt21, word, 8);
    for (const uint32_t word : {0x8001u, 0x6002u, 0x0005u, 0x3000u | 0x800u | 100u, 0x4fffu, 0x50ffu, 0x4801u})
        reference::append(evt3, word, 2);
    Events of_evt21, of_evt3;
    for (unsigned i = 0; i < 32; ++i)
        of_evt21.add(66, 96 + i, 5, 1);
    for (unsigned i = 0; i < 22; ++i)
        of_evt3.add(4098, i < 20 ? 100 + i : i == 20 ? 120u : 131u, 5, 1);
    for (const auto &[file, expected] : {std::pair(evt21, of_evt21), std::pair(evt3, of_evt3), std::pair(evt4, of_evt21)}) {
        Reader r(file);
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        ASSERT_TRUE(r.all(1) == expected);
    }
}

TEST(EventFormats, TimeCountersThatWrapAreUnwrapped) {
    auto random = support::generator();
    // Pauses of up to a quarter of the counter's range, until it has wrapped several times.
    for (const auto &[bits, maker] : std::multimap<int, Bytes (*)(const Events &)>{
             {34, [](const Events &e) { return reference::evt2(e, EVT2); }},
             {35, [](const Events &e) { return reference::evt21(e, EVT21, true); }},
             {24, [](const Events &e) { return reference::evt3(e, EVT3); }},
             {34, [](const Events &e) { return reference::evt4(e, EVT4); }},
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

TEST(EventFormats, SeekingUsesCheckpointsInLongRecordings) {
    auto random = support::generator();
    const Events events = randomEvents(2300000, random);
    Reader r(reference::evt3(events, EVT3));
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    checkPiecesAndSeeks(r, events, random); // before and while checkpoints are made
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

TEST(EventFormats, TextVariants) {
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
    EXPECT_TRUE(read("1500;10;20;1\n2000000;11;21;0\n") == two);
    EXPECT_TRUE(read("0.0015; 10; 20; 1\r\n2; 11; 21; 0\r\n") == two);
    EXPECT_TRUE(read("x;y;on;timestamp\n10;20;1;1500\n11;21;0;2000000\n") == two);
    EXPECT_TRUE(read("t\tx\ty\tp\n1500\t10\t20\t1\n2000000\t11\t21\t0\n") == two);
    for (const char *const names :
         {"t,x@240,y@180,on\n", "t;x@240;y@180;p\r\n"}) { // as faery and neuromorphic-drivers write them
        Reader named(reference::bytesOf(names + std::string("1500,10,20,1\n2000000,11,21,0\n")));
        ASSERT_EQ(named.opened, CUS_OK) << cusLastError();
        EXPECT_EQ(named.info.width, 240);
        EXPECT_EQ(named.info.height, 180);
        EXPECT_TRUE(named.all() == two);
    }
    for (const char *const names : {"t,x@,y@180,on\n", "t,x@240x,y@180,on\n", "t@1,x,y,on\n", "t,x@1.5,y@180,on\n"})
        CUS_REJECTS(Reader(reference::bytesOf(names + std::string("1500,10,20,1\n"))).opened, FORMAT,
                    "not an event recording");
    // A size that no sensor has is none.
    Reader large(reference::bytesOf("t,x@99999999999,y@180,on\n1500,10,20,1\n"));
    EXPECT_EQ(large.info.width, 0);
    EXPECT_EQ(large.info.height, 0);
    // 18 digits of a Unix time in seconds.
    EXPECT_EQ(read("1700000000.123456789 1 2 0\n").t.at(0), 1700000000123457);
    Reader sized(reference::bytesOf("240 180\n1500 10 20 1\n2000000 11 21 0\n"));
    EXPECT_EQ(sized.info.width, 240);
    EXPECT_EQ(sized.info.height, 180);
    EXPECT_TRUE(sized.all() == two);
}

// Names or numbers give the order of the columns.
TEST(EventFormats, TextWithItsColumnsInAnyOrder) {
    auto random = support::generator();
    Events events = randomEvents(5000, random, 0, 3000, 320, 240);
    // No other column can be the times: each decreases.
    events.x[0] = 319, events.y[0] = 239, events.p[0] = 1;
    events.x[1] = events.y[1] = events.p[1] = 0;
    for (const char *const order : {"txyp", "xypt", "xytp", "tpxy", "pxyt", "ptxy"})
        for (const int way : {0, 1, 2, 3}) { // microseconds; seconds; below names; the first 40 events alone
            SCOPED_TRACE(std::string(order) + std::to_string(way));
            std::string file = way == 2 ? std::string("\n") : "";
            for (const char *c = order; way == 2 && *c; ++c)
                file.insert(file.size() - 1, (c > order ? "," : "") + std::string(*c == 't'   ? "timestamp"
                                                                                  : *c == 'p' ? "polarity"
                                                                                              : std::string(1, *c)));
            const size_t n = way == 3 ? 40 : events.size();
            for (size_t i = 0; i < n; ++i)
                for (const char *c = order; *c; ++c) {
                    char t[32];
                    std::snprintf(t, sizeof t, way == 1 ? "%lld.%06lld" : "%lld%06lld",
                                  static_cast<long long>(events.t[i] / 1000000),
                                  static_cast<long long>(events.t[i] % 1000000));
                    file += *c == 't'   ? std::string(t)
                            : *c == 'x' ? std::to_string(events.x[i])
                            : *c == 'y' ? std::to_string(events.y[i])
                                        : std::to_string(events.p[i]);
                    file += c[1] ? "," : "\n";
                }
            Reader r(reference::bytesOf(file));
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            EXPECT_EQ(r.info.format, CUS_EVENTS_TEXT);
            ASSERT_TRUE(r.all() == events.part(0, n));
            checkPiecesAndSeeks(r, events.part(0, n), random);
        }
    // Times since 1970.
    Events late = events;
    for (int64_t &t : late.t)
        t += 1700000000000000;
    EXPECT_TRUE(Reader(reference::csv(late)).all() == late);
    EXPECT_TRUE(Reader(reference::text(late, false)).all() == late);
    EXPECT_TRUE(Reader(reference::text(late, true)).all() == late);
    // One bad line does not change the order that the others have; it is named in that order.
    Bytes spoiled = reference::csv(events);
    const std::string bad = "7,7,2,0\n1,2,3\n";
    spoiled.insert(spoiled.end(), bad.begin(), bad.end());
    Reader r(spoiled);
    cusStatus status = CUS_OK;
    EXPECT_TRUE(r.all(70000, &status) == events);
    EXPECT_EQ(status, CUS_ERROR_FORMAT);
    Reader sized(reference::bytesOf("%geometry:346,260\n5,6,1,1000\n7,8,0,1001\nx\n"));
    EXPECT_EQ(sized.info.width, 346);
    EXPECT_EQ(sized.info.height, 260);
    EXPECT_EQ(sized.all(10, &status).t, (std::vector<int64_t>{1000, 1001}));
    EXPECT_NE(std::string(cusLastError()).find("line 4, byte 40, is not \"x y p t\""), std::string::npos) << cusLastError();
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
    // The caller names the encoding of a RAW file whose header does not.
    options.format = CUS_EVENTS_EVT2;
    EXPECT_EQ(size("% Date today\n", options), std::make_pair(346, 260));
    EXPECT_EQ(size("", options), std::make_pair(346, 260));
}

// ---- Threads ----

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

// The reader keeps its contract on every seed. mutations.cpp: whatever the bytes.
TEST(EventFuzz, CorpusStillPasses) {
    int files = 0;
    for (const char *folder : {"eventio", "eventio_hdf5", "eventio_packets"})
        for (const auto &entry : std::filesystem::directory_iterator(support::sourceFile("fuzz/seeds/") + folder)) {
            const Bytes bytes = load(entry.path().string());
            ASSERT_FALSE(bytes.empty());
            ++files;
            fuzz::eventInput(bytes.data(), bytes.size());
        }
    EXPECT_GE(files, 30);
}

} // namespace
