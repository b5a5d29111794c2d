/* Finds elevations on the host, a tile and a shift at a time.
 *
 * Agreements are bytes. Their horizontal window sums are made by doubling: the binary digits of the window select from sums
 * of 1, 2, 4, ... neighbors. One loop covers several rows, because a row that was just written cannot yet be read at
 * another offset. These sums run down the columns: the row that enters the window is added, the row that leaves is
 * subtracted. Score and shift share 16 bits, so one maximum keeps the best of a group of shifts. A left pixel's score at a
 * shift is also that of its match in the right image. All loops run along rows and are vectorized.
 */
#include "stereo/cpu/rows.h"

/* A tile: 512 columns and the rows that are matched at once fit the first-level cache. */
enum { TILE_ROWS = 64, TILE_COLS = 512, ROWS_AT_ONCE = 16 };
enum {
    REACH = CUS_STEREO_MAX_WINDOW - 1,
    SCORE_COLS = TILE_COLS + CUS_STEREO_MAX_SHIFTS - 1,
    PITCH = (SCORE_COLS + REACH + 63) / 64 * 64,
    PIXELS = (TILE_ROWS + REACH) * PITCH + 64 /* loops over several rows run on into the next row */
};

/* StereoPeaks of a row, field by field. */
typedef struct PeakRow {
    uint16_t score[TILE_COLS], shift[TILE_COLS], below[TILE_COLS], above[TILE_COLS], second[TILE_COLS], last[TILE_COLS],
        earlier[TILE_COLS];
} PeakRow;

typedef struct Tile {
    _Alignas(64) uint8_t left[PIXELS];
    uint8_t right[PIXELS], agree[PIXELS];
    uint16_t sums[PIXELS], doubled[2][(ROWS_AT_ONCE + 1) * PITCH]; /* horizontal sums, in bytes if they fit */
    /* For the left and the right image, the best key in the current group of shifts, and the best score of earlier
     * groups. */
    uint16_t best[2][TILE_ROWS][TILE_COLS], score[2][TILE_ROWS][TILE_COLS];
    uint16_t key[SCORE_COLS + 1], counted[SCORE_COLS + 1]; /* score << bits | shift */
    PeakRow peaks[TILE_ROWS];                              /* of the left image if elevations need them */
} Tile;

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

/* Sets sum[x] = agree[x] + ... + agree[x + window - 1] for x in 0..n-1. agree, one and spare have n + window - 1
 * elements. */
#define WINDOW_SUMS(name, type)                                                                                      \
    CUSI_MULTIVERSION                                                                                                \
    static void name(const uint8_t *restrict agree, int n, int window, type *one, type *spare, type *restrict sum) { \
        int have = n + window - 1, at = 1;                                                                           \
        for (int x = 0; x < n; ++x)                                                                                  \
            sum[x] = agree[x]; /* the window is odd */                                                               \
        if (window == 1)                                                                                             \
            return;                                                                                                  \
        --have;                                                                                                      \
        for (int x = 0; x < have; ++x)                                                                               \
            one[x] = (type)(agree[x] + agree[x + 1]);                                                                \
        for (int digit = 2;; digit *= 2) { /* one has sums of `digit` */                                             \
            if (window & digit) {                                                                                    \
                for (int x = 0; x < n; ++x)                                                                          \
                    sum[x] = (type)(sum[x] + one[x + at]);                                                           \
                at += digit;                                                                                         \
            }                                                                                                        \
            if (2 * digit > window)                                                                                  \
                return;                                                                                              \
            have -= digit;                                                                                           \
            for (int x = 0; x < have; ++x)                                                                           \
                spare[x] = (type)(one[x] + one[x + digit]);                                                          \
            type *const swap = one;                                                                                  \
            one = spare;                                                                                             \
            spare = swap;                                                                                            \
        }                                                                                                            \
    }
WINDOW_SUMS(windowSums8, uint8_t)
WINDOW_SUMS(windowSums16, uint16_t)

/* Adds the row of sums that enters the window to the scores, and subtracts the one that leaves it. */
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

