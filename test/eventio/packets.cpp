// AEDAT4, ROS bags and MCAP: every compression and kind of message, choice of the stream, damage at every byte.
#include "eventio/support.hpp"

using namespace eventio_test;

namespace {

using Maker = std::function<Bytes(const Events &, std::mt19937_64 &)>;

cusEventReaderOptions withCamera(const char *camera) {
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.camera = camera;
    return options;
}

const char *nameOf(Codec codec) {
    static const char *const names[] = {"none", "lz4", "zstd", "bzip2"};
    return names[int(codec)];
}
const char *nameOf(Payload payload) {
    static const char *const names[] = {"array", "evt3", "mono", "libcaer", "trigger"};
    return names[int(payload)];
}

// Every kind of file that the writers above make and this build reads.
std::map<std::string, Maker> everyKind() {
    std::map<std::string, Maker> kinds;
    for (const Codec codec : {Codec::NONE, Codec::LZ4, Codec::ZSTD, Codec::BZIP2}) {
        if (!canPack(codec))
            continue;
        const std::string packed = nameOf(codec);
        if (codec != Codec::BZIP2)
            for (const bool table : {false, true})
                kinds["aedat4 " + packed + (table ? " with" : " without") + " table"] = [=](const Events &e, auto &random) {
                    Aedat4Options o;
                    o.codec = codec;
                    o.table = table;
                    o.triggers = {{1, 2, 1, 0}, {}, {3, 1}};
                    return aedat4(e, random, o);
                };
        for (const Payload payload : {Payload::ARRAY, Payload::EVT3, Payload::MONO, Payload::LIBCAER})
            for (const bool cdr : {false, true})
                for (const size_t chunk : {size_t(0), size_t(5000)}) {
                    RosOptions o;
                    o.codec = codec;
                    o.payload = payload;
                    o.chunk = chunk;
                    o.cdr = cdr;
                    o.big = cdr && payload == Payload::ARRAY && chunk;
                    o.triggers = {1, 0, 1, 1};
                    const std::string name =
                        std::string(nameOf(payload)) + " " + packed + (chunk ? " chunks" : " no chunks");
                    if (!cdr && codec != Codec::ZSTD)
                        kinds["bag " + name] = [=](const Events &e, auto &random) { return bag(e, random, o); };
                    if (codec != Codec::BZIP2)
                        kinds["mcap " + name + (cdr ? " cdr" : " ros1")] = [=](const Events &e, auto &random) {
                            return mcap(e, random, o);
                        };
                }
    }
    return kinds;
}

bool isBefore(const Events &part, const Events &all) {
    return part.size() <= all.size() && part == all.part(0, part.size());
}

// All triggers, n at a time.
std::vector<cusEventTrigger> triggersOf(Reader &r, size_t n) {
    std::vector<cusEventTrigger> all, piece(n);
    for (size_t count = n; count == n; all.insert(all.end(), piece.begin(), piece.begin() + std::ptrdiff_t(count)))
        CUS_EXPECT_OK(cusEventReaderReadTriggers(r.reader, n, piece.data(), &count));
    return all;
}

// The four triggers of everyKind(), at any time, also again; what has been read of the events stays counted.
void checkTriggers(Reader &r, bool aedat4, std::mt19937_64 &random) {
    const cusEventCounts before = r.counts();
    for (int round = 0; round < 3; ++round) {
        const std::vector<cusEventTrigger> triggers = triggersOf(r, 1 + random() % 6);
        ASSERT_EQ(triggers.size(), 4u);
        for (size_t i = 0; i < 4; ++i) {
            EXPECT_EQ(triggers[i].value, i != 1);
            EXPECT_EQ(triggers[i].id, aedat4 ? 0 : 5);
            EXPECT_GE(triggers[i].t, 0);
        }
        CUS_ASSERT_OK(cusEventReaderRewindTriggers(r.reader));
    }
    EXPECT_EQ(r.counts().triggers_rising, before.triggers_rising);
    EXPECT_EQ(r.counts().events, before.events);
}

TEST(EventPackets, EveryKindIsReadExactly) {
    auto random = support::generator();
    for (const auto &[name, make] : everyKind()) {
        SCOPED_TRACE(name);
        const int n = 7000 / support::fewer();
        const Events events = randomEvents(size_t(n), random, int64_t(random() % 10000000));
        Reader r(make(events, random));
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        const bool aedat4 = name[0] == 'a', counted = name.find("with table") != std::string::npos;
        EXPECT_EQ(r.info.format, aedat4 ? CUS_EVENTS_AEDAT4 : name[0] == 'b' ? CUS_EVENTS_BAG : CUS_EVENTS_MCAP);
        EXPECT_EQ(r.info.width, 640);
        EXPECT_EQ(r.info.height, 480);
        EXPECT_STREQ(r.info.camera, aedat4 ? "DVXplorer_1" : "/dvs/events");
        EXPECT_EQ(r.info.first_time, events.t[0]);
        EXPECT_EQ(r.info.count, counted ? n : -1);
        EXPECT_EQ(r.info.last_time, counted ? events.t.back() : -1);
        ASSERT_TRUE(r.all(999) == events);
        EXPECT_EQ(r.counts().triggers_rising, 3u);
        EXPECT_EQ(r.counts().triggers_falling, 1u);
        checkPiecesAndSeeks(r, events, random);
        checkTriggers(r, aedat4, random);
        Folder at;
        save(at / "file", make(events, random));
        Reader file(at / "file");
        ASSERT_EQ(file.opened, CUS_OK) << cusLastError();
        ASSERT_TRUE(file.all(4321) == events);
        checkPiecesAndSeeks(file, events, random);
        checkTriggers(file, aedat4, random);
    }
}

TEST(EventPackets, TriggersWithinEvt3) {
    auto random = support::generator();
    Bytes words;
    for (const unsigned word : {0x8001u, 0x6010u, 0xa101u, 0x2005u, 0x6020u, 0xa100u, 0x6021u, 0xa201u})
        append(words, word, 2);
    const Bytes magic = {0x89, 'M', 'C', 'A', 'P', '0', '\r', '\n'};
    RosOptions o;
    o.payload = Payload::EVT3;
    o.chunk = 0;
    Bytes bytes = mcap(randomEvents(1, random), random, o), content = number(1, 2);
    bytes.resize(bytes.size() - 8 - 29); // without the footer
    content.resize(22);
    add(content, rosPacket({false, false}, "evt3", 0, words, 640, 480));
    // Before the end of the data, which is where the index starts.
    const Bytes end = mcapRecord(15, number(0, 4)), record = mcapRecord(5, content);
    bytes.insert(std::search(bytes.begin(), bytes.end(), end.begin(), end.end()), record.begin(), record.end());
    add(bytes, mcapRecord(2, number(0, 20)));
    add(bytes, magic);
    Reader r(bytes);
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    EXPECT_EQ(r.all().size(), 2u);
    EXPECT_EQ(r.counts().triggers_rising, 2u);
    for (const size_t n : {1, 2, 5}) {
        CUS_ASSERT_OK(cusEventReaderRewindTriggers(r.reader));
        const std::vector<cusEventTrigger> triggers = triggersOf(r, n);
        ASSERT_EQ(triggers.size(), 3u);
        EXPECT_EQ(triggers[1].t, 4096 + 0x20);
        EXPECT_EQ(triggers[1].id, 1);
        EXPECT_EQ(triggers[1].value, 0);
        EXPECT_EQ(triggers[2].id, 2);
    }
}

TEST(EventPackets, ThousandsOfSmallRecordings) {
    auto random = support::generator();
    const auto kinds = everyKind();
    for (int round = 0; round < 42 / support::fewer(); ++round)
        for (const auto &[name, make] : kinds) {
            const Events events = randomEvents(random() % 40, random, int64_t(random() % 1000));
            Reader r(make(events, random));
            if (events.size() == 0 && r.opened != CUS_OK) // not even a topic
                continue;
            ASSERT_EQ(r.opened, CUS_OK) << name << ": " << cusLastError();
            ASSERT_TRUE(r.all(1 + random() % 50) == events) << name;
        }
}

TEST(EventPackets, CutAtEveryByte) {
    auto random = support::generator();
    for (const auto &[name, make] : everyKind()) {
        SCOPED_TRACE(name);
        const Events events = randomEvents(60, random);
        const Bytes whole = make(events, random);
        const bool closed = name.find("without") == std::string::npos;
        size_t most = 0;
        for (size_t size = 14 + (whole.size() - 15) % support::fewer(); size < whole.size(); size += support::fewer()) {
            Reader r(Bytes(whole.begin(), whole.begin() + std::ptrdiff_t(size)));
            cusStatus status = r.opened;
            const Events got = status == CUS_OK ? r.all(7, &status) : Events();
            ASSERT_TRUE(isBefore(got, events)) << size;
            ASSERT_GE(got.size(), most) << size; // no event is lost by having more bytes
            most = got.size();
            // A bag's index is not needed for anything.
            const bool complete = got.size() == events.size() && (!closed || name[0] == 'b');
            if (!complete && closed)
                ASSERT_EQ(status, CUS_ERROR_TRUNCATED) << size << ": " << cusLastError();
            else if (status != CUS_OK)
                ASSERT_EQ(status, CUS_ERROR_TRUNCATED) << size << ": " << cusLastError();
        }
        EXPECT_EQ(most, events.size());
    }
}

// ---- Streams and topics ----

TEST(EventPackets, Aedat4OfTwoCameras) {
    auto random = support::generator();
    const Events events = randomEvents(3000, random), other = randomEvents(50, random, 0, 1000, 99, 88);
    for (const bool table : {false, true}) {
        Aedat4Options o;
        o.other = other;
        o.table = table;
        const Bytes bytes = aedat4(events, random, o);
        for (const char *camera : {"DVXplorer_1", "1"}) {
            Reader r(bytes, withCamera(camera));
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            EXPECT_STREQ(r.info.camera, "DVXplorer_1");
            EXPECT_TRUE(r.all() == events);
        }
        for (const char *camera : {"other", "3", static_cast<const char *>(nullptr)}) { // its events come first
            Reader r(bytes, withCamera(camera));
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            EXPECT_STREQ(r.info.camera, "other");
            EXPECT_EQ(r.info.width, 99);
            EXPECT_EQ(r.info.count, table ? 50 : -1);
            EXPECT_TRUE(r.all() == other);
        }
        CUS_REJECTS(Reader(bytes, withCamera("2")).opened, FORMAT, "no stream of events named \"2\"");
    }
}

TEST(EventPackets, TopicsAreChosenByTheirParts) {
    auto random = support::generator();
    const Events events = randomEvents(500, random);
    RosOptions o;
    o.topic = "/robot/left/events";
    const Bytes bytes = bag(events, random, o);
    for (const char *camera : {"/robot/left/events", "left", "left/events", "robot"}) {
        Reader r(bytes, withCamera(camera));
        ASSERT_EQ(r.opened, CUS_OK) << camera << ": " << cusLastError();
        EXPECT_STREQ(r.info.camera, "/robot/left/events");
        EXPECT_TRUE(r.all() == events);
    }
    for (const char *camera : {"lef", "eft", "right", "chatter", "event"})
        CUS_REJECTS(Reader(bytes, withCamera(camera)).opened, FORMAT, std::string("no topic \"") + camera + "\"");
    o.topic = "/a/very/long/name/of/a/robot/and/its/left/events";
    EXPECT_STREQ(Reader(mcap(events, random, o)).info.camera, "/of/a/robot/and/its/left/events");
}

// ---- Damage ----

// The bytes with a part replaced by another of the same size, everywhere.
Bytes changed(Bytes bytes, const Bytes &from, const Bytes &to) {
    auto at = std::search(bytes.begin(), bytes.end(), from.begin(), from.end());
    EXPECT_TRUE(at != bytes.end());
    for (; at != bytes.end(); at = std::search(at, bytes.end(), from.begin(), from.end()))
        std::copy(to.begin(), to.end(), at);
    return bytes;
}
Bytes changed(const Bytes &bytes, const std::string &from, const std::string &to) {
    return changed(bytes, bytesOf(from), bytesOf(to));
}

cusStatus readAll(const Bytes &bytes, size_t *count = nullptr, cusEventReaderOptions options = cusEventReaderDefaults()) {
    Reader r(bytes, options);
    cusStatus status = r.opened;
    const Events got = status == CUS_OK ? r.all(1000, &status) : Events();
    if (count)
        *count = got.size();
    return status;
}

TEST(EventPackets, Aedat4ChecksItsTable) {
    auto random = support::generator();
    const Events events = randomEvents(3000, random);
    Aedat4Options o;
    const Bytes good = aedat4(events, random, o);
    size_t count = 0;
    // The last line of the table, with one event more.
    Bytes lie = good;
    for (size_t at = lie.size() - 44;; at -= 44)
        if (lie[at + 12] == 1) {
            ++lie[at + 20];
            break;
        }
    CUS_REJECTS(readAll(lie, &count), FORMAT, "its table of packets says 3001");
    EXPECT_EQ(count, 3000u);
    Bytes broken = good;
    broken[broken.size() - 44] ^= 0x80; // where the last line's fields are
    CUS_REJECTS(readAll(broken, &count), FORMAT, "a damaged table of packets");
    EXPECT_EQ(count, 3000u);
    // Wrong times only take longer.
    const Bytes name = bytesOf("FTAB");
    const auto table = std::find_end(good.begin(), good.end(), name.begin(), name.end()) - good.begin();
    for (const uint8_t time : {0, 0x7f, 0xff}) {
        Bytes wrong = good;
        for (size_t line = 0, lines = good[size_t(table) + 20]; line < lines; ++line)
            std::fill_n(wrong.end() - std::ptrdiff_t(44 * line) - 8, 8, time);
        Reader r(wrong);
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        checkPiecesAndSeeks(r, events, random);
    }
}

TEST(EventPackets, DamagedHeaders) {
    auto random = support::generator();
    const Events events = randomEvents(300, random);
    const Bytes aedat = aedat4(events, random), rosbag = bag(events, random);
    RosOptions cdr;
    cdr.cdr = true;
    cdr.chunk = 0; // no checksum
    const Bytes other = mcap(events, random, cdr);
    CUS_REJECTS(readAll(changed(aedat, "IOHE", "IOHX")), FORMAT, "expected an IOHeader");
    CUS_REJECTS(readAll(changed(aedat, "</dv>", "<node")), FORMAT, "XML with the streams");
    CUS_REJECTS(readAll(changed(aedat, "EVTS</attr>", "EVTX</attr>")), FORMAT, "no stream of events");
    CUS_REJECTS(readAll(changed(aedat, Bytes{'E', 'V', 'T', 'S', 6}, Bytes{'E', 'V', 'T', 'X', 6})), FORMAT,
                "a damaged packet, expected EVTS");
    CUS_REJECTS(readAll(changed(rosbag, "compression=none", "compression=nope")), UNSUPPORTED, "expected none, bz2 or lz4");
    CUS_REJECTS(readAll(changed(rosbag, "dvs_msgs/EventArray", "dvs_msgs/EventArraz")), FORMAT, "the file has no topic");
    CUS_REJECTS(readAll(changed(other, "dvs_msgs/msg/EventArray", "dvs_msgs/msg/EventArraz")), FORMAT,
                "the file has no topic");
    cusEventReaderOptions as = cusEventReaderDefaults();
    as.format = CUS_EVENTS_BAG;
    CUS_REJECTS(readAll(other, nullptr, as), FORMAT, "the file is MCAP, expected bag");
    for (const std::string version : {"2.0", "3.1", "1.0"})
        CUS_REJECTS(Reader(bytesOf("#!AER-DAT" + version + "\r\n# This is a raw AE data file\r\n\1\2\3\4")).opened,
                    UNSUPPORTED, "cusEventReaderOpen: the file is AEDAT " + version + ", expected AEDAT 4.0");
}

TEST(EventPackets, McapChecksItsChecksums) {
    if (std::string(cusBuildInformation()).find("zlib:           yes") == std::string::npos)
        GTEST_SKIP() << "built without zlib";
    std::mt19937_64 random(5);
    const Events events = randomEvents(300, random);
    RosOptions o;
    o.chunk = 1 << 20;
    for (;;) { // until the only chunk has a checksum
        Bytes bytes = mcap(events, random, o);
        const size_t at = bytes.size() - 500;
        bytes[at] ^= 1;
        const cusStatus status = readAll(bytes);
        if (status == CUS_ERROR_FORMAT && std::string(cusLastError()).find("right checksum") != std::string::npos)
            return;
    }
}

TEST(EventPackets, UnknownEncodings) {
    auto random = support::generator();
    RosOptions o;
    o.cdr = true;
    o.payload = Payload::MONO;
    o.chunk = 0;
    const Bytes bytes = mcap(randomEvents(50, random), random, o);
    CUS_REJECTS(readAll(changed(bytes, "mono", "momo")), UNSUPPORTED, "/dvs/events has events in the encoding \"momo\"");
}

TEST(EventPackets, NegativeTimesAndCoordinates) {
    std::mt19937_64 random(1);
    Events events;
    for (int i = 0; i < 10; ++i)
        events.add(i == 4 ? -1 : 100 + i, i == 6 ? 65535 : 5, 7, 1);
    const Bytes bytes = aedat4(events, random);
    size_t count = 0;
    CUS_REJECTS(readAll(bytes, &count), FORMAT, "event 4 at -1 us");
    EXPECT_EQ(count, 4u);
    cusEventReaderOptions skip = cusEventReaderDefaults();
    skip.bad_events = CUS_BAD_EVENTS_SKIP;
    skip.width = skip.height = 65536;
    Reader r(bytes, skip);
    EXPECT_EQ(r.all().size(), 8u);
    EXPECT_EQ(r.counts().bad_time, 1u);
    EXPECT_EQ(r.counts().bad_coordinates, 1u);
    events = {};
    events.add(-1, 1, 1, 1);
    CUS_REJECTS(readAll(aedat4(events, random)), FORMAT, "event 0 at -1 us");
}

// ---- Bombs ----

TEST(EventPackets, BlocksBeyondTheLimits) {
    if (!canPack(Codec::ZSTD))
        GTEST_SKIP() << "built without zstd";
    const auto bombOf = [](size_t size, bool tell, int chunks = 1) {
        Bytes content = number(0, 16);
        append(content, size, 8);
        append(content, 0, 4);
        addText(content, "zstd");
        const Bytes packed = zstd(Bytes(size, 0), true, tell);
        append(content, packed.size(), 8);
        add(content, packed);
        Bytes out = {0x89, 'M', 'C', 'A', 'P', '0', '\r', '\n'};
        for (int k = 0; k < chunks; ++k)
            add(out, mcapRecord(6, content));
        return out;
    };
    for (const bool tell : {true, false})
        CUS_REJECTS(readAll(bombOf((size_t(64) << 20) + 1, tell)), CAPACITY, "max_chunk");
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.max_chunk = 1 << 20;
    CUS_REJECTS(readAll(bombOf((1 << 20) + 1, true), nullptr, options), CAPACITY, "more than 1048576 bytes");
    options.max_chunk = 0;
    options.max_memory = 64 << 20;
    CUS_REJECTS(readAll(bombOf(size_t(60) << 20, true), nullptr, options), CAPACITY, "max_memory");
    // Each within the limits, but not together.
    CUS_REJECTS(readAll(bombOf(size_t(9) * 3400000, true, 3)), CAPACITY, "the size of the file allow");
}

// ---- Writer ----

TEST(EventPackets, Aedat4RoundTrips) {
    auto random = support::generator();
    Folder at;
    for (const size_t n : {size_t(0), size_t(1), size_t(1024), size_t(1025), size_t(30000)})
        for (const int compress : {0, 1, 2}) {
            if (!canPack(compress == 0 ? Codec::NONE : compress == 1 ? Codec::LZ4 : Codec::ZSTD))
                continue;
            const Events events = randomEvents(n, random, int64_t(random() % 1000000000000));
            cusEventWriterOptions options = sensor();
            options.format = CUS_EVENTS_AEDAT4;
            options.compress = compress;
            options.chunk = random() % 2 ? 1024 : 0;
            options.camera = random() % 2 ? "left" : nullptr;
            CUS_ASSERT_OK(writeM3ed(at / "w", events, options, 1 + random() % 5000));
            Reader r(at / "w");
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            EXPECT_EQ(r.info.format, CUS_EVENTS_AEDAT4);
            EXPECT_EQ(r.info.count, int64_t(n));
            EXPECT_EQ(r.info.width, 640);
            EXPECT_STREQ(r.info.camera, options.camera ? options.camera : "cusight");
            ASSERT_TRUE(r.all() == events);
            if (n)
                checkPiecesAndSeeks(r, events, random);
        }
    cusEventWriterOptions options = sensor();
    options.format = CUS_EVENTS_AEDAT4;
    options.camera = "a<b";
    CUS_REJECTS(writeM3ed(at / "w", {}, options, 1), VALUE, "camera is \"a<b\"");
    options.camera = nullptr;
    Events late; // times count from 1970
    late.add(int64_t(1700000000) * 1000000, 5, 6, 1);
    CUS_ASSERT_OK(writeM3ed(at / "w", late, options, 1));
    EXPECT_TRUE(Reader(at / "w").all() == late);
    options.width = 32769;
    CUS_REJECTS(writeM3ed(at / "w", {}, options, 1), VALUE, "expected 1..32768 each for AEDAT4");
}

} // namespace
