/* The decoders of the host backend, a function for each format. They know words and capacities; others check the events. */
#ifndef CUSI_RAW_CPU_DECODERS_H
#define CUSI_RAW_CPU_DECODERS_H

#include "event_checks.h"
#include "event_words.h"

typedef struct RawSink {
    CusiEvents out;
    size_t count, capacity;
    cusEventTrigger *triggers; /* NULL: only counted */
    size_t trigger_count, trigger_capacity;
    cusEventCounts *counts;
    int skip_undefined;      /* count undefined words instead of stopping */
    uint32_t undefined_type; /* type of the word at which decoding stopped with STOP_UNDEFINED */
} RawSink;

/* Why a decoder stopped. */
typedef enum RawStop {
    STOP_AT_END,        /* fewer bytes are left than a word */
    STOP_FULL,          /* the next event does not fit */
    STOP_TRIGGERS_FULL, /* the next trigger does not fit */
    STOP_UNDEFINED      /* the next word is of an undefined type */
} RawStop;

/* Decodes words of the n bytes; *used returns the bytes consumed. The caller advances state->offset and state->index. */
typedef RawStop (*RawDecode)(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used);

RawStop raw_decodeEvt2(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used);
RawStop raw_decodeEvt21(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used);
/* Does the same with the halves of each word swapped. */
RawStop raw_decodeEvt21Legacy(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used);
RawStop raw_decodeEvt3(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used);
RawStop raw_decodeEvt4(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used);
RawStop raw_decodeDat(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used);

/* ---- For the decoders ------------------------------------------------------------------------------------------------ */

static inline int raw_isFull(const RawSink *sink) {
    return sink->count == sink->capacity;
}

static inline void raw_emit(RawSink *sink, uint32_t x, uint32_t y, uint32_t p, int64_t t) {
    const size_t i = sink->count++;
    sink->out.x[i] = (uint16_t)x;
    sink->out.y[i] = (uint16_t)y;
    sink->out.p[i] = (uint8_t)p;
    sink->out.t[i] = t;
}

/* Emits the events of the current vector for which the sink has room. Its lowest bit is column `first`. */
static inline void raw_emitVector(cusEventDecoderState *state, uint32_t first, RawSink *sink) {
    while (state->vector && !raw_isFull(sink)) {
        raw_emit(sink, first + (uint32_t)__builtin_ctz(state->vector), state->y, state->vector_p, state->time);
        state->vector &= state->vector - 1;
    }
}

/* Counts a trigger, whose edge is the word's lowest bit, and delivers it if it has a time. */
static inline RawStop raw_trigger(RawSink *sink, uint32_t word, int16_t id, int timed, int64_t t) {
    if (timed && sink->triggers) {
        if (sink->trigger_count == sink->trigger_capacity)
            return STOP_TRIGGERS_FULL;
        sink->triggers[sink->trigger_count++] = (cusEventTrigger){.t = t, .id = id, .value = word & 1};
    }
    ++*(word & 1 ? &sink->counts->triggers_rising : &sink->counts->triggers_falling);
    return STOP_AT_END;
}

static inline RawStop raw_undefinedWord(RawSink *sink, uint32_t type) {
    if (sink->skip_undefined) {
        ++sink->counts->bad_words;
        return STOP_AT_END;
    }
    sink->undefined_type = type;
    return STOP_UNDEFINED;
}

#endif
