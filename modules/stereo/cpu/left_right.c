/* Left-right check: an elevation stays where the pixel it maps to in the right image maps back to nearly the same place. */
#include "stereo/cpu/rows.h"

#include <string.h>

/* Checks n columns of a row from column x on. near: the right image's row from column x - (shifts - 1) on. */
static void checkPart(uint16_t *row, const uint16_t *near, int n, const cusStereoOptions *o) {
    for (int x = 0; x < n; ++x) {
        const int e = row[x], back = near[x + o->shifts - 1 + (e ? o->direction * (e - 1) : 0)];
        const int difference = back > e ? back - e : e - back;
        row[x] = (uint16_t)(e & -((back != 0) & (difference <= o->left_right_check)));
    }
}

static void checkRow(uint16_t *row, const uint16_t *right_elevation, int cols, const cusStereoOptions *o) {
    enum { MORE = CUS_STEREO_MAX_SHIFTS - 1 };
    uint16_t near[MORE + PIXELS_AT_ONCE + MORE];
    const int more = o->shifts - 1;
    for (int x = 0; x < cols; x += PIXELS_AT_ONCE) {
        const int n = cols - x < PIXELS_AT_ONCE ? cols - x : PIXELS_AT_ONCE, end = n + 2 * more;
        for (int k = 0; k < end;) {
            const int64_t at = (int64_t)x - more + k;
            const int inside = at >= 0 && at < cols, from = stereo_host_wrap(at, cols),
                      rest = at < 0 ? (int)-at : cols - from;
            const int run = rest < end - k ? rest : end - k;
            if (!inside && o->border == CUS_STEREO_ZERO)
                memset(near + k, 0, (size_t)run * sizeof *near);
            else
                memcpy(near + k, right_elevation + from, (size_t)run * sizeof *near);
            k += run;
        }
        checkPart(row + x, near, n, o);
    }
}

void stereo_host_leftRightCheck(cusMat *elevation, const uint16_t *right_elevation, const cusStereoOptions *options) {
    const int rows = elevation->rows, cols = elevation->cols;
#pragma omp parallel for schedule(static) num_threads(stereo_host_threads(elevation))
    for (int y = 0; y < rows; ++y)
        checkRow((uint16_t *)(void *)stereo_host_rowMutable(elevation, y), right_elevation + (size_t)y * (size_t)cols, cols,
                 options);
}
