/* The host's FFT for one element type and vector length. Files that include it define MATCH_FFT_LANES as 2, 4, 8 or 16,
 * MATCH_FFT_TABLE as the table of kernels to define, MATCH_FFT_LABEL as its name, and if needed MATCH_FFT_DOUBLE, and
 * MATCH_FFT_TARGET as an instruction set of x86-64. Multiply-adds are not contracted, so all vector lengths give the same
 * bits. */
#include "match/fft/fft.h"

#include <string.h>

#if !defined(MATCH_FFT_TARGET) || (defined(__x86_64__) && defined(__GNUC__))

#ifdef MATCH_FFT_TARGET
#define MATCH_FFT_PRAGMA(x) _Pragma(#x)
#ifdef __clang__
#define MATCH_FFT_PUSH(features) \
    MATCH_FFT_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
MATCH_FFT_PUSH(MATCH_FFT_TARGET)
#else
#define MATCH_FFT_PUSH(features) MATCH_FFT_PRAGMA(GCC push_options) MATCH_FFT_PRAGMA(GCC target(features))
MATCH_FFT_PUSH(MATCH_FFT_TARGET)
#endif
#endif

#define LANES  MATCH_FFT_LANES
#define INLINE static inline __attribute__((always_inline))

#ifdef MATCH_FFT_DOUBLE
typedef double Real;
typedef int64_t Index; /* index type of shuffles */
#else
typedef float Real;
typedef int32_t Index;
#endif
typedef Real Lanes __attribute__((vector_size(LANES * sizeof(Real)), may_alias));
typedef Real LanesAnywhere __attribute__((vector_size(LANES * sizeof(Real)), may_alias, aligned(sizeof(Real))));

typedef struct Point {
    Lanes re, im;
} Point;

/* ---- Butterflies: v becomes its transform ---------------------------------------------------------------------------- */

INLINE Point plus(Point a, Point b) {
    return (Point){a.re + b.re, a.im + b.im};
}

INLINE Point minus(Point a, Point b) {
    return (Point){a.re - b.re, a.im - b.im};
}

INLINE Point times(Point a, Real factor) {
    return (Point){a.re * factor, a.im * factor};
}

/* a - i b */
INLINE Point minusI(Point a, Point b) {
    return (Point){a.re + b.im, a.im - b.re};
}

/* a + i b */
INLINE Point plusI(Point a, Point b) {
    return (Point){a.re - b.im, a.im + b.re};
}

INLINE Point rotate(Point a, Real re, Real im) {
    return (Point){a.re * re - a.im * im, a.re * im + a.im * re};
}

INLINE void butterfly2(Point *v) {
    const Point a = v[0];
    v[0] = plus(a, v[1]);
    v[1] = minus(a, v[1]);
}

INLINE void butterfly3(Point *v) {
    const Real sin60 = (Real)0.86602540378443864676;
    const Point sum = plus(v[1], v[2]), turned = times(minus(v[1], v[2]), sin60);
    const Point rest = minus(v[0], times(sum, (Real)0.5));
    v[0] = plus(v[0], sum);
    v[1] = minusI(rest, turned);
    v[2] = plusI(rest, turned);
}

INLINE void butterfly4(Point *v) {
    const Point a = plus(v[0], v[2]), b = plus(v[1], v[3]), c = minus(v[0], v[2]), d = minus(v[1], v[3]);
    v[0] = plus(a, b);
    v[1] = minusI(c, d);
    v[2] = minus(a, b);
    v[3] = plusI(c, d);
}

INLINE void butterfly5(Point *v) {
    const Real c1 = (Real)0.30901699437494742410, c2 = (Real)-0.80901699437494742410; /* cos 72, cos 144 degrees */
    const Real s1 = (Real)0.95105651629515357212, s2 = (Real)0.58778525229247312917;
    const Point p1 = plus(v[1], v[4]), p2 = plus(v[2], v[3]), m1 = minus(v[1], v[4]), m2 = minus(v[2], v[3]);
    const Point a1 = plus(v[0], plus(times(p1, c1), times(p2, c2))), b1 = plus(times(m1, s1), times(m2, s2));
    const Point a2 = plus(v[0], plus(times(p1, c2), times(p2, c1))), b2 = minus(times(m1, s2), times(m2, s1));
    v[0] = plus(v[0], plus(p1, p2));
    v[1] = minusI(a1, b1);
    v[2] = minusI(a2, b2);
    v[3] = plusI(a2, b2);
    v[4] = plusI(a1, b1);
}

