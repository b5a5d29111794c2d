/* LZF, as LibLZF documents it. A control byte c below 32 is followed by c + 1 literal bytes. Otherwise the upper three bits
 * of c are a length, to which the next byte is added if they are 7; its lower five bits and one more byte are a distance.
 * Then length + 2 bytes are copied from distance + 1 bytes back. */
#ifndef CUSI_LZF_H
#define CUSI_LZF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CUSI_LZF_MAX_MATCH = 264, CUSI_LZF_MAX_DISTANCE = 8192 };

/* Decodes `in`, and returns whether it gives exactly out_size bytes. Reads and writes only within the given sizes, whatever
 * the data. */
int cusi_lzfDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size);
/* Returns the bytes written, or 0 if they would not be fewer than in_size. `out` has room for in_size bytes. */
size_t cusi_lzfEncode(const uint8_t *in, size_t in_size, uint8_t *out);

#ifdef __cplusplus
}
#endif

#endif
