// Integral images on the GPU, bound by memory: the source once and each table once is what must move.
//
// The image is cut into bands of BAND rows and strips of STRIP columns: a block takes one strip of one band, each of its warps
// ROWS rows, a lane four neighbouring columns. Slab by slab (as many bands as fit well into the level-2 cache) three kernels run:
//
//   reduce  sums each strip of each row and each column of each band;
//   carry   turns the column sums into sums of everything above the band, adds these up over each strip, and turns the row
//           sums into sums of everything left of the strip: 3 numbers for each 128 pixels;
//   write   reads the slab again, backwards, so that the level-2 cache serves what it still has, and writes the table. A lane
//           keeps the four table entries of the row above in registers, a row costs one warp scan of the lanes' sums, and no
//           block waits for another.
//
// No order depends on timing, so sums of floats come out the same in every run. From 9.0 on a kernel starts while the last blocks
// of the one before it are still running (programmatic dependent launch); see the comments at the waits.
#include "cuda.cuh"
#include "integral_backend.h"

#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

#include <algorithm>

namespace {

// Milliseconds on an H200 for 8-bit sums of 1920x1080, 7680x4320, 16384x16384 and for sums with squares of 7680x4320, then for
// floats with squares of 7680x4320:
//   8 rows, 8 warps, 5 blocks    0.0110  0.0605  0.484  0.169  0.361   (chosen)
//   the same, 3 blocks           0.0131  0.0627  0.508  0.170  0.362
//   16 rows, 8 warps             0.0117  0.0600  0.474  0.159  0.721
//   16 rows, 4 warps             0.0131  0.0599  0.476  0.181  0.407
//   8 rows, 16 warps             0.0134  0.0701  0.578  0.155  0.765
//   stores without .cs           0.0116  0.0637  0.507  0.180  0.388
//   slabs of a third of the L2   0.0152  0.0641  0.516  0.167  0.430
//   no overlapped launches       0.0148  0.0637  0.522  0.172  0.399
// A band of 32 rows walked down by single warps took 0.067 and 0.52: blocks that live long keep too many rows open at a time.
namespace tuning {
constexpr int WARPS = 8; // in a block of reduce and write, one below the other
constexpr int ROWS = 8;  // of a warp, all of them in flight at once
constexpr int BAND = WARPS * ROWS;
constexpr int WRITE_BLOCKS = 5; // on a multiprocessor, for 32-bit sums alone; with 64-bit tables two
constexpr int REDUCE_BLOCKS = 6;
constexpr int CARRY_WARPS = 8;
constexpr int CARRY_BYTES = 256; // of sums that a thread of carry holds at a time
constexpr size_t SLAB_MIN = 4 << 20;
constexpr size_t slabBytes(size_t l2_bytes) {
    return l2_bytes * 2 / 3;
}
} // namespace tuning

using tuning::BAND;
using tuning::ROWS;
using tuning::WARPS;
constexpr unsigned FULL_WARP = 0xffffffffu;
constexpr int STRIP = 128; // columns: 32 lanes of four
static_assert(BAND % 32 == 0 && BAND <= 256 && ROWS <= 32, "column sums of a band fit 16 bits, rows of a warp its lanes");

// One slab of the image.
struct Slab {
    const unsigned char *src;
    size_t step;
    unsigned rows, cols, bands, strips;
    bool aligned; // four pixels can be loaded at once
    bool first;   // the top of the image

