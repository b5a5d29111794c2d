// Columns compressed by LZF, as h5py writes M3ED: their chunks are for a decoder elsewhere, too.
#include "eventio/hdf5_files.hpp"

#include "eventio/hdf5/codec.h"
#include "reference/lzf.hpp"

#ifdef CUSIGHT_HAVE_HDF5

using namespace eventio_test;
using reference::Columns;
using reference::StoredColumns;

namespace {

enum class Layout { M3ED, DSEC, E2VID };

// How a recording is stored. The columns are x, y, p and t.
struct Stored {
    Columns how; // offset: the file's t_offset; plain: of the chunk that begins at plain_at
    Layout layout = Layout::DSEC;
    size_t plain_at = SIZE_MAX;
    hsize_t chunk[4] = {100, 100, 100, 100};
    size_t more[4] = {}; // rows after the events
    hid_t type[4] = {};  // 0: as `how` says
    std::vector<int> filters = {EVENTIO_FILTER_LZF};
    std::vector<hsize_t> never_written[4]; // the first rows of chunks
    bool any_plain = false;                // any column of any chunk may be without compression
};

Stored inChunks(hsize_t chunk) {
    Stored s;
    std::fill(std::begin(s.chunk), std::end(s.chunk), chunk);
    return s;
}

hid_t storedType(const Stored &s, size_t k) {
    if (s.type[k])
        return s.type[k];
    if (k < 2)
        return H5T_STD_U16LE;
    if (k == 2)
        return s.how.signed_p ? H5T_STD_I8LE : H5T_STD_U8LE;
    return s.how.short_t ? (s.how.signed_t ? H5T_STD_I32LE : H5T_STD_U32LE)
                         : (s.how.signed_t ? H5T_STD_I64LE : H5T_STD_U64LE);
}

// Rows after the last event have anything in them, as what HDF5 leaves in a dataset that was made smaller.
void writeColumn(hid_t group, const char *name, const Events &e, const Stored &s, size_t k, std::mt19937_64 &random) {
    const hid_t how = withLayout(H5D_CHUNKED, s.chunk[k]), type = storedType(s, k);
    for (const int filter : s.filters)
        H5Pset_filter(how, filter, H5Z_FLAG_OPTIONAL, 0, nullptr);
    const hsize_t n = e.size() + s.more[k], most = H5S_UNLIMITED;
    const hid_t space = H5Screate_simple(1, &n, &most), set = H5Dcreate2(group, name, type, space, NO, how, NO);
    for (hsize_t first = 0; first < n; first += s.chunk[k]) {
        const auto &holes = s.never_written[k];
        if (std::find(holes.begin(), holes.end(), first) != holes.end())
            continue;
        const size_t left = first < e.size() ? e.size() - size_t(first) : 0;
        Events part = e.part(std::min<size_t>(first, e.size()), std::min<size_t>(s.chunk[k], left));
        reference::appendGarbage(part, s.chunk[k] - part.size(), random);
        Columns stored = s.how;
        stored.plain = s.any_plain ? unsigned(random() % 16) : first == s.plain_at ? s.how.plain : 0;
        writeChunk(set, first, stored.plain >> k & 1, storedColumns(part, stored, random).columns[k]);
    }
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(how);
}

void writeColumns(const std::string &path, const Events &e, const Stored &s, std::mt19937_64 &random) {
    const hid_t file = createHdf5(path, random() % 2 ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST);
    const bool m3ed = s.layout == Layout::M3ED;
    const hid_t top = H5Gcreate2(file, m3ed ? "prophesee" : "events", NO, NO, NO);
    const hid_t group = m3ed ? H5Gcreate2(top, "left", NO, NO, NO) : top;
    const char *const names[2][4] = {{"x", "y", "p", "t"}, {"xs", "ys", "ps", "ts"}};
    for (size_t k = 0; k < 4; ++k)
        writeColumn(group, names[s.layout == Layout::E2VID][k], e, s, k, random);
    if (s.how.offset) {
        const hid_t space = H5Screate(H5S_SCALAR),
                    set = H5Dcreate2(file, "t_offset", H5T_STD_I64LE, space, NO, contiguous(), NO);
        H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, NO, &s.how.offset);
        H5Dclose(set);
        H5Sclose(space);
    }
    if (m3ed)
        H5Gclose(group);
    H5Gclose(top);
    H5Fclose(file);
}

