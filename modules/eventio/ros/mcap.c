/* Reads a record of MCAP: its type in a byte, its size, its contents. */
#include "check.h"
#include "eventio/ros/ros.h"

#include <stdlib.h>
#include <string.h>

enum { OP_FOOTER = 2, OP_SCHEMA = 3, OP_CHANNEL = 4, OP_MESSAGE = 5, OP_CHUNK = 6, OP_DATA_END = 15 };
enum { MAGIC_BYTES = 8, PREFIX = 9, MESSAGE_HEADER = 22, CHUNK_FIELDS = 28, MAX_COMPRESSION = 32 };
static const uint8_t magic[MAGIC_BYTES] = {0x89, 'M', 'C', 'A', 'P', '0', '\r', '\n'};

static inline uint64_t load64(const uint8_t *p) {
    return (uint64_t)cusi_load32(p) | (uint64_t)cusi_load32(p + 4) << 32;
}

/* The contents of a record, read one after the other. */
typedef struct Contents {
    const uint8_t *bytes;
    size_t size, at;
    int failed;
} Contents;

static RosText takeText(Contents *c) {
    if (c->failed || c->size - c->at < 4 || cusi_load32(c->bytes + c->at) > c->size - c->at - 4) {
        c->failed = 1;
        return (RosText){"", 0};
    }
    const RosText text = {(const char *)c->bytes + c->at + 4, cusi_load32(c->bytes + c->at)};
    c->at += 4 + text.size;
    return text;
}

static const RosSchema *findSchema(const PacketReader *p, uint64_t at, uint32_t number) {
    const Ros *ros = p->state;
    const RosPosition here = eventio_rosPosition(p, at);
    for (size_t k = 0; k < ros->schema_count; ++k)
        if (ros->schemas[k].number == number && !eventio_rosIsPast(ros->schemas[k].since, here))
            return &ros->schemas[k];
    return NULL;
}

static cusStatus addSchema(PacketReader *p, uint64_t at, RosSchema schema, int has_events) {
    Ros *ros = p->state;
    const RosSchema *known = findSchema(p, at, schema.number);
    if (known)
        return has_events && known->is_packet == schema.is_packet
                   ? CUS_OK
                   : eventio_rosDamaged(p, at, "the same schema under the same number");
    if (!has_events)
        return CUS_OK;
    CUSI_REQUIRE(ros->schema_count < ROS_TOPICS, CUS_ERROR_CAPACITY, "cusEventReaderRead: more than %d schemas of events",
                 ROS_TOPICS);
    if (ros->schema_count % 16 == 0) {
        RosSchema *grown = realloc(ros->schemas, (ros->schema_count + 16) * sizeof *grown);
        CUSI_REQUIRE(grown, CUS_ERROR_NO_MEMORY, "cusEventReaderRead: out of host memory");
        ros->schemas = grown;
    }
    schema.since = eventio_rosPosition(p, at);
    ros->schemas[ros->schema_count++] = schema;
    return CUS_OK;
}

static cusStatus readSchema(PacketReader *p, uint64_t at, Contents c) {
    c.at = 2;
    c.failed = c.size < 2;
    const RosText name = takeText(&c);
    takeText(&c); /* encoding */
    takeText(&c); /* the definition */
    if (c.failed)
        return eventio_rosDamaged(p, at, "a schema");
    RosSchema schema = {.number = cusi_load16(c.bytes)};
    const int has_events = eventio_rosType(name, &schema.is_packet);
    return addSchema(p, at, schema, has_events);
}

static cusStatus readChannel(PacketReader *p, uint64_t at, Contents c) {
    c.at = 4;
    c.failed = c.size < 4;
    const RosText name = takeText(&c), encoding = takeText(&c);
    if (c.failed)
        return eventio_rosDamaged(p, at, "a channel");
    const RosSchema *schema = findSchema(p, at, cusi_load16(c.bytes + 2));
    const RosTopic topic = {.number = cusi_load16(c.bytes),
                            .is_packet = schema ? schema->is_packet : 0,
                            .is_cdr = (uint8_t)eventio_rosEquals(encoding, "cdr")};
    return eventio_addTopic(p, at, topic, name, schema && (topic.is_cdr || eventio_rosEquals(encoding, "ros1")));
}

