/* Dot products of bytes with vectors of 16 bytes, which every processor has: SSE2, NEON. */
#define MATCH_DOTS_LANES 4
#define MATCH_DOTS_TABLE match_dots_base
#if defined(__x86_64__)
#define MATCH_DOTS_NS          0.117
#define MATCH_DOTS_PAIRS(a, b) (Lanes) _mm_madd_epi16((__m128i)(a), (__m128i)(b))
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#define MATCH_DOTS_NS    0.06 /* estimated */
#define MATCH_DOTS_START 0    /* both factors are signed, so the shift is taken from the pixels */
#define MATCH_DOTS_ADD(sums, pixels, taps) \
    (Lanes) vdotq_s32((int32x4_t)(sums), (int8x16_t)((pixels) ^ (int32_t)0x80808080), (int8x16_t)(taps))
#else
#define MATCH_DOTS_NS 0.6
#endif
#include "match/dots/kernels.h"
