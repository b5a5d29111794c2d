/* Erosion and dilation on the CPU: 64 pixels a word, first along rows, then across them. */
#include "host.h"
#include "motion/cpu/stages.h"

#include <string.h>

/* Combines each pixel with its `radius` neighbors on either side. Pixels outside the row are `border`: all ones to erode,
 * zeros to dilate. Returns whether a bit of the result is set. Does not write the result of a row without bits. */
CUSI_MULTIVERSION
static int combineRow(const uint64_t *row, uint64_t *restrict out, size_t words, int cols, int radius, uint64_t border) {
    uint64_t any = 0;
    for (size_t i = 0; i < words; ++i)
        any |= row[i];
    if (!any)
        return 0;
    const uint64_t past = cols % 64 ? UINT64_MAX << cols % 64 : 0; /* bits of the last word outside the row */
    any = 0;
    for (size_t i = 0; i < words; ++i) {
        const uint64_t bits = row[i];
        out[i] = 0;
        if (!(border ? bits : bits | (i > 0 ? row[i - 1] : 0) | (i + 1 < words ? row[i + 1] : 0)))
            continue;
        const uint64_t before = i > 0 ? row[i - 1] : border;
        const uint64_t here = i + 1 < words ? bits : bits | (past & border);
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

/* Combines each row of `in` with its `radius` neighbors above and below; `set` says which rows have a bit. */
CUSI_MULTIVERSION
static void combineRows(const uint64_t *in, const uint8_t *set, uint64_t *restrict out, size_t words, int rows, int radius,
                        int erodes) {
    int neighbors = 0; /* rows with a bit among those that are combined */
    for (int k = 0; k < radius && k < rows; ++k)
        neighbors += set[k];
    for (int y = 0; y < rows; ++y) {
        uint64_t *const row = out + (size_t)y * words;
        const int low = y > radius ? y - radius : 0, high = y + radius < rows ? y + radius : rows - 1;
        neighbors += y + radius < rows ? set[y + radius] : 0;
        neighbors -= y > radius ? set[y - radius - 1] : 0;
        for (size_t i = 0; i < words; ++i)
            row[i] = 0;
        if (erodes ? neighbors < high - low + 1 : neighbors == 0)
            continue;
        for (int k = low; k <= high; ++k) {
            const uint64_t *const from = in + (size_t)k * words;
            if (!set[k])
                continue;
            if (erodes && k > low)
                for (size_t i = 0; i < words; ++i)
                    row[i] &= from[i];
            else
                for (size_t i = 0; i < words; ++i)
                    row[i] |= from[i];
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
