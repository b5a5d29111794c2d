// The speckle filter finds regions by union-find, within tiles in shared memory and then between tiles, sums up their
// sizes, and removes small ones. Each step needs all of the one before. Linked pixels of a row form a chain, found by
// ballot, so that only links to the row above are joined, one where two chains touch.
#include "device.h"
#include "stereo/cuda/state.cuh"
#include "union_find.cuh"

namespace cusi::stereo {
namespace {

constexpr int THREADS = 256, SIDE = 32, ROWS = SIDE * SIDE / THREADS; // of a tile; rows of a warp

struct Regions {
    const uint16_t *elevation;
    size_t step;
    int rows, cols;
    unsigned unit, tiles_across, tiles;
    uint32_t *parents, *sizes; // of all pixels; sizes are 0 except at the roots of tiles

    __device__ __forceinline__ bool contains(int y, int x) const { return y >= 0 && y < rows && x >= 0 && x < cols; }
    __device__ __forceinline__ unsigned at(int y, int x) const { return contains(y, x) ? rowOf(elevation, step, y)[x] : 0; }
    __device__ __forceinline__ uint32_t node(int y, int x) const {
        return static_cast<uint32_t>(y) * static_cast<uint32_t>(cols) + static_cast<uint32_t>(x);
    }
};

__device__ __forceinline__ unsigned lane() {
    return threadIdx.x % 32;
}

__global__ void __launch_bounds__(THREADS) labelKernel(const Regions r) {
    startInOrder();
    __shared__ uint16_t tile[SIDE][SIDE];
    __shared__ uint32_t starts[SIDE]; // bit x: whether a chain begins there
    __shared__ uint32_t parents[SIDE * SIDE], sizes[SIDE * SIDE];
    const int x0 = blockIdx.x % r.tiles_across * SIDE, y0 = blockIdx.x / r.tiles_across * SIDE;
    const int first = threadIdx.x / 32 * ROWS, x = lane();
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const int y = first + k;
        const unsigned here = r.at(y0 + y, x0 + x), left = __shfl_up_sync(FULL_WARP, here, 1);
        const unsigned bits = __ballot_sync(FULL_WARP, x == 0 || !stereo_isLinked(left, here, r.unit));
        tile[y][x] = static_cast<uint16_t>(here);
        parents[y * SIDE + x] = y * SIDE + 31 - __clz(bits & FULL_WARP >> (31 - x));
        sizes[y * SIDE + x] = 0;
        if (x == 0)
            starts[y] = bits;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const int y = first + k;
        if (y == 0)
            continue; // for the whole warp
        const bool linked = stereo_isLinked(tile[y - 1][x], tile[y][x], r.unit);
        const unsigned all = __ballot_sync(FULL_WARP, linked);
        // If both chains were linked one pixel to the left, too, they are joined there.
        if (linked && !(all << 1 & ~starts[y] & ~starts[y - 1] & 1u << x))
            join(parents, y * SIDE + x, (y - 1) * SIDE + x);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const int y = first + k;
        const unsigned bits = starts[y], next = x < 31 ? bits >> (x + 1) : 0;
        if ((bits >> x & 1) && tile[y][x])
            atomicAdd(&sizes[rootOf(parents, y * SIDE + x)], next ? __ffs(static_cast<int>(next)) : 32 - x);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const int y = first + k;
        if (!r.contains(y0 + y, x0 + x))
            continue;
        const uint32_t root = rootOf(parents, y * SIDE + x), node = r.node(y0 + y, x0 + x);
        r.parents[node] = r.node(y0 + root / SIDE, x0 + root % SIDE);
        r.sizes[node] = sizes[y * SIDE + x];
    }
}

// Joins tiles with those above (even warps) and to the left (odd warps).
__global__ void __launch_bounds__(THREADS) joinKernel(const Regions r) {
    startInOrder();
    const unsigned side = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, tile = side / 2;
    if (tile >= r.tiles)
        return;
    const bool above = side % 2 == 0;
    const int x = tile % r.tiles_across * SIDE + (above ? lane() : 0),
              y = tile / r.tiles_across * SIDE + (above ? 0 : lane());
    const int from_x = above ? x : x - 1, from_y = above ? y - 1 : y;
    const unsigned here = r.at(y, x), there = r.at(from_y, from_x);
    const bool linked = stereo_isLinked(there, here, r.unit);
    const unsigned before = __shfl_up_sync(FULL_WARP, here, 1), there_before = __shfl_up_sync(FULL_WARP, there, 1);
    const bool joined = lane() > 0 && stereo_isLinked(before, here, r.unit) &&
                        stereo_isLinked(there_before, there, r.unit) && stereo_isLinked(there_before, before, r.unit);
    if (linked && !joined)
        join(r.parents, r.node(y, x), r.node(from_y, from_x));
}

// Adds up the sizes of a region's parts, and makes the roots of tiles point to the region's root.
__global__ void __launch_bounds__(THREADS) sizeKernel(const Regions r, uint32_t pixels) {
    startInOrder();
    for (size_t i = blockIdx.x * size_t{THREADS} + threadIdx.x; i < pixels; i += gridDim.x * size_t{THREADS}) {
        const uint32_t node = static_cast<uint32_t>(i), size = r.sizes[node];
        if (size == 0)
            continue;
        const uint32_t root = rootOf(r.parents, node);
        if (root == node)
            continue;
        __stcg(r.parents + node, root);
        atomicAdd(r.sizes + root, size);
    }
}

__global__ void __launch_bounds__(THREADS)
    removeKernel(const Regions r, uint32_t most, uint16_t *filtered, size_t filtered_step) {
    startInOrder();
    const int x = blockIdx.x % r.tiles_across * SIDE + lane(), y0 = blockIdx.x / r.tiles_across * SIDE + threadIdx.x / 32;
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const int y = y0 + k * (THREADS / 32);
        const unsigned here = r.at(y, x);
        const uint32_t size = here ? r.sizes[r.parents[r.parents[r.node(y, x)]]] : 0;
        if (r.contains(y, x))
            rowOf(filtered, filtered_step, y)[x] = static_cast<uint16_t>(size > most ? here : 0);
    }
}

} // namespace
} // namespace cusi::stereo

