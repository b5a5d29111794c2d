/* Reads the stored bytes of an HDF5 recording on the calling thread: chunks, with their buffers within the reader's memory,
 * and columns that are not stored in chunks. */
#include "check.h"
#ifdef CUSI_WITH_HDF5
#include "eventio/hdf5/codec.h"
#include "eventio/hdf5/columns.h"
#include "host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory -------------------------------------------------------------------------------------------------------- */

static void release(Hdf5Reader *h, Buffer *buffer) {
    h->memory -= buffer->size;
    free(buffer->data);
    *buffer = (Buffer){NULL, 0};
}

/* Makes the buffer at least this large and drops its contents. */
static int grow(Hdf5Reader *h, Buffer *buffer, size_t size) {
    if (buffer->size >= size)
        return 1;
    release(h, buffer);
    uint8_t *data = cusi_hostAllocate(size);
    if (!data)
        return 0;
    *buffer = (Buffer){data, size};
    h->memory += size;
    return 1;
}

static size_t growth(const Buffer *buffer, size_t size) {
    return buffer->size >= size ? 0 : size - buffer->size;
}

/* What a decoder needs besides its input and output: on every thread, Blosc takes up to three blocks of up to a chunk. */
static size_t decoderBytes(const Hdf5Reader *h, const ChunkJob *job, int used) {
    const Column *c = job->column;
    const size_t threads = (size_t)(used + 1 < h->threads ? used + 1 : h->threads);
    for (int k = 0; k < c->filter_count; ++k)
        if (c->filters[k] == EVENTIO_FILTER_BLOSC)
            return 3 * eventio_chunkBytes(c) * threads;
    return 0;
}

/* Frees the buffers that no job of this batch uses. */
static void releaseIdle(Hdf5Reader *h, const ChunkJob *job, int used) {
    for (int i = used; i < h->job_count; ++i) {
        release(h, &h->jobs[i].raw);
        release(h, &h->jobs[i].decoded);
        release(h, &h->jobs[i].spare);
    }
    for (int k = 0; used == 0 && k < EVENTIO_COLUMNS; ++k)
        if (&h->column[k] != job->column)
            release(h, &h->column[k].last);
}

/* The buffers for fetching and decoding the job, whose chunk has job->raw_size stored bytes. */
static cusStatus allocateBuffers(Hdf5Reader *h, ChunkJob *job, int used, int *full) {
    const size_t decoder = decoderBytes(h, job, used);
    const size_t decoded = eventio_decodesInPlace(job) ? 0 : eventio_chunkBytes(job->column);
    size_t raw, spare;
    eventio_decodeNeeds(job, &raw, &spare);
    raw = raw > job->raw_size ? raw : job->raw_size;
    for (int attempt = 0;; ++attempt) {
        const size_t more = growth(&job->raw, raw) + growth(&job->spare, spare) + growth(&job->decoded, decoded) + decoder;
        if (h->memory + more <= h->max_memory)
            break;
        if (attempt == 0) {
            releaseIdle(h, job, used);
            continue;
        }
        *full = used > 0;
        if (*full)
            return CUS_OK;
        return cusi_fail(CUS_ERROR_CAPACITY,
                         "cusEventReaderRead: a chunk of %s needs %zu bytes, but the option max_memory leaves %zu",
                         eventio_columnName[job->column->which], h->memory + more, h->max_memory);
    }
    CUSI_REQUIRE(grow(h, &job->raw, raw) && grow(h, &job->spare, spare) && grow(h, &job->decoded, decoded),
                 CUS_ERROR_NO_MEMORY, "cusEventReaderRead: out of host memory for a chunk of %zu bytes",
                 raw + spare + decoded);
    return CUS_OK;
}

/* ---- Chunks -------------------------------------------------------------------------------------------------------- */

static cusStatus endsBefore(const Hdf5Reader *h, const Column *c, uint64_t event, uint64_t needed) {
    return cusi_fail(CUS_ERROR_TRUNCATED,
                     "cusEventReaderRead: the file ends at byte %llu, but %s of event %llu is stored up to byte %llu",
                     (unsigned long long)h->source.source->size, eventio_columnName[c->which], (unsigned long long)event,
                     (unsigned long long)needed);
}

/* Reports why a chunk cannot be read: it was never written, its bytes or the index of the chunks are past the end of the
 * file, or that index is damaged. */
