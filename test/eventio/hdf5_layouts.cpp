// The reader of HDF5's file format: files in every layout that libhdf5 and h5py write are read as they read them, and damage in any
// byte is noticed.
#include "eventio/hdf5_files.hpp"

#include <filesystem>

extern "C" uint32_t eventio_lookup3(const uint8_t *bytes, size_t n); // eventio/hdf5/file/file.h

using namespace eventio_test;

namespace {

// Values of the original program.
TEST(EventHdf5Layouts, Lookup3) {
    EXPECT_EQ(eventio_lookup3(nullptr, 0), 0xdeadbeefu);
    const std::string text = "Four score and seven years ago";
    EXPECT_EQ(eventio_lookup3(reinterpret_cast<const uint8_t *>(text.data()), text.size()), 0x17770551u);
}

// What h5py writes, for each oldest version that it can be asked for: the kinds of index, filters, groups with many links, orders of
// creation, many attributes.
TEST(EventHdf5Layouts, FilesOfThisH5py) {
    const char *chosen = getenv("CUSIGHT_TEST_PYTHON");
    const std::string python = chosen ? chosen : "python3";
    if (std::system((python + " -c 'import h5py' 2>/dev/null").c_str()) != 0)
        GTEST_SKIP() << "needs h5py for python3, or for the interpreter CUSIGHT_TEST_PYTHON";
    Folder at;
    ASSERT_EQ(std::system((python + " '" + fixture("make_layouts.py") + "' '" + at / "" + "'").c_str()), 0);
    int files = 0;
    for (const auto &entry : std::filesystem::directory_iterator(at / "")) {
        const std::string path = entry.path().string();
        if (entry.path().extension() != ".h5")
            continue;
        const Bytes expected = load(path + ".raw"); // x, y, p, t
        const size_t n = expected.size() / 13;
        Reader r(path);
        ASSERT_EQ(r.opened, CUS_OK) << path << cusLastError();
        const Events e = r.all(999);
        ASSERT_EQ(e.size(), n) << path;
        EXPECT_EQ(memcmp(e.x.data(), &expected[0], 2 * n), 0) << path;
        EXPECT_EQ(memcmp(e.y.data(), &expected[2 * n], 2 * n), 0) << path;
        EXPECT_EQ(memcmp(e.p.data(), &expected[4 * n], n), 0) << path;
        EXPECT_EQ(memcmp(e.t.data(), &expected[5 * n], 8 * n), 0) << path;
        ++files;
    }
    EXPECT_GT(files, 60);
}

#ifdef CUSIGHT_HAVE_HDF5

enum class Index { COMPACT, CONTIGUOUS, SINGLE, EARLY, FIXED, LIMITED, UNLIMITED };
constexpr Index EVERY_INDEX[] = {Index::COMPACT, Index::CONTIGUOUS, Index::SINGLE,   Index::EARLY,
                                 Index::FIXED,   Index::LIMITED,    Index::UNLIMITED};

hid_t datasetWith(hid_t group, const std::string &name, const void *values, hid_t type, hsize_t n, Index index,
                  hsize_t chunk, const std::vector<int> &filters) {
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t most = n;
    if (index == Index::COMPACT)
        H5Pset_layout(how, H5D_COMPACT);
    if (index >= Index::SINGLE) {
        const hsize_t extent = index == Index::SINGLE ? n : chunk;
        H5Pset_chunk(how, 1, &extent);
        for (const int filter : filters) {
            const unsigned level = 6;
            H5Pset_filter(how, filter, 0, filter == H5Z_FILTER_DEFLATE, &level);
        }
    }
    if (index == Index::EARLY)
        H5Pset_alloc_time(how, H5D_ALLOC_TIME_EARLY);
    if (index == Index::LIMITED)
        most = 3 * n;
    if (index == Index::UNLIMITED)
        most = H5S_UNLIMITED;
    const hid_t space = H5Screate_simple(1, &n, &most);
    const hid_t set = H5Dcreate2(group, name.c_str(), type, space, NO, how, NO);
    EXPECT_GE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, NO, values), 0);
    H5Sclose(space);
    H5Pclose(how);
    return set;
}

struct Recorded {
    Index index;
    hsize_t chunk;
    std::vector<int> filters;
    int links;           // besides the recording's
    unsigned order;      // of creation, as H5Pset_link_creation_order has it
    bool named_datatype; // stored as an object of its own
};

