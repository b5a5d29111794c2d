/* match on the CPU: correlation by FFT or directly, and the score ranges of one block. */
#include "check.h"
#include "host.h"
#include "match_fft_lines.inc"
#include "match_host.h"

#include <string.h>

/* The common case on its own, so that it vectorizes; the same numbers as match_range. */
CUSI_MULTIVERSION
static void assembleSquares(const double *c, const double *s2, size_t n, double t2, double error, float *score,
                            MatchRange *ranges) {
    for (size_t x = 0; x < n; ++x) {
        double value = s2[x] - 2 * c[x] + t2;
        value = value > 0 ? value : 0;
        const double margin = error + value * 0x1p-22;
        ranges[x] = (MatchRange){(float)(value - margin), (float)(value + margin)};
        score[x] = (float)value;
    }
}

/* Scores and ranges of row `y` of the block from the correlations in worker->correlation. */
static void assembleRow(const MatchModel *m, const MatchTemplate *t, MatchError error, const Block *block, size_t y,
                        Worker *worker, float *score, MatchRange *ranges) {
    const double *s2 = worker->s2 + y * block->cols;
    if (m->method == CUS_MATCH_SQDIFF && !m->masked) {
        assembleSquares(worker->correlation, s2, block->cols, t->t2, 2 * error.correlation + error.window, score, ranges);
        return;
    }
    for (size_t x = 0; x < block->cols; ++x) {
        double s1[3] = {0, 0, 0};
        for (size_t c = 0; m->needs_s1 && c < (size_t)m->channels; ++c)
            s1[c] = worker->s1[(c * block->rows + y) * block->cols + x];
        ranges[x] = match_range(m, t, worker->correlation[x], error, s1, m->needs_s2 ? s2[x] : 0, &score[x]);
    }
}

CUSI_MULTIVERSION
static void shiftBytes(const uint8_t *row, size_t n, size_t stride, float shift, float *out) {
    if (stride == 1)
        for (size_t x = 0; x < n; ++x)
            out[x] = (float)row[x] - shift;
    else
        for (size_t x = 0; x < n; ++x)
            out[x] = (float)row[3 * x] - shift;
}

/* Row y of plane p of the frame under the block, shifted and padded with zeros. */
static void loadRow(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block, int p, size_t y,
                    float *out) {
    const size_t cols = block->cols + (size_t)m->w - 1;
    const char *row = match_row(frame, block->y + y) + block->x * cusTypeSize(frame->type);
    if (p == m->channels)
        for (size_t x = 0; x < cols; ++x)
            out[x] = (float)match_squarePlane(m, row, x);
    else if (m->integer)
        shiftBytes((const uint8_t *)row + p, cols, (size_t)m->channels, (float)m->shift[p], out);
    else
        for (size_t x = 0; x < cols; ++x)
            out[x] = (float)(((const float *)row)[x] - m->shift[p]);
    memset(out + cols, 0, ((size_t)host->fft_cols - cols) * sizeof(float));
}

/* Plane p under the block, as many rows as the transform reads. */
static void loadPlane(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block, int p,
                      const Worker *worker) {
    const size_t rows = block->rows + (size_t)m->h - 1, step = (size_t)host->fft_cols;
    const size_t read = (size_t)worker->fft->filled;
#pragma omp parallel for schedule(static) num_threads(worker->fft->threads) if (worker->fft->threads > 1)
    for (size_t y = 0; y < read; ++y) {
        if (y < rows)
            loadRow(m, host, frame, block, p, y, worker->plane + y * step);
        else
            memset(worker->plane + y * step, 0, step * sizeof(float));
    }
}

double match_maskedConstant(const MatchModel *m, const MatchTemplate *t, const MatchHost *host) {
    double constant = 0;
    if (m->method == CUS_MATCH_SQDIFF) {
        for (size_t i = 0; i < (size_t)m->n; ++i)
            constant += host->mask[i * (size_t)m->channels] ? m->square_shift : 0;
    } else {
        for (int c = 0; c < m->channels; ++c)
            constant += m->shift[c] * t->raw_t1[c];
    }
    return constant;
}