Events ofColumns(cusEventReader *reader, std::mt19937_64 &random, size_t most, cusStatus *status, uint64_t *first = nullptr,
                 cusEventCounts *counts = nullptr, std::string *message = nullptr) {
    return ofChunks(reader, CUS_EVENTS_HDF5, random, most, status, first, counts, message);
}

// The reader's events, and those that the reference makes of the bytes.
void checkBoth(const std::string &path, const Events &e, std::mt19937_64 &random, const std::string &what) {
    Reader r(path);
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    ASSERT_EQ(r.all(777), e) << what;
    for (const size_t most : {3000, 4 << 20}) {
        cusStatus status = CUS_OK;
        ASSERT_EQ(ofColumns(r.reader, random, most, &status), e) << what;
        CUS_EXPECT_OK(status);
    }
}

// The offset at which the times are stored as numbers of such a type can be, the lowest or the highest ones.
uint64_t offsetFor(const Columns &how, const Events &e) {
    const uint64_t first = uint64_t(e.t.front()), last = uint64_t(e.t.back());
    if (how.signed_t)
        return last + 1; // all are negative
    return how.short_t ? first : first - (uint64_t{1} << 61);
}

TEST(EventHdf5Lzf, ChunksAreForADecoder) {
    Folder at;
    auto random = support::generator();
    for (unsigned kind = 0; kind < 32; ++kind) {
        Stored s = inChunks(kind % 3 ? 100 : 16384);
        s.how.short_t = kind & 1, s.how.signed_t = kind & 2, s.how.signed_p = kind & 4;
        s.how.loose = random() % 2;
        s.any_plain = kind & 16;
        const bool offset = kind & 8;
        s.layout = offset ? Layout::DSEC : Layout(random() % 3);
        const size_t n = kind % 3 ? (kind % 3 == 1 ? 30001 : 1 + random() % 300) : 40000; // more than one frame, and one
        const Events e = randomEvents(n, random, offset ? 5000000000 : 0);
        s.how.offset = offset ? offsetFor(s.how, e) : 0;
        writeColumns(at / "r.h5", e, s, random);
        checkBoth(at / "r.h5", e, random, "kind " + std::to_string(kind));
    }
}

// The longest chunks that a frame may have.
TEST(EventHdf5Lzf, LongestChunks) {
    Folder at;
    auto random = support::generator();
    const Events e = randomEvents(70000, random);
    writeColumns(at / "r.h5", e, inChunks(65535), random);
    checkBoth(at / "r.h5", e, random, "");
    writeColumns(at / "r.h5", e, inChunks(65536), random);
    Reader r(at / "r.h5");
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    cusStatus status = CUS_OK;
    ofColumns(r.reader, random, 3000, &status);
    CUS_REJECTS(status, UNSUPPORTED, "cusEventReaderDecoder: the file is DSEC, expected EVT2");
}

// One event over and over compresses best.
TEST(EventHdf5Lzf, ShortestChunks) {
    Folder at;
    auto random = support::generator();
    Events e;
    for (int i = 0; i < 65535; ++i)
        e.add(7, 0, 0, 0);
    Stored s = inChunks(65535);
    s.how.short_t = true;
    writeColumns(at / "r.h5", e, s, random);
    checkBoth(at / "r.h5", e, random, "");
}

// What h5py makes of bool.
TEST(EventHdf5Lzf, PolarityAsBoolean) {
    Folder at;
    auto random = support::generator();
    const Events e = randomEvents(1000, random);
    Stored s;
    s.layout = Layout::E2VID;
    const hid_t truth = H5Tenum_create(H5T_NATIVE_INT8);
    const int8_t no = 0, yes = 1;
    H5Tenum_insert(truth, "FALSE", &no);
    H5Tenum_insert(truth, "TRUE", &yes);
    s.type[2] = truth;
    writeColumns(at / "r.h5", e, s, random);
    H5Tclose(truth);
    checkBoth(at / "r.h5", e, random, "");
}

