#include "check.h"
#include "host.h"
#include "integral_backend.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#define X86 1
#include <immintrin.h>
#endif

/* Both ways read the source twice and write the table once, and the threads meet once in between.
 * 8-bit sources: one band of rows a thread. First the column totals of the bands are taken; from them follows the table row
 * each band starts from, and then the bands are written independently.
 * Float sources: one stripe of columns a thread. First each row's sums left of the stripes are taken, then the stripes are
 * written independently. Cut this way, every addition is that of the plain loop, in its order, for any number of threads.
 */

#define ROW(type, mat, y) ((type *)(void *)((char *)(mat)->data + (size_t)(y) * (mat)->step))

enum {
    ROWS_AT_ONCE = 256,  /* 16-bit column totals of bytes hold 257 rows */
    COLS_AT_ONCE = 4096, /* column totals that stay in the level-1 cache */
    PIXELS_A_THREAD = 65536,
    BOXES_A_THREAD = 4096,
    /* Bytes of a table, fetched early to be written: 640x480 to 32S that no cache holds takes 0.065 ms so, 0.077 without. */
    WRITE_AHEAD = 4096,
    /* Tables from this size on are written past the caches: more than level 2 of two cores holds. 1920x1080 to 32S on two
     * cores of a Xeon (Sapphire Rapids) takes 0.30 ms so, 0.40 through the caches. 640x480 takes 0.054 and 0.065, but with
     * one reading of the table after it 0.108 and 0.084, and 0.125 and 0.064 where one table is made again and again. */
    STREAMED_BYTES = 4 << 20
};

static int threadsFor(int rows, int cols) {
    const size_t useful = (size_t)rows * (size_t)cols / PIXELS_A_THREAD + 1;
    const size_t threads = (size_t)cusi_maxThreads();
    return (int)(threads < useful ? threads : useful);
}

/* Entries of 64 bits that fill whole cache lines. */
static size_t padded(size_t cols) {
    return (cols + 7) / 8 * 8;
}

/* Float: the rows above, of each stripe from a cache line's start on. */
static size_t abovesFor(int threads, int cols) {
    return padded((size_t)cols) + 8 * (size_t)threads;
}

/* 8-bit: for each band, of sums and of squares, column totals and the table row the band starts from. Float, of both: for
 * each stripe of columns and each row, the sum of what is to the left of it; the row above each stripe. */
static size_t workspaceFor(int threads, int rows, int cols) {
    const size_t bands = (size_t)threads * padded((size_t)cols) * 4 * sizeof(uint64_t);
    const size_t stripes = ((size_t)threads * padded((size_t)rows) + abovesFor(threads, cols)) * 2 * sizeof(double);
    return bands > stripes ? bands : stripes;
}

cusStatus integral_host_workspace(const char *function, int rows, int cols, size_t *bytes) {
    (void)function;
    *bytes = workspaceFor(threadsFor(rows, cols), rows, cols);
    return CUS_OK;
}

/* ---- Prefix sums of a few pixels in vector registers -------------------------------------------------------------------
 */

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

/* v += v shifted by 1, 2, 4 places, zeros moving in. */
#define PREFIX8(v)                                                           \
    do {                                                                     \
        const __typeof__(v) zero_ = {0};                                     \
        v += __builtin_shufflevector(zero_, v, 0, 8, 9, 10, 11, 12, 13, 14); \
        v += __builtin_shufflevector(zero_, v, 0, 1, 8, 9, 10, 11, 12, 13);  \
        v += __builtin_shufflevector(zero_, v, 0, 1, 2, 3, 8, 9, 10, 11);    \
    } while (0)
#endif

/* One row of a table from the row above; both without their column 0. Sums within 8 pixels fit 16 bits; those within 4
 * come of shifts of 64 bits. */
