// Integral images on the GPU in one pass: the source is read once and each table written once.
//
// The image is cut into tiles. A block copies one tile into shared memory, each of its warps ROWS rows of 128 columns, a lane four
// neighboring columns. The table's entry at row y and column x of a tile is
//
//   what is above and left of the tile (corner) + the columns before x above the tile + the rows before y left of the tile
//   + the sum inside the tile,
//
// and the first three come from the tiles before by look-back, three chains of short dependencies:
//
//   columns  a tile publishes the sums of its columns; the tiles below add them up;
//   rows     it publishes the sums of its rows; the tiles to the right add them up;
//   corners  once it knows what is left of it, it publishes the sum of that; the tiles below add it up to their corner.
//
// Each chain is cut into groups. The last tile of a group publishes the prefix, everything up to and with itself, instead of its
// own sums. So a tile adds the prefix of the group before and the sums of its own group, always in the order of the tiles: nothing
// depends on timing, and sums of floats come out the same in every run.
//
// Blocks take the tiles band by band, so a block waits only for blocks with smaller numbers. Like CUB's, the look-back relies on
// blocks being started in the order of blockIdx. Every published word carries the number of the run beside one sum or two: it is
// complete once it is seen, needs no fence, and nothing is cleared between runs.
//
// Memory is the faster the closer together it is written: of images of many tiles only some of the blocks write at a time, those
// next in order, and the first blocks start one after the other. A load that a multiprocessor asks for while it writes waits behind
// its stores, for up to 2000 cycles, and so does a spilled register: what a block finds out by loading must take few turns.
#include "cuda.cuh"
#include "integral_backend.h"

#include <cuda_pipeline.h>

#include <algorithm>
#include <cstring>

namespace {

constexpr unsigned FULL_WARP = 0xffffffffu;
constexpr int STRIP = 128; // columns of a warp: 32 lanes of four

// How a tile is spread over the warps of a block.
template<int ACROSS_, int DOWN_, int ROWS_, int BLOCKS_, int LEAST_GROUP_, int COLUMNS_AHEAD_, int PACE_ = 0>
struct Shape {
    static constexpr int ACROSS = ACROSS_, DOWN = DOWN_; // warps beside and below each other
    static constexpr int ROWS = ROWS_;                   // of a warp
    static constexpr int BLOCKS = BLOCKS_;               // on a multiprocessor
    static constexpr int LEAST_GROUP = LEAST_GROUP_;     // of the chain of columns
    static constexpr int COLUMNS_AHEAD = COLUMNS_AHEAD_; // tiles of that chain whose sums a thread loads at once
    static constexpr int PACE = PACE_; // cycles from a multiprocessor's first block to its next; 0: not kept in order
    static constexpr int WIDTH = ACROSS * STRIP, HEIGHT = DOWN * ROWS;
    static constexpr int WARPS = ACROSS * DOWN, THREADS = 32 * WARPS;
    static_assert(HEIGHT % 32 == 0 && HEIGHT <= 256, "a lane takes whole rows; column sums of bytes fit 16 bits");
    static_assert(ROWS % 4 == 0 && ROWS <= 32 && ROWS % (HEIGHT / 32) == 0, "");
    static_assert(32 * (WARPS - ACROSS) >= HEIGHT, "a thread for each row besides those for the columns");
};

// Milliseconds on an H200 (several, which differ by 1 to 2 %; what is left and right of -> is of the same card and run): 8-bit sums
// of 7680x4320 and of 16384x16384, sums with squares of 7680x4320.
//   as chosen                                                  0.0453           0.351            0.119
//   without looking back, that is with wrong tables            0.0435                            0.114
// How it came to that:
//   all blocks writing at once                                 0.0510           0.366            0.144
//   the first one after the other                              0.0495           0.365            0.140
//   and 3 blocks writing for 4 multiprocessors                 0.0481           0.355            0.136
//   the corner found beside the columns                        0.0474           0.352            0.128
//   the cache keeps what is published                          0.0470 -> 0.0459 0.3515 -> 0.3513 0.1268 -> 0.1247
//   and does not keep pixels                                   0.0459 -> 0.0456 0.3508 -> 0.3514 0.1250 -> 0.1243
//   squares wait in shared memory, not in spilled registers                                      0.1250 -> 0.1231
//   looking left for both tables at once                                                         0.1225 -> 0.1213
//   a column's prefix in one word, not two                                                       0.1216 -> 0.1202
//   groups of 8 bands for both, not 16 (4: 0.1221)                                               0.1215 -> 0.1211
// The other way, at some step of these: 5 blocks writing for 8 multiprocessors 0.0458 -> 0.0471, 0.1250 -> 0.1302; 7 for 8 0.0464,
// 0.1266; 512 x 128 and 256 x 128 tiles, 2 blocks of 16 warps 0.0461 -> 0.0490, 0.1215 -> 0.1253; 4 blocks for both 0.1213 -> 0.1240;
// 256 x 64 tiles, 8 blocks of 4 warps for sums 0.0498.
// Floats with squares: 128 x 32, 4 blocks 0.340, 3 blocks 0.357, now 0.278.
//
// The fewer pixels, the smaller the tiles, so that all multiprocessors have some. A kernel whose tiles all find place at once (on 132
// multiprocessors) is the quicker the smaller they are; after that larger ones win. By size (x: not all find place):
//   sums              640x480   1280x720  1920x1080 2560x1440 3200x1800 3840x2160 5120x2880 6144x3456 7680x4320
//     Small           0.0050    0.0062    0.0075    0.0100    0.0151 x  0.0181 x  0.0305 x  0.0403 x  0.0602 x
//     Medium          0.0069    0.0071    0.0107    0.0111    0.0144    0.0161    0.0241 x  0.0322 x  0.0476 x
//     Large           0.0106    0.0127    0.0156    0.0145    0.0180    0.0221    0.0253    0.0310 x  0.0448 x
//   sums and squares
//     WideFew         0.0088    0.0096    0.0128    0.0221 x  0.0326 x  0.0444 x  0.0754 x  0.1056 x  0.1632 x
//     WideSmall       0.0085    0.0114    0.0150    0.0197    0.0275 x  0.0374 x  0.0651 x  0.0896 x  0.1371 x
//     Wide            0.0108    0.0159    0.0199    0.0231    0.0287    0.0368 x  0.0564 x  0.0780 x  0.1187 x
// For small images of sums 16 warps 0.0088 at 1920x1080, 4 warps 0.0096, 128 x 128 0.0097, 256 x 32 0.0118; 2 blocks and 8 ahead
// 0.0073, but 0.0124 at 2560x1440. Wide with 4 blocks 0.0356 at 3840x2160, 0.0595 at 5120x2880.
namespace tuning {
using Small = Shape<1, 8, 8, 4, 8, 4>; // 32-bit sums alone
using Medium = Shape<2, 4, 16, 4, 8, 3, 2640>;
using Large = Shape<4, 2, 32, 4, 16, 2, 2640>;
using WideFew = Shape<1, 8, 8, 2, 8, 3>; // bytes to 64-bit tables
using WideSmall = Shape<1, 8, 8, 4, 8, 1>;
using Wide = Shape<2, 4, 16, 3, 8, 1, 2970>;
using Float = Shape<1, 8, 4, 4, 2, 1>;
// Blocks that write at a time, of images of more tiles than find place at once: for four multiprocessors three.
constexpr unsigned WRITING = 3, WRITING_OF = 4;
// Groups of the chain of columns: so high that memory takes longer for one than its prefix takes from tile to tile.
constexpr size_t GROUP_BYTES = 16 << 20;
constexpr unsigned MAX_COLUMN_GROUP = 32;
constexpr unsigned GROUP = 32; // of the chains of rows and corners
// Of working memory; taller images are done in slabs, one kernel each. 16384x16384 is one.
constexpr size_t SLAB_BYTES = 48 << 20;
} // namespace tuning

constexpr size_t SLAB_ROWS = 1 << 18; // at most, so that a column's sum of squares fits 34 bits

using Word = unsigned long long;

// At the beginning of the working memory, all of which is zero before the first run. Behind it, the words of the chains.
struct alignas(128) State {
    // The number of the last run, of 30 bits. 0 is never used again: only words from exactly 2^30 - 1 runs ago could pass for those of
    // now.
    uint32_t run;
    uint32_t before;               // tiles that the runs before this one wrote, of those that count them
    alignas(128) uint32_t written; // so far
};
constexpr uint32_t RUNS = (1u << 30) - 1;
// Where a word carries it: in all words the same bits, as another run may look for other sums at the same place.
constexpr unsigned RUN_SHIFT = 34;

// One slab of the image.
struct Job {
    const unsigned char *src;
    size_t step;
    unsigned rows, cols, bands, strips; // bands and strips of tiles
    unsigned column_group;              // a power of two
    State *state;
    bool aligned4, aligned16; // source: four pixels, 16 bytes can be loaded at once
    bool tables_aligned;      // 16 bytes can be stored at once
    bool first;               // the top of the image
    unsigned writing;         // blocks that write at a time; 0: all
    unsigned at_once, pace;   // as many blocks start `pace` cycles after one another
};

// One table under construction. Column, Row: of a tile's sums of columns and rows; Acc: in what they are added up.
template<class Column_, class Row_, class Acc_, class Entry_>
struct Table {
    using Column = Column_;
    using Row = Row_;
    using Acc = Acc_;
    using Entry = Entry_;
    Word *columns;         // [band][column]
    Word *column_prefixes; // [group of bands][column]
    Word *rows;            // [strip][row]
    Word *row_prefixes;    // [group of strips][row]
    Word *corners;         // [strip][band]
    Entry *out;            // table row above the slab's first
    size_t step;
};
struct NoTable {};
template<class T>
constexpr bool EXISTS = !std::is_same_v<T, NoTable>;

// Of a row's sum of bytes, of which two share a word: up to 512 * 255.
struct Bits17 {
    uint16_t half_a_word;
};
// Of a column's sum of bytes or their squares in a slab.
struct Bits34 {
    uint32_t a_word;
};
template<class Acc>
using ColumnPrefix = std::conditional_t<std::is_same_v<Acc, uint64_t>, Bits34, Acc>;

using Sums32 = Table<uint16_t, Bits17, uint32_t, uint32_t>; // of bytes, modulo 2^32
using Sums64 = Table<uint16_t, Bits17, uint64_t, double>;
using Squares64 = Table<uint32_t, uint32_t, uint64_t, double>;
using Floats64 = Table<double, double, double, double>; // sums or squares

// ---- Caches ---------------------------------------------------------------------------------------------------------

// The second-level cache is to keep what blocks publish, which is read many times, rather than pixels and tables, which pass once.

#if __CUDA_ARCH__ >= 800
__device__ inline uint64_t keep() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
__device__ inline uint64_t pass() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
#endif

__device__ inline void storeWord(Word *at, Word w) {
#if __CUDA_ARCH__ >= 800
    asm volatile("st.relaxed.gpu.global.L2::cache_hint.u64 [%0], %1, %2;" ::"l"(at), "l"(w), "l"(keep()) : "memory");
#else
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(w) : "memory");
#endif
}
__device__ inline void storeTwoWords(Word *at, Word w0, Word w1) {
#if __CUDA_ARCH__ >= 800
    asm volatile("st.relaxed.gpu.global.L2::cache_hint.v2.u64 [%0], {%1, %2}, %3;" ::"l"(at), "l"(w0), "l"(w1), "l"(keep())
                 : "memory");
#else
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(w0), "l"(w1) : "memory");
#endif
}
__device__ inline Word loadWord(const Word *at) {
    Word w;
#if __CUDA_ARCH__ >= 800
    asm volatile("ld.relaxed.gpu.global.L2::cache_hint.u64 %0, [%1], %2;" : "=l"(w) : "l"(at), "l"(keep()) : "memory");
#else
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(w) : "l"(at) : "memory");
#endif
    return w;
}
__device__ inline void loadTwoWords(const Word *at, Word &w0, Word &w1) {
#if __CUDA_ARCH__ >= 800
    asm volatile("ld.relaxed.gpu.global.L2::cache_hint.v2.u64 {%0, %1}, [%2], %3;"
                 : "=l"(w0), "=l"(w1)
                 : "l"(at), "l"(keep())
                 : "memory");
#else
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(w0), "=l"(w1) : "l"(at) : "memory");
#endif
}

