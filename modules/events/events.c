/* Entry points of events: representations, and the stacker, for both backends. */
#include "check.h"
#include "events/backend.h"
#include "progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Representations ----------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int depth;    /* MDES and floats: the caller's choice */
    int channels; /* 0: the caller's choice times `per_channel` */
    int per_channel, needs_times;
} kinds[] = {[CUS_REPR_HISTOGRAM] = {"histogram", CUS_8U, 2, 0, 0},
             [CUS_REPR_MDES] = {"mdes", CUS_8U, 0, 1, 0},
             [CUS_REPR_MDES_COUNT] = {"mdes_count", CUS_8U, 0, 1, 0},
             [CUS_REPR_TENCODE] = {"tencode", CUS_8U, 3, 0, 1},
             [CUS_REPR_STACKED_HISTOGRAM] = {"stacked_histogram", CUS_8U, 0, 2, 1},
             [CUS_REPR_VOXEL_GRID] = {"voxel_grid", CUS_32F, 0, 1, 1},
             [CUS_REPR_TIME_SURFACE] = {"time_surface", CUS_32F, 2, 0, 1},
             [CUS_REPR_EVENT_DIFF] = {"event_diff", CUS_8S, 1, 0, 0},
             [CUS_REPR_EVENT_CUBE] = {"event_cube", CUS_32F, 0, 2, 1},
             [CUS_REPR_MDES_DIFF] = {"mdes_diff", CUS_8S, 0, 1, 1}};

const char *cusRepresentationName(cusRepresentationKind kind) {
    return (unsigned)kind < sizeof kinds / sizeof kinds[0] ? kinds[kind].name : NULL;
}

cusRepresentation cusRepresentationDefaults(cusRepresentationKind kind) {
    const int floats = cusRepresentationName(kind) && kinds[kind].depth == CUS_32F;
    return (cusRepresentation){.kind = kind,
                               .channels = kind == CUS_REPR_VOXEL_GRID ? 5 : 10,
                               .depth = floats ? CUS_32F : CUS_8U,
                               .cutoff = 255,
                               .tau = 50000,
                               .lower = INT8_MIN,
                               .upper = INT8_MAX,
                               .scale = 1,
                               .clip = INFINITY};
}

/* Checks the options that only some kinds have. */
static cusStatus checkValues(const char *function, const cusRepresentation *r, const char *name) {
    const int diff = r->kind == CUS_REPR_EVENT_DIFF || r->kind == CUS_REPR_MDES_DIFF;
    CUSI_REQUIRE(!diff || (r->lower >= INT8_MIN && r->lower <= 0), CUS_ERROR_VALUE,
                 "%s: %s's lower is %d, expected -128..0", function, name, r->lower);
    CUSI_REQUIRE(!diff || (r->upper >= 0 && r->upper <= INT8_MAX), CUS_ERROR_VALUE, "%s: %s's upper is %d, expected 0..127",
                 function, name, r->upper);
    CUSI_REQUIRE(r->kind != CUS_REPR_TIME_SURFACE ||
                     (r->surface >= CUS_SURFACE_EXPONENTIAL && r->surface <= CUS_SURFACE_LINEAR),
                 CUS_ERROR_VALUE, "%s: time_surface's surface is %d, expected 0 (exponential), 1 (time) or 2 (linear)",
                 function, r->surface);
    const int cube = r->kind == CUS_REPR_EVENT_CUBE, timed = cube || r->kind == CUS_REPR_TIME_SURFACE;
    if (timed || r->kind == CUS_REPR_HISTOGRAM || r->kind == CUS_REPR_STACKED_HISTOGRAM || r->kind == CUS_REPR_TENCODE)
        CUS_TRY(cusi_checkSwitch(function, "representation's swap_channels", r->swap_channels));
    if (timed)
        CUS_TRY(cusi_checkSwitch(function, "representation's window_times", r->window_times));
    if (r->kind == CUS_REPR_EVENT_DIFF)
        CUS_TRY(cusi_checkSwitch(function, "representation's clip_each_event", r->clip_each_event));
    if (!cube)
        return CUS_OK;
    CUSI_REQUIRE(r->scale > 0 && isfinite(r->scale), CUS_ERROR_VALUE,
                 "%s: event_cube's scale is %g, expected a finite number above 0", function, r->scale);
    CUSI_REQUIRE(r->clip > 0, CUS_ERROR_VALUE, "%s: event_cube's clip is %g, expected a number above 0", function, r->clip);
    return CUS_OK;
}

