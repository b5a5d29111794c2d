// Event recordings: reader, filters, writers. Host only. Events from video, on either device.
#include "events.hpp"
#include "frameworks.hpp"
#include "modules.hpp"
#include "options.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace cuspy {

static Reader *openReader(nb::handle source, const std::optional<std::string> &camera, cusEventReaderOptions options) {
    options.camera = camera ? camera->c_str() : nullptr;
    Call call("events.open");
    cusEventReader *reader = nullptr;
    if (nb::isinstance<nb::str>(source)) {
        const auto path = nb::cast<std::string>(source);
        call.run([&] { return cusEventReaderOpen(&reader, path.c_str(), &options); });
        return new Reader{{}, {"Recording", reader, cusEventReaderClose}};
    }
    Array memory = call.in(source, "source");
    const void *data = memory.elements(U8);
    const auto size = static_cast<size_t>(memory.shape[0]);
    call.run([&] { return cusEventReaderOpenMemory(&reader, data, size, &options); });
    return new Reader{std::move(memory), {"Recording", reader, cusEventReaderClose}};
}

static nb::tuple info(Reader &self) {
    const Use<cusEventReader> reader(self.handle);
    cusEventInfo fields = {};
    check(cusEventReaderInfo(reader, &fields));
    const nb::object camera =
        nb::steal(PyUnicode_DecodeUTF8(fields.camera, static_cast<Py_ssize_t>(std::strlen(fields.camera)),
                                       "backslashreplace")); // the file may hold any bytes
    return nb::make_tuple(cusEventFormatName(fields.format), fields.width, fields.height, fields.count, fields.first_time,
                          fields.last_time, camera);
}

nb::tuple countsOf(const cusEventCounts &c) {
    return nb::make_tuple(c.events, c.triggers_rising, c.triggers_falling, c.bad_coordinates, c.bad_polarity, c.bad_time,
                          c.untimed, c.bad_words);
}

// Whether a pipeline decodes the recording's bytes; a pipeline that does so starts again.
static nb::tuple counts(Reader &self) {
    const Use<cusEventReader> reader(self.handle);
    cusEventCounts c = {};
    check(cusEventReaderCounts(reader, &c));
    return countsOf(c);
}

// Reads up to `capacity` events as (x, y, p, t, count), into the arrays if they are given. If the recording is damaged, returns
// the events before the damage; the next call raises.
static nb::tuple read(Reader &self, size_t capacity, nb::handle to_x, nb::handle to_y, nb::handle to_p, nb::handle to_t) {
    const Use<cusEventReader> reader(self.handle);
    Call call("Recording.read");
    call.assume({CUS_HOST, -1}, Framework::NumPy);
    const auto n = static_cast<int64_t>(capacity);
    const Array x = call.out(to_x, "x", {n}, U16), y = call.out(to_y, "y", {n}, U16), p = call.out(to_p, "p", {n}, U8),
                t = call.out(to_t, "t", {n}, I64);
    size_t total = 0;
    call.run([&] {
        const cusStatus status =
            cusEventReaderRead(reader, capacity, static_cast<uint16_t *>(x.data), static_cast<uint16_t *>(y.data),
                               static_cast<uint8_t *>(p.data), static_cast<int64_t *>(t.data), &total);
        return total > 0 && status != CUS_ERROR_CANCELLED ? CUS_OK : status;
    });
    return nb::make_tuple(x.object, y.object, p.object, t.object, total);
}