/* a x + b y + c z */
INLINE Point combine(Point x, Real a, Point y, Real b, Point z, Real c) {
    return plus(plus(times(x, a), times(y, b)), times(z, c));
}

INLINE void butterfly7(Point *v) {
    const Real c1 = (Real)0.62348980185873353053, c2 = (Real)-0.22252093395631440429, c3 = (Real)-0.90096886790241912624;
    const Real s1 = (Real)0.78183148246802980871, s2 = (Real)0.97492791218182360702, s3 = (Real)0.43388373911755812048;
    const Point p1 = plus(v[1], v[6]), p2 = plus(v[2], v[5]), p3 = plus(v[3], v[4]);
    const Point m1 = minus(v[1], v[6]), m2 = minus(v[2], v[5]), m3 = minus(v[3], v[4]);
    const Point a1 = plus(v[0], combine(p1, c1, p2, c2, p3, c3)), b1 = combine(m1, s1, m2, s2, m3, s3);
    const Point a2 = plus(v[0], combine(p1, c2, p2, c3, p3, c1)), b2 = combine(m1, s2, m2, -s3, m3, -s1);
    const Point a3 = plus(v[0], combine(p1, c3, p2, c1, p3, c2)), b3 = combine(m1, s3, m2, -s1, m3, s2);
    v[0] = plus(v[0], plus(plus(p1, p2), p3));
    v[1] = minusI(a1, b1);
    v[2] = minusI(a2, b2);
    v[3] = minusI(a3, b3);
    v[4] = plusI(a3, b3);
    v[5] = plusI(a2, b2);
    v[6] = plusI(a1, b1);
}

INLINE void butterfly8(Point *v) {
    const Real half = (Real)0.70710678118654752440; /* sqrt(1/2) */
    Point even[4] = {plus(v[0], v[4]), plus(v[1], v[5]), plus(v[2], v[6]), plus(v[3], v[7])};
    const Point b = minus(v[1], v[5]), c = minus(v[2], v[6]), d = minus(v[3], v[7]);
    Point odd[4] = {minus(v[0], v[4]),
                    {(b.re + b.im) * half, (b.im - b.re) * half},
                    {c.im, -c.re},
                    {(d.im - d.re) * half, (d.re + d.im) * -half}};
    butterfly4(even);
    butterfly4(odd);
    v[0] = even[0], v[1] = odd[0], v[2] = even[1], v[3] = odd[1];
    v[4] = even[2], v[5] = odd[2], v[6] = even[3], v[7] = odd[3];
}

#define CASE(R, statement) \
    case R:                \
        statement;         \
        break;

INLINE void butterfly(int radix, Point *v) {
    switch (radix) {
        CASE(2, butterfly2(v))
        CASE(3, butterfly3(v))
        CASE(4, butterfly4(v))
        CASE(5, butterfly5(v))
        CASE(7, butterfly7(v))
        CASE(8, butterfly8(v))
    default:
        break;
    }
}

/* ---- Passes over `parts` parts of r m points, in place. The inverse transform is the forward one with real and imaginary
 * parts exchanged; it rotates before the butterflies, not after them ---- */

/* The compiler knows inverse, r, and whether m is 1, in which case nothing is rotated. */
INLINE void runPass(int inverse, size_t r, Point *x, size_t parts, size_t m, const Real *twiddles) {
    for (const Point *end = x + parts * r * m; x < end; x += (r - 1) * m) {
        const Real *w = twiddles;
        for (size_t j = 0; j < m; ++j, ++x, w += 2 * (r - 1)) {
            Point v[MATCH_FFT_MAX_RADIX];
            for (size_t i = 0; i < r; ++i) {
                v[i] = inverse ? (Point){x[i * m].im, x[i * m].re} : x[i * m];
                if (inverse && m > 1 && i > 0)
                    v[i] = rotate(v[i], w[2 * i - 2], w[2 * i - 1]);
            }
            butterfly((int)r, v);
            for (size_t i = 0; i < r; ++i) {
                if (!inverse && m > 1 && i > 0)
                    v[i] = rotate(v[i], w[2 * i - 2], w[2 * i - 1]);
                x[i * m] = inverse ? (Point){v[i].im, v[i].re} : v[i];
            }
        }
    }
}

