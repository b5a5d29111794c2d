/* Shared by the event readers: where the bytes come from, what a format implements, and how bad input is handled.
 *
 *   eventio.c                 entry points: open, read, seek
 *   eventio_options.c         defaults, format names, validation of the options
 *   eventio_source.c          the bytes: a regular file or memory
 *   eventio_check.c           validation of decoded events; what bad input does
 *   eventio_words.c           formats without an index: buffering, checkpoints, seeking (eventio_words.h)
 *   eventio_parts.c           parts of a recording that are read independently
 *     eventio_header.c        "% " headers and format detection
 *     eventio_evt2.c, eventio_evt21.c, eventio_evt3.c, eventio_dat.c, eventio_text.c    one decoder each
 *   eventio_hdf5.c            M3ED and DSEC (eventio_hdf5_reader.h, eventio_hdf5.h, eventio_codec.h)
 *   eventio_writer.c, eventio_frame_writer.c, eventio_frame_layout.c, eventio_frame_reader.c,
 *   eventio_generator.c       the other objects of eventio.h
 */
#ifndef CUSI_EVENTIO_INTERNAL_H
#define CUSI_EVENTIO_INTERNAL_H

#include "cusight/eventio.h"
#include "guard.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The bytes of a recording -------------------------------------------------------------------------------------- */

typedef struct EventSource {
    int fd;                /* -1: memory */
    const uint8_t *memory; /* NULL: file */
    uint64_t size;
} EventSource;

/* Opens a regular file. The caller closes source->fd, also after an error, unless it is -1. */
cusStatus eventio_openSource(EventSource *source, const char *path);

/* Returns the number of bytes read: fewer than n only at the end; -1 if the file cannot be read (see errno). */
int64_t eventio_readAt(const EventSource *source, uint64_t offset, void *buffer, size_t n);

/* ---- Events -------------------------------------------------------------------------------------------------------- */

typedef struct EventArrays {
    uint16_t *x, *y;
    uint8_t *p;
    int64_t *t;
} EventArrays;

static inline EventArrays eventio_from(EventArrays arrays, size_t first) {
    return (EventArrays){arrays.x + first, arrays.y + first, arrays.p + first, arrays.t + first};
}

/* ---- The reader ---------------------------------------------------------------------------------------------------- */

/* Implemented by each family of formats. Events are passed on as stored; eventio.c validates them. */
typedef struct EventReaderMethods {
    /* The next events, up to n. Fewer only at the end or with an error, which then follows them. */
    cusStatus (*read)(cusEventReader *reader, size_t n, EventArrays out, size_t *count);
    cusStatus (*seekIndex)(cusEventReader *reader, uint64_t index);
    cusStatus (*findTime)(cusEventReader *reader, int64_t time, uint64_t *index);
    void (*close)(cusEventReader *reader);
} EventReaderMethods;

enum {
    EVENTIO_MAX_MEMORY = 1 << 30, /* defaults of the options */
    EVENTIO_MAX_CHUNK = 64 << 20,
    EVENTIO_LEAST_MEMORY = 64 << 20
};

/* The x that EVT3's decoder gives an event past it. Addresses have 11 bits, so it is outside every sensor of that format. */
enum { EVENTIO_EVT3_BEYOND = 65535 };

enum { EVENTIO_SCRATCH = 65536 }; /* events in the reader's scratch arrays */

/* Text: the columns of a line, and the unit of time. */
typedef struct TextColumns {
    unsigned char t, x, y, p; /* 0..3 */
    unsigned char in_seconds;
} TextColumns;

struct cusEventReader {
    CusiGuard guard;
    EventSource source;
    cusEventReaderOptions options;
    cusEventInfo info;
    cusEventCounts counts;
    const EventReaderMethods *methods;
    void *state; /* owned by the methods */
    TextColumns text;
    EventArrays scratch; /* replaces arrays that the caller passed as NULL */
    uint64_t index;      /* of the next event in the file */
    int64_t last_time;   /* of the last event delivered, -1 after a seek */
    cusStatus failure;   /* sticky until the next seek */
    char message[512];
};

/* Inspect the content and set info, methods and state. A file of another kind is CUS_OK with reader->methods still NULL. */
cusStatus eventio_openHdf5(cusEventReader *reader);
cusStatus eventio_openWords(cusEventReader *reader);

/* CUS_ERROR_UNSUPPORTED, for a build without HDF5. */
cusStatus eventio_noHdf5(const char *function);

/* Frames that a file can have. */
cusStatus eventio_checkFrames(const char *function, int rows, int cols, int type);

cusStatus eventio_checkOptions(const cusEventReaderOptions *options);
/* The format found is the one that the options ask for. */
cusStatus eventio_checkFormat(const cusEventReader *reader);

/* ---- Bad input ----------------------------------------------------------------------------------------------------- */

/* Validates events 0 .. count-1, which follow an event at reader->last_time and whose first has number reader->index. Sets
 * *kept: STOP: the events before the first bad one, which the error names. SKIP: all good ones, moved together; the others are
 * counted. */
cusStatus eventio_checkEvents(cusEventReader *reader, EventArrays events, size_t count, size_t *kept);

/* A word of a type that the format does not define: counted, or an error, as the options say. */
cusStatus eventio_undefinedWord(cusEventReader *reader, const char *format, uint32_t type, uint64_t offset);

#ifdef __cplusplus
}
#endif

#endif
