/* Entry points of the event writer, and the checks of its options and events. The formats are in writers/. */
#include "check.h"
#include "eventio/hdf5/codec.h"
#include "eventio/writers/methods.h"
#include "host.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

enum { ASKED_EVENTS = 1 << 16 }; /* written at once if cusSetProgress may cancel */

static const int64_t usual_time = (int64_t)1 << 40; /* unless the format has another limit */

cusEventWriterOptions cusEventWriterDefaults(void) {
    return (cusEventWriterOptions){.compress = 1};
}

/* ---- Options ------------------------------------------------------------------------------------------------------- */

/* Returns the methods of a format that can be written, or NULL. */
static const EventWriterMethods *methodsOf(cusEventFormat format) {
    switch (format) {
    case CUS_EVENTS_M3ED:
        return &eventio_writeM3ed;
    case CUS_EVENTS_METAVISION:
        return &eventio_writeMetavision;
    case CUS_EVENTS_EVT2:
        return &eventio_writeEvt2;
    case CUS_EVENTS_EVT3:
        return &eventio_writeEvt3;
    case CUS_EVENTS_AEDAT4:
        return &eventio_writeAedat4;
    case CUS_EVENTS_DAT:
        return &eventio_writeDat;
    case CUS_EVENTS_TEXT:
        return &eventio_writeText;
    default:
        return NULL;
    }
}

static cusStatus checkChunks(const char *function, const cusEventWriterOptions *o, const EventWriterMethods *methods) {
    CUSI_REQUIRE(o->chunk == 0 || (o->chunk >= 1024 && o->chunk <= methods->max_chunk), CUS_ERROR_VALUE,
                 "%s: chunk is %d events, expected 1024..%d for %s, or 0", function, o->chunk, methods->max_chunk,
                 cusEventFormatName(o->format));
    CUSI_REQUIRE(o->compress >= 0 && o->compress <= 2, CUS_ERROR_VALUE, "%s: compress is %d, expected 0, 1 or 2", function,
                 o->compress);
#ifndef CUSI_WITH_ZLIB
    CUSI_REQUIRE(o->compress != 2 || !methods->is_hdf5, CUS_ERROR_UNSUPPORTED,
                 "%s: this build of cusight has no zlib (Debian: zlib1g-dev)", function);
#endif
    return CUS_OK;
}

static cusStatus checkOptions(const char *function, const cusEventWriterOptions *o, const EventWriterMethods *methods) {
    CUS_TRY(cusi_checkReserved(function, "options->", o->reserved));
    CUSI_REQUIRE(methods, CUS_ERROR_VALUE,
                 "%s: format is %s, expected M3ED, Metavision, AEDAT4, EVT2, EVT3, DAT or text, which can be written",
                 function, cusEventFormatName(o->format));
    CUSI_REQUIRE(o->width >= 1 && o->width <= methods->max_side && o->height >= 1 && o->height <= methods->max_side,
                 CUS_ERROR_VALUE, "%s: sensor is %d x %d (width x height), expected 1..%d each for %s", function, o->width,
                 o->height, methods->max_side, cusEventFormatName(o->format));
    if (methods->max_chunk)
        CUS_TRY(checkChunks(function, o, methods));
    CUSI_REQUIRE(o->threads >= 0 && o->threads <= 1024, CUS_ERROR_VALUE, "%s: threads is %d, expected 0..1024", function,
                 o->threads);
    CUSI_REQUIRE(!o->camera || (o->camera[0] && strlen(o->camera) < 32 && !strchr(o->camera, '/')), CUS_ERROR_VALUE,
                 "%s: camera is \"%.40s\", expected a name of 1 to 31 characters without '/'", function, o->camera);
    return CUS_OK;
}

unsigned eventio_filterOf(const cusEventWriter *w, unsigned own) {
    return w->options.compress == 2 ? EVENTIO_FILTER_DEFLATE : w->options.compress ? own : 0;
}

/* ---- Events -------------------------------------------------------------------------------------------------------- */

static cusStatus checkEvents(const cusEventWriter *w, const cusEventArrays *e) {
    const int64_t max_time = w->methods->max_time ? w->methods->max_time : usual_time;
    int64_t last = w->last_time;
    for (size_t i = 0; i < e->count; ++i) {
        CUSI_REQUIRE(e->x[i] < w->options.width && e->y[i] < w->options.height, CUS_ERROR_VALUE,
                     "%s: event %zu at x %d, y %d is outside the %d x %d sensor", w->function, i, e->x[i], e->y[i],
                     w->options.width, w->options.height);
        CUSI_REQUIRE(e->p[i] <= 1, CUS_ERROR_VALUE, "%s: event %zu has polarity %d, expected 0 or 1", w->function, i,
                     e->p[i]);
        CUSI_REQUIRE(e->t[i] >= last && e->t[i] <= max_time, CUS_ERROR_VALUE,
                     "%s: event %zu has time %lld us, expected %lld..%lld", w->function, i, (long long)e->t[i],
                     (long long)last, (long long)max_time);
        last = e->t[i];
    }
    return CUS_OK;
}

