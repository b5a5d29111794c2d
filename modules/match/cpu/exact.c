/* The exact pass computes exact scores of all positions at once, if that is cheaper than window by window (window.c). It
 * repeats the correlation of every block in double. Correlations of integer pixels (bytes, or floats that are integers) are
 * integers, and transforms in double are off by far less than 0.5, so rounding makes them exact. */
#include "match/cpu/state.h"

#include "check.h"

#include <string.h>

/* ---- The exact pass: preparation ------------------------------------------------------------------------------------- */

/* Nanoseconds, measured (docs/internals/match.md): per point and level of a transform, per position scored, and per pixel
 * and per row of a window that is computed alone. */
#define TUNING_FFT64_NS  0.16
#define TUNING_SCORE_NS  12
#define TUNING_SQUARE_NS 0.1
#define TUNING_BYTE_NS   0.3
#define TUNING_FLOAT_NS  1.6
#define TUNING_ROW_NS    8

/* Bounds the error of a correlation of bytes, and with a mask also that of their squares. */
static double largestError(const MatchModel *m, const MatchTemplate *sums, double units, double pixels) {
    double most = m->masked ? units * sqrt(pixels) * m->channels * 65025 * sqrt(m->n) : 0;
    for (int k = 0; k < m->templates; ++k) {
        double error = 0;
        for (int c = 0; c < m->channels; ++c)
            error += units * sqrt(pixels) * 255 * sums[k].norm[c];
        most = error > most ? error : most;
    }
    return most;
}

double match_windowNs(const MatchModel *m) {
    const double pixel = !m->integer ? TUNING_FLOAT_NS : m->method == CUS_MATCH_SQDIFF ? TUNING_SQUARE_NS : TUNING_BYTE_NS;
    return m->h * TUNING_ROW_NS + pixel * m->n * m->channels;
}

static double passCost(const MatchModel *m, const MatchHost *host, double points) {
    const double transforms = TUNING_FFT64_NS * (m->channels + 1) * points * log2(points);
    const double scores = TUNING_SCORE_NS * (double)host->block_rows * host->block_cols;
    const double stages = host->threads * TUNING_STAGE_NS * (3 * m->channels + 4);
    return (double)(host->down * host->across) * (TUNING_SHARED * (transforms + scores) + stages);
}

