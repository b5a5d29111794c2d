/* framediff on the CPU: heatmap and noise view, encoder, decoder. */
#include "check.h"
#include "framediff_backend.h"
#include "host.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif
#if defined(__x86_64__) && defined(__GNUC__)
#define VBMI2 1
#endif

enum { BYTES_PER_THREAD = 65536 };

static const uint8_t *rowOf(const cusMat *mat, size_t y) {
    return (const uint8_t *)mat->data + y * mat->step;
}
static uint8_t *rowOfMutable(cusMat *mat, size_t y) {
    return (uint8_t *)mat->data + y * mat->step;
}

/* How many threads to start: one per `share` of the work, at most all. */
static int threadsFor(size_t work, size_t share) {
    const size_t useful = work / share + 1;
    return useful < (size_t)cusi_maxThreads() ? (int)useful : cusi_maxThreads();
}

/* ---- Heatmap and noise view ---------------------------------------------------------------------------------------- */

enum { BLOCK_PIXELS = 512, PART_PIXELS = 8192 };

/* sum[i] = differences of bytes i, i + 1 and i + 2 (one channel: three times that of byte i), for n <= BLOCK_PIXELS pixels. Only
 * the sums at the start of a pixel are used, but computing all of them vectorizes. */
CUSI_MULTIVERSION
static void summedDifferences(const uint8_t *restrict a, const uint8_t *restrict b, size_t n, int channels,
                              uint16_t *restrict sum) {
    uint8_t difference[4 * BLOCK_PIXELS + 2];
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

static void colorizeRow(const uint8_t *a, const uint8_t *b, uint8_t *dst, size_t cols, size_t channels,
                        const FramediffPalette *palette) {
    uint16_t sum[4 * BLOCK_PIXELS];
    for (size_t x = 0; x < cols; x += BLOCK_PIXELS) {
        const size_t n = cols - x < BLOCK_PIXELS ? cols - x : BLOCK_PIXELS;
        summedDifferences(a + x * channels, b + x * channels, n, (int)channels, sum);
        uint8_t *out = dst + 3 * x;
        /* Stores four bytes per pixel, the last of which the next pixel overwrites; the final pixel has only three. */
        for (size_t i = 0; i + 1 < n; ++i)
            memcpy(out + 3 * i, &palette->color[sum[i * channels]], 4);
        memcpy(out + 3 * (n - 1), &palette->color[sum[(n - 1) * channels]], 3);
    }
}

cusStatus framediff_host_colorize(const cusMat *prev, const cusMat *cur, cusMat *dst, const FramediffColorMap *map) {
    const size_t channels = (size_t)CUS_CHANNELS(cur->type);
    size_t rows = (size_t)cur->rows, cols = (size_t)cur->cols;
    const int threads = threadsFor(3 * rows * cols, BYTES_PER_THREAD);
    (void)threads; /* without OpenMP */
    if (cusi_isContinuous(prev) && cusi_isContinuous(cur) && cusi_isContinuous(dst)) {
        cols *= rows; /* so that frames of any shape cost the same */
        rows = 1;
    }
    const size_t parts = (cols + PART_PIXELS - 1) / PART_PIXELS; /* of a row */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t part = 0; part < (int64_t)(rows * parts); ++part) {
        const size_t y = (size_t)part / parts, x = (size_t)part % parts * PART_PIXELS;
        const size_t n = cols - x < PART_PIXELS ? cols - x : PART_PIXELS;
        colorizeRow(rowOf(prev, y) + x * channels, rowOf(cur, y) + x * channels, rowOfMutable(dst, y) + 3 * x, n, channels,
                    map->palette);
    }
    return CUS_OK;
}

/* ---- Sparse difference --------------------------------------------------------------------------------------------- */

enum { /* measured: docs/internals/framediff.md */
       BLOCK_BYTES = 4096,
       PREFETCH_BYTES = 4096, /* how far ahead frame and reference are fetched */
       MAX_BANDS = 256,
       ENTRIES_PER_THREAD = 16384, /* decoding */
       PREFETCH_ENTRIES = 256      /* how far ahead the bytes that the decoder changes are fetched for writing */
};

