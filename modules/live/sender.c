/* Frames in, messages out. On the device three streams overlap: one uploads the next frame, one computes, one downloads the
 * values of the frame being packed. Count and mask are always downloaded, then only as many values as there are. */
#include "check.h"
#include "guard.h"
#include "host.h"
#include "live/compress.h"
#include "live/wire.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_IN_FLIGHT = 64, CHECKSUM_INTERVAL = 100 /* frames */ };

typedef struct Slot {
    cusMat frame;          /* device: the uploaded frame */
    cusMat work;           /* where the encoder writes: the mask, followed by room for all values */
    cusMat raw;            /* the same in host memory: `work` itself, or its page-locked copy */
    cusMat count;          /* 1 x 1, in the encoder's space */
    cusMat count_host;     /* device: its page-locked copy */
    cusMat reference;      /* device: the reference after this frame, in case a key frame is needed */
    cusMat host_reference; /* the same in host memory, rows not padded */
    cusSparseDiff diff;
    uint8_t *message, *key_frame_message;
    cusStreamEvent uploaded, encoded;
    int with_key_frame;
    uint64_t sequence;
    double submitted;
    float encode_ms;
} Slot;

struct cusSender {
    CusiGuard guard;
    LiveShape shape;
    cusSpace space;
    int max_in_flight, error_bound;
    uint64_t submitted; /* frames so far; frame k uses slot k % max_in_flight */
    _Atomic uint64_t finished, released;
    cusDiffEncoder *encoder;
    cusMat positions; /* unused output of the encoder: the mask has the same information */
    LiveCompressor *compressor;
    cusStream upload, compute, download;
    Slot slots[];
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

cusSenderOptions cusSenderDefaults(void) {
    return (cusSenderOptions){.diff = cusDiffDefaults(), .compression_level = 1, .max_in_flight = 4};
}

static cusStatus createSlot(cusSender *sender, Slot *slot) {
    const LiveShape *s = &sender->shape;
    const int raw_bytes = (int)s->max_raw_bytes, mask_row_bytes = (int)s->mask_row_bytes;
    CUS_TRY(cusMatCreate(&slot->work, 1, raw_bytes, CUS_8UC1, sender->space));
    CUS_TRY(cusMatCreate(&slot->count, 1, 1, CUS_32SC1, sender->space));
    if (sender->space == CUS_DEVICE) {
        CUS_TRY(cusMatCreate(&slot->frame, s->rows, s->cols, s->type, CUS_DEVICE));
        CUS_TRY(cusMatCreate(&slot->reference, s->rows, s->cols, s->type, CUS_DEVICE));
        CUS_TRY(cusMatCreatePinned(&slot->raw, 1, raw_bytes, CUS_8UC1));
        CUS_TRY(cusMatCreatePinned(&slot->count_host, 1, 1, CUS_32SC1));
        CUS_TRY(cusMatCreatePinned(&slot->host_reference, s->rows, s->cols, s->type));
        CUS_TRY(cusStreamEventCreate(&slot->uploaded));
        CUS_TRY(cusStreamEventCreate(&slot->encoded));
    } else {
        CUS_TRY(cusMatWrap(&slot->raw, 1, raw_bytes, CUS_8UC1, CUS_HOST, slot->work.data, 0));
        CUS_TRY(cusMatCreate(&slot->host_reference, s->rows, s->cols, s->type, CUS_HOST));
    }
    slot->diff.capacity = (uint32_t)s->frame_bytes;
    uint8_t *const work = slot->work.data;
    CUS_TRY(cusMatWrap(&slot->diff.positions, 1, (int)s->frame_bytes, CUS_32SC1, sender->space, sender->positions.data, 0));
    CUS_TRY(cusMatWrap(&slot->diff.count, 1, 1, CUS_32SC1, sender->space, slot->count.data, 0));
    CUS_TRY(cusMatWrap(&slot->diff.mask, s->rows, mask_row_bytes, CUS_8UC1, sender->space, work, 0));
    CUS_TRY(cusMatWrap(&slot->diff.values, 1, (int)s->frame_bytes, CUS_8UC1, sender->space, work + s->mask_bytes, 0));
    slot->message = malloc(CUS_WIRE_HEADER_BYTES + s->max_raw_bytes);
    slot->key_frame_message = malloc(CUS_WIRE_HEADER_BYTES + s->frame_bytes);
    CUSI_REQUIRE(slot->message && slot->key_frame_message, CUS_ERROR_NO_MEMORY, "cusSenderCreate: out of host memory");
    return CUS_OK;
}

static cusStatus createBuffers(cusSender *sender, const cusSenderOptions *options) {
    const LiveShape *s = &sender->shape;
    CUS_TRY(live_compressorCreate("cusSenderCreate", options->compression_level, cusi_maxThreads(), s->max_raw_bytes,
                                  &sender->compressor));
    const cusStatus status =
        cusDiffEncoderCreate(&sender->encoder, s->rows, s->cols, s->type, sender->space, &options->diff);
    if (status != CUS_OK)
        return cusi_renamed("cusSenderCreate", status);
    CUS_TRY(cusMatCreate(&sender->positions, 1, (int)s->frame_bytes, CUS_32SC1, sender->space));
    if (sender->space == CUS_DEVICE) {
        CUS_TRY(cusStreamCreate(&sender->upload));
        CUS_TRY(cusStreamCreate(&sender->compute));
        CUS_TRY(cusStreamCreate(&sender->download));
    }
    for (int i = 0; i < sender->max_in_flight; ++i)
        CUS_TRY(createSlot(sender, &sender->slots[i]));
    return CUS_OK;
}

cusStatus cusSenderCreate(cusSender **sender, int rows, int cols, int type, cusSpace space,
                          const cusSenderOptions *options) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusSenderCreate", sender);
    LiveShape shape;
    CUS_TRY(live_shape("cusSenderCreate", rows, cols, type, &shape));
    CUS_TRY(cusi_checkSpace("cusSenderCreate", space));
    const cusSenderOptions chosen = options ? *options : cusSenderDefaults();
    CUS_TRY(cusi_checkReserved("cusSenderCreate", "options->", chosen.reserved));
    CUS_TRY(cusi_checkReserved("cusSenderCreate", "options->diff.", chosen.diff.reserved));
    CUSI_REQUIRE(chosen.compression_level >= 1 && chosen.compression_level <= 19, CUS_ERROR_VALUE,
                 "cusSenderCreate: compression_level is %d, expected 1..19", chosen.compression_level);
    CUSI_REQUIRE(chosen.max_in_flight >= 2 && chosen.max_in_flight <= MAX_IN_FLIGHT, CUS_ERROR_VALUE,
                 "cusSenderCreate: max_in_flight is %d, expected 2..%d", chosen.max_in_flight, MAX_IN_FLIGHT);
    cusSender *made = calloc(1, sizeof *made + (size_t)chosen.max_in_flight * sizeof *made->slots);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "cusSenderCreate: out of host memory");
    made->shape = shape;
    made->space = space;
    made->max_in_flight = chosen.max_in_flight;
    /* What the noise filter holds back has no bound but that of a byte. */
    made->error_bound = chosen.diff.min_neighbors > 0 ? 255 : chosen.diff.threshold;
    const cusStatus status = createBuffers(made, &chosen);
    if (status != CUS_OK) {
        cusSenderDestroy(made);
        return status;
    }
    *sender = made;
    return CUS_OK;
}

