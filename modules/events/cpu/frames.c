/* Event frames on the CPU. Each thread makes a frame, or a band of its rows if there are fewer windows than threads, and
 * reads the events in order: no atomics are needed, and a pixel's last event is the one written last. */
#include "check.h"
#include "events/backend.h"
#include "host.h"
#include "progress.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define TARGET_AVX512 __attribute__((target("avx512f,popcnt")))
#endif

/* ---- Events to accumulators ------------------------------------------------------------------------------------------
 *
 * Positions are computed for a few hundred events at once, which the compiler vectorizes; what remains per event is one
 * read-modify-write in a band that stays in the cache. The functions take some events and return how many lie in the
 * band. */

enum { EVENTS_AT_ONCE = 512, REPORTED_AT_ONCE = 8192 };
#define OUTSIDE UINT32_MAX

/* The accumulators of a band of rows: element row * step + x * unit, plus one of two offsets by polarity. */
typedef struct Grid {
    uint32_t row0, rows, cols;
    uint32_t step, unit;
    uint32_t positive, negative;
} Grid;

/* The events of one window. */
typedef struct Events {
    const uint16_t *x, *y;
    const uint8_t *p;
    const int64_t *t;
    uint32_t count;
    CusiProgress *progress;
} Events;

/* A pixel's last event as a code, which determines MDES and TENCODE: 0 if there is none, otherwise CODE_EVENT,
 * CODE_POSITIVE, its level among the 16 mixed-density windows times CODE_LEVEL, and TENCODE's green in the low byte. */
enum { CODE_EVENT = 1 << 13, CODE_POSITIVE = 1 << 12, CODE_LEVEL = 1 << 8 };

/* Computes the positions of n events, the first at `from`; OUTSIDE for events outside the band. Returns how many are
 * inside. */
CUSI_MULTIVERSION
static uint32_t locate(const Events *events, uint32_t from, uint32_t n, const Grid *grid, uint32_t *restrict position) {
    const uint16_t *restrict x = events->x + from, *restrict y = events->y + from;
    const uint8_t *restrict p = events->p + from;
    const Grid g = *grid;
    uint32_t inside = 0;
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t row = y[i] - g.row0, col = x[i];
        const uint32_t at = row * g.step + col * g.unit + (p[i] ? g.positive : g.negative);
        const uint32_t in = (row < g.rows) & (col < g.cols);
        position[i] = in ? at : OUTSIDE;
        inside += in;
    }
    return inside;
}

#ifdef TARGET_AVX512
/* Stores whole registers. This overwrites nothing unread, since never more positions are kept than were read. */
TARGET_AVX512
static void keepInsideAvx512(uint32_t *position, uint32_t *index, uint32_t n) {
    uint32_t kept = 0;
    __m512i i = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (uint32_t k = 0; k < n; k += 16, i = _mm512_add_epi32(i, _mm512_set1_epi32(16))) {
        const __mmask16 rest = (__mmask16)(n - k < 16 ? (1 << (n - k)) - 1 : -1);
        const __m512i at = _mm512_loadu_si512(position + k);
        const __mmask16 in = _mm512_mask_cmpneq_epi32_mask(rest, at, _mm512_set1_epi32(-1));
        _mm512_storeu_si512(position + kept, _mm512_maskz_compress_epi32(in, at));
        _mm512_storeu_si512(index + kept, _mm512_maskz_compress_epi32(in, i));
        kept += (uint32_t)__builtin_popcount(in);
    }
}
#endif

/* Moves the positions that are not OUTSIDE to the front, in order, and lists their indices. The arrays have EVENTS_AT_ONCE
 * elements. No branch: if two threads share a frame, half of the events are outside, and a branch would be mispredicted for
 * every other one. */
static void keepInside(uint32_t *position, uint32_t *index, uint32_t n) {
#ifdef TARGET_AVX512
    if (__builtin_cpu_supports("avx512f")) {
        keepInsideAvx512(position, index, n);
        return;
    }
#endif
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t at = position[i];
        position[kept] = at;
        index[kept] = i;
        kept += at != OUTSIDE;
    }
}

/* Up to EVENTS_AT_ONCE events from `start` on, of which `inside` are inside the band. */
typedef struct Block {
    uint32_t start, n, inside, unreported;
    uint32_t position[EVENTS_AT_ONCE], index[EVENTS_AT_ONCE]; /* index: set if some are outside */
} Block;

/* Moves on to the next events before `end`; returns 0 if there are none, or if the call is cancelled. */
static int nextBlock(Block *block, const Events *events, uint32_t end, const Grid *grid) {
    block->start += block->n;
    block->unreported += block->n;
    if (block->unreported >= REPORTED_AT_ONCE || block->start == end) {
        if (cusi_step(events->progress, block->unreported))
            return 0;
        block->unreported = 0;
    }
    const uint32_t rest = end - block->start;
    block->n = rest < EVENTS_AT_ONCE ? rest : EVENTS_AT_ONCE;
    block->inside = locate(events, block->start, block->n, grid, block->position);
    if (block->inside > 0 && block->inside < block->n)
        keepInside(block->position, block->index, block->n);
    return block->n > 0;
}

