/* Prophesee EVT 3.0: 16-bit words that change a state (row, time, base of vectors) or give events relative to it. Bits
 * 15..12 are the type. */
#include "eventio/evt/decoders.h"
#include "eventio/validate.h"

enum {
    EVT3_ADDR_Y = 0,
    EVT3_ADDR_X = 2,
    EVT3_VECT_BASE_X = 3,
    EVT3_VECT_12 = 4,
    EVT3_VECT_8 = 5,
    EVT3_TIME_LOW = 6,
    EVT3_CONTINUED_4 = 7,
    EVT3_TIME_HIGH = 8,
    EVT3_EXT_TRIGGER = 10,
    EVT3_OTHERS = 14,
    EVT3_CONTINUED_12 = 15
};

/* Emits the events of the current vector for which the sink has room. Nothing limits how far vectors run on: an x past 16
 * bits becomes EVENTIO_EVT3_BEYOND, which no sensor has. Inlined, it makes the loop over all words 5 % slower. */
__attribute__((noinline)) static void emitVector(DecoderState *state, EventSink *sink) {
    const uint32_t first = state->vector_x - state->vector_size;
    while (state->vector && sink->count < sink->capacity) {
        const uint32_t x = first + (uint32_t)__builtin_ctz(state->vector);
        eventio_emit(sink, x < EVENTIO_EVT3_BEYOND ? x : EVENTIO_EVT3_BEYOND, state->y, state->vector_p, state->time);
        state->vector &= state->vector - 1;
    }
}

/* A new upper part restarts the lower part at zero; a repeated one changes nothing. */
static void setTimeHigh(DecoderState *state, uint32_t word) {
    const int64_t high = eventio_unwrap(state->time_high, word & 4095, 12);
    if (high != state->time_high)
        state->time_low = 0;
    state->time_high = high;
    state->time = high << 12 | state->time_low;
}

cusStatus eventio_decodeEvt3(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                             EventSink *sink, size_t *used) {
    (void)at_end;
    size_t at = 0;
    cusStatus status = CUS_OK;
    emitVector(state, sink);
    for (; at + 2 <= n && sink->count < sink->capacity; at += 2) {
        const uint32_t word = eventio_load16(bytes + at), type = word >> 12;
        switch (type) {
        case EVT3_ADDR_Y:
            state->y = word & 2047;
            break;
        case EVT3_ADDR_X:
            if (state->time_high >= 0)
                eventio_emit(sink, word & 2047, state->y, word >> 11 & 1, state->time);
            else
                ++reader->counts.untimed;
            break;
        case EVT3_VECT_BASE_X:
            state->vector_x = word & 2047;
            state->vector_p = word >> 11 & 1;
            break;
        case EVT3_VECT_12:
        case EVT3_VECT_8:
            state->vector_size = type == EVT3_VECT_12 ? 12 : 8;
            state->vector = word & ((1u << state->vector_size) - 1);
            if (state->vector_x < 2 * EVENTIO_EVT3_BEYOND) /* the sum must not wrap */
                state->vector_x += state->vector_size;
            if (state->time_high < 0) {
                reader->counts.untimed += (uint64_t)__builtin_popcount(state->vector);
                state->vector = 0;
            }
            emitVector(state, sink);
            break;
        case EVT3_TIME_LOW:
            state->time_low = word & 4095;
            state->time = (state->time_high < 0 ? 0 : state->time_high << 12) | state->time_low;
            break;
        case EVT3_TIME_HIGH:
            setTimeHigh(state, word);
            break;
        case EVT3_EXT_TRIGGER:
            eventio_countTrigger(&reader->counts, word);
            break;
        case EVT3_CONTINUED_4:
        case EVT3_OTHERS:
        case EVT3_CONTINUED_12: /* no events in these */
            break;
        default:
            status = eventio_undefinedWord(reader, "EVT3", type, state->offset + at);
        }
        if (status != CUS_OK)
            break;
    }
    *used = at;
    return status;
}
