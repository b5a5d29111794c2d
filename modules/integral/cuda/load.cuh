// Loads a tile: each warp copies its rows of pixels to shared memory; a lane works on four neighboring columns.
#ifndef CUSI_INTEGRAL_LOAD_CUH
#define CUSI_INTEGRAL_LOAD_CUH

#include "cuda.cuh"
#include "integral/backend.h"
#include "integral/cuda/tile.cuh"

#include <cuda_pipeline.h>

namespace cusi::integral {

// Pixels x .. x + 3 of a row, zero past its end. Sums of bytes or their squares over a warp's 128 columns fit 32 bits.
template<class Pixel>
struct Pixels4;

template<>
struct Pixels4<unsigned char> {
    using Sum = uint32_t;
    uint32_t packed;

    template<bool SQUARES>
    __device__ Sum value(int i) const {
        const uint32_t pixel = packed >> (8 * i) & 255;
        return SQUARES ? pixel * pixel : pixel;
    }
    template<bool SQUARES>
    __device__ Sum sum() const {
        return __dp4a(packed, SQUARES ? packed : 0x01010101u, 0u);
    }
    // Sets sums[i] to start plus the pixels before i.
    template<bool SQUARES>
    __device__ void exclusiveScan(Sum start, Sum (&sums)[4]) const {
        sums[0] = start;
        sums[1] = __dp4a(packed, SQUARES ? packed & 0x000000ffu : 0x00000001u, start);
        sums[2] = __dp4a(packed, SQUARES ? packed & 0x0000ffffu : 0x00000101u, start);
        sums[3] = __dp4a(packed, SQUARES ? packed & 0x00ffffffu : 0x00010101u, start);
    }
};

template<>
struct Pixels4<float> {
    using Sum = double;
    float4 v;

    template<bool SQUARES>
    __device__ Sum value(int i) const {
        const double pixel = i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
        return SQUARES ? pixel * pixel : pixel;
    }
    template<bool SQUARES>
    __device__ Sum sum() const {
        return value<SQUARES>(0) + value<SQUARES>(1) + value<SQUARES>(2) + value<SQUARES>(3);
    }
    template<bool SQUARES>
    __device__ void exclusiveScan(Sum start, Sum (&sums)[4]) const {
        sums[0] = start;
        sums[1] = start + value<SQUARES>(0);
        sums[2] = sums[1] + value<SQUARES>(1);
        sums[3] = sums[2] + value<SQUARES>(2);
    }
};

template<>
struct Pixels4<GridFloat> {
    using Sum = int64_t;
    float4 v;
};

// Four pixels that become integers: the product with a power of two is exact, the addition rounds.
struct GridPixels {
    float4 v;
    int scales[2]; // upper halves of powers of two, for values and for squares

    template<bool SQUARES>
    __device__ int64_t value(int i) const {
        const double pixel = i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w, scale = __hiloint2double(scales[SQUARES], 0);
        return __double_as_longlong(fma(SQUARES ? pixel * pixel : pixel, scale, INTEGRAL_MAGIC)) -
               __double_as_longlong(INTEGRAL_MAGIC);
    }
    template<bool SQUARES>
    __device__ int64_t sum() const {
        return value<SQUARES>(0) + value<SQUARES>(1) + value<SQUARES>(2) + value<SQUARES>(3);
    }
    template<bool SQUARES>
    __device__ void exclusiveScan(int64_t start, int64_t (&sums)[4]) const {
        sums[0] = start;
        sums[1] = start + value<SQUARES>(0);
        sums[2] = sums[1] + value<SQUARES>(1);
        sums[3] = sums[2] + value<SQUARES>(2);
    }
};

// A lane's pixels of its warp's rows, in shared memory.
template<class Pixel>
struct PixelRows {
    const Pixels4<Pixel> *first_row;
    __device__ PixelRows(const Pixels4<Pixel> *first_row_, const SlabParams &, unsigned) : first_row(first_row_) {}
    __device__ Pixels4<Pixel> operator[](unsigned k) const { return first_row[32 * k]; }
};

template<>
struct PixelRows<GridFloat> {
    const Pixels4<GridFloat> *first_row;
    float magnitude;
    int scales[2];

