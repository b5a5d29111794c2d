/* Reads a range of events from an HDF5 recording. The calling thread fetches chunks as they are stored (H5Dread_chunk)
 * while all threads decode fetched ones, straight into the caller's arrays. */
#include "check.h"
#include "host.h"
#ifdef CUSI_WITH_HDF5
#include "eventio/hdf5/columns.h"

#include <sched.h>
#include <stdatomic.h>

enum {
    BATCH_BYTES = 64 << 20, /* stored bytes fetched ahead of decoding */
    PARALLEL_EVENTS = 16384 /* shorter ranges are decoded on one thread */
};

static cusStatus damaged(const Column *c, uint64_t chunk, cusStatus status) {
    if (status == CUS_ERROR_NO_MEMORY)
        return cusi_fail(status, "cusEventReaderRead: out of host memory");
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: the chunk of %s that starts at event %llu is damaged",
                     eventio_columnName[c->which], (unsigned long long)chunk * c->chunk);
}

/* ---- A range ------------------------------------------------------------------------------------------------------- */

/* A range being read. */
typedef struct Range {
    uint64_t first;
    size_t n;
    uint8_t *const *out;
    size_t next[EVENTIO_COLUMNS]; /* per column, elements that are read or belong to a job */
    size_t good;                  /* elements that are valid in all columns, as far as is known */
    cusStatus status;
} Range;

/* Jobs between the thread that fetches and those that decode: `ready` are fetched, `taken` of those have begun. */
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
                eventio_runJob(h, job, out[job->column->which]);
            }
        } else if (complete) {
            return;
        } else {
            sched_yield();
        }
    }
}

/* Plans the next chunk of the column that is furthest behind, so that all columns are complete up to any damage. 0: none is
 * left. */
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
    job->status = CUS_OK;
    range->next[k] += job->count;
    return 1;
}

static void breakAt(Range *range, const ChunkJob *job, cusStatus status) {
    range->status = status;
    range->good = job->first;
}

/* Serves a job from the chunk that the last range ended in, if the job is for that chunk. */
static int serveFromLast(const Hdf5Reader *h, Range *range, const ChunkJob *job) {
    const Column *c = job->column;
    if (!c->last.data || c->last_chunk != job->chunk)
        return 0;
    uint8_t *out = range->out[c->which] + job->first * eventio_deliveredSize[c->which];
    if (!eventio_deliver(c, h->time_offset, c->last.data + job->skip * c->element, job->count, out))
        breakAt(range, job, damaged(c, job->chunk, CUS_ERROR_FORMAT));
    return 1;
}

/* Fetches chunks and makes them ready, until the range or the batch is complete. Returns the number of jobs. */
static int fetchJobs(Hdf5Reader *h, Range *range, JobQueue *queue) {
    int used = 0;
    size_t bytes = 0;
    while (used < h->job_count && bytes < BATCH_BYTES) {
        ChunkJob *job = &h->jobs[used];
        if (!planJob(h, range, job))
            break;
        if (serveFromLast(h, range, job))
            continue;
        int full;
        const cusStatus status = eventio_fetchChunk(h, job, used, &full);
        if (status != CUS_OK)
            breakAt(range, job, status);
        else if (full)
            range->next[job->column->which] -= job->count;
        if (status != CUS_OK || full)
            break;
        bytes += job->raw_size;
        atomic_store(&queue->ready, ++used);
    }
    atomic_store(&queue->complete, 1);
    return used;
}

/* Finds the first damaged chunk, and keeps chunks that reach past the range for the next one. */
static void collectJobs(Hdf5Reader *h, Range *range, int used) {
    for (int i = 0; i < used; ++i) {
        ChunkJob *job = &h->jobs[i];
        Column *c = job->column;
        if (job->status != CUS_OK && job->first <= range->good) {
            breakAt(range, job, damaged(c, job->chunk, job->status));
        } else if (job->status == CUS_OK && job->skip + job->count < c->chunk) {
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
        const int in_chunks = h->column[k].storage == STORED_IN_CHUNKS;
        range.next[k] = out[k] && in_chunks ? 0 : n;
        /* After damage in one column, the others are still read up to it. */
        if (out[k] && !in_chunks && range.good) {
            const cusStatus status = eventio_readUnchunked(h, &h->column[k], first, range.good, out[k], &range.good);
            range.status = status == CUS_OK ? range.status : status;
        }
    }
    for (int used = 1; used;) {
        JobQueue queue = {0};
        used = 0;
#pragma omp parallel num_threads(h->threads) if (n >= PARALLEL_EVENTS)
        {
            if (cusi_threadNumber() == 0) /* the caller's thread, whose error message it is; `omp master` is deprecated */
                used = fetchJobs(h, &range, &queue);
            runJobs(h, &queue, out);
        }
        collectJobs(h, &range, used);
    }
    *good = range.good;
    return range.status;
}
#endif
