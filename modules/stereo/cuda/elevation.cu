// Finds the best disparity of every pixel by running window sums; agreements and scores never reach global memory. A block
// goes down a strip of 4 * SEGMENT columns, 16 rows (a chunk) at a time; each warp has every WARPS-th shift. A lane sums
// four columns downwards, then rows r and r + 8 of SEGMENT columns across. A score is also that of the match in the right
// image, so one pass serves both. docs/internals/stereo.md describes the method.
#include "stereo/cuda/state.cuh"

#include <cstring>

namespace cusi::stereo {
namespace {

constexpr int USUAL_WARPS = 16, FEWER_WARPS = 8; // fewer on 7.5, which has 64 KB of shared memory
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int WARPS = FEWER_WARPS;
#else
constexpr int WARPS = USUAL_WARPS;
#endif
// These numbers are measured: docs/internals/stereo.md.
constexpr int MAX_STRIP_ROWS = 64;
constexpr int BLOCKS_PER_MULTIPROCESSOR = 2; // sets the register limit
constexpr int STRIP_START_ROWS = 10;         // cost of the start of a strip, in rows

constexpr int SHIFTS_PER_WARP = STEREO_GROUP / WARPS, CHUNK = 16;
constexpr int SET_TIES = 16; // at least WARPS
constexpr int LEFT_WORDS = 32, RIGHT_WORDS = LEFT_WORDS + STEREO_GROUP / 4 + 2;

struct ElevationParameters {
    const unsigned char *left, *right;
    uint16_t *out;
    uint32_t *keys;       // of all pixels; NULL if there is one group
    uint32_t *right_keys; // of the right image's pixels, or NULL
    size_t left_step, right_step, out_step;
    int rows, cols, tiles_across, strip;
    int radius, pad;         // pad: radius rounded up to a word
    int before;              // columns left of the image that are matched as well
    int first_shift, shifts; // the shifts of this launch
    int direction;
    bool wrapped, prefer_smaller, first, last, aligned;
    // The following are for refined variants.
    uint4 *peaks; // StereoPeaks of all pixels; NULL if there is one group
    unsigned char *confidence;
    size_t confidence_step;
    int all_shifts, subpixel_bits, min_confidence;
};

// WIDE_KEYS: scores above 2047 need 32-bit keys in registers as well. PLANES 2: eight census bits in windows above 31
// overflow a byte, so each half of the bits has its own sums.
template<int AGREEMENT_, bool WIDE_KEYS_, int PLANES_, int SEGMENT_>
struct Variant {
    static constexpr int AGREEMENT = AGREEMENT_, PLANES = PLANES_, SEGMENT = SEGMENT_;
    static constexpr bool WIDE_KEYS = WIDE_KEYS_, BY_SETS = false, REFINED = false;
    static constexpr bool BINARY = AGREEMENT != CUS_STEREO_CENSUS;
    static constexpr int PITCH = SEGMENT == 28 ? 36 : 33; // words; no bank conflicts with 28, few with others
    static constexpr int PLANE = CHUNK * PITCH;
    static constexpr int COLS = 4 * SEGMENT;
    static constexpr int BEST = (WIDE_KEYS ? 2 : 1) * SEGMENT; // words of a lane's best keys
    static constexpr int KEYS = 8 * 4 * BEST;                  // words of a warp's best keys
    // The stage is shared words of a warp: column sums and, with BINARY, agreements of the centers; at the end of a chunk
    // its best keys.
    static constexpr int STAGE = PLANE * (PLANES + BINARY) > KEYS ? PLANE *(PLANES + BINARY) : KEYS;
};

// A variant that matches the right image, too. The stage holds the scores of one set of shifts, one a warp, with two rows
// in the halves of a word. Narrow scores carry the shift's place in the set in the lowest four bits, so that one maximum
// finds the best.
template<class Plain>
struct BySets : Plain {
    static constexpr bool BY_SETS = true;
    static constexpr int BEST = Plain::SEGMENT, KEYS = 8 * 4 * BEST;
    static constexpr int SCORES = Plain::PLANE * (Plain::PLANES + Plain::BINARY);
    static constexpr int STAGE = SCORES > KEYS ? SCORES : KEYS;
};

// The same with StereoPeaks instead of keys.
template<class Plain>
struct Refined : BySets<Plain> {
    static constexpr bool REFINED = true;
};

// A block's part of the image. Column c of `left` is image column x0 - pad + c; in `right` it is that plus `right_from`.
struct Strip {
    unsigned *left, *right; // in shared memory
    int x0, y0, rows, reach;
};

// Loads four features from column x of a row. Outside the image they come from the opposite side or are zero.
__device__ inline unsigned loadFour(const unsigned char *row, int x, const ElevationParameters &p) {
    if (x >= 0 && x + 3 < p.cols && p.aligned)
        return *reinterpret_cast<const unsigned *>(row + x);
    unsigned w = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int c = x + k;
        if (c < 0 || c >= p.cols) {
            if (!p.wrapped)
                continue;
            c = wrap(c, p.cols);
        }
        w |= static_cast<unsigned>(row[c]) << (8 * k);
    }
    return w;
}

// Loads the features that a strip matches into shared memory. Binary features become 0 and 1.
template<bool BINARY>
__device__ __forceinline__ void loadStrip(const ElevationParameters p, const Strip strip) {
    const int right_from = p.direction > 0 ? p.first_shift : -(p.first_shift + STEREO_GROUP);
    constexpr int ROW_WORDS = LEFT_WORDS + RIGHT_WORDS, BATCH = 4; // BATCH loads are in flight at once
    const int words = (strip.rows + strip.reach) * ROW_WORDS;
    for (int start = threadIdx.x; start < words; start += BATCH * 32 * WARPS) {
        unsigned w[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            const int i = start + b * 32 * WARPS, row = i / ROW_WORDS, word = i % ROW_WORDS;
            int y = strip.y0 - p.radius + row;
            const bool outside = y < 0 || y >= p.rows;
            w[b] = 0;
            if (i < words && (!outside || p.wrapped)) {
                if (outside)
                    y = wrap(y, p.rows);
                w[b] = word < LEFT_WORDS ? loadFour(rowOf(p.left, p.left_step, y), strip.x0 - p.pad + 4 * word, p)
                                         : loadFour(rowOf(p.right, p.right_step, y),
                                                    strip.x0 - p.pad + right_from + 4 * (word - LEFT_WORDS), p);
            }
        }
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            const int i = start + b * 32 * WARPS, row = i / ROW_WORDS, word = i % ROW_WORDS;
            const unsigned stored = BINARY ? __vminu4(w[b], 0x01010101u) : w[b];
            if (i < words && word < LEFT_WORDS)
                strip.left[row * LEFT_WORDS + word] = stored;
            else if (i < words)
                strip.right[row * RIGHT_WORDS + word - LEFT_WORDS] = stored;
        }
    }
}

