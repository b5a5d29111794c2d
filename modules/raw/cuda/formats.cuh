// The words of each format: what consecutive words do to a decoder's state without knowing it (Segment, built on
// event_words.h), and what each word is once the state is known (Now). EVT3's fields that depend on the type are written
// out: a helper function changes the kernels.
#ifndef CUSI_RAW_CUDA_FORMATS_CUH
#define CUSI_RAW_CUDA_FORMATS_CUH

#include "event_checks.h"
#include "event_words.h"

namespace cusi::raw {

// ---- What words do to the state

struct Times : CusiTimeRun {
    constexpr __device__ __forceinline__ Times() : CusiTimeRun{0, 0, 0, 0, 0, 0, CUSI_UNSET, CUSI_UNSET} {}
    template<int BITS>
    __device__ __forceinline__ void time(uint32_t value) {
        cusi_addTime(this, value, BITS);
    }
    __device__ __forceinline__ void setLow(uint32_t value) { (timed ? low : early_low) = value; }

    // Appends b's words to this segment's.
    template<int BITS>
    __device__ __forceinline__ void append(const Times &b) {
        cusi_appendTimes(this, &b, BITS);
    }
    __device__ __forceinline__ uint32_t earlyEvents() const { return timed ? early : events; }
};

struct Rows : CusiRowRun {
    constexpr __device__ __forceinline__ Rows() : CusiRowRun{CUSI_UNSET, 0} {}
    __device__ __forceinline__ void pass(uint32_t columns) { cusi_passColumns(this, columns); }
    __device__ __forceinline__ void append(const Rows &b) { cusi_appendRows(this, &b); }
};
struct NoRows {
    __device__ __forceinline__ void append(const NoRows &) {}
};

template<class Format>
struct Segment {
    Times times;
    typename Format::Rows rows;
    __device__ __forceinline__ void append(const Segment &b) {
        times.append<Format::TIME_BITS>(b.times);
        rows.append(b.rows);
    }
};
// The operator of CUB's scans and reductions.
struct Append {
    template<class T>
    __device__ __forceinline__ T operator()(const T &a, const T &b) const {
        T both = a;
        both.append(b);
        return both;
    }
};

// Counts of triggers and undefined words, which are rare.
struct RareWords {
    uint32_t triggers = 0, early_triggers = 0, rising = 0, undefined = 0; // early: before the first time word
    __device__ __forceinline__ bool any() const { return triggers | undefined; }
};

// ---- The state before a word

struct Now {
    int64_t high; // last time word, unwrapped; -1: none yet
    uint32_t low, y, x, p;
    bool open; // EVT4: the next word is a vector's mask
};

template<class Format>
__device__ __forceinline__ Now nowAfter(const cusEventDecoderState &place, uint32_t low, const Segment<Format> &s) {
    Now now = {place.time_high, low, place.y, place.vector_x, place.vector_p, false};
    const Times &t = s.times;
    const uint32_t first_low = t.early_low != CUSI_UNSET ? t.early_low : low;
    now.low = first_low;
    if (t.timed) {
        const int64_t first = cusi_unwrapTime(place.time_high, t.first, Format::TIME_BITS);
        now.high = ((first >> Format::TIME_BITS) + t.wraps) << Format::TIME_BITS | t.last;
        now.low = t.low != CUSI_UNSET ? t.low : first != place.time_high ? 0 : first_low;
    }
    if constexpr (Format::HAS_ROWS) {
        Rows rows;
        rows.y = place.y;
        rows.x = CUSI_EVT3_BASE | (place.vector_p ? CUSI_EVT3_POSITIVE : 0) | place.vector_x;
        rows.append(s.rows);
        now.y = rows.y;
        now.p = rows.x & CUSI_EVT3_POSITIVE ? 1 : 0;
        now.x = rows.x & CUSI_EVT3_COLUMNS;
    }
    return now;
}

// ---- Formats. `a` is the word, or the first half of a word of 8 bytes; `b` is the second half. measure() adds a word to a
// segment. step() applies it to a state and reports what it is to a sink:
//
//   sink.events(x, y, p, t, mask)   events in columns x + i for each set bit i; none if the mask is 0
//   sink.time(t)                    a time word
//   sink.untimed(n)                 events without a time
//   sink.trigger(t, id, value, timed)
//   sink.undefined(type)

// EVT 2.0 words, which are also the upper halves of EVT 2.1 words.
struct Words32 {
    using Rows = NoRows;
    static constexpr bool HAS_ROWS = false;
    static constexpr int TIME_BITS = CUSI_EVT_TIME_BITS;
    static constexpr int LOW_BITS = CUSI_EVT_LOW_BITS;

