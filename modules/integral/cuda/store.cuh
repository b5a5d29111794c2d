// Writes the table: a warp completes the entries of its rows and stores them in whole sectors, whatever the alignment.
#ifndef CUSI_INTEGRAL_STORE_CUH
#define CUSI_INTEGRAL_STORE_CUH

#include "integral/cuda/neighbors.cuh"

namespace cusi::integral {

// ---- Entries --------------------------------------------------------------------------------------------------------

// 64-bit integer sums carry the exponent of 2^52 in their upper bits. Below 2^52, which covers every table that fits in
// device memory, they are the bits of the double 2^52 + sum.
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

// Converts sums on the grid, of any size and sign: two doubles hold the halves, one addition rounds, the product is exact.
__device__ inline double toEntry(int64_t v, double unit) {
    const int high = static_cast<int>(v >> 32) ^ INT32_MIN, low = static_cast<int>(v);
    return (__hiloint2double(0x45300000, high) - (0x1p84 + 0x1p63 + 0x1p52) + __hiloint2double(0x43300000, low)) * unit;
}
template<bool SQUARES, class Pixel, class Acc>
__device__ __forceinline__ auto toEntry(const PixelRows<Pixel> &pixels, Acc v) {
    if constexpr (std::is_same_v<Pixel, GridFloat>)
        return toEntry(v, pixels.template unit<SQUARES>());
    else
        return toEntry(v);
}

// ---- One row of a warp ----------------------------------------------------------------------------------------------

// Stores entries x .. x + 3 of every lane, contiguous over the warp, from a 16-byte boundary on. Four 8-byte entries are
// one 32-byte sector but two stores: pairs of lanes swap halves, so that each store of the warp writes whole sectors, first
// the even lanes', then the odd lanes'.
template<class T>
__device__ __forceinline__ void storeAligned(T *row, unsigned x, const T (&v)[4], unsigned lane) {
    if constexpr (sizeof(T) == 4)
        return store16EvictFirst(row + x, v);
    const bool odd = lane % 2;
    const T half[2] = {__shfl_xor_sync(FULL_WARP, odd ? v[0] : v[2], 1), __shfl_xor_sync(FULL_WARP, odd ? v[1] : v[3], 1)};
    const T first[2] = {odd ? half[0] : v[0], odd ? half[1] : v[1]};
    const T second[2] = {odd ? v[2] : half[0], odd ? v[3] : half[1]};
    T *const pair = row + x - (odd ? 2 : 0);
    store16EvictFirst(pair, first);
    store16EvictFirst(pair + 4, second);
}

// ---- Rows at any address, of any length -----------------------------------------------------------------------------

// Stores an element that no cache keeps, like store16EvictFirst().
template<class T>
__device__ __forceinline__ void storeEvictFirst(T *p, T v) {
#if __CUDA_ARCH__ >= 800
    if constexpr (sizeof(T) == 4)
        asm volatile("st.global.L1::no_allocate.L2::cache_hint.b32 [%0], %1, %2;" ::"l"(p), "r"(v), "l"(policyEvictFirst())
                     : "memory");
    else
        asm volatile("st.global.L1::no_allocate.L2::cache_hint.f64 [%0], %1, %2;" ::"l"(p), "d"(v), "l"(policyEvictFirst())
                     : "memory");
#else
    __stcs(p, v);
#endif
}

// These rows pass through shared memory: each lane writes four neighboring entries to it and reads every 32nd, so that each
// store of the warp is contiguous. There are no branches and no shuffles.
template<class T>
struct StagedRow {
    alignas(16) T entries[WARP_COLS];

