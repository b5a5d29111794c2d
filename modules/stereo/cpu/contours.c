/* Draws contour lines and shows the map in colors, on the host. */
#include "stereo/cpu/rows.h"

#include <math.h>

typedef struct Range {
    float min, max; /* whole numbers below 2^24 are exact */
} Range;

/* Finds the minimum and the maximum of a row, lane by lane. */
#define RANGE(name, type)                                                     \
    CUSI_MULTIVERSION                                                         \
    static void name(const type *restrict row, int n, type *restrict range) { \
        enum { LANES = 32 };                                                  \
        type min[LANES], max[LANES];                                          \
        for (int k = 0; k < LANES; ++k) {                                     \
            min[k] = range[0];                                                \
            max[k] = range[1];                                                \
        }                                                                     \
        int x = 0;                                                            \
        for (; x + LANES <= n; x += LANES)                                    \
            for (int k = 0; k < LANES; ++k) {                                 \
                min[k] = row[x + k] < min[k] ? row[x + k] : min[k];           \
                max[k] = row[x + k] > max[k] ? row[x + k] : max[k];           \
            }                                                                 \
        for (int k = 0; x < n; ++x, ++k) {                                    \
            min[k] = row[x] < min[k] ? row[x] : min[k];                       \
            max[k] = row[x] > max[k] ? row[x] : max[k];                       \
        }                                                                     \
        for (int k = 0; k < LANES; ++k) {                                     \
            range[0] = min[k] < range[0] ? min[k] : range[0];                 \
            range[1] = max[k] > range[1] ? max[k] : range[1];                 \
        }                                                                     \
    }
RANGE(range16, uint16_t)
RANGE(range32, float)

static Range rangeOf(const cusMat *elevation) {
    const int wide = elevation->type == CUS_32FC1;
    float min = INFINITY, max = -INFINITY;
#pragma omp parallel for schedule(static) num_threads(stereo_host_threads(elevation)) reduction(min                  \
                                                                                                : min) reduction(max \
                                                                                                                 : max)
    for (int y = 0; y < elevation->rows; ++y) {
        const void *const row = stereo_host_row(elevation, y);
        uint16_t narrow[2] = {UINT16_MAX, 0};
        float range[2] = {INFINITY, -INFINITY};
        if (wide)
            range32(row, elevation->cols, range);
        else
            range16(row, elevation->cols, narrow);
        const float low = wide ? range[0] : narrow[0], high = wide ? range[1] : narrow[1];
        min = low < min ? low : min;
        max = high > max ? high : max;
    }
    return (Range){min, max};
}

/* How values map to `levels` bands. Integers of a small range are looked up. */
typedef struct Bands {
    Range range;
    uint32_t levels;
    int type, looked_up;
    uint16_t table[1024];
} Bands;

/* Returns the integer part of an elevation, that of a bound for what is beyond 0..65535. */
static inline uint32_t whole(float e) {
    return e < 65535 ? (e > 0 ? (uint32_t)e : 0) : 65535;
}

static Bands bandsOf(const cusMat *elevation, uint32_t levels) {
    Bands b = {.range = rangeOf(elevation), .levels = levels, .type = elevation->type};
    const uint32_t width = b.type == CUS_16UC1 ? (uint32_t)(b.range.max - b.range.min) : 0;
    b.looked_up = width > 0 && width < sizeof b.table / sizeof *b.table;
    for (uint32_t above = 0; b.looked_up && above <= width; ++above)
        b.table[above] = (uint16_t)(above * levels / width);
    return b;
}

CUSI_MULTIVERSION
static void bandsOfFloats(const float *restrict values, int n, Range range, uint32_t levels, uint16_t *restrict out) {
    const float width = range.max - range.min, scale = (float)levels / width;
    for (int x = 0; x < n; ++x) {
        const float band = (values[x] - range.min) * scale;
        out[x] = (uint16_t)(band < (float)levels ? (uint32_t)band : levels); /* also for NaN and infinity */
    }
}

/* Finds the bands of n elements of a row from column x on. */
static void bandsOfRow(const Bands *b, const void *row, int x, int n, uint16_t *out) {
    const uint16_t *const values = (const uint16_t *)row + x;
    const uint32_t min = whole(b->range.min);
    if (!(b->range.max > b->range.min))
        memset(out, 0, (size_t)n * sizeof *out);
    else if (b->type == CUS_32FC1)
        bandsOfFloats((const float *)row + x, n, b->range, b->levels, out);
    else if (b->looked_up)
        for (int k = 0; k < n; ++k)
            out[k] = b->table[values[k] - min];
    else
        for (int k = 0; k < n; ++k)
            out[k] = (uint16_t)((values[k] - min) * b->levels / ((uint32_t)b->range.max - min));
}

