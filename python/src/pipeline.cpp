// Frames of recordings of any length: pushed in pieces, and then given to a Python function; or of a file, batch by batch.
#include "events.hpp"
#include "modules.hpp"
#include "options.hpp"

#include "cusight/eventframes.h"

#include <exception>

namespace cuspy {

// Where frames go, and their size.
struct Delivery {
    Framework framework = Framework::NumPy;
    Device device;
    int rows = 0, cols = 0;
};

struct Pipeline {
    // State of the sink, which is called on the thread of push and flush, without the GIL.
    struct State {
        nb::object sink;
        Delivery to;
        std::exception_ptr error;
    };
    std::unique_ptr<State> state; // before the handle, so that the pipeline dies first
    Representations representations;
    Handle<cusEventPipeline> handle;
    Device compute;
};

struct Frames {
    nb::object reader; // before the handle, which reads from it
    Representations representations;
    Delivery to;
    Handle<cusEventFrames> handle;
};

// Frames of a batch as a new array of the framework. The consumer's stream and the batch's wait for each other.
static nb::object copyOf(Call &call, const cusMat &mat, int64_t count, const Delivery &to, cusStream source) {
    const Array array =
        call.out(nb::none(), "frames", {count, to.rows, to.cols, CUS_CHANNELS(mat.type)}, CUS_DEPTH(mat.type));
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

static nb::list copiesOf(Call &call, const cusFrameBatch &batch, const Delivery &to) {
    call.assume(to.device, to.framework);
    nb::list frames;
    for (int i = 0; i < batch.representations; ++i)
        frames.append(copyOf(call, batch.frames[i], static_cast<int64_t>(batch.count), to, batch.stream));
    return frames;
}

static cusStatus deliver(void *user, const cusFrameBatch *batch) {
    auto *state = static_cast<Pipeline::State *>(user);
    const Acquired acquired;
    try {
        checkSignals();
        Call call("EventPipeline");
        const nb::list frames = copiesOf(call, *batch, state->to);
        callPython(state->sink, batch->first, bytesOf(batch->windows, batch->count), frames);
        return CUS_OK;
    } catch (...) {
        state->error = std::current_exception();
        return CUS_ERROR_VALUE;
    }
}

static Pipeline *create(int rows, int cols, const nb::list &list, nb::object sink, const cusWindowing &windowing,
                        cusEventPipelineOptions options, const char *device, const char *deliver_to, nb::handle framework) {
    Call call("EventPipeline");
    call.assume(parseDevice("EventPipeline", device), Framework::NumPy);
    Representations representations = representationsOf(call, list);
    auto state = std::make_unique<Pipeline::State>();
    state->sink = std::move(sink);
    state->to = {frameworkFor(deliver_to, framework), parseDevice("EventPipeline", deliver_to), rows, cols};
    options.windowing = windowing;
    options.compute = call.space();
    options.deliver = state->to.device.space;
    cusEventPipeline *pipeline = nullptr;
    call.run([&] {
        return cusEventPipelineCreate(&pipeline, rows, cols, representations.data(), representations.count(), &options,
                                      deliver, state.get());
    });
    return new Pipeline{
        std::move(state), std::move(representations), {"EventPipeline", pipeline, cusEventPipelineDestroy}, call.device()};
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

static void advance(Pipeline &self, int64_t time) {
    const Use<cusEventPipeline> pipeline(self.handle);
    Call call("EventPipeline.advance");
    call.assume(self.compute, Framework::NumPy);
    runWithSink(self, call, [&] { return cusEventPipelineAdvance(pipeline, time); });
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
    return nb::make_tuple(counts.events, counts.windows, counts.skipped);
}

// The sink may refer back to the object, so Python's collector must see it.
static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) {
        Pipeline *pipeline = nb::inst_ptr<Pipeline>(self);
        Py_VISIT(pipeline->state->sink.ptr());
    }
    return 0;
}

static int clear(PyObject *self) {
    if (nb::inst_ready(self))
        nb::inst_ptr<Pipeline>(self)->state->sink.reset();
    return 0;
}

// ---- Frames of a recording -----------------------------------------------------------------------------------------------

// The GPUs of "cuda:0,cuda:1"; none for one device.
static std::vector<int> devicesOf(const char *name, const std::string &text) {
    std::vector<int> devices;
    for (size_t at = 0, end = 0; end != std::string::npos && text.find(',') != std::string::npos; at = end + 1) {
        end = text.find(',', at);
        const Device device = parseDevice(name, text.substr(at, end - at).c_str());
        int current = 0;
        if (device.index < 0)
            check(cusDeviceGet(&current));
        devices.push_back(device.index < 0 ? current : device.index);
    }
    return devices;
}

// `reader`: nothing else may use it. device: one, or several GPUs with commas.
static Frames *openFrames(nb::object reader, const nb::list &list, const cusWindowing &windowing,
                          cusEventFramesOptions options, const char *device, nb::handle framework) {
    static constexpr char name[] = "Recording.frames";
    const std::string text = device, first = text.substr(0, text.find(','));
    const std::vector<int> devices = devicesOf(name, text);
    Call call(name);
    call.assume(parseDevice(name, first.c_str()), Framework::NumPy);
    Representations representations = representationsOf(call, list);
    options.windowing = windowing;
    options.compute = options.deliver = call.space();
    options.devices = devices.empty() ? nullptr : devices.data();
    options.device_count = static_cast<int>(devices.size());
    cusEventFrames *frames = nullptr;
    const Use<cusEventReader> use(nb::cast<Reader *>(reader)->handle);
    call.run(
        [&] { return cusEventFramesOpenReader(&frames, use, representations.data(), representations.count(), &options); });
    return new Frames{std::move(reader),
                      std::move(representations),
                      {frameworkFor(first.c_str(), framework), call.device(), options.rows, options.cols},
                      {name, frames, cusEventFramesClose}};
}

// (first window, windows, frames), or None at the end.
static nb::object next(Frames &self) {
    const Use<cusEventFrames> frames(self.handle);
    Call call("Recording.frames");
    call.assume(self.to.device, Framework::NumPy);
    cusFrameBatch batch = {};
    call.run([&] { return cusEventFramesNext(frames, &batch); });
    checkSignals();
    if (!batch.count)
        return nb::none();
    Delivery to = self.to;
    if (batch.device >= 0)
        to.device.index = batch.device;
    Call copying("Recording.frames");
    return nb::make_tuple(batch.first, bytesOf(batch.windows, batch.count), copiesOf(copying, batch, to));
}

static void restart(Frames &self) {
    const Use<cusEventFrames> frames(self.handle);
    Call call("Recording.frames");
    call.assume(self.to.device, Framework::NumPy);
    call.run([&] { return cusEventFramesRestart(frames); });
}

static nb::tuple countsOfFrames(Frames &self) {
    const Use<cusEventFrames> frames(self.handle);
    cusEventFramesCounts counts = {};
    check(cusEventFramesQuery(frames, &counts));
    return nb::make_tuple(counts.skipped, countsOf(counts.read));
}

static nb::tuple launcherShard() {
    uint64_t shard = 0, shards = 0;
    check(cusEventFramesLauncherShard(&shard, &shards));
    return nb::make_tuple(shard, shards);
}

void addPipeline(nb::module_ &module) {
    module.def("launcher_shard", &launcherShard);
    static PyType_Slot slots[] = {
        {Py_tp_traverse, reinterpret_cast<void *>(traverse)}, {Py_tp_clear, reinterpret_cast<void *>(clear)}, {0, nullptr}};
    typedef cusEventPipelineOptions P;
    Options<P>(module, "PipelineOptions", "EventPipeline", cusEventPipelineDefaults)
        .numbers("first_window", &P::first_window, "end_window", &P::end_window, "max_events", &P::max_events,
                 "batch_windows", &P::batch_windows, "max_gap", &P::max_gap);
    typedef cusEventFramesOptions F;
    Options<F>(module, "FramesOptions", "Recording.frames", cusEventFramesDefaults)
        .numbers("rows", &F::rows, "cols", &F::cols, "first_window", &F::first_window, "end_window", &F::end_window,
                 "max_events", &F::max_events, "batch_windows", &F::batch_windows, "max_gap", &F::max_gap, "shard",
                 &F::shard, "shards", &F::shards);
    closeable<Pipeline>(module, "EventPipeline", nb::type_slots(slots))
        .def(nb::new_(&create), nb::arg("rows"), nb::arg("cols"), nb::arg("representations"), nb::arg("sink"),
             nb::arg("windowing"), nb::arg("options"), nb::arg("device"), nb::arg("deliver"), none("framework"))
        .def("push", &push, none("x"), none("y"), none("p"), none("t"), nb::arg("unit"))
        .def("advance", &advance, nb::arg("time"))
        .def("flush", &flush)
        .def("counts", &counts);
    nb::class_<Frames>(module, "EventFrames")
        .def(nb::new_(&openFrames), nb::arg("reader"), nb::arg("representations"), nb::arg("windowing"), nb::arg("options"),
             nb::arg("device"), none("framework"))
        .def("close", [](Frames &self) { self.handle.close(); })
        .def("next", &next)
        .def("restart", &restart)
        .def("counts", &countsOfFrames);
}

} // namespace cuspy