CUSI_MULTIVERSION
static void sumRow32(const uint8_t *src, size_t n, const uint32_t *above, uint32_t *out) {
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

#ifdef X86
/* The same with AVX2, where multiplications by 0 and 1 add up to 4 pixels for each of 4 lanes. 640x480 pixels in the caches
 * take one core of a Xeon (Sapphire Rapids) 48 us so, 91 as above. */
__attribute__((target("avx2"))) static void sumRow32Avx2(const uint8_t *src, size_t n, const uint32_t *above,
                                                         uint32_t *out) {
    const __m256i fours =
        _mm256_setr_epi32(0x03020100, 0x03020100, 0x03020100, 0x03020100, 0x07060504, 0x07060504, 0x07060504, 0x07060504);
    const __m256i up_to = _mm256_setr_epi32(0x1, 0x101, 0x10101, 0x1010101, 0x1, 0x101, 0x10101, 0x1010101);
    const __m256i left = _mm256_setr_epi32(-1, -1, -1, -1, 0x03020100, 0x03020100, 0x03020100, 0x03020100); /* -1: none */
    const __m256i all = _mm256_set1_epi8(1);
    __m256i before = _mm256_setzero_si256();
    size_t x = 0;
    for (; x + 8 <= n; x += 8) {
        long long bytes;
        memcpy(&bytes, src + x, sizeof bytes);
        const __m256i eight = _mm256_set1_epi64x(bytes);
        const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_shuffle_epi8(eight, fours), up_to),
                                               _mm256_maddubs_epi16(_mm256_shuffle_epi8(eight, left), all));
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

/* The same in double, of the bytes or of their squares: integers below 2^53, so any order gives the same. */
CUSI_MULTIVERSION
static void sumRow64(const uint8_t *src, size_t n, int squares, const double *above, double *out) {
    size_t x = 0;
    double sum = 0;
#ifdef VECTORS
    F64x8 before = {0};
    const U16x16 keep = squares ? (U16x16){0} : ~(U16x16){0};
    for (; x + 16 <= n; x += 16) {
        U8x16 bytes;
        memcpy(&bytes, src + x, sizeof bytes);
        U16x16 v = __builtin_convertvector(bytes, U16x16);
        v = (v & keep) | (v * v & ~keep); /* 255 squared fits */
        S32x8 half[2] = {
            __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7), S32x8),
            __builtin_convertvector(__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15), S32x8),
        };
        for (int k = 0; k < 2; ++k) {
            PREFIX8(half[k]);
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

/* ---- Rows of both tables with AVX-512, for tables that no cache holds -------------------------------------------------
 * The tables are written past the caches in whole lines, which without reading them first is half the traffic. The row
 * above is kept apart, where the cache holds it, and becomes the row below. The entries of a register are seldom those of a
 * line: a line takes its first from the register before.
 */

#ifdef X86
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define INLINE_AVX512 TARGET_AVX512 static inline __attribute__((always_inline))

enum { BYTES_AHEAD = 1024 }; /* of the source, fetched early: sums alone gain 6 % */

/* 32-bit lanes, summed up from the left. */
INLINE_AVX512 __m512i prefix16(__m512i v) {
    const __m512i zero = _mm512_setzero_si512();
    v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 15));
    v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 14));
    v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 12));
    return _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 8));
}

/* A row under way. out: without its column 0. */
typedef struct Row32 {
    uint32_t *out;
    unsigned head;               /* entries before the first whole line */
    __m512i shift, left, before; /* lanes of a line; the register before; the sum so far */
} Row32;

typedef struct Row64 {
    double *out;
    unsigned head;
    __m512i shift;
    __m512d left, before; /* before: the sum so far - 2^52 */
} Row64;

INLINE_AVX512 Row32 startRow32(uint32_t *out) {
    const unsigned head = (unsigned)(-(uintptr_t)out % 64 / sizeof *out);
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i zero = _mm512_setzero_si512();
    return (Row32){out, head, _mm512_add_epi32(lanes, _mm512_set1_epi32((int)head)), zero, zero};
}

INLINE_AVX512 Row64 startRow64(double *out) {
    const unsigned head = (unsigned)(-(uintptr_t)out % 64 / sizeof *out);
    const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i shift = _mm512_add_epi64(lanes, _mm512_set1_epi64(head));
    return (Row64){out, head, shift, _mm512_setzero_pd(), _mm512_set1_pd(-0x1p52)};
}

/* Entries x .. x + 15, from the sums within these 16. */
INLINE_AVX512 void add32(Row32 *r, size_t x, __m512i prefix, uint32_t *above) {
    const __m512i sum = _mm512_add_epi32(prefix, r->before);
    const __m512i entries = _mm512_add_epi32(sum, _mm512_loadu_si512(above + x));
    r->before = _mm512_permutexvar_epi32(_mm512_set1_epi32(15), sum);
    _mm512_storeu_si512(above + x, entries);
    if (x > 0)
        _mm512_stream_si512((void *)(r->out + x + r->head - 16), _mm512_permutex2var_epi32(r->left, r->shift, entries));
    else
        _mm512_mask_storeu_epi32(r->out, (__mmask16)((1u << r->head) - 1), entries);
    r->left = entries;
}

