#include "events.hpp"

#include <cub/device/device_radix_sort.cuh>

#include <stdexcept>
#include <string>

namespace {

constexpr unsigned EACH = 8;

// Eight events a thread, all of one stack, whose length is a multiple of eight.
__global__ void count(const uint16_t *x, const uint16_t *y, const uint8_t *p, size_t n, unsigned length, unsigned rows,
                      unsigned cols, uint32_t *counters) {
    const size_t first = (blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x) * EACH;
    if (first >= n)
        return;
    const uint4 xs = *reinterpret_cast<const uint4 *>(x + first), ys = *reinterpret_cast<const uint4 *>(y + first);
    const uint2 ps = *reinterpret_cast<const uint2 *>(p + first);
    const unsigned columns[] = {xs.x, xs.y, xs.z, xs.w}, lines[] = {ys.x, ys.y, ys.z, ys.w}, signs[] = {ps.x, ps.y};
    counters += first / length * (size_t(2) * rows * cols);
    for (unsigned k = 0; k < EACH; ++k) {
        const unsigned column = columns[k / 2] >> (k % 2 * 16) & 0xffff, line = lines[k / 2] >> (k % 2 * 16) & 0xffff,
                       sign = signs[k / 4] >> (k % 4 * 8) & 0xff;
        if (column < cols && line < rows)
            atomicAdd(&counters[(line * cols + column) * 2 + (sign ? 0 : 1)], 1u);
    }
}

__global__ void narrow(const uint4 *counters, size_t n, uchar4 *frames) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < n) {
        const uint4 c = counters[i];
        frames[i] = make_uchar4(min(c.x, 255u), min(c.y, 255u), min(c.z, 255u), min(c.w, 255u));
    }
}

} // namespace

namespace peers {

void atomicHistogram(const uint16_t *x, const uint16_t *y, const uint8_t *p, size_t stacks, size_t length, int rows,
                     int cols, uint32_t *counters, uint8_t *frames, cusStream stream) {
    const size_t n = stacks * length, values = stacks * 2 * static_cast<size_t>(rows) * static_cast<size_t>(cols);
    if (length % EACH != 0 || values % 4 != 0)
        throw std::invalid_argument("a stack of " + std::to_string(length) + " events, expected a multiple of 8");
    cudaMemsetAsync(counters, 0, values * sizeof(uint32_t), stream);
    count<<<static_cast<unsigned>((n / EACH + 255) / 256), 256, 0, stream>>>(
        x, y, p, n, static_cast<unsigned>(length), static_cast<unsigned>(rows), static_cast<unsigned>(cols), counters);
    narrow<<<static_cast<unsigned>((values / 4 + 255) / 256), 256, 0, stream>>>(
        reinterpret_cast<const uint4 *>(counters), values / 4, reinterpret_cast<uchar4 *>(frames));
}

void radixSort(const uint32_t *keys, uint32_t *sorted, size_t n, int bits, void *workspace, size_t *workspace_bytes,
               cusStream stream) {
    cub::DeviceRadixSort::SortKeys(workspace, *workspace_bytes, keys, sorted, static_cast<int>(n), 0, bits, stream);
}

} // namespace peers
