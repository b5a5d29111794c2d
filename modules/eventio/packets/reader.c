/* The methods of recordings made of packets: read, seek, find a time, list triggers. A checkpoint is a place before a
 * block; seeking starts from the nearest one. */
#include "check.h"
#include "eventio/packets/packets.h"
#include "eventio/validate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHECKPOINT_EVENTS = 65536,
    MAX_CHECKPOINTS = 65536,
    RESERVED_BYTES = 16 << 20
}; /* reserved: checkpoints, and what codecs allocate */

/* ---- Checkpoints ------------------------------------------------------------------------------------------------- */

cusStatus eventio_addPlace(PacketReader *p, const PacketPlace *place) {
    if (p->skipped++ % p->stride)
        return CUS_OK;
    if (p->checkpoints && p->checkpoint_count == MAX_CHECKPOINTS) {
        for (size_t k = 0; k < MAX_CHECKPOINTS / 2; ++k)
            p->checkpoints[k] = p->checkpoints[2 * k];
        p->checkpoint_count /= 2;
        p->stride *= 2;
    }
    if (!p->checkpoints || p->checkpoint_count % 1024 == 0) {
        PacketPlace *grown = realloc(p->checkpoints, (p->checkpoint_count + 1024) * sizeof *grown);
        CUSI_REQUIRE(grown, CUS_ERROR_NO_MEMORY, "cusEventReaderRead: out of host memory");
        p->checkpoints = grown;
    }
    p->checkpoints[p->checkpoint_count++] = *place;
    return CUS_OK;
}

