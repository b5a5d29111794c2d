/* Event frames on the CPU. Each thread makes a frame, or a band of its rows if there are fewer windows than threads, and reads
 * the events in order: no atomics are needed, and a pixel's last event is the one written last. */
#include "check.h"
#include "events/cpu/stages.h"
#include "host.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct HostState {
    int threads;
    void **scratch; /* a frame's accumulators for each thread */
    uint64_t skipped;
} HostState;

/* ---- One band of one frame ------------------------------------------------------------------------------------------- */

typedef struct Band {
    const cusEventStacker *stacker;
    Events events;
    size_t row0, rows;
    void *scratch;
    cusMat *frames; /* of the whole call */
    size_t top;     /* the frame's first row in them */
} Band;

static void *bandRow(const Band *band, int representation, size_t y) {
    const cusMat *frame = &band->frames[representation];
    return (char *)frame->data + (band->top + band->row0 + y) * frame->step;
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

/* The second polarity's accumulators lie `offset` past the first's; positive comes first unless channels are swapped. */
static void setPolarityOffset(Grid *grid, const cusRepresentation *r, uint32_t offset) {
    *(r->swap_channels ? &grid->positive : &grid->negative) = offset;
}

static uint64_t makeHistogram(const Band *band, int index) {
    Grid grid = gridOf(band, band->frames[index].step, 2);
    setPolarityOffset(&grid, &band->stacker->representations[index], 1);
    fillBand(band, index, 0);
    return events_host_count(&band->events, 0, band->events.count, &grid, bandRow(band, index, 0), 255);
}

/* Makes all MDES and TENCODE representations from `index` on in one pass over the events. */
static uint64_t makeFromLastEvents(const Band *band, int index) {
    const size_t cols = (size_t)band->stacker->cols;
    const Grid grid = gridOf(band, cols, 1);
    const cusRepresentation *all = band->stacker->representations;
    uint16_t *codes = clearScratch(band, sizeof *codes);
    int with_green = 0;
    for (int k = index; k < band->stacker->count; ++k)
        with_green |= all[k].kind == CUS_REPR_TENCODE;
    const uint64_t inside = events_host_lastCodes(&band->events, &grid, with_green, codes);
    for (int k = index; k < band->stacker->count; ++k)
        for (size_t y = 0; y < band->rows && eventsUsesLastEvent(all[k].kind); ++y)
            if (all[k].kind == CUS_REPR_MDES)
                events_host_mdesRow(codes + y * cols, cols, &all[k], bandRow(band, k, y));
            else
                events_host_tencodeRow(codes + y * cols, cols, &all[k], bandRow(band, k, y));
    return inside;
}

/* Counts each level in a channel of its own. */
static uint64_t countLevels(const Band *band, int index, const Grid *grid, const EventsLevels *levels, uint8_t ceiling) {
    uint64_t inside = 0;
    fillBand(band, index, 0);
    for (int k = 0; k < band->stacker->representations[index].channels; ++k)
        inside += events_host_count(&band->events, levels->begin[k], levels->begin[k + 1], grid,
                                    (uint8_t *)bandRow(band, index, 0) + k, ceiling);
    return inside;
}

static uint64_t makeMdesCount(const Band *band, int index) {
    const int channels = band->stacker->representations[index].channels;
    const Grid grid = gridOf(band, band->frames[index].step, channels);
    EventsLevels levels = {.begin = {0}};
    eventsMdesLevels(band->events.count, channels, &levels);
    const uint64_t inside = countLevels(band, index, &grid, &levels, 255);
    for (size_t y = 0; y < band->rows; ++y)
        events_host_addNewerLevels(bandRow(band, index, y), (size_t)band->stacker->cols, (size_t)channels);
    return inside;
}

static uint64_t makeStackedHistogram(const Band *band, int index) {
    const cusRepresentation *r = &band->stacker->representations[index];
    Grid grid = gridOf(band, band->frames[index].step, 2 * r->channels);
    setPolarityOffset(&grid, r, (uint32_t)r->channels);
    EventsLevels levels = {.begin = {0}};
    events_host_timeLevels(&band->events, r->channels, &levels);
    return countLevels(band, index, &grid, &levels, (uint8_t)r->cutoff);
}

static uint64_t makeVoxelGrid(const Band *band, int index) {
    const size_t cols = (size_t)band->stacker->cols, bins = (size_t)band->stacker->representations[index].channels;
    const Grid grid = gridOf(band, cols, 1);
    int64_t *voxels = clearScratch(band, bins * sizeof *voxels);
    const uint64_t inside = events_host_sumVoxels(&band->events, &grid, (int)bins, voxels);
    for (size_t y = 0; y < band->rows; ++y)
        events_host_voxelRow(voxels + y * cols * bins, cols * bins, bandRow(band, index, y));
    return inside;
}

static uint64_t makeTimeSurface(const Band *band, int index) {
    const cusRepresentation *r = &band->stacker->representations[index];
    const size_t values = 2 * (size_t)band->stacker->cols;
    Grid grid = gridOf(band, values, 2);
    setPolarityOffset(&grid, r, 1);
    uint32_t *indices = clearScratch(band, 2 * sizeof *indices);
    const uint64_t inside = events_host_lastIndices(&band->events, &grid, indices);
    for (size_t y = 0; y < band->rows; ++y)
        events_host_surfaceRow(indices + y * values, values, r, &band->events, bandRow(band, index, y));
    return inside;
}

static uint64_t makeEventDiff(const Band *band, int index) {
    const size_t cols = (size_t)band->stacker->cols;
    const Grid grid = gridOf(band, cols, 1);
    int32_t *sum = clearScratch(band, sizeof *sum);
    const uint64_t inside = events_host_sumPolarities(&band->events, &grid, sum);
    for (size_t y = 0; y < band->rows; ++y)
        events_host_diffRow(sum + y * cols, cols, bandRow(band, index, y));
    return inside;
}

/* Makes one representation of the band. Returns how many events were in it. */
static uint64_t makeRepresentation(const Band *band, int index) {
    switch (band->stacker->representations[index].kind) {
    case CUS_REPR_HISTOGRAM:
        return makeHistogram(band, index);
    case CUS_REPR_MDES:
    case CUS_REPR_TENCODE:
        return makeFromLastEvents(band, index);
    case CUS_REPR_MDES_COUNT:
        return makeMdesCount(band, index);
    case CUS_REPR_STACKED_HISTOGRAM:
        return makeStackedHistogram(band, index);
    case CUS_REPR_VOXEL_GRID:
        return makeVoxelGrid(band, index);
    case CUS_REPR_TIME_SURFACE:
        return makeTimeSurface(band, index);
    case CUS_REPR_EVENT_DIFF:
        return makeEventDiff(band, index);
    }
    return 0;
}

/* Whether makeRepresentation() of an earlier representation makes this one too. */
static int madeBefore(const cusEventStacker *stacker, int index) {
    if (eventsUsesLastEvent(stacker->representations[index].kind))
        for (int k = 0; k < index; ++k)
            if (eventsUsesLastEvent(stacker->representations[k].kind))
                return 1;
    return 0;
}

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

cusStatus events_host_stack(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                            size_t window_count, cusMat *frames) {
    HostState *state = stacker->state;
    const size_t rows = (size_t)stacker->rows, bands = bandsPerFrame(stacker, window_count, frames);
    uint64_t inside = 0, all = 0;
    for (size_t w = 0; w < window_count; ++w)
        all += windows[w].last - windows[w].first;
    const int64_t tasks = (int64_t)(window_count * bands);
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
            .scratch = state->scratch[cusi_threadNumber()],
            .frames = frames,
            .top = w * rows,
        };
        for (int i = 0; i < stacker->count; ++i) {
            if (band.events.count == 0) {
                const cusRepresentation *r = &stacker->representations[i];
                fillBand(&band, i, r->kind == CUS_REPR_MDES && r->depth == CUS_8U ? 128 : 0);
                continue;
            }
            if (madeBefore(stacker, i))
                continue;
            const uint64_t found = makeRepresentation(&band, i);
            inside += i == 0 ? found : 0;
        }
    }
    state->skipped += all - inside;
    for (int i = 0; i < stacker->count; ++i)
        if (stacker->representations[i].kind == CUS_REPR_VOXEL_GRID && stacker->representations[i].normalize) {
#pragma omp parallel for schedule(dynamic) num_threads(state->threads)
            for (int64_t w = 0; w < (int64_t)window_count; ++w)
                if (windows[w].first < windows[w].last) /* without events all values stay 0 */
                    events_host_normalize(&frames[i], (size_t)w * rows, rows);
        }
    return CUS_OK;
}

cusStatus events_host_skipped(cusEventStacker *stacker, uint64_t *skipped) {
    *skipped = ((const HostState *)stacker->state)->skipped;
    return CUS_OK;
}

/* ---- Create and destroy ---------------------------------------------------------------------------------------------- */

static size_t scratchBytesPerPixel(const cusRepresentation *r) {
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
        const size_t per_pixel = scratchBytesPerPixel(&stacker->representations[i]);
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
