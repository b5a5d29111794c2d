#include "check.h"
#include "framediff_backend.h"
#include "host.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

static const uint8_t *rowOf(const cusMat *mat, size_t y) {
    return (const uint8_t *)mat->data + y * mat->step;
}
static uint8_t *rowOfMutable(cusMat *mat, size_t y) {
    return (uint8_t *)mat->data + y * mat->step;
}

/* Threads worth starting for this many bytes: one for each 64 KiB, at most all. */
static int threadsFor(size_t bytes) {
    const size_t useful = bytes / 65536 + 1;
    return useful < (size_t)cusi_maxThreads() ? (int)useful : cusi_maxThreads();
}

/* ---- Heatmap and noise view --------------------------------------------------------------------------------------------
 */

enum { PIXELS_AT_ONCE = 512 };

/* sum[i] = differences of bytes i, i + 1 and i + 2 (one channel: three times that of byte i) of n <= PIXELS_AT_ONCE pixels. Only
 * those at the start of a pixel are wanted, but neighbours are what vector instructions add. */
CUSI_MULTIVERSION
static void summedDifferences(const uint8_t *restrict a, const uint8_t *restrict b, size_t n, int channels,
                              uint16_t *restrict sum) {
    uint8_t difference[4 * PIXELS_AT_ONCE + 2];
    const size_t bytes = n * (size_t)channels;
    for (size_t i = 0; i < bytes; ++i)
        difference[i] = (uint8_t)(a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]);
    difference[bytes] = difference[bytes + 1] = 0;
    if (channels == 1)
        for (size_t i = 0; i < bytes; ++i)
            sum[i] = (uint16_t)(3 * difference[i]);
    else
        for (size_t i = 0; i < bytes; ++i)
            sum[i] = (uint16_t)(difference[i] + difference[i + 1] + difference[i + 2]);
}

static void paintRow(const uint8_t *a, const uint8_t *b, uint8_t *dst, size_t cols, size_t channels,
                     const FramediffPalette *palette) {
    uint16_t sum[4 * PIXELS_AT_ONCE];
    for (size_t x = 0; x < cols; x += PIXELS_AT_ONCE) {
        const size_t n = cols - x < PIXELS_AT_ONCE ? cols - x : PIXELS_AT_ONCE;
        summedDifferences(a + x * channels, b + x * channels, n, (int)channels, sum);
        uint8_t *out = dst + 3 * x;
        /* Four bytes are stored for each pixel, the fourth of which the next pixel overwrites; the last has only three. */
        for (size_t i = 0; i + 1 < n; ++i)
            memcpy(out + 3 * i, &palette->colour[sum[i * channels]], 4);
        memcpy(out + 3 * (n - 1), &palette->colour[sum[(n - 1) * channels]], 3);
    }
}

cusStatus framediff_host_paint(const cusMat *prev, const cusMat *cur, cusMat *dst, const FramediffPaint *paint) {
    const size_t channels = (size_t)CUS_CHANNELS(cur->type);
#pragma omp parallel for schedule(static) num_threads(threadsFor(3 * (size_t)cur->rows * (size_t)cur->cols))
    for (int y = 0; y < cur->rows; ++y)
        paintRow(rowOf(prev, (size_t)y), rowOf(cur, (size_t)y), rowOfMutable(dst, (size_t)y), (size_t)cur->cols, channels,
                 paint->palette);
    return CUS_OK;
}

/* ---- Sparse difference -------------------------------------------------------------------------------------------------
 */

enum { BYTES_AT_ONCE = 4096 };

/* changed[i] = 1 where |cur - ref| > threshold, 0 elsewhere. */
CUSI_MULTIVERSION
static void changedBytes(const uint8_t *restrict cur, const uint8_t *restrict ref, size_t n, uint8_t threshold,
                         uint8_t *restrict changed) {
    for (size_t i = 0; i < n; ++i) {
        const uint8_t d = (uint8_t)(cur[i] > ref[i] ? cur[i] - ref[i] : ref[i] - cur[i]);
        changed[i] = d > threshold;
    }
}

/* pixel[x] = 1 where any of the pixel's bytes changed. */
CUSI_MULTIVERSION
static void changedPixels(const uint8_t *restrict cur, const uint8_t *restrict ref, size_t cols, int channels,
                          uint8_t threshold, uint8_t *restrict pixel) {
    uint8_t bytes[4 * PIXELS_AT_ONCE];
    for (size_t x = 0; x < cols; x += PIXELS_AT_ONCE) {
        const size_t n = cols - x < PIXELS_AT_ONCE ? cols - x : PIXELS_AT_ONCE;
        changedBytes(cur + x * (size_t)channels, ref + x * (size_t)channels, n * (size_t)channels, threshold, bytes);
        if (channels == 1)
            memcpy(pixel + x, bytes, n);
        else if (channels == 3)
            for (size_t i = 0; i < n; ++i)
                pixel[x + i] = bytes[3 * i] | bytes[3 * i + 1] | bytes[3 * i + 2];
        else
            for (size_t i = 0; i < n; ++i)
                pixel[x + i] = bytes[4 * i] | bytes[4 * i + 1] | bytes[4 * i + 2] | bytes[4 * i + 3];
    }
}

