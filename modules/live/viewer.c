/* The receiving end: bytes in, frames out. A message is checked before any of it is used, and completely before it changes
 * the frame. */
#include "check.h"
#include "guard.h"
#include "live/compress.h"
#include "live/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct cusViewer {
    CusiGuard guard;
    cusViewerOptions options;
    LiveDecompressor *decompressor;

    uint8_t header_bytes[CUS_WIRE_HEADER_BYTES];
    size_t header_fill;
    cusWireHeader header; /* valid once header_fill is CUS_WIRE_HEADER_BYTES */
    size_t payload_fill;

    LiveShape shape; /* shape of the buffers; all zero before the first connection */
    cusMat frame;
    uint8_t *payload, *raw;          /* room for the largest message of this shape: as received, decompressed */
    uint8_t small[LIVE_HELLO_BYTES]; /* payload of a hello or a checksum */

    /* Hello, request for checksums, request for a key frame, bye: at most one of each waits. */
    uint8_t out[4 * CUS_WIRE_HEADER_BYTES];
    size_t out_start, out_end;

    int connected, key_frame_requested, ended;
    cusViewerInfo info;
    cusStatus failure;
    char message[256];
};

cusViewerOptions cusViewerDefaults(void) {
    return (cusViewerOptions){.max_frame_bytes = (size_t)1 << 28};
}

/* Queues a message without payload. */
static void queueMessage(cusViewer *viewer, cusWireType type, uint64_t sequence) {
    if (viewer->out_start > 0) {
        memmove(viewer->out, viewer->out + viewer->out_start, viewer->out_end - viewer->out_start);
        viewer->out_end -= viewer->out_start;
        viewer->out_start = 0;
    }
    if (sizeof viewer->out - viewer->out_end < CUS_WIRE_HEADER_BYTES)
        return;
    cusWireHeader header = live_header(type, NULL);
    header.sequence = sequence;
    (void)cusWirePack(&header, NULL, viewer->out + viewer->out_end);
    viewer->out_end += CUS_WIRE_HEADER_BYTES;
}

cusStatus cusViewerCreate(cusViewer **viewer, const cusViewerOptions *options) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusViewerCreate", viewer);
    const cusViewerOptions chosen = options ? *options : cusViewerDefaults();
    CUS_TRY(cusi_checkReserved("cusViewerCreate", "options->", chosen.reserved));
    CUSI_REQUIRE(chosen.max_frame_bytes >= 1 && chosen.max_frame_bytes <= CUS_WIRE_MAX_FRAME_BYTES, CUS_ERROR_VALUE,
                 "cusViewerCreate: max_frame_bytes is %zu, expected 1..%d", chosen.max_frame_bytes,
                 CUS_WIRE_MAX_FRAME_BYTES);
    CUS_TRY(cusi_checkSwitch("cusViewerCreate", "checksums", chosen.checksums));
    cusViewer *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "cusViewerCreate: out of host memory");
    made->options = chosen;
    const cusStatus status = live_decompressorCreate("cusViewerCreate", &made->decompressor);
    if (status != CUS_OK) {
        cusViewerDestroy(made);
        return status;
    }
    queueMessage(made, CUS_WIRE_HELLO, 0);
    *viewer = made;
    return CUS_OK;
}

void cusViewerDestroy(cusViewer *viewer) {
    CUSI_TRACE;
    if (!viewer)
        return;
    live_decompressorDestroy(viewer->decompressor);
    cusMatRelease(&viewer->frame);
    free(viewer->payload);
    free(viewer->raw);
    free(viewer);
}

static cusStatus viewerReconnect(cusViewer *viewer) {
    viewer->header_fill = viewer->payload_fill = 0;
    viewer->out_start = viewer->out_end = 0;
    viewer->connected = viewer->key_frame_requested = viewer->ended = 0;
    viewer->failure = CUS_OK;
    viewer->info.sequence = 0;
    queueMessage(viewer, CUS_WIRE_HELLO, 0);
    return CUS_OK;
}

cusStatus cusViewerReconnect(cusViewer *viewer) {
    CUSI_TRACE;
    CUSI_GUARDED("cusViewerReconnect", viewer, NULL, viewerReconnect(viewer));
}

/* Returns where the payload of the current message goes. checkHeader has made sure that it fits. */
static uint8_t *payloadBuffer(cusViewer *viewer) {
    return viewer->header.type == CUS_WIRE_HELLO || viewer->header.type == CUS_WIRE_CHECKSUM ? viewer->small
                                                                                             : viewer->payload;
}

