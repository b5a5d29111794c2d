// remap on the GPU: a thread makes pixels of some rows of one column. Each waits for its place, then for its neighbors;
// those of all rows are in flight together. Neighboring threads read neighboring pixels of src, so caches serve most reads.
#include "remap/backend.h"
#include "cuda.cuh"

#include <algorithm>

namespace {

constexpr int COLS_OF_BLOCK = 32, THREAD_ROWS = 8; // of a block

// Returns the pixels of a thread, THREAD_ROWS apart. More channels need more registers for each.
__host__ __device__ constexpr int rowsOfThread(int channels) {
    return channels == 1 ? 4 : 2;
}

constexpr int LAUNCH_IMAGES = 64; // images of a batch that fit a launch's parameters

struct Image {
    const unsigned char *src, *map;
    unsigned char *dst;
    size_t src_step, map_step, dst_step;
};
template<int IMAGES>
struct Parameters {
    Image images[IMAGES];
    int src_rows, src_cols, rows, cols;
    bool map_aligned8; // rows of the maps start at a multiple of 8 bytes
};
static_assert(sizeof(Parameters<LAUNCH_IMAGES>) <= 4000, "parameters of a launch");

__device__ __forceinline__ int roundPlace(float coordinate) {
    const float farthest = REMAP_FARTHEST;
    return __float2int_rn(fminf(fmaxf(__fmul_rn(coordinate, REMAP_ONE), -farthest), farthest)); // NaN: -farthest
}

__device__ __forceinline__ unsigned char blend(const unsigned char *p, unsigned a, unsigned b) {
    const unsigned upper = (REMAP_ONE - a) * p[0] + a * p[1], lower = (REMAP_ONE - a) * p[2] + a * p[3];
    return static_cast<unsigned char>(((REMAP_ONE - b) * upper + b * lower + (1u << (2 * REMAP_BITS - 1))) >>
                                      (2 * REMAP_BITS));
}

__device__ __forceinline__ float blend(const float *p, unsigned a, unsigned b) {
    const unsigned weights[4] = {(REMAP_ONE - a) * (REMAP_ONE - b), a * (REMAP_ONE - b), (REMAP_ONE - a) * b, a * b};
    float v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) // weights are exact
        v[k] = __fmul_rn(p[k], __fmul_rn(static_cast<float>(weights[k]), 1.0f / (REMAP_ONE * REMAP_ONE)));
    return __fadd_rn(__fadd_rn(v[0], v[1]), __fadd_rn(v[2], v[3]));
}

// Loads the pixel at (left, top) and its right, lower, and lower right neighbor, 0 outside src. TESTED: some may be there.
template<bool TESTED, class T, int CHANNELS, class Q>
__device__ __forceinline__ void loadPixels(T (&p)[CHANNELS][4], const Q &q, const Image &image, int left, int top) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int x = left + k % 2, y = top + k / 2;
        const bool inside = !TESTED || (x >= 0 && x < q.src_cols && y >= 0 && y < q.src_rows);
        const T *const from = reinterpret_cast<const T *>(cusi::rowOf(image.src, image.src_step, inside ? y : 0)) +
                              static_cast<size_t>(CHANNELS) * (inside ? x : 0);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c)
            p[c][k] = inside ? __ldg(from + c) : T(0);
    }
}

