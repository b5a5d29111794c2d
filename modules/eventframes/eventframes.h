/* Frames of a recording, or of a shard of it (shard.c). A lane is a device with two threads: one reads ahead (ahead.c),
 * the other makes frames of what the first has read (lane.c). A single lane makes all windows. Several lanes get jobs,
 * each of some windows, from a thread that scans the recording for the places where they begin (jobs.c). The caller
 * receives all batches in the order of their windows (eventframes.c). */
#ifndef CUSI_EVENTFRAMES_H
#define CUSI_EVENTFRAMES_H

#include "cusight/eventframes.h"
#include "eventio/source.h"
#include "events/place.h"
#include "guard.h"

#include <pthread.h>
#include <sys/types.h>

enum {
    EVENTFRAMES_PIECES = 3, /* pieces in a lane */
    EVENTFRAMES_LANES = 64
};

/* Sizes in bytes; tests make them smaller. piece: what is read at once; part: what is scanned at once; job: the least
 * for a job of a long recording, unless batches have no room for its windows; more: what is read at once beyond a job. */
typedef struct EventFramesSizes {
    size_t piece, part, job, more;
} EventFramesSizes;
extern EventFramesSizes eventframes_sizes;

/* The result of a job. */
typedef struct Outcome {
    cusStatus status;
    char message[512];
    uint64_t events, skipped;
    int64_t last_time;
    cusEventCounts read; /* without the bytes that a later job counts */
} Outcome;

/* Some windows, and where their events are. */
typedef struct Job {
    uint64_t first_window, end_window; /* end_window 0: to the end */
    uint64_t first_event;              /* number of the first event that is read */
    int64_t origin;                    /* windows count from this time, unless first_event is 0 */
    /* For one of several jobs: reading starts at `mark` and goes at least to the first event after number `until`. */
    int has_mark;
    cusEventMark mark;
    uint64_t until;
    cusEventDecoderState state; /* the decoder's, if bytes are decoded */
    /* With several lanes: offsets in the file where the next job begins, and of the end of what the windows are likely
     * to need. */
    uint64_t border, enough;
    int lane, is_done;
    Outcome outcome;
} Job;

typedef struct Piece {
    uint64_t job; /* number of the job */
    cusMat bytes;
    const void *from; /* the bytes: in `bytes` or in pinned memory */
    cusMat column[4]; /* x, y, p, t, unless bytes are decoded */
    size_t count;     /* number of bytes or events */
    int last;         /* the recording ends here */
    int at_border;    /* the piece ends at the job's border */
    int is_end;       /* no more is read ahead for the job */
    uint64_t after;   /* with several lanes: offset in the file behind the piece */
    cusStatus damage; /* error that follows the piece */
    char message[512];
} Piece;

typedef struct Offer {
    uint64_t job;
    cusFrameBatch batch;
    cusMat frames[8];
} Offer;

typedef struct Lane {
    cusEventFrames *frames;
    int device; /* -1: the host */
    cusEventPipeline *pipeline;
    pthread_t ahead, maker;
    int threads;     /* number of threads started */
    uint64_t number; /* number of the current job */
    const Job *job;  /* the current job */
    uint64_t end;    /* end of its windows that have been made */
    uint64_t spare;  /* batches that may be in use while another is made */

    /* The lock of `frames` guards these: */
    pthread_cond_t changed; /* wakes the lane's threads */
    Piece pieces[EVENTFRAMES_PIECES];
    uint64_t filled, taken; /* number of pieces so far; piece n is pieces[n % EVENTFRAMES_PIECES] */
    int has_all;            /* no more pieces will follow */
    Offer offers[EVENTS_MAX_BATCHES];
    uint64_t offered, given, released; /* number of batches so far */
} Lane;

