/* Gives a recording's chunks, as stored, to a decoder of the caller's, in frames (frames.h): Metavision's chunks of
 * ECF, or those of four columns compressed by LZF. A frame is planned from the index of the chunks; its bytes are read
 * straight to the caller. */
#include "check.h"
#include "eventio/hdf5/codec.h"
#include "eventio/hdf5/columns.h"
#include "eventio/hdf5/reader.h"
#include "frames.h"
#include "host.h"

#include <errno.h>
#include <stdlib.h>

static const char function[] = "cusEventReaderReadBytes";

/* Bytes of the source. */
typedef struct Part {
    uint64_t address;
    uint32_t size;
} Part;

/* A chunk's place in its frame: a header, then parts of the source. */
typedef struct Chunk {
    uint64_t at;
    uint32_t size, events;
    uint32_t header_size;
    uint8_t header[CUSI_COLUMNS_HEADER];
    int part_count;
    Part part[EVENTIO_COLUMNS];
} Chunk;

struct Hdf5Frames {
    uint32_t magic;
    uint64_t next;     /* chunk after the frame */
    uint64_t size, at; /* bytes of the frame; those that have been read */
    uint32_t count;
    Chunk chunk[CUSI_FRAME_CHUNKS];
    uint8_t header[CUSI_FRAME_HEADER + CUSI_FRAME_UNIT];
    EventFailure failure; /* follows the frame */
};

/* Returns whether the table has chunks that a frame can have, with this as their only filter. */
static int isStoredBy(const Table *t, int filter) {
    return t->is_chunked && t->filter_count == 1 && t->filters[0] == filter && t->chunk <= CUSI_CHUNK_MAX_EVENTS;
}

/* Returns whether a table of one column has a type that a chunk of columns can have. */
static int isColumnType(const Table *t) {
    const int which = t->field[0].which;
    const Hdf5Number *number = &t->field[0].number;
    if (number->class != HDF5_INTEGER || (number->is_big_endian && number->size > 1))
        return 0;
    if (which == EVENTIO_T)
        return number->size == 8 || number->size == 4;
    return number->size == eventio_deliveredSize[which] && (which == EVENTIO_P || !number->is_signed);
}

/* Returns whether the tables are x, y, p and t in chunks of the same events. Columns of different lengths stay with the
 * reader, which says so at the end. */
static int isColumns(const Hdf5Reader *h) {
    if (h->table_count != EVENTIO_COLUMNS)
        return 0;
    for (int k = 0; k < EVENTIO_COLUMNS; ++k) {
        const Table *t = &h->table[k];
        if (t->field_count != 1 || t->field[0].which != k || !isColumnType(t) || !isStoredBy(t, EVENTIO_FILTER_LZF) ||
            t->chunk != h->table[0].chunk || t->length != h->count)
            return 0;
    }
    return 1;
}

/* Returns whether ECF has compressed every chunk, up to damage: HDF5 may leave the filter out for single chunks. Reads
 * the index once. */
static int isEncoded(Hdf5Reader *h) {
    ChunkJob job = {.table = &h->table[0]};
    uint64_t address;
    cusStatus status = CUS_OK;
    if (!isStoredBy(job.table, EVENTIO_FILTER_ECF))
        return 0;
    if (h->encoded != ENCODED_UNKNOWN)
        return h->encoded == ENCODED_ALL;
    for (; job.chunk * job.table->chunk < h->count && status == CUS_OK && !job.skipped_filters; ++job.chunk)
        status = eventio_findChunk(h, &job, &address);
    if (status != CUS_ERROR_IO && status != CUS_ERROR_NO_MEMORY)
        h->encoded = job.skipped_filters ? ENCODED_PARTLY : ENCODED_ALL;
    return !job.skipped_filters;
}

cusEventFormat eventio_frameFormat(const cusEventReader *reader) {
    Hdf5Reader *h = reader->state;
    switch (reader->info.format) {
    case CUS_EVENTS_METAVISION:
        return isEncoded(h) ? CUS_EVENTS_METAVISION : CUS_EVENTS_ANY;
    case CUS_EVENTS_M3ED:
    case CUS_EVENTS_DSEC:
    case CUS_EVENTS_HDF5:
        return isColumns(h) ? CUS_EVENTS_HDF5 : CUS_EVENTS_ANY;
    default:
        return CUS_EVENTS_ANY;
    }
}

cusStatus eventio_startFrames(cusEventReader *reader, cusEventDecoderState *state) {
    Hdf5Reader *h = reader->state;
    const size_t rows = h->table[0].chunk;
    if (!h->frames)
        h->frames = calloc(1, sizeof *h->frames);
    CUSI_REQUIRE(h->frames, CUS_ERROR_NO_MEMORY, "cusEventReaderDecoder: out of host memory");
    Hdf5Frames *f = h->frames;
    const uint64_t event = reader->mark < h->count ? reader->mark : h->count;
    f->magic = eventio_frameFormat(reader) == CUS_EVENTS_METAVISION ? CUSI_FRAME_ECF : CUSI_FRAME_LZF;
    f->next = event / rows;
    f->size = f->at = 0;
    f->failure.status = CUS_OK;
    *state = (cusEventDecoderState){.time_high = -1, .time = -1, .last_time = -1, .index = event};
    state->vector = (uint32_t)(event % rows);
    return CUS_OK;
}