void record(const std::string &path, const Events &e, H5F_libver_t oldest, const Recorded &how) {
    const hid_t file = createHdf5(path, oldest), properties = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_link_creation_order(properties, how.order);
    const hid_t group = H5Gcreate2(file, "events", NO, properties, NO);
    const auto link = [&](int first, int last) {
        for (int k = first; k < last; ++k)
            H5Lcreate_soft("/nowhere", group, ("link " + std::to_string(k * 7919 % 1000)).c_str(), NO, NO);
    };
    link(0, how.links / 2);
    const hid_t t_type = H5Tcopy(H5T_STD_I64LE);
    if (how.named_datatype)
        H5Tcommit2(file, "time", t_type, NO, NO, NO);
    const auto add = [&](const char *name, const void *values, hid_t type) {
        const hid_t set = datasetWith(group, name, values, type, e.size(), how.index, how.chunk, how.filters);
        const hid_t scalar = H5Screate(H5S_SCALAR);
        for (int i = 0; i < how.links / 3; ++i)
            H5Aclose(H5Acreate2(set, std::to_string(i).c_str(), H5T_STD_I64LE, scalar, NO, NO));
        H5Sclose(scalar);
        H5Dclose(set);
    };
    add("x", e.x.data(), H5T_STD_U16LE);
    add("y", e.y.data(), H5T_STD_U16LE);
    add("p", e.p.data(), H5T_STD_U8LE);
    add("t", e.t.data(), t_type);
    link(how.links / 2, how.links);
    H5Tclose(t_type);
    H5Gclose(group);
    H5Pclose(properties);
    H5Fclose(file);
}

TEST(EventHdf5Layouts, EveryLayoutOfLibhdf5) {
    Folder at;
    auto random = support::generator();
    const int D = H5Z_FILTER_DEFLATE, S = H5Z_FILTER_SHUFFLE, F = H5Z_FILTER_FLETCHER32;
    const unsigned orders[] = {0, H5P_CRT_ORDER_TRACKED, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED};
    int made = 0;
    for (const H5F_libver_t oldest : {H5F_LIBVER_EARLIEST, H5F_LIBVER_V18, H5F_LIBVER_LATEST})
        for (const Index index : EVERY_INDEX)
            for (const auto &filters : std::vector<std::vector<int>>{{}, {D}, {S, D, F}}) {
                if (index < Index::SINGLE && !filters.empty())
                    continue;
                for (const hsize_t chunk : {hsize_t(1), hsize_t(3), hsize_t(1000), hsize_t(4096)}) {
                    const bool once = index <= Index::SINGLE; // the chunk does not matter
                    if ((once && chunk != 1) || (index != Index::UNLIMITED && chunk == 4096))
                        continue;
                    const Events e = randomEvents(chunk == 1 ? 700 : 3000, random);
                    const Recorded how = {index, chunk, filters, made % 4 * 20, orders[made % 3], made % 5 == 0};
                    record(at / "r.h5", e, oldest, how);
                    Reader r(at / "r.h5");
                    ASSERT_EQ(r.opened, CUS_OK) << int(oldest) << " " << int(index) << " " << chunk << cusLastError();
                    ASSERT_EQ(r.all(777), e) << int(oldest) << " " << int(index) << " " << chunk;
                    ++made;
                }
            }
    EXPECT_GT(made, 100);
}

// Enough chunks for all kinds of blocks of an extensible array, up to those with pages, and for a fixed array's pages.
TEST(EventHdf5Layouts, ManyChunks) {
    Folder at;
    auto random = support::generator();
    for (const Index index : {Index::FIXED, Index::UNLIMITED}) {
        const Events e = randomEvents(index == Index::FIXED ? 3000 : 140000, random);
        const hid_t file = createHdf5(at / "r.h5", H5F_LIBVER_LATEST), group = H5Gcreate2(file, "events", NO, NO, NO);
        const std::vector<int> checksums = {H5Z_FILTER_FLETCHER32};
        H5Dclose(datasetWith(group, "x", e.x.data(), H5T_STD_U16LE, e.size(), Index::CONTIGUOUS, 0, {}));
        H5Dclose(datasetWith(group, "y", e.y.data(), H5T_STD_U16LE, e.size(), Index::CONTIGUOUS, 0, {}));
        H5Dclose(datasetWith(group, "p", e.p.data(), H5T_STD_U8LE, e.size(), Index::CONTIGUOUS, 0, {}));
        H5Dclose(datasetWith(group, "t", e.t.data(), H5T_STD_I64LE, e.size(), index, 1, checksums));
        H5Gclose(group);
        H5Fclose(file);
        Reader r(at / "r.h5");
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        for (int k = 0; k < 300; ++k) {
            const size_t first = k ? random() % e.size() : e.size() - 1, n = std::min<size_t>(20, e.size() - first);
            CUS_ASSERT_OK(cusEventReaderSeekIndex(r.reader, int64_t(first)));
            ASSERT_EQ(r.read(n), e.part(first, n));
        }
    }
}

