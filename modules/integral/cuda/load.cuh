// Loading a tile: each warp copies its rows of pixels to shared memory; a lane works on four neighboring columns.
#ifndef CUSI_INTEGRAL_LOAD_CUH
#define CUSI_INTEGRAL_LOAD_CUH

#include "cuda.cuh"
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
    __device__ Sum sum() const {
        return __dp4a(packed, SQUARES ? packed : 0x01010101u, 0u);
    }
    // sums[i]: start plus the pixels before i
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

    __device__ void loadPartial(const unsigned char *bytes, unsigned x, unsigned cols) {
        const float *row = reinterpret_cast<const float *>(bytes);
        v = make_float4(x < cols ? __ldg(row + x) : 0, x + 1 < cols ? __ldg(row + x + 1) : 0,
                        x + 2 < cols ? __ldg(row + x + 2) : 0, x + 3 < cols ? __ldg(row + x + 3) : 0);
    }
    template<bool SQUARES>
    __device__ static double value(float f) {
        return SQUARES ? static_cast<double>(f) * f : static_cast<double>(f);
    }
    template<bool SQUARES>
    __device__ void exclusiveScan(Sum start, Sum (&sums)[4]) const {
        sums[0] = start;
        sums[1] = start + value<SQUARES>(v.x);
        sums[2] = sums[1] + value<SQUARES>(v.y);
        sums[3] = sums[2] + value<SQUARES>(v.z);
    }
    template<bool SQUARES>
    __device__ Sum sum() const {
        return value<SQUARES>(v.x) + value<SQUARES>(v.y) + value<SQUARES>(v.z) + value<SQUARES>(v.w);
    }
};

// A lane's pixels of its warp's rows, in shared memory.
template<class Pixel>
struct PixelRows {
    const Pixels4<Pixel> *first_row;
    __device__ Pixels4<Pixel> operator[](unsigned k) const { return first_row[32 * k]; }
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

// An aligned word of pixels, 0 if it is not to be read; without a branch, so that loads follow each other closely. Neighboring
// warps share some words, so L1 may keep them; L2 need not.
__device__ __forceinline__ uint32_t loadPixelWord(const unsigned char *p, bool is_read) {
#if __CUDA_ARCH__ >= 800
    uint32_t word;
    asm volatile("{\n\t.reg .pred is_read;\n\t"
                 "setp.ne.u32 is_read, %3, 0;\n\t"
                 "mov.u32 %0, 0;\n\t"
                 "@is_read ld.global.nc.L2::cache_hint.u32 %0, [%1], %2;\n\t}"
                 : "=&r"(word)
                 : "l"(p), "l"(policyEvictFirst()), "r"(static_cast<uint32_t>(is_read)));
    return word;
#else
    return is_read ? __ldg(reinterpret_cast<const uint32_t *>(p)) : 0;
#endif
}

__device__ __forceinline__ const unsigned char *wordOf(const unsigned char *p) {
    return reinterpret_cast<const unsigned char *>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t{3});
}

// The pixels at the ends of a row whose aligned words reach beyond the row, up to three at each end: read byte by byte. The
// loads are started first, and what they bring is stored when the row's other pixels are.
struct RowEnds {
    static constexpr unsigned MAX_PIXELS = 3;
    unsigned heads, tail_start, tail_end; // pixels 0 .. heads - 1 and tail_start .. tail_end - 1
    unsigned char head[MAX_PIXELS], tail[MAX_PIXELS];