    // The strip of the band is not cut off by the end of the image, and its pixels are aligned.
    __device__ bool isWhole(unsigned band, unsigned strip) const {
        return aligned && (band + 1) * BAND <= rows && (strip + 1) * STRIP <= cols;
    }
    __host__ __device__ unsigned paddedRows() const { return bands * BAND; }
    __host__ __device__ size_t paddedCols() const { return static_cast<size_t>(strips) * STRIP; }
};

// One table under construction: its carries for one slab, and where the slab's entries go. Entries of 32-bit tables are
// unsigned, so that they wrap.
template<class Entry>
struct Table {
    using Type = Entry;
    Entry *columns; // [band][column] sums of the column in the band; after carry: of everything above the band
    Entry *rows;    // [strip][row] sums of the row in the strip; after carry: of everything left of the strip
    Entry *strips;  // [band][strip] after carry: sums of everything above the band in the strip's columns
    Entry *below;   // [column] sums down to the bottom of the slab before
    Entry *out;     // table row above the slab's first
    size_t step;
};
struct NoTable {};
template<class T>
constexpr bool EXISTS = !std::is_same_v<T, NoTable>;

// ---- Programmatic dependent launch: nothing before sm_90 ------------------------------------------------------------

// Blocks until the kernels before this one are complete and what they wrote can be seen.
__device__ inline void waitForPrevious() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

// Once every block has come here, the next kernel's blocks may take the room that becomes free.
__device__ inline void letNextStart() {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// ---- Four pixels ----------------------------------------------------------------------------------------------------

// Pixels x .. x + 3 of a row, zero past its end. Sums of bytes within a strip (up to 128 * 255^2) fit 32 bits.
template<class Pixel>
struct Four;

template<>
struct Four<unsigned char> {
    using Sum = uint32_t;
    uint32_t word = 0;

    // All four are there, and aligned to four pixels.
    __device__ void load(const unsigned char *row, unsigned x) {
        word = __ldg(reinterpret_cast<const unsigned *>(row + x));
    }
    __device__ void loadSome(const unsigned char *row, unsigned x, unsigned cols) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            if (x + i < cols)
                word |= static_cast<uint32_t>(__ldg(row + x + i)) << (8 * i);
    }
    template<bool SQUARES>
    __device__ Sum total() const {
        return __dp4a(word, SQUARES ? word : 0x01010101u, 0u);
    }
    // sums[i]: of pixels 0 .. i
    template<bool SQUARES>
    __device__ void prefix(Sum (&sums)[3]) const {
        sums[0] = __dp4a(word, SQUARES ? word & 0x000000ffu : 0x00000001u, 0u);
        sums[1] = __dp4a(word, SQUARES ? word & 0x0000ffffu : 0x00000101u, 0u);
        sums[2] = __dp4a(word, SQUARES ? word & 0x00ffffffu : 0x00010101u, 0u);
    }
};

template<>
struct Four<float> {
    using Sum = double;
    float4 v = {0, 0, 0, 0};

