// Sums inside a tile: column sums of a warp's rows, prefix sums along its rows and over its columns.
#ifndef CUSI_INTEGRAL_SCAN_CUH
#define CUSI_INTEGRAL_SCAN_CUH

#include "integral/cuda/load.cuh"

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

    __device__ void add(const Pixels4<unsigned char> &pixels) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t p = pixels.packed >> (8 * i) & 255;
            sums[i] += p * p;
        }
    }
    __device__ void add(const Pixels4<float> &pixels) {
        sums[0] += Pixels4<float>::value<SQUARES>(pixels.v.x);
        sums[1] += Pixels4<float>::value<SQUARES>(pixels.v.y);
        sums[2] += Pixels4<float>::value<SQUARES>(pixels.v.z);
        sums[3] += Pixels4<float>::value<SQUARES>(pixels.v.w);
    }
    __device__ typename Pixels4<Pixel>::Sum operator[](int i) const {
        return sums[i];
    }
};

template<>
struct ColumnSums<unsigned char, false> {
    uint32_t even = 0, odd = 0; // two 16-bit sums each: up to 257 rows
    __device__ void add(const Pixels4<unsigned char> &pixels) {
        even += pixels.packed & 0x00ff00ffu;
        odd += pixels.packed >> 8 & 0x00ff00ffu;
    }
    __device__ uint32_t operator[](int i) const { return (i % 2 ? odd : even) >> (i / 2 * 16) & 0xffff; }
};

// ---- Scans over the lanes -------------------------------------------------------------------------------------------

// Exclusive prefix from the inclusive one. Subtracting is wrong for floats: the lane's own value may be NaN or infinite.
template<class Sum>
__device__ inline Sum toExclusive(Sum inclusive, Sum own, unsigned lane) {
    if constexpr (std::is_integral_v<Sum>) {
        return inclusive - own;
    } else {
        const Sum before = __shfl_up_sync(FULL_WARP, inclusive, 1);
        return lane ? before : Sum(0);
    }
}

// Exclusive prefix sums over a warp's 128 columns. Column 0, whose prefix would be zero, holds the sum of all 128 instead.
template<class Sum>
__device__ inline Vector4<Sum> columnPrefixes(const Sum (&sums)[4], unsigned lane) {
    const Sum two = sums[0] + sums[1], three = two + sums[2], all = three + sums[3];
    Sum inclusive[1] = {all};
    warpInclusiveScan(inclusive, lane);
    const Sum before = toExclusive(inclusive[0], all, lane), total = __shfl_sync(FULL_WARP, inclusive[0], 31);
    return {{lane ? before : total, before + sums[0], before + two, before + three}};
}
// The inverse of columnPrefixes(), in place.
template<class Sum>
__device__ inline void columnDifferences(Sum (&v)[4], unsigned lane) {
    const Sum all = __shfl_sync(FULL_WARP, v[0], 0), next = __shfl_down_sync(FULL_WARP, v[0], 1);
    const Sum before[4] = {lane ? v[0] : 0, v[1], v[2], v[3]};
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
        v[i] = (i < 3 ? before[i + 1] : lane < 31 ? next : all) - before[i];
}

// ---- Row scans ------------------------------------------------------------------------------------------------------

// For each of a warp's rows, the sum of the pixels of the lanes before this one; scan() also stores the rows' totals.
template<class Pixel, bool SQUARES, int ROWS>
struct RowScan {
    using Sum = typename Pixels4<Pixel>::Sum;
    using Total = Sum;                     // of a row
    static constexpr int SHARED_WORDS = 0; // 32-bit words of dynamic shared memory for each lane
    Sum prefixes[ROWS];

    __device__ explicit RowScan(uint32_t *) {}
    __device__ void scan(const PixelRows<Pixel> &rows, Total *totals, unsigned lane) {
        Sum inclusive[ROWS], own[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; ++k)
            inclusive[k] = own[k] = rows[k].template sum<SQUARES>();
        warpInclusiveScan(inclusive, lane);
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            if (lane == 31)
                totals[k] = inclusive[k];
            prefixes[k] = toExclusive(inclusive[k], own[k], lane);
        }
    }
    __device__ Sum prefix(int k) const {
        return prefixes[k];
    }
    template<int N>
    __device__ void drop() { // the first N rows: row N becomes row 0
#pragma unroll
        for (int k = 0; k < ROWS - N; ++k)
            prefixes[k] = prefixes[k + N];
    }
};

// Sums of 128 bytes fit 16 bits: two rows share a word.
template<int ROWS>
struct RowScan<unsigned char, false, ROWS> {
    using Total = uint16_t;
    static constexpr int SHARED_WORDS = 0;
    uint32_t pairs[ROWS / 2];

    __device__ explicit RowScan(uint32_t *) {}
    __device__ void scan(const PixelRows<unsigned char> &rows, Total *totals, unsigned lane) {
        uint32_t inclusive[ROWS / 2], own[ROWS / 2];
#pragma unroll
        for (int k = 0; k < ROWS / 2; ++k)
            inclusive[k] = own[k] = rows[2 * k].template sum<false>() + (rows[2 * k + 1].template sum<false>() << 16);
        warpInclusiveScan(inclusive, lane);
#pragma unroll
        for (int k = 0; k < ROWS / 2; ++k) {
            if (lane == 31) {
                totals[2 * k] = static_cast<Total>(inclusive[k]);
                totals[2 * k + 1] = static_cast<Total>(inclusive[k] >> 16);
            }
            pairs[k] = inclusive[k] - own[k];
        }
    }
    __device__ uint32_t prefix(int k) const {
        return k % 2 ? pairs[k / 2] >> 16 : pairs[k / 2] & 0xffff;
    }
    template<int N>
    __device__ void drop() {
#pragma unroll
        for (int k = 0; k < (ROWS - N) / 2; ++k)
            pairs[k] = pairs[k + N / 2];
    }
};

// Squares wait in shared memory during the look-back: registers would spill.
template<int ROWS>
struct RowScan<unsigned char, true, ROWS> {
    using Total = uint32_t;
    static constexpr int SHARED_WORDS = ROWS;
    uint32_t *prefixes; // the lane's, [row][lane]

    __device__ explicit RowScan(uint32_t *prefixes_) : prefixes(prefixes_) {}
    __device__ void scan(const PixelRows<unsigned char> &rows, Total *totals, unsigned lane) {
        constexpr int ROWS_AT_ONCE = 8;
        static_assert(ROWS % ROWS_AT_ONCE == 0, "");
#pragma unroll
        for (int first = 0; first < ROWS; first += ROWS_AT_ONCE) {
            uint32_t inclusive[ROWS_AT_ONCE], own[ROWS_AT_ONCE];
#pragma unroll
            for (int k = 0; k < ROWS_AT_ONCE; ++k)
                inclusive[k] = own[k] = rows[first + k].template sum<true>();
            warpInclusiveScan(inclusive, lane);
#pragma unroll
            for (int k = 0; k < ROWS_AT_ONCE; ++k) {
                if (lane == 31)
                    totals[first + k] = inclusive[k];
                prefixes[32 * (first + k)] = inclusive[k] - own[k];
            }
        }
    }
    __device__ uint32_t prefix(int k) const {
        return prefixes[32 * k];
    }
    template<int N>
    __device__ void drop() {
        prefixes += 32 * N;
    }
};

} // namespace cusi::integral

#endif