static int isNoise(const cusMat *pixels, size_t y, size_t x, int min_neighbours) {
    const size_t y0 = y > 0 ? y - 1 : 0, y1 = y + 1 < (size_t)pixels->rows ? y + 1 : y;
    const size_t x0 = x > 0 ? x - 1 : 0, x1 = x + 1 < (size_t)pixels->cols ? x + 1 : x;
    int neighbours = -1; /* itself */
    for (size_t j = y0; j <= y1; ++j)
        for (size_t i = x0; i <= x1; ++i)
            neighbours += rowOf(pixels, j)[i];
    return neighbours < min_neighbours;
}

/* 64 bytes that are 0 or 1 as 64 bits. */
static uint64_t gather64(const uint8_t *flags) {
    uint64_t bits = 0;
#ifdef __SSE2__
    for (int i = 0; i < 4; ++i) {
        const __m128i sixteen = _mm_slli_epi64(_mm_loadu_si128((const __m128i *)(const void *)(flags + 16 * i)), 7);
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(sixteen) << (16 * i);
    }
#else
    for (int i = 0; i < 8; ++i) {
        uint64_t eight;
        memcpy(&eight, flags + 8 * i, 8);
        bits |= (eight * 0x0102040810204080u) >> 56 << (8 * i); /* gathers the eight in the top byte */
    }
#endif
    return bits;
}

/* The bytes of one row that are to be sent: appended to positions and values, marked in mask_row unless that is NULL. */
static size_t encodeRow(const cusDiffEncoder *encoder, const cusMat *frame, size_t y, uint32_t *positions, uint8_t *values,
                        uint8_t *mask_row) {
    const size_t row_bytes = cusi_rowBytes(frame);
    const size_t channels = (size_t)CUS_CHANNELS(frame->type);
    const uint8_t *cur = rowOf(frame, y), *ref = rowOf(&encoder->ref, y);
    const uint32_t row_start = (uint32_t)(y * row_bytes);
    size_t count = 0;
    uint8_t changed[BYTES_AT_ONCE];
    for (size_t x = 0; x < row_bytes; x += BYTES_AT_ONCE) {
        const size_t n = row_bytes - x < BYTES_AT_ONCE ? row_bytes - x : BYTES_AT_ONCE;
        changedBytes(cur + x, ref + x, n, (uint8_t)encoder->options.threshold, changed);
        memset(changed + n, 0, (64 - n % 64) % 64);
        for (size_t i = x; i < x + n; i += 64) {
            uint64_t bits = gather64(changed + (i - x));
            if (encoder->options.min_neighbours > 0)
                for (uint64_t left = bits; left; left &= left - 1) {
                    const size_t at = i + (size_t)__builtin_ctzll(left);
                    if (isNoise(&encoder->changed, y, at / channels, encoder->options.min_neighbours))
                        bits &= ~(left & -left);
                }
            if (mask_row) {
                const size_t mask_bytes = ((row_bytes - i < 64 ? row_bytes - i : 64) + 7) / 8;
                for (size_t k = 0; k < mask_bytes; ++k)
                    mask_row[i / 8 + k] = (uint8_t)(bits >> (8 * k));
            }
            for (; bits; bits &= bits - 1) {
                const size_t at = i + (size_t)__builtin_ctzll(bits);
                positions[count] = row_start + (uint32_t)at;
                values[count] = (uint8_t)(cur[at] - ref[at]);
                ++count;
            }
        }
    }
    return count;
}

/* state[position] += value for `count` entries. */
static void apply(cusMat *state, const uint32_t *positions, const uint8_t *values, size_t count) {
    const uint32_t row_bytes = (uint32_t)cusi_rowBytes(state);
    if (cusi_isContinuous(state)) {
        uint8_t *bytes = state->data;
        for (size_t k = 0; k < count; ++k)
            bytes[positions[k]] = (uint8_t)(bytes[positions[k]] + values[k]);
        return;
    }
    /* Ascending, so the row is found again only when it is left. */
    uint64_t row_start = 0, row_end = 0;
    uint8_t *row = NULL;
    for (size_t k = 0; k < count; ++k) {
        const uint32_t position = positions[k];
        if (position < row_start || position >= row_end) {
            const size_t y = position / row_bytes;
            row_start = (uint64_t)y * row_bytes;
            row_end = row_start + row_bytes;
            row = rowOfMutable(state, y);
        }
        row[position - row_start] = (uint8_t)(row[position - row_start] + values[k]);
    }
}

cusStatus framediff_host_prepare(cusDiffEncoder *encoder) {
    /* Room for every byte: positions (4 bytes) then values. The pages of bytes that never change are never touched. */
    CUS_TRY(cusMatCreate(&encoder->scratch, encoder->rows, (int)cusi_rowBytes(&encoder->ref), CUS_MAKETYPE(CUS_8U, 5),
                         CUS_HOST));
    if (encoder->options.min_neighbours > 0)
        CUS_TRY(cusMatCreate(&encoder->changed, encoder->rows, encoder->cols, CUS_8UC1, CUS_HOST));
    return CUS_OK;
}