    __device__ void load(const unsigned char *row, unsigned x) {
        v = __ldg(reinterpret_cast<const float4 *>(row + sizeof(float) * static_cast<size_t>(x)));
    }
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
    __device__ void prefix(Sum (&sums)[3]) const {
        sums[0] = value<SQUARES>(v.x);
        sums[1] = sums[0] + value<SQUARES>(v.y);
        sums[2] = sums[1] + value<SQUARES>(v.z);
    }
    template<bool SQUARES>
    __device__ Sum total() const {
        Sum sums[3];
        prefix<SQUARES>(sums);
        return sums[2] + value<SQUARES>(v.w);
    }
};

// Pixels x .. x + 3 of the slab's rows y .. y + ROWS - 1, zero where there are none. whole: all exist and are aligned.
template<class Pixel>
__device__ inline void loadRows(Four<Pixel> (&four)[ROWS], const Slab &slab, unsigned x, unsigned y, bool whole) {
    const unsigned char *row = slab.src + y * slab.step;
    if (whole) {
#pragma unroll
        for (unsigned k = 0; k < ROWS; ++k)
            four[k].load(row + k * slab.step, x);
    } else if (slab.aligned && x + 4 <= slab.cols) {
#pragma unroll
        for (unsigned k = 0; k < ROWS; ++k)
            if (y + k < slab.rows)
                four[k].load(row + k * slab.step, x);
    } else {
#pragma unroll
        for (unsigned k = 0; k < ROWS; ++k)
            if (y + k < slab.rows)
                four[k].loadSome(row + k * slab.step, x, slab.cols);
    }
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

// Sums of several rows that go through one scan side by side, so that their shuffles do not wait for each other.
template<class Sum, int N>
struct Several {
    Sum v[N];
    __device__ friend Several operator+(Several a, const Several &b) {
#pragma unroll
        for (int k = 0; k < N; ++k)
            a.v[k] += b.v[k];
        return a;
    }
};
struct Plus {
    template<class T>
    __device__ T operator()(const T &a, const T &b) const {
        return a + b;
    }
};

// The sums over the lanes before this one.
template<class Sum, int N>
__device__ inline void warpSumBefore(Several<Sum, N> &sums) {
    using Scan = cub::WarpScan<Several<Sum, N>>;
    typename Scan::TempStorage none; // a scan of a full warp goes through registers
    Several<Sum, N> before;
    if constexpr (std::is_same_v<Sum, uint32_t>) { // modulo 2^32
        Scan(none).InclusiveScan(sums, before, Plus());
#pragma unroll
        for (int k = 0; k < N; ++k)
            sums.v[k] = before.v[k] - sums.v[k];
    } else {
        Scan(none).ExclusiveScan(sums, before, Several<Sum, N>{}, Plus());
        sums = before;
    }
}
template<class Sum>
__device__ inline Sum warpSumBefore(Sum sum) {
    Several<Sum, 1> one = {{sum}};
    warpSumBefore(one);
    return one.v[0];
}

template<class T>
struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Vector4 {
    T v[4];
};

// ---- reduce ---------------------------------------------------------------------------------------------------------

// What a block needs of one table in shared memory: the column sums of its warps.
template<class Pixel>
using BlockColumns = Vector4<typename Four<Pixel>::Sum>[WARPS][32];

template<bool SQUARES, class Pixel>
__device__ inline void sumColumns(const Four<Pixel> (&four)[ROWS], BlockColumns<Pixel> &columns, unsigned warp,
                                  unsigned lane) {
    ColumnSums<Pixel, SQUARES> sums;
#pragma unroll
    for (int k = 0; k < ROWS; ++k)
        sums.add(four[k]);
    columns[warp][lane] = {sums[0], sums[1], sums[2], sums[3]};
}

// v += the column sums of warps 0 .. warps - 1.
template<class Entry, class Sum>
__device__ inline void addColumns(Vector4<Entry> &v, const Vector4<Sum> (&columns)[WARPS][32], unsigned warps,
                                  unsigned lane) {
#pragma unroll
    for (unsigned w = 0; w < WARPS; ++w)
        if (w < warps) {
            const Vector4<Sum> some = columns[w][lane];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                v.v[i] += static_cast<Entry>(some.v[i]);
        }
}

template<bool SQUARES, class Pixel, class Entry>
__device__ inline void reduceRows(const Table<Entry> &table, const Slab &slab, const Four<Pixel> (&four)[ROWS],
                                  unsigned strip, unsigned y, unsigned lane) {
    typename Four<Pixel>::Sum mine = 0;
#pragma unroll
    for (unsigned k = 0; k < ROWS; ++k) {
        const auto sum = warpSum(four[k].template total<SQUARES>());
        if (lane == k)
            mine = sum;
    }
    if (lane < ROWS)
        table.rows[static_cast<size_t>(strip) * slab.paddedRows() + y + lane] = static_cast<Entry>(mine);
}
template<bool SQUARES, class Pixel>
__device__ inline void reduceRows(const NoTable &, const Slab &, const Four<Pixel> (&)[ROWS], unsigned, unsigned,
                                  unsigned) {}

template<class Pixel, class Entry>
__device__ inline void storeColumns(const Table<Entry> &table, const Slab &slab, const BlockColumns<Pixel> &columns,
                                    unsigned band, unsigned strip, unsigned lane) {
    Vector4<Entry> v = {{0, 0, 0, 0}};
    addColumns(v, columns, WARPS, lane);
    *reinterpret_cast<Vector4<Entry> *>(table.columns + band * slab.paddedCols() + strip * STRIP + 4 * lane) = v;
}
template<class Pixel>
__device__ inline void storeColumns(const NoTable &, const Slab &, const BlockColumns<Pixel> &, unsigned, unsigned,
                                    unsigned) {}

template<class Pixel, class SumTable, class SquareTable>
__global__ void __launch_bounds__(32 * WARPS, std::is_same_v<Pixel, float> ? 2 : tuning::REDUCE_BLOCKS)
    reduceKernel(const Slab slab, const SumTable sum, const SquareTable squares) {
    __shared__ BlockColumns<Pixel> columns[EXISTS<SumTable> + EXISTS<SquareTable>];
    letNextStart();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, strip = blockIdx.x, band = blockIdx.y;
    const unsigned x = strip * STRIP + 4 * lane, y = band * BAND + warp * ROWS;
    Four<Pixel> four[ROWS];
    loadRows(four, slab, x, y, slab.isWhole(band, strip));
    if (EXISTS<SumTable>)
        sumColumns<false>(four, columns[0], warp, lane);
    if (EXISTS<SquareTable>)
        sumColumns<true>(four, columns[EXISTS<SumTable>], warp, lane);
    reduceRows<false>(sum, slab, four, strip, y, lane);
    reduceRows<true>(squares, slab, four, strip, y, lane);
    __syncthreads();
    if (warp == 0)
        storeColumns<Pixel>(sum, slab, columns[0], band, strip, lane);
    else if (warp == 1)
        storeColumns<Pixel>(squares, slab, columns[EXISTS<SumTable>], band, strip, lane);
    // This kernel is started once every block of the write kernel before has ended, so the carries are free; but what they
    // wrote may still be on its way. To end only after it is what makes waiting for the last kernel wait for all.
    waitForPrevious();
}

// ---- carry ----------------------------------------------------------------------------------------------------------

// Exclusive sums down the columns of a matrix of `count` rows of `width` entries, in place. A warp takes every
// CARRY_WARPS-th chunk of rows of 128 columns. before: what stands above the first row, or null; below: gets what stands
// below the last, or null. totals: gets, for each row and 128 columns, the sum of the results, or is null.
template<class Entry>
__device__ void sumDown(Entry *matrix, unsigned count, size_t width, size_t block, const Entry *before, Entry *below,
                        Entry *totals) {
    constexpr int ITEMS = tuning::CARRY_BYTES / (4 * sizeof(Entry)), ROUND = ITEMS * tuning::CARRY_WARPS;
    __shared__ Vector4<Entry> chunk_sums[tuning::CARRY_WARPS][32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t x = block * STRIP + 4 * lane;
    const bool inside = x < width; // a multiple of 4
    Vector4<Entry> start = {0, 0, 0, 0};
    if (before && inside)
        start = *reinterpret_cast<const Vector4<Entry> *>(before + x);
    for (unsigned round = 0; round < count; round += ROUND) {
        const unsigned first = round + warp * ITEMS;
        Vector4<Entry> v[ITEMS], sum = {0, 0, 0, 0};
#pragma unroll
        for (unsigned k = 0; k < ITEMS; ++k) {
            v[k] = {0, 0, 0, 0};
            if (inside && first + k < count)
                v[k] = *reinterpret_cast<const Vector4<Entry> *>(matrix + (first + k) * width + x);
        }
#pragma unroll
        for (int k = 0; k < ITEMS; ++k)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                sum.v[i] += v[k].v[i];
        chunk_sums[warp][lane] = sum;
        __syncthreads();
        Vector4<Entry> mine = start;
#pragma unroll
        for (unsigned w = 0; w < tuning::CARRY_WARPS; ++w) {
            if (w == warp)
                mine = start;
#pragma unroll
            for (int i = 0; i < 4; ++i)
                start.v[i] += chunk_sums[w][lane].v[i];
        }
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < ITEMS; ++k) {
            if (first + k >= count)
                break;
            if (inside)
                *reinterpret_cast<Vector4<Entry> *>(matrix + (first + k) * width + x) = mine;
            if (totals) {
                const Entry total = warpSum(mine.v[0] + mine.v[1] + mine.v[2] + mine.v[3]);
                if (lane == 0)
                    totals[(first + k) * (width / STRIP) + block] = total;
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
                mine.v[i] += v[k].v[i];
        }
    }
    if (below && inside && warp == 0)
        *reinterpret_cast<Vector4<Entry> *>(below + x) = start;
}

template<class Entry>
__device__ void carry(const Slab &slab, const Table<Entry> &table) {
    if (blockIdx.x < slab.strips)
        sumDown(table.columns, slab.bands, slab.paddedCols(), blockIdx.x, slab.first ? nullptr : table.below, table.below,
                table.strips);
    else
        sumDown<Entry>(table.rows, slab.strips, slab.paddedRows(), blockIdx.x - slab.strips, nullptr, nullptr, nullptr);
}
__device__ void carry(const Slab &, NoTable) {}

// A block for each strip, then one for each 128 rows; blockIdx.y picks the table.
template<class SumTable, class SquareTable>
__global__ void __launch_bounds__(32 * tuning::CARRY_WARPS)
    carryKernel(const Slab slab, const SumTable sum, const SquareTable squares) {
    letNextStart();
    waitForPrevious();
    if (EXISTS<SumTable> && blockIdx.y == 0)
        carry(slab, sum);
    else
        carry(slab, squares);
}

// ---- write ----------------------------------------------------------------------------------------------------------

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
template<bool SQUARES, class Pixel, class Entry>
struct Writer {
    using Sum = typename Four<Pixel>::Sum;
    // Rows that share a scan.
    static constexpr int TOGETHER = sizeof(Entry) == 4 ? ROWS : ROWS < 4 ? ROWS : 4;

    const Table<Entry> &table;
    const Slab &slab;
    Entry entries[4];
    Entry end;  // the entry after the lane's four
    bool ends;  // nobody else writes the one after lane 31's
    Entry left; // of row `lane`: everything left of the strip
    Entry *row; // the row above
    unsigned lane, x;

    __device__ Writer(const Table<Entry> &t, const Slab &s, const BlockColumns<Pixel> &columns, unsigned band,
                      unsigned strip, unsigned warp, unsigned lane_)
        : table(t), slab(s), lane(lane_), x(strip * STRIP + 4 * lane_) {
        const Entry *lefts = table.rows + static_cast<size_t>(strip) * slab.paddedRows() + band * BAND;
        left = lane < ROWS ? lefts[warp * ROWS + lane] : Entry(0);
        // The entry at the strip's left edge: all above the band and left of the strip, and the rows of the warps above.
        Entry corner = 0;
        for (unsigned k = lane; k < strip; k += 32)
            corner += table.strips[static_cast<size_t>(band) * slab.strips + k];
        for (unsigned k = lane; k < warp * ROWS; k += 32)
            corner += lefts[k];
        corner = warpSum(corner);
        Vector4<Entry> above = *reinterpret_cast<const Vector4<Entry> *>(table.columns + band * slab.paddedCols() + x);
        addColumns(above, columns, warp, lane);
        const Entry two = above.v[0] + above.v[1], three = two + above.v[2], four = three + above.v[3];
        corner += warpSumBefore(four);
        entries[0] = corner;
        entries[1] = corner + above.v[0];
        entries[2] = corner + two;
        entries[3] = corner + three;
        end = corner + four;
        ends = (strip + 1) * STRIP == slab.cols;
        row = cusi::rowOf(table.out, table.step, static_cast<size_t>(band) * BAND + warp * ROWS);
        if (slab.first && band == 0 && warp == 0)
            store<false, false>(); // zeros
    }

    template<bool WHOLE, bool ALIGNED>
    __device__ void store() const {
        storeRow<WHOLE, ALIGNED>(row, x, entries, slab.cols + 1, lane);
        if (ends && lane == 31)
            __stcs(row + x + 4, end);
    }

    // For each of TOGETHER rows, the sum over the lanes before this one.
    __device__ static void sumsBefore(const Four<Pixel> *four, Sum (&before)[TOGETHER]) {
        if constexpr (std::is_same_v<Pixel, unsigned char> && !SQUARES && TOGETHER % 2 == 0) {
            // Sums of up to 128 bytes fit 16 bits: two rows to a word.
            Several<Sum, TOGETHER / 2> pairs;
#pragma unroll
            for (int k = 0; k < TOGETHER / 2; ++k)
                pairs.v[k] = four[2 * k].template total<SQUARES>() | four[2 * k + 1].template total<SQUARES>() << 16;
            warpSumBefore(pairs);
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k)
                before[k] = k % 2 ? pairs.v[k / 2] >> 16 : pairs.v[k / 2] & 0xffff;
        } else {
            Several<Sum, TOGETHER> sums;
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k)
                sums.v[k] = four[k].template total<SQUARES>();
            warpSumBefore(sums);
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k)
                before[k] = sums.v[k];
        }
    }

