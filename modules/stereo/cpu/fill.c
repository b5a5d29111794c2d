/* Fills holes on the host. ONCE and RELAX alternate between two buffers. A row is computed only if it or a row beside it
 * changed in the iteration before; otherwise both buffers already have the same row. */
#include "stereo/cpu/rows.h"

#include <assert.h>
#include <math.h>

/* Fills holes with the smaller of the nearest elevations on either side. */
static void lowerRow(const uint16_t *holes, int n, uint16_t *out) {
    unsigned nearest = 0;
    for (int x = 0; x < n; ++x) {
        const unsigned here = holes[x];
        nearest = here | (nearest & -(unsigned)(here == 0)); /* without a branch, since holes are irregular */
        out[x] = (uint16_t)nearest;
    }
    nearest = 0;
    for (int x = n - 1; x >= 0; --x) {
        const unsigned here = holes[x];
        nearest = here | (nearest & -(unsigned)(here == 0));
        const uint16_t left = (uint16_t)(out[x] - 1u), right = (uint16_t)(nearest - 1u); /* 0 (none) wraps to the largest */
        out[x] = (uint16_t)((left < right ? left : right) + 1u);
    }
}

/* Returns whether anything changed. */
CUSI_MULTIVERSION
static int onceInside(const uint16_t *restrict up, const uint16_t *restrict row, const uint16_t *restrict down, int n,
                      uint16_t *restrict out) {
    uint16_t changed = 0;
    for (int x = 1; x < n - 1; ++x) {
        const uint32_t sum = (uint32_t)up[x] + down[x] + row[x - 1] + row[x + 1];
        const uint16_t filled = (uint16_t)(sum / 4);
        out[x] = row[x] ? row[x] : filled;
        changed |= out[x] ^ row[x];
    }
    return changed != 0;
}

/* up and down are NULL beyond a ZERO border. */
static int onceRow(const uint16_t *up, const uint16_t *row, const uint16_t *down, int n, cusStereoBorder border,
                   uint16_t *out) {
    assert(row);
    int changed = 0, step = 1;
    if (up && down && n > 2) { /* the two pixels at the ends remain */
        changed = onceInside(up, row, down, n, out);
        step = n - 1;
    }
    for (int x = 0; x < n; x += step) {
        out[x] = row[x];
        if (row[x])
            continue;
        unsigned sum = (unsigned)(up ? up[x] : 0) + (down ? down[x] : 0);
        sum += x > 0 ? row[x - 1] : border == CUS_STEREO_WRAP ? row[n - 1] : 0;
        sum += x + 1 < n ? row[x + 1] : border == CUS_STEREO_WRAP ? row[0] : 0;
        out[x] = (uint16_t)(sum / 4);
        changed |= out[x] != 0;
    }
    return changed;
}

/* Relaxes columns 1 .. n - 2; returns the largest change. */
CUSI_MULTIVERSION
static float relaxInside(const uint16_t *restrict holes, const float *restrict up, const float *restrict row,
                         const float *restrict down, int n, float *restrict out) {
    float largest = 0;
#ifndef __clang__ /* which keeps the order of a single maximum */
#pragma omp simd reduction(max : largest)
#endif
    for (int x = 1; x < n - 1; ++x) {
        const float across = row[x - 1] + row[x + 1], along = up[x] + down[x];
        out[x] = holes[x] ? row[x] : (across + along) * 0.25f;
        const float change = fabsf(out[x] - row[x]);
        largest = change > largest ? change : largest;
    }
    return largest;
}

/* up and down are NULL beyond a ZERO border, where a pixel's own value is used. Returns the largest change. */
static float relaxRow(const uint16_t *holes, const float *up, const float *row, const float *down, int n,
                      cusStereoBorder border, float *out) {
    int step = 1;
    float largest = 0;
    if (n > 2) { /* the two pixels at the ends remain */
        largest = relaxInside(holes, up ? up : row, row, down ? down : row, n, out);
        step = n - 1;
    }
    for (int x = 0; x < n; x += step) {
        out[x] = row[x];
        if (holes[x])
            continue;
        const float l = x > 0 ? row[x - 1] : border == CUS_STEREO_WRAP ? row[n - 1] : row[x];
        const float r = x + 1 < n ? row[x + 1] : border == CUS_STEREO_WRAP ? row[0] : row[x];
        const float across = l + r, along = (up ? up[x] : row[x]) + (down ? down[x] : row[x]);
        out[x] = (across + along) * 0.25f;
        const float change = fabsf(out[x] - row[x]);
        largest = change > largest ? change : largest;
    }
    return largest;
}

