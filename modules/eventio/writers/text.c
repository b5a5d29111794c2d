/* Writes text (../text.c reads it): the sensor's width and height, then a line "t x y p" for each event, with seconds
 * and six digits. A path that ends in .csv: Metavision's lines "x,y,p,t" with microseconds. */
#include "eventio/writers/methods.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static int isCsv(const char *path) {
    const size_t n = strlen(path);
    return n >= 4 && strcasecmp(path + n - 4, ".csv") == 0;
}

static cusStatus create(cusEventWriter *w) {
    char header[96];
    if (isCsv(w->output.path))
        snprintf(header, sizeof header, "%%geometry:%d,%d\n", w->options.width, w->options.height);
    else
        snprintf(header, sizeof header, "%d %d\n", w->options.width, w->options.height);
    return eventio_streamCreate(w, header);
}

/* Appends a number with at least `digits` digits. */
static uint8_t *putNumber(uint8_t *to, uint64_t value, int digits) {
    uint8_t reversed[20];
    int n = 0;
    for (; value || n < digits; value /= 10)
        reversed[n++] = (uint8_t)('0' + value % 10);
    while (n)
        *to++ = reversed[--n];
    return to;
}

static uint8_t *putSeconds(uint8_t *to, uint64_t microseconds) {
    to = putNumber(to, microseconds / 1000000, 1);
    *to++ = '.';
    return putNumber(to, microseconds % 1000000, 6);
}

static cusStatus write(cusEventWriter *w, const cusEventArrays *e) {
    EventStream *s = w->state;
    const int csv = isCsv(w->output.path);
    const uint8_t between = csv ? ',' : ' ';
    for (size_t i = 0; i < e->count; ++i) {
        uint8_t *const start = eventio_streamRoom(w, s), *to = start;
        if (!csv) {
            to = putSeconds(to, (uint64_t)e->t[i]);
            *to++ = between;
        }
        to = putNumber(to, e->x[i], 1);
        *to++ = between;
        to = putNumber(to, e->y[i], 1);
        *to++ = between;
        *to++ = (uint8_t)('0' + e->p[i]);
        if (csv) {
            *to++ = between;
            to = putNumber(to, (uint64_t)e->t[i], 1);
        }
        *to++ = '\n';
        s->filled += (size_t)(to - start);
    }
    return s->status;
}

const EventWriterMethods eventio_writeText = {
    .max_side = 65536, .create = create, .write = write, .finish = eventio_streamFinish, .destroy = eventio_streamDestroy};