static inline uint32_t eventAt(const Block *block, uint32_t k) {
    return block->start + (block->inside < block->n ? block->index[k] : k);
}

/* Returns +1 or -1. Uses a table, because compilers turn a comparison into a branch, and polarities are random. */
static int32_t signOf(uint8_t p) {
    static const int32_t signs[] = {-1, 1};
    return signs[p != 0];
}

/* Counts events from .. to - 1, saturating at `ceiling`. */
static uint64_t countEvents(const Events *events, uint32_t from, uint32_t to, const Grid *grid, uint8_t *counts,
                            uint8_t ceiling) {
    uint64_t inside = 0;
    for (Block block = {.start = from}; nextBlock(&block, events, to, grid); inside += block.inside)
        for (uint32_t k = 0, n = block.inside; k < n; ++k) {
            uint8_t *const count = counts + block.position[k];
            *count = (uint8_t)(*count + (*count < ceiling));
        }
    return inside;
}

/* Computes TENCODE's green, floor(255 age / dt). Double division is exact if age <= dt < 2^45. */
CUSI_MULTIVERSION
static void greenOfEvents(const int64_t *restrict t, uint32_t n, uint64_t newest, uint64_t dt, uint16_t *restrict green) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; ++i) {
        const uint64_t age = newest - (uint64_t)t[i];
        most = age > most ? age : most;
    }
    if (most <= dt && dt < (uint64_t)1 << 45) {
        const double scale = dt ? (double)dt : 1.0;
        for (uint32_t i = 0; i < n; ++i)
            green[i] = (uint16_t)(int32_t)((double)(int64_t)(255 * (newest - (uint64_t)t[i])) / scale);
    } else {
        for (uint32_t i = 0; i < n; ++i)
            green[i] = dt ? (uint8_t)(255 * (newest - (uint64_t)t[i]) / dt) : 0;
    }
}

/* Leaves codes of the last events, with green only if with_green. */
static uint64_t findLastCodes(const Events *events, const Grid *grid, int with_green, uint16_t *codes) {
    uint64_t inside = 0;
    EventsLevels levels;
    uint16_t green[EVENTS_AT_ONCE] = {0};
    assert(events->t || !with_green);
    const uint64_t newest = with_green ? (uint64_t)events->t[events->count - 1] : 0;
    const uint64_t dt = with_green ? newest - (uint64_t)events->t[0] : 0;
    eventsMdesLevels(events->count, EVENTS_MAX_CHANNELS, &levels);
    for (uint32_t level = 0; level < EVENTS_MAX_CHANNELS; ++level)
        for (Block block = {.start = levels.begin[level]}; nextBlock(&block, events, levels.begin[level + 1], grid);) {
            inside += block.inside;
            if (with_green && block.inside > 0)
                greenOfEvents(events->t + block.start, block.n, newest, dt, green);
            for (uint32_t k = 0; k < block.inside; ++k) {
                const uint32_t i = eventAt(&block, k), positive = events->p[i] ? CODE_POSITIVE : 0;
                codes[block.position[k]] = (uint16_t)(CODE_EVENT + positive + level * CODE_LEVEL + green[i - block.start]);
            }
        }
    return inside;
}

/* Leaves indices + 1 of the last events. */
static uint64_t findLastIndices(const Events *events, const Grid *grid, uint32_t *indices) {
    uint64_t inside = 0;
    for (Block block = {0}; nextBlock(&block, events, events->count, grid); inside += block.inside)
        for (uint32_t k = 0; k < block.inside; ++k)
            indices[block.position[k]] = eventAt(&block, k) + 1;
    return inside;
}

static uint64_t sumPolarities(const Events *events, uint32_t from, uint32_t to, const Grid *grid, int32_t *sum) {
    uint64_t inside = 0;
    for (Block block = {.start = from}; nextBlock(&block, events, to, grid); inside += block.inside)
        for (uint32_t k = 0; k < block.inside; ++k)
            sum[block.position[k]] += signOf(events->p[eventAt(&block, k)]);
    return inside;
}

/* Sums polarities and clips each sum after each event. */
static uint64_t walkPolarities(const Events *events, const Grid *grid, int lower, int upper, int32_t *sum) {
    uint64_t inside = 0;
    for (Block block = {0}; nextBlock(&block, events, events->count, grid); inside += block.inside)
        for (uint32_t k = 0; k < block.inside; ++k) {
            int32_t *const cell = sum + block.position[k], next = *cell + signOf(events->p[eventAt(&block, k)]);
            *cell = next < lower ? lower : next > upper ? upper : next;
        }
    return inside;
}

/* An event's bin, and its weights in that and in the next one. */
typedef struct Weights {
    int bin;
    int64_t here, next;
} Weights;

static Weights splitWeight(double time, int64_t sign) {
    const int bin = (int)time;
    const int64_t next = (int64_t)((time - bin) * EVENTS_VOXEL_UNIT + 0.5);
    return (Weights){bin, sign * ((int64_t)EVENTS_VOXEL_UNIT - next), sign * next};
}

