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

/* ---- Most words ------------------------------------------------------------------------------------------------------- */

/* Room that a word may need, since four events of a vector are written together. */
enum { ROOM = 16 };

/* Columns of the bits of four, and how many there are. */
static const uint16_t columns[16][4] = {{0}, {0},    {1},    {0, 1},    {2},    {0, 2},    {1, 2},    {0, 1, 2},
                                        {3}, {0, 3}, {1, 3}, {0, 1, 3}, {2, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}};
static const uint8_t numbers[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};

/* Up to where words with one event each fit if there is room for `room`. */
static inline const uint8_t *stopOf(const uint8_t *at, const uint8_t *end, size_t room) {
    return room < (size_t)(end - at) / 2 ? at + 2 * room : end;
}

/* Decodes words until one of them is of another type, or may not fit. The types follow each other without a pattern, so that hardly
 * anything branches: each word writes an event behind the last one, which counts if it is one. Returns the bytes consumed. */
__attribute__((noinline)) static size_t decodeMost(cusEventDecoderState *state, const uint8_t *bytes, size_t n,
                                                   RawSink *sink) {
    enum { SIMPLE = 1 << CUSI_EVT3_Y | 1 << CUSI_EVT3_X | 1 << CUSI_EVT3_TIME_LOW | 1 << CUSI_EVT3_TIME_HIGH };
    if (state->time_high < 0 || sink->capacity < ROOM || sink->count > sink->capacity - ROOM)
        return 0;
    uint16_t *const x = sink->out.x, *const y = sink->out.y;
    uint8_t *const p = sink->out.p;
    int64_t *const t = sink->out.t;
    const size_t last = sink->capacity - ROOM;
    const uint32_t same_high = CUSI_EVT3_TIME_HIGH << 12 | (uint32_t)(state->time_high & 4095);
    int64_t time = state->time;
    uint32_t row = state->y, first = state->vector_x, polarity = state->vector_p;
    size_t count = sink->count;
    const uint8_t *at = bytes, *const end = bytes + (n & ~(size_t)1);
    const uint8_t *stop = stopOf(at, end, last - count);
    for (; at < stop; at += 2) {
        const uint32_t word = cusi_load16(at), type = word >> 12, low = word & 2047;
        if (SIMPLE >> type & 1) {
            if ((word ^ same_high) - 1 < 4095) /* another upper time */
                break;
            x[count] = (uint16_t)low;
            y[count] = (uint16_t)row;
            p[count] = word >> 11 & 1;
            t[count] = time;
            count += type == CUSI_EVT3_X;
            row ^= (row ^ low) & -(uint32_t)(type == CUSI_EVT3_Y);
            time ^= (time ^ word) & (4095 & -(int64_t)(type == CUSI_EVT3_TIME_LOW));
            continue;
        }
        if (type == CUSI_EVT3_VECTOR_BASE) {
            first = low;
            polarity = word >> 11 & 1;
            continue;
        }
        const uint32_t size = type == CUSI_EVT3_VECTOR_12 ? 12 : 8;
        if ((type != CUSI_EVT3_VECTOR_12 && type != CUSI_EVT3_VECTOR_8) || first > CUSI_EVT3_BEYOND / 2)
            break;
        uint32_t vector = word & ((1u << size) - 1);
        for (int k = 0; k < 2; ++k) { /* most vectors have few events */
            x[count] = (uint16_t)(first + (uint32_t)__builtin_ctz(vector | 1u << 31));
            y[count] = (uint16_t)row;
            p[count] = (uint8_t)polarity;
            t[count] = time;
            count += vector != 0;
            vector &= vector - 1;
        }
        for (uint32_t four = first; vector; vector >>= 4, four += 4) {
            const uint16_t *column = columns[vector & 15];
            for (size_t k = 0; k < 4; ++k) {
                x[count + k] = (uint16_t)(four + column[k]);
                y[count + k] = (uint16_t)row;
                p[count + k] = (uint8_t)polarity;
                t[count + k] = time;
            }
            count += numbers[vector & 15];
        }
        first += size;
        state->vector_size = size;
        stop = count > last ? at : stopOf(at, end, last - count);
    }
    state->y = row;
    state->time = time;
    state->time_low = (uint32_t)(time & 4095);
    state->vector_x = first;
    state->vector_p = polarity;
    sink->count = count;
    return (size_t)(at - bytes);
}

/* ---- All words -------------------------------------------------------------------------------------------------------- */

RawStop raw_decodeEvt3(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used) {
    size_t at = 0;
    RawStop stop = STOP_AT_END;
    emitVector(state, sink);
    if (state->vector) {
        *used = 0;
        return STOP_FULL;
    }
    for (;; at += 2) {
        at += decodeMost(state, bytes + at, n - at, sink);
        if (at + 2 > n)
            break;
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