void eventio_closeFrames(Hdf5Frames *f) {
    free(f);
}

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

static cusStatus damaged(const Table *t, uint64_t chunk) {
    return cusi_fail(CUS_ERROR_FORMAT, "%s: the chunk of %s that starts at event %llu is damaged", function, t->name,
                     (unsigned long long)chunk * t->chunk);
}

static void put32(uint8_t *to, uint32_t value) {
    memcpy(to, &value, sizeof value); /* the machine is little-endian, as CUDA's hosts are */
}

/* Finds a table's next chunk in the source and adds it to `chunk` as a part. */
static cusStatus findPart(Hdf5Reader *h, Table *t, Chunk *chunk, ChunkJob *job) {
    Part *part = &chunk->part[chunk->part_count++];
    *job = (ChunkJob){.table = t, .chunk = h->frames->next};
    const cusStatus status = eventio_findChunk(h, job, &part->address);
    part->size = (uint32_t)job->raw_size; /* findChunk() has bounded it */
    return status == CUS_OK ? CUS_OK : cusi_renamed(function, status);
}

static cusStatus findEcf(Hdf5Reader *h, Chunk *chunk) {
    const Table *t = &h->table[0];
    ChunkJob job;
    CUS_TRY(findPart(h, &h->table[0], chunk, &job));
    CUSI_REQUIRE(!job.skipped_filters, CUS_ERROR_UNSUPPORTED,
                 "%s: the chunk of %s that starts at event %llu is not compressed; read its events instead", function,
                 t->name, (unsigned long long)job.chunk * t->chunk);
    chunk->size = chunk->part[0].size;
    return CUS_OK;
}

static cusStatus findColumns(Hdf5Reader *h, Chunk *chunk) {
    enum { MAX_RATIO = 88 }; /* LZF's highest compression ratio */
    const Hdf5Number *p = &h->table[EVENTIO_P].field[0].number, *t = &h->table[EVENTIO_T].field[0].number;
    put32(chunk->header, (uint32_t)h->table[0].chunk);
    put32(chunk->header + 4, (t->size == 4 ? CUSI_COLUMNS_SHORT_T : 0u) | (t->is_signed ? CUSI_COLUMNS_SIGNED_T : 0u) |
                                 (p->is_signed ? CUSI_COLUMNS_SIGNED_P : 0u));
    memcpy(chunk->header + 8, &h->time_offset, sizeof h->time_offset);
    chunk->size = chunk->header_size = CUSI_COLUMNS_HEADER;
    for (int k = 0; k < EVENTIO_COLUMNS; ++k) {
        Table *column = &h->table[k];
        ChunkJob job;
        CUS_TRY(findPart(h, column, chunk, &job));
        const uint32_t size = chunk->part[k].size;
        const int plain = job.skipped_filters & 1; /* HDF5 leaves out a filter that does not shrink the chunk */
        if (plain ? size != eventio_chunkBytes(column) : size < eventio_chunkBytes(column) / MAX_RATIO)
            return damaged(column, job.chunk);
        put32(chunk->header + 16 + 4 * k, plain ? size | CUSI_COLUMNS_PLAIN : size);
        chunk->size += size;
    }
    return CUS_OK;
}

/* Adds the next chunk to the frame. */
static cusStatus addChunk(Hdf5Reader *h) {
    Hdf5Frames *f = h->frames;
    const Table *t = &h->table[0];
    const uint64_t first = f->next * t->chunk;
    Chunk chunk = {.at = f->size, .events = (uint32_t)(h->count - first < t->chunk ? h->count - first : t->chunk)};
    CUS_TRY(f->magic == CUSI_FRAME_ECF ? findEcf(h, &chunk) : findColumns(h, &chunk));
    if (!cusi_isFrameEntry(f->magic, chunk.size, chunk.events))
        return damaged(t, f->next);
    f->chunk[f->count++] = chunk;
    f->size += cusi_frameSlot(chunk.size);
    ++f->next;
    return CUS_OK;
}

