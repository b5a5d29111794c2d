/* Reads a recording ahead, piece by piece, as bytes or events. */
#include "check.h"
#include "eventframes/eventframes.h"
#include "eventio/evt/words.h"
#include "eventio/hdf5/reader.h"

#include <string.h>

enum { PIECE_EVENTS = 1 << 18 };

/* The last piece of a recording is copied and decoded while nothing is read, so pieces are small; smaller ones cost more than
 * that. A lane ends a job before it begins the next, so jobs are large. */
EventFramesSizes eventframes_sizes = {.piece = 16 << 20, .part = 1 << 20, .job = 256 << 20, .more = 2 << 20};

static const int column_types[4] = {CUS_16UC1, CUS_16UC1, CUS_8UC1, CUS_64FC1 /* as wide as int64 */};

/* Returns the most bytes of a piece that is read. Chunks have more, since a block decodes a column of one: with few chunks the
 * device is idle. */
static size_t pieceOf(const cusEventFrames *f) {
    return eventframes_sizes.piece * (eventio_frameFormat(f->reader) ? 2 : 1);
}

cusStatus eventframes_createPiece(const cusEventFrames *f, Piece *piece, int pinned) {
    cusStatus (*const create)(cusMat *, int, int, int) = pinned ? cusMatCreatePinned : NULL;
    const uint64_t size = f->reader->source.size; /* a short recording is one piece */
    const int bytes = (int)(size < pieceOf(f) ? size + 1 : pieceOf(f));
    for (int k = 0; k < (f->pinned ? 0 : f->decodes ? 1 : 4); ++k) {
        cusMat *mat = f->decodes ? &piece->bytes : &piece->column[k];
        const int cols = f->decodes ? bytes : PIECE_EVENTS, type = f->decodes ? CUS_8UC1 : column_types[k];
        const cusStatus status = create ? create(mat, 1, cols, type) : cusMatCreate(mat, 1, cols, type, CUS_HOST);
        if (status != CUS_OK)
            return cusi_renamed("cusEventFramesOpen", status);
    }
    return CUS_OK;
}

void eventframes_releasePiece(Piece *piece) {
    cusMatRelease(&piece->bytes);
    for (int k = 0; k < 4; ++k)
        cusMatRelease(&piece->column[k]);
}

cusStatus eventframes_createFilter(cusEventFrames *f) {
    cusEventFilterDestroy(f->filter);
    f->filter = NULL;
    return f->options.filter ? cusEventFilterCreate(&f->filter, &f->filter_options) : CUS_OK;
}

cusStatus eventframes_seek(cusEventFrames *f) {
    const cusEventFramesOptions *o = &f->options;
    const uint64_t stride = eventframes_stride(&o->windowing);
    Job *const job = &f->whole;
    if (job->has_mark) {
        job->first_event = job->mark.index;
        return cusEventReaderSeekMark(f->reader, &job->mark);
    }
    if (o->from != INT64_MIN)
        return cusEventReaderSeekTime(f->reader, o->from, NULL);
    const int is_numbered = o->shards < 2 && f->reader->options.bad_events != CUS_BAD_EVENTS_SKIP;
    if (!o->filter && is_numbered && o->windowing.unit == CUS_WINDOW_COUNT && stride > 0 &&
        o->first_window < (uint64_t)INT64_MAX / 2 / stride)
        job->first_event = o->first_window * stride;
    return f->reader->index == f->place + job->first_event
               ? CUS_OK
               : cusEventReaderSeekIndex(f->reader, (int64_t)(f->place + job->first_event));
}