// HDF5 leaves the filter out where it would not make a chunk smaller.
TEST(EventHdf5Lzf, ColumnsWithoutCompression) {
    Folder at;
    auto random = support::generator();
    const Events e = randomEvents(350, random);
    for (const size_t first : {100, 300})
        for (const unsigned plain : {1, 2, 4, 8, 15}) {
            Stored s;
            s.plain_at = first;
            s.how.plain = plain;
            writeColumns(at / "r.h5", e, s, random);
            checkBoth(at / "r.h5", e, random, std::to_string(first) + ", " + std::to_string(plain));
        }
}

// From marks, which may be within chunks.
TEST(EventHdf5Lzf, FromMarks) {
    Folder at;
    auto random = support::generator();
    const Events e = randomEvents(5000, random, 1000000);
    Stored s = inChunks(300);
    s.how.short_t = true;
    s.how.offset = 500000;
    writeColumns(at / "r.h5", e, s, random);
    Reader r(at / "r.h5");
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    constexpr uint64_t PARTS = 7;
    std::vector<cusEventPart> parts(PARTS);
    std::vector<cusEventMark> marks(PARTS + 1);
    for (uint64_t k = 0; k < PARTS; ++k)
        CUS_ASSERT_OK(cusEventReaderScan(r.reader, k, PARTS, &parts[k]));
    CUS_ASSERT_OK(cusEventReaderMarks(r.reader, parts.data(), PARTS, marks.data()));
    size_t within = 0;
    for (const cusEventMark &mark : marks) {
        within += mark.index % 300 != 0;
        cusStatus status = CUS_OK;
        uint64_t first = 1;
        CUS_ASSERT_OK(cusEventReaderSeekMark(r.reader, &mark));
        Events got = ofColumns(r.reader, random, 2000, &status, &first);
        CUS_EXPECT_OK(status);
        EXPECT_EQ(first, mark.index);
        ASSERT_EQ(got, e.part(mark.index, e.size() - mark.index));
        CUS_ASSERT_OK(cusEventReaderSeekIndex(r.reader, 17)); // not a mark: from the beginning
        got = ofColumns(r.reader, random, 2000, &status, &first);
        EXPECT_EQ(first, 0u);
        ASSERT_EQ(got, e);
    }
    EXPECT_GT(within, 3u);
}

// What a frame cannot say stays with the reader.
TEST(EventHdf5Lzf, OtherColumnsAreForTheReader) {
    Folder at;
    auto random = support::generator();
    const auto refused = [&](const Events &e, const Stored &s, const std::string &what, cusStatus expected = CUS_OK) {
        writeColumns(at / "r.h5", e, s, random);
        Reader r(at / "r.h5");
        ASSERT_EQ(r.opened, CUS_OK) << what << ": " << cusLastError();
        cusStatus status = CUS_OK;
        EXPECT_EQ(ofColumns(r.reader, random, 3000, &status).size(), 0u) << what;
        EXPECT_EQ(status, CUS_ERROR_UNSUPPORTED) << what;
        EXPECT_NE(std::string(cusLastError()).find("HDF5 with columns x, y, p and t in equal chunks compressed by LZF"),
                  std::string::npos)
            << what << ": " << cusLastError();
        EXPECT_TRUE(r.all(1001, &status) == e) << what;
        EXPECT_EQ(status, expected) << what;
    };
    const Events e = randomEvents(1000, random), none;
    for (const Events &some : {e, none}) {
        writeColumns(at / "r.h5", some, {}, random);
        checkBoth(at / "r.h5", some, random, "as frames can say it");
    }
    for (size_t k = 0; k < 4; ++k) {
        Stored s;
        s.chunk[k] = 200;
        refused(e, s, "chunks of other lengths");
        s = {};
        s.more[k] = 1;
        refused(e, s, "columns of other lengths", CUS_ERROR_TRUNCATED);
    }
    for (const std::vector<int> &filters : {std::vector<int>{},
                                            {H5Z_FILTER_SHUFFLE},
                                            {H5Z_FILTER_SHUFFLE, EVENTIO_FILTER_LZF},
                                            {EVENTIO_FILTER_LZF, H5Z_FILTER_FLETCHER32}}) {
        Stored s;
        s.filters = filters;
        refused(none, s, "other filters");
    }
    const std::pair<size_t, hid_t> others[] = {
        {0, H5T_STD_I16LE}, {0, H5T_STD_U16BE},  {0, H5T_STD_U32LE}, {1, H5T_STD_I16LE}, {1, H5T_STD_U16BE},
        {1, H5T_STD_U8LE},  {2, H5T_STD_U16LE},  {2, H5T_STD_I32LE}, {3, H5T_STD_I64BE}, {3, H5T_STD_U32BE},
        {3, H5T_STD_U16LE}, {3, H5T_IEEE_F64LE}, {3, H5T_IEEE_F32LE}};
    for (const auto &[k, type] : others) {
        Stored s;
        s.type[k] = type;
        refused(none, s, "another type of column " + std::to_string(k));
    }
}

