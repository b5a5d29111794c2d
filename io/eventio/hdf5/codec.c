/* Codecs of HDF5 chunks. LZF, as documented by LibLZF: a control byte c below 32 is followed by c + 1 literal bytes.
 * Otherwise the upper three bits of c are a length (if 7, the next byte is added), and its lower five bits and one more
 * byte a distance: length + 2 bytes are copied from distance + 1 bytes back. */
#include "eventio/hdf5/codec.h"
#include "host.h"

#include <string.h>

#ifdef CUSI_WITH_BLOSC
#include <blosc.h>
#endif
#ifdef CUSI_WITH_ZLIB
#include <zlib.h>
#endif

enum { MAX_LITERALS = 32, MAX_MATCH = 264, MAX_DISTANCE = 8192 };

int eventio_lzfDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size) {
    const uint8_t *const in_end = in + in_size;
    uint8_t *const begin = out, *const out_end = out + out_size;
    while (in < in_end) {
        const unsigned control = *in++;
        if (control < MAX_LITERALS) {
            const size_t n = control + 1;
            /* Away from both ends a copy of fixed size is faster; the excess is overwritten later. */
            if ((size_t)(in_end - in) >= MAX_LITERALS && (size_t)(out_end - out) >= MAX_LITERALS) {
                memcpy(out, in, MAX_LITERALS);
            } else {
                if ((size_t)(in_end - in) < n || (size_t)(out_end - out) < n)
                    return 0;
                memcpy(out, in, n);
            }
            in += n;
            out += n;
            continue;
        }
        size_t n = control >> 5;
        if (n == 7) {
            if (in == in_end)
                return 0;
            n += *in++;
        }
        n += 2;
        if (in == in_end)
            return 0;
        const size_t distance = ((size_t)(control & 31) << 8 | *in++) + 1;
        if (distance > (size_t)(out - begin) || n > (size_t)(out_end - out))
            return 0;
        const uint8_t *from = out - distance;
        if (distance >= 16 && (size_t)(out_end - out) >= MAX_MATCH + 16) {
            for (size_t i = 0; i < n; i += 16)
                memcpy(out + i, from + i, 16);
        } else if (distance == 1) {
            memset(out, *from, n);
        } else if (distance >= 8 && (size_t)(out_end - out) >= MAX_MATCH + 16) {
            for (size_t i = 0; i < n; i += 8)
                memcpy(out + i, from + i, 8);
        } else {
            for (size_t i = 0; i < n; ++i)
                out[i] = from[i];
        }
        out += n;
    }
    return out == out_end;
}

static inline uint32_t threeBytes(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

/* Greedy: each position is matched with the last one that a hash table holds for the same three bytes. */
size_t eventio_lzfEncode(const uint8_t *in, size_t in_size, uint8_t *out) {
    enum { HASH_BITS = 14 };
    uint32_t last[1 << HASH_BITS]; /* position + 1 of the last occurrence; 0: none */
    memset(last, 0, sizeof last);
    size_t at = 0, literal = 0, used = 0; /* bytes literal .. at - 1 are not written yet */
    while (at < in_size) {
        size_t length = 0, distance = 0;
        if (at + 3 <= in_size) {
            const uint32_t value = threeBytes(in + at);
            uint32_t *slot = &last[(value * 2654435761u) >> (32 - HASH_BITS)];
            distance = *slot ? at - (*slot - 1) : 0;
            *slot = (uint32_t)at + 1;
            if (distance && distance <= MAX_DISTANCE && threeBytes(in + at - distance) == value) {
                const size_t most = in_size - at < MAX_MATCH ? in_size - at : MAX_MATCH;
                for (length = 3; length < most && in[at - distance + length] == in[at + length];)
                    ++length;
            }
        }
        if (!length)
            ++at;
        while (literal < at && (length || at - literal >= MAX_LITERALS || at == in_size)) {
            const size_t n = at - literal < MAX_LITERALS ? at - literal : MAX_LITERALS;
            if (used + n + 1 >= in_size)
                return 0;
            out[used++] = (uint8_t)(n - 1);
            memcpy(out + used, in + literal, n);
            used += n;
            literal += n;
        }
        if (!length)
            continue;
        if (used + 3 >= in_size)
            return 0;
        const size_t code = length - 2;
        out[used++] = (uint8_t)((code < 7 ? code : 7) << 5 | (distance - 1) >> 8);
        if (code >= 7)
            out[used++] = (uint8_t)(code - 7);
        out[used++] = (uint8_t)(distance - 1);
        for (size_t i = at + 1; i < at + length && i + 3 <= in_size; ++i)
            last[(threeBytes(in + i) * 2654435761u) >> (32 - HASH_BITS)] = (uint32_t)i + 1;
        at += length;
        literal = at;
    }
    return used;
}

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

/* One loop for each common element size, known at compile time. */
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
