/* ECF, the compression of Metavision's HDF5 (prophesee-ai/hdf5_ecf). A chunk has the events field by field. Everything is
 * little-endian and unaligned.
 *
 *   4 bytes   count << 2 | all packed << 1 | x and p packed
 *   8 bytes   the first time
 *   times     a byte d << 4 | n: d later, n times (15: the next two bytes are n). d = 15: n is a hexadecimal digit of a
 *             larger step, the lowest first; the step ends with the first byte that has another d
 *   all packed: y << 12 | x << 1 | p, four in three words of 32 bits
 *   otherwise:
 *   y         words y << 5 | n: n times (31: the next word is n)
 *   x, p      packed: x << 1 | p, four in three words of 16 bits
 *   x         not packed: words x << 5 | mask: x, and for each bit of the mask from the highest on x + 1 .. x + 5
 *   p         not packed: bytes p << 7 | n: n times (127: the next two bytes are n)
 *
 * The decoder is inline, so that the compiler knows each user's layout of events. */
#ifndef CUSI_ECF_H
#define CUSI_ECF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The size of a chunk's header, and its flags. */
enum { CUSI_ECF_HEADER = 12, CUSI_ECF_XP_PACKED = 1, CUSI_ECF_ALL_PACKED = 2 };

#ifndef __CUDACC__

/* Where a chunk's events go: the first element of each field, and the bytes from one element to the next. p has one byte,
 * or two if wide_p. */
typedef struct CusiEcfOut {
    uint8_t *x, *y, *p, *t;
    size_t xy_step, p_step, t_step;
    int wide_p;
} CusiEcfOut;

#define CUSI_ECF_INLINE static inline __attribute__((always_inline))

/* The bytes of a chunk that are left. */
typedef struct CusiEcfInput {
    const uint8_t *at, *end;
} CusiEcfInput;

CUSI_ECF_INLINE size_t cusi_ecfLeft(const CusiEcfInput *in) {
    return (size_t)(in->end - in->at);
}
CUSI_ECF_INLINE uint32_t cusi_ecfNumber(const uint8_t *p, int bytes) {
    uint32_t value = 0;
    for (int i = 0; i < bytes; ++i)
        value |= (uint32_t)p[i] << 8 * i;
    return value;
}
CUSI_ECF_INLINE void cusi_ecfPut16(uint8_t *to, uint32_t value) {
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}
CUSI_ECF_INLINE void cusi_ecfPutP(const CusiEcfOut *out, size_t i, uint32_t p) {
    uint8_t *to = out->p + i * out->p_step;
    to[0] = (uint8_t)p;
    if (out->wide_p)
        to[1] = 0;
}

/* Reads the count that follows a run whose own count is `escape`. Returns 0 if the input ends or the count is above
 * `most`. */
CUSI_ECF_INLINE int cusi_ecfCount(CusiEcfInput *in, uint32_t escape, size_t most, uint32_t *count) {
    if (*count == escape) {
        if (cusi_ecfLeft(in) < 2)
            return 0;
        *count = cusi_ecfNumber(in->at, 2);
        in->at += 2;
    }
    return *count <= most;
}

/* Adds a step, whose digits follow, to *time. */
CUSI_ECF_INLINE int cusi_ecfStep(CusiEcfInput *in, uint64_t *time) {
    uint64_t step = 0;
    for (int shift = 0; cusi_ecfLeft(in) && *in->at >> 4 == 15; shift += 4) {
        if (shift == 64)
            return 0;
        step |= (uint64_t)(*in->at++ & 15) << shift;
    }
    *time += step;
    return 1;
}

CUSI_ECF_INLINE int cusi_ecfTimes(CusiEcfInput *in, uint64_t time, size_t count, const CusiEcfOut *out) {
    for (size_t i = 0; i < count;) {
        if (!cusi_ecfLeft(in))
            return 0;
        if (*in->at >> 4 == 15) {
            if (!cusi_ecfStep(in, &time))
                return 0;
            continue;
        }
        const uint8_t run = *in->at++;
        uint32_t n = run & 15;
        time += run >> 4;
        if (!cusi_ecfCount(in, 15, count - i, &n))
            return 0;
        for (; n; --n, ++i)
            memcpy(out->t + i * out->t_step, &time, 8); /* the machine is little-endian, as CUDA's hosts are */
    }
    return 1;
}