static cusStatus explainMissing(Hdf5Reader *h, const Column *c, hsize_t at) {
    const char *name = eventio_columnName[c->which];
    hsize_t stored = 0;
    haddr_t address = HADDR_UNDEF;
    unsigned skipped_filters = 0;
    const Hdf5Lock lock = eventio_lockHdf5();
    eventio_beginHdf5(&h->source);
    /* This call walks through all chunks. */
    const herr_t found = H5Dget_chunk_info_by_coord(c->dataset, &at, &skipped_filters, &address, &stored);
    const cusStatus failure = found < 0 ? eventio_hdf5Failure(&h->source, "cusEventReaderRead") : CUS_OK;
    eventio_unlockHdf5(lock);
    CUS_TRY(failure);
    const uint64_t size = h->source.source->size;
    if (found >= 0 && address != HADDR_UNDEF && (stored > size || address > size - stored))
        return endsBefore(h, c, at, address + stored);
    CUSI_REQUIRE(found < 0 || address != HADDR_UNDEF, CUS_ERROR_TRUNCATED,
                 "cusEventReaderRead: %s is written only up to event %llu of %llu", name, (unsigned long long)at,
                 (unsigned long long)c->length);
    if (eventio_hdf5PastEnd(&h->source))
        return endsBefore(h, c, at, eventio_hdf5PastEnd(&h->source));
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: HDF5 cannot read %s of event %llu", name,
                     (unsigned long long)at);
}

/* Finds how many bytes the chunk has in the file. */
static cusStatus findChunk(Hdf5Reader *h, const Column *c, hsize_t at, size_t *bytes) {
    hsize_t stored = 0;
    Hdf5Lock lock = eventio_lockHdf5();
    eventio_beginHdf5(&h->source);
    const herr_t found = H5Dget_chunk_storage_size(c->dataset, &at, &stored);
    const cusStatus failure = found < 0 ? eventio_hdf5Failure(&h->source, "cusEventReaderRead") : CUS_OK;
    eventio_unlockHdf5(lock);
    CUS_TRY(failure);
    if (found < 0 || !stored)
        return explainMissing(h, c, at);
    /* Compression that enlarges a chunk stays below this. */
    const size_t most = eventio_chunkBytes(c) + eventio_chunkBytes(c) / 8 + 4096;
    CUSI_REQUIRE(stored <= most, CUS_ERROR_FORMAT,
                 "cusEventReaderRead: the chunk of %s that starts at event %llu claims %llu bytes for %zu",
                 eventio_columnName[c->which], (unsigned long long)at, (unsigned long long)stored, eventio_chunkBytes(c));
    if (stored > h->source.source->size)
        return explainMissing(h, c, at);
    *bytes = (size_t)stored;
    return CUS_OK;
}

cusStatus eventio_fetchChunk(Hdf5Reader *h, ChunkJob *job, int used, int *full) {
    const Column *c = job->column;
    const hsize_t at = job->chunk * c->chunk;
    *full = 0;
    job->skipped_filters = 0;
    CUS_TRY(findChunk(h, c, at, &job->raw_size));
    CUS_TRY(allocateBuffers(h, job, used, full));
    if (*full)
        return CUS_OK;
    const Hdf5Lock lock = eventio_lockHdf5();
    eventio_beginHdf5(&h->source);
    h->source.chunk_bytes = job->raw_size; /* libhdf5 reads the size that the index gives now, whatever it gave before */
    const herr_t read = H5Dread_chunk(c->dataset, H5P_DEFAULT, &at, &job->skipped_filters, job->raw.data);
    const cusStatus failure = read < 0 ? eventio_hdf5Failure(&h->source, "cusEventReaderRead") : CUS_OK;
    eventio_unlockHdf5(lock);
    CUS_TRY(failure);
    return read < 0 ? explainMissing(h, c, at) : CUS_OK;
}

/* ---- Not in chunks -------------------------------------------------------------------------------------------------- */

/* Reads elements first .. first + n - 1 of one column through libhdf5. */
static cusStatus readRange(Hdf5Reader *h, const Column *c, uint64_t first, size_t n, uint8_t *out) {
    const hsize_t start = first, count = n;
    const Hdf5Lock lock = eventio_lockHdf5(); /* the names of types are calls of libhdf5 */
    const hid_t types[EVENTIO_COLUMNS] = {H5T_NATIVE_UINT16, H5T_NATIVE_UINT16,
                                          c->is_signed ? H5T_NATIVE_INT8 : H5T_NATIVE_UINT8, H5T_NATIVE_INT64};
    eventio_beginHdf5(&h->source);
    const hid_t file_space = H5Dget_space(c->dataset), memory_space = H5Screate_simple(1, &count, NULL);
    herr_t done = H5Sselect_hyperslab(file_space, H5S_SELECT_SET, &start, NULL, &count, NULL);
    if (done >= 0)
        done = H5Dread(c->dataset, types[c->which], memory_space, file_space, H5P_DEFAULT, out);
    const cusStatus failure = done < 0 ? eventio_hdf5Failure(&h->source, "cusEventReaderRead") : CUS_OK;
    H5Sclose(memory_space);
    H5Sclose(file_space);
    eventio_unlockHdf5(lock);
    CUS_TRY(failure);
    if (done < 0 && eventio_hdf5PastEnd(&h->source))
        return endsBefore(h, c, first, eventio_hdf5PastEnd(&h->source));
    Column as_read = *c;
    as_read.element = eventio_deliveredSize[c->which];
    as_read.is_big_endian = 0;
    as_read.is_signed = c->is_signed && c->which >= EVENTIO_P;
    CUSI_REQUIRE(done >= 0 && eventio_deliver(&as_read, h->time_offset, out, n, out), CUS_ERROR_FORMAT,
                 "cusEventReaderRead: HDF5 cannot read %s of events %llu..%llu", eventio_columnName[c->which],
                 (unsigned long long)first, (unsigned long long)(first + n - 1));
    return CUS_OK;
}

