/* A range of events from the chunks of an HDF5 recording. The calling thread fetches chunks as they are stored
 * (H5Dread_chunk) while all threads decode those that have arrived, straight into the caller's arrays. Other filters and unusual
 * types are read through H5Dread. */
#ifdef CUSI_WITH_HDF5
#include "check.h"
#include "eventio_codec.h"
#include "eventio_hdf5_reader.h"
#include "host.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_BYTES = 64 << 20, /* stored bytes fetched before they must be decoded */
    PARALLEL_EVENTS = 16384 /* shorter ranges are decoded on one thread */
};

static int grow(Buffer *buffer, size_t size) {
    if (buffer->size >= size)
        return 1;
    uint8_t *data = cusi_hostAllocate(size);
    if (!data)
        return 0;
    free(buffer->data);
    *buffer = (Buffer){data, size};
    return 1;
}

/* ---- One chunk ----------------------------------------------------------------------------------------------------- */

static cusStatus endsBefore(const Hdf5Reader *h, const Column *c, uint64_t event, uint64_t needed) {
    return cusi_fail(CUS_ERROR_TRUNCATED,
                     "cusEventReaderRead: the file ends at byte %llu, but %s of event %llu is stored up to byte %llu",
                     (unsigned long long)h->source.source->size, eventio_columnName[c->which], (unsigned long long)event,
                     (unsigned long long)needed);
}

/* Reads the stored bytes of job->chunk. On the calling thread. */
static cusStatus fetchChunk(Hdf5Reader *h, ChunkJob *job) {
    const Column *c = job->column;
    const hsize_t at = job->chunk * c->chunk;
    const char *name = eventio_columnName[c->which];
    hsize_t stored = 0;
    haddr_t address = HADDR_UNDEF;
    unsigned skipped_filters = 0;
    h->source.past_end = 0;
    Hdf5Lock lock = eventio_lockHdf5();
    const herr_t found = H5Dget_chunk_info_by_coord(c->dataset, &at, &skipped_filters, &address, &stored);
    eventio_unlockHdf5(lock);
    if (found < 0 && h->source.past_end)
        return endsBefore(h, c, at, h->source.past_end);
    CUSI_REQUIRE(found >= 0, CUS_ERROR_FORMAT, "cusEventReaderRead: HDF5 cannot find %s of event %llu", name,
                 (unsigned long long)at);
    CUSI_REQUIRE(address != HADDR_UNDEF && stored > 0, CUS_ERROR_TRUNCATED,
                 "cusEventReaderRead: %s is written only up to event %llu of %llu", name, (unsigned long long)at,
                 (unsigned long long)c->length);
    if (stored > h->source.source->size || address > h->source.source->size - stored)
        return endsBefore(h, c, at, address + stored);
    CUSI_REQUIRE(grow(&job->raw, stored), CUS_ERROR_NO_MEMORY, "cusEventReaderRead: out of host memory for %llu bytes",
                 (unsigned long long)stored);
    job->raw_size = stored;
    lock = eventio_lockHdf5();
    const herr_t read = H5Dread_chunk(c->dataset, H5P_DEFAULT, &at, &job->skipped_filters, job->raw.data);
    eventio_unlockHdf5(lock);
    CUSI_REQUIRE(read >= 0, CUS_ERROR_FORMAT, "cusEventReaderRead: HDF5 cannot read %s of event %llu", name,
                 (unsigned long long)at);
    return CUS_OK;
}

/* Inverts the filters, last one first, into `out`: chunk * element bytes. */
static int decodeChunk(ChunkJob *job, uint8_t *out) {
    const Column *c = job->column;
    const size_t size = c->chunk * c->element;
    const Buffer *current = &job->raw;
    const uint8_t *from = current->data;
    size_t from_size = job->raw_size;
    int left = 0;
    for (int k = 0; k < c->filter_count; ++k)
        left += !(job->skipped_filters >> k & 1);
    if (!left) {
        if (from_size == size)
            memcpy(out, from, size);
        return from_size == size;
    }
    for (int k = c->filter_count - 1; k >= 0; --k) {
        if (job->skipped_filters >> k & 1)
            continue;
        --left;
        /* Between two filters the data alternates between raw and spare. */
        Buffer *buffer = current == &job->spare ? &job->raw : &job->spare;
        if (left && !grow(buffer, size))
            return 0;
        uint8_t *to = left ? buffer->data : out;
        int good = 1;
        if (c->filters[k] == EVENTIO_FILTER_LZF)
            good = eventio_lzfDecode(from, from_size, to, size);
        else if (c->filters[k] == EVENTIO_FILTER_BLOSC)
            good = eventio_bloscDecode(from, from_size, to, size) == 1;
        else if ((good = from_size == size))
            eventio_unshuffle(from, size, c->element, to);
        if (!good)
            return 0;
        current = buffer;
        from = to;
        from_size = size;
    }
    return 1;
}