static cusStatus checkHello(const cusViewer *viewer, const cusWireHeader *h) {
    CUSI_REQUIRE(!viewer->connected, CUS_ERROR_FORMAT, "live: the sender said hello twice");
    CUSI_REQUIRE(h->payload_bytes == LIVE_HELLO_BYTES, CUS_ERROR_FORMAT,
                 "live: the other end is not a sender: its hello has no frame size");
    const uint64_t bytes = (uint64_t)h->width * h->height * (unsigned)h->channels;
    CUSI_REQUIRE(bytes <= viewer->options.max_frame_bytes, CUS_ERROR_SIZE,
                 "live: the sender's frames of %u x %u with %d channels have %llu bytes, max_frame_bytes is %zu", h->width,
                 h->height, h->channels, (unsigned long long)bytes, viewer->options.max_frame_bytes);
    return CUS_OK;
}

static cusStatus checkFrameHeader(const cusViewer *viewer, const cusWireHeader *h) {
    const LiveShape *s = &viewer->shape;
    CUSI_REQUIRE(h->width == (uint32_t)s->cols && h->height == (uint32_t)s->rows && h->channels == CUS_CHANNELS(s->type),
                 CUS_ERROR_FORMAT, "live: a frame of %u x %u with %d channels, expected %d x %d with %d as in the hello",
                 h->width, h->height, h->channels, s->cols, s->rows, CUS_CHANNELS(s->type));
    CUSI_REQUIRE(h->payload_bytes <= s->max_raw_bytes, CUS_ERROR_FORMAT,
                 "live: a payload of %u bytes, expected at most %zu", h->payload_bytes, s->max_raw_bytes);
    CUSI_REQUIRE(h->sequence > viewer->info.sequence, CUS_ERROR_FORMAT, "live: frame %llu follows frame %llu",
                 (unsigned long long)h->sequence, (unsigned long long)viewer->info.sequence);
    return CUS_OK;
}

/* Checks what cusWireParse cannot know: whether the message fits this connection. Its payload is read only then. */
static cusStatus checkHeader(const cusViewer *viewer) {
    const cusWireHeader *h = &viewer->header;
    if (h->type == CUS_WIRE_HELLO)
        return checkHello(viewer, h);
    CUSI_REQUIRE(viewer->connected, CUS_ERROR_FORMAT, "live: the sender did not say hello first");
    if (h->type == CUS_WIRE_KEY_FRAME || h->type == CUS_WIRE_DIFFERENCE)
        return checkFrameHeader(viewer, h);
    CUSI_REQUIRE(h->type == CUS_WIRE_BYE || h->type == CUS_WIRE_CHECKSUM, CUS_ERROR_FORMAT,
                 "live: a sender must not send messages of type %d", (int)h->type);
    return CUS_OK;
}

/* Allocates the buffers for this shape, unless they have it already. On failure they stay as they were. */
static cusStatus resizeBuffers(cusViewer *viewer, const LiveShape *shape) {
    const LiveShape *old = &viewer->shape;
    if (viewer->payload && old->rows == shape->rows && old->cols == shape->cols && old->type == shape->type)
        return CUS_OK;
    cusMat frame = CUS_MAT_INIT;
    uint8_t *const payload = malloc(shape->max_raw_bytes), *const raw = malloc(shape->max_raw_bytes);
    const cusStatus status = payload && raw ? cusMatCreate(&frame, shape->rows, shape->cols, shape->type, CUS_HOST)
                                            : cusi_fail(CUS_ERROR_NO_MEMORY, "live: out of host memory for the frame");
    if (status != CUS_OK) {
        free(payload);
        free(raw);
        return status;
    }
    cusMatRelease(&viewer->frame);
    free(viewer->payload);
    free(viewer->raw);
    assert(frame.data);
    memset(frame.data, 0, shape->frame_bytes);
    viewer->frame = frame;
    viewer->payload = payload;
    viewer->raw = raw;
    viewer->shape = *shape;
    return CUS_OK;
}

static cusStatus acceptHello(cusViewer *viewer) {
    static const int type_of_channels[5] = {-1, CUS_8UC1, -1, CUS_8UC3, CUS_8UC4};
    const cusWireHeader *h = &viewer->header;
    LiveShape shape;
    CUS_TRY(live_shape("live", (int)h->height, (int)h->width, type_of_channels[h->channels], &shape));
    CUS_TRY(resizeBuffers(viewer, &shape));
    viewer->info = (cusViewerInfo){.rows = shape.rows, .cols = shape.cols, .type = shape.type};
    viewer->info.rate_millihertz = (uint32_t)live_load(viewer->small, 4);
    viewer->connected = 1;
    if (viewer->options.checksums && viewer->small[4] & LIVE_OFFERS_CHECKSUMS)
        queueMessage(viewer, CUS_WIRE_REQUEST_CHECKSUMS, 0);
    return CUS_OK;
}

