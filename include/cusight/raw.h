/* cusight/raw.h: decodes the raw bytes of event cameras into events, in pieces of any size, on the CPU or the GPU.
 *
 * Formats: Prophesee EVT 2.0, EVT 2.1, EVT 3.0, EVT 4.0 (the bytes after the "% " lines of a RAW file, or those that a
 * camera sends) and the records of DAT, as Prophesee documents them; and on the GPU, in frames, chunks of HDF5 as they are
 * compressed in the file: Metavision's (ECF), and columns x, y, p and t (LZF, as in M3ED). cusight/eventio.h reads files
 * with this decoder.
 *
 * A decoder remembers what one piece leaves for the next: time, row, base of vectors, and the bytes of an incomplete word.
 * However a recording is cut, the events, counts and errors are the same, and they are the same on both backends. Time
 * counters are unwrapped.
 *
 * The frames of CUS_EVENTS_METAVISION (little-endian; cusEventReaderReadBytes makes them from a file): the bytes "ECF1",
 * the number of chunks as 32 bits, 1 to 255, and for each chunk 32 bits for its bytes, 12 to 2^20, and 32 bits for how many
 * of its events are taken, 0 to 65535, at most three a byte. Zeros up to a multiple of 256 bytes follow, then the chunks,
 * each with zeros up to a multiple of 256. A chunk is as prophesee-ai/hdf5_ecf defines it. It has at least the events that
 * are taken, with times below 2^62. The sizes of all chunks come first, so that a GPU finds the chunks with few dependent
 * loads.
 *
 * Frames of CUS_EVENTS_HDF5 begin with "LZF1", and up to ten events a byte may be taken. A chunk has 32 bits for its rows,
 * at least the events that are taken and at most 65535; 32 bits of flags (1: t has 32 bits, otherwise 64; 2: t is signed,
 * otherwise below 2^62; 4: p is signed); 64 bits that are added to each t, modulo 2^64; 32 bits each for the bytes of x, y,
 * p and t, plus 2^31 if that column is not compressed; then these bytes, which are LZF as h5py writes it. x and y have 16
 * bits and p has 8 (1 positive, 0 or -1 negative). */
#ifndef CUSIGHT_RAW_H
#define CUSIGHT_RAW_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The formats of recordings; a decoder takes EVT2, EVT21, EVT3, EVT4, DAT, METAVISION and HDF5. The others are those of
 * cusight/eventio.h. */
typedef enum cusEventFormat {
    CUS_EVENTS_ANY = 0, /* detected from the content */
    CUS_EVENTS_M3ED = 1,
    CUS_EVENTS_DSEC = 2,
    CUS_EVENTS_EVT2 = 3,
    CUS_EVENTS_EVT3 = 4,
    CUS_EVENTS_DAT = 5,
    CUS_EVENTS_TEXT = 6,
    CUS_EVENTS_EVT21 = 7,
    CUS_EVENTS_METAVISION = 8,
    CUS_EVENTS_HDF5 = 9,
    CUS_EVENTS_MVSEC = 10,
    CUS_EVENTS_EVT4 = 11,
    CUS_EVENTS_AEDAT4 = 12,
    CUS_EVENTS_BAG = 13,
    CUS_EVENTS_MCAP = 14
} cusEventFormat;

/* "any", "M3ED", "DSEC", "EVT2", "EVT3", "DAT", "text", "EVT2.1", "Metavision", "HDF5", "MVSEC", "EVT4",
 * "AEDAT4", "bag", "MCAP", otherwise "unknown"; never NULL. */
CUS_API const char *cusEventFormatName(cusEventFormat format);

/* What to do with an event that is outside the sensor, has an invalid polarity, or is earlier than the previous one. */
typedef enum cusBadEvents {
    CUS_BAD_EVENTS_STOP = 0, /* CUS_ERROR_FORMAT with the event's index; the events before it are delivered */
    CUS_BAD_EVENTS_SKIP = 1  /* skip and count it (cusEventCounts), also undefined words of EVT2, EVT2.1, EVT3 and EVT4 and
                                malformed lines of text */
} cusBadEvents;

