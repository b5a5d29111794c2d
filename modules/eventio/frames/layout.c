/* Makes a file of frames without the frames: the HDF5 around them, and their places. */
#include "eventio/frames/layout.h"
#include "check.h"
#include "eventio/hdf5/codec.h"
#include "eventio/hdf5/store/store.h"
#include "lzf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

cusStatus eventio_checkFrames(const char *function, int rows, int cols, int type) {
    CUSI_REQUIRE(rows > 0 && cols > 0, CUS_ERROR_VALUE, "%s: frame is %d x %d (rows x cols), expected 1 x 1 or larger",
                 function, rows, cols);
    CUSI_REQUIRE(cusTypeSize(type), CUS_ERROR_TYPE, "%s: type is %s, expected a cusMat type", function,
                 cusi_typeName(type));
    CUSI_REQUIRE((uint64_t)rows * (uint64_t)cols <= UINT32_MAX / cusTypeSize(type), CUS_ERROR_SIZE,
                 "%s: a frame of %d x %d (rows x cols) %s has 2^32 bytes or more", function, rows, cols,
                 cusi_typeName(type));
    return CUS_OK;
}

cusStatus eventio_checkLabel(const char *function, const char *label) {
    const size_t length = strlen(label);
    CUSI_REQUIRE(length >= 1 && length < HDF5_MAX_LABEL, CUS_ERROR_VALUE, "%s: label has %zu bytes, expected 1 to %d",
                 function, length, HDF5_MAX_LABEL - 1);
    return CUS_OK;
}

size_t eventio_frameBytes(const FrameShape *shape) {
    return (size_t)shape->rows * (size_t)shape->cols * cusTypeSize(shape->type);
}