INLINE void selectPass(int inverse, int radix, Point *x, size_t parts, size_t m, const Real *twiddles) {
    switch (radix) {
        CASE(2, runPass(inverse, 2, x, parts, m, twiddles))
        CASE(3, runPass(inverse, 3, x, parts, m, twiddles))
        CASE(4, runPass(inverse, 4, x, parts, m, twiddles))
        CASE(5, runPass(inverse, 5, x, parts, m, twiddles))
        CASE(7, runPass(inverse, 7, x, parts, m, twiddles))
        CASE(8, runPass(inverse, 8, x, parts, m, twiddles))
    default:
        break;
    }
}

static void forwardPass(int radix, Point *x, size_t parts, size_t m, const Real *twiddles) {
    if (m == 1)
        selectPass(0, radix, x, parts, 1, twiddles);
    else
        selectPass(0, radix, x, parts, m, twiddles);
}

static void inversePass(int radix, Point *x, size_t parts, size_t m, const Real *twiddles) {
    if (m == 1)
        selectPass(1, radix, x, parts, 1, twiddles);
    else
        selectPass(1, radix, x, parts, m, twiddles);
}

/* Parts of this many bytes stay in the first cache during all further passes. */
enum { CACHED_BYTES = 24 << 10 };

/* Transforms one part of n points after the passes before `pass`. */
static void forwardPart(const MatchFftLine *line, int pass, Point *x, size_t n) {
    size_t parts = 1, size = n;
    for (; pass < line->passes; ++pass) {
        const size_t r = (size_t)line->radix[pass], m = size / r;
        forwardPass(line->radix[pass], x, parts, m, (const Real *)line->twiddles[pass]);
        if (parts == 1 && size * sizeof(Point) > CACHED_BYTES) {
            for (size_t q = 0; q < r; ++q)
                forwardPart(line, pass + 1, x + q * m, m);
            return;
        }
        parts *= r;
        size = m;
    }
}

static void inversePart(const MatchFftLine *line, int pass, Point *x, size_t n) {
    if (pass == line->passes)
        return;
    if (n * sizeof(Point) > CACHED_BYTES) {
        const size_t r = (size_t)line->radix[pass], m = n / r;
        for (size_t q = 0; q < r; ++q)
            inversePart(line, pass + 1, x + q * m, m);
        inversePass(line->radix[pass], x, 1, m, (const Real *)line->twiddles[pass]);
        return;
    }
    size_t m = 1;
    for (int i = line->passes - 1; i >= pass; --i) {
        const size_t r = (size_t)line->radix[i];
        inversePass(line->radix[i], x, n / (r * m), m, (const Real *)line->twiddles[i]);
        m *= r;
    }
}

/* ---- Between rows of a plane and lanes ------------------------------------------------------------------------------- */

#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef Index Indices __attribute__((vector_size(LANES * sizeof(Real))));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Indices){__VA_ARGS__})
#endif

/* LOWER and UPPER interleave the lower or the upper halves of two vectors. TRANSPOSE_STEPS rounds of both transpose as many
 * vectors as there are lanes. */
#if MATCH_FFT_LANES == 2
enum { TRANSPOSE_STEPS = 1 };
#define LOWER(a, b) SHUFFLE(a, b, 0, 2)
#define UPPER(a, b) SHUFFLE(a, b, 1, 3)
#elif MATCH_FFT_LANES == 4
enum { TRANSPOSE_STEPS = 2 };
#define LOWER(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define UPPER(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#elif MATCH_FFT_LANES == 8
enum { TRANSPOSE_STEPS = 3 };
#define LOWER(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define UPPER(a, b) SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
enum { TRANSPOSE_STEPS = 4 };
#define LOWER(a, b) SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define UPPER(a, b) SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#endif

/* Lane i of vector j becomes lane j of vector i. Each step moves one bit of the lane's index to the vector's. */
INLINE void transpose(Lanes *t) {
    for (int step = 0; step < TRANSPOSE_STEPS; ++step) {
        Lanes next[LANES];
        for (size_t i = 0; i < LANES / 2; ++i) {
            next[2 * i] = LOWER(t[i], t[i + LANES / 2]);
            next[2 * i + 1] = UPPER(t[i], t[i + LANES / 2]);
        }
        for (size_t i = 0; i < LANES; ++i)
            t[i] = next[i];
    }
}