/* Clears scores where `center` is 0. */
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

/* Merges the best of the shifts from `first` on into score and elevation, and clears it. It replaces the score if it is
 * equal or larger, or only if larger when the smaller shift wins ties. Shift k has the code k - first, or `last` minus that
 * when the smaller shift wins ties. */
CUSI_MULTIVERSION
static void mergeBest(uint16_t *restrict best, int n, int bits, int first, int last, int prefer_smaller,
                      uint16_t *restrict score, uint16_t *restrict elevation) {
    const uint16_t all = (uint16_t)((1 << bits) - 1), sign = prefer_smaller ? 0xffff : 1,
                   handicap = (uint16_t)prefer_smaller, base = (uint16_t)(first + 1 + (prefer_smaller ? last : 0));
    for (int x = 0; x < n; ++x) {
        const uint16_t found = (uint16_t)(best[x] >> bits), shift = (uint16_t)(base + (uint32_t)sign * (best[x] & all));
        const uint16_t least = (uint16_t)(score[x] + handicap), needed = least > 1 ? least : 1;
        elevation[x] = found >= needed ? shift : elevation[x];
        score[x] = found >= needed ? found : score[x];
        best[x] = 0;
    }
}

#define SELECT(mask, a, b) ((uint16_t)(((a) & (mask)) | ((b) & (uint16_t) ~(mask))))

/* Updates peaks with the score of shift s, after all shifts below it. All choices are masks, or compilers branch. */
CUSI_MULTIVERSION
static void watchPeaks(const uint16_t *restrict key, int n, int bits, int s, int prefer_smaller, PeakRow *restrict p) {
    const uint16_t handicap = (uint16_t)prefer_smaller, at = (uint16_t)s;
    uint16_t *const restrict scores = p->score, *const restrict shifts = p->shift, *const restrict belows = p->below,
                             *const restrict aboves = p->above, *const restrict seconds = p->second,
                             *const restrict lasts = p->last, *const restrict earliers = p->earlier;
    for (int x = 0; x < n; ++x) {
        const uint16_t now = (uint16_t)(key[x] >> bits), score = scores[x], shift = shifts[x], below = belows[x],
                       above = aboves[x], second = seconds[x], last = lasts[x], earlier = earliers[x];
        const uint16_t least = (uint16_t)(score + handicap), needed = least > 1 ? least : 1;
        const uint16_t after = (uint16_t)(at - shift), larger = second > now ? second : now;
        const uint16_t wins = (uint16_t) - (now >= needed), next = (uint16_t) - (after == 1),
                       far = (uint16_t) - (after > 1);
        seconds[x] = SELECT(wins, earlier, SELECT(far, larger, second));
        aboves[x] = SELECT(wins, 0, SELECT(next, now, above));
        belows[x] = SELECT(wins, last, below);
        shifts[x] = SELECT(wins, at, shift);
        scores[x] = SELECT(wins, now, score);
        earliers[x] = earlier > last ? earlier : last;
        lasts[x] = now;
    }
}

/* Writes the elevations of a row of peaks, and their confidences unless that is NULL. */
static void finishPeaks(const PeakRow *p, int n, const cusStereoOptions *o, uint16_t *elevation, uint8_t *confidence) {
    for (int x = 0; x < n; ++x) {
        const StereoPeak k = {
            .score = p->score[x], .shift = p->shift[x], .below = p->below[x], .above = p->above[x], .second = p->second[x]};
        const uint32_t sure = stereo_confidence(&k);
        const int counts = k.score > 0 && sure >= (uint32_t)o->min_confidence;
        elevation[x] = (uint16_t)(counts ? stereo_elevationOf(&k, o->shifts, o->subpixel_bits) : 0);
        if (confidence)
            confidence[x] = (uint8_t)(counts ? sure : 0);
    }
}