void cusSenderDestroy(cusSender *sender) {
    CUSI_TRACE;
    if (!sender)
        return;
    if (sender->compute) { /* queued work uses the buffers */
        (void)cusStreamSynchronize(sender->upload);
        (void)cusStreamSynchronize(sender->compute);
    }
    for (int i = 0; i < sender->max_in_flight; ++i) {
        Slot *const slot = &sender->slots[i];
        cusMatRelease(&slot->raw);
        cusMatRelease(&slot->frame);
        cusMatRelease(&slot->work);
        cusMatRelease(&slot->count);
        cusMatRelease(&slot->count_host);
        cusMatRelease(&slot->reference);
        cusMatRelease(&slot->host_reference);
        cusStreamEventDestroy(slot->uploaded);
        cusStreamEventDestroy(slot->encoded);
        free(slot->message);
        free(slot->key_frame_message);
    }
    cusStreamDestroy(sender->upload);
    cusStreamDestroy(sender->compute);
    cusStreamDestroy(sender->download);
    cusMatRelease(&sender->positions);
    cusDiffEncoderDestroy(sender->encoder);
    live_compressorDestroy(sender->compressor);
    free(sender);
}

/* A key frame is considered instead of the difference only if more than half of the bytes have changed. */
static int keyFrameMayBeSmaller(const cusSender *sender, uint32_t count) {
    return count > sender->shape.frame_bytes / 2;
}

static int isChecked(const Slot *slot) {
    return slot->with_key_frame || slot->sequence % CHECKSUM_INTERVAL == 0;
}

/* Returns whether the reference after this frame is needed in host memory: for a key frame or a checksum. */
static int needsReference(const cusSender *sender, const Slot *slot, uint32_t count) {
    return isChecked(slot) || keyFrameMayBeSmaller(sender, count);
}