    static __device__ __forceinline__ void measureEvents(Times &times, uint32_t head, uint32_t mask) {
        times.events += __popc(mask);
        if (mask)
            times.setLow(cusi_evtTimeLow(head));
    }
    static __device__ __forceinline__ void measureTrigger(const Times &times, uint32_t word, RareWords &rare) {
        ++rare.triggers;
        rare.early_triggers += !times.timed;
        rare.rising += word & 1;
    }
    template<class Sink>
    static __device__ __forceinline__ void stepEvents(Now &now, uint32_t head, uint32_t p, uint32_t mask, Sink &sink) {
        if (now.high < 0)
            sink.untimed(__popc(mask));
        else
            sink.events(cusi_evtX(head), cusi_evtY(head), p, cusi_evtTime(now.high, head), mask);
        if (mask)
            now.low = head >> 22 & 63;
    }
    template<class Sink>
    static __device__ __forceinline__ void stepTime(Now &now, uint32_t word, Sink &sink) {
        const int64_t high = cusi_unwrapTime(now.high, cusi_evtTimeHigh(word), TIME_BITS);
        now.low = high != now.high ? 0 : now.low;
        now.high = high;
        sink.time(high << LOW_BITS);
    }
    template<class Sink>
    static __device__ __forceinline__ void stepTrigger(const Now &now, uint32_t word, Sink &sink) {
        sink.trigger(cusi_evtTime(now.high, word), cusi_evtTriggerId(word), word & 1, now.high >= 0);
    }
};

template<int BYTES, bool LEGACY = false>
struct Evt2 : Words32 {
    static constexpr int WORD = BYTES;
    static __device__ __forceinline__ uint32_t head(uint32_t a, uint32_t b) { return BYTES == 4 || LEGACY ? a : b; }
    static __device__ __forceinline__ uint32_t mask(uint32_t a, uint32_t b) { return BYTES == 4 ? 1 : LEGACY ? b : a; }

    static __device__ __forceinline__ void measure(Segment<Evt2> &s, bool &, uint32_t a, uint32_t b, RareWords &rare) {
        const uint32_t word = head(a, b), type = cusi_evtType(word);
        if (type <= CUSI_EVT2_ON)
            measureEvents(s.times, word, mask(a, b));
        else if (type == CUSI_EVT2_TIME_HIGH)
            s.times.time<TIME_BITS>(cusi_evtTimeHigh(word));
        else if (type == CUSI_EVT2_TRIGGER)
            measureTrigger(s.times, word, rare);
        else
            rare.undefined += type < CUSI_EVT2_OTHERS;
    }
    template<class Sink>
    static __device__ __forceinline__ void step(Now &now, uint32_t a, uint32_t b, Sink &sink) {
        const uint32_t word = head(a, b), type = cusi_evtType(word);
        if (type <= CUSI_EVT2_ON)
            stepEvents(now, word, type, mask(a, b), sink);
        else if (type == CUSI_EVT2_TIME_HIGH)
            stepTime(now, word, sink);
        else if (type == CUSI_EVT2_TRIGGER)
            stepTrigger(now, word, sink);
        else if (type < CUSI_EVT2_OTHERS)
            sink.undefined(type);
    }
};
using Evt20 = Evt2<4>;
using Evt21 = Evt2<8>;
using Evt21Legacy = Evt2<8, true>;

// A vector's events belong to the word that is its mask; `open` is set between its head and that word.
struct Evt4 : Words32 {
    static constexpr int WORD = 4;

    // `b` is the word before `a`.
    static __device__ __forceinline__ void measure(Segment<Evt4> &s, bool &open, uint32_t a, uint32_t b, RareWords &rare) {
        const uint32_t type = cusi_evtType(a);
        if (open)
            measureEvents(s.times, b, a);
        else if (type == CUSI_EVT4_OFF || type == CUSI_EVT4_ON)
            measureEvents(s.times, a, 1);
        else if (type == CUSI_EVT4_TIME_HIGH)
            s.times.time<TIME_BITS>(cusi_evtTimeHigh(a));
        else if (type == CUSI_EVT4_TRIGGER)
            measureTrigger(s.times, a, rare);
        else
            rare.undefined += cusi_isEvt4Undefined(type);
        open = !open && cusi_isEvt4Vector(a);
    }
    template<class Sink>
    static __device__ __forceinline__ void step(Now &now, uint32_t a, uint32_t b, Sink &sink) {
        const uint32_t type = cusi_evtType(a);
        if (now.open)
            stepEvents(now, b, b >> 28 & 1, a, sink);
        else if (type == CUSI_EVT4_OFF || type == CUSI_EVT4_ON)
            stepEvents(now, a, type & 1, 1, sink);
        else if (type == CUSI_EVT4_TIME_HIGH)
            stepTime(now, a, sink);
        else if (type == CUSI_EVT4_TRIGGER)
            stepTrigger(now, a, sink);
        else if (cusi_isEvt4Undefined(type))
            sink.undefined(type);
        now.open = !now.open && cusi_isEvt4Vector(a);
    }
};

struct Evt3 {
    using Rows = cusi::raw::Rows;
    static constexpr bool HAS_ROWS = true;
    static constexpr int WORD = 2, TIME_BITS = CUSI_EVT3_TIME_BITS, LOW_BITS = CUSI_EVT3_LOW_BITS;

