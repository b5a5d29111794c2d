#include "check.h"
#include "events_backend.h"
#include "host.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One thread makes one frame, or one band of its rows where there are fewer windows than threads, and sees the events in
 * their order: so nothing needs atomics, and "the last event" is simply the one that is written last. Pixel positions are
 * computed for a few hundred events at once, which the compiler vectorizes; what remains for each event is one
 * read-modify-write in a frame that stays in the cache. */

enum { EVENTS_AT_ONCE = 512 };
#define OUTSIDE UINT32_MAX

typedef struct HostState {
    int threads;
    void **scratch; /* one for each thread: the accumulators of a frame */
    uint64_t skipped;
} HostState;

/* Where the accumulators of a band of rows lie: element row * step + x * unit, and one of two by polarity. */
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
} Events;

/* Positions of n events from `from` on; OUTSIDE for those that are not in the band. Returns how many are in it. */
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

/* For events from .. to - 1 that are in the band: `i` is the event, `at` its position. `inside` counts them. */
#define FOR_EVENTS_INSIDE(events, from, to, grid, inside, ...)                   \
    do {                                                                         \
        uint32_t position_[EVENTS_AT_ONCE];                                      \
        for (uint32_t start_ = (from), n_; start_ < (to); start_ += n_) {        \
            n_ = (to)-start_ < EVENTS_AT_ONCE ? (to)-start_ : EVENTS_AT_ONCE;    \
            const uint32_t found_ = locate(events, start_, n_, grid, position_); \
            (inside) += found_;                                                  \
            if (found_ == 0)                                                     \
                continue;                                                        \
            for (uint32_t k_ = 0; k_ < n_; ++k_) {                               \
                const uint32_t i = start_ + k_, at = position_[k_];              \
                (void)i;                                                         \
                if (found_ == n_ || at != OUTSIDE) {                             \
                    __VA_ARGS__                                                  \
                }                                                                \
            }                                                                    \
        }                                                                        \
    } while (0)

static uint64_t countEvents(const Events *events, uint32_t from, uint32_t to, const Grid *grid, uint8_t *counts,
                            uint8_t ceiling) {
    uint64_t inside = 0;
    FOR_EVENTS_INSIDE(events, from, to, grid, inside, {
        const uint8_t c = counts[at];
        counts[at] = (uint8_t)(c + (c < ceiling));
    });
    return inside;
}

/* Of a pixel's last event, all that MDES and TENCODE want: 0 where there is none, else LAST, its polarity, its level among
 * all 16 mixed-density windows (with fewer of them, the last of these at most) and TENCODE's green. */
enum { LAST = 1 << 13, LAST_POSITIVE = 1 << 12, LAST_LEVEL = 1 << 8 };