// Returns a mask of those of the lane's four columns whose pixel and match at `shift` both lie inside.
template<bool BINARY>
__device__ __forceinline__ unsigned validColumns(const ElevationParameters &p, int x0, int lane, int shift) {
    unsigned valid = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int x = x0 - p.pad + 4 * lane + j;
        const int match = x + p.direction * shift;
        if (p.wrapped || (x >= 0 && x < p.cols && match >= 0 && match < p.cols))
            valid |= (BINARY ? 1u : 255u) << (8 * j);
    }
    return valid;
}

// Computes the agreements of four columns, which start at word `column` of row `row` of the strip. For census codes these
// are 8 minus the Hamming distance, or two planes of 4 minus that of each half.
template<class V>
__device__ __forceinline__ void agreements(const ElevationParameters &p, const Strip &strip, int row, int column, int shift,
                                           unsigned valid, unsigned *a) {
    const int offset = p.direction > 0 ? shift : STEREO_GROUP - shift;
    const unsigned l = strip.left[row * LEFT_WORDS + column];
    const unsigned *r = strip.right + row * RIGHT_WORDS + column + offset / 4;
    const unsigned match = __funnelshift_r(r[0], r[1], 8 * (offset % 4));
    if (!p.wrapped && (strip.y0 - p.radius + row < 0 || strip.y0 - p.radius + row >= p.rows))
        valid = 0;
    if (V::AGREEMENT == CUS_STEREO_EQUAL) {
        a[0] = ~(l ^ match) & valid;
    } else if (V::AGREEMENT == CUS_STEREO_EDGE) {
        a[0] = l & match & valid;
    } else {
        unsigned d = l ^ match;
        d = d - (d >> 1 & 0x55555555u);
        d = (d & 0x33333333u) + (d >> 2 & 0x33333333u);
        if (V::PLANES == 1) {
            a[0] = (0x08080808u - ((d + (d >> 4)) & 0x0f0f0f0fu)) & valid;
        } else {
            a[0] = (0x04040404u - (d & 0x0f0f0f0fu)) & valid;
            a[V::PLANES - 1] = (0x04040404u - (d >> 4 & 0x0f0f0f0fu)) & valid;
        }
    }
}

// Adds the rows of the first window, except its last one, to the column sums of one shift.
template<class V>
__device__ __forceinline__ void sumFirstRows(const ElevationParameters &p, const Strip &strip, int lane, int shift,
                                             unsigned valid, unsigned (&sums)[V::PLANES]) {
#pragma unroll 4
    for (int row = 0; row < strip.reach; ++row) {
        unsigned a[V::PLANES];
        agreements<V>(p, strip, row, lane, shift, valid, a);
#pragma unroll
        for (int i = 0; i < V::PLANES; ++i)
            sums[i] += a[i];
    }
}