/* Returns the last checkpoint whose `offset` or `index` is not past the given one. */
static size_t lastBefore(const PacketReader *p, uint64_t offset, uint64_t index) {
    size_t low = 0, high = p->checkpoint_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (p->checkpoints[middle].offset <= offset && p->checkpoints[middle].index <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

cusStatus eventio_passBlock(PacketReader *p, uint64_t offset) {
    CusiProgress *const progress = cusi_progress();
    cusi_step(progress, 0);
    CUS_TRY(cusi_proceed(progress));
    p->place.offset = offset;
    if (!p->complete) {
        const PacketPlace *last = p->checkpoint_count ? &p->checkpoints[p->checkpoint_count - 1] : NULL;
        return !last || (offset > last->offset && p->place.index >= last->index + CHECKPOINT_EVENTS)
                   ? eventio_addPlace(p, &p->place)
                   : CUS_OK;
    }
    const PacketPlace *known = &p->checkpoints[lastBefore(p, offset, UINT64_MAX)];
    CUSI_REQUIRE(known->offset != offset || known->index == p->place.index, CUS_ERROR_FORMAT,
                 "cusEventReaderRead: byte %llu: event %llu, but the file's table of packets says %llu",
                 (unsigned long long)offset, (unsigned long long)p->place.index, (unsigned long long)known->index);
    return CUS_OK;
}

cusStatus eventio_restorePlace(PacketReader *p, const PacketPlace *place) {
    p->place = *place;
    p->message = (Message){0};
    p->chunk_size = p->chunk_at = 0;
    p->counted = (cusEventCounts){0};
    p->lost = 0;
    return p->decoder ? cusEventDecoderSetState(p->decoder, &place->evt3) : CUS_OK;
}

/* ---- Methods ----------------------------------------------------------------------------------------------------- */

static int64_t latest(const int64_t *t, size_t n, int64_t time) {
    for (size_t i = 0; i < n; ++i)
        time = t[i] > time ? t[i] : time;
    return time;
}

static cusStatus seekPackets(cusEventReader *reader, uint64_t index);

/* After a cancel within a block or a message, returns to event `index`. */
static cusStatus goBack(cusEventReader *reader, uint64_t index, cusStatus status) {
    PacketReader *p = reader->state;
    if (status != CUS_ERROR_CANCELLED)
        return status;
    const cusEventCounts counts = reader->counts;
    const int silent = cusi_setSilence(1);
    p->lost = 1;
    const cusStatus back = seekPackets(reader, index);
    cusi_setSilence(silent);
    reader->counts = counts;
    return back == CUS_OK ? status : back;
}

static cusStatus readPackets(cusEventReader *reader, size_t n, CusiEvents out, size_t *count) {
    PacketReader *p = reader->state;
    CusiProgress *const progress = cusi_progress();
    *count = 0;
    while (*count < n) {
        if (eventio_isMessageDone(p)) {
            int found = 0;
            const cusStatus status = p->format->next(reader, p, &found);
            if (status == CUS_ERROR_CANCELLED)
                return goBack(reader, p->place.index, status);
            if (status != CUS_OK) {
                p->message = (Message){0};
                p->lost = 1;
                return status;
            }
            if (found)
                continue;
            p->complete = 1;
            p->total = p->place.index;
            return CUS_OK;
        }
        const CusiEvents e = cusi_eventsFrom(out, *count);
        size_t got = 0;
        const cusStatus status = eventio_deliverMessage(reader, p, n - *count, e, &got);
        p->place.index += got;
        p->place.time = latest(e.t, got, p->place.time);
        *count += got;
        CUS_TRY(status);
        cusi_step(progress, (int64_t)got);
        CUS_TRY(cusi_proceed(progress));
    }
    return CUS_OK;
}

/* Reads forward from the nearest checkpoint, or from the current place if that is nearer. */
static cusStatus seekPackets(cusEventReader *reader, uint64_t index) {
    PacketReader *p = reader->state;
    const uint64_t before = p->place.index;
    const PacketPlace *from = &p->checkpoints[lastBefore(p, UINT64_MAX, index)];
    if (p->lost || p->place.index > index || from->index > p->place.index)
        CUS_TRY(eventio_restorePlace(p, from));
    return goBack(reader, before, eventio_readOn(reader, &p->place.index, index));
}

/* If the first event read is late enough, the one wanted may precede it: a file's own table may have wrong times. */
static cusStatus findTimeInPackets(cusEventReader *reader, int64_t time, uint64_t *index) {
    PacketReader *p = reader->state;
    const uint64_t before = p->place.index;
    size_t k = p->checkpoint_count - 1;
    while (k > 0 && p->checkpoints[k].time >= time)
        --k;
    for (size_t step = 1;; step *= 2) {
        CUS_TRY(eventio_restorePlace(p, &p->checkpoints[k]));
        CUS_TRY(goBack(reader, before, eventio_readToTime(reader, &p->place.index, time, index)));
        if (k == 0 || *index > p->checkpoints[k].index)
            return CUS_OK;
        k = k > step ? k - step : 0;
    }
}

/* Counts the events up to the end or the damage, which is no error here, and returns to the reader's place. */
static cusStatus walkToEnd(cusEventReader *reader, PacketReader *p) {
    const uint64_t index = p->place.index, next = reader->index;
    const cusEventCounts counts = reader->counts;
    cusStatus status = CUS_OK;
    size_t got = 1;
    cusi_part(cusi_progress(), 1, eventio_likelyLeft(reader, index));
    while (status == CUS_OK && got)
        status = readPackets(reader, EVENTIO_SCRATCH, reader->scratch, &got);
    const uint64_t total = p->place.index;
    const int silent = cusi_setSilence(1);
    const cusStatus back = seekPackets(reader, index);
    cusi_setSilence(silent);
    reader->index = next;
    reader->counts = counts;
    if (status == CUS_ERROR_CANCELLED || status == CUS_ERROR_IO || status == CUS_ERROR_NO_MEMORY)
        return status;
    CUS_TRY(back);
    p->complete = 1;
    p->total = total;
    return CUS_OK;
}

static cusStatus countPackets(cusEventReader *reader, uint64_t *count) {
    PacketReader *p = reader->state;
    if (!p->complete)
        CUS_TRY(walkToEnd(reader, p));
    *count = p->total;
    return CUS_OK;
}

static void closePacketReader(PacketReader *p) {
    if (!p)
        return;
    p->format->close(p);
    cusEventDecoderDestroy(p->decoder);
    eventio_freeBuffers(p);
    free(p->checkpoints);
    free(p);
}

/* ---- Triggers: a second reader goes through the file and passes over events ------------------------------------------ */

static cusStatus openTriggers(const cusEventReader *reader, PacketReader *p) {
    PacketReader *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "cusEventReaderReadTriggers: out of host memory");
    made->format = p->format;
    made->is_for_triggers = 1;
    made->stride = 1;
    made->block_offset = UINT64_MAX;
    made->max_memory = p->max_memory / 4;
    made->max_chunk = p->max_chunk;
    cusStatus status = p->decoder ? eventio_createEvt3(reader, made) : CUS_OK;
    if (status == CUS_OK)
        status = p->format->copy(p, made);
    if (status == CUS_OK)
        status = eventio_restorePlace(made, &p->checkpoints[0]);
    if (status != CUS_OK) {
        closePacketReader(made);
        cusi_renamed("cusEventReaderReadTriggers", status);
        return status;
    }
    p->triggers = made;
    return CUS_OK;
}

/* Takes the triggers among the words of the message. */
static cusStatus takeEvt3(PacketReader *p, size_t n, cusEventTrigger *out, size_t *count) {
    Message *m = &p->message;
    const cusEventBuffers buffers = {.capacity = SIZE_MAX, .triggers = out, .trigger_capacity = n};
    cusEventDecoded done;
    const cusStatus status = cusEventDecoderRun(p->decoder, m->bytes, m->size, &buffers, &done, NULL);
    *count = (size_t)done.triggers;
    m->bytes += done.used;
    m->size -= (size_t)done.used;
    const int goes_on = status == CUS_OK || status == CUS_ERROR_CAPACITY || status == CUS_ERROR_CANCELLED;
    return goes_on ? CUS_OK : eventio_describeEvt3(p, status);
}

static cusStatus takeTriggers(cusEventReader *reader, PacketReader *p, size_t n, cusEventTrigger *out, size_t *count) {
    CusiProgress *const progress = cusi_progress();
    while (*count < n) {
        size_t got = 0;
        cusi_step(progress, 0);
        CUS_TRY(cusi_proceed(progress));
        if (eventio_isMessageDone(p)) {
            int found;
            CUS_TRY(p->format->next(reader, p, &found));
            if (!found)
                return CUS_OK;
            continue;
        }
        const cusStatus status = p->message.layout == LAYOUT_EVT3
                                     ? takeEvt3(p, n - *count, out + *count, &got)
                                     : p->format->takeTriggers(p, n - *count, out + *count, &got);
        *count += got;
        CUS_TRY(status);
    }
    return CUS_OK;
}

static cusStatus readTriggers(cusEventReader *reader, size_t n, cusEventTrigger *out, size_t *count) {
    PacketReader *p = reader->state;
    *count = 0;
    if (!p->triggers)
        CUS_TRY(openTriggers(reader, p));
    const cusEventCounts counts = reader->counts;
    const cusStatus status = takeTriggers(reader, p->triggers, n, out, count);
    reader->counts = counts;
    return status == CUS_OK || status == CUS_ERROR_CANCELLED ? status : cusi_renamed("cusEventReaderReadTriggers", status);
}

static void rewindTriggers(cusEventReader *reader) {
    PacketReader *p = reader->state;
    if (p) {
        closePacketReader(p->triggers);
        p->triggers = NULL;
    }
}

static void closePackets(cusEventReader *reader) {
    rewindTriggers(reader);
    closePacketReader(reader->state);
}

static const EventReaderMethods packet_methods = {readPackets,  seekPackets,    findTimeInPackets, closePackets,
                                                  readTriggers, rewindTriggers, countPackets};

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static cusStatus detect(const EventSource *source, const PacketFormat **format) {
    static const struct {
        const char *magic;
        size_t size;
        const PacketFormat *format;
    } known[] = {{"#!AER-DAT4.0\r\n", 14, &eventio_aedat4},
                 {"#ROSBAG V2.0\n", 13, &eventio_bag},
                 {"\x89MCAP0\r\n", 8, &eventio_mcap}};
    char start[16];
    const int64_t got = eventio_readAt(source, 0, start, sizeof start);
    CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderOpen: the file cannot be read: %s", strerror(errno));
    for (size_t k = 0; k < sizeof known / sizeof *known; ++k)
        if (got >= (int64_t)known[k].size && memcmp(start, known[k].magic, known[k].size) == 0)
            *format = known[k].format;
    static const char aedat[] = "#!AER-DAT"; /* before 4.0: the bits of x, y and polarity depend on the camera's model */
    const size_t length = sizeof aedat - 1;
    CUSI_REQUIRE(*format || got < (int64_t)length + 3 || memcmp(start, aedat, length) != 0, CUS_ERROR_UNSUPPORTED,
                 "cusEventReaderOpen: the file is AEDAT %.3s, expected AEDAT 4.0: convert it first", start + length);
    return CUS_OK;
}

/* Finds the time of event `index`; -1 if it cannot be read, which reading reports later. */
static cusStatus timeOf(cusEventReader *reader, uint64_t index, int64_t *time) {
    size_t events = 0;
    cusStatus status = seekPackets(reader, index);
    if (status == CUS_OK)
        status = readPackets(reader, 1, reader->scratch, &events);
    *time = events ? reader->scratch.t[0] : -1;
    return status == CUS_ERROR_NO_MEMORY || status == CUS_ERROR_IO ? status : CUS_OK;
}

/* Finds the first time and, if the file has a table of its packets, the number of events and the last time. */
static cusStatus findTimes(cusEventReader *reader, PacketReader *p) {
    cusEventInfo *info = &reader->info;
    const PacketPlace start = p->place;
    if (!p->checkpoint_count)
        CUS_TRY(eventio_addPlace(p, &start));
    CUS_TRY(timeOf(reader, 0, &info->first_time));
    if (p->complete) {
        info->count = (int64_t)p->total;
        if (p->total > 1)
            CUS_TRY(timeOf(reader, p->total - 1, &info->last_time));
        info->last_time = p->total == 1 ? info->first_time : info->last_time >= info->first_time ? info->last_time : -1;
    }
    CUS_TRY(eventio_restorePlace(p, &start));
    reader->counts = (cusEventCounts){0};
    reader->index = 0;
    return CUS_OK;
}

cusStatus eventio_openPackets(cusEventReader *reader) {
    const PacketFormat *format = NULL;
    CUS_TRY(detect(&reader->source, &format));
    if (!format)
        return CUS_OK;
    PacketReader *p = calloc(1, sizeof *p);
    CUSI_REQUIRE(p, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: out of host memory");
    reader->state = p;
    reader->methods = &packet_methods;
    p->format = format;
    p->stride = 1;
    p->block_offset = UINT64_MAX;
    p->max_memory = reader->options.max_memory - RESERVED_BYTES;
    p->max_chunk = reader->options.max_chunk;
    p->place.time = -1;
    CUS_TRY(format->open(reader, p));
    CUS_TRY(eventio_checkFormat(reader));
    return findTimes(reader, p);
}
