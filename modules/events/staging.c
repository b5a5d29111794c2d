/* Staged events, the windows that they complete, and batches of frames. On the device three slots for events and three
 * batches rotate: while one is uploaded, the one before is computed and the one before that downloaded. A batch is
 * delivered when its memory is needed again. */
#include "check.h"
#include "device.h"
#include "events/pipeline.h"
#include "progress.h"

#include <assert.h>
#include <string.h>

/* Events in host memory, or staged on the device. The first is number `start` of the recording. */
typedef struct View {
    const void *array[EVENTS_ARRAYS];
    uint64_t start;
    size_t count;
    const cusEventWindow *bounds; /* device, by duration: bounds of windows from bounds_from on */
    uint64_t bounds_from;
} View;

static const size_t array_bytes[EVENTS_ARRAYS] = {2, 2, 1, 8};

/* ---- Windows ----------------------------------------------------------------------------------------------------- */

/* Returns the index in the view of the event that is `at` events or microseconds after the recording's first, or
 * view->count if it has not arrived. */
static size_t indexOf(const cusEventPipeline *s, const View *view, uint64_t at) {
    if (eventsByDuration(s))
        return (size_t)eventsLowerBound(view->array[3], view->count, s->origin, at);
    const uint64_t past = at > view->start ? at - view->start : 0;
    return past < view->count ? (size_t)past : view->count;
}

/* startOf() returns the index of the view's first event in the window or after it, endOf() that of the first past its
 * end. */
static size_t startOf(const cusEventPipeline *s, const View *view, uint64_t window) {
    return view->bounds ? (size_t)view->bounds[window - view->bounds_from].first
                        : indexOf(s, view, window * eventsStride(&s->options.windowing));
}

static size_t endOf(const cusEventPipeline *s, const View *view, uint64_t window) {
    const cusWindowing *windowing = &s->options.windowing;
    return view->bounds ? (size_t)view->bounds[window - view->bounds_from].last
                        : indexOf(s, view, window * eventsStride(windowing) + windowing->length);
}

/* Returns the index of the view's first event that the next window or a later one needs. */
static size_t firstNeeded(const cusEventPipeline *s, const View *view) {
    if (s->options.end_window && s->next >= s->options.end_window)
        return view->count;
    return startOf(s, view, s->next);
}

uint64_t eventsGapLimit(const cusEventPipeline *s) {
    const cusWindowing *windowing = &s->options.windowing;
    const uint64_t stride = eventsStride(windowing), most = s->options.max_gap;
    return most > (UINT64_MAX - windowing->length) / stride ? UINT64_MAX : most * stride + windowing->length;
}

/* Windows that lie within the step have no events. */
cusStatus eventsCheckGap(const cusEventPipeline *s, int64_t t) {
    const cusWindowing *windowing = &s->options.windowing;
    const uint64_t stride = eventsStride(windowing), most = s->options.max_gap;
    const uint64_t from = (uint64_t)s->newest - (uint64_t)s->origin, to = (uint64_t)t - (uint64_t)s->origin;
    const uint64_t first = from / stride + 1, end = to >= windowing->length ? (to - windowing->length) / stride + 1 : 0;
    const int wanted = end > s->options.first_window && (!s->gaps_end || first < s->gaps_end);
    CUSI_REQUIRE(end <= first || end - first <= most || !wanted, CUS_ERROR_CAPACITY,
                 "cusEventPipelinePush: %llu windows in a row have no events, from %lld to %lld us, expected at most "
                 "max_gap = %llu",
                 (unsigned long long)(end - first), (long long)s->newest, (long long)t, (unsigned long long)most);
    return CUS_OK;
}

static size_t roomFor(const cusEventPipeline *s) {
    return s->batch - s->batches[s->filling].count;
}

/* Lists the next complete windows in s->planned, by index in the view, and the incomplete one if the view ends the
 * recording: no more than fit the batch and s->capacity events. Returns their number. */
