/* What the reader's entry points and its formats share. */
#ifndef CUSI_EVENTIO_BACKEND_H
#define CUSI_EVENTIO_BACKEND_H

#include "cusight/eventio.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The bytes of a recording: a regular file or memory. */
typedef struct EventSource {
    int fd;                /* -1: memory */
    const uint8_t *memory; /* NULL: file */
    uint64_t size;
} EventSource;

/* Bytes delivered: fewer than n only at the end; -1 when the file cannot be read (errno says why). */
int64_t eventio_readAt(const EventSource *source, uint64_t offset, void *buffer, size_t n);

typedef struct EventArrays {
    uint16_t *x, *y;
    uint8_t *p;
    int64_t *t;
} EventArrays;

static inline EventArrays eventio_from(EventArrays arrays, size_t first) {
    return (EventArrays){arrays.x + first, arrays.y + first, arrays.p + first, arrays.t + first};
}

/* What a format does. Its events are as the file has them: the entry points check place, polarity and order. */
typedef struct EventFormat {
    /* The next events, up to n; fewer only at the end or with an error, which belongs behind them. */
    cusStatus (*read)(cusEventReader *reader, size_t n, EventArrays out, size_t *count);
    cusStatus (*seekIndex)(cusEventReader *reader, uint64_t index);
    cusStatus (*findTime)(cusEventReader *reader, int64_t time, uint64_t *index);
    void (*close)(cusEventReader *reader);
} EventFormat;

enum { EVENTIO_SCRATCH = 65536 }; /* events in the reader's own arrays */

struct cusEventReader {
    EventSource source;
    cusEventReaderOptions options;
    cusEventInfo info;
    cusEventCounts counts;
    const EventFormat *format;
    void *state; /* the format's own */
    EventArrays scratch;
    uint64_t index;    /* of the file's next event */
    int64_t last_time; /* of the last event delivered, -1 after a seek */
    cusStatus broken;  /* the error that reading has run into, and its message */
    char message[512];
};

/* Looks at the first bytes, fills info and format. The status of a file that is of another kind is CUS_OK with
 * reader->format still NULL. */
cusStatus eventio_openHdf5(cusEventReader *reader);
cusStatus eventio_openStream(cusEventReader *reader);
/* The error of a build without HDF5. */
cusStatus eventio_noHdf5(const char *function);

/* ---- Codecs: from and to exactly the given sizes, never past them ---- */

/* Whether `in` decodes to exactly out_size bytes. */
int eventio_lzfDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size);
/* Bytes written, 0 when they would not be fewer than in_size. `out` has room for in_size. */
size_t eventio_lzfEncode(const uint8_t *in, size_t in_size, uint8_t *out);
/* 1 done, 0 not Blosc data of that size, -1 built without libblosc. */
int eventio_bloscDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size);
/* Undoes HDF5's byte shuffle of elements of `element` bytes; a rest that is no whole element is at the end as it was. */
void eventio_unshuffle(const uint8_t *in, size_t size, size_t element, uint8_t *out);

#ifdef __cplusplus
}
#endif

#endif
