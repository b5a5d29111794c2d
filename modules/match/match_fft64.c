/* The host's exact correlation: mixed-radix transforms in double, eight lines at once.
 * Stockham's order: a pass reads r points that are n / r apart and writes them side by side, so nothing is reordered. Real and
 * imaginary parts lie side by side: in arrays of their own, a pass would read and write 16 streams a multiple of 4096 bytes
 * apart, more than the ways of the first cache. */
#include "match_fft64.h"
#include "host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = MATCH_FFT64_LANES, MAX_PASSES = 32 };

typedef struct Line {
    int n, passes;
    int radix[MAX_PASSES];
    double *twiddles[MAX_PASSES]; /* for each p: (re, im) of exp(-2 pi i p j / n') for j = 1 .. radix - 1 */
} Line;

struct MatchFft64 {
    size_t rows, cols;
    Line row, column;
};

/* The same point of eight lines. */
typedef double Lanes __attribute__((vector_size(LANES * sizeof(double))));

typedef struct Point {
    Lanes re, im;
} Point;

/* ---- Plans -------------------------------------------------------------------------------------------------------------- */

int match_fft64_goodSize(int n) {
    for (int size = (n + LANES - 1) / LANES;; ++size) {
        int rest = size;
        for (int r = 2; r <= 5; r += r == 2 ? 1 : 2)
            while (rest % r == 0)
                rest /= r;
        if (rest == 1)
            return size * LANES;
    }
}

static int createLine(Line *line, int n) {
    line->n = n;
    int rest = n;
    while (rest > 1) {
        const int r = rest % 4 == 0 ? 4 : rest % 2 == 0 ? 2 : rest % 3 == 0 ? 3 : 5, m = rest / r;
        double *w = malloc((size_t)m * (size_t)(r - 1) * 2 * sizeof *w);
        if (!w)
            return 0;
        line->radix[line->passes] = r;
        line->twiddles[line->passes++] = w;
        for (int p = 0; p < m; ++p)
            for (int j = 1; j < r; ++j) {
                const double angle = -2 * 3.14159265358979323846 * (double)((int64_t)p * j) / rest;
                *w++ = cos(angle);
                *w++ = sin(angle);
            }
        rest = m;
    }
    return 1;
}

MatchFft64 *match_fft64_create(int rows, int cols) {
    MatchFft64 *fft = calloc(1, sizeof *fft);
    if (!fft)
        return NULL;
    fft->rows = (size_t)rows, fft->cols = (size_t)cols;
    if (createLine(&fft->row, cols) && createLine(&fft->column, rows))
        return fft;
    match_fft64_destroy(fft);
    return NULL;
}

void match_fft64_destroy(MatchFft64 *fft) {
    if (!fft)
        return;
    for (int i = 0; i < MAX_PASSES; ++i) {
        free(fft->row.twiddles[i]);
        free(fft->column.twiddles[i]);
    }
    free(fft);
}

size_t match_fft64_planeDoubles(const MatchFft64 *fft) {
    return 2 * fft->rows * fft->cols;
}

/* Three signals of the longer side. */
size_t match_fft64_workDoubles(const MatchFft64 *fft) {
    const size_t most = fft->rows > fft->cols ? fft->rows : fft->cols;
    return 6 * most * LANES;
}

double *match_fft64_band(const MatchFft64 *fft, double *plane, size_t i) {
    return plane + i * 2 * fft->cols * LANES;
}

/* ---- Passes: m groups of s neighbors; x to y ---------------------------------------------------------------------------- */

#define ROTATE(out, vr, vi, k)                            \
    do {                                                  \
        (out).re = (vr)*w[2 * (k)] - (vi)*w[2 * (k) + 1]; \
        (out).im = (vr)*w[2 * (k) + 1] + (vi)*w[2 * (k)]; \
    } while (0)