// Starts copying 16 bytes of pixels to shared memory.
__device__ inline void copyPixels16(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from), "l"(pass())
                 : "memory");
#else
    __pipeline_memcpy_async(to, from, 16);
#endif
}

// 16 bytes of a table.
template<class T>
__device__ inline void store16(T *at, const T *v) {
    uint4 w;
    memcpy(&w, v, sizeof w);
#if __CUDA_ARCH__ >= 800
    asm volatile("st.global.L1::no_allocate.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(at), "r"(w.x),
                 "r"(w.y), "r"(w.z), "r"(w.w), "l"(pass())
                 : "memory");
#else
    __stcs(reinterpret_cast<uint4 *>(at), w);
#endif
}

// ---- Four pixels ----------------------------------------------------------------------------------------------------

// Pixels x .. x + 3 of a row, zero past its end. Sums of bytes within a strip (up to 128 * 255^2) fit 32 bits.
template<class Pixel>
struct Four;

template<>
struct Four<unsigned char> {
    using Sum = uint32_t;
    uint32_t word;

    __device__ void loadSome(const unsigned char *row, unsigned x, unsigned cols) {
        word = 0;
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            if (x + i < cols)
                word |= static_cast<uint32_t>(__ldg(row + x + i)) << (8 * i);
    }
    template<bool SQUARES>
    __device__ Sum total() const {
        return __dp4a(word, SQUARES ? word : 0x01010101u, 0u);
    }
    // sums[i]: start and the pixels before i
    template<bool SQUARES>
    __device__ void prefix(Sum start, Sum (&sums)[4]) const {
        sums[0] = start;
        sums[1] = __dp4a(word, SQUARES ? word & 0x000000ffu : 0x00000001u, start);
        sums[2] = __dp4a(word, SQUARES ? word & 0x0000ffffu : 0x00000101u, start);
        sums[3] = __dp4a(word, SQUARES ? word & 0x00ffffffu : 0x00010101u, start);
    }
};

template<>
struct Four<float> {
    using Sum = double;
    float4 v;

    __device__ void loadSome(const unsigned char *bytes, unsigned x, unsigned cols) {
        const float *row = reinterpret_cast<const float *>(bytes);
        v = make_float4(x < cols ? __ldg(row + x) : 0, x + 1 < cols ? __ldg(row + x + 1) : 0,
                        x + 2 < cols ? __ldg(row + x + 2) : 0, x + 3 < cols ? __ldg(row + x + 3) : 0);
    }
    template<bool SQUARES>
    __device__ static double value(float f) {
        return SQUARES ? static_cast<double>(f) * f : static_cast<double>(f);
    }
    template<bool SQUARES>
    __device__ void prefix(Sum start, Sum (&sums)[4]) const {
        sums[0] = start;
        sums[1] = start + value<SQUARES>(v.x);
        sums[2] = sums[1] + value<SQUARES>(v.y);
        sums[3] = sums[2] + value<SQUARES>(v.z);
    }
    template<bool SQUARES>
    __device__ Sum total() const {
        return value<SQUARES>(v.x) + value<SQUARES>(v.y) + value<SQUARES>(v.z) + value<SQUARES>(v.w);
    }
};

// The pixels of a warp's rows in shared memory, seen by one lane.
template<class Pixel>
struct Rows {
    const Four<Pixel> *at; // in the first row
    __device__ Four<Pixel> operator[](unsigned k) const { return at[32 * k]; }
};

// Starts copying columns x .. x + 127 of rows y .. y + ROWS - 1 to `to`, [row][lane], zero where there are none. whole: all exist
// and are aligned to 16 bytes.
template<int ROWS, class Pixel>
__device__ inline void loadRows(Four<Pixel> *to, const Job &job, unsigned x, unsigned y, unsigned lane, bool whole) {
    const unsigned char *row = job.src + y * job.step + x * sizeof(Pixel);
    if (whole) {
        constexpr unsigned LANES = STRIP * sizeof(Pixel) / 16, TOGETHER = 32 / LANES; // lanes a row, rows at once
        row += lane / LANES * job.step + lane % LANES * 16;
#pragma unroll
        for (unsigned k = 0; k < ROWS; k += TOGETHER, row += TOGETHER * job.step)
            copyPixels16(reinterpret_cast<char *>(to + 32 * k) + 16 * lane, row);
    } else {
        const bool four = job.aligned4 && x + 4 * lane + 4 <= job.cols;
        const unsigned cols = job.cols - min(job.cols, x);
#pragma unroll 4
        for (unsigned k = 0; k < ROWS; ++k, row += job.step)
            if (four && y + k < job.rows)
                __pipeline_memcpy_async(to + 32 * k + lane, row + 4 * lane * sizeof(Pixel), sizeof *to);
            else
                to[32 * k + lane].loadSome(row, 4 * lane, y + k < job.rows ? cols : 0);
    }
    __pipeline_commit();
}

// Four column sums over some rows.
template<class Pixel, bool SQUARES>
struct ColumnSums {
    typename Four<Pixel>::Sum sums[4] = {0, 0, 0, 0};

