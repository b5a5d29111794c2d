/* Makes table rows and column totals of 8-bit pixels. */
#include "integral/cpu/rows.h"

#include <string.h>

/* ---- Table rows through the caches: prefix sums of a few pixels in vector registers ------------------------------ */

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

#endif

/* Sums of 8 pixels fit 16 bits. Sums of 4 are scanned by shifting 64 bits. */
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
enum { WRITE_AHEAD = 4096 }; /* bytes; table lines are prefetched this far ahead for writing */

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

/* The integers stay below 2^53, so any order of additions gives the same bits. */
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
            const S32x8 zero = {0}; /* inclusive scan: shifts by 1, 2 and 4 lanes */
            half[k] += __builtin_shufflevector(zero, half[k], 0, 8, 9, 10, 11, 12, 13, 14);
            half[k] += __builtin_shufflevector(zero, half[k], 0, 1, 8, 9, 10, 11, 12, 13);
            half[k] += __builtin_shufflevector(zero, half[k], 0, 1, 2, 3, 8, 9, 10, 11);
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

/* ---- Table rows past the caches ---------------------------------------------------------------------------------- */

#ifdef INTEGRAL_X86
enum { READ_AHEAD = 1024 }; /* bytes; the source is prefetched this far ahead */

/* Returns the inclusive scan of 32-bit lanes. */
INLINE_AVX512 __m512i scan16(__m512i v) {
    const __m512i zero = _mm512_setzero_si512();
    v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 15));
    v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 14));
    v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 12));
    return _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 8));
}

/* Writes entries x .. x + 15 from the scan of these 16 pixels. */
INLINE_AVX512 void writeEntries32(RowStream *r, __m512i *before, size_t x, __m512i prefix, uint32_t *above) {
    const __m512i sum = _mm512_add_epi32(prefix, *before);
    const __m512i entries = _mm512_add_epi32(sum, _mm512_loadu_si512(above + x));
    *before = _mm512_permutexvar_epi32(_mm512_set1_epi32(15), sum);
    _mm512_storeu_si512(above + x, entries);
    streamEntries(r, x * sizeof *above, entries);
}

/* before: the running sum minus 2^52, since 2^52 + v has the bits of v at its lower end. */
INLINE_AVX512 void writeEntries64(RowStream *r, __m512d *before, size_t x, __m512i prefix, double *above) {
    const __m512i exponent = _mm512_set1_epi32(0x43300000);
    const __m512i lower = _mm512_set_epi32(16, 7, 16, 6, 16, 5, 16, 4, 16, 3, 16, 2, 16, 1, 16, 0);
    const __m512i upper = _mm512_set_epi32(16, 15, 16, 14, 16, 13, 16, 12, 16, 11, 16, 10, 16, 9, 16, 8);
    const __m512d low = _mm512_castsi512_pd(_mm512_permutex2var_epi32(prefix, lower, exponent));
    const __m512d high = _mm512_castsi512_pd(_mm512_permutex2var_epi32(prefix, upper, exponent));
    const __m512d sum = _mm512_add_pd(high, *before);
    const __m512d first = _mm512_add_pd(_mm512_add_pd(low, *before), _mm512_loadu_pd(above + x));
    const __m512d second = _mm512_add_pd(sum, _mm512_loadu_pd(above + x + 8));
    *before = _mm512_sub_pd(_mm512_permutexvar_pd(_mm512_set1_epi64(7), sum), _mm512_set1_pd(0x1p52));
    _mm512_storeu_pd(above + x, first);
    _mm512_storeu_pd(above + x + 8, second);
    streamEntries(r, x * sizeof *above, _mm512_castpd_si512(first));
    streamEntries(r, (x + 8) * sizeof *above, _mm512_castpd_si512(second));
}

