/* Prophesee DAT, version 2: records of 8 bytes, u32 t and then x[13:0] y[27:14] p[31:28]. */
#include "raw/cpu/decoders.h"

RawStop raw_decodeDat(cusEventDecoderState *state, const uint8_t *bytes, size_t n, RawSink *sink, size_t *used) {
    size_t at = 0;
    for (; at + 8 <= n && !raw_isFull(sink); at += 8) {
        const uint32_t word = cusi_load32(bytes + at + 4);
        state->time_high = cusi_unwrapTime(state->time_high, cusi_load32(bytes + at), CUSI_DAT_TIME_BITS);
        raw_emit(sink, cusi_datX(word), cusi_datY(word), cusi_datP(word), state->time_high);
    }
    *used = at;
    return at + 8 <= n ? STOP_FULL : STOP_AT_END;
}
