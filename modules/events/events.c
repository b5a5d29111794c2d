#include "check.h"
#include "events_backend.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Windows -----------------------------------------------------------------------------------------------------------
 */

cusWindowing cusWindowingDefaults(void) {
    return (cusWindowing){.unit = CUS_WINDOW_COUNT, .length = 200000};
}

cusStatus eventsCheckWindowing(const char *function, const cusWindowing *windowing) {
    CUSI_REQUIRE(windowing->unit == CUS_WINDOW_COUNT || windowing->unit == CUS_WINDOW_DURATION, CUS_ERROR_VALUE,
                 "%s: windowing's unit is %d, takes CUS_WINDOW_COUNT or CUS_WINDOW_DURATION", function,
                 (int)windowing->unit);
    CUSI_REQUIRE(windowing->length >= 1 && windowing->length <= INT64_MAX, CUS_ERROR_VALUE,
                 "%s: windowing's length is %llu, takes 1..2^63 - 1", function, (unsigned long long)windowing->length);
    CUSI_REQUIRE(windowing->stride <= INT64_MAX, CUS_ERROR_VALUE, "%s: windowing's stride is %llu, takes 0..2^63 - 1",
                 function, (unsigned long long)windowing->stride);
    return CUS_OK;
}

uint64_t eventsWindowCount(const cusWindowing *windowing, uint64_t extent) {
    const uint64_t stride = eventsStride(windowing);
    assert(stride > 0);
    const uint64_t complete = extent >= windowing->length ? (extent - windowing->length) / stride + 1 : 0;
    /* complete * stride wraps nowhere: complete - 1 strides lie inside the extent and a stride is below 2^63. */
    return complete + (windowing->keep_incomplete && complete * stride < extent);
}

uint64_t eventsLowerBound(const int64_t *t, uint64_t count, int64_t origin, uint64_t relative) {
    uint64_t first = 0;
    while (count > 0) {
        const uint64_t half = count / 2;
        const int before = t[first + half] < origin || (uint64_t)t[first + half] - (uint64_t)origin < relative;
        first = before ? first + half + 1 : first;
        count = before ? count - half - 1 : half;
    }
    return first;
}

/* The arrays that are needed are there. */
static cusStatus checkEvents(const char *function, const cusEventArrays *events, int coordinates, int times) {
    CUSI_NOT_NULL(function, events);
    CUSI_REQUIRE(events->space == CUS_HOST || events->space == CUS_DEVICE, CUS_ERROR_VALUE,
                 "%s: events' space is %d, takes CUS_HOST or CUS_DEVICE", function, (int)events->space);
    if (events->count == 0)
        return CUS_OK;
    CUSI_REQUIRE(!coordinates || (events->x && events->y && events->p), CUS_ERROR_NULL, "%s: events' %s is NULL", function,
                 !events->x   ? "x"
                 : !events->y ? "y"
                              : "p");
    CUSI_REQUIRE(!times || events->t, CUS_ERROR_NULL, "%s: events' t is NULL, and the times are needed", function);
    return CUS_OK;
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
    static const char function[] = "cusEventWindows";
    const cusWindowing chosen = windowing ? *windowing : cusWindowingDefaults();
    CUSI_NOT_NULL(function, count);
    CUS_TRY(eventsCheckWindowing(function, &chosen));
    const int by_duration = chosen.unit == CUS_WINDOW_DURATION;
    CUS_TRY(checkEvents(function, events, 0, by_duration));
    CUSI_REQUIRE(windows || capacity == 0, CUS_ERROR_NULL, "%s: windows is NULL, capacity %zu", function, capacity);
    uint64_t extent = events->count;
    if (by_duration && events->count > 0) {
        if (events->space == CUS_DEVICE)
            CUS_TRY(CUSI_BACKEND(function, CUS_DEVICE, CUS_OK, events_cuda_extent(events, &extent, stream)));
        else
            extent = (uint64_t)events->t[events->count - 1] - (uint64_t)events->t[0] + 1;
    }
    const uint64_t found = eventsWindowCount(&chosen, extent);
    *count = (size_t)found;
    const size_t listed = found < capacity ? (size_t)found : capacity;
    if (listed > 0 && by_duration && events->space == CUS_DEVICE)
        CUS_TRY(CUSI_BACKEND(function, CUS_DEVICE, CUS_OK, events_cuda_windows(events, &chosen, windows, listed, stream)));
    else
        hostWindows(events, &chosen, windows, listed);
    CUSI_REQUIRE(!windows || found <= capacity, CUS_ERROR_CAPACITY, "%s: there are %llu windows, capacity is %zu", function,
                 (unsigned long long)found, capacity);
    return CUS_OK;
}

/* ---- Representations ---------------------------------------------------------------------------------------------------
 */

static const char *const names[] = {"histogram",         "mdes",       "mdes_count",   "tencode",
                                    "stacked_histogram", "voxel_grid", "time_surface", "event_diff"};

const char *cusRepresentationName(cusRepresentationKind kind) {
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : NULL;
}