    // The warp's rows, of which `there` exist.
    template<bool WHOLE, bool ALIGNED>
    __device__ void write(const Four<Pixel> (&four)[ROWS], unsigned there) {
#pragma unroll
        for (unsigned first = 0; first < ROWS; first += TOGETHER) {
            Sum before[TOGETHER];
            sumsBefore(four + first, before);
#pragma unroll
            for (unsigned k = 0; k < TOGETHER; ++k)
                if (WHOLE || first + k < there) {
                    Sum sums[3];
                    four[first + k].template prefix<SQUARES>(sums);
                    const Entry start = __shfl_sync(FULL_WARP, left, first + k);
                    entries[0] += start + static_cast<Entry>(before[k]);
#pragma unroll
                    for (int i = 0; i < 3; ++i)
                        entries[i + 1] += start + static_cast<Entry>(before[k] + sums[i]);
                    if (ends)
                        end += start + static_cast<Entry>(before[k] + four[first + k].template total<SQUARES>());
                    row = cusi::rowOf(row, table.step, 1);
                    store<WHOLE, ALIGNED>();
                }
        }
    }

    __device__ void write(const Four<Pixel> (&four)[ROWS], unsigned there, bool whole, bool aligned) {
        if (whole && aligned)
            write<true, true>(four, there);
        else if (whole)
            write<true, false>(four, there);
        else
            write<false, false>(four, there);
    }
};