CUSI_MULTIVERSION
static void pass2(size_t m, size_t s, const Point *restrict x, Point *restrict y, const double *w) {
    for (size_t p = 0; p < m; ++p, w += 2)
        for (size_t q = 0; q < s; ++q) {
            const Point *in = x + s * p + q;
            Point *out = y + s * 2 * p + q;
            const Point a = in[0], b = in[s * m];
            out[0].re = a.re + b.re;
            out[0].im = a.im + b.im;
            ROTATE(out[s], (a.re - b.re), (a.im - b.im), 0);
        }
}

CUSI_MULTIVERSION
static void pass3(size_t m, size_t s, const Point *restrict x, Point *restrict y, const double *w) {
    const double h = 0.86602540378443864676; /* sin of 60 degrees */
    for (size_t p = 0; p < m; ++p, w += 4)
        for (size_t q = 0; q < s; ++q) {
            const Point *in = x + s * p + q;
            Point *out = y + s * 3 * p + q;
            const Point a = in[0], b = in[s * m], c = in[2 * s * m];
            const Lanes sr = b.re + c.re, si = b.im + c.im;
            const Lanes dr = (b.re - c.re) * h, di = (b.im - c.im) * h;
            const Lanes er = a.re - sr * 0.5, ei = a.im - si * 0.5;
            out[0].re = a.re + sr;
            out[0].im = a.im + si;
            ROTATE(out[s], (er + di), (ei - dr), 0);
            ROTATE(out[2 * s], (er - di), (ei + dr), 1);
        }
}

CUSI_MULTIVERSION
static void pass4(size_t m, size_t s, const Point *restrict x, Point *restrict y, const double *w) {
    for (size_t p = 0; p < m; ++p, w += 6)
        for (size_t q = 0; q < s; ++q) {
            const Point *in = x + s * p + q;
            Point *out = y + s * 4 * p + q;
            const Point a = in[0], b = in[s * m], c = in[2 * s * m], d = in[3 * s * m];
            const Lanes acr = a.re + c.re, aci = a.im + c.im, er = a.re - c.re, ei = a.im - c.im;
            const Lanes bdr = b.re + d.re, bdi = b.im + d.im, fr = b.re - d.re, fi = b.im - d.im;
            out[0].re = acr + bdr;
            out[0].im = aci + bdi;
            ROTATE(out[s], (er + fi), (ei - fr), 0);
            ROTATE(out[2 * s], (acr - bdr), (aci - bdi), 1);
            ROTATE(out[3 * s], (er - fi), (ei + fr), 2);
        }
}

CUSI_MULTIVERSION
static void pass5(size_t m, size_t s, const Point *restrict x, Point *restrict y, const double *w) {
    const double c1 = 0.30901699437494742410, c2 = -0.80901699437494742410; /* cos, sin of 72 and 144 degrees */
    const double s1 = 0.95105651629515357212, s2 = 0.58778525229247312917;
    for (size_t p = 0; p < m; ++p, w += 8)
        for (size_t q = 0; q < s; ++q) {
            const Point *in = x + s * p + q;
            Point *out = y + s * 5 * p + q;
            const Point a = in[0], b = in[s * m], c = in[2 * s * m], d = in[3 * s * m], e = in[4 * s * m];
            const Lanes ber = b.re + e.re, bei = b.im + e.im, cdr = c.re + d.re, cdi = c.im + d.im;
            const Lanes fr = b.re - e.re, fi = b.im - e.im, gr = c.re - d.re, gi = c.im - d.im;
            const Lanes ur = a.re + ber * c1 + cdr * c2, ui = a.im + bei * c1 + cdi * c2;
            const Lanes vr = a.re + ber * c2 + cdr * c1, vi = a.im + bei * c2 + cdi * c1;
            const Lanes tr = fr * s1 + gr * s2, ti = fi * s1 + gi * s2;
            const Lanes kr = fr * s2 - gr * s1, ki = fi * s2 - gi * s1;
            out[0].re = a.re + ber + cdr;
            out[0].im = a.im + bei + cdi;
            ROTATE(out[s], (ur + ti), (ui - tr), 0);
            ROTATE(out[2 * s], (vr + ki), (vi - kr), 1);
            ROTATE(out[3 * s], (vr - ki), (vi + kr), 2);
            ROTATE(out[4 * s], (ur - ti), (ui + tr), 3);
        }
}

