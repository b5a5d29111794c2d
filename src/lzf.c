#include "lzf.h"

#include <string.h>

enum { MAX_LITERALS = 32, MAX_MATCH = CUSI_LZF_MAX_MATCH, MAX_DISTANCE = CUSI_LZF_MAX_DISTANCE };

int cusi_lzfDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size) {
    const uint8_t *const in_end = in + in_size;
    uint8_t *const begin = out, *const out_end = out + out_size;
    while (in < in_end) {
        const unsigned control = *in++;
        if (control < MAX_LITERALS) {
            const size_t n = control + 1;
            /* A copy of fixed size is faster away from both ends; later output overwrites the excess. */
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

/* Encodes greedily: matches each position with the last one that a hash table holds for the same three bytes. */
size_t cusi_lzfEncode(const uint8_t *in, size_t in_size, uint8_t *out) {
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