/* Loads real rows so that vector x of the work is column x of the rows, a lane for each row. */
static void loadRows(const Real *plane, size_t count, size_t cols, Lanes *out) {
    const Lanes zero = {0};
    size_t x = 0;
    for (; x + LANES <= cols; x += LANES) {
        Lanes t[LANES];
        for (size_t y = 0; y < LANES; ++y)
            t[y] = y < count ? *(const LanesAnywhere *)(plane + y * cols + x) : zero;
        transpose(t);
        for (size_t i = 0; i < LANES; ++i)
            out[x + i] = t[i];
    }
    for (; x < cols; ++x)
        for (size_t y = 0; y < LANES; ++y)
            out[x][y] = y < count ? plane[y * cols + x] : 0;
}

static void storeRows(const Lanes *in, size_t count, size_t cols, Real *plane) {
    size_t x = 0;
    for (; x + LANES <= cols; x += LANES) {
        Lanes t[LANES];
        for (size_t i = 0; i < LANES; ++i)
            t[i] = in[x + i];
        transpose(t);
        for (size_t y = 0; y < count; ++y)
            *(LanesAnywhere *)(plane + y * cols + x) = t[y];
    }
    for (; x < cols; ++x)
        for (size_t y = 0; y < count; ++y)
            plane[y * cols + x] = in[x][y];
}

/* Stores `count` rows of the panels. Lanes past the last column are zero. */
static void storePanels(const MatchFftLine *half, const Point *in, size_t count, size_t rows, Point *spectrum) {
    const size_t n = (size_t)half->n;
    const Point zero = {{0}, {0}};
    for (size_t x = 0; x < n; x += LANES, spectrum += rows) {
        Lanes re[LANES], im[LANES];
        for (size_t i = 0; i < LANES; ++i) {
            const Point *p = x + i < n ? &in[half->position[x + i]] : &zero;
            re[i] = p->re;
            im[i] = p->im;
        }
        transpose(re);
        transpose(im);
        for (size_t y = 0; y < count; ++y)
            spectrum[y] = (Point){re[y], im[y]};
    }
}

static void loadPanels(const MatchFftLine *half, const Point *spectrum, size_t count, size_t rows, Point *out) {
    const size_t n = (size_t)half->n;
    const Lanes zero = {0};
    for (size_t x = 0; x < n; x += LANES, spectrum += rows) {
        Lanes re[LANES], im[LANES];
        for (size_t y = 0; y < LANES; ++y) {
            re[y] = y < count ? spectrum[y].re : zero;
            im[y] = y < count ? spectrum[y].im : zero;
        }
        transpose(re);
        transpose(im);
        for (size_t i = 0; i < LANES && x + i < n; ++i)
            out[half->position[x + i]] = (Point){re[i], im[i]};
    }
}

/* ---- Between the line of m points and the spectrum of 2 m real points ------------------------------------------------ */

static void splitReal(const MatchFftLine *half, const Real *w, Point *x) {
    const size_t m = (size_t)half->n;
    x[0] = (Point){x[0].re + x[0].im, x[0].re - x[0].im};
    for (size_t k = 1; 2 * k <= m; ++k) {
        Point *const p = x + half->position[k], *const q = x + half->position[m - k];
        const Point a = *p, b = *q;
        const Lanes sum_re = (a.re + b.re) * (Real)0.5, sum_im = (a.im - b.im) * (Real)0.5;
        const Point turned = rotate((Point){(a.re - b.re) * (Real)0.5, (a.im + b.im) * (Real)0.5}, w[2 * k], w[2 * k + 1]);
        *q = (Point){sum_re - turned.im, -sum_im - turned.re};
        *p = (Point){sum_re + turned.im, sum_im - turned.re};
    }
}

