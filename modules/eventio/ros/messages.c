/* Reads dvs_msgs/EventArray and event_camera_msgs/EventPacket, in the serialization of ROS 1, which packs fields, and
 * in CDR, which aligns them. */
#include "check.h"
#include "eventio/ros/ros.h"

/* Reads fields in turn. Past the end it gives zeros and sets a flag. */
typedef struct Fields {
    const uint8_t *bytes;
    size_t size, at;
    int is_cdr, big_endian, failed;
} Fields;

static const uint8_t *take(Fields *f, size_t n, size_t alignment) {
    static const uint8_t zeros[8];
    const size_t gap = f->is_cdr ? (alignment - f->at % alignment) % alignment : 0;
    if (f->failed || gap > f->size - f->at || n > f->size - f->at - gap) {
        f->failed = 1;
        return zeros;
    }
    const uint8_t *field = f->bytes + f->at + gap;
    f->at += gap + n;
    return field;
}

static uint32_t take32(Fields *f) {
    const uint32_t value = cusi_load32(take(f, 4, 4));
    return f->big_endian ? __builtin_bswap32(value) : value;
}

static uint64_t take64(Fields *f) {
    const uint8_t *p = take(f, 8, 8);
    const uint64_t low = cusi_load32(p), value = low | (uint64_t)cusi_load32(p + 4) << 32;
    return f->big_endian ? __builtin_bswap64(value) : value;
}

/* CDR counts the zero at a string's end. */
static RosText takeText(Fields *f) {
    const uint32_t n = take32(f);
    if (f->failed || n > f->size - f->at) {
        f->failed = 1;
        return (RosText){"", 0};
    }
    const char *text = (const char *)f->bytes + f->at;
    f->at += n;
    return (RosText){text, f->is_cdr && n && !text[n - 1] ? n - 1 : n};
}

/* Takes std_msgs/Header, and the sensor's size. */
static void takeHeader(Fields *f, Ros *ros) {
    if (!f->is_cdr)
        take32(f); /* seq */
    take32(f);
    take32(f); /* stamp */
    takeText(f);
    ros->height = take32(f);
    ros->width = take32(f);
}

/* CDR may pad the end of a message. */
static int isWhole(const Fields *f) {
    return !f->failed && f->size - f->at < (f->is_cdr ? 4 : 1);
}

static cusStatus takeArray(PacketReader *p, uint64_t at, Fields *f) {
    const uint32_t count = take32(f);
    const uint64_t bytes = !count ? 0 : f->is_cdr ? 16 * (uint64_t)count - 3 : 13 * (uint64_t)count;
    const uint8_t *events = take(f, (size_t)bytes, 1);
    if (!isWhole(f))
        return eventio_rosDamaged(p, at, "a message of dvs_msgs/EventArray");
    p->message = (Message){
        .layout = f->is_cdr ? LAYOUT_CDR : LAYOUT_ROS, .big_endian = f->big_endian, .bytes = events, .count = count};
    return CUS_OK;
}

/* Counts words of, from the lowest bit, ns since the message's base 32, nothing 16, id 15, rising 1. */
static void countTriggers(cusEventCounts *counts, const uint8_t *bytes, size_t n) {
    for (size_t at = 0; at + 8 <= n; at += 8)
        ++*(bytes[at + 7] & 0x80 ? &counts->triggers_rising : &counts->triggers_falling);
}

cusStatus eventio_rosTakeTriggers(PacketReader *p, size_t n, cusEventTrigger *out, size_t *count) {
    Message *m = &p->message;
    for (*count = 0; *count < n && m->next < m->count; ++m->next) {
        const uint8_t *word = m->bytes + 8 * m->next;
        out[(*count)++] = (cusEventTrigger){.t = (int64_t)((m->base + cusi_load32(word)) / 1000),
                                            .id = (int16_t)(cusi_load16(word + 6) & 0x7fff),
                                            .value = word[7] >> 7};
    }
    return CUS_OK;
}

/* Starts the events of a packet in an encoding of event_camera_codecs. */
static cusStatus startPacket(cusEventReader *reader, PacketReader *p, uint64_t at, RosText encoding, uint64_t base,
                             const uint8_t *bytes, size_t n) {
    const Ros *ros = p->state;
    const int is_evt3 = eventio_rosEquals(encoding, "evt3"), is_mono = eventio_rosEquals(encoding, "mono");
    const int is_trigger = eventio_rosEquals(encoding, "trigger");
    CUSI_REQUIRE(
        is_evt3 || is_mono || is_trigger || eventio_rosEquals(encoding, "libcaer"), CUS_ERROR_UNSUPPORTED,
        "cusEventReaderRead: topic %s has events in the encoding \"%.*s\", expected evt3, mono, libcaer or trigger",
        ros->last->name, (int)(encoding.size < 32 ? encoding.size : 32), encoding.at);
    if (n % (is_evt3 ? 2 : 8))
        return eventio_rosDamaged(p, at, "whole events in a packet");
    if (is_trigger && p->is_for_triggers)
        p->message = (Message){.layout = LAYOUT_TRIGGERS, .bytes = bytes, .count = n / 8, .base = base};
    else if (is_trigger)
        countTriggers(&reader->counts, bytes, n);
    else if (is_evt3)
        p->message = (Message){.layout = LAYOUT_EVT3, .bytes = bytes, .size = n};
    else if (!p->is_for_triggers)
        p->message =
            (Message){.layout = is_mono ? LAYOUT_MONO : LAYOUT_LIBCAER, .bytes = bytes, .count = n / 8, .base = base};
    return CUS_OK;
}

static cusStatus takePacket(cusEventReader *reader, PacketReader *p, const RosTopic *topic, uint64_t at, Fields *f) {
    take64(f); /* seq */
    const uint64_t base = take64(f);
    const RosText encoding = takeText(f);
    const int big_endian = *take(f, 1, 1);
    const uint32_t n = take32(f);
    const uint8_t *events = take(f, n, 1);
    if (!isWhole(f))
        return eventio_rosDamaged(p, at, "a message of event_camera_msgs/EventPacket");
    if (!eventio_isRead(p->state, topic) && !eventio_rosEquals(encoding, "trigger"))
        return CUS_OK;
    CUSI_REQUIRE(!big_endian, CUS_ERROR_UNSUPPORTED,
                 "cusEventReaderRead: topic %s has big-endian packets, expected little-endian", topic->name);
    return startPacket(reader, p, at, encoding, base, events, n);
}

/* Skips the 4 bytes before CDR: 0, 0 or 1 for little-endian, options. */
static cusStatus skipEncapsulation(PacketReader *p, uint64_t at, Fields *f) {
    if (f->size < 4 || f->bytes[0] || f->bytes[1] > 1)
        return eventio_rosDamaged(p, at, "a message in CDR");
    f->big_endian = !f->bytes[1];
    f->bytes += 4; /* alignment counts from here */
    f->size -= 4;
    return CUS_OK;
}

cusStatus eventio_rosMessage(cusEventReader *reader, PacketReader *p, const RosTopic *topic, uint64_t at,
                             const uint8_t *bytes, size_t n) {
    Ros *ros = p->state;
    Fields f = {.bytes = bytes, .size = n, .is_cdr = topic->is_cdr};
    ros->last = topic;
    if (f.is_cdr)
        CUS_TRY(skipEncapsulation(p, at, &f));
    takeHeader(&f, ros);
    if (topic->is_packet)
        return takePacket(reader, p, topic, at, &f);
    return takeArray(p, at, &f);
}
