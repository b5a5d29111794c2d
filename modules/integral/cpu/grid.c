/* For reproducible sums of floats, values become integers, so that the order of additions does not matter. Each thread
 * writes a band of rows. First the column totals of the bands are added up, which give the sums above each band; then the
 * bands are written independently. Entries are rounded only when stored: the sums of the row above stay in the
 * workspace. */
#include "integral/cpu/rows.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Values of a chunk, which stays in the L1 cache: a multiple of every number of channels and of every vector. */
enum { CHUNK = 240 };

/* Factors and limits of value i of a chunk, which belongs to channel i % channels. */
typedef struct Grid {
    double scales[2][CHUNK], units[2][CHUNK]; /* for values and for squares */
    float limits[CHUNK];                      /* the largest magnitude */
} Grid;

/* Each band has column sums of both tables. */
size_t integral_gridWorkspace(int threads, size_t values) {
    return (size_t)threads * 2 * integral_padded(values) * sizeof(uint64_t);
}

static uint64_t *bandSums(const IntegralArgs *args, int band, int squares) {
    const size_t values = (size_t)args->src->cols * (size_t)CUS_CHANNELS(args->src->type);
    return (uint64_t *)args->workspace + (size_t)(2 * band + squares) * integral_padded(values);
}

static int firstRow(const IntegralArgs *args, int count, int band) {
    return (int)((int64_t)args->src->rows * band / count);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- Chunks --------------------------------------------------------------------------------------------------------- */

static inline uint64_t bitsOf(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* Returns a sum, rounded once. Bits make doubles of its halves, since most instruction sets do not convert 64-bit
 * vectors. */
static inline double toDouble(uint64_t sum) {
    const uint64_t high = (sum >> 32) ^ 0x4530000080000000u, low = (sum & 0xffffffffu) | 0x4330000000000000u;
    double h, l;
    memcpy(&h, &high, sizeof h);
    memcpy(&l, &low, sizeof l);
    return h - (0x1p84 + 0x1p63 + 0x1p52) + l;
}

static inline uint64_t onGrid(float value, int squares, double scale) {
    const double v = value;
    return bitsOf((squares ? v * v : v) * scale + INTEGRAL_MAGIC) - bitsOf(INTEGRAL_MAGIC);
}

/* Adds four rows to the columns' totals. */
CUSI_MULTIVERSION
static void addChunk(const float *const src[4], size_t n, int squares, const double *restrict scales,
                     uint64_t *restrict totals) {
    const float *const a = src[0], *const b = src[1], *const c = src[2], *const d = src[3];
    if (squares)
        for (size_t i = 0; i < n; ++i)
            totals[i] += onGrid(a[i], 1, scales[i]) + onGrid(b[i], 1, scales[i]) + onGrid(c[i], 1, scales[i]) +
                         onGrid(d[i], 1, scales[i]);
    else
        for (size_t i = 0; i < n; ++i)
            totals[i] += onGrid(a[i], 0, scales[i]) + onGrid(b[i], 0, scales[i]) + onGrid(c[i], 0, scales[i]) +
                         onGrid(d[i], 0, scales[i]);
}

/* Replaces values by the sums of their channel up to them. sums: of each channel, before and after the chunk. */
static inline void prefixSums(uint64_t *restrict values, size_t n, int channels, uint64_t *restrict sums) {
    for (size_t i = 0; i < n; i += (size_t)channels)
        for (int c = 0; c < channels; ++c)
            values[i + (size_t)c] = sums[c] += values[i + (size_t)c];
}
static inline void prefixSumsOf(int channels, uint64_t *values, size_t n, uint64_t *sums) {
    if (channels == 1)
        prefixSums(values, n, 1, sums);
    else if (channels == 2)
        prefixSums(values, n, 2, sums);
    else if (channels == 3)
        prefixSums(values, n, 3, sums);
    else
        prefixSums(values, n, 4, sums);
}

/* above: the sums of the row above, which become those of this row. sums: those of the row left of the chunk. */
CUSI_MULTIVERSION
static void writeChunk(const float *restrict src, size_t n, int channels, int squares, const double *restrict scales,
                       const double *restrict units, uint64_t *restrict sums, uint64_t *restrict above,
                       double *restrict out) {
    uint64_t row[CHUNK];
    if (squares)
        for (size_t i = 0; i < n; ++i)
            row[i] = onGrid(src[i], 1, scales[i]);
    else
        for (size_t i = 0; i < n; ++i)
            row[i] = onGrid(src[i], 0, scales[i]);
    prefixSumsOf(channels, row, n, sums);
    for (size_t i = 0; i < n; ++i) {
        above[i] += row[i];
        out[i] = toDouble(above[i]) * units[i];
    }
}

CUSI_MULTIVERSION
static void findLargest(const float *restrict src, size_t n, int32_t *restrict largest) {
    for (size_t i = 0; i < n; ++i) {
        int32_t bits; /* compare as the magnitude does */
        memcpy(&bits, src + i, sizeof bits);
        bits &= INT32_MAX;
        bits = bits < 0x7f800000 ? bits : 0; /* finite */
        largest[i] = bits > largest[i] ? bits : largest[i];
    }
}

CUSI_MULTIVERSION
static int anyOutside(const float *restrict src, size_t n, const float *restrict limits) {
    int any = 0;
    for (size_t i = 0; i < n; ++i)
        any |= !(fabsf(src[i]) <= limits[i]);
    return any;
}

#ifdef INTEGRAL_X86
/* Writes one or four rows of one channel past the caches. With four, the sums above are read and written once, and the
 * scans do not wait for each other. Returns whether a magnitude is above the limit, or NaN. */
INLINE_AVX512 int stream(int rows, const float *const *src, size_t n, int squares, float limit, double scale, double unit,
                         uint64_t *above, double *const *out) {
    const __m512d magic = _mm512_set1_pd(INTEGRAL_MAGIC), scales = _mm512_set1_pd(scale), units = _mm512_set1_pd(unit);
    const __m512i zero = _mm512_setzero_si512(), last = _mm512_set1_epi64(7), sign = _mm512_set1_epi32(INT32_MAX);
    __m512i before[4], largest = zero; /* as bits, which compare as magnitudes do */
    RowStream streams[4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
        before[r] = zero;
        streams[r] = startStream(out[r]);
    }
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512i entries[2] = {_mm512_loadu_si512(above + i), _mm512_loadu_si512(above + i + 8)};
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
            _mm_prefetch((const char *)(src[r] + i + 512), _MM_HINT_T0); /* rows are short streams: 4 % */
            largest = _mm512_max_epi32(largest, _mm512_and_si512(_mm512_loadu_si512(src[r] + i), sign));
#pragma GCC unroll 2
            for (size_t half = 0; half < 2; ++half) {
                __m512d v = _mm512_cvtps_pd(_mm256_loadu_ps(src[r] + i + 8 * half));
                if (squares)
                    v = _mm512_mul_pd(v, v);
                __m512i sums =
                    _mm512_sub_epi64(_mm512_castpd_si512(_mm512_fmadd_pd(v, scales, magic)), _mm512_castpd_si512(magic));
                sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, zero, 7));
                sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, zero, 6));
                sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, zero, 4));
                sums = _mm512_add_epi64(sums, before[r]);
                before[r] = _mm512_permutexvar_epi64(last, sums);
                entries[half] = _mm512_add_epi64(entries[half], sums);
                streamEntries(&streams[r], (i + 8 * half) * sizeof **out,
                              _mm512_castpd_si512(_mm512_mul_pd(_mm512_cvtepi64_pd(entries[half]), units)));
            }
        }
        _mm512_storeu_si512(above + i, entries[0]);
        _mm512_storeu_si512(above + i + 8, entries[1]);
    }
    int any = _mm512_cmpgt_epi32_mask(largest, _mm512_castps_si512(_mm512_set1_ps(limit))) != 0;
    uint64_t sums[4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
        endStream(&streams[r], i * sizeof **out);
        sums[r] = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(before[r]));
    }
    for (; i < n; ++i)
        for (int r = 0; r < rows; ++r) {
            any |= !(fabsf(src[r][i]) <= limit);
            above[i] += sums[r] += onGrid(src[r][i], squares, scale);
            out[r][i] = toDouble(above[i]) * unit;
        }
    return any;
}

