/* The host backend of frames: finds the chunks in pieces cut anywhere, decodes each as a whole and checks its events.
 * A header or a chunk that a piece cuts is completed in a buffer. A chunk whose events do not all fit is decoded again. */
#include "check.h"
#include "event_words.h"
#include "frames.h"
#include "lzf.h"
#include "raw/backend.h"

#include <stdlib.h>
#include <string.h>

typedef struct Frames {
    cusEventDecoderState place; /* carried is that of getState only */
    cusEventCounts counts;
    cusEventDecoded last; /* what the last run has done; that of the run in progress */
    uint32_t chunks;      /* of the frame, whose header has been read; 0: the header is next */
    uint32_t size[CUSI_FRAME_CHUNKS], events[CUSI_FRAME_CHUNKS];
    uint64_t passed;    /* bytes of the frame that are decoded, or passed over after SetState */
    uint64_t next;      /* where in the frame the next chunk begins */
    uint8_t *unit;      /* bytes of the next header or chunk, which a piece has cut */
    uint32_t held;      /* how many */
    CusiEvents scratch; /* of one chunk */
    uint8_t *narrow;    /* times of 4 bytes */
} Frames;

/* What is left of the piece in a run. */
typedef struct Piece {
    const uint8_t *at;
    size_t left;
} Piece;

static void failAt(Frames *f, uint32_t kind, uint64_t byte) {
    f->last.status = CUS_ERROR_FORMAT;
    f->last.detail[0] = kind;
    f->last.detail[1] = byte;
}

/* ---- Chunks ------------------------------------------------------------------------------------------------------------- */

static int decodeEcf(const uint8_t *chunk, uint32_t size, uint32_t events, CusiEvents to) {
    const uint32_t count = cusi_load32(chunk) >> 2;
    if (count < events || count > CUSI_CHUNK_MOST_EVENTS)
        return 0;
    const CusiEcfOut out = {(uint8_t *)to.x, (uint8_t *)to.y, to.p, (uint8_t *)to.t, 2, 1, 8, 0};
    if (!cusi_ecfDecode(chunk, size, &out))
        return 0;
    uint64_t bits = 0;
    for (uint32_t i = 0; i < count; ++i)
        bits |= (uint64_t)to.t[i];
    return bits >> 62 == 0;
}

/* Makes times of the first n stored ones. Whether they are in range. */
static int makeTimes(const uint8_t *stored, size_t n, uint32_t flags, uint64_t offset, int64_t *times) {
    uint64_t bits = 0, wide = 0;
    for (size_t i = 0; i < n; ++i) {
        if (flags & CUSI_COLUMNS_SHORT_T) {
            wide = cusi_load32(stored + 4 * i);
            if (flags & CUSI_COLUMNS_SIGNED_T)
                wide = (uint64_t)(int64_t)(int32_t)wide;
        } else {
            memcpy(&wide, stored + 8 * i, 8); /* the machine is little-endian, as CUDA's hosts are */
            bits |= flags & CUSI_COLUMNS_SIGNED_T ? 0 : wide;
        }
        wide += offset;
        bits |= wide;
        memcpy(times + i, &wide, 8);
    }
    return bits >> 62 == 0;
}

