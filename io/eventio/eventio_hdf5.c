/* M3ED and DSEC recordings. libhdf5 finds things in the file; chunks are fetched as they are stored (H5Dread_chunk), one
 * after the other, while all threads decompress those that are there. What this cannot do (other filters, odd types) goes
 * through H5Dread. */
#include "check.h"
#include "eventio_backend.h"
#include "host.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The signature stands at byte 0, or after a user block of 512, 1024, 2048 ... bytes. */
static int isHdf5(const EventSource *source) {
    static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    for (uint64_t at = 0; at < source->size && at < (uint64_t)1 << 32; at = at ? 2 * at : 512) {
        uint8_t start[8];
        if (eventio_readAt(source, at, start, 8) == 8 && memcmp(start, signature, 8) == 0)
            return 1;
    }
    return 0;
}

#ifndef CUSI_WITH_HDF5

cusStatus eventio_openHdf5(cusEventReader *reader) {
    CUSI_REQUIRE(!isHdf5(&reader->source), CUS_ERROR_UNSUPPORTED,
                 "cusEventReaderOpen: an HDF5 file, but this build of cusight has no HDF5 (Debian: libhdf5-dev)");
    return CUS_OK;
}

#else

#include "eventio_hdf5.h"

enum {
    FILTER_SHUFFLE = H5Z_FILTER_SHUFFLE,
    MAX_FILTERS = 4,
    CHUNK_ALWAYS = 64 << 20, /* bytes: smaller chunks are taken whatever the file's size */
    GREATEST_RATIO = 1100,   /* no filter here compresses events better; claims beyond are false */
    BATCH_BYTES = 64 << 20,  /* stored bytes in flight */
    PARALLEL_EVENTS = 16384, /* fewer are not worth waking threads for */
    SLOTS_PER_THREAD = 16    /* chunks in flight: enough that a slow one keeps nobody waiting */
};

enum { X, Y, P, T, COLUMNS };
static const char *const column_name[COLUMNS] = {"x", "y", "p", "t"};
static const size_t delivered_size[COLUMNS] = {2, 2, 1, 8};

typedef struct Buffer {
    uint8_t *data;
    size_t size;
} Buffer;

typedef struct Column {
    int which; /* X, Y, P, T */
    hid_t dataset;
    uint64_t length;
    size_t element; /* bytes as stored */
    int is_signed;
    size_t chunk; /* elements; 0: through H5Dread */
    int filters[MAX_FILTERS], filter_count;
    Buffer held; /* the chunk that the last piece ended in, decoded, as stored */
    uint64_t held_chunk;
} Column;

/* One chunk on its way: elements skip .. skip + count - 1 of it become first .. of the piece. */
typedef struct Job {
    Column *column;
    uint64_t chunk;
    size_t first, count, skip;
    Buffer raw, decoded, spare;
    size_t raw_size;
    uint32_t left_out; /* filters that were not applied to this chunk, a bit each */
    int good;
} Job;

typedef struct Hdf5 {
    hid_t driver, file;
    Hdf5Source source;
    Column column[COLUMNS];
    uint64_t count; /* events: as many as the shortest column has */
    uint64_t index; /* of the next event */
    int64_t offset; /* added to t */
    Job *jobs;
    int slots, threads;
} Hdf5;

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

/* ---- One chunk ---------------------------------------------------------------------------------------------------------
 */

static cusStatus endsBefore(const Hdf5 *h, const Column *c, uint64_t event, uint64_t needed) {
    return cusi_fail(CUS_ERROR_TRUNCATED,
                     "cusEventReaderRead: the file ends at byte %llu, but %s of event %llu needs it up to byte %llu",
                     (unsigned long long)h->source.source->size, column_name[c->which], (unsigned long long)event,
                     (unsigned long long)needed);
}