/* Green of TENCODE, 255 age / dt rounded down, is exact in double while 255 age fits it and dt is below 2^45. */
CUSI_MULTIVERSION
static void greens(const int64_t *restrict t, uint32_t n, uint64_t newest, uint64_t dt, uint16_t *restrict green) {
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

/* timed: with green. */
static uint64_t lastEvents(const Events *events, const Grid *grid, int timed, uint16_t *last) {
    uint64_t inside = 0;
    EventsLevels levels;
    uint32_t position[EVENTS_AT_ONCE];
    uint16_t code[EVENTS_AT_ONCE] = {0};
    if (events->count == 0)
        return 0;
    assert(events->t || !timed);
    const uint64_t newest = timed ? (uint64_t)events->t[events->count - 1] : 0;
    const uint64_t dt = timed ? newest - (uint64_t)events->t[0] : 0;
    eventsMdesLevels(events->count, EVENTS_MAX_CHANNELS, &levels);
    for (uint32_t k = 0; k < EVENTS_MAX_CHANNELS; ++k)
        for (uint32_t start = levels.begin[k], n; start < levels.begin[k + 1]; start += n) {
            const uint32_t rest = levels.begin[k + 1] - start;
            n = rest < EVENTS_AT_ONCE ? rest : EVENTS_AT_ONCE;
            const uint32_t found = locate(events, start, n, grid, position);
            inside += found;
            if (found == 0)
                continue;
            if (timed)
                greens(events->t + start, n, newest, dt, code);
            for (uint32_t i = 0; i < n; ++i)
                if (found == n || position[i] != OUTSIDE)
                    last[position[i]] =
                        (uint16_t)(LAST + (events->p[start + i] ? LAST_POSITIVE : 0) + k * LAST_LEVEL + code[i]);
        }
    return inside;
}

static uint64_t sumPolarities(const Events *events, const Grid *grid, int32_t *sum) {
    uint64_t inside = 0;
    FOR_EVENTS_INSIDE(events, 0, events->count, grid, inside, { sum[at] += events->p[i] ? 1 : -1; });
    return inside;
}

static uint64_t spreadVoxels(const Events *events, const Grid *grid, int bins, int64_t *voxels) {
    uint64_t inside = 0;
    if (events->count == 0)
        return 0;
    assert(events->t);
    const int64_t t0 = events->t[0], span = events->t[events->count - 1] - t0;
    const double dt = span > 0 ? (double)span : 1.0;
    FOR_EVENTS_INSIDE(events, 0, events->count, grid, inside, {
        double time = (double)(bins - 1) * (double)(events->t[i] - t0) / dt;
        time = time < 0 ? 0 : time > bins - 1 ? bins - 1 : time;
        const int bin = (int)time;
        const int64_t next = (int64_t)((time - bin) * EVENTS_VOXEL_UNIT + 0.5), here = (int64_t)EVENTS_VOXEL_UNIT - next;
        int64_t *voxel = voxels + (size_t)at * (size_t)bins + bin;
        voxel[0] += events->p[i] ? here : -here;
        if (bin + 1 < bins)
            voxel[1] += events->p[i] ? next : -next;
    });
    return inside;
}

static int threadNumber(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* Bins of equal duration begin where floor(bins (t - t0) / max(dt, 1)) reaches their number. */
static void timeLevels(const Events *events, int bins, EventsLevels *levels) {
    assert(events->t || !events->count);
    levels->begin[0] = 0;
    levels->begin[bins] = events->count;
    const uint64_t dt = events->count ? (uint64_t)events->t[events->count - 1] - (uint64_t)events->t[0] : 0;
    for (int k = 1; k < bins; ++k)
        levels->begin[k] =
            events->count ? (uint32_t)eventsLowerBound(events->t, events->count, events->t[0], eventsBinStart(k, bins, dt))
                          : 0;
}

/* ---- From accumulators to pixels ---------------------------------------------------------------------------------------
 */

/* Every pixel is one copy of all 16 channels, of which the next pixel's cover those that are too many. */
static void mdesRow(const uint16_t *last, size_t cols, const cusRepresentation *r, uint8_t *row) {
    const size_t channels = (size_t)r->channels, element = r->depth == CUS_32F ? sizeof(float) : 1;
    const size_t pixel = channels * element, copied = EVENTS_MAX_CHANNELS * element;
    float wide[2 * LAST / LAST_LEVEL][EVENTS_MAX_CHANNELS] = {{0}};
    uint8_t narrow[2 * LAST / LAST_LEVEL][EVENTS_MAX_CHANNELS];
    memset(narrow, r->depth == CUS_8U ? 128 : 0, sizeof narrow);
    for (size_t code = LAST / LAST_LEVEL; code < 2 * LAST / LAST_LEVEL; ++code) {
        const int positive = (code & LAST_POSITIVE / LAST_LEVEL) != 0;
        const size_t level = code % EVENTS_MAX_CHANNELS, n = level < channels ? level + 1 : channels;
        memset(narrow[code], r->depth == CUS_8U ? (positive ? 255 : 0) : (positive ? 1 : 255 /* -1 */), n);
        for (size_t k = 0; k < n; ++k)
            wide[code][k] = positive ? 1.0f : -1.0f;
    }
    const size_t whole = cols * pixel < copied ? 0 : (cols * pixel - copied) / pixel + 1;
    size_t x = 0;
    if (element == 1)
        for (; x < whole; ++x)
            memcpy(row + x * pixel, narrow[last[x] / LAST_LEVEL], EVENTS_MAX_CHANNELS);
    else
        for (; x < whole; ++x)
            memcpy(row + x * pixel, wide[last[x] / LAST_LEVEL], EVENTS_MAX_CHANNELS * sizeof(float));
    for (; x < cols; ++x)
        memcpy(row + x * pixel,
               element == 1 ? (const void *)narrow[last[x] / LAST_LEVEL] : (const void *)wide[last[x] / LAST_LEVEL], pixel);
}

/* 0x00RRGGBB of n pixels. */
CUSI_MULTIVERSION
static void tencodeColors(const uint16_t *restrict last, size_t n, uint32_t positive, uint32_t negative,
                          uint32_t *restrict color) {
    for (size_t i = 0; i < n; ++i) {
        const uint32_t code = last[i], ends = code & LAST_POSITIVE ? positive : negative;
        color[i] = code ? ends | (code & 255) << 8 : 0;
    }
}

static void tencodeRow(const uint16_t *last, size_t cols, const cusRepresentation *r, uint8_t *row) {
    const uint32_t red = 0xff0000, blue = 0x0000ff;
    uint32_t color[EVENTS_AT_ONCE];
    for (size_t start = 0; start < cols; start += EVENTS_AT_ONCE) {
        const size_t n = cols - start < EVENTS_AT_ONCE ? cols - start : EVENTS_AT_ONCE;
        tencodeColors(last + start, n, r->swap_channels ? blue : red, r->swap_channels ? red : blue, color);
        for (size_t i = 0; i < n; ++i) {
            uint8_t *const bgr = row + 3 * (start + i);
            bgr[0] = (uint8_t)color[i];
            bgr[1] = (uint8_t)(color[i] >> 8);
            bgr[2] = (uint8_t)(color[i] >> 16);
        }
    }
}

/* Level k counted events of level k alone; window k of MDES_COUNT holds levels k and up. */
CUSI_MULTIVERSION
static void addNewerLevels(uint8_t *row, size_t cols, size_t channels) {
    for (size_t x = 0; x < cols; ++x)
        for (size_t k = channels - 1; k-- > 0;) {
            const unsigned sum = (unsigned)row[x * channels + k] + row[x * channels + k + 1];
            row[x * channels + k] = (uint8_t)(sum < 255 ? sum : 255);
        }
}

CUSI_MULTIVERSION
static void clipRow(const int32_t *restrict sum, size_t cols, int8_t *restrict row) {
    for (size_t x = 0; x < cols; ++x)
        row[x] = (int8_t)(sum[x] < -128 ? -128 : sum[x] > 127 ? 127 : sum[x]);
}

CUSI_MULTIVERSION
static void voxelRow(const int64_t *restrict voxels, size_t n, float *restrict row) {
    for (size_t i = 0; i < n; ++i)
        row[i] = (float)((double)voxels[i] / EVENTS_VOXEL_UNIT);
}

static void surfaceRow(const uint32_t *last, size_t n, const cusRepresentation *r, const Events *events, float *row) {
    const int64_t *const t = events->t;
    for (size_t i = 0; i < n; ++i) {
        row[i] = 0.0f;
        if (last[i] == 0)
            continue;
        assert(t);
        row[i] = (float)exp((double)(t[last[i] - 1] - t[events->count - 1]) / r->tau);
    }
}

/* ---- One band of one frame ---------------------------------------------------------------------------------------------
 */

typedef struct Band {
    const cusEventStacker *stacker;
    Events events;
    size_t row0, rows;
    void *scratch;
    cusMat *frames; /* of the whole batch */
    size_t top;     /* the frame's first row in them */
} Band;

static void *bandRow(const Band *band, int representation, size_t y) {
    const cusMat *frame = &band->frames[representation];
    return (char *)frame->data + (band->top + band->row0 + y) * frame->step;
}

static void clearBand(const Band *band, int representation) {
    for (size_t y = 0; y < band->rows; ++y)
        memset(bandRow(band, representation, y), 0, cusi_rowBytes(&band->frames[representation]));
}

static void *clearScratch(const Band *band, size_t bytes_a_pixel) {
    return memset(band->scratch, 0, band->rows * (size_t)band->stacker->cols * bytes_a_pixel);
}

static Grid gridOf(const Band *band, size_t step, int unit) {
    return (Grid){.row0 = (uint32_t)band->row0,
                  .rows = (uint32_t)band->rows,
                  .cols = (uint32_t)band->stacker->cols,
                  .step = (uint32_t)step,
                  .unit = (uint32_t)unit};
}

/* Makes one representation of the band. Returns how many events were in it. */
static uint64_t make(const Band *band, int index) {
    const cusRepresentation *r = &band->stacker->representations[index];
    const Events *events = &band->events;
    const size_t cols = (size_t)band->stacker->cols, step = band->frames[index].step;
    const int channels = r->channels;
    uint64_t inside = 0;
    switch (r->kind) {
    case CUS_REPR_HISTOGRAM: {
        Grid grid = gridOf(band, step, 2);
        *(r->swap_channels ? &grid.positive : &grid.negative) = 1;
        clearBand(band, index);
        return countEvents(events, 0, events->count, &grid, bandRow(band, index, 0), 255);
    }
    case CUS_REPR_MDES:
    case CUS_REPR_TENCODE: {
        /* Of all representations of the two kinds, from one pass over the events. */
        const Grid grid = gridOf(band, cols, 1);
        const cusRepresentation *others = band->stacker->representations;
        uint16_t *last = clearScratch(band, sizeof *last);
        int timed = 0;
        for (int k = index; k < band->stacker->count; ++k)
            timed |= others[k].kind == CUS_REPR_TENCODE;
        inside = lastEvents(events, &grid, timed, last);
        for (int k = index; k < band->stacker->count; ++k)
            for (size_t y = 0; y < band->rows && eventsUsesLastEvent(others[k].kind); ++y)
                if (others[k].kind == CUS_REPR_MDES)
                    mdesRow(last + y * cols, cols, &others[k], bandRow(band, k, y));
                else
                    tencodeRow(last + y * cols, cols, &others[k], bandRow(band, k, y));
        return inside;
    }
    case CUS_REPR_MDES_COUNT: {
        const Grid grid = gridOf(band, step, channels);
        EventsLevels levels;
        eventsMdesLevels(events->count, channels, &levels);
        clearBand(band, index);
        for (int k = 0; k < channels; ++k)
            inside += countEvents(events, levels.begin[k], levels.begin[k + 1], &grid,
                                  (uint8_t *)bandRow(band, index, 0) + k, 255);
        for (size_t y = 0; y < band->rows; ++y)
            addNewerLevels(bandRow(band, index, y), cols, (size_t)channels);
        return inside;
    }
    case CUS_REPR_STACKED_HISTOGRAM: {
        Grid grid = gridOf(band, step, 2 * channels);
        *(r->swap_channels ? &grid.positive : &grid.negative) = (uint32_t)channels;
        EventsLevels levels;
        timeLevels(events, channels, &levels);
        clearBand(band, index);
        for (int k = 0; k < channels; ++k)
            inside += countEvents(events, levels.begin[k], levels.begin[k + 1], &grid,
                                  (uint8_t *)bandRow(band, index, 0) + k, (uint8_t)r->cutoff);
        return inside;
    }
    case CUS_REPR_VOXEL_GRID: {
        const Grid grid = gridOf(band, cols, 1);
        int64_t *voxels = clearScratch(band, (size_t)channels * sizeof *voxels);
        inside = spreadVoxels(events, &grid, channels, voxels);
        for (size_t y = 0; y < band->rows; ++y)
            voxelRow(voxels + y * cols * (size_t)channels, cols * (size_t)channels, bandRow(band, index, y));
        return inside;
    }
    case CUS_REPR_TIME_SURFACE: {
        Grid grid = gridOf(band, 2 * cols, 2);
        *(r->swap_channels ? &grid.positive : &grid.negative) = 1;
        uint32_t *last = clearScratch(band, 2 * sizeof *last);
        FOR_EVENTS_INSIDE(events, 0, events->count, &grid, inside, { last[at] = i + 1; });
        for (size_t y = 0; y < band->rows; ++y)
            surfaceRow(last + 2 * y * cols, 2 * cols, r, events, bandRow(band, index, y));
        return inside;
    }
    case CUS_REPR_EVENT_DIFF: {
        const Grid grid = gridOf(band, cols, 1);
        int32_t *sum = clearScratch(band, sizeof *sum);
        inside = sumPolarities(events, &grid, sum);
        for (size_t y = 0; y < band->rows; ++y)
            clipRow(sum + y * cols, cols, bandRow(band, index, y));
        return inside;
    }
    }
    return inside;
}

/* A representation whose work another one before it does too. */
static int madeBefore(const cusEventStacker *stacker, int index) {
    if (eventsUsesLastEvent(stacker->representations[index].kind))
        for (int k = 0; k < index; ++k)
            if (eventsUsesLastEvent(stacker->representations[k].kind))
                return 1;
    return 0;
}

/* The non-zero values of a frame lose their mean and are divided by their standard deviation. */
static void normalize(cusMat *frames, size_t top, size_t rows) {
    const size_t n = (size_t)frames->cols * (size_t)CUS_CHANNELS(frames->type);
    double sum = 0, squares = 0;
    uint64_t count = 0;
    for (size_t y = top; y < top + rows; ++y) {
        const float *row = (const float *)((const char *)frames->data + y * frames->step);
        for (size_t i = 0; i < n; ++i) {
            sum += row[i];
            count += row[i] != 0;
        }
    }
    const double mean = count ? sum / (double)count : 0;
    for (size_t y = top; y < top + rows; ++y) {
        const float *row = (const float *)((const char *)frames->data + y * frames->step);
        for (size_t i = 0; i < n; ++i)
            squares += row[i] != 0 ? (row[i] - mean) * (row[i] - mean) : 0;
    }
    const double deviation = count ? sqrt(squares / (double)count) : 0, scale = deviation > 0 ? 1 / deviation : 1;
    for (size_t y = top; y < top + rows; ++y) {
        float *row = (float *)((char *)frames->data + y * frames->step);
        for (size_t i = 0; i < n; ++i)
            row[i] = row[i] != 0 ? (float)((row[i] - mean) * scale) : 0;
    }
}

/* Rows of a band such that positions in it fit 32 bits. */
static size_t rowsWithin32Bits(const cusEventStacker *stacker, const cusMat *frames) {
    size_t step = 2 * (size_t)stacker->cols;
    for (int i = 0; i < stacker->count; ++i)
        step = frames[i].step > step ? frames[i].step : step;
    return step < OUTSIDE ? OUTSIDE / step : 1;
}

cusStatus events_host_stack(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                            size_t window_count, cusMat *frames) {
    HostState *state = stacker->state;
    const size_t rows = (size_t)stacker->rows, most_rows = rowsWithin32Bits(stacker, frames);
    size_t bands = ((size_t)state->threads + window_count - 1) / window_count;
    bands = bands > (rows + most_rows - 1) / most_rows ? bands : (rows + most_rows - 1) / most_rows;
    bands = bands < rows ? bands : rows;
    const int64_t tasks = (int64_t)(window_count * bands);
    uint64_t inside = 0, all = 0;
    for (size_t w = 0; w < window_count; ++w)
        all += windows[w].last - windows[w].first;
#pragma omp parallel for schedule(dynamic) num_threads(state->threads) reduction(+ : inside)
    for (int64_t task = 0; task < tasks; ++task) {
        const size_t w = (size_t)task / bands, part = (size_t)task % bands;
        const uint64_t first = windows[w].first;
        const size_t row0 = rows * part / bands;
        const Band band = {
            .stacker = stacker,
            .events = {.x = events->x + first,
                       .y = events->y + first,
                       .p = events->p + first,
                       .t = events->t ? events->t + first : NULL,
                       .count = (uint32_t)(windows[w].last - first)},
            .row0 = row0,
            .rows = rows * (part + 1) / bands - row0,
            .scratch = state->scratch[threadNumber()],
            .frames = frames,
            .top = w * rows,
        };
        for (int i = 0; i < stacker->count; ++i) {
            if (madeBefore(stacker, i))
                continue;
            const uint64_t found = make(&band, i);
            inside += i == 0 ? found : 0;
        }
    }
    state->skipped += all - inside;
    for (int i = 0; i < stacker->count; ++i)
        if (stacker->representations[i].kind == CUS_REPR_VOXEL_GRID && stacker->representations[i].normalize) {
#pragma omp parallel for schedule(dynamic) num_threads(state->threads)
            for (int64_t w = 0; w < (int64_t)window_count; ++w)
                normalize(&frames[i], (size_t)w * rows, rows);
        }
    return CUS_OK;
}

cusStatus events_host_skipped(cusEventStacker *stacker, uint64_t *skipped) {
    *skipped = ((const HostState *)stacker->state)->skipped;
    return CUS_OK;
}

/* ---- Create and destroy ------------------------------------------------------------------------------------------------
 */

static size_t scratchBytesAPixel(const cusRepresentation *r) {
    switch (r->kind) {
    case CUS_REPR_MDES:
    case CUS_REPR_TENCODE:
        return sizeof(uint16_t);
    case CUS_REPR_EVENT_DIFF:
        return sizeof(int32_t);
    case CUS_REPR_TIME_SURFACE:
        return 2 * sizeof(uint32_t);
    case CUS_REPR_VOXEL_GRID:
        return (size_t)r->channels * sizeof(int64_t);
    default:
        return 0; /* counted in the frame itself */
    }
}

cusStatus events_host_create(cusEventStacker *stacker) {
    size_t bytes = 0;
    for (int i = 0; i < stacker->count; ++i) {
        const size_t wanted = scratchBytesAPixel(&stacker->representations[i]);
        bytes = wanted > bytes ? wanted : bytes;
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
    return CUS_OK;
}

void events_host_destroy(cusEventStacker *stacker) {
    HostState *state = stacker->state;
    if (!state)
        return;
    for (int i = 0; state->scratch && i < state->threads; ++i)
        free(state->scratch[i]);
    free(state->scratch);
    free(state);
}
