/* The reader of HDF5 recordings, in three stages:
 *   eventio_hdf5_open.c      finds the datasets and how they are stored
 *   eventio_hdf5_chunks.c    reads a range of events: chunks are fetched as stored and decoded on all threads
 *   eventio_hdf5.c           the methods of the format: read, seek, close */
#ifndef CUSI_EVENTIO_HDF5_READER_H
#define CUSI_EVENTIO_HDF5_READER_H

#include "eventio_hdf5.h"

enum { EVENTIO_MAX_FILTERS = 4, EVENTIO_JOBS_PER_THREAD = 16 };

/* The four datasets of a recording. */
enum { EVENTIO_X, EVENTIO_Y, EVENTIO_P, EVENTIO_T, EVENTIO_COLUMNS };
extern const char *const eventio_columnName[EVENTIO_COLUMNS];
extern const size_t eventio_deliveredSize[EVENTIO_COLUMNS]; /* bytes an element, in the caller's arrays */

typedef struct Buffer {
    uint8_t *data;
    size_t size;
} Buffer;

typedef struct Column {
    int which; /* EVENTIO_X ... */
    hid_t dataset;
    uint64_t length;
    size_t element; /* bytes as stored */
    int is_signed;
    size_t chunk; /* elements; 0: read through H5Dread */
    int filters[EVENTIO_MAX_FILTERS], filter_count;
    Buffer last; /* the decoded chunk that the last range ended in, as stored */
    uint64_t last_chunk;
} Column;

/* One chunk to decode: its elements skip .. skip + count - 1 become elements first .. of the range. */
typedef struct ChunkJob {
    Column *column;
    uint64_t chunk;
    size_t first, count, skip;
    Buffer raw, decoded, spare;
    size_t raw_size;
    uint32_t skipped_filters; /* not applied to this chunk: one bit each */
    int good;
} ChunkJob;

typedef struct Hdf5Reader {
    hid_t driver, file;
    Hdf5Source source;
    Column column[EVENTIO_COLUMNS];
    uint64_t count;      /* events: the length of the shortest column */
    uint64_t index;      /* of the next event */
    int64_t time_offset; /* added to t */
    ChunkJob *jobs;
    int job_count, threads;
} Hdf5Reader;

/* Opens the file and its datasets, and sets reader->info. The caller holds the HDF5 lock. */
cusStatus eventio_openDatasets(cusEventReader *reader, Hdf5Reader *h);

/* Reads elements first .. first + n - 1 of the columns whose `out` is not NULL. *good: how many of them are valid in all
 * columns; n with CUS_OK. */
cusStatus eventio_readColumns(Hdf5Reader *h, uint64_t first, size_t n, uint8_t *const *out, size_t *good);

#endif
