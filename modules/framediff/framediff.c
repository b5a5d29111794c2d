/* Entry points of framediff for both backends: heatmap, noise view, encoder and decoder. */
#include "check.h"
#include "device.h"
#include "framediff/backend.h"
#include "progress.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAME_TYPES CUSI_TYPES(CUS_8UC1, CUS_8UC3, CUS_8UC4)

/* ---- Heatmap and noise view -------------------------------------------------------------- */

static uint32_t channel(double v) {
    return (uint32_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static uint32_t heatColor(int d, int full_scale) {
    const double pi = 3.14159265358979323846;
    const double n = (double)d / full_scale;
    return channel(255 * sin(pi * n + pi / 2)) | channel(255 * sin(pi * n)) << 8 |
           channel(255 * sin(pi * n - pi / 2)) << 16;
}

/* Pairs of frames of one call, and what to make of them. */
typedef struct Pairs {
    int count;
    const cusMat *prev, *cur;
    cusMat *dst;
    bool is_batch; /* messages name the pair */
} Pairs;

/* Checks pair i. */
static cusStatus checkPair(const char *function, const Pairs *p, int i) {
    char text[3][CUSI_ITEM_NAME];
    const char *names[3] = {"prev", "cur", "dst"};
    for (int k = 0; k < 3 && p->is_batch; ++k)
        names[k] = cusi_itemName(text[k], names[k], i);
    /* A single pair may be NULL, to which nothing may be added. */
    const cusMat *const prev = i ? &p->prev[i] : p->prev, *const cur = i ? &p->cur[i] : p->cur,
                        *const dst = i ? &p->dst[i] : p->dst;
    CUS_TRY(cusi_checkInput(function, names[0], prev, FRAME_TYPES));
    CUS_TRY(cusi_checkInput(function, names[1], cur, FRAME_TYPES));
    CUS_TRY(cusi_checkSameSpace(function, names[1], cur, names[0], prev));
    CUS_TRY(cusi_checkSameType(function, names[1], cur, names[0], prev));
    CUS_TRY(cusi_checkSameSize(function, names[1], cur, names[0], prev));
    if (i > 0) {
        CUS_TRY(cusi_checkSameSpace(function, names[0], prev, "prev[0]", p->prev));
        CUS_TRY(cusi_checkSameType(function, names[0], prev, "prev[0]", p->prev));
        CUS_TRY(cusi_checkSameSize(function, names[0], prev, "prev[0]", p->prev));
    }
    CUS_TRY(cusi_checkOutput(function, names[2], dst, cur->rows, cur->cols, CUS_8UC3, cur->space));
    CUS_TRY(cusi_checkNoOverlap(function, names[2], dst, names[0], prev));
    return cusi_checkNoOverlap(function, names[2], dst, names[1], cur);
}

static cusStatus colorizeDifferences(const char *function, const Pairs *p, const FramediffColorMap *map, cusStream stream) {
    for (int i = 0; i < p->count; ++i)
        CUS_TRY(checkPair(function, p, i));
    const cusMat *const cur = p->cur;
    CUS_TRY(cusi_checkStream(function, cur->space, stream));
    for (int i = 0; i < p->count; ++i)
        CUS_TRY(cusMatCreate(&p->dst[i], cur->rows, cur->cols, CUS_8UC3, cur->space));
    return CUSI_BACKEND(function, cur->space, framediff_host_colorize(p->count, p->prev, cur, p->dst, map),
                        framediff_cuda_colorize(function, p->count, p->prev, cur, p->dst, map, stream));
}

cusHeatmapOptions cusHeatmapDefaults(void) {
    return (cusHeatmapOptions){.full_scale = 765};
}

static cusStatus heatmap(const char *function, const Pairs *pairs, const cusHeatmapOptions *options, cusStream stream) {
    /* Computing 2298 sines takes longer than a 4K frame on a fast GPU, so each thread caches its last palette. */
    static _Thread_local struct {
        int full_scale;
        FramediffPalette palette;
    } cached;
    if (options)
        CUS_TRY(cusi_checkReserved(function, "options->", options->reserved));
    if (options && options->colors) {
        FramediffPalette own;
        for (int d = 0; d < FRAMEDIFF_LEVELS; ++d)
            own.color[d] = options->colors[3 * d] | (uint32_t)options->colors[3 * d + 1] << 8 |
                           (uint32_t)options->colors[3 * d + 2] << 16;
        const FramediffColorMap map = {.palette = &own, .full_scale = 1}; /* any but 765, which needs no palette */
        return colorizeDifferences(function, pairs, &map, stream);
    }
    const int full_scale = options ? options->full_scale : cusHeatmapDefaults().full_scale;
    CUSI_REQUIRE(full_scale >= 1 && full_scale <= 65535, CUS_ERROR_VALUE, "%s: full_scale is %d, expected 1..65535",
                 function, full_scale);
    if (cached.full_scale != full_scale) {
        for (int d = 0; d < FRAMEDIFF_LEVELS; ++d)
            cached.palette.color[d] = heatColor(d, full_scale);
        cached.full_scale = full_scale;
    }
    const FramediffColorMap map = {.palette = &cached.palette, .full_scale = full_scale};
    return colorizeDifferences(function, pairs, &map, stream);
}

cusStatus cusHeatmap(const cusMat *prev, const cusMat *cur, cusMat *dst, const cusHeatmapOptions *options,
                     cusStream stream) {
    CUSI_TRACE;
    return heatmap("cusHeatmap", &(Pairs){1, prev, cur, dst, false}, options, stream);
}

cusStatus cusHeatmapBatch(int count, const cusMat *prev, const cusMat *cur, cusMat *dst, const cusHeatmapOptions *options,
                          cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusHeatmapBatch";
    CUS_TRY(cusi_checkBatch(function, count));
    CUSI_NOT_NULL(function, prev);
    CUSI_NOT_NULL(function, cur);
    CUSI_NOT_NULL(function, dst);
    return heatmap(function, &(Pairs){count, prev, cur, dst, true}, options, stream);
}

cusStatus cusNoiseView(const cusMat *prev, const cusMat *cur, cusMat *dst, int threshold, cusStream stream) {
    CUSI_TRACE;
    CUSI_REQUIRE(threshold >= 0 && threshold <= 765, CUS_ERROR_VALUE, "cusNoiseView: threshold is %d, expected 0..765",
                 threshold);
    FramediffPalette colors;
    for (int d = 0; d < FRAMEDIFF_LEVELS; ++d)
        colors.color[d] = d > threshold ? 0xff0000 : 0;
    const FramediffColorMap map = {.palette = &colors, .threshold = threshold};
    return colorizeDifferences("cusNoiseView", &(Pairs){1, prev, cur, dst, false}, &map, stream);
}

/* ---- Sparse difference --------------------------------------------------------------------------------------------- */

/* Checks the frame shape of an encoder, a decoder or a diff. Byte positions must fit 32 bits, with one to spare. */
static cusStatus checkFrameShape(const char *function, int rows, int cols, int type, cusSpace space) {
    CUSI_REQUIRE(rows > 0 && cols > 0, CUS_ERROR_VALUE, "%s: frame is %d x %d (rows x cols), expected at least 1 x 1",
                 function, rows, cols);
    CUSI_REQUIRE(type == CUS_8UC1 || type == CUS_8UC3 || type == CUS_8UC4, CUS_ERROR_TYPE,
                 "%s: type is %s, expected 8UC1, 8UC3 or 8UC4", function, cusi_typeName(type));
    CUS_TRY(cusi_checkSpace(function, space));
    const uint64_t bytes = (uint64_t)rows * (uint64_t)cols * cusTypeSize(type);
    CUSI_REQUIRE(bytes < UINT32_MAX, CUS_ERROR_SIZE,
                 "%s: frame is %d x %d (rows x cols) %s, %llu bytes; expected at most 4294967294, as positions are 32-bit",
                 function, rows, cols, cusi_typeName(type), (unsigned long long)bytes);
    return CUS_OK;
}

/* Makes a matrix of the frame's shape, all zero. Waits, which creation may, so that every stream that uses the object later
 * sees the zeros. On the host, rows are contiguous; on the device they start at multiples of 16 bytes and are padded with
 * zeros to whole vectors. */
static cusStatus createFrame(cusMat *mat, int rows, int cols, int type, cusSpace space) {
    if (space == CUS_HOST) {
        CUS_TRY(cusMatCreate(mat, rows, cols, type, space));
        return cusMatSetZero(mat, NULL);
    }
    CUS_TRY(cusMatCreate(mat, rows, (int)(((size_t)cols * cusTypeSize(type) + 15) / 16), CUS_MAKETYPE(CUS_32S, 4), space));
    CUS_TRY(cusMatSetZero(mat, NULL));
    mat->rows = rows;
    mat->cols = cols;
    mat->type = type;
    return cusi_deviceFinish("cusMatSetZero", NULL);
}

/* Checks that `frame`, called `name`, is like `state`, the frame that `owner` keeps. */
static cusStatus checkSame(const char *function, const char *name, const cusMat *frame, const char *owner,
                           const cusMat *state) {
    CUS_TRY(cusi_checkSameSpace(function, name, frame, owner, state));
    CUS_TRY(cusi_checkSameType(function, name, frame, owner, state));
    return cusi_checkSameSize(function, name, frame, owner, state);
}

/* The mask has one bit for each byte of a row. */
static int maskCols(int cols, int type) {
    return (int)(((uint64_t)cols * cusTypeSize(type) + 7) / 8);
}

/* name: of diff, in messages. */
static cusStatus checkDiff(const char *function, const char *name, const cusSparseDiff *diff, const cusMat *state) {
    CUSI_REQUIRE(diff, CUS_ERROR_NULL, "%s: %s is NULL", function, name);
    CUSI_REQUIRE(diff->positions.data && diff->values.data && diff->count.data, CUS_ERROR_NULL,
                 "%s: %s is empty; create it with cusSparseDiffCreate", function, name);
    const cusMat *const parts[] = {&diff->positions, &diff->values, &diff->count, &diff->mask};
    static const char *const names[] = {"positions", "values", "count", "mask"};
    int same_space = 1;
    for (int i = 0; i < 4; ++i)
        if (parts[i]->data) {
            if (cusi_checkMat(function, name, parts[i]) != CUS_OK) { /* only then is the longer name worth its time */
                char text[2 * CUSI_ITEM_NAME];
                (void)snprintf(text, sizeof text, "%s's %s", name, names[i]);
                return cusi_checkMat(function, text, parts[i]);
            }
            same_space &= parts[i]->space == state->space;
        }
    CUSI_REQUIRE(diff->positions.type == CUS_32SC1 && diff->values.type == CUS_8UC1 && diff->count.type == CUS_32SC1 &&
                     (!diff->mask.data || diff->mask.type == CUS_8UC1),
                 CUS_ERROR_TYPE, "%s: %s has positions %s, values %s, count %s, expected 32SC1, 8UC1, 32SC1", function,
                 name, cusi_typeName(diff->positions.type), cusi_typeName(diff->values.type),
                 cusi_typeName(diff->count.type));
    CUSI_REQUIRE(same_space, CUS_ERROR_SPACE, "%s: %s is not in %s memory like the object", function, name,
                 state->space == CUS_DEVICE ? "device" : "host");
    CUSI_REQUIRE(diff->capacity > 0 && diff->positions.rows == 1 && diff->values.rows == 1 &&
                     (uint64_t)diff->positions.cols >= diff->capacity && (uint64_t)diff->values.cols >= diff->capacity,
                 CUS_ERROR_SIZE, "%s: %s has capacity %u but %d positions and %d values", function, name, diff->capacity,
                 diff->positions.cols, diff->values.cols);
    const int rows = state->rows, mask_cols = maskCols(state->cols, state->type);
    CUSI_REQUIRE(!diff->mask.data || (diff->mask.rows == rows && diff->mask.cols == mask_cols), CUS_ERROR_SIZE,
                 "%s: %s's mask is %d x %d (rows x cols), expected %d x %d", function, name, diff->mask.rows,
                 diff->mask.cols, rows, mask_cols);
    return CUS_OK;
}

/* Waits for the device, so that every stream that uses the list later sees a count of zero. mask_cols: 0 without a mask. */
static cusStatus allocateDiff(cusSparseDiff *diff, int rows, int mask_cols, cusSpace space) {
    CUS_TRY(cusMatCreate(&diff->positions, 1, (int)diff->capacity, CUS_32SC1, space));
    CUS_TRY(cusMatCreate(&diff->values, 1, (int)diff->capacity, CUS_8UC1, space));
    CUS_TRY(cusMatCreate(&diff->count, 1, 1, CUS_32SC1, space));
    CUS_TRY(cusMatSetZero(&diff->count, NULL));
    if (mask_cols > 0)
        CUS_TRY(cusMatCreate(&diff->mask, rows, mask_cols, CUS_8UC1, space));
    return space == CUS_DEVICE ? cusi_deviceFinish("cusSparseDiffCreate", NULL) : CUS_OK;
}

cusStatus cusSparseDiffCreate(cusSparseDiff *diff, int rows, int cols, int type, uint32_t capacity, int with_mask,
                              cusSpace space) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusSparseDiffCreate", diff);
    CUS_TRY(checkFrameShape("cusSparseDiffCreate", rows, cols, type, space));
    const uint64_t bytes = (uint64_t)rows * (uint64_t)cols * cusTypeSize(type);
    const uint32_t most = bytes < INT32_MAX ? (uint32_t)bytes : INT32_MAX;
    CUSI_REQUIRE(capacity <= INT32_MAX, CUS_ERROR_VALUE, "cusSparseDiffCreate: capacity is %u, expected at most 2147483647",
                 capacity);
    if (capacity == 0 || capacity > most)
        capacity = most;
    cusSparseDiff made = CUS_SPARSE_DIFF_INIT;
    made.capacity = capacity;
    const cusStatus status = allocateDiff(&made, rows, with_mask ? maskCols(cols, type) : 0, space);
    if (status != CUS_OK) {
        cusSparseDiffRelease(&made);
        return status;
    }
    cusSparseDiffRelease(diff);
    *diff = made;
    return CUS_OK;
}

void cusSparseDiffRelease(cusSparseDiff *diff) {
    CUSI_TRACE;
    if (!diff)
        return;
    cusMatRelease(&diff->positions);
    cusMatRelease(&diff->values);
    cusMatRelease(&diff->count);
    cusMatRelease(&diff->mask);
    diff->capacity = 0;
}

cusStatus cusSparseDiffCount(const cusSparseDiff *diff, uint32_t *count, cusStream stream) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusSparseDiffCount", diff);
    CUSI_NOT_NULL("cusSparseDiffCount", count);
    CUSI_REQUIRE(diff->count.data, CUS_ERROR_NULL, "cusSparseDiffCount: diff is empty; create it with cusSparseDiffCreate");
    CUS_TRY(cusi_checkInput("cusSparseDiffCount", "diff's count", &diff->count, CUSI_TYPES(CUS_32SC1)));
    CUS_TRY(cusi_checkStream("cusSparseDiffCount", diff->count.space, stream));
    uint32_t found = 0;
    if (diff->count.space == CUS_DEVICE) {
        CUS_TRY(cusi_refuseCapture("cusSparseDiffCount", stream, "the call waits for it"));
        cusMat host = CUS_MAT_INIT;
        CUS_TRY(cusMatWrap(&host, 1, 1, CUS_32SC1, CUS_HOST, &found, 0));
        CUS_TRY(CUSI_LONG("cusSparseDiffCount", cusMatDownload(&diff->count, &host, stream)));
        CUS_TRY(cusStreamSynchronize(stream));
    } else {
        found = *(const uint32_t *)diff->count.data;
    }
    *count = found;
    CUSI_REQUIRE(found <= diff->capacity, CUS_ERROR_CAPACITY,
                 "cusSparseDiffCount: %u bytes changed, capacity is %u; the reference is unchanged", found, diff->capacity);
    return CUS_OK;
}