/* Transforms x with y as workspace; returns the one that holds the result. */
static Point *transform(const Line *line, Point *x, Point *y) {
    size_t s = 1, rest = (size_t)line->n;
    for (int i = 0; i < line->passes; ++i) {
        const size_t r = (size_t)line->radix[i], m = rest / r;
        const double *w = line->twiddles[i];
        if (r == 2)
            pass2(m, s, x, y, w);
        else if (r == 3)
            pass3(m, s, x, y, w);
        else if (r == 4)
            pass4(m, s, x, y, w);
        else
            pass5(m, s, x, y, w);
        Point *const other = x;
        x = y, y = other;
        rest = m, s *= r;
    }
    return x;
}

static Point *points(double *aligned) {
    return (Point *)(void *)aligned;
}

void match_fft64_transformBand(const MatchFft64 *fft, double *band, double *work) {
    const Point *done = transform(&fft->row, points(band), points(work));
    if (done != points(band))
        memcpy(band, done, fft->cols * sizeof *done);
}

/* ---- Columns, eight at a time ------------------------------------------------------------------------------------------- */

/* Lane i of point j becomes lane j of point i. */
CUSI_MULTIVERSION
static void transpose(const double *restrict in, double *restrict out) {
    for (size_t i = 0; i < LANES; ++i)
        for (size_t j = 0; j < LANES; ++j) {
            out[2 * i * LANES + j] = in[2 * j * LANES + i];
            out[(2 * i + 1) * LANES + j] = in[(2 * j + 1) * LANES + i];
        }
}

/* Columns 8 g.. of the first `bands` bands; the rows below are zero. */
static void loadColumns(const MatchFft64 *fft, double *plane, size_t bands, size_t g, double *out) {
    const size_t square = 2 * LANES * LANES;
    for (size_t i = 0; i < bands; ++i)
        transpose(match_fft64_band(fft, plane, i) + g * square, out + i * square);
    memset(out + bands * square, 0, (2 * fft->rows * LANES - bands * square) * sizeof *out);
}

void match_fft64_spectrum(const MatchFft64 *fft, double *plane, size_t bands, double *spectrum, double *work) {
    const size_t n = 2 * fft->rows * LANES;
    const double scale = 1.0 / ((double)fft->rows * (double)fft->cols);
    for (size_t g = 0; g < fft->cols / LANES; ++g) {
        loadColumns(fft, plane, bands, g, work);
        const double *done = (const double *)transform(&fft->column, points(work), points(work + n));
        for (size_t i = 0; i < n; ++i)
            spectrum[g * n + i] = done[i] * scale;
    }
}

/* sum = a conj(b), or sum += a conj(b); the sum's parts are exchanged. */
CUSI_MULTIVERSION
static void multiply(const Point *restrict a, const Point *restrict b, size_t n, Point *restrict sum, int add) {
    for (size_t i = 0; i < n; ++i) {
        const Lanes re = a[i].re * b[i].re + a[i].im * b[i].im, im = a[i].im * b[i].re - a[i].re * b[i].im;
        sum[i].re = add ? sum[i].re + im : im;
        sum[i].im = add ? sum[i].im + re : re;
    }
}

void match_fft64_correlate(const MatchFft64 *fft, double *planes, double *spectra, int count, size_t bands, size_t wanted,
                           double *work) {
    const size_t n = 2 * fft->rows * LANES, plane = match_fft64_planeDoubles(fft), square = 2 * LANES * LANES;
    Point *sum = points(work + 2 * n);
    for (size_t g = 0; g < fft->cols / LANES; ++g) {
        for (int p = 0; p < count; ++p) {
            loadColumns(fft, planes + (size_t)p * plane, bands, g, work);
            const Point *done = transform(&fft->column, points(work), points(work + n));
            multiply(done, points(spectra + (size_t)p * plane + g * n), fft->rows, sum, p);
        }
        const double *done = (const double *)transform(&fft->column, sum, points(work));
        for (size_t i = 0; i < wanted; ++i)
            transpose(done + i * square, match_fft64_band(fft, planes, i) + g * square);
    }
}
