/* 8-bit sources: one band of rows per thread, the source read twice, the table written once. First the column totals of the
 * bands are computed; they give the table row above each band; then the bands are written independently. Images of few rows
 * are cut into stripes of columns instead, whose rows begin with the sums left of them. */
#include "integral_host.h"

#include <assert.h>
#include <string.h>
#ifdef INTEGRAL_X86
#include <immintrin.h>
#endif

typedef struct Bands {
    int count, rows;
} Bands;

static int bandStart(const Bands *bands, int band) {
    assert(bands->count > 0);
    return (int)((int64_t)bands->rows * band / bands->count);
}

/* ---- Workspace: for each band and table, column totals and the table row above the band -------------------------- */

size_t integral_bytesWorkspace(int threads, int cols) {
    return (size_t)threads * integral_padded((size_t)cols) * 4 * sizeof(uint64_t);
}

/* [sums, squares][band][column] */
typedef struct BandMemory {
    uint64_t *totals[2];
    double *above[2]; /* or uint32_t */
    size_t cols;      /* from band to band */
} BandMemory;

static BandMemory bandMemory(const IntegralArgs *args, const Bands *bands) {
    BandMemory memory;
    memory.cols = integral_padded((size_t)args->src->cols);
    const size_t all = (size_t)bands->count * memory.cols;
    memory.totals[0] = args->workspace;
    memory.totals[1] = memory.totals[0] + all;
    memory.above[0] = (double *)(void *)(memory.totals[1] + all);
    memory.above[1] = memory.above[0] + all;
    return memory;
}

/* ---- Column totals ----------------------------------------------------------------------------------------------- */

/* Adds up to INTEGRAL_MAX_TOTAL_ROWS rows of up to INTEGRAL_MAX_TOTAL_COLS columns to the column totals. */
CUSI_MULTIVERSION
static void addTotals(const uint8_t *src, size_t step, size_t rows, size_t cols, uint64_t *totals) {
    uint16_t partial[INTEGRAL_MAX_TOTAL_COLS];
    memset(partial, 0, cols * sizeof *partial);
    for (size_t y = 0; y < rows; ++y) {
        const uint8_t *row = src + y * step;
        for (size_t x = 0; x < cols; ++x)
            partial[x] = (uint16_t)(partial[x] + row[x]);
    }
    for (size_t x = 0; x < cols; ++x)
        totals[x] += partial[x];
}

CUSI_MULTIVERSION
static void addSquareTotals(const uint8_t *src, size_t step, size_t rows, size_t cols, uint64_t *totals) {
    uint32_t partial[INTEGRAL_MAX_TOTAL_COLS];
    memset(partial, 0, cols * sizeof *partial);
    for (size_t y = 0; y < rows; ++y) {
        const uint8_t *row = src + y * step;
        for (size_t x = 0; x < cols; ++x)
            partial[x] += (uint32_t)(row[x] * row[x]);
    }
    for (size_t x = 0; x < cols; ++x)
        totals[x] += partial[x];
}

/* Column totals of columns x .. x + n - 1 of one band, of pixels and of squares; NULL for those not requested. */
static void bandTotals(const cusMat *src, const Bands *bands, int band, size_t x, size_t n, IntegralHostPath path,
                       uint64_t *const totals[2]) {
    (void)path; /* unused where there is only one path */
    const int end = bandStart(bands, band + 1);
    for (int k = 0; k < 2; ++k)
        if (totals[k])
            memset(totals[k] + x, 0, n * sizeof **totals);
    for (int y = bandStart(bands, band); y < end; y += INTEGRAL_MAX_TOTAL_ROWS) {
        const size_t rows = (size_t)(end - y < INTEGRAL_MAX_TOTAL_ROWS ? end - y : INTEGRAL_MAX_TOTAL_ROWS);
        const uint8_t *first = INTEGRAL_ROW(const uint8_t, src, y) + x;
#ifdef INTEGRAL_X86
        if (path == INTEGRAL_AVX512 && totals[0] && totals[1]) {
            integral_addTotalsAvx512(first, src->step, rows, n, totals[0] + x, totals[1] + x);
            continue;
        }
#endif
        if (totals[0])
            addTotals(first, src->step, rows, n, totals[0] + x);
        if (totals[1])
            addSquareTotals(first, src->step, rows, n, totals[1] + x);
    }
}