cusDiffOptions cusDiffDefaults(void) {
    return (cusDiffOptions){.threshold = 20, .min_neighbors = 0};
}

cusStatus cusDiffEncoderCreate(cusDiffEncoder **encoder, int rows, int cols, int type, cusSpace space,
                               const cusDiffOptions *options) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusDiffEncoderCreate", encoder);
    CUS_TRY(checkFrameShape("cusDiffEncoderCreate", rows, cols, type, space));
    const cusDiffOptions chosen = options ? *options : cusDiffDefaults();
    CUS_TRY(cusi_checkReserved("cusDiffEncoderCreate", "options->", chosen.reserved));
    CUSI_REQUIRE(chosen.threshold >= 0 && chosen.threshold <= 255, CUS_ERROR_VALUE,
                 "cusDiffEncoderCreate: threshold is %d, expected 0..255", chosen.threshold);
    CUSI_REQUIRE(chosen.min_neighbors >= 0 && chosen.min_neighbors <= 8, CUS_ERROR_VALUE,
                 "cusDiffEncoderCreate: min_neighbors is %d, expected 0..8", chosen.min_neighbors);
    cusDiffEncoder *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "cusDiffEncoderCreate: out of host memory");
    made->options = chosen;
    cusStatus status = createFrame(&made->ref, rows, cols, type, space);
    if (status == CUS_OK)
        status = CUSI_BACKEND("cusDiffEncoderCreate", space, framediff_host_prepare(made), framediff_cuda_prepare(made));
    if (status == CUS_OK)
        status = cusi_guardCreate("cusDiffEncoderCreate", &made->guard, space);
    if (status != CUS_OK) {
        cusDiffEncoderDestroy(made);
        return status;
    }
    *encoder = made;
    return CUS_OK;
}