    __device__ __forceinline__ void put(const T (&v)[4], unsigned lane) {
#pragma unroll
        for (unsigned p = 0; p < sizeof v / 16; ++p) {
            uint4 vector;
            memcpy(&vector, v + p * 16 / sizeof(T), sizeof vector);
            reinterpret_cast<uint4 *>(entries + 4 * lane)[p] = vector;
        }
    }
    // to: the warp's first entry in the row; end: entries to write; stride: elements from one to the next. If entries of
    // other channels are between, L2 keeps the sectors until their blocks have written them, too.
    template<bool INTERLEAVED>
    __device__ __forceinline__ void write(T *to, unsigned end, unsigned lane, unsigned stride) const {
        const T *const from = entries + lane;
        const T v[4] = {from[0], from[32], from[64], from[96]};
        to += lane * stride;
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            if (lane + 32 * i < end) {
                if constexpr (INTERLEAVED)
                    to[32 * i * stride] = v[i];
                else
                    storeEvictFirst(to + 32 * i * stride, v[i]);
            }
    }
};

// Bytes of shared memory in which a warp stages rows: two of 32-bit entries, or one of 64-bit entries.
constexpr size_t STAGE_BYTES = sizeof(StagedRow<double>);
template<class T>
constexpr unsigned STAGED_ROWS = STAGE_BYTES / sizeof(StagedRow<T>);

// ---- The rows of a warp ---------------------------------------------------------------------------------------------

// The distance between a row's entries of one channel.
template<class T>
struct Stride {
    __device__ explicit Stride(const T &) {}
    __device__ static constexpr unsigned stride() { return 1; }
};
template<class T>
struct Stride<Interleaved<T>> {
    const unsigned channels;
    __device__ explicit Stride(const Interleaved<T> &table) : channels(table.channels) {}
    __device__ unsigned stride() const { return channels; }
};

// Writes the rows of one warp to one table. A lane holds entries x .. x + 3 of the row above: the sums over all columns
// before each entry.
template<class Tile>
struct TableWriter;
template<class Pixel, bool SQUARES, class T, class Tile, unsigned TABLES>
struct TableWriter<TableTile<Pixel, SQUARES, T, Tile, TABLES>> : Stride<T> {
    using Stride<T>::stride;
    using Work = TableTile<Pixel, SQUARES, T, Tile, TABLES>;
    using Acc = typename T::Acc;
    using Entry = typename T::Entry;
    using Sum = typename Work::Sum;
    using Scan = typename Work::Scan;
    static constexpr int ROWS = Tile::WARP_ROWS;
    const T &table;
    const Scan &scan;
    const typename Work::Shared &shared;
    const SlabParams &slab;
    const Position &at;
    Acc entries[4];
    Acc end;    // the entry after the warp's columns
    Entry *row; // the row above
    size_t step;
    unsigned x;

    // Computes everything that does not depend on the corner.
    __device__ explicit TableWriter(const Work &work)
        : Stride<T>(work.table), table(work.table), scan(work.scan), shared(work.shared), slab(work.slab), at(work.at),
          step(work.table.step), x(at.tile_x * Tile::WIDTH + at.warp_x * WARP_COLS + 4 * at.lane) {
        Vector4<Sum> inside = {};
#pragma unroll
        for (int w = 0; w < Tile::WARPS_Y - 1; ++w)
            if (w < static_cast<int>(at.warp_y)) {
                const auto some = shared.columns[w][at.warp_x][at.lane];
#pragma unroll
                for (unsigned i = 0; i < 4; ++i)
                    inside.v[i] += some.v[i];
            }
        const auto above = shared.above[at.warp_x][at.lane];
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            entries[i] = above.v[i] + static_cast<Acc>(inside.v[i]);
        end = __shfl_sync(FULL_WARP, entries[0], 0);
        if (at.lane == 0)
            entries[0] = 0;
        const Entry *const top = work.table.out;
        if constexpr (T::ON_GRID) {
            if (!slab.is_top) {
                addCarries<4>(x, entries);
                Acc last[1] = {end};
                addCarries<1>(slab.cols, last);
                end = last[0];
            }
        } else if (!slab.is_top) { // the sums count from the top of the slab, so what is above it is added
#pragma unroll
            for (unsigned i = 0; i < 4; ++i)
                if (x + i <= slab.cols)
                    entries[i] += static_cast<Acc>(top[(x + i) * stride()]);
            end += static_cast<Acc>(top[slab.cols * stride()]);
        }
        row = rowOf(work.table.out, step, static_cast<size_t>(at.tile_y) * Tile::HEIGHT + at.warp_y * ROWS);
    }