static void joinReal(const MatchFftLine *half, const Real *w, Point *x) {
    const size_t m = (size_t)half->n;
    x[0] = (Point){x[0].re + x[0].im, x[0].re - x[0].im};
    for (size_t k = 1; 2 * k <= m; ++k) {
        Point *const p = x + half->position[k], *const q = x + half->position[m - k];
        const Point a = *p, b = *q;
        const Lanes sum_re = a.re + b.re, sum_im = a.im - b.im;
        const Point turned = rotate((Point){a.re - b.re, a.im + b.im}, w[2 * k], -w[2 * k + 1]);
        *q = (Point){sum_re + turned.im, turned.re - sum_im};
        *p = (Point){sum_re - turned.im, sum_im + turned.re};
    }
}

/* ---- MatchFftKernels ------------------------------------------------------------------------------------------------- */

static void forwardRows(const MatchFftLine *half, const void *split, const void *plane, size_t count, size_t rows,
                        void *spectrum, void *work) {
    Point *const x = work;
    loadRows(plane, count, 2 * (size_t)half->n, work);
    forwardPart(half, 0, x, (size_t)half->n);
    splitReal(half, split, x);
    storePanels(half, x, count, rows, spectrum);
}

static void forwardColumns(const MatchFftLine *column, size_t filled, void *panel) {
    Point *const x = panel;
    memset((void *)(x + filled), 0, ((size_t)column->n - filled) * sizeof(Point));
    forwardPart(column, 0, x, (size_t)column->n);
}

/* Lane 0 of the first panel holds the spectra of two real columns, A + i B. This stores their products for each row. */
static void correlateRealColumns(const MatchFftLine *column, const Point *a, const Point *b, Real (*products)[2]) {
    const int n = column->n;
    for (int k = 0; 2 * k <= n; ++k) {
        const int row = column->position[k], mirrored = column->position[k ? n - k : 0];
        /* These are twice A and B of the first plane, then of the second. */
        const Real ar = a[row].re[0] + a[mirrored].re[0], ai = a[row].im[0] - a[mirrored].im[0];
        const Real br = a[row].im[0] + a[mirrored].im[0], bi = a[mirrored].re[0] - a[row].re[0];
        const Real cr = b[row].re[0] + b[mirrored].re[0], ci = b[row].im[0] - b[mirrored].im[0];
        const Real dr = b[row].im[0] + b[mirrored].im[0], di = b[mirrored].re[0] - b[row].re[0];
        const Real pr = (Real)0.25 * (ar * cr + ai * ci), pi = (Real)0.25 * (ai * cr - ar * ci);
        const Real qr = (Real)0.25 * (br * dr + bi * di), qi = (Real)0.25 * (bi * dr - br * di);
        products[row][0] = pr - qi;
        products[row][1] = pi + qr;
        products[mirrored][0] = pr + qi;
        products[mirrored][1] = qr - pi;
    }
}

static void correlate(const MatchFftLine *column, const void *a, const void *b, void *sum, int add, void *edge) {
    const Point *const p = a, *const q = b;
    Point *const out = sum;
    Real(*const products)[2] = edge;
    const size_t n = (size_t)column->n;
    if (edge)
        correlateRealColumns(column, p, q, products);
    for (size_t y = 0; edge && add && y < n; ++y) {
        products[y][0] += out[y].re[0];
        products[y][1] += out[y].im[0];
    }
    for (size_t y = 0; y < n; ++y) {
        const Point v = {p[y].re * q[y].re + p[y].im * q[y].im, p[y].im * q[y].re - p[y].re * q[y].im};
        out[y] = add ? plus(out[y], v) : v;
    }
    for (size_t y = 0; edge && y < n; ++y) {
        out[y].re[0] = products[y][0];
        out[y].im[0] = products[y][1];
    }
}

static void inverseColumns(const MatchFftLine *column, void *panel) {
    inversePart(column, 0, panel, (size_t)column->n);
}

static void inverseRows(const MatchFftLine *half, const void *split, const void *spectrum, size_t count, size_t rows,
                        void *plane, void *work) {
    Point *const x = work;
    loadPanels(half, spectrum, count, rows, x);
    joinReal(half, split, x);
    inversePart(half, 0, x, (size_t)half->n);
    storeRows(work, count, 2 * (size_t)half->n, plane);
}

const MatchFftKernels MATCH_FFT_TABLE = {MATCH_FFT_LABEL, LANES,     sizeof(Real),   forwardRows,
                                         forwardColumns,  correlate, inverseColumns, inverseRows};

#ifdef MATCH_FFT_TARGET
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

#endif
