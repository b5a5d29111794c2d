/* One chunk of an HDF5 recording, from the stored bytes to the delivered type. Every step writes into a buffer of the size
 * that its result must have. */
#include "check.h"
#ifdef CUSI_WITH_HDF5
#include "eventio/hdf5/codec.h"
#include "eventio/hdf5/columns.h"
#include "host.h"

#include <string.h>

const char *const eventio_columnName[EVENTIO_COLUMNS] = {"x", "y", "p", "t"};
const size_t eventio_deliveredSize[EVENTIO_COLUMNS] = {2, 2, 1, 8};

/* ---- Filters ------------------------------------------------------------------------------------------------------- */

/* Bit k: filter k was applied to the chunk. */
static unsigned appliedFilters(const ChunkJob *job) {
    return ((1u << job->column->filter_count) - 1) & ~job->skipped_filters;
}

/* The bytes of the chunk before filter k was applied: each checksum below k has added four. */
static size_t bytesBefore(const ChunkJob *job, int k) {
    const unsigned applied = appliedFilters(job);
    size_t bytes = eventio_chunkBytes(job->column);
    for (int j = 0; j < k; ++j)
        if ((applied >> j & 1) && job->column->filters[j] == H5Z_FILTER_FLETCHER32)
            bytes += 4;
    return bytes;
}

void eventio_decodeNeeds(const ChunkJob *job, size_t *raw, size_t *spare) {
    const unsigned applied = appliedFilters(job);
    const size_t bytes = bytesBefore(job, job->column->filter_count);
    int steps = 0; /* results; the last is in the caller's array unless a checksum must be cut off */
    for (int k = 0; k < job->column->filter_count; ++k)
        steps += applied >> k & 1;
    *raw = steps >= 3 ? bytes : 0;
    *spare = steps >= 2 ? bytes : 0;
}

static cusStatus invert(const Column *c, int filter, const uint8_t *from, size_t from_size, uint8_t *to, size_t size) {
    int good;
    if (filter == EVENTIO_FILTER_LZF) {
        good = eventio_lzfDecode(from, from_size, to, size);
    } else if (filter == EVENTIO_FILTER_BLOSC) {
        good = eventio_bloscDecode(from, from_size, to, size) == 1;
    } else if (filter == EVENTIO_FILTER_DEFLATE) {
        good = eventio_deflateDecode(from, from_size, to, size);
        if (good < 0)
            return CUS_ERROR_NO_MEMORY;
    } else {
        good = from_size == size;
        if (good)
            eventio_unshuffle(from, size, c->element, to);
    }
    return good ? CUS_OK : CUS_ERROR_FORMAT;
}

/* Inverts the filters, last one first, into `out`: the bytes of one chunk. Between two filters the data alternates between
 * raw and spare. */
static cusStatus decodeChunk(ChunkJob *job, uint8_t *out) {
    const Column *c = job->column;
    const unsigned applied = appliedFilters(job);
    const size_t size = eventio_chunkBytes(c);
    const uint8_t *from = job->raw.data;
    size_t from_size = job->raw_size;
    for (int k = c->filter_count - 1; k >= 0; --k) {
        if (!(applied >> k & 1))
            continue;
        if (c->filters[k] == H5Z_FILTER_FLETCHER32) {
            if (!eventio_fletcher32Good(from, from_size))
                return CUS_ERROR_FORMAT;
            from_size -= 4;
            continue;
        }
        const int is_last = !(applied & ((1u << k) - 1));
        uint8_t *to = is_last ? out : from == job->spare.data ? job->raw.data : job->spare.data;
        const size_t to_size = bytesBefore(job, k);
        CUS_TRY(invert(c, c->filters[k], from, from_size, to, to_size));
        from = to;
        from_size = to_size;
    }
    if (from_size != size)
        return CUS_ERROR_FORMAT;
    if (from != out)
        memcpy(out, from, size);
    return CUS_OK;
}

/* ---- Types --------------------------------------------------------------------------------------------------------- */

