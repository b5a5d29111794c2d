// Median of 3x3 or 5x5 pixels by forgetful selection in registers: of the values kept so far the smallest and the largest
// cannot be the median, so one is dropped and the next value takes the place of the other. 16-bit: two neighboring pixels
// in the halves of a word.
#include "stereo/cuda/state.cuh"

namespace cusi::stereo {
namespace {

// Exchanges a and b if out of order, as words or as pairs of 16 bits.
__device__ inline void compareExchange(unsigned &a, unsigned &b, bool halves) {
    const unsigned low = halves ? __vminu2(a, b) : min(a, b), high = halves ? __vmaxu2(a, b) : max(a, b);
    a = low;
    b = high;
}

template<int SIZE, bool HALVES>
__device__ inline unsigned medianOf(const unsigned *values) {
    constexpr int KEPT = SIZE * SIZE / 2 + 2;
    unsigned v[KEPT];
#pragma unroll
    for (int i = 0; i < KEPT; ++i)
        v[i] = values[i];
#pragma unroll
    for (int kept = KEPT; kept >= 3; --kept) {
        // Pairs first: the smallest is among the lower ones, the largest among the upper ones.
#pragma unroll
        for (int i = 0; i < kept / 2; ++i)
            compareExchange(v[i], v[kept - 1 - i], HALVES);
        if (kept % 2) { // the middle one takes part on both sides
            compareExchange(v[0], v[kept / 2], HALVES);
            compareExchange(v[kept / 2], v[kept - 1], HALVES);
        }
#pragma unroll
        for (int i = 1; i < kept / 2; ++i) {
            compareExchange(v[0], v[i], HALVES);
            compareExchange(v[kept - 1 - i], v[kept - 1], HALVES);
        }
        if (kept > 3)
            v[0] = values[2 * KEPT - kept]; // replaces the smallest; the next pass ignores the largest, v[kept - 1]
    }
    return v[1];
}

template<int SIZE>
__global__ void __launch_bounds__(256)
    median16Kernel(const uint16_t *in, size_t step, uint16_t *out, size_t out_step, int rows, int cols) {
    startInOrder();
    constexpr int RADIUS = SIZE / 2;
    const int x = 2 * (blockIdx.x * 32 + threadIdx.x);
    if (x >= cols)
        return;
    for (int y = blockIdx.y * 8 + threadIdx.y; y < rows; y += gridDim.y * 8) {
        unsigned values[SIZE * SIZE];
#pragma unroll
        for (int j = 0; j < SIZE; ++j) {
            const uint16_t *const row = rowOf(in, step, min(max(y + j - RADIUS, 0), rows - 1));
            unsigned v[SIZE + 1];
#pragma unroll
            for (int i = 0; i <= SIZE; ++i)
                v[i] = row[min(max(x + i - RADIUS, 0), cols - 1)];
#pragma unroll
            for (int i = 0; i < SIZE; ++i)
                values[j * SIZE + i] = v[i] | v[i + 1] << 16;
        }
        const unsigned m = medianOf<SIZE, true>(values);
        uint16_t *const to = rowOf(out, out_step, y) + x;
        to[0] = static_cast<uint16_t>(m);
        if (x + 1 < cols)
            to[1] = static_cast<uint16_t>(m >> 16);
    }
}

template<int SIZE>
__global__ void __launch_bounds__(256)
    median32Kernel(const unsigned *in, size_t step, unsigned *out, size_t out_step, int rows, int cols) {
    startInOrder();
    constexpr int RADIUS = SIZE / 2;
    const int x = blockIdx.x * 32 + threadIdx.x;
    if (x >= cols)
        return;
    for (int y = blockIdx.y * 8 + threadIdx.y; y < rows; y += gridDim.y * 8) {
        unsigned values[SIZE * SIZE];
#pragma unroll
        for (int j = 0; j < SIZE; ++j) {
            const unsigned *const row = rowOf(in, step, min(max(y + j - RADIUS, 0), rows - 1));
#pragma unroll
            for (int i = 0; i < SIZE; ++i)
                values[j * SIZE + i] = row[min(max(x + i - RADIUS, 0), cols - 1)];
        }
        rowOf(out, out_step, y)[x] = medianOf<SIZE, false>(values);
    }
}

} // namespace
} // namespace cusi::stereo

cusStatus stereo_cuda_median(const char *function, cusStream stream, const cusMat *elevation, cusMat *smoothed, int size) {
    using namespace cusi;
    using namespace cusi::stereo;
    const cusMat &in = *elevation;
    cusMat &out = *smoothed;
    const dim3 block(32, 8);
    const unsigned down = std::min(divUp(in.rows, 8), 65535);
    if (in.type == CUS_16UC1) {
        auto *kernel = size == 3 ? median16Kernel<3> : median16Kernel<5>;
        return launchOverlapped(function, kernel, dim3(divUp(in.cols, 64), down), block, 0, stream,
                                static_cast<const uint16_t *>(in.data), in.step, static_cast<uint16_t *>(out.data),
                                out.step, in.rows, in.cols);
    }
    auto *kernel = size == 3 ? median32Kernel<3> : median32Kernel<5>;
    return launchOverlapped(function, kernel, dim3(divUp(in.cols, 32), down), block, 0, stream,
                            static_cast<const unsigned *>(in.data), in.step, static_cast<unsigned *>(out.data), out.step,
                            in.rows, in.cols);
}