static cusStatus readChunk(cusEventReader *reader, PacketReader *p, uint64_t at, Record *r) {
    enum { MIN_BYTES = PREFIX + CHUNK_FIELDS + 4 };
    const uint8_t *bytes;
    if (r->size < MIN_BYTES + 8)
        return eventio_rosDamaged(p, at, "a chunk");
    CUS_TRY(eventio_rosView(reader, p, at, MIN_BYTES, &bytes));
    const uint64_t unpacked = load64(bytes + PREFIX + 16);
    const uint32_t checksum = cusi_load32(bytes + PREFIX + 24), n = cusi_load32(bytes + PREFIX + CHUNK_FIELDS);
    if (n > MAX_COMPRESSION || r->size < MIN_BYTES + 8 + (uint64_t)n)
        return eventio_rosDamaged(p, at, "a chunk with the name of its compression");
    CUS_TRY(eventio_rosView(reader, p, at, MIN_BYTES + 8 + (uint64_t)n, &bytes));
    const RosText compression = {(const char *)bytes + MIN_BYTES, n};
    *r = (Record){.kind = RECORD_CHUNK,
                  .size = r->size,
                  .body = MIN_BYTES + 8 + (uint64_t)n,
                  .unpacked = unpacked,
                  .checksum = checksum};
    r->rest = r->size - r->body;
    if (load64(bytes + MIN_BYTES + n) != r->rest)
        return eventio_rosDamaged(p, at, "a chunk that its records fill");
    r->codec = eventio_rosEquals(compression, "lz4")    ? CODEC_LZ4
               : eventio_rosEquals(compression, "zstd") ? CODEC_ZSTD
                                                        : CODEC_NONE;
    CUSI_REQUIRE(r->codec != CODEC_NONE || n == 0, CUS_ERROR_UNSUPPORTED,
                 "cusEventReaderRead: byte %llu: compression is \"%.*s\", expected none, lz4 or zstd",
                 (unsigned long long)at, (int)n, compression.at);
    return CUS_OK;
}

static cusStatus readRecord(cusEventReader *reader, PacketReader *p, uint64_t at, Record *r) {
    const uint8_t *bytes;
    CUS_TRY(eventio_rosView(reader, p, at, PREFIX, &bytes));
    const uint8_t op = bytes[0];
    const uint64_t n = load64(bytes + 1);
    r->body = PREFIX;
    r->rest = n;
    r->size = n > UINT64_MAX - PREFIX ? UINT64_MAX : PREFIX + n;
    switch (op) {
    case OP_SCHEMA:
    case OP_CHANNEL:
        r->kind = RECORD_TOPIC;
        CUS_TRY(eventio_rosView(reader, p, at, r->size, &bytes));
        return op == OP_SCHEMA ? readSchema(p, at, (Contents){.bytes = bytes + PREFIX, .size = (size_t)n})
                               : readChannel(p, at, (Contents){.bytes = bytes + PREFIX, .size = (size_t)n});
    case OP_MESSAGE:
        if (n < MESSAGE_HEADER)
            return eventio_rosDamaged(p, at, "a message with its header");
        CUS_TRY(eventio_rosView(reader, p, at, PREFIX + 2, &bytes));
        r->kind = RECORD_MESSAGE;
        r->topic = cusi_load16(bytes + PREFIX);
        r->body += MESSAGE_HEADER;
        r->rest -= MESSAGE_HEADER;
        return CUS_OK;
    case OP_CHUNK:
        return readChunk(reader, p, at, r);
    case OP_FOOTER:
    case OP_DATA_END:
        r->kind = RECORD_END;
        return CUS_OK;
    default:
        return CUS_OK;
    }
}

/* Checks that the file is complete: the end of the data, an index, and the first bytes again. */
static cusStatus finishMcap(cusEventReader *reader, PacketReader *p) {
    const uint64_t size = reader->source.size;
    const uint8_t *bytes;
    int whole = 0;
    if (p->place.offset < size) {
        CUS_TRY(eventio_view(reader, p, size - MAGIC_BYTES, MAGIC_BYTES, &bytes));
        whole = memcmp(bytes, magic, MAGIC_BYTES) == 0;
    }
    CUSI_REQUIRE(whole, CUS_ERROR_TRUNCATED, "cusEventReaderRead: the file ends at byte %llu, before the end that MCAP has",
                 (unsigned long long)size);
    return CUS_OK;
}

static cusStatus openMcap(cusEventReader *reader, PacketReader *p) {
    static const RosFormat format = {MAGIC_BYTES, readRecord, finishMcap};
    reader->info.format = CUS_EVENTS_MCAP;
    return eventio_openRos(reader, p, &format);
}

const PacketFormat eventio_mcap = {openMcap, eventio_rosNext, eventio_closeRos, eventio_copyRos, eventio_rosTakeTriggers};
