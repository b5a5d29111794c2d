/* Plans the host's FFT: sizes, passes, twiddle factors, error bounds. planes.c has the transforms. */
#include "host.h"
#include "match/fft/fft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

/* Divides out the factors 2, 3, 5 and 7 of n. */
static int withoutSmallFactors(int n) {
    static const int factors[] = {2, 3, 5, 7};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; ++i)
        while (n % factors[i] == 0)
            n /= factors[i];
    return n;
}

int match_fft_goodSize(int n) {
    int half = n / 2 + n % 2;
    while (withoutSmallFactors(half) != 1)
        ++half;
    return 2 * half;
}

/* Chooses the radix of the next pass over parts of n points: odd factors first, then 8 as long as fours can make up the
 * rest. */
static int chooseRadix(int n) {
    for (int odd = 7; odd > 1; odd -= 2)
        if (n % odd == 0)
            return odd;
    if (n % 8 == 0 && n != 16)
        return 8;
    return n % 4 == 0 ? 4 : 2;
}

/* Sets re and im to cos and sin of -2 pi i / n. */
static void unitRoot(int64_t i, int64_t n, double *re, double *im) {
    const int64_t at = 8 * (i % n);
    /* The angle is reduced to an eighth of a turn around an axis, where both are accurate to the last place. */
    const int64_t quarter = (at + n) / (2 * n);
    const double angle = 2 * PI * ((double)(at - 2 * quarter * n) / (8.0 * (double)n));
    const double c = cos(angle), s = -sin(angle);
    switch (quarter % 4) {
    case 0:
        *re = c, *im = s;
        break;
    case 1:
        *re = s, *im = -c;
        break;
    case 2:
        *re = -c, *im = -s;
        break;
    default:
        *re = -s, *im = c;
    }
}

static void fillTwiddles(void *out, int r, int m, size_t element) {
    size_t at = 0;
    for (int64_t j = 0; j < m; ++j)
        for (int64_t q = 1; q < r; ++q, at += 2) {
            double re, im;
            unitRoot(j * q, (int64_t)r * m, &re, &im);
            match_fft_put(out, at, element, re);
            match_fft_put(out, at + 1, element, im);
        }
}

int match_fft_createLine(MatchFftLine *line, int n, size_t element) {
    memset(line, 0, sizeof *line);
    if (n < 1 || withoutSmallFactors(n) != 1)
        return 0;
    line->n = n;
    line->position = malloc((size_t)n * sizeof *line->position);
    if (!line->position)
        return 0;
    for (int rest = n; rest > 1;) {
        const int r = chooseRadix(rest), m = rest / r;
        void *twiddles = malloc((size_t)m * (size_t)(r - 1) * 2 * element);
        if (!twiddles)
            return 0;
        fillTwiddles(twiddles, r, m, element);
        line->radix[line->passes] = r;
        line->twiddles[line->passes++] = twiddles;
        rest = m;
    }
    for (int k = 0; k < n; ++k) {
        int at = 0, digits = k, size = n;
        for (int i = 0; i < line->passes; ++i) {
            size /= line->radix[i];
            at += digits % line->radix[i] * size;
            digits /= line->radix[i];
        }
        line->position[k] = at;
    }
    return 1;
}

void match_fft_releaseLine(MatchFftLine *line) {
    for (int i = 0; i < line->passes; ++i)
        free(line->twiddles[i]);
    free(line->position);
    memset(line, 0, sizeof *line);
}

void *match_fft_createSplit(int n, size_t element) {
    void *split = malloc(2 * (size_t)(n / 2 + 1) * element);
    for (int k = 0; split && k <= n / 2; ++k) {
        double re, im;
        unitRoot(k, 2 * (int64_t)n, &re, &im);
        match_fft_put(split, 2 * (size_t)k, element, re);
        match_fft_put(split, 2 * (size_t)k + 1, element, im);
    }
    return split;
}

/* ---- Error bounds: docs/internals/match.md ------------------------------------------------------------------------- */

/* A product with a twiddle factor and that factor's rounding cost sqrt(5) + 1 / sqrt(2). */
#define ROTATION_UNITS 2.95
/* The step between a line and a real row's spectrum is a sum, a rotation, a sum. */
#define SPLIT_UNITS (2 + ROTATION_UNITS)
#define SQRT2       1.41421356237309504880

typedef struct Units {
    double norm, sum;
} Units;

static double lineUnits(const MatchFftLine *line, int of_norm) {
    static const Units butterflies[MATCH_FFT_MAX_RADIX + 1] = {
        [2] = {1, 1}, [3] = {4, 4.6}, [4] = {2, 2}, [5] = {7, 7.4}, [7] = {8.7, 8.7}, [8] = {6, 6}};
    double units = line->passes > 1 ? ROTATION_UNITS * (line->passes - 1) : 0;
    for (int i = 0; i < line->passes; ++i)
        units += of_norm ? butterflies[line->radix[i]].norm : butterflies[line->radix[i]].sum;
    return units;
}

double match_fft_normUnits(const MatchFftLine *line) {
    return lineUnits(line, 1);
}

double match_fft_sumUnits(const MatchFftLine *line) {
    return lineUnits(line, 0);
}

double match_fft_correlationUnits(const MatchFft *fft, int planes) {
    const double rounded_planes = 2, rounded_spectrum = 1, product = 2.24 + 3 + (planes - 1), higher_orders = 1;
    const double forward = match_fft_normUnits(&fft->half) + SPLIT_UNITS + match_fft_normUnits(&fft->column);
    const double inverse = match_fft_sumUnits(&fft->column) + SPLIT_UNITS + match_fft_sumUnits(&fft->half);
    return rounded_planes + forward + rounded_spectrum + product + SQRT2 * inverse + higher_orders;
}

double match_fft64_correlationUnits(double points) {
    /* No size needs more than 12 log2(points) + 16 with a rounded spectrum. The other forward transform adds at most a
     * part of that. */
    return 2 * (12 * log2(points) + 16);
}

/* ---- Float kernels with vectors of 16 bytes (SSE2, NEON), which every processor has */

#define MATCH_FFT_LANES 4
#define MATCH_FFT_TABLE match_fft_base
#define MATCH_FFT_LABEL "16-byte vectors"
#include "match/fft/kernels.h"