// Stores the column sums of each row of a chunk in the warp's stage, with BINARY also the agreement of each center in bit
// 7.
template<class V>
__device__ __forceinline__ void sumColumns(const ElevationParameters &p, const Strip &strip, int chunk, int chunk_rows,
                                           int lane, int shift, unsigned valid, unsigned (&sums)[V::PLANES],
                                           unsigned *stage) {
    // The lane's own columns of output start a word or more later.
    const unsigned center_valid = __shfl_sync(FULL_WARP, valid, (lane + p.pad / 4) % 32);
#pragma unroll 4
    for (int i = 0; i < chunk_rows; ++i) {
        const int row = chunk + i;
        unsigned a[V::PLANES], gone[V::PLANES];
        agreements<V>(p, strip, row + strip.reach, lane, shift, valid, a);
        agreements<V>(p, strip, row, lane, shift, valid, gone);
#pragma unroll
        for (int k = 0; k < V::PLANES; ++k) {
            sums[k] += a[k];
            stage[k * V::PLANE + i * V::PITCH + lane] = sums[k];
            sums[k] -= gone[k];
        }
        if (V::BINARY) {
            unsigned center[V::PLANES];
            const int at = lane + p.pad / 4;
            if (lane < V::SEGMENT) {
                agreements<V>(p, strip, row + p.radius, at, shift, center_valid, center);
                stage[V::PLANES * V::PLANE + i * V::PITCH + lane] = center[0] << 7;
            }
        }
    }
}

// Sums the first window without its last column for the lane's two rows, in the halves of a word.
template<class V>
__device__ __forceinline__ unsigned sumFirstColumns(const unsigned *upper, const unsigned *lower, int from, int reach) {
    const int phase = 8 * (from % 4);
    unsigned upper_sum = 0, lower_sum = 0;
#pragma unroll
    for (int k = 0; k < V::PLANES; ++k) {
        const unsigned *u = upper + k * V::PLANE + from / 4, *d = lower + k * V::PLANE + from / 4;
        int left_over = reach;
        for (; left_over >= 4; left_over -= 4, ++u, ++d) {
            upper_sum = __dp4a(__funnelshift_r(u[0], u[1], phase), 0x01010101u, upper_sum);
            lower_sum = __dp4a(__funnelshift_r(d[0], d[1], phase), 0x01010101u, lower_sum);
        }
        if (left_over) { // two columns
            upper_sum = __dp4a(__funnelshift_r(u[0], u[1], phase), 0x00000101u, upper_sum);
            lower_sum = __dp4a(__funnelshift_r(d[0], d[1], phase), 0x00000101u, lower_sum);
        }
    }
    return upper_sum | lower_sum << 16;
}

// Turns scores and shifts into keys, the largest of which wins. tie: the shift's part of a key, larger for the shift that
// wins ties.
template<class V>
__device__ __forceinline__ void keepBest(unsigned (&best)[V::BEST], int at, unsigned score, unsigned tie,
                                         unsigned wide_tie) {
    if (V::BY_SETS) { // keeps one shift at a time
        best[at] = V::WIDE_KEYS ? score : score * SET_TIES + tie * 0x00010001u;
    } else if (V::WIDE_KEYS) {
        const unsigned u = score & 0xffffu, d = score >> 16;
        best[2 * at] = max(best[2 * at], u ? u * KEY_SHIFTS | wide_tie : 0u);
        best[2 * at + 1] = max(best[2 * at + 1], d ? d * KEY_SHIFTS | wide_tie : 0u);
    } else {
        // Keys without a score stay below 32 at any shift.
        best[at] = __vmaxu2(best[at], score * 32 + tie * 0x00010001u);
    }
}

// Stores the best keys of a lane in its warp's stage.
template<class V>
__device__ __forceinline__ void storeBest(const unsigned (&best)[V::BEST], int r, int segment, unsigned *stage) {
#pragma unroll
    for (int i = 0; i < V::SEGMENT; ++i) {
        const int at = r * V::COLS + segment * V::SEGMENT + i;
        if (V::WIDE_KEYS && !V::BY_SETS) {
            stage[at] = best[2 * i];
            stage[8 * V::COLS + at] = best[2 * i + 1];
        } else {
            stage[at] = best[i];
        }
    }
}

// Merges the key of a pixel with that of earlier groups of shifts, and writes its elevation, or before the last group its
// key.
__device__ __forceinline__ void writePixel(const ElevationParameters &p, int x, int y, unsigned k) {
    const size_t at = static_cast<size_t>(y) * p.cols + x;
    if (!p.first)
        k = max(k, p.keys[at]);
    if (!p.last) {
        p.keys[at] = k;
    } else {
        rowOf(p.out, p.out_step, y)[x] = static_cast<uint16_t>(elevationOfKey(k, p.prefer_smaller));
    }
}

// Reads the scores of a set of shifts at one pixel.
template<class V>
struct ScoresOfSet {
    const unsigned *first; // in the stage of the first warp
    int half;              // half of the word: 0 for the upper row, 1 for the lower

    __device__ __forceinline__ unsigned operator()(int i) const { return scoreOf(first[i * V::STAGE]); }
    __device__ __forceinline__ unsigned scoreOf(unsigned word) const {
        const unsigned narrow = half ? word >> 16 : word & 0xffffu;
        return V::WIDE_KEYS ? narrow : narrow / SET_TIES;
    }
};

