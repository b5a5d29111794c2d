// HDF5 recordings: files of h5py, truncated, damaged and hostile files.
#include "eventio/hdf5_files.hpp"

#ifdef CUSIGHT_HAVE_HDF5
// The suppression of lsan.supp, for a run without that file. The sanitizer looks it up, so it must not be hidden.
extern "C" __attribute__((visibility("default"))) const char *__lsan_default_suppressions();
extern "C" const char *__lsan_default_suppressions() {
    return "leak:libhdf5";
}
#endif

using namespace eventio_test;

namespace {

// ---- HDF5 files of other programs ----

Events fixtureEvents(size_t n, bool dsec) {
    Events e;
    for (size_t i = 0; i < n; ++i)
        e.add(int64_t(50 * i + i % 7) + (dsec ? 60000000000 : 0), unsigned(7 * i % 640), unsigned(11 * i % 480),
              unsigned(dsec ? i / 3 % 2 : i % 2));
    return e;
}

TEST(EventHdf5, FilesOfH5py) {
    auto random = support::generator();
    for (const char *name :
         {"m3ed_lzf.h5", "m3ed_contiguous.h5", "m3ed_gzip.h5", "dsec_blosc.h5", "dsec_lz4.h5", "dsec_zstd.h5"}) {
        SCOPED_TRACE(name);
        const bool dsec = std::string(name).find("dsec") == 0;
        const Events expected = fixtureEvents(5000, dsec);
        Reader r(fixture(name));
        if (dsec && r.opened == CUS_ERROR_UNSUPPORTED) {
            EXPECT_NE(std::string(cusLastError()).find("this build lacks lib"), std::string::npos) << cusLastError();
            continue;
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
    CUS_REJECTS(Reader(fixture("m3ed_lzf.h5"), options).opened, FORMAT, "no camera \"middle\"");
}

TEST(EventHdf5, OtherFiltersAreNamed) {
    CUS_REJECTS(Reader(fixture("m3ed_bitshuffle.h5")).opened, UNSUPPORTED,
                "stored with HDF5 filter 32008 (Bitshuffle); `h5repack -f ");
}

TEST(EventHdf5, NoRecording) {
    CUS_REJECTS(Reader(fixture("other.h5")).opened, FORMAT, "neither /prophesee nor /events");
}

#ifdef CUSIGHT_HAVE_HDF5
// Chunks that are not compressed all have one size, but the index of the older format stores a size for each.
TEST(EventHdf5, IndexWithOtherSizesOfChunks) {
    Folder at;
    constexpr hsize_t CHUNK = 100;
    const std::string path = at / "r.h5";
    writeDsec(path, filtered({}, CHUNK));
    const Bytes good = load(path);
    ASSERT_EQ(Reader(good).all().size(), N);

    const std::string node = {'T', 'R', 'E', 'E', 1, 0}; // a leaf of the chunks' index
    size_t nodes = 0;
    for (auto found = good.begin(); (found = std::search(found, good.end(), node.begin(), node.end())) != good.end();
         ++found, ++nodes)
        for (const uint32_t size : {1u, 50u, 99u, 101u, 799u, 801u, 7936u}) {
            Bytes bytes = good;
            const uint32_t entry = 8 + 8 * 3; // size, filters, place and number in the element, address
            const size_t first = size_t(found - good.begin()) + 24;
            for (size_t k = 0; k < N / CHUNK; ++k)
                std::memcpy(bytes.data() + first + k * entry, &size, sizeof size);
            Reader r(bytes);
            cusStatus status = r.opened;
            const size_t got = status == CUS_OK ? r.all(100, &status).size() : 0;
            EXPECT_EQ(got, 0u) << size;
            EXPECT_EQ(status, CUS_ERROR_FORMAT) << size << ": " << cusLastError();
        }
    EXPECT_EQ(nodes, 4u);
}
#endif

#ifdef CUSIGHT_HAVE_HDF5
// Times that do not fit 63 bits after t_offset is added are damage, whichever way they wrap.
TEST(EventHdf5, TimesThatWrap) {
    Folder at;
    struct Case {
        uint64_t time;
        int64_t offset;
        bool is_signed, good;
    };
    const int64_t half = int64_t(1) << 61;
    for (const auto &c : std::vector<Case>{{UINT64_MAX - 4, 10, false, false}, // 5, if it wrapped
                                           {UINT64_MAX - 4, 10, true, true},
                                           {uint64_t(half), half - 2000, true, true},
                                           {uint64_t(half), half, true, false},
                                           {uint64_t(INT64_MAX), half, true, false},
                                           {uint64_t(INT64_MIN), -half, true, false}})
        for (const H5D_layout_t layout : {H5D_CONTIGUOUS, H5D_CHUNKED}) {
            const hid_t file = createHdf5(at / "r.h5"), group = H5Gcreate2(file, "events", NO, NO, NO);
            for (const char *name : {"x", "y", "p", "t"}) {
                const bool is_t = std::string(name) == "t";
                const hsize_t n = 3;
                const hid_t how = withLayout(layout, n), space = H5Screate_simple(1, &n, nullptr);
                const hid_t type = is_t ? (c.is_signed ? H5T_STD_I64LE : H5T_STD_U64LE) : H5T_STD_U8LE;
                const uint64_t times[] = {c.time, c.time, c.time};
                const uint8_t zeros[3] = {};
                const hid_t set = H5Dcreate2(group, name, type, space, NO, how, NO);
                H5Dwrite(set, type, H5S_ALL, H5S_ALL, NO, is_t ? static_cast<const void *>(times) : zeros);
                H5Dclose(set);
                H5Sclose(space);
                H5Pclose(how);
            }
            const hid_t scalar = H5Screate(H5S_SCALAR),
                        offset = H5Dcreate2(file, "t_offset", H5T_STD_I64LE, scalar, NO, NO, NO);
            H5Dwrite(offset, H5T_STD_I64LE, H5S_ALL, H5S_ALL, NO, &c.offset);
            H5Dclose(offset);
            H5Sclose(scalar);
            H5Gclose(group);
            H5Fclose(file);
            Reader r(at / "r.h5");
            cusStatus status = r.opened;
            const size_t got = status == CUS_OK ? r.all(10, &status).size() : 0;
            EXPECT_EQ(status, c.good ? CUS_OK : CUS_ERROR_FORMAT) << c.time << " " << c.offset << cusLastError();
            EXPECT_EQ(got, c.good ? 3u : 0u) << c.time << " " << c.offset;
        }
}

// The end is then not known: what counts windows must read all of it, and learns which event is out of order.
TEST(EventHdf5, LastTimeBeforeTheFirst) {
    Folder at;
    const std::string path = at / "r.h5";
    writeRecording(path, true, "t", [](hid_t group, const std::string &name, hsize_t n) {
        std::vector<int64_t> times(n, 5000);
        times.back() = 4000;
        const hid_t set = addDataset(group, name, contiguous(), n, false);
        H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, NO, times.data());
        H5Dclose(set);
    });
    Reader r(path);
    ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
    EXPECT_EQ(r.info.count, int64_t(N));
    EXPECT_EQ(r.info.first_time, 5000);
    EXPECT_EQ(r.info.last_time, -1);
    cusStatus status = CUS_OK;
    EXPECT_EQ(r.all(100, &status).size(), N - 1);
    EXPECT_EQ(status, CUS_ERROR_FORMAT);
}
#endif

// A file cut anywhere gives a prefix of its events and an error that says where it ends or is damaged.
TEST(EventHdf5, TruncatedAnywhere) {
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
                ASSERT_EQ(r.read(1, &status).size(), 0u); // the error stays
                ASSERT_NE(status, CUS_OK);
            }
            most = std::max(most, got.size());
        }
        EXPECT_GT(most, all.size() / 10); // the events before the cut are delivered
    }
}