// All external triggers as (t, id, value). Raises if the recording is damaged before its end.
static nb::tuple triggers(Reader &self) {
    const Use<cusEventReader> reader(self.handle);
    Call call("Recording.triggers");
    std::vector<cusEventTrigger> all;
    call.run([&] { return cusEventReaderRewindTriggers(reader); });
    constexpr size_t SOME = 65536;
    for (size_t got = SOME; got == SOME;) {
        const size_t before = all.size();
        all.resize(before + SOME);
        call.run([&] { return cusEventReaderReadTriggers(reader, SOME, &all[before], &got); });
        all.resize(before + got);
    }
    Call made("Recording.triggers");
    made.assume({CUS_HOST, -1}, Framework::NumPy);
    const auto n = static_cast<int64_t>(all.size());
    const Array t = made.out(nb::none(), "t", {n}, I64), id = made.out(nb::none(), "id", {n}, I16),
                value = made.out(nb::none(), "value", {n}, U8);
    for (size_t i = 0; i < all.size(); ++i) {
        static_cast<int64_t *>(t.data)[i] = all[i].t;
        static_cast<int16_t *>(id.data)[i] = all[i].id;
        static_cast<uint8_t *>(value.data)[i] = all[i].value;
    }
    return nb::make_tuple(t.object, id.object, value.object);
}

static void seekIndex(Reader &self, int64_t index) {
    const Use<cusEventReader> reader(self.handle);
    Call call("Recording.seek_index");
    call.run([&] { return cusEventReaderSeekIndex(reader, index); });
}

static int64_t seekTime(Reader &self, int64_t time) {
    const Use<cusEventReader> reader(self.handle);
    Call call("Recording.seek_time");
    int64_t index = 0;
    call.run([&] { return cusEventReaderSeekTime(reader, time, &index); });
    return index;
}

// ---- Decoder ------------------------------------------------------------------------------------------------------------

struct RawDecoder {
    Handle<cusEventDecoder> handle;
};

static RawDecoder *createDecoder(const cusEventDecoderOptions &options) {
    Call call("EventDecoder");
    cusEventDecoder *decoder = nullptr;
    call.run([&] { return cusEventDecoderCreate(&decoder, &options); });
    return new RawDecoder{{"EventDecoder", decoder, cusEventDecoderDestroy}};
}

// Decodes the next bytes; returns (x, y, p, t), the counts since the start and, of EVT3, the last time word in microseconds:
// no later event is earlier. -1 before the first.
static nb::tuple runDecoder(RawDecoder &self, nb::handle object) {
    const Use<cusEventDecoder> decoder(self.handle);
    Call call("EventDecoder");
    call.expect({CUS_HOST, -1}, "the decoder, which takes bytes in host memory");
    const Array piece = call.in(object, "bytes");
    const auto *bytes = static_cast<const char *>(piece.elements(U8));
    auto left = static_cast<size_t>(piece.shape[0]);
    std::vector<uint16_t> x, y;
    std::vector<uint8_t> p;
    std::vector<int64_t> t;
    cusEventDecoded decoded = {};
    size_t total = 0;
    call.run([&] {
        for (;;) {
            const size_t room = left + 64; // more than a word's events, and of most recordings more than all
            x.resize(total + room), y.resize(total + room), p.resize(total + room), t.resize(total + room);
            const cusEventBuffers out = {&x[total], &y[total], &p[total], &t[total], room, nullptr, 0};
            const cusStatus status = cusEventDecoderRun(decoder, bytes, left, &out, &decoded, nullptr);
            total += decoded.count;
            if (status != CUS_ERROR_CAPACITY)
                return status;
            bytes += decoded.used;
            left -= decoded.used;
        }
    });
    cusEventDecoderState state = {};
    check(cusEventDecoderGetState(decoder, &state));
    Call made("EventDecoder");
    made.assume({CUS_HOST, -1}, Framework::NumPy);
    const auto copy = [&](const char *name, int dtype, const void *from) {
        const Array array = made.out(nb::none(), name, {static_cast<int64_t>(total)}, dtype);
        if (total)
            std::memcpy(array.data, from, total * dtypeSize(dtype));
        return array.object;
    };
    return nb::make_tuple(copy("x", U16, x.data()), copy("y", U16, y.data()), copy("p", U8, p.data()),
                          copy("t", I64, t.data()), countsOf(decoded.counts),
                          state.time_high < 0 ? -1 : state.time_high * 4096);
}

// ---- Filters ------------------------------------------------------------------------------------------------------------

