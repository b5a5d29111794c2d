// Finds the median of 3x3 or 5x5 pixels by forgetful selection in registers: the smallest and the largest value kept so far
// cannot be the median, so one is dropped and the next value replaces the other. Two neighboring 16-bit pixels are in the
// halves of a word.
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
        // After this the smallest is among the lower ones of the pairs, the largest among the upper ones.
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

// T is uint16_t, with two neighbors a thread, or uint32_t for the bits of floats.
template<class T, int SIZE>
__global__ void __launch_bounds__(256) medianKernel(const T *in, size_t step, T *out, size_t out_step, int rows, int cols) {
    startInOrder();
    constexpr int RADIUS = SIZE / 2, PIXELS = 4 / sizeof(T);
    const int x = PIXELS * (blockIdx.x * 32 + threadIdx.x);
    if (x >= cols)
        return;
    for (int y = blockIdx.y * 8 + threadIdx.y; y < rows; y += gridDim.y * 8) {
        unsigned values[SIZE * SIZE];
#pragma unroll
        for (int j = 0; j < SIZE; ++j) {
            const T *const row = rowOf(in, step, min(max(y + j - RADIUS, 0), rows - 1));
            unsigned v[SIZE + PIXELS - 1];
#pragma unroll
            for (int i = 0; i < SIZE + PIXELS - 1; ++i)
                v[i] = row[min(max(x + i - RADIUS, 0), cols - 1)];
#pragma unroll
            for (int i = 0; i < SIZE; ++i)
                values[j * SIZE + i] = PIXELS == 2 ? v[i] | v[i + PIXELS - 1] << 16 : v[i];
        }
        const unsigned m = medianOf<SIZE, PIXELS == 2>(values);
        T *const to = rowOf(out, out_step, y) + x;
        to[0] = static_cast<T>(m);
        if (PIXELS == 2 && x + 1 < cols)
            to[1] = static_cast<T>(m >> 16);
    }
}

} // namespace
} // namespace cusi::stereo

cusStatus stereo_cuda_median(const char *function, cusStream stream, const cusMat *elevation, cusMat *smoothed, int size) {
    using namespace cusi::stereo;
    const auto launchMedian = [&](auto *kernel, int pixels) {
        const dim3 grid(cusi::divUp(elevation->cols, 32 * pixels), std::min(cusi::divUp(elevation->rows, 8), 65535));
        return cusi::launchOverlapped(function, kernel, grid, dim3(32, 8), 0, stream, elevation->data, elevation->step,
                                      smoothed->data, smoothed->step, elevation->rows, elevation->cols);
    };
    if (elevation->type == CUS_16UC1)
        return launchMedian(size == 3 ? medianKernel<uint16_t, 3> : medianKernel<uint16_t, 5>, 2);
    return launchMedian(size == 3 ? medianKernel<unsigned, 3> : medianKernel<unsigned, 5>, 1);
}
