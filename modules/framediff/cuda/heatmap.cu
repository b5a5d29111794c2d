// Heatmap and noise view look up the color of each pixel by the summed difference of its channels.
#include "framediff/backend.h"
#include "framediff/cuda/tiles.cuh"

#include <algorithm>

namespace {

using cusi::framediff::TILE_PIXELS;

namespace tuning {
constexpr int THREADS = 128;                       // measured: docs/internals/framediff.md
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750 // 1024 resident threads at most
constexpr int BLOCKS_PER_SM = 8, UNALIGNED_BLOCKS_PER_SM = 8;
#else
constexpr int BLOCKS_PER_SM = 10, UNALIGNED_BLOCKS_PER_SM = 9;
#endif
constexpr int UNALIGNED_BLOCKS_OF_FOUR_CHANNELS = 8; // as many as registers allow
} // namespace tuning

constexpr int WARPS = tuning::THREADS / 32;

struct Pair {
    const unsigned char *prev, *cur;
    unsigned char *dst;
    size_t prev_step, cur_step, dst_step;
};
template<int PAIRS>
struct ColorizeParams {
    Pair pairs[PAIRS]; // of a batch, as many as fit a launch's parameters
    unsigned cols, tiles_per_row;
    unsigned long long tiles; // of a pair
};

// ---- Colors ----------------------------------------------------------------------------------------------------------

// Returns sin(pi p / q) for 0 <= p <= q by its series, reduced to an octant where doubles make it exact to the last digit.
// Tests compare every color with that of the C library's sine.
constexpr double sinePi(int p, int q) {
    constexpr double PI = 3.14159265358979323846;
    if (2 * p > q)
        p = q - p;
    const bool cosine = 4 * p > q; // sin x = cos(pi/2 - x)
    const double x = cosine ? PI * (q - 2 * p) / (2 * q) : PI * p / q;
    double term = cosine ? 1 : x, sum = term;
    for (int k = cosine ? 1 : 2; k < 24; k += 2) {
        term *= -x * x / (k * (k + 1));
        sum += term;
    }
    return sum;
}

constexpr FramediffPalette defaultPalette() {
    FramediffPalette palette = {};
    constexpr int FULL = FRAMEDIFF_LEVELS - 1;
    for (int d = 0; d <= FULL; ++d) {
        const double blue = 2 * d < FULL ? 255 * sinePi(FULL - 2 * d, 2 * FULL) : 0;
        const double red = 2 * d > FULL ? 255 * sinePi(2 * d - FULL, 2 * FULL) : 0;
        palette.color[d] = static_cast<uint32_t>(blue) | static_cast<uint32_t>(255 * sinePi(d, FULL)) << 8 |
                           static_cast<uint32_t>(red) << 16;
    }
    return palette;
}

// The palette is in device memory, initialized at compile time. As a kernel parameter, its 3 KB would be read serially,
// since every lane reads a different word; a launch would take about 4 us longer.
__device__ const FramediffPalette DEFAULT_PALETTE = defaultPalette();

// The three mappings from a summed difference to a color; `table` is in shared memory.
struct DefaultHeat {
    static constexpr bool TABLE = true;
    __device__ uint32_t operator()(const uint32_t *table, unsigned d) const { return table[d]; }
    __device__ uint32_t entry(int i) const { return DEFAULT_PALETTE.color[i]; }
};
struct CustomHeat : DefaultHeat {
    explicit CustomHeat(const FramediffPalette &colors) : palette(colors) {}
    __device__ uint32_t entry(int i) const { return palette.color[i]; }
    FramediffPalette palette;
};
struct Noise {
    static constexpr bool TABLE = false;
    unsigned threshold;
    __device__ uint32_t operator()(const uint32_t *, unsigned d) const { return d > threshold ? 0xff0000u : 0u; }
};

// ---- The kernel ------------------------------------------------------------------------------------------------------

// Sums the byte differences of each of four pixels.
template<int CN>
__device__ inline void sumDifferences(const uint32_t *words, unsigned *d) {
    if constexpr (CN == 1) {
        const uint32_t w = words[0];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            d[i] = 3 * (w >> (8 * i) & 255);
    } else if constexpr (CN == 3) {
        const uint32_t w0 = words[0], w1 = words[1], w2 = words[2];
        d[0] = __dp4a(w0, 0x00010101u, 0u);
        d[1] = __dp4a(w0, 0x01000000u, __dp4a(w1, 0x00000101u, 0u));
        d[2] = __dp4a(w1, 0x01010000u, __dp4a(w2, 0x00000001u, 0u));
        d[3] = __dp4a(w2, 0x01010100u, 0u);
    } else {
        const uint4 w = *reinterpret_cast<const uint4 *>(words);
        d[0] = __dp4a(w.x, 0x00010101u, 0u);
        d[1] = __dp4a(w.y, 0x00010101u, 0u);
        d[2] = __dp4a(w.z, 0x00010101u, 0u);
        d[3] = __dp4a(w.w, 0x00010101u, 0u);
    }
}

// Transposes the differences through the warp's shared memory and sums them: pixel 4 (lane + 32 j) + i to d[j][i].
template<int CN>
__device__ __forceinline__ void pixelDifferences(uint32_t *staged, const uint4 (&a)[CN], const uint4 (&b)[CN],
                                                 unsigned lane, unsigned (&d)[4][4]) {
#pragma unroll
    for (int k = 0; k < CN; ++k)
        reinterpret_cast<uint4 *>(staged)[lane + 32 * k] =
            make_uint4(__vabsdiffu4(a[k].x, b[k].x), __vabsdiffu4(a[k].y, b[k].y), __vabsdiffu4(a[k].z, b[k].z),
                       __vabsdiffu4(a[k].w, b[k].w));
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 4; ++j)
        sumDifferences<CN>(staged + CN * (lane + 32 * j), d[j]);
    __syncwarp();
}

