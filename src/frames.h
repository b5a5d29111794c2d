/* Frames pass chunks of HDF5 recordings to a decoder of raw bytes as they are stored (cusight/raw.h). A frame is its
 * header, then its chunks, each at a multiple of UNIT bytes. Everything is little-endian.
 *
 * A chunk of columns (CUSI_FRAME_LZF) has a header of CUSI_COLUMNS_HEADER bytes, then the bytes of x, y, p and t one after
 * the other:
 *
 *   4 bytes   rows
 *   4 bytes   flags, CUSI_COLUMNS_...
 *   8 bytes   added to each time
 *   4 x 4     how many bytes x, y, p and t have; with CUSI_COLUMNS_PLAIN the column is not compressed
 *
 * ecf.h describes chunks of ECF, lzf.h LZF. */
#ifndef CUSI_FRAMES_H
#define CUSI_FRAMES_H

#include "ecf.h"

#include <stdint.h>

enum {
    CUSI_FRAME_ECF = 0x31464345, /* "ECF1", which begins a frame */
    CUSI_FRAME_LZF = 0x31465a4c, /* "LZF1" */
    CUSI_FRAME_UNIT = 256,
    CUSI_FRAME_START =
        8, /* magic and number of chunks; then ENTRY bytes for each: its bytes, and how many of its events are taken */
    CUSI_FRAME_ENTRY = 8,
    CUSI_FRAME_CHUNKS = 255,
    CUSI_FRAME_HEADER = CUSI_FRAME_START + CUSI_FRAME_CHUNKS * CUSI_FRAME_ENTRY /* the longest header */
};

/* Limits of a chunk. */
enum { CUSI_CHUNK_MAX_EVENTS = 65535, CUSI_CHUNK_MAX_BYTES = 1 << 20 };

enum {
    CUSI_COLUMNS = 4,
    CUSI_COLUMNS_HEADER = 32,
    CUSI_COLUMNS_SHORT_T = 1,  /* t has 4 bytes; otherwise 8 */
    CUSI_COLUMNS_SIGNED_T = 2, /* t of 8 bytes is signed; otherwise below 2^62 */
    CUSI_COLUMNS_SIGNED_P = 4, /* p may be 255, which is -1: negative */
    CUSI_COLUMNS_FLAGS = 7     /* all of them */
};
#define CUSI_COLUMNS_PLAIN 0x80000000u

#ifdef __CUDACC__
#define CUSI_FRAMES_INLINE __host__ __device__ static inline
#else
#define CUSI_FRAMES_INLINE static inline
#endif

/* Returns how many bytes of a frame `size` bytes take. */
CUSI_FRAMES_INLINE uint32_t cusi_frameSlot(uint32_t size) {
    return (size + CUSI_FRAME_UNIT - 1) / CUSI_FRAME_UNIT * CUSI_FRAME_UNIT;
}
CUSI_FRAMES_INLINE uint32_t cusi_frameHeader(uint32_t chunks) {
    return cusi_frameSlot(CUSI_FRAME_START + chunks * CUSI_FRAME_ENTRY);
}
/* Returns whether a header may claim this size and number of events for a chunk. In ECF x takes at least a third of a
 * byte. LZF makes at most 88 bytes of one, and a row has at least 9. */
CUSI_FRAMES_INLINE int cusi_isFrameEntry(uint32_t magic, uint32_t size, uint32_t events) {
    const int is_ecf = magic == CUSI_FRAME_ECF;
    const uint32_t least = is_ecf ? (uint32_t)CUSI_ECF_HEADER : (uint32_t)CUSI_COLUMNS_HEADER;
    return size >= least && size <= CUSI_CHUNK_MAX_BYTES && events <= CUSI_CHUNK_MAX_EVENTS &&
           events <= (is_ecf ? 3u : 10u) * size;
}
/* Returns the bytes of an element of column `which`. */
CUSI_FRAMES_INLINE uint32_t cusi_columnWidth(int which, uint32_t flags) {
    return which < 2 ? 2 : which == 2 ? 1 : flags & CUSI_COLUMNS_SHORT_T ? 4 : 8;
}

#undef CUSI_FRAMES_INLINE

#endif
