// Integral images on the GPU in one pass: the source is read once and each table written once.
//
// The image is cut into tiles. A block copies one tile into shared memory, each of its warps ROWS rows of 128 columns, a lane four
// neighbouring columns. The table's entry at row y and column x of a tile is
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
// depends on timing, sums of floats come out the same in every run, and all a tile needs is loaded at once.
//
// Blocks take the tiles band by band, so a block waits only for blocks with smaller numbers. Like CUB's, the look-back relies on
// blocks being started in the order of blockIdx. Every published word carries the number of the run beside 32 bits of a sum: it is
// complete once it is seen, needs no fence, and nothing is cleared between runs.
#include "cuda.cuh"
#include "integral_backend.h"

#include <cuda_pipeline.h>

#include <algorithm>
#include <cstring>

namespace {

constexpr unsigned FULL_WARP = 0xffffffffu;
constexpr int STRIP = 128; // columns of a warp: 32 lanes of four

// How a tile is spread over the warps of a block.
template<int ACROSS_, int DOWN_, int ROWS_, int BLOCKS_>
struct Shape {
    static constexpr int ACROSS = ACROSS_, DOWN = DOWN_; // warps beside and below each other
    static constexpr int ROWS = ROWS_;                   // of a warp
    static constexpr int BLOCKS = BLOCKS_;               // on a multiprocessor
    static constexpr int WIDTH = ACROSS * STRIP, HEIGHT = DOWN * ROWS;
    static constexpr int WARPS = ACROSS * DOWN, THREADS = 32 * WARPS;
    static_assert(HEIGHT % 32 == 0 && HEIGHT <= 256, "a lane takes whole rows; column sums of bytes fit 16 bits");
    static_assert(ROWS % 4 == 0 && ROWS <= 32 && ROWS % (HEIGHT / 32) == 0, "");
    static_assert(32 * (WARPS - ACROSS) >= HEIGHT, "a thread for each row besides those for the columns");
};

// Milliseconds on an H200, stores of 16 bytes, 8-bit sums of 7680x4320 and 16384x16384:
//   tiles of 512 x 64, 8 warps, 3 blocks   0.0529  0.394   (chosen)
//     4 blocks                             0.0552  0.406
//     5 blocks                             0.0768  0.544   (with groups of half the height)
//   256 x 128, 8 warps, 3 blocks           0.0545  0.389
//   512 x 64, 16 warps, 2 blocks           0.0560  0.412   (with groups of half the height)
//   256 x 64, 8 warps, 4 blocks            0.0539  0.420
//     5 blocks                             0.0607  0.447
//   512 x 32, 8 warps, 5 blocks            0.0839  0.562   (with groups of half the height)
// The chosen one with groups of half the height: 0.0545 and 0.398. With four blocks that did not wait for any sums of others
// (and wrote nonsense): 0.0525 and 0.388. Tiles that are copied and stored but not summed up: 0.0445 and 0.335 with up to 48 K
// pixels on their way in a multiprocessor, 0.048 and 0.354 with 96 K.
// 1920x1080: 128 x 64, 8 warps, 4 blocks 0.0082; and with groups of half the height 0.0087, with 16 warps 0.0088, with 4 warps
// 0.0096, 128 x 128 0.0097, 256 x 64 with 16 warps 0.0103, 256 x 32 0.0118.
// Sums with squares, 7680x4320: 256 x 64, 8 warps, 3 blocks 0.156, 2 blocks 0.158, 16 warps 0.167; 128 x 64 0.171; 256 x 32 0.181.
// 64-bit sums alone: 3 blocks 0.100, 2 blocks 0.107. Floats with squares: 128 x 32, 3 blocks 0.332.
namespace tuning {
using Large = Shape<4, 2, 32, 3>; // 32-bit sums alone
using Small = Shape<1, 8, 8, 4>;  // the same of small images, so that all multiprocessors have tiles
using Wide = Shape<2, 4, 16, 3>;  // bytes to 64-bit tables
using Float = Shape<1, 8, 4, 3>;
constexpr size_t SMALL_TILES = 300; // with fewer large tiles than that, small ones
// Groups of the chain of columns: so high that memory takes longer for one than its prefix takes from tile to tile.
constexpr size_t GROUP_BYTES = 16 << 20;
constexpr unsigned MAX_COLUMN_GROUP = 32;
constexpr unsigned GROUP = 32; // of the chains of rows and corners
// Tiles whose sums a thread loads at once.
constexpr unsigned COLUMNS_AHEAD = 2, ROWS_AHEAD = 4, CORNERS_AHEAD = 2;
// Of working memory; taller images are done in slabs, one kernel each. 16384x16384 is one.
constexpr size_t SLAB_BYTES = 48 << 20;
} // namespace tuning

using Word = unsigned long long;

// At the beginning of the working memory, all of which is zero before the first run. Behind it, the words of the chains.
struct alignas(128) State {
    // The number of the last run. 0 is never used again: only words from exactly 2^32 - 1 runs ago could pass for those of now.
    uint32_t run;
};

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
};