/* Entries x .. x + 7, from what the register before left and these. */
INLINE_AVX512 void put64(Row64 *r, size_t x, __m512d entries) {
    if (x > 0)
        _mm512_stream_pd(r->out + x + r->head - 8, _mm512_permutex2var_pd(r->left, r->shift, entries));
    else
        _mm512_mask_storeu_pd(r->out, (__mmask8)((1u << r->head) - 1), entries);
    r->left = entries;
}

INLINE_AVX512 void add64(Row64 *r, size_t x, __m512i prefix, double *above) {
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
    put64(r, x, first);
    put64(r, x + 8, second);
}

/* The entries of the last register, which ends before x, that no line has taken. */
INLINE_AVX512 void end32(const Row32 *r, size_t x) {
    if (x > 0)
        _mm512_mask_storeu_epi32(r->out + x + r->head - 16, (__mmask16)(0xffffu >> r->head),
                                 _mm512_permutexvar_epi32(r->shift, r->left));
}

INLINE_AVX512 void end64(const Row64 *r, size_t x) {
    if (x > 0)
        _mm512_mask_storeu_pd(r->out + x + r->head - 8, (__mmask8)(0xffu >> r->head),
                              _mm512_permutexvar_pd(r->shift, r->left));
}

/* A row of n columns. depth: of the sums, CUS_32S or CUS_64F, -1 for none. above: the rows above, out: the rows, of sums
 * and squares, all without their column 0; above becomes out. */
INLINE_AVX512 void addRowAs(int depth, int squares, const uint8_t *src, size_t n, void *const above[2],
                            void *const out[2]) {
    uint32_t *const above32 = above[0];
    double *const above64 = above[0], *const above_square = above[1];
    Row32 sum32 = startRow32(out[0]);
    Row64 sum64 = startRow64(out[0]), square = startRow64(out[1]);
    size_t x = 0;
    for (; x + 16 <= n; x += 16) {
        if (x % 64 == 0)
            __builtin_prefetch(src + x + BYTES_AHEAD);
        const __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(src + x)));
        __m512i sum, squared;
        if (depth >= 0 && squares) {
            /* Sums of 16 pixels fit 12 bits, those of their squares 20: one scan does both. */
            const __m512i both = prefix16(_mm512_or_si512(_mm512_madd_epi16(v, v), _mm512_slli_epi32(v, 20)));
            sum = _mm512_srli_epi32(both, 20);
            squared = _mm512_and_si512(both, _mm512_set1_epi32(0xfffff));
        } else {
            sum = squared = prefix16(squares ? _mm512_madd_epi16(v, v) : v);
        }
        if (depth == CUS_32S)
            add32(&sum32, x, sum, above32);
        if (depth == CUS_64F)
            add64(&sum64, x, sum, above64);
        if (squares)
            add64(&square, x, squared, above_square);
    }
    if (depth == CUS_32S)
        end32(&sum32, x);
    if (depth == CUS_64F)
        end64(&sum64, x);
    if (squares)
        end64(&square, x);
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
static void addRow(int depth, int squares, const uint8_t *src, size_t n, void *const above[2], void *const out[2]) {
    if (depth == CUS_32S && squares)
        addRowAs(CUS_32S, 1, src, n, above, out);
    else if (depth == CUS_32S)
        addRowAs(CUS_32S, 0, src, n, above, out);
    else if (depth == CUS_64F && squares)
        addRowAs(CUS_64F, 1, src, n, above, out);
    else if (depth == CUS_64F)
        addRowAs(CUS_64F, 0, src, n, above, out);
    else if (squares)
        addRowAs(-1, 1, src, n, above, out);
}

