/* Decodes a chunk of an HDF5 recording, from the stored bytes to the delivered type. Every step writes into a buffer of
 * the size that its result must have. */
#include "check.h"
#include "eventio/hdf5/codec.h"
#include "eventio/hdf5/columns.h"
#include "host.h"
#include "lzf.h"

#include <math.h>
#include <string.h>

const char *const eventio_columnName[EVENTIO_COLUMNS] = {"x", "y", "p", "t"};
const size_t eventio_deliveredSize[EVENTIO_COLUMNS] = {2, 2, 1, 8};

/* ---- Filters ------------------------------------------------------------------------------------------------------- */

/* Returns bit k if filter k was applied to the chunk. */
static unsigned appliedFilters(const ChunkJob *job) {
    return ((1u << job->table->filter_count) - 1) & ~job->skipped_filters;
}

/* Returns the bytes of the chunk before filter k was applied: each checksum below k has added four. */
static size_t bytesBefore(const ChunkJob *job, int k) {
    const unsigned applied = appliedFilters(job);
    size_t bytes = eventio_chunkBytes(job->table);
    for (int j = 0; j < k; ++j)
        if ((applied >> j & 1) && job->table->filters[j] == EVENTIO_FLETCHER32)
            bytes += 4;
    return bytes;
}

void eventio_decodeNeeds(const ChunkJob *job, size_t *raw, size_t *spare) {
    const unsigned applied = appliedFilters(job);
    const size_t bytes = bytesBefore(job, job->table->filter_count);
    int steps = 0; /* results; the last is in the caller's array unless a checksum must be cut off */
    for (int k = 0; k < job->table->filter_count; ++k)
        steps += applied >> k & 1;
    *raw = steps >= 3 ? bytes : 0;
    *spare = steps >= 2 ? bytes : 0;
}

static cusStatus invert(const Table *t, int filter, const uint8_t *from, size_t from_size, uint8_t *to, size_t size) {
    int good;
    if (filter == EVENTIO_FILTER_LZF) {
        good = cusi_lzfDecode(from, from_size, to, size);
    } else if (filter == EVENTIO_FILTER_ECF) {
        good = eventio_ecfDecode(from, from_size, to, size);
    } else if (filter == EVENTIO_FILTER_BLOSC) {
        good = eventio_bloscDecode(from, from_size, to, size) == 1;
    } else if (filter == EVENTIO_FILTER_LZ4) {
        good = eventio_lz4Decode(from, from_size, to, size) == 1;
    } else if (filter == EVENTIO_FILTER_ZSTD) {
        good = eventio_zstdDecode(from, from_size, to, size);
        if (good < 0)
            return CUS_ERROR_NO_MEMORY;
    } else if (filter == EVENTIO_FILTER_DEFLATE) {
        good = eventio_deflateDecode(from, from_size, to, size);
        if (good < 0)
            return CUS_ERROR_NO_MEMORY;
    } else {
        good = from_size == size;
        if (good)
            eventio_unshuffle(from, size, t->set.type.number.size, to);
    }
    return good ? CUS_OK : CUS_ERROR_FORMAT;
}

/* Inverts the filters, last one first, into `out`: the bytes of one chunk. Between two filters the data alternates between
 * raw and spare. */
