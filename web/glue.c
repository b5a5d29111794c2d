/* What the interface needs besides the library: pictures of the web are R, G, B, A, those of the library gray or B, G, R. */
#include "cusight/core.h"

#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(#name))) name

/* channels: 1 (gray, with the weights of OpenCV's cvtColor), 3 or 4. Loops of one step each, which the compiler vectorizes. */
void EXPORT(web_from_rgba)(const uint8_t *restrict from, uint8_t *restrict to, size_t count, int channels) {
    if (channels == 1)
        for (size_t i = 0; i < count; ++i)
            to[i] = (uint8_t)((4899u * from[4 * i] + 9617u * from[4 * i + 1] + 1868u * from[4 * i + 2] + 8192u) >> 14);
    for (size_t i = 0; i < count && channels > 1; ++i) {
        const uint8_t *const pixel = from + 4 * i;
        uint8_t *const out = to + (size_t)channels * i;
        out[0] = pixel[2], out[1] = pixel[1], out[2] = pixel[0];
        if (channels == 4)
            out[3] = pixel[3];
    }
}

void EXPORT(web_to_rgba)(const uint8_t *restrict from, uint8_t *restrict to, size_t count, int channels) {
    for (size_t i = 0; i < count && channels < 3; ++i)
        ((uint32_t *)(void *)to)[i] = 0xff000000u | from[(size_t)channels * i] * 0x10101u;
    for (size_t i = 0; i < count && channels > 2; ++i) {
        const uint8_t *const pixel = from + (size_t)channels * i;
        ((uint32_t *)(void *)to)[i] = 0xff000000u | (uint32_t)pixel[0] << 16 | (uint32_t)pixel[1] << 8 | pixel[2];
    }
}
