/* The receiving end: bytes in, the picture out. Nothing of a message is believed before it was checked, and nothing of it
 * reaches the picture before all of it was. */
#include "live_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct cusViewer {
    size_t max_frame_bytes;
    LiveDecompressor *decompressor;

    uint8_t header_bytes[CUS_WIRE_HEADER_BYTES];
    size_t header_fill;
    cusWireHeader header; /* valid once header_fill is complete */
    size_t payload_fill;

    LiveShape shape; /* of the buffers: rows 0 before the first connection */
    cusMat picture;
    uint8_t *payload, *raw; /* of the largest message of this shape */
    uint8_t hello[8];

    uint8_t out[3 * CUS_WIRE_HEADER_BYTES]; /* hello, request, bye: each at most once at a time */
    size_t out_start, out_end;

    int connected, requested, ended;
    cusViewerInfo info;
    cusStatus failure;
    char message[256];
};

cusViewerOptions cusViewerDefaults(void) {
    return (cusViewerOptions){.max_frame_bytes = (size_t)1 << 28};
}

/* Queues a message; there is room, as each kind waits at most once. */
static void say(cusViewer *viewer, cusWireType type, uint64_t sequence) {
    if (viewer->out_start > 0) {
        memmove(viewer->out, viewer->out + viewer->out_start, viewer->out_end - viewer->out_start);
        viewer->out_end -= viewer->out_start;
        viewer->out_start = 0;
    }
    if (sizeof viewer->out - viewer->out_end < CUS_WIRE_HEADER_BYTES)
        return;
    cusWireHeader header = livei_header(type, NULL);
    header.sequence = sequence;
    (void)cusWirePack(&header, NULL, viewer->out + viewer->out_end);
    viewer->out_end += CUS_WIRE_HEADER_BYTES;
}

cusStatus cusViewerCreate(cusViewer **viewer, const cusViewerOptions *options) {
    CUSI_NOT_NULL("cusViewerCreate", viewer);
    const cusViewerOptions chosen = options ? *options : cusViewerDefaults();
    CUSI_REQUIRE(chosen.max_frame_bytes >= 1 && chosen.max_frame_bytes <= CUS_WIRE_MAX_FRAME_BYTES, CUS_ERROR_VALUE,
                 "cusViewerCreate: max_frame_bytes is %zu, takes 1..%d", chosen.max_frame_bytes, CUS_WIRE_MAX_FRAME_BYTES);
    cusViewer *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "cusViewerCreate: no host memory");
    made->max_frame_bytes = chosen.max_frame_bytes;
    const cusStatus status = livei_decompressorCreate("cusViewerCreate", &made->decompressor);
    if (status != CUS_OK) {
        cusViewerDestroy(made);
        return status;
    }
    say(made, CUS_WIRE_HELLO, 0);
    *viewer = made;
    return CUS_OK;
}

void cusViewerDestroy(cusViewer *viewer) {
    if (!viewer)
        return;
    livei_decompressorDestroy(viewer->decompressor);
    cusMatRelease(&viewer->picture);
    free(viewer->payload);
    free(viewer->raw);
    free(viewer);
}

cusStatus cusViewerReconnect(cusViewer *viewer) {
    CUSI_NOT_NULL("cusViewerReconnect", viewer);
    viewer->header_fill = viewer->payload_fill = 0;
    viewer->out_start = viewer->out_end = 0;
    viewer->connected = viewer->requested = viewer->ended = 0;
    viewer->failure = CUS_OK;
    viewer->info.sequence = 0;
    say(viewer, CUS_WIRE_HELLO, 0);
    return CUS_OK;
}

/* Where the payload of the message under way goes: there is room for what checkHeader let through. */
static uint8_t *payloadBuffer(cusViewer *viewer) {
    return viewer->header.type == CUS_WIRE_HELLO ? viewer->hello : viewer->payload;
}

