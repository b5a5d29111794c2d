/* Recordings made of packets: AEDAT4, and the messages of ROS bags and MCAP. The stages:
 *   reader.c    the methods of the formats: read, seek, find a time, list triggers; checkpoints
 *   layouts.c   the events of one message, by their layout in memory
 *   window.c    bytes of the file, and decompressed blocks, within the reader's memory
 *   codec.c     LZ4, zstd, bzip2
 * aedat4/ and ros/ find the messages in their files (PacketFormat). */
#ifndef CUSI_EVENTIO_PACKETS_PACKETS_H
#define CUSI_EVENTIO_PACKETS_PACKETS_H

#include "event_words.h"
#include "eventio/packets/codec.h"
#include "eventio/recording.h"

/* How the events of a message are stored. */
typedef enum EventLayout {
    LAYOUT_AEDAT4,  /* t int64 us, x, y int16, p, 3 bytes of padding */
    LAYOUT_ROS,     /* x, y uint16, t as seconds and nanoseconds, p; 13 bytes */
    LAYOUT_CDR,     /* like ROS, every field aligned to its size */
    LAYOUT_MONO,    /* from the lowest bit: ns since the message's base 32, x 16, y 15, p 1 */
    LAYOUT_LIBCAER, /* valid 1, p 1, y 15, x 15, us since the message's base 32 */
    LAYOUT_EVT3,    /* words of EVT 3.0, which continue in the next message */
    LAYOUT_TRIGGERS /* triggers that the format's takeTriggers reads */
} EventLayout;

/* The events of a message that have not been delivered. */
typedef struct Message {
    EventLayout layout;
    int big_endian;       /* CDR */
    const uint8_t *bytes; /* valid until the next message is asked for */
    size_t size;          /* EVT3: bytes; 0 at the end */
    size_t count, next;   /* other layouts: events, and number of the next one */
    uint64_t base;        /* MONO, LIBCAER: nanoseconds; LIBCAER: a wrap of the counter adds to it */
    uint32_t last_low;    /* LIBCAER: counter of the last event */
} Message;

/* A place before a block, the unit of the file that is decompressed as a whole, from which reading can start. */
typedef struct PacketPlace {
    uint64_t offset;   /* offset of the block in the file */
    uint64_t index;    /* next event */
    uint64_t unpacked; /* bytes that blocks before it were decompressed to */
    int64_t time;      /* latest event before it; -1: none */
    cusEventDecoderState evt3;
} PacketPlace;

typedef struct PacketReader PacketReader;

typedef struct PacketFormat {
    /* Sets reader->info and packets->state, and moves to the first block. */
    cusStatus (*open)(cusEventReader *reader, PacketReader *packets);
    /* Fills packets->message. *found 0: the recording ends. Calls eventio_passBlock before each block. */
    cusStatus (*next)(cusEventReader *reader, PacketReader *packets, int *found);
    void (*close)(PacketReader *packets);
    /* Sets the state of another reader of the same file, stream and topic. */
    cusStatus (*copy)(const PacketReader *from, PacketReader *to);
    /* Takes the next triggers of a message of LAYOUT_TRIGGERS, up to n. */
    cusStatus (*takeTriggers)(PacketReader *packets, size_t n, cusEventTrigger *out, size_t *count);
} PacketFormat;

struct PacketReader {
    const PacketFormat *format;
    void *state;            /* owned by the format */
    PacketReader *triggers; /* the second reader; NULL: not started */
    int is_for_triggers;    /* this is the second reader, which skips messages without triggers */
    PacketPlace place;
    Message message;
    cusEventDecoder *decoder; /* for EVT3; NULL: the format has none */
    cusEventCounts counted;   /* the decoder's counts that reader->counts includes */
    int lost;                 /* damage was met: seeking starts from a checkpoint */
    PacketPlace *checkpoints; /* the first is the start of the recording */
    size_t checkpoint_count, stride, skipped;
    int complete;   /* every checkpoint is known, from the table or since the whole recording has been read */
    uint64_t total; /* events, if complete */

    const uint8_t *chunk; /* ros/: the current chunk, and its next record; chunk_size 0: outside chunks */
    size_t chunk_size, chunk_at;

    uint8_t *window, *block;             /* bytes of the file from `window_start` on; the last decompressed block */
    uint64_t window_start, block_offset; /* block_offset: in the file; UINT64_MAX: none */
    size_t window_size, window_capacity, block_size, block_capacity;
    size_t max_memory, max_chunk;
};

/* Sets reader->info, methods and state if the file has such a format; otherwise reader->methods stays NULL. */
cusStatus eventio_openPackets(cusEventReader *reader);

extern const PacketFormat eventio_aedat4, eventio_bag, eventio_mcap;

/* ---- reader.c, for the formats ----------------------------------------------------------------------------------- */

/* Is called before the block at `offset`. Adds a checkpoint now and then, or compares with those of the file's table. */
cusStatus eventio_passBlock(PacketReader *packets, uint64_t offset);

/* Adds a checkpoint; if there are very many, only every second, fourth, ... is kept. */
cusStatus eventio_addPlace(PacketReader *packets, const PacketPlace *place);

cusStatus eventio_restorePlace(PacketReader *packets, const PacketPlace *place);

/* ---- layouts.c --------------------------------------------------------------------------------------------------- */

cusStatus eventio_createEvt3(const cusEventReader *reader, PacketReader *packets);
/* Returns the decoder's error, with the place in the file. */
cusStatus eventio_describeEvt3(const PacketReader *packets, cusStatus status);

/* Returns whether nothing is left of the message. */
int eventio_isMessageDone(const PacketReader *packets);
/* Delivers the next events of the message, up to n. */
cusStatus eventio_deliverMessage(cusEventReader *reader, PacketReader *packets, size_t n, CusiEvents out, size_t *count);

/* ---- window.c ---------------------------------------------------------------------------------------------------- */

/* Sets *bytes to n bytes of the file at `offset`, valid until the next call. TRUNCATED: the file ends before. */
cusStatus eventio_view(cusEventReader *reader, PacketReader *packets, uint64_t offset, uint64_t n, const uint8_t **bytes);

/* Decompresses n bytes of the file at `offset` to packets->block, of block_size bytes, unless that has been done last.
 * size: what they must give; 0: unknown. */
cusStatus eventio_unpackBlock(cusEventReader *reader, PacketReader *packets, uint64_t offset, uint64_t n, PacketCodec codec,
                              uint64_t size);

void eventio_freeBuffers(PacketReader *packets);

#endif
