// Exact sums and costs of single positions, from the pixels.
#ifndef CUSI_MATCH_EXACT_CUH
#define CUSI_MATCH_EXACT_CUH

#include "match_windows.cuh"

namespace match {

// Sums over a part of one window. 8-bit: the squared differences for SQDIFF, else the products. Floats: both, and the
// window's own sums.
template<class T>
struct PartialSums {
    unsigned long long sum = 0;
    __device__ void add(const PartialSums &other) { sum += other.sum; }
    __device__ void addLaneBelow(int d) { sum += __shfl_down_sync(cusi::FULL_WARP, sum, d); }
};
template<>
struct PartialSums<float> {
    double ssd = 0, c = 0, s1 = 0, s2 = 0;
    __device__ void add(const PartialSums &other) { ssd += other.ssd, c += other.c, s1 += other.s1, s2 += other.s2; }
    __device__ void addLaneBelow(int d) {
        ssd += __shfl_down_sync(cusi::FULL_WARP, ssd, d);
        c += __shfl_down_sync(cusi::FULL_WARP, c, d);
        s1 += __shfl_down_sync(cusi::FULL_WARP, s1, d);
        s2 += __shfl_down_sync(cusi::FULL_WARP, s2, d);
    }
};

// Over the warp or the block, valid in the first lane or thread only.
template<class T>
__device__ __forceinline__ void warpSumToFirst(PartialSums<T> &part) {
    for (int d = 16; d; d /= 2)
        part.addLaneBelow(d);
}
template<class T, int COUNT = WARPS>
__device__ PartialSums<T> blockSumToFirst(PartialSums<T> part) {
    __shared__ PartialSums<T> warps[COUNT];
    warpSumToFirst(part);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = part;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < COUNT; ++w)
            part.add(warps[w]);
    return part;
}

// 16 bytes at any address in a row that continues for `left` bytes, at least one; bytes beyond its end are arbitrary. Only
// words that lie in the row or share an aligned word with it are read, without branches, so that the loads of several calls
// overlap.
struct Unaligned16 {
    uint32_t words[5];
    unsigned shift;

    __device__ void load(const unsigned char *p, int left) {
        const uintptr_t address = reinterpret_cast<uintptr_t>(p);
        const uint32_t *at = reinterpret_cast<const uint32_t *>(address & ~uintptr_t{3});
        const int last = (static_cast<int>(address & 3) + min(left, 16) - 1) / 4;
#pragma unroll
        for (int i = 0; i < 5; ++i)
            words[i] = __ldg(at + min(i, last));
        shift = static_cast<unsigned>(address & 3) * 8;
    }
    __device__ uint32_t operator[](int i) const {
        return __funnelshift_r(words[i], words[i + 1], shift);
    }
};

// Units `first`, `first` + `stride`, ... of a window's rows from j0 on, with `units` units a row.
struct UnitCursor {
    int j, unit;
    const int units, down, along;
    __device__ UnitCursor(int units_, int j0, int first, int stride)
        : j(j0 + first / units_), unit(first % units_), units(units_), down(stride / units_), along(stride % units_) {}
    __device__ void next() {
        j += down;
        unit += along;
        if (unit >= units) {
            unit -= units;
            ++j;
        }
    }
};

// Product of 16 bytes of a window with the template's, or for SQDIFF the sum of their squared differences. Only the first
// `left` bytes count.
__device__ __forceinline__ uint32_t multiply16(const Unaligned16 &pixels, const uint4 &templ, const uint4 &mask,
                                               bool masked, int left, bool squared) {
    const uint32_t t[4] = {templ.x, templ.y, templ.z, templ.w};
    const uint32_t kept[4] = {mask.x, mask.y, mask.z, mask.w};
    uint32_t sum = 0, product = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int bytes = left - 4 * i;
        const uint32_t inside = bytes >= 4 ? ~0u : bytes <= 0 ? 0 : (1u << (8 * bytes)) - 1;
        const uint32_t a = pixels[i] & inside & (masked ? kept[i] : ~0u), b = t[i] & inside;
        product = __dp4a(a, b, product);
        if (squared)
            sum = __dp4a(b, b, __dp4a(a, a, sum));
    }
    return squared ? sum - 2 * product : product;
}

// Part of the window at (y, x) of template k: rows j0 .. j1 - 1, units `first`, `first` + `stride`, ... of them. A unit is
// 16 bytes or one float. Templates and masks are zero-padded.
struct WindowPart {
    int k, y, x, j0, j1, first, stride;
};