/* What cusWireParse could not know: whether the message fits this connection. Only then is its payload read. */
static cusStatus checkHeader(const cusViewer *viewer) {
    const cusWireHeader *h = &viewer->header;
    if (h->type == CUS_WIRE_HELLO) {
        CUSI_REQUIRE(!viewer->connected, CUS_ERROR_FORMAT, "stream: the sender says hello again");
        CUSI_REQUIRE(h->payload_bytes == sizeof viewer->hello, CUS_ERROR_FORMAT,
                     "stream: the other end is no sender: its hello has no size");
        const uint64_t bytes = (uint64_t)h->width * h->height * (unsigned)h->channels;
        CUSI_REQUIRE(bytes <= viewer->max_frame_bytes, CUS_ERROR_SIZE,
                     "stream: the sender's picture of %u x %u with %d channels has %llu bytes, the limit is %zu", h->width,
                     h->height, h->channels, (unsigned long long)bytes, viewer->max_frame_bytes);
        return CUS_OK;
    }
    CUSI_REQUIRE(viewer->connected, CUS_ERROR_FORMAT, "stream: the sender does not say hello first");
    if (h->type == CUS_WIRE_KEY_FRAME || h->type == CUS_WIRE_DIFFERENCE) {
        const LiveShape *s = &viewer->shape;
        CUSI_REQUIRE(h->width == (uint32_t)s->cols && h->height == (uint32_t)s->rows &&
                         h->channels == CUS_CHANNELS(s->type),
                     CUS_ERROR_FORMAT, "stream: a frame of %u x %u with %d channels, the handshake said %d x %d with %d",
                     h->width, h->height, h->channels, s->cols, s->rows, CUS_CHANNELS(s->type));
        CUSI_REQUIRE(h->payload_bytes <= s->raw_bytes, CUS_ERROR_FORMAT, "stream: a payload of %u bytes, takes up to %zu",
                     h->payload_bytes, s->raw_bytes);
        CUSI_REQUIRE(h->sequence > viewer->info.sequence, CUS_ERROR_FORMAT, "stream: frame %llu comes after frame %llu",
                     (unsigned long long)h->sequence, (unsigned long long)viewer->info.sequence);
        return CUS_OK;
    }
    CUSI_REQUIRE(h->type == CUS_WIRE_BYE, CUS_ERROR_FORMAT, "stream: a sender sends no message of type %d", (int)h->type);
    return CUS_OK;
}

static cusStatus connect(cusViewer *viewer) {
    static const int type_of_channels[5] = {-1, CUS_8UC1, -1, CUS_8UC3, CUS_8UC4};
    const cusWireHeader *h = &viewer->header;
    LiveShape shape;
    CUS_TRY(livei_shape("stream", (int)h->height, (int)h->width, type_of_channels[h->channels], &shape));
    LiveShape *const old = &viewer->shape;
    if (!viewer->payload || old->rows != shape.rows || old->cols != shape.cols || old->type != shape.type) {
        cusMat picture = CUS_MAT_INIT;
        uint8_t *const payload = malloc(shape.raw_bytes), *const raw = malloc(shape.raw_bytes);
        const cusStatus status = payload && raw ? cusMatCreate(&picture, shape.rows, shape.cols, shape.type, CUS_HOST)
                                                : cusi_fail(CUS_ERROR_NO_MEMORY, "stream: no host memory for the picture");
        if (status != CUS_OK) {
            free(payload);
            free(raw);
            return status;
        }
        cusMatRelease(&viewer->picture);
        free(viewer->payload);
        free(viewer->raw);
        assert(picture.data);
        memset(picture.data, 0, shape.frame_bytes);
        viewer->picture = picture;
        viewer->payload = payload;
        viewer->raw = raw;
        viewer->shape = shape;
    }
    viewer->info = (cusViewerInfo){.rows = shape.rows, .cols = shape.cols, .type = shape.type};
    for (int i = 0; i < 4; ++i)
        viewer->info.rate_mhz |= (uint32_t)viewer->hello[i] << (8 * i);
    viewer->connected = 1;
    return CUS_OK;
}

static cusStatus show(cusViewer *viewer, cusViewerUpdate *event) {
    const cusWireHeader *h = &viewer->header;
    const LiveShape *s = &viewer->shape;
    if (h->type == CUS_WIRE_DIFFERENCE && h->base != viewer->info.sequence) {
        if (!viewer->requested) {
            say(viewer, CUS_WIRE_REQUEST_KEY_FRAME, viewer->info.sequence);
            viewer->requested = 1;
        }
        *event = CUS_VIEWER_MISSING;
        return CUS_OK;
    }
    const uint8_t *raw = viewer->payload;
    if (h->encoding == CUS_WIRE_ZSTD) {
        CUSI_REQUIRE(livei_decompress(viewer->decompressor, viewer->payload, h->payload_bytes, viewer->raw, h->raw_bytes),
                     CUS_ERROR_FORMAT, "stream: a payload is no Zstandard data of %u bytes", h->raw_bytes);
        raw = viewer->raw;
    }
    uint8_t *const picture = viewer->picture.data; /* tight, as made */
    if (h->type == CUS_WIRE_KEY_FRAME) {
        livei_differencesToRows(s, raw, picture);
        viewer->requested = 0;
        viewer->info.changed = 0;
    } else {
        const size_t count = h->raw_bytes - s->mask_bytes;
        CUSI_REQUIRE(livei_maskHolds(s, raw, count), CUS_ERROR_FORMAT,
                     "stream: a difference whose mask does not go with its %zu values", count);
        livei_addValues(s, raw, raw + s->mask_bytes, picture);
        viewer->info.changed = (uint32_t)count;
    }
    viewer->info.is_key_frame = h->type == CUS_WIRE_KEY_FRAME;
    viewer->info.sequence = h->sequence;
    viewer->info.message_bytes = CUS_WIRE_HEADER_BYTES + (size_t)h->payload_bytes;
    *event = CUS_VIEWER_FRAME;
    return CUS_OK;
}