/* Stored times of 8 or 4 bytes to microseconds. Returns the OR of all: bit 63 is set if one is negative, bit 62 if one is
 * 2^62 or greater. */
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

/* Converts n stored elements to the delivered type; in == out where nothing has to move. 0: a time is out of range. */
static int deliver(const Column *c, int64_t offset, const uint8_t *in, size_t n, uint8_t *out) {
    if (c->which == EVENTIO_T)
        return widenTimes(in, n, c->element, c->is_signed, offset, out) >> 62 == 0;
    if (in != out)
        memcpy(out, in, n * eventio_deliveredSize[c->which]);
    if (c->which == EVENTIO_P && c->is_signed)
        for (size_t i = 0; i < n; ++i)
            out[i] = out[i] == 255 ? 0 : out[i]; /* -1 */
    return 1;
}

/* Decodes a fetched chunk into the column `out`. On any thread. */
static void runJob(const Hdf5Reader *h, ChunkJob *job, uint8_t *out) {
    const Column *c = job->column;
    const size_t width = eventio_deliveredSize[c->which];
    out += job->first * width;
    const int in_place = job->count == c->chunk && c->element == width;
    job->good = (in_place || grow(&job->decoded, c->chunk * c->element)) &&
                decodeChunk(job, in_place ? out : job->decoded.data) &&
                deliver(c, h->time_offset, in_place ? out : job->decoded.data + job->skip * c->element, job->count, out);
}

/* ---- One column through libhdf5 ------------------------------------------------------------------------------------- */

/* Reads elements first .. first + n - 1 of one column, by libhdf5. */
static cusStatus readRange(Hdf5Reader *h, const Column *c, uint64_t first, size_t n, uint8_t *out) {
    const hsize_t start = first, count = n;
    const hid_t types[EVENTIO_COLUMNS] = {H5T_NATIVE_UINT16, H5T_NATIVE_UINT16,
                                          c->is_signed ? H5T_NATIVE_INT8 : H5T_NATIVE_UINT8, H5T_NATIVE_INT64};
    h->source.past_end = 0;
    const Hdf5Lock lock = eventio_lockHdf5();
    const hid_t file_space = H5Dget_space(c->dataset), memory_space = H5Screate_simple(1, &count, NULL);
    herr_t done = H5Sselect_hyperslab(file_space, H5S_SELECT_SET, &start, NULL, &count, NULL);
    if (done >= 0)
        done = H5Dread(c->dataset, types[c->which], memory_space, file_space, H5P_DEFAULT, out);
    H5Sclose(memory_space);
    H5Sclose(file_space);
    eventio_unlockHdf5(lock);
    if (h->source.past_end)
        return endsBefore(h, c, first, h->source.past_end);
    Column as_read = *c;
    as_read.element = eventio_deliveredSize[c->which];
    CUSI_REQUIRE(done >= 0 && deliver(&as_read, h->time_offset, out, n, out), CUS_ERROR_FORMAT,
                 "cusEventReaderRead: HDF5 cannot read %s of events %llu..%llu", eventio_columnName[c->which],
                 (unsigned long long)first, (unsigned long long)(first + n - 1));
    return CUS_OK;
}

/* Reads the range at once; if that fails, in small steps, to deliver what precedes the damage. */
static cusStatus readUnchunked(Hdf5Reader *h, const Column *c, uint64_t first, size_t n, uint8_t *out, size_t *good) {
    enum { STEP = 4096 };
    cusStatus status = readRange(h, c, first, n, out);
    if (status == CUS_OK)
        return status;
    for (*good = 0; *good < n;) {
        const size_t step = n - *good < STEP ? n - *good : STEP;
        status = readRange(h, c, first + *good, step, out + *good * eventio_deliveredSize[c->which]);
        if (status != CUS_OK)
            break;
        *good += step;
    }
    return status;
}

static cusStatus damaged(const Column *c, uint64_t chunk) {
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: the chunk of %s that starts at event %llu is damaged",
                     eventio_columnName[c->which], (unsigned long long)chunk * c->chunk);
}

/* ---- A range ------------------------------------------------------------------------------------------------------- */

/* A range that is being read. */
typedef struct Range {
    uint64_t first;
    size_t n;
    uint8_t *const *out;
    size_t next[EVENTIO_COLUMNS]; /* per column, elements that are read or have a job */
    size_t good;                  /* elements that are valid in all columns, as far as is known */
    cusStatus status;
} Range;

/* Jobs on their way from the thread that fetches to those that decode: `ready` of them are fetched, `taken` of those begun. */
typedef struct JobQueue {
    atomic_int ready, taken, complete;
} JobQueue;