/* Plans the next frame; size 0: the end. Damage follows the chunks before it. */
static cusStatus planFrame(Hdf5Reader *h) {
    Hdf5Frames *f = h->frames;
    f->size = f->at = f->count = 0;
    while (f->count < CUSI_FRAME_CHUNKS && f->next * h->table[0].chunk < h->count && f->failure.status == CUS_OK) {
        const cusStatus status = addChunk(h);
        if (status == CUS_OK)
            continue;
        f->failure.status = status;
        strncpy(f->failure.message, cusLastError(), sizeof f->failure.message - 1);
    }
    if (!f->count)
        return f->failure.status == CUS_OK ? CUS_OK : cusi_fail(f->failure.status, "%s", f->failure.message);
    const uint32_t header = cusi_frameHeader(f->count);
    memset(f->header, 0, sizeof f->header);
    put32(f->header, f->magic);
    put32(f->header + 4, f->count);
    for (uint32_t k = 0; k < f->count; ++k) {
        f->chunk[k].at += header;
        put32(f->header + CUSI_FRAME_START + CUSI_FRAME_ENTRY * k, f->chunk[k].size);
        put32(f->header + CUSI_FRAME_START + CUSI_FRAME_ENTRY * k + 4, f->chunk[k].events);
    }
    f->size += header;
    return CUS_OK;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Returns the size of the part of [at, at + size) that lies in [from, to). */
static uint64_t overlap(uint64_t at, uint64_t size, uint64_t from, uint64_t to, uint64_t *first) {
    const uint64_t end = at + size < to ? at + size : to;
    *first = at > from ? at : from;
    return end > *first ? end - *first : 0;
}

/* Copies those of these bytes that the chunk has; otherwise like copyFrame(). */
static int copyChunk(const Hdf5Reader *h, const Chunk *chunk, uint64_t from, uint64_t to, uint8_t *bytes) {
    uint64_t at = chunk->at, first, n = overlap(at, chunk->header_size, from, to, &first);
    if (n)
        memcpy(bytes + (first - from), chunk->header + (first - at), n);
    at += chunk->header_size;
    for (int k = 0; k < chunk->part_count; ++k) {
        const Part *part = &chunk->part[k];
        n = overlap(at, part->size, from, to, &first);
        errno = 0;
        if (n && eventio_readAt(h->file.source, part->address + (first - at), bytes + (first - from), n) != (int64_t)n)
            return 0;
        at += part->size;
    }
    n = overlap(at, cusi_frameSlot(chunk->size) - chunk->size, from, to, &first);
    if (n)
        memset(bytes + (first - from), 0, n);
    return 1;
}

/* Copies bytes from .. to - 1 of the frame. Returns whether the file has them all; errno is 0 if it has become shorter. */
static int copyFrame(const Hdf5Reader *h, uint64_t from, uint64_t to, uint8_t *bytes) {
    const Hdf5Frames *f = h->frames;
    uint64_t first;
    const uint64_t n = overlap(0, cusi_frameHeader(f->count), from, to, &first);
    if (n)
        memcpy(bytes, f->header + first, n);
    for (uint32_t k = 0; k < f->count; ++k)
        if (!copyChunk(h, &f->chunk[k], from, to, bytes))
            return 0;
    return 1;
}

/* Each thread copies a share, as for the bytes of other formats. */
static cusStatus copyParallel(const Hdf5Reader *h, size_t n, uint8_t *bytes) {
    enum { SHARE = 1 << 20 };
    const uint64_t start = h->frames->at;
    const int threads = cusi_threadsFor(n, SHARE);
    const size_t share = (n + (size_t)threads - 1) / (size_t)threads;
    int failed = 0, error = 0;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int i = 0; i < threads; ++i) {
        const size_t from = (size_t)i * share < n ? (size_t)i * share : n, to = share < n - from ? from + share : n;
        const int good = copyFrame(h, start + from, start + to, bytes + from), why = errno;
        if (good)
            continue;
#pragma omp critical(cusi_read_frames)
        {
            failed = 1;
            error = why;
        }
    }
    CUSI_REQUIRE(!failed || error, CUS_ERROR_TRUNCATED, "%s: the file has become shorter", function);
    CUSI_REQUIRE(!failed, CUS_ERROR_IO, "%s: the file cannot be read: %s", function, strerror(error));
    return CUS_OK;
}

cusStatus eventio_readFrames(cusEventReader *reader, size_t capacity, uint8_t *bytes, size_t *count) {
    Hdf5Reader *h = reader->state;
    Hdf5Frames *f = h->frames;
    CUSI_REQUIRE(f, CUS_ERROR_VALUE, "%s: expected cusEventReaderDecoder before it", function);
    CusiProgress *const progress = cusi_progress();
    while (*count < capacity) {
        cusi_step(progress, 0); /* asks once a frame, which is short */
        CUS_TRY(cusi_proceed(progress));
        if (f->at == f->size)
            CUS_TRY(planFrame(h));
        if (f->size == 0)
            return CUS_OK;
        const uint64_t left = f->size - f->at;
        const size_t n = left < capacity - *count ? (size_t)left : capacity - *count;
        CUS_TRY(copyParallel(h, n, bytes + *count));
        f->at += n;
        *count += n;
    }
    return CUS_OK;
}