/* Delivers n elements; if one is out of range, *good is how many precede it. */
static int deliverUpTo(const Hdf5Reader *h, const Column *c, const uint8_t *in, size_t n, uint8_t *out, size_t *good) {
    const size_t width = eventio_deliveredSize[c->which];
    *good = n;
    if (eventio_deliver(c, h->time_offset, in, n, out))
        return 1;
    for (size_t i = 0; i < n && in == out; ++i) { /* times, already delivered */
        uint64_t time;
        memcpy(&time, out + 8 * i, 8);
        if (time >> 62) {
            *good = i;
            return 0;
        }
    }
    for (size_t i = 0; i < n; ++i)
        if (!eventio_deliver(c, h->time_offset, in + i * c->element, 1, out + i * width)) {
            *good = i;
            return 0;
        }
    return 1;
}

/* Reads the next elements of a contiguous column, at most one piece. *good < n with an error. */
static cusStatus readPiece(Hdf5Reader *h, const Column *c, uint64_t at, size_t n, uint8_t *out, size_t *good) {
    enum { PIECE = 4096, PIECE_IN_PLACE = 16384 };
    uint8_t converted[8 * PIECE];
    const int in_place = c->element == eventio_deliveredSize[c->which] && !c->is_big_endian;
    const size_t most = in_place ? PIECE_IN_PLACE : PIECE;
    uint8_t *piece = in_place ? out : converted;
    n = n < most ? n : most;
    *good = 0;
    const uint64_t start = c->address + at * c->element;
    const int64_t got = eventio_readAt(h->source.source, start, piece, n * c->element);
    CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderRead: the file cannot be read at byte %llu: %s",
                 (unsigned long long)start, strerror(errno));
    const size_t have = (size_t)got / c->element;
    CUSI_REQUIRE(deliverUpTo(h, c, piece, have, out, good), CUS_ERROR_FORMAT,
                 "cusEventReaderRead: t of event %llu is out of range", (unsigned long long)(at + *good));
    return have == n ? CUS_OK : endsBefore(h, c, at + have, start + n * c->element);
}

static cusStatus readContiguous(Hdf5Reader *h, const Column *c, uint64_t first, size_t n, uint8_t *out, size_t *good) {
    *good = 0;
    CUSI_REQUIRE(c->address != UINT64_MAX, CUS_ERROR_TRUNCATED,
                 "cusEventReaderRead: %s is written only up to event 0 of %llu", eventio_columnName[c->which],
                 (unsigned long long)c->length);
    if (c->address >= h->source.source->size)
        return endsBefore(h, c, first, c->address);
    while (*good < n) {
        size_t got;
        const cusStatus status =
            readPiece(h, c, first + *good, n - *good, out + *good * eventio_deliveredSize[c->which], &got);
        *good += got;
        CUS_TRY(status);
    }
    return CUS_OK;
}

/* libhdf5 reads the range at once; if that fails, in small steps, to deliver what precedes the damage. */
cusStatus eventio_readUnchunked(Hdf5Reader *h, const Column *c, uint64_t first, size_t n, uint8_t *out, size_t *good) {
    enum { STEP = 4096 };
    if (c->storage == STORED_CONTIGUOUSLY)
        return readContiguous(h, c, first, n, out, good);
    cusStatus status = readRange(h, c, first, n, out);
    *good = status == CUS_OK ? n : 0;
    while (*good < n) {
        const size_t step = n - *good < STEP ? n - *good : STEP;
        status = readRange(h, c, first + *good, step, out + *good * eventio_deliveredSize[c->which]);
        if (status != CUS_OK)
            break;
        *good += step;
    }
    return status;
}
#endif
