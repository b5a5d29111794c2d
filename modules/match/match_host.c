/* match on the CPU: overlapping blocks of the image, one FFT plan and one set of buffers a thread. */
#include "check.h"
#include "host.h"
#include "match_backend.h"
#include "match_fft.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Measured on an x86-64 server core with AVX2, OpenCV 4.6's DFT: nanoseconds of one multiplication of the direct path and of
 * one point and level (points * log2 points of them) of one transform. */
#define TUNING_DIRECT_NS 0.05
#define TUNING_FFT_NS    0.45
enum { TUNING_MAX_SPLIT = 64, TUNING_STRIP_ROWS = 16 };

typedef struct Best {
    double cost;
    size_t position;
} Best;

/* One thread's buffers, and what it found. */
typedef struct Worker {
    MatchFft *fft;
    float *plane, *spectra, *product; /* one plane, the planes' spectra, their product */
    uint8_t *planar;                  /* direct: the block's channels apart */
    uint32_t *sum32;                  /* direct: one score row, before it overflows */
    double *correlation;              /* one score row */
    double *s1, *s2;                  /* window sums of a block: channels planes, and one */
    double *column1, *column2;        /* sums of one column's h pixels, channels rows and one */
    char *memory;
    Best best; /* of the positions it has computed exactly */
} Worker;

typedef struct MatchHost {
    MatchTemplate *sums;
    char *templates; /* tight; pixels that the mask drops are 0 */
    uint8_t *mask;   /* 255 or 0 an element, or NULL */
    size_t template_bytes;
    int fft_rows, fft_cols;
    int block_rows, block_cols; /* of the score map */
    float *spectra;             /* count x planes, conjugate multiplication still to come, scaled by 1 / points */
    MatchRange *ranges;         /* count score maps */
    Worker *workers;
    int threads;
} MatchHost;

static const char *rowOf(const cusMat *mat, size_t y) {
    return (const char *)mat->data + y * mat->step;
}

/* Threads worth starting for this many operations. */
static int threadsFor(const MatchHost *host, double operations) {
    const double useful = operations / (1 << 20) + 1;
    return useful < host->threads ? (int)useful : host->threads;
}

static Worker *thisWorker(const MatchHost *host) {
#ifdef _OPENMP
    return &host->workers[omp_get_thread_num()];
#else
    return &host->workers[0];
#endif
}

/* ---- Block size: the least work for the busiest thread ----------------------------------------------------------------
 */

typedef struct Plan {
    int block_rows, block_cols, fft_rows, fft_cols;
    double ns;
} Plan;

static double fftCost(const MatchModel *m, double points) {
    return TUNING_FFT_NS * (m->planes + m->count) * points * log2(points + 1);
}

static Plan chooseBlocks(const MatchModel *m) {
    const int threads = cusi_maxThreads();
    Plan best = {.ns = INFINITY};
    for (int ny = 1; ny <= TUNING_MAX_SPLIT && ny <= m->orows; ++ny)
        for (int nx = 1; nx <= TUNING_MAX_SPLIT && nx <= m->ocols; ++nx) {
            Plan plan = {.block_rows = (m->orows + ny - 1) / ny, .block_cols = (m->ocols + nx - 1) / nx};
            const int64_t blocks = (int64_t)ny * nx, rounds = (blocks + threads - 1) / threads;
            const int rows = plan.block_rows + m->h - 1, cols = plan.block_cols + m->w - 1;
            if (rows > (1 << 30) / cols && blocks < (int64_t)TUNING_MAX_SPLIT * TUNING_MAX_SPLIT)
                continue; /* planes of more than 4 GB only when there is no other way */
            plan.ns = (double)rounds * fftCost(m, (double)rows * cols);
            if (plan.ns < best.ns)
                best = plan;
        }
    best.fft_rows = match_fft_goodSize(best.block_rows + m->h - 1);
    best.fft_cols = match_fft_goodSize(best.block_cols + m->w - 1);
    return best;
}

cusMatchAlgorithm match_host_algorithm(const MatchModel *m) {
    if (strcmp(match_fft_name(), "none") == 0)
        return CUS_MATCH_DIRECT;
    const double products = (double)m->orows * m->ocols * m->n * m->channels * m->count;
    return TUNING_DIRECT_NS * products / cusi_maxThreads() <= chooseBlocks(m).ns ? CUS_MATCH_DIRECT : CUS_MATCH_FFT;
}

