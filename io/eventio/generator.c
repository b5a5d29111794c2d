/* Events from video: threshold crossings of the log intensity, in fixed point. */
#include "check.h"
#include "eventio/recording.h"
#include "host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cusEventGenerator {
    CusiGuard guard;
    int rows, cols;
    int32_t positive, negative; /* thresholds in units of 2^-16 */
    int32_t log_intensity[256]; /* by pixel value */
    int64_t time;               /* last frame; -1 before the first */
    int32_t *reference;         /* log intensity at each pixel's last event */
    uint8_t *last;              /* the last frame */
    CusiEvents unsorted, sorted;
    size_t count, capacity;
};

cusEventGeneratorOptions cusEventGeneratorDefaults(void) {
    return (cusEventGeneratorOptions){.positive = 0.2, .negative = 0.2};
}

cusStatus cusEventGeneratorCreate(cusEventGenerator **generator, int rows, int cols,
                                  const cusEventGeneratorOptions *options) {
    CUSI_TRACE;
    static const char function[] = "cusEventGeneratorCreate";
    CUSI_NOT_NULL(function, generator);
    CUSI_REQUIRE(rows >= 1 && rows <= 65536 && cols >= 1 && cols <= 65536, CUS_ERROR_VALUE,
                 "%s: frame is %d x %d (rows x cols), expected 1..65536 each", function, rows, cols);
    const cusEventGeneratorOptions chosen = options ? *options : cusEventGeneratorDefaults();
    CUSI_REQUIRE(chosen.positive >= 0.01 && chosen.positive <= 10 && chosen.negative >= 0.01 && chosen.negative <= 10,
                 CUS_ERROR_VALUE, "%s: thresholds are %g and %g, expected 0.01..10", function, chosen.positive,
                 chosen.negative);
    cusEventGenerator *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    const size_t pixels = (size_t)rows * (size_t)cols;
    made->rows = rows;
    made->cols = cols;
    made->positive = (int32_t)lround(chosen.positive * 65536);
    made->negative = (int32_t)lround(chosen.negative * 65536);
    for (int v = 0; v < 256; ++v)
        made->log_intensity[v] = (int32_t)lround((v < 20 ? v * (log(20) / 20) : log(v)) * 65536);
    made->time = -1;
    made->reference = malloc(pixels * sizeof *made->reference);
    made->last = malloc(pixels);
    if (!made->reference || !made->last) {
        cusEventGeneratorDestroy(made);
        return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    }
    *generator = made;
    return CUS_OK;
}

static void freeArrays(CusiEvents *arrays) {
    free(arrays->x);
    free(arrays->y);
    free(arrays->p);
    free(arrays->t);
    *arrays = (CusiEvents){NULL, NULL, NULL, NULL};
}

void cusEventGeneratorDestroy(cusEventGenerator *generator) {
    CUSI_TRACE;
    if (!generator)
        return;
    freeArrays(&generator->unsorted);
    freeArrays(&generator->sorted);
    free(generator->reference);
    free(generator->last);
    free(generator);
}

/* Returns 0 if memory runs out; the arrays then keep their contents. */
static int resize(CusiEvents *arrays, size_t n) {
    uint16_t *const x = realloc(arrays->x, n * sizeof *x);
    if (!x)
        return 0;
    arrays->x = x;
    uint16_t *const y = realloc(arrays->y, n * sizeof *y);
    if (!y)
        return 0;
    arrays->y = y;
    uint8_t *const p = realloc(arrays->p, n);
    if (!p)
        return 0;
    arrays->p = p;
    int64_t *const t = realloc(arrays->t, n * sizeof *t);
    if (!t)
        return 0;
    arrays->t = t;
    return 1;
}

/* The number of thresholds between a pixel's reference and its log intensity. */
static inline int crossings(int32_t distance, int32_t positive, int32_t negative) {
    return distance >= 0 ? distance / positive : -distance / negative;
}

static size_t countEvents(const cusEventGenerator *g, const cusMat *frame) {
    size_t count = 0;
    for (int y = 0; y < g->rows; ++y) {
        const uint8_t *row = (const uint8_t *)frame->data + (size_t)y * frame->step;
        const int32_t *reference = g->reference + (size_t)y * (size_t)g->cols;
        for (int x = 0; x < g->cols; ++x)
            count += (size_t)crossings(g->log_intensity[row[x]] - reference[x], g->positive, g->negative);
    }
    return count;
}

/* Makes the events in pixel order. The log intensity is linear in time between the frames. Times are rounded up, so every
 * event is later than the frame before. */
