/* Writes Prophesee EVT 2.0 (modules/raw/cpu/evt2.c reads it): a word of 32 bits an event, and one for each 64 microseconds with
 * events. */
#include "eventio/writers/methods.h"

#include <stdio.h>
#include <string.h>

enum { TIME_HIGH = 8, LOW_BITS = 6, HIGH_BITS = 28 };

static cusStatus create(cusEventWriter *w) {
    char header[128];
    const int width = w->options.width, height = w->options.height;
    snprintf(header, sizeof header, "%% evt 2.0\n%% format EVT2;height=%d;width=%d\n%% geometry %dx%d\n%% end\n", height,
             width, width, height);
    return eventio_streamCreate(w, header);
}

static cusStatus write(cusEventWriter *w, const cusEventArrays *e) {
    EventStream *s = w->state;
    for (size_t i = 0; i < e->count; ++i) {
        const int64_t high = e->t[i] >> LOW_BITS;
        if (high != s->time_high)
            eventio_streamTimeHigh(w, s, high, HIGH_BITS, (uint32_t)TIME_HIGH << HIGH_BITS, 4);
        const uint32_t word = (uint32_t)e->p[i] << 28 | ((uint32_t)e->t[i] & 63) << 22 | (uint32_t)e->x[i] << 11 | e->y[i];
        memcpy(eventio_streamRoom(w, s), &word, 4);
        s->filled += 4;
    }
    return s->status;
}

const EventWriterMethods eventio_writeEvt2 = {
    .max_side = 2048, .create = create, .write = write, .finish = eventio_streamFinish, .destroy = eventio_streamDestroy};
