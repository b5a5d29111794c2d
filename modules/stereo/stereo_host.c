#include "check.h"
#include "host.h"
#include "stereo_backend.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An image's tile: 512 columns and the rows that are matched at once keep these in the first-level cache. */
enum { TILE_ROWS = 64, TILE_COLS = 512, ROWS_AT_ONCE = 16 };
enum {
    REACH = CUS_STEREO_MAX_WINDOW - 1,
    SCORE_COLS = TILE_COLS + CUS_STEREO_MAX_SHIFTS - 1,
    PITCH = (SCORE_COLS + REACH + 63) / 64 * 64,
    PIXELS = (TILE_ROWS + REACH) * PITCH + 64 /* loops over several rows end in the next */
};

static const uint8_t *rowOf(const cusMat *mat, int y) {
    return (const uint8_t *)mat->data + (size_t)y * mat->step;
}
static uint8_t *rowOfMutable(cusMat *mat, int y) {
    return (uint8_t *)mat->data + (size_t)y * mat->step;
}

/* Threads worth starting for this many bytes: one for each 64 KiB, at most all. */
static int threadsFor(const cusMat *mat) {
    const size_t useful = (size_t)mat->rows * cusi_rowBytes(mat) / 65536 + 1;
    return useful < (size_t)cusi_maxThreads() ? (int)useful : cusi_maxThreads();
}

static int wrapped(int64_t i, int n) {
    const int64_t r = i % n;
    return (int)(r < 0 ? r + n : r);
}

/* ---- Edges and signs ---------------------------------------------------------------------------------------------------
 */

enum { PIXELS_AT_ONCE = 256 };

/* n + 2 elements of row y from column x - 1 on, those beyond the border by its rule. */
static void loadPadded(const cusMat *image, int64_t y, int x, int n, cusStereoBorder border, void *out) {
    const size_t size = cusTypeSize(image->type);
    if (y < 0 || y >= image->rows) {
        if (border == CUS_STEREO_ZERO) {
            memset(out, 0, (size_t)(n + 2) * size);
            return;
        }
        y = wrapped(y, image->rows);
    }
    const uint8_t *row = rowOf(image, (int)y);
    char *const o = out;
    memcpy(o + size, row + (size_t)x * size, (size_t)n * size);
    if (x > 0)
        memcpy(o, row + (size_t)(x - 1) * size, size);
    else if (border == CUS_STEREO_ZERO)
        memset(o, 0, size);
    else
        memcpy(o, row + (size_t)(image->cols - 1) * size, size);
    if (x + n < image->cols)
        memcpy(o + (size_t)(n + 1) * size, row + (size_t)(x + n) * size, size);
    else if (border == CUS_STEREO_ZERO)
        memset(o + (size_t)(n + 1) * size, 0, size);
    else
        memcpy(o + (size_t)(n + 1) * size, row, size);
}

/* u, m, d: the rows above, of and below n pixels, pixel x at index x + 1. An edge is all bits of a lane: with conditions
 * joined by ||, or by | of their values, compilers do not vectorize. */
CUSI_MULTIVERSION
static void edges8(const uint8_t *restrict u, const uint8_t *restrict m, const uint8_t *restrict d, int n, float threshold,
                   uint8_t *restrict out) {
    for (int x = 0; x < n; ++x) {
        const int16_t u0 = u[x], u1 = u[x + 1], u2 = u[x + 2], m0 = m[x], m2 = m[x + 2], d0 = d[x], d1 = d[x + 1],
                      d2 = d[x + 2];
#define EDGE(a0, a1, a2, b0, b1, b2) \
    ((float)abs(2 * ((a0 + a1 + a2) - (b0 + b1 + b2))) > threshold * (float)(a0 + a1 + a2 + b0 + b1 + b2) ? -1 : 0)
        out[x] = (uint8_t)(EDGE(u0, m0, d0, u2, m2, d2) | EDGE(u0, u1, u2, d0, d1, d2) | EDGE(u0, u1, m0, d2, d1, m2) |
                           EDGE(d0, d1, m0, u2, u1, m2));
#undef EDGE
    }
}

CUSI_MULTIVERSION
static void edges32(const float *restrict u, const float *restrict m, const float *restrict d, int n, float threshold,
                    uint8_t *restrict out) {
    for (int x = 0; x < n; ++x) {
        const float a0 = (u[x] + m[x]) + d[x], b0 = (u[x + 2] + m[x + 2]) + d[x + 2];
        const float a1 = (u[x] + u[x + 1]) + u[x + 2], b1 = (d[x] + d[x + 1]) + d[x + 2];
        const float a2 = (u[x] + u[x + 1]) + m[x], b2 = (d[x + 2] + d[x + 1]) + m[x + 2];
        const float a3 = (d[x] + d[x + 1]) + m[x], b3 = (u[x + 2] + u[x + 1]) + m[x + 2];
#define LIMIT(a, b) (threshold * (((a) + (b)) * 0.5f))
#define EDGE(a, b)  (fabsf((a) - (b)) > (LIMIT(a, b) < 3.0f ? LIMIT(a, b) : 3.0f) ? -1 : 0)
        out[x] = (uint8_t)(EDGE(a0, b0) | EDGE(a1, b1) | EDGE(a2, b2) | EDGE(a3, b3));
#undef EDGE
#undef LIMIT
    }
}