/* Rows start .. end - 1 of the tables. above: the rows they start from, without their column 0; they are used up. */
static void streamBand(const cusMat *src, int start, int end, void *const above[2], cusMat *const tables[2]) {
    for (int y = start; y < end; ++y) {
        void *out[2] = {NULL, NULL};
        for (int k = 0; k < 2; ++k) {
            if (!tables[k])
                continue;
            const size_t entry = cusTypeSize(tables[k]->type);
            char *const row = ROW(char, tables[k], y + 1);
            memset(row, 0, entry);
            out[k] = row + entry;
            __builtin_prefetch(row + cusi_rowBytes(tables[k]), 1); /* where rows meet within a line: not streamed */
        }
        addRow(tables[0] ? CUS_DEPTH(tables[0]->type) : -1, tables[1] != NULL, ROW(const uint8_t, src, y),
               (size_t)src->cols, above, out);
    }
    _mm_sfence(); /* what was streamed comes before the end of the parallel region */
}

/* Adds up to ROWS_AT_ONCE rows of up to COLS_AT_ONCE columns to the column totals of pixels and of their squares. Two rows
 * share a register, as 16-bit pairs: additions sum them, one multiplication makes and adds both squares. */
TARGET_AVX512
static void addBothTotals(const uint8_t *src, size_t step, size_t rows, size_t cols, uint64_t *totals, uint64_t *squares) {
    _Alignas(64) uint32_t few[COLS_AT_ONCE], few_squares[COLS_AT_ONCE];
    memset(few, 0, (cols + 15) / 16 * sizeof(__m512i));
    memset(few_squares, 0, (cols + 15) / 16 * sizeof(__m512i));
    for (size_t y = 0; y < rows; y += 4) {
        const uint8_t *row = src + y * step;
        for (size_t x = 0; x < cols; x += 16) {
            const __mmask16 there = cols - x < 16 ? (__mmask16)((1u << (cols - x)) - 1) : 0xffff;
            __m512i v[4];
            if (x % 64 == 0) /* the next rows: no prefetcher of the processor follows columns of a band */
                for (size_t k = 4; k < 8; ++k)
                    __builtin_prefetch(row + k * step + x);
            for (size_t k = 0; k < 4; ++k)
                v[k] = _mm512_cvtepu8_epi32(
                    _mm_maskz_loadu_epi8(k < rows - y ? there : 0, row + (k < rows - y ? k * step : 0) + x));
            const __m512i first = _mm512_or_si512(v[0], _mm512_slli_epi32(v[1], 16));
            const __m512i second = _mm512_or_si512(v[2], _mm512_slli_epi32(v[3], 16));
            const __m512i four = _mm512_add_epi16(first, second);
            const __m512i four_squares =
                _mm512_add_epi32(_mm512_madd_epi16(first, first), _mm512_madd_epi16(second, second));
            _mm512_store_si512(few + x, _mm512_add_epi16(_mm512_load_si512(few + x), four));
            _mm512_store_si512(few_squares + x, _mm512_add_epi32(_mm512_load_si512(few_squares + x), four_squares));
        }
    }
    for (size_t x = 0; x < cols; ++x) {
        totals[x] += (few[x] & 0xffff) + (few[x] >> 16);
        squares[x] += few_squares[x];
    }
}
#endif

/* ---- 8-bit sources
 * ------------------------------------------------------------------------------------------------------- */

/* Adds up to ROWS_AT_ONCE rows of up to COLS_AT_ONCE columns to the column totals. */
CUSI_MULTIVERSION
static void addTotals(const uint8_t *src, size_t step, size_t rows, size_t cols, uint64_t *totals) {
    uint16_t few[COLS_AT_ONCE];
    memset(few, 0, cols * sizeof *few);
    for (size_t y = 0; y < rows; ++y) {
        const uint8_t *row = src + y * step;
        for (size_t x = 0; x < cols; ++x)
            few[x] = (uint16_t)(few[x] + row[x]);
    }
    for (size_t x = 0; x < cols; ++x)
        totals[x] += few[x];
}

CUSI_MULTIVERSION
static void addSquareTotals(const uint8_t *src, size_t step, size_t rows, size_t cols, uint64_t *totals) {
    uint32_t few[COLS_AT_ONCE];
    memset(few, 0, cols * sizeof *few);
    for (size_t y = 0; y < rows; ++y) {
        const uint8_t *row = src + y * step;
        for (size_t x = 0; x < cols; ++x)
            few[x] += (uint32_t)(row[x] * row[x]);
    }
    for (size_t x = 0; x < cols; ++x)
        totals[x] += few[x];
}