static void makeEvents(cusEventGenerator *g, const cusMat *frame, int64_t time) {
    const int64_t span = time - g->time;
    size_t n = 0;
    for (int y = 0; y < g->rows; ++y) {
        const uint8_t *row = (const uint8_t *)frame->data + (size_t)y * frame->step;
        uint8_t *last = g->last + (size_t)y * (size_t)g->cols;
        int32_t *reference = g->reference + (size_t)y * (size_t)g->cols;
        for (int x = 0; x < g->cols; ++x) {
            const int32_t from = g->log_intensity[last[x]], to = g->log_intensity[row[x]];
            const int32_t step = to >= reference[x] ? g->positive : -g->negative;
            for (int k = crossings(to - reference[x], g->positive, g->negative); k > 0; --k) {
                reference[x] += step;
                const int64_t passed = llabs((int64_t)reference[x] - from), distance = llabs((int64_t)to - from);
                g->unsorted.x[n] = (uint16_t)x;
                g->unsorted.y[n] = (uint16_t)y;
                g->unsorted.p[n] = step > 0;
                g->unsorted.t[n] = g->time + (passed * span + distance - 1) / distance;
                ++n;
            }
            last[x] = row[x];
        }
    }
}

/* Sorts by the time since `origin`: a stable radix sort, 11 bits at a time. The result is in g->unsorted or g->sorted. */
static CusiEvents sortEvents(cusEventGenerator *g, size_t n, int64_t origin, int64_t span) {
    enum { BITS = 11 };
    CusiEvents from = g->unsorted, to = g->sorted;
    for (int shift = 0; shift < 63 && span >> shift; shift += BITS) {
        size_t start[1 << BITS] = {0};
        for (size_t i = 0; i < n; ++i)
            ++start[(from.t[i] - origin) >> shift & ((1 << BITS) - 1)];
        for (size_t b = 0, sum = 0; b < 1 << BITS; ++b) {
            const size_t size = start[b];
            start[b] = sum;
            sum += size;
        }
        for (size_t i = 0; i < n; ++i) {
            const size_t at = start[(from.t[i] - origin) >> shift & ((1 << BITS) - 1)]++;
            to.x[at] = from.x[i];
            to.y[at] = from.y[i];
            to.p[at] = from.p[i];
            to.t[at] = from.t[i];
        }
        const CusiEvents swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static void setReferences(cusEventGenerator *g, const cusMat *frame) {
    for (size_t y = 0; y < (size_t)g->rows; ++y) {
        const uint8_t *row = (const uint8_t *)frame->data + y * frame->step;
        memcpy(g->last + y * (size_t)g->cols, row, (size_t)g->cols);
        for (size_t x = 0; x < (size_t)g->cols; ++x)
            g->reference[y * (size_t)g->cols + x] = g->log_intensity[row[x]];
    }
}

static cusStatus eventGeneratorPush(cusEventGenerator *generator, const cusMat *frame, int64_t time,
                                    cusEventArrays *events) {
    static const char function[] = "cusEventGeneratorPush";
    cusEventGenerator *g = generator;
    CUSI_NOT_NULL(function, events);
    CUS_TRY(cusi_checkInput(function, "frame", frame, CUSI_TYPES(CUS_8UC1)));
    CUSI_REQUIRE(frame->space == CUS_HOST, CUS_ERROR_SPACE, "%s: frame is in device memory, expected host memory",
                 function);
    CUSI_REQUIRE(frame->rows == g->rows && frame->cols == g->cols, CUS_ERROR_SIZE,
                 "%s: frame is %d x %d (rows x cols), expected %d x %d like the generator", function, frame->rows,
                 frame->cols, g->rows, g->cols);
    /* Log intensities are below 2^19, so their products with a span below 2^42 stay below 2^63. */
    CUSI_REQUIRE(time > g->time && time >= 0 && (g->time < 0 || time - g->time < (int64_t)1 << 42), CUS_ERROR_VALUE,
                 "%s: time is %lld us, expected more than %lld, by less than 2^42", function, (long long)time,
                 (long long)g->time);
    CusiEvents made = g->unsorted;
    size_t n = 0;
    if (g->time < 0) {
        setReferences(g, frame);
    } else {
        n = countEvents(g, frame);
        if (n > g->capacity) {
            const size_t capacity = n + n / 4;
            CUSI_REQUIRE(resize(&g->unsorted, capacity) && resize(&g->sorted, capacity), CUS_ERROR_NO_MEMORY,
                         "%s: out of host memory for %zu events", function, capacity);
            g->capacity = capacity;
        }
        makeEvents(g, frame, time);
        made = sortEvents(g, n, g->time, time - g->time);
    }
    g->time = time;
    *events = (cusEventArrays){made.x, made.y, made.p, made.t, n, CUS_HOST};
    return CUS_OK;
}

cusStatus cusEventGeneratorPush(cusEventGenerator *generator, const cusMat *frame, int64_t time, cusEventArrays *events) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventGeneratorPush", generator, NULL, eventGeneratorPush(generator, frame, time, events));
}
