#include "check.h"
#include "host.h"
#include "stereo_backend.h"

#include <math.h>
#include <string.h>

/* An image's tile: 512 columns keep the rows of one shift in the first-level cache. */
enum { TILE_ROWS = 64, TILE_COLS = 512, REACH = CUS_STEREO_MAX_WINDOW - 1 };
enum { LEFT_COLS = TILE_COLS + REACH, RIGHT_COLS = LEFT_COLS + CUS_STEREO_MAX_SHIFTS - 1 };

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

/* u, m, d: the rows above, of and below n pixels, pixel x at index x + 1. */
CUSI_MULTIVERSION
static void edges8(const uint8_t *restrict u, const uint8_t *restrict m, const uint8_t *restrict d, int n, float threshold,
                   uint8_t *restrict out) {
    for (int x = 0; x < n; ++x) {
        const int a0 = u[x] + m[x] + d[x], b0 = u[x + 2] + m[x + 2] + d[x + 2];
        const int a1 = u[x] + u[x + 1] + u[x + 2], b1 = d[x] + d[x + 1] + d[x + 2];
        const int a2 = u[x] + u[x + 1] + m[x], b2 = d[x + 2] + d[x + 1] + m[x + 2];
        const int a3 = d[x] + d[x + 1] + m[x], b3 = u[x + 2] + u[x + 1] + m[x + 2];
#define EDGE(a, b) ((float)(2 * ((a) > (b) ? (a) - (b) : (b) - (a))) > threshold * (float)((a) + (b)))
        out[x] = (EDGE(a0, b0) | EDGE(a1, b1) | EDGE(a2, b2) | EDGE(a3, b3)) ? 255 : 0;
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
#define EDGE(a, b)  (fabsf((a) - (b)) > (LIMIT(a, b) < 3.0f ? LIMIT(a, b) : 3.0f))
        out[x] = (EDGE(a0, b0) | EDGE(a1, b1) | EDGE(a2, b2) | EDGE(a3, b3)) ? 255 : 0;
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
 * A tile and a shift at a time: agreements of a row as bytes; their horizontal window sums by doubling (sums of 1, 2, 4,
 * ... neighbours, of which the window's binary digits pick); these run down the columns, the row that enters is added and
 * the one that leaves is taken from a ring. All loops run over a row and are vectorised.
 */

typedef struct Tile {
    uint8_t left[TILE_ROWS + REACH][LEFT_COLS], right[TILE_ROWS + REACH][RIGHT_COLS];
    uint8_t agree[LEFT_COLS];
    uint16_t doubled[2][LEFT_COLS];
    uint16_t ring[CUS_STEREO_MAX_WINDOW][TILE_COLS]; /* horizontal sums of the rows in the window */
    uint16_t score[TILE_COLS], counted[TILE_COLS];
    uint16_t best[TILE_ROWS][TILE_COLS], elevation[TILE_ROWS][TILE_COLS];
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

/* sum[x] = agree[x] + ... + agree[x + window - 1] for x in 0..n-1; agree has n + window - 1 elements. */
CUSI_MULTIVERSION
static void windowSums(const uint8_t *restrict agree, int n, int window, uint16_t *restrict one, uint16_t *restrict other,
                       uint16_t *restrict sum) {
    int have = n + window - 1, at = 1;
    for (int x = 0; x < have; ++x)
        one[x] = agree[x];
    for (int x = 0; x < n; ++x)
        sum[x] = one[x]; /* the window is odd */
    for (int digit = 1; 2 * digit <= window; digit *= 2) {
        have -= digit;
        for (int x = 0; x < have; ++x)
            other[x] = (uint16_t)(one[x] + one[x + digit]);
        uint16_t *const swap = one;
        one = other;
        other = swap;
        if (window & (2 * digit)) {
            for (int x = 0; x < n; ++x)
                sum[x] = (uint16_t)(sum[x] + one[x + at]);
            at += 2 * digit;
        }
    }
}

CUSI_MULTIVERSION
static void addRow(uint16_t *restrict score, const uint16_t *restrict row, int n) {
    for (int x = 0; x < n; ++x)
        score[x] = (uint16_t)(score[x] + row[x]);
}

CUSI_MULTIVERSION
static void subtractRow(uint16_t *restrict score, const uint16_t *restrict row, int n) {
    for (int x = 0; x < n; ++x)
        score[x] = (uint16_t)(score[x] - row[x]);
}

/* Where `centre` is 0 the score does not count. */
CUSI_MULTIVERSION
static void maskScore(const uint16_t *restrict score, const uint8_t *restrict centre, int n, uint16_t *restrict counted) {
    for (int x = 0; x < n; ++x)
        counted[x] = (uint16_t)(score[x] & -(uint16_t)centre[x]);
}

/* Equal scores: the later, larger shift wins, unless it has to beat the best by one. */
CUSI_MULTIVERSION
static void takeBest(const uint16_t *restrict score, int n, uint16_t elevation, uint16_t handicap, uint16_t *restrict best,
                     uint16_t *restrict best_elevation) {
    for (int x = 0; x < n; ++x) {
        const uint16_t least = (uint16_t)(best[x] + handicap);
        const uint16_t needed = least > 1 ? least : 1;
        best_elevation[x] = score[x] >= needed ? elevation : best_elevation[x];
        best[x] = score[x] > best[x] ? score[x] : best[x];
    }
}

/* Agreements of the tile's row `row` (counted from the window's reach above it) for shift s, all of them. */
static void tileAgreements(Tile *tile, int row, int64_t y, int64_t x, int cols_needed, int s, const cusMat *mat,
                           const cusStereoOptions *o, uint8_t *agree) {
    int from = 0, end = cols_needed;
    if (o->border == CUS_STEREO_ZERO) { /* both the left pixel and its partner lie inside */
        const int64_t partner = x + o->direction * s;
        const int64_t low = -(x < partner ? x : partner), high = mat->cols - (x > partner ? x : partner);
        from = (int)(low < 0 ? 0 : low > cols_needed ? cols_needed : low);
        end = (int)(high < from ? from : high > cols_needed ? cols_needed : high);
        if (y < 0 || y >= mat->rows)
            end = from;
        memset(agree, 0, (size_t)cols_needed);
    }
    const int offset = o->direction > 0 ? s : o->shifts - 1 - s;
    if (end > from)
        agreements(tile->left[row] + from, tile->right[row] + offset + from, end - from, o->agreement, agree + from);
}

static void elevationTile(Tile *tile, const cusMat *left, const cusMat *right, uint16_t *out, size_t out_step, int y0,
                          int x0, int rows, int cols, const cusStereoOptions *o) {
    const int radius = o->window / 2, reach = 2 * radius;
    const int binary = o->agreement != CUS_STEREO_SIGNS;
    const int64_t x = (int64_t)x0 - radius, right_x = o->direction > 0 ? x : x - (o->shifts - 1);
    for (int r = 0; r < rows + reach; ++r) {
        const int64_t y = (int64_t)y0 - radius + r;
        loadTileRow(left, y, x, cols + reach, o->border, binary, tile->left[r]);
        loadTileRow(right, y, right_x, cols + reach + o->shifts - 1, o->border, binary, tile->right[r]);
    }
    memset(tile->best, 0, sizeof tile->best);
    memset(tile->elevation, 0, sizeof tile->elevation);
    for (int s = 0; s < o->shifts; ++s) {
        memset(tile->score, 0, sizeof tile->score);
        for (int r = 0; r < rows + reach; ++r) {
            uint16_t *const ring = tile->ring[r % o->window];
            if (r >= o->window)
                subtractRow(tile->score, ring, cols);
            tileAgreements(tile, r, (int64_t)y0 - radius + r, x, cols + reach, s, left, o, tile->agree);
            windowSums(tile->agree, cols, o->window, tile->doubled[0], tile->doubled[1], ring);
            addRow(tile->score, ring, cols);
            if (r < reach)
                continue;
            const int row = r - reach;
            if (binary && radius > 0) /* the row of the pixel itself came in `radius` rows ago */
                tileAgreements(tile, row + radius, (int64_t)y0 + row, x, cols + reach, s, left, o, tile->agree);
            if (binary)
                maskScore(tile->score, tile->agree + radius, cols, tile->counted);
            takeBest(binary ? tile->counted : tile->score, cols, (uint16_t)(s + 1), (uint16_t)o->smaller_shift,
                     tile->best[row], tile->elevation[row]);
        }
    }
    for (int row = 0; row < rows; ++row)
        memcpy((char *)out + (size_t)(y0 + row) * out_step + 2 * (size_t)x0, tile->elevation[row], 2 * (size_t)cols);
}

size_t stereo_host_scratchBytes(int stages, int rows, int cols, const cusStereoOptions *options, int threads) {
    (void)cols;
    (void)options;
    const size_t tiles = stages & STEREO_ELEVATION ? (size_t)threads * sizeof(Tile) : 0;
    const size_t flags = stages & STEREO_FILL ? 2 * (size_t)rows : 0;
    return tiles > flags ? tiles : flags;
}

static void oneWay(const cusMat *left, const cusMat *right, uint16_t *out, size_t step, const cusStereoOptions *o,
                   const StereoScratch *scratch) {
    Tile *const tiles = scratch->block;
    const int down = (left->rows + TILE_ROWS - 1) / TILE_ROWS, across = (left->cols + TILE_COLS - 1) / TILE_COLS;
    const int64_t count = (int64_t)down * across;
    const int threads = count < scratch->threads ? (int)count : scratch->threads;
    /* One iteration a thread: each has its own buffers whatever thread runs it. */
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int t = 0; t < threads; ++t)
        for (int64_t i = t; i < count; i += threads) {
            const int y = (int)(i / across) * TILE_ROWS, x = (int)(i % across) * TILE_COLS;
            elevationTile(&tiles[t], left, right, out, step, y, x, left->rows - y < TILE_ROWS ? left->rows - y : TILE_ROWS,
                          left->cols - x < TILE_COLS ? left->cols - x : TILE_COLS, o);
        }
}

cusStatus stereo_host_elevation(const cusMat *left, const cusMat *right, cusMat *elevation, const cusStereoOptions *options,
                                const StereoScratch *scratch) {
    oneWay(left, right, elevation->data, elevation->step, options, scratch);
    if (options->check < 0)
        return CUS_OK;
    cusStereoOptions back = *options;
    back.direction = -options->direction;
    oneWay(right, left, scratch->other, 2 * (size_t)left->cols, &back, scratch);
    const int cols = left->cols;
#pragma omp parallel for schedule(static) num_threads(threadsFor(elevation))
    for (int y = 0; y < elevation->rows; ++y) {
        uint16_t *const row = (uint16_t *)(void *)rowOfMutable(elevation, y);
        const uint16_t *const other = scratch->other + (size_t)y * (size_t)cols;
        for (int x = 0; x < cols; ++x) {
            if (row[x] == 0)
                continue;
            const int64_t at = (int64_t)x + options->direction * (row[x] - 1);
            int partner = 0;
            if (at >= 0 && at < cols)
                partner = other[at];
            else if (options->border == CUS_STEREO_WRAP)
                partner = other[wrapped(at, cols)];
            const int difference = partner > row[x] ? partner - row[x] : row[x] - partner;
            if (partner == 0 || difference > options->check)
                row[x] = 0;
        }
    }
    return CUS_OK;
}

/* ---- Fill --------------------------------------------------------------------------------------------------------------
 * Two buffers take turns. A row is computed only where it or a row beside it changed in the iteration before; elsewhere
 * both buffers hold the same already.
 */

/* The smaller of the nearest elevations to both sides. */
static void lowerRow(const uint16_t *holes, int n, uint16_t *out) {
    uint16_t nearest = 0;
    for (int x = 0; x < n; ++x) {
        nearest = holes[x] ? holes[x] : nearest;
        out[x] = nearest;
    }
    nearest = 0;
    for (int x = n - 1; x >= 0; --x) {
        nearest = holes[x] ? holes[x] : nearest;
        if (nearest && (out[x] == 0 || nearest < out[x]))
            out[x] = nearest;
    }
}

/* up, down: NULL beyond a ZERO border. Returns whether anything changed. */
static int onceRow(const uint16_t *up, const uint16_t *row, const uint16_t *down, int n, cusStereoBorder border,
                   uint16_t *out) {
    int changed = 0;
    for (int x = 0; x < n; ++x) {
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

static int relaxRow(const uint16_t *holes, const float *up, const float *row, const float *down, int n,
                    cusStereoBorder border, float *out, float *largest) {
    int changed = 0;
    for (int x = 0; x < n; ++x) {
        out[x] = row[x];
        if (holes[x])
            continue;
        const float l = x > 0 ? row[x - 1] : border == CUS_STEREO_WRAP ? row[n - 1] : row[x];
        const float r = x + 1 < n ? row[x + 1] : border == CUS_STEREO_WRAP ? row[0] : row[x];
        const float across = l + r, along = (up ? up[x] : row[x]) + (down ? down[x] : row[x]);
        out[x] = (across + along) * 0.25f;
        const float change = fabsf(out[x] - row[x]);
        *largest = change > *largest ? change : *largest;
        changed |= change != 0;
    }
    return changed;
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
 * Forgetful selection, many pixels at a time: of the first half plus two of the values the smallest and the largest cannot
 * be the median; they are dropped and the next value comes in, until three are left. Floats, none below zero, compare as
 * the integers of their bits.
 */

#define MEDIAN(name, type)                                                    \
    CUSI_MULTIVERSION                                                         \
    static void name(const type *const *rows, int size, type *restrict out) { \
        type v[14][PIXELS_AT_ONCE / 4];                                       \
        enum { N = PIXELS_AT_ONCE / 4 };                                      \
        const int total = size * size;                                        \
        int kept = total / 2 + 2, next = kept;                                \
        for (int k = 0; k < kept; ++k)                                        \
            for (int i = 0; i < N; ++i)                                       \
                v[k][i] = rows[k / size][i + k % size];                       \
        for (;;) { /* smallest to the front, largest to the back */           \
            for (int k = 0; k + 1 < kept; ++k)                                \
                for (int i = 0; i < N; ++i) {                                 \
                    const type a = v[k][i], b = v[k + 1][i];                  \
                    v[k][i] = a < b ? a : b;                                  \
                    v[k + 1][i] = a < b ? b : a;                              \
                }                                                             \
            for (int k = kept - 2; k > 0; --k)                                \
                for (int i = 0; i < N; ++i) {                                 \
                    const type a = v[k - 1][i], b = v[k][i];                  \
                    v[k - 1][i] = a < b ? a : b;                              \
                    v[k][i] = a < b ? b : a;                                  \
                }                                                             \
            if (next == total)                                                \
                break;                                                        \
            for (int i = 0; i < N; ++i)                                       \
                v[0][i] = rows[next / size][i + next % size];                 \
            ++next;                                                           \
            --kept;                                                           \
        }                                                                     \
        memcpy(out, v[1], sizeof v[1]);                                       \
    }
MEDIAN(median16, uint16_t)
MEDIAN(median32, uint32_t)

cusStatus stereo_host_median(const cusMat *elevation, cusMat *smoothed, int size) {
    enum { N = PIXELS_AT_ONCE / 4 };
    const int radius = size / 2, rows = elevation->rows, cols = elevation->cols;
    const size_t bytes = cusTypeSize(elevation->type);
#pragma omp parallel for schedule(static) num_threads(threadsFor(elevation))
    for (int y = 0; y < rows; ++y) {
        uint32_t padded[5][N + 4], out[N]; /* 16 or 32 bits an element */
        const void *lines[5];
        for (int x = 0; x < cols; x += N) {
            for (int i = 0; i < size; ++i) {
                const int64_t at = (int64_t)y + i - radius;
                const uint8_t *const row = rowOf(elevation, (int)(at < 0 ? 0 : at >= rows ? rows - 1 : at));
                lines[i] = padded[i];
                for (int k = 0; k < N + 2 * radius; ++k) {
                    const int64_t column = (int64_t)x + k - radius;
                    memcpy((char *)padded[i] + (size_t)k * bytes,
                           row + (size_t)(column < 0       ? 0
                                          : column >= cols ? cols - 1
                                                           : column) *
                                     bytes,
                           bytes);
                }
            }
            if (bytes == 2)
                median16((const uint16_t *const *)(const void *)lines, size, (uint16_t *)out);
            else
                median32((const uint32_t *const *)(const void *)lines, size, out);
            memcpy(rowOfMutable(smoothed, y) + (size_t)x * bytes, out, (size_t)(cols - x < N ? cols - x : N) * bytes);
        }
    }
    return CUS_OK;
}

/* ---- Contours and picture ----------------------------------------------------------------------------------------------
 */

typedef struct Range {
    float min, max; /* whole numbers below 2^24 are exact */
} Range;

static float valueAt(const void *row, int x, int type) {
    return type == CUS_32FC1 ? ((const float *)row)[x] : ((const uint16_t *)row)[x];
}

static Range rangeOf(const cusMat *elevation) {
    float min = INFINITY, max = -INFINITY;
#pragma omp parallel for schedule(static) num_threads(threadsFor(elevation)) reduction(min : min) reduction(max : max)
    for (int y = 0; y < elevation->rows; ++y) {
        const void *const row = rowOf(elevation, y);
        for (int x = 0; x < elevation->cols; ++x) {
            const float e = valueAt(row, x, elevation->type);
            min = e < min ? e : min;
            max = e > max ? e : max;
        }
    }
    return (Range){min, max};
}

/* Which of `levels` bands a value lies in. */
static uint32_t band(float e, Range range, uint32_t levels, int type) {
    if (!(range.max > range.min))
        return 0;
    if (type == CUS_32FC1) {
        const float width = range.max - range.min, scale = (float)levels / width, above = e - range.min;
        return (uint32_t)(above * scale);
    }
    return (uint32_t)(e - range.min) * levels / (uint32_t)(range.max - range.min);
}

cusStatus stereo_host_contours(const cusMat *elevation, cusMat *contours, const cusStereoOptions *options) {
    const Range range = rangeOf(elevation);
    const int type = elevation->type, rows = elevation->rows, cols = elevation->cols;
    const uint32_t levels = (uint32_t)options->levels, low = (uint32_t)range.min;
    const uint32_t width = ((uint32_t)range.max - low) / levels, interval = width ? width : 1;
#pragma omp parallel for schedule(static) num_threads(threadsFor(elevation))
    for (int y = 0; y < rows; ++y) {
        const void *const row = rowOf(elevation, y), *const below = y + 1 < rows ? rowOf(elevation, y + 1) : row;
        uint8_t *const out = rowOfMutable(contours, y);
        if (options->lines == CUS_LINES_MODULO) {
            for (int x = 0; x < cols; ++x)
                out[x] = ((uint32_t)valueAt(row, x, type) - low) % interval == 0 ? 255 : 0;
            continue;
        }
        uint32_t here = band(valueAt(row, 0, type), range, levels, type);
        for (int x = 0; x < cols; ++x) {
            const uint32_t right = x + 1 < cols ? band(valueAt(row, x + 1, type), range, levels, type) : here;
            const uint32_t lower = band(valueAt(below, x, type), range, levels, type);
            out[x] = here != right || here != lower ? 255 : 0;
            here = right;
        }
    }
    return CUS_OK;
}

cusStatus stereo_host_picture(const cusMat *elevation, const cusMat *contours, cusMat *picture) {
    const Range range = rangeOf(elevation);
    const int type = elevation->type;
#pragma omp parallel for schedule(static) num_threads(threadsFor(elevation))
    for (int y = 0; y < elevation->rows; ++y) {
        const void *const row = rowOf(elevation, y);
        const uint8_t *const lines = contours ? rowOf(contours, y) : NULL;
        uint8_t *const out = rowOfMutable(picture, y);
        for (int x = 0; x < elevation->cols; ++x) {
            const float e = valueAt(row, x, type);
            const int black = e == 0 || (lines && lines[x]);
            const uint32_t colour = black ? 0 : stereo_colour(band(e, range, STEREO_COLOURS - 1, type));
            for (int c = 0; c < 3; ++c)
                out[3 * (size_t)x + (size_t)c] = (uint8_t)(colour >> (8 * c));
        }
    }
    return CUS_OK;
}