    // For reproducible sums, adds the sums above the slab to those of entries `at_x` and after.
    template<unsigned N>
    __device__ void addCarries(unsigned at_x, Acc (&sums)[N]) const {
        Published<Acc, N> carried;
        carried.load(sumAt<Acc>(table.above, at_x));
        carried.addTo(sums);
    }

    // Moves on to the next row, which is row k of `pixels` and `prefixes`. start: what is left of it.
    __device__ void advance(const PixelRows<Pixel> &pixels, const Scan &prefixes, Acc start, unsigned k) {
        start += static_cast<Acc>(prefixes.prefix(k));
        constexpr bool SAME_WIDTH = sizeof(Acc) == sizeof(Sum); // the scan can begin with `start`
        Sum sums[4];
        pixels[k].template exclusiveScan<SQUARES>(SAME_WIDTH ? static_cast<Sum>(start) : Sum(0), sums);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            entries[i] += SAME_WIDTH ? static_cast<Acc>(sums[i]) : start + static_cast<Acc>(sums[i]);
        row = rowOf(row, step, 1);
    }
    __device__ static Entry entry(const PixelRows<Pixel> &pixels, Acc v) {
        return toEntry<SQUARES>(pixels, v);
    }
    // Returns the starts of row k - k % 4 and the three rows after it.
    __device__ const Vector4<Acc> &startsOf(unsigned k) const {
        return shared.row_starts[at.warp_x][(at.warp_y * ROWS + k) / 4];
    }

    // Stores all rows, which are inside the image and start on a 16-byte boundary.
    __device__ void storeAlignedRows(const PixelRows<Pixel> &pixels) {
#pragma unroll
        for (unsigned first = 0; first < ROWS; first += 4) {
            const auto starts = startsOf(first);
#pragma unroll
            for (unsigned j = 0; j < 4; ++j) {
                advance(pixels, scan, starts.v[j], first + j);
                const Entry out[4] = {entry(pixels, entries[0]), entry(pixels, entries[1]), entry(pixels, entries[2]),
                                      entry(pixels, entries[3])};
                storeAligned(row, x, out, at.lane);
            }
        }
    }

    static constexpr unsigned GROUP = 4; // rows that are staged in turn

    // Stores valid_rows rows of valid_cols entries, at any address. The loop is not unrolled: the compiler would compute
    // the addresses of all rows early and run out of registers.
    __device__ void storeStagedRows(PixelRows<Pixel> pixels, unsigned valid_rows, unsigned valid_cols,
                                    StagedRow<Entry> *stage) {
        if constexpr (ROWS == GROUP) {
            if (valid_rows > 0) // otherwise there may be no stage
                storeStagedGroup(pixels, scan, 0, valid_rows, valid_cols, stage);
        } else {
            Scan prefixes = scan;
#pragma unroll 1
            for (unsigned group = 0; group < min(ROWS, valid_rows); group += GROUP) {
                storeStagedGroup(pixels, prefixes, group, valid_rows, valid_cols, stage);
                prefixes.template drop<GROUP>();
                pixels.first_row += 32 * GROUP;
            }
        }
    }
    // Stores GROUP rows from row `group` on; pixels and prefixes begin with them.
    __device__ __forceinline__ void storeStagedGroup(const PixelRows<Pixel> &pixels, const Scan &prefixes, unsigned group,
                                                     unsigned valid_rows, unsigned valid_cols, StagedRow<Entry> *stage) {
        constexpr unsigned N = STAGED_ROWS<Entry>;
        static_assert(N > 0 && GROUP % N == 0 && ROWS % GROUP == 0, "");
#pragma unroll
        for (unsigned first = 0; first < GROUP; first += N) {
            Entry *rows[N]; // the warp's first entries
#pragma unroll
            for (unsigned j = 0; j < N; ++j) {
                const unsigned k = first + j;
                advance(pixels, prefixes, startsOf(group + k).v[k % 4], k);
                const Entry out[4] = {entry(pixels, entries[0]), entry(pixels, entries[1]), entry(pixels, entries[2]),
                                      entry(pixels, entries[3])};
                stage[j].put(out, at.lane);
                rows[j] = row + (x - 4 * at.lane) * stride();
            }
            __syncwarp();
#pragma unroll
            for (unsigned j = 0; j < N; ++j)
                stage[j].template write<T::INTERLEAVED>(rows[j], group + first + j < valid_rows ? valid_cols : 0, at.lane,
                                                        stride());
            __syncwarp(); // the next rows reuse this memory
        }
    }

