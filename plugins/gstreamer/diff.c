/* Video as sparse differences. docs/gstreamer.md has their layout. */
#include "filter.h"

#include <cusight/framediff.h>
#include <string.h>

enum { HEADER = 12, ASKED = 2 };
#define KEY        GST_MAKE_FOURCC('C', 'U', 'S', 'K')
#define DIFFERENCE GST_MAKE_FOURCC('C', 'U', 'S', 'D')

typedef struct Settings {
    cusDiffOptions diff;
    int key_interval;
} Settings;

typedef struct CusDiff {
    CusFilter filter;
    cusDiffEncoder *encoder;
    cusDiffDecoder *decoder;
    cusSparseDiff diff;
    size_t frame_bytes;
    guint32 number; /* of the encoder's next frame, of the decoder's last one */
    int since_key;  /* messages of the encoder */
    gint wants_key; /* nothing else is made, or can be decoded; ASKED: the decoder has told upstream */
} CusDiff;

static const CusOption options[] = {
    CUS_OPTION(diff., threshold, G_TYPE_INT, 0, 255, "Bytes are sent that have changed by more than this; 0: lossless"),
    CUS_OPTION(diff., min_neighbors, G_TYPE_INT, 0, 8, "Changed pixels with fewer changed neighbors are taken for noise"),
    CUS_OPTION(, key_interval, G_TYPE_INT, 0, G_MAXINT, "Most frames between key frames; 0: any number"),
    {0},
};
CUS_DEFAULTS((Settings){cusDiffDefaults(), 300})

static void stop(CusFilter *filter) {
    CusDiff *self = (CusDiff *)filter;
    g_clear_pointer(&self->encoder, cusDiffEncoderDestroy);
    g_clear_pointer(&self->decoder, cusDiffDecoderDestroy);
    cusSparseDiffRelease(&self->diff);
}

static gboolean start(CusFilter *filter) {
    CusDiff *self = (CusDiff *)filter;
    const Settings *used = (const Settings *)filter->used;
    const int rows = filter->rows, cols = filter->cols, type = filter->type;
    self->frame_bytes = (size_t)rows * (size_t)cols * cusTypeSize(type);
    g_atomic_int_set(&self->wants_key, TRUE);
    return cus_check(filter, cusSparseDiffCreate(&self->diff, rows, cols, type, (uint32_t)MAX(self->frame_bytes / 5, 1), 0,
                                                 CUS_HOST)) &&
           cus_check(filter, filter->takes_frames
                                 ? cusDiffEncoderCreate(&self->encoder, rows, cols, type, CUS_HOST, &used->diff)
                                 : cusDiffDecoderCreate(&self->decoder, rows, cols, type, CUS_HOST));
}

