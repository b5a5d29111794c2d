/* Recordings of any length: the entry points. Pieces are cut into windows as they arrive, and frames are made batch by
 * batch in fixed buffers (staging.c). */
#include "check.h"
#include "device.h"
#include "events/pipeline.h"
#include "progress.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t default_max_gap = 1000;

cusEventPipelineOptions cusEventPipelineDefaults(void) {
    return (cusEventPipelineOptions){.windowing = cusWindowingDefaults()};
}

/* ---- Create and destroy ------------------------------------------------------------------------------------------ */

static cusStatus createSlot(cusEventPipeline *s, Slot *slot) {
    const int on_device = s->options.compute == CUS_DEVICE;
    const int room = (int)s->capacity + (s->resident ? EVENTS_ROOM + EVENTS_ALIGN : 0);
    for (int k = 0; k < EVENTS_ARRAYS - !s->with_times; ++k) {
        if (!s->resident)
            CUS_TRY(on_device ? cusMatCreatePinned(&slot->staging[k], 1, room, events_array_types[k])
                              : cusMatCreate(&slot->staging[k], 1, room, events_array_types[k], CUS_HOST));
        if (on_device)
            CUS_TRY(cusMatCreate(&slot->events[k], 1, room, events_array_types[k], CUS_DEVICE));
    }
    if (on_device) {
        CUS_TRY(cusStreamEventCreate(&slot->uploaded));
        CUS_TRY(cusStreamEventCreate(&slot->used));
    }
    return CUS_OK;
}

static cusStatus createBatch(cusEventPipeline *s, Batch *batch) {
    const int on_device = s->options.compute == CUS_DEVICE;
    batch->windows = malloc(s->batch * sizeof *batch->windows);
    CUSI_REQUIRE(batch->windows, CUS_ERROR_NO_MEMORY, "cusEventPipelineCreate: no host memory");
    for (int i = 0; i < s->representations; ++i) {
        const int rows = (int)s->batch * s->rows, type = s->stacker->types[i];
        CUS_TRY(cusMatCreate(&batch->frames[i], rows, s->cols, type, s->options.compute));
        if (on_device && s->options.deliver == CUS_HOST)
            CUS_TRY(cusMatCreatePinned(&batch->host_frames[i], rows, s->cols, type));
    }
    if (on_device) {
        CUS_TRY(cusStreamEventCreate(&batch->computed));
        CUS_TRY(cusStreamEventCreate(&batch->downloaded));
    }
    return CUS_OK;
}

static cusStatus create(cusEventPipeline *s, const cusRepresentation *representations, int count, size_t room) {
    const cusStatus status =
        cusEventStackerCreate(&s->stacker, s->rows, s->cols, s->options.compute, representations, count);
    if (status != CUS_OK)
        return cusi_renamed("cusEventPipelineCreate", status);
    s->representations = count;
    CUSI_REQUIRE(!eventsNeedsSpans(s->stacker) || s->options.windowing.unit == CUS_WINDOW_DURATION, CUS_ERROR_VALUE,
                 "cusEventPipelineCreate: windowing's unit is CUS_WINDOW_COUNT, expected CUS_WINDOW_DURATION for a "
                 "representation with window_times");
    s->with_times = s->options.windowing.unit == CUS_WINDOW_DURATION || eventsNeedsTimes(s->stacker);
    size_t frame_bytes = 0;
    for (int i = 0; i < count; ++i)
        frame_bytes += (size_t)s->rows * (size_t)s->cols * cusTypeSize(s->stacker->types[i]);
    assert(frame_bytes > 0);
    const size_t most = (size_t)INT32_MAX / (size_t)s->rows;
    s->batch = s->options.batch_windows ? s->options.batch_windows : ((size_t)16 << 20) / frame_bytes;
    s->batch = s->batch < 1 ? 1 : s->batch > 4096 ? 4096 : s->batch;
    s->batch = s->batch < most ? s->batch : most;
    assert(s->batch > 0);
    s->planned = malloc(s->batch * sizeof *s->planned);
    s->spans = malloc(s->batch * sizeof *s->spans);
    CUSI_REQUIRE(s->planned && s->spans, CUS_ERROR_NO_MEMORY, "cusEventPipelineCreate: no host memory");
    s->device = -1;
    if (s->options.compute == CUS_DEVICE) {
        CUS_TRY(cusDeviceGet(&s->device));
        CUS_TRY(cusStreamCreate(&s->up));
        CUS_TRY(cusStreamCreate(&s->compute));
        CUS_TRY(cusStreamCreate(&s->down));
    }
    s->slot_count = s->options.compute == CUS_DEVICE ? EVENTS_SLOTS : 1;
    for (int k = 0; k < s->slot_count; ++k)
        CUS_TRY(createSlot(s, &s->slots[k]));
    const size_t likely = room / (s->batch * frame_bytes);
    s->batch_count = likely < (size_t)s->slot_count ? s->slot_count
                     : likely > EVENTS_MAX_BATCHES  ? EVENTS_MAX_BATCHES
                                                    : (int)likely;
    s->batches = calloc((size_t)s->batch_count, sizeof *s->batches);
    s->batch_count = s->batches ? s->batch_count : 0;
    CUSI_REQUIRE(s->batches, CUS_ERROR_NO_MEMORY, "cusEventPipelineCreate: no host memory");
    for (int k = 0; k < s->batch_count; ++k)
        CUS_TRY(createBatch(s, &s->batches[k]));
    return s->options.decoder ? eventsBytesCreate(s) : CUS_OK;
}

