// remap on the GPU: a thread makes pixels of some rows of one column. Each waits for its place, then for its four neighbors;
// those of all its rows are in flight together. Neighboring threads read neighboring pixels of src, so caches serve most reads.
#include "remap/backend.h"
#include "cuda.cuh"

#include <algorithm>

namespace {

constexpr int COLS_OF_BLOCK = 32, THREAD_ROWS = 8; // of a block

// Returns the pixels of a thread, THREAD_ROWS apart. More channels need more registers for each.
__host__ __device__ constexpr int rowsOfThread(int channels) {
    return channels == 1 ? 4 : 2;
}

struct Parameters {
    const unsigned char *src, *map;
    unsigned char *dst;
    size_t src_step, map_step, dst_step;
    int src_rows, src_cols, rows, cols;
    bool map_aligned8; // rows of the map start at a multiple of 8 bytes
};

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

// Loads the pixel at (left, top) and its right, lower, and lower right neighbor, 0 outside src. TESTED: some may be outside.
template<bool TESTED, class T, int CHANNELS>
__device__ __forceinline__ void loadPixels(T (&p)[CHANNELS][4], const Parameters &q, int left, int top) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int x = left + k % 2, y = top + k / 2;
        const bool inside = !TESTED || (x >= 0 && x < q.src_cols && y >= 0 && y < q.src_rows);
        const T *const from = reinterpret_cast<const T *>(cusi::rowOf(q.src, q.src_step, inside ? y : 0)) +
                              static_cast<size_t>(CHANNELS) * (inside ? x : 0);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c)
            p[c][k] = inside ? __ldg(from + c) : T(0);
    }
}

template<class T, int CHANNELS>
__global__ void __launch_bounds__(COLS_OF_BLOCK *THREAD_ROWS) remapKernel(const Parameters q) {
    constexpr int ROWS = rowsOfThread(CHANNELS), ROWS_OF_BLOCK = THREAD_ROWS * ROWS;
    cusi::startInOrder();
    const int x = blockIdx.x * COLS_OF_BLOCK + threadIdx.x;
    if (x >= q.cols)
        return;
    for (int y = blockIdx.y * ROWS_OF_BLOCK + threadIdx.y; y < q.rows; y += gridDim.y * ROWS_OF_BLOCK) {
        float2 places[ROWS]; // rows below the map take its last one
        const auto placeOf = [&](int i) {
            const int row = min(y + THREAD_ROWS * i, q.rows - 1);
            return reinterpret_cast<const float2 *>(cusi::rowOf(q.map, q.map_step, row)) + x;
        };
        if (q.map_aligned8) {
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
                places[i] = __ldcs(placeOf(i));
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
                loadPixels<false>(p[i], q, fixed_x[i] >> REMAP_BITS, fixed_y[i] >> REMAP_BITS);
        } else {
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
                loadPixels<true>(p[i], q, fixed_x[i] >> REMAP_BITS, fixed_y[i] >> REMAP_BITS);
        }
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const int row = y + THREAD_ROWS * i;
            if (row >= q.rows)
                break;
            T *const to = reinterpret_cast<T *>(cusi::rowOf(q.dst, q.dst_step, row)) + static_cast<size_t>(CHANNELS) * x;
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c)
                to[c] = blend(p[i][c], fixed_x[i] & (REMAP_ONE - 1), fixed_y[i] & (REMAP_ONE - 1));
        }
    }
}

using Kernel = void (*)(Parameters);

template<class T>
Kernel kernelFor(int channels) {
    constexpr Kernel kernels[] = {remapKernel<T, 1>, remapKernel<T, 2>, remapKernel<T, 3>, remapKernel<T, 4>};
    return kernels[channels - 1];
}

} // namespace

cusStatus remap_cuda_remap(const cusMat *src, const cusMat *map, cusMat *dst, cusStream stream) {
    Parameters q = {};
    q.src = static_cast<const unsigned char *>(src->data);
    q.map = static_cast<const unsigned char *>(map->data);
    q.dst = static_cast<unsigned char *>(dst->data);
    q.src_step = src->step;
    q.map_step = map->step;
    q.dst_step = dst->step;
    q.src_rows = src->rows;
    q.src_cols = src->cols;
    q.rows = map->rows;
    q.cols = map->cols;
    q.map_aligned8 = cusi::isAligned(*map, 8);
    const int channels = CUS_CHANNELS(src->type), rows = THREAD_ROWS * rowsOfThread(channels); // of a block
    const Kernel kernel = CUS_DEPTH(src->type) == CUS_8U ? kernelFor<unsigned char>(channels) : kernelFor<float>(channels);
    const dim3 grid(cusi::divUp(q.cols, COLS_OF_BLOCK), std::min(cusi::divUp(q.rows, rows), 65535));
    return cusi::launchOverlapped("cusRemap", kernel, grid, dim3(COLS_OF_BLOCK, THREAD_ROWS), 0, stream, q);
}
