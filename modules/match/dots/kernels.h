/* One instruction set's kernel, the table MATCH_DOTS_NAME(table); included by dots.c once for each. MATCH_DOTS_SET: its
 * name. MATCH_DOTS_TARGET: what the compiler must be allowed, by default what it is. MATCH_DOTS_LANES: words of a vector.
 * MATCH_DOTS_ADD(sums, pixels, taps) adds the products to the sums; or MATCH_DOTS_PAIRS(a, b) adds up those of pairs of
 * signed 16-bit integers. */
#ifndef MATCH_DOTS_NAME
#define MATCH_DOTS_JOIN2(name, set) name##_##set
#define MATCH_DOTS_JOIN(name, set)  MATCH_DOTS_JOIN2(name, set)
#define MATCH_DOTS_NAME(name)       MATCH_DOTS_JOIN(name, MATCH_DOTS_SET)
#endif
#define Lanes         MATCH_DOTS_NAME(Lanes)
#define LanesAnywhere MATCH_DOTS_NAME(LanesAnywhere)
#define Pairs         MATCH_DOTS_NAME(Pairs)
#define UnsignedPairs MATCH_DOTS_NAME(UnsignedPairs)
#define correlate     MATCH_DOTS_NAME(correlate)
typedef int32_t Lanes __attribute__((vector_size(MATCH_DOTS_LANES * 4)));
typedef int32_t LanesAnywhere __attribute__((vector_size(MATCH_DOTS_LANES * 4), may_alias, aligned(4)));
typedef int16_t Pairs __attribute__((vector_size(MATCH_DOTS_LANES * 4)));
typedef uint16_t UnsignedPairs __attribute__((vector_size(MATCH_DOTS_LANES * 4)));

#ifdef MATCH_DOTS_PAIRS /* even bytes first, then odd ones */
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
correlate(const uint32_t *pixels, size_t pitch, const uint32_t *taps, size_t width, size_t step, size_t h,
          __attribute__((unused)) int32_t start, size_t cols, int32_t *sums, size_t sums_pitch) {
    enum { LANES = MATCH_DOTS_LANES, VECTORS = 4 };
    for (size_t x = 0; x < cols; x += VECTORS * LANES)
        for (size_t y = 0; y < 4; y += 2) {
            Lanes sum0[VECTORS], sum1[VECTORS];
            for (size_t i = 0; i < VECTORS; ++i)
                sum0[i] = sum1[i] = (Lanes){0} + MATCH_DOTS_START;
            for (size_t r = 0; r <= h; ++r) {
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
                *(LanesAnywhere *)&sums[y * sums_pitch + x + i * LANES] = sum0[i];
                *(LanesAnywhere *)&sums[(y + 1) * sums_pitch + x + i * LANES] = sum1[i];
            }
        }
}

static const MatchDots MATCH_DOTS_NAME(table) = {MATCH_DOTS_NS, 4, 1, 1, correlate};

#undef Lanes
#undef LanesAnywhere
#undef Pairs
#undef UnsignedPairs
#undef correlate
#undef MATCH_DOTS_SET
#undef MATCH_DOTS_TARGET
#undef MATCH_DOTS_LANES
#undef MATCH_DOTS_NS
#undef MATCH_DOTS_ADD
#undef MATCH_DOTS_PAIRS
#undef MATCH_DOTS_START
