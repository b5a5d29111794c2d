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

enum { BYTES_A_THREAD = 65536 };

static const uint8_t *rowOf(const cusMat *mat, size_t y) {
    return (const uint8_t *)mat->data + y * mat->step;
}
static uint8_t *rowOfMutable(cusMat *mat, size_t y) {
    return (uint8_t *)mat->data + y * mat->step;
}

/* Threads worth starting: one for each `share` of the work, at most all. */
static int threadsFor(size_t work, size_t share) {
    const size_t useful = work / share + 1;
    return useful < (size_t)cusi_maxThreads() ? (int)useful : cusi_maxThreads();
}

/* ---- Heatmap and noise view --------------------------------------------------------------------------------------------
 */

enum { PIXELS_AT_ONCE = 512 };

/* sum[i] = differences of bytes i, i + 1 and i + 2 (one channel: three times that of byte i) of n <= PIXELS_AT_ONCE pixels. Only
 * those at the start of a pixel are wanted, but neighbors are what vector instructions add. */
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
            memcpy(out + 3 * i, &palette->color[sum[i * channels]], 4);
        memcpy(out + 3 * (n - 1), &palette->color[sum[(n - 1) * channels]], 3);
    }
}

cusStatus framediff_host_colorize(const cusMat *prev, const cusMat *cur, cusMat *dst, const FramediffColorMap *paint) {
    const size_t channels = (size_t)CUS_CHANNELS(cur->type);
#pragma omp parallel for schedule(static) num_threads(threadsFor(3 * (size_t)cur->rows * (size_t)cur->cols, BYTES_A_THREAD))
    for (int y = 0; y < cur->rows; ++y)
        paintRow(rowOf(prev, (size_t)y), rowOf(cur, (size_t)y), rowOfMutable(dst, (size_t)y), (size_t)cur->cols, channels,
                 paint->palette);
    return CUS_OK;
}

/* ---- Sparse difference -------------------------------------------------------------------------------------------------
 */

enum {
    BYTES_AT_ONCE = 4096,
    BYTES_AHEAD = 4096, /* fetched early: two cores of a Xeon (Sapphire Rapids) read 37 GB/s so, 34 without */
    MAX_BANDS = 256,
    /* Decoding: entries worth a thread, and how far ahead of them the bytes that they change are fetched. 3 % of 640x480x3,
     * 27648 entries, take two cores of a Xeon (Sapphire Rapids) 31 us; 37 fetching 64 ahead, 49 without; one core 57. Where
     * the caches hold the frame, fetching costs: 17 us, 13 without. */
    ENTRIES_A_THREAD = 16384,
    ENTRIES_AHEAD = 256
};

/* Some bytes of a row, and where their entries go. */
typedef struct Piece {
    const uint8_t *cur;
    uint8_t *ref;
    size_t n;
    uint32_t position; /* of the first byte */
    uint8_t threshold;
    const uint8_t *keep; /* NULL, or for each byte 1 where the noise filter lets it through */
    uint8_t *mask;       /* NULL, or (n + 7) / 8 bytes */
    uint32_t *positions; /* room for n entries */
    uint8_t *values;
} Piece;