#define SIGNS(name, type)                                                                                          \
    CUSI_MULTIVERSION                                                                                              \
    static void name(const type *restrict u, const type *restrict m, const type *restrict d, int n,                \
                     uint8_t *restrict out) {                                                                      \
        for (int x = 0; x < n; ++x) {                                                                              \
            const type c = m[x + 1];                                                                               \
            out[x] = (uint8_t)((u[x] > c) | (u[x + 1] > c) << 1 | (u[x + 2] > c) << 2 | (m[x] > c) << 3 |          \
                               (m[x + 2] > c) << 4 | (d[x] > c) << 5 | (d[x + 1] > c) << 6 | (d[x + 2] > c) << 7); \
        }                                                                                                          \
    }
SIGNS(signs8, uint8_t)
SIGNS(signs32, float)

cusStatus stereo_host_features(const cusMat *image, cusMat *features, int signs, const cusStereoOptions *options) {
#pragma omp parallel for schedule(static) num_threads(threadsFor(image))
    for (int y = 0; y < image->rows; ++y) {
        float padded[3][PIXELS_AT_ONCE + 2]; /* bytes or floats */
        for (int x = 0; x < image->cols; x += PIXELS_AT_ONCE) {
            const int n = image->cols - x < PIXELS_AT_ONCE ? image->cols - x : PIXELS_AT_ONCE;
            for (int i = 0; i < 3; ++i)
                loadPadded(image, (int64_t)y + i - 1, x, n, options->border, padded[i]);
            uint8_t *const out = rowOfMutable(features, y) + x;
            const uint8_t *const b[3] = {(uint8_t *)padded[0], (uint8_t *)padded[1], (uint8_t *)padded[2]};
            if (image->type == CUS_8UC1 && signs)
                signs8(b[0], b[1], b[2], n, out);
            else if (image->type == CUS_8UC1)
                edges8(b[0], b[1], b[2], n, options->threshold, out);
            else if (signs)
                signs32(padded[0], padded[1], padded[2], n, out);
            else
                edges32(padded[0], padded[1], padded[2], n, options->threshold, out);
        }
    }
    return CUS_OK;
}

int stereo_host_hasNan(const cusMat *image) {
    int found = 0;
#pragma omp parallel for schedule(static) num_threads(threadsFor(image)) reduction(| : found)
    for (int y = 0; y < image->rows; ++y) {
        const float *row = (const float *)(const void *)rowOf(image, y);
        for (int x = 0; x < image->cols; ++x)
            found |= row[x] != row[x];
    }
    return found;
}

/* ---- Elevation ---------------------------------------------------------------------------------------------------------
 * A tile and a shift at a time: agreements as bytes; their horizontal window sums by doubling (sums of 1, 2, 4, ...
 * neighbors, of which the window's binary digits pick), several rows in one loop, since a row that was just written cannot
 * be read at another place yet; these sums run down the columns, the row that enters is added and the one that leaves
 * taken off. Score and shift share 16 bits, so that one maximum keeps the best of as many shifts as fit; the score of a left
 * pixel and a shift is that of its partner in the right image, too. All loops run along rows and are vectorized.
 */

typedef struct Tile {
    _Alignas(64) uint8_t left[PIXELS];
    uint8_t right[PIXELS], agree[PIXELS];
    uint16_t sums[PIXELS], doubled[2][(ROWS_AT_ONCE + 1) * PITCH]; /* horizontal, in bytes where they fit */
    /* Of the left and the right image: the best of the shifts so far, and the score of the best before those. */
    uint16_t best[2][TILE_ROWS][TILE_COLS], score[2][TILE_ROWS][TILE_COLS];
    uint16_t key[SCORE_COLS + 1], counted[SCORE_COLS + 1]; /* score << bits | shift */
} Tile;

/* n elements of row y from column x on, those beyond the border by its rule (ZERO: anything, the caller leaves them out).
 */
static void loadTileRow(const cusMat *mat, int64_t y, int64_t x, int n, cusStereoBorder border, int binary, uint8_t *out) {
    if (border == CUS_STEREO_ZERO && (y < 0 || y >= mat->rows)) {
        memset(out, 0, (size_t)n);
        return;
    }
    const uint8_t *row = rowOf(mat, wrapped(y, mat->rows));
    if (border == CUS_STEREO_ZERO) {
        const int64_t from = x < 0 ? (-x < n ? -x : n) : 0, end = mat->cols - x < n ? mat->cols - x : n;
        memset(out, 0, (size_t)n);
        if (end > from)
            memcpy(out + from, row + x + from, (size_t)(end - from));
    } else {
        for (int i = 0; i < n;) {
            const int from = wrapped(x + i, mat->cols), run = mat->cols - from < n - i ? mat->cols - from : n - i;
            memcpy(out + i, row + from, (size_t)run);
            i += run;
        }
    }
    if (binary)
        for (int i = 0; i < n; ++i)
            out[i] = out[i] != 0;
}

CUSI_MULTIVERSION
static void agreements(const uint8_t *restrict l, const uint8_t *restrict r, int n, cusStereoAgreement agreement,
                       uint8_t *restrict out) {
    if (agreement == CUS_STEREO_EQUAL)
        for (int x = 0; x < n; ++x)
            out[x] = l[x] == r[x];
    else if (agreement == CUS_STEREO_EDGE)
        for (int x = 0; x < n; ++x)
            out[x] = l[x] & r[x];
    else
        for (int x = 0; x < n; ++x) {
            uint8_t d = l[x] ^ r[x];
            d = (uint8_t)(d - ((d >> 1) & 0x55));
            d = (uint8_t)((d & 0x33) + ((d >> 2) & 0x33));
            out[x] = (uint8_t)(8 - ((d + (d >> 4)) & 0x0f));
        }
}