cusRepresentation cusRepresentationDefaults(cusRepresentationKind kind) {
    return (cusRepresentation){
        .kind = kind, .channels = kind == CUS_REPR_VOXEL_GRID ? 5 : 10, .depth = CUS_8U, .cutoff = 255, .tau = 50000};
}

static cusStatus checkRepresentation(const char *function, const cusRepresentation *r, int *type) {
    const char *name = cusRepresentationName(r->kind);
    CUSI_REQUIRE(name, CUS_ERROR_VALUE, "%s: representation's kind is %d, takes 0..7", function, (int)r->kind);
    const int with_channels = r->kind == CUS_REPR_MDES || r->kind == CUS_REPR_MDES_COUNT ||
                              r->kind == CUS_REPR_STACKED_HISTOGRAM || r->kind == CUS_REPR_VOXEL_GRID;
    CUSI_REQUIRE(!with_channels || (r->channels >= 1 && r->channels <= EVENTS_MAX_CHANNELS), CUS_ERROR_VALUE,
                 "%s: %s's channels are %d, takes 1..16", function, name, r->channels);
    CUSI_REQUIRE(r->kind != CUS_REPR_MDES || r->depth == CUS_8U || r->depth == CUS_8S || r->depth == CUS_32F,
                 CUS_ERROR_TYPE, "%s: mdes's depth is %d, takes CUS_8U, CUS_8S or CUS_32F", function, r->depth);
    CUSI_REQUIRE(r->kind != CUS_REPR_STACKED_HISTOGRAM || (r->cutoff >= 1 && r->cutoff <= 255), CUS_ERROR_VALUE,
                 "%s: stacked_histogram's cutoff is %d, takes 1..255", function, r->cutoff);
    CUSI_REQUIRE(r->kind != CUS_REPR_TIME_SURFACE || (r->tau > 0 && isfinite(r->tau)), CUS_ERROR_VALUE,
                 "%s: time_surface's tau is %g, takes a number above 0", function, r->tau);
    switch (r->kind) {
    case CUS_REPR_HISTOGRAM:
        *type = CUS_8UC2;
        break;
    case CUS_REPR_MDES:
        *type = CUS_MAKETYPE(r->depth, r->channels);
        break;
    case CUS_REPR_MDES_COUNT:
        *type = CUS_MAKETYPE(CUS_8U, r->channels);
        break;
    case CUS_REPR_TENCODE:
        *type = CUS_8UC3;
        break;
    case CUS_REPR_STACKED_HISTOGRAM:
        *type = CUS_MAKETYPE(CUS_8U, 2 * r->channels);
        break;
    case CUS_REPR_VOXEL_GRID:
        *type = CUS_MAKETYPE(CUS_32F, r->channels);
        break;
    case CUS_REPR_TIME_SURFACE:
        *type = CUS_MAKETYPE(CUS_32F, 2);
        break;
    case CUS_REPR_EVENT_DIFF:
        *type = CUS_8SC1;
        break;
    }
    return CUS_OK;
}

cusStatus cusRepresentationType(const cusRepresentation *representation, int *type) {
    CUSI_NOT_NULL("cusRepresentationType", representation);
    CUSI_NOT_NULL("cusRepresentationType", type);
    return checkRepresentation("cusRepresentationType", representation, type);
}

int eventsNeedsTimes(const cusEventStacker *stacker) {
    for (int i = 0; i < stacker->count; ++i) {
        const cusRepresentationKind kind = stacker->representations[i].kind;
        if (kind == CUS_REPR_TENCODE || kind == CUS_REPR_STACKED_HISTOGRAM || kind == CUS_REPR_VOXEL_GRID ||
            kind == CUS_REPR_TIME_SURFACE)
            return 1;
    }
    return 0;
}

/* ---- The stacker -------------------------------------------------------------------------------------------------------
 */

cusStatus cusEventStackerCreate(cusEventStacker **stacker, int rows, int cols, cusSpace space,
                                const cusRepresentation *representations, int count) {
    static const char function[] = "cusEventStackerCreate";
    CUSI_NOT_NULL(function, stacker);
    CUSI_NOT_NULL(function, representations);
    CUSI_REQUIRE(rows >= 1 && rows <= 65536 && cols >= 1 && cols <= 65536, CUS_ERROR_VALUE,
                 "%s: frame is %d x %d (rows x cols), takes 1..65536 each", function, rows, cols);
    CUS_TRY(cusi_checkSpace(function, space));
    CUSI_REQUIRE(count >= 1 && count <= EVENTS_MAX_REPRESENTATIONS, CUS_ERROR_VALUE,
                 "%s: count is %d, takes 1..8 representations", function, count);
    int types[EVENTS_MAX_REPRESENTATIONS];
    for (int i = 0; i < count; ++i)
        CUS_TRY(checkRepresentation(function, &representations[i], &types[i]));
    cusEventStacker *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    made->rows = rows;
    made->cols = cols;
    made->space = space;
    made->count = count;
    memcpy(made->representations, representations, (size_t)count * sizeof *representations);
    memcpy(made->types, types, (size_t)count * sizeof *types);
    const cusStatus status = CUSI_BACKEND(function, space, events_host_create(made), events_cuda_create(made));
    if (status != CUS_OK) {
        cusEventStackerDestroy(made);
        return status;
    }
    *stacker = made;
    return CUS_OK;
}

