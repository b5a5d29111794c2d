// Matches frames whose rows or columns do not fit into shared memory, by cuFFT: makes shifted planes of floats and their
// energy, chooses sizes and plans, multiplies the spectra, and computes scores.
#include "match/cuda/scores.cuh"

namespace cusi::match {

namespace {

// ---- Planes

// Writes the row of a channel again, times 2^level, if its sum of squares asks for a level.
__device__ __noinline__ void repeatAtLevel(const MatchModel &m, const float *pixels, double shift, int channels,
                                           int channel, float *row, double &squares) {
    const int level = levelOf(squares);
    if (!level)
        return;
    const float scale = scalbnf(1, level), scaled_shift = static_cast<float>(shift) * scale;
    double sum = 0;
    for (int x = threadIdx.x; x < m.cols; x += THREADS) {
        const float v = fmaf(pixels[static_cast<size_t>(x) * channels + channel], scale, -scaled_shift);
        sum += static_cast<double>(v) * v;
        row[x] = v;
    }
    sum = cusi::blockSumToFirst(sum);
    if (threadIdx.x == 0 && !isfinite(squares))
        squares = ldexp(sum, -2 * level);
}

// A block makes one row of all planes.
template<class T, int CN>
__global__ void __launch_bounds__(THREADS)
    planesKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                 const __grid_constant__ CuFft fft, const __grid_constant__ Energy energy) {
    cusi::startInOrder();
    const int y = blockIdx.x;
    const bool filled = y < m.rows;
    const T *row = cusi::rowOf(static_cast<const T *>(frame.data), frame.step, filled ? y : 0);
    const double *shift = frameShift<T>(m, frame.shift);
    double sums[CN] = {};
#pragma unroll 4
    for (int x = threadIdx.x; x < fft.cols; x += THREADS) {
        const bool inside = filled && x < m.cols;
#pragma unroll
        for (int c = 0; c < CN; ++c) {
            const float v =
                inside ? static_cast<float>(__ldg(row + static_cast<size_t>(x) * CN + c)) - static_cast<float>(shift[c])
                       : 0.0f;
            sums[c] += static_cast<double>(v) * v;
            fft.planes[(static_cast<size_t>(c) * fft.rows + y) * fft.cols + x] = v;
        }
    }
    if (!filled)
        return;
#pragma unroll
    for (int p = 0; p < CN; ++p) {
        const double sum = cusi::blockSumToFirst(sums[p]);
        if (threadIdx.x == 0)
            energy.parts[static_cast<size_t>(p) * energy.part_count + y] = sum;
    }
    if constexpr (sizeof(T) > 1) {
        __syncthreads();
#pragma unroll 1
        for (int c = 0; c < CN; ++c)
            repeatAtLevel(m, row, shift[c], CN, c, fft.planes + (static_cast<size_t>(c) * fft.rows + y) * fft.cols,
                          energy.parts[static_cast<size_t>(c) * energy.part_count + y]);
    }
}

// Brings all rows to the frame's level.
__global__ void __launch_bounds__(THREADS)
    levelPlanesKernel(const __grid_constant__ MatchModel m, const __grid_constant__ CuFft fft,
                      const __grid_constant__ Energy energy) {
    cusi::startInOrder();
    if (!hasLevels(m, energy))
        return;
    const int least = leastLevel(m, energy);
    for (int i = blockIdx.x; i < m.channels * m.rows; i += gridDim.x) {
        const float scale = toLevel(least, energy.parts[i]);
        float *row = fft.planes + (static_cast<size_t>(i / m.rows) * fft.rows + i % m.rows) * fft.cols;
        for (int x = threadIdx.x; x < m.cols; x += THREADS)
            row[x] *= scale;
    }
}

// ---- Spectra

// Multiplies the frame's spectra by the conjugates of the templates' spectra.
__device__ void multiplySpectra(const MatchModel &m, const CuFft &fft, int block, int blocks) {
    const size_t spectrum = static_cast<size_t>(fft.rows) * (fft.cols / 2 + 1);
    for (size_t i = static_cast<size_t>(block) * THREADS + threadIdx.x; i < spectrum;
         i += static_cast<size_t>(blocks) * THREADS) {
        cufftComplex image[MATCH_MAX_CHANNELS];
#pragma unroll
        for (int p = 0; p < MATCH_MAX_CHANNELS; ++p)
            if (p < m.channels)
                image[p] = fft.spectra[p * spectrum + i];
        for (int k = 0; k < m.count; ++k) {
            cufftComplex sum = {0, 0};
#pragma unroll
            for (int p = 0; p < MATCH_MAX_CHANNELS; ++p)
                if (p < m.channels) {
                    const cufftComplex a = image[p],
                                       b = fft.template_spectra[(static_cast<size_t>(k) * m.channels + p) * spectrum + i];
                    sum.x += a.x * b.x + a.y * b.y;
                    sum.y += a.y * b.x - a.x * b.y;
                }
            fft.products[k * spectrum + i] = sum;
        }
    }
}

// The first `window_blocks` blocks make window sums, the next the energy, all others the product.
template<class T>
__global__ void __launch_bounds__(THREADS)
    columnsKernel(const __grid_constant__ MatchModel m, const __grid_constant__ CuFft fft,
                  const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                  const __grid_constant__ Energy energy, int window_blocks) {
    cusi::startInOrder();
    const int block = blockIdx.x;
    if (block < window_blocks)
        sumWindowRow<T>(m, windows, block);
    else if (block == window_blocks)
        addEnergy(m, templates, energy, frameShift<T>(m, windows.shift));
    else
        multiplySpectra(m, fft, block - window_blocks - 1, gridDim.x - window_blocks - 1);
}

// ---- Scores

constexpr int TILE_COLS = 64, TILE_ROWS = 32, ITEMS = 8; // ITEMS scores a thread
static_assert(ITEMS * THREADS == TILE_COLS * TILE_ROWS, "a block's threads cover its tile");

// A block computes one tile for one template.
template<class T, int CN, bool SQUARED>
__global__ void __launch_bounds__(THREADS)
    scoresKernel(const __grid_constant__ MatchModel m, const __grid_constant__ CuFft fft,
                 const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                 const __grid_constant__ Energy energy, const __grid_constant__ Scores scores) {
    cusi::startInOrder();
    const int k = blockIdx.z, tile_x = blockIdx.x, tile_y = blockIdx.y;
    const int x0 = tile_x * TILE_COLS, y0 = tile_y * TILE_ROWS;
    const ScoreWriter<CN, SQUARED> writer = {m, scores,           templates.sums[k],  frameShift<T>(m, windows.shift),
                                             k, energy.errors[k], isUsable(m, energy)};
    const auto rowOfScore = [&](int i) { return y0 + i * 4 + static_cast<int>(threadIdx.x) / TILE_COLS; };
    const int x = x0 + static_cast<int>(threadIdx.x) % TILE_COLS, column = min(x, m.ocols - 1);
    const float *correlation = fft.correlations + static_cast<size_t>(k) * fft.rows * fft.cols;
    // All loads come before the first store, so that they overlap.
    double c[ITEMS], s1[ITEMS][CN] = {}, s2[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int y = min(rowOfScore(i), m.orows - 1);
        c[i] = static_cast<double>(correlation[static_cast<size_t>(y) * fft.cols + column]);
        windowAt<T, SQUARED>(m, windows, y, column, s1[i], s2[i]);
    }
    MatchRange least = {INFINITY, INFINITY};
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int y = rowOfScore(i);
        if (y >= m.orows || x >= m.ocols)
            continue;
        const MatchRange range = writer.write(y, x, c[i], s1[i], s2[i]);
        least.lower = fminf(least.lower, range.lower);
        least.upper = fminf(least.upper, range.upper);
    }
    const size_t tile = (static_cast<size_t>(k) * scores.tiles_down + tile_y) * scores.tiles_across + tile_x;
    const float lower = cusi::blockMin(least.lower), upper = cusi::blockMin(least.upper);
    if (threadIdx.x == 0) {
        scores.tile_lowers[tile] = lower;
        scores.block_uppers[tile] = upper;
    }
}

