/* Writes Prophesee EVT 3.0 (modules/raw/cpu/evt3.c reads it): words of 16 bits for the time, the row and x. Events of
 * one time, row and polarity with increasing x go into vectors of 32 pixels where that is shorter: words of 12, 12 and
 * 8 bits, as cameras write them and OpenEB expects them. */
#include "eventio/writers/methods.h"

#include <string.h>

enum {
    ADDR_Y = 0 << 12,
    ADDR_X = 2 << 12,
    VECT_BASE_X = 3 << 12,
    VECT_12 = 4 << 12,
    VECT_8 = 5 << 12,
    TIME_LOW = 6 << 12,
    TIME_HIGH = 8 << 12,
    TRIGGER = 10 << 12
};
enum { TIME_BITS = 12, VECTOR = 32, VECTOR_WORDS = 3 };

static cusStatus create(cusEventWriter *w) {
    return eventio_rawCreate(w, 3);
}

static void put(cusEventWriter *w, EventStream *s, uint32_t word) {
    uint8_t *to = eventio_streamRoom(w, s);
    to[0] = (uint8_t)word;
    to[1] = (uint8_t)(word >> 8);
    s->filled += 2;
}

static void putTime(cusEventWriter *w, EventStream *s, int64_t time) {
    if (time >> TIME_BITS != s->time_high)
        eventio_streamTimeHigh(w, s, time >> TIME_BITS, TIME_BITS, TIME_HIGH, 2);
    put(w, s, TIME_LOW | ((uint32_t)time & 4095));
    s->time = time;
}

/* Puts a single event. Some decoders then forget the polarity of vectors. */
static void putSingle(cusEventWriter *w, EventStream *s, uint32_t x, int p) {
    put(w, s, ADDR_X | (uint32_t)p << 11 | x);
    if (p != s->vector_p)
        s->vector_x = -1;
}

/* Returns where a vector that has x may start: where the last one ended, or as far right as it fits on the sensor. */
static int baseFor(const cusEventWriter *w, const EventStream *s, int x, int p) {
    const int most = w->options.width - VECTOR;
    if (s->vector_p == p && s->vector_x >= 0 && s->vector_x <= most && x >= s->vector_x && x < s->vector_x + VECTOR)
        return s->vector_x;
    return x < most ? x : most;
}

/* Writes as many of the n events of one time, row and polarity as one vector takes, if it is shorter than single words. */
static int putVector(cusEventWriter *w, EventStream *s, const uint16_t *x, int n, int p) {
    if (n <= VECTOR_WORDS || w->options.width < VECTOR)
        return 0;
    const int base = baseFor(w, s, x[0], p), is_new = base != s->vector_x || s->vector_p != p;
    uint32_t mask = 1u << (x[0] - base);
    int used = 1;
    for (; used < n && x[used] > x[used - 1] && x[used] < base + VECTOR; ++used)
        mask |= 1u << (x[used] - base);
    if (used <= VECTOR_WORDS + is_new)
        return 0;
    if (is_new)
        put(w, s, VECT_BASE_X | (uint32_t)p << 11 | (uint32_t)base);
    put(w, s, VECT_12 | (mask & 4095));
    put(w, s, VECT_12 | (mask >> 12 & 4095));
    put(w, s, VECT_8 | mask >> 24);
    s->vector_x = base + VECTOR;
    s->vector_p = p;
    return used;
}

/* Writes the first events of the run, all but `left`. What a vector takes depends on at most 32 events, so the words do
 * not depend on where calls end. */
static void drain(cusEventWriter *w, EventStream *s, int left) {
    int k = 0;
    if (s->run_count <= left)
        return;
    if (s->run_time != s->time)
        putTime(w, s, s->run_time);
    if (s->run_y != s->y)
        put(w, s, ADDR_Y | (uint32_t)s->run_y);
    s->y = s->run_y;
    while (s->run_count - k > left) {
        const int more = s->run_count - k, used = putVector(w, s, s->run_x + k, more, s->run_p);
        if (!used)
            putSingle(w, s, s->run_x[k], s->run_p);
        k += used ? used : 1;
    }
    s->run_count -= k;
    memmove(s->run_x, s->run_x + k, (size_t)s->run_count * sizeof *s->run_x);
}

static cusStatus write(cusEventWriter *w, const cusEventArrays *e) {
    EventStream *s = w->state;
    for (size_t i = 0; i < e->count; ++i) {
        if (e->t[i] != s->run_time || e->y[i] != s->run_y || e->p[i] != s->run_p) {
            drain(w, s, 0);
            s->run_time = e->t[i];
            s->run_y = e->y[i];
            s->run_p = e->p[i];
        } else if (s->run_count == EVENTIO_RUN) {
            drain(w, s, VECTOR);
        }
        s->run_x[s->run_count++] = e->x[i];
    }
    return s->status;
}

static cusStatus trigger(cusEventWriter *w, const cusEventTrigger *t) {
    EventStream *s = w->state;
    drain(w, s, 0);
    if (t->t != s->time)
        putTime(w, s, t->t);
    put(w, s, TRIGGER | (uint32_t)t->id << 8 | (t->value != 0));
    return s->status;
}

static cusStatus finish(cusEventWriter *w) {
    drain(w, w->state, 0);
    return eventio_streamFinish(w);
}

const EventWriterMethods eventio_writeEvt3 = {.max_side = 2048,
                                              .create = create,
                                              .write = write,
                                              .trigger = trigger,
                                              .max_trigger_id = 15,
                                              .finish = finish,
                                              .destroy = eventio_streamDestroy};
