// Frames from events in memory.
#include "events.hpp"
#include "modules.hpp"
#include "options.hpp"

#include <algorithm>
#include <climits>
#include <cstring>

namespace cuspy {

// On the host a call is cut into pieces of this many events; Ctrl-C is checked between them.
static constexpr uint64_t PIECE = uint64_t{4} << 20;

Representations representationsOf(Call &call, const nb::list &list) {
    Representations all;
    for (nb::handle item : list) {
        const nb::tuple pair = nb::cast<nb::tuple>(item);
        cusRepresentation one = nb::cast<cusRepresentation>(pair[0]);
        if (!pair[1].is_none()) {
            all.maps.push_back(std::make_unique<Representations::Map>());
            Representations::Map &map = *all.maps.back();
            map.array = call.in(pair[1], "representation's map");
            map.mat = map.array.matrix();
            one.map = &map.mat;
        }
        all.list.push_back(one);
    }
    return all;
}

int typeOf(const cusRepresentation &representation) {
    int type = 0;
    check(cusRepresentationType(&representation, &type));
    return type;
}

using Windows = std::vector<cusEventWindow>;

static Windows listWindows(Call &call, const cusEventArrays &events, const cusWindowing &windowing) {
    size_t count = 0;
    const auto list = [&](cusEventWindow *room, size_t capacity) {
        bool fits = false;
        call.run([&] {
            const cusStatus status = cusEventWindows(&events, &windowing, room, capacity, &count, call.stream());
            fits = status != CUS_ERROR_CAPACITY;
            return fits ? status : CUS_OK;
        });
        return fits;
    };
    // By duration on the GPU, each call waits for the stream, so the first one has room for most lists.
    cusEventWindow most[512];
    if (list(most, std::size(most)))
        return Windows(most, most + count);
    Windows windows;
    do
        windows.resize(count);
    while (!list(windows.data(), windows.size()));
    return windows;
}

// Those of a cusWindowing, or the rows of an (n, 2) array in host memory.
static Windows windowsOf(Call &call, const cusEventArrays &events, nb::handle given) {
    if (nb::isinstance<cusWindowing>(given))
        return listWindows(call, events, nb::cast<const cusWindowing &>(given));
    Call host(call.function());
    const Array rows = host.in(given, "windows");
    if (rows.device.space != CUS_HOST || rows.shape.size() != 2 || rows.shape[1] != 2 ||
        (rows.dtype != U64 && rows.dtype != I64))
        fail(CUS_ERROR_VALUE,
             "%s: windows is an array of %s, expected (n, 2) int64 or uint64 in host memory: first and last",
             call.function(), dtypeName(rows.dtype));
    Windows windows(static_cast<size_t>(rows.shape[0]));
    for (size_t i = 0; i < windows.size(); ++i) {
        const char *row = static_cast<const char *>(rows.data) + static_cast<int64_t>(i) * rows.strides[0];
        int64_t first = 0, last = 0;
        std::memcpy(&first, row, sizeof first);
        std::memcpy(&last, row + rows.strides[1], sizeof last);
        if (first < 0 || last < 0)
            fail(CUS_ERROR_VALUE, "%s: windows[%zu] is %lld, %lld, expected numbers of events from 0", call.function(), i,
                 static_cast<long long>(first), static_cast<long long>(last));
        windows[i] = {static_cast<uint64_t>(first), static_cast<uint64_t>(last)};
    }
    return windows;
}

// The time of the first event; on the device waits for the stream.
static int64_t firstTime(Call &call, const cusEventArrays &events) {
    int64_t time = 0;
    if (events.space == CUS_HOST) {
        std::memcpy(&time, events.t, sizeof time);
        return time;
    }
    cusMat there = CUS_MAT_INIT, here = CUS_MAT_INIT;
    call.run([&] {
        CUS_TRY(cusMatWrap(&there, 1, 1, CUS_64FC1, CUS_DEVICE, const_cast<int64_t *>(events.t), 0)); // as wide
        CUS_TRY(cusMatWrap(&here, 1, 1, CUS_64FC1, CUS_HOST, &time, 0));
        CUS_TRY(cusMatDownload(&there, &here, call.stream()));
        return cusStreamSynchronize(call.stream());
    });
    return time;
}

// The bounds in time of windows by duration; empty for others, and for no event.
static std::vector<cusEventSpan> spansOf(Call &call, const cusEventArrays &events, nb::handle given, size_t count) {
    std::vector<cusEventSpan> spans;
    if (!nb::isinstance<cusWindowing>(given) || count == 0)
        return spans;
    const auto &windowing = nb::cast<const cusWindowing &>(given);
    if (windowing.unit != CUS_WINDOW_DURATION)
        return spans;
    const uint64_t stride = windowing.stride ? windowing.stride : windowing.length;
    const auto origin = static_cast<uint64_t>(firstTime(call, events));
    for (uint64_t w = 0; w < count; ++w)
        spans.push_back(
            {static_cast<int64_t>(origin + w * stride), static_cast<int64_t>(origin + w * stride + windowing.length)});
    return spans;
}

static bool usesSpans(const Representations &representations) {
    return std::any_of(representations.list.begin(), representations.list.end(),
                       [](const cusRepresentation &one) { return one.window_times != 0; });
}

static uint64_t skippedBy(Call &call, cusEventStacker *stacker) {
    uint64_t skipped = 0;
    call.run([&] { return cusEventStackerSkipped(stacker, &skipped, nullptr); });
    return skipped;
}

// The frames, and whether more than half of the events lie outside them; on the device, where that would wait, false. spans: empty
// unless a representation has window_times.
static nb::tuple stack(Call &call, cusEventStacker *stacker, int rows, int cols, const std::vector<int> &types,
                       const EventsIn &in, const Windows &windows, const std::vector<cusEventSpan> &spans,
                       nb::handle outs) {
    const auto count = static_cast<int64_t>(windows.size());
    std::vector<Array> arrays;
    std::vector<cusMat> mats;
    nb::list frames;
    for (size_t i = 0; i < types.size(); ++i) {
        const Shape shape{count, rows, cols, CUS_CHANNELS(types[i])};
        const nb::object given = outs.is_none() ? nb::none() : nb::object(nb::cast<nb::list>(outs)[i]);
        arrays.push_back(call.out(given, "out", shape, CUS_DEPTH(types[i])));
        if (count)
            mats.push_back(arrays.back().stack());
        frames.append(arrays.back().object);
    }
    const bool on_host = call.space() == CUS_HOST;
    const uint64_t skipped_before = on_host ? skippedBy(call, stacker) : 0;
    uint64_t all_events = 0;
    for (size_t first = 0, last; first < windows.size(); first = last) {
        uint64_t events = 0;
        for (last = first; last < windows.size() && (last == first || !on_host || events < PIECE); ++last)
            events += windows[last].last > windows[last].first ? windows[last].last - windows[last].first : 0;
        all_events += events;
        for (cusMat &mat : mats)
            mat.rows = static_cast<int>(last - first) * rows;
        call.run([&] {
            return spans.empty() ? cusEventStack(stacker, &in.events, windows.data() + first, last - first, mats.data(),
                                                 call.stream())
                                 : cusEventStackSpans(stacker, &in.events, windows.data() + first, spans.data() + first,
                                                      last - first, mats.data(), call.stream());
        });
        for (cusMat &mat : mats)
            mat.data = static_cast<char *>(mat.data) + static_cast<size_t>(mat.rows) * mat.step;
        if (on_host && PyErr_CheckSignals() != 0)
            throw nb::python_error();
    }
    return nb::make_tuple(frames, on_host && skippedBy(call, stacker) - skipped_before > all_events / 2);
}

static nb::bytearray eventWindows(nb::handle times, size_t count, const cusWindowing &windowing, int unit,
                                  nb::handle stream) {
    Call call("event_windows", stream);
    cusEventArrays events = {};
    events.count = count;
    // Windows by count do not read events; these stand for arrays that are not NULL.
    static const uint16_t no_place = 0;
    static const uint8_t no_polarity = 0;
    events.x = events.y = &no_place;
    events.p = &no_polarity;
    TimesIn t{};
    if (!times.is_none()) {
        t = timesIn(call, times, "t", static_cast<TimeUnit>(unit));
        events.t = t.data;
        events.count = t.count;
        events.space = call.space();
    }
    const Windows windows = listWindows(call, events, windowing);
    return bytesOf(windows.data(), windows.size());
}

// Times as a new array of int64 microseconds.
static nb::object eventTimes(const std::string &function, const std::string &argument, nb::handle times, int unit) {
    Call call(function.c_str());
    call.expect({CUS_HOST, -1}, "the times, which are taken from host memory");
    const TimesIn in = timesIn(call, times, argument.c_str(), static_cast<TimeUnit>(unit));
    const Array copy = call.out(nb::none(), "times", {static_cast<int64_t>(in.count)}, I64);
    if (in.count)
        std::memcpy(copy.data, in.data, in.count * sizeof *in.data);
    return copy.object;
}

// ---- Stackers -----------------------------------------------------------------------------------------------------------

struct Stacker {
    Representations representations; // before the handle, so that the stacker dies first
    Handle<cusEventStacker> handle;
    Device device;
    Framework framework;
    int rows, cols;
    std::vector<int> types;
    bool uses_spans;
};

static cusEventStacker *makeStacker(Call &call, int rows, int cols, const Representations &representations) {
    cusEventStacker *stacker = nullptr;
    call.run([&] {
        return cusEventStackerCreate(&stacker, rows, cols, call.space(), representations.data(), representations.count());
    });
    return stacker;
}

static std::vector<int> typesOf(const Representations &representations) {
    std::vector<int> types;
    types.reserve(representations.list.size());
    for (const cusRepresentation &one : representations.list)
        types.push_back(typeOf(one));
    return types;
}

static Stacker *createStacker(int rows, int cols, const nb::list &list, const char *device) {
    Call call("EventStacker");
    call.assume(parseDevice("EventStacker", device), Framework::NumPy);
    Representations representations = representationsOf(call, list);
    const bool uses_spans = usesSpans(representations);
    std::vector<int> types = typesOf(representations);
    cusEventStacker *stacker = makeStacker(call, rows, cols, representations);
    return new Stacker{std::move(representations),
                       {"EventStacker", stacker, cusEventStackerDestroy},
                       call.device(),
                       call.framework(),
                       rows,
                       cols,
                       std::move(types),
                       uses_spans};
}

static nb::tuple runStacker(Stacker &self, nb::handle x, nb::handle y, nb::handle p, nb::handle t, int unit,
                            nb::handle windows, nb::handle outs, nb::handle stream) {
    const Use<cusEventStacker> stacker(self.handle);
    Call call("EventStacker", stream);
    call.expect(self.device, "the EventStacker");
    const EventsIn in = eventsIn(call, x, y, p, t, static_cast<TimeUnit>(unit));
    const Windows listed = windowsOf(call, in.events, windows);
    const auto spans = self.uses_spans ? spansOf(call, in.events, windows, listed.size()) : std::vector<cusEventSpan>();
    return stack(call, stacker, self.rows, self.cols, self.types, in, listed, spans, outs);
}

// The stackers of recent calls of stack_events, so that repeated calls allocate nothing. A call takes one out and puts it
// back, so threads never share one. Guarded by the GIL; lives as long as the process.
struct Idle {
    int rows, cols;
    Device device;
    cusStream stream;
    Representations representations;
    cusEventStacker *stacker;
};

static std::vector<Idle> &idle() {
    static auto *list = new std::vector<Idle>;
    return *list;
}

static bool equal(const cusRepresentation &a, const cusRepresentation &b) {
    return a.kind == b.kind && a.channels == b.channels && a.depth == b.depth && a.swap_channels == b.swap_channels &&
           a.cutoff == b.cutoff && a.normalize == b.normalize && a.tau == b.tau && a.surface == b.surface &&
           a.window_times == b.window_times && a.lower == b.lower && a.upper == b.upper &&
           a.clip_each_event == b.clip_each_event && a.scale == b.scale && a.clip == b.clip && a.map == b.map;
}

static cusEventStacker *takeIdle(const Idle &wanted) {
    std::vector<Idle> &list = idle();
    const auto found = std::find_if(list.begin(), list.end(), [&wanted](const Idle &one) {
        return one.rows == wanted.rows && one.cols == wanted.cols && one.device.space == wanted.device.space &&
               one.device.index == wanted.device.index && one.stream == wanted.stream &&
               std::equal(one.representations.list.begin(), one.representations.list.end(),
                          wanted.representations.list.begin(), wanted.representations.list.end(), equal);
    });
    if (found == list.end())
        return nullptr;
    cusEventStacker *stacker = found->stacker;
    list.erase(found);
    return stacker;
}

static void keepIdle(Idle &&one) {
    constexpr size_t KEEP = 2;
    std::vector<Idle> &list = idle();
    list.push_back(std::move(one));
    if (list.size() > KEEP) {
        cusEventStackerDestroy(list.front().stacker);
        list.erase(list.begin());
    }
}

static nb::tuple stackEvents(nb::handle x, nb::handle y, nb::handle p, nb::handle t, int unit, int rows, int cols,
                             nb::handle windows, const nb::list &list, nb::handle outs, nb::handle stream) {
    Call call("stack_events", stream);
    const EventsIn in = eventsIn(call, x, y, p, t, static_cast<TimeUnit>(unit));
    Idle one{rows, cols, call.device(), call.stream(), representationsOf(call, list), nullptr};
    const std::vector<int> types = typesOf(one.representations);
    one.stacker = takeIdle(one);
    if (!one.stacker)
        one.stacker = makeStacker(call, rows, cols, one.representations);
    try {
        const Windows listed = windowsOf(call, in.events, windows);
        const auto spans =
            usesSpans(one.representations) ? spansOf(call, in.events, windows, listed.size()) : std::vector<cusEventSpan>();
        nb::tuple frames = stack(call, one.stacker, rows, cols, types, in, listed, spans, outs);
        if (one.representations.maps.empty())
            keepIdle(std::move(one));
        else // its map is the caller's
            cusEventStackerDestroy(one.stacker);
        return frames;
    } catch (...) {
        cusEventStackerDestroy(one.stacker);
        throw;
    }
}

void forgetIdle() {
    idle().clear();
}

void addEvents(nb::module_ &module) {
    typedef cusWindowing W;
    Options<W>(module, "Windowing", "Windowing", cusWindowingDefaults)
        .word("unit", &W::unit, wordsOf({{"count", CUS_WINDOW_COUNT}, {"duration", CUS_WINDOW_DURATION}}))
        .numbers("length", &W::length, "stride", &W::stride, "keep_incomplete", &W::keep_incomplete);
    typedef cusRepresentation R;
    const nb::dict kinds = wordsOf(cusRepresentationName);
    Options<R>(module, "Representation", "Representation")
        .word("kind", &R::kind, kinds)
        .word("depth", &R::depth,
              wordsOf({{"uint8", CUS_8U}, {"int8", CUS_8S}, {"float16", CUS_16F}, {"float32", CUS_32F}}))
        .word(
            "surface", &R::surface,
            wordsOf({{"exponential", CUS_SURFACE_EXPONENTIAL}, {"time", CUS_SURFACE_TIME}, {"linear", CUS_SURFACE_LINEAR}}))
        .numbers("channels", &R::channels, "swap_channels", &R::swap_channels, "cutoff", &R::cutoff, "normalize",
                 &R::normalize, "tau", &R::tau, "window_times", &R::window_times, "lower", &R::lower, "upper", &R::upper,
                 "clip_each_event", &R::clip_each_event, "scale", &R::scale, "clip", &R::clip)
        .made.def(
            "__init__",
            [kinds](R *self, nb::handle kind) {
                new (self) R(cusRepresentationDefaults(
                    static_cast<cusRepresentationKind>(checked<int>("choice", "Representation", "kind", kind, kinds))));
            },
            nb::arg("kind"));
    module.def("event_windows", &eventWindows, none("t"), nb::arg("count"), nb::arg("windowing"), nb::arg("unit"),
               none("stream"));
    module.def("event_times", &eventTimes, nb::arg("function"), nb::arg("argument"), none("times"), nb::arg("unit"));
    module.def("stack_events", &stackEvents, none("x"), none("y"), none("p"), none("t"), nb::arg("unit"), nb::arg("rows"),
               nb::arg("cols"), nb::arg("windows"), nb::arg("representations"), none("outs"), none("stream"));
    module.def("release_idle", [] {
        std::vector<Idle> stackers;
        stackers.swap(idle());
        for (const Idle &one : stackers)
            cusEventStackerDestroy(one.stacker);
    });
    closeable<Stacker>(module, "EventStacker")
        .def(nb::new_(&createStacker), nb::arg("rows"), nb::arg("cols"), nb::arg("representations"), nb::arg("device"))
        .def("run", &runStacker, none("x"), none("y"), none("p"), none("t"), nb::arg("unit"), nb::arg("windows"),
             none("outs"), none("stream"))
        .def(
            "skipped",
            [](Stacker &self, nb::handle stream) {
                const Use<cusEventStacker> stacker(self.handle);
                Call call("EventStacker.skipped", stream);
                call.assume(self.device, self.framework);
                uint64_t skipped = 0;
                call.run([&] { return cusEventStackerSkipped(stacker, &skipped, call.stream()); });
                return skipped;
            },
            none("stream"));
}

} // namespace cuspy