/* The table row above `band`, without its column 0: the prefix sums of the column totals of the bands before it. */
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

/* Rows start .. end - 1 of the tables, through the caches. above: the rows above, without their column 0. */
static void writeBand(const cusMat *src, int start, int end, IntegralHostPath path, void *above[2],
                      cusMat *const tables[2]) {
    (void)path; /* unused where there is only one path */
    void (*row32)(const uint8_t *, size_t, const uint32_t *, uint32_t *) = integral_row32;
#ifdef INTEGRAL_X86
    if (path == INTEGRAL_AVX2)
        row32 = integral_row32Avx2;
#endif
    for (int y = start; y < end; ++y) {
        const uint8_t *in = INTEGRAL_ROW(const uint8_t, src, y);
        for (int k = 0; k < 2; ++k) {
            if (!tables[k])
                continue;
            const size_t entry = cusTypeSize(tables[k]->type);
            char *const row = INTEGRAL_ROW(char, tables[k], y + 1);
            memset(row, 0, entry);
            if (tables[k]->type == CUS_64FC1)
                integral_row64(in, (size_t)src->cols, k, above[k], (double *)(void *)(row + entry));
            else
                row32(in, (size_t)src->cols, above[k], (uint32_t *)(void *)(row + entry));
            above[k] = row + entry;
        }
    }
}

#ifdef INTEGRAL_X86
/* The same past the caches; the rows in `above` are overwritten. */
static void streamBand(const cusMat *src, int start, int end, void *const above[2], cusMat *const tables[2]) {
    for (int y = start; y < end; ++y) {
        void *out[2] = {NULL, NULL};
        for (int k = 0; k < 2; ++k) {
            if (!tables[k])
                continue;
            const size_t entry = cusTypeSize(tables[k]->type);
            char *const row = INTEGRAL_ROW(char, tables[k], y + 1);
            memset(row, 0, entry);
            out[k] = row + entry;
            __builtin_prefetch(row + cusi_rowBytes(tables[k]), 1); /* rows that meet within a line: not streamed */
        }
        integral_rowAvx512(tables[0] ? CUS_DEPTH(tables[0]->type) : -1, tables[1] != NULL,
                           INTEGRAL_ROW(const uint8_t, src, y), (size_t)src->cols, above, out);
    }
    _mm_sfence(); /* streamed stores complete before the parallel region ends */
}
#endif

/* ---- Few rows ---------------------------------------------------------------------------------------------------- */

enum {
    FLAT_COLS = 16384,     /* of images that are cut into stripes: at least */
    STRIPE_COLS = 1024,    /* for each thread: at least */
    FLAT_ROWS = 8,         /* for each thread: fewer */
    FLAT_BLOCK_COLS = 4096 /* columns whose entries of the row above stay in the L2 cache */
};

/* Whether bands of rows would leave threads idle or differ in size, and stripes of columns would not. */
static int isFlat(const cusMat *src, int threads) {
    return threads > 1 && src->rows < FLAT_ROWS * threads && src->cols >= FLAT_COLS && src->cols / threads >= STRIPE_COLS;
}

CUSI_MULTIVERSION
static uint64_t rowTotal(const uint8_t *src, size_t n, int squares) {
    uint64_t total = 0;
    for (size_t x = 0; x < n;) {
        const size_t end = n - x < 65536 ? n : x + 65536; /* squares that add up to 32 bits */
        uint32_t sum = 0;
        for (; x < end; ++x)
            sum += squares ? (uint32_t)(src[x] * src[x]) : src[x];
        total += sum;
    }
    return total;
}

