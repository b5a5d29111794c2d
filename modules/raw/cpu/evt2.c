/* Prophesee EVT 2.0: 32-bit words. Bits 31..28 are the type; an event word then has t[5:0] x[10:0] y[10:0], a time word
 * the upper 28 bits of the time, a trigger t[5:0], bits 12..8 the input and bit 0 the edge. */
#include "raw/cpu/decoders.h"

RawStop raw_decodeEvt2(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used) {
    size_t at = 0;
    RawStop stop = STOP_AT_END;
    for (; at + 4 <= n; at += 4) {
        const uint32_t word = cusi_load32(bytes + at), type = cusi_evtType(word);
        if (type <= CUSI_EVT2_ON) {
            if (state->time_high < 0) {
                ++sink->counts->untimed;
                continue;
            }
            if (raw_isFull(sink)) {
                stop = STOP_FULL;
                break;
            }
            raw_emit(sink, cusi_evtX(word), cusi_evtY(word), type, cusi_evtTime(state->time_high, word));
        } else if (type == CUSI_EVT2_TIME_HIGH) {
            state->time_high = cusi_unwrapTime(state->time_high, cusi_evtTimeHigh(word), CUSI_EVT_TIME_BITS);
        } else if (type == CUSI_EVT2_TRIGGER) {
            stop = raw_trigger(sink, word, cusi_evtTriggerId(word), state->time_high >= 0,
                               cusi_evtTime(state->time_high, word));
        } else if (type < CUSI_EVT2_OTHERS) { /* OTHERS and its continuation, 15, carry no events */
            stop = raw_undefinedWord(sink, type);
        }
        if (stop != STOP_AT_END)
            break;
    }
    *used = at;
    return stop;
}