/* sum[x] = agree[x] + ... + agree[x + window - 1] for x in 0..n-1; agree has n + window - 1 elements, one and other have
 * place for as many. */
#define WINDOW_SUMS(name, type)                                                                                      \
    CUSI_MULTIVERSION                                                                                                \
    static void name(const uint8_t *restrict agree, int n, int window, type *one, type *other, type *restrict sum) { \
        int have = n + window - 1, at = 1;                                                                           \
        for (int x = 0; x < n; ++x)                                                                                  \
            sum[x] = agree[x]; /* the window is odd */                                                               \
        if (window == 1)                                                                                             \
            return;                                                                                                  \
        --have;                                                                                                      \
        for (int x = 0; x < have; ++x)                                                                               \
            one[x] = (type)(agree[x] + agree[x + 1]);                                                                \
        for (int digit = 2;; digit *= 2) { /* one: sums of `digit` */                                                \
            if (window & digit) {                                                                                    \
                for (int x = 0; x < n; ++x)                                                                          \
                    sum[x] = (type)(sum[x] + one[x + at]);                                                           \
                at += digit;                                                                                         \
            }                                                                                                        \
            if (2 * digit > window)                                                                                  \
                return;                                                                                              \
            have -= digit;                                                                                           \
            for (int x = 0; x < have; ++x)                                                                           \
                other[x] = (type)(one[x] + one[x + digit]);                                                          \
            type *const swap = one;                                                                                  \
            one = other;                                                                                             \
            other = swap;                                                                                            \
        }                                                                                                            \
    }
WINDOW_SUMS(windowSums8, uint8_t)
WINDOW_SUMS(windowSums16, uint16_t)

/* Scores rise by the row of sums that enters the window and fall by the one that leaves it. */
#define MOVE_WINDOW(name, type, difference)                                                                             \
    CUSI_MULTIVERSION                                                                                                   \
    static void name(uint16_t *restrict key, const type *restrict enter, const type *restrict leave, int n, int bits) { \
        const uint16_t unit = (uint16_t)(1u << bits);                                                                   \
        for (int x = 0; x < n; ++x) {                                                                                   \
            const uint16_t rise = (uint16_t)(difference)(enter[x] - leave[x]);                                          \
            key[x] = (uint16_t)(key[x] + (uint16_t)((uint32_t)rise * unit));                                            \
        }                                                                                                               \
    }
MOVE_WINDOW(moveWindow8, uint8_t, int8_t) /* sums below 128 */
MOVE_WINDOW(moveWindow16, uint16_t, uint16_t)

/* Where `center` is 0 the score does not count. */
CUSI_MULTIVERSION
static void maskScore(const uint16_t *restrict key, const uint8_t *restrict center, int n, uint16_t *restrict counted) {
    for (int x = 0; x < n; ++x)
        counted[x] = (uint16_t)(key[x] & -(uint16_t)center[x]);
}

CUSI_MULTIVERSION
static void keepBest(const uint16_t *restrict key, int n, uint16_t *restrict best) {
    for (int x = 0; x < n; ++x)
        best[x] = best[x] > key[x] ? best[x] : key[x];
}

/* Of the shifts from `first` on, whose best is forgotten here, what beats score (by one if the smaller shift is to win) goes
 * into score and elevation. Shift k has the code k - first, or `last` less that if the smaller is to win. */
CUSI_MULTIVERSION
static void takeBest(uint16_t *restrict best, int n, int bits, int first, int last, int smaller, uint16_t *restrict score,
                     uint16_t *restrict elevation) {
    const uint16_t all = (uint16_t)((1 << bits) - 1), sign = smaller ? 0xffff : 1, handicap = (uint16_t)smaller,
                   base = (uint16_t)(first + 1 + (smaller ? last : 0));
    for (int x = 0; x < n; ++x) {
        const uint16_t found = (uint16_t)(best[x] >> bits), shift = (uint16_t)(base + (uint32_t)sign * (best[x] & all));
        const uint16_t least = (uint16_t)(score[x] + handicap), needed = least > 1 ? least : 1;
        elevation[x] = found >= needed ? shift : elevation[x];
        score[x] = found >= needed ? found : score[x];
        best[x] = 0;
    }
}

/* What is the same for all tiles. */
typedef struct Matching {
    const cusMat *left, *right;
    const cusStereoOptions *options;
    uint16_t *out[2]; /* elevations of the left image, and of the right one or NULL */
    size_t step[2];
    int bits;  /* of a shift in a key */
    int bytes; /* horizontal sums fit them */
} Matching;

/* What of the agreements with shift s does not count, because the left pixel or its partner lies outside; agree: `rows`
 * rows of n, from row y and column x of the image on. */
static void clearOutside(const Matching *m, uint8_t *agree, int pitch, int rows, int64_t y, int64_t x, int n, int s) {
    const int64_t partner = x + m->options->direction * s;
    const int64_t low = -(x < partner ? x : partner), high = m->left->cols - (x > partner ? x : partner);
    const int from = (int)(low < 0 ? 0 : low > n ? n : low), end = (int)(high < from ? from : high > n ? n : high);
    for (int r = 0; r < rows; ++r, agree += pitch) {
        const int outside = y + r < 0 || y + r >= m->left->rows;
        memset(agree, 0, (size_t)(outside ? n : from));
        if (!outside)
            memset(agree + end, 0, (size_t)(n - end));
    }
}

