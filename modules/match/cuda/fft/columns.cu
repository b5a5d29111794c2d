// Correlates the columns of the spectrum in shared memory: forward transform, product with the templates' conjugate
// spectra, inverse transform.
#include "match/cuda/windows.cuh"

namespace cusi::match {

namespace {

// Runs the outer and the middle pass on a tile's columns of a plane. Rows below the frame are zero.
__device__ __forceinline__ void forwardColumns(const MatchModel &m, const BlockFft &fft, const fft::Plan &plan, int tile,
                                               int p, float4 *points) {
    const float2 *in =
        reinterpret_cast<const float2 *>(fft.spectra + (static_cast<size_t>(p) * fft.tiles + tile) * fft.spectrum_pitch) +
        fft::signalIndex();
    fft::forwardOuterPass(plan, points, [&](int y) { return y < m.rows ? in[2 * y] : make_float2(0, 0); });
    fft::middlePass<fft::Direction::FORWARD>(plan, points);
}

// Runs the inner pass, the product, and the inverse inner pass in registers. The product is the conjugate of the
// correlation's spectrum.
template<int R>
__device__ __forceinline__ void multiplyColumns(const MatchModel &m, const BlockFft &fft, const fft::Plan &plan, int tile,
                                                int k, float4 *work) {
    const int elements = plan.elements();
    const int step = 2 * plan.a * plan.b;
    const size_t spectrum = static_cast<size_t>(fft.tiles) * plan.n * 2;
    const float2 *templ = reinterpret_cast<const float2 *>(fft.template_spectra + static_cast<size_t>(tile) * plan.n) +
                          static_cast<size_t>(k) * m.channels * spectrum;
    float2 t[R]; // the first values are requested before the barrier
#pragma unroll
    for (int i = 0; i < R; ++i)
        t[i] = static_cast<int>(threadIdx.x) < step ? __ldg(templ + threadIdx.x + i * step) : float2{0, 0};
    __syncthreads();
    for (int item = threadIdx.x; item < step; item += blockDim.x) {
        const int i0 = plan.divideByB(item / 2), j = item / 2 - i0 * plan.b;
        const int at = 2 * (i0 * plan.stride + j * R);
        float2 *to = fft::signalPoints(work) + at;
        for (int p = 0; p < m.channels; ++p) {
            if (p || item >= static_cast<int>(blockDim.x))
#pragma unroll
                for (int i = 0; i < R; ++i)
                    t[i] = __ldg(templ + p * spectrum + item + i * step);
            const float2 *from = fft::signalPoints(shared_points + p * elements) + at;
            fft::Points<R> points;
#pragma unroll
            for (int i = 0; i < R; ++i)
                points.v[i] = from[2 * i];
            points.transform();
#pragma unroll
            for (int i = 0; i < R; ++i) {
                const float2 a = points.v[i], b = t[i], sum = p ? to[2 * i] : float2{0, 0};
                points.v[i] = {fmaf(a.x, b.x, fmaf(a.y, b.y, sum.x)), fmaf(a.x, b.y, fmaf(-a.y, b.x, sum.y))};
            }
            if (p == m.channels - 1)
                points.transform();
#pragma unroll
            for (int i = 0; i < R; ++i)
                to[2 * i] = points.v[i];
        }
    }
}

// Runs the inverse middle and outer pass on the product. Rows below the score map are dropped.
__device__ __forceinline__ void inverseColumns(const BlockFft &fft, const fft::Plan &plan, int tile, int k, float4 *work) {
    fft::middlePass<fft::Direction::INVERSE>(plan, work);
    float2 *out =
        reinterpret_cast<float2 *>(fft.products + (static_cast<size_t>(k) * fft.tiles + tile) * fft.product_pitch) +
        fft::signalIndex();
    fft::inverseOuterPass(plan, work, [&](int y, float2 *, const float2 &v) {
        if (y < fft.product_pitch)
            out[2 * y] = v;
    });
}

// Correlates a tile of two columns. The product has its own memory, since each template needs the frame's spectrum again.
__device__ void correlateColumns(const MatchModel &m, const BlockFft &fft, int tile) {
    const fft::Plan &plan = fft.columns;
    const int elements = plan.elements();
    for (int p = 0; p < m.channels; ++p)
        forwardColumns(m, fft, plan, tile, p, shared_points + p * elements);
    for (int k = 0; k < m.count; ++k) {
        float4 *work = shared_points + (m.count == 1 ? 0 : m.channels * elements);
        fft::dispatch<fft::C_RADICES>(
            plan.c, [&](auto radix) { multiplyColumns<decltype(radix)::value>(m, fft, plan, tile, k, work); });
        inverseColumns(fft, plan, tile, k, work);
    }
}

// Brings all rows of a tile to the frame's level. Not inlined, since the transforms need all registers.
__device__ __noinline__ void levelRows(const MatchModel &m, const BlockFft &fft, const Energy &energy, int tile) {
    if (!hasLevels(m, energy))
        return;
    const int least = leastLevel(m, energy);
    for (int p = 0; p < m.channels; ++p)
        for (int y = threadIdx.x; y < m.rows; y += blockDim.x) {
            float4 &v = fft.spectra[(static_cast<size_t>(p) * fft.tiles + tile) * fft.spectrum_pitch + y];
            const float scale = toLevel(least, energy.parts[static_cast<size_t>(p) * energy.part_count + y / BAND]);
            v = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
        }
    __syncthreads();
}

// The first blocks correlate a tile each, the next adds up the energy, the others make window sums.
template<class T>
__global__ void __launch_bounds__(fft::MAX_THREADS, 2)
    columnsFftKernel(const __grid_constant__ MatchModel m, const __grid_constant__ BlockFft fft,
                     const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                     const __grid_constant__ Energy energy) {
    cusi::startInOrder();
    const int block = blockIdx.x;
    if (block < fft.tiles) {
        if (sizeof(T) > 1)
            levelRows(m, fft, energy, block);
        correlateColumns(m, fft, block);
    } else if (block == fft.tiles)
        addEnergy(m, templates, energy, frameShift<T>(m, windows.shift));
    else
        sumWindowRow<T>(m, windows, block - fft.tiles - 1);
}

} // namespace

size_t columnFftBytes(const Stages &stages) {
    const MatchModel &m = stages.model;
    const size_t spectra =
        static_cast<size_t>(stages.block_fft.columns.elements()) * sizeof(float4) * (m.channels + (m.count > 1));
    return std::max(spectra, prefixBytes(stages));
}

cusStatus allowColumnsFftMemory(const MatchModel &m, int bytes) {
    return m.integer ? allowSharedMemory(reinterpret_cast<const void *>(columnsFftKernel<uint8_t>), bytes)
                     : allowSharedMemory(reinterpret_cast<const void *>(columnsFftKernel<float>), bytes);
}

cusStatus launchColumnsFft(const Stages &stages, int window_blocks, cudaStream_t stream) {
    const BlockFft &fft = stages.block_fft;
    return cusi::launchOverlapped("cusMatcherRun",
                                  stages.model.integer ? columnsFftKernel<uint8_t> : columnsFftKernel<float>,
                                  fft.tiles + 1 + window_blocks, fft.columns.threads, columnFftBytes(stages), stream,
                                  stages.model, fft, stages.templates, stages.windows, stages.energy);
}

} // namespace cusi::match