static cusStatus submitHost(cusSender *sender, Slot *slot, const cusMat *frame) {
    if (sender->submitted == 0)
        CUS_TRY(cusDiffEncoderReset(sender->encoder, frame, NULL));
    CUS_TRY(cusDiffEncode(sender->encoder, frame, &slot->diff, NULL));
    if (needsReference(sender, slot, *(const uint32_t *)slot->count.data)) {
        cusMat reference = CUS_MAT_INIT;
        CUS_TRY(cusDiffEncoderReference(sender->encoder, &reference));
        CUS_TRY(cusMatCopy(&reference, &slot->host_reference, NULL));
    }
    slot->encode_ms = (float)(now() - slot->submitted);
    return CUS_OK;
}

static cusStatus submitDevice(cusSender *sender, Slot *slot, const cusMat *frame, cusStream stream) {
    const cusMat *source = frame;
    if (frame->space == CUS_HOST) {
        CUS_TRY(cusMatUpload(frame, &slot->frame, sender->upload));
        CUS_TRY(cusStreamEventRecord(slot->uploaded, sender->upload));
        source = &slot->frame;
    } else {
        CUS_TRY(cusStreamEventRecord(slot->uploaded, stream));
    }
    CUS_TRY(cusStreamWaitEvent(sender->compute, slot->uploaded));
    if (sender->submitted == 0)
        CUS_TRY(cusDiffEncoderReset(sender->encoder, source, sender->compute));
    CUS_TRY(cusDiffEncode(sender->encoder, source, &slot->diff, sender->compute));
    CUS_TRY(cusMatDownload(&slot->count, &slot->count_host, sender->compute));
    cusMat mask = CUS_MAT_INIT, mask_host = CUS_MAT_INIT, reference = CUS_MAT_INIT;
    CUS_TRY(cusMatRegion(&slot->work, 0, 0, (int)sender->shape.mask_bytes, 1, &mask));
    CUS_TRY(cusMatRegion(&slot->raw, 0, 0, (int)sender->shape.mask_bytes, 1, &mask_host));
    CUS_TRY(cusMatDownload(&mask, &mask_host, sender->compute));
    /* By the time the count is known the next frame may have changed the reference, so each slot keeps a copy: on the
     * device that costs a twentieth of the upload. */
    CUS_TRY(cusDiffEncoderReference(sender->encoder, &reference));
    CUS_TRY(cusMatCopy(&reference, &slot->reference, sender->compute));
    return cusStreamEventRecord(slot->encoded, sender->compute);
}

static cusStatus checkFrame(const cusSender *sender, const cusMat *frame) {
    CUS_TRY(cusi_checkMat("cusSenderSubmit", "frame", frame));
    const LiveShape *s = &sender->shape;
    CUSI_REQUIRE(frame->space == CUS_HOST || sender->space == CUS_DEVICE, CUS_ERROR_SPACE,
                 "cusSenderSubmit: frame is in device memory, expected host memory like the sender");
    CUSI_REQUIRE(frame->type == s->type, CUS_ERROR_TYPE, "cusSenderSubmit: frame has type %s, expected %s like the sender",
                 cusi_typeName(frame->type), cusi_typeName(s->type));
    CUSI_REQUIRE(frame->rows == s->rows && frame->cols == s->cols, CUS_ERROR_SIZE,
                 "cusSenderSubmit: frame is %d x %d (rows x cols), expected %d x %d like the sender", frame->rows,
                 frame->cols, s->rows, s->cols);
    return CUS_OK;
}

static cusStatus senderSubmit(cusSender *sender, const cusMat *frame, int with_key_frame, cusStream stream) {
    CUS_TRY(checkFrame(sender, frame));
    CUS_TRY(cusi_checkStream("cusSenderSubmit", sender->space, stream));
    if (sender->space == CUS_DEVICE)
        CUS_TRY(cusi_refuseCapture("cusSenderSubmit", stream, "the call uses streams of its own"));
    CUSI_REQUIRE(sender->submitted - atomic_load(&sender->released) < (uint64_t)sender->max_in_flight, CUS_ERROR_CAPACITY,
                 "cusSenderSubmit: %d frames are in flight, expected fewer than max_in_flight", sender->max_in_flight);
    Slot *const slot = &sender->slots[sender->submitted % (uint64_t)sender->max_in_flight];
    slot->with_key_frame = with_key_frame || sender->submitted == 0;
    slot->sequence = sender->submitted + 1;
    slot->submitted = now();
    if (sender->space == CUS_DEVICE)
        CUS_TRY(submitDevice(sender, slot, frame, stream));
    else
        CUS_TRY(submitHost(sender, slot, frame));
    ++sender->submitted;
    return CUS_OK;
}

cusStatus cusSenderSubmit(cusSender *sender, const cusMat *frame, int with_key_frame, cusStream stream) {
    CUSI_TRACE;
    CUSI_GUARDED("cusSenderSubmit", sender, NULL, senderSubmit(sender, frame, with_key_frame, stream));
}

