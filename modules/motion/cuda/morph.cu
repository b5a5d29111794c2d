// Erosion and dilation on the GPU: a block has a tile of 8 x 32 words of a mask and, in shared memory, what surrounds it. Also labels
// the components of the tile, so that paths in global memory are as long as a component has tiles, not rows.
#include "motion/cuda/runs.cuh"

namespace cusi::motion {
namespace {

constexpr int MOST = 8;                             // erosion, dilation
constexpr int ROWS = TILE_ROWS + 2 * (MOST + MOST); // of a tile with what surrounds it
constexpr int WORDS = TILE_WORDS + 2;
static_assert(2 * MOST <= 32, "one word on each side is enough");

using Tile = uint32_t[ROWS][WORDS];

struct Window {
    int radius;
    bool erodes;

    __device__ __forceinline__ uint32_t combine(uint32_t a, uint32_t b) const { return erodes ? a & b : a | b; }
    // What is outside does not count.
    __device__ __forceinline__ uint32_t outside() const { return erodes ? ~0u : 0; }
};

__device__ __forceinline__ void alongRows(const Tile &in, Tile &out, int rows, Window window) {
    for (int i = static_cast<int>(threadIdx.x); i < rows * WORDS; i += THREADS) {
        const int y = i / WORDS, x = i % WORDS;
        const uint32_t here = in[y][x], before = x > 0 ? in[y][x - 1] : window.outside(),
                       after = x + 1 < WORDS ? in[y][x + 1] : window.outside();
        uint32_t all = here;
        for (int k = 1; k <= window.radius; ++k)
            all = window.combine(all, window.combine(here << k | before >> (32 - k), here >> k | after << (32 - k)));
        out[y][x] = all;
    }
    __syncthreads();
}

__device__ __forceinline__ uint32_t acrossRows(const Tile &in, int rows, int y, int x, Window window) {
    uint32_t all = in[y][x];
    for (int k = max(0, y - window.radius); k <= min(rows - 1, y + window.radius); ++k)
        all = window.combine(all, in[k][x]);
    return all;
}

// The bits that are pixels of word x of row y, which may be outside of the frame.
__device__ __forceinline__ uint32_t pixelsOf(const Detector &d, int y, int x) {
    const bool inside = y >= 0 && y < d.model.rows && x >= 0 && x < static_cast<int>(d.words);
    return inside ? validBits(d, static_cast<unsigned>(x)) : 0;
}

// Labels the components within a tile, whose first word in the frame is `first`: the parent of each run is the first one of its
// component. All threads of the block call it, each with the bits of its word.
__device__ __forceinline__ void labelTile(const Detector &d, size_t plane, uint32_t first, uint32_t bits) {
    __shared__ uint32_t words[THREADS], parents[THREADS * NODES];
    const uint32_t here = threadIdx.x, x = here % TILE_WORDS;
    const bool has_left = x > 0, has_up = here >= TILE_WORDS;
    words[here] = bits;
    for (uint32_t rest = bits; rest;) {
        const uint32_t node = nodeAt(here, takeRun(rest).first);
        parents[node] = node;
    }
    __syncthreads();
    joinRuns(parents, words, here, TILE_WORDS,
             {has_left, has_left && has_up, has_up, has_up && x + 1 < static_cast<uint32_t>(TILE_WORDS)});
    __syncthreads();
    const auto inFrame = [&](uint32_t node) {
        const uint32_t word = node / NODES;
        return (first + word / TILE_WORDS * d.words + word % TILE_WORDS) * NODES + node % NODES;
    };
    for (uint32_t rest = bits; rest;) {
        const uint32_t node = nodeAt(here, takeRun(rest).first), root = rootOf(parents, node);
        d.planes.parents[plane * NODES + inFrame(node)] = inFrame(root);
        if (root == node)
            d.planes.areas[plane * NODES + inFrame(node)] = 0;
    }
}

__global__ void __launch_bounds__(THREADS) morphKernel(const Detector d) {
    startInOrder();
    if (!d.cameras[blockIdx.z].active)
        return;
    __shared__ Tile a, b;
    const int erode = d.model.options.erode, dilate = d.model.options.dilate, around = erode + dilate;
    const int rows = TILE_ROWS + 2 * around;
    const int left = static_cast<int>(blockIdx.x) * TILE_WORDS, top = static_cast<int>(blockIdx.y) * TILE_ROWS;
    const size_t plane = blockIdx.z * d.planeWords();
    uint32_t any = 0;
    if (looks(d, blockIdx.z))
        for (int i = static_cast<int>(threadIdx.x); i < rows * WORDS; i += THREADS) {
            const int y = top - around + i / WORDS, x = left - 1 + i % WORDS;
            const uint32_t pixels = pixelsOf(d, y, x);
            const uint32_t bits =
                pixels ? d.planes.moving[plane + static_cast<size_t>(y) * d.words + static_cast<size_t>(x)] : 0;
            any |= bits;
            a[i / WORDS][i % WORDS] = erode > 0 ? bits | ~pixels : bits;
        }
    const bool is_set = __syncthreads_or(any != 0);
    if (is_set && erode > 0) {
        const Window window = {erode, true};
        alongRows(a, b, rows, window);
        for (int i = static_cast<int>(threadIdx.x); i < rows * WORDS; i += THREADS)
            a[i / WORDS][i % WORDS] = acrossRows(b, rows, i / WORDS, i % WORDS, window) &
                                      pixelsOf(d, top - around + i / WORDS, left - 1 + i % WORDS);
        __syncthreads();
    }
    const int y = static_cast<int>(threadIdx.x) / TILE_WORDS, x = static_cast<int>(threadIdx.x) % TILE_WORDS;
    uint32_t bits = 0;
    if (is_set) {
        const Window window = {dilate, false};
        alongRows(a, b, rows, window);
        bits = acrossRows(b, rows, y + around, x + 1, window) & pixelsOf(d, top + y, left + x);
    }
    const uint32_t first = static_cast<uint32_t>(top) * d.words + static_cast<uint32_t>(left);
    if (pixelsOf(d, top + y, left + x))
        d.planes.mask[plane + first + static_cast<uint32_t>(y) * d.words + static_cast<uint32_t>(x)] = bits;
    if (is_set)
        labelTile(d, plane, first, bits);
}

} // namespace

cusStatus morph(const char *function, const Detector &d, cudaStream_t stream) {
    return launchOverlapped(function, morphKernel, tiles(d), THREADS, 0, stream, d);
}

} // namespace cusi::motion
