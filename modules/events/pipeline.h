/* Declarations that pipeline.c, staging.c, bytes.c and packets.c share: a pipeline, its buffers, and how staged events
 * become frames. */
#ifndef CUSI_EVENTS_PIPELINE_H
#define CUSI_EVENTS_PIPELINE_H

#include "events/backend.h"
#include "events/place.h"

enum { EVENTS_SLOTS = 3, EVENTS_ARRAYS = 4 };

/* Events beyond max_events for which a slot's arrays have room if events are decoded there: a vector is not divided, and a
 * window by duration ends with the event after it. */
enum { EVENTS_ROOM = 64 };

/* The decoder writes vectors if its arrays start at a multiple of this many events. */
enum { EVENTS_ALIGN = 16 };

static const int events_array_types[EVENTS_ARRAYS] = {CUS_16UC1, CUS_16UC1, CUS_8UC1, CUS_64FC1 /* as wide as int64 */};

typedef struct Slot {
    cusMat staging[EVENTS_ARRAYS]; /* x, y, p, t on the host, 1 x capacity; empty if events are decoded on the device */
    cusMat events[EVENTS_ARRAYS];  /* the same on the device */
    cusStreamEvent uploaded, used;
} Slot;

typedef struct Batch {
    cusMat frames[EVENTS_MAX_REPRESENTATIONS], host_frames[EVENTS_MAX_REPRESENTATIONS];
    cusEventWindow *windows; /* indices count from the first event pushed */
    uint64_t first;          /* number of its first window */
    size_t count;            /* 0: the batch is free */
    cusStreamEvent computed, downloaded;
} Batch;

/* low_latency: the sums of windows `next` and `next + 1`, and what the last packet did. */
typedef struct EventsPackets {
    int on;                         /* pieces of up to CUSI_PACKET_BYTES are packets */
    CusiPacketSums sums;            /* kind NONE: all frames are made from events */
    void *memory;                   /* two CusiPacketDone, then the sums of even and of odd windows */
    cusMat report;                  /* page-locked CusiPacketDone of the last packet */
    uint64_t newest[2], outside[2]; /* of even and odd windows: as in CusiPacketDone, of all packets */
    uint64_t sound;                 /* windows from this one on have all their events so far in their sums */
    uint64_t room;                  /* events until window `next` is full, or UINT64_MAX */
    int turn, in_use;               /* the CusiPacketDone of the next packet; the sums may not be 0 */
    int adds;                       /* the packet's events have been added to sums */
    int is_made;                    /* the frame of window `next` is in its batch already */
    int knows_end;                  /* by duration: staged events before `end` belong to window `next`, the others to */
    size_t end;                     /* the one after it */
} EventsPackets;

struct cusEventPipeline {
    CusiGuard guard;
    int rows, cols, representations;
    cusEventPipelineOptions options;
    cusEventStacker *stacker;
    cusFrameSink sink;
    void *user;
    cusStream up, compute, down;
    Slot slots[EVENTS_SLOTS];
    Batch *batches;
    int slot_count, current;  /* number of slots; slot in use */
    int batch_count, filling; /* number of batches; batch in use */
    int device;               /* -1: the host */
    int with_times, stopped;  /* stopped: by the sink */
    size_t capacity, batch;
    cusEventWindow *planned;
    cusEventSpan *spans;       /* bounds of planned windows, if a representation uses them */
    struct EventsBytes *bytes; /* NULL: the caller pushes events */
    int resident;              /* events are decoded into the slots' device arrays, which serve as staging */
    int staged;                /* slot that holds the staged events */
    size_t begin;              /* index of the first staged event there */
    EventsPackets packets;
    cusMat bounds; /* page-locked windows, one more than a batch has: of staged events, by duration */

    /* The recording */
    uint64_t pushed;   /* number of the next event */
    uint64_t next;     /* the next window to make */
    uint64_t gaps_end; /* gaps before this window are errors; 0: all */
    size_t held;       /* events in the current slot's staging: the last ones pushed */
    int64_t origin, newest;
    int64_t advanced; /* time during cusEventPipelineAdvance; otherwise INT64_MIN */

    cusEventPipelineCounts counts;
    cusStatus failed;
    char message[256];
};

static inline int eventsByDuration(const cusEventPipeline *s) {
    return s->options.windowing.unit == CUS_WINDOW_DURATION;
}

/* ---- staging.c ----------------------------------------------------------------------------------------------------- */

/* Queues the complete staged windows, with `final` also the incomplete one if the options ask for it, and drops staged
 * events that no later window needs. */
cusStatus eventsSubmitStaged(cusEventPipeline *s, int final);

/* Delivers all finished frames. */
cusStatus eventsDrain(cusEventPipeline *s);

/* Resident: makes room behind the staged events. Moves them to the start of another slot's arrays if events before them
 * have been used, unless `most` events fit anyway. */
cusStatus eventsMakeRoom(cusEventPipeline *s, size_t most);
/* Resident: returns how many events may be staged behind them. */
size_t eventsRoom(const cusEventPipeline *s);
/* Resident: returns the address of staged event `index` in array k. */
void *eventsStaged(const cusEventPipeline *s, int k, size_t index);

/* Returns the most microseconds by which a time may follow s->newest without a check by eventsCheckGap(). */
uint64_t eventsGapLimit(const cusEventPipeline *s);
/* Checks that a longer step, from s->newest to t, contains at most max_gap windows. */
cusStatus eventsCheckGap(const cusEventPipeline *s, int64_t t);

/* Makes the checks that every push begins with. */
cusStatus eventsStartOfPush(const cusEventPipeline *s, const char *function, int bytes);
/* Keeps the status and its message for later calls, and returns it. */
cusStatus eventsRemember(cusEventPipeline *s, cusStatus status);
/* Pushes events in host memory. */
cusStatus eventsPush(cusEventPipeline *s, const char *function, const cusEventArrays *events);

/* ---- bytes.c: recordings that arrive as raw bytes ------------------------------------------------------------------ */

cusStatus eventsBytesCreate(cusEventPipeline *s);
void eventsBytesDestroy(cusEventPipeline *s);
/* Forgets what has been uploaded ahead. */
void eventsBytesForget(cusEventPipeline *s);
/* Ends the recording; fails if it ended within a word. */
cusStatus eventsBytesFinish(cusEventPipeline *s);

/* ---- packets.c: pieces of bytes with low_latency --------------------------------------------------------------------- */

cusStatus eventsPacketsCreate(cusEventPipeline *s, const cusEventDecoderOptions *decoder);
void eventsPacketsDestroy(cusEventPipeline *s);
/* Returns the most events that a packet can have: twelve in two bytes. */
static inline size_t eventsPacketMost(size_t size) {
    return 6 * size + 12;
}
/* Queues what cusEventDecoderRun would, and the frame of window `next` if it ends in the packet. */
cusStatus eventsPacketRun(cusEventPipeline *s, const void *bytes, size_t size, const cusEventBuffers *to,
                          cusEventDecoded *done);
/* Follow every run of the decoder: Read the wait for it, Settle the frames of its events. */
void eventsPacketRead(cusEventPipeline *s, const cusEventDecoded *done);
cusStatus eventsPacketSettle(cusEventPipeline *s);
/* Returns in *is_made whether the frame of the next `count` windows is made. If not, clears their sums. */
cusStatus eventsPacketsTake(cusEventPipeline *s, size_t count, int *is_made);
/* Clears all sums: the next windows that have no events yet may use them again. */
cusStatus eventsPacketsForget(cusEventPipeline *s);

#endif
