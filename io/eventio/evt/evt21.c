/* Prophesee EVT 2.1: 64-bit words. Bits 63..60 are the type; an event word then has t[5:0] x[10:0] y[10:0], and in its
 * lower half one bit for each of the 32 pixels from x on; a time word has the upper 28 bits of the time. The sensors of one
 * generation ("endianness=legacy") write the upper half of each word first. */
#include "eventio/evt/decoders.h"
#include "eventio/validate.h"

enum { EVT21_NEGATIVE = 0, EVT21_POSITIVE = 1, EVT21_TIME_HIGH = 8, EVT21_EXT_TRIGGER = 10, EVT21_OTHERS = 14 };

/* Emits the events of the current word for which the sink has room. */
static void emitVector(DecoderState *state, EventSink *sink) {
    while (state->vector && sink->count < sink->capacity) {
        eventio_emit(sink, state->vector_x + (uint32_t)__builtin_ctz(state->vector), state->y, state->vector_p,
                     state->time);
        state->vector &= state->vector - 1;
    }
}

static inline cusStatus decode(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, EventSink *sink,
                               size_t *used, size_t upper_half) {
    size_t at = 0;
    cusStatus status = CUS_OK;
    emitVector(state, sink);
    for (; at + 8 <= n && sink->count < sink->capacity; at += 8) {
        const uint32_t word = eventio_load32(bytes + at + upper_half),
                       valid = eventio_load32(bytes + at + (4 - upper_half));
        const uint32_t type = word >> 28;
        if (type <= EVT21_POSITIVE) {
            if (state->time_high < 0) {
                reader->counts.untimed += (uint64_t)__builtin_popcount(valid);
                continue;
            }
            state->time = state->time_high << 6 | (word >> 22 & 63);
            state->vector = valid;
            state->vector_x = word >> 11 & 2047;
            state->y = word & 2047;
            state->vector_p = type;
            emitVector(state, sink);
        } else if (type == EVT21_TIME_HIGH) {
            state->time_high = eventio_unwrap(state->time_high, word & 0xfffffff, 28);
        } else if (type == EVT21_EXT_TRIGGER) {
            eventio_countTrigger(&reader->counts, word);
        } else if (type < EVT21_OTHERS) { /* OTHERS and its continuation, 15, carry no events */
            status = eventio_undefinedWord(reader, "EVT2.1", type, state->offset + at);
            if (status != CUS_OK)
                break;
        }
    }
    *used = at;
    return status;
}

cusStatus eventio_decodeEvt21(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                              EventSink *sink, size_t *used) {
    (void)at_end;
    return decode(reader, state, bytes, n, sink, used, 4);
}

cusStatus eventio_decodeEvt21Legacy(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                                    EventSink *sink, size_t *used) {
    (void)at_end;
    return decode(reader, state, bytes, n, sink, used, 0);
}

static int isType(uint32_t type) {
    return type <= EVT21_POSITIVE || type == EVT21_TIME_HIGH || type == EVT21_EXT_TRIGGER || type >= EVT21_OTHERS;
}

int eventio_looksLikeEvt21Legacy(const uint8_t *bytes, size_t n) {
    if (n < 8)
        return 0;
    /* Recordings start with the time. In one that does not, masks read as types are often undefined. */
    const int time_last = bytes[7] >> 4 == EVT21_TIME_HIGH, time_first = bytes[3] >> 4 == EVT21_TIME_HIGH;
    if (time_last != time_first)
        return time_first;
    size_t undefined_last = 0, undefined_first = 0;
    for (size_t at = 0; at + 8 <= n; at += 8) {
        undefined_last += !isType(bytes[at + 7] >> 4);
        undefined_first += !isType(bytes[at + 3] >> 4);
    }
    return undefined_first < undefined_last;
}
