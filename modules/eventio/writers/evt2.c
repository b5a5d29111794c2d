/* Writes Prophesee EVT 2.0 (modules/raw/cpu/evt2.c reads it): a word of 32 bits an event, and one for each 64
 * microseconds with events. */
#include "eventio/writers/methods.h"

#include <string.h>

enum { TIME_HIGH = 8, TRIGGER = 10, LOW_BITS = 6, HIGH_BITS = 28 };

static cusStatus create(cusEventWriter *w) {
    return eventio_rawCreate(w, 2);
}

/* Writes a word whose bits 27..22 are the lower part of the time. */
static inline void put(cusEventWriter *w, EventStream *s, int64_t t, uint32_t word) {
    const int64_t high = t >> LOW_BITS;
    if (high != s->time_high)
        eventio_streamTimeHigh(w, s, high, HIGH_BITS, (uint32_t)TIME_HIGH << HIGH_BITS, 4);
    word |= ((uint32_t)t & 63) << 22;
    memcpy(eventio_streamRoom(w, s), &word, 4);
    s->filled += 4;
}

static cusStatus write(cusEventWriter *w, const cusEventArrays *e) {
    EventStream *s = w->state;
    for (size_t i = 0; i < e->count; ++i)
        put(w, s, e->t[i], (uint32_t)e->p[i] << 28 | (uint32_t)e->x[i] << 11 | e->y[i]);
    return s->status;
}

static cusStatus trigger(cusEventWriter *w, const cusEventTrigger *t) {
    EventStream *s = w->state;
    put(w, s, t->t, (uint32_t)TRIGGER << 28 | (uint32_t)t->id << 8 | (t->value != 0));
    return s->status;
}

const EventWriterMethods eventio_writeEvt2 = {.max_side = 2048,
                                              .create = create,
                                              .write = write,
                                              .trigger = trigger,
                                              .max_trigger_id = 31,
                                              .finish = eventio_streamFinish,
                                              .destroy = eventio_streamDestroy};