template<class Pixel, class SumTable, class SquareTable>
constexpr int WRITE_BLOCKS =
    std::is_same_v<Pixel, unsigned char> &&std::is_same_v<SumTable, Table<uint32_t>> && !EXISTS<SquareTable>
        ? tuning::WRITE_BLOCKS
        : 2;

template<class Pixel, class SumTable, class SquareTable>
__global__ void __launch_bounds__(32 * WARPS, (WRITE_BLOCKS<Pixel, SumTable, SquareTable>))
    writeKernel(const Slab slab, const SumTable sum, const SquareTable squares, bool aligned) {
    __shared__ BlockColumns<Pixel> columns[EXISTS<SumTable> + EXISTS<SquareTable>];
    // From the bottom up: what reduce read last is what the level-2 cache still has.
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, strip = blockIdx.x, band = gridDim.y - 1 - blockIdx.y;
    const unsigned x = strip * STRIP + 4 * lane, y = band * BAND + warp * ROWS;
    const bool whole = slab.isWhole(band, strip);
    Four<Pixel> four[ROWS];
    loadRows(four, slab, x, y, whole); // the source does not depend on the kernels before
    if (EXISTS<SumTable>)
        sumColumns<false>(four, columns[0], warp, lane);
    if (EXISTS<SquareTable>)
        sumColumns<true>(four, columns[EXISTS<SumTable>], warp, lane);
    __syncthreads();
    waitForPrevious();
    const unsigned there = slab.rows - min(slab.rows, y);
    if constexpr (EXISTS<SumTable> && EXISTS<SquareTable>) {
        Writer<false, Pixel, typename SumTable::Type> sums(sum, slab, columns[0], band, strip, warp, lane);
        Writer<true, Pixel, typename SquareTable::Type> square_sums(squares, slab, columns[1], band, strip, warp, lane);
        sums.write(four, there, whole, aligned);
        square_sums.write(four, there, whole, aligned);
    } else if constexpr (EXISTS<SumTable>) {
        Writer<false, Pixel, typename SumTable::Type> sums(sum, slab, columns[0], band, strip, warp, lane);
        sums.write(four, there, whole, aligned);
    } else {
        Writer<true, Pixel, typename SquareTable::Type> square_sums(squares, slab, columns[0], band, strip, warp, lane);
        square_sums.write(four, there, whole, aligned);
    }
}

