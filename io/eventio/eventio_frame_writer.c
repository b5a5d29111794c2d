/* Frames in HDF5: one chunk per frame, compressed on all threads. */
#include "check.h"
#include "eventio_codec.h"
#include "eventio_internal.h"
#include "host.h"

#ifndef CUSI_WITH_HDF5

cusStatus cusFrameWriterCreate(cusFrameWriter **writer, const char *path, int rows, int cols, int type) {
    CUSI_TRACE;
    (void)writer, (void)path, (void)rows, (void)cols, (void)type;
    return eventio_noHdf5("cusFrameWriterCreate");
}

cusStatus cusFrameWriterWrite(cusFrameWriter *writer, const cusMat *frames) {
    CUSI_TRACE;
    (void)writer, (void)frames;
    return eventio_noHdf5("cusFrameWriterWrite");
}

cusStatus cusFrameWriterLabel(cusFrameWriter *writer, const char *label) {
    CUSI_TRACE;
    (void)writer, (void)label;
    return eventio_noHdf5("cusFrameWriterLabel");
}

cusStatus cusFrameWriterFinish(cusFrameWriter *writer) {
    CUSI_TRACE;
    (void)writer;
    return eventio_noHdf5("cusFrameWriterFinish");
}

void cusFrameWriterDiscard(cusFrameWriter *writer) {
    CUSI_TRACE;
    (void)writer;
}

#else

#include "eventio_hdf5.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = HDF5_OUTPUT_MAX_RANK };

struct cusFrameWriter {
    CusiGuard guard;
    int rows, cols, type;
    Hdf5Output output;
    uint64_t stored;         /* frames */
    uint8_t *plain, *packed; /* one frame for each thread */
    size_t *packed_size;
    int threads;
    cusStatus failure;
};

static size_t frameBytes(const cusFrameWriter *w) {
    return (size_t)w->rows * (size_t)w->cols * cusTypeSize(w->type);
}

static cusStatus createDataset(cusFrameWriter *w) {
    Hdf5Output *o = &w->output;
    return eventio_outputCreate(o) && eventio_outputFrames(o, w->rows, w->cols, w->type)
               ? CUS_OK
               : eventio_outputFail(o, "cusFrameWriterCreate");
}

