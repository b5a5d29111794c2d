/* A table row of 8-bit pixels through the caches: prefix sums of a few pixels in vector registers. */
#include "integral_host.h"

#include <string.h>
#ifdef INTEGRAL_X86
#include <immintrin.h>
#endif

#if defined(__has_builtin) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#if __has_builtin(__builtin_shufflevector) && __has_builtin(__builtin_convertvector)
#define VECTORS 1
#endif
#endif

#ifdef VECTORS
typedef uint8_t U8x16 __attribute__((vector_size(16)));
typedef uint16_t U16x16 __attribute__((vector_size(32)));
typedef uint8_t U8x8 __attribute__((vector_size(8)));
typedef uint16_t U16x8 __attribute__((vector_size(16)));
typedef uint64_t U64x2 __attribute__((vector_size(16)));
typedef uint32_t U32x8 __attribute__((vector_size(32)));
typedef int32_t S32x8 __attribute__((vector_size(32)));
typedef double F64x8 __attribute__((vector_size(64)));

/* Inclusive scan: v += v shifted by 1, 2, 4 lanes. */
#define SCAN8(v)                                                             \
    do {                                                                     \
        const __typeof__(v) zero_ = {0};                                     \
        v += __builtin_shufflevector(zero_, v, 0, 8, 9, 10, 11, 12, 13, 14); \
        v += __builtin_shufflevector(zero_, v, 0, 1, 8, 9, 10, 11, 12, 13);  \
        v += __builtin_shufflevector(zero_, v, 0, 1, 2, 3, 8, 9, 10, 11);    \
    } while (0)
#endif

/* Sums of 8 pixels fit 16 bits; those of 4 are scanned by shifts of 64 bits. */
CUSI_MULTIVERSION
void integral_row32(const uint8_t *src, size_t n, const uint32_t *above, uint32_t *out) {
    size_t x = 0;
    uint32_t sum = 0;
#ifdef VECTORS
    U32x8 before = {0};
    for (; x + 8 <= n; x += 8) {
        U8x8 bytes;
        U32x8 v;
        memcpy(&bytes, src + x, sizeof bytes);
        memcpy(&v, above + x, sizeof v);
        U16x8 prefix = __builtin_convertvector(bytes, U16x8);
        prefix += (U16x8)((U64x2)prefix << 16);
        prefix += (U16x8)((U64x2)prefix << 32);
        prefix += __builtin_shufflevector(prefix, (U16x8){0}, 8, 8, 8, 8, 3, 3, 3, 3);
        const U32x8 wide = __builtin_convertvector(prefix, U32x8);
        v += wide + before;
        memcpy(out + x, &v, sizeof v);
        before += __builtin_shufflevector(wide, wide, 7, 7, 7, 7, 7, 7, 7, 7);
    }
    sum = before[0];
#endif
    for (; x < n; ++x) {
        sum += src[x];
        out[x] = above[x] + sum;
    }
}

#ifdef INTEGRAL_X86
enum { WRITE_AHEAD = 4096 }; /* bytes by which table lines are prefetched for writing */

/* Multiplications by 0 and 1 add up to 4 pixels for each of 4 lanes. */
__attribute__((target("avx2"))) void integral_row32Avx2(const uint8_t *src, size_t n, const uint32_t *above,
                                                        uint32_t *out) {
    const __m256i own_four =
        _mm256_setr_epi32(0x03020100, 0x03020100, 0x03020100, 0x03020100, 0x07060504, 0x07060504, 0x07060504, 0x07060504);
    const __m256i own_weights = _mm256_setr_epi32(0x1, 0x101, 0x10101, 0x1010101, 0x1, 0x101, 0x10101, 0x1010101);
    /* The upper four lanes add the lower four pixels too; -1 selects zero. */
    const __m256i lower_four = _mm256_setr_epi32(-1, -1, -1, -1, 0x03020100, 0x03020100, 0x03020100, 0x03020100);
    const __m256i ones = _mm256_set1_epi8(1);
    __m256i before = _mm256_setzero_si256();
    size_t x = 0;
    for (; x + 8 <= n; x += 8) {
        long long bytes;
        memcpy(&bytes, src + x, sizeof bytes);
        const __m256i pixels = _mm256_set1_epi64x(bytes);
        const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_shuffle_epi8(pixels, own_four), own_weights),
                                               _mm256_maddubs_epi16(_mm256_shuffle_epi8(pixels, lower_four), ones));
        const __m256i prefix = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        if (x % 16 == 0)
            cusi_prefetchToWrite((char *)(out + x) + WRITE_AHEAD);
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(above + x));
        _mm256_storeu_si256((__m256i *)(void *)(out + x), _mm256_add_epi32(v, _mm256_add_epi32(prefix, before)));
        before = _mm256_add_epi32(before, _mm256_permutevar8x32_epi32(prefix, _mm256_set1_epi32(7)));
    }
    uint32_t sum = (uint32_t)_mm256_cvtsi256_si32(before);
    for (; x < n; ++x) {
        sum += src[x];
        out[x] = above[x] + sum;
    }
}
#endif

/* Integers below 2^53: any order of additions gives the same bits. */
CUSI_MULTIVERSION
void integral_row64(const uint8_t *src, size_t n, int squares, const double *above, double *out) {
    size_t x = 0;
    double sum = 0;
#ifdef VECTORS
    F64x8 before = {0};
    const U16x16 values_mask = squares ? (U16x16){0} : ~(U16x16){0};
    for (; x + 16 <= n; x += 16) {
        U8x16 bytes;
        memcpy(&bytes, src + x, sizeof bytes);
        U16x16 v = __builtin_convertvector(bytes, U16x16);
        v = (v & values_mask) | (v * v & ~values_mask); /* 255 squared fits */
        S32x8 half[2] = {
            __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7), S32x8),
            __builtin_convertvector(__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15), S32x8),
        };
        for (int k = 0; k < 2; ++k) {
            SCAN8(half[k]);
            const F64x8 wide = __builtin_convertvector(half[k], F64x8);
            F64x8 row;
            memcpy(&row, above + x + 8 * k, sizeof row);
            row += wide + before;
            memcpy(out + x + 8 * k, &row, sizeof row);
            before += __builtin_shufflevector(wide, wide, 7, 7, 7, 7, 7, 7, 7, 7);
        }
    }
    sum = before[0];
#endif
    for (; x < n; ++x) {
        sum += squares ? src[x] * src[x] : src[x];
        out[x] = above[x] + sum;
    }
}