struct Filter {
    Handle<cusEventFilter> handle;
};

// numbers: the options in the order of the struct.
static Filter *createFilter(const cusEventFilterOptions &options) {
    Call call("EventFilter");
    cusEventFilter *filter = nullptr;
    call.run([&] { return cusEventFilterCreate(&filter, &options); });
    return new Filter{{"EventFilter", filter, cusEventFilterDestroy}};
}

// Filters copies; returns (x, y, p, t, kept).
static nb::tuple runFilter(Filter &self, nb::handle x, nb::handle y, nb::handle p, nb::handle t, int unit) {
    const Use<cusEventFilter> filter(self.handle);
    Call call("EventFilter");
    call.expect({CUS_HOST, -1}, "the filter, which takes events in host memory");
    const EventsIn in = eventsIn(call, x, y, p, t, static_cast<TimeUnit>(unit));
    if (!in.events.t && in.events.count)
        fail(CUS_ERROR_NULL, "EventFilter: t is None, expected times");
    Call made("EventFilter");
    made.assume({CUS_HOST, -1}, Framework::NumPy);
    const size_t n = in.events.count;
    const auto copy = [&](const char *name, int dtype, const void *from) {
        Array array = made.out(nb::none(), name, {static_cast<int64_t>(n)}, dtype);
        if (n)
            std::memcpy(array.data, from, n * dtypeSize(dtype));
        return array;
    };
    const Array x_out = copy("x", U16, in.events.x), y_out = copy("y", U16, in.events.y),
                p_out = copy("p", U8, in.events.p), t_out = copy("t", I64, in.events.t);
    size_t kept = 0;
    call.run([&] {
        return cusEventFilterRun(filter, n, static_cast<uint16_t *>(x_out.data), static_cast<uint16_t *>(y_out.data),
                                 static_cast<uint8_t *>(p_out.data), static_cast<int64_t *>(t_out.data), &kept);
    });
    return nb::make_tuple(x_out.object, y_out.object, p_out.object, t_out.object, kept);
}

// ---- Writers ------------------------------------------------------------------------------------------------------------

// Finish and discard both free the writer: the handle's own destructor discards what was not finished.
struct Writer {
    Handle<cusEventWriter *> handle;
};

static void destroyWriter(cusEventWriter **writer) {
    cusEventWriterDiscard(*writer);
    delete writer;
}

static Writer *createWriter(const std::string &path, const std::optional<std::string> &camera,
                            cusEventWriterOptions options) {
    options.camera = camera ? camera->c_str() : nullptr;
    Call call("EventWriter");
    cusEventWriter *writer = nullptr;
    call.run([&] { return cusEventWriterCreate(&writer, path.c_str(), &options); });
    return new Writer{{"EventWriter", new cusEventWriter *(writer), destroyWriter}};
}

static void writeEvents(Writer &self, nb::handle x, nb::handle y, nb::handle p, nb::handle t, int unit) {
    const Use<cusEventWriter *> writer(self.handle);
    Call call("EventWriter.write");
    call.expect({CUS_HOST, -1}, "the writer, which takes events in host memory");
    const EventsIn in = eventsIn(call, x, y, p, t, static_cast<TimeUnit>(unit));
    if (!in.events.t && in.events.count)
        fail(CUS_ERROR_NULL, "EventWriter.write: t is None, expected times");
    call.run([&] {
        return cusEventWriterWrite(*static_cast<cusEventWriter **>(writer), in.events.count, in.events.x, in.events.y,
                                   in.events.p, in.events.t);
    });
}

static void finishEvents(Writer &self) {
    {
        const Use<cusEventWriter *> use(self.handle);
        cusEventWriter *writer = std::exchange(*static_cast<cusEventWriter **>(use), nullptr);
        Call call("EventWriter.close");
        call.run([&] { return cusEventWriterFinish(writer); });
    }
    self.handle.close();
}

struct FrameWriter {
    Handle<cusFrameWriter *> handle;
    int rows, cols, type;
};

