// Metavision's HDF5: its codec against an encoder of every variant, its files against their vendor's.
#include "eventio/hdf5_files.hpp"

#include "eventio/hdf5/codec.h"
#include "cusight/live.h"
#include "reference/ecf.hpp"

using namespace eventio_test;
using reference::append;
using reference::ecfEvents;
using reference::encodeEcf;
using reference::looseEcf;
using reference::Packing;

namespace {

constexpr const char *EVENTS = "/CD/events";

Events decoded(const Bytes &rows, size_t n) {
    Events e;
    for (size_t i = 0; i < n; ++i) {
        uint16_t x, y, p;
        int64_t t;
        std::memcpy(&x, &rows[16 * i], 2), std::memcpy(&y, &rows[16 * i + 2], 2), std::memcpy(&p, &rows[16 * i + 4], 2);
        std::memcpy(&t, &rows[16 * i + 8], 8);
        e.add(t, x, y, p);
    }
    return e;
}

// ---- The codec ----

TEST(EventMetavision, EveryVariantOfTheCodec) {
    auto random = support::generator();
    for (int round = 0; round < 3000; ++round) {
        const size_t n = round % 100 == 99 ? random() % 65536 : random() % 300, room = n + random() % 3;
        const Events e = ecfEvents(n, random);
        const Packing packing = Packing(round % 3);
        const Bytes in = encodeEcf(e, packing, random, round / 3 % 2);
        Bytes out(16 * room);
        ASSERT_TRUE(eventio_ecfDecode(in.data(), in.size(), out.data(), out.size())) << round;
        ASSERT_EQ(decoded(out, n), e) << round;
        for (size_t i = n; i < room; ++i)
            ASSERT_EQ(decoded(out, room).t[i], -1);
        // Cut anywhere and damaged anywhere: no access outside, and less is never success. (Every field is read.)
        const Bytes cut(in.begin(), in.begin() + long(random() % in.size()));
        Bytes rows(16 * n); // of the exact size, for AddressSanitizer
        ASSERT_FALSE(n && eventio_ecfDecode(cut.data(), cut.size(), rows.data(), rows.size())) << round;
        Bytes bad = in;
        bad[random() % bad.size()] = uint8_t(random());
        (void)eventio_ecfDecode(bad.data(), bad.size(), rows.data(), rows.size());
        if (n)
            ASSERT_FALSE(eventio_ecfDecode(in.data(), in.size(), rows.data(), rows.size() - 16)) << "more events than room";
    }
}

// Chunks of any bytes: the reference's events, or the reference's refusal.
TEST(EventMetavision, AnyChunkIsWhatTheReferenceMakesOfIt) {
    auto random = support::generator();
    int good = 0, bad = 0;
    for (int round = 0; round < 20000 / support::fewer() || good < 100 || bad < 100; ++round) {
        const size_t n = random() % 300;
        int64_t t = int64_t(random() % 1000);
        Bytes chunk = round % 3 == 0 ? looseEcf(n, random, 1280, 720, t)
                                     : encodeEcf(ecfEvents(n, random), Packing(round % 3), random, random() % 2);
        if (random() % 5 == 0) // an encoder's padding
            chunk.resize(chunk.size() + random() % 20);
        for (size_t k = random() % 3; k--;)
            chunk[random() % chunk.size()] = uint8_t(random() % 3 ? random() : 0xff);
        const size_t count = (size_t(chunk[0]) | size_t(chunk[1]) << 8 | size_t(chunk[2]) << 16) >> 2;
        if (chunk[3] || count > 70000)
            continue;
        Events expected, got;
        got.x.resize(count), got.y.resize(count), got.p.resize(count), got.t.resize(count);
        const bool right = reference::EcfChunk(chunk).run(expected);
        ++(right ? good : bad);
        ASSERT_EQ(eventio_ecfDecodeColumns(chunk.data(), chunk.size(), count, reinterpret_cast<uint8_t *>(got.x.data()),
                                           reinterpret_cast<uint8_t *>(got.y.data()), got.p.data(),
                                           reinterpret_cast<uint8_t *>(got.t.data())),
                  int(right))
            << round;
        if (right)
            ASSERT_TRUE(got == expected) << round;
    }
}

// A step in time of more digits than 64 bits have.
TEST(EventMetavision, EndlessStep) {
    Bytes in;
    append(in, 1 << 2 | 2, 4);
    append(in, 0, 8);
    in.insert(in.end(), 17, 0xff);
    in.insert(in.end(), 100, 0x01);
    uint8_t row[16];
    EXPECT_FALSE(eventio_ecfDecode(in.data(), in.size(), row, sizeof row));
    in[28] = 0x01; // 16 digits: -1
    EXPECT_TRUE(eventio_ecfDecode(in.data(), in.size(), row, sizeof row));
}

// ---- Files ----

uint32_t checksumOf(const Events &e) {
    uint32_t sum = cusCrc32c(0, e.x.data(), 2 * e.size());
    sum = cusCrc32c(sum, e.y.data(), 2 * e.size());
    sum = cusCrc32c(sum, e.p.data(), e.size());
    return cusCrc32c(sum, e.t.data(), 8 * e.size());
}

// Two files of the vendor's encoder.
TEST(EventMetavision, FilesOfTheVendor) {
    if (support::dataFile("ecf/metavision_ecf_640x480.h5").empty())
        GTEST_SKIP() << "the files are not in the folder CUSIGHT_TEST_DATA";
    auto random = support::generator();
    const struct {
        const char *name;
        int width, height;
        size_t count;
        uint32_t checksum;
    } files[] = {{"metavision_ecf_640x480.h5", 640, 480, 60000, 0x658956ec},
                 {"metavision_ecf_rows_1280x720.h5", 1280, 720, 40000, 0x0073eda2}};
    for (const auto &f : files) {
        Reader r(support::dataFile(std::string("ecf/") + f.name));
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        EXPECT_EQ(r.info.format, CUS_EVENTS_METAVISION);
        EXPECT_STREQ(cusEventFormatName(r.info.format), "Metavision");
        EXPECT_EQ(r.info.width, f.width);
        EXPECT_EQ(r.info.height, f.height);
        EXPECT_EQ(r.info.count, int64_t(f.count));
        const Events e = r.all();
        EXPECT_EQ(e.size(), f.count);
        EXPECT_EQ(checksumOf(e), f.checksum) << f.name;
        checkPiecesAndSeeks(r, e, random);
    }
}

#ifdef CUSIGHT_HAVE_HDF5

hid_t eventType() {
    const hid_t type = H5Tcreate(H5T_COMPOUND, 16);
    H5Tinsert(type, "x", 0, H5T_STD_U16LE);
    H5Tinsert(type, "y", 2, H5T_STD_U16LE);
    H5Tinsert(type, "p", 4, H5T_STD_I16LE);
    H5Tinsert(type, "t", 8, H5T_STD_I64LE);
    return type;
}

Bytes rowsOf(const Events &e) {
    Bytes rows;
    for (size_t i = 0; i < e.size(); ++i) {
        append(rows, e.x[i], 2), append(rows, e.y[i], 2), append(rows, e.p[i], 2), append(rows, 0, 2);
        append(rows, uint64_t(e.t[i]), 8);
    }
    return rows;
}

enum class Store { CONTIGUOUS, CHUNKS, DEFLATE, ECF };

void writeMetavision(const std::string &path, const Events &e, Store how, size_t chunk, std::mt19937_64 &random) {
    const hid_t file = createHdf5(path), group = H5Gcreate2(file, "CD", NO, NO, NO), type = eventType();
    const hid_t text = H5Tcopy(H5T_C_S1), scalar = H5Screate(H5S_SCALAR);
    const char *geometry = "1280x720";
    const bool variable = random() % 2; // as text of any length, or of one
    H5Tset_size(text, variable ? H5T_VARIABLE : 9);
    const hid_t attribute = H5Acreate2(file, "geometry", text, scalar, NO, NO);
    H5Awrite(attribute, text, variable ? static_cast<const void *>(&geometry) : geometry);
    H5Aclose(attribute);
    H5Sclose(scalar);
    H5Tclose(text);
    const hid_t properties = how == Store::CONTIGUOUS ? contiguous() : withLayout(H5D_CHUNKED, chunk);
    if (how == Store::DEFLATE)
        H5Pset_deflate(properties, 4);
    if (how == Store::ECF)
        H5Pset_filter(properties, EVENTIO_FILTER_ECF, H5Z_FLAG_OPTIONAL, 0, nullptr);
    const hsize_t n = e.size(), most = how == Store::CONTIGUOUS ? n : H5S_UNLIMITED;
    const hid_t space = H5Screate_simple(1, &n, &most), set = H5Dcreate2(group, "events", type, space, NO, properties, NO);
    if (how == Store::ECF)
        for (hsize_t first = 0; first < n; first += chunk) {
            const Bytes bytes =
                encodeEcf(e.part(first, std::min<size_t>(chunk, n - first)), Packing(random() % 3), random, random() % 2);
            writeChunk(set, first, 0, bytes);
        }
    else
        H5Dwrite(set, type, H5S_ALL, H5S_ALL, NO, rowsOf(e).data());
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(properties);
    H5Tclose(type);
    H5Gclose(group);
    H5Fclose(file);
}

TEST(EventMetavision, FilesOfEveryStorage) {
    Folder at;
    auto random = support::generator();
    for (const Store how : {Store::CONTIGUOUS, Store::CHUNKS, Store::DEFLATE, Store::ECF})
        for (const size_t chunk : {100, 16384, 70000}) {
            const Events e = ecfEvents(chunk == 100 ? 2000 : 40000, random);
            writeMetavision(at / "r.h5", e, how, chunk, random);
            Reader r(at / "r.h5");
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            EXPECT_EQ(r.info.width, 1280);
            EXPECT_EQ(r.info.height, 720);
            EXPECT_EQ(r.info.last_time, e.t.back());
            ASSERT_EQ(r.all(9999), e) << int(how) << " " << chunk;
            CUS_ASSERT_OK(cusEventReaderSeekIndex(r.reader, 0));
            size_t count = 0; // some of the columns
            std::vector<int64_t> t(e.size());
            CUS_ASSERT_OK(cusEventReaderRead(r.reader, t.size(), nullptr, nullptr, nullptr, t.data(), &count));
            EXPECT_EQ(t, e.t);
            checkPiecesAndSeeks(r, e, random);
        }
}

// A chunk with fewer events than the dataset says there are.
TEST(EventMetavision, ChunkWithFewerEvents) {
    Folder at;
    auto random = support::generator();
    const Events e = ecfEvents(300, random);
    writeMetavision(at / "r.h5", e, Store::ECF, 100, random);
    overwriteChunk(at / "r.h5", EVENTS, 100, 0, encodeEcf(e.part(100, 99), Packing::ALL, random, false));
    Reader r(at / "r.h5");
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    cusStatus status = CUS_OK;
    EXPECT_EQ(r.all(1000, &status), e.part(0, 199));
    CUS_REJECTS(status, FORMAT, "t of event 199 is out of range");
}

TEST(EventMetavision, ChunksAreForADecoder) {
    Folder at;
    auto random = support::generator();
    for (const Store how : {Store::CONTIGUOUS, Store::CHUNKS, Store::DEFLATE, Store::ECF})
        for (const size_t chunk : {100, 16384, 70000}) {
            const Events e = ecfEvents(chunk == 100 ? 60000 : 40000, random); // more than two frames
            writeMetavision(at / "r.h5", e, how, chunk, random);
            Reader r(at / "r.h5");
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            Bytes piece(10);
            size_t count = 7;
            cusStatus status = cusEventReaderReadBytes(r.reader, piece.size(), piece.data(), &count);
            CUS_REJECTS(status, VALUE, "cusEventReaderReadBytes: expected cusEventReaderDecoder before it");
            EXPECT_EQ(count, 0u);
            for (const size_t most : {3000, 4 << 20}) {
                const Events got = ofChunks(r.reader, CUS_EVENTS_METAVISION, random, most, &status);
                if (how != Store::ECF || chunk > 65535) {
                    CUS_REJECTS(status, UNSUPPORTED,
                                "cusEventReaderDecoder: the file is Metavision, expected EVT2, EVT2.1, EVT3, EVT4, DAT, "
                                "Metavision in chunks compressed by ECF or HDF5 with columns");
                    continue;
                }
                CUS_EXPECT_OK(status);
                ASSERT_EQ(got, e) << chunk;
            }
        }
}

// From marks, which may be within chunks.
TEST(EventMetavision, ChunksFromMarks) {
    Folder at;
    auto random = support::generator();
    const Events e = ecfEvents(5000, random);
    writeMetavision(at / "r.h5", e, Store::ECF, 300, random);
    Reader r(at / "r.h5");
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    constexpr uint64_t PARTS = 7;
    std::vector<cusEventPart> parts(PARTS);
    std::vector<cusEventMark> marks(PARTS + 1);
    for (uint64_t k = 0; k < PARTS; ++k)
        CUS_ASSERT_OK(cusEventReaderScan(r.reader, k, PARTS, &parts[k]));
    CUS_ASSERT_OK(cusEventReaderMarks(r.reader, parts.data(), PARTS, marks.data()));
    for (const cusEventMark &mark : marks) {
        cusStatus status = CUS_OK;
        uint64_t first = 1;
        CUS_ASSERT_OK(cusEventReaderSeekMark(r.reader, &mark));
        Events got = ofChunks(r.reader, CUS_EVENTS_METAVISION, random, 2000, &status, &first);
        CUS_EXPECT_OK(status);
        EXPECT_EQ(first, mark.index);
        ASSERT_EQ(got, e.part(mark.index, e.size() - mark.index));
        CUS_ASSERT_OK(cusEventReaderSeekIndex(r.reader, 17)); // not a mark: from the beginning
        got = ofChunks(r.reader, CUS_EVENTS_METAVISION, random, 2000, &status, &first);
        EXPECT_EQ(first, 0u);
        ASSERT_EQ(got, e);
    }
}

// HDF5 may leave a filter out for one chunk: such a file is read as events.
TEST(EventMetavision, ChunkWithoutCompressionIsForTheReader) {
    Folder at;
    auto random = support::generator();
    const Events e = ecfEvents(350, random);
    for (const hsize_t first : {hsize_t{0}, hsize_t{100}, hsize_t{300}}) {
        const size_t n = first == 300 ? 50 : 100;
        writeMetavision(at / "r.h5", e, Store::ECF, 100, random);
        Bytes rows = rowsOf(e.part(first, n));
        rows.resize(1600);
        overwriteChunk(at / "r.h5", EVENTS, first, 1, rows);
        Reader r(at / "r.h5");
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        cusStatus status = CUS_OK;
        ASSERT_EQ(ofChunks(r.reader, CUS_EVENTS_METAVISION, random, 3000, &status).size(), 0u);
        CUS_REJECTS(status, UNSUPPORTED, "cusEventReaderDecoder: the file is Metavision, expected EVT2,");
        ASSERT_EQ(r.all(), e);
    }
}

// Behind damage in the index nobody has looked.
TEST(EventMetavision, ChunkWithoutCompressionBehindDamage) {
    Folder at;
    auto random = support::generator();
    const Events e = ecfEvents(350, random);
    writeMetavision(at / "r.h5", e, Store::ECF, 100, random);
    overwriteChunk(at / "r.h5", EVENTS, 100, 0, Bytes(6000));
    overwriteChunk(at / "r.h5", EVENTS, 200, 1, Bytes(1600));
    Reader r(at / "r.h5");
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    cusStatus status = CUS_OK;
    EXPECT_EQ(ofChunks(r.reader, CUS_EVENTS_METAVISION, random, 3000, &status), e.part(0, 100));
    EXPECT_EQ(status, CUS_ERROR_FORMAT);
    std::vector<cusEventMark> marks(4);
    std::vector<cusEventPart> parts(3);
    for (uint64_t k = 0; k < 3; ++k)
        CUS_ASSERT_OK(cusEventReaderScan(r.reader, k, 3, &parts[k]));
    CUS_ASSERT_OK(cusEventReaderMarks(r.reader, parts.data(), 3, marks.data()));
    CUS_ASSERT_OK(cusEventReaderSeekMark(r.reader, &marks[2]));
    EXPECT_EQ(ofChunks(r.reader, CUS_EVENTS_METAVISION, random, 3000, &status).size(), 0u);
    CUS_REJECTS(
        status, UNSUPPORTED,
        "cusEventReaderReadBytes: the chunk of /CD/events that starts at event 200 is not compressed; read its events");
}

// What is damaged comes after the chunks before it.
TEST(EventMetavision, DamagedChunksForADecoder) {
    Folder at;
    auto random = support::generator();
    const Events e = ecfEvents(350, random);
    const auto damaged = [&](const Bytes &chunk, cusStatus expected, const std::string &message) {
        writeMetavision(at / "r.h5", e, Store::ECF, 100, random);
        overwriteChunk(at / "r.h5", EVENTS, 200, 0, chunk);
        Reader r(at / "r.h5");
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        cusStatus status = CUS_OK;
        std::string found;
        EXPECT_EQ(ofChunks(r.reader, CUS_EVENTS_METAVISION, random, 3000, &status, nullptr, nullptr, &found),
                  e.part(0, 200));
        EXPECT_EQ(status, expected);
        EXPECT_EQ((found.empty() ? cusLastError() : found).find(message), 0u) << cusLastError() << found;
    };
    const std::string start = "cusEventReaderReadBytes: the chunk of /CD/events that starts at event 200 ";
    damaged(Bytes(11), CUS_ERROR_FORMAT, start + "is damaged");
    damaged(Bytes(33), CUS_ERROR_FORMAT, start + "is damaged"); // 100 events in 33 bytes
    damaged(Bytes(6000), CUS_ERROR_FORMAT, start + "claims 6000 bytes for 1600");
    damaged(encodeEcf(e.part(200, 99), Packing::NONE, random, false), CUS_ERROR_FORMAT, "byte ");

    writeMetavision(at / "r.h5", e, Store::ECF, 100, random); // the file ends early
    const Bytes whole = load(at / "r.h5");
    int cut = 0;
    for (size_t n = 1; n < 2000; n += 37) {
        save(at / "c.h5", Bytes(whole.begin(), whole.end() - long(n)));
        Reader r(at / "c.h5");
        if (r.opened != CUS_OK)
            continue;
        cusStatus by_events = CUS_OK, by_bytes = CUS_OK;
        const Events good = r.all(1000, &by_events),
                     got = ofChunks(r.reader, CUS_EVENTS_METAVISION, random, 3000, &by_bytes);
        EXPECT_EQ(by_bytes, by_events) << n;
        EXPECT_EQ(got, good) << n;
        cut += by_bytes == CUS_ERROR_TRUNCATED;
    }
    EXPECT_GT(cut, 0);
}

// Compounds that are not events.
TEST(EventMetavision, OtherTypes) {
    Folder at;
    const auto write = [&](hid_t type) {
        const hid_t file = createHdf5(at / "r.h5"), group = H5Gcreate2(file, "CD", NO, NO, NO);
        const hsize_t n = 10;
        const hid_t space = H5Screate_simple(1, &n, nullptr);
        H5Dclose(H5Dcreate2(group, "events", type, space, NO, NO, NO));
        H5Sclose(space);
        H5Gclose(group);
        H5Fclose(file);
        H5Tclose(type);
        return Reader(at / "r.h5").opened;
    };
    CUS_REJECTS(write(H5Tcopy(H5T_STD_I32LE)), FORMAT, "is neither one dimension of compounds of numbers nor");
    hid_t type = H5Tcreate(H5T_COMPOUND, 12);
    H5Tinsert(type, "x", 0, H5T_STD_U16LE);
    H5Tinsert(type, "t", 4, H5T_STD_I64LE);
    CUS_REJECTS(write(type), FORMAT, "has no member y");
    type = eventType();
    const hid_t larger = H5Tcreate(H5T_COMPOUND, 32);
    H5Tinsert(larger, "x", 0, type);
    H5Tclose(type);
    CUS_REJECTS(write(larger), FORMAT, "is neither one dimension of compounds of numbers nor");
}

#endif

} // namespace
