/* Planes of frame and templates, energy of the frame, and sums over the windows of a block. */
#include "match/cpu/state.h"

#include <string.h>

/* ---- Planes ---------------------------------------------------------------------------------------------------------- */

double match_templatePlane(const MatchModel *m, const MatchHost *host, int k, int c, size_t pixel) {
    const size_t channels = (size_t)m->channels, i = pixel * channels + (size_t)c % channels;
    const double weight = match_weight(host->mask, i);
    const char *pixels = host->templates + (size_t)k * host->template_bytes;
    return c < m->channels && weight != 0 ? weight * (match_element(pixels, m->integer, i) - host->sums[k].shift[c])
                                          : weight;
}

/* Calls `function` with a stride that the compiler knows, for gray and color. */
#define WITH_STRIDE(stride, function, ...)   \
    do {                                     \
        if ((stride) == 1)                   \
            function(1, __VA_ARGS__);        \
        else if ((stride) == 3)              \
            function(3, __VA_ARGS__);        \
        else                                 \
            function((stride), __VA_ARGS__); \
    } while (0)

static inline void sumBytes(size_t stride, const uint8_t *row, size_t n, uint64_t *sum, uint64_t *square) {
    enum { AT_ONCE = 32768 }; /* this many squares fit a 32-bit sum */
    for (size_t x = 0; x < n; x += AT_ONCE) {
        const size_t end = n - x < AT_ONCE ? n : x + AT_ONCE;
        uint32_t s = 0, q = 0;
        for (size_t i = x; i < end; ++i) {
            s += row[stride * i];
            q += (uint32_t)row[stride * i] * row[stride * i];
        }
        *sum += s;
        *square += q;
    }
}

CUSI_MULTIVERSION
void match_sumBytes(const uint8_t *row, size_t n, size_t stride, uint64_t *sum, uint64_t *square) {
    WITH_STRIDE(stride, sumBytes, row, n, sum, square);
}

static double squareAt(const MatchModel *m, const double *shift, const void *row, size_t x) {
    double sum = 0;
    for (int c = 0; c < m->channels; ++c) {
        const double v = match_element(row, m->integer, x * (size_t)m->channels + (size_t)c) - shift[c];
        sum += v * v;
    }
    return sum;
}