/* Runs jobs until all are done. (OpenMP tasks would do the same, but ThreadSanitizer reports false races in how LLVM's
 * runtime reuses their memory.) */
static void runJobs(const Hdf5Reader *h, JobQueue *queue, uint8_t *const *out) {
    for (;;) {
        const int complete = atomic_load(&queue->complete); /* before `ready`, which is final then */
        int next = atomic_load(&queue->taken);
        if (next < atomic_load(&queue->ready)) {
            if (atomic_compare_exchange_weak(&queue->taken, &next, next + 1)) {
                ChunkJob *job = &h->jobs[next];
                runJob(h, job, out[job->column->which]);
            }
        } else if (complete) {
            return;
        } else {
            sched_yield();
        }
    }
}

/* Plans the next chunk, of the column that is furthest behind: so all columns are complete up to any damage. 0: none is left. */
static int planJob(Hdf5Reader *h, Range *range, ChunkJob *job) {
    int k = 0;
    for (int j = 1; j < EVENTIO_COLUMNS; ++j)
        k = range->next[j] < range->next[k] ? j : k;
    if (range->next[k] >= range->good)
        return 0;
    Column *c = &h->column[k];
    const uint64_t at = range->first + range->next[k];
    job->column = c;
    job->chunk = at / c->chunk;
    job->skip = (size_t)(at % c->chunk);
    job->first = range->next[k];
    job->count = range->n - job->first < c->chunk - job->skip ? range->n - job->first : c->chunk - job->skip;
    job->good = 0;
    range->next[k] += job->count;
    return 1;
}

static void breakAt(Range *range, const ChunkJob *job, cusStatus status) {
    range->status = status;
    range->good = job->first;
}

/* Serves a job from the chunk that the last range ended in, if it is that one. */
static int serveFromLast(const Hdf5Reader *h, Range *range, const ChunkJob *job) {
    const Column *c = job->column;
    if (!c->last.data || c->last_chunk != job->chunk)
        return 0;
    uint8_t *out = range->out[c->which] + job->first * eventio_deliveredSize[c->which];
    if (!deliver(c, h->time_offset, c->last.data + job->skip * c->element, job->count, out))
        breakAt(range, job, damaged(c, job->chunk));
    return 1;
}

/* Fetches chunks and makes them ready, until the range or the batch is complete. Returns the number of jobs. */
static int fetchJobs(Hdf5Reader *h, Range *range, JobQueue *queue) {
    int used = 0;
    size_t bytes = 0;
    while (range->status == CUS_OK && used < h->job_count && bytes < BATCH_BYTES) {
        ChunkJob *job = &h->jobs[used];
        if (!planJob(h, range, job))
            break;
        if (serveFromLast(h, range, job))
            continue;
        const cusStatus status = fetchChunk(h, job);
        if (status != CUS_OK) {
            breakAt(range, job, status);
            break;
        }
        bytes += job->raw_size;
        atomic_store(&queue->ready, ++used);
    }
    atomic_store(&queue->complete, 1);
    return used;
}

/* Finds the first damaged chunk, and keeps the chunks that reach past the range for the next one. */
static void collectJobs(Hdf5Reader *h, Range *range, int used) {
    for (int i = 0; i < used; ++i) {
        ChunkJob *job = &h->jobs[i];
        Column *c = job->column;
        if (!job->good && job->first <= range->good) {
            breakAt(range, job, damaged(c, job->chunk));
        } else if (job->good && job->skip + job->count < c->chunk) {
            const Buffer buffer = c->last;
            c->last = job->decoded;
            c->last_chunk = job->chunk;
            job->decoded = buffer;
        }
    }
}

cusStatus eventio_readColumns(Hdf5Reader *h, uint64_t first, size_t n, uint8_t *const *out, size_t *good) {
    Range range = {.first = first, .n = n, .out = out, .good = n, .status = CUS_OK};
    for (int k = 0; k < EVENTIO_COLUMNS; ++k) {
        range.next[k] = out[k] && h->column[k].chunk ? 0 : n;
        if (out[k] && !h->column[k].chunk && range.status == CUS_OK)
            range.status = readUnchunked(h, &h->column[k], first, range.good, out[k], &range.good);
    }
    for (int used = 1; used;) {
        JobQueue queue = {0};
        used = 0;
#pragma omp parallel num_threads(h->threads) if (n >= PARALLEL_EVENTS)
        {
#pragma omp master
            used = fetchJobs(h, &range, &queue);
            runJobs(h, &queue, out);
        }
        collectJobs(h, &range, used);
    }
    *good = range.good;
    return range.status;
}
#else
typedef int eventio_hdf5_chunks_is_empty;
#endif
