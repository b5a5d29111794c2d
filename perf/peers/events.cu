#include "events.hpp"

#include <cub/device/device_radix_sort.cuh>

namespace {

__global__ void count(const uint16_t *x, const uint16_t *y, const uint8_t *p, unsigned n, unsigned rows, unsigned cols,
                      uint32_t *counters) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] < cols && y[i] < rows)
        atomicAdd(&counters[(y[i] * cols + x[i]) * 2 + (p[i] ? 0 : 1)], 1u);
}

__global__ void narrow(const uint32_t *counters, unsigned n, uint8_t *frame) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        frame[i] = static_cast<uint8_t>(min(counters[i], 255u));
}

} // namespace

namespace peers {

void atomicHistogram(const uint16_t *x, const uint16_t *y, const uint8_t *p, size_t stacks, size_t length, int rows,
                     int cols, uint32_t *counters, uint8_t *frames, cusStream stream) {
    const unsigned n = static_cast<unsigned>(length),
                   values = 2u * static_cast<unsigned>(rows) * static_cast<unsigned>(cols);
    for (size_t s = 0; s < stacks; ++s) {
        cudaMemsetAsync(counters, 0, values * sizeof(uint32_t), stream);
        count<<<(n + 255) / 256, 256, 0, stream>>>(x + s * length, y + s * length, p + s * length, n,
                                                   static_cast<unsigned>(rows), static_cast<unsigned>(cols), counters);
        narrow<<<(values + 255) / 256, 256, 0, stream>>>(counters, values, frames + s * values);
    }
}

void radixSort(const uint32_t *keys, uint32_t *sorted, size_t n, int bits, void *workspace, size_t *workspace_bytes,
               cusStream stream) {
    cub::DeviceRadixSort::SortKeys(workspace, *workspace_bytes, keys, sorted, static_cast<int>(n), 0, bits, stream);
}

} // namespace peers
