/* Prophesee EVT 3.0: 16-bit words that change a state (row, time, base of vectors) or give events relative to it. Bits
 * 15..12 are the type. */
#include "host.h"
#include "raw/cpu/decoders.h"

#include <string.h>

/* Emits the events of the current vector for which the sink has room. Vectors may run past any column: an x past 16 bits
 * becomes CUSI_EVT3_BEYOND, which no sensor has. Inlining slows the loop over all words by 5 %. */
__attribute__((noinline)) static void emitVector(cusEventDecoderState *state, RawSink *sink) {
    const uint32_t first = state->vector_x - state->vector_size;
    while (state->vector && !raw_isFull(sink)) {
        const uint32_t x = first + (uint32_t)__builtin_ctz(state->vector);
        raw_emit(sink, x < CUSI_EVT3_BEYOND ? x : CUSI_EVT3_BEYOND, state->y, state->vector_p, state->time);
        state->vector &= state->vector - 1;
    }
}

/* Starts the word's vector and emits the events that fit. *at moves past the word even if some do not. */
static inline RawStop decodeVector(cusEventDecoderState *state, uint32_t word, uint32_t size, RawSink *sink, size_t *at) {
    const uint32_t vector = cusi_evt3Vector(word, size);
    if (raw_isFull(sink) && vector && state->time_high >= 0)
        return STOP_FULL;
    state->vector_size = size;
    if (state->vector_x < CUSI_EVT3_MAX_X)
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
    const int64_t high = cusi_unwrapTime(state->time_high, cusi_evt3Time(word), CUSI_EVT3_TIME_BITS);
    if (high != state->time_high)
        state->time_low = 0;
    state->time_high = high;
    state->time = high << CUSI_EVT3_LOW_BITS | state->time_low;
}

/* ---- Frequent words
 * --------------------------------------------------------------------------------------------------- */

/* Events of room that a word may need, since four events of a vector are written together. */
enum { ROOM = 16 };

/* For each value of four bits, the indices of its set bits, 16 bits each from the lowest on. */
#define COLUMNS(a, b, c, d) ((uint64_t)(d) << 48 | (uint64_t)(c) << 32 | (uint64_t)(b) << 16 | (a))
static const uint64_t columns[16] = {COLUMNS(0, 0, 0, 0), COLUMNS(0, 0, 0, 0), COLUMNS(1, 0, 0, 0), COLUMNS(0, 1, 0, 0),
                                     COLUMNS(2, 0, 0, 0), COLUMNS(0, 2, 0, 0), COLUMNS(1, 2, 0, 0), COLUMNS(0, 1, 2, 0),
                                     COLUMNS(3, 0, 0, 0), COLUMNS(0, 3, 0, 0), COLUMNS(1, 3, 0, 0), COLUMNS(0, 1, 3, 0),
                                     COLUMNS(2, 3, 0, 0), COLUMNS(0, 2, 3, 0), COLUMNS(1, 2, 3, 0), COLUMNS(0, 1, 2, 3)};
static const uint8_t numbers[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};

/* Appends the events of four bits, the lowest of which is column `first`, without a branch. Assumes a little-endian
 * machine, as all hosts of CUDA are. */
static inline void writeFour(CusiEvents out, size_t *count, uint32_t bits, uint32_t first, uint32_t row, int64_t time) {
    const uint64_t each = 0x0001000100010001, x = columns[bits] + first * each, y = row * each;
    const int64_t t[4] = {time, time, time, time};
    memcpy(out.x + *count, &x, sizeof x);
    memcpy(out.y + *count, &y, sizeof y);
    memcpy(out.t + *count, t, sizeof t);
    *count += numbers[bits];
}

/* What a word of each type changes: the bits of the time and of the row that it sets, and whether it is an event. */
typedef struct Effect {
    int64_t time;
    uint32_t row, is_event;
} Effect;

static const Effect effects[16] = {
    [CUSI_EVT3_Y] = {0, 2047, 0}, [CUSI_EVT3_X] = {0, 0, 1}, [CUSI_EVT3_TIME_LOW] = {4095, 0, 0}};

/* Returns the end of the words that fit if each is one event and there is room for `room` events. */
static inline const uint8_t *stopOf(const uint8_t *at, const uint8_t *end, size_t room) {
    return room < (size_t)(end - at) / 2 ? at + 2 * room : end;
}

/* Splits n event words, in place, into columns and polarities. */
CUSI_MULTIVERSION
static void splitColumns(uint16_t *x, uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        p[i] = x[i] >> 11 & 1;
        x[i] &= 2047;
    }
}