// ---- Host

template<bool SQUARED>
auto scoresKernelFor(const MatchModel &m) {
    return !m.integer && m.channels == 1 ? scoresKernel<float, 1, SQUARED>
           : !m.integer                  ? scoresKernel<float, MATCH_MAX_CHANNELS, SQUARED>
           : m.channels == 1             ? scoresKernel<uint8_t, 1, SQUARED>
                                         : scoresKernel<uint8_t, MATCH_MAX_CHANNELS, SQUARED>;
}

// Divides n by its prime factors up to `largest`.
int withoutFactors(int n, int largest) {
    for (int prime : {2, 3, 5, 7})
        while (prime <= largest && n % prime == 0)
            n /= prime;
    return n;
}

// Returns the smallest size from n up that is a multiple of `multiple` and 2^a 3^b, for which cuFFT is fastest, if it
// exceeds n by 7 % at most; otherwise 2^a 3^b 5^c 7^d.
int smoothSize(int n, int multiple) {
    const int first = cusi::divUp(n, multiple) * multiple;
    for (int size = first; size <= n + n / 14; size += multiple)
        if (withoutFactors(size, 3) == 1)
            return size;
    int size = first;
    while (withoutFactors(size, 7) != 1)
        size += multiple;
    return size;
}

} // namespace

