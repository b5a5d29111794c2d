// remap on the GPU: a thread makes a pixel. Neighboring threads read neighboring pixels of src, so caches serve most reads.
#include "remap/backend.h"
#include "cuda.cuh"

#include <algorithm>

namespace {

constexpr int COLS_OF_BLOCK = 32, ROWS_OF_BLOCK = 8;

struct Parameters {
    const unsigned char *src, *map;
    unsigned char *dst;
    size_t src_step, map_step, dst_step;
    int src_rows, src_cols, rows, cols;
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

template<class T, int CHANNELS>
__global__ void __launch_bounds__(COLS_OF_BLOCK *ROWS_OF_BLOCK) remapKernel(const Parameters q) {
    cusi::startInOrder();
    const int x = blockIdx.x * COLS_OF_BLOCK + threadIdx.x;
    if (x >= q.cols)
        return;
    for (int y = blockIdx.y * ROWS_OF_BLOCK + threadIdx.y; y < q.rows; y += gridDim.y * ROWS_OF_BLOCK) {
        const float *const place =
            reinterpret_cast<const float *>(cusi::rowOf(q.map, q.map_step, y)) + 2 * static_cast<size_t>(x);
        const int fixed_x = roundPlace(place[0]), fixed_y = roundPlace(place[1]);
        const int left = fixed_x >> REMAP_BITS, top = fixed_y >> REMAP_BITS;
        T p[CHANNELS][4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int from_x = left + k % 2, from_y = top + k / 2;
            const bool inside = from_x >= 0 && from_x < q.src_cols && from_y >= 0 && from_y < q.src_rows;
            const T *const from = reinterpret_cast<const T *>(cusi::rowOf(q.src, q.src_step, inside ? from_y : 0)) +
                                  static_cast<size_t>(CHANNELS) * (inside ? from_x : 0);
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c)
                p[c][k] = inside ? from[c] : T(0);
        }
        T *const to = reinterpret_cast<T *>(cusi::rowOf(q.dst, q.dst_step, y)) + static_cast<size_t>(CHANNELS) * x;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c)
            to[c] = blend(p[c], fixed_x & (REMAP_ONE - 1), fixed_y & (REMAP_ONE - 1));
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
    const int channels = CUS_CHANNELS(src->type);
    const Kernel kernel = CUS_DEPTH(src->type) == CUS_8U ? kernelFor<unsigned char>(channels) : kernelFor<float>(channels);
    const dim3 grid(cusi::divUp(q.cols, COLS_OF_BLOCK), std::min(cusi::divUp(q.rows, ROWS_OF_BLOCK), 65535));
    return cusi::launchOverlapped("cusRemap", kernel, grid, dim3(COLS_OF_BLOCK, ROWS_OF_BLOCK), 0, stream, q);
}