/* changed[i] = 1 where |cur - ref| > threshold, 0 elsewhere. */
CUSI_MULTIVERSION
static void changedBytes(const uint8_t *restrict cur, const uint8_t *restrict ref, size_t n, uint8_t threshold,
                         uint8_t *restrict changed) {
    for (size_t i = 0; i < n; ++i) {
        const uint8_t d = (uint8_t)(cur[i] > ref[i] ? cur[i] - ref[i] : ref[i] - cur[i]);
        changed[i] = d > threshold;
    }
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

static void storeMask(uint8_t *mask, uint64_t bits, size_t n) {
    for (size_t k = 0; k < (n + 7) / 8; ++k)
        mask[k] = (uint8_t)(bits >> (8 * k));
}

/* Lists the bytes that are to be sent, and the reference takes them. Returns how many. */
static size_t encodePiece(const Piece *piece) {
    size_t count = 0;
    uint8_t changed[BYTES_AT_ONCE];
    for (size_t start = 0; start < piece->n; start += BYTES_AT_ONCE) {
        const size_t n = piece->n - start < BYTES_AT_ONCE ? piece->n - start : BYTES_AT_ONCE;
        changedBytes(piece->cur + start, piece->ref + start, n, piece->threshold, changed);
        for (size_t i = 0; piece->keep && i < n; ++i)
            changed[i] &= piece->keep[start + i];
        memset(changed + n, 0, (64 - n % 64) % 64);
        for (size_t i = 0; i < n; i += 64) {
            __builtin_prefetch(piece->cur + start + i + BYTES_AHEAD);
            __builtin_prefetch(piece->ref + start + i + BYTES_AHEAD);
            uint64_t bits = gather64(changed + i);
            if (piece->mask)
                storeMask(piece->mask + (start + i) / 8, bits, n - i < 64 ? n - i : 64);
            for (; bits; bits &= bits - 1) {
                const size_t at = start + i + (size_t)__builtin_ctzll(bits);
                piece->positions[count] = piece->position + (uint32_t)at;
                piece->values[count] = (uint8_t)(piece->cur[at] - piece->ref[at]);
                piece->ref[at] = piece->cur[at];
                ++count;
            }
        }
    }
    return count;
}

#ifdef VBMI2
/* The same with AVX-512, whose VBMI2 packs the changed bytes of a register. */
#define TARGET_VBMI2 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")))

/* The n = 64 bytes at x, or fewer at the end, which leaves `count` entries. Whole registers are stored: all blocks before
 * were whole, so count <= x and the store ends within the room for n entries; only that of an incomplete block is masked. */
TARGET_VBMI2
static inline __attribute__((always_inline)) size_t encodeBlock(const Piece *piece, size_t x, size_t n, size_t count) {
    const __mmask64 there = ~(__mmask64)0 >> (64 - n);
    const __m512i cur = _mm512_maskz_loadu_epi8(there, piece->cur + x);
    const __m512i ref = _mm512_maskz_loadu_epi8(there, piece->ref + x);
    const __m512i distance = _mm512_or_si512(_mm512_subs_epu8(cur, ref), _mm512_subs_epu8(ref, cur));
    __mmask64 bits = _mm512_cmpgt_epu8_mask(distance, _mm512_set1_epi8((char)piece->threshold));
    if (piece->keep) {
        const __m512i keep = _mm512_maskz_loadu_epi8(there, piece->keep + x);
        bits = _mm512_mask_test_epi8_mask(bits, keep, keep);
    }
    if (piece->mask)
        storeMask(piece->mask + x / 8, bits, n);
    if (!bits)
        return count;
    _mm512_mask_storeu_epi8(piece->ref + x, there, _mm512_mask_mov_epi8(ref, bits, cur));
    const __m512i ascending =
        _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39,
                        38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14,
                        13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const size_t more = (size_t)__builtin_popcountll(bits);
    const __mmask64 room = n == 64 ? there : ~(__mmask64)0 >> (64 - more);
    _mm512_mask_storeu_epi8(piece->values + count, room, _mm512_maskz_compress_epi8(bits, _mm512_sub_epi8(cur, ref)));
    __m512i lanes = _mm512_maskz_compress_epi8(bits, ascending);
    const __m512i first = _mm512_set1_epi32((int)(piece->position + (uint32_t)x));
    for (size_t k = 0;;) {
        _mm512_mask_storeu_epi32(piece->positions + count + k, (__mmask16)(room >> k),
                                 _mm512_add_epi32(first, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(lanes))));
        k += 16;
        if (k >= more)
            return count + more;
        lanes = _mm512_alignr_epi64(lanes, lanes, 2); /* the next 16 come down */
    }
}

TARGET_VBMI2
static size_t encodePieceVbmi2(const Piece *piece) {
    const Piece p = *piece;
    size_t x = 0, count = 0;
    for (; x + 64 <= p.n; x += 64) {
        __builtin_prefetch(p.cur + x + BYTES_AHEAD);
        __builtin_prefetch(p.ref + x + BYTES_AHEAD);
        count = encodeBlock(&p, x, 64, count);
    }
    return x < p.n ? encodeBlock(&p, x, p.n - x, count) : count;
}
#endif

