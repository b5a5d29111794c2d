/* Reads a record of a ROS 1 bag: size and fields "name=value" of its header, size and bytes of its data. */
#include "check.h"
#include "eventio/ros/ros.h"

#include <string.h>

enum { OP_MESSAGE = 2, OP_BAG = 3, OP_CHUNK = 5, OP_CONNECTION = 7, MAX_HEADER = 1 << 16, VERSION_BYTES = 13 };

/* The fields of a header, or of the data of a connection. */
typedef struct BagFields {
    const uint8_t *bytes;
    size_t size;
} BagFields;

/* Finds the value of a field; .at is NULL if there is none. Returns 0 if the fields are damaged. */
static int findField(BagFields f, const char *name, RosText *value) {
    const size_t n = strlen(name);
    *value = (RosText){NULL, 0};
    for (size_t at = 0; at < f.size;) {
        if (f.size - at < 4)
            return 0;
        const size_t size = cusi_load32(f.bytes + at);
        at += 4;
        if (size > f.size - at)
            return 0;
        if (size > n && f.bytes[at + n] == '=' && memcmp(f.bytes + at, name, n) == 0)
            *value = (RosText){(const char *)f.bytes + at + n + 1, size - n - 1};
        at += size;
    }
    return 1;
}

/* Finds a number in a field of `size` bytes. */
static int findNumber(BagFields f, const char *name, size_t size, uint64_t *number) {
    RosText value;
    if (!findField(f, name, &value) || value.size != size)
        return 0;
    *number = 0;
    for (size_t i = size; i-- > 0;)
        *number = *number << 8 | (uint8_t)value.at[i];
    return 1;
}

static cusStatus readConnection(cusEventReader *reader, PacketReader *p, uint64_t at, const Record *r) {
    const uint8_t *bytes;
    CUS_TRY(eventio_rosView(reader, p, at, r->size, &bytes));
    const BagFields header = {bytes + 4, (size_t)r->body - 8}, data = {bytes + r->body, (size_t)r->rest};
    uint64_t number;
    RosText name, type;
    if (!findNumber(header, "conn", 4, &number) || !findField(header, "topic", &name) || !name.at ||
        !findField(data, "type", &type) || !type.at)
        return eventio_rosDamaged(p, at, "a connection with number, topic and type");
    RosTopic topic = {.number = (uint32_t)number};
    const int has_events = eventio_rosType(type, &topic.is_packet);
    return eventio_addTopic(p, at, topic, name, has_events);
}

static cusStatus readChunk(PacketReader *p, uint64_t at, BagFields header, Record *r) {
    RosText compression;
    if (!findField(header, "compression", &compression) || !compression.at || !findNumber(header, "size", 4, &r->unpacked))
        return eventio_rosDamaged(p, at, "a chunk with compression and size");
    r->kind = RECORD_CHUNK;
    r->codec = eventio_rosEquals(compression, "bz2")   ? CODEC_BZIP2
               : eventio_rosEquals(compression, "lz4") ? CODEC_LZ4
                                                       : CODEC_NONE;
    CUSI_REQUIRE(r->codec != CODEC_NONE || eventio_rosEquals(compression, "none"), CUS_ERROR_UNSUPPORTED,
                 "cusEventReaderRead: byte %llu: compression is \"%.*s\", expected none, bz2 or lz4",
                 (unsigned long long)at, (int)(compression.size < 32 ? compression.size : 32), compression.at);
    return CUS_OK;
}

static cusStatus readRecord(cusEventReader *reader, PacketReader *p, uint64_t at, Record *r) {
    Ros *ros = p->state;
    const uint8_t *bytes;
    CUS_TRY(eventio_rosView(reader, p, at, 4, &bytes));
    const uint64_t size = cusi_load32(bytes);
    if (size > MAX_HEADER)
        return eventio_rosDamaged(p, at, "a header of at most 65536 bytes");
    CUS_TRY(eventio_rosView(reader, p, at, size + 8, &bytes));
    const BagFields header = {bytes + 4, (size_t)size};
    r->body = size + 8;
    r->rest = cusi_load32(bytes + 4 + size);
    r->size = r->body + r->rest;
    uint64_t op, number;
    if (!findNumber(header, "op", 1, &op))
        return eventio_rosDamaged(p, at, "a header with op");
    if (op == OP_MESSAGE) {
        if (!findNumber(header, "conn", 4, &number))
            return eventio_rosDamaged(p, at, "a message with the number of its connection");
        r->kind = RECORD_MESSAGE;
        r->topic = (uint32_t)number;
    } else if (op == OP_CHUNK) {
        return readChunk(p, at, header, r);
    } else if (op == OP_CONNECTION) {
        r->kind = RECORD_TOPIC;
        return readConnection(reader, p, at, r);
    } else if (op == OP_BAG && !findNumber(header, "index_pos", 8, &ros->index)) {
        return eventio_rosDamaged(p, at, "a bag's header with the place of its index");
    }
    return CUS_OK;
}

/* Checks the end: the index starts where the bag's header says, unless the bag was not closed. */
static cusStatus finishBag(cusEventReader *reader, PacketReader *p) {
    const Ros *ros = p->state;
    CUSI_REQUIRE(reader->source.size >= ros->index, CUS_ERROR_TRUNCATED,
                 "cusEventReaderRead: the file ends at byte %llu, before its index at byte %llu",
                 (unsigned long long)reader->source.size, (unsigned long long)ros->index);
    return CUS_OK;
}

static cusStatus openBag(cusEventReader *reader, PacketReader *p) {
    static const RosFormat format = {VERSION_BYTES, readRecord, finishBag};
    reader->info.format = CUS_EVENTS_BAG;
    return eventio_openRos(reader, p, &format);
}

const PacketFormat eventio_bag = {openBag, eventio_rosNext, eventio_closeRos, eventio_copyRos, eventio_rosTakeTriggers};
