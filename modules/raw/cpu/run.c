/* The host backend feeds the decoders with pieces that are cut anywhere, and checks what they deliver block by block, while
 * it is in the caches.
 *
 * Only good events take a place in the arrays. So when the arrays are full, the next event is decoded and checked
 * separately (passBadEvent). If a block has a bad event, CUS_BAD_EVENTS_STOP restores the decoder to the block's start and
 * decodes only the events before the bad one; triggers, counts and the word's place then agree. */
#include "check.h"
#include "raw/backend.h"
#include "raw/cpu/decoders.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 15 }; /* events that are decoded before they are checked */

typedef struct HostDecoder {
    RawDecode decode;
    cusEventDecoderState place;
    cusEventCounts counts;
    cusEventDecoded last; /* what the last run did, or the run in progress so far */
    CusiEvents scratch;   /* BLOCK events; stands in for arrays that the caller passed as NULL */
} HostDecoder;

/* ---- Words ----------------------------------------------------------------------------------------------------------- */

static RawDecode chooseDecode(const cusEventDecoderOptions *options) {
    switch (options->format) {
    case CUS_EVENTS_EVT2:
        return raw_decodeEvt2;
    case CUS_EVENTS_EVT21:
        return options->legacy ? raw_decodeEvt21Legacy : raw_decodeEvt21;
    case CUS_EVENTS_EVT3:
        return raw_decodeEvt3;
    case CUS_EVENTS_EVT4:
        return raw_decodeEvt4;
    default:
        return raw_decodeDat;
    }
}

/* Returns the size of the word that starts with these n bytes. A vector of EVT4 and its mask count as one word. */
static size_t wordBytes(cusEventFormat format, const uint8_t *bytes, size_t n) {
    if (format == CUS_EVENTS_EVT3)
        return 2;
    if (format == CUS_EVENTS_EVT4)
        return n >= 4 && cusi_isEvt4Vector(cusi_load32(bytes)) ? 8 : 4;
    return format == CUS_EVENTS_EVT2 ? 4 : 8;
}

/* ---- One block ------------------------------------------------------------------------------------------------------- */

typedef struct Run {
    const cusEventDecoder *decoder;
    HostDecoder *host;
    const cusEventBuffers *out;
} Run;

static RawStop decodeEvents(const Run *run, const uint8_t *bytes, size_t n, CusiEvents events, size_t capacity,
                            size_t *count, size_t *used) {
    HostDecoder *host = run->host;
    cusEventDecoded *done = &host->last;
    RawSink sink = {.out = events,
                    .capacity = capacity,
                    .trigger_count = done->triggers,
                    .triggers = run->out->triggers,
                    .trigger_capacity = run->out->trigger_capacity,
                    .counts = &host->counts,
                    .skip_undefined = run->decoder->options.bad_events == CUS_BAD_EVENTS_SKIP};
    const RawStop stop = host->decode(&host->place, bytes, n, &sink, used);
    host->place.offset += *used;
    host->place.index += sink.count;
    done->triggers = sink.trigger_count;
    *count = sink.count;
    if (stop == STOP_UNDEFINED) {
        done->detail[1] = host->place.offset;
        done->detail[2] = sink.undefined_type;
    }
    return stop;
}

/* Counts `count` good events that follow this run's earlier ones. */
static void deliver(HostDecoder *host, CusiEvents events, size_t count) {
    cusEventDecoded *done = &host->last;
    if (!count)
        return;
    if (!done->count)
        done->first_time = events.t[0];
    done->last_time = host->place.last_time = events.t[count - 1];
    done->count += count;
    host->counts.events += count;
}

/* What decoding a block changes besides the events, as it was before the block. */
typedef struct Before {
    cusEventDecoderState place;
    cusEventCounts counts;
    uint64_t triggers;
} Before;

static Before remember(const HostDecoder *host) {
    return (Before){host->place, host->counts, host->last.triggers};
}

static void restore(HostDecoder *host, const Before *before) {
    host->place = before->place;
    host->counts = before->counts;
    host->last.triggers = before->triggers;
}

/* Stops at the bad event that follows `good` ones in the block at `bytes`. *used returns the bytes before its word, or
 * those up to its end if it is a vector with events before the bad one. */
static void stopAtBad(const Run *run, const Before *before, const uint8_t *bytes, size_t n, CusiEvents events, size_t good,
                      size_t *used) {
    HostDecoder *host = run->host;
    const int64_t last = good ? events.t[good - 1] : before->place.last_time;
    size_t count = 0;
    cusi_describeBadEvent(events, good, run->decoder->sensor, last, before->place.index + good, host->last.detail);
    restore(host, before);
    decodeEvents(run, bytes, n, events, good, &count, used);
    deliver(host, events, good);
    host->last.status = CUS_ERROR_FORMAT;
}