typedef struct Bands {
    int count, rows;
} Bands;

static int bandStart(const Bands *bands, int band) {
    assert(bands->count > 0);
    return (int)((int64_t)bands->rows * band / bands->count);
}

/* Column totals of columns x .. x + n - 1 of one band, of pixels and of squares; NULL for those not wanted. */
static void bandTotals(const cusMat *src, const Bands *bands, int band, size_t x, size_t n, IntegralHost way,
                       uint64_t *const totals[2]) {
    (void)way; /* there is one way where there is no x86 */
    const int end = bandStart(bands, band + 1);
    for (int k = 0; k < 2; ++k)
        if (totals[k])
            memset(totals[k] + x, 0, n * sizeof **totals);
    for (int y = bandStart(bands, band); y < end; y += ROWS_AT_ONCE) {
        const size_t rows = (size_t)(end - y < ROWS_AT_ONCE ? end - y : ROWS_AT_ONCE);
        const uint8_t *first = ROW(const uint8_t, src, y) + x;
#ifdef X86
        if (way == INTEGRAL_STREAMED && totals[0] && totals[1]) {
            addBothTotals(first, src->step, rows, n, totals[0] + x, totals[1] + x);
            continue;
        }
#endif
        if (totals[0])
            addTotals(first, src->step, rows, n, totals[0] + x);
        if (totals[1])
            addSquareTotals(first, src->step, rows, n, totals[1] + x);
    }
}

/* The table row above `band`, without its column 0: the prefix sum of the column totals of the bands before it. totals:
 * padded(cols) for each band. */
static void startRow(const uint64_t *totals, int band, size_t cols, int is64, void *row) {
    uint64_t sum = 0;
    for (size_t x = 0; x < cols; ++x) {
        for (int k = 0; k < band; ++k)
            sum += totals[(size_t)k * padded(cols) + x];
        if (is64)
            ((double *)row)[x] = (double)sum;
        else
            ((uint32_t *)row)[x] = (uint32_t)sum;
    }
}

/* The same through the caches. */
static void writeBand(const cusMat *src, int start, int end, IntegralHost way, void *above[2], cusMat *const tables[2]) {
    (void)way; /* there is one way where there is no x86 */
    void (*sum_row)(const uint8_t *, size_t, const uint32_t *, uint32_t *) = sumRow32;
#ifdef X86
    if (way == INTEGRAL_AVX2)
        sum_row = sumRow32Avx2;
#endif
    for (int y = start; y < end; ++y) {
        const uint8_t *in = ROW(const uint8_t, src, y);
        for (int k = 0; k < 2; ++k) {
            if (!tables[k])
                continue;
            const size_t entry = cusTypeSize(tables[k]->type);
            char *const row = ROW(char, tables[k], y + 1);
            memset(row, 0, entry);
            if (tables[k]->type == CUS_64FC1)
                sumRow64(in, (size_t)src->cols, k, above[k], (double *)(void *)(row + entry));
            else
                sum_row(in, (size_t)src->cols, above[k], (uint32_t *)(void *)(row + entry));
            above[k] = row + entry;
        }
    }
}

bool integral_host_can(IntegralHost way) {
#ifdef X86
    if (way == INTEGRAL_STREAMED)
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    if (way == INTEGRAL_AVX2)
        return __builtin_cpu_supports("avx2");
#endif
    return way == INTEGRAL_CHOSEN || way == INTEGRAL_PLAIN;
}

static IntegralHost wayOf(const IntegralJob *job) {
    if (job->host != INTEGRAL_CHOSEN)
        return job->host;
    cusMat *const tables[2] = {job->sum, job->sqsum};
    size_t bytes = 0;
    for (int k = 0; k < 2; ++k)
        bytes += tables[k] ? cusi_rowBytes(tables[k]) * (size_t)tables[k]->rows : 0;
    if (bytes >= STREAMED_BYTES && integral_host_can(INTEGRAL_STREAMED))
        return INTEGRAL_STREAMED;
    return integral_host_can(INTEGRAL_AVX2) ? INTEGRAL_AVX2 : INTEGRAL_PLAIN;
}