cusStatus eventio_checkSpan(const cusEventWriter *w, const cusEventArrays *e) {
    const int64_t first = w->count ? w->first_time : e->t[0];
    for (size_t i = 0; i < e->count; ++i) {
        const uint64_t span = (uint64_t)(e->t[i] - first) / 1000, most = (uint64_t)eventio_longestSpan(w->count + i);
        CUSI_REQUIRE(
            span <= most, CUS_ERROR_VALUE,
            "%s: event %zu has time %lld us, %llu ms after the first, expected at most %llu ms for %llu events: %s",
            w->function, i, (long long)e->t[i], (unsigned long long)span, (unsigned long long)most,
            (unsigned long long)(w->count + i + 1),
            w->options.format == CUS_EVENTS_M3ED ? "ms_map_idx has an entry for each" : "indexes has one for every two");
    }
    return CUS_OK;
}

/* ---- Triggers ------------------------------------------------------------------------------------------------------ */

static cusStatus checkTriggers(const cusEventWriter *w, size_t n, const cusEventTrigger *triggers) {
    const EventWriterMethods *methods = w->methods;
    const int64_t max_time = methods->max_time ? methods->max_time : usual_time;
    int64_t last = w->last_trigger > w->last_time ? w->last_trigger : w->last_time;
    CUSI_REQUIRE(methods->trigger, CUS_ERROR_UNSUPPORTED,
                 "%s: format is %s, which has no triggers; EVT2, EVT3, Metavision and AEDAT4 have", w->function,
                 cusEventFormatName(w->options.format));
    for (size_t i = 0; i < n; ++i) {
        CUSI_REQUIRE(triggers[i].t >= last && triggers[i].t <= max_time, CUS_ERROR_VALUE,
                     "%s: trigger %zu has time %lld us, expected %lld..%lld", w->function, i, (long long)triggers[i].t,
                     (long long)last, (long long)max_time);
        CUSI_REQUIRE(triggers[i].id >= 0 && triggers[i].id <= methods->max_trigger_id, CUS_ERROR_VALUE,
                     "%s: trigger %zu has id %d, expected 0..%d", w->function, i, triggers[i].id, methods->max_trigger_id);
        last = triggers[i].t;
    }
    return CUS_OK;
}

