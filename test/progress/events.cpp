// Cancelling in calls on events and recordings.
#include "progress/support.hpp"

#include "eventio/support.hpp"

#include "cusight/eventgen.h"
#include "cusight/eventframes.h"
#include "cusight/events.h"

#include <memory>
#include <utility>

using namespace progress_test;
using eventio_test::Events;
using eventio_test::Folder;

namespace {

Events someEvents(size_t n) {
    std::mt19937_64 random(11);
    return eventio_test::randomEvents(n, random);
}

std::vector<uint8_t> bytesOf(const Events &events) {
    std::vector<uint8_t> bytes;
    append(bytes, events.x), append(bytes, events.y), append(bytes, events.p), append(bytes, events.t);
    return bytes;
}

cusEventArrays arraysOf(const Events &e) {
    return {e.x.data(), e.y.data(), e.p.data(), e.t.data(), e.size(), CUS_HOST};
}

// Arrays of events that several calls fill.
struct Filled {
    explicit Filled(size_t n) : events(), capacity(n) {
        events.x.resize(n), events.y.resize(n), events.p.resize(n), events.t.resize(n);
    }
    cusEventBuffers rest() {
        return {events.x.data() + count,
                events.y.data() + count,
                events.p.data() + count,
                events.t.data() + count,
                capacity - count,
                nullptr,
                0};
    }
    std::vector<uint8_t> bytes() const {
        Events some = events;
        some.x.resize(count), some.y.resize(count), some.p.resize(count), some.t.resize(count);
        return bytesOf(some);
    }
    Events events;
    size_t capacity, count = 0;
};

// ---- Generator --------------------------------------------------------------------------------------------------------

struct Generating {
    Generating() : frames(4 * 48, 70, CUS_8UC1, CUS_HOST), out(2000000) {
        std::mt19937_64 random(12);
        std::vector<uint8_t> pixels(4 * 48 * 70);
        for (auto &p : pixels)
            p = static_cast<uint8_t>(random());
        frames.set(pixels.data());
        cusEventGeneratorOptions options = cusEventGeneratorDefaults();
        options.leak_rate = 0.1, options.leak_jitter = 0.1, options.shot_rate = 5, options.threshold_spread = 0.05;
        CUS_EXPECT_OK(cusEventGeneratorCreate(&generator, 48, 70, &options));
    }
    cusMat frame(int i) {
        cusMat one = CUS_MAT_INIT;
        CUS_EXPECT_OK(cusMatRegion(&frames.mat, 0, 48 * i, 70, 48, &one));
        return one;
    }
    // Passes in another frame too: the pixels must be where they would be.
    std::vector<uint8_t> pushed() {
        std::vector<uint8_t> bytes;
        for (int i = 2; i < 4; ++i) {
            const cusMat one = frame(i);
            CUS_EXPECT_OK(cusEventGeneratorPush(generator, &one, 1000000 * i, &events));
            append(bytes, std::vector<int64_t>(events.t, events.t + events.count));
            append(bytes, std::vector<uint16_t>(events.x, events.x + events.count));
        }
        return bytes;
    }
    support::TestMat frames;
    Filled out;
    support::Owned<cusEventGeneratorDestroy> generator;
    cusEventArrays events = {};
};

TEST(Cancelling, EventGeneratorPush) {
    walk("cusEventGeneratorPush", 100, After::SAME, [] {
        const auto g = std::make_shared<Generating>();
        const cusMat first = g->frame(0);
        CUS_EXPECT_OK(cusEventGeneratorPush(g->generator, &first, 0, &g->events));
        return Work{[g] {
                        const cusMat one = g->frame(1);
                        return cusEventGeneratorPush(g->generator, &one, 1000000, &g->events);
                    },
                    [g] { return g->pushed(); }};
    });
}

TEST(Cancelling, EventGeneratorRun) {
    walk("cusEventGeneratorRun", 100, After::SAME, [] {
        const auto g = std::make_shared<Generating>();
        return Work{[g] {
                        static const int64_t times[] = {0, 500000};
                        cusMat two = CUS_MAT_INIT;
                        CUS_TRY(cusMatRegion(&g->frames.mat, 0, 0, 70, 96, &two));
                        const cusEventBuffers to = g->out.rest();
                        cusEventsGenerated done;
                        const cusStatus status = cusEventGeneratorRun(g->generator, &two, times, 2, &to, &done, nullptr);
                        g->out.count = status == CUS_OK ? done.count : 0;
                        return status;
                    },
                    [g] {
                        std::vector<uint8_t> bytes = g->out.bytes();
                        append(bytes, g->pushed());
                        return bytes;
                    }};
    });
}

// ---- Frames of events -------------------------------------------------------------------------------------------------

struct Stacking {
    Stacking() : events(someEvents(100000)) {
        for (int kind = CUS_REPR_HISTOGRAM; kind < CUS_REPR_HISTOGRAM + 8; ++kind)
            kinds.push_back(cusRepresentationDefaults(static_cast<cusRepresentationKind>(kind)));
        kinds.push_back(cusRepresentationDefaults(CUS_REPR_MDES_DIFF));
        kinds.erase(kinds.begin());
        CUS_EXPECT_OK(cusEventStackerCreate(&stacker, 48, 64, CUS_HOST, kinds.data(), 8));
    }
    ~Stacking() {
        for (cusMat &f : frames)
            cusMatRelease(&f);
    }
    std::vector<uint8_t> result() {
        std::vector<uint8_t> bytes;
        for (const cusMat &f : frames)
            append(bytes, support::elements(f));
        uint64_t skipped = 0;
        CUS_EXPECT_OK(cusEventStackerSkipped(stacker, &skipped, nullptr));
        bytes.push_back(static_cast<uint8_t>(skipped));
        return bytes;
    }
    Events events;
    std::vector<cusRepresentation> kinds;
    support::Owned<cusEventStackerDestroy> stacker;
    std::vector<cusMat> frames = std::vector<cusMat>(8, cusMat(CUS_MAT_INIT));
};

TEST(Cancelling, EventStackOfOneLongWindow) {
    walk("cusEventStack", 60, After::SAME, [] {
        const auto s = std::make_shared<Stacking>();
        return Work{[s] {
                        const cusEventArrays events = arraysOf(s->events);
                        const cusEventWindow all = {0, events.count};
                        return cusEventStack(s->stacker, &events, &all, 1, s->frames.data(), nullptr);
                    },
                    [s] { return s->result(); }};
    });
}

TEST(Cancelling, EventStackSpansOfManyWindows) {
    walk("cusEventStackSpans", 10, After::SAME, [] {
        const auto s = std::make_shared<Stacking>();
        return Work{[s] {
                        const cusEventArrays events = arraysOf(s->events);
                        std::vector<cusEventWindow> windows;
                        std::vector<cusEventSpan> spans(10);
                        for (uint64_t i = 0; i < 10; ++i)
                            windows.push_back({i * 100, i * 100 + 50});
                        return cusEventStackSpans(s->stacker, &events, windows.data(), spans.data(), 10, s->frames.data(),
                                                  nullptr);
                    },
                    [s] { return s->result(); }};
    });
}

// ---- Pipeline ---------------------------------------------------------------------------------------------------------

struct Piping {
    explicit Piping(const cusEventDecoderOptions *decoder = nullptr) : events(someEvents(200000)) {
        cusEventPipelineOptions options = cusEventPipelineDefaults();
        options.windowing.unit = CUS_WINDOW_COUNT, options.windowing.length = 10000;
        options.windowing.keep_incomplete = 1;
        options.batch_windows = 1;
        options.decoder = decoder;
        const cusRepresentation kind = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
        const cusFrameSink sink = [](void *user, const cusFrameBatch *batch) {
            ++static_cast<Piping *>(user)->batches;
            append(static_cast<Piping *>(user)->got, support::elements(batch->frames[0]));
            return CUS_OK;
        };
        CUS_EXPECT_OK(cusEventPipelineCreate(&pipeline, 480, 640, &kind, 1, &options, sink, this));
    }
    Events events;
    std::vector<uint8_t> got;
    int batches = 0;
    support::Owned<cusEventPipelineDestroy> pipeline;
};

TEST(Cancelling, EventPipelinePush) {
    walk("cusEventPipelinePush", 20, After::ENDED, [] {
        const auto p = std::make_shared<Piping>();
        return Work{[p] {
                        const cusEventArrays events = arraysOf(p->events);
                        return cusEventPipelinePush(p->pipeline, &events);
                    },
                    [p] { return p->got; }};
    });
}

TEST(Cancelling, EventPipelineFlush) {
    walk("cusEventPipelineFlush", 1, After::ENDED, [] {
        const auto p = std::make_shared<Piping>();
        cusEventArrays events = arraysOf(p->events);
        events.count = 9000; // an incomplete window
        CUS_EXPECT_OK(cusEventPipelinePush(p->pipeline, &events));
        return Work{[p] { return cusEventPipelineFlush(p->pipeline); }, [p] { return p->got; }};
    });
}

// ---- Recordings -------------------------------------------------------------------------------------------------------

struct Format {
    cusEventFormat format;
    const char *name;
};
constexpr Format FORMATS[] = {{CUS_EVENTS_EVT2, "r.raw"},     {CUS_EVENTS_EVT3, "r.raw"}, {CUS_EVENTS_DAT, "r.dat"},
                              {CUS_EVENTS_TEXT, "r.txt"},     {CUS_EVENTS_M3ED, "r.h5"},  {CUS_EVENTS_METAVISION, "r.hdf5"},
                              {CUS_EVENTS_AEDAT4, "r.aedat4"}};

cusEventWriterOptions writing(const Format &f) {
    cusEventWriterOptions options = cusEventWriterDefaults();
    options.format = f.format, options.width = 640, options.height = 480;
    return options;
}

// A recording in a file of its own.
struct Recording {
    Recording(const Format &f, size_t n) : events(someEvents(n)), out(n), path(folder / f.name) {
        support::Owned<cusEventWriterDiscard> writer;
        const cusEventWriterOptions options = writing(f);
        CUS_EXPECT_OK(cusEventWriterCreate(&writer, path.c_str(), &options));
        CUS_EXPECT_OK(cusEventWriterWrite(writer, n, events.x.data(), events.y.data(), events.p.data(), events.t.data()));
        cusEventWriter *finished = writer;
        *&writer = nullptr;
        CUS_EXPECT_OK(cusEventWriterFinish(finished));
        open();
    }
    void open() {
        cusEventReaderClose(reader);
        *&reader = nullptr;
        CUS_EXPECT_OK(cusEventReaderOpen(&reader, path.c_str(), nullptr));
    }
    cusStatus read(size_t n) {
        const cusEventBuffers to = out.rest();
        size_t got = 0;
        const cusStatus status = cusEventReaderRead(reader, std::min(n, to.capacity), to.x, to.y, to.p, to.t, &got);
        out.count += got;
        return status;
    }
    Folder folder;
    Events events;
    Filled out;
    std::string path;
    support::Owned<cusEventReaderClose> reader;
};

// What has been read before a cancel is in the arrays, and reading goes on behind it.
TEST(Cancelling, EventReaderRead) {
    for (const Format &f : FORMATS) {
        SCOPED_TRACE(cusEventFormatName(f.format));
        const bool is_hdf5 = f.format == CUS_EVENTS_M3ED || f.format == CUS_EVENTS_METAVISION;
        const size_t n = is_hdf5 ? (size_t{2} << 20) + 5 : 300000;
        const auto recording = std::make_shared<Recording>(f, n);
        walk("cusEventReaderRead", 2, After::GO_ON, [=] {
            recording->open();
            recording->out.count = 0;
            return Work{[=] { return recording->read(n); },
                        [=] {
                            EXPECT_TRUE(recording->out.bytes() == bytesOf(recording->events));
                            return recording->out.bytes();
                        }};
        });
    }
}

// A reader is where it was: the events after the place before are read, and what had been counted.
void seeking(const char *name, const std::function<cusStatus(Recording &)> &seek) {
    for (const Format &f : {FORMATS[1], FORMATS[3], FORMATS[6]}) {
        SCOPED_TRACE(cusEventFormatName(f.format));
        walk(name, 2, After::SAME, [&] {
            const auto r = std::make_shared<Recording>(f, 400000);
            CUS_EXPECT_OK(r->read(1234));
            return Work{[=] {
                            const cusStatus status = seek(*r);
                            if (status != CUS_ERROR_CANCELLED)
                                return status;
                            const std::string message = cusLastError();
                            cusEventCounts counts;
                            CUS_EXPECT_OK(cusEventReaderCounts(r->reader, &counts));
                            EXPECT_EQ(counts.events, 1234u);
                            const size_t before = r->out.count;
                            cusSetProgress(nullptr, nullptr);
                            CUS_EXPECT_OK(r->read(10));
                            for (size_t i = 0; i < 10; ++i)
                                EXPECT_EQ(r->out.events.t[before + i], r->events.t[1234 + i]);
                            CUS_EXPECT_OK(cusEventReaderSeekIndex(r->reader, 1234));
                            r->out.count = before;
                            return cusi_fail(status, "%s", message.c_str());
                        },
                        [=] {
                            CUS_EXPECT_OK(r->read(100));
                            return r->out.bytes();
                        }};
        });
    }
}

TEST(Cancelling, EventReaderSeekIndex) {
    seeking("cusEventReaderSeekIndex", [](Recording &r) { return cusEventReaderSeekIndex(r.reader, 390000); });
}
TEST(Cancelling, EventReaderSeekTime) {
    seeking("cusEventReaderSeekTime",
            [](Recording &r) { return cusEventReaderSeekTime(r.reader, r.events.t[390000], nullptr); });
}

// A shard is found by a scan, or by counting what a filter keeps. Afterwards it is found again.
TEST(Cancelling, EventFramesOpenReader) {
    for (const bool counts : {false, true})
        for (const Format &f : {FORMATS[1], FORMATS[3]})
            walk("cusEventFramesOpenReader", 1, After::SAME, [&] {
                const auto r = std::make_shared<Recording>(f, 400000);
                const auto window = std::make_shared<uint64_t>();
                return Work{[=] {
                                const cusRepresentation histogram = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
                                cusEventFramesOptions o = cusEventFramesDefaults();
                                o.windowing.length = 1000, o.shard = 1, o.shards = 3;
                                o.from = counts ? r->events.t[10] : o.from;
                                cusEventFrames *frames = nullptr;
                                const cusStatus status = cusEventFramesOpenReader(&frames, r->reader, &histogram, 1, &o);
                                if (status != CUS_OK)
                                    return status;
                                cusSetProgress(nullptr, nullptr);
                                cusFrameBatch batch;
                                CUS_EXPECT_OK(cusEventFramesNext(frames, &batch));
                                *window = batch.first;
                                cusEventFramesClose(frames);
                                CUS_EXPECT_OK(cusEventReaderSeekIndex(r->reader, 0));
                                return CUS_OK;
                            },
                            [=] {
                                std::vector<uint8_t> result;
                                append(result, std::vector<uint64_t>{*window});
                                CUS_EXPECT_OK(r->read(100));
                                append(result, r->out.bytes());
                                return result;
                            }};
            });
}

TEST(Cancelling, EventReaderScan) {
    for (const Format &f : {FORMATS[1], FORMATS[3]})
        walk("cusEventReaderScan", 1, After::SAME, [&] {
            const auto r = std::make_shared<Recording>(f, 400000);
            const auto part = std::make_shared<cusEventPart>();
            return Work{[=] { return cusEventReaderScan(r->reader, 0, 1, part.get()); },
                        [=] {
                            const auto *bytes = reinterpret_cast<const uint8_t *>(part.get());
                            std::vector<uint8_t> result(bytes, bytes + sizeof *part);
                            CUS_EXPECT_OK(r->read(100));
                            append(result, r->out.bytes());
                            return result;
                        }};
        });
}

TEST(Cancelling, EventReaderReadBytes) {
    walk("cusEventReaderReadBytes", 2, After::SAME, [&] {
        const auto r = std::make_shared<Recording>(FORMATS[2], 1200000);
        const auto bytes = std::make_shared<std::vector<uint8_t>>(12000000);
        cusEventDecoderOptions options;
        cusEventDecoderState state;
        CUS_EXPECT_OK(cusEventReaderDecoder(r->reader, &options, &state));
        return Work{[=] {
                        size_t count = 0;
                        return cusEventReaderReadBytes(r->reader, bytes->size(), bytes->data(), &count);
                    },
                    [=] { return *bytes; }};
    });
}

// The list begins again.
TEST(Cancelling, EventReaderReadTriggers) {
    walk("cusEventReaderReadTriggers", 10, After::SAME, [&] {
        const auto folder = std::make_shared<Folder>();
        const Events events = someEvents(400000);
        const std::string path = *folder / "r.raw";
        const cusEventWriterOptions options = writing(FORMATS[1]);
        cusEventWriter *writer = nullptr;
        CUS_EXPECT_OK(cusEventWriterCreate(&writer, path.c_str(), &options));
        std::vector<cusEventTrigger> triggers(1000);
        for (size_t i = 0; i < triggers.size(); ++i)
            triggers[i].t = events.t[i * 300], triggers[i].id = static_cast<int16_t>(i % 2);
        CUS_EXPECT_OK(cusEventWriterWriteTriggers(writer, triggers.size(), triggers.data()));
        CUS_EXPECT_OK(
            cusEventWriterWrite(writer, events.size(), events.x.data(), events.y.data(), events.p.data(), events.t.data()));
        CUS_EXPECT_OK(cusEventWriterFinish(writer));
        const auto reader = std::make_shared<eventio_test::Reader>(path);
        const auto found = std::make_shared<std::vector<cusEventTrigger>>(1001);
        const auto count = std::make_shared<size_t>(0);
        return Work{[=] {
                        const cusStatus status =
                            cusEventReaderReadTriggers(reader->reader, found->size(), found->data(), count.get());
                        EXPECT_EQ(*count, status == CUS_OK ? 1000u : 0u);
                        return status;
                    },
                    [=, keep = folder] {
                        std::vector<uint8_t> bytes;
                        for (size_t i = 0; i < *count; ++i)
                            append(bytes, std::vector<int64_t>{(*found)[i].t, (*found)[i].id, (*found)[i].value});
                        return bytes;
                    }};
    });
}

TEST(Cancelling, EventWriterWrite) {
    for (const Format &f : FORMATS) {
        SCOPED_TRACE(cusEventFormatName(f.format));
        walk("cusEventWriterWrite", 2, After::ENDED, [&] {
            const auto folder = std::make_shared<Folder>();
            const auto events = std::make_shared<Events>(someEvents(600000));
            const auto writer = std::make_shared<support::Owned<cusEventWriterDiscard>>();
            const cusEventWriterOptions options = writing(f);
            CUS_EXPECT_OK(cusEventWriterCreate(&*writer, (*folder / f.name).c_str(), &options));
            return Work{[=, keep = folder] {
                            return cusEventWriterWrite(*writer, events->size(), events->x.data(), events->y.data(),
                                                       events->p.data(), events->t.data());
                        },
                        [] { return std::vector<uint8_t>(); }};
        });
    }
}

TEST(Cancelling, FrameWriterWrite) {
    walk("cusFrameWriterWrite", 5, After::SAME, [] {
        const auto folder = std::make_shared<Folder>();
        const auto frames = std::make_shared<support::TestMat>(6 * 40, 50, CUS_8UC1, CUS_HOST);
        std::mt19937_64 random(13);
        frames->set(support::randomBytes(6 * 40 * 50, random).data());
        const std::string path = *folder / "f.h5";
        const std::shared_ptr<cusFrameWriter *> writer(new cusFrameWriter *(nullptr), [](cusFrameWriter **w) {
            cusFrameWriterDiscard(*w);
            delete w;
        });
        CUS_EXPECT_OK(cusFrameWriterCreate(writer.get(), path.c_str(), 40, 50, CUS_8UC1));
        CUS_EXPECT_OK(cusFrameWriterWrite(*writer, &frames->mat));
        return Work{[=] { return cusFrameWriterWrite(*writer, &frames->mat); },
                    [=, keep = folder] {
                        CUS_EXPECT_OK(cusFrameWriterFinish(std::exchange(*writer, nullptr)));
                        return eventio_test::load(path);
                    }};
    });
}

// ---- Decoder ----------------------------------------------------------------------------------------------------------

TEST(Cancelling, EventDecoderRun) {
    for (const Format &f : {FORMATS[0], FORMATS[1]}) {
        SCOPED_TRACE(cusEventFormatName(f.format));
        const auto r = std::make_shared<Recording>(f, 200000);
        cusEventDecoderOptions options;
        cusEventDecoderState state;
        CUS_ASSERT_OK(cusEventReaderDecoder(r->reader, &options, &state));
        const auto bytes = std::make_shared<std::vector<uint8_t>>(8000000);
        size_t n = 0;
        CUS_ASSERT_OK(cusEventReaderReadBytes(r->reader, bytes->size(), bytes->data(), &n));
        bytes->resize(n);
        walk("cusEventDecoderRun", 3, After::GO_ON, [&] {
            const auto decoder = std::make_shared<support::Owned<cusEventDecoderDestroy>>();
            CUS_EXPECT_OK(cusEventDecoderCreate(&*decoder, &options));
            CUS_EXPECT_OK(cusEventDecoderSetState(*decoder, &state));
            const auto out = std::make_shared<Filled>(200000);
            const auto at = std::make_shared<size_t>(0);
            return Work{[=] {
                            const cusEventBuffers to = out->rest();
                            cusEventDecoded done = {};
                            const cusStatus status =
                                cusEventDecoderRun(*decoder, bytes->data() + *at, bytes->size() - *at, &to, &done, nullptr);
                            out->count += static_cast<size_t>(done.count);
                            *at += static_cast<size_t>(done.used);
                            return status;
                        },
                        [=] { return out->bytes(); }};
        });
    }
}

TEST(Cancelling, EventPipelinePushBytes) {
    const auto r = std::make_shared<Recording>(FORMATS[1], 200000);
    cusEventDecoderOptions options;
    cusEventDecoderState state;
    CUS_ASSERT_OK(cusEventReaderDecoder(r->reader, &options, &state));
    std::vector<uint8_t> bytes(8000000);
    size_t n = 0;
    CUS_ASSERT_OK(cusEventReaderReadBytes(r->reader, bytes.size(), bytes.data(), &n));
    walk("cusEventPipelinePushBytes", 20, After::ENDED, [&] {
        const auto p = std::make_shared<Piping>(&options);
        return Work{[&, p] { return cusEventPipelinePushBytes(p->pipeline, bytes.data(), n); }, [p] { return p->got; }};
    });
}

} // namespace
