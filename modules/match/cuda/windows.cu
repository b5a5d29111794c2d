// Vertical sums: for each row of the score map and each column of the frame, shifted pixels (S1) and their squares (S2) are
// summed over the window's h rows.
#include "match/cuda/stages.cuh"

namespace cusi::match {

namespace {

constexpr int COLS = 8, STRIPS = 64, UNROLL = 8; // size of a block; with more columns or fewer strips memory is idle

// A block handles COLS columns of the frame, a thread PIXELS neighboring ones. First each thread sums up a chunk of rows.
// From the chunks it gets the sum of the first window in its strip of the map, and slides that window down; this second
// reading of the rows hits the L1 cache. Sum is unsigned where 32 bits suffice; sumWindowRow() restores the sign.
template<class T, int CN, int PIXELS, class Sum, bool S1, bool S2>
struct Vertical {
    using Pixel = std::conditional_t<sizeof(T) == 1, int, double>;
    static constexpr int ACROSS = COLS / PIXELS, N = (S1 ? CN : 0) + (S2 ? 1 : 0);
    struct alignas(PIXELS * sizeof(Sum)) Sums {
        Sum v[PIXELS];
    };
    using Chunks = Sums[N][STRIPS][ACROSS];

    // A thread's pixels of a row, as loaded. Unpacking them at once would make each load wait for the one before.
    template<bool WORDS>
    struct Raw {
        std::conditional_t<WORDS, uint32_t, T> v[WORDS ? 1 : PIXELS * CN];
        __device__ void load(const char *row, const size_t (&offsets)[PIXELS]) {
            if constexpr (WORDS) {
                v[0] = __ldg(reinterpret_cast<const uint32_t *>(row + offsets[0]));
            } else {
#pragma unroll
                for (int i = 0; i < PIXELS * CN; ++i)
                    v[i] = __ldg(reinterpret_cast<const T *>(row + offsets[i / CN]) + i % CN);
            }
        }
        __device__ Pixel pixel(int i, int c) const {
            if constexpr (WORDS)
                return static_cast<Pixel>(v[0] >> (8 * i) & 255);
            else
                return static_cast<Pixel>(v[i * CN + c]);
        }
    };

    const MatchModel &m;
    const Frame &frame;
    const Windows &windows;
    size_t offsets[PIXELS]; // the thread's columns in a row; columns beyond the frame repeat its last one
    Pixel shift[CN];