// Finds the best of a set of shifts, score * SET_TIES + tie, at the pixels of both halves. wordOf(i) is that of warp i.
template<class V, class WordOf>
__device__ __forceinline__ void bestOfSet(bool prefer_smaller, unsigned (&best)[2], WordOf &&wordOf) {
    if (V::WIDE_KEYS) {
        best[0] = best[1] = 0;
#pragma unroll
        for (int i = 0; i < WARPS; ++i) {
            const unsigned word = wordOf(i), tie = prefer_smaller ? SET_TIES - 1 - i : i;
            best[0] = max(best[0], (word & 0xffffu) * SET_TIES + tie);
            best[1] = max(best[1], (word >> 16) * SET_TIES + tie);
        }
    } else {
        unsigned both = wordOf(0);
#pragma unroll
        for (int i = 1; i < WARPS; ++i)
            both = __vmaxu2(both, wordOf(i));
        best[0] = both & 0xffffu;
        best[1] = both >> 16;
    }
}

// The key in memory of the best of the set that starts with shift `first`.
__device__ __forceinline__ unsigned keyOfSet(unsigned best, int first, bool prefer_smaller) {
    const unsigned tie = best % SET_TIES + (prefer_smaller ? KEY_SHIFTS - SET_TIES - first : first);
    return best < SET_TIES ? 0 : best / SET_TIES * KEY_SHIFTS + tie;
}

// How a set of shifts changes the peak of a pixel.
struct SetAtPixel {
    int best;           // the winner of the set
    bool follows, wins; // whether the best shift so far is the one before the set; whether the set has a better one
    int from, to;       // if from <= to, the largest score outside from .. to is wanted

    __device__ __forceinline__ SetAtPixel(const StereoPeak &k, int best_, unsigned score, int first, bool prefer_smaller)
        : best(best_), follows(k.score > 0 && k.shift + 1 == first),
          wins(score > 0 && (prefer_smaller ? score > k.score : score >= k.score)), from(wins ? best - 1 : best),
          to(wins                                          ? best + 1
             : best == WARPS - 1 || (follows && best == 0) ? best
                                                           : -1) {}
    __device__ __forceinline__ unsigned inside() const { return from <= to ? (2u << to) - (1u << max(from, 0)) : 0; }
};

// The largest score of each of two pixels outside from .. to, in the halves of a word as in the stage.
template<class V>
__device__ __forceinline__ unsigned mostOutside(const unsigned *first, const SetAtPixel &upper, const SetAtPixel &lower) {
    static_assert(WARPS <= 16, "a bit a shift in half of a word, shifts past the set aside");
    const unsigned skipped = (upper.inside() & 0xffffu) | lower.inside() << 16;
    unsigned most = 0;
    if (skipped) {
#pragma unroll
        for (int i = 0; i < WARPS; ++i)
            most = __vmaxu2(most, first[i * V::STAGE] & ~((skipped >> i & 0x00010001u) * 0xffffu));
    }
    return most;
}

// Updates a pixel's peak with the set of shifts from `first` on. most: mostOutside(). All sets but the last one are full.
template<class V>
__device__ __forceinline__ void watchSet(StereoPeak &k, const ScoresOfSet<V> &scores, const SetAtPixel &set, unsigned most,
                                         int first) {
    const unsigned now = scores(set.best);
    if (set.follows)
        k.above = static_cast<uint16_t>(scores(0));
    unsigned second = max(static_cast<unsigned>(k.second), set.follows && set.best == 0 ? most : now), but_last = now;
    if (set.best == WARPS - 1)
        but_last = set.wins ? max(most, scores(WARPS - 2)) : most;
    if (set.wins) {
        second = max(static_cast<unsigned>(set.best ? max(k.earlier, k.last) : k.earlier), most);
        k.below = set.best ? static_cast<uint16_t>(scores(set.best - 1)) : k.last;
        k.above = set.best + 1 < WARPS ? static_cast<uint16_t>(scores(set.best + 1)) : 0;
        k.shift = static_cast<uint16_t>(first + set.best);
        k.score = static_cast<uint16_t>(now);
    }
    k.second = static_cast<uint16_t>(second);
    k.earlier = static_cast<uint16_t>(max(static_cast<unsigned>(max(k.earlier, k.last)), but_last));
    k.last = static_cast<uint16_t>(scores(WARPS - 1));
}

// Writes a pixel's elevation and confidence, or before the last group of shifts its peak.
__device__ __forceinline__ void writePeak(const ElevationParameters &p, int x, int y, const StereoPeak &k) {
    if (!p.last) {
        uint4 word;
        static_assert(sizeof word == sizeof k, "a peak is one vector");
        memcpy(&word, &k, sizeof word);
        p.peaks[static_cast<size_t>(y) * p.cols + x] = word;
        return;
    }
    const unsigned sure = stereo_confidence(&k);
    const bool counts = k.score > 0 && sure >= static_cast<unsigned>(p.min_confidence);
    rowOf(p.out, p.out_step, y)[x] =
        static_cast<uint16_t>(counts ? stereo_elevationOf(&k, p.all_shifts, p.subpixel_bits) : 0);
    if (p.confidence)
        rowOf(p.confidence, p.confidence_step, y)[x] = static_cast<unsigned char>(counts ? sure : 0);
}