    __device__ unsigned validCols() const {
        return min(slab.cols + 1 - firstCol(), unsigned(WARP_COLS));
    }
    __device__ unsigned firstCol() const {
        return x - 4 * at.lane;
    }
    // Adds the corner, and writes what the rows of no lane have: the table's row 0, the entries after the last column.
    __device__ __forceinline__ void writeEdges(const PixelRows<Pixel> &pixels, unsigned valid_rows) {
        const unsigned first = firstCol();
        const Acc corner = shared.corner + shared.warp_corners[at.warp_x][at.warp_y] + BIAS<Acc>;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            entries[i] += corner;
        const bool top = slab.is_top && at.tile_y == 0 && at.warp_y == 0;
        if (top) // the table's row 0
            for (unsigned i = at.lane; i < validCols(); i += 32)
                __stcs(row + first * stride() + i * stride(), Entry(0));
        if (first + WARP_COLS == slab.cols) { // no lane has the entries after the last column
            const unsigned y = at.warp_y * ROWS + at.lane;
            const bool has_row = at.lane < ROWS && at.lane < valid_rows;
            const Acc own = has_row
                                ? shared.row_starts[at.warp_x][y / 4].v[y % 4] + static_cast<Acc>(shared.rows[at.warp_x][y])
                                : Acc(0);
            const Acc ends = exclusiveSum(own) + own; // all lanes must take part
            if (has_row)
                __stcs(rowOf(row, step, at.lane + 1) + slab.cols * stride(), entry(pixels, corner + end + ends));
            if constexpr (T::ON_GRID)
                if (endsSlab() && at.lane == ROWS - 1) {
                    const Acc last[1] = {corner + end + ends};
                    Published<Acc, 1>::store(sumAt<Acc>(table.below, slab.cols), last, at.epoch);
                }
            if (top && at.lane == 0)
                __stcs(row + slab.cols * stride(), Entry(0));
        }
    }

    // `whole`: all of the warp's rows and columns are inside the image. stage: STAGE_BYTES of shared memory for the warp,
    // unless all warps are whole and the tables aligned to 16 bytes.
    __device__ void write(const PixelRows<Pixel> &pixels, unsigned valid_rows, bool whole, void *stage) {
        if (firstCol() >= slab.cols)
            return;
        writeEdges(pixels, valid_rows);
        if (!T::INTERLEAVED && whole && slab.tables_aligned16)
            storeAlignedRows(pixels);
        else
            storeStagedRows(pixels, valid_rows, validCols(), static_cast<StagedRow<Entry> *>(stage));
        if constexpr (T::ON_GRID)
            if (endsSlab())
                Published<Acc, 4>::store(sumAt<Acc>(table.below, x), entries, at.epoch);
    }
    // Returns whether the warp's last row is the slab's, and another slab follows.
    __device__ bool endsSlab() const {
        return table.below && at.tile_y == slab.tile_rows - 1 && at.warp_y == Tile::WARPS_Y - 1;
    }
};

} // namespace cusi::integral

#endif