/* The stored bytes of job->chunk. On the caller's thread. */
static cusStatus fetch(Hdf5 *h, Job *job) {
    const Column *c = job->column;
    const hsize_t at = job->chunk * c->chunk;
    const char *name = column_name[c->which];
    hsize_t stored = 0;
    haddr_t address = HADDR_UNDEF;
    unsigned left_out = 0;
    h->source.past_end = 0;
    Hdf5Lock lock = eventio_lockHdf5();
    const herr_t found = H5Dget_chunk_info_by_coord(c->dataset, &at, &left_out, &address, &stored);
    eventio_unlockHdf5(lock);
    if (found < 0 && h->source.past_end)
        return endsBefore(h, c, at, h->source.past_end);
    CUSI_REQUIRE(found >= 0, CUS_ERROR_FORMAT, "cusEventReaderRead: HDF5 cannot find %s of event %llu", name,
                 (unsigned long long)at);
    CUSI_REQUIRE(address != HADDR_UNDEF && stored > 0, CUS_ERROR_TRUNCATED,
                 "cusEventReaderRead: %s was written up to event %llu of %llu only", name, (unsigned long long)at,
                 (unsigned long long)c->length);
    if (stored > h->source.source->size || address > h->source.source->size - stored)
        return endsBefore(h, c, at, address + stored);
    CUSI_REQUIRE(grow(&job->raw, stored), CUS_ERROR_NO_MEMORY, "cusEventReaderRead: no host memory for %llu bytes",
                 (unsigned long long)stored);
    job->raw_size = stored;
    lock = eventio_lockHdf5();
    const herr_t read = H5Dread_chunk(c->dataset, H5P_DEFAULT, &at, &job->left_out, job->raw.data);
    eventio_unlockHdf5(lock);
    CUSI_REQUIRE(read >= 0, CUS_ERROR_FORMAT, "cusEventReaderRead: HDF5 cannot read %s of event %llu", name,
                 (unsigned long long)at);
    return CUS_OK;
}

/* Undoes the filters, last one first, into `out`: chunk * element bytes. */
static int decode(Job *job, uint8_t *out) {
    const Column *c = job->column;
    const size_t size = c->chunk * c->element;
    const Buffer *held = &job->raw;
    const uint8_t *from = held->data;
    size_t from_size = job->raw_size;
    int left = 0;
    for (int k = 0; k < c->filter_count; ++k)
        left += !(job->left_out >> k & 1);
    if (!left) {
        if (from_size == size)
            memcpy(out, from, size);
        return from_size == size;
    }
    for (int k = c->filter_count - 1; k >= 0; --k) {
        if (job->left_out >> k & 1)
            continue;
        --left;
        /* Between two filters the chunk goes from raw to spare and back. */
        Buffer *buffer = held == &job->spare ? &job->raw : &job->spare;
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
        held = buffer;
        from = to;
        from_size = size;
    }
    return 1;
}

/* Times as stored, 8 bytes or 4, to microseconds. Returns all of them or-ed: bit 63 is set when one is negative, bit 62 when
 * one is past 2^62. */
