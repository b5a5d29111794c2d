/* Walks from record to record, into chunks and out, to the next message with events. */
#include "check.h"
#include "eventio/ros/ros.h"

#include <stdlib.h>
#include <string.h>
#ifdef CUSI_WITH_ZLIB
#include <zlib.h>
#endif

cusStatus eventio_rosView(cusEventReader *reader, PacketReader *p, uint64_t at, uint64_t n, const uint8_t **bytes) {
    if (!p->chunk_size)
        return eventio_view(reader, p, at, n, bytes);
    if (at > p->chunk_size || n > p->chunk_size - at)
        return eventio_rosDamaged(p, at, "one that ends within the chunk");
    *bytes = p->chunk + at;
    return CUS_OK;
}

/* Checks that the record ends within the file or the chunk. */
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

/* Shortens long topics by their first parts. */
static void describeTopic(cusEventReader *reader, const char *name) {
    const size_t n = strlen(name), room = sizeof reader->info.camera - 1;
    const char *part = n > room ? strchr(name + n - room, '/') : name;
    part = part ? part : name + n - room;
    memcpy(reader->info.camera, part, strlen(part) + 1);
}

/* Chooses the first wanted topic that has events; without events, the first wanted one. */
static cusStatus chooseTopic(cusEventReader *reader, PacketReader *p) {
    Ros *ros = p->state;
    const PacketPlace start = p->place;
    ros->wanted = reader->options.camera;
    int found;
    const cusStatus status = eventio_rosNext(reader, p, &found);
    const RosTopic *topic = status == CUS_OK && found ? ros->last : NULL;
    if (status == CUS_ERROR_IO || status == CUS_ERROR_NO_MEMORY || status == CUS_ERROR_UNSUPPORTED)
        return status;
    for (size_t k = 0; k < ros->topic_count && !topic; ++k)
        topic = eventio_isRead(ros, &ros->topics[k]) ? &ros->topics[k] : NULL;
    if (!topic)
        CUS_TRY(status);
    CUSI_REQUIRE(topic, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: the file has no topic%s%s%s with messages of dvs_msgs/EventArray or "
                 "event_camera_msgs/EventPacket",
                 ros->wanted ? " \"" : "", ros->wanted ? ros->wanted : "", ros->wanted ? "\"" : "");
    ros->wanted = NULL;
    memcpy(ros->chosen, topic->name, sizeof ros->chosen);
    describeTopic(reader, ros->chosen);
    if (ros->width - 1 < 65536 && ros->height - 1 < 65536) {
        reader->info.width = (int)ros->width;
        reader->info.height = (int)ros->height;
    }
    p->checkpoint_count = p->skipped = 0;
    return eventio_restorePlace(p, &start);
}

cusStatus eventio_openRos(cusEventReader *reader, PacketReader *p, const RosFormat *format) {
    Ros *ros = calloc(1, sizeof *ros);
    CUSI_REQUIRE(ros, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: out of host memory");
    p->state = ros;
    ros->format = format;
    CUS_TRY(eventio_createEvt3(reader, p));
    p->place.offset = format->start;
    return chooseTopic(reader, p);
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