__device__ __forceinline__ PartialSums<uint8_t> sumBytes(const MatchModel &m, const Frame &frame,
                                                         const Templates &templates, const WindowPart &w) {
    constexpr int UNROLL = 4;
    PartialSums<uint8_t> part;
    const int row = m.w * m.channels, rest = (m.cols - w.x) * m.channels; // of the window, of the frame
    UnitCursor at(cusi::divUp(row, 16), w.j0, w.first, w.stride);
    while (at.j < w.j1) {
        Unaligned16 pixels[UNROLL];
        uint4 templ[UNROLL], mask[UNROLL];
        int left[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const bool busy = at.j < w.j1;
            const int line = busy ? at.j : w.j0, unit = busy ? at.unit : 0;
            const unsigned char *a = cusi::rowOf(static_cast<const unsigned char *>(frame.data), frame.step, w.y + line) +
                                     static_cast<size_t>(w.x) * m.channels;
            const unsigned char *b = templates.pixels + w.k * templates.bytes + line * templates.step;
            pixels[u].load(a + 16 * unit, rest - 16 * unit);
            templ[u] = __ldg(reinterpret_cast<const uint4 *>(b) + unit);
            if (templates.mask)
                mask[u] = __ldg(reinterpret_cast<const uint4 *>(templates.mask + line * templates.mask_step) + unit);
            left[u] = busy ? row - 16 * unit : 0;
            at.next();
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            part.sum +=
                multiply16(pixels[u], templ[u], mask[u], templates.mask != nullptr, left[u], m.method == CUS_MATCH_SQDIFF);
    }
    return part;
}

__device__ __forceinline__ PartialSums<float> sumFloats(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                        const WindowPart &w) {
    PartialSums<float> part;
    UnitCursor at(m.w * m.channels, w.j0, w.first, w.stride);
    while (at.j < w.j1) {
        if (!templates.mask || templates.mask[at.j * templates.mask_step + at.unit]) {
            const float *a = cusi::rowOf(static_cast<const float *>(frame.data), frame.step, w.y + at.j) + w.x;
            const double pixel = a[at.unit];
            const double templ =
                reinterpret_cast<const float *>(templates.pixels + w.k * templates.bytes + at.j * templates.step)[at.unit];
            const double sa = pixel - m.shift[0], sb = templ - m.shift[0];
            part.ssd += (pixel - templ) * (pixel - templ);
            part.c += m.masked ? pixel * templ : sa * sb;
            part.s1 += sa;
            part.s2 += sa * sa;
        }
        at.next();
    }
    return part;
}

template<class T>
__device__ __forceinline__ PartialSums<T> sumWindowPart(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                        const WindowPart &part) {
    if constexpr (sizeof(T) == 1)
        return sumBytes(m, frame, templates, part);
    else
        return sumFloats(m, frame, templates, part);
}

// The cost from a window's exact sums; the window sums of 8-bit pixels are in memory.
template<class T>
__device__ double exactCost(const MatchModel &m, const Templates &templates, const Windows &windows, int k, int y, int x,
                            const PartialSums<T> &part) {
    const MatchTemplate &t = templates.sums[k];
    double score;
    if constexpr (sizeof(T) == 1) {
        const double sum = static_cast<double>(part.sum);
        if (m.masked || m.method == CUS_MATCH_SQDIFF) {
            score = match_score(&m, &t, sum, nullptr, 0, sum);
        } else {
            double s1[3] = {0, 0, 0}, s2 = 0, c = sum; // all integers below 2^53
            windowAt<T>(m, windows, y, x, s1, s2);
            for (int i = 0; i < m.channels; ++i)
                c -= m.shift[i] * (s1[i] + t.raw_t1[i]);
            score = match_score(&m, &t, c, s1, s2, s2 - 2 * c + t.t2);
        }
    } else {
        score = match_score(&m, &t, part.c, &part.s1, part.s2, part.ssd);
    }
    return match_smallestIsBest(m.method) ? score : -score;
}

// The exact cost from the exact correlation of the shifted pixels; masked: with maskedConstant().
template<class T>
__device__ double costOf(const MatchModel &m, const MatchTemplate &t, const Windows &windows, int y, int x, double c) {
    double s1[3] = {0, 0, 0}, s2 = 0, ssd = c + t.t2;
    if (!m.masked) {
        windowAt<T>(m, windows, y, x, s1, s2);
        ssd = s2 - 2 * c + t.t2;
    }
    const double score = match_score(&m, &t, c, s1, s2, ssd);
    return match_smallestIsBest(m.method) ? score : -score;
}

} // namespace match

#endif