typedef struct VoxelTimes {
    const int64_t *t;
    int64_t t0;
    double dt, last_bin;
} VoxelTimes;

static VoxelTimes voxelTimes(const Events *events, int bins) {
    assert(events->t);
    const int64_t t0 = events->t[0], span = events->t[events->count - 1] - t0;
    return (VoxelTimes){events->t, t0, span > 0 ? (double)span : 1.0, bins - 1};
}

static Weights voxelWeights(const VoxelTimes *times, const Events *events, uint32_t i) {
    const double time = times->last_bin * (double)(times->t[i] - times->t0) / times->dt;
    return splitWeight(time < 0 ? 0 : time > times->last_bin ? times->last_bin : time, signOf(events->p[i]));
}

static uint64_t sumVoxels(const Events *events, const Grid *grid, int bins, int64_t *voxels) {
    uint64_t inside = 0;
    const VoxelTimes times = voxelTimes(events, bins);
    for (Block block = {0}; nextBlock(&block, events, events->count, grid); inside += block.inside)
        for (uint32_t k = 0; k < block.inside; ++k) {
            const Weights weights = voxelWeights(&times, events, eventAt(&block, k));
            int64_t *voxel = voxels + (size_t)block.position[k] * (size_t)bins + weights.bin;
            voxel[0] += weights.here;
            if (weights.bin + 1 < bins)
                voxel[1] += weights.next;
        }
    return inside;
}

/* Sums weights into two cells for each bin of a pixel. Bins count from one before the first, whose weights are dropped: an
 * event before the middle of the first bin lies partly there. */
static uint64_t sumCube(const Events *events, const Grid *grid, int bins, cusEventSpan span, int64_t *cells) {
    uint64_t inside = 0;
    assert(events->t);
    const uint64_t length = (uint64_t)span.end - (uint64_t)span.begin;
    const double dt = length > 0 ? (double)length : 1.0;
    for (Block block = {0}; nextBlock(&block, events, events->count, grid); inside += block.inside)
        for (uint32_t k = 0; k < block.inside; ++k) {
            const int64_t since = (int64_t)((uint64_t)events->t[eventAt(&block, k)] - (uint64_t)span.begin);
            const Weights weights = splitWeight(eventsCubeTime((double)bins * (double)since / dt, bins), 1);
            int64_t *cell = cells + block.position[k];
            if (weights.bin >= 1 && weights.bin <= bins)
                cell[2 * (weights.bin - 1)] += weights.here;
            if (weights.bin < bins)
                cell[2 * weights.bin] += weights.next;
        }
    return inside;
}

typedef struct HostState {
    int threads;
    void **scratch; /* a frame's accumulators for each thread */
    /* Where 16F values are computed in 32F: a row for each thread, or a frame if it is normalized. Others: empty. */
    cusMat wide[EVENTS_MAX_REPRESENTATIONS];
    uint64_t skipped;
} HostState;

/* ---- One band of one frame ------------------------------------------------------------------------------------------- */

typedef struct Band {
    const cusEventStacker *stacker;
    Events events;
    const cusEventSpan *span; /* bounds of the window; NULL if no representation uses them */
    size_t row0, rows;
    void *scratch;
    cusMat *frames; /* frames of the whole call */
    size_t top;     /* first row of the window's frame in them */
    size_t place;   /* which of the frames in `wide` is its window's */
} Band;

static void *bandRow(const Band *band, int representation, size_t y) {
    const cusMat *frame = &band->frames[representation];
    return (char *)frame->data + (band->top + band->row0 + y) * frame->step;
}

static int isHalf(const cusEventStacker *stacker, int representation) {
    return CUS_DEPTH(stacker->types[representation]) == CUS_16F;
}

/* Returns where the floats of row y are computed: in the frame, or before they are rounded. */
static float *floatRow(const Band *band, int representation, size_t y) {
    const cusEventStacker *stacker = band->stacker;
    if (!isHalf(stacker, representation))
        return bandRow(band, representation, y);
    const cusMat *wide = &((const HostState *)stacker->state)->wide[representation];
    const size_t row = eventsNormalize(&stacker->representations[representation])
                           ? band->place * (size_t)stacker->rows + band->row0 + y
                           : (size_t)cusi_threadNumber();
    return (float *)((char *)wide->data + row * wide->step);
}

/* Completes the row that floatRow() returned. Normalized ones are rounded later. */
static void endRow(const Band *band, int representation, size_t y) {
    const size_t values = cusi_rowBytes(&band->frames[representation]) / sizeof(uint16_t);
    if (isHalf(band->stacker, representation) && !eventsNormalize(&band->stacker->representations[representation]))
        events_host_round(floatRow(band, representation, y), values, bandRow(band, representation, y));
}

static void fillBand(const Band *band, int representation, int value) {
    for (size_t y = 0; y < band->rows; ++y)
        memset(bandRow(band, representation, y), value, cusi_rowBytes(&band->frames[representation]));
}

static void *clearScratch(const Band *band, size_t bytes_per_pixel) {
    return memset(band->scratch, 0, band->rows * (size_t)band->stacker->cols * bytes_per_pixel);
}

