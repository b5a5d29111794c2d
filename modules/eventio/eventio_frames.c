/* Frames in HDF5: a frame a chunk, compressed on all threads. */
#include "check.h"
#include "eventio_backend.h"
#include "host.h"

#ifndef CUSI_WITH_HDF5

static cusStatus none(const char *function) {
    return cusi_fail(CUS_ERROR_UNSUPPORTED, "%s: this build of cusight has no HDF5 (Debian: libhdf5-dev)", function);
}

cusStatus cusFrameWriterCreate(cusFrameWriter **writer, const char *path, int rows, int cols, int type) {
    (void)writer, (void)path, (void)rows, (void)cols, (void)type;
    return none("cusFrameWriterCreate");
}

cusStatus cusFrameWriterWrite(cusFrameWriter *writer, const cusMat *frames) {
    (void)writer, (void)frames;
    return none("cusFrameWriterWrite");
}

cusStatus cusFrameWriterFinish(cusFrameWriter *writer) {
    (void)writer;
    return none("cusFrameWriterFinish");
}

void cusFrameWriterDiscard(cusFrameWriter *writer) {
    (void)writer;
}

#else

#include "eventio_hdf5.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AXES = 4 };

struct cusFrameWriter {
    int rows, cols, type;
    char *path, *part;
    hid_t file, dataset;
    uint64_t stored;
    uint8_t *plain, *packed; /* a frame for each thread */
    size_t *packed_size;
    int threads;
};

static cusStatus cannotWrite(const cusFrameWriter *w, const char *function) {
    return cusi_fail(CUS_ERROR_IO, "%s: %s cannot be written", function, w->part);
}

static size_t frameBytes(const cusFrameWriter *w) {
    return (size_t)w->rows * (size_t)w->cols * cusTypeSize(w->type);
}

