/* Prophesee EVT 4.0: 32-bit words. Bits 31..28 are the type; an event word then has t[5:0] x[10:0] y[10:0], a time word the
 * upper 28 bits of the time, a trigger what it has in EVT 2.0. After a vector word, laid out like an event, comes one with
 * a bit for each of the 32 pixels from x on. */
#include "raw/cpu/decoders.h"

/* Starts the vector and emits the events that fit. *at moves past the head, or past both words if some events do not
 * fit. */
static RawStop decodeVector(cusEventDecoderState *state, uint32_t word, uint32_t valid, RawSink *sink, size_t *at) {
    if (raw_isFull(sink) && valid && state->time_high >= 0)
        return STOP_FULL;
    *at += 4;
    if (state->time_high < 0) {
        sink->counts->untimed += (uint64_t)__builtin_popcount(valid);
        return STOP_AT_END;
    }
    state->time = cusi_evtTime(state->time_high, word);
    state->vector = valid;
    state->vector_x = cusi_evtX(word);
    state->y = cusi_evtY(word);
    state->vector_p = word >> 28 & 1;
    raw_emitVector(state, state->vector_x, sink);
    *at += state->vector ? 4 : 0;
    return state->vector ? STOP_FULL : STOP_AT_END;
}

RawStop raw_decodeEvt4(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used) {
    size_t at = 0;
    RawStop stop = STOP_AT_END;
    raw_emitVector(state, state->vector_x, sink);
    if (state->vector) {
        *used = 0;
        return STOP_FULL;
    }
    for (; at + 4 <= n; at += 4) {
        const uint32_t word = cusi_load32(bytes + at), type = cusi_evtType(word);
        if (type == CUSI_EVT4_OFF || type == CUSI_EVT4_ON) {
            if (state->time_high < 0)
                ++sink->counts->untimed;
            else if (raw_isFull(sink))
                stop = STOP_FULL;
            else
                raw_emit(sink, cusi_evtX(word), cusi_evtY(word), type & 1, cusi_evtTime(state->time_high, word));
        } else if (cusi_isEvt4Vector(word)) {
            if (at + 8 > n)
                break;
            stop = decodeVector(state, word, cusi_load32(bytes + at + 4), sink, &at);
        } else if (type == CUSI_EVT4_TIME_HIGH) {
            state->time_high = cusi_unwrapTime(state->time_high, cusi_evtTimeHigh(word), CUSI_EVT_TIME_BITS);
        } else if (type == CUSI_EVT4_TRIGGER) {
            stop = raw_trigger(sink, word, cusi_evtTriggerId(word), state->time_high >= 0,
                               cusi_evtTime(state->time_high, word));
        } else if (cusi_isEvt4Undefined(type)) {
            stop = raw_undefinedWord(sink, type);
        }
        if (stop != STOP_AT_END)
            break;
    }
    *used = at;
    return stop;
}