static Grid gridOf(const Band *band, size_t step, int unit) {
    return (Grid){.row0 = (uint32_t)band->row0,
                  .rows = (uint32_t)band->rows,
                  .cols = (uint32_t)band->stacker->cols,
                  .step = (uint32_t)step,
                  .unit = (uint32_t)unit};
}

static cusEventSpan spanOf(const Band *band, const cusRepresentation *r) {
    const Events *e = &band->events;
    return eventsUsesSpan(r) ? *band->span : (cusEventSpan){e->t[0], e->t[e->count - 1]};
}

/* The second polarity's accumulators lie `offset` past the first's; positive comes first unless channels are swapped. */
static void setPolarityOffset(Grid *grid, const cusRepresentation *r, uint32_t offset) {
    *(r->swap_channels ? &grid->positive : &grid->negative) = offset;
}

/* ---- Representations: each is made from some events ------------------------------------------------------------------ */

static uint64_t makeHistogram(const Band *band, int index) {
    Grid grid = gridOf(band, band->frames[index].step, 2);
    setPolarityOffset(&grid, &band->stacker->representations[index], 1);
    fillBand(band, index, 0);
    return countEvents(&band->events, 0, band->events.count, &grid, bandRow(band, index, 0), 255);
}

/* Makes rows of MDES: a pixel is a copy of its code's bytes. Whole pixels are 16 channels wide, of which the next pixel
 * overwrites those past `channels`. GCC 12 would vectorize the copies into stores that fault unless every pixel is
 * aligned. */
#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("no-tree-vectorize")))
#endif
static void
makeMdesRows(const Band *band, int index, const uint16_t *codes) {
    static const uint8_t unsigned_bytes[] = {128, 0, 255}, signed_bytes[] = {0, 255 /* -1 */, 1};
    static const float floats[] = {0, -1, 1};
    const cusRepresentation *r = &band->stacker->representations[index];
    const char *const values = r->depth == CUS_32F  ? (const char *)floats
                               : r->depth == CUS_8U ? (const char *)unsigned_bytes
                                                    : (const char *)signed_bytes;
    const size_t cols = (size_t)band->stacker->cols, channels = (size_t)r->channels, element = r->depth == CUS_32F ? 4 : 1;
    const size_t pixel = channels * element, copied = EVENTS_MAX_CHANNELS * element;
    char pixels[2 * CODE_EVENT / CODE_LEVEL][EVENTS_MAX_CHANNELS * sizeof(float)];
    for (size_t code = 0; code < 2 * CODE_EVENT / CODE_LEVEL; ++code)
        for (size_t k = 0; k < EVENTS_MAX_CHANNELS; ++k) {
            const size_t positive = (code & CODE_POSITIVE / CODE_LEVEL) != 0;
            const int reached = (code & CODE_EVENT / CODE_LEVEL) && k <= code % EVENTS_MAX_CHANNELS;
            memcpy(pixels[code] + k * element, values + (reached ? 1 + positive : 0) * element, element);
        }
    const size_t whole = cols * pixel < copied ? 0 : (cols * pixel - copied) / pixel + 1;
    for (size_t y = 0; y < band->rows; ++y, codes += cols) {
        char *const row = bandRow(band, index, y);
        size_t x = 0;
        if (element == 1)
            for (; x < whole; ++x)
                memcpy(row + x * pixel, pixels[codes[x] / CODE_LEVEL], EVENTS_MAX_CHANNELS);
        else
            for (; x < whole; ++x)
                memcpy(row + x * pixel, pixels[codes[x] / CODE_LEVEL], EVENTS_MAX_CHANNELS * sizeof(float));
        for (; x < cols; ++x)
            memcpy(row + x * pixel, pixels[codes[x] / CODE_LEVEL], pixel);
    }
}

/* Computes 0x00RRGGBB for n pixels. */
CUSI_MULTIVERSION
static void tencodeColors(const uint16_t *restrict codes, size_t n, uint32_t positive, uint32_t negative,
                          uint32_t *restrict color) {
    for (size_t i = 0; i < n; ++i) {
        const uint32_t code = codes[i], red_blue = code & CODE_POSITIVE ? positive : negative;
        color[i] = code ? red_blue | (code & 255) << 8 : 0;
    }
}

static void tencodeRow(const uint16_t *codes, size_t cols, const cusRepresentation *r, uint8_t *row) {
    const uint32_t red = 0xff0000, blue = 0x0000ff;
    uint32_t color[EVENTS_AT_ONCE];
    for (size_t start = 0; start < cols; start += EVENTS_AT_ONCE) {
        const size_t n = cols - start < EVENTS_AT_ONCE ? cols - start : EVENTS_AT_ONCE;
        tencodeColors(codes + start, n, r->swap_channels ? blue : red, r->swap_channels ? red : blue, color);
        for (size_t i = 0; i < n; ++i) {
            uint8_t *const bgr = row + 3 * (start + i);
            bgr[0] = (uint8_t)color[i];
            bgr[1] = (uint8_t)(color[i] >> 8);
            bgr[2] = (uint8_t)(color[i] >> 16);
        }
    }
}