// The reader and the decoder skip and count the same.
TEST(EventHdf5Lzf, BadEvents) {
    Folder at;
    auto random = support::generator();
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.bad_events = CUS_BAD_EVENTS_SKIP;
    Events e = randomEvents(3000, random);
    uint64_t kind = 0; // each in turn
    for (size_t i = 10; i < e.size(); i += 1 + random() % 90) {
        const uint64_t r = random() / 4 * 4 + kind++ % 4;
        if (r % 4 == 0)
            e.x[i] = uint16_t(640 + r % 100);
        else if (r % 4 == 1)
            e.y[i] = 65535;
        else if (r % 4 == 2)
            e.p[i] = uint8_t(2 + r / 4 % 254);
        else
            e.t[i] = 0;
    }
    for (const bool sign : {false, true}) {
        Stored s;
        s.how.signed_p = sign;
        writeColumns(at / "r.h5", e, s, random);
        Reader r(at / "r.h5", options);
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        const Events good = r.all(500);
        const cusEventCounts by_reader = r.counts();
        cusEventCounts by_decoder = {};
        cusStatus status = CUS_OK;
        ASSERT_EQ(ofColumns(r.reader, random, 3000, &status, nullptr, &by_decoder), good);
        CUS_EXPECT_OK(status);
        EXPECT_EQ(by_decoder.events, by_reader.events);
        EXPECT_EQ(by_decoder.bad_coordinates, by_reader.bad_coordinates);
        EXPECT_EQ(by_decoder.bad_polarity, by_reader.bad_polarity);
        EXPECT_EQ(by_decoder.bad_time, by_reader.bad_time);
        EXPECT_GT(by_reader.bad_coordinates, 0u);
        EXPECT_GT(by_reader.bad_polarity, 0u);
        EXPECT_GT(by_reader.bad_time, 0u);
    }
    options.bad_events = CUS_BAD_EVENTS_STOP;
    Reader r(at / "r.h5", options);
    cusStatus status = CUS_OK;
    const Events good = r.all(500, &status);
    EXPECT_EQ(status, CUS_ERROR_FORMAT);
    std::string message;
    EXPECT_EQ(ofColumns(r.reader, random, 3000, &status, nullptr, nullptr, &message), good);
    EXPECT_EQ(status, CUS_ERROR_FORMAT);
    EXPECT_EQ(message.find("event " + std::to_string(good.size()) + " "), 0u) << message;
}