static cusStatus applyFrame(cusViewer *viewer, cusViewerUpdate *update) {
    const cusWireHeader *h = &viewer->header;
    const LiveShape *s = &viewer->shape;
    if (h->type == CUS_WIRE_DIFFERENCE && h->base != viewer->info.sequence) {
        if (!viewer->key_frame_requested) {
            queueMessage(viewer, CUS_WIRE_REQUEST_KEY_FRAME, viewer->info.sequence);
            viewer->key_frame_requested = 1;
        }
        *update = CUS_VIEWER_BASE_MISSING;
        return CUS_OK;
    }
    const uint8_t *raw = viewer->payload;
    if (h->encoding == CUS_WIRE_ZSTD) {
        CUSI_REQUIRE(live_decompress(viewer->decompressor, viewer->payload, h->payload_bytes, viewer->raw, h->raw_bytes),
                     CUS_ERROR_FORMAT, "live: a payload is not Zstandard data of %u bytes", h->raw_bytes);
        raw = viewer->raw;
    }
    uint8_t *const frame = viewer->frame.data; /* rows are not padded */
    if (h->type == CUS_WIRE_KEY_FRAME) {
        live_unfilterRows(s, raw, frame);
        viewer->key_frame_requested = 0;
        viewer->info.changed = 0;
    } else {
        const size_t count = h->raw_bytes - s->mask_bytes;
        CUSI_REQUIRE(live_maskMatches(s, raw, count), CUS_ERROR_FORMAT,
                     "live: the mask of a difference does not match its %zu values", count);
        live_addValues(s, raw, raw + s->mask_bytes, frame);
        viewer->info.changed = (uint32_t)count;
    }
    viewer->info.is_key_frame = h->type == CUS_WIRE_KEY_FRAME;
    viewer->info.sequence = h->sequence;
    viewer->info.message_bytes = CUS_WIRE_HEADER_BYTES + (size_t)h->payload_bytes;
    *update = CUS_VIEWER_FRAME;
    return CUS_OK;
}

/* Compares the current frame with the checksum that has come, if that is of this frame. */
static void compareChecksum(cusViewer *viewer, cusViewerUpdate *update) {
    if (viewer->header.sequence != viewer->info.sequence)
        return;
    viewer->info.checked = viewer->info.sequence;
    viewer->info.exact = cusCrc32c(0, viewer->frame.data, viewer->shape.frame_bytes) == live_load(viewer->small, 4);
    const uint64_t bound = live_load(viewer->small + 4, 4);
    viewer->info.error_bound = bound < 255 ? (int)bound : 255;
    *update = CUS_VIEWER_CHECKED;
}

static cusStatus receive(cusViewer *viewer, cusViewerUpdate *update) {
    const cusWireHeader *h = &viewer->header;
    CUSI_REQUIRE(live_checksumMatches(viewer->header_bytes, payloadBuffer(viewer), h->payload_bytes), CUS_ERROR_FORMAT,
                 "live: a message was damaged in transit (checksum)");
    if (h->type == CUS_WIRE_HELLO) {
        CUS_TRY(acceptHello(viewer));
        *update = CUS_VIEWER_CONNECTED;
    } else if (h->type == CUS_WIRE_BYE) {
        viewer->ended = 1;
        *update = CUS_VIEWER_ENDED;
    } else if (h->type == CUS_WIRE_CHECKSUM) {
        compareChecksum(viewer, update);
    } else {
        CUS_TRY(applyFrame(viewer, update));
    }
    return CUS_OK;
}

/* Appends input to `to` until it has `want` bytes. Returns whether it has. */
static int gather(uint8_t *to, size_t *fill, size_t want, const uint8_t *data, size_t bytes, size_t *used) {
    const size_t missing = want - *fill, n = bytes - *used < missing ? bytes - *used : missing;
    if (n > 0)
        memcpy(to + *fill, data + *used, n);
    *fill += n;
    *used += n;
    return *fill == want;
}

