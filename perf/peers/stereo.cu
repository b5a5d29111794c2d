#include "stereo.hpp"

#include <cuda_runtime.h>

#include <stdexcept>
#include <utility>

namespace peers {
namespace {

void checkCuda(cudaError_t error) {
    if (error != cudaSuccess)
        throw std::runtime_error(cudaGetErrorString(error));
}

struct Torus {
    int rows, cols;
    __device__ size_t at(int y, int x) const {
        y += y < 0 ? rows : y >= rows ? -rows : 0;
        x += x < 0 ? cols : x >= cols ? -cols : 0;
        return static_cast<size_t>(y) * cols + x;
    }
};

#define PIXEL                                                              \
    const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); \
    const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y); \
    if (x >= t.cols || y >= t.rows)                                        \
    return

__device__ bool differ(int a, int b, float threshold) {
    return static_cast<float>(2 * abs(a - b)) > threshold * static_cast<float>(a + b);
}

__global__ void edgesKernel(Torus t, const uint8_t *image, size_t step, float threshold, uint8_t *edges) {
    PIXEL;
    const auto p = [&](int dy, int dx) {
        const size_t i = t.at(y + dy, x + dx);
        return static_cast<int>(image[i / t.cols * step + i % t.cols]);
    };
    const int ul = p(-1, -1), u = p(-1, 0), ur = p(-1, 1), l = p(0, -1), r = p(0, 1), dl = p(1, -1), d = p(1, 0),
              dr = p(1, 1);
    edges[t.at(y, x)] = differ(ul + l + dl, ur + r + dr, threshold) || differ(ul + u + ur, dl + d + dr, threshold) ||
                        differ(ul + u + l, dr + d + r, threshold) || differ(dl + d + l, ur + u + r, threshold);
}

constexpr int STRIP = 256, COLUMN = 64; // columns a block of rowSumsKernel, rows a thread of bestKernel

// Agreements of one shift and their sums over the window's row, from a strip in shared memory.
__global__ void rowSumsKernel(Torus t, const uint8_t *left, const uint8_t *right, int shift, int radius, uint8_t *agreement,
                              uint8_t *row_sums) {
    __shared__ uint8_t strip[STRIP + 64];
    const int first = static_cast<int>(blockIdx.x) * STRIP - radius, y = static_cast<int>(blockIdx.y);
    for (int i = static_cast<int>(threadIdx.x); i < STRIP + 2 * radius; i += STRIP) {
        const int x = (first + i + t.cols) % t.cols;
        strip[i] = left[t.at(y, x)] == right[t.at(y, x + shift)];
    }
    __syncthreads();
    const int x = first + radius + static_cast<int>(threadIdx.x);
    if (x >= t.cols)
        return;
    int sum = 0;
    for (int d = 0; d <= 2 * radius; ++d)
        sum += strip[threadIdx.x + d];
    agreement[t.at(y, x)] = strip[threadIdx.x + radius];
    row_sums[t.at(y, x)] = static_cast<uint8_t>(sum);
}

// Running sums down the columns complete the window; each pixel keeps its best score.
__global__ void bestKernel(Torus t, const uint8_t *agreement, const uint8_t *row_sums, int shift, int radius,
                           uint16_t *best, uint16_t *elevation) {
    const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), top = static_cast<int>(blockIdx.y) * COLUMN;
    if (x >= t.cols)
        return;
    int sum = 0;
    for (int dy = -radius; dy < radius; ++dy)
        sum += row_sums[t.at(top + dy, x)];
    for (int y = top; y < min(top + COLUMN, t.rows); ++y) {
        sum += row_sums[t.at(y + radius, x)];
        const size_t i = t.at(y, x);
        if (agreement[i] && sum > 0 && sum >= best[i]) {
            best[i] = static_cast<uint16_t>(sum);
            elevation[i] = static_cast<uint16_t>(1 + shift);
        }
        sum -= row_sums[t.at(y - radius, x)];
    }
}

