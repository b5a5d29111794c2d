/* Compiles the dot products of bytes for each instruction set. */
#include "match/dots/dots.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

#ifdef __x86_64__

/* AVX-512 VNNI */
#define MATCH_DOTS_SET                     avx512
#define MATCH_DOTS_TARGET                  "avx512f,avx512vnni"
#define MATCH_DOTS_LANES                   16
#define MATCH_DOTS_NS                      0.018
#define MATCH_DOTS_ADD(sums, pixels, taps) (Lanes) _mm512_dpbusd_epi32((__m512i)(sums), (__m512i)(pixels), (__m512i)(taps))
#include "match/dots/kernels.h"

/* AVX-VNNI */
#define MATCH_DOTS_SET    avxvnni
#define MATCH_DOTS_TARGET "avx2,avxvnni"
#define MATCH_DOTS_LANES  8
#define MATCH_DOTS_NS     0.018
#define MATCH_DOTS_ADD(sums, pixels, taps) \
    (Lanes) _mm256_dpbusd_avx_epi32((__m256i)(sums), (__m256i)(pixels), (__m256i)(taps))
#include "match/dots/kernels.h"

/* AVX2 */
#define MATCH_DOTS_SET         avx2
#define MATCH_DOTS_TARGET      "avx2"
#define MATCH_DOTS_LANES       8
#define MATCH_DOTS_NS          0.058
#define MATCH_DOTS_PAIRS(a, b) (Lanes) _mm256_madd_epi16((__m256i)(a), (__m256i)(b))
#include "match/dots/kernels.h"

#endif

/* 16-byte vectors (SSE2, NEON), which every processor has */
#define MATCH_DOTS_SET   base
#define MATCH_DOTS_LANES 4
#if defined(__x86_64__)
#define MATCH_DOTS_NS          0.117
#define MATCH_DOTS_PAIRS(a, b) (Lanes) _mm_madd_epi16((__m128i)(a), (__m128i)(b))
#elif defined(__ARM_FEATURE_DOTPROD)
#define MATCH_DOTS_NS    0.06 /* estimated */
#define MATCH_DOTS_START 0    /* both factors are signed, so pixels are shifted too */
#define MATCH_DOTS_ADD(sums, pixels, taps) \
    (Lanes) vdotq_s32((int32x4_t)(sums), (int8x16_t)((pixels) ^ (int32_t)0x80808080), (int8x16_t)(taps))
#else
#define MATCH_DOTS_NS 0.6
#endif
#include "match/dots/kernels.h"

const MatchDots *match_dots_kernels(int i) {
    const MatchDots *available[5] = {NULL};
    int n = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512vnni"))
        available[n++] = &table_avx512;
    unsigned a, b, c, d; /* AVX-VNNI is a name that __builtin_cpu_supports() may not know */
    if (__builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1))
        available[n++] = &table_avxvnni;
    if (__builtin_cpu_supports("avx2"))
        available[n++] = &table_avx2;
#endif
    available[n++] = &table_base;
    return i < n ? available[i] : NULL;
}
