/* The four columns of an HDF5 recording, and the stages of the reader:
 *   open.c      finds the four datasets, the resolution and the time offset
 *   dataset.c   finds a dataset and how it is stored; opens nothing outside the file
 *   chunks.c    reads a range of events: fetches chunks as stored while all threads decode
 *   fetch.c     the stored bytes of a chunk, and its buffers within the reader's memory
 *   decode.c    one chunk, from the stored bytes to the delivered type
 * reader.c puts them together: read, seek, close. */
#ifndef CUSI_EVENTIO_HDF5_COLUMNS_H
#define CUSI_EVENTIO_HDF5_COLUMNS_H

#include "eventio/hdf5/driver.h"
#include "eventio/recording.h"

enum { EVENTIO_MAX_FILTERS = 3, EVENTIO_JOBS_PER_THREAD = 16 };

/* The four datasets of a recording. */
enum { EVENTIO_X, EVENTIO_Y, EVENTIO_P, EVENTIO_T, EVENTIO_COLUMNS };
extern const char *const eventio_columnName[EVENTIO_COLUMNS];
extern const size_t eventio_deliveredSize[EVENTIO_COLUMNS]; /* bytes an element, in the caller's arrays */

typedef struct Buffer {
    uint8_t *data;
    size_t size;
} Buffer;

typedef enum ColumnStorage {
    STORED_IN_CHUNKS,    /* that this reader decodes */
    STORED_CONTIGUOUSLY, /* read from the file at `address` */
    STORED_FOR_LIBHDF5   /* read through H5Dread: compact, or filters of plugins */
} ColumnStorage;

typedef struct Column {
    int which; /* EVENTIO_X ... */
    hid_t dataset;
    uint64_t length;
    size_t element; /* bytes as stored: 1, 2, 4 or 8 */
    int is_signed, is_big_endian;
    ColumnStorage storage;
    uint64_t address; /* contiguous; UINT64_MAX: never written */
    size_t chunk;     /* elements */
    int filters[EVENTIO_MAX_FILTERS], filter_count;
    Buffer last; /* the decoded chunk that the last range ended in, as stored */
    uint64_t last_chunk;
} Column;

/* Bytes of one decoded chunk. */
static inline size_t eventio_chunkBytes(const Column *c) {
    return c->chunk * c->element;
}

/* One chunk to decode: its elements skip .. skip + count - 1 become elements first .. of the range. */
typedef struct ChunkJob {
    Column *column;
    uint64_t chunk;
    size_t first, count, skip;
    Buffer raw, decoded, spare;
    size_t raw_size;
    uint32_t skipped_filters; /* not applied to this chunk: one bit each */
    cusStatus status;
} ChunkJob;

typedef struct Hdf5Reader {
    hid_t driver, file;
    Hdf5Source source;
    Column column[EVENTIO_COLUMNS];
    uint64_t count;      /* events: the length of the shortest column */
    uint64_t index;      /* next event */
    int64_t time_offset; /* added to t */
    ChunkJob *jobs;
    int job_count, threads;
    size_t memory, max_memory; /* bytes of all buffers, and what they may become */
    size_t max_chunk;
    int plugins;
} Hdf5Reader;

/* ---- dataset.c; the caller holds the HDF5 lock ----------------------------------------------------------------------- */

typedef enum ObjectPlace { OBJECT_FOUND, OBJECT_MISSING, OBJECT_OF_OTHER_TYPE, OBJECT_LINKED } ObjectPlace;

/* Looks `name` up without following soft, external and user-defined links. Errors: NO_MEMORY. */
cusStatus eventio_findObject(Hdf5Reader *h, hid_t parent, const char *name, H5O_type_t type, ObjectPlace *place);

/* Opens c->dataset, which must exist (`path` is that of its group), and finds how it is stored. */
cusStatus eventio_openColumn(Hdf5Reader *h, hid_t group, const char *path, Column *c);

/* Reads n integers from a small dataset. *found 0: it is missing. */
cusStatus eventio_readNumbers(Hdf5Reader *h, hid_t parent, const char *name, int n, int64_t *values, int *found);

/* ---- decode.c; on any thread ---------------------------------------------------------------------------------------- */

/* How many bytes job->raw and job->spare need to decode the fetched chunk. */
void eventio_decodeNeeds(const ChunkJob *job, size_t *raw, size_t *spare);

/* Whether a chunk is decoded straight into the caller's array. */
int eventio_decodesInPlace(const ChunkJob *job);

/* Decodes a fetched chunk into the column `out`, and sets job->status, without a message: CUS_OK, FORMAT or NO_MEMORY. */
void eventio_runJob(const Hdf5Reader *h, ChunkJob *job, uint8_t *out);

/* An element of any stored type, extended to 64 bits; *negative: of a signed type and below zero. */
uint64_t eventio_loadElement(const Column *c, const uint8_t *in, int *negative);

/* Converts n stored elements to the delivered type; in == out where nothing has to move. 0: a time is out of range. */
int eventio_deliver(const Column *c, int64_t offset, const uint8_t *in, size_t n, uint8_t *out);

/* ---- fetch.c -------------------------------------------------------------------------------------------------------- */

/* Reads the stored bytes of job->chunk and allocates what decoding needs, for job number `used` of a batch. *full:
 * h->max_memory is used up, and the job must wait for the next batch. */
cusStatus eventio_fetchChunk(Hdf5Reader *h, ChunkJob *job, int used, int *full);

/* Reads elements first .. first + n - 1 of a column that is not stored in chunks. *good: how many of them are valid. */
cusStatus eventio_readUnchunked(Hdf5Reader *h, const Column *c, uint64_t first, size_t n, uint8_t *out, size_t *good);

/* ---- open.c and chunks.c -------------------------------------------------------------------------------------------- */

/* Opens the file and its datasets, and sets reader->info. The caller holds the HDF5 lock. */
cusStatus eventio_openDatasets(cusEventReader *reader, Hdf5Reader *h);

/* Reads elements first .. first + n - 1 of the columns whose `out` is not NULL. *good: how many of them are valid in all
 * columns; n with CUS_OK. */
cusStatus eventio_readColumns(Hdf5Reader *h, uint64_t first, size_t n, uint8_t *const *out, size_t *good);

#endif