    __device__ void add(const Four<unsigned char> &four) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t p = four.word >> (8 * i) & 255;
            sums[i] += p * p;
        }
    }
    __device__ void add(const Four<float> &four) {
        sums[0] += Four<float>::value<SQUARES>(four.v.x);
        sums[1] += Four<float>::value<SQUARES>(four.v.y);
        sums[2] += Four<float>::value<SQUARES>(four.v.z);
        sums[3] += Four<float>::value<SQUARES>(four.v.w);
    }
    __device__ typename Four<Pixel>::Sum operator[](int i) const {
        return sums[i];
    }
};

template<>
struct ColumnSums<unsigned char, false> {
    uint32_t even = 0, odd = 0; // two 16-bit sums each: up to 257 rows
    __device__ void add(const Four<unsigned char> &four) {
        even += four.word & 0x00ff00ffu;
        odd += four.word >> 8 & 0x00ff00ffu;
    }
    __device__ uint32_t operator[](int i) const { return (i % 2 ? odd : even) >> (i / 2 * 16) & 0xffff; }
};

template<class Sum>
__device__ inline Sum warpSum(Sum v) {
#if __CUDA_ARCH__ >= 800
    constexpr bool IN_HARDWARE = std::is_same_v<Sum, uint32_t>;
#else
    constexpr bool IN_HARDWARE = false;
#endif
    if constexpr (IN_HARDWARE) {
        return __reduce_add_sync(FULL_WARP, v);
    } else {
#pragma unroll
        for (int d = 16; d > 0; d /= 2)
            v += __shfl_xor_sync(FULL_WARP, v, d); // every lane adds the same pairs: one value in all
        return v;
    }
}

// Sums over the lanes up to and with this one; several side by side, so that their shuffles do not wait for each other.
template<class Sum, int N>
__device__ inline void warpScan(Sum (&v)[N], unsigned lane) {
#pragma unroll
    for (unsigned d = 1; d < 32; d *= 2) {
        Sum before[N];
#pragma unroll
        for (int k = 0; k < N; ++k)
            before[k] = __shfl_up_sync(FULL_WARP, v[k], d);
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (lane >= d)
                v[k] += before[k];
    }
}

// Of sums up to and with each lane, those of the lanes before. NaN and infinity rule out a subtraction of floats.
template<class Sum>
__device__ inline Sum laneBefore(Sum upTo, Sum own, unsigned lane) {
    if constexpr (std::is_integral_v<Sum>) {
        return upTo - own;
    } else {
        const Sum before = __shfl_up_sync(FULL_WARP, upTo, 1);
        return lane ? before : Sum(0);
    }
}

// The rows of a warp, summed up: for each the sum over the lanes before this one.
template<class Pixel, bool SQUARES, int ROWS>
struct RowScan {
    using Sum = typename Four<Pixel>::Sum;
    using Total = Sum;             // of a row
    static constexpr int KEPT = 0; // words of shared memory for each lane
    Sum sums[ROWS];

    __device__ explicit RowScan(uint32_t *) {}
    __device__ void scan(const Rows<Pixel> &four, Total *totals, unsigned lane) {
        Sum upTo[ROWS], own[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; ++k)
            upTo[k] = own[k] = four[k].template total<SQUARES>();
        warpScan(upTo, lane);
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            if (lane == 31)
                totals[k] = upTo[k];
            sums[k] = laneBefore(upTo[k], own[k], lane);
        }
    }
    __device__ Sum before(int k) const {
        return sums[k];
    }
};

// Sums of up to 128 bytes fit 16 bits: two rows to a word.
template<int ROWS>
struct RowScan<unsigned char, false, ROWS> {
    using Total = uint16_t;
    static constexpr int KEPT = 0;
    uint32_t pairs[ROWS / 2];

    __device__ explicit RowScan(uint32_t *) {}
    __device__ void scan(const Rows<unsigned char> &four, Total *totals, unsigned lane) {
        uint32_t upTo[ROWS / 2], own[ROWS / 2];
#pragma unroll
        for (int k = 0; k < ROWS / 2; ++k)
            upTo[k] = own[k] = four[2 * k].template total<false>() + (four[2 * k + 1].template total<false>() << 16);
        warpScan(upTo, lane);
#pragma unroll
        for (int k = 0; k < ROWS / 2; ++k) {
            if (lane == 31) {
                totals[2 * k] = static_cast<Total>(upTo[k]);
                totals[2 * k + 1] = static_cast<Total>(upTo[k] >> 16);
            }
            pairs[k] = upTo[k] - own[k];
        }
    }
    __device__ uint32_t before(int k) const {
        return k % 2 ? pairs[k / 2] >> 16 : pairs[k / 2] & 0xffff;
    }
};

// Squares wait in shared memory while the block looks for what is above and left of it: there are no registers left for them.
template<int ROWS>
struct RowScan<unsigned char, true, ROWS> {
    using Total = uint32_t;
    static constexpr int KEPT = ROWS;
    uint32_t *const kept; // the lane's

    __device__ explicit RowScan(uint32_t *kept_) : kept(kept_) {}
    __device__ void scan(const Rows<unsigned char> &four, Total *totals, unsigned lane) {
        constexpr int TOGETHER = 8;
        static_assert(ROWS % TOGETHER == 0, "");
#pragma unroll
        for (int first = 0; first < ROWS; first += TOGETHER) {
            uint32_t upTo[TOGETHER], own[TOGETHER];
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k)
                upTo[k] = own[k] = four[first + k].template total<true>();
            warpScan(upTo, lane);
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k) {
                if (lane == 31)
                    totals[first + k] = upTo[k];
                kept[32 * (first + k)] = upTo[k] - own[k];
            }
        }
    }
    __device__ uint32_t before(int k) const {
        return kept[32 * k];
    }
};

template<class T>
struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Vector4 {
    T v[4];
};

// ---- Look-back ------------------------------------------------------------------------------------------------------

// N neighboring sums as they are published: words of 32 bits of them each, two of 16 bits together, with the number of the run
// above. The fewer bytes, the better: they are read many times, through the cache that all tables go through too.
template<class T, unsigned N>
struct Published {
    static constexpr unsigned WORDS = N * sizeof(T) / 4;
    Word words[WORDS];

    __device__ static void store(Word *at, const T (&v)[N], uint32_t run) {
        uint32_t halves[WORDS];
        memcpy(halves, v, sizeof v);
        Word w[WORDS];
#pragma unroll
        for (unsigned i = 0; i < WORDS; ++i)
            w[i] = static_cast<Word>(run) << RUN_SHIFT | halves[i];
        if constexpr (WORDS == 1)
            storeWord(at, w[0]);
        else
#pragma unroll
            for (unsigned i = 0; i < WORDS; i += 2)
                storeTwoWords(at + i, w[i], w[i + 1]);
    }
    __device__ void load(const Word *at) {
        if constexpr (WORDS == 1)
            words[0] = loadWord(at);
        else
#pragma unroll
            for (unsigned i = 0; i < WORDS; i += 2)
                loadTwoWords(at + i, words[i], words[i + 1]);
    }
    __device__ bool isOf(uint32_t run) const {
        bool all = true;
#pragma unroll
        for (unsigned i = 0; i < WORDS; ++i)
            all &= words[i] >> RUN_SHIFT == run;
        return all;
    }
    template<class Acc>
    __device__ void addTo(Acc (&sums)[N]) const {
        uint32_t halves[WORDS];
#pragma unroll
        for (unsigned i = 0; i < WORDS; ++i)
            halves[i] = static_cast<uint32_t>(words[i]);
        T v[N];
        memcpy(v, halves, sizeof v);
#pragma unroll
        for (unsigned i = 0; i < N; ++i)
            sums[i] += static_cast<Acc>(v[i]);
    }
};

// Two of 17 bits, and the number of the run.
template<>
struct Published<Bits17, 2> {
    Word word;

    __device__ static void store(Word *at, const uint32_t (&v)[2], uint32_t run) {
        storeWord(at, static_cast<Word>(run) << RUN_SHIFT | static_cast<Word>(v[1]) << 17 | v[0]);
    }
    __device__ void load(const Word *at) { word = loadWord(at); }
    __device__ bool isOf(uint32_t run) const { return word >> RUN_SHIFT == run; }
    template<class Acc>
    __device__ void addTo(Acc (&sums)[2]) const {
        sums[0] += static_cast<Acc>(word & 0x1ffff);
        sums[1] += static_cast<Acc>(word >> 17 & 0x1ffff);
    }
};

// Four of 34 bits.
template<>
struct Published<Bits34, 4> {
    Word words[4];

