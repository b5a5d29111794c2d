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

struct DecodeImage {
    unsigned char *frame;
    const uint32_t *positions, *count;
    const unsigned char *values;
    size_t step;
    unsigned capacity;
};
struct DecodeShape {
    unsigned long long bytes;
    cusi::framediff::Divisor row_bytes; // exact for frames up to 2 GiB
};
struct DecodeParams : DecodeImage, DecodeShape {};

// The frames of a batch are the second dimension of the grid.
struct DecodeBatch {
    DecodeShape shape;
    DecodeImage images[cusi::framediff::BATCH_IMAGES];
};

// Returns the parameters of a block's frame.
__device__ __forceinline__ const DecodeParams &paramsOf(const DecodeParams &launch) {
    return launch;
}
__device__ __forceinline__ DecodeParams paramsOf(const DecodeBatch &launch) {
    return {launch.images[blockIdx.y], launch.shape};
}

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

template<class Params>
__global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) decodeKernel(const Params launch) {
    const DecodeParams &params = paramsOf(launch);
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

cusStatus cusi::framediff::launchDecode(const char *function, unsigned count, const cusMat *frames,
                                        const cusSparseDiff *diffs, cudaStream_t stream) {
    const size_t row_bytes = cusi_rowBytes(frames);
    DecodeBatch batch = {};
    batch.shape.bytes = static_cast<unsigned long long>(row_bytes) * static_cast<unsigned>(frames->rows);
    batch.shape.row_bytes = cusi::framediff::Divisor(static_cast<unsigned>(row_bytes));
    unsigned capacity = 0;
    for (unsigned i = 0; i < count; ++i) {
        batch.images[i] = {static_cast<unsigned char *>(frames[i].data),
                           static_cast<const uint32_t *>(diffs[i].positions.data),
                           static_cast<const uint32_t *>(diffs[i].count.data),
                           static_cast<const unsigned char *>(diffs[i].values.data),
                           frames[i].step,
                           diffs[i].capacity};
        capacity = std::max(capacity, diffs[i].capacity);
    }
    int sms = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&sms));
    // Only the device knows the number of entries, so the grid fills the device once and strides.
    const unsigned blocks = std::min(cusi::divUp(capacity, static_cast<unsigned>(THREADS)),
                                     cusi::divUp(static_cast<unsigned>(BLOCKS_PER_SM * sms), count));
    if (count == 1)
        return cusi::launchOverlapped(function, decodeKernel<DecodeParams>, blocks, THREADS, 0, stream,
                                      DecodeParams{batch.images[0], batch.shape});
    return cusi::launchOverlapped(function, decodeKernel<DecodeBatch>, dim3(blocks, count), THREADS, 0, stream, batch);
}

cusStatus framediff_cuda_decode(cusDiffDecoder *decoder, const cusSparseDiff *diff, cusStream stream) {
    return cusi::framediff::launchDecode("cusDiffDecode", 1, &decoder->frame, diff, stream);
}