/* Returns the index of the first time at or after `time`. */
static size_t lowerBound(const int64_t *t, size_t count, int64_t time) {
    size_t first = 0;
    while (count > 0) {
        const size_t half = count / 2;
        if (t[first + half] < time) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

cusStatus eventframes_readEvents(cusEventFrames *f, Piece *piece) {
    uint16_t *x = piece->column[0].data, *y = piece->column[1].data;
    uint8_t *p = piece->column[2].data;
    int64_t *t = piece->column[3].data;
    size_t count = 0;
    const cusStatus status = cusEventReaderRead(f->reader, PIECE_EVENTS, x, y, p, t, &count);
    piece->count = lowerBound(t, count, f->options.to);
    piece->last = count < PIECE_EVENTS || piece->count < count;
    if (status != CUS_OK && piece->count < count) /* the damage lies past `to` */
        return CUS_OK;
    if (f->filter && piece->count > 0) {
        const cusStatus filtered = cusEventFilterRun(f->filter, piece->count, x, y, p, t, &piece->count);
        if (filtered != CUS_OK) {
            piece->count = 0;
            return filtered;
        }
    }
    return status;
}

/* Returns the most bytes of a piece. One push may have many pinned bytes, so that copies and decoding overlap. */
static size_t roomOf(const cusEventFrames *f, const Piece *piece) {
    return f->pinned ? 16 * eventframes_sizes.piece : (size_t)piece->bytes.cols;
}

/* Sets the piece to the next `wanted` bytes of pinned memory, or to fewer where the file ends. */
static cusStatus takePinned(const cusEventFrames *f, Piece *piece, uint64_t at, size_t wanted) {
    const uint64_t size = eventio_sizeNow(&f->source), there = size > at ? size - at : 0;
    piece->from = f->pinned + at;
    piece->count = there < wanted ? (size_t)there : wanted;
    return at + piece->count == f->source.size || piece->count == wanted
               ? CUS_OK
               : eventio_isShorter(&f->source, "cusEventFramesNext", at + piece->count);
}

/* The first piece of a device is a quarter, so that it begins early. */
static cusStatus readBytes(cusEventFrames *f, Piece *piece) {
    const int is_early = f->lanes->device >= 0 && !f->lanes->filled;
    const size_t most = roomOf(f, piece), capacity = is_early && most == pieceOf(f) ? most / 4 : most;
    cusStatus status;
    piece->from = piece->bytes.data;
    if (f->pinned) {
        status = takePinned(f, piece, f->reader->next_byte, capacity);
        f->reader->next_byte += piece->count;
    } else {
        status = cusEventReaderReadBytes(f->reader, capacity, piece->bytes.data, &piece->count);
    }
    piece->last = piece->count < capacity;
    return status;
}

/* Records the status and its message; an error makes this piece the last. */
static void keepDamage(Piece *piece, cusStatus status) {
    piece->damage = status;
    if (status == CUS_OK)
        return;
    (void)cusi_renamed("cusEventFramesNext", status);
    strncpy(piece->message, cusLastError(), sizeof piece->message - 1);
    piece->last = 1;
}

/* With several lanes: reads the bytes [at, end), up to the piece's capacity. */
static void readBytesAt(const cusEventFrames *f, Piece *piece, uint64_t at, uint64_t end) {
    const size_t most = roomOf(f, piece), wanted = end - at < most ? (size_t)(end - at) : most;
    piece->from = f->pinned ? f->pinned + at : piece->bytes.data;
    const cusStatus status =
        f->pinned ? takePinned(f, piece, at, wanted)
                  : eventio_readBytesAt(&f->source, at, wanted, piece->bytes.data, f->lane_threads, &piece->count);
    piece->after = at + piece->count;
    piece->last = piece->count < wanted || piece->after == f->source.size;
    keepDamage(piece, status);
}

void eventframes_readMore(const cusEventFrames *f, Piece *piece) {
    piece->at_border = 0;
    readBytesAt(f, piece, piece->after, piece->after + eventframes_sizes.more);
}

/* Takes the next job. Returns 0 if there is none. */
static int claim(Lane *lane, uint64_t *number, Job *job) {
    cusEventFrames *const f = lane->frames;
    pthread_mutex_lock(&f->lock);
    while (eventframes_isWanted(f) && f->claimed == f->dealt && !f->has_dealt)
        pthread_cond_wait(&f->dealing, &f->lock);
    const int is_there = eventframes_isWanted(f) && f->claimed < f->dealt;
    if (is_there) {
        Job *const next = &f->jobs[f->claimed % f->job_room];
        next->lane = (int)(lane - f->lanes);
        *number = f->claimed++;
        *job = *next;
    } else {
        lane->has_all = 1;
        pthread_cond_broadcast(&lane->changed);
    }
    pthread_mutex_unlock(&f->lock);
    return is_there;
}

/* Waits for a free piece. Returns NULL if the job needs no more. */
static Piece *freePiece(Lane *lane, uint64_t number) {
    cusEventFrames *const f = lane->frames;
    pthread_mutex_lock(&f->lock);
    while (eventframes_isWanted(f) && lane->filled - lane->taken == EVENTFRAMES_PIECES)
        pthread_cond_wait(&lane->changed, &f->lock);
    const int is_done = number < f->turn || f->jobs[number % f->job_room].is_done;
    Piece *const piece = &lane->pieces[lane->filled % EVENTFRAMES_PIECES];
    const int is_needed = eventframes_isWanted(f) && !is_done;
    pthread_mutex_unlock(&f->lock);
    if (!is_needed) /* the piece may still be in use */
        return NULL;
    piece->job = number;
    piece->at_border = piece->is_end = piece->last = 0;
    return piece;
}

/* Gives the piece to the lane's other thread. bytes: those that no other piece counts. */
static void give(Lane *lane, size_t bytes) {
    cusEventFrames *const f = lane->frames;
    pthread_mutex_lock(&f->lock);
    f->counts.bytes += bytes;
    if (!f->decodes)
        (void)cusEventReaderCounts(f->reader, &f->counts.read);
    ++lane->filled;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&f->lock);
}

/* With one lane: reads the whole recording. */
static void readAll(Lane *lane, uint64_t number) {
    cusEventFrames *const f = lane->frames;
    Piece *piece;
    for (int last = 0; !last && (piece = freePiece(lane, number)) != NULL;) {
        keepDamage(piece, f->decodes ? readBytes(f, piece) : eventframes_readEvents(f, piece));
        last = piece->last;
        give(lane, f->decodes ? piece->count : 0);
    }
}

/* With several lanes: reads the job's bytes up to its border, and those behind it that its windows are likely to need. */
static void readJob(Lane *lane, uint64_t number, const Job *job) {
    uint64_t at = job->mark.offset;
    Piece *piece;
    for (int is_behind = 0, is_end = 0; !is_end && (piece = freePiece(lane, number)) != NULL;) {
        const int was_behind = is_behind;
        readBytesAt(lane->frames, piece, at, is_behind ? job->enough : job->border);
        at = piece->after;
        is_behind = at >= job->border;
        is_end = piece->last || (is_behind && at >= job->enough);
        piece->at_border = is_behind && !was_behind;
        piece->is_end = is_end;
        give(lane, was_behind ? 0 : piece->count);
    }
}

void *eventframes_readAhead(void *from) {
    Lane *const lane = from;
    uint64_t number;
    Job job;
    while (claim(lane, &number, &job))
        if (lane->frames->lane_count == 1)
            readAll(lane, number);
        else
            readJob(lane, number, &job);
    return NULL;
}
