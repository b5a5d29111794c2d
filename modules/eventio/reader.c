/* Entry points of the event reader: open, read, seek. */
#include "check.h"
#include "eventio/evt/words.h"
#include "eventio/hdf5/reader.h"
#include "eventio/packets/packets.h"
#include "eventio/validate.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* ---- Opening ------------------------------------------------------------------------------------------------------- */

static cusStatus allocateScratch(CusiEvents *scratch) {
    scratch->x = malloc(EVENTIO_SCRATCH * sizeof *scratch->x);
    scratch->y = malloc(EVENTIO_SCRATCH * sizeof *scratch->y);
    scratch->p = malloc(EVENTIO_SCRATCH * sizeof *scratch->p);
    scratch->t = malloc(EVENTIO_SCRATCH * sizeof *scratch->t);
    CUSI_REQUIRE(scratch->x && scratch->y && scratch->p && scratch->t, CUS_ERROR_NO_MEMORY,
                 "cusEventReaderOpen: out of host memory");
    return CUS_OK;
}

static cusStatus pinFile(cusEventReader *reader) {
    static const char function[] = "cusEventReaderOpen";
    const EventSource *const source = &reader->source;
    CUSI_REQUIRE(source->fd >= 0, CUS_ERROR_UNSUPPORTED, "%s: pin_file is 1, expected 0 for a recording in memory",
                 function);
    CUSI_REQUIRE(eventio_isWords(reader), CUS_ERROR_UNSUPPORTED,
                 "%s: pin_file is 1 and the file is %s, expected EVT2, EVT2.1, EVT3, EVT4 or DAT", function,
                 cusEventFormatName(reader->info.format));
    CUSI_REQUIRE(source->size <= reader->options.max_memory, CUS_ERROR_CAPACITY,
                 "%s: pin_file is 1 and the file has %llu bytes, expected at most max_memory, %zu", function,
                 (unsigned long long)source->size, reader->options.max_memory);
    return eventio_pin(&reader->source, function);
}

/* Detects the format of the open source. */
static cusStatus openReader(cusEventReader *reader) {
    CUSI_REQUIRE(reader->source.size, CUS_ERROR_FORMAT, "cusEventReaderOpen: the file is empty");
    CUS_TRY(allocateScratch(&reader->scratch));
    reader->info = (cusEventInfo){.count = -1, .first_time = -1, .last_time = -1};
    reader->last_time = -1;
    CUS_TRY(eventio_openHdf5(reader));
    if (!reader->methods)
        CUS_TRY(eventio_openPackets(reader));
    if (!reader->methods)
        CUS_TRY(eventio_openWords(reader));
    if (reader->options.width) {
        reader->info.width = reader->options.width;
        reader->info.height = reader->options.height;
    }
    return reader->options.pin_file ? pinFile(reader) : CUS_OK;
}

/* Reads a file if path is not NULL, otherwise memory. */
static cusStatus createReader(cusEventReader **reader, const char *path, const void *data, size_t size,
                              const cusEventReaderOptions *options) {
    const cusEventReaderOptions defaults = cusEventReaderDefaults();
    cusEventReaderOptions chosen = options ? *options : defaults;
    CUS_TRY(eventio_checkOptions(&chosen));
    chosen.max_memory = chosen.max_memory ? chosen.max_memory : defaults.max_memory;
    chosen.max_chunk = chosen.max_chunk ? chosen.max_chunk : defaults.max_chunk;
    cusEventReader *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: out of host memory");
    made->options = chosen;
    made->source = (EventSource){.fd = -1, .memory = data, .size = size};
    cusStatus status = path ? eventio_openSource(&made->source, path, O_RDONLY, "cusEventReaderOpen") : CUS_OK;
    if (status == CUS_OK)
        status = openReader(made);
    made->options.camera = NULL; /* the caller's string; info.camera has a copy */
    if (status != CUS_OK) {
        cusEventReaderClose(made);
        return status;
    }
    *reader = made;
    return CUS_OK;
}

cusStatus cusEventReaderOpen(cusEventReader **reader, const char *path, const cusEventReaderOptions *options) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusEventReaderOpen", reader);
    CUSI_NOT_NULL("cusEventReaderOpen", path);
    return CUSI_LONG("cusEventReaderOpen", createReader(reader, path, NULL, 0, options));
}

