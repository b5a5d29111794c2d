/* ECF, the compression of Metavision's HDF5 (prophesee-ai/hdf5_ecf): the events of a chunk, field by field. Everything is
 * little-endian and unaligned.
 *
 *   4 bytes   count << 2 | all packed << 1 | x and p packed
 *   8 bytes   the first time
 *   times     a byte d << 4 | n: d later, n times (15: the next two bytes are n). d = 15: n is a hexadecimal digit of a larger step, the
 *             lowest first; the step ends with the first byte that has another d
 *   all packed: y << 12 | x << 1 | p, four in three words of 32 bits
 *   otherwise:
 *   y         words y << 5 | n: n times (31: the next word is n)
 *   x, p      packed: x << 1 | p, four in three words of 16 bits
 *   x         not packed: words x << 5 | mask: x, and for each bit of the mask from the highest on x + 1 .. x + 5
 *   p         not packed: bytes p << 7 | n: n times (127: the next two bytes are n) */
#include "eventio/hdf5/codec.h"

#include <string.h>

enum { ROW = 16, X = 0, Y = 2, P = 4, T = 8 }; /* of an event as HDF5 has it: x, y, p 16 bits, t 64 bits */

/* What is left of a chunk. */
typedef struct Input {
    const uint8_t *at, *end;
} Input;

static size_t left(const Input *in) {
    return (size_t)(in->end - in->at);
}
static uint32_t number(const uint8_t *p, int bytes) {
    uint32_t value = 0;
    for (int i = 0; i < bytes; ++i)
        value |= (uint32_t)p[i] << 8 * i;
    return value;
}
static void put16(uint8_t *row, uint32_t value) {
    row[0] = (uint8_t)value;
    row[1] = (uint8_t)(value >> 8);
}

/* A count that follows if the one in a run is `escape`. 0: the input ends, or it is more than `most`. */
static int takeCount(Input *in, uint32_t escape, size_t most, uint32_t *count) {
    if (*count == escape) {
        if (left(in) < 2)
            return 0;
        *count = number(in->at, 2);
        in->at += 2;
    }
    return *count <= most;
}

/* Adds the step whose digits follow. */
static int takeStep(Input *in, uint64_t *time) {
    uint64_t step = 0;
    for (int shift = 0; left(in) && *in->at >> 4 == 15; shift += 4) {
        if (shift == 64)
            return 0;
        step |= (uint64_t)(*in->at++ & 15) << shift;
    }
    *time += step;
    return 1;
}

static int decodeTimes(Input *in, uint64_t time, size_t count, uint8_t *out) {
    for (size_t i = 0; i < count;) {
        if (!left(in))
            return 0;
        if (*in->at >> 4 == 15) {
            if (!takeStep(in, &time))
                return 0;
            continue;
        }
        const uint8_t run = *in->at++;
        uint32_t n = run & 15;
        time += run >> 4;
        if (!takeCount(in, 15, count - i, &n))
            return 0;
        for (; n; --n, ++i)
            memcpy(out + i * ROW + T, &time, 8); /* the machine is little-endian, as CUDA's hosts are */
    }
    return 1;
}

static void putAll(uint8_t *row, uint32_t value) {
    put16(row + X, value >> 1 & 2047);
    put16(row + Y, value >> 12 & 4095);
    put16(row + P, value & 1);
}

/* Values of 24 bits, the last four padded. */
static int decodePacked(Input *in, size_t count, uint8_t *out) {
    for (size_t i = 0; i < count; i += 4, in->at += 12) {
        if (left(in) < 12)
            return 0;
        const uint32_t a = number(in->at, 4), b = number(in->at + 4, 4), c = number(in->at + 8, 4);
        const uint32_t values[4] = {a >> 8, b >> 16 << 8 | (a & 255), c >> 24 << 16 | (b & 65535), c & 0xffffff};
        for (size_t k = 0; k < 4 && i + k < count; ++k)
            putAll(out + (i + k) * ROW, values[k]);
    }
    return 1;
}

static int decodeRows(Input *in, size_t count, uint8_t *out) {
    for (size_t i = 0; i < count;) {
        if (left(in) < 2)
            return 0;
        const uint32_t word = number(in->at, 2);
        uint32_t n = word & 31;
        in->at += 2;
        if (!takeCount(in, 31, count - i, &n))
            return 0;
        for (; n; --n, ++i)
            put16(out + i * ROW + Y, word >> 5);
    }
    return 1;
}

/* Values of 12 bits, the last four padded. */
static int decodePackedXp(Input *in, size_t count, uint8_t *out) {
    for (size_t i = 0; i < count; i += 4, in->at += 6) {
        if (left(in) < 6)
            return 0;
        const uint32_t a = number(in->at, 2), b = number(in->at + 2, 2), c = number(in->at + 4, 2);
        const uint32_t values[4] = {a >> 4, b >> 8 << 4 | (a & 15), c >> 12 << 8 | (b & 255), c & 4095};
        for (size_t k = 0; k < 4 && i + k < count; ++k) {
            put16(out + (i + k) * ROW + X, values[k] >> 1);
            put16(out + (i + k) * ROW + P, values[k] & 1);
        }
    }
    return 1;
}

static int decodeMasks(Input *in, size_t count, uint8_t *out) {
    for (size_t i = 0; i < count;) {
        if (left(in) < 2)
            return 0;
        const uint32_t word = number(in->at, 2), x = word >> 5;
        in->at += 2;
        put16(out + i++ * ROW + X, x);
        for (uint32_t k = 1; k <= 5; ++k)
            if (word >> (5 - k) & 1) {
                if (i == count)
                    return 0;
                put16(out + i++ * ROW + X, x + k);
            }
    }
    return 1;
}

static int decodePolarities(Input *in, size_t count, uint8_t *out) {
    for (size_t i = 0; i < count;) {
        if (!left(in))
            return 0;
        const uint8_t run = *in->at++;
        uint32_t n = run & 127;
        if (!takeCount(in, 127, count - i, &n))
            return 0;
        for (; n; --n, ++i)
            put16(out + i * ROW + P, run >> 7);
    }
    return 1;
}

int eventio_ecfDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size) {
    enum { HEADER = 12, XP_PACKED = 1, ALL_PACKED = 2 };
    static const uint64_t no_time = UINT64_MAX;
    if (in_size < HEADER || out_size % ROW)
        return 0;
    const uint32_t header = number(in, 4);
    const size_t count = header >> 2, rows = out_size / ROW;
    if (count > rows)
        return 0;
    if (out_size) /* out may be NULL otherwise */
        memset(out, 0, out_size);
    for (size_t i = count; i < rows; ++i) /* not events: the time tells if one is read */
        memcpy(out + i * ROW + T, &no_time, 8);
    Input rest = {in + HEADER, in + in_size};
    const uint64_t time = number(in + 4, 4) | (uint64_t)number(in + 8, 4) << 32;
    if (!decodeTimes(&rest, time, count, out))
        return 0;
    if (header & ALL_PACKED)
        return decodePacked(&rest, count, out);
    if (!decodeRows(&rest, count, out))
        return 0;
    if (header & XP_PACKED)
        return decodePackedXp(&rest, count, out);
    return decodeMasks(&rest, count, out) && decodePolarities(&rest, count, out);
}