static void elevationTile(const Matching *m, Tile *tile, int y0, int x0, int rows, int cols) {
    static const uint16_t nothing[SCORE_COLS];
    const cusStereoOptions *o = m->options;
    const int window = o->window, radius = window / 2, reach = 2 * radius;
    const int both = m->out[1] != NULL, right_way = o->direction > 0;
    const int binary = o->agreement != CUS_STEREO_CENSUS, more = o->shifts - 1, group = 1 << m->bits;
    const int pitch = (cols + reach + more + 63) / 64 * 64;
    /* Where the tile's parts of both images start. */
    const int64_t y = (int64_t)y0 - radius, left_x = (int64_t)x0 - radius - (both && right_way ? more : 0);
    const int64_t right_x = (int64_t)x0 - radius - (right_way ? 0 : more);
    for (int r = 0; r < rows + reach; ++r) {
        loadTileRow(m->left, y + r, left_x, cols + reach + more, o->border, binary, tile->left + r * pitch);
        loadTileRow(m->right, y + r, right_x, cols + reach + more, o->border, binary, tile->right + r * pitch);
    }
    memset(tile->best, 0, sizeof tile->best);
    memset(tile->score, 0, sizeof tile->score);
    for (int i = 0; i <= both; ++i)
        for (int r = 0; r < rows; ++r)
            memset((char *)m->out[i] + (size_t)(y0 + r) * m->step[i] + 2 * (size_t)x0, 0, 2 * (size_t)cols);
    for (int s = 0; s < o->shifts; ++s) {
        /* Scores of n columns from column x on: those of the left tile, and those whose partners are in the right one. */
        const int n = cols + (both ? s : 0), x = x0 - (both && right_way ? s : 0);
        const int at[2] = {x0 - x, right_way ? 0 : s}; /* the left tile's first, that of the right tile's partners */
        const uint8_t *const left = tile->left + (x - radius - left_x);
        const uint8_t *const right = tile->right + (x + o->direction * s - radius - right_x);
        for (int r = 0; r < rows + reach; r += ROWS_AT_ONCE) {
            const int there = rows + reach - r < ROWS_AT_ONCE ? rows + reach - r : ROWS_AT_ONCE;
            const int pixels = (there - 1) * pitch + n, at_row = r * pitch;
            agreements(left + at_row, right + at_row, pixels + reach, o->agreement, tile->agree + at_row);
            if (o->border == CUS_STEREO_ZERO)
                clearOutside(m, tile->agree + at_row, pitch, there, y + r, x - radius, n + reach, s);
            if (m->bytes)
                windowSums8(tile->agree + at_row, pixels, window, (uint8_t *)tile->doubled[0], (uint8_t *)tile->doubled[1],
                            (uint8_t *)tile->sums + at_row);
            else
                windowSums16(tile->agree + at_row, pixels, window, tile->doubled[0], tile->doubled[1], tile->sums + at_row);
        }
        const int last = (s / group + 1) * group < o->shifts ? group - 1 : more % group;
        const int code = o->prefer_smaller ? last - s % group : s % group;
        for (int c = 0; c < n; ++c)
            tile->key[c] = (uint16_t)code;
        for (int r = 0; r < rows + reach; ++r) {
            const int enter = r * pitch, leave = (r - window) * pitch, row = r - reach;
            if (m->bytes)
                moveWindow8(tile->key, (uint8_t *)tile->sums + enter,
                            r < window ? (const uint8_t *)nothing : (uint8_t *)tile->sums + leave, n, m->bits);
            else
                moveWindow16(tile->key, tile->sums + enter, r < window ? nothing : tile->sums + leave, n, m->bits);
            if (row < 0)
                continue;
            if (binary)
                maskScore(tile->key, tile->agree + (row + radius) * pitch + radius, n, tile->counted);
            for (int i = 0; i <= both; ++i)
                keepBest((binary ? tile->counted : tile->key) + at[i], cols, tile->best[i][row]);
        }
        if (s % group != group - 1 && s != more)
            continue;
        for (int i = 0; i <= both; ++i)
            for (int r = 0; r < rows; ++r)
                takeBest(tile->best[i][r], cols, m->bits, s / group * group, last, o->prefer_smaller, tile->score[i][r],
                         (uint16_t *)(void *)((char *)m->out[i] + (size_t)(y0 + r) * m->step[i]) + x0);
    }
}

size_t stereo_host_scratchBytes(int stages, int rows, int cols, const cusStereoOptions *options, int threads) {
    (void)cols;
    (void)options;
    const size_t tiles = stages & STEREO_ELEVATION ? (size_t)threads * sizeof(Tile) : 0;
    const size_t flags = stages & STEREO_FILL ? 2 * (size_t)rows : 0;
    return tiles > flags ? tiles : flags;
}

/* Columns x .. x + n - 1 of a row become holes where the partner's elevation differs by more than `check`; near: the other
 * image's row from column x - (shifts - 1) on. */
static void checkPart(uint16_t *row, const uint16_t *near, int n, const cusStereoOptions *o) {
    for (int x = 0; x < n; ++x) {
        const int e = row[x], partner = near[x + o->shifts - 1 + (e ? o->direction * (e - 1) : 0)];
        const int difference = partner > e ? partner - e : e - partner;
        row[x] = (uint16_t)(e & -((partner != 0) & (difference <= o->left_right_check)));
    }
}

