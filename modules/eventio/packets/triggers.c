/* The list of triggers of a recording made of packets: a second reader goes through the file and passes over events. */
#include "check.h"
#include "eventio/packets/packets.h"
#include "eventio/validate.h"

#include <stdint.h>
#include <stdlib.h>

static const char function[] = "cusEventReaderReadTriggers";

static cusStatus openTriggers(const cusEventReader *reader, PacketReader *p) {
    PacketReader *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    made->format = p->format;
    made->is_for_triggers = 1;
    made->stride = 1;
    made->block_offset = UINT64_MAX;
    made->max_memory = p->max_memory / 4;
    made->max_chunk = p->max_chunk;
    cusStatus status = p->decoder ? eventio_createEvt3(reader, made) : CUS_OK;
    if (status == CUS_OK)
        status = p->format->copy(p, made);
    if (status == CUS_OK)
        status = eventio_restorePlace(made, &p->checkpoints[0]);
    if (status != CUS_OK) {
        eventio_closePacketReader(made);
        cusi_renamed(function, status);
        return status;
    }
    p->triggers = made;
    return CUS_OK;
}

/* Those among the words of the message. */
static cusStatus takeEvt3(PacketReader *p, size_t n, cusEventTrigger *out, size_t *count) {
    Message *m = &p->message;
    const cusEventBuffers buffers = {.capacity = SIZE_MAX, .triggers = out, .trigger_capacity = n};
    cusEventDecoded done;
    const cusStatus status = cusEventDecoderRun(p->decoder, m->bytes, m->size, &buffers, &done, NULL);
    *count = (size_t)done.triggers;
    m->bytes += done.used;
    m->size -= (size_t)done.used;
    const int goes_on = status == CUS_OK || status == CUS_ERROR_CAPACITY || status == CUS_ERROR_CANCELLED;
    return goes_on ? CUS_OK : eventio_describeEvt3(p, status);
}

static cusStatus readTriggers(cusEventReader *reader, PacketReader *p, size_t n, cusEventTrigger *out, size_t *count) {
    CusiProgress *const progress = cusi_progress();
    while (*count < n) {
        size_t got = 0;
        cusi_step(progress, 0);
        CUS_TRY(cusi_proceed(progress));
        if (eventio_isMessageDone(p)) {
            int found;
            CUS_TRY(p->format->next(reader, p, &found));
            if (!found)
                return CUS_OK;
            continue;
        }
        const cusStatus status = p->message.layout == LAYOUT_EVT3
                                     ? takeEvt3(p, n - *count, out + *count, &got)
                                     : p->format->takeTriggers(p, n - *count, out + *count, &got);
        *count += got;
        CUS_TRY(status);
    }
    return CUS_OK;
}

cusStatus eventio_readPacketTriggers(cusEventReader *reader, size_t n, cusEventTrigger *out, size_t *count) {
    PacketReader *p = reader->state;
    *count = 0;
    if (!p->triggers)
        CUS_TRY(openTriggers(reader, p));
    const cusEventCounts counts = reader->counts;
    const cusStatus status = readTriggers(reader, p->triggers, n, out, count);
    reader->counts = counts;
    return status == CUS_OK || status == CUS_ERROR_CANCELLED ? status : cusi_renamed(function, status);
}

void eventio_rewindPacketTriggers(cusEventReader *reader) {
    PacketReader *p = reader->state;
    if (p) {
        eventio_closePacketReader(p->triggers);
        p->triggers = NULL;
    }
}