/* Makes all MDES and TENCODE representations, of which `index` is the first, in one pass over the events. */
static uint64_t makeFromLastEvents(const Band *band, int index) {
    const size_t cols = (size_t)band->stacker->cols;
    const Grid grid = gridOf(band, cols, 1);
    const cusRepresentation *all = band->stacker->representations;
    uint16_t *codes = clearScratch(band, sizeof *codes);
    int with_green = 0;
    for (int k = index; k < band->stacker->count; ++k)
        with_green |= all[k].kind == CUS_REPR_TENCODE;
    const uint64_t inside = findLastCodes(&band->events, &grid, with_green, codes);
    for (int k = index; k < band->stacker->count; ++k)
        if (all[k].kind == CUS_REPR_MDES)
            makeMdesRows(band, k, codes);
        else if (all[k].kind == CUS_REPR_TENCODE)
            for (size_t y = 0; y < band->rows; ++y)
                tencodeRow(codes + y * cols, cols, &all[k], bandRow(band, k, y));
    return inside;
}

/* Counts each level in a channel of its own. */
static uint64_t countLevels(const Band *band, int index, const Grid *grid, const EventsLevels *levels, uint8_t ceiling) {
    uint64_t inside = 0;
    fillBand(band, index, 0);
    for (int k = 0; k < band->stacker->representations[index].channels; ++k)
        inside += countEvents(&band->events, levels->begin[k], levels->begin[k + 1], grid,
                              (uint8_t *)bandRow(band, index, 0) + k, ceiling);
    return inside;
}

/* Adds later channels to each: channel k counted level k alone, but window k of MDES_COUNT holds levels k and up. */
CUSI_MULTIVERSION
static void addNewerLevels(uint8_t *row, size_t cols, size_t channels) {
    for (size_t x = 0; x < cols; ++x)
        for (size_t k = channels - 1; k-- > 0;) {
            const unsigned sum = (unsigned)row[x * channels + k] + row[x * channels + k + 1];
            row[x * channels + k] = (uint8_t)(sum < 255 ? sum : 255);
        }
}

static uint64_t makeMdesCount(const Band *band, int index) {
    const int channels = band->stacker->representations[index].channels;
    const Grid grid = gridOf(band, band->frames[index].step, channels);
    EventsLevels levels = {.begin = {0}};
    eventsMdesLevels(band->events.count, channels, &levels);
    const uint64_t inside = countLevels(band, index, &grid, &levels, 255);
    for (size_t y = 0; y < band->rows; ++y)
        addNewerLevels(bandRow(band, index, y), (size_t)band->stacker->cols, (size_t)channels);
    return inside;
}

static uint64_t makeStackedHistogram(const Band *band, int index) {
    const cusRepresentation *r = &band->stacker->representations[index];
    Grid grid = gridOf(band, band->frames[index].step, 2 * r->channels);
    setPolarityOffset(&grid, r, (uint32_t)r->channels);
    EventsLevels levels = {.begin = {0}};
    const Events *e = &band->events;
    const uint64_t dt = (uint64_t)e->t[e->count - 1] - (uint64_t)e->t[0];
    for (int k = 1; k < r->channels; ++k)
        levels.begin[k] = (uint32_t)eventsLowerBound(e->t, e->count, e->t[0], eventsBinStart(k, r->channels, dt));
    levels.begin[r->channels] = e->count;
    return countLevels(band, index, &grid, &levels, (uint8_t)r->cutoff);
}

CUSI_MULTIVERSION
static void voxelRow(const int64_t *restrict voxels, size_t n, float *restrict row) {
    for (size_t i = 0; i < n; ++i)
        row[i] = (float)((double)voxels[i] / EVENTS_VOXEL_UNIT);
}

/* Sums the weights of rectified events. Returns how many events come from the band's rows. */
static uint64_t sumRectified(const Band *band, const cusMat *map, int bins, int64_t *voxels) {
    const Events *events = &band->events;
    const int rows = band->stacker->rows, cols = band->stacker->cols;
    const VoxelTimes times = voxelTimes(events, bins);
    uint64_t inside = 0;
    for (uint32_t i = 0; i < events->count; ++i) {
        const size_t x = events->x[i], y = events->y[i];
        int row = 0, col = 0;
        double down = 0, right = 0;
        if (i % REPORTED_AT_ONCE == 0 && cusi_step(events->progress, i > 0 ? REPORTED_AT_ONCE : 0))
            break;
        if (x >= (size_t)cols || y >= (size_t)rows)
            continue;
        inside += y - band->row0 < band->rows;
        const float *xy = (const float *)((const char *)map->data + y * map->step) + 2 * x;
        if (!eventsRectify(xy, rows, cols, &row, &col, &down, &right) || row + 1 < (int)band->row0)
            continue;
        const Weights weights = voxelWeights(&times, events, i);
        for (int corner = 0; corner < 4; ++corner) {
            const size_t r = (size_t)row + (size_t)corner / 2 - band->row0; /* a negative row wraps to a large value */
            const size_t c = (size_t)col + (size_t)corner % 2;
            if (r >= band->rows || c >= (size_t)cols)
                continue;
            int64_t *voxel = voxels + (r * (size_t)cols + c) * (size_t)bins + weights.bin;
            voxel[0] += eventsCornerWeight(weights.here, corner, down, right);
            if (weights.bin + 1 < bins)
                voxel[1] += eventsCornerWeight(weights.next, corner, down, right);
        }
    }
    return inside;
}