cusStatus cusFrameWriterCreate(cusFrameWriter **writer, const char *path, int rows, int cols, int type) {
    CUSI_TRACE;
    static const char function[] = "cusFrameWriterCreate";
    CUSI_NOT_NULL(function, writer);
    CUSI_NOT_NULL(function, path);
    CUS_TRY(eventio_checkFrames(function, rows, cols, type));
    cusFrameWriter *w = calloc(1, sizeof *w);
    CUSI_REQUIRE(w, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    w->rows = rows;
    w->cols = cols;
    w->type = type;
    w->threads = cusi_maxThreads();
    const size_t bytes = frameBytes(w);
    w->plain = malloc((size_t)w->threads * bytes);
    w->packed = malloc((size_t)w->threads * bytes);
    w->packed_size = calloc((size_t)w->threads, sizeof *w->packed_size);
    if (!w->plain || !w->packed || !w->packed_size || !eventio_outputName(&w->output, path)) {
        cusFrameWriterDiscard(w);
        return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    }
    const Hdf5Lock lock = eventio_lockHdf5();
    const cusStatus status = createDataset(w);
    eventio_unlockHdf5(lock);
    if (status != CUS_OK) {
        cusFrameWriterDiscard(w);
        return status;
    }
    *writer = w;
    return CUS_OK;
}

/* Compresses frames first .. first + n - 1, one on each thread. packed_size 0: incompressible. */
static void packFrames(cusFrameWriter *w, const cusMat *frames, int first, int n) {
    const size_t bytes = frameBytes(w), row = cusi_rowBytes(frames), rows = (size_t)w->rows;
#pragma omp parallel for schedule(static) num_threads(w->threads) if (n > 1)
    for (int i = 0; i < n; ++i) {
        uint8_t *plain = w->plain + (size_t)i * bytes;
        const uint8_t *from = (const uint8_t *)frames->data + (size_t)(first + i) * rows * frames->step;
        for (size_t y = 0; y < rows; ++y)
            memcpy(plain + y * row, from + y * frames->step, row);
        w->packed_size[i] = eventio_lzfEncode(plain, bytes, w->packed + (size_t)i * bytes);
    }
}

/* Appends the n packed frames as one chunk each. */
static herr_t storeFrames(cusFrameWriter *w, int n) {
    const size_t bytes = frameBytes(w);
    const hid_t dataset = w->output.dataset[0];
    const Hdf5Lock lock = eventio_lockHdf5();
    const hsize_t shape[RANK] = {w->stored + (hsize_t)n, (hsize_t)w->rows, (hsize_t)w->cols,
                                 (hsize_t)CUS_CHANNELS(w->type)};
    herr_t done = H5Dset_extent(dataset, shape);
    for (int i = 0; i < n && done >= 0; ++i) {
        const hsize_t at[RANK] = {w->stored + (hsize_t)i, 0, 0, 0};
        const size_t size = w->packed_size[i];
        done = H5Dwrite_chunk(dataset, H5P_DEFAULT, size ? 0 : 1, at, size ? size : bytes,
                              (size ? w->packed : w->plain) + (size_t)i * bytes);
    }
    eventio_unlockHdf5(lock);
    return done;
}

static cusStatus frameWriterWrite(cusFrameWriter *writer, const cusMat *frames) {
    static const char function[] = "cusFrameWriterWrite";
    cusFrameWriter *w = writer;
    CUSI_REQUIRE(w->failure == CUS_OK, w->failure, "%s: %s could not be written earlier", function, w->output.path);
    CUS_TRY(cusi_checkMat(function, "frames", frames));
    CUSI_REQUIRE(frames->space == CUS_HOST, CUS_ERROR_SPACE, "%s: frames is in device memory, expected host memory",
                 function);
    CUSI_REQUIRE(frames->type == w->type, CUS_ERROR_TYPE, "%s: frames has type %s, expected %s like the writer", function,
                 cusi_typeName(frames->type), cusi_typeName(w->type));
    CUSI_REQUIRE(frames->cols == w->cols && frames->rows % w->rows == 0, CUS_ERROR_SIZE,
                 "%s: frames is %d x %d (rows x cols), expected n * %d x %d", function, frames->rows, frames->cols, w->rows,
                 w->cols);
    const int count = frames->rows / w->rows;
    for (int first = 0; first < count; first += w->threads) {
        const int n = count - first < w->threads ? count - first : w->threads;
        packFrames(w, frames, first, n);
        errno = 0;
        if (storeFrames(w, n) < 0)
            return w->failure = eventio_outputFail(&w->output, function);
        w->stored += (uint64_t)n;
    }
    return CUS_OK;
}

cusStatus cusFrameWriterWrite(cusFrameWriter *writer, const cusMat *frames) {
    CUSI_TRACE;
    CUSI_GUARDED("cusFrameWriterWrite", writer, NULL, frameWriterWrite(writer, frames));
}

cusStatus cusFrameWriterLabel(cusFrameWriter *writer, const char *label) {
    CUSI_TRACE;
    static const char function[] = "cusFrameWriterLabel";
    CUSI_NOT_NULL(function, writer);
    CUSI_NOT_NULL(function, label);
    CUSI_REQUIRE(writer->failure == CUS_OK, writer->failure, "%s: %s could not be written earlier", function,
                 writer->output.path);
    CUS_TRY(eventio_checkLabel(function, label));
    errno = 0;
    const Hdf5Lock lock = eventio_lockHdf5();
    const int good = eventio_writeLabel(writer->output.dataset[0], label);
    eventio_unlockHdf5(lock);
    return good ? CUS_OK : eventio_outputFail(&writer->output, function);
}

static void freeWriter(cusFrameWriter *w) {
    free(w->plain);
    free(w->packed);
    free(w->packed_size);
    free(w);
}

cusStatus cusFrameWriterFinish(cusFrameWriter *writer) {
    CUSI_TRACE;
    static const char function[] = "cusFrameWriterFinish";
    CUSI_NOT_NULL(function, writer);
    CUS_TRY(cusi_enter(function, "writer", &writer->guard, NULL)); /* for good */
    if (writer->failure != CUS_OK)
        cusi_fail(writer->failure, "%s: %s could not be written earlier", function, writer->output.path);
    const cusStatus status = eventio_outputFinish(&writer->output, writer->failure, function);
    freeWriter(writer);
    return status;
}

void cusFrameWriterDiscard(cusFrameWriter *writer) {
    CUSI_TRACE;
    if (!writer)
        return;
    eventio_outputDiscard(&writer->output);
    freeWriter(writer);
}

#endif