cusStatus chooseCufftSize(const MatchModel &m, CuFft *fft) {
    CUSI_REQUIRE(m.rows < (1 << 28) && m.cols < (1 << 28), CUS_ERROR_SIZE,
                 "cusMatcherCreate: a frame of %d x %d is too large for the FFT", m.rows, m.cols);
    fft->rows = smoothSize(m.rows, 1);
    fft->cols = smoothSize(m.cols, 4); // aligns rows of floats to 16 bytes
    return CUS_OK;
}

// Plans the transforms of the frame's planes and of the templates' products, which share one work area.
cusStatus makeCufftPlans(MatchCuda *cuda, cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    const MatchModel &m = cuda->stages.model;
    long long n[2] = {cuda->stages.cufft.rows, cuda->stages.cufft.cols}, real[2] = {n[0], n[1]};
    long long complex[2] = {n[0], n[1] / 2 + 1};
    const long long plane = n[0] * n[1], spectrum = n[0] * complex[1];
    size_t sizes[2] = {0, 0};
    MATCH_CUFFT(f, cufftCreate(&cuda->forward));
    MATCH_CUFFT(f, cufftSetAutoAllocation(cuda->forward, 0));
    MATCH_CUFFT(f, cufftMakePlanMany64(cuda->forward, 2, n, real, 1, plane, complex, 1, spectrum, CUFFT_R2C, m.channels,
                                       &sizes[0]));
    MATCH_CUFFT(f, cufftCreate(&cuda->inverse));
    MATCH_CUFFT(f, cufftSetAutoAllocation(cuda->inverse, 0));
    MATCH_CUFFT(
        f, cufftMakePlanMany64(cuda->inverse, 2, n, complex, 1, spectrum, real, 1, plane, CUFFT_C2R, m.count, &sizes[1]));
    char *work = nullptr;
    CUS_TRY(allocate(cuda, &work, std::max(sizes[0], sizes[1]), stream));
    MATCH_CUFFT(f, cufftSetWorkArea(cuda->forward, work));
    MATCH_CUFFT(f, cufftSetWorkArea(cuda->inverse, work));
    return CUS_OK;
}

cusStatus runCufft(const MatchCuda &cuda, const Stages &stages, int window_blocks, cudaStream_t stream) {
    const char *f = "cusMatcherRun";
    const MatchModel &m = stages.model;
    const CuFft &fft = stages.cufft;
    const Scores &scores = stages.scores;
    const auto planes = !m.integer        ? (m.channels == 1   ? planesKernel<float, 1>
                                             : m.channels == 2 ? planesKernel<float, 2>
                                             : m.channels == 3 ? planesKernel<float, 3>
                                                               : planesKernel<float, 4>)
                        : m.channels == 1 ? planesKernel<uint8_t, 1>
                        : m.channels == 2 ? planesKernel<uint8_t, 2>
                        : m.channels == 3 ? planesKernel<uint8_t, 3>
                                          : planesKernel<uint8_t, 4>;
    CUS_TRY(cusi::launchOverlapped(f, planes, fft.rows, THREADS, 0, stream, m, stages.frame, fft, stages.energy));
    if (!m.integer)
        CUS_TRY(
            cusi::launchOverlapped(f, levelPlanesKernel, cuda.multiprocessors, THREADS, 0, stream, m, fft, stages.energy));
    MATCH_CUFFT(f, cufftSetStream(cuda.forward, stream));
    MATCH_CUFFT(f, cufftExecR2C(cuda.forward, fft.planes, fft.spectra));
    const long long spectrum = static_cast<long long>(fft.rows) * (fft.cols / 2 + 1);
    const int product_blocks =
        static_cast<int>(std::min(16LL * cuda.multiprocessors, cusi::divUp<long long>(spectrum, THREADS)));
    CUS_TRY(cusi::launchOverlapped(f, m.integer ? columnsKernel<uint8_t> : columnsKernel<float>,
                                   window_blocks + 1 + product_blocks, THREADS, prefixBytes(stages), stream, m, fft,
                                   stages.templates, stages.windows, stages.energy, window_blocks));
    MATCH_CUFFT(f, cufftSetStream(cuda.inverse, stream));
    MATCH_CUFFT(f, cufftExecC2R(cuda.inverse, fft.products, fft.correlations));
    const bool squared = m.method == CUS_MATCH_SQDIFF;
    return cusi::launchOverlapped(f, squared ? scoresKernelFor<true>(m) : scoresKernelFor<false>(m),
                                  dim3(scores.tiles_across, scores.tiles_down, m.count), THREADS, 0, stream, m, fft,
                                  stages.templates, stages.windows, stages.energy, scores);
}

} // namespace cusi::match
