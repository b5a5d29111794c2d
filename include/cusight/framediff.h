/* cusight/framediff.h: sparse frame differences with error feedback, heatmap, noise view.
 *
 * Frames are 8UC1, 8UC3 or 8UC4, 1x1 or larger, any row step. Host and CUDA results are bit-identical.
 *
 * The sparse difference. The encoder keeps `ref`, the frame that the receiver has. For each byte of a new frame,
 * d = cur - ref; where |d| > threshold the byte is emitted (position and d modulo 256) and ref gets the new value;
 * elsewhere ref is unchanged, so the small error remains in the next frame's difference and is sent once it exceeds the
 * threshold. After every frame the decoder's frame equals `ref` exactly and |ref - cur| <= threshold everywhere;
 * threshold 0 is lossless. Method: difference coding with error feedback (closed-loop DPCM with a dead zone); the in-place
 * reference and the ordered compaction (decoupled look-back, Merrill and Garland 2016) are this library's.
 */
#ifndef CUSIGHT_FRAMEDIFF_H
#define CUSIGHT_FRAMEDIFF_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- One encoded frame ----------------------------------------------------------------------------------------------- */

/* What the encoder writes and the decoder reads. Byte i of a frame is the byte at row-major index
 * i = (y * cols + x) * channels + c, whatever the frame's row step. */
typedef struct cusSparseDiff {
    cusMat positions; /* 1 x capacity, 32SC1 holding uint32 values: i, strictly ascending */
    cusMat values;    /* 1 x capacity, 8UC1: d modulo 256 */
    cusMat count;     /* 1 x 1, 32SC1 holding a uint32: how many bytes changed. If more than capacity, none is delivered */
    cusMat mask;      /* empty, or rows x ceil(cols * channels / 8), 8UC1: bit b (b = 0 is the lowest) of byte k of row y is
                         set where byte 8 k + b of frame row y is emitted; bits past the row's end are 0 */
    uint32_t capacity; /* entries of positions and values */
} cusSparseDiff;

/* An empty diff. */
#ifdef __cplusplus
#define CUS_SPARSE_DIFF_INIT \
    {}
#else
#define CUS_SPARSE_DIFF_INIT \
    { CUS_MAT_INIT, CUS_MAT_INIT, CUS_MAT_INIT, CUS_MAT_INIT, 0 }
#endif

/* Allocates a diff for frames of rows x cols of type. capacity: how many changed bytes fit; 0 means every byte of the
 * frame, which is always enough (5 bytes of memory per byte of frame; lists hold at most 2^31 - 1 entries). with_mask: also
 * allocates a changed-byte mask. The size limit is that of cusDiffEncoderCreate. Errors: NULL, VALUE, TYPE, SIZE,
 * NO_MEMORY, NO_CUDA. */
CUS_API cusStatus cusSparseDiffCreate(cusSparseDiff *diff, int rows, int cols, int type, uint32_t capacity, int with_mask,
                                      cusSpace space);
/* Safe on NULL and on an empty diff. */
CUS_API void cusSparseDiffRelease(cusSparseDiff *diff);

/* Waits for `stream` (device) and reads the number of changed bytes. CUS_ERROR_CAPACITY if they did not fit: `count`
 * is still set, nothing was delivered and the encoder's reference is unchanged. */
CUS_API cusStatus cusSparseDiffCount(const cusSparseDiff *diff, uint32_t *count, cusStream stream);

/* ---- Encoder and decoder --------------------------------------------------------------------------------------------- */

/* What counts as a change. */
typedef struct cusDiffOptions {
    int threshold;     /* 0..255, default 20: changes up to this value are not sent */
    int min_neighbors; /* 0..8, default 0 (no noise filter): a pixel with a channel changed above threshold but fewer than
                           this many changed pixels among its 8 neighbors is treated as noise: not sent, reference kept, so
                           a lasting change is still sent later. Pixels outside the frame count as unchanged. */
    uint64_t reserved[8]; /* 0: for later options */
} cusDiffOptions;

/* Returns these defaults. */
CUS_API cusDiffOptions cusDiffDefaults(void);

/* The sending end: holds the reference. */
typedef struct cusDiffEncoder cusDiffEncoder;
/* The receiving end: holds the frame. */
typedef struct cusDiffDecoder cusDiffDecoder;

/* Allocates everything; encoding allocates nothing and does not wait. `options` NULL: defaults. The reference starts black.
 * One call at a time may use an object (else BUSY), in any stream (core.h); others are independent. Limit:
 * rows * cols * channels <= 2^32 - 2, so that positions fit 32 bits. Errors: NULL, VALUE, TYPE, SIZE, NO_MEMORY,
 * NO_CUDA. */
CUS_API cusStatus cusDiffEncoderCreate(cusDiffEncoder **encoder, int rows, int cols, int type, cusSpace space,
                                       const cusDiffOptions *options);
/* Safe on NULL. */
CUS_API void cusDiffEncoderDestroy(cusDiffEncoder *encoder);

/* Restarts from a key frame: ref = frame, or black if frame is NULL. */
CUS_API cusStatus cusDiffEncoderReset(cusDiffEncoder *encoder, const cusMat *frame, cusStream stream);

/* Encodes one frame into `diff` (created by cusSparseDiffCreate for this size and space, with any capacity and with or
 * without a mask) and updates the reference. Ready: host at return; device in stream order. `frame` must not be the
 * reference. If the capacity is too small: CUS_ERROR_CAPACITY on the host; on the device, cusSparseDiffCount reports it. In
 * both cases count holds how many bytes changed, positions and values are unspecified, the mask shows the changes, and the
 * reference is unchanged.
 * Cost: reads frame and reference once (twice with the noise filter), writes the sectors of the reference that change and 5
 * bytes per changed byte. On the device, a diff with less capacity than the frame has bytes costs a second launch, which
 * applies the list; each row of the reference takes a multiple of 512 bytes, so tall images of a few columns cost much more
 * than their bytes in time and memory. */