/* Spectra of the frame under the block, and its window sums. */
static void transformBlock(const MatchModel *m, MatchHost *host, const cusMat *frame, const Block *block, Worker *worker) {
    const size_t spectrum = match_fft_spectrumFloats(host->fft_rows, host->fft_cols);
    for (int p = 0; p < m->planes; ++p) {
        loadPlane(m, host, frame, block, p, worker);
        match_fft_forward(worker->fft, worker->plane, worker->spectra + (size_t)p * spectrum);
    }
    match_windowSums(m, frame, block, worker);
}

/* worker->plane becomes the correlation with template k, without its constant. */
static void correlateFft(const MatchModel *m, MatchHost *host, int k, Worker *worker) {
    const size_t spectrum = match_fft_spectrumFloats(host->fft_rows, host->fft_cols);
    match_fft_correlateAll(worker->fft, worker->spectra, host->spectra + (size_t)k * (size_t)m->planes * spectrum,
                           m->planes, worker->product, worker->plane);
}

CUSI_MULTIVERSION
static void accumulateBytes(const uint8_t *row, const uint8_t *t, size_t w, size_t n, uint32_t *restrict sum) {
    size_t i = 0;
    for (; i + 4 <= w; i += 4) {
        const uint32_t t0 = t[i], t1 = t[i + 1], t2 = t[i + 2], t3 = t[i + 3];
        const uint8_t *r = row + i;
        for (size_t x = 0; x < n; ++x)
            sum[x] += t0 * r[x] + t1 * r[x + 1] + t2 * r[x + 2] + t3 * r[x + 3];
    }
    for (; i < w; ++i)
        for (size_t x = 0; x < n; ++x)
            sum[x] += (uint32_t)t[i] * row[i + x];
}

CUSI_MULTIVERSION
static void flush(uint32_t *restrict sum, double *restrict total, size_t n) {
    for (size_t x = 0; x < n; ++x) {
        total[x] += sum[x];
        sum[x] = 0;
    }
}

CUSI_MULTIVERSION
static void accumulateFloats(const float *row, const float *t, size_t w, size_t n, double *restrict sum) {
    for (size_t i = 0; i < w; ++i) {
        const double v = t[i];
        for (size_t x = 0; x < n; ++x)
            sum[x] += v * row[i + x];
    }
}

/* The frame under the block with its channels deinterleaved. */
void match_loadPlanar(const MatchModel *m, const cusMat *frame, const Block *block, uint8_t *planar) {
    const size_t cols = block->cols + (size_t)m->w - 1, rows = block->rows + (size_t)m->h - 1;
    const size_t channels = (size_t)m->channels, pixel = cusTypeSize(frame->type);
    for (size_t y = 0; y < rows; ++y) {
        const char *row = match_row(frame, block->y + y) + block->x * pixel;
        if (channels == 1)
            memcpy(planar + y * cols * pixel, row, cols * pixel);
        else
            for (size_t c = 0; c < channels; ++c)
                for (size_t x = 0; x < cols; ++x)
                    planar[(y * channels + c) * cols + x] = (uint8_t)row[x * channels + c];
    }
}

