// Computes the scores of BAND rows of the map after the inverse transform of their spectra in shared memory.
#include "match/cuda/scores.cuh"

namespace cusi::match {

namespace {

// Loads the band's products and joins the spectra of its rows, which are real, in pairs a + i b, in the order of the
// inverse transform.
__device__ __forceinline__ void loadProducts(const BlockFft &fft, const fft::Plan &plan, const float4 *in) {
    const int half = plan.n / 2, odd = threadIdx.x % 2;
    constexpr int UNROLL = 3;
    for (int i0 = 0; i0 < 2 * fft.tiles; i0 += static_cast<int>(blockDim.x) * UNROLL) {
        int forward_at[UNROLL], mirrored_at[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int column = min(i0 + u * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x), half);
            forward_at[u] = __ldg(plan.digit_reversal + column);
            mirrored_at[u] = __ldg(plan.digit_reversal + (column ? plan.n - column : 0));
        }
        if (i0 == 0) // only the table does not depend on earlier work
            cusi::startInOrder();
        // Two neighboring threads read 32 bytes, rows y and y + 1 of two columns; each keeps one column of both rows.
        float4 v[2][UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int i = i0 + u * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
            const float4 *at = in + static_cast<size_t>(min(i / 2, fft.tiles - 1)) * fft.product_pitch + odd;
            v[0][u] = at[0];
            v[1][u] = at[2];
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int column = i0 + u * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
            float2 forward[2], mirrored[2];
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                const float4 mine = v[pair][u];
                const float sent_x = odd ? mine.x : mine.z, sent_y = odd ? mine.y : mine.w;
                const float got_x = __shfl_xor_sync(cusi::FULL_WARP, sent_x, 1);
                const float got_y = __shfl_xor_sync(cusi::FULL_WARP, sent_y, 1);
                float2 a = odd ? float2{got_x, got_y} : float2{mine.x, mine.y};
                float2 b = odd ? float2{mine.z, mine.w} : float2{got_x, got_y};
                if (column == 0 || column == half) // real, apart from rounding
                    a.y = b.y = 0;
                forward[pair] = {a.x - b.y, a.y + b.x};
                mirrored[pair] = {a.x + b.y, b.x - a.y}; // conj a + i conj b
            }
            if (column <= half)
                shared_points[forward_at[u]] = make_float4(forward[0].x, forward[0].y, forward[1].x, forward[1].y);
            if (column > 0 && column < half)
                shared_points[mirrored_at[u]] = make_float4(mirrored[0].x, mirrored[0].y, mirrored[1].x, mirrored[1].y);
        }
    }
}

// Writes the scores of the band and the least lower end of each tile of 32 columns; returns the thread's least upper end.
template<class T, int CN, bool SQUARED>
__device__ __forceinline__ float writeScores(const MatchModel &m, const fft::Plan &plan, const Windows &windows,
                                             const Scores &scores, const ScoreWriter<CN, SQUARED> &writer, int y0) {
    float upper = INFINITY;
    constexpr int GROUPS = SQUARED ? 3 : 1; // groups of columns whose loads overlap
    for (int x0 = threadIdx.x; x0 - static_cast<int>(threadIdx.x % 32) < m.ocols;
         x0 += GROUPS * static_cast<int>(blockDim.x)) {
        double s1[GROUPS][BAND][CN] = {}, s2[GROUPS][BAND];
#pragma unroll
        for (int g = 0; g < GROUPS; ++g)
#pragma unroll
            for (int r = 0; r < BAND; ++r)
                windowAt<T, SQUARED>(m, windows, min(y0 + r, m.orows - 1),
                                     min(x0 + g * static_cast<int>(blockDim.x), m.ocols - 1), s1[g][r], s2[g][r]);
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            const int x = x0 + g * static_cast<int>(blockDim.x);
            const float4 v = shared_points[plan.element(min(x, m.ocols - 1))];
            const float c[BAND] = {v.x, v.y, v.z, v.w};
            float lower = INFINITY;
#pragma unroll
            for (int r = 0; r < BAND; ++r) {
                if (y0 + r >= m.orows || x >= m.ocols)
                    break;
                const MatchRange range = writer.write(y0 + r, x, static_cast<double>(c[r]), s1[g][r], s2[g][r]);
                lower = fminf(lower, range.lower);
                upper = fminf(upper, range.upper);
            }
            lower = cusi::warpMin(lower);
            if (threadIdx.x % 32 == 0 && x < m.ocols)
                scores.tile_lowers[(static_cast<size_t>(writer.k) * scores.tiles_down + blockIdx.x) * scores.tiles_across +
                                   x / 32] = lower;
        }
    }
    return upper;
}

// A block computes a band for one template.
template<class T, int CN, bool SQUARED>
__global__ void __launch_bounds__(fft::MAX_THREADS, 2)
    scoresFftKernel(const __grid_constant__ MatchModel m, const __grid_constant__ BlockFft fft,
                    const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                    const __grid_constant__ Energy energy, const __grid_constant__ Scores scores) {
    const fft::Plan &plan = fft.rows;
    const int k = blockIdx.y, y0 = blockIdx.x * BAND;
    loadProducts(fft, plan, fft.products + static_cast<size_t>(k) * fft.tiles * fft.product_pitch + y0);
    fft::innerPass(plan, shared_points);
    fft::middlePass<fft::Direction::INVERSE>(plan, shared_points);
    fft::inverseOuterPass(plan, shared_points, [&](int, float2 *from, const float2 &v) { *from = v; });
    __syncthreads();

    const ScoreWriter<CN, SQUARED> writer = {m, scores,           templates.sums[k],  frameShift<T>(m, windows.shift),
                                             k, energy.errors[k], isUsable(m, energy)};
    const float upper = cusi::blockMin(writeScores<T>(m, plan, windows, scores, writer, y0));
    if (threadIdx.x == 0)
        scores.block_uppers[static_cast<size_t>(k) * scores.upper_count + blockIdx.x] = upper;
}

using Kernel = void (*)(MatchModel, BlockFft, Templates, Windows, Energy, Scores);

template<bool SQUARED>
Kernel kernelFor(const MatchModel &m) {
    return !m.integer && m.channels == 1 ? scoresFftKernel<float, 1, SQUARED>
           : !m.integer                  ? scoresFftKernel<float, MATCH_MAX_CHANNELS, SQUARED>
           : m.channels == 1             ? scoresFftKernel<uint8_t, 1, SQUARED>
           : m.channels == 3             ? scoresFftKernel<uint8_t, 3, SQUARED>
                                         : scoresFftKernel<uint8_t, MATCH_MAX_CHANNELS, SQUARED>;
}

} // namespace

cusStatus allowScoresFftMemory(const MatchModel &m, int bytes) {
    for (const Kernel kernel : {kernelFor<false>(m), kernelFor<true>(m)})
        CUS_TRY(allowSharedMemory(reinterpret_cast<const void *>(kernel), bytes));
    return CUS_OK;
}

cusStatus launchScoresFft(const Stages &stages, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    const bool squared = m.method == CUS_MATCH_SQDIFF;
    return cusi::launchOverlapped("cusMatcherRun", squared ? kernelFor<true>(m) : kernelFor<false>(m),
                                  dim3(stages.scores.tiles_down, m.count), stages.block_fft.rows.threads,
                                  rowFftBytes(stages), stream, m, stages.block_fft, stages.templates, stages.windows,
                                  stages.energy, stages.scores);
}

} // namespace cusi::match