CUSI_MULTIVERSION
static uint64_t widen(const uint8_t *in, size_t n, size_t element, int is_signed, int64_t offset, uint8_t *out) {
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

/* n stored elements to what is delivered; in == out where nothing has to move. 0: a time out of range. */
static int deliver(const Column *c, int64_t offset, const uint8_t *in, size_t n, uint8_t *out) {
    if (c->which == T)
        return widen(in, n, c->element, c->is_signed, offset, out) >> 62 == 0;
    if (in != out)
        memcpy(out, in, n * delivered_size[c->which]);
    if (c->which == P && c->is_signed)
        for (size_t i = 0; i < n; ++i)
            out[i] = out[i] == 255 ? 0 : out[i]; /* -1 */
    return 1;
}

/* On any thread. */
static void run(const Hdf5 *h, Job *job, uint8_t *out) {
    const Column *c = job->column;
    const size_t width = delivered_size[c->which];
    out += job->first * width;
    const int in_place = job->count == c->chunk && c->element == width;
    job->good = (in_place || grow(&job->decoded, c->chunk * c->element)) &&
                decode(job, in_place ? out : job->decoded.data) &&
                deliver(c, h->offset, in_place ? out : job->decoded.data + job->skip * c->element, job->count, out);
}

/* ---- A piece -----------------------------------------------------------------------------------------------------------
 */

/* Elements first .. first + n - 1 of one column, through libhdf5. */
static cusStatus readRange(Hdf5 *h, const Column *c, uint64_t first, size_t n, uint8_t *out) {
    const hsize_t start = first, count = n;
    const hid_t types[COLUMNS] = {H5T_NATIVE_UINT16, H5T_NATIVE_UINT16, c->is_signed ? H5T_NATIVE_INT8 : H5T_NATIVE_UINT8,
                                  H5T_NATIVE_INT64};
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
    as_read.element = delivered_size[c->which];
    CUSI_REQUIRE(done >= 0 && deliver(&as_read, h->offset, out, n, out), CUS_ERROR_FORMAT,
                 "cusEventReaderRead: HDF5 cannot read %s of events %llu..%llu", column_name[c->which],
                 (unsigned long long)first, (unsigned long long)(first + n - 1));
    return CUS_OK;
}

/* All at once; where that fails, in small steps to find how far it goes. */
static cusStatus readPlain(Hdf5 *h, const Column *c, uint64_t first, size_t n, uint8_t *out, size_t *good) {
    enum { STEP = 4096 };
    cusStatus status = readRange(h, c, first, n, out);
    if (status == CUS_OK)
        return status;
    for (*good = 0; *good < n;) {
        const size_t step = n - *good < STEP ? n - *good : STEP;
        status = readRange(h, c, first + *good, step, out + *good * delivered_size[c->which]);
        if (status != CUS_OK)
            break;
        *good += step;
    }
    return status;
}

static cusStatus damaged(const Column *c, uint64_t chunk) {
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: the chunk of %s that starts at event %llu is damaged",
                     column_name[c->which], (unsigned long long)chunk * c->chunk);
}

/* Jobs on their way from the thread that reads the file to those that decode. */
typedef struct Queue {
    atomic_int ready, taken, complete;
} Queue;

/* Takes jobs until there will be no more. (OpenMP's tasks did the same; but LLVM's runtime hands their memory on in ways that
 * ThreadSanitizer takes for races.) */
static void work(const Hdf5 *h, Queue *queue, uint8_t *const *out) {
    for (;;) {
        const int complete = atomic_load(&queue->complete); /* before `ready`, which is final then */
        int next = atomic_load(&queue->taken);
        if (next < atomic_load(&queue->ready)) {
            if (atomic_compare_exchange_weak(&queue->taken, &next, next + 1)) {
                Job *job = &h->jobs[next];
                run(h, job, out[job->column->which]);
            }
        } else if (complete) {
            return;
        } else {
            sched_yield();
        }
    }
}

/* Elements first .. first + n - 1 of the columns whose `out` is not NULL. *good: how many of them are right in all
 * columns, all n with CUS_OK. */