/* Returns the largest magnitude of n floats if they are integers, otherwise infinity. */
CUSI_MULTIVERSION
static double largestInteger(const float *values, size_t n) {
    double largest = 0;
    for (size_t i = 0; i < n; ++i) {
        const double magnitude = values[i] == rintf(values[i]) ? fabs((double)values[i]) : INFINITY;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

void match_prepareExact(MatchModel *m, MatchHost *host) {
    const double points = (double)host->fft_rows * host->fft_cols, units = match_fft64_correlationUnits(points) * 0x1p-53;
    const int is_exact = !m->integer || largestError(m, host->sums, units, points) < 0.25;
    host->pass_ns = is_exact ? passCost(m, host, points) : INFINITY;
    host->largest = m->integer ? 255
                               : largestInteger((const float *)host->templates,
                                                host->template_bytes / sizeof(float) * (size_t)m->templates);
    host->loaded64 = -1;
    /* Prefix and running sums of doubles are off by half an ulp of the largest sum for each row and column. */
    m->window_error = m->masked ? units * m->mask_norm : (m->rows + m->cols) * 0x1p-52;
}

/* ---- The exact pass -------------------------------------------------------------------------------------------------- */

void match_transformTemplate(const MatchModel *m, const MatchHost *host, int k, int p, double *spectrum) {
    const size_t w = (size_t)m->w, h = (size_t)m->h, step = (size_t)host->fft_cols;
    memset(host->plane64, 0, (size_t)host->fft64->filled * step * sizeof(double));
    for (size_t y = 0; y < h; ++y)
        for (size_t x = 0; x < w; ++x)
            host->plane64[y * step + x] = match_templatePlane(m, host, k, p, y * w + x);
    match_fft_forward(host->fft64, host->plane64, spectrum);
}

static void loadTemplate(const MatchModel *m, MatchHost *host, int k) {
    const double scale = 1 / ((double)host->fft_rows * host->fft_cols);
    const size_t spectrum = match_fft_spectrumSize(host->fft64);
    for (int p = 0; p < m->channels && host->loaded64 != k; ++p) {
        double *out = host->spectra64 + (size_t)p * spectrum;
        if (cusi_step(host->progress, 0))
            break;
        match_transformTemplate(m, host, k, p, out);
        for (size_t i = 0; i < spectrum; ++i)
            out[i] *= scale;
    }
    host->loaded64 = cusi_isCancelled(host->progress) ? -1 : k;
}

/* Stores the costs of row y of the block, times `range`. uncertain: error bound of the window sums; 0 if all sums are
 * integers. */
static void storeCosts(const MatchModel *m, const MatchHost *host, const Block *block, int k, size_t y, double uncertain,
                       double range) {
    const MatchTemplate *t = &host->sums[k];
    double *row = host->correlation + match_thisThread() * (size_t)host->block_cols;
    if (host->fft)
        row = host->plane64 + y * (size_t)host->fft_cols;
    else
        match_dotRow(m, host, block, k, y, row);
    const double sign = match_smallestIsBest(m->method) ? 1 : -1;
    const size_t sums = match_sumsRow(m, host, y);
    double *out = host->costs + (block->y + y) * (size_t)m->ocols + block->x;
    const int rounds = !(uncertain > 0), rounds_sums = rounds && m->masked; /* other window sums are exact */
    for (size_t x = 0; x < block->cols; ++x) {
        const double c = rounds ? rint(row[x]) : row[x];
        double s1[MATCH_MAX_CHANNELS] = {0}, s2 = m->needs_s2 ? host->s2[sums * block->cols + x] : 0;
        for (size_t i = 0; m->needs_s1 && i < (size_t)m->channels; ++i)
            s1[i] = host->s1[(i * host->sums_rows + sums) * block->cols + x];
        for (size_t i = 0; rounds_sums && i < (size_t)m->channels; ++i)
            s1[i] = rint(s1[i]);
        s2 = rounds_sums ? rint(s2) : s2;
        const double score = match_scoreOf(m, t, host->shift, c, s1, s2, s2 - 2 * c + t->t2, uncertain);
        out[x] = sign * match_rank(m, t, score) * range;
    }
}

/* Returns whether all sums over windows of floats are integers that doubles hold, so that rounding makes correlations
 * exact. */
static int sumsAreIntegers(const MatchModel *m, const MatchHost *host, const cusMat *frame) {
    double largest = host->largest;
    for (int y = 0; y < m->rows && largest < INFINITY; ++y) {
        const double row =
            largestInteger((const float *)match_row(frame, (size_t)y), (size_t)m->cols * (size_t)m->channels);
        largest = row > largest ? row : largest;
    }
    const double units = match_fft64_correlationUnits((double)host->fft_rows * host->fft_cols) * 0x1p-53;
    double error = 0, shift = 0, energy = 0;
    int shifts = !m->weighted;
    for (int p = 0; p < m->channels; ++p) {
        energy += host->energy[p];
        for (int k = 0; k < m->count; ++k) {
            const double own = host->sums[k].shift[p];
            shift = fmax(shift, fmax(fabs(own), fabs(host->shift[p])));
            shifts &= own == rint(own) && host->shift[p] == rint(host->shift[p]);
            error = fmax(error, m->channels * units * sqrt(host->energy[p]) * host->sums[k].norm[p]);
        }
    }
    if (m->masked)
        error = fmax(error, units * energy * m->mask_norm);
    return shifts && match_sumsAreIntegers(m, largest + shift) && error < 0.25;
}

void match_exactPass(const MatchModel *m, MatchHost *host, const cusMat *frame, int k) {
    const int integers = m->integer || sumsAreIntegers(m, host, frame);
    /* The added constant keeps the bound of floats with fractions above 0, whatever the frame's energy. */
    const MatchError error = match_error(m, &host->sums[k], host->shift, host->energy, host->unit);
    const double uncertain = integers ? 0 : error.energy + 1e-300;
    if (host->fft)
        loadTemplate(m, host, k);
    for (int64_t i = 0; i < host->down * host->across && !cusi_step(host->progress, 0); ++i) {
        const Block block = match_block(m, host, i);
        match_maskedSums(m, host, frame, &block); /* comes first, since it uses plane64, too */
        if (host->fft) {
            cusi_step(host->progress, 0);
            match_transformBlock(m, host, host->fft64, frame, &block, host->plane64, host->planes64);
            cusi_step(host->progress, 0);
            match_fft_correlateAll(host->fft64, host->planes64, host->spectra64, m->channels, host->planes64,
                                   host->plane64);
        } else {
            match_packBlock(m, host, frame, &block);
        }
#pragma omp parallel for schedule(static) num_threads(host->threads) if (host->threads > 1)
        for (size_t strip = 0; strip < (size_t)host->threads; ++strip) {
            const size_t first = match_stripStart(host, &block, strip), end = match_stripStart(host, &block, strip + 1);
            for (size_t y = first; y < end && !cusi_step(host->progress, 0); ++y) {
                match_rowSums(m, host, frame, &block, first, y);
                storeCosts(m, host, &block, k, y, uncertain, error.range);
            }
        }
    }
}
