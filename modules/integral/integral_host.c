#include "check.h"
#include "host.h"
#include "integral_backend.h"

#include <assert.h>
#include <math.h>
#include <string.h>

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
    PIXELS_A_THREAD = 65536
};

static int threadsFor(int rows, int cols) {
    const size_t useful = (size_t)rows * (size_t)cols / PIXELS_A_THREAD + 1;
    const size_t threads = (size_t)cusi_maxThreads();
    return (int)(threads < useful ? threads : useful);
}

/* 8-bit: for each band, of sums and of squares, column totals and the table row the band starts from. Float: for each
 * stripe of columns and each row, the sum of what is to the left of it. */
static size_t workspaceFor(int threads, int rows, int cols) {
    const size_t bands = (size_t)threads * ((size_t)cols + 1) * 4 * sizeof(uint64_t);
    const size_t stripes = (size_t)threads * ((size_t)rows + 3) * 2 * sizeof(double);
    return bands > stripes ? bands : stripes;
}

cusStatus integral_host_workspace(const char *function, int rows, int cols, size_t *bytes) {
    (void)function;
    *bytes = workspaceFor(threadsFor(rows, cols), rows, cols);
    return CUS_OK;
}

/* ---- Prefix sums of a few pixels in vector registers -------------------------------------------------------------------
 */

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector) && __has_builtin(__builtin_convertvector)
#define VECTORS 1
#endif
#endif

#ifdef VECTORS
typedef uint8_t U8x16 __attribute__((vector_size(16)));
typedef uint16_t U16x16 __attribute__((vector_size(32)));
typedef uint32_t U32x16 __attribute__((vector_size(64)));
typedef int32_t S32x8 __attribute__((vector_size(32)));
typedef double F64x8 __attribute__((vector_size(64)));