static cusStatus readColumns(Hdf5 *h, uint64_t first, size_t n, uint8_t *const *out, size_t *good) {
    size_t next[COLUMNS];
    cusStatus status = CUS_OK;
    *good = n;
    for (int k = 0; k < COLUMNS; ++k) {
        next[k] = out[k] && h->column[k].chunk ? 0 : n;
        if (out[k] && !h->column[k].chunk && status == CUS_OK)
            status = readPlain(h, &h->column[k], first, *good, out[k], good);
    }
    for (int used = 1; used;) {
        size_t bytes = 0;
        used = 0;
        Queue queue = {0};
#pragma omp parallel num_threads(h->threads) if (n >= PARALLEL_EVENTS)
        {
#pragma omp master
            {
                while (status == CUS_OK && used < h->slots && bytes < BATCH_BYTES) {
                    /* The column that is furthest behind goes on, so that what comes before a break is whole. */
                    int k = 0;
                    for (int j = 1; j < COLUMNS; ++j)
                        k = next[j] < next[k] ? j : k;
                    if (next[k] >= *good)
                        break;
                    Column *c = &h->column[k];
                    Job *job = &h->jobs[used];
                    const uint64_t at = first + next[k];
                    job->column = c;
                    job->chunk = at / c->chunk;
                    job->skip = (size_t)(at % c->chunk);
                    job->first = next[k];
                    job->count = n - next[k] < c->chunk - job->skip ? n - next[k] : c->chunk - job->skip;
                    next[k] += job->count;
                    if (c->held.data && c->held_chunk == job->chunk) {
                        const size_t width = delivered_size[k];
                        if (!deliver(c, h->offset, c->held.data + job->skip * c->element, job->count,
                                     out[k] + job->first * width)) {
                            status = damaged(c, job->chunk);
                            *good = job->first;
                        }
                        continue;
                    }
                    job->good = 0;
                    status = fetch(h, job);
                    if (status != CUS_OK) {
                        *good = job->first;
                        break;
                    }
                    bytes += job->raw_size;
                    atomic_store(&queue.ready, ++used);
                }
                atomic_store(&queue.complete, 1);
            }
            work(h, &queue, out);
        }
        for (int i = 0; i < used; ++i) {
            Job *job = &h->jobs[i];
            Column *c = job->column;
            if (!job->good && job->first <= *good) {
                *good = job->first;
                status = damaged(c, job->chunk);
            } else if (job->good && job->skip + job->count < c->chunk) {
                const Buffer buffer = c->held;
                c->held = job->decoded;
                c->held_chunk = job->chunk;
                job->decoded = buffer;
            }
        }
    }
    return status;
}

/* ---- The reader --------------------------------------------------------------------------------------------------------
 */

static cusStatus hdf5Read(cusEventReader *reader, size_t n, EventArrays out, size_t *count) {
    Hdf5 *h = reader->state;
    *count = 0;
    if (h->index >= h->count) {
        for (int k = 0; k < COLUMNS; ++k)
            CUSI_REQUIRE(h->column[k].length == h->count, CUS_ERROR_TRUNCATED,
                         "cusEventReaderRead: the recording breaks off at event %llu: %s has %llu entries",
                         (unsigned long long)h->count, column_name[k], (unsigned long long)h->column[k].length);
        return CUS_OK;
    }
    if (n > h->count - h->index)
        n = (size_t)(h->count - h->index);
    uint8_t *const columns[COLUMNS] = {(uint8_t *)out.x, (uint8_t *)out.y, out.p, (uint8_t *)out.t};
    const cusStatus status = readColumns(h, h->index, n, columns, count);
    h->index += *count;
    return status;
}

static cusStatus hdf5SeekIndex(cusEventReader *reader, uint64_t index) {
    Hdf5 *h = reader->state;
    h->index = index < h->count ? index : h->count;
    reader->index = h->index;
    return CUS_OK;
}

static cusStatus timeAt(Hdf5 *h, uint64_t index, int64_t *time) {
    uint8_t *const columns[COLUMNS] = {NULL, NULL, NULL, (uint8_t *)time};
    size_t good;
    return readColumns(h, index, 1, columns, &good);
}

/* Binary search; where the file is broken counts as too far, so that reading on meets the break. */
static cusStatus hdf5FindTime(cusEventReader *reader, int64_t time, uint64_t *index) {
    Hdf5 *h = reader->state;
    uint64_t low = 0, high = h->count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        int64_t found = 0;
        const cusStatus status = timeAt(h, middle, &found);
        if (status == CUS_ERROR_NO_MEMORY || status == CUS_ERROR_IO)
            return status;
        if (status == CUS_OK && found < time)
            low = middle + 1;
        else
            high = middle;
    }
    *index = low;
    return CUS_OK;
}

static void hdf5Close(cusEventReader *reader) {
    Hdf5 *h = reader->state;
    if (!h)
        return;
    const Hdf5Lock lock = eventio_lockHdf5();
    for (int k = 0; k < COLUMNS; ++k)
        if (h->column[k].dataset > 0)
            H5Dclose(h->column[k].dataset);
    if (h->file > 0)
        H5Fclose(h->file);
    if (h->driver > 0)
        H5FDunregister(h->driver);
    eventio_unlockHdf5(lock);
    for (int k = 0; k < COLUMNS; ++k)
        free(h->column[k].held.data);
    for (int i = 0; h->jobs && i < h->slots; ++i) {
        free(h->jobs[i].raw.data);
        free(h->jobs[i].decoded.data);
        free(h->jobs[i].spare.data);
    }
    free(h->jobs);
    free(h);
}

