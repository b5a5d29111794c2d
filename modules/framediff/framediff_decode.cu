// The decoder: adds each value at its position, one thread per entry.
#include "cuda.cuh"
#include "framediff_backend.h"

#include <algorithm>

namespace {

__global__ void decodeKernel(unsigned char *frame, size_t step, unsigned row_bytes, unsigned long long bytes,
                             const uint32_t *positions, const unsigned char *values, const uint32_t *count,
                             unsigned capacity) {
    cusi::startInOrder();
    const unsigned n = *count;
    if (n > capacity)
        return;
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < n;
         i += static_cast<size_t>(gridDim.x) * blockDim.x) {
        const unsigned p = positions[i];
        if (p >= bytes)
            continue;
        const unsigned y = p / row_bytes;
        frame[static_cast<size_t>(y) * step + (p - y * row_bytes)] += values[i];
    }
}

} // namespace

cusStatus framediff_cuda_decode(cusDiffDecoder *decoder, const cusSparseDiff *diff, cusStream stream) {
    const size_t row_bytes = cusi_rowBytes(&decoder->frame);
    int sms = 0;
    CUSI_CUDA("cusDiffDecode", cusi::multiprocessors(&sms));
    // Only the device knows the number of entries, so the grid fills the device once and strides.
    const unsigned blocks = std::min(cusi::divUp(diff->capacity, 256u), 8u * sms);
    return cusi::launchOverlapped(
        "cusDiffDecode", decodeKernel, blocks, 256, 0, stream, static_cast<unsigned char *>(decoder->frame.data),
        decoder->frame.step, static_cast<unsigned>(row_bytes), static_cast<unsigned long long>(row_bytes) * decoder->rows,
        static_cast<const uint32_t *>(diff->positions.data), static_cast<const unsigned char *>(diff->values.data),
        static_cast<const uint32_t *>(diff->count.data), diff->capacity);
}
