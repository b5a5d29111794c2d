/* Prophesee EVT 4.0: 32-bit words. Bits 31..28 are the type; an event word then has t[5:0] x[10:0] y[10:0], a time word the
 * upper 28 bits of the time. After a vector word, laid out like an event, comes one with a bit for each of the 32 pixels
 * from x on. */
#include "eventio/evt/decoders.h"
#include "eventio/validate.h"

enum {
    EVT4_OTHERS = 6,
    EVT4_CONTINUED = 7,
    EVT4_EXT_TRIGGER = 9,
    EVT4_CD_OFF = 10,
    EVT4_CD_ON = 11,
    EVT4_TIME_HIGH = 14,
    EVT4_PADDING = 15
};

/* Emits the events of the current vector for which the sink has room. */
static void emitVector(DecoderState *state, EventSink *sink) {
    while (state->vector && sink->count < sink->capacity) {
        eventio_emit(sink, state->vector_x + (uint32_t)__builtin_ctz(state->vector), state->y, state->vector_p,
                     state->time);
        state->vector &= state->vector - 1;
    }
}

static void startVector(cusEventReader *reader, DecoderState *state, uint32_t word, uint32_t valid) {
    if (state->time_high < 0) {
        reader->counts.untimed += (uint64_t)__builtin_popcount(valid);
        return;
    }
    state->time = state->time_high << 6 | (word >> 22 & 63);
    state->vector = valid;
    state->vector_x = word >> 11 & 2047;
    state->y = word & 2047;
    state->vector_p = word >> 28 & 1;
}

cusStatus eventio_decodeEvt4(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                             EventSink *sink, size_t *used) {
    (void)at_end;
    size_t at = 0;
    cusStatus status = CUS_OK;
    emitVector(state, sink);
    for (; at + 4 <= n && sink->count < sink->capacity; at += 4) {
        const uint32_t word = eventio_load32(bytes + at), type = word >> 28;
        if (type == EVT4_CD_OFF || type == EVT4_CD_ON) {
            if (state->time_high >= 0)
                eventio_emit(sink, word >> 11 & 2047, word & 2047, type & 1, state->time_high << 6 | (word >> 22 & 63));
            else
                ++reader->counts.untimed;
        } else if (eventio_isEvt4Vector(word)) {
            if (at + 8 > n)
                break;
            at += 4;
            startVector(reader, state, word, eventio_load32(bytes + at));
            emitVector(state, sink);
        } else if (type == EVT4_TIME_HIGH) {
            state->time_high = eventio_unwrap(state->time_high, word & 0xfffffff, 28);
        } else if (type == EVT4_EXT_TRIGGER) {
            eventio_countTrigger(&reader->counts, word);
        } else if (type != EVT4_OTHERS && type != EVT4_CONTINUED && type != EVT4_PADDING) { /* these carry no events */
            status = eventio_undefinedWord(reader, "EVT4", type, state->offset + at);
            if (status != CUS_OK)
                break;
        }
    }
    *used = at;
    return status;
}