struct cusEventFrames {
    CusiGuard guard;
    pid_t process;
    cusEventFramesOptions options;
    cusEventReader *reader, *owned; /* owned: NULL if the reader is the caller's */
    EventSource source;             /* the reader's source, which lanes share */
    uint64_t place;                 /* index of the event from which the reader starts */
    cusEventInfo info;
    cusEventFilter *filter; /* NULL, or a filter with filter_options */
    cusEventFilterOptions filter_options;
    int decodes;           /* whether pieces are bytes, which the pipeline decodes */
    const uint8_t *pinned; /* the recording in pinned memory, or NULL */
    Job whole;             /* all windows */
    Lane *lanes;
    int lane_count;
    int lane_threads;
    uint64_t job_windows, whole_windows; /* most windows in a job; windows that must not be divided */
    pthread_t dealer;
    int deals; /* whether the dealer has been started */

    /* All jobs of a pass that reached its end. The dealer uses them, and cusEventFramesRestart while there is no
     * dealer. */
    Job *known;
    uint64_t known_count, known_room;
    int knows_all;

    pthread_mutex_t lock;            /* guards all below */
    pthread_cond_t changed, dealing; /* changed wakes the caller; dealing wakes the dealer, and lanes without a job */
    Job *jobs;                       /* job n is jobs[n % job_room] */
    uint64_t job_room;
    uint64_t dealt, claimed, turn; /* number of jobs so far; turn: the job whose batches are next */
    int has_dealt;                 /* no more jobs will follow */
    Lane *in_use;                  /* the lane whose batch the caller has, or NULL */
    int cancelled, stopping, ended;
    cusStatus status; /* the result, once `ended` */
    char message[512];
    cusEventFramesCounts counts;
};

/* A place between two shards or jobs. */
typedef struct Border {
    uint64_t index; /* index of the next event */
    uint64_t since; /* its time in microseconds after the first event; EVENTFRAMES_NO_EVENT if it cannot be read */
} Border;

#define EVENTFRAMES_NO_EVENT UINT64_MAX

/* ---- ahead.c -------------------------------------------------------------------------------------------------------- */

/* Runs a lane's thread that reads the pieces of its jobs. */
void *eventframes_readAhead(void *lane);
/* Replaces the piece's bytes by the next ones. */
void eventframes_readMore(const cusEventFrames *f, Piece *piece);

/* Reads and filters the next events. Fills *piece even if damage follows them. */
cusStatus eventframes_readEvents(cusEventFrames *f, Piece *piece);

/* Seeks the first event to be read. */
cusStatus eventframes_seek(cusEventFrames *f);

/* Creates the filter, if any, anew. */
cusStatus eventframes_createFilter(cusEventFrames *f);

/* Allocates a piece, in page-locked memory if `pinned`. */
cusStatus eventframes_createPiece(const cusEventFrames *f, Piece *piece, int pinned);
void eventframes_releasePiece(Piece *piece);

/* ---- lane.c --------------------------------------------------------------------------------------------------------- */

/* Runs a lane's thread that makes the frames of its jobs. */
void *eventframes_make(void *lane);
/* Serves as the pipeline's sink: offers the batch and waits until there is room for another. */
cusStatus eventframes_offer(void *lane, const cusFrameBatch *batch);

/* ---- jobs.c --------------------------------------------------------------------------------------------------------- */

/* Runs the dealer's thread. */
void *eventframes_deal(void *frames);

/* ---- shard.c -------------------------------------------------------------------------------------------------------- */

/* Sets f->whole to this shard. Moves the reader. */
cusStatus eventframes_takeShard(cusEventFrames *f);

/* Returns the first window that begins after all events before the border. */
uint64_t eventframes_windowAt(const cusWindowing *w, const Border *at);

/* Finds the border at a mark. Moves the reader. */
cusStatus eventframes_borderAt(const cusEventFrames *f, const cusEventMark *mark, Border *border);

/* Finds the time of the first event at or after the mark. Moves the reader. */
cusStatus eventframes_timeAt(const cusEventFrames *f, const cusEventMark *mark, int64_t *time, int *is_there);

/* ---- In several files ----------------------------------------------------------------------------------------------- */

/* Returns 0 only if the length is 0. */
static inline uint64_t eventframes_stride(const cusWindowing *w) {
    return w->stride ? w->stride : w->length;
}

/* Returns whether frames are still wanted; the lock is held. */
static inline int eventframes_isWanted(const cusEventFrames *f) {
    return !f->cancelled && !f->stopping && !f->ended;
}

#endif