    template<class Pixels>
    __device__ void add(Sums (&sum)[N], const Pixels &raw, bool minus) const {
#pragma unroll
        for (int i = 0; i < PIXELS; ++i) {
            Pixel squares = 0;
#pragma unroll
            for (int c = 0; c < CN; ++c) {
                const Pixel v = raw.pixel(i, c) - shift[c];
                if (S1)
                    sum[c].v[i] += static_cast<Sum>(minus ? -v : v);
                squares += v * v;
            }
            if (S2)
                sum[N - 1].v[i] += static_cast<Sum>(minus ? -squares : squares);
        }
    }
    __device__ const char *row(int y) const {
        return static_cast<const char *>(frame.data) + static_cast<size_t>(min(y, m.rows - 1)) * frame.step;
    }
    template<bool WORDS>
    __device__ void addRows(int y, int end, Sums (&sum)[N]) const {
        for (; y < end; y += UNROLL) {
            Raw<WORDS> raw[UNROLL];
#pragma unroll
            for (int i = 0; i < UNROLL; ++i)
                raw[i].load(row(y + i), offsets);
#pragma unroll
            for (int i = 0; i < UNROLL; ++i)
                if (y + i < end)
                    add(sum, raw[i], false);
        }
    }
    // Sums the window that begins at row y0 from whole chunks and the remaining rows.
    template<bool WORDS>
    __device__ __forceinline__ void firstWindow(const Chunks &chunks, int column, int strip, int chunk, int y0,
                                                Sums (&sum)[N]) const {
        const int last = (y0 + m.h) / chunk;
#pragma unroll
        for (int q = 0; q < N; ++q)
            sum[q] = {};
#pragma unroll 4
        for (int i = strip; i < last; ++i)
#pragma unroll
            for (int q = 0; q < N; ++q)
#pragma unroll
                for (int k = 0; k < PIXELS; ++k)
                    sum[q].v[k] += chunks[q][i][column].v[k];
        addRows<WORDS>(last * chunk, y0 + m.h, sum);
    }
    // Stores the sums of the windows that begin at rows y0 to y1.
    template<bool WORDS>
    __device__ __forceinline__ void slide(int y0, int y1, int x, Sums (&sum)[N]) const {
        Sum *to = static_cast<Sum *>(windows.vertical) + y0 * windows.vertical_pitch + x;
        for (int y = y0; y < y1; y += UNROLL) {
            Raw<WORDS> out[UNROLL], in[UNROLL];
#pragma unroll
            for (int i = 0; i < UNROLL; ++i) {
                out[i].load(row(y + i), offsets);
                in[i].load(row(y + i + m.h), offsets);
            }
#pragma unroll
            for (int i = 0; i < UNROLL; ++i, to += windows.vertical_pitch) {
                if (y + i >= y1)
                    break;
#pragma unroll
                for (int q = 0; q < N; ++q) // rows are padded to four columns
                    *reinterpret_cast<Sums *>(to + q * m.orows * windows.vertical_pitch) = sum[q];
                add(sum, out[i], true);
                add(sum, in[i], false);
            }
        }
    }
    // WORDS: the thread's columns are four bytes of one aligned word, all inside the frame.
    template<bool WORDS>
    __device__ void run(Chunks &chunks, int column, int strip, int x) const {
        const int chunk = cusi::divUp(m.rows, STRIPS);
        Sums sum[N] = {};
        addRows<WORDS>(min(strip * chunk, m.rows), min((strip + 1) * chunk, m.rows), sum);
#pragma unroll
        for (int q = 0; q < N; ++q)
            chunks[q][strip][column] = sum[q];
        __syncthreads();
        const int y0 = strip * chunk, y1 = min(y0 + chunk, m.orows);
        if (y0 >= y1 || x >= m.cols)
            return;
        firstWindow<WORDS>(chunks, column, strip, chunk, y0, sum);
        slide<WORDS>(y0, y1, x, sum);
    }
};

template<class T, int CN, int PIXELS, class Sum, bool S1, bool S2>
__global__ void __launch_bounds__(COLS / PIXELS * STRIPS)
    verticalKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                   const __grid_constant__ Windows windows) {
    // Unlike startInOrder(), this waits first: rowsFftKernel does not wait for this kernel, so it must not start before all
    // earlier work has finished.
    cusi::waitForEarlierWork();
    cusi::letNextKernelStart();
    using Work = Vertical<T, CN, PIXELS, Sum, S1, S2>;
    __shared__ typename Work::Chunks chunks;
    const int column = threadIdx.x % Work::ACROSS, strip = threadIdx.x / Work::ACROSS;
    const int x0 = blockIdx.x * COLS, x = x0 + column * PIXELS;
    Work work = {m, frame, windows, {}, {}};
#pragma unroll
    for (int i = 0; i < PIXELS; ++i)
        work.offsets[i] = static_cast<size_t>(min(x + i, m.cols - 1)) * (CN * sizeof(T));
#pragma unroll
    for (int c = 0; c < CN; ++c)
        work.shift[c] = static_cast<typename Work::Pixel>(frameShift<T>(m, frame.shift)[c]);
    if (PIXELS == 4 && x0 + COLS <= m.cols)
        work.template run<PIXELS == 4>(chunks, column, strip, x);
    else
        work.template run<false>(chunks, column, strip, x);
}

// Computes the mean of a sample of each channel. The order of the sum is fixed, so results are reproducible.
__global__ void __launch_bounds__(MATCH_SAMPLES)
    frameShiftKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame) {
    cusi::startInOrder();
    const size_t at = static_cast<size_t>(m.rows) * m.cols * threadIdx.x / MATCH_SAMPLES;
    const float *pixel = cusi::rowOf(static_cast<const float *>(frame.data), frame.step, static_cast<int>(at / m.cols)) +
                         at % m.cols * m.channels;
    for (int c = 0; c < m.channels; ++c) {
        const double v = pixel[c];
        const bool integers = __syncthreads_and(v == rint(v));
        const double sum = cusi::blockSumToFirst(v);
        if (threadIdx.x != 0)
            continue;
        const double shift = match_shiftOf(sum / MATCH_SAMPLES, integers);
        frame.shift[c] = isfinite(shift) ? shift : 0;
    }
}

template<class T, int CN, int PIXELS, class Sum>
cusStatus launchTyped(const Stages &stages, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    const auto kernel = !m.needs_s1  ? verticalKernel<T, CN, PIXELS, Sum, false, true>
                        : m.needs_s2 ? verticalKernel<T, CN, PIXELS, Sum, true, true>
                                     : verticalKernel<T, CN, PIXELS, Sum, true, false>;
    return cusi::launchOverlapped("cusMatcherRun", kernel, cusi::divUp(m.cols, COLS), COLS / PIXELS * STRIPS, 0, stream, m,
                                  stages.frame, stages.windows);
}

} // namespace

cusStatus launchFrameShift(const Stages &stages, cudaStream_t stream) {
    return cusi::launchOverlapped("cusMatcherRun", frameShiftKernel, 1, MATCH_SAMPLES, 0, stream, stages.model,
                                  stages.frame);
}

cusStatus launchVertical(const Stages &stages, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    const bool wide = stages.windows.wide;
    if (!m.integer)
        return m.channels == 1   ? launchTyped<float, 1, 1, double>(stages, stream)
               : m.channels == 2 ? launchTyped<float, 2, 1, double>(stages, stream)
               : m.channels == 3 ? launchTyped<float, 3, 1, double>(stages, stream)
                                 : launchTyped<float, 4, 1, double>(stages, stream);
    if (m.channels == 3)
        return wide ? launchTyped<uint8_t, 3, 1, long long>(stages, stream)
                    : launchTyped<uint8_t, 3, 1, unsigned>(stages, stream);
    if (m.channels == 2) // two channels are rare, so there are only 64-bit sums
        return launchTyped<uint8_t, 2, 1, long long>(stages, stream);
    if (m.channels == 4)
        return launchTyped<uint8_t, 4, 1, long long>(stages, stream);
    if (wide)
        return launchTyped<uint8_t, 1, 1, long long>(stages, stream);
    if (cusi::isAligned(stages.frame.data, stages.frame.step, m.rows, 4))
        return launchTyped<uint8_t, 1, 4, unsigned>(stages, stream);
    return launchTyped<uint8_t, 1, 1, unsigned>(stages, stream);
}

} // namespace cusi::match