cusStatus framediff_host_encode(cusDiffEncoder *encoder, const cusMat *frame, cusSparseDiff *diff) {
    enum { MAX_BANDS = 256 };
    const size_t row_bytes = cusi_rowBytes(frame), bytes = row_bytes * (size_t)frame->rows;
    const int rows = frame->rows, channels = CUS_CHANNELS(frame->type);
    const int threads = threadsFor(bytes);
    int bands = threads < rows ? threads : rows;
    bands = bands < MAX_BANDS ? bands : MAX_BANDS;
    uint32_t *const scratch_positions = encoder->scratch.data;
    uint8_t *const scratch_values = (uint8_t *)encoder->scratch.data + 4 * bytes;
    size_t counts[MAX_BANDS], starts[MAX_BANDS + 1];

    if (encoder->options.min_neighbours > 0) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (int y = 0; y < rows; ++y)
            changedPixels(rowOf(frame, (size_t)y), rowOf(&encoder->ref, (size_t)y), (size_t)frame->cols, channels,
                          (uint8_t)encoder->options.threshold, rowOfMutable(&encoder->changed, (size_t)y));
    }

    /* Each band of rows lists its entries where they fit in the worst case. */
#pragma omp parallel for schedule(static, 1) num_threads(bands)
    for (int band = 0; band < bands; ++band) {
        const size_t first = (size_t)((int64_t)rows * band / bands), end = (size_t)((int64_t)rows * (band + 1) / bands);
        size_t at = first * row_bytes;
        for (size_t y = first; y < end; ++y)
            at += encodeRow(encoder, frame, y, scratch_positions + at, scratch_values + at,
                            diff->mask.data ? rowOfMutable(&diff->mask, y) : NULL);
        counts[band] = at - first * row_bytes;
    }
    starts[0] = 0;
    for (int band = 0; band < bands; ++band)
        starts[band + 1] = starts[band] + counts[band];
    const uint32_t count = (uint32_t)starts[bands];
    *(uint32_t *)diff->count.data = count;
    CUSI_REQUIRE(count <= diff->capacity, CUS_ERROR_CAPACITY,
                 "cusDiffEncode: %u bytes changed, diff has capacity %u; the reference is as before", count,
                 diff->capacity);

    /* Then, as they do fit, the lists move to their place and the reference takes them. */
#pragma omp parallel for schedule(static, 1) num_threads(bands)
    for (int band = 0; band < bands; ++band) {
        const size_t from = (size_t)((int64_t)rows * band / bands) * row_bytes;
        memcpy((uint32_t *)diff->positions.data + starts[band], scratch_positions + from, 4 * counts[band]);
        memcpy((uint8_t *)diff->values.data + starts[band], scratch_values + from, counts[band]);
        apply(&encoder->ref, scratch_positions + from, scratch_values + from, counts[band]);
    }
    return CUS_OK;
}

/* 1 where positions are ascending: each larger than the one before. */
CUSI_MULTIVERSION
static int ascending(const uint32_t *positions, size_t count) {
    uint32_t bad = 0;
    for (size_t k = 1; k < count; ++k)
        bad |= positions[k] <= positions[k - 1];
    return !bad;
}

cusStatus framediff_host_decode(cusDiffDecoder *decoder, const cusSparseDiff *diff) {
    const uint64_t bytes = (uint64_t)cusi_rowBytes(&decoder->frame) * (uint64_t)decoder->rows;
    const uint32_t count = *(const uint32_t *)diff->count.data;
    const uint32_t *positions = diff->positions.data;
    CUSI_REQUIRE(count <= diff->capacity, CUS_ERROR_CAPACITY,
                 "cusDiffDecode: diff holds an overflow: %u bytes changed, its capacity is %u", count, diff->capacity);
    if (count == 0)
        return CUS_OK;
    if (!ascending(positions, count) || positions[count - 1] >= bytes)
        for (uint32_t k = 0; k < count; ++k)
            CUSI_REQUIRE(positions[k] < bytes && (k == 0 || positions[k] > positions[k - 1]), CUS_ERROR_VALUE,
                         "cusDiffDecode: diff's position %u is %u after %lld, takes ascending positions below %llu", k,
                         positions[k], k ? (long long)positions[k - 1] : -1, (unsigned long long)bytes);
    /* Ascending, so parts of the list change different bytes. */
    const int parts = threadsFor(count);
#pragma omp parallel for schedule(static, 1) num_threads(parts)
    for (int part = 0; part < parts; ++part) {
        const size_t first = (size_t)((uint64_t)count * (uint64_t)part / (uint64_t)parts);
        const size_t end = (size_t)((uint64_t)count * ((uint64_t)part + 1) / (uint64_t)parts);
        apply(&decoder->frame, positions + first, (const uint8_t *)diff->values.data + first, end - first);
    }
    return CUS_OK;
}
