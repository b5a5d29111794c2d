/* Seeks in formats without an index: reads events into the reader's scratch arrays, from the nearest known place on. */
#include "eventio/recording.h"

int64_t eventio_likelyLeft(const cusEventReader *reader, uint64_t next) {
    if (reader->info.count >= 0)
        return reader->info.count - (int64_t)next;
    const cusEventFormat format = reader->info.format;
    const uint64_t bytes = format == CUS_EVENTS_TEXT   ? 18
                           : format == CUS_EVENTS_DAT  ? 8
                           : format <= CUS_EVENTS_EVT4 ? 4
                                                       : 8; /* bytes of an event */
    const uint64_t likely = reader->source.size / bytes + 1;
    return likely > next ? (int64_t)(likely - next) : 1;
}

cusStatus eventio_readOn(cusEventReader *reader, const uint64_t *next, uint64_t index) {
    cusi_part(cusi_progress(), 1, index > *next ? (int64_t)(index - *next) : 0);
    while (*next < index) {
        const uint64_t left = index - *next;
        size_t got = 0;
        CUS_TRY(
            reader->methods->read(reader, left < EVENTIO_SCRATCH ? (size_t)left : EVENTIO_SCRATCH, reader->scratch, &got));
        if (!got)
            break;
    }
    reader->index = *next;
    return CUS_OK;
}

cusStatus eventio_readToTime(cusEventReader *reader, const uint64_t *next, int64_t time, uint64_t *index) {
    cusi_part(cusi_progress(), 1, eventio_likelyLeft(reader, *next));
    for (;;) {
        const uint64_t first = *next;
        size_t got = 0, i = 0;
        const cusStatus status = reader->methods->read(reader, EVENTIO_SCRATCH, reader->scratch, &got);
        if (status == CUS_ERROR_CANCELLED)
            return status;
        while (i < got && reader->scratch.t[i] < time)
            ++i;
        *index = first + i;
        if (i < got)
            return CUS_OK;
        if (status != CUS_OK || !got)
            return status;
    }
}