// Writes the colors of the warp's 512 pixels to shared memory, packed in 3 bytes each.
template<class Colors>
__device__ __forceinline__ void packColors(uint32_t *staged, const Colors &colors, const uint32_t *table,
                                           const unsigned (&d)[4][4], unsigned lane) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const uint32_t c0 = colors(table, d[j][0]), c1 = colors(table, d[j][1]);
        const uint32_t c2 = colors(table, d[j][2]), c3 = colors(table, d[j][3]);
        uint32_t *out = staged + 3 * (lane + 32 * j);
        out[0] = c0 | c1 << 24;
        out[1] = c1 >> 8 | c2 << 16;
        out[2] = c2 >> 16 | c3 << 8;
    }
    __syncwarp();
}

// Stores bytes [first, last) of a tile's colors from shared memory. The tile begins at a multiple of 16 bytes.
__device__ __forceinline__ void storeColors(unsigned char *tile, const uint4 *shared, int first, int last, unsigned lane) {
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        const int at = 16 * static_cast<int>(lane + 32 * k);
        if (at >= first && at + 16 <= last)
            __stcs(reinterpret_cast<uint4 *>(tile + at), shared[lane + 32 * k]);
    }
    if ((first | last) & 15) {
        const int at = cusi::edgeByte(first, last, lane);
        if (at >= 0)
            tile[at] = reinterpret_cast<const unsigned char *>(shared)[at];
    }
}

// ALIGNED: all rows of the images begin at multiples of 16 bytes.
template<int CN, bool ALIGNED, class Colors, int PAIRS>
__global__ void __launch_bounds__(tuning::THREADS, ALIGNED  ? tuning::BLOCKS_PER_SM
                                                   : CN > 3 ? tuning::UNALIGNED_BLOCKS_OF_FOUR_CHANNELS
                                                            : tuning::UNALIGNED_BLOCKS_PER_SM)
    colorizeKernel(const ColorizeParams<PAIRS> params, const __grid_constant__ Colors colors) {
    constexpr int VECTORS = ALIGNED  ? 32 * (CN > 3 ? CN : 3)
                            : CN > 1 ? 32 * CN + 1
                                     : 96; // vectors of the frames and the colors
    __shared__ uint32_t table[Colors::TABLE ? FRAMEDIFF_LEVELS : 1];
    __shared__ uint4 staged[WARPS][VECTORS];

    // A thread's share of the table depends on no other kernel, so it is loaded before the previous kernel has finished.
    constexpr int ENTRIES = Colors::TABLE ? cusi::divUp(int{FRAMEDIFF_LEVELS}, tuning::THREADS) : 0;
    [[maybe_unused]] uint32_t entries[ENTRIES + 1];
    const auto index = [](int i) {
        return min(static_cast<int>(threadIdx.x) + i * tuning::THREADS, int{FRAMEDIFF_LEVELS} - 1);
    };
    if constexpr (Colors::TABLE)
#pragma unroll
        for (int i = 0; i < ENTRIES; ++i)
            entries[i] = colors.entry(index(i));
    cusi::startInOrder();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned long long tile = blockIdx.x * static_cast<unsigned long long>(WARPS) + warp;
    const unsigned long long y = tile / params.tiles_per_row;
    const Pair &pair = params.pairs[PAIRS > 1 ? blockIdx.y : 0];
    unsigned char *const row = pair.dst + y * pair.dst_step;
    // Since 3 * 5 = -1 modulo 16, the colors of the pixel this many before the row begin at a multiple of 16 bytes.
    const int before =
        ALIGNED ? 0 : static_cast<int>((16 - 5 * static_cast<unsigned>(reinterpret_cast<uintptr_t>(row) % 16)) % 16);
    const long long x = static_cast<long long>(tile - y * params.tiles_per_row) * TILE_PIXELS - before;
    const int begin = x < 0 ? before : 0;
    const int end =
        tile < params.tiles ? static_cast<int>(max(min(params.cols - x, 0ll + TILE_PIXELS), 0ll + begin)) : begin;

    uint4 *const mine = staged[warp];
    uint4 a[CN], b[CN];
    cusi::framediff::loadTiles<CN, ALIGNED>(pair.prev + static_cast<long long>(y * pair.prev_step) + x * CN,
                                            pair.cur + static_cast<long long>(y * pair.cur_step) + x * CN, begin, end, lane,
                                            mine, a, b);
    if constexpr (Colors::TABLE) {
#pragma unroll
        for (int i = 0; i < ENTRIES; ++i)
            table[index(i)] = entries[i];
        __syncthreads();
    }

    uint32_t *const words = reinterpret_cast<uint32_t *>(mine);
    unsigned d[4][4];
    pixelDifferences<CN>(words, a, b, lane, d);
    packColors(words, colors, table, d, lane);
    storeColors(row + 3 * x, mine, 3 * begin, 3 * end, lane);
}

