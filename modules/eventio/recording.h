/* An open recording, as all parts of the reader see it. Nothing below includes what stands above it:
 *
 *   reader.c, evt/parts.c   entry points: open, read and seek; parts of a recording that are read independently
 *   hdf5/                   M3ED and DSEC
 *   aedat4/, ros/           formats made of packets: the messages in their files
 *   packets/                what those have in common: checkpoints, decompression, events of a message
 *   evt/bytes.c             the bytes, for a decoder of the caller's
 *   evt/words.c             formats without an index: buffer, checkpoints, seeking. cusEventDecoder decodes all but text
 *   evt/header.c            "% " headers; chooses the decoder
 *   text.c                  the decoder of text
 *   forward.c               reading on to an event or a time
 *   validate.c              checks of options, formats and events
 *   source.c                the bytes: a regular file or memory
 *
 * The other objects of eventio.h are in writer.c, writers/ and frames/, which write through output.c. */
#ifndef CUSI_EVENTIO_RECORDING_H
#define CUSI_EVENTIO_RECORDING_H

#include "cusight/eventio.h"
#include "event_checks.h"
#include "eventio/source.h"
#include "guard.h"
#include "progress.h"

/* Each family of formats implements these. They pass on events as stored, and reader.c validates them. Events are the
 * steps of cusi_progress(). After a cancel, seekIndex, findTime and countEvents return to the reader's place; `read`
 * gives the events that it has read. */
typedef struct EventReaderMethods {
    /* Reads up to n events; fewer only at the end or before an error, which is returned with them. */
    cusStatus (*read)(cusEventReader *reader, size_t n, CusiEvents out, size_t *count);
    cusStatus (*seekIndex)(cusEventReader *reader, uint64_t index);
    cusStatus (*findTime)(cusEventReader *reader, int64_t time, uint64_t *index);
    void (*close)(cusEventReader *reader);
    /* Reads triggers, as `read` does events. */
    cusStatus (*readTriggers)(cusEventReader *reader, size_t n, cusEventTrigger *out, size_t *count);
    void (*rewindTriggers)(cusEventReader *reader);
    /* Counts events up to the end or the damage. NULL: the format's parts are scanned instead. */
    cusStatus (*countEvents)(cusEventReader *reader, uint64_t *count);
} EventReaderMethods;

/* An error that later calls repeat. */
typedef struct EventFailure {
    cusStatus status;
    char message[512];
} EventFailure;

enum { EVENTIO_SCRATCH = 65536 }; /* events in the reader's scratch arrays */

/* Text: the order of the columns, and the unit of time. */
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
    CusiEvents scratch;   /* replaces arrays that the caller passed as NULL */
    uint64_t index;       /* next event in the file */
    uint64_t next_byte;   /* words: next byte for cusEventReaderReadBytes; 0 before cusEventReaderDecoder */
    uint64_t mark;        /* HDF5: event of the mark, if the last seek was to one; otherwise 0 */
    int64_t last_time;    /* last event delivered; -1 after a seek */
    EventFailure failure; /* kept until the next seek */
    EventFailure trigger_failure;
};

/* Estimates how many events are left to read, for progress. */
int64_t eventio_likelyLeft(const cusEventReader *reader, uint64_t next);

/* Reads on to event `index`, or to the end if that comes first, and sets reader->index. *next: number of the event that
 * `read` gives next. */
cusStatus eventio_readOn(cusEventReader *reader, const uint64_t *next, uint64_t index);
/* Reads on to the first event at or after `time`. *index: its number, or that of the end. */
cusStatus eventio_readToTime(cusEventReader *reader, const uint64_t *next, int64_t time, uint64_t *index);

#endif