static cusStatus take(cusViewer *viewer, cusViewerUpdate *event) {
    const cusWireHeader *h = &viewer->header;
    CUSI_REQUIRE(livei_checksumHolds(viewer->header_bytes, payloadBuffer(viewer), h->payload_bytes), CUS_ERROR_FORMAT,
                 "stream: a message was damaged on its way (checksum)");
    if (h->type == CUS_WIRE_HELLO) {
        CUS_TRY(connect(viewer));
        *event = CUS_VIEWER_CONNECTED;
    } else if (h->type == CUS_WIRE_BYE) {
        viewer->ended = 1;
        *event = CUS_VIEWER_ENDED;
    } else {
        CUS_TRY(show(viewer, event));
    }
    return CUS_OK;
}

/* Moves what there is towards `want` bytes at `to`. Returns whether they are complete. */
static int gather(uint8_t *to, size_t *fill, size_t want, const uint8_t *data, size_t bytes, size_t *used) {
    const size_t missing = want - *fill, n = bytes - *used < missing ? bytes - *used : missing;
    if (n > 0)
        memcpy(to + *fill, data + *used, n);
    *fill += n;
    *used += n;
    return *fill == want;
}

static cusStatus input(cusViewer *viewer, const uint8_t *data, size_t bytes, size_t *used, cusViewerUpdate *event) {
    while (*event == CUS_VIEWER_NOTHING) {
        if (viewer->ended) { /* what follows a bye is of no interest */
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
        CUS_TRY(take(viewer, event));
    }
    return CUS_OK;
}

cusStatus cusViewerInput(cusViewer *viewer, const void *data, size_t bytes, size_t *used, cusViewerUpdate *event) {
    CUSI_NOT_NULL("cusViewerInput", viewer);
    CUSI_NOT_NULL("cusViewerInput", used);
    CUSI_NOT_NULL("cusViewerInput", event);
    CUSI_REQUIRE(data || bytes == 0, CUS_ERROR_NULL, "cusViewerInput: data is NULL");
    *used = 0;
    *event = CUS_VIEWER_NOTHING;
    if (viewer->failure != CUS_OK)
        return cusi_fail(viewer->failure, "%s", viewer->message);
    const cusStatus status = input(viewer, data, bytes, used, event);
    if (status != CUS_OK) {
        viewer->failure = status;
        strncpy(viewer->message, cusLastError(), sizeof viewer->message - 1);
    }
    return status;
}

cusStatus cusViewerOutput(cusViewer *viewer, const uint8_t **data, size_t *bytes) {
    CUSI_NOT_NULL("cusViewerOutput", viewer);
    CUSI_NOT_NULL("cusViewerOutput", data);
    CUSI_NOT_NULL("cusViewerOutput", bytes);
    *data = viewer->out + viewer->out_start;
    *bytes = viewer->out_end - viewer->out_start;
    return CUS_OK;
}

cusStatus cusViewerSent(cusViewer *viewer, size_t bytes) {
    CUSI_NOT_NULL("cusViewerSent", viewer);
    CUSI_REQUIRE(bytes <= viewer->out_end - viewer->out_start, CUS_ERROR_VALUE, "cusViewerSent: %zu bytes, there were %zu",
                 bytes, viewer->out_end - viewer->out_start);
    viewer->out_start += bytes;
    return CUS_OK;
}

cusStatus cusViewerFinish(cusViewer *viewer) {
    CUSI_NOT_NULL("cusViewerFinish", viewer);
    say(viewer, CUS_WIRE_BYE, viewer->info.sequence);
    return CUS_OK;
}

cusStatus cusViewerPicture(const cusViewer *viewer, cusMat *view) {
    CUSI_NOT_NULL("cusViewerPicture", viewer);
    CUSI_NOT_NULL("cusViewerPicture", view);
    CUSI_REQUIRE(viewer->picture.data, CUS_ERROR_VALUE, "cusViewerPicture: not connected yet");
    return cusMatRegion(&viewer->picture, 0, 0, viewer->shape.cols, viewer->shape.rows, view);
}

cusStatus cusViewerQuery(const cusViewer *viewer, cusViewerInfo *info) {
    CUSI_NOT_NULL("cusViewerQuery", viewer);
    CUSI_NOT_NULL("cusViewerQuery", info);
    *info = viewer->info;
    return CUS_OK;
}