/* ---- Preparation -------------------------------------------------------------------------------------------------------
 */

static size_t align64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static cusStatus prepareWorker(const MatchModel *m, const MatchHost *host, int fft, Worker *worker) {
    const size_t points = (size_t)host->fft_rows * (size_t)host->fft_cols;
    const size_t spectrum = fft ? match_fft_spectrumFloats(host->fft_rows, host->fft_cols) : 0;
    const size_t rows = (size_t)host->block_rows, cols = (size_t)host->block_cols, channels = (size_t)m->channels;
    const size_t in_cols = cols + (size_t)m->w - 1, in_rows = rows + (size_t)m->h - 1;
    const size_t sizes[] = {
        fft ? points * sizeof(float) : 0,
        spectrum * (size_t)m->planes * sizeof(float),
        spectrum * sizeof(float),
        fft ? 0 : in_rows * in_cols * channels * (m->integer ? 1 : sizeof(float)),
        cols * sizeof(uint32_t),
        cols * sizeof(double),
        m->needs_s1 ? rows * cols * channels * sizeof(double) : 0,
        m->needs_s2 ? rows * cols * sizeof(double) : 0,
        in_cols * channels * sizeof(double),
        in_cols * sizeof(double),
    };
    void **parts[] = {(void **)&worker->plane,  (void **)&worker->spectra, (void **)&worker->product,
                      (void **)&worker->planar, (void **)&worker->sum32,   (void **)&worker->correlation,
                      (void **)&worker->s1,     (void **)&worker->s2,      (void **)&worker->column1,
                      (void **)&worker->column2};
    size_t total = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        total += align64(sizes[i]);
    worker->memory = cusi_hostAllocate(total);
    CUSI_REQUIRE(worker->memory, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: no host memory for %zu bytes", total);
    size_t at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        *parts[i] = worker->memory + at;
        at += align64(sizes[i]);
    }
    if (!fft)
        return CUS_OK;
    worker->fft = match_fft_create(host->fft_rows, host->fft_cols, (int)in_rows, host->block_rows);
    CUSI_REQUIRE(worker->fft, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: no host memory for an FFT of %d x %d", host->fft_rows,
                 host->fft_cols);
    return CUS_OK;
}

/* Element i of pixel data that may be 8-bit or float. */
static inline double at(const void *data, int integer, size_t i) {
    return integer ? ((const uint8_t *)data)[i] : ((const float *)data)[i];
}

/* What plane `p` of the template holds at element i: see MatchModel. */
static float templatePlane(const MatchModel *m, const MatchHost *host, const char *pixels, int p, size_t pixel) {
    const size_t channels = (size_t)m->channels, i = pixel * channels + (size_t)(p < m->channels ? p : 0);
    const int kept = !host->mask || host->mask[i];
    if (p == m->channels)
        return kept ? 1.0f : 0.0f;
    if (!kept)
        return 0;
    const double raw = at(pixels, m->integer, i);
    if (m->masked)
        return (float)(m->method == CUS_MATCH_CCORR ? raw : -2 * (raw - m->shift[p]));
    return (float)(raw - m->shift[p]);
}

static void prepareSpectra(const MatchModel *m, MatchHost *host) {
    Worker *worker = &host->workers[0];
    assert(worker->plane);
    const size_t spectrum = match_fft_spectrumFloats(host->fft_rows, host->fft_cols);
    const size_t points = (size_t)host->fft_rows * (size_t)host->fft_cols;
    const float scale = (float)(1.0 / (double)points);
    for (int k = 0; k < m->count; ++k)
        for (int p = 0; p < m->planes; ++p) {
            memset(worker->plane, 0, points * sizeof(float));
            for (size_t y = 0; y < (size_t)m->h; ++y)
                for (size_t x = 0; x < (size_t)m->w; ++x)
                    worker->plane[y * (size_t)host->fft_cols + x] =
                        templatePlane(m, host, host->templates + (size_t)k * host->template_bytes, p, y * (size_t)m->w + x);
            float *out = host->spectra + ((size_t)k * (size_t)m->planes + (size_t)p) * spectrum;
            match_fft_forward(worker->fft, worker->plane, out);
            for (size_t i = 0; i < spectrum; ++i)
                out[i] *= scale;
        }
}

