/* Codecs of HDF5 chunks. LZF: lzf.h. */
#include "eventio/hdf5/codec.h"
#include "eventio/packets/codec.h"
#include "host.h"

#include <limits.h>
#include <string.h>

#ifdef CUSI_WITH_BLOSC
#include <blosc.h>
#endif
#ifdef CUSI_WITH_LZ4
#include <lz4.h>
#endif
#ifdef CUSI_WITH_ZLIB
#include <zlib.h>
#endif

int eventio_bloscDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size) {
#ifdef CUSI_WITH_BLOSC
    size_t decoded = 0;
    if (in_size < BLOSC_MIN_HEADER_LENGTH || blosc_cbuffer_validate(in, in_size, &decoded) != 0 || decoded != out_size)
        return 0;
    return blosc_decompress_ctx(in, out, out_size, 1) == (int)out_size;
#else
    (void)in, (void)in_size, (void)out, (void)out_size;
    return -1;
#endif
}

#ifdef CUSI_WITH_LZ4
static uint64_t loadBigEndian(const uint8_t *in, int n) {
    uint64_t value = 0;
    for (int i = 0; i < n; ++i)
        value = value << 8 | in[i];
    return value;
}

/* Decodes one block; its size says whether it is compressed. */
static int decodeLz4Block(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size) {
    if (in_size == out_size)
        memcpy(out, in, out_size);
    return in_size == out_size ||
           (in_size <= INT_MAX && out_size <= INT_MAX &&
            LZ4_decompress_safe((const char *)in, (char *)out, (int)in_size, (int)out_size) == (int)out_size);
}
#endif

/* The filter stores 8 bytes with the size of the data and 4 with that of a block before compression, then each block
 * with 4 bytes for its own size; all big-endian. */
int eventio_lz4Decode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size) {
#ifdef CUSI_WITH_LZ4
    enum { HEADER = 12, BLOCK_HEADER = 4 };
    if (in_size < HEADER || loadBigEndian(in, 8) != out_size)
        return 0;
    const size_t block = (size_t)loadBigEndian(in + 8, 4);
    size_t at = HEADER, left = out_size;
    while (left && block && in_size - at >= BLOCK_HEADER) {
        const size_t now = left < block ? left : block, stored = (size_t)loadBigEndian(in + at, BLOCK_HEADER);
        at += BLOCK_HEADER;
        if (stored > in_size - at || !decodeLz4Block(in + at, stored, out + (out_size - left), now))
            return 0;
        at += stored;
        left -= now;
    }
    return !left && at == in_size;
#else
    (void)in, (void)in_size, (void)out, (void)out_size;
    return -1;
#endif
}

int eventio_zstdDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size) {
    size_t size;
    switch (eventio_unpack(CODEC_ZSTD, in, in_size, out, out_size, &size)) {
    case UNPACK_DONE:
        return size == out_size;
    case UNPACK_ABSENT:
        return -1;
    case UNPACK_NO_MEMORY:
        return -2;
    default:
        return 0;
    }
}

int eventio_deflateDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size) {
#if defined(CUSI_WITH_ZLIB) && defined(CUSI_FUZZ) /* fuzzers do not find checksums, which are then not compared */
    z_stream stream = {.next_in = (z_const Bytef *)(uintptr_t)in, .avail_in = (uInt)in_size};
    if (inflateInit(&stream) != Z_OK)
        return -2;
    (void)inflateValidate(&stream, 0);
    stream.next_out = out;
    stream.avail_out = (uInt)out_size;
    const int result = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    return result == Z_MEM_ERROR ? -2 : result == Z_STREAM_END && !stream.avail_out;
#elif defined(CUSI_WITH_ZLIB)
    uLongf decoded = out_size;
    const int result = uncompress(out, &decoded, in, in_size);
    return result == Z_MEM_ERROR ? -2 : result == Z_OK && decoded == out_size;
#else
    (void)in, (void)in_size, (void)out, (void)out_size;
    return -1;
#endif
}

size_t eventio_deflateEncode(const uint8_t *in, size_t in_size, uint8_t *out, int level) {
#ifdef CUSI_WITH_ZLIB
    uLongf encoded = in_size - 1;
    const int result = compress2(out, &encoded, in, in_size, level);
    return result == Z_OK ? encoded : result == Z_MEM_ERROR ? SIZE_MAX : 0;
#else
    (void)in, (void)in_size, (void)out, (void)level;
    return 0;
#endif
}

uint32_t eventio_fletcher32(const uint8_t *in, size_t size) {
    enum { BLOCK = 360 }; /* words that fit before the sums overflow */
    uint32_t low = 0, high = 0;
    for (size_t left = size / 2; left;) {
        size_t n = left < BLOCK ? left : BLOCK;
        left -= n;
        for (; n; --n, in += 2) {
            low += (uint32_t)in[0] << 8 | in[1];
            high += low;
        }
        low = (low & 0xffff) + (low >> 16);
        high = (high & 0xffff) + (high >> 16);
    }
    if (size % 2) {
        low += (uint32_t)*in << 8;
        high += low;
        low = (low & 0xffff) + (low >> 16);
        high = (high & 0xffff) + (high >> 16);
    }
    low = (low & 0xffff) + (low >> 16);
    high = (high & 0xffff) + (high >> 16);
    return high << 16 | low;
}

/* libhdf5 before 1.6.3 swapped the bytes of both halves; it still reads such files. */
int eventio_fletcher32Good(const uint8_t *in, size_t size) {
    if (size < 4)
        return 0;
#ifdef CUSI_FUZZ
    return 1;
#endif
    const uint8_t *p = in + size - 4;
    const uint32_t stored = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    const uint32_t sum = eventio_fletcher32(in, size - 4);
    return stored == sum || stored == ((sum & 0xff00ffu) << 8 | (sum >> 8 & 0xff00ffu));
}

/* Each common element size has a loop with that constant. */
CUSI_MULTIVERSION
void eventio_unshuffle(const uint8_t *in, size_t size, size_t element, uint8_t *out) {
    const size_t n = size / element;
    if (element == 2)
        for (size_t i = 0; i < n; ++i) {
            out[2 * i] = in[i];
            out[2 * i + 1] = in[n + i];
        }
    else if (element == 4)
        for (size_t i = 0; i < n; ++i)
            for (size_t b = 0; b < 4; ++b)
                out[4 * i + b] = in[b * n + i];
    else if (element == 8)
        for (size_t i = 0; i < n; ++i)
            for (size_t b = 0; b < 8; ++b)
                out[8 * i + b] = in[b * n + i];
    else
        for (size_t b = 0; b < element; ++b)
            for (size_t i = 0; i < n; ++i)
                out[element * i + b] = in[b * n + i];
    memcpy(out + n * element, in + n * element, size - n * element);
}