static int decodeColumns(const Frames *f, const uint8_t *chunk, uint32_t size, uint32_t events, CusiEvents to) {
    const uint32_t rows = cusi_load32(chunk), flags = cusi_load32(chunk + 4);
    const uint64_t offset = cusi_load32(chunk + 8) | (uint64_t)cusi_load32(chunk + 12) << 32;
    uint8_t *const times = flags & CUSI_COLUMNS_SHORT_T ? f->narrow : (uint8_t *)to.t;
    uint8_t *const out[CUSI_COLUMNS] = {(uint8_t *)to.x, (uint8_t *)to.y, to.p, times};
    if (rows < events || rows > CUSI_CHUNK_MOST_EVENTS || flags > CUSI_COLUMNS_FLAGS)
        return 0;
    const uint8_t *at = chunk + CUSI_COLUMNS_HEADER;
    size_t left = size - CUSI_COLUMNS_HEADER;
    for (int k = 0; k < CUSI_COLUMNS; ++k) {
        const uint32_t stored = cusi_load32(chunk + 16 + 4 * k), n = stored & ~CUSI_COLUMNS_PLAIN;
        const size_t bytes = (size_t)rows * cusi_columnWidth(k, flags);
        if (n > left || (stored != n && n != bytes))
            return 0;
        if (stored != n)
            memcpy(out[k], at, n);
        else if (!cusi_lzfDecode(at, n, out[k], bytes))
            return 0;
        at += n;
        left -= n;
    }
    if (flags & CUSI_COLUMNS_SIGNED_P)
        for (size_t i = 0; i < events; ++i)
            to.p[i] = to.p[i] == 255 ? 0 : to.p[i]; /* -1 */
    return !left && makeTimes(times, events, flags, offset, to.t);
}

/* Whether the chunk is well-formed, with at least `events` events and times below 2^62: of ECF all, of columns those events'. */
static int decodeChunk(const cusEventDecoder *decoder, const uint8_t *chunk, uint32_t size, uint32_t events,
                       CusiEvents to) {
    return decoder->options.format == CUS_EVENTS_METAVISION ? decodeEcf(chunk, size, events, to)
                                                            : decodeColumns(decoder->state, chunk, size, events, to);
}

/* Delivers n good events, which may be in their place already, or overlap it. */
static void deliver(Frames *f, const cusEventBuffers *to, CusiEvents e, size_t n) {
    cusEventDecoded *done = &f->last;
    const uint64_t at = done->count;
    if (!n)
        return;
    if (!at)
        done->first_time = e.t[0];
    done->last_time = f->place.last_time = e.t[n - 1];
    if (to->x && to->x + at != e.x)
        memmove(to->x + at, e.x, n * sizeof *e.x);
    if (to->y && to->y + at != e.y)
        memmove(to->y + at, e.y, n * sizeof *e.y);
    if (to->p && to->p + at != e.p)
        memmove(to->p + at, e.p, n * sizeof *e.p);
    if (to->t && to->t + at != e.t)
        memmove(to->t + at, e.t, n * sizeof *e.t);
    done->count += n;
    f->counts.events += n;
}

/* Examines and delivers n events, in spans so that a bad event costs little. Returns how many are passed: all, unless the status is
 * set. */
static size_t deliverGood(const cusEventDecoder *decoder, Frames *f, const cusEventBuffers *to, CusiEvents e, size_t n) {
    enum { SPAN = 256 };
    const cusEventDecoderOptions *options = &decoder->options;
    size_t i = 0;
    for (size_t span = n; i < n; span = SPAN) {
        const CusiEvents rest = cusi_eventsFrom(e, i);
        const uint64_t room = to->capacity - f->last.count;
        span = span < n - i ? span : n - i;
        const size_t good =
            options->unchecked ? span : cusi_countGoodEvents(rest, span, decoder->sensor, f->place.last_time);
        const size_t now = good < room ? good : (size_t)room;
        deliver(f, to, rest, now);
        i += now;
        if (now < good) {
            f->last.status = CUS_ERROR_CAPACITY;
            f->last.detail[0] = RAW_EVENTS_FULL;
            f->last.detail[1] = to->capacity;
            break;
        }
        if (now == span)
            continue;
        const CusiEvents bad = cusi_eventsFrom(e, i);
        if (options->bad_events == CUS_BAD_EVENTS_STOP) {
            cusi_describeBadEvent(bad, 0, decoder->sensor, f->place.last_time, f->place.index + i, f->last.detail);
            f->last.status = CUS_ERROR_FORMAT;
            break;
        }
        (void)cusi_dropBadEvents(bad, 0, 1, decoder->sensor, f->place.last_time, &f->counts);
        ++i;
    }
    return i;
}

