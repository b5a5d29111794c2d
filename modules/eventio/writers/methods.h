/* A recording being written. writer.c has the entry points and checks events; one file a format, below, stores them. A new
 * format is one more EventWriterMethods and its line in writer.c's table.
 *
 *   m3ed.c, metavision.c   HDF5 (hdf5/store/), chunks compressed on all threads
 *   evt2.c, evt3.c         Prophesee RAW: words
 *   aedat4.c               packets, each compressed on its own
 *   dat.c, text.c          records and lines of one size, or nearly
 *   stream.c               the buffer of the formats that are written from front to back, and the time words of RAW */
#ifndef CUSI_EVENTIO_WRITERS_METHODS_H
#define CUSI_EVENTIO_WRITERS_METHODS_H

#include "cusight/eventio.h"
#include "eventio/output.h"
#include "guard.h"

typedef struct EventWriterMethods {
    int max_side;     /* largest width or height of the sensor */
    int64_t max_time; /* 0: 2^40 us */
    int is_hdf5;
    int max_chunk, default_chunk; /* 0: the options chunk and compress do not apply */
    /* Allocates the state and writes a header. `destroy` also frees an incomplete state. */
    cusStatus (*create)(cusEventWriter *w);
    /* Checks for valid events that the format cannot store: VALUE names the first. NULL: it stores all. Writes nothing. */
    cusStatus (*check)(const cusEventWriter *w, const cusEventArrays *events);
    cusStatus (*write)(cusEventWriter *w, const cusEventArrays *events);
    /* Appends a trigger after all earlier events. NULL: the format has none. */
    cusStatus (*trigger)(cusEventWriter *w, const cusEventTrigger *trigger);
    int max_trigger_id;
    /* Completes the file. */
    cusStatus (*finish)(cusEventWriter *w);
    void (*destroy)(cusEventWriter *w);
} EventWriterMethods;

struct cusEventWriter {
    CusiGuard guard;
    cusEventWriterOptions options; /* format and chunk are resolved: neither ANY nor 0 */
    const EventWriterMethods *methods;
    void *state; /* owned by the methods */
    EventOutput output;
    const char *function; /* the entry point, which messages name */
    int threads;
    uint64_t count; /* events written */
    int64_t first_time, last_time;
    cusStatus failure;
    cusEventTrigger *pending; /* triggers from pending_first on, before which events may still come */
    size_t pending_first, pending_count, pending_capacity;
    int64_t last_trigger; /* time of the last trigger given */
};

extern const EventWriterMethods eventio_writeM3ed, eventio_writeMetavision, eventio_writeEvt2, eventio_writeEvt3,
    eventio_writeAedat4, eventio_writeDat, eventio_writeText;

/* VALUE names the first event so late that the index of times would be much larger than the events. */
cusStatus eventio_checkSpan(const cusEventWriter *w, const cusEventArrays *events);
/* Returns the most milliseconds that a row may come after the first, if `rows` precede it. */
static inline int64_t eventio_longestSpan(uint64_t rows) {
    return ((int64_t)1 << 22) + 1000 * (int64_t)rows;
}

/* Bytes of events that are compressed together. They do not depend on the number of threads: the same events give the
 * same file everywhere. */
enum { EVENTIO_WAITING_BYTES = 32 << 20, EVENTIO_MAX_BATCH = 64 };
static inline size_t eventio_batchOf(size_t chunk_bytes) {
    const size_t batch = EVENTIO_WAITING_BYTES / chunk_bytes;
    return batch < 1 ? 1 : batch > EVENTIO_MAX_BATCH ? EVENTIO_MAX_BATCH : batch;
}

/* Returns the filter that the option compress asks for; `own` is the format's. */
unsigned eventio_filterOf(const cusEventWriter *w, unsigned own);

/* ---- stream.c -------------------------------------------------------------------------------------------------------- */

enum { EVENTIO_RUN = 64 };
/* The state of formats that are written from front to back. */
typedef struct EventStream {
    uint8_t *bytes; /* bytes not stored yet */
    size_t filled;
    uint64_t end;            /* end of the stored bytes */
    int64_t time_high, time; /* last time words; -1: none */
    cusStatus status;        /* result of storing during a call */
    /* EVT3: last row and base of vectors, -1: none; the last events of one time, row and polarity, which a vector may still
     * take. */
    int y, vector_x, vector_p;
    int64_t run_time;
    int run_y, run_p, run_count;
    uint16_t run_x[EVENTIO_RUN];
} EventStream;

/* Allocates the state and writes a header. */
cusStatus eventio_streamCreate(cusEventWriter *w, const char *header);
/* Does the same with the header of Prophesee RAW. */
cusStatus eventio_rawCreate(cusEventWriter *w, int version);
cusStatus eventio_streamFinish(cusEventWriter *w);
void eventio_streamDestroy(cusEventWriter *w);

/* Stores the buffer; s->status receives an error. */
void eventio_streamFlush(cusEventWriter *w, EventStream *s);
enum { EVENTIO_STREAM_BYTES = 1 << 20, EVENTIO_STREAM_ROOM = 256 };
/* Returns room for EVENTIO_STREAM_ROOM bytes; the caller adds what it writes to s->filled. */
static inline uint8_t *eventio_streamRoom(cusEventWriter *w, EventStream *s) {
    if (s->filled > EVENTIO_STREAM_BYTES - EVENTIO_STREAM_ROOM)
        eventio_streamFlush(w, s);
    return s->bytes + s->filled;
}

/* Writes the upper part of the time, `high`, in words of `bits` bits with this type. Each wrap from time 0 on writes
 * the largest value, then 0, so that every decoder counts it. */
void eventio_streamTimeHigh(cusEventWriter *w, EventStream *s, int64_t high, int bits, uint32_t type, size_t word_bytes);

#endif