/* Some bytes of a row, and the destination of their entries. */
typedef struct Segment {
    const uint8_t *cur;
    uint8_t *ref;
    size_t n;
    uint32_t position; /* of the first byte */
    uint8_t threshold;
    const uint8_t *passes; /* NULL, or for each byte 1 where it passes the noise filter, else 0 */
    uint8_t *mask;         /* NULL, or (n + 7) / 8 bytes */
    uint32_t *positions;   /* room for n entries */
    uint8_t *values;
} Segment;

/* changed[i] = 1 where |cur - ref| > threshold, 0 elsewhere. */
CUSI_MULTIVERSION
static void changedBytes(const uint8_t *restrict cur, const uint8_t *restrict ref, size_t n, uint8_t threshold,
                         uint8_t *restrict changed) {
    for (size_t i = 0; i < n; ++i) {
        const uint8_t d = (uint8_t)(cur[i] > ref[i] ? cur[i] - ref[i] : ref[i] - cur[i]);
        changed[i] = d > threshold;
    }
}

/* Packs 64 bytes of 0 or 1 into 64 bits. */
static uint64_t packFlags64(const uint8_t *flags) {
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
        bits |= (eight * 0x0102040810204080u) >> 56 << (8 * i); /* collects the eight in the top byte */
    }
#endif
    return bits;
}

static void storeMask(uint8_t *mask, uint64_t bits, size_t n) {
    for (size_t k = 0; k < (n + 7) / 8; ++k)
        mask[k] = (uint8_t)(bits >> (8 * k));
}

/* Lists the bytes to send and copies them to the reference. Returns their number. */
static size_t encodeSegment(const Segment *segment) {
    size_t count = 0;
    uint8_t changed[BLOCK_BYTES];
    for (size_t start = 0; start < segment->n; start += BLOCK_BYTES) {
        const size_t n = segment->n - start < BLOCK_BYTES ? segment->n - start : BLOCK_BYTES;
        changedBytes(segment->cur + start, segment->ref + start, n, segment->threshold, changed);
        for (size_t i = 0; segment->passes && i < n; ++i)
            changed[i] &= segment->passes[start + i];
        memset(changed + n, 0, (64 - n % 64) % 64);
        for (size_t i = 0; i < n; i += 64) {
            __builtin_prefetch(segment->cur + start + i + PREFETCH_BYTES);
            __builtin_prefetch(segment->ref + start + i + PREFETCH_BYTES);
            uint64_t bits = packFlags64(changed + i);
            if (segment->mask)
                storeMask(segment->mask + (start + i) / 8, bits, n - i < 64 ? n - i : 64);
            for (; bits; bits &= bits - 1) {
                const size_t at = start + i + (size_t)__builtin_ctzll(bits);
                segment->positions[count] = segment->position + (uint32_t)at;
                segment->values[count] = (uint8_t)(segment->cur[at] - segment->ref[at]);
                segment->ref[at] = segment->cur[at];
                ++count;
            }
        }
    }
    return count;
}

#ifdef VBMI2
/* The same with AVX-512; its VBMI2 extension packs the changed bytes of a register. */
#define TARGET_VBMI2 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")))

/* Encodes the n = 64 bytes at x (fewer at the end of the segment) after `count` earlier entries; returns the new count. Full
 * blocks store whole registers: all earlier blocks were full, so count <= x and the stores stay within the room for x + 64
 * entries. Only an incomplete block masks its stores. */