static cusStatus createDataset(cusFrameWriter *w) {
    const hid_t types[] = {H5T_STD_U8LE,  H5T_STD_I8LE,   H5T_STD_U16LE, H5T_STD_I16LE,
                           H5T_STD_I32LE, H5T_IEEE_F32LE, H5T_IEEE_F64LE};
    w->file = H5Fcreate(w->part, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (w->file < 0)
        return cannotWrite(w, "cusFrameWriterCreate");
    const hsize_t frame[AXES] = {1, (hsize_t)w->rows, (hsize_t)w->cols, (hsize_t)CUS_CHANNELS(w->type)};
    const hsize_t none[AXES] = {0, frame[1], frame[2], frame[3]},
                  most[AXES] = {H5S_UNLIMITED, frame[1], frame[2], frame[3]};
    const hid_t space = H5Screate_simple(AXES, none, most), properties = H5Pcreate(H5P_DATASET_CREATE);
    const unsigned values[3] = {4, 261, (unsigned)frameBytes(w)}; /* as h5py stores it */
    H5Pset_chunk(properties, AXES, frame);
    H5Pset_filter(properties, EVENTIO_FILTER_LZF, H5Z_FLAG_OPTIONAL, 3, values);
    w->dataset = H5Dcreate2(w->file, "frames", types[CUS_DEPTH(w->type)], space, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Pclose(properties);
    H5Sclose(space);
    return w->dataset < 0 ? cannotWrite(w, "cusFrameWriterCreate") : CUS_OK;
}

cusStatus cusFrameWriterCreate(cusFrameWriter **writer, const char *path, int rows, int cols, int type) {
    static const char function[] = "cusFrameWriterCreate";
    CUSI_NOT_NULL(function, writer);
    CUSI_NOT_NULL(function, path);
    CUSI_REQUIRE(rows > 0 && cols > 0, CUS_ERROR_VALUE, "%s: frames of %d x %d (rows x cols), takes 1 x 1 or larger",
                 function, rows, cols);
    CUSI_REQUIRE(cusTypeSize(type), CUS_ERROR_TYPE, "%s: type is %s", function, cusi_typeName(type));
    CUSI_REQUIRE((uint64_t)rows * (uint64_t)cols <= UINT32_MAX / cusTypeSize(type), CUS_ERROR_SIZE,
                 "%s: a frame of %d x %d (rows x cols) %s has 2^32 bytes or more", function, rows, cols,
                 cusi_typeName(type));
    cusFrameWriter *w = calloc(1, sizeof *w);
    CUSI_REQUIRE(w, CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    w->rows = rows;
    w->cols = cols;
    w->type = type;
    w->threads = cusi_maxThreads();
    const size_t length = strlen(path), bytes = frameBytes(w);
    w->path = malloc(length + 1);
    w->plain = malloc((size_t)w->threads * bytes);
    w->packed = malloc((size_t)w->threads * bytes);
    w->packed_size = calloc((size_t)w->threads, sizeof *w->packed_size);
    char *part = malloc(length + 6);
    if (!w->path || !w->plain || !w->packed || !w->packed_size || !part) {
        free(part);
        cusFrameWriterDiscard(w);
        return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    }
    memcpy(w->path, path, length + 1);
    snprintf(part, length + 6, "%s.part", path);
    w->part = part;
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

cusStatus cusFrameWriterWrite(cusFrameWriter *writer, const cusMat *frames) {
    static const char function[] = "cusFrameWriterWrite";
    cusFrameWriter *w = writer;
    CUSI_NOT_NULL(function, writer);
    CUS_TRY(cusi_checkMat(function, "frames", frames));
    CUSI_REQUIRE(frames->space == CUS_HOST, CUS_ERROR_SPACE, "%s: frames is in device memory, takes host", function);
    CUSI_REQUIRE(frames->type == w->type, CUS_ERROR_TYPE, "%s: frames has type %s, takes %s as the writer", function,
                 cusi_typeName(frames->type), cusi_typeName(w->type));
    CUSI_REQUIRE(frames->cols == w->cols && frames->rows % w->rows == 0, CUS_ERROR_SIZE,
                 "%s: frames is %d x %d (rows x cols), takes n * %d x %d", function, frames->rows, frames->cols, w->rows,
                 w->cols);
    const size_t bytes = frameBytes(w), row = cusi_rowBytes(frames), rows = (size_t)w->rows;
    const int count = frames->rows / w->rows;
    for (int first = 0; first < count; first += w->threads) {
        const int n = count - first < w->threads ? count - first : w->threads;
#pragma omp parallel for schedule(static) num_threads(w->threads) if (n > 1)
        for (int i = 0; i < n; ++i) {
            uint8_t *plain = w->plain + (size_t)i * bytes;
            const uint8_t *from = (const uint8_t *)frames->data + (size_t)(first + i) * rows * frames->step;
            for (size_t y = 0; y < rows; ++y)
                memcpy(plain + y * row, from + y * frames->step, row);
            w->packed_size[i] = eventio_lzfEncode(plain, bytes, w->packed + (size_t)i * bytes);
        }
        const Hdf5Lock lock = eventio_lockHdf5();
        const hsize_t shape[AXES] = {w->stored + (hsize_t)n, rows, (hsize_t)w->cols, (hsize_t)CUS_CHANNELS(w->type)};
        herr_t done = H5Dset_extent(w->dataset, shape);
        for (int i = 0; i < n && done >= 0; ++i) {
            const hsize_t at[AXES] = {w->stored + (hsize_t)i, 0, 0, 0};
            const size_t size = w->packed_size[i];
            done = H5Dwrite_chunk(w->dataset, H5P_DEFAULT, size ? 0 : 1, at, size ? size : bytes,
                                  (size ? w->packed : w->plain) + (size_t)i * bytes);
        }
        eventio_unlockHdf5(lock);
        if (done < 0)
            return cannotWrite(w, function);
        w->stored += (uint64_t)n;
    }
    return CUS_OK;
}

static herr_t closeFile(cusFrameWriter *w) {
    const Hdf5Lock lock = eventio_lockHdf5();
    herr_t done = w->dataset > 0 ? H5Dclose(w->dataset) : 0;
    if (w->file > 0 && H5Fclose(w->file) < 0)
        done = -1;
    eventio_unlockHdf5(lock);
    return done;
}

static void freeWriter(cusFrameWriter *w) {
    free(w->path);
    free(w->part);
    free(w->plain);
    free(w->packed);
    free(w->packed_size);
    free(w);
}

cusStatus cusFrameWriterFinish(cusFrameWriter *writer) {
    CUSI_NOT_NULL("cusFrameWriterFinish", writer);
    cusStatus status = CUS_OK;
    if (closeFile(writer) < 0 || rename(writer->part, writer->path) != 0) {
        status = cannotWrite(writer, "cusFrameWriterFinish");
        remove(writer->part);
    }
    freeWriter(writer);
    return status;
}

void cusFrameWriterDiscard(cusFrameWriter *writer) {
    if (!writer)
        return;
    closeFile(writer);
    if (writer->part)
        remove(writer->part);
    freeWriter(writer);
}

#endif
