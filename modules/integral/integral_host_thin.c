/* Images of few columns, for whose rows the other files have too much to do. */
#include "integral_host_stream.h"

#include <assert.h>
#include <string.h>

enum {
    BLOCK_BYTES = 8192, /* of a table, in the L1 cache before they bypass the caches */
    TOTAL_COLS = 256    /* up to so many columns of bytes are added up in one loop */
};

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

/* Rows of pixels, and those of the table that they add to the one above. */
typedef struct ThinRows {
    size_t count, cols; /* of pixels: the table has one more column */
    int src_type, type, squares;
    const char *src;
    size_t src_step;
    const void *above;
    char *out;
    size_t step;
} ThinRows;

INLINE void writeRows32(const ThinRows *r, size_t cols) {
    uint32_t entries[INTEGRAL_THIN_FLOAT_COLS];
    for (size_t x = 0; x < cols; ++x)
        entries[x] = ((const uint32_t *)r->above)[x + 1];
    for (size_t y = 0; y < r->count; ++y) {
        const uint8_t *src = (const uint8_t *)r->src + y * r->src_step;
        uint32_t *out = (uint32_t *)(void *)(r->out + y * r->step), sum = 0;
        out[0] = 0;
        for (size_t x = 0; x < cols; ++x)
            out[x + 1] = entries[x] += sum += src[x];
    }
}

/* Sums of bytes are integers below 2^53, which doubles hold exactly. */
INLINE void writeRows64(const ThinRows *r, size_t cols, int is_float, int squares) {
    double entries[INTEGRAL_THIN_FLOAT_COLS];
    for (size_t x = 0; x < cols; ++x)
        entries[x] = ((const double *)r->above)[x + 1];
    for (size_t y = 0; y < r->count; ++y) {
        const char *src = r->src + y * r->src_step;
        double *out = (double *)(void *)(r->out + y * r->step), sum = 0;
        out[0] = 0;
        for (size_t x = 0; x < cols; ++x) {
            const double v = is_float ? ((const float *)(const void *)src)[x] : ((const uint8_t *)src)[x];
            out[x + 1] = entries[x] += sum += squares ? v * v : v;
        }
    }
}

INLINE void writeRowsOf(const ThinRows *r, size_t cols) {
    if (r->type == CUS_32SC1)
        writeRows32(r, cols);
    else if (r->src_type == CUS_8UC1 && !r->squares)
        writeRows64(r, cols, 0, 0);
    else if (r->src_type == CUS_8UC1)
        writeRows64(r, cols, 0, 1);
    else if (!r->squares)
        writeRows64(r, cols, 1, 0);
    else
        writeRows64(r, cols, 1, 1);
}

/* The plain loop, compiled for one to four columns too: their entries stay in registers. In memory, each row would wait for
 * the stores of the row above. */
static void writeRows(const ThinRows *r) {
    switch (r->cols) {
    case 1:
        writeRowsOf(r, 1);
        break;
    case 2:
        writeRowsOf(r, 2);
        break;
    case 3:
        writeRowsOf(r, 3);
        break;
    case 4:
        writeRowsOf(r, 4);
        break;
    default:
        writeRowsOf(r, r->cols);
    }
}

#ifdef INTEGRAL_X86
/* Whole cache lines past the caches, the rest through them. */
TARGET_AVX512
static void copyPastCaches(char *out, const char *from, size_t bytes) {
    const size_t head = -(uintptr_t)out % 64;
    size_t i = head < bytes ? head : bytes;
    memcpy(out, from, i);
    for (; i + 64 <= bytes; i += 64)
        _mm512_stream_si512((void *)(out + i), _mm512_loadu_si512(from + i));
    memcpy(out + i, from + i, bytes - i);
}

/* Rows without padding, past the caches. */
static void streamRows(const ThinRows *r) {
    _Alignas(64) char block[BLOCK_BYTES]; /* the row above, then the next rows */
    const size_t most = BLOCK_BYTES / r->step - 1;
    memcpy(block, r->above, r->step);
    for (size_t y = 0; y < r->count; y += most) {
        ThinRows rows = *r;
        rows.count = r->count - y < most ? r->count - y : most;
        rows.src = r->src + y * r->src_step;
        rows.above = block;
        rows.out = block + r->step;
        writeRows(&rows);
        copyPastCaches(r->out + y * r->step, rows.out, rows.count * r->step);
        memcpy(block, block + rows.count * r->step, r->step);
    }
    _mm_sfence(); /* streamed stores complete before the parallel region ends */
}
#endif

INLINE uint32_t termOf(uint8_t pixel, int squares) {
    return squares ? (uint32_t)(pixel * pixel) : pixel;
}