/* entries[x] += left. */
CUSI_MULTIVERSION
static void addLeft32(uint32_t *entries, size_t n, uint32_t left) {
    for (size_t x = 0; x < n; ++x)
        entries[x] += left;
}
CUSI_MULTIVERSION
static void addLeft64(double *entries, size_t n, double left) {
    for (size_t x = 0; x < n; ++x)
        entries[x] += left;
}

static uint64_t entryAt(const void *entries, size_t x, int is64) {
    return is64 ? (uint64_t)((const double *)entries)[x] : ((const uint32_t *)entries)[x];
}

/* n columns of a row of the tables from column x of the source on. `above` becomes `out`. */
static void writeRow(const uint8_t *in, size_t n, IntegralHostPath path, cusMat *const tables[2], void *const above[2],
                     void *const out[2]) {
#ifdef INTEGRAL_X86
    if (path == INTEGRAL_AVX512) {
        integral_rowAvx512(tables[0] ? CUS_DEPTH(tables[0]->type) : -1, tables[1] != NULL, in, n, above, out);
        return;
    }
#endif
    (void)path;
    for (int k = 0; k < 2; ++k) {
        if (!tables[k])
            continue;
        if (tables[k]->type == CUS_64FC1)
            integral_row64(in, n, k, above[k], out[k]);
        else
            integral_row32(in, n, above[k], out[k]);
        memcpy(above[k], out[k], n * cusTypeSize(tables[k]->type));
    }
}

/* Columns x .. x + n - 1 of all rows. left: of each table and row, the sum of the row left of x; becomes that of x + n. above:
 * memory for the row above. */
static void writeBlock(const cusMat *src, size_t x, size_t n, IntegralHostPath path, uint64_t *const left[2],
                       void *const above[2], cusMat *const tables[2]) {
    for (int k = 0; k < 2; ++k)
        if (tables[k])
            memset(above[k], 0, n * cusTypeSize(tables[k]->type));
    for (int y = 0; y < src->rows; ++y) {
        const uint8_t *in = INTEGRAL_ROW(const uint8_t, src, y) + x;
        void *out[2] = {NULL, NULL};
        uint64_t last[2] = {0, 0};
        for (int k = 0; k < 2; ++k) {
            if (!tables[k])
                continue;
            const int is64 = tables[k]->type == CUS_64FC1;
            out[k] = INTEGRAL_ROW(char, tables[k], y + 1) + (x + 1) * cusTypeSize(tables[k]->type);
            last[k] = entryAt(above[k], n - 1, is64);
            if (is64)
                addLeft64(above[k], n, (double)left[k][y]);
            else
                addLeft32(above[k], n, (uint32_t)left[k][y]);
        }
        writeRow(in, n, path, tables, above, out);
        for (int k = 0; k < 2; ++k)
            if (tables[k])
                left[k][y] = entryAt(above[k], n - 1, tables[k]->type == CUS_64FC1) - last[k];
    }
}

/* Workspace: for each thread and table, the sums of the rows left of its stripe, then the row above a block. */
static void runFlat(const IntegralArgs *args, IntegralHostPath path, int threads) {
    const cusMat *src = args->src;
    cusMat *const tables[2] = {args->sum, args->sqsum};
    const size_t cols = (size_t)src->cols, rows = (size_t)src->rows;
    const size_t share = ((cols + (size_t)threads - 1) / (size_t)threads + 63) / 64 * 64,
                 own = integral_padded(rows) + FLAT_BLOCK_COLS;
    uint64_t *const workspace = args->workspace;
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int stripe = 0; stripe < threads; ++stripe) /* the sums of the stripe before */
            for (size_t k = 0; k < 2; ++k)
                for (size_t y = 0; tables[k] && y < rows; ++y) {
                    const size_t end = share * (size_t)stripe < cols ? share * (size_t)stripe : cols;
                    const size_t x = stripe ? share * (size_t)(stripe - 1) : 0, begin = x < end ? x : end;
                    workspace[(2 * (size_t)stripe + k) * own + y] =
                        rowTotal(INTEGRAL_ROW(const uint8_t, src, y) + begin, end - begin, (int)k);
                }