/* Decodes and checks one block of up to `capacity` events and moves the good ones to the start of `events`. The status
 * becomes FORMAT if a bad event follows *kept good ones. */
static RawStop runBlock(const Run *run, const uint8_t *bytes, size_t n, CusiEvents events, size_t capacity, size_t *kept,
                        size_t *used) {
    HostDecoder *host = run->host;
    const cusEventDecoderOptions *options = &run->decoder->options;
    const Before before = remember(host);
    size_t count = 0;
    const RawStop stop = decodeEvents(run, bytes, n, events, capacity, &count, used);
    *kept = count;
    if (!options->unchecked) {
        const int64_t last = before.place.last_time;
        const size_t good = cusi_countGoodEvents(events, count, run->decoder->sensor, last);
        if (good < count && options->bad_events == CUS_BAD_EVENTS_STOP) {
            *kept = good;
            stopAtBad(run, &before, bytes, n, events, good, used);
            return stop;
        }
        if (good < count)
            *kept = cusi_dropBadEvents(events, good, count, run->decoder->sensor, good ? events.t[good - 1] : last,
                                       &host->counts);
    }
    deliver(host, events, *kept);
    return stop;
}

/* ---- One piece ------------------------------------------------------------------------------------------------------- */

/* Decodes the next event, for which the arrays have no room. Returns whether it is bad; it has then been skipped or has set
 * the status. */
static int passBadEvent(const Run *run, const uint8_t *bytes, size_t n, size_t *used) {
    uint16_t x[1], y[1];
    uint8_t p[1];
    int64_t t[1];
    HostDecoder *host = run->host;
    const cusEventDecoded done = host->last;
    const Before before = remember(host);
    const size_t word = host->place.vector ? 0 : wordBytes(run->decoder->options.format, bytes, n);
    size_t kept = 0;
    *used = 0;
    if (run->decoder->options.unchecked)
        return 0;
    runBlock(run, bytes, word, (CusiEvents){x, y, p, t}, 1, &kept, used);
    if (!kept)
        return 1;
    restore(host, &before);
    host->last = done;
    *used = 0;
    return 0;
}

static CusiEvents roomAt(const Run *run, uint64_t first) {
    const cusEventBuffers *out = run->out;
    const CusiEvents *scratch = &run->host->scratch;
    return (CusiEvents){out->x ? out->x + first : scratch->x, out->y ? out->y + first : scratch->y,
                        out->p ? out->p + first : scratch->p, out->t ? out->t + first : scratch->t};
}

/* Sets the status that follows from why decoding stopped. */
static void setStatus(const Run *run, RawStop stop) {
    cusEventDecoded *done = &run->host->last;
    if (stop == STOP_UNDEFINED) { /* decodeEvents() has set the other details */
        done->status = CUS_ERROR_FORMAT;
        done->detail[0] = RAW_BAD_WORD;
        return;
    }
    done->status = CUS_ERROR_CAPACITY;
    done->detail[0] = stop == STOP_FULL ? RAW_EVENTS_FULL : RAW_TRIGGERS_FULL;
    done->detail[1] = stop == STOP_FULL ? run->out->capacity : run->out->trigger_capacity;
}

/* Decodes n bytes until less than a word is left or the status is not CUS_OK. Returns the bytes consumed. */
static size_t runBytes(const Run *run, const uint8_t *bytes, size_t n) {
    cusEventDecoded *done = &run->host->last;
    size_t at = 0;
    CusiProgress *const progress = cusi_progress();
    for (RawStop stop = STOP_FULL; stop != STOP_AT_END && done->status == CUS_OK;) {
        const uint64_t left = run->out->capacity - done->count;
        size_t kept = 0, used = 0;
        stop =
            runBlock(run, bytes + at, n - at, roomAt(run, done->count), left < BLOCK ? (size_t)left : BLOCK, &kept, &used);
        at += used;
        if (cusi_step(progress, (int64_t)used) && done->status == CUS_OK)
            done->status = CUS_ERROR_CANCELLED;
        if (done->status != CUS_OK || stop == STOP_AT_END || (stop == STOP_FULL && done->count < run->out->capacity))
            continue;
        if (stop == STOP_FULL && passBadEvent(run, bytes + at, n - at, &used))
            at += used;
        else
            setStatus(run, stop);
    }
    if (done->status == CUS_ERROR_FORMAT && run->host->place.vector) { /* goes back to the start of a vector */
        const size_t word = run->decoder->options.format == CUS_EVENTS_EVT3 ? 2 : 8;
        at -= at < word ? at : word;
    }
    return at;
}