/* What has been decoded since a decoder's start, or since a reader was opened or moved. */
typedef struct cusEventCounts {
    uint64_t events;                                  /* delivered */
    uint64_t triggers_rising, triggers_falling;       /* external triggers: words of EVT2, EVT2.1, EVT3 and EVT4; AEDAT4: of
                                                         the same camera; BAG, MCAP: of the topic's folder */
    uint64_t bad_coordinates, bad_polarity, bad_time; /* events skipped (CUS_BAD_EVENTS_SKIP) */
    uint64_t untimed;   /* EVT2, EVT2.1, EVT3, EVT4: events skipped because no time word preceded them */
    uint64_t bad_words; /* undefined words and malformed lines skipped (CUS_BAD_EVENTS_SKIP) */
} cusEventCounts;

/* How to decode. */
typedef struct cusEventDecoderOptions {
    cusEventFormat format;   /* required: EVT2, EVT21, EVT3, EVT4, DAT; CUS_DEVICE: also METAVISION and HDF5 */
    int legacy;              /* EVT21: the upper half of each word comes first ("endianness=legacy"). Default 0 */
    int width, height;       /* sensor, 1..65536; 0, 0 (default): coordinates are not checked */
    cusBadEvents bad_events; /* default STOP */
    int unchecked;           /* default 0. 1, host only: bad events are delivered like good ones, for callers that check
                                events themselves; bad_events is then only for undefined words */
    cusSpace space;          /* space of the bytes and of the events, default CUS_HOST */
    size_t max_bytes;        /* CUS_DEVICE: the largest piece, up to 2^29; the workspace has 1/64 of it, with METAVISION and
                                HDF5 1/8 and 2 MiB. 0: 2^26, the default */
    uint64_t reserved[8];    /* 0: for later options */
} cusEventDecoderOptions;

/* Returns these defaults; the format is ANY and must be set. */
CUS_API cusEventDecoderOptions cusEventDecoderDefaults(void);

/* An edge on the camera's trigger input. */
typedef struct cusEventTrigger {
    int64_t t;           /* microseconds */
    int16_t id;          /* number of the input */
    uint8_t value;       /* 1 rising, 0 falling */
    uint8_t reserved[5]; /* 0 */
} cusEventTrigger;

/* Where events go: arrays of `capacity` elements each, in the decoder's space, or NULL for an array that is not needed. On
 * the device an array starts at a multiple of its element's size. Elements after those delivered are unspecified. */
typedef struct cusEventBuffers {
    uint16_t *x, *y;           /* column and row */
    uint8_t *p;                /* 0 negative, 1 positive */
    int64_t *t;                /* microseconds */
    size_t capacity;           /* elements of x, y, p and t */
    cusEventTrigger *triggers; /* NULL: triggers are only counted, as are those before the first time word */
    size_t trigger_capacity;   /* elements of triggers */
} cusEventBuffers;

/* What one run did. Plain data of 64-bit fields, so that the device can write it. */
typedef struct cusEventDecoded {
    uint64_t count;                /* events delivered by this run, at the start of the arrays */
    uint64_t triggers;             /* delivered by this run */
    uint64_t used;                 /* bytes of the piece that were consumed: all, unless status is not CUS_OK */
    int64_t status;                /* CUS_OK, CUS_ERROR_CAPACITY or CUS_ERROR_FORMAT */
    int64_t first_time, last_time; /* first and last event delivered; -1: none */
    uint64_t index;        /* number of the next event since the start, counting skipped ones; FORMAT: of the bad one */
    cusEventCounts counts; /* since the start */
    uint64_t detail[6];    /* the library's own: details of an error's message */
} cusEventDecoded;

/* Decodes the bytes of a recording. */
typedef struct cusEventDecoder cusEventDecoder;

/* Creates a decoder at the start of a recording and allocates all its memory. Errors: NULL, VALUE, NO_MEMORY, NO_CUDA;
 * UNSUPPORTED: METAVISION or HDF5 on the host, where cusEventReaderRead decompresses on all cores. */
CUS_API cusStatus cusEventDecoderCreate(cusEventDecoder **decoder, const cusEventDecoderOptions *options);
/* Safe on NULL. Waits for the device. */
CUS_API void cusEventDecoderDestroy(cusEventDecoder *decoder);