cusStatus match_host_prepare(cusMatcher *matcher, const void *templates, const uint8_t *mask, const MatchTemplate *sums) {
    MatchModel *m = &matcher->model;
    const int fft = matcher->algorithm == CUS_MATCH_FFT;
    const size_t elements = (size_t)m->w * (size_t)m->h * (size_t)m->channels, count = (size_t)m->count;
    const size_t map = (size_t)m->orows * (size_t)m->ocols;
    MatchHost *host = calloc(1, sizeof *host);
    CUSI_REQUIRE(host, CUS_ERROR_NO_MEMORY, "cusMatcherCreate: no host memory");
    matcher->backend = host;
    host->template_bytes = elements * (m->integer ? 1 : sizeof(float));
    host->threads = cusi_maxThreads();
    if (fft) {
        const Plan plan = chooseBlocks(m);
        host->block_rows = plan.block_rows, host->block_cols = plan.block_cols;
        host->fft_rows = plan.fft_rows, host->fft_cols = plan.fft_cols;
        m->error = MATCH_FFT_UNITS * log2((double)host->fft_rows * host->fft_cols) * 0x1p-24;
    } else {
        host->block_rows = TUNING_STRIP_ROWS < m->orows ? TUNING_STRIP_ROWS : m->orows;
        host->block_cols = m->ocols;
        m->error = m->integer ? 0 : 0x1p-52 * m->n;
    }
    host->sums = malloc(count * sizeof *sums);
    host->templates = cusi_hostAllocate(count * host->template_bytes);
    host->mask = mask ? cusi_hostAllocate(elements) : NULL;
    host->ranges =
        map <= SIZE_MAX / sizeof(MatchRange) / count ? cusi_hostAllocate(count * map * sizeof(MatchRange)) : NULL;
    host->workers = calloc((size_t)host->threads, sizeof *host->workers);
    if (fft)
        host->spectra = cusi_hostAllocate(count * (size_t)m->planes *
                                          match_fft_spectrumFloats(host->fft_rows, host->fft_cols) * sizeof(float));
    CUSI_REQUIRE(host->sums && host->templates && (host->mask || !mask) && host->ranges && host->workers &&
                     (host->spectra || !fft),
                 CUS_ERROR_NO_MEMORY, "cusMatcherCreate: no host memory for %d score maps of %zu positions", m->count, map);
    memcpy(host->sums, sums, count * sizeof *sums);
    memcpy(host->templates, templates, count * host->template_bytes);
    if (mask) {
        memcpy(host->mask, mask, elements);
        for (size_t i = 0; i < elements * count; ++i)
            if (!mask[i % elements])
                memset(host->templates + i * (m->integer ? 1 : sizeof(float)), 0, m->integer ? 1 : sizeof(float));
    }
    for (int i = 0; i < host->threads; ++i)
        CUS_TRY(prepareWorker(m, host, fft, &host->workers[i]));
    if (fft)
        prepareSpectra(m, host);
    CUS_TRY(cusMatCreate(&matcher->results, m->count, m->max_matches * (int)sizeof(cusMatch), CUS_8UC1, CUS_HOST));
    const cusMatch none = {.x = -1, .y = -1, .score = NAN, .filled = -1};
    for (size_t i = 0; i < count * (size_t)m->max_matches; ++i)
        ((cusMatch *)matcher->results.data)[i] = none;
    return CUS_OK;
}

void match_host_release(cusMatcher *matcher) {
    MatchHost *host = matcher->backend;
    if (!host)
        return;
    for (int i = 0; host->workers && i < host->threads; ++i) {
        match_fft_destroy(host->workers[i].fft);
        free(host->workers[i].memory);
    }
    free(host->workers);
    free(host->sums);
    free(host->templates);
    free(host->mask);
    free(host->ranges);
    free(host->spectra);
    free(host);
}

/* ---- Energy of the shifted planes --------------------------------------------------------------------------------------
 */

CUSI_MULTIVERSION
static void sumsOfBytes(const uint8_t *row, size_t n, size_t stride, uint64_t *sum, uint64_t *square) {
    enum { AT_ONCE = 32768 }; /* 32-bit sums of squares hold that many */
    for (size_t x = 0; x < n; x += AT_ONCE) {
        const size_t end = n - x < AT_ONCE ? n : x + AT_ONCE;
        uint32_t s = 0, q = 0;
        if (stride == 1)
            for (size_t i = x; i < end; ++i) {
                s += row[i];
                q += (uint32_t)row[i] * row[i];
            }
        else
            for (size_t i = x; i < end; ++i) {
                s += row[3 * i];
                q += (uint32_t)row[3 * i] * row[3 * i];
            }
        *sum += s;
        *square += q;
    }
}