    __device__ static void store(Word *at, const uint64_t (&v)[4], uint32_t run) {
        const Word number = static_cast<Word>(run) << RUN_SHIFT;
        storeTwoWords(at, number | v[0], number | v[1]);
        storeTwoWords(at + 2, number | v[2], number | v[3]);
    }
    __device__ void load(const Word *at) {
        loadTwoWords(at, words[0], words[1]);
        loadTwoWords(at + 2, words[2], words[3]);
    }
    __device__ bool isOf(uint32_t run) const {
        return words[0] >> RUN_SHIFT == run && words[1] >> RUN_SHIFT == run && words[2] >> RUN_SHIFT == run &&
               words[3] >> RUN_SHIFT == run;
    }
    __device__ void addTo(uint64_t (&sums)[4]) const {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            sums[i] += words[i] & ((Word{1} << RUN_SHIFT) - 1);
    }
};

// Of what tiles first .. end - 1 have published; the constructor has loads on their way, addTo() waits.
template<class T, unsigned N, unsigned AHEAD = 1>
struct LookBack {
    using Sums = Published<T, N>;
    const Word *at;
    size_t stride;
    unsigned count;
    Sums ahead[AHEAD];

    // words: of tile 0; stride: in sums, from tile to tile
    __device__ LookBack(const Word *words, size_t stride_, unsigned first, unsigned end)
        : at(words + first * stride_ * sizeof(T) / 4), stride(stride_ * sizeof(T) / 4), count(end - min(first, end)) {
        load();
    }
    __device__ void load() {
#pragma unroll
        for (unsigned k = 0; k < AHEAD; ++k)
            if (k < count)
                ahead[k].load(at + k * stride);
    }
    template<class Acc>
    __device__ void addTo(Acc (&sums)[N], uint32_t run) {
        while (count > 0) {
            bool again = true;
            while (again) { // what is not there yet is loaded again, all at once
                again = false;
#pragma unroll
                for (unsigned k = 0; k < AHEAD; ++k)
                    if (k < count && !ahead[k].isOf(run)) {
                        ahead[k].load(at + k * stride);
                        again = true;
                    }
            }
#pragma unroll
            for (unsigned k = 0; k < AHEAD; ++k)
                if (k < count)
                    ahead[k].addTo(sums);
            count -= min(count, AHEAD);
            at += AHEAD * stride;
            load();
        }
    }
};

// A look-back adds the prefix of the group before, if there is one, and the sums of the tiles of its own group.
__device__ inline unsigned groupStart(unsigned tile, unsigned group) {
    return tile & ~(group - 1);
}
__device__ inline bool endsGroup(unsigned tile, unsigned group) {
    return (tile & (group - 1)) == group - 1;
}

// ---- Tiles ----------------------------------------------------------------------------------------------------------

struct Place {
    unsigned band, strip;  // of tiles
    unsigned across, down; // of warps in the tile
    unsigned lane, warp;
    uint32_t run;
};

// Sums of columns to sums over the columns before each of a warp's 128. In place of column 0, which has none before it, stands the
// sum of all 128.
template<class Sum>
__device__ inline Vector4<Sum> overColumns(const Sum (&sums)[4], unsigned lane) {
    const Sum two = sums[0] + sums[1], three = two + sums[2], all = three + sums[3];
    Sum upTo[1] = {all};
    warpScan(upTo, lane);
    const Sum before = laneBefore(upTo[0], all, lane), total = __shfl_sync(FULL_WARP, upTo[0], 31);
    return {{lane ? before : total, before + sums[0], before + two, before + three}};
}
// The way back.
template<class Sum>
__device__ inline void ofColumns(Sum (&v)[4], unsigned lane) {
    const Sum all = __shfl_sync(FULL_WARP, v[0], 0), next = __shfl_down_sync(FULL_WARP, v[0], 1);
    const Sum before[4] = {lane ? v[0] : 0, v[1], v[2], v[3]};
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
        v[i] = (i < 3 ? before[i + 1] : lane < 31 ? next : all) - before[i];
}

// What a block keeps of one table. Sums of columns are over the columns before, see overColumns().
template<class Pixel, bool SQUARES, class Acc, class Tile, unsigned FIRST_ROW_WARP_>
struct Shared {
    static constexpr unsigned FIRST_ROW_WARP = FIRST_ROW_WARP_; // those before look up, those from it on look left
    using Sum = typename Four<Pixel>::Sum;
    static constexpr unsigned ROW_WARPS = Tile::WARPS - FIRST_ROW_WARP;
    static constexpr unsigned TOGETHER = std::is_same_v<Sum, uint32_t> ? 2 : 1; // rows of a thread
    static constexpr unsigned PARTS = 32 * ROW_WARPS * TOGETHER / Tile::HEIGHT; // threads that share their look-back
    static_assert(PARTS * Tile::HEIGHT == 32 * ROW_WARPS * TOGETHER, "");

    Vector4<Sum> columns[Tile::DOWN][Tile::ACROSS][32];                                               // of each warp
    alignas(16) typename RowScan<Pixel, SQUARES, Tile::ROWS>::Total rows[Tile::ACROSS][Tile::HEIGHT]; // of each warp
    Vector4<Acc> above[Tile::ACROSS][32];               // everything above the tile
    Acc left[PARTS][Tile::HEIGHT];                      // everything left of the tile, in parts
    Vector4<Acc> lefts[Tile::ACROSS][Tile::HEIGHT / 4]; // everything left of the warp, by row
    Acc corner;                                         // everything above and left of the tile
    Acc corners[Tile::ACROSS][Tile::DOWN];              // what the warps' corners have beyond that

    __device__ Acc leftOf(unsigned y) const {
        Acc sum = left[0][y];
#pragma unroll
        for (unsigned p = 1; p < PARTS; ++p)
            sum += left[p][y];
        return sum;
    }
    __device__ Sum rowSum(unsigned y) const {
        Sum sum = rows[0][y];
#pragma unroll
        for (int w = 1; w < Tile::ACROSS; ++w)
            sum += rows[w][y];
        return sum;
    }
};

template<class T>
__device__ inline Word *wordsOf(Word *words, size_t index) {
    return words + index * sizeof(T) / 4;
}

// Publishes the sums of 128 of the tile's columns and finds out what is above it.
template<class Tile, class T, class Memory>
__device__ inline void lookUp(const T &table, const Job &job, Memory &shared, const Place &place) {
    using Acc = typename T::Acc;
    using Column = typename T::Column;
    using Prefix = ColumnPrefix<Acc>;
    constexpr bool SINGLE = std::is_integral_v<Acc>; // single columns are published; floats may not be taken apart again
    const size_t padded = static_cast<size_t>(job.strips) * Tile::WIDTH;
    const unsigned column = place.strip * Tile::WIDTH + place.across * STRIP + 4 * place.lane;
    const unsigned first = groupStart(place.band, job.column_group), group = place.band / job.column_group;
    Acc own[4] = {};
#pragma unroll
    for (unsigned w = 0; w < Tile::DOWN; ++w) {
        const auto some = shared.columns[w][place.across][place.lane];
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            own[i] += static_cast<Acc>(some.v[i]);
    }
    if constexpr (SINGLE)
        ofColumns(own, place.lane);
    const bool ends = endsGroup(place.band, job.column_group);
    if (!ends) {
        const Column sums[4] = {static_cast<Column>(own[0]), static_cast<Column>(own[1]), static_cast<Column>(own[2]),
                                static_cast<Column>(own[3])};
        Published<Column, 4>::store(wordsOf<Column>(table.columns, place.band * padded + column), sums, place.run);
    }
    Acc above[4] = {};
    const auto addPrefix = [&] {
        LookBack<Prefix, 4>(wordsOf<Prefix>(table.column_prefixes, column), padded, group - (group > 0), group)
            .addTo(above, place.run);
    };
    constexpr bool PREFIX_FIRST = sizeof(Acc) == 4; // 16384x16384 0.352 against 0.355; with squares 0.134 against 0.130
    if (PREFIX_FIRST)
        addPrefix();
    LookBack<Column, 4, Tile::COLUMNS_AHEAD>(wordsOf<Column>(table.columns, column), padded, first, place.band)
        .addTo(above, place.run);
    if (!PREFIX_FIRST)
        addPrefix();
    if (ends) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            own[i] += above[i];
        Published<Prefix, 4>::store(wordsOf<Prefix>(table.column_prefixes, group * padded + column), own, place.run);
    }
    if constexpr (SINGLE)
        shared.above[place.across][place.lane] = overColumns(above, place.lane);
    else
        shared.above[place.across][place.lane] = {{above[0], above[1], above[2], above[3]}};
}

