// Files of frames: the index of any number of chunks, labels, and damage.
#include "eventio/support.hpp"

#ifdef CUSIGHT_HAVE_HDF5
#include <hdf5.h>
#endif

using namespace eventio_test;

namespace {

// Writes frames of the values 0, 1, 2 ..
void writeFrames(const std::string &path, int rows, int cols, size_t count, const char *label = nullptr) {
    const size_t pixels = size_t(rows) * size_t(cols);
    std::vector<uint16_t> all(count * pixels);
    for (size_t i = 0; i < all.size(); ++i)
        all[i] = uint16_t(i / 3);
    cusFrameWriter *writer = nullptr;
    CUS_ASSERT_OK(cusFrameWriterCreate(&writer, path.c_str(), rows, cols, CUS_16UC1));
    for (size_t first = 0, n; first < count; first += n) {
        n = std::min<size_t>(count - first, 777);
        cusMat mat = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusMatWrap(&mat, int(n) * rows, cols, CUS_16UC1, CUS_HOST, &all[first * pixels], 0));
        CUS_ASSERT_OK(cusFrameWriterWrite(writer, &mat));
    }
    if (label)
        CUS_ASSERT_OK(cusFrameWriterLabel(writer, label));
    CUS_ASSERT_OK(cusFrameWriterFinish(writer));
}

// A node of the index has 64 children: one level up to 64 chunks, two up to 4096.
TEST(FrameFile, IndexOfAnySize) {
    Folder at;
    const std::string path = at / "f.h5";
    for (const size_t count : {0, 1, 63, 64, 65, 128, 4095, 4096, 4097, 20000}) {
        writeFrames(path, 1, 1, count);
        support::Owned<cusFrameReaderClose> reader;
        cusFrameFileInfo info = {};
        CUS_ASSERT_OK(cusFrameReaderOpen(&reader, path.c_str(), &info));
        ASSERT_EQ(info.frames, count);
        for (size_t k = 0; k < count; ++k) {
            uint16_t value = 0;
            size_t bytes = 0;
            CUS_ASSERT_OK(cusFrameReaderStored(reader, k, &value, &bytes));
            ASSERT_EQ(value, uint16_t(k / 3));
        }
#ifdef CUSIGHT_HAVE_HDF5
        const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, "frames", H5P_DEFAULT);
        ASSERT_GT(set, 0);
        std::vector<uint16_t> all(count);
        ASSERT_GE(H5Dread(set, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()), 0) << count;
        for (size_t k = 0; k < count; ++k)
            ASSERT_EQ(all[k], uint16_t(k / 3)) << count;
        EXPECT_EQ(H5Dget_storage_size(set), 2 * count);
        H5Dclose(set);
        H5Fclose(file);
#endif
    }
}

#ifdef CUSIGHT_HAVE_HDF5
// libhdf5 goes on with a file of ours.
TEST(FrameFile, Libhdf5AppendsFramesAndAttributes) {
    Folder at;
    const std::string path = at / "f.h5";
    writeFrames(path, 1, 1, 5000, "1/2 of a run");
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), set = H5Dopen2(file, "frames", H5P_DEFAULT);
    const hsize_t shape[4] = {5200, 1, 1, 1}, one[4] = {1, 1, 1, 1};
    ASSERT_GE(H5Dset_extent(set, shape), 0);
    for (hsize_t k = 5000; k < 5200; ++k) {
        const hsize_t place[4] = {k, 0, 0, 0};
        const uint16_t value = uint16_t(k / 3);
        ASSERT_GE(H5Dwrite_chunk(set, H5P_DEFAULT, 1, place, 2, &value), 0);
    }
    const hid_t space = H5Screate_simple(1, one, nullptr);
    for (int k = 0; k < 40; ++k) {
        const hid_t attribute =
            H5Acreate2(set, ("a" + std::to_string(k)).c_str(), H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT);
        ASSERT_GE(H5Awrite(attribute, H5T_NATIVE_INT, &k), 0);
        H5Aclose(attribute);
    }
    H5Sclose(space);
    H5Dclose(set);
    ASSERT_GE(H5Fclose(file), 0);
    support::Owned<cusFrameReaderClose> reader;
    cusFrameFileInfo info = {};
    CUS_ASSERT_OK(cusFrameReaderOpen(&reader, path.c_str(), &info));
    EXPECT_EQ(info.frames, 5200u);
    EXPECT_STREQ(info.label, "1/2 of a run");
    for (size_t k = 0; k < 5200; ++k) {
        uint16_t value = 0;
        size_t bytes = 0;
        CUS_ASSERT_OK(cusFrameReaderStored(reader, k, &value, &bytes));
        ASSERT_EQ(value, uint16_t(k / 3));
    }
}
#endif

TEST(FrameFile, ALabelGivesTheSameBytesSoonerOrLater) {
    Folder at;
    for (const size_t length : {1, 2, 20, 60, 61, 62, 63}) {
        const std::string label(length, 'x');
        writeFrames(at / "with.h5", 3, 4, 10, label.c_str());
        writeFrames(at / "later.h5", 3, 4, 10);
        CUS_ASSERT_OK(cusFrameFileLabel((at / "later.h5").c_str(), label.c_str()));
        EXPECT_TRUE(load(at / "with.h5") == load(at / "later.h5")) << length;
        CUS_REJECTS(cusFrameFileLabel((at / "with.h5").c_str(), "y"), IO, "cannot be labeled: it has a label");
        support::Owned<cusFrameReaderClose> reader;
        cusFrameFileInfo info = {};
        CUS_ASSERT_OK(cusFrameReaderOpen(&reader, (at / "later.h5").c_str(), &info));
        EXPECT_EQ(info.label, label);
    }
}

// Files may come from strangers: an error or frames, nothing else.
TEST(FrameFile, DamageIsAnError) {
    auto random = support::generator();
    Folder at;
    const std::string path = at / "f.h5";
    writeFrames(path, 5, 6, 70);
    const Bytes good = load(path);
    int opened = 0, failed = 0;
    for (int round = 0; round < 1000 || opened <= 30 || failed <= 300; ++round) {
        Bytes bad = good;
        for (int k = int(random() % 4); k >= 0; --k)
            bad[random() % (random() % 3 ? 512 : bad.size())] = uint8_t(random() % 4 ? random() : random() % 2 * 255);
        if (round % 10 == 0)
            bad.resize(random() % bad.size());
        save(path, bad);
        cusFrameReader *reader = nullptr;
        cusFrameFileInfo info = {};
        if (cusFrameReaderOpen(&reader, path.c_str(), &info) != CUS_OK) {
            ++failed;
            continue;
        }
        ++opened;
        Bytes frame(size_t(info.rows) * size_t(info.cols) * cusTypeSize(info.type));
        for (uint64_t k = 0; k < std::min<uint64_t>(info.frames, 100); ++k) {
            size_t bytes = 0;
            if (cusFrameReaderStored(reader, k, frame.data(), &bytes) == CUS_OK)
                ASSERT_LE(bytes, frame.size());
        }
        cusFrameReaderClose(reader);
    }
}

} // namespace