// A time that no event can have; the chunks before it are delivered.
TEST(EventHdf5Lzf, TimesOutOfRange) {
    Folder at;
    auto random = support::generator();
    const Events e = randomEvents(350, random, 1000);
    for (const bool sign : {false, true})
        for (const uint64_t bad : {uint64_t{1} << 62, uint64_t{1} << 63, ~uint64_t{0}}) {
            Stored s;
            s.how.signed_t = sign;
            s.how.offset = 500;
            Events damaged = e;
            damaged.t[299] = int64_t(bad + 500); // is stored as `bad`
            writeColumns(at / "r.h5", damaged, s, random);
            Reader r(at / "r.h5");
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            cusStatus status = CUS_OK;
            const Events read = r.all(1000, &status);
            const bool negative = sign && bad == ~uint64_t{0}; // 499, which is only too early
            EXPECT_EQ(read, e.part(0, 299)) << sign << bad;
            EXPECT_EQ(status, CUS_ERROR_FORMAT);
            EXPECT_EQ(ofColumns(r.reader, random, 3000, &status), e.part(0, negative ? 299 : 200)) << sign << bad;
            EXPECT_EQ(status, CUS_ERROR_FORMAT);
        }
    Stored s; // times of 32 bits, which the offset leaves negative
    s.how.short_t = s.how.signed_t = true;
    s.how.offset = 500;
    Events damaged = e;
    damaged.t[299] = -1;
    writeColumns(at / "r.h5", damaged, s, random);
    Reader r(at / "r.h5");
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    cusStatus status = CUS_OK;
    EXPECT_EQ(r.all(1000, &status), e.part(0, 299));
    EXPECT_EQ(status, CUS_ERROR_FORMAT);
    EXPECT_EQ(ofColumns(r.reader, random, 3000, &status), e.part(0, 200));
    EXPECT_EQ(status, CUS_ERROR_FORMAT);
}

// What is damaged comes after the chunks before it, and is what the reader finds.
TEST(EventHdf5Lzf, DamagedChunks) {
    Folder at;
    auto random = support::generator();
    const Events e = randomEvents(350, random);
    const char *const names[] = {"x", "y", "p", "t"};
    for (size_t k = 0; k < 4; ++k) {
        const size_t whole = size_t(k < 2 ? 200 : k == 2 ? 100 : 800);
        const std::string start =
            std::string("cusEventReaderReadBytes: the chunk of ") + names[k] + " that starts at event 200 ";
        const auto check = [&](cusStatus expected, const std::string &message) {
            Reader r(at / "r.h5");
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            cusStatus status = CUS_OK;
            EXPECT_EQ(r.all(1000, &status), e.part(0, 200)) << message;
            EXPECT_EQ(status, expected) << message;
            std::string found;
            EXPECT_EQ(ofColumns(r.reader, random, 3000, &status, nullptr, nullptr, &found), e.part(0, 200)) << message;
            EXPECT_EQ(status, expected) << message;
            EXPECT_EQ((found.empty() ? cusLastError() : found).find(message), 0u)
                << cusLastError() << found << ", not " << message;
        };
        const auto damaged = [&](const Bytes &bytes, bool plain, const std::string &message) {
            writeColumns(at / "r.h5", e, {}, random);
            overwriteChunk(at / "r.h5", (std::string("/events/") + names[k]).c_str(), 200, plain, bytes);
            check(CUS_ERROR_FORMAT, message);
        };
        if (whole >= 2 * 88)
            damaged(Bytes(whole / 88 - 1), false, start + "is damaged");
        damaged(Bytes(whole - 1), true, start + "is damaged");
        damaged(Bytes(whole + 1), true, start + "is damaged");
        damaged(Bytes(whole + whole / 8 + 4097), false, start + "claims ");
        damaged(Bytes(whole, 0xff), false, "byte "); // no LZF

        Stored s;
        s.never_written[k] = {200};
        writeColumns(at / "r.h5", e, s, random);
        check(CUS_ERROR_TRUNCATED,
              std::string("cusEventReaderReadBytes: ") + names[k] + " is written only up to event 200 of 350");
    }

    writeColumns(at / "r.h5", e, {}, random); // the file ends early
    const Bytes whole = load(at / "r.h5");
    int cut = 0;
    for (size_t n = 1; n < 2500; n += 37) {
        save(at / "c.h5", Bytes(whole.begin(), whole.end() - long(n)));
        Reader r(at / "c.h5");
        if (r.opened != CUS_OK)
            continue;
        cusStatus by_events = CUS_OK, by_bytes = CUS_OK;
        const Events good = r.all(1000, &by_events);
        EXPECT_EQ(ofColumns(r.reader, random, 3000, &by_bytes), good) << n;
        EXPECT_EQ(by_bytes, by_events) << n;
        cut += by_bytes == CUS_ERROR_TRUNCATED;
    }
    EXPECT_GT(cut, 0);
}

} // namespace

#endif
