/* The encoder on the CPU. Threads take chunks of the frames and list their entries in memory of their own. A thread then
 * waits for its chunk's turn, learns where the entries belong, and copies them there. */
#include "check.h"
#include "framediff/backend.h"
#include "host.h"

#include <sched.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif
#if defined(__x86_64__) && defined(__GNUC__)
#define VBMI2 1
#endif

enum { /* measured: docs/internals/framediff.md */
       BYTES_PER_THREAD = 65536,
       CHUNK_BYTES = 65536, /* about the smallest chunk */
       MAX_CHUNK_BYTES = 262144,
       CHUNK_UNIT = 192, /* chunks are multiples of this: whole pixels, bytes of the mask, and blocks of 64 bytes */
       CHUNKS_PER_THREAD = 4,
       FRAMES = 64, /* of a batch that threads share */
       BLOCK_BYTES = 4096,
       BLOCK_PIXELS = 512,
       PREFETCH_BYTES = 4096 /* frame and reference are prefetched this far ahead */
};

/* ---- Entries of consecutive bytes ---------------------------------------------------------------------------------- */

/* Some bytes of a row, and the destination of their entries. */
typedef struct Segment {
    const uint8_t *cur;
    uint8_t *ref;
    size_t n;
    uint32_t position; /* position of the first byte */
    uint8_t threshold;
    const uint8_t *passes; /* NULL, or for each byte 1 if it passes the noise filter, else 0 */
    uint8_t *mask;         /* NULL, or (n + 7) / 8 bytes */
    uint32_t *positions;   /* room for n entries */
    uint8_t *values;
} Segment;

/* Sets changed[i] to 1 where |cur - ref| > threshold, to 0 elsewhere. */
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
        bits |= (eight * 0x0102040810204080u) >> 56 << (8 * i); /* collects the eight bits in the top byte */
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
/* AVX-512 code for the same work. VBMI2 packs the changed bytes of a register. */
#define TARGET_VBMI2 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")))

/* Encodes the n = 64 bytes at x (fewer at the end of the segment) after `count` earlier entries; returns the new count.
 * Full blocks store whole registers: all earlier blocks were full, so count <= x and the stores stay within the room for x
 * + 64 entries. Only an incomplete block masks its stores. */
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
        lanes = _mm512_alignr_epi64(lanes, lanes, 2); /* moves the next 16 lanes down */
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

/* Sets pixel[x] to 1 where any of the pixel's bytes changed. */
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

/* Sets byte_passes[i] to 1 for the bytes of n pixels from `map` on that have at least min_neighbors changed neighbors,
 * otherwise to 0. map: 1 for changed pixels of the image, whose rows follow each other, with zeros around. inside[i]: 0 if
 * pixel i is the first of a row, so that pixel i - 1 is no neighbor, otherwise 255. */
CUSI_MULTIVERSION
static void noiseFilter(const uint8_t *map, const uint8_t *inside, size_t cols, size_t n, size_t channels,
                        int min_neighbors, uint8_t *restrict byte_passes) {
    uint8_t columns[BLOCK_PIXELS + 2]; /* sums of three vertical neighbors, for columns -1 .. n */
    const uint8_t *const above = map - 1 - cols, *const row = map - 1, *const below = map - 1 + cols;
    for (size_t i = 0; i < n + 2; ++i)
        columns[i] = (uint8_t)(above[i] + row[i] + below[i]);
    uint8_t passes[BLOCK_PIXELS];
    for (size_t i = 0; i < n; ++i)
        passes[i] = (columns[i] & inside[i]) + columns[i + 1] + (columns[i + 2] & inside[i + 1]) - map[i] >= min_neighbors;
    if (channels == 1)
        memcpy(byte_passes, passes, n);
    else if (channels == 3)
        for (size_t i = 0; i < n; ++i)
            byte_passes[3 * i] = byte_passes[3 * i + 1] = byte_passes[3 * i + 2] = passes[i];
    else
        for (size_t i = 0; i < n; ++i)
            byte_passes[4 * i] = byte_passes[4 * i + 1] = byte_passes[4 * i + 2] = byte_passes[4 * i + 3] = passes[i];
}

/* ---- What an encoder owns ------------------------------------------------------------------------------------------ */

/* A thread's memory for a chunk. */
typedef struct Scratch {
    uint32_t *positions;
    uint8_t *values;
} Scratch;