template<class T, int CHANNELS, int IMAGES>
__global__ void __launch_bounds__(COLS_OF_BLOCK *THREAD_ROWS) remapKernel(const Parameters<IMAGES> q) {
    constexpr int ROWS = rowsOfThread(CHANNELS), ROWS_OF_BLOCK = THREAD_ROWS * ROWS;
    cusi::startInOrder();
    const Image &image = q.images[IMAGES > 1 ? blockIdx.z : 0];
    const int x = blockIdx.x * COLS_OF_BLOCK + threadIdx.x;
    if (x >= q.cols)
        return;
    for (int y = blockIdx.y * ROWS_OF_BLOCK + threadIdx.y; y < q.rows; y += gridDim.y * ROWS_OF_BLOCK) {
        float2 places[ROWS]; // rows below the map take its last one
        const auto placeOf = [&](int i) {
            const int row = min(y + THREAD_ROWS * i, q.rows - 1);
            return reinterpret_cast<const float2 *>(cusi::rowOf(image.map, image.map_step, row)) + x;
        };
        if (q.map_aligned8) {
#pragma unroll
            for (int i = 0; i < ROWS; ++i) // images of a batch may share a map, so that caches should keep it
                places[i] = IMAGES > 1 ? __ldg(placeOf(i)) : __ldcs(placeOf(i));
        } else {
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
                places[i] = {__ldg(&placeOf(i)->x), __ldg(&placeOf(i)->y)};
        }
        int fixed_x[ROWS], fixed_y[ROWS];
        bool all_inside = true;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            fixed_x[i] = roundPlace(places[i].x);
            fixed_y[i] = roundPlace(places[i].y);
            all_inside &= static_cast<unsigned>(fixed_x[i] >> REMAP_BITS) < static_cast<unsigned>(q.src_cols - 1) &&
                          static_cast<unsigned>(fixed_y[i] >> REMAP_BITS) < static_cast<unsigned>(q.src_rows - 1);
        }
        T p[ROWS][CHANNELS][4];
        if (all_inside) {
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
                loadPixels<false>(p[i], q, image, fixed_x[i] >> REMAP_BITS, fixed_y[i] >> REMAP_BITS);
        } else {
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
                loadPixels<true>(p[i], q, image, fixed_x[i] >> REMAP_BITS, fixed_y[i] >> REMAP_BITS);
        }
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const int row = y + THREAD_ROWS * i;
            if (row >= q.rows)
                break;
            T *const to =
                reinterpret_cast<T *>(cusi::rowOf(image.dst, image.dst_step, row)) + static_cast<size_t>(CHANNELS) * x;
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c)
                to[c] = blend(p[i][c], fixed_x[i] & (REMAP_ONE - 1), fixed_y[i] & (REMAP_ONE - 1));
        }
    }
}

template<class T, int IMAGES>
auto kernelFor(int channels) {
    constexpr void (*kernels[])(Parameters<IMAGES>) = {remapKernel<T, 1, IMAGES>, remapKernel<T, 2, IMAGES>,
                                                       remapKernel<T, 3, IMAGES>, remapKernel<T, 4, IMAGES>};
    return kernels[channels - 1];
}

template<int IMAGES>
cusStatus launchImages(const char *function, int count, const cusMat *src, const cusMat *map, cusMat *dst,
                       cudaStream_t stream) {
    Parameters<IMAGES> q = {};
    q.src_rows = src->rows;
    q.src_cols = src->cols;
    q.rows = map->rows;
    q.cols = map->cols;
    q.map_aligned8 = true;
    for (int i = 0; i < count; ++i) {
        q.images[i] = {static_cast<const unsigned char *>(src[i].data),
                       static_cast<const unsigned char *>(map[i].data),
                       static_cast<unsigned char *>(dst[i].data),
                       src[i].step,
                       map[i].step,
                       dst[i].step};
        q.map_aligned8 = q.map_aligned8 && cusi::isAligned(map[i], 8);
    }
    const int channels = CUS_CHANNELS(src->type), rows = THREAD_ROWS * rowsOfThread(channels); // of a block
    const auto kernel =
        CUS_DEPTH(src->type) == CUS_8U ? kernelFor<unsigned char, IMAGES>(channels) : kernelFor<float, IMAGES>(channels);
    const dim3 grid(cusi::divUp(q.cols, COLS_OF_BLOCK), std::min(cusi::divUp(q.rows, rows), 65535), count);
    return cusi::launchOverlapped(function, kernel, grid, dim3(COLS_OF_BLOCK, THREAD_ROWS), 0, stream, q);
}

} // namespace

cusStatus remap_cuda_remap(const char *function, int count, const cusMat *src, const cusMat *map, cusMat *dst,
                           cusStream stream) {
    if (count == 1)
        return launchImages<1>(function, 1, src, map, dst, stream);
    for (int i = 0; i < count; i += LAUNCH_IMAGES)
        CUS_TRY(
            launchImages<LAUNCH_IMAGES>(function, std::min(count - i, LAUNCH_IMAGES), src + i, map + i, dst + i, stream));
    return CUS_OK;
}