CUS_API cusStatus cusDiffEncode(cusDiffEncoder *encoder, const cusMat *frame, cusSparseDiff *diff, cusStream stream);

/* cusDiffEncode of each of `count` frames, 1..CUS_MAX_BATCH, with the same bits: diff[i] of frame[i] by encoder[i], with
 * that encoder's options. For many small frames, such as those of several cameras: the device takes up to 32 frames in one
 * launch, as many as fill it once; the host shares all frames among its threads.
 * encoder: different ones of one size, type and space. diff: each as for cusDiffEncode. No frame or diff may overlap the
 * diff or the reference of another; that is not checked. If the capacity of some is too small: CUS_ERROR_CAPACITY on the
 * host, whose message names the first of them; as with cusDiffEncode, only their references are unchanged.
 * Cost on the device: large frames that change much take longer than by cusDiffEncode. Errors: as cusDiffEncode, VALUE
 * (count), ALIAS (an encoder twice); nothing changes if any frame is rejected. */
CUS_API cusStatus cusDiffEncodeBatch(int count, cusDiffEncoder *const *encoder, const cusMat *frame, cusSparseDiff *diff,
                                     cusStream stream);

/* Makes a view of the reference, valid while the encoder lives; its contents change in stream order with each encode. */
CUS_API cusStatus cusDiffEncoderReference(const cusDiffEncoder *encoder, cusMat *view);

/* Allocates everything, for frames as the encoder's. The frame starts black. Errors: as cusDiffEncoderCreate. */
CUS_API cusStatus cusDiffDecoderCreate(cusDiffDecoder **decoder, int rows, int cols, int type, cusSpace space);
/* Safe on NULL. */
CUS_API void cusDiffDecoderDestroy(cusDiffDecoder *decoder);
/* Restarts from a key frame, or from black if frame is NULL. */
CUS_API cusStatus cusDiffDecoderReset(cusDiffDecoder *decoder, const cusMat *frame, cusStream stream);

/* frame[positions[k]] += values[k] modulo 256. A diff whose count exceeds its capacity changes nothing. A position
 * outside the frame: on the host CUS_ERROR_VALUE, with nothing changed; on the device that entry is skipped.
 * Cost: 5 bytes read and one byte updated per changed byte. */
CUS_API cusStatus cusDiffDecode(cusDiffDecoder *decoder, const cusSparseDiff *diff, cusStream stream);

/* Makes a view of the decoded frame, valid while the decoder lives. */
CUS_API cusStatus cusDiffDecoderFrame(const cusDiffDecoder *decoder, cusMat *view);

/* ---- Pictures of the difference -------------------------------------------------------------------------------------- */

/* The colors of a heatmap. */
typedef struct cusHeatmapOptions {
    int full_scale;        /* 1..65535, default 765: the summed difference that is shown pure red */
    const uint8_t *colors; /* default NULL. Your own: B, G, R for each summed difference 0..765, 2298 bytes, read during
                              the call; full_scale is then ignored */
    uint64_t reserved[8];  /* 0: for later options */
} cusHeatmapOptions;

/* Returns these defaults. */
CUS_API cusHeatmapOptions cusHeatmapDefaults(void);

/* Shows the difference of two frames in colors.
 * d = |dB| + |dG| + |dR| (one channel: 3 |d|; a fourth channel is ignored), n = d / full_scale,
 * B = 255 sin(pi n + pi/2), G = 255 sin(pi n), R = 255 sin(pi n - pi/2), each clamped to 0..255 and truncated.
 * With `colors`, the color of d is colors[3 d], colors[3 d + 1], colors[3 d + 2].
 * prev, cur: 8UC1, 8UC3 or 8UC4 of equal size and type. dst: 8UC3 BGR, created as needed; it must not overlap the inputs.
 * No change is blue, half scale green, full scale red; beyond full scale (with full_scale 510, say) it darkens again.
 * `options` NULL: defaults. Cost: one read of each input, one write. Errors: NULL, VALUE, TYPE, SIZE, SPACE, ALIAS. */
CUS_API cusStatus cusHeatmap(const cusMat *prev, const cusMat *cur, cusMat *dst, const cusHeatmapOptions *options,
                             cusStream stream);

/* cusHeatmap of each of `count` pairs of frames, 1..CUS_MAX_BATCH, with the same bits: dst[i] of prev[i] and cur[i]. For
 * many small frames, such as those of several cameras: the device takes up to 64 pairs in one launch (16 with colors or a
 * full scale of your own), the host shares all frames among its threads.
 * prev, cur: of one size and type. dst: each as for cusHeatmap; none may overlap another matrix of the call. That is
 * checked only within a pair. Errors: as cusHeatmap, and VALUE (count); nothing changes if any pair is rejected. */
CUS_API cusStatus cusHeatmapBatch(int count, const cusMat *prev, const cusMat *cur, cusMat *dst,
                                  const cusHeatmapOptions *options, cusStream stream);

/* Makes pixels red (0, 0, 255) where d > threshold, black elsewhere; d as above, threshold 0..765, typically 30. Otherwise
 * like cusHeatmap. */
CUS_API cusStatus cusNoiseView(const cusMat *prev, const cusMat *cur, cusMat *dst, int threshold, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_FRAMEDIFF_H */
