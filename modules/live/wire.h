/* The wire format as the sender, its peers and the viewer share it; docs/wire-format.md is its definition. */
#ifndef CUSI_LIVE_WIRE_H
#define CUSI_LIVE_WIRE_H

#include "cusight/live.h"

/* Payloads that are not those of frames, and what the sender's hello offers. */
enum { LIVE_HELLO_BYTES = 8, LIVE_CHECKSUM_BYTES = 8, LIVE_OFFERS_CHECKSUMS = 1 };

/* The shape of the frames, and the sizes that follow from it. Rows are not padded. */
typedef struct LiveShape {
    int rows, cols, type;
    size_t row_bytes, frame_bytes;
    size_t mask_row_bytes, mask_bytes;
    size_t max_raw_bytes; /* the largest uncompressed payload: the mask and a value for every byte */
} LiveShape;

/* Checks the shape and fills the struct. */
cusStatus live_shape(const char *function, int rows, int cols, int type, LiveShape *shape);

/* Returns a header of this type with the sizes of `shape` (NULL: none), otherwise zero. */
cusWireHeader live_header(cusWireType type, const LiveShape *shape);

/* Store and load little-endian numbers of up to 8 bytes. */
void live_store(uint8_t *at, uint64_t value, int bytes);
uint64_t live_load(const uint8_t *at, int bytes);

/* Returns whether the header's checksum is that of header and payload. */
int live_checksumMatches(const uint8_t header[CUS_WIRE_HEADER_BYTES], const void *payload, size_t bytes);

/* ---- Masks --------------------------------------------------------------------------------------------------------- */

/* Adds the values, modulo 256, to the bytes of `sum` that the mask selects. */
void live_addValues(const LiveShape *shape, const uint8_t *mask, const uint8_t *values, uint8_t *sum);

/* Returns whether the mask has as many bits as there are values, and none past the end of a row. */
int live_maskMatches(const LiveShape *shape, const uint8_t *mask, size_t values);

/* ---- Key frames ---------------------------------------------------------------------------------------------------- */

/* Apply PNG's Up filter: each row becomes its difference from the row above, modulo 256. Frames then compress a third
 * better. */
void live_filterRows(const LiveShape *shape, uint8_t *frame);
void live_unfilterRows(const LiveShape *shape, const uint8_t *filtered, uint8_t *frame);

#endif