/* Returns the memory of a thread among those that the encoders hold. */
static Scratch scratchOf(cusDiffEncoder *const *encoders, int thread) {
    for (; thread >= (*encoders)->scratch.rows; ++encoders)
        thread -= (*encoders)->scratch.rows;
    const cusDiffEncoder *const encoder = *encoders;
    Scratch scratch;
    scratch.positions = (uint32_t *)(void *)((uint8_t *)encoder->scratch.data + (size_t)thread * encoder->scratch.step);
    scratch.values = (uint8_t *)(scratch.positions + MAX_CHUNK_BYTES);
    return scratch;
}

/* With the noise filter, encoder->changed holds a byte for each pixel, with zeros for a row and one pixel before and
 * after, then the pattern of row ends. */
static uint8_t *changedMap(const cusDiffEncoder *encoder) {
    return (uint8_t *)encoder->changed.data + encoder->ref.cols + 1;
}
static uint8_t *insidePattern(const cusDiffEncoder *encoder) {
    return changedMap(encoder) + ((size_t)encoder->ref.rows + 1) * (size_t)encoder->ref.cols + 1;
}

cusStatus framediff_host_prepare(cusDiffEncoder *encoder) {
#ifdef VBMI2
    encoder->vbmi2 =
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2");
#endif
    const size_t rows = (size_t)encoder->ref.rows, cols = (size_t)encoder->ref.cols;
    const int threads = cusi_threadsFor(rows * cusi_rowBytes(&encoder->ref), BYTES_PER_THREAD);
    CUS_TRY(cusMatCreate(&encoder->scratch, threads, 5 * MAX_CHUNK_BYTES, CUS_8UC1, CUS_HOST));
    if (encoder->options.min_neighbors == 0)
        return CUS_OK;
    const size_t pattern = cols + BLOCK_PIXELS + 1;
    const size_t words = ((rows + 2) * cols + 2 + pattern + 7) / 8; /* a matrix may have fewer columns than these bytes */
    CUS_TRY(cusMatCreate(&encoder->changed, 1, (int)words, CUS_64FC1, CUS_HOST));
    CUS_TRY(cusMatSetZero(&encoder->changed, NULL));
    for (size_t i = 0; i < pattern; ++i)
        insidePattern(encoder)[i] = i % cols ? 255 : 0;
    return CUS_OK;
}

/* ---- Passing through a frame --------------------------------------------------------------------------------------- */

typedef struct Plan {
    cusDiffEncoder *encoder;
    const cusMat *frame;
    const cusSparseDiff *diff;
    size_t bytes, channels;
    size_t run;           /* contiguous bytes of frame and mask: a row, or the whole frame */
    size_t chunk, chunks; /* approximate bytes of a chunk; number of chunks */
    size_t ahead;         /* noise filter: chunks after the current one that hold neighbors of its pixels */
} Plan;

static Plan planFor(cusDiffEncoder *encoder, const cusMat *frame, const cusSparseDiff *diff, int threads) {
    const size_t row_bytes = cusi_rowBytes(frame), bytes = row_bytes * (size_t)frame->rows;
    const size_t channels = (size_t)CUS_CHANNELS(frame->type);
    const int mask_joins = !diff->mask.data || (cusi_isContinuous(&diff->mask) && row_bytes % 8 == 0);
    const size_t share = bytes / (size_t)threads / CHUNKS_PER_THREAD;
    const size_t chunk = share < CHUNK_BYTES ? CHUNK_BYTES : share > MAX_CHUNK_BYTES ? MAX_CHUNK_BYTES : share;
    Plan plan = {.encoder = encoder, .frame = frame, .diff = diff, .bytes = bytes, .channels = channels};
    plan.run = mask_joins && cusi_isContinuous(frame) ? bytes : row_bytes;
    plan.chunk = chunk / CHUNK_UNIT * CHUNK_UNIT;
    plan.chunks = (bytes + plan.chunk - 1) / plan.chunk;
    if (encoder->options.min_neighbors > 0) /* pixels of the next row, with the most that chunkBegin() moves ends */
        plan.ahead = (((size_t)frame->cols + 9) * channels + plan.chunk - 1) / plan.chunk;
    return plan;
}

