/* The event generator on the CPU. A first pass counts the events of each row, a second one makes them at the row's place in
 * the order of frames. A stable sort by time leaves events of the same time in the order of pixels. */
#include "check.h"
#include "eventgen/backend.h"
#include "host.h"
#include "progress.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct Record {
    int64_t t;
    uint32_t pixel;
    uint32_t positive;
} Record;

typedef struct HostState {
    EventgenPixel *pixels, *next_pixels; /* next_pixels: the same array until a run may be cancelled */
    uint8_t *values, *next_values;       /* values in the last frame */
    uint64_t *starts;                    /* index of each row's first event */
    EventgenWalk *walks;                 /* a row for each thread */
    int threads;
    Record *unsorted, *sorted;
    size_t capacity; /* records in each array */
    cusEventBuffers arrays;
} HostState;

cusStatus eventgen_host_create(const char *function, cusEventGenerator *generator) {
    const size_t rows = (size_t)generator->rows, cols = (size_t)generator->cols;
    HostState *const state = calloc(1, sizeof *state);
    generator->state = state;
    CUSI_REQUIRE(state, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    state->threads = cusi_maxThreads();
    state->pixels = malloc(rows * cols * sizeof *state->pixels);
    state->values = malloc(rows * cols);
    state->next_pixels = state->pixels;
    state->next_values = state->values;
    state->starts = malloc((rows + 1) * sizeof *state->starts);
    state->walks = malloc((size_t)state->threads * cols * sizeof *state->walks);
    CUSI_REQUIRE(state->pixels && state->values && state->starts && state->walks, CUS_ERROR_NO_MEMORY,
                 "%s: out of host memory", function);
    return CUS_OK;
}

static void freeArrays(cusEventBuffers *arrays) {
    free(arrays->x);
    free(arrays->y);
    free(arrays->p);
    free(arrays->t);
    *arrays = (cusEventBuffers){.capacity = 0};
}

void eventgen_host_destroy(cusEventGenerator *generator) {
    HostState *const state = generator->state;
    if (!state)
        return;
    if (state->next_pixels != state->pixels) {
        free(state->next_pixels);
        free(state->next_values);
    }
    free(state->pixels);
    free(state->values);
    free(state->starts);
    free(state->walks);
    free(state->unsorted);
    free(state->sorted);
    freeArrays(&state->arrays);
    free(state);
}

/* Returns a quarter more than needed, so that arrays seldom grow. */
static size_t roomFor(uint64_t count) {
    return (size_t)(count + count / 4 + 1);
}

cusStatus eventgen_host_arrays(const char *function, cusEventGenerator *generator, uint64_t count,
                               cusEventBuffers *events) {
    cusEventBuffers *const arrays = &((HostState *)generator->state)->arrays;
    if (count > arrays->capacity || !arrays->x) {
        const size_t n = roomFor(count);
        freeArrays(arrays);
        arrays->x = calloc(n, sizeof *arrays->x);
        arrays->y = calloc(n, sizeof *arrays->y);
        arrays->p = calloc(n, sizeof *arrays->p);
        arrays->t = calloc(n, sizeof *arrays->t);
        if (!arrays->x || !arrays->y || !arrays->p || !arrays->t) {
            freeArrays(arrays);
            return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: out of host memory for %zu events", function, n);
        }
        arrays->capacity = n;
    }
    *events = *arrays;
    return CUS_OK;
}

/* Makes room for `count` records, losing the old ones. Returns false if memory runs out. */
static bool reserve(HostState *state, uint64_t count) {
    if (count <= state->capacity)
        return true;
    const size_t n = roomFor(count);
    free(state->unsorted);
    free(state->sorted);
    state->unsorted = calloc(n, sizeof *state->unsorted);
    state->sorted = calloc(n, sizeof *state->sorted);
    state->capacity = state->unsorted && state->sorted ? n : 0;
    return state->capacity > 0;
}

enum { ROWS_AT_ONCE = 4, ASKED_PIXELS = 64, ASKED_EVENTS = 1 << 16 };

/* Returns the number of progress steps of a pass over the frames. */
static int64_t stepsOf(const cusEventGenerator *g, const EventgenBatch *batch) {
    return (int64_t)g->rows * g->cols * batch->count;
}

/* Chooses where new pixels go: to separate memory if the run may be cancelled, since a cancel must change nothing. */
static bool chooseNext(const cusEventGenerator *g, bool apart) {
    HostState *const state = g->state;
    const size_t pixels = (size_t)g->rows * (size_t)g->cols;
    if (apart && state->next_pixels == state->pixels) {
        EventgenPixel *const next_pixels = malloc(pixels * sizeof *next_pixels);
        uint8_t *const next_values = malloc(pixels);
        if (!next_pixels || !next_values) {
            free(next_pixels);
            free(next_values);
            return false;
        }
        state->next_pixels = next_pixels;
        state->next_values = next_values;
    }
    return true;
}

static void swapNext(HostState *state) {
    EventgenPixel *const pixels = state->pixels;
    uint8_t *const values = state->values;
    state->pixels = state->next_pixels;
    state->values = state->next_values;
    state->next_pixels = pixels;
    state->next_values = values;
}

/* Runs the pixels of row y through the frames and returns the number of events. Only counts if `records` is NULL; otherwise
 * stores events and pixels. */
static uint64_t runRow(const cusEventGenerator *g, const EventgenBatch *batch, int y, EventgenWalk *walks, Record *records,
                       CusiProgress *progress) {
    const HostState *const state = g->state;
    const EventgenModel model = g->model;
    const size_t cols = (size_t)g->cols, first = (size_t)y * cols, step = batch->frames->step;
    const uint8_t *row = (const uint8_t *)batch->frames->data + (size_t)y * step, *last = state->values + first;
    int64_t time = batch->before;
    uint64_t n = 0;
    int frame = 0;
    if (time < 0) {
        time = batch->times[0];
        for (size_t x = 0; x < cols; ++x)
            eventgenStart(&model, (uint32_t)(first + x), g->tables.log_intensity[row[x]], time, &walks[x]);
        last = row;
        frame = 1;
    } else {
        for (size_t x = 0; x < cols; ++x)
            eventgenResume(&model, (uint32_t)(first + x), &state->pixels[first + x], &walks[x]);
    }
    for (; frame < batch->count && !cusi_isCancelled(progress); ++frame) {
        row = (const uint8_t *)batch->frames->data + ((size_t)frame * (size_t)g->rows + (size_t)y) * step;
        for (size_t x = 0; x < cols; ++x) {
            const EventgenInterval interval = {time, batch->times[frame], g->tables.log_intensity[last[x]],
                                               g->tables.log_intensity[row[x]], g->tables.shot_rate[row[x]]};
            EventgenEvent event;
            if (x % ASKED_PIXELS == 0 && cusi_step(progress, ASKED_PIXELS))
                break;
            while (eventgenNext(&model, (uint32_t)(first + x), &interval, &walks[x], &event)) {
                if (records)
                    records[n] = (Record){event.t, (uint32_t)(first + x), (uint32_t)event.positive};
                ++n;
            }
        }
        last = row;
        time = batch->times[frame];
    }
    if (records) {
        for (size_t x = 0; x < cols; ++x)
            state->next_pixels[first + x] = walks[x].pixel;
        memmove(state->next_values + first, last, cols);
    }
    return n;
}

static int threadsFor(const cusEventGenerator *g, const EventgenBatch *batch) {
    const HostState *const state = g->state;
    const int useful = cusi_threadsFor((size_t)g->rows * (size_t)g->cols * (size_t)batch->count, 4096);
    return useful < state->threads ? useful : state->threads;
}

uint64_t eventgen_host_count(cusEventGenerator *generator, const EventgenBatch *batch) {
    const cusEventGenerator *const g = generator;
    HostState *const state = g->state;
    const int threads = threadsFor(g, batch);
    (void)threads;
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 0.4, stepsOf(g, batch));
#pragma omp parallel for schedule(dynamic, ROWS_AT_ONCE) num_threads(threads)
    for (int y = 0; y < g->rows; ++y)
        state->starts[y] =
            runRow(g, batch, y, state->walks + (size_t)cusi_threadNumber() * (size_t)g->cols, NULL, progress);
    uint64_t count = 0;
    for (int y = 0; y < g->rows && !cusi_isCancelled(progress); ++y) {
        const uint64_t some = state->starts[y];
        state->starts[y] = count;
        count += some;
    }
    return count;
}

