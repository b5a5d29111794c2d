/* The direct algorithm correlates bytes by dot products (dots/). The model's shift, MATCH_DOTS_SHIFT, turns the templates'
 * pixels into signed bytes. */
#include "check.h"
#include "match/cpu/state.h"

#include <stdlib.h>
#include <string.h>

/* Measured (docs/internals/match.md): nanoseconds to pack a pixel, and score rows of a block for each thread. */
#define TUNING_PACK_NS 0.3
enum { TUNING_ROWS = 64 };

/* Returns the number of whole pixels that fit a word. */
static size_t pixelsOfWord(const MatchModel *m) {
    return 4 / (size_t)m->channels;
}
static size_t roundUp(size_t n, size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}
static size_t tapsAcross(const MatchModel *m, const MatchDots *dots) {
    return roundUp(((size_t)m->w - 1) / pixelsOfWord(m) + 1, dots->words);
}

double match_dotsNs(const MatchModel *m) {
    const MatchDots *dots = match_dots_kernels(0);
    const double taps = (double)(tapsAcross(m, dots) * ((size_t)m->h + dots->zeros));
    return (dots->ns * taps * m->count + TUNING_PACK_NS) * m->orows * m->ocols;
}

void match_planDots(const MatchModel *m, MatchHost *host) {
    host->down = (m->orows - 1) / (TUNING_ROWS * host->threads) + 1;
    host->block_rows = (int)((m->orows + host->down - 1) / host->down);
    host->down = (m->orows - 1) / host->block_rows + 1;
    host->across = 1;
    host->block_cols = m->ocols;
    host->dots = match_dots_kernels(0);
    host->pass_ns = match_dotsNs(m) / m->count;
    host->taps_across = tapsAcross(m, host->dots);
    host->taps_size = ((size_t)m->h + 2 * host->dots->zeros) * host->taps_across;
    host->sums_cols = roundUp((size_t)m->ocols, MATCH_DOTS_COLS);
    host->packed_cols = host->sums_cols + 4 * host->taps_across;
}

void match_packTemplates(const MatchModel *m, MatchHost *host) {
    const size_t row = (size_t)m->w * (size_t)m->channels, h = (size_t)m->h, count = (size_t)m->templates;
    memset(host->taps, 0, count * host->taps_size * sizeof *host->taps);
    for (size_t i = 0; i < count * h * row; ++i) {
        const size_t x = i % row, y = i / row % h + host->dots->zeros;
        const size_t at = m->channels == 3 ? x / 3 * 4 + x % 3 : x;
        host->taps[i / row / h * host->taps_size + y * host->taps_across + at / 4] |=
            (uint32_t)((uint8_t)host->templates[i] ^ MATCH_DOTS_SHIFT) << 8 * (at % 4);
    }
}

static inline void packWords(size_t stride, const uint8_t *row, size_t n, uint32_t *restrict out) {
    for (size_t x = 0; x < n; ++x, row += stride)
        out[x] = row[0] | (uint32_t)row[1] << 8 | (uint32_t)row[2] << 16 | (uint32_t)row[3] << 24;
}

/* Packs the four bytes from each pixel on, as far as the row has them. With three channels the fourth has a tap of zero. */
CUSI_MULTIVERSION
static void packRow(const uint8_t *row, size_t cols, size_t channels, uint32_t *out) {
    const size_t bytes = cols * channels, whole = bytes < 4 ? 0 : (bytes - 4) / channels + 1;
    if (channels == 1)
        packWords(1, row, whole, out);
    else if (channels == 3)
        packWords(3, row, whole, out);
    else
        packWords(channels, row, whole, out);
    memset(out + whole, 0, (cols - whole) * sizeof *out);
    for (size_t x = whole; x < cols; ++x)
        for (size_t i = x * channels; i < bytes; ++i)
            out[x] |= (uint32_t)row[i] << 8 * (i - x * channels);
}

void match_packBlock(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block) {
#pragma omp parallel for schedule(static) num_threads(host->threads) if (host->threads > 1)
    for (size_t y = 0; y < block->rows + (size_t)m->h - 1; ++y)
        packRow((const uint8_t *)match_row(frame, block->y + y), (size_t)m->cols, (size_t)m->channels,
                host->packed + y * host->packed_cols);
}

/* Widens n sums to double. */
CUSI_MULTIVERSION
static void widen(const int32_t *in, size_t n, double *restrict out) {
    for (size_t x = 0; x < n; ++x)
        out[x] = in[x];
}

void match_dotRow(const MatchModel *m, const MatchHost *host, const Block *block, int k, size_t y, double *out) {
    const MatchDots *dots = host->dots;
    const double *t1 = host->sums[k].t1;
    int32_t *sums = host->dot_sums + match_thisThread() * dots->rows * host->sums_cols;
    if (y % dots->rows == 0)
        dots->correlate(host->packed + y * host->packed_cols, host->packed_cols, host->taps + (size_t)k * host->taps_size,
                        host->taps_across, pixelsOfWord(m), (size_t)m->h,
                        (int32_t)(-MATCH_DOTS_SHIFT * (t1[0] + t1[1] + t1[2] + t1[3])), host->sums_cols, sums,
                        host->sums_cols);
    widen(sums + y % dots->rows * host->sums_cols, block->cols, out);
}