static cusStatus decodeChunk(ChunkJob *job, uint8_t *out) {
    const Table *t = job->table;
    const unsigned applied = appliedFilters(job);
    const size_t size = eventio_chunkBytes(t);
    const uint8_t *from = job->raw.data;
    size_t from_size = job->raw_size;
    for (int k = t->filter_count - 1; k >= 0; --k) {
        if (!(applied >> k & 1))
            continue;
        if (t->filters[k] == EVENTIO_FLETCHER32) {
            if (!eventio_fletcher32Good(from, from_size))
                return CUS_ERROR_FORMAT;
            from_size -= 4;
            continue;
        }
        const int is_last = !(applied & ((1u << k) - 1));
        uint8_t *to = is_last ? out : from == job->spare.data ? job->raw.data : job->spare.data;
        const size_t to_size = bytesBefore(job, k);
        CUS_TRY(invert(t, t->filters[k], from, from_size, to, to_size));
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

/* Converts stored times of 8 bytes, signed, or 4 bytes to microseconds. Returns the OR of all: bit 63 is set if one is
 * negative, bit 62 if one is 2^62 or greater. (The offset is less than 2^62, so signed sums that wrap are among these.) */
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

uint64_t eventio_loadInteger(const Hdf5Number *number, const uint8_t *in, int *negative) {
    uint64_t value = 0;
    for (size_t b = 0; b < number->size; ++b)
        value |= (uint64_t)in[number->is_big_endian ? number->size - 1 - b : b] << (8 * b);
    *negative = number->is_signed && value >> (8 * number->size - 1);
    return *negative && number->size < 8 ? value | UINT64_MAX << (8 * number->size) : value;
}

static double loadFloat(const Hdf5Number *number, const uint8_t *in) {
    uint8_t bytes[8] = {0};
    for (size_t b = 0; b < number->size; ++b)
        bytes[b] = in[number->is_big_endian ? number->size - 1 - b : b];
    float narrow;
    double wide;
    memcpy(&narrow, bytes, 4);
    if (number->size == 4)
        return (double)narrow;
    memcpy(&wide, bytes, 8);
    return wide;
}

/* Returns a float as a whole number. Times are seconds; the others are pixels and signs. NaN and values out of range
 * become one that no sensor, polarity or time has. */
static uint64_t wholeNumber(const Field *field, const uint8_t *in, int *negative) {
    const double scale = field->which == EVENTIO_T ? 1e6 : 1;
    const double value = rint(loadFloat(&field->number, in) * scale);
    const int fits = fabs(value) < 0x1p62; /* false for NaN */
    *negative = fits && value < 0;
    return fits ? (uint64_t)(int64_t)value : (uint64_t)1 << 62;
}

/* Converts types that few programs write. A value that does not fit becomes the greatest one, which no sensor and no
 * polarity has. */
static int convert(const Field *field, int64_t offset, const uint8_t *in, size_t n, uint8_t *out) {
    const size_t width = eventio_deliveredSize[field->which];
    uint64_t bits = 0;
    for (size_t i = 0; i < n; ++i) {
        int negative;
        const uint8_t *from = in + i * field->number.size;
        uint64_t value = field->number.class == HDF5_FLOAT ? wholeNumber(field, from, &negative)
                                                           : eventio_loadInteger(&field->number, from, &negative);
        if (field->which == EVENTIO_T) {
            value = !negative && value >> 62 ? UINT64_MAX : value + (uint64_t)offset;
            bits |= value;
        } else if (field->which == EVENTIO_P) {
            value = negative && value == UINT64_MAX ? 0 : negative || value > 1 ? 2 : value;
        } else {
            value = negative || value > UINT16_MAX ? UINT16_MAX : value;
        }
        memcpy(out + i * width, &value, width); /* the machine is little-endian, as CUDA's hosts are */
    }
    return bits >> 62 == 0;
}

/* Converts n numbers, one after the other. */
static int deliverNumbers(const Field *field, int64_t offset, const uint8_t *in, size_t n, uint8_t *out) {
    const size_t width = eventio_deliveredSize[field->which];
    const Hdf5Number *number = &field->number;
    if (number->class == HDF5_FLOAT || number->is_big_endian ||
        (field->which == EVENTIO_T ? number->size < 4 || (number->size == 8 && !number->is_signed)
                                   : number->size != width || (width == 2 && number->is_signed)))
        return convert(field, offset, in, n, out);
    if (field->which == EVENTIO_T)
        return widenTimes(in, n, number->size, number->is_signed, offset, out) >> 62 == 0;
    if (in != out)
        memcpy(out, in, n * width);
    if (field->which == EVENTIO_P && number->is_signed)
        for (size_t i = 0; i < n; ++i)
            out[i] = out[i] == 255 ? 0 : out[i]; /* -1 */
    return 1;
}

/* Copies n numbers of `size` bytes that are `row` bytes apart. */
static void gather(const uint8_t *in, size_t n, size_t row, size_t size, uint8_t *out) {
    switch (size) { /* known to the compiler */
    case 1:
        for (size_t i = 0; i < n; ++i)
            out[i] = in[i * row];
        break;
    case 2:
        for (size_t i = 0; i < n; ++i)
            memcpy(out + 2 * i, in + i * row, 2);
        break;
    case 4:
        for (size_t i = 0; i < n; ++i)
            memcpy(out + 4 * i, in + i * row, 4);
        break;
    default:
        for (size_t i = 0; i < n; ++i)
            memcpy(out + 8 * i, in + i * row, 8);
    }
}

/* Returns how many of n delivered times precede the first that is out of range. */
static size_t countGoodTimes(const uint8_t *times, size_t n) {
    size_t i = 0;
    for (uint64_t time = 0; i < n; ++i) {
        memcpy(&time, times + 8 * i, 8);
        if (time >> 62)
            break;
    }
    return i;
}

size_t eventio_deliver(const Table *t, int64_t offset, const uint8_t *in, size_t n, uint8_t *const *out, size_t first) {
    enum { TILE = 2048 };
    uint8_t tile[8 * TILE];
    int good = 1;
    for (int k = 0; k < t->field_count; ++k) {
        const Field *field = &t->field[k];
        const size_t size = field->number.size, width = eventio_deliveredSize[field->which];
        if (!out[field->which])
            continue;
        uint8_t *to = out[field->which] + first * width;
        if (size == t->row) {
            good &= deliverNumbers(field, offset, in, n, to);
            continue;
        }
        for (size_t i = 0; i < n; i += TILE) {
            const size_t now = n - i < TILE ? n - i : TILE;
            gather(in + i * t->row + field->offset, now, t->row, size, tile);
            good &= deliverNumbers(field, offset, tile, now, to + i * width);
        }
    }
    return good ? n : countGoodTimes(out[EVENTIO_T] + 8 * first, n);
}

/* ---- Jobs ---------------------------------------------------------------------------------------------------------- */

int eventio_isDelivered(const Table *t) {
    return t->field_count == 1 && t->row == eventio_deliveredSize[t->field[0].which];
}

int eventio_decodesInPlace(const ChunkJob *job) {
    return job->count == job->table->chunk && eventio_isDelivered(job->table);
}

/* Decodes a whole chunk whose only filter is ECF straight into the columns, about twice as fast as by rows. Returns
 * whether it is such a chunk and has as many events as rows. */
static int decodeColumns(const Hdf5Reader *h, ChunkJob *job, uint8_t *const *out) {
    const Table *t = job->table;
    if (t->filter_count != 1 || t->filters[0] != EVENTIO_FILTER_ECF || appliedFilters(job) != 1 || h->time_offset ||
        job->count != t->chunk || !out[EVENTIO_X] || !out[EVENTIO_Y] || !out[EVENTIO_P] || !out[EVENTIO_T])
        return 0;
    uint8_t *times = out[EVENTIO_T] + 8 * job->first;
    if (!eventio_ecfDecodeColumns(job->raw.data, job->raw_size, job->count, out[EVENTIO_X] + 2 * job->first,
                                  out[EVENTIO_Y] + 2 * job->first, out[EVENTIO_P] + job->first, times))
        return 0;
    job->status = CUS_OK;
    job->good = countGoodTimes(times, job->count);
    return 1;
}

void eventio_runJob(const Hdf5Reader *h, ChunkJob *job, uint8_t *const *out) {
    const Table *t = job->table;
    const int in_place = eventio_decodesInPlace(job);
    if (decodeColumns(h, job, out))
        return;
    uint8_t *to = in_place ? out[t->field[0].which] + job->first * t->row : job->decoded.data;
    job->status = decodeChunk(job, to);
    job->good = job->count;
    if (job->status == CUS_OK)
        job->good =
            eventio_deliver(t, h->time_offset, in_place ? to : to + job->skip * t->row, job->count, out, job->first);
}