cusStatus stereo_cuda_speckles(const char *function, cusStream stream, const cusMat *elevation, cusMat *filtered,
                               const cusStereoOptions *options, StereoScratch *scratch) {
    using namespace cusi::stereo;
    using cusi::divUp;
    if (options->speckle_size == 0)
        return cusi_deviceCopyWithin(function, elevation, filtered, stream);
    const int rows = elevation->rows, cols = elevation->cols;
    const size_t pixels = static_cast<size_t>(rows) * static_cast<size_t>(cols);
    uint32_t *const words = static_cast<uint32_t *>(scratch->words);
    const auto across = divUp(static_cast<unsigned>(cols), unsigned{SIDE}),
               tiles = across * divUp(static_cast<unsigned>(rows), unsigned{SIDE});
    const Regions r = {static_cast<const uint16_t *>(elevation->data),
                       elevation->step,
                       rows,
                       cols,
                       1u << options->subpixel_bits,
                       across,
                       tiles,
                       words,
                       words + pixels};
    CUS_TRY(cusi::launchOverlapped(function, labelKernel, tiles, THREADS, 0, stream, r));
    CUS_TRY(cusi::launchOverlapped(function, joinKernel, divUp(2 * tiles, unsigned{THREADS / 32}), THREADS, 0, stream, r));
    CUS_TRY(cusi::launchOverlapped(function, sizeKernel, tiles, THREADS, 0, stream, r, static_cast<uint32_t>(pixels)));
    return cusi::launchOverlapped(function, removeKernel, tiles, THREADS, 0, stream, r,
                                  static_cast<uint32_t>(options->speckle_size), static_cast<uint16_t *>(filtered->data),
                                  filtered->step);
}
