// External triggers, the second list of a recording: RAW and Metavision's HDF5.
#include "eventio/hdf5_files.hpp"
#include "raw/support.hpp"

using namespace eventio_test;

namespace {

using Trigger = cusEventTrigger;

Trigger triggerAt(int64_t t, int id, int value) {
    Trigger made = {};
    made.t = t;
    made.id = static_cast<int16_t>(id);
    made.value = static_cast<uint8_t>(value);
    return made;
}

bool same(const Trigger &a, const Trigger &b) {
    return a.t == b.t && a.id == b.id && a.value == b.value;
}

// Reads all triggers, n at a time; the last status.
std::vector<Trigger> readAll(cusEventReader *reader, size_t n, cusStatus &status) {
    std::vector<Trigger> all, piece(n);
    size_t count = 0;
    do {
        status = cusEventReaderReadTriggers(reader, n, piece.data(), &count);
        all.insert(all.end(), piece.begin(), piece.begin() + std::ptrdiff_t(count));
    } while (status == CUS_OK && count == n);
    return all;
}

const struct {
    raw_test::Kind kind;
    const char *header;
} RAW[] = {{raw_test::KINDS[0], "% evt 2.0\n% end\n"},
           {raw_test::KINDS[1], "% evt 2.1\n% endianness little\n% end\n"},
           {raw_test::KINDS[2], "% evt 2.1\n% endianness legacy\n% end\n"},
           {raw_test::KINDS[3], "% evt 3.0\n% end\n"},
           {raw_test::KINDS[4], "% evt 4.0\n% end\n"}};

Bytes withHeader(const char *header, const Bytes &stream) {
    Bytes file = reference::bytesOf(header);
    file.insert(file.end(), stream.begin(), stream.end());
    return file;
}

} // namespace

TEST(EventTriggers, RawEqualsTheReference) {
    auto random = support::generator();
    for (const auto &raw : RAW)
        for (const size_t words : {200, 60000}) {
            SCOPED_TRACE(std::string(raw.kind.name) + ", words " + std::to_string(words));
            const Bytes stream = raw_test::randomStream(raw.kind, words, {}, random);
            reference::Raw expected(raw_test::optionsOf(raw.kind, CUS_HOST, CUS_BAD_EVENTS_STOP, 0, 0));
            expected.run(stream);
            Reader r(withHeader(raw.header, stream));
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            cusStatus status = CUS_OK;
            r.all(1000, &status);
            ASSERT_EQ(r.counts().triggers_rising + r.counts().triggers_falling,
                      expected.counts.triggers_rising + expected.counts.triggers_falling);
            for (const size_t n : {1, 7, 100000}) {
                CUS_ASSERT_OK(cusEventReaderRewindTriggers(r.reader));
                const auto got = readAll(r.reader, n, status);
                ASSERT_EQ(status, expected.status) << cusLastError();
                ASSERT_TRUE(std::equal(got.begin(), got.end(), expected.triggers.begin(), expected.triggers.end(), same));
            }
        }
}

// Reading and seeking events does not move the triggers, nor the other way round.
TEST(EventTriggers, AreAListOfTheirOwn) {
    auto random = support::generator();
    Bytes stream = raw_test::randomStream(raw_test::KINDS[3], 30000, {}, random);
    stream.resize(stream.size() & ~size_t(1));
    reference::Raw expected(raw_test::optionsOf(raw_test::KINDS[3], CUS_HOST, CUS_BAD_EVENTS_STOP, 0, 0));
    expected.run(stream);
    Reader r(withHeader(RAW[3].header, stream));
    std::vector<Trigger> got;
    size_t place = 0;
    for (size_t count = 1; count;) {
        Trigger some[37];
        CUS_ASSERT_OK(cusEventReaderReadTriggers(r.reader, 37, some, &count));
        got.insert(got.end(), some, some + count);
        if (random() % 3 == 0) {
            place = random() % expected.events.size();
            CUS_ASSERT_OK(cusEventReaderSeekIndex(r.reader, int64_t(place)));
        }
        const size_t n = std::min<size_t>(random() % 50, expected.events.size() - place);
        ASSERT_EQ(r.read(n), expected.events.part(place, n));
        place += n;
    }
    EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.triggers.begin(), expected.triggers.end(), same));
}