// A user block in front, and addresses and lengths of 4 bytes.
TEST(EventHdf5Layouts, UserBlocksAndNarrowAddresses) {
    Folder at;
    auto random = support::generator();
    const Events e = randomEvents(2000, random);
    for (const hsize_t block : {hsize_t(0), hsize_t(512), hsize_t(4096)})
        for (const size_t width : {size_t(4), size_t(8)}) {
            const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
            H5Pset_userblock(creation, block);
            H5Pset_sizes(creation, width, width);
            const hid_t file = H5Fcreate((at / "r.h5").c_str(), H5F_ACC_TRUNC, creation, NO);
            const hid_t group = H5Gcreate2(file, "events", NO, NO, NO);
            const std::vector<int> none;
            H5Dclose(datasetWith(group, "x", e.x.data(), H5T_STD_U16LE, e.size(), Index::FIXED, 300, none));
            H5Dclose(datasetWith(group, "y", e.y.data(), H5T_STD_U16LE, e.size(), Index::CONTIGUOUS, 0, none));
            H5Dclose(datasetWith(group, "p", e.p.data(), H5T_STD_U8LE, e.size(), Index::COMPACT, 0, none));
            H5Dclose(datasetWith(group, "t", e.t.data(), H5T_STD_I64LE, e.size(), Index::UNLIMITED, 70, none));
            H5Gclose(group);
            H5Fclose(file);
            H5Pclose(creation);
            Reader r(at / "r.h5");
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            EXPECT_EQ(r.all(), e) << block << " " << width;
        }
}

// In the newest format everything that matters has a checksum: whatever byte is changed, the events are right or the file is refused.
TEST(EventHdf5Layouts, EachDamagedByteIsNoticed) {
    Folder at;
    auto random = support::generator();
    const Events e = randomEvents(300, random);
    for (const Index index : {Index::SINGLE, Index::FIXED, Index::UNLIMITED}) {
        record(at / "r.h5", e, H5F_LIBVER_LATEST, {index, 9, {H5Z_FILTER_DEFLATE, H5Z_FILTER_FLETCHER32}, 30, 0, false});
        Bytes bytes = load(at / "r.h5");
        int refused = 0;
        for (size_t i = 0; i < bytes.size(); i += 1 + random() % (3 * support::fewer())) {
            const uint8_t before = bytes[i];
            bytes[i] = uint8_t(before ^ (1u << random() % 8));
            Reader r(bytes);
            cusStatus status = r.opened;
            if (status == CUS_OK) {
                const Events got = r.all(1000, &status);
                ASSERT_EQ(got, e.part(0, got.size())) << "byte " << i;
                ASSERT_TRUE(status != CUS_OK || got.size() == e.size()) << "byte " << i;
            }
            ASSERT_TRUE(status == CUS_OK || status == CUS_ERROR_FORMAT || status == CUS_ERROR_TRUNCATED)
                << status << " byte " << i << cusLastError();
            refused += status != CUS_OK;
            bytes[i] = before;
        }
        EXPECT_GT(refused, int(bytes.size() / (8 * support::fewer())));
    }
}

// ---- Structures that lead in circles ----

void put64(Bytes &bytes, size_t at, uint64_t value) {
    std::memcpy(&bytes[at], &value, 8);
}

std::vector<size_t> findAll(const Bytes &bytes, const std::string &what) {
    std::vector<size_t> found;
    for (auto at = bytes.begin(); (at = std::search(at, bytes.end(), what.begin(), what.end())) != bytes.end(); ++at)
        found.push_back(size_t(at - bytes.begin()));
    return found;
}

void expectDamaged(const Bytes &bytes) {
    Reader r(bytes);
    cusStatus status = r.opened;
    if (status == CUS_OK)
        r.all(1000, &status);
    EXPECT_EQ(status, CUS_ERROR_FORMAT);
}

// A node of a B-tree that is its own child, at every level.
TEST(EventHdf5Layouts, TreeWithinItself) {
    Folder at;
    auto random = support::generator();
    const Events e = randomEvents(300, random);
    record(at / "r.h5", e, H5F_LIBVER_EARLIEST, {Index::UNLIMITED, 1, {}, 0, 0, false});
    const Bytes good = load(at / "r.h5");
    int circles = 0;
    for (const size_t node : findAll(good, "TREE")) {
        if (good[node + 5] == 0)
            continue;
        Bytes bytes = good;
        const size_t key = good[node + 4] ? 24 : 8; // of chunks or names
        for (unsigned k = 0; k < unsigned(good[node + 6]); ++k)
            put64(bytes, node + 24 + key + k * (key + 8), node);
        expectDamaged(bytes);
        bytes[node + 5] = 255; // and deep
        expectDamaged(bytes);
        ++circles;
    }
    EXPECT_GE(circles, 4);
}

// An object header that is its own continuation.
TEST(EventHdf5Layouts, HeaderWithinItself) {
    Folder at;
    auto random = support::generator();
    record(at / "r.h5", randomEvents(300, random), H5F_LIBVER_EARLIEST, {Index::CONTIGUOUS, 0, {}, 30, 0, false});
    Bytes bytes = load(at / "r.h5");
    int circles = 0;
    // A continuation message: its type and size, no flags, and the address and size of the rest, which begin as it does.
    for (const size_t message : findAll(bytes, std::string("\x10\0\x10\0\0\0\0\0", 8))) {
        put64(bytes, message + 8, message);
        put64(bytes, message + 16, 24);
        ++circles;
    }
    ASSERT_GE(circles, 4);
    expectDamaged(bytes);
}

#endif

} // namespace
