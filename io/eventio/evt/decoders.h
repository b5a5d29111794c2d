/* Decoders of formats without an index, which must be decoded from front to back: binary words (text.h: lines of text).
 *
 * Each decoder is one function. DecoderState holds all that it remembers between two words, so a copy of that struct is
 * a place to continue from. words.c feeds the decoders and keeps such copies as checkpoints. */
#ifndef CUSI_EVENTIO_EVT_DECODERS_H
#define CUSI_EVENTIO_EVT_DECODERS_H

#include "eventio/recording.h"

typedef struct DecoderState {
    uint64_t offset;   /* next byte in the file */
    uint64_t index;    /* next event */
    int64_t time_high; /* last time word, unwrapped, in its own ticks; -1 before the first */
    int64_t time;      /* microseconds: last event or time word */
    uint64_t line;     /* text: lines passed */
    /* EVT3: lower time bits, current row, x after the last vector, polarity of vectors, and the events of the last vector
     * that are still to be delivered: one bit each, from x = vector_x - vector_size on; EVT2.1, EVT4: from vector_x on. */
    uint32_t time_low, y, vector_x, vector_p, vector, vector_size;
} DecoderState;

/* Where decoded events go. */
typedef struct EventSink {
    EventArrays out;
    size_t count, capacity;
} EventSink;

/* Decodes words from bytes 0 .. n-1, which start at state->offset in the file, until they or the sink's capacity run out.
 * *used: the bytes consumed. at_end: the file has no more bytes. The caller advances state->offset and index. */
typedef cusStatus (*DecodeFunction)(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                                    EventSink *sink, size_t *used);

cusStatus eventio_decodeEvt2(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                             EventSink *sink, size_t *used);
cusStatus eventio_decodeEvt21(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                              EventSink *sink, size_t *used);
/* The same with the halves of each word swapped. */
cusStatus eventio_decodeEvt21Legacy(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                                    EventSink *sink, size_t *used);
/* Whether the words look like those of the legacy order, for a file whose header does not say. */
int eventio_looksLikeEvt21Legacy(const uint8_t *bytes, size_t n);
cusStatus eventio_decodeEvt3(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                             EventSink *sink, size_t *used);
cusStatus eventio_decodeEvt4(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                             EventSink *sink, size_t *used);
/* Whether the next word of EVT4 is a mask. */
static inline int eventio_isEvt4Vector(uint32_t word) {
    return word >> 29 == 6; /* types 12 and 13 */
}
cusStatus eventio_decodeDat(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                            EventSink *sink, size_t *used);

/* ---- For the decoders ---------------------------------------------------------------------------------------------- */

static inline void eventio_emit(EventSink *sink, uint32_t x, uint32_t y, uint32_t p, int64_t t) {
    const size_t i = sink->count++;
    sink->out.x[i] = (uint16_t)x;
    sink->out.y[i] = (uint16_t)y;
    sink->out.p[i] = (uint8_t)p;
    sink->out.t[i] = t;
}

static inline uint32_t eventio_load16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
static inline uint32_t eventio_load32(const uint8_t *p) {
    return eventio_load16(p) | eventio_load16(p + 2) << 16;
}

/* The next value of a counter of `bits` bits after `last` (-1: none). A step back by more than half the range is a wrap. */
static inline int64_t eventio_unwrap(int64_t last, int64_t value, int bits) {
    const int64_t period = (int64_t)1 << bits;
    if (last < 0)
        return value;
    int64_t next = (last & ~(period - 1)) | value;
    if (next < last && last - next > period / 2)
        next += period;
    return next;
}

/* Counts an external trigger word, whose lowest bit is the edge. */
static inline void eventio_countTrigger(cusEventCounts *counts, uint32_t word) {
    ++*(word & 1 ? &counts->triggers_rising : &counts->triggers_falling);
}

#endif
