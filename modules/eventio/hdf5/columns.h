/* The four columns of an HDF5 recording, and the stages of the reader:
 *   open.c      finds the datasets, the resolution and the time offset of each layout
 *   dataset.c   finds how a dataset is stored, and makes tables of it
 *   chunks.c    reads a range of events: fetches chunks as stored while all threads decode
 *   fetch.c     the stored bytes of a chunk, and its buffers within the reader's memory
 *   decode.c    one chunk, from the stored bytes to the delivered type
 *   bytes.c     chunks as they are stored, for a decoder of the caller's
 * reader.c puts them together: read, seek, close. file/ reads the file's own structures. */
#ifndef CUSI_EVENTIO_HDF5_COLUMNS_H
#define CUSI_EVENTIO_HDF5_COLUMNS_H

#include "eventio/hdf5/file/file.h"
#include "eventio/recording.h"

enum { EVENTIO_MAX_FILTERS = 3, EVENTIO_JOBS_PER_THREAD = 16 };
enum { EVENTIO_SHUFFLE = 2, EVENTIO_FLETCHER32 = 3 }; /* HDF5's numbers of filters that do not compress */

/* The four columns of a recording. */
enum { EVENTIO_X, EVENTIO_Y, EVENTIO_P, EVENTIO_T, EVENTIO_COLUMNS };
extern const char *const eventio_columnName[EVENTIO_COLUMNS];
extern const size_t eventio_deliveredSize[EVENTIO_COLUMNS]; /* bytes an element, in the caller's arrays */

typedef struct Buffer {
    uint8_t *data;
    size_t size;
} Buffer;

/* A column's place in the rows of a table. */
typedef struct Field {
    int which;       /* EVENTIO_X ... */
    uint32_t offset; /* bytes from the start of a row */
    Hdf5Number number;
} Field;

/* Rows that one chunk gives: of a dataset, or of those columns of a two-dimensional dataset that share chunks. */
typedef struct Table {
    const char *name; /* the dataset, for messages */
    Hdf5Dataset set;
    uint64_t length; /* rows */
    size_t row;      /* bytes of a row */
    Field field[EVENTIO_COLUMNS];
    int field_count;
    int is_chunked;
    uint64_t address;      /* contiguous: offset in the source; UINT64_MAX: never written */
    size_t chunk;          /* rows in a chunk */
    uint64_t chunk_column; /* two dimensions: number of the chunks in the second */
    int filters[EVENTIO_MAX_FILTERS], filter_count;
    Buffer last; /* the decoded chunk that the last range ended in, as stored */
    uint64_t last_chunk;
} Table;

/* Returns the bytes of one decoded chunk. */
static inline size_t eventio_chunkBytes(const Table *t) {
    return t->chunk * t->row;
}

/* One chunk to decode: its rows skip .. skip + count - 1 become elements first .. of the range. */
typedef struct ChunkJob {
    Table *table;
    uint64_t chunk;
    size_t first, count, skip;
    Buffer raw, decoded, spare;
    size_t raw_size;
    uint32_t skipped_filters; /* filters not applied to this chunk, one bit each */
    cusStatus status;
    size_t good; /* rows before the first whose time is out of range */
} ChunkJob;

typedef struct Hdf5Frames Hdf5Frames;

/* Which chunks ECF has compressed. */
typedef enum Encoded { ENCODED_UNKNOWN, ENCODED_ALL, ENCODED_PARTLY } Encoded;

typedef struct Hdf5Reader {
    Hdf5File file;
    Table table[EVENTIO_COLUMNS];
    int table_count;
    uint64_t count;      /* events: the length of the shortest table */
    uint64_t index;      /* next event */
    int64_t time_offset; /* added to t */
    ChunkJob *jobs;
    int job_count, threads;
    size_t memory, max_memory; /* bytes of all buffers, and their limit */
    size_t max_chunk;
    struct Hdf5Reader *triggers; /* NULL: not opened, or there are none */
    Hdf5Frames *frames;          /* NULL: not started */
    Encoded encoded;
    int without_triggers;
} Hdf5Reader;

