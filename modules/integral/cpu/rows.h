/* Declarations that the files of the host backend share; docs/internals/integral.md lists them. */
#ifndef CUSI_INTEGRAL_ROWS_H
#define CUSI_INTEGRAL_ROWS_H

#include "check.h"
#include "host.h"
#include "integral/backend.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define INTEGRAL_X86 1
#include <immintrin.h>
#endif

#define INTEGRAL_ROW(type, mat, y) ((type *)(void *)((char *)(mat)->data + (size_t)(y) * (mat)->step))

/* Rounds n 64-bit entries up to whole cache lines. */
static inline size_t integral_padded(size_t n) {
    return (n + 7) / 8 * 8;
}

/* ---- Sources ----------------------------------------------------------------------------------------------------- */

/* Return the bytes of workspace, for one table or both. */
size_t integral_bytesWorkspace(int threads, int cols);
size_t integral_floatsWorkspace(int threads, int rows, int cols);
size_t integral_gridWorkspace(int threads, size_t values); /* values: those of a row */

/* Fill the tables, whose row 0 is already zero. */
void integral_runBytes(const IntegralArgs *args, IntegralHostPath path, int threads);
void integral_runFloats(const IntegralArgs *args, IntegralHostPath path, int threads);
void integral_runGrid(const IntegralArgs *args, IntegralHostPath path, int threads); /* reproducible; 1 to 4 channels */
void integral_runChannels(const IntegralArgs *args, int threads);                    /* 2 to 4 channels; no workspace */

/* ---- One row of a table from the row above; all rows without their column 0 -------------------------------------- */

void integral_row32(const uint8_t *src, size_t n, const uint32_t *above, uint32_t *out);
/* Makes the sums of the pixels or of their squares. */
void integral_row64(const uint8_t *src, size_t n, int squares, const double *above, double *out);

/* ---- Column totals of 8-bit pixels ------------------------------------------------------------------------------- */

enum {
    INTEGRAL_MAX_TOTAL_ROWS = 256, /* 16-bit column totals of bytes hold 257 rows */
    INTEGRAL_MAX_TOTAL_COLS = 4096 /* column totals that stay in the L1 cache */
};

/* Adds up to INTEGRAL_MAX_TOTAL_ROWS rows of up to INTEGRAL_MAX_TOTAL_COLS columns to the column totals of the pixels and
 * of their squares; NULL where not requested. */
void integral_addTotals(const uint8_t *src, size_t step, size_t rows, size_t cols, uint64_t *const totals[2]);

#ifdef INTEGRAL_X86
void integral_row32Avx2(const uint8_t *src, size_t n, const uint32_t *above, uint32_t *out);

/* Writes a row of n columns of both tables. depth: that of the sums, CUS_32S or CUS_64F, or -1 if there are none. above,
 * out: rows of sums and of squares. Overwrites `above` with `out`; `out` bypasses the caches. */
void integral_rowAvx512(int depth, int squares, const uint8_t *src, size_t n, void *const above[2], void *const out[2]);

/* ---- Writing a table row past the caches ------------------------------------------------------------------------- */

/* AVX-512 stores whole cache lines, which need not be read first; that halves the traffic. A register's entries seldom
 * coincide with a line, so each line takes its first entries from the register before. */

#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define INLINE_AVX512 TARGET_AVX512 static inline __attribute__((always_inline))

typedef struct RowStream {
    char *out;        /* the row without its column 0 */
    unsigned head;    /* 32-bit words before the first whole line */
    __m512i lanes;    /* the words of two registers that make up a line */
    __m512i previous; /* the register before */
} RowStream;

INLINE_AVX512 RowStream startStream(void *out) {
    const unsigned head = (unsigned)(-(uintptr_t)out % 64 / 4);
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return (RowStream){out, head, _mm512_add_epi32(lanes, _mm512_set1_epi32((int)head)), _mm512_setzero_si512()};
}

/* Streams the 64 bytes of entries that start at byte `at` of the row. */
INLINE_AVX512 void streamEntries(RowStream *r, size_t at, __m512i entries) {
    if (at > 0)
        _mm512_stream_si512((void *)(r->out + at + 4 * r->head - 64),
                            _mm512_permutex2var_epi32(r->previous, r->lanes, entries));
    else
        _mm512_mask_storeu_epi32(r->out, (__mmask16)((1u << r->head) - 1), entries);
    r->previous = entries;
}

/* Stores the words of the last register, which ends at byte `at`, that no line has taken. */
INLINE_AVX512 void endStream(const RowStream *r, size_t at) {
    if (at > 0)
        _mm512_mask_storeu_epi32(r->out + at + 4 * r->head - 64, (__mmask16)(0xffffu >> r->head),
                                 _mm512_permutexvar_epi32(r->lanes, r->previous));
}
#endif

#endif