static void destroyFrameWriter(cusFrameWriter **writer) {
    cusFrameWriterDiscard(*writer);
    delete writer;
}

static FrameWriter *createFrameWriter(const std::string &path, int rows, int cols, int channels, const std::string &dtype) {
    int depth = UNKNOWN;
    for (int i = U8; i <= F16; ++i)
        depth = dtype == dtypeName(i) ? i : depth;
    if (depth == UNKNOWN)
        fail(CUS_ERROR_TYPE,
             "FrameWriter: dtype is '%s', expected uint8, int8, uint16, int16, int32, float16, float32 or float64",
             dtype.c_str());
    Call call("FrameWriter");
    cusFrameWriter *writer = nullptr;
    const int type = CUS_MAKETYPE(depth, channels);
    call.run([&] { return cusFrameWriterCreate(&writer, path.c_str(), rows, cols, type); });
    return new FrameWriter{{"FrameWriter", new cusFrameWriter *(writer), destroyFrameWriter}, rows, cols, type};
}

static void writeFrames(FrameWriter &self, nb::handle object) {
    const Use<cusFrameWriter *> use(self.handle);
    cusFrameWriter *const writer = *static_cast<cusFrameWriter **>(use);
    Call call("FrameWriter.write");
    call.expect({CUS_HOST, -1}, "the writer, which takes frames in host memory");
    const Array frames = call.in(object, "frames");
    if (frames.shape.size() == 3)
        fail(
            CUS_ERROR_SIZE,
            "FrameWriter.write: frames has shape %s, expected (frames, rows, columns, channels); one frame is frames[None]",
            shapeText(frames.shape).c_str());
    const cusMat mats = frames.stack();
    if (frames.shape[1] != self.rows)
        fail(CUS_ERROR_SIZE, "FrameWriter.write: frames have %lld rows, expected %d",
             static_cast<long long>(frames.shape[1]), self.rows);
    call.run([&] { return cusFrameWriterWrite(writer, &mats); });
}

static void finishFrames(FrameWriter &self) {
    {
        const Use<cusFrameWriter *> use(self.handle);
        cusFrameWriter *writer = std::exchange(*static_cast<cusFrameWriter **>(use), nullptr);
        Call call("FrameWriter.close");
        call.run([&] { return cusFrameWriterFinish(writer); });
    }
    self.handle.close();
}

// ---- Generator ----------------------------------------------------------------------------------------------------------

struct Generator {
    Handle<cusEventGenerator> handle;
    Device device;
    int rows, cols;
};

static Generator *createGenerator(int rows, int cols, cusEventGeneratorOptions options, const char *device) {
    Call call("EventGenerator");
    call.assume(parseDevice("EventGenerator", device), Framework::NumPy);
    options.space = call.space();
    cusEventGenerator *generator = nullptr;
    call.run([&] { return cusEventGeneratorCreate(&generator, rows, cols, &options); });
    return new Generator{{"EventGenerator", generator, cusEventGeneratorDestroy}, call.device(), rows, cols};
}

// An array (frames, rows, cols) as one matrix of frames * rows rows.
static cusMat framesOf(const Generator &self, const Array &frames) {
    const Shape &shape = frames.shape, &strides = frames.strides;
    if (frames.dtype != U8 || shape.size() != 3 || shape[0] < 1 || shape[0] > CUS_EVENT_GENERATOR_MAX_FRAMES ||
        shape[1] != self.rows || shape[2] != self.cols)
        fail(CUS_ERROR_VALUE, "%s: frames is an array of %s with %d axes, expected uint8 of (1..%d, %d, %d)",
             frames.function, dtypeName(frames.dtype), static_cast<int>(shape.size()), CUS_EVENT_GENERATOR_MAX_FRAMES,
             self.rows, self.cols);
    if ((strides[2] != 1 && self.cols > 1) || (strides[0] != strides[1] * self.rows && shape[0] > 1))
        fail(CUS_ERROR_VALUE, "%s: frames has gaps between columns or frames, expected none; make a copy", frames.function);
    cusMat mat = CUS_MAT_INIT;
    check(cusMatWrap(&mat, static_cast<int>(shape[0]) * self.rows, self.cols, CUS_8UC1, frames.device.space, frames.data,
                     static_cast<size_t>(strides[1])));
    return mat;
}