static const EventFormat hdf5_format = {hdf5Read, hdf5SeekIndex, hdf5FindTime, hdf5Close};

/* ---- Opening: the HDF5 lock is held throughout -------------------------------------------------------------------------
 */

/* Links to other places or files are not followed: a recording must not make us open something else. */
static int holds(hid_t place, const char *name, H5O_type_t type) {
    H5L_info_t link;
    if (H5Lexists(place, name, H5P_DEFAULT) <= 0 || H5Lget_info(place, name, &link, H5P_DEFAULT) < 0 ||
        link.type != H5L_TYPE_HARD)
        return 0;
    H5O_info_t about;
    return H5Oget_info_by_name(place, name, &about, H5P_DEFAULT) >= 0 && about.type == type;
}

/* n whole numbers from a small dataset; 0 when it is not there or is something else. */
static int readNumbers(hid_t place, const char *name, int n, int64_t *values) {
    if (!holds(place, name, H5O_TYPE_DATASET))
        return 0;
    const hid_t dataset = H5Dopen2(place, name, H5P_DEFAULT), space = H5Dget_space(dataset), type = H5Dget_type(dataset);
    const int good = H5Tget_class(type) == H5T_INTEGER && H5Sget_simple_extent_npoints(space) == n &&
                     H5Dread(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dataset);
    return good;
}

static const char *packageOf(int filter) {
    switch (filter) {
    case EVENTIO_FILTER_LZF:
        return "LZF: Debian's hdf5-plugin-lzf";
    case EVENTIO_FILTER_BLOSC:
        return "Blosc: Debian's hdf5-filter-plugin-blosc-serial";
    case 307:
    case 32004:
    case 32008:
        return "BZip2, LZ4 and Bitshuffle: Debian's hdf5-filter-plugin";
    case 32013:
        return "ZFP: Debian's hdf5-filter-plugin-zfp-serial";
    case 32015:
    case 32026:
        return "Zstandard and Blosc2: Python's hdf5plugin, whose folder goes into HDF5_PLUGIN_PATH";
    default:
        return "registered at portal.hdfgroup.org; its folder goes into HDF5_PLUGIN_PATH";
    }
}

/* Which filters the chunks went through, and whether we can undo them. */
static cusStatus lookAtFilters(Column *c, hid_t properties) {
    const int n = H5Pget_nfilters(properties);
    int ours = n <= MAX_FILTERS, missing = 0;
    for (int k = 0; k < n; ++k) {
        unsigned flags, values[16];
        size_t value_count = 16;
        const int filter = H5Pget_filter2(properties, (unsigned)k, &flags, &value_count, values, 0, NULL, NULL);
        const int known = filter == FILTER_SHUFFLE || filter == EVENTIO_FILTER_LZF ||
                          (filter == EVENTIO_FILTER_BLOSC && eventio_bloscDecode(NULL, 0, NULL, 0) >= 0);
        ours = ours && known;
        if (k < MAX_FILTERS)
            c->filters[k] = filter;
        if (!missing && !known && (filter < 0 || H5Zfilter_avail(filter) <= 0))
            missing = filter;
    }
    c->filter_count = n;
    if (!ours) {
        for (int k = 0; !missing && k < n && k < MAX_FILTERS; ++k)
            if (H5Zfilter_avail(c->filters[k]) <= 0)
                missing = c->filters[k];
        CUSI_REQUIRE(!missing, CUS_ERROR_UNSUPPORTED,
                     "cusEventReaderOpen: %s is stored with HDF5 filter %d, which is not installed (%s)",
                     column_name[c->which], missing, packageOf(missing));
        c->chunk = 0;
    }
    return CUS_OK;
}

