// Readers of every format, the writers and the generator under faults.
#include "faults.hpp"

#include "eventio/hdf5_files.hpp"

#include "cusight/eventframes.h"

extern "C" {
#include "eventframes/eventframes.h"
}

using namespace faults;
using eventio_test::Folder;

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
    explicit Recording(const std::string &place) : path(place) {}
    std::string path;
    cusEventReaderOptions options = cusEventReaderDefaults();
    cusEventReader *open() const {
        cusEventReader *reader = nullptr;
        CUS_EXPECT_OK(cusEventReaderOpen(&reader, path.c_str(), &options));
        return reader;
    }
};

// All frames to the end, twice, by cusEventFrames.
void walkFrames(const std::string &name, const Recording &recording) {
    const cusRepresentation r = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
    cusEventFramesOptions options = cusEventFramesDefaults();
    options.windowing.length = 900;
    options.batch_windows = 2;
    cusEventFilterOptions filter = cusEventFilterDefaults();
    filter.width = filter.height = 64;
    filter.activity = 100;
    const EventFramesSizes sizes = eventframes_sizes;
    for (int how = 0; how < 5; ++how) {
        const bool filtered = how & 1;
        options.rows = options.cols = 64;
        options.filter = filtered ? &filter : nullptr;
        options.shards = how & 2, options.shard = options.shards / 2;
        options.device_count = how == 4 ? 2 : 0;
        if (how == 4)
            eventframes_sizes = {4096, 1024, 8192, 1024};
        const std::string which = (filtered ? ", filtered" : "") + std::string(options.shards ? ", a shard" : "") +
                                  (how == 4 ? ", two lanes" : "");
        walk("cusEventFramesOpen, OpenReader, Next, Restart, " + name + which, [&](Trial &t) {
            std::vector<uint8_t> bytes;
            const auto all = [&] {
                bytes.clear();
                support::Owned<cusEventReaderClose> reader;
                support::Owned<cusEventFramesClose> frames;
                if (filtered) {
                    CUS_TRY(cusEventReaderOpen(&reader, recording.path.c_str(), &recording.options));
                    CUS_TRY(cusEventFramesOpenReader(&frames, reader, &r, 1, &options));
                } else {
                    CUS_TRY(cusEventFramesOpen(&frames, recording.path.c_str(), &recording.options, &r, 1, &options));
                }
                for (int round = 0; round < 2; ++round) {
                    cusFrameBatch batch;
                    do {
                        CUS_TRY(cusEventFramesNext(frames, &batch));
                        for (int y = 0; batch.count && y < batch.frames[0].rows; ++y) {
                            const auto *row = static_cast<const uint8_t *>(batch.frames[0].data) +
                                              static_cast<size_t>(y) * batch.frames[0].step;
                            bytes.insert(bytes.end(), row, row + 64 * 2);
                        }
                    } while (batch.count);
                    CUS_TRY(cusEventFramesRestart(frames));
                }
                cusEventFramesCancel(frames);
                return CUS_OK;
            };
            t.call(all);
            t.result(bytes);
        });
    }
    eventframes_sizes = sizes;
}