TARGET_VBMI2
static inline __attribute__((always_inline)) size_t encodeBlock(const Segment *segment, size_t x, size_t n, size_t count) {
    const __mmask64 valid = ~(__mmask64)0 >> (64 - n);
    const __m512i cur = _mm512_maskz_loadu_epi8(valid, segment->cur + x);
    const __m512i ref = _mm512_maskz_loadu_epi8(valid, segment->ref + x);
    const __m512i distance = _mm512_or_si512(_mm512_subs_epu8(cur, ref), _mm512_subs_epu8(ref, cur));
    __mmask64 bits = _mm512_cmpgt_epu8_mask(distance, _mm512_set1_epi8((char)segment->threshold));
    if (segment->passes) {
        const __m512i passes = _mm512_maskz_loadu_epi8(valid, segment->passes + x);
        bits = _mm512_mask_test_epi8_mask(bits, passes, passes);
    }
    if (segment->mask)
        storeMask(segment->mask + x / 8, bits, n);
    if (!bits)
        return count;
    _mm512_mask_storeu_epi8(segment->ref + x, valid, _mm512_mask_mov_epi8(ref, bits, cur));
    const __m512i ascending =
        _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39,
                        38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14,
                        13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const size_t more = (size_t)__builtin_popcountll(bits);
    const __mmask64 room = n == 64 ? valid : ~(__mmask64)0 >> (64 - more);
    _mm512_mask_storeu_epi8(segment->values + count, room, _mm512_maskz_compress_epi8(bits, _mm512_sub_epi8(cur, ref)));
    __m512i lanes = _mm512_maskz_compress_epi8(bits, ascending);
    const __m512i first = _mm512_set1_epi32((int)(segment->position + (uint32_t)x));
    for (size_t k = 0;;) {
        _mm512_mask_storeu_epi32(segment->positions + count + k, (__mmask16)(room >> k),
                                 _mm512_add_epi32(first, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(lanes))));
        k += 16;
        if (k >= more)
            return count + more;
        lanes = _mm512_alignr_epi64(lanes, lanes, 2); /* moves the next 16 down */
    }
}

TARGET_VBMI2
static size_t encodeSegmentVbmi2(const Segment *segment) {
    const Segment p = *segment;
    size_t x = 0, count = 0;
    for (; x + 64 <= p.n; x += 64) {
        __builtin_prefetch(p.cur + x + PREFETCH_BYTES);
        __builtin_prefetch(p.ref + x + PREFETCH_BYTES);
        count = encodeBlock(&p, x, 64, count);
    }
    return x < p.n ? encodeBlock(&p, x, p.n - x, count) : count;
}
#endif