/* Returns where chunk k begins and the one before ends. Neither splits a pixel or a byte of the mask. */
static size_t chunkBegin(const Plan *plan, size_t k) {
    const size_t at = k * plan->chunk < plan->bytes ? k * plan->chunk : plan->bytes;
    return at - at % plan->run % (8 * plan->channels);
}

/* Returns the frame's contiguous bytes from `at` on, and in *n their number, up to `end`. */
static const uint8_t *runAt(const Plan *plan, size_t at, size_t end, size_t *n) {
    const size_t y = at / plan->run, x = at - y * plan->run;
    *n = end - at < plan->run - x ? end - at : plan->run - x;
    return (const uint8_t *)plan->frame->data + y * plan->frame->step + x;
}

/* Maps the changed pixels of a chunk, for the noise filter. */
static void mapChunk(const Plan *plan, size_t k) {
    for (size_t at = chunkBegin(plan, k), end = chunkBegin(plan, k + 1), n; at < end; at += n) {
        const uint8_t *const cur = runAt(plan, at, end, &n);
        changedPixels(cur, (const uint8_t *)plan->encoder->ref.data + at, n / plan->channels, plan->channels,
                      (uint8_t)plan->encoder->options.threshold, changedMap(plan->encoder) + at / plan->channels);
    }
}

static size_t encodeUnfiltered(const cusDiffEncoder *encoder, const Segment *segment) {
#ifdef VBMI2
    if (encoder->vbmi2)
        return encodeSegmentVbmi2(segment);
#endif
    (void)encoder;
    return encodeSegment(segment);
}

/* Lists the entries of a segment that pass the noise filter. */
static size_t encodeFiltered(const cusDiffEncoder *encoder, Segment segment, size_t channels) {
    const size_t cols = (size_t)encoder->ref.cols, bytes = segment.n, block = BLOCK_PIXELS * channels;
    uint8_t passes[4 * BLOCK_PIXELS];
    segment.passes = passes;
    size_t count = 0;
    for (size_t at = 0; at < bytes; at += segment.n) {
        segment.n = bytes - at < block ? bytes - at : block;
        const size_t pixel = segment.position / channels;
        noiseFilter(changedMap(encoder) + pixel, insidePattern(encoder) + pixel % cols, cols, segment.n / channels,
                    channels, encoder->options.min_neighbors, passes);
        const size_t more = encodeUnfiltered(encoder, &segment);
        count += more;
        segment.positions += more;
        segment.values += more;
        segment.cur += segment.n;
        segment.ref += segment.n;
        segment.position += (uint32_t)segment.n;
        if (segment.mask)
            segment.mask += segment.n / 8;
    }
    return count;
}

/* Lists a chunk's entries; returns their number. */
static size_t encodeChunk(const Plan *plan, size_t k, const Scratch *scratch) {
    const cusMat *mask = &plan->diff->mask;
    size_t count = 0;
    for (size_t at = chunkBegin(plan, k), end = chunkBegin(plan, k + 1), n; at < end; at += n) {
        Segment segment = {.cur = runAt(plan, at, end, &n),
                           .ref = (uint8_t *)plan->encoder->ref.data + at,
                           .position = (uint32_t)at,
                           .threshold = (uint8_t)plan->encoder->options.threshold,
                           .positions = scratch->positions + count,
                           .values = scratch->values + count};
        segment.n = n;
        if (mask->data)
            segment.mask = (uint8_t *)mask->data + at / plan->run * mask->step + at % plan->run / 8;
        count += plan->ahead ? encodeFiltered(plan->encoder, segment, plan->channels)
                             : encodeUnfiltered(plan->encoder, &segment);
    }
    return count;
}

/* ---- Threads ------------------------------------------------------------------------------------------------------- */

/* The threads of a call share this state. Tickets are taken in order, so threads wait only for running ones. Each frame has
 * `tickets` of them. Its ticket t finds the changed pixels of chunk t and encodes chunk t - ahead: the changes of all its
 * neighbors are then known, and no chunk is encoded before its own changes were found. */
typedef struct Progress {
    _Alignas(64) size_t mapped; /* chunks whose changed pixels are known, in order */
    _Alignas(64) size_t listed; /* chunks whose number of entries is known, in order */
    size_t total, fitting;      /* entries in these chunks; those that fit the list */
} Progress;
typedef struct Work {
    _Alignas(64) size_t taken; /* tickets */
    _Alignas(64) size_t tickets;
    Plan plan[FRAMES];
    Progress progress[FRAMES];
} Work;