// ---- Host side ------------------------------------------------------------------------------------------------------

size_t roundUp(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

struct Device {
    size_t slab_bytes = 0;
    bool overlaps = false; // knows programmatic dependent launch

    cusStatus query(const char *function) {
        int device = 0, l2 = 0, major = 0;
        CUSI_CUDA(function, cudaGetDevice(&device));
        CUSI_CUDA(function, cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device));
        CUSI_CUDA(function, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
        slab_bytes = std::max(tuning::slabBytes(static_cast<size_t>(l2)), tuning::SLAB_MIN);
        overlaps = major >= 9;
        return CUS_OK;
    }
};

// Entries of one table's carries, for any image of up to rows x cols and for slabs of up to slab_bytes. Columns count with
// their padding, so that narrow images do not get slabs of many bands.
struct Sizes {
    size_t columns, rows, strips, below;

    Sizes(size_t image_rows, size_t cols, size_t slab_bytes) {
        const size_t bands = cusi::divUp(image_rows, size_t(BAND)), padded = roundUp(cols, STRIP);
        below = padded;
        columns = std::min(bands * padded, slab_bytes / BAND + padded);
        strips = columns / STRIP;
        rows = columns / STRIP * BAND;
    }
    size_t bytes() const { return (columns + rows + roundUp(strips, 4) + below) * sizeof(double); }
};

unsigned slabRows(size_t image_rows, size_t cols, size_t pixel_bytes, size_t slab_bytes) {
    const size_t bands = cusi::divUp(image_rows, size_t(BAND));
    const size_t most = std::max<size_t>(slab_bytes / (roundUp(cols, STRIP) * pixel_bytes * BAND), 1);
    const size_t slabs = cusi::divUp(bands, most); // of equal height
    return static_cast<unsigned>(std::min(cusi::divUp(bands, slabs) * BAND, image_rows));
}

template<class Entry>
Table<Entry> tableOf(char *&workspace, const Sizes &sizes, const cusMat *mat) {
    Table<Entry> table;
    double *at = reinterpret_cast<double *>(workspace);
    table.columns = reinterpret_cast<Entry *>(at);
    table.rows = reinterpret_cast<Entry *>(at += sizes.columns);
    table.below = reinterpret_cast<Entry *>(at += sizes.rows);
    table.strips = reinterpret_cast<Entry *>(at += sizes.below);
    table.out = static_cast<Entry *>(mat->data);
    table.step = mat->step;
    workspace += sizes.bytes();
    return table;
}

template<class Entry>
void advance(Table<Entry> &table, unsigned rows) {
    table.out = cusi::rowOf(table.out, table.step, rows);
}
void advance(NoTable &, unsigned) {}

// overlap: the kernel may start before the one queued before it has ended.
template<class... Parameters>
cusStatus queue(const char *function, void (*kernel)(Parameters...), dim3 grid, unsigned threads, bool overlap,
                cudaStream_t stream, const Parameters &...arguments) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = threads;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = overlap ? 1 : 0;
    return cusi::cudaStatus(cudaLaunchKernelEx(&config, kernel, arguments...), function, "kernel launch");
}