/* Prepares for the first event of a recording. */
static void restart(cusEventPipeline *s) {
    s->pushed = s->options.first_event;
    s->origin = s->newest = s->options.origin; /* replaced by the first event's time if first_event is 0 */
    s->advanced = INT64_MIN;
    s->held = s->begin = 0;
    s->next = s->options.first_window;
    eventsBytesForget(s);
}

cusStatus cusEventPipelineCreate(cusEventPipeline **pipeline, int rows, int cols, const cusRepresentation *representations,
                                 int count, const cusEventPipelineOptions *options, cusFrameSink sink, void *user) {
    CUSI_TRACE;
    return eventsCreatePipeline(pipeline, rows, cols, representations, count, options, 0, sink, user);
}

cusStatus eventsCreatePipeline(cusEventPipeline **pipeline, int rows, int cols, const cusRepresentation *representations,
                               int count, const cusEventPipelineOptions *options, size_t room, cusFrameSink sink,
                               void *user) {
    static const char function[] = "cusEventPipelineCreate";
    CUSI_NOT_NULL(function, pipeline);
    CUSI_NOT_NULL(function, sink);
    const cusEventPipelineOptions chosen = options ? *options : cusEventPipelineDefaults();
    const cusWindowing *windowing = &chosen.windowing;
    CUS_TRY(cusi_checkReserved(function, "options->", chosen.reserved));
    CUS_TRY(cusi_checkReserved(function, "options->windowing.", windowing->reserved));
    if (chosen.decoder)
        CUS_TRY(cusi_checkReserved(function, "options->decoder->", chosen.decoder->reserved));
    CUS_TRY(eventsCheckWindowing(function, windowing));
    CUS_TRY(cusi_checkSwitch(function, "options->whole_batches", chosen.whole_batches));
    CUS_TRY(cusi_checkSwitch(function, "options->low_latency", chosen.low_latency));
    CUSI_REQUIRE(chosen.end_window == 0 || chosen.end_window >= chosen.first_window, CUS_ERROR_VALUE,
                 "%s: end_window is %llu, expected 0 or at least first_window = %llu", function,
                 (unsigned long long)chosen.end_window, (unsigned long long)chosen.first_window);
    const uint64_t stride = eventsStride(windowing),
                   first_full = chosen.first_event / stride + (chosen.first_event % stride > 0);
    CUSI_REQUIRE(windowing->unit == CUS_WINDOW_DURATION || chosen.first_window >= first_full, CUS_ERROR_VALUE,
                 "%s: first_window is %llu, expected at least %llu, the first window after first_event = %llu", function,
                 (unsigned long long)chosen.first_window, (unsigned long long)first_full,
                 (unsigned long long)chosen.first_event);
    CUSI_REQUIRE(chosen.compute == CUS_HOST || chosen.compute == CUS_DEVICE, CUS_ERROR_VALUE,
                 "%s: compute is %d, expected CUS_HOST or CUS_DEVICE", function, (int)chosen.compute);
    CUSI_REQUIRE(chosen.deliver == CUS_HOST || chosen.deliver == CUS_DEVICE, CUS_ERROR_VALUE,
                 "%s: deliver is %d, expected CUS_HOST or CUS_DEVICE", function, (int)chosen.deliver);
    CUSI_REQUIRE(chosen.deliver == CUS_HOST || chosen.compute == CUS_DEVICE, CUS_ERROR_VALUE,
                 "%s: deliver is CUS_DEVICE, expected compute CUS_DEVICE too", function);
    const uint64_t length = windowing->unit == CUS_WINDOW_COUNT ? windowing->length : 1;
    const int resident = chosen.decoder && chosen.compute == CUS_DEVICE;
    uint64_t capacity = chosen.max_events ? chosen.max_events : (uint64_t)(resident ? 16 : 4) << 20;
    capacity = chosen.max_events || capacity > length ? capacity : length;
    CUSI_REQUIRE(capacity >= length && capacity <= EVENTS_MAX_WINDOW - EVENTS_ROOM, CUS_ERROR_VALUE,
                 "%s: max_events is %llu, expected %llu..2147483582", function, (unsigned long long)capacity,
                 (unsigned long long)length);
    cusEventPipeline *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    made->rows = rows;
    made->cols = cols;
    made->options = chosen;
    made->options.max_gap = chosen.max_gap ? chosen.max_gap : default_max_gap;
    made->sink = sink;
    made->user = user;
    made->capacity = (size_t)capacity;
    made->resident = resident;
    made->gaps_end = chosen.end_window;
    restart(made);
    const cusStatus status = create(made, representations, count, room);
    if (status != CUS_OK) {
        cusEventPipelineDestroy(made);
        return status;
    }
    *pipeline = made;
    return CUS_OK;
}