void cusDiffEncoderDestroy(cusDiffEncoder *encoder) {
    CUSI_TRACE;
    if (!encoder)
        return;
    cusMatRelease(&encoder->ref);
    cusMatRelease(&encoder->scratch); /* waits until the device no longer uses it */
    cusMatRelease(&encoder->changed);
    if (encoder->dense_hint)
        cusi_pinnedFree(encoder->dense_hint);
    cusi_guardRelease(&encoder->guard);
    free(encoder);
}

static cusStatus reset(const char *function, cusMat *state, const cusMat *frame, const char *owner, cusStream stream) {
    if (!frame)
        return cusMatSetZero(state, stream);
    CUS_TRY(cusi_checkMat(function, "frame", frame));
    CUS_TRY(checkSame(function, "frame", frame, owner, state));
    CUS_TRY(cusi_checkNoOverlap(function, "frame", frame, "the object's own frame", state));
    return cusMatCopy(frame, state, stream);
}

cusStatus cusDiffEncoderReset(cusDiffEncoder *encoder, const cusMat *frame, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusDiffEncoderReset";
    CUSI_GUARDED(function, encoder, stream, reset(function, &encoder->ref, frame, "the encoder", stream));
}

/* The frames of one call. */
typedef struct Frames {
    int count;
    cusDiffEncoder *const *encoder;
    const cusMat *frame;
    cusSparseDiff *diff;
    bool is_batch; /* messages name the frame */
} Frames;

