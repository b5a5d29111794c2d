/* Windows of a recording, and the checks that the stacker and the pipeline share. */
#include "check.h"
#include "events/backend.h"
#include "progress.h"

#include <assert.h>

cusStatus eventsCheckArrays(const char *function, const cusEventArrays *events, int coordinates, int times) {
    CUSI_NOT_NULL(function, events);
    CUSI_REQUIRE(events->space == CUS_HOST || events->space == CUS_DEVICE, CUS_ERROR_VALUE,
                 "%s: events' space is %d, expected CUS_HOST or CUS_DEVICE", function, (int)events->space);
    if (events->count == 0)
        return CUS_OK;
    const void *const arrays[] = {events->x, events->y, events->p, events->t};
    static const char *const names[] = {"events' x", "events' y", "events' p", "events' t"};
    static const size_t sizes[] = {sizeof *events->x, sizeof *events->y, sizeof *events->p, sizeof *events->t};
    for (int i = coordinates ? 0 : 3; i < (times ? 4 : 3); ++i) {
        CUSI_REQUIRE(arrays[i], CUS_ERROR_NULL, "%s: %s is NULL%s", function, names[i], i == 3 ? ", expected times" : "");
        CUSI_REQUIRE((uintptr_t)arrays[i] % sizes[i] == 0, CUS_ERROR_VALUE,
                     "%s: %s is %p, expected a multiple of %zu bytes", function, names[i], arrays[i], sizes[i]);
        if (events->space == CUS_DEVICE)
            CUS_TRY(cusi_checkDeviceMemory(function, names[i], arrays[i]));
    }
    return CUS_OK;
}

cusWindowing cusWindowingDefaults(void) {
    return (cusWindowing){.unit = CUS_WINDOW_COUNT, .length = 200000, .keep_incomplete = 1};
}

cusStatus eventsCheckWindowing(const char *function, const cusWindowing *windowing) {
    CUSI_REQUIRE(windowing->unit == CUS_WINDOW_COUNT || windowing->unit == CUS_WINDOW_DURATION, CUS_ERROR_VALUE,
                 "%s: windowing's unit is %d, expected CUS_WINDOW_COUNT or CUS_WINDOW_DURATION", function,
                 (int)windowing->unit);
    CUSI_REQUIRE(windowing->length >= 1 && windowing->length <= INT64_MAX, CUS_ERROR_VALUE,
                 "%s: windowing's length is %llu, expected 1..2^63 - 1", function, (unsigned long long)windowing->length);
    CUSI_REQUIRE(windowing->stride <= INT64_MAX, CUS_ERROR_VALUE, "%s: windowing's stride is %llu, expected 0..2^63 - 1",
                 function, (unsigned long long)windowing->stride);
    return cusi_checkSwitch(function, "windowing's keep_incomplete", windowing->keep_incomplete);
}

uint64_t eventsWindowCount(const cusWindowing *windowing, uint64_t extent) {
    const uint64_t stride = eventsStride(windowing);
    assert(stride > 0);
    const uint64_t complete = extent >= windowing->length ? (extent - windowing->length) / stride + 1 : 0;
    /* complete * stride does not wrap: complete - 1 strides lie inside the extent, and a stride is below 2^63. */
    return complete + (windowing->keep_incomplete && complete * stride < extent);
}

static void hostWindows(const cusEventArrays *events, const cusWindowing *windowing, cusEventWindow *windows,
                        size_t count) {
    const uint64_t stride = eventsStride(windowing);
    for (size_t i = 0; i < count; ++i) {
        uint64_t first = i * stride, last = first + windowing->length;
        if (windowing->unit == CUS_WINDOW_DURATION) {
            first = eventsLowerBound(events->t, events->count, events->t[0], first);
            last = eventsLowerBound(events->t, events->count, events->t[0], last);
        }
        windows[i].first = first;
        windows[i].last = last < events->count ? last : events->count;
    }
}

cusStatus cusEventWindows(const cusEventArrays *events, const cusWindowing *windowing, cusEventWindow *windows,
                          size_t capacity, size_t *count, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusEventWindows";
    const cusWindowing chosen = windowing ? *windowing : cusWindowingDefaults();
    CUSI_NOT_NULL(function, count);
    CUS_TRY(cusi_checkReserved(function, "windowing->", chosen.reserved));
    CUS_TRY(eventsCheckWindowing(function, &chosen));
    const int by_duration = chosen.unit == CUS_WINDOW_DURATION;
    CUS_TRY(eventsCheckArrays(function, events, 0, by_duration));
    CUSI_REQUIRE(windows || capacity == 0, CUS_ERROR_NULL, "%s: windows is NULL, capacity %zu", function, capacity);
    CUS_TRY(cusi_checkStream(function, events->space, stream));
    if (by_duration && events->space == CUS_DEVICE && events->count > 0)
        CUS_TRY(cusi_refuseCapture(function, stream, "the call waits for it"));
    uint64_t extent = events->count;
    int64_t origin = 0; /* used on the device, by duration */
    if (by_duration && events->count > 0) {
        if (events->space == CUS_DEVICE)
            CUS_TRY(CUSI_LONG(function, CUSI_BACKEND(function, CUS_DEVICE, CUS_OK,
                                                     events_cuda_extent(events, &origin, &extent, stream))));
        else
            extent = (uint64_t)events->t[events->count - 1] - (uint64_t)events->t[0] + 1;
        CUSI_REQUIRE(extent - 1 <= INT64_MAX, CUS_ERROR_VALUE,
                     "%s: events' t decreases by %llu us from the first event to the last, expected non-decreasing times",
                     function, (unsigned long long)(1 - extent));
    }
    const uint64_t found = eventsWindowCount(&chosen, extent);
    *count = (size_t)found;
    const size_t listed = found < capacity ? (size_t)found : capacity;
    if (listed > 0 && by_duration && events->space == CUS_DEVICE)
        CUS_TRY(CUSI_BACKEND(function, CUS_DEVICE, CUS_OK,
                             events_cuda_windows(events, origin, &chosen, windows, listed, stream)));
    else
        hostWindows(events, &chosen, windows, listed);
    CUSI_REQUIRE(!windows || found <= capacity, CUS_ERROR_CAPACITY, "%s: there are %llu windows, capacity is %zu", function,
                 (unsigned long long)found, capacity);
    return CUS_OK;
}