/* integral_rowAvx512() for a depth and a choice of tables that are known at compile time. */
INLINE_AVX512 void writeRow(int depth, int squares, const uint8_t *src, size_t n, void *const above[2],
                            void *const out[2]) {
    uint32_t *const above32 = above[0];
    double *const above64 = above[0], *const above_square = above[1];
    RowStream sums = startStream(out[0]), squared_sums = startStream(out[1]);
    __m512i before32 = _mm512_setzero_si512();
    __m512d before64 = _mm512_set1_pd(-0x1p52), before_square = before64;
    size_t x = 0;
    for (; x + 16 <= n; x += 16) {
        if (x % 64 == 0)
            __builtin_prefetch(src + x + READ_AHEAD);
        const __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(src + x)));
        __m512i sum, squared;
        if (depth >= 0 && squares) {
            /* Sums of 16 pixels fit 12 bits, those of their squares 20, so one scan makes both. */
            const __m512i both = scan16(_mm512_or_si512(_mm512_madd_epi16(v, v), _mm512_slli_epi32(v, 20)));
            sum = _mm512_srli_epi32(both, 20);
            squared = _mm512_and_si512(both, _mm512_set1_epi32(0xfffff));
        } else {
            sum = squared = scan16(squares ? _mm512_madd_epi16(v, v) : v);
        }
        if (depth == CUS_32S)
            writeEntries32(&sums, &before32, x, sum, above32);
        if (depth == CUS_64F)
            writeEntries64(&sums, &before64, x, sum, above64);
        if (squares)
            writeEntries64(&squared_sums, &before_square, x, squared, above_square);
    }
    if (depth >= 0)
        endStream(&sums, x * (depth == CUS_32S ? sizeof *above32 : sizeof *above64));
    if (squares)
        endStream(&squared_sums, x * sizeof *above_square);
    uint32_t sum32 = (uint32_t)_mm512_cvtsi512_si32(before32);
    double sum64 = _mm512_cvtsd_f64(before64) + 0x1p52, square = _mm512_cvtsd_f64(before_square) + 0x1p52;
    for (; x < n; ++x) {
        if (depth == CUS_32S)
            ((uint32_t *)out[0])[x] = above32[x] += sum32 += src[x];
        if (depth == CUS_64F)
            ((double *)out[0])[x] = above64[x] += sum64 += src[x];
        if (squares)
            ((double *)out[1])[x] = above_square[x] += square += src[x] * src[x];
    }
}

TARGET_AVX512
void integral_rowAvx512(int depth, int squares, const uint8_t *src, size_t n, void *const above[2], void *const out[2]) {
    if (depth == CUS_32S && squares)
        writeRow(CUS_32S, 1, src, n, above, out);
    else if (depth == CUS_32S)
        writeRow(CUS_32S, 0, src, n, above, out);
    else if (depth == CUS_64F && squares)
        writeRow(CUS_64F, 1, src, n, above, out);
    else if (depth == CUS_64F)
        writeRow(CUS_64F, 0, src, n, above, out);
    else if (squares)
        writeRow(-1, 1, src, n, above, out);
}
#endif

/* ---- Column totals ----------------------------------------------------------------------------------------------- */

CUSI_MULTIVERSION
void integral_addTotals(const uint8_t *src, size_t step, size_t rows, size_t cols, uint64_t *const totals[2]) {
    uint16_t sums[INTEGRAL_MAX_TOTAL_COLS];
    uint32_t squares[INTEGRAL_MAX_TOTAL_COLS];
    memset(sums, 0, cols * sizeof *sums);
    memset(squares, 0, cols * sizeof *squares);
    for (size_t y = 0; y < rows; ++y, src += step) {
        for (size_t x = 0; x < cols; x += 64) /* no hardware prefetcher follows the columns of a band */
            __builtin_prefetch(src + 4 * step + x);
        if (totals[0] && totals[1])
            for (size_t x = 0; x < cols; ++x) {
                sums[x] = (uint16_t)(sums[x] + src[x]);
                squares[x] += (uint32_t)(src[x] * src[x]);
            }
        else if (totals[0])
            for (size_t x = 0; x < cols; ++x)
                sums[x] = (uint16_t)(sums[x] + src[x]);
        else
            for (size_t x = 0; x < cols; ++x)
                squares[x] += (uint32_t)(src[x] * src[x]);
    }
    for (size_t x = 0; totals[0] && x < cols; ++x)
        totals[0][x] += sums[x];
    for (size_t x = 0; totals[1] && x < cols; ++x)
        totals[1][x] += squares[x];
}