/* Checks frame i, whose encoder is like the others. */
static cusStatus checkFrame(const char *function, const Frames *f, int i) {
    char text[4][CUSI_ITEM_NAME];
    const char *names[4] = {"frame", "the encoder", "diff", "the encoder's reference"};
    static const char *const of_batch[4] = {"frame", "encoder", "diff", "the reference of encoder"};
    for (int k = 0; k < 4 && f->is_batch; ++k)
        names[k] = cusi_itemName(text[k], of_batch[k], i);
    /* A single frame may be NULL, to which nothing may be added. */
    const cusMat *const frame = i ? &f->frame[i] : f->frame, *const ref = &f->encoder[i]->ref;
    CUS_TRY(cusi_checkMat(function, names[0], frame));
    CUS_TRY(checkSame(function, names[0], frame, names[1], ref));
    CUS_TRY(checkDiff(function, names[2], i ? &f->diff[i] : f->diff, ref));
    return cusi_checkNoOverlap(function, names[0], frame, names[3], ref);
}

static cusStatus encodeOnHost(const char *function, const Frames *f) {
    const int i = framediff_host_encode(f->count, f->encoder, f->frame, f->diff);
    if (i == f->count)
        return CUS_OK;
    char name[CUSI_ITEM_NAME] = "diff";
    return cusi_fail(CUS_ERROR_CAPACITY, "%s: %u bytes changed, %s has capacity %u; the reference is unchanged", function,
                     *(const uint32_t *)f->diff[i].count.data, f->is_batch ? cusi_itemName(name, "diff", i) : name,
                     f->diff[i].capacity);
}

