/* Reads the stored bytes of an HDF5 recording on the calling thread: chunks, with their buffers within the reader's memory,
 * and columns that are not stored in chunks. */
#include "check.h"
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

/* Grows the buffer to this size and drops its contents. */
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

/* Returns what decoders need on every thread besides input and output: Blosc up to three blocks of up to a chunk, zstd
 * its tables. */
static size_t decoderBytes(const Hdf5Reader *h, const ChunkJob *job, int used) {
    enum { ZSTD_BYTES = 160 << 10 };
    const Table *t = job->table;
    const size_t threads = (size_t)(used + 1 < h->threads ? used + 1 : h->threads);
    for (int k = 0; k < t->filter_count; ++k) {
        if (t->filters[k] == EVENTIO_FILTER_BLOSC)
            return 3 * eventio_chunkBytes(t) * threads;
        if (t->filters[k] == EVENTIO_FILTER_ZSTD)
            return ZSTD_BYTES * threads;
    }
    return 0;
}

/* Frees the buffers that no job of this batch uses. */
static void releaseIdle(Hdf5Reader *h, const ChunkJob *job, int used) {
    for (int i = used; i < h->job_count; ++i) {
        release(h, &h->jobs[i].raw);
        release(h, &h->jobs[i].decoded);
        release(h, &h->jobs[i].spare);
    }
    for (int k = 0; used == 0 && k < h->table_count; ++k)
        if (&h->table[k] != job->table)
            release(h, &h->table[k].last);
}

/* Allocates buffers to fetch and decode the job, whose chunk has job->raw_size stored bytes. */
static cusStatus allocateBuffers(Hdf5Reader *h, ChunkJob *job, int used, int *full) {
    const size_t decoder = decoderBytes(h, job, used);
    const size_t decoded = eventio_decodesInPlace(job) ? 0 : eventio_chunkBytes(job->table);
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
                         job->table->name, h->memory + more, h->max_memory);
    }
    CUSI_REQUIRE(grow(h, &job->raw, raw) && grow(h, &job->spare, spare) && grow(h, &job->decoded, decoded),
                 CUS_ERROR_NO_MEMORY, "cusEventReaderRead: out of host memory for a chunk of %zu bytes",
                 raw + spare + decoded);
    return CUS_OK;
}

/* ---- Chunks -------------------------------------------------------------------------------------------------------- */

static cusStatus endsBefore(const Hdf5Reader *h, const Table *t, uint64_t event, uint64_t needed) {
    return cusi_fail(CUS_ERROR_TRUNCATED,
                     "cusEventReaderRead: the file ends at byte %llu, but %s of event %llu is stored up to byte %llu",
                     (unsigned long long)eventio_sizeNow(h->file.source), t->name, (unsigned long long)event,
                     (unsigned long long)needed);
}

static cusStatus isWrittenUpTo(const Table *t, uint64_t event) {
    return cusi_fail(CUS_ERROR_TRUNCATED, "cusEventReaderRead: %s is written only up to event %llu of %llu", t->name,
                     (unsigned long long)event, (unsigned long long)t->length);
}

cusStatus eventio_findChunk(Hdf5Reader *h, ChunkJob *job, uint64_t *address) {
    const Table *t = job->table;
    const uint64_t number[2] = {job->chunk, t->chunk_column}, event = job->chunk * t->chunk;
    Hdf5Chunk chunk;
    h->file.function = "cusEventReaderRead";
    CUS_TRY(eventio_hdf5FindChunk(&h->file, &t->set, number, &chunk));
    if (chunk.address == hdf5_nowhere)
        return isWrittenUpTo(t, event);
    /* Compression that enlarges a chunk stays below this. */
    const size_t most = eventio_chunkBytes(t) + eventio_chunkBytes(t) / 8 + 4096;
    CUSI_REQUIRE(chunk.size <= most, CUS_ERROR_FORMAT,
                 "cusEventReaderRead: the chunk of %s that starts at event %llu claims %llu bytes for %zu", t->name,
                 (unsigned long long)event, (unsigned long long)chunk.size, eventio_chunkBytes(t));
    const cusStatus status = eventio_hdf5Within(&h->file, chunk.address, chunk.size, t->name);
    if (status == CUS_ERROR_TRUNCATED)
        return endsBefore(h, t, event, h->file.base + chunk.address + chunk.size);
    CUS_TRY(status);
    *address = h->file.base + chunk.address;
    job->raw_size = (size_t)chunk.size;
    job->skipped_filters = chunk.mask;
    return CUS_OK;
}

cusStatus eventio_fetchChunk(Hdf5Reader *h, ChunkJob *job, int used, int *full) {
    uint64_t address = 0;
    *full = 0;
    CUS_TRY(eventio_findChunk(h, job, &address));
    CUS_TRY(allocateBuffers(h, job, used, full));
    if (*full)
        return CUS_OK;
    const int64_t got = eventio_readAt(h->file.source, address, job->raw.data, job->raw_size);
    CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderRead: the file cannot be read at byte %llu: %s",
                 (unsigned long long)address, strerror(errno));
    return (size_t)got == job->raw_size
               ? CUS_OK
               : endsBefore(h, job->table, job->chunk * job->table->chunk, address + job->raw_size);
}

/* ---- Not in chunks -------------------------------------------------------------------------------------------------- */

static cusStatus readRows(const Hdf5Reader *h, const Table *t, uint64_t at, size_t n, uint8_t *rows, size_t *have) {
    const uint64_t start = t->address + at * t->row;
    const int64_t got = eventio_readAt(h->file.source, start, rows, n * t->row);
    *have = 0;
    CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderRead: the file cannot be read at byte %llu: %s",
                 (unsigned long long)start, strerror(errno));
    *have = (size_t)got / t->row;
    return CUS_OK;
}

/* Reads the next rows, at most one piece, to elements `to` .. of the columns. With an error, *good < n. */
static cusStatus readPiece(const Hdf5Reader *h, const Table *t, uint64_t at, size_t n, uint8_t *const *out, size_t to,
                           size_t *good) {
    enum { PIECE_BYTES = 32768, PIECE_IN_PLACE = 16384 };
    uint8_t rows[PIECE_BYTES];
    size_t have;
    *good = 0;
    if (eventio_isDelivered(t)) {
        const size_t now = n < PIECE_IN_PLACE ? n : PIECE_IN_PLACE;
        uint8_t *in_place = out[t->field[0].which] + to * t->row;
        CUS_TRY(readRows(h, t, at, now, in_place, &have));
        if (have == now && eventio_deliver(t, h->time_offset, in_place, now, out, to) == now) {
            *good = now;
            return CUS_OK;
        }
    }
    const size_t most = PIECE_BYTES / t->row, now = n < most ? n : most;
    CUS_TRY(readRows(h, t, at, now, rows, &have));
    *good = eventio_deliver(t, h->time_offset, rows, have, out, to);
    CUSI_REQUIRE(*good == have, CUS_ERROR_FORMAT, "cusEventReaderRead: t of event %llu is out of range",
                 (unsigned long long)at + *good);
    return have == now ? CUS_OK : endsBefore(h, t, at + have, t->address + (at + now) * t->row);
}

cusStatus eventio_readContiguous(Hdf5Reader *h, const Table *t, uint64_t first, size_t n, uint8_t *const *out,
                                 size_t *good) {
    *good = 0;
    if (t->address == UINT64_MAX)
        return isWrittenUpTo(t, 0);
    while (*good < n) {
        size_t got;
        const cusStatus status = readPiece(h, t, first + *good, n - *good, out, *good, &got);
        *good += got;
        CUS_TRY(status);
    }
    return CUS_OK;
}