static cusStatus eventWriterTriggers(cusEventWriter *w, size_t n, const cusEventTrigger *triggers) {
    static const char function[] = "cusEventWriterWriteTriggers";
    CUSI_REQUIRE(w->failure == CUS_OK, w->failure, "%s: %s could not be written earlier", function, w->output.path);
    w->function = function;
    CUS_TRY(checkTriggers(w, n, triggers));
    if (!n)
        return CUS_OK;
    if (w->pending_first) {
        w->pending_count -= w->pending_first;
        memmove(w->pending, w->pending + w->pending_first, w->pending_count * sizeof *w->pending);
        w->pending_first = 0;
    }
    if (n > w->pending_capacity - w->pending_count) {
        const size_t capacity =
            2 * w->pending_capacity > w->pending_count + n ? 2 * w->pending_capacity : w->pending_count + n;
        cusEventTrigger *grown = realloc(w->pending, capacity * sizeof *grown);
        CUSI_REQUIRE(grown, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
        w->pending = grown;
        w->pending_capacity = capacity;
    }
    memcpy(w->pending + w->pending_count, triggers, n * sizeof *triggers);
    w->pending_count += n;
    w->last_trigger = triggers[n - 1].t;
    return CUS_OK;
}

/* Writes the triggers up to time t. */
static cusStatus releaseTriggers(cusEventWriter *w, int64_t t) {
    for (; w->pending_first < w->pending_count && w->pending[w->pending_first].t <= t; ++w->pending_first)
        CUS_TRY(w->failure = w->methods->trigger(w, &w->pending[w->pending_first]));
    return CUS_OK;
}

cusStatus cusEventWriterWriteTriggers(cusEventWriter *writer, size_t n, const cusEventTrigger *triggers) {
    CUSI_TRACE;
    static const char function[] = "cusEventWriterWriteTriggers";
    if (n)
        CUSI_NOT_NULL(function, triggers);
    CUSI_GUARDED(function, writer, NULL, eventWriterTriggers(writer, n, triggers));
}

/* ---- Entry points -------------------------------------------------------------------------------------------------- */

cusStatus cusEventWriterCreate(cusEventWriter **writer, const char *path, const cusEventWriterOptions *options) {
    CUSI_TRACE;
    static const char function[] = "cusEventWriterCreate";
    CUSI_NOT_NULL(function, writer);
    CUSI_NOT_NULL(function, path);
    CUSI_NOT_NULL(function, options);
    cusEventWriterOptions chosen = *options;
    chosen.format = options->format == CUS_EVENTS_ANY ? CUS_EVENTS_M3ED : options->format;
    const EventWriterMethods *methods = methodsOf(chosen.format);
    CUS_TRY(checkOptions(function, &chosen, methods));
    chosen.chunk = chosen.chunk ? chosen.chunk : methods->default_chunk;
    cusEventWriter *w = calloc(1, sizeof *w);
    CUSI_REQUIRE(w, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    w->options = chosen;
    w->methods = methods;
    w->function = function;
    w->threads = chosen.threads ? chosen.threads : cusi_maxThreads();
    cusStatus status = eventio_outputCreate(&w->output, path, function);
    if (status == CUS_OK)
        status = methods->create(w);
    w->options.camera = NULL; /* the caller's string */
    if (status != CUS_OK) {
        cusEventWriterDiscard(w);
        return status;
    }
    *writer = w;
    return CUS_OK;
}

/* Writes events from .. to - 1, which are valid. */
static cusStatus writePart(cusEventWriter *w, const cusEventArrays *e, size_t from, size_t to) {
    const cusEventArrays part = {e->x + from, e->y + from, e->p + from, e->t + from, to - from, CUS_HOST};
    if (from == to)
        return CUS_OK;
    w->first_time = w->count ? w->first_time : part.t[0];
    CUS_TRY(w->failure = w->methods->write(w, &part));
    w->count += part.count;
    w->last_time = part.t[part.count - 1];
    return CUS_OK;
}

static cusStatus eventWriterWrite(cusEventWriter *w, const cusEventArrays *e) {
    static const char function[] = "cusEventWriterWrite";
    CUSI_REQUIRE(w->failure == CUS_OK, w->failure, "%s: %s could not be written earlier", function, w->output.path);
    if (!e->count)
        return CUS_OK;
    w->function = function;
    CUS_TRY(checkEvents(w, e));
    if (w->methods->check)
        CUS_TRY(w->methods->check(w, e));
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, (int64_t)e->count);
    for (size_t from = 0, to; from < e->count; from = to) {
        CUS_TRY(releaseTriggers(w, e->t[from]));
        const int64_t end = w->pending_first < w->pending_count ? w->pending[w->pending_first].t : INT64_MAX;
        const size_t most = progress->callback && e->count - from > ASKED_EVENTS ? from + ASKED_EVENTS : e->count;
        for (to = end == INT64_MAX ? most : from; to < most && e->t[to] < end;)
            ++to;
        CUS_TRY(writePart(w, e, from, to));
        cusi_step(progress, (int64_t)(to - from));
        CUS_TRY(w->failure = cusi_proceed(progress)); /* a part of the events is in the file */
    }
    return CUS_OK;
}

cusStatus cusEventWriterWrite(cusEventWriter *writer, size_t n, const uint16_t *x, const uint16_t *y, const uint8_t *p,
                              const int64_t *t) {
    CUSI_TRACE;
    static const char function[] = "cusEventWriterWrite";
    const cusEventArrays events = {x, y, p, t, n, CUS_HOST};
    if (n) {
        CUSI_NOT_NULL(function, x);
        CUSI_NOT_NULL(function, y);
        CUSI_NOT_NULL(function, p);
        CUSI_NOT_NULL(function, t);
    }
    CUSI_GUARDED(function, writer, NULL, CUSI_LONG(function, eventWriterWrite(writer, &events)));
}

static void freeWriter(cusEventWriter *w) {
    w->methods->destroy(w);
    free(w->pending);
    free(w);
}

cusStatus cusEventWriterFinish(cusEventWriter *writer) {
    CUSI_TRACE;
    static const char function[] = "cusEventWriterFinish";
    CUSI_NOT_NULL(function, writer);
    CUS_TRY(cusi_enter(function, "writer", &writer->guard, NULL)); /* never left again */
    cusStatus status = writer->failure;
    writer->function = function;
    if (status != CUS_OK)
        cusi_fail(status, "%s: %s could not be written earlier", function, writer->output.path);
    else if ((status = releaseTriggers(writer, INT64_MAX)) == CUS_OK)
        status = writer->methods->finish(writer);
    status = eventio_outputFinish(&writer->output, status, function);
    freeWriter(writer);
    return status;
}

void cusEventWriterDiscard(cusEventWriter *writer) {
    CUSI_TRACE;
    if (!writer)
        return;
    eventio_outputDiscard(&writer->output);
    freeWriter(writer);
}
