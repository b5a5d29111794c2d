/* Writes M3ED-style HDF5. All threads compress chunks, which are stored as they are (H5Dwrite_chunk). */
#include "check.h"
#include "eventio/hdf5/codec.h"
#include "eventio/output.h"
#include "guard.h"
#include "host.h"

cusEventWriterOptions cusEventWriterDefaults(void) {
    return (cusEventWriterOptions){.chunk = 40000, .compress = 1};
}

#ifndef CUSI_WITH_HDF5

cusStatus cusEventWriterCreate(cusEventWriter **writer, const char *path, const cusEventWriterOptions *options) {
    CUSI_TRACE;
    (void)writer, (void)path, (void)options;
    return eventio_noHdf5("cusEventWriterCreate");
}

cusStatus cusEventWriterWrite(cusEventWriter *writer, size_t n, const uint16_t *x, const uint16_t *y, const uint8_t *p,
                              const int64_t *t) {
    CUSI_TRACE;
    (void)writer, (void)n, (void)x, (void)y, (void)p, (void)t;
    return eventio_noHdf5("cusEventWriterWrite");
}

cusStatus cusEventWriterFinish(cusEventWriter *writer) {
    CUSI_TRACE;
    (void)writer;
    return eventio_noHdf5("cusEventWriterFinish");
}

void cusEventWriterDiscard(cusEventWriter *writer) {
    CUSI_TRACE;
    (void)writer;
}

#else

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { X, Y, P, T, MAP, COLUMNS };
_Static_assert((int)COLUMNS <= (int)HDF5_OUTPUT_DATASETS, "one dataset a column");
static const char *const column_name[COLUMNS] = {"x", "y", "p", "t", "ms_map_idx"};
static const size_t column_size[COLUMNS] = {2, 2, 1, 8, 8};

enum { MAX_WAITING_BYTES = 32 << 20 }; /* events that wait to be compressed together */
static const int64_t max_time = (int64_t)1 << 40;
/* The index may span so many milliseconds, and more for each event: otherwise two events far apart would need gigabytes. */
static const uint64_t free_ms = (uint64_t)1 << 22, ms_per_event = 1000;

struct cusEventWriter {
    CusiGuard guard;
    cusEventWriterOptions options;
    int threads;
    Hdf5Output output;         /* one dataset per column */
    uint8_t *waiting[COLUMNS]; /* elements not stored yet */
    size_t filled[COLUMNS];    /* their number */
    size_t batch;              /* chunks that are compressed together; one of the index */
    uint64_t stored[COLUMNS];
    uint8_t *packed; /* compressed chunks, one after the other at chunk * element bytes each */
    size_t *packed_size;
    int64_t first_time, last_time;
    uint64_t next_ms; /* next entry of the index */
    cusStatus failure;
};

static cusStatus writeFailed(cusEventWriter *w, const char *function) {
    return w->failure = eventio_outputFail(&w->output, function);
}

/* Stores the complete chunks of column k, and with `all` also the last one, padded with zeros. */
static cusStatus storeColumn(cusEventWriter *w, int k, int all, const char *function) {
    const size_t chunk = (size_t)w->options.chunk, bytes = chunk * column_size[k];
    const size_t chunks = all ? (w->filled[k] + chunk - 1) / chunk : w->filled[k] / chunk;
    const size_t elements = chunks * chunk < w->filled[k] ? chunks * chunk : w->filled[k];
    if (!chunks)
        return CUS_OK;
    memset(w->waiting[k] + elements * column_size[k], 0, (chunks * chunk - elements) * column_size[k]);
#pragma omp parallel for schedule(dynamic) num_threads(w->threads) if (chunks > 1)
    for (size_t i = 0; i < chunks; ++i)
        w->packed_size[i] =
            w->options.compress ? eventio_lzfEncode(w->waiting[k] + i * bytes, bytes, w->packed + i * bytes) : 0;

    errno = 0;
    const Hdf5Lock lock = eventio_lockHdf5();
    const hsize_t length = w->stored[k] + elements;
    herr_t done = H5Dset_extent(w->output.dataset[k], &length);
    for (size_t i = 0; i < chunks && done >= 0; ++i) {
        const hsize_t at = w->stored[k] + i * chunk;
        const int packed = w->packed_size[i] > 0; /* otherwise it is stored plain and its filter is marked as skipped */
        done =
            H5Dwrite_chunk(w->output.dataset[k], H5P_DEFAULT, packed || !w->options.compress ? 0 : 1, &at,
                           packed ? w->packed_size[i] : bytes, packed ? w->packed + i * bytes : w->waiting[k] + i * bytes);
    }
    eventio_unlockHdf5(lock);
    if (done < 0)
        return writeFailed(w, function);
    w->stored[k] += elements;
    w->filled[k] -= elements;
    memmove(w->waiting[k], w->waiting[k] + elements * column_size[k], w->filled[k] * column_size[k]);
    return CUS_OK;
}