/* What the squares' plane of a masked SQDIFF holds. */
static double squarePlane(const MatchModel *m, const void *row, size_t x) {
    double sum = -m->square_shift;
    for (int c = 0; c < m->channels; ++c) {
        const double v = at(row, m->integer, x * (size_t)m->channels + (size_t)c) - m->shift[c];
        sum += v * v;
    }
    return sum;
}

static void rowEnergy(const MatchModel *m, const void *row, double *energy) {
    const size_t cols = (size_t)m->cols, channels = (size_t)m->channels;
    for (int c = 0; c < m->channels; ++c) {
        if (m->integer) {
            uint64_t sum = 0, square = 0;
            sumsOfBytes((const uint8_t *)row + c, cols, channels, &sum, &square);
            energy[c] += (double)square - 2 * m->shift[c] * (double)sum + m->shift[c] * m->shift[c] * m->cols;
        } else {
            for (size_t x = 0; x < cols; ++x) {
                const double v = ((const float *)row)[x] - m->shift[c];
                energy[c] += v * v;
            }
        }
    }
    if (m->planes > m->channels)
        for (size_t x = 0; x < cols; ++x) {
            const double v = squarePlane(m, row, x);
            energy[m->channels] += v * v;
        }
}

static void frameEnergy(const MatchModel *m, const cusMat *frame, int threads, double *energy) {
    double e0 = 0, e1 = 0, e2 = 0, e3 = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : e0, e1, e2, e3)
    for (int y = 0; y < m->rows; ++y) {
        double row[MATCH_MAX_PLANES] = {0, 0, 0, 0};
        rowEnergy(m, rowOf(frame, (size_t)y), row);
        e0 += row[0], e1 += row[1], e2 += row[2], e3 += row[3];
    }
    energy[0] = e0, energy[1] = e1, energy[2] = e2, energy[3] = e3;
}

/* ---- Window sums of one block: columns of h pixels, moved down a row at a time, and w of them, moved along ------------
 */

CUSI_MULTIVERSION
static void moveColumnsBytes(const uint8_t *in, const uint8_t *out, size_t n, size_t stride, double shift,
                             double *restrict column1, double *restrict column2) {
    const int m = (int)shift;
    for (size_t x = 0; x < n; ++x) {
        const int a = in ? in[x * stride] - m : 0, b = out ? out[x * stride] - m : 0;
        column1[x] += a - b;
        column2[x] += a * a - b * b;
    }
}

static void moveColumns(const MatchModel *m, const char *in, const char *out, size_t n, int c, double *column1,
                        double *column2) {
    if (m->integer) {
        moveColumnsBytes((const uint8_t *)in + c, out ? (const uint8_t *)out + c : NULL, n, (size_t)m->channels,
                         m->shift[c], column1, column2);
        return;
    }
    for (size_t x = 0; x < n; ++x) {
        const double a = ((const float *)in)[x] - m->shift[0], b = out ? ((const float *)out)[x] - m->shift[0] : 0;
        column1[x] += a - b;
        column2[x] += a * a - b * b;
    }
}

/* out[x] = column[x] + ... + column[x + w - 1]. Doubles hold the integers exactly. */
static void slide(const double *column, size_t n, size_t w, double *out) {
    double sum = 0;
    for (size_t x = 0; x + 1 < w; ++x)
        sum += column[x];
    for (size_t x = 0; x < n; ++x) {
        sum += column[x + w - 1];
        out[x] = sum;
        sum -= column[x];
    }
}

static void windowSums(const MatchModel *m, const cusMat *frame, size_t y0, size_t x0, size_t rows, size_t cols,
                       Worker *worker) {
    if (!m->needs_s1 && !m->needs_s2)
        return;
    const size_t w = (size_t)m->w, h = (size_t)m->h, n = cols + w - 1, pixel = cusTypeSize(frame->type);
    memset(worker->column1, 0, n * (size_t)m->channels * sizeof(double));
    memset(worker->column2, 0, n * sizeof(double));
    for (size_t j = 0; j < rows + h - 1; ++j) {
        const char *in = rowOf(frame, y0 + j) + x0 * pixel, *out = j >= h ? rowOf(frame, y0 + j - h) + x0 * pixel : NULL;
        for (int c = 0; c < m->channels; ++c)
            moveColumns(m, in, out, n, c, worker->column1 + (size_t)c * n, worker->column2);
        if (j + 1 < h)
            continue;
        const size_t y = j + 1 - h;
        for (size_t c = 0; m->needs_s1 && c < (size_t)m->channels; ++c)
            slide(worker->column1 + c * n, cols, w, worker->s1 + (c * rows + y) * cols);
        if (m->needs_s2)
            slide(worker->column2, cols, w, worker->s2 + y * cols);
    }
}

