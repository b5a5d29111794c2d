/* Frames of a recording, or of a shard of it (shard.c). A lane is a device with two threads: one reads ahead (ahead.c), the other makes
 * frames of what that has read (lane.c). One lane makes all windows. Several get jobs, each of some windows, from a thread that scans
 * the recording for the places where they begin (jobs.c). The caller takes all batches in the order of their windows (eventframes.c). */
#ifndef CUSI_EVENTFRAMES_H
#define CUSI_EVENTFRAMES_H

#include "cusight/eventframes.h"
#include "eventio/source.h"
#include "events/place.h"
#include "guard.h"

#include <pthread.h>
#include <sys/types.h>

enum {
    EVENTFRAMES_PIECES = 3, /* of a lane */
    EVENTFRAMES_LANES = 64
};

/* Bytes: of a piece of the recording; of a part that is scanned; that a job of a long recording has at least, unless there is no room for so many windows; and that are read at once beyond a job. Tests make them smaller. */
typedef struct EventFramesSizes {
    size_t piece, part, job, more;
} EventFramesSizes;
extern EventFramesSizes eventframes_sizes;

/* How a job has ended. */
typedef struct Outcome {
    cusStatus status;
    char message[512];
    uint64_t events, skipped;
    int64_t last_time;
    cusEventCounts read; /* bytes: of those that no later job counts */
} Outcome;

/* Some windows, and where their events are. */
typedef struct Job {
    uint64_t first_window, end_window; /* end_window 0: to the end */
    uint64_t first_event;              /* the number of the first that is read */
    int64_t origin;                    /* the time from which windows count, unless first_event is 0 */
    /* It is one of several: reading starts at `mark`, and goes at least to the first event after number `until`. */
    int has_mark;
    cusEventMark mark;
    uint64_t until;
    cusEventDecoderState state; /* bytes: of the decoder */
    /* Several lanes: the bytes of the file at which the next job begins, and behind what the windows are likely to need. */
    uint64_t border, enough;
    int lane, is_done;
    Outcome outcome;
} Job;

/* A piece of the recording. */
typedef struct Piece {
    uint64_t job; /* its number */
    cusMat bytes;
    const void *from; /* what of the recording it has: in `bytes`, or pinned */
    cusMat column[4]; /* x, y, p, t instead */
    size_t count;     /* bytes, or events */
    int last;         /* in the recording */
    int at_border;    /* It ends at the job's border, */
    int is_end;       /* and no more is read ahead for the job. */
    uint64_t after;   /* Several lanes: the byte of the file after it. */
    cusStatus damage; /* which comes after the piece */
    char message[512];
} Piece;

/* A batch of frames. */
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
    int threads;     /* that have been started */
    uint64_t number; /* of the job in work, */
    const Job *job;  /* which is this */
    uint64_t end;    /* of its windows that have been made */
    uint64_t spare;  /* batches that may be in use while another one is made */

    /* Under the lock of `frames`: */
    pthread_cond_t changed; /* what its threads wait for */
    Piece pieces[EVENTFRAMES_PIECES];
    uint64_t filled, taken; /* pieces so far: number n is pieces[n % EVENTFRAMES_PIECES] */
    int has_all;            /* There are no more pieces. */
    Offer offers[EVENTS_MAX_BATCHES];
    uint64_t offered, given, released; /* batches so far */
} Lane;

struct cusEventFrames {
    CusiGuard guard;
    pid_t process;
    cusEventFramesOptions options;
    cusEventReader *reader, *owned; /* owned: NULL if it is the caller's */
    EventSource source;             /* the reader's, for lanes */
    uint64_t place;                 /* the event from which the reader starts */
    cusEventInfo info;
    cusEventFilter *filter; /* with these options, or NULL: */
    cusEventFilterOptions filter_options;
    int decodes;           /* the pipeline does; pieces are bytes */
    const uint8_t *pinned; /* which it takes from here, or NULL */
    Job whole;             /* all windows */
    Lane *lanes;
    int lane_count;
    int lane_threads;                    /* of the host, for each lane */
    uint64_t job_windows, whole_windows; /* of a job at most, and those that belong together */
    pthread_t dealer;
    int deals; /* it has been started */