/* v shifted by 1, 2, 4, 8 places, zeros moving in. */
#define SHIFT16(v, zero, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p) \
    __builtin_shufflevector(zero, v, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
#define PREFIX16(v)                                                                            \
    do {                                                                                       \
        const __typeof__(v) zero_ = {0};                                                       \
        v += SHIFT16(v, zero_, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30); \
        v += SHIFT16(v, zero_, 0, 1, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29);  \
        v += SHIFT16(v, zero_, 0, 1, 2, 3, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27);    \
        v += SHIFT16(v, zero_, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);        \
    } while (0)
#define PREFIX8(v)                                                           \
    do {                                                                     \
        const __typeof__(v) zero_ = {0};                                     \
        v += __builtin_shufflevector(zero_, v, 0, 8, 9, 10, 11, 12, 13, 14); \
        v += __builtin_shufflevector(zero_, v, 0, 1, 8, 9, 10, 11, 12, 13);  \
        v += __builtin_shufflevector(zero_, v, 0, 1, 2, 3, 8, 9, 10, 11);    \
    } while (0)
#endif

/* One row of a table from the row above; both without their column 0. */
CUSI_MULTIVERSION
static void sumRow32(const uint8_t *src, size_t n, const uint32_t *above, uint32_t *out) {
    size_t x = 0;
    uint32_t sum = 0;
#ifdef VECTORS
    U32x16 before = {0};
    for (; x + 16 <= n; x += 16) {
        U8x16 bytes;
        U32x16 v;
        memcpy(&bytes, src + x, sizeof bytes);
        memcpy(&v, above + x, sizeof v);
        U16x16 prefix = __builtin_convertvector(bytes, U16x16);
        PREFIX16(prefix);
        const U32x16 wide = __builtin_convertvector(prefix, U32x16);
        v += wide + before;
        memcpy(out + x, &v, sizeof v);
        before += __builtin_shufflevector(wide, wide, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15);
    }
    sum = before[0];
#endif
    for (; x < n; ++x) {
        sum += src[x];
        out[x] = above[x] + sum;
    }
}

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

/* Column totals, of values or squares, of columns x .. x + n - 1 of one band. */
static void bandTotals(const cusMat *src, const Bands *bands, int band, size_t x, size_t n, int squares, uint64_t *totals) {
    const int end = bandStart(bands, band + 1);
    memset(totals + x, 0, n * sizeof *totals);
    for (int y = bandStart(bands, band); y < end; y += ROWS_AT_ONCE) {
        const size_t rows = (size_t)(end - y < ROWS_AT_ONCE ? end - y : ROWS_AT_ONCE);
        (squares ? addSquareTotals : addTotals)(ROW(const uint8_t, src, y) + x, src->step, rows, n, totals + x);
    }
}

/* The table row above `band`: the prefix sum of the column totals of the bands before it. totals: cols for each band. */
static void startRow(const uint64_t *totals, int band, size_t cols, int is64, void *row) {
    uint64_t sum = 0;
    memset(row, 0, is64 ? sizeof(double) : sizeof(uint32_t));
    for (size_t x = 0; x < cols; ++x) {
        for (int k = 0; k < band; ++k)
            sum += totals[(size_t)k * cols + x];
        if (is64)
            ((double *)row)[x + 1] = (double)sum;
        else
            ((uint32_t *)row)[x + 1] = (uint32_t)sum;
    }
}

/* Rows start .. end - 1 of one table. above: the table row they start from. */
static void writeBand(const cusMat *src, int start, int end, int squares, const void *above, cusMat *table) {
    const size_t cols = (size_t)src->cols;
    for (int y = start; y < end; ++y) {
        const uint8_t *in = ROW(const uint8_t, src, y);
        void *const row = ROW(char, table, y + 1);
        memset(row, 0, cusTypeSize(table->type));
        if (table->type == CUS_64FC1)
            sumRow64(in, cols, squares, (const double *)above + 1, (double *)row + 1);
        else
            sumRow32(in, cols, (const uint32_t *)above + 1, (uint32_t *)row + 1);
        above = row;
    }
}

static void integral8u(const IntegralJob *job, const Bands *bands) {
    const cusMat *src = job->src;
    const size_t cols = (size_t)src->cols;
    const int count = bands->count, tiles = (int)((cols + COLS_AT_ONCE - 1) / COLS_AT_ONCE);
    cusMat *const tables[2] = {job->sum, job->sqsum};
    uint64_t *totals[2];
    double *rows[2]; /* or uint32_t */
    totals[0] = job->workspace;
    totals[1] = totals[0] + (size_t)count * cols;
    rows[0] = (double *)(void *)(totals[1] + (size_t)count * cols);
    rows[1] = rows[0] + (size_t)count * (cols + 1);
#pragma omp parallel num_threads(count)
    {
#pragma omp for schedule(static)
        for (int unit = 0; unit < (count - 1) * tiles; ++unit) {
            const size_t band = (size_t)(unit / tiles), x = (size_t)(unit % tiles) * COLS_AT_ONCE;
            for (int k = 0; k < 2; ++k)
                if (tables[k])
                    bandTotals(src, bands, (int)band, x, cols - x < COLS_AT_ONCE ? cols - x : COLS_AT_ONCE, k,
                               totals[k] + band * cols);
        }
#pragma omp for schedule(static)
        for (int band = 0; band < count; ++band)
            for (int k = 0; k < 2; ++k)
                if (tables[k]) {
                    double *const above = rows[k] + (size_t)band * (cols + 1);
                    startRow(totals[k], band, cols, tables[k]->type == CUS_64FC1, above);
                    writeBand(src, bandStart(bands, band), bandStart(bands, band + 1), k, above, tables[k]);
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

/* Where stripe k of `count` starts. */
static size_t stripeStart(const cusMat *src, int count, int k) {
    return (size_t)src->cols * (size_t)k / (size_t)count;
}

static void integral32f(const IntegralJob *job, int count) {
    const cusMat *src = job->src;
    const int rows = src->rows, groups = (rows + 3) / 4;
    cusMat *const tables[2] = {job->sum, job->sqsum};
    double *const starts = job->workspace; /* [table][stripe][row]: row sums left of the stripe */
    const size_t padded = (size_t)groups * 4, table_size = (size_t)count * padded;
#pragma omp parallel num_threads(count)
    {
#pragma omp for schedule(static)
        for (int group = 0; group < groups; ++group)
            for (int k = 0; k < 2; ++k) {
                if (!tables[k])
                    continue;
                double sum[4] = {0, 0, 0, 0};
                const int y = 4 * group, there = rows - y < 4 ? rows - y : 4;
                for (int stripe = 0; stripe < count; ++stripe) {
                    memcpy(starts + (size_t)k * table_size + (size_t)stripe * padded + (size_t)y, sum, sizeof sum);
                    if (stripe + 1 < count)
                        sumRows(src, y, there, stripeStart(src, count, stripe), stripeStart(src, count, stripe + 1), k,
                                sum);
                }
                for (int i = 0; i < there; ++i)
                    ROW(double, tables[k], y + i + 1)[0] = 0;
            }
#pragma omp for schedule(static)
        for (int stripe = 0; stripe < count; ++stripe)
            for (int group = 0; group < groups; ++group)
                for (int k = 0; k < 2; ++k)
                    if (tables[k])
                        writeRows(src, 4 * group, rows - 4 * group < 4 ? rows - 4 * group : 4,
                                  stripeStart(src, count, stripe), stripeStart(src, count, stripe + 1), k,
                                  starts + (size_t)k * table_size + (size_t)stripe * padded + (size_t)group * 4, tables[k]);
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