/* The next chunk. */
static void runChunk(const cusEventDecoder *decoder, Frames *f, const cusEventBuffers *to, const uint8_t *chunk) {
    const uint32_t events = f->events[f->place.line], skip = f->place.vector < events ? f->place.vector : events;
    const uint64_t at = f->last.count;
    const int in_place = to->capacity - at >= CUSI_CHUNK_MOST_EVENTS && !skip && to->x && to->y && to->p && to->t;
    const CusiEvents made = in_place ? (CusiEvents){to->x + at, to->y + at, to->p + at, to->t + at} : f->scratch;
    if (!decodeChunk(decoder, chunk, f->size[f->place.line], events, made)) {
        failAt(f, RAW_BAD_CHUNK, f->place.offset + f->next);
        return;
    }
    const size_t passed = deliverGood(decoder, f, to, cusi_eventsFrom(made, skip), events - skip);
    f->place.index += passed;
    f->place.vector = skip + (uint32_t)passed;
}

/* ---- Frames ------------------------------------------------------------------------------------------------------------- */

/* Moves bytes of the piece to the unit until it has n. Whether it has. */
static int hold(Frames *f, Piece *piece, uint32_t n) {
    const size_t missing = n - f->held, take = missing < piece->left ? missing : piece->left;
    if (take)
        memcpy(f->unit + f->held, piece->at, take);
    f->held += (uint32_t)take;
    piece->at += take;
    piece->left -= take;
    return f->held == n;
}

/* Whether the next header has been read; otherwise the piece ends before, or the status is FORMAT and the piece is where it was. */
static int takeHeader(uint32_t magic, Frames *f, Piece *piece) {
    const Piece before = *piece;
    const uint32_t held = f->held;
    if (f->held < CUSI_FRAME_START && !hold(f, piece, CUSI_FRAME_START))
        return 0;
    const uint32_t chunks = cusi_load32(f->unit + 4);
    int good = cusi_load32(f->unit) == magic && chunks > f->place.line && chunks <= CUSI_FRAME_CHUNKS;
    if (good && !hold(f, piece, cusi_frameHeader(chunks)))
        return 0;
    f->next = good ? cusi_frameHeader(chunks) : 0;
    for (uint32_t k = 0; good && k < chunks; ++k) {
        const uint8_t *entry = f->unit + CUSI_FRAME_START + CUSI_FRAME_ENTRY * k;
        f->size[k] = cusi_load32(entry);
        f->events[k] = cusi_load32(entry + 4);
        good = cusi_isFrameEntry(magic, f->size[k], f->events[k]);
        if (good && k < f->place.line)
            f->next += cusi_frameSlot(f->size[k]);
    }
    if (!good) {
        *piece = before;
        f->held = held;
        failAt(f, RAW_BAD_FRAME, f->place.offset);
        return 0;
    }
    f->chunks = chunks;
    f->passed = cusi_frameHeader(chunks);
    f->held = 0;
    return 1;
}

/* Whether the next chunk has been decoded; otherwise the piece ends before, or the status is set and the piece is where it was. */
static int takeChunk(const cusEventDecoder *decoder, Frames *f, Piece *piece, const cusEventBuffers *to) {
    const uint64_t over = f->next - f->passed < piece->left ? f->next - f->passed : piece->left;
    piece->at += over;
    piece->left -= (size_t)over;
    f->passed += over;
    if (f->passed < f->next)
        return 0;
    const Piece before = *piece;
    const uint32_t held = f->held, n = cusi_frameSlot(f->size[f->place.line]);
    const uint8_t *chunk = f->unit;
    if (!held && piece->left >= n) {
        chunk = piece->at;
        piece->at += n;
        piece->left -= n;
    } else if (!hold(f, piece, n)) {
        return 0;
    }
    runChunk(decoder, f, to, chunk);
    if (f->last.status != CUS_OK) {
        *piece = before;
        f->held = held;
        return 0;
    }
    f->held = 0;
    f->passed = f->next += n;
    f->place.vector = 0;
    if (++f->place.line == f->chunks) {
        f->place.offset += f->passed;
        f->place.line = 0;
        f->passed = f->chunks = 0;
    }
    return 1;
}