static cusStatus lookAtColumn(const Hdf5 *h, Column *c) {
    const char *name = column_name[c->which];
    const hid_t space = H5Dget_space(c->dataset), type = H5Dget_type(c->dataset),
                properties = H5Dget_create_plist(c->dataset);
    const int rank = H5Sget_simple_extent_ndims(space);
    hsize_t length = 0;
    if (rank == 1)
        H5Sget_simple_extent_dims(space, &length, NULL);
    const int integer = H5Tget_class(type) == H5T_INTEGER, little = H5Tget_order(type) == H5T_ORDER_LE;
    const H5D_layout_t layout = H5Pget_layout(properties);
    const int foreign = layout == H5D_VIRTUAL || H5Pget_external_count(properties) > 0;
    c->length = length;
    c->element = H5Tget_size(type);
    c->is_signed = H5Tget_sign(type) == H5T_SGN_2;
    cusStatus status = CUS_OK;
    if (rank != 1 || !integer || foreign)
        status = cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderOpen: %s is %s, takes a list of whole numbers", name,
                           rank != 1  ? "no one-dimensional dataset"
                           : !integer ? "not of an integer type"
                                      : "stored in another file");
    hsize_t chunk = 0;
    if (status == CUS_OK && layout == H5D_CHUNKED && H5Pget_chunk(properties, 1, &chunk) == 1) {
        const int same = c->which == T ? c->element == 8 || c->element == 4 : c->element == delivered_size[c->which];
        const uint64_t bytes = (uint64_t)chunk * c->element;
        c->chunk = little && same && (c->which == P || c->which == T || !c->is_signed) ? (size_t)chunk : 0;
        status = lookAtFilters(c, properties);
        if (status == CUS_OK && bytes > CHUNK_ALWAYS && bytes / GREATEST_RATIO > h->source.source->size)
            status = cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderOpen: %s has chunks of %llu bytes in a file of %llu", name,
                               (unsigned long long)bytes, (unsigned long long)h->source.source->size);
    }
    H5Pclose(properties);
    H5Tclose(type);
    H5Sclose(space);
    return status;
}

static cusStatus openColumns(Hdf5 *h, hid_t group, const char *place) {
    h->count = UINT64_MAX;
    for (int k = 0; k < COLUMNS; ++k) {
        Column *c = &h->column[k];
        c->which = k;
        CUSI_REQUIRE(holds(group, column_name[k], H5O_TYPE_DATASET), CUS_ERROR_FORMAT,
                     "cusEventReaderOpen: HDF5 without a dataset %s/%s", place, column_name[k]);
        c->dataset = H5Dopen2(group, column_name[k], H5P_DEFAULT);
        CUSI_REQUIRE(c->dataset > 0, CUS_ERROR_FORMAT, "cusEventReaderOpen: HDF5 cannot open %s/%s", place, column_name[k]);
        CUS_TRY(lookAtColumn(h, c));
        h->count = c->length < h->count ? c->length : h->count;
    }
    /* 13 bytes an event, compressed as nothing is: a larger number is not in this file. */
    CUSI_REQUIRE(h->count / GREATEST_RATIO <= h->source.source->size / 8, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: %s claims %llu events in a file of %llu bytes", place, (unsigned long long)h->count,
                 (unsigned long long)h->source.source->size);
    return CUS_OK;
}

static cusStatus openM3ed(cusEventReader *reader, Hdf5 *h, hid_t group) {
    const char *asked = reader->options.camera;
    const char *camera = asked ? asked : holds(group, "left", H5O_TYPE_GROUP) ? "left" : "right";
    CUSI_REQUIRE(holds(group, camera, H5O_TYPE_GROUP), CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: HDF5 with /prophesee, but no camera \"%s\" in it", camera);
    const hid_t place = H5Gopen2(group, camera, H5P_DEFAULT);
    int64_t size[2];
    reader->info.width = 1280;
    reader->info.height = 720;
    if (holds(place, "calib", H5O_TYPE_GROUP)) {
        const hid_t calib = H5Gopen2(place, "calib", H5P_DEFAULT);
        if (readNumbers(calib, "resolution", 2, size) && size[0] > 0 && size[0] <= 65536 && size[1] > 0 &&
            size[1] <= 65536) {
            reader->info.width = (int)size[0];
            reader->info.height = (int)size[1];
        }
        H5Gclose(calib);
    }
    strncpy(reader->info.camera, camera, sizeof reader->info.camera - 1);
    char name[64] = "/prophesee/";
    strncat(name, camera, 31);
    const cusStatus status = openColumns(h, place, name);
    H5Gclose(place);
    return status;
}

