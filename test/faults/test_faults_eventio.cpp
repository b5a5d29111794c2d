// Readers of every format, the writers and the generator under faults.
#include "faults.hpp"

#include "eventio_support.hpp"

using namespace faults;
using eventio_test::Folder;
using eventio_test::haveHdf5;

namespace {

struct Columns {
    std::vector<uint16_t> x, y;
    std::vector<uint8_t> p;
    std::vector<int64_t> t;
    explicit Columns(size_t n) : x(n), y(n), p(n), t(n) {}
};

// Reads everything that is left, `piece` events a call.
cusStatus readAll(cusEventReader *reader, Trial *t, size_t piece = 3000) {
    Columns c(piece);
    for (;;) {
        size_t count = 0;
        CUS_TRY(cusEventReaderRead(reader, piece, c.x.data(), c.y.data(), c.p.data(), c.t.data(), &count));
        for (size_t i = 0; t && i < count; ++i) {
            t->value(c.x[i]);
            t->value(c.y[i]);
            t->value(c.p[i]);
            t->value(c.t[i]);
        }
        if (count < piece)
            return CUS_OK;
    }
}

class Recording {
  public:
    Recording(const Folder &folder, const std::string &name, const eventio_test::Bytes &bytes) : path(folder / name) {
        eventio_test::save(path, bytes);
    }
    explicit Recording(const char *fixture) : path(eventio_test::fixture(fixture)) {}
    std::string path;
    cusEventReader *open() const {
        cusEventReader *reader = nullptr;
        CUS_EXPECT_OK(cusEventReaderOpen(&reader, path.c_str(), nullptr));
        return reader;
    }
};

void walkReader(const std::string &name, const Recording &recording, int64_t time) {
    walk("cusEventReaderOpen, " + name, [&](Trial &t) {
        cusEventReader *reader = nullptr;
        t.call([&] { return cusEventReaderOpen(&reader, recording.path.c_str(), nullptr); });
        if (reader) {
            CUS_EXPECT_OK(readAll(reader, &t));
        }
        cusEventReaderClose(reader);
    });
    const eventio_test::Bytes bytes = eventio_test::load(recording.path);
    walk("cusEventReaderOpenMemory, " + name, [&](Trial &t) {
        cusEventReader *reader = nullptr;
        t.call([&] { return cusEventReaderOpenMemory(&reader, bytes.data(), bytes.size(), nullptr); });
        cusEventReaderClose(reader);
    });
    walk("cusEventReaderRead, " + name, [&](Trial &t) {
        cusEventReader *reader = recording.open();
        Trial *sink = &t;
        t.attempt([&] { return readAll(reader, sink); });
        if (t.failed) { // the error stays; another reader is not affected
            size_t count = 1;
            Columns c(1);
            EXPECT_NE(cusEventReaderRead(reader, 1, c.x.data(), nullptr, nullptr, nullptr, &count), CUS_OK);
            EXPECT_EQ(count, 0u);
            cusEventReaderClose(reader);
            t.results.clear();
            reader = recording.open();
            CUS_EXPECT_OK(readAll(reader, &t));
        }
        cusEventReaderClose(reader);
    });
    int64_t right = -1;
    walk("cusEventReaderSeek..., " + name, [&](Trial &t) {
        cusEventReader *reader = recording.open();
        int64_t index = -1;
        t.attempt([&] {
            CUS_TRY(cusEventReaderSeekIndex(reader, 2500));
            return cusEventReaderSeekTime(reader, time, &index);
        });
        if (t.failed) {
            cusEventReaderClose(reader);
            reader = recording.open();
            CUS_EXPECT_OK(cusEventReaderSeekTime(reader, time, &index));
        }
        // A damaged event counts as later than any time, so that reading on reports the damage.
        if (t.injected && (t.what() == HDF5 || t.what() == BLOSC))
            index = right;
        else
            right = index;
        t.value(index);
        cusEventReaderClose(reader);
    });
}

TEST(FaultsOfEventio, Readers) {
    Folder folder;
    std::mt19937_64 random(1);
    const auto events = eventio_test::randomEvents(5000, random);
    for (const auto &[name, bytes] : eventio_test::files(events))
        walkReader(name, Recording(folder, name, bytes), events.t[3000]);
}

TEST(FaultsOfEventio, ReadersOfOtherPrograms) {
    NEEDS_HDF5();
    for (const char *name : {"m3ed_lzf.h5", "m3ed_contiguous.h5", "m3ed_gzip.h5", "dsec_blosc.h5"}) {
        const Recording recording(name);
        cusEventReader *reader = nullptr;
        const cusStatus status = cusEventReaderOpen(&reader, recording.path.c_str(), nullptr);
        cusEventReaderClose(reader);
        if (status != CUS_ERROR_UNSUPPORTED) // a filter that is not installed
            walkReader(name, recording, 100000);
    }
}

TEST(FaultsOfEventio, Writer) {
    NEEDS_HDF5();
    Folder folder;
    const std::string path = folder / "w.h5";
    std::mt19937_64 random(1);
    const auto e = eventio_test::randomEvents(5000, random);
    for (const bool compress : {true, false}) {
        cusEventWriterOptions options = eventio_test::sensor();
        options.chunk = 1024;
        options.compress = compress;
        options.threads = 1; // writes of several chunks at once: 16 chunks wait for a thread
        const auto write = [&](cusEventWriter *w) {
            for (int i = 0; i < 5; ++i) {
                std::vector<int64_t> times(e.t);
                for (auto &time : times)
                    time += i * (e.t.back() + 1);
                CUS_TRY(cusEventWriterWrite(w, e.size(), e.x.data(), e.y.data(), e.p.data(), times.data()));
            }
            return CUS_OK;
        };
        const std::string how = compress ? "" : ", plain";
        walk("cusEventWriterCreate" + how, [&](Trial &t) {
            cusEventWriter *w = nullptr;
            t.call([&] { return cusEventWriterCreate(&w, path.c_str(), &options); });
            cusEventWriterDiscard(w);
        });
        walk("cusEventWriterWrite" + how, [&](Trial &t) {
            cusEventWriter *w = nullptr;
            CUS_ASSERT_OK(cusEventWriterCreate(&w, path.c_str(), &options));
            if (t.attempt([&] { return write(w); }) == CUS_OK) {
                CUS_EXPECT_OK(cusEventWriterFinish(w));
            } else { // the file cannot be finished, and is not left half done
                EXPECT_EQ(cusEventWriterFinish(w), CUS_ERROR_IO);
            }
            EXPECT_EQ(access(path.c_str(), F_OK) == 0, !t.failed);
            std::remove(path.c_str());
        });
        // As it was before: a run that fails keeps it.
        const eventio_test::Bytes earlier(100, 7);
        walk("cusEventWriterFinish" + how, [&](Trial &t) {
            eventio_test::save(path, earlier);
            cusEventWriter *w = nullptr;
            CUS_ASSERT_OK(cusEventWriterCreate(&w, path.c_str(), &options));
            CUS_ASSERT_OK(write(w));
            t.attempt([&] { return cusEventWriterFinish(w); });
            if (t.failed) {
                EXPECT_EQ(eventio_test::load(path), earlier) << "replaced by an incomplete file";
                CUS_ASSERT_OK(cusEventWriterCreate(&w, path.c_str(), &options));
                CUS_ASSERT_OK(write(w));
                CUS_EXPECT_OK(cusEventWriterFinish(w));
            }
            eventio_test::Reader reader(path);
            t.value(reader.all().size());
            std::remove(path.c_str());
        });
    }
    EXPECT_NE(std::system(("ls -A " + (folder / "") + " | grep .").c_str()), 0) << "files are left";
}

TEST(FaultsOfEventio, FrameWriter) {
    NEEDS_HDF5();
    Folder folder;
    const std::string path = folder / "f.h5";
    const Mat frames(3 * 20, 30, CUS_8UC2, CUS_HOST, 1);
    walk("cusFrameWriterCreate", [&](Trial &t) {
        cusFrameWriter *w = nullptr;
        t.call([&] { return cusFrameWriterCreate(&w, path.c_str(), 20, 30, CUS_8UC2); });
        cusFrameWriterDiscard(w);
    });
    walk("cusFrameWriterWrite", [&](Trial &t) {
        cusFrameWriter *w = nullptr;
        CUS_ASSERT_OK(cusFrameWriterCreate(&w, path.c_str(), 20, 30, CUS_8UC2));
        t.attempt([&] { return cusFrameWriterWrite(w, &frames.mat); });
        if (t.failed)
            cusFrameWriterDiscard(w);
        else
            CUS_EXPECT_OK(cusFrameWriterFinish(w));
        EXPECT_EQ(access(path.c_str(), F_OK) == 0, !t.failed);
        std::remove(path.c_str());
    });
    walk("cusFrameWriterFinish", [&](Trial &t) {
        cusFrameWriter *w = nullptr;
        CUS_ASSERT_OK(cusFrameWriterCreate(&w, path.c_str(), 20, 30, CUS_8UC2));
        CUS_ASSERT_OK(cusFrameWriterWrite(w, &frames.mat));
        t.attempt([&] { return cusFrameWriterFinish(w); });
        EXPECT_EQ(access(path.c_str(), F_OK) == 0, !t.failed);
        std::remove(path.c_str());
    });
    EXPECT_NE(std::system(("ls -A " + (folder / "") + " | grep .").c_str()), 0) << "files are left";
}

TEST(FaultsOfEventio, Generator) {
    const Mat dark(20, 30, CUS_8UC1, CUS_HOST, std::vector<uint8_t>(600, 30)), random(20, 30, CUS_8UC1, CUS_HOST, 1);
    walk("cusEventGeneratorCreate", [&](Trial &t) {
        cusEventGenerator *g = nullptr;
        t.call([&] { return cusEventGeneratorCreate(&g, 20, 30, nullptr); });
        cusEventGeneratorDestroy(g);
    });
    walk("cusEventGeneratorPush", [&](Trial &t) {
        cusEventGenerator *g = nullptr;
        CUS_ASSERT_OK(cusEventGeneratorCreate(&g, 20, 30, nullptr));
        cusEventArrays events = {};
        CUS_ASSERT_OK(cusEventGeneratorPush(g, &dark.mat, 0, &events));
        t.call([&] { return cusEventGeneratorPush(g, &random.mat, 1000, &events); });
        t.value(events.count);
        for (size_t i = 0; i < events.count; ++i)
            t.value(events.t[i]);
        cusEventGeneratorDestroy(g);
    });
}

} // namespace
