/* The host backend of framediff: framediff_host.c makes pictures and decodes, framediff_host_encode.c encodes. */
#ifndef CUSI_FRAMEDIFF_HOST_H
#define CUSI_FRAMEDIFF_HOST_H

#include "check.h"
#include "framediff_backend.h"
#include "host.h"

/* Rows shorter than this are put together before they are examined: by themselves they cost more to begin than to do. */
enum { FRAMEDIFF_SHORT_ROW = 256 };

/* How many threads to start: one per `share` of the work, at most all. */
static inline int framediff_threadsFor(size_t work, size_t share) {
    const size_t useful = work / share + 1;
    return useful < (size_t)cusi_maxThreads() ? (int)useful : cusi_maxThreads();
}

/* state[position] += sign * value for `count` entries. */
void framediff_addEntries(uint8_t *state, const uint32_t *positions, const uint8_t *values, size_t count, int sign);

/* Copies `rows` rows of n bytes. */
void framediff_copyRows(uint8_t *dst, size_t dst_step, const uint8_t *src, size_t src_step, size_t rows, size_t n);

#endif