cusStatus cusEventReaderOpenMemory(cusEventReader **reader, const void *data, size_t size,
                                   const cusEventReaderOptions *options) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusEventReaderOpenMemory", reader);
    CUSI_NOT_NULL("cusEventReaderOpenMemory", data);
    return CUSI_LONG("cusEventReaderOpenMemory", createReader(reader, NULL, data, size, options));
}

void cusEventReaderClose(cusEventReader *reader) {
    CUSI_TRACE;
    if (!reader)
        return;
    if (reader->methods)
        reader->methods->close(reader);
    eventio_closeSource(&reader->source);
    free(reader->scratch.x);
    free(reader->scratch.y);
    free(reader->scratch.p);
    free(reader->scratch.t);
    free(reader);
}

cusStatus cusEventReaderInfo(const cusEventReader *reader, cusEventInfo *info) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusEventReaderInfo", reader);
    CUSI_NOT_NULL("cusEventReaderInfo", info);
    *info = reader->info;
    return CUS_OK;
}

static cusStatus countsOf(const cusEventReader *reader, cusEventCounts *counts) {
    CUSI_NOT_NULL("cusEventReaderCounts", counts);
    *counts = reader->counts;
    return CUS_OK;
}

cusStatus cusEventReaderCounts(const cusEventReader *reader, cusEventCounts *counts) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventReaderCounts", reader, NULL, countsOf(reader, counts));
}

/* ---- Reading ------------------------------------------------------------------------------------------------------- */

/* Keeps the error and its message for later calls. */
static cusStatus keepFailure(EventFailure *failure, cusStatus status) {
    failure->status = status;
    strncpy(failure->message, cusLastError(), sizeof failure->message - 1);
    return status;
}

/* Reads up to n valid events; `out` has no NULL array. *got < n with CUS_OK: the recording ends. */
static cusStatus readValid(cusEventReader *reader, size_t n, CusiEvents out, size_t *got) {
    *got = 0;
    while (*got < n) {
        const CusiEvents e = cusi_eventsFrom(out, *got);
        size_t count = 0, kept = 0;
        cusStatus status = reader->methods->read(reader, n - *got, e, &count);
        /* A bad event precedes the damage found by the decoder, so its error comes first. */
        const cusStatus checked = count ? eventio_checkEvents(reader, e, count, &kept) : CUS_OK;
        if (checked != CUS_OK)
            status = checked;
        if (kept)
            reader->last_time = e.t[kept - 1];
        reader->index += count;
        reader->counts.events += kept;
        *got += kept;
        if (status != CUS_OK)
            return status == CUS_ERROR_CANCELLED ? status : keepFailure(&reader->failure, status);
        if (!count) {
            status = eventio_checkSize(&reader->source, "cusEventReaderRead");
            return status == CUS_OK ? CUS_OK : keepFailure(&reader->failure, status);
        }
    }
    return CUS_OK;
}

static cusStatus eventReaderRead(cusEventReader *reader, size_t capacity, uint16_t *x, uint16_t *y, uint8_t *p, int64_t *t,
                                 size_t *count) {
    CUSI_NOT_NULL("cusEventReaderRead", count);
    *count = 0;
    if (reader->failure.status != CUS_OK)
        return cusi_fail(reader->failure.status, "%s", reader->failure.message);
    const int needs_scratch = !(x && y && p && t);
    const int64_t likely = eventio_likelyLeft(reader, reader->index);
    cusi_part(cusi_progress(), 1, (uint64_t)likely < capacity ? likely : (int64_t)capacity);
    while (*count < capacity) {
        size_t n = capacity - *count, got = 0;
        const CusiEvents out = {x ? x + *count : reader->scratch.x, y ? y + *count : reader->scratch.y,
                                p ? p + *count : reader->scratch.p, t ? t + *count : reader->scratch.t};
        if (needs_scratch && n > EVENTIO_SCRATCH)
            n = EVENTIO_SCRATCH;
        const cusStatus status = readValid(reader, n, out, &got);
        *count += got;
        if (status != CUS_OK)
            return status;
        if (got < n)
            break;
    }
    return CUS_OK;
}

cusStatus cusEventReaderRead(cusEventReader *reader, size_t capacity, uint16_t *x, uint16_t *y, uint8_t *p, int64_t *t,
                             size_t *count) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventReaderRead", reader, NULL,
                 CUSI_LONG("cusEventReaderRead", eventReaderRead(reader, capacity, x, y, p, t, count)));
}

/* ---- Triggers ------------------------------------------------------------------------------------------------------ */