    // row: the warp's first pixel, which is the row's first if at_start; cols: pixels from there on; skew: of `row`.
    __device__ void load(const unsigned char *row, unsigned cols, unsigned skew, bool at_start) {
        const unsigned words_end = (cols + skew) & ~3u; // of the words inside the row, counted from the first word
        heads = at_start ? min(cols, (4 - skew) % 4) : 0;
        tail_start = words_end - min(words_end, skew);
        tail_end = min(cols, unsigned(WARP_COLS));
#pragma unroll
        for (unsigned i = 0; i < MAX_PIXELS; ++i) {
            if (i < heads)
                head[i] = __ldg(row + i);
            if (tail_start + i < tail_end)
                tail[i] = __ldg(row + tail_start + i);
        }
    }
    __device__ void store(unsigned char *to) const {
#pragma unroll
        for (unsigned i = 0; i < MAX_PIXELS; ++i) {
            if (i < heads)
                to[i] = head[i];
            if (tail_start + i < tail_end)
                to[tail_start + i] = tail[i];
        }
    }
};

// Bytes from any address: a lane loads one aligned word of each row, all rows in flight together, and shifts it together with
// the next lane's. Only words inside their row are read.
template<int ROWS>
__device__ __forceinline__ void loadRowsUnaligned(Pixels4<unsigned char> *to, const SlabParams &slab, unsigned x,
                                                  unsigned y, unsigned lane) {
    static_assert(ROWS <= 32, "a lane has the last word and the ends of a row");
    const unsigned cols = slab.cols - min(slab.cols, x), rows = cols > 0 ? slab.rows - min(slab.rows, y) : 0;
    const unsigned char *const start = slab.src + y * slab.step + x;
    const auto skew = [&](unsigned k) { // of row k: its distance from the word before
        return (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(start)) + k * static_cast<uint32_t>(slab.step)) & 3;
    };
    const bool has_row = lane < ROWS && lane < rows, has_ends = x == 0 || cols < WARP_COLS + 4;
    // The lane's word is inside its row if this begins min_skew .. min_skew + skews - 1 bytes after a word.
    const unsigned min_skew = 4 * lane + 4 - min(4 * lane + 4, cols), max_skew = x > 0 || lane > 0 ? 3 : 0,
                   skews = max_skew + 1 - min(max_skew + 1, min_skew);
    uint32_t words[ROWS];
#pragma unroll
    for (unsigned k = 0; k < ROWS; ++k)
        words[k] = loadPixelWord(wordOf(start + k * slab.step) + 4 * lane, (k < rows) & (skew(k) - min_skew < skews));
    const uint32_t last_word = // of row `lane`, and so are its ends
        loadPixelWord(wordOf(start + lane * slab.step) + WARP_COLS, has_row && WARP_COLS + 4 <= cols + skew(lane));
    RowEnds ends;
    if (has_ends && has_row)
        ends.load(start + lane * slab.step, cols, skew(lane), x == 0);
#pragma unroll
    for (unsigned k = 0; k < ROWS; ++k) {
        const uint32_t of_next_lane = __shfl_down_sync(FULL_WARP, words[k], 1), last = __shfl_sync(FULL_WARP, last_word, k);
        to[32 * k + lane].packed = __funnelshift_r(words[k], lane < 31 ? of_next_lane : last, 8 * skew(k));
    }
    __syncwarp();
    if (has_ends && has_row)
        ends.store(reinterpret_cast<unsigned char *>(to + 32 * lane));
}

// Starts copying columns x .. x + 127 of rows y .. y + ROWS - 1 to `to`, [row][lane], zero outside the image. `whole`: all
// are inside and aligned to 16 bytes.
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
        const bool aligned = slab.src_aligned16 && x + 4 * lane + 4 <= slab.cols;
        const unsigned cols = slab.cols - min(slab.cols, x);
#pragma unroll 4
        for (unsigned k = 0; k < ROWS; ++k, row += slab.step)
            if (aligned && y + k < slab.rows)
                __pipeline_memcpy_async(to + 32 * k + lane, row + 4 * lane * sizeof(Pixel), sizeof *to);
            else
                to[32 * k + lane].loadPartial(row, 4 * lane, y + k < slab.rows ? cols : 0);
    }
    __pipeline_commit();
}

} // namespace cusi::integral

#endif