/* Sorts records by the time since `origin` with a stable radix sort, 11 bits at a time. */
static const Record *sortRecords(const HostState *state, size_t n, int64_t origin, int64_t span, CusiProgress *progress) {
    enum { BITS = 11 };
    int passes = 0;
    while (BITS * passes < 63 && span >> BITS * passes)
        ++passes;
    cusi_part(progress, 1, (int64_t)n * (passes + 1));
    const Record *from = state->unsorted;
    Record *to = state->sorted, *other = state->unsorted;
    for (int shift = 0; shift < BITS * passes && !cusi_isCancelled(progress); shift += BITS) {
        size_t start[1 << BITS] = {0};
        for (size_t i = 0; i < n; ++i)
            ++start[(from[i].t - origin) >> shift & ((1 << BITS) - 1)];
        for (size_t b = 0, sum = 0; b < 1 << BITS; ++b) {
            const size_t size = start[b];
            start[b] = sum;
            sum += size;
        }
        for (size_t first = 0; first < n && !cusi_step(progress, ASKED_EVENTS); first += ASKED_EVENTS)
            for (size_t i = first; i < n && i < first + ASKED_EVENTS; ++i)
                to[start[(from[i].t - origin) >> shift & ((1 << BITS) - 1)]++] = from[i];
        Record *const filled = to;
        from = filled;
        to = other;
        other = filled;
    }
    return from;
}

