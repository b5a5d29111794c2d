/* MATCH_DOTS_TABLE, for vectors of MATCH_DOTS_LANES words and the instruction set MATCH_DOTS_TARGET of x86-64, by default the
 * compiler's. MATCH_DOTS_ADD(sums, pixels, taps) adds the products to the sums; or MATCH_DOTS_PAIRS(a, b) adds up those of pairs of
 * signed 16-bit integers. */
#include "match/dots/dots.h"

#if !defined(MATCH_DOTS_TARGET) || (defined(__x86_64__) && defined(__GNUC__))

#ifdef __x86_64__
#include <immintrin.h>
#endif

typedef int32_t Lanes __attribute__((vector_size(MATCH_DOTS_LANES * 4)));
typedef int32_t LanesAnywhere __attribute__((vector_size(MATCH_DOTS_LANES * 4), may_alias, aligned(4)));
typedef int16_t Pairs __attribute__((vector_size(MATCH_DOTS_LANES * 4)));
typedef uint16_t UnsignedPairs __attribute__((vector_size(MATCH_DOTS_LANES * 4)));

#ifdef MATCH_DOTS_PAIRS /* of even bytes, of odd ones */
#define MATCH_DOTS_ADD(sums, pixels, taps)                                                      \
    ((sums) + MATCH_DOTS_PAIRS((Pairs)(pixels)&255, (Pairs)((UnsignedPairs)(taps) << 8) >> 8) + \
     MATCH_DOTS_PAIRS((UnsignedPairs)(pixels) >> 8, (Pairs)(taps) >> 8))
#elif !defined(MATCH_DOTS_ADD)
#define MATCH_DOTS_BYTE(pixels, taps, i) (((pixels) >> 8 * (i)&255) * ((taps) << (24 - 8 * (i)) >> 24))
#define MATCH_DOTS_ADD(sums, pixels, taps)                                                                             \
    ((sums) + MATCH_DOTS_BYTE(pixels, taps, 0) + MATCH_DOTS_BYTE(pixels, taps, 1) + MATCH_DOTS_BYTE(pixels, taps, 2) + \
     MATCH_DOTS_BYTE(pixels, taps, 3))
#endif
#ifndef MATCH_DOTS_START
#define MATCH_DOTS_START start
#endif
#ifdef MATCH_DOTS_TARGET
__attribute__((target(MATCH_DOTS_TARGET)))
#endif
static void
correlate(const uint32_t *pixels, size_t pitch, const uint32_t *taps, size_t width, size_t step, size_t rows,
          __attribute__((unused)) int32_t start, int32_t sums[MATCH_DOTS_ROWS][MATCH_DOTS_COLS]) {
    enum { LANES = MATCH_DOTS_LANES, VECTORS = 4 };
    for (size_t y = 0; y < MATCH_DOTS_ROWS; y += 2)
        for (size_t x = 0; x < MATCH_DOTS_COLS; x += VECTORS * LANES) {
            Lanes sum0[VECTORS], sum1[VECTORS];
            for (size_t i = 0; i < VECTORS; ++i)
                sum0[i] = sum1[i] = (Lanes){0} + MATCH_DOTS_START;
            for (size_t r = 0; r <= rows; ++r) {
                const uint32_t *in = pixels + (y + r) * pitch + x, *taps0 = taps + (r + 1) * width,
                               *taps1 = taps + r * width;
                for (size_t k = 0; k < width; ++k) {
                    const Lanes tap0 = (Lanes){0} + (int32_t)taps0[k], tap1 = (Lanes){0} + (int32_t)taps1[k];
                    for (size_t i = 0; i < VECTORS; ++i) {
                        const Lanes v = *(const LanesAnywhere *)(in + k * step + i * LANES);
                        sum0[i] = MATCH_DOTS_ADD(sum0[i], v, tap0);
                        sum1[i] = MATCH_DOTS_ADD(sum1[i], v, tap1);
                    }
                }
            }
            for (size_t i = 0; i < VECTORS; ++i) {
                *(LanesAnywhere *)&sums[y][x + i * LANES] = sum0[i];
                *(LanesAnywhere *)&sums[y + 1][x + i * LANES] = sum1[i];
            }
        }
}

const MatchDots MATCH_DOTS_TABLE = {MATCH_DOTS_NS, correlate};

#endif