TARGET_AVX512
static int streamRows(int rows, const float *const src[4], size_t n, int squares, float limit, double scale, double unit,
                      uint64_t *above, double *const out[4]) {
    if (rows == 4)
        return squares ? stream(4, src, n, 1, limit, scale, unit, above, out)
                       : stream(4, src, n, 0, limit, scale, unit, above, out);
    int any = 0;
    for (int r = 0; r < rows; ++r)
        any |= stream(1, src + r, n, squares, limit, scale, unit, above, out + r);
    return any;
}
#endif

/* ---- Rows ----------------------------------------------------------------------------------------------------------- */

/* Writes rows y .. y + rows - 1 of a table, up to four. above: the sums of the row above the first, which become those of
 * the last. Returns whether a value is outside the range. */
static int writeRows(const IntegralArgs *args, IntegralHostPath path, const Grid *grid, int y, int rows, int squares,
                     uint64_t *above) {
    const cusMat *const table = squares ? args->sqsum : args->sum;
    const int channels = CUS_CHANNELS(args->src->type);
    const size_t values = (size_t)args->src->cols * (size_t)channels;
    const double *const scales = grid->scales[squares], *const units = grid->units[squares];
    const float *in[4];
    double *out[4];
    for (int r = 0; r < rows; ++r) {
        in[r] = INTEGRAL_ROW(const float, args->src, y + r);
        out[r] = INTEGRAL_ROW(double, table, y + r + 1) + channels;
        memset(out[r] - channels, 0, (size_t)channels * sizeof **out);
    }
    (void)path;
#ifdef INTEGRAL_X86
    if (path == INTEGRAL_AVX512 && channels == 1)
        return streamRows(rows, in, values, squares, grid->limits[0], scales[0], units[0], above, out);
#endif
    int any = 0;
    for (int r = 0; r < rows; ++r) {
        uint64_t sums[4] = {0};
        for (size_t x = 0; x < values; x += CHUNK) {
            const size_t n = least(CHUNK, values - x);
            writeChunk(in[r] + x, n, channels, squares, scales, units, sums, above + x, out[r] + x);
            any |= anyOutside(in[r] + x, n, grid->limits);
        }
    }
    return any;
}