static size_t plan(cusEventPipeline *s, const View *view, int final) {
    cusWindowing windowing = s->options.windowing;
    windowing.keep_incomplete = final && windowing.keep_incomplete;
    const int advanced = s->advanced != INT64_MIN;
    if (view->count == 0 && !advanced)
        return 0;
    uint64_t extent = view->start + view->count;
    if (eventsByDuration(s)) { /* an event with the newest time may still follow */
        const int64_t *const times = view->array[3];
        int64_t newest = s->advanced;
        if (view->count > 0 && !advanced)
            newest = s->resident || !times ? s->newest : times[view->count - 1];
        extent = (uint64_t)newest - (uint64_t)s->origin + (final ? 1 : 0);
    }
    uint64_t end = eventsWindowCount(&windowing, extent);
    if (s->options.end_window && end > s->options.end_window)
        end = s->options.end_window;
    size_t count = 0;
    for (uint64_t w = s->next; w < end && count < roomFor(s); ++w, ++count) {
        const size_t first = startOf(s, view, w), last = endOf(s, view, w);
        if (last - (count ? s->planned[0].first : first) > s->capacity)
            break;
        s->planned[count].first = first;
        s->planned[count].last = last;
    }
    return count;
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

/* Makes views of the frames of `count` windows of a batch. */
static cusStatus view(const cusEventPipeline *s, const cusMat *frames, size_t first, size_t count, cusMat *views) {
    memset(views, 0, EVENTS_MAX_REPRESENTATIONS * sizeof *views);
    for (int i = 0; i < s->representations; ++i)
        CUS_TRY(cusMatRegion(&frames[i], 0, (int)first * s->rows, s->cols, (int)count * s->rows, &views[i]));
    return CUS_OK;
}

/* Gives a batch, if it has frames, to the sink and frees it. */
static cusStatus deliver(cusEventPipeline *s, Batch *batch) {
    if (batch->count == 0)
        return CUS_OK;
    if (s->options.compute != s->options.deliver)
        CUS_TRY(cusStreamEventSynchronize(batch->downloaded));
    cusMat frames[EVENTS_MAX_REPRESENTATIONS];
    CUS_TRY(
        view(s, s->options.compute == s->options.deliver ? batch->frames : batch->host_frames, 0, batch->count, frames));
    const cusFrameBatch given = {.frames = frames,
                                 .representations = s->representations,
                                 .device = s->options.deliver == CUS_DEVICE ? s->device : -1,
                                 .first = batch->first,
                                 .count = batch->count,
                                 .windows = batch->windows,
                                 .stream = s->options.deliver == CUS_DEVICE ? s->compute : NULL};
    batch->count = 0;
    const cusStatus status = s->sink(s->user, &given);
    s->stopped = status != CUS_OK;
    if (s->stopped)
        return cusi_fail(status, "cusEventPipeline: the sink stopped at window %llu with %s",
                         (unsigned long long)given.first, cusStatusName(status));
    s->counts.windows += given.count;
    return CUS_OK;
}

/* Ends the current batch. Makes the next one current and delivers what that held. */
static cusStatus endBatch(cusEventPipeline *s) {
    Batch *batch = &s->batches[s->filling];
    if (batch->count == 0)
        return CUS_OK;
    if (s->options.compute != s->options.deliver) {
        cusMat frames[EVENTS_MAX_REPRESENTATIONS], host_frames[EVENTS_MAX_REPRESENTATIONS];
        CUS_TRY(cusStreamEventRecord(batch->computed, s->compute));
        CUS_TRY(cusStreamWaitEvent(s->down, batch->computed));
        CUS_TRY(view(s, batch->frames, 0, batch->count, frames));
        CUS_TRY(view(s, batch->host_frames, 0, batch->count, host_frames));
        for (int i = 0; i < s->representations; ++i)
            CUS_TRY(cusMatDownload(&frames[i], &host_frames[i], s->down));
        CUS_TRY(cusStreamEventRecord(batch->downloaded, s->down));
    } else {
        CUS_TRY(deliver(s, batch));
    }
    s->filling = (s->filling + 1) % s->batch_count;
    return deliver(s, &s->batches[s->filling]);
}

cusStatus eventsDrain(cusEventPipeline *s) {
    CUS_TRY(endBatch(s));
    for (int k = 0; k < s->batch_count; ++k)
        CUS_TRY(deliver(s, &s->batches[(s->filling + k) % s->batch_count]));
    return CUS_OK;
}

/* Returns the time bounds of window w. */
static cusEventSpan spanOf(const cusEventPipeline *s, uint64_t w) {
    const cusWindowing *windowing = &s->options.windowing;
    const uint64_t room = (uint64_t)INT64_MAX - (uint64_t)s->origin, begin = w * eventsStride(windowing),
                   end = begin + windowing->length;
    return (cusEventSpan){(int64_t)((uint64_t)s->origin + (begin < room ? begin : room)),
                          (int64_t)((uint64_t)s->origin + (end < room ? end : room))};
}

/* Queues the `count` planned windows, for which the current slot and batch have room. */
static cusStatus submit(cusEventPipeline *s, const View *events_view, size_t count) {
    Slot *slot = &s->slots[s->current];
    Batch *batch = &s->batches[s->filling];
    const size_t first = s->planned[0].first, events_count = s->planned[count - 1].last - first;
    const int uploads = s->options.compute == CUS_DEVICE && !s->resident, with_spans = eventsNeedsSpans(s->stacker);
    for (size_t w = 0; w < count; ++w) {
        batch->windows[batch->count + w].first = events_view->start + s->planned[w].first;
        batch->windows[batch->count + w].last = events_view->start + s->planned[w].last;
        s->planned[w].first -= first;
        s->planned[w].last -= first;
        if (with_spans)
            s->spans[w] = spanOf(s, s->next + w);
    }
    const void *array[EVENTS_ARRAYS] = {NULL};
    for (int k = 0; k < EVENTS_ARRAYS - !s->with_times; ++k) {
        const size_t bytes = events_count * array_bytes[k];
        array[k] = (const char *)events_view->array[k] + first * array_bytes[k];
        if (uploads && bytes > 0)
            CUS_TRY(cusi_deviceCopy("cusEventPipelinePush", slot->events[k].data, bytes, array[k], bytes, bytes, 1, s->up));
        array[k] = uploads ? slot->events[k].data : array[k];
    }
    const cusEventArrays events = {
        .x = array[0], .y = array[1], .p = array[2], .t = array[3], .count = events_count, .space = s->options.compute};
    if (uploads) {
        CUS_TRY(cusStreamEventRecord(slot->uploaded, s->up));
        CUS_TRY(cusStreamWaitEvent(s->compute, slot->uploaded));
    }
    cusMat frames[EVENTS_MAX_REPRESENTATIONS];
    CUS_TRY(view(s, batch->frames, batch->count, count, frames));
    int is_made = 0;
    CUS_TRY(eventsPacketsTake(s, count, &is_made));
    if (!is_made)
        CUS_TRY(with_spans ? cusEventStackSpans(s->stacker, &events, s->planned, s->spans, count, frames, s->compute)
                           : cusEventStack(s->stacker, &events, s->planned, count, frames, s->compute));
    if (uploads)
        CUS_TRY(cusStreamEventRecord(slot->used, s->compute));
    if (batch->count == 0)
        batch->first = s->next;
    batch->count += count;
    s->next += count;
    return roomFor(s) == 0 || !s->options.whole_batches ? endBatch(s) : CUS_OK;
}

/* Makes the next slot current. The host may write to it once its last events have been used. */
static cusStatus nextSlot(cusEventPipeline *s) {
    s->current = (s->current + 1) % s->slot_count;
    return s->up && !s->resident ? cusStreamEventSynchronize(s->slots[s->current].used) : CUS_OK;
}

/* Finds where the next windows, one more than a batch has, begin and end among the staged events on the device. */
static cusStatus findBounds(cusEventPipeline *s, const int64_t *t, const cusEventWindow **bounds) {
    const cusMat *list = &s->bounds;
    *bounds = list->data;
    return CUSI_BACKEND(
        "cusEventPipelinePushBytes", CUS_DEVICE, CUS_OK,
        events_cuda_bounds(t, s->held, s->origin, &s->options.windowing, s->next, s->batch + 1, list->data, s->compute));
}

/* Lists the same windows if only the first two have events, and it is known which. */
static cusStatus knownBounds(cusEventPipeline *s, const cusEventWindow **bounds) {
    cusEventWindow *list = s->bounds.data;
    list[0] = (cusEventWindow){0, s->packets.end};
    list[1] = (cusEventWindow){s->packets.end, s->held};
    for (size_t k = 2; k <= s->batch; ++k)
        list[k] = (cusEventWindow){s->held, s->held};
    *bounds = list;
    return CUS_OK;
}

/* Sets the view to the staged events, which end at number `end` of the recording. */
static cusStatus stagingView(cusEventPipeline *s, uint64_t end, View *view) {
    Slot *slot = &s->slots[s->current];
    *view = (View){.start = end - s->held, .count = s->held, .bounds_from = s->next};
    for (int k = 0; k < EVENTS_ARRAYS; ++k)
        view->array[k] = s->resident ? eventsStaged(s, k, 0) : slot->staging[k].data;
    if (!s->resident || !eventsByDuration(s) || view->count == 0)
        return CUS_OK;
    return s->packets.knows_end ? knownBounds(s, &view->bounds) : findBounds(s, view->array[3], &view->bounds);
}

void *eventsStaged(const cusEventPipeline *s, int k, size_t index) {
    char *data = s->slots[s->staged].events[k].data;
    return data ? data + (s->begin + index) * array_bytes[k] : NULL;
}

size_t eventsRoom(const cusEventPipeline *s) {
    return s->capacity + EVENTS_ROOM - s->held - (s->begin < EVENTS_ALIGN ? 0 : s->begin);
}

cusStatus eventsMakeRoom(cusEventPipeline *s, size_t most) {
    const size_t end = s->begin + s->held;
    if (s->held > 0 && (s->begin < EVENTS_ALIGN || (end <= s->capacity && most <= eventsRoom(s))))
        return CUS_OK;
    const void *from[EVENTS_ARRAYS];
    for (int k = 0; k < EVENTS_ARRAYS; ++k)
        from[k] = eventsStaged(s, k, 0);
    s->staged = (s->staged + 1) % s->slot_count;
    s->begin = (EVENTS_ALIGN - s->held % EVENTS_ALIGN) % EVENTS_ALIGN;
    for (int k = 0; s->held > 0 && k < EVENTS_ARRAYS - !s->with_times; ++k) {
        const size_t bytes = s->held * array_bytes[k];
        CUS_TRY(cusi_deviceCopy("cusEventPipelinePushBytes", eventsStaged(s, k, 0), bytes, from[k], bytes, bytes, 1,
                                s->compute));
    }
    return CUS_OK;
}

/* Drops the staged events before index `from` and makes the next slot current. Moves the others there unless they are
 * resident. */
static cusStatus moveStaged(cusEventPipeline *s, const View *view, size_t from) {
    CUS_TRY(nextSlot(s));
    s->held = view->count - from;
    s->packets.end = s->held;
    s->begin += s->resident ? from : 0;
    for (int k = 0; !s->resident && k < EVENTS_ARRAYS - !s->with_times; ++k)
        memmove(s->slots[s->current].staging[k].data, (const char *)view->array[k] + from * array_bytes[k],
                s->held * array_bytes[k]);
    return CUS_OK;
}

/* Queues the first `count` windows of the staging; events of later windows move to the next slot. */
static cusStatus submitStaged(cusEventPipeline *s, const View *view, size_t count) {
    CUS_TRY(submit(s, view, count));
    return moveStaged(s, view, firstNeeded(s, view));
}

cusStatus eventsSubmitStaged(cusEventPipeline *s, int final) {
    for (;;) {
        View view;
        CUS_TRY(stagingView(s, s->pushed, &view));
        const size_t count = plan(s, &view, final);
        if (count == 0) {
            const size_t from = view.count > 0 ? firstNeeded(s, &view) : 0;
            return from > 0 ? moveStaged(s, &view, from) : CUS_OK;
        }
        CUS_TRY(submitStaged(s, &view, count));
    }
}

/* Pieces of at least this many events are uploaded directly from the caller's memory. */
static const size_t DIRECT_EVENTS = 256 * 1024;

static int isDirect(const cusEventPipeline *s, const cusEventArrays *events) {
    if (s->options.compute == CUS_HOST)
        return 1;
#ifdef CUSI_WITH_CUDA
    return events->count >= DIRECT_EVENTS && events_cuda_isPinned(events->x) && events_cuda_isPinned(events->y) &&
           events_cuda_isPinned(events->p) && (!s->with_times || events_cuda_isPinned(events->t));
#else
    (void)events;
    return 0;
#endif
}

/* ---- Push ---------------------------------------------------------------------------------------------------------- */

static void stage(cusEventPipeline *s, const View *view, size_t count) {
    for (int k = 0; k < EVENTS_ARRAYS - !s->with_times; ++k)
        memcpy((char *)s->slots[s->current].staging[k].data + s->held * array_bytes[k], view->array[k],
               count * array_bytes[k]);
    s->held += count;
}

/* Returns how many events of the view complete the next window, or their number if they do not. */
static size_t toComplete(const cusEventPipeline *s, const View *view) {
    const size_t index = endOf(s, view, s->next);
    return eventsByDuration(s) && index < view->count ? index + 1 : index; /* an event past the end completes it */
}

static cusStatus push(cusEventPipeline *s, const cusEventArrays *events) {
    const uint64_t before = s->pushed;
    const int direct = isDirect(s, events);
    CusiProgress *const progress = cusi_progress();
    size_t reported = 0;
    cusi_part(progress, 1, (int64_t)events->count);
    s->pushed += events->count;
    s->counts.events += events->count;
    for (size_t at = 0; at < events->count;) {
        const View rest = {.array = {events->x + at, events->y + at, events->p + at, events->t ? events->t + at : NULL},
                           .start = before + at,
                           .count = events->count - at};
        size_t take = rest.count;
        cusi_step(progress, at > reported ? (int64_t)(at - reported) : 0);
        CUS_TRY(cusi_proceed(progress));
        reported = at > reported ? at : reported;
        if (s->held == 0) {
            const size_t ready = direct ? plan(s, &rest, 0) : 0;
            if (ready > 0 && (ready == roomFor(s) || s->options.compute == CUS_HOST ||
                              s->planned[ready - 1].last - s->planned[0].first >= DIRECT_EVENTS)) {
                CUS_TRY(submit(s, &rest, ready));
                CUS_TRY(nextSlot(s));
                at += firstNeeded(s, &rest);
                continue;
            }
            const size_t passed_over = firstNeeded(s, &rest);
            if (passed_over > 0) {
                at += passed_over;
                continue;
            }
        } else if (direct) { /* the window began in an earlier piece; later ones can be direct again */
            take = toComplete(s, &rest);
        }
        take = take < s->capacity - s->held ? take : s->capacity - s->held;
        stage(s, &rest, take);
        at += take;
        for (;;) {
            View view;
            CUS_TRY(stagingView(s, before + at, &view));
            const size_t ready = plan(s, &view, 0);
            const int full = s->held == s->capacity;
            CUSI_REQUIRE(ready > 0 || !full, CUS_ERROR_CAPACITY,
                         "cusEventPipelinePush: window %llu has more than max_events = %zu events",
                         (unsigned long long)s->next, s->capacity);
            if (ready == 0 || !(ready == roomFor(s) || full || (direct && at < events->count)))
                break;
            CUS_TRY(submitStaged(s, &view, ready));
        }
        if (direct && s->held <= at && at < events->count) { /* the held events lie in this piece too */
            at -= s->held;
            s->held = 0;
        }
    }
    return CUS_OK;
}

cusStatus eventsRemember(cusEventPipeline *s, cusStatus status) {
    s->failed = status;
    if (status != CUS_OK)
        strncpy(s->message, cusLastError(), sizeof s->message - 1);
    return status;
}

cusStatus eventsStartOfPush(const cusEventPipeline *s, const char *function, int bytes) {
    CUSI_REQUIRE(bytes == (s->bytes != NULL), CUS_ERROR_VALUE, "%s: the pipeline takes %s, expected one with%s a decoder",
                 function, bytes ? "events" : "bytes", bytes ? "" : "out");
    if (s->failed)
        return cusi_fail(s->failed, "%s", s->message);
    return CUS_OK;
}

cusStatus eventsPush(cusEventPipeline *s, const char *function, const cusEventArrays *events) {
    if (events->count == 0)
        return CUS_OK;
    CUS_TRY(eventsCheckArrays(function, events, 1, s->with_times));
    cusEventArrays good = *events;
    if (s->with_times && s->pushed == 0)
        s->origin = s->newest = events->t[0];
    cusStatus gap = CUS_OK;
    if (eventsByDuration(s)) {
        const uint64_t limit = eventsGapLimit(s);
        for (good.count = 0; good.count < events->count && events->t[good.count] >= s->newest; ++good.count) {
            const int64_t t = events->t[good.count];
            if ((uint64_t)t - (uint64_t)s->newest > limit && (gap = eventsCheckGap(s, t)) != CUS_OK)
                break;
            s->newest = t;
        }
    }
    cusStatus status = push(s, &good);
    if (s->up) { /* even after an error the caller's arrays are no longer read; staged events may still be uploading */
        const cusStatus passed = isDirect(s, &good) ? cusi_deviceFinish(function, s->up) : CUS_OK;
        status = status == CUS_OK ? passed : status;
    }
    CUS_TRY(eventsRemember(s, status));
    if (gap != CUS_OK) /* sets the message again */
        return eventsRemember(s, eventsCheckGap(s, events->t[good.count]));
    if (good.count < events->count)
        return eventsRemember(s, cusi_fail(CUS_ERROR_VALUE, "%s: times decrease from %lld to %lld at event %llu", function,
                                           (long long)s->newest, (long long)events->t[good.count],
                                           (unsigned long long)s->pushed));
    return CUS_OK;
}