static cusStatus checkRepresentation(const char *function, const cusRepresentation *r, int *type) {
    const char *name = cusRepresentationName(r->kind);
    CUSI_REQUIRE(name, CUS_ERROR_VALUE, "%s: representation's kind is %d, expected 0..%d", function, (int)r->kind,
                 (int)(sizeof kinds / sizeof kinds[0]) - 1);
    const int fixed = kinds[r->kind].channels;
    CUSI_REQUIRE(fixed || (r->channels >= 1 && r->channels <= EVENTS_MAX_CHANNELS), CUS_ERROR_VALUE,
                 "%s: %s's channels are %d, expected 1..16", function, name, r->channels);
    CUSI_REQUIRE(r->kind != CUS_REPR_MDES || r->depth == CUS_8U || r->depth == CUS_8S || r->depth == CUS_32F,
                 CUS_ERROR_TYPE, "%s: mdes's depth is %d, expected CUS_8U, CUS_8S or CUS_32F", function, r->depth);
    const int floats = kinds[r->kind].depth == CUS_32F;
    CUSI_REQUIRE(!floats || r->depth == CUS_32F || r->depth == CUS_16F, CUS_ERROR_TYPE,
                 "%s: %s's depth is %d, expected CUS_32F or CUS_16F", function, name, r->depth);
    CUSI_REQUIRE(r->kind != CUS_REPR_STACKED_HISTOGRAM || (r->cutoff >= 1 && r->cutoff <= 255), CUS_ERROR_VALUE,
                 "%s: stacked_histogram's cutoff is %d, expected 1..255", function, r->cutoff);
    CUSI_REQUIRE(r->kind != CUS_REPR_VOXEL_GRID ||
                     (r->normalize >= CUS_NORMALIZE_NONE && r->normalize <= CUS_NORMALIZE_SAMPLE),
                 CUS_ERROR_VALUE, "%s: voxel_grid's normalize is %d, expected 0 (none), 1 (population) or 2 (sample)",
                 function, r->normalize);
    CUSI_REQUIRE(r->kind != CUS_REPR_TIME_SURFACE || (r->tau > 0 && isfinite(r->tau)), CUS_ERROR_VALUE,
                 "%s: time_surface's tau is %g, expected a finite number above 0", function, r->tau);
    CUS_TRY(checkValues(function, r, name));
    *type = CUS_MAKETYPE(r->kind == CUS_REPR_MDES || floats ? r->depth : kinds[r->kind].depth,
                         fixed ? fixed : r->channels * kinds[r->kind].per_channel);
    return CUS_OK;
}

cusStatus cusRepresentationType(const cusRepresentation *representation, int *type) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusRepresentationType", representation);
    CUSI_NOT_NULL("cusRepresentationType", type);
    CUS_TRY(cusi_checkReserved("cusRepresentationType", "representation->", representation->reserved));
    return checkRepresentation("cusRepresentationType", representation, type);
}

int eventsNeedsTimes(const cusEventStacker *stacker) {
    int needed = 0;
    for (int i = 0; i < stacker->count; ++i)
        needed |= kinds[stacker->representations[i].kind].needs_times;
    return needed;
}

int eventsNeedsSpans(const cusEventStacker *stacker) {
    int needed = 0;
    for (int i = 0; i < stacker->count; ++i)
        needed |= eventsUsesSpan(&stacker->representations[i]);
    return needed;
}

/* ---- The stacker --------------------------------------------------------------------------------------------------- */

static cusStatus checkMap(const char *function, const cusRepresentation *r, int rows, int cols, cusSpace space) {
    if (r->kind != CUS_REPR_VOXEL_GRID || !r->map)
        return CUS_OK;
    static const int types[] = {CUS_32FC2, -1};
    CUS_TRY(cusi_checkInput(function, "voxel_grid's map", r->map, types));
    CUSI_REQUIRE(r->map->rows == rows && r->map->cols == cols, CUS_ERROR_SIZE,
                 "%s: voxel_grid's map is %d x %d, expected %d x %d like the frame", function, r->map->rows, r->map->cols,
                 rows, cols);
    CUSI_REQUIRE(r->map->space == space, CUS_ERROR_SPACE, "%s: voxel_grid's map is in %s memory, expected %s memory",
                 function, r->map->space == CUS_DEVICE ? "device" : "host", space == CUS_DEVICE ? "device" : "host");
    return CUS_OK;
}