// The rows of one thread of the warps that look left.
template<class Tile, class Memory>
struct RowsOfThread {
    static constexpr unsigned N = Memory::TOGETHER, THREADS = Tile::HEIGHT / N;
    unsigned row, part; // the first of N; which of the threads that share their look-back
    __device__ RowsOfThread() {
        const unsigned thread = threadIdx.x - 32 * Memory::FIRST_ROW_WARP;
        row = thread % THREADS * N;
        part = thread / THREADS;
    }
};

// Publishes the sums of the tile's rows.
template<class Tile, class T, class Memory>
__device__ inline void publishRows(const T &table, const Job &job, const Memory &shared, const Place &place) {
    using Row = typename T::Row;
    const RowsOfThread<Tile, Memory> rows;
    constexpr unsigned N = rows.N;
    if (rows.part > 0 || endsGroup(place.strip, tuning::GROUP))
        return;
    std::conditional_t<N == 2, uint32_t, Row> own[N];
#pragma unroll
    for (unsigned i = 0; i < N; ++i)
        own[i] = shared.rowSum(rows.row + i);
    const size_t padded = static_cast<size_t>(job.bands) * Tile::HEIGHT;
    Published<Row, N>::store(wordsOf<Row>(table.rows, place.strip * padded + place.band * Tile::HEIGHT + rows.row), own,
                             place.run);
}

// One table's side of lookLeft().
template<class Tile, class T, class Memory>
struct Left {
    using Acc = typename T::Acc;
    using Row = typename T::Row;
    static constexpr unsigned N = Memory::TOGETHER, PARTS = Memory::PARTS;
    Memory &shared;
    const RowsOfThread<Tile, Memory> rows;
    const Word *at; // what the next tile has published
    size_t stride;
    Published<Row, N> next;
    Acc left[N] = {};

    __device__ Left(const T &table, const Job &job, Memory &shared_, const Place &place) : shared(shared_) {
        const size_t padded = static_cast<size_t>(job.bands) * Tile::HEIGHT;
        const unsigned y = place.band * Tile::HEIGHT + rows.row, group = place.strip / tuning::GROUP;
        if (rows.part == 0) // with the prefix
            LookBack<Acc, N>(wordsOf<Acc>(table.row_prefixes, y), padded, group - (group > 0), group)
                .addTo(left, place.run);
        at = wordsOf<Row>(table.rows, y + (groupStart(place.strip, tuning::GROUP) + rows.part) * padded);
        stride = PARTS * padded * sizeof(Row) / 4;
    }
    __device__ void load() { next.load(at); }
    __device__ bool isOf(uint32_t run) const { return next.isOf(run); }
    __device__ void add() {
        next.addTo(left);
        at += stride;
    }
    __device__ void store() const {
#pragma unroll
        for (unsigned i = 0; i < N; ++i)
            shared.left[rows.part][rows.row + i] = left[i];
    }
};

// Finds out what is left of the tile, in parts; for all tables at once, as what counts is how often one waits.
template<class First, class... More>
__device__ inline void lookLeft(const Place &place, First first, More... more) {
    static_assert(((First::N == More::N && First::PARTS == More::PARTS) && ...), "their threads have the same rows");
    for (unsigned strip = groupStart(place.strip, tuning::GROUP) + first.rows.part; strip < place.strip;
         strip += First::PARTS) {
        do
            first.load(), (more.load(), ...);
        while (!(first.isOf(place.run) && ... && more.isOf(place.run)));
        first.add(), (more.add(), ...);
    }
    first.store(), (more.store(), ...);
}

// What is left of the tile is known: one warp publishes what other tiles need of that, and finds out what is above and left of the
// tile.
template<class Tile, class T, class Memory>
__device__ inline void lookForCorner(const T &table, const Job &job, Memory &shared, const Place &place) {
    using Acc = typename T::Acc;
    constexpr unsigned EACH = Tile::HEIGHT / 32; // rows of a lane
    Acc left[EACH], sum = 0;
#pragma unroll
    for (unsigned j = 0; j < EACH; ++j)
        sum += left[j] = shared.leftOf(place.lane * EACH + j);
    const Acc all[1] = {warpSum(sum)};
    const bool ends = endsGroup(place.band, tuning::GROUP);
    Word *const corners = wordsOf<Acc>(table.corners, static_cast<size_t>(place.strip) * job.bands);
    if (place.lane == 0 && !ends)
        Published<Acc, 1>::store(wordsOf<Acc>(corners, place.band), all, place.run);
    if (endsGroup(place.strip, tuning::GROUP)) {
        const size_t padded = static_cast<size_t>(job.bands) * Tile::HEIGHT;
        Word *const words = wordsOf<Acc>(table.row_prefixes, place.strip / tuning::GROUP * padded +
                                                                 place.band * Tile::HEIGHT + place.lane * EACH);
#pragma unroll
        for (unsigned j = 0; j < EACH; ++j) {
            const Acc prefix[1] = {left[j] + static_cast<Acc>(shared.rowSum(place.lane * EACH + j))};
            Published<Acc, 1>::store(wordsOf<Acc>(words, j), prefix, place.run);
        }
    }
    const unsigned first = groupStart(place.band, tuning::GROUP); // the tile before has the prefix in place of its own sum
    const unsigned tile = first - (first > 0) + place.lane;       // a lane's; GROUP at most
    Acc corner[1] = {};
    LookBack<Acc, 1>(corners, 1, tile, min(tile + 1, place.band)).addTo(corner, place.run);
    __syncwarp();
    corner[0] = warpSum(corner[0]);
    if (place.lane == 0) {
        shared.corner = corner[0];
        if (ends) {
            const Acc prefix[1] = {corner[0] + all[0]};
            Published<Acc, 1>::store(wordsOf<Acc>(corners, place.band), prefix, place.run);
        }
    }
}

// Leaves what each of the tile's warps needs: one warp for those below each other.
template<class Tile, class T, class Memory>
__device__ inline void putTogether(Memory &shared, const Place &place) {
    using Acc = typename T::Acc;
    constexpr unsigned EACH = Tile::HEIGHT / 32; // rows of a lane
    const unsigned y = place.lane * EACH;
    Acc sum = 0;
#pragma unroll
    for (unsigned j = 0; j < EACH; ++j) {
        Acc left = shared.leftOf(y + j);
#pragma unroll
        for (int w = 0; w < Tile::ACROSS - 1; ++w)
            if (w < static_cast<int>(place.across))
                left += static_cast<Acc>(shared.rows[w][y + j]);
        shared.lefts[place.across][(y + j) / 4].v[(y + j) % 4] = left;
        sum += left;
    }
    Acc upTo[1] = {sum};
    warpScan(upTo, place.lane);
    Acc before = laneBefore(upTo[0], sum, place.lane);
#pragma unroll
    for (int w = 0; w < Tile::ACROSS - 1; ++w)
        if (w < static_cast<int>(place.across))
            before += shared.above[w][0].v[0];
    if (y % Tile::ROWS == 0)
        shared.corners[place.across][y / Tile::ROWS] = before;
}

// ---- Stores ---------------------------------------------------------------------------------------------------------

// Sums of 64 bits are kept with 2^52 in their upper half added: below 2^52, that is in all tables that fit a device's memory,
// they then have the bits of the double 2^52 + sum.
template<class Acc>
constexpr Acc BIAS = 0;
template<>
constexpr uint64_t BIAS<uint64_t> = 0x4330000000000000u;

__device__ inline uint32_t toEntry(uint32_t v) {
    return v;
}
__device__ inline double toEntry(double v) {
    return v;
}
__device__ inline double toEntry(uint64_t v) {
    return __longlong_as_double(static_cast<long long>(v)) - 4503599627370496.0;
}

