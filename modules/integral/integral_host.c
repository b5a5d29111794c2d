/* The host backend's entry points: workspace, choice of the path, run; and images of few columns. integral_host.h lists the
 * other files. */
#include "integral_host_stream.h"

#include <string.h>

enum {
    PIXELS_PER_THREAD = 65536,
    STREAM_BYTES = 4 << 20, /* tables from this size on bypass the caches: more than the L2 caches of two cores hold */
    /* Images of up to so many columns are thin: the other files have too much to do for each of their rows. */
    THIN_BYTE_COLS = 31,
    THIN_FLOAT_COLS = 63,
    MAX_THIN_COLS = THIN_FLOAT_COLS,
    BLOCK_BYTES = 8192, /* of a thin table, in the L1 cache before they bypass the caches */
    TOTAL_COLS = 256    /* up to so many columns of bytes are added up in one loop */
};

static int threadsFor(int rows, int cols) {
    const size_t useful = (size_t)rows * (size_t)cols / PIXELS_PER_THREAD + 1;
    const size_t threads = (size_t)cusi_maxThreads();
    return (int)(threads < useful ? threads : useful);
}

static size_t workspaceFor(int threads, int rows, int cols) {
    const size_t bytes = integral_bytesWorkspace(threads, cols), floats = integral_floatsWorkspace(threads, rows, cols);
    return bytes > floats ? bytes : floats;
}

cusStatus integral_host_workspace(const char *function, int rows, int cols, size_t *bytes) {
    (void)function;
    *bytes = workspaceFor(threadsFor(rows, cols), rows, cols);
    return CUS_OK;
}

bool integral_host_supports(IntegralHostPath path) {
#ifdef INTEGRAL_X86
    if (path == INTEGRAL_AVX512)
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    if (path == INTEGRAL_AVX2)
        return __builtin_cpu_supports("avx2");
#endif
    return path == INTEGRAL_AUTO || path == INTEGRAL_GENERIC;
}

static IntegralHostPath choosePath(const IntegralArgs *args) {
    if (args->path != INTEGRAL_AUTO)
        return args->path;
    cusMat *const tables[2] = {args->sum, args->sqsum};
    size_t bytes = 0;
    for (int k = 0; k < 2; ++k)
        bytes += tables[k] ? cusi_rowBytes(tables[k]) * (size_t)tables[k]->rows : 0;
    if (bytes >= STREAM_BYTES && integral_host_supports(INTEGRAL_AVX512))
        return INTEGRAL_AVX512;
    return integral_host_supports(INTEGRAL_AVX2) ? INTEGRAL_AVX2 : INTEGRAL_GENERIC;
}

/* ---- Images of few columns --------------------------------------------------------------------------------------- */

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
    uint32_t entries[MAX_THIN_COLS];
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
    double entries[MAX_THIN_COLS];
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
    uint64_t totals[MAX_THIN_COLS] = {0}, sum = 0;
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
    return (int)((int64_t)src->rows * band / bands);
}

/* Bytes: one band of rows per thread. The last row of each band but the last goes into the table first; then all bands have
 * their row above. Floats: one band, since the order of additions is that of the plain loop, and one table per thread. */
static void runThin(const IntegralArgs *args, IntegralHostPath path, int threads) {
    (void)path; /* unused where there is only one path */
    const cusMat *src = args->src;
    cusMat *const tables[2] = {args->sum, args->sqsum};
    const int bands = src->type == CUS_32FC1 ? 1 : threads < src->rows ? threads : src->rows;
#pragma omp parallel num_threads(threads)
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

cusStatus integral_host_run(const char *function, const IntegralArgs *args) {
    (void)function;
    const int rows = args->src->rows, cols = args->src->cols;
    /* OpenMP may offer more threads than when the workspace was allocated. */
    int threads = threadsFor(rows, cols);
    while (threads > 1 && workspaceFor(threads, rows, cols) > args->workspace_bytes)
        --threads;
    if (args->sum)
        memset(args->sum->data, 0, cusi_rowBytes(args->sum));
    if (args->sqsum)
        memset(args->sqsum->data, 0, cusi_rowBytes(args->sqsum));
    if (cols <= (args->src->type == CUS_8UC1 ? THIN_BYTE_COLS : THIN_FLOAT_COLS))
        runThin(args, choosePath(args), threads);
    else if (args->src->type == CUS_8UC1)
        integral_runBytes(args, choosePath(args), threads);
    else
        integral_runFloats(args, choosePath(args), threads);
    return CUS_OK;
}