// The pairs of pixels, eight rows apart, that a thread merges.
template<class V>
constexpr int PAIRS = (8 * V::COLS + 32 * WARPS - 1) / (32 * WARPS);

// Updates the best keys of the thread's pixels of a chunk with the k-th set of shifts of this launch.
template<class V>
__device__ __forceinline__ void mergeKeys(const ElevationParameters &p, const Strip &strip, const unsigned *stages,
                                          int chunk, int chunk_rows, int k, unsigned (&keys)[PAIRS<V>][2]) {
    const bool ends = k + 1 == SHIFTS_PER_WARP || WARPS * (k + 1) >= p.shifts;
#pragma unroll
    for (int pair = 0; pair < PAIRS<V>; ++pair) {
        const int i = threadIdx.x + pair * 32 * WARPS, x = strip.x0 + i % V::COLS, row = i / V::COLS;
        if (i >= 8 * V::COLS || x < 0 || x >= p.cols || row >= chunk_rows)
            continue;
        unsigned best[2];
        bestOfSet<V>(p.prefer_smaller, best, [&](int w) { return stages[i + w * V::STAGE]; });
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const unsigned key = keyOfSet(best[half], p.first_shift + WARPS * k, p.prefer_smaller);
            keys[pair][half] = k == 0 ? key : max(keys[pair][half], key);
            if (ends && row + 8 * half < chunk_rows)
                writePixel(p, x, strip.y0 + chunk + row + 8 * half, keys[pair][half]);
        }
    }
}

// Does the same for the right image, where the pixels that a set matches overlap with those of other sets and blocks. Place
// j of a row is the match of column j with the set's first shift, or of column j - (WARPS - 1) with its last one.
template<class V, int DIRECTION>
__device__ __forceinline__ void mergeRightKeys(const ElevationParameters &p, const Strip &strip, const unsigned *stages,
                                               int chunk, int chunk_rows, int k) {
    constexpr int PLACES = 128;
    static_assert(V::COLS + WARPS - 1 <= PLACES, "a warp merges places of one row");
    const int first = p.first_shift + WARPS * k;
#pragma unroll
    for (int i = threadIdx.x; i < 8 * PLACES; i += 32 * WARPS) {
        const int row = i / PLACES, j = i % PLACES;
        int x = strip.x0 + j + (DIRECTION > 0 ? first : 1 - WARPS - first);
        const bool inside = x >= 0 && x < p.cols;
        if (row >= chunk_rows || j >= V::COLS + WARPS - 1 || !(inside || p.wrapped))
            continue;
        x = inside ? x : wrap(x, p.cols);
        unsigned best[2];
        bestOfSet<V>(p.prefer_smaller, best, [&](int w) {
            const int column = DIRECTION > 0 ? j - w : j + w - (WARPS - 1);
            return column >= 0 && column < V::COLS ? stages[w * V::STAGE + row * V::COLS + column] : 0u;
        });
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const unsigned key = keyOfSet(best[half], first, p.prefer_smaller);
            if (key && row + 8 * half < chunk_rows)
                atomicMax(p.right_keys + static_cast<size_t>(strip.y0 + chunk + row + 8 * half) * p.cols + x, key);
        }
    }
}

// Updates the peaks of the thread's pixels of a chunk with the k-th set of shifts of this launch.
template<class V>
__device__ __forceinline__ void mergePeaks(const ElevationParameters &p, const Strip &strip, const unsigned *stages,
                                           int chunk, int chunk_rows, int k, StereoPeak (&peaks)[PAIRS<V>][2]) {
    const bool ends = k + 1 == SHIFTS_PER_WARP || WARPS * (k + 1) >= p.shifts;
#pragma unroll
    for (int pair = 0; pair < PAIRS<V>; ++pair) {
        const int i = threadIdx.x + pair * 32 * WARPS, x = strip.x0 + i % V::COLS;
        const int row = i / V::COLS, y = strip.y0 + chunk + row, first = p.first_shift + WARPS * k;
        if (i >= 8 * V::COLS || x < 0 || x >= p.cols || row >= chunk_rows)
            continue;
        const bool has[2] = {true, row + 8 < chunk_rows};
        StereoPeak(&two)[2] = peaks[pair];
        if (k == 0) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint4 before = p.first || !has[half] ? make_uint4(0, 0, 0, 0)
                                                           : p.peaks[static_cast<size_t>(y + 8 * half) * p.cols + x];
                memcpy(&two[half], &before, sizeof before);
            }
        }
        const ScoresOfSet<V> scores[2] = {{stages + i, 0}, {stages + i, 1}};
        unsigned keys[2];
        bestOfSet<V>(p.prefer_smaller, keys, [&](int w) { return stages[i + w * V::STAGE]; });
        int best[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int tie = static_cast<int>(keys[half] % SET_TIES), at = p.prefer_smaller ? SET_TIES - 1 - tie : tie;
            best[half] = has[half] ? at : 0; // the stage has no values there
        }
        const SetAtPixel sets[2] = {{two[0], best[0], scores[0](best[0]), first, p.prefer_smaller},
                                    {two[1], best[1], scores[1](best[1]), first, p.prefer_smaller}};
        const unsigned most = mostOutside<V>(stages + i, sets[0], sets[1]);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            watchSet<V>(two[half], scores[half], sets[half], scores[half].scoreOf(most), first);
            if (ends && has[half])
                writePeak(p, x, y + 8 * half, two[half]);
        }
    }
}