/* worker->correlation becomes row y of the block for template k. Sums stay in 32 bits as long as they cannot overflow. */
void match_correlateDirect(const MatchModel *m, const MatchHost *host, const Block *block, int k, size_t y,
                           Worker *worker) {
    const size_t n = block->cols, w = (size_t)m->w, cols = n + w - 1, channels = (size_t)m->channels;
    const char *pixels = host->templates + (size_t)k * host->template_bytes;
    memset(worker->correlation, 0, n * sizeof(double));
    memset(worker->sum32, 0, n * sizeof(uint32_t));
    const size_t rows_at_once = UINT32_MAX / (65025 * w * channels);
    for (size_t j = 0; j < (size_t)m->h; ++j) {
        if (!m->integer) {
            accumulateFloats((const float *)worker->planar + (y + j) * cols, (const float *)pixels + j * w, w, n,
                             worker->correlation);
            continue;
        }
        for (size_t c = 0; c < channels; ++c) {
            const uint8_t *t = (const uint8_t *)pixels + j * w * channels + c;
            const uint8_t *row = worker->planar + ((y + j) * channels + c) * cols;
            if (channels == 1)
                accumulateBytes(row, t, w, n, worker->sum32);
            else
                for (size_t i = 0; i < w; ++i)
                    accumulateBytes(row + i, t + i * channels, 1, n, worker->sum32);
        }
        if (j % rows_at_once == rows_at_once - 1 || j + 1 == (size_t)m->h)
            flush(worker->sum32, worker->correlation, n);
    }
}

/* worker->correlation becomes row y of the block for template k. */
static void correlateRow(const cusMatcher *matcher, const cusMat *frame, const Block *block, int k, size_t y,
                         double constant, Worker *worker) {
    const MatchModel *m = &matcher->model;
    const MatchHost *host = matcher->backend;
    if (matcher->algorithm == CUS_MATCH_FFT) {
        const float *plane = worker->plane + y * (size_t)host->fft_cols;
        for (size_t x = 0; x < block->cols; ++x)
            worker->correlation[x] = (double)plane[x] + constant;
    } else if (m->masked) {
        for (size_t x = 0; x < block->cols; ++x)
            worker->correlation[x] = match_exactScore(m, host, frame, k, block->y + y, block->x + x) -
                                     (m->method == CUS_MATCH_SQDIFF ? host->sums[k].t2 : 0);
    } else {
        match_correlateDirect(m, host, block, k, y, worker);
    }
}

/* Row y of template k's score map in the block. */
static void scoreRow(const cusMatcher *matcher, const cusMat *frame, cusMat *scores, MatchError error, const Block *block,
                     int k, size_t y, double constant, Worker *worker) {
    const MatchModel *m = &matcher->model;
    const MatchHost *host = matcher->backend;
    const size_t position = ((size_t)k * (size_t)m->orows + block->y + y) * (size_t)m->ocols + block->x;
    correlateRow(matcher, frame, block, k, y, constant, worker);
    /* Without a score map the scores go to a buffer that is free by now. */
    float *score =
        scores ? (float *)((char *)scores[k].data + (block->y + y) * scores[k].step) + block->x : (float *)worker->sum32;
    assembleRow(m, &host->sums[k], error, block, y, worker, score, host->ranges + position);
}

void match_scoreBlock(cusMatcher *matcher, const cusMat *frame, cusMat *scores, const MatchError *errors,
                      const Block *block, Worker *worker) {
    const MatchModel *m = &matcher->model;
    MatchHost *host = matcher->backend;
    const int fft = matcher->algorithm == CUS_MATCH_FFT, team = worker->team;
    if (fft) {
        transformBlock(m, host, frame, block, worker);
    } else if (!m->masked) {
        match_loadPlanar(m, frame, block, worker->planar);
        match_windowSums(m, frame, block, worker);
    }
    for (int k = 0; k < m->count; ++k) {
        const double constant = m->masked ? match_maskedConstant(m, &host->sums[k], host) : 0;
        if (fft)
            correlateFft(m, host, k, worker);
#pragma omp parallel for schedule(static) num_threads(team) if (team > 1)
        for (size_t y = 0; y < block->rows; ++y) {
            Worker own = *worker;
            const size_t thread = match_threadOf(team);
            own.sum32 += thread * (size_t)host->block_cols;
            own.correlation += thread * (size_t)host->block_cols;
            scoreRow(matcher, frame, scores, errors[k], block, k, y, constant, &own);
        }
    }
}