static void writeEvents(const cusEventGenerator *g, const Record *records, const cusEventBuffers *out, size_t n,
                        CusiProgress *progress) {
    const uint32_t cols = (uint32_t)g->cols;
    for (size_t i = 0; i < n; ++i) {
        if (i % ASKED_EVENTS == 0 && cusi_step(progress, ASKED_EVENTS))
            return;
        if (out->x)
            out->x[i] = (uint16_t)(records[i].pixel % cols);
        if (out->y)
            out->y[i] = (uint16_t)(records[i].pixel / cols);
        if (out->p)
            out->p[i] = (uint8_t)records[i].positive;
        if (out->t)
            out->t[i] = records[i].t;
    }
}

cusStatus eventgen_host_make(const char *function, cusEventGenerator *generator, const EventgenBatch *batch,
                             const cusEventBuffers *events, uint64_t count) {
    const cusEventGenerator *const g = generator;
    HostState *const state = g->state;
    CUSI_REQUIRE(reserve(state, count + 1), CUS_ERROR_NO_MEMORY, "%s: out of host memory for %llu events", function,
                 (unsigned long long)count);
    const int threads = threadsFor(g, batch);
    (void)threads;
    CusiProgress *const progress = cusi_progress();
    CUSI_REQUIRE(chooseNext(g, progress->callback != NULL), CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    cusi_part(progress, 0.8, stepsOf(g, batch));
#pragma omp parallel for schedule(dynamic, ROWS_AT_ONCE) num_threads(threads)
    for (int y = 0; y < g->rows; ++y)
        runRow(g, batch, y, state->walks + (size_t)cusi_threadNumber() * (size_t)g->cols,
               state->unsorted + state->starts[y], progress);
    CUS_TRY(cusi_proceed(progress));
    const int64_t origin = batch->before < 0 ? batch->times[0] : batch->before;
    const Record *const sorted =
        sortRecords(state, (size_t)count, origin, batch->times[batch->count - 1] - origin, progress);
    writeEvents(g, sorted, events, (size_t)count, progress);
    CUS_TRY(cusi_proceed(progress));
    swapNext(state);
    return CUS_OK;
}
