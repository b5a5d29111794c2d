// Recordings of any length, pushed in pieces, as events or as a file's raw bytes; frames go to a Python function.
#include "events.hpp"
#include "modules.hpp"

#include <exception>

namespace cuspy {

struct Pipeline {
    // State of the sink, which is called on the thread of push and flush, without the GIL.
    struct State {
        nb::object sink;
        Framework framework = Framework::NumPy;
        Device deliver;
        int rows = 0, cols = 0;
        std::exception_ptr error;
    };
    std::unique_ptr<State> state; // before the handle, so that the pipeline dies first
    Representations representations;
    Handle<cusEventPipeline> handle;
    Device compute;
    // A recording whose bytes the pipeline decodes, or None.
    nb::object recording;
    uint64_t number = 0; // among the recording's pipelines
    std::shared_ptr<cusMat> bytes;
};

static constexpr int PIECE_BYTES = 32 << 20; // of a recording, at most

// Frames of a batch as a new array of the framework. The consumer's stream and the batch's wait for each other.
static nb::object copyOf(Call &call, const cusMat &mat, int64_t count, const Pipeline::State &state, cusStream source) {
    const Array array =
        call.out(nb::none(), "frames", {count, state.rows, state.cols, CUS_CHANNELS(mat.type)}, CUS_DEPTH(mat.type));
    cusMat target = array.stack();
    if (mat.space == CUS_HOST) {
        call.run([&] { return cusMatCopy(&mat, &target, nullptr); });
        return array.object;
    }
    call.run([&] {
        cusStreamEvent event = nullptr;
        CUS_TRY(cusStreamEventCreate(&event));
        cusStatus status = cusStreamEventRecord(event, call.stream()); // the array's memory may still be in use there
        if (status == CUS_OK)
            status = cusStreamWaitEvent(source, event);
        if (status == CUS_OK)
            status = cusMatCopy(&mat, &target, source);
        if (status == CUS_OK)
            status = cusStreamEventRecord(event, source);
        if (status == CUS_OK)
            status = cusStreamWaitEvent(call.stream(), event);
        cusStreamEventDestroy(event);
        return status;
    });
    return array.object;
}

static cusStatus deliver(void *user, const cusFrameBatch *batch) {
    auto *state = static_cast<Pipeline::State *>(user);
    const Acquired acquired;
    try {
        checkSignals();
        Call call("EventPipeline");
        call.assume(state->deliver, state->framework);
        nb::list frames;
        for (int i = 0; i < batch->representations; ++i)
            frames.append(copyOf(call, batch->frames[i], static_cast<int64_t>(batch->count), *state, batch->stream));
        callPython(state->sink, batch->first, bytesOf(batch->windows, batch->count), frames);
        return CUS_OK;
    } catch (...) {
        state->error = std::current_exception();
        return CUS_ERROR_VALUE;
    }
}

static Pipeline *create(int rows, int cols, const nb::list &list, nb::object sink, const nb::tuple &windowing,
                        uint64_t first_window, uint64_t end_window, const char *device, const char *deliver_to,
                        nb::handle framework, size_t max_events, size_t batch_windows, uint64_t max_gap,
                        nb::object recording) {
    Call call("EventPipeline");
    call.assume(parseDevice("EventPipeline", device), Framework::NumPy);
    Representations representations = representationsOf(call, list);
    auto state = std::make_unique<Pipeline::State>();
    state->sink = std::move(sink);
    state->deliver = parseDevice("EventPipeline", deliver_to);
    state->framework = frameworkFor(deliver_to, framework);
    state->rows = rows;
    state->cols = cols;
    cusEventPipelineOptions options = cusEventPipelineDefaults();
    options.windowing = windowingOf(windowing);
    options.first_window = first_window;
    options.end_window = end_window;
    options.compute = call.space();
    options.deliver = state->deliver.space;
    options.max_events = max_events;
    options.batch_windows = batch_windows;
    options.max_gap = max_gap;
    cusEventDecoderOptions decoder = {};
    cusEventDecoderState start = {};
    Reader *const reader = recording.is_none() ? nullptr : nb::cast<Reader *>(recording);
    std::shared_ptr<cusMat> bytes;
    if (reader) {
        const Use<cusEventReader> use(reader->handle);
        options.decoder = &decoder;
        bytes.reset(new cusMat(CUS_MAT_INIT), [](cusMat *mat) {
            cusMatRelease(mat);
            delete mat;
        });
        call.run([&]() -> cusStatus {
            CUS_TRY(cusEventReaderDecoder(use, &decoder, &start));
            return call.space() == CUS_DEVICE ? cusMatCreatePinned(bytes.get(), 1, PIECE_BYTES, CUS_8UC1)
                                              : cusMatCreate(bytes.get(), 1, PIECE_BYTES, CUS_8UC1, CUS_HOST);
        });
    }
    cusEventPipeline *pipeline = nullptr;
    call.run([&] {
        return cusEventPipelineCreate(&pipeline, rows, cols, representations.data(), representations.count(), &options,
                                      deliver, state.get());
    });
    std::unique_ptr<Pipeline> made(new Pipeline{std::move(state),
                                                std::move(representations),
                                                {"EventPipeline", pipeline, cusEventPipelineDestroy},
                                                call.device(),
                                                std::move(recording),
                                                0,
                                                bytes});
    if (reader) {
        made->number = ++reader->pipelines;
        call.run([&] { return cusEventDecoderSetState(cusEventPipelineDecoder(pipeline), &start); });
    }
    return made.release();
}

// Runs `work`; an exception of the sink is passed on unchanged.
template<class Work>
static void runWithSink(Pipeline &self, Call &call, Work &&work) {
    self.state->error = nullptr;
    try {
        call.run(work);
    } catch (...) {
        if (!self.state->error)
            throw;
        PyErr_Clear();
    }
    if (self.state->error)
        std::rethrow_exception(std::exchange(self.state->error, nullptr));
}

static void push(Pipeline &self, nb::handle x, nb::handle y, nb::handle p, nb::handle t, int unit) {
    const Use<cusEventPipeline> pipeline(self.handle);
    Call host("EventPipeline.push");
    host.expect({CUS_HOST, -1}, "the pipeline, which takes events in host memory");
    const EventsIn in = eventsIn(host, x, y, p, t, static_cast<TimeUnit>(unit));
    Call call("EventPipeline.push");
    call.assume(self.compute, Framework::NumPy);
    runWithSink(self, call, [&] { return cusEventPipelinePush(pipeline, &in.events); });
}

// Decodes the next bytes of the recording, at most `count`; false: there was none.
static bool pushRecording(Pipeline &self, size_t count) {
    const Use<cusEventPipeline> pipeline(self.handle);
    if (self.recording.is_none())
        fail(CUS_ERROR_VALUE, "EventPipeline.push_recording: the pipeline takes events, expected one with a recording");
    Reader &recording = *nb::cast<Reader *>(self.recording);
    const Use<cusEventReader> reader(recording.handle);
    if (self.number != recording.pipelines)
        fail(CUS_ERROR_VALUE,
             "EventPipeline.push_recording: a later pipeline or iteration has started the recording again, "
             "expected one at a time");
    Call call("EventPipeline.push_recording");
    call.assume(self.compute, Framework::NumPy);
    size_t got = 0;
    std::exception_ptr damage; // comes after the bytes before it
    try {
        call.run(
            [&] { return cusEventReaderReadBytes(reader, std::min<size_t>(count, PIECE_BYTES), self.bytes->data, &got); });
    } catch (...) {
        damage = std::current_exception();
    }
    if (got)
        runWithSink(self, call, [&] { return cusEventPipelinePushBytes(pipeline, self.bytes->data, got); });
    if (damage)
        std::rethrow_exception(damage);
    checkSignals();
    return got > 0;
}

static void flush(Pipeline &self) {
    const Use<cusEventPipeline> pipeline(self.handle);
    Call call("EventPipeline.flush");
    call.assume(self.compute, Framework::NumPy);
    runWithSink(self, call, [&] { return cusEventPipelineFlush(pipeline); });
}

static nb::tuple counts(Pipeline &self) {
    const Use<cusEventPipeline> pipeline(self.handle);
    Call call("EventPipeline.counts");
    call.assume(self.compute, Framework::NumPy);
    cusEventPipelineCounts counts = {};
    call.run([&] { return cusEventPipelineQuery(pipeline, &counts); });
    return nb::make_tuple(counts.events, counts.windows, counts.skipped, countsOf(counts.decoded));
}

// The sink may refer back to the object, so Python's collector must see it.
static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) {
        Pipeline *pipeline = nb::inst_ptr<Pipeline>(self);
        Py_VISIT(pipeline->state->sink.ptr());
        Py_VISIT(pipeline->recording.ptr());
    }
    return 0;
}

