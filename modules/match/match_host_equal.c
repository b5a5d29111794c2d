/* match on the CPU: 32F windows with the same pixels. Their scores are equal bit for bit, so one of them is computed: flat and
 * periodic frames would cost as much as the direct algorithm otherwise. Equal windows are found by counting equal pixels: the
 * window at x equals the one at x + p if all its pixels equal those p to their right. */
#include "check.h"
#include "host.h"
#include "match_host.h"

#include <string.h>

enum { MAX_PERIOD = 64, SAMPLES = 16 };

static float valueAt(const cusMat *frame, size_t y, size_t x) {
    return ((const float *)match_row(frame, y))[x];
}

/* The shift within `length` pixels of a line under which most of some sample lines' pixels stay the same. */
static size_t findPeriod(const cusMat *frame, int down) {
    const size_t length = (size_t)(down ? frame->rows : frame->cols), lines = (size_t)(down ? frame->cols : frame->rows);
    size_t best = 1, most = 0;
    for (size_t p = 1; p <= MAX_PERIOD && p < length; ++p) {
        size_t equal = 0;
        for (size_t i = 0; i < SAMPLES; ++i) {
            const size_t line = lines * i / SAMPLES;
            for (size_t at = 0; at + MAX_PERIOD < length; ++at)
                equal += down ? valueAt(frame, at, line) == valueAt(frame, at + p, line)
                              : valueAt(frame, line, at) == valueAt(frame, line, at + p);
        }
        if (equal > most) {
            most = equal;
            best = p;
        }
    }
    return best;
}

CUSI_MULTIVERSION
static void countEqual(const float *a, const float *b, size_t n, uint32_t step, uint32_t *restrict counts) {
    for (size_t x = 0; x < n; ++x)
        counts[x] += a[x] == b[x] ? step : 0;
}

/* Adds (step 1) or takes away (step -1) the equal pixels among n of row y, from x on, and the pixels (down, right) of them. */
static void countRow(const cusMat *frame, size_t y, size_t x, size_t down, size_t right, size_t n, uint32_t step,
                     uint32_t *counts) {
    countEqual((const float *)match_row(frame, y) + x, (const float *)match_row(frame, y + down) + x + right, n, step,
               counts);
}

/* For each window in a rectangle of the score map that equals the one (down, right) of it: first[that one] becomes first[window]. */
static void linkRectangle(const MatchModel *m, MatchHost *host, const cusMat *frame, size_t down, size_t right,
                          const Block *block, uint32_t *counts) {
    const size_t w = (size_t)m->w, h = (size_t)m->h, n = block->cols + w - 1, ocols = (size_t)m->ocols;
    const uint64_t all = (uint64_t)w * h;
    memset(counts, 0, n * sizeof *counts);
    for (size_t y = block->y; y < block->y + h - 1; ++y)
        countRow(frame, y, block->x, down, right, n, 1, counts);
    for (size_t y = block->y; y < block->y + block->rows; ++y) {
        countRow(frame, y + h - 1, block->x, down, right, n, 1, counts);
        uint64_t equal = 0;
        for (size_t x = 0; x + 1 < w; ++x)
            equal += counts[x];
        for (size_t x = 0; x < block->cols; ++x) {
            equal += counts[x + w - 1];
            const size_t position = y * ocols + block->x + x, other = position + down * ocols + right;
            if (equal == all && host->first[position] < host->first[other])
                host->first[other] = host->first[position];
            equal -= counts[x];
        }
        countRow(frame, y, block->x, down, right, n, (uint32_t)-1, counts);
    }
}

/* Of the whole map. Links run along rows or along columns, so threads share rows or columns. */
static void linkEqual(const MatchModel *m, MatchHost *host, const cusMat *frame, size_t down, size_t right) {
    if ((size_t)m->orows <= down || (size_t)m->ocols <= right)
        return;
    const size_t rows = (size_t)m->orows - down, cols = (size_t)m->ocols - right;
    const int threads = match_threadsFor(host, (double)rows * (double)cols);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int i = 0; i < threads; ++i) {
        const size_t t = (size_t)i, all = (size_t)threads;
        Block part = {.y = 0, .x = 0, .rows = rows, .cols = cols};
        if (down)
            part.x = cols * t / all, part.cols = cols * (t + 1) / all - part.x;
        else
            part.y = rows * t / all, part.rows = rows * (t + 1) / all - part.y;
        if (part.rows && part.cols)
            linkRectangle(m, host, frame, down, right, &part, host->counts + t * (size_t)m->cols);
    }
}

void match_findEqualWindows(const MatchModel *m, MatchHost *host, const cusMat *frame) {
    const size_t map = (size_t)m->orows * (size_t)m->ocols;
    for (size_t i = 0; i < map; ++i)
        host->first[i] = (uint32_t)i;
    linkEqual(m, host, frame, 0, findPeriod(frame, 0));
    linkEqual(m, host, frame, findPeriod(frame, 1), 0);
    /* The second pass links the first windows of rows; a link to a window that has been linked itself since is followed. */
    for (size_t i = 0; i < map; ++i)
        host->first[i] = host->first[host->first[i]];
}