    __device__ PixelRows(const Pixels4<GridFloat> *first_row_, const SlabParams &slab, unsigned channel)
        : first_row(first_row_), magnitude(magnitudeOf(slab, channel)) {
        for (int i = 0; i < 2; ++i)
            scales[i] = upperHalf(integral_gridScale(slab.grid_bits, magnitude, i));
    }
    __device__ static float magnitudeOf(const SlabParams &slab, unsigned channel) {
        return slab.range > 0 ? slab.range : __uint_as_float(__ldcg(slab.state->grid.magnitudes + channel));
    }
    __device__ static int upperHalf(double v) { return __double2hiint(v); }
    __device__ GridPixels operator[](unsigned k) const { return {first_row[32 * k].v, {scales[0], scales[1]}}; }
    template<bool SQUARES>
    __device__ double unit() const { // one over the scale
        return __hiloint2double(0x7fe00000 - scales[SQUARES], 0);
    }
    // Returns whether one of four pixels is beyond the range, infinite or NaN.
    __device__ bool anyOutside(unsigned k) const {
        const float4 v = first_row[32 * k].v;
        return !(fabsf(v.x) <= magnitude && fabsf(v.y) <= magnitude && fabsf(v.z) <= magnitude && fabsf(v.w) <= magnitude);
    }
};

// Starts copying 16 bytes of pixels to shared memory. They are read once, so L2 need not keep them.
__device__ inline void copyPixels16(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from), "l"(policyEvictFirst())
                 : "memory");
#else
    __pipeline_memcpy_async(to, from, 16);
#endif
}

// Loads an aligned word of pixels, or returns 0, without a branch so that loads follow each other closely. Neighboring
// warps share some words, so L1 may keep them; L2 need not.
__device__ __forceinline__ uint32_t loadPixelWord(const unsigned char *p, bool is_read) {
#if __CUDA_ARCH__ >= 800
    uint32_t word = 0;
    asm volatile("{\n\t.reg .pred is_read;\n\t"
                 "setp.ne.u32 is_read, %3, 0;\n\t"
                 "@is_read ld.global.nc.L2::cache_hint.u32 %0, [%1], %2;\n\t}"
                 : "+r"(word)
                 : "l"(p), "l"(policyEvictFirst()), "r"(static_cast<uint32_t>(is_read)));
    return word;
#else
    return is_read ? __ldg(reinterpret_cast<const uint32_t *>(p)) : 0;
#endif
}

__device__ __forceinline__ const unsigned char *wordOf(const unsigned char *p) {
    return reinterpret_cast<const unsigned char *>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t{3});
}

// Loads bytes from any address: a lane loads one aligned word of each row, all rows in flight together, and shifts it into
// place with the next lane's word. Only words inside their row are read.
template<int ROWS>
__device__ __forceinline__ void loadRowsUnaligned(Pixels4<unsigned char> *to, const SlabParams &slab, unsigned x,
                                                  unsigned y, unsigned lane) {
    static_assert(ROWS <= 32, "a lane has the last word and the ends of a row");
    const unsigned cols = slab.cols - min(slab.cols, x), rows = cols > 0 ? slab.rows - min(slab.rows, y) : 0;
    const unsigned char *const start = slab.src + y * slab.step + x;
    const auto skew = [&](unsigned k) { // distance of row k from the word boundary before it
        return (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(start)) + k * static_cast<uint32_t>(slab.step)) & 3;
    };
    const bool has_row = lane < ROWS && lane < rows, has_ends = x == 0 || cols < WARP_COLS + 4;
    // The lane's word is inside its row if the row begins min_skew .. min_skew + skews - 1 bytes after a word boundary.
    const unsigned min_skew = 4 * lane + 4 - min(4 * lane + 4, cols), max_skew = x > 0 || lane > 0 ? 3 : 0,
                   skews = max_skew + 1 - min(max_skew + 1, min_skew);
    uint32_t words[ROWS];
