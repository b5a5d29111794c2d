/* Sums float sources: a thread handles a stripe of columns, reads the source twice and writes the table once. First each
 * row's sums left of the stripes are computed, then the stripes are written independently. The order of additions is that
 * of the plain loop, whatever the number of threads. */
#include "integral/cpu/rows.h"

#include <string.h>

/* ---- Stripes and their workspace --------------------------------------------------------------------------------- */

typedef struct Stripe {
    size_t start, end; /* columns */
    double *sums[2];   /* for each row the sums of values and of squares left of the stripe */
    double *above[2];  /* the row above in both tables */
} Stripe;

/* Returns the number of entries of the rows above, which start at a cache line for each stripe. */
static size_t aboveEntries(int threads, int cols) {
    return integral_padded((size_t)cols) + 8 * (size_t)threads;
}

size_t integral_floatsWorkspace(int threads, int rows, int cols) {
    return ((size_t)threads * integral_padded((size_t)rows) + aboveEntries(threads, cols)) * 2 * sizeof(double);
}

static Stripe stripeAt(const IntegralArgs *args, int count, int k) {
    const size_t rows = integral_padded((size_t)args->src->rows), cols = (size_t)args->src->cols;
    Stripe stripe = {cols * (size_t)k / (size_t)count, cols * ((size_t)k + 1) / (size_t)count, {NULL, NULL}, {NULL, NULL}};
    for (size_t i = 0; i < 2; ++i) {
        stripe.sums[i] = (double *)args->workspace + (i * (size_t)count + (size_t)k) * rows;
        stripe.above[i] = (double *)args->workspace + 2 * (size_t)count * rows + i * aboveEntries(count, args->src->cols) +
                          integral_padded(stripe.start) + 8 * (size_t)k;
    }
    return stripe;
}

/* ---- Four rows: four chains of additions that do not wait for each other ----------------------------------------- */

/* Adds columns x .. end - 1 of up to four rows to their running sums. */
static void sumRows(const cusMat *src, int y, int rows, size_t x, size_t end, int squares, double *sum) {
    const float *in[4];
    for (int k = 0; k < 4; ++k) /* past the last row, repeat it */
        in[k] = INTEGRAL_ROW(const float, src, y + (k < rows ? k : rows - 1));
    double s[4] = {sum[0], sum[1], sum[2], sum[3]};
    for (; x < end; ++x)
        for (int k = 0; k < 4; ++k) {
            const double v = in[k][x];
            s[k] += squares ? v * v : v;
        }
    memcpy(sum, s, sizeof s);
}