// Counts the events first, so that the arrays have their size.
static nb::tuple runGenerator(Generator &self, nb::handle frames_object, nb::handle times_object, nb::handle stream) {
    const Use<cusEventGenerator> generator(self.handle);
    Call call("EventGenerator.run", stream), host("EventGenerator.run");
    call.expect(self.device, "the EventGenerator");
    const Array frames = call.in(frames_object, "frames");
    const Array times = host.in(times_object, "times");
    const cusMat mat = framesOf(self, frames);
    const auto *const t = static_cast<const int64_t *>(times.elements(I64));
    if (times.shape[0] != frames.shape[0])
        fail(CUS_ERROR_VALUE, "%s: times has %lld elements, expected %lld, one for each frame", call.function(),
             static_cast<long long>(times.shape[0]), static_cast<long long>(frames.shape[0]));
    const int count = static_cast<int>(frames.shape[0]);
    cusEventsGenerated made = {};
    const auto run = [&](const cusEventBuffers &out, bool counts) {
        call.run([&] {
            const cusStatus queued = cusEventGeneratorRun(generator, &mat, t, count, &out, nullptr, call.stream());
            if (queued != CUS_OK && queued != CUS_ERROR_CAPACITY)
                return queued;
            const cusStatus done = cusEventGeneratorCheck(generator, &made, call.stream());
            return counts && done == CUS_ERROR_CAPACITY ? CUS_OK : done;
        });
    };
    run({}, true);
    const auto n = static_cast<int64_t>(made.count);
    const Array x = call.out(nb::none(), "x", {n}, U16), y = call.out(nb::none(), "y", {n}, U16),
                p = call.out(nb::none(), "p", {n}, U8), times_out = call.out(nb::none(), "t", {n}, I64);
    if (made.status != CUS_OK)
        run({static_cast<uint16_t *>(x.data), static_cast<uint16_t *>(y.data), static_cast<uint8_t *>(p.data),
             static_cast<int64_t *>(times_out.data), made.count, nullptr, 0},
            false);
    return nb::make_tuple(x.object, y.object, p.object, times_out.object);
}

static nb::tuple generate(Generator &self, nb::handle frame_object, int64_t time) {
    const Use<cusEventGenerator> generator(self.handle);
    Call call("EventGenerator.push");
    call.expect({CUS_HOST, -1}, "the generator, which takes frames in host memory");
    const Array frame = call.in(frame_object, "frame");
    const cusMat mat = frame.matrix();
    cusEventArrays events = {};
    call.run([&] { return cusEventGeneratorPush(generator, &mat, time, &events); });
    const auto n = static_cast<int64_t>(events.count);
    Call copies("EventGenerator.push");
    copies.assume({CUS_HOST, -1}, Framework::NumPy);
    const auto copy = [&](const char *name, int dtype, const void *from) {
        const Array array = copies.out(nb::none(), name, {n}, dtype);
        if (n)
            std::memcpy(array.data, from, events.count * dtypeSize(dtype));
        return array.object;
    };
    return nb::make_tuple(copy("x", U16, events.x), copy("y", U16, events.y), copy("p", U8, events.p),
                          copy("t", I64, events.t));
}