/* Marks where bands differ from the right or the lower neighbor. here: n + 1 pixels. */
CUSI_MULTIVERSION
static void crossings(const uint16_t *restrict here, const uint16_t *restrict below, int n, uint8_t *restrict out) {
    for (int x = 0; x < n; ++x)
        out[x] = ((here[x] != here[x + 1]) | (here[x] != below[x])) ? 255 : 0;
}

cusStatus stereo_host_contours(const cusMat *elevation, cusMat *contours, const cusStereoOptions *options,
                               StereoScratch *scratch) {
    (void)scratch;
    const Bands bands = bandsOf(elevation, (uint32_t)options->levels);
    const int rows = elevation->rows, cols = elevation->cols;
    const uint32_t low = whole(bands.range.min), width = (whole(bands.range.max) - low) / bands.levels;
    const uint32_t interval = width ? width : 1;
    uint8_t lines[sizeof bands.table / sizeof *bands.table]; /* MODULO, by value */
    for (uint32_t k = 0; k < sizeof lines; ++k)
        lines[k] = k % interval == 0 ? 255 : 0;
#pragma omp parallel for schedule(static) num_threads(stereo_host_threads(elevation))
    for (int y = 0; y < rows; ++y) {
        const void *const row = stereo_host_row(elevation, y), *const below =
                                                                   y + 1 < rows ? stereo_host_row(elevation, y + 1) : row;
        const uint16_t *const narrow = row;
        const float *const wide = row;
        uint8_t *const out = stereo_host_rowMutable(contours, y);
        if (options->lines == CUS_LINES_MODULO) {
            for (int x = 0; x < cols; ++x)
                out[x] = bands.looked_up ? lines[narrow[x] - low]
                         : ((bands.type == CUS_32FC1 ? whole(wide[x]) : narrow[x]) - low) % interval == 0 ? 255
                                                                                                          : 0;
            continue;
        }
        for (int x = 0; x < cols; x += PIXELS_AT_ONCE) {
            uint16_t here[PIXELS_AT_ONCE + 1], lower[PIXELS_AT_ONCE];
            const int n = cols - x < PIXELS_AT_ONCE ? cols - x : PIXELS_AT_ONCE, end = x + n == cols;
            bandsOfRow(&bands, row, x, end ? n : n + 1, here);
            if (end) /* the last column has no right neighbor */
                here[n] = here[n - 1];
            bandsOfRow(&bands, below, x, n, lower);
            crossings(here, lower, n, out + x);
        }
    }
    return CUS_OK;
}

cusStatus stereo_host_picture(const cusMat *elevation, const cusMat *contours, cusMat *picture, StereoScratch *scratch) {
    (void)scratch;
    const Bands bands = bandsOf(elevation, STEREO_COLORS - 1);
    const int cols = elevation->cols;
    uint32_t colors[STEREO_COLORS];
    for (uint32_t k = 0; k < STEREO_COLORS; ++k)
        colors[k] = stereo_color(k);
#pragma omp parallel for schedule(static) num_threads(stereo_host_threads(elevation))
    for (int y = 0; y < elevation->rows; ++y) {
        const void *const row = stereo_host_row(elevation, y);
        const uint8_t *const lines = contours ? stereo_host_row(contours, y) : NULL;
        uint8_t *const out = stereo_host_rowMutable(picture, y);
        for (int x = 0; x < cols; x += PIXELS_AT_ONCE) {
            uint16_t band[PIXELS_AT_ONCE];
            const int n = cols - x < PIXELS_AT_ONCE ? cols - x : PIXELS_AT_ONCE;
            bandsOfRow(&bands, row, x, n, band);
            for (int k = 0; k < n; ++k) {
                const int at = x + k;
                const int hole = bands.type == CUS_32FC1 ? ((const float *)row)[at] == 0 : ((const uint16_t *)row)[at] == 0;
                const uint32_t color = hole || (lines && lines[at]) ? 0 : colors[band[k]];
                for (int c = 0; c < 3; ++c)
                    out[3 * (size_t)at + (size_t)c] = (uint8_t)(color >> (8 * c));
            }
        }
    }
    return CUS_OK;
}
