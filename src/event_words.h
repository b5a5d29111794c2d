/* The words of the raw formats of event cameras, as the decoders and the scans of recordings read them. The upper 4 bits of a
 * word are its type; DAT has records instead. */
#ifndef CUSI_EVENT_WORDS_H
#define CUSI_EVENT_WORDS_H

#include <stdint.h>

#ifdef __CUDACC__
#define CUSI_WORDS_INLINE __host__ __device__ static inline
#else
#define CUSI_WORDS_INLINE static inline
#endif

/* EVT 2.0, words of 32 bits, and EVT 2.1, words of 64 bits, whose upper half is laid out like a word of EVT 2.0 and whose lower
 * half has a bit for each of the 32 pixels from x on. Types past CUSI_EVT2_OTHERS carry no events. */
enum { CUSI_EVT2_OFF = 0, CUSI_EVT2_ON = 1, CUSI_EVT2_TIME_HIGH = 8, CUSI_EVT2_TRIGGER = 10, CUSI_EVT2_OTHERS = 14 };

/* EVT 3.0, words of 16 bits. */
enum {
    CUSI_EVT3_Y = 0,
    CUSI_EVT3_X = 2,
    CUSI_EVT3_VECTOR_BASE = 3,
    CUSI_EVT3_VECTOR_12 = 4,
    CUSI_EVT3_VECTOR_8 = 5,
    CUSI_EVT3_TIME_LOW = 6,
    CUSI_EVT3_CONTINUED_4 = 7,
    CUSI_EVT3_TIME_HIGH = 8,
    CUSI_EVT3_TRIGGER = 10,
    CUSI_EVT3_OTHERS = 14,
    CUSI_EVT3_CONTINUED_12 = 15
};

/* EVT 4.0, words of 32 bits. After a vector comes a word with a bit for each of the 32 pixels from x on. */
enum {
    CUSI_EVT4_OTHERS = 6,
    CUSI_EVT4_CONTINUED = 7,
    CUSI_EVT4_TRIGGER = 9,
    CUSI_EVT4_OFF = 10,
    CUSI_EVT4_ON = 11,
    CUSI_EVT4_VECTOR_OFF = 12,
    CUSI_EVT4_VECTOR_ON = 13,
    CUSI_EVT4_TIME_HIGH = 14,
    CUSI_EVT4_PADDING = 15
};

/* Bits of the time counters. */
enum { CUSI_EVT_TIME_BITS = 28, CUSI_EVT3_TIME_BITS = 12, CUSI_DAT_TIME_BITS = 32 };

/* At any alignment. */
CUSI_WORDS_INLINE uint32_t cusi_load16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
CUSI_WORDS_INLINE uint32_t cusi_load32(const uint8_t *p) {
    return cusi_load16(p) | cusi_load16(p + 2) << 16;
}

/* ---- Fields of a word of 32 bits: EVT 2.0, the upper half of EVT 2.1, EVT 4.0 ---------------------------------------- */

CUSI_WORDS_INLINE uint32_t cusi_evtType(uint32_t word) {
    return word >> 28;
}
CUSI_WORDS_INLINE uint32_t cusi_evtTimeHigh(uint32_t word) {
    return word & 0xfffffff;
}
/* The time of an event or a trigger, in microseconds. */
CUSI_WORDS_INLINE int64_t cusi_evtTime(int64_t time_high, uint32_t word) {
    return (int64_t)((uint64_t)time_high << 6 | (word >> 22 & 63));
}
CUSI_WORDS_INLINE uint32_t cusi_evtX(uint32_t word) {
    return word >> 11 & 2047;
}
CUSI_WORDS_INLINE uint32_t cusi_evtY(uint32_t word) {
    return word & 2047;
}
CUSI_WORDS_INLINE int16_t cusi_evtTriggerId(uint32_t word) {
    return (int16_t)(word >> 8 & 31);
}
CUSI_WORDS_INLINE int cusi_isEvt4Vector(uint32_t word) {
    return word >> 29 == 6;
}

/* EVT 3.0. */
CUSI_WORDS_INLINE int16_t cusi_evt3TriggerId(uint32_t word) {
    return (int16_t)(word >> 8 & 15);
}

/* ---- Time ------------------------------------------------------------------------------------------------------------ */

/* The next value of a counter of `bits` bits after `last` (-1: none). A step back by more than half the range is a wrap. */
CUSI_WORDS_INLINE int64_t cusi_unwrapTime(int64_t last, int64_t value, int bits) {
    const int64_t period = (int64_t)1 << bits;
    if (last < 0)
        return value;
    int64_t next = (last & ~(period - 1)) | value;
    if (next < last && last - next > period / 2)
        next += period;
    return next;
}

#endif