// Entries x .. x + 3 of every lane, one after the other, into a row of n entries; all lanes of a warp together.
// WHOLE: all entries are inside; ALIGNED: and the row starts on a 16-byte boundary.
template<bool WHOLE, bool ALIGNED, class T>
__device__ inline void storeRow(T *row, unsigned x, const T (&v)[4], unsigned n, unsigned lane) {
    constexpr unsigned VECTOR = 16 / sizeof(T);
    if constexpr (ALIGNED && VECTOR == 4) {
        store16(row + x, v);
        return;
    }
    if constexpr (ALIGNED && VECTOR == 2) {
        // Four entries are one 32-byte sector, but two stores. Lanes swap halves in pairs, so that each store of the warp
        // writes whole sectors: first those of the even lanes, then those of the odd ones.
        const bool odd = lane % 2;
        const T half[2] = {__shfl_xor_sync(FULL_WARP, odd ? v[0] : v[2], 1),
                           __shfl_xor_sync(FULL_WARP, odd ? v[1] : v[3], 1)};
        const T first[2] = {odd ? half[0] : v[0], odd ? half[1] : v[1]};
        const T second[2] = {odd ? v[2] : half[0], odd ? v[3] : half[1]};
        T *const pair = row + x - (odd ? 2 : 0);
        store16(pair, first);
        store16(pair + 4, second);
        return;
    }
    // The row starts `phase` entries past a 16-byte boundary, so lanes write the four entries that start `phase` earlier:
    // some of the lane before and some of their own. The ends of the strip are written one by one.
    const unsigned phase = static_cast<unsigned>(reinterpret_cast<uintptr_t>(row) / sizeof(T)) % VECTOR;
    const T before[3] = {__shfl_up_sync(FULL_WARP, v[1], 1), __shfl_up_sync(FULL_WARP, v[2], 1),
                         __shfl_up_sync(FULL_WARP, v[3], 1)};
    T w[4];
    if (phase == 0)
        w[0] = v[0], w[1] = v[1], w[2] = v[2], w[3] = v[3];
    else if (phase == 1)
        w[0] = before[2], w[1] = v[0], w[2] = v[1], w[3] = v[2];
    else if (phase == 2)
        w[0] = before[1], w[1] = before[2], w[2] = v[0], w[3] = v[1];
    else
        w[0] = before[0], w[1] = before[1], w[2] = before[2], w[3] = v[0];
    if ((lane > 0 || phase == 0) && (WHOLE || x - phase + 4 <= n)) {
        store16(row + x - phase, w);
        if (VECTOR == 2)
            store16(row + x - phase + 2, w + 2);
    } else {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            if ((lane > 0 || i >= phase) && (WHOLE || x - phase + i < n))
                __stcs(row + x - phase + i, w[i]);
    }
    if (lane == 31) {
#pragma unroll
        for (unsigned i = 1; i < 4; ++i)
            if (i >= 4 - phase && (WHOLE || x + i < n))
                __stcs(row + x + i, v[i]);
    }
}

// Writes the rows of one warp into one table. A lane keeps entries x .. x + 3 of the row above: the sums over the columns
// before each.
template<class Pixel, bool SQUARES, class T, class Tile, class Memory>
struct Writer {
    using Acc = typename T::Acc;
    using Entry = typename T::Entry;
    using Sum = typename Four<Pixel>::Sum;
    static constexpr int ROWS = Tile::ROWS;
    const RowScan<Pixel, SQUARES, ROWS> &scan;
    const Memory &shared;
    const Place &place;
    Acc entries[4];
    Acc end;    // the entry after the warp's columns
    Entry *row; // the row above
    size_t step;
    unsigned x, cols;

    // What does not depend on the corner.
    __device__ Writer(const T &table, const Job &job, const Memory &shared_, const RowScan<Pixel, SQUARES, ROWS> &scan_,
                      const Place &place_)
        : scan(scan_), shared(shared_), place(place_), step(table.step),
          x(place_.strip * Tile::WIDTH + place_.across * STRIP + 4 * place_.lane), cols(job.cols) {
        Vector4<Sum> inside = {};
#pragma unroll
        for (int w = 0; w < Tile::DOWN - 1; ++w)
            if (w < static_cast<int>(place.down)) {
                const auto some = shared.columns[w][place.across][place.lane];
#pragma unroll
                for (unsigned i = 0; i < 4; ++i)
                    inside.v[i] += some.v[i];
            }
        const auto above = shared.above[place.across][place.lane];
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            entries[i] = above.v[i] + static_cast<Acc>(inside.v[i]);
        end = __shfl_sync(FULL_WARP, entries[0], 0);
        if (place.lane == 0)
            entries[0] = 0;
        if (!job.first) { // all this is counted from the top of the slab: add what is above
#pragma unroll
            for (unsigned i = 0; i < 4; ++i)
                if (x + i <= cols)
                    entries[i] += static_cast<Acc>(table.out[x + i]);
            end += static_cast<Acc>(table.out[cols]);
        }
        row = cusi::rowOf(table.out, step, static_cast<size_t>(place.band) * Tile::HEIGHT + place.down * ROWS);
    }

    template<bool WHOLE, bool ALIGNED>
    __device__ void store() const {
        const Entry out[4] = {toEntry(entries[0]), toEntry(entries[1]), toEntry(entries[2]), toEntry(entries[3])};
        storeRow<WHOLE, ALIGNED>(row, x, out, cols + 1, place.lane);
    }

    // The rows, of which `there` exist.
    template<bool WHOLE, bool ALIGNED>
    __device__ void write(const Rows<Pixel> &four, unsigned there) {
#pragma unroll
        for (unsigned first = 0; first < ROWS; first += 4) {
            const auto lefts = shared.lefts[place.across][(place.down * ROWS + first) / 4];
#pragma unroll
            for (unsigned j = 0; j < 4; ++j) {
                const unsigned k = first + j;
                if (WHOLE || k < there) {
                    const Acc start = lefts.v[j] + static_cast<Acc>(scan.before(k));
                    constexpr bool AT_ONCE = sizeof(Acc) == sizeof(Sum);
                    Sum sums[4];
                    four[k].template prefix<SQUARES>(AT_ONCE ? static_cast<Sum>(start) : Sum(0), sums);
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        entries[i] += AT_ONCE ? static_cast<Acc>(sums[i]) : start + static_cast<Acc>(sums[i]);
                    row = cusi::rowOf(row, step, 1);
                    store<WHOLE, ALIGNED>();
                }
            }
        }
    }

    __device__ void write(const Rows<Pixel> &four, unsigned there, bool whole, const Job &job) {
        const unsigned first = x - 4 * place.lane;
        if (first >= cols)
            return;
        const Acc corner = shared.corner + shared.corners[place.across][place.down] + BIAS<Acc>;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            entries[i] += corner;
        const bool top = job.first && place.band == 0 && place.down == 0;
        if (top)
            store<false, false>();   // zeros
        if (first + STRIP == cols) { // nobody else writes the entries after the last column
            const unsigned y = place.down * ROWS + place.lane;
            const bool mine = place.lane < ROWS && place.lane < there;
            Acc ends[1] = {mine
                               ? shared.lefts[place.across][y / 4].v[y % 4] + static_cast<Acc>(shared.rows[place.across][y])
                               : Acc(0)};
            warpScan(ends, place.lane);
            if (mine)
                __stcs(cusi::rowOf(row, step, place.lane + 1) + cols, toEntry(corner + end + ends[0]));
            if (top && place.lane == 0)
                __stcs(row + cols, Entry(0));
        }
        if (whole && job.tables_aligned)
            write<true, true>(four, there);
        else if (whole)
            write<true, false>(four, there);
        else
            write<false, false>(four, there);
    }
};

// A block's work on one table. The warps of row UP of the tile's look up, those from FIRST_ROW_WARP on look left, CORNER for the corner.
template<class Pixel, bool SQUARES, class T, class Tile, unsigned UP, unsigned FIRST_ROW_WARP, unsigned CORNER>
struct Work {
    using Memory = Shared<Pixel, SQUARES, typename T::Acc, Tile, FIRST_ROW_WARP>;
    Memory &shared;
    const T &table;
    const Job &job;
    const Place &place;
    ColumnSums<Pixel, SQUARES> columns;
    RowScan<Pixel, SQUARES, Tile::ROWS> scan;

    __device__ Work(Memory &s, const T &t, const Job &j, const Place &p, uint32_t *kept)
        : shared(s), table(t), job(j), place(p), scan(kept + 32 * scan.KEPT * p.warp + p.lane) {}
    __device__ void sumUp(const Rows<Pixel> &four) {
#pragma unroll
        for (int k = 0; k < Tile::ROWS; ++k)
            columns.add(four[k]);
        scan.scan(four, &shared.rows[place.across][place.down * Tile::ROWS], place.lane);
    }
    __device__ void storeColumns() {
        const typename Four<Pixel>::Sum sums[4] = {columns[0], columns[1], columns[2], columns[3]};
        shared.columns[place.down][place.across][place.lane] = overColumns(sums, place.lane);
    }
    __device__ void lookUp() {
        if (place.down == UP)
            ::lookUp<Tile>(table, job, shared, place);
    }
    __device__ void publishRows() {
        ::publishRows<Tile>(table, job, shared, place);
    }
    __device__ Left<Tile, T, Memory> left() const {
        return {table, job, shared, place};
    }
    __device__ void lookForCorner() {
        if (place.warp == CORNER)
            ::lookForCorner<Tile>(table, job, shared, place);
    }
    __device__ void putTogether() {
        if (place.down == UP)
            ::putTogether<Tile, T>(shared, place);
    }
    __device__ Writer<Pixel, SQUARES, T, Tile, Memory> writer() const {
        return {table, job, shared, scan, place};
    }
};
template<class Pixel, bool SQUARES, class Tile, unsigned UP, unsigned FIRST_ROW_WARP, unsigned CORNER>
struct Work<Pixel, SQUARES, NoTable, Tile, UP, FIRST_ROW_WARP, CORNER> {
    struct Memory {};
    struct Nothing {
        __device__ void write(const Rows<Pixel> &, unsigned, bool, const Job &) {}
    };
    __device__ Work(Memory &, const NoTable &, const Job &, const Place &, uint32_t *) {}
    __device__ void sumUp(const Rows<Pixel> &) {}
    __device__ void storeColumns() {}
    __device__ void lookUp() {}
    __device__ void publishRows() {}
    __device__ void lookForCorner() {}
    __device__ void putTogether() {}
    __device__ Nothing writer() const { return {}; }
};