void addEventio(nb::module_ &module) {
    const nb::dict formats = wordsOf(cusEventFormatName);
    typedef cusEventReaderOptions R;
    Options<R>(module, "ReaderOptions", "events.open", cusEventReaderDefaults)
        .word("format", &R::format, formats)
        .word("bad_events", &R::bad_events, wordsOf({{"stop", CUS_BAD_EVENTS_STOP}, {"skip", CUS_BAD_EVENTS_SKIP}}))
        .numbers("width", &R::width, "height", &R::height, "threads", &R::threads, "max_memory", &R::max_memory,
                 "max_chunk", &R::max_chunk, "pin_file", &R::pin_file);
    typedef cusEventDecoderOptions D;
    Options<D>(module, "DecoderOptions", "EventDecoder", cusEventDecoderDefaults)
        .word("format", &D::format, formats)
        .word("bad_events", &D::bad_events, wordsOf({{"stop", CUS_BAD_EVENTS_STOP}, {"skip", CUS_BAD_EVENTS_SKIP}}))
        .numbers("width", &D::width, "height", &D::height);
    typedef cusEventFilterOptions F;
    Options<F>(module, "FilterOptions", "EventFilter", cusEventFilterDefaults)
        .numbers("width", &F::width, "height", &F::height, "begin", &F::begin, "end", &F::end, "hot_events", &F::hot_events,
                 "hot_period", &F::hot_period, "activity", &F::activity, "x", &F::x, "y", &F::y, "region_width",
                 &F::region_width, "region_height", &F::region_height, "flip_x", &F::flip_x, "flip_y", &F::flip_y,
                 "grid_width", &F::grid_width, "grid_height", &F::grid_height);
    typedef cusEventWriterOptions W;
    Options<W>(module, "WriterOptions", "EventWriter", cusEventWriterDefaults)
        .word("format", &W::format, formats)
        .numbers("width", &W::width, "height", &W::height, "chunk", &W::chunk, "compress", &W::compress, "threads",
                 &W::threads);
    typedef cusEventGeneratorOptions G;
    Options<G>(module, "GeneratorOptions", "EventGenerator", cusEventGeneratorDefaults)
        .numbers("positive", &G::positive, "negative", &G::negative, "threshold_spread", &G::threshold_spread,
                 "refractory_us", &G::refractory_us, "leak_rate", &G::leak_rate, "leak_jitter", &G::leak_jitter,
                 "shot_rate", &G::shot_rate, "seed", &G::seed, "max_events", &G::max_events);
    closeable<Reader>(module, "EventReader")
        .def(nb::new_(&openReader), nb::arg("source"), none("camera"), nb::arg("options"))
        .def("info", &info)
        .def("counts", &counts)
        .def("read", &read, nb::arg("capacity"), none("x"), none("y"), none("p"), none("t"))
        .def("triggers", &triggers)
        .def("seek_index", &seekIndex, nb::arg("index"))
        .def("seek_time", &seekTime, nb::arg("time"));
    closeable<RawDecoder>(module, "EventDecoder")
        .def(nb::new_(&createDecoder), nb::arg("options"))
        .def("run", &runDecoder, nb::arg("bytes"));
    closeable<Filter>(module, "EventFilter")
        .def(nb::new_(&createFilter), nb::arg("options"))
        .def("run", &runFilter, none("x"), none("y"), none("p"), none("t"), nb::arg("unit"));
    closeable<Writer>(module, "EventWriter")
        .def(nb::new_(&createWriter), nb::arg("path"), none("camera"), nb::arg("options"))
        .def("write", &writeEvents, none("x"), none("y"), none("p"), none("t"), nb::arg("unit"))
        .def("finish", &finishEvents);
    closeable<FrameWriter>(module, "FrameWriter")
        .def(nb::new_(&createFrameWriter), nb::arg("path"), nb::arg("rows"), nb::arg("cols"), nb::arg("channels"),
             nb::arg("dtype"))
        .def("write", &writeFrames, none("frames"))
        .def("finish", &finishFrames);
    closeable<Generator>(module, "EventGenerator")
        .def(nb::new_(&createGenerator), nb::arg("rows"), nb::arg("cols"), nb::arg("options"), nb::arg("device"))
        .def("push", &generate, none("frame"), nb::arg("time"))
        .def("run", &runGenerator, none("frames"), none("times"), none("stream"));
}

} // namespace cuspy
