/* 8-bit pixels with AVX-512: table rows past the caches (non-temporal stores), column totals of pixels and squares in one pass. The row above is
 * kept in a buffer that stays in the cache, as the table's own rows do not. */
#include "integral_host_stream.h"

#include <string.h>

#ifdef INTEGRAL_X86

enum { READ_AHEAD = 1024 }; /* bytes by which the source is prefetched */

/* Inclusive scan of 32-bit lanes. */
INLINE_AVX512 __m512i scan16(__m512i v) {
    const __m512i zero = _mm512_setzero_si512();
    v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 15));
    v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 14));
    v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 12));
    return _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 8));
}

/* Entries x .. x + 15, from the scan of these 16 pixels. */
INLINE_AVX512 void writeEntries32(RowStream32 *r, size_t x, __m512i prefix, uint32_t *above) {
    const __m512i sum = _mm512_add_epi32(prefix, r->before);
    const __m512i entries = _mm512_add_epi32(sum, _mm512_loadu_si512(above + x));
    r->before = _mm512_permutexvar_epi32(_mm512_set1_epi32(15), sum);
    _mm512_storeu_si512(above + x, entries);
    stream32(r, x, entries);
}

INLINE_AVX512 void writeEntries64(RowStream64 *r, size_t x, __m512i prefix, double *above) {
    /* 2^52 + v has the bits of v at its lower end. */
    const __m512i exponent = _mm512_set1_epi32(0x43300000);
    const __m512i lower = _mm512_set_epi32(16, 7, 16, 6, 16, 5, 16, 4, 16, 3, 16, 2, 16, 1, 16, 0);
    const __m512i upper = _mm512_set_epi32(16, 15, 16, 14, 16, 13, 16, 12, 16, 11, 16, 10, 16, 9, 16, 8);
    const __m512d low = _mm512_castsi512_pd(_mm512_permutex2var_epi32(prefix, lower, exponent));
    const __m512d high = _mm512_castsi512_pd(_mm512_permutex2var_epi32(prefix, upper, exponent));
    const __m512d sum = _mm512_add_pd(high, r->before);
    const __m512d first = _mm512_add_pd(_mm512_add_pd(low, r->before), _mm512_loadu_pd(above + x));
    const __m512d second = _mm512_add_pd(sum, _mm512_loadu_pd(above + x + 8));
    r->before = _mm512_sub_pd(_mm512_permutexvar_pd(_mm512_set1_epi64(7), sum), _mm512_set1_pd(0x1p52));
    _mm512_storeu_pd(above + x, first);
    _mm512_storeu_pd(above + x + 8, second);
    stream64(r, x, first);
    stream64(r, x + 8, second);
}

/* integral_rowAvx512 for one depth and choice of tables, both known at compile time. */
INLINE_AVX512 void writeRow(int depth, int squares, const uint8_t *src, size_t n, void *const above[2],
                            void *const out[2]) {
    uint32_t *const above32 = above[0];
    double *const above64 = above[0], *const above_square = above[1];
    RowStream32 sum32 = startStream32(out[0]);
    RowStream64 sum64 = startStream64(out[0]), square = startStream64(out[1]);
    size_t x = 0;
    for (; x + 16 <= n; x += 16) {
        if (x % 64 == 0)
            __builtin_prefetch(src + x + READ_AHEAD);
        const __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(src + x)));
        __m512i sum, squared;
        if (depth >= 0 && squares) {
            /* Sums of 16 pixels fit 12 bits, those of their squares 20: one scan does both. */
            const __m512i both = scan16(_mm512_or_si512(_mm512_madd_epi16(v, v), _mm512_slli_epi32(v, 20)));
            sum = _mm512_srli_epi32(both, 20);
            squared = _mm512_and_si512(both, _mm512_set1_epi32(0xfffff));
        } else {
            sum = squared = scan16(squares ? _mm512_madd_epi16(v, v) : v);
        }
        if (depth == CUS_32S)
            writeEntries32(&sum32, x, sum, above32);
        if (depth == CUS_64F)
            writeEntries64(&sum64, x, sum, above64);
        if (squares)
            writeEntries64(&square, x, squared, above_square);
    }
    if (depth == CUS_32S)
        endStream32(&sum32, x);
    if (depth == CUS_64F)
        endStream64(&sum64, x);
    if (squares)
        endStream64(&square, x);
    uint32_t narrow = (uint32_t)_mm512_cvtsi512_si32(sum32.before);
    double wide = _mm512_cvtsd_f64(sum64.before) + 0x1p52, squared = _mm512_cvtsd_f64(square.before) + 0x1p52;
    for (; x < n; ++x) {
        if (depth == CUS_32S)
            sum32.out[x] = above32[x] += narrow += src[x];
        if (depth == CUS_64F)
            sum64.out[x] = above64[x] += wide += src[x];
        if (squares)
            square.out[x] = above_square[x] += squared += src[x] * src[x];
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

/* Two rows share a register, as 16-bit pairs: additions sum them, one multiplication makes and adds both squares. */
TARGET_AVX512
void integral_addTotalsAvx512(const uint8_t *src, size_t step, size_t rows, size_t cols, uint64_t *totals,
                              uint64_t *squares) {
    _Alignas(64) uint32_t partial[INTEGRAL_MAX_TOTAL_COLS], partial_squares[INTEGRAL_MAX_TOTAL_COLS];
    memset(partial, 0, (cols + 15) / 16 * sizeof(__m512i));
    memset(partial_squares, 0, (cols + 15) / 16 * sizeof(__m512i));
    for (size_t y = 0; y < rows; y += 4) {
        const uint8_t *row = src + y * step;
        for (size_t x = 0; x < cols; x += 16) {
            const __mmask16 inside = cols - x < 16 ? (__mmask16)((1u << (cols - x)) - 1) : 0xffff;
            __m512i v[4];
            if (x % 64 == 0) /* the next rows: no hardware prefetcher follows the columns of a band */
                for (size_t k = 4; k < 8; ++k)
                    __builtin_prefetch(row + k * step + x);
            for (size_t k = 0; k < 4; ++k)
                v[k] = _mm512_cvtepu8_epi32(
                    _mm_maskz_loadu_epi8(k < rows - y ? inside : 0, row + (k < rows - y ? k * step : 0) + x));
            const __m512i first = _mm512_or_si512(v[0], _mm512_slli_epi32(v[1], 16));
            const __m512i second = _mm512_or_si512(v[2], _mm512_slli_epi32(v[3], 16));
            const __m512i four = _mm512_add_epi16(first, second);
            const __m512i four_squares =
                _mm512_add_epi32(_mm512_madd_epi16(first, first), _mm512_madd_epi16(second, second));
            _mm512_store_si512(partial + x, _mm512_add_epi16(_mm512_load_si512(partial + x), four));
            _mm512_store_si512(partial_squares + x, _mm512_add_epi32(_mm512_load_si512(partial_squares + x), four_squares));
        }
    }
    for (size_t x = 0; x < cols; ++x) {
        totals[x] += (partial[x] & 0xffff) + (partial[x] >> 16);
        squares[x] += partial_squares[x];
    }
}

#else
typedef int integral_host_avx512_unused; /* ISO C has no empty files */
#endif
