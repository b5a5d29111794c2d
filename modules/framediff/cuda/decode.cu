// The decoder: adds each value at its position. In long lists a thread takes several entries at a time.
#include "framediff/cuda/encode.cuh"

#include <algorithm>

namespace {

constexpr int THREADS = 256, BLOCKS_PER_SM = 8;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750 // 1024 resident threads at most
constexpr int RESIDENT_BLOCKS = 4;
#elif defined(__CUDA_ARCH__) && ((__CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 900) || __CUDA_ARCH__ >= 1100) // 1536
constexpr int RESIDENT_BLOCKS = 6;
#else
constexpr int RESIDENT_BLOCKS = BLOCKS_PER_SM;
#endif
constexpr unsigned BATCH = 4; // entries that a thread takes at a time

struct DecodeParams {
    unsigned char *frame;
    const uint32_t *positions, *count;
    const unsigned char *values;
    size_t step;
    unsigned long long bytes;
    cusi::framediff::Divisor row_bytes; // exact for frames up to 2 GiB
    unsigned capacity;
};

// Adds COUNT entries, the first at `at`, the others `stride` apart; positions outside the frame are skipped.
template<unsigned COUNT>
__device__ __forceinline__ void addEntries(const DecodeParams &params, size_t at, size_t stride) {
    unsigned position[COUNT], value[COUNT];
#pragma unroll
    for (unsigned k = 0; k < COUNT; ++k) {
        position[k] = params.positions[at + k * stride];
        value[k] = params.values[at + k * stride];
    }
    unsigned char *byte[COUNT];
#pragma unroll
    for (unsigned k = 0; k < COUNT; ++k) {
        const unsigned p = position[k], d = params.row_bytes.d;
        const unsigned y = params.bytes <= 1ull << 31 ? params.row_bytes.divide(p) : p / d;
        byte[k] = params.frame + static_cast<size_t>(y) * params.step + (p - y * d);
        if (p < params.bytes)
            value[k] += *byte[k];
    }
#pragma unroll
    for (unsigned k = 0; k < COUNT; ++k)
        if (position[k] < params.bytes)
            *byte[k] = static_cast<unsigned char>(value[k]);
}

__global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) decodeKernel(const DecodeParams params) {
    cusi::startInOrder();
    const unsigned n = *params.count;
    if (n > params.capacity)
        return;
    const size_t threads = static_cast<size_t>(gridDim.x) * THREADS;
    size_t i = blockIdx.x * static_cast<size_t>(THREADS) + threadIdx.x;
    for (; i + (BATCH - 1) * threads < n; i += BATCH * threads)
        addEntries<BATCH>(params, i, threads);
    for (; i < n; i += threads)
        addEntries<1>(params, i, threads);
}

} // namespace

cusStatus cusi::framediff::launchDecode(const char *function, const cusMat &frame, const cusSparseDiff &diff,
                                        cudaStream_t stream) {
    const size_t row_bytes = cusi_rowBytes(&frame);
    DecodeParams params = {};
    params.frame = static_cast<unsigned char *>(frame.data);
    params.positions = static_cast<const uint32_t *>(diff.positions.data);
    params.count = static_cast<const uint32_t *>(diff.count.data);
    params.values = static_cast<const unsigned char *>(diff.values.data);
    params.step = frame.step;
    params.bytes = static_cast<unsigned long long>(row_bytes) * static_cast<unsigned>(frame.rows);
    params.row_bytes = cusi::framediff::Divisor(static_cast<unsigned>(row_bytes));
    params.capacity = diff.capacity;
    int sms = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&sms));
    // Only the device knows the number of entries, so the grid fills the device once and strides.
    const unsigned blocks =
        std::min(cusi::divUp(diff.capacity, static_cast<unsigned>(THREADS)), static_cast<unsigned>(BLOCKS_PER_SM * sms));
    return cusi::launchOverlapped(function, decodeKernel, blocks, THREADS, 0, stream, params);
}

cusStatus framediff_cuda_decode(cusDiffDecoder *decoder, const cusSparseDiff *diff, cusStream stream) {
    return cusi::framediff::launchDecode("cusDiffDecode", decoder->frame, *diff, stream);
}