static void integral8u(const IntegralJob *job, const Bands *bands) {
    const cusMat *src = job->src;
    const size_t cols = (size_t)src->cols;
    const int count = bands->count;
    const IntegralHost way = wayOf(job);
    const size_t share = (cols / (size_t)count + 63) / 64 * 64 + 64;
    const size_t tile = share < COLS_AT_ONCE ? share : COLS_AT_ONCE;
    const int tiles = (int)((cols + tile - 1) / tile);
    cusMat *const tables[2] = {job->sum, job->sqsum};
    uint64_t *totals[2];
    double *rows[2]; /* or uint32_t */
    const size_t all = (size_t)count * padded(cols);
    totals[0] = job->workspace;
    totals[1] = totals[0] + all;
    rows[0] = (double *)(void *)(totals[1] + all);
    rows[1] = rows[0] + all;
#pragma omp parallel num_threads(count)
    {
#pragma omp for schedule(static)
        for (int unit = 0; unit < (count - 1) * tiles; ++unit) {
            const size_t band = (size_t)(unit / tiles), x = (size_t)(unit % tiles) * tile;
            uint64_t *const wanted[2] = {tables[0] ? totals[0] + band * padded(cols) : NULL,
                                         tables[1] ? totals[1] + band * padded(cols) : NULL};
            bandTotals(src, bands, (int)band, x, cols - x < tile ? cols - x : tile, way, wanted);
        }
#pragma omp for schedule(static)
        for (int band = 0; band < count; ++band) {
            void *above[2] = {rows[0] + (size_t)band * padded(cols), rows[1] + (size_t)band * padded(cols)};
            for (int k = 0; k < 2; ++k)
                if (tables[k])
                    startRow(totals[k], band, cols, tables[k]->type == CUS_64FC1, above[k]);
#ifdef X86
            if (way == INTEGRAL_STREAMED) {
                streamBand(src, bandStart(bands, band), bandStart(bands, band + 1), above, tables);
                continue;
            }
#endif
            writeBand(src, bandStart(bands, band), bandStart(bands, band + 1), way, above, tables);
        }
    }
}

/* ---- Float sources
 * ------------------------------------------------------------------------------------------------------- */

/* The running sums of up to four rows over columns x .. end - 1: four chains of additions that do not wait for each other.
 */
static void sumRows(const cusMat *src, int y, int rows, size_t x, size_t end, int squares, double *sum) {
    const float *in[4];
    for (int k = 0; k < 4; ++k) /* past the last row: the last one again */
        in[k] = ROW(const float, src, y + (k < rows ? k : rows - 1));
    double s[4] = {sum[0], sum[1], sum[2], sum[3]};
    for (; x < end; ++x)
        for (int k = 0; k < 4; ++k) {
            const double v = in[k][x];
            s[k] += squares ? v * v : v;
        }
    memcpy(sum, s, sizeof s);
}

/* The table under columns x .. end - 1 of rows y .. y + 3, the last of them possibly not there; sum: as above. */
static void writeRows(const cusMat *src, int y, int rows, size_t x, size_t end, int squares, const double *sum,
                      cusMat *table) {
    const float *in[4];
    double *out[5];
    out[0] = ROW(double, table, y);
    for (int k = 0; k < 4; ++k) {
        in[k] = ROW(const float, src, y + (k < rows ? k : rows - 1));
        out[k + 1] = ROW(double, table, y + 1 + (k < rows ? k : rows - 1));
    }
    double s[4] = {sum[0], sum[1], sum[2], sum[3]};
    for (; x < end; ++x) {
        double entry = out[0][x + 1];
        for (int k = 0; k < 4; ++k) {
            const double v = in[k][x];
            s[k] += squares ? v * v : v;
            if (k < rows) {
                entry += s[k];
                out[k + 1][x + 1] = entry;
            }
        }
    }
}

