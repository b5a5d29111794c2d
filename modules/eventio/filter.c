/* Filters events by a window in time, hot pixels, background activity and a region, then mirrors them and maps them to
 * another grid, in this order. Only earlier events decide about an event, so the sizes of calls do not matter. */
#include "check.h"
#include "cusight/eventio.h"
#include "guard.h"

#include <stdlib.h>
#include <string.h>

struct cusEventFilter {
    CusiGuard guard;
    cusEventFilterOptions options;
    size_t stride;    /* pixels of a row of `last`, which has a border of one pixel */
    int64_t *last;    /* time of each pixel's last event; NULL: no filter of background activity */
    uint64_t *period; /* period in which each pixel has had `hits` events; NULL: no filter of hot pixels */
    uint64_t *hits;
    int started;
    int64_t origin; /* time of the first event in the window */
    int64_t newest; /* time of the last event so far */
};

cusEventFilterOptions cusEventFilterDefaults(void) {
    return (cusEventFilterOptions){.begin = INT64_MIN, .end = INT64_MAX, .hot_period = 1000000};
}

static cusStatus checkOptions(const char *function, const cusEventFilterOptions *o) {
    CUS_TRY(cusi_checkReserved(function, "options->", o->reserved));
    CUSI_REQUIRE(o->width >= 1 && o->width <= 65536 && o->height >= 1 && o->height <= 65536, CUS_ERROR_VALUE,
                 "%s: sensor is %d x %d (width x height), expected 1..65536 each", function, o->width, o->height);
    CUSI_REQUIRE(o->begin <= o->end, CUS_ERROR_VALUE, "%s: window is %lld..%lld us, expected begin <= end", function,
                 (long long)o->begin, (long long)o->end);
    CUS_TRY(cusi_checkSwitch(function, "flip_x", o->flip_x));
    CUS_TRY(cusi_checkSwitch(function, "flip_y", o->flip_y));
    CUSI_REQUIRE(o->activity >= 0, CUS_ERROR_VALUE, "%s: activity is %lld us, expected 0 or more", function,
                 (long long)o->activity);
    CUSI_REQUIRE(o->hot_period >= 1, CUS_ERROR_VALUE, "%s: hot_period is %lld us, expected 1 or more", function,
                 (long long)o->hot_period);
    const int all = o->region_width == 0 && o->region_height == 0 && o->x == 0 && o->y == 0;
    CUSI_REQUIRE(
        all || (o->x >= 0 && o->y >= 0 && o->region_width >= 1 && o->region_height >= 1 &&
                o->region_width <= o->width - o->x && o->region_height <= o->height - o->y),
        CUS_ERROR_VALUE,
        "%s: region is %d x %d at %d, %d, expected a part of the %d x %d sensor (region_width x region_height at x, y)",
        function, o->region_width, o->region_height, o->x, o->y, o->width, o->height);
    CUSI_REQUIRE((o->grid_width == 0 && o->grid_height == 0) ||
                     (o->grid_width >= 1 && o->grid_width <= 65536 && o->grid_height >= 1 && o->grid_height <= 65536),
                 CUS_ERROR_VALUE, "%s: grid_width x grid_height is %d x %d, expected 1..65536 each, or 0 x 0", function,
                 o->grid_width, o->grid_height);
    return CUS_OK;
}

cusStatus cusEventFilterCreate(cusEventFilter **filter, const cusEventFilterOptions *options) {
    CUSI_TRACE;
    static const char function[] = "cusEventFilterCreate";
    CUSI_NOT_NULL(function, filter);
    CUSI_NOT_NULL(function, options);
    CUS_TRY(checkOptions(function, options));
    cusEventFilter *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    made->options = *options;
    made->newest = INT64_MIN;
    if (!options->region_width) {
        made->options.region_width = options->width;
        made->options.region_height = options->height;
    }
    if (!options->grid_width) {
        made->options.grid_width = made->options.region_width;
        made->options.grid_height = made->options.region_height;
    }
    made->stride = (size_t)options->width + 2;
    const size_t pixels = (size_t)options->width * (size_t)options->height,
                 bordered = made->stride * ((size_t)options->height + 2);
    if (options->activity && (made->last = malloc(bordered * sizeof *made->last)))
        for (size_t i = 0; i < bordered; ++i)
            made->last[i] = INT64_MIN;
    if (options->hot_events) {
        made->period = calloc(pixels, sizeof *made->period);
        made->hits = calloc(pixels, sizeof *made->hits);
    }
    if ((options->activity && !made->last) || (options->hot_events && (!made->period || !made->hits))) {
        cusEventFilterDestroy(made);
        return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    }
    *filter = made;
    return CUS_OK;
}