/* ---- One window, exactly -----------------------------------------------------------------------------------------------
 */

CUSI_MULTIVERSION
static uint32_t squaredDifferences(const uint8_t *a, const uint8_t *b, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i) {
        const int d = a[i] - b[i];
        sum += (uint32_t)(d * d);
    }
    return sum;
}

CUSI_MULTIVERSION
static uint32_t squaredDifferencesMasked(const uint8_t *a, const uint8_t *b, const uint8_t *mask, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i) {
        const int d = (a[i] & mask[i]) - b[i];
        sum += (uint32_t)(d * d);
    }
    return sum;
}

CUSI_MULTIVERSION
static uint32_t products(const uint8_t *a, const uint8_t *b, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i)
        sum += (uint32_t)(a[i] * b[i]);
    return sum;
}

static double exactBytes(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x) {
    const MatchTemplate *t = &host->sums[k];
    const size_t channels = (size_t)m->channels, n = (size_t)m->w * channels;
    const uint8_t *pixels = (const uint8_t *)host->templates + (size_t)k * host->template_bytes;
    uint64_t ssd = 0, c = 0, s1[3] = {0, 0, 0}, s2 = 0;
    for (size_t j = 0; j < (size_t)m->h; ++j) {
        const uint8_t *row = (const uint8_t *)rowOf(frame, y + j) + x * channels;
        if (m->method == CUS_MATCH_SQDIFF) {
            ssd += host->mask ? squaredDifferencesMasked(row, pixels + j * n, host->mask + j * n, n)
                              : squaredDifferences(row, pixels + j * n, n);
            continue;
        }
        c += products(row, pixels + j * n, n);
        if (!m->masked)
            for (size_t k1 = 0; k1 < channels; ++k1)
                sumsOfBytes(row + k1, (size_t)m->w, channels, &s1[k1], &s2);
    }
    if (m->masked || m->method == CUS_MATCH_SQDIFF)
        return match_score(m, t, (double)c, NULL, 0, (double)ssd);
    /* All integers below 2^53: shifting is exact. */
    double shifted = (double)c, shifted1[3] = {0, 0, 0}, shifted2 = (double)s2;
    for (size_t k1 = 0; k1 < channels; ++k1) {
        const double shift = m->shift[k1], sum = (double)s1[k1];
        shifted += m->n * shift * shift - shift * (sum + t->raw_t1[k1]);
        shifted1[k1] = sum - m->n * shift;
        shifted2 += m->n * shift * shift - 2 * shift * sum;
    }
    return match_score(m, t, shifted, shifted1, shifted2, shifted2 - 2 * shifted + t->t2);
}

static double exactFloats(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x) {
    const MatchTemplate *t = &host->sums[k];
    const size_t w = (size_t)m->w;
    const float *pixels = (const float *)(host->templates + (size_t)k * host->template_bytes);
    const double shift = m->shift[0];
    double ssd = 0, c = 0, s1 = 0, s2 = 0;
    for (size_t j = 0; j < (size_t)m->h; ++j) {
        const float *row = (const float *)rowOf(frame, y + j) + x;
        for (size_t i = 0; i < w; ++i) {
            if (host->mask && !host->mask[j * w + i])
                continue;
            const double a = row[i], b = pixels[j * w + i];
            const double sa = a - shift, sb = b - shift;
            ssd += (a - b) * (a - b);
            c += m->masked ? a * b : sa * sb;
            s1 += sa;
            s2 += sa * sa;
        }
    }
    return match_score(m, t, c, &s1, s2, ssd);
}

static double exactScore(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x) {
    return m->integer ? exactBytes(m, host, frame, k, y, x) : exactFloats(m, host, frame, k, y, x);
}

/* ---- One block of the score map ----------------------------------------------------------------------------------------
 */

typedef struct Block {
    size_t y, x, rows, cols; /* of the score map */
} Block;

/* The usual case by itself, for the vectorizer; the numbers are those of match_range. */
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