// ---- Launches --------------------------------------------------------------------------------------------------------

template<bool ALIGNED, class Colors, int PAIRS>
auto kernelOf(int channels) {
    return channels == 1   ? colorizeKernel<1, ALIGNED, Colors, PAIRS>
           : channels == 3 ? colorizeKernel<3, ALIGNED, Colors, PAIRS>
                           : colorizeKernel<4, ALIGNED, Colors, PAIRS>;
}

template<int PAIRS, class Colors>
cusStatus launchColorize(const char *function, int count, const cusMat *prev, const cusMat *cur, const cusMat *dst,
                         const Colors &colors, cudaStream_t stream) {
    ColorizeParams<PAIRS> params = {};
    static_assert(sizeof params + sizeof colors <= 4000, "parameters of a launch");
    unsigned long long rows = static_cast<unsigned long long>(cur->rows);
    params.cols = static_cast<unsigned>(cur->cols);
    bool continuous = rows * params.cols <= 0x7fffffffu, aligned = true, starts_aligned = true;
    for (int i = 0; i < count; ++i) {
        params.pairs[i] = {static_cast<const unsigned char *>(prev[i].data),
                           static_cast<const unsigned char *>(cur[i].data),
                           static_cast<unsigned char *>(dst[i].data),
                           prev[i].step,
                           cur[i].step,
                           dst[i].step};
        for (const cusMat *const mat : {&prev[i], &cur[i], &dst[i]}) {
            continuous = continuous && cusi_isContinuous(mat);
            aligned = aligned && cusi::isAligned(*mat, 16);
            starts_aligned = starts_aligned && cusi::isAligned(mat->data, 0, 1, 16);
        }
    }
    if (continuous) { // frames without padding are one long row, so that only the last tile is short
        params.cols = static_cast<unsigned>(rows * params.cols);
        rows = 1;
        aligned = starts_aligned;
    }
    const unsigned before = aligned ? 0 : 15; // most pixels of a row's first tile that lie before the row
    params.tiles_per_row = cusi::divUp(params.cols + before, static_cast<unsigned>(TILE_PIXELS));
    params.tiles = rows * params.tiles_per_row;
    const int channels = CUS_CHANNELS(cur->type);
    const auto kernel = aligned ? kernelOf<true, Colors, PAIRS>(channels) : kernelOf<false, Colors, PAIRS>(channels);
    const unsigned long long blocks = cusi::divUp(params.tiles, 0ull + WARPS);
    CUSI_REQUIRE(blocks <= 0x7fffffffull, CUS_ERROR_SIZE,
                 "%s: %llu tiles of 512 pixels exceed the limit of one kernel launch", function, params.tiles);
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(count));
    return cusi::launchOverlapped(function, kernel, grid, tuning::THREADS, 0, stream, params, colors);
}

// A single pair has a kernel of its own, since more parameters take longer to launch.
template<class Heat>
cusStatus launchHeat(const char *function, int count, const cusMat *prev, const cusMat *cur, const cusMat *dst,
                     const Heat &heat, cudaStream_t stream) {
    constexpr int PAIRS = sizeof heat > 1000 ? 16 : 64;
    if (count == 1)
        return launchColorize<1>(function, 1, prev, cur, dst, heat, stream);
    for (int i = 0; i < count; i += PAIRS)
        CUS_TRY(launchColorize<PAIRS>(function, std::min(count - i, PAIRS), prev + i, cur + i, dst + i, heat, stream));
    return CUS_OK;
}

} // namespace

cusStatus framediff_cuda_colorize(const char *function, int count, const cusMat *prev, const cusMat *cur, cusMat *dst,
                                  const FramediffColorMap *map, cusStream stream) {
    if (map->full_scale == 0) // the noise view has no batches
        return launchColorize<1>(function, 1, prev, cur, dst, Noise{static_cast<unsigned>(map->threshold)}, stream);
    if (map->full_scale == FRAMEDIFF_LEVELS - 1)
        return launchHeat(function, count, prev, cur, dst, DefaultHeat{}, stream);
    return launchHeat(function, count, prev, cur, dst, CustomHeat{*map->palette}, stream);
}
