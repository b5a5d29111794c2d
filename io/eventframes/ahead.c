/* Reading ahead: pieces of a recording, as bytes or events. */
#include "check.h"
#include "eventframes/eventframes.h"
#include "eventio/recording.h"

#include <string.h>

enum { PIECE_BYTES = 32 << 20, PIECE_EVENTS = 1 << 18 };

static const int column_types[4] = {CUS_16UC1, CUS_16UC1, CUS_8UC1, CUS_64FC1 /* as wide as int64 */};

cusStatus eventframes_createPiece(const cusEventFrames *f, Piece *piece, int pinned) {
    cusStatus (*const create)(cusMat *, int, int, int) = pinned ? cusMatCreatePinned : NULL;
    const uint64_t size = f->reader->source.size; /* a short recording is one piece */
    const int bytes = size < PIECE_BYTES ? (int)size + 1 : PIECE_BYTES;
    for (int k = 0; k < (f->decodes ? 1 : 4); ++k) {
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

/* The index of the first time at or after `time`. */
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
    if (status != CUS_OK && piece->count < count) /* damage behind what is wanted */
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

static cusStatus readBytes(cusEventFrames *f, Piece *piece) {
    const size_t capacity = (size_t)piece->bytes.cols;
    const cusStatus status = cusEventReaderReadBytes(f->reader, capacity, piece->bytes.data, &piece->count);
    piece->last = piece->count < capacity;
    return status;
}

void *eventframes_readAhead(void *frames) {
    cusEventFrames *f = frames;
    int last = 0;
    while (!last) {
        pthread_mutex_lock(&f->lock);
        while (f->filled - f->taken == EVENTFRAMES_PIECES && !f->cancelled && !f->stopping && !f->ended)
            pthread_cond_wait(&f->changed, &f->lock);
        Piece *piece = &f->pieces[f->filled % EVENTFRAMES_PIECES];
        const int wanted = !f->cancelled && !f->stopping && !f->ended;
        pthread_mutex_unlock(&f->lock);
        if (!wanted)
            break;
        piece->damage = f->decodes ? readBytes(f, piece) : eventframes_readEvents(f, piece);
        if (piece->damage != CUS_OK) {
            (void)cusi_renamed("cusEventFramesNext", piece->damage);
            strncpy(piece->message, cusLastError(), sizeof piece->message - 1);
            piece->last = 1;
        }
        last = piece->last; /* afterwards it is the maker's */
        pthread_mutex_lock(&f->lock);
        if (f->decodes)
            f->counts.bytes += piece->count;
        else
            (void)cusEventReaderCounts(f->reader, &f->counts.read);
        ++f->filled;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}