/* Plane p of the block's part of the frame, shifted and filled up with zeros. */
static void loadPlane(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block, int p,
                      float *plane) {
    const size_t cols = block->cols + (size_t)m->w - 1, rows = block->rows + (size_t)m->h - 1;
    const size_t step = (size_t)host->fft_cols, pixel = cusTypeSize(frame->type);
    for (size_t y = 0; y < rows; ++y) {
        const char *row = rowOf(frame, block->y + y) + block->x * pixel;
        float *out = plane + y * step;
        if (p == m->channels)
            for (size_t x = 0; x < cols; ++x)
                out[x] = (float)squarePlane(m, row, x);
        else if (m->integer)
            shiftBytes((const uint8_t *)row + p, cols, (size_t)m->channels, (float)m->shift[p], out);
        else
            for (size_t x = 0; x < cols; ++x)
                out[x] = (float)(((const float *)row)[x] - m->shift[p]);
        memset(out + cols, 0, (step - cols) * sizeof(float));
    }
    memset(plane + rows * step, 0, ((size_t)host->fft_rows - rows) * step * sizeof(float));
}

/* What a masked correlation lacks by the shift: constants of the template. */
static double maskedConstant(const MatchModel *m, const MatchTemplate *t, const MatchHost *host) {
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

static void runBlockFft(const MatchModel *m, MatchHost *host, const cusMat *frame, const Block *block, Worker *worker) {
    const size_t spectrum = match_fft_spectrumFloats(host->fft_rows, host->fft_cols);
    for (int p = 0; p < m->planes; ++p) {
        loadPlane(m, host, frame, block, p, worker->plane);
        match_fft_forward(worker->fft, worker->plane, worker->spectra + (size_t)p * spectrum);
    }
    windowSums(m, frame, block->y, block->x, block->rows, block->cols, worker);
}

static void correlateFft(const MatchModel *m, MatchHost *host, int k, Worker *worker) {
    const size_t spectrum = match_fft_spectrumFloats(host->fft_rows, host->fft_cols);
    for (int p = 0; p < m->planes; ++p)
        match_fft_correlate(worker->fft, worker->spectra + (size_t)p * spectrum,
                            host->spectra + ((size_t)k * (size_t)m->planes + (size_t)p) * spectrum, worker->product, p > 0);
    match_fft_inverse(worker->fft, worker->product, worker->plane);
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

/* The channels of the block's part of the frame, each by itself. */
static void loadPlanar(const MatchModel *m, const cusMat *frame, const Block *block, uint8_t *planar) {
    const size_t cols = block->cols + (size_t)m->w - 1, rows = block->rows + (size_t)m->h - 1;
    const size_t channels = (size_t)m->channels, pixel = cusTypeSize(frame->type);
    for (size_t y = 0; y < rows; ++y) {
        const char *row = rowOf(frame, block->y + y) + block->x * pixel;
        if (channels == 1)
            memcpy(planar + y * cols * pixel, row, cols * pixel);
        else
            for (size_t c = 0; c < channels; ++c)
                for (size_t x = 0; x < cols; ++x)
                    planar[(y * channels + c) * cols + x] = (uint8_t)row[x * channels + c];
    }
}

static void correlateDirect(const MatchModel *m, const MatchHost *host, const Block *block, int k, size_t y,
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

static void runBlock(cusMatcher *matcher, const cusMat *frame, cusMat *scores, const MatchError *errors, const Block *block,
                     Worker *worker) {
    const MatchModel *m = &matcher->model;
    MatchHost *host = matcher->backend;
    const int fft = matcher->algorithm == CUS_MATCH_FFT;
    if (fft) {
        runBlockFft(m, host, frame, block, worker);
    } else if (!m->masked) {
        loadPlanar(m, frame, block, worker->planar);
        windowSums(m, frame, block->y, block->x, block->rows, block->cols, worker);
    }
    for (int k = 0; k < m->count; ++k) {
        const MatchTemplate *t = &host->sums[k];
        const double constant = m->masked ? maskedConstant(m, t, host) : 0;
        if (fft)
            correlateFft(m, host, k, worker);
        for (size_t y = 0; y < block->rows; ++y) {
            if (fft) {
                const float *plane = worker->plane + y * (size_t)host->fft_cols;
                for (size_t x = 0; x < block->cols; ++x)
                    worker->correlation[x] = (double)plane[x] + constant;
            } else if (m->masked) {
                for (size_t x = 0; x < block->cols; ++x)
                    worker->correlation[x] = exactScore(m, host, frame, k, block->y + y, block->x + x) -
                                             (m->method == CUS_MATCH_SQDIFF ? t->t2 : 0);
            } else {
                correlateDirect(m, host, block, k, y, worker);
            }
            const size_t position = (block->y + y) * (size_t)m->ocols + block->x;
            /* Without a score map the scores land in a buffer that has been used up. */
            float *score = scores ? (float *)((char *)scores[k].data + (block->y + y) * scores[k].step) + block->x
                                  : (float *)worker->sum32;
            assembleRow(m, t, errors[k], block, y, worker, score,
                        host->ranges + (size_t)k * (size_t)m->orows * (size_t)m->ocols + position);
        }
    }
}

/* ---- The best of a score map -------------------------------------------------------------------------------------------
 */

CUSI_MULTIVERSION
static float leastUpper(const MatchRange *ranges, size_t n) {
    float least = INFINITY;
    for (size_t i = 0; i < n; ++i)
        least = ranges[i].upper < least ? ranges[i].upper : least;
    return least;
}

static int isBetter(double cost, size_t position, Best best) {
    return cost < best.cost || (cost == best.cost && position < best.position);
}

/* Computes every position exactly whose range reaches below the least upper end of all. What cannot win any more, because
 * it starts above the best so far, or because that one is as good as a score can be and comes first, is left out. */
static Best findBest(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k) {
    const size_t rows = (size_t)m->orows, cols = (size_t)m->ocols;
    const MatchRange *map = host->ranges + (size_t)k * rows * cols;
    const double sign = match_smallestIsBest(m->method) ? 1 : -1;
    const double least = match_smallestIsBest(m->method) ? 0 : (m->method & 1) ? -1 : -INFINITY;
    float threshold = INFINITY;
    const double positions = (double)rows * (double)cols;
#pragma omp parallel for schedule(static) num_threads(threadsFor(host, positions)) reduction(min : threshold)
    for (size_t y = 0; y < rows; ++y) {
        const float row = leastUpper(map + y * cols, cols);
        threshold = row < threshold ? row : threshold;
    }
    Best best = {INFINITY, SIZE_MAX};
    if (threshold == INFINITY)
        return best;
    for (int t = 0; t < host->threads; ++t)
        host->workers[t].best = best;
    double bound = INFINITY; /* the cost of some position, seen by all threads */
#pragma omp parallel for schedule(dynamic, 1) num_threads(threadsFor(host, positions * m->n * m->channels))
    for (size_t y = 0; y < rows; ++y) {
        Best *const own = &thisWorker(host)->best;
        for (size_t position = y * cols; position < (y + 1) * cols; ++position) {
            if (!(map[position].lower <= threshold))
                continue;
            double known;
#pragma omp atomic read
            known = bound;
            if (map[position].lower > known || (own->cost <= least && own->position < position))
                continue;
            const double cost = sign * exactScore(m, host, frame, k, y, position - y * cols);
            if (isBetter(cost, position, *own))
                *own = (Best){cost, position};
            if (cost < known) {
#pragma omp atomic write
                bound = cost;
            }
        }
    }
    for (int t = 0; t < host->threads; ++t)
        if (isBetter(host->workers[t].best.cost, host->workers[t].best.position, best))
            best = host->workers[t].best;
    return best;
}

static void subpixel(const MatchModel *m, const MatchRange *map, cusMatch *match) {
    const MatchRange *at_best = map + (size_t)match->y * (size_t)m->ocols + (size_t)match->x;
    const float middle = match_middle(*at_best);
    if (match->x > 0 && match->x + 1 < m->ocols)
        match->dx = match_vertex(match_middle(at_best[-1]), middle, match_middle(at_best[1]));
    if (match->y > 0 && match->y + 1 < m->orows)
        match->dy = match_vertex(match_middle(at_best[-m->ocols]), middle, match_middle(at_best[m->ocols]));
}

static void suppress(const MatchModel *m, MatchRange *map, const cusMatch *match) {
    const int64_t d = m->min_distance - 1;
    const int64_t y0 = match->y - d > 0 ? match->y - d : 0, x0 = match->x - d > 0 ? match->x - d : 0;
    const int64_t y1 = match->y + d < m->orows - 1 ? match->y + d : m->orows - 1;
    const int64_t x1 = match->x + d < m->ocols - 1 ? match->x + d : m->ocols - 1;
    for (int64_t y = y0; y <= y1; ++y)
        for (int64_t x = x0; x <= x1; ++x)
            map[y * m->ocols + x] = (MatchRange){INFINITY, INFINITY};
}

static void findMatches(const cusMatcher *matcher, const cusMat *frame, int k) {
    const MatchModel *m = &matcher->model;
    const MatchHost *host = matcher->backend;
    MatchRange *map = host->ranges + (size_t)k * (size_t)m->orows * (size_t)m->ocols;
    cusMatch *out = (cusMatch *)((char *)matcher->results.data + (size_t)k * matcher->results.step);
    int end = 0;
    for (int i = 0; i < m->max_matches; ++i) {
        out[i] = (cusMatch){.x = -1, .y = -1, .score = NAN, .filled = -1};
        if (end)
            continue;
        const Best best = findBest(m, host, frame, k);
        end = best.position == SIZE_MAX || best.cost > m->limit_cost;
        if (end)
            continue;
        out[i].x = (int32_t)(best.position % (size_t)m->ocols);
        out[i].y = (int32_t)(best.position / (size_t)m->ocols);
        out[i].score = match_smallestIsBest(m->method) ? best.cost : 0 - best.cost;
        if (m->subpixel)
            subpixel(m, map, &out[i]);
        if (m->max_matches > 1)
            suppress(m, map, &out[i]);
    }
}

cusStatus match_host_run(cusMatcher *matcher, const cusMat *frame, cusMat *scores) {
    const MatchModel *m = &matcher->model;
    MatchHost *host = matcher->backend;
    double energy[MATCH_MAX_PLANES] = {0, 0, 0, 0}, total = 0;
    if (m->error > 0)
        frameEnergy(m, frame, threadsFor(host, (double)m->rows * m->cols * m->channels), energy);
    for (int c = 0; c < m->channels; ++c)
        total += energy[c];
    if (!m->integer && !(total < MATCH_MAX_ENERGY)) {
        for (int k = 0; k < m->count; ++k) {
            for (int i = 0; i < m->max_matches; ++i)
                ((cusMatch *)((char *)matcher->results.data + (size_t)k * matcher->results.step))[i] =
                    (cusMatch){.x = -1, .y = -1, .score = NAN, .filled = -1};
            for (int y = 0; scores && y < m->orows; ++y)
                for (int x = 0; x < m->ocols; ++x)
                    ((float *)((char *)scores[k].data + (size_t)y * scores[k].step))[x] = NAN;
        }
        return CUS_OK;
    }
    MatchError errors[1024];
    for (int k = 0; k < m->count; ++k)
        errors[k] = match_error(m, &host->sums[k], energy);

    const int64_t down = (m->orows + host->block_rows - 1) / host->block_rows;
    const int64_t across = (m->ocols + host->block_cols - 1) / host->block_cols;
    const int threads = threadsFor(host, (double)m->orows * m->ocols * m->n * m->channels * m->count);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t i = 0; i < down * across; ++i) {
        Block block = {.y = (size_t)(i / across * host->block_rows), .x = (size_t)(i % across * host->block_cols)};
        const size_t rows = (size_t)m->orows - block.y, cols = (size_t)m->ocols - block.x;
        block.rows = rows < (size_t)host->block_rows ? rows : (size_t)host->block_rows;
        block.cols = cols < (size_t)host->block_cols ? cols : (size_t)host->block_cols;
        runBlock(matcher, frame, scores, errors, &block, thisWorker(host));
    }
    for (int k = 0; k < m->count; ++k)
        findMatches(matcher, frame, k);
    return CUS_OK;
}

cusStatus match_host_inspect(cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill) {
    const MatchModel *m = &matcher->model;
    for (int k = 0; k < m->count; ++k) {
        cusMatch *matches = (cusMatch *)((char *)matcher->results.data + (size_t)k * matcher->results.step);
        for (int i = 0; i < m->max_matches && matches[i].x >= 0; ++i) {
            cusMat window = CUS_MAT_INIT;
            CUS_TRY(cusMatRegion(frame, matches[i].x, matches[i].y, m->w, m->h, &window));
            uint32_t pixels = 0;
            cusMat count = CUS_MAT_INIT;
            CUS_TRY(cusMatWrap(&count, 1, 1, CUS_32SC1, CUS_HOST, &pixels, 0));
            CUS_TRY(cusHsvCount(&window, range, &count, NULL, NULL));
            matches[i].pixels = pixels;
            matches[i].filled = matches[i].pixels >= min_fill * m->n;
        }
    }
    return CUS_OK;
}