static cusStatus readTriggers(cusEventReader *reader, size_t capacity, cusEventTrigger *triggers, size_t *count) {
    static const char function[] = "cusEventReaderReadTriggers";
    EventFailure *failure = &reader->trigger_failure;
    CUSI_NOT_NULL(function, count);
    *count = 0;
    CUSI_REQUIRE(triggers || !capacity, CUS_ERROR_NULL, "%s: triggers is NULL", function);
    if (failure->status != CUS_OK)
        return cusi_fail(failure->status, "%s", failure->message);
    const cusStatus status = reader->methods->readTriggers(reader, capacity, triggers, count);
    if (status == CUS_ERROR_CANCELLED) {
        reader->methods->rewindTriggers(reader);
        *count = 0;
        return status;
    }
    const cusStatus checked = status == CUS_OK && *count < capacity ? eventio_checkSize(&reader->source, function) : status;
    return checked == CUS_OK ? CUS_OK : keepFailure(failure, checked);
}

cusStatus cusEventReaderReadTriggers(cusEventReader *reader, size_t capacity, cusEventTrigger *triggers, size_t *count) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventReaderReadTriggers", reader, NULL,
                 CUSI_LONG("cusEventReaderReadTriggers", readTriggers(reader, capacity, triggers, count)));
}

static cusStatus rewindTriggers(cusEventReader *reader) {
    reader->trigger_failure.status = CUS_OK;
    reader->methods->rewindTriggers(reader);
    return CUS_OK;
}

cusStatus cusEventReaderRewindTriggers(cusEventReader *reader) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventReaderRewindTriggers", reader, NULL, rewindTriggers(reader));
}

/* ---- Seeking ------------------------------------------------------------------------------------------------------- */

/* What a seek changes besides the place of the method. */
typedef struct Place {
    uint64_t index, mark;
    int64_t last_time;
    cusStatus failure;
    cusEventCounts counts;
} Place;

static Place placeOf(const cusEventReader *reader) {
    return (Place){reader->index, reader->mark, reader->last_time, reader->failure.status, reader->counts};
}

static cusStatus stay(cusEventReader *reader, const Place *place, cusStatus status) {
    reader->index = place->index;
    reader->mark = place->mark;
    reader->last_time = place->last_time;
    reader->failure.status = place->failure;
    reader->counts = place->counts;
    return status;
}

static cusStatus seek(cusEventReader *reader, uint64_t index) {
    const Place before = placeOf(reader);
    reader->mark = 0;
    reader->failure.status = CUS_OK;
    reader->last_time = -1;
    const cusStatus status = reader->methods->seekIndex(reader, index);
    if (status == CUS_ERROR_CANCELLED)
        return stay(reader, &before, status);
    reader->counts = (cusEventCounts){0};
    return status == CUS_OK ? status : keepFailure(&reader->failure, status);
}

static cusStatus eventReaderSeekIndex(cusEventReader *reader, int64_t index) {
    CUSI_REQUIRE(index >= 0, CUS_ERROR_VALUE, "cusEventReaderSeekIndex: index is %lld, expected 0 or more",
                 (long long)index);
    return seek(reader, (uint64_t)index);
}

cusStatus cusEventReaderSeekIndex(cusEventReader *reader, int64_t index) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventReaderSeekIndex", reader, NULL,
                 CUSI_LONG("cusEventReaderSeekIndex", eventReaderSeekIndex(reader, index)));
}

static cusStatus eventReaderSeekTime(cusEventReader *reader, int64_t time, int64_t *index) {
    const Place before = placeOf(reader);
    reader->failure.status = CUS_OK;
    uint64_t found = 0;
    const cusStatus status = reader->methods->findTime(reader, time, &found);
    if (status == CUS_ERROR_CANCELLED)
        return stay(reader, &before, status);
    if (status != CUS_OK)
        return keepFailure(&reader->failure, status);
    const int silent = cusi_setSilence(1); /* the event is near */
    const cusStatus sought = seek(reader, found);
    cusi_setSilence(silent);
    CUS_TRY(sought);
    if (index)
        *index = (int64_t)found;
    return CUS_OK;
}

cusStatus cusEventReaderSeekTime(cusEventReader *reader, int64_t time, int64_t *index) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventReaderSeekTime", reader, NULL,
                 CUSI_LONG("cusEventReaderSeekTime", eventReaderSeekTime(reader, time, index)));
}
