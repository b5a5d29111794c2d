/* Seeking in formats without an index: events are read on, from the nearest place that is known, into the reader's scratch arrays. */
#include "eventio/recording.h"

cusStatus eventio_readOn(cusEventReader *reader, const uint64_t *next, uint64_t index) {
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
    for (;;) {
        const uint64_t first = *next;
        size_t got = 0, i = 0;
        const cusStatus status = reader->methods->read(reader, EVENTIO_SCRATCH, reader->scratch, &got);
        while (i < got && reader->scratch.t[i] < time)
            ++i;
        *index = first + i;
        if (i < got)
            return CUS_OK;
        if (status != CUS_OK || !got)
            return status;
    }
}
