// Window sums, made from the vertical sums of windows.cu, and the frame's energy. Both run in blocks of the column kernels,
// beside other work.
#ifndef CUSI_MATCH_WINDOWS_CUH
#define CUSI_MATCH_WINDOWS_CUH

#include "match/cuda/levels.cuh"

namespace cusi::match {

constexpr int SCAN_ITEMS = 4; // neighboring sums that a thread handles in sumWindowRow()

// Loads four vertical sums of 32 bits: unsigned for squares, otherwise signed.
__device__ __forceinline__ uint4 loadNarrowSums(const Windows &windows, size_t at) {
    return *reinterpret_cast<const uint4 *>(static_cast<const unsigned *>(windows.vertical) + at);
}
template<class Sum>
__device__ __forceinline__ void widen(const uint4 &four, unsigned sign, Sum (&v)[SCAN_ITEMS]) {
    const unsigned words[SCAN_ITEMS] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < SCAN_ITEMS; ++i)
        v[i] = static_cast<Sum>(static_cast<long long>(
            static_cast<unsigned long long>(sign & (static_cast<int>(words[i]) >> 31)) << 32 | words[i]));
}

// Makes inclusive prefix sums over the warp, which continue from `before`.
template<class Sum>
__device__ __forceinline__ void scanRow(Sum (&v)[SCAN_ITEMS], Sum &before, int lane) {
#pragma unroll
    for (int i = 1; i < SCAN_ITEMS; ++i)
        v[i] += v[i - 1];
    Sum end[1] = {v[SCAN_ITEMS - 1]};
    cusi::warpInclusiveScan(end, lane);
    const Sum mine = before + end[0] - v[SCAN_ITEMS - 1];
    before += __shfl_sync(cusi::FULL_WARP, end[0], 31);
#pragma unroll
    for (int i = 0; i < SCAN_ITEMS; ++i)
        v[i] += mine;
}

// Each warp makes one row of window sums as differences of the row's prefix sums. Rows of all quantities follow each other.
template<class T>
__device__ void sumWindowRow(const MatchModel &m, const Windows &windows, int block) {
    using Sum = typename SumTypes<T>::Sum;
    struct alignas(16) Two {
        Sum v[2];
    };
    constexpr int ITEMS = SCAN_ITEMS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, item = block * windows.rows_per_block + warp;
    if (warp >= windows.rows_per_block || item >= windows.quantities * m.orows)
        return;
    const unsigned sign = m.needs_s1 && item / m.orows < m.channels ? ~0u : 0; // squares use all 32 bits
    const size_t row = static_cast<size_t>(item) * windows.vertical_pitch;
    Sum *prefixes = windows.prefixes ? static_cast<Sum *>(windows.prefixes) + row
                                     : reinterpret_cast<Sum *>(shared_points) + warp * windows.vertical_pitch;
    const bool narrow = sizeof(T) == 1 && !windows.wide;
    Sum before = 0;
    uint4 four = {};
    if (narrow && ITEMS * lane < m.cols)
        four = loadNarrowSums(windows, row + ITEMS * lane);
    for (int x = ITEMS * lane; x - ITEMS * lane < m.cols; x += 32 * ITEMS) {
        Sum v[ITEMS] = {};
        if (narrow) {
            widen(four, sign, v);
            four = {};
            if (x + 32 * ITEMS < m.cols)
                four = loadNarrowSums(windows, row + x + 32 * ITEMS);
        } else if (x < m.cols) {
#pragma unroll
            for (int i = 0; i < ITEMS; ++i)
                v[i] = static_cast<const Sum *>(windows.vertical)[row + x + i];
        }
        scanRow(v, before, lane);
        if (x < m.cols) {
#pragma unroll
            for (int i = 0; i < ITEMS; i += 2)
                *reinterpret_cast<Two *>(prefixes + x + i) = {v[i], v[i + 1]};
        }
    }
    __syncwarp();
    Sum *out = static_cast<Sum *>(windows.sums) + static_cast<size_t>(item) * m.ocols;
    const Sum *ends = prefixes + m.w - 1;
#pragma unroll 4
    for (int x = lane; x < m.ocols; x += 32)
        out[x] = ends[x] - (x ? prefixes[x - 1] : 0);
}

// Reads the sums of the window at (y, x) that the method needs.
template<class T, bool SQUARES_ONLY = false>
__device__ void windowAt(const MatchModel &m, const Windows &windows, int y, int x, double *s1, double &s2) {
    using Sum = typename SumTypes<T>::Sum;
    const size_t plane = static_cast<size_t>(m.orows) * m.ocols;
    const Sum *at = static_cast<const Sum *>(windows.sums) + static_cast<size_t>(y) * m.ocols + x;
    int q = 0;
    if constexpr (SQUARES_ONLY) {
        s2 = static_cast<double>(at[0]);
        return;
    }
    if (m.needs_s1)
        for (; q < m.channels; ++q)
            s1[q] = static_cast<double>(at[q * plane]);
    s2 = m.needs_s2 ? static_cast<double>(at[q * plane]) : 0;
}

// Adds up the frame's energy from its parts, in a fixed order, and sets the templates' error bounds. shift: frameShift().
__device__ inline void addEnergy(const MatchModel &m, const Templates &templates, const Energy &energy,
                                 const double *shift) {
    for (int p = 0; p < m.channels; ++p) {
        double sum = 0;
        for (int i = threadIdx.x; i < energy.part_count; i += blockDim.x)
            sum += energy.parts[static_cast<size_t>(p) * energy.part_count + i];
        sum = cusi::blockSumToFirst(sum);
        if (threadIdx.x == 0)
            energy.channels[p] = sum;
    }
    const int level = hasLevels(m, energy) ? leastLevel(m, energy) : 0;
    __syncthreads();
    for (int k = threadIdx.x; k < m.count; k += blockDim.x)
        energy.errors[k] = match_error(&m, &templates.sums[k], shift, energy.channels, ldexp(1.0, -level));
}

} // namespace cusi::match

#endif
