/* Prophesee EVT 3.0: 16-bit words that change a state (row, time, base of vectors) or give events relative to it. Bits
 * 15..12 are the type. */
#include "raw/cpu/decoders.h"

/* Emits the events of the current vector for which the sink has room. Nothing limits how far vectors run on: an x past 16
 * bits becomes CUSI_EVT3_BEYOND, which no sensor has. Inlined, it makes the loop over all words 5 % slower. */
__attribute__((noinline)) static void emitVector(cusEventDecoderState *state, RawSink *sink) {
    const uint32_t first = state->vector_x - state->vector_size;
    while (state->vector && !raw_isFull(sink)) {
        const uint32_t x = first + (uint32_t)__builtin_ctz(state->vector);
        raw_emit(sink, x < CUSI_EVT3_BEYOND ? x : CUSI_EVT3_BEYOND, state->y, state->vector_p, state->time);
        state->vector &= state->vector - 1;
    }
}

/* Starts the vector of the word and emits what fits. *at: moved past the word if some of it does not. */
static inline RawStop decodeVector(cusEventDecoderState *state, uint32_t word, uint32_t size, RawSink *sink, size_t *at) {
    const uint32_t vector = word & ((1u << size) - 1);
    if (raw_isFull(sink) && vector && state->time_high >= 0)
        return STOP_FULL;
    state->vector_size = size;
    if (state->vector_x < 2 * CUSI_EVT3_BEYOND) /* the sum must not wrap */
        state->vector_x += size;
    if (state->time_high < 0) {
        sink->counts->untimed += (uint64_t)__builtin_popcount(vector);
        return STOP_AT_END;
    }
    state->vector = vector;
    emitVector(state, sink);
    *at += state->vector ? 2 : 0;
    return state->vector ? STOP_FULL : STOP_AT_END;
}

/* A new upper part restarts the lower part at zero; a repeated one changes nothing. */
static void setTimeHigh(cusEventDecoderState *state, uint32_t word) {
    const int64_t high = cusi_unwrapTime(state->time_high, word & 4095, CUSI_EVT3_TIME_BITS);
    if (high != state->time_high)
        state->time_low = 0;
    state->time_high = high;
    state->time = high << 12 | state->time_low;
}

RawStop raw_decodeEvt3(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used) {
    size_t at = 0;
    RawStop stop = STOP_AT_END;
    emitVector(state, sink);
    if (state->vector) {
        *used = 0;
        return STOP_FULL;
    }
    for (; at + 2 <= n; at += 2) {
        const uint32_t word = cusi_load16(bytes + at);
        switch (word >> 12) {
        case CUSI_EVT3_Y:
            state->y = word & 2047;
            break;
        case CUSI_EVT3_X:
            if (state->time_high < 0)
                ++sink->counts->untimed;
            else if (raw_isFull(sink))
                stop = STOP_FULL;
            else
                raw_emit(sink, word & 2047, state->y, word >> 11 & 1, state->time);
            break;
        case CUSI_EVT3_VECTOR_BASE:
            state->vector_x = word & 2047;
            state->vector_p = word >> 11 & 1;
            break;
        case CUSI_EVT3_VECTOR_12:
            stop = decodeVector(state, word, 12, sink, &at);
            break;
        case CUSI_EVT3_VECTOR_8:
            stop = decodeVector(state, word, 8, sink, &at);
            break;
        case CUSI_EVT3_TIME_LOW:
            state->time_low = word & 4095;
            state->time = (state->time_high < 0 ? 0 : state->time_high << 12) | state->time_low;
            break;
        case CUSI_EVT3_TIME_HIGH:
            setTimeHigh(state, word);
            break;
        case CUSI_EVT3_TRIGGER:
            stop = raw_trigger(sink, word, cusi_evt3TriggerId(word), state->time_high >= 0, state->time);
            break;
        case CUSI_EVT3_CONTINUED_4:
        case CUSI_EVT3_OTHERS:
        case CUSI_EVT3_CONTINUED_12: /* no events in these */
            break;
        default:
            stop = raw_undefinedWord(sink, word >> 12);
        }
        if (stop != STOP_AT_END)
            break;
    }
    *used = at;
    return stop;
}
