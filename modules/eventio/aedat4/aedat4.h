/* AEDAT4, iniVation's format. A file is the line "#!AER-DAT4.0", a header (IOHeader: compression, the table's place,
 * the streams as XML), packets, and a table of the packets. A packet is the number of its stream, its size, and a
 * FlatBuffer with a size prefix, compressed on its own.
 *   open.c       header, choice of the stream, table of packets
 *   packets.c    one packet after the other
 *   streams.c    the streams that the XML lists
 *   flatbuffer.c tables and vectors */
#ifndef CUSI_EVENTIO_AEDAT4_AEDAT4_H
#define CUSI_EVENTIO_AEDAT4_AEDAT4_H

#include "eventio/aedat4/flatbuffer.h"
#include "eventio/packets/packets.h"

enum { AEDAT4_STREAMS = 64 };

typedef struct Aedat4Stream {
    int32_t number;
    char type[5];    /* "EVTS", "TRIG" */
    char source[32]; /* the camera */
    int width, height;
} Aedat4Stream;

typedef struct Aedat4 {
    PacketCodec codec;
    uint64_t end;     /* end of the packets */
    uint64_t table;   /* place of the table of packets; 0: the file was not finished */
    cusStatus damage; /* error in the table, reported after the last event */
    int has_table;
    uint64_t count; /* events, if there is a table */
    Aedat4Stream streams[AEDAT4_STREAMS];
    FlatTable triggers;                /* the message's triggers, for takeTriggers */
    int stream_count, chosen, current; /* chosen -1: any stream of events; current: stream of the last packet */
} Aedat4;

/* Lists the streams of events and triggers. Returns 0 if the XML is not of that kind or has too many streams. */
int eventio_aedat4Streams(const char *xml, size_t size, Aedat4 *file);

/* Decompresses a packet, or the table, and finds its root table. */
cusStatus eventio_aedat4Unpack(cusEventReader *reader, PacketReader *packets, uint64_t offset, uint64_t size,
                               const char *identifier, FlatTable *root);

/* Methods of PacketFormat. */
cusStatus eventio_aedat4Next(cusEventReader *reader, PacketReader *packets, int *found);
cusStatus eventio_aedat4TakeTriggers(PacketReader *packets, size_t n, cusEventTrigger *out, size_t *count);

#endif