/* pixel[x] = 1 where any of the pixel's bytes changed. */
CUSI_MULTIVERSION
static void changedPixels(const uint8_t *restrict cur, const uint8_t *restrict ref, size_t cols, size_t channels,
                          uint8_t threshold, uint8_t *restrict pixel) {
    uint8_t bytes[4 * BLOCK_PIXELS];
    for (size_t x = 0; x < cols; x += BLOCK_PIXELS) {
        const size_t n = cols - x < BLOCK_PIXELS ? cols - x : BLOCK_PIXELS;
        changedBytes(cur + x * channels, ref + x * channels, n * channels, threshold, bytes);
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

/* byte_passes[i] = 1 for the bytes of pixels x .. x + n - 1 that have at least min_neighbors changed neighbors, else 0.
 * above, row, below: changed pixels of three rows, NULL outside the frame. */
CUSI_MULTIVERSION
static void noiseFilter(const uint8_t *above, const uint8_t *row, const uint8_t *below, size_t cols, size_t x, size_t n,
                        size_t channels, int min_neighbors, uint8_t *restrict byte_passes) {
    uint8_t columns[BLOCK_PIXELS + 2]; /* sums of x - 1 .. x + n */
    const size_t first = x == 0, end = n + 2 - (x + n == cols);
    columns[0] = columns[n + 1] = 0;
    for (size_t i = first; i < end; ++i)
        columns[i] = row[x + i - 1];
    for (size_t i = first; above && i < end; ++i)
        columns[i] = (uint8_t)(columns[i] + above[x + i - 1]);
    for (size_t i = first; below && i < end; ++i)
        columns[i] = (uint8_t)(columns[i] + below[x + i - 1]);
    uint8_t passes[BLOCK_PIXELS];
    for (size_t i = 0; i < n; ++i)
        passes[i] = columns[i] + columns[i + 1] + columns[i + 2] - row[x + i] >= min_neighbors;
    if (channels == 1)
        memcpy(byte_passes, passes, n);
    else if (channels == 3)
        for (size_t i = 0; i < n; ++i)
            byte_passes[3 * i] = byte_passes[3 * i + 1] = byte_passes[3 * i + 2] = passes[i];
    else
        for (size_t i = 0; i < n; ++i)
            byte_passes[4 * i] = byte_passes[4 * i + 1] = byte_passes[4 * i + 2] = byte_passes[4 * i + 3] = passes[i];
}

/* Changed pixels of row y, for the noise filter. */
static void findChangedPixels(cusDiffEncoder *encoder, const cusMat *frame, size_t y) {
    changedPixels(rowOf(frame, y), rowOf(&encoder->ref, y), (size_t)frame->cols, (size_t)CUS_CHANNELS(frame->type),
                  (uint8_t)encoder->options.threshold, rowOfMutable(&encoder->changed, y));
}

typedef size_t Encode(const Segment *segment);

static Encode *encodeFor(const cusDiffEncoder *encoder) {
#ifdef VBMI2
    if (encoder->vbmi2)
        return encodeSegmentVbmi2;
#endif
    (void)encoder;
    return encodeSegment;
}

static size_t encodeRow(cusDiffEncoder *encoder, const cusMat *frame, size_t y, uint32_t *positions, uint8_t *values,
                        uint8_t *mask) {
    Encode *const encode = encodeFor(encoder);
    const size_t row_bytes = cusi_rowBytes(frame);
    Segment segment = {.cur = rowOf(frame, y),
                       .ref = rowOfMutable(&encoder->ref, y),
                       .n = row_bytes,
                       .position = (uint32_t)(y * row_bytes),
                       .threshold = (uint8_t)encoder->options.threshold,
                       .mask = mask,
                       .positions = positions,
                       .values = values};
    if (encoder->options.min_neighbors == 0)
        return encode(&segment);
    const size_t cols = (size_t)frame->cols, channels = (size_t)CUS_CHANNELS(frame->type);
    const uint8_t *row = rowOf(&encoder->changed, y), *above = y ? rowOf(&encoder->changed, y - 1) : NULL;
    const uint8_t *below = y + 1 < (size_t)frame->rows ? rowOf(&encoder->changed, y + 1) : NULL;
    uint8_t passes[4 * BLOCK_PIXELS];
    segment.passes = passes;
    size_t count = 0;
    for (size_t x = 0; x < cols; x += BLOCK_PIXELS) {
        const size_t n = cols - x < BLOCK_PIXELS ? cols - x : BLOCK_PIXELS;
        noiseFilter(above, row, below, cols, x, n, channels, encoder->options.min_neighbors, passes);
        segment.n = n * channels;
        const size_t more = encode(&segment);
        count += more;
        segment.positions += more;
        segment.values += more;
        segment.cur += segment.n;
        segment.ref += segment.n;
        segment.position += (uint32_t)segment.n;
        if (mask)
            segment.mask += segment.n / 8;
    }
    return count;
}

/* state[position] += sign * value for `count` entries. */
static void addEntries(cusMat *state, const uint32_t *positions, const uint8_t *values, size_t count, int sign) {
    const uint32_t row_bytes = (uint32_t)cusi_rowBytes(state);
    /* Positions ascend, so the row changes rarely. A continuous matrix counts as one row. */
    uint64_t row_start = 0, row_end = cusi_isContinuous(state) ? UINT64_MAX : 0;
    uint8_t *row = state->data;
    for (size_t k = 0; k < count; ++k) {
        const uint32_t position = positions[k];
        if (position >= row_end) {
            const size_t y = position / row_bytes;
            row_start = (uint64_t)y * row_bytes;
            row_end = row_start + row_bytes;
            row = rowOfMutable(state, y);
        }
        if (k + PREFETCH_ENTRIES < count) /* in another row it is off by the padding, which is harmless */
            cusi_prefetchToWrite(row + (positions[k + PREFETCH_ENTRIES] - row_start));
        row[position - row_start] = (uint8_t)(row[position - row_start] + sign * values[k]);
    }
}

cusStatus framediff_host_prepare(cusDiffEncoder *encoder) {
#ifdef VBMI2
    encoder->vbmi2 =
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2");
#endif
    /* Room for every byte: positions (4 bytes each), then values. Pages that are never used are never touched. */
    CUS_TRY(cusMatCreate(&encoder->scratch, encoder->rows, (int)cusi_rowBytes(&encoder->ref), CUS_MAKETYPE(CUS_8U, 5),
                         CUS_HOST));
    if (encoder->options.min_neighbors > 0)
        CUS_TRY(cusMatCreate(&encoder->changed, encoder->rows, encoder->cols, CUS_8UC1, CUS_HOST));
    return CUS_OK;
}

/* Where part `part` of `parts` of a list starts. */
static size_t partStart(size_t count, int part, int parts) {
    return (size_t)((uint64_t)count * (uint64_t)part / (uint64_t)parts);
}

/* The frame cut into bands, one per thread, each with a list of its entries. */
typedef struct Bands {
    int count;
    int joined;                     /* rows follow each other without padding and are encoded as one */
    int in_place;                   /* the first band lists its entries directly in the output */
    size_t first[MAX_BANDS + 1];    /* rows; if joined, bytes */
    size_t starts[MAX_BANDS + 1];   /* entries: where each band's list belongs in the output */
    uint32_t *positions[MAX_BANDS]; /* the lists, each with room for the worst case */
    uint8_t *values[MAX_BANDS];
} Bands;

/* Without the noise filter, rows need not be told apart, so that frames of any shape cost the same. A mask's rows must then
 * follow each other too. */
static int canJoinRows(const cusDiffEncoder *encoder, const cusMat *frame, const cusMat *mask) {
    return encoder->options.min_neighbors == 0 && cusi_isContinuous(frame) && cusi_isContinuous(&encoder->ref) &&
           (!mask->data || (cusi_isContinuous(mask) && (frame->rows == 1 || cusi_rowBytes(frame) % 8 == 0)));
}

static void divideIntoBands(const cusDiffEncoder *encoder, const cusMat *frame, const cusSparseDiff *diff, Bands *bands) {
    const size_t row_bytes = cusi_rowBytes(frame), bytes = row_bytes * (size_t)frame->rows;
    bands->joined = canJoinRows(encoder, frame, &diff->mask);
    /* Joined rows are cut at multiples of 64 bytes: those of a block, and of whole bytes of the mask. */
    const size_t unit = bands->joined ? 64 : row_bytes, units = (bytes + unit - 1) / unit;
    const size_t threads = (size_t)threadsFor(bytes, BYTES_PER_THREAD), most = threads < units ? threads : units;
    const int enough = most < MAX_BANDS ? (int)most : MAX_BANDS;
    const int count = enough > 1 ? enough : 1; /* as it is anyway; compilers then know that all that is read is written */
    bands->count = count;
    bands->starts[0] = 0;
    for (int band = 0; band <= count; ++band) {
        const size_t first = units * (size_t)band / (size_t)count, offset = first * unit < bytes ? first * unit : bytes;
        bands->first[band] = bands->joined ? offset : first;
        if (band == count)
            break;
        bands->positions[band] = (uint32_t *)encoder->scratch.data + offset;
        bands->values[band] = (uint8_t *)encoder->scratch.data + 4 * bytes + offset;
    }
    bands->in_place = bands->first[1] * (bands->joined ? 1 : row_bytes) <= diff->capacity;
    if (bands->in_place) {
        bands->positions[0] = diff->positions.data;
        bands->values[0] = diff->values.data;
    }
}

/* Lists the entries of one band; returns their number. With the noise filter, the changed pixels of the band's first and last
 * row are known already. */
static size_t encodeBand(cusDiffEncoder *encoder, const cusMat *frame, cusSparseDiff *diff, const Bands *bands, int band) {
    const size_t begin = bands->first[band], end = bands->first[band + 1];
    if (bands->joined) {
        const Segment segment = {.cur = (const uint8_t *)frame->data + begin,
                                 .ref = (uint8_t *)encoder->ref.data + begin,
                                 .n = end - begin,
                                 .position = (uint32_t)begin,
                                 .threshold = (uint8_t)encoder->options.threshold,
                                 .mask = diff->mask.data ? (uint8_t *)diff->mask.data + begin / 8 : NULL,
                                 .positions = bands->positions[band],
                                 .values = bands->values[band]};
        return encodeFor(encoder)(&segment);
    }
    const int filtered = encoder->options.min_neighbors > 0;
    size_t count = 0;
    for (size_t y = begin; y < end; ++y) {
        if (filtered && y + 2 < end)
            findChangedPixels(encoder, frame, y + 1);
        count += encodeRow(encoder, frame, y, bands->positions[band] + count, bands->values[band] + count,
                           diff->mask.data ? rowOfMutable(&diff->mask, y) : NULL);
    }
    return count;
}

/* Moves share `part` of `parts` of each list in scratch memory to its place in the output. */
static void moveLists(const Bands *bands, cusSparseDiff *diff, int part, int parts) {
    for (int band = bands->in_place; band < bands->count; ++band) {
        const size_t n = bands->starts[band + 1] - bands->starts[band], at = partStart(n, part, parts);
        const size_t share = partStart(n, part + 1, parts) - at, to = bands->starts[band] + at;
        memcpy((uint32_t *)diff->positions.data + to, bands->positions[band] + at, 4 * share);
        memcpy((uint8_t *)diff->values.data + to, bands->values[band] + at, share);
    }
}

cusStatus framediff_host_encode(cusDiffEncoder *encoder, const cusMat *frame, cusSparseDiff *diff) {
    Bands bands;
    divideIntoBands(encoder, frame, diff, &bands);
    /* The filter reads one row beyond its band; that row's changes must be those against the previous reference. */
    if (encoder->options.min_neighbors > 0) {
#pragma omp parallel for schedule(static, 1) num_threads(bands.count)
        for (int band = 0; band < bands.count; ++band) {
            findChangedPixels(encoder, frame, bands.first[band]);
            findChangedPixels(encoder, frame, bands.first[band + 1] - 1);
        }
    }
#pragma omp parallel for schedule(static, 1) num_threads(bands.count)
    for (int band = 0; band < bands.count; ++band)
        bands.starts[band + 1] = encodeBand(encoder, frame, diff, &bands, band);
    for (int band = 0; band < bands.count; ++band)
        bands.starts[band + 1] += bands.starts[band];
    const size_t count = bands.starts[bands.count];
    *(uint32_t *)diff->count.data = (uint32_t)count;
    if (count <= diff->capacity && bands.in_place && count == bands.starts[1])
        return CUS_OK;

#pragma omp parallel for schedule(static, 1) num_threads(bands.count)
    for (int band = 0; band < bands.count; ++band) {
        if (count <= diff->capacity)
            moveLists(&bands, diff, band, bands.count);
        else /* undo */
            addEntries(&encoder->ref, bands.positions[band], bands.values[band],
                       bands.starts[band + 1] - bands.starts[band], -1);
    }
    CUSI_REQUIRE(count <= diff->capacity, CUS_ERROR_CAPACITY,
                 "cusDiffEncode: %zu bytes changed, diff has capacity %u; the reference is unchanged", count,
                 diff->capacity);
    return CUS_OK;
}

/* Whether each position is larger than the one before. */
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
                 "cusDiffDecode: diff has overflowed: %u bytes changed, its capacity is %u", count, diff->capacity);
    if (count == 0)
        return CUS_OK;
    const int parts = threadsFor(count, ENTRIES_PER_THREAD);
    int bad = positions[count - 1] >= bytes;
#pragma omp parallel num_threads(parts)
    {
        /* Check the whole list before applying any of it. */
#pragma omp for schedule(static, 1) reduction(| : bad)
        for (int part = 0; part < parts; ++part) {
            const size_t first = partStart(count, part, parts), overlap = part > 0;
            bad |= !ascending(positions + first - overlap, partStart(count, part + 1, parts) - first + overlap);
        }
        /* Positions ascend, so the parts change different bytes. */
#pragma omp for schedule(static, 1)
        for (int part = 0; part < parts; ++part) {
            const size_t first = partStart(count, part, parts);
            if (!bad)
                addEntries(&decoder->frame, positions + first, (const uint8_t *)diff->values.data + first,
                           partStart(count, part + 1, parts) - first, 1);
        }
    }
    for (uint32_t k = 0; bad && k < count; ++k)
        CUSI_REQUIRE(positions[k] < bytes && (k == 0 || positions[k] > positions[k - 1]), CUS_ERROR_VALUE,
                     "cusDiffDecode: diff's position %u is %u after %lld, expected ascending positions below %llu", k,
                     positions[k], k ? (long long)positions[k - 1] : -1, (unsigned long long)bytes);
    return CUS_OK;
}
