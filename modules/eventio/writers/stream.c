/* The buffer of formats that are written from front to back. */
#include "check.h"
#include "eventio/writers/methods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cusStatus eventio_streamCreate(cusEventWriter *w, const char *header) {
    EventStream *s = calloc(1, sizeof *s);
    w->state = s;
    if (s)
        s->bytes = malloc(EVENTIO_STREAM_BYTES);
    CUSI_REQUIRE(s && s->bytes, CUS_ERROR_NO_MEMORY, "%s: out of host memory", w->function);
    s->time_high = s->time = s->y = s->vector_x = -1;
    s->filled = strlen(header);
    memcpy(s->bytes, header, s->filled);
    return CUS_OK;
}

cusStatus eventio_rawCreate(cusEventWriter *w, int version) {
    char header[128];
    const int width = w->options.width, height = w->options.height;
    snprintf(header, sizeof header, "%% evt %d.0\n%% format EVT%d;height=%d;width=%d\n%% geometry %dx%d\n%% end\n", version,
             version, height, width, width, height);
    return eventio_streamCreate(w, header);
}

void eventio_streamFlush(cusEventWriter *w, EventStream *s) {
    if (s->status == CUS_OK)
        s->status = eventio_outputWrite(&w->output, s->end, s->bytes, s->filled, w->function);
    s->end += s->filled;
    s->filled = 0;
}

cusStatus eventio_streamFinish(cusEventWriter *w) {
    EventStream *s = w->state;
    eventio_streamFlush(w, s);
    return s->status;
}

void eventio_streamDestroy(cusEventWriter *w) {
    EventStream *s = w->state;
    if (s)
        free(s->bytes);
    free(s);
}

static void putWord(cusEventWriter *w, EventStream *s, uint32_t word, size_t bytes) {
    memcpy(eventio_streamRoom(w, s), &word, bytes); /* the machine is little-endian, as CUDA's hosts are */
    s->filled += bytes;
}

void eventio_streamTimeHigh(cusEventWriter *w, EventStream *s, int64_t high, int bits, uint32_t type, size_t word_bytes) {
    const int64_t period = (int64_t)1 << bits;
    int64_t now = s->time_high < 0 ? 0 : s->time_high;
    if (s->time_high < 0 && high >= period)
        putWord(w, s, type, word_bytes);
    for (; high / period > now / period; now = (now / period + 1) * period) {
        if (now % period < period - 1)
            putWord(w, s, type | (uint32_t)(period - 1), word_bytes);
        putWord(w, s, type, word_bytes);
    }
    if (high != now || (s->time_high < 0 && high < period))
        putWord(w, s, type | (uint32_t)(high % period), word_bytes);
    s->time_high = high;
}
