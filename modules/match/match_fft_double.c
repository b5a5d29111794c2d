/* The host's FFT in double, for the templates' spectra: made once, they then add only their rounding to float to the error. */
#define MATCH_FFT_DOUBLE
#define MATCH_FFT_LANES 2
#include "match_fft_kernels.inc"

#include "host.h"

#include <stdlib.h>

typedef struct Wide {
    MatchFftLine half, column;
    double *split, *plane, *work, *spectrum;
} Wide;

static int create(Wide *wide, const MatchFft *fft) {
    const size_t half = (size_t)fft->cols / 2, panels = (half + LANES - 1) / LANES;
    if (!match_fft_createLine(&wide->half, fft->cols / 2, sizeof(double)) ||
        !match_fft_createLine(&wide->column, fft->rows, sizeof(double)))
        return 0;
    wide->split = match_fft_createSplit(fft->cols / 2, sizeof(double));
    wide->plane = malloc(LANES * 2 * half * sizeof(double));
    wide->work = cusi_hostAllocate((half + LANES) * sizeof(Point));
    wide->spectrum = cusi_hostAllocate(panels * (size_t)fft->rows * sizeof(Point));
    return wide->split && wide->plane && wide->work && wide->spectrum;
}

/* Rounds column `x` of the spectrum. */
static void storeColumn(const MatchFft *fft, const double *from, size_t x, double scale, float *spectrum) {
    const size_t lanes = fft->kernels->lanes;
    float *out = spectrum + x / lanes * match_fft_panelFloats(fft) + x % lanes;
    for (size_t y = 0; y < (size_t)fft->rows; ++y, from += 2 * LANES, out += 2 * lanes) {
        out[0] = (float)(from[0] * scale);
        out[lanes] = (float)(from[LANES] * scale);
    }
}

static void transformPlane(const Wide *wide, const MatchFft *fft, const float *plane, size_t filled, double scale,
                           float *spectrum) {
    const size_t cols = (size_t)fft->cols, rows = (size_t)fft->rows;
    for (size_t y = 0; y < filled; y += LANES) {
        const size_t count = filled - y < LANES ? filled - y : LANES;
        for (size_t i = 0; i < count * cols; ++i)
            wide->plane[i] = plane[y * cols + i];
        forwardRows(&wide->half, wide->split, wide->plane, count, rows, wide->spectrum + y * 2 * LANES, wide->work);
    }
    memset(spectrum, 0, match_fft_panels(fft) * match_fft_panelFloats(fft) * sizeof *spectrum);
    for (size_t x = 0; x < cols / 2; ++x) {
        double *const panel = wide->spectrum + x / LANES * rows * 2 * LANES;
        if (x % LANES == 0)
            forwardColumns(&wide->column, filled, panel);
        storeColumn(fft, panel + x % LANES, x, scale, spectrum);
    }
}

int match_fft_forwardRounded(const MatchFft *fft, const float *plane, size_t filled, double scale, float *spectrum) {
    Wide wide = {0};
    const int created = create(&wide, fft);
    if (created)
        transformPlane(&wide, fft, plane, filled, scale, spectrum);
    match_fft_releaseLine(&wide.half);
    match_fft_releaseLine(&wide.column);
    free(wide.split);
    free(wide.plane);
    free(wide.work);
    free(wide.spectrum);
    return created;
}