void walkReader(const std::string &name, const Recording &recording, int64_t time) {
    walk("cusEventReaderOpen, " + name, [&](Trial &t) {
        support::Owned<cusEventReaderClose> reader;
        t.call([&] { return cusEventReaderOpen(&reader, recording.path.c_str(), &recording.options); });
        if (reader)
            CUS_EXPECT_OK(readAll(reader, &t));
    });
    const eventio_test::Bytes bytes = eventio_test::load(recording.path);
    walkCreate<cusEventReaderClose>("cusEventReaderOpenMemory, " + name, [&](auto *reader) {
        return cusEventReaderOpenMemory(reader, bytes.data(), bytes.size(), &recording.options);
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
    walk("cusEventReaderReadTriggers, " + name, [&](Trial &t) {
        cusEventReader *reader = recording.open();
        cusEventTrigger some[4] = {};
        size_t count = 0;
        t.attempt([&] { return cusEventReaderReadTriggers(reader, 4, some, &count); });
        if (t.failed) { // the error stays until the rewind
            EXPECT_NE(cusEventReaderReadTriggers(reader, 4, some, &count), CUS_OK);
            CUS_EXPECT_OK(cusEventReaderRewindTriggers(reader));
            CUS_EXPECT_OK(cusEventReaderReadTriggers(reader, 4, some, &count));
        }
        t.value(count);
        t.value(some);
        cusEventReaderClose(reader);
    });
    walk("cusEventReaderDecoder, ReadBytes, " + name, [&](Trial &t) {
        cusEventReader *reader = recording.open();
        cusEventDecoderOptions options;
        cusEventDecoderState state = {};
        std::vector<uint8_t> got(100000);
        size_t count = 0;
        t.call([&] {
            const cusStatus status = cusEventReaderDecoder(reader, &options, &state);
            return status == CUS_OK                  ? cusEventReaderReadBytes(reader, got.size(), got.data(), &count)
                   : status == CUS_ERROR_UNSUPPORTED ? CUS_OK
                                                     : status;
        });
        got.resize(count);
        t.result(got);
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
        if (t.injected && t.what() == BLOSC)
            index = right;
        else
            right = index;
        t.value(index);
        cusEventReaderClose(reader);
    });
}

// Three readers of one recording: each scans its part, all are joined, and each reads what follows its mark.
void walkParts(const std::string &name, const Recording &recording) {
    constexpr uint64_t PARTS = 3;
    std::vector<cusEventPart> summaries(PARTS);
    std::vector<cusEventMark> marks(PARTS + 1);
    walk("cusEventReaderScan, " + name, [&](Trial &t) {
        cusEventReader *reader = recording.open();
        for (uint64_t k = 0; k < PARTS; ++k) {
            if (t.injected)
                CUS_EXPECT_OK(cusEventReaderScan(reader, k, PARTS, &summaries[k]));
            else
                t.call([&] { return cusEventReaderScan(reader, k, PARTS, &summaries[k]); });
            t.value(summaries[k]);
        }
        CUS_EXPECT_OK(readAll(reader, &t)); // from where it was
        cusEventReaderClose(reader);
    });
    walk("cusEventReaderMarks, " + name, [&](Trial &t) {
        cusEventReader *reader = recording.open();
        t.call([&] { return cusEventReaderMarks(reader, summaries.data(), PARTS, marks.data()); });
        for (const cusEventMark &mark : marks)
            t.value(mark);
        cusEventReaderClose(reader);
    });
    walk("cusEventReaderSeekMark, " + name, [&](Trial &t) {
        for (const cusEventMark &mark : marks) {
            cusEventReader *reader = recording.open();
            const auto read = [&](Trial *sink) {
                CUS_TRY(cusEventReaderSeekMark(reader, &mark));
                return readAll(reader, sink, 500);
            };
            const size_t before = t.results.size();
            if (t.injected || t.attempt([&] { return read(&t); }) != CUS_OK) { // injected: at an earlier mark
                t.results.resize(before);
                cusEventReaderClose(reader);
                reader = recording.open();
                CUS_EXPECT_OK(read(&t));
            }
            cusEventReaderClose(reader);
        }
    });
}

TEST(FaultsOfEventio, Readers) {
    Folder folder;
    std::mt19937_64 random(1);
    const auto events = eventio_test::randomEvents(5000, random);
    for (const auto &[name, bytes] : eventio_test::files(events)) {
        const Recording recording(folder, name, bytes);
        walkReader(name, recording, events.t[3000]);
        walkFrames(name, recording);
    }
}

// Its chunks are for a decoder elsewhere, too, as are those of M3ED above.
TEST(FaultsOfEventio, ReaderOfMetavision) {
    Folder folder;
    std::mt19937_64 random(1);
    const auto e = eventio_test::randomEvents(5000, random);
    cusEventWriterOptions options = cusEventWriterDefaults();
    options.format = CUS_EVENTS_METAVISION;
    options.width = 640;
    options.height = 480;
    options.chunk = 1024;
    cusEventWriter *writer = nullptr;
    CUS_ASSERT_OK(cusEventWriterCreate(&writer, (folder / "m.hdf5").c_str(), &options));
    CUS_ASSERT_OK(cusEventWriterWrite(writer, e.size(), e.x.data(), e.y.data(), e.p.data(), e.t.data()));
    CUS_ASSERT_OK(cusEventWriterFinish(writer));
    walkReader("m.hdf5", Recording(folder / "m.hdf5"), e.t[3000]);
    walkFrames("m.hdf5", Recording(folder / "m.hdf5"));
}

TEST(FaultsOfEventio, Parts) {
    Folder folder;
    std::mt19937_64 random(1);
    for (const auto &[name, bytes] : eventio_test::files(eventio_test::randomEvents(5000, random)))
        walkParts(name, Recording(folder, name, bytes));
}

TEST(FaultsOfEventio, ReadersOfOtherPrograms) {
    for (const char *name :
         {"m3ed_lzf.h5", "m3ed_contiguous.h5", "m3ed_gzip.h5", "dsec_blosc.h5", "dsec_lz4.h5", "dsec_zstd.h5"}) {
        const Recording recording(eventio_test::fixture(name));
        cusEventReader *reader = nullptr;
        const cusStatus status = cusEventReaderOpen(&reader, recording.path.c_str(), nullptr);
        cusEventReaderClose(reader);
        if (status != CUS_ERROR_UNSUPPORTED) // by a library that this build lacks
            walkReader(name, recording, 100000);
    }
}

TEST(FaultsOfEventio, Writer) {
    Folder folder;
    const std::string path = folder / "w.h5";
    std::mt19937_64 random(1);
    const auto e = eventio_test::randomEvents(5000, random);
    const struct {
        cusEventFormat format;
        int compress;
        const char *name;
    } formats[] = {{CUS_EVENTS_M3ED, 1, ""},
                   {CUS_EVENTS_M3ED, 0, ", plain"},
                   {CUS_EVENTS_METAVISION, 1, ", Metavision"},
#ifdef CUSIGHT_HAVE_ZLIB
                   {CUS_EVENTS_M3ED, 2, ", gzip"},
#endif
                   {CUS_EVENTS_AEDAT4, 1, ", AEDAT4"},
                   {CUS_EVENTS_AEDAT4, 2, ", AEDAT4 with zstd"},
                   {CUS_EVENTS_EVT3, 1, ", EVT3"}};
    for (const auto &[format, compress, how_text] : formats) {
        using eventio_test::Codec;
        if (format == CUS_EVENTS_AEDAT4 && !eventio_test::canPack(compress == 1 ? Codec::LZ4 : Codec::ZSTD))
            continue;
        cusEventWriterOptions options = eventio_test::sensor();
        options.format = format;
        options.chunk = 1024;
        options.compress = compress;
        options.threads = 1;
        const auto write = [&](cusEventWriter *w) {
            for (int i = 0; i < 15; ++i) { // 64 chunks are written together
                std::vector<int64_t> times(e.t);
                for (auto &time : times)
                    time += i * (e.t.back() + 1);
                CUS_TRY(cusEventWriterWrite(w, e.size(), e.x.data(), e.y.data(), e.p.data(), times.data()));
            }
            return CUS_OK;
        };
        const std::string how = how_text;
        eventio_test::Bytes right; // the same events give the same file
        walk("cusEventWriterCreate" + how, [&](Trial &t) {
            cusEventWriter *w = nullptr;
            t.call([&] { return cusEventWriterCreate(&w, path.c_str(), &options); });
            if (t.failed) {
                cusEventWriterDiscard(w);
                return;
            }
            CUS_ASSERT_OK(cusEventWriterWrite(w, 2000, e.x.data(), e.y.data(), e.p.data(), e.t.data()));
            CUS_ASSERT_OK(cusEventWriterFinish(w));
            const eventio_test::Bytes made = eventio_test::load(path);
            right = t.faulty() ? right : made;
            EXPECT_TRUE(made == right) << lastVictim() << " failed: another file";
            std::remove(path.c_str());
        });
        walk("cusEventWriterWrite" + how, [&](Trial &t) {
            cusEventWriter *w = nullptr;
            CUS_ASSERT_OK(cusEventWriterCreate(&w, path.c_str(), &options));
            // After a failure the file cannot be finished, and is not left half done.
            const cusStatus written = t.attempt([&] { return write(w); });
            EXPECT_EQ(cusEventWriterFinish(w), written);
            EXPECT_EQ(access(path.c_str(), F_OK) == 0, !t.failed);
            std::remove(path.c_str());
        });
        if (format != CUS_EVENTS_M3ED)
            walk("cusEventWriterWriteTriggers" + how, [&](Trial &t) {
                std::vector<cusEventTrigger> triggers(2000);
                for (size_t i = 0; i < triggers.size(); ++i)
                    triggers[i].t = static_cast<int64_t>(i);
                cusEventWriter *w = nullptr;
                CUS_ASSERT_OK(cusEventWriterCreate(&w, path.c_str(), &options));
                t.attempt([&] { return cusEventWriterWriteTriggers(w, triggers.size(), triggers.data()); });
                cusEventWriterDiscard(w);
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

TEST(FaultsOfEventio, Filter) {
    auto random = support::generator();
    const eventio_test::Events e = eventio_test::randomEvents(2000, random);
    cusEventFilterOptions options = cusEventFilterDefaults();
    options.width = 640, options.height = 480;
    options.hot_events = 5;
    options.activity = 1000;
    walk("cusEventFilterCreate, cusEventFilterRun", [&](Trial &t) {
        cusEventFilter *filter = nullptr;
        t.call([&] { return cusEventFilterCreate(&filter, &options); });
        eventio_test::Events in = e;
        size_t kept = 0;
        CUS_ASSERT_OK(cusEventFilterRun(filter, in.size(), in.x.data(), in.y.data(), in.p.data(), in.t.data(), &kept));
        cusEventFilterDestroy(filter);
        t.value(kept);
    });
}

} // namespace