TEST(EventTriggers, DamageComesAfterThoseBeforeIt) {
    for (const auto &raw : RAW) {
        SCOPED_TRACE(raw.kind.name);
        raw_test::Stream s(raw.kind);
        s.time(640);
        s.event(640, 1, 1, 1);
        s.trigger(640, 2, 1);
        const size_t damage = s.bytes.size();
        s.undefined();
        s.trigger(640, 3, 0);
        Reader r(withHeader(raw.header, s.bytes));
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        for (int round = 0; round < 2; ++round) {
            Trigger some[8];
            size_t count = 9;
            const std::string text =
                "cusEventReaderReadTriggers: byte " + std::to_string(damage + std::strlen(raw.header)) + ": word of type";
            CUS_REJECTS(cusEventReaderReadTriggers(r.reader, 8, some, &count), FORMAT, text);
            EXPECT_EQ(count, 1u);
            EXPECT_EQ(some[0].id, 2);
            CUS_REJECTS(cusEventReaderReadTriggers(r.reader, 8, some, &count), FORMAT, text);
            EXPECT_EQ(count, 0u);
            CUS_EXPECT_OK(cusEventReaderRewindTriggers(r.reader));
        }
        cusEventReaderOptions options = cusEventReaderDefaults();
        options.bad_events = CUS_BAD_EVENTS_SKIP;
        s.bytes.push_back(0);
        Reader skips(withHeader(raw.header, s.bytes), options);
        cusStatus status = CUS_OK;
        EXPECT_EQ(readAll(skips.reader, 10, status).size(), 2u);
        CUS_REJECTS(status, TRUNCATED, "cusEventReaderReadTriggers: the file ends at byte ");
    }
}

TEST(EventTriggers, FormatsWithout) {
    auto random = support::generator();
    for (const auto &[name, bytes] : files(randomEvents(1000, random))) {
        Reader r(bytes);
        size_t count = 7;
        Trigger one;
        CUS_EXPECT_OK(cusEventReaderReadTriggers(r.reader, 1, &one, &count));
        EXPECT_EQ(count, 0u) << name;
        CUS_EXPECT_OK(cusEventReaderRewindTriggers(r.reader));
        CUS_EXPECT_OK(cusEventReaderReadTriggers(r.reader, 0, nullptr, &count));
        CUS_REJECTS(cusEventReaderReadTriggers(r.reader, 1, nullptr, &count), NULL,
                    "cusEventReaderReadTriggers: triggers is NULL");
        CUS_REJECTS(cusEventReaderReadTriggers(r.reader, 1, &one, nullptr), NULL,
                    "cusEventReaderReadTriggers: count is NULL");
    }
    size_t count = 0;
    CUS_REJECTS(cusEventReaderReadTriggers(nullptr, 0, nullptr, &count), NULL,
                "cusEventReaderReadTriggers: reader is NULL");
    CUS_REJECTS(cusEventReaderRewindTriggers(nullptr), NULL, "cusEventReaderRewindTriggers: reader is NULL");
}

// Triggers of each format that has them come back, with the events, however the calls are cut.
TEST(EventTriggers, WritersRoundTrip) {
    Folder at;
    auto random = support::generator();
    const struct {
        cusEventFormat format;
        int most_id;
    } formats[] = {{CUS_EVENTS_EVT2, 31}, {CUS_EVENTS_EVT3, 15}, {CUS_EVENTS_METAVISION, 32767}, {CUS_EVENTS_AEDAT4, 0}};
    for (const auto &[format, most_id] : formats)
        for (const size_t n : {0, 1, 3000}) {
            SCOPED_TRACE(cusEventFormatName(format));
            const Events events = randomEvents(n, random, int64_t(random() % 30000000));
            std::vector<Trigger> triggers;
            int64_t t = events.size() ? std::max<int64_t>(events.t[0] - 5000, 0) : 7;
            for (size_t i = 0; i < 1300; ++i) {
                t += int64_t(random() % (n + 20)) * int64_t(random() % 3);
                triggers.push_back(triggerAt(t, int(random() % size_t(most_id + 1)), int(random() & 1)));
            }
            cusEventWriterOptions options = sensor();
            options.format = format;
            options.compress = format == CUS_EVENTS_AEDAT4 ? 0 : 1;
            cusEventWriter *writer = nullptr;
            CUS_ASSERT_OK(cusEventWriterCreate(&writer, (at / "w").c_str(), &options));
            for (size_t i = 0, k = 0; i < n || k < triggers.size();) {
                const size_t events_here = std::min<size_t>(1 + random() % 700, n - i);
                const int64_t last = events_here ? events.t[i + events_here - 1] : INT64_MAX;
                for (size_t some = 1; k < triggers.size() && (some == 0 || triggers[k].t <= last); k += some) {
                    some = std::min<size_t>(1 + random() % 5, triggers.size() - k);
                    CUS_ASSERT_OK(cusEventWriterWriteTriggers(writer, some, &triggers[k]));
                }
                if (events_here)
                    CUS_ASSERT_OK(
                        cusEventWriterWrite(writer, events_here, &events.x[i], &events.y[i], &events.p[i], &events.t[i]));
                i += events_here;
            }
            CUS_ASSERT_OK(cusEventWriterFinish(writer));
            cusEventReaderOptions read = cusEventReaderDefaults();
            read.format = CUS_EVENTS_ANY;
            Reader r(at / "w", read);
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            if (n)
                EXPECT_TRUE(r.all() == events);
            cusStatus status = CUS_OK;
            const auto got = readAll(r.reader, 100, status);
            ASSERT_EQ(status, CUS_OK) << cusLastError();
            ASSERT_TRUE(std::equal(got.begin(), got.end(), triggers.begin(), triggers.end(), same)) << got.size();
        }
}