#define SHIFT_BYTES(name, type)                                                                       \
    static inline void name##At(size_t stride, const uint8_t *row, size_t n, type shift, type *out) { \
        for (size_t x = 0; x < n; ++x)                                                                \
            out[x] = (type)row[stride * x] - shift;                                                   \
    }                                                                                                 \
    CUSI_MULTIVERSION                                                                                 \
    static void name(const uint8_t *row, size_t n, size_t stride, type shift, type *out) {            \
        WITH_STRIDE(stride, name##At, row, n, shift, out);                                            \
    }
SHIFT_BYTES(shiftBytes32, float)
SHIFT_BYTES(shiftBytes64, double)

/* Loads row y of plane p under the block, padded with zeros: a shifted channel, in float divided by host->unit. Plane
 * m->channels has the sums of squares; with weights, this and the following planes have the squares of each channel. */
static void loadRow(const MatchModel *m, const MatchHost *host, const MatchFft *fft, const cusMat *frame,
                    const Block *block, int p, size_t y, void *out) {
    const double *shift = host->shift;
    const size_t element = fft->kernels->element, channels = (size_t)m->channels;
    const size_t cols = y < block->rows + (size_t)m->h - 1 ? block->cols + (size_t)m->w - 1 : 0;
    memset((char *)out + cols * element, 0, ((size_t)fft->cols - cols) * element);
    if (cols == 0)
        return;
    const char *row = match_row(frame, block->y + y) + block->x * cusTypeSize(frame->type);
    if (p >= m->channels && m->weighted)
        for (size_t x = 0; x < cols; ++x) {
            const double v = ((const float *)row)[x * channels + (size_t)p - channels];
            match_fft_put(out, x, element, v * v);
        }
    else if (p == m->channels)
        for (size_t x = 0; x < cols; ++x)
            match_fft_put(out, x, element, squareAt(m, shift, row, x));
    else if (!m->integer) {
        const double scale = element == sizeof(float) ? 1 / host->unit : 1;
        for (size_t x = 0; x < cols; ++x)
            match_fft_put(out, x, element, (((const float *)row)[x * channels + (size_t)p] - shift[p]) * scale);
    } else if (element == sizeof(float))
        shiftBytes32((const uint8_t *)row + p, cols, channels, (float)shift[p], out);
    else
        shiftBytes64((const uint8_t *)row + p, cols, channels, shift[p], out);
}

static void transformPlane(const MatchModel *m, const MatchHost *host, const MatchFft *fft, const cusMat *frame,
                           const Block *block, int p, void *plane, void *spectrum) {
    const size_t step = (size_t)fft->cols * fft->kernels->element;
#pragma omp parallel for schedule(static) num_threads(fft->threads) if (fft->threads > 1)
    for (int y = 0; y < fft->filled; ++y)
        loadRow(m, host, fft, frame, block, p, (size_t)y, (char *)plane + (size_t)y * step);
    match_fft_forward(fft, plane, spectrum);
}

void match_transformBlock(const MatchModel *m, const MatchHost *host, const MatchFft *fft, const cusMat *frame,
                          const Block *block, void *plane, void *spectra) {
    const size_t bytes = match_fft_spectrumSize(fft) * fft->kernels->element;
    for (int c = 0; c < m->channels && !cusi_step(host->progress, 0); ++c)
        transformPlane(m, host, fft, frame, block, c, plane, (char *)spectra + (size_t)c * bytes);
}

/* ---- Energy of the shifted channels ---------------------------------------------------------------------------------- */

static void rowEnergy(const MatchModel *m, const double *shift, const void *row, double *energy) {
    const size_t cols = (size_t)m->cols, channels = (size_t)m->channels;
    for (int c = 0; c < m->channels; ++c) {
        if (m->integer) {
            uint64_t sum = 0, square = 0;
            match_sumBytes((const uint8_t *)row + c, cols, channels, &sum, &square);
            energy[c] += (double)square - 2 * shift[c] * (double)sum + shift[c] * shift[c] * m->cols;
        } else {
            for (size_t x = 0; x < cols; ++x) {
                const double v = ((const float *)row)[x * channels + (size_t)c] - shift[c];
                energy[c] += v * v;
            }
        }
    }
}

void match_chooseFrameShift(const MatchModel *m, const cusMat *frame, double *shift) {
    const size_t pixels = (size_t)m->rows * (size_t)m->cols, channels = (size_t)m->channels;
    for (size_t c = 0; c < channels; ++c) {
        double sum = 0;
        int integers = 1;
        for (size_t i = 0; i < MATCH_SAMPLES; ++i) {
            const size_t at = pixels * i / MATCH_SAMPLES, x = at % (size_t)m->cols;
            const double v = ((const float *)match_row(frame, at / (size_t)m->cols))[x * channels + c];
            sum += v;
            integers &= v == rint(v);
        }
        const double mean = match_shiftOf(sum / MATCH_SAMPLES, integers);
        shift[c] = isfinite(mean) ? mean : 0;
    }
}

void match_frameEnergy(const MatchModel *m, const double *shift, const cusMat *frame, int threads, double *energy) {
    double sums[MATCH_MAX_CHANNELS] = {0};
    (void)threads;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : sums)
    for (int y = 0; y < m->rows; ++y)
        rowEnergy(m, shift, match_row(frame, (size_t)y), sums);
    memcpy(energy, sums, sizeof sums);
}

/* ---- Window sums: sums of h pixels move down each column, sums of w of those move along each row --------------------- */

static inline void moveBytes(size_t stride, const uint8_t *in, const uint8_t *out, size_t n, int shift,
                             double *restrict column1, double *restrict column2) {
    for (size_t x = 0; column1 && x < n; ++x)
        column1[x] += in[x * stride] - (out ? out[x * stride] : shift);
    for (size_t x = 0; column2 && x < n; ++x) {
        const int a = in[x * stride] - shift, b = out ? out[x * stride] - shift : 0;
        column2[x] += a * a - b * b;
    }
}

CUSI_MULTIVERSION
static void moveColumnsBytes(const uint8_t *in, const uint8_t *out, size_t n, size_t stride, double shift, double *column1,
                             double *column2) {
    WITH_STRIDE(stride, moveBytes, in, out, n, (int)shift, column1, column2);
}

