/* Computes the means of all blocks of the frame. */
#include "pose/cpu/state.h"

#include <stdlib.h>
#include <string.h>

/* Adds row `in` to the sums of columns and subtracts row `out`. */
CUSI_MULTIVERSION
static void slide(uint32_t *sums, const uint8_t *in, const uint8_t *out, int cols) {
    if (out)
        for (int x = 0; x < cols; ++x)
            sums[x] += (uint32_t)in[x] - out[x];
    else
        for (int x = 0; x < cols; ++x)
            sums[x] += in[x];
}

/* Extends the cells' ranges by the means of blocks that begin in a row. high: NULL for cells of one position. */
static void addRow(const PoseLevel *p, const uint32_t *sums, int positions, int16_t *low, int16_t *high) {
    const uint32_t area = (uint32_t)(p->block * p->block);
    uint32_t sum = 0;
    for (int x = 0; x < p->block; ++x)
        sum += sums[x];
    for (int x = 0; x < positions; ++x) {
        const int16_t down = (int16_t)(sum * POSE_UNIT / area);
        if (!high) {
            low[x] = down;
        } else {
            const int at = x / p->cell;
            low[at] = down < low[at] ? down : low[at];
            high[at] = down + 1 > high[at] ? (int16_t)(down + 1) : high[at];
        }
        if (x + 1 < positions)
            sum += sums[x + p->block] - sums[x];
    }
}

static const uint8_t *rowOf(const cusMat *frame, int y) {
    return (const uint8_t *)frame->data + (size_t)y * frame->step;
}

static void fillRows(const PoseLevel *p, const PosePlane *plane, const cusMat *frame, uint32_t *sums, int first, int last,
                     CusiProgress *progress) {
    const int positions = frame->rows - p->block + 1;
    memset(sums, 0, (size_t)frame->cols * sizeof *sums);
    for (int y = first * p->cell; y < first * p->cell + p->block - 1; ++y)
        slide(sums, rowOf(frame, y), NULL, frame->cols);
    for (int y = first * p->cell; y < last * p->cell && y < positions && !cusi_step(progress, 0); ++y) {
        slide(sums, rowOf(frame, y + p->block - 1), y > first * p->cell ? rowOf(frame, y - 1) : NULL, frame->cols);
        addRow(p, sums, frame->cols - p->block + 1, plane->low + (size_t)(y / p->cell) * p->step,
               plane->high ? plane->high + (size_t)(y / p->cell) * p->step : NULL);
    }
}

void pose_fillPlane(const PoseLevel *p, const PosePlane *plane, const cusMat *frame, uint32_t *sums, int threads) {
    const size_t all = (size_t)p->rows * p->step;
    for (size_t i = 0; plane->high && i < all; ++i) {
        plane->low[i] = 255 * POSE_UNIT;
        plane->high[i] = 0;
    }
    const int share = p->rows / threads + 1;
    CusiProgress *const progress = cusi_progress();
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int t = 0; t < threads; ++t) {
        const int first = t * share, last = first + share < p->rows ? first + share : p->rows;
        if (first < last)
            fillRows(p, plane, frame, sums + (size_t)t * (size_t)frame->cols, first, last, progress);
    }
}