static void checkRow(uint16_t *row, const uint16_t *other, int cols, const cusStereoOptions *o) {
    enum { MORE = CUS_STEREO_MAX_SHIFTS - 1 };
    uint16_t near[MORE + PIXELS_AT_ONCE + MORE];
    const int more = o->shifts - 1;
    for (int x = 0; x < cols; x += PIXELS_AT_ONCE) {
        const int n = cols - x < PIXELS_AT_ONCE ? cols - x : PIXELS_AT_ONCE, end = n + 2 * more;
        for (int k = 0; k < end;) {
            const int64_t at = (int64_t)x - more + k;
            const int inside = at >= 0 && at < cols, from = wrapped(at, cols), rest = at < 0 ? (int)-at : cols - from;
            const int run = rest < end - k ? rest : end - k;
            if (!inside && o->border == CUS_STEREO_ZERO)
                memset(near + k, 0, (size_t)run * sizeof *near);
            else
                memcpy(near + k, other + from, (size_t)run * sizeof *near);
            k += run;
        }
        checkPart(row + x, near, n, o);
    }
}

cusStatus stereo_host_elevation(const cusMat *left, const cusMat *right, cusMat *elevation, const cusStereoOptions *options,
                                const StereoScratch *scratch) {
    const int check = options->left_right_check >= 0, rows = left->rows, cols = left->cols;
    const int most = (options->agreement == CUS_STEREO_CENSUS ? 8 : 1) * options->window;
    Matching m = {
        left, right,     options, {elevation->data, check ? scratch->other : NULL}, {elevation->step, 2 * (size_t)cols},
        0,    most < 128};
    while (1 << m.bits < options->shifts && (most * options->window + 1) << (m.bits + 1) <= 65536)
        ++m.bits;
    Tile *const tiles = scratch->block;
    /* Tiles of one size, so that threads have as much to do. */
    const int down = (rows + TILE_ROWS - 1) / TILE_ROWS, across = (cols + TILE_COLS - 1) / TILE_COLS;
    const int tile_rows = (rows + down - 1) / down, tile_cols = (cols + across - 1) / across;
    const int64_t count = (int64_t)down * across;
    const int threads = count < scratch->threads ? (int)count : scratch->threads;
    /* One iteration a thread: each has its own buffers whatever thread runs it. */
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int t = 0; t < threads; ++t)
        for (int64_t i = t; i < count; i += threads) {
            const int64_t y = i / across * tile_rows, x = i % across * tile_cols;
            if (y < rows && x < cols)
                elevationTile(&m, &tiles[t], (int)y, (int)x, rows - y < tile_rows ? (int)(rows - y) : tile_rows,
                              cols - x < tile_cols ? (int)(cols - x) : tile_cols);
        }
    if (check) {
#pragma omp parallel for schedule(static) num_threads(threadsFor(elevation))
        for (int y = 0; y < rows; ++y)
            checkRow((uint16_t *)(void *)rowOfMutable(elevation, y), scratch->other + (size_t)y * (size_t)cols, cols,
                     options);
    }
    return CUS_OK;
}

/* ---- Fill --------------------------------------------------------------------------------------------------------------
 * Two buffers take turns. A row is computed only where it or a row beside it changed in the iteration before; elsewhere
 * both buffers hold the same already.
 */