static uint64_t makeVoxelGrid(const Band *band, int index) {
    const cusRepresentation *r = &band->stacker->representations[index];
    const size_t cols = (size_t)band->stacker->cols, bins = (size_t)r->channels;
    const Grid grid = gridOf(band, cols, 1);
    int64_t *voxels = clearScratch(band, bins * sizeof *voxels);
    const uint64_t inside =
        r->map ? sumRectified(band, r->map, (int)bins, voxels) : sumVoxels(&band->events, &grid, (int)bins, voxels);
    for (size_t y = 0; y < band->rows; ++y) {
        voxelRow(voxels + y * cols * bins, cols * bins, floatRow(band, index, y));
        endRow(band, index, y);
    }
    return inside;
}

static uint64_t makeEventCube(const Band *band, int index) {
    const cusRepresentation *r = &band->stacker->representations[index];
    const size_t values = 2 * (size_t)r->channels * (size_t)band->stacker->cols;
    const double unit = r->scale / EVENTS_VOXEL_UNIT;
    Grid grid = gridOf(band, values, 2 * r->channels);
    setPolarityOffset(&grid, r, 1);
    int64_t *cells = clearScratch(band, 2 * (size_t)r->channels * sizeof *cells);
    const uint64_t inside = sumCube(&band->events, &grid, r->channels, spanOf(band, r), cells);
    for (size_t y = 0; y < band->rows; ++y, cells += values) {
        float *const row = floatRow(band, index, y);
        for (size_t i = 0; i < values; ++i)
            row[i] = eventsCubeValue(cells[i], unit, r->clip);
        endRow(band, index, y);
    }
    return inside;
}

static float surfaceValue(const cusRepresentation *r, double decay, int64_t t, cusEventSpan span) {
    if (r->surface == CUS_SURFACE_EXPONENTIAL)
        return eventsExponential(t, span.end, decay);
    return eventsSurfaceValue(t, span.begin, span.end, r->surface == CUS_SURFACE_LINEAR);
}

static uint64_t makeTimeSurface(const Band *band, int index) {
    const cusRepresentation *r = &band->stacker->representations[index];
    const cusEventSpan span = spanOf(band, r);
    const size_t values = 2 * (size_t)band->stacker->cols;
    Grid grid = gridOf(band, values, 2);
    setPolarityOffset(&grid, r, 1);
    uint32_t *indices = clearScratch(band, 2 * sizeof *indices);
    const uint64_t inside = findLastIndices(&band->events, &grid, indices);
    const int64_t *const t = band->events.t;
    const double decay = eventsDecay(r->tau);
    for (size_t y = 0; y < band->rows; ++y, indices += values) {
        float *const row = floatRow(band, index, y);
        for (size_t i = 0; i < values; ++i)
            row[i] = indices[i] ? surfaceValue(r, decay, t[indices[i] - 1], span) : 0;
        endRow(band, index, y);
    }
    return inside;
}

CUSI_MULTIVERSION
static void diffRow(const int32_t *restrict sum, size_t n, int lower, int upper, int8_t *restrict row) {
    for (size_t i = 0; i < n; ++i)
        row[i] = (int8_t)(sum[i] < lower ? lower : sum[i] > upper ? upper : sum[i]);
}

static uint64_t makeEventDiff(const Band *band, int index) {
    const cusRepresentation *r = &band->stacker->representations[index];
    const size_t cols = (size_t)band->stacker->cols;
    const Grid grid = gridOf(band, cols, 1);
    int32_t *sum = clearScratch(band, sizeof *sum);
    const uint64_t inside = r->clip_each_event ? walkPolarities(&band->events, &grid, r->lower, r->upper, sum)
                                               : sumPolarities(&band->events, 0, band->events.count, &grid, sum);
    for (size_t y = 0; y < band->rows; ++y)
        diffRow(sum + y * cols, cols, r->lower, r->upper, bandRow(band, index, y));
    return inside;
}