/* Decodes values of 24 bits, four at a time; the last four are padded. */
CUSI_ECF_INLINE int cusi_ecfPacked(CusiEcfInput *in, size_t count, const CusiEcfOut *out) {
    for (size_t i = 0; i < count; i += 4, in->at += 12) {
        if (cusi_ecfLeft(in) < 12)
            return 0;
        const uint32_t a = cusi_ecfNumber(in->at, 4), b = cusi_ecfNumber(in->at + 4, 4), c = cusi_ecfNumber(in->at + 8, 4);
        const uint32_t values[4] = {a >> 8, b >> 16 << 8 | (a & 255), c >> 24 << 16 | (b & 65535), c & 0xffffff};
        for (size_t k = 0; k < 4 && i + k < count; ++k) {
            cusi_ecfPut16(out->x + (i + k) * out->xy_step, values[k] >> 1 & 2047);
            cusi_ecfPut16(out->y + (i + k) * out->xy_step, values[k] >> 12 & 4095);
            cusi_ecfPutP(out, i + k, values[k] & 1);
        }
    }
    return 1;
}

CUSI_ECF_INLINE int cusi_ecfRows(CusiEcfInput *in, size_t count, const CusiEcfOut *out) {
    for (size_t i = 0; i < count;) {
        if (cusi_ecfLeft(in) < 2)
            return 0;
        const uint32_t word = cusi_ecfNumber(in->at, 2);
        uint32_t n = word & 31;
        in->at += 2;
        if (!cusi_ecfCount(in, 31, count - i, &n))
            return 0;
        for (; n; --n, ++i)
            cusi_ecfPut16(out->y + i * out->xy_step, word >> 5);
    }
    return 1;
}

/* Decodes values of 12 bits, four at a time; the last four are padded. */
CUSI_ECF_INLINE int cusi_ecfPackedXp(CusiEcfInput *in, size_t count, const CusiEcfOut *out) {
    for (size_t i = 0; i < count; i += 4, in->at += 6) {
        if (cusi_ecfLeft(in) < 6)
            return 0;
        const uint32_t a = cusi_ecfNumber(in->at, 2), b = cusi_ecfNumber(in->at + 2, 2), c = cusi_ecfNumber(in->at + 4, 2);
        const uint32_t values[4] = {a >> 4, b >> 8 << 4 | (a & 15), c >> 12 << 8 | (b & 255), c & 4095};
        for (size_t k = 0; k < 4 && i + k < count; ++k) {
            cusi_ecfPut16(out->x + (i + k) * out->xy_step, values[k] >> 1);
            cusi_ecfPutP(out, i + k, values[k] & 1);
        }
    }
    return 1;
}

CUSI_ECF_INLINE int cusi_ecfMasks(CusiEcfInput *in, size_t count, const CusiEcfOut *out) {
    for (size_t i = 0; i < count;) {
        if (cusi_ecfLeft(in) < 2)
            return 0;
        const uint32_t word = cusi_ecfNumber(in->at, 2), x = word >> 5;
        in->at += 2;
        cusi_ecfPut16(out->x + i++ * out->xy_step, x);
        for (uint32_t k = 1; k <= 5; ++k)
            if (word >> (5 - k) & 1) {
                if (i == count)
                    return 0;
                cusi_ecfPut16(out->x + i++ * out->xy_step, x + k);
            }
    }
    return 1;
}

CUSI_ECF_INLINE int cusi_ecfPolarities(CusiEcfInput *in, size_t count, const CusiEcfOut *out) {
    for (size_t i = 0; i < count;) {
        if (!cusi_ecfLeft(in))
            return 0;
        const uint8_t run = *in->at++;
        uint32_t n = run & 127;
        if (!cusi_ecfCount(in, 127, count - i, &n))
            return 0;
        for (; n; --n, ++i)
            cusi_ecfPutP(out, i, run >> 7);
    }
    return 1;
}

/* Decodes the events of a chunk of at least CUSI_ECF_HEADER bytes. Their number is its first word >> 2. Returns whether the
 * chunk is well-formed; if not, the events are unspecified. */
CUSI_ECF_INLINE int cusi_ecfDecode(const uint8_t *in, size_t size, const CusiEcfOut *out) {
    const uint32_t header = cusi_ecfNumber(in, 4);
    const size_t count = header >> 2;
    CusiEcfInput rest = {in + CUSI_ECF_HEADER, in + size};
    const uint64_t time = cusi_ecfNumber(in + 4, 4) | (uint64_t)cusi_ecfNumber(in + 8, 4) << 32;
    if (!cusi_ecfTimes(&rest, time, count, out))
        return 0;
    if (header & CUSI_ECF_ALL_PACKED)
        return cusi_ecfPacked(&rest, count, out);
    if (!cusi_ecfRows(&rest, count, out))
        return 0;
    if (header & CUSI_ECF_XP_PACKED)
        return cusi_ecfPackedXp(&rest, count, out);
    return cusi_ecfMasks(&rest, count, out) && cusi_ecfPolarities(&rest, count, out);
}

#endif
#undef CUSI_ECF_INLINE

#endif
