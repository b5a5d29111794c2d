/* Compression of payloads with Zstandard. */
#ifndef CUSI_LIVE_COMPRESS_H
#define CUSI_LIVE_COMPRESS_H

#include "cusight/live.h"

typedef struct LiveCompressor LiveCompressor;

/* Creates a compressor for up to max_bytes at a time on up to `threads` threads. Fails with UNSUPPORTED without
 * libzstd. */
cusStatus live_compressorCreate(const char *function, int compression_level, int threads, size_t max_bytes,
                                LiveCompressor **compressor);
void live_compressorDestroy(LiveCompressor *compressor);

typedef struct LiveDecompressor LiveDecompressor;
cusStatus live_decompressorCreate(const char *function, LiveDecompressor **decompressor);
void live_decompressorDestroy(LiveDecompressor *decompressor);

/* Returns whether the payload is Zstandard frames that decompress to exactly raw_bytes. Never writes more than that. */
int live_decompress(LiveDecompressor *decompressor, const uint8_t *payload, size_t bytes, uint8_t *raw, size_t raw_bytes);

/* Writes a complete message at `out`: the header, then the payload `raw` (the first mask_bytes of which are a mask),
 * compressed if that is smaller. `out` has room for the header and raw_bytes. Returns the size of the message. The result
 * does not depend on the number of threads. */
size_t live_packMessage(LiveCompressor *compressor, cusWireHeader header, const uint8_t *raw, size_t mask_bytes,
                        size_t raw_bytes, uint8_t *out);

#endif