/* Four rows at a time, since each addition to a total waits for the store of the one before. */
CUSI_MULTIVERSION
static void addTotals(const uint8_t *src, size_t step, size_t rows, size_t cols, int squares, uint32_t *totals) {
    for (; rows >= 4; rows -= 4, src += 4 * step)
        for (size_t x = 0; x < cols; ++x)
            totals[x] += termOf(src[x], squares) + termOf(src[step + x], squares) + termOf(src[2 * step + x], squares) +
                         termOf(src[3 * step + x], squares);
    for (; rows > 0; --rows, src += step)
        for (size_t x = 0; x < cols; ++x)
            totals[x] += termOf(src[x], squares);
}

/* Row `end` of a table of bytes, as if row `start` were zero. */
static void writeLastRow(const cusMat *src, int start, int end, int squares, cusMat *table) {
    enum { MOST = 65536 }; /* rows whose squares add up to 32 bits */
    uint64_t totals[INTEGRAL_THIN_FLOAT_COLS] = {0}, sum = 0;
    const size_t cols = (size_t)src->cols;
    const uint8_t *rows = INTEGRAL_ROW(const uint8_t, src, start);
    for (size_t left = (size_t)(end - start), joined, count; left > 0; left -= joined * count) {
        uint32_t partial[TOTAL_COLS] = {0};
        /* Rows without padding are joined: long loops. */
        joined = src->step > cols ? 1 : left < TOTAL_COLS / cols ? left : TOTAL_COLS / cols;
        count = left / joined < MOST ? left / joined : MOST;
        addTotals(rows, joined * src->step, count, joined * cols, squares, partial);
        for (size_t i = 0; i < joined * cols; ++i)
            totals[i % cols] += partial[i];
        rows += joined * count * src->step;
    }
    for (size_t x = 0; x <= cols; ++x) {
        if (table->type == CUS_32SC1)
            INTEGRAL_ROW(uint32_t, table, end)[x] = (uint32_t)sum;
        else
            INTEGRAL_ROW(double, table, end)[x] = (double)sum;
        sum += x < cols ? totals[x] : 0;
    }
}

/* Adds the row `from` of a table to the row `to`. */
static void addRow(cusMat *table, int from, int to) {
    for (int x = 0; x < table->cols; ++x)
        if (table->type == CUS_32SC1)
            INTEGRAL_ROW(uint32_t, table, to)[x] += INTEGRAL_ROW(uint32_t, table, from)[x];
        else
            INTEGRAL_ROW(double, table, to)[x] += INTEGRAL_ROW(double, table, from)[x];
}

static int bandStart(const cusMat *src, int bands, int band) {
    assert(bands > 0);
    return (int)((int64_t)src->rows * band / bands);
}

/* Bytes: one band of rows per thread. The last row of each band but the last goes into the table first; then all bands have
 * their row above. Floats: one band, since the order of additions is that of the plain loop, and one table per thread. */
void integral_runThin(const IntegralArgs *args, IntegralHostPath path, int threads) {
    (void)path; /* unused where there is only one path */
    const cusMat *src = args->src;
    cusMat *const tables[2] = {args->sum, args->sqsum};
    const int bands = src->type == CUS_32FC1 ? 1 : threads < src->rows ? threads : src->rows;
    const int useful = threads < 2 * bands ? threads : 2 * bands;
    (void)useful; /* without OpenMP */
#pragma omp parallel num_threads(useful)
    {
#pragma omp for schedule(static)
        for (int unit = 0; unit < 2 * (bands - 1); ++unit) {
            const int squares = unit % 2, start = bandStart(src, bands, unit / 2),
                      end = bandStart(src, bands, unit / 2 + 1);
            if (tables[squares])
                writeLastRow(src, start, end, squares, tables[squares]);
        }
#pragma omp single
        for (int band = 1; band < bands - 1; ++band)
            for (int k = 0; k < 2; ++k)
                if (tables[k])
                    addRow(tables[k], bandStart(src, bands, band), bandStart(src, bands, band + 1));
#pragma omp for schedule(static)
        for (int unit = 0; unit < 2 * bands; ++unit) {
            const int band = unit / 2, squares = unit % 2, start = bandStart(src, bands, band),
                      end = bandStart(src, bands, band + 1) - (band < bands - 1); /* the last row is there */
            cusMat *const table = tables[squares];
            if (!table)
                continue;
            const ThinRows rows = {.count = (size_t)(end - start),
                                   .cols = (size_t)src->cols,
                                   .src_type = src->type,
                                   .type = table->type,
                                   .squares = squares,
                                   .src = INTEGRAL_ROW(const char, src, start),
                                   .src_step = src->step,
                                   .above = INTEGRAL_ROW(const char, table, start),
                                   .out = INTEGRAL_ROW(char, table, start + 1),
                                   .step = table->step};
#ifdef INTEGRAL_X86
            if (path == INTEGRAL_AVX512 && table->step == cusi_rowBytes(table)) {
                streamRows(&rows);
                continue;
            }
#endif
            writeRows(&rows);
        }
    }
}