static cusStatus encode(const char *function, const Frames *f, cusStream stream) {
    for (int i = 0; i < f->count; ++i)
        CUS_TRY(checkFrame(function, f, i));
    return CUSI_BACKEND(function, f->frame->space, encodeOnHost(function, f),
                        framediff_cuda_encode(function, f->count, f->encoder, f->frame, f->diff, stream));
}

cusStatus cusDiffEncode(cusDiffEncoder *encoder, const cusMat *frame, cusSparseDiff *diff, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusDiffEncode";
    const Frames frames = {1, &encoder, frame, diff, false};
    CUSI_GUARDED(function, encoder, stream, encode(function, &frames, stream));
}

/* Enters encoder i of a batch, after all before it. */
static cusStatus enter(const char *function, cusDiffEncoder *const *encoders, int i, cusStream stream) {
    cusDiffEncoder *const encoder = encoders[i], *const first = encoders[0];
    CUSI_REQUIRE(encoder, CUS_ERROR_NULL, "%s: encoder[%d] is NULL", function, i);
    char name[CUSI_ITEM_NAME];
    (void)cusi_itemName(name, "encoder", i);
    CUS_TRY(checkSame(function, name, &encoder->ref, "encoder[0]", &first->ref));
    const cusStatus status = cusi_enterNext(function, name, &encoder->guard, stream, i > 0 ? &first->guard : NULL);
    for (int k = 0; k < i && status == CUS_ERROR_BUSY; ++k)
        CUSI_REQUIRE(encoders[k] != encoder, CUS_ERROR_ALIAS, "%s: encoder[%d] is encoder[%d], expected one for each frame",
                     function, i, k);
    return status;
}