/* The parameters that all tiles share. */
typedef struct Matching {
    const cusMat *left, *right;
    const cusStereoOptions *options;
    uint16_t *out[2]; /* elevations of the left image, and of the right one or NULL */
    size_t step[2];
    int bits;  /* bits of a key that hold the shift */
    int bytes; /* whether horizontal sums fit bytes */
    int refined;
    cusMat *confidence; /* may be NULL */
} Matching;

/* Clears the agreements with shift s whose left pixel or match lies outside. agree: `rows` rows of n columns, which start
 * at row y and column x of the image. */
static void clearOutside(const Matching *m, uint8_t *agree, int pitch, int rows, int64_t y, int64_t x, int n, int s) {
    const int64_t match = x + m->options->direction * s;
    const int64_t low = -(x < match ? x : match), high = m->left->cols - (x > match ? x : match);
    const int from = (int)(low < 0 ? 0 : low > n ? n : low), end = (int)(high < from ? from : high > n ? n : high);
    for (int r = 0; r < rows; ++r, agree += pitch) {
        const int outside = y + r < 0 || y + r >= m->left->rows;
        memset(agree, 0, (size_t)(outside ? n : from));
        if (!outside)
            memset(agree + end, 0, (size_t)(n - end));
    }
}

/* The place in the images of a tile that is being matched, and where its parts of both images start. */
typedef struct Area {
    int y0, x0, rows, cols, pitch;
    int64_t y, left_x, right_x;
} Area;

/* The scores of one shift cover n columns from image column x on: those of the left tile and those that match the right. */
typedef struct ShiftSpan {
    int s, n, x;
    int at[2]; /* offset of the left tile's first column, and of the matches of the right tile's */
} ShiftSpan;

static Area areaOf(const Matching *m, int y0, int x0, int rows, int cols) {
    const cusStereoOptions *o = m->options;
    const int radius = o->window / 2, reach = 2 * radius, more = o->shifts - 1;
    const int both = m->out[1] != NULL, forward = o->direction > 0;
    Area a = {.y0 = y0, .x0 = x0, .rows = rows, .cols = cols, .pitch = (cols + reach + more + 63) / 64 * 64};
    a.y = (int64_t)y0 - radius;
    a.left_x = (int64_t)x0 - radius - (both && forward ? more : 0);
    a.right_x = (int64_t)x0 - radius - (forward ? 0 : more);
    return a;
}

/* Loads the features of both images, binary ones as 0 and 1, and clears what the shifts accumulate. */
static void startTile(const Matching *m, const Area *a, Tile *tile) {
    const cusStereoOptions *o = m->options;
    const int reach = o->window - 1, n = a->cols + reach + o->shifts - 1, binary = o->agreement != CUS_STEREO_CENSUS;
    for (int r = 0; r < a->rows + reach; ++r) {
        uint8_t *const left = tile->left + r * a->pitch, *const right = tile->right + r * a->pitch;
        stereo_host_load(m->left, a->y + r, a->left_x, n, o->border, left);
        stereo_host_load(m->right, a->y + r, a->right_x, n, o->border, right);
        for (int i = 0; binary && i < n; ++i) {
            left[i] = left[i] != 0;
            right[i] = right[i] != 0;
        }
    }
    memset(tile->best, 0, sizeof tile->best);
    memset(tile->score, 0, sizeof tile->score);
    if (m->refined)
        memset(tile->peaks, 0, sizeof tile->peaks);
    for (int i = 0; i < (m->out[1] ? 2 : 1); ++i)
        for (int r = 0; r < a->rows; ++r)
            memset((char *)m->out[i] + (size_t)(a->y0 + r) * m->step[i] + 2 * (size_t)a->x0, 0, 2 * (size_t)a->cols);
}

