/* Checks of decoded events. */
#include "event_checks.h"
#include "event_words.h"

#include "host.h"

CusiSensor cusi_sensorOf(cusEventFormat format, int width, int height) {
    CusiSensor sensor = {width ? (uint32_t)width : 65536, height ? (uint32_t)height : 65536};
    const int may_be_evt3 = format == CUS_EVENTS_EVT3 || format == CUS_EVENTS_BAG || format == CUS_EVENTS_MCAP;
    const uint32_t most = may_be_evt3                   ? CUSI_EVT3_BEYOND
                          : format == CUS_EVENTS_AEDAT4 ? INT16_MAX + 1
                                                        : 65536; /* AEDAT4 has a sign */
    sensor.width = sensor.width < most ? sensor.width : most;
    sensor.height = format == CUS_EVENTS_AEDAT4 && sensor.height > most ? most : sensor.height;
    return sensor;
}

static inline int outside(CusiEvents e, size_t i, CusiSensor sensor) {
    return e.x[i] >= sensor.width || e.y[i] >= sensor.height;
}

/* Returns whether any of n events is bad. `last` is the time of the event before. It has no branch, so that the
 * compiler vectorizes it. */
CUSI_MULTIVERSION
static int anyBad(CusiEvents e, size_t n, CusiSensor sensor, int64_t last) {
    uint32_t coordinates = 0, polarity = 0, order = n && e.t[0] < last;
    for (size_t i = 0; i < n; ++i)
        coordinates |= (uint32_t)(e.x[i] >= sensor.width) | (uint32_t)(e.y[i] >= sensor.height);
    for (size_t i = 0; i < n; ++i)
        polarity |= e.p[i];
    for (size_t i = 1; i < n; ++i)
        order |= e.t[i] < e.t[i - 1];
    return coordinates || polarity > 1 || order;
}

static size_t findFirstBad(CusiEvents e, size_t n, CusiSensor sensor, int64_t last) {
    for (size_t i = 0; i < n; ++i) {
        if (outside(e, i, sensor) || e.p[i] > 1 || e.t[i] < last)
            return i;
        last = e.t[i];
    }
    return n;
}

/* Blocks are checked in parallel; only the first bad block is searched. */
size_t cusi_countGoodEvents(CusiEvents e, size_t n, CusiSensor sensor, int64_t last) {
    enum { BLOCK = 16384 };
    const int64_t blocks = (int64_t)((n + BLOCK - 1) / BLOCK);
    int64_t bad = blocks;
#pragma omp parallel for schedule(static) reduction(min : bad) if (blocks > 8)
    for (int64_t b = 0; b < blocks; ++b) {
        const size_t first = (size_t)b * BLOCK, size = n - first < BLOCK ? n - first : BLOCK;
        if (anyBad(cusi_eventsFrom(e, first), size, sensor, first ? e.t[first - 1] : last) && b < bad)
            bad = b;
    }
    if (bad == blocks)
        return n;
    const size_t first = (size_t)bad * BLOCK, size = n - first < BLOCK ? n - first : BLOCK;
    return first + findFirstBad(cusi_eventsFrom(e, first), size, sensor, first ? e.t[first - 1] : last);
}

size_t cusi_dropBadEvents(CusiEvents e, size_t first, size_t n, CusiSensor sensor, int64_t last, cusEventCounts *counts) {
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

void cusi_describeBadEvent(CusiEvents e, size_t i, CusiSensor sensor, int64_t last, uint64_t number, uint64_t detail[6]) {
    detail[1] = number;
    detail[2] = detail[3] = detail[4] = detail[5] = 0;
    if (outside(e, i, sensor)) {
        detail[0] = CUSI_BAD_COORDINATES;
        detail[2] = e.x[i];
        detail[3] = e.y[i];
        detail[4] = sensor.width;
        detail[5] = sensor.height;
    } else if (e.p[i] > 1) {
        detail[0] = CUSI_BAD_POLARITY;
    } else {
        detail[0] = CUSI_BAD_TIME;
        detail[2] = (uint64_t)e.t[i];
        detail[3] = (uint64_t)last;
    }
}

cusStatus cusi_failBadEvent(const char *function, const uint64_t detail[6]) {
    const unsigned long long number = detail[1];
    if (detail[0] == CUSI_BAD_COORDINATES)
        return cusi_fail(CUS_ERROR_FORMAT, "%s: event %llu at x %d, y %d is outside the %u x %u sensor", function, number,
                         (int)detail[2], (int)detail[3], (unsigned)detail[4], (unsigned)detail[5]);
    if (detail[0] == CUSI_BAD_POLARITY)
        return cusi_fail(CUS_ERROR_FORMAT, "%s: event %llu has a polarity other than 0 and 1", function, number);
    return cusi_fail(CUS_ERROR_FORMAT, "%s: event %llu at %lld us is earlier than the one before at %lld us", function,
                     number, (long long)detail[2], (long long)detail[3]);
}