/* Sets every entry to NaN that has a value outside the range, an infinity or a NaN above and left of it. */
static void markOutside(const IntegralArgs *args, const Grid *grid) {
    const cusMat *const src = args->src;
    cusMat *const tables[2] = {args->sum, args->sqsum};
    const size_t channels = (size_t)CUS_CHANNELS(src->type), values = (size_t)src->cols * channels;
    size_t first[4] = {values, values, values, values}; /* for each channel, the first value outside down to this row */
    for (int y = 0; y < src->rows; ++y) {
        const float *const in = INTEGRAL_ROW(const float, src, y);
        for (size_t c = 0; c < channels; ++c) {
            size_t x = c;
            while (x < first[c] && fabsf(in[x]) <= grid->limits[c])
                x += channels;
            first[c] = least(first[c], x);
            for (int i = 0; i < 2; ++i)
                for (size_t entry = first[c] + channels; tables[i] && entry < values + channels; entry += channels)
                    INTEGRAL_ROW(double, tables[i], y + 1)[entry] = (double)NAN;
        }
    }
}

/* ---- The grid -------------------------------------------------------------------------------------------------------- */

/* Finds the largest finite magnitude of each channel. */
static void findMagnitudes(const IntegralArgs *args, int threads, float magnitudes[4]) {
    const cusMat *const src = args->src;
    const size_t channels = (size_t)CUS_CHANNELS(src->type), values = (size_t)src->cols * channels;
    int32_t largest[4] = {0};
    (void)threads;
#pragma omp parallel num_threads(threads)
    {
        int32_t own[CHUNK] = {0};
#pragma omp for schedule(static) nowait
        for (int y = 0; y < src->rows; ++y)
            for (size_t x = 0; x < values; x += CHUNK)
                findLargest(INTEGRAL_ROW(const float, src, y) + x, least(CHUNK, values - x), own);
#pragma omp critical(integral_magnitudes)
        for (size_t i = 0; i < CHUNK; ++i)
            largest[i % channels] = own[i] > largest[i % channels] ? own[i] : largest[i % channels];
    }
    memcpy(magnitudes, largest, sizeof largest);
}

