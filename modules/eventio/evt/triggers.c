/* Reads triggers of RAW files with a second decoder, which goes through the file and delivers no events. */
#include "eventio/evt/triggers.h"
#include "check.h"
#include "eventio/validate.h"

#include <stdint.h>
#include <stdlib.h>

enum { PIECE = 1 << 16 };

struct TriggerReader {
    cusEventDecoder *decoder;
    uint64_t at; /* offset in the file of the next byte to decode */
    uint8_t piece[PIECE];
};

void eventio_closeTriggers(TriggerReader *triggers) {
    if (!triggers)
        return;
    cusEventDecoderDestroy(triggers->decoder);
    free(triggers);
}

cusStatus eventio_openTriggers(cusEventDecoder *decoder, const cusEventDecoderState *start, TriggerReader **triggers) {
    TriggerReader *const made = calloc(1, sizeof *made);
    if (!made) {
        cusEventDecoderDestroy(decoder);
        return cusi_fail(CUS_ERROR_NO_MEMORY, "cusEventReaderReadTriggers: out of host memory");
    }
    made->decoder = decoder;
    made->at = start->offset;
    const cusStatus status = cusEventDecoderSetState(decoder, start);
    if (status != CUS_OK) {
        eventio_closeTriggers(made);
        return status;
    }
    *triggers = made;
    return CUS_OK;
}

/* Decodes the next piece of the file. *is_end: there is none. */
static cusStatus decodePiece(const cusEventReader *reader, TriggerReader *triggers, size_t n, cusEventTrigger *out,
                             size_t *count, int *is_end) {
    static const char function[] = "cusEventReaderReadTriggers";
    const cusEventBuffers buffers = {.capacity = SIZE_MAX, .triggers = out, .trigger_capacity = n};
    cusEventDecoded done;
    const int64_t got = eventio_readAt(&reader->source, triggers->at, triggers->piece, PIECE);
    CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "%s: the file cannot be read at byte %llu", function,
                 (unsigned long long)triggers->at);
    const cusStatus status = cusEventDecoderRun(triggers->decoder, triggers->piece, (size_t)got, &buffers, &done, NULL);
    triggers->at += done.used;
    *count = (size_t)done.triggers;
    *is_end = got == 0;
    if (status != CUS_OK && status != CUS_ERROR_CAPACITY && status != CUS_ERROR_CANCELLED)
        return cusi_renamed(function, status);
    cusEventDecoderState state;
    CUS_TRY(cusEventDecoderGetState(triggers->decoder, &state));
    CUSI_REQUIRE(!*is_end || !state.carried, CUS_ERROR_TRUNCATED,
                 "%s: the file ends at byte %llu, within an event of %s that starts at byte %llu", function,
                 (unsigned long long)triggers->at, cusEventFormatName(reader->info.format),
                 (unsigned long long)state.offset);
    return CUS_OK;
}

cusStatus eventio_readTriggers(const cusEventReader *reader, TriggerReader *triggers, size_t n, cusEventTrigger *out,
                               size_t *count) {
    *count = 0;
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, (int64_t)(reader->source.size - triggers->at));
    for (int is_end = 0; *count < n && !is_end;) {
        size_t got = 0;
        const cusStatus status = decodePiece(reader, triggers, n - *count, out + *count, &got, &is_end);
        *count += got;
        CUS_TRY(status);
        cusi_step(progress, PIECE);
        CUS_TRY(cusi_proceed(progress));
    }
    return CUS_OK;
}
