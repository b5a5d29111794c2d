/* What the parts of the stream module share. Names start with livei_. */
#ifndef CUSI_LIVE_INTERNAL_H
#define CUSI_LIVE_INTERNAL_H

#include "check.h"
#include "cusight/live.h"

/* The shape of the frames, and what follows from it. */
typedef struct LiveShape {
    int rows, cols, type;
    size_t row_bytes, frame_bytes; /* tight */
    size_t mask_row_bytes, mask_bytes;
    size_t raw_bytes; /* of the largest uncompressed payload: a mask and a value for each byte */
} LiveShape;

cusStatus livei_shape(const char *function, int rows, int cols, int type, LiveShape *shape);

/* An all-zero header of this type with the sizes of `shape` (NULL: none). */
cusWireHeader livei_header(cusWireType type, const LiveShape *shape);

/* header->crc is that of header and payload. */
int livei_checksumHolds(const uint8_t header[CUS_WIRE_HEADER_BYTES], const void *payload, size_t bytes);

/* ---- Compression ----------------------------------------------------------------------------------------------------- */

typedef struct LiveCompressor LiveCompressor;

/* For up to max_bytes at a time on up to `threads` threads. UNSUPPORTED in a build without libzstd. */
cusStatus livei_compressorCreate(const char *function, int level, int threads, size_t max_bytes,
                                 LiveCompressor **compressor);
void livei_compressorDestroy(LiveCompressor *compressor);

/* Compresses `bytes`, the first mask_bytes of which are a mask (or 0). Compressed size, at `out`, or 0 when it would not be
 * smaller. The result does not depend on `threads`. */
size_t livei_compress(LiveCompressor *compressor, const uint8_t *raw, size_t mask_bytes, size_t bytes, uint8_t *out);

typedef struct LiveDecompressor LiveDecompressor;
cusStatus livei_decompressorCreate(const char *function, LiveDecompressor **decompressor);
void livei_decompressorDestroy(LiveDecompressor *decompressor);

/* Whether `bytes` of payload are Zstandard frames that decompress to exactly raw_bytes; never writes more than those. */
int livei_decompress(LiveDecompressor *decompressor, const uint8_t *payload, size_t bytes, uint8_t *raw, size_t raw_bytes);

/* Finishes a message whose raw payload is `raw` (mask_bytes of mask first): payload and header at `out` (room for header
 * and raw_bytes), compressed where that is smaller. Returns the size of the message. */
size_t livei_packMessage(LiveCompressor *compressor, cusWireHeader header, const uint8_t *raw, size_t mask_bytes,
                         size_t raw_bytes, uint8_t *out);

/* ---- Masks ----------------------------------------------------------------------------------------------------------- */

/* sum[i] += value for each byte i in the mask, row by row. */
void livei_addValues(const LiveShape *shape, const uint8_t *mask, const uint8_t *values, uint8_t *sum);

/* The mask has as many bits as there are values and none past a row's end. */
int livei_maskHolds(const LiveShape *shape, const uint8_t *mask, size_t values);

/* ---- Key frames ------------------------------------------------------------------------------------------------------ */

/* Each row becomes its difference from the row above, modulo 256, and back: pictures compress a third better so. */
void livei_rowsToDifferences(const LiveShape *shape, uint8_t *picture);
void livei_differencesToRows(const LiveShape *shape, const uint8_t *differences, uint8_t *picture);

#endif
