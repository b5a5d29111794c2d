/* Checks of the reader's options, of the format found and of decoded events, and what bad input does: an error or a
 * count. */
#include "eventio/validate.h"
#include "check.h"
#include "host.h"

#include <string.h>

/* ---- Options and format -------------------------------------------------------------------------------------------- */

enum { LEAST_MEMORY = 64 << 20 }; /* the least that the option max_memory takes */

const char *cusEventFormatName(cusEventFormat format) {
    static const char *const names[] = {"any",  "M3ED",   "DSEC",       "EVT2", "EVT3",  "DAT",
                                        "text", "EVT2.1", "Metavision", "HDF5", "MVSEC", "EVT4"};
    return (unsigned)format < sizeof names / sizeof *names ? names[format] : "unknown";
}

cusEventReaderOptions cusEventReaderDefaults(void) {
    return (cusEventReaderOptions){
        .bad_events = CUS_BAD_EVENTS_STOP, .max_memory = (size_t)EVENTIO_MAX_MEMORY, .max_chunk = EVENTIO_MAX_CHUNK};
}

cusStatus eventio_checkOptions(const cusEventReaderOptions *options) {
    CUSI_REQUIRE((options->width == 0 && options->height == 0) ||
                     (options->width >= 1 && options->width <= 65536 && options->height >= 1 && options->height <= 65536),
                 CUS_ERROR_VALUE, "cusEventReaderOpen: sensor is %d x %d (width x height), expected 0 x 0 or 1..65536 each",
                 options->width, options->height);
    CUSI_REQUIRE(options->format >= CUS_EVENTS_ANY && options->format <= CUS_EVENTS_EVT4, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: format is %d, expected a cusEventFormat", (int)options->format);
    CUSI_REQUIRE(options->bad_events == CUS_BAD_EVENTS_STOP || options->bad_events == CUS_BAD_EVENTS_SKIP, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: bad_events is %d, expected a cusBadEvents", (int)options->bad_events);
    CUSI_REQUIRE(options->threads >= 0 && options->threads <= 1024, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: threads is %d, expected 0..1024", options->threads);
    CUSI_REQUIRE(options->max_memory == 0 || options->max_memory >= LEAST_MEMORY, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: max_memory is %zu, expected 0 or %d or more", options->max_memory, LEAST_MEMORY);
    CUSI_REQUIRE(options->max_chunk <= UINT32_MAX, CUS_ERROR_VALUE, "cusEventReaderOpen: max_chunk is %zu, expected 0..%lu",
                 options->max_chunk, (unsigned long)UINT32_MAX);
    CUSI_REQUIRE(options->plugins == 0 || options->plugins == 1, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: plugins is %d, expected 0 or 1", options->plugins);
    CUSI_REQUIRE(!options->camera || (options->camera[0] && strlen(options->camera) < 32 && !strchr(options->camera, '/')),
                 CUS_ERROR_VALUE,
                 "cusEventReaderOpen: camera is \"%.40s\", expected a name of 1 to 31 characters without '/'",
                 options->camera);
    return CUS_OK;
}

cusStatus eventio_checkFormat(const cusEventReader *reader) {
    const cusEventFormat requested = reader->options.format;
    CUSI_REQUIRE(requested == CUS_EVENTS_ANY || requested == reader->info.format, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: the file is %s, expected %s", cusEventFormatName(reader->info.format),
                 cusEventFormatName(requested));
    return CUS_OK;
}

/* ---- Events -------------------------------------------------------------------------------------------------------- */

typedef struct SensorSize {
    uint32_t width, height;
} SensorSize;

static inline int outside(EventArrays e, size_t i, SensorSize sensor) {
    return e.x[i] >= sensor.width || e.y[i] >= sensor.height;
}

/* Whether any of n events is bad. Branch-free, so that the compiler vectorizes it. `last`: time of the event before. */
CUSI_MULTIVERSION
static int anyBad(EventArrays e, size_t n, SensorSize sensor, int64_t last) {
    uint32_t coordinates = 0, polarity = 0, order = n && e.t[0] < last;
    for (size_t i = 0; i < n; ++i)
        coordinates |= (uint32_t)(e.x[i] >= sensor.width) | (uint32_t)(e.y[i] >= sensor.height);
    for (size_t i = 0; i < n; ++i)
        polarity |= e.p[i];
    for (size_t i = 1; i < n; ++i)
        order |= e.t[i] < e.t[i - 1];
    return coordinates || polarity > 1 || order;
}

static size_t findFirstBad(EventArrays e, size_t n, SensorSize sensor, int64_t last) {
    for (size_t i = 0; i < n; ++i) {
        if (outside(e, i, sensor) || e.p[i] > 1 || e.t[i] < last)
            return i;
        last = e.t[i];
    }
    return n;
}

/* The number of good events before the first bad one. Blocks are checked in parallel; only the first bad block is
 * searched. */
static size_t countGood(EventArrays e, size_t n, SensorSize sensor, int64_t last) {
    enum { BLOCK = 16384 };
    const int64_t blocks = (int64_t)((n + BLOCK - 1) / BLOCK);
    int64_t bad = blocks;
#pragma omp parallel for schedule(static) reduction(min : bad) if (blocks > 8)
    for (int64_t b = 0; b < blocks; ++b) {
        const size_t first = (size_t)b * BLOCK, size = n - first < BLOCK ? n - first : BLOCK;
        if (anyBad(eventio_from(e, first), size, sensor, first ? e.t[first - 1] : last) && b < bad)
            bad = b;
    }
    if (bad == blocks)
        return n;
    const size_t first = (size_t)bad * BLOCK, size = n - first < BLOCK ? n - first : BLOCK;
    return first + findFirstBad(eventio_from(e, first), size, sensor, first ? e.t[first - 1] : last);
}

/* Moves the good events among first .. n-1 together and counts the others. Returns how many remain in all. */
static size_t dropBad(EventArrays e, size_t first, size_t n, SensorSize sensor, int64_t last, cusEventCounts *counts) {
    size_t kept = first;
    for (size_t i = first; i < n; ++i) {
        if (outside(e, i, sensor)) {
            ++counts->bad_coordinates;
        } else if (e.p[i] > 1) {
            ++counts->bad_polarity;
        } else if (e.t[i] < last) {
            ++counts->bad_time;
        } else {
            last = e.t[i];
            e.x[kept] = e.x[i];
            e.y[kept] = e.y[i];
            e.p[kept] = e.p[i];
            e.t[kept] = e.t[i];
            ++kept;
        }
    }
    return kept;
}

static cusStatus describeBad(EventArrays e, size_t i, SensorSize sensor, int64_t last, unsigned long long number) {
    if (outside(e, i, sensor))
        return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: event %llu at x %d, y %d is outside the %u x %u sensor",
                         number, e.x[i], e.y[i], sensor.width, sensor.height);
    if (e.p[i] > 1)
        return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: event %llu has a polarity other than 0 and 1", number);
    return cusi_fail(CUS_ERROR_FORMAT,
                     "cusEventReaderRead: event %llu at %lld us is earlier than the one before at %lld us", number,
                     (long long)e.t[i], (long long)last);
}

cusStatus eventio_checkEvents(cusEventReader *reader, EventArrays e, size_t count, size_t *kept) {
    const cusEventInfo *info = &reader->info;
    SensorSize sensor = {info->width ? (uint32_t)info->width : 65536, info->height ? (uint32_t)info->height : 65536};
    if (info->format == CUS_EVENTS_EVT3 && sensor.width > EVENTIO_EVT3_BEYOND)
        sensor.width = EVENTIO_EVT3_BEYOND;
    const size_t good = countGood(e, count, sensor, reader->last_time);
    *kept = good;
    if (good == count)
        return CUS_OK;
    const int64_t last = good ? e.t[good - 1] : reader->last_time;
    if (reader->options.bad_events == CUS_BAD_EVENTS_STOP)
        return describeBad(e, good, sensor, last, reader->index + good);
    *kept = dropBad(e, good, count, sensor, last, &reader->counts);
    return CUS_OK;
}

cusStatus eventio_undefinedWord(cusEventReader *reader, const char *format, uint32_t type, uint64_t offset) {
    if (reader->options.bad_events == CUS_BAD_EVENTS_SKIP) {
        ++reader->counts.bad_words;
        return CUS_OK;
    }
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: byte %llu: word of type %x, which %s does not define",
                     (unsigned long long)offset, type, format);
}