__global__ void fillKernel(Torus t, const uint16_t *from, uint16_t *to) {
    PIXEL;
    const int e = from[t.at(y, x)];
    to[t.at(y, x)] = static_cast<uint16_t>(
        e ? e : (from[t.at(y, x - 1)] + from[t.at(y, x + 1)] + from[t.at(y - 1, x)] + from[t.at(y + 1, x)]) / 4);
}

__global__ void rangeKernel(Torus t, const uint16_t *elevation, int *range) {
    PIXEL;
    const int e = elevation[t.at(y, x)];
    if (e < range[0])
        atomicMin(&range[0], e);
    if (e > range[1])
        atomicMax(&range[1], e);
}

__global__ void startRangeKernel(int *range) {
    range[0] = 65535;
    range[1] = 0;
}

__global__ void contoursKernel(Torus t, const uint16_t *elevation, const int *range, int levels, uint8_t *contours) {
    PIXEL;
    const int interval = max(1, (range[1] - range[0]) / levels);
    contours[t.at(y, x)] = (elevation[t.at(y, x)] - range[0]) % interval == 0 ? 255 : 0;
}

} // namespace

PublishedStereo::PublishedStereo(const StereoSetting &s) : s_(s) {
    checkCuda(cudaMalloc(&memory_, 256 + static_cast<size_t>(s.rows) * s.cols * 8));
}

PublishedStereo::~PublishedStereo() {
    cudaFree(memory_);
}

void PublishedStereo::run(const cusMat &left, const cusMat &right, uint16_t *elevation, uint8_t *contours,
                          cusStream stream) {
    const size_t n = static_cast<size_t>(s_.rows) * s_.cols;
    int *const range = static_cast<int *>(memory_);
    uint16_t *const best = reinterpret_cast<uint16_t *>(static_cast<char *>(memory_) + 256), *const second = best + n;
    uint8_t *const l = reinterpret_cast<uint8_t *>(second + n), *const r = l + n, *const agreement = r + n,
                   *const row_sums = agreement + n;
    const Torus t{s_.rows, s_.cols};
    const dim3 block(32, 8), grid((s_.cols + 31) / 32, (s_.rows + 7) / 8), strips((s_.cols + STRIP - 1) / STRIP, s_.rows),
        columns((s_.cols + 127) / 128, (s_.rows + COLUMN - 1) / COLUMN);
    edgesKernel<<<grid, block, 0, stream>>>(t, static_cast<const uint8_t *>(left.data), left.step, s_.threshold, l);
    edgesKernel<<<grid, block, 0, stream>>>(t, static_cast<const uint8_t *>(right.data), right.step, s_.threshold, r);
    checkCuda(cudaMemsetAsync(best, 0, 2 * n, stream));
    checkCuda(cudaMemsetAsync(elevation, 0, 2 * n, stream));
    for (int s = 0; s < s_.shifts; ++s) {
        rowSumsKernel<<<strips, STRIP, 0, stream>>>(t, l, r, s, s_.window / 2, agreement, row_sums);
        bestKernel<<<columns, 128, 0, stream>>>(t, agreement, row_sums, s, s_.window / 2, best, elevation);
    }
    uint16_t *from = elevation, *to = second;
    for (int i = 0; i < s_.iterations; ++i) {
        fillKernel<<<grid, block, 0, stream>>>(t, from, to);
        std::swap(from, to);
    }
    if (from != elevation)
        checkCuda(cudaMemcpyAsync(elevation, from, 2 * n, cudaMemcpyDeviceToDevice, stream));
    startRangeKernel<<<1, 1, 0, stream>>>(range);
    rangeKernel<<<grid, block, 0, stream>>>(t, elevation, range);
    contoursKernel<<<grid, block, 0, stream>>>(t, elevation, range, s_.levels, contours);
    checkCuda(cudaGetLastError());
}

} // namespace peers