/* Converts stored times of 8 or 4 bytes to microseconds. Returns the OR of all: bit 63 is set if one is negative, bit 62 if
 * one is 2^62 or greater. */
CUSI_MULTIVERSION
static uint64_t widenTimes(const uint8_t *in, size_t n, size_t element, int is_signed, int64_t offset, uint8_t *out) {
    uint64_t bits = 0;
    if (element == 8)
        for (size_t i = 0; i < n; ++i) {
            uint64_t time;
            memcpy(&time, in + 8 * i, 8);
            time += (uint64_t)offset;
            bits |= time;
            memcpy(out + 8 * i, &time, 8);
        }
    else
        for (size_t i = 0; i < n; ++i) {
            uint32_t narrow;
            memcpy(&narrow, in + 4 * i, 4);
            const uint64_t time = (is_signed ? (uint64_t)(int64_t)(int32_t)narrow : narrow) + (uint64_t)offset;
            bits |= time;
            memcpy(out + 8 * i, &time, 8);
        }
    return bits;
}

uint64_t eventio_loadElement(const Column *c, const uint8_t *in, int *negative) {
    uint64_t value = 0;
    for (size_t b = 0; b < c->element; ++b)
        value |= (uint64_t)in[c->is_big_endian ? c->element - 1 - b : b] << (8 * b);
    *negative = c->is_signed && value >> (8 * c->element - 1);
    return *negative && c->element < 8 ? value | UINT64_MAX << (8 * c->element) : value;
}

/* Converts types that no known program writes. A value that does not fit becomes the greatest one, which no sensor and no
 * polarity has. */
static int convert(const Column *c, int64_t offset, const uint8_t *in, size_t n, uint8_t *out) {
    const size_t width = eventio_deliveredSize[c->which];
    uint64_t bits = 0;
    for (size_t i = 0; i < n; ++i) {
        int negative;
        uint64_t value = eventio_loadElement(c, in + i * c->element, &negative);
        if (c->which == EVENTIO_T) {
            bits |= !negative && value >> 62 ? value : value + (uint64_t)offset;
            value += (uint64_t)offset;
        } else if (c->which == EVENTIO_P) {
            value = negative && value == UINT64_MAX ? 0 : negative || value > 1 ? 2 : value;
        } else {
            value = negative || value > UINT16_MAX ? UINT16_MAX : value;
        }
        memcpy(out + i * width, &value, width); /* the machine is little-endian, as CUDA's hosts are */
    }
    return bits >> 62 == 0;
}

int eventio_deliver(const Column *c, int64_t offset, const uint8_t *in, size_t n, uint8_t *out) {
    const size_t width = eventio_deliveredSize[c->which];
    if (c->is_big_endian || (c->which == EVENTIO_T ? c->element < 4 : c->element != width || (width == 2 && c->is_signed)))
        return convert(c, offset, in, n, out);
    if (c->which == EVENTIO_T)
        return widenTimes(in, n, c->element, c->is_signed, offset, out) >> 62 == 0;
    if (in != out)
        memcpy(out, in, n * width);
    if (c->which == EVENTIO_P && c->is_signed)
        for (size_t i = 0; i < n; ++i)
            out[i] = out[i] == 255 ? 0 : out[i]; /* -1 */
    return 1;
}

/* ---- Jobs ---------------------------------------------------------------------------------------------------------- */

int eventio_decodesInPlace(const ChunkJob *job) {
    const Column *c = job->column;
    return job->count == c->chunk && c->element == eventio_deliveredSize[c->which];
}

void eventio_runJob(const Hdf5Reader *h, ChunkJob *job, uint8_t *out) {
    const Column *c = job->column;
    out += job->first * eventio_deliveredSize[c->which];
    const int in_place = eventio_decodesInPlace(job);
    job->status = decodeChunk(job, in_place ? out : job->decoded.data);
    if (job->status == CUS_OK &&
        !eventio_deliver(c, h->time_offset, in_place ? out : job->decoded.data + job->skip * c->element, job->count, out))
        job->status = CUS_ERROR_FORMAT;
}
#endif