cusStatus cusDiffEncodeBatch(int count, cusDiffEncoder *const *encoder, const cusMat *frame, cusSparseDiff *diff,
                             cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusDiffEncodeBatch";
    CUS_TRY(cusi_checkBatch(function, count));
    CUSI_NOT_NULL(function, encoder);
    CUSI_NOT_NULL(function, frame);
    CUSI_NOT_NULL(function, diff);
    cusStatus status = CUS_OK;
    int entered = 0;
    while (status == CUS_OK && entered < count) {
        status = enter(function, encoder, entered, stream);
        entered += status == CUS_OK;
    }
    if (status == CUS_OK)
        status = encode(function, &(Frames){count, encoder, frame, diff, true}, stream);
    while (entered > 0)
        status = cusi_leave(function, &encoder[--entered]->guard, stream, status);
    return status;
}

static cusStatus view(const char *function, const cusMat *state, cusMat *out) {
    CUSI_REQUIRE(out, CUS_ERROR_NULL, "%s: view is NULL", function);
    return cusMatRegion(state, 0, 0, state->cols, state->rows, out);
}

cusStatus cusDiffEncoderReference(const cusDiffEncoder *encoder, cusMat *out) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusDiffEncoderReference", encoder);
    return view("cusDiffEncoderReference", &encoder->ref, out);
}

cusStatus cusDiffDecoderCreate(cusDiffDecoder **decoder, int rows, int cols, int type, cusSpace space) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusDiffDecoderCreate", decoder);
    CUS_TRY(checkFrameShape("cusDiffDecoderCreate", rows, cols, type, space));
    cusDiffDecoder *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "cusDiffDecoderCreate: out of host memory");
    cusStatus status = createFrame(&made->frame, rows, cols, type, space);
    if (status == CUS_OK)
        status = cusi_guardCreate("cusDiffDecoderCreate", &made->guard, space);
    if (status != CUS_OK) {
        cusDiffDecoderDestroy(made);
        return status;
    }
    *decoder = made;
    return CUS_OK;
}

void cusDiffDecoderDestroy(cusDiffDecoder *decoder) {
    CUSI_TRACE;
    if (!decoder)
        return;
    cusMatRelease(&decoder->frame);
    cusi_guardRelease(&decoder->guard);
    free(decoder);
}

cusStatus cusDiffDecoderReset(cusDiffDecoder *decoder, const cusMat *frame, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusDiffDecoderReset";
    CUSI_GUARDED(function, decoder, stream, reset(function, &decoder->frame, frame, "the decoder", stream));
}

static cusStatus decode(cusDiffDecoder *decoder, const cusSparseDiff *diff, cusStream stream) {
    CUS_TRY(checkDiff("cusDiffDecode", "diff", diff, &decoder->frame));
    return CUSI_BACKEND("cusDiffDecode", decoder->frame.space, framediff_host_decode(decoder, diff),
                        framediff_cuda_decode(decoder, diff, stream));
}

cusStatus cusDiffDecode(cusDiffDecoder *decoder, const cusSparseDiff *diff, cusStream stream) {
    CUSI_TRACE;
    CUSI_GUARDED("cusDiffDecode", decoder, stream, decode(decoder, diff, stream));
}

cusStatus cusDiffDecoderFrame(const cusDiffDecoder *decoder, cusMat *out) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusDiffDecoderFrame", decoder);
    return view("cusDiffDecoderFrame", &decoder->frame, out);
}
