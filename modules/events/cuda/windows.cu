// Finds the bounds of windows by duration, lists those given by the caller, and finds the time bins within them.
#include "device.h"
#include "events/cuda/stages.cuh"

#include <algorithm>

namespace cusi::events {

namespace {

constexpr char WINDOWS[] = "cusEventWindows", PUSH[] = "cusEventPipelinePushBytes";
constexpr int LIST_CAPACITY = 240; // windows that fit a launch's parameters

struct WindowList {
    Window window[LIST_CAPACITY];
};

__global__ void storeWindows(Window *list, const __grid_constant__ WindowList windows, int count) {
    startInOrder();
    for (int w = threadIdx.x; w < count; w += blockDim.x)
        list[w] = windows.window[w];
}

// Finds where the time bins of STACKED_HISTOGRAM or the levels of MDES_DIFF (HALVING) begin, a thread per window and bin.
// The first begins with the window, so a single level needs no times.
template<bool HALVING>
__global__ void timeLevels(const Source source, const Windows windows, unsigned count, int bins, EventsLevels *levels) {
    startInOrder();
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, w = i / (EVENTS_MAX_CHANNELS + 1);
    const int k = static_cast<int>(i % (EVENTS_MAX_CHANNELS + 1));
    if (w >= count)
        return;
    const Window window = windows[w];
    const uint64_t n = window.last - window.first;
    uint64_t begin = n;
    if (HALVING && k == 0) {
        begin = 0;
    } else if (k < bins && n > 0) {
        const int64_t *t = source.t + window.first;
        const uint64_t dt = static_cast<uint64_t>(t[n - 1]) - static_cast<uint64_t>(t[0]);
        begin = eventsLowerBound(t, n, t[0], HALVING ? eventsHalvingStart(k, bins, dt) : eventsBinStart(k, bins, dt));
    }
    levels[w].begin[k] = static_cast<uint32_t>(begin);
}

// Finds the first and the last event's time, a thread per window.
__global__ void eventSpans(const Source source, const Windows windows, unsigned count, cusEventSpan *spans) {
    startInOrder();
    const unsigned w = blockIdx.x * blockDim.x + threadIdx.x;
    if (w >= count)
        return;
    const Window window = windows[w];
    spans[w] = {0, 0};
    if (window.first < window.last)
        spans[w] = {source.t[window.first], source.t[window.last - 1]};
}

// Finds windows `first` and later by duration, a thread per bound.
__global__ void durationWindows(const int64_t *t, uint64_t events, int64_t origin, unsigned long long stride,
                                unsigned long long length, unsigned long long first, unsigned long long windows,
                                Window *list) {
    startInOrder();
    for (unsigned long long i = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x; i < 2 * windows;
         i += static_cast<unsigned long long>(gridDim.x) * blockDim.x) {
        const unsigned long long start = (first + i / 2) * stride + (i % 2 ? length : 0);
        (i % 2 ? list[i / 2].last : list[i / 2].first) = eventsLowerBound(t, events, origin, start);
    }
}

__global__ void findGap(const int64_t *t, uint64_t events, int64_t previous, uint64_t limit, unsigned long long *found) {
    startInOrder();
    for (unsigned long long i = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x; i < events;
         i += static_cast<unsigned long long>(gridDim.x) * blockDim.x)
        if (static_cast<uint64_t>(t[i]) - static_cast<uint64_t>(i ? t[i - 1] : previous) > limit)
            atomicMin(found, i);
}

constexpr unsigned SEARCH_THREADS = 128, MAX_SEARCH_BLOCKS = 4096;

unsigned searchBlocks(uint64_t items) {
    return static_cast<unsigned>(std::min<uint64_t>(divUp(items, uint64_t{SEARCH_THREADS}), MAX_SEARCH_BLOCKS));
}

cusStatus launchWindows(const int64_t *t, uint64_t events, int64_t origin, const cusWindowing *windowing, uint64_t first,
                        size_t count, Window *list, cusStream stream) {
    return launch(WINDOWS, durationWindows, searchBlocks(2 * count), SEARCH_THREADS, 0, stream, t, events, origin,
                  eventsStride(windowing), windowing->length, first, count, list);
}

} // namespace

Source sourceOf(const cusEventArrays *events) {
    const auto address = reinterpret_cast<uintptr_t>(events->x) | reinterpret_cast<uintptr_t>(events->y) |
                         reinterpret_cast<uintptr_t>(events->p);
    return {events->x, events->y, events->p, events->t, events->count, address % 16 == 0};
}

// Copies pairs from host memory that the caller may reuse at once.
template<class Pair>
static cusStatus storePairs(Window *list, unsigned count, cudaStream_t stream, Pair pair) {
    for (unsigned w = 0; w < count; w += LIST_CAPACITY) {
        WindowList part = {};
        const unsigned n = std::min<unsigned>(count - w, LIST_CAPACITY);
        for (unsigned i = 0; i < n; ++i)
            part.window[i] = pair(w + i);
        CUS_TRY(launch(STACK, storeWindows, 1, 256, 0, stream, list + w, part, static_cast<int>(n)));
    }
    return CUS_OK;
}

// Windows of equal length and stride are not listed.
cusStatus listWindows(State *state, const cusEventWindow *windows, unsigned count, cudaStream_t stream, Windows *result) {
    const uint64_t stride = count > 1 ? windows[1].first - windows[0].first : 0,
                   length = windows[0].last - windows[0].first;
    *result = {nullptr, windows[0].first, stride, length};
    bool regular = true;
    for (unsigned w = 0; w < count && regular; ++w)
        regular = windows[w].first == windows[0].first + w * stride && windows[w].last - windows[w].first == length;
    if (regular)
        return CUS_OK;
    result->list = state->list;
    return storePairs(state->list, count, stream, [&](unsigned w) { return Window{windows[w].first, windows[w].last}; });
}

cusStatus listSpans(const Batch &batch) {
    static_assert(sizeof(Window) == sizeof(cusEventSpan), "spans are stored as windows are");
    bool given = false, of_events = false;
    for (int i = 0; i < batch.stacker->count; ++i) {
        const cusRepresentation &r = batch.stacker->representations[i];
        given = given || eventsUsesSpan(&r);
        of_events = of_events || (usesSpans(kindOf(r)) && !eventsUsesSpan(&r));
    }
    if (given)
        CUS_TRY(storePairs(reinterpret_cast<Window *>(batch.state->spans), batch.count, batch.stream, [&](unsigned w) {
            const cusEventSpan &span = batch.host_spans[w];
            return Window{static_cast<unsigned long long>(span.begin), static_cast<unsigned long long>(span.end)};
        }));
    return of_events ? launch(STACK, eventSpans, divUp(batch.count, 128u), 128, 0, batch.stream, batch.source,
                              batch.windows, batch.count, batch.state->spans + tuning::BATCH_WINDOWS)
                     : CUS_OK;
}

cusStatus findTimeBins(const Batch &batch, int index) {
    const cusRepresentation &r = batch.stacker->representations[index];
    return launch(STACK, kindOf(r) == MDES_DIFF ? timeLevels<true> : timeLevels<false>,
                  divUp(batch.count * (EVENTS_MAX_CHANNELS + 1), 128u), 128, 0, batch.stream, batch.source, batch.windows,
                  batch.count, static_cast<int>(channelsOf(r)),
                  batch.state->levels + static_cast<size_t>(index) * tuning::BATCH_WINDOWS);
}

} // namespace cusi::events