    /* All jobs of a pass that went to its end. The dealer's, and cusEventFramesRestart's while there is none. */
    Job *known;
    uint64_t known_count, known_room;
    int knows_all;

    pthread_mutex_t lock;            /* of all below */
    pthread_cond_t changed, dealing; /* what the caller waits for; what the dealer and lanes without a job do */
    Job *jobs;                       /* number n is jobs[n % job_room] */
    uint64_t job_room;
    uint64_t dealt, claimed, turn; /* jobs so far; whose batches are next */
    int has_dealt;                 /* There are no more. */
    Lane *in_use;                  /* whose batch the caller has, or NULL */
    int cancelled, stopping, ended;
    cusStatus status; /* once it has ended */
    char message[512];
    cusEventFramesCounts counts;
};

/* A place between two shards, or jobs. */
typedef struct Border {
    uint64_t index; /* of the event after it */
    uint64_t since; /* its time in microseconds since the first event; EVENTFRAMES_NO_EVENT: it cannot be read */
} Border;

#define EVENTFRAMES_NO_EVENT UINT64_MAX

/* ---- ahead.c -------------------------------------------------------------------------------------------------------- */

/* A lane's thread: reads pieces of its jobs until there are no more, or nobody wants them. */
void *eventframes_readAhead(void *lane);
/* Replaces a piece of bytes by the next ones of the recording. */
void eventframes_readMore(const cusEventFrames *f, Piece *piece);

/* The next events of the recording, filtered. *piece is filled also if there is damage after them. */
cusStatus eventframes_readEvents(cusEventFrames *f, Piece *piece);

/* Goes to the first event that is read as such. */
cusStatus eventframes_seek(cusEventFrames *f);

/* Creates the filter again, if there is one. */
cusStatus eventframes_createFilter(cusEventFrames *f);

/* Allocates a piece; `pinned`: page-locked. */
cusStatus eventframes_createPiece(const cusEventFrames *f, Piece *piece, int pinned);
void eventframes_releasePiece(Piece *piece);

/* ---- lane.c --------------------------------------------------------------------------------------------------------- */

/* A lane's thread: makes the frames of its jobs. */
void *eventframes_make(void *lane);
/* The pipeline's sink: offers the batch, and waits until there is room for another one. */
cusStatus eventframes_offer(void *lane, const cusFrameBatch *batch);

/* ---- jobs.c --------------------------------------------------------------------------------------------------------- */

/* The dealer's thread. */
void *eventframes_deal(void *frames);

/* ---- shard.c -------------------------------------------------------------------------------------------------------- */

/* Sets in f->whole what the options shard and shards leave to this object. Moves the reader. */
cusStatus eventframes_takeShard(cusEventFrames *f);

/* The first window that begins after all events before the border. */
uint64_t eventframes_windowAt(const cusWindowing *w, const Border *at);

/* Reads the border at a mark. Moves the reader. */
cusStatus eventframes_borderAt(const cusEventFrames *f, const cusEventMark *mark, Border *border);

/* The time of the first event at or after the mark. Moves the reader. */
cusStatus eventframes_timeAt(const cusEventFrames *f, const cusEventMark *mark, int64_t *time, int *is_there);

/* ---- In several files ----------------------------------------------------------------------------------------------- */

/* Never 0, unless the length is. */
static inline uint64_t eventframes_stride(const cusWindowing *w) {
    return w->stride ? w->stride : w->length;
}

/* Whether frames are still wanted; the lock is held. */
static inline int eventframes_isWanted(const cusEventFrames *f) {
    return !f->cancelled && !f->stopping && !f->ended;
}

#endif