// Sliding the window and merging the keys stay in the kernel: as functions of their own they change the machine code
// (docs/internals/stereo.md).
template<class V>
__global__ void __launch_bounds__(32 * WARPS, V::WIDE_KEYS ? 1 : BLOCKS_PER_MULTIPROCESSOR)
    elevationKernel(const ElevationParameters p) {
    startInOrder();
    constexpr int PLANES = V::PLANES, PLANE = V::PLANE;
    constexpr bool BINARY = V::BINARY;
    extern __shared__ unsigned shared[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int radius = p.radius, pad = p.pad, reach = 2 * radius, tile_rows = p.strip + reach;
    const int tile = blockIdx.x;
    const int x0 = tile % p.tiles_across * V::COLS - p.before, y0 = tile / p.tiles_across * p.strip;
    unsigned *const left = shared, *const right = left + tile_rows * LEFT_WORDS;
    unsigned *const stages = right + tile_rows * RIGHT_WORDS, *const stage = stages + warp * V::STAGE;
    const Strip strip = {left, right, x0, y0, min(p.strip, p.rows - y0), reach};
    loadStrip<BINARY>(p, strip);
    unsigned valid[SHIFTS_PER_WARP], sums[SHIFTS_PER_WARP][PLANES];
#pragma unroll
    for (int k = 0; k < SHIFTS_PER_WARP; ++k) {
        valid[k] = validColumns<BINARY>(p, x0, lane, p.first_shift + warp + WARPS * k);
#pragma unroll
        for (int i = 0; i < PLANES; ++i)
            sums[k][i] = 0;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SHIFTS_PER_WARP; ++k) {
        const int shift = warp + WARPS * k;
        if (shift < p.shifts)
            sumFirstRows<V>(p, strip, lane, shift, valid[k], sums[k]);
    }

    const int r = lane % 8, segment = lane / 8; // the lane's rows and columns while it slides across
    const int out_at = segment * V::SEGMENT + pad - radius, in_at = segment * V::SEGMENT + pad + radius;
    const unsigned *const upper = stage + r * V::PITCH, *const lower = upper + 8 * V::PITCH;
    for (int chunk = 0; chunk < strip.rows; chunk += CHUNK) {
        const int chunk_rows = min(CHUNK, strip.rows - chunk);
        unsigned best[V::BEST];
#pragma unroll
        for (int i = 0; i < V::BEST; ++i)
            best[i] = 0;
        // Of the pixels that this thread merges.
        [[maybe_unused]] std::conditional_t<V::REFINED, StereoPeak, unsigned> merged[PAIRS<V>][2];
#pragma unroll
        for (int k = 0; k < SHIFTS_PER_WARP; ++k) {
            const int shift = warp + WARPS * k;
            // By sets, a warp without a shift goes on with scores of 0, since all merge together.
            if ((V::BY_SETS ? WARPS * k : shift) >= p.shifts)
                break;
            sumColumns<V>(p, strip, chunk, chunk_rows, lane, shift, valid[k], sums[k], stage);
            __syncwarp();
            unsigned window = sumFirstColumns<V>(upper, lower, out_at, reach);
            const int in_phase = 8 * (in_at % 4), out_phase = 8 * (out_at % 4);
            const unsigned tie = V::BY_SETS ? (p.prefer_smaller ? SET_TIES - 1 - warp : warp)
                                            : (p.prefer_smaller ? STEREO_GROUP - 1 - shift : shift);
            const unsigned wide_shift = p.first_shift + shift,
                           wide_tie = p.prefer_smaller ? KEY_SHIFTS - 1 - wide_shift : wide_shift;
#pragma unroll
            for (int g = 0; g < V::SEGMENT / 4; ++g) { // four columns enter the window and four leave it
                unsigned in[PLANES][2], out[PLANES][2], mask[2] = {0, 0};
#pragma unroll
                for (int i = 0; i < PLANES; ++i) {
                    const unsigned *u = upper + i * PLANE + g, *d = lower + i * PLANE + g;
                    in[i][0] = __funnelshift_r(u[in_at / 4], u[in_at / 4 + 1], in_phase);
                    in[i][1] = __funnelshift_r(d[in_at / 4], d[in_at / 4 + 1], in_phase);
                    out[i][0] = __funnelshift_r(u[out_at / 4], u[out_at / 4 + 1], out_phase);
                    out[i][1] = __funnelshift_r(d[out_at / 4], d[out_at / 4 + 1], out_phase);
                }
                if (BINARY) {
                    mask[0] = upper[PLANES * PLANE + segment * (V::SEGMENT / 4) + g];
                    mask[1] = lower[PLANES * PLANE + segment * (V::SEGMENT / 4) + g];
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    // Makes byte j of two words the halves of one. A selector of 8 + j gives eight copies of the sign bit.
                    const unsigned pick = BINARY ? j | (8 + j) << 4 | (4 + j) << 8 | (12 + j) << 12 : j | (4 + j) << 8;
                    const unsigned spread = (8 + j) * 0x11 | (12 + j) * 0x1100;
                    const unsigned bytes = BINARY ? 0xffffffffu : 0x00ff00ffu;
#pragma unroll
                    for (int i = 0; i < PLANES; ++i)
                        window += permute(in[i][0], in[i][1], pick) & bytes;
                    const unsigned counts = BINARY ? permute(mask[0], mask[1], spread) : 0xffffffffu;
                    keepBest<V>(best, 4 * g + j, window & counts, tie, wide_tie);
#pragma unroll
                    for (int i = 0; i < PLANES; ++i)
                        window -= permute(out[i][0], out[i][1], pick) & bytes;
                }
            }
            __syncwarp();
            if constexpr (V::BY_SETS) {
                if (shift >= p.shifts) {
#pragma unroll
                    for (int i = 0; i < V::BEST; ++i)
                        best[i] = 0;
                }
                storeBest<V>(best, r, segment, stage);
                __syncthreads();
                if constexpr (V::REFINED)
                    mergePeaks<V>(p, strip, stages, chunk, chunk_rows, k, merged);
                else
                    mergeKeys<V>(p, strip, stages, chunk, chunk_rows, k, merged);
                if (p.right_keys && p.direction > 0)
                    mergeRightKeys<V, 1>(p, strip, stages, chunk, chunk_rows, k);
                else if (p.right_keys)
                    mergeRightKeys<V, -1>(p, strip, stages, chunk, chunk_rows, k);
                __syncthreads();
            }
        }
        if (V::BY_SETS)
            continue;
        storeBest<V>(best, r, segment, stage);
        __syncthreads();
        for (int i = threadIdx.x; i < 8 * V::COLS; i += 32 * WARPS) {
            const int x = x0 + i % V::COLS;
            unsigned key[2];
            if (V::WIDE_KEYS) {
                key[0] = stages[i];
                key[1] = stages[8 * V::COLS + i];
#pragma unroll
                for (int w = 1; w < WARPS; ++w) {
                    key[0] = max(key[0], stages[w * V::STAGE + i]);
                    key[1] = max(key[1], stages[w * V::STAGE + 8 * V::COLS + i]);
                }
            } else {
                unsigned both = stages[i];
#pragma unroll
                for (int w = 1; w < WARPS; ++w)
                    both = __vmaxu2(both, stages[w * V::STAGE + i]);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const unsigned narrow = half ? both >> 16 : both & 0xffffu, score = narrow / 32, tie = narrow % 32;
                    const unsigned shift = p.first_shift + (p.prefer_smaller ? STEREO_GROUP - 1 - tie : tie);
                    key[half] = score ? score * KEY_SHIFTS | (p.prefer_smaller ? KEY_SHIFTS - 1 - shift : shift) : 0;
                }
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = i / V::COLS + 8 * half, y = y0 + chunk + row;
                if (row >= chunk_rows || x >= p.cols)
                    continue;
                writePixel(p, x, y, key[half]);
            }
        }
        __syncthreads();
    }
}

