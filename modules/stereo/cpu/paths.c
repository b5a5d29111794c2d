/* Finds elevations on the host by semi-global matching: aggregation PATHS.
 *
 * A pixel has `lanes` costs, one a shift, and every path keeps as many sums for each pixel of a row. All loops run along
 * the shifts and are vectorized. Costs are never stored whole: the windows' columns are summed as bytes, a row that
 * enters is added and one that leaves is subtracted, and each sweep makes them anew. What all paths sum up to is the one
 * large array. It takes four sweeps: paths along rows, whose rows are independent; downward paths and upward paths, a row
 * after the other, on threads that each have some of the columns; and the choice of the best shift in both images.
 */
#include "stereo/cpu/rows.h"

enum { LANES = STEREO_GROUP, BAND_ROWS = 32, DIRECTIONS = 3 };

typedef struct Paths {
    const cusMat *left, *right;
    const cusStereoOptions *options;
    int rows, cols, shifts, lanes, radius, threads;
    int pitch;           /* of a pixel's sums of one path: `lanes`, and `far` before and after them */
    const cusMat *image; /* where the gradient is taken; may be NULL */
    uint16_t p1, p2, slope;
    uint16_t full;      /* the cost of a window that agrees nowhere */
    uint16_t *sums;     /* of all paths and pixels */
    uint16_t far;       /* the cost of shifts that are not tried, from which no path comes */
    uint16_t *path[2];  /* sums of DIRECTIONS paths for columns -1..cols, of even and of odd rows */
    uint16_t *least[2]; /* the smallest ones of each pixel */
    char *of_threads;
    size_t sum_bytes, path_bytes, least_bytes, thread_bytes; /* of each of these */
} Paths;

/* Columns x0 .. x0 + n - 1 of a row, and what they need. */
typedef struct Strip {
    int x0, n;
    uint8_t *columns; /* agreements of the window's rows, [n + 2 radius][lanes] */
    uint8_t *left, *right;
    uint16_t *costs;      /* [n][lanes] */
    uint16_t *along;      /* sums of one path, of this pixel and the last one */
    uint16_t *p2;         /* of the step to each column, and of the one beyond the last; [cols + 1] */
    uint32_t *right_best; /* of one row */
} Strip;

