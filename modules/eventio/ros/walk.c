/* From record to record, into chunks and out, to the next message with events. */
#include "check.h"
#include "eventio/ros/ros.h"

#include <stdlib.h>
#include <string.h>
#ifdef CUSI_WITH_ZLIB
#include <zlib.h>
#endif

cusStatus eventio_rosDamaged(const PacketReader *p, uint64_t at, const char *expected) {
    if (p->chunk_size)
        return cusi_fail(
            CUS_ERROR_FORMAT,
            "cusEventReaderRead: a damaged record at byte %llu of the chunk that ends at byte %llu, expected %s",
            (unsigned long long)at, (unsigned long long)p->place.offset, expected);
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: byte %llu: a damaged record, expected %s",
                     (unsigned long long)at, expected);
}

cusStatus eventio_rosView(cusEventReader *reader, PacketReader *p, uint64_t at, uint64_t n, const uint8_t **bytes) {
    if (!p->chunk_size)
        return eventio_view(reader, p, at, n, bytes);
    if (at > p->chunk_size || n > p->chunk_size - at)
        return eventio_rosDamaged(p, at, "one that ends within the chunk");
    *bytes = p->chunk + at;
    return CUS_OK;
}

/* The record must end within the file or the chunk. */
static cusStatus checkEnd(const cusEventReader *reader, const PacketReader *p, uint64_t at, uint64_t size) {
    const uint64_t end = p->chunk_size ? p->chunk_size : reader->source.size;
    if (size <= end - at)
        return CUS_OK;
    if (p->chunk_size)
        return eventio_rosDamaged(p, at, "one that ends within the chunk");
    return cusi_fail(CUS_ERROR_TRUNCATED,
                     "cusEventReaderRead: the file ends at byte %llu, within a record that starts at byte %llu",
                     (unsigned long long)end, (unsigned long long)at);
}

/* Moves into the chunk. */
static cusStatus enter(cusEventReader *reader, PacketReader *p, uint64_t at, const Record *r) {
    if (p->chunk_size)
        return eventio_rosDamaged(p, at, "no chunk within a chunk");
    if (!r->unpacked)
        return CUS_OK;
    const uint8_t *bytes;
    if (r->codec == CODEC_NONE) {
        if (r->rest != r->unpacked)
            return eventio_rosDamaged(p, at, "a chunk of the size that it says");
        CUS_TRY(eventio_view(reader, p, at + r->body, r->rest, &bytes));
    } else {
        CUS_TRY(eventio_unpackBlock(reader, p, at + r->body, r->rest, r->codec, r->unpacked));
        bytes = p->block;
    }
#if defined(CUSI_WITH_ZLIB) && !defined(CUSI_FUZZ) /* fuzzers do not find checksums */
    if (r->checksum && crc32_z(0, bytes, (size_t)r->unpacked) != r->checksum)
        return eventio_rosDamaged(p, at, "a chunk with the right checksum");
#endif
    p->chunk = bytes;
    p->chunk_size = (size_t)r->unpacked;
    p->chunk_at = 0;
    return CUS_OK;
}

static cusStatus openMessage(cusEventReader *reader, PacketReader *p, uint64_t at, const Record *r) {
    const Ros *ros = p->state;
    const RosTopic *topic = eventio_findTopic(p, at, r->topic);
    if (!topic || !(eventio_isRead(ros, topic) || eventio_isBeside(ros, topic)))
        return CUS_OK;
    if (p->is_for_triggers && !topic->is_packet)
        return CUS_OK;
    const uint8_t *bytes = NULL;
    CUS_TRY(eventio_rosView(reader, p, at + r->body, r->rest, &bytes));
    return eventio_rosMessage(reader, p, topic, at, bytes, (size_t)r->rest);
}

static int hasEvents(const Message *m) {
    return m->size || m->count;
}

cusStatus eventio_rosNext(cusEventReader *reader, PacketReader *p, int *found) {
    const Ros *ros = p->state;
    *found = 0;
    p->message = (Message){0};
    for (;;) {
        if (p->chunk_at == p->chunk_size) {
            p->chunk_at = p->chunk_size = 0;
            CUS_TRY(eventio_passBlock(p, p->place.offset));
            if (p->place.offset == reader->source.size)
                return ros->format->finish(reader, p);
        }
        const int within = p->chunk_size > 0;
        const uint64_t at = within ? p->chunk_at : p->place.offset;
        Record r = {.kind = RECORD_OTHER};
        CUS_TRY(ros->format->record(reader, p, at, &r));
        if (r.kind == RECORD_END)
            return within ? eventio_rosDamaged(p, at, "no end within a chunk") : ros->format->finish(reader, p);
        CUS_TRY(checkEnd(reader, p, at, r.size));
        if (r.kind == RECORD_CHUNK)
            CUS_TRY(enter(reader, p, at, &r));
        else if (r.kind == RECORD_MESSAGE)
            CUS_TRY(openMessage(reader, p, at, &r));
        if (within)
            p->chunk_at += (size_t)r.size;
        else
            p->place.offset += r.size;
        if (hasEvents(&p->message)) {
            *found = 1;
            return CUS_OK;
        }
    }
}

cusStatus eventio_openRos(cusEventReader *reader, PacketReader *p, const RosFormat *format) {
    Ros *ros = calloc(1, sizeof *ros);
    CUSI_REQUIRE(ros, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: out of host memory");
    p->state = ros;
    ros->format = format;
    CUS_TRY(eventio_createEvt3(reader, p));
    p->place.offset = format->start;
    return eventio_chooseTopic(reader, p);
}

cusStatus eventio_copyRos(const PacketReader *from, PacketReader *to) {
    const Ros *ros = from->state;
    Ros *made = to->state = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "cusEventReaderReadTriggers: out of host memory");
    made->format = ros->format;
    memcpy(made->chosen, ros->chosen, sizeof made->chosen);
    return CUS_OK;
}

void eventio_closeRos(PacketReader *p) {
    Ros *ros = p->state;
    if (ros) {
        free(ros->topics);
        free(ros->schemas);
    }
    free(ros);
}
