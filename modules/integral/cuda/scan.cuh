// Makes sums inside a tile: column sums of a warp's rows, prefix sums along its rows and over its columns.
#ifndef CUSI_INTEGRAL_SCAN_CUH
#define CUSI_INTEGRAL_SCAN_CUH

#include "integral/cuda/load.cuh"

#include <cub/warp/warp_scan.cuh>

namespace cusi::integral {

template<class T>
struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Vector4 {
    T v[4];
};

// ---- Column sums ----------------------------------------------------------------------------------------------------

// Sums of a lane's four columns over some rows.
template<class Pixel, bool SQUARES>
struct ColumnSums {
    typename Pixels4<Pixel>::Sum sums[4] = {0, 0, 0, 0};

    template<class Pixels>
    __device__ void add(const Pixels &pixels) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            sums[i] += pixels.template value<SQUARES>(i);
    }
    __device__ typename Pixels4<Pixel>::Sum operator[](int i) const {
        return sums[i];
    }
};

template<>
struct ColumnSums<unsigned char, false> {
    uint32_t even = 0, odd = 0; // two 16-bit sums each, for up to 257 rows
    __device__ void add(const Pixels4<unsigned char> &pixels) {
        even += pixels.packed & 0x00ff00ffu;
        odd += pixels.packed >> 8 & 0x00ff00ffu;
    }
    __device__ uint32_t operator[](int i) const { return (i % 2 ? odd : even) >> (i / 2 * 16) & 0xffff; }
};

// ---- Sums over the lanes --------------------------------------------------------------------------------------------

// Returns the sum over the lanes before this one. CUB's shuffles need no storage, but its scan of doubles has selects that
// slow down integral images of floats by 6 %.
template<class Sum>
__device__ __forceinline__ Sum exclusiveSum(Sum v) {
    if constexpr (std::is_same_v<Sum, double> || std::is_same_v<Sum, int64_t>) {
        const unsigned lane = threadIdx.x % 32;
        Sum sum = v;
#pragma unroll
        for (unsigned d = 1; d < 32; d *= 2) {
            const Sum before = __shfl_up_sync(FULL_WARP, sum, d);
            if (lane >= d)
                sum += before;
        }
        sum = __shfl_up_sync(FULL_WARP, sum, 1);
        return lane ? sum : 0;
    } else {
        typename cub::WarpScan<Sum>::TempStorage none;
        Sum sum;
        cub::WarpScan<Sum>(none).ExclusiveSum(v, sum);
        return sum;
    }
}

// Makes exclusive prefix sums over a warp's 128 columns. Column 0, which would be zero, holds the sum of all 128.
template<class Sum>
__device__ inline Vector4<Sum> columnPrefixes(const Sum (&sums)[4], unsigned lane) {
    const Sum two = sums[0] + sums[1], three = two + sums[2];
    const Sum before = exclusiveSum(three + sums[3]), total = __shfl_sync(FULL_WARP, before + three + sums[3], 31);
    return {{lane ? before : total, before + sums[0], before + two, before + three}};
}
// Undoes columnPrefixes() in place.
template<class Sum>
__device__ inline void columnDifferences(Sum (&v)[4], unsigned lane) {
    const Sum all = __shfl_sync(FULL_WARP, v[0], 0), next = __shfl_down_sync(FULL_WARP, v[0], 1);
    const Sum before[4] = {lane ? v[0] : 0, v[1], v[2], v[3]};
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
        v[i] = (i < 3 ? before[i + 1] : lane < 31 ? next : all) - before[i];
}

// ---- Row scans ------------------------------------------------------------------------------------------------------

// Keeps, for each of a warp's rows, the sum of the pixels of the lanes before this one; scan() also stores the rows'
// totals. Sums of 128 bytes fit 16 bits, so two rows share a word. Squares of bytes wait in shared memory during the
// look-back, since registers would spill.
template<class Pixel, bool SQUARES, int ROWS>
struct RowScan {
    static constexpr bool PAIRED = sizeof(Pixel) == 1 && !SQUARES, SHARED = sizeof(Pixel) == 1 && SQUARES;
    static constexpr int WORDS = PAIRED ? ROWS / 2 : ROWS, WORDS_AT_ONCE = SHARED ? 8 : WORDS;
    static constexpr int SHARED_WORDS = SHARED ? ROWS : 0; // 32-bit words of dynamic shared memory for each lane
    static_assert(WORDS % WORDS_AT_ONCE == 0, "");
    using Sum = typename Pixels4<Pixel>::Sum;
    using Total = std::conditional_t<PAIRED, uint16_t, Sum>; // a row's total
    Sum registers[SHARED ? 1 : WORDS];
    uint32_t *shared; // this lane's words of [row][lane]

    __device__ explicit RowScan(uint32_t *shared_) : shared(SHARED ? shared_ : nullptr) {}
    __device__ void scan(const PixelRows<Pixel> &rows, Total *totals, unsigned lane) {
#pragma unroll
        for (int first = 0; first < WORDS; first += WORDS_AT_ONCE) {
            Sum own[WORDS_AT_ONCE], before[WORDS_AT_ONCE];
#pragma unroll
            for (int k = 0; k < WORDS_AT_ONCE; ++k) {
                const int w = first + k;
                if constexpr (PAIRED)
                    own[k] = rows[2 * w].template sum<false>() + (rows[2 * w + 1].template sum<false>() << 16);
                else
                    own[k] = rows[w].template sum<SQUARES>();
            }
#pragma unroll
            for (int k = 0; k < WORDS_AT_ONCE; ++k) // the compiler interleaves the scans, which hides their latency
                before[k] = exclusiveSum(own[k]);
#pragma unroll
            for (int k = 0; k < WORDS_AT_ONCE; ++k) {
                const int w = first + k;
                if (lane == 31) {
                    const Sum total = before[k] + own[k];
                    totals[PAIRED ? 2 * w : w] = static_cast<Total>(total);
                    if constexpr (PAIRED)
                        totals[2 * w + 1] = static_cast<Total>(total >> 16);
                }
                if constexpr (SHARED)
                    shared[32 * w] = before[k];
                else
                    registers[w] = before[k];
            }
        }
    }
    __device__ Sum prefix(int k) const {
        if constexpr (PAIRED)
            return k % 2 ? registers[k / 2] >> 16 : registers[k / 2] & 0xffff;
        else if constexpr (SHARED)
            return shared[32 * k];
        else
            return registers[k];
    }
    template<int N>
    __device__ void drop() { // drops the first N rows: row N becomes row 0
        constexpr int DROPPED = PAIRED ? N / 2 : N;
        if constexpr (SHARED)
            shared += 32 * N;
        else
#pragma unroll
            for (int k = 0; k < WORDS - DROPPED; ++k)
                registers[k] = registers[k + DROPPED];
    }
};

} // namespace cusi::integral

#endif