void cusEventStackerDestroy(cusEventStacker *stacker) {
    if (!stacker)
        return;
    if (stacker->space == CUS_HOST)
        events_host_destroy(stacker);
#ifdef CUSI_WITH_CUDA
    else
        events_cuda_destroy(stacker);
#endif
    free(stacker);
}

static cusStatus checkNoOverlap(const char *function, int index, const cusMat *frame, const char *array, const void *data,
                                size_t bytes) {
    if (!frame->data || !data)
        return CUS_OK;
    const uintptr_t a = (uintptr_t)frame->data, b = (uintptr_t)data;
    const uintptr_t a_end = a + (uintptr_t)(frame->rows - 1) * frame->step + cusi_rowBytes(frame);
    CUSI_REQUIRE(a >= b + bytes || b >= a_end, CUS_ERROR_ALIAS, "%s: frames[%d] overlaps events' %s", function, index,
                 array);
    return CUS_OK;
}

cusStatus cusEventStack(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                        size_t window_count, cusMat *frames, cusStream stream) {
    static const char function[] = "cusEventStack";
    CUSI_NOT_NULL(function, stacker);
    CUS_TRY(checkEvents(function, events, 1, eventsNeedsTimes(stacker)));
    CUSI_REQUIRE(events->space == stacker->space, CUS_ERROR_SPACE, "%s: events are in %s memory, takes %s as the stacker",
                 function, events->space == CUS_DEVICE ? "device" : "host",
                 stacker->space == CUS_DEVICE ? "device" : "host");
    if (window_count == 0)
        return CUS_OK;
    CUSI_NOT_NULL(function, windows);
    CUSI_NOT_NULL(function, frames);
    CUSI_REQUIRE(window_count <= (size_t)INT32_MAX / (size_t)stacker->rows, CUS_ERROR_SIZE,
                 "%s: %zu windows of %d rows make more than 2147483647 rows; take fewer at a time", function, window_count,
                 stacker->rows);
    for (size_t w = 0; w < window_count; ++w) {
        const uint64_t first = windows[w].first, last = windows[w].last;
        CUSI_REQUIRE(first <= last && last <= events->count, CUS_ERROR_VALUE,
                     "%s: windows[%zu] is %llu..%llu, takes 0 <= first <= last <= %zu", function, w,
                     (unsigned long long)first, (unsigned long long)last, events->count);
        CUSI_REQUIRE(last - first <= EVENTS_MAX_WINDOW, CUS_ERROR_SIZE,
                     "%s: windows[%zu] has %llu events, takes up to 2147483646", function, w,
                     (unsigned long long)(last - first));
    }
    const int rows = (int)window_count * stacker->rows;
    for (int i = 0; i < stacker->count; ++i) {
        char name[32];
        snprintf(name, sizeof name, "frames[%d]", i);
        CUS_TRY(cusi_checkOutput(function, name, &frames[i], rows, stacker->cols, stacker->types[i], stacker->space));
        if (!cusi_fits(&frames[i], rows, stacker->cols, stacker->types[i], stacker->space))
            continue; /* it will have memory of its own */
        CUS_TRY(checkNoOverlap(function, i, &frames[i], "x", events->x, events->count * sizeof *events->x));
        CUS_TRY(checkNoOverlap(function, i, &frames[i], "y", events->y, events->count * sizeof *events->y));
        CUS_TRY(checkNoOverlap(function, i, &frames[i], "p", events->p, events->count * sizeof *events->p));
        CUS_TRY(checkNoOverlap(function, i, &frames[i], "t", events->t, events->count * sizeof *events->t));
        for (int j = 0; j < i; ++j)
            CUS_TRY(cusi_checkNoOverlap(function, name, &frames[i], "another of the frames", &frames[j]));
    }
    for (int i = 0; i < stacker->count; ++i)
        CUS_TRY(cusMatCreate(&frames[i], rows, stacker->cols, stacker->types[i], stacker->space));
    return CUSI_BACKEND(function, stacker->space, events_host_stack(stacker, events, windows, window_count, frames),
                        events_cuda_stack(stacker, events, windows, window_count, frames, stream));
}

cusStatus cusEventStackerSkipped(cusEventStacker *stacker, uint64_t *skipped, cusStream stream) {
    CUSI_NOT_NULL("cusEventStackerSkipped", stacker);
    CUSI_NOT_NULL("cusEventStackerSkipped", skipped);
    return CUSI_BACKEND("cusEventStackerSkipped", stacker->space, events_host_skipped(stacker, skipped),
                        events_cuda_skipped(stacker, skipped, stream));
}
