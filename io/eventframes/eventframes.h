/* Frames of a recording, or of a shard of it (shard.c): one thread reads ahead (ahead.c), another makes frames of what it has read and waits with each batch until the
 * caller asks for it (eventframes.c). */
#ifndef CUSI_EVENTFRAMES_H
#define CUSI_EVENTFRAMES_H

#include "cusight/eventframes.h"
#include "guard.h"

#include <pthread.h>
#include <sys/types.h>

enum { EVENTFRAMES_PIECES = 3 };

/* A piece of the recording. */
typedef struct Piece {
    cusMat bytes;
    cusMat column[4]; /* x, y, p, t instead */
    size_t count;     /* bytes, or events */
    int last;
    cusStatus damage; /* which comes after the piece */
    char message[512];
} Piece;

/* Where a batch is. */
typedef enum Offer { NOTHING, OFFERED, GIVEN } Offer;

struct cusEventFrames {
    CusiGuard guard;
    pid_t process;
    int device; /* -1: none */
    cusEventFramesOptions options;
    cusEventReader *reader, *owned; /* owned: NULL if it is the caller's */
    uint64_t place;                 /* the event from which the reader starts */
    cusEventInfo info;
    cusEventFilter *filter; /* with these options, or NULL: */
    cusEventFilterOptions filter_options;
    cusEventPipeline *pipeline;
    int decodes;          /* the pipeline does; pieces are bytes */
    uint64_t first_event; /* number of the first that is read, from where reading starts */
    int has_mark;         /* It is a shard that reads from `mark`, at least to the first event after number `until`. */
    cusEventMark mark;
    uint64_t until;
    int64_t origin; /* The time from which its windows count. */
    pthread_t ahead, maker;
    int threads; /* that have been started */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    Piece pieces[EVENTFRAMES_PIECES];
    uint64_t filled, taken; /* pieces so far: number n is pieces[n % EVENTFRAMES_PIECES] */
    int cancelled, stopping, ended;
    Offer offer;
    cusFrameBatch batch;
    cusMat shorter[8]; /* frames of a batch of which the next shard has the rest */
    cusStatus status;  /* once it has ended */
    char message[512];
    cusEventFramesCounts counts;
};

/* Reads the recording into pieces until it ends, or is damaged, or nobody wants more. */
void *eventframes_readAhead(void *frames);

/* The next events of the recording, filtered. *piece is filled also if there is damage after them. */
cusStatus eventframes_readEvents(cusEventFrames *f, Piece *piece);

/* Goes to the first event that is read as such. */
cusStatus eventframes_seek(cusEventFrames *f);

/* Creates the filter again, if there is one. */
cusStatus eventframes_createFilter(cusEventFrames *f);

/* Sets what the options shard and shards leave to this object: first_window, end_window, mark, until and origin. Moves the reader. */
cusStatus eventframes_takeShard(cusEventFrames *f);

/* Never 0, unless the length is. */
static inline uint64_t eventframes_stride(const cusWindowing *w) {
    return w->stride ? w->stride : w->length;
}

/* Allocates a piece; `pinned`: page-locked. */
cusStatus eventframes_createPiece(const cusEventFrames *f, Piece *piece, int pinned);
void eventframes_releasePiece(Piece *piece);

#endif
