/* The viewer of live video as a WebAssembly module: cusViewer and cusHeatmap from the library's own sources, behind functions
 * that take and return numbers and addresses only. One module decodes one stream. page/player.js calls it. */
#include "cusight/live.h"

#include <stdlib.h>
#include <string.h>
#include <wasm_simd128.h>

#define EXPORT(name) __attribute__((export_name(#name), used)) name

/* What decoder_query() writes, in the order that player.js expects. */
enum { ROWS, COLS, CHANNELS, MILLIHERTZ, SEQUENCE, KEY_FRAME, CHANGED, MESSAGE_BYTES, CHECKED, EXACT, ERROR_BOUND, FIELDS };

static cusViewer *viewer;
static uint8_t *input, *pixels;
static size_t input_capacity, pixel_count, used;
static cusMat previous, heatmap; /* the picture painted last, for the heatmap of changes */
static double fields[FIELDS];

int EXPORT(decoder_create)(double max_frame_bytes) {
    cusViewerOptions options = cusViewerDefaults();
    options.max_frame_bytes = (size_t)max_frame_bytes;
    options.checksums = 1;
    return cusViewerCreate(&viewer, &options);
}

int EXPORT(decoder_reconnect)(void) {
    return cusViewerReconnect(viewer);
}

/* Where the next input goes; NULL if memory has run out. */
uint8_t *EXPORT(decoder_room)(size_t bytes) {
    if (bytes > input_capacity) {
        free(input);
        input = malloc(bytes);
        input_capacity = input ? bytes : 0;
    }
    return input;
}

/* Decodes input from byte `from` on, up to the next update. Returns the cusViewerUpdate, or -status. */
int EXPORT(decoder_input)(size_t from, size_t bytes) {
    cusViewerUpdate update = CUS_VIEWER_NOTHING;
    const cusStatus status = cusViewerInput(viewer, input + from, bytes, &used, &update);
    return status == CUS_OK ? (int)update : -(int)status;
}

/* How many bytes the last decoder_input() used. */
size_t EXPORT(decoder_used)(void) {
    return used;
}

const char *EXPORT(decoder_error)(void) {
    return cusLastError();
}

/* What waits to be sent to the sender: returns its size; decoder_output() is where it is. */
size_t EXPORT(decoder_output_bytes)(void) {
    const uint8_t *data = NULL;
    size_t bytes = 0;
    (void)cusViewerOutput(viewer, &data, &bytes);
    return bytes;
}

const uint8_t *EXPORT(decoder_output)(void) {
    const uint8_t *data = NULL;
    size_t bytes = 0;
    (void)cusViewerOutput(viewer, &data, &bytes);
    return data;
}

void EXPORT(decoder_sent)(size_t bytes) {
    (void)cusViewerSent(viewer, bytes);
}

void EXPORT(decoder_finish)(void) {
    (void)cusViewerFinish(viewer);
}

const double *EXPORT(decoder_query)(void) {
    cusViewerInfo info = {0};
    (void)cusViewerQuery(viewer, &info);
    const double now[FIELDS] = {[ROWS] = info.rows,
                                [COLS] = info.cols,
                                [CHANNELS] = CUS_CHANNELS(info.type),
                                [MILLIHERTZ] = info.rate_millihertz,
                                [SEQUENCE] = (double)info.sequence,
                                [KEY_FRAME] = info.is_key_frame,
                                [CHANGED] = info.changed,
                                [MESSAGE_BYTES] = (double)info.message_bytes,
                                [CHECKED] = (double)info.checked,
                                [EXACT] = info.exact,
                                [ERROR_BOUND] = info.error_bound};
    memcpy(fields, now, sizeof now);
    return fields;
}

/* The CRC-32C of the current picture. */
uint32_t EXPORT(decoder_checksum)(void) {
    cusMat frame = CUS_MAT_INIT;
    if (cusViewerFrame(viewer, &frame) != CUS_OK)
        return 0;
    return cusCrc32c(0, frame.data, frame.step * (size_t)frame.rows);
}

/* Four pixels a step: 12 bytes B, G, R become 16 bytes R, G, B, 255. A step reads 16 bytes. */
static void convert3(const uint8_t *from, uint8_t *to, size_t count) {
    const v128_t opaque = wasm_u32x4_splat(0xff000000);
    size_t i = 0;
    for (; i + 6 <= count; i += 4) {
        const v128_t bgr = wasm_v128_load(from + 3 * i);
        const v128_t rgb = wasm_i8x16_shuffle(bgr, opaque, 2, 1, 0, 19, 5, 4, 3, 19, 8, 7, 6, 19, 11, 10, 9, 19);
        wasm_v128_store(to + 4 * i, rgb);
    }
    for (; i < count; ++i) {
        to[4 * i] = from[3 * i + 2];
        to[4 * i + 1] = from[3 * i + 1];
        to[4 * i + 2] = from[3 * i];
        to[4 * i + 3] = 255;
    }
}

static void convert(const cusMat *frame, uint8_t *to, size_t count) {
    const uint8_t *const from = frame->data; /* rows are not padded */
    const int channels = CUS_CHANNELS(frame->type);
    if (channels == 3) {
        convert3(from, to, count);
        return;
    }
    for (size_t i = 0; i < count; ++i) {
        const uint8_t *const pixel = from + (size_t)channels * i;
        to[4 * i] = pixel[channels == 4 ? 2 : 0];
        to[4 * i + 1] = pixel[channels == 4];
        to[4 * i + 2] = pixel[0];
        to[4 * i + 3] = 255;
    }
}

static const uint8_t *paint(const cusMat *frame) {
    const size_t count = (size_t)frame->rows * (size_t)frame->cols;
    if (count > pixel_count) {
        free(pixels);
        pixels = malloc(4 * count);
        pixel_count = pixels ? count : 0;
    }
    if (pixels)
        convert(frame, pixels, count);
    return pixels;
}

/* The current picture as R, G, B, A; NULL before the first frame, or if memory has run out. */
const uint8_t *EXPORT(decoder_picture)(void) {
    cusMat frame = CUS_MAT_INIT;
    return cusViewerFrame(viewer, &frame) == CUS_OK ? paint(&frame) : NULL;
}

/* The heatmap of what has changed since the last call, as R, G, B, A. */
const uint8_t *EXPORT(decoder_heatmap)(void) {
    cusMat frame = CUS_MAT_INIT;
    if (cusViewerFrame(viewer, &frame) != CUS_OK)
        return NULL;
    const int first = previous.rows != frame.rows || previous.cols != frame.cols || previous.type != frame.type;
    if (cusHeatmap(first ? &frame : &previous, &frame, &heatmap, NULL, NULL) != CUS_OK ||
        cusMatCopy(&frame, &previous, NULL) != CUS_OK)
        return NULL;
    return paint(&heatmap);
}