    // Returns whether the type is a time, a trigger or undefined, which is rare. The other types follow each other
    // unpredictably, so they are handled without branches.
    static __device__ __forceinline__ bool isRare(uint32_t type) {
        return (0x3a02u /* undefined: 1, 9, 11, 12, 13 */ | 1u << CUSI_EVT3_TIME_HIGH | 1u << CUSI_EVT3_TRIGGER) >> type &
               1;
    }
    // Returns a bit for each event of the word; bit 0 alone for a single event.
    static __device__ __forceinline__ uint32_t maskOf(uint32_t word, uint32_t type) {
        return type == CUSI_EVT3_X ? 1 : cusi_evt3Vector(word, cusi_evt3Columns(type));
    }
    static __device__ __forceinline__ void measure(Segment<Evt3> &s, bool &, uint32_t word, uint32_t, RareWords &rare) {
        const uint32_t type = cusi_evt3Type(word);
        s.rows.y = type == CUSI_EVT3_Y ? word & 2047 : s.rows.y;
        s.rows.pass(cusi_evt3Columns(type));
        s.rows.x = type == CUSI_EVT3_VECTOR_BASE ? CUSI_EVT3_BASE | (word & 2048 ? CUSI_EVT3_POSITIVE : 0) | (word & 2047)
                                                 : s.rows.x;
        s.times.events += __popc(maskOf(word, type));
        const uint32_t low = type == CUSI_EVT3_TIME_LOW ? word & 4095 : CUSI_UNSET;
        s.times.early_low = low != CUSI_UNSET && !s.times.timed ? low : s.times.early_low;
        s.times.low = low != CUSI_UNSET && s.times.timed ? low : s.times.low;
        if (!isRare(type))
            return;
        if (type == CUSI_EVT3_TIME_HIGH) {
            s.times.time<TIME_BITS>(word & 4095);
        } else if (type == CUSI_EVT3_TRIGGER) {
            ++rare.triggers;
            rare.early_triggers += !s.times.timed;
            rare.rising += word & 1;
        } else {
            ++rare.undefined;
        }
    }
    static __device__ __forceinline__ int64_t timeOf(const Now &now) {
        return now.high < 0 ? now.low : now.high << LOW_BITS | now.low;
    }
    template<class Sink>
    static __device__ __forceinline__ void step(Now &now, uint32_t word, uint32_t, Sink &sink) {
        const uint32_t type = cusi_evt3Type(word), mask = maskOf(word, type), columns = cusi_evt3Columns(type);
        const bool single = type == CUSI_EVT3_X;
        if (now.high >= 0)
            sink.events(single ? word & 2047 : now.x, now.y, single ? word >> 11 & 1 : now.p,
                        now.high << LOW_BITS | now.low, mask);
        else
            sink.untimed(__popc(mask));
        now.x += now.x < CUSI_EVT3_MAX_X ? columns : 0;
        now.y = type == CUSI_EVT3_Y ? word & 2047 : now.y;
        now.x = type == CUSI_EVT3_VECTOR_BASE ? word & 2047 : now.x;
        now.p = type == CUSI_EVT3_VECTOR_BASE ? word >> 11 & 1 : now.p;
        now.low = type == CUSI_EVT3_TIME_LOW ? word & 4095 : now.low;
        if (!isRare(type))
            return;
        if (type == CUSI_EVT3_TIME_HIGH) {
            const int64_t high = cusi_unwrapTime(now.high, word & 4095, TIME_BITS);
            now.low = high != now.high ? 0 : now.low;
            now.high = high;
            sink.time(high << LOW_BITS);
        } else if (type == CUSI_EVT3_TRIGGER) {
            sink.trigger(timeOf(now), cusi_evt3TriggerId(word), word & 1, now.high >= 0);
        } else {
            sink.undefined(type);
        }
    }
};

// A DAT record acts as a time word followed by an event.
struct Dat {
    using Rows = NoRows;
    static constexpr bool HAS_ROWS = false;
    static constexpr int WORD = 8, TIME_BITS = CUSI_DAT_TIME_BITS, LOW_BITS = 0;

    static __device__ __forceinline__ void measure(Segment<Dat> &s, bool &, uint32_t a, uint32_t, RareWords &) {
        s.times.time<TIME_BITS>(a);
        ++s.times.events;
    }
    template<class Sink>
    static __device__ __forceinline__ void step(Now &now, uint32_t a, uint32_t b, Sink &sink) {
        now.high = cusi_unwrapTime(now.high, a, TIME_BITS);
        sink.time(now.high);
        sink.events(cusi_datX(b), cusi_datY(b), cusi_datP(b), now.high, 1);
    }
};

// Returns the current time: if times never decrease, no event so far is later.
template<class Format>
__device__ __forceinline__ int64_t timeOf(const Now &now) {
    return now.high < 0 ? -1 : now.high << Format::LOW_BITS | (Format::LOW_BITS ? now.low : 0);
}

} // namespace cusi::raw

#endif
