/* Messages of ROS in bags (ROS 1) and MCAP (ROS 2). Both files are records one after the other, some of them chunks:
 * records that are compressed together.
 *   walk.c      from record to record, into chunks and out, to the next message of the topic, which it chooses at first
 *   topics.c    the topics with events
 *   messages.c  dvs_msgs/EventArray and event_camera_msgs/EventPacket, in the serialization of ROS 1 and in CDR
 *   bag.c, mcap.c   one record */
#ifndef CUSI_EVENTIO_ROS_ROS_H
#define CUSI_EVENTIO_ROS_ROS_H

#include "eventio/packets/packets.h"

typedef enum RecordKind { RECORD_OTHER, RECORD_CHUNK, RECORD_TOPIC, RECORD_MESSAGE, RECORD_END } RecordKind;

/* A record, without its contents. */
typedef struct Record {
    RecordKind kind;
    uint64_t size;       /* bytes of the whole record */
    uint64_t body, rest; /* contents behind the header: offset in the record, bytes */
    uint32_t topic;      /* MESSAGE: number of its topic */
    PacketCodec codec;   /* CHUNK */
    uint64_t unpacked;   /* CHUNK: decompressed bytes */
    uint32_t checksum;   /* CHUNK: CRC-32 of the decompressed bytes; 0: none */
} Record;

enum { ROS_NAME = 256, ROS_TOPICS = 128 };

/* A record's place: `at` in the file, or in the chunk that ends at `block` + 1. */
typedef struct RosPosition {
    uint64_t block, at;
} RosPosition;

static inline RosPosition eventio_rosPosition(const PacketReader *packets, uint64_t at) {
    return (RosPosition){packets->chunk_size ? packets->place.offset - 1 : at, at};
}
static inline int eventio_rosIsPast(RosPosition position, RosPosition other) {
    return position.block > other.block || (position.block == other.block && position.at > other.at);
}

/* A topic with messages of events. Records before it in the file do not know it, even when they are read again. */
typedef struct RosTopic {
    RosPosition since;
    uint32_t number;
    uint8_t is_packet; /* event_camera_msgs/EventPacket; otherwise dvs_msgs/EventArray */
    uint8_t is_cdr;
    char name[ROS_NAME];
} RosTopic;

/* MCAP: a type of message. */
typedef struct RosSchema {
    RosPosition since;
    uint32_t number;
    uint8_t is_packet;
} RosSchema;

typedef struct Ros Ros;

typedef struct RosFormat {
    uint64_t start; /* place of the first record */
    /* Reads the header of the record at `at`. Keeps what a TOPIC says. */
    cusStatus (*record)(cusEventReader *reader, PacketReader *packets, uint64_t at, Record *record);
    /* Called after the last record; reports what is missing. */
    cusStatus (*finish)(cusEventReader *reader, PacketReader *packets);
} RosFormat;

struct Ros {
    const RosFormat *format;
    uint64_t index; /* bag: where the index starts, 0: the bag was not closed */
    RosTopic *topics;
    RosSchema *schemas;
    size_t topic_count, schema_count;
    const char *wanted;    /* the option camera, during open */
    char chosen[ROS_NAME]; /* the topic that is read; "": any wanted one */
    const RosTopic *last;  /* topic of the last message, and its sensor */
    uint32_t width, height;
};

/* ---- walk.c ------------------------------------------------------------------------------------------------------ */

/* Sets reader->state and opens the recording, except for its format and the sensor. */
cusStatus eventio_openRos(cusEventReader *reader, PacketReader *packets, const RosFormat *format);
cusStatus eventio_rosNext(cusEventReader *reader, PacketReader *packets, int *found);
void eventio_closeRos(PacketReader *packets);
cusStatus eventio_copyRos(const PacketReader *from, PacketReader *to);

/* Sets *bytes to n bytes at `at` of the file, or of the current chunk. */
cusStatus eventio_rosView(cusEventReader *reader, PacketReader *packets, uint64_t at, uint64_t n, const uint8_t **bytes);

/* ---- topics.c ---------------------------------------------------------------------------------------------------- */

/* A name in a file. */
typedef struct RosText {
    const char *at;
    size_t size;
} RosText;

static inline int eventio_rosEquals(RosText text, const char *other) {
    size_t n = 0;
    while (n < text.size && other[n] && text.at[n] == other[n])
        ++n;
    return n == text.size && !other[n];
}

/* Returns whether a type of message has events; *is_packet: which of the two. */
int eventio_rosType(RosText type, uint8_t *is_packet);

/* Adds a topic, or compares it with the one of that number. has_events 0: of another type, which is not kept. */
cusStatus eventio_addTopic(PacketReader *packets, uint64_t at, RosTopic topic, RosText name, int has_events);

/* Returns the topic of that number for a record at `at`; NULL if it has no events. */
const RosTopic *eventio_findTopic(const PacketReader *packets, uint64_t at, uint32_t number);

/* Returns whether the topic's events are read, and so its triggers too. */
int eventio_isRead(const Ros *ros, const RosTopic *topic);
int eventio_isBeside(const Ros *ros, const RosTopic *topic);

/* Fails with FORMAT: the record at `at` is damaged. */
cusStatus eventio_rosDamaged(const PacketReader *packets, uint64_t at, const char *expected);

/* ---- messages.c -------------------------------------------------------------------------------------------------- */

/* Sets packets->message to the events of a message, if they are wanted, and counts its triggers. */
cusStatus eventio_rosMessage(cusEventReader *reader, PacketReader *packets, const RosTopic *topic, uint64_t at,
                             const uint8_t *bytes, size_t n);

cusStatus eventio_rosTakeTriggers(PacketReader *packets, size_t n, cusEventTrigger *out, size_t *count);

#endif