#ifdef X86
/* Eight rows at once, a lane each, so that eight chains of additions share an instruction; for tables that no cache holds. */
/* Columns x .. x + 7 of eight rows, a register a column; zeros where `there` has no bit. */
INLINE_AVX512 void columnsOf(const float *const in[8], size_t x, __mmask8 there, __m512d column[8]) {
    __m256 v[8], w[8];
    for (int k = 0; k < 8; ++k)
        v[k] = _mm256_maskz_loadu_ps(there, in[k] + x);
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

/* Rows become columns. */
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

/* As sumRows, of eight rows. */
TARGET_AVX512
static void sumRows8(const float *const in[8], size_t x, size_t end, double sum[8], double square[8]) {
    __m512d s = _mm512_loadu_pd(sum), q = _mm512_loadu_pd(square);
    for (; x < end; x += 8) {
        __m512d column[8];
        columnsOf(in, x, end - x < 8 ? (__mmask8)((1u << (end - x)) - 1) : 0xff, column);
        for (int k = 0; k < 8; ++k) {
            s = _mm512_add_pd(s, column[k]);
            q = _mm512_add_pd(q, _mm512_mul_pd(column[k], column[k]));
        }
    }
    _mm512_storeu_pd(sum, s);
    _mm512_storeu_pd(square, q);
}

/* Eight rows of a table, of values or squares. out: at column `x` of the image; above: the row above the first, from there on
 * in whole registers, becomes the last. */
INLINE_AVX512 void writeRows8As(int squares, const float *const in[8], size_t x, size_t n, const double sum[8],
                                double *above, double *const out[8]) {
    Row64 row[8];
    for (int k = 0; k < 8; ++k)
        row[k] = startRow64(out[k]);
    __m512d s = _mm512_loadu_pd(sum);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m512d column[8], entries = _mm512_loadu_pd(above + i);
        columnsOf(in, x + i, 0xff, column);
        for (int k = 0; k < 8; ++k)
            column[k] = s = _mm512_add_pd(s, squares ? _mm512_mul_pd(column[k], column[k]) : column[k]);
        transpose8(column);
        for (int k = 0; k < 8; ++k) {
            entries = _mm512_add_pd(entries, column[k]);
            put64(&row[k], i, entries);
        }
        _mm512_storeu_pd(above + i, entries);
    }
    for (int k = 0; k < 8; ++k)
        end64(&row[k], i);
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
static void writeRows8(int squares, const float *const in[8], size_t x, size_t n, const double sum[8], double *above,
                       double *const out[8]) {
    if (squares)
        writeRows8As(1, in, x, n, sum, above, out);
    else
        writeRows8As(0, in, x, n, sum, above, out);
}
#endif

/* A stripe of floats: what of it starts where. */
typedef struct Stripe {
    size_t start, end; /* columns */
    double *sums[2];   /* for each row, of values and of squares: the sum left of the stripe */
    double *above[2];  /* the row above in both tables */
} Stripe;

static Stripe stripeOf(const IntegralJob *job, int count, int k) {
    const size_t rows = padded((size_t)job->src->rows), cols = (size_t)job->src->cols;
    Stripe stripe = {cols * (size_t)k / (size_t)count, cols * ((size_t)k + 1) / (size_t)count, {NULL, NULL}, {NULL, NULL}};
    for (size_t i = 0; i < 2; ++i) {
        stripe.sums[i] = (double *)job->workspace + (i * (size_t)count + (size_t)k) * rows;
        stripe.above[i] = (double *)job->workspace + 2 * (size_t)count * rows + i * abovesFor(count, job->src->cols) +
                          padded(stripe.start) + 8 * (size_t)k;
    }
    return stripe;
}

/* What rows y .. y + rows - 1, up to eight, sum up to left of each stripe. */
static void startSums(const IntegralJob *job, IntegralHost way, int count, int y, int rows) {
    (void)way; /* there is one way where there is no x86 */
    double sums[2][8] = {{0}, {0}};
    for (int k = 0; k < count; ++k) {
        const Stripe stripe = stripeOf(job, count, k);
        for (int i = 0; i < 2; ++i)
            memcpy(stripe.sums[i] + y, sums[i], (size_t)rows * sizeof **sums);
        if (k + 1 == count)
            continue;
#ifdef X86
        if (way == INTEGRAL_STREAMED && rows == 8) {
            const float *in[8];
            for (int r = 0; r < 8; ++r)
                in[r] = ROW(const float, job->src, y + r);
            sumRows8(in, stripe.start, stripe.end, sums[0], sums[1]);
            continue;
        }
#endif
        for (int r = 0; r < rows; r += 4)
            for (int i = 0; i < 2; ++i)
                if (i ? job->sqsum : job->sum)
                    sumRows(job->src, y + r, rows - r < 4 ? rows - r : 4, stripe.start, stripe.end, i, sums[i] + r);
    }
}

/* A stripe of rows y .. y + rows - 1, up to eight, of one table. */
static void writeStripe(const IntegralJob *job, IntegralHost way, const Stripe *stripe, int y, int rows, int squares) {
    (void)way; /* there is one way where there is no x86 */
    cusMat *const table = squares ? job->sqsum : job->sum;
#ifdef X86
    if (way == INTEGRAL_STREAMED && rows == 8) {
        const float *in[8];
        double *out[8];
        for (int r = 0; r < 8; ++r) {
            in[r] = ROW(const float, job->src, y + r);
            out[r] = ROW(double, table, y + r + 1) + stripe->start + 1;
        }
        writeRows8(squares, in, stripe->start, stripe->end - stripe->start, stripe->sums[squares] + y,
                   stripe->above[squares], out);
        return;
    }
#endif
    for (int r = 0; r < rows; r += 4)
        writeRows(job->src, y + r, rows - r < 4 ? rows - r : 4, stripe->start, stripe->end, squares,
                  stripe->sums[squares] + y + r, table);
}

static void integral32f(const IntegralJob *job, int count) {
    cusMat *const tables[2] = {job->sum, job->sqsum};
    const int rows = job->src->rows;
    const IntegralHost way = wayOf(job);
#pragma omp parallel num_threads(count)
    {
#pragma omp for schedule(static)
        for (int group = 0; group < (rows + 7) / 8; ++group) {
            const int y = 8 * group, there = rows - y < 8 ? rows - y : 8;
            startSums(job, way, count, y, there);
            for (int i = 0; i < 2; ++i)
                for (int r = 0; tables[i] && r < there; ++r)
                    ROW(double, tables[i], y + r + 1)[0] = 0;
        }
#pragma omp for schedule(static)
        for (int k = 0; k < count; ++k) {
            const Stripe stripe = stripeOf(job, count, k);
            for (int i = 0; i < 2; ++i)
                memset(stripe.above[i], 0, (stripe.end - stripe.start) * sizeof(double));
            for (int y = 0; y < rows; y += 8)
                for (int i = 0; i < 2; ++i)
                    if (tables[i])
                        writeStripe(job, way, &stripe, y, rows - y < 8 ? rows - y : 8, i);
#ifdef X86
            _mm_sfence(); /* what was streamed comes before the end of the parallel region */
#endif
        }
    }
}

cusStatus integral_host_run(const char *function, const IntegralJob *job) {
    (void)function;
    const int rows = job->src->rows, cols = job->src->cols;
    /* More threads than when the workspace was made change nothing. */
    int threads = threadsFor(rows, cols);
    while (threads > 1 && workspaceFor(threads, rows, cols) > job->workspace_bytes)
        --threads;
    if (job->sum)
        memset(job->sum->data, 0, cusi_rowBytes(job->sum));
    if (job->sqsum)
        memset(job->sqsum->data, 0, cusi_rowBytes(job->sqsum));
    if (job->src->type == CUS_8UC1) {
        const Bands bands = {threads < rows ? threads : rows, rows};
        integral8u(job, &bands);
    } else {
        integral32f(job, threads < cols ? threads : cols);
    }
    return CUS_OK;
}

/* ---- Rectangles
 * ------------------------------------------------------------------------------------------------------------ */

cusStatus integral_host_boxSums(const cusMat *table, const cusMat *boxes, cusMat *sums) {
    const int64_t rows = table->rows - 1, cols = table->cols - 1;
    const int useful = boxes->rows / BOXES_A_THREAD + 1;
    const int threads = useful < cusi_maxThreads() ? useful : cusi_maxThreads();
    (void)threads; /* without OpenMP */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int k = 0; k < boxes->rows; ++k) {
        const int32_t *box = ROW(const int32_t, boxes, k);
        const int32_t x = box[0], y = box[1], width = box[2], height = box[3];
        double *sum = ROW(double, sums, k);
        if (x < 0 || y < 0 || width < 0 || height < 0 || (int64_t)x + width > cols || (int64_t)y + height > rows)
            *sum = (double)NAN;
        else if (table->type == CUS_32SC1)
            *sum = cusBoxSum32S(table->data, table->step, x, y, width, height);
        else
            *sum = cusBoxSum64F(table->data, table->step, x, y, width, height);
    }
    return CUS_OK;
}