/* Iterates once on row y if it or a row beside it was active. Returns the largest change (ONCE: whether there was any). */
static float iterateRow(const cusMat *holes, const cusMat *from, cusMat *to, const uint8_t *active, int y,
                        const cusStereoOptions *o) {
    const int rows = from->rows, cols = from->cols, wrap = o->border == CUS_STEREO_WRAP;
    const int up = y > 0 ? y - 1 : wrap ? rows - 1 : -1, down = y + 1 < rows ? y + 1 : wrap ? 0 : -1;
    if (!(active[y] | (up >= 0 && active[up]) | (down >= 0 && active[down])))
        return 0;
    const void *const u = up >= 0 ? stereo_host_row(from, up) : NULL;
    const void *const d = down >= 0 ? stereo_host_row(from, down) : NULL;
    const void *const row = stereo_host_row(from, y), *const known = stereo_host_row(holes, y);
    void *const out = stereo_host_rowMutable(to, y);
    return o->fill == CUS_FILL_RELAX ? relaxRow(known, u, row, d, cols, o->border, out)
                                     : (float)onceRow(u, row, d, cols, o->border, out);
}

static cusStatus iterate(const cusMat *holes, cusMat *filled, const cusStereoOptions *o, const StereoScratch *scratch) {
    const int rows = filled->rows, relax = o->fill == CUS_FILL_RELAX;
    cusMat second = CUS_MAT_INIT;
    CUS_TRY(cusMatWrap(&second, rows, filled->cols, filled->type, CUS_HOST, scratch->words, 0));
    cusMat *const maps[2] = {filled, &second};
    uint8_t *const active[2] = {scratch->block, (uint8_t *)scratch->block + rows};
    memset(active[0], 1, (size_t)rows);
    int from = 0; /* index of the current map, and of what is active */
    const int all_threads = stereo_host_threads(filled);
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, o->iterations);
    int any = rows; /* rows that changed; if few did, threads cost more than they gain */
    for (int i = 1; i <= o->iterations; ++i) {
        if (cusi_step(progress, 1))
            return cusi_proceed(progress);
        const int threads = any > rows / 4 ? all_threads : 1;
        (void)threads; /* unused without OpenMP */
        float largest = 0;
        any = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(max : largest) reduction(+ : any)
        for (int y = 0; y < rows; ++y) {
            const float change = iterateRow(holes, maps[from], maps[!from], active[from], y, o);
            largest = change > largest ? change : largest;
            active[!from][y] = change > 0;
            any += change > 0;
        }
        from = !from;
        if (!any || (relax && i % STEREO_ROUND == 0 && largest <= o->tolerance))
            break;
    }
    return from == 0 ? CUS_OK : cusMatCopy(&second, filled, NULL);
}

cusStatus stereo_host_fill(const cusMat *elevation, cusMat *filled, const cusStereoOptions *o, StereoScratch *scratch) {
    const int cols = elevation->cols;
    if (o->fill == CUS_FILL_NONE)
        return cusMatCopy(elevation, filled, NULL);
    if (o->fill == CUS_FILL_ONCE) {
        CUS_TRY(cusMatCopy(elevation, filled, NULL));
        return iterate(elevation, filled, o, scratch);
    }
    const int relax = o->fill == CUS_FILL_RELAX;
#pragma omp parallel for schedule(static) num_threads(stereo_host_threads(filled))
    for (int y = 0; y < elevation->rows; ++y) {
        const uint16_t *const in = (const uint16_t *)(const void *)stereo_host_row(elevation, y);
        uint16_t *const row = (uint16_t *)(void *)stereo_host_rowMutable(filled, y);
        lowerRow(in, cols, row);
        if (relax) /* in place, so the last pixel goes first */
            for (int x = cols - 1; x >= 0; --x) {
                const float value = row[x];
                memcpy((char *)row + 4 * (size_t)x, &value, 4);
            }
    }
    return relax ? iterate(elevation, filled, o, scratch) : CUS_OK;
}
