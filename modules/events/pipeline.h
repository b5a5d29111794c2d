/* What pipeline.c and bytes.c share: a pipeline, its buffers, and how staged events become frames. */
#ifndef CUSI_EVENTS_PIPELINE_H
#define CUSI_EVENTS_PIPELINE_H

#include "events/backend.h"
#include "events/place.h"

enum { EVENTS_SLOTS = 3, EVENTS_ARRAYS = 4 };

/* Events that the arrays of a slot take beyond max_events if they are decoded there: a vector is not divided, and windows by
 * duration end with the event after them. */
enum { EVENTS_ROOM = 64 };

/* The decoder writes in vectors from a multiple of this many events on. */
enum { EVENTS_ALIGN = 16 };

static const int events_array_types[EVENTS_ARRAYS] = {CUS_16UC1, CUS_16UC1, CUS_8UC1, CUS_64FC1 /* as wide as int64 */};

/* Room for events. */
typedef struct Slot {
    cusMat staging[EVENTS_ARRAYS]; /* x, y, p, t: 1 x capacity, host; none if the events are decoded on the device */
    cusMat events[EVENTS_ARRAYS];  /* the same on the device */
    cusStreamEvent uploaded, used;
} Slot;

/* Room for a batch of frames. */
typedef struct Batch {
    cusMat frames[EVENTS_MAX_REPRESENTATIONS], host_frames[EVENTS_MAX_REPRESENTATIONS];
    cusEventWindow *windows; /* indices count from the first event pushed */
    uint64_t first;          /* its first window */
    size_t count;            /* 0: it is free */
    cusStreamEvent computed, downloaded;
} Batch;

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
    int slot_count, current;  /* the slot in use, */
    int batch_count, filling; /* and the batch */
    int device;               /* -1: the host */
    int with_times, stopped;  /* by the sink */
    size_t capacity, batch;
    cusEventWindow *planned;
    cusEventSpan *spans;       /* theirs, if a representation uses them */
    struct EventsBytes *bytes; /* NULL: events are pushed */
    int resident;              /* events are decoded into the slots' device arrays, which are then the staging: */
    int staged;                /* those of this slot, */
    size_t begin;              /* from this event on */

    /* The recording */
    uint64_t pushed;   /* the number of the next event */
    uint64_t next;     /* the next window to make */
    uint64_t gaps_end; /* gaps before this window are errors, 0: all */
    size_t held;       /* events in the current slot's staging: the last ones pushed */
    int64_t origin, newest;
    int64_t advanced; /* by cusEventPipelineAdvance, during it; otherwise INT64_MIN */

    cusEventPipelineCounts counts;
    cusStatus failed;
    char message[256];
};

static inline int eventsByDuration(const cusEventPipeline *s) {
    return s->options.windowing.unit == CUS_WINDOW_DURATION;
}

/* ---- pipeline.c ---------------------------------------------------------------------------------------------------- */

/* Queues the staged windows that are complete, `final`: also the incomplete one that the options may ask for; and drops staged
 * events that no later window needs. */
cusStatus eventsSubmitStaged(cusEventPipeline *s, int final);

/* Resident: where the staged events continue. Moves them to the start of another slot's arrays if earlier ones have been used. */
cusStatus eventsMakeRoom(cusEventPipeline *s);
/* Resident: event number `index` of the staged ones in array k. */
void *eventsStaged(const cusEventPipeline *s, int k, size_t index);

/* A step from s->newest of at most this many microseconds has at most max_gap windows in it. */
uint64_t eventsGapLimit(const cusEventPipeline *s);
/* Checks a step from s->newest to the time t that is longer. */
cusStatus eventsCheckGap(const cusEventPipeline *s, int64_t t);

/* What every push begins with. */
cusStatus eventsStartOfPush(const cusEventPipeline *s, const char *function, int bytes);
/* Keeps the status and its message for later calls, and returns it. */
cusStatus eventsRemember(cusEventPipeline *s, cusStatus status);
/* Adds events in host memory. */
cusStatus eventsPush(cusEventPipeline *s, const char *function, const cusEventArrays *events);

/* ---- bytes.c: a recording that comes as raw bytes ------------------------------------------------------------------ */

cusStatus eventsBytesCreate(cusEventPipeline *s);
void eventsBytesDestroy(cusEventPipeline *s);
/* The end of the recording: whether it ended within a word. */
cusStatus eventsBytesFinish(cusEventPipeline *s);
/* Where the next windows, a batch and one more, begin and end among the staged events, which lie on the device. */
cusStatus eventsBytesBounds(cusEventPipeline *s, const int64_t *t, const cusEventWindow **bounds);

#endif