template<class Pixel, class SumTable, class SquareTable>
cusStatus integral(const char *function, const IntegralJob &job, const Device &device, SumTable sum, SquareTable squares,
                   cudaStream_t stream) {
    const cusMat &src = *job.src;
    const unsigned image_rows = static_cast<unsigned>(src.rows), cols = static_cast<unsigned>(src.cols);
    const unsigned most = slabRows(image_rows, cols, sizeof(Pixel), device.slab_bytes);
    Slab slab = {};
    slab.step = src.rows > 1 ? src.step : 0;
    slab.cols = cols;
    slab.strips = cusi::divUp(cols, unsigned(STRIP));
    slab.aligned = cusi::isAligned(src, 4 * sizeof(Pixel));
    const bool tables_aligned =
        (!job.sum || cusi::isAligned(*job.sum, 16)) && (!job.sqsum || cusi::isAligned(*job.sqsum, 16));
    for (unsigned y = 0; y < image_rows; y += most) {
        slab.src = static_cast<const unsigned char *>(src.data) + y * src.step;
        slab.rows = std::min(most, image_rows - y);
        slab.bands = cusi::divUp(slab.rows, unsigned(BAND));
        slab.first = y == 0;
        const dim3 tiles(slab.strips, slab.bands);
        const dim3 carries(slab.strips + cusi::divUp(slab.paddedRows(), unsigned(STRIP)),
                           EXISTS<SumTable> + EXISTS<SquareTable>);
        // The first kernel waits for all that was queued before, as any would.
        CUS_TRY(queue(function, reduceKernel<Pixel, SumTable, SquareTable>, tiles, 32 * WARPS,
                      device.overlaps && !slab.first, stream, slab, sum, squares));
        CUS_TRY(queue(function, carryKernel<SumTable, SquareTable>, carries, 32 * tuning::CARRY_WARPS, device.overlaps,
                      stream, slab, sum, squares));
        CUS_TRY(queue(function, writeKernel<Pixel, SumTable, SquareTable>, tiles, 32 * WARPS, device.overlaps, stream, slab,
                      sum, squares, tables_aligned));
        advance(sum, slab.rows);
        advance(squares, slab.rows);
    }
    return CUS_OK;
}