// One table under construction. Acc: in what it is summed up.
template<class Acc_, class Entry_>
struct Table {
    using Acc = Acc_;
    using Entry = Entry_;
    Word *columns; // [band][column]
    Word *rows;    // [strip][row]
    Word *corners; // [strip][band]
    Entry *out;    // table row above the slab's first
    size_t step;
};
struct NoTable {};
template<class T>
constexpr bool EXISTS = !std::is_same_v<T, NoTable>;

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
            __pipeline_memcpy_async(reinterpret_cast<char *>(to + 32 * k) + 16 * lane, row, 16);
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
    using Total = Sum; // of a row
    Sum sums[ROWS];

    __device__ void scan(const Rows<Pixel> &four, Total *totals, unsigned lane) {
        Sum own[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; ++k)
            sums[k] = own[k] = four[k].template total<SQUARES>();
        warpScan(sums, lane);
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            if (lane == 31)
                totals[k] = sums[k];
            sums[k] = laneBefore(sums[k], own[k], lane);
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
    uint32_t pairs[ROWS / 2];

    __device__ void scan(const Rows<unsigned char> &four, Total *totals, unsigned lane) {
        uint32_t own[ROWS / 2];
#pragma unroll
        for (int k = 0; k < ROWS / 2; ++k)
            pairs[k] = own[k] = four[2 * k].template total<false>() + (four[2 * k + 1].template total<false>() << 16);
        warpScan(pairs, lane);
#pragma unroll
        for (int k = 0; k < ROWS / 2; ++k) {
            if (lane == 31) {
                totals[2 * k] = static_cast<Total>(pairs[k]);
                totals[2 * k + 1] = static_cast<Total>(pairs[k] >> 16);
            }
            pairs[k] -= own[k];
        }
    }
    __device__ uint32_t before(int k) const {
        return k % 2 ? pairs[k / 2] >> 16 : pairs[k / 2] & 0xffff;
    }
};

template<class T>
struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Vector4 {
    T v[4];
};

// ---- Look-back ------------------------------------------------------------------------------------------------------

// N neighbouring sums as they are published: words of 32 bits of a sum each, with the number of the run in the upper half.
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
            w[i] = static_cast<Word>(run) << 32 | halves[i];
        if constexpr (WORDS == 1)
            asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(w[0]) : "memory");
        else
#pragma unroll
            for (unsigned i = 0; i < WORDS; i += 2)
                asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(at + i), "l"(w[i]), "l"(w[i + 1])
                             : "memory");
    }
    __device__ void load(const Word *at) {
        if constexpr (WORDS == 1)
            asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(words[0]) : "l"(at) : "memory");
        else
#pragma unroll
            for (unsigned i = 0; i < WORDS; i += 2)
                asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                             : "=l"(words[i]), "=l"(words[i + 1])
                             : "l"(at + i)
                             : "memory");
    }
    __device__ bool isOf(uint32_t run) const {
        bool all = true;
#pragma unroll
        for (unsigned i = 0; i < WORDS; ++i)
            all &= static_cast<uint32_t>(words[i] >> 32) == run;
        return all;
    }
    __device__ void addTo(T (&sums)[N]) const {
        uint32_t halves[WORDS];
#pragma unroll
        for (unsigned i = 0; i < WORDS; ++i)
            halves[i] = static_cast<uint32_t>(words[i]);
        T v[N];
        memcpy(v, halves, sizeof v);
#pragma unroll
        for (unsigned i = 0; i < N; ++i)
            sums[i] += v[i];
    }
};