#ifdef CUSIGHT_HAVE_HDF5
// Datasets that claim more events than are in the file.
TEST(EventHdf5, EnormousClaims) {
    Folder at;
    for (const hsize_t claimed : {hsize_t(1) << 62, hsize_t(20000000)}) {
        const std::string path = at / "huge.h5";
        writeDsec(
            path,
            [](hid_t group, const std::string &name, hsize_t n) {
                const hid_t set = addDataset(group, name, withLayout(H5D_CHUNKED, 1000), n, false);
                const std::vector<uint8_t> data(8000);
                for (hsize_t first = 0; first < 30000; first += 1000) // only 30 chunks exist
                    H5Dwrite_chunk(set, NO, 0, &first, 1000 * H5Tget_size(typeOf(name)), data.data());
                H5Dclose(set);
            },
            claimed);
        Reader r(path);
        if (claimed > 1000000000) {
            CUS_REJECTS(r.opened, FORMAT, "claims");
        } else {
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            cusStatus status = CUS_OK;
            EXPECT_EQ(r.all(50000, &status).size(), 30000u);
            CUS_REJECTS(status, TRUNCATED, "written only up to event 30000");
        }
    }
}
#endif

TEST(EventHdf5, DamagedChunkEndsTheRecordingThere) {
    auto random = support::generator();
    const Bytes whole = randomM3ed(random);
    int damaged = 0;
    for (int round = 0; round < 150 || damaged <= 20; ++round) {
        Bytes bytes = whole;
        for (int k = 0; k < 3; ++k)
            bytes[4000 + random() % (bytes.size() - 4000)] = uint8_t(random());
        Reader r(bytes);
        if (r.opened != CUS_OK || r.info.width == 0)
            continue;
        cusStatus status = CUS_OK;
        const Events got = r.all(3000, &status);
        for (size_t i = 0; i < got.size(); ++i) {
            ASSERT_LT(got.x[i], r.info.width); // the damage may be in the sensor's size
            ASSERT_LT(got.y[i], r.info.height);
            ASSERT_LE(got.p[i], 1);
        }
        ASSERT_TRUE(std::is_sorted(got.t.begin(), got.t.end()));
        damaged += status == CUS_ERROR_FORMAT;
    }
}

} // namespace
