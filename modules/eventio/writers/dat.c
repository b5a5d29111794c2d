/* Writes Prophesee DAT, version 2 (modules/raw/cpu/dat.c reads it): records of 8 bytes. */
#include "check.h"
#include "eventio/writers/methods.h"

#include <stdio.h>
#include <string.h>

static cusStatus create(cusEventWriter *w) {
    enum { TYPE = 12, SIZE = 8 }; /* contrast detection events; bytes of one */
    char header[160];
    snprintf(header, sizeof header, "%% Data file containing CD events.\n%% Version 2\n%% Height %d\n%% Width %d\n%c%c",
             w->options.height, w->options.width, TYPE, SIZE);
    return eventio_streamCreate(w, header);
}

/* Checks for wraps. Times have 32 bits, and no event says that they wrap: readers take a step back by more than half
 * the range for a wrap. */
static cusStatus check(const cusEventWriter *w, const cusEventArrays *e) {
    enum { BITS = 32 };
    int64_t last = w->count ? w->last_time : 0;
    for (size_t i = 0; i < e->count; last = e->t[i++]) {
        const int64_t wraps = (e->t[i] >> BITS) - (last >> BITS);
        CUSI_REQUIRE(
            wraps == 0 || (wraps == 1 && e->t[i] - last < (int64_t)1 << (BITS - 1) && (w->count || i)), CUS_ERROR_VALUE,
            "%s: event %zu has time %lld us after %lld us, expected less than 2^32 us at first and then gaps below "
            "2^31 us: times in DAT have 32 bits",
            w->function, i, (long long)e->t[i], (long long)last);
    }
    return CUS_OK;
}

static cusStatus write(cusEventWriter *w, const cusEventArrays *e) {
    EventStream *s = w->state;
    for (size_t i = 0; i < e->count; ++i) {
        const uint32_t words[2] = {(uint32_t)e->t[i],
                                   (uint32_t)e->p[i] << 28 | (uint32_t)e->y[i] << 14 | (uint32_t)e->x[i]};
        memcpy(eventio_streamRoom(w, s), words, sizeof words);
        s->filled += sizeof words;
    }
    return s->status;
}

const EventWriterMethods eventio_writeDat = {.max_side = 16384,
                                             .create = create,
                                             .check = check,
                                             .write = write,
                                             .finish = eventio_streamFinish,
                                             .destroy = eventio_streamDestroy};