#pragma unroll
    for (unsigned k = 0; k < ROWS; ++k)
        words[k] = loadPixelWord(wordOf(start + k * slab.step) + 4 * lane, (k < rows) & (skew(k) - min_skew < skews));
    const uint32_t last_word = // for row `lane`
        loadPixelWord(wordOf(start + lane * slab.step) + WARP_COLS, has_row && WARP_COLS + 4 <= cols + skew(lane));
    // Up to three pixels at each end of row `lane` share a word with bytes beyond it: they are loaded byte by byte first,
    // and stored last.
    const unsigned words_end = (cols + skew(lane)) & ~3u, heads = x == 0 ? min(cols, (4 - skew(lane)) % 4) : 0,
                   tail = words_end - min(words_end, skew(lane)), tail_end = min(cols, unsigned(WARP_COLS));
    const auto forEnds = [&](auto act) {
        if (has_ends && has_row)
#pragma unroll
            for (unsigned i = 0; i < 3; ++i) {
                if (i < heads)
                    act(i, i);
                if (tail + i < tail_end)
                    act(3 + i, tail + i);
            }
    };
    unsigned char ends[6];
    forEnds([&](unsigned i, unsigned pixel) { ends[i] = __ldg(start + lane * slab.step + pixel); });
#pragma unroll
    for (unsigned k = 0; k < ROWS; ++k) {
        const uint32_t of_next_lane = __shfl_down_sync(FULL_WARP, words[k], 1), last = __shfl_sync(FULL_WARP, last_word, k);
        to[32 * k + lane].packed = __funnelshift_r(words[k], lane < 31 ? of_next_lane : last, 8 * skew(k));
    }
    __syncwarp();
    forEnds([&](unsigned i, unsigned pixel) { reinterpret_cast<unsigned char *>(to + 32 * lane)[pixel] = ends[i]; });
}

// Starts copying columns x .. x + 127 of rows y .. y + ROWS - 1 to `to`, [row][lane], zero outside the image.
// `whole`: all of them are inside and aligned to 16 bytes.
template<int ROWS, class Pixel>
__device__ inline void loadRows(Pixels4<Pixel> *to, const SlabParams &slab, unsigned x, unsigned y, unsigned lane,
                                bool whole) {
    const unsigned char *row = slab.src + y * slab.step + x * sizeof(Pixel);
    if (whole) {
        constexpr unsigned LANES_PER_ROW = WARP_COLS * sizeof(Pixel) / 16, ROWS_AT_ONCE = 32 / LANES_PER_ROW;
        row += lane / LANES_PER_ROW * slab.step + lane % LANES_PER_ROW * 16;
#pragma unroll
        for (unsigned k = 0; k < ROWS; k += ROWS_AT_ONCE, row += ROWS_AT_ONCE * slab.step)
            copyPixels16(reinterpret_cast<char *>(to + 32 * k) + 16 * lane, row);
    } else if constexpr (sizeof(Pixel) == 1) {
        loadRowsUnaligned<ROWS>(to, slab, x, y, lane);
    } else {
        const auto pixel = [&](unsigned k, unsigned i) {
            return y + k < slab.rows && x + 4 * lane + i < slab.cols
                       ? __ldg(reinterpret_cast<const float *>(row) + 4 * lane + i)
                       : 0.0f;
        };
#pragma unroll 4
        for (unsigned k = 0; k < ROWS; ++k, row += slab.step)
            to[32 * k + lane].v = make_float4(pixel(k, 0), pixel(k, 1), pixel(k, 2), pixel(k, 3));
    }
    __pipeline_commit();
}

// Loads one channel of interleaved pixels, one by one. Other blocks read the channels between, so caches keep them.
template<int ROWS, class Pixel>
__device__ inline void loadRowsOfChannel(Pixels4<Pixel> *to, const SlabParams &slab, unsigned channels, unsigned channel,
                                         unsigned x, unsigned y, unsigned lane) {
    x += 4 * lane;
    using Value = std::conditional_t<sizeof(Pixel) == 1, unsigned char, float>;
    const Value *row = rowOf(reinterpret_cast<const Value *>(slab.src), slab.step, y) + x * channels + channel;
#pragma unroll
    for (unsigned k = 0; k < ROWS; ++k, row = rowOf(row, slab.step, 1)) {
        const auto pixel = [&](unsigned i) {
            return y + k < slab.rows && x + i < slab.cols ? __ldg(row + i * channels) : Value(0);
        };
        if constexpr (sizeof(Pixel) == 1)
            to[32 * k + lane].packed = pixel(0) | pixel(1) << 8 | pixel(2) << 16 | static_cast<uint32_t>(pixel(3)) << 24;
        else
            to[32 * k + lane].v = make_float4(pixel(0), pixel(1), pixel(2), pixel(3));
    }
}

} // namespace cusi::integral

#endif