TEST(EventTriggers, WritersReject) {
    Folder at;
    cusEventWriterOptions options = sensor();
    options.format = CUS_EVENTS_EVT3;
    cusEventWriter *writer = nullptr;
    CUS_ASSERT_OK(cusEventWriterCreate(&writer, (at / "w").c_str(), &options));
    const uint16_t place = 3;
    const uint8_t p = 1;
    const int64_t t = 50;
    const auto write = [&](int64_t time, int id, int value) {
        const Trigger trigger = triggerAt(time, id, value);
        return cusEventWriterWriteTriggers(writer, 1, &trigger);
    };
    CUS_ASSERT_OK(cusEventWriterWrite(writer, 1, &place, &place, &p, &t));
    CUS_REJECTS(write(49, 0, 1), VALUE, "cusEventWriterWriteTriggers: trigger 0 has time 49 us, expected 50..");
    CUS_ASSERT_OK(write(60, 15, 1));
    CUS_REJECTS(write(59, 0, 1), VALUE, "trigger 0 has time 59 us, expected 60..");
    CUS_REJECTS(write(60, 16, 1), VALUE, "trigger 0 has id 16, expected 0..15");
    CUS_REJECTS(write(60, -1, 1), VALUE, "trigger 0 has id -1, expected 0..15");
    CUS_REJECTS(write(INT64_MAX, 0, 1), VALUE, "has time 9223372036854775807 us");
    CUS_REJECTS(cusEventWriterWriteTriggers(writer, 1, nullptr), NULL, "cusEventWriterWriteTriggers: triggers is NULL");
    CUS_REJECTS(cusEventWriterWriteTriggers(nullptr, 0, nullptr), NULL, "cusEventWriterWriteTriggers: writer is NULL");
    CUS_ASSERT_OK(cusEventWriterFinish(writer));
    Reader r(at / "w");
    cusStatus status = CUS_OK;
    EXPECT_EQ(readAll(r.reader, 10, status).size(), 1u);
    for (const cusEventFormat format : {CUS_EVENTS_M3ED, CUS_EVENTS_DAT, CUS_EVENTS_TEXT}) {
        options.format = format;
        CUS_ASSERT_OK(cusEventWriterCreate(&writer, (at / "w").c_str(), &options));
        CUS_REJECTS(write(60, 0, 1), UNSUPPORTED,
                    std::string("cusEventWriterWriteTriggers: format is ") + cusEventFormatName(format));
        cusEventWriterDiscard(writer);
    }
    options.format = CUS_EVENTS_METAVISION;
    CUS_ASSERT_OK(cusEventWriterCreate(&writer, (at / "w").c_str(), &options));
    CUS_ASSERT_OK(write(0, 0, 1));
    CUS_ASSERT_OK(write(int64_t(1) << 40, 0, 1));
    CUS_REJECTS(cusEventWriterFinish(writer), VALUE, "a trigger has time 1099511627776 us, too long after the first");
}

// The triggers in the files of the vendor's encoder.
TEST(EventTriggers, FilesOfTheVendor) {
    const std::string path = support::dataFile("ecf/metavision_ecf_640x480.h5");
    if (path.empty())
        GTEST_SKIP() << "the file is not in the folder CUSIGHT_TEST_DATA";
    Reader r(path);
    cusStatus status = CUS_OK;
    const auto got = readAll(r.reader, 10, status);
    EXPECT_EQ(status, CUS_OK) << cusLastError();
    EXPECT_EQ(got.size(), 2u);
}

#ifdef CUSIGHT_HAVE_HDF5

