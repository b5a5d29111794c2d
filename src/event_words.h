/* The words of the raw formats of event cameras, for the host's decoders, the scans of recordings and the kernels: their
 * fields, and what consecutive words do to a decoder's state. The upper 4 bits of a word are its type; DAT has records
 * instead. */
#ifndef CUSI_EVENT_WORDS_H
#define CUSI_EVENT_WORDS_H

#include <stdint.h>

#ifdef __CUDACC__
#define CUSI_WORDS_INLINE __host__ __device__ static __forceinline__
#else
#define CUSI_WORDS_INLINE static inline
#endif

/* EVT 2.0, words of 32 bits, and EVT 2.1, words of 64 bits, whose upper half is laid out like a word of EVT 2.0 and whose
 * lower half has a bit for each of the 32 pixels from x on. Types past CUSI_EVT2_OTHERS carry no events. */
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

/* The x that EVT 3.0's decoder gives to events past it. Addresses have 11 bits, so it lies off every sensor of that
 * format. */
enum { CUSI_EVT3_BEYOND = 65535 };

/* Bits of the time counters in time words. */
enum { CUSI_EVT_TIME_BITS = 28, CUSI_EVT3_TIME_BITS = 12, CUSI_DAT_TIME_BITS = 32 };
/* Bits of the time below those counters. */
enum { CUSI_EVT_LOW_BITS = 6, CUSI_EVT3_LOW_BITS = 12 };