static uint64_t makeMdesDiff(const Band *band, int index) {
    const cusRepresentation *r = &band->stacker->representations[index];
    const size_t cols = (size_t)band->stacker->cols, channels = (size_t)r->channels;
    const Grid grid = gridOf(band, cols * channels, r->channels);
    const Events *e = &band->events;
    const uint64_t dt = (uint64_t)e->t[e->count - 1] - (uint64_t)e->t[0];
    int32_t *sum = clearScratch(band, channels * sizeof *sum);
    uint64_t inside = 0;
    uint32_t from = 0;
    for (int k = 0; k < r->channels; ++k) {
        const uint32_t to = k + 1 == r->channels ? e->count
                                                 : (uint32_t)eventsLowerBound(e->t, e->count, e->t[0],
                                                                              eventsHalvingStart(k + 1, r->channels, dt));
        inside += sumPolarities(e, from, to, &grid, sum + k);
        from = to;
    }
    for (size_t y = 0; y < band->rows; ++y, sum += cols * channels) {
        for (size_t i = 0; i < cols * channels; ++i) /* a channel includes all earlier ones */
            sum[i] += i % channels ? sum[i - 1] : 0;
        diffRow(sum, cols * channels, r->lower, r->upper, bandRow(band, index, y));
    }
    return inside;
}

/* make() makes one representation of a band and returns how many events lie in the band. scratch_bytes: per pixel
 * (VOXEL_GRID, EVENT_CUBE and MDES_DIFF: and channel); 0 if the frame itself holds the counts. */
static const struct {
    uint64_t (*make)(const Band *band, int index);
    size_t scratch_bytes;
} kinds[] = {[CUS_REPR_HISTOGRAM] = {makeHistogram, 0},
             [CUS_REPR_MDES] = {makeFromLastEvents, sizeof(uint16_t)},
             [CUS_REPR_MDES_COUNT] = {makeMdesCount, 0},
             [CUS_REPR_TENCODE] = {makeFromLastEvents, sizeof(uint16_t)},
             [CUS_REPR_STACKED_HISTOGRAM] = {makeStackedHistogram, 0},
             [CUS_REPR_VOXEL_GRID] = {makeVoxelGrid, sizeof(int64_t)},
             [CUS_REPR_TIME_SURFACE] = {makeTimeSurface, 2 * sizeof(uint32_t)},
             [CUS_REPR_EVENT_DIFF] = {makeEventDiff, sizeof(int32_t)},
             [CUS_REPR_EVENT_CUBE] = {makeEventCube, 2 * sizeof(int64_t)},
             [CUS_REPR_MDES_DIFF] = {makeMdesDiff, sizeof(int32_t)}};

/* ---- All windows ----------------------------------------------------------------------------------------------------- */

/* Returns the most rows that a band may have for its positions to fit 32 bits. */
static size_t rowsWithin32Bits(const cusEventStacker *stacker, const cusMat *frames) {
    size_t step = 2 * (size_t)stacker->cols;
    for (int i = 0; i < stacker->count; ++i)
        step = frames[i].step > step ? frames[i].step : step;
    return step < OUTSIDE ? OUTSIDE / step : 1;
}

/* Returns enough bands to keep all threads busy. */
static size_t bandsPerFrame(const cusEventStacker *stacker, size_t window_count, const cusMat *frames) {
    const size_t rows = (size_t)stacker->rows, max_rows = rowsWithin32Bits(stacker, frames);
    const size_t threads = (size_t)((const HostState *)stacker->state)->threads, least = (rows + max_rows - 1) / max_rows,
                 wanted = (threads + window_count - 1) / window_count, bands = wanted > least ? wanted : least;
    return bands < rows ? bands : rows;
}

/* Returns how often the events of a window are read: MDES and TENCODE together read them once. */
static int passesOf(const cusEventStacker *stacker) {
    int passes = 0, last_events = 0;
    for (int i = 0; i < stacker->count; ++i)
        passes += !eventsUsesLastEvent(stacker->representations[i].kind) || last_events++ == 0;
    return passes;
}

static cusMat frameOf(const cusMat *frames, size_t index, int rows) {
    cusMat frame = *frames;
    frame.data = (char *)frames->data + index * (size_t)rows * frames->step;
    frame.rows = rows;
    return frame;
}

/* Normalizes the frames of a window that has events. */
static void normalize(const cusEventStacker *stacker, const cusMat *frames, size_t window, size_t place, int threads) {
    const HostState *state = stacker->state;
    for (int i = 0; i < stacker->count; ++i) {
        const int how = eventsNormalize(&stacker->representations[i]);
        if (!how)
            continue;
        const cusMat frame = frameOf(&frames[i], window, stacker->rows),
                     values = isHalf(stacker, i) ? frameOf(&state->wide[i], place, stacker->rows) : frame;
        events_host_normalize(&values, &frame, how == CUS_NORMALIZE_SAMPLE, threads);
    }
}