namespace {

// A Metavision file of one event, with triggers of this type.
void writeTriggers(const std::string &path, hid_t type, const void *rows, hsize_t n, size_t chunk = 0) {
    const hid_t file = createHdf5(path), event = H5Tcreate(H5T_COMPOUND, 16);
    H5Tinsert(event, "x", 0, H5T_STD_U16LE);
    H5Tinsert(event, "y", 2, H5T_STD_U16LE);
    H5Tinsert(event, "p", 4, H5T_STD_I16LE);
    H5Tinsert(event, "t", 8, H5T_STD_I64LE);
    const uint8_t row[16] = {1, 0, 2, 0, 1, 0, 0, 0, 9};
    const auto add = [&](const char *name, hid_t of, const void *data, hsize_t count, size_t rows_of_chunk) {
        const hsize_t most = rows_of_chunk ? H5S_UNLIMITED : count;
        const hid_t group = H5Gcreate2(file, name, NO, NO, NO), space = H5Screate_simple(1, &count, &most);
        const hid_t properties = rows_of_chunk ? withLayout(H5D_CHUNKED, rows_of_chunk) : contiguous();
        if (rows_of_chunk)
            H5Pset_deflate(properties, 4);
        const hid_t set = H5Dcreate2(group, "events", of, space, NO, properties, NO);
        H5Dwrite(set, of, H5S_ALL, H5S_ALL, NO, data);
        H5Dclose(set), H5Pclose(properties), H5Sclose(space), H5Gclose(group);
    };
    add("CD", event, row, 1, 0);
    add("EXT_TRIGGER", type, rows, n, chunk);
    H5Tclose(event);
    H5Fclose(file);
}

struct Row {
    int16_t p;
    int64_t t;
    int16_t id;
};

hid_t rowType() {
    const hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(Row));
    H5Tinsert(type, "p", offsetof(Row, p), H5T_STD_I16LE);
    H5Tinsert(type, "t", offsetof(Row, t), H5T_STD_I64LE);
    H5Tinsert(type, "id", offsetof(Row, id), H5T_STD_I16LE);
    return type;
}

} // namespace

TEST(EventTriggers, MetavisionOfEveryStorage) {
    Folder at;
    auto random = support::generator();
    for (const size_t n : {1, 5000})
        for (const size_t chunk : {0, 100, 1024, 7000}) {
            std::vector<Row> rows(n);
            for (size_t i = 0; i < n; ++i) {
                rows[i].p = int16_t(random() % 2);
                rows[i].t = int64_t(random() % 1000000); // in any order
                rows[i].id = int16_t(random() % 7);
            }
            const hid_t type = rowType();
            writeTriggers(at / "r.h5", type, rows.data(), n, chunk);
            H5Tclose(type);
            Reader r(at / "r.h5");
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            for (const size_t piece : {3, 100000}) {
                CUS_ASSERT_OK(cusEventReaderRewindTriggers(r.reader));
                cusStatus status = CUS_OK;
                const auto got = readAll(r.reader, piece, status);
                ASSERT_EQ(status, CUS_OK) << cusLastError();
                ASSERT_EQ(got.size(), n);
                for (size_t i = 0; i < n; ++i)
                    ASSERT_TRUE(got[i].t == rows[i].t && got[i].id == rows[i].id && got[i].value == rows[i].p) << i;
                EXPECT_EQ(r.read(1).size(), 1u);
                CUS_ASSERT_OK(cusEventReaderSeekIndex(r.reader, 0));
            }
        }
}

TEST(EventTriggers, MetavisionOfOtherTypes) {
    Folder at;
    const hid_t type = H5Tcreate(H5T_COMPOUND, 16);
    H5Tinsert(type, "p", 0, H5T_STD_I16LE);
    H5Tinsert(type, "t", 8, H5T_STD_I64LE);
    const uint8_t row[16] = {};
    writeTriggers(at / "r.h5", type, row, 1);
    H5Tclose(type);
    Reader r(at / "r.h5");
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    Trigger one;
    size_t count = 0;
    for (int round = 0; round < 2; ++round)
        CUS_REJECTS(cusEventReaderReadTriggers(r.reader, 1, &one, &count), FORMAT,
                    "cusEventReaderReadTriggers: dataset /EXT_TRIGGER/events has no member id");
    EXPECT_EQ(r.read(1).size(), 1u); // events are as they were
    Row rows[3] = {{1, 5, 0}, {0, -5, 1}, {1, 7, 0}};
    const hid_t good = rowType();
    writeTriggers(at / "s.h5", good, rows, 3);
    H5Tclose(good);
    Reader s(at / "s.h5");
    Trigger some[3];
    CUS_REJECTS(cusEventReaderReadTriggers(s.reader, 3, some, &count), FORMAT,
                "cusEventReaderReadTriggers: t of event 1 is out of range");
    EXPECT_EQ(count, 1u);
}

#endif
