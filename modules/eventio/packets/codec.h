/* Decompression of one block: LZ4 and zstd frames, bzip2. */
#ifndef CUSI_EVENTIO_PACKETS_CODEC_H
#define CUSI_EVENTIO_PACKETS_CODEC_H

#include <stddef.h>
#include <stdint.h>

typedef enum PacketCodec { CODEC_NONE, CODEC_LZ4, CODEC_ZSTD, CODEC_BZIP2, CODEC_COUNT } PacketCodec;

typedef enum Unpacked {
    UNPACK_DONE,
    UNPACK_SHORT, /* the input ends within the stream */
    UNPACK_BAD,   /* not such a stream, or more than one */
    UNPACK_LARGE, /* gives more than fits */
    UNPACK_NO_MEMORY,
    UNPACK_ABSENT /* built without the library */
} Unpacked;

/* Decompresses one stream to at most `capacity` bytes, and sets *size to how many it gave. Without CODEC_NONE. */
Unpacked eventio_unpack(PacketCodec codec, const uint8_t *in, size_t n, uint8_t *out, size_t capacity, size_t *size);

/* Returns "LZ4", "zstd" or "bzip2". */
const char *eventio_codecName(PacketCodec codec);

#endif
