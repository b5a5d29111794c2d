/* Checks of decoded events that the readers of recordings and the decoder of raw bytes share: whether they lie on the
 * sensor, have a polarity and are in order of time. */
#ifndef CUSI_EVENT_CHECKS_H
#define CUSI_EVENT_CHECKS_H

#include "cusight/raw.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CusiEvents {
    uint16_t *x, *y;
    uint8_t *p;
    int64_t *t;
} CusiEvents;

static inline CusiEvents cusi_eventsFrom(CusiEvents events, size_t first) {
    return (CusiEvents){events.x + first, events.y + first, events.p + first, events.t + first};
}

typedef struct CusiSensor {
    uint32_t width, height;
} CusiSensor;

/* Returns the sensor that coordinates must lie on. width and height are 0 if they are unknown. */
CusiSensor cusi_sensorOf(cusEventFormat format, int width, int height);

/* Returns the number of good events before the first bad one of n. `last` is the time of the event before. */
size_t cusi_countGoodEvents(CusiEvents events, size_t n, CusiSensor sensor, int64_t last);

/* Moves the good events among first .. n-1 together and counts the others. Returns how many remain in all. */
size_t cusi_dropBadEvents(CusiEvents events, size_t first, size_t n, CusiSensor sensor, int64_t last,
                          cusEventCounts *counts);

/* Kinds in detail[0]. cusEventDecoded.detail has the same form. */
enum { CUSI_BAD_COORDINATES = 1, CUSI_BAD_POLARITY = 2, CUSI_BAD_TIME = 3 };

/* Describes bad event i, number `number` of the recording: kind and number, then x, y, width, height or its time and
 * `last`. */
void cusi_describeBadEvent(CusiEvents events, size_t i, CusiSensor sensor, int64_t last, uint64_t number,
                           uint64_t detail[6]);

/* Returns CUS_ERROR_FORMAT with a message made of the detail. */
cusStatus cusi_failBadEvent(const char *function, const uint64_t detail[6]);

#ifdef __cplusplus
}
#endif

#endif