// The sum of every `pace`-th of what tiles first .. end - 1 have published; the constructor has loads on their way, wait()
// waits.
template<class T, unsigned N, unsigned AHEAD>
struct LookBack {
    using Sums = Published<T, N>;
    const Word *at;
    size_t stride;
    unsigned count;
    Sums ahead[AHEAD];

    // words: of tile 0; stride: in sums, from tile to tile
    __device__ LookBack(const Word *words, size_t stride_, unsigned first, unsigned end, unsigned pace)
        : at(words + first * stride_ * (sizeof(T) / 4)), stride(stride_ * pace * (sizeof(T) / 4)),
          count(first < end ? (end - first + pace - 1) / pace : 0) {
        load();
    }
    __device__ void load() {
#pragma unroll
        for (unsigned k = 0; k < AHEAD; ++k)
            if (k < count)
                ahead[k].load(at + k * stride);
    }
    __device__ void wait(T (&sums)[N], uint32_t run) {
#pragma unroll
        for (unsigned i = 0; i < N; ++i)
            sums[i] = 0;
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

// The tile of a chain that a look-back begins with: the last one of the group before, or the first of all.
__device__ inline unsigned chainStart(unsigned tile, unsigned group) {
    const unsigned first = tile & ~(group - 1);
    return first ? first - 1 : 0;
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

// What a block keeps of one table. Sums of columns are prefixed over the 128 columns of a warp: in place of column 0, which has
// none before it, stands the sum of all 128.
template<class Pixel, bool SQUARES, class Acc, class Tile>
struct Shared {
    using Sum = typename Four<Pixel>::Sum;
    static constexpr unsigned ROW_WARPS = Tile::WARPS - Tile::ACROSS;
    static constexpr unsigned PARTS = 32 * ROW_WARPS / Tile::HEIGHT; // threads that share the look-back of a row

    Vector4<Sum> columns[Tile::DOWN][Tile::ACROSS][32];                                               // of each warp
    alignas(16) typename RowScan<Pixel, SQUARES, Tile::ROWS>::Total rows[Tile::ACROSS][Tile::HEIGHT]; // of each warp
    Vector4<Acc> above[Tile::ACROSS][32];               // everything above the tile
    Acc left[PARTS][Tile::HEIGHT];                      // everything left of the tile, in parts
    Vector4<Acc> lefts[Tile::ACROSS][Tile::HEIGHT / 4]; // everything left of the warp, by row
    Acc corner;                                         // everything above and left of the tile
    Acc corners[Tile::ACROSS][Tile::DOWN];              // what the warps' corners have beyond that

    __device__ void sumUp(const Rows<Pixel> &four, RowScan<Pixel, SQUARES, Tile::ROWS> &scan, const Place &place) {
        ColumnSums<Pixel, SQUARES> sums;
#pragma unroll
        for (int k = 0; k < Tile::ROWS; ++k)
            sums.add(four[k]);
        const Sum two = sums[0] + sums[1], three = two + sums[2], all = three + sums[3];
        Sum upTo[1] = {all};
        warpScan(upTo, place.lane);
        const Sum before = laneBefore(upTo[0], all, place.lane), total = __shfl_sync(FULL_WARP, upTo[0], 31);
        columns[place.down][place.across][place.lane] = {
            {place.lane ? before : total, before + sums[0], before + two, before + three}};
        scan.scan(four, &rows[place.across][place.down * Tile::ROWS], place.lane);
    }
    __device__ Sum rowSum(unsigned y) const {
        Sum sum = rows[0][y];
#pragma unroll
        for (int w = 1; w < Tile::ACROSS; ++w)
            sum += rows[w][y];
        return sum;
    }
};

template<class Acc>
__device__ inline Word *wordsOf(Word *words, size_t index) {
    return words + index * (sizeof(Acc) / 4);
}

// Publishes the sums of 128 of the tile's columns and finds out what is above it.
template<class Tile, class Pixel, bool SQUARES, class Acc, class Entry>
__device__ inline void lookUp(const Table<Acc, Entry> &table, const Job &job, Shared<Pixel, SQUARES, Acc, Tile> &shared,
                              const Place &place) {
    using Sums = Published<Acc, 4>;
    const unsigned padded = job.strips * Tile::WIDTH;
    Word *const words = wordsOf<Acc>(table.columns, place.strip * Tile::WIDTH + place.warp * STRIP + 4 * place.lane);
    Word *const mine = words + place.band * static_cast<size_t>(padded) * (sizeof(Acc) / 4);
    const bool ends = endsGroup(place.band, job.column_group);
    Acc own[4] = {};
#pragma unroll
    for (unsigned w = 0; w < Tile::DOWN; ++w) {
        const auto some = shared.columns[w][place.warp][place.lane];
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            own[i] += static_cast<Acc>(some.v[i]);
    }
    if (!ends)
        Sums::store(mine, own, place.run);
    LookBack<Acc, 4, tuning::COLUMNS_AHEAD> chain(words, padded, chainStart(place.band, job.column_group), place.band, 1);
    Acc above[4];
    chain.wait(above, place.run);
    shared.above[place.warp][place.lane] = {{above[0], above[1], above[2], above[3]}};
    if (ends) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            own[i] += above[i];
        Sums::store(mine, own, place.run);
    }
}

// Publishes the sums of the tile's rows and finds out what is left of it, in parts.
template<class Tile, class Pixel, bool SQUARES, class Acc, class Entry>
__device__ inline void lookLeft(const Table<Acc, Entry> &table, const Job &job, Shared<Pixel, SQUARES, Acc, Tile> &shared,
                                const Place &place) {
    const unsigned thread = threadIdx.x - 32 * Tile::ACROSS, row = thread % Tile::HEIGHT, part = thread / Tile::HEIGHT;
    if (part >= shared.PARTS)
        return;
    const unsigned padded = job.bands * Tile::HEIGHT;
    Word *const words = wordsOf<Acc>(table.rows, place.band * Tile::HEIGHT + row);
    if (part == 0 && !endsGroup(place.strip, tuning::GROUP)) {
        const Acc own[1] = {static_cast<Acc>(shared.rowSum(row))};
        Published<Acc, 1>::store(wordsOf<Acc>(words, place.strip * static_cast<size_t>(padded)), own, place.run);
    }
    LookBack<Acc, 1, tuning::ROWS_AHEAD> chain(words, padded, chainStart(place.strip, tuning::GROUP) + part, place.strip,
                                               shared.PARTS);
    Acc left[1];
    chain.wait(left, place.run);
    shared.left[part][row] = left[0];
}

// Leaves what each of the tile's warps needs: one warp for those below each other. The first one also publishes what other
// tiles need of that, and finds out what is above and left of the tile.
template<class Tile, class Pixel, bool SQUARES, class Acc, class Entry>
__device__ inline void passOn(const Table<Acc, Entry> &table, const Job &job, Shared<Pixel, SQUARES, Acc, Tile> &shared,
                              const Place &place) {
    constexpr unsigned EACH = Tile::HEIGHT / 32; // rows of a lane
    const unsigned y = place.lane * EACH;
    Acc left[EACH], sum = 0;
#pragma unroll
    for (unsigned j = 0; j < EACH; ++j) {
        left[j] = shared.left[0][y + j];
#pragma unroll
        for (unsigned p = 1; p < shared.PARTS; ++p)
            left[j] += shared.left[p][y + j];
#pragma unroll
        for (int w = 0; w < Tile::ACROSS - 1; ++w)
            if (w < static_cast<int>(place.warp))
                left[j] += static_cast<Acc>(shared.rows[w][y + j]);
        shared.lefts[place.warp][(y + j) / 4].v[(y + j) % 4] = left[j];
        sum += left[j];
    }
    Acc upTo[1] = {sum};
    warpScan(upTo, place.lane);
    Acc before = laneBefore(upTo[0], sum, place.lane);
#pragma unroll
    for (int w = 0; w < Tile::ACROSS - 1; ++w)
        if (w < static_cast<int>(place.warp))
            before += shared.above[w][0].v[0];
    if (y % Tile::ROWS == 0)
        shared.corners[place.warp][y / Tile::ROWS] = before;
    if (place.warp > 0)
        return;
    const bool ends = endsGroup(place.band, tuning::GROUP);
    Word *const corners = wordsOf<Acc>(table.corners, static_cast<size_t>(place.strip) * job.bands);
    if (place.lane == 31 && !ends)
        Published<Acc, 1>::store(wordsOf<Acc>(corners, place.band), upTo, place.run);
    if (endsGroup(place.strip, tuning::GROUP)) {
        const size_t padded = static_cast<size_t>(job.bands) * Tile::HEIGHT;
        Word *const words = wordsOf<Acc>(table.rows, place.strip * padded + place.band * Tile::HEIGHT);
#pragma unroll
        for (unsigned j = 0; j < EACH; ++j) {
            const Acc prefix[1] = {left[j] + static_cast<Acc>(shared.rowSum(y + j))};
            Published<Acc, 1>::store(wordsOf<Acc>(words, y + j), prefix, place.run);
        }
    }
    LookBack<Acc, 1, tuning::CORNERS_AHEAD> chain(corners, 1, chainStart(place.band, tuning::GROUP) + place.lane,
                                                  place.band, 32);
    Acc corner[1];
    chain.wait(corner, place.run);
    corner[0] = warpSum(corner[0]);
    if (place.lane == 0)
        shared.corner = corner[0];
    if (place.lane == 31 && ends) {
        const Acc prefix[1] = {corner[0] + upTo[0]};
        Published<Acc, 1>::store(wordsOf<Acc>(corners, place.band), prefix, place.run);
    }
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

template<class T>
__device__ inline void store16(T *p, const T *v) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "");
    if constexpr (sizeof(T) == 4)
        __stcs(reinterpret_cast<uint4 *>(p), make_uint4(v[0], v[1], v[2], v[3]));
    else
        __stcs(reinterpret_cast<double2 *>(p), make_double2(v[0], v[1]));
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
template<class Pixel, bool SQUARES, class Acc, class Entry, class Tile>
struct Writer {
    using Sum = typename Four<Pixel>::Sum;
    static constexpr int ROWS = Tile::ROWS;
    const RowScan<Pixel, SQUARES, ROWS> &scan;
    const Shared<Pixel, SQUARES, Acc, Tile> &shared;
    const Place &place;
    Acc entries[4];
    Acc end;    // the entry after the warp's columns
    Entry *row; // the row above
    size_t step;
    unsigned x, cols;

    // What does not depend on the corner.
    __device__ Writer(const Table<Acc, Entry> &table, const Job &job, const Shared<Pixel, SQUARES, Acc, Tile> &shared_,
                      const RowScan<Pixel, SQUARES, ROWS> &scan_, const Place &place_)
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

// A block's work on one table.
template<class Pixel, bool SQUARES, class T, class Tile>
struct Work {
    using Acc = typename T::Acc;
    using Memory = Shared<Pixel, SQUARES, Acc, Tile>;
    Memory &shared;
    const T &table;
    const Job &job;
    const Place &place;
    RowScan<Pixel, SQUARES, Tile::ROWS> scan;

    __device__ Work(Memory &s, const T &t, const Job &j, const Place &p) : shared(s), table(t), job(j), place(p) {}
    __device__ void sumUp(const Rows<Pixel> &four) { shared.sumUp(four, scan, place); }
    __device__ void lookBack() {
        if (place.warp < Tile::ACROSS)
            lookUp(table, job, shared, place);
        else
            lookLeft(table, job, shared, place);
    }
    __device__ void finishLookBack() {
        if (place.warp < Tile::ACROSS)
            passOn(table, job, shared, place);
    }
    __device__ Writer<Pixel, SQUARES, Acc, typename T::Entry, Tile> writer() const {
        return {table, job, shared, scan, place};
    }
};
template<class Pixel, bool SQUARES, class Tile>
struct Work<Pixel, SQUARES, NoTable, Tile> {
    struct Memory {};
    struct Nothing {
        __device__ void write(const Rows<Pixel> &, unsigned, bool, const Job &) {}
    };
    __device__ Work(Memory &, const NoTable &, const Job &, const Place &) {}
    __device__ void sumUp(const Rows<Pixel> &) {}
    __device__ void lookBack() {}
    __device__ void finishLookBack() {}
    __device__ Nothing writer() const { return {}; }
};

template<class Pixel, class SumTable, class SquareTable, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS)
    integralKernel(const Job job, const SumTable sum, const SquareTable squares) {
    using Sums = Work<Pixel, false, SumTable, Tile>;
    using Squares = Work<Pixel, true, SquareTable, Tile>;
    __shared__ alignas(16) Four<Pixel> shared_pixels[Tile::WARPS * Tile::ROWS][32];
    __shared__ typename Sums::Memory sum_shared;
    __shared__ typename Squares::Memory squares_shared;
    __shared__ uint32_t run;
    cusi::startInOrder();
    if (threadIdx.x == 0)
        run = max(__ldcg(&job.state->run) + 1, 1u);
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
    loadRows<Tile::ROWS>(pixels, job, x, y, place.lane, whole && job.aligned16);
    __pipeline_wait_prior(0);
    __syncwarp();
    const Rows<Pixel> four = {pixels + place.lane};
    Sums sums(sum_shared, sum, job, place);
    Squares square_sums(squares_shared, squares, job, place);
    sums.sumUp(four);
    square_sums.sumUp(four);
    __syncthreads();
    place.run = run;
    sums.lookBack();
    square_sums.lookBack();
    __syncthreads();
    sums.finishLookBack();
    square_sums.finishLookBack();
    // The last tile has waited for words of all the others, directly or through others, and each of them carries the number.
    if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1)
        job.state->run = place.run;
    auto sum_writer = sums.writer();
    __syncthreads();
    const unsigned there = job.rows - min(job.rows, y);
    sum_writer.write(four, there, whole, job);
    square_sums.writer().write(four, there, whole, job);
}

// ---- Host side ------------------------------------------------------------------------------------------------------

// Words that a sum is published in.
template<class T>
constexpr size_t WORDS = 0;
template<class Acc, class Entry>
constexpr size_t WORDS<Table<Acc, Entry>> = sizeof(Acc) / 4;

// The chains of tables with `words` words a sum in all.
template<class Tile>
struct Chains {
    size_t bands, strips, words;

