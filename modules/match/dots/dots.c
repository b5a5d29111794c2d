/* Compiles the dot products of bytes for each instruction set. */
#include "match/dots/dots.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

#ifdef __x86_64__

/* AMX */
#if defined(__linux__) && defined(__has_include)
#if __has_include(<amxint8intrin.h>) || __has_include(<amxintrin.h>) /* of GCC, of clang */
#define HAS_TILES
#endif
#endif
#ifdef HAS_TILES
#include <sys/syscall.h>
#include <unistd.h>

/* How tile registers are divided: all eight have 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start_row, zeros[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} TILES = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

/* GCC does not know that loads of tiles read memory, so a barrier keeps earlier stores before them. */
#define MATCH_TILES_BEGIN     \
    _tile_loadconfig(&TILES); \
    __asm__ volatile("" : : : "memory")
#define MATCH_TILES_TARGET                  "amx-tile,amx-int8"
#define MATCH_TILES_NS                      0.0035
#define MATCH_TILES_LOAD(tile, from, step)  _tile_loadd(tile, from, step)
#define MATCH_TILES_ADD(sums, taps, pixels) _tile_dpbsud(sums, taps, pixels)
#define MATCH_TILES_STORE(tile, to, step)   _tile_stored(tile, to, step)
#define MATCH_TILES_END                     _tile_release()
#include "match/dots/tiles.h"

/* Linux lets a process use tiles once it has asked, since signal frames get larger. It refuses if a thread's alternate
 * stack is too small for them. AVX512BF16 comes with AMX, and every compiler's __builtin_cpu_supports() knows it. */
static int hasTiles(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, TILES_AND_INT8 = 3 };
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx512bf16") && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (d >> 24 & TILES_AND_INT8) == TILES_AND_INT8 && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif

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
#ifdef HAS_TILES
    if (hasTiles())
        available[n++] = &table_tiles;
#endif
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