// A kernel and what its launch depends on.
struct Choice {
    void (*kernel)(ElevationParameters);
    int segment, stage_words;
};

enum Kind { PLAIN, BY_SETS, REFINED };

template<Kind KIND, int AGREEMENT, bool WIDE_KEYS, int PLANES, int SEGMENT>
Choice variant() {
    using P = Variant<AGREEMENT, WIDE_KEYS, PLANES, SEGMENT>;
    using V = std::conditional_t<KIND == REFINED, Refined<P>, std::conditional_t<KIND == BY_SETS, BySets<P>, P>>;
    return {elevationKernel<V>, SEGMENT, V::STAGE};
}

template<Kind KIND, int AGREEMENT>
Choice binaryVariant(int window) {
    return window <= 17   ? variant<KIND, AGREEMENT, false, 1, 28>()
           : window <= 33 ? variant<KIND, AGREEMENT, false, 1, 24>()
           : window <= 45 ? variant<KIND, AGREEMENT, false, 1, 16>()
                          : variant<KIND, AGREEMENT, true, 1, 16>();
}

template<Kind KIND>
Choice chooseVariant(const cusStereoOptions &o) {
    switch (o.agreement) {
    case CUS_STEREO_EQUAL:
        return binaryVariant<KIND, CUS_STEREO_EQUAL>(o.window);
    case CUS_STEREO_EDGE:
        return binaryVariant<KIND, CUS_STEREO_EDGE>(o.window);
    default:
        return o.window <= 15   ? variant<KIND, CUS_STEREO_CENSUS, false, 1, 28>()
               : o.window <= 31 ? variant<KIND, CUS_STEREO_CENSUS, true, 1, 24>()
                                : variant<KIND, CUS_STEREO_CENSUS, true, 2, 16>();
    }
}

