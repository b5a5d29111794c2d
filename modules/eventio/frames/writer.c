/* Writes frames to HDF5: one chunk per frame, compressed on all threads. */
#include "check.h"
#include "eventio/frames/layout.h"
#include "eventio/hdf5/codec.h"
#include "eventio/output.h"
#include "guard.h"
#include "host.h"
#include "lzf.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

struct cusFrameWriter {
    CusiGuard guard;
    FrameShape shape;
    EventOutput output;
    uint64_t end;            /* end of the stored frames */
    uint64_t count, room;    /* frames; capacity of the next two */
    uint32_t *stored;        /* bytes of each frame */
    uint64_t *offsets;       /* place of each frame */
    uint8_t *plain, *packed; /* one frame for each thread */
    size_t *packed_size;
    int threads;
    char label[64];
    cusStatus failure;
};

cusStatus cusFrameWriterCreate(cusFrameWriter **writer, const char *path, int rows, int cols, int type) {
    CUSI_TRACE;
    static const char function[] = "cusFrameWriterCreate";
    CUSI_NOT_NULL(function, writer);
    CUSI_NOT_NULL(function, path);
    CUS_TRY(eventio_checkFrames(function, rows, cols, type));
    cusFrameWriter *w = calloc(1, sizeof *w);
    CUSI_REQUIRE(w, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    w->shape = (FrameShape){rows, cols, type, 1};
    w->output.fd = -1;
    w->end = EVENTIO_FIRST_FRAME;
    w->threads = cusi_maxThreads();
    const size_t bytes = eventio_frameBytes(&w->shape);
    w->plain = malloc((size_t)w->threads * bytes);
    w->packed = malloc((size_t)w->threads * bytes);
    w->packed_size = calloc((size_t)w->threads, sizeof *w->packed_size);
    const cusStatus status = w->plain && w->packed && w->packed_size
                                 ? eventio_outputCreate(&w->output, path, function)
                                 : cusi_fail(CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    if (status != CUS_OK) {
        cusFrameWriterDiscard(w);
        return status;
    }
    *writer = w;
    return CUS_OK;
}

/* Compresses frames first .. first + n - 1, one per thread. packed_size is 0 for incompressible ones. */
static void packFrames(cusFrameWriter *w, const cusMat *frames, int first, int n) {
    const size_t bytes = eventio_frameBytes(&w->shape), row = cusi_rowBytes(frames), rows = (size_t)w->shape.rows;
#pragma omp parallel for schedule(static) num_threads(w->threads) if (n > 1)
    for (int i = 0; i < n; ++i) {
        uint8_t *plain = w->plain + (size_t)i * bytes;
        const uint8_t *from = (const uint8_t *)frames->data + (size_t)(first + i) * rows * frames->step;
        for (size_t y = 0; y < rows; ++y)
            memcpy(plain + y * row, from + y * frames->step, row);
        w->packed_size[i] = cusi_lzfEncode(plain, bytes, w->packed + (size_t)i * bytes);
    }
}

/* Makes room for n more places. Returns 0 if memory runs out. */
static int reserve(cusFrameWriter *w, uint64_t n) {
    if (w->count + n <= w->room)
        return 1;
    const size_t room = 2 * (size_t)(w->count + n) + 16;
    uint32_t *stored = realloc(w->stored, room * sizeof *stored);
    if (!stored)
        return 0;
    w->stored = stored;
    uint64_t *offsets = realloc(w->offsets, room * sizeof *offsets);
    if (!offsets)
        return 0;
    w->offsets = offsets;
    w->room = room;
    return 1;
}

/* Appends the n packed frames, a chunk each. */
static cusStatus storeFrames(cusFrameWriter *w, int n, const char *function) {
    const size_t bytes = eventio_frameBytes(&w->shape);
    CUSI_REQUIRE(reserve(w, (uint64_t)n), CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    for (size_t i = 0; i < (size_t)n; ++i) {
        const size_t packed = w->packed_size[i], size = packed ? packed : bytes;
        CUS_TRY(eventio_outputWrite(&w->output, w->end, (packed ? w->packed : w->plain) + i * bytes, size, function));
        w->stored[w->count] = (uint32_t)size;
        w->offsets[w->count++] = w->end;
        w->end += size;
    }
    return CUS_OK;
}

static cusStatus frameWriterWrite(cusFrameWriter *writer, const cusMat *frames) {
    static const char function[] = "cusFrameWriterWrite";
    cusFrameWriter *w = writer;
    CUSI_REQUIRE(w->failure == CUS_OK, w->failure, "%s: %s could not be written earlier", function, w->output.path);
    CUS_TRY(cusi_checkMat(function, "frames", frames));
    CUSI_REQUIRE(frames->space == CUS_HOST, CUS_ERROR_SPACE, "%s: frames is in device memory, expected host memory",
                 function);
    CUSI_REQUIRE(frames->type == w->shape.type, CUS_ERROR_TYPE, "%s: frames has type %s, expected %s like the writer",
                 function, cusi_typeName(frames->type), cusi_typeName(w->shape.type));
    CUSI_REQUIRE(frames->cols == w->shape.cols && frames->rows % w->shape.rows == 0, CUS_ERROR_SIZE,
                 "%s: frames is %d x %d (rows x cols), expected n * %d x %d", function, frames->rows, frames->cols,
                 w->shape.rows, w->shape.cols);
    const int count = frames->rows / w->shape.rows;
    CusiProgress *const progress = cusi_progress();
    const uint64_t before = w->count, end = w->end;
    cusi_part(progress, 1, count);
    for (int first = 0; first < count; first += w->threads) {
        const int n = count - first < w->threads ? count - first : w->threads;
        packFrames(w, frames, first, n);
        w->failure = storeFrames(w, n, function);
        CUS_TRY(w->failure);
        if (cusi_step(progress, n)) { /* the next frames overwrite these */
            w->count = before;
            w->end = end;
            return cusi_proceed(progress);
        }
    }
    return CUS_OK;
}

cusStatus cusFrameWriterWrite(cusFrameWriter *writer, const cusMat *frames) {
    CUSI_TRACE;
    CUSI_GUARDED("cusFrameWriterWrite", writer, NULL, CUSI_LONG("cusFrameWriterWrite", frameWriterWrite(writer, frames)));
}

static cusStatus frameWriterLabel(cusFrameWriter *writer, const char *label) {
    static const char function[] = "cusFrameWriterLabel";
    CUSI_NOT_NULL(function, label);
    CUSI_REQUIRE(writer->failure == CUS_OK, writer->failure, "%s: %s could not be written earlier", function,
                 writer->output.path);
    CUS_TRY(eventio_checkLabel(function, label));
    CUSI_REQUIRE(!writer->label[0], CUS_ERROR_IO, "%s: %s cannot be labeled twice", function, writer->output.path);
    strncpy(writer->label, label, sizeof writer->label - 1);
    return CUS_OK;
}

cusStatus cusFrameWriterLabel(cusFrameWriter *writer, const char *label) {
    CUSI_TRACE;
    CUSI_GUARDED("cusFrameWriterLabel", writer, NULL, frameWriterLabel(writer, label));
}

static void freeWriter(cusFrameWriter *w) {
    free(w->plain);
    free(w->packed);
    free(w->packed_size);
    free(w->stored);
    free(w->offsets);
    free(w);
}

cusStatus cusFrameWriterFinish(cusFrameWriter *writer) {
    CUSI_TRACE;
    static const char function[] = "cusFrameWriterFinish";
    CUSI_NOT_NULL(function, writer);
    CUS_TRY(cusi_enter(function, "writer", &writer->guard, NULL)); /* never left again */
    cusStatus status = writer->failure;
    uint64_t size;
    if (status != CUS_OK)
        cusi_fail(status, "%s: %s could not be written earlier", function, writer->output.path);
    else if (!eventio_writeFrameLayout(writer->output.fd, &writer->shape, writer->count, writer->stored, writer->offsets,
                                       writer->label[0] ? writer->label : NULL, &size))
        status = eventio_outputFail(&writer->output, function);
    status = eventio_outputFinish(&writer->output, status, function);
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