/* pixel[x] = 1 where any of the pixel's bytes changed. */
CUSI_MULTIVERSION
static void changedPixels(const uint8_t *restrict cur, const uint8_t *restrict ref, size_t cols, size_t channels,
                          uint8_t threshold, uint8_t *restrict pixel) {
    uint8_t bytes[4 * PIXELS_AT_ONCE];
    for (size_t x = 0; x < cols; x += PIXELS_AT_ONCE) {
        const size_t n = cols - x < PIXELS_AT_ONCE ? cols - x : PIXELS_AT_ONCE;
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

/* keep[i] = 1 for the bytes of those pixels x .. x + n - 1 with at least min_neighbors changed pixels around them.
 * above, row, below: changed pixels of three rows, NULL outside the frame. */
CUSI_MULTIVERSION
static void passFilter(const uint8_t *above, const uint8_t *row, const uint8_t *below, size_t cols, size_t x, size_t n,
                       size_t channels, int min_neighbors, uint8_t *restrict keep) {
    uint8_t columns[PIXELS_AT_ONCE + 2]; /* sums of x - 1 .. x + n */
    const size_t first = x == 0, end = n + 2 - (x + n == cols);
    columns[0] = columns[n + 1] = 0;
    for (size_t i = first; i < end; ++i)
        columns[i] = row[x + i - 1];
    for (size_t i = first; above && i < end; ++i)
        columns[i] = (uint8_t)(columns[i] + above[x + i - 1]);
    for (size_t i = first; below && i < end; ++i)
        columns[i] = (uint8_t)(columns[i] + below[x + i - 1]);
    uint8_t passes[PIXELS_AT_ONCE];
    for (size_t i = 0; i < n; ++i)
        passes[i] = columns[i] + columns[i + 1] + columns[i + 2] - row[x + i] >= min_neighbors;
    if (channels == 1)
        memcpy(keep, passes, n);
    else if (channels == 3)
        for (size_t i = 0; i < n; ++i)
            keep[3 * i] = keep[3 * i + 1] = keep[3 * i + 2] = passes[i];
    else
        for (size_t i = 0; i < n; ++i)
            keep[4 * i] = keep[4 * i + 1] = keep[4 * i + 2] = keep[4 * i + 3] = passes[i];
}

/* Changed pixels of row y, for the noise filter. */
static void findChangedPixels(cusDiffEncoder *encoder, const cusMat *frame, size_t y) {
    changedPixels(rowOf(frame, y), rowOf(&encoder->ref, y), (size_t)frame->cols, (size_t)CUS_CHANNELS(frame->type),
                  (uint8_t)encoder->options.threshold, rowOfMutable(&encoder->changed, y));
}

static size_t encodeRow(cusDiffEncoder *encoder, const cusMat *frame, size_t y, uint32_t *positions, uint8_t *values,
                        uint8_t *mask) {
    size_t (*encode)(const Piece *) = encodePiece;
#ifdef VBMI2
    encode = encoder->vbmi2 ? encodePieceVbmi2 : encodePiece;
#endif
    const size_t row_bytes = cusi_rowBytes(frame);
    Piece piece = {.cur = rowOf(frame, y),
                   .ref = rowOfMutable(&encoder->ref, y),
                   .n = row_bytes,
                   .position = (uint32_t)(y * row_bytes),
                   .threshold = (uint8_t)encoder->options.threshold,
                   .mask = mask,
                   .positions = positions,
                   .values = values};
    if (encoder->options.min_neighbors == 0)
        return encode(&piece);
    const size_t cols = (size_t)frame->cols, channels = (size_t)CUS_CHANNELS(frame->type);
    const uint8_t *row = rowOf(&encoder->changed, y), *above = y ? rowOf(&encoder->changed, y - 1) : NULL;
    const uint8_t *below = y + 1 < (size_t)frame->rows ? rowOf(&encoder->changed, y + 1) : NULL;
    uint8_t keep[4 * PIXELS_AT_ONCE];
    piece.keep = keep;
    size_t count = 0;
    for (size_t x = 0; x < cols; x += PIXELS_AT_ONCE) {
        const size_t n = cols - x < PIXELS_AT_ONCE ? cols - x : PIXELS_AT_ONCE;
        passFilter(above, row, below, cols, x, n, channels, encoder->options.min_neighbors, keep);
        piece.n = n * channels;
        const size_t more = encode(&piece);
        count += more;
        piece.positions += more;
        piece.values += more;
        piece.cur += piece.n;
        piece.ref += piece.n;
        piece.position += (uint32_t)piece.n;
        if (mask)
            piece.mask += piece.n / 8;
    }
    return count;
}

/* state[position] += sign * value for `count` entries. */
static void apply(cusMat *state, const uint32_t *positions, const uint8_t *values, size_t count, int sign) {
    const uint32_t row_bytes = (uint32_t)cusi_rowBytes(state);
    /* Ascending, so the row is found again only when it is left; what is continuous is one row. */
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
        if (k + ENTRIES_AHEAD < count) /* a few bytes too early where it is of another row */
            cusi_prefetchToWrite(row + (positions[k + ENTRIES_AHEAD] - row_start));
        row[position - row_start] = (uint8_t)(row[position - row_start] + sign * values[k]);
    }
}

cusStatus framediff_host_prepare(cusDiffEncoder *encoder) {
#ifdef VBMI2
    encoder->vbmi2 =
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2");
#endif
    /* Room for every byte: positions (4 bytes) then values. The pages of bytes that never change are never touched. */
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

cusStatus framediff_host_encode(cusDiffEncoder *encoder, const cusMat *frame, cusSparseDiff *diff) {
    const size_t row_bytes = cusi_rowBytes(frame), bytes = row_bytes * (size_t)frame->rows;
    const int rows = frame->rows, filtered = encoder->options.min_neighbors > 0;
    const int threads = threadsFor(bytes, BYTES_A_THREAD);
    int bands = threads < rows ? threads : rows;
    bands = bands < MAX_BANDS ? bands : MAX_BANDS;
    size_t first[MAX_BANDS + 1] = {0}, starts[MAX_BANDS + 1] = {0};
    for (int band = 0; band <= bands; ++band)
        first[band] = (size_t)((int64_t)rows * band / bands);
    /* Each band of rows lists its entries where they fit in the worst case: the first one where they are wanted if it may,
     * the others in scratch memory. */
    uint32_t *positions[MAX_BANDS] = {NULL};
    uint8_t *values[MAX_BANDS] = {NULL};
    for (int band = 0; band < bands; ++band) {
        positions[band] = (uint32_t *)encoder->scratch.data + first[band] * row_bytes;
        values[band] = (uint8_t *)encoder->scratch.data + 4 * bytes + first[band] * row_bytes;
    }
    if (first[1] * row_bytes <= diff->capacity) {
        positions[0] = diff->positions.data;
        values[0] = diff->values.data;
    }

    /* The filter looks one row past its band, at what the reference was before. */
    if (filtered) {
#pragma omp parallel for schedule(static, 1) num_threads(bands)
        for (int band = 0; band < bands; ++band) {
            findChangedPixels(encoder, frame, first[band]);
            findChangedPixels(encoder, frame, first[band + 1] - 1);
        }
    }
#pragma omp parallel for schedule(static, 1) num_threads(bands)
    for (int band = 0; band < bands; ++band) {
        size_t count = 0;
        for (size_t y = first[band]; y < first[band + 1]; ++y) {
            if (filtered && y + 2 < first[band + 1])
                findChangedPixels(encoder, frame, y + 1);
            count += encodeRow(encoder, frame, y, positions[band] + count, values[band] + count,
                               diff->mask.data ? rowOfMutable(&diff->mask, y) : NULL);
        }
        starts[band + 1] = count;
    }
    for (int band = 0; band < bands; ++band)
        starts[band + 1] += starts[band];
    const size_t count = starts[bands];
    *(uint32_t *)diff->count.data = (uint32_t)count;
    if (count <= diff->capacity && positions[0] == diff->positions.data && count == starts[1])
        return CUS_OK;

        /* The other lists move to their place; or, where there is no room for them, the reference becomes what it was. */
#pragma omp parallel for schedule(static, 1) num_threads(bands)
    for (int band = 0; band < bands; ++band) {
        const size_t n = starts[band + 1] - starts[band];
        if (count > diff->capacity) {
            apply(&encoder->ref, positions[band], values[band], n, -1);
            continue;
        }
        /* Each thread moves an equal share of every list. */
        for (int from = positions[0] == diff->positions.data; from < bands; ++from) {
            const size_t all = starts[from + 1] - starts[from], at = partStart(all, band, bands);
            const size_t more = partStart(all, band + 1, bands) - at;
            memcpy((uint32_t *)diff->positions.data + starts[from] + at, positions[from] + at, 4 * more);
            memcpy((uint8_t *)diff->values.data + starts[from] + at, values[from] + at, more);
        }
    }
    CUSI_REQUIRE(count <= diff->capacity, CUS_ERROR_CAPACITY,
                 "cusDiffEncode: %zu bytes changed, diff has capacity %u; the reference is as before", count,
                 diff->capacity);
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
    const int parts = threadsFor(count, ENTRIES_A_THREAD);
    int bad = positions[count - 1] >= bytes;
#pragma omp parallel num_threads(parts)
    {
        /* All of the list is looked at before any of it is applied. */
#pragma omp for schedule(static, 1) reduction(| : bad)
        for (int part = 0; part < parts; ++part) {
            const size_t first = partStart(count, part, parts), overlap = part > 0;
            bad |= !ascending(positions + first - overlap, partStart(count, part + 1, parts) - first + overlap);
        }
        /* Ascending, so parts of the list change different bytes. */
#pragma omp for schedule(static, 1)
        for (int part = 0; part < parts; ++part) {
            const size_t first = partStart(count, part, parts);
            if (!bad)
                apply(&decoder->frame, positions + first, (const uint8_t *)diff->values.data + first,
                      partStart(count, part + 1, parts) - first, 1);
        }
    }
    for (uint32_t k = 0; bad && k < count; ++k)
        CUSI_REQUIRE(positions[k] < bytes && (k == 0 || positions[k] > positions[k - 1]), CUS_ERROR_VALUE,
                     "cusDiffDecode: diff's position %u is %u after %lld, takes ascending positions below %llu", k,
                     positions[k], k ? (long long)positions[k - 1] : -1, (unsigned long long)bytes);
    return CUS_OK;
}
