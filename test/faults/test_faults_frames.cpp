// Files of frames under faults: the writer, the reader, and files that are put together.
#include "faults.hpp"

#include "eventio/support.hpp"

using namespace faults;
using eventio_test::Bytes;
using eventio_test::Folder;

namespace {

constexpr int ROWS = 20, COLS = 30, FRAMES = 3;
constexpr size_t FRAME = size_t{ROWS} * COLS * 2;

// Two frames that LZF compresses, and one that it does not.
const Mat &frames() {
    static const Mat mat = [] {
        std::vector<uint8_t> bytes = noise(FRAMES * FRAME, 1);
        std::fill_n(bytes.begin(), 2 * FRAME, uint8_t{7});
        return Mat(FRAMES * ROWS, COLS, CUS_8UC2, CUS_HOST, bytes);
    }();
    return mat;
}

cusFrameWriter *writerOf(const std::string &path) {
    cusFrameWriter *w = nullptr;
    CUS_EXPECT_OK(cusFrameWriterCreate(&w, path.c_str(), ROWS, COLS, CUS_8UC2));
    return w;
}

void expectEmpty(const Folder &folder) {
    EXPECT_NE(std::system(("ls -A " + (folder / "") + " | grep .").c_str()), 0) << "files are left";
}

// What a reader says of a file: the same whatever failed meanwhile.
void describe(Trial &t, const std::string &path) {
    support::Owned<cusFrameReaderClose> reader;
    cusFrameFileInfo info = {};
    CUS_ASSERT_OK(cusFrameReaderOpen(&reader, path.c_str(), &info));
    t.value(info);
    for (uint64_t k = 0; k < info.frames; ++k) {
        Bytes stored(FRAME);
        size_t bytes = 0;
        CUS_EXPECT_OK(cusFrameReaderStored(reader, k, stored.data(), &bytes));
        stored.resize(bytes);
        t.result(stored);
    }
}

TEST(FaultsOfFrames, Writer) {
    Folder folder;
    const std::string path = folder / "f.h5";
    frames();    // are made before anything is counted
    Bytes right; // the same frames give the same file
    walk("cusFrameWriterCreate", [&](Trial &t) {
        cusFrameWriter *w = nullptr;
        t.call([&] { return cusFrameWriterCreate(&w, path.c_str(), ROWS, COLS, CUS_8UC2); });
        if (t.failed) {
            cusFrameWriterDiscard(w);
            return;
        }
        CUS_ASSERT_OK(cusFrameWriterWrite(w, &frames().mat));
        CUS_ASSERT_OK(cusFrameWriterFinish(w));
        const Bytes made = eventio_test::load(path);
        right = t.faulty() ? right : made;
        EXPECT_TRUE(made == right) << lastVictim() << " failed: another file";
        std::remove(path.c_str());
    });
    walk("cusFrameWriterWrite", [&](Trial &t) {
        cusFrameWriter *w = writerOf(path);
        t.attempt([&] { return cusFrameWriterWrite(w, &frames().mat); });
        if (t.failed)
            cusFrameWriterDiscard(w);
        else
            CUS_EXPECT_OK(cusFrameWriterFinish(w));
        EXPECT_EQ(access(path.c_str(), F_OK) == 0, !t.failed);
        std::remove(path.c_str());
    });
    walk("cusFrameWriterLabel", [&](Trial &t) {
        cusFrameWriter *w = writerOf(path);
        CUS_ASSERT_OK(cusFrameWriterWrite(w, &frames().mat));
        t.call([&] { return cusFrameWriterLabel(w, "1/2 of a run"); });
        CUS_ASSERT_OK(cusFrameWriterFinish(w));
        describe(t, path);
        std::remove(path.c_str());
    });
    walk("cusFrameWriterFinish", [&](Trial &t) {
        cusFrameWriter *w = writerOf(path);
        CUS_ASSERT_OK(cusFrameWriterWrite(w, &frames().mat));
        t.attempt([&] { return cusFrameWriterFinish(w); });
        EXPECT_EQ(access(path.c_str(), F_OK) == 0, !t.failed);
        std::remove(path.c_str());
    });
    expectEmpty(folder);
}

// Files with the chunks that a writer makes, and with one block.
class FaultsOfFrameFiles : public testing::TestWithParam<bool> {
  protected:
    void SetUp() override {
        frames(); // are made before anything is counted
    }
    bool compressed() const { return GetParam(); }