template<class Pixel, class SumTable>
cusStatus integral(const char *function, const IntegralJob &job, const Device &device, const Sizes &sizes, char *workspace,
                   SumTable sum, cudaStream_t stream) {
    if constexpr (EXISTS<SumTable>)
        if (!job.sqsum)
            return integral<Pixel>(function, job, device, sum, NoTable(), stream);
    return integral<Pixel>(function, job, device, sum, tableOf<double>(workspace, sizes, job.sqsum), stream);
}

template<class Pixel>
cusStatus integral(const char *function, const IntegralJob &job, const Device &device, cudaStream_t stream) {
    const Sizes sizes(job.src->rows, job.src->cols, device.slab_bytes);
    char *workspace = static_cast<char *>(job.workspace);
    if constexpr (std::is_same_v<Pixel, unsigned char>)
        if (job.sum && job.sum->type == CUS_32SC1) {
            const auto table = tableOf<uint32_t>(workspace, sizes, job.sum);
            return integral<Pixel>(function, job, device, sizes, workspace, table, stream);
        }
    if (job.sum) {
        const auto table = tableOf<double>(workspace, sizes, job.sum);
        return integral<Pixel>(function, job, device, sizes, workspace, table, stream);
    }
    return integral<Pixel>(function, job, device, sizes, workspace, NoTable(), stream);
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

cusStatus integral_cuda_workspace(const char *function, int rows, int cols, size_t *bytes) {
    Device device;
    CUS_TRY(device.query(function));
    *bytes = 2 * Sizes(rows, cols, device.slab_bytes).bytes();
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
    Device device;
    CUS_TRY(device.query(function));
    return job->src->type == CUS_8UC1 ? integral<unsigned char>(function, *job, device, stream)
                                      : integral<float>(function, *job, device, stream);
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
