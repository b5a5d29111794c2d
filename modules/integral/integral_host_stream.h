/* Writing a table row past the caches with AVX-512. Whole cache lines are stored, so the line is not read first, which is
 * half of the traffic. The entries of a register seldom coincide with a line: each line takes its first entries from the
 * register before. */
#ifndef CUSI_INTEGRAL_HOST_STREAM_H
#define CUSI_INTEGRAL_HOST_STREAM_H

#include "integral_host.h"

#ifdef INTEGRAL_X86
#include <immintrin.h>

#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define INLINE_AVX512 TARGET_AVX512 static inline __attribute__((always_inline))

/* A row being written. out: without its column 0. */
typedef struct RowStream32 {
    uint32_t *out;
    unsigned head;    /* entries before the first whole line */
    __m512i lanes;    /* of the two registers, those that make up a line */
    __m512i previous; /* the register before */
    __m512i before;   /* the running sum */
} RowStream32;

typedef struct RowStream64 {
    double *out;
    unsigned head;
    __m512i lanes;
    __m512d previous;
    __m512d before; /* the running sum - 2^52 */
} RowStream64;

INLINE_AVX512 RowStream32 startStream32(uint32_t *out) {
    const unsigned head = (unsigned)(-(uintptr_t)out % 64 / sizeof *out);
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i zero = _mm512_setzero_si512();
    return (RowStream32){out, head, _mm512_add_epi32(lanes, _mm512_set1_epi32((int)head)), zero, zero};
}

INLINE_AVX512 RowStream64 startStream64(double *out) {
    const unsigned head = (unsigned)(-(uintptr_t)out % 64 / sizeof *out);
    const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i shifted = _mm512_add_epi64(lanes, _mm512_set1_epi64(head));
    return (RowStream64){out, head, shifted, _mm512_setzero_pd(), _mm512_set1_pd(-0x1p52)};
}

/* Entries x .. x + 15 and x .. x + 7. */
INLINE_AVX512 void stream32(RowStream32 *r, size_t x, __m512i entries) {
    if (x > 0)
        _mm512_stream_si512((void *)(r->out + x + r->head - 16), _mm512_permutex2var_epi32(r->previous, r->lanes, entries));
    else
        _mm512_mask_storeu_epi32(r->out, (__mmask16)((1u << r->head) - 1), entries);
    r->previous = entries;
}

INLINE_AVX512 void stream64(RowStream64 *r, size_t x, __m512d entries) {
    if (x > 0)
        _mm512_stream_pd(r->out + x + r->head - 8, _mm512_permutex2var_pd(r->previous, r->lanes, entries));
    else
        _mm512_mask_storeu_pd(r->out, (__mmask8)((1u << r->head) - 1), entries);
    r->previous = entries;
}

/* The entries of the last register, which ends before x, that no line has taken. */
INLINE_AVX512 void endStream32(const RowStream32 *r, size_t x) {
    if (x > 0)
        _mm512_mask_storeu_epi32(r->out + x + r->head - 16, (__mmask16)(0xffffu >> r->head),
                                 _mm512_permutexvar_epi32(r->lanes, r->previous));
}

INLINE_AVX512 void endStream64(const RowStream64 *r, size_t x) {
    if (x > 0)
        _mm512_mask_storeu_pd(r->out + x + r->head - 8, (__mmask8)(0xffu >> r->head),
                              _mm512_permutexvar_pd(r->lanes, r->previous));
}

#endif
#endif