void cusEventPipelineDestroy(cusEventPipeline *pipeline) {
    CUSI_TRACE;
    if (!pipeline)
        return;
    const cusStream streams[] = {pipeline->up, pipeline->compute, pipeline->down};
    for (int i = 0; i < 3; ++i)
        if (streams[i])
            (void)cusi_deviceFinish("cusEventPipelineDestroy", streams[i]);
    for (int k = 0; k < EVENTS_SLOTS; ++k) {
        Slot *slot = &pipeline->slots[k];
        for (int i = 0; i < EVENTS_ARRAYS; ++i) {
            cusMatRelease(&slot->staging[i]);
            cusMatRelease(&slot->events[i]);
        }
        cusStreamEventDestroy(slot->uploaded);
        cusStreamEventDestroy(slot->used);
    }
    for (int k = 0; k < pipeline->batch_count; ++k) {
        Batch *batch = &pipeline->batches[k];
        for (int i = 0; i < EVENTS_MAX_REPRESENTATIONS; ++i) {
            cusMatRelease(&batch->frames[i]);
            cusMatRelease(&batch->host_frames[i]);
        }
        free(batch->windows);
        cusStreamEventDestroy(batch->computed);
        cusStreamEventDestroy(batch->downloaded);
    }
    free(pipeline->batches);
    for (int i = 0; i < 3; ++i)
        cusStreamDestroy(streams[i]);
    eventsBytesDestroy(pipeline);
    free(pipeline->planned);
    free(pipeline->spans);
    cusEventStackerDestroy(pipeline->stacker);
    free(pipeline);
}

/* ---- Push and flush ------------------------------------------------------------------------------------------------- */

static cusStatus checkedPush(cusEventPipeline *s, const cusEventArrays *events) {
    static const char function[] = "cusEventPipelinePush";
    CUSI_NOT_NULL(function, events);
    CUSI_REQUIRE(events->space == CUS_HOST, CUS_ERROR_SPACE, "%s: events are in device memory, expected host memory",
                 function);
    CUS_TRY(eventsStartOfPush(s, function, 0));
    return eventsPush(s, function, events);
}

cusStatus cusEventPipelinePush(cusEventPipeline *pipeline, const cusEventArrays *events) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventPipelinePush", pipeline, NULL, CUSI_LONG("cusEventPipelinePush", checkedPush(pipeline, events)));
}