    // The frames as they are stored, one after the other.
    std::vector<Bytes> stored() const {
        std::vector<Bytes> all;
        for (int k = 0; k < FRAMES; ++k) {
            Mat frame;
            CUS_EXPECT_OK(cusMatRegion(&frames().mat, 0, k * ROWS, COLS, ROWS, &frame));
            Bytes &bytes = all.emplace_back(FRAME);
            size_t size = FRAME;
            if (compressed())
                CUS_EXPECT_OK(cusFramePack(&frame.mat, bytes.data(), &size));
            else
                bytes = Mat::bytesOf(frame.mat);
            bytes.resize(size);
        }
        return all;
    }

    // Lays the file out and stores the frames.
    cusStatus layOut(const std::string &path, std::vector<uint64_t> &offsets) const {
        const std::vector<Bytes> all = stored();
        std::vector<uint32_t> sizes;
        std::transform(all.begin(), all.end(), std::back_inserter(sizes),
                       [](const Bytes &b) { return uint32_t(b.size()); });
        offsets.assign(FRAMES, 0);
        return cusFrameFileLayout(path.c_str(), ROWS, COLS, CUS_8UC2, FRAMES, compressed(), sizes.data(), offsets.data());
    }

    void make(const std::string &path) const {
        std::vector<uint64_t> offsets;
        eventio_test::save(path, {});
        CUS_ASSERT_OK(layOut(path, offsets));
        store(path, offsets);
    }

    void store(const std::string &path, const std::vector<uint64_t> &offsets) const {
        Bytes file = eventio_test::load(path);
        uint64_t at = offsets[0];
        const std::vector<Bytes> all = stored();
        for (size_t k = 0; k < all.size(); ++k) {
            at = compressed() ? offsets[k] : at;
            ASSERT_LE(at + all[k].size(), file.size());
            std::copy(all[k].begin(), all[k].end(), file.begin() + static_cast<std::ptrdiff_t>(at));
            at += all[k].size();
        }
        eventio_test::save(path, file);
    }

    std::string how() const { return compressed() ? "" : ", plain"; }
    Folder folder_;
    const std::string path_ = folder_ / "f.h5";
};

TEST_P(FaultsOfFrameFiles, Layout) {
    walk("cusFrameFileLayout" + how(), [&](Trial &t) {
        eventio_test::save(path_, {});
        std::vector<uint64_t> offsets;
        t.call([&] { return layOut(path_, offsets); },
               [&] {
                   eventio_test::save(path_, {});
                   return layOut(path_, offsets);
               });
        store(path_, offsets);
        t.result(eventio_test::load(path_));
    });
}

TEST_P(FaultsOfFrameFiles, Reader) {
    make(path_);
    CUS_ASSERT_OK(cusFrameFileLabel(path_.c_str(), "2/3 of a run"));
    walk("cusFrameReaderOpen" + how(), [&](Trial &t) {
        support::Owned<cusFrameReaderClose> reader;
        cusFrameFileInfo info = {};
        t.call([&] { return cusFrameReaderOpen(&reader, path_.c_str(), &info); });
        t.value(info);
    });
    walk("cusFrameReaderStored" + how(), [&](Trial &t) {
        cusFrameReader *reader = nullptr;
        cusFrameFileInfo info = {};
        CUS_ASSERT_OK(cusFrameReaderOpen(&reader, path_.c_str(), &info));
        for (uint64_t k = 0; k < FRAMES && !t.injected; ++k) {
            Bytes bytes(FRAME);
            size_t size = 0;
            t.call([&] { return cusFrameReaderStored(reader, k, bytes.data(), &size); });
            EXPECT_LE(size, FRAME);
        }
        cusFrameReaderClose(reader);
        describe(t, path_);
    });
}

TEST_P(FaultsOfFrameFiles, Label) {
    walk("cusFrameFileLabel" + how(), [&](Trial &t) {
        make(path_);
        // It may have failed after the label was stored, and a file is labeled once.
        const auto label = [&] { return cusFrameFileLabel(path_.c_str(), "2/3 of a run"); };
        t.call(label, [&] {
            make(path_);
            return label();
        });
        describe(t, path_);
    });
}

INSTANTIATE_TEST_SUITE_P(, FaultsOfFrameFiles, testing::Bool(),
                         [](const auto &p) { return p.param ? "compressed" : "plain"; });

TEST(FaultsOfFrames, Pack) {
    Mat region; // its rows are apart, so they are copied first
    CUS_ASSERT_OK(cusMatRegion(&frames().mat, 2, 1, COLS - 5, ROWS, &region));
    walk("cusFramePack", [&](Trial &t) {
        Bytes packed(FRAME);
        size_t size = 0;
        t.call([&] { return cusFramePack(&region.mat, packed.data(), &size); });
        packed.resize(size);
        t.result(packed);
    });
}

} // namespace