/* Computes the agreements of one shift and their horizontal window sums. */
static void sumAgreements(const Matching *m, const Area *a, const ShiftSpan *span, Tile *tile) {
    const cusStereoOptions *o = m->options;
    const int window = o->window, radius = window / 2, reach = 2 * radius, pitch = a->pitch, n = span->n;
    const uint8_t *const left = tile->left + (span->x - radius - a->left_x);
    const uint8_t *const right = tile->right + (span->x + o->direction * span->s - radius - a->right_x);
    for (int r = 0; r < a->rows + reach; r += ROWS_AT_ONCE) {
        const int there = a->rows + reach - r < ROWS_AT_ONCE ? a->rows + reach - r : ROWS_AT_ONCE;
        const int pixels = (there - 1) * pitch + n, at_row = r * pitch;
        agreements(left + at_row, right + at_row, pixels + reach, o->agreement, tile->agree + at_row);
        if (o->border == CUS_STEREO_ZERO)
            clearOutside(m, tile->agree + at_row, pitch, there, a->y + r, span->x - radius, n + reach, span->s);
        if (m->bytes)
            windowSums8(tile->agree + at_row, pixels, window, (uint8_t *)tile->doubled[0], (uint8_t *)tile->doubled[1],
                        (uint8_t *)tile->sums + at_row);
        else
            windowSums16(tile->agree + at_row, pixels, window, tile->doubled[0], tile->doubled[1], tile->sums + at_row);
    }
}

/* Runs the window down the columns with keys that carry `code`, and keeps the best key of every pixel. */
static void keepBestOfShift(const Matching *m, const Area *a, const ShiftSpan *span, int code, Tile *tile) {
    static const uint16_t nothing[SCORE_COLS];
    const int window = m->options->window, radius = window / 2, reach = 2 * radius, pitch = a->pitch, n = span->n;
    const int both = m->out[1] != NULL, binary = m->options->agreement != CUS_STEREO_CENSUS;
    for (int c = 0; c < n; ++c)
        tile->key[c] = (uint16_t)code;
    for (int r = 0; r < a->rows + reach; ++r) {
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
        const uint16_t *const keys = binary ? tile->counted : tile->key;
        if (m->refined)
            watchPeaks(keys + span->at[0], a->cols, m->bits, span->s, m->options->prefer_smaller, &tile->peaks[row]);
        for (int i = m->refined; i <= both; ++i)
            keepBest(keys + span->at[i], a->cols, tile->best[i][row]);
    }
}

static void matchTile(const Matching *m, Tile *tile, int y0, int x0, int rows, int cols) {
    const cusStereoOptions *o = m->options;
    const int both = m->out[1] != NULL, forward = o->direction > 0, more = o->shifts - 1, group = 1 << m->bits;
    const Area a = areaOf(m, y0, x0, rows, cols);
    startTile(m, &a, tile);
    for (int s = 0; s < o->shifts; ++s) {
        const int x = x0 - (both && forward ? s : 0);
        const ShiftSpan span = {s, cols + (both ? s : 0), x, {x0 - x, forward ? 0 : s}};
        sumAgreements(m, &a, &span, tile);
        const int last = (s / group + 1) * group < o->shifts ? group - 1 : more % group;
        keepBestOfShift(m, &a, &span, o->prefer_smaller ? last - s % group : s % group, tile);
        if (s % group != group - 1 && s != more)
            continue;
        for (int i = m->refined; i <= both; ++i)
            for (int r = 0; r < rows; ++r)
                mergeBest(tile->best[i][r], cols, m->bits, s / group * group, last, o->prefer_smaller, tile->score[i][r],
                          (uint16_t *)(void *)((char *)m->out[i] + (size_t)(y0 + r) * m->step[i]) + x0);
    }
    for (int r = 0; m->refined && r < rows; ++r)
        finishPeaks(&tile->peaks[r], cols, o, (uint16_t *)(void *)((char *)m->out[0] + (size_t)(y0 + r) * m->step[0]) + x0,
                    m->confidence ? stereo_host_rowMutable(m->confidence, y0 + r) + x0 : NULL);
}

/* ---- Left-right check ------------------------------------------------------------------------------------------------ */

/* An elevation stays if the pixel it maps to in the right image maps back to nearly the same place. */

/* Checks n columns of a row from column x on. confidence: of these, or NULL. near: the right image's row from column
 * x - (shifts - 1) on. */
