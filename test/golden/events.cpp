#include "golden/golden.hpp"

#include "events/support.hpp"

#include <limits>

namespace golden {
namespace {

using reference::Events;

// Events in bursts and everywhere, some past the frame, a third of them with the time of the one before.
Events recording(size_t n, int rows, int cols, uint32_t seed) {
    Numbers next(seed);
    Events events;
    int64_t t = 123456;
    for (size_t i = 0; i < n; ++i) {
        t += next() % 3 ? next.below(40) : 0;
        const bool hot = next() % 8 == 0;
        // One by one, since compilers choose the order in which arguments are evaluated.
        const int p = next() % 5 ? next() & 1 : 7;
        const int y = hot ? rows - 1 : next.below(rows + rows / 16 + 1);
        const int x = hot ? cols / 2 : next.below(cols + cols / 16 + 1);
        events.add(t, static_cast<unsigned>(x), static_cast<unsigned>(y), p);
    }
    return events;
}

// The bits of the frames' type.
Data typed(const std::vector<double> &values, int depth) {
    Data data;
    for (double v : values) {
        if (depth == CUS_8U)
            data.push_back(static_cast<uint8_t>(v));
        else if (depth == CUS_8S)
            data.push_back(static_cast<uint8_t>(static_cast<int8_t>(v)));
        else if (depth == CUS_16F)
            append(data, std::vector<uint16_t>{reference::halfBits(static_cast<float>(v))});
        else
            append(data, std::vector<float>{static_cast<float>(v)});
    }
    return data;
}

// A voxel grid as the header defines it: weights are multiples of 2^-24.
std::vector<double> voxels(const Events &events, cusEventWindow window, int rows, int cols, size_t bins) {
    std::vector<double> out(static_cast<size_t>(rows) * static_cast<size_t>(cols) * bins);
    if (window.first == window.last)
        return out;
    const int64_t t0 = events.t[window.first], dt = std::max<int64_t>(events.t[window.last - 1] - t0, 1);
    for (uint64_t e = window.first; e < window.last; ++e)
        if (events.x[e] < cols && events.y[e] < rows)
            reference::addVoxel(&out[(events.y[e] * static_cast<size_t>(cols) + events.x[e]) * bins], bins,
                                static_cast<double>(bins - 1) * static_cast<double>(events.t[e] - t0) /
                                    static_cast<double>(dt),
                                events.p[e] != 0, true);
    return out;
}

// Bounds that windows have with window_times: wider than their events, or narrower.
std::vector<cusEventSpan> spansOf(const Events &events, const std::vector<cusEventWindow> &windows) {
    std::vector<cusEventSpan> spans;
    for (const cusEventWindow &w : windows) {
        const size_t first = std::min<size_t>(w.first, events.size() - 1), last = std::max<size_t>(w.last, first + 1) - 1;
        spans.push_back({events.t[first] - 37, events.t[last] + (spans.size() % 2 ? -11 : 900)});
    }
    return spans;
}

// A rectification map: each pixel a few pixels away, some outside, one nowhere.
std::vector<float> mapFor(int rows, int cols, uint32_t seed) {
    Numbers next(seed);
    std::vector<float> map;
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            for (const int at : {x, y})
                map.push_back(static_cast<float>(at) + static_cast<float>(next.below(512) - 256) / 128.0f);
    map[0] = std::numeric_limits<float>::quiet_NaN();
    return map;
}

Data expectedFrames(const Events &events, const std::vector<cusEventWindow> &windows, int rows, int cols,
                    cusRepresentation r, std::vector<float> map = {}) {
    int type = 0;
    cusRepresentationType(&r, &type);
    const bool rectified = !map.empty();
    map.resize(static_cast<size_t>(2 * rows * cols));
    TestMat positions(rows, cols, CUS_32FC2, CUS_HOST, {}, map.data());
    r.map = rectified ? &positions.mat : nullptr;
    Data data;
    const bool plain_voxels = r.kind == CUS_REPR_VOXEL_GRID && r.normalize == CUS_NORMALIZE_NONE && !r.map;
    const auto spans = spansOf(events, windows);
    for (size_t i = 0; i < windows.size(); ++i)
        append(data, typed(plain_voxels ? voxels(events, windows[i], rows, cols, static_cast<size_t>(r.channels))
                                        : reference::frame(events, windows[i], rows, cols, r, &spans[i]),
                           CUS_DEPTH(type)));
    return data;
}

Data computedFrames(const Events &events, const std::vector<cusEventWindow> &windows, int rows, int cols,
                    cusRepresentation r, std::vector<float> map, cusSpace space, Layout layout) {
    int type = 0;
    CUS_EXPECT_OK(cusRepresentationType(&r, &type));
    const bool rectified = !map.empty();
    map.resize(static_cast<size_t>(2 * rows * cols));
    TestMat positions(rows, cols, CUS_32FC2, space, layoutFor(CUS_32FC2, layout), map.data());
    r.map = rectified ? &positions.mat : nullptr;
    ::events::SpaceEvents arrays(events, space, layout.offset % 8);
    ::events::Stacker stacker(rows, cols, space, {r});
    TestMat frames(rows * static_cast<int>(windows.size()), cols, type, space, layoutFor(type, layout));
    CUS_EXPECT_OK(cusEventStackSpans(stacker.object, &arrays.view, windows.data(), spansOf(events, windows).data(),
                                     windows.size(), &frames.mat, nullptr));
    EXPECT_TRUE(frames.intact());
    return frames.get();
}

// The same frames from a pipeline that gets the recording in uneven pieces.
Data pipelineFrames(const Events &events, const cusWindowing &windowing, int rows, int cols, const cusRepresentation &r,
                    cusSpace space) {
    Data data;
    const auto take = [](void *user, const cusFrameBatch *batch) {
        append(*static_cast<Data *>(user), support::elements(batch->frames[0]));
        return CUS_OK;
    };
    cusEventPipelineOptions options = cusEventPipelineDefaults();
    options.windowing = windowing;
    options.compute = space;
    support::Owned<cusEventPipelineDestroy> pipeline;
    CUS_EXPECT_OK(cusEventPipelineCreate(&pipeline, rows, cols, &r, 1, &options, take, &data));
    if (!pipeline)
        return data;
    for (size_t from = 0, n = 1; from < events.size(); from += n, n = 3 * n + 1) {
        n = std::min(n, events.size() - from);
        const cusEventArrays piece = {&events.x[from], &events.y[from], &events.p[from], &events.t[from], n, CUS_HOST};
        CUS_EXPECT_OK(cusEventPipelinePush(pipeline, &piece));
    }
    CUS_EXPECT_OK(cusEventPipelineFlush(pipeline));
    return data;
}

Data expectedWindows(const Events &events, const cusWindowing &w) {
    return bytesOf(reference::windows(events, w));
}

Data computedWindows(const Events &events, const cusWindowing &w, cusSpace space, Layout layout) {
    ::events::SpaceEvents arrays(events, space, layout.offset % 8);
    size_t count = 0;
    CUS_EXPECT_OK(cusEventWindows(&arrays.view, &w, nullptr, 0, &count, nullptr));
    std::vector<cusEventWindow> list(count);
    CUS_EXPECT_OK(cusEventWindows(&arrays.view, &w, list.data(), list.size(), &count, nullptr));
    return bytesOf(list);
}

struct Named {
    const char *options;
    cusRepresentation representation;
    bool rectified = false;
};

std::vector<Named> representations() {
    std::vector<Named> list;
    const auto add = [&](const char *options, cusRepresentationKind kind, auto change) {
        Named named = {options, cusRepresentationDefaults(kind), std::string(options).rfind("rectified", 0) == 0};
        change(named.representation);
        list.push_back(named);
    };
    const auto same = [](cusRepresentation &) {};
    add("", CUS_REPR_HISTOGRAM, same);
    add("swap_channels", CUS_REPR_HISTOGRAM, [](cusRepresentation &r) { r.swap_channels = 1; });
    add("8U", CUS_REPR_MDES, same);
    add("8S channels=3", CUS_REPR_MDES, [](cusRepresentation &r) { r.depth = CUS_8S, r.channels = 3; });
    add("32F channels=16", CUS_REPR_MDES, [](cusRepresentation &r) { r.depth = CUS_32F, r.channels = 16; });
    add("", CUS_REPR_MDES_COUNT, same);
    add("", CUS_REPR_TENCODE, same);
    add("swap_channels", CUS_REPR_TENCODE, [](cusRepresentation &r) { r.swap_channels = 1; });
    add("", CUS_REPR_STACKED_HISTOGRAM, same);
    add("channels=4 cutoff=2", CUS_REPR_STACKED_HISTOGRAM, [](cusRepresentation &r) { r.channels = 4, r.cutoff = 2; });
    add("channels=5", CUS_REPR_VOXEL_GRID, same);
    add("channels=2", CUS_REPR_VOXEL_GRID, [](cusRepresentation &r) { r.channels = 2; });
    add("", CUS_REPR_EVENT_DIFF, same);
    add("channels=5 normalize=population", CUS_REPR_VOXEL_GRID,
        [](cusRepresentation &r) { r.normalize = CUS_NORMALIZE_POPULATION; });
    add("channels=3 normalize=sample", CUS_REPR_VOXEL_GRID,
        [](cusRepresentation &r) { r.channels = 3, r.normalize = CUS_NORMALIZE_SAMPLE; });
    add("lower=-5 upper=5 clip_each_event", CUS_REPR_EVENT_DIFF,
        [](cusRepresentation &r) { r.lower = -5, r.upper = 5, r.clip_each_event = 1; });
    add("lower=-8 upper=7", CUS_REPR_EVENT_DIFF, [](cusRepresentation &r) { r.lower = -8, r.upper = 7; });
    add("", CUS_REPR_MDES_DIFF, same);
    add("channels=4 scale=0.2 clip=1", CUS_REPR_EVENT_CUBE,
        [](cusRepresentation &r) { r.channels = 4, r.scale = 0.2, r.clip = 1; });
    add("", CUS_REPR_TIME_SURFACE, same);
    add("tau=20.5", CUS_REPR_TIME_SURFACE, [](cusRepresentation &r) { r.tau = 20.5; });
    add("window_times", CUS_REPR_TIME_SURFACE, [](cusRepresentation &r) { r.window_times = 1; });
    add("window_times", CUS_REPR_EVENT_CUBE, [](cusRepresentation &r) { r.window_times = 1; });
    add("rectified", CUS_REPR_VOXEL_GRID, same);
    add("surface=time", CUS_REPR_TIME_SURFACE, [](cusRepresentation &r) { r.surface = CUS_SURFACE_TIME; });
    add("surface=linear", CUS_REPR_TIME_SURFACE, [](cusRepresentation &r) { r.surface = CUS_SURFACE_LINEAR; });
    const auto half = [](cusRepresentation &r) { r.depth = CUS_16F; };
    add("16F channels=5", CUS_REPR_VOXEL_GRID, half);
    add("16F channels=3 normalize=sample", CUS_REPR_VOXEL_GRID,
        [](cusRepresentation &r) { r.depth = CUS_16F, r.channels = 3, r.normalize = CUS_NORMALIZE_SAMPLE; });
    add("rectified 16F", CUS_REPR_VOXEL_GRID, half);
    add("16F channels=4 scale=0.2 clip=1", CUS_REPR_EVENT_CUBE,
        [](cusRepresentation &r) { r.depth = CUS_16F, r.channels = 4, r.scale = 0.2, r.clip = 1; });
    add("16F", CUS_REPR_TIME_SURFACE, half);
    add("16F surface=time", CUS_REPR_TIME_SURFACE,
        [](cusRepresentation &r) { r.depth = CUS_16F, r.surface = CUS_SURFACE_TIME; });
    return list;
}

std::string nameOf(const Named &named) {
    const std::string kind = cusRepresentationName(named.representation.kind);
    return *named.options ? kind + " " + named.options : kind;
}

Row stackRow(const Events &events, const std::vector<cusEventWindow> &windows, int h, int w, const Named &named,
             uint32_t seed) {
    const cusRepresentation r = named.representation;
    int type = 0;
    cusRepresentationType(&r, &type);
    const std::vector<float> map = named.rectified ? mapFor(h, w, seed) : std::vector<float>();
    return {"cusEventStack",
            nameOf(named),
            seed,
            sizeName(h, w),
            typeName(type),
            [=] { return expectedFrames(events, windows, h, w, r, map); },
            [=](cusSpace space, Layout layout) { return computedFrames(events, windows, h, w, r, map, space, layout); }};
}

} // namespace

Row anyEvents(Choices &choices) {
    const int h = choices.between(1, 40), w = choices.between(1, 90), n = choices.between(1, 3000);
    auto list = representations();
    Named named = list[static_cast<size_t>(choices.below(static_cast<int>(list.size())))];
    cusRepresentation &r = named.representation;
    r.channels = choices.between(1, 16);
    r.cutoff = choices.between(1, 255);
    r.swap_channels = choices.yes();
    const double mantissa = 1 + choices.below(1000) / 1000.0;
    r.tau = std::ldexp(mantissa, choices.between(-3, 20));
    const Events events = recording(static_cast<size_t>(n), h, w, choices.seed());
    std::vector<cusEventWindow> windows;
    for (int i = choices.between(1, 4); i > 0; --i) {
        const int first = choices.below(n + 1);
        windows.push_back({static_cast<uint64_t>(first), static_cast<uint64_t>(choices.between(first, n))});
    }
    return stackRow(events, windows, h, w, named, 0);
}

std::vector<Row> eventsRows() {
    std::vector<Row> rows;
    const uint32_t seed = 60;
    for (const auto &[h, w, n] : {std::tuple(1, 1, 300), std::tuple(37, 53, 5000), std::tuple(260, 346, 40000)}) {
        const Events events = recording(static_cast<size_t>(n), h, w, seed);
        const uint64_t count = events.size();
        const std::vector<cusEventWindow> windows = {{0, count / 2}, {count / 3, count}, {7, 7}, {count - 1, count}};
        for (const Named &named : representations())
            rows.push_back(stackRow(events, windows, h, w, named, seed));
    }
    const Events events = recording(20000, 100, 130, seed);
    for (const cusWindowing &w :
         {cusWindowing{CUS_WINDOW_COUNT, 3000, 0, 0, {}}, cusWindowing{CUS_WINDOW_COUNT, 3000, 1000, 1, {}},
          cusWindowing{CUS_WINDOW_DURATION, 50000, 0, 0, {}}, cusWindowing{CUS_WINDOW_DURATION, 20000, 33333, 1, {}}}) {
        const std::string options = std::string(w.unit == CUS_WINDOW_COUNT ? "count" : "duration") +
                                    " length=" + std::to_string(w.length) + " stride=" + std::to_string(w.stride) +
                                    (w.keep_incomplete ? " keep_incomplete" : "");
        rows.push_back({"cusEventWindows", options, seed, sizeName(100, 130), "windows",
                        [=] { return expectedWindows(events, w); },
                        [=](cusSpace space, Layout layout) { return computedWindows(events, w, space, layout); }});
        for (const Named &named :
             {representations()[0], representations()[6], representations()[10], representations()[26]}) {
            const cusRepresentation r = named.representation;
            int type = 0;
            cusRepresentationType(&r, &type);
            rows.push_back({"cusEventPipeline", nameOf(named) + "; " + options, seed, sizeName(100, 130), typeName(type),
                            [=] { return expectedFrames(events, reference::windows(events, w), 100, 130, r); },
                            [=](cusSpace space, Layout) { return pipelineFrames(events, w, 100, 130, r, space); }});
        }
    }
    return rows;
}

} // namespace golden