static void moveColumns(const MatchModel *m, const double *shift, const char *in, const char *out, size_t n, int c,
                        double *column1, double *column2) {
    if (m->integer) {
        moveColumnsBytes((const uint8_t *)in + c, out ? (const uint8_t *)out + c : NULL, n, (size_t)m->channels, shift[c],
                         m->needs_s1 ? column1 : NULL, m->needs_s2 ? column2 : NULL);
        return;
    }
    const size_t channels = (size_t)m->channels, at = (size_t)c;
    for (size_t x = 0; x < n; ++x) {
        const double a = ((const float *)in)[x * channels + at] - shift[c],
                     b = out ? ((const float *)out)[x * channels + at] - shift[c] : 0;
        column1[x] += a - b;
        column2[x] += a * a - b * b;
    }
}

/* Computes out[x] = column[x] + ... + column[x + w - 1]; doubles hold the integers exactly. Four parts of the row run side
 * by side, since each sum waits for the one before. */
static void slide(const double *column, size_t n, size_t w, double *restrict out) {
    enum { PARTS = 4 };
    const size_t part = (n - 1) / PARTS + 1, last = n - part;
    const size_t start[PARTS] = {0, part < last ? part : last, 2 * part < last ? 2 * part : last, last};
    double sum[PARTS] = {0, 0, 0, 0};
    for (size_t x = 0; x < w; ++x)
        for (size_t i = 0; i < PARTS; ++i)
            sum[i] += column[start[i] + x];
    for (size_t x = 0; x < part; ++x)
        for (size_t i = 0; i < PARTS; ++i) {
            const double *at = column + start[i] + x;
            out[start[i] + x] = sum[i];
            sum[i] += x + 1 < part ? at[w] - at[0] : 0;
        }
}

void match_rowSums(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block, size_t first,
                   size_t y) {
    const size_t cols = block->cols, w = (size_t)m->w, h = (size_t)m->h, channels = (size_t)m->channels, n = cols + w - 1;
    const size_t left = block->x * cusTypeSize(frame->type), thread = match_thisThread();
    if (m->masked || (!m->needs_s1 && !m->needs_s2))
        return;
    double *column1 = host->column1 + thread * n * channels, *column2 = host->column2 + thread * n;
    if (y == first) {
        memset(column1, 0, n * channels * sizeof(double));
        memset(column2, 0, n * sizeof(double));
    }
    for (size_t j = y == first ? y : y + h - 1; j < y + h && !cusi_step(host->progress, 0); ++j) {
        const char *in = match_row(frame, block->y + j) + left;
        const char *out = y > first ? match_row(frame, block->y + y - 1) + left : NULL;
        for (int c = 0; c < m->channels; ++c)
            moveColumns(m, host->shift, in, out, n, c, column1 + (size_t)c * n, column2);
    }
    const size_t row = match_sumsRow(m, host, y);
    for (size_t c = 0; m->needs_s1 && c < channels; ++c)
        slide(column1 + c * n, cols, w, host->s1 + (c * host->sums_rows + row) * cols);
    if (m->needs_s2)
        slide(column2, cols, w, host->s2 + row * cols);
}

/* Correlates with the mask in double, and rounds sums of bytes, which are integers. With weights, the squares of each
 * channel are correlated with its own. */
void match_maskedSums(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block) {
    if (!m->masked)
        return;
    const size_t rows = block->rows, cols = block->cols, spectrum = match_fft_spectrumSize(host->fft64);
    for (int p = m->needs_s1 ? 0 : m->channels; p < m->channels + m->needs_s2; ++p) {
        double *out = p < m->channels ? host->s1 + (size_t)p * host->sums_rows * cols : host->s2;
        const int together = m->weighted ? m->channels : 1;
        for (int c = 0; c < together && !cusi_step(host->progress, 0); ++c)
            transformPlane(m, host, host->fft64, frame, block, p + c, host->plane64, host->planes64 + (size_t)c * spectrum);
        match_fft_correlateAll(host->fft64, host->planes64, host->mask_spectra64, together, host->planes64, host->plane64);
#pragma omp parallel for schedule(static) num_threads(host->threads) if (host->threads > 1)
        for (size_t y = 0; y < rows; ++y)
            for (size_t x = 0; x < cols; ++x) {
                const double sum = host->plane64[y * (size_t)host->fft_cols + x];
                out[y * cols + x] = m->integer ? rint(sum) : sum;
            }
    }
}