/* Completes and decodes the word that the last piece began. Returns the bytes consumed; 0 if it cannot be decoded yet. */
static size_t runCarried(const Run *run, const uint8_t *bytes, size_t n) {
    cusEventDecoderState *place = &run->host->place;
    const cusEventFormat format = run->decoder->options.format;
    const uint32_t carried = place->carried;
    uint8_t word[8];
    size_t have = carried, need = 0;
    memcpy(word, place->carry, have);
    while (have < (need = wordBytes(format, word, have)) && have - carried < n) {
        const size_t left = n - (have - carried), take = need - have < left ? need - have : left;
        memcpy(word + have, bytes + (have - carried), take);
        have += take;
    }
    if (have < need) {
        memcpy(place->carry, word, have);
        place->carried = (uint32_t)have;
        return n;
    }
    if (runBytes(run, word, need) < need)
        return 0;
    place->carried = 0;
    return need - carried;
}

static cusStatus run(const char *function, cusEventDecoder *decoder, const void *bytes, size_t size,
                     const cusEventBuffers *events, cusEventDecoded *decoded, cusStream stream) {
    (void)function, (void)decoded, (void)stream;
    HostDecoder *host = decoder->state;
    cusEventDecoded *done = &host->last;
    const Run run = {decoder, host, events};
    const uint8_t *from = size ? bytes : (const uint8_t *)""; /* bytes may be NULL then */
    const cusEventDecoded before = *done;
    cusi_part(cusi_progress(), 1, (int64_t)size);
    *done = raw_nothing();
    if (before.status == CUS_ERROR_FORMAT) {
        *done = before;
        done->count = done->triggers = done->used = 0;
        done->first_time = done->last_time = -1;
        return CUS_OK;
    }
    size_t at = host->place.carried ? runCarried(&run, from, size) : 0;
    if (done->status == CUS_OK && !host->place.carried) {
        at += runBytes(&run, from + at, size - at);
        if (done->status == CUS_OK) {
            host->place.carried = (uint32_t)(size - at);
            if (at < size)
                memcpy(host->place.carry, from + at, size - at);
            at = size;
        }
    }
    done->used = at;
    done->index = host->place.index;
    done->counts = host->counts;
    return CUS_OK;
}

/* ---- Memory and state ------------------------------------------------------------------------------------------------ */

static cusStatus create(const char *function, cusEventDecoder *decoder) {
    HostDecoder *host = calloc(1, sizeof *host);
    CUSI_REQUIRE(host, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    decoder->state = host;
    host->decode = chooseDecode(&decoder->options);
    CusiEvents *scratch = &host->scratch;
    scratch->x = malloc(BLOCK * sizeof *scratch->x);
    scratch->y = malloc(BLOCK * sizeof *scratch->y);
    scratch->p = malloc(BLOCK * sizeof *scratch->p);
    scratch->t = malloc(BLOCK * sizeof *scratch->t);
    CUSI_REQUIRE(scratch->x && scratch->y && scratch->p && scratch->t, CUS_ERROR_NO_MEMORY, "%s: out of host memory",
                 function);
    return CUS_OK;
}

static void destroy(cusEventDecoder *decoder) {
    HostDecoder *host = decoder->state;
    if (!host)
        return;
    free(host->scratch.x);
    free(host->scratch.y);
    free(host->scratch.p);
    free(host->scratch.t);
    free(host);
}

static cusStatus check(const char *function, cusEventDecoder *decoder, cusEventDecoded *decoded, cusStream stream) {
    (void)function, (void)stream;
    const HostDecoder *host = decoder->state;
    *decoded = host->last;
    return CUS_OK;
}

static cusStatus getState(const char *function, cusEventDecoder *decoder, cusEventDecoderState *state) {
    (void)function;
    const HostDecoder *host = decoder->state;
    *state = host->place;
    return CUS_OK;
}

static cusStatus setState(const char *function, cusEventDecoder *decoder, const cusEventDecoderState *state) {
    (void)function;
    HostDecoder *host = decoder->state;
    host->place = *state;
    host->counts = (cusEventCounts){0};
    host->last = raw_nothing();
    host->last.index = state->index;
    return CUS_OK;
}

const RawMethods raw_host = {create, destroy, run, check, getState, setState, NULL};
