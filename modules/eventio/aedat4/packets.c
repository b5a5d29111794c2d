/* Reads AEDAT4 packet by packet. Skips those of other streams by their size. */
#include "check.h"
#include "eventio/aedat4/aedat4.h"

#include <string.h>

enum { RISING = 1, FALLING = 2, HEADER_BYTES = 8, EVENT_BYTES = 16 };

static cusStatus damaged(uint64_t offset, const char *what) {
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: byte %llu: a damaged packet, expected %s",
                     (unsigned long long)offset, what);
}

cusStatus eventio_aedat4Unpack(cusEventReader *reader, PacketReader *p, uint64_t offset, uint64_t size,
                               const char *identifier, FlatTable *root) {
    const Aedat4 *file = p->state;
    const uint8_t *bytes;
    size_t n;
    if (file->codec == CODEC_NONE) {
        CUS_TRY(eventio_view(reader, p, offset, size, &bytes));
        n = (size_t)size;
    } else {
        CUS_TRY(eventio_unpackBlock(reader, p, offset, size, file->codec, 0));
        bytes = p->block;
        n = p->block_size;
    }
    CUSI_REQUIRE(offset + size < reader->source.size || file->codec != CODEC_NONE ||
                     (n >= 4 && cusi_load32(bytes) <= n - 4),
                 CUS_ERROR_TRUNCATED, "cusEventReaderRead: the file ends within the packet that starts at byte %llu",
                 (unsigned long long)offset);
    if (n < 4 || cusi_load32(bytes) != n - 4 || !eventio_flatRoot(bytes + 4, n - 4, identifier, root))
        return damaged(offset, identifier);
    return CUS_OK;
}

static cusStatus startEvents(cusEventReader *reader, PacketReader *p, uint64_t offset, uint64_t size) {
    FlatTable root;
    const uint8_t *events;
    size_t count;
    CUS_TRY(eventio_aedat4Unpack(reader, p, offset, size, "EVTS", &root));
    if (!eventio_flatVector(&root, 0, EVENT_BYTES, &events, &count))
        return damaged(offset, "a list of events");
    p->message = (Message){.layout = LAYOUT_AEDAT4, .bytes = events, .count = count};
    return CUS_OK;
}

/* Reads a trigger. *edge: RISING, FALLING, or another type, which is no trigger. */
static cusStatus readTrigger(const FlatTable *root, const uint8_t *elements, size_t i, uint64_t offset, int *edge,
                             int64_t *time) {
    FlatTable trigger;
    const uint8_t *type, *t;
    if (!eventio_flatElement(root, elements, i, &trigger) || !eventio_flatField(&trigger, 0, 8, &t) ||
        !eventio_flatField(&trigger, 1, 1, &type))
        return damaged(offset, "a list of triggers");
    *edge = type ? *type : 0;
    *time = t ? (int64_t)((uint64_t)cusi_load32(t) | (uint64_t)cusi_load32(t + 4) << 32) : 0;
    return CUS_OK;
}

static cusStatus countTriggers(cusEventReader *reader, PacketReader *p, uint64_t offset, uint64_t size) {
    Aedat4 *file = p->state;
    const uint8_t *elements;
    size_t count;
    CUS_TRY(eventio_aedat4Unpack(reader, p, offset, size, "TRIG", &file->triggers));
    if (!eventio_flatVector(&file->triggers, 0, 4, &elements, &count))
        return damaged(offset, "a list of triggers");
    if (p->is_for_triggers) {
        p->message = (Message){.layout = LAYOUT_TRIGGERS, .bytes = elements, .count = count, .base = offset};
        return CUS_OK;
    }
    for (size_t i = 0; i < count; ++i) {
        int edge = 0;
        int64_t time = 0;
        CUS_TRY(readTrigger(&file->triggers, elements, i, offset, &edge, &time));
        reader->counts.triggers_rising += edge == RISING;
        reader->counts.triggers_falling += edge == FALLING;
    }
    return CUS_OK;
}

cusStatus eventio_aedat4TakeTriggers(PacketReader *p, size_t n, cusEventTrigger *out, size_t *count) {
    const Aedat4 *file = p->state;
    Message *m = &p->message;
    *count = 0;
    for (; *count < n && m->next < m->count; ++m->next) {
        int edge = 0;
        int64_t time = 0;
        CUS_TRY(readTrigger(&file->triggers, m->bytes, m->next, m->base, &edge, &time));
        if (edge == RISING || edge == FALLING)
            out[(*count)++] = (cusEventTrigger){.t = time, .value = edge == RISING};
    }
    return CUS_OK;
}

/* Checks the end after the last packet. */
static cusStatus finish(const PacketReader *p) {
    const Aedat4 *file = p->state;
    const unsigned long long index = p->place.index;
    CUSI_REQUIRE(file->damage != CUS_ERROR_TRUNCATED, CUS_ERROR_TRUNCATED,
                 "cusEventReaderRead: the file ends before or within its table of packets at byte %llu",
                 (unsigned long long)file->table);
    CUSI_REQUIRE(file->damage == CUS_OK, file->damage, "cusEventReaderRead: byte %llu: a damaged table of packets",
                 (unsigned long long)file->table);
    CUSI_REQUIRE(!file->has_table || p->is_for_triggers || file->count == p->place.index, CUS_ERROR_FORMAT,
                 "cusEventReaderRead: the recording ends after %llu events, but its table of packets says %llu", index,
                 (unsigned long long)file->count);
    return CUS_OK;
}

/* Returns the stream of a packet whose events are wanted, or whose triggers belong to those; otherwise -1. */
static int streamOf(const Aedat4 *file, int32_t number) {
    const Aedat4Stream *chosen = file->chosen >= 0 ? &file->streams[file->chosen] : NULL;
    for (int k = 0; k < file->stream_count; ++k) {
        const Aedat4Stream *s = &file->streams[k];
        if (s->number != number)
            continue;
        if (s->type[0] == 'E' ? !chosen || s == chosen : chosen && strcmp(s->source, chosen->source) == 0)
            return k;
    }
    return -1;
}

cusStatus eventio_aedat4Next(cusEventReader *reader, PacketReader *p, int *found) {
    Aedat4 *file = p->state;
    *found = 0;
    while (p->place.offset < file->end) {
        const uint64_t at = p->place.offset, offset = at + HEADER_BYTES;
        const uint8_t *header;
        CUS_TRY(eventio_passBlock(p, at));
        CUS_TRY(eventio_view(reader, p, at, HEADER_BYTES, &header));
        const int32_t number = (int32_t)cusi_load32(header), size = (int32_t)cusi_load32(header + 4);
        if (size < 0)
            return damaged(at, "a size of 0 or more");
        if (offset > file->end || (uint64_t)size > file->end - offset) {
            CUSI_REQUIRE(file->end < reader->source.size, CUS_ERROR_TRUNCATED,
                         "cusEventReaderRead: the file ends at byte %llu, within a packet that starts at byte %llu",
                         (unsigned long long)file->end, (unsigned long long)at);
            return damaged(at, "one that ends before the table of packets");
        }
        file->current = streamOf(file, number);
        const int is_events = file->current >= 0 && file->streams[file->current].type[0] == 'E';
        if (is_events && !p->is_for_triggers)
            CUS_TRY(startEvents(reader, p, offset, (uint64_t)size));
        else if (file->current >= 0 && !is_events)
            CUS_TRY(countTriggers(reader, p, offset, (uint64_t)size));
        *found = file->current >= 0 && is_events != p->is_for_triggers;
        p->place.offset = offset + (uint64_t)size;
        if (*found)
            return CUS_OK;
    }
    return finish(p);
}
