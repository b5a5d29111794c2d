/* The speckle filter on the host is union-find over pixels. Threads label bands of rows, which are then joined at their
 * borders. A pixel's parent never comes after it in the order of pixels, so one pass leads all pixels to their roots. */
#include "stereo/cpu/rows.h"

typedef struct Regions {
    const cusMat *elevation;
    uint32_t unit;
    uint32_t *parents, *sizes; /* sizes are valid at roots */
} Regions;

static const uint16_t *rowAt(const cusMat *mat, int y) {
    return (const uint16_t *)(const void *)stereo_host_row(mat, y);
}

static uint32_t rootOf(uint32_t *parents, uint32_t at) {
    while (parents[at] != at) {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    return at;
}

static void join(const Regions *r, uint32_t a, uint32_t b) {
    a = rootOf(r->parents, a);
    b = rootOf(r->parents, b);
    if (a == b)
        return;
    const uint32_t low = a < b ? a : b, high = a < b ? b : a;
    r->parents[high] = low;
    r->sizes[low] += r->sizes[high];
}

/* Joins row y with the row above. If the pixels to the left are linked in the same way, they have joined the regions. */
static void joinRows(const Regions *r, int y) {
    const uint16_t *const above = rowAt(r->elevation, y - 1), *const row = rowAt(r->elevation, y);
    const uint32_t cols = (uint32_t)r->elevation->cols, first = (uint32_t)y * cols;
    int joined = 0; /* whether the pixels to the left are linked across the rows */
    for (uint32_t x = 0; x < cols; ++x) {
        const int linked = stereo_isLinked(above[x], row[x], r->unit);
        if (linked &&
            !(joined && stereo_isLinked(above[x - 1], above[x], r->unit) && stereo_isLinked(row[x - 1], row[x], r->unit)))
            join(r, first + x - cols, first + x);
        joined = linked;
    }
}

/* Labels rows y .. end - 1 without regard to other rows. */
static void labelBand(const Regions *r, int y, int end) {
    const uint32_t cols = (uint32_t)r->elevation->cols;
    for (int k = y; k < end; ++k) {
        const uint16_t *const row = rowAt(r->elevation, k);
        uint32_t start = (uint32_t)k * cols; /* of the chain of linked pixels */
        for (uint32_t x = 0; x < cols; ++x) {
            const uint32_t at = (uint32_t)k * cols + x;
            start = x > 0 && stereo_isLinked(row[x - 1], row[x], r->unit) ? start : at;
            r->parents[at] = start;
            r->sizes[at] = 0;
        }
        if (k > y)
            joinRows(r, k);
    }
    for (uint32_t at = (uint32_t)y * cols; at < (uint32_t)end * cols; ++at) {
        r->parents[at] = r->parents[r->parents[at]];
        ++r->sizes[r->parents[at]];
    }
}

static void filterRow(const Regions *r, int y, uint32_t most, uint16_t *out) {
    const uint16_t *const row = rowAt(r->elevation, y);
    const uint32_t cols = (uint32_t)r->elevation->cols;
    for (uint32_t x = 0; x < cols; ++x) {
        uint32_t root = r->parents[(uint32_t)y * cols + x];
        while (r->parents[root] != root)
            root = r->parents[root];
        out[x] = r->sizes[root] > most ? row[x] : 0;
    }
}

cusStatus stereo_host_speckles(const cusMat *elevation, cusMat *filtered, const cusStereoOptions *o,
                               StereoScratch *scratch) {
    if (o->speckle_size == 0)
        return cusMatCopy(elevation, filtered, NULL);
    const int rows = elevation->rows, threads = stereo_host_threads(elevation), bands = threads < rows ? threads : rows;
    const size_t pixels = (size_t)rows * (size_t)elevation->cols;
    uint32_t *const words = scratch->words;
    const Regions r = {elevation, 1u << o->subpixel_bits, words, words + pixels};
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int b = 0; b < bands; ++b)
        labelBand(&r, (int)((int64_t)rows * b / bands), (int)((int64_t)rows * (b + 1) / bands));
    for (int b = 1; b < bands; ++b)
        joinRows(&r, (int)((int64_t)rows * b / bands));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int y = 0; y < rows; ++y)
        filterRow(&r, y, (uint32_t)o->speckle_size, (uint16_t *)(void *)stereo_host_rowMutable(filtered, y));
    return CUS_OK;
}