static void awaitTurn(const size_t *count, size_t turn) {
    int spins = 1000; /* after these, other threads run: there may be fewer processors than threads */
    while (__atomic_load_n(count, __ATOMIC_ACQUIRE) != turn) {
        if (spins == 0) {
            (void)sched_yield();
            continue;
        }
        --spins;
#ifdef __SSE2__
        _mm_pause();
#endif
    }
}

static void takeTicket(const Plan *plan, Progress *progress, size_t ticket, const Scratch *scratch) {
    const size_t chunk = ticket - plan->ahead;
    if (ticket >= plan->chunks + plan->ahead)
        return;
    if (plan->ahead) {
        if (ticket < plan->chunks)
            mapChunk(plan, ticket);
        awaitTurn(&progress->mapped, ticket);
        __atomic_store_n(&progress->mapped, ticket + 1, __ATOMIC_RELEASE);
    }
    if (ticket < plan->ahead)
        return;
    const size_t count = encodeChunk(plan, chunk, scratch);
    awaitTurn(&progress->listed, chunk);
    const size_t start = progress->total;
    const int fits = start + count <= plan->diff->capacity;
    progress->total += count;
    progress->fitting = fits ? progress->total : progress->fitting;
    __atomic_store_n(&progress->listed, chunk + 1, __ATOMIC_RELEASE);
    if (fits) {
        memcpy((uint32_t *)plan->diff->positions.data + start, scratch->positions, count * sizeof(uint32_t));
        memcpy((uint8_t *)plan->diff->values.data + start, scratch->values, count);
    } else {
        framediff_addEntries(plan->encoder->ref.data, scratch->positions, scratch->values, count, -1);
    }
}

/* Writes the number of changed bytes. Returns whether they fit; if not, undoes the listed entries, which have changed the
 * reference. */
static int finish(const Plan *plan, const Progress *progress) {
    const cusSparseDiff *const diff = plan->diff;
    *(uint32_t *)diff->count.data = (uint32_t)progress->total;
    if (progress->total <= diff->capacity)
        return 1;
    framediff_addEntries(plan->encoder->ref.data, diff->positions.data, diff->values.data, progress->fitting, -1);
    return 0;
}

/* Encodes up to FRAMES frames. Returns the first whose list is too short, or their number. */
static int encodeFrames(int count, cusDiffEncoder *const *encoders, const cusMat *frames, const cusSparseDiff *diffs) {
    const int useful = cusi_threadsFor((size_t)count * cusi_rowBytes(frames) * (size_t)frames->rows, BYTES_PER_THREAD);
    int threads = encoders[0]->scratch.rows; /* OpenMP may offer more than when the encoders were created */
    for (int i = 1; i < count && threads < useful; ++i)
        threads += encoders[i]->scratch.rows;
    threads = threads < useful ? threads : useful;
    Work work;
    work.taken = work.tickets = 0;
    for (int i = 0; i < count; ++i) {
        work.plan[i] = planFor(encoders[i], &frames[i], &diffs[i], (threads + count - 1) / count);
        work.progress[i] = (Progress){0};
        const size_t tickets = work.plan[i].chunks + work.plan[i].ahead;
        work.tickets = tickets > work.tickets ? tickets : work.tickets;
    }
    const size_t all = (size_t)count * work.tickets;
#pragma omp parallel num_threads(threads)
    {
        const Scratch scratch = scratchOf(encoders, cusi_threadNumber());
        for (size_t t; t = __atomic_fetch_add(&work.taken, 1, __ATOMIC_RELAXED), t < all;) {
            const size_t i = t / work.tickets;
            takeTicket(&work.plan[i], &work.progress[i], t % work.tickets, &scratch);
        }
    }
    int fitting = count;
    for (int i = count - 1; i >= 0; --i)
        if (!finish(&work.plan[i], &work.progress[i]))
            fitting = i;
    return fitting;
}

int framediff_host_encode(int count, cusDiffEncoder *const *encoders, const cusMat *frames, const cusSparseDiff *diffs) {
    int fitting = 0;
    for (int i = 0; i < count; i += FRAMES) {
        const int n = count - i < FRAMES ? count - i : FRAMES;
        const int some = encodeFrames(n, encoders + i, frames + i, diffs + i);
        fitting = fitting == i ? i + some : fitting;
    }
    return fitting;
}