/* The smaller of the nearest elevations to both sides. */
static void lowerRow(const uint16_t *holes, int n, uint16_t *out) {
    unsigned nearest = 0;
    for (int x = 0; x < n; ++x) {
        const unsigned here = holes[x];
        nearest = here | (nearest & -(unsigned)(here == 0)); /* no branch: holes come irregularly */
        out[x] = (uint16_t)nearest;
    }
    nearest = 0;
    for (int x = n - 1; x >= 0; --x) {
        const unsigned here = holes[x];
        nearest = here | (nearest & -(unsigned)(here == 0));
        const uint16_t left = (uint16_t)(out[x] - 1u), right = (uint16_t)(nearest - 1u); /* none: larger than all */
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

/* up, down: NULL beyond a ZERO border. */
static int onceRow(const uint16_t *up, const uint16_t *row, const uint16_t *down, int n, cusStereoBorder border,
                   uint16_t *out) {
    assert(row);
    int changed = 0, step = 1;
    if (up && down && n > 2) { /* the two at the ends are left */
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

/* Columns 1 .. n - 2; returns the largest change. */
CUSI_MULTIVERSION
static float relaxInside(const uint16_t *restrict holes, const float *restrict up, const float *restrict row,
                         const float *restrict down, int n, float *restrict out) {
    enum { LANES = 16 };
    float changes[LANES] = {0}, largest = 0; /* lane by lane: compilers keep one maximum in order */
#define RELAX(x, lane)                                                             \
    do {                                                                           \
        const float across_ = row[(x)-1] + row[(x) + 1], along_ = up[x] + down[x]; \
        const float value_ = holes[x] ? row[x] : (across_ + along_) * 0.25f;       \
        const float change_ = fabsf(value_ - row[x]);                              \
        out[x] = value_;                                                           \
        changes[lane] = change_ > changes[lane] ? change_ : changes[lane];         \
    } while (0)
    int x = 1;
    for (; x + LANES < n; x += LANES)
        for (int k = 0; k < LANES; ++k)
            RELAX(x + k, k);
    for (; x < n - 1; ++x)
        RELAX(x, 0);
#undef RELAX
    for (int k = 0; k < LANES; ++k)
        largest = changes[k] > largest ? changes[k] : largest;
    return largest;
}

/* up, down: NULL beyond a ZERO border, where a pixel's own value stands in. */
static int relaxRow(const uint16_t *holes, const float *up, const float *row, const float *down, int n,
                    cusStereoBorder border, float *out, float *largest) {
    int step = 1;
    *largest = 0;
    if (n > 2) { /* the two at the ends are left */
        *largest = relaxInside(holes, up ? up : row, row, down ? down : row, n, out);
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
        *largest = change > *largest ? change : *largest;
    }
    return *largest > 0;
}

static cusStatus iterate(const cusMat *holes, cusMat *filled, const cusStereoOptions *o, const StereoScratch *scratch) {
    const int rows = filled->rows, cols = filled->cols, relax = o->fill == CUS_FILL_RELAX;
    cusMat second = CUS_MAT_INIT;
    CUS_TRY(cusMatWrap(&second, rows, cols, filled->type, CUS_HOST, scratch->wide, 0));
    cusMat *from = filled, *to = &second;
    uint8_t *active = scratch->block, *changed = (uint8_t *)scratch->block + rows;
    memset(active, 1, (size_t)rows);
    const int most = threadsFor(filled);
    int any = rows; /* rows that changed: where only a few do, threads cost more than they gain */
    for (int i = 1; i <= o->iterations; ++i) {
        const int threads = any > rows / 4 ? most : 1;
        (void)threads; /* without OpenMP */
        float largest = 0;
        any = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(max : largest) reduction(+ : any)
        for (int y = 0; y < rows; ++y) {
            const int wrap = o->border == CUS_STEREO_WRAP;
            const int up = y > 0 ? y - 1 : wrap ? rows - 1 : -1, down = y + 1 < rows ? y + 1 : wrap ? 0 : -1;
            changed[y] = 0;
            if (!(active[y] | (up >= 0 && active[up]) | (down >= 0 && active[down])))
                continue;
            const void *const u = up >= 0 ? rowOf(from, up) : NULL, *const d = down >= 0 ? rowOf(from, down) : NULL;
            float change = 0;
            changed[y] = (uint8_t)(relax ? relaxRow((const uint16_t *)(const void *)rowOf(holes, y), u,
                                                    (const float *)(const void *)rowOf(from, y), d, cols, o->border,
                                                    (float *)(void *)rowOfMutable(to, y), &change)
                                         : onceRow(u, (const uint16_t *)(const void *)rowOf(from, y), d, cols, o->border,
                                                   (uint16_t *)(void *)rowOfMutable(to, y)));
            largest = change > largest ? change : largest;
            any += changed[y];
        }
        cusMat *const swap = from;
        from = to;
        to = swap;
        uint8_t *const flags = active;
        active = changed;
        changed = flags;
        if (!any || (relax && i % STEREO_ROUND == 0 && largest <= o->tolerance))
            break;
    }
    return from == filled ? CUS_OK : cusMatCopy(from, filled, NULL);
}

cusStatus stereo_host_fill(const cusMat *elevation, cusMat *filled, const cusStereoOptions *o,
                           const StereoScratch *scratch) {
    const int cols = elevation->cols;
    if (o->fill == CUS_FILL_NONE)
        return cusMatCopy(elevation, filled, NULL);
    if (o->fill == CUS_FILL_ONCE) {
        CUS_TRY(cusMatCopy(elevation, filled, NULL));
        return iterate(elevation, filled, o, scratch);
    }
    const int relax = o->fill == CUS_FILL_RELAX;
#pragma omp parallel for schedule(static) num_threads(threadsFor(filled))
    for (int y = 0; y < elevation->rows; ++y) {
        const uint16_t *const in = (const uint16_t *)(const void *)rowOf(elevation, y);
        uint16_t *const row = (uint16_t *)(void *)rowOfMutable(filled, y);
        lowerRow(in, cols, row);
        if (relax) /* in place, from the last */
            for (int x = cols - 1; x >= 0; --x) {
                const float value = row[x];
                memcpy((char *)row + 4 * (size_t)x, &value, 4);
            }
    }
    return relax ? iterate(elevation, filled, o, scratch) : CUS_OK;
}

/* ---- Median ------------------------------------------------------------------------------------------------------------
 * The columns of a window are sorted once for all windows that share them, then its rows. Of 25 values 13 can then still be
 * the median; the exchanges that find it were searched for and checked with all columns of zeros and ones. Floats, none
 * below zero, compare as the integers of their bits.
 */

/* Variables of one type, the smaller to the first. Not arrays, which compilers keep in memory. */
#define SORT(a, b)                                \
    do {                                          \
        const __typeof__(a) low_ = a < b ? a : b; \
        b = a < b ? b : a;                        \
        a = low_;                                 \
    } while (0)
#define SORT3(a, b, c) \
    SORT(a, b);        \
    SORT(b, c);        \
    SORT(a, b)
#define SORT5(a, b, c, d, e) \
    SORT(a, b);              \
    SORT(d, e);              \
    SORT(c, e);              \
    SORT(c, d);              \
    SORT(a, d);              \
    SORT(a, c);              \
    SORT(b, e);              \
    SORT(b, d);              \
    SORT(b, c)

/* The medians around n pixels; rows: from as many pixels before the first on as the window reaches. */
#define MEDIANS(type, name3, name5)                                                                                     \
    CUSI_MULTIVERSION                                                                                                   \
    static void name3(const type *const *rows, int n, type *restrict out) {                                             \
        assert(n > 0 && n <= PIXELS_AT_ONCE);                                                                           \
        type low[PIXELS_AT_ONCE + 4], middle[PIXELS_AT_ONCE + 4], high[PIXELS_AT_ONCE + 4];                             \
        const type *const restrict r0 = rows[0], *const restrict r1 = rows[1], *const restrict r2 = rows[2];            \
        for (int x = 0; x < n + 2; ++x) {                                                                               \
            type a = r0[x], b = r1[x], c = r2[x];                                                                       \
            SORT3(a, b, c);                                                                                             \
            low[x] = a, middle[x] = b, high[x] = c;                                                                     \
        }                                                                                                               \
        for (int x = 0; x < n; ++x) {                                                                                   \
            type v0 = low[x], v1 = low[x + 1], v2 = low[x + 2], v3 = middle[x], v4 = middle[x + 1], v5 = middle[x + 2], \
                 v6 = high[x], v7 = high[x + 1], v8 = high[x + 2];                                                      \
            SORT3(v0, v1, v2);                                                                                          \
            SORT3(v3, v4, v5);                                                                                          \
            SORT3(v6, v7, v8);                                                                                          \
            SORT3(v2, v4, v6);                                                                                          \
            out[x] = v4;                                                                                                \
        }                                                                                                               \
    }                                                                                                                   \
    CUSI_MULTIVERSION                                                                                                   \
    static void name5(const type *const *rows, int n, type *restrict out) {                                             \
        assert(n > 0 && n <= PIXELS_AT_ONCE);                                                                           \
        type sorted[5][PIXELS_AT_ONCE + 4];                                                                             \
        const type *const restrict r0 = rows[0], *const restrict r1 = rows[1], *const restrict r2 = rows[2],            \
                                   *const restrict r3 = rows[3], *const restrict r4 = rows[4];                          \
        for (int x = 0; x < n + 4; ++x) {                                                                               \
            type a = r0[x], b = r1[x], c = r2[x], d = r3[x], e = r4[x];                                                 \
            SORT5(a, b, c, d, e);                                                                                       \
            sorted[0][x] = a, sorted[1][x] = b, sorted[2][x] = c, sorted[3][x] = d, sorted[4][x] = e;                   \
        }                                                                                                               \
        for (int x = 0; x < n; ++x) {                                                                                   \
            type v0 = sorted[0][x], v1 = sorted[0][x + 1], v2 = sorted[0][x + 2], v3 = sorted[0][x + 3],                \
                 v4 = sorted[0][x + 4];                                                                                 \
            type v5 = sorted[1][x], v6 = sorted[1][x + 1], v7 = sorted[1][x + 2], v8 = sorted[1][x + 3],                \
                 v9 = sorted[1][x + 4];                                                                                 \
            type v10 = sorted[2][x], v11 = sorted[2][x + 1], v12 = sorted[2][x + 2], v13 = sorted[2][x + 3],            \
                 v14 = sorted[2][x + 4];                                                                                \
            type v15 = sorted[3][x], v16 = sorted[3][x + 1], v17 = sorted[3][x + 2], v18 = sorted[3][x + 3],            \
                 v19 = sorted[3][x + 4];                                                                                \
            type v20 = sorted[4][x], v21 = sorted[4][x + 1], v22 = sorted[4][x + 2], v23 = sorted[4][x + 3],            \
                 v24 = sorted[4][x + 4];                                                                                \
            SORT5(v0, v1, v2, v3, v4);                                                                                  \
            SORT5(v5, v6, v7, v8, v9);                                                                                  \
            SORT5(v10, v11, v12, v13, v14);                                                                             \
            SORT5(v15, v16, v17, v18, v19);                                                                             \
            SORT5(v20, v21, v22, v23, v24);                                                                             \
            SORT(v8, v15);                                                                                              \
            SORT(v11, v8);                                                                                              \
            SORT(v11, v7);                                                                                              \
            SORT(v21, v17);                                                                                             \
            SORT(v15, v17);                                                                                             \
            SORT(v16, v12);                                                                                             \
            SORT(v8, v7);                                                                                               \
            SORT(v21, v13);                                                                                             \
            SORT(v7, v9);                                                                                               \
            SORT(v16, v15);                                                                                             \
            SORT(v21, v12);                                                                                             \
            SORT(v7, v16);                                                                                              \
            SORT(v12, v9);                                                                                              \
            SORT(v16, v3);                                                                                              \
            SORT(v21, v15);                                                                                             \
            SORT(v16, v21);                                                                                             \
            SORT(v12, v3);                                                                                              \
            SORT(v15, v3);                                                                                              \
            SORT(v21, v4);                                                                                              \
            SORT(v21, v12);                                                                                             \
            SORT(v15, v4);                                                                                              \
            SORT(v12, v20);                                                                                             \
            SORT(v15, v20);                                                                                             \
            out[x] = v15;                                                                                               \
        }                                                                                                               \
    }
MEDIANS(uint16_t, median3x16, median5x16)
MEDIANS(uint32_t, median3x32, median5x32)

/* Columns x .. x + n - 1 of a row of elements of `bytes` bytes; beyond the ends, those at the ends. */
static void loadClamped(const uint8_t *row, int cols, int64_t x, int n, size_t bytes, uint8_t *out) {
    const int before = x < 0 ? (int)-x : 0;
    const int inside = cols - x < n ? (int)(cols - x) - before : n - before;
    memcpy(out + (size_t)before * bytes, row + (size_t)(x + before) * bytes, (size_t)inside * bytes);
    for (int k = 0; k < before; ++k)
        memcpy(out + (size_t)k * bytes, row, bytes);
    for (int k = before + inside; k < n; ++k)
        memcpy(out + (size_t)k * bytes, row + (size_t)(cols - 1) * bytes, bytes);
}

cusStatus stereo_host_median(const cusMat *elevation, cusMat *smoothed, int size) {
    const int radius = size / 2, rows = elevation->rows, cols = elevation->cols;
    const size_t bytes = cusTypeSize(elevation->type);
#pragma omp parallel for schedule(static) num_threads(threadsFor(elevation))
    for (int y = 0; y < rows; ++y) {
        uint32_t padded[5][PIXELS_AT_ONCE + 4]; /* 16 or 32 bits an element */
        const uint16_t *const narrow[5] = {(uint16_t *)padded[0], (uint16_t *)padded[1], (uint16_t *)padded[2],
                                           (uint16_t *)padded[3], (uint16_t *)padded[4]};
        const uint32_t *const wide[5] = {padded[0], padded[1], padded[2], padded[3], padded[4]};
        for (int x = 0; x < cols; x += PIXELS_AT_ONCE) {
            const int n = cols - x < PIXELS_AT_ONCE ? cols - x : PIXELS_AT_ONCE;
            for (int i = 0; i < size; ++i) {
                const int64_t at = (int64_t)y + i - radius;
                const int inside = at < 0 ? 0 : at < rows ? (int)at : rows - 1;
                loadClamped(rowOf(elevation, inside), cols, (int64_t)x - radius, n + 2 * radius, bytes,
                            (uint8_t *)padded[i]);
            }
            uint8_t *const out = rowOfMutable(smoothed, y) + (size_t)x * bytes;
            if (bytes == 2)
                (size == 3 ? median3x16 : median5x16)(narrow, n, (uint16_t *)(void *)out);
            else
                (size == 3 ? median3x32 : median5x32)(wide, n, (uint32_t *)(void *)out);
        }
    }
    return CUS_OK;
}

/* ---- Contours and picture ----------------------------------------------------------------------------------------------
 */

typedef struct Range {
    float min, max; /* whole numbers below 2^24 are exact */
} Range;

/* The least and the largest of a row, lane by lane. */
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
#pragma omp parallel for schedule(static) num_threads(threadsFor(elevation)) reduction(min : min) reduction(max : max)
    for (int y = 0; y < elevation->rows; ++y) {
        const void *const row = rowOf(elevation, y);
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

/* Into which of `levels` bands values fall. Of whole numbers those in a small range are looked up. */
typedef struct Bands {
    Range range;
    uint32_t levels;
    int type, looked_up;
    uint16_t table[1024];
} Bands;

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
        out[x] = (uint16_t)(band < (float)levels ? (uint32_t)band : levels); /* NaN and infinity, too */
    }
}

/* Of n elements of a row from column x on. */
static void bandsOfRow(const Bands *b, const void *row, int x, int n, uint16_t *out) {
    const uint16_t *const values = (const uint16_t *)row + x;
    const uint32_t min = (uint32_t)b->range.min;
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

/* here: of n + 1 pixels. */
CUSI_MULTIVERSION
static void crossings(const uint16_t *restrict here, const uint16_t *restrict below, int n, uint8_t *restrict out) {
    for (int x = 0; x < n; ++x)
        out[x] = ((here[x] != here[x + 1]) | (here[x] != below[x])) ? 255 : 0;
}

cusStatus stereo_host_contours(const cusMat *elevation, cusMat *contours, const cusStereoOptions *options) {
    const Bands bands = bandsOf(elevation, (uint32_t)options->levels);
    const int rows = elevation->rows, cols = elevation->cols;
    const uint32_t low = (uint32_t)bands.range.min, width = ((uint32_t)bands.range.max - low) / bands.levels;
    const uint32_t interval = width ? width : 1;
    uint8_t lines[sizeof bands.table / sizeof *bands.table]; /* MODULO, by value */
    for (uint32_t k = 0; k < sizeof lines; ++k)
        lines[k] = k % interval == 0 ? 255 : 0;
#pragma omp parallel for schedule(static) num_threads(threadsFor(elevation))
    for (int y = 0; y < rows; ++y) {
        const void *const row = rowOf(elevation, y), *const below = y + 1 < rows ? rowOf(elevation, y + 1) : row;
        const uint16_t *const narrow = row;
        const float *const wide = row;
        uint8_t *const out = rowOfMutable(contours, y);
        if (options->lines == CUS_LINES_MODULO) {
            for (int x = 0; x < cols; ++x)
                out[x] = bands.looked_up ? lines[narrow[x] - low]
                         : ((bands.type == CUS_32FC1 ? (uint32_t)wide[x] : narrow[x]) - low) % interval == 0 ? 255
                                                                                                             : 0;
            continue;
        }
        for (int x = 0; x < cols; x += PIXELS_AT_ONCE) {
            uint16_t here[PIXELS_AT_ONCE + 1], lower[PIXELS_AT_ONCE];
            const int n = cols - x < PIXELS_AT_ONCE ? cols - x : PIXELS_AT_ONCE, end = x + n == cols;
            bandsOfRow(&bands, row, x, end ? n : n + 1, here);
            if (end) /* nothing to the right of the last */
                here[n] = here[n - 1];
            bandsOfRow(&bands, below, x, n, lower);
            crossings(here, lower, n, out + x);
        }
    }
    return CUS_OK;
}

cusStatus stereo_host_picture(const cusMat *elevation, const cusMat *contours, cusMat *picture) {
    const Bands bands = bandsOf(elevation, STEREO_COLORS - 1);
    const int cols = elevation->cols;
    uint32_t colors[STEREO_COLORS];
    for (uint32_t k = 0; k < STEREO_COLORS; ++k)
        colors[k] = stereo_color(k);
#pragma omp parallel for schedule(static) num_threads(threadsFor(elevation))
    for (int y = 0; y < elevation->rows; ++y) {
        const void *const row = rowOf(elevation, y);
        const uint8_t *const lines = contours ? rowOf(contours, y) : NULL;
        uint8_t *const out = rowOfMutable(picture, y);
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