cusStatus cusFramePack(const cusMat *frame, void *packed, size_t *stored) {
    CUSI_TRACE;
    static const char function[] = "cusFramePack";
    CUSI_NOT_NULL(function, packed);
    CUSI_NOT_NULL(function, stored);
    CUS_TRY(cusi_checkMat(function, "frame", frame));
    CUSI_REQUIRE(frame->space == CUS_HOST, CUS_ERROR_SPACE, "%s: frame is in device memory, expected host memory",
                 function);
    CUS_TRY(eventio_checkFrames(function, frame->rows, frame->cols, frame->type));
    const size_t row = cusi_rowBytes(frame), rows = (size_t)frame->rows, bytes = rows * row;
    const uint8_t *plain = frame->data;
    uint8_t *copy = NULL;
    if (frame->step != row) {
        copy = malloc(bytes);
        CUSI_REQUIRE(copy, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
        for (size_t y = 0; y < rows; ++y)
            memcpy(copy + y * row, plain + y * frame->step, row);
        plain = copy;
    }
    *stored = cusi_lzfEncode(plain, bytes, packed);
    if (*stored == 0) {
        memcpy(packed, plain, bytes);
        *stored = bytes;
    }
    free(copy);
    return CUS_OK;
}

/* ---- The layout ---------------------------------------------------------------------------------------------------- */

static Hdf5Type typeOf(int type) {
    static const unsigned sizes[] = {1, 1, 2, 2, 4};
    const int depth = CUS_DEPTH(type);
    if (depth >= CUS_32F)
        return eventio_floatType((unsigned)cusTypeSize(depth));
    return eventio_integerType(sizes[depth], depth != CUS_8U && depth != CUS_16U);
}

static Hdf5Dataset datasetOf(const FrameShape *shape, uint64_t frames) {
    Hdf5Dataset d = {.type = typeOf(shape->type), .rank = 4, .address = hdf5_nowhere};
    d.storage = shape->compressed ? HDF5_CHUNKED : HDF5_CONTIGUOUS;
    d.shape[0] = frames;
    d.chunk[0] = 1;
    d.shape[1] = d.chunk[1] = (uint64_t)shape->rows;
    d.shape[2] = d.chunk[2] = (uint64_t)shape->cols;
    d.shape[3] = d.chunk[3] = CUS_CHANNELS(shape->type);
    d.chunk_bytes = eventio_frameBytes(shape);
    d.bytes = frames * d.chunk_bytes;
    if (shape->compressed)
        eventio_setFilter(&d, EVENTIO_FILTER_LZF);
    else if (frames)
        d.address = EVENTIO_FIRST_FRAME;
    return d;
}

typedef struct Stored {
    const uint32_t *sizes;
    const uint64_t *offsets;
    size_t frame_bytes;
} Stored;

/* Incompressible frames are stored plain: their filter is marked as skipped. */
static Hdf5Chunk chunkAt(const void *chunks, uint64_t k) {
    const Stored *s = chunks;
    return (Hdf5Chunk){s->offsets[k], s->sizes[k], s->sizes[k] == s->frame_bytes};
}

int eventio_writeFrameLayout(int fd, const FrameShape *shape, uint64_t frames, const uint32_t *stored,
                             const uint64_t *offsets, const char *label, uint64_t *size) {
    Hdf5Dataset d = datasetOf(shape, frames);
    const Stored where = {stored, offsets, eventio_frameBytes(shape)};
    const Hdf5Chunks chunks = {chunkAt, &where, 0, frames};
    *size = EVENTIO_FIRST_FRAME + (shape->compressed ? 0 : d.bytes);
    if (shape->compressed) {
        *size = frames ? offsets[frames - 1] + stored[frames - 1] : EVENTIO_FIRST_FRAME;
        if (!eventio_writeTree(fd, &d, &chunks, size, &d.address))
            return 0;
    }
    Hdf5Head head;
    eventio_headStart(&head);
    eventio_objectStart(&head);
    eventio_putDataset(&head, &d);
    eventio_putLabel(&head, EVENTIO_LABEL, label);
    const uint64_t dataset = eventio_objectEnd(&head);
    eventio_objectStart(&head);
    eventio_putGroup(&head);
    eventio_putLink(&head, "frames", dataset);
    eventio_headFinish(&head, eventio_objectEnd(&head), *size);
    return eventio_writeAt(fd, 0, head.bytes, EVENTIO_FIRST_FRAME);
}

static cusStatus checkLayout(const char *function, const FrameShape *shape, uint64_t frames, const uint32_t *stored) {
    CUS_TRY(eventio_checkFrames(function, shape->rows, shape->cols, shape->type));
    const size_t bytes = eventio_frameBytes(shape);
    CUSI_REQUIRE(frames <= ((uint64_t)1 << 60) / bytes, CUS_ERROR_SIZE, "%s: %llu frames have 2^60 bytes or more", function,
                 (unsigned long long)frames);
    for (uint64_t k = 0; shape->compressed && k < frames; ++k)
        CUSI_REQUIRE(stored[k] >= 1 && stored[k] <= bytes, CUS_ERROR_VALUE, "%s: stored[%llu] is %lu, expected 1 to %zu",
                     function, (unsigned long long)k, (unsigned long)stored[k], bytes);
    return CUS_OK;
}

cusStatus cusFrameFileLayout(const char *path, int rows, int cols, int type, uint64_t frames, int compressed,
                             const uint32_t *stored, uint64_t *offsets) {
    CUSI_TRACE;
    static const char function[] = "cusFrameFileLayout";
    CUSI_NOT_NULL(function, path);
    if (frames)
        CUSI_NOT_NULL(function, offsets);
    if (frames && compressed)
        CUSI_NOT_NULL(function, stored);
    const FrameShape shape = {rows, cols, type, compressed};
    CUS_TRY(checkLayout(function, &shape, frames, stored));
    const EventOutput output = {.path = (char *)path, .fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
    CUSI_REQUIRE(output.fd >= 0, CUS_ERROR_IO, "%s: %s: %s", function, path, strerror(errno));
    uint64_t at = EVENTIO_FIRST_FRAME, size;
    for (uint64_t k = 0; k < frames && (compressed || k == 0); at += compressed ? stored[k] : 0, ++k)
        offsets[k] = at;
    const int good = eventio_writeFrameLayout(output.fd, &shape, frames, stored, offsets, NULL, &size) &&
                     ftruncate(output.fd, (off_t)size) == 0;
    const cusStatus status = good ? CUS_OK : eventio_outputFail(&output, function);
    close(output.fd);
    return status;
}