static void makeGrid(const IntegralArgs *args, int threads, Grid *grid) {
    const size_t channels = (size_t)CUS_CHANNELS(args->src->type);
    const int bits = integral_gridBits(args->src->rows, args->src->cols);
    float magnitudes[4] = {args->range, args->range, args->range, args->range};
    if (!(args->range > 0))
        findMagnitudes(args, threads, magnitudes);
    for (size_t i = 0; i < CHUNK; ++i) {
        grid->limits[i] = magnitudes[i % channels];
        for (int squares = 0; squares < 2; ++squares) {
            grid->scales[squares][i] = integral_gridScale(bits, grid->limits[i], squares);
            grid->units[squares][i] = 1 / grid->scales[squares][i];
        }
    }
}

/* ---- Bands ----------------------------------------------------------------------------------------------------------- */

/* Makes the column totals of a band. */
static void addBand(const IntegralArgs *args, const Grid *grid, int squares, int y, int end, uint64_t *totals) {
    static const float zeros[CHUNK];
    const size_t values = (size_t)args->src->cols * (size_t)CUS_CHANNELS(args->src->type);
    memset(totals, 0, values * sizeof *totals);
    for (; y < end; y += 4)
        for (size_t x = 0; x < values; x += CHUNK) {
            const float *rows[4];
            for (int r = 0; r < 4; ++r)
                rows[r] = y + r < end ? INTEGRAL_ROW(const float, args->src, y + r) + x : zeros;
            addChunk(rows, least(CHUNK, values - x), squares, grid->scales[squares], totals + x);
        }
}

void integral_runGrid(const IntegralArgs *args, IntegralHostPath path, int threads) {
    const cusMat *const tables[2] = {args->sum, args->sqsum};
    const int channels = CUS_CHANNELS(args->src->type);
    const size_t values = (size_t)args->src->cols * (size_t)channels;
    const int count = threads < args->src->rows ? threads : args->src->rows;
    Grid grid;
    makeGrid(args, threads, &grid);
    int outside = 0;
#pragma omp parallel num_threads(count) reduction(| : outside)
    {
#pragma omp for schedule(static)
        for (int band = 0; band < count; ++band)
            for (int i = 0; i < 2; ++i)
                if (tables[i])
                    addBand(args, &grid, i, firstRow(args, count, band),
                            band + 1 < count ? firstRow(args, count, band + 1) : 0, bandSums(args, band, i));
#pragma omp for schedule(static)
        for (size_t x = 0; x < values; x += CHUNK) /* totals become those of the bands above */
            for (int i = 0; i < 2; ++i) {
                uint64_t above[CHUNK] = {0};
                for (int band = 0; tables[i] && band < count; ++band)
                    for (size_t k = 0; k < least(CHUNK, values - x); ++k) {
                        uint64_t *const sum = bandSums(args, band, i) + x + k;
                        const uint64_t total = *sum;
                        *sum = above[k];
                        above[k] += total;
                    }
            }
#pragma omp for schedule(static)
        for (int band = 0; band < count; ++band) {
            for (int i = 0; i < 2; ++i) {
                uint64_t sums[4] = {0};
                if (tables[i])
                    prefixSumsOf(channels, bandSums(args, band, i), values, sums);
            }
            const int end = firstRow(args, count, band + 1);
            for (int y = firstRow(args, count, band); y < end; y += 4)
                for (int i = 0; i < 2; ++i)
                    if (tables[i])
                        outside |= writeRows(args, path, &grid, y, end - y < 4 ? end - y : 4, i, bandSums(args, band, i));
#ifdef INTEGRAL_X86
            _mm_sfence(); /* streamed stores complete before the parallel region ends */
#endif
        }
    }
    if (outside)
        markOutside(args, &grid);
}
