// Transforms the frame's rows in shared memory.
#include "match/cuda/levels.cuh"

namespace cusi::match {

namespace {

// Rows y and y + 1 of the frame are the real and the imaginary part of one signal. Rows below the frame are zero.
struct RowPair {
    const unsigned char *const first, *const second;
    const int y;
};

// Runs the outer pass on a channel of bytes and returns the sum of their squares.
__device__ __forceinline__ unsigned transformBytes(const MatchModel &m, const fft::Plan &plan, const RowPair &rows,
                                                   int channel) {
    const int shift = static_cast<int>(m.shift[channel]);
    unsigned sum = 0; // at most 2 * 16 squares of a byte
    fft::forwardOuterPass(plan, shared_points, [&](int x) {
        const int at = min(x, m.cols - 1) * m.channels + channel;
        int a = __ldg(rows.first + at), b = __ldg(rows.second + at);
        a = x < m.cols && rows.y < m.rows ? a - shift : 0;
        b = x < m.cols && rows.y + 1 < m.rows ? b - shift : 0;
        sum += a * a + b * b;
        return make_float2(static_cast<float>(a), static_cast<float>(b));
    });
    return sum;
}

// Does the same for floats, multiplied by 2^level.
__device__ __forceinline__ double transformFloats(const MatchModel &m, double shift, int level, const fft::Plan &plan,
                                                  const RowPair &rows, int channel) {
    const float scale = scalbnf(1, level), scaled_shift = static_cast<float>(shift) * scale;
    double sum = 0;
    fft::forwardOuterPass(plan, shared_points, [&](int x) {
        const int at = min(x, m.cols - 1) * m.channels + channel;
        const auto value = [&](const unsigned char *row, bool inside) {
            const float pixel = fmaf(__ldg(reinterpret_cast<const float *>(row) + at), scale, -scaled_shift);
            const float v = inside ? pixel : 0;
            sum += static_cast<double>(v) * v;
            return v;
        };
        const float a = value(rows.first, x < m.cols && rows.y < m.rows);
        return make_float2(a, value(rows.second, x < m.cols && rows.y + 1 < m.rows));
    });
    return sum;
}

// Separates the spectra of the two rows in each transform Z: twice their spectra are Z(k) + conj Z(n - k) and -i times the
// difference. The templates' spectra make up for the factor 2. Two neighboring threads write 32 bytes of a tile: rows y and
// y + 1, then y + 2 and y + 3.
__device__ __forceinline__ void storeSpectra(const BlockFft &fft, const fft::Plan &plan, float4 *out) {
    for (int i = threadIdx.x; i < 2 * fft.tiles; i += blockDim.x) {
        const int tile = i / 2, k = 2 * tile;
        const bool odd = i % 2;
        const auto part = [&](float zx, float zy, float mx, float my) {
            return odd ? make_float2(zy + my, mx - zx) : make_float2(zx + mx, zy - my);
        };
        const float4 z0 = shared_points[__ldg(plan.digit_reversal + k)];
        const float4 z1 = shared_points[__ldg(plan.digit_reversal + k + 1)];
        const float4 m0 = shared_points[__ldg(plan.digit_reversal + (k ? plan.n - k : 0))];
        const float4 m1 = shared_points[__ldg(plan.digit_reversal + plan.n - k - 1)];
        const float2 a0 = part(z0.x, z0.y, m0.x, m0.y), a1 = part(z1.x, z1.y, m1.x, m1.y);
        const float2 b0 = part(z0.z, z0.w, m0.z, m0.w), b1 = part(z1.z, z1.w, m1.z, m1.w);
        float4 *at = out + static_cast<size_t>(tile) * fft.spectrum_pitch + odd;
        at[0] = make_float4(a0.x, a0.y, a1.x, a1.y);
        at[2] = make_float4(b0.x, b0.y, b1.x, b1.y);
    }
}

// A block transforms BAND rows of a plane.
__global__ void __launch_bounds__(fft::MAX_THREADS, 2)
    rowsFftKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                  const __grid_constant__ BlockFft fft, const __grid_constant__ Energy energy, bool beside_vertical) {
    if (!beside_vertical)
        cusi::startInOrder();
    else // verticalKernel started this kernel after all earlier work had finished
        cusi::letNextKernelStart();
    const fft::Plan &plan = fft.rows;
    const int y0 = blockIdx.x * BAND, p = blockIdx.y;
    const double squares = transformAtLevel(m, [&](int level) {
        const int y = y0 + 2 * fft::signalIndex();
        const unsigned char *const data = static_cast<const unsigned char *>(frame.data);
        const RowPair rows = {data + static_cast<size_t>(min(y, m.rows - 1)) * frame.step,
                              data + static_cast<size_t>(min(y + 1, m.rows - 1)) * frame.step, y};
        double sum;
        if (m.integer)
            sum = transformBytes(m, plan, rows, p);
        else
            sum = transformFloats(m, frame.shift[p], level, plan, rows, p);
        fft::middlePass<fft::Direction::FORWARD>(plan, shared_points);
        fft::innerPass(plan, shared_points);
        return cusi::blockSumToFirst(sum); // contains the barrier after the last pass
    });
    if (threadIdx.x == 0)
        energy.parts[static_cast<size_t>(p) * energy.part_count + blockIdx.x] = squares;
    storeSpectra(fft, plan, fft.spectra + static_cast<size_t>(p) * fft.tiles * fft.spectrum_pitch + y0);
    if (beside_vertical) // the next kernel waits only for this one, so this one must wait for verticalKernel
        cusi::waitForEarlierWork();
}

} // namespace

cusStatus allowRowsFftMemory(int bytes) {
    return allowSharedMemory(reinterpret_cast<const void *>(rowsFftKernel), bytes);
}

cusStatus launchRowsFft(const Stages &stages, bool beside_vertical, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    return cusi::launchOverlapped("cusMatcherRun", rowsFftKernel, dim3(cusi::divUp(m.rows, BAND), m.channels),
                                  stages.block_fft.rows.threads, rowFftBytes(stages), stream, m, stages.frame,
                                  stages.block_fft, stages.energy, beside_vertical);
}

} // namespace cusi::match
