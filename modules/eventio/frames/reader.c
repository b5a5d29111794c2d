/* Reads the stored frames of files that cusFrameWriter and cusFrameFileLayout made, to join them with others. The
 * strict reader reads the HDF5, so the files may come from strangers. */
#include "check.h"
#include "eventio/frames/layout.h"
#include "eventio/hdf5/codec.h"
#include "eventio/hdf5/store/store.h"
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANK = 4 };

struct cusFrameReader {
    CusiGuard guard;
    cusFrameFileInfo info;
    size_t frame_bytes;
    EventSource source;
    Hdf5File file;
    uint64_t object; /* address of /frames */
    Hdf5Dataset set;
};

/* Returns the cusMat type with this element type and number of channels, or -1. */
static int typeOf(const Hdf5Type *type, uint64_t channels) {
    const Hdf5Number *n = &type->number;
    static const int integers[5][2] = {{0}, {CUS_8U, CUS_8S}, {CUS_16U, CUS_16S}, {0}, {-1, CUS_32S}};
    int depth = -1;
    if (n->class == HDF5_INTEGER && n->size <= 4 && n->size != 3)
        depth = integers[n->size][n->is_signed != 0];
    else if (n->class == HDF5_FLOAT)
        depth = n->size == 2 ? CUS_16F : n->size == 4 ? CUS_32F : CUS_64F;
    return n->is_plain && !n->is_big_endian && depth >= 0 && channels >= 1 && channels <= 512
               ? CUS_MAKETYPE(depth, (int)channels)
               : -1;
}

/* Returns whether each frame is a chunk compressed with LZF alone, or all frames are one block. */
static int isStoredAsOurs(const Hdf5Dataset *d) {
    if (d->storage == HDF5_CONTIGUOUS)
        return !d->shape[0] || d->address != hdf5_nowhere;
    return d->storage == HDF5_CHUNKED && d->chunk[0] == 1 &&
           memcmp(d->chunk + 1, d->shape + 1, 3 * sizeof *d->chunk) == 0 && d->filter_count == 1 &&
           d->filters[0].id == EVENTIO_FILTER_LZF;
}

/* Reads /frames; *good 0: not as the writer makes it. */
static cusStatus openFrames(cusFrameReader *r, int *good) {
    Hdf5Kind kind;
    int found;
    Hdf5Dataset *d = &r->set;
    CUS_TRY(eventio_openHdf5File(&r->file, &r->source, 0, r->file.function));
    CUS_TRY(eventio_hdf5Find(&r->file, r->file.root, "frames", &kind, &r->object));
    *good = kind == HDF5_DATASET;
    if (!*good)
        return CUS_OK;
    CUS_TRY(eventio_hdf5Dataset(&r->file, r->object, "frames", d));
    *good = d->rank == RANK && !d->is_null && !d->is_external && d->shape[1] <= INT32_MAX && d->shape[2] <= INT32_MAX &&
            isStoredAsOurs(d);
    if (!*good)
        return CUS_OK;
    r->info = (cusFrameFileInfo){.rows = (int)d->shape[1],
                                 .cols = (int)d->shape[2],
                                 .type = typeOf(&d->type, d->shape[3]),
                                 .compressed = d->storage == HDF5_CHUNKED,
                                 .frames = d->shape[0]};
    *good = r->info.type >= 0 && eventio_checkFrames(r->file.function, r->info.rows, r->info.cols, r->info.type) == CUS_OK;
    if (!*good)
        return CUS_OK;
    r->frame_bytes = (size_t)r->info.rows * (size_t)r->info.cols * cusTypeSize(r->info.type);
    *good = d->shape[0] <= ((uint64_t)1 << 60) / r->frame_bytes;
    return eventio_hdf5Text(&r->file, r->object, EVENTIO_LABEL, r->info.label, sizeof r->info.label, &found);
}

static cusStatus openReader(cusFrameReader *r, const char *path, int flags, const char *function) {
    static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    uint8_t start[8];
    int good = 0;
    r->file.function = function;
    CUS_TRY(eventio_openSource(&r->source, path, flags, function));
    const int64_t got = eventio_readAt(&r->source, 0, start, sizeof start);
    CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "%s: %s: %s", function, path, strerror(errno));
    if (got == sizeof start && memcmp(start, signature, sizeof start) == 0)
        CUS_TRY(openFrames(r, &good));
    CUSI_REQUIRE(good, CUS_ERROR_FORMAT, "%s: %s is not a file of frames that cusight has written", function, path);
    return CUS_OK;
}