/* Writes the table below columns x .. end - 1 of rows y .. y + rows - 1, up to four. sum: the sum of each row left of x. */
static void writeRows(const cusMat *src, int y, int rows, size_t x, size_t end, int squares, const double *sum,
                      cusMat *table) {
    const float *in[4];
    double *out[5];
    out[0] = INTEGRAL_ROW(double, table, y);
    for (int k = 0; k < 4; ++k) {
        in[k] = INTEGRAL_ROW(const float, src, y + (k < rows ? k : rows - 1));
        out[k + 1] = INTEGRAL_ROW(double, table, y + 1 + (k < rows ? k : rows - 1));
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

/* ---- Eight rows with AVX-512: one per lane, so that eight chains of additions share an instruction ---------------- */

/* The sums of eight columns, transposed, are eight table rows, which are added one below the other and written past the
 * caches. */
#ifdef INTEGRAL_X86

/* Loads columns x .. x + 7 of eight rows, one register per column; zeros where `inside` has no bit. */
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

/* Adds columns x .. end - 1 of eight rows to their running sums of values and of squares. */
TARGET_AVX512
static void sumEightRows(const float *const in[8], size_t x, size_t end, double sum[8], double square[8]) {
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

/* writeEightRows() for values or squares, known at compile time. */
INLINE_AVX512 void writeEight(int squares, const float *const in[8], size_t x, size_t n, const double sum[8], double *above,
                              double *const out[8]) {
    RowStream row[8];
    for (int k = 0; k < 8; ++k)
        row[k] = startStream(out[k]);
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
            streamEntries(&row[k], i * sizeof *above, _mm512_castpd_si512(entries));
        }
        _mm512_storeu_pd(above + i, entries);
    }
    for (int k = 0; k < 8; ++k)
        endStream(&row[k], i * sizeof *above);
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

/* Writes n columns of eight table rows, from column x of the source on; their entries begin at out[...][0]. sum: the sum of
 * each row left of x. above: the row above the first from x on; becomes the last row. */
TARGET_AVX512
static void writeEightRows(int squares, const float *const in[8], size_t x, size_t n, const double sum[8], double *above,
                           double *const out[8]) {
    if (squares)
        writeEight(1, in, x, n, sum, above, out);
    else
        writeEight(0, in, x, n, sum, above, out);
}
#endif

/* ---- Up to eight rows -------------------------------------------------------------------------------------------- */

/* Makes the sums of rows y .. y + rows - 1 left of each stripe. */
static void sumLeftOfStripes(const IntegralArgs *args, IntegralHostPath path, int count, int y, int rows) {
    (void)path;
    double sums[2][8] = {{0}, {0}};
    for (int k = 0; k < count; ++k) {
        const Stripe stripe = stripeAt(args, count, k);
        for (int i = 0; i < 2; ++i)
            memcpy(stripe.sums[i] + y, sums[i], (size_t)rows * sizeof **sums);
        if (k + 1 == count)
            continue;
#ifdef INTEGRAL_X86
        if (path == INTEGRAL_AVX512 && rows == 8) {
            const float *in[8];
            for (int r = 0; r < 8; ++r)
                in[r] = INTEGRAL_ROW(const float, args->src, y + r);
            sumEightRows(in, stripe.start, stripe.end, sums[0], sums[1]);
            continue;
        }
#endif
        for (int r = 0; r < rows; r += 4)
            for (int i = 0; i < 2; ++i)
                if (i ? args->sqsum : args->sum)
                    sumRows(args->src, y + r, rows - r < 4 ? rows - r : 4, stripe.start, stripe.end, i, sums[i] + r);
    }
}

/* Writes rows y .. y + rows - 1 of a stripe of one table. */
static void writeStripe(const IntegralArgs *args, IntegralHostPath path, const Stripe *stripe, int y, int rows,
                        int squares) {
    (void)path;
    cusMat *const table = squares ? args->sqsum : args->sum;
#ifdef INTEGRAL_X86
    if (path == INTEGRAL_AVX512 && rows == 8) {
        const float *in[8];
        double *out[8];
        for (int r = 0; r < 8; ++r) {
            in[r] = INTEGRAL_ROW(const float, args->src, y + r);
            out[r] = INTEGRAL_ROW(double, table, y + r + 1) + stripe->start + 1;
        }
        writeEightRows(squares, in, stripe->start, stripe->end - stripe->start, stripe->sums[squares] + y,
                       stripe->above[squares], out);
        return;
    }
#endif
    for (int r = 0; r < rows; r += 4)
        writeRows(args->src, y + r, rows - r < 4 ? rows - r : 4, stripe->start, stripe->end, squares,
                  stripe->sums[squares] + y + r, table);
}

void integral_runFloats(const IntegralArgs *args, IntegralHostPath path, int threads) {
    cusMat *const tables[2] = {args->sum, args->sqsum};
    const int rows = args->src->rows;
    const int count = threads < args->src->cols ? threads : args->src->cols;
#pragma omp parallel for schedule(static) num_threads(count)
    for (int group = 0; group < (rows + 7) / 8; ++group) {
        const int y = 8 * group, group_rows = rows - y < 8 ? rows - y : 8;
        sumLeftOfStripes(args, path, count, y, group_rows);
        for (int i = 0; i < 2; ++i)
            for (int r = 0; tables[i] && r < group_rows; ++r)
                INTEGRAL_ROW(double, tables[i], y + r + 1)[0] = 0;
    }
#pragma omp parallel for schedule(static) num_threads(count)
    for (int k = 0; k < count; ++k) {
        const Stripe stripe = stripeAt(args, count, k);
        for (int i = 0; i < 2; ++i)
            memset(stripe.above[i], 0, (stripe.end - stripe.start) * sizeof(double));
        for (int y = 0; y < rows; y += 8)
            for (int i = 0; i < 2; ++i)
                if (tables[i])
                    writeStripe(args, path, &stripe, y, rows - y < 8 ? rows - y : 8, i);
#ifdef INTEGRAL_X86
        _mm_sfence(); /* streamed stores complete before the parallel region ends */
#endif
    }
}