static cusStatus createDatasets(cusEventWriter *w) {
    static const char function[] = "cusEventWriterCreate";
    const hid_t types[COLUMNS] = {H5T_STD_U16LE, H5T_STD_U16LE, H5T_STD_I8LE, H5T_STD_I64LE, H5T_STD_U64LE};
    const char *camera = w->options.camera ? w->options.camera : "left";
    if (!eventio_outputCreate(&w->output))
        return writeFailed(w, function);
    const hid_t prophesee = H5Gcreate2(w->output.file, "prophesee", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t group = H5Gcreate2(prophesee, camera, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t chunk = (hsize_t)w->options.chunk;
    int good = 1;
    for (int k = 0; k < COLUMNS; ++k)
        good = good && eventio_outputDataset(&w->output, k, group, column_name[k], types[k], 1, &chunk,
                                             (size_t)chunk * column_size[k], w->options.compress);
    const hid_t calib = H5Gcreate2(group, "calib", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t two = 2;
    const int64_t size[2] = {w->options.width, w->options.height};
    const hid_t pair = H5Screate_simple(1, &two, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
    good = good && H5Pset_obj_track_times(properties, 0) >= 0; /* the same events give the same file */
    const hid_t resolution = H5Dcreate2(calib, "resolution", H5T_STD_I64LE, pair, H5P_DEFAULT, properties, H5P_DEFAULT);
    good = good && H5Dwrite(resolution, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, size) >= 0;
    H5Dclose(resolution);
    H5Pclose(properties);
    H5Sclose(pair);
    H5Gclose(calib);
    H5Gclose(group);
    H5Gclose(prophesee);
    return good ? CUS_OK : writeFailed(w, function);
}

cusStatus cusEventWriterCreate(cusEventWriter **writer, const char *path, const cusEventWriterOptions *options) {
    CUSI_TRACE;
    static const char function[] = "cusEventWriterCreate";
    CUSI_NOT_NULL(function, writer);
    CUSI_NOT_NULL(function, path);
    CUSI_NOT_NULL(function, options);
    CUSI_REQUIRE(options->width >= 1 && options->width <= 65536 && options->height >= 1 && options->height <= 65536,
                 CUS_ERROR_VALUE, "%s: sensor is %d x %d (width x height), expected 1..65536 each", function,
                 options->width, options->height);
    CUSI_REQUIRE(options->chunk >= 1024 && options->chunk <= 4194304, CUS_ERROR_VALUE,
                 "%s: chunk is %d events, expected 1024..4194304", function, options->chunk);
    CUSI_REQUIRE(options->threads >= 0 && options->threads <= 1024, CUS_ERROR_VALUE, "%s: threads is %d, expected 0..1024",
                 function, options->threads);
    CUSI_REQUIRE(!options->camera || (options->camera[0] && strlen(options->camera) < 32 && !strchr(options->camera, '/')),
                 CUS_ERROR_VALUE, "%s: camera is \"%.40s\", expected a name of 1 to 31 characters without '/'", function,
                 options->camera);
    cusEventWriter *w = calloc(1, sizeof *w);
    CUSI_REQUIRE(w, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    w->options = *options;
    w->threads = options->threads ? options->threads : cusi_maxThreads();
    const size_t chunk = (size_t)options->chunk, most = MAX_WAITING_BYTES / (13 * chunk);
    const size_t enough = 16 * (size_t)w->threads;
    w->batch = most < 1 ? 1 : most > enough ? enough : most;
    w->packed = malloc(w->batch * chunk * 8);
    w->packed_size = calloc(w->batch, sizeof *w->packed_size);
    int good = w->packed && w->packed_size;
    for (int k = 0; k < COLUMNS; ++k) {
        w->waiting[k] = malloc((k == MAP ? 1 : w->batch) * chunk * column_size[k]);
        good = good && w->waiting[k];
    }
    if (!good || !eventio_outputName(&w->output, path)) {
        cusEventWriterDiscard(w);
        return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    }
    const Hdf5Lock lock = eventio_lockHdf5();
    const cusStatus status = createDatasets(w);
    eventio_unlockHdf5(lock);
    w->options.camera = NULL; /* the caller's string */
    if (status != CUS_OK) {
        cusEventWriterDiscard(w);
        return status;
    }
    *writer = w;
    return CUS_OK;
}

static cusStatus validateEvents(const cusEventWriter *w, size_t n, const uint16_t *x, const uint16_t *y, const uint8_t *p,
                                const int64_t *t) {
    int64_t last = w->last_time;
    const uint64_t before = w->stored[T] + w->filled[T];
    const int64_t first = before ? w->first_time : t[0];
    for (size_t i = 0; i < n; ++i) {
        CUSI_REQUIRE(x[i] < w->options.width && y[i] < w->options.height, CUS_ERROR_VALUE,
                     "cusEventWriterWrite: event %zu at x %d, y %d is outside the %d x %d sensor", i, x[i], y[i],
                     w->options.width, w->options.height);
        CUSI_REQUIRE(p[i] <= 1, CUS_ERROR_VALUE, "cusEventWriterWrite: event %zu has polarity %d, expected 0 or 1", i,
                     p[i]);
        CUSI_REQUIRE(t[i] >= last && t[i] <= max_time, CUS_ERROR_VALUE,
                     "cusEventWriterWrite: event %zu has time %lld us, expected %lld..%lld", i, (long long)t[i],
                     (long long)last, (long long)max_time);
        const uint64_t span = (uint64_t)(t[i] - first) / 1000, most = free_ms + ms_per_event * (before + i);
        CUSI_REQUIRE(
            span <= most, CUS_ERROR_VALUE,
            "cusEventWriterWrite: event %zu has time %lld us, %llu ms after the first, expected at most %llu ms for "
            "%llu events: ms_map_idx has an entry for each",
            i, (long long)t[i], (unsigned long long)span, (unsigned long long)most, (unsigned long long)(before + i + 1));
        last = t[i];
    }
    return CUS_OK;
}

/* ms_map_idx[m] is the first event with t >= 1000 m. */
static cusStatus indexTimes(cusEventWriter *w, uint64_t first, size_t n, const int64_t *t) {
    if (first == 0) { /* whole chunks of zeros before the first event are not stored: zero is the fill value */
        const uint64_t chunk = (uint64_t)w->options.chunk;
        w->next_ms = w->stored[MAP] = (uint64_t)t[0] / 1000 / chunk * chunk;
        w->first_time = t[0];
    }
    for (size_t i = 0; i < n; ++i)
        while ((uint64_t)t[i] >= 1000 * w->next_ms) {
            const uint64_t event = first + i;
            memcpy(w->waiting[MAP] + 8 * w->filled[MAP]++, &event, 8);
            ++w->next_ms;
            if (w->filled[MAP] == (size_t)w->options.chunk)
                CUS_TRY(storeColumn(w, MAP, 0, "cusEventWriterWrite"));
        }
    return CUS_OK;
}

static cusStatus eventWriterWrite(cusEventWriter *writer, size_t n, const uint16_t *x, const uint16_t *y, const uint8_t *p,
                                  const int64_t *t) {
    CUSI_REQUIRE(writer->failure == CUS_OK, writer->failure, "cusEventWriterWrite: %s could not be written earlier",
                 writer->output.path);
    if (!n)
        return CUS_OK;
    CUSI_NOT_NULL("cusEventWriterWrite", x);
    CUSI_NOT_NULL("cusEventWriterWrite", y);
    CUSI_NOT_NULL("cusEventWriterWrite", p);
    CUSI_NOT_NULL("cusEventWriterWrite", t);
    CUS_TRY(validateEvents(writer, n, x, y, p, t));
    const void *const columns[MAP] = {x, y, p, t};
    const size_t capacity = writer->batch * (size_t)writer->options.chunk;
    for (size_t done = 0; done < n;) {
        const size_t room = capacity - writer->filled[T], now = n - done < room ? n - done : room;
        CUS_TRY(indexTimes(writer, writer->stored[T] + writer->filled[T], now, t + done));
        for (int k = 0; k < MAP; ++k) {
            memcpy(writer->waiting[k] + writer->filled[k] * column_size[k],
                   (const uint8_t *)columns[k] + done * column_size[k], now * column_size[k]);
            writer->filled[k] += now;
        }
        done += now;
        if (writer->filled[T] == capacity)
            for (int k = 0; k < MAP; ++k)
                CUS_TRY(storeColumn(writer, k, 0, "cusEventWriterWrite"));
    }
    writer->last_time = t[n - 1];
    return CUS_OK;
}

cusStatus cusEventWriterWrite(cusEventWriter *writer, size_t n, const uint16_t *x, const uint16_t *y, const uint8_t *p,
                              const int64_t *t) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventWriterWrite", writer, NULL, eventWriterWrite(writer, n, x, y, p, t));
}

static void freeWriter(cusEventWriter *w) {
    for (int k = 0; k < COLUMNS; ++k)
        free(w->waiting[k]);
    free(w->packed);
    free(w->packed_size);
    free(w);
}

cusStatus cusEventWriterFinish(cusEventWriter *writer) {
    CUSI_TRACE;
    static const char function[] = "cusEventWriterFinish";
    CUSI_NOT_NULL(function, writer);
    CUS_TRY(cusi_enter(function, "writer", &writer->guard, NULL)); /* for good */
    cusStatus status = writer->failure;
    if (status != CUS_OK)
        cusi_fail(status, "%s: %s could not be written earlier", function, writer->output.path);
    for (int k = 0; k < COLUMNS && status == CUS_OK; ++k)
        status = storeColumn(writer, k, 1, function);
    status = eventio_outputFinish(&writer->output, status, function);
    freeWriter(writer);
    return status;
}

void cusEventWriterDiscard(cusEventWriter *writer) {
    CUSI_TRACE;
    if (!writer)
        return;
    eventio_outputDiscard(&writer->output);
    freeWriter(writer);
}

#endif
