/* Reads a range of events from an HDF5 recording. The calling thread fetches chunks as they are stored while all threads
 * decode fetched ones, straight into the caller's arrays. */
#include "check.h"
#include "eventio/hdf5/columns.h"
#include "host.h"

#include <sched.h>
#include <stdatomic.h>

enum {
    BATCH_BYTES = 64 << 20, /* stored bytes fetched ahead of decoding */
    PARALLEL_EVENTS = 16384 /* shorter ranges are decoded on one thread */
};

static cusStatus damaged(const Table *t, uint64_t chunk, cusStatus status) {
    if (status == CUS_ERROR_NO_MEMORY)
        return cusi_fail(status, "cusEventReaderRead: out of host memory");
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: the chunk of %s that starts at event %llu is damaged", t->name,
                     (unsigned long long)chunk * t->chunk);
}

/* ---- A range ------------------------------------------------------------------------------------------------------- */

typedef struct Range {
    uint64_t first;
    size_t n;
    uint8_t *const *out;
    size_t next[EVENTIO_COLUMNS]; /* per table, rows that are read or belong to a job */
    size_t good;                  /* elements known to be valid in all columns */
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
                eventio_runJob(h, job, out);
            }
        } else if (complete) {
            return;
        } else {
            sched_yield();
        }
    }
}

/* Plans the next chunk of the table that is furthest behind, so that all columns are complete up to any damage. Returns
 * 0 if none is left. */
static int planJob(Hdf5Reader *h, Range *range, ChunkJob *job) {
    int k = 0;
    for (int j = 1; j < h->table_count; ++j)
        k = range->next[j] < range->next[k] ? j : k;
    if (range->next[k] >= range->good)
        return 0;
    Table *t = &h->table[k];
    const uint64_t at = range->first + range->next[k];
    job->table = t;
    job->chunk = at / t->chunk;
    job->skip = (size_t)(at % t->chunk);
    job->first = range->next[k];
    job->count = range->n - job->first < t->chunk - job->skip ? range->n - job->first : t->chunk - job->skip;
    job->status = CUS_OK;
    range->next[k] += job->count;
    return 1;
}

static void breakAt(Range *range, const ChunkJob *job, cusStatus status) {
    range->status = status;
    range->good = job->first;
}

static void breakAtTime(Range *range, size_t at) {
    range->status = cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: t of event %llu is out of range",
                              (unsigned long long)range->first + at);
    range->good = at;
}

/* Serves a job from the chunk that the last range ended in, if the job is for that chunk. */
static int serveFromLast(const Hdf5Reader *h, Range *range, const ChunkJob *job) {
    const Table *t = job->table;
    if (!t->last.data || t->last_chunk != job->chunk)
        return 0;
    const size_t good =
        eventio_deliver(t, h->time_offset, t->last.data + job->skip * t->row, job->count, range->out, job->first);
    if (good < job->count)
        breakAtTime(range, job->first + good);
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
            range->next[job->table - h->table] -= job->count;
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
        Table *t = job->table;
        if (job->status != CUS_OK && job->first <= range->good) {
            breakAt(range, job, damaged(t, job->chunk, job->status));
        } else if (job->status == CUS_OK && job->good < job->count && job->first + job->good <= range->good) {
            breakAtTime(range, job->first + job->good);
        } else if (job->status == CUS_OK && job->skip + job->count < t->chunk) {
            const Buffer buffer = t->last;
            t->last = job->decoded;
            t->last_chunk = job->chunk;
            job->decoded = buffer;
        }
    }
}

/* Returns whether one of the table's columns is wanted. */
static int isWanted(const Table *t, uint8_t *const *out) {
    for (int k = 0; k < t->field_count; ++k)
        if (out[t->field[k].which])
            return 1;
    return 0;
}

/* Fetch and decode what fits in one batch, and return the number of jobs. */
static int runInParallel(Hdf5Reader *h, Range *range) {
    JobQueue queue = {0};
    int used = 0;
#pragma omp parallel num_threads(h->threads)
    {
        if (cusi_threadNumber() == 0) /* this thread's error message is reported; `omp master` is deprecated */
            used = fetchJobs(h, range, &queue);
        runJobs(h, &queue, range->out);
    }
    return used;
}

/* Avoids OpenMP, which allocates memory even for one thread. */
static int runAlone(Hdf5Reader *h, Range *range) {
    JobQueue queue = {0};
    const int used = fetchJobs(h, range, &queue);
    runJobs(h, &queue, range->out);
    return used;
}

cusStatus eventio_readColumns(Hdf5Reader *h, uint64_t first, size_t n, uint8_t *const *out, size_t *good) {
    Range range = {.first = first, .n = n, .out = out, .good = n, .status = CUS_OK};
    for (int k = 0; k < h->table_count; ++k) {
        const Table *t = &h->table[k];
        const int wanted = isWanted(t, out);
        range.next[k] = wanted && t->is_chunked ? 0 : n;
        /* After damage in one table, the others are still read up to it. */
        if (wanted && !t->is_chunked && range.good) {
            const cusStatus status = eventio_readContiguous(h, t, first, range.good, out, &range.good);
            range.status = status == CUS_OK ? range.status : status;
        }
    }
    for (int used = 1; used;) {
        used = h->threads > 1 && n >= PARALLEL_EVENTS ? runInParallel(h, &range) : runAlone(h, &range);
        collectJobs(h, &range, used);
    }
    *good = range.good;
    return range.status;
}
