/* Prophesee DAT, version 2: records of 8 bytes, u32 t and then x[13:0] y[27:14] p[31:28]. */
#include "eventio/evt/decoders.h"

cusStatus eventio_decodeDat(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                            EventSink *sink, size_t *used) {
    (void)reader, (void)at_end;
    size_t at = 0;
    for (; at + 8 <= n && sink->count < sink->capacity; at += 8) {
        const uint32_t word = eventio_load32(bytes + at + 4);
        state->time_high = eventio_unwrap(state->time_high, eventio_load32(bytes + at), 32);
        eventio_emit(sink, word & 16383, word >> 14 & 16383, word >> 28, state->time_high);
    }
    *used = at;
    return CUS_OK;
}