/* Loads a little-endian word at any alignment. */
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
/* Returns the lower bits of the time of an event or a trigger. */
CUSI_WORDS_INLINE uint32_t cusi_evtTimeLow(uint32_t word) {
    return word >> 22 & 63;
}
/* Returns that time in microseconds. */
CUSI_WORDS_INLINE int64_t cusi_evtTime(int64_t time_high, uint32_t word) {
    return (int64_t)((uint64_t)time_high << CUSI_EVT_LOW_BITS | cusi_evtTimeLow(word));
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
CUSI_WORDS_INLINE int cusi_isEvt4Undefined(uint32_t type) {
    return type < CUSI_EVT4_OTHERS || type == 8;
}

/* ---- Fields of a word of EVT 3.0 ------------------------------------------------------------------------------------- */

CUSI_WORDS_INLINE uint32_t cusi_evt3Type(uint32_t word) {
    return word >> 12;
}
/* Both time words have this field. */
CUSI_WORDS_INLINE uint32_t cusi_evt3Time(uint32_t word) {
    return word & 4095;
}
/* Returns a row, a column, or the first column of vectors. */
CUSI_WORDS_INLINE uint32_t cusi_evt3Place(uint32_t word) {
    return word & 2047;
}
/* Words of events and of vectors have this field. */
CUSI_WORDS_INLINE uint32_t cusi_evt3P(uint32_t word) {
    return word >> 11 & 1;
}
/* Returns how many columns a vector of this type has; 0 for other words. */
CUSI_WORDS_INLINE uint32_t cusi_evt3Columns(uint32_t type) {
    return type == CUSI_EVT3_VECTOR_12 ? 12 : type == CUSI_EVT3_VECTOR_8 ? 8 : 0;
}
/* Returns a bit for each event of a vector of `columns` columns. */
CUSI_WORDS_INLINE uint32_t cusi_evt3Vector(uint32_t word, uint32_t columns) {
    return word & ((1u << columns) - 1);
}
CUSI_WORDS_INLINE int16_t cusi_evt3TriggerId(uint32_t word) {
    return (int16_t)(word >> 8 & 15);
}

/* ---- The second half of a record of DAT; the first is the time ------------------------------------------------------- */

CUSI_WORDS_INLINE uint32_t cusi_datX(uint32_t word) {
    return word & 16383;
}
CUSI_WORDS_INLINE uint32_t cusi_datY(uint32_t word) {
    return word >> 14 & 16383;
}
CUSI_WORDS_INLINE uint32_t cusi_datP(uint32_t word) {
    return word >> 28;
}

/* ---- Time ------------------------------------------------------------------------------------------------------------ */

/* Unwraps the next value of a counter of `bits` bits after `last` (-1: none). A step back by more than half the range is a
 * wrap. */
CUSI_WORDS_INLINE int64_t cusi_unwrapTime(int64_t last, int64_t value, int bits) {
    const int64_t period = (int64_t)1 << bits;
    if (last < 0)
        return value;
    int64_t next = (last & ~(period - 1)) | value;
    if (next < last && last - next > period / 2)
        next += period;
    return next;
}

/* ---- Runs of words ------------------------------------------------------------------------------------------------------
 *
 * A run of consecutive words sets some fields of the decoder's state and leaves the others, whatever they are. So runs are
 * measured independently, joined in any grouping, and then applied to the state before them. */

#define CUSI_UNSET UINT32_MAX

/* A run's events and time words. The lower bits of the time come from words of their own or from the last event; a time
 * word that changes the counter sets them to 0. */
typedef struct CusiTimeRun {
    uint32_t events, early;      /* all events; those before the first time word, if any */
    uint32_t timed;              /* whether there is a time word */
    uint32_t first, last, wraps; /* values of time words, and wraps between them */
    uint32_t early_low, low;     /* lower bits before the first time word and after it; or CUSI_UNSET */
} CusiTimeRun;

CUSI_WORDS_INLINE int cusi_isTimeWrap(uint32_t last, uint32_t next, int bits) {
    return last > next && last - next > 1u << (bits - 1);
}
CUSI_WORDS_INLINE void cusi_addTime(CusiTimeRun *run, uint32_t value, int bits) {
    if (!run->timed) {
        run->first = value;
        run->early = run->events;
        run->timed = 1;
    } else if (value != run->last) {
        run->low = 0;
        run->wraps += (uint32_t)cusi_isTimeWrap(run->last, value, bits);
    }
    run->last = value;
}
CUSI_WORDS_INLINE void cusi_appendTimes(CusiTimeRun *run, const CusiTimeRun *next, int bits) {
    const uint32_t first_low = next->early_low != CUSI_UNSET ? next->early_low : run->timed ? run->low : run->early_low;
    if (!run->timed) {
        run->early_low = first_low;
        run->low = next->low;
        run->early = run->events + (next->timed ? next->early : 0);
        run->first = next->first;
    } else {
        run->low = !next->timed               ? first_low
                   : next->low != CUSI_UNSET  ? next->low
                   : run->last != next->first ? 0
                                              : first_low;
        run->wraps += (uint32_t)(next->timed && cusi_isTimeWrap(run->last, next->first, bits));
    }
    run->wraps += next->wraps;
    run->last = next->timed ? next->last : run->last;
    run->timed |= next->timed;
    run->events += next->events;
}

/* EVT 3.0: the row, and where vectors continue. */
typedef struct CusiRowRun {
    uint32_t y; /* row, or CUSI_UNSET */
    uint32_t x; /* with CUSI_EVT3_BASE a column and a polarity, otherwise columns passed */
} CusiRowRun;

#define CUSI_EVT3_BASE     0x80000000u
#define CUSI_EVT3_POSITIVE 0x40000000u
#define CUSI_EVT3_COLUMNS  0x3fffffffu
enum { CUSI_EVT3_MAX_X = 2 * CUSI_EVT3_BEYOND }; /* vectors stop here, so that no sum wraps */

CUSI_WORDS_INLINE uint32_t cusi_lesser(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}
CUSI_WORDS_INLINE uint32_t cusi_evt3Base(uint32_t word) {
    return CUSI_EVT3_BASE | (cusi_evt3P(word) ? CUSI_EVT3_POSITIVE : 0) | cusi_evt3Place(word);
}
CUSI_WORDS_INLINE void cusi_passColumns(CusiRowRun *run, uint32_t columns) {
    run->x += (run->x & CUSI_EVT3_COLUMNS) < CUSI_EVT3_MAX_X ? columns : 0;
}
CUSI_WORDS_INLINE void cusi_appendRows(CusiRowRun *run, const CusiRowRun *next) {
    run->y = next->y != CUSI_UNSET ? next->y : run->y;
    run->x = next->x & CUSI_EVT3_BASE ? next->x
                                      : (run->x & ~CUSI_EVT3_COLUMNS) |
                                            cusi_lesser((run->x & CUSI_EVT3_COLUMNS) + next->x, CUSI_EVT3_MAX_X + 11);
}

#endif