/* Decodes words of the most frequent types until another type follows or a word may not fit. Types follow each other
 * without a pattern, so the loop hardly branches: it writes each word as an event after the last one and counts it only if
 * it is one. Returns the bytes consumed. */
static size_t decodeMost(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink) {
    enum {
        SIMPLE = 1 << CUSI_EVT3_Y | 1 << CUSI_EVT3_X | 1 << CUSI_EVT3_TIME_LOW | 1 << CUSI_EVT3_TIME_HIGH,
        COLUMNS_END = 2048
    };
    if (state->time_high < 0 || sink->capacity < ROOM || sink->count > sink->capacity - ROOM)
        return 0;
    const CusiEvents out = sink->out;
    const size_t last = sink->capacity - ROOM;
    const uint32_t same_high = CUSI_EVT3_TIME_HIGH << 12 | (uint32_t)(state->time_high & 4095);
    int64_t time = state->time;
    uint32_t row = state->y, first = state->vector_x, polarity = state->vector_p << 11;
    size_t count = sink->count;
    const uint8_t *at = bytes, *const end = bytes + (n & ~(size_t)1);
    const uint8_t *stop = stopOf(at, end, last - count);
    for (; at < stop; at += 2) {
        const uint32_t word = cusi_load16(at), type = cusi_evt3Type(word);
        if (SIMPLE >> type & 1) {
            if ((word ^ same_high) - 1 < 4095) /* the upper time changes */
                break;
            const Effect *effect = &effects[type];
            out.x[count] = (uint16_t)word;
            out.y[count] = (uint16_t)row;
            out.t[count] = time;
            count += effect->is_event;
            row ^= (row ^ word) & effect->row;
            time ^= (time ^ word) & effect->time;
            continue;
        }
        if (type == CUSI_EVT3_VECTOR_BASE) {
            first = cusi_evt3Place(word);
            polarity = word & 2048;
            continue;
        }
        const uint32_t size = type == CUSI_EVT3_VECTOR_12 ? 12 : 8;
        if ((type != CUSI_EVT3_VECTOR_12 && type != CUSI_EVT3_VECTOR_8) || first > COLUMNS_END - size)
            break;
        writeFour(out, &count, word & 15, first | polarity, row, time);
        writeFour(out, &count, word >> 4 & 15, (first + 4) | polarity, row, time);
        if (size == 12)
            writeFour(out, &count, word >> 8 & 15, (first + 8) | polarity, row, time);
        first += size;
        state->vector_size = size;
        stop = count > last ? at : stopOf(at, end, last - count);
    }
    splitColumns(out.x + sink->count, out.p + sink->count, count - sink->count);
    state->y = row;
    state->time = time;
    state->time_low = (uint32_t)(time & 4095);
    state->vector_x = first;
    state->vector_p = polarity >> 11;
    sink->count = count;
    return (size_t)(at - bytes);
}

/* ---- All words ------------------------------------------------------------------------------------------------------- */

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
        switch (cusi_evt3Type(word)) {
        case CUSI_EVT3_Y:
            state->y = cusi_evt3Place(word);
            break;
        case CUSI_EVT3_X:
            if (state->time_high < 0)
                ++sink->counts->untimed;
            else if (raw_isFull(sink))
                stop = STOP_FULL;
            else
                raw_emit(sink, cusi_evt3Place(word), state->y, cusi_evt3P(word), state->time);
            break;
        case CUSI_EVT3_VECTOR_BASE:
            state->vector_x = cusi_evt3Place(word);
            state->vector_p = cusi_evt3P(word);
            break;
        case CUSI_EVT3_VECTOR_12:
            stop = decodeVector(state, word, 12, sink, &at);
            break;
        case CUSI_EVT3_VECTOR_8:
            stop = decodeVector(state, word, 8, sink, &at);
            break;
        case CUSI_EVT3_TIME_LOW:
            state->time_low = cusi_evt3Time(word);
            state->time = (state->time_high < 0 ? 0 : state->time_high << CUSI_EVT3_LOW_BITS) | state->time_low;
            break;
        case CUSI_EVT3_TIME_HIGH:
            setTimeHigh(state, word);
            break;
        case CUSI_EVT3_TRIGGER:
            stop = raw_trigger(sink, word, cusi_evt3TriggerId(word), state->time_high >= 0, state->time);
            break;
        case CUSI_EVT3_CONTINUED_4:
        case CUSI_EVT3_OTHERS:
        case CUSI_EVT3_CONTINUED_12: /* these carry no events */
            break;
        default:
            stop = raw_undefinedWord(sink, cusi_evt3Type(word));
        }
        if (stop != STOP_AT_END)
            break;
    }
    *used = at;
    return stop;
}