static size_t alignUp(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static Paths pathsOf(int rows, int cols, const cusStereoOptions *o, int threads) {
    Paths p = {.options = o, .rows = rows, .cols = cols, .shifts = o->shifts, .radius = o->window / 2, .threads = threads};
    p.lanes = stereo_lanes(o);
    p.pitch = p.lanes + 2 * LANES;
    p.full = (uint16_t)(8 * o->window * o->window);
    p.p1 = (uint16_t)stereo_p1(o);
    p.p2 = (uint16_t)stereo_p2(o);
    p.slope = (uint16_t)o->p2_slope;
    p.far = (uint16_t)stereo_farSum(o);
    const size_t wide = (size_t)cols + 2 * (size_t)p.radius, lanes = (size_t)p.lanes, pitch = (size_t)p.pitch;
    p.sum_bytes = alignUp(2 * (size_t)rows * (size_t)cols * lanes);
    p.path_bytes = alignUp(2 * DIRECTIONS * ((size_t)cols + 2) * pitch);
    p.least_bytes = alignUp(2 * DIRECTIONS * ((size_t)cols + 2));
    p.thread_bytes = alignUp(wide * lanes) + 2 * alignUp(wide + lanes) + alignUp(2 * (size_t)cols * lanes) +
                     alignUp(4 * pitch) + alignUp(2 * ((size_t)cols + 1)) + alignUp(4 * ((size_t)cols + lanes));
    return p;
}

static void layOut(Paths *p, char *block) {
    p->sums = (uint16_t *)(void *)block;
    block += p->sum_bytes;
    for (int i = 0; i < 2; ++i, block += p->path_bytes + p->least_bytes) {
        p->path[i] = (uint16_t *)(void *)block;
        p->least[i] = (uint16_t *)(void *)(block + p->path_bytes);
    }
    p->of_threads = block;
}

size_t stereo_host_pathBytes(int rows, int cols, const cusStereoOptions *options, int threads) {
    const Paths p = pathsOf(rows, cols, options, threads);
    return p.sum_bytes + 2 * (p.path_bytes + p.least_bytes) + (size_t)threads * p.thread_bytes;
}

static Strip stripOf(const Paths *p, int thread, int x0, int n) {
    const size_t lanes = (size_t)p->lanes, wide = (size_t)p->cols + 2 * (size_t)p->radius, pitch = (size_t)p->pitch;
    char *at = p->of_threads + (size_t)thread * p->thread_bytes;
    Strip s = {.x0 = x0, .n = n};
    s.columns = (uint8_t *)at;
    s.left = (uint8_t *)(at += alignUp(wide * lanes));
    s.right = (uint8_t *)(at += alignUp(wide + lanes));
    s.costs = (uint16_t *)(void *)(at += alignUp(wide + lanes));
    s.along = (uint16_t *)(void *)(at += alignUp(2 * (size_t)p->cols * lanes));
    s.p2 = (uint16_t *)(void *)(at += alignUp(4 * pitch));
    s.right_best = (uint32_t *)(void *)(at + alignUp(2 * ((size_t)p->cols + 1)));
    return s;
}

/* ---- Costs ----------------------------------------------------------------------------------------------------------- */

/* Adds the agreements of the code l with n codes to sums, or subtracts them if sign is -1. */
CUSI_MULTIVERSION
static void countAgreements(uint8_t l, const uint8_t *restrict r, int n, int sign, uint8_t *restrict sums) {
    const uint8_t flip = (uint8_t)(sign < 0 ? 255 : 0), one = (uint8_t)(sign < 0 ? 1 : 0);
    for (int s = 0; s < n; ++s) {
        uint8_t d = l ^ r[s];
        d = (uint8_t)(d - ((d >> 1) & 0x55));
        d = (uint8_t)((d & 0x33) + ((d >> 2) & 0x33));
        d = (uint8_t)(8 - ((d + (d >> 4)) & 0x0f));
        sums[s] = (uint8_t)(sums[s] + (d ^ flip) + one);
    }
}

/* Does the same for n shifts whose pixel or match lies outside. */
CUSI_MULTIVERSION
static void countOutside(int n, int sign, uint8_t *sums) {
    for (int s = 0; s < n; ++s)
        sums[s] = (uint8_t)(sums[s] + sign * STEREO_OUTSIDE);
}

/* Adds the agreements of row y to the strip's columns, or subtracts them. */
static void addRow(const Paths *p, const Strip *strip, int64_t y, int sign) {
    const cusStereoOptions *o = p->options;
    const int wrapped = o->border == CUS_STEREO_WRAP, forward = o->direction > 0;
    const int wide = strip->n + 2 * p->radius, reach = wide + p->shifts - 1;
    const int64_t from = (int64_t)strip->x0 - p->radius;
    if (!wrapped && (y < 0 || y >= p->rows)) {
        for (int c = 0; c < wide; ++c)
            countOutside(p->shifts, sign, strip->columns + (size_t)c * (size_t)p->lanes);
        return;
    }
    stereo_host_load(p->left, y, from, wide, o->border, strip->left);
    stereo_host_load(p->right, y, from - (forward ? 0 : p->shifts - 1), reach, o->border, strip->right);
    for (int i = 0; !forward && i < reach / 2; ++i) { /* the matches of a pixel lie in the order of the shifts */
        const uint8_t swap = strip->right[i];
        strip->right[i] = strip->right[reach - 1 - i];
        strip->right[reach - 1 - i] = swap;
    }
    for (int c = 0; c < wide; ++c) {
        const int64_t x = from + c, inside = x < 0 || x >= p->cols ? 0 : forward ? p->cols - x : x + 1;
        const int valid = wrapped || inside > p->shifts ? p->shifts : (int)inside;
        uint8_t *const sums = strip->columns + (size_t)c * (size_t)p->lanes;
        countAgreements(strip->left[c], strip->right + (forward ? c : wide - 1 - c), valid, sign, sums);
        countOutside(p->shifts - valid, sign, sums + valid);
    }
}

/* Slides windows along the columns of a row. Lanes beyond the shifts keep what the first pixel has. */
CUSI_MULTIVERSION
static void slideWindows(const uint8_t *restrict columns, int n, int lanes, int window, uint16_t *restrict costs) {
    const uint8_t *const enter = columns + (size_t)window * (size_t)lanes;
    const size_t all = (size_t)(n - 1) * (size_t)lanes;
    uint16_t *const restrict now = costs + lanes;
    for (size_t i = 0; i < all; i += (size_t)lanes)
        for (size_t k = i; k < i + (size_t)lanes; ++k)
            now[k] = (uint16_t)(costs[k] + columns[k] - enter[k]);
}

/* Makes the costs of row y. previous: the row that the columns have, or a row far away. */
static void costsOfRow(const Paths *p, const Strip *strip, int64_t y, int64_t previous) {
    const int radius = p->radius, window = 2 * radius + 1, lanes = p->lanes;
    if (previous == y - 1) {
        addRow(p, strip, y + radius, 1);
        addRow(p, strip, previous - radius, -1);
    } else if (previous == y + 1) {
        addRow(p, strip, y - radius, 1);
        addRow(p, strip, previous + radius, -1);
    } else {
        memset(strip->columns, 0, (size_t)(strip->n + 2 * radius) * (size_t)lanes);
        for (int k = -radius; k <= radius; ++k)
            addRow(p, strip, y + k, 1);
    }
    for (int s = 0; s < lanes; ++s) {
        int cost = s < p->shifts ? p->full : p->far;
        for (int c = 0; c < window; ++c)
            cost -= strip->columns[c * lanes + s];
        strip->costs[s] = (uint16_t)cost;
    }
    slideWindows(strip->columns, strip->n, lanes, window, strip->costs);
}

/* ---- Paths ----------------------------------------------------------------------------------------------------------- */

/* P2 of the steps to the columns x .. x + n of row y, which come from the pixel (dx, dy) before. Paths that come from
 * outside begin there, with any P2. */
static void penalties(const Paths *p, int y, int x, int n, int dy, int dx, uint16_t *p2) {
    const int from_y = y - dy, inside = from_y >= 0 && from_y < p->rows;
    for (int i = 0; i <= n; ++i)
        p2[i] = p->p2;
    if (!p->image || !inside)
        return;
    const int type = p->image->type;
    const size_t size = cusTypeSize(type);
    const uint8_t *const here = stereo_host_row(p->image, y), *const before = stereo_host_row(p->image, from_y);
    for (int i = 0; i <= n; ++i) {
        const int to = x + i, from = to - dx;
        if (to < p->cols && from >= 0 && from < p->cols)
            p2[i] = (uint16_t)stereo_p2At(stereo_gray(here + (size_t)to * size, type),
                                          stereo_gray(before + (size_t)from * size, type), type == CUS_8UC1 ? 1 : 255,
                                          p->slope, p->p1, p->p2);
    }
}

/* Takes a path a pixel further, from sums whose smallest one is `least`, and adds its sums to those of all paths, or sets
 * these. Returns the smallest sum. */
static inline uint16_t takePath(const uint16_t *restrict before, const uint16_t *restrict costs, int lanes, uint16_t least,
                                uint16_t p1, uint16_t p2, uint16_t *restrict now, uint16_t *restrict sums, int sets) {
    const uint16_t jump = (uint16_t)(least + p2);
    uint16_t smallest = UINT16_MAX;
    for (int s = 0; s < lanes; ++s) {
        const uint16_t same = before[s], lower = (uint16_t)(before[s - 1] + p1), upper = (uint16_t)(before[s + 1] + p1);
        const uint16_t near = lower < upper ? lower : upper, far = same < jump ? same : jump;
        const uint16_t sum = (uint16_t)(costs[s] + (near < far ? near : far) - least);
        now[s] = sum;
        smallest = smallest < sum ? smallest : sum;
        sums[s] = (uint16_t)(sets ? sum : sums[s] + sum);
    }
    return smallest;
}

/* Runs a path along a row, which sets the sums, or back, which adds to them. p2[i]: of the steps between i - 1 and i. */
CUSI_MULTIVERSION
static void pathAlongRow(const uint16_t *costs, int n, int lanes, int back, uint16_t p1, const uint16_t *p2,
                         uint16_t *before, uint16_t *now, uint16_t *sums) {
    uint16_t least = 0;
    lanes = lanes / LANES * LANES; /* tells the compiler */
    memset(before, 0, 2 * (size_t)lanes);
    for (int i = 0; i < n; ++i) {
        const size_t at = (size_t)(back ? n - 1 - i : i) * (size_t)lanes;
        least = back ? takePath(before, costs + at, lanes, least, p1, p2[n - i], now, sums + at, 0)
                     : takePath(before, costs + at, lanes, least, p1, p2[i], now, sums + at, 1);
        uint16_t *const swap = before;
        before = now;
        now = swap;
    }
}

/* Runs a path from the last row to n pixels of this one, and adds to their sums. */
CUSI_MULTIVERSION
static void pathFromRow(const uint16_t *costs, int n, int lanes, int pitch, uint16_t p1, const uint16_t *p2,
                        const uint16_t *before, const uint16_t *least, uint16_t *now, uint16_t *smallest, uint16_t *sums) {
    lanes = lanes / LANES * LANES;
    for (int x = 0; x < n; ++x, costs += lanes, sums += lanes, before += pitch, now += pitch)
        smallest[x] = takePath(before, costs, lanes, least[x], p1, p2[x], now, sums, 0);
}

static uint16_t *sumsAt(const Paths *p, int y, int x) {
    return p->sums + ((size_t)y * (size_t)p->cols + (size_t)x) * (size_t)p->lanes;
}

/* Sets the sums of pixels to 0, with which paths begin outside the image, between sums that are far. */
static void clearPath(const Paths *p, uint16_t *path, size_t pixels) {
    for (size_t i = 0; i < pixels; ++i, path += p->pitch)
        for (int k = 0; k < p->pitch; ++k)
            path[k] = k < LANES || k >= LANES + p->lanes ? p->far : 0;
}

/* Both paths along each row of a band. */
static void sweepAlong(const Paths *p, int y0, int rows) {
    const Strip strip = stripOf(p, cusi_threadNumber(), 0, p->cols);
    clearPath(p, strip.along, 2);
    for (int y = y0; y < y0 + rows; ++y) {
        costsOfRow(p, &strip, y, y == y0 ? INT64_MIN / 2 : y - 1);
        penalties(p, y, 0, p->cols, 0, 1, strip.p2);
        for (int back = 0; back < 2; ++back)
            pathAlongRow(strip.costs, p->cols, p->lanes, back, p->p1, strip.p2, strip.along + LANES,
                         strip.along + p->pitch + LANES, sumsAt(p, y, 0));
    }
}

/* The paths from the row before y, which is y - step, to some columns. */
static void sweepStrip(const Paths *p, int y, int step, int part, int parts) {
    const int from = (int)((int64_t)p->cols * part / parts), n = (int)((int64_t)p->cols * (part + 1) / parts) - from;
    const Strip strip = stripOf(p, part, from, n);
    const int directions = stereo_paths(p->options) == 8 ? DIRECTIONS : 1, now = y & 1;
    const int is_first = step > 0 ? y == 0 : y == p->rows - 1;
    static const int shifted[DIRECTIONS] = {0, -1, 1};
    costsOfRow(p, &strip, y, is_first ? INT64_MIN / 2 : y - step);
    for (int d = 0; d < directions; ++d) {
        const int64_t to = (int64_t)d * (p->cols + 2) + from + 1, beside = to + shifted[d];
        penalties(p, y, from, n, step, -shifted[d], strip.p2);
        pathFromRow(strip.costs, n, p->lanes, p->pitch, p->p1, strip.p2, p->path[!now] + beside * p->pitch + LANES,
                    p->least[!now] + beside, p->path[now] + to * p->pitch + LANES, p->least[now] + to, sumsAt(p, y, from));
    }
}

static cusStatus sweep(const Paths *p, int step, CusiProgress *progress) {
    const size_t pixels = DIRECTIONS * (size_t)(p->cols + 2);
    for (int i = 0; i < 2; ++i) {
        memset(p->least[i], 0, 2 * pixels);
        clearPath(p, p->path[i], pixels);
    }
    const int useful = (int)((int64_t)p->cols * p->lanes / 16384) + 1, parts = useful < p->threads ? useful : p->threads;
    for (int i = 0; i < p->rows && !cusi_step(progress, 1); ++i) {
        const int y = step > 0 ? i : p->rows - 1 - i;
#pragma omp parallel for schedule(static) num_threads(parts)
        for (int part = 0; part < parts; ++part)
            sweepStrip(p, y, step, part, parts);
    }
    return cusi_proceed(progress);
}

/* ---- The best shifts ------------------------------------------------------------------------------------------------- */

/* Returns the smallest of n sums, n may be 0. */
static inline uint16_t smallestOf(const uint16_t *sums, int n) {
    uint16_t smallest = UINT16_MAX;
    for (int s = 0; s < n; ++s)
        smallest = smallest < sums[s] ? smallest : sums[s];
    return smallest;
}

/* Finds the peaks of a row in turn. worst: the sum that has a score of 0. */
CUSI_MULTIVERSION
static void peaksOfRow(const uint16_t *sums, int n, int shifts, int lanes, uint16_t worst, int prefer_smaller, int refined,
                       StereoPeak *peaks) {
    for (int x = 0; x < n; ++x, sums += lanes) {
        const uint16_t smallest = smallestOf(sums, shifts);
        int best = prefer_smaller ? 0 : shifts - 1;
        while (sums[best] != smallest)
            best += prefer_smaller ? 1 : -1;
        StereoPeak k = {.score = (uint16_t)(worst - smallest), .shift = (uint16_t)best};
        if (refined) {
            const uint16_t below = smallestOf(sums, best - 1),
                           above = best + 2 < shifts ? smallestOf(sums + best + 2, shifts - best - 2) : UINT16_MAX;
            const uint16_t second = below < above ? below : above;
            k.below = (uint16_t)(best > 0 ? worst - sums[best - 1] : 0);
            k.above = (uint16_t)(best + 1 < shifts ? worst - sums[best + 1] : 0);
            k.second = (uint16_t)(second < worst ? worst - second : 0);
        }
        peaks[x] = k;
    }
}

/* For each right pixel the best key of the left pixels that match it. best: pixel x with shift s has place x + s, or
 * n - 1 - x + s if `mirrored`. */
CUSI_MULTIVERSION
static void keepRightBest(const uint16_t *restrict sums, int n, int shifts, int lanes, int mirrored, int prefer_smaller,
                          uint32_t *best) {
    const uint32_t flip = prefer_smaller ? 0 : CUS_STEREO_MAX_SHIFTS - 1;
    for (int x = 0; x < n; ++x, sums += lanes) {
        uint32_t *const restrict at = best + (mirrored ? n - 1 - x : x);
        for (int s = 0; s < shifts; ++s) {
            const uint32_t key = (uint32_t)sums[s] << 10 | ((uint32_t)s ^ flip);
            at[s] = at[s] < key ? at[s] : key;
        }
    }
}

static void rightElevations(const Paths *p, const uint16_t *sums, uint32_t *best, uint32_t worst, uint16_t *elevation) {
    const cusStereoOptions *o = p->options;
    const int cols = p->cols, mirrored = o->direction < 0, places = cols + p->shifts - 1;
    const uint32_t none = worst << 10, flip = o->prefer_smaller ? 0 : CUS_STEREO_MAX_SHIFTS - 1;
    for (int i = 0; i < places; ++i)
        best[i] = none;
    keepRightBest(sums, cols, p->shifts, p->lanes, mirrored, o->prefer_smaller, best);
    for (int i = cols; o->border == CUS_STEREO_WRAP && i < places;
         ++i) /* places beyond the row are those of the other side */
        best[i - cols] = best[i] < best[i - cols] ? best[i] : best[i - cols];
    for (int x = 0; x < cols; ++x) {
        const uint32_t key = best[mirrored ? cols - 1 - x : x];
        elevation[x] = (uint16_t)(key < none ? 1 + ((key & (CUS_STEREO_MAX_SHIFTS - 1)) ^ flip) : 0);
    }
}

/* Writes the elevations of a row, and its confidences unless these are NULL. */
static void chooseShifts(const Paths *p, int y, cusMat *elevation, cusMat *confidence, uint16_t *right_elevation) {
    const cusStereoOptions *o = p->options;
    const int refined = stereo_isRefined(o, confidence);
    const uint16_t worst = (uint16_t)(stereo_paths(o) * (p->full + p->p2));
    uint16_t *const out = (uint16_t *)(void *)stereo_host_rowMutable(elevation, y);
    uint8_t *const sure = confidence ? stereo_host_rowMutable(confidence, y) : NULL;
    StereoPeak peaks[PIXELS_AT_ONCE];
    for (int x = 0; x < p->cols; ++x) {
        const int i = x % PIXELS_AT_ONCE, n = p->cols - x < PIXELS_AT_ONCE ? p->cols - x : PIXELS_AT_ONCE;
        if (i == 0)
            peaksOfRow(sumsAt(p, y, x), n, p->shifts, p->lanes, worst, o->prefer_smaller, refined, peaks);
        const uint32_t confident = refined ? stereo_confidence(&peaks[i]) : 0;
        const int counts = peaks[i].score > 0 && confident >= (uint32_t)o->min_confidence;
        out[x] = (uint16_t)(counts ? stereo_elevationOf(&peaks[i], p->shifts, o->subpixel_bits) : 0);
        if (sure)
            sure[x] = (uint8_t)(counts ? confident : 0);
    }
    if (right_elevation)
        rightElevations(p, sumsAt(p, y, 0), stripOf(p, cusi_threadNumber(), 0, p->cols).right_best, worst,
                        right_elevation + (size_t)y * (size_t)p->cols);
}

cusStatus stereo_host_paths(const cusMat *left, const cusMat *right, const cusMat *image, cusMat *elevation,
                            cusMat *confidence, const cusStereoOptions *options, StereoScratch *scratch) {
    const int rows = left->rows, checked = options->left_right_check >= 0;
    Paths p = pathsOf(rows, left->cols, options, scratch->threads);
    p.left = left;
    p.right = right;
    p.image = options->p2_slope ? image : NULL;
    layOut(&p, scratch->block);
    uint16_t *const right_elevation = checked ? scratch->right : NULL;
    CusiProgress *const progress = cusi_progress();
    const int bands = (rows + BAND_ROWS - 1) / BAND_ROWS;
    cusi_part(progress, 0.3, bands);
#pragma omp parallel for schedule(dynamic, 1) num_threads(p.threads)
    for (int i = 0; i < bands; ++i)
        if (!cusi_step(progress, 1))
            sweepAlong(&p, i * BAND_ROWS, rows - i * BAND_ROWS < BAND_ROWS ? rows - i * BAND_ROWS : BAND_ROWS);
    CUS_TRY(cusi_proceed(progress));
    cusi_part(progress, 0.6, rows);
    CUS_TRY(sweep(&p, 1, progress));
    cusi_part(progress, 0.9, rows);
    CUS_TRY(sweep(&p, -1, progress));
    cusi_part(progress, 1, rows);
#pragma omp parallel for schedule(dynamic, 16) num_threads(p.threads)
    for (int y = 0; y < rows; ++y)
        if (!cusi_step(progress, 1))
            chooseShifts(&p, y, elevation, confidence, right_elevation);
    CUS_TRY(cusi_proceed(progress));
    if (checked)
        stereo_host_leftRightCheck(elevation, confidence, right_elevation, options);
    return CUS_OK;
}