cusStatus cusFrameReaderOpen(cusFrameReader **reader, const char *path, cusFrameFileInfo *info) {
    CUSI_TRACE;
    static const char function[] = "cusFrameReaderOpen";
    CUSI_NOT_NULL(function, reader);
    CUSI_NOT_NULL(function, path);
    CUSI_NOT_NULL(function, info);
    cusFrameReader *r = calloc(1, sizeof *r);
    CUSI_REQUIRE(r, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    r->source.fd = -1;
    const cusStatus status = openReader(r, path, O_RDONLY, function);
    if (status != CUS_OK) {
        cusFrameReaderClose(r);
        return status;
    }
    *info = r->info;
    *reader = r;
    return CUS_OK;
}

/* Finds a frame's place and size. */
static cusStatus findFrame(cusFrameReader *r, uint64_t frame, Hdf5Chunk *chunk) {
    const uint64_t number[RANK] = {frame};
    r->file.function = "cusFrameReaderStored";
    if (!r->info.compressed) {
        *chunk = (Hdf5Chunk){r->set.address + frame * r->frame_bytes, r->frame_bytes, 0};
        return CUS_OK;
    }
    CUS_TRY(eventio_hdf5FindChunk(&r->file, &r->set, number, chunk));
    const int is_plain = chunk->size == r->frame_bytes;
    CUSI_REQUIRE(chunk->address != hdf5_nowhere && chunk->size >= 1 && chunk->size <= r->frame_bytes &&
                     chunk->mask == (uint32_t)is_plain,
                 CUS_ERROR_FORMAT, "cusFrameReaderStored: frame %llu cannot be read", (unsigned long long)frame);
    return CUS_OK;
}

static cusStatus readStored(cusFrameReader *reader, uint64_t frame, void *stored, size_t *bytes) {
    static const char function[] = "cusFrameReaderStored";
    CUSI_NOT_NULL(function, bytes);
    CUSI_REQUIRE(frame < reader->info.frames, CUS_ERROR_VALUE, "%s: frame is %llu, expected less than %llu", function,
                 (unsigned long long)frame, (unsigned long long)reader->info.frames);
    Hdf5Chunk chunk;
    CUS_TRY(findFrame(reader, frame, &chunk));
    CUS_TRY(eventio_hdf5Within(&reader->file, chunk.address, chunk.size, "frame"));
    *bytes = (size_t)chunk.size;
    if (!stored)
        return CUS_OK;
    const int64_t got = eventio_readAt(&reader->source, reader->file.base + chunk.address, stored, *bytes);
    CUSI_REQUIRE(got == (int64_t)*bytes, got < 0 ? CUS_ERROR_IO : CUS_ERROR_TRUNCATED, "%s: frame %llu cannot be read",
                 function, (unsigned long long)frame);
    return CUS_OK;
}

cusStatus cusFrameReaderStored(cusFrameReader *reader, uint64_t frame, void *stored, size_t *bytes) {
    CUSI_TRACE;
    CUSI_GUARDED("cusFrameReaderStored", reader, NULL, readStored(reader, frame, stored, bytes));
}

static void closeReader(cusFrameReader *r) {
    eventio_closeHdf5File(&r->file);
    if (r->source.fd >= 0)
        close(r->source.fd);
}

void cusFrameReaderClose(cusFrameReader *reader) {
    CUSI_TRACE;
    if (!reader)
        return;
    closeReader(reader);
    free(reader);
}

/* ---- Labels -------------------------------------------------------------------------------------------------------- */

cusStatus cusFrameFileLabel(const char *path, const char *label) {
    CUSI_TRACE;
    static const char function[] = "cusFrameFileLabel";
    CUSI_NOT_NULL(function, path);
    CUSI_NOT_NULL(function, label);
    CUS_TRY(eventio_checkLabel(function, label));
    cusFrameReader r = {.source.fd = -1};
    int done = 0;
    cusStatus status = openReader(&r, path, O_RDWR, function);
    if (status == CUS_OK)
        status = eventio_labelObject(&r.file, r.source.fd, r.object, EVENTIO_LABEL, label, &done);
    if (status == CUS_OK && !done)
        status = cusi_fail(CUS_ERROR_IO, "%s: %s cannot be labeled: it has a label, or no room for one", function, path);
    closeReader(&r);
    return status;
}