static cusStatus advance(cusEventPipeline *s, int64_t time) {
    if (s->pushed == s->options.first_event)
        return CUS_OK;
    if (eventsByDuration(s) && time > s->newest) {
        CUS_TRY(eventsCheckGap(s, time));
        s->newest = s->advanced = time;
    }
    const cusStatus status = eventsSubmitStaged(s, 0);
    s->advanced = INT64_MIN; /* ends the effect of the advance */
    CUS_TRY(status);
    return s->options.whole_batches ? CUS_OK : eventsDrain(s);
}

static cusStatus checkedAdvance(cusEventPipeline *s, int64_t time) {
    static const char function[] = "cusEventPipelineAdvance";
    if (s->failed)
        return cusi_fail(s->failed, "%s", s->message);
    const cusStatus status = advance(s, time);
    return eventsRemember(s, status == CUS_OK ? CUS_OK : cusi_renamed(function, status));
}

cusStatus cusEventPipelineAdvance(cusEventPipeline *pipeline, int64_t time) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventPipelineAdvance", pipeline, NULL, checkedAdvance(pipeline, time));
}

static cusStatus flush(cusEventPipeline *s) {
    CUS_TRY(eventsSubmitStaged(s, 1));
    CUS_TRY(eventsDrain(s));
    if (s->resident) /* frames on the device must be complete too */
        CUS_TRY(cusStreamSynchronize(s->compute));
    restart(s);
    return eventsPacketsForget(s);
}

static cusStatus checkedFlush(cusEventPipeline *s) {
    if (s->failed && !s->stopped && eventsSubmitStaged(s, 0) == CUS_OK) /* delivers what came before the failure */
        (void)eventsDrain(s);
    if (s->failed)
        return cusi_fail(s->failed, "%s", s->message);
    CUS_TRY(eventsRemember(s, flush(s)));
    return s->bytes ? eventsBytesFinish(s) : CUS_OK;
}

cusStatus cusEventPipelineFlush(cusEventPipeline *pipeline) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventPipelineFlush", pipeline, NULL, CUSI_LONG("cusEventPipelineFlush", checkedFlush(pipeline)));
}

/* ---- Another place, and counts ----------------------------------------------------------------------------------- */

cusStatus eventsGoTo(cusEventPipeline *s, const EventsPlace *place) {
    const cusStream streams[] = {s->up, s->compute, s->down};
    for (int i = 0; i < 3; ++i)
        if (streams[i])
            CUS_TRY(cusStreamSynchronize(streams[i]));
    for (int k = 0; k < s->batch_count; ++k)
        s->batches[k].count = 0;
    s->failed = CUS_OK;
    s->stopped = 0;
    s->counts.decoded = (cusEventCounts){0};
    s->options.first_window = place->first_window;
    s->options.end_window = place->end_window;
    s->options.first_event = place->first_event;
    s->options.origin = place->origin;
    s->gaps_end = place->whole_end;
    restart(s);
    return eventsPacketsForget(s);
}

void eventsEndAt(cusEventPipeline *s, uint64_t end_window) {
    s->options.end_window = end_window;
}

int eventsBatches(const cusEventPipeline *s, size_t *windows) {
    *windows = s->batch;
    return s->batch_count;
}

void eventsCount(const cusEventPipeline *s, cusEventPipelineCounts *counts) {
    *counts = s->counts;
    const int any = eventsByDuration(s) && s->pushed > s->options.first_event;
    counts->last_time = any ? s->newest : -1;
    counts->complete = s->options.end_window && s->next >= s->options.end_window;
}

static cusStatus query(cusEventPipeline *pipeline, cusEventPipelineCounts *counts) {
    CUSI_NOT_NULL("cusEventPipelineQuery", counts);
    CUS_TRY(cusEventStackerSkipped(pipeline->stacker, &pipeline->counts.skipped, pipeline->compute));
    eventsCount(pipeline, counts);
    return CUS_OK;
}

cusStatus cusEventPipelineQuery(cusEventPipeline *pipeline, cusEventPipelineCounts *counts) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventPipelineQuery", pipeline, NULL, CUSI_LONG("cusEventPipelineQuery", query(pipeline, counts)));
}