/* Decodes the next `size` bytes of the recording, in the decoder's space at any alignment, and writes `decoded` (host: host
 * memory; device: device memory or page-locked host memory; NULL: nothing is written).
 * Host: finished at return, and the status returned is that of `decoded`, with a message. One pass on one thread.
 * Device: queued in `stream`, which the call does not wait for; it can be captured into a graph. CUS_OK means that the run
 * is queued; its own status is in `decoded`, and cusEventDecoderCheck gives it with the message. The bytes are read twice
 * and the events written once. From the first 4 KB with a bad event, an undefined word or more than fits, one block decodes
 * the rest of the piece again, at 30 to 50 million events a second: it stops there, or with CUS_BAD_EVENTS_SKIP goes on.
 *   CAPACITY: the next good event or trigger does not fit. Those that fit are delivered, `used` says from where to go on,
 *   and nothing is lost: pass the rest again. On the host the arrays are full, and a vector may be delivered in parts; on
 *   the device `used` is always at the first word whose events do not all fit. There every further run does nothing and
 *   reports CAPACITY with `used` 0 until cusEventDecoderCheck has been called, so runs that are queued already do no harm.
 *   FORMAT: a bad event or an undefined word (CUS_BAD_EVENTS_STOP), at whose word `used` is (0 if it began in an earlier
 *   piece); METAVISION, HDF5: also a chunk or a header that is malformed, whatever bad_events says. The events and triggers
 *   before it are delivered and counted; every further run reports the same and delivers nothing, until SetState or Finish.
 * METAVISION, HDF5: chunks stand for words, and none for triggers. Arrays are filled by the first events of a chunk that
 * does not fit, and `used` is at the chunk. Each chunk is decoded by one block, HDF5: each of its columns; from the first
 * on that has a bad event or more than fits, by one block one after the other.
 * Errors of the call that change nothing: NULL; VALUE (size above max_bytes; misaligned arrays); SPACE (memory of another
 * kind). */
CUS_API cusStatus cusEventDecoderRun(cusEventDecoder *decoder, const void *bytes, size_t size,
                                     const cusEventBuffers *events, cusEventDecoded *decoded, cusStream stream);

/* Waits for the last run and returns its status, with the message, and in *decoded, which is in host memory or NULL, what
 * it did. After CAPACITY the next run decodes again. Errors: NULL, CUDA, those of Run. */
CUS_API cusStatus cusEventDecoderCheck(cusEventDecoder *decoder, cusEventDecoded *decoded, cusStream stream);

/* Ends the recording; TRUNCATED if the last piece ended within a word or a frame. The decoder is then at the start again,
 * even after a failure. Waits as Check does. */
CUS_API cusStatus cusEventDecoderFinish(cusEventDecoder *decoder, cusStream stream);

/* Everything that a decoder remembers between two pieces: a place in a recording from which any decoder of the format can
 * continue. METAVISION, HDF5: the place is in a frame at `offset`, of which `line` chunks, below 255, and `vector` events
 * of the next chunk are decoded, skipped ones included. `carried` bytes of the frame have been passed already; a decoder
 * that continues from the state expects them again. */
typedef struct cusEventDecoderState {
    uint64_t offset;      /* bytes decoded since the start, whole words */
    uint64_t index;       /* number of the next event, counting skipped ones */
    int64_t time_high;    /* last time word, unwrapped, in its own ticks; -1 before the first */
    int64_t time;         /* microseconds. EVT3: now. EVT2.1, EVT4: of the last vector. Readers: of the last event */
    int64_t last_time;    /* latest event delivered; -1: none */
    uint64_t line;        /* text (cusight/eventio.h): lines passed; METAVISION, HDF5: chunks passed */
    uint32_t time_low;    /* EVT3: lower bits of the time */
    uint32_t y;           /* EVT3: row */
    uint32_t vector_x;    /* EVT3: column after the last vector. EVT2.1, EVT4: column of the last vector */
    uint32_t vector_p;    /* polarity of vectors */
    uint32_t vector;      /* events of the last vector that did not fit: one bit each. On the device always 0 */
    uint32_t vector_size; /* EVT3: columns of the last vector */
    uint32_t carried;     /* bytes of an incomplete word, below 8 */
    uint8_t carry[8];     /* those bytes */
    uint32_t reserved;    /* 0 */
} cusEventDecoderState;

/* Copies the state. Waits for the device. Errors: NULL, CUDA; FORMAT: after a failure there is no place to continue
 * from. */
CUS_API cusStatus cusEventDecoderGetState(cusEventDecoder *decoder, cusEventDecoderState *state);
/* Continues from a state. Counts start at 0 again, and a failure is forgotten. Waits for the device. Errors: NULL, CUDA;
 * VALUE: not a state of this format. */
CUS_API cusStatus cusEventDecoderSetState(cusEventDecoder *decoder, const cusEventDecoderState *state);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_RAW_H */