/* Makes the frames of windows first .. end - 1. Returns how many of their events lie inside. */
static uint64_t stackWindows(const cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                             const cusEventSpan *spans, size_t first_window, size_t end, size_t bands, cusMat *frames) {
    HostState *state = stacker->state;
    const size_t rows = (size_t)stacker->rows;
    CusiProgress *const progress = cusi_progress();
    uint64_t inside = 0;
#pragma omp parallel for schedule(dynamic) num_threads(state->threads) reduction(+ : inside)
    for (int64_t task = (int64_t)(first_window * bands); task < (int64_t)(end * bands); ++task) {
        if (cusi_step(progress, 1))
            continue;
        const size_t w = (size_t)task / bands, part = (size_t)task % bands;
        const uint64_t first = windows[w].first;
        const size_t row0 = rows * part / bands;
        const Band band = {
            .stacker = stacker,
            .events = {.x = events->x + first,
                       .y = events->y + first,
                       .p = events->p + first,
                       .t = events->t ? events->t + first : NULL,
                       .count = (uint32_t)(windows[w].last - first),
                       .progress = progress},
            .span = spans ? &spans[w] : NULL,
            .row0 = row0,
            .rows = rows * (part + 1) / bands - row0,
            .scratch = state->scratch[cusi_threadNumber()],
            .frames = frames,
            .top = w * rows,
            .place = bands == 1 ? (size_t)cusi_threadNumber() : w - first_window,
        };
        int last_events = 0; /* MDES and TENCODE so far; the first makes all of them */
        for (int i = 0; i < stacker->count; ++i) {
            const cusRepresentation *r = &stacker->representations[i];
            if (band.events.count == 0) {
                fillBand(&band, i, r->kind == CUS_REPR_MDES && r->depth == CUS_8U ? 128 : 0);
            } else if (!eventsUsesLastEvent(r->kind) || last_events++ == 0) {
                const uint64_t found = kinds[r->kind].make(&band, i);
                inside += i == 0 ? found : 0;
            }
        }
        if (bands == 1 && band.events.count > 0)
            normalize(stacker, frames, w, band.place, 1);
    }
    for (size_t w = first_window; w < end && bands > 1; ++w) /* moments are those of whole frames */
        if (cusi_proceed(progress) == CUS_OK && windows[w].first < windows[w].last)
            normalize(stacker, frames, w, w - first_window, state->threads);
    return inside;
}

cusStatus events_host_stack(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                            const cusEventSpan *spans, size_t window_count, cusMat *frames) {
    HostState *state = stacker->state;
    const size_t threads = (size_t)state->threads, bands = bandsPerFrame(stacker, window_count, frames);
    uint64_t inside = 0, all = 0;
    for (size_t w = 0; w < window_count; ++w)
        all += windows[w].last - windows[w].first;
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, (int64_t)(all * bands) * passesOf(stacker) + (int64_t)(window_count * bands));
    for (size_t w = 0, end; w < window_count; w = end) {
        /* Bands of a frame share its place in `wide`, which has one for each thread. */
        end = bands > 1 && window_count - w > threads ? w + threads : window_count;
        inside += stackWindows(stacker, events, windows, spans, w, end, bands, frames);
        CUS_TRY(cusi_proceed(progress));
    }
    state->skipped += all - inside;
    return CUS_OK;
}

cusStatus events_host_skipped(cusEventStacker *stacker, uint64_t *skipped) {
    *skipped = ((const HostState *)stacker->state)->skipped;
    return CUS_OK;
}

/* ---- Create and destroy ---------------------------------------------------------------------------------------------- */

cusStatus events_host_create(cusEventStacker *stacker) {
    size_t bytes = 0;
    for (int i = 0; i < stacker->count; ++i) {
        const cusRepresentation *r = &stacker->representations[i];
        const int by_channel =
            r->kind == CUS_REPR_VOXEL_GRID || r->kind == CUS_REPR_EVENT_CUBE || r->kind == CUS_REPR_MDES_DIFF;
        const size_t per_pixel = kinds[r->kind].scratch_bytes * (by_channel ? (size_t)r->channels : 1);
        bytes = per_pixel > bytes ? per_pixel : bytes;
    }
    bytes *= (size_t)stacker->rows * (size_t)stacker->cols;
    HostState *state = calloc(1, sizeof *state);
    CUSI_REQUIRE(state, CUS_ERROR_NO_MEMORY, "cusEventStackerCreate: no host memory");
    stacker->state = state;
    state->threads = cusi_maxThreads();
    state->scratch = calloc((size_t)state->threads, sizeof *state->scratch);
    CUSI_REQUIRE(state->scratch, CUS_ERROR_NO_MEMORY, "cusEventStackerCreate: no host memory");
    for (int i = 0; i < state->threads && bytes > 0; ++i) {
        state->scratch[i] = cusi_hostAllocate(bytes);
        CUSI_REQUIRE(state->scratch[i], CUS_ERROR_NO_MEMORY,
                     "cusEventStackerCreate: no host memory for %zu bytes of accumulators", bytes);
    }
    for (int i = 0; i < stacker->count; ++i)
        if (isHalf(stacker, i))
            CUS_TRY(cusMatCreate(&state->wide[i],
                                 state->threads * (eventsNormalize(&stacker->representations[i]) ? stacker->rows : 1),
                                 stacker->cols, CUS_MAKETYPE(CUS_32F, CUS_CHANNELS(stacker->types[i])), CUS_HOST));
    return CUS_OK;
}

void events_host_destroy(cusEventStacker *stacker) {
    HostState *state = stacker->state;
    if (!state)
        return;
    for (int i = 0; state->scratch && i < state->threads; ++i)
        free(state->scratch[i]);
    free(state->scratch);
    for (int i = 0; i < stacker->count; ++i)
        cusMatRelease(&state->wide[i]);
    free(state);
}