/* Waits for the difference and downloads what packing needs. */
static cusStatus download(cusSender *sender, Slot *slot, uint32_t *count) {
    if (sender->space == CUS_HOST) {
        *count = *(const uint32_t *)slot->count.data;
        return CUS_OK;
    }
    CUS_TRY(cusStreamEventSynchronize(slot->encoded));
    *count = *(const uint32_t *)slot->count_host.data;
    if (*count > 0) {
        cusMat values = CUS_MAT_INIT, values_host = CUS_MAT_INIT;
        const int mask_bytes = (int)sender->shape.mask_bytes;
        CUS_TRY(cusMatRegion(&slot->work, mask_bytes, 0, (int)*count, 1, &values));
        CUS_TRY(cusMatRegion(&slot->raw, mask_bytes, 0, (int)*count, 1, &values_host));
        CUS_TRY(cusMatDownload(&values, &values_host, sender->download));
    }
    if (needsReference(sender, slot, *count))
        CUS_TRY(cusMatDownload(&slot->reference, &slot->host_reference, sender->download));
    CUS_TRY(cusStreamSynchronize(sender->download));
    slot->encode_ms = (float)(now() - slot->submitted);
    return CUS_OK;
}

/* Packs the key frame of a slot. Its host reference becomes filtered. */
static void packKeyFrame(cusSender *sender, Slot *slot, cusSentFrame *out) {
    const LiveShape *s = &sender->shape;
    uint8_t *const reference = slot->host_reference.data;
    cusWireHeader header = live_header(CUS_WIRE_KEY_FRAME, s);
    header.sequence = slot->sequence;
    live_filterRows(s, reference);
    out->key_frame = slot->key_frame_message;
    out->key_frame_bytes =
        live_packMessage(sender->compressor, header, reference, 0, s->frame_bytes, slot->key_frame_message);
}

static void packDifference(cusSender *sender, Slot *slot, cusSentFrame *out) {
    const LiveShape *s = &sender->shape;
    cusWireHeader header = live_header(CUS_WIRE_DIFFERENCE, s);
    header.sequence = slot->sequence;
    header.base = slot->sequence - 1;
    out->message = slot->message;
    out->message_bytes = live_packMessage(sender->compressor, header, slot->raw.data, s->mask_bytes,
                                          s->mask_bytes + out->count, slot->message);
}

static cusStatus senderFinish(cusSender *sender, cusSentFrame *packed) {
    CUSI_NOT_NULL("cusSenderFinish", packed);
    const uint64_t number = atomic_load(&sender->finished);
    CUSI_REQUIRE(number < sender->submitted, CUS_ERROR_VALUE, "cusSenderFinish: no submitted frame is left to finish");
    Slot *const slot = &sender->slots[number % (uint64_t)sender->max_in_flight];
    uint32_t count = 0;
    CUS_TRY(download(sender, slot, &count));
    const double start = now();
    const uint8_t *const raw = slot->raw.data;
    cusSentFrame out = {.sequence = slot->sequence, .mask = raw, .values = raw + sender->shape.mask_bytes, .count = count};
    const int maybe_smaller = keyFrameMayBeSmaller(sender, count);
    if (needsReference(sender, slot, count)) {
        out.has_checksum = 1;
        out.checksum = cusCrc32c(0, slot->host_reference.data, sender->shape.frame_bytes);
        out.error_bound = sender->error_bound;
    }
    if (slot->with_key_frame || maybe_smaller)
        packKeyFrame(sender, slot, &out);
    if (slot->sequence > 1)
        packDifference(sender, slot, &out);
    if (!out.message || (out.key_frame && maybe_smaller && out.key_frame_bytes < out.message_bytes)) {
        out.message = out.key_frame;
        out.message_bytes = out.key_frame_bytes;
    }
    out.encode_ms = slot->encode_ms;
    out.pack_ms = (float)(now() - start);
    *packed = out;
    atomic_store(&sender->finished, number + 1);
    return CUS_OK;
}

cusStatus cusSenderFinish(cusSender *sender, cusSentFrame *packed) {
    CUSI_TRACE;
    CUSI_GUARDED("cusSenderFinish", sender, NULL, senderFinish(sender, packed));
}

cusStatus cusSenderRelease(cusSender *sender) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusSenderRelease", sender);
    const uint64_t number = atomic_load(&sender->released);
    CUSI_REQUIRE(number < atomic_load(&sender->finished), CUS_ERROR_VALUE,
                 "cusSenderRelease: no finished frame is left to release");
    atomic_store(&sender->released, number + 1);
    return CUS_OK;
}

cusStatus cusSenderReference(const cusSender *sender, cusMat *view) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusSenderReference", sender);
    return cusDiffEncoderReference(sender->encoder, view);
}
