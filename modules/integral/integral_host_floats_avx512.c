/* Float sources with AVX-512: eight rows at once, one per lane, so that eight chains of additions share an instruction. The
 * sums of eight columns, transposed, are eight table rows to add one below the other; they are written past the caches. */
#include "integral_host_stream.h"

#include <string.h>

#ifdef INTEGRAL_X86

/* Columns x .. x + 7 of eight rows, one register per column; zeros where `inside` has no bit. */
INLINE_AVX512 void loadColumns(const float *const in[8], size_t x, __mmask8 inside, __m512d column[8]) {
    __m256 v[8], w[8];
    for (int k = 0; k < 8; ++k)
        v[k] = _mm256_maskz_loadu_ps(inside, in[k] + x);
    for (int k = 0; k < 8; k += 2) {
        w[k] = _mm256_unpacklo_ps(v[k], v[k + 1]);
        w[k + 1] = _mm256_unpackhi_ps(v[k], v[k + 1]);
    }
    for (int k = 0; k < 8; k += 4) {
        v[k] = _mm256_shuffle_ps(w[k], w[k + 2], 0x44);
        v[k + 1] = _mm256_shuffle_ps(w[k], w[k + 2], 0xee);
        v[k + 2] = _mm256_shuffle_ps(w[k + 1], w[k + 3], 0x44);
        v[k + 3] = _mm256_shuffle_ps(w[k + 1], w[k + 3], 0xee);
    }
    for (int k = 0; k < 4; ++k) {
        column[k] = _mm512_cvtps_pd(_mm256_permute2f128_ps(v[k], v[k + 4], 0x20));
        column[k + 4] = _mm512_cvtps_pd(_mm256_permute2f128_ps(v[k], v[k + 4], 0x31));
    }
}

/* Transposes eight rows of eight. */
INLINE_AVX512 void transpose8(__m512d v[8]) {
    __m512d w[8];
    for (int k = 0; k < 8; k += 2) {
        w[k] = _mm512_unpacklo_pd(v[k], v[k + 1]);
        w[k + 1] = _mm512_unpackhi_pd(v[k], v[k + 1]);
    }
    for (int k = 0; k < 2; ++k) {
        v[k] = _mm512_shuffle_f64x2(w[k], w[k + 2], 0x88);
        v[k + 2] = _mm512_shuffle_f64x2(w[k], w[k + 2], 0xdd);
        v[k + 4] = _mm512_shuffle_f64x2(w[k + 4], w[k + 6], 0x88);
        v[k + 6] = _mm512_shuffle_f64x2(w[k + 4], w[k + 6], 0xdd);
    }
    for (int k = 0; k < 4; ++k) {
        w[k] = _mm512_shuffle_f64x2(v[k], v[k + 4], 0x88);
        w[k + 4] = _mm512_shuffle_f64x2(v[k], v[k + 4], 0xdd);
    }
    memcpy(v, w, sizeof w);
}

TARGET_AVX512
void integral_sumFloatRowsAvx512(const float *const in[8], size_t x, size_t end, double sum[8], double square[8]) {
    __m512d s = _mm512_loadu_pd(sum), q = _mm512_loadu_pd(square);
    for (; x < end; x += 8) {
        __m512d column[8];
        loadColumns(in, x, end - x < 8 ? (__mmask8)((1u << (end - x)) - 1) : 0xff, column);
        for (int k = 0; k < 8; ++k) {
            s = _mm512_add_pd(s, column[k]);
            q = _mm512_add_pd(q, _mm512_mul_pd(column[k], column[k]));
        }
    }
    _mm512_storeu_pd(sum, s);
    _mm512_storeu_pd(square, q);
}

/* integral_writeFloatRowsAvx512 for values or squares, known at compile time. */
INLINE_AVX512 void writeRows(int squares, const float *const in[8], size_t x, size_t n, const double sum[8], double *above,
                             double *const out[8]) {
    RowStream64 row[8];
    for (int k = 0; k < 8; ++k)
        row[k] = startStream64(out[k]);
    __m512d s = _mm512_loadu_pd(sum);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m512d column[8], entries = _mm512_loadu_pd(above + i);
        loadColumns(in, x + i, 0xff, column);
        for (int k = 0; k < 8; ++k)
            column[k] = s = _mm512_add_pd(s, squares ? _mm512_mul_pd(column[k], column[k]) : column[k]);
        transpose8(column);
        for (int k = 0; k < 8; ++k) {
            entries = _mm512_add_pd(entries, column[k]);
            stream64(&row[k], i, entries);
        }
        _mm512_storeu_pd(above + i, entries);
    }
    for (int k = 0; k < 8; ++k)
        endStream64(&row[k], i);
    double rest[8];
    _mm512_storeu_pd(rest, s);
    for (; i < n; ++i) {
        for (int k = 0; k < 8; ++k) {
            const double v = in[k][x + i];
            rest[k] += squares ? v * v : v;
            out[k][i] = above[i] += rest[k];
        }
    }
}

TARGET_AVX512
void integral_writeFloatRowsAvx512(int squares, const float *const in[8], size_t x, size_t n, const double sum[8],
                                   double *above, double *const out[8]) {
    if (squares)
        writeRows(1, in, x, n, sum, above, out);
    else
        writeRows(0, in, x, n, sum, above, out);
}

#else
typedef int integral_host_floats_avx512_unused; /* ISO C has no empty files */
#endif