using namespace cusi::events;

cusStatus events_cuda_extent(const cusEventArrays *events, int64_t *origin, uint64_t *extent, cusStream stream) {
    int64_t last = 0;
    CUS_TRY(cusi_deviceWaitToDownload(WINDOWS, &last, stream));
    CUSI_CUDA(WINDOWS, cudaMemcpyAsync(origin, events->t, sizeof *origin, cudaMemcpyDeviceToHost, stream));
    CUSI_CUDA(WINDOWS, cudaMemcpyAsync(&last, events->t + events->count - 1, sizeof last, cudaMemcpyDeviceToHost, stream));
    CUSI_CUDA(WINDOWS, cudaStreamSynchronize(stream));
    *extent = static_cast<uint64_t>(last) - static_cast<uint64_t>(*origin) + 1;
    return CUS_OK;
}

cusStatus events_cuda_windows(const cusEventArrays *events, int64_t origin, const cusWindowing *windowing,
                              cusEventWindow *windows, size_t count, cusStream stream) {
    static_assert(sizeof(Window) == sizeof(cusEventWindow), "the list is copied as it is");
    Window *list = nullptr;
    CUS_TRY(cusi_deviceAllocate(WINDOWS, count * sizeof(Window), reinterpret_cast<void **>(&list)));
    cusStatus status = launchWindows(events->t, events->count, origin, windowing, 0, count, list, stream);
    if (status == CUS_OK)
        status = cusi::cudaStatus(cudaMemcpyAsync(windows, list, count * sizeof(Window), cudaMemcpyDeviceToHost, stream),
                                  WINDOWS, "copying the windows");
    if (status == CUS_OK)
        status = cusi::cudaStatus(cudaStreamSynchronize(stream), WINDOWS, "queued work");
    cusi_deviceFree(list);
    return status;
}

cusStatus events_cuda_bounds(const int64_t *t, uint64_t events, int64_t origin, const cusWindowing *windowing,
                             uint64_t first, size_t count, cusEventWindow *windows, cusStream stream) {
    CUS_TRY(launchWindows(t, events, origin, windowing, first, count, reinterpret_cast<Window *>(windows), stream));
    return cusi::cudaStatus(cudaStreamSynchronize(stream), PUSH, "queued work");
}

cusStatus events_cuda_findGap(const int64_t *t, uint64_t events, int64_t previous, uint64_t limit, uint64_t *work,
                              uint64_t *index, int64_t times[2], cusStream stream) {
    const auto found = reinterpret_cast<unsigned long long *>(work);
    CUSI_CUDA(PUSH, cudaMemcpyAsync(found, &events, sizeof events, cudaMemcpyHostToDevice, stream));
    CUS_TRY(
        cusi::launch(PUSH, findGap, searchBlocks(events), SEARCH_THREADS, 0, stream, t, events, previous, limit, found));
    CUSI_CUDA(PUSH, cudaMemcpyAsync(index, found, sizeof *index, cudaMemcpyDeviceToHost, stream));
    CUSI_CUDA(PUSH, cudaStreamSynchronize(stream));
    if (*index == events)
        return CUS_OK;
    times[0] = previous;
    const uint64_t from = *index ? *index - 1 : 0, count = *index ? 2 : 1;
    CUSI_CUDA(PUSH, cudaMemcpyAsync(times + 2 - count, t + from, count * sizeof *times, cudaMemcpyDeviceToHost, stream));
    return cusi::cudaStatus(cudaStreamSynchronize(stream), PUSH, "queued work");
}
