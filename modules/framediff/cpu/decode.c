/* The decoder on the CPU. */
#include "check.h"
#include "framediff/backend.h"
#include "host.h"

enum { /* measured: docs/internals/framediff.md */
       ENTRIES_PER_THREAD = 16384,
       PREFETCH_ENTRIES = 256 /* how far ahead the bytes that the decoder changes are fetched for writing */
};

void framediff_addEntries(uint8_t *state, const uint32_t *positions, const uint8_t *values, size_t count, int sign) {
    for (size_t k = 0; k < count; ++k) {
        if (k + PREFETCH_ENTRIES < count)
            cusi_prefetchToWrite(state + positions[k + PREFETCH_ENTRIES]);
        state[positions[k]] = (uint8_t)(state[positions[k]] + sign * values[k]);
    }
}

/* Returns where part `part` of `parts` of a list starts. */
static size_t partStart(size_t count, int part, int parts) {
    return (size_t)((uint64_t)count * (uint64_t)part / (uint64_t)parts);
}

/* Returns whether each position is larger than the one before. */
CUSI_MULTIVERSION
static int ascending(const uint32_t *positions, size_t count) {
    uint32_t bad = 0;
    for (size_t k = 1; k < count; ++k)
        bad |= positions[k] <= positions[k - 1];
    return !bad;
}

cusStatus framediff_host_decode(cusDiffDecoder *decoder, const cusSparseDiff *diff) {
    const uint64_t bytes = (uint64_t)cusi_rowBytes(&decoder->frame) * (uint64_t)decoder->frame.rows;
    const uint32_t count = *(const uint32_t *)diff->count.data;
    const uint32_t *positions = diff->positions.data;
    CUSI_REQUIRE(count <= diff->capacity, CUS_ERROR_CAPACITY,
                 "cusDiffDecode: diff has overflowed: %u bytes changed, its capacity is %u", count, diff->capacity);
    if (count == 0)
        return CUS_OK;
    const int parts = cusi_threadsFor(count, ENTRIES_PER_THREAD);
    int bad = positions[count - 1] >= bytes;
    /* The whole list is checked before any of it is applied. */
#pragma omp parallel for schedule(static, 1) reduction(| : bad) num_threads(parts)
    for (int part = 0; part < parts; ++part) {
        const size_t first = partStart(count, part, parts), overlap = part > 0;
        bad |= !ascending(positions + first - overlap, partStart(count, part + 1, parts) - first + overlap);
    }
    /* Positions ascend, so the parts change different bytes. */
#pragma omp parallel for schedule(static, 1) num_threads(parts)
    for (int part = 0; part < parts; ++part) {
        const size_t first = partStart(count, part, parts);
        if (!bad)
            framediff_addEntries(decoder->frame.data, positions + first, (const uint8_t *)diff->values.data + first,
                                 partStart(count, part + 1, parts) - first, 1);
    }
    for (uint32_t k = 0; bad && k < count; ++k)
        CUSI_REQUIRE(positions[k] < bytes && (k == 0 || positions[k] > positions[k - 1]), CUS_ERROR_VALUE,
                     "cusDiffDecode: diff's position %u is %u after %lld, expected ascending positions below %llu", k,
                     positions[k], k ? (long long)positions[k - 1] : -1, (unsigned long long)bytes);
    return CUS_OK;
}