static cusStatus run(const char *function, cusEventDecoder *decoder, const void *bytes, size_t size,
                     const cusEventBuffers *events, cusEventDecoded *decoded, cusStream stream) {
    (void)function, (void)decoded, (void)stream;
    Frames *f = decoder->state;
    cusEventDecoded *done = &f->last;
    Piece piece = {size ? bytes : (const uint8_t *)"", size}; /* bytes may be NULL then */
    if (done->status == CUS_ERROR_FORMAT) {
        done->count = done->triggers = done->used = 0;
        done->first_time = done->last_time = -1;
        return CUS_OK;
    }
    *done = raw_nothing();
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, (int64_t)size);
    size_t left = size;
    while (f->chunks ? takeChunk(decoder, f, &piece, events)
                     : takeHeader(raw_magicOf(decoder->options.format), f, &piece)) {
        if (cusi_step(progress, (int64_t)(left - piece.left))) {
            done->status = CUS_ERROR_CANCELLED;
            break;
        }
        left = piece.left;
    }
    done->used = size - piece.left;
    done->index = f->place.index;
    done->counts = f->counts;
    return CUS_OK;
}

/* ---- Memory and state ---------------------------------------------------------------------------------------------------- */

static cusStatus create(const char *function, cusEventDecoder *decoder) {
    Frames *f = calloc(1, sizeof *f);
    CUSI_REQUIRE(f, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    decoder->state = f;
    f->unit = malloc(CUSI_CHUNK_MOST_BYTES);
    CusiEvents *scratch = &f->scratch;
    scratch->x = malloc(CUSI_CHUNK_MOST_EVENTS * sizeof *scratch->x);
    scratch->y = malloc(CUSI_CHUNK_MOST_EVENTS * sizeof *scratch->y);
    scratch->p = malloc(CUSI_CHUNK_MOST_EVENTS * sizeof *scratch->p);
    scratch->t = malloc(CUSI_CHUNK_MOST_EVENTS * sizeof *scratch->t);
    f->narrow = malloc((size_t)4 * CUSI_CHUNK_MOST_EVENTS);
    CUSI_REQUIRE(f->unit && scratch->x && scratch->y && scratch->p && scratch->t && f->narrow, CUS_ERROR_NO_MEMORY,
                 "%s: out of host memory", function);
    return CUS_OK;
}

static void destroy(cusEventDecoder *decoder) {
    Frames *f = decoder->state;
    if (!f)
        return;
    free(f->unit);
    free(f->scratch.x);
    free(f->scratch.y);
    free(f->scratch.p);
    free(f->scratch.t);
    free(f->narrow);
    free(f);
}

static cusStatus check(const char *function, cusEventDecoder *decoder, cusEventDecoded *decoded, cusStream stream) {
    (void)function, (void)stream;
    const Frames *f = decoder->state;
    *decoded = f->last;
    return CUS_OK;
}

static cusStatus getState(const char *function, cusEventDecoder *decoder, cusEventDecoderState *state) {
    (void)function;
    const Frames *f = decoder->state;
    *state = f->place;
    state->carried = (uint32_t)(f->passed + f->held);
    return CUS_OK;
}

static cusStatus setState(const char *function, cusEventDecoder *decoder, const cusEventDecoderState *state) {
    (void)function;
    Frames *f = decoder->state;
    f->place = *state;
    f->counts = (cusEventCounts){0};
    f->last = raw_nothing();
    f->last.index = state->index;
    f->chunks = f->held = 0;
    f->passed = 0;
    return CUS_OK;
}

const RawMethods raw_hostFrames = {create, destroy, run, check, getState, setState};
