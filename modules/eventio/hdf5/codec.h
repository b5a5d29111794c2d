/* Codecs of HDF5 chunks. All of them read and write within exactly the given sizes, whatever the data. */
#ifndef CUSI_EVENTIO_HDF5_CODEC_H
#define CUSI_EVENTIO_HDF5_CODEC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* HDF5's numbers of the compressions that are decoded here. */
enum {
    EVENTIO_FILTER_DEFLATE = 1,
    EVENTIO_FILTER_LZF = 32000,
    EVENTIO_FILTER_BLOSC = 32001,
    EVENTIO_FILTER_LZ4 = 32004,
    EVENTIO_FILTER_ZSTD = 32015,
    EVENTIO_FILTER_ECF = 0x8ecf
};

/* Returns 1; 0 if this is not Blosc data of that size; -1 without libblosc. */
int eventio_bloscDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size);
/* Returns 1; 0 if these are not LZ4 blocks that give exactly out_size bytes; -1 without liblz4. */
int eventio_lz4Decode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size);
/* Returns 1; 0 if this is not one frame of zstd that gives exactly out_size bytes; -1 without libzstd; -2 out of
 * memory. */
int eventio_zstdDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size);
/* Returns 1; 0 if this is not a zlib stream of exactly out_size bytes; -1 without zlib; -2 out of memory. */
int eventio_deflateDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size);
/* Returns the bytes written, fewer than in_size; 0 if impossible or without zlib; SIZE_MAX out of memory. `out` has
 * room for in_size bytes. */
size_t eventio_deflateEncode(const uint8_t *in, size_t in_size, uint8_t *out, int level);
/* Decodes at most out_size / 16 events of Metavision's type: x, y, p of 16 bits, 16 unused bits, t of 64 bits. Events
 * that the chunk lacks get t -1. Returns whether `in` is well-formed and has no more. */
int eventio_ecfDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size);
/* Decodes exactly n events into columns of 2, 2, 1 and 8 bytes. Returns whether `in` has them. */
int eventio_ecfDecodeColumns(const uint8_t *in, size_t in_size, size_t n, uint8_t *x, uint8_t *y, uint8_t *p, uint8_t *t);
/* Encodes up to 65535 such events, x and y below 2048, p 0 or 1, times not decreasing. `out` has room for 14 bytes an
 * event and 36 more. Returns the bytes written. */
size_t eventio_ecfEncode(const uint8_t *in, size_t in_size, uint8_t *out);
/* Returns Fletcher's checksum as HDF5 computes it: over 16-bit words, most significant byte first. */
uint32_t eventio_fletcher32(const uint8_t *in, size_t size);
/* Returns whether the last four bytes of `in` are the checksum of those before. */
int eventio_fletcher32Good(const uint8_t *in, size_t size);
/* Inverts HDF5's byte shuffle of elements of `element` bytes. Trailing bytes that are not a whole element stay as they
 * are. */
void eventio_unshuffle(const uint8_t *in, size_t size, size_t element, uint8_t *out);

#ifdef __cplusplus
}
#endif

#endif
