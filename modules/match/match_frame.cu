// The frame as shifted planes of floats for cuFFT, and the planes' energy.
#include "match_cuda.cuh"

namespace match {

namespace {

constexpr int ITEMS = 8; // neighboring pixels of a thread, so that floats leave in 16-byte stores

// Elements x .. x + N - 1 of a row; zeros from `end` on.
template<class T, int N>
__device__ void loadRow(const T *row, size_t x, size_t end, float (&v)[N]) {
    if (sizeof(T) == 1 && N % 4 == 0 && x + N <= end && reinterpret_cast<uintptr_t>(row + x) % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N / 4; ++i) {
            const uint32_t word = __ldg(reinterpret_cast<const uint32_t *>(row + x) + i);
#pragma unroll
            for (int k = 0; k < 4; ++k)
                v[4 * i + k] = static_cast<float>(word >> (8 * k) & 255);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < N; ++i)
        v[i] = x + i < end ? static_cast<float>(__ldg(row + x + i)) : 0.0f;
}

// Shifts the pixels, adds up their energy, and computes their squares less the model's shift of squares.
template<int CN>
__device__ __forceinline__ void shiftPixels(const MatchModel &m, int x, bool filled, float (&v)[CN * ITEMS],
                                            float (&square)[ITEMS], double (&energy)[MATCH_MAX_PLANES]) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const bool inside = filled && x + i < m.cols;
        float sum = 0;
#pragma unroll
        for (int c = 0; c < CN; ++c) {
            float &value = v[i * CN + c];
            value = inside ? value - static_cast<float>(m.shift[c]) : 0.0f;
            sum += value * value;
            energy[c] += static_cast<double>(value) * value;
        }
        square[i] = inside ? sum - static_cast<float>(m.square_shift) : 0.0f;
        if (m.planes > CN)
            energy[CN] += static_cast<double>(square[i]) * square[i];
    }
}

template<int CN>
__device__ __forceinline__ void storePixels(const MatchModel &m, const CuFft &fft, int y, int x,
                                            const float (&v)[CN * ITEMS], const float (&square)[ITEMS]) {
    const size_t plane = static_cast<size_t>(fft.rows) * fft.cols;
    float *out = fft.planes + static_cast<size_t>(y) * fft.cols + x;
#pragma unroll
    for (int i = 0; i < ITEMS; i += 4)
        if (x + i < fft.cols) {
#pragma unroll
            for (int c = 0; c < CN; ++c)
                *reinterpret_cast<float4 *>(out + c * plane + i) =
                    make_float4(v[i * CN + c], v[(i + 1) * CN + c], v[(i + 2) * CN + c], v[(i + 3) * CN + c]);
            if (m.planes > CN)
                *reinterpret_cast<float4 *>(out + CN * plane + i) =
                    make_float4(square[i], square[i + 1], square[i + 2], square[i + 3]);
        }
}

// One block a row of the planes; without planes only the energy of a row of the frame.
template<class T, int CN>
__global__ void __launch_bounds__(THREADS)
    planesKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                 const __grid_constant__ CuFft fft, const __grid_constant__ Energy energy) {
    cusi::startInOrder();
    const int y = blockIdx.x;
    const bool filled = y < m.rows;
    const T *row = cusi::rowOf(static_cast<const T *>(frame.data), frame.step, filled ? y : 0);
    const size_t end = filled ? static_cast<size_t>(m.cols) * CN : 0;
    const int width = fft.planes ? fft.cols : m.cols;
    double sums[MATCH_MAX_PLANES] = {0, 0, 0, 0};
    for (int x = static_cast<int>(threadIdx.x) * ITEMS; x < width; x += THREADS * ITEMS) {
        float v[CN * ITEMS], square[ITEMS];
        loadRow<T, CN * ITEMS>(row, static_cast<size_t>(x) * CN, end, v);
        shiftPixels<CN>(m, x, filled, v, square, sums);
        if (fft.planes)
            storePixels<CN>(m, fft, y, x, v, square);
    }
    if (!filled)
        return;
#pragma unroll
    for (int p = 0; p < CN + 1; ++p) {
        if (p >= m.planes)
            break;
        const double sum = cusi::blockSumToFirst(sums[p]);
        if (threadIdx.x == 0)
            energy.parts[static_cast<size_t>(p) * energy.part_count + y] = sum;
    }
}

} // namespace

cusStatus launchPlanes(const Stages &stages, int rows, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    const auto kernel = !m.integer        ? planesKernel<float, 1>
                        : m.channels == 1 ? planesKernel<uint8_t, 1>
                                          : planesKernel<uint8_t, 3>;
    return cusi::launchOverlapped("cusMatcherRun", kernel, rows, THREADS, 0, stream, m, stages.frame, stages.cufft,
                                  stages.energy);
}

} // namespace match
