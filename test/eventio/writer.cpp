// The writers of HDF5 files: events and frames, read back by libhdf5.
#include "eventio/support.hpp"

#ifdef CUSIGHT_HAVE_HDF5
#include <hdf5.h>
#endif

#include <filesystem>
#include <fstream>
#include <iterator>

#include <sys/stat.h>
#include <unistd.h>

using namespace eventio_test;

namespace {

long filesIn(const Folder &folder) {
    return std::distance(std::filesystem::directory_iterator(folder / ""), std::filesystem::directory_iterator());
}

#ifdef CUSIGHT_HAVE_HDF5
TEST(EventWriter, IndexAndLayoutAreThoseOfM3ed) {
    auto random = support::generator();
    Folder at;
    const Events events = randomEvents(100000, random, 2500);
    // Not compressed, so that libhdf5, which has no LZF filter, can read it.
    cusEventWriterOptions options = sensor(1280, 720);
    options.compress = 0;
    CUS_ASSERT_OK(writeM3ed(at / "r.h5", events, options, 7777));
    EXPECT_EQ(filesIn(at), 1);
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

// Times far from 0 and from each other: an entry for each millisecond would take 8 GB, or 100 MB compressed.
TEST(EventWriter, IndexIsNotMuchLargerThanTheEvents) {
    Folder at;
    const int64_t late = int64_t(1) << 40, wide = 1000 * ((int64_t(1) << 22) + 1000);
    const uint16_t xy[] = {1, 2};
    const uint8_t p[] = {1, 0};
    for (const int compress : {1, 0}) {
        cusEventWriterOptions options = sensor(100, 50);
        options.compress = compress;
        cusEventWriter *writer = nullptr;
        const int64_t far[] = {5, late}, near[] = {late - 2000, late}, most[] = {0, wide + 999}, more[] = {0, wide + 1000};
        CUS_ASSERT_OK(cusEventWriterCreate(&writer, (at / "w.h5").c_str(), &options));
        CUS_REJECTS(
            cusEventWriterWrite(writer, 2, xy, xy, p, far), VALUE,
            "event 1 has time 1099511627776 us, 1099511627 ms after the first, expected at most 4195304 ms for 2 events");
        CUS_REJECTS(cusEventWriterWrite(writer, 2, xy, xy, p, more), VALUE, "event 1 has time 4195305000 us");
        if (compress) {
            CUS_ASSERT_OK(cusEventWriterWrite(writer, 2, xy, xy, p, most));
            CUS_ASSERT_OK(cusEventWriterFinish(writer));
            EXPECT_LT(std::filesystem::file_size(at / "w.h5"), 1000000u);
            CUS_ASSERT_OK(cusEventWriterCreate(&writer, (at / "w.h5").c_str(), &options));
        }
        CUS_ASSERT_OK(cusEventWriterWrite(writer, 1, xy, xy, p, near)); // in two calls
        CUS_ASSERT_OK(cusEventWriterWrite(writer, 1, xy + 1, xy + 1, p + 1, near + 1));
        CUS_ASSERT_OK(cusEventWriterFinish(writer));
        EXPECT_LT(std::filesystem::file_size(at / "w.h5"), 2000000u);
        EXPECT_EQ(Reader(at / "w.h5").all().t, (std::vector<int64_t>{late - 2000, late}));
    }
    const hid_t file = H5Fopen((at / "w.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t map = H5Dopen2(file, "/prophesee/left/ms_map_idx", H5P_DEFAULT), space = H5Dget_space(map);
    ASSERT_EQ(H5Sget_simple_extent_npoints(space), late / 1000 + 1);
    const auto entry = [&](hsize_t ms) {
        uint64_t value = 7;
        const hid_t one = H5Screate(H5S_SCALAR), place = H5Dget_space(map);
        EXPECT_GE(H5Sselect_elements(place, H5S_SELECT_SET, 1, &ms), 0);
        EXPECT_GE(H5Dread(map, H5T_NATIVE_UINT64, one, place, H5P_DEFAULT, &value), 0);
        H5Sclose(place);
        H5Sclose(one);
        return value;
    };
    for (const hsize_t ms : {hsize_t(0), hsize_t(500000000), hsize_t(late / 1000 - 2)})
        EXPECT_EQ(entry(ms), 0u) << ms;
    EXPECT_EQ(entry(late / 1000 - 1), 1u); // the first event is at .. 625.776 ms
    EXPECT_EQ(entry(late / 1000), 1u);
    H5Sclose(space);
    H5Dclose(map);
    H5Fclose(file);
}

// As OpenEB asks for it: names, types, text of variable size, and what the index says of each 2 ms.
TEST(EventWriter, MetavisionHasTheLayoutOfItsOwner) {
    auto random = support::generator();
    Folder at;
    const Events events = randomEvents(30000, random, 123456, 50000);
    cusEventWriterOptions options = sensor(1280, 720);
    options.format = CUS_EVENTS_METAVISION;
    CUS_ASSERT_OK(writeM3ed(at / "r.hdf5", events, options, 777));
    const hid_t file = H5Fopen((at / "r.hdf5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    ASSERT_GT(file, 0);
    const auto text = [&](const char *object, const char *name) {
        const hid_t attribute = H5Aopen_by_name(file, object, name, H5P_DEFAULT, H5P_DEFAULT), type = H5Tcopy(H5T_C_S1);
        H5Tset_size(type, H5T_VARIABLE);
        char *value = nullptr;
        EXPECT_GE(H5Aread(attribute, type, &value), 0) << name;
        const std::string copy = value ? value : "";
        H5free_memory(value);
        H5Tclose(type);
        H5Aclose(attribute);
        return copy;
    };
    EXPECT_EQ(text("/", "version"), "1.0");
    EXPECT_EQ(text("/", "geometry"), "1280x720");
    EXPECT_EQ(text("/CD/indexes", "offset"), "-" + std::to_string(events.t[0]));

    struct Row {
        uint64_t id;
        int64_t ts;
    };
    std::vector<Row> expected = {{0, -1}};
    for (size_t i = 0, last = 0; i < events.size(); ++i) {
        const int64_t time = events.t[i] - events.t[0], from = events.t[last] - events.t[0];
        if (i && time / 2000 == from / 2000)
            continue;
        for (int64_t k = from / 2000; i && k < time / 2000; ++k)
            expected.push_back({last, from});
        last = i;
        if (events.t.back() - events.t[0] < (time / 2000 + 1) * 2000)
            expected.push_back({last, time}); // the last period
    }
    const hid_t row = H5Tcreate(H5T_COMPOUND, sizeof(Row)), set = H5Dopen2(file, "/CD/indexes", H5P_DEFAULT),
                space = H5Dget_space(set);
    H5Tinsert(row, "id", HOFFSET(Row, id), H5T_NATIVE_UINT64);
    H5Tinsert(row, "ts", HOFFSET(Row, ts), H5T_NATIVE_INT64);
    std::vector<Row> index(size_t(H5Sget_simple_extent_npoints(space)));
    ASSERT_EQ(index.size(), expected.size());
    ASSERT_GE(H5Dread(set, row, H5S_ALL, H5S_ALL, H5P_DEFAULT, index.data()), 0);
    for (size_t k = 0; k < index.size(); ++k)
        ASSERT_TRUE(index[k].id == expected[k].id && index[k].ts == expected[k].ts) << k;
    H5Sclose(space);
    H5Dclose(set);
    H5Tclose(row);

    const hid_t cd = H5Dopen2(file, "/CD/events", H5P_DEFAULT), how = H5Dget_create_plist(cd), type = H5Dget_type(cd);
    hsize_t chunk = 0;
    unsigned flags = 0;
    size_t values = 0;
    EXPECT_EQ(H5Pget_chunk(how, 1, &chunk), 1);
    EXPECT_EQ(chunk, 16384u);
    EXPECT_EQ(H5Pget_nfilters(how), 1);
    EXPECT_EQ(H5Pget_filter2(how, 0, &flags, &values, nullptr, 0, nullptr, nullptr), 0x8ecf);
    EXPECT_EQ(H5Tget_size(type), 16u);
    EXPECT_EQ(H5Tget_nmembers(type), 4);
    H5Tclose(type);
    H5Pclose(how);
    H5Dclose(cd);
    for (const char *name : {"/EXT_TRIGGER/events", "/EXT_TRIGGER/indexes"}) {
        const hid_t empty = H5Dopen2(file, name, H5P_DEFAULT), none = H5Dget_space(empty);
        EXPECT_EQ(H5Sget_simple_extent_npoints(none), 0) << name;
        H5Sclose(none);
        H5Dclose(empty);
    }
    H5Fclose(file);
}

#endif

TEST(EventWriter, PreviousFileStaysUntilTheNewOneIsComplete) {
    Folder at;
    const cusEventWriterOptions options = sensor(100, 50);
    const std::string path = at / "w.h5";
    const auto put = [](const std::string &name) { std::ofstream(name) << "precious"; };
    const auto content = [](const std::string &name) {
        std::ifstream in(name);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    // Under the former, predictable name: a link that must not be followed. In the place: a link that must be replaced.
    put(at / "target");
    ASSERT_EQ(symlink((at / "target").c_str(), (at / "w.h5.part").c_str()), 0);
    put(path);
    cusEventWriter *writer = nullptr;
    CUS_ASSERT_OK(cusEventWriterCreate(&writer, path.c_str(), &options));
    EXPECT_EQ(content(path), "precious");
    cusEventWriterDiscard(writer);
    EXPECT_EQ(content(path), "precious");
    ASSERT_EQ(unlink(path.c_str()), 0);
    ASSERT_EQ(symlink((at / "target").c_str(), path.c_str()), 0);
    CUS_ASSERT_OK(cusEventWriterCreate(&writer, path.c_str(), &options));
    CUS_ASSERT_OK(cusEventWriterFinish(writer));
    EXPECT_EQ(content(at / "target"), "precious");
    EXPECT_EQ(Reader(path).info.count, 0);
    EXPECT_EQ(filesIn(at), 3);
    // A file cannot replace these.
    writer = nullptr;
    ASSERT_EQ(mkfifo((at / "pipe").c_str(), 0600), 0);
    for (const std::string &name : {at / "pipe", at / ".", std::string("/dev/null")})
        CUS_REJECTS(cusEventWriterCreate(&writer, name.c_str(), &options), IO, "cannot be written");
    ASSERT_EQ(writer, nullptr);
}

// Where the system names files otherwise, too: names are UTF-8, folders may be separated in its way.
TEST(EventWriter, NamesAreUtf8) {
    Folder at;
    const cusEventWriterOptions options = sensor(100, 50);
    const auto there = std::filesystem::u8path(at / u8"M\u00fcnchen \u6771\u4eac.h5").make_preferred();
    const std::string path = there.u8string();
    const uint16_t x = 9, y = 8;
    const uint8_t p = 1;
    for (const int64_t t : {5, 6}) {
        cusEventWriter *writer = nullptr;
        CUS_ASSERT_OK(cusEventWriterCreate(&writer, path.c_str(), &options));
        EXPECT_EQ(filesIn(at), t - 4) << "the file is not made in the folder of its place";
        CUS_ASSERT_OK(cusEventWriterWrite(writer, 1, &x, &y, &p, &t));
        CUS_ASSERT_OK(cusEventWriterFinish(writer));
        EXPECT_TRUE(std::filesystem::exists(there));
        EXPECT_EQ(filesIn(at), 1);
        EXPECT_EQ(Reader(path).all().t, std::vector<int64_t>{t});
    }
}

TEST(EventWriter, Errors) {
    Folder at;
    cusEventWriter *writer = nullptr;
    cusEventWriterOptions options = sensor(100, 50);
    const std::string path = at / "w.h5";
    CUS_REJECTS(cusEventWriterCreate(&writer, path.c_str(), nullptr), NULL, "options is NULL");
    CUS_REJECTS(cusEventWriterCreate(nullptr, path.c_str(), &options), NULL, "writer is NULL");
    options.chunk = 10;
    CUS_REJECTS(cusEventWriterCreate(&writer, path.c_str(), &options), VALUE, "chunk is 10");
    options = sensor(0, 50);
    CUS_REJECTS(cusEventWriterCreate(&writer, path.c_str(), &options), VALUE, "sensor is 0 x 50");
    options = sensor(100, 50);
    CUS_REJECTS(cusEventWriterCreate(&writer, (at / "no/w.h5").c_str(), &options), IO, "cannot be written");
    ASSERT_EQ(writer, nullptr);
    CUS_ASSERT_OK(cusEventWriterCreate(&writer, path.c_str(), &options));
    const auto write = [&](int64_t t, uint16_t x, uint16_t y, uint8_t p) {
        return cusEventWriterWrite(writer, 1, &x, &y, &p, &t);
    };
    CUS_ASSERT_OK(write(10, 99, 49, 1));
    CUS_REJECTS(write(10, 100, 49, 1), VALUE, "event 0 at x 100");
    CUS_REJECTS(write(10, 99, 49, 2), VALUE, "polarity 2");
    CUS_REJECTS(write(9, 99, 49, 1), VALUE, "time 9 us, expected 10..");
    CUS_REJECTS(write(int64_t(1) << 41, 99, 49, 1), VALUE, "expected 10..1099511627776");
    CUS_ASSERT_OK(write(10, 0, 0, 0));
    EXPECT_NE(access(path.c_str(), F_OK), 0); // not yet
    CUS_ASSERT_OK(cusEventWriterFinish(writer));
    Reader r(path);
    EXPECT_EQ(r.all().size(), 2u);

    CUS_ASSERT_OK(cusEventWriterCreate(&writer, (at / "d.h5").c_str(), &options));
    cusEventWriterDiscard(writer);
    EXPECT_NE(access((at / "d.h5").c_str(), F_OK), 0);
    EXPECT_EQ(filesIn(at), 1) << "only w.h5";
    cusEventWriterDiscard(nullptr);

    CUS_ASSERT_OK(cusEventWriterCreate(&writer, (at / "e.h5").c_str(), &options)); // without events
    CUS_ASSERT_OK(cusEventWriterFinish(writer));
    Reader empty(at / "e.h5");
    EXPECT_EQ(empty.info.count, 0);
    EXPECT_EQ(empty.info.first_time, -1);
    EXPECT_EQ(empty.all().size(), 0u);
}

#ifdef CUSIGHT_HAVE_HDF5
TEST(FrameWriter, StoresFramesUnchanged) {
    auto random = support::generator();
    Folder at;
    for (const int type : std::vector<int>{CUS_8UC2, CUS_8UC1, CUS_32FC1, CUS_MAKETYPE(CUS_16F, 3)}) {
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
        support::Mat wrong;
        CUS_ASSERT_OK(cusMatCreate(&wrong, rows + 1, cols, type, CUS_HOST));
        CUS_REJECTS(cusFrameWriterWrite(writer, &wrong), SIZE, "frames is 38 x 53");
        CUS_ASSERT_OK(cusMatCreate(&wrong, rows, cols, CUS_16SC1, CUS_HOST));
        CUS_REJECTS(cusFrameWriterWrite(writer, &wrong), TYPE, "frames has type 16SC1");
        CUS_REJECTS(cusFrameWriterWrite(nullptr, &wrong), NULL, "writer");
        CUS_ASSERT_OK(cusFrameWriterFinish(writer));

        const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, "frames", H5P_DEFAULT);
        const hid_t space = H5Dget_space(set);
        if (CUS_DEPTH(type) == CUS_16F) { // h5py's float16, with its bias of 15
            const hid_t stored = H5Dget_type(set);
            size_t sign = 0, exponent = 0, exponent_bits = 0, fraction = 0, fraction_bits = 0;
            ASSERT_GE(H5Tget_fields(stored, &sign, &exponent, &exponent_bits, &fraction, &fraction_bits), 0);
            EXPECT_EQ((std::vector<size_t>{sign, exponent, exponent_bits, fraction, fraction_bits, H5Tget_ebias(stored)}),
                      (std::vector<size_t>{15, 10, 5, 0, 10, 15}));
            H5Tclose(stored);
        }
        hsize_t shape[4] = {};
        ASSERT_EQ(H5Sget_simple_extent_dims(space, shape, nullptr), 4);
        EXPECT_EQ(shape[0], hsize_t(frames));
        EXPECT_EQ(shape[1] * shape[2] * shape[3], hsize_t(rows * cols * CUS_CHANNELS(type)));
        for (hsize_t f = 0; f < hsize_t(frames); ++f) {
            const hsize_t at_chunk[4] = {f, 0, 0, 0};
            hsize_t size = 0;
            uint32_t skipped_filters = 0;
            ASSERT_GE(H5Dget_chunk_storage_size(set, at_chunk, &size), 0);
            Bytes stored(size), frame(bytes);
            ASSERT_GE(H5Dread_chunk(set, H5P_DEFAULT, at_chunk, &skipped_filters, stored.data()), 0);
            EXPECT_EQ(skipped_filters, f == 4 ? 1u : 0u);
            if (skipped_filters) {
                frame = stored;
            } else
                ASSERT_TRUE(reference::lzf(stored, bytes, frame));
            ASSERT_TRUE(std::equal(frame.begin(), frame.end(), all.begin() + long(f * bytes)));
        }
        H5Sclose(space);
        H5Dclose(set);
        H5Fclose(file);
        cusFrameReader *reader = nullptr;
        cusFrameFileInfo info;
        CUS_ASSERT_OK(cusFrameReaderOpen(&reader, path.c_str(), &info));
        EXPECT_EQ(info.type, type);
        cusFrameReaderClose(reader);
    }
    cusFrameWriter *writer = nullptr;
    CUS_REJECTS(cusFrameWriterCreate(&writer, (at / "x/f.h5").c_str(), 1, 1, CUS_8UC1), IO, "cannot be written");
    CUS_REJECTS(cusFrameWriterCreate(&writer, "f.h5", 0, 1, CUS_8UC1), VALUE, "0 x 1");
    CUS_REJECTS(cusFrameWriterCreate(&writer, "f.h5", 65536, 65536, CUS_8UC1), SIZE, "2^32 bytes or more");
    CUS_REJECTS(cusFrameWriterCreate(nullptr, "f.h5", 1, 1, CUS_8UC1), NULL, "writer");
    CUS_ASSERT_OK(cusFrameWriterCreate(&writer, (at / "d.h5").c_str(), 1, 1, CUS_8UC1));
    cusFrameWriterDiscard(writer);
    EXPECT_EQ(filesIn(at), 1) << "only f.h5";
    cusFrameWriterDiscard(nullptr);
}
#endif

} // namespace