void cusEventFilterDestroy(cusEventFilter *filter) {
    CUSI_TRACE;
    if (!filter)
        return;
    free(filter->last);
    free(filter->period);
    free(filter->hits);
    free(filter);
}

/* Counts the event. Returns whether its pixel has had too many in this period. */
static int isHot(cusEventFilter *f, size_t pixel, int64_t t) {
    const uint64_t now = ((uint64_t)t - (uint64_t)f->origin) / (uint64_t)f->options.hot_period + 1; /* 0: none yet */
    if (f->period[pixel] != now) {
        f->period[pixel] = now;
        f->hits[pixel] = 0;
    }
    return ++f->hits[pixel] > f->options.hot_events;
}

/* Notes the event. Returns whether one of the eight pixels around it has had one in the last `activity` microseconds. */
static int isSupported(cusEventFilter *f, size_t x, size_t y, int64_t t) {
    int64_t *const here = f->last + (y + 1) * f->stride + x + 1, *const above = here - f->stride,
                   *const below = here + f->stride;
    const int64_t around[] = {above[-1], above[0], above[1], here[-1], here[1], below[-1], below[0], below[1]};
    int64_t newest = around[0];
    for (int k = 1; k < 8; ++k)
        newest = around[k] > newest ? around[k] : newest;
    *here = t;
    return newest != INT64_MIN && (uint64_t)t - (uint64_t)newest <= (uint64_t)f->options.activity;
}

/* Returns a position below `from` on a grid of `to`. */
static uint16_t onGrid(int position, int from, int to) {
    return (uint16_t)(from == to ? (uint32_t)position : (uint32_t)position * (uint32_t)to / (uint32_t)from);
}

static size_t keep(cusEventFilter *f, size_t n, uint16_t *x, uint16_t *y, uint8_t *p, int64_t *t) {
    const cusEventFilterOptions o = f->options;
    size_t kept = 0;
    for (size_t i = 0; i < n; ++i) {
        const size_t col = x[i], row = y[i];
        if (t[i] < o.begin || t[i] >= o.end || col >= (size_t)o.width || row >= (size_t)o.height)
            continue;
        if (!f->started)
            f->origin = t[i];
        f->started = 1;
        if (f->hits && isHot(f, row * (size_t)o.width + col, t[i]))
            continue;
        if (f->last && !isSupported(f, col, row, t[i]))
            continue;
        const int u = (int)col - o.x, v = (int)row - o.y;
        if (u < 0 || v < 0 || u >= o.region_width || v >= o.region_height)
            continue;
        x[kept] = onGrid(o.flip_x ? o.region_width - 1 - u : u, o.region_width, o.grid_width);
        y[kept] = onGrid(o.flip_y ? o.region_height - 1 - v : v, o.region_height, o.grid_height);
        p[kept] = p[i];
        t[kept++] = t[i];
    }
    return kept;
}

static cusStatus checkTimes(const char *function, const cusEventFilter *f, size_t n, const int64_t *t) {
    for (size_t i = 0; i < n; ++i) {
        const int64_t before = i ? t[i - 1] : f->newest;
        CUSI_REQUIRE(t[i] >= before, CUS_ERROR_VALUE, "%s: event %zu has time %lld us, expected %lld or more", function, i,
                     (long long)t[i], (long long)before);
    }
    return CUS_OK;
}

static cusStatus run(cusEventFilter *f, size_t n, uint16_t *x, uint16_t *y, uint8_t *p, int64_t *t, size_t *kept) {
    CUS_TRY(checkTimes("cusEventFilterRun", f, n, t));
    f->newest = n ? t[n - 1] : f->newest;
    *kept = keep(f, n, x, y, p, t);
    return CUS_OK;
}

cusStatus cusEventFilterRun(cusEventFilter *filter, size_t n, uint16_t *x, uint16_t *y, uint8_t *p, int64_t *t,
                            size_t *kept) {
    CUSI_TRACE;
    static const char function[] = "cusEventFilterRun";
    CUSI_NOT_NULL(function, kept);
    if (n) {
        CUSI_NOT_NULL(function, x);
        CUSI_NOT_NULL(function, y);
        CUSI_NOT_NULL(function, p);
        CUSI_NOT_NULL(function, t);
    }
    CUSI_GUARDED(function, filter, NULL, run(filter, n, x, y, p, t, kept));
}