    Chains(size_t rows, size_t cols, size_t words_)
        : bands(cusi::divUp(rows, size_t(Tile::HEIGHT))), strips(cusi::divUp(cols, size_t(Tile::WIDTH))), words(words_) {}
    size_t columns() const { return bands * strips * Tile::WIDTH * words; }
    size_t rows() const { return bands * strips * Tile::HEIGHT * words; }
    size_t corners() const { return cusi::divUp(bands * strips, size_t{2}) * 2 * words; } // 16-byte aligned
    size_t bytes() const { return (columns() + rows() + corners()) * sizeof(Word); }

    // Bands of a slab that keeps to tuning::SLAB_BYTES, if it can.
    size_t slabBands() const {
        const size_t band_bytes = strips * (Tile::WIDTH + Tile::HEIGHT + 2) * words * sizeof(Word);
        const size_t slabs = cusi::divUp(bands, std::max<size_t>(tuning::SLAB_BYTES / band_bytes, 1));
        return cusi::divUp(bands, slabs); // of equal height
    }
};

// Of working memory for every image up to this size.
template<class Tile>
size_t bytesUpTo(size_t rows, size_t cols, size_t words) {
    const Chains<Tile> all(rows, cols, words), band(1, cols, words);
    return sizeof(State) + std::min(all.bytes(), std::max(tuning::SLAB_BYTES, band.bytes()));
}

template<class Tile, class T>
void place(T &table, Word *&words, const Job &job, const cusMat *mat) {
    if constexpr (EXISTS<T>) {
        const Chains<Tile> chains(job.rows, job.cols, WORDS<T>);
        table.columns = words;
        table.rows = table.columns + chains.columns();
        table.corners = table.rows + chains.rows();
        table.out = static_cast<typename T::Entry *>(mat->data);
        table.step = mat->step;
        words = table.corners + chains.corners();
    }
}

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
cusStatus integral(const char *function, const IntegralJob &in, cudaStream_t stream) {
    const cusMat &src = *in.src;
    const unsigned rows = static_cast<unsigned>(src.rows);
    // Sums of floats must not depend on which tables are asked for.
    const size_t words =
        std::is_same_v<Pixel, float> ? 2 * WORDS<Table<double, double>> : WORDS<SumTable> + WORDS<SquareTable>;
    Job job = {};
    job.step = src.rows > 1 ? src.step : 0;
    job.cols = static_cast<unsigned>(src.cols);
    job.strips = cusi::divUp(job.cols, unsigned(Tile::WIDTH));
    job.state = static_cast<State *>(in.workspace);
    job.aligned4 = cusi::isAligned(src, 4 * sizeof(Pixel));
    job.aligned16 = cusi::isAligned(src, 16);
    job.tables_aligned = (!in.sum || cusi::isAligned(*in.sum, 16)) && (!in.sqsum || cusi::isAligned(*in.sqsum, 16));
    const size_t band_bytes = static_cast<size_t>(job.cols) * Tile::HEIGHT * (sizeof(Pixel) + 4 * words);
    job.column_group = powerOfTwo(std::min(cusi::divUp(tuning::GROUP_BYTES, band_bytes), size_t(tuning::MAX_COLUMN_GROUP)));
    const unsigned slab =
        std::min(rows, static_cast<unsigned>(Chains<Tile>(rows, job.cols, words).slabBands() * Tile::HEIGHT));
    SumTable sum;
    SquareTable squares;
    job.rows = slab;
    Word *next = reinterpret_cast<Word *>(job.state + 1);
    place<Tile>(sum, next, job, in.sum);
    place<Tile>(squares, next, job, in.sqsum);
    if (!in.workspace_is_ready)
        CUSI_CUDA(function,
                  cudaMemsetAsync(job.state, 0,
                                  static_cast<size_t>(reinterpret_cast<char *>(next) - reinterpret_cast<char *>(job.state)),
                                  stream));
    for (unsigned y = 0; y < rows; y += slab) {
        job.src = static_cast<const unsigned char *>(src.data) + y * src.step;
        job.rows = std::min(slab, rows - y);
        job.bands = cusi::divUp(job.rows, unsigned(Tile::HEIGHT));
        job.first = y == 0;
        CUS_TRY(cusi::launchOverlapped(function, integralKernel<Pixel, SumTable, SquareTable, Tile>, job.bands * job.strips,
                                       Tile::THREADS, 0, stream, job, sum, squares));
        advance(sum, slab);
        advance(squares, slab);
    }
    return CUS_OK;
}

template<class Pixel, class SumTable, class SquareTable>
cusStatus integral(const char *function, const IntegralJob &job, cudaStream_t stream) {
    if constexpr (std::is_same_v<Pixel, float>) {
        return integral<tuning::Float, Pixel, SumTable, SquareTable>(function, job, stream);
    } else if constexpr (WORDS<SumTable> == 2 || EXISTS<SquareTable>) {
        return integral<tuning::Wide, Pixel, SumTable, SquareTable>(function, job, stream);
    } else {
        const Chains<tuning::Large> large(job.src->rows, job.src->cols, 1);
        return large.bands * large.strips < tuning::SMALL_TILES
                   ? integral<tuning::Small, Pixel, SumTable, SquareTable>(function, job, stream)
                   : integral<tuning::Large, Pixel, SumTable, SquareTable>(function, job, stream);
    }
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
    *bytes = std::max({bytesUpTo<tuning::Large>(height, width, 1), bytesUpTo<tuning::Small>(height, width, 1),
                       bytesUpTo<tuning::Wide>(height, width, 4), bytesUpTo<tuning::Float>(height, width, 4)});
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
    using Sums = Table<uint32_t, uint32_t>; // modulo 2^32
    using Exact = Table<uint64_t, double>;
    using Floats = Table<double, double>;
    if (job->src->type != CUS_8UC1)
        return !job->sum     ? integral<float, NoTable, Floats>(function, *job, stream)
               : !job->sqsum ? integral<float, Floats, NoTable>(function, *job, stream)
                             : integral<float, Floats, Floats>(function, *job, stream);
    if (!job->sum)
        return integral<unsigned char, NoTable, Exact>(function, *job, stream);
    if (job->sum->type == CUS_32SC1)
        return job->sqsum ? integral<unsigned char, Sums, Exact>(function, *job, stream)
                          : integral<unsigned char, Sums, NoTable>(function, *job, stream);
    return job->sqsum ? integral<unsigned char, Exact, Exact>(function, *job, stream)
                      : integral<unsigned char, Exact, NoTable>(function, *job, stream);
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