// Waits for the warps that look left.
template<unsigned THREADS>
__device__ inline void syncRowWarps() {
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}

__device__ inline void awaitWritten(const State *state, uint32_t tiles) {
    uint32_t written;
    do
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(written) : "l"(&state->written) : "memory");
    while (static_cast<int32_t>(written - tiles) < 0);
}

template<class Pixel, class SumTable, class SquareTable, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS)
    integralKernel(const Job job, const SumTable sum, const SquareTable squares) {
    constexpr bool BOTH = EXISTS<SumTable> && EXISTS<SquareTable>; // their warps look up at the same time
    constexpr unsigned FIRST_ROW_WARP = (BOTH ? 2 : 1) * Tile::ACROSS;
    using Sums = Work<Pixel, false, SumTable, Tile, 0, FIRST_ROW_WARP, FIRST_ROW_WARP>;
    using Squares = Work<Pixel, true, SquareTable, Tile, BOTH, FIRST_ROW_WARP, FIRST_ROW_WARP + BOTH>;
    __shared__ alignas(16) Four<Pixel> shared_pixels[Tile::WARPS * Tile::ROWS][32];
    __shared__ typename Sums::Memory sum_shared;
    __shared__ typename Squares::Memory squares_shared;
    __shared__ uint32_t run, before;
    extern __shared__ uint32_t kept[];
    cusi::startInOrder();
    if (threadIdx.x == 0) {
        const uint2 state = __ldcg(reinterpret_cast<const uint2 *>(job.state));
        run = max((state.x + 1) & RUNS, 1u);
        before = state.y;
    }
    Place place;
    place.lane = threadIdx.x % 32;
    place.warp = threadIdx.x / 32;
    place.across = place.warp % Tile::ACROSS;
    place.down = place.warp / Tile::ACROSS;
    place.band = blockIdx.x / job.strips;
    place.strip = blockIdx.x - place.band * job.strips;
    const unsigned x = place.strip * Tile::WIDTH + place.across * STRIP,
                   y = place.band * Tile::HEIGHT + place.down * Tile::ROWS;
    const bool whole = y + Tile::ROWS <= job.rows && x + STRIP <= job.cols;
    Four<Pixel> *const pixels = shared_pixels[place.warp * Tile::ROWS];
    if (blockIdx.x < job.at_once) {
        const long long start = clock64(), wait = static_cast<long long>(blockIdx.x) * job.pace;
        while (clock64() - start < wait) {
        }
    }
    loadRows<Tile::ROWS>(pixels, job, x, y, place.lane, whole && job.aligned16);
    const Rows<Pixel> four = {pixels + place.lane};
    Sums sums(sum_shared, sum, job, place, kept);
    Squares square_sums(squares_shared, squares, job, place, kept);
    __pipeline_wait_prior(0);
    __syncwarp();
    sums.sumUp(four);
    square_sums.sumUp(four);
    sums.storeColumns();
    square_sums.storeColumns();
    __syncthreads();
    place.run = run;
    if (place.warp < FIRST_ROW_WARP) {
        sums.lookUp();
        square_sums.lookUp();
    } else {
        sums.publishRows();
        square_sums.publishRows();
        if constexpr (BOTH)
            lookLeft(place, sums.left(), square_sums.left());
        else if constexpr (EXISTS<SumTable>)
            lookLeft(place, sums.left());
        else
            lookLeft(place, square_sums.left());
        syncRowWarps<Tile::THREADS - 32 * FIRST_ROW_WARP>();
        sums.lookForCorner();
        square_sums.lookForCorner();
    }
    __syncthreads();
    sums.putTogether();
    square_sums.putTogether();
    // The last tile has waited for words of all the others, directly or through others, and each of them carries the number.
    if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) {
        job.state->run = place.run;
        job.state->before = before + (job.writing ? gridDim.x : 0);
    }
    // A warp that has not put anything together, so that it asks meanwhile.
    if (threadIdx.x == Tile::THREADS - 32 && job.writing && blockIdx.x >= job.writing)
        awaitWritten(job.state, before + blockIdx.x - job.writing + 1);
    auto sum_writer = sums.writer();
    __syncthreads();
    const unsigned there = job.rows - min(job.rows, y);
    sum_writer.write(four, there, whole, job);
    square_sums.writer().write(four, there, whole, job);
    if (threadIdx.x == 0 && job.writing) // nobody relies on what is written, only on how much
        asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(&job.state->written) : "memory");
}

// ---- Host side ------------------------------------------------------------------------------------------------------

template<class T>
constexpr size_t accBytes() {
    if constexpr (EXISTS<T>)
        return sizeof(typename T::Acc);
    else
        return 0;
}

// The chains of a table, in words of a multiple of 16 bytes each.
template<class Tile, class T>
struct Chains {
    static constexpr size_t ACC_BYTES = sizeof(typename T::Acc);
    size_t bands, strips;

    size_t columns() const { return bands * strips * Tile::WIDTH * sizeof(typename T::Column) / 4; }
    size_t columnPrefixes() const {
        return cusi::divUp(bands, size_t(Tile::LEAST_GROUP)) * strips * Tile::WIDTH *
               sizeof(ColumnPrefix<typename T::Acc>) / 4;
    }
    size_t rows() const { return bands * strips * Tile::HEIGHT * sizeof(typename T::Row) / 4; }
    size_t rowPrefixes() const { return cusi::divUp(strips, size_t(tuning::GROUP)) * bands * Tile::HEIGHT * ACC_BYTES / 4; }
    size_t corners() const { return cusi::divUp(bands * strips, size_t{2}) * 2 * ACC_BYTES / 4; }
    size_t words() const { return columns() + columnPrefixes() + rows() + rowPrefixes() + corners(); }

    void place(T &table, Word *&words) const {
        table.columns = words;
        table.column_prefixes = table.columns + columns();
        table.rows = table.column_prefixes + columnPrefixes();
        table.row_prefixes = table.rows + rows();
        table.corners = table.row_prefixes + rowPrefixes();
        words = table.corners + corners();
    }
};
template<class Tile>
struct Chains<Tile, NoTable> {
    size_t bands, strips;
    size_t words() const { return 0; }
    void place(NoTable &, Word *&) const {}
};

// The working memory of an image, cut into slabs of equal height that keep to tuning::SLAB_BYTES, if they can.
template<class Tile, class SumTable, class SquareTable>
struct Layout {
    size_t bands, strips, slab_bands;

    Layout(size_t rows, size_t cols)
        : bands(cusi::divUp(rows, size_t(Tile::HEIGHT))), strips(cusi::divUp(cols, size_t(Tile::WIDTH))) {
        constexpr size_t TOGETHER = Tile::LEAST_GROUP; // bands
        const size_t slabs = cusi::divUp(
            bands, std::clamp<size_t>(tuning::SLAB_BYTES / bytes(TOGETHER) * TOGETHER, 1, SLAB_ROWS / Tile::HEIGHT));
        slab_bands = cusi::divUp(bands, slabs);
    }
    size_t bytes(size_t some_bands) const {
        return (Chains<Tile, SumTable>{some_bands, strips}.words() +
                Chains<Tile, SquareTable>{some_bands, strips}.words()) *
               sizeof(Word);
    }
    // For every image up to this size.
    size_t most() const { return sizeof(State) + std::min(bytes(bands), std::max(tuning::SLAB_BYTES, bytes(1))); }
};

template<class T>
void advance(T &table, unsigned rows) {
    if constexpr (EXISTS<T>)
        table.out = cusi::rowOf(table.out, table.step, rows);
}

unsigned powerOfTwo(size_t at_least) {
    unsigned n = 1;
    while (n < at_least)
        n *= 2;
    return n;
}

