/* Sums 8-bit sources: a thread handles a band of rows, reads the source twice and writes the table once. The column totals
 * of the bands are computed first and give the table row above each band. Then the bands are written independently. */
#include "integral/cpu/rows.h"

#include <assert.h>
#include <string.h>

/* For each band and table, the workspace has column totals and the table row above the band. */
typedef struct Bands {
    int count, rows;
    size_t cols;         /* columns of a row in the workspace */
    uint64_t *totals[2]; /* [sums, squares][band][column] */
    double *above[2];    /* or uint32_t */
} Bands;

size_t integral_bytesWorkspace(int threads, int cols) {
    return (size_t)threads * integral_padded((size_t)cols) * 4 * sizeof(uint64_t);
}

static Bands bandsOf(const IntegralArgs *args, int threads) {
    const int rows = args->src->rows;
    Bands bands = {
        .count = threads < rows ? threads : rows, .rows = rows, .cols = integral_padded((size_t)args->src->cols)};
    const size_t all = (size_t)bands.count * bands.cols;
    bands.totals[0] = args->workspace;
    bands.totals[1] = bands.totals[0] + all;
    bands.above[0] = (double *)(void *)(bands.totals[1] + all);
    bands.above[1] = bands.above[0] + all;
    return bands;
}

static int bandStart(const Bands *bands, int band) {
    assert(bands->count > 0);
    return (int)((int64_t)bands->rows * band / bands->count);
}

/* ---- Column totals ----------------------------------------------------------------------------------------------- */

/* Makes the totals of columns x .. x + n - 1 of one band, for the tables requested. */
static void sumBand(const IntegralArgs *args, const Bands *bands, int band, size_t x, size_t n) {
    const int end = bandStart(bands, band + 1);
    uint64_t *totals[2];
    for (int k = 0; k < 2; ++k) {
        totals[k] = (k ? args->sqsum : args->sum) ? bands->totals[k] + (size_t)band * bands->cols + x : NULL;
        if (totals[k])
            memset(totals[k], 0, n * sizeof **totals);
    }
    for (int y = bandStart(bands, band); y < end; y += INTEGRAL_MAX_TOTAL_ROWS) {
        const int rows = end - y < INTEGRAL_MAX_TOTAL_ROWS ? end - y : INTEGRAL_MAX_TOTAL_ROWS;
        integral_addTotals(INTEGRAL_ROW(const uint8_t, args->src, y) + x, args->src->step, (size_t)rows, n, totals);
    }
}

/* Makes the table row above `band`, without its column 0: the prefix sums of the column totals of the bands before it. */
static void rowAboveBand(const uint64_t *totals, int band, size_t cols, int is64, void *row) {
    uint64_t sum = 0;
    for (size_t x = 0; x < cols; ++x) {
        for (int k = 0; k < band; ++k)
            sum += totals[(size_t)k * integral_padded(cols) + x];
        if (is64)
            ((double *)row)[x] = (double)sum;
        else
            ((uint32_t *)row)[x] = (uint32_t)sum;
    }
}

/* ---- Writing a band ---------------------------------------------------------------------------------------------- */

/* Writes rows start .. end - 1 of the tables. above: the rows above without their column 0; AVX-512, which writes past the
 * caches, overwrites them. */
static void writeBand(const cusMat *src, int start, int end, IntegralHostPath path, void *above[2],
                      cusMat *const tables[2]) {
    void (*row32)(const uint8_t *, size_t, const uint32_t *, uint32_t *) = integral_row32;
#ifdef INTEGRAL_X86
    if (path == INTEGRAL_AVX2)
        row32 = integral_row32Avx2;
#endif
    const size_t n = (size_t)src->cols;
    for (int y = start; y < end; ++y) {
        const uint8_t *in = INTEGRAL_ROW(const uint8_t, src, y);
        void *out[2] = {NULL, NULL};
        for (int k = 0; k < 2; ++k) {
            if (!tables[k])
                continue;
            const size_t entry = cusTypeSize(tables[k]->type);
            char *const row = INTEGRAL_ROW(char, tables[k], y + 1);
            memset(row, 0, entry);
            out[k] = row + entry;
            if (path == INTEGRAL_AVX512) /* lines shared by two rows are not streamed */
                cusi_prefetchToWrite(row + cusi_rowBytes(tables[k]));
        }
#ifdef INTEGRAL_X86
        if (path == INTEGRAL_AVX512) {
            integral_rowAvx512(tables[0] ? CUS_DEPTH(tables[0]->type) : -1, tables[1] != NULL, in, n, above, out);
            continue;
        }
#endif
        for (int k = 0; k < 2; ++k) {
            if (!tables[k])
                continue;
            if (tables[k]->type == CUS_64FC1)
                integral_row64(in, n, k, above[k], out[k]);
            else
                row32(in, n, above[k], out[k]);
            above[k] = out[k];
        }
    }
#ifdef INTEGRAL_X86
    _mm_sfence(); /* streamed stores complete before the parallel region ends */
#endif
}

/* ---- Run --------------------------------------------------------------------------------------------------------- */

void integral_runBytes(const IntegralArgs *args, IntegralHostPath path, int threads) {
    const cusMat *src = args->src;
    const Bands bands = bandsOf(args, threads);
    const size_t cols = (size_t)src->cols;
    const int count = bands.count;
    /* Totals are divided by tiles of columns, since the last band has none. */
    const size_t share = (cols / (size_t)count + 63) / 64 * 64 + 64;
    const size_t tile = share < INTEGRAL_MAX_TOTAL_COLS ? share : INTEGRAL_MAX_TOTAL_COLS;
    const int tiles = (int)((cols + tile - 1) / tile);
    cusMat *const tables[2] = {args->sum, args->sqsum};
#pragma omp parallel for schedule(static) num_threads(count)
    for (int unit = 0; unit < (count - 1) * tiles; ++unit) {
        const size_t x = (size_t)(unit % tiles) * tile;
        sumBand(args, &bands, unit / tiles, x, cols - x < tile ? cols - x : tile);
    }
#pragma omp parallel for schedule(static) num_threads(count)
    for (int band = 0; band < count; ++band) {
        const int start = bandStart(&bands, band), end = bandStart(&bands, band + 1);
        void *above[2] = {bands.above[0] + (size_t)band * bands.cols, bands.above[1] + (size_t)band * bands.cols};
        for (int k = 0; k < 2; ++k)
            if (tables[k])
                rowAboveBand(bands.totals[k], band, cols, tables[k]->type == CUS_64FC1, above[k]);
        writeBand(src, start, end, path, above, tables);
    }
}
