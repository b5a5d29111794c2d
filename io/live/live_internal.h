/* Shared by the sender, the peer and the viewer of live video. */
#ifndef CUSI_LIVE_INTERNAL_H
#define CUSI_LIVE_INTERNAL_H

#include "check.h"
#include "cusight/live.h"
#include "guard.h"

/* The shape of the frames, and the sizes that follow from it. Rows are not padded. */
typedef struct LiveShape {
    int rows, cols, type;
    size_t row_bytes, frame_bytes;
    size_t mask_row_bytes, mask_bytes;
    size_t max_raw_bytes; /* of the largest uncompressed payload: the mask and a value for every byte */
} LiveShape;

/* Checks the shape and fills the struct. */
cusStatus live_shape(const char *function, int rows, int cols, int type, LiveShape *shape);

/* An otherwise zero header of this type with the sizes of `shape` (NULL: none). */
cusWireHeader live_header(cusWireType type, const LiveShape *shape);

/* Whether the header's checksum is that of header and payload. */
int live_checksumMatches(const uint8_t header[CUS_WIRE_HEADER_BYTES], const void *payload, size_t bytes);

/* ---- Compression --------------------------------------------------------------------------------------------------- */

typedef struct LiveCompressor LiveCompressor;

/* For up to max_bytes at a time on up to `threads` threads. UNSUPPORTED in a build without libzstd. */
cusStatus live_compressorCreate(const char *function, int compression_level, int threads, size_t max_bytes,
                                LiveCompressor **compressor);
void live_compressorDestroy(LiveCompressor *compressor);

typedef struct LiveDecompressor LiveDecompressor;
cusStatus live_decompressorCreate(const char *function, LiveDecompressor **decompressor);
void live_decompressorDestroy(LiveDecompressor *decompressor);

/* Whether the payload is Zstandard frames that decompress to exactly raw_bytes. Never writes more than that. */
int live_decompress(LiveDecompressor *decompressor, const uint8_t *payload, size_t bytes, uint8_t *raw, size_t raw_bytes);

/* Writes a complete message at `out`: the header, then the payload `raw` (the first mask_bytes of which are a mask),
 * compressed if that is smaller. `out` has room for the header and raw_bytes. Returns the size of the message. The result
 * does not depend on the number of threads. */
size_t live_packMessage(LiveCompressor *compressor, cusWireHeader header, const uint8_t *raw, size_t mask_bytes,
                        size_t raw_bytes, uint8_t *out);

/* ---- Masks --------------------------------------------------------------------------------------------------------- */

/* Adds the values, modulo 256, to the bytes of `sum` that the mask selects. */
void live_addValues(const LiveShape *shape, const uint8_t *mask, const uint8_t *values, uint8_t *sum);

/* Whether the mask has as many bits as there are values, and none past the end of a row. */
int live_maskMatches(const LiveShape *shape, const uint8_t *mask, size_t values);

/* ---- Key frames ---------------------------------------------------------------------------------------------------- */

/* PNG's Up filter: each row becomes its difference from the row above, modulo 256. Frames then compress a third better. */
void live_filterRows(const LiveShape *shape, uint8_t *frame);
void live_unfilterRows(const LiveShape *shape, const uint8_t *filtered, uint8_t *frame);

#endif
