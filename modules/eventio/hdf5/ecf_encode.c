/* Encodes ECF, whose format ecf.h describes. Of the three ways to store x, y and p a chunk takes the smallest. */
#include "eventio/hdf5/codec.h"

#include <string.h>

enum { ROW = 16, X = 0, Y = 2, P = 4, T = 8 }; /* an event as HDF5 has it: x, y, p 16 bits, t 64 bits */

/* The events of a chunk, and where the next byte goes. */
typedef struct Output {
    const uint8_t *rows;
    size_t count;
    uint8_t *at;
} Output;

static uint32_t field(const Output *o, size_t i, size_t offset) {
    return (uint32_t)o->rows[i * ROW + offset] | (uint32_t)o->rows[i * ROW + offset + 1] << 8;
}
static uint64_t timeOf(const Output *o, size_t i) {
    uint64_t time;
    memcpy(&time, o->rows + i * ROW + T, 8);
    return time;
}
static void put(Output *o, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
        *o->at++ = (uint8_t)(value >> 8 * i);
}

/* Returns how many events from i on have the same 16 bits at `offset`. */
static size_t runOf(const Output *o, size_t i, size_t offset) {
    const uint32_t value = field(o, i, offset);
    size_t n = 1;
    while (i + n < o->count && field(o, i + n, offset) == value)
        ++n;
    return n;
}

static void putTimes(Output *o) {
    uint64_t last = o->count ? timeOf(o, 0) : 0;
    put(o, last, 8);
    for (size_t i = 0; i < o->count;) {
        const uint64_t time = timeOf(o, i);
        uint64_t step = time - last;
        size_t n = 1;
        while (i + n < o->count && timeOf(o, i + n) == time)
            ++n;
        if (step > 14) {
            for (; step; step >>= 4)
                put(o, 0xf0 | (step & 15), 1);
        }
        put(o, step << 4 | (n < 15 ? n : 15), 1);
        put(o, n, n < 15 ? 0 : 2);
        last = time;
        i += n;
    }
}

/* Puts y, x and p in 24 bits. */
static void putPacked(Output *o) {
    for (size_t i = 0; i < o->count; i += 4) {
        uint32_t v[4] = {0};
        for (size_t k = 0; k < 4 && i + k < o->count; ++k)
            v[k] = field(o, i + k, Y) << 12 | field(o, i + k, X) << 1 | field(o, i + k, P);
        put(o, v[0] << 8 | (v[1] & 255), 4);
        put(o, v[1] >> 8 << 16 | (v[2] & 65535), 4);
        put(o, v[2] >> 16 << 24 | v[3], 4);
    }
}

/* Puts runs of equal values at `offset`: a value and its count in `bytes` bytes, of which `bits` are the count's. If
 * these are all ones, the count follows. */
static void putRuns(Output *o, size_t offset, unsigned bits, int bytes) {
    const size_t limit = ((size_t)1 << bits) - 1;
    for (size_t i = 0; i < o->count;) {
        const size_t n = runOf(o, i, offset);
        put(o, field(o, i, offset) << bits | (n < limit ? n : limit), bytes);
        put(o, n, n < limit ? 0 : 2);
        i += n;
    }
}

/* Puts x and p in 12 bits. */
static void putPackedXp(Output *o) {
    for (size_t i = 0; i < o->count; i += 4) {
        uint32_t v[4] = {0};
        for (size_t k = 0; k < 4 && i + k < o->count; ++k)
            v[k] = field(o, i + k, X) << 1 | field(o, i + k, P);
        put(o, v[0] << 4 | (v[1] & 15), 2);
        put(o, v[1] >> 4 << 8 | (v[2] & 255), 2);
        put(o, v[2] >> 8 << 12 | v[3], 2);
    }
}

/* Returns the word for x of event i and of those that follow within 5 pixels to the right; *n: how many in all. */
static uint32_t maskAt(const Output *o, size_t i, size_t *n) {
    const uint32_t first = field(o, i, X);
    uint32_t word = first << 5, last = first;
    for (*n = 1; i + *n < o->count; ++*n) {
        const uint32_t x = field(o, i + *n, X);
        if (x <= last || x > first + 5)
            break;
        word |= 1u << (5 - (x - first));
        last = x;
    }
    return word;
}

static void putMasks(Output *o) {
    size_t n;
    for (size_t i = 0; i < o->count; i += n)
        put(o, maskAt(o, i, &n), 2);
}

/* Returns the bytes that runs of the values at `offset` take. */
static size_t runBytes(const Output *o, size_t offset, unsigned bits, size_t bytes) {
    const size_t limit = ((size_t)1 << bits) - 1;
    size_t all = 0, n;
    for (size_t i = 0; i < o->count; i += n) {
        n = runOf(o, i, offset);
        all += n < limit ? bytes : bytes + 2;
    }
    return all;
}

static size_t maskBytes(const Output *o) {
    size_t all = 0, n;
    for (size_t i = 0; i < o->count; i += n, all += 2)
        maskAt(o, i, &n);
    return all;
}

size_t eventio_ecfEncode(const uint8_t *in, size_t in_size, uint8_t *out) {
    enum { XP_PACKED = 1, ALL_PACKED = 2 };
    Output o = {in, in_size / ROW, out};
    const size_t fours = (o.count + 3) / 4, rows = runBytes(&o, Y, 5, 2), packed_xp = 6 * fours,
                 masks = maskBytes(&o) + runBytes(&o, P, 7, 1);
    const size_t by_rows = rows + (packed_xp < masks ? packed_xp : masks);
    const unsigned how = 12 * fours <= by_rows ? ALL_PACKED : packed_xp < masks ? XP_PACKED : 0;
    put(&o, (uint64_t)o.count << 2 | how, 4);
    putTimes(&o);
    if (how == ALL_PACKED) {
        putPacked(&o);
    } else {
        putRuns(&o, Y, 5, 2);
        if (how == XP_PACKED) {
            putPackedXp(&o);
        } else {
            putMasks(&o);
            putRuns(&o, P, 7, 1);
        }
    }
    return (size_t)(o.at - out);
}