static cusStatus input(cusViewer *viewer, const uint8_t *data, size_t bytes, size_t *used, cusViewerUpdate *update) {
    while (*update == CUS_VIEWER_NOTHING) {
        if (viewer->ended) { /* ignore what follows a bye */
            *used = bytes;
            return CUS_OK;
        }
        if (viewer->header_fill < CUS_WIRE_HEADER_BYTES) {
            if (!gather(viewer->header_bytes, &viewer->header_fill, CUS_WIRE_HEADER_BYTES, data, bytes, used))
                return CUS_OK;
            CUS_TRY(cusWireParse(viewer->header_bytes, &viewer->header));
            CUS_TRY(checkHeader(viewer));
            viewer->payload_fill = 0;
        }
        if (!gather(payloadBuffer(viewer), &viewer->payload_fill, viewer->header.payload_bytes, data, bytes, used))
            return CUS_OK;
        viewer->header_fill = 0;
        CUS_TRY(receive(viewer, update));
    }
    return CUS_OK;
}

static cusStatus viewerInput(cusViewer *viewer, const void *data, size_t bytes, size_t *used, cusViewerUpdate *update) {
    CUSI_NOT_NULL("cusViewerInput", used);
    CUSI_NOT_NULL("cusViewerInput", update);
    CUSI_REQUIRE(data || bytes == 0, CUS_ERROR_NULL, "cusViewerInput: data is NULL");
    *used = 0;
    *update = CUS_VIEWER_NOTHING;
    if (viewer->failure != CUS_OK)
        return cusi_fail(viewer->failure, "%s", viewer->message);
    const cusStatus status = input(viewer, data, bytes, used, update);
    if (status != CUS_OK) {
        viewer->failure = status;
        strncpy(viewer->message, cusLastError(), sizeof viewer->message - 1);
    }
    return status;
}

cusStatus cusViewerInput(cusViewer *viewer, const void *data, size_t bytes, size_t *used, cusViewerUpdate *update) {
    CUSI_TRACE;
    CUSI_GUARDED("cusViewerInput", viewer, NULL, viewerInput(viewer, data, bytes, used, update));
}

static cusStatus viewerOutput(cusViewer *viewer, const uint8_t **data, size_t *bytes) {
    CUSI_NOT_NULL("cusViewerOutput", data);
    CUSI_NOT_NULL("cusViewerOutput", bytes);
    *data = viewer->out + viewer->out_start;
    *bytes = viewer->out_end - viewer->out_start;
    return CUS_OK;
}

cusStatus cusViewerOutput(cusViewer *viewer, const uint8_t **data, size_t *bytes) {
    CUSI_TRACE;
    CUSI_GUARDED("cusViewerOutput", viewer, NULL, viewerOutput(viewer, data, bytes));
}

static cusStatus viewerSent(cusViewer *viewer, size_t bytes) {
    CUSI_REQUIRE(bytes <= viewer->out_end - viewer->out_start, CUS_ERROR_VALUE,
                 "cusViewerSent: bytes is %zu, expected at most %zu", bytes, viewer->out_end - viewer->out_start);
    viewer->out_start += bytes;
    return CUS_OK;
}

cusStatus cusViewerSent(cusViewer *viewer, size_t bytes) {
    CUSI_TRACE;
    CUSI_GUARDED("cusViewerSent", viewer, NULL, viewerSent(viewer, bytes));
}

static cusStatus viewerFinish(cusViewer *viewer) {
    queueMessage(viewer, CUS_WIRE_BYE, viewer->info.sequence);
    return CUS_OK;
}

cusStatus cusViewerFinish(cusViewer *viewer) {
    CUSI_TRACE;
    CUSI_GUARDED("cusViewerFinish", viewer, NULL, viewerFinish(viewer));
}

static cusStatus viewerFrame(const cusViewer *viewer, cusMat *view) {
    CUSI_NOT_NULL("cusViewerFrame", view);
    CUSI_REQUIRE(viewer->frame.data, CUS_ERROR_VALUE, "cusViewerFrame: not connected yet");
    return cusMatRegion(&viewer->frame, 0, 0, viewer->shape.cols, viewer->shape.rows, view);
}

cusStatus cusViewerFrame(const cusViewer *viewer, cusMat *view) {
    CUSI_TRACE;
    CUSI_GUARDED("cusViewerFrame", viewer, NULL, viewerFrame(viewer, view));
}

static cusStatus viewerQuery(const cusViewer *viewer, cusViewerInfo *info) {
    CUSI_NOT_NULL("cusViewerQuery", info);
    *info = viewer->info;
    return CUS_OK;
}

cusStatus cusViewerQuery(const cusViewer *viewer, cusViewerInfo *info) {
    CUSI_TRACE;
    CUSI_GUARDED("cusViewerQuery", viewer, NULL, viewerQuery(viewer, info));
}