static GstFlowReturn encoder_frame(CusFilter *filter, const CusMapped *in, CusMapped *out) {
    CusDiff *self = (CusDiff *)filter;
    const int interval = ((const Settings *)filter->used)->key_interval;
    guint8 *data = out->bytes.data;
    gboolean key = g_atomic_int_and((guint *)&self->wants_key, 0) || (interval && self->since_key >= interval);
    if (!key) {
        const cusStatus status = cusDiffEncode(self->encoder, &in->mat, &self->diff, NULL);
        key = status == CUS_ERROR_CAPACITY; /* a key frame is shorter */
        if (!key && !cus_check(filter, status))
            return GST_FLOW_ERROR;
    }
    const uint32_t count = key ? 0 : *(const uint32_t *)self->diff.count.data;
    self->since_key = key ? 1 : self->since_key + 1;
    GST_WRITE_UINT32_LE(data, key ? KEY : DIFFERENCE);
    GST_WRITE_UINT32_LE(data + 4, self->number++);
    GST_WRITE_UINT32_LE(data + 8, count);
    out->bytes.size = HEADER + (key ? self->frame_bytes : 5 * (size_t)count);
    (key ? gst_buffer_unset_flags : gst_buffer_set_flags)(out->buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    GST_LOG_OBJECT(filter, "%s of %zu bytes", key ? "key frame" : "difference", out->bytes.size);
    if (key) {
        cusMat rows = CUS_MAT_INIT;
        cusMatWrap(&rows, filter->rows, filter->cols, filter->type, CUS_HOST, data + HEADER, 0);
        const gboolean done = cus_check(filter, cusMatCopy(&in->mat, &rows, NULL)) &&
                              cus_check(filter, cusDiffEncoderReset(self->encoder, &rows, NULL));
        return done ? GST_FLOW_OK : GST_FLOW_ERROR;
    }
    memcpy(data + HEADER, self->diff.positions.data, 4 * (size_t)count);
    memcpy(data + HEADER + 4 * (size_t)count, self->diff.values.data, count);
    return GST_FLOW_OK;
}

/* NULL: decoded. Otherwise why not. */
static const char *decode(CusDiff *self, const guint8 *data, size_t bytes) {
    const gboolean key = bytes >= HEADER && GST_READ_UINT32_LE(data) == KEY;
    if (!key && (bytes < HEADER || GST_READ_UINT32_LE(data) != DIFFERENCE))
        return "it is no sparse difference";
    const guint32 number = GST_READ_UINT32_LE(data + 4), count = GST_READ_UINT32_LE(data + 8);
    if (!key && (self->wants_key || number != self->number + 1))
        return "a frame before it is missing";
    if (count > self->diff.capacity || bytes != HEADER + (key ? self->frame_bytes : 5 * (size_t)count))
        return "it has a wrong size";
    cusMat rows = CUS_MAT_INIT;
    cusStatus status = CUS_OK;
    if (key) {
        cusMatWrap(&rows, self->filter.rows, self->filter.cols, self->filter.type, CUS_HOST, (void *)(data + HEADER), 0);
        status = cusDiffDecoderReset(self->decoder, &rows, NULL);
    } else {
        memcpy(self->diff.positions.data, data + HEADER, 4 * (size_t)count);
        memcpy(self->diff.values.data, data + HEADER + 4 * (size_t)count, count);
        memcpy(self->diff.count.data, &count, sizeof count);
        status = cusDiffDecode(self->decoder, &self->diff, NULL);
    }
    self->number = number;
    return status == CUS_OK ? NULL : cusLastError();
}

static GstFlowReturn decoder_frame(CusFilter *filter, const CusMapped *in, CusMapped *out) {
    CusDiff *self = (CusDiff *)filter;
    cusMat view = CUS_MAT_INIT;
    const char *problem = decode(self, in->bytes.data, in->bytes.size);
    if (problem) { /* no frames until a key frame, which is asked for once */
        if (!self->wants_key)
            GST_ELEMENT_WARNING(filter, STREAM, DECODE, ("Frames are missing until the next key frame."),
                                ("A message cannot be decoded: %s", problem));
        if (self->wants_key != ASKED)
            gst_pad_push_event(GST_BASE_TRANSFORM_SINK_PAD(filter),
                               gst_video_event_new_upstream_force_key_unit(GST_CLOCK_TIME_NONE, TRUE, 0));
        self->wants_key = ASKED;
        return GST_BASE_TRANSFORM_FLOW_DROPPED;
    }
    self->wants_key = FALSE;
    gst_buffer_unset_flags(out->buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    cusDiffDecoderFrame(self->decoder, &view);
    return cus_check(filter, cusMatCopy(&view, &out->mat, NULL)) ? GST_FLOW_OK : GST_FLOW_ERROR;
}

/* The encoder makes key frames on request. The decoder's base class is not told of late frames: it would drop differences. */
static gboolean src_event(CusFilter *filter, GstEvent *event) {
    if (filter->takes_frames ? !gst_video_event_is_force_key_unit(event) : GST_EVENT_TYPE(event) != GST_EVENT_QOS)
        return FALSE;
    if (!filter->takes_frames)
        return gst_pad_push_event(GST_BASE_TRANSFORM_SINK_PAD(filter), event), TRUE;
    g_atomic_int_set(&((CusDiff *)filter)->wants_key, TRUE);
    gst_event_unref(event);
    return TRUE;
}

#define DIFF_CAPS "application/x-cusight-diff, format = { " CUS_BYTE_FORMATS " }"
const CusElement cus_diff_enc = {.name = "cusdiffenc",
                                 .texts = {"Sparse difference encoder", "Codec/Encoder/Video",
                                           "Encodes video as the bytes that have changed since the last frame"},
                                 .caps = {CUS_RAW_CAPS(CUS_BYTE_FORMATS), DIFF_CAPS},
                                 .instance = sizeof(CusDiff),
                                 .options = options,
                                 .defaults = defaults,
                                 .start = start,
                                 .stop = stop,
                                 .frame = encoder_frame,
                                 .src_event = src_event};

const CusElement cus_diff_dec = {
    .name = "cusdiffdec",
    .texts = {"Sparse difference decoder", "Codec/Decoder/Video", "Decodes what cusdiffenc has encoded"},
    .caps = {DIFF_CAPS, CUS_RAW_CAPS(CUS_BYTE_FORMATS)},
    .instance = sizeof(CusDiff),
    .options = &options[G_N_ELEMENTS(options) - 1],
    .defaults = defaults,
    .start = start,
    .stop = stop,
    .frame = decoder_frame,
    .src_event = src_event};
