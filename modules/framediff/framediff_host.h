/* The host backend of framediff: framediff_host.c makes pictures and decodes, framediff_host_encode.c encodes. */
#ifndef CUSI_FRAMEDIFF_HOST_H
#define CUSI_FRAMEDIFF_HOST_H

#include "check.h"
#include "framediff_backend.h"
#include "host.h"

/* How many threads to start: one per `share` of the work, at most all. */
static inline int framediff_threadsFor(size_t work, size_t share) {
    const size_t useful = work / share + 1;
    return useful < (size_t)cusi_maxThreads() ? (int)useful : cusi_maxThreads();
}

/* state[position] += sign * value for `count` entries. */
void framediff_addEntries(uint8_t *state, const uint32_t *positions, const uint8_t *values, size_t count, int sign);

#endif