cusStatus cusEventStackerCreate(cusEventStacker **stacker, int rows, int cols, cusSpace space,
                                const cusRepresentation *representations, int count) {
    CUSI_TRACE;
    static const char function[] = "cusEventStackerCreate";
    CUSI_NOT_NULL(function, stacker);
    CUSI_NOT_NULL(function, representations);
    CUSI_REQUIRE(rows >= 1 && rows <= 65536 && cols >= 1 && cols <= 65536, CUS_ERROR_VALUE,
                 "%s: frame is %d x %d (rows x cols), expected 1..65536 each", function, rows, cols);
    CUS_TRY(cusi_checkSpace(function, space));
    CUSI_REQUIRE(count >= 1 && count <= EVENTS_MAX_REPRESENTATIONS, CUS_ERROR_VALUE,
                 "%s: count is %d, expected 1..8 representations", function, count);
    int types[EVENTS_MAX_REPRESENTATIONS];
    for (int i = 0; i < count; ++i) {
        static const char *const owners[EVENTS_MAX_REPRESENTATIONS] = {
            "representations[0].", "representations[1].", "representations[2].", "representations[3].",
            "representations[4].", "representations[5].", "representations[6].", "representations[7]."};
        CUS_TRY(cusi_checkReserved(function, owners[i], representations[i].reserved));
        CUS_TRY(checkRepresentation(function, &representations[i], &types[i]));
        CUS_TRY(checkMap(function, &representations[i], rows, cols, space));
    }
    cusEventStacker *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    made->rows = rows;
    made->cols = cols;
    made->space = space;
    made->count = count;
    memcpy(made->representations, representations, (size_t)count * sizeof *representations);
    for (int i = 0; i < count; ++i) {
        cusRepresentation *const r = &made->representations[i];
        if (r->lower == 0 && r->upper == 0) { /* a program that knows the fields of 0.2 leaves them 0 */
            r->lower = INT8_MIN;
            r->upper = INT8_MAX;
        }
    }
    memcpy(made->types, types, (size_t)count * sizeof *types);
    cusStatus status = CUSI_BACKEND(function, space, events_host_create(made), events_cuda_create(made));
    if (status == CUS_OK)
        status = cusi_guardCreate(function, &made->guard, space);
    if (status != CUS_OK) {
        cusEventStackerDestroy(made);
        return status;
    }
    *stacker = made;
    return CUS_OK;
}