/* ---- dataset.c ------------------------------------------------------------------------------------------------------- */

/* Looks up an object below a group by its path, without following soft, external and user-defined links. */
cusStatus eventio_findObject(Hdf5Reader *h, uint64_t group, const char *path, Hdf5Kind *kind, uint64_t *address);

/* Adds a table for the dataset of one column, which must exist in the group (`path` is the group's): x or xs, y or ys,
 * p, ps, pol or polarity, t, ts, time or timestamp. */
cusStatus eventio_addColumn(Hdf5Reader *h, uint64_t group, const char *path, int which);

/* Adds the tables of a dataset with all four columns: a compound with members of the same names, or two dimensions with
 * the columns x, y, t, p. */
cusStatus eventio_addRows(Hdf5Reader *h, uint64_t dataset, const char *name);

/* Adds the table of a compound with id, p and t: the inputs of triggers are column x. */
cusStatus eventio_addTriggers(Hdf5Reader *h, uint64_t dataset, const char *name);

/* Reads n integers from a small dataset. *found 0: it is missing. */
cusStatus eventio_readNumbers(Hdf5Reader *h, uint64_t group, const char *name, int n, int64_t *values, int *found);

/* ---- decode.c; on any thread ---------------------------------------------------------------------------------------- */

/* Computes how many bytes job->raw and job->spare need to decode the fetched chunk. */
void eventio_decodeNeeds(const ChunkJob *job, size_t *raw, size_t *spare);

/* Returns whether a chunk is decoded straight into the caller's array. */
int eventio_decodesInPlace(const ChunkJob *job);
/* Returns whether rows may be read straight into that array. */
int eventio_isDelivered(const Table *t);

/* Decodes a fetched chunk into those columns of `out` that are not NULL. Sets job->status, without a message: CUS_OK,
 * FORMAT or NO_MEMORY. */
void eventio_runJob(const Hdf5Reader *h, ChunkJob *job, uint8_t *const *out);

/* Returns an integer, extended to 64 bits; *negative: its type is signed and it is below zero. */
uint64_t eventio_loadInteger(const Hdf5Number *number, const uint8_t *in, int *negative);

/* Converts n rows at `in` to elements first .. of the columns `out`; a single column may be converted in place. Returns
 * how many precede the first whose time is out of range. */
size_t eventio_deliver(const Table *t, int64_t offset, const uint8_t *in, size_t n, uint8_t *const *out, size_t first);

/* ---- fetch.c -------------------------------------------------------------------------------------------------------- */

/* Finds the chunk job->chunk in the source. Sets job->raw_size, which is bounded, and job->skipped_filters. */
cusStatus eventio_findChunk(Hdf5Reader *h, ChunkJob *job, uint64_t *address);

/* Reads the stored bytes of job->chunk and allocates what decoding needs, for job number `used` of a batch. *full:
 * h->max_memory is used up, and the job must wait for the next batch. */
cusStatus eventio_fetchChunk(Hdf5Reader *h, ChunkJob *job, int used, int *full);

/* Reads rows first .. first + n - 1 of a table that is not stored in chunks. *good: how many of them are valid. */
cusStatus eventio_readContiguous(Hdf5Reader *h, const Table *t, uint64_t first, size_t n, uint8_t *const *out,
                                 size_t *good);

/* ---- bytes.c -------------------------------------------------------------------------------------------------------- */

/* Accepts NULL. */
void eventio_closeFrames(Hdf5Frames *frames);

/* ---- open.c and chunks.c -------------------------------------------------------------------------------------------- */

/* Opens the dataset of Metavision's triggers. *found 0: there is none. */
cusStatus eventio_openTriggerDataset(Hdf5Reader *h, int *found);

/* Opens the datasets of the recording, and sets reader->info. */
cusStatus eventio_openDatasets(cusEventReader *reader, Hdf5Reader *h);

/* Reads events first .. first + n - 1 into the columns whose `out` is not NULL. *good: how many of them are valid in all
 * columns; n with CUS_OK. */
cusStatus eventio_readColumns(Hdf5Reader *h, uint64_t first, size_t n, uint8_t *const *out, size_t *good);

#endif