static int clear(PyObject *self) {
    if (nb::inst_ready(self)) {
        nb::inst_ptr<Pipeline>(self)->state->sink.reset();
        nb::inst_ptr<Pipeline>(self)->recording = nb::none();
    }
    return 0;
}

void addPipeline(nb::module_ &module) {
    static PyType_Slot slots[] = {
        {Py_tp_traverse, reinterpret_cast<void *>(traverse)}, {Py_tp_clear, reinterpret_cast<void *>(clear)}, {0, nullptr}};
    const auto none = [](const char *name) { return nb::arg(name).none(); };
    nb::class_<Pipeline>(module, "EventPipeline", nb::type_slots(slots))
        .def(nb::new_(&create), nb::arg("rows"), nb::arg("cols"), nb::arg("representations"), nb::arg("sink"),
             nb::arg("windowing"), nb::arg("first_window"), nb::arg("end_window"), nb::arg("device"), nb::arg("deliver"),
             none("framework"), nb::arg("max_events"), nb::arg("batch_windows"), nb::arg("max_gap"), none("recording"))
        .def("close", [](Pipeline &self) { self.handle.close(); })
        .def_prop_ro("closed", [](Pipeline &self) { return self.handle.closed(); })
        .def("push", &push, none("x"), none("y"), none("p"), none("t"), nb::arg("unit"))
        .def("push_recording", &pushRecording, nb::arg("count"))
        .def("flush", &flush)
        .def("counts", &counts);
}

} // namespace cuspy
