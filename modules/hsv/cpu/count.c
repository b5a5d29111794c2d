/* hsv on the CPU takes rows in chunks that fit the L1 cache, with one vectorized loop per step of the conversion. */
#include "check.h"
#include "host.h"
#include "hsv.h"

#include <string.h>

enum { CHUNK = 512, PART = 16 * CHUNK }; /* pixels; CHUNK is a multiple of 32 */

/* Rounds half to even, as OpenCV's tables do, for 0 <= x < 2^22: adding 1.5 2^23 leaves no fraction bits. Unlike a table
 * lookup, this vectorizes. */
static inline int32_t roundHalfEven(float x) {
    const float shifted = x + 12582912.0f;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return bits - 0x4B400000;
}

/* Sets inside[x] to 1 if pixel x of n <= CHUNK is in the range, otherwise 0; returns the number of ones. Black pixels pad
 * the last vector. The results are those of cusi_hsvInRange, though table entries are computed in float: 255 2^12 / i is
 * never halfway between integers, hence at least 1 / (2 i) away, and three roundings err by less. */
CUSI_MULTIVERSION
static uint32_t countChunk(const uint8_t *row, size_t n, const cusHsvRange *range, uint8_t *restrict inside) {
    uint8_t b[CHUNK], g[CHUNK], r[CHUNK], v[CHUNK], diff[CHUNK];
    int16_t sector[CHUNK];
    uint8_t padded[3 * CHUNK];
    const size_t whole = (n + 31) / 32 * 32;
    if (n < whole) {
        memcpy(padded, row, 3 * n);
        memset(padded + 3 * n, 0, 3 * (whole - n));
        row = padded;
    }
    for (size_t x = 0; x < whole; ++x) {
        b[x] = row[3 * x];
        g[x] = row[3 * x + 1];
        r[x] = row[3 * x + 2];
    }
    for (size_t x = 0; x < whole; ++x) {
        const uint8_t high = g[x] > b[x] ? g[x] : b[x], low = g[x] < b[x] ? g[x] : b[x];
        v[x] = r[x] > high ? r[x] : high;
        diff[x] = (uint8_t)(v[x] - (r[x] < low ? r[x] : low));
    }
    for (size_t x = 0; x < whole; ++x) {
        const int16_t red = (int16_t)(g[x] - b[x]), green = (int16_t)(b[x] - r[x] + 2 * diff[x]);
        const int16_t blue = (int16_t)(r[x] - g[x] + 4 * diff[x]);
        sector[x] = v[x] == r[x] ? red : v[x] == g[x] ? green : blue;
    }
    const int h0 = range->lower[0], h1 = range->upper[0], wraps = h0 > h1;
    /* The rounding shift is monotonic, so saturations are compared before it. */
    const int half = 1 << (CUSI_HSV_FRACTION_BITS - 1);
    const int s0 = (range->lower[1] << CUSI_HSV_FRACTION_BITS) - half;
    const int s1 = ((range->upper[1] + 1) << CUSI_HSV_FRACTION_BITS) - half;
    const int v0 = range->lower[2], v1 = range->upper[2];
    uint32_t count = 0;
    for (size_t x = 0; x < whole; ++x) {
        const int d = diff[x], value = v[x];
        const float reciprocal = 1.0f / (float)(value * d + (d == 0)); /* one division serves both tables */
        const int s = d * roundHalfEven((float)((255 << CUSI_HSV_FRACTION_BITS) * d) * reciprocal);
        int h = (sector[x] * roundHalfEven((float)((30 << CUSI_HSV_FRACTION_BITS) * value) * reciprocal) + half) >>
                CUSI_HSV_FRACTION_BITS;
        h += h < 0 ? 180 : 0;
        const int above = h >= h0, below = h <= h1;
        const int hue = (above & below) | (wraps & (above | below));
        const int in = hue & (s >= s0) & (s < s1) & (value >= v0) & (value <= v1);
        inside[x] = (uint8_t)in;
        count += (uint32_t)in;
    }
    return n < whole ? count - (uint32_t)(whole - n) * inside[n] : count;
}

/* Counts one row, and writes its mask unless that is NULL. */
static uint32_t countRow(const uint8_t *row, size_t n, const cusHsvRange *range, uint8_t *mask) {
    uint8_t inside[CHUNK];
    uint32_t count = 0;
    for (size_t x = 0; x < n; x += CHUNK) {
        const size_t pixels = n - x < CHUNK ? n - x : CHUNK;
        count += countChunk(row + 3 * x, pixels, range, inside);
        for (size_t i = 0; mask && i < pixels; ++i)
            mask[x + i] = (uint8_t)-inside[i];
    }
    return count;
}

void hsv_host_count(const cusMat *src, const cusHsvRange *range, cusMat *count, cusMat *mask) {
    size_t rows = (size_t)src->rows, cols = (size_t)src->cols;
    const size_t useful = rows * cols / 16384 + 1;
    const int threads = useful < (size_t)cusi_maxThreads() ? (int)useful : cusi_maxThreads();
    (void)threads;
    if (cusi_isContinuous(src) && (!mask || cusi_isContinuous(mask))) {
        cols *= rows; /* makes images of any shape cost the same */
        rows = 1;
    }
    const size_t parts = (cols + PART - 1) / PART; /* per row */
    uint32_t total = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : total)
    for (int64_t part = 0; part < (int64_t)(rows * parts); ++part) {
        const size_t y = (size_t)part / parts, x = (size_t)part % parts * PART, n = cols - x < PART ? cols - x : PART;
        total += countRow((const uint8_t *)src->data + y * src->step + 3 * x, n, range,
                          mask ? (uint8_t *)mask->data + y * mask->step + x : NULL);
    }
    *(uint32_t *)count->data = total;
}