int sharedBytes(const ElevationParameters &p, const Choice &chosen, int warps, int strip) {
    return 4 * ((strip + 2 * p.radius) * (LEFT_WORDS + RIGHT_WORDS) + warps * chosen.stage_words);
}

// Chooses the strip height with the least estimated time, which is waves of blocks times the rows of a block.
int chooseStrip(const ElevationParameters &p, const Choice &chosen, int warps, int sms, int shared_limit) {
    long long least = INT64_MAX;
    int best = CHUNK;
    for (int strip = CHUNK;
         strip <= MAX_STRIP_ROWS && (strip == CHUNK || sharedBytes(p, chosen, warps, strip) <= shared_limit);
         strip += CHUNK) {
        const long long strips = static_cast<long long>(p.tiles_across) * divUp(p.rows, strip);
        const long long cost = divUp(strips, 0ll + sms * BLOCKS_PER_MULTIPROCESSOR) * (strip + STRIP_START_ROWS);
        if (cost < least) {
            least = cost;
            best = strip;
        }
    }
    return best;
}

} // namespace
} // namespace cusi::stereo

// The scratch's words are keys, or peaks if `refined`; they are needed above STEREO_GROUP shifts.
cusStatus stereo_cuda_elevation(const char *function, cusStream stream, const cusMat *left, const cusMat *right,
                                cusMat *elevation, cusMat *confidence, const cusStereoOptions *options,
                                StereoScratch *scratch) {
    using namespace cusi;
    using namespace cusi::stereo;
    const bool refined = stereo_isRefined(options, confidence) != 0, checked = options->left_right_check >= 0;
    const Choice chosen = refined   ? chooseVariant<REFINED>(*options)
                          : checked ? chooseVariant<BY_SETS>(*options)
                                    : chooseVariant<PLAIN>(*options);
    ElevationParameters p = {};
    p.left = static_cast<const unsigned char *>(left->data);
    p.right = static_cast<const unsigned char *>(right->data);
    p.out = static_cast<uint16_t *>(elevation->data);
    p.keys = static_cast<uint32_t *>(scratch->words);
    p.right_keys = checked ? static_cast<uint32_t *>(scratch->right) : nullptr;
    p.peaks = static_cast<uint4 *>(scratch->words);
    if (confidence) {
        p.confidence = static_cast<unsigned char *>(confidence->data);
        p.confidence_step = confidence->step;
    }
    p.all_shifts = options->shifts;
    p.subpixel_bits = options->subpixel_bits;
    p.min_confidence = options->min_confidence;
    p.left_step = left->step;
    p.right_step = right->step;
    p.out_step = elevation->step;
    p.rows = left->rows;
    p.cols = left->cols;
    p.radius = options->window / 2;
    p.pad = divUp(p.radius, 4) * 4;
    p.direction = options->direction;
    p.wrapped = options->border == CUS_STEREO_WRAP;
    // A right pixel at the border is also seen by windows whose center lies outside the left image.
    const int outside = checked && !p.wrapped ? p.pad : 0;
    p.before = p.direction > 0 ? outside : 0;
    p.tiles_across = divUp(p.cols + outside, 4 * chosen.segment);
    p.prefer_smaller = options->prefer_smaller != 0;
    p.aligned = isAligned(*left, 4) && isAligned(*right, 4);
    int device = 0, sms = 0, shared_limit = 0;
    cudaFuncAttributes compiled = {};
    CUSI_CUDA(function, cudaGetDevice(&device));
    CUSI_CUDA(function, cudaFuncGetAttributes(&compiled, chosen.kernel));
    CUSI_CUDA(function, cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    CUSI_CUDA(function, cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    const int warps = compiled.ptxVersion < 80 ? FEWER_WARPS : USUAL_WARPS;
    p.strip = chooseStrip(p, chosen, warps, sms, shared_limit);
    const int shared = sharedBytes(p, chosen, warps, p.strip);
    // All threads of the program share the limit of a kernel, so it must not depend on this call.
    CUSI_CUDA(function, cudaFuncSetAttribute(chosen.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             shared_limit - static_cast<int>(compiled.sharedSizeBytes)));
    if (checked)
        CUSI_CUDA(function,
                  cudaMemsetAsync(p.right_keys, 0, sizeof(uint32_t) * static_cast<size_t>(p.rows) * p.cols, stream));
    const unsigned blocks = static_cast<unsigned>(p.tiles_across) * divUp(p.rows, p.strip);
    for (int first = 0; first < options->shifts; first += STEREO_GROUP) {
        p.first_shift = first;
        p.shifts = std::min<int>(STEREO_GROUP, options->shifts - first);
        p.first = first == 0;
        p.last = first + STEREO_GROUP >= options->shifts;
        CUS_TRY(launchOverlapped(function, chosen.kernel, blocks, 32 * warps, shared, stream, p));
    }
    return checked ? checkBothWays(function, *elevation, confidence, p.right_keys, *options, stream) : CUS_OK;
}