static void checkPart(uint16_t *row, uint8_t *confidence, const uint16_t *near, int n, const cusStereoOptions *o) {
    const int bits = o->subpixel_bits, half = bits ? 1 << (bits - 1) : 0;
    for (int x = 0; x < n; ++x) {
        const int e = (row[x] + half) >> bits, back = near[x + o->shifts - 1 + (e ? o->direction * (e - 1) : 0)];
        const int difference = back > e ? back - e : e - back;
        const int stays = -((back != 0) & (difference <= o->left_right_check));
        row[x] = (uint16_t)(row[x] & stays);
        if (confidence)
            confidence[x] = (uint8_t)(confidence[x] & stays);
    }
}

void stereo_host_leftRightCheck(cusMat *elevation, cusMat *confidence, const uint16_t *right_elevation,
                                const cusStereoOptions *o) {
    enum { MORE = CUS_STEREO_MAX_SHIFTS - 1 };
    const int cols = elevation->cols, more = o->shifts - 1;
#pragma omp parallel for schedule(static) num_threads(stereo_host_threads(elevation))
    for (int y = 0; y < elevation->rows; ++y) {
        const uint16_t *const right = right_elevation + (size_t)y * (size_t)cols;
        uint16_t near[MORE + PIXELS_AT_ONCE + MORE];
        for (int x = 0; x < cols; x += PIXELS_AT_ONCE) {
            const int n = cols - x < PIXELS_AT_ONCE ? cols - x : PIXELS_AT_ONCE;
            stereo_host_loadColumns((const uint8_t *)right, cols, sizeof *near, (int64_t)x - more, n + 2 * more, o->border,
                                    near);
            checkPart((uint16_t *)(void *)stereo_host_rowMutable(elevation, y) + x,
                      confidence ? stereo_host_rowMutable(confidence, y) + x : NULL, near, n, o);
        }
    }
}

size_t stereo_host_scratchBytes(int stages, int rows, int threads) {
    const size_t tiles = stages & STEREO_ELEVATION ? (size_t)threads * sizeof(Tile) : 0;
    const size_t flags = stages & STEREO_FILL ? 2 * (size_t)rows : 0;
    return tiles > flags ? tiles : flags;
}

cusStatus stereo_host_elevation(const cusMat *left, const cusMat *right, cusMat *elevation, cusMat *confidence,
                                const cusStereoOptions *options, StereoScratch *scratch) {
    const int checked = options->left_right_check >= 0, rows = left->rows, cols = left->cols;
    const int largest = (options->agreement == CUS_STEREO_CENSUS ? 8 : 1) * options->window;
    Matching m = {left,
                  right,
                  options,
                  {elevation->data, checked ? scratch->right : NULL},
                  {elevation->step, 2 * (size_t)cols},
                  0,
                  largest < 128,
                  stereo_isRefined(options, confidence),
                  confidence};
    while (1 << m.bits < options->shifts && (largest * options->window + 1) << (m.bits + 1) <= 65536)
        ++m.bits;
    Tile *const tiles = scratch->block;
    /* Tiles of equal size give the threads equal work. */
    const int down = (rows + TILE_ROWS - 1) / TILE_ROWS, across = (cols + TILE_COLS - 1) / TILE_COLS;
    const int tile_rows = (rows + down - 1) / down, tile_cols = (cols + across - 1) / across;
    const int64_t count = (int64_t)down * across;
    const int threads = count < scratch->threads ? (int)count : scratch->threads;
    (void)threads; /* unused without OpenMP */
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, count);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t i = 0; i < count; ++i) {
        const int64_t y = i / across * tile_rows, x = i % across * tile_cols;
        if (!cusi_step(progress, 1) && y < rows && x < cols)
            matchTile(&m, &tiles[cusi_threadNumber()], (int)y, (int)x, rows - y < tile_rows ? (int)(rows - y) : tile_rows,
                      cols - x < tile_cols ? (int)(cols - x) : tile_cols);
    }
    CUS_TRY(cusi_proceed(progress));
    if (checked)
        stereo_host_leftRightCheck(elevation, confidence, scratch->right, options);
    return CUS_OK;
}
