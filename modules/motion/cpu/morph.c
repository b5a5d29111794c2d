/* Erosion and dilation on the CPU: 64 pixels a word, first along rows, then across them. */
#include "host.h"
#include "motion/cpu/stages.h"

#include <string.h>

/* Combines each pixel with its `radius` neighbors on either side. Pixels outside of the row are `border`: all ones to erode,
 * zeros to dilate. Returns whether a bit of the result is set. */
CUSI_MULTIVERSION
static int combineRow(const uint64_t *row, uint64_t *restrict out, size_t words, int cols, int radius, uint64_t border) {
    const uint64_t past = cols % 64 ? UINT64_MAX << cols % 64 : 0; /* bits of the last word outside of the row */
    uint64_t any = 0;
    for (size_t i = 0; i < words; ++i) {
        const uint64_t before = i > 0 ? row[i - 1] : border;
        const uint64_t here = i + 1 < words ? row[i] : row[i] | (past & border);
        const uint64_t after = i + 2 < words ? row[i + 1] : i + 2 == words ? row[i + 1] | (past & border) : border;
        uint64_t all = here, some = here;
        for (int k = 1; k <= radius; ++k) {
            const uint64_t left = here << k | before >> (64 - k), right = here >> k | after << (64 - k);
            all &= left & right;
            some |= left | right;
        }
        out[i] = (border ? all : some) & (i + 1 < words ? UINT64_MAX : ~past);
        any |= out[i];
    }
    return any != 0;
}

static void erode(uint64_t *restrict out, const uint64_t *row, size_t words) {
    for (size_t i = 0; i < words; ++i)
        out[i] &= row[i];
}

static void dilate(uint64_t *restrict out, const uint64_t *row, size_t words) {
    for (size_t i = 0; i < words; ++i)
        out[i] |= row[i];
}

/* Combines each row of `in` with its `radius` neighbors above and below. */
static void combineRows(const uint64_t *in, const uint8_t *set, uint64_t *out, size_t words, int rows, int radius,
                        int erodes) {
    for (int y = 0; y < rows; ++y) {
        uint64_t *const row = out + (size_t)y * words;
        const int low = y > radius ? y - radius : 0, high = y + radius < rows ? y + radius : rows - 1;
        int kept = 0, neighbors = 0;
        for (int k = low; k <= high; ++k)
            neighbors += set[k];
        if (erodes ? neighbors < high - low + 1 : neighbors == 0) {
            memset(row, 0, words * sizeof *row);
            continue;
        }
        for (int k = low; k <= high; ++k) {
            if (!set[k])
                continue;
            if (!kept++)
                memcpy(row, in + (size_t)k * words, words * sizeof *row);
            else
                (erodes ? erode : dilate)(row, in + (size_t)k * words, words);
        }
    }
}

static void combine(const MotionModel *model, const uint64_t *in, uint64_t *out, MotionWorkspace *workspace, int radius,
                    int erodes) {
    const size_t words = motionWords(model);
    for (size_t y = 0; y < (size_t)model->rows; ++y)
        workspace->set[y] = (uint8_t)combineRow(in + y * words, workspace->rows + y * words, words, model->cols, radius,
                                                erodes ? UINT64_MAX : 0);
    combineRows(workspace->rows, workspace->set, out, words, model->rows, radius, erodes);
}

void motion_host_morph(const MotionModel *model, const MotionPlanes *planes, MotionWorkspace *workspace) {
    const uint64_t *mask = planes->moving;
    if (model->options.erode > 0) {
        combine(model, mask, planes->mask, workspace, model->options.erode, 1);
        mask = planes->mask;
    }
    if (model->options.dilate > 0)
        combine(model, mask, planes->mask, workspace, model->options.dilate, 0);
    else if (mask != planes->mask)
        memcpy(planes->mask, mask, motionWords(model) * (size_t)model->rows * sizeof *mask);
}