void cusEventStackerDestroy(cusEventStacker *stacker) {
    CUSI_TRACE;
    if (!stacker)
        return;
    if (stacker->space == CUS_HOST)
        events_host_destroy(stacker);
#ifdef CUSI_WITH_CUDA
    else
        events_cuda_destroy(stacker);
#endif
    cusi_guardRelease(&stacker->guard);
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

static cusStatus checkWindows(const char *function, const cusEventWindow *windows, size_t window_count, int rows,
                              size_t events) {
    CUSI_NOT_NULL(function, windows);
    CUSI_REQUIRE(window_count <= (size_t)INT32_MAX / (size_t)rows, CUS_ERROR_SIZE,
                 "%s: %zu windows of %d rows have more than 2147483647 rows; pass fewer at a time", function, window_count,
                 rows);
    for (size_t w = 0; w < window_count; ++w) {
        const uint64_t first = windows[w].first, last = windows[w].last;
        CUSI_REQUIRE(first <= last && last <= events, CUS_ERROR_VALUE,
                     "%s: windows[%zu] is %llu..%llu, expected 0 <= first <= last <= %zu", function, w,
                     (unsigned long long)first, (unsigned long long)last, events);
        CUSI_REQUIRE(last - first <= EVENTS_MAX_WINDOW, CUS_ERROR_SIZE,
                     "%s: windows[%zu] has %llu events, expected at most 2147483646", function, w,
                     (unsigned long long)(last - first));
    }
    return CUS_OK;
}

/* Checks frame i of the outputs: it must fit or be created, and overlap neither the events nor the frames before it. */
static cusStatus checkFrame(const char *function, const cusEventStacker *stacker, const cusEventArrays *events,
                            const cusMat *frames, int i, int rows) {
    /* Constant, since formatting a name takes longer than all the checks. */
    static const char *const frame_names[EVENTS_MAX_REPRESENTATIONS] = {"frames[0]", "frames[1]", "frames[2]", "frames[3]",
                                                                        "frames[4]", "frames[5]", "frames[6]", "frames[7]"};
    const cusMat *frame = &frames[i];
    const char *const name = frame_names[i];
    const int type = stacker->types[i];
    CUS_TRY(cusi_checkOutput(function, name, frame, rows, stacker->cols, type, stacker->space));
    if (!cusi_fits(frame, rows, stacker->cols, type, stacker->space))
        return CUS_OK; /* new memory overlaps nothing */
    CUS_TRY(checkNoOverlap(function, i, frame, "x", events->x, events->count * sizeof *events->x));
    CUS_TRY(checkNoOverlap(function, i, frame, "y", events->y, events->count * sizeof *events->y));
    CUS_TRY(checkNoOverlap(function, i, frame, "p", events->p, events->count * sizeof *events->p));
    CUS_TRY(checkNoOverlap(function, i, frame, "t", events->t, events->count * sizeof *events->t));
    for (int j = 0; j < i; ++j)
        CUS_TRY(cusi_checkNoOverlap(function, name, frame, "another of the frames", &frames[j]));
    return CUS_OK;
}

static cusStatus checkSpans(const char *function, const cusEventStacker *stacker, const cusEventSpan *spans,
                            size_t window_count) {
    CUSI_REQUIRE(spans || !eventsNeedsSpans(stacker), CUS_ERROR_NULL,
                 "%s: a representation has window_times, expected spans (cusEventStackSpans)", function);
    for (size_t w = 0; spans && w < window_count; ++w)
        CUSI_REQUIRE(spans[w].begin <= spans[w].end &&
                         (uint64_t)spans[w].end - (uint64_t)spans[w].begin <= (uint64_t)INT64_MAX,
                     CUS_ERROR_VALUE, "%s: spans[%zu] is %lld..%lld, expected begin <= end, less than 2^63 us apart",
                     function, w, (long long)spans[w].begin, (long long)spans[w].end);
    return CUS_OK;
}

static cusStatus stack(const char *function, cusEventStacker *stacker, const cusEventArrays *events,
                       const cusEventWindow *windows, const cusEventSpan *spans, size_t window_count, cusMat *frames,
                       cusStream stream) {
    CUS_TRY(eventsCheckArrays(function, events, 1, eventsNeedsTimes(stacker)));
    CUSI_REQUIRE(events->space == stacker->space, CUS_ERROR_SPACE,
                 "%s: events are in %s memory, expected %s memory like the stacker", function,
                 events->space == CUS_DEVICE ? "device" : "host", stacker->space == CUS_DEVICE ? "device" : "host");
    if (window_count == 0)
        return CUS_OK;
    CUSI_NOT_NULL(function, frames);
    CUS_TRY(checkWindows(function, windows, window_count, stacker->rows, events->count));
    CUS_TRY(checkSpans(function, stacker, spans, window_count));
    const int rows = (int)window_count * stacker->rows;
    for (int i = 0; i < stacker->count; ++i)
        CUS_TRY(checkFrame(function, stacker, events, frames, i, rows));
    for (int i = 0; i < stacker->count; ++i)
        CUS_TRY(cusMatCreate(&frames[i], rows, stacker->cols, stacker->types[i], stacker->space));
    return CUSI_BACKEND(function, stacker->space, events_host_stack(stacker, events, windows, spans, window_count, frames),
                        events_cuda_stack(stacker, events, windows, spans, window_count, frames, stream));
}

cusStatus cusEventStack(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                        size_t window_count, cusMat *frames, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusEventStack";
    CUSI_GUARDED(function, stacker, stream,
                 CUSI_LONG(function, stack(function, stacker, events, windows, NULL, window_count, frames, stream)));
}

cusStatus cusEventStackSpans(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                             const cusEventSpan *spans, size_t window_count, cusMat *frames, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusEventStackSpans";
    CUSI_NOT_NULL(function, spans);
    CUSI_GUARDED(function, stacker, stream,
                 CUSI_LONG(function, stack(function, stacker, events, windows, spans, window_count, frames, stream)));
}

static cusStatus skippedEvents(const char *function, cusEventStacker *stacker, uint64_t *skipped, cusStream stream) {
    CUSI_NOT_NULL(function, skipped);
    if (stacker->space == CUS_DEVICE)
        CUS_TRY(cusi_refuseCapture(function, stream, "the call waits for it"));
    return CUSI_BACKEND(function, stacker->space, events_host_skipped(stacker, skipped),
                        events_cuda_skipped(stacker, skipped, stream));
}

cusStatus cusEventStackerSkipped(cusEventStacker *stacker, uint64_t *skipped, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusEventStackerSkipped";
    CUSI_GUARDED(function, stacker, stream, CUSI_LONG(function, skippedEvents(function, stacker, skipped, stream)));
}
