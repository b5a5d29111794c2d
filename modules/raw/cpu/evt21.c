/* Prophesee EVT 2.1: 64-bit words. Bits 63..60 are the type; an event word then has t[5:0] x[10:0] y[10:0], and in its
 * lower half one bit for each of the 32 pixels from x on; a time word has the upper 28 bits of the time; a trigger is that
 * of EVT 2.0 in the upper half. The sensors of one generation ("endianness=legacy") write the upper half of each word
 * first. */
#include "raw/cpu/decoders.h"

static inline RawStop decode(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used,
                             size_t upper_half) {
    size_t at = 0;
    RawStop stop = STOP_AT_END;
    raw_emitVector(state, state->vector_x, sink);
    if (state->vector) {
        *used = 0;
        return STOP_FULL;
    }
    for (; at + 8 <= n && stop == STOP_AT_END; at += 8) {
        const uint32_t word = cusi_load32(bytes + at + upper_half), valid = cusi_load32(bytes + at + (4 - upper_half));
        const uint32_t type = cusi_evtType(word);
        if (type <= CUSI_EVT2_ON) {
            if (state->time_high < 0) {
                sink->counts->untimed += (uint64_t)__builtin_popcount(valid);
                continue;
            }
            if (raw_isFull(sink) && valid) {
                stop = STOP_FULL;
                break;
            }
            state->time = cusi_evtTime(state->time_high, word);
            state->vector = valid;
            state->vector_x = cusi_evtX(word);
            state->y = cusi_evtY(word);
            state->vector_p = type;
            raw_emitVector(state, state->vector_x, sink);
            stop = state->vector ? STOP_FULL : STOP_AT_END;
            continue;
        }
        if (type == CUSI_EVT2_TIME_HIGH)
            state->time_high = cusi_unwrapTime(state->time_high, cusi_evtTimeHigh(word), CUSI_EVT_TIME_BITS);
        else if (type == CUSI_EVT2_TRIGGER)
            stop = raw_trigger(sink, word, cusi_evtTriggerId(word), state->time_high >= 0,
                               cusi_evtTime(state->time_high, word));
        else if (type < CUSI_EVT2_OTHERS) /* OTHERS and its continuation, 15, carry no events */
            stop = raw_undefinedWord(sink, type);
        if (stop != STOP_AT_END)
            break;
    }
    *used = at;
    return stop;
}

RawStop raw_decodeEvt21(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used) {
    return decode(state, bytes, n, sink, used, 4);
}

RawStop raw_decodeEvt21Legacy(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used) {
    return decode(state, bytes, n, sink, used, 0);
}