static cusStatus openLocked(cusEventReader *reader, Hdf5 *h) {
    Hdf5Source *source = &h->source;
    h->driver = eventio_hdf5Driver();
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_driver(access, h->driver, &source);
    h->file = H5Fopen("recording", H5F_ACC_RDONLY, access);
    H5Pclose(access);
    const cusStatus broken = h->source.past_end ? CUS_ERROR_TRUNCATED : CUS_ERROR_FORMAT;
    CUSI_REQUIRE(h->file > 0, broken, "cusEventReaderOpen: HDF5 cannot open the file: %s",
                 broken == CUS_ERROR_TRUNCATED ? "it ends within its header" : "its header is damaged");
    cusEventInfo *info = &reader->info;
    const char *other = "HDF5 with neither /prophesee nor /events";
    cusStatus status = CUS_OK;
    if (holds(h->file, "prophesee", H5O_TYPE_GROUP)) {
        info->format = CUS_EVENTS_M3ED;
        const hid_t group = H5Gopen2(h->file, "prophesee", H5P_DEFAULT);
        status = openM3ed(reader, h, group);
        H5Gclose(group);
    } else if (holds(h->file, "events", H5O_TYPE_GROUP)) {
        info->format = CUS_EVENTS_DSEC;
        info->width = 640;
        info->height = 480;
        readNumbers(h->file, "t_offset", 1, &h->offset);
        const hid_t group = H5Gopen2(h->file, "events", H5P_DEFAULT);
        status = openColumns(h, group, "/events");
        H5Gclose(group);
    } else {
        status = cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderOpen: %s, not a recording of M3ED or DSEC", other);
    }
    if (status == CUS_ERROR_FORMAT && h->source.past_end)
        return cusi_fail(
            CUS_ERROR_TRUNCATED,
            "cusEventReaderOpen: the HDF5 file ends at byte %llu, before the description of its datasets at byte "
            "%llu",
            (unsigned long long)reader->source.size, (unsigned long long)h->source.past_end);
    return status;
}

cusStatus eventio_openHdf5(cusEventReader *reader) {
    if (!isHdf5(&reader->source))
        return CUS_OK;
    Hdf5 *h = calloc(1, sizeof *h);
    CUSI_REQUIRE(h, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: no host memory");
    reader->state = h;
    reader->format = &hdf5_format;
    h->source.source = &reader->source;
    h->threads = reader->options.threads ? reader->options.threads : cusi_maxThreads();
    h->slots = SLOTS_PER_THREAD * h->threads;
    h->jobs = calloc((size_t)h->slots, sizeof *h->jobs);
    CUSI_REQUIRE(h->jobs, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: no host memory");
    const Hdf5Lock lock = eventio_lockHdf5();
    const cusStatus status = openLocked(reader, h);
    eventio_unlockHdf5(lock);
    CUS_TRY(status);

    const cusEventFormat asked = reader->options.format;
    CUSI_REQUIRE(asked == CUS_EVENTS_ANY || asked == reader->info.format, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: the file is %s, asked for %s", cusEventFormatName(reader->info.format),
                 cusEventFormatName(asked));
    reader->info.count = (int64_t)h->count;
    /* Damage is for the reading to report, after what comes before it. */
    int64_t time;
    if (h->count && timeAt(h, 0, &time) == CUS_OK)
        reader->info.first_time = time;
    if (h->count && timeAt(h, h->count - 1, &time) == CUS_OK)
        reader->info.last_time = time;
    return CUS_OK;
}

#endif