#pragma omp single
        for (size_t k = 0; k < 2; ++k)
            for (size_t y = 0; tables[k] && y < rows; ++y)
                for (size_t stripe = 1; stripe < (size_t)threads; ++stripe)
                    workspace[(2 * stripe + k) * own + y] += workspace[(2 * (stripe - 1) + k) * own + y];
#pragma omp for schedule(static)
        for (int stripe = 0; stripe < threads; ++stripe) {
            uint64_t *const left[2] = {workspace + 2 * (size_t)stripe * own, workspace + (2 * (size_t)stripe + 1) * own};
            void *const above[2] = {left[0] + integral_padded(rows), left[1] + integral_padded(rows)};
            const size_t begin = share * (size_t)stripe, end = cols - begin < share ? cols : begin + share;
            for (size_t x = begin; x < end && begin < cols; x += FLAT_BLOCK_COLS)
                writeBlock(src, x, end - x < FLAT_BLOCK_COLS ? end - x : FLAT_BLOCK_COLS, path, left, above, tables);
#ifdef INTEGRAL_X86
            _mm_sfence();
#endif
        }
    }
    for (int k = 0; k < 2; ++k)
        for (size_t y = 1; tables[k] && y <= rows; ++y)
            memset(INTEGRAL_ROW(char, tables[k], y), 0, cusTypeSize(tables[k]->type));
}

/* ---- Run --------------------------------------------------------------------------------------------------------- */

void integral_runBytes(const IntegralArgs *args, IntegralHostPath path, int threads) {
    const cusMat *src = args->src;
    if (isFlat(src, threads)) {
        runFlat(args, path, threads);
        return;
    }
    const Bands bands = {threads < src->rows ? threads : src->rows, src->rows};
    const BandMemory memory = bandMemory(args, &bands);
    const size_t cols = (size_t)src->cols;
    const int count = bands.count;
    /* The totals are shared out by tiles of columns too: the last band has none. */
    const size_t share = (cols / (size_t)count + 63) / 64 * 64 + 64;
    const size_t tile = share < INTEGRAL_MAX_TOTAL_COLS ? share : INTEGRAL_MAX_TOTAL_COLS;
    const int tiles = (int)((cols + tile - 1) / tile);
    cusMat *const tables[2] = {args->sum, args->sqsum};
#pragma omp parallel num_threads(count)
    {
#pragma omp for schedule(static)
        for (int unit = 0; unit < (count - 1) * tiles; ++unit) {
            const size_t band = (size_t)(unit / tiles), x = (size_t)(unit % tiles) * tile;
            uint64_t *const totals[2] = {tables[0] ? memory.totals[0] + band * memory.cols : NULL,
                                         tables[1] ? memory.totals[1] + band * memory.cols : NULL};
            bandTotals(src, &bands, (int)band, x, cols - x < tile ? cols - x : tile, path, totals);
        }
#pragma omp for schedule(static)
        for (int band = 0; band < count; ++band) {
            const int start = bandStart(&bands, band), end = bandStart(&bands, band + 1);
            void *above[2] = {memory.above[0] + (size_t)band * memory.cols, memory.above[1] + (size_t)band * memory.cols};
            for (int k = 0; k < 2; ++k)
                if (tables[k])
                    rowAboveBand(memory.totals[k], band, cols, tables[k]->type == CUS_64FC1, above[k]);
#ifdef INTEGRAL_X86
            if (path == INTEGRAL_AVX512) {
                streamBand(src, start, end, above, tables);
                continue;
            }
#endif
            writeBand(src, start, end, path, above, tables);
        }
    }
}
