#include "framediff.hpp"

#include <cub/device/device_select.cuh>
#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>

#include <stdexcept>

namespace peers {
namespace {

constexpr unsigned THREADS = 256;

void checkCuda(cudaError_t error) {
    if (error != cudaSuccess)
        throw std::runtime_error(cudaGetErrorString(error));
}

__device__ uint8_t clampedSineOf(float phase) {
    return static_cast<uint8_t>(fminf(fmaxf(255.0f * sinf(phase), 0.0f), 255.0f));
}

__global__ void heatmapKernel(const uint8_t *prev, size_t prev_step, const uint8_t *cur, size_t cur_step, uint8_t *dst,
                              size_t dst_step, int rows, int cols) {
    const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
    if (x >= cols || y >= rows)
        return;
    const uint8_t *p = prev + y * prev_step + 3 * x, *c = cur + y * cur_step + 3 * x;
    constexpr float pi = 3.14159265f;
    const float n = static_cast<float>(abs(c[0] - p[0]) + abs(c[1] - p[1]) + abs(c[2] - p[2])) / 765.0f;
    uint8_t *out = dst + y * dst_step + 3 * x;
    out[0] = clampedSineOf(pi * n + pi / 2);
    out[1] = clampedSineOf(pi * n);
    out[2] = clampedSineOf(pi * n - pi / 2);
}

__global__ void encodeKernel(uint8_t *cur, size_t cur_step, const uint8_t *prev, size_t prev_step, int rows, int row_bytes,
                             int threshold, uint32_t *positions, uint8_t *values, uint32_t *count) {
    const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
    if (x >= row_bytes || y >= rows)
        return;
    uint8_t &c = cur[y * cur_step + x];
    const int d = c - prev[y * prev_step + x];
    if (abs(d) > threshold) {
        const uint32_t k = atomicAdd(count, 1u);
        positions[k] = static_cast<uint32_t>(y) * static_cast<uint32_t>(row_bytes) + static_cast<uint32_t>(x);
        values[k] = static_cast<uint8_t>(d);
    } else {
        c = static_cast<uint8_t>(c - d);
    }
}

struct Changed {
    const uint8_t *cur, *ref;
    int threshold;
    __device__ bool operator()(uint32_t i) const { return abs(cur[i] - ref[i]) > threshold; }
};

__global__ void gatherKernel(const uint8_t *cur, uint8_t *ref, const uint32_t *positions, uint8_t *values,
                             const uint32_t *count) {
    const uint32_t n = *count;
    for (uint32_t k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x) {
        const uint32_t i = positions[k];
        values[k] = static_cast<uint8_t>(cur[i] - ref[i]);
        ref[i] = cur[i];
    }
}

} // namespace

void publishedHeatmap(const cusMat &prev, const cusMat &cur, cusMat &dst, cusStream stream) {
    const dim3 block(32, 8), grid((cur.cols + 31) / 32, (cur.rows + 7) / 8);
    heatmapKernel<<<grid, block, 0, stream>>>(static_cast<const uint8_t *>(prev.data), prev.step,
                                              static_cast<const uint8_t *>(cur.data), cur.step,
                                              static_cast<uint8_t *>(dst.data), dst.step, cur.rows, cur.cols);
    checkCuda(cudaGetLastError());
}

void publishedEncode(cusMat &cur, const cusMat &prev, int threshold, uint32_t *positions, uint8_t *values, uint32_t *count,
                     cusStream stream) {
    const int row_bytes = cur.cols * CUS_CHANNELS(cur.type);
    const dim3 block(THREADS), grid((row_bytes + THREADS - 1) / THREADS, cur.rows);
    checkCuda(cudaMemsetAsync(count, 0, sizeof *count, stream));
    encodeKernel<<<grid, block, 0, stream>>>(static_cast<uint8_t *>(cur.data), cur.step,
                                             static_cast<const uint8_t *>(prev.data), prev.step, cur.rows, row_bytes,
                                             threshold, positions, values, count);
    checkCuda(cudaGetLastError());
}

void CubEncoder::create(uint32_t bytes) {
    bytes_ = bytes;
    checkCuda(cub::DeviceSelect::If(nullptr, temporary_bytes_, thrust::counting_iterator<uint32_t>(0),
                                    static_cast<uint32_t *>(nullptr), static_cast<uint32_t *>(nullptr), bytes_,
                                    Changed{nullptr, nullptr, 0}));
    checkCuda(cudaMalloc(&temporary_, temporary_bytes_));
}

CubEncoder::~CubEncoder() {
    cudaFree(temporary_);
}

void CubEncoder::encode(const uint8_t *cur, uint8_t *ref, int threshold, uint32_t *positions, uint8_t *values,
                        uint32_t *count, cusStream stream) {
    checkCuda(cub::DeviceSelect::If(temporary_, temporary_bytes_, thrust::counting_iterator<uint32_t>(0), positions, count,
                                    bytes_, Changed{cur, ref, threshold}, stream));
    gatherKernel<<<528, THREADS, 0, stream>>>(cur, ref, positions, values, count);
    checkCuda(cudaGetLastError());
}

} // namespace peers