template<class Tile, class Pixel, class SumTable, class SquareTable>
cusStatus integral(const char *function, const IntegralJob &in, int multiprocessors, cudaStream_t stream) {
    const cusMat &src = *in.src;
    const unsigned rows = static_cast<unsigned>(src.rows);
    Job job = {};
    job.step = src.rows > 1 ? src.step : 0;
    job.cols = static_cast<unsigned>(src.cols);
    job.state = static_cast<State *>(in.workspace);
    job.aligned4 = cusi::isAligned(src, 4 * sizeof(Pixel));
    job.aligned16 = cusi::isAligned(src, 16);
    job.tables_aligned = (!in.sum || cusi::isAligned(*in.sum, 16)) && (!in.sqsum || cusi::isAligned(*in.sqsum, 16));
    // Sums of floats must not depend on which tables are asked for, so neither slabs nor groups may.
    constexpr bool FLOATS = std::is_same_v<Pixel, float>;
    using First = std::conditional_t<FLOATS, Floats64, SumTable>;
    using Second = std::conditional_t<FLOATS, Floats64, SquareTable>;
    const Layout<Tile, First, Second> layout(rows, job.cols);
    const size_t band_bytes =
        static_cast<size_t>(job.cols) * Tile::HEIGHT * (sizeof(Pixel) + accBytes<First>() + accBytes<Second>());
    job.column_group = powerOfTwo(std::clamp(cusi::divUp(tuning::GROUP_BYTES, band_bytes), size_t(Tile::LEAST_GROUP),
                                             size_t(tuning::MAX_COLUMN_GROUP)));
    job.strips = static_cast<unsigned>(layout.strips);
    const unsigned slab = static_cast<unsigned>(std::min<size_t>(rows, layout.slab_bands * Tile::HEIGHT));
    const unsigned at_once = static_cast<unsigned>(multiprocessors) * Tile::BLOCKS;
    SumTable sum;
    SquareTable squares;
    Word *next = reinterpret_cast<Word *>(job.state + 1);
    const auto place = [&](auto &table, const cusMat *mat) {
        using T = std::remove_reference_t<decltype(table)>;
        Chains<Tile, T>{layout.slab_bands, layout.strips}.place(table, next);
        if constexpr (EXISTS<T>) {
            table.out = static_cast<typename T::Entry *>(mat->data);
            table.step = mat->step;
        }
    };
    place(sum, in.sum);
    place(squares, in.sqsum);
    if (!in.workspace_is_ready)
        CUSI_CUDA(function,
                  cudaMemsetAsync(job.state, 0,
                                  static_cast<size_t>(reinterpret_cast<char *>(next) - reinterpret_cast<char *>(job.state)),
                                  stream));
    const auto kernel = integralKernel<Pixel, SumTable, SquareTable, Tile>;
    constexpr int KEPT = EXISTS<SquareTable> ? 4 * Tile::THREADS * RowScan<Pixel, true, Tile::ROWS>::KEPT : 0; // bytes
    if (KEPT > 0) // together with what it has besides, more than a kernel gets unasked
        CUSI_CUDA(function, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, KEPT));
    for (unsigned y = 0; y < rows; y += slab) {
        job.src = static_cast<const unsigned char *>(src.data) + y * src.step;
        job.rows = std::min(slab, rows - y);
        job.bands = cusi::divUp(job.rows, unsigned(Tile::HEIGHT));
        job.first = y == 0;
        const bool several = Tile::PACE > 0 && job.bands * job.strips > at_once;
        job.writing =
            several ? cusi::divUp(static_cast<unsigned>(multiprocessors) * tuning::WRITING, tuning::WRITING_OF) : 0;
        job.pace = cusi::divUp(unsigned(Tile::PACE), static_cast<unsigned>(multiprocessors));
        job.at_once = several ? at_once : 0;
        CUS_TRY(cusi::launchOverlapped(function, kernel, job.bands * job.strips, Tile::THREADS, KEPT, stream, job, sum,
                                       squares));
        advance(sum, slab);
        advance(squares, slab);
    }
    return CUS_OK;
}

template<class Pixel, class SumTable, class SquareTable>
cusStatus integral(const char *function, const IntegralJob &job, cudaStream_t stream) {
    int multiprocessors = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&multiprocessors));
    const auto with = [&](auto shape) {
        return integral<decltype(shape), Pixel, SumTable, SquareTable>(function, job, multiprocessors, stream);
    };
    const auto atOnce = [&](auto shape) { // all tiles find place
        using Tile = decltype(shape);
        return static_cast<size_t>(cusi::divUp(job.src->rows, Tile::HEIGHT)) * cusi::divUp(job.src->cols, Tile::WIDTH) <=
               static_cast<size_t>(multiprocessors) * Tile::BLOCKS;
    };
    if constexpr (std::is_same_v<Pixel, float>)
        return with(tuning::Float());
    else if constexpr (!std::is_same_v<SumTable, Sums32> || EXISTS<SquareTable>)
        return atOnce(tuning::WideFew())     ? with(tuning::WideFew())
               : atOnce(tuning::WideSmall()) ? with(tuning::WideSmall())
                                             : with(tuning::Wide());
    else
        return atOnce(tuning::Small())   ? with(tuning::Small())
               : atOnce(tuning::Large()) ? with(tuning::Medium())
                                         : with(tuning::Large());
}

// ---- Rectangles -----------------------------------------------------------------------------------------------------

template<bool IS_64F>
__global__ void boxSumsKernel(const char *table, size_t step, int rows, int cols, const char *boxes, size_t boxes_step,
                              char *sums, size_t sums_step, unsigned count) {
    const unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= count)
        return;
    const int *box = reinterpret_cast<const int *>(boxes + k * boxes_step);
    const int x = box[0], y = box[1], width = box[2], height = box[3];
    double sum = nan("");
    if (x >= 0 && y >= 0 && width >= 0 && height >= 0 && static_cast<long long>(x) + width <= cols &&
        static_cast<long long>(y) + height <= rows)
        sum = IS_64F ? cusBoxSum64F(table, step, x, y, width, height) : cusBoxSum32S(table, step, x, y, width, height);
    *reinterpret_cast<double *>(sums + k * sums_step) = sum;
}

} // namespace

cusStatus integral_cuda_workspace(const char *, int rows, int cols, size_t *bytes) {
    const size_t height = static_cast<size_t>(rows), width = static_cast<size_t>(cols);
    *bytes = std::max({Layout<tuning::Small, Sums32, NoTable>(height, width).most(),
                       Layout<tuning::Medium, Sums32, NoTable>(height, width).most(),
                       Layout<tuning::Large, Sums32, NoTable>(height, width).most(),
                       Layout<tuning::WideFew, Sums64, Squares64>(height, width).most(),
                       Layout<tuning::WideSmall, Sums64, Squares64>(height, width).most(),
                       Layout<tuning::Wide, Sums64, Squares64>(height, width).most(),
                       Layout<tuning::Float, Floats64, Floats64>(height, width).most()});
    return CUS_OK;
}

cusStatus integral_cuda_allocate(const char *function, size_t bytes, void **data, cusStream stream) {
    const cudaError_t error = cudaMallocAsync(data, bytes, stream);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: no device memory for %zu bytes of workspace", function, bytes);
    }
    return cusi::cudaStatus(error, function, "workspace");
}

cusStatus integral_cuda_free(const char *function, void *data, cusStream stream) {
    return cusi::cudaStatus(cudaFreeAsync(data, stream), function, "workspace");
}

cusStatus integral_cuda_run(const char *function, const IntegralJob *job, cusStream stream) {
    if (job->src->type != CUS_8UC1)
        return !job->sum     ? integral<float, NoTable, Floats64>(function, *job, stream)
               : !job->sqsum ? integral<float, Floats64, NoTable>(function, *job, stream)
                             : integral<float, Floats64, Floats64>(function, *job, stream);
    if (!job->sum)
        return integral<unsigned char, NoTable, Squares64>(function, *job, stream);
    if (job->sum->type == CUS_32SC1)
        return job->sqsum ? integral<unsigned char, Sums32, Squares64>(function, *job, stream)
                          : integral<unsigned char, Sums32, NoTable>(function, *job, stream);
    return job->sqsum ? integral<unsigned char, Sums64, Squares64>(function, *job, stream)
                      : integral<unsigned char, Sums64, NoTable>(function, *job, stream);
}

cusStatus integral_cuda_boxSums(const cusMat *table, const cusMat *boxes, cusMat *sums, cusStream stream) {
    constexpr unsigned THREADS = 256;
    const unsigned count = static_cast<unsigned>(boxes->rows);
    const auto kernel = table->type == CUS_64FC1 ? boxSumsKernel<true> : boxSumsKernel<false>;
    return cusi::launch("cusBoxSums", kernel, cusi::divUp(count, THREADS), THREADS, 0, stream,
                        static_cast<const char *>(table->data), table->step, table->rows - 1, table->cols - 1,
                        static_cast<const char *>(boxes->data), boxes->step, static_cast<char *>(sums->data), sums->step,
                        count);
}
