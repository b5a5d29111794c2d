/* Prophesee EVT 2.0: 32-bit words. Bits 31..28 are the type; an event word then has t[5:0] x[10:0] y[10:0], a time word
 * the upper 28 bits of the time. */
#include "eventio/evt/decoders.h"
#include "eventio/validate.h"

enum { EVT2_CD_OFF = 0, EVT2_CD_ON = 1, EVT2_TIME_HIGH = 8, EVT2_EXT_TRIGGER = 10, EVT2_OTHERS = 14 };

cusStatus eventio_decodeEvt2(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                             EventSink *sink, size_t *used) {
    (void)at_end;
    size_t at = 0;
    cusStatus status = CUS_OK;
    for (; at + 4 <= n && sink->count < sink->capacity && status == CUS_OK; at += 4) {
        const uint32_t word = eventio_load32(bytes + at), type = word >> 28;
        if (type <= EVT2_CD_ON) {
            if (state->time_high >= 0)
                eventio_emit(sink, word >> 11 & 2047, word & 2047, type, state->time_high << 6 | (word >> 22 & 63));
            else
                ++reader->counts.untimed;
        } else if (type == EVT2_TIME_HIGH) {
            state->time_high = eventio_unwrap(state->time_high, word & 0xfffffff, 28);
        } else if (type == EVT2_EXT_TRIGGER) {
            eventio_countTrigger(&reader->counts, word);
        } else if (type < EVT2_OTHERS) { /* OTHERS and its continuation, 15, carry no events */
            status = eventio_undefinedWord(reader, "EVT2", type, state->offset + at);
            if (status != CUS_OK)
                break;
        }
    }
    *used = at;
    return status;
}
